/* tests/jobs/job_test.c - a job in this process: its states, its inputs, what stops it, what it goes on from.
 */
#include "weft/job.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mutex.h"
#include "jobs/c_api.h"
#include "jobs/job.h"
#include "tests/directory.h"
#include "tests/jobs/job_testing.h"
#include "tests/runner.h"
#include "tests/tools/graphs.h"

static bool is_there(const char *name) { return access(weft_test_path(name), F_OK) == 0; }

/* ---- what a callback sees ---- */

typedef struct seen {
  int64_t steps, last; /* calls; the last step */
  int64_t stop_at;     /* the callback asks for an end after it; 0: never */
  bool stops_job;      /* with WEFT_JobStop */
  WEFT_JobState state; /* in the last call */
  float value;
  int saved, resumed, restored, nothing;
  int64_t saved_step;
  char note[200];
} seen_t;

static int on_step(void *arg, WEFT_Job *job, int64_t step) {
  seen_t *s = arg;
  CU_ASSERT_EQUAL(step, s->last + 1); /* no step twice, none left out */
  s->steps++;
  s->last = step;
  s->state = WEFT_JobGetState(job);
  s->value = value_of(job, 0);
  CU_ASSERT_EQUAL(WEFT_JobStepsDone(job), step);
  if (s->stops_job && step == s->stop_at) WEFT_JobStop(job);
  return !s->stops_job && step == s->stop_at;
}

static void on_event(void *arg, WEFT_Job *job, const WEFT_JobEvent *e) {
  seen_t *s = arg;
  s->saved += e->kind == WEFT_JOB_EVENT_SAVED;
  s->resumed += e->kind == WEFT_JOB_EVENT_RESUMED;
  s->restored += e->kind == WEFT_JOB_EVENT_RESTORED;
  s->nothing += e->kind == WEFT_JOB_EVENT_NOTHING_TO_RESUME;
  if (e->kind == WEFT_JOB_EVENT_SAVED) s->saved_step = e->saved_step;
  if (e->kind == WEFT_JOB_EVENT_SAVED) CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_SAVING);
  if (e->kind == WEFT_JOB_EVENT_RESUMED) s->last = e->step;
  snprintf(s->note, sizeof s->note, "%s", e->note == NULL ? "" : e->note);
}

static void look(WEFT_Job *job, seen_t *seen) {
  WEFT_JobOnStep(job, on_step, seen, job_status);
  must("WEFT_JobOnStep");
  WEFT_JobOnEvent(job, on_event, seen, job_status);
  must("WEFT_JobOnEvent");
}

/* ---- steps ---- */

static void a_job_runs_step_by_step(void) {
  seen_t seen = {0};
  WEFT_Job *job = counting_job(NULL, NULL, 0);
  look(job, &seen);
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_CREATED);
  CU_ASSERT_PTR_NULL(WEFT_JobValue(job, 0));
  WEFT_JobInitialise(job, job_status);
  must("WEFT_JobInitialise");
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_INITIALISED);
  CU_ASSERT_EQUAL(WEFT_JobStepsDone(job), 0);
  run_to(job, 3);
  CU_ASSERT_EQUAL(seen.steps, 3);
  CU_ASSERT_EQUAL(seen.state, WEFT_JOB_RUNNING);
  CU_ASSERT_EQUAL(seen.value, 13);
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_INITIALISED);
  WEFT_JobStep(job, job_status);
  must("WEFT_JobStep");
  run_to(job, 6);
  run_to(job, 2); /* they are done */
  CU_ASSERT_EQUAL(WEFT_JobStepsDone(job), 6);
  CU_ASSERT_EQUAL(value_of(job, 0), 16);
  CU_ASSERT_PTR_NULL(WEFT_JobValue(job, 1));
  CU_ASSERT_PTR_NULL(WEFT_JobValue(job, -1));
  CU_ASSERT_PTR_NULL(WEFT_JobLastCheckpoint(job));
  WEFT_DeleteJob(job);
  WEFT_DeleteJob(NULL);
}

static void a_job_that_is_not_initialised_initialises_itself(void) {
  WEFT_Job *job = counting_job(NULL, NULL, 0);
  run_to(job, 2);
  CU_ASSERT_EQUAL(value_of(job, 0), 12);
  WEFT_DeleteJob(job);
  job = counting_job(NULL, NULL, 0);
  WEFT_JobStep(job, job_status);
  must("WEFT_JobStep");
  CU_ASSERT_EQUAL(value_of(job, 0), 11);
  WEFT_DeleteJob(job);
}

/* A loop of one device computes what any strategy computes in step; and several runs of few steps are one of
 * many. */
static void strategies_in_step_and_runs_in_pieces_give_the_same(void) {
  static const char *const strategies[] = {NULL, "mirrored:2", "parameter_server:mode=sync,workers=2",
                                           "central_storage:2"};
  float wanted = 0;
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    WEFT_Job *job = training_job(NULL, strategies[i], NULL, 0);
    if (i == 0) run_to(job, 17);
    for (int64_t step = 2; i > 0 && step <= 16; step += 2) run_to(job, step);
    if (i > 0) WEFT_JobStep(job, job_status);
    must("WEFT_JobStep");
    if (i == 0) wanted = value_of(job, 0);
    CU_ASSERT_DOUBLE_EQUAL(value_of(job, 0), wanted, 1e-5);
    WEFT_DeleteJob(job);
  }
}

/* Several worker loops: all steps are done, in pieces, too, and none is told twice. */
static void worker_loops_share_the_steps(void) {
  static const char *const strategies[] = {"parameter_server:workers=3",
                                           "parameter_server:mode=ssp,workers=2,staleness=0",
                                           "parameter_server:mode=sync,workers=2,split=false"};
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    seen_t seen = {0};
    WEFT_Job *job = training_job(NULL, strategies[i], NULL, 0);
    look(job, &seen);
    run_to(job, 5);
    for (int k = 0; k < 5; k++) WEFT_JobStep(job, job_status);
    must(strategies[i]);
    run_to(job, 17);
    CU_ASSERT_EQUAL(seen.steps, 17);
    CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_INITIALISED);
    CU_ASSERT_TRUE(value_of(job, 0) > 0);
    WEFT_DeleteJob(job);
  }
}

/* Its late workers are cancelled at the end, so there is one run; it can be resumed. */
static void backup_workers_run_once(void) {
  weft_test_directory();
  WEFT_Job *job = training_job(NULL, "parameter_server:mode=sync,workers=2,backup=1", weft_test_path("m"), 0);
  run_to(job, 8);
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_STOPPED);
  CU_ASSERT_EQUAL(WEFT_JobStepsDone(job), 8);
  CU_ASSERT_TRUE(is_there("m-8.index"));
  WEFT_JobResume(job, job_status);
  must("WEFT_JobResume");
  run_to(job, 11);
  CU_ASSERT_EQUAL(WEFT_JobStepsDone(job), 11);
  WEFT_DeleteJob(job);
}

/* The update of the first step ends before any worker's run, whose fetch comes after its gradients. */
#define SLOW                                                                                                     \
  NODE("slow/shape", "Const",                                                                                  \
       TYPE("dtype", "DT_INT32") "attr { key: \"value\" value { tensor { dtype: DT_INT32 tensor_shape { dim { " \
                                 "size: 2 } } int_val: 600 } } }") \
  NODE("slow/axes", "Const",                                                                                   \
       TYPE("dtype", "DT_INT32") "attr { key: \"value\" value { tensor { dtype: DT_INT32 tensor_shape { dim { " \
                                 "size: 2 } } tensor_content: \"\\0\\0\\0\\0\\1\\0\\0\\0\" } } }") \
  NODE("slow/m", "RandomUniform",                                                                                \
       "input: \"slow/shape\" input: \"^train\" " TYPE("dtype", "DT_FLOAT") TYPE("T", "DT_INT32"))               \
  NODE("slow/m2", "MatMul", "input: \"slow/m\" input: \"slow/m\" " TYPE("T", "DT_FLOAT"))                        \
  NODE("slow/m4", "MatMul", "input: \"slow/m2\" input: \"slow/m2\" " TYPE("T", "DT_FLOAT"))                      \
  NODE("slow/m8", "MatMul", "input: \"slow/m4\" input: \"slow/m4\" " TYPE("T", "DT_FLOAT"))                      \
  NODE("slow", "Mean",                                                                                           \
       "input: \"slow/m8\" input: \"slow/axes\" " TYPE("T", "DT_FLOAT") TYPE("Tidx", "DT_INT32"))

static int expect_a_value(void *arg, WEFT_Job *job, int64_t step) {
  CU_ASSERT_TRUE(value_of(job, 0) > 0);
  *(int64_t *)arg = step;
  return 0;
}

static void each_step_that_is_told_has_values(void) {
  TF_Buffer *mlp = graph_of_file(MLP), *slow = graph_of_text(SLOW);
  weft_strbuf_t both = WEFT_STRBUF_INIT; /* messages one behind the other are merged */
  weft_strbuf_append(&both, weft_str_of(mlp->data, mlp->length));
  weft_strbuf_append(&both, weft_str_of(slow->data, slow->length));
  int64_t told = 0;
  WEFT_Job *job = training_job_of(TF_NewBufferFromString(both.data, both.length), "slow", NULL,
                                  "parameter_server:mode=sync,workers=3,backup=1", NULL, 0);
  WEFT_JobOnStep(job, expect_a_value, &told, job_status);
  must("WEFT_JobOnStep");
  run_to(job, 3);
  CU_ASSERT_EQUAL(told, 3);
  WEFT_DeleteJob(job);
  weft_strbuf_deinit(&both);
  TF_DeleteBuffer(mlp);
  TF_DeleteBuffer(slow);
}

/* ---- wrong calls ---- */

static void no_source(void *arg, int64_t batch, TF_Tensor **values, int num_values, TF_Status *status) {
  (void)arg, (void)batch, (void)values, (void)num_values, (void)status;
}

/* Calls each function that `state` does not permit: it fails, and the state stays. */
static void refuse_in(WEFT_Job *job, WEFT_JobState state, TF_Status *status) {
  static const char *const names[] = {"by"};
  bool is_created = state == WEFT_JOB_CREATED, is_ready = state == WEFT_JOB_INITIALISED,
       is_ended = state == WEFT_JOB_STOPPED || state == WEFT_JOB_FAILED;
  TF_Tensor *one = float_tensor(1);
#define REFUSED(permitted, call)                                                               \
  do {                                                                                         \
    if (permitted) break;                                                                      \
    call;                                                                                      \
    bool ok_ = TF_GetCode(status) == TF_FAILED_PRECONDITION && WEFT_JobGetState(job) == state; \
    if (!ok_) printf("\n    in state %d: %s: %s\n", (int)state, #call, TF_Message(status));    \
    CU_ASSERT_TRUE(ok_);                                                                       \
  } while (0)
  REFUSED(is_created, WEFT_JobAddInitialiser(job, "init", status));
  REFUSED(is_created, WEFT_JobAddTarget(job, "grow", status));
  REFUSED(is_created, CU_ASSERT_EQUAL(WEFT_JobAddFetch(job, "value", status), -1));
  REFUSED(is_created, WEFT_JobInputTensor(job, "by", one, WEFT_JOB_WHOLE, status));
  REFUSED(is_created, WEFT_JobInputFile(job, "by", "/none.npy", WEFT_JOB_WHOLE, status));
  REFUSED(is_created, WEFT_JobInputSource(job, names, 1, no_source, NULL, status));
  REFUSED(is_created, WEFT_JobOnStep(job, NULL, NULL, status));
  REFUSED(is_created, WEFT_JobOnEvent(job, NULL, NULL, status));
  REFUSED(is_created, WEFT_JobSaveEvery(job, "/tmp/no", 1, 0, status));
  REFUSED(is_created, WEFT_JobRestore(job, "/tmp/no", status));
  REFUSED(is_created, WEFT_JobInitialise(job, status));
  REFUSED(is_created || is_ended, WEFT_JobResume(job, status));
  REFUSED(is_created || is_ready, WEFT_JobRun(job, 100, status));
  REFUSED(is_created || is_ready, WEFT_JobStep(job, status));
  REFUSED(is_ready, WEFT_JobSave(job, status));
#undef REFUSED
  TF_DeleteTensor(one);
}

static TF_Status *inner_status; /* a callback's */

static int refuse_on_step(void *arg, WEFT_Job *job, int64_t step) {
  (void)arg, (void)step;
  refuse_in(job, WEFT_JOB_RUNNING, inner_status);
  return 0;
}

static void refuse_on_event(void *arg, WEFT_Job *job, const WEFT_JobEvent *e) {
  (void)arg;
  if (e->kind == WEFT_JOB_EVENT_SAVED) refuse_in(job, WEFT_JOB_SAVING, inner_status);
}

static void wrong_orders_are_refused_and_change_nothing(void) {
  weft_test_directory();
  inner_status = TF_NewStatus();
  WEFT_Job *job = counting_job(NULL, weft_test_path("m"), 0);
  WEFT_JobOnStep(job, refuse_on_step, NULL, job_status);
  WEFT_JobOnEvent(job, refuse_on_event, NULL, job_status);
  refuse_in(job, WEFT_JOB_CREATED, job_status);
  WEFT_JobInitialise(job, job_status);
  must("WEFT_JobInitialise");
  refuse_in(job, WEFT_JOB_INITIALISED, job_status);
  run_to(job, 2); /* RUNNING, SAVING */
  refuse_in(job, WEFT_JOB_INITIALISED, job_status);
  WEFT_JobStop(job);
  refuse_in(job, WEFT_JOB_STOPPED, job_status);
  WEFT_JobResume(job, job_status);
  must("WEFT_JobResume");
  run_to(job, 4);
  CU_ASSERT_EQUAL(value_of(job, 0), 14); /* all those calls have changed nothing */
  WEFT_DeleteJob(job);
  TF_DeleteStatus(inner_status);

  job = new_job(graph_of_text(COUNTER), NULL, NULL); /* its variable has no value */
  WEFT_JobAddTarget(job, "grow", job_status);
  WEFT_JobSaveEvery(job, weft_test_path("m"), 0, 0, job_status);
  WEFT_JobRun(job, 1, job_status);
  must_fail(TF_INVALID_ARGUMENT, "placeholder tensor 'by'");
  refuse_in(job, WEFT_JOB_FAILED, job_status);
  WEFT_DeleteJob(job);
}

static void wrong_names_and_values_are_refused(void) {
  WEFT_JobOptions options = {0};
  TF_Buffer *counter = graph_of_text(COUNTER), *garbage = TF_NewBufferFromString("\xff\xff", 2);
  CU_ASSERT_PTR_NULL(WEFT_NewJob(counter, NULL, &options, job_status));
  must_fail(TF_INVALID_ARGUMENT, "WEFT_InitJobOptions");
  WEFT_InitJobOptions(&options);
  options.batch = -1;
  CU_ASSERT_PTR_NULL(WEFT_NewJob(counter, NULL, &options, job_status));
  must_fail(TF_INVALID_ARGUMENT, "options.batch is -1");
  WEFT_InitJobOptions(&options);
  options.keep = -1;
  CU_ASSERT_PTR_NULL(WEFT_NewJob(counter, NULL, &options, job_status));
  must_fail(TF_INVALID_ARGUMENT, "options.keep is -1");
  WEFT_InitJobOptions(&options);
  options.container = "_a";
  CU_ASSERT_PTR_NULL(WEFT_NewJob(counter, NULL, &options, job_status));
  must_fail(TF_INVALID_ARGUMENT, "container '_a'");
  CU_ASSERT_PTR_NULL(WEFT_NewJob(garbage, NULL, NULL, job_status));
  must_fail(TF_INVALID_ARGUMENT, "");
  TF_DeleteBuffer(garbage);
  CU_ASSERT_PTR_NULL(WEFT_NewJob(NULL, NULL, NULL, job_status));
  must_fail(TF_INVALID_ARGUMENT, "which graph?");

  WEFT_Job *job = new_job(counter, NULL, NULL);
  TF_Tensor *one = float_tensor(1), *whole = mlp_y(0, 3);
  WEFT_JobAddInitialiser(job, "innit", job_status);
  must_fail(TF_NOT_FOUND, "initialiser innit: the graph has no such node; did you mean 'init'?");
  WEFT_JobAddTarget(job, "gro", job_status);
  must_fail(TF_NOT_FOUND, "target gro: the graph has no such node; did you mean 'grow'?");
  CU_ASSERT_EQUAL(WEFT_JobAddFetch(job, "grow", job_status), -1);
  must_fail(TF_NOT_FOUND, "run it with target");
  CU_ASSERT_EQUAL(WEFT_JobAddFetch(job, "value", job_status), 0);
  CU_ASSERT_EQUAL(WEFT_JobAddFetch(job, "ten", job_status), 1);
  CU_ASSERT_EQUAL(WEFT_JobAddFetch(job, "value:0", job_status), 0);
  WEFT_JobInputTensor(job, "by", one, WEFT_JOB_ROWS, job_status);
  must_fail(TF_INVALID_ARGUMENT, "input by: rows of it are fed, but options.batch is 0");
  WEFT_JobInputTensor(job, "by", whole, WEFT_JOB_WHOLE, job_status);
  must_fail(TF_INVALID_ARGUMENT, "input by: the array holds int32, but the graph expects float");
  WEFT_JobInputTensor(job, "by", NULL, WEFT_JOB_WHOLE, job_status);
  must_fail(TF_INVALID_ARGUMENT, "input by: the tensor is NULL");
  WEFT_JobInputFile(job, "by", NULL, WEFT_JOB_WHOLE, job_status);
  must_fail(TF_INVALID_ARGUMENT, "input by: the path is NULL");
  WEFT_JobInputFile(job, "by", "/no/such.npy", WEFT_JOB_WHOLE, job_status);
  must_fail(TF_NOT_FOUND, "input by");
  WEFT_JobSaveEvery(job, "m", 1, 1, job_status);
  must_fail(TF_INVALID_ARGUMENT, "not both");
  WEFT_JobSaveEvery(job, NULL, 1, 0, job_status);
  must_fail(TF_INVALID_ARGUMENT, "prefix");
  WEFT_JobSaveEvery(job, "", 1, 0, job_status);
  must_fail(TF_INVALID_ARGUMENT, "prefix");
  WEFT_JobRestore(job, NULL, job_status);
  must_fail(TF_INVALID_ARGUMENT, "NULL");
  WEFT_JobRestore(job, "", job_status);
  must_fail(TF_INVALID_ARGUMENT, "empty");
  WEFT_JobRun(job, -1, job_status);
  must_fail(TF_INVALID_ARGUMENT, "-1 steps");
  WEFT_JobResume(job, job_status);
  must_fail(TF_FAILED_PRECONDITION, "WEFT_JobSaveEvery");
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_CREATED);
  TF_DeleteTensor(one);
  TF_DeleteTensor(whole);
  WEFT_DeleteJob(job);
}

static void what_cannot_be_initialised_fails_with_its_cause(void) {
  static const struct {
    const char *strategy, *master;
    TF_Code code;
    const char *said;
  } cases[] = {
      {"mirorred:2", NULL, TF_NOT_FOUND, "did you mean 'mirrored'"},
      {"mirrored:2,x=1", NULL, TF_INVALID_ARGUMENT, "with strategy mirrored:2,x=1"},
      {NULL, "grpc://127.0.0.1:1", TF_UNAVAILABLE, "no server listens at grpc://127.0.0.1:1"},
      {NULL, "127.0.0.1:1", TF_INVALID_ARGUMENT, "master 127.0.0.1:1: give grpc://HOST:PORT"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    WEFT_Job *job = training_job(cases[i].master, cases[i].strategy, NULL, 0);
    WEFT_JobInitialise(job, job_status);
    must_fail(cases[i].code, cases[i].said);
    CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_FAILED);
    WEFT_DeleteJob(job);
  }
  WEFT_JobOptions options;
  WEFT_InitJobOptions(&options);
  options.strategy = "mirrored:2";
  WEFT_Job *job = new_job(graph_of_file(MLP), NULL, &options); /* nothing is fed */
  WEFT_JobAddTarget(job, "train", job_status);
  WEFT_JobInitialise(job, job_status);
  must_fail(TF_INVALID_ARGUMENT, "is missing: the graph has a placeholder of that name");
  WEFT_DeleteJob(job);
}

/* ---- sources ---- */

typedef struct feed { /* Batches of 12 rows of the MLP's data, in order; the last of an epoch has two. */
  int64_t ends_at, fails_at, bad_at; /* batches; 0: never */
  int64_t calls;
} feed_t;

static void give(void *arg, int64_t batch, TF_Tensor **values, int num_values, TF_Status *status) {
  feed_t *f = arg;
  f->calls++;
  CU_ASSERT_EQUAL(num_values, 2);
  if (f->ends_at > 0 && batch >= f->ends_at) return;
  if (f->fails_at > 0 && batch == f->fails_at) {
    f->fails_at = 0; /* once */
    TF_SetStatus(status, TF_DATA_LOSS, "the disk is gone");
    return;
  }
  int64_t at = batch % 5 * 12, rows = at + 12 <= MLP_ROWS ? 12 : MLP_ROWS - at;
  values[0] = mlp_x(at, rows);
  values[1] = mlp_y(at, batch == f->bad_at && f->bad_at > 0 ? rows - 1 : rows);
}

static WEFT_Job *fed_job(const char *strategy, const char *prefix, int64_t every, feed_t *feed) {
  static const char *const names[] = {"x", "y"};
  WEFT_JobOptions options;
  WEFT_InitJobOptions(&options);
  options.strategy = strategy;
  WEFT_Job *job = new_job(graph_of_file(MLP), NULL, &options);
  WEFT_JobAddInitialiser(job, "init", job_status);
  WEFT_JobAddTarget(job, "train", job_status);
  CU_ASSERT_EQUAL(WEFT_JobAddFetch(job, "loss", job_status), 0);
  WEFT_JobInputSource(job, names, 2, give, feed, job_status);
  must("WEFT_JobInputSource");
  if (prefix != NULL) WEFT_JobSaveEvery(job, prefix, every, 0, job_status);
  must("WEFT_JobSaveEvery");
  return job;
}

static void count_saves(void *arg, WEFT_Job *job, const WEFT_JobEvent *event) {
  (void)job;
  *(int *)arg += event->kind == WEFT_JOB_EVENT_SAVED;
}

/* The data end: so does the run, without an error, with its state saved once; loops that would wait for the
 * one that has no more are cancelled. */
static void a_source_that_ends_stops_the_job(void) {
  static const struct {
    const char *strategy;
    int64_t least; /* of 13 batches, so many steps are done for certain */
  } cases[] = {{NULL, 13},
               {"mirrored:2", 13},
               {"parameter_server:workers=3", 13},
               {"parameter_server:mode=ssp,workers=2", 11},
               {"parameter_server:mode=sync,workers=2,split=false", 6},
               {"parameter_server:mode=sync,workers=2,backup=1", 6}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    feed_t feed = {.ends_at = 13};
    weft_test_directory();
    int saves = 0;
    WEFT_Job *job = fed_job(cases[i].strategy, weft_test_path("m"), 0, &feed);
    WEFT_JobOnEvent(job, count_saves, &saves, job_status);
    WEFT_JobRun(job, 1000, job_status);
    must(cases[i].strategy == NULL ? "one device" : cases[i].strategy);
    CU_ASSERT_EQUAL(saves, 1);
    int64_t done = WEFT_JobStepsDone(job);
    if (done < cases[i].least || done > 13) printf("\n    %s: %d steps\n", cases[i].strategy, (int)done);
    CU_ASSERT_TRUE(done >= cases[i].least && done <= 13);
    CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_STOPPED);
    CU_ASSERT_PTR_NOT_NULL(WEFT_JobLastCheckpoint(job));
    WEFT_DeleteJob(job);
  }
}

/* Batches of a source are as rows of arrays without shuffling, the uneven last one of an epoch, too. */
static void a_source_is_as_good_as_arrays(void) {
  static const char *const strategies[] = {NULL, "mirrored:2", "parameter_server:mode=sync,workers=2"};
  float wanted = 0;
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    feed_t feed = {0};
    WEFT_Job *job = fed_job(strategies[i], NULL, 0, &feed);
    run_to(job, 8);
    CU_ASSERT_EQUAL(feed.calls, 8);
    if (i == 0) wanted = value_of(job, 0);
    CU_ASSERT_DOUBLE_EQUAL(value_of(job, 0), wanted, 1e-5);
    WEFT_DeleteJob(job);
  }
  WEFT_JobOptions options;
  WEFT_InitJobOptions(&options);
  options.batch = 12;
  WEFT_Job *job = new_job(graph_of_file(MLP), NULL, &options);
  TF_Tensor *x = mlp_x(0, MLP_ROWS), *y = mlp_y(0, MLP_ROWS);
  WEFT_JobAddInitialiser(job, "init", job_status);
  WEFT_JobAddTarget(job, "train", job_status);
  CU_ASSERT_EQUAL(WEFT_JobAddFetch(job, "loss", job_status), 0);
  WEFT_JobInputTensor(job, "x", x, WEFT_JOB_ROWS, job_status);
  WEFT_JobInputTensor(job, "y", y, WEFT_JOB_ROWS, job_status);
  must("inputs");
  TF_DeleteTensor(x);
  TF_DeleteTensor(y);
  run_to(job, 8);
  CU_ASSERT_DOUBLE_EQUAL(value_of(job, 0), wanted, 1e-6);
  WEFT_DeleteJob(job);
}

static void a_wrong_batch_fails_the_job_and_names_the_input(void) {
  static const char *const strategies[] = {NULL, "parameter_server:workers=3",
                                           "parameter_server:mode=ssp,workers=2"};
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    feed_t feed = {.bad_at = 4};
    WEFT_Job *job = fed_job(strategies[i], NULL, 0, &feed);
    WEFT_JobRun(job, 1000, job_status);
    must_fail(TF_INVALID_ARGUMENT, "input y: the source's batch 4 has another number of rows");
    CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_FAILED);
    WEFT_DeleteJob(job);
  }
}

/* ---- stopping ---- */

static void a_callback_stops_the_job_after_its_step(void) {
  static const struct {
    const char *strategy;
    int64_t most; /* steps that may be in flight beside the one that is told */
  } cases[] = {{NULL, 0},
               {"mirrored:2", 0},
               {"parameter_server:workers=3", 3},
               {"parameter_server:mode=ssp,workers=2", 4},
               {"parameter_server:mode=sync,workers=2,split=false", 3},
               {"parameter_server:mode=sync,workers=2,backup=1", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    seen_t seen = {.stop_at = 5};
    weft_test_directory();
    WEFT_Job *job = training_job(NULL, cases[i].strategy, weft_test_path("m"), 0);
    look(job, &seen);
    run_to(job, 1000000);
    int64_t done = WEFT_JobStepsDone(job);
    if (done > 5 + cases[i].most) printf("\n    %s: %d steps\n", cases[i].strategy, (int)done);
    CU_ASSERT_TRUE(done >= 5 && done <= 5 + cases[i].most);
    CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_STOPPED);
    CU_ASSERT_EQUAL(seen.saved, 1); /* what it has, it keeps */
    CU_ASSERT_EQUAL(seen.saved_step, done);
    WEFT_DeleteJob(job);
  }
}

typedef struct stopper { /* stops a job from a thread of its own, when it has begun or at once */
  WEFT_Job *job;
  bool waits;
  pthread_t thread;
  weft_mutex_t mu;
  weft_cond_t changed;
  bool has_begun; /* guarded by mu */
} stopper_t;

static void *stop(void *arg) {
  stopper_t *s = arg;
  weft_mutex_lock(&s->mu);
  while (s->waits && !s->has_begun) weft_cond_wait(&s->changed, &s->mu);
  weft_mutex_unlock(&s->mu);
  WEFT_JobStop(s->job);
  return NULL;
}

/* A source that says that the step begins. */
static void give_and_tell(void *arg, int64_t batch, TF_Tensor **values, int num_values, TF_Status *status) {
  stopper_t *s = arg;
  (void)batch, (void)num_values, (void)status;
  values[0] = float_tensor(1);
  weft_mutex_lock(&s->mu);
  s->has_begun = true;
  weft_cond_signal(&s->changed);
  weft_mutex_unlock(&s->mu);
}

/* The step waits for ever in a queue; the stop may come at any moment of it. */
static void a_stop_from_another_thread_ends_waiting(void) {
  static const char *const names[] = {"in_x"};
  for (int round = 0; round < 20; round++) {
    stopper_t s = {.waits = round % 2 == 0};
    weft_mutex_init(&s.mu);
    weft_cond_init(&s.changed);
    s.job = new_job(graph_of_text(BLOCKED ECHO("x", "DT_FLOAT")), NULL, NULL);
    CU_ASSERT_EQUAL(WEFT_JobAddFetch(s.job, "never", job_status), 0);
    CU_ASSERT_EQUAL(WEFT_JobAddFetch(s.job, "x", job_status), 1);
    WEFT_JobInputSource(s.job, names, 1, give_and_tell, &s, job_status);
    must("WEFT_JobInputSource");
    CU_ASSERT_EQUAL_FATAL(pthread_create(&s.thread, NULL, stop, &s), 0);
    WEFT_JobRun(s.job, 1, job_status);
    bool came_before = TF_GetCode(job_status) == TF_FAILED_PRECONDITION && !s.waits;
    if (!came_before) must_fail(TF_CANCELLED, "the job was stopped");
    CU_ASSERT_EQUAL(WEFT_JobGetState(s.job), WEFT_JOB_STOPPED);
    pthread_join(s.thread, NULL);
    WEFT_DeleteJob(s.job);
    weft_cond_deinit(&s.changed);
    weft_mutex_deinit(&s.mu);
  }
}

static void a_stop_is_no_failure_in_any_state(void) {
  weft_test_directory();
  WEFT_Job *job = counting_job(NULL, weft_test_path("m"), 0);
  WEFT_JobStop(job);
  WEFT_JobStop(job);
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_STOPPED);
  WEFT_JobRun(job, 1, job_status);
  must_fail(TF_FAILED_PRECONDITION, "WEFT_JobRun: the job is stopped; WEFT_JobResume goes on");
  WEFT_JobResume(job, job_status);
  must("WEFT_JobResume");
  run_to(job, 2);
  WEFT_JobStop(job);
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_STOPPED);
  WEFT_JobResume(job, job_status);
  must("WEFT_JobResume");
  CU_ASSERT_EQUAL(WEFT_JobStepsDone(job), 2);
  WEFT_DeleteJob(job);

  seen_t seen = {.stop_at = 3, .stops_job = true}; /* from a callback: as from another thread */
  job = counting_job(NULL, weft_test_path("n"), 2);
  look(job, &seen);
  WEFT_JobRun(job, 1000000, job_status);
  must_fail(TF_CANCELLED, "the job was stopped after step 3; its last checkpoint is n-2");
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_STOPPED);
  CU_ASSERT_FALSE(is_there("n-3.index"));
  WEFT_DeleteJob(job);
}

/* ---- saving and resuming ---- */

static void checkpoints_are_written_at_their_steps_and_at_the_end(void) {
  seen_t seen = {0};
  weft_test_directory();
  WEFT_Job *job = counting_job(NULL, weft_test_path("m"), 2);
  look(job, &seen);
  run_to(job, 5);
  CU_ASSERT_TRUE(is_there("m-2.index") && is_there("m-4.index") && is_there("m-5.index"));
  CU_ASSERT_EQUAL(seen.saved, 3);
  CU_ASSERT_STRING_EQUAL(WEFT_JobLastCheckpoint(job), "m-5");
  WEFT_JobSave(job, job_status);
  must("WEFT_JobSave");
  CU_ASSERT_EQUAL(seen.saved, 3); /* that state is saved */
  for (int i = 0; i < 2; i++) WEFT_JobStep(job, job_status);
  CU_ASSERT_EQUAL(seen.saved_step, 6);
  WEFT_JobSave(job, job_status);
  must("WEFT_JobSave");
  CU_ASSERT_STRING_EQUAL(WEFT_JobLastCheckpoint(job), "m-7");
  WEFT_DeleteJob(job);

  job = counting_job(NULL, NULL, 0); /* another job restores, and counts its own steps */
  WEFT_JobRestore(job, weft_test_path("m-7"), job_status);
  must("WEFT_JobRestore");
  seen = (seen_t){0};
  look(job, &seen);
  run_to(job, 1);
  CU_ASSERT_EQUAL(seen.restored, 1);
  CU_ASSERT_EQUAL(value_of(job, 0), 18);
  WEFT_JobSave(job, job_status);
  must_fail(TF_FAILED_PRECONDITION, "WEFT_JobSaveEvery");
  WEFT_DeleteJob(job);
}

/* A failure in the middle, a new session, and the numbers of a run that nothing interrupted: with arrays and
 * with a source. */
static void a_job_resumes_after_a_failure(void) {
  static const char *const strategies[] = {NULL, "mirrored:2", "parameter_server:mode=sync,workers=2",
                                           "mirrored:2,accumulate=2"};
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    feed_t whole = {0}, broken = {.fails_at = 9};
    seen_t seen = {0};
    weft_test_directory();
    WEFT_Job *job = fed_job(strategies[i], NULL, 0, &whole);
    run_to(job, 14);
    float wanted = value_of(job, 0);
    WEFT_DeleteJob(job);
    job = fed_job(strategies[i], weft_test_path("m"), 4, &broken);
    look(job, &seen);
    WEFT_JobRun(job, 14, job_status);
    must_fail(TF_DATA_LOSS, "the disk is gone");
    CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_FAILED);
    CU_ASSERT_STRING_EQUAL(WEFT_JobLastCheckpoint(job), "m-8");
    WEFT_JobResume(job, job_status);
    must("WEFT_JobResume");
    CU_ASSERT_EQUAL(seen.resumed, 1);
    CU_ASSERT_EQUAL(WEFT_JobStepsDone(job), 8);
    run_to(job, 14);
    CU_ASSERT_EQUAL(WEFT_JobStepsDone(job), 14);
    CU_ASSERT_DOUBLE_EQUAL(value_of(job, 0), wanted, 1e-5);
    WEFT_DeleteJob(job);
  }
}

static void a_new_job_resumes_an_earlier_one(void) {
  seen_t seen = {0};
  weft_test_directory();
  WEFT_Job *job = training_job(NULL, NULL, NULL, 0);
  run_to(job, 11);
  float wanted = value_of(job, 0);
  WEFT_DeleteJob(job);
  static const int64_t ends[] = {4, 7, 11};
  for (int i = 0; i < 3; i++) {
    job = training_job(NULL, i == 1 ? "mirrored:2" : NULL, weft_test_path("m"), 0);
    look(job, &seen);
    WEFT_JobResume(job, job_status);
    must("WEFT_JobResume");
    CU_ASSERT_EQUAL(WEFT_JobStepsDone(job), i == 0 ? 0 : ends[i - 1]);
    CU_ASSERT_STRING_EQUAL(seen.note, "");
    run_to(job, ends[i]);
    if (i == 2) CU_ASSERT_DOUBLE_EQUAL(value_of(job, 0), wanted, 1e-5);
    WEFT_DeleteJob(job);
  }
  CU_ASSERT_EQUAL(seen.nothing, 1);
  CU_ASSERT_EQUAL(seen.resumed, 2);
}

static void the_last_step_is_traced(void) {
  WEFT_JobOptions options;
  char path[300];
  weft_test_directory();
  WEFT_InitJobOptions(&options);
  snprintf(path, sizeof path, "%s", weft_test_path("trace.json"));
  options.trace = path;
  WEFT_Job *job = new_job(graph_of_text(COUNTER), NULL, &options);
  TF_Tensor *one = float_tensor(1);
  WEFT_JobAddInitialiser(job, "init", job_status);
  WEFT_JobAddTarget(job, "grow", job_status);
  WEFT_JobInputTensor(job, "by", one, WEFT_JOB_WHOLE, job_status);
  must("by");
  TF_DeleteTensor(one);
  run_to(job, 3);
  FILE *f = fopen(path, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  char text[4096];
  text[fread(text, 1, sizeof text - 1, f)] = '\0';
  fclose(f);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "traceEvents"));
  WEFT_DeleteJob(job);
}

/* ---- memory ---- */

static TF_Buffer *counter_bytes;
static char prefix[300];

/* What is allocated on this thread: up to the session. */
static weft_status_t *describe_one(void) {
  WEFT_Job *job = NULL;
  int fetch = 0;
  weft_shape_t shape = weft_shape_vector(4);
  weft_tensor_t *data = NULL;
  weft_status_t *s = weft_job_new(weft_str_of(counter_bytes->data, counter_bytes->length), NULL, NULL,
                                  &weft_job_words, &job);
  if (s == NULL) s = weft_job_add_fetch(job, "fetch", WEFT_STR("value"), &fetch);
  if (s == NULL) s = weft_tensor_new(WEFT_F32, &shape, NULL, &data);
  if (s == NULL) s = weft_job_add_input(job, WEFT_STR("by"), data, false, "an array");
  WEFT_DeleteJob(job);
  return s;
}

/* And with one: plan, watch, saving, worker loops. Without an initialiser nothing runs. */
static weft_status_t *initialise_one(void) {
  WEFT_Job *job = NULL;
  int fetch = 0;
  TF_Status *status = TF_NewStatus();
  if (status == NULL) return WEFT_NO_MEMORY("a status");
  weft_status_t *s = weft_job_new(weft_str_of(counter_bytes->data, counter_bytes->length), NULL, NULL,
                                  &weft_job_words, &job);
  if (s == NULL) s = weft_job_add_fetch(job, "fetch", WEFT_STR("value"), &fetch);
  if (s == NULL) WEFT_JobSaveEvery(job, prefix, 0, 0, status);
  if (s == NULL) s = weft_job_c_api_status(status);
  if (s == NULL) WEFT_JobInitialise(job, status);
  if (s == NULL) s = weft_job_c_api_status(status);
  WEFT_DeleteJob(job);
  if (s == NULL && weft_fault_fired())
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "a session has shared-memory links only if it can");
  TF_DeleteStatus(status);
  return s;
}

static void a_failing_allocation_is_reported(void) {
  long n;
  weft_test_directory();
  snprintf(prefix, sizeof prefix, "%s", weft_test_path("m"));
  counter_bytes = graph_of_text(COUNTER);
  CU_ASSERT_PTR_NULL(describe_one()); /* the table of ops is made once */
  WEFT_FAIL_EACH_ALLOCATION(n, s, describe_one());
  CU_ASSERT_TRUE(n > 20);
  WEFT_FAIL_EACH_ALLOCATION(n, s, initialise_one());
  CU_ASSERT_TRUE(n > 50);
  TF_DeleteBuffer(counter_bytes);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a job runs step by step", a_job_runs_step_by_step},
      {"a job that is not initialised initialises itself", a_job_that_is_not_initialised_initialises_itself},
      {"strategies in step, and runs in pieces, give the same",
       strategies_in_step_and_runs_in_pieces_give_the_same},
      {"worker loops share the steps", worker_loops_share_the_steps},
      {"backup workers run once", backup_workers_run_once},
      {"each step that is told has values", each_step_that_is_told_has_values},
      {"wrong orders are refused and change nothing", wrong_orders_are_refused_and_change_nothing},
      {"wrong names and values are refused", wrong_names_and_values_are_refused},
      {"what cannot be initialised fails with its cause", what_cannot_be_initialised_fails_with_its_cause},
      {"a source that ends stops the job", a_source_that_ends_stops_the_job},
      {"a source is as good as arrays", a_source_is_as_good_as_arrays},
      {"a wrong batch fails the job and names the input", a_wrong_batch_fails_the_job_and_names_the_input},
      {"a callback stops the job after its step", a_callback_stops_the_job_after_its_step},
      {"a stop from another thread ends waiting", a_stop_from_another_thread_ends_waiting},
      {"a stop is no failure in any state", a_stop_is_no_failure_in_any_state},
      {"checkpoints are written at their steps and at the end",
       checkpoints_are_written_at_their_steps_and_at_the_end},
      {"a job resumes after a failure", a_job_resumes_after_a_failure},
      {"a new job resumes an earlier one", a_new_job_resumes_an_earlier_one},
      {"the last step is traced", the_last_step_is_traced},
      {"a failing allocation is reported", a_failing_allocation_is_reported},
      CU_TEST_INFO_NULL,
  };
  job_status = TF_NewStatus();
  int code = weft_run_tests("job", tests);
  TF_DeleteStatus(job_status);
  return code;
}
