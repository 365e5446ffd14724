/* services/worker_service.c - tensorflow.WorkerService, and weft.WorkerService for observers: requests from
 * the wire to the local worker's client, and back.
 *
 * Every method is a handler and, where the worker answers later, a callback. All
 * checks of bytes happen before a method is served (by the tables of services/messages)
 * and in weft_graph_import; behind them there is no wire data.
 *
 * RunGraph's failures go into the body when the master asks for it, as status
 * texts are short. All others travel as gRPC statuses.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "device/peer_memory.h"
#include "device/queue.h"
#include "device/tensor_stream.h"
#include "device/transfer.h"
#include "graph/graph_proto.h"
#include "rpc/local_link.h"
#include "rpc/recent_ids.h"
#include "rpc/service.h"
#include "services/device_codec.h"
#include "services/local_transfer.h"
#include "services/local_transport.h"
#include "services/messages.h"
#include "services/part_owner.h"
#include "services/record_codec.h"
#include "services/remote_collectives.h"
#include "services/remote_gather.h"
#include "services/remote_worker.h"
#include "tensor/tensor_proto.h"

enum {
  REQUEST_WINDOW = 100000, /* ids remembered, as TensorFlow's workers do */
  IDLE_PARTS_MS = 60000,   /* a peer that fetches no part for so long is gone */
};

struct weft_worker_service {
  weft_worker_client_t *worker; /* retained */
  weft_recent_ids_t *recent;
  weft_part_owner_t *parts; /* owned */
  weft_mutex_t mu;
  weft_local_sender_t *sender; /* owned; made under mu when the first peer on this host wants it */
  bool has_tried;              /* guarded by mu */
};

static weft_worker_client_t *worker_of(weft_served_t *s) {
  return ((weft_worker_service_t *)s->service)->worker;
}
static bool is_new(weft_served_t *s, int64_t id, const char *method) {
  return weft_served_once(s, ((weft_worker_service_t *)s->service)->recent, id, method);
}

/* A worker may be driven without CreateWorkerSession; then the handle means nothing. */
static weft_str_t session_of(bool has_session, weft_str_t session) {
  return has_session ? session : WEFT_STR("");
}

/* ---- sessions ---- */

static void on_status(void *arg, weft_status_t *status, const weft_device_list_t *devices) {
  weft_served_t *s = arg;
  weft_get_status_response_msg_t response = {.device_attributes = {NULL, 0, 0}};
  if (status == NULL) status = weft_devices_to_texts(devices, &s->arena, &response.device_attributes);
  weft_served_answer(s, status, &weft_get_status_response_type, &response);
}

static void get_status(weft_served_t *s) {
  worker_of(s)->ops->get_status(worker_of(s), weft_served_canceller(s), on_status, s);
}

static void create_worker_session(weft_served_t *s) {
  const weft_create_worker_session_request_msg_t *m = s->request;
  weft_worker_session_spec_t spec = {.session = m->session_handle,
                                     .isolate = m->isolate_session_state,
                                     .master_task = m->master_task,
                                     .master_incarnation = m->master_incarnation,
                                     .server_def = m->server_def};
  worker_of(s)->ops->create_session(worker_of(s), &spec, weft_served_done, s);
}

static void delete_worker_session(weft_served_t *s) {
  const weft_delete_worker_session_request_msg_t *m = s->request;
  worker_of(s)->ops->delete_session(worker_of(s), m->session_handle, weft_served_done, s);
}

/* ---- graphs ---- */

static void on_registered(void *arg, weft_status_t *status, weft_str_t handle) {
  weft_served_t *s = arg;
  weft_register_graph_response_msg_t response = {handle};
  weft_served_answer(s, status, &weft_register_graph_response_type, &response);
}

static void register_graph(weft_served_t *s) {
  const weft_register_graph_request_msg_t *m = s->request;
  weft_graph_t *graph = NULL;
  weft_status_t *status = weft_graph_create(&graph);
  weft_import_options_t o = {.allow_internal_ops = true};
  if (status == NULL) status = weft_graph_import(graph, m->graph_def, &o);
  if (status != NULL) {
    weft_graph_destroy(graph);
    weft_served_fail(s, status);
    return;
  }
  worker_of(s)->ops->register_graph(worker_of(s),
                                    session_of(m->create_worker_session_called, m->session_handle), graph,
                                    !m->drops_graph, on_registered, s);
}

static void deregister_graph(weft_served_t *s) {
  const weft_deregister_graph_request_msg_t *m = s->request;
  worker_of(s)->ops->deregister_graph(worker_of(s),
                                      session_of(m->create_worker_session_called, m->session_handle),
                                      m->graph_handle, weft_served_done, s);
}

/* ---- running ---- */

static void fail_run(weft_served_t *s, weft_status_t *status) {
  const weft_run_graph_request_msg_t *m = s->request;
  if (!m->store_errors_in_response_body) {
    weft_served_fail(s, status);
    return;
  }
  weft_run_graph_response_msg_t response = {.status_code = weft_status_code(status),
                                            .status_error_message = weft_str(weft_status_message(status))};
  weft_served_reply(s, &weft_run_graph_response_type, &response);
  weft_status_free(status);
}

static void on_run(void *arg, weft_status_t *status, weft_run_graph_result_t *result) {
  weft_served_t *s = arg;
  const weft_run_graph_request_msg_t *m = s->request;
  if (status != NULL) {
    fail_run(s, status);
    return;
  }
  weft_tensor_t **recvs = result->recvs; /* the array is lent, the references are ours */
  int n = result->num_recvs;
  weft_run_graph_response_msg_t response = {
      .recv = {.names = m->recv_key.items, .items = recvs, .n = n, .capacity = n},
      .step_stats = result->step_stats,
      .ends_itself = result->ends_itself,
      /* The cast drops const: encoding only reads. */
      .partition_graph = {(weft_str_t *)(uintptr_t)result->partition_graphs, result->num_partition_graphs,
                          0}};
  weft_served_reply(s, &weft_run_graph_response_type, &response);
  for (int i = 0; i < n; i++) weft_tensor_release(recvs[i]);
}

static void run_graph(weft_served_t *s) {
  const weft_run_graph_request_msg_t *m = s->request;
  weft_executor_opts_msg_t opts = {false, false};
  if (!is_new(s, m->request_id, "RunGraph (Worker)")) return;
  weft_status_t *status = weft_fields_decode_bytes(&weft_executor_opts_type, m->exec_opts, &s->arena, &opts);
  weft_named_tensor_t *sends = weft_arena_calloc(&s->arena, (size_t)m->send.n + 1, sizeof *sends);
  if (status == NULL && sends == NULL) status = WEFT_NO_MEMORY("a RunGraph");
  if (status != NULL) {
    fail_run(s, status);
    return;
  }
  for (int i = 0; i < m->send.n; i++) sends[i] = (weft_named_tensor_t){m->send.names[i], m->send.items[i]};
  weft_run_graph_t run = {.session = session_of(m->create_worker_session_called, m->session_handle),
                          .graph_handle = m->graph_handle,
                          .step_id = m->step_id,
                          .request_id = m->request_id,
                          .sends = sends,
                          .num_sends = m->send.n,
                          .recv_keys = m->recv_key.items,
                          .num_recvs = m->recv_key.n,
                          .is_partial = m->is_partial,
                          .is_last_partial = m->is_last_partial_run,
                          .record_timeline = opts.record_timeline,
                          .record_partition_graphs = opts.record_partition_graphs};
  worker_of(s)->ops->run_graph(worker_of(s), &run, weft_served_canceller(s), on_run, s);
}

static void cleanup_graph(weft_served_t *s) {
  worker_of(s)->ops->cleanup_graph(
      worker_of(s), ((const weft_cleanup_graph_request_msg_t *)s->request)->step_id, weft_served_done, s);
}

static void cleanup_all(weft_served_t *s) {
  const weft_cleanup_all_request_msg_t *m = s->request;
  worker_of(s)->ops->cleanup_all(worker_of(s), m->container.items, m->container.n, weft_served_done, s);
}

/* ---- tensors ---- */

/* TensorFlow's receivers want a tensor in a dead answer, too. */
static weft_status_t *dead_tensor(weft_tensor_t **out) {
  weft_shape_t nothing = weft_shape_vector(0);
  return weft_tensor_new(WEFT_F32, &nothing, NULL, out);
}

/* NULL if links do not work here. */
static weft_local_sender_t *sender_of(weft_worker_service_t *service) {
  weft_mutex_lock(&service->mu);
  if (!service->has_tried) {
    service->has_tried =
        true; /* once: it opens a socket and starts a thread, which seldom fails and then for good */
    weft_status_free(weft_local_sender_create(&service->sender));
  }
  weft_local_sender_t *sender = service->sender;
  weft_mutex_unlock(&service->mu);
  return sender;
}

static void release_tensor(void *arg) { weft_tensor_release(arg); }
static void release_stream(void *arg) { weft_tensor_stream_release(arg); }
static size_t arrive(void *stream, size_t at) { return weft_tensor_stream_await(stream, at); }

/* Gives the bytes to the link. Those of a device's memory go as they come from there, in parts. False: there
 * is no such link, or no memory. */
static bool put_on_link(weft_local_sender_t *sender, uint64_t link, uint64_t id, weft_str_t header,
                        weft_tensor_t *tensor) {
  bool taken = false;
  if (tensor->space == NULL) {
    weft_tensor_retain(tensor);
    taken =
        weft_local_sender_send(sender, link, id, header, tensor->data, tensor->bytes, release_tensor, tensor);
    if (!taken) weft_tensor_release(tensor);
    return taken;
  }
  weft_tensor_stream_t *stream = NULL; /* not begun without a link: its copies would be made twice */
  weft_status_t *s = weft_local_sender_has(sender, link) ? weft_tensor_stream_begin(tensor, &stream) : NULL;
  weft_status_free(s); /* it goes with the answer then, or fails there */
  if (stream == NULL) return false;
  taken = weft_local_sender_stream(sender, link, id, header, weft_tensor_stream_data(stream), tensor->bytes,
                                   arrive, release_stream, stream);
  if (!taken) weft_tensor_stream_release(stream);
  return taken;
}

/* Is the request of a large tensor one of a peer on this host? Fills *out with what that says of itself. */
static bool is_for_local_peer(weft_served_t *s, const weft_tensor_t *tensor,
                              weft_local_transport_msg_t *out) {
  const weft_recv_tensor_request_msg_t *m = s->request;
  return tensor->bytes >= WEFT_LOCAL_ROOM_MIN_BYTES && weft_dtype_is_plain(tensor->dtype) &&
         weft_local_transport_from_any(m->transport_options, &s->arena, out) && out->host.length > 0 &&
         weft_str_eq(out->host, weft_local_link_host());
}

/* False: there is no such link, or no memory. */
static bool put_with_header(weft_local_sender_t *sender, uint64_t link, uint64_t id, weft_tensor_t *tensor) {
  weft_strbuf_t header = WEFT_STRBUF_INIT;
  weft_tensor_proto_header(tensor, &header);
  const bool taken =
      !header.failed && put_on_link(sender, link, id, weft_str_of(header.data, header.length), tensor);
  weft_strbuf_deinit(&header);
  return taken;
}

/* A large tensor for a peer on this host: over the link, or an offer to make one. True if it is on its way.
 */
static bool send_locally(weft_served_t *s, weft_tensor_t *tensor, weft_strbuf_t *options) {
  const weft_recv_tensor_request_msg_t *m = s->request;
  weft_local_transport_msg_t peer = {.link = 0}, answer = {.link = 0};
  if (!is_for_local_peer(s, tensor, &peer)) return false;
  weft_local_sender_t *sender = sender_of(s->service);
  if (sender == NULL) return false;
  answer.is_on_link = tensor->bytes >= WEFT_LOCAL_TRANSFER_MIN_BYTES &&
                      put_with_header(sender, peer.link, (uint64_t)m->request_id, tensor);
  if (!answer.is_on_link && peer.link == 0) answer.name = weft_local_sender_name(sender);
  weft_local_transport_to_any(&answer, options);
  return answer.is_on_link;
}

/* Answers with `tensor`, which lies in the host's memory; NULL: it is on the link. Consumes `status` and
 * `tensor`. */
static void answer_with(weft_served_t *s, weft_status_t *status, weft_tensor_t *tensor, bool is_dead,
                        weft_str_t options) {
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    weft_recv_tensor_response_msg_t response = {.tensor = tensor,
                                                .transport_options = options,
                                                .is_dead = is_dead,
                                                .send_start_micros = weft_clock_micros()};
    weft_served_reply(s, &weft_recv_tensor_response_type, &response);
  }
  weft_tensor_release(tensor);
}

/* gRPC's message holds the whole tensor, so all of it is copied before any of it is sent. */
static void on_host(void *arg, weft_status_t *status, weft_tensor_t *tensor) {
  weft_served_t *s = arg;
  weft_strbuf_t options = WEFT_STRBUF_INIT;
  const bool is_on_link = status == NULL && send_locally(s, tensor, &options);
  if (status == NULL && options.failed) status = WEFT_NO_MEMORY("a RecvTensor");
  if (is_on_link || status != NULL) {
    weft_tensor_release(tensor);
    tensor = NULL;
  }
  answer_with(s, status, tensor, false, weft_str_of(options.data, options.length));
  weft_strbuf_deinit(&options);
}

/* Answers with a tensor of a device's memory, by one of the ways that all peers know. Consumes `tensor`. */
static void answer_by_host(weft_served_t *s, weft_tensor_t *tensor) {
  weft_strbuf_t options = WEFT_STRBUF_INIT;
  if (send_locally(s, tensor, &options)) {
    answer_with(s, options.failed ? WEFT_NO_MEMORY("a RecvTensor") : NULL, NULL, false,
                weft_str_of(options.data, options.length));
  } else {
    weft_tensor_at(tensor, NULL, on_host, s);
  }
  weft_tensor_release(tensor);
  weft_strbuf_deinit(&options);
}

/* ---- tensors that peers on other hosts fetch in parts ---- */

/* Is it worth it? Only a copy out of a device's memory, or into one, can be under way beside the network. */
static bool is_for_parts(weft_served_t *s, const weft_tensor_t *tensor) {
  const weft_recv_tensor_request_msg_t *m = s->request;
  weft_local_transport_msg_t peer = {.link = 0};
  return tensor->bytes >= WEFT_PARTS_MIN_BYTES && weft_dtype_is_plain(tensor->dtype) &&
         weft_local_transport_from_any(m->transport_options, &s->arena, &peer) && peer.takes_parts &&
         (tensor->space != NULL || peer.to_device) && !is_for_local_peer(s, tensor, &peer);
}

/* Answers with what the tensor is. False: it is not for parts, or cannot be kept, and nothing was taken. Else
 * `tensor` is consumed. */
static bool answer_in_parts(weft_served_t *s, weft_tensor_t *tensor) {
  const weft_recv_tensor_request_msg_t *m = s->request;
  if (!is_for_parts(s, tensor)) return false;
  weft_strbuf_t head = WEFT_STRBUF_INIT, options = WEFT_STRBUF_INIT;
  weft_tensor_proto_header(tensor, &head);
  const weft_local_transport_msg_t answer = {
      .in_parts = true, .head = weft_str_of(head.data, head.length), .bytes = (int64_t)tensor->bytes};
  weft_local_transport_to_any(&answer, &options);
  weft_status_t *status = head.failed || options.failed
                              ? WEFT_NO_MEMORY("a RecvTensor")
                              : weft_part_owner_keep(((weft_worker_service_t *)s->service)->parts,
                                                     (uint64_t)m->request_id, tensor);
  const bool ok = status == NULL;
  weft_status_free(status); /* it goes with the answer then, or fails there */
  if (ok) {
    answer_with(s, NULL, NULL, false, weft_str_of(options.data, options.length));
    weft_tensor_release(tensor);
  }
  weft_strbuf_deinit(&head);
  weft_strbuf_deinit(&options);
  return ok;
}

static void recv_tensor_part(weft_served_t *s) {
  weft_part_owner_serve(((weft_worker_service_t *)s->service)->parts, s);
}

static void answer_otherwise(weft_served_t *s, weft_tensor_t *tensor) {
  if (answer_in_parts(s, tensor)) {
    return;
  } else if (tensor->space == NULL) {
    on_host(s, NULL, tensor);
  } else {
    answer_by_host(s, tensor);
  }
}

/* ---- tensors that the peer reads where they lie, or in the room that it shares with us ---- */

/* From the request until the receiver gives the tensor back, or until it lies in the room. */
typedef struct loan {
  weft_fence_waiter_t waiter;
  weft_served_t *call;   /* until it is answered */
  weft_tensor_t *tensor; /* retained */
  weft_local_sender_t *sender;
  uint64_t link, id;
  weft_local_transport_msg_t peer; /* lent by the call */
} loan_t;

static bool on_given_back(void *arg, weft_local_end_t how) {
  loan_t *l = arg;
  const bool ok = how != WEFT_LOCAL_UNUSABLE || put_with_header(l->sender, l->link, l->id, l->tensor);
  weft_tensor_release(l->tensor);
  weft_free(l);
  return ok;
}

/* Answers with where the tensor lies in the room: behind the copy, or before it, if the receiver looks for
 * its end. Consumes `l` and its tensor. False: the tensor is too large, its bytes or its receiver are not in
 * the host's memory, or there is no room; nothing has happened then. */
static bool answer_by_room(loan_t *l) {
  weft_served_t *call = l->call;
  weft_tensor_t *tensor = l->tensor;
  weft_local_place_t place;
  weft_strbuf_t head = WEFT_STRBUF_INIT, options = WEFT_STRBUF_INIT;
  if (tensor->space != NULL || l->peer.to_device || tensor->bytes > WEFT_LOCAL_ROOM_MOST ||
      !weft_local_sender_take(l->sender, l->link, l->id, tensor->bytes, &place))
    return false;
  const bool is_filling = l->peer.is_filling && tensor->bytes >= WEFT_LOCAL_ROOM_EARLY_BYTES &&
                          weft_rpc_call_was_looked_for(call->call);
  weft_tensor_retain(tensor); /* until it is copied */
  if (!is_filling && !weft_local_sender_fill(&place, tensor->data, tensor->bytes, release_tensor, tensor))
    return false;
  weft_tensor_proto_header(tensor, &head);
  const weft_local_transport_msg_t answer = {.in_room = true,
                                             .is_filling = is_filling,
                                             .offset = (int64_t)place.at,
                                             .head = weft_str_of(head.data, head.length),
                                             .bytes = (int64_t)tensor->bytes};
  weft_local_transport_to_any(&answer, &options);
  weft_free(l);
  weft_rpc_call_expect_more(call->call);
  /* Where the answer fails, the receiver gives the place back. */
  answer_with(call, head.failed || options.failed ? WEFT_NO_MEMORY("a RecvTensor") : NULL, NULL, false,
              weft_str_of(options.data, options.length));
  if (is_filling) (void)weft_local_sender_fill(&place, tensor->data, tensor->bytes, release_tensor, tensor);
  weft_tensor_release(tensor);
  weft_strbuf_deinit(&head);
  weft_strbuf_deinit(&options);
  return true;
}

/* Lends the tensor and fills in where it lies. False: the receiver cannot read it, or its link is over. */
static bool lend(loan_t *l, weft_strbuf_t *options) {
  WEFT_SharedMemory memory;
  weft_strbuf_t head = WEFT_STRBUF_INIT;
  bool ok = l->tensor->bytes >= WEFT_LOCAL_TRANSFER_MIN_BYTES && l->peer.device.length > 0 &&
            weft_peer_memory_export(l->tensor, l->peer.device_type, l->peer.device, &memory) &&
            memory.offset <= INT64_MAX;
  if (ok) weft_tensor_proto_header(l->tensor, &head);
  ok = ok && !head.failed;
  if (ok) {
    const weft_local_transport_msg_t answer = {
        .memory = weft_str_of((const char *)memory.handle, sizeof memory.handle),
        .offset = (int64_t)memory.offset,
        .head = weft_str_of(head.data, head.length),
        .bytes = (int64_t)l->tensor->bytes};
    weft_local_transport_to_any(&answer, options);
    ok = !options->failed && weft_local_sender_lend(l->sender, l->link, l->id, on_given_back, l);
  }
  weft_strbuf_deinit(&head);
  return ok;
}

static void on_made(void *arg, weft_status_t *status) {
  loan_t *l = arg;
  weft_served_t *call = l->call;
  weft_tensor_t *tensor = l->tensor;
  weft_strbuf_t options = WEFT_STRBUF_INIT;
  if (status == NULL && answer_by_room(l)) return;
  if (status == NULL && lend(l, &options)) { /* `l` may be gone */
    answer_with(call, NULL, NULL, false, weft_str_of(options.data, options.length));
  } else {
    weft_free(l);
    if (status == NULL) {
      answer_otherwise(call, tensor);
    } else {
      weft_tensor_release(tensor);
      answer_with(call, status, NULL, false, WEFT_STR(""));
    }
  }
  weft_strbuf_deinit(&options);
}

/* Answers when the tensor is made, if the peer has a link. False: it has none, and nothing was taken. Else
 * `tensor` is consumed. */
static bool answer_by_loan(weft_served_t *s, weft_tensor_t *tensor) {
  const weft_recv_tensor_request_msg_t *m = s->request;
  weft_local_transport_msg_t peer = {.link = 0};
  if (!is_for_local_peer(s, tensor, &peer)) return false;
  weft_local_sender_t *sender = sender_of(s->service);
  if (sender == NULL || !weft_local_sender_has(sender, peer.link)) return false;
  loan_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return false;
  l->call = s;
  l->tensor = tensor;
  l->sender = sender;
  l->link = peer.link;
  l->id = (uint64_t)m->request_id;
  l->peer = peer;
  weft_fence_then(tensor->fence, &l->waiter, on_made, l);
  return true;
}

static void on_received(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  weft_served_t *s = arg;
  if (status == NULL && tensor == NULL) status = dead_tensor(&tensor);
  if (status != NULL || is_dead) {
    answer_with(s, status, tensor, is_dead, WEFT_STR(""));
  } else if (!answer_by_loan(s, tensor)) {
    answer_otherwise(s, tensor);
  }
}

static void recv_tensor(weft_served_t *s) {
  const weft_recv_tensor_request_msg_t *m = s->request;
  if (!is_new(s, m->request_id, "RecvTensor (GrpcWorker)")) return;
  worker_of(s)->ops->recv_tensor(worker_of(s), m->step_id, weft_key(m->rendezvous_key),
                                 weft_served_canceller(s), on_received, s);
}

static void recv_tensors(weft_served_t *s) {
  const weft_recv_tensors_request_msg_t *m = s->request;
  if (is_new(s, m->request_id, "RecvTensors (weft.WorkerService)")) weft_serve_recv_tensors(worker_of(s), s);
}

/* ---- the rest ---- */

static void on_logged(void *arg, weft_status_t *status, weft_str_t text) {
  weft_served_t *s = arg;
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    weft_served_reply_bytes(s, text);
  }
}

static void logging(weft_served_t *s) {
  weft_str_t bytes;
  weft_status_t *status = weft_message_flatten(weft_rpc_call_request(s->call), &bytes);
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  worker_of(s)->ops->logging(worker_of(s), bytes, on_logged, s);
}

/* Tracing has no effect in TensorFlow's workers either; MarkRecvFinished frees an answer that we never keep.
 */
static void accept_and_ignore(weft_served_t *s) { weft_served_done(s, NULL); }

/* ---- observers ---- */

static void on_record(void *arg, weft_status_t *status, const weft_record_answer_t *answer) {
  weft_served_t *s = arg;
  weft_record_response_msg_t response = {.num_dropped = 0};
  if (status == NULL) status = weft_record_answer_to_msg(answer, &s->arena, &response);
  weft_served_answer(s, status, &weft_record_response_type, &response);
}

static void record(weft_served_t *s) {
  const weft_record_request_t r = weft_record_request_from_msg(s->request);
  worker_of(s)->ops->record(worker_of(s), &r, weft_served_canceller(s), on_record, s);
}

/* ---- collectives ---- */

static void on_step_ids(void *arg, weft_status_t *status, const int64_t *step_ids) {
  weft_served_t *s = arg;
  const weft_get_step_sequence_request_msg_t *m = s->request;
  weft_get_step_sequence_response_msg_t response = {.step_sequence = {NULL, 0, 0}};
  for (int i = 0; i < m->graph_key.n && status == NULL; i++) {
    weft_step_sequence_msg_t one = {m->graph_key.items[i], step_ids[i]};
    if (!weft_texts_add_message(&response.step_sequence, &s->arena, &weft_step_sequence_type, &one))
      status = WEFT_NO_MEMORY("a GetStepSequence");
  }
  weft_served_answer(s, status, &weft_get_step_sequence_response_type, &response);
}

static void get_step_sequence(weft_served_t *s) {
  const weft_get_step_sequence_request_msg_t *m = s->request;
  worker_of(s)->ops->get_step_sequence(worker_of(s), m->graph_key.items, m->graph_key.n, on_step_ids, s);
}

static void recv_buf(weft_served_t *s) {
  const weft_recv_buf_request_msg_t *m = s->request;
  if (is_new(s, m->request_id, "RecvBuf (GrpcWorker)")) weft_serve_recv_buf(worker_of(s), s);
}

static void complete_group(weft_served_t *s) { weft_serve_complete_group(worker_of(s), s); }
static void complete_instance(weft_served_t *s) { weft_serve_complete_instance(worker_of(s), s); }

#define PATH(rpc) "/tensorflow.WorkerService/" rpc
#define METHOD(rpc, name) WEFT_METHOD(PATH(rpc), name)
#define METHOD_OF_EMPTY(rpc, fn) WEFT_METHOD_OF(PATH(rpc), empty, fn) /* nothing of the request is read */

static const weft_service_method_t methods[] = {
    {METHOD_OF_EMPTY("GetStatus", get_status)},
    {METHOD("CreateWorkerSession", create_worker_session)},
    {METHOD("DeleteWorkerSession", delete_worker_session)},
    {METHOD("RegisterGraph", register_graph)},
    {METHOD("DeregisterGraph", deregister_graph)},
    {METHOD("RunGraph", run_graph), .fail = fail_run},
    {METHOD("CleanupGraph", cleanup_graph)},
    {METHOD("CleanupAll", cleanup_all)},
    {METHOD("RecvTensor", recv_tensor)},
    {WEFT_METHOD("/weft.WorkerService/RecvTensors", recv_tensors)},
    {WEFT_METHOD("/weft.WorkerService/RecvTensorPart", recv_tensor_part)},
    {METHOD("RecvBuf", recv_buf)},
    {METHOD_OF_EMPTY("Logging", logging)},
    {METHOD_OF_EMPTY("Tracing", accept_and_ignore)},
    {METHOD("CompleteGroup", complete_group)},
    {METHOD("CompleteInstance", complete_instance)},
    {METHOD("GetStepSequence", get_step_sequence)},
    {METHOD_OF_EMPTY("MarkRecvFinished", accept_and_ignore)},
    {WEFT_METHOD("/weft.WorkerService/Record", record)},
};

weft_status_t *weft_worker_service_create(weft_worker_client_t *w, weft_rpc_server_t *server,
                                          weft_worker_service_t **out) {
  weft_worker_service_t *made = weft_calloc(1, sizeof *made);
  if (made == NULL) return WEFT_NO_MEMORY("the worker service");
  made->worker = weft_worker_client_retain(w);
  weft_mutex_init(&made->mu);
  weft_status_t *s = weft_recent_ids_create(REQUEST_WINDOW, &made->recent);
  if (s == NULL) s = weft_part_owner_create(IDLE_PARTS_MS, &made->parts);
  if (s == NULL) s = weft_service_register(server, methods, sizeof methods / sizeof methods[0], made);
  if (s != NULL) {
    weft_worker_service_destroy(made);
    return s;
  }
  *out = made;
  return NULL;
}

void weft_worker_service_destroy(weft_worker_service_t *s) {
  if (s == NULL) return;
  weft_local_sender_destroy(s->sender);
  weft_part_owner_destroy(s->parts);
  weft_mutex_deinit(&s->mu);
  weft_recent_ids_destroy(s->recent);
  weft_worker_client_release(s->worker);
  weft_free(s);
}
