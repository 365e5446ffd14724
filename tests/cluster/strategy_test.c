/* tests/cluster/strategy_test.c - one graph file, trained by `weft submit --strategy` on real `weft server`
 * processes: T-MWM-1 to T-MWM-4, T-PS1-4, T-PS2-4.
 */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/cluster/server_process.h"
#include "tests/pace.h"
#include "tests/runner.h"
#include "tests/tools/array_file.h"
#include "tests/tools/command_run.h"
#include "tests/tools/graphs.h"

enum {
  MOST_TASKS = 5,
  MOST_ARGUMENTS = 30,
  MAX_POINTS = 32,
  OUTPUT = 1 << 16,
  PSI = 4 * (32 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10)
};
#define GRAPH(name) "tests/strategies/testdata/" name ".pb"

/* ---- a cluster of processes ---- */

typedef struct cluster {
  int servers, workers;   /* tasks of job ps, then of job worker */
  char text[256];         /* as --cluster takes it */
  const char *cpus;       /* devices of each */
  bool has_server_master; /* jobs go to the first ps, not to the first worker */
  weft_test_process_t processes[MOST_TASKS];
} cluster_t;

static void plan(cluster_t *c, int servers, int workers, const char *cpus) {
  *c = (cluster_t){.servers = servers, .workers = workers, .cpus = cpus};
  size_t at = 0;
  for (int i = 0; i < servers + workers; i++) {
    const char *before = i == 0 ? (servers > 0 ? "ps=" : "worker=") : i == servers ? ";worker=" : ",";
    at +=
        (size_t)snprintf(c->text + at, sizeof c->text - at, "%s127.0.0.1:%d", before, weft_test_free_port());
  }
}

static void start_one(cluster_t *c, int task) {
  char index[16];
  bool serves = task < c->servers;
  snprintf(index, sizeof index, "%d", serves ? task : task - c->servers);
  const char *const arguments[] = {"server", "--cluster", c->text,  "--job", serves ? "ps" : "worker",
                                   "--task", index,       "--cpus", c->cpus, NULL};
  weft_test_process_start(&c->processes[task], arguments, NULL);
  CU_ASSERT_TRUE_FATAL(weft_test_process_ready(&c->processes[task]));
}

static void start_all(cluster_t *c, int servers, int workers, const char *cpus) {
  plan(c, servers, workers, cpus);
  for (int i = 0; i < servers + workers; i++) start_one(c, i);
}

static void kill_all(cluster_t *c) {
  for (int i = 0; i < c->servers + c->workers; i++) weft_test_process_kill(&c->processes[i]);
}

/* ---- jobs ---- */

typedef struct job {
  weft_test_process_t process;
  char out[OUTPUT], err[OUTPUT];
} job_t;
static job_t job, other; /* large, so not on the stack */

/* `weft submit` of a graph with JSON; `type` of x, NULL: x and y are not fed; `more` ends with NULL. `c`
 * NULL: in a process of its own. */
static void submit(job_t *j, const cluster_t *c, const char *graph, const char *type, const char *strategy,
                   const char *const *more) {
  const char *args[MOST_ARGUMENTS + 1] = {"submit", graph, "--json"};
  char x[600], y[600];
  int n = 3;
  if (type != NULL) {
    write_array(x, "x", type, 309, type[1] == 'i' ? 0 : 32, type[1] == 'i' ? 1000 : 1);
    write_array(y, "y", "<i4", 309, 0, 4);
    const char *const feeds[] = {"--feed", x, "--feed", y, "--batch", "32"};
    for (int i = 0; i < 6; i++) args[n++] = feeds[i];
  }
  if (c != NULL) {
    args[n++] = "--master";
    args[n++] = c->processes[c->has_server_master ? 0 : c->servers].target;
  }
  if (strategy != NULL) {
    args[n++] = "--strategy";
    args[n++] = strategy;
  }
  for (int i = 0; more[i] != NULL; i++) args[n++] = more[i];
  CU_ASSERT_TRUE_FATAL(n <= MOST_ARGUMENTS);
  weft_test_process_start(&j->process, args, NULL);
}

static int wait_for(job_t *j, int timeout_ms) {
  return weft_test_process_wait(&j->process, timeout_ms, j->out, j->err, OUTPUT);
}

static void expect_end(job_t *j) {
  int code = wait_for(j, 180000);
  if (code != 0) printf("\n    code %d: %s", code, j->err);
  CU_ASSERT_EQUAL(code, 0);
}

static int losses(const job_t *j, double *out) {
  int n = 0;
  for (const char *line = j->out, *end; (end = strchr(line, '\n')) != NULL && n < MAX_POINTS;
       line = end + 1) {
    json_t *root = json_loadb(line, (size_t)(end - line), 0, NULL);
    json_t *loss = json_object_get(json_object_get(root, "fetches"), "loss");
    if (!json_is_number(loss)) printf("\n    %.*s", (int)(end - line), line);
    CU_ASSERT_TRUE(json_is_number(loss));
    out[n++] = json_number_value(loss);
    json_decref(root);
  }
  return n;
}

static void expect_alike(const job_t *a, const job_t *b, double tolerance, const char *what) {
  double x[MAX_POINTS], y[MAX_POINTS];
  int n = losses(a, x), m = losses(b, y);
  CU_ASSERT_EQUAL(n, m);
  CU_ASSERT_TRUE(n > 10);
  for (int i = 0; i < n && i < m; i++) {
    bool is_close = fabs(x[i] - y[i]) <= tolerance * fabs(x[i]);
    if (!is_close) printf("\n    %s, line %d: %.12g for %.12g", what, i, y[i], x[i]);
    CU_ASSERT_TRUE(is_close);
  }
}

static const char *const trains[] = {"--init", "init",    "--target", "train", "--fetch",
                                     "loss",   "--steps", "200",      NULL};

/* ---- all strategies ---- */

static void losses_on_a_cluster_are_those_of_one_device(void) {
  static const struct {
    const char *graph, *type;
    double tolerance;
  } models[] = {{GRAPH("mlp_sgd"), "<f4", 1e-5},
                {GRAPH("mlp_momentum"), "<f4", 1e-5},
                {GRAPH("mlp_adam"), "<f4", 1e-5},
                {GRAPH("embedding_adam"), "<i4", 1e-5},
                {GRAPH("mlp64_adam"), "<f8", 1e-10}};
  static const char *const strategies[] = {"multi_worker_mirrored",
                                           "multi_worker_mirrored:per_worker=1",
                                           "mirrored:2",
                                           "data_parallel:2",
                                           "central_storage:2",
                                           "parameter_server:mode=sync",
                                           "parameter_server:mode=sync,shards=fixed:2",
                                           "parameter_server:mode=sync,placement=bytes,caching",
                                           "parameter_server:workers=1"};
  cluster_t c;
  start_all(&c, 2, 3, "2");
  for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
    if (strcmp(models[m].type, "<f8") == 0) { /* variables of another type would be in the way */
      kill_all(&c);
      start_all(&c, 2, 3, "2");
    }
    submit(&other, NULL, models[m].graph, models[m].type, NULL, trains);
    expect_end(&other);
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
      submit(&job, &c, models[m].graph, models[m].type, strategies[i], trains);
      expect_end(&job);
      expect_alike(&other, &job, models[m].tolerance, strategies[i]);
    }
  }
  kill_all(&c);
}

static void what_was_trained_is_evaluated_by_a_run_of_its_own(void) {
  static const char *const strategies[] = {"multi_worker_mirrored",
                                           "mirrored:2",
                                           "parameter_server:mode=sync",
                                           "parameter_server:mode=async",
                                           "parameter_server:mode=ssp,staleness=1",
                                           "parameter_server:mode=sync,backup=1",
                                           "parameter_server:mode=async,shards=fixed:2"};
  static const char *const evaluates[] = {"--fetch", "loss", "--fetch", "num_hits", NULL};
  cluster_t c;
  start_all(&c, 2, 3, "2");
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    double before[MAX_POINTS], after[MAX_POINTS];
    submit(&job, &c, GRAPH("mlp_momentum"), "<f4", strategies[i], trains);
    expect_end(&job);
    submit(&other, &c, GRAPH("mlp_momentum"), "<f4", strategies[i], evaluates);
    expect_end(&other);
    int n = losses(&job, before), m = losses(&other, after);
    CU_ASSERT_TRUE_FATAL(n > 1 && m > 0);
    if (!(after[m - 1] < before[0]))
      printf("\n    %s: %.12g after %.12g", strategies[i], after[m - 1], before[0]);
    CU_ASSERT_TRUE(after[m - 1] < before[0]);
  }
  kill_all(&c);
}

/* ---- T-MWM ---- */

static void read_file(const char *path, char *out, size_t size, size_t *length) {
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  *length = fread(out, 1, size, f);
  fclose(f);
}

/* `weft inspect` knows of CPUs alone, where tests/device/late gives the tasks other devices, too. */
#define ON_CPUS "multi_worker_mirrored:device_type=CPU"

/* Fetches a variable's six copies with the rewritten graph itself: the same bytes. */
static void compare_copies(const cluster_t *c, const char *graph, const char *variable,
                           const char *const *names) {
  static char first[1 << 16], next[1 << 16];
  char path[300], file[600];
  const char *folder = getenv("TEST_TMPDIR") == NULL ? "/tmp" : getenv("TEST_TMPDIR");
  snprintf(path, sizeof path, "%s/rewritten.pb", folder);
  const char *args[MOST_ARGUMENTS] = {"inspect", graph,    "--strategy", ON_CPUS,  "--cluster",
                                      c->text,   "--cpus", c->cpus,      "--save", path};
  for (int i = 0; names[i] != NULL; i++) args[10 + i] = names[i];
  weft_test_process_start(&job.process, args, NULL);
  expect_end(&job);
  size_t length = 0, n = 0;
  for (int i = 0; i < 6; i++) {
    if (i == 0) snprintf(file, sizeof file, "%s=%s/copy.npy", variable, folder);
    if (i > 0) snprintf(file, sizeof file, "%s/replica_%d=%s/copy.npy", variable, i, folder);
    submit(&job, c, path, NULL, NULL, (const char *const[]){"--save-fetch", file, NULL});
    expect_end(&job);
    snprintf(file, sizeof file, "%s/copy.npy", folder);
    read_file(file, i == 0 ? first : next, sizeof first, i == 0 ? &length : &n);
    CU_ASSERT_TRUE(length > 128);
    if (i > 0) CU_ASSERT_TRUE(n == length && memcmp(first, next, n) == 0);
  }
}

/* T-MWM-1; the losses: above. */
static void six_copies_are_the_same_bits(void) {
  static const char *const names[] = {"--init", "init", "--target", "train", "--fetch", "loss", NULL};
  cluster_t c;
  start_all(&c, 0, 3, "2");
  submit(&job, &c, GRAPH("mlp_sgd"), "<f4", ON_CPUS, trains);
  expect_end(&job);
  compare_copies(&c, GRAPH("mlp_sgd"), "w1", names);
  compare_copies(&c, GRAPH("mlp_sgd"), "b2", names);
  kill_all(&c);
}

#define FLOATS TYPE("T", "DT_FLOAT")
#define INTS(name, value) \
  NODE(name, "Const", TYPE("dtype", "DT_INT32") "attr { key: \"value\" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: " value " } } }")
/* A variable of random numbers, from which "train" takes the mean of the rows. */
#define RANDOM_START                                                                                      \
  NODE("x", "Placeholder",                                                                                \
       TYPE("dtype",                                                                                      \
            "DT_FLOAT") "attr { key: \"shape\" value { shape { dim { size: -1 } dim { size: 32 } } } } ") \
  INTS("shape", "32")                                                                                     \
  INTS("rows", "0")                                                                                       \
  NODE("random", "RandomStandardNormal",                                                                  \
       "input: \"shape\" " TYPE("T", "DT_INT32") TYPE("dtype", "DT_FLOAT"))                               \
  NODE("v", "VariableV2",                                                                                 \
       TYPE("dtype", "DT_FLOAT") "attr { key: \"shape\" value { shape { dim { size: 32 } } } } ")         \
  NODE("init", "Assign", "input: \"v\" input: \"random\" " FLOATS)                                        \
  NODE("mean", "Mean", "input: \"x\" input: \"rows\" " FLOATS TYPE("Tidx", "DT_INT32"))                   \
  NODE("train", "AssignSub", "input: \"v\" input: \"mean\" " FLOATS)

/* T-MWM-2. */
static void random_initial_values_are_the_chiefs_everywhere(void) {
  static const char *const names[] = {"--init", "init", "--target", "train", NULL};
  const char *graph = write_text("random_start.pbtxt", RANDOM_START);
  char x[600];
  cluster_t c;
  start_all(&c, 0, 3, "2");
  write_array(x, "x", "<f4", 309, 32, 1);
  for (int steps = 0; steps < 2; steps++) {
    const char *const more[] = {"--init", "init", "--target", "train", "--steps", steps == 0 ? "0" : "3",
                                "--feed", x,      NULL};
    submit(&job, &c, graph, NULL, ON_CPUS, more);
    expect_end(&job);
    compare_copies(&c, graph, "v", names);
  }
  kill_all(&c);
}

/* T-MWM-3, and the same for a worker of parameter servers. */
static void a_killed_worker_ends_the_job_at_once_and_a_new_one_works(void) {
  static const char *const strategies[] = {"multi_worker_mirrored", "parameter_server:mode=sync",
                                           "parameter_server:mode=async"};
  static const char *const long_enough[] = {"--init", "init",    "--target", "train", "--fetch",
                                            "loss",   "--steps", "20000",    NULL};
  for (int i = 0; i < 3; i++) {
    cluster_t c;
    start_all(&c, 1, 3, "2");
    submit(&job, &c, GRAPH("mlp_sgd"), "<f4", strategies[i], trains);
    expect_end(&job);
    submit(&job, &c, GRAPH("mlp_sgd"), "<f4", strategies[i], long_enough);
    char first[1];
    CU_ASSERT_EQUAL(read(job.process.out, first, 1), 1); /* it has told of a twentieth of its steps */
    int64_t killed_ns = weft_clock_ns();
    weft_test_process_kill(&c.processes[3]);
    int code = wait_for(&job, 60000);
    bool is_at_once = weft_test_is_within(killed_ns, 2000);
    double seconds = (double)(weft_clock_ns() - killed_ns) * 1e-9;
    CU_ASSERT_EQUAL(code, 1);
    CU_ASSERT_TRUE(is_at_once);
    bool names_it =
        strstr(job.err, "/job:worker/replica:0/task:2") != NULL && strstr(job.err, "UNAVAILABLE") != NULL;
    if (!names_it || seconds > 1) printf("\n    %s, %.2f s: %s", strategies[i], seconds, job.err);
    CU_ASSERT_TRUE(names_it);
    start_one(&c, 3);
    submit(&job, &c, GRAPH("mlp_sgd"), "<f4", strategies[i], trains);
    expect_end(&job);
    kill_all(&c);
  }
}

/* T-MWM-4: the client is there before the last worker is. */
static void workers_start_in_any_order(void) {
  cluster_t c;
  plan(&c, 0, 3, "2");
  start_one(&c, 2);
  start_one(&c, 0);
  submit(&job, &c, GRAPH("mlp_sgd"), "<f4", "multi_worker_mirrored", trains);
  start_one(&c, 1);
  expect_end(&job);
  submit(&other, NULL, GRAPH("mlp_sgd"), "<f4", NULL, trains);
  expect_end(&other);
  expect_alike(&other, &job, 1e-5, "started in another order");
  kill_all(&c);
}

/* ---- which tasks communicate ---- */

static const char *process_of(const json_t *events, json_int_t pid) {
  for (size_t i = 0; i < json_array_size(events); i++) {
    const json_t *e = json_array_get(events, i);
    const char *name = json_string_value(json_object_get(e, "name"));
    if (strcmp(name, "process_name") != 0 || json_integer_value(json_object_get(e, "pid")) != pid) continue;
    return json_string_value(json_object_get(json_object_get(e, "args"), "name"));
  }
  return "";
}

typedef struct traffic {
  int between_workers, computed, collectives, counters;
  double to_servers, to_workers; /* bytes */
} traffic_t;

static traffic_t count(const char *path) {
  traffic_t t = {0};
  json_t *root = json_load_file(path, 0, NULL), *events = json_object_get(root, "traceEvents");
  CU_ASSERT_TRUE(json_array_size(events) > 0);
  int starts = 0, ends = 0;
  for (size_t i = 0; i < json_array_size(events); i++) {
    const json_t *e = json_array_get(events, i);
    const char *ph = json_string_value(json_object_get(e, "ph")),
               *kind = json_string_value(json_object_get(e, "cat"));
    starts += ph[0] == 's';
    ends += ph[0] == 'f';
    t.counters += ph[0] == 'C';
    t.computed += ph[0] == 'X' && strcmp(kind, "compute") == 0;
    t.collectives += ph[0] == 'X' && strcmp(kind, "collective") == 0;
    if (ph[0] != 's') continue;
    const json_t *end =
        json_array_get(events, i + 1); /* an arrow's end follows it, its receive comes before */
    const json_t *receive = json_array_get(events, i - 1);
    bool from_server =
        strstr(process_of(events, json_integer_value(json_object_get(e, "pid"))), "/job:ps/") != NULL;
    bool to_server =
        strstr(process_of(events, json_integer_value(json_object_get(end, "pid"))), "/job:ps/") != NULL;
    double bytes = (double)json_integer_value(json_object_get(json_object_get(receive, "args"), "bytes"));
    t.between_workers += !from_server && !to_server;
    if (strstr(json_string_value(json_object_get(e, "name")), "_recv_") != NULL)
      continue; /* fed by the client */
    t.to_servers += to_server && !from_server ? bytes : 0;
    t.to_workers += from_server && !to_server ? bytes : 0;
  }
  CU_ASSERT_EQUAL(starts, ends);
  json_decref(root);
  return t;
}

static void expect_about(double got, double wanted, const char *what) {
  bool is_right = got >= 0.99 * wanted && got <= 1.01 * wanted;
  if (!is_right) printf("\n    %s: %.0f bytes instead of %.0f", what, got, wanted);
  CU_ASSERT_TRUE(is_right);
}

/* T-PS1-4, T-PS2-4: a worker fetches what it reads and pushes as much; the trace has all tasks. What is fed
 * comes from the task that the client is at: here a server. */
static void workers_of_parameter_servers_never_talk_to_each_other(void) {
  static const char *const strategies[] = {
      "parameter_server:mode=async", "parameter_server:mode=sync", "parameter_server:mode=ssp,staleness=1",
      "parameter_server:mode=async,shards=fixed:2", "parameter_server:mode=sync,shards=fixed:2"};
  char path[300];
  cluster_t c;
  start_all(&c, 2, 3, "1");
  c.has_server_master = true;
  snprintf(path, sizeof path, "%s/trace.json",
           getenv("TEST_TMPDIR") == NULL ? "/tmp" : getenv("TEST_TMPDIR"));
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    const char *const more[] = {"--init", "init", "--target", "train", "--steps", "9", "--trace", path, NULL};
    submit(&job, &c, GRAPH("mlp_sgd"), "<f4", strategies[i], more);
    expect_end(&job);
    traffic_t t = count(path);
    CU_ASSERT_EQUAL(t.between_workers, 0);
    CU_ASSERT_TRUE(t.computed > 0);
    CU_ASSERT_TRUE(t.counters > 0);
    expect_about(t.to_servers, 3.0 * PSI, strategies[i]);
    bool is_cut_there =
        strstr(strategies[i], "mode=sync") != NULL; /* in step, the first server cuts what is fed */
    expect_about(t.to_workers, 3.0 * PSI + (is_cut_there ? 32 * (32 * 4 + 4) : 0), strategies[i]);
  }
  kill_all(&c);
}

static void a_trace_has_the_collectives_of_every_task(void) {
  char path[300];
  cluster_t c;
  start_all(&c, 0, 3, "2");
  snprintf(path, sizeof path, "%s/trace.json",
           getenv("TEST_TMPDIR") == NULL ? "/tmp" : getenv("TEST_TMPDIR"));
  const char *const more[] = {"--init", "init", "--target", "train", "--steps", "3", "--trace", path, NULL};
  submit(&job, &c, GRAPH("mlp_sgd"), "<f4", "multi_worker_mirrored", more);
  expect_end(&job);
  traffic_t t = count(path);
  CU_ASSERT_TRUE(t.collectives >= 6);
  CU_ASSERT_TRUE(t.computed > 6);
  CU_ASSERT_TRUE(t.counters >= 6);
  CU_ASSERT_TRUE(t.between_workers > 0); /* shares of the batch */
  kill_all(&c);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"losses on a cluster are those of one device", losses_on_a_cluster_are_those_of_one_device},
      {"what was trained is evaluated by a run of its own",
       what_was_trained_is_evaluated_by_a_run_of_its_own},
      {"six copies are the same bits", six_copies_are_the_same_bits},
      {"random initial values are the chief's everywhere", random_initial_values_are_the_chiefs_everywhere},
      {"a killed worker ends the job at once, and a new one works",
       a_killed_worker_ends_the_job_at_once_and_a_new_one_works},
      {"workers start in any order", workers_start_in_any_order},
      {"workers of parameter servers never talk to each other",
       workers_of_parameter_servers_never_talk_to_each_other},
      {"a trace has the collectives of every task", a_trace_has_the_collectives_of_every_task},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("strategies on a cluster of processes", tests);
}
