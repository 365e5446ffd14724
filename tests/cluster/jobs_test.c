/* tests/cluster/jobs_test.c - jobs of `weft submit` that share a cluster, one after the other and at once. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/cluster/server_process.h"
#include "tests/runner.h"
#include "tests/tools/array_file.h"

enum { MOST_ARGUMENTS = 28, OUTPUT = 1 << 16, MAX_POINTS = 64, DEADLINE_MS = 30000 };
#define GRAPH "tests/strategies/testdata/mlp_adam.pb"

typedef struct job {
  weft_test_process_t process;
  char out[OUTPUT], err[OUTPUT];
} job_t;
static job_t job, other; /* large, so not on the stack */

/* `more` ends with NULL. */
static void submit_graph(job_t *j, const weft_test_servers_t *c, const char *graph, const char *strategy,
                         const char *const *more) {
  static char x[600], y[600]; /* written once: jobs may read them at the same time */
  if (x[0] == '\0') {
    write_array(x, "x", "<f4", 64, 32, 1);
    write_array(y, "y", "<i4", 64, 0, 4);
  }
  const char *args[MOST_ARGUMENTS + 1] = {
      "submit", graph,  "--feed",   x,       "--feed",  y,      "--batch",  "8",
      "--init", "init", "--target", "train", "--fetch", "loss", "--master", c->processes[1].target};
  int n = 16;
  if (strategy != NULL) args[n++] = "--strategy";
  if (strategy != NULL) args[n++] = strategy;
  for (int i = 0; more[i] != NULL; i++) args[n++] = more[i];
  CU_ASSERT_TRUE_FATAL(n <= MOST_ARGUMENTS);
  weft_test_process_start(&j->process, args, NULL);
}

static void submit(job_t *j, const weft_test_servers_t *c, const char *strategy, const char *const *more) {
  submit_graph(j, c, GRAPH, strategy, more);
}

static bool ends_well(job_t *j, const char *what) {
  int code = weft_test_process_wait(&j->process, DEADLINE_MS, j->out, j->err, OUTPUT);
  if (code != 0) printf("\n    %s: code %d: %s", what, code, j->err);
  CU_ASSERT_EQUAL(code, 0);
  return code == 0;
}

/* Reads so many lines of what a job that goes on prints. */
static void wait_for_lines(job_t *j, int lines) {
  char c;
  while (lines > 0 && read(j->process.out, &c, 1) == 1) lines -= c == '\n';
  CU_ASSERT_EQUAL(lines, 0);
}

/* A client that is killed leaves workers at unlike clocks, tokens and gradients behind. */
static void a_job_starts_clean_after_a_killed_client(void) {
  static const char *const strategies[] = {
      "parameter_server:mode=ssp,staleness=2", "parameter_server:mode=ssp,staleness=40",
      "parameter_server:mode=sync,backup=1", "parameter_server:mode=sync,split=false",
      "parameter_server:mode=async"};
  static const char *const endless[] = {"--steps", "4000", NULL}, *const few[] = {"--steps", "21", NULL};
  weft_test_servers_t c;
  weft_test_servers_start(&c);
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    for (int kills = 0; kills < 4; kills++) {
      submit(&job, &c, strategies[i], endless);
      wait_for_lines(&job, 1); /* 200 steps */
      weft_test_process_kill(&job.process);
      submit(&other, &c, strategies[i], few);
      if (!ends_well(&other, strategies[i])) { /* spoilt: the rest would tell the same */
        weft_test_servers_kill(&c);
        return;
      }
    }
  }
  weft_test_servers_kill(&c);
}

/* ---- what is left of a job ---- */

static int losses(const job_t *j, double *out) {
  int n = 0;
  for (const char *line = j->out, *end; (end = strchr(line, '\n')) != NULL && n < MAX_POINTS;
       line = end + 1) {
    const char *loss = strstr(line, "\"loss\":");
    CU_ASSERT_TRUE(loss != NULL && loss < end && sscanf(loss + 7, "%lf", &out[n]) == 1);
    n++;
  }
  return n;
}

/* Reads the log of task `t` until it has no sessions; returns how many resources it has then, -1 after a
 * failed test. */
static int left(weft_test_servers_t *c, int t, int *steps) {
  char line[300];
  int sessions = 1, resources = -1;
  while (sessions > 0) {
    if (!weft_test_process_log(&c->processes[t], "has ended; left are ", line, sizeof line)) return -1;
    const char *numbers = strstr(line, "left are ");
    CU_ASSERT_EQUAL(
        sscanf(numbers, "left are %d sessions, %d steps and %d resources", &sessions, steps, &resources), 3);
  }
  return resources;
}

/* How the strategy asks for its devices first. The steps of former jobs have ended by then. */
static void skip_first_session(weft_test_servers_t *c, const char *strategy) {
  for (int t = 0; t < 3 && strategy != NULL; t++) {
    int steps = 0;
    (void)left(c, t, &steps);
    CU_ASSERT_EQUAL(steps, 0);
  }
}

typedef enum moment { IN_FIRST_STEP, IN_THE_MIDDLE, AFTER_THE_LAST_STEP, NUM_MOMENTS } moment_t;

static void kill_at(weft_test_servers_t *c, moment_t when) {
  char line[300];
  if (when == IN_FIRST_STEP)
    CU_ASSERT_TRUE(weft_test_process_log(&c->processes[1], "has begun", line, sizeof line));
  if (when != IN_FIRST_STEP)
    wait_for_lines(&job,
                   when == IN_THE_MIDDLE ? 7 : 21); /* after the last step it may be just about to end */
  weft_test_process_kill(&job.process);
}

/* The session, its steps and its resources end with the client: the servers have then what a job leaves
 * behind that ends by itself, its variables. And the next job computes what the first one on a fresh cluster
 * has. */
static void nothing_is_left_of_a_killed_client(void) {
  static const char *const strategies[] = {NULL,
                                           "mirrored:1",
                                           "multi_worker_mirrored:2",
                                           "parameter_server:mode=async,workers=1",
                                           "parameter_server:mode=ssp,workers=1",
                                           "parameter_server:mode=sync,workers=2",
                                           "parameter_server:mode=sync,workers=2,backup=1",
                                           "parameter_server:mode=sync,workers=1,split=false",
                                           "mirrored:1,accumulate=4"};
  static const char *const endless[] = {"--json", "--steps", "100000", NULL}, *const few[] = {"--json",
                                                                                              "--steps", "21",
                                                                                              NULL};
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    const char *strategy = strategies[i];
    /* Backup workers: the faster ones count. A worker that waits for tokens of an update loop: its loss is
     * printed late. */
    bool is_exact =
        strategy == NULL || (strstr(strategy, "backup") == NULL && strstr(strategy, "split=false") == NULL);
    double wanted[MAX_POINTS] = {0}, got[MAX_POINTS] = {0};
    int kept[3], n = 0, steps;
    weft_test_servers_t c;
    weft_test_servers_start_with(&c, "--client-grace", "1", "WEFT_LOG_LEVEL=debug");
    submit(&job, &c, strategy, few);
    bool ok = ends_well(&job, strategy);
    if (is_exact) n = losses(&job, wanted);
    skip_first_session(&c, strategy);
    for (int t = 0; t < 3; t++) kept[t] = left(&c, t, &steps);
    for (int when = 0; ok && when < NUM_MOMENTS; when++) {
      submit(&job, &c, strategy, when == AFTER_THE_LAST_STEP ? few : endless);
      skip_first_session(&c, strategy);
      kill_at(&c, (moment_t)when);
      for (int t = 0; t < 3; t++) {
        int resources = left(&c, t, &steps);
        if (resources > kept[t])
          printf("\n    %s, killed at %d: %d resources on task %d instead of %d", strategy, when, resources,
                 t, kept[t]);
        CU_ASSERT_TRUE(resources <= kept[t]); /* fewer, if it was killed before it made them */
      }
      submit(&other, &c, strategy, few);
      ok = ends_well(&other, strategy);
      if (is_exact) CU_ASSERT_EQUAL(losses(&other, got), n);
      for (int k = 0; is_exact && k < n; k++) {
        if (got[k] != wanted[k])
          printf("\n    %s, after a kill at %d: loss %d is %.9g instead of %.9g", strategy, when, k, got[k],
                 wanted[k]);
        CU_ASSERT_EQUAL(got[k], wanted[k]);
      }
      skip_first_session(&c, strategy);
      for (int t = 0; t < 3; t++) {
        int resources = left(&c, t, &steps);
        if (resources != kept[t])
          printf("\n    %s, after a kill at %d: %d resources on task %d instead of %d", strategy, when,
                 resources, t, kept[t]);
        CU_ASSERT_EQUAL(resources, kept[t]);
      }
    }
    weft_test_servers_kill(&c);
  }
}

/* A client that is stopped, as by Ctrl-Z, keeps its connection: it is not gone, for whatever time. */
static void a_client_that_is_stopped_keeps_its_session(void) {
  static const char *const endless[] = {"--json", "--steps", "1000000", NULL}, *const beside[] = {
                                                                                   "--json",  "--steps",
                                                                                   "1000000", "--container",
                                                                                   "beside",  NULL};
  char line[300];
  weft_test_servers_t c;
  weft_test_servers_start_with(&c, "--client-grace", "1", NULL);
  submit(&job, &c, NULL, endless);
  wait_for_lines(&job, 3);
  kill(job.process.pid, SIGSTOP);
  submit(&other, &c, NULL, beside); /* its grace is the clock: it begins later and ends */
  wait_for_lines(&other, 3);
  weft_test_process_kill(&other.process);
  CU_ASSERT_TRUE(weft_test_process_log(&c.processes[1], "closing session", line, sizeof line));
  kill(job.process.pid, SIGCONT);
  wait_for_lines(&job, 2000); /* more than were in the pipe */
  weft_test_process_kill(&job.process);
  weft_test_servers_kill(&c);
}

/* ---- initialisers ---- */

/* Variables that are made of others, if those have a value by then, and of random numbers with a seed. */
static void initialisers_see_nothing_of_former_jobs(void) {
  static const char *const graphs[] = {"tests/strategies/testdata/from_others.pb",
                                       "tests/strategies/testdata/from_others_resource.pb"};
  static const char *const strategies[] = {NULL,
                                           "mirrored:1",
                                           "central_storage",
                                           "multi_worker_mirrored:2",
                                           "parameter_server:mode=async,workers=1",
                                           "parameter_server:mode=ssp,workers=1",
                                           "parameter_server:mode=sync,workers=2"};
  static const char *const endless[] = {"--json", "--steps", "100000", NULL}, *const few[] = {"--json",
                                                                                              "--steps", "15",
                                                                                              NULL};
  weft_test_servers_t c;
  weft_test_servers_start_with(&c, "--client-grace", "1", NULL);
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    for (size_t g = 0; g < sizeof graphs / sizeof graphs[0]; g++) {
      char own[32];
      snprintf(own, sizeof own, "c%zu.%zu", i, g); /* as on servers that nothing has run on */
      const char *const in_own[] = {few[0], few[1], few[2], "--container", own, NULL};
      double wanted[MAX_POINTS] = {0}, got[MAX_POINTS] = {0};
      submit_graph(&job, &c, graphs[g], strategies[i], in_own);
      if (!ends_well(&job, strategies[i])) break;
      int n = losses(&job, wanted);
      for (int again = 0; again < 3; again++) {
        if (again == 2) {
          submit_graph(&job, &c, graphs[g], strategies[i], endless);
          wait_for_lines(&job, 20);
          weft_test_process_kill(&job.process);
        }
        submit_graph(&other, &c, graphs[g], strategies[i], few);
        if (!ends_well(&other, strategies[i])) break;
        CU_ASSERT_EQUAL(losses(&other, got), n);
        for (int k = 0; k < n; k++) {
          if (got[k] != wanted[k])
            printf("\n    %s, %s, job %d: loss %d is %.9g instead of %.9g", graphs[g], strategies[i], again,
                   k, got[k], wanted[k]);
          CU_ASSERT_EQUAL(got[k], wanted[k]);
        }
      }
    }
  }
  weft_test_servers_kill(&c);
}

/* ---- containers ---- */

/* Jobs of one graph at the same time, in containers of their own: the losses of one that is alone, to the
 * last digit. */
static void jobs_in_different_containers_share_nothing(void) {
  static const char *const strategies[] = {
      NULL, "multi_worker_mirrored:2", "parameter_server:mode=sync,ps=1,workers=2",
      "parameter_server:mode=async,workers=1", "parameter_server:mode=ssp,workers=1,staleness=1"};
  static const char *const plain[] = {"--json", "--steps", "20", NULL}, *const a[] = {"--json", "--steps",
                                                                                      "20",     "--container",
                                                                                      "a",      NULL},
                           *const b[] = {"--json", "--steps", "20", "--container", "b/c-1", NULL};
  weft_test_servers_t c;
  weft_test_servers_start(&c);
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    double wanted[MAX_POINTS] = {0}, got[2][MAX_POINTS] = {{0}};
    submit(&job, &c, strategies[i], plain);
    if (!ends_well(&job, "alone")) break;
    int n = losses(&job, wanted);
    submit(&job, &c, strategies[i], a);
    submit(&other, &c, strategies[i], b);
    bool ok = ends_well(&job, "a");
    ok = ends_well(&other, "b") && ok;
    if (!ok) break;
    CU_ASSERT_EQUAL(losses(&job, got[0]), n);
    CU_ASSERT_EQUAL(losses(&other, got[1]), n);
    CU_ASSERT_TRUE(n >= 20);
    for (int k = 0; k < n; k++) CU_ASSERT_TRUE(got[0][k] == wanted[k] && got[1][k] == wanted[k]);
  }
  weft_test_servers_kill(&c);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a job starts clean after a killed client", a_job_starts_clean_after_a_killed_client},
      {"nothing is left of a killed client", nothing_is_left_of_a_killed_client},
      {"a client that is stopped keeps its session", a_client_that_is_stopped_keeps_its_session},
      {"initialisers see nothing of former jobs", initialisers_see_nothing_of_former_jobs},
      {"jobs in different containers share nothing", jobs_in_different_containers_share_nothing},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("jobs", tests);
}
