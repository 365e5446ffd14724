/* collectives/remote/host_link.c - sequenced-packet sockets, one thread, and process_vm_readv.
 *
 * How two tasks are linked; C has the smaller name:
 *
 *   C: connect, HELLO ------------> A: who is it? may I read C's word?
 *   C: may I read A's word? <------ HELLO (yes)
 *   C: linked, READY -------------> A: linked
 *
 * A word is a random number at a known address; every later read fetches it, too,
 * and so finds out if another process has got the peer's number. Whoever cannot
 * read, or waits longer than WAIT_MS, closes the socket before it is linked: the
 * other end then knows that there is no link, and will be none.
 *
 * Ownership: the thread holds a reference per open socket and is the only one that
 * closes it; `by_task` holds another. Everybody else breaks a link by shutdown(),
 * which the thread sees as its end.
 *
 * Locking: links.mu guards the tables and the states; link.mu its queue. Both are
 * leaves. Callbacks are called with neither.
 */
#define _GNU_SOURCE /* accept4, struct ucred, process_vm_readv, pthread_setname_np */
#include "collectives/remote/host_link.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "base/random.h"

enum { WAIT_MS = 2000, MAX_PACKET = 64 << 10, MAX_TEXT = 3072, SOCKET_BYTES = 1 << 20, NUM_EVENTS = 16 };
#define MAGIC UINT32_C(0x316c6877) /* "whl1" */

typedef enum kind { HELLO, READY, OFFER, FINISHED, REFUSED, ENDED, BYE } kind_t;
typedef struct header { /* both ends are on one machine: its own byte order */
  uint32_t magic, kind;
  uint64_t id;
  int64_t step_id;
  uint64_t bytes, address, word;
  uint32_t text_a, text_b, payload; /* lengths of what follows: key or task, device or message, inline bytes */
  int32_t code;
} header_t;

typedef struct packet {
  struct packet *next;
  size_t length;
  char bytes[];
} packet_t;

typedef enum state { NEW, GREETED, LINKED, OVER } state_t;

struct weft_host_link {
  atomic_int refs;
  weft_host_links_t *links;
  char *task; /* owned; NULL until it has said HELLO. Constant then */
  uint64_t incarnation;
  int fd;
  bool is_connector;
  int64_t said_ns;           /* when we said HELLO; the thread's own */
  int64_t deadline_ns;       /* of the handshake; the thread's own */
  bool has_left, is_ending;  /* the peer has said BYE; end_link is at it; the thread's own */
  char *dead;                /* owned, as below; the thread's own: what came with BYE */
  weft_status_t *dead_why;
  uint64_t word, address;    /* the peer's word and where it lies; constant once greeted */
  pid_t pid;
  state_t state;             /* guarded by links.mu */
  weft_mutex_t mu;
  packet_t *head, **tail;    /* guarded by mu: what the socket did not take */
  bool is_closed;            /* guarded by mu: fd is closed */
  weft_host_link_t *next;    /* thread's list of open sockets */
};

typedef struct waiter {
  struct waiter *next;
  char *task;
  uint64_t incarnation;
  int64_t deadline_ns;
  weft_host_linked_fn *fn;
  void *arg;
} waiter_t;

struct weft_host_links {
  weft_str_t task;
  uint64_t incarnation, word;
  const weft_host_link_ops_t *ops;
  void *arg;
  char *host; /* owned; NULL: nothing works here */
  int listener, epoll, wake;
  pthread_t thread;
  bool has_thread;
  atomic_bool is_stopping;
  weft_host_link_t *open; /* thread's own */
  char *buffer;           /* owned; the thread's: one packet */
  weft_mutex_t mu;
  weft_map_t by_task;  /* guarded by mu: task -> link (one reference); may be OVER: no link with that incarnation */
  waiter_t *waiters;   /* guarded by mu */
  weft_host_link_t *fresh; /* guarded by mu: connected elsewhere, for the thread to take */
};

/* ---- sockets ---- */

static socklen_t make_address(uint64_t incarnation, struct sockaddr_un *out) {
  memset(out, 0, sizeof *out);
  out->sun_family = AF_UNIX;
  int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "weft-host-link-%016" PRIx64, incarnation);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static void widen(int fd) {
  int bytes = SOCKET_BYTES; /* as far as the system allows */
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

/* Is the other end a process of our own user? The kernel says so, not the peer. */
static bool find_pid(int fd, pid_t *out) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid()) return false;
  *out = peer.pid;
  return peer.pid > 0;
}

static bool read_text(const char *path, char *to, size_t size) {
  FILE *f = fopen(path, "re");
  size_t n = f == NULL ? 0 : fread(to, 1, size - 1, f);
  if (f != NULL) fclose(f);
  while (n > 0 && (to[n - 1] == '\n' || to[n - 1] == ' ')) n--;
  to[n] = '\0';
  return n > 0;
}

/* This boot of this machine, the namespaces in which we see others, our user. */
static char *describe_host(void) {
  char boot[64], net[64], pid[64];
  if (!read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) return NULL;
  ssize_t n = readlink("/proc/self/ns/net", net, sizeof net - 1), p = readlink("/proc/self/ns/pid", pid, sizeof pid - 1);
  if (n <= 0 || p <= 0) return NULL;
  net[n] = pid[p] = '\0';
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s/%s/%s/%u", boot, net, pid, (unsigned)geteuid());
  char *out = NULL;
  weft_status_free(weft_strbuf_finish(&text, &out, NULL));
  return out;
}

/* ---- links ---- */

weft_host_link_t *weft_host_link_retain(weft_host_link_t *l) {
  if (l != NULL) atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
  return l;
}

void weft_host_link_release(weft_host_link_t *l) {
  if (l == NULL || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
  while (l->head != NULL) {
    packet_t *p = l->head;
    l->head = p->next;
    weft_free(p);
  }
  if (!l->is_closed) close(l->fd);
  weft_mutex_deinit(&l->mu);
  weft_free(l->task);
  weft_free(l->dead);
  weft_status_free(l->dead_why);
  weft_free(l);
}

weft_str_t weft_host_link_task(const weft_host_link_t *l) { return weft_str(l->task == NULL ? "" : l->task); }

bool weft_host_link_has_left(const weft_host_link_t *l, weft_str_t *out_dead, const weft_status_t **out_why) {
  *out_dead = weft_str(l->dead == NULL ? "" : l->dead);
  *out_why = l->dead_why;
  return l->has_left;
}

/* Takes fd over. */
static weft_host_link_t *link_new(weft_host_links_t *ls, int fd) {
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
  l->deadline_ns = weft_clock_ns() + (int64_t)WAIT_MS * 1000000;
  widen(fd);
  return l;
}

static bool has_room(int error) { return error != EAGAIN && error != EWOULDBLOCK && error != ENOBUFS; }

static void want_writes(weft_host_link_t *l, bool wants) {
  struct epoll_event e = {.events = EPOLLIN | (wants ? EPOLLOUT : 0u), .data.ptr = l};
  epoll_ctl(l->links->epoll, EPOLL_CTL_MOD, l->fd, &e);
}

static bool send_pieces(weft_host_link_t *l, struct iovec *pieces, int n) {
  struct msghdr m = {.msg_iov = pieces, .msg_iovlen = (size_t)n};
  packet_t *p = NULL;
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
  if (!ok || !queued) return ok;
  p = weft_malloc(sizeof *p + length);
  if (p == NULL) return false;
  *p = (packet_t){.next = NULL, .length = length};
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
static void flush(weft_host_link_t *l) {
  packet_t *done = NULL;
  weft_mutex_lock(&l->mu);
  while (l->head != NULL) {
    packet_t *p = l->head;
    ssize_t sent = send(l->fd, p->bytes, p->length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) break; /* full again, or over: its end comes by itself */
    l->head = p->next;
    if (l->head == NULL) l->tail = &l->head;
    p->next = done;
    done = p;
  }
  if (l->head == NULL && !l->is_closed) want_writes(l, false);
  weft_mutex_unlock(&l->mu);
  while (done != NULL) {
    packet_t *p = done;
    done = p->next;
    weft_free(p);
  }
}

static bool send_packet(weft_host_link_t *l, header_t *h, weft_str_t a, weft_str_t b, const void *payload, size_t n) {
  h->magic = MAGIC;
  if (b.length > MAX_TEXT) b.length = MAX_TEXT;
  size_t total = 0;
  if (!weft_add_size(sizeof *h, a.length, &total) || !weft_add_size(total, b.length + n, &total) || total > MAX_PACKET) return false;
  h->text_a = (uint32_t)a.length;
  h->text_b = (uint32_t)b.length;
  h->payload = (uint32_t)n;
  /* The casts drop const: the kernel only reads. */
  struct iovec pieces[4] = {{h, sizeof *h}, {(void *)(uintptr_t)a.data, a.length}, {(void *)(uintptr_t)b.data, b.length},
                            {(void *)(uintptr_t)payload, n}};
  return send_pieces(l, pieces, 4);
}

bool weft_host_link_offer(weft_host_link_t *l, const weft_host_offer_t *o) {
  header_t h = {.kind = OFFER, .id = o->id, .step_id = o->step_id, .bytes = o->bytes, .address = o->address,
                .code = o->inline_data != NULL};
  return send_packet(l, &h, o->key, o->to_device, o->inline_data, o->inline_data == NULL ? 0 : o->bytes);
}

bool weft_host_link_finished(weft_host_link_t *l, uint64_t id) {
  header_t h = {.kind = FINISHED, .id = id};
  return send_packet(l, &h, WEFT_STR(""), WEFT_STR(""), NULL, 0);
}

bool weft_host_link_refused(weft_host_link_t *l, uint64_t id) {
  header_t h = {.kind = REFUSED, .id = id};
  return send_packet(l, &h, WEFT_STR(""), WEFT_STR(""), NULL, 0);
}

bool weft_host_link_ended(weft_host_link_t *l, int64_t step_id, weft_str_t run, const weft_status_t *why) {
  header_t h = {.kind = ENDED, .step_id = step_id, .code = why == NULL ? WEFT_OK : (int32_t)weft_status_code(why)};
  return send_packet(l, &h, run, weft_str(why == NULL ? "" : weft_status_message(why)), NULL, 0);
}

static void say_bye(weft_host_link_t *l, weft_str_t dead, const weft_status_t *why) {
  header_t h = {.kind = BYE, .code = why == NULL ? WEFT_OK : (int32_t)weft_status_code(why)};
  (void)send_packet(l, &h, dead, weft_str(why == NULL ? "" : weft_status_message(why)), NULL, 0);
}

weft_status_t *weft_host_link_read(weft_host_link_t *l, uint64_t address, void *to, size_t n) {
  uint64_t word = 0;
  for (size_t at = 0; at < n || n == 0;) {
    struct iovec here[2] = {{&word, sizeof word}, {(char *)to + at, n - at}};
    struct iovec there[2] = {{(void *)(uintptr_t)l->address, sizeof word}, {(void *)(uintptr_t)(address + at), n - at}};
    int pieces = n == 0 ? 1 : 2;
    ssize_t got = process_vm_readv(l->pid, here, (unsigned long)pieces, there, (unsigned long)pieces, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS)) {
      return WEFT_ERROR(PERMISSION_DENIED, "the memory of %s may not be read", l->task);
    }
    bool is_alive = got >= (ssize_t)sizeof word && word == l->word;
    if (!is_alive || (n > 0 && got == (ssize_t)sizeof word)) {
      return WEFT_ERROR(UNAVAILABLE, "lost the connection to %s while reading %zu bytes of its memory", l->task, n);
    }
    if (n == 0) break;
    at += (size_t)got - sizeof word;
  }
  return NULL;
}

/* ---- decisions ---- */

static bool is_decided_locked(weft_host_links_t *ls, const char *task, uint64_t incarnation) WEFT_REQUIRES(ls->mu) {
  const weft_host_link_t *l = weft_map_get(&ls->by_task, weft_str(task));
  return l != NULL && l->incarnation == incarnation && (l->state == LINKED || l->state == OVER);
}

static waiter_t *take_waiters_locked(weft_host_links_t *ls, bool all, int64_t now) WEFT_REQUIRES(ls->mu) {
  waiter_t *taken = NULL;
  for (waiter_t **at = &ls->waiters; *at != NULL;) {
    waiter_t *w = *at;
    if (!all && w->deadline_ns > now && !is_decided_locked(ls, w->task, w->incarnation)) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    w->next = taken;
    taken = w;
  }
  return taken;
}

static void tell(waiter_t *w) {
  while (w != NULL) {
    waiter_t *next = w->next;
    w->fn(w->arg);
    weft_free(w->task);
    weft_free(w);
    w = next;
  }
}

static void tell_decided(weft_host_links_t *ls) {
  weft_mutex_lock(&ls->mu);
  waiter_t *w = take_waiters_locked(ls, false, weft_clock_ns());
  weft_mutex_unlock(&ls->mu);
  tell(w);
}

/* ---- the thread ---- */

static bool watch(weft_host_links_t *ls, int fd, void *what) {
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = what};
  return epoll_ctl(ls->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

static bool has_hung_up(const weft_host_link_t *l) {
  struct pollfd p = {.fd = l->fd, .events = POLLRDHUP};
  return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* A process that dies loses its memory before its sockets, and that may take a while. */
static bool is_dead(weft_host_link_t *l) {
  weft_status_t *s = weft_host_link_read(l, 0, NULL, 0);
  bool yes = weft_status_code(s) == WEFT_UNAVAILABLE;
  weft_status_free(s);
  return yes;
}

static void on_readable(weft_host_links_t *ls, weft_host_link_t *l);
static void end_link(weft_host_links_t *ls, weft_host_link_t *l);

/* Who leaves because another has died is not the cause: the dead are ended first. A peer that dies says nothing; what those
 * that hung up have said is read to its end, which ends them. */
static void end_others_first(weft_host_links_t *ls) {
  for (weft_host_link_t *x = ls->open; x != NULL;) {
    bool is_over = !x->is_ending && x->state == LINKED && (has_hung_up(x) || is_dead(x));
    if (!is_over) {
      x = x->next;
      continue;
    }
    weft_host_link_retain(x);
    on_readable(ls, x);
    if (!x->is_closed) end_link(ls, x);
    weft_host_link_release(x);
    x = ls->open; /* the list has changed */
  }
}

/* Ends a link: takes it out of the thread's list, closes, tells. Gives back the thread's reference. */
static void end_link(weft_host_links_t *ls, weft_host_link_t *l) {
  l->is_ending = true;
  if (l->has_left) end_others_first(ls);
  for (weft_host_link_t **at = &ls->open; *at != NULL; at = &(*at)->next) {
    if (*at != l) continue;
    *at = l->next;
    break;
  }
  weft_mutex_lock(&ls->mu);
  bool was_linked = l->state == LINKED;
  l->state = OVER; /* stays in by_task: there is no link with this incarnation any more */
  weft_mutex_unlock(&ls->mu);
  weft_mutex_lock(&l->mu);
  epoll_ctl(ls->epoll, EPOLL_CTL_DEL, l->fd, NULL);
  l->is_closed = true;
  close(l->fd);
  weft_mutex_unlock(&l->mu);
  if (was_linked) ls->ops->broken(ls->arg, l);
  tell_decided(ls);
  weft_host_link_release(l);
}

static void break_link(weft_host_link_t *l) {
  weft_mutex_lock(&l->mu);
  if (!l->is_closed) shutdown(l->fd, SHUT_RDWR);
  weft_mutex_unlock(&l->mu);
}

/* Puts the link in by_task; false if there is one already, or a decision against it. */
static bool enter(weft_host_links_t *ls, weft_host_link_t *l) {
  void *old = NULL;
  weft_mutex_lock(&ls->mu);
  weft_host_link_t *known = weft_map_remove(&ls->by_task, weft_str(l->task));
  bool ok = known == NULL || known->incarnation != l->incarnation;
  weft_host_link_t *kept = ok ? weft_host_link_retain(l) : known;
  weft_status_t *s = weft_map_put(&ls->by_task, weft_str(kept->task), kept, &old);
  weft_mutex_unlock(&ls->mu);
  if (ok && known != NULL) {
    break_link(known); /* a former life of that task; its end comes by itself */
    weft_host_link_release(known);
  }
  if (s == NULL) return ok;
  weft_status_free(s); /* no link; the other end hears that the socket is closed */
  weft_host_link_release(kept);
  return false;
}

static void set_state(weft_host_links_t *ls, weft_host_link_t *l, state_t state) {
  weft_mutex_lock(&ls->mu);
  l->state = state;
  weft_mutex_unlock(&ls->mu);
}

static bool say(weft_host_links_t *ls, weft_host_link_t *l, kind_t kind) {
  l->said_ns = weft_clock_ns();
  header_t h = {.kind = kind, .id = ls->incarnation, .address = (uint64_t)(uintptr_t)&ls->word, .word = ls->word};
  return send_packet(l, &h, ls->task, WEFT_STR(""), NULL, 0);
}

/* False: the link is to be closed. */
static bool on_hello(weft_host_links_t *ls, weft_host_link_t *l, const header_t *h, weft_str_t task) {
  if (l->state != NEW || task.length == 0) return false;
  if (l->is_connector && (!weft_str_is(task, l->task) || h->id != l->incarnation)) return false;
  if (!l->is_connector) l->task = weft_strndup(task.data, task.length);
  if (l->task == NULL) return false;
  l->incarnation = h->id;
  l->word = h->word;
  l->address = h->address;
  weft_status_t *s = weft_host_link_read(l, 0, NULL, 0);
  bool can_read = s == NULL;
  weft_status_free(s); /* no link, then */
  if (!l->is_connector) {
    if (!enter(ls, l)) return false;
    set_state(ls, l, GREETED);
    return can_read && say(ls, l, HELLO);
  }
  if (!can_read) return false;
  ls->ops->met(ls->arg, (double)(weft_clock_ns() - l->said_ns) * 0.5e-9); /* there and back */
  if (!say(ls, l, READY)) return false;
  set_state(ls, l, LINKED);
  tell_decided(ls);
  return true;
}

static bool on_packet(weft_host_links_t *ls, weft_host_link_t *l, const char *bytes, size_t length) {
  header_t h;
  if (length < sizeof h) return false;
  memcpy(&h, bytes, sizeof h);
  uint64_t total = sizeof h + (uint64_t)h.text_a + h.text_b + h.payload;
  if (h.magic != MAGIC || total != length) return false;
  weft_str_t a = weft_str_of(bytes + sizeof h, h.text_a), b = weft_str_of(a.data + a.length, h.text_b);
  const char *payload = b.data + b.length;
  if (h.kind == HELLO) return on_hello(ls, l, &h, a);
  if (h.kind == READY) {
    if (l->state != GREETED) return false;
    ls->ops->met(ls->arg, (double)(weft_clock_ns() - l->said_ns) * 0.5e-9);
    set_state(ls, l, LINKED);
    tell_decided(ls);
    return true;
  }
  if (l->state != LINKED) return false;
  if (h.kind == OFFER) {
    bool is_inline = h.code != 0;
    if (is_inline && h.bytes != h.payload) return false;
    weft_host_offer_t o = {.id = h.id, .step_id = h.step_id, .key = a, .to_device = b, .bytes = h.bytes,
                           .address = h.address, .inline_data = is_inline ? payload : NULL};
    ls->ops->offered(ls->arg, l, &o);
  } else if (h.kind == FINISHED) {
    ls->ops->finished(ls->arg, l, h.id);
  } else if (h.kind == REFUSED) {
    ls->ops->refused(ls->arg, l, h.id);
  } else if (h.kind == BYE) {
    if (!l->has_left && h.code != WEFT_OK) { /* the first says it all */
      l->dead = weft_strndup(a.data, a.length);
      l->dead_why = weft_status_from_wire(h.code, b.data, b.length);
    }
    l->has_left = true;
  } else if (h.kind == ENDED) {
    weft_status_t *why = weft_status_from_wire(h.code, b.data, b.length);
    ls->ops->ended(ls->arg, l, h.step_id, a, why);
  } else {
    return false;
  }
  return true;
}

static void on_readable(weft_host_links_t *ls, weft_host_link_t *l) {
  char *buffer = ls->buffer;
  for (;;) {
    ssize_t got = recv(l->fd, buffer, MAX_PACKET, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0 || got > MAX_PACKET || !on_packet(ls, l, buffer, (size_t)got)) {
      end_link(ls, l);
      return;
    }
  }
}

static void adopt(weft_host_links_t *ls, weft_host_link_t *l) {
  l->next = ls->open;
  ls->open = l;
  if (!watch(ls, l->fd, l) || (l->is_connector && !say(ls, l, HELLO))) end_link(ls, l);
}

static void on_connection(weft_host_links_t *ls) {
  int fd = accept4(ls->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  pid_t pid;
  if (fd < 0) return;
  if (!find_pid(fd, &pid)) {
    close(fd);
    return;
  }
  weft_host_link_t *l = link_new(ls, fd);
  if (l == NULL) return;
  l->pid = pid;
  adopt(ls, l);
}

static void take_fresh(weft_host_links_t *ls) {
  uint64_t count;
  (void)!read(ls->wake, &count, sizeof count);
  weft_mutex_lock(&ls->mu);
  weft_host_link_t *l = ls->fresh;
  ls->fresh = NULL;
  weft_mutex_unlock(&ls->mu);
  while (l != NULL) {
    weft_host_link_t *next = l->next;
    adopt(ls, l);
    l = next;
  }
}

/* Ends handshakes that take too long; returns how long to sleep, in ms, -1: until something comes. */
static int check_deadlines(weft_host_links_t *ls) {
  int64_t now = weft_clock_ns(), first = INT64_MAX;
  for (weft_host_link_t *l = ls->open, *next; l != NULL; l = next) {
    next = l->next;
    if (l->state == LINKED) continue;
    if (l->deadline_ns <= now) end_link(ls, l);
    else if (l->deadline_ns < first) first = l->deadline_ns;
  }
  weft_mutex_lock(&ls->mu);
  waiter_t *w = take_waiters_locked(ls, false, now);
  for (const waiter_t *x = ls->waiters; x != NULL; x = x->next) {
    if (x->deadline_ns < first) first = x->deadline_ns;
  }
  weft_mutex_unlock(&ls->mu);
  tell(w);
  return first == INT64_MAX ? -1 : (int)((first - now) / 1000000) + 1;
}

static void *run(void *arg) {
  weft_host_links_t *ls = arg;
  pthread_setname_np(pthread_self(), "weft-host-link");
  struct epoll_event events[NUM_EVENTS];
  while (!atomic_load_explicit(&ls->is_stopping, memory_order_acquire)) {
    int n = epoll_wait(ls->epoll, events, NUM_EVENTS, check_deadlines(ls));
    for (int i = 0; i < n; i++) { /* a link that another's event has ended lives on in by_task */
      void *what = events[i].data.ptr;
      if (what == &ls->wake) {
        take_fresh(ls);
      } else if (what == &ls->listener) {
        on_connection(ls);
      } else if (!((weft_host_link_t *)what)->is_closed) { /* which this thread alone sets */
        if (events[i].events & EPOLLOUT) flush(what);
        if (events[i].events & ~(uint32_t)EPOLLOUT) on_readable(ls, what);
      }
    }
  }
  return NULL;
}

/* ---- the whole ---- */

static bool open_sockets(weft_host_links_t *ls) {
  struct sockaddr_un address;
  socklen_t length = make_address(ls->incarnation, &address);
  ls->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ls->epoll = epoll_create1(EPOLL_CLOEXEC);
  ls->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (ls->listener < 0 || ls->epoll < 0 || ls->wake < 0) return false;
  if (bind(ls->listener, (struct sockaddr *)&address, length) != 0 || listen(ls->listener, 128) != 0) return false;
  return watch(ls, ls->listener, &ls->listener) && watch(ls, ls->wake, &ls->wake);
}

/* May we read in processes at all? Some systems forbid the call. */
static bool may_read(weft_host_links_t *ls) {
  uint64_t word = 0;
  struct iovec here = {&word, sizeof word}, there = {&ls->word, sizeof ls->word};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)sizeof word && word == ls->word;
}

double weft_host_links_time_read(weft_host_links_t *ls, const void *from, void *to, size_t n) {
  /* The cast drops const: the kernel only reads. */
  struct iovec here = {to, n}, there = {(void *)(uintptr_t)from, n};
  int64_t began = weft_clock_ns();
  bool ok = ls->has_thread && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)n;
  return ok ? (double)(weft_clock_ns() - began) * 1e-9 : 0;
}

weft_status_t *weft_host_links_create(weft_str_t task, uint64_t incarnation, const weft_host_link_ops_t *ops, void *arg,
                                      weft_host_links_t **out) {
  weft_host_links_t *ls = weft_calloc(1, sizeof *ls);
  if (ls == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for links between the tasks of a host");
  weft_mutex_init(&ls->mu);
  ls->task = task;
  ls->incarnation = incarnation;
  ls->word = weft_random_id();
  ls->ops = ops;
  ls->arg = arg;
  ls->listener = ls->epoll = ls->wake = -1;
  ls->buffer = weft_malloc(MAX_PACKET);
  if (incarnation != 0 && ls->buffer != NULL && may_read(ls) && open_sockets(ls)) ls->has_thread = pthread_create(&ls->thread, NULL, run, ls) == 0;
  if (ls->has_thread) ls->host = describe_host();
  *out = ls;
  return NULL;
}

weft_str_t weft_host_links_host(const weft_host_links_t *ls) { return weft_str(ls->host == NULL ? "" : ls->host); }

static void wake_up(weft_host_links_t *ls) {
  uint64_t one = 1;
  (void)!write(ls->wake, &one, sizeof one);
}

void weft_host_links_stop(weft_host_links_t *ls) {
  if (ls == NULL || !ls->has_thread) return;
  ls->has_thread = false;
  atomic_store_explicit(&ls->is_stopping, true, memory_order_release);
  wake_up(ls);
  pthread_join(ls->thread, NULL);
  weft_mutex_lock(&ls->mu);
  waiter_t *w = take_waiters_locked(ls, true, 0);
  weft_mutex_unlock(&ls->mu);
  tell(w);
  for (weft_host_link_t *l = ls->open; l != NULL; l = l->next) { /* the peers see that we leave, and did not die */
    if (l->state == LINKED) say_bye(l, WEFT_STR(""), NULL);
    shutdown(l->fd, SHUT_RDWR);
  }
}

void weft_host_links_destroy(weft_host_links_t *ls) {
  if (ls == NULL) return;
  weft_host_links_stop(ls);
  while (ls->open != NULL) {
    weft_host_link_t *l = ls->open;
    ls->open = l->next;
    weft_host_link_release(l);
  }
  while (ls->fresh != NULL) {
    weft_host_link_t *l = ls->fresh;
    ls->fresh = l->next;
    weft_host_link_release(l);
  }
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&ls->by_task, &at, &e);) weft_host_link_release(e.value);
  weft_map_deinit(&ls->by_task);
  if (ls->listener >= 0) close(ls->listener);
  if (ls->epoll >= 0) close(ls->epoll);
  if (ls->wake >= 0) close(ls->wake);
  weft_mutex_deinit(&ls->mu);
  weft_free(ls->buffer);
  weft_free(ls->host);
  weft_free(ls);
}

weft_host_link_t *weft_host_links_find(weft_host_links_t *ls, weft_str_t task) {
  weft_mutex_lock(&ls->mu);
  weft_host_link_t *l = weft_map_get(&ls->by_task, task);
  l = l != NULL && l->state == LINKED ? weft_host_link_retain(l) : NULL;
  weft_mutex_unlock(&ls->mu);
  return l;
}

/* Calls `fn` for each link there is. */
static void for_each_linked(weft_host_links_t *ls, void (*fn)(weft_host_link_t *l, const void *arg), const void *arg) {
  enum { MAX_AT_ONCE = 64 };
  weft_host_link_t *links[MAX_AT_ONCE];
  size_t at = 0;
  for (int n = MAX_AT_ONCE; n == MAX_AT_ONCE;) {
    weft_map_entry_t e;
    n = 0;
    weft_mutex_lock(&ls->mu);
    while (n < MAX_AT_ONCE && weft_map_next(&ls->by_task, &at, &e)) {
      weft_host_link_t *l = e.value;
      if (l->state == LINKED) links[n++] = weft_host_link_retain(l);
    }
    weft_mutex_unlock(&ls->mu);
    for (int i = 0; i < n; i++) {
      fn(links[i], arg);
      weft_host_link_release(links[i]);
    }
  }
}

typedef struct end {
  int64_t step_id;
  const weft_status_t *why;
} end_t;

static void tell_end(weft_host_link_t *l, const void *arg) {
  const end_t *e = arg;
  (void)weft_host_link_ended(l, e->step_id, WEFT_STR(""), e->why);
}

void weft_host_links_tell_ended(weft_host_links_t *ls, int64_t step_id, const weft_status_t *why) {
  const end_t e = {step_id, why};
  for_each_linked(ls, tell_end, &e);
}

typedef struct departure {
  weft_str_t dead;
  const weft_status_t *why;
} departure_t;

static void tell_departure(weft_host_link_t *l, const void *arg) {
  const departure_t *d = arg;
  say_bye(l, d->dead, d->why);
}

void weft_host_links_leave(weft_host_links_t *ls, weft_str_t dead_task, const weft_status_t *why) {
  const departure_t d = {dead_task, why};
  for_each_linked(ls, tell_departure, &d);
}

bool weft_host_link_is_linked(weft_host_link_t *l) {
  weft_mutex_lock(&l->links->mu);
  bool yes = l->state == LINKED;
  weft_mutex_unlock(&l->links->mu);
  return yes;
}

bool weft_host_links_break(weft_host_links_t *ls, weft_str_t task) {
  weft_host_link_t *l = weft_host_links_find(ls, task);
  if (l == NULL) return false;
  break_link(l);
  weft_host_link_release(l);
  return true;
}

/* Connects without waiting: a local connection is there at once, or not at all. */
static weft_host_link_t *open_link(weft_host_links_t *ls, const char *task, uint64_t incarnation) {
  struct sockaddr_un address;
  socklen_t length = make_address(incarnation, &address);
  pid_t pid = 0;
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return NULL;
  if (connect(fd, (struct sockaddr *)&address, length) != 0 || !find_pid(fd, &pid)) {
    close(fd);
    return NULL;
  }
  weft_host_link_t *l = link_new(ls, fd);
  if (l == NULL) return NULL;
  l->pid = pid;
  l->is_connector = true;
  l->incarnation = incarnation;
  l->task = weft_strdup(task);
  if (l->task != NULL) return l;
  weft_host_link_release(l);
  return NULL;
}

/* Ends the wait of `w` now, if it still waits. */
static void give_up(weft_host_links_t *ls, const waiter_t *w) {
  weft_mutex_lock(&ls->mu);
  for (waiter_t *x = ls->waiters; x != NULL; x = x->next) {
    if (x == w) x->deadline_ns = 0;
  }
  weft_mutex_unlock(&ls->mu);
}

void weft_host_links_connect(weft_host_links_t *ls, weft_str_t task, uint64_t incarnation, weft_host_linked_fn *fn, void *arg) {
  waiter_t *w = weft_calloc(1, sizeof *w);
  if (w != NULL) w->task = weft_strndup(task.data, task.length);
  if (w == NULL || w->task == NULL || !ls->has_thread || weft_str_eq(task, ls->task)) {
    if (w != NULL) weft_free(w->task);
    weft_free(w);
    fn(arg);
    return;
  }
  w->incarnation = incarnation;
  w->deadline_ns = weft_clock_ns() + (int64_t)WAIT_MS * 1000000;
  w->fn = fn;
  w->arg = arg;
  weft_mutex_lock(&ls->mu);
  const weft_host_link_t *known = weft_map_get(&ls->by_task, task);
  bool is_new = known == NULL || known->incarnation != incarnation;
  bool is_decided = is_decided_locked(ls, w->task, incarnation);
  if (!is_decided) {
    w->next = ls->waiters;
    ls->waiters = w;
  }
  weft_mutex_unlock(&ls->mu);
  if (is_decided) {
    w->next = NULL;
    tell(w);
    return;
  }
  if (is_new && weft_str_compare(ls->task, task) < 0) {
    char *copy = weft_strndup(task.data, task.length);
    weft_host_link_t *l = copy == NULL ? NULL : open_link(ls, copy, incarnation);
    weft_free(copy);
    if (l != NULL && enter(ls, l)) {
      weft_mutex_lock(&ls->mu);
      l->next = ls->fresh;
      ls->fresh = l;
      weft_mutex_unlock(&ls->mu);
    } else {
      weft_host_link_release(l);
      give_up(ls, w); /* nobody is there: all goes by RPC, which will say so */
    }
  }
  wake_up(ls);
}
