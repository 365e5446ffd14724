/* rpc/local_waiter.c - one packet out, one back. */
#include "rpc/local_waiter.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "rpc/local_socket.h"

/* A short answer often comes sooner than a sleeping thread is woken: look for so long, then sleep. */
#define SPIN_NS 40000

struct weft_local_waiter {
  int fd;
  weft_packet_room_t *room; /* owned */
  uint64_t last_id;
};

weft_local_waiter_t *weft_local_waiter_open(weft_str_t name, bool *is_gone) {
  weft_local_waiter_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  w->room = weft_packet_room_create();
  w->fd = w->room == NULL ? -1 : weft_local_socket_connect(name, SOCK_SEQPACKET, is_gone);
  if (w->fd >= 0) return w;
  weft_local_waiter_close(w);
  return NULL;
}

void weft_local_waiter_close(weft_local_waiter_t *w) {
  if (w == NULL) return;
  weft_local_socket_close(w->fd);
  weft_packet_room_destroy(w->room);
  weft_free(w);
}

bool weft_local_waiter_is_over(const weft_local_waiter_t *w) { return weft_local_socket_is_over(w->fd); }
void weft_local_waiter_break(weft_local_waiter_t *w) { weft_local_socket_break(w->fd); }

/* Sleeps until something has come, or a tick has passed. */
static bool is_there(const weft_local_waiter_t *w) {
  struct pollfd p = {.fd = w->fd, .events = POLLIN};
  return poll(&p, 1, WEFT_LOCAL_TICK_MS) > 0;
}

/* The next packet; LATER: the server is silent. */
static weft_packet_result_t await(weft_local_waiter_t *w, weft_packet_t *out) {
  const weft_packet_t ping = {.kind = WEFT_PACKET_PING};
  const int64_t until = weft_clock_ns() + SPIN_NS;
  weft_packet_result_t r;
  do {
    r = weft_packet_recv(w->fd, w->room, out);
  } while (r == WEFT_PACKET_LATER && weft_clock_ns() < until);
  for (int quiet = 0; r == WEFT_PACKET_LATER && quiet < WEFT_LOCAL_SILENT_TICKS;) {
    if (!is_there(w) && ++quiet == WEFT_LOCAL_PING_TICKS) (void)weft_packet_send(w->fd, &ping);
    r = weft_packet_recv(w->fd, w->room, out);
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
  weft_packet_result_t r = weft_packet_send(w->fd, &p);
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
