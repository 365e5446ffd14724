/* services/remote_master_client.c - a master behind a channel.
 *
 * A call is made on the caller's own thread, which waits for the answer and then
 * runs the callback: a session's client has nothing else to do, and so a step
 * costs no thread switch. A client that wants several steps at once uses several
 * threads, as TensorFlow's clients do.
 *
 * A call without a session waits for the master to come up, unless the client fails fast. One of a session
 * does not: a master that has ended has taken its sessions along. Every call is sent again, with the same
 * request id, while it ends with UNAVAILABLE (reference 1.3), but where a master of ours has answered so, or
 * keeps its connection and answers no ping. Where the master had got the request before the connection was
 * lost, the loss is what the caller is told. A direct client neither waits nor sends again.
 */
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "rpc/recent_ids.h"
#include "services/device_codec.h"
#include "services/messages.h"
#include "services/remote_master.h"
#include "services/run_options.h"

#define METHOD(name) "/tensorflow.MasterService/" name

enum { MAX_REPEATS = 10, SILENT_MS = 100 };

/* The repeats take a tenth of a second where a connection is refused. Not so where one is accepted and
 * nothing follows. */
static const int64_t REPEAT_FOR_NS = 1000000000;

typedef struct remote_master {
  weft_master_client_t base;
  weft_rpc_channel_t *channel; /* retained */
  int64_t timeout_ms;
  bool is_direct;  /* neither waits for the master to come up nor sends again */
  bool fails_fast; /* does not wait for the master to come up */
} remote_master_t;

/* One call: the answer is decoded into `response`, whose texts live in `arena` or in `answer`. */
typedef struct exchange {
  weft_arena_t arena;
  weft_message_t *answer; /* owned */
} exchange_t;

static void exchange_deinit(exchange_t *e) {
  weft_arena_deinit(&e->arena);
  weft_message_destroy(e->answer);
}

/* As TensorFlow's client: 0.4 ms, and a random part of 1 ms that grows by a factor of 1.3. */
static void pause_before(int repeat) {
  double ms = 1.0;
  for (int i = 0; i < repeat; i++) ms *= 1.3;
  double part = 0.6 + 0.4 * (double)(weft_random_id() % 1000) / 1000.0;
  long ns = (long)((0.4 + ms * part) * 1e6); /* at most 15 ms */
  struct timespec t = {0, ns};
  nanosleep(&t, NULL);
}

static weft_status_t *call(remote_master_t *m, const char *path, const weft_message_type_t *type,
                           const void *request, weft_str_t session, int64_t timeout_ms,
                           weft_canceller_t *canceller, exchange_t *out) {
  bool is_answered = false;
  weft_rpc_options_t o = {.wait_for_ready = !m->is_direct && !m->fails_fast && session.length == 0,
                          .timeout_ms = timeout_ms > 0 ? timeout_ms : m->timeout_ms,
                          .canceller = canceller,
                          .out_is_answered = &is_answered};
  weft_status_t *s = NULL, *lost = NULL; /* the failure before the last one */
  const int max_repeats = m->is_direct ? 0 : MAX_REPEATS;
  if (weft_rpc_channel_is_silent(m->channel)) { /* is it there again? A session that is closed after a failure
                                                   does not wait for that */
    o.wait_for_ready = false;
    if (o.timeout_ms == 0 && weft_str_is(weft_str(path), METHOD("CloseSession"))) o.timeout_ms = SILENT_MS;
  }
  const int64_t began = weft_clock_ns();
  for (int i = 0; i <= max_repeats; i++) {
    weft_message_t *message = NULL;
    s = weft_fields_encode(type, request, &message);
    if (s == NULL) s = weft_rpc_call_sync(m->channel, path, message, &o, &out->answer);
    if (weft_status_code(s) != WEFT_UNAVAILABLE || i == max_repeats || weft_canceller_is_cancelled(canceller))
      break;
    if (is_answered || weft_clock_ns() - began > REPEAT_FOR_NS) break;
    if (weft_rpc_channel_is_silent(m->channel)) break; /* a silent one may have the request already */
    weft_status_free(lost);
    lost = s;
    pause_before(i);
  }
  /* The request had arrived before the connection was lost: that is what went wrong. */
  if (lost != NULL && is_answered && weft_recent_ids_is_refusal(s)) {
    weft_status_free(s);
    return lost;
  }
  weft_status_free(lost);
  return s;
}

static weft_status_t *read_answer(exchange_t *e, const weft_message_type_t *type, void *response) {
  return weft_fields_decode(type, e->answer, &e->arena, response);
}

static remote_master_t *remote(weft_master_client_t *m) { return (remote_master_t *)(void *)m; }
static int64_t id_or_new(int64_t id) { return id != 0 ? id : (int64_t)weft_random_id(); }
/* The cast drops const: encoding only reads. */
static weft_texts_t texts_of(const weft_str_t *items, int n) {
  return (weft_texts_t){(weft_str_t *)(uintptr_t)items, n, n};
}

/* ---- sessions ---- */

/* A Weft master returns its task's name: later failures of the connection name it. */
static void name_master(remote_master_t *m, weft_str_t task) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "the master %.*s", WEFT_STR_ARGS(task));
  if (task.length > 0 && !name.failed)
    weft_rpc_channel_name_peer(m->channel, weft_str_of(name.data, name.length));
  weft_strbuf_deinit(&name);
}

static void create_session(weft_master_client_t *m, const weft_create_session_t *r, weft_canceller_t *c,
                           weft_session_fn *fn, void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_create_session_request_msg_t request = {
      .graph_def = r->graph_def, .config = r->config, .target = r->target, .weft_client = r->client};
  weft_create_session_response_msg_t response = {.graph_version = 0};
  weft_status_t *s = call(remote(m), METHOD("CreateSession"), &weft_create_session_request_type, &request,
                          WEFT_STR(""), 0, c, &e);
  if (s == NULL) s = read_answer(&e, &weft_create_session_response_type, &response);
  if (s == NULL && response.session_handle.length == 0)
    s = WEFT_ERROR(INTERNAL, "the master's answer to CreateSession has no session handle");
  if (s == NULL) name_master(remote(m), response.master_task);
  fn(arg, s, response.session_handle, response.graph_version);
  exchange_deinit(&e);
}

static void extend_session(weft_master_client_t *m, const weft_extend_session_t *r, weft_canceller_t *c,
                           weft_number_fn *fn, void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_extend_session_request_msg_t request = {
      .session_handle = r->session, .graph_def = r->graph_def, .current_graph_version = r->current_version};
  weft_extend_session_response_msg_t response = {0};
  weft_status_t *s = call(remote(m), METHOD("ExtendSession"), &weft_extend_session_request_type, &request,
                          r->session, 0, c, &e);
  if (s == NULL) s = read_answer(&e, &weft_extend_session_response_type, &response);
  fn(arg, s, response.new_graph_version);
  exchange_deinit(&e);
}

static void close_session(weft_master_client_t *m, weft_str_t session, weft_done_fn *fn, void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_close_session_request_msg_t request = {session};
  fn(arg, call(remote(m), METHOD("CloseSession"), &weft_close_session_request_type, &request, session, 0,
               NULL, &e));
  exchange_deinit(&e);
}

static void list_devices(weft_master_client_t *m, weft_str_t session, weft_canceller_t *c,
                         weft_devices_fn *fn, void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_device_list_t devices = {.arena = WEFT_ARENA_INIT};
  weft_list_devices_request_msg_t request = {session};
  weft_list_devices_response_msg_t response = {.local_device = {NULL, 0, 0}};
  weft_status_t *s =
      call(remote(m), METHOD("ListDevices"), &weft_list_devices_request_type, &request, session, 0, c, &e);
  if (s == NULL) s = read_answer(&e, &weft_list_devices_response_type, &response);
  if (s == NULL) s = weft_devices_from_texts(&response.local_device, &devices);
  if (s == NULL) s = weft_devices_from_texts(&response.remote_device, &devices);
  fn(arg, s, s == NULL ? &devices : NULL);
  weft_device_list_deinit(&devices);
  exchange_deinit(&e);
}

/* Once: the caller opens it again. */
static void hold_client(weft_master_client_t *m, const weft_hold_client_t *r, weft_canceller_t *c,
                        weft_done_fn *fn, void *arg) {
  weft_hold_client_request_msg_t request = {r->client};
  weft_message_t *message = NULL, *answer = NULL;
  weft_rpc_options_t o = {.wait_for_ready = !remote(m)->is_direct, .canceller = c, .is_quiet = true};
  weft_status_t *s = weft_fields_encode(&weft_hold_client_request_type, &request, &message);
  if (s == NULL) s = weft_rpc_call_sync(remote(m)->channel, WEFT_HOLD_CLIENT_METHOD, message, &o, &answer);
  weft_message_destroy(answer);
  fn(arg, s);
}

static void reset(weft_master_client_t *m, const weft_str_t *containers, int num_containers,
                  const weft_str_t *filters, int num_filters, weft_done_fn *fn, void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_reset_request_msg_t request = {texts_of(containers, num_containers), texts_of(filters, num_filters)};
  fn(arg, call(remote(m), METHOD("Reset"), &weft_reset_request_type, &request, WEFT_STR(""), 0, NULL, &e));
  exchange_deinit(&e);
}

/* ---- steps ---- */

/* The answer's tensors in the order of the fetches. Moves references out of `from`. */
static weft_status_t *arrange(const weft_run_step_t *r, weft_tensors_t *from, weft_tensor_t **out) {
  for (int i = 0; i < r->num_fetches; i++) {
    int at = i < from->n && from->items[i] != NULL && weft_str_eq(from->names[i], r->fetches[i]) ? i : 0;
    while (at < from->n && (from->items[at] == NULL || !weft_str_eq(from->names[at], r->fetches[i]))) at++;
    if (at == from->n)
      return WEFT_ERROR(INTERNAL, "the master's answer to RunStep has no tensor '%.*s'",
                        WEFT_STR_ARGS(r->fetches[i]));
    out[i] = from->items[at];
    from->items[at] = NULL;
  }
  return NULL;
}

static weft_status_t *send_step(remote_master_t *m, const weft_run_step_t *r, weft_canceller_t *c,
                                exchange_t *e) {
  weft_str_t *names = weft_arena_calloc(&e->arena, (size_t)r->num_feeds + 1, sizeof *names);
  weft_tensor_t **tensors = weft_arena_calloc(&e->arena, (size_t)r->num_feeds + 1, sizeof *tensors);
  if (names == NULL || tensors == NULL) return WEFT_NO_MEMORY("%d feeds", r->num_feeds);
  for (int i = 0; i < r->num_feeds; i++) {
    names[i] = r->feeds[i].name;
    tensors[i] = r->feeds[i].tensor;
  }
  weft_step_options_t options = r->options;
  if (options.timeout_ms <= 0)
    options.timeout_ms = m->timeout_ms; /* TensorFlow's client tells the master, too */
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_run_options_to_bytes(&options, &text);
  weft_run_step_request_msg_t request = {.session_handle = r->session,
                                         .partial_run_handle = r->partial_run_handle,
                                         .options = weft_str_of(text.data, text.length),
                                         .feed = {names, tensors, r->num_feeds, r->num_feeds},
                                         .fetch = texts_of(r->fetches, r->num_fetches),
                                         .target = texts_of(r->targets, r->num_targets),
                                         .store_errors_in_response_body = true,
                                         .request_id = id_or_new(r->request_id)};
  weft_status_t *s = text.failed ? WEFT_NO_MEMORY("a RunStep") : NULL;
  if (s == NULL)
    s = call(m, METHOD("RunStep"), &weft_run_step_request_type, &request, r->session, options.timeout_ms, c,
             e);
  weft_strbuf_deinit(&text);
  return s;
}

static void run_step(weft_master_client_t *m, const weft_run_step_t *r, weft_canceller_t *c,
                     weft_run_step_fn *fn, void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_run_step_response_msg_t response;
  memset(&response, 0, sizeof response);
  weft_tensor_t **fetches = weft_arena_calloc(&e.arena, (size_t)r->num_fetches + 1, sizeof *fetches);
  weft_status_t *s =
      fetches == NULL ? WEFT_NO_MEMORY("%d fetches", r->num_fetches) : send_step(remote(m), r, c, &e);
  if (s == NULL) s = read_answer(&e, &weft_run_step_response_type, &response);
  if (s == NULL)
    s = weft_status_from_wire((int)response.status_code, response.status_error_message.data,
                              response.status_error_message.length);
  if (s == NULL) s = arrange(r, &response.tensor, fetches);
  weft_run_step_result_t result = {
      .fetches = fetches, .num_fetches = r->num_fetches, .metadata = response.metadata};
  for (int i = 0; s != NULL && fetches != NULL && i < r->num_fetches; i++) weft_tensor_release(fetches[i]);
  fn(arg, s, s == NULL ? &result : NULL);
  weft_fields_release(&weft_run_step_response_type, &response);
  exchange_deinit(&e);
}

static void partial_run_setup(weft_master_client_t *m, const weft_partial_run_setup_t *r, weft_canceller_t *c,
                              weft_text_fn *fn, void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_partial_run_setup_request_msg_t request = {.session_handle = r->session,
                                                  .feed = texts_of(r->feeds, r->num_feeds),
                                                  .fetch = texts_of(r->fetches, r->num_fetches),
                                                  .target = texts_of(r->targets, r->num_targets),
                                                  .request_id = id_or_new(r->request_id)};
  weft_partial_run_setup_response_msg_t response = {{NULL, 0}};
  weft_status_t *s = call(remote(m), METHOD("PartialRunSetup"), &weft_partial_run_setup_request_type,
                          &request, r->session, 0, c, &e);
  if (s == NULL) s = read_answer(&e, &weft_partial_run_setup_response_type, &response);
  fn(arg, s, response.partial_run_handle);
  exchange_deinit(&e);
}

/* ---- callables ---- */

/* Nested messages as texts in the arena; false without memory. */
static bool write_connections(const weft_make_callable_t *r, weft_arena_t *arena, weft_texts_t *out) {
  bool ok = true;
  for (int i = 0; i < r->num_connections && ok; i++) {
    weft_tensor_connection_msg_t connection = {r->connections_from[i], r->connections_to[i]};
    ok = weft_texts_add_message(out, arena, &weft_tensor_connection_type, &connection);
  }
  return ok;
}

static void make_callable(weft_master_client_t *m, const weft_make_callable_t *r, weft_canceller_t *c,
                          weft_number_fn *fn, void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_strbuf_t run_options = WEFT_STRBUF_INIT, options = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  weft_callable_options_msg_t o = {.feed = texts_of(r->feeds, r->num_feeds),
                                   .fetch = texts_of(r->fetches, r->num_fetches),
                                   .target = texts_of(r->targets, r->num_targets)};
  bool ok = write_connections(r, &e.arena, &o.tensor_connection);
  weft_run_options_to_bytes(&r->options, &run_options);
  o.run_options = weft_str_of(run_options.data, run_options.length);
  weft_fields_encode_bytes(&weft_callable_options_type, &o, &options);
  if (!ok || run_options.failed || options.failed) s = WEFT_NO_MEMORY("a MakeCallable");
  if (s == NULL && r->has_device_options)
    s = WEFT_ERROR(UNIMPLEMENTED,
                   "CallableOptions::feed_devices and CallableOptions::fetch_devices to configure "
                   "feeding/fetching tensors to/from device memory is not yet supported when using a "
                   "remote session.");
  weft_make_callable_request_msg_t request = {.session_handle = r->session,
                                              .options = weft_str_of(options.data, options.length),
                                              .request_id = id_or_new(r->request_id)};
  weft_make_callable_response_msg_t response = {.handle = 0};
  if (s == NULL)
    s = call(remote(m), METHOD("MakeCallable"), &weft_make_callable_request_type, &request, r->session, 0, c,
             &e);
  if (s == NULL) s = read_answer(&e, &weft_make_callable_response_type, &response);
  weft_strbuf_deinit(&run_options);
  weft_strbuf_deinit(&options);
  fn(arg, s, response.handle);
  exchange_deinit(&e);
}

static void run_callable(weft_master_client_t *m, const weft_run_callable_t *r, weft_canceller_t *c,
                         weft_run_step_fn *fn, void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_run_callable_request_msg_t request = {
      .session_handle = r->session,
      .handle = r->handle,
      .request_id = id_or_new(r->request_id),
      /* The cast drops const: encoding only reads. */
      .feed = {.items = (weft_tensor_t **)(uintptr_t)r->feeds, .n = r->num_feeds}};
  weft_run_callable_response_msg_t response;
  memset(&response, 0, sizeof response);
  weft_status_t *s =
      call(remote(m), METHOD("RunCallable"), &weft_run_callable_request_type, &request, r->session, 0, c, &e);
  if (s == NULL) s = read_answer(&e, &weft_run_callable_response_type, &response);
  weft_run_step_result_t result = {
      .fetches = response.fetch.items, .num_fetches = response.fetch.n, .metadata = response.metadata};
  if (s == NULL) response.fetch.n = 0; /* the callback has the references */
  fn(arg, s, s == NULL ? &result : NULL);
  weft_fields_release(&weft_run_callable_response_type, &response);
  exchange_deinit(&e);
}

static void release_callable(weft_master_client_t *m, weft_str_t session, int64_t handle, weft_done_fn *fn,
                             void *arg) {
  exchange_t e = {.arena = WEFT_ARENA_INIT};
  weft_release_callable_request_msg_t request = {session, handle};
  fn(arg, call(remote(m), METHOD("ReleaseCallable"), &weft_release_callable_request_type, &request, session,
               0, NULL, &e));
  exchange_deinit(&e);
}

static void destroy(weft_master_client_t *m) {
  weft_rpc_channel_release(remote(m)->channel);
  weft_free(m);
}

static weft_status_t *create(weft_rpc_channel_t *channel, int64_t timeout_ms, bool is_direct, bool fails_fast,
                             weft_master_client_t **out) {
  static const weft_master_client_ops_t ops = {.create_session = create_session,
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
  remote_master_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("a master's client");
  r->base.ops = &ops;
  atomic_init(&r->base.refs, 1);
  r->channel = weft_rpc_channel_retain(channel);
  r->timeout_ms = timeout_ms;
  r->is_direct = is_direct;
  r->fails_fast = fails_fast;
  *out = &r->base;
  return NULL;
}

weft_status_t *weft_remote_master_client_create(weft_rpc_channel_t *channel, int64_t timeout_ms,
                                                weft_master_client_t **out) {
  return create(channel, timeout_ms, false, false, out);
}

weft_status_t *weft_remote_master_client_create_direct(weft_rpc_channel_t *channel, int64_t timeout_ms,
                                                       weft_master_client_t **out) {
  return create(channel, timeout_ms, true, false, out);
}

weft_status_t *weft_remote_master_client_create_fail_fast(weft_rpc_channel_t *channel, int64_t timeout_ms,
                                                          weft_master_client_t **out) {
  return create(channel, timeout_ms, false, true, out);
}
