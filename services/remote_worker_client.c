/* services/remote_worker_client.c - a worker behind a channel.
 *
 * Calls fail fast, as between TensorFlow's tasks: a peer that is away is
 * UNAVAILABLE at once, and the text names its task. Only GetStatus waits for the
 * peer to come up. A call in flight keeps the client alive.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "collectives/link_counters.h"
#include "graph/graph_proto.h"
#include "services/device_codec.h"
#include "services/local_transfer.h"
#include "services/local_transport.h"
#include "services/messages.h"
#include "services/part_fetch.h"
#include "services/record_codec.h"
#include "services/remote_collectives.h"
#include "services/remote_gather.h"
#include "services/remote_worker.h"

#define METHOD(name) "/tensorflow.WorkerService/" name

/* An observer waits a little for a task that is being started, and for one that is busy. */
enum {
  DELETE_SESSION_MS = 10000,
  STEP_SEQUENCE_MS = 600000,
  OPEN_RECORD_MS = 5000,
  RECORD_MS = 10000,
  PEAKS_MS = 60000
};
enum { FEW = 4 }; /* tensors that a RunGraph brings or gets without an allocation for their list */

typedef struct remote_worker {
  weft_worker_client_t base;
  weft_rpc_channel_t *channel;       /* retained */
  weft_local_transfers_t *transfers; /* owned: large tensors, if the worker is on this host */
} remote_worker_t;

/* One call in flight: what it was, and the callback for its answer. */
typedef struct pending {
  remote_worker_t *worker; /* retained */
  const char *path;
  union {
    weft_done_fn *done;
    weft_devices_fn *devices;
    weft_text_fn *text;
    weft_run_graph_fn *run;
    weft_recv_fn *recv;
    weft_step_ids_fn *step_ids;
    weft_record_fn *record;
  } fn;
  void *arg;
  const weft_str_t *recv_keys; /* of a RunGraph; lent by the caller */
  int num_recvs;
  int64_t request_id;
  weft_canceller_t *canceller;      /* of a RecvTensor; lent by the caller */
  const weft_memory_space_t *space; /* of a RecvTensor; where it is wanted */
  char *logged_key;                 /* of a RecvTensor that the worker's log wants; owned */
  weft_transfer_t transfer;         /* the same */
} pending_t;

static void pending_free(pending_t *p) {
  weft_worker_client_release(&p->worker->base);
  weft_free(p->logged_key);
  weft_free(p);
}

/* A failure of the call itself, not one in a body: names the called task, in TensorFlow's words. */
static weft_status_t *name_peer(const pending_t *p, weft_status_t *s) {
  if (s == NULL) return NULL;
  weft_status_t *named =
      weft_status_new(weft_status_code(s), __FILE__, __LINE__,
                      "%s\nAdditional GRPC error information from remote target %.*s while calling %s",
                      weft_status_message(s), WEFT_STR_ARGS(p->worker->base.task), p->path);
  weft_status_free(s);
  return named;
}

static pending_t *pending_new(weft_worker_client_t *w, const char *path, void *arg) {
  pending_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return NULL;
  p->worker = (remote_worker_t *)(void *)weft_worker_client_retain(w);
  p->path = path;
  p->arg = arg;
  return p;
}

static weft_status_t *no_memory(const char *path) { return WEFT_NO_MEMORY("calling %s", path); }

/* Encodes the request and sends it. On failure the answer comes at once. */
static void send_request(pending_t *p, const weft_message_type_t *type, const void *request,
                         const weft_rpc_options_t *o, weft_rpc_done_fn *answered) {
  weft_message_t *m = NULL;
  weft_status_t *s = weft_fields_encode(type, request, &m);
  if (s != NULL) {
    answered(p, s, NULL);
    return;
  }
  weft_rpc_call(p->worker->channel, p->path, m, o, answered, p);
}

/* ---- answers without content ---- */

static void on_done(void *arg, weft_status_t *status, weft_message_t *response) {
  pending_t *p = arg;
  weft_message_destroy(response);
  p->fn.done(p->arg, name_peer(p, status));
  pending_free(p);
}

static void call_for_nothing(weft_worker_client_t *w, const char *path, const weft_message_type_t *type,
                             const void *request, int64_t timeout_ms, weft_done_fn *fn, void *arg) {
  pending_t *p = pending_new(w, path, arg);
  if (p == NULL) {
    fn(arg, no_memory(path));
    return;
  }
  p->fn.done = fn;
  weft_rpc_options_t o = {.timeout_ms = timeout_ms};
  send_request(p, type, request, &o, on_done);
}

static void create_session(weft_worker_client_t *w, const weft_worker_session_spec_t *spec, weft_done_fn *fn,
                           void *arg) {
  weft_create_worker_session_request_msg_t request = {.session_handle = spec->session,
                                                      .server_def = spec->server_def,
                                                      .master_task = spec->master_task,
                                                      .isolate_session_state = spec->isolate,
                                                      .master_incarnation = spec->master_incarnation};
  call_for_nothing(w, METHOD("CreateWorkerSession"), &weft_create_worker_session_request_type, &request, 0,
                   fn, arg);
}

static void delete_session(weft_worker_client_t *w, weft_str_t session, weft_done_fn *fn, void *arg) {
  weft_delete_worker_session_request_msg_t request = {session};
  call_for_nothing(w, METHOD("DeleteWorkerSession"), &weft_delete_worker_session_request_type, &request,
                   DELETE_SESSION_MS, fn, arg);
}

static void deregister_graph(weft_worker_client_t *w, weft_str_t session, weft_str_t graph_handle,
                             weft_done_fn *fn, void *arg) {
  weft_deregister_graph_request_msg_t request = {.graph_handle = graph_handle,
                                                 .session_handle = session,
                                                 .create_worker_session_called = session.length > 0};
  call_for_nothing(w, METHOD("DeregisterGraph"), &weft_deregister_graph_request_type, &request, 0, fn, arg);
}

static void cleanup_graph(weft_worker_client_t *w, int64_t step_id, weft_done_fn *fn, void *arg) {
  weft_cleanup_graph_request_msg_t request = {step_id};
  call_for_nothing(w, METHOD("CleanupGraph"), &weft_cleanup_graph_request_type, &request, 0, fn, arg);
}

static void cleanup_all(weft_worker_client_t *w, const weft_str_t *containers, int n, weft_done_fn *fn,
                        void *arg) {
  /* The cast drops const: encoding only reads. */
  weft_cleanup_all_request_msg_t request = {{(weft_str_t *)(uintptr_t)containers, n, n}};
  call_for_nothing(w, METHOD("CleanupAll"), &weft_cleanup_all_request_type, &request, 0, fn, arg);
}

/* ---- status and graphs ---- */

static void on_status(void *arg, weft_status_t *status, weft_message_t *response) {
  pending_t *p = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_device_list_t devices = {.arena = WEFT_ARENA_INIT};
  weft_get_status_response_msg_t body = {.device_attributes = {NULL, 0, 0}};
  status = name_peer(p, status);
  if (status == NULL) status = weft_fields_decode(&weft_get_status_response_type, response, &arena, &body);
  if (status == NULL) status = weft_devices_from_texts(&body.device_attributes, &devices);
  p->fn.devices(p->arg, status, status == NULL ? &devices : NULL);
  weft_device_list_deinit(&devices);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  pending_free(p);
}

static void get_status(weft_worker_client_t *w, weft_canceller_t *canceller, weft_devices_fn *fn, void *arg) {
  pending_t *p = pending_new(w, METHOD("GetStatus"), arg);
  if (p == NULL) {
    fn(arg, no_memory(METHOD("GetStatus")), NULL);
    return;
  }
  p->fn.devices = fn;
  weft_rpc_options_t o = {.wait_for_ready = true, .canceller = canceller};
  send_request(p, &weft_empty_type, NULL, &o, on_status);
}

static void on_registered(void *arg, weft_status_t *status, weft_message_t *response) {
  pending_t *p = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_register_graph_response_msg_t body = {{NULL, 0}};
  status = name_peer(p, status);
  if (status == NULL)
    status = weft_fields_decode(&weft_register_graph_response_type, response, &arena, &body);
  p->fn.text(p->arg, status, body.graph_handle);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  pending_free(p);
}

static void register_graph(weft_worker_client_t *w, weft_str_t session, weft_graph_t *graph, bool keeps_graph,
                           weft_text_fn *fn, void *arg) {
  const char *path = METHOD("RegisterGraph");
  weft_strbuf_t def = WEFT_STRBUF_INIT;
  pending_t *p = pending_new(w, path, arg);
  weft_status_t *s = p == NULL ? no_memory(path) : weft_graph_export(graph, true, &def);
  weft_graph_destroy(graph);
  if (s == NULL && def.failed) s = no_memory(path);
  if (s != NULL) {
    if (p != NULL) pending_free(p);
    weft_strbuf_deinit(&def);
    fn(arg, s, WEFT_STR(""));
    return;
  }
  p->fn.text = fn;
  weft_register_graph_request_msg_t request = {.session_handle = session,
                                               .graph_def = weft_str_of(def.data, def.length),
                                               .create_worker_session_called = session.length > 0,
                                               .drops_graph = !keeps_graph};
  send_request(p, &weft_register_graph_request_type, &request, NULL, on_registered);
  weft_strbuf_deinit(&def);
}

/* ---- running ---- */

/* The answer's tensors in the order of the keys asked for. Moves references out of `from`. */
static weft_status_t *arrange(const pending_t *p, weft_tensors_t *from, weft_tensor_t **out) {
  for (int i = 0; i < p->num_recvs; i++) {
    int at = i < from->n && weft_str_eq(from->names[i], p->recv_keys[i]) ? i : 0;
    while (at < from->n && (from->items[at] == NULL || !weft_str_eq(from->names[at], p->recv_keys[i]))) at++;
    if (at == from->n) {
      return WEFT_ERROR(INTERNAL, "%.*s did not return the tensor for %.*s",
                        WEFT_STR_ARGS(p->worker->base.task), WEFT_STR_ARGS(p->recv_keys[i]));
    }
    out[i] = from->items[at];
    from->items[at] = NULL;
  }
  return NULL;
}

static void on_run(void *arg, weft_status_t *status, weft_message_t *response) {
  pending_t *p = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_run_graph_response_msg_t body;
  memset(&body, 0, sizeof body);
  weft_tensor_t *few[FEW] = {NULL};
  weft_tensor_t **recvs =
      p->num_recvs <= FEW ? few : weft_arena_calloc(&arena, (size_t)p->num_recvs, sizeof *recvs);
  status = name_peer(p, status);
  if (status == NULL && recvs == NULL) status = no_memory(p->path);
  if (status == NULL) status = weft_fields_decode(&weft_run_graph_response_type, response, &arena, &body);
  if (status == NULL)
    status = weft_status_from_wire((int)body.status_code, body.status_error_message.data,
                                   body.status_error_message.length);
  if (status == NULL) status = arrange(p, &body.recv, recvs);
  weft_run_graph_result_t result = {.recvs = recvs,
                                    .num_recvs = p->num_recvs,
                                    .step_stats = body.step_stats,
                                    .partition_graphs = body.partition_graph.items,
                                    .num_partition_graphs = body.partition_graph.n,
                                    .ends_itself = body.ends_itself};
  for (int i = 0; status != NULL && recvs != NULL && i < p->num_recvs; i++) weft_tensor_release(recvs[i]);
  p->fn.run(p->arg, status, status == NULL ? &result : NULL);
  weft_fields_release(&weft_run_graph_response_type, &body);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  pending_free(p);
}

static void run_graph(weft_worker_client_t *w, const weft_run_graph_t *run, weft_canceller_t *canceller,
                      weft_run_graph_fn *fn, void *arg) {
  const char *path = METHOD("RunGraph");
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_strbuf_t opts = WEFT_STRBUF_INIT;
  pending_t *p = pending_new(w, path, arg);
  weft_str_t few_names[FEW];
  weft_tensor_t *few_tensors[FEW];
  const size_t n = (size_t)run->num_sends;
  weft_str_t *names = n <= FEW ? few_names : weft_arena_calloc(&arena, n, sizeof *names);
  weft_tensor_t **tensors = n <= FEW ? few_tensors : weft_arena_calloc(&arena, n, sizeof *tensors);
  weft_executor_opts_msg_t wanted = {run->record_timeline, run->record_partition_graphs};
  weft_fields_encode_bytes(&weft_executor_opts_type, &wanted, &opts);
  if (p == NULL || names == NULL || tensors == NULL || opts.failed) {
    if (p != NULL) pending_free(p);
    fn(arg, no_memory(path), NULL);
  } else {
    for (int i = 0; i < run->num_sends; i++) {
      names[i] = run->sends[i].name;
      tensors[i] = run->sends[i].tensor;
    }
    p->fn.run = fn;
    p->recv_keys = run->recv_keys;
    p->num_recvs = run->num_recvs;
    weft_run_graph_request_msg_t request = {
        .graph_handle = run->graph_handle,
        .session_handle = run->session,
        .exec_opts = weft_str_of(opts.data, opts.length),
        .step_id = run->step_id,
        .request_id = run->request_id,
        .send = {names, tensors, run->num_sends, run->num_sends},
        .recv_key = {(weft_str_t *)(uintptr_t)run->recv_keys, run->num_recvs, run->num_recvs}, /* only read */
        .is_partial = run->is_partial,
        .is_last_partial_run = run->is_last_partial,
        .store_errors_in_response_body = true,
        .create_worker_session_called = run->session.length > 0};
    weft_rpc_options_t o = {.canceller = canceller};
    send_request(p, &weft_run_graph_request_type, &request, &o, on_run);
  }
  weft_strbuf_deinit(&opts);
  weft_arena_deinit(&arena);
}

/* ---- tensors ---- */

static void ignore_answer(void *arg, weft_status_t *status) {
  (void)arg;
  weft_status_free(status); /* an acknowledgement: the peer forgets in time without it */
}

/* Notes when the receive began, if the step is traced. */
static void begin_log(pending_t *p, int64_t step_id, weft_str_t key) {
  if (!weft_transfer_log_wants(p->worker->base.transfers, step_id)) return;
  p->logged_key = weft_strndup(key.data, key.length);
  p->transfer = (weft_transfer_t){
      .step_id = step_id, .key = weft_str(p->logged_key), .start_micros = weft_clock_micros()};
}

/* The transfer proper began when the peer had the tensor: what was before is waiting. */
static void log_sent(pending_t *p, int64_t send_start_micros) {
  if (send_start_micros > p->transfer.start_micros) p->transfer.start_micros = send_start_micros;
}

static void end_log(pending_t *p, const weft_tensor_t *tensor) {
  const weft_worker_client_t *w = &p->worker->base;
  if (tensor != NULL)
    weft_link_counters_add(w->counters, w->task, w->seen_from, WEFT_TRAFFIC_TENSOR, tensor->bytes);
  if (p->logged_key == NULL || tensor == NULL) return;
  p->transfer.end_micros = weft_clock_micros();
  p->transfer.bytes = (int64_t)tensor->bytes;
  if (p->transfer.start_micros > p->transfer.end_micros) p->transfer.start_micros = p->transfer.end_micros;
  weft_transfer_log_add(p->worker->base.transfers, &p->transfer);
}

static void on_linked(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  pending_t *p = arg;
  end_log(p, tensor);
  p->fn.recv(p->arg, status, tensor, is_dead);
  pending_free(p);
}

static void on_fetched(void *arg, weft_status_t *status, weft_tensor_t *tensor) {
  pending_t *p = arg;
  on_linked(p, name_peer(p, status), tensor, false);
}

/* The answer holds the tensor itself, or says that it is dead. */
static void deliver(pending_t *p, weft_status_t *status, weft_recv_tensor_response_msg_t *body) {
  if (status == NULL && body->tensor == NULL && !body->is_dead)
    status = WEFT_ERROR(INVALID_ARGUMENT, "RecvTensorResponse from %.*s has no tensor",
                        WEFT_STR_ARGS(p->worker->base.task));
  if (status == NULL && body->require_ack) {
    weft_mark_recv_finished_request_msg_t ack = {p->request_id};
    call_for_nothing(&p->worker->base, METHOD("MarkRecvFinished"), &weft_mark_recv_finished_request_type,
                     &ack, 0, ignore_answer, NULL);
  }
  weft_tensor_t *tensor = NULL;
  if (status == NULL && !body->is_dead) {
    tensor = body->tensor;
    body->tensor = NULL;
  }
  end_log(p, tensor);
  p->fn.recv(p->arg, status, tensor, status == NULL && body->is_dead);
  pending_free(p);
}

static void on_received(void *arg, weft_status_t *status, weft_message_t *response) {
  pending_t *p = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_recv_tensor_response_msg_t body = {.tensor = NULL};
  weft_local_transport_msg_t local = {.link = 0};
  status = name_peer(p, status);
  if (status == NULL) status = weft_fields_decode(&weft_recv_tensor_response_type, response, &arena, &body);
  if (status == NULL) (void)weft_local_transport_from_any(body.transport_options, &arena, &local);
  log_sent(p, body.send_start_micros);
  bool is_elsewhere = local.is_on_link || local.memory.length > 0;
  if (local.in_room && status == NULL) {
    is_elsewhere =
        !weft_local_transfers_take(p->worker->transfers, p->request_id, &local, &status, &body.tensor);
    weft_rpc_channel_expect_more(p->worker->channel);
  }
  if (local.memory.length > 0) weft_local_transfers_import(p->worker->transfers, p->request_id, &local);
  if (is_elsewhere) {
    weft_local_transfers_await(p->worker->transfers, p->request_id, p->canceller, on_linked, p);
  } else {
    weft_local_transfers_forget(p->worker->transfers, p->request_id, status != NULL);
    if (local.name.length > 0) weft_local_transfers_offer(p->worker->transfers, local.name);
    if (local.in_parts) {
      weft_part_fetch(p->worker->channel, p->request_id, &local, p->space, p->canceller, on_fetched, p);
    } else {
      deliver(p, status, &body);
    }
  }
  weft_fields_release(&weft_recv_tensor_response_type, &body);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
}

static void recv_tensor(weft_worker_client_t *w, int64_t step_id, weft_key_t key, weft_canceller_t *canceller,
                        weft_recv_fn *fn, void *arg) {
  pending_t *p = pending_new(w, METHOD("RecvTensor"), arg);
  if (p == NULL) {
    fn(arg, no_memory(METHOD("RecvTensor")), NULL, false);
    return;
  }
  p->fn.recv = fn;
  p->canceller = canceller;
  p->space = key.space;
  p->request_id = (int64_t)weft_random_id();
  begin_log(p, step_id, key.text);
  weft_strbuf_t options = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_local_transfers_expect(p->worker->transfers, p->request_id, key.space, &options);
  if (s == NULL && options.failed) s = no_memory(p->path);
  weft_recv_tensor_request_msg_t request = {.step_id = step_id,
                                            .request_id = p->request_id,
                                            .rendezvous_key = key.text,
                                            .transport_options = weft_str_of(options.data, options.length)};
  weft_rpc_options_t o = {.canceller = canceller};
  if (s != NULL) {
    on_received(p, s, NULL);
  } else {
    send_request(p, &weft_recv_tensor_request_type, &request, &o, on_received);
  }
  weft_strbuf_deinit(&options);
}

/* ---- collectives ---- */

static weft_status_t *read_step_ids(const pending_t *p, const weft_get_step_sequence_response_msg_t *body,
                                    weft_arena_t *arena, int64_t *out) {
  if (body->step_sequence.n != p->num_recvs) {
    return WEFT_ERROR(INTERNAL, "%.*s gave %d step ids instead of %d", WEFT_STR_ARGS(p->worker->base.task),
                      body->step_sequence.n, p->num_recvs);
  }
  for (int i = 0; i < p->num_recvs; i++) {
    weft_step_sequence_msg_t one = {0, 0};
    WEFT_RETURN_IF_ERROR(
        weft_fields_decode_bytes(&weft_step_sequence_type, body->step_sequence.items[i], arena, &one));
    out[i] = one.next_step_id;
  }
  return NULL;
}

static void on_step_ids(void *arg, weft_status_t *status, weft_message_t *response) {
  pending_t *p = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_get_step_sequence_response_msg_t body = {.step_sequence = {NULL, 0, 0}};
  int64_t *ids = weft_arena_calloc(&arena, (size_t)p->num_recvs + 1, sizeof *ids);
  status = name_peer(p, status);
  if (status == NULL && ids == NULL) status = no_memory(p->path);
  if (status == NULL)
    status = weft_fields_decode(&weft_get_step_sequence_response_type, response, &arena, &body);
  if (status == NULL) status = read_step_ids(p, &body, &arena, ids);
  p->fn.step_ids(p->arg, status, ids);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  pending_free(p);
}

static void get_step_sequence(weft_worker_client_t *w, const int64_t *graph_keys, int n, weft_step_ids_fn *fn,
                              void *arg) {
  pending_t *p = pending_new(w, METHOD("GetStepSequence"), arg);
  if (p == NULL) {
    fn(arg, no_memory(METHOD("GetStepSequence")), NULL);
    return;
  }
  p->fn.step_ids = fn;
  p->num_recvs = n;
  weft_get_step_sequence_request_msg_t request = {{(int64_t *)(uintptr_t)graph_keys, n, n}}; /* only read */
  /* Waits for a leader that has not been started yet; one that is lost ends all calls to it. */
  weft_rpc_options_t o = {.wait_for_ready = true, .ends_at_loss = true, .timeout_ms = STEP_SEQUENCE_MS};
  send_request(p, &weft_get_step_sequence_request_type, &request, &o, on_step_ids);
}

static weft_rpc_channel_t *channel_of(weft_worker_client_t *w) {
  return ((remote_worker_t *)(void *)w)->channel;
}

static void recv_tensors(weft_worker_client_t *w, int64_t step_id, const weft_key_t *keys, int n,
                         weft_canceller_t *canceller, weft_gather_fn *fn, void *arg) {
  weft_remote_recv_tensors(w, channel_of(w), step_id, keys, n, canceller, fn, arg);
}

static void recv_buf(weft_worker_client_t *w, const weft_buf_request_t *r, weft_canceller_t *canceller,
                     weft_buf_fn *fn, void *arg) {
  weft_remote_recv_buf(w, channel_of(w), r, canceller, fn, arg);
}

static void complete_group(weft_worker_client_t *w, const weft_group_request_t *r,
                           weft_canceller_t *canceller, weft_group_fn *fn, void *arg) {
  weft_remote_worker_complete_group(w, channel_of(w), r, canceller, fn, arg);
}

static void complete_instance(weft_worker_client_t *w, const weft_instance_request_t *r,
                              weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  weft_remote_worker_complete_instance(w, channel_of(w), r, canceller, fn, arg);
}

static void retire_step(weft_worker_client_t *w, int64_t graph_key, int64_t step_id) {
  (void)w; /* TensorFlow has no call for it: only a caller in the leader's process retires its steps there */
  (void)graph_key;
  (void)step_id;
}

/* ---- the rest ---- */

static void on_logged(void *arg, weft_status_t *status, weft_message_t *response) {
  pending_t *p = arg;
  weft_str_t text = WEFT_STR("");
  status = name_peer(p, status);
  if (status == NULL) status = weft_message_flatten(response, &text);
  p->fn.text(p->arg, status, text);
  weft_message_destroy(response);
  pending_free(p);
}

static void logging(weft_worker_client_t *w, weft_str_t request, weft_text_fn *fn, void *arg) {
  const char *path = METHOD("Logging");
  pending_t *p = pending_new(w, path, arg);
  weft_message_t *m = NULL;
  weft_status_t *s = p == NULL ? no_memory(path) : weft_message_create(&m);
  if (s == NULL) s = weft_message_append(m, request);
  if (s != NULL) {
    weft_message_destroy(m);
    if (p != NULL) pending_free(p);
    fn(arg, s, WEFT_STR(""));
    return;
  }
  p->fn.text = fn;
  weft_rpc_call(p->worker->channel, path, m, NULL, on_logged, p);
}

static void on_record(void *arg, weft_status_t *status, weft_message_t *response) {
  pending_t *p = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_record_response_msg_t body;
  weft_record_answer_t answer;
  memset(&body, 0, sizeof body);
  status = name_peer(p, status);
  if (status == NULL) status = weft_fields_decode(&weft_record_response_type, response, &arena, &body);
  if (status == NULL) status = weft_record_answer_from_msg(&body, &arena, &answer);
  p->fn.record(p->arg, status, status == NULL ? &answer : NULL);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  pending_free(p);
}

static void record(weft_worker_client_t *w, const weft_record_request_t *r, weft_canceller_t *canceller,
                   weft_record_fn *fn, void *arg) {
  const char *path = "/weft.WorkerService/Record";
  pending_t *p = pending_new(w, path, arg);
  if (p == NULL) {
    fn(arg, no_memory(path), NULL);
    return;
  }
  p->fn.record = fn;
  const weft_record_request_msg_t request = weft_record_request_to_msg(r);
  weft_rpc_options_t o = {.wait_for_ready = r->is_first,
                          .timeout_ms = r->is_first         ? OPEN_RECORD_MS
                                        : r->measures_peaks ? PEAKS_MS
                                                            : r->wait_ms + RECORD_MS,
                          .canceller = canceller};
  send_request(p, &weft_record_request_type, &request, &o, on_record);
}

static void destroy(weft_worker_client_t *w) {
  remote_worker_t *r = (remote_worker_t *)(void *)w;
  weft_local_transfers_destroy(r->transfers);
  weft_rpc_channel_release(r->channel);
  weft_free((char *)(uintptr_t)w->task.data);
  weft_free(r);
}

weft_status_t *weft_remote_worker_client_create(weft_rpc_channel_t *channel, weft_str_t task,
                                                weft_worker_client_t **out) {
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
                                               .destroy = destroy};
  remote_worker_t *r = weft_calloc(1, sizeof *r);
  char *name = weft_strndup(task.data, task.length);
  if (r == NULL || name == NULL) {
    weft_free(r);
    weft_free(name);
    return WEFT_NO_MEMORY("a client of %.*s", WEFT_STR_ARGS(task));
  }
  r->base.ops = &ops;
  atomic_init(&r->base.refs, 1);
  r->base.task = weft_str_of(name, task.length);
  weft_status_t *s = weft_local_transfers_create(r->base.task, &r->transfers);
  if (s != NULL) {
    weft_free(name);
    weft_free(r);
    return s;
  }
  r->channel = weft_rpc_channel_retain(channel);
  *out = &r->base;
  return NULL;
}
