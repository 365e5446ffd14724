/* tests/cluster/blame_test.c - the first line of an error names the task that was killed, shut down or
 * stopped, and says so, whichever task it is and however the job uses it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/cluster/server_process.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/runner.h"
#include "tests/tools/array_file.h"

enum { OUTPUT = 1 << 16, DEADLINE_MS = 30000, STEPS = 20 };

static const char *const tasks[] = {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0",
                                    "/job:worker/replica:0/task:1"};

typedef struct fault {
  int signal;
  const char *said[3]; /* one of these is in the first line; NULL: no more */
} fault_t;
static const fault_t faults[] = {
    {SIGTERM,
     {"was shut down", "cannot connect to", "lost the connection to"}}, /* a call may come before the news */
    {SIGKILL, {"is lost: it has ended", "cannot connect to", "lost the connection to"}},
    {SIGSTOP, {"does not answer", NULL, NULL}},
};
enum { NUM_FAULTS = sizeof faults / sizeof faults[0] };

static void expect_blame(const char *line, const fault_t *f, int task, const char *what) {
  bool is_said = false;
  for (int i = 0; i < 3 && f->said[i] != NULL; i++) is_said = is_said || strstr(line, f->said[i]) != NULL;
  bool ok = is_said && strstr(line, tasks[task]) != NULL;
  if (!ok) printf("\n    %s, signal %d to %s: %s\n", what, f->signal, tasks[task], line);
  CU_ASSERT_TRUE(ok);
}

/* ---- a client of the master: every task computes a part of z ---- */

#define NODE(name, op, input, device, more) \
  "node{name:\"" name "\" op:\"" op "\" " input " device:\"" device "\" " more "} "
#define IN(x) "input:\"" x "\" "
#define T "attr{key:\"T\" value{type:DT_FLOAT}} "
static const char graph[] =
    NODE("x", "Placeholder", "", "/job:worker/task:0", "attr{key:\"dtype\" value{type:DT_FLOAT}} ")
        NODE("y", "Neg", IN("x"), "/job:ps", T) NODE("z", "Neg", IN("y"), "/job:worker/task:1", T);

static weft_status_t *run_z(weft_test_session_t *s) {
  double out = 0;
  return weft_test_run(s, &(weft_test_run_t){.feeds = {"x:0"}, .values = {2}, .fetches = {"z:0"}}, &out);
}

static void blame_in_a_session(const fault_t *f, int task) {
  weft_test_servers_t servers;
  weft_test_client_t c;
  weft_test_servers_start(&servers);
  if (weft_test_client_open(&c, servers.processes[1].target, DEADLINE_MS)) {
    weft_test_session_t s = weft_test_opened(c.master, graph);
    weft_status_t *status = NULL;
    for (int i = 0; status == NULL && i < STEPS; i++) status = run_z(&s);
    weft_test_expect(status, WEFT_OK, "");
    kill(servers.processes[task].pid, f->signal);
    int64_t until = weft_clock_ns() + DEADLINE_MS * INT64_C(1000000);
    for (status = NULL; status == NULL && weft_clock_ns() < until;) status = run_z(&s);
    bool is_master = task == 1;
    CU_ASSERT_TRUE(weft_status_code(status) == WEFT_UNAVAILABLE ||
                   (is_master && weft_status_code(status) == WEFT_ABORTED));
    char line[1000];
    snprintf(line, sizeof line, "%s", weft_status_message(status));
    line[strcspn(line, "\n")] = '\0';
    expect_blame(line, f, task, "a session");
    weft_status_free(status);
    kill(servers.processes[task].pid, SIGCONT);
    if (is_master || f->signal == SIGSTOP) {
      weft_status_free(weft_test_close(&s)); /* the master is not there, or has only just come back */
    } else {
      weft_test_expect(weft_test_close(&s), WEFT_OK, "");
    }
    weft_test_client_close(&c);
  }
  weft_test_servers_kill(&servers);
}

static void a_session_blames_the_task(void) {
  for (int f = 0; f < NUM_FAULTS; f++) {
    for (int task = 0; task < 3; task++) blame_in_a_session(&faults[f], task);
  }
}

/* ---- jobs under strategies ---- */

static const char *const strategies[] = {
    "parameter_server:mode=async,workers=2", "parameter_server:mode=ssp,staleness=2,workers=2",
    "parameter_server:mode=sync,workers=2", "multi_worker_mirrored:workers=2"};

static void blame_in_a_job(const char *strategy, const fault_t *f, int task) {
  static char x[600], y[600], out[OUTPUT], err[OUTPUT]; /* large, so not on the stack */
  weft_test_servers_t servers;
  weft_test_process_t job;
  if (x[0] == '\0') {
    write_array(x, "x", "<f4", 64, 32, 1);
    write_array(y, "y", "<i4", 64, 0, 4);
  }
  weft_test_servers_start(&servers);
  const char *const args[] = {"submit",     "tests/strategies/testdata/mlp_sgd.pb",
                              "--feed",     x,
                              "--feed",     y,
                              "--batch",    "8",
                              "--init",     "init",
                              "--target",   "train",
                              "--fetch",    "loss",
                              "--master",   servers.processes[1].target,
                              "--strategy", strategy,
                              "--steps",    "1000000",
                              "--json",     NULL};
  weft_test_process_start(&job, args, NULL);
  char c;
  int lines = STEPS;
  while (lines > 0 && read(job.out, &c, 1) == 1) lines -= c == '\n';
  CU_ASSERT_EQUAL(lines, 0);
  kill(servers.processes[task].pid, f->signal);
  CU_ASSERT_EQUAL(weft_test_process_wait(&job, DEADLINE_MS, out, err, OUTPUT), 1);
  char *details = strstr(err, " From /job:"),
       *several = strstr(err, " ====="); /* the command prints a message's lines one behind the other */
  if (details != NULL) *details = '\0';
  if (several != NULL) *several = '\0';
  expect_blame(err, f, task, strategy);
  weft_test_servers_kill(&servers);
}

static void a_job_blames_the_task(void) {
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    for (int task = 0; task < 3; task++) {
      if (task == 0 && i == 3) continue; /* that strategy has no use for the ps */
      blame_in_a_job(strategies[i], &faults[0], task);
      blame_in_a_job(strategies[i], &faults[1], task);
    }
  }
}

/* A task that is only too small is told how it gets what the job wants; one that has another device is asked
 * for those first. */
static void a_server_with_too_few_devices(void) {
  static char x[600], y[600], out[OUTPUT], err[OUTPUT];
  weft_test_servers_t servers;
  weft_test_process_t job;
  write_array(x, "x", "<f4", 64, 32, 1);
  write_array(y, "y", "<i4", 64, 0, 4);
  weft_test_servers_start(&servers);
  static const char *const wanted[][2] = {
      {"mirrored:3", "weft server --cpus 3"},
      {"multi_worker_mirrored:workers=2,per_worker=4", "weft server --cpus 4"}};
  const bool has_late = getenv("WEFT_LATE_DEVICES") != NULL;
  for (int i = 0; i < 2; i++) {
    const char *text = has_late ? "has 1 LATE device: device_type=CPU takes CPUs" : wanted[i][1];
    const char *const args[] = {"submit",     "tests/strategies/testdata/mlp_sgd.pb",
                                "--feed",     x,
                                "--feed",     y,
                                "--batch",    "8",
                                "--init",     "init",
                                "--target",   "train",
                                "--master",   servers.processes[1].target,
                                "--strategy", wanted[i][0],
                                NULL};
    weft_test_process_start(&job, args, NULL);
    CU_ASSERT_EQUAL(weft_test_process_wait(&job, DEADLINE_MS, out, err, OUTPUT), 1);
    if (strstr(err, text) == NULL) printf("\n    %s: %s\n", wanted[i][0], err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err, text));
  }
  weft_test_servers_kill(&servers);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a session blames the task", a_session_blames_the_task},
      {"a job blames the task", a_job_blames_the_task},
      {"a server with too few devices is told how to get them", a_server_with_too_few_devices},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("blame", tests);
}
