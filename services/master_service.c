/* services/master_service.c - tensorflow.MasterService, and the one method of weft.MasterService: requests
 * from the wire to a master client, and back.
 *
 * All checks of bytes happen in weft_serve, by the tables of master_codec.c.
 *
 * Failures: RunStep's go into the response's body when the client asks for it
 * (TensorFlow's always does), also that of a repeated request or of a feed that
 * is no tensor. All other methods have no such fields: their failures are gRPC
 * statuses, UNAVAILABLE included, as with a stock master; TensorFlow's client
 * then sends the same bytes up to ten times again, and for the methods with a
 * request id the repetition is ABORTED.
 */
#include "base/alloc.h"
#include "rpc/recent_ids.h"
#include "rpc/service.h"
#include "services/device_codec.h"
#include "services/master_codec.h"
#include "services/remote_master.h"

enum { REQUEST_WINDOW = 10000 }; /* ids remembered, as TensorFlow's masters do */

struct weft_master_service {
  weft_master_client_t *master; /* retained */
  weft_recent_ids_t *recent;
};

static weft_master_client_t *master_of(weft_served_t *s) {
  return ((weft_master_service_t *)s->service)->master;
}
static weft_status_t *check_id(weft_served_t *s, int64_t id, const char *method) {
  return weft_recent_ids_add(((weft_master_service_t *)s->service)->recent, id, method);
}

static void on_done(void *arg, weft_status_t *status) {
  weft_served_t *s = arg;
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    weft_served_reply_empty(s);
  }
}

/* ---- sessions ---- */

static void on_created(void *arg, weft_status_t *status, weft_str_t session, int64_t graph_version) {
  weft_served_t *s = arg;
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  weft_create_session_response_msg_t response = {session, graph_version, master_of(s)->task};
  weft_served_reply(s, &weft_create_session_response_type, &response);
}

static void create_session(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_create_session_type, sizeof(weft_create_session_msg_t));
  if (s == NULL) return;
  const weft_create_session_msg_t *m = s->request;
  weft_create_session_t r = {
      .graph_def = m->graph_def, .config = m->config, .target = m->target, .client = m->client};
  master_of(s)->ops->create_session(master_of(s), &r, weft_served_canceller(s), on_created, s);
}

static void on_extended(void *arg, weft_status_t *status, int64_t version) {
  weft_served_t *s = arg;
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  weft_extend_session_response_msg_t response = {version};
  weft_served_reply(s, &weft_extend_session_response_type, &response);
}

static void extend_session(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_extend_session_type, sizeof(weft_extend_session_msg_t));
  if (s == NULL) return;
  const weft_extend_session_msg_t *m = s->request;
  weft_extend_session_t r = {.session = m->session, .graph_def = m->graph_def, .current_version = m->version};
  master_of(s)->ops->extend_session(master_of(s), &r, weft_served_canceller(s), on_extended, s);
}

static void close_session(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_close_session_type, sizeof(weft_session_msg_t));
  if (s == NULL) return;
  master_of(s)->ops->close_session(master_of(s), ((const weft_session_msg_t *)s->request)->session, on_done,
                                   s);
}

static void hold_client(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_hold_client_type, sizeof(weft_hold_client_msg_t));
  if (s == NULL) return;
  weft_hold_client_t r = {.client = ((const weft_hold_client_msg_t *)s->request)->client,
                          .peer = weft_str(weft_rpc_call_peer(call))};
  master_of(s)->ops->hold_client(master_of(s), &r, weft_served_canceller(s), on_done, s);
}

static void on_devices(void *arg, weft_status_t *status, const weft_device_list_t *devices) {
  weft_served_t *s = arg;
  weft_list_devices_response_msg_t response = {.local = {NULL, 0, 0}};
  if (status == NULL) status = weft_devices_to_texts(devices, &s->arena, &response.local);
  if (status == NULL) { /* TensorFlow's sessions list all devices as local ones, too */
    response.local.n -= devices->num_remote;
    response.remote = (weft_texts_t){response.local.items + response.local.n, devices->num_remote, 0};
  }
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    weft_served_reply(s, &weft_list_devices_response_type, &response);
  }
}

static void list_devices(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_list_devices_type, sizeof(weft_session_msg_t));
  if (s == NULL) return;
  master_of(s)->ops->list_devices(master_of(s), ((const weft_session_msg_t *)s->request)->session,
                                  weft_served_canceller(s), on_devices, s);
}

static void reset(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_reset_type, sizeof(weft_reset_msg_t));
  if (s == NULL) return;
  const weft_reset_msg_t *m = s->request;
  master_of(s)->ops->reset(master_of(s), m->containers.items, m->containers.n, m->filters.items, m->filters.n,
                           on_done, s);
}

/* ---- steps ---- */

static void fail_step(weft_served_t *s, weft_status_t *status) {
  const weft_run_step_msg_t *m = s->request;
  if (!m->errors_in_body) {
    weft_served_fail(s, status);
    return;
  }
  weft_run_step_response_msg_t response = {.code = weft_status_code(status),
                                           .message = weft_str(weft_status_message(status))};
  weft_served_reply(s, &weft_run_step_response_type, &response);
  weft_status_free(status);
}

static void on_step(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  weft_served_t *s = arg;
  const weft_run_step_msg_t *m = s->request;
  if (status != NULL) {
    fail_step(s, status);
    return;
  }
  weft_tensor_t **fetches = result->fetches; /* the array is lent, the references are ours */
  int n = result->num_fetches;
  weft_run_step_response_msg_t response = {
      .tensors = {.names = m->fetches.items, .items = fetches, .n = n, .capacity = n},
      .metadata = result->metadata};
  weft_served_reply(s, &weft_run_step_response_type, &response);
  for (int i = 0; i < n; i++) weft_tensor_release(fetches[i]);
}

static weft_status_t *prepare_step(weft_served_t *s, weft_run_step_t *out) {
  const weft_run_step_msg_t *m = s->request;
  WEFT_RETURN_IF_ERROR(check_id(s, m->request_id, "RunStep (Master)"));
  weft_named_tensor_t *feeds = NULL;
  if (m->feeds.n > 0) {
    feeds = weft_arena_calloc(&s->arena, (size_t)m->feeds.n, sizeof *feeds);
    if (feeds == NULL) return WEFT_NO_MEMORY("%d feeds", m->feeds.n);
  }
  for (int i = 0; i < m->feeds.n; i++) feeds[i] = (weft_named_tensor_t){m->feeds.names[i], m->feeds.items[i]};
  *out = (weft_run_step_t){.session = m->session,
                           .partial_run_handle = m->partial_run_handle,
                           .feeds = feeds,
                           .num_feeds = m->feeds.n,
                           .fetches = m->fetches.items,
                           .num_fetches = m->fetches.n,
                           .targets = m->targets.items,
                           .num_targets = m->targets.n,
                           .request_id = m->request_id};
  return weft_run_options_from_bytes(m->options, &s->arena, &out->options);
}

static void run_step(void *service, weft_rpc_call_t *call) {
  weft_status_t *status = NULL;
  weft_served_t *s = weft_serve_any(call, service, &weft_run_step_type, sizeof(weft_run_step_msg_t), &status);
  if (s == NULL) return;
  weft_run_step_t r;
  if (status == NULL) status = prepare_step(s, &r);
  if (status != NULL) {
    fail_step(s, status);
    return;
  }
  master_of(s)->ops->run_step(master_of(s), &r, weft_served_canceller(s), on_step, s);
}

static void on_set_up(void *arg, weft_status_t *status, weft_str_t handle) {
  weft_served_t *s = arg;
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  weft_partial_run_setup_response_msg_t response = {handle};
  weft_served_reply(s, &weft_partial_run_setup_response_type, &response);
}

static void partial_run_setup(void *service, weft_rpc_call_t *call) {
  weft_served_t *s =
      weft_serve(call, service, &weft_partial_run_setup_type, sizeof(weft_partial_run_setup_msg_t));
  if (s == NULL) return;
  const weft_partial_run_setup_msg_t *m = s->request;
  weft_status_t *status = check_id(s, m->request_id, "PartialRunSetup (Master)");
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  weft_partial_run_setup_t r = {.session = m->session,
                                .feeds = m->feeds.items,
                                .fetches = m->fetches.items,
                                .targets = m->targets.items,
                                .num_feeds = m->feeds.n,
                                .num_fetches = m->fetches.n,
                                .num_targets = m->targets.n,
                                .request_id = m->request_id};
  master_of(s)->ops->partial_run_setup(master_of(s), &r, weft_served_canceller(s), on_set_up, s);
}

/* ---- callables ---- */

static weft_status_t *read_connections(const weft_texts_t *connections, weft_arena_t *arena,
                                       weft_texts_t *from, weft_texts_t *to) {
  for (int i = 0; i < connections->n; i++) {
    weft_connection_msg_t c = {.from = {NULL, 0}};
    WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&weft_connection_type, connections->items[i], arena, &c));
    if (!weft_texts_add(from, arena, c.from) || !weft_texts_add(to, arena, c.to))
      return WEFT_NO_MEMORY("%d tensor connections", connections->n);
  }
  return NULL;
}

static weft_status_t *prepare_callable(weft_served_t *s, weft_make_callable_t *out) {
  const weft_make_callable_msg_t *m = s->request;
  WEFT_RETURN_IF_ERROR(check_id(s, m->request_id, "MakeCallable (Master)"));
  weft_callable_options_msg_t o;
  memset(&o, 0, sizeof o);
  WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&weft_callable_options_type, m->options, &s->arena, &o));
  weft_texts_t from = {NULL, 0, 0}, to = {NULL, 0, 0};
  WEFT_RETURN_IF_ERROR(read_connections(&o.connections, &s->arena, &from, &to));
  *out = (weft_make_callable_t){.session = m->session,
                                .feeds = o.feeds.items,
                                .fetches = o.fetches.items,
                                .targets = o.targets.items,
                                .num_feeds = o.feeds.n,
                                .num_fetches = o.fetches.n,
                                .num_targets = o.targets.n,
                                .num_connections = from.n,
                                .connections_from = from.items,
                                .connections_to = to.items,
                                .has_device_options = o.feed_devices.n > 0 || o.fetch_devices.n > 0,
                                .request_id = m->request_id};
  return weft_run_options_from_bytes(o.run_options, &s->arena, &out->options);
}

static void on_callable(void *arg, weft_status_t *status, int64_t handle) {
  weft_served_t *s = arg;
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  weft_callable_handle_msg_t response = {.handle = handle};
  weft_served_reply(s, &weft_make_callable_response_type, &response);
}

static void make_callable(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_make_callable_type, sizeof(weft_make_callable_msg_t));
  if (s == NULL) return;
  weft_make_callable_t r;
  weft_status_t *status = prepare_callable(s, &r);
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  master_of(s)->ops->make_callable(master_of(s), &r, weft_served_canceller(s), on_callable, s);
}

static void on_callable_run(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  weft_served_t *s = arg;
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  weft_tensor_t **fetches = result->fetches;
  int n = result->num_fetches;
  weft_run_callable_response_msg_t response = {.fetches = {.items = fetches, .n = n, .capacity = n},
                                               .metadata = result->metadata};
  weft_served_reply(s, &weft_run_callable_response_type, &response);
  for (int i = 0; i < n; i++) weft_tensor_release(fetches[i]);
}

static void run_callable(void *service, weft_rpc_call_t *call) {
  weft_served_t *s = weft_serve(call, service, &weft_run_callable_type, sizeof(weft_run_callable_msg_t));
  if (s == NULL) return;
  const weft_run_callable_msg_t *m = s->request;
  weft_status_t *status = check_id(s, m->request_id, "RunCallable (Master)");
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  weft_run_callable_t r = {.session = m->session,
                           .handle = m->handle,
                           .request_id = m->request_id,
                           .feeds = m->feeds.items,
                           .num_feeds = m->feeds.n};
  master_of(s)->ops->run_callable(master_of(s), &r, weft_served_canceller(s), on_callable_run, s);
}

static void release_callable(void *service, weft_rpc_call_t *call) {
  weft_served_t *s =
      weft_serve(call, service, &weft_release_callable_type, sizeof(weft_callable_handle_msg_t));
  if (s == NULL) return;
  const weft_callable_handle_msg_t *m = s->request;
  master_of(s)->ops->release_callable(master_of(s), m->session, m->handle, on_done, s);
}

static const struct {
  const char *path;
  weft_rpc_handler_fn *handler;
} methods[] = {
    {"/tensorflow.MasterService/CreateSession", create_session},
    {"/tensorflow.MasterService/ExtendSession", extend_session},
    {"/tensorflow.MasterService/PartialRunSetup", partial_run_setup},
    {"/tensorflow.MasterService/RunStep", run_step},
    {"/tensorflow.MasterService/CloseSession", close_session},
    {"/tensorflow.MasterService/ListDevices", list_devices},
    {"/tensorflow.MasterService/Reset", reset},
    {"/tensorflow.MasterService/MakeCallable", make_callable},
    {"/tensorflow.MasterService/RunCallable", run_callable},
    {"/tensorflow.MasterService/ReleaseCallable", release_callable},
    {WEFT_HOLD_CLIENT_METHOD, hold_client},
};

weft_status_t *weft_master_service_create(weft_master_client_t *m, weft_rpc_server_t *server,
                                          weft_master_service_t **out) {
  weft_master_service_t *made = weft_calloc(1, sizeof *made);
  if (made == NULL) return WEFT_NO_MEMORY("the master service");
  made->master = weft_master_client_retain(m);
  weft_status_t *s = weft_recent_ids_create(REQUEST_WINDOW, &made->recent);
  for (size_t i = 0; s == NULL && i < sizeof methods / sizeof methods[0]; i++)
    s = weft_rpc_server_handle(server, methods[i].path, methods[i].handler, made);
  if (s != NULL) {
    weft_master_service_destroy(made);
    return s;
  }
  *out = made;
  return NULL;
}

void weft_master_service_destroy(weft_master_service_t *s) {
  if (s == NULL) return;
  weft_recent_ids_destroy(s->recent);
  weft_master_client_release(s->master);
  weft_free(s);
}
