/* rpc/local_calls.c - a table of calls over one connection.
 *
 * Whatever ends a call takes it out of the table first, under `mu`, and so is the only one that ends it.
 *
 * Locking: `mu` guards the table and is a leaf. Packets are sent, cancellers asked and callers told outside
 * it.
 */
#include "rpc/local_calls.h"

#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "rpc/local_socket.h"

struct weft_local_calls {
  weft_local_conn_t conn;
  weft_mutex_t mu;
  weft_map_t table; /* id -> weft_local_call_t; guarded by mu, as all below */
  uint64_t last_id;
  atomic_bool is_over; /* read without mu, too */
  bool is_silent;
  int quiet_ticks;       /* since the server was heard */
  atomic_bool was_heard; /* since the last tick */
};

static weft_local_calls_t *calls_of(weft_local_conn_t *c) { return (weft_local_calls_t *)(void *)c; }

/* ---- the end of a call ---- */

static weft_local_call_t *take_locked(weft_local_calls_t *c, uint64_t id) WEFT_REQUIRES(c->mu) {
  weft_local_call_t *call = weft_map_remove_u64(&c->table, id);
  if (call != NULL) call->is_over = true;
  return call;
}

/* Tells the caller; it was taken out of the table. On a thread of the loop. */
static void finish(weft_local_call_t *call) {
  weft_local_calls_t *c = call->calls;
  if (call->is_registered) weft_canceller_deregister(call->canceller, call->waiter.token);
  weft_canceller_release(call->canceller);
  call->done(call);
  weft_local_calls_release(c);
}

static void finish_posted(weft_local_post_t *p) {
  finish((weft_local_call_t *)(void *)((char *)p - offsetof(weft_local_call_t, post)));
}

static void finish_later(weft_local_call_t *call) {
  call->post.fn = finish_posted;
  weft_local_loop_post(call->calls->conn.loop, &call->post);
}

static void tell_server(weft_local_calls_t *c, uint64_t id) {
  const weft_packet_t p = {.kind = WEFT_PACKET_CANCEL, .id = id};
  (void)weft_local_conn_send(&c->conn, &p); /* it forgets the call in time without it */
}

static void cancel(void *arg) {
  weft_local_call_t *call = arg; /* lives: finish waits for us */
  weft_local_calls_t *c = call->calls;
  weft_mutex_lock(&c->mu);
  const bool is_mine = !call->is_over, was_sent = call->is_sent;
  const uint64_t id = call->id;
  if (is_mine && was_sent) (void)take_locked(c, id);
  call->is_over = true; /* one that was not sent yet: weft_local_calls_start() sees it */
  weft_mutex_unlock(&c->mu);
  if (!is_mine || !was_sent) return;
  tell_server(c, id);
  call->outcome = WEFT_LOCAL_CANCELLED;
  finish_later(call);
}

void weft_local_calls_end(weft_local_calls_t *c, const weft_status_t *why, int64_t before_ns) {
  for (;;) {
    weft_local_call_t *found = NULL;
    weft_map_entry_t e;
    weft_mutex_lock(&c->mu);
    for (size_t at = 0; found == NULL && weft_map_next(&c->table, &at, &e);) {
      weft_local_call_t *call = e.value;
      if (call->started_ns <= before_ns) found = call;
    }
    if (found != NULL) (void)take_locked(c, found->id);
    weft_mutex_unlock(&c->mu);
    if (found == NULL) return;
    const uint64_t id = found->id;
    found->outcome = WEFT_LOCAL_ENDED;
    found->status = weft_status_clone(why);
    finish_later(found);
    tell_server(c, id);
  }
}

/* ---- what the connection brings ---- */

static void answered(weft_local_calls_t *c, weft_packet_t *p) {
  weft_mutex_lock(&c->mu);
  weft_local_call_t *call = take_locked(c, p->id);
  weft_mutex_unlock(&c->mu);
  if (call == NULL) { /* it was given up */
    weft_message_destroy(p->message);
    weft_status_free(p->failure);
    return;
  }
  call->outcome = WEFT_LOCAL_ANSWERED;
  call->answer = p->message;
  if (p->failure != NULL) {
    weft_message_destroy(p->message);
    call->answer = NULL;
    call->outcome = WEFT_LOCAL_FAILED;
    call->status = p->failure;
  } else if (p->kind == WEFT_PACKET_FAILURE) {
    call->outcome = WEFT_LOCAL_FAILED;
    call->is_answered = p->is_answered;
    call->status = weft_status_from_wire((int)p->code, p->text.data, p->text.length);
  }
  finish(call);
}

static void on_packet(weft_local_conn_t *conn, weft_packet_t *p) {
  weft_local_calls_t *c = calls_of(conn);
  if (!atomic_load_explicit(&c->was_heard, memory_order_relaxed))
    atomic_store_explicit(&c->was_heard, true, memory_order_relaxed);
  if (p->kind == WEFT_PACKET_ANSWER || p->kind == WEFT_PACKET_FAILURE) {
    answered(c, p);
  } else {
    weft_message_destroy(p->message);
    weft_status_free(p->failure);
    if (p->kind != WEFT_PACKET_PONG) weft_local_conn_break(conn); /* a server says nothing else */
  }
}

static void on_closed(weft_local_conn_t *conn) {
  weft_local_calls_t *c = calls_of(conn);
  for (;;) {
    weft_map_entry_t e;
    weft_local_call_t *call = NULL;
    weft_mutex_lock(&c->mu);
    c->is_over = true;
    size_t at = 0;
    if (weft_map_next(&c->table, &at, &e)) call = take_locked(c, ((weft_local_call_t *)e.value)->id);
    const bool is_silent = c->is_silent;
    weft_mutex_unlock(&c->mu);
    if (call == NULL) return;
    call->outcome = is_silent ? WEFT_LOCAL_SILENT : WEFT_LOCAL_LOST;
    finish(call);
  }
}

/* A server that is stopped keeps its connections: it is asked whether it is there. */
static bool on_tick(weft_local_conn_t *conn) {
  weft_local_calls_t *c = calls_of(conn);
  const bool was_heard = atomic_exchange_explicit(&c->was_heard, false, memory_order_relaxed);
  weft_mutex_lock(&c->mu);
  const bool waits = c->table.count > 0 && !c->is_over;
  c->quiet_ticks = was_heard || !waits ? 0 : c->quiet_ticks + 1;
  const bool asks = c->quiet_ticks == WEFT_LOCAL_PING_TICKS;
  const bool is_silent = c->quiet_ticks >= WEFT_LOCAL_SILENT_TICKS;
  if (is_silent) c->is_silent = true;
  weft_mutex_unlock(&c->mu);
  const weft_packet_t ping = {.kind = WEFT_PACKET_PING};
  if (asks) (void)weft_local_conn_send(conn, &ping);
  if (is_silent) weft_local_conn_break(conn);
  return waits && !is_silent;
}

static void destroy(weft_local_conn_t *conn) {
  weft_local_calls_t *c = calls_of(conn);
  weft_map_deinit(&c->table);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

/* ---- calls ---- */

weft_local_calls_t *weft_local_calls_open(weft_local_loop_t *loop, weft_str_t name, bool *is_gone) {
  static const weft_local_conn_ops_t ops = {
      .packet = on_packet, .closed = on_closed, .tick = on_tick, .destroy = destroy};
  int fd = weft_local_socket_connect(name, SOCK_SEQPACKET, is_gone);
  weft_local_calls_t *c = fd < 0 ? NULL : weft_calloc(1, sizeof *c);
  if (c == NULL) {
    weft_local_socket_close(fd);
    return NULL;
  }
  weft_mutex_init(&c->mu);
  weft_status_t *s = weft_local_conn_open(&c->conn, &ops, loop, fd, true);
  if (s == NULL) return c;
  weft_status_free(s); /* calls go over gRPC */
  return NULL;
}

weft_local_calls_t *weft_local_calls_retain(weft_local_calls_t *c) {
  (void)weft_local_conn_retain(&c->conn);
  return c;
}
void weft_local_calls_release(weft_local_calls_t *c) {
  if (c != NULL) weft_local_conn_release(&c->conn);
}
void weft_local_calls_close(weft_local_calls_t *c) {
  if (c != NULL) weft_local_conn_break(&c->conn);
}
void weft_local_calls_expect_more(weft_local_calls_t *c) { weft_local_conn_expect_more(&c->conn); }
bool weft_local_calls_are_over(weft_local_calls_t *c) {
  return atomic_load_explicit(&c->is_over, memory_order_relaxed); /* a call that begins asks again */
}

typedef enum start_result { ENTERED, CANCELLED_BEFORE, REFUSED } start_result_t;

/* Into the table, unless it was cancelled. REFUSED: the connection has ended, or there is no memory. */
static start_result_t enter_table(weft_local_calls_t *c, weft_local_call_t *call, uint64_t *out_id) {
  weft_status_t *s = NULL;
  start_result_t result = REFUSED;
  weft_mutex_lock(&c->mu);
  if (call->is_over) {
    result = CANCELLED_BEFORE;
  } else if (!c->is_over) {
    *out_id = call->id = ++c->last_id;
    s = weft_map_put_u64(&c->table, call->id, call, NULL);
    if (s == NULL) result = ENTERED;
  }
  call->is_sent = result == ENTERED;
  call->is_over = result != ENTERED;
  weft_mutex_unlock(&c->mu);
  weft_status_free(s); /* the call goes another way */
  return result;
}

/* The connection is not told of the call: nothing was sent. */
static void fail_unsent(weft_local_calls_t *c, uint64_t id, const char *path) {
  weft_mutex_lock(&c->mu);
  weft_local_call_t *call = take_locked(c, id);
  weft_mutex_unlock(&c->mu);
  if (call == NULL) return;
  call->outcome = WEFT_LOCAL_FAILED;
  call->status = WEFT_NO_MEMORY("calling %s", path);
  finish_later(call);
}

static void leave_unsent(weft_local_call_t *call) {
  if (call->is_registered) weft_canceller_deregister(call->canceller, call->waiter.token);
  weft_canceller_release(call->canceller);
  weft_local_calls_release(call->calls);
}

bool weft_local_calls_start(weft_local_calls_t *c, const char *path, weft_message_t *request,
                            weft_canceller_t *canceller, weft_local_call_t *call) {
  uint64_t id = 0;
  call->calls = weft_local_calls_retain(c);
  call->canceller = weft_canceller_retain(canceller);
  call->started_ns = weft_clock_ns();
  call->is_registered = weft_canceller_register_in(canceller, &call->waiter, cancel, call);
  start_result_t entry = CANCELLED_BEFORE;
  if (call->is_registered) entry = enter_table(c, call, &id); /* from here on the call may be gone */
  if (entry == REFUSED) {
    leave_unsent(call);
    return false;
  }
  if (entry == CANCELLED_BEFORE) {
    weft_message_destroy(request);
    call->outcome = WEFT_LOCAL_CANCELLED;
    finish_later(call);
    return true;
  }
  weft_local_loop_tick(c->conn.loop);
  const weft_packet_t p = {.kind = WEFT_PACKET_CALL, .id = id, .text = weft_str(path), .message = request};
  /* Where the connection has broken, its end ends the call. */
  if (weft_local_conn_send(&c->conn, &p) == WEFT_PACKET_NO_MEMORY) fail_unsent(c, id, path);
  return true;
}
