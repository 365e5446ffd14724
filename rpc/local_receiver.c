/* rpc/local_receiver.c - the receiving end of a local link: one thread that reads.
 *
 * The object has two holders: its creator, until close, and the thread, until it ends; and those that have
 * retained it. The last one frees it, so close never waits and may be called from a callback.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "base/random.h"
#include "rpc/local_link.h"
#include "rpc/local_socket.h"

enum { TOLD_EVERY = 1 << 20 }; /* bytes of a payload */

struct weft_local_receiver {
  atomic_int refs;
  int fd;
  uint64_t link;
  int64_t peer;                         /* its process; constant */
  const weft_local_receiver_ops_t *ops; /* constant */
  void *arg;
  weft_local_room_t *room; /* owned; NULL: none. Constant */
  weft_mutex_t giving;     /* held while two words are written, which does not wait */
};

static void receiver_free(weft_local_receiver_t *r) {
  weft_local_socket_close(r->fd);
  weft_local_room_release(r->room);
  weft_mutex_deinit(&r->giving);
  weft_free(r);
}

static void unref(weft_local_receiver_t *r) {
  if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  receiver_free(r);
}

static bool skip(int fd, uint64_t bytes) {
  char waste[16384];
  while (bytes > 0) {
    size_t part = bytes < sizeof waste ? (size_t)bytes : sizeof waste;
    if (!weft_local_socket_read(fd, waste, part)) return false;
    bytes -= part;
  }
  return true;
}

static bool read_payload(weft_local_receiver_t *r, uint64_t transfer, char *to, size_t bytes) {
  const size_t most = r->ops->arrive == NULL ? bytes : TOLD_EVERY;
  bool ok = true;
  for (size_t at = 0; ok && at < bytes;) {
    const size_t part = bytes - at < most ? bytes - at : most;
    ok = weft_local_socket_read(r->fd, to + at, part);
    at += part;
    if (ok && r->ops->arrive != NULL) r->ops->arrive(r->arg, transfer, at);
  }
  return ok;
}

/* One payload. False: the link is over. */
static bool receive(weft_local_receiver_t *r) {
  weft_local_frame_t frame;
  char header[WEFT_LOCAL_LINK_MAX_HEADER];
  if (!weft_local_socket_read(r->fd, &frame, sizeof frame)) return false;
  if (frame.header_bytes == WEFT_LOCAL_FRAME_FILLED && r->ops->filled != NULL) {
    r->ops->filled(r->arg, frame.transfer);
    return true;
  }
  if (frame.header_bytes > sizeof header || frame.payload_bytes > SIZE_MAX / 2)
    return false; /* not our protocol */
  if (!weft_local_socket_read(r->fd, header, frame.header_bytes)) return false;
  void *to =
      r->ops->begin(r->arg, frame.transfer, weft_str_of(header, frame.header_bytes), frame.payload_bytes);
  if (to == NULL) return skip(r->fd, frame.payload_bytes);
  bool ok = read_payload(r, frame.transfer, to, frame.payload_bytes);
  r->ops->end(r->arg, frame.transfer, ok);
  return ok;
}

static void *run(void *arg) {
  weft_local_receiver_t *r = arg;
  while (receive(r)) {
  }
  r->ops->closed(r->arg);
  unref(r);
  return NULL;
}

weft_status_t *weft_local_receiver_create(weft_str_t name, const weft_local_receiver_ops_t *ops, void *arg,
                                          weft_local_receiver_t **out) {
  weft_local_receiver_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("a local link");
  atomic_init(&r->refs, 2);
  r->link = weft_random_id();
  r->ops = ops;
  r->arg = arg;
  weft_mutex_init(&r->giving);
  r->fd = weft_local_socket_connect(name, SOCK_STREAM, NULL);
  r->peer = r->fd < 0 ? 0 : weft_local_socket_peer(r->fd);
  weft_local_hello_t hello = {WEFT_LOCAL_MAGIC, r->link};
  pthread_t thread;
  if (r->fd >= 0) r->room = weft_local_room_create(); /* without it, tensors come in other ways */
  const int file = r->room == NULL ? -1 : weft_local_room_file(r->room);
  if (r->fd < 0 || !weft_local_socket_write_file(r->fd, &hello, sizeof hello, file)) {
    receiver_free(r);
    return WEFT_ERROR(UNAVAILABLE, "cannot connect to the Unix socket @%.*s", WEFT_STR_ARGS(name));
  }
  *out = r; /* before the thread's first callback */
  if (pthread_create(&thread, NULL, run, r) != 0) {
    *out = NULL;
    receiver_free(r);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start a thread for a local link");
  }
  pthread_setname_np(thread, "weft-link-in");
  pthread_detach(thread);
  return NULL;
}

uint64_t weft_local_receiver_link(const weft_local_receiver_t *r) { return r->link; }

int64_t weft_local_receiver_peer(const weft_local_receiver_t *r) { return r->peer; }

weft_local_room_t *weft_local_receiver_room(const weft_local_receiver_t *r) { return r->room; }

weft_local_receiver_t *weft_local_receiver_retain(weft_local_receiver_t *r) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

void weft_local_receiver_release(weft_local_receiver_t *r) {
  if (r != NULL) unref(r);
}

/* The sender breaks its end before it lets go of what it has lent: while that is not over, all is there. */
bool weft_local_receiver_give_back(weft_local_receiver_t *r, uint64_t transfer, weft_local_end_t how) {
  const weft_local_returned_t returned = {transfer, (uint64_t)how};
  weft_mutex_lock(&r->giving);
  const bool ok =
      !weft_local_socket_is_over(r->fd) && weft_local_socket_write_now(r->fd, &returned, sizeof returned);
  if (!ok) weft_local_socket_break(r->fd); /* half of it may be written */
  weft_mutex_unlock(&r->giving);
  return ok;
}

void weft_local_receiver_close(weft_local_receiver_t *r) {
  if (r == NULL) return;
  weft_local_socket_break(r->fd);
  unref(r);
}
