/* rpc/local_waiter.c - one packet out, one back.
 *
 * The thread looks at its ring, and now and then at its socket; then it sleeps on the bell and the socket.
 */
#include "rpc/local_waiter.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "rpc/local_socket.h"

/* A short answer often comes sooner than a sleeping thread is woken: look for so long, then sleep. */
#define SPIN_NS 40000
enum { LOOKS_AT_RING = 16 }; /* for one at the socket, which is a system call */

struct weft_local_waiter {
  int fd;
  weft_local_rings_t *rings; /* owned; NULL: all goes over the socket */
  weft_packet_room_t *room;  /* owned */
  uint64_t last_id;
};

weft_local_waiter_t *weft_local_waiter_open(weft_str_t name, bool *is_gone) {
  weft_local_waiter_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  w->room = weft_packet_room_create();
  w->fd = w->room == NULL ? -1 : weft_local_socket_connect(name, SOCK_SEQPACKET, is_gone);
  if (w->fd >= 0) {
    w->rings = weft_packet_offer_rings(w->fd);
    return w;
  }
  weft_local_waiter_close(w);
  return NULL;
}

void weft_local_waiter_close(weft_local_waiter_t *w) {
  if (w == NULL) return;
  weft_local_socket_close(w->fd);
  weft_local_rings_destroy(w->rings);
  weft_packet_room_destroy(w->room);
  weft_free(w);
}

bool weft_local_waiter_is_over(const weft_local_waiter_t *w) { return weft_local_socket_is_over(w->fd); }
void weft_local_waiter_break(weft_local_waiter_t *w) { weft_local_socket_break(w->fd); }

static weft_packet_result_t send_packet(weft_local_waiter_t *w, const weft_packet_t *p) {
  if (w->rings != NULL && weft_packet_put(w->rings, p)) return WEFT_PACKET_DONE;
  return weft_packet_send(w->fd, p);
}

static weft_packet_result_t look_at_ring(weft_local_waiter_t *w, weft_packet_t *out) {
  return w->rings == NULL ? WEFT_PACKET_LATER : weft_packet_take(w->rings, w->room, out);
}

/* What the server has put into the ring before its end comes before the end. */
static weft_packet_result_t look_at_both(weft_local_waiter_t *w, weft_packet_t *out) {
  weft_packet_result_t r = look_at_ring(w, out);
  if (r != WEFT_PACKET_LATER) return r;
  r = weft_packet_recv(w->fd, w->room, out);
  if (r != WEFT_PACKET_OVER) return r;
  r = look_at_ring(w, out);
  return r == WEFT_PACKET_DONE ? r : WEFT_PACKET_OVER;
}

/* Sleeps until something has come, or a tick has passed: false. */
static bool is_there(const weft_local_waiter_t *w) {
  struct pollfd p[2] = {{.fd = w->fd, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
  if (w->rings != NULL) p[1].fd = weft_local_rings_bell(w->rings);
  const bool is_there = poll(p, 2, WEFT_LOCAL_TICK_MS) > 0;
  if (p[1].revents != 0) weft_local_rings_quiet(w->rings);
  return is_there;
}

static weft_packet_result_t look_for_a_while(weft_local_waiter_t *w, weft_packet_t *out) {
  const int64_t until = weft_clock_ns() + SPIN_NS;
  weft_packet_result_t r;
  if (w->rings != NULL) weft_local_rings_look(w->rings, true);
  do {
    r = look_at_both(w, out);
    for (int i = 0; i < LOOKS_AT_RING && r == WEFT_PACKET_LATER; i++) r = look_at_ring(w, out);
  } while (r == WEFT_PACKET_LATER && weft_clock_ns() < until);
  if (w->rings != NULL) weft_local_rings_look(w->rings, false);
  return r == WEFT_PACKET_LATER ? look_at_both(w, out) : r; /* what came while nothing was told of it */
}

/* The next packet; LATER: the server is silent. */
static weft_packet_result_t await(weft_local_waiter_t *w, weft_packet_t *out) {
  const weft_packet_t ping = {.kind = WEFT_PACKET_PING};
  weft_packet_result_t r = look_for_a_while(w, out);
  for (int quiet = 0; r == WEFT_PACKET_LATER && quiet < WEFT_LOCAL_SILENT_TICKS;) {
    if (!is_there(w) && ++quiet == WEFT_LOCAL_PING_TICKS) (void)send_packet(w, &ping);
    r = look_at_both(w, out);
  }
  return r;
}

/* Is it the end of call `id`? What it owns is taken over, or freed. */
static bool take(weft_packet_t *p, uint64_t id, weft_local_reply_t *out) {
  const bool is_end = p->id == id && (p->kind == WEFT_PACKET_ANSWER || p->kind == WEFT_PACKET_FAILURE);
  if (is_end && p->kind == WEFT_PACKET_ANSWER && p->failure == NULL) {
    *out = (weft_local_reply_t){.outcome = WEFT_LOCAL_ANSWERED, .answer = p->message};
    return true;
  }
  weft_message_destroy(p->message);
  if (!is_end) {
    weft_status_free(p->failure);
    if (p->kind == WEFT_PACKET_FILE) weft_local_socket_close(p->file); /* a server has none to send */
    return false;
  }
  *out =
      (weft_local_reply_t){.outcome = WEFT_LOCAL_FAILED, .status = p->failure, .is_answered = p->is_answered};
  if (out->status == NULL) out->status = weft_status_from_wire((int)p->code, p->text.data, p->text.length);
  return true;
}

void weft_local_waiter_call(weft_local_waiter_t *w, const char *path, weft_message_t *request,
                            weft_local_reply_t *out) {
  weft_packet_t p = {
      .kind = WEFT_PACKET_CALL, .id = ++w->last_id, .text = weft_str(path), .message = request};
  const uint64_t id = p.id;
  if (w->rings != NULL) weft_local_rings_look(w->rings, true); /* a quick answer rings no bell */
  weft_packet_result_t r = send_packet(w, &p);
  if (r == WEFT_PACKET_NO_MEMORY) {
    *out = (weft_local_reply_t){.outcome = WEFT_LOCAL_FAILED, .status = WEFT_NO_MEMORY("calling %s", path)};
    return;
  }
  *out = (weft_local_reply_t){.outcome =
                                  WEFT_LOCAL_LOST}; /* also without room for a packet, where all is read */
  while (r == WEFT_PACKET_DONE) {
    r = await(w, &p);
    if (r == WEFT_PACKET_DONE && take(&p, id, out)) return;
    if (r == WEFT_PACKET_LATER) out->outcome = WEFT_LOCAL_SILENT;
  }
}
