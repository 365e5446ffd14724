/* tests/cluster/replaced_test.c - processes that are not, or not any more, the task whose name they bear:
 * they end, the others go on. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/server.h"
#include "services/remote_coordination.h"
#include "tests/cluster/server_process.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/membership/membership_testing.h"
#include "tests/runner.h"

/* A task is lost after three beats that are missed, and has been replaced after twice that time. */
#define BEAT_MS "150"
enum { DEADLINE_MS = 30000, OUTPUT = 1 << 16, EXIT_REPLACED = 3, STRANGER = 4711 };

static const char *const tasks[] = {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0",
                                    "/job:worker/replica:0/task:1"};

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

/* ---- the coordination service ---- */

typedef struct seen_state {
  weft_rpc_client_t *rpc;
  weft_rpc_channel_t *channel;
  weft_coordination_client_t *service; /* of the first worker */
  weft_test_answer_t answer;
  uint64_t epoch;
  weft_member_state_t states[3];
  uint64_t incarnations[3], losses[3];
} seen_state_t;

static void on_state(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members, int n) {
  seen_state_t *r = arg;
  if (status == NULL) r->epoch = epoch;
  for (int i = 0; i < n && i < 3; i++) {
    r->states[i] = members[i].state;
    r->incarnations[i] = members[i].incarnation;
    r->losses[i] = members[i].losses;
  }
  weft_test_answered(&r->answer, status, WEFT_STR(""));
}

static void on_beaten(void *arg, weft_status_t *status, uint64_t epoch) {
  (void)epoch;
  weft_test_answered(arg, status, WEFT_STR(""));
}

static weft_code_t watch_as(seen_state_t *r, const weft_coordination_caller_t *caller) {
  r->service->ops->watch(r->service, caller, 2000, NULL, on_state, r);
  return weft_test_answer_wait(&r->answer);
}

static weft_code_t beat_as(seen_state_t *r, const weft_coordination_caller_t *caller) {
  r->service->ops->beat(r->service, caller, 5000, NULL, on_beaten, &r->answer);
  return weft_test_answer_wait(&r->answer);
}

static bool wait_for_state(seen_state_t *r, int task, weft_member_state_t state) {
  for (int i = 0; i < 100; i++) {
    if (watch_as(r, &(weft_coordination_caller_t){.task = WEFT_STR(""), .epoch = r->epoch}) != WEFT_OK)
      return false;
    if (r->states[task] == state) return true;
  }
  return false;
}

/* ---- a cluster, a session that needs all its tasks, and the cluster state ---- */

typedef struct world {
  weft_test_servers_t servers;
  weft_test_client_t client;
  weft_test_session_t session;
  seen_state_t state;
} world_t;

static void begin(world_t *w) {
  memset(w, 0, sizeof *w);
  weft_test_servers_start_with(&w->servers, "--heartbeat-ms", BEAT_MS, NULL);
  seen_state_t *r = &w->state;
  weft_test_answer_init(&r->answer);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(0, &r->rpc));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(
      r->rpc, weft_str(w->servers.processes[1].target + strlen("grpc://")), &r->channel));
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_coordination_client_create(r->channel, &r->service));
  for (int i = 0; i < 3; i++) CU_ASSERT_TRUE(wait_for_state(r, i, WEFT_MEMBER_ALIVE));
  CU_ASSERT_TRUE_FATAL(weft_test_client_open(&w->client, w->servers.processes[1].target, DEADLINE_MS));
  w->session = weft_test_opened(w->client.master, graph);
  weft_test_expect(run_z(&w->session), WEFT_OK, "");
}

static void end(world_t *w) {
  weft_test_client_close(&w->client);
  w->state.service->ops->destroy(w->state.service);
  weft_rpc_channel_release(w->state.channel);
  weft_rpc_client_destroy(w->state.rpc);
  weft_test_answer_deinit(&w->state.answer);
  weft_test_servers_kill(&w->servers);
}

static void start_second(const world_t *w, int task, weft_test_process_t *p) {
  const char *const args[] = {"server",
                              "--cluster",
                              w->servers.cluster,
                              "--job",
                              task == 0 ? "ps" : "worker",
                              "--task",
                              task == 2 ? "1" : "0",
                              "--port",
                              "0",
                              "--heartbeat-ms",
                              BEAT_MS,
                              NULL};
  weft_test_process_start(p, args, NULL);
  CU_ASSERT_TRUE(weft_test_process_ready(p));
}

static void expect_replaced(weft_test_process_t *p) {
  static char out[OUTPUT], err[OUTPUT]; /* large, so not on the stack */
  int code = weft_test_process_wait(p, DEADLINE_MS, out, err, OUTPUT);
  if (code != EXIT_REPLACED) printf("\n    code %d: %s\n", code, err);
  CU_ASSERT_EQUAL(code, EXIT_REPLACED);
  CU_ASSERT_PTR_NOT_NULL(strstr(err, "is alive as another process"));
}

/* A new session, on the tasks as they are now. They may hear later than this test that all are there. */
static void expect_steps_again(world_t *w) {
  int64_t until = weft_clock_ns() + DEADLINE_MS * INT64_C(1000000);
  weft_status_t *s = NULL;
  do {
    weft_status_free(s);
    s = weft_test_open(w->client.master, graph, "", &w->session);
    if (s != NULL) continue;
    s = run_z(&w->session);
    weft_test_expect(weft_test_close(&w->session), WEFT_OK, "");
  } while (weft_status_code(s) == WEFT_UNAVAILABLE && weft_clock_ns() < until);
  weft_test_expect(s, WEFT_OK, "");
}

/* ---- tests ---- */

/* Started with the same task and another port, while the first is alive. Steps run all the time. */
static void a_duplicate_ends(void) {
  world_t w;
  begin(&w);
  for (int task = 0; task < 3; task++) {
    weft_test_process_t second;
    start_second(&w, task, &second);
    int64_t until = weft_clock_ns() + INT64_C(1000000000);
    weft_status_t *s = NULL;
    while (s == NULL && weft_clock_ns() < until) s = run_z(&w.session);
    weft_test_expect(s, WEFT_OK, "");
    expect_replaced(&second);
    weft_test_expect(run_z(&w.session), WEFT_OK, "");
  }
  weft_test_expect(weft_test_close(&w.session), WEFT_OK, "");
  end(&w);
}

/* It is frozen until it counts as lost, a second process takes its place, and it thaws: it ends. So does
 * no other. */
static void a_process_that_was_replaced_while_it_was_frozen_ends(void) {
  for (int task = 0; task < 3; task += 2) {
    world_t w;
    weft_test_process_t second;
    begin(&w);
    uint64_t incarnation = w.state.incarnations[task];
    kill(w.servers.processes[task].pid, SIGSTOP);
    CU_ASSERT_TRUE(wait_for_state(&w.state, task, WEFT_MEMBER_LOST));
    start_second(&w, task, &second);
    CU_ASSERT_TRUE(wait_for_state(&w.state, task, WEFT_MEMBER_ALIVE));
    CU_ASSERT_TRUE(w.state.incarnations[task] != incarnation);
    kill(w.servers.processes[task].pid, SIGCONT);
    expect_replaced(&w.servers.processes[task]);
    CU_ASSERT_EQUAL(weft_test_process_stop(&second), 0);
    CU_ASSERT_TRUE(weft_test_servers_start_one(&w.servers, task));
    weft_status_free(weft_test_close(&w.session)); /* the process that it was made with is gone */
    expect_steps_again(&w);
    end(&w);
  }
}

/* The place of the task that hosts the coordination service is the cluster's address for it. A process that
 * listens elsewhere goes on while no process answers there, and ends when another one does. */
static void a_service_task_whose_address_another_process_has_ends(void) {
  world_t w;
  weft_test_process_t second;
  begin(&w);
  weft_test_process_kill(&w.servers.processes[1]);
  start_second(&w, 1, &second);
  CU_ASSERT_TRUE(weft_test_servers_start_one(&w.servers, 1));
  expect_replaced(&second);
  weft_status_free(weft_test_close(&w.session)); /* its master is gone */
  expect_steps_again(&w);
  end(&w);
}

/* Beats, watches and farewells in the name of tasks that are alive, with what any process can know. */
static void forged_calls_change_nothing(void) {
  world_t w;
  begin(&w);
  seen_state_t before = w.state;
  for (int task = 0; task < 3; task++) {
    for (int i = 0; i < 8; i++) {
      weft_coordination_caller_t caller = {
          .task = weft_str(tasks[task]),
          .incarnation = (i & 1) != 0 ? STRANGER : w.state.incarnations[task],
          .secret = (i & 2) != 0 ? STRANGER : 0,
          .is_leaving = (i & 4) != 0,
          .epoch = 1,
          .lost_service = 5};
      CU_ASSERT_EQUAL(beat_as(&w.state, &caller), WEFT_ABORTED);
      caller.is_leaving = false;
      CU_ASSERT_EQUAL(watch_as(&w.state, &caller), WEFT_ABORTED);
      weft_test_expect(run_z(&w.session), WEFT_OK, "");
    }
  }
  w.state.epoch = 0;
  CU_ASSERT_EQUAL(watch_as(&w.state, &(weft_coordination_caller_t){.task = WEFT_STR("")}), WEFT_OK);
  CU_ASSERT_EQUAL(w.state.epoch, before.epoch);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_TRUE(w.state.states[i] == WEFT_MEMBER_ALIVE &&
                   w.state.incarnations[i] == before.incarnations[i] &&
                   w.state.losses[i] == before.losses[i]);
  }
  weft_test_expect(weft_test_close(&w.session), WEFT_OK, "");
  end(&w);
}

/* A stranger takes the place of a task that is frozen, and keeps silent then: the task has its place again,
 * and steps run. */
static void a_task_whose_place_a_stranger_took_has_it_again(void) {
  world_t w;
  begin(&w);
  const int task = 2;
  uint64_t incarnation = w.state.incarnations[task];
  kill(w.servers.processes[task].pid, SIGSTOP);
  CU_ASSERT_TRUE(wait_for_state(&w.state, task, WEFT_MEMBER_LOST));
  CU_ASSERT_EQUAL(beat_as(&w.state,
                          &(weft_coordination_caller_t){
                              .task = weft_str(tasks[task]), .incarnation = STRANGER, .secret = STRANGER}),
                  WEFT_OK);
  kill(w.servers.processes[task].pid, SIGCONT);
  for (int i = 0; i < 100 && w.state.incarnations[task] != incarnation; i++)
    CU_ASSERT_TRUE(wait_for_state(&w.state, task, WEFT_MEMBER_ALIVE));
  CU_ASSERT_EQUAL(w.state.incarnations[task], incarnation);
  weft_test_expect(weft_test_close(&w.session), WEFT_OK, "");
  expect_steps_again(&w);
  end(&w);
}

static void note_replaced(void *arg, const weft_status_t *why) {
  CU_ASSERT_EQUAL(weft_status_code(why), WEFT_ABORTED);
  atomic_fetch_add((atomic_int *)arg, 1);
}

/* As TF_Server runs it: no command is there to end the process. */
static void a_server_of_this_process_stops_by_itself(void) {
  world_t w;
  atomic_int times = 0;
  weft_server_t *second = NULL;
  weft_cluster_t cluster = {.arena = WEFT_ARENA_INIT};
  begin(&w);
  CU_ASSERT_PTR_NULL_FATAL(weft_cluster_parse(weft_str(w.servers.cluster), &cluster));
  weft_server_options_t o = {.cluster = &cluster,
                             .job = WEFT_STR("worker"),
                             .task = 1,
                             .port = 0,
                             .heartbeat_ms = 150,
                             .on_replaced = note_replaced,
                             .on_replaced_arg = &times};
  CU_ASSERT_PTR_NULL_FATAL(weft_server_create(&o, &second));
  CU_ASSERT_PTR_NULL_FATAL(weft_server_start(second));
  weft_server_join(second); /* it stops by itself */
  CU_ASSERT_EQUAL(atomic_load(&times), 1);
  weft_server_destroy(second);
  weft_cluster_deinit(&cluster);
  weft_test_expect(run_z(&w.session), WEFT_OK, "");
  weft_test_expect(weft_test_close(&w.session), WEFT_OK, "");
  end(&w);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a duplicate ends", a_duplicate_ends},
      {"a process that was replaced while it was frozen ends",
       a_process_that_was_replaced_while_it_was_frozen_ends},
      {"a service task whose address another process has ends",
       a_service_task_whose_address_another_process_has_ends},
      {"forged calls change nothing", forged_calls_change_nothing},
      {"a task whose place a stranger took has it again", a_task_whose_place_a_stranger_took_has_it_again},
      {"a server of this process stops by itself", a_server_of_this_process_stops_by_itself},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("replaced processes", tests);
}
