/* client/kv.c - a worker of a table of keys and values: its senders to the servers, and its ring of requests.
 *
 * Each server has two senders, one for what changes the table, one for pulls, so
 * that a pull that waits for others holds up no push. A sender is a thread and a
 * queue of pieces: nothing overtakes an advance; otherwise a higher priority goes first, then the older
 * request.
 *
 * A piece is sent until it is answered, fails for good, or was tried too often. A
 * request ends with its last piece: what was pulled is put together, `done` is
 * called, then waiters wake. It stays in its slot of the ring until a new request
 * needs that.
 *
 * Locking: `mu` guards the ring, the queues and the counts; it is a leaf.
 */
#define _GNU_SOURCE
#include "weft/kv.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "client/kv_request.h"

enum { MAX_OUTSTANDING = 512, SENDERS = 2, CONTROL_TIMEOUT_MS = 10000 };

typedef struct kv_sender {
  WEFT_KvWorker *worker;
  int server;
  bool for_pulls;
  pthread_t thread;
  bool is_started;
  weft_kv_piece_t *first; /* guarded by mu; the next to be sent first */
} kv_sender_t;

typedef struct server {
  weft_kv_link_t link;
  kv_sender_t senders[SENDERS];
  int64_t base_id, base_clock; /* the server's state when this worker attached */
  bool must_attach;            /* guarded by mu: it was restarted */
} server_t;

/* A request's place in the ring, and what of it outlives its pieces. */
typedef struct slot {
  weft_kv_request_t *request; /* owned; NULL: never used */
  bool is_done;
  int waiters;
} slot_t;

struct WEFT_KvWorker {
  WEFT_KvOptions o; /* its texts are owned */
  server_t *servers;
  int num_servers;
  weft_mutex_t mu;
  weft_cond_t changed; /* a queue, a slot, or `stopping` */
  slot_t *slots;       /* guarded by mu, with all that follows; o.max_outstanding of them */
  int64_t next_timestamp;
  int64_t clock; /* how often it has advanced */
  WEFT_KvCounts counts;
  bool stopping;
};

void WEFT_InitKvOptions(WEFT_KvOptions *o) {
  *o = (WEFT_KvOptions){.struct_size = sizeof *o,
                        .table = "kv",
                        .dtype = TF_FLOAT,
                        .width = 1,
                        .apply = "add",
                        .learning_rate = 0.01,
                        .momentum = 0.9,
                        .initializer = "constant",
                        .policy = "ASP",
                        .job = "ps",
                        .max_outstanding = 128,
                        .resend_ms = 1000,
                        .max_tries = 10};
}

static bool set(TF_Status *s, TF_Code code, const char *text) {
  TF_SetStatus(s, code, text);
  return code == TF_OK;
}

/* ---- lines ---- */

/* An advance keeps its place: nothing overtakes it, and it overtakes nothing. */
static bool goes_before(const weft_kv_piece_t *a, const weft_kv_piece_t *b) {
  bool a_advances = a->request->call == WEFT_KV_CALL_ADVANCE,
       b_advances = b->request->call == WEFT_KV_CALL_ADVANCE;
  if (a_advances || b_advances) return a->request->timestamp < b->request->timestamp;
  if (a->request->priority != b->request->priority) return a->request->priority > b->request->priority;
  return a->request->timestamp < b->request->timestamp;
}

/* From the end forward: it overtakes those that it goes before, but never an advance. */
static void enqueue(kv_sender_t *l, weft_kv_piece_t *p) {
  weft_kv_piece_t **best = &l->first, **at = &l->first;
  for (; *at != NULL; at = &(*at)->next) {
    if (!goes_before(p, *at)) best = &(*at)->next;
  }
  p->next = *best;
  *best = p;
}

static kv_sender_t *sender_of(WEFT_KvWorker *w, const weft_kv_piece_t *p) {
  return &w->servers[p->server].senders[p->request->call == WEFT_KV_CALL_PULL ? 1 : 0];
}

/* ---- one message ---- */

typedef enum kv_outcome { ANSWERED, LOST, FAILED } kv_outcome_t;

static bool may_come_later(TF_Code code) {
  return code == TF_UNAVAILABLE || code == TF_ABORTED || code == TF_DEADLINE_EXCEEDED || code == TF_CANCELLED;
}

static void delete_tensors(TF_Tensor **t, int n) {
  for (int i = 0; i < n; i++) {
    if (t[i] != NULL) TF_DeleteTensor(t[i]);
    t[i] = NULL;
  }
}

static int64_t read_i64(const TF_Tensor *t) {
  int64_t value = 0;
  if (t != NULL && TF_TensorType(t) == TF_INT64 && TF_TensorByteSize(t) == sizeof value)
    memcpy(&value, TF_TensorData(t), sizeof value);
  return value;
}

/* Learns what the server knows of us. */
static bool attach(WEFT_KvWorker *w, server_t *s, weft_kv_call_t call, int64_t timeout_ms, int64_t *clock,
                   int64_t *last_id, TF_Status *status) {
  TF_Tensor *in[1] = {weft_kv_scalar_tensor(w->o.worker)}, *out[2] = {NULL, NULL};
  bool was_restarted = false;
  if (in[0] == NULL) return set(status, TF_RESOURCE_EXHAUSTED, "out of memory: a greeting");
  weft_kv_link_run(&s->link, call, in, out, timeout_ms, &was_restarted, status);
  *clock = read_i64(out[0]);
  *last_id = read_i64(out[1]);
  delete_tensors(in, 1);
  delete_tensors(out, 2);
  return TF_GetCode(status) == TF_OK;
}

/* A server that was restarted must know us again, from its snapshot, before we trust its table. */
static bool attach_if_restarted(WEFT_KvWorker *w, server_t *s, int64_t timeout_ms, TF_Status *status) {
  int64_t clock = 0, last_id = 0;
  weft_mutex_lock(&w->mu);
  bool must = s->must_attach;
  weft_mutex_unlock(&w->mu);
  if (!must) return true;
  if (!attach(w, s, WEFT_KV_CALL_ATTACH, timeout_ms, &clock, &last_id, status)) return false;
  if (last_id == 0)
    return set(status, TF_UNAVAILABLE, "it was started again, and its part of the table is not restored");
  weft_mutex_lock(&w->mu);
  s->must_attach = false;
  weft_mutex_unlock(&w->mu);
  return true;
}

/* keys, [values, [lens]], worker, clock, id: as the call wants them. Returns how many; -1 without memory. */
static int fill_inputs(WEFT_KvWorker *w, const server_t *s, const weft_kv_piece_t *p, TF_Tensor **in) {
  const weft_kv_request_t *r = p->request;
  int n = 0;
  in[n++] = p->keys;
  if (r->call != WEFT_KV_CALL_PULL) in[n++] = p->values;
  if (r->call != WEFT_KV_CALL_PULL && r->width == 0) in[n++] = p->lens;
  int own = n;
  in[n++] = weft_kv_scalar_tensor(w->o.worker);
  in[n++] = weft_kv_scalar_tensor(w->o.num_workers == 0 ? -1 : s->base_clock + r->clock);
  if (r->call != WEFT_KV_CALL_PULL) in[n++] = weft_kv_scalar_tensor(s->base_id + r->timestamp);
  for (int i = own; i < n; i++) {
    if (in[i] == NULL) {
      delete_tensors(in + own, n - own);
      return -1;
    }
  }
  return n;
}

/* What came must be what was asked for: the server may be another's. */
static bool check_pulled(const weft_kv_piece_t *p, TF_DataType dtype, TF_Tensor *const *out) {
  const weft_kv_request_t *r = p->request;
  if (TF_TensorType(out[0]) != dtype) return false;
  if (r->width > 0) return TF_TensorByteSize(out[0]) == (size_t)(p->num_keys * r->width) * r->element;
  if (TF_TensorType(out[1]) != TF_INT64 || TF_TensorByteSize(out[1]) != (size_t)p->num_keys * sizeof(int64_t))
    return false;
  size_t left = TF_TensorByteSize(out[0]) / r->element;
  for (int64_t i = 0; i < p->num_keys; i++) {
    int64_t n = ((const int64_t *)TF_TensorData(out[1]))[i];
    if (n < 0 || (uint64_t)n > left) return false;
    left -= (size_t)n;
  }
  return left == 0;
}

static kv_outcome_t take_answer(WEFT_KvWorker *w, weft_kv_piece_t *p, TF_Tensor **out, TF_Status *status) {
  const weft_kv_request_t *r = p->request;
  bool pulls = r->call == WEFT_KV_CALL_PULL || r->call == WEFT_KV_CALL_PUSH_PULL;
  weft_mutex_lock(&w->mu);
  w->counts.responses++;
  if (!pulls && TF_TensorType(out[0]) == TF_BOOL && TF_TensorByteSize(out[0]) == 1 &&
      *(const char *)TF_TensorData(out[0]) == 0 && p->tries > 0) {
    w->counts.duplicates++;
  }
  weft_mutex_unlock(&w->mu);
  if (!pulls) return ANSWERED;
  if (!check_pulled(p, w->o.dtype, out)) {
    (void)set(status, TF_INTERNAL, "a server answered a pull with tensors of another size");
    return FAILED;
  }
  p->pulled = out[0];
  out[0] = NULL;
  if (r->width == 0) {
    p->pulled_lens = out[1];
    out[1] = NULL;
  }
  return ANSWERED;
}

static kv_outcome_t send_once(WEFT_KvWorker *w, weft_kv_piece_t *p, int64_t timeout_ms, TF_Status *status) {
  const weft_kv_request_t *r = p->request;
  server_t *s = &w->servers[p->server];
  if (!attach_if_restarted(w, s, timeout_ms, status))
    return may_come_later(TF_GetCode(status)) ? LOST : FAILED;
  weft_mutex_lock(&w->mu);
  w->counts.requests++;
  w->counts.resent += p->tries > 0;
  weft_mutex_unlock(&w->mu);
  (void)set(status, TF_DEADLINE_EXCEEDED, "no answer");
  if (w->o.link != NULL && w->o.link(w->o.link_user, p->server, r->timestamp, p->tries, 0) != 0) return LOST;
  TF_Tensor *in[WEFT_KV_MAX_ARGS] = {NULL}, *out[WEFT_KV_MAX_ARGS] = {NULL};
  int n = fill_inputs(w, s, p, in);
  if (n < 0) {
    (void)set(status, TF_RESOURCE_EXHAUSTED, "out of memory: a message");
    return FAILED;
  }
  bool was_restarted = false;
  int borrowed = 1 + (r->call != WEFT_KV_CALL_PULL) + (r->call != WEFT_KV_CALL_PULL && r->width == 0);
  weft_kv_link_run(&s->link, r->call, in, out, timeout_ms, &was_restarted, status);
  delete_tensors(in + borrowed, n - borrowed);
  TF_Code code = TF_GetCode(status);
  kv_outcome_t outcome = code == TF_OK ? ANSWERED : was_restarted || may_come_later(code) ? LOST : FAILED;
  if (was_restarted) {
    weft_mutex_lock(&w->mu);
    s->must_attach = true;
    weft_mutex_unlock(&w->mu);
  }
  if (outcome == ANSWERED && w->o.link != NULL &&
      w->o.link(w->o.link_user, p->server, r->timestamp, p->tries, 1) != 0) {
    (void)set(status, TF_DEADLINE_EXCEEDED, "no answer");
    outcome = LOST;
  }
  if (outcome == ANSWERED) outcome = take_answer(w, p, out, status);
  delete_tensors(out, WEFT_KV_MAX_ARGS);
  return outcome;
}

/* Waits until it is time to send again; false: the worker stops. */
static bool pause_until(WEFT_KvWorker *w, int64_t deadline_ns) {
  weft_mutex_lock(&w->mu);
  while (!w->stopping && weft_clock_ns() < deadline_ns) {
    (void)weft_cond_wait_until(&w->changed, &w->mu, deadline_ns); /* woken early by the stop */
  }
  bool goes_on = !w->stopping;
  weft_mutex_unlock(&w->mu);
  return goes_on;
}

static void give_up(const WEFT_KvWorker *w, const weft_kv_piece_t *p, TF_Status *status) {
  char text[512];
  (void)snprintf(text, sizeof text,
                 "/job:%s/task:%d did not answer request %" PRId64 " of worker %" PRId64 " in %d tries: %s",
                 w->o.job, p->server, p->request->timestamp, w->o.worker, p->tries, TF_Message(status));
  (void)set(status, TF_DEADLINE_EXCEEDED, text);
}

/* Sends until there is an answer. */
static void send_piece(WEFT_KvWorker *w, weft_kv_piece_t *p, TF_Status *status) {
  for (;;) {
    int64_t attempt_ms = (int64_t)w->o.resend_ms * (1 + p->tries), begun = weft_clock_ns();
    if (!pause_until(w, 0)) {
      (void)set(status, TF_CANCELLED, "the worker is being deleted");
      return;
    }
    kv_outcome_t outcome = send_once(w, p, attempt_ms, status);
    if (outcome == ANSWERED) (void)set(status, TF_OK, "");
    if (outcome != LOST) return;
    if (++p->tries >= w->o.max_tries) {
      (void)pause_until(w, begun + attempt_ms * 1000000);
      give_up(w, p, status);
      return;
    }
    (void)pause_until(w, begun + attempt_ms * 1000000);
  }
}

/* ---- requests ---- */

static void end_request(WEFT_KvWorker *w, weft_kv_request_t *r) {
  TF_Status *status = TF_NewStatus();
  if (r->code == TF_OK) weft_kv_request_gather(r, status);
  TF_Code code = r->code != TF_OK ? r->code : TF_GetCode(status);
  if (r->done != NULL) r->done(r->user, r->timestamp, code);
  weft_mutex_lock(&w->mu);
  if (r->code == TF_OK && code != TF_OK) {
    r->code = code;
    r->message = weft_strdup(TF_Message(status));
  }
  w->slots[r->timestamp % w->o.max_outstanding].is_done = true;
  weft_cond_broadcast(&w->changed);
  weft_mutex_unlock(&w->mu);
  TF_DeleteStatus(status);
}

static void end_piece(WEFT_KvWorker *w, weft_kv_piece_t *p, TF_Status *status) {
  weft_kv_request_t *r = p->request;
  weft_mutex_lock(&w->mu);
  if (r->code == TF_OK && TF_GetCode(status) != TF_OK) {
    r->code = TF_GetCode(status);
    r->message = weft_strdup(TF_Message(status));
  }
  bool is_last = --r->num_open == 0;
  weft_mutex_unlock(&w->mu);
  if (is_last) end_request(w, r);
}

static void *run_sender(void *arg) {
  kv_sender_t *l = arg;
  WEFT_KvWorker *w = l->worker;
  TF_Status *status = TF_NewStatus();
  weft_mutex_lock(&w->mu);
  for (;;) {
    while (l->first == NULL && !w->stopping)
      weft_cond_wait(&w->changed, &w->mu); /* woken by start_request and the stop */
    weft_kv_piece_t *p = l->first;
    if (p == NULL) break;
    l->first = p->next;
    weft_mutex_unlock(&w->mu);
    send_piece(w, p, status); /* after the stop: ends at once */
    end_piece(w, p, status);
    weft_mutex_lock(&w->mu);
  }
  weft_mutex_unlock(&w->mu);
  TF_DeleteStatus(status);
  return NULL;
}

/* Gives the request its timestamp and its slot, which must be free of the one before. */
static bool take_slot_locked(WEFT_KvWorker *w, weft_kv_request_t *r, weft_kv_request_t **out_old)
    WEFT_REQUIRES(w->mu) {
  int64_t timestamp = w->next_timestamp;
  slot_t *slot = &w->slots[timestamp % w->o.max_outstanding];
  while (!w->stopping && w->next_timestamp == timestamp && slot->request != NULL &&
         (!slot->is_done || slot->waiters > 0)) {
    weft_cond_wait(
        &w->changed,
        &w->mu); /* woken by end_request, WEFT_KvWait, another request that takes a slot, and the stop */
  }
  if (w->next_timestamp != timestamp && !w->stopping) return take_slot_locked(w, r, out_old);
  if (w->stopping) return false;
  *out_old = slot->request;
  *slot = (slot_t){.request = r};
  r->timestamp = timestamp;
  r->clock = w->clock;
  w->next_timestamp++;
  if (r->call == WEFT_KV_CALL_ADVANCE) w->clock++;
  weft_cond_broadcast(&w->changed);
  return true;
}

static int64_t start_request(WEFT_KvWorker *w, weft_kv_request_t *r, WEFT_KvDoneFn done, void *user,
                             TF_Status *status) {
  weft_kv_request_t *old = NULL;
  if (r == NULL) return -1;
  r->done = done;
  r->user = user;
  weft_mutex_lock(&w->mu);
  bool is_taken = take_slot_locked(w, r, &old);
  int64_t timestamp = is_taken ? r->timestamp : -1;
  bool is_empty = r->num_pieces == 0;
  for (int i = 0; is_taken && i < r->num_pieces; i++) enqueue(sender_of(w, &r->pieces[i]), &r->pieces[i]);
  weft_cond_broadcast(&w->changed);
  weft_mutex_unlock(&w->mu);
  weft_kv_request_free(old);
  if (is_taken && is_empty) end_request(w, r);
  if (!is_taken) {
    weft_kv_request_free(r);
    (void)set(status, TF_CANCELLED, "the worker is being deleted");
  }
  return timestamp;
}

static int64_t ask(WEFT_KvWorker *w, const weft_kv_ask_t *a, void *pulled, int64_t max_pulled,
                   int64_t *pulled_lens, WEFT_KvDoneFn done, void *user, TF_Status *status) {
  (void)set(status, TF_OK, "");
  bool wants_lens = w->o.width == 0 && a->num_keys > 0 && (a->values != NULL || pulled != NULL);
  bool has_lens = a->lens != NULL || pulled_lens != NULL;
  if (wants_lens != has_lens && a->num_keys > 0) {
    (void)set(status, TF_INVALID_ARGUMENT,
              w->o.width == 0 ? "a table of width 0 needs lens" : "a table with a width takes no lens");
    return -1;
  }
  weft_kv_request_t *r = weft_kv_request_new(&w->o, w->num_servers, a, status);
  if (r == NULL) return -1;
  r->pulled = pulled;
  r->max_pulled = max_pulled;
  r->pulled_lens = pulled_lens;
  return start_request(w, r, done, user, status);
}

int64_t WEFT_KvPush(WEFT_KvWorker *w, const int64_t *keys, int64_t num_keys, const void *values, int priority,
                    WEFT_KvDoneFn done, void *user, TF_Status *status) {
  const weft_kv_ask_t a = {
      .call = WEFT_KV_CALL_PUSH, .keys = keys, .num_keys = num_keys, .values = values, .priority = priority};
  return ask(w, &a, NULL, 0, NULL, done, user, status);
}

int64_t WEFT_KvPull(WEFT_KvWorker *w, const int64_t *keys, int64_t num_keys, void *values, int priority,
                    WEFT_KvDoneFn done, void *user, TF_Status *status) {
  const weft_kv_ask_t a = {
      .call = WEFT_KV_CALL_PULL, .keys = keys, .num_keys = num_keys, .priority = priority};
  return ask(w, &a, values, 0, NULL, done, user, status);
}

int64_t WEFT_KvPushPull(WEFT_KvWorker *w, const int64_t *keys, int64_t num_keys, const void *values,
                        void *pulled, int priority, WEFT_KvDoneFn done, void *user, TF_Status *status) {
  const weft_kv_ask_t a = {.call = WEFT_KV_CALL_PUSH_PULL,
                           .keys = keys,
                           .num_keys = num_keys,
                           .values = values,
                           .priority = priority};
  return ask(w, &a, pulled, 0, NULL, done, user, status);
}

int64_t WEFT_KvPushLens(WEFT_KvWorker *w, const int64_t *keys, int64_t num_keys, const void *values,
                        const int64_t *lens, int priority, WEFT_KvDoneFn done, void *user,
                        TF_Status *status) {
  const weft_kv_ask_t a = {.call = WEFT_KV_CALL_PUSH,
                           .keys = keys,
                           .num_keys = num_keys,
                           .values = values,
                           .lens = lens,
                           .priority = priority};
  return ask(w, &a, NULL, 0, NULL, done, user, status);
}

int64_t WEFT_KvPullLens(WEFT_KvWorker *w, const int64_t *keys, int64_t num_keys, void *values,
                        int64_t max_values, int64_t *lens, int priority, WEFT_KvDoneFn done, void *user,
                        TF_Status *status) {
  const weft_kv_ask_t a = {
      .call = WEFT_KV_CALL_PULL, .keys = keys, .num_keys = num_keys, .priority = priority};
  return ask(w, &a, values, max_values, lens, done, user, status);
}

int64_t WEFT_KvAdvance(WEFT_KvWorker *w, WEFT_KvDoneFn done, void *user, TF_Status *status) {
  static const double nothing = 0;
  const weft_kv_ask_t a = {.call = WEFT_KV_CALL_ADVANCE, .values = &nothing, .goes_everywhere = true};
  return ask(w, &a, NULL, 0, NULL, done, user, status);
}

void WEFT_KvWait(WEFT_KvWorker *w, int64_t timestamp, TF_Status *status) {
  weft_mutex_lock(&w->mu);
  slot_t *slot = timestamp > 0 ? &w->slots[timestamp % w->o.max_outstanding] : NULL;
  bool is_there = slot != NULL && slot->request != NULL && slot->request->timestamp == timestamp;
  if (is_there) {
    slot->waiters++;
    while (!slot->is_done) weft_cond_wait(&w->changed, &w->mu); /* woken by end_request */
    slot->waiters--;
    const weft_kv_request_t *r = slot->request;
    (void)set(status, r->code, r->message == NULL ? "" : r->message);
    weft_cond_broadcast(&w->changed);
  } else {
    (void)set(status, TF_NOT_FOUND, "there is no such request, or it is too long ago");
  }
  weft_mutex_unlock(&w->mu);
}

int WEFT_KvIsDone(WEFT_KvWorker *w, int64_t timestamp) {
  weft_mutex_lock(&w->mu);
  const slot_t *slot = timestamp > 0 ? &w->slots[timestamp % w->o.max_outstanding] : NULL;
  bool is_open =
      slot != NULL && slot->request != NULL && slot->request->timestamp == timestamp && !slot->is_done;
  weft_mutex_unlock(&w->mu);
  return !is_open;
}

void WEFT_KvGetCounts(WEFT_KvWorker *w, WEFT_KvCounts *counts) {
  weft_mutex_lock(&w->mu);
  *counts = w->counts;
  weft_mutex_unlock(&w->mu);
}

int WEFT_KvNumServers(const WEFT_KvWorker *w) { return w->num_servers; }

/* ---- snapshots ---- */

struct WEFT_KvSnapshot {
  TF_Tensor *tensors[5];
};

void WEFT_DeleteKvSnapshot(WEFT_KvSnapshot *s) {
  if (s == NULL) return;
  delete_tensors(s->tensors, 5);
  weft_free(s);
}

/* A server that was restarted is reached with the second try. */
static void run_control(WEFT_KvWorker *w, int server, weft_kv_call_t call, TF_Tensor *const *in,
                        TF_Tensor **out, TF_Status *status) {
  bool was_restarted = true;
  for (int i = 0; i < w->o.max_tries && was_restarted; i++) {
    if (i > 0 && !pause_until(w, weft_clock_ns() + (int64_t)w->o.resend_ms * 1000000 / 4)) return;
    weft_kv_link_run(&w->servers[server].link, call, in, out, CONTROL_TIMEOUT_MS, &was_restarted, status);
  }
}

static bool check_server(const WEFT_KvWorker *w, int server, TF_Status *status) {
  return (server >= 0 && server < w->num_servers) ||
         set(status, TF_INVALID_ARGUMENT, "there is no such server");
}

WEFT_KvSnapshot *WEFT_KvSave(WEFT_KvWorker *w, int server, TF_Status *status) {
  if (!check_server(w, server, status)) return NULL;
  WEFT_KvSnapshot *s = weft_calloc(1, sizeof *s);
  if (s == NULL) {
    (void)set(status, TF_RESOURCE_EXHAUSTED, "out of memory: a snapshot");
    return NULL;
  }
  run_control(w, server, WEFT_KV_CALL_EXPORT, NULL, s->tensors, status);
  if (TF_GetCode(status) == TF_OK) return s;
  WEFT_DeleteKvSnapshot(s);
  return NULL;
}

void WEFT_KvRestore(WEFT_KvWorker *w, int server, const WEFT_KvSnapshot *snapshot, TF_Status *status) {
  if (!check_server(w, server, status)) return;
  run_control(w, server, WEFT_KV_CALL_IMPORT, snapshot->tensors, NULL, status);
}

/* ---- making ---- */

static bool is_one_of(const char *text, const char *const *names) {
  while (text != NULL && *names != NULL && strcmp(text, *names) != 0) names++;
  return text != NULL && *names != NULL;
}

static bool check_options(const WEFT_KvOptions *o, TF_Status *status) {
  static const char *const rules[] = {"assign", "add", "sgd", "momentum", "adagrad", NULL};
  static const char *const inits[] = {"constant", "uniform", "normal", NULL};
  static const char *const policies[] = {"ASP", "BSP", "SSP", "K_OF_W", NULL};
  bool is_number =
      o->dtype == TF_FLOAT || o->dtype == TF_DOUBLE || o->dtype == TF_INT32 || o->dtype == TF_INT64;
  if (o->struct_size != sizeof *o)
    return set(status, TF_INVALID_ARGUMENT, "the options were not made by WEFT_InitKvOptions");
  if (!is_number)
    return set(status, TF_INVALID_ARGUMENT, "dtype must be TF_FLOAT, TF_DOUBLE, TF_INT32 or TF_INT64");
  if (!is_one_of(o->apply, rules))
    return set(status, TF_INVALID_ARGUMENT, "apply is none of assign, add, sgd, momentum, adagrad");
  if (!is_one_of(o->initializer, inits))
    return set(status, TF_INVALID_ARGUMENT, "initializer is none of constant, uniform, normal");
  if (!is_one_of(o->policy, policies))
    return set(status, TF_INVALID_ARGUMENT, "policy is none of ASP, BSP, SSP, K_OF_W");
  if (o->table == NULL || o->table[0] == '\0' || o->job == NULL)
    return set(status, TF_INVALID_ARGUMENT, "table and job need names");
  if (o->width < 0 || o->worker < 0 || o->max_key < 0 || o->num_workers < 0) {
    return set(status, TF_INVALID_ARGUMENT, "width, worker, max_key and num_workers must not be below 0");
  }
  if (o->max_outstanding < 1 || o->max_outstanding > MAX_OUTSTANDING) {
    return set(status, TF_INVALID_ARGUMENT, "max_outstanding must be from 1 to 512");
  }
  if (o->resend_ms < 1 || o->max_tries < 1)
    return set(status, TF_INVALID_ARGUMENT, "resend_ms and max_tries must be at least 1");
  return true;
}

/* Leaves an id of ours with the server: so it shows later whether it has forgotten us. Ours begin behind
 * that. */
static bool greet(WEFT_KvWorker *w, server_t *s, TF_Status *status) {
  int64_t last_id = 0;
  if (!attach(w, s, WEFT_KV_CALL_GREET, (int64_t)w->o.resend_ms * w->o.max_tries, &s->base_clock, &last_id,
              status))
    return false;
  s->base_id = last_id + 1;
  return true;
}

static bool copy_options(WEFT_KvWorker *w, const WEFT_KvOptions *o) {
  const char *const *texts[] = {&o->table, &o->apply, &o->initializer, &o->policy, &o->job};
  const char **copies[] = {&w->o.table, &w->o.apply, &w->o.initializer, &w->o.policy, &w->o.job};
  bool ok = true;
  w->o = *o;
  w->o.worker_tasks = NULL; /* only the graphs need them, which are made now */
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    *copies[i] = weft_strdup(*texts[i]);
    ok = ok && *copies[i] != NULL;
  }
  return ok;
}

static bool start_senders(WEFT_KvWorker *w, TF_Status *status) {
  for (int i = 0; i < w->num_servers; i++) {
    for (int k = 0; k < SENDERS; k++) {
      kv_sender_t *l = &w->servers[i].senders[k];
      *l = (kv_sender_t){.worker = w, .server = i, .for_pulls = k == 1};
      l->is_started = pthread_create(&l->thread, NULL, run_sender, l) == 0;
      if (!l->is_started) return set(status, TF_RESOURCE_EXHAUSTED, "no thread for a worker of a table");
      (void)pthread_setname_np(l->thread, "weft-kv");
    }
  }
  return true;
}

static bool build(WEFT_KvWorker *w, const WEFT_Cluster *cluster, const WEFT_KvOptions *o, TF_Status *status) {
  int n = WEFT_ClusterNumTasks(cluster, o->job);
  if (n < 1) return set(status, TF_INVALID_ARGUMENT, "the cluster has no task of the servers' job");
  w->servers = weft_calloc((size_t)n, sizeof w->servers[0]);
  w->slots = weft_calloc((size_t)o->max_outstanding, sizeof w->slots[0]);
  if (w->servers == NULL || w->slots == NULL || !copy_options(w, o))
    return set(status, TF_RESOURCE_EXHAUSTED, "out of memory: a worker of a table");
  w->next_timestamp = 1;
  WEFT_KvOptions with_tasks = w->o;
  with_tasks.worker_tasks = o->worker_tasks;
  for (int i = 0; i < n; i++) {
    w->num_servers++;
    weft_kv_link_init(&w->servers[i].link, cluster, &with_tasks, i, status);
    if (TF_GetCode(status) != TF_OK) return false;
  }
  for (int i = 0; i < n; i++) {
    if (!greet(w, &w->servers[i], status)) return false;
  }
  return start_senders(w, status);
}

WEFT_KvWorker *WEFT_NewKvWorker(const WEFT_Cluster *cluster, const WEFT_KvOptions *options,
                                TF_Status *status) {
  WEFT_KvOptions defaults;
  WEFT_InitKvOptions(&defaults);
  if (options == NULL) options = &defaults;
  (void)set(status, TF_OK, "");
  if (!check_options(options, status)) return NULL;
  WEFT_KvWorker *w = weft_calloc(1, sizeof *w);
  if (w == NULL) {
    (void)set(status, TF_RESOURCE_EXHAUSTED, "out of memory: a worker of a table");
    return NULL;
  }
  weft_mutex_init(&w->mu);
  weft_cond_init(&w->changed);
  if (build(w, cluster, options, status)) return w;
  WEFT_DeleteKvWorker(w);
  return NULL;
}

void WEFT_DeleteKvWorker(WEFT_KvWorker *w) {
  if (w == NULL) return;
  weft_mutex_lock(&w->mu);
  w->stopping = true;
  weft_cond_broadcast(&w->changed);
  weft_mutex_unlock(&w->mu);
  for (int i = 0; i < w->num_servers; i++) weft_kv_link_abort(&w->servers[i].link);
  for (int i = 0; i < w->num_servers; i++) {
    for (int k = 0; k < SENDERS; k++) {
      if (w->servers[i].senders[k].is_started) pthread_join(w->servers[i].senders[k].thread, NULL);
    }
  }
  for (int i = 0; i < w->num_servers; i++) weft_kv_link_deinit(&w->servers[i].link);
  for (int i = 0; w->slots != NULL && i < w->o.max_outstanding; i++)
    weft_kv_request_free(w->slots[i].request);
  const char *const texts[] = {w->o.table, w->o.apply, w->o.initializer, w->o.policy,
                               w->o.job}; /* NULL before they are copied */
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) weft_free((void *)(uintptr_t)texts[i]);
  weft_free(w->slots);
  weft_free(w->servers);
  weft_cond_deinit(&w->changed);
  weft_mutex_deinit(&w->mu);
  weft_free(w);
}
