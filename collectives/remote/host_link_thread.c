/* collectives/remote/host_link_thread.c - the links' one thread: greetings, packets, ends, and what waits for
 * a decision. */
#define _GNU_SOURCE /* accept4, pthread_setname_np */
#include "collectives/remote/host_link_impl.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { NUM_EVENTS = 16 };

bool weft_host_is_decided_locked(weft_host_links_t *ls, const char *task, uint64_t incarnation)
    WEFT_REQUIRES(ls->mu) {
  const weft_host_link_t *l = weft_map_get(&ls->by_task, weft_str(task));
  return l != NULL && l->incarnation == incarnation &&
         (l->state == WEFT_HOST_LINKED || l->state == WEFT_HOST_OVER);
}

static bool is_told_locked(weft_host_links_t *ls, const weft_host_waiter_t *w, int64_t now)
    WEFT_REQUIRES(ls->mu) {
  if (w->task == NULL) return w->pass <= ls->num_passes;
  return w->deadline_ns <= now || weft_host_is_decided_locked(ls, w->task, w->incarnation);
}

weft_host_waiter_t *weft_host_take_waiters_locked(weft_host_links_t *ls, bool all, int64_t now)
    WEFT_REQUIRES(ls->mu) {
  weft_host_waiter_t *taken = NULL;
  for (weft_host_waiter_t **at = &ls->waiters; *at != NULL;) {
    weft_host_waiter_t *w = *at;
    if (!all && !is_told_locked(ls, w, now)) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    w->next = taken;
    taken = w;
  }
  return taken;
}

void weft_host_tell_waiters(weft_host_waiter_t *w) {
  while (w != NULL) {
    weft_host_waiter_t *next = w->next;
    w->fn(w->arg);
    weft_free(w->task);
    weft_free(w);
    w = next;
  }
}

static void tell_decided(weft_host_links_t *ls) {
  weft_mutex_lock(&ls->mu);
  weft_host_waiter_t *w = weft_host_take_waiters_locked(ls, false, weft_clock_ns());
  weft_mutex_unlock(&ls->mu);
  weft_host_tell_waiters(w);
}

/* ---- the thread ---- */

bool weft_host_watch(weft_host_links_t *ls, int fd, void *what) {
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = what};
  return epoll_ctl(ls->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

static bool has_hung_up(const weft_host_link_t *l) {
  struct pollfd p = {.fd = l->fd, .events = POLLRDHUP};
  return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* A process that ends loses its memory before its sockets, and that may take a while. */
static bool is_gone(weft_host_link_t *l) {
  weft_status_t *s = weft_host_link_read(l, 0, NULL, 0);
  bool yes = weft_status_code(s) == WEFT_UNAVAILABLE;
  weft_status_free(s);
  return yes;
}

static void on_readable(weft_host_links_t *ls, weft_host_link_t *l);
static void end_link(weft_host_links_t *ls, weft_host_link_t *l);

/* A peer that departs because another one failed is not the cause: links to failed peers are ended first. A
 * failed peer sends nothing; what peers that hung up have sent is read to its end, which ends their links. */
static void end_others_first(weft_host_links_t *ls) {
  for (weft_host_link_t *x = ls->open; x != NULL;) {
    bool is_over = !x->is_ending && x->state == WEFT_HOST_LINKED && (has_hung_up(x) || is_gone(x));
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
  bool was_linked = l->state == WEFT_HOST_LINKED;
  l->state = WEFT_HOST_OVER; /* stays in by_task: there is no link with this incarnation any more */
  weft_mutex_unlock(&ls->mu);
  weft_mutex_lock(&l->mu);
  epoll_ctl(ls->epoll, EPOLL_CTL_DEL, l->fd, NULL);
  l->is_closed = true;
  close(l->fd);
  weft_mutex_unlock(&l->mu);
  weft_posts_view_end(l->posts);
  if (was_linked) ls->ops->broken(ls->arg, l);
  tell_decided(ls);
  weft_host_link_release(l);
}

/* Puts the link in by_task; false if there is one already, or a decision against it. */
bool weft_host_enter(weft_host_links_t *ls, weft_host_link_t *l) {
  void *old = NULL;
  weft_mutex_lock(&ls->mu);
  weft_host_link_t *known = weft_map_remove(&ls->by_task, weft_str(l->task));
  bool ok = known == NULL || known->incarnation != l->incarnation;
  weft_host_link_t *kept = ok ? weft_host_link_retain(l) : known;
  weft_status_t *s = weft_map_put(&ls->by_task, weft_str(kept->task), kept, &old);
  weft_mutex_unlock(&ls->mu);
  if (ok && known != NULL) {
    weft_host_link_break(known); /* an earlier process of that task; its end will be noticed */
    weft_host_link_release(known);
  }
  if (s == NULL) return ok;
  weft_status_free(s); /* no link; the other end sees that the socket is closed */
  weft_host_link_release(kept);
  return false;
}

static void set_state(weft_host_links_t *ls, weft_host_link_t *l, weft_host_state_t state) {
  weft_mutex_lock(&ls->mu);
  l->state = state;
  weft_mutex_unlock(&ls->mu);
}

static bool say(weft_host_links_t *ls, weft_host_link_t *l, weft_host_kind_t kind) {
  l->said_ns = weft_clock_ns();
  weft_host_header_t h = {
      .kind = kind, .id = ls->incarnation, .address = (uint64_t)(uintptr_t)&ls->word, .word = ls->word};
  const bool has_file = kind == WEFT_HOST_HELLO && ls->posts != NULL;
  return weft_host_link_send_file(l, &h, ls->task, has_file ? weft_posts_file(ls->posts) : -1);
}

/* False: the link is to be closed. */
static bool on_hello(weft_host_links_t *ls, weft_host_link_t *l, const weft_host_header_t *h, weft_str_t task,
                     int file) {
  if (l->state != WEFT_HOST_NEW || task.length == 0) return false;
  if (l->is_connector && (!weft_str_is(task, l->task) || h->id != l->incarnation)) return false;
  if (!l->is_connector) l->task = weft_strndup(task.data, task.length);
  if (l->task == NULL) return false;
  l->posts = file < 0 ? NULL : weft_posts_view_new(file);
  if (!l->is_connector) l->incarnation = h->id;
  l->owner = (weft_process_memory_t){.address = h->address, .word = h->word};
  weft_status_t *s = weft_host_link_read(l, 0, NULL, 0);
  bool can_read = s == NULL;
  weft_status_free(s); /* no link, then */
  if (!l->is_connector) {
    if (!weft_host_enter(ls, l)) return false;
    set_state(ls, l, WEFT_HOST_GREETED);
    return can_read && say(ls, l, WEFT_HOST_HELLO);
  }
  if (!can_read) return false;
  ls->ops->linked(ls->arg, (double)(weft_clock_ns() - l->said_ns) * 0.5e-9); /* there and back */
  if (!say(ls, l, WEFT_HOST_READY)) return false;
  set_state(ls, l, WEFT_HOST_LINKED);
  tell_decided(ls);
  return true;
}

static bool on_packet(weft_host_links_t *ls, weft_host_link_t *l, const char *bytes, size_t length,
                      int file) {
  weft_host_header_t h;
  if (length < sizeof h) return false;
  memcpy(&h, bytes, sizeof h);
  uint64_t total = sizeof h + (uint64_t)h.text_a + h.text_b + h.payload;
  if (h.magic != WEFT_HOST_MAGIC || total != length) return false;
  weft_str_t a = weft_str_of(bytes + sizeof h, h.text_a), b = weft_str_of(a.data + a.length, h.text_b);
  const char *payload = b.data + b.length;
  if (h.kind == WEFT_HOST_HELLO) return on_hello(ls, l, &h, a, file);
  if (h.kind == WEFT_HOST_READY) {
    if (l->state != WEFT_HOST_GREETED) return false;
    ls->ops->linked(ls->arg, (double)(weft_clock_ns() - l->said_ns) * 0.5e-9);
    set_state(ls, l, WEFT_HOST_LINKED);
    tell_decided(ls);
    return true;
  }
  if (l->state != WEFT_HOST_LINKED) return false;
  if (h.kind == WEFT_HOST_OFFER) {
    bool is_inline = h.code != 0;
    if (is_inline && h.bytes != h.payload) return false;
    weft_host_offer_t o = {.id = h.id,
                           .step_id = h.step_id,
                           .key = a,
                           .to_device = b,
                           .bytes = h.bytes,
                           .address = h.address,
                           .inline_data = is_inline ? payload : NULL};
    ls->ops->offered(ls->arg, l, &o);
  } else if (h.kind == WEFT_HOST_FINISHED) {
    ls->ops->finished(ls->arg, l, h.id);
  } else if (h.kind == WEFT_HOST_REFUSED) {
    ls->ops->refused(ls->arg, l, h.id);
  } else if (h.kind == WEFT_HOST_WAKE) {
    ls->ops->woken(ls->arg, h.id);
  } else if (h.kind == WEFT_HOST_BYE) {
    if (!l->has_left && h.code != WEFT_OK) { /* the first says it all */
      l->failed = weft_strndup(a.data, a.length);
      l->failed_why = weft_status_from_wire(h.code, b.data, b.length);
    }
    l->has_left = true;
  } else if (h.kind == WEFT_HOST_ENDED) {
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
    int file = -1;
    const ssize_t got = weft_host_link_recv(l, buffer, &file);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    const bool goes_on =
        got > 0 && got <= WEFT_HOST_MAX_PACKET && on_packet(ls, l, buffer, (size_t)got, file);
    if (file >= 0) close(file);
    if (!goes_on) {
      end_link(ls, l);
      return;
    }
  }
}

static void adopt(weft_host_links_t *ls, weft_host_link_t *l) {
  l->next = ls->open;
  ls->open = l;
  if (!weft_host_watch(ls, l->fd, l) || (l->is_connector && !say(ls, l, WEFT_HOST_HELLO))) end_link(ls, l);
}

static void on_connection(weft_host_links_t *ls) {
  int fd = accept4(ls->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  pid_t pid;
  if (fd < 0) return;
  if (!weft_host_find_pid(fd, &pid)) {
    close(fd);
    return;
  }
  weft_host_link_t *l = weft_host_link_new(ls, fd);
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

/* Ends handshakes that take too long; returns how long to sleep, in ms, -1: until a message arrives. */
static int check_deadlines(weft_host_links_t *ls) {
  int64_t now = weft_clock_ns(), first = INT64_MAX;
  for (weft_host_link_t *l = ls->open, *next; l != NULL; l = next) {
    next = l->next;
    if (l->state == WEFT_HOST_LINKED) continue;
    if (l->deadline_ns <= now)
      end_link(ls, l);
    else if (l->deadline_ns < first)
      first = l->deadline_ns;
  }
  weft_mutex_lock(&ls->mu);
  weft_host_waiter_t *w = weft_host_take_waiters_locked(ls, false, now);
  for (const weft_host_waiter_t *x = ls->waiters; x != NULL; x = x->next) {
    if (x->deadline_ns < first) first = x->deadline_ns;
  }
  weft_mutex_unlock(&ls->mu);
  weft_host_tell_waiters(w);
  if (first == INT64_MAX) return -1;
  return first <= now ? 0 : (int)((first - now) / 1000000) + 1;
}

void *weft_host_links_run(void *arg) {
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
        if (events[i].events & EPOLLOUT) weft_host_link_flush(what);
        if (events[i].events & ~(uint32_t)EPOLLOUT) on_readable(ls, what);
      }
    }
    if (n == NUM_EVENTS) continue; /* there may be more */
    weft_mutex_lock(&ls->mu);
    ls->num_passes++;
    weft_mutex_unlock(&ls->mu);
  }
  return NULL;
}
