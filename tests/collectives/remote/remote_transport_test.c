/* tests/collectives/remote/remote_transport_test.c - several tasks' transports in one process: over links,
 * and over calls. */
#include "collectives/remote/remote_transport.h"

#include <CUnit/CUnit.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "tests/runner.h"

enum { NUM_TASKS = 3, STEP = 77, LARGE = 3 * 1000 * 1000 };

typedef struct cluster cluster_t;
typedef struct task {
  cluster_t *cluster;
  char name[64], device[96];
  uint64_t incarnation;
  weft_transport_t *transport;
  int num_lost; /* guarded by the cluster's mu */
} task_t;

struct cluster {
  task_t tasks[NUM_TASKS];
  weft_thread_pool_t *pool;
  weft_group_t *group;
  bool is_leader_silent; /* it answers no request for a group */
  int num_calls;         /* of RecvBuf; guarded by mu */
  weft_mutex_t mu;
  weft_cond_t changed;
};

/* ---- calls between the tasks ---- */

static task_t *find(cluster_t *c, weft_str_t name) {
  for (int i = 0; i < NUM_TASKS; i++) {
    if (weft_str_is(name, c->tasks[i].name)) return &c->tasks[i];
  }
  return NULL;
}

/* What comes from a call has no place in this process. */
typedef struct far_call {
  weft_buf_fn *fn;
  void *arg;
} far_call_t;
typedef struct far_buf {
  weft_buf_t base;
  const char *data;
} far_buf_t;
static void read_far(const weft_buf_t *b, size_t at, void *to, size_t n) {
  memcpy(to, ((const far_buf_t *)(const void *)b)->data + at, n);
}
static void answer_far(void *arg, weft_status_t *status, const weft_buf_t *buf) {
  far_call_t *call = arg;
  far_buf_t far = {.base = {.read = read_far}};
  if (buf != NULL) far.base.bytes = buf->bytes;
  if (buf != NULL) far.data = buf->data;
  call->fn(call->arg, status, buf == NULL ? NULL : &far.base);
  if (buf != NULL && buf->release != NULL) buf->release(buf->release_arg);
  weft_free(call);
}

static void recv_buf(void *arg, weft_str_t task, const weft_buf_request_t *r, weft_canceller_t *canceller,
                     weft_buf_fn *fn, void *fn_arg) {
  cluster_t *c = ((task_t *)arg)->cluster;
  weft_mutex_lock(&c->mu);
  c->num_calls++;
  weft_mutex_unlock(&c->mu);
  far_call_t *call = weft_calloc(1, sizeof *call);
  *call = (far_call_t){fn, fn_arg};
  weft_remote_transport_serve(find(c, task)->transport, r, canceller, answer_far, call);
}

/* A call to a leader that does not answer: it ends when it is cancelled. */
typedef struct silent_call {
  weft_group_fn *fn;
  void *arg;
} silent_call_t;
static void on_silent_cancelled(void *arg) {
  silent_call_t call = *(silent_call_t *)arg;
  weft_free(arg);
  call.fn(call.arg, WEFT_ERROR(CANCELLED, "the call was cancelled"), NULL);
}

static void complete_group(void *arg, const weft_group_request_t *r, weft_canceller_t *canceller,
                           weft_group_fn *fn, void *fn_arg) {
  if (((task_t *)arg)->cluster->is_leader_silent) {
    silent_call_t *call = weft_calloc(1, sizeof *call);
    uint64_t token = 0;
    *call = (silent_call_t){fn, fn_arg};
    if (!weft_canceller_register(canceller, on_silent_cancelled, call, &token)) on_silent_cancelled(call);
    return;
  }
  weft_remote_transport_join_group(((task_t *)arg)->cluster->tasks[0].transport, r, canceller, fn, fn_arg);
}
static void complete_instance(void *arg, const weft_instance_request_t *r, weft_canceller_t *canceller,
                              weft_instance_fn *fn, void *fn_arg) {
  weft_remote_transport_join_instance(((task_t *)arg)->cluster->tasks[0].transport, r, canceller, fn, fn_arg);
}
static void lost(void *arg, weft_str_t task, const weft_status_t *why) {
  task_t *t = arg;
  (void)task;
  (void)why;
  weft_mutex_lock(&t->cluster->mu);
  t->num_lost++;
  weft_cond_broadcast(&t->cluster->changed);
  weft_mutex_unlock(&t->cluster->mu);
}

/* ---- waiting ---- */

typedef struct outcome {
  cluster_t *cluster;
  int num_done; /* guarded by the cluster's mu, as all below */
  weft_status_t *status;
  weft_group_t *group;
} outcome_t;

static void on_done(void *arg, weft_status_t *status) {
  outcome_t *o = arg;
  weft_mutex_lock(&o->cluster->mu);
  o->num_done++;
  o->status = status;
  weft_cond_broadcast(&o->cluster->changed);
  weft_mutex_unlock(&o->cluster->mu);
}
static void on_group(void *arg, weft_status_t *status, weft_group_t *group) {
  outcome_t *o = arg;
  o->group = group;
  on_done(arg, status);
}
/* Waits; returns its code and frees the status, unless *text wants the message. */
static weft_code_t wait_for(outcome_t *o, char *text, size_t size) {
  int64_t deadline = weft_clock_ns() + INT64_C(20000000000);
  weft_mutex_lock(&o->cluster->mu);
  while (o->num_done == 0 && weft_cond_wait_until(&o->cluster->changed, &o->cluster->mu, deadline)) {
  }
  CU_ASSERT_EQUAL(o->num_done, 1);
  weft_code_t code = weft_status_code(o->status);
  if (text != NULL) snprintf(text, size, "%s", o->status == NULL ? "" : weft_status_message(o->status));
  weft_status_free(o->status);
  weft_mutex_unlock(&o->cluster->mu);
  return code;
}

/* ---- the cluster ---- */

static void start(cluster_t *c, int i, bool only_rpc) {
  task_t *t = &c->tasks[i];
  t->cluster = c;
  t->incarnation = weft_random_id();
  snprintf(t->name, sizeof t->name, "/job:w/replica:0/task:%d", i);
  snprintf(t->device, sizeof t->device, "/job:w/replica:0/task:%d/device:CPU:0", i);
  weft_remote_transport_options_t o = {.task = weft_str(t->name),
                                       .incarnation = t->incarnation,
                                       .pool = c->pool,
                                       .only_rpc = only_rpc,
                                       .peers = {.arg = t,
                                                 .leader = WEFT_STR("/job:w/replica:0/task:0"),
                                                 .recv_buf = recv_buf,
                                                 .complete_group = complete_group,
                                                 .complete_instance = complete_instance,
                                                 .lost = lost}};
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_transport_create(&o, &t->transport));
}

static weft_group_t *join(cluster_t *c, int64_t key) {
  outcome_t joined[NUM_TASKS] = {{c}, {c}, {c}};
  for (int i = 0; i < NUM_TASKS; i++) {
    weft_group_request_t r = {.group_key = key,
                              .group_size = NUM_TASKS,
                              .rank = -1,
                              .device_type = WEFT_STR("CPU"),
                              .device = weft_str(c->tasks[i].device)};
    c->tasks[i].transport->ops->complete_group(c->tasks[i].transport, &r, NULL, on_group, &joined[i]);
  }
  weft_group_t *first = NULL;
  for (int i = 0; i < NUM_TASKS; i++) {
    CU_ASSERT_EQUAL(wait_for(&joined[i], NULL, 0), WEFT_OK);
    if (i > 0) weft_group_release(joined[i].group);
    if (i == 0) first = joined[i].group;
  }
  return first;
}

static void setup(cluster_t *c, bool only_rpc) {
  memset(c, 0, sizeof *c);
  weft_mutex_init(&c->mu);
  weft_cond_init(&c->changed);
  CU_ASSERT_PTR_NULL_FATAL(weft_thread_pool_create("test", 2, &c->pool));
  for (int i = 0; i < NUM_TASKS; i++) start(c, i, only_rpc);
  c->group = join(c, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c->group);
}

static void stop(cluster_t *c, int i) {
  if (c->tasks[i].transport != NULL) c->tasks[i].transport->ops->destroy(c->tasks[i].transport);
  c->tasks[i].transport = NULL;
}

static void teardown(cluster_t *c) {
  for (int i = NUM_TASKS; i-- > 0;) { /* the leader last */
    if (c->tasks[i].transport != NULL) weft_remote_transport_stop(c->tasks[i].transport);
  }
  for (int i = NUM_TASKS; i-- > 0;) stop(c, i);
  weft_thread_pool_destroy(c->pool);
  weft_group_release(c->group);
  weft_cond_deinit(&c->changed);
  weft_mutex_deinit(&c->mu);
}

/* ---- transfers ---- */

static void offer(cluster_t *c, int from, int to, const char *key, const void *data, size_t bytes,
                  outcome_t *o) {
  *o = (outcome_t){.cluster = c};
  weft_transport_t *t = c->tasks[from].transport;
  t->ops->offer(t, STEP, weft_str(key), weft_str(c->tasks[to].name), weft_str(c->tasks[to].device), data,
                bytes, false, on_done, o);
}

static weft_fetch_t fetch_of(cluster_t *c, int from, int to, const char *key, void *place, size_t bytes) {
  return (weft_fetch_t){.from_task = weft_str(c->tasks[from].name),
                        .from_device = weft_str(c->tasks[from].device),
                        .to_device = weft_str(c->tasks[to].device),
                        .step_id = STEP,
                        .key = weft_str(key),
                        .bytes = bytes,
                        .to = place};
}

static void fetch(cluster_t *c, int from, int to, const char *key, void *place, size_t bytes,
                  weft_canceller_t *canceller, outcome_t *o) {
  *o = (outcome_t){.cluster = c};
  weft_fetch_t f = fetch_of(c, from, to, key, place, bytes);
  c->tasks[to].transport->ops->fetch(c->tasks[to].transport, &f, canceller, on_done, o);
}

static void fill(char *data, size_t bytes, int salt) {
  for (size_t i = 0; i < bytes; i++) data[i] = (char)(i * 31 + (size_t)salt);
}

static void check_bytes_move(bool only_rpc) {
  static const size_t sizes[] = {0, 1, 4096, 16 << 10, (16 << 10) + 1, 100000, LARGE};
  cluster_t c;
  setup(&c, only_rpc);
  char *data = weft_malloc(LARGE), *got = weft_malloc(LARGE);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    for (int order = 0; order < 2; order++) {
      for (int to = 0; to < 2; to++) { /* to itself, too */
        char key[32];
        outcome_t given, taken;
        snprintf(key, sizeof key, "run/%zu/%d", i, order);
        fill(data, sizes[i], order + to);
        memset(got, 0, sizes[i]);
        if (order == 0) offer(&c, 1, to, key, data, sizes[i], &given);
        fetch(&c, 1, to, key, got, sizes[i], NULL, &taken);
        if (order == 1) offer(&c, 1, to, key, data, sizes[i], &given);
        CU_ASSERT_EQUAL(wait_for(&taken, NULL, 0), WEFT_OK);
        CU_ASSERT_EQUAL(wait_for(&given, NULL, 0), WEFT_OK);
        CU_ASSERT_EQUAL(memcmp(data, got, sizes[i]), 0);
      }
    }
  }
  CU_ASSERT_EQUAL(c.num_calls > 0, only_rpc);
  weft_link_count_t n =
      weft_link_counters_sum(weft_remote_transport_counters(c.tasks[0].transport), weft_str(c.tasks[1].name),
                             weft_str(c.tasks[0].name), WEFT_TRAFFIC_COLLECTIVE);
  CU_ASSERT_EQUAL(n.messages, 14);
  CU_ASSERT_EQUAL(n.bytes, 2 * (1 + 4096 + (16 << 10) * 2 + 1 + 100000 + LARGE));
  weft_free(data);
  weft_free(got);
  teardown(&c);
}
static void bytes_move_by_shared_memory(void) { check_bytes_move(false); }
static void bytes_move_by_rpc(void) { check_bytes_move(true); }

typedef struct sum {
  size_t next, num_blocks, total;
  bool in_order;
} sum_t;
static void add(void *arg, size_t at, const void *bytes, size_t n) {
  sum_t *s = arg;
  s->in_order = s->in_order && at == s->next;
  s->next = at + n;
  s->num_blocks++;
  for (size_t i = 0; i < n; i++) s->total += ((const unsigned char *)bytes)[i];
}

static void check_consumed(bool only_rpc) {
  cluster_t c;
  setup(&c, only_rpc);
  char *data = weft_malloc(LARGE);
  fill(data, LARGE, 3);
  size_t total = 0;
  for (size_t i = 0; i < LARGE; i++) total += (unsigned char)data[i];
  for (int with_place = 0; with_place < 2; with_place++) {
    outcome_t given, taken = {.cluster = &c};
    sum_t sum = {.in_order = true};
    char *place = weft_calloc(1, LARGE);
    offer(&c, 2, 0, "r/0", data, LARGE, &given);
    weft_fetch_t f = fetch_of(&c, 2, 0, "r/0", with_place ? place : NULL, LARGE);
    f.consume = add;
    f.consume_arg = &sum;
    c.tasks[0].transport->ops->fetch(c.tasks[0].transport, &f, NULL, on_done, &taken);
    CU_ASSERT_EQUAL(wait_for(&taken, NULL, 0), WEFT_OK);
    CU_ASSERT_EQUAL(wait_for(&given, NULL, 0), WEFT_OK);
    CU_ASSERT_TRUE(sum.in_order);
    CU_ASSERT_EQUAL(sum.next, LARGE);
    CU_ASSERT_EQUAL(sum.total, total);
    CU_ASSERT_TRUE(sum.num_blocks > 1);
    CU_ASSERT_EQUAL(memcmp(place, data, LARGE) == 0, with_place == 1);
    weft_free(place);
  }
  weft_free(data);
  teardown(&c);
}
static void blocks_are_consumed_by_shared_memory(void) { check_consumed(false); }
static void blocks_are_consumed_by_rpc(void) { check_consumed(true); }

static void check_other_size(bool only_rpc) {
  cluster_t c;
  setup(&c, only_rpc);
  static char data[100000], got[100000];
  outcome_t given, taken;
  char text[256];
  offer(&c, 1, 0, "run/k", data, sizeof data, &given);
  fetch(&c, 1, 0, "run/k", got, sizeof got - 1, NULL, &taken);
  CU_ASSERT_EQUAL(wait_for(&taken, text, sizeof text), WEFT_INTERNAL);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "run/k"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "100000"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "99999"));
  CU_ASSERT_EQUAL(wait_for(&given, NULL, 0), WEFT_OK);
  teardown(&c);
}
static void another_size_is_internal(void) {
  check_other_size(false);
  check_other_size(true);
}

static void check_step_end(bool only_rpc) {
  cluster_t c;
  setup(&c, only_rpc);
  static char data[100000], got[100000];
  outcome_t given, taken, late, later, own;
  fetch(&c, 1, 0, "run/never", got, sizeof got, NULL, &taken);
  offer(&c, 1, 0, "run/unwanted", data, sizeof data, &given);
  fetch(&c, 1, 1, "run/own", got, 8, NULL, &own);
  weft_status_t *why = WEFT_ERROR(OUT_OF_RANGE, "no more data");
  c.tasks[1].transport->ops->end_step(c.tasks[1].transport, STEP, why);
  weft_status_free(why);
  char text[256];
  CU_ASSERT_EQUAL(wait_for(&taken, text, sizeof text), WEFT_OUT_OF_RANGE);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "no more data"));
  CU_ASSERT_EQUAL(wait_for(&given, NULL, 0), WEFT_OUT_OF_RANGE);
  CU_ASSERT_EQUAL(wait_for(&own, NULL, 0), WEFT_OUT_OF_RANGE);
  fetch(&c, 1, 0, "run/late", got, sizeof got, NULL, &late);
  CU_ASSERT_EQUAL(wait_for(&late, NULL, 0), WEFT_OUT_OF_RANGE);
  offer(&c, 1, 0, "run/later", data, sizeof data, &later);
  CU_ASSERT_EQUAL(wait_for(&later, NULL, 0), WEFT_OUT_OF_RANGE);
  teardown(&c);
}
static void a_step_ends_for_present_and_future_transfers(void) {
  check_step_end(false);
  check_step_end(true);
}

/* A client whose step failed before others could know of it, and begin theirs, asks for the same id again. */
static void a_step_that_begins_again_has_transfers(void) {
  for (int only_rpc = 0; only_rpc < 2; only_rpc++) {
    cluster_t c;
    setup(&c, only_rpc);
    static char data[100000], got[100000];
    outcome_t given, taken, early;
    weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "a task is lost");
    weft_transport_t *t = c.tasks[1].transport;
    for (int attempt = 0; attempt < 3; attempt++) {
      t->ops->begin_step(t, STEP);
      t->ops->end_step(t, STEP, why);
    }
    t->ops->end_step(t, STEP + 1, why);
    weft_status_free(why);
    t->ops->begin_step(t, STEP);
    const int from = only_rpc ? 0 : 1; /* by a link, task 0 was told of the failures */
    offer(&c, from, 1, "run/k", data, sizeof data, &given);
    fetch(&c, from, 1, "run/k", got, sizeof got, NULL, &taken);
    CU_ASSERT_EQUAL(wait_for(&taken, NULL, 0), WEFT_OK);
    CU_ASSERT_EQUAL(wait_for(&given, NULL, 0), WEFT_OK);
    why = WEFT_ERROR(OUT_OF_RANGE, "no more data");
    t->ops->end_step(t, STEP, why);
    weft_status_free(why);
    fetch(&c, 0, 1, "run/late", got, sizeof got, NULL, &early);
    CU_ASSERT_EQUAL(wait_for(&early, NULL, 0), WEFT_OUT_OF_RANGE);
    teardown(&c);
  }
}

static void a_failed_run_ends_at_all_tasks_and_others_go_on(void) {
  cluster_t c;
  setup(&c, false);
  static char data[100000], got[100000], more[8];
  outcome_t given, taken, late, other_given, other_taken;
  fetch(&c, 1, 2, "run/a", got, sizeof got, NULL, &taken); /* neither of the two tasks failed itself */
  offer(&c, 2, 1, "run/b", data, sizeof data, &given);
  weft_status_t *why = WEFT_ERROR(INVALID_ARGUMENT, "shapes differ");
  c.tasks[0].transport->ops->fail(c.tasks[0].transport, STEP, WEFT_STR("run"), c.group, why);
  weft_status_free(why);
  CU_ASSERT_EQUAL(wait_for(&taken, NULL, 0), WEFT_INVALID_ARGUMENT);
  weft_code_t code =
      wait_for(&given, NULL, 0); /* its receiver may have dropped it before this task knew why */
  CU_ASSERT_TRUE(code == WEFT_OK || code == WEFT_INVALID_ARGUMENT);
  fetch(&c, 1, 2, "run/c", got, sizeof got, NULL, &late);
  CU_ASSERT_EQUAL(wait_for(&late, NULL, 0), WEFT_INVALID_ARGUMENT);
  fetch(&c, 1, 2, "runner/a", more, sizeof more, NULL, &other_taken);
  offer(&c, 1, 2, "runner/a", "1234567", 8, &other_given);
  CU_ASSERT_EQUAL(wait_for(&other_taken, NULL, 0), WEFT_OK);
  CU_ASSERT_EQUAL(wait_for(&other_given, NULL, 0), WEFT_OK);
  CU_ASSERT_STRING_EQUAL(more, "1234567");
  teardown(&c);
}

static void a_lost_task_is_named_in_all_that_waits_for_it(void) {
  cluster_t c;
  setup(&c, false);
  static char data[100000], got[100000];
  outcome_t given, taken;
  char text[256];
  fetch(&c, 2, 0, "run/a", got, sizeof got, NULL, &taken);
  offer(&c, 1, 2, "run/b", data, sizeof data, &given);
  stop(&c, 2);
  CU_ASSERT_EQUAL(wait_for(&taken, text, sizeof text), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "/job:w/replica:0/task:2"));
  CU_ASSERT_EQUAL(wait_for(&given, text, sizeof text), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "/job:w/replica:0/task:2"));
  weft_mutex_lock(&c.mu);
  while ((c.tasks[0].num_lost == 0 || c.tasks[1].num_lost == 0) &&
         weft_cond_wait_until(&c.changed, &c.mu, weft_clock_ns() + INT64_C(5000000000))) {
  }
  CU_ASSERT_EQUAL(c.tasks[0].num_lost, 1);
  CU_ASSERT_EQUAL(c.tasks[1].num_lost, 1);
  weft_mutex_unlock(&c.mu);
  /* What is offered to it only now will not be fetched, either. */
  outcome_t late;
  offer(&c, 1, 2, "run/c", data, sizeof data, &late);
  CU_ASSERT_EQUAL(wait_for(&late, text, sizeof text), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "/job:w/replica:0/task:2"));
  /* It comes again, under another incarnation: a new group links it anew. */
  start(&c, 2, false);
  weft_group_t *g = join(&c, 2);
  CU_ASSERT_EQUAL(g->members[2].incarnation, c.tasks[2].incarnation);
  outcome_t again_given, again_taken;
  fetch(&c, 2, 0, "new/a", got, sizeof got, NULL, &again_taken);
  fill(data, sizeof data, 9);
  offer(&c, 2, 0, "new/a", data, sizeof data, &again_given);
  CU_ASSERT_EQUAL(wait_for(&again_taken, NULL, 0), WEFT_OK);
  CU_ASSERT_EQUAL(wait_for(&again_given, NULL, 0), WEFT_OK);
  CU_ASSERT_EQUAL(memcmp(data, got, sizeof data), 0);
  weft_group_release(g);
  teardown(&c);
}

/* Served as to a peer that waits: the buffer is not wanted. */
static void on_served(void *arg, weft_status_t *status, const weft_buf_t *buf) {
  if (buf != NULL && buf->release != NULL) buf->release(buf->release_arg);
  on_done(arg, status);
}

static void a_task_that_departs_names_itself(void) {
  cluster_t c;
  setup(&c, false);
  static char data[100000];
  outcome_t asked = {.cluster = &c}, given;
  char text[256];
  weft_buf_request_t r = {.step_id = STEP,
                          .key = WEFT_STR("run/a"),
                          .src_device = weft_str(c.tasks[1].device),
                          .dst_device = weft_str(c.tasks[0].device)};
  weft_remote_transport_serve(c.tasks[1].transport, &r, NULL, on_served, &asked); /* of task 0 */
  offer(&c, 1, 0, "run/b", data, sizeof data, &given);
  weft_remote_transport_leave(c.tasks[1].transport);
  stop(&c, 0); /* the link ends while task 1 departs */
  CU_ASSERT_EQUAL(wait_for(&given, text, sizeof text), WEFT_UNAVAILABLE);
  CU_ASSERT_STRING_EQUAL(text, "The task /job:w/replica:0/task:1 was shut down");
  stop(&c, 1);
  CU_ASSERT_EQUAL(wait_for(&asked, text, sizeof text), WEFT_UNAVAILABLE);
  CU_ASSERT_STRING_EQUAL(text, "The task /job:w/replica:0/task:1 was shut down");
  weft_mutex_lock(&c.mu);
  CU_ASSERT_EQUAL(c.tasks[1].num_lost, 0); /* it took no peer for lost */
  weft_mutex_unlock(&c.mu);
  teardown(&c);
}

static void ask_for_group(cluster_t *c, int i, int64_t key, weft_canceller_t *canceller, outcome_t *o) {
  *o = (outcome_t){.cluster = c};
  weft_group_request_t r = {.group_key = key,
                            .group_size = NUM_TASKS,
                            .rank = -1,
                            .device_type = WEFT_STR("CPU"),
                            .device = weft_str(c->tasks[i].device)};
  c->tasks[i].transport->ops->complete_group(c->tasks[i].transport, &r, canceller, on_group, o);
}

static void a_call_to_a_lost_leader_ends_where_the_group_had_been_complete(void) {
  cluster_t c;
  setup(&c, true);
  outcome_t known, fresh;
  char text[256];
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  c.is_leader_silent = true;
  ask_for_group(&c, 2, 1, NULL, &known);
  ask_for_group(&c, 2, 9, canceller, &fresh);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "nothing is heard of %s", c.tasks[0].name);
  c.tasks[2].transport->ops->lost_task(c.tasks[2].transport, weft_str(c.tasks[0].name), why);
  CU_ASSERT_EQUAL(wait_for(&known, text, sizeof text), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "/job:w/replica:0/task:0"));
  weft_mutex_lock(&c.mu);
  CU_ASSERT_EQUAL(fresh.num_done, 0); /* it waits for the leader to come */
  weft_mutex_unlock(&c.mu);
  weft_canceller_cancel(canceller);
  CU_ASSERT_EQUAL(wait_for(&fresh, NULL, 0), WEFT_CANCELLED);
  weft_canceller_release(canceller);
  weft_status_free(why);
  teardown(&c);
}

static void on_instance(void *arg, weft_status_t *status, int source) {
  (void)source;
  on_done(arg, status);
}

static void join_instance(cluster_t *c, int rank, weft_canceller_t *canceller, outcome_t *o) {
  *o = (outcome_t){.cluster = c};
  weft_instance_request_t r = {.group_key = 1,
                               .instance_key = 5,
                               .step_id = STEP,
                               .rank = rank,
                               .group_size = NUM_TASKS,
                               .name = WEFT_STR("reduce"),
                               .device = weft_str(c->tasks[rank].device),
                               .kind = WEFT_ALL_REDUCE,
                               .dtype = WEFT_F32,
                               .root = -1};
  weft_transport_t *t = c->tasks[rank].transport;
  t->ops->complete_instance(t, &r, canceller, on_instance, o);
}

/* The leader learns of a member's failure only that its call is cancelled. */
static void a_member_that_leaves_an_instance_is_not_taken_for_the_leader(void) {
  for (int has_cause = 0; has_cause < 2; has_cause++) {
    cluster_t c;
    setup(&c, false);
    outcome_t outs[NUM_TASKS];
    char text[256];
    weft_canceller_t *canceller = weft_canceller_create(NULL);
    join_instance(&c, 0, NULL, &outs[0]);
    join_instance(&c, 1, canceller, &outs[1]);
    if (has_cause) {
      weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "task 7 is lost");
      weft_transport_t *t = c.tasks[1].transport;
      t->ops->fail(t, STEP, WEFT_STR("1.reduce"), c.group, why);
      weft_status_free(why);
    }
    weft_canceller_cancel(canceller);
    CU_ASSERT_EQUAL(wait_for(&outs[1], NULL, 0), WEFT_CANCELLED);
    join_instance(&c, 2, NULL, &outs[2]); /* later */
    for (int rank = 0; rank < NUM_TASKS; rank += 2) {
      CU_ASSERT_EQUAL(wait_for(&outs[rank], text, sizeof text), has_cause ? WEFT_UNAVAILABLE : WEFT_ABORTED);
      CU_ASSERT_PTR_NOT_NULL(strstr(text, has_cause ? "task 7 is lost" : "was cancelled at rank 1"));
    }
    weft_canceller_release(canceller);
    teardown(&c);
  }
}

static void a_request_to_an_earlier_incarnation_is_refused(void) {
  cluster_t c;
  setup(&c, true);
  stop(&c, 2);
  start(&c, 2, true);
  static char got[16];
  outcome_t taken;
  char text[512];
  fetch(&c, 2, 0, "run/a", got, sizeof got, NULL, &taken);
  CU_ASSERT_EQUAL(wait_for(&taken, text, sizeof text), WEFT_FAILED_PRECONDITION);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "RecvBuf expects a different device incarnation: "));
  teardown(&c);
}

static void check_cancelled(bool only_rpc) {
  cluster_t c;
  setup(&c, only_rpc);
  static char got[16];
  for (int late = 0; late < 2; late++) {
    weft_canceller_t *canceller = weft_canceller_create(NULL);
    outcome_t taken;
    if (late) weft_canceller_cancel(canceller);
    fetch(&c, 1, 0, late ? "run/late" : "run/a", got, sizeof got, canceller, &taken);
    weft_canceller_cancel(canceller);
    CU_ASSERT_EQUAL(wait_for(&taken, NULL, 0), WEFT_CANCELLED);
    weft_canceller_release(canceller);
  }
  teardown(&c);
}
static void fetches_are_cancelled(void) {
  check_cancelled(false);
  check_cancelled(true);
}

static void hosts_are_known_where_there_are_links(void) {
  cluster_t c;
  setup(&c, false);
  CU_ASSERT_TRUE(c.group->members[0].host.length > 0);
  CU_ASSERT_TRUE(weft_str_eq(c.group->members[0].host, c.group->members[2].host));
  CU_ASSERT_TRUE(c.tasks[0].transport->ops->cost(c.tasks[0].transport, weft_str(c.tasks[0].name),
                                                 weft_str(c.tasks[1].name), 1 << 20) < 1e-3);
  teardown(&c);
}

static void groups_are_told_measured_links(void) {
  for (int only_rpc = 0; only_rpc < 2; only_rpc++) {
    cluster_t c;
    setup(&c, only_rpc != 0);
    weft_transport_t *t = c.tasks[0].transport;
    weft_str_t from = weft_str(c.tasks[1].name), to = weft_str(c.tasks[0].name);
    double before = t->ops->cost(t, from, to, LARGE);
    static char data[LARGE], got[LARGE];
    for (int i = 0; i < 20; i++) {
      char key[32];
      outcome_t given, taken;
      snprintf(key, sizeof key, "run/%d", i);
      offer(&c, 1, 0, key, data, sizeof data, &given);
      fetch(&c, 1, 0, key, got, sizeof got, NULL, &taken);
      CU_ASSERT_EQUAL(wait_for(&taken, NULL, 0), WEFT_OK);
      CU_ASSERT_EQUAL(wait_for(&given, NULL, 0), WEFT_OK);
    }
    CU_ASSERT_TRUE(t->ops->cost(t, from, to, LARGE) != before);
    weft_group_t *g = join(&c, 2);
    weft_link_t l = only_rpc ? g->far : g->near;
    CU_ASSERT_TRUE(l.alpha_s > 0 && l.byte_s > 0);
    CU_ASSERT_DOUBLE_EQUAL(l.alpha_s + LARGE * l.byte_s, t->ops->cost(t, from, to, LARGE), 1e-9);
    weft_group_release(g);
    teardown(&c);
  }
}

static const CU_TestInfo tests[] = {
    {"bytes move by shared memory", bytes_move_by_shared_memory},
    {"bytes move by RPC", bytes_move_by_rpc},
    {"blocks are consumed by shared memory", blocks_are_consumed_by_shared_memory},
    {"blocks are consumed by RPC", blocks_are_consumed_by_rpc},
    {"another size is internal", another_size_is_internal},
    {"a step ends for present and future transfers", a_step_ends_for_present_and_future_transfers},
    {"a step that begins again has transfers", a_step_that_begins_again_has_transfers},
    {"a failed run ends at all tasks, and others go on", a_failed_run_ends_at_all_tasks_and_others_go_on},
    {"a lost task is named in all that waits for it", a_lost_task_is_named_in_all_that_waits_for_it},
    {"a task that departs names itself", a_task_that_departs_names_itself},
    {"a call to a lost leader ends where the group had been complete",
     a_call_to_a_lost_leader_ends_where_the_group_had_been_complete},
    {"a member that leaves an instance is not taken for the leader",
     a_member_that_leaves_an_instance_is_not_taken_for_the_leader},
    {"a request to an earlier incarnation is refused", a_request_to_an_earlier_incarnation_is_refused},
    {"fetches are cancelled", fetches_are_cancelled},
    {"hosts are known where there are links", hosts_are_known_where_there_are_links},
    {"groups are told measured links", groups_are_told_measured_links},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("remote_transport", tests); }
