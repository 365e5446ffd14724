/* WorkerService and its remote client, back to back over gRPC, around a worker that only records. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/channel.h"
#include "services/messages.h"
#include "services/record_codec.h"
#include "services/remote_worker.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

#define TASK "/job:worker/replica:0/task:3"

/* ---- a worker that records what it is asked and answers as told ---- */

typedef struct fake {
  weft_worker_client_t base;
  weft_mutex_t mu;
  weft_cond_t changed;
  weft_strbuf_t seen;    /* guarded by mu: the calls, as text */
  int num_waiting;       /* guarded by mu: receives that wait for their cancellation */
  weft_status_t *fail;   /* what calls end with, if not NULL */
  weft_tensor_t *tensor; /* what receives and runs give */
} fake_t;

static fake_t *fake_of(weft_worker_client_t *w) { return (fake_t *)(void *)w; }

static void note(weft_worker_client_t *w, weft_str_t text) {
  fake_t *f = fake_of(w);
  weft_mutex_lock(&f->mu);
  weft_strbuf_append(&f->seen, text);
  weft_strbuf_putc(&f->seen, '\n');
  weft_mutex_unlock(&f->mu);
}
/* Under the lock that saw() takes, so that the test may change it then: ThreadSanitizer sees no order in
 * gRPC. */
static weft_status_t *verdict(weft_worker_client_t *w) {
  fake_t *f = fake_of(w);
  weft_mutex_lock(&f->mu);
  weft_status_t *s = weft_status_clone(f->fail);
  weft_mutex_unlock(&f->mu);
  return s;
}

#define NOTE(w, ...)                                \
  do {                                              \
    weft_strbuf_t text_ = WEFT_STRBUF_INIT;         \
    weft_strbuf_printf(&text_, __VA_ARGS__);        \
    note(w, weft_str_of(text_.data, text_.length)); \
    weft_strbuf_deinit(&text_);                     \
  } while (0)

static void get_status(weft_worker_client_t *w, weft_canceller_t *c, weft_devices_fn *fn, void *arg) {
  (void)c;
  weft_device_list_t devices = {.arena = WEFT_ARENA_INIT};
  weft_device_attributes_t d = {.name = WEFT_STR(TASK "/device:CPU:0"),
                                .type = WEFT_STR("CPU"),
                                .description = WEFT_STR("a cpu"),
                                .memory_limit = 1 << 28,
                                .numa_node = 3,
                                .incarnation = 0xf2ac6e813e9f4e6du};
  weft_status_t *s = weft_device_list_add(&devices, &d);
  if (s == NULL) s = verdict(w);
  fn(arg, s, s == NULL ? &devices : NULL);
  weft_device_list_deinit(&devices);
}
static void create_session(weft_worker_client_t *w, const weft_worker_session_spec_t *spec, weft_done_fn *fn,
                           void *arg) {
  NOTE(w, "create %.*s isolate=%d master=%.*s incarnation=%lld def=%zu", WEFT_STR_ARGS(spec->session),
       spec->isolate, WEFT_STR_ARGS(spec->master_task), (long long)spec->master_incarnation,
       spec->server_def.length);
  fn(arg, verdict(w));
}
static void delete_session(weft_worker_client_t *w, weft_str_t session, weft_done_fn *fn, void *arg) {
  NOTE(w, "delete %.*s", WEFT_STR_ARGS(session));
  fn(arg, verdict(w));
}
static void register_graph(weft_worker_client_t *w, weft_str_t session, weft_graph_t *graph, bool keeps_graph,
                           weft_text_fn *fn, void *arg) {
  NOTE(w, "register %.*s nodes=%d keeps=%d", WEFT_STR_ARGS(session), graph->num_live, keeps_graph);
  weft_graph_destroy(graph);
  fn(arg, verdict(w), WEFT_STR("graph-1"));
}
static void deregister_graph(weft_worker_client_t *w, weft_str_t session, weft_str_t handle, weft_done_fn *fn,
                             void *arg) {
  NOTE(w, "deregister %.*s %.*s", WEFT_STR_ARGS(session), WEFT_STR_ARGS(handle));
  fn(arg, verdict(w));
}
static void run_graph(weft_worker_client_t *w, const weft_run_graph_t *run, weft_canceller_t *c,
                      weft_run_graph_fn *fn, void *arg) {
  (void)c;
  NOTE(w, "run %.*s %.*s step=%lld sends=%d first=%.*s recvs=%d partial=%d%d record=%d%d",
       WEFT_STR_ARGS(run->session), WEFT_STR_ARGS(run->graph_handle), (long long)run->step_id, run->num_sends,
       WEFT_STR_ARGS(run->num_sends > 0 ? run->sends[0].name : WEFT_STR("-")), run->num_recvs,
       run->is_partial, run->is_last_partial, run->record_timeline, run->record_partition_graphs);
  weft_status_t *s = verdict(w);
  if (s != NULL) {
    fn(arg, s, NULL);
    return;
  }
  weft_tensor_t *recvs[8];
  for (int i = 0; i < run->num_recvs; i++) /* each gets the tensor sent, or ours */
    recvs[i] = weft_tensor_retain(i < run->num_sends ? run->sends[i].tensor : fake_of(w)->tensor);
  weft_str_t graphs[] = {WEFT_STR("g0"), WEFT_STR("g1")};
  weft_run_graph_result_t result = {.recvs = recvs,
                                    .num_recvs = run->num_recvs,
                                    .step_stats = WEFT_STR("stats"),
                                    .partition_graphs = graphs,
                                    .num_partition_graphs = run->record_partition_graphs ? 2 : 0,
                                    .ends_itself = run->record_partition_graphs};
  fn(arg, NULL, &result);
}
static void cleanup_graph(weft_worker_client_t *w, int64_t step_id, weft_done_fn *fn, void *arg) {
  NOTE(w, "cleanup %lld", (long long)step_id);
  fn(arg, verdict(w));
}
static void cleanup_all(weft_worker_client_t *w, const weft_str_t *containers, int n, weft_done_fn *fn,
                        void *arg) {
  NOTE(w, "cleanup all %d %.*s", n, WEFT_STR_ARGS(n > 0 ? containers[n - 1] : WEFT_STR("-")));
  fn(arg, verdict(w));
}

typedef struct waiting {
  weft_recv_fn *fn;
  void *arg;
} waiting_t;
static void give_up(void *arg) {
  waiting_t *p = arg;
  p->fn(p->arg, WEFT_ERROR(CANCELLED, "RecvAsync is cancelled."), NULL, false);
  weft_free(p);
}
static void recv_tensor(weft_worker_client_t *w, int64_t step_id, weft_key_t key, weft_canceller_t *c,
                        weft_recv_fn *fn, void *arg) {
  NOTE(w, "recv %lld %.*s hash=%d", (long long)step_id, WEFT_STR_ARGS(key.text),
       key.hash == weft_str_hash(key.text));
  if (weft_str_is(key.text, "dead")) {
    fn(arg, NULL, NULL, true);
  } else if (weft_str_is(key.text, "never")) {
    waiting_t *p = weft_calloc(1, sizeof *p);
    *p = (waiting_t){fn, arg};
    uint64_t token;
    if (!weft_canceller_register(c, give_up, p, &token)) give_up(p);
    fake_t *f = fake_of(w);
    weft_mutex_lock(&f->mu);
    f->num_waiting++;
    weft_cond_broadcast(&f->changed);
    weft_mutex_unlock(&f->mu);
  } else {
    weft_status_t *s = verdict(w);
    fn(arg, s, s == NULL ? weft_tensor_retain(fake_of(w)->tensor) : NULL, false);
  }
}
static void logging(weft_worker_client_t *w, weft_str_t request, weft_text_fn *fn, void *arg) {
  NOTE(w, "logging %zu", request.length);
  fn(arg, verdict(w), WEFT_STR("\x0a\x00"));
}
static const char offered_bytes[] = "0123456789";
static void recv_buf(weft_worker_client_t *w, const weft_buf_request_t *r, weft_canceller_t *c,
                     weft_buf_fn *fn, void *arg) {
  (void)c;
  NOTE(w, "buf %lld %.*s %.*s>%.*s %lld of %llu", (long long)r->step_id, WEFT_STR_ARGS(r->key),
       WEFT_STR_ARGS(r->src_device), WEFT_STR_ARGS(r->dst_device), (long long)r->bytes,
       (unsigned long long)r->src_incarnation);
  weft_status_t *s = verdict(w);
  weft_buf_t buf = {.bytes = sizeof offered_bytes - 1, .data = offered_bytes};
  fn(arg, s, s == NULL ? &buf : NULL);
}
static void complete_group(weft_worker_client_t *w, const weft_group_request_t *r, weft_canceller_t *c,
                           weft_group_fn *fn, void *arg) {
  (void)c;
  NOTE(w, "group %lld %d rank %d %.*s %.*s %llu %lld ms on %.*s", (long long)r->group_key, r->group_size,
       r->rank, WEFT_STR_ARGS(r->device_type), WEFT_STR_ARGS(r->device), (unsigned long long)r->incarnation,
       (long long)r->timeout_ms, WEFT_STR_ARGS(r->host));
  weft_status_t *s = verdict(w);
  weft_group_t *g = s == NULL ? weft_group_new(r->group_key, 2) : NULL;
  if (g != NULL) {
    g->members[0] = (weft_group_member_t){WEFT_STR("/job:w/replica:0/task:1/device:CPU:0"),
                                          WEFT_STR("/job:w/replica:0/task:1"), WEFT_STR("here"), 7};
    g->members[1] = (weft_group_member_t){WEFT_STR("/job:w/replica:0/task:0/device:CPU:0"),
                                          WEFT_STR("/job:w/replica:0/task:0"), WEFT_STR(""), UINT64_MAX};
    g->near = (weft_link_t){1e-5, 2e-10};
  }
  fn(arg, s, g);
}
static void complete_instance(weft_worker_client_t *w, const weft_instance_request_t *r, weft_canceller_t *c,
                              weft_instance_fn *fn, void *arg) {
  (void)c;
  NOTE(w,
       "instance %lld/%lld step %lld rank %d of %d %.*s %.*s kind %d type %d rank %d reduction %d%s%s by %d "
       "root %d %llx %lld ms",
       (long long)r->group_key, (long long)r->instance_key, (long long)r->step_id, r->rank, r->group_size,
       WEFT_STR_ARGS(r->name), WEFT_STR_ARGS(r->device), (int)r->kind, r->dtype, r->shape.rank,
       (int)r->reduction, r->is_mean ? " mean" : "", r->is_source ? " source" : "", (int)r->algorithm,
       r->root, (unsigned long long)r->details, (long long)r->timeout_ms);
  fn(arg, verdict(w), 3);
}
static void get_step_sequence(weft_worker_client_t *w, const int64_t *keys, int n, weft_step_ids_fn *fn,
                              void *arg) {
  int64_t ids[8] = {0};
  NOTE(w, "sequence of %d", n);
  for (int i = 0; i < n && i < 8; i++) ids[i] = keys[i] * 10;
  fn(arg, verdict(w), ids);
}
static void record(weft_worker_client_t *w, const weft_record_request_t *r, weft_canceller_t *c,
                   weft_record_fn *fn, void *arg) {
  NOTE(w, "record '%.*s' first=%d last=%d wait=%lld peaks=%d cancellable=%d", WEFT_STR_ARGS(r->observer),
       r->is_first, r->is_last, (long long)r->wait_ms, r->measures_peaks, c != NULL);
  const weft_step_record_t records[] = {{.step_id = -5,
                                         .start_micros = 10,
                                         .end_micros = 12,
                                         .calls = 3,
                                         .code = WEFT_ABORTED,
                                         .message = WEFT_STR("\xff is not UTF-8"),
                                         .session = WEFT_STR("session"),
                                         .graph = WEFT_STR("graph"),
                                         .step_stats = WEFT_STR("stats")},
                                        {.step_id = INT64_MAX, .message = WEFT_STR("")}};
  const int64_t ended[] = {1, -2}, partial[] = {3}, running[] = {4, 5, 6};
  weft_record_answer_t a = {.records = records,
                            .num_records = 2,
                            .ended_steps = ended,
                            .num_ended_steps = 2,
                            .partial_steps = partial,
                            .num_partial_steps = 1,
                            .running_steps = running,
                            .num_running_steps = 3,
                            .has_more = true,
                            .num_dropped = 9,
                            .clock_micros = 1234567,
                            .peak_flops = 1.5e11,
                            .peak_bytes = 1e10};
  weft_status_t *s = verdict(w);
  fn(arg, s, s == NULL ? &a : NULL);
}
static void destroy(weft_worker_client_t *w) { (void)w; }

static const weft_worker_client_ops_t fake_ops = {.get_status = get_status,
                                                  .create_session = create_session,
                                                  .delete_session = delete_session,
                                                  .register_graph = register_graph,
                                                  .deregister_graph = deregister_graph,
                                                  .run_graph = run_graph,
                                                  .cleanup_graph = cleanup_graph,
                                                  .cleanup_all = cleanup_all,
                                                  .recv_tensor = recv_tensor,
                                                  .logging = logging,
                                                  .recv_buf = recv_buf,
                                                  .complete_group = complete_group,
                                                  .complete_instance = complete_instance,
                                                  .get_step_sequence = get_step_sequence,
                                                  .record = record,
                                                  .destroy = destroy};

/* ---- the two ends ---- */

typedef struct fixture {
  fake_t fake;
  weft_rpc_client_t *rpc;
  weft_rpc_server_t *server;
  weft_worker_service_t *service;
  weft_rpc_channel_t *channel;
  weft_worker_client_t *remote;
  /* the last answer; guarded by mu */
  weft_mutex_t mu;
  weft_cond_t changed;
  int answers;
  weft_status_t *status;
  weft_strbuf_t text;
  weft_tensor_t *tensors[8];
  int num_tensors;
  bool is_dead;
} fixture_t;

static void setup(fixture_t *f) {
  memset(f, 0, sizeof *f);
  f->fake.base.ops = &fake_ops;
  atomic_init(&f->fake.base.refs, 1);
  weft_mutex_init(&f->fake.mu);
  weft_cond_init(&f->fake.changed);
  weft_mutex_init(&f->mu);
  weft_cond_init(&f->changed);
  float value = 2.5f;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_F32, &value, &f->fake.tensor));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &f->rpc));
  weft_rpc_server_options_t o = {.host = "127.0.0.1", .client = f->rpc};
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_create(&o, &f->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_worker_service_create(&f->fake.base, f->server, &f->service));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_start(f->server));
  char target[64];
  snprintf(target, sizeof target, "127.0.0.1:%d", weft_rpc_server_port(f->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(f->rpc, weft_str(target), &f->channel));
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_worker_client_create(f->channel, WEFT_STR(TASK), &f->remote));
}

/* What was changed in the fake worker after the server's start is seen by its threads: they take mu first. */
static void publish(fixture_t *f) {
  weft_mutex_lock(&f->fake.mu);
  weft_mutex_unlock(&f->fake.mu);
}

static void forget(fixture_t *f) {
  weft_status_free(f->status);
  f->status = NULL;
  f->text.length = 0;
  for (int i = 0; i < f->num_tensors; i++) weft_tensor_release(f->tensors[i]);
  f->num_tensors = 0;
  f->is_dead = false;
}

static void teardown(fixture_t *f) {
  forget(f);
  weft_worker_client_release(f->remote);
  weft_rpc_channel_release(f->channel);
  weft_rpc_server_destroy(f->server);
  weft_worker_service_destroy(f->service);
  weft_rpc_client_destroy(f->rpc);
  weft_tensor_release(f->fake.tensor);
  weft_status_free(f->fake.fail);
  weft_strbuf_deinit(&f->fake.seen);
  weft_strbuf_deinit(&f->text);
  weft_mutex_deinit(&f->mu);
  weft_cond_deinit(&f->changed);
  weft_mutex_deinit(&f->fake.mu);
  weft_cond_deinit(&f->fake.changed);
}

static void answered_locked(fixture_t *f, weft_status_t *status) WEFT_REQUIRES(f->mu) {
  f->status = status;
  f->answers++;
  weft_cond_broadcast(&f->changed);
}
/* Waits for one answer more than there were, and returns its status (lent). */
static const weft_status_t *wait_answer(fixture_t *f) {
  int64_t deadline = weft_clock_ns() + 20000000000;
  weft_mutex_lock(&f->mu);
  while (f->answers == 0 && weft_cond_wait_until(&f->changed, &f->mu, deadline)) {
  }
  CU_ASSERT_EQUAL(f->answers, 1);
  f->answers = 0;
  weft_mutex_unlock(&f->mu);
  return f->status;
}

static void on_done(void *arg, weft_status_t *status) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}
static void on_text(void *arg, weft_status_t *status, weft_str_t text) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  weft_strbuf_append(&f->text, text);
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}
static void on_devices(void *arg, weft_status_t *status, const weft_device_list_t *devices) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  for (int i = 0; devices != NULL && i < devices->n; i++) {
    const weft_device_attributes_t *d = &devices->devices[i];
    weft_strbuf_printf(&f->text, "%.*s %.*s %.*s %lld %d %llx", WEFT_STR_ARGS(d->name),
                       WEFT_STR_ARGS(d->type), WEFT_STR_ARGS(d->description), (long long)d->memory_limit,
                       d->numa_node, (unsigned long long)d->incarnation);
  }
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}
static void on_run(void *arg, weft_status_t *status, weft_run_graph_result_t *result) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  for (int i = 0; result != NULL && i < result->num_recvs; i++)
    f->tensors[f->num_tensors++] = result->recvs[i];
  if (result != NULL)
    weft_strbuf_printf(&f->text, "%.*s %d %d", WEFT_STR_ARGS(result->step_stats),
                       result->num_partition_graphs, result->ends_itself);
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}
static void on_recv(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  if (tensor != NULL) f->tensors[f->num_tensors++] = tensor;
  f->is_dead = is_dead;
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}
static bool saw(fixture_t *f, const char *line) {
  weft_mutex_lock(&f->fake.mu);
  bool found = f->fake.seen.data != NULL && strstr(f->fake.seen.data, line) != NULL;
  if (!found) fprintf(stderr, "not '%s' in:\n%s", line, f->fake.seen.data == NULL ? "" : f->fake.seen.data);
  weft_mutex_unlock(&f->fake.mu);
  return found;
}

static float value_of(const weft_tensor_t *t) {
  return t->dtype == WEFT_F32 && t->count == 1 ? *(const float *)t->data : 0;
}

/* ---- tests ---- */

static void devices_come_through(void) {
  fixture_t f;
  setup(&f);
  f.remote->ops->get_status(f.remote, NULL, on_devices, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  CU_ASSERT_STRING_EQUAL(f.text.data, TASK "/device:CPU:0 CPU a cpu 268435456 3 f2ac6e813e9f4e6d");
  teardown(&f);
}

static void sessions_and_cleanups_come_through(void) {
  fixture_t f;
  setup(&f);
  weft_worker_client_t *w = f.remote;
  weft_worker_session_spec_t spec = {.session = WEFT_STR("abc"),
                                     .isolate = true,
                                     .master_task = WEFT_STR("/job:m"),
                                     .master_incarnation = -3,
                                     .server_def = WEFT_STR("\x0a\x00")};
  weft_str_t containers[] = {WEFT_STR("one"), WEFT_STR("two")};
  w->ops->create_session(w, &spec, on_done, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  w->ops->delete_session(w, WEFT_STR("abc"), on_done, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  w->ops->deregister_graph(w, WEFT_STR("abc"), WEFT_STR("g"), on_done, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  w->ops->cleanup_graph(w, INT64_MAX, on_done, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  w->ops->cleanup_all(w, containers, 2, on_done, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  w->ops->cleanup_all(w, NULL, 0, on_done, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  w->ops->logging(w, WEFT_STR("\x08\x01"), on_text, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  CU_ASSERT_EQUAL(f.text.length, 2);
  CU_ASSERT_TRUE(saw(&f,
                     "create abc isolate=1 master=/job:m incarnation=-3 def=2\ndelete abc\nderegister abc g\n"
                     "cleanup 9223372036854775807\ncleanup all 2 two\ncleanup all 0 -\nlogging 2\n"));
  teardown(&f);
}

static void graphs_come_through(void) {
  fixture_t f;
  setup(&f);
  weft_graph_t *g = NULL;
  weft_node_t *n = NULL;
  weft_node_spec_t spec = {
      .name = WEFT_STR("nothing"), .op = WEFT_STR("NoOp"), .device = WEFT_STR(TASK "/device:CPU:0")};
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_create(&g));
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_add(g, &spec, &n));
  f.remote->ops->register_graph(f.remote, WEFT_STR("abc"), g, true, on_text, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  CU_ASSERT_STRING_EQUAL(f.text.data, "graph-1");
  CU_ASSERT_TRUE(saw(&f, "register abc nodes=1 keeps=1\n"));
  teardown(&f);
}

static weft_run_graph_t sample_run(const weft_named_tensor_t *sends, const weft_str_t *keys) {
  return (weft_run_graph_t){.session = WEFT_STR("abc"),
                            .graph_handle = WEFT_STR("g"),
                            .step_id = 77,
                            .request_id = 5,
                            .sends = sends,
                            .num_sends = 2,
                            .recv_keys = keys,
                            .num_recvs = 3,
                            .is_last_partial = true,
                            .record_partition_graphs = true};
}

static void a_run_carries_tensors_both_ways(void) {
  fixture_t f;
  setup(&f);
  weft_tensor_t *big = NULL, *text = NULL;
  weft_shape_t shape = weft_shape_matrix(512, 1024);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &shape, NULL, &big));
  for (int64_t i = 0; i < big->count; i++) ((int32_t *)big->data)[i] = (int32_t)i;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_string(WEFT_STR("a string"), &text));
  weft_named_tensor_t sends[] = {{WEFT_STR("k0"), big}, {WEFT_STR("k1"), text}};
  weft_str_t keys[] = {WEFT_STR("r0"), WEFT_STR("r1"), WEFT_STR("r2")};
  weft_run_graph_t run = sample_run(sends, keys);
  f.remote->ops->run_graph(f.remote, &run, NULL, on_run, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  CU_ASSERT_TRUE(saw(&f, "run abc g step=77 sends=2 first=k0 recvs=3 partial=01 record=01\n"));
  CU_ASSERT_STRING_EQUAL(f.text.data, "stats 2 1");
  CU_ASSERT_EQUAL_FATAL(f.num_tensors, 3);
  CU_ASSERT_TRUE(weft_shape_eq(&f.tensors[0]->shape, &shape));
  CU_ASSERT_EQUAL(memcmp(f.tensors[0]->data, big->data, big->bytes), 0);
  CU_ASSERT_TRUE(weft_str_is(weft_tensor_str_at(f.tensors[1], 0), "a string"));
  CU_ASSERT_EQUAL(value_of(f.tensors[2]), 2.5f);
  weft_tensor_release(big);
  weft_tensor_release(text);
  teardown(&f);
}

static void a_run_seen_twice_is_aborted(void) {
  fixture_t f;
  setup(&f);
  weft_named_tensor_t sends[] = {{WEFT_STR("k0"), f.fake.tensor}, {WEFT_STR("k1"), f.fake.tensor}};
  weft_str_t keys[] = {WEFT_STR("r0"), WEFT_STR("r1"), WEFT_STR("r2")};
  weft_run_graph_t run = sample_run(sends, keys);
  f.remote->ops->run_graph(f.remote, &run, NULL, on_run, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  forget(&f);
  f.remote->ops->run_graph(f.remote, &run, NULL, on_run, &f);
  const weft_status_t *s = wait_answer(&f);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ABORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "The same RunGraph"));
  teardown(&f);
}

static void a_failed_run_keeps_its_whole_text(void) {
  fixture_t f;
  setup(&f);
  char text[8000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  f.fake.fail = WEFT_ERROR(UNAVAILABLE, "%s", text);
  publish(&f);
  weft_str_t keys[] = {WEFT_STR("r0"), WEFT_STR("r1"), WEFT_STR("r2")};
  weft_named_tensor_t sends[] = {{WEFT_STR("k0"), f.fake.tensor}, {WEFT_STR("k1"), f.fake.tensor}};
  weft_run_graph_t run = sample_run(sends, keys);
  f.remote->ops->run_graph(f.remote, &run, NULL, on_run, &f);
  const weft_status_t *s = wait_answer(&f);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), text); /* in the body: not cut */
  teardown(&f);
}

static void tensors_dead_and_alive_are_received(void) {
  fixture_t f;
  setup(&f);
  weft_worker_client_t *w = f.remote;
  w->ops->recv_tensor(w, 8, weft_key(WEFT_STR("key")), NULL, on_recv, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  CU_ASSERT_EQUAL_FATAL(f.num_tensors, 1);
  CU_ASSERT_EQUAL(value_of(f.tensors[0]), 2.5f);
  CU_ASSERT_FALSE(f.is_dead);
  CU_ASSERT_TRUE(saw(&f, "recv 8 key hash=1\n"));
  forget(&f);
  w->ops->recv_tensor(w, 8, weft_key(WEFT_STR("dead")), NULL, on_recv, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  CU_ASSERT_TRUE(f.is_dead);
  CU_ASSERT_EQUAL(f.num_tensors, 0);
  teardown(&f);
}

static void a_large_tensor_is_received_whole(void) {
  fixture_t f;
  setup(&f);
  weft_tensor_release(f.fake.tensor);
  weft_shape_t shape = weft_shape_vector((16 << 20) + 3);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_U8, &shape, NULL, &f.fake.tensor));
  uint8_t *bytes = f.fake.tensor->data;
  for (int64_t i = 0; i < f.fake.tensor->count; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 11);
  publish(&f);
  for (int round = 0; round < 3; round++) {
    f.remote->ops->recv_tensor(f.remote, 8, weft_key(WEFT_STR("key")), NULL, on_recv, &f);
    CU_ASSERT_PTR_NULL(wait_answer(&f));
    CU_ASSERT_EQUAL_FATAL(f.num_tensors, 1);
    CU_ASSERT_TRUE(weft_shape_eq(&f.tensors[0]->shape, &shape));
    CU_ASSERT_EQUAL(memcmp(f.tensors[0]->data, bytes, f.fake.tensor->bytes), 0);
    forget(&f);
  }
  teardown(&f);
}

static void a_receive_is_cancelled_on_both_ends(void) {
  fixture_t f;
  setup(&f);
  weft_canceller_t *c = weft_canceller_create(NULL);
  f.remote->ops->recv_tensor(f.remote, 8, weft_key(WEFT_STR("never")), c, on_recv, &f);
  weft_mutex_lock(&f.fake.mu);
  while (f.fake.num_waiting == 0) weft_cond_wait(&f.fake.changed, &f.fake.mu);
  weft_mutex_unlock(&f.fake.mu);
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(weft_status_code(wait_answer(&f)), WEFT_CANCELLED);
  weft_canceller_release(c);
  teardown(&f); /* waits for the worker's own end */
}

static void a_dead_peer_is_named(void) {
  fixture_t f;
  setup(&f);
  weft_rpc_server_stop(f.server, 0);
  f.remote->ops->cleanup_graph(f.remote, 1, on_done, &f);
  const weft_status_t *s = wait_answer(&f);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), TASK));
  teardown(&f);
}

static weft_status_t *call_bytes(fixture_t *f, const char *path, weft_str_t bytes, weft_message_t **out) {
  weft_message_t *m = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_message_create(&m));
  CU_ASSERT_PTR_NULL_FATAL(weft_message_append(m, bytes));
  *out = NULL;
  return weft_rpc_call_sync(f->channel, path, m, NULL, out);
}

static void bytes_of_another_encoder_are_understood(void) {
  fixture_t f;
  setup(&f);
  weft_message_t *m = NULL;
  /* A RunGraphRequest as protobuf's own library writes it. */
  weft_status_t *s =
      call_bytes(&f, "/tensorflow.WorkerService/RunGraph",
                 WEFT_STR("\x0a\x02g1\x10\x94\xb4\xe4\xf4\xcb\x03\x1a\x10\x0a\x02k0\x12\x0a\x08\x01\x12"
                          "\x00\x22\x04\x00\x00\x80\x3f\x22\x02k1\x22\x02k2\x2a\x02\x18\x01\x30\x01\x42"
                          "\x01s\x48\x01\x50\x01\x58\x63"),
                 &m);
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_TRUE(saw(&f, "run s g1 step=123456789012 sends=1 first=k0 recvs=2 partial=10 record=10\n"));
  weft_str_t bytes;
  CU_ASSERT_PTR_NULL(weft_message_flatten(m, &bytes));
  /* recv k1 = the 1.0 sent, recv k2 = 2.5, step_stats "stats" */
  CU_ASSERT_TRUE(weft_str_eq(
      bytes, WEFT_STR("\x0a\x10\x0a\x02k1\x12\x0a\x08\x01\x12\x00\x22\x04\x00\x00\x80\x3f\x0a\x10"
                      "\x0a\x02k2\x12\x0a\x08\x01\x12\x00\x22\x04\x00\x00\x20\x40\x12\x05stats")));
  weft_message_destroy(m);
  teardown(&f);
}

static void hostile_bytes_are_refused(void) {
  static const struct {
    const char *path, *culprit;
    weft_str_t bytes;
  } cases[] = {
#define CASE(method, culprit, literal)                                             \
  {                                                                                \
    "/tensorflow.WorkerService/" method, culprit, { literal, sizeof(literal) - 1 } \
  }
      CASE("RunGraph", "RunGraphRequest", "\x0a\xff"),
      CASE("RunGraph", "RunGraphRequest.recv_key", "\x22\x02\xff\xff"),
      CASE("RunGraph", "send value 0", "\x1a\x06\x0a\x01k\x12\x01\x08"),
      CASE("RecvTensor", "RecvTensorRequest", "\x08"),
      CASE("RecvTensor", "RecvTensorRequest.rendezvous_key", "\x12\x01\x80"),
      CASE("RegisterGraph", "RegisterGraphRequest", "\x12\x7f\x01"),
      CASE("RegisterGraph", "", "\x12\x02\x0a\x7f"),
      CASE("CreateWorkerSession", "CreateWorkerSessionRequest", "\x0f"),
      CASE("CleanupAll", "CleanupAllRequest.container", "\x0a\x01\xc0"),
      CASE("GetStatus", "", "\x07"),
      {"/weft.WorkerService/Record", "RecordRequest.observer", {"\x0a\x01\xff", 3}},
      {"/weft.WorkerService/Record", "RecordRequest", {"\x20\xff", 2}},
  };
  fixture_t f;
  setup(&f);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_message_t *m = NULL;
    weft_status_t *s = call_bytes(&f, cases[i].path, cases[i].bytes, &m);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), cases[i].culprit));
    weft_status_free(s);
    weft_message_destroy(m);
  }
  f.remote->ops->get_status(f.remote, NULL, on_devices, &f); /* still there */
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  publish(&f);
  CU_ASSERT_EQUAL(f.fake.seen.length, 0); /* and the worker saw nothing of it */
  teardown(&f);
}

/* ---- observers ---- */

static void on_record(void *arg, weft_status_t *status, const weft_record_answer_t *a) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  for (int i = 0; a != NULL && i < a->num_records; i++) {
    const weft_step_record_t *r = &a->records[i];
    weft_strbuf_printf(&f->text, "%lld %lld-%lld calls %lld %s '%.*s' %.*s %.*s %.*s; ",
                       (long long)r->step_id, (long long)r->start_micros, (long long)r->end_micros,
                       (long long)r->calls, weft_code_name(r->code), WEFT_STR_ARGS(r->message),
                       WEFT_STR_ARGS(r->session), WEFT_STR_ARGS(r->graph), WEFT_STR_ARGS(r->step_stats));
  }
  if (a != NULL) {
    weft_strbuf_printf(&f->text, "%d ended %lld %lld, %d partial %lld, %d running %lld, ", a->num_ended_steps,
                       (long long)a->ended_steps[0], (long long)a->ended_steps[1], a->num_partial_steps,
                       (long long)a->partial_steps[0], a->num_running_steps, (long long)a->running_steps[2]);
    weft_strbuf_printf(&f->text, "more %d, dropped %lld, at %lld, %g %g", a->has_more,
                       (long long)a->num_dropped, (long long)a->clock_micros, a->peak_flops, a->peak_bytes);
  }
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}

static void records_come_through(void) {
  fixture_t f;
  setup(&f);
  const weft_record_request_t first = {.observer = WEFT_STR("me"), .is_first = true, .measures_peaks = true};
  f.remote->ops->record(f.remote, &first, NULL, on_record, &f);
  CU_ASSERT_PTR_NULL(wait_answer(&f));
  CU_ASSERT_TRUE(saw(&f, "record 'me' first=1 last=0 wait=0 peaks=1 cancellable=1\n"));
  CU_ASSERT_TRUE(weft_str_is(
      weft_str_of(f.text.data, f.text.length),
      "-5 10-12 calls 3 ABORTED '\xff is not UTF-8' session graph stats; "
      "9223372036854775807 0-0 calls 0 OK ''   ; 2 ended 1 -2, 1 partial 3, 3 running 6, more 1, dropped 9, "
      "at 1234567, 1.5e+11 1e+10"));
  forget(&f);
  const weft_record_request_t last = {.observer = WEFT_STR("me"), .is_last = true, .wait_ms = 7};
  f.fake.fail = WEFT_ERROR(NOT_FOUND, "no such recording");
  publish(&f);
  f.remote->ops->record(f.remote, &last, NULL, on_record, &f);
  const weft_status_t *s = wait_answer(&f);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "no such recording"));
  CU_ASSERT_TRUE(saw(&f, "record 'me' first=0 last=1 wait=7 peaks=0 cancellable=1\n"));
  teardown(&f);
}

/* A peer may send any bits as a rate, and any number as a code. */
static void odd_answers_of_a_peer_are_made_harmless(void) {
  static const struct {
    weft_str_t bytes;
    bool is_refused;
    weft_code_t code;
  } cases[] = {
      {{"\x31\x00\x00\x00\x00\x00\x00\xf8\x7f", 9}, false, WEFT_OK}, /* NaN */
      {{"\x31\x00\x00\x00\x00\x00\x00\xf0\xff", 9}, false, WEFT_OK}, /* -inf */
      {{"\x0a\x02\x28\x63", 4}, false, WEFT_UNKNOWN},                /* code 99 */
      {{"\x0a\x01\x28", 3}, true, WEFT_OK},                          /* cut */
      {{"\x12\x01\xff", 3}, true, WEFT_OK},                          /* a packed number that is cut */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_arena_t arena = WEFT_ARENA_INIT;
    weft_record_response_msg_t m;
    weft_record_answer_t a = {.num_records = 0};
    memset(&m, 0, sizeof m);
    weft_status_t *s = weft_fields_decode_bytes(&weft_record_response_type, cases[i].bytes, &arena, &m);
    if (s == NULL) s = weft_record_answer_from_msg(&m, &arena, &a);
    CU_ASSERT_EQUAL(weft_status_code(s), cases[i].is_refused ? WEFT_INVALID_ARGUMENT : WEFT_OK);
    CU_ASSERT_EQUAL(a.peak_flops, 0);
    if (a.num_records > 0) CU_ASSERT_EQUAL(a.records[0].code, cases[i].code);
    weft_status_free(s);
    weft_arena_deinit(&arena);
  }
}

/* ---- collectives ---- */

static void on_buf(void *arg, weft_status_t *status, const weft_buf_t *buf) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  char bytes[32];
  if (buf != NULL && buf->bytes <= sizeof bytes) { /* in pieces, as blocks are read */
    for (size_t at = 0; at < buf->bytes; at += 3)
      buf->read(buf, at, bytes + at, buf->bytes - at < 3 ? buf->bytes - at : 3);
    weft_strbuf_append(&f->text, weft_str_of(bytes, buf->bytes));
  }
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}
static void on_group(void *arg, weft_status_t *status, weft_group_t *group) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  for (int i = 0; group != NULL && i < group->size; i++) {
    const weft_group_member_t *m = &group->members[i];
    weft_strbuf_printf(&f->text, "%.*s in %.*s on '%.*s' %llu; ", WEFT_STR_ARGS(m->device),
                       WEFT_STR_ARGS(m->task), WEFT_STR_ARGS(m->host), (unsigned long long)m->incarnation);
  }
  if (group != NULL)
    weft_strbuf_printf(&f->text, "%lld %g %g", (long long)group->key, group->near.alpha_s,
                       group->near.byte_s);
  weft_group_release(group);
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}
static void on_instance(void *arg, weft_status_t *status, int source_rank) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  weft_strbuf_printf(&f->text, "source %d", source_rank);
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}
static void on_step_ids(void *arg, weft_status_t *status, const int64_t *ids) {
  fixture_t *f = arg;
  weft_mutex_lock(&f->mu);
  if (status == NULL) weft_strbuf_printf(&f->text, "%lld %lld", (long long)ids[0], (long long)ids[1]);
  answered_locked(f, status);
  weft_mutex_unlock(&f->mu);
}

static void check_text(fixture_t *f, const char *text, const char *seen) {
  CU_ASSERT_PTR_NULL(wait_answer(f));
  if (!weft_str_is(weft_str_of(f->text.data, f->text.length), text)) printf("got %s\n", f->text.data);
  CU_ASSERT_TRUE(weft_str_is(weft_str_of(f->text.data, f->text.length), text));
  CU_ASSERT_TRUE(saw(f, seen));
  forget(f);
}

static void what_collectives_ask_comes_through(void) {
  fixture_t f;
  setup(&f);
  weft_buf_request_t buf = {.step_id = 5,
                            .request_id = 77,
                            .key = WEFT_STR("k/0"),
                            .src_device = WEFT_STR("a"),
                            .dst_device = WEFT_STR("b"),
                            .bytes = 10,
                            .src_incarnation = UINT64_MAX};
  f.remote->ops->recv_buf(f.remote, &buf, NULL, on_buf, &f);
  check_text(&f, "0123456789", "buf 5 k/0 a>b 10 of 18446744073709551615");
  weft_group_request_t group = {.group_key = -4,
                                .group_size = 2,
                                .rank = -1,
                                .device_type = WEFT_STR("CPU"),
                                .device = WEFT_STR("/job:w/replica:0/task:1/device:CPU:0"),
                                .incarnation = 9,
                                .timeout_ms = 30,
                                .host = WEFT_STR("here")};
  f.remote->ops->complete_group(f.remote, &group, NULL, on_group, &f);
  check_text(&f,
             "/job:w/replica:0/task:1/device:CPU:0 in /job:w/replica:0/task:1 on 'here' 7; "
             "/job:w/replica:0/task:0/device:CPU:0 in /job:w/replica:0/task:0 on '' 18446744073709551615; -4 "
             "1e-05 2e-10",
             "group -4 2 rank -1 CPU /job:w/replica:0/task:1/device:CPU:0 9 30 ms on here");
  weft_instance_request_t instance = {.group_key = 1,
                                      .instance_key = 2,
                                      .step_id = 3,
                                      .rank = 4,
                                      .group_size = 5,
                                      .name = WEFT_STR("n"),
                                      .device = WEFT_STR("/job:w/replica:0/task:1/device:CPU:0"),
                                      .kind = WEFT_GATHER,
                                      .dtype = WEFT_F32,
                                      .shape = {.rank = 2, .dims = {2, 3}},
                                      .reduction = WEFT_REDUCE_MAX,
                                      .is_mean = true,
                                      .is_source = true,
                                      .algorithm = WEFT_ALGORITHM_TREE,
                                      .root = -1,
                                      .details = 0xabc,
                                      .timeout_ms = 6};
  f.remote->ops->complete_instance(f.remote, &instance, NULL, on_instance, &f);
  check_text(&f, "source 3",
             "instance 1/2 step 3 rank 4 of 5 n /job:w/replica:0/task:1/device:CPU:0 kind 2 type 1 rank 2 "
             "reduction 3 mean source "
             "by 2 root -1 abc 6 ms");
  int64_t keys[2] = {4, -5};
  f.remote->ops->get_step_sequence(f.remote, keys, 2, on_step_ids, &f);
  check_text(&f, "40 -50", "sequence of 2");
  teardown(&f);
}

static void failed_questions_of_collectives_name_the_peer(void) {
  fixture_t f;
  setup(&f);
  f.fake.fail = WEFT_ERROR(UNAVAILABLE, "went away");
  publish(&f);
  weft_group_request_t group = {.group_key = 1, .group_size = 1, .device = WEFT_STR("d")};
  f.remote->ops->complete_group(f.remote, &group, NULL, on_group, &f);
  const weft_status_t *s = wait_answer(&f);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), TASK));
  teardown(&f);
}

/* What TensorFlow's workers send and expect: chunks of 4 bytes, ranks unknown. */
static void collectives_of_another_make_are_understood(void) {
  fixture_t f;
  setup(&f);
  weft_message_t *m = NULL;
  weft_str_t bytes;
  /* RecvBufRequest {step_id: 5, key: "k", src_device: "a", dst_device: "b", request_id: 1} */
  weft_status_t *s = call_bytes(&f, "/tensorflow.WorkerService/RecvBuf",
                                WEFT_STR("\x08\x05\x12\x01k\x42\x01"
                                         "a\x4a\x01"
                                         "b\x50\x01"),
                                &m);
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_PTR_NULL_FATAL(weft_message_flatten(m, &bytes));
  bool found = false;
  for (size_t i = 0; i + 14 <= bytes.length; i++)
    found = found || memcmp(bytes.data + i,
                            "\x12\x0c\x0a\x0a"
                            "0123456789",
                            14) == 0;
  CU_ASSERT_TRUE(found);
  weft_message_destroy(m);
  m = NULL;
  /* CompleteInstanceRequest {name: "n", type: 1, group_key: 1, group_size: 2, instance_key: 3, device: "d",
   * is_source: true} */
  s = call_bytes(&f, "/tensorflow.WorkerService/CompleteInstance",
                 WEFT_STR("\x0a\x01n\x10\x01\x28\x01\x30\x02\x38\x03\x52\x01"
                          "d\x58\x01"),
                 &m);
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_PTR_NULL_FATAL(weft_message_flatten(m, &bytes));
  CU_ASSERT_TRUE(weft_str_is(bytes, "\x08\x03\x10\x03"));
  weft_message_destroy(m);
  CU_ASSERT_TRUE(saw(&f, "rank -1 of 2 n d kind 0 type 0"));
  teardown(&f);
}

static void the_rest_is_served(void) {
  static const struct {
    const char *path;
    weft_code_t code;
  } cases[] = {
      {"/tensorflow.WorkerService/Tracing", WEFT_OK},
      {"/tensorflow.WorkerService/MarkRecvFinished", WEFT_OK},
  };
  fixture_t f;
  setup(&f);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_message_t *m = NULL;
    weft_status_t *s = call_bytes(&f, cases[i].path, WEFT_STR(""), &m);
    CU_ASSERT_EQUAL(weft_status_code(s), cases[i].code);
    weft_status_free(s);
    weft_message_destroy(m);
  }
  teardown(&f);
}

static const CU_TestInfo tests[] = {
    {"devices come through", devices_come_through},
    {"sessions and cleanups come through", sessions_and_cleanups_come_through},
    {"graphs come through", graphs_come_through},
    {"a run carries tensors both ways", a_run_carries_tensors_both_ways},
    {"a run seen twice is aborted", a_run_seen_twice_is_aborted},
    {"a failed run keeps its whole text", a_failed_run_keeps_its_whole_text},
    {"tensors dead and alive are received", tensors_dead_and_alive_are_received},
    {"a large tensor is received whole", a_large_tensor_is_received_whole},
    {"a receive is cancelled on both ends", a_receive_is_cancelled_on_both_ends},
    {"a dead peer is named", a_dead_peer_is_named},
    {"bytes of another encoder are understood", bytes_of_another_encoder_are_understood},
    {"hostile bytes are refused", hostile_bytes_are_refused},
    {"records come through", records_come_through},
    {"odd answers of a peer are made harmless", odd_answers_of_a_peer_are_made_harmless},
    {"what collectives ask comes through", what_collectives_ask_comes_through},
    {"failed questions of collectives name the peer", failed_questions_of_collectives_name_the_peer},
    {"collectives of another make are understood", collectives_of_another_make_are_understood},
    {"the rest is served", the_rest_is_served},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("worker_service", tests); }
