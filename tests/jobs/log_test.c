/* tests/jobs/log_test.c - what a job logs: by its functions, and event by event. The conformance suite has
 * TensorBoard show it. */
#include "jobs/log.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/event_file.h"
#include "io/file.h"
#include "io/record_reader.h"
#include "jobs/log_nodes.h"
#include "protos/wire.h"
#include "tests/directory.h"
#include "tests/jobs/job_testing.h"
#include "tests/runner.h"

/* ---- what is in a log ---- */

typedef struct seen {
  int events, graphs, summaries, with_tag, statistics; /* with_tag: summaries that have `tag` */
  const char *tag;
  int64_t steps[20]; /* of those */
} seen_t;

static bool has_tag(weft_str_t summary, const char *tag) {
  weft_wire_field_t f, v;
  for (weft_wire_reader_t r = weft_wire_reader(summary); weft_wire_next(&r, &f);) {
    for (weft_wire_reader_t values = weft_wire_reader(f.bytes); weft_wire_next(&values, &v);) {
      if (v.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES) && weft_str_is(v.bytes, tag)) return true;
    }
  }
  return false;
}

static void look_at(seen_t *seen, weft_str_t event) {
  weft_wire_field_t f;
  int64_t step = 0;
  seen->events++;
  for (weft_wire_reader_t r = weft_wire_reader(event); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT)) step = (int64_t)f.value;
    seen->graphs += f.tag == WEFT_WIRE_TAG(WEFT_EVENT_GRAPH, WEFT_WIRE_BYTES);
    seen->statistics += f.tag == WEFT_WIRE_TAG(WEFT_EVENT_RUN_METADATA, WEFT_WIRE_BYTES);
    if (f.tag != WEFT_WIRE_TAG(WEFT_EVENT_SUMMARY, WEFT_WIRE_BYTES)) continue;
    seen->summaries++;
    if (seen->tag != NULL && has_tag(f.bytes, seen->tag) && seen->with_tag < 20)
      seen->steps[seen->with_tag++] = step;
  }
}

/* The path of the only file in `folder`. */
static void find_file(const char *folder, char *path, size_t size) {
  DIR *d = opendir(folder);
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  int n = 0;
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    if (e->d_name[0] == '.') continue;
    snprintf(path, size, "%s/%s", folder, e->d_name);
    n++;
  }
  closedir(d);
  CU_ASSERT_EQUAL(n, 1);
}

static seen_t read_log(const char *folder, const char *tag) {
  seen_t seen = {.tag = tag};
  char path[1000] = "";
  weft_byte_stream_t *stream = NULL;
  weft_str_t record;
  find_file(folder, path, sizeof path);
  weft_status_t *s = weft_byte_stream_open(path, WEFT_COMPRESSION_NONE, &stream);
  CU_ASSERT_PTR_NULL_FATAL(s);
  weft_record_reader_t r = {.stream = stream};
  for (bool is_end = false; s == NULL && !is_end;) {
    s = weft_record_reader_lend(&r, &record, &is_end);
    CU_ASSERT_PTR_NULL(s);
    if (s == NULL && !is_end) look_at(&seen, record);
  }
  weft_record_reader_deinit(&r);
  weft_byte_stream_close(stream);
  return seen;
}

/* ---- jobs ---- */

static const char *log_folder(void) {
  weft_test_directory();
  return weft_test_path("log");
}

static void log_job(WEFT_Job *job, const char *folder, int64_t every, int64_t profile_every) {
  WEFT_JobLogOptions options;
  WEFT_InitJobLogOptions(&options);
  options.every = every;
  options.profile_every = profile_every;
  WEFT_JobLog(job, folder, &options, job_status);
  must("WEFT_JobLog");
}

static void a_job_logs_its_steps(void) {
  char folder[500];
  snprintf(folder, sizeof folder, "%s", log_folder());
  WEFT_Job *job = counting_job(NULL, NULL, 0);
  WEFT_JobLog(job, folder, NULL, job_status);
  must("WEFT_JobLog");
  WEFT_JobLogHyperparameter(job, "rate", "0.5", job_status);
  must("WEFT_JobLogHyperparameter");
  run_to(job, 3);
  seen_t seen = read_log(folder, "performance/step_ms"); /* it is there before the job is deleted */
  CU_ASSERT_EQUAL(seen.graphs, 1);
  CU_ASSERT_EQUAL(seen.with_tag, 3);
  for (int i = 0; i < seen.with_tag; i++) CU_ASSERT_EQUAL(seen.steps[i], i + 1);
  run_to(job, 5);
  CU_ASSERT_EQUAL(read_log(folder, "performance/step_ms").with_tag, 5);
  CU_ASSERT_EQUAL(read_log(folder, "_hparams_/session_end_info").with_tag, 0);
  WEFT_DeleteJob(job);
  CU_ASSERT_EQUAL(read_log(folder, "_hparams_/session_end_info").with_tag, 1);
  CU_ASSERT_EQUAL(read_log(folder, "_hparams_/session_start_info").with_tag, 1);
}

/* Single steps are no ends of runs: only every n-th is written. */
static void some_steps_are_logged_and_some_are_traced(void) {
  char folder[500];
  snprintf(folder, sizeof folder, "%s", log_folder());
  WEFT_Job *job = counting_job(NULL, NULL, 0);
  log_job(job, folder, 3, 2);
  for (int i = 0; i < 7; i++) {
    WEFT_JobStep(job, job_status);
    must("WEFT_JobStep");
  }
  WEFT_DeleteJob(job);
  seen_t seen = read_log(folder, "performance/step_ms");
  CU_ASSERT_EQUAL(seen.with_tag, 2);
  CU_ASSERT_EQUAL(seen.steps[0], 3);
  CU_ASSERT_EQUAL(seen.steps[1], 6);
  CU_ASSERT_EQUAL(seen.statistics, 3);
}

static void a_log_is_described_before_the_job_begins(void) {
  WEFT_JobLogOptions options;
  WEFT_Job *job = counting_job(NULL, NULL, 0);
  WEFT_JobLog(job, "", NULL, job_status);
  must_fail(TF_INVALID_ARGUMENT, "which directory");
  WEFT_InitJobLogOptions(&options);
  options.every = 0;
  WEFT_JobLog(job, "log", &options, job_status);
  must_fail(TF_INVALID_ARGUMENT, "every is 0");
  memset(&options, 0, sizeof options);
  WEFT_JobLog(job, "log", &options, job_status);
  must_fail(TF_INVALID_ARGUMENT, "WEFT_InitJobLogOptions");
  WEFT_JobLogHyperparameter(job, "", "1", job_status);
  must_fail(TF_INVALID_ARGUMENT, "name");
  WEFT_JobLogHyperparameter(job, "a", "\xff", job_status);
  must_fail(TF_INVALID_ARGUMENT, "UTF-8");
  run_to(job, 1); /* without a log */
  WEFT_JobLog(job, "log", NULL, job_status);
  must_fail(TF_FAILED_PRECONDITION, "WEFT_JobLog");
  WEFT_JobLogHyperparameter(job, "a", "1", job_status);
  must_fail(TF_FAILED_PRECONDITION, "WEFT_JobLogHyperparameter");
  WEFT_DeleteJob(job);
}

static void a_log_that_cannot_be_written_fails_the_job(void) {
  char folder[500], path[1000];
  snprintf(folder, sizeof folder, "%s", log_folder());
  WEFT_Job *job = counting_job(NULL, NULL, 0);
  log_job(job, folder, 1, 0);
  run_to(job, 2);
  find_file(folder, path, sizeof path);
  CU_ASSERT_EQUAL(unlink(path), 0);
  WEFT_JobRun(job, 4, job_status);
  must_fail(TF_UNKNOWN, path);
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_FAILED);
  WEFT_DeleteJob(job);
  snprintf(folder, sizeof folder, "%s", log_folder());
  weft_status_t *s = weft_file_append(folder, "x", 1); /* a file of the name */
  CU_ASSERT_PTR_NULL(s);
  job = counting_job(NULL, NULL, 0);
  log_job(job, folder, 1, 0);
  WEFT_JobInitialise(job, job_status);
  CU_ASSERT_NOT_EQUAL(TF_GetCode(job_status), TF_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(job_status), folder));
  WEFT_DeleteJob(job);
}

/* ---- events ---- */

static void statistics_of_one_step_are_one_event(void) {
  char folder[500];
  weft_job_log_t *l = NULL;
  snprintf(folder, sizeof folder, "%s", log_folder());
  weft_status_t *s = weft_job_log_create(folder, 1, &l);
  CU_ASSERT_PTR_NULL_FATAL(s);
  static const int64_t steps[] = {5, 5, 5, 10, 10, 15};
  for (size_t i = 0; s == NULL && i < sizeof steps / sizeof *steps; i++)
    s = weft_job_log_statistics(l, steps[i],
                                WEFT_STR("\n"
                                         "\x00"));
  CU_ASSERT_PTR_NULL(s);
  s = weft_job_log_close(l, true);
  CU_ASSERT_PTR_NULL(s);
  CU_ASSERT_EQUAL(read_log(folder, NULL).statistics, 3);
}

static weft_status_t *write_all(void) {
  const weft_event_hparam_t hparams[] = {{WEFT_STR("a"), WEFT_STR("1")}, {WEFT_STR("b"), WEFT_STR("x|y\n")}};
  const float number = 0.5f;
  weft_job_log_t *l = NULL;
  weft_tensor_t *values[2] = {NULL, NULL};
  weft_status_t *s = weft_job_log_create(weft_test_path("log"), 1, &l);
  if (s == NULL) s = weft_tensor_scalar(WEFT_F32, &number, &values[0]);
  if (s == NULL) s = weft_tensor_string(WEFT_STR("a text"), &values[1]);
  if (s == NULL) s = weft_job_log_begin(l, 0);
  if (s == NULL) s = weft_job_log_graph(l, WEFT_STR("graph"));
  if (s == NULL) s = weft_job_log_rewritten(l, WEFT_STR("graph"));
  if (s == NULL) s = weft_job_log_hparams(l, hparams, 2);
  if (s == NULL) {
    const weft_job_log_value_t logged[] = {
        {WEFT_STR("number"), values[0]}, {WEFT_STR("text"), values[1]}, {WEFT_STR("none"), NULL}};
    weft_job_log_start_clock(l, 0);
    weft_job_log_rows(l, 8);
    s = weft_job_log_step(l, 1, logged, 3);
  }
  if (s == NULL) s = weft_job_log_statistics(l, 1, WEFT_STR("statistics"));
  if (s == NULL) s = weft_job_log_waits(l, 1, 0.5, 2);
  weft_tensor_release(values[0]);
  weft_tensor_release(values[1]);
  return weft_status_join(s, weft_job_log_close(l, true));
}

/* ---- learning rates and norms ---- */

static TF_Graph *mlp(void) {
  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *bytes = graph_of_file(MLP);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(graph, bytes, options, job_status);
  must("TF_GraphImportGraphDef");
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(bytes);
  return graph;
}

static weft_status_t *find_wishes(TF_Graph *graph, bool with_norms, int *num_rates, int *num_norms) {
  const TF_Operation *train = TF_GraphOperationByName(graph, "train");
  const weft_job_names_t fed = {0};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_strbuf_t nodes = WEFT_STRBUF_INIT;
  weft_job_log_wishes_t wishes;
  *num_rates = *num_norms = 0;
  weft_status_t *s = weft_job_log_wishes_find(graph, &train, 1, &fed, with_norms, &arena, &nodes, &wishes);
  for (int i = 0; i < wishes.n; i++) {
    *num_rates += weft_str_starts_with(wishes.items[i].tag, "learning_rate");
    *num_norms += weft_str_starts_with(wishes.items[i].tag, "gradient_norm/") ||
                  weft_str_starts_with(wishes.items[i].tag, "weight_norm/");
  }
  CU_ASSERT_EQUAL(nodes.length > 0, s == NULL ? with_norms : nodes.length > 0);
  weft_job_log_wishes_deinit(&wishes);
  weft_strbuf_deinit(&nodes);
  weft_arena_deinit(&arena);
  return s;
}

static void rates_and_norms_are_found_at_the_updates(void) {
  TF_Graph *graph = mlp();
  int rates = 0, norms = 0;
  long n;
  CU_ASSERT_PTR_NOT_NULL_FATAL(TF_GraphOperationByName(graph, "train"));
  weft_status_t *s = find_wishes(graph, false, &rates, &norms);
  CU_ASSERT_PTR_NULL(s);
  CU_ASSERT_EQUAL(rates, 1);
  CU_ASSERT_EQUAL(norms, 0);
  s = find_wishes(graph, true, &rates, &norms);
  CU_ASSERT_PTR_NULL(s);
  CU_ASSERT_EQUAL(rates, 1);
  CU_ASSERT_TRUE(norms >= 4 && norms % 2 == 0);
  WEFT_FAIL_EACH_ALLOCATION(n, failure, find_wishes(graph, true, &rates, &norms));
  CU_ASSERT_TRUE(n > 5);
  TF_DeleteGraph(graph);
}

static void norms_are_logged_and_the_graph_is_the_program_s(void) {
  static const char *const strategies[] = {NULL, "mirrored:2"};
  for (int i = 0; i < 2; i++) {
    char folder[500];
    WEFT_JobLogOptions options;
    snprintf(folder, sizeof folder, "%s", log_folder());
    WEFT_Job *job = training_job(NULL, strategies[i], NULL, 0);
    WEFT_InitJobLogOptions(&options);
    options.norms = 1;
    WEFT_JobLog(job, folder, &options, job_status);
    must("WEFT_JobLog");
    run_to(job, 4);
    CU_ASSERT_PTR_NULL(WEFT_JobValue(job, -1));
    WEFT_DeleteJob(job);
    CU_ASSERT_EQUAL(read_log(folder, "learning_rate").with_tag, 4);
    CU_ASSERT_EQUAL(read_log(folder, "loss").with_tag, 4);
  }
}

static void each_failing_allocation_is_reported(void) {
  long n;
  weft_test_directory();
  WEFT_FAIL_EACH_ALLOCATION(n, s, write_all());
  CU_ASSERT_TRUE(n > 5);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a_job_logs_its_steps", a_job_logs_its_steps},
      {"some_steps_are_logged_and_some_are_traced", some_steps_are_logged_and_some_are_traced},
      {"a_log_is_described_before_the_job_begins", a_log_is_described_before_the_job_begins},
      {"a_log_that_cannot_be_written_fails_the_job", a_log_that_cannot_be_written_fails_the_job},
      {"rates_and_norms_are_found_at_the_updates", rates_and_norms_are_found_at_the_updates},
      {"norms_are_logged_and_the_graph_is_the_program_s", norms_are_logged_and_the_graph_is_the_program_s},
      {"statistics_of_one_step_are_one_event", statistics_of_one_step_are_one_event},
      {"each_failing_allocation_is_reported", each_failing_allocation_is_reported},
      CU_TEST_INFO_NULL,
  };
  job_status = TF_NewStatus();
  int code = weft_run_tests("log", tests);
  TF_DeleteStatus(job_status);
  return code;
}
