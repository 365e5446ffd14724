/* rpc/channel.c - unary calls: one operation out, one event back.
 *
 * A call to a server on this host goes past gRPC (rpc/local_peer.h), unless it has a deadline, waits for the
 * server to come up, or stays open: those are few, and gRPC has the timers and the connection's state for
 * them.
 *
 * The states of a call over gRPC, and its holder in each:
 *   1. call_create     made; the caller holds it
 *   2. call_start      everything is sent and asked for in one batch; gRPC holds it by `done`. From here on
 * the canceller may cancel it
 *   3. on_done / sync  the batch is over: the canceller lets go, the answer becomes a message or a status
 *   4. call_destroy    freed, before the caller's function runs
 * From 1 to 3 the channel's list has it, too: a thread that holds `mu` may cancel it.
 *
 * gRPC always ends a batch that asks for the status, so 3 always comes.
 */
#define _GNU_SOURCE
#include "rpc/channel.h"

#include <string.h>

#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/arguments.h"
#include "rpc/client.h"
#include "rpc/local_link.h"
#include "rpc/local_peer.h"
#include "rpc/local_server.h"
#include "rpc/slices.h"

enum { MAX_PATHS = 64 };

typedef struct call call_t;

struct weft_rpc_channel {
  atomic_int refs;
  weft_rpc_client_t *client; /* borrowed */
  grpc_channel *impl;
  weft_local_peer_t *local; /* owned */
  char *target;             /* owned */
  _Atomic(char *) peer;     /* owned; NULL until it is named, then never changes */
  weft_mutex_t mu;
  call_t *calls;           /* guarded by mu: those in flight */
  weft_status_t *refusal;  /* guarded by mu; owned; NULL: calls are made */
  atomic_bool has_refusal; /* the same; read without mu, so that a call costs nothing */
  weft_status_t *ended_by; /* guarded by mu; owned; what weft_rpc_channel_end_calls last said */
  atomic_bool is_silent;   /* the last call ended because no ping was answered */
  atomic_int num_paths; /* grows under mu, after its entry was written; pairs with the load in registered() */
  struct {
    const char *path; /* as the caller has it: usually found by comparing pointers */
    char *copy;       /* owned; what it said then */
    void *handle;
  } paths[MAX_PATHS];
};

struct call {
  weft_rpc_tag_t done;
  weft_rpc_channel_t *channel; /* retained */
  call_t *prev, *next;         /* guarded by the channel's mu */
  bool is_linked;              /* the same */
  bool outlives_loss;          /* it waits for the server to come up, also after a loss */
  bool is_ended;               /* the same; by weft_rpc_channel_end_calls */
  int64_t started_ns;
  grpc_call *impl;
  weft_canceller_t *canceller; /* retained; may be NULL */
  uint64_t token;
  bool is_registered;
  grpc_metadata_array initial, trailing;
  grpc_byte_buffer *request, *response;
  grpc_status_code code;
  grpc_slice text;
  weft_rpc_done_fn *fn;
  void *arg;
};

weft_status_t *weft_rpc_channel_create(weft_rpc_client_t *client, weft_str_t target,
                                       weft_rpc_channel_t **out) {
  char uri[512];
  int n = snprintf(uri, sizeof uri, "dns:///%.*s", WEFT_STR_ARGS(target));
  if (n < 0 || (size_t)n >= sizeof uri || memchr(target.data, '\0', target.length) != NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.100s...' is not a host and a port", uri);
  weft_rpc_channel_t *c = weft_calloc(1, sizeof *c);
  char *name = weft_strndup(target.data, target.length);
  weft_local_peer_t *local = NULL;
  weft_status_t *s =
      c == NULL || name == NULL ? WEFT_NO_MEMORY("a channel to %s", uri) : weft_local_peer_create(&local);
  if (s != NULL) {
    weft_free(c);
    weft_free(name);
    return s;
  }
  atomic_init(&c->refs, 1);
  c->client = client;
  c->target = name;
  c->local = local;
  weft_mutex_init(&c->mu);
  grpc_channel_credentials *plain = grpc_insecure_credentials_create();
  c->impl = grpc_channel_create(uri, plain, weft_rpc_channel_arguments());
  grpc_channel_credentials_release(plain);
  *out = c;
  return NULL;
}

weft_rpc_channel_t *weft_rpc_channel_retain(weft_rpc_channel_t *c) {
  atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
  return c;
}

void weft_rpc_channel_release(weft_rpc_channel_t *c) {
  if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  weft_status_free(c->refusal);
  weft_status_free(c->ended_by);
  weft_local_peer_destroy(c->local);
  grpc_channel_destroy(c->impl);
  for (int i = 0; i < atomic_load(&c->num_paths); i++) weft_free(c->paths[i].copy);
  weft_mutex_deinit(&c->mu);
  weft_free(c->target);
  weft_free(atomic_load(&c->peer));
  weft_free(c);
}

weft_str_t weft_rpc_channel_target(const weft_rpc_channel_t *c) { return weft_str(c->target); }

void weft_rpc_channel_name_peer(weft_rpc_channel_t *c, weft_str_t name) {
  char *none = NULL, *copy = atomic_load(&c->peer) == NULL ? weft_strndup(name.data, name.length) : NULL;
  if (copy != NULL && !atomic_compare_exchange_strong(&c->peer, &none, copy)) weft_free(copy);
}

static void *find_path(const weft_rpc_channel_t *c, const char *path) {
  int n = atomic_load_explicit(&c->num_paths, memory_order_acquire);
  for (int i = 0; i < n; i++) {
    if (c->paths[i].path == path && strcmp(c->paths[i].copy, path) == 0) return c->paths[i].handle;
  }
  return NULL;
}

/* gRPC's handle for a path: with it, a call need not look at the text again. NULL: there are too
 * many, or no memory. */
static void *registered(weft_rpc_channel_t *c, const char *path) {
  void *handle = find_path(c, path);
  if (handle != NULL) return handle;
  weft_mutex_lock(&c->mu);
  handle = find_path(c, path);
  int n = atomic_load_explicit(&c->num_paths, memory_order_relaxed);
  char *copy = handle == NULL && n < MAX_PATHS ? weft_strdup(path) : NULL;
  if (copy != NULL) {
    handle = grpc_channel_register_call(c->impl, copy, NULL, NULL);
    c->paths[n].path = path;
    c->paths[n].copy = copy;
    c->paths[n].handle = handle;
    atomic_store_explicit(&c->num_paths, n + 1, memory_order_release);
  }
  weft_mutex_unlock(&c->mu);
  return handle;
}

static const char *name_of(const weft_rpc_channel_t *c) {
  const char *peer = atomic_load(&c->peer);
  return peer == NULL ? "the server" : peer;
}

enum { CANCELLED_TEXT = 400 };
static void say_cancelled(const weft_rpc_channel_t *c, char out[CANCELLED_TEXT]) {
  snprintf(out, CANCELLED_TEXT, "the call to %s at %s was cancelled by its caller", name_of(c), c->target);
}

static void cancel_call(void *arg) {
  call_t *call = arg;
  char text[CANCELLED_TEXT];
  say_cancelled(call->channel, text);
  grpc_call_cancel_with_status(call->impl, GRPC_STATUS_CANCELLED, text, NULL);
}

/* ---- the calls in flight ---- */

static void call_link(call_t *call) {
  weft_rpc_channel_t *c = call->channel;
  call->started_ns = weft_clock_ns();
  weft_mutex_lock(&c->mu);
  call->next = c->calls;
  if (call->next != NULL) call->next->prev = call;
  c->calls = call;
  call->is_linked = true;
  weft_mutex_unlock(&c->mu);
}

static void call_unlink(call_t *call) {
  weft_rpc_channel_t *c = call->channel;
  weft_mutex_lock(&c->mu);
  if (call->is_linked) {
    if (call->prev != NULL) call->prev->next = call->next;
    if (call->prev == NULL) c->calls = call->next;
    if (call->next != NULL) call->next->prev = call->prev;
    call->is_linked = false;
  }
  weft_mutex_unlock(&c->mu);
}

void weft_rpc_channel_end_calls(weft_rpc_channel_t *c, const weft_status_t *why, int64_t min_age_ms) {
  int64_t before = weft_clock_ns() - min_age_ms * 1000000;
  weft_status_t *copy = weft_status_clone(why);
  weft_mutex_lock(&c->mu);
  weft_status_t *old = c->ended_by;
  c->ended_by = copy;
  for (call_t *call = c->calls; call != NULL; call = call->next) {
    if (call->outlives_loss || call->started_ns > before) continue;
    call->is_ended = true;
    grpc_call_cancel_with_status(call->impl, (grpc_status_code)weft_status_code(why),
                                 weft_status_message(why), NULL);
  }
  weft_mutex_unlock(&c->mu);
  weft_status_free(old);
  weft_local_peer_end(c->local, why, before);
}

void weft_rpc_channel_refuse(weft_rpc_channel_t *c, const weft_status_t *why) {
  weft_status_t *copy = weft_status_clone(why);
  weft_mutex_lock(&c->mu);
  weft_status_t *old = c->refusal;
  c->refusal = copy;
  atomic_store(&c->has_refusal, copy != NULL);
  weft_mutex_unlock(&c->mu);
  weft_status_free(old);
}

bool weft_rpc_channel_is_silent(weft_rpc_channel_t *c) { return atomic_load(&c->is_silent); }

static weft_status_t *refuse(weft_rpc_channel_t *c, const weft_rpc_options_t *o) {
  if (!atomic_load(&c->has_refusal) || (o != NULL && o->wait_for_ready)) return NULL;
  weft_mutex_lock(&c->mu);
  weft_status_t *s = weft_status_clone(c->refusal);
  weft_mutex_unlock(&c->mu);
  return s;
}

static weft_canceller_t *canceller_of(const weft_rpc_channel_t *c, const weft_rpc_options_t *o) {
  return o != NULL && o->canceller != NULL ? o->canceller : weft_rpc_client_stopper(c->client);
}

static void call_destroy(call_t *call) {
  if (call == NULL) return;
  call_unlink(call);
  grpc_metadata_array_destroy(&call->initial);
  grpc_metadata_array_destroy(&call->trailing);
  grpc_byte_buffer_destroy(call->request);
  grpc_byte_buffer_destroy(call->response);
  grpc_slice_unref(call->text);
  if (call->impl != NULL) grpc_call_unref(call->impl);
  weft_canceller_release(call->canceller);
  weft_rpc_client_t *client = call->channel->client;
  weft_rpc_channel_release(call->channel);
  weft_free(call);
  weft_rpc_client_leave(client);
}

/* Consumes `request`. */
static weft_status_t *call_create(weft_rpc_channel_t *c, grpc_completion_queue *queue, const char *path,
                                  weft_message_t *request, const weft_rpc_options_t *o, call_t **out) {
  call_t *call = weft_calloc(1, sizeof *call);
  if (call == NULL) {
    weft_message_destroy(request);
    return WEFT_NO_MEMORY("calling %s", path);
  }
  weft_rpc_client_enter(c->client);
  call->channel = weft_rpc_channel_retain(c);
  grpc_metadata_array_init(&call->initial);
  grpc_metadata_array_init(&call->trailing);
  call->text = grpc_empty_slice();
  call->request = weft_message_to_buffer(request);
  weft_message_destroy(request);
  gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (o != NULL && o->timeout_ms > 0)
    deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(o->timeout_ms, GPR_TIMESPAN));
  void *handle = registered(c, path);
  if (handle != NULL) {
    call->impl = grpc_channel_create_registered_call(c->impl, NULL, GRPC_PROPAGATE_DEFAULTS, queue, handle,
                                                     deadline, NULL);
  } else {
    grpc_slice method = grpc_slice_from_copied_string(path);
    call->impl =
        grpc_channel_create_call(c->impl, NULL, GRPC_PROPAGATE_DEFAULTS, queue, method, NULL, deadline, NULL);
    grpc_slice_unref(method);
  }
  call->canceller = weft_canceller_retain(canceller_of(c, o));
  call->outlives_loss = o != NULL && o->wait_for_ready && !o->ends_at_loss;
  call_link(call);
  *out = call;
  return NULL;
}

/* Step 2. After a success the call may be gone. */
static weft_status_t *call_start(call_t *call, const char *path, const weft_rpc_options_t *o) {
  grpc_op ops[6];
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  if (o != NULL && o->wait_for_ready)
    ops[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = call->request;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &call->response;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing;
  ops[5].data.recv_status_on_client.status = &call->code;
  ops[5].data.recv_status_on_client.status_details = &call->text;
  if (call->canceller != NULL) {
    call->is_registered = weft_canceller_register(call->canceller, cancel_call, call, &call->token);
    if (!call->is_registered) {
      if (!weft_canceller_is_cancelled(call->canceller)) return WEFT_NO_MEMORY("calling %s", path);
      cancel_call(call); /* the batch then ends with CANCELLED */
    }
  }
  grpc_call *impl = call->impl;
  weft_rpc_tag_arm(&call->done); /* from here on the call may be gone */
  grpc_call_error error = grpc_call_start_batch(impl, ops, 6, &call->done, NULL);
  if (error == GRPC_CALL_OK) return NULL;
  if (call->is_registered) weft_canceller_deregister(call->canceller, call->token);
  return WEFT_ERROR(INTERNAL, "cannot call %s: %s", path, grpc_call_error_to_string(error));
}

/* Did the server say so, or gRPC on this side? A failure from a server of ours has a trailer that says so. */
static bool is_from_server(const call_t *call) {
  for (size_t i = 0; i < call->trailing.count; i++) {
    if (grpc_slice_str_cmp(call->trailing.metadata[i].key, WEFT_RPC_ANSWERED) == 0) return true;
  }
  return false;
}

/* The part of `text` behind `words`; with NULL for its data if they are not in it. */
static weft_str_t behind(weft_str_t text, const char *words) {
  const char *at = text.length == 0 ? NULL : memmem(text.data, text.length, words, strlen(words));
  if (at == NULL) return (weft_str_t){NULL, 0};
  at += strlen(words);
  return weft_str_of(at, text.length - (size_t)(at - text.data));
}

/* Why there is no connection, if that is what gRPC says: nothing listens, or the listener went away before it
 * spoke HTTP/2. Else empty. */
static weft_str_t why_not_connected(weft_str_t text, const char *target) {
  weft_str_t why = behind(text, "Failed to connect to remote host: ");
  if (why.length > 0) return why;
  why = behind(text, "failed to connect to all addresses; last error: ");
  weft_str_t of_address =
      behind(why, target); /* "UNAVAILABLE: ipv4:ADDRESS: recvmsg:Connection reset by peer" */
  if (of_address.length > 2) return weft_str_of(of_address.data + 2, of_address.length - 2);
  return why;
}

/* The server keeps the connection, but answers no ping. */
static weft_status_t *is_silent(weft_rpc_channel_t *c) {
  atomic_store(&c->is_silent, true);
  return WEFT_ERROR(UNAVAILABLE, "%s at %s does not answer; is it stopped, or its host overloaded?",
                    name_of(c), c->target);
}

/* gRPC's text alone, "Socket closed", does not say whose connection it is. */
static weft_status_t *lost_connection(weft_rpc_channel_t *c, weft_str_t text) {
  const char *peer = name_of(c);
  weft_local_peer_lost(c->local);
  if (behind(text, "keepalive watchdog timeout").data != NULL) return is_silent(c);
  const weft_str_t why = why_not_connected(text, c->target);
  if (why.length > 0)
    return WEFT_ERROR(UNAVAILABLE, "cannot connect to %s at %s: %.*s", peer, c->target, WEFT_STR_ARGS(why));
  return WEFT_ERROR(UNAVAILABLE, "lost the connection to %s at %s: %.*s", peer, c->target,
                    WEFT_STR_ARGS(text));
}

#define DROPPED "the call was dropped, as by a server that is being shut down"

/* A call was answered. */
static void note_answer(weft_rpc_channel_t *c) {
  if (atomic_load(&c->is_silent)) atomic_store(&c->is_silent, false);
  if (atomic_load(&c->has_refusal)) weft_rpc_channel_refuse(c, NULL);
}

/* Step 3. */
static weft_status_t *call_finish(call_t *call, weft_message_t **out) {
  if (call->is_registered) weft_canceller_deregister(call->canceller, call->token);
  if (call->code != GRPC_STATUS_OK) {
    weft_str_t text =
        weft_str_of((const char *)GRPC_SLICE_START_PTR(call->text), GRPC_SLICE_LENGTH(call->text));
    int code = (int)call->code;
    /* A server that went away in the middle: gRPC does not know whether the call was served. */
    if (code == GRPC_STATUS_UNKNOWN && weft_str_is(text, "Stream removed")) code = WEFT_UNAVAILABLE;
    weft_mutex_lock(&call->channel->mu);
    weft_status_t *ended_by = call->is_ended ? weft_status_clone(call->channel->ended_by) : NULL;
    weft_mutex_unlock(&call->channel->mu);
    if (ended_by != NULL && !is_from_server(call))
      return ended_by; /* also if gRPC says that the connection broke: that comes of it */
    weft_status_free(ended_by);
    /* Calls that a server has not begun when it is shut down come back so. */
    bool is_dropped = code == WEFT_CANCELLED && (text.length == 0 || weft_str_is(text, "CANCELLED")) &&
                      !weft_canceller_is_cancelled(call->canceller);
    if (is_dropped) text = WEFT_STR(DROPPED);
    if ((code == WEFT_UNAVAILABLE || is_dropped) && !is_from_server(call))
      return lost_connection(call->channel, text);
    return weft_status_from_wire(code, text.data, text.length);
  }
  note_answer(call->channel);
  if (call->response == NULL)
    return WEFT_ERROR(INTERNAL, "the server at %s answered without a message", call->channel->target);
  grpc_byte_buffer *response = call->response;
  call->response = NULL;
  return weft_message_from_buffer(response, out);
}

/* ---- calls past gRPC ---- */

/* A call whose end is told. */
typedef struct local_rpc {
  weft_local_call_t base;
  weft_rpc_channel_t *channel; /* retained */
  weft_rpc_done_fn *fn;
  void *arg;
} local_rpc_t;

static bool is_for_local(const weft_rpc_channel_t *c, const weft_rpc_options_t *o) {
  return weft_local_peer_is_near(c->local) &&
         (o == NULL || (!o->wait_for_ready && !o->is_quiet && o->timeout_ms == 0));
}

/* What became of the call, as it would be said of one over gRPC. Consumes `status`. */
static weft_status_t *end_of_local(weft_rpc_channel_t *c, weft_local_outcome_t outcome, weft_status_t *status,
                                   bool is_answered) {
  char text[CANCELLED_TEXT];
  switch (outcome) {
    case WEFT_LOCAL_ANSWERED: note_answer(c); return NULL;
    case WEFT_LOCAL_FAILED:
      if (is_answered || weft_status_code(status) != WEFT_CANCELLED) return status;
      weft_status_free(status);
      return lost_connection(c, WEFT_STR(DROPPED));
    case WEFT_LOCAL_ENDED: return status;
    case WEFT_LOCAL_SILENT: return is_silent(c);
    case WEFT_LOCAL_CANCELLED: say_cancelled(c, text); return WEFT_ERROR(CANCELLED, "%s", text);
    case WEFT_LOCAL_LOST: break;
  }
  return lost_connection(c, WEFT_STR("Socket closed"));
}

static void on_local_done(weft_local_call_t *base) {
  local_rpc_t *call = (local_rpc_t *)(void *)base;
  weft_rpc_channel_t *c = call->channel;
  weft_rpc_client_t *client = c->client;
  weft_status_t *s = end_of_local(c, base->outcome, base->status, base->is_answered);
  weft_rpc_done_fn *fn = call->fn;
  void *arg = call->arg;
  weft_message_t *answer = base->answer;
  weft_free(call);
  weft_rpc_channel_release(c);
  fn(arg, s, answer);
  weft_rpc_client_leave(client);
}

/* False: the call is to go over gRPC, and nothing was taken. */
static bool call_locally(weft_rpc_channel_t *c, const char *path, weft_message_t *request,
                         const weft_rpc_options_t *o, weft_rpc_done_fn *done, void *arg) {
  weft_local_loop_t *loop = NULL;
  weft_status_t *s = weft_rpc_loop_local(weft_rpc_client_loop(c->client), &loop);
  local_rpc_t *call = s == NULL ? weft_calloc(1, sizeof *call) : NULL;
  weft_status_free(s);
  if (call == NULL) return false;
  call->base.done = on_local_done;
  call->channel = weft_rpc_channel_retain(c);
  call->fn = done;
  call->arg = arg;
  weft_rpc_client_enter(c->client);
  if (weft_local_peer_start(c->local, loop, path, request, canceller_of(c, o), &call->base)) return true;
  weft_rpc_client_leave(c->client);
  weft_rpc_channel_release(c);
  weft_free(call);
  return false;
}

void weft_rpc_channel_expect_more(weft_rpc_channel_t *c) {
  if (weft_local_peer_is_near(c->local)) weft_local_peer_expect_more(c->local);
}

/* The same for a call whose thread waits. */
static bool wait_locally(weft_rpc_channel_t *c, const char *path, weft_message_t *request,
                         const weft_rpc_options_t *o, weft_message_t **out, weft_status_t **out_status) {
  weft_local_reply_t r = {.outcome = WEFT_LOCAL_LOST};
  weft_rpc_client_enter(c->client);
  const bool was_near = weft_local_peer_wait(c->local, path, request, canceller_of(c, o), &r);
  weft_rpc_client_leave(c->client);
  if (!was_near) return false;
  if (o != NULL && o->out_is_answered != NULL) *o->out_is_answered = r.is_answered;
  *out_status = end_of_local(c, r.outcome, r.status, r.is_answered);
  if (*out_status == NULL) *out = r.answer;
  return true;
}

/* ---- where the server is ---- */

/* Asks whether the server is on this host; NULL without memory. */
static weft_message_t *introduction(void) {
  weft_message_t *m = NULL;
  weft_status_t *s = weft_message_create(&m);
  if (s == NULL) s = weft_message_append(m, WEFT_STR(WEFT_LOCAL_VERSION));
  if (s == NULL) s = weft_message_append(m, weft_local_link_host());
  if (s == NULL) return m;
  weft_status_free(s); /* calls go over gRPC */
  weft_message_destroy(m);
  return NULL;
}

/* Consumes both. */
static void introduced(weft_rpc_channel_t *c, weft_status_t *status, weft_message_t *answer) {
  weft_str_t name = WEFT_STR("");
  if (status == NULL) status = weft_message_flatten(answer, &name);
  weft_local_peer_named(c->local, status == NULL ? name : WEFT_STR(""));
  weft_status_free(status); /* TensorFlow's servers have no such method; calls go over gRPC */
  weft_message_destroy(answer);
}

static void on_introduced(void *arg, weft_status_t *status, weft_message_t *answer) {
  weft_rpc_channel_t *c = arg;
  introduced(c, status, answer);
  weft_rpc_channel_release(c);
}

/* Is the server's name wanted, and is this host one that can have local connections? */
static bool wants_name(weft_rpc_channel_t *c) {
  return weft_local_peer_wants_name(c->local) && weft_local_link_host().length > 0;
}

static void introduce(weft_rpc_channel_t *c) {
  weft_message_t *m = wants_name(c) ? introduction() : NULL;
  if (m != NULL) weft_rpc_call(c, WEFT_LOCAL_INTRODUCE, m, NULL, on_introduced, weft_rpc_channel_retain(c));
}

static void introduce_sync(weft_rpc_channel_t *c) {
  weft_message_t *m = wants_name(c) ? introduction() : NULL, *answer = NULL;
  if (m == NULL) return;
  weft_status_t *s = weft_rpc_call_sync(c, WEFT_LOCAL_INTRODUCE, m, NULL, &answer);
  introduced(c, s, answer);
}

/* ---- calls over gRPC ---- */

static void on_done(weft_rpc_tag_t *tag, bool ok) {
  (void)ok; /* always true for a batch that asks for the status */
  call_t *call = (call_t *)(void *)tag;
  weft_rpc_done_fn *fn = call->fn;
  void *arg = call->arg;
  weft_message_t *response = NULL;
  weft_status_t *s = call_finish(call, &response);
  /* The client stays until the caller knows: its destroy waits for what we do in fn. */
  weft_rpc_client_t *client = call->channel->client;
  weft_rpc_client_enter(client);
  if (s == NULL) introduce(call->channel);
  call_destroy(call);
  fn(arg, s, response);
  weft_rpc_client_leave(client);
}

/* Consumes `request`. */
static void call_by_grpc(weft_rpc_channel_t *c, const char *path, weft_message_t *request,
                         const weft_rpc_options_t *o, weft_rpc_done_fn *done, void *arg) {
  call_t *call = NULL;
  weft_rpc_loop_t *loop = weft_rpc_client_loop(c->client);
  weft_status_t *s = weft_rpc_loop_start(loop);
  if (s != NULL) {
    weft_message_destroy(request);
  } else {
    s = call_create(c, weft_rpc_loop_queue(loop), path, request, o, &call);
  }
  if (s == NULL) {
    call->done.done = on_done;
    call->fn = done;
    call->arg = arg;
    s = call_start(call, path, o);
  }
  if (s == NULL) return;
  call_destroy(call);
  done(arg, s, NULL);
}

void weft_rpc_call(weft_rpc_channel_t *c, const char *path, weft_message_t *request,
                   const weft_rpc_options_t *o, weft_rpc_done_fn *done, void *arg) {
  weft_status_t *refused = refuse(c, o);
  if (refused != NULL) {
    weft_message_destroy(request);
    done(arg, refused, NULL);
  } else if (!is_for_local(c, o) || !call_locally(c, path, request, o, done, arg)) {
    call_by_grpc(c, path, request, o, done, arg);
  }
}

/* A short answer often comes sooner than a sleeping thread is woken on an idle machine: look for SPIN_NS,
 * then sleep. The deadline, if any, is the call's own: gRPC ends the call, and then this wait. */
#define SPIN_NS 40000

static void await(grpc_completion_queue *queue, void *tag) {
  int64_t until = weft_clock_ns() + SPIN_NS;
  while (weft_clock_ns() < until) {
    grpc_event e = grpc_completion_queue_pluck(queue, tag, gpr_inf_past(GPR_CLOCK_REALTIME), NULL);
    if (e.type == GRPC_OP_COMPLETE) return;
  }
  grpc_completion_queue_pluck(queue, tag, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
}

/* ---- waiting without polling ---- */

typedef struct nap {
  weft_mutex_t mu;
  weft_cond_t woken;
  bool is_cancelled; /* guarded by mu */
} nap_t;

static void wake(void *arg) {
  nap_t *n = arg;
  weft_mutex_lock(&n->mu);
  n->is_cancelled = true;
  weft_cond_signal(&n->woken);
  weft_mutex_unlock(&n->mu);
}

/* Looks after gRPC and for the end of the call every LOOK_NS, until the canceller ends it. */
static void await_quietly(grpc_completion_queue *queue, call_t *call) {
  const int64_t LOOK_NS =
      500000000; /* pings of ours must be seen to be answered within 2 s: rpc/arguments.c */
  nap_t n = {.is_cancelled = false};
  uint64_t token = 0;
  weft_mutex_init(&n.mu);
  weft_cond_init(&n.woken);
  bool is_over = false, is_linked = weft_canceller_register(call->canceller, wake, &n, &token);
  while (is_linked && !is_over) {
    grpc_event e = grpc_completion_queue_pluck(queue, &call->done, gpr_inf_past(GPR_CLOCK_REALTIME), NULL);
    if (e.type == GRPC_OP_COMPLETE) break;
    int64_t until = weft_clock_ns() + LOOK_NS;
    weft_mutex_lock(&n.mu);
    while (!n.is_cancelled && weft_cond_wait_until(&n.woken, &n.mu, until)) { /* woken by wake() */
    }
    is_over = n.is_cancelled;
    weft_mutex_unlock(&n.mu);
  }
  if (is_linked) weft_canceller_deregister(call->canceller, token);
  if (!is_linked || is_over) await(queue, &call->done);
  weft_cond_deinit(&n.woken);
  weft_mutex_deinit(&n.mu);
}

weft_status_t *weft_rpc_call_sync(weft_rpc_channel_t *c, const char *path, weft_message_t *request,
                                  const weft_rpc_options_t *o, weft_message_t **out) {
  weft_rpc_client_t *client = c->client;
  call_t *call = NULL;
  weft_status_t *s = refuse(c, o);
  if (s != NULL || (is_for_local(c, o) && wait_locally(c, path, request, o, out, &s))) {
    weft_message_destroy(request);
    return s;
  }
  grpc_completion_queue *queue = weft_rpc_client_take_queue(client);
  s = call_create(c, queue, path, request, o, &call);
  if (s == NULL) s = call_start(call, path, o);
  if (s == NULL) {
    if (o != NULL && o->is_quiet) {
      await_quietly(queue, call);
    } else {
      await(queue, &call->done);
    }
    s = call_finish(call, out);
    if (o != NULL && o->out_is_answered != NULL) *o->out_is_answered = is_from_server(call);
  }
  const bool is_answered = s == NULL;
  call_destroy(call);
  weft_rpc_client_give_queue(client, queue);
  if (is_answered) introduce_sync(c);
  return s;
}
