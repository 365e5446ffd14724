/* Sessions that end with their client: clients that hold them, break off, come back, stay away, or are not
 * looked after. */
#include "master/clients.h"
#include <sched.h>

#include <stdio.h>

#include "base/alloc.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/runner.h"

#define PS "/job:ps"
#define W1 "/job:worker/task:1"
#define QUEUE(name, device)                                      \
  "node{name:\"" name "\" op:\"FIFOQueueV2\" device:\"" device   \
  "\" attr{key:\"component_types\" value{list{type:DT_FLOAT}}} " \
  "attr{key:\"shapes\" value{list{shape{}}}}} "
#define DEQUEUE(name, q, device)                                                  \
  "node{name:\"" name "\" op:\"QueueDequeueV2\" input:\"" q "\" device:\"" device \
  "\" "                                                                           \
  "attr{key:\"component_types\" value{list{type:DT_FLOAT}}}} "

/* Waits for ever, on a queue that is the session's own. */
static const char blocked[] = "versions{producer:1882} " QUEUE("q", PS) DEQUEUE("deq", "q", PS) "node{name:\"out\" op:\"Identity\" "
                              "input:\"deq\" device:\"" W1 "\" attr{key:\"T\" value{type:DT_FLOAT}}} ";
static const weft_test_run_t wait_for_ever = {.fetches = {"out:0"}};

/* A client's call. */
typedef struct holding {
  weft_canceller_t *call;
  weft_test_step_t end;
} holding_t;

static void hold(weft_master_client_t *m, const char *client, holding_t *h) {
  h->call = weft_canceller_create(NULL);
  weft_test_step_begin(&h->end);
  const weft_hold_client_t r = {.client = weft_str(client), .peer = WEFT_STR("ipv4:10.0.0.7:4711")};
  m->ops->hold_client(m, &r, h->call, weft_test_on_done, &h->end);
}

static void ends(holding_t *h, weft_code_t code, const char *text) {
  weft_test_expect(weft_test_step_wait(&h->end), code, text);
  weft_test_step_deinit(&h->end);
  weft_canceller_release(h->call);
}

/* The client's process ends. */
static void break_off(holding_t *h) {
  weft_canceller_cancel(h->call);
  ends(h, WEFT_CANCELLED, "cancelled");
}

static weft_test_session_t opened_by(weft_master_client_t *m, const char *client) {
  weft_test_session_t s;
  weft_test_expect(weft_test_open_by(m, blocked, client, NULL, &s), WEFT_OK, "");
  return s;
}

/* All workers and the master forget the session. */
static void is_closed_for(weft_test_cluster_t *c, weft_test_session_t *s, const char *why) {
  weft_test_cluster_await_sessions(c, 0);
  weft_test_expect(weft_test_run(s, &wait_for_ever, NULL), WEFT_ABORTED, why);
  weft_test_expect(weft_test_close(s), WEFT_ABORTED, why);
  CU_ASSERT_EQUAL(weft_test_cluster_steps(c), 0);
}

static void a_session_ends_when_its_client_is_gone(void) {
  weft_test_cluster_t *c = weft_test_cluster_with_grace(20);
  weft_master_client_t *m = weft_test_cluster_master(c, 1);
  for (int i = 0; i < 3; i++) { /* also a client that was gone before */
    holding_t h;
    weft_test_step_t k;
    hold(m, "weft (process 12)", &h);
    weft_test_session_t s = opened_by(m, "weft (process 12)"), other = opened_by(m, "weft (process 12)");
    weft_test_start(&s, &wait_for_ever, &k); /* never cancelled */
    break_off(&h);
    weft_test_expect(weft_test_step_wait(&k), WEFT_CANCELLED, "Step was cancelled: its client, ");
    weft_test_step_deinit(&k);
    is_closed_for(c, &s, "s ago: its client, weft (process 12) at ipv4:10.0.0.7:4711, is gone since 20");
    is_closed_for(c, &other, "is gone since 20");
  }
  weft_test_cluster_destroy(c);
}

static void a_session_whose_client_never_holds_it_ends(void) {
  weft_test_cluster_t *c = weft_test_cluster_with_grace(20);
  weft_test_session_t s = opened_by(weft_test_cluster_master(c, 1), "killed at once");
  is_closed_for(c, &s, "its client, killed at once, is gone since 20");
  weft_test_cluster_destroy(c);
}

static void a_client_that_comes_back_keeps_its_session(void) {
  weft_test_cluster_t *c = weft_test_cluster_with_grace(300);
  weft_master_client_t *m = weft_test_cluster_master(c, 1);
  holding_t a, b;
  hold(m, "a", &a);
  hold(m, "b", &b);
  weft_test_session_t kept = opened_by(m, "a"), other = opened_by(m, "b");
  break_off(&a);
  break_off(&b);
  hold(m, "a", &a); /* before its time is over, which has to pass without effect: until the other's session
                       has ended */
  weft_test_cluster_await_sessions(c, 3);
  weft_test_expect(weft_test_close(&other), WEFT_ABORTED, "its client, b at");
  weft_test_expect(weft_test_close(&kept), WEFT_OK, "");
  break_off(&a);
  weft_test_cluster_destroy(c);
}

/* It is back while the sessions that it had are closed, one after the other. */
static void a_client_that_is_back_keeps_its_new_session(void) {
  enum { SESSIONS = 6, TASKS = 3 };
  weft_test_cluster_t *c = weft_test_cluster_with_grace(20);
  weft_master_client_t *m = weft_test_cluster_master(c, 1);
  for (int round = 0; round < 5; round++) {
    holding_t h, again;
    weft_test_session_t old[SESSIONS];
    hold(m, "a", &h);
    for (int i = 0; i < SESSIONS; i++) old[i] = opened_by(m, "a");
    break_off(&h);
    while (weft_test_cluster_sessions(c) == SESSIONS * TASKS) sched_yield(); /* until the first is closed */
    hold(m, "a", &again);
    weft_test_session_t new = opened_by(m, "a");
    weft_test_cluster_await_sessions(c, TASKS);
    for (int i = 0; i < SESSIONS; i++)
      weft_test_expect(weft_test_close(&old[i]), WEFT_ABORTED, "is gone since 20");
    weft_test_expect(weft_test_close(&new), WEFT_OK, "");
    break_off(&again);
  }
  weft_test_cluster_destroy(c);
}

static void a_call_takes_the_place_of_an_older_one(void) {
  weft_test_cluster_t *c = weft_test_cluster_with_grace(20);
  weft_master_client_t *m = weft_test_cluster_master(c, 1);
  holding_t old, new, other;
  hold(m, "a", &old);
  weft_test_session_t kept = opened_by(m, "a"), gone = opened_by(m, "b");
  hold(m, "a", &new);
  weft_canceller_cancel(old.call); /* too late to mean anything */
  ends(&old, WEFT_ABORTED, "another call");
  hold(m, "b", &other);
  break_off(&other);
  weft_test_cluster_await_sessions(c, 3);
  weft_test_expect(weft_test_close(&gone), WEFT_ABORTED, "its client, b at");
  weft_test_expect(weft_test_close(&kept), WEFT_OK, "");
  break_off(&new);
  weft_test_cluster_destroy(c);
}

static void sessions_without_a_client_live_on(void) {
  weft_test_cluster_t *c = weft_test_cluster_with_grace(20);
  weft_master_client_t *m = weft_test_cluster_master(c, 1);
  holding_t h, nameless;
  weft_test_session_t kept;
  hold(m, "", &nameless);
  ends(&nameless, WEFT_INVALID_ARGUMENT, "printable");
  weft_test_expect(weft_test_open_by(m, blocked, "a\nb", NULL, &kept), WEFT_INVALID_ARGUMENT, "printable");
  char long_id[300] = "";
  memset(long_id, 'a', sizeof long_id - 1);
  weft_test_expect(weft_test_open_by(m, blocked, long_id, NULL, &kept), WEFT_INVALID_ARGUMENT, "printable");
  kept = opened_by(m, "");
  hold(m, "a", &h);
  weft_test_session_t gone = opened_by(m, "a");
  break_off(&h);
  weft_test_cluster_await_sessions(c, 3);
  weft_test_expect(weft_test_close(&gone), WEFT_ABORTED, "its client, a at");
  weft_test_expect(weft_test_close(&kept), WEFT_OK, "");
  weft_test_cluster_destroy(c);
}

/* As a server may be told: sessions outlive their clients. */
static void no_client_is_gone_without_an_end_of_the_grace(void) {
  weft_test_cluster_t *c = weft_test_cluster_with_grace(-1);
  weft_master_client_t *m = weft_test_cluster_master(c, 1);
  holding_t h;
  hold(m, "a", &h);
  weft_test_session_t s = opened_by(m, "a");
  break_off(&h);
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  weft_test_cluster_destroy(c);
}

static void a_master_that_stops_ends_the_calls(void) {
  weft_test_cluster_t *c = weft_test_cluster_with_grace(20);
  holding_t h[3];
  for (int i = 0; i < 3; i++) hold(weft_test_cluster_master(c, 1), (const char *[]){"a", "b", "c"}[i], &h[i]);
  (void)opened_by(weft_test_cluster_master(c, 1), "a");
  weft_test_cluster_stop_master(c, 1);
  for (int i = 0; i < 3; i++) ends(&h[i], WEFT_UNAVAILABLE, "stopping");
  hold(weft_test_cluster_master(c, 1), "d", &h[0]);
  ends(&h[0], WEFT_UNAVAILABLE, "stopping");
  weft_test_cluster_destroy(c);
}

/* The answer with the session's handle reaches no client. The same holds for TensorFlow's clients. */
static void a_session_whose_creator_is_gone_before_the_answer_is_not_kept(void) {
  weft_test_cluster_t *c = weft_test_cluster_usual();
  for (int i = 0; i < 2; i++) {
    weft_canceller_t *call = weft_canceller_create(NULL);
    weft_test_session_t s;
    weft_test_cluster_cancel_by_creation(c, call);
    weft_test_expect(weft_test_open_by(weft_test_cluster_master(c, 1), blocked, i == 0 ? "" : "a", call, &s),
                     WEFT_CANCELLED, "");
    weft_test_cluster_await_sessions(c, 0);
    weft_test_cluster_cancel_by_creation(c, NULL);
    weft_canceller_release(call);
  }
  weft_test_cluster_destroy(c);
}

static void fell(void *arg, uint64_t life, const char *why) {
  (void)arg;
  (void)life;
  (void)why;
}
static void keep_status(void *arg, weft_status_t *status) { *(weft_status_t **)arg = status; }

static weft_status_t *enter_and_hold(weft_clients_t *clients, weft_canceller_t *call) {
  weft_status_t *end = NULL;
  uint64_t life = 0;
  WEFT_RETURN_IF_ERROR(weft_clients_enter(clients, WEFT_STR("a"), &life));
  const weft_hold_client_t r = {.client = WEFT_STR("a"), .peer = WEFT_STR("p")};
  weft_clients_hold(clients, &r, call, keep_status, &end);
  if (end == NULL) weft_clients_stop(clients);
  weft_clients_leave(clients, WEFT_STR("a"), life);
  bool was_held = weft_status_code(end) == WEFT_UNAVAILABLE;
  if (was_held) weft_status_free(end);
  return was_held ? NULL : end;
}

static weft_status_t *all_of_it(weft_timer_t *timer) {
  weft_clients_t *clients = NULL;
  weft_canceller_t *call = weft_canceller_create(NULL);
  weft_status_t *s =
      call == NULL ? WEFT_NO_MEMORY("a test") : weft_clients_create(timer, -1, fell, NULL, &clients);
  if (s == NULL) s = enter_and_hold(clients, call);
  weft_clients_destroy(clients);
  weft_canceller_release(call);
  return weft_status_code(s) == WEFT_CANCELLED
             ? weft_status_join(WEFT_ERROR(RESOURCE_EXHAUSTED, "not registered"), s)
             : s;
}

static void memory_may_run_out(void) {
  int n;
  weft_timer_t *timer = NULL;
  weft_test_expect(weft_timer_create(&timer), WEFT_OK, "");
  WEFT_FAIL_EACH_ALLOCATION(n, s, all_of_it(timer));
  weft_timer_destroy(timer);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a session ends when its client is gone", a_session_ends_when_its_client_is_gone},
      {"a session whose client never holds it ends", a_session_whose_client_never_holds_it_ends},
      {"a client that comes back keeps its session", a_client_that_comes_back_keeps_its_session},
      {"a client that is back keeps its new session", a_client_that_is_back_keeps_its_new_session},
      {"a call takes the place of an older one", a_call_takes_the_place_of_an_older_one},
      {"sessions without a client live on", sessions_without_a_client_live_on},
      {"no client is gone without an end of the grace", no_client_is_gone_without_an_end_of_the_grace},
      {"a master that stops ends the calls", a_master_that_stops_ends_the_calls},
      {"a session whose creator is gone before the answer is not kept",
       a_session_whose_creator_is_gone_before_the_answer_is_not_kept},
      {"memory may run out", memory_may_run_out},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("clients", tests);
}
