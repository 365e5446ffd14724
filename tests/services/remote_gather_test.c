/* Receives of several tensors in one call, over gRPC: a worker that answers as told, and a server that does
 * not keep to the protocol. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "rpc/channel.h"
#include "rpc/service.h"
#include "services/messages.h"
#include "services/remote_worker.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

#define TASK "/job:worker/replica:0/task:3"
enum { KEYS = 4 };

/* Both ends of the calls. */
typedef struct gather_ends {
  weft_worker_client_t worker;
  weft_rpc_client_t *rpc;
  weft_rpc_server_t *server;
  weft_worker_service_t *service; /* NULL: the server says what a test wants */
  weft_rpc_channel_t *channel;
  weft_worker_client_t *remote;
  weft_mutex_t mu;
  weft_cond_t changed;
  const weft_recv_tensors_response_msg_t *says; /* guarded by mu, as the rest */
  bool waits;                                   /* the worker has no tensor, until the call is cancelled */
  weft_status_t *fail;
  int num_asked, num_waiting;
  bool has_answer;
  weft_status_t *status;
  int n, key[KEYS];
  weft_gathered_kind_t kind[KEYS];
  float value[KEYS];
} gather_ends_t;

static weft_tensor_t *scalar(float value) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_scalar(WEFT_F32, &value, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return t;
}

typedef struct waiting_gather {
  weft_gather_fn *fn;
  void *arg;
} waiting_gather_t;
static void give_up(void *arg) {
  waiting_gather_t *g = arg;
  g->fn(g->arg, WEFT_ERROR(CANCELLED, "RecvAsync is cancelled."), NULL, 0);
  weft_free(g);
}

/* The first key has a tensor, the second a dead one, the third one that is to be received alone. */
static void recv_tensors(weft_worker_client_t *w, int64_t step_id, const weft_key_t *keys, int n,
                         weft_canceller_t *c, weft_gather_fn *fn, void *arg) {
  gather_ends_t *e = (gather_ends_t *)(void *)w;
  const weft_gathered_t items[] = {
      {0, WEFT_GATHERED_TENSOR, scalar(2.5f)}, {1, WEFT_GATHERED_DEAD, NULL}, {2, WEFT_GATHERED_ALONE, NULL}};
  bool is_right = step_id == 8 && n == KEYS;
  for (int i = 0; i < n; i++) is_right = is_right && keys[i].hash == weft_str_hash(keys[i].text);
  weft_mutex_lock(&e->mu);
  const bool waits = e->waits;
  weft_status_t *s = weft_status_clone(e->fail);
  e->num_asked += is_right;
  e->num_waiting += waits;
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
  if (waits) {
    waiting_gather_t *g = weft_calloc(1, sizeof *g);
    uint64_t token;
    *g = (waiting_gather_t){fn, arg};
    if (!weft_canceller_register(c, give_up, g, &token)) give_up(g);
  } else if (s == NULL) {
    fn(arg, NULL, items, 3);
    return;
  } else {
    fn(arg, s, NULL, 0);
  }
  weft_tensor_release(items[0].tensor);
}
static void destroy(weft_worker_client_t *w) { (void)w; }

static void say(weft_served_t *s) {
  gather_ends_t *e = s->service;
  weft_mutex_lock(&e->mu);
  const weft_recv_tensors_response_msg_t *says = e->says;
  weft_mutex_unlock(&e->mu);
  weft_served_reply(s, &weft_recv_tensors_response_type, says);
}
static const weft_service_method_t saying[] = {
    {WEFT_METHOD_OF("/weft.WorkerService/RecvTensors", recv_tensors_request, say)}};

/* says: a server that is no worker's; `knows_gathers`: and has the method. */
static void setup(gather_ends_t *e, bool says, bool knows_gathers) {
  static const weft_worker_client_ops_t ops = {.recv_tensors = recv_tensors, .destroy = destroy};
  memset(e, 0, sizeof *e);
  e->worker.ops = &ops;
  atomic_init(&e->worker.refs, 1);
  weft_mutex_init(&e->mu);
  weft_cond_init(&e->changed);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &e->rpc));
  weft_rpc_server_options_t o = {.host = "127.0.0.1", .client = e->rpc};
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_create(&o, &e->server));
  if (says) {
    CU_ASSERT_PTR_NULL_FATAL(weft_service_register(e->server, saying, knows_gathers, e));
  } else {
    CU_ASSERT_PTR_NULL_FATAL(weft_worker_service_create(&e->worker, e->server, &e->service));
  }
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_start(e->server));
  char target[64];
  snprintf(target, sizeof target, "127.0.0.1:%d", weft_rpc_server_port(e->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(e->rpc, weft_str(target), &e->channel));
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_worker_client_create(e->channel, WEFT_STR(TASK), &e->remote));
}

static void teardown(gather_ends_t *e) {
  weft_worker_client_release(e->remote);
  weft_rpc_channel_release(e->channel);
  weft_rpc_server_destroy(e->server);
  weft_worker_service_destroy(e->service);
  weft_rpc_client_destroy(e->rpc);
  weft_status_free(e->status);
  weft_status_free(e->fail);
  weft_cond_deinit(&e->changed);
  weft_mutex_deinit(&e->mu);
}

static void on_gathered(void *arg, weft_status_t *status, const weft_gathered_t *items, int n) {
  gather_ends_t *e = arg;
  weft_mutex_lock(&e->mu);
  e->has_answer = true;
  e->status = status;
  e->n = n;
  for (int i = 0; i < n; i++) {
    e->key[i] = items[i].key;
    e->kind[i] = items[i].kind;
    e->value[i] = items[i].tensor == NULL ? 0 : *(const float *)items[i].tensor->data;
    weft_tensor_release(items[i].tensor);
  }
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
}

static void begin(gather_ends_t *e, weft_canceller_t *c) {
  static weft_key_t keys[KEYS]; /* there until the call ends */
  const weft_str_t texts[KEYS] = {WEFT_STR("a"), WEFT_STR("b"), WEFT_STR("c"), WEFT_STR("d")};
  for (int i = 0; i < KEYS; i++) keys[i] = weft_key(texts[i]);
  weft_status_free(e->status);
  e->status = NULL;
  e->remote->ops->recv_tensors(e->remote, 8, keys, KEYS, c, on_gathered, e);
}

static const weft_status_t *end(gather_ends_t *e) {
  weft_mutex_lock(&e->mu);
  while (!e->has_answer) weft_cond_wait(&e->changed, &e->mu);
  e->has_answer = false;
  weft_mutex_unlock(&e->mu);
  return e->status;
}

static void tensors_of_all_kinds_come_in_one_answer(void) {
  gather_ends_t e;
  setup(&e, false, false);
  for (int round = 1; round < 4; round++) {
    begin(&e, NULL);
    CU_ASSERT_PTR_NULL_FATAL(end(&e));
    CU_ASSERT_EQUAL(e.num_asked, round);
    CU_ASSERT_EQUAL_FATAL(e.n, 3);
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(e.key[i], i);
    CU_ASSERT_TRUE(e.kind[0] == WEFT_GATHERED_TENSOR && e.value[0] == 2.5f);
    CU_ASSERT_EQUAL(e.kind[1], WEFT_GATHERED_DEAD);
    CU_ASSERT_EQUAL(e.kind[2], WEFT_GATHERED_ALONE);
  }
  teardown(&e);
}

static void a_failure_names_the_peer(void) {
  gather_ends_t e;
  setup(&e, false, false);
  weft_mutex_lock(&e.mu);
  e.fail = WEFT_ERROR(ABORTED, "Cleanup 8");
  weft_mutex_unlock(&e.mu);
  begin(&e, NULL);
  const weft_status_t *s = end(&e);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ABORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "Cleanup 8"));
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), TASK));
  teardown(&e);
}

static void a_gather_is_cancelled_on_both_ends(void) {
  gather_ends_t e;
  setup(&e, false, false);
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_mutex_lock(&e.mu);
  e.waits = true;
  weft_mutex_unlock(&e.mu);
  begin(&e, c);
  weft_mutex_lock(&e.mu);
  while (e.num_waiting == 0) weft_cond_wait(&e.changed, &e.mu);
  weft_mutex_unlock(&e.mu);
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(weft_status_code(end(&e)), WEFT_CANCELLED);
  weft_canceller_release(c);
  teardown(&e); /* waits for the worker's own end */
}

static void a_server_without_the_method_is_known(void) {
  gather_ends_t e;
  setup(&e, true, false);
  begin(&e, NULL);
  CU_ASSERT_EQUAL(weft_status_code(end(&e)), WEFT_UNIMPLEMENTED);
  teardown(&e);
}

static void answers_that_are_none_are_refused(void) {
  weft_tensor_t *t = scalar(1), *tensors[] = {t, t};
  int64_t up[] = {0, 1}, down[] = {1, 0}, twice[] = {2, 2}, far[] = {0, KEYS}, before[] = {-1, 0};
  int64_t alive[] = {0, 0}, one_dead[] = {0, 1}, strange[] = {0, 3};
  const struct {
    int64_t *keys, *kinds;
    int num_keys, num_kinds, num_tensors;
  } wrong[] = {
      {up, alive, 0, 0, 0},   {up, alive, 2, 1, 2},     {up, alive, 2, 2, 1},    {up, one_dead, 2, 2, 2},
      {up, alive, 0, 0, 1},   {down, alive, 2, 2, 2},   {twice, alive, 2, 2, 2}, {far, alive, 2, 2, 2},
      {up, strange, 2, 2, 1}, {before, alive, 2, 2, 2},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    gather_ends_t e;
    const weft_recv_tensors_response_msg_t says = {.key = {wrong[i].keys, wrong[i].num_keys, 0},
                                                   .kind = {wrong[i].kinds, wrong[i].num_kinds, 0},
                                                   .tensor = {.items = tensors, .n = wrong[i].num_tensors}};
    setup(&e, true, true);
    weft_mutex_lock(&e.mu);
    e.says = &says;
    weft_mutex_unlock(&e.mu);
    begin(&e, NULL);
    CU_ASSERT_EQUAL(weft_status_code(end(&e)), WEFT_INTERNAL);
    CU_ASSERT_EQUAL(e.n, 0);
    teardown(&e);
  }
  weft_tensor_release(t);
}

static const CU_TestInfo tests[] = {
    {"tensors of all kinds come in one answer", tensors_of_all_kinds_come_in_one_answer},
    {"a failure names the peer", a_failure_names_the_peer},
    {"a gather is cancelled on both ends", a_gather_is_cancelled_on_both_ends},
    {"a server without the method is known", a_server_without_the_method_is_known},
    {"answers that are none are refused", answers_that_are_none_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("remote_gather", tests); }
