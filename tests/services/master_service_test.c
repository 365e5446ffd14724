/* MasterService and its remote client, back to back over gRPC, around a master that only records. */
#define _GNU_SOURCE /* memmem */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "services/messages.h"
#include "services/remote_master.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

/* ---- a master that records what it is asked and answers as told ---- */

typedef struct fake {
  weft_master_client_t base;
  weft_mutex_t mu;
  weft_strbuf_t seen;  /* guarded by mu */
  weft_status_t *fail; /* guarded by mu; what calls end with, if not NULL */
} fake_t;

static fake_t *fake_of(weft_master_client_t *m) { return (fake_t *)(void *)m; }

static weft_status_t *note(weft_master_client_t *m, const weft_strbuf_t *text) {
  fake_t *f = fake_of(m);
  weft_mutex_lock(&f->mu);
  weft_strbuf_append(&f->seen, weft_str_of(text->data, text->length));
  weft_strbuf_putc(&f->seen, '\n');
  weft_status_t *s = weft_status_clone(f->fail);
  weft_mutex_unlock(&f->mu);
  return s;
}
static void names(weft_strbuf_t *b, const char *label, const weft_str_t *items, int n) {
  weft_strbuf_printf(b, " %s=", label);
  for (int i = 0; i < n; i++) weft_strbuf_printf(b, "%s%.*s", i == 0 ? "" : ",", WEFT_STR_ARGS(items[i]));
}
static void options_text(weft_strbuf_t *b, const weft_step_options_t *o) {
  weft_strbuf_printf(b, " options=%d,%" PRId64 ",%d", o->trace_level, o->timeout_ms,
                     o->output_partition_graphs);
}

static void create_session(weft_master_client_t *m, const weft_create_session_t *r, weft_canceller_t *c,
                           weft_session_fn *fn, void *arg) {
  (void)c;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "create graph=%zu config=%zu target=%.*s", r->graph_def.length, r->config.length,
                     WEFT_STR_ARGS(r->target));
  fn(arg, note(m, &b), WEFT_STR("0123456789abcdef"), 3);
  weft_strbuf_deinit(&b);
}
static void extend_session(weft_master_client_t *m, const weft_extend_session_t *r, weft_canceller_t *c,
                           weft_number_fn *fn, void *arg) {
  (void)c;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "extend %.*s graph=%zu version=%" PRId64, WEFT_STR_ARGS(r->session),
                     r->graph_def.length, r->current_version);
  fn(arg, note(m, &b), r->current_version + 1);
  weft_strbuf_deinit(&b);
}
static void run_step(weft_master_client_t *m, const weft_run_step_t *r, weft_canceller_t *c,
                     weft_run_step_fn *fn, void *arg) {
  (void)c;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "run %.*s partial=%.*s feeds=", WEFT_STR_ARGS(r->session),
                     WEFT_STR_ARGS(r->partial_run_handle));
  for (int i = 0; i < r->num_feeds; i++)
    weft_strbuf_printf(&b, "%.*s:%zu,", WEFT_STR_ARGS(r->feeds[i].name), r->feeds[i].tensor->bytes);
  names(&b, "fetches", r->fetches, r->num_fetches);
  names(&b, "targets", r->targets, r->num_targets);
  options_text(&b, &r->options);
  weft_status_t *s = note(m, &b);
  weft_strbuf_deinit(&b);
  weft_tensor_t *fetches[8] = {NULL};
  for (int i = 0; i < r->num_fetches && s == NULL; i++) {
    if (i < r->num_feeds) {
      fetches[i] = weft_tensor_retain(r->feeds[i].tensor);
    } else {
      s = weft_tensor_string(r->fetches[i], &fetches[i]);
    }
  }
  weft_run_step_result_t result = {
      .fetches = fetches, .num_fetches = r->num_fetches, .metadata = WEFT_STR("\x0a\x00")};
  fn(arg, s, s == NULL ? &result : NULL);
}
static void partial_run_setup(weft_master_client_t *m, const weft_partial_run_setup_t *r, weft_canceller_t *c,
                              weft_text_fn *fn, void *arg) {
  (void)c;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "setup %.*s", WEFT_STR_ARGS(r->session));
  names(&b, "feeds", r->feeds, r->num_feeds);
  names(&b, "fetches", r->fetches, r->num_fetches);
  names(&b, "targets", r->targets, r->num_targets);
  fn(arg, note(m, &b), WEFT_STR("42"));
  weft_strbuf_deinit(&b);
}
static void make_callable(weft_master_client_t *m, const weft_make_callable_t *r, weft_canceller_t *c,
                          weft_number_fn *fn, void *arg) {
  (void)c;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "make %.*s devices=%d", WEFT_STR_ARGS(r->session), r->has_device_options);
  names(&b, "feeds", r->feeds, r->num_feeds);
  names(&b, "fetches", r->fetches, r->num_fetches);
  names(&b, "targets", r->targets, r->num_targets);
  names(&b, "from", r->connections_from, r->num_connections);
  names(&b, "to", r->connections_to, r->num_connections);
  options_text(&b, &r->options);
  fn(arg, note(m, &b), 7);
  weft_strbuf_deinit(&b);
}
static void run_callable(weft_master_client_t *m, const weft_run_callable_t *r, weft_canceller_t *c,
                         weft_run_step_fn *fn, void *arg) {
  (void)c;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "call %.*s handle=%" PRId64 " feeds=%d", WEFT_STR_ARGS(r->session), r->handle,
                     r->num_feeds);
  weft_status_t *s = note(m, &b);
  weft_strbuf_deinit(&b);
  weft_tensor_t *fetches[8];
  for (int i = 0; i < r->num_feeds && s == NULL; i++) fetches[i] = weft_tensor_retain(r->feeds[i]);
  weft_run_step_result_t result = {.fetches = fetches, .num_fetches = r->num_feeds};
  fn(arg, s, s == NULL ? &result : NULL);
}
static void release_callable(weft_master_client_t *m, weft_str_t session, int64_t handle, weft_done_fn *fn,
                             void *arg) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "release %.*s %" PRId64, WEFT_STR_ARGS(session), handle);
  fn(arg, note(m, &b));
  weft_strbuf_deinit(&b);
}
static void close_session(weft_master_client_t *m, weft_str_t session, weft_done_fn *fn, void *arg) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "close %.*s", WEFT_STR_ARGS(session));
  fn(arg, note(m, &b));
  weft_strbuf_deinit(&b);
}
static void list_devices(weft_master_client_t *m, weft_str_t session, weft_canceller_t *c,
                         weft_devices_fn *fn, void *arg) {
  (void)c;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "list %.*s", WEFT_STR_ARGS(session));
  weft_status_t *s = note(m, &b);
  weft_strbuf_deinit(&b);
  weft_device_list_t devices = {.arena = WEFT_ARENA_INIT};
  for (int i = 0; i < 2 && s == NULL; i++) {
    weft_device_attributes_t d = {.name = i == 0 ? WEFT_STR("a") : WEFT_STR("b"),
                                  .type = WEFT_STR("CPU"),
                                  .memory_limit = 5,
                                  .incarnation = (uint64_t)i + 8};
    s = weft_device_list_add(&devices, &d);
  }
  fn(arg, s, s == NULL ? &devices : NULL);
  weft_device_list_deinit(&devices);
}
static void hold_client(weft_master_client_t *m, const weft_hold_client_t *r, weft_canceller_t *c,
                        weft_done_fn *fn, void *arg) {
  (void)c;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "hold %.*s from %.*s", WEFT_STR_ARGS(r->client), 10, r->peer.data);
  fn(arg, note(m, &b));
  weft_strbuf_deinit(&b);
}
static void reset(weft_master_client_t *m, const weft_str_t *containers, int num_containers,
                  const weft_str_t *filters, int num_filters, weft_done_fn *fn, void *arg) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&b, "reset");
  names(&b, "containers", containers, num_containers);
  names(&b, "filters", filters, num_filters);
  fn(arg, note(m, &b));
  weft_strbuf_deinit(&b);
}
static void destroy(weft_master_client_t *m) { (void)m; }

static const weft_master_client_ops_t fake_ops = {.create_session = create_session,
                                                  .extend_session = extend_session,
                                                  .run_step = run_step,
                                                  .partial_run_setup = partial_run_setup,
                                                  .make_callable = make_callable,
                                                  .run_callable = run_callable,
                                                  .release_callable = release_callable,
                                                  .close_session = close_session,
                                                  .list_devices = list_devices,
                                                  .hold_client = hold_client,
                                                  .reset = reset,
                                                  .destroy = destroy};

/* ---- the two ends; the remote client answers on our own thread, before its call returns ---- */

typedef struct fixture {
  fake_t fake;
  weft_rpc_client_t *rpc;
  weft_rpc_server_t *server;
  weft_master_service_t *service;
  weft_rpc_channel_t *channel;
  weft_master_client_t *remote;
  /* the last answer */
  int answers;
  weft_status_t *status;
  weft_strbuf_t text;
  weft_tensor_t *tensors[8];
  int num_tensors;
} fixture_t;

static void setup(fixture_t *f) {
  memset(f, 0, sizeof *f);
  f->fake.base.ops = &fake_ops;
  atomic_init(&f->fake.base.refs, 1);
  weft_mutex_init(&f->fake.mu);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &f->rpc));
  weft_rpc_server_options_t o = {.host = "127.0.0.1", .client = f->rpc};
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_create(&o, &f->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_master_service_create(&f->fake.base, f->server, &f->service));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_start(f->server));
  char target[64];
  snprintf(target, sizeof target, "127.0.0.1:%d", weft_rpc_server_port(f->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(f->rpc, weft_str(target), &f->channel));
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_master_client_create(f->channel, 20000, &f->remote));
}

static void forget(fixture_t *f) {
  f->answers = 0;
  weft_status_free(f->status);
  f->status = NULL;
  f->text.length = 0;
  for (int i = 0; i < f->num_tensors; i++) weft_tensor_release(f->tensors[i]);
  f->num_tensors = 0;
}

static void teardown(fixture_t *f) {
  forget(f);
  weft_master_client_release(f->remote);
  weft_rpc_channel_release(f->channel);
  weft_rpc_server_destroy(f->server);
  weft_master_service_destroy(f->service);
  weft_rpc_client_destroy(f->rpc);
  weft_status_free(f->fake.fail);
  weft_strbuf_deinit(&f->fake.seen);
  weft_strbuf_deinit(&f->text);
  weft_mutex_deinit(&f->fake.mu);
}

/* Calls fail with `s` (consumed) from now on. */
static void fail_with(fixture_t *f, weft_status_t *s) {
  weft_mutex_lock(&f->fake.mu);
  weft_status_free(f->fake.fail);
  f->fake.fail = s;
  weft_mutex_unlock(&f->fake.mu);
}

static bool saw(fixture_t *f, const char *lines) {
  weft_mutex_lock(&f->fake.mu);
  bool found = f->fake.seen.data != NULL && strstr(f->fake.seen.data, lines) != NULL;
  if (!found) fprintf(stderr, "not '%s' in:\n%s", lines, f->fake.seen.data == NULL ? "" : f->fake.seen.data);
  weft_mutex_unlock(&f->fake.mu);
  return found;
}
static int count_seen(fixture_t *f, const char *word) {
  int n = 0;
  weft_mutex_lock(&f->fake.mu);
  for (const char *p = f->fake.seen.data; p != NULL && (p = strstr(p, word)) != NULL; p++) n++;
  weft_mutex_unlock(&f->fake.mu);
  return n;
}

static void on_session(void *arg, weft_status_t *status, weft_str_t session, int64_t version) {
  fixture_t *f = arg;
  f->answers++;
  f->status = status;
  if (status == NULL) weft_strbuf_printf(&f->text, "%.*s %" PRId64, WEFT_STR_ARGS(session), version);
}
static void on_number(void *arg, weft_status_t *status, int64_t number) {
  fixture_t *f = arg;
  f->answers++;
  f->status = status;
  if (status == NULL) weft_strbuf_printf(&f->text, "%" PRId64, number);
}
static void on_text(void *arg, weft_status_t *status, weft_str_t text) {
  fixture_t *f = arg;
  f->answers++;
  f->status = status;
  weft_strbuf_append(&f->text, text);
}
static void on_done(void *arg, weft_status_t *status) {
  fixture_t *f = arg;
  f->answers++;
  f->status = status;
}
static void on_devices(void *arg, weft_status_t *status, const weft_device_list_t *devices) {
  fixture_t *f = arg;
  f->answers++;
  f->status = status;
  for (int i = 0; devices != NULL && i < devices->n; i++)
    weft_strbuf_printf(&f->text, "%.*s/%" PRIu64 " ", WEFT_STR_ARGS(devices->devices[i].name),
                       devices->devices[i].incarnation);
}
static void on_step(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  fixture_t *f = arg;
  f->answers++;
  f->status = status;
  for (int i = 0; result != NULL && i < result->num_fetches; i++)
    f->tensors[f->num_tensors++] = result->fetches[i];
  if (result != NULL) weft_strbuf_printf(&f->text, "metadata=%zu", result->metadata.length);
}

/* One answer came, and its code is this. Keeps text and tensors. */
static bool answered(fixture_t *f, weft_code_t code) {
  bool ok = f->answers == 1 && weft_status_code(f->status) == code;
  if (!ok) fprintf(stderr, "answers %d, %s\n", f->answers, weft_status_message(f->status));
  return ok;
}

static weft_tensor_t *float_tensor(float value) {
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_F32, &value, &t));
  return t;
}

/* ---- tests ---- */

static void sessions_come_through(void) {
  fixture_t f;
  setup(&f);
  weft_master_client_t *m = f.remote;
  weft_create_session_t create = {.graph_def = WEFT_STR("\x0a\x00"),
                                  .config = WEFT_STR("\x38\x01\x00"),
                                  .target = WEFT_STR("grpc://x:1")};
  m->ops->create_session(m, &create, NULL, on_session, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  CU_ASSERT_STRING_EQUAL(f.text.data, "0123456789abcdef 3");
  forget(&f);
  weft_extend_session_t extend = {
      .session = WEFT_STR("s"), .graph_def = WEFT_STR("abc"), .current_version = 4};
  m->ops->extend_session(m, &extend, NULL, on_number, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  CU_ASSERT_STRING_EQUAL(f.text.data, "5");
  forget(&f);
  m->ops->list_devices(m, WEFT_STR(""), NULL, on_devices, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  CU_ASSERT_STRING_EQUAL(f.text.data, "a/8 b/9 ");
  forget(&f);
  m->ops->close_session(m, WEFT_STR("s"), on_done, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  forget(&f);
  weft_str_t containers[] = {WEFT_STR("c1"), WEFT_STR("")};
  m->ops->reset(m, containers, 2, NULL, 0, on_done, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  CU_ASSERT_TRUE(saw(&f,
                     "create graph=2 config=3 target=grpc://x:1\nextend s graph=3 version=4\nlist \nclose s\n"
                     "reset containers=c1, filters=\n"));
  teardown(&f);
}

static void a_step_carries_tensors_both_ways(void) {
  fixture_t f;
  setup(&f);
  weft_tensor_t *big = NULL, *one = float_tensor(1.5f);
  weft_shape_t shape = weft_shape_vector(1000000);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I64, &shape, NULL, &big));
  for (int64_t i = 0; i < big->count; i++) ((int64_t *)big->data)[i] = i * i;
  weft_named_tensor_t feeds[] = {{WEFT_STR("big:0"), big}, {WEFT_STR("x:0"), one}};
  weft_str_t fetches[] = {WEFT_STR("y:0"), WEFT_STR("scope/z:1"), WEFT_STR("text:0")},
             targets[] = {WEFT_STR("init")};
  weft_run_step_t r = {.session = WEFT_STR("s"),
                       .partial_run_handle = WEFT_STR("9"),
                       .feeds = feeds,
                       .num_feeds = 2,
                       .fetches = fetches,
                       .num_fetches = 3,
                       .targets = targets,
                       .num_targets = 1,
                       .options = {.trace_level = 3, .timeout_ms = 15000, .output_partition_graphs = true}};
  f.remote->ops->run_step(f.remote, &r, NULL, on_step, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  CU_ASSERT_TRUE(saw(&f,
                     "run s partial=9 feeds=big:0:8000000,x:0:4, fetches=y:0,scope/z:1,text:0 targets=init "
                     "options=3,15000,1\n"));
  CU_ASSERT_STRING_EQUAL(f.text.data, "metadata=2");
  CU_ASSERT_EQUAL_FATAL(f.num_tensors, 3);
  CU_ASSERT_EQUAL(memcmp(f.tensors[0]->data, big->data, big->bytes), 0);
  CU_ASSERT_EQUAL(*(const float *)f.tensors[1]->data, 1.5f);
  CU_ASSERT_TRUE(weft_str_is(weft_tensor_str_at(f.tensors[2], 0), "text:0"));
  weft_tensor_release(big);
  weft_tensor_release(one);
  teardown(&f);
}

static weft_run_step_t small_step(const weft_str_t *fetches) {
  return (weft_run_step_t){.session = WEFT_STR("s"), .fetches = fetches, .num_fetches = 1};
}

static void a_failed_step_keeps_code_and_whole_text(void) {
  fixture_t f;
  setup(&f);
  char text[8000];
  memset(text, 'e', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  fail_with(&f, WEFT_ERROR(UNAVAILABLE, "%s", text));
  weft_str_t fetches[] = {WEFT_STR("y:0")};
  weft_run_step_t r = small_step(fetches);
  f.remote->ops->run_step(f.remote, &r, NULL, on_step, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_UNAVAILABLE));
  CU_ASSERT_STRING_EQUAL(weft_status_message(f.status), text);
  CU_ASSERT_EQUAL(count_seen(&f, "run "), 1); /* in the body: not sent again */
  teardown(&f);
}

/* A session that cannot be created because a task is lost: ten more questions would only take time. */
static void what_a_master_has_answered_is_not_asked_again(void) {
  fixture_t f;
  setup(&f);
  fail_with(&f, WEFT_ERROR(UNAVAILABLE, "task 7 is lost"));
  f.remote->ops->close_session(f.remote, WEFT_STR("s"), on_done, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_UNAVAILABLE));
  CU_ASSERT_STRING_EQUAL(weft_status_message(f.status), "task 7 is lost");
  CU_ASSERT_EQUAL(count_seen(&f, "close s"), 1);
  teardown(&f);
}

static void a_request_seen_twice_is_aborted(void) {
  fixture_t f;
  setup(&f);
  weft_str_t fetches[] = {WEFT_STR("y:0")};
  weft_run_step_t r = small_step(fetches);
  r.request_id = 4711;
  weft_partial_run_setup_t p = {.session = WEFT_STR("s"), .request_id = 4712};
  weft_make_callable_t mk = {.session = WEFT_STR("s"), .request_id = 4713};
  weft_run_callable_t c = {.session = WEFT_STR("s"), .request_id = 4714};
  for (int i = 0; i < 2; i++) {
    weft_code_t code = i == 0 ? WEFT_OK : WEFT_ABORTED;
    f.remote->ops->run_step(f.remote, &r, NULL, on_step, &f);
    CU_ASSERT_TRUE(answered(&f, code));
    if (i == 1) CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(f.status), "The same RunStep"));
    forget(&f);
    f.remote->ops->partial_run_setup(f.remote, &p, NULL, on_text, &f);
    CU_ASSERT_TRUE(answered(&f, code));
    forget(&f);
    f.remote->ops->make_callable(f.remote, &mk, NULL, on_number, &f);
    CU_ASSERT_TRUE(answered(&f, code));
    forget(&f);
    f.remote->ops->run_callable(f.remote, &c, NULL, on_step, &f);
    CU_ASSERT_TRUE(answered(&f, code));
    forget(&f);
  }
  teardown(&f);
}

static void callables_and_partial_runs_come_through(void) {
  fixture_t f;
  setup(&f);
  weft_master_client_t *m = f.remote;
  weft_str_t feeds[] = {WEFT_STR("a:0"), WEFT_STR("b:0")}, fetches[] = {WEFT_STR("c:0")},
             targets[] = {WEFT_STR("t")};
  weft_partial_run_setup_t p = {.session = WEFT_STR("s"),
                                .feeds = feeds,
                                .num_feeds = 2,
                                .fetches = fetches,
                                .num_fetches = 1,
                                .targets = targets,
                                .num_targets = 1};
  m->ops->partial_run_setup(m, &p, NULL, on_text, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  CU_ASSERT_STRING_EQUAL(f.text.data, "42");
  forget(&f);
  weft_str_t from[] = {WEFT_STR("p:0")}, to[] = {WEFT_STR("q:0")};
  weft_make_callable_t mk = {.session = WEFT_STR("s"),
                             .feeds = feeds,
                             .num_feeds = 2,
                             .fetches = fetches,
                             .num_fetches = 1,
                             .num_connections = 1,
                             .connections_from = from,
                             .connections_to = to,
                             .options = {.timeout_ms = 77}};
  m->ops->make_callable(m, &mk, NULL, on_number, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  CU_ASSERT_STRING_EQUAL(f.text.data, "7");
  forget(&f);
  weft_tensor_t *tensors[] = {float_tensor(1), float_tensor(2)};
  weft_run_callable_t run = {.session = WEFT_STR("s"), .handle = -1, .feeds = tensors, .num_feeds = 2};
  m->ops->run_callable(m, &run, NULL, on_step, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  CU_ASSERT_EQUAL_FATAL(f.num_tensors, 2);
  CU_ASSERT_EQUAL(*(const float *)f.tensors[1]->data, 2.0f);
  forget(&f);
  m->ops->release_callable(m, WEFT_STR("s"), 7, on_done, &f);
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  CU_ASSERT_TRUE(saw(&f,
                     "setup s feeds=a:0,b:0 fetches=c:0 targets=t\n"
                     "make s devices=0 feeds=a:0,b:0 fetches=c:0 targets= from=p:0 to=q:0 options=0,77,0\n"
                     "call s handle=-1 feeds=2\nrelease s 7\n"));
  weft_tensor_release(tensors[0]);
  weft_tensor_release(tensors[1]);
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
  weft_str_t bytes;
  /* As protobuf's own library writes them: RunStepRequest, ... */
  weft_status_t *s = call_bytes(
      &f, "/tensorflow.MasterService/RunStep",
      WEFT_STR("\x0a\x03"
               "abc\x12\x11\x0a\x03x:0\x12\x0a\x08\x01\x12\x00\x22\x04\x00\x00\x00\x40\x1a\x03y:0\x1a\x03z:1"
               "\x22\x04init\x2a\x12\x08\x03\x10\xdc\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x01"
               "\x32\x01\x37\x38\x01\x40\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
      &m);
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_TRUE(saw(&f, "run abc partial=7 feeds=x:0:4, fetches=y:0,z:1 targets=init options=3,1500,1\n"));
  CU_ASSERT_PTR_NULL(weft_message_flatten(m, &bytes));
  /* tensor y:0 = 2.0, tensor z:1 = "z:1", metadata */
  CU_ASSERT_TRUE(weft_str_eq(
      bytes, WEFT_STR("\x0a\x11\x0a\x03y:0\x12\x0a\x08\x01\x12\x00\x22\x04\x00\x00\x00\x40\x0a\x10\x0a\x03z:"
                      "1\x12\x09\x08\x07"
                      "\x12\x00\x42\x03z:1\x12\x02\x0a\x00")));
  weft_message_destroy(m);
  /* ... and MakeCallableRequest. */
  s = call_bytes(&f, "/tensorflow.MasterService/MakeCallable",
                 WEFT_STR("\x0a\x01s\x12\x2c\x0a\x03"
                          "a:0\x12\x03"
                          "b:0\x1a\x01t\x22\x02\x10\x09\x2a\x0a\x0a\x03p:0\x12\x03q:0\x32\x0d\x0a\x03"
                          "a:0\x12\x06/cpu:0\x18\x04"),
                 &m);
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_TRUE(saw(&f, "make s devices=1 feeds=a:0 fetches=b:0 targets=t from=p:0 to=q:0 options=0,9,0\n"));
  weft_message_destroy(m);
  teardown(&f);
}

static void errors_go_into_the_body_only_when_asked(void) {
  fixture_t f;
  setup(&f);
  weft_message_t *m = NULL;
  weft_str_t bytes;
  fail_with(&f, WEFT_ERROR(NOT_FOUND, "absent"));
  weft_status_t *s = call_bytes(&f, "/tensorflow.MasterService/RunStep", WEFT_STR("\x0a\x01s"), &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
  weft_status_free(s);
  s = call_bytes(&f, "/tensorflow.MasterService/RunStep", WEFT_STR("\x0a\x01s\x38\x01"), &m);
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_PTR_NULL(weft_message_flatten(m, &bytes));
  CU_ASSERT_TRUE(weft_str_eq(bytes, WEFT_STR("\x18\x05\x22\x06"
                                             "absent")));
  weft_message_destroy(m);
  /* A feed that is no tensor: the flag comes behind it on the wire. */
  s = call_bytes(&f, "/tensorflow.MasterService/RunStep",
                 WEFT_STR("\x0a\x01s\x12\x0e\x0a\x03x:0\x12\x07\x08\x01\x22\x03"
                          "abc\x38\x01"),
                 &m);
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_PTR_NULL(weft_message_flatten(m, &bytes));
  CU_ASSERT_TRUE(weft_str_starts_with(bytes, "\x18\x03\x22"));
  CU_ASSERT_PTR_NOT_NULL(memmem(bytes.data, bytes.length, "Invalid TensorProto for feed value 0", 36));
  weft_message_destroy(m);
  teardown(&f);
}

static void hostile_bytes_are_refused(void) {
  static const char *const methods[] = {"CreateSession", "ExtendSession",  "PartialRunSetup", "RunStep",
                                        "CloseSession",  "ListDevices",    "Reset",           "MakeCallable",
                                        "RunCallable",   "ReleaseCallable"};
  static const weft_str_t cases[] = {{"\xff\xff\xff\xff\xff", 5},
                                     {"\x0a\x05xy", 4},
                                     {"\x0a\xff\xff\xff\xff\x0f", 6},
                                     {"\x00", 1},
                                     {"\x7b", 1}};
  fixture_t f;
  setup(&f);
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
      weft_message_t *m = NULL;
      char path[64];
      snprintf(path, sizeof path, "/tensorflow.MasterService/%s", methods[i]);
      weft_status_t *s = call_bytes(&f, path, cases[k], &m);
      CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
      CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), methods[i]));
      weft_status_free(s);
      weft_message_destroy(m);
    }
  }
  CU_ASSERT_EQUAL(count_seen(&f, " "), 0);                            /* the master saw nothing of it */
  f.remote->ops->close_session(f.remote, WEFT_STR("s"), on_done, &f); /* still there */
  CU_ASSERT_TRUE(answered(&f, WEFT_OK));
  teardown(&f);
}

static const CU_TestInfo tests[] = {
    {"sessions come through", sessions_come_through},
    {"a step carries tensors both ways", a_step_carries_tensors_both_ways},
    {"a failed step keeps code and whole text", a_failed_step_keeps_code_and_whole_text},
    {"what a master has answered is not asked again", what_a_master_has_answered_is_not_asked_again},
    {"a request seen twice is aborted", a_request_seen_twice_is_aborted},
    {"callables and partial runs come through", callables_and_partial_runs_come_through},
    {"bytes of another encoder are understood", bytes_of_another_encoder_are_understood},
    {"errors go into the body only when asked", errors_go_into_the_body_only_when_asked},
    {"hostile bytes are refused", hostile_bytes_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("master_service", tests); }
