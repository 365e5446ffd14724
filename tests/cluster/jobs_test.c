/* tests/cluster/jobs_test.c - jobs of `weft submit` that share a cluster, one after the other and at once. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/cluster/server_process.h"
#include "tests/runner.h"
#include "tests/tools/array_file.h"

enum { MOST_ARGUMENTS = 28, OUTPUT = 1 << 16, MAX_POINTS = 64, PATIENCE_MS = 30000 };
#define GRAPH "tests/strategies/testdata/mlp_adam.pbtxt"

typedef struct job {
  weft_test_process_t process;
  char out[OUTPUT], err[OUTPUT];
} job_t;
static job_t job, other; /* large, so not on the stack */

/* `more` ends with NULL. */
static void submit(job_t *j, const weft_test_servers_t *c, const char *strategy, const char *const *more) {
  static char x[600], y[600]; /* written once: jobs may read them at the same time */
  if (x[0] == '\0') {
    write_array(x, "x", "<f4", 64, 32, 1);
    write_array(y, "y", "<i4", 64, 0, 4);
  }
  const char *args[MOST_ARGUMENTS + 1] = {"submit", GRAPH,      "--feed", x,         "--feed", y,          "--batch",
                                          "8",      "--init",   "init",   "--target", "train",  "--fetch", "loss",
                                          "--master", c->processes[1].target};
  int n = 16;
  if (strategy != NULL) args[n++] = "--strategy";
  if (strategy != NULL) args[n++] = strategy;
  for (int i = 0; more[i] != NULL; i++) args[n++] = more[i];
  CU_ASSERT_TRUE_FATAL(n <= MOST_ARGUMENTS);
  weft_test_process_start(&j->process, args, NULL);
}

static bool ends_well(job_t *j, const char *what) {
  int code = weft_test_process_wait(&j->process, PATIENCE_MS, j->out, j->err, OUTPUT);
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
  static const char *const strategies[] = {"parameter_server:mode=ssp,staleness=2", "parameter_server:mode=ssp,staleness=40",
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

/* ---- containers ---- */

static int losses(const job_t *j, double *out) {
  int n = 0;
  for (const char *line = j->out, *end; (end = strchr(line, '\n')) != NULL && n < MAX_POINTS; line = end + 1) {
    const char *loss = strstr(line, "\"loss\":");
    CU_ASSERT_TRUE(loss != NULL && loss < end && sscanf(loss + 7, "%lf", &out[n]) == 1);
    n++;
  }
  return n;
}

/* Jobs of one graph at the same time, in containers of their own: the losses of one that is alone, to the last digit. */
static void jobs_in_different_containers_share_nothing(void) {
  static const char *const strategies[] = {NULL, "multi_worker_mirrored:2", "parameter_server:mode=sync,ps=1,workers=2",
                                           "parameter_server:mode=async,workers=1", "parameter_server:mode=ssp,workers=1,staleness=1"};
  static const char *const plain[] = {"--json", "--steps", "20", NULL},
                    *const a[] = {"--json", "--steps", "20", "--container", "a", NULL},
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
      {"jobs in different containers share nothing", jobs_in_different_containers_share_nothing},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("jobs", tests);
}
