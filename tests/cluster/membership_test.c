/* Heartbeats between real servers: one that is killed, one that hangs, one that comes again; keys and values
 * over gRPC. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "services/remote_coordination.h"
#include "tests/cluster/server_process.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/membership/membership_testing.h"
#include "tests/pace.h"
#include "tests/runner.h"

#define NODE(name, op, inputs, device, more) \
  "node{name:\"" name "\" op:\"" op "\" " inputs " device:\"" device "\" " more "} "
#define IN(x) "input:\"" x "\" "
#define T "attr{key:\"T\" value{type:DT_FLOAT}} "
#define QUEUE_TYPES "attr{key:\"component_types\" value{list{type:DT_FLOAT}}} "
#define X NODE("x", "Placeholder", "", "", "attr{key:\"dtype\" value{type:DT_FLOAT}} ")

/* "stuck" waits on the second worker for what the ps never has; "local" waits on the ps alone. */
static const char graph[] = X NODE("y", "Neg", IN("x"), "/job:ps", T)
    NODE("z", "Neg", IN("y"), "/job:worker/task:1", T) NODE("q", "FIFOQueueV2", "", "/job:ps", QUEUE_TYPES)
        NODE("deq", "QueueDequeueV2", IN("q"), "/job:ps", QUEUE_TYPES)
            NODE("stuck", "Neg", IN("deq"), "/job:worker/task:1", T)
                NODE("local", "Neg", IN("deq"), "/job:ps", T);
enum { DEADLINE_MS = 60000 };

typedef struct blocked {
  weft_test_session_t session;
  weft_test_step_t step;
  weft_test_run_t run;
  pthread_t thread;
} blocked_t;

static void *run_blocked(void *arg) {
  blocked_t *b = arg;
  weft_test_start(&b->session, &b->run, &b->step);
  return NULL;
}

static void start_blocked(blocked_t *b, weft_test_session_t s, const char *fetch) {
  *b = (blocked_t){.session = s, .run = {.fetches = {fetch}}};
  CU_ASSERT_EQUAL_FATAL(pthread_create(&b->thread, NULL, run_blocked, b), 0);
}

static weft_status_t *end_blocked(blocked_t *b) {
  pthread_join(b->thread, NULL);
  weft_status_t *s = weft_test_step_wait(&b->step);
  weft_test_step_deinit(&b->step);
  return s;
}

static weft_status_t *run_z(weft_test_session_t *s, double *out) {
  return weft_test_run(s, &(weft_test_run_t){.feeds = {"x:0"}, .values = {2}, .fetches = {"z:0"}}, out);
}

/* The step ends with UNAVAILABLE that names the ps, though the ps neither answers nor closes a connection. */
static void expect_lost_ps(blocked_t *b, int64_t since_ns) {
  weft_status_t *status = end_blocked(b);
  CU_ASSERT_EQUAL(weft_status_code(status), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(status), "/job:ps/replica:0/task:0"));
  CU_ASSERT_TRUE(weft_test_is_within(since_ns, 6000));
  if (weft_status_code(status) != WEFT_UNAVAILABLE) printf("\n    %s\n", weft_status_message(status));
  weft_status_free(status);
}

/* ---- reading the cluster state ---- */

enum { OWN_INCARNATION = 77 };

typedef struct state {
  weft_test_answer_t answer;
  uint64_t epoch;
  weft_member_state_t states[3];
  uint64_t incarnations[3];
} roll_t;

static void on_state(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members, int n) {
  roll_t *r = arg;
  r->epoch = epoch;
  for (int i = 0; i < n && i < 3; i++) {
    r->states[i] = members[i].state;
    r->incarnations[i] = members[i].incarnation;
  }
  weft_test_answered(&r->answer, status, WEFT_STR(""));
}

/* Watches as the task `name` ("": looks on) until `task` is in `state`. */
static bool wait_for_state(weft_coordination_client_t *k, roll_t *r, const char *name, int task,
                           weft_member_state_t state) {
  for (int i = 0; i < 100; i++) {
    weft_coordination_caller_t caller = {weft_str(name), OWN_INCARNATION, r->epoch};
    k->ops->watch(k, &caller, 2000, NULL, on_state, r);
    if (weft_test_answer_wait(&r->answer) != WEFT_OK) return false;
    if (r->states[task] == state) return true;
  }
  return false;
}

/* A client of the service, which is the first worker. */
typedef struct observer {
  weft_rpc_client_t *rpc;
  weft_rpc_channel_t *channel;
  weft_coordination_client_t *service;
  roll_t state;
} observer_t;

static void observe(observer_t *o, const weft_test_servers_t *servers) {
  *o = (observer_t){.state = {.epoch = 0}};
  weft_test_answer_init(&o->state.answer);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(0, &o->rpc));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(
      o->rpc, weft_str(servers->processes[1].target + strlen("grpc://")), &o->channel));
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_coordination_client_create(o->channel, &o->service));
}

static void observer_close(observer_t *o) {
  o->service->ops->destroy(o->service);
  weft_rpc_channel_release(o->channel);
  weft_rpc_client_destroy(o->rpc);
  weft_test_answer_deinit(&o->state.answer);
}

static void wait_until_all_are_there(const weft_test_servers_t *servers) {
  observer_t o;
  observe(&o, servers);
  for (int i = 0; i < 3; i++) CU_ASSERT_TRUE(wait_for_state(o.service, &o.state, "", i, WEFT_MEMBER_ALIVE));
  observer_close(&o);
}

static void a_task_that_hangs_ends_the_steps_that_wait_for_it(void) {
  weft_test_servers_t servers;
  weft_test_client_t c;
  weft_test_servers_start(&servers);
  wait_until_all_are_there(&servers);
  if (weft_test_client_open(&c, servers.processes[1].target, DEADLINE_MS)) {
    double out = 0;
    weft_test_session_t s = weft_test_opened(c.master, graph);
    weft_test_expect(run_z(&s, &out), WEFT_OK, "");
    blocked_t crossing, local, late;
    start_blocked(&crossing, s, "stuck:0"); /* the second worker waits for the ps */
    start_blocked(&local, s, "local:0");    /* the master waits for the ps */
    weft_test_expect(run_z(&s, &out), WEFT_OK, "");
    int64_t t0 = weft_clock_ns();
    kill(servers.processes[0].pid, SIGSTOP);
    expect_lost_ps(&crossing, t0);
    expect_lost_ps(&local, t0);
    t0 = weft_clock_ns();
    start_blocked(&late, s, "stuck:0"); /* begins while it is lost */
    expect_lost_ps(&late, t0);
    kill(servers.processes[0].pid, SIGCONT);
    weft_status_t *status = NULL;
    t0 = weft_clock_ns();
    do { /* it comes again, and the session goes on */
      weft_status_free(status);
      status = run_z(&s, &out);
    } while (weft_status_code(status) == WEFT_UNAVAILABLE &&
             weft_clock_ns() - t0 < (int64_t)DEADLINE_MS * 1000000);
    weft_test_expect(status, WEFT_OK, "");
    CU_ASSERT_EQUAL(out, 2);
    weft_test_expect(weft_test_close(&s), WEFT_OK, "");
    weft_test_client_close(&c);
  }
  weft_test_servers_kill(&servers);
}

static void a_killed_task_fails_its_steps_at_once_and_is_back_at_once(void) {
  weft_test_servers_t servers;
  weft_test_client_t c;
  weft_test_servers_start(&servers);
  wait_until_all_are_there(&servers);
  if (weft_test_client_open(&c, servers.processes[1].target, DEADLINE_MS)) {
    weft_test_session_t s = weft_test_opened(c.master, graph);
    double out = 0;
    weft_test_expect(run_z(&s, &out), WEFT_OK, "");
    blocked_t b;
    start_blocked(&b, s, "stuck:0");
    weft_test_expect(run_z(&s, &out), WEFT_OK, "");
    int64_t t0 = weft_clock_ns();
    weft_test_process_kill(&servers.processes[2]);
    weft_status_t *status = end_blocked(&b);
    CU_ASSERT_TRUE(weft_status_code(status) == WEFT_UNAVAILABLE || weft_status_code(status) == WEFT_ABORTED);
    CU_ASSERT_TRUE(weft_test_is_within(t0, 1000));
    weft_status_free(status);
    weft_test_expect(weft_test_close(&s), WEFT_OK, "");
    if (weft_test_servers_start_one(&servers, 2)) {
      t0 = weft_clock_ns();
      s = weft_test_opened(c.master, graph);
      weft_test_expect(run_z(&s, &out), WEFT_OK, "");
      CU_ASSERT_TRUE(weft_test_is_within(t0, 2000));
      weft_test_expect(weft_test_close(&s), WEFT_OK, "");
    }
    weft_test_client_close(&c);
  }
  weft_test_servers_kill(&servers);
}

/* ---- the coordination service from outside ---- */

static void the_epoch_grows_with_every_coming_and_going(void) {
  weft_test_servers_t servers;
  observer_t o;
  weft_test_servers_start(&servers);
  wait_until_all_are_there(&servers);
  weft_test_process_kill(&servers.processes[0]);
  observe(&o, &servers);
  weft_coordination_client_t *k = o.service;
  roll_t *r = &o.state;
  CU_ASSERT_TRUE(wait_for_state(k, r, "", 0, WEFT_MEMBER_LOST)); /* while it is alive, its place is its own */
  static const char own[] = "/job:ps/replica:0/task:0";          /* this test plays the ps */
  CU_ASSERT_TRUE(wait_for_state(k, r, own, 2, WEFT_MEMBER_ALIVE));
  CU_ASSERT_TRUE(r->states[0] == WEFT_MEMBER_ALIVE && r->incarnations[0] == OWN_INCARNATION);
  uint64_t before = r->epoch, incarnation = r->incarnations[2];
  weft_test_process_kill(&servers.processes[2]);
  int64_t t0 = weft_clock_ns();
  CU_ASSERT_TRUE(wait_for_state(k, r, own, 2, WEFT_MEMBER_LOST));
  CU_ASSERT_TRUE(weft_test_is_within(t0, 1000));
  CU_ASSERT_TRUE(r->epoch > before);
  before = r->epoch;
  (void)weft_test_servers_start_one(&servers, 2);
  CU_ASSERT_TRUE(wait_for_state(k, r, own, 2, WEFT_MEMBER_ALIVE));
  CU_ASSERT_TRUE(r->epoch > before && r->incarnations[2] != incarnation);
  /* keys and values */
  weft_store_request_t set = {.op = WEFT_STORE_SET, .key = WEFT_STR("k"), .value = WEFT_STR("v")};
  weft_store_request_t get = {.op = WEFT_STORE_GET, .key = WEFT_STR("k"), .timeout_ms = 5000};
  weft_store_request_t never = {.op = WEFT_STORE_GET, .key = WEFT_STR("never"), .timeout_ms = 20};
  k->ops->ask(k, &never, NULL, weft_test_answered, &r->answer);
  CU_ASSERT_EQUAL(weft_test_answer_wait(&r->answer), WEFT_DEADLINE_EXCEEDED);
  k->ops->ask(k, &set, NULL, weft_test_answered, &r->answer);
  CU_ASSERT_EQUAL(weft_test_answer_wait(&r->answer), WEFT_OK);
  k->ops->ask(k, &get, NULL, weft_test_answered, &r->answer);
  CU_ASSERT_EQUAL(weft_test_answer_wait(&r->answer), WEFT_OK);
  CU_ASSERT_STRING_EQUAL(r->answer.value, "v");
  observer_close(&o);
  weft_test_servers_kill(&servers);
}

/* ---- what it costs ---- */

static long resident_kb(pid_t pid) {
  char path[64], line[256];
  long kb = -1;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *f = fopen(path, "r");
  if (f == NULL) return -1;
  while (fgets(line, sizeof line, f) != NULL) {
    if (strncmp(line, "VmRSS:", 6) == 0) kb = atol(line + 6);
  }
  fclose(f);
  return kb;
}

static void an_idle_server_stays_small_and_starts_without_its_coordination_service(void) {
  weft_test_process_t p;
  char cluster[128];
  snprintf(cluster, sizeof cluster, "worker=127.0.0.1:%d,127.0.0.1:0", weft_test_free_port());
  const char *const arguments[] = {"server", "--cluster", cluster, "--job", "worker", "--task", "1", NULL};
  int64_t t0 = weft_clock_ns();
  weft_test_process_start(&p, arguments, NULL);
  CU_ASSERT_TRUE(weft_test_process_ready(&p));
  CU_ASSERT_TRUE(weft_test_is_within(t0, 2000)); /* it does not wait for the service, which never comes */
  int64_t ms = (weft_clock_ns() - t0) / 1000000;
  long kb = resident_kb(p.pid);
  printf("\n    ready in %d ms, %ld KB ... ", (int)ms, kb);
  CU_ASSERT_TRUE(kb > 0 && kb < 30 * 1024);
  CU_ASSERT_EQUAL(weft_test_process_stop(&p), 0);
}

static const CU_TestInfo tests[] = {
    {"a task that hangs ends the steps that wait for it", a_task_that_hangs_ends_the_steps_that_wait_for_it},
    {"a killed task fails its steps at once, and is back at once",
     a_killed_task_fails_its_steps_at_once_and_is_back_at_once},
    {"the epoch grows with every coming and going", the_epoch_grows_with_every_coming_and_going},
    {"an idle server stays small and starts without its coordination service",
     an_idle_server_stays_small_and_starts_without_its_coordination_service},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("membership processes", tests); }
