/* collectives/remote/host_link.c - one end of one link: packets out, and reading in the peer's memory. */
#include "collectives/remote/host_link_impl.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/socket_file.h"

enum { MAX_TEXT = 3072 };

weft_host_link_t *weft_host_link_retain(weft_host_link_t *l) {
  if (l != NULL) atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
  return l;
}

void weft_host_link_release(weft_host_link_t *l) {
  if (l == NULL || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
  while (l->head != NULL) {
    weft_host_packet_t *p = l->head;
    l->head = p->next;
    weft_free(p);
  }
  if (!l->is_closed) close(l->fd);
  weft_mutex_deinit(&l->mu);
  weft_posts_view_release(l->posts);
  weft_free(l->task);
  weft_free(l->failed);
  weft_status_free(l->failed_why);
  weft_free(l);
}

weft_str_t weft_host_link_task(const weft_host_link_t *l) { return weft_str(l->task == NULL ? "" : l->task); }

uint64_t weft_host_link_incarnation(const weft_host_link_t *l) { return l->incarnation; }

weft_posts_view_t *weft_host_link_posts(const weft_host_link_t *l) { return l->posts; }

bool weft_host_link_has_left(const weft_host_link_t *l, weft_str_t *out_failed,
                             const weft_status_t **out_why) {
  *out_failed = weft_str(l->failed == NULL ? "" : l->failed);
  *out_why = l->failed_why;
  return l->has_left;
}

/* Takes fd over. */
weft_host_link_t *weft_host_link_new(weft_host_links_t *ls, int fd) {
  weft_host_link_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) {
    close(fd);
    return NULL;
  }
  atomic_init(&l->refs, 1);
  weft_mutex_init(&l->mu);
  l->links = ls;
  l->fd = fd;
  l->tail = &l->head;
  l->deadline_ns = weft_clock_ns() + (int64_t)WEFT_HOST_WAIT_MS * 1000000;
  weft_host_widen(fd);
  return l;
}

static bool has_room(int error) { return error != EAGAIN && error != EWOULDBLOCK && error != ENOBUFS; }

static void want_writes(weft_host_link_t *l, bool wants) {
  struct epoll_event e = {.events = EPOLLIN | (wants ? EPOLLOUT : 0u), .data.ptr = l};
  epoll_ctl(l->links->epoll, EPOLL_CTL_MOD, l->fd, &e);
}

static bool send_pieces(weft_host_link_t *l, struct iovec *pieces, int n, int file) {
  struct msghdr m = {.msg_iov = pieces, .msg_iovlen = (size_t)n};
  weft_socket_file_t beside;
  weft_socket_file_attach(&m, &beside, file);
  weft_host_packet_t *p = NULL;
  size_t length = 0;
  for (int i = 0; i < n; i++) length += pieces[i].iov_len;
  weft_mutex_lock(&l->mu);
  bool ok = !l->is_closed, queued = l->head != NULL;
  if (ok && !queued) {
    ssize_t sent;
    do sent = sendmsg(l->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    queued = sent < 0 && !has_room(errno);
    ok = sent >= 0 || queued;
  }
  weft_mutex_unlock(&l->mu);
  if (!ok || !queued || file >= 0) return ok && !queued;
  p = weft_malloc(sizeof *p + length);
  if (p == NULL) return false;
  *p = (weft_host_packet_t){.next = NULL, .length = length};
  size_t at = 0;
  for (int i = 0; i < n; i++) {
    memcpy(p->bytes + at, pieces[i].iov_base, pieces[i].iov_len);
    at += pieces[i].iov_len;
  }
  weft_mutex_lock(&l->mu);
  *l->tail = p;
  l->tail = &p->next;
  if (!l->is_closed) want_writes(l, true);
  weft_mutex_unlock(&l->mu);
  return true;
}

/* The thread's: the socket takes some again. */
void weft_host_link_flush(weft_host_link_t *l) {
  weft_host_packet_t *done = NULL;
  weft_mutex_lock(&l->mu);
  while (l->head != NULL) {
    weft_host_packet_t *p = l->head;
    ssize_t sent = send(l->fd, p->bytes, p->length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) break; /* full again, or over: its end will be noticed */
    l->head = p->next;
    if (l->head == NULL) l->tail = &l->head;
    p->next = done;
    done = p;
  }
  if (l->head == NULL && !l->is_closed) want_writes(l, false);
  weft_mutex_unlock(&l->mu);
  while (done != NULL) {
    weft_host_packet_t *p = done;
    done = p->next;
    weft_free(p);
  }
}

static bool send_packet(weft_host_link_t *l, weft_host_header_t *h, weft_str_t a, weft_str_t b,
                        const void *payload, size_t n, int file) {
  h->magic = WEFT_HOST_MAGIC;
  if (b.length > MAX_TEXT) b.length = MAX_TEXT;
  size_t total = 0;
  if (!weft_add_size(sizeof *h, a.length, &total) || !weft_add_size(total, b.length + n, &total) ||
      total > WEFT_HOST_MAX_PACKET)
    return false;
  h->text_a = (uint32_t)a.length;
  h->text_b = (uint32_t)b.length;
  h->payload = (uint32_t)n;
  /* The casts drop const: the kernel only reads. */
  struct iovec pieces[4] = {{h, sizeof *h},
                            {(void *)(uintptr_t)a.data, a.length},
                            {(void *)(uintptr_t)b.data, b.length},
                            {(void *)(uintptr_t)payload, n}};
  return send_pieces(l, pieces, 4, file);
}

bool weft_host_link_send(weft_host_link_t *l, weft_host_header_t *h, weft_str_t a, weft_str_t b,
                         const void *payload, size_t n) {
  return send_packet(l, h, a, b, payload, n, -1);
}

bool weft_host_link_send_file(weft_host_link_t *l, weft_host_header_t *h, weft_str_t text, int file) {
  return send_packet(l, h, text, WEFT_STR(""), NULL, 0, file);
}

ssize_t weft_host_link_recv(weft_host_link_t *l, char *to, int *out_file) {
  weft_socket_file_t beside;
  struct iovec piece = {to, WEFT_HOST_MAX_PACKET};
  struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
  ssize_t got;
  weft_socket_file_expect(&m, &beside);
  do got = recvmsg(l->fd, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  *out_file = got < 0 ? -1 : weft_socket_file_take(&m);
  return got;
}

bool weft_host_link_offer(weft_host_link_t *l, const weft_host_offer_t *o) {
  weft_host_header_t h = {.kind = WEFT_HOST_OFFER,
                          .id = o->id,
                          .step_id = o->step_id,
                          .bytes = o->bytes,
                          .address = o->address,
                          .code = o->inline_data != NULL};
  return weft_host_link_send(l, &h, o->key, o->to_device, o->inline_data,
                             o->inline_data == NULL ? 0 : o->bytes);
}

bool weft_host_link_finished(weft_host_link_t *l, uint64_t id) {
  weft_host_header_t h = {.kind = WEFT_HOST_FINISHED, .id = id};
  return weft_host_link_send(l, &h, WEFT_STR(""), WEFT_STR(""), NULL, 0);
}

bool weft_host_link_refused(weft_host_link_t *l, uint64_t id) {
  weft_host_header_t h = {.kind = WEFT_HOST_REFUSED, .id = id};
  return weft_host_link_send(l, &h, WEFT_STR(""), WEFT_STR(""), NULL, 0);
}

bool weft_host_link_wake(weft_host_link_t *l, uint64_t id) {
  weft_host_header_t h = {.kind = WEFT_HOST_WAKE, .id = id};
  return weft_host_link_send(l, &h, WEFT_STR(""), WEFT_STR(""), NULL, 0);
}

bool weft_host_link_ended(weft_host_link_t *l, int64_t step_id, weft_str_t run, const weft_status_t *why) {
  weft_host_header_t h = {.kind = WEFT_HOST_ENDED,
                          .step_id = step_id,
                          .code = why == NULL ? WEFT_OK : (int32_t)weft_status_code(why)};
  return weft_host_link_send(l, &h, run, weft_str(why == NULL ? "" : weft_status_message(why)), NULL, 0);
}

void weft_host_link_bye(weft_host_link_t *l, weft_str_t failed, const weft_status_t *why) {
  weft_host_header_t h = {.kind = WEFT_HOST_BYE,
                          .code = why == NULL ? WEFT_OK : (int32_t)weft_status_code(why)};
  (void)weft_host_link_send(l, &h, failed, weft_str(why == NULL ? "" : weft_status_message(why)), NULL, 0);
}

weft_status_t *weft_host_link_read(weft_host_link_t *l, uint64_t address, void *to, size_t n) {
  weft_status_t *s = weft_process_memory_read(l->pid, l->owner, address, to, n);
  const weft_code_t code = weft_status_code(s);
  if (code == WEFT_OK) return NULL;
  weft_status_free(s);
  if (code == WEFT_PERMISSION_DENIED)
    return WEFT_ERROR(PERMISSION_DENIED, "the memory of %s may not be read", l->task);
  return WEFT_ERROR(UNAVAILABLE, "lost the connection to %s while reading %zu bytes of its memory", l->task,
                    n);
}

void weft_host_link_break(weft_host_link_t *l) {
  weft_mutex_lock(&l->mu);
  if (!l->is_closed) shutdown(l->fd, SHUT_RDWR);
  weft_mutex_unlock(&l->mu);
}

bool weft_host_link_is_linked(weft_host_link_t *l) {
  weft_mutex_lock(&l->links->mu);
  bool yes = l->state == WEFT_HOST_LINKED;
  weft_mutex_unlock(&l->links->mu);
  return yes;
}
