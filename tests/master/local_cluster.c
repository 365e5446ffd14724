/* tests/master/local_cluster.c - see the header. */
#include "tests/master/local_cluster.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "kernels/evaluate.h"
#include "protos/config.pb-c.h"
#include "protos/text_format.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"
#include "worker/worker_impl.h"

#define DEADLINE_NS INT64_C(20000000000)

typedef struct fault {
  atomic_int code;
  atomic_bool hangs;
  atomic_int count;
} fault_t;

typedef struct flaky_client { /* passes calls on, unless told otherwise */
  weft_worker_client_t base;
  weft_worker_client_t *inner;
  weft_test_cluster_t *cluster; /* borrowed */
  fault_t faults[WEFT_TEST_NUM_CALLS];
} flaky_client_t;

struct weft_test_cluster {
  weft_worker_cache_t cache; /* first: the cache is the cluster */
  int n;
  atomic_bool lost[WEFT_TEST_MAX_TASKS];
  weft_str_t tasks[WEFT_TEST_MAX_TASKS];
  weft_worker_t *workers[WEFT_TEST_MAX_TASKS];
  weft_worker_client_t *clients[WEFT_TEST_MAX_TASKS];
  weft_master_t *masters[WEFT_TEST_MAX_TASKS];
  weft_master_client_t *master_clients[WEFT_TEST_MAX_TASKS];
  weft_mutex_t mu;
  weft_cond_t deleted;                     /* a worker has dropped a session */
  weft_canceller_t *cancelled_by_creation; /* borrowed; may be NULL */
};

/* ---- a worker client with faults ---- */

static flaky_client_t *flaky(weft_worker_client_t *c) { return (flaky_client_t *)(void *)c; }
static weft_worker_client_t *inner(weft_worker_client_t *c) { return flaky(c)->inner; }

static weft_status_t *failure_of(weft_worker_client_t *c, weft_test_call_t call) {
  int code = atomic_load(&flaky(c)->faults[call].code);
  return code == WEFT_OK ? NULL
                         : weft_status_new((weft_code_t)code, __FILE__, __LINE__, "%.*s is not well",
                                           WEFT_STR_ARGS(c->task));
}

static weft_status_t *fault_of(weft_worker_client_t *c, weft_test_call_t call) {
  atomic_fetch_add(&flaky(c)->faults[call].count, 1);
  return failure_of(c, call);
}

typedef struct hanging {
  weft_run_graph_fn *run_fn;
  weft_devices_fn *devices_fn;
  weft_recv_fn *recv_fn;
  weft_gather_fn *gather_fn;
  void *arg;
} hanging_t;

static void give_up(void *arg) {
  hanging_t *h = arg;
  weft_status_t *s = WEFT_ERROR(CANCELLED, "hung until it was cancelled");
  if (h->run_fn != NULL) h->run_fn(h->arg, s, NULL);
  if (h->devices_fn != NULL) h->devices_fn(h->arg, s, NULL);
  if (h->recv_fn != NULL) h->recv_fn(h->arg, s, NULL, false);
  if (h->gather_fn != NULL) h->gather_fn(h->arg, s, NULL, 0);
  weft_free(h);
}

static bool hang(weft_worker_client_t *c, weft_test_call_t call, weft_canceller_t *canceller, hanging_t how) {
  if (!atomic_load(&flaky(c)->faults[call].hangs)) return false;
  hanging_t *h = weft_calloc(1, sizeof *h);
  uint64_t token;
  if (h == NULL) return false;
  *h = how;
  if (!weft_canceller_register(canceller, give_up, h, &token)) give_up(h);
  return true;
}

static void get_status(weft_worker_client_t *c, weft_canceller_t *canceller, weft_devices_fn *fn, void *arg) {
  weft_status_t *s = fault_of(c, WEFT_TEST_GET_STATUS);
  if (s != NULL) {
    fn(arg, s, NULL);
  } else if (!hang(c, WEFT_TEST_GET_STATUS, canceller, (hanging_t){.devices_fn = fn, .arg = arg})) {
    inner(c)->ops->get_status(inner(c), canceller, fn, arg);
  }
}

static void create_session(weft_worker_client_t *c, const weft_worker_session_spec_t *spec, weft_done_fn *fn,
                           void *arg) {
  weft_status_t *s = fault_of(c, WEFT_TEST_CREATE_SESSION);
  if (flaky(c)->cluster->cancelled_by_creation != NULL)
    weft_canceller_cancel(flaky(c)->cluster->cancelled_by_creation);
  if (s != NULL) {
    fn(arg, s);
  } else {
    inner(c)->ops->create_session(inner(c), spec, fn, arg);
  }
}

static void delete_session(weft_worker_client_t *c, weft_str_t session, weft_done_fn *fn, void *arg) {
  weft_status_t *s = fault_of(c, WEFT_TEST_DELETE_SESSION);
  if (s != NULL) {
    fn(arg, s);
  } else {
    inner(c)->ops->delete_session(inner(c), session, fn, arg);
    weft_test_cluster_t *cluster = flaky(c)->cluster;
    weft_mutex_lock(&cluster->mu);
    weft_cond_broadcast(&cluster->deleted);
    weft_mutex_unlock(&cluster->mu);
  }
}

static void register_graph(weft_worker_client_t *c, weft_str_t session, weft_graph_t *graph, bool keeps_graph,
                           weft_text_fn *fn, void *arg) {
  weft_status_t *s = fault_of(c, WEFT_TEST_REGISTER_GRAPH);
  if (s != NULL) {
    weft_graph_destroy(graph);
    fn(arg, s, WEFT_STR(""));
  } else {
    inner(c)->ops->register_graph(inner(c), session, graph, keeps_graph, fn, arg);
  }
}

static void deregister_graph(weft_worker_client_t *c, weft_str_t session, weft_str_t handle, weft_done_fn *fn,
                             void *arg) {
  inner(c)->ops->deregister_graph(inner(c), session, handle, fn, arg);
}

static void run_graph(weft_worker_client_t *c, const weft_run_graph_t *run, weft_canceller_t *canceller,
                      weft_run_graph_fn *fn, void *arg) {
  weft_status_t *s = fault_of(c, WEFT_TEST_RUN_GRAPH);
  if (s != NULL) {
    fn(arg, s, NULL);
  } else if (!hang(c, WEFT_TEST_RUN_GRAPH, canceller, (hanging_t){.run_fn = fn, .arg = arg})) {
    inner(c)->ops->run_graph(inner(c), run, canceller, fn, arg);
  }
}

static void cleanup_graph(weft_worker_client_t *c, int64_t step_id, weft_done_fn *fn, void *arg) {
  weft_status_t *s = fault_of(c, WEFT_TEST_CLEANUP_GRAPH);
  if (s != NULL) {
    fn(arg, s);
  } else {
    inner(c)->ops->cleanup_graph(inner(c), step_id, fn, arg);
  }
}

static void cleanup_all(weft_worker_client_t *c, const weft_str_t *containers, int n, weft_done_fn *fn,
                        void *arg) {
  weft_status_t *s = fault_of(c, WEFT_TEST_CLEANUP_ALL);
  if (s != NULL) {
    fn(arg, s);
  } else {
    inner(c)->ops->cleanup_all(inner(c), containers, n, fn, arg);
  }
}

static void recv_tensor(weft_worker_client_t *c, int64_t step_id, weft_key_t key, weft_canceller_t *canceller,
                        weft_recv_fn *fn, void *arg) {
  weft_status_t *s = fault_of(c, WEFT_TEST_RECV_TENSOR);
  if (s != NULL) {
    fn(arg, s, NULL, false);
  } else if (!hang(c, WEFT_TEST_RECV_TENSOR, canceller, (hanging_t){.recv_fn = fn, .arg = arg})) {
    inner(c)->ops->recv_tensor(inner(c), step_id, key, canceller, fn, arg);
  }
}

typedef struct counted_gather {
  flaky_client_t *client; /* borrowed */
  weft_gather_fn *fn;
  void *arg;
} counted_gather_t;

static void count_gathered(void *arg, weft_status_t *status, const weft_gathered_t *items, int n) {
  const counted_gather_t g = *(counted_gather_t *)arg;
  weft_free(arg);
  for (int i = 0; i < n; i++) {
    if (items[i].kind != WEFT_GATHERED_ALONE)
      atomic_fetch_add(&g.client->faults[WEFT_TEST_RECV_TENSOR].count, 1);
  }
  g.fn(g.arg, status, items, n);
}

static void recv_tensors(weft_worker_client_t *c, int64_t step_id, const weft_key_t *keys, int n,
                         weft_canceller_t *canceller, weft_gather_fn *fn, void *arg) {
  weft_status_t *s = failure_of(c, WEFT_TEST_RECV_TENSOR);
  counted_gather_t *g = weft_malloc(sizeof *g);
  if (s == NULL && g == NULL) s = WEFT_NO_MEMORY("a gather");
  if (s != NULL) {
    weft_free(g);
    fn(arg, s, NULL, 0);
    return;
  }
  *g = (counted_gather_t){flaky(c), fn, arg};
  if (!hang(c, WEFT_TEST_RECV_TENSOR, canceller, (hanging_t){.gather_fn = count_gathered, .arg = g}))
    inner(c)->ops->recv_tensors(inner(c), step_id, keys, n, canceller, count_gathered, g);
}

static void logging(weft_worker_client_t *c, weft_str_t request, weft_text_fn *fn, void *arg) {
  inner(c)->ops->logging(inner(c), request, fn, arg);
}

static void recv_buf(weft_worker_client_t *c, const weft_buf_request_t *r, weft_canceller_t *canceller,
                     weft_buf_fn *fn, void *arg) {
  inner(c)->ops->recv_buf(inner(c), r, canceller, fn, arg);
}
static void complete_group(weft_worker_client_t *c, const weft_group_request_t *r,
                           weft_canceller_t *canceller, weft_group_fn *fn, void *arg) {
  inner(c)->ops->complete_group(inner(c), r, canceller, fn, arg);
}
static void complete_instance(weft_worker_client_t *c, const weft_instance_request_t *r,
                              weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  inner(c)->ops->complete_instance(inner(c), r, canceller, fn, arg);
}
static void get_step_sequence(weft_worker_client_t *c, const int64_t *keys, int n, weft_step_ids_fn *fn,
                              void *arg) {
  inner(c)->ops->get_step_sequence(inner(c), keys, n, fn, arg);
}
static void retire_step(weft_worker_client_t *c, int64_t graph_key, int64_t step_id) {
  inner(c)->ops->retire_step(inner(c), graph_key, step_id);
}
static void record(weft_worker_client_t *c, const weft_record_request_t *r, weft_canceller_t *canceller,
                   weft_record_fn *fn, void *arg) {
  inner(c)->ops->record(inner(c), r, canceller, fn, arg);
}

static void destroy_client(weft_worker_client_t *c) {
  weft_worker_client_release(inner(c));
  weft_free(c);
}

static weft_worker_client_t *wrap(weft_test_cluster_t *cluster, weft_worker_client_t *client) {
  static const weft_worker_client_ops_t ops = {.get_status = get_status,
                                               .create_session = create_session,
                                               .delete_session = delete_session,
                                               .register_graph = register_graph,
                                               .deregister_graph = deregister_graph,
                                               .run_graph = run_graph,
                                               .cleanup_graph = cleanup_graph,
                                               .cleanup_all = cleanup_all,
                                               .recv_tensor = recv_tensor,
                                               .recv_tensors = recv_tensors,
                                               .logging = logging,
                                               .recv_buf = recv_buf,
                                               .complete_group = complete_group,
                                               .complete_instance = complete_instance,
                                               .get_step_sequence = get_step_sequence,
                                               .retire_step = retire_step,
                                               .record = record,
                                               .destroy = destroy_client};
  flaky_client_t *c = weft_calloc(1, sizeof *c);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  c->base.ops = &ops;
  c->base.task = client->task;
  atomic_init(&c->base.refs, 1);
  c->inner = client;
  c->cluster = cluster;
  return &c->base;
}

/* ---- the cluster ---- */

static weft_worker_client_t *find(weft_worker_cache_t *cache, weft_str_t task) {
  weft_test_cluster_t *c = (weft_test_cluster_t *)(void *)cache;
  for (int i = 0; i < c->n; i++) {
    if (weft_str_eq(c->tasks[i], task)) return weft_worker_client_retain(c->clients[i]);
  }
  return NULL;
}

static const weft_str_t *tasks_of(weft_worker_cache_t *cache, int *out_n) {
  weft_test_cluster_t *c = (weft_test_cluster_t *)(void *)cache;
  *out_n = c->n;
  return c->tasks;
}

static weft_status_t *why_lost(weft_worker_cache_t *cache, weft_str_t task) {
  weft_test_cluster_t *c = (weft_test_cluster_t *)(void *)cache;
  for (int i = 0; i < c->n; i++) {
    if (weft_str_eq(c->tasks[i], task) && atomic_load(&c->lost[i]))
      return WEFT_ERROR(UNAVAILABLE, "The task %.*s is lost", WEFT_STR_ARGS(task));
  }
  return NULL;
}

void weft_test_cluster_cancel_by_creation(weft_test_cluster_t *c, weft_canceller_t *canceller) {
  c->cancelled_by_creation = canceller;
}

void weft_test_cluster_lose(weft_test_cluster_t *c, int task) { atomic_store(&c->lost[task], true); }

static void must(weft_status_t *s) { weft_test_expect(s, WEFT_OK, ""); }

static const weft_kernel_support_t kernels = {weft_devices_supporting, weft_devices_missing};

static weft_test_cluster_t *create(const char *const *tasks, int n, int64_t discovery_timeout_ms,
                                   int64_t grace_ms) {
  weft_test_cluster_t *c = weft_calloc(1, sizeof *c);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  c->cache = (weft_worker_cache_t){.find = find, .tasks = tasks_of, .lost = why_lost};
  c->n = n;
  weft_mutex_init(&c->mu);
  weft_cond_init(&c->deleted);
  for (int i = 0; i < n; i++) {
    c->tasks[i] = weft_str(tasks[i]);
    weft_worker_options_t worker = {.task = c->tasks[i], .num_threads = 2, .cache = &c->cache};
    must(weft_worker_create(&worker, &c->workers[i]));
    weft_worker_client_t *client = NULL;
    must(weft_local_worker_client_create(c->workers[i], &client));
    c->clients[i] = wrap(c, client);
    const weft_evaluator_t evaluator = {weft_evaluate_node, weft_worker_device(c->workers[i])};
    weft_master_options_t master = {.task = c->tasks[i],
                                    .cache = &c->cache,
                                    .kernels = &kernels,
                                    .evaluator = &evaluator,
                                    .discovery_timeout_ms = discovery_timeout_ms,
                                    .client_grace_ms = grace_ms};
    must(weft_master_create(&master, &c->masters[i]));
    must(weft_local_master_client_create(c->masters[i], &c->master_clients[i]));
  }
  return c;
}

weft_test_cluster_t *weft_test_cluster_create(const char *const *tasks, int n) {
  return create(tasks, n, 0, 0);
}

weft_test_cluster_t *weft_test_cluster_with_timeout(const char *const *tasks, int n,
                                                    int64_t discovery_timeout_ms) {
  return create(tasks, n, discovery_timeout_ms, 0);
}

weft_test_cluster_t *weft_test_cluster_with_grace(int64_t client_grace_ms) {
  static const char *const tasks[] = {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0",
                                      "/job:worker/replica:0/task:1"};
  return create(tasks, 3, 0, client_grace_ms);
}

weft_test_cluster_t *weft_test_cluster_usual(void) { return weft_test_cluster_with_grace(0); }

void weft_test_cluster_destroy(weft_test_cluster_t *c) {
  for (int i = 0; i < c->n; i++) weft_master_stop(c->masters[i]);
  for (int i = 0; i < c->n; i++) weft_worker_stop(c->workers[i]);
  for (int i = 0; i < c->n; i++) weft_master_destroy(c->masters[i]);
  for (int i = 0; i < c->n; i++) weft_master_client_release(c->master_clients[i]);
  for (int i = 0; i < c->n; i++) weft_worker_destroy(c->workers[i]);
  for (int i = 0; i < c->n; i++) weft_worker_client_release(c->clients[i]);
  weft_cond_deinit(&c->deleted);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

void weft_test_cluster_stop_master(weft_test_cluster_t *c, int task) { weft_master_stop(c->masters[task]); }

weft_master_client_t *weft_test_cluster_master(weft_test_cluster_t *c, int task) {
  return c->master_clients[task];
}
weft_worker_t *weft_test_cluster_worker(weft_test_cluster_t *c, int task) { return c->workers[task]; }

int weft_test_cluster_steps(weft_test_cluster_t *c) {
  size_t n = 0;
  for (int i = 0; i < c->n; i++) {
    weft_mutex_lock(&c->workers[i]->steps.mu);
    n += c->workers[i]->steps.steps.count;
    weft_mutex_unlock(&c->workers[i]->steps.mu);
  }
  return (int)n;
}

int weft_test_cluster_sessions(weft_test_cluster_t *c) {
  size_t n = 0;
  for (int i = 0; i < c->n; i++) {
    weft_mutex_lock(&c->workers[i]->mu);
    n += c->workers[i]->sessions.count;
    weft_mutex_unlock(&c->workers[i]->mu);
  }
  return (int)n;
}

void weft_test_cluster_await_sessions(weft_test_cluster_t *c, int n) {
  int64_t deadline = weft_clock_ns() + DEADLINE_NS;
  bool is_so = false, is_late = false;
  weft_mutex_lock(&c->mu);
  while (!(is_so = weft_test_cluster_sessions(c) == n) && !is_late)
    is_late = !weft_cond_wait_until(&c->deleted, &c->mu, deadline);
  weft_mutex_unlock(&c->mu);
  CU_ASSERT_TRUE(is_so);
}

void weft_test_cluster_fail(weft_test_cluster_t *c, int task, weft_test_call_t call, weft_code_t code) {
  atomic_store(&flaky(c->clients[task])->faults[call].code, (int)code);
}

void weft_test_cluster_hang(weft_test_cluster_t *c, int task, weft_test_call_t call, bool hangs) {
  atomic_store(&flaky(c->clients[task])->faults[call].hangs, hangs);
}

int weft_test_cluster_count(weft_test_cluster_t *c, int task, weft_test_call_t call) {
  return atomic_load(&flaky(c->clients[task])->faults[call].count);
}

/* ---- calls ---- */

void weft_test_step_begin(weft_test_step_t *k) {
  *k = (weft_test_step_t){.devices = {.arena = WEFT_ARENA_INIT}};
  weft_mutex_init(&k->mu);
  weft_cond_init(&k->ended);
}

static void end(weft_test_step_t *k, weft_status_t *status) {
  weft_mutex_lock(&k->mu);
  k->status = status;
  k->is_done = true;
  weft_cond_signal(&k->ended);
  weft_mutex_unlock(&k->mu);
}

bool weft_test_step_is_done(weft_test_step_t *k) {
  weft_mutex_lock(&k->mu);
  bool is_done = k->is_done;
  weft_mutex_unlock(&k->mu);
  return is_done;
}

weft_status_t *weft_test_step_wait(weft_test_step_t *k) {
  int64_t deadline = weft_clock_ns() + DEADLINE_NS;
  weft_mutex_lock(&k->mu);
  while (!k->is_done && weft_cond_wait_until(&k->ended, &k->mu, deadline)) {
  }
  bool is_done = k->is_done;
  weft_status_t *s = k->status;
  k->status = NULL;
  weft_mutex_unlock(&k->mu);
  CU_ASSERT_TRUE_FATAL(is_done);
  return s;
}

void weft_test_step_deinit(weft_test_step_t *k) {
  for (int i = 0; i < k->num_fetches; i++) weft_tensor_release(k->fetches[i]);
  for (int i = 0; i < WEFT_TEST_MAX_VALUES; i++) weft_tensor_release(k->feeds[i]);
  weft_status_free(k->status);
  weft_free(k->metadata);
  weft_device_list_deinit(&k->devices);
  weft_cond_deinit(&k->ended);
  weft_mutex_deinit(&k->mu);
}

void weft_test_on_run(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  weft_test_step_t *k = arg;
  for (int i = 0; status == NULL && i < result->num_fetches; i++) k->fetches[i] = result->fetches[i];
  if (status == NULL) k->num_fetches = result->num_fetches;
  if (status == NULL && result->metadata.length > 0) {
    k->metadata = weft_strndup(result->metadata.data, result->metadata.length);
    k->metadata_length = result->metadata.length;
  }
  end(k, status);
}

void weft_test_on_text(void *arg, weft_status_t *status, weft_str_t text) {
  weft_test_step_t *k = arg;
  snprintf(k->text, sizeof k->text, "%.*s", WEFT_STR_ARGS(text));
  end(k, status);
}

void weft_test_on_number(void *arg, weft_status_t *status, int64_t number) {
  ((weft_test_step_t *)arg)->number = number;
  end(arg, status);
}

void weft_test_on_done(void *arg, weft_status_t *status) { end(arg, status); }

void weft_test_on_devices(void *arg, weft_status_t *status, const weft_device_list_t *devices) {
  weft_test_step_t *k = arg;
  for (int i = 0; status == NULL && i < devices->n; i++)
    status = weft_device_list_add(&k->devices, &devices->devices[i]);
  end(k, status);
}

static void on_session(void *arg, weft_status_t *status, weft_str_t session, int64_t version) {
  weft_test_step_t *k = arg;
  k->number = version;
  weft_test_on_text(arg, status, session);
}

static weft_status_t *open_session(weft_master_client_t *m, const weft_create_session_t *r,
                                   weft_canceller_t *c, weft_test_session_t *out) {
  weft_test_step_t k;
  weft_test_step_begin(&k);
  m->ops->create_session(m, r, c, on_session, &k);
  weft_status_t *s = weft_test_step_wait(&k);
  *out = (weft_test_session_t){.master = m, .version = k.number};
  snprintf(out->handle, sizeof out->handle, "%s", k.text);
  weft_test_step_deinit(&k);
  return s;
}

weft_status_t *weft_test_open_bytes(weft_master_client_t *m, weft_str_t graph_def, const char *config,
                                    weft_test_session_t *out) {
  weft_strbuf_t settings = WEFT_STRBUF_INIT;
  must(weft_text_to_binary(&tensorflow__config_proto__descriptor, weft_str(config), "config", &settings));
  weft_create_session_t r = {.graph_def = graph_def, .config = weft_str_of(settings.data, settings.length)};
  weft_status_t *s = open_session(m, &r, NULL, out);
  weft_strbuf_deinit(&settings);
  return s;
}

weft_status_t *weft_test_open(weft_master_client_t *m, const char *graph, const char *config,
                              weft_test_session_t *out) {
  weft_strbuf_t def = weft_test_graph_def(graph);
  weft_status_t *s = weft_test_open_bytes(m, weft_str_of(def.data, def.length), config, out);
  weft_strbuf_deinit(&def);
  return s;
}

weft_status_t *weft_test_open_by(weft_master_client_t *m, const char *graph, const char *client,
                                 weft_canceller_t *c, weft_test_session_t *out) {
  weft_strbuf_t def = weft_test_graph_def(graph);
  weft_create_session_t r = {.graph_def = weft_str_of(def.data, def.length), .client = weft_str(client)};
  weft_status_t *s = open_session(m, &r, c, out);
  weft_strbuf_deinit(&def);
  return s;
}

weft_test_session_t weft_test_opened(weft_master_client_t *m, const char *graph) {
  weft_test_session_t s;
  weft_status_t *status = weft_test_open(m, graph, "", &s);
  bool ok = status == NULL;
  must(status);
  CU_ASSERT_TRUE_FATAL(ok);
  return s;
}

weft_status_t *weft_test_extend(weft_test_session_t *s, const char *graph) {
  weft_strbuf_t def = weft_test_graph_def(graph);
  weft_extend_session_t r = {weft_str(s->handle), weft_str_of(def.data, def.length), s->version};
  weft_test_step_t k;
  weft_test_step_begin(&k);
  s->master->ops->extend_session(s->master, &r, NULL, weft_test_on_number, &k);
  weft_status_t *status = weft_test_step_wait(&k);
  if (status == NULL) s->version = k.number;
  weft_test_step_deinit(&k);
  weft_strbuf_deinit(&def);
  return status;
}

weft_status_t *weft_test_close(weft_test_session_t *s) {
  weft_test_step_t k;
  weft_test_step_begin(&k);
  s->master->ops->close_session(s->master, weft_str(s->handle), weft_test_on_done, &k);
  weft_status_t *status = weft_test_step_wait(&k);
  weft_test_step_deinit(&k);
  return status;
}

static int texts(const char *const *from, weft_str_t *to) {
  int n = 0;
  for (; n < WEFT_TEST_MAX_VALUES && from[n] != NULL; n++) to[n] = weft_str(from[n]);
  return n;
}

void weft_test_start(weft_test_session_t *s, const weft_test_run_t *run, weft_test_step_t *k) {
  weft_str_t fetches[WEFT_TEST_MAX_VALUES], targets[WEFT_TEST_MAX_VALUES];
  weft_named_tensor_t feeds[WEFT_TEST_MAX_VALUES];
  weft_run_step_t r = {.session = weft_str(s->handle),
                       .partial_run_handle = weft_str(run->partial),
                       .feeds = feeds,
                       .fetches = fetches,
                       .targets = targets,
                       .options = run->options};
  r.num_fetches = texts(run->fetches, fetches);
  r.num_targets = texts(run->targets, targets);
  for (; r.num_feeds < WEFT_TEST_MAX_VALUES && run->feeds[r.num_feeds] != NULL; r.num_feeds++) {
    weft_tensor_t *t = weft_tensor_retain(run->tensors[r.num_feeds]);
    if (t == NULL) must(weft_tensor_scalar(WEFT_F32, &run->values[r.num_feeds], &t));
    feeds[r.num_feeds] = (weft_named_tensor_t){weft_str(run->feeds[r.num_feeds]), t};
  }
  weft_test_step_begin(k);
  for (int i = 0; i < r.num_feeds; i++) k->feeds[i] = feeds[i].tensor;
  s->master->ops->run_step(s->master, &r, run->canceller, weft_test_on_run, k);
}

static double first_element(const weft_tensor_t *t) {
  if (t == NULL || t->bytes == 0) return 0;
  switch (t->dtype) {
    case WEFT_F32: return (double)*(const float *)t->data;
    case WEFT_F64: return *(const double *)t->data;
    case WEFT_I32: return (double)*(const int32_t *)t->data;
    case WEFT_I64: return (double)*(const int64_t *)t->data;
    case WEFT_BOOL: return (double)*(const unsigned char *)t->data;
    default: return -12345;
  }
}

weft_status_t *weft_test_run(weft_test_session_t *s, const weft_test_run_t *run, double *out) {
  weft_test_step_t k;
  weft_test_start(s, run, &k);
  weft_status_t *status = weft_test_step_wait(&k);
  for (int i = 0; out != NULL && i < k.num_fetches; i++) out[i] = first_element(k.fetches[i]);
  weft_test_step_deinit(&k);
  return status;
}

double weft_test_fetch(weft_test_session_t *s, const char *fetch) {
  double value = -12345;
  must(weft_test_run(s, &(weft_test_run_t){.fetches = {fetch}}, &value));
  return value;
}

void weft_test_target(weft_test_session_t *s, const char *target) {
  must(weft_test_run(s, &(weft_test_run_t){.targets = {target}}, NULL));
}
