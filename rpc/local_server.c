/* rpc/local_server.c - calls that come over local connections.
 *
 * A connection has the list of the calls that are being served for it. A call is in the list from its packet
 * until its answer; it has a reference of the connection and one in the intake's count, so that a server that
 * stops waits for it.
 *
 * The packet that cancels a call may overtake the call's own (rpc/local_ring.h). A connection remembers the
 * last ones that found no call.
 *
 * Locking: the server's `mu` guards the list of connections, a connection's `mu` the list of its calls;
 * neither is taken under the other. Cancellers are cancelled outside both.
 */
#define _GNU_SOURCE /* SO_PEERCRED */
#include "rpc/local_server.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "rpc/local_link.h"
#include "rpc/local_socket.h"

enum { EARLY_CANCELS = 8 }; /* more than overtake their calls at once */

typedef struct served_conn served_conn_t;

typedef enum end_stage {
  GOES_ON,
  CALLS_CANCELLED,
  BROKEN
} end_stage_t; /* what a server that stops has done */

typedef struct local_served {
  weft_rpc_call_t base;
  served_conn_t *conn; /* retained */
  uint64_t id;
  bool was_looked_for;              /* by `taker` */
  pthread_t taker;                  /* the thread that has taken the call's packet */
  struct local_served *prev, *next; /* guarded by the connection's mu */
  bool is_cancelled;                /* the same */
} local_served_t;

struct served_conn {
  weft_local_conn_t conn;
  weft_local_server_t *server;
  served_conn_t *prev, *next; /* guarded by the server's mu, as both below */
  bool is_listed, has_ended;
  end_stage_t stage;
  char peer[32];
  weft_mutex_t mu;
  local_served_t *calls;         /* guarded by mu */
  bool is_closed;                /* the same, as below */
  uint64_t early[EARLY_CANCELS]; /* calls that were cancelled before they came; 0: none */
  int next_early;
};

struct weft_local_server {
  weft_rpc_intake_t *intake;
  weft_rpc_loop_t *rpc_loop;
  weft_local_loop_t *loop; /* borrowed; NULL until it listens */
  weft_local_source_t listener;
  char name[40];
  weft_mutex_t mu;
  weft_cond_t changed;
  bool has_tried, is_stopped; /* guarded by mu, as all below */
  bool is_listening;          /* until the listener's last event */
  served_conn_t *conns;       /* those that have not closed */
  int num_conns;              /* that exist */
};

/* ---- calls ---- */

static void unlink_call(local_served_t *c) {
  served_conn_t *conn = c->conn;
  weft_mutex_lock(&conn->mu);
  if (c->prev != NULL) c->prev->next = c->next;
  if (c->prev == NULL) conn->calls = c->next;
  if (c->next != NULL) c->next->prev = c->prev;
  weft_mutex_unlock(&conn->mu);
}

static void call_free(local_served_t *c) {
  weft_rpc_intake_t *intake = c->conn->server->intake;
  weft_message_destroy(c->base.request);
  weft_canceller_release(c->base.canceller);
  weft_local_conn_release(&c->conn->conn);
  weft_free(c);
  weft_rpc_intake_leave(intake);
}

/* Ends the call with the packet, whose message is consumed. */
static void answer(local_served_t *c, const weft_packet_t *p) {
  unlink_call(c);
  if (weft_local_conn_send(&c->conn->conn, p) == WEFT_PACKET_NO_MEMORY) {
    const weft_packet_t failure = {.kind = WEFT_PACKET_FAILURE,
                                   .id = p->id,
                                   .code = WEFT_RESOURCE_EXHAUSTED,
                                   .is_answered = true,
                                   .text = WEFT_STR("no memory for an answer")};
    /* An end that the caller does not hear of would leave it waiting. */
    if (weft_local_conn_send(&c->conn->conn, &failure) == WEFT_PACKET_NO_MEMORY)
      weft_local_conn_break(&c->conn->conn);
  }
  call_free(c);
}

static const char *peer_of(weft_rpc_call_t *base) { return ((local_served_t *)(void *)base)->conn->peer; }

static int64_t deadline_of(weft_rpc_call_t *base) {
  (void)base; /* calls with a deadline go over gRPC */
  return INT64_MAX;
}

static void reply(weft_rpc_call_t *base, weft_message_t *response) {
  local_served_t *c = (local_served_t *)(void *)base;
  const weft_packet_t p = {.kind = WEFT_PACKET_ANSWER, .id = c->id, .message = response};
  answer(c, &p);
}

static void fail(weft_rpc_call_t *base, weft_status_t *status) {
  local_served_t *c = (local_served_t *)(void *)base;
  char text[WEFT_STATUS_WIRE_BYTES + 1];
  const size_t length = weft_status_copy_text(weft_status_message(status), text, sizeof text);
  const weft_packet_t p = {.kind = WEFT_PACKET_FAILURE,
                           .id = c->id,
                           .code = weft_status_code(status),
                           .is_answered = true,
                           .text = weft_str_of(text, length)};
  weft_status_free(status);
  answer(c, &p);
}

static void expect_more(weft_rpc_call_t *base) {
  weft_local_conn_expect_more(&((local_served_t *)(void *)base)->conn->conn);
}

static bool was_looked_for(weft_rpc_call_t *base) {
  const local_served_t *c = (local_served_t *)(void *)base;
  return c->was_looked_for && pthread_equal(c->taker, pthread_self());
}

static const weft_rpc_call_ops_t call_ops = {.peer = peer_of,
                                             .deadline_ns = deadline_of,
                                             .reply = reply,
                                             .fail = fail,
                                             .expect_more = expect_more,
                                             .was_looked_for = was_looked_for};

/* A failure that no handler has seen. */
static void refuse(served_conn_t *conn, uint64_t id, weft_code_t code, weft_str_t text) {
  const weft_packet_t p = {.kind = WEFT_PACKET_FAILURE, .id = id, .code = code, .text = text};
  if (weft_local_conn_send(&conn->conn, &p) == WEFT_PACKET_NO_MEMORY) weft_local_conn_break(&conn->conn);
}

static bool was_cancelled_locked(const served_conn_t *conn, uint64_t id) WEFT_REQUIRES(conn->mu) {
  bool found = false;
  for (int i = 0; i < EARLY_CANCELS && id != 0; i++) found = found || conn->early[i] == id;
  return found;
}

/* Consumes the packet's message. NULL without memory. */
static local_served_t *call_new(served_conn_t *conn, weft_rpc_method_t *method, const weft_packet_t *p) {
  weft_message_t *request = p->message;
  local_served_t *c = weft_calloc(1, sizeof *c);
  if (c != NULL) c->base.canceller = weft_canceller_create(NULL);
  if (c == NULL || c->base.canceller == NULL) {
    weft_free(c);
    weft_message_destroy(request);
    return NULL;
  }
  c->base.ops = &call_ops;
  c->base.method = method;
  c->base.request = request;
  c->conn = conn;
  c->id = p->id;
  c->was_looked_for = p->was_looked_for;
  c->taker = pthread_self();
  (void)weft_local_conn_retain(&conn->conn);
  weft_mutex_lock(&conn->mu);
  c->next = conn->calls;
  if (c->next != NULL) c->next->prev = c;
  conn->calls = c;
  const bool is_late = conn->is_closed || was_cancelled_locked(conn, c->id);
  c->is_cancelled = is_late;
  weft_mutex_unlock(&conn->mu);
  if (is_late) weft_canceller_cancel(c->base.canceller); /* the caller has gone meanwhile */
  return c;
}

static void serve(served_conn_t *conn, weft_packet_t *p) {
  weft_rpc_intake_t *intake = conn->server->intake;
  weft_rpc_method_t *method = weft_map_get(&intake->by_path, p->text);
  weft_message_t *request = p->message;
  if (p->failure != NULL || method == NULL || !weft_rpc_intake_enter(intake)) {
    weft_message_destroy(request);
    if (p->failure != NULL) {
      refuse(conn, p->id, weft_status_code(p->failure), weft_str(weft_status_message(p->failure)));
      weft_status_free(p->failure);
    } else if (method == NULL) {
      refuse(conn, p->id, WEFT_UNIMPLEMENTED, WEFT_STR("no such method is served here"));
    } else {
      refuse(conn, p->id, WEFT_CANCELLED, WEFT_STR("")); /* as gRPC's server does */
    }
    return;
  }
  local_served_t *c = call_new(conn, method, p);
  if (c == NULL) {
    refuse(conn, p->id, WEFT_RESOURCE_EXHAUSTED, WEFT_STR("no memory for a call"));
    weft_rpc_intake_leave(intake);
    return;
  }
  method->fn(method->arg, &c->base);
}

/* Cancels one call that is not cancelled yet: the call `id`, which may be still to come, or any if id is 0.
 * False: there is none. */
static bool cancel_call(served_conn_t *conn, uint64_t id) {
  weft_canceller_t *found = NULL;
  weft_mutex_lock(&conn->mu);
  for (local_served_t *c = conn->calls; c != NULL && found == NULL; c = c->next) {
    if (c->is_cancelled || (id != 0 && c->id != id)) continue;
    c->is_cancelled = true;
    found = weft_canceller_retain(c->base.canceller);
  }
  if (found == NULL && id != 0) {
    conn->early[conn->next_early] = id;
    conn->next_early = (conn->next_early + 1) % EARLY_CANCELS;
  }
  weft_mutex_unlock(&conn->mu);
  if (found == NULL) return false;
  weft_canceller_cancel(found);
  weft_canceller_release(found);
  return true;
}

/* ---- connections ---- */

static served_conn_t *served(weft_local_conn_t *c) { return (served_conn_t *)(void *)c; }

static void on_packet(weft_local_conn_t *conn, weft_packet_t *p) {
  if (p->kind == WEFT_PACKET_CALL) {
    serve(served(conn), p);
    return;
  }
  weft_message_destroy(p->message);
  weft_status_free(p->failure);
  const weft_packet_t pong = {.kind = WEFT_PACKET_PONG};
  if (p->kind == WEFT_PACKET_CANCEL) {
    if (p->id != 0) (void)cancel_call(served(conn), p->id);
  } else if (p->kind == WEFT_PACKET_PING) {
    (void)weft_local_conn_send(conn, &pong);
  } else {
    weft_local_conn_break(conn); /* a caller says nothing else */
  }
}

static void on_closed(weft_local_conn_t *base) {
  served_conn_t *conn = served(base);
  weft_local_server_t *s = conn->server;
  weft_mutex_lock(&conn->mu);
  conn->is_closed = true;
  weft_mutex_unlock(&conn->mu);
  while (cancel_call(conn, 0)) {
  }
  weft_mutex_lock(&s->mu);
  conn->has_ended = true;
  if (conn->is_listed) {
    if (conn->prev != NULL) conn->prev->next = conn->next;
    if (conn->prev == NULL) s->conns = conn->next;
    if (conn->next != NULL) conn->next->prev = conn->prev;
  }
  weft_mutex_unlock(&s->mu);
}

static void destroy_conn(weft_local_conn_t *base) {
  served_conn_t *conn = served(base);
  weft_local_server_t *s = conn->server;
  weft_mutex_deinit(&conn->mu);
  weft_free(conn);
  weft_mutex_lock(&s->mu);
  if (--s->num_conns == 0) weft_cond_broadcast(&s->changed);
  weft_mutex_unlock(&s->mu);
}

/* Lists the connection, unless it has closed meanwhile. */
static void list_conn(weft_local_server_t *s, served_conn_t *conn) {
  weft_mutex_lock(&s->mu);
  const bool is_late = s->is_stopped;
  if (!conn->has_ended) {
    conn->is_listed = true;
    conn->next = s->conns;
    if (conn->next != NULL) conn->next->prev = conn;
    s->conns = conn;
  }
  weft_mutex_unlock(&s->mu);
  if (is_late) weft_local_conn_break(&conn->conn);
  weft_local_conn_release(&conn->conn);
}

static void open_conn(weft_local_server_t *s, int fd) {
  static const weft_local_conn_ops_t ops = {
      .packet = on_packet, .closed = on_closed, .destroy = destroy_conn};
  served_conn_t *conn = weft_calloc(1, sizeof *conn);
  if (conn == NULL) {
    weft_local_socket_close(fd);
    return;
  }
  conn->server = s;
  weft_mutex_init(&conn->mu);
  snprintf(conn->peer, sizeof conn->peer, "unix:process %" PRId64, weft_local_socket_peer(fd));
  weft_mutex_lock(&s->mu);
  s->num_conns++;
  weft_mutex_unlock(&s->mu);
  weft_status_t *status = weft_local_conn_open(&conn->conn, &ops, s->loop, fd, false);
  if (status == NULL) list_conn(s, conn);
  weft_status_free(status); /* the peer sees that the connection ends */
}

/* ---- the listener ---- */

/* A connection, or the end of listening: the server stops, or has no descriptor left. Callers that find
 * nothing listening go on over gRPC. */
static void on_listener(weft_local_source_t *self, weft_packet_room_t *room) {
  weft_local_server_t *s =
      (weft_local_server_t *)(void *)((char *)self - offsetof(weft_local_server_t, listener));
  (void)room;
  const int fd = weft_local_socket_accept(self->fd);
  const bool may_go_on = fd >= 0 || errno == EAGAIN || errno == EWOULDBLOCK;
  weft_mutex_lock(&s->mu);
  const bool is_wanted = !s->is_stopped;
  const bool goes_on = is_wanted && may_go_on && weft_local_loop_again(s->loop, self, WEFT_LOCAL_READ);
  weft_mutex_unlock(&s->mu);
  if (fd >= 0 && is_wanted) {
    open_conn(s, fd);
  } else {
    weft_local_socket_close(fd);
  }
  if (goes_on) return;
  weft_local_loop_remove(s->loop, self);
  weft_local_socket_close(self->fd);
  weft_mutex_lock(&s->mu);
  s->is_listening = false;
  weft_cond_broadcast(&s->changed);
  weft_mutex_unlock(&s->mu);
}

/* At the first caller of this host. */
static void listen_locked(weft_local_server_t *s) WEFT_REQUIRES(s->mu) {
  s->has_tried = true; /* once: what fails here fails for good */
  weft_status_t *status = weft_rpc_loop_local(s->rpc_loop, &s->loop);
  weft_status_free(status); /* callers go on over gRPC */
  if (status != NULL) return;
  snprintf(s->name, sizeof s->name, "weft-%016" PRIx64 "%016" PRIx64, weft_random_id(), weft_random_id());
  s->listener = (weft_local_source_t){.fd = weft_local_socket_listen(weft_str(s->name), SOCK_SEQPACKET),
                                      .ready = on_listener};
  s->is_listening = s->listener.fd >= 0 && fcntl(s->listener.fd, F_SETFL, O_NONBLOCK) == 0 &&
                    weft_local_loop_add(s->loop, &s->listener, WEFT_LOCAL_READ);
  if (!s->is_listening) weft_local_socket_close(s->listener.fd);
}

/* Is the caller on this host, and does it speak as we do? */
static bool is_of_this_host(weft_rpc_call_t *call) {
  const weft_str_t host = weft_local_link_host(), version = WEFT_STR(WEFT_LOCAL_VERSION);
  weft_str_t text;
  weft_status_t *s = weft_message_flatten(weft_rpc_call_request(call), &text);
  const bool ok = s == NULL && host.length > 0 && text.length == version.length + host.length &&
                  weft_str_starts_with(text, WEFT_LOCAL_VERSION) &&
                  memcmp(text.data + version.length, host.data, host.length) == 0;
  weft_status_free(s); /* then it is answered as one of another host */
  return ok;
}

void weft_local_server_introduce(void *arg, weft_rpc_call_t *call) {
  weft_local_server_t *s = arg;
  weft_str_t name = WEFT_STR("");
  if (is_of_this_host(call)) {
    weft_mutex_lock(&s->mu);
    if (!s->has_tried && !s->is_stopped) listen_locked(s);
    if (s->is_listening) name = weft_str(s->name);
    weft_mutex_unlock(&s->mu);
  }
  weft_message_t *m = NULL;
  weft_status_t *status = weft_message_create(&m);
  if (status == NULL) status = weft_message_append(m, name);
  if (status == NULL) {
    weft_rpc_reply(call, m);
  } else {
    weft_message_destroy(m);
    weft_rpc_fail(call, status);
  }
}

/* ---- the server ---- */

weft_status_t *weft_local_server_create(weft_rpc_intake_t *intake, weft_rpc_loop_t *loop,
                                        weft_local_server_t **out) {
  weft_local_server_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("a server");
  s->intake = intake;
  s->rpc_loop = loop;
  s->listener.fd = -1;
  weft_mutex_init(&s->mu);
  weft_cond_init(&s->changed);
  *out = s;
  return NULL;
}

void weft_local_server_stop(weft_local_server_t *s) {
  weft_mutex_lock(&s->mu);
  s->is_stopped = true;
  if (s->is_listening) weft_local_socket_break(s->listener.fd); /* on_listener() sees it */
  weft_mutex_unlock(&s->mu);
}

/* Cancels the calls of all connections, or breaks all. */
static void end_all(weft_local_server_t *s, end_stage_t stage) {
  for (;;) {
    served_conn_t *found = NULL;
    weft_mutex_lock(&s->mu);
    for (served_conn_t *c = s->conns; c != NULL && found == NULL; c = c->next) {
      if (c->stage >= stage) continue;
      found = c;
      c->stage = stage;
      (void)weft_local_conn_retain(&c->conn);
    }
    weft_mutex_unlock(&s->mu);
    if (found == NULL) return;
    while (stage == CALLS_CANCELLED && cancel_call(found, 0)) {
    }
    if (stage == BROKEN) weft_local_conn_break(&found->conn);
    weft_local_conn_release(&found->conn);
  }
}

void weft_local_server_cancel(weft_local_server_t *s) { end_all(s, CALLS_CANCELLED); }

void weft_local_server_destroy(weft_local_server_t *s) {
  if (s == NULL) return;
  weft_local_server_stop(s);
  end_all(s, BROKEN);
  weft_mutex_lock(&s->mu);
  while (s->is_listening || s->num_conns > 0)
    weft_cond_wait(&s->changed, &s->mu); /* woken by on_listener and destroy_conn */
  weft_mutex_unlock(&s->mu);
  weft_cond_deinit(&s->changed);
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}
