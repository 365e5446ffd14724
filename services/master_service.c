/* services/master_service.c - tensorflow.MasterService, and the one method of weft.MasterService: requests
 * from the wire to a master client, and back.
 *
 * All checks of bytes happen before a method is served, by the tables of services/messages.
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
#include "services/messages.h"
#include "services/remote_master.h"
#include "services/run_options.h"

enum { REQUEST_WINDOW = 10000 }; /* ids remembered, as TensorFlow's masters do */

struct weft_master_service {
  weft_master_client_t *master; /* retained */
  weft_recent_ids_t *recent;
};

static weft_master_client_t *master_of(weft_served_t *s) {
  return ((weft_master_service_t *)s->service)->master;
}
static bool is_new(weft_served_t *s, int64_t id, const char *method) {
  return weft_served_once(s, ((weft_master_service_t *)s->service)->recent, id, method);
}

/* ---- sessions ---- */

static void on_created(void *arg, weft_status_t *status, weft_str_t session, int64_t graph_version) {
  weft_served_t *s = arg;
  weft_create_session_response_msg_t response = {session, graph_version, master_of(s)->task};
  weft_served_answer(s, status, &weft_create_session_response_type, &response);
}

static void create_session(weft_served_t *s) {
  const weft_create_session_request_msg_t *m = s->request;
  weft_create_session_t r = {
      .graph_def = m->graph_def, .config = m->config, .target = m->target, .client = m->weft_client};
  master_of(s)->ops->create_session(master_of(s), &r, weft_served_canceller(s), on_created, s);
}

static void on_extended(void *arg, weft_status_t *status, int64_t version) {
  weft_served_t *s = arg;
  weft_extend_session_response_msg_t response = {version};
  weft_served_answer(s, status, &weft_extend_session_response_type, &response);
}

static void extend_session(weft_served_t *s) {
  const weft_extend_session_request_msg_t *m = s->request;
  weft_extend_session_t r = {
      .session = m->session_handle, .graph_def = m->graph_def, .current_version = m->current_graph_version};
  master_of(s)->ops->extend_session(master_of(s), &r, weft_served_canceller(s), on_extended, s);
}

static void close_session(weft_served_t *s) {
  master_of(s)->ops->close_session(master_of(s),
                                   ((const weft_close_session_request_msg_t *)s->request)->session_handle,
                                   weft_served_done, s);
}

static void hold_client(weft_served_t *s) {
  weft_hold_client_t r = {.client = ((const weft_hold_client_request_msg_t *)s->request)->client,
                          .peer = weft_str(weft_rpc_call_peer(s->call))};
  master_of(s)->ops->hold_client(master_of(s), &r, weft_served_canceller(s), weft_served_done, s);
}

static void on_devices(void *arg, weft_status_t *status, const weft_device_list_t *devices) {
  weft_served_t *s = arg;
  weft_list_devices_response_msg_t response = {.local_device = {NULL, 0, 0}};
  if (status == NULL) status = weft_devices_to_texts(devices, &s->arena, &response.local_device);
  if (status == NULL) { /* TensorFlow's sessions list all devices as local ones, too */
    response.local_device.n -= devices->num_remote;
    response.remote_device =
        (weft_texts_t){response.local_device.items + response.local_device.n, devices->num_remote, 0};
  }
  weft_served_answer(s, status, &weft_list_devices_response_type, &response);
}

static void list_devices(weft_served_t *s) {
  master_of(s)->ops->list_devices(master_of(s),
                                  ((const weft_list_devices_request_msg_t *)s->request)->session_handle,
                                  weft_served_canceller(s), on_devices, s);
}

static void reset(weft_served_t *s) {
  const weft_reset_request_msg_t *m = s->request;
  master_of(s)->ops->reset(master_of(s), m->container.items, m->container.n, m->device_filters.items,
                           m->device_filters.n, weft_served_done, s);
}

/* ---- steps ---- */

static void fail_step(weft_served_t *s, weft_status_t *status) {
  const weft_run_step_request_msg_t *m = s->request;
  if (!m->store_errors_in_response_body) {
    weft_served_fail(s, status);
    return;
  }
  weft_run_step_response_msg_t response = {.status_code = weft_status_code(status),
                                           .status_error_message = weft_str(weft_status_message(status))};
  weft_served_reply(s, &weft_run_step_response_type, &response);
  weft_status_free(status);
}

static void on_step(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  weft_served_t *s = arg;
  const weft_run_step_request_msg_t *m = s->request;
  if (status != NULL) {
    fail_step(s, status);
    return;
  }
  weft_tensor_t **fetches = result->fetches; /* the array is lent, the references are ours */
  int n = result->num_fetches;
  weft_run_step_response_msg_t response = {
      .tensor = {.names = m->fetch.items, .items = fetches, .n = n, .capacity = n},
      .metadata = result->metadata};
  weft_served_reply(s, &weft_run_step_response_type, &response);
  for (int i = 0; i < n; i++) weft_tensor_release(fetches[i]);
}

static weft_status_t *prepare_step(weft_served_t *s, weft_run_step_t *out) {
  const weft_run_step_request_msg_t *m = s->request;
  weft_named_tensor_t *feeds = NULL;
  if (m->feed.n > 0) {
    feeds = weft_arena_calloc(&s->arena, (size_t)m->feed.n, sizeof *feeds);
    if (feeds == NULL) return WEFT_NO_MEMORY("%d feeds", m->feed.n);
  }
  for (int i = 0; i < m->feed.n; i++) feeds[i] = (weft_named_tensor_t){m->feed.names[i], m->feed.items[i]};
  *out = (weft_run_step_t){.session = m->session_handle,
                           .partial_run_handle = m->partial_run_handle,
                           .feeds = feeds,
                           .num_feeds = m->feed.n,
                           .fetches = m->fetch.items,
                           .num_fetches = m->fetch.n,
                           .targets = m->target.items,
                           .num_targets = m->target.n,
                           .request_id = m->request_id};
  return weft_run_options_from_bytes(m->options, &s->arena, &out->options);
}

static void run_step(weft_served_t *s) {
  weft_run_step_t r;
  if (!is_new(s, ((const weft_run_step_request_msg_t *)s->request)->request_id, "RunStep (Master)")) return;
  weft_status_t *status = prepare_step(s, &r);
  if (status != NULL)
    fail_step(s, status);
  else
    master_of(s)->ops->run_step(master_of(s), &r, weft_served_canceller(s), on_step, s);
}

static void on_set_up(void *arg, weft_status_t *status, weft_str_t handle) {
  weft_served_t *s = arg;
  weft_partial_run_setup_response_msg_t response = {handle};
  weft_served_answer(s, status, &weft_partial_run_setup_response_type, &response);
}

static void partial_run_setup(weft_served_t *s) {
  const weft_partial_run_setup_request_msg_t *m = s->request;
  if (!is_new(s, m->request_id, "PartialRunSetup (Master)")) return;
  weft_partial_run_setup_t r = {.session = m->session_handle,
                                .feeds = m->feed.items,
                                .fetches = m->fetch.items,
                                .targets = m->target.items,
                                .num_feeds = m->feed.n,
                                .num_fetches = m->fetch.n,
                                .num_targets = m->target.n,
                                .request_id = m->request_id};
  master_of(s)->ops->partial_run_setup(master_of(s), &r, weft_served_canceller(s), on_set_up, s);
}

/* ---- callables ---- */

static weft_status_t *read_connections(const weft_texts_t *connections, weft_arena_t *arena,
                                       weft_texts_t *from, weft_texts_t *to) {
  for (int i = 0; i < connections->n; i++) {
    weft_tensor_connection_msg_t c = {.from_tensor = {NULL, 0}};
    WEFT_RETURN_IF_ERROR(
        weft_fields_decode_bytes(&weft_tensor_connection_type, connections->items[i], arena, &c));
    if (!weft_texts_add(from, arena, c.from_tensor) || !weft_texts_add(to, arena, c.to_tensor))
      return WEFT_NO_MEMORY("%d tensor connections", connections->n);
  }
  return NULL;
}

static weft_status_t *prepare_callable(weft_served_t *s, weft_make_callable_t *out) {
  const weft_make_callable_request_msg_t *m = s->request;
  weft_callable_options_msg_t o;
  memset(&o, 0, sizeof o);
  WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&weft_callable_options_type, m->options, &s->arena, &o));
  weft_texts_t from = {NULL, 0, 0}, to = {NULL, 0, 0};
  WEFT_RETURN_IF_ERROR(read_connections(&o.tensor_connection, &s->arena, &from, &to));
  *out = (weft_make_callable_t){.session = m->session_handle,
                                .feeds = o.feed.items,
                                .fetches = o.fetch.items,
                                .targets = o.target.items,
                                .num_feeds = o.feed.n,
                                .num_fetches = o.fetch.n,
                                .num_targets = o.target.n,
                                .num_connections = from.n,
                                .connections_from = from.items,
                                .connections_to = to.items,
                                .has_device_options = o.feed_devices.n > 0 || o.fetch_devices.n > 0,
                                .request_id = m->request_id};
  return weft_run_options_from_bytes(o.run_options, &s->arena, &out->options);
}

static void on_callable(void *arg, weft_status_t *status, int64_t handle) {
  weft_served_t *s = arg;
  weft_make_callable_response_msg_t response = {.handle = handle};
  weft_served_answer(s, status, &weft_make_callable_response_type, &response);
}

static void make_callable(weft_served_t *s) {
  const weft_make_callable_request_msg_t *m = s->request;
  weft_make_callable_t r;
  if (!is_new(s, m->request_id, "MakeCallable (Master)")) return;
  weft_status_t *status = prepare_callable(s, &r);
  if (status != NULL)
    weft_served_fail(s, status);
  else
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
  weft_run_callable_response_msg_t response = {.fetch = {.items = fetches, .n = n, .capacity = n},
                                               .metadata = result->metadata};
  weft_served_reply(s, &weft_run_callable_response_type, &response);
  for (int i = 0; i < n; i++) weft_tensor_release(fetches[i]);
}

static void run_callable(weft_served_t *s) {
  const weft_run_callable_request_msg_t *m = s->request;
  if (!is_new(s, m->request_id, "RunCallable (Master)")) return;
  weft_run_callable_t r = {.session = m->session_handle,
                           .handle = m->handle,
                           .request_id = m->request_id,
                           .feeds = m->feed.items,
                           .num_feeds = m->feed.n};
  master_of(s)->ops->run_callable(master_of(s), &r, weft_served_canceller(s), on_callable_run, s);
}

static void release_callable(weft_served_t *s) {
  const weft_release_callable_request_msg_t *m = s->request;
  master_of(s)->ops->release_callable(master_of(s), m->session_handle, m->handle, weft_served_done, s);
}

#define METHOD(rpc, name) WEFT_METHOD("/tensorflow.MasterService/" rpc, name)

static const weft_service_method_t methods[] = {
    {METHOD("CreateSession", create_session)},
    {METHOD("ExtendSession", extend_session)},
    {METHOD("PartialRunSetup", partial_run_setup)},
    {METHOD("RunStep", run_step), .fail = fail_step},
    {METHOD("CloseSession", close_session)},
    {METHOD("ListDevices", list_devices)},
    {METHOD("Reset", reset)},
    {METHOD("MakeCallable", make_callable)},
    {METHOD("RunCallable", run_callable)},
    {METHOD("ReleaseCallable", release_callable)},
    {WEFT_METHOD(WEFT_HOLD_CLIENT_METHOD, hold_client)},
};

weft_status_t *weft_master_service_create(weft_master_client_t *m, weft_rpc_server_t *server,
                                          weft_master_service_t **out) {
  weft_master_service_t *made = weft_calloc(1, sizeof *made);
  if (made == NULL) return WEFT_NO_MEMORY("the master service");
  made->master = weft_master_client_retain(m);
  weft_status_t *s = weft_recent_ids_create(REQUEST_WINDOW, &made->recent);
  if (s == NULL) s = weft_service_register(server, methods, sizeof methods / sizeof methods[0], made);
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
