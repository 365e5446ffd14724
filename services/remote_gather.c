/* services/remote_gather.c - weft.WorkerService/RecvTensors: the asking and the answering end. */
#include "services/remote_gather.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "collectives/link_counters.h"
#include "services/messages.h"

#define PATH "/weft.WorkerService/RecvTensors"

/* ---- asking ---- */

typedef struct gather_call {
  weft_worker_client_t *worker; /* retained */
  int64_t step_id;
  const weft_key_t *keys; /* lent */
  int n;
  int64_t start_micros; /* of a step whose transfers are logged; else 0 */
  weft_gather_fn *fn;
  void *arg;
} gather_call_t;

/* A failure of the call names the called task, in TensorFlow's words. */
static weft_status_t *name_peer(const gather_call_t *c, weft_status_t *s) {
  weft_status_t *named =
      weft_status_new(weft_status_code(s), __FILE__, __LINE__,
                      "%s\nAdditional GRPC error information from remote target %.*s while calling " PATH,
                      weft_status_message(s), WEFT_STR_ARGS(c->worker->task));
  weft_status_free(s);
  return named;
}

/* The items that the answer tells of, in `arena`. Errors: INTERNAL, if it is no answer to the call. */
static weft_status_t *read_items(const gather_call_t *c, weft_recv_tensors_response_msg_t *body,
                                 weft_arena_t *arena, weft_gathered_t **out) {
  const int n = body->key.n;
  int num_tensors = 0;
  int64_t last = -1;
  weft_gathered_t *items = weft_arena_calloc(arena, (size_t)n + 1, sizeof *items);
  if (items == NULL) return WEFT_NO_MEMORY("calling %s", PATH);
  bool ok = n > 0 && body->kind.n == n;
  for (int i = 0; ok && i < n; i++) {
    const int64_t key = body->key.items[i], kind = body->kind.items[i];
    ok = key > last && key < c->n && kind >= WEFT_GATHERED_TENSOR && kind <= WEFT_GATHERED_ALONE;
    if (!ok) break;
    last = key;
    items[i] = (weft_gathered_t){.key = (int)key, .kind = (weft_gathered_kind_t)kind};
    if (kind != WEFT_GATHERED_TENSOR) continue;
    ok = num_tensors < body->tensor.n;
    if (ok) items[i].tensor = body->tensor.items[num_tensors++];
  }
  if (!ok || num_tensors != body->tensor.n)
    return WEFT_ERROR(INTERNAL, "%.*s answered a receive of %d tensors with something else",
                      WEFT_STR_ARGS(c->worker->task), c->n);
  *out = items;
  return NULL;
}

/* Counts what has come, and notes it for a step that is traced. An answer that brings none is not counted:
 * the tensors that it speaks of are when they come. The transfer proper began when the peer had the tensors:
 * what was before is waiting. */
static void note_transfers(const gather_call_t *c, const weft_gathered_t *items, int n, int64_t sent_micros) {
  const weft_worker_client_t *w = c->worker;
  weft_transfer_t t = {.step_id = c->step_id, .end_micros = c->start_micros == 0 ? 0 : weft_clock_micros()};
  size_t bytes = 0;
  bool brings = false;
  t.start_micros = sent_micros > c->start_micros ? sent_micros : c->start_micros;
  if (t.start_micros > t.end_micros) t.start_micros = t.end_micros;
  for (int i = 0; i < n; i++) {
    brings = brings || items[i].kind != WEFT_GATHERED_ALONE;
    if (items[i].kind != WEFT_GATHERED_TENSOR) continue;
    bytes += items[i].tensor->bytes;
    if (c->start_micros == 0) continue;
    t.key = c->keys[items[i].key].text;
    t.bytes = (int64_t)items[i].tensor->bytes;
    weft_transfer_log_add(w->transfers, &t);
  }
  if (brings) weft_link_counters_add(w->counters, w->task, w->seen_from, WEFT_TRAFFIC_TENSOR, bytes);
}

static void on_gathered(void *arg, weft_status_t *status, weft_message_t *response) {
  gather_call_t *c = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_recv_tensors_response_msg_t body;
  weft_gathered_t *items = NULL;
  memset(&body, 0, sizeof body);
  if (status != NULL) status = name_peer(c, status);
  if (status == NULL) status = weft_fields_decode(&weft_recv_tensors_response_type, response, &arena, &body);
  if (status == NULL) status = read_items(c, &body, &arena, &items);
  if (status == NULL) {
    note_transfers(c, items, body.key.n, body.send_start_micros);
    for (int i = 0; i < body.tensor.n; i++) body.tensor.items[i] = NULL; /* they are the receiver's */
    c->fn(c->arg, NULL, items, body.key.n);
  } else {
    c->fn(c->arg, status, NULL, 0);
  }
  weft_fields_release(&weft_recv_tensors_response_type, &body);
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  weft_worker_client_release(c->worker);
  weft_free(c);
}

void weft_remote_recv_tensors(weft_worker_client_t *w, weft_rpc_channel_t *channel, int64_t step_id,
                              const weft_key_t *keys, int n, weft_canceller_t *canceller, weft_gather_fn *fn,
                              void *arg) {
  gather_call_t *c = weft_calloc(1, sizeof *c);
  weft_str_t *texts = weft_calloc((size_t)n, sizeof *texts);
  weft_message_t *m = NULL;
  weft_status_t *s = c == NULL || texts == NULL ? WEFT_NO_MEMORY("calling %s", PATH) : NULL;
  if (s == NULL) {
    for (int i = 0; i < n; i++) texts[i] = keys[i].text;
    const weft_recv_tensors_request_msg_t request = {
        .step_id = step_id, .request_id = (int64_t)weft_random_id(), .rendezvous_key = {texts, n, n}};
    s = weft_fields_encode(&weft_recv_tensors_request_type, &request, &m);
  }
  weft_free(texts);
  if (s != NULL) {
    weft_free(c);
    fn(arg, s, NULL, 0);
    return;
  }
  *c = (gather_call_t){weft_worker_client_retain(w), step_id, keys, n, 0, fn, arg};
  if (weft_transfer_log_wants(w->transfers, step_id)) c->start_micros = weft_clock_micros();
  const weft_rpc_options_t o = {.canceller = canceller};
  weft_rpc_call(channel, PATH, m, &o, on_gathered, c);
}

/* ---- answering ---- */

static void on_taken(void *arg, weft_status_t *status, const weft_gathered_t *items, int n) {
  weft_served_t *s = arg;
  int64_t *keys = weft_arena_calloc(&s->arena, (size_t)n + 1, sizeof *keys);
  int64_t *kinds = weft_arena_calloc(&s->arena, (size_t)n + 1, sizeof *kinds);
  weft_tensor_t **tensors = weft_arena_calloc(&s->arena, (size_t)n + 1, sizeof *tensors);
  int num_tensors = 0;
  if (status == NULL && (keys == NULL || kinds == NULL || tensors == NULL))
    status = WEFT_NO_MEMORY("a RecvTensors");
  for (int i = 0; i < n; i++) {
    if (status != NULL) {
      weft_tensor_release(items[i].tensor);
      continue;
    }
    keys[i] = items[i].key;
    kinds[i] = items[i].kind;
    if (items[i].tensor != NULL) tensors[num_tensors++] = items[i].tensor;
  }
  const weft_recv_tensors_response_msg_t response = {
      .key = {keys, n, n},
      .kind = {kinds, n, n},
      .send_start_micros = weft_clock_micros(),
      .tensor = {.items = tensors, .n = num_tensors, .capacity = num_tensors}};
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  weft_message_t *m = NULL;
  status = weft_fields_encode(&weft_recv_tensors_response_type, &response, &m);
  for (int i = 0; i < num_tensors; i++) weft_tensor_release(tensors[i]);
  if (status != NULL) {
    weft_served_fail(s, status);
  } else {
    weft_served_reply_message(s, m);
  }
}

void weft_serve_recv_tensors(weft_worker_client_t *w, weft_served_t *s) {
  const weft_recv_tensors_request_msg_t *m = s->request;
  const int n = m->rendezvous_key.n;
  weft_key_t *keys = weft_arena_calloc(&s->arena, (size_t)n + 1, sizeof *keys);
  if (keys == NULL) {
    weft_served_fail(s, WEFT_NO_MEMORY("a RecvTensors"));
    return;
  }
  for (int i = 0; i < n; i++) keys[i] = weft_key(m->rendezvous_key.items[i]);
  w->ops->recv_tensors(w, m->step_id, keys, n, weft_served_canceller(s), on_taken, s);
}
