/* collectives/remote/host_links.c - all links of a task: their life, and how they are found and asked for. */
#define _GNU_SOURCE /* process_vm_readv */
#include "collectives/remote/host_link_impl.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/process_memory.h"
#include "base/random.h"

static bool open_sockets(weft_host_links_t *ls) {
  struct sockaddr_un address;
  socklen_t length = weft_host_address(ls->incarnation, &address);
  ls->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ls->epoll = epoll_create1(EPOLL_CLOEXEC);
  ls->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (ls->listener < 0 || ls->epoll < 0 || ls->wake < 0) return false;
  if (bind(ls->listener, (struct sockaddr *)&address, length) != 0 || listen(ls->listener, 128) != 0)
    return false;
  return weft_host_watch(ls, ls->listener, &ls->listener) && weft_host_watch(ls, ls->wake, &ls->wake);
}

double weft_host_links_time_read(weft_host_links_t *ls, const void *from, void *to, size_t n) {
  /* The cast drops const: the kernel only reads. */
  struct iovec here = {to, n}, there = {(void *)(uintptr_t)from, n};
  int64_t began = weft_clock_ns();
  bool ok = ls->has_thread && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)n;
  return ok ? (double)(weft_clock_ns() - began) * 1e-9 : 0;
}

weft_status_t *weft_host_links_create(weft_str_t task, uint64_t incarnation, const weft_host_link_ops_t *ops,
                                      void *arg, weft_host_links_t **out) {
  weft_host_links_t *ls = weft_calloc(1, sizeof *ls);
  if (ls == NULL) return WEFT_NO_MEMORY("links between the tasks of a host");
  weft_mutex_init(&ls->mu);
  ls->task = task;
  ls->incarnation = incarnation;
  ls->word = weft_random_id();
  ls->ops = ops;
  ls->arg = arg;
  ls->listener = ls->epoll = ls->wake = -1;
  ls->buffer = weft_malloc(WEFT_HOST_MAX_PACKET);
  const char *shares = getenv("WEFT_SHARED_COLLECTIVES");
  if (incarnation != 0 && (shares == NULL || strcmp(shares, "0") != 0)) ls->posts = weft_posts_create();
  if (incarnation != 0 && ls->buffer != NULL && weft_process_memory_may_read() && open_sockets(ls))
    ls->has_thread = pthread_create(&ls->thread, NULL, weft_host_links_run, ls) == 0;
  if (ls->has_thread) ls->host = weft_host_describe();
  ls->is_over = !ls->has_thread;
  *out = ls;
  return NULL;
}

weft_str_t weft_host_links_host(const weft_host_links_t *ls) {
  return weft_str(ls->host == NULL ? "" : ls->host);
}

weft_posts_t *weft_host_links_posts(const weft_host_links_t *ls) { return ls->posts; }

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
  weft_host_waiter_t *w = weft_host_take_waiters_locked(ls, true, 0);
  ls->is_over = true;
  weft_mutex_unlock(&ls->mu);
  weft_host_tell_waiters(w);
  for (weft_host_link_t *l = ls->open; l != NULL;
       l = l->next) { /* the peers see that this task departs and has not failed */
    if (l->state == WEFT_HOST_LINKED) weft_host_link_bye(l, WEFT_STR(""), NULL);
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
  weft_posts_destroy(ls->posts);
  weft_free(ls->buffer);
  weft_free(ls->host);
  weft_free(ls);
}

weft_host_link_t *weft_host_links_find(weft_host_links_t *ls, weft_str_t task) {
  weft_mutex_lock(&ls->mu);
  weft_host_link_t *l = weft_map_get(&ls->by_task, task);
  l = l != NULL && l->state == WEFT_HOST_LINKED ? weft_host_link_retain(l) : NULL;
  weft_mutex_unlock(&ls->mu);
  return l;
}

/* Calls `fn` for each link there is. */
static void for_each_linked(weft_host_links_t *ls, void (*fn)(weft_host_link_t *l, const void *arg),
                            const void *arg) {
  enum { MAX_AT_ONCE = 64 };
  weft_host_link_t *links[MAX_AT_ONCE];
  size_t at = 0;
  for (int n = MAX_AT_ONCE; n == MAX_AT_ONCE;) {
    weft_map_entry_t e;
    n = 0;
    weft_mutex_lock(&ls->mu);
    while (n < MAX_AT_ONCE && weft_map_next(&ls->by_task, &at, &e)) {
      weft_host_link_t *l = e.value;
      if (l->state == WEFT_HOST_LINKED) links[n++] = weft_host_link_retain(l);
    }
    weft_mutex_unlock(&ls->mu);
    for (int i = 0; i < n; i++) {
      fn(links[i], arg);
      weft_host_link_release(links[i]);
    }
  }
}

typedef struct link_end {
  int64_t step_id;
  const weft_status_t *why;
} link_end_t;

static void tell_end(weft_host_link_t *l, const void *arg) {
  const link_end_t *e = arg;
  (void)weft_host_link_ended(l, e->step_id, WEFT_STR(""), e->why);
}

void weft_host_links_tell_ended(weft_host_links_t *ls, int64_t step_id, const weft_status_t *why) {
  const link_end_t e = {step_id, why};
  for_each_linked(ls, tell_end, &e);
}

typedef struct departure {
  weft_str_t failed;
  const weft_status_t *why;
} departure_t;

static void tell_departure(weft_host_link_t *l, const void *arg) {
  const departure_t *d = arg;
  weft_host_link_bye(l, d->failed, d->why);
}

void weft_host_links_leave(weft_host_links_t *ls, weft_str_t failed_task, const weft_status_t *why) {
  const departure_t d = {failed_task, why};
  for_each_linked(ls, tell_departure, &d);
}

bool weft_host_links_break(weft_host_links_t *ls, weft_str_t task) {
  weft_host_link_t *l = weft_host_links_find(ls, task);
  if (l == NULL) return false;
  weft_host_link_break(l);
  weft_host_link_release(l);
  return true;
}

/* Connects without waiting: a local connection is there at once, or not at all. */
static weft_host_link_t *open_link(weft_host_links_t *ls, const char *task, uint64_t incarnation) {
  struct sockaddr_un address;
  socklen_t length = weft_host_address(incarnation, &address);
  pid_t pid = 0;
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return NULL;
  if (connect(fd, (struct sockaddr *)&address, length) != 0 || !weft_host_find_pid(fd, &pid)) {
    close(fd);
    return NULL;
  }
  weft_host_link_t *l = weft_host_link_new(ls, fd);
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
static void give_up(weft_host_links_t *ls, const weft_host_waiter_t *w) {
  weft_mutex_lock(&ls->mu);
  for (weft_host_waiter_t *x = ls->waiters; x != NULL; x = x->next) {
    if (x == w) x->deadline_ns = 0;
  }
  weft_mutex_unlock(&ls->mu);
}

void weft_host_links_connect(weft_host_links_t *ls, weft_str_t task, uint64_t incarnation,
                             weft_host_linked_fn *fn, void *arg) {
  weft_host_waiter_t *w = weft_calloc(1, sizeof *w);
  if (w != NULL) w->task = weft_strndup(task.data, task.length);
  if (w == NULL || w->task == NULL || weft_str_eq(task, ls->task)) {
    if (w != NULL) weft_free(w->task);
    weft_free(w);
    fn(arg);
    return;
  }
  w->incarnation = incarnation;
  w->deadline_ns = weft_clock_ns() + (int64_t)WEFT_HOST_WAIT_MS * 1000000;
  w->fn = fn;
  w->arg = arg;
  weft_mutex_lock(&ls->mu);
  const weft_host_link_t *known = weft_map_get(&ls->by_task, task);
  bool is_new = known == NULL || known->incarnation != incarnation;
  bool is_decided = ls->is_over || weft_host_is_decided_locked(ls, w->task, incarnation);
  if (!is_decided) {
    w->next = ls->waiters;
    ls->waiters = w;
  }
  weft_mutex_unlock(&ls->mu);
  if (is_decided) {
    w->next = NULL;
    weft_host_tell_waiters(w);
    return;
  }
  if (is_new && weft_str_compare(ls->task, task) < 0) {
    char *copy = weft_strndup(task.data, task.length);
    weft_host_link_t *l = copy == NULL ? NULL : open_link(ls, copy, incarnation);
    weft_free(copy);
    if (l != NULL && weft_host_enter(ls, l)) {
      weft_mutex_lock(&ls->mu);
      l->next = ls->fresh;
      ls->fresh = l;
      weft_mutex_unlock(&ls->mu);
    } else {
      weft_host_link_release(l);
      give_up(ls, w); /* no process listens: all goes by RPC, which will report it */
    }
  }
  wake_up(ls);
}

void weft_host_links_settle(weft_host_links_t *ls, weft_host_linked_fn *fn, void *arg) {
  weft_host_waiter_t *w = weft_calloc(1, sizeof *w);
  bool waits = false;
  weft_mutex_lock(&ls->mu);
  if (w != NULL && !ls->is_over) {
    *w = (weft_host_waiter_t){
        .next = ls->waiters, .pass = ls->num_passes + 2, .fn = fn, .arg = arg}; /* one may be under way */
    ls->waiters = w;
    waits = true;
  }
  weft_mutex_unlock(&ls->mu);
  if (waits) {
    wake_up(ls);
    return;
  }
  weft_free(w);
  fn(arg);
}
