/* Several tasks of one cluster in one process: tasks that join, are lost and return; over a service in the
 * process and over gRPC. */
#include "membership/membership.h"

#include <stdio.h>

#include "base/clock.h"
#include "membership/node_ids.h"
#include "membership/task_membership.h"
#include "services/remote_coordination.h"
#include "tests/membership/membership_testing.h"
#include "tests/pace.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

enum { TASKS = 3, INTERVAL_MS = 20, DEADLINE_MS = 10000, SECRET = 1000 };

static const weft_str_t names[TASKS] = {{"/job:ps/replica:0/task:0", 24},
                                        {"/job:worker/replica:0/task:0", 28},
                                        {"/job:worker/replica:0/task:1", 28}};
enum { SERVICE_TASK = 1 };

/* What one task was told, in order. */
typedef struct told {
  weft_mutex_t mu;
  weft_cond_t cond;
  int n;
  struct {
    int task;
    weft_member_state_t state;
    uint64_t incarnation, epoch;
  } items[64];
} told_t;

static void on_change(void *arg, uint64_t epoch, const weft_member_t *m) {
  told_t *t = arg;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < TASKS && t->n < 64; i++) {
    if (!weft_str_eq(m->task, names[i])) continue;
    t->items[t->n].task = i;
    t->items[t->n].state = m->state;
    t->items[t->n].incarnation = m->incarnation;
    t->items[t->n++].epoch = epoch;
  }
  weft_cond_broadcast(&t->cond);
  weft_mutex_unlock(&t->mu);
}

/* Waits until it has been told of `task`'s state with `incarnation`, at or behind item `from`; returns the
 * place behind, or -1. */
static int told_of(told_t *t, int from, int task, weft_member_state_t state, uint64_t incarnation) {
  int64_t until = weft_clock_ns() + (int64_t)DEADLINE_MS * 1000000;
  weft_mutex_lock(&t->mu);
  int at = -1;
  for (bool in_time = true; at < 0 && in_time;) {
    for (int i = from; at < 0 && i < t->n; i++) {
      if (t->items[i].task == task && t->items[i].state == state && t->items[i].incarnation == incarnation)
        at = i + 1;
    }
    if (at < 0) in_time = weft_cond_wait_until(&t->cond, &t->mu, until); /* woken by on_change */
  }
  weft_mutex_unlock(&t->mu);
  return at;
}

/* A cluster: memberships, and gRPC between them if `is_remote`. */
typedef struct cluster {
  bool is_remote;
  weft_rpc_client_t *rpc;
  weft_rpc_server_t *server; /* of the coordination service */
  int port;
  weft_membership_t *ms[TASKS];
  told_t told[TASKS];
} cluster_t;

static void start_task(cluster_t *c, int i, uint64_t incarnation, int64_t interval_ms) {
  weft_membership_options_t o = {.tasks = names,
                                 .num_tasks = TASKS,
                                 .own = i,
                                 .service_task = SERVICE_TASK,
                                 .incarnation = incarnation,
                                 .secret = incarnation + SECRET,
                                 .interval_ms = interval_ms,
                                 .misses = 100};
  CU_ASSERT_PTR_NULL_FATAL(weft_membership_create(&o, &c->ms[i]));
  CU_ASSERT_EQUAL(weft_membership_service(c->ms[i]) != NULL, i == SERVICE_TASK);
  if (i == SERVICE_TASK && c->is_remote) {
    weft_rpc_server_options_t so = {.host = "127.0.0.1", .port = c->port, .client = c->rpc};
    CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_create(&so, &c->server));
    CU_ASSERT_PTR_NULL_FATAL(weft_membership_service_register(weft_membership_service(c->ms[i]), c->server));
    CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_start(c->server));
    c->port = weft_rpc_server_port(c->server);
  }
  if (i != SERVICE_TASK) {
    weft_coordination_client_t *client = NULL;
    if (c->is_remote) {
      char target[64];
      weft_rpc_channel_t *channel = NULL;
      snprintf(target, sizeof target, "127.0.0.1:%d", c->port);
      CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(c->rpc, weft_str(target), &channel));
      CU_ASSERT_PTR_NULL_FATAL(weft_remote_coordination_client_create(channel, &client));
      weft_rpc_channel_release(channel);
    } else {
      CU_ASSERT_PTR_NULL_FATAL(
          weft_local_coordination_client_create(weft_membership_service(c->ms[SERVICE_TASK]), &client));
    }
    weft_membership_connect(c->ms[i], client);
  }
  weft_membership_watch(c->ms[i], on_change, &c->told[i]);
  CU_ASSERT_PTR_NULL_FATAL(weft_membership_start(c->ms[i]));
}

static void end_task(cluster_t *c, int i) {
  if (c->ms[i] == NULL) return;
  weft_membership_stop(c->ms[i]);
  if (i == SERVICE_TASK) weft_rpc_server_destroy(c->server);
  if (i == SERVICE_TASK) c->server = NULL;
  weft_membership_destroy(c->ms[i]);
  c->ms[i] = NULL;
}

static void begin(cluster_t *c, bool is_remote) {
  memset(c, 0, sizeof *c);
  c->is_remote = is_remote;
  if (is_remote) CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(0, &c->rpc));
  for (int i = 0; i < TASKS; i++) {
    weft_mutex_init(&c->told[i].mu);
    weft_cond_init(&c->told[i].cond);
  }
}

static void end(cluster_t *c) {
  for (int i = 0; i < TASKS; i++) {
    if (i != SERVICE_TASK) end_task(c, i);
  }
  end_task(c, SERVICE_TASK);
  weft_rpc_client_destroy(c->rpc);
  for (int i = 0; i < TASKS; i++) {
    weft_cond_deinit(&c->told[i].cond);
    weft_mutex_deinit(&c->told[i].mu);
  }
}

/* ---- coming and going ---- */

static void all_members_see_joins_losses_and_returns(bool is_remote) {
  cluster_t c;
  begin(&c, is_remote);
  start_task(&c, SERVICE_TASK, 11, INTERVAL_MS);
  start_task(&c, 0, 10, INTERVAL_MS);
  start_task(&c, 2, 12, INTERVAL_MS);
  CU_ASSERT_TRUE(told_of(&c.told[0], 0, 1, WEFT_MEMBER_ALIVE, 11) > 0);
  CU_ASSERT_TRUE(told_of(&c.told[0], 0, 2, WEFT_MEMBER_ALIVE, 12) > 0);
  CU_ASSERT_TRUE(told_of(&c.told[1], 0, 0, WEFT_MEMBER_ALIVE, 10) > 0);
  int seen = told_of(&c.told[1], 0, 2, WEFT_MEMBER_ALIVE, 12);
  CU_ASSERT_TRUE(seen > 0);
  uint64_t before = weft_membership_epoch(c.ms[0]);
  int64_t t0 = weft_clock_ns();
  end_task(&c, 2); /* its watch breaks off */
  CU_ASSERT_TRUE(told_of(&c.told[0], 0, 2, WEFT_MEMBER_LOST, 12) > 0);
  CU_ASSERT_TRUE(told_of(&c.told[1], seen, 2, WEFT_MEMBER_LOST, 12) > 0);
  CU_ASSERT_TRUE(weft_test_is_within(t0, 1000));
  CU_ASSERT_TRUE(weft_membership_epoch(c.ms[0]) > before);
  before = weft_membership_epoch(c.ms[0]);
  start_task(&c, 2, 22, INTERVAL_MS);
  CU_ASSERT_TRUE(told_of(&c.told[0], 0, 2, WEFT_MEMBER_ALIVE, 22) > 0);
  CU_ASSERT_TRUE(told_of(&c.told[2], 0, 0, WEFT_MEMBER_ALIVE, 10) > 0);
  CU_ASSERT_TRUE(weft_membership_epoch(c.ms[0]) > before);
  weft_member_t list[TASKS];
  CU_ASSERT_EQUAL(weft_membership_list(c.ms[0], list, TASKS), TASKS);
  CU_ASSERT_TRUE(list[2].state == WEFT_MEMBER_ALIVE && list[2].incarnation == 22 &&
                 weft_str_eq(list[2].task, names[2]));
  end(&c);
}

static void in_a_process(void) { all_members_see_joins_losses_and_returns(false); }
static void over_grpc(void) { all_members_see_joins_losses_and_returns(true); }

/* The coordination service is restarted without its state; the epoch continues, no other task counts as lost.
 */
static void a_restarted_coordination_service_continues(void) {
  cluster_t c;
  begin(&c, true);
  start_task(&c, SERVICE_TASK, 11, INTERVAL_MS);
  start_task(&c, 0, 10, INTERVAL_MS);
  start_task(&c, 2, 12, INTERVAL_MS);
  CU_ASSERT_TRUE(told_of(&c.told[0], 0, 1, WEFT_MEMBER_ALIVE, 11) > 0);
  int seen = told_of(&c.told[0], 0, 2, WEFT_MEMBER_ALIVE, 12);
  CU_ASSERT_TRUE(seen > 0);
  uint64_t before = weft_membership_epoch(c.ms[0]);
  end_task(&c, SERVICE_TASK);
  int lost = told_of(&c.told[0], 0, 1, WEFT_MEMBER_LOST, 11);
  CU_ASSERT_TRUE(lost > 0);
  start_task(&c, SERVICE_TASK, 21, INTERVAL_MS);
  CU_ASSERT_TRUE(told_of(&c.told[0], lost, 1, WEFT_MEMBER_ALIVE, 21) > 0);
  CU_ASSERT_TRUE(told_of(&c.told[2], 0, 1, WEFT_MEMBER_ALIVE, 21) > 0);
  CU_ASSERT_TRUE(weft_membership_epoch(c.ms[0]) > before);
  weft_mutex_lock(&c.told[0].mu);
  for (int i = seen; i < c.told[0].n; i++)
    CU_ASSERT_FALSE(c.told[0].items[i].task == 2 && c.told[0].items[i].state == WEFT_MEMBER_LOST);
  weft_mutex_unlock(&c.told[0].mu);
  end(&c);
}

/* Task 2 says that it has lost the service, as one does that was silent itself, or whose service was: all
 * that had something in common with it drop that, and so does it. It is the same process before and after. */
static void a_loss_that_is_over_is_told_on_both_sides(bool is_remote) {
  cluster_t c;
  int seen[TASKS][TASKS], lost;
  begin(&c, is_remote);
  start_task(&c, SERVICE_TASK, 11, INTERVAL_MS);
  start_task(&c, 0, 10, INTERVAL_MS);
  start_task(&c, 2, 12, INTERVAL_MS);
  for (int at = 0; at < TASKS; at++) {
    for (int of = 0; of < TASKS; of++)
      seen[at][of] = at == of ? 0 : told_of(&c.told[at], 0, of, WEFT_MEMBER_ALIVE, 10 + (uint64_t)of);
  }
  uint64_t epoch = 0;
  CU_ASSERT_PTR_NULL(weft_coordination_beat(
      weft_membership_service(c.ms[SERVICE_TASK]),
      (&(weft_coordination_caller_t){names[2], 12, 0, 1, .secret = 12 + SECRET}), &epoch));
  for (int at = 0; at < TASKS; at++) {
    for (int of = 0; of < TASKS; of++) {
      if (at == of || (at != 2 && of != 2)) continue; /* the other two have lost nothing */
      lost = told_of(&c.told[at], seen[at][of], of, WEFT_MEMBER_LOST, 10 + (uint64_t)of);
      CU_ASSERT_TRUE(lost > seen[at][of]);
      CU_ASSERT_TRUE(told_of(&c.told[at], lost, of, WEFT_MEMBER_ALIVE, (uint64_t)(10 + of)) > lost);
    }
  }
  weft_mutex_lock(&c.told[0].mu);
  for (int i = 0; i < c.told[0].n; i++)
    CU_ASSERT_FALSE(c.told[0].items[i].task == SERVICE_TASK && c.told[0].items[i].state == WEFT_MEMBER_LOST);
  weft_mutex_unlock(&c.told[0].mu);
  end(&c);
}
static void a_loss_that_is_over_in_a_process(void) { a_loss_that_is_over_is_told_on_both_sides(false); }
static void a_loss_that_is_over_over_grpc(void) { a_loss_that_is_over_is_told_on_both_sides(true); }

static void the_order_of_tasks_does_not_matter(void) {
  cluster_t c;
  begin(&c, true);
  start_task(&c, SERVICE_TASK, 11, INTERVAL_MS); /* only to learn a free port */
  int port = c.port;
  end_task(&c, SERVICE_TASK);
  c.port = port;
  start_task(&c, 0, 10, INTERVAL_MS); /* the service is not there yet: no loss is told */
  start_task(&c, SERVICE_TASK, 31, INTERVAL_MS);
  CU_ASSERT_TRUE(told_of(&c.told[0], 0, 1, WEFT_MEMBER_ALIVE, 31) == 1);
  end(&c);
}

/* ---- the coordination service by itself ---- */

static void expect_code(weft_status_t *s, weft_code_t code) {
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  weft_status_free(s);
}

static void silence_makes_a_task_lost_and_a_beat_brings_it_back(void) {
  weft_timer_t *timer = NULL;
  weft_coordination_t *k = NULL;
  uint64_t epoch = 0, next = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_timer_create(&timer));
  weft_coordination_options_t o = {.tasks = names,
                                   .num_tasks = TASKS,
                                   .own = SERVICE_TASK,
                                   .incarnation = 1,
                                   .lost_after_ms = 30,
                                   .timer = timer};
  CU_ASSERT_PTR_NULL_FATAL(weft_coordination_create(&o, &k));
  CU_ASSERT_PTR_NULL(weft_coordination_beat(k, (&(weft_coordination_caller_t){names[0], 5, 0, 0}), &epoch));
  CU_ASSERT_EQUAL(epoch, 2);
  CU_ASSERT_PTR_NULL(weft_coordination_beat(k, (&(weft_coordination_caller_t){names[0], 5, 0, 0}), &epoch));
  CU_ASSERT_EQUAL(epoch, 2);           /* nothing new */
  for (next = epoch; next == epoch;) { /* time passes */
    weft_coordination_sweep(k);
    CU_ASSERT_PTR_NULL(weft_coordination_beat(k, (&(weft_coordination_caller_t){names[2], 7, 0, 0}), &next));
    if (next == 3) epoch = 3; /* the other's coming */
  }
  CU_ASSERT_EQUAL(next, 4); /* task 0 is lost */
  CU_ASSERT_PTR_NULL(weft_coordination_beat(k, (&(weft_coordination_caller_t){names[0], 5, 0, 0}), &next));
  CU_ASSERT_EQUAL(next, 5);
  CU_ASSERT_PTR_NULL(weft_coordination_beat(
      k, (&(weft_coordination_caller_t){names[0], 5, 0, 0, .is_leaving = true}), &next)); /* restarted */
  CU_ASSERT_EQUAL(next, 6);
  CU_ASSERT_PTR_NULL(weft_coordination_beat(k, (&(weft_coordination_caller_t){names[0], 6, 0, 0}), &next));
  CU_ASSERT_EQUAL(next, 7);
  weft_status_t *s = weft_coordination_beat(k, &(weft_coordination_caller_t){names[0], 5, 0, 0}, &next);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ABORTED);
  weft_status_free(s);
  s = weft_coordination_beat(k, &(weft_coordination_caller_t){WEFT_STR("/job:x/replica:0/task:0"), 5, 0, 0},
                             &next);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
  weft_status_free(s);
  CU_ASSERT_PTR_NULL(weft_coordination_beat(k, (&(weft_coordination_caller_t){names[2], 7, 90, 0}),
                                            &next)); /* they have seen more than this service has */
  CU_ASSERT_EQUAL(next, 91);
  weft_coordination_destroy(k);
  weft_timer_destroy(timer);
}

static void on_state(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members, int n) {
  (void)epoch;
  CU_ASSERT_PTR_NULL(status);
  for (int i = 0; i < n && i < TASKS; i++) ((weft_member_t *)arg)[i] = members[i];
}

static void on_refused(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members,
                       int n) {
  (void)epoch;
  (void)members;
  CU_ASSERT_EQUAL(n, 0);
  *(weft_code_t *)arg = weft_status_code(status);
  weft_status_free(status);
}

static weft_status_t *watch(weft_coordination_t *k, weft_canceller_t *connection, uint64_t epoch,
                            weft_code_t *code) {
  *code = WEFT_OK;
  weft_coordination_watch(k, &(weft_coordination_caller_t){names[0], 5, epoch, 0}, 60000, connection,
                          on_refused, code);
  return weft_status_from_wire((int)*code, "", 0);
}

/* A watch whose connection breaks is the end of its task; one for which there is no memory is not. */
static void a_watch_without_memory_loses_no_task(void) {
  weft_timer_t *timer = NULL;
  weft_coordination_t *k = NULL;
  weft_canceller_t *connection = weft_canceller_create(NULL);
  weft_member_t members[TASKS];
  weft_code_t code;
  uint64_t epoch = 0;
  int n = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_timer_create(&timer));
  const weft_coordination_options_t o = {
      .tasks = names, .num_tasks = TASKS, .own = SERVICE_TASK, .lost_after_ms = 60000, .timer = timer};
  CU_ASSERT_PTR_NULL_FATAL(weft_coordination_create(&o, &k));
  CU_ASSERT_PTR_NULL(weft_coordination_beat(k, (&(weft_coordination_caller_t){names[0], 5, 0, 0}), &epoch));
  WEFT_FAIL_EACH_ALLOCATION(n, s, watch(k, connection, epoch, &code));
  CU_ASSERT_TRUE(n > 1);
  weft_coordination_watch(k, &(weft_coordination_caller_t){.task = WEFT_STR("")}, 0, NULL, on_state, members);
  CU_ASSERT_EQUAL(members[0].state, WEFT_MEMBER_ALIVE);
  CU_ASSERT_EQUAL(members[0].losses, 0);
  weft_canceller_cancel(connection);
  CU_ASSERT_EQUAL(code, WEFT_CANCELLED);
  weft_canceller_release(connection);
  weft_coordination_destroy(k);
  weft_timer_destroy(timer);
}

/* A caller without the secret of a task that is alive changes nothing, whatever else it knows; also that of
 * the task that hosts the service. */
static void strangers_change_nothing(void) {
  enum { INCARNATION = 5, OWN_SECRET = 77 };
  weft_timer_t *timer = NULL;
  weft_coordination_t *k = NULL;
  uint64_t epoch = 0;
  weft_member_t before[TASKS], after[TASKS];
  CU_ASSERT_PTR_NULL_FATAL(weft_timer_create(&timer));
  weft_coordination_options_t o = {.tasks = names,
                                   .num_tasks = TASKS,
                                   .own = SERVICE_TASK,
                                   .incarnation = INCARNATION,
                                   .secret = OWN_SECRET,
                                   .lost_after_ms = 60000,
                                   .timer = timer};
  CU_ASSERT_PTR_NULL_FATAL(weft_coordination_create(&o, &k));
  CU_ASSERT_PTR_NULL(weft_coordination_beat(
      k, (&(weft_coordination_caller_t){names[0], INCARNATION, 0, 0, .secret = OWN_SECRET}), &epoch));
  weft_coordination_watch(k, &(weft_coordination_caller_t){.task = WEFT_STR("")}, 0, NULL, on_state, before);
  static const weft_coordination_caller_t strangers[] = {
      {.incarnation = INCARNATION + 1, .secret = OWN_SECRET},
      {.incarnation = INCARNATION, .secret = OWN_SECRET + 1},
      {.incarnation = INCARNATION},
      {.incarnation = 0, .secret = 0},
      {.incarnation = INCARNATION, .lost_service = 9},
      {.incarnation = INCARNATION, .epoch = 1000},
      {.incarnation = INCARNATION, .is_leaving = true},
      {.incarnation = INCARNATION + 1, .secret = OWN_SECRET, .is_leaving = true}};
  for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
    for (int task = 0; task < 2; task++) {
      weft_coordination_caller_t caller = strangers[i];
      caller.task = names[task];
      expect_code(weft_coordination_beat(k, &caller, &epoch), WEFT_ABORTED);
      weft_canceller_t *broken =
          weft_canceller_create(NULL); /* the connection of a watch breaks: it is not the task's */
      weft_canceller_cancel(broken);
      weft_code_t code = WEFT_OK;
      weft_coordination_watch(k, &caller, 1000, broken, on_refused, &code);
      CU_ASSERT_EQUAL(code, WEFT_ABORTED);
      weft_canceller_release(broken);
    }
  }
  weft_coordination_watch(k, &(weft_coordination_caller_t){.task = WEFT_STR("")}, 0, NULL, on_state, after);
  for (int i = 0; i < TASKS; i++) {
    CU_ASSERT_TRUE(before[i].state == after[i].state && before[i].incarnation == after[i].incarnation &&
                   before[i].losses == after[i].losses);
  }
  CU_ASSERT_PTR_NULL(weft_coordination_beat(
      k,
      (&(weft_coordination_caller_t){names[0], INCARNATION, 0, 0, .is_leaving = true, .secret = OWN_SECRET}),
      &epoch));
  expect_code(
      weft_coordination_beat(
          k, &(weft_coordination_caller_t){names[0], INCARNATION, 0, 0, .secret = OWN_SECRET}, &epoch),
      WEFT_ABORTED); /* was under way */
  CU_ASSERT_PTR_NULL(weft_coordination_beat(
      k, (&(weft_coordination_caller_t){names[0], INCARNATION, 0, 0, .secret = OWN_SECRET + 1}),
      &epoch)); /* the next process */
  weft_coordination_destroy(k);
  weft_timer_destroy(timer);
}

typedef struct replaced {
  weft_mutex_t mu;
  weft_cond_t cond;
  int times;
} replaced_t;

static void on_replaced(void *arg, const weft_status_t *why) {
  replaced_t *r = arg;
  CU_ASSERT_EQUAL(weft_status_code(why), WEFT_ABORTED);
  weft_mutex_lock(&r->mu);
  r->times++;
  weft_cond_broadcast(&r->cond);
  weft_mutex_unlock(&r->mu);
}

/* A second process of task 0 beside the first, and of the service's task, which asks at its own address. */
static void a_second_process_of_a_task_hears_that_it_is_not_wanted(int task) {
  cluster_t c;
  replaced_t r = {.times = 0};
  weft_membership_t *second = NULL;
  weft_coordination_client_t *client = NULL;
  begin(&c, false);
  weft_mutex_init(&r.mu);
  weft_cond_init(&r.cond);
  start_task(&c, SERVICE_TASK, 11, INTERVAL_MS);
  start_task(&c, 0, 10, INTERVAL_MS);
  start_task(&c, 2, 12, INTERVAL_MS);
  CU_ASSERT_TRUE(told_of(&c.told[2], 0, 0, WEFT_MEMBER_ALIVE, 10) > 0);
  CU_ASSERT_TRUE(told_of(&c.told[2], 0, SERVICE_TASK, WEFT_MEMBER_ALIVE, 11) > 0);
  weft_membership_options_t o = {.tasks = names,
                                 .num_tasks = TASKS,
                                 .own = task,
                                 .service_task = SERVICE_TASK,
                                 .incarnation = 99,
                                 .interval_ms = INTERVAL_MS,
                                 .misses = 2};
  CU_ASSERT_PTR_NULL_FATAL(weft_membership_create(&o, &second));
  CU_ASSERT_PTR_NULL_FATAL(
      weft_local_coordination_client_create(weft_membership_service(c.ms[SERVICE_TASK]), &client));
  if (task == SERVICE_TASK) {
    weft_membership_connect_self(second, client);
  } else {
    weft_membership_connect(second, client);
  }
  weft_membership_on_replaced(second, on_replaced, &r);
  CU_ASSERT_PTR_NULL_FATAL(weft_membership_start(second));
  int64_t until = weft_clock_ns() + (int64_t)DEADLINE_MS * 1000000;
  weft_mutex_lock(&r.mu);
  while (r.times == 0 && weft_cond_wait_until(&r.cond, &r.mu, until)) { /* woken by on_replaced */
  }
  CU_ASSERT_EQUAL(r.times, 1);
  weft_mutex_unlock(&r.mu);
  weft_membership_destroy(second);
  weft_mutex_lock(&c.told[2].mu); /* task 2 has heard nothing of all that */
  for (int i = 0; i < c.told[2].n; i++)
    CU_ASSERT_TRUE(c.told[2].items[i].state == WEFT_MEMBER_ALIVE && c.told[2].items[i].incarnation != 99);
  weft_mutex_unlock(&c.told[2].mu);
  weft_cond_deinit(&r.cond);
  weft_mutex_deinit(&r.mu);
  end(&c);
}
static void a_second_process_of_a_task(void) { a_second_process_of_a_task_hears_that_it_is_not_wanted(0); }
static void a_second_process_of_the_service_task(void) {
  a_second_process_of_a_task_hears_that_it_is_not_wanted(SERVICE_TASK);
}

static void the_chief_hosts_the_coordination_service(void) {
  static const weft_str_t chief[] = {{"/job:chief/replica:0/task:0", 27}, {"/job:ps/replica:0/task:0", 24}};
  static const weft_str_t other[] = {{"/job:a/replica:0/task:0", 23}, {"/job:workers/replica:0/task:0", 29}};
  CU_ASSERT_EQUAL(weft_membership_service_task(names, TASKS), 1);
  CU_ASSERT_EQUAL(weft_membership_service_task(chief, 2), 0);
  CU_ASSERT_EQUAL(weft_membership_service_task(other, 2), 0);
  CU_ASSERT_EQUAL(weft_membership_service_task(other, 0), -1);
}

/* ---- keys and values over gRPC ---- */

enum { CLIENTS = 64 };

static void clients_wait_for_keys_over_grpc(void) {
  static weft_test_answer_t a[CLIENTS];
  cluster_t c;
  begin(&c, true);
  start_task(&c, SERVICE_TASK, 11, 0); /* no heartbeats: keys and values work all the same */
  start_task(&c, 0, 10, 0);
  start_task(&c, 2, 12, 0);
  for (int i = 0; i < CLIENTS; i++) {
    weft_test_answer_init(&a[i]);
    weft_membership_get(c.ms[i % 3], WEFT_STR("k"), 60000, NULL, weft_test_answered, &a[i]);
  }
  weft_test_answer_t one;
  weft_test_answer_init(&one);
  weft_membership_get(c.ms[2], WEFT_STR("other"), 30, NULL, weft_test_answered, &one);
  CU_ASSERT_EQUAL(weft_test_answer_wait(&one), WEFT_DEADLINE_EXCEEDED);
  weft_membership_set(c.ms[2], WEFT_STR("k"), WEFT_STR("v"), weft_test_answered,
                      &one); /* the connection is as good as before */
  CU_ASSERT_EQUAL(weft_test_answer_wait(&one), WEFT_OK);
  for (int i = 0; i < CLIENTS; i++) {
    CU_ASSERT_EQUAL(weft_test_answer_wait(&a[i]), WEFT_OK);
    CU_ASSERT_STRING_EQUAL(a[i].value, "v");
  }
  for (int i = 0; i < CLIENTS; i++)
    weft_membership_add(c.ms[i % 3], WEFT_STR("n"), i, weft_test_answered, &a[i]);
  for (int i = 0; i < CLIENTS; i++) CU_ASSERT_EQUAL(weft_test_answer_wait(&a[i]), WEFT_OK);
  weft_membership_get(c.ms[0], WEFT_STR("n"), 0, NULL, weft_test_answered, &one);
  CU_ASSERT_EQUAL(weft_test_answer_wait(&one), WEFT_OK);
  CU_ASSERT_STRING_EQUAL(one.value, "2016");
  weft_membership_compare_set(c.ms[0], WEFT_STR("n"), WEFT_STR("2016"), WEFT_STR("x"), weft_test_answered,
                              &one);
  CU_ASSERT_EQUAL(weft_test_answer_wait(&one), WEFT_OK);
  CU_ASSERT_STRING_EQUAL(one.value, "x");
  weft_membership_delete(c.ms[0], WEFT_STR("n"), weft_test_answered, &one);
  CU_ASSERT_EQUAL(weft_test_answer_wait(&one), WEFT_OK);
  CU_ASSERT_STRING_EQUAL(one.value, "1");
  weft_membership_get(c.ms[0], WEFT_STR("n"), 0, NULL, weft_test_answered, &one);
  CU_ASSERT_EQUAL(weft_test_answer_wait(&one), WEFT_NOT_FOUND);
  for (int i = 0; i < 7; i++)
    weft_membership_barrier(c.ms[i % 3], WEFT_STR("b"), 7, 60000, NULL, weft_test_answered, &a[i]);
  for (int i = 0; i < 7; i++) CU_ASSERT_EQUAL(weft_test_answer_wait(&a[i]), WEFT_OK);
  weft_membership_get(c.ms[0], WEFT_STR("never"), 60000, NULL, weft_test_answered, &one);
  end_task(&c, 0); /* its own stop ends what it asked */
  CU_ASSERT_EQUAL(weft_test_answer_wait(&one), WEFT_CANCELLED);
  for (int i = 0; i < CLIENTS; i++) weft_test_answer_deinit(&a[i]);
  weft_test_answer_deinit(&one);
  end(&c);
}

static void a_task_alone_has_keys_and_no_heartbeats(void) {
  weft_membership_t *ms = NULL;
  weft_test_answer_t a;
  weft_membership_options_t o = {
      .tasks = names, .num_tasks = 1, .own = 0, .service_task = 0, .incarnation = 1, .interval_ms = 1};
  CU_ASSERT_PTR_NULL_FATAL(weft_membership_create(&o, &ms));
  CU_ASSERT_PTR_NULL(weft_membership_start(ms));
  weft_test_answer_init(&a);
  weft_membership_set(ms, WEFT_STR("k"), WEFT_STR("v"), weft_test_answered, &a);
  CU_ASSERT_TRUE(weft_test_answer_is_done(&a));
  CU_ASSERT_EQUAL(weft_test_answer_wait(&a), WEFT_OK);
  CU_ASSERT_EQUAL(weft_membership_epoch(ms), 1);
  weft_test_answer_deinit(&a);
  weft_membership_destroy(ms);
}

/* ---- numbers of nodes: T-PSL-1 ---- */

static void nodes_are_numbered_by_host_and_port(void) {
  weft_member_node_t nodes[] = {
      {.role = WEFT_NODE_WORKER, .host = WEFT_STR("10.0.0.1"), .port = 9},
      {.role = WEFT_NODE_SERVER, .host = WEFT_STR("10.0.0.2"), .port = 7},
      {.role = WEFT_NODE_WORKER, .host = WEFT_STR("10.0.0.2"), .port = 3},
      {.role = WEFT_NODE_SERVER, .host = WEFT_STR("10.0.0.2"), .port = 2},
      {.role = WEFT_NODE_WORKER, .host = WEFT_STR("10.0.0.1"), .port = 4},
      {.role = WEFT_NODE_SERVER, .host = WEFT_STR("10.0.0.3"), .port = 8},
      {.role = WEFT_NODE_WORKER, .host = WEFT_STR("10.0.0.3"), .port = 1},
  };
  static const int ids[] = {
      9,  8,  10, 11,
      12, 13, 15}; /* .3:1 worker, .3:8 server, .2:2 server, .2:3 worker, .2:7 server, .1:4, .1:9 */
  weft_nodes_number(nodes, 7);
  for (int i = 0; i < 7; i++) CU_ASSERT_EQUAL(nodes[i].id, ids[i]);
  CU_ASSERT_EQUAL(weft_nodes_in(nodes, 7, WEFT_NODE_SERVER | WEFT_NODE_WORKER), 7);
  CU_ASSERT_EQUAL(weft_nodes_in(nodes, 7, WEFT_NODE_SERVER), 3);
  CU_ASSERT_EQUAL(weft_nodes_in(nodes, 7, WEFT_NODE_WORKER), 4);
  CU_ASSERT_EQUAL(weft_nodes_in(nodes, 7, 10), 1);
  CU_ASSERT_EQUAL(weft_nodes_in(nodes, 7, 40), 0);
  weft_node_role_t role = WEFT_NODE_SCHEDULER;
  int rank = -1;
  CU_ASSERT_TRUE(weft_node_id_parse(12, &role, &rank) && role == WEFT_NODE_SERVER && rank == 2);
  CU_ASSERT_TRUE(weft_node_id_parse(9, &role, &rank) && role == WEFT_NODE_WORKER && rank == 0);
  CU_ASSERT_TRUE(weft_node_id_parse(1, &role, &rank) && role == WEFT_NODE_SCHEDULER);
  CU_ASSERT_FALSE(weft_node_id_parse(6, &role, &rank));
  CU_ASSERT_EQUAL(weft_node_id(WEFT_NODE_SERVER, 3), 14);
}

static const CU_TestInfo tests[] = {
    {"all learn which tasks join, are lost and return, in a process", in_a_process},
    {"all learn which tasks join, are lost and return, over gRPC", over_grpc},
    {"a restarted coordination service continues", a_restarted_coordination_service_continues},
    {"a loss that is over is told on both sides, in a process", a_loss_that_is_over_in_a_process},
    {"a loss that is over is told on both sides, over gRPC", a_loss_that_is_over_over_grpc},
    {"the order of tasks does not matter", the_order_of_tasks_does_not_matter},
    {"silence makes a task lost, and a beat brings it back",
     silence_makes_a_task_lost_and_a_beat_brings_it_back},
    {"the chief hosts the coordination service", the_chief_hosts_the_coordination_service},
    {"a watch without memory loses no task", a_watch_without_memory_loses_no_task},
    {"strangers change nothing", strangers_change_nothing},
    {"a second process of a task hears that it is not wanted", a_second_process_of_a_task},
    {"a second process of the service task hears that it is not wanted",
     a_second_process_of_the_service_task},
    {"clients wait for keys over gRPC", clients_wait_for_keys_over_grpc},
    {"a task alone has keys and no heartbeats", a_task_alone_has_keys_and_no_heartbeats},
    {"nodes are numbered by host and port", nodes_are_numbered_by_host_and_port},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("membership", tests); }
