/* rpc/local_loop.c - threads at an epoll descriptor.
 *
 * Each source is armed for one event: the thread that takes it is the only one that handles it, until it
 * awaits the source again.
 *
 * An event names a slot, which says whether the source is awaited. The thread that changes that to false has
 * the source. An event that comes too late for it is of no use, and may be of a source that is gone: slots
 * stay until the loop ends, and are used again.
 *
 * Few threads wait for events, because each that is awake costs the others time: one for each processor, up
 * to USUAL_THREADS. The rest are in reserve, and wait for a timer. A thread that finds all others busy sets
 * it; where they are still busy RESERVE_AFTER_NS later, some handler takes its time, and one of the reserve
 * waits for events, too, until there are idle ones again. So no handler keeps the process from hearing its
 * peers.
 *
 * Locking: the loop's `mu` is a leaf; `reserve` is taken by the loop's threads alone, under no other.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "rpc/local_loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "base/polling.h"

enum { LEAST_THREADS = 2, USUAL_THREADS = 4, ALL_THREADS = 8 };
#define RESERVE_AFTER_NS 10000000L

typedef struct weft_local_slot {
  weft_local_source_t *source; /* written before it is awaited */
  atomic_bool is_awaited;
  struct weft_local_slot *next, *next_free; /* guarded by the loop */
} loop_slot_t;

typedef struct loop_thread {
  weft_local_loop_t *loop;
  pthread_t thread;
  weft_packet_room_t *room; /* owned */
  bool is_reserve;          /* at first */
} loop_thread_t;

struct weft_local_loop {
  int epoll;
  weft_local_source_t posted, timer, stopped; /* stopped: readable for ever once the threads are to end */
  atomic_bool is_ticking;
  int reserve_timer;
  weft_mutex_t reserve; /* held by the thread in reserve that reads the timer; the others queue for it */
  int num_usual;        /* constant */
  atomic_int num_awake, num_busy; /* threads that wait for packets or handle one; that handle one */
  atomic_bool is_reserve_asked, is_stopping;
  atomic_bool is_polling; /* a thread looks for what comes next */
  weft_polling_t polling;
  weft_mutex_t mu;
  weft_cond_t emptied;
  weft_local_member_t *members; /* guarded by mu, as all below */
  int num_members;
  weft_local_post_t *first, **last;
  loop_slot_t *slots, *free_slots; /* all, by `next`; those without a source, by `next_free` */
  int num_threads;                 /* constant once created */
  loop_thread_t threads[ALL_THREADS];
};

static bool await_source(weft_local_loop_t *l, weft_local_source_t *s, weft_local_interest_t what, int how) {
  static const uint32_t events[] = {[WEFT_LOCAL_READ] = EPOLLIN | EPOLLONESHOT,
                                    [WEFT_LOCAL_WRITE] = EPOLLOUT | EPOLLONESHOT,
                                    [WEFT_LOCAL_BELL] = EPOLLIN | EPOLLET};
  struct epoll_event e = {.events = events[what], .data.ptr = s->slot};
  loop_slot_t *slot = s->slot;
  atomic_store_explicit(&slot->is_awaited, true, memory_order_release); /* pairs with take_source() */
  if (epoll_ctl(l->epoll, how, s->fd, &e) == 0) return true;
  atomic_store_explicit(&slot->is_awaited, false, memory_order_relaxed);
  return false;
}

static bool take_source(loop_slot_t *slot) {
  return atomic_load_explicit(&slot->is_awaited, memory_order_relaxed) &&
         atomic_exchange_explicit(&slot->is_awaited, false, memory_order_acq_rel);
}

/* NULL without memory. */
static loop_slot_t *slot_new(weft_local_loop_t *l) {
  weft_mutex_lock(&l->mu);
  loop_slot_t *slot = l->free_slots;
  if (slot != NULL) l->free_slots = slot->next_free;
  weft_mutex_unlock(&l->mu);
  if (slot != NULL) return slot;
  slot = weft_calloc(1, sizeof *slot);
  if (slot == NULL) return NULL;
  weft_mutex_lock(&l->mu);
  slot->next = l->slots;
  l->slots = slot;
  weft_mutex_unlock(&l->mu);
  return slot;
}

static void leave_slot(weft_local_loop_t *l, weft_local_source_t *s) {
  loop_slot_t *slot = s->slot;
  s->slot = NULL;
  weft_mutex_lock(&l->mu);
  slot->next_free = l->free_slots;
  l->free_slots = slot;
  weft_mutex_unlock(&l->mu);
}

bool weft_local_loop_add(weft_local_loop_t *l, weft_local_source_t *s, weft_local_interest_t what) {
  loop_slot_t *slot = slot_new(l);
  if (slot == NULL) return false;
  slot->source = s;
  s->slot = slot;
  if (await_source(l, s, what, EPOLL_CTL_ADD)) return true;
  leave_slot(l, s);
  return false;
}
bool weft_local_loop_again(weft_local_loop_t *l, weft_local_source_t *s, weft_local_interest_t what) {
  return await_source(l, s, what, EPOLL_CTL_MOD);
}
void weft_local_loop_remove(weft_local_loop_t *l, weft_local_source_t *s) {
  (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, s->fd, NULL);
  leave_slot(l, s);
}

bool weft_local_source_take(weft_local_source_t *s) { return s->slot != NULL && take_source(s->slot); }
void weft_local_source_leave(weft_local_source_t *s) { atomic_store(&s->slot->is_awaited, true); }

bool weft_local_loop_look(weft_local_loop_t *l, bool (*look)(void *arg), void *arg) {
  if (atomic_exchange(&l->is_polling, true)) return false;
  (void)weft_polling_run(&l->polling, look, arg);
  atomic_store(&l->is_polling, false);
  return true;
}

/* ---- posts ---- */

void weft_local_loop_post(weft_local_loop_t *l, weft_local_post_t *p) {
  p->next = NULL;
  weft_mutex_lock(&l->mu);
  *l->last = p;
  l->last = &p->next;
  weft_mutex_unlock(&l->mu);
  const uint64_t one = 1;
  while (write(l->posted.fd, &one, sizeof one) < 0 && errno == EINTR) { /* a full counter is readable, too */
  }
}

static void run_posts(weft_local_source_t *self, weft_packet_room_t *room) {
  weft_local_loop_t *l = (weft_local_loop_t *)(void *)((char *)self - offsetof(weft_local_loop_t, posted));
  uint64_t count;
  (void)room;
  while (read(self->fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
  weft_mutex_lock(&l->mu);
  weft_local_post_t *posts = l->first;
  l->first = NULL;
  l->last = &l->first;
  weft_mutex_unlock(&l->mu);
  (void)weft_local_loop_again(l, self, WEFT_LOCAL_READ);
  for (weft_local_post_t *next; posts != NULL; posts = next) {
    next = posts->next;
    posts->fn(posts);
  }
}

/* ---- ticks ---- */

static void set_timer(int timer, long ns) {
  const struct itimerspec once = {.it_value.tv_nsec = ns};
  (void)timerfd_settime(timer, 0, &once, NULL);
}

void weft_local_loop_tick(weft_local_loop_t *l) {
  if (atomic_load_explicit(&l->is_ticking, memory_order_relaxed) || atomic_exchange(&l->is_ticking, true))
    return;
  set_timer(l->timer.fd, WEFT_LOCAL_TICK_MS * 1000000L);
}

/* All members, retained; without memory none: this tick is left out. */
static weft_local_member_t **list_members(weft_local_loop_t *l, int *out_n) {
  weft_mutex_lock(&l->mu);
  const int most = l->num_members;
  weft_mutex_unlock(&l->mu);
  weft_local_member_t **list = weft_calloc((size_t)most + 1, sizeof *list);
  int n = 0;
  weft_mutex_lock(&l->mu);
  for (weft_local_member_t *m = l->members; list != NULL && m != NULL && n < most; m = m->next) {
    m->ops->retain(m);
    list[n++] = m;
  }
  weft_mutex_unlock(&l->mu);
  *out_n = n;
  return list;
}

static void tick(weft_local_source_t *self, weft_packet_room_t *room) {
  weft_local_loop_t *l = (weft_local_loop_t *)(void *)((char *)self - offsetof(weft_local_loop_t, timer));
  uint64_t count;
  int n = 0;
  (void)room;
  while (read(self->fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
  (void)weft_local_loop_again(l, self, WEFT_LOCAL_READ);
  atomic_store(&l->is_ticking, false); /* before the members are asked: what begins now ticks again */
  weft_local_member_t **list = list_members(l, &n);
  bool again = list == NULL;
  for (int i = 0; i < n; i++) {
    if (list[i]->ops->tick(list[i])) again = true;
    list[i]->ops->release(list[i]);
  }
  weft_free(list);
  if (again) weft_local_loop_tick(l);
}

/* ---- members ---- */

void weft_local_loop_enter(weft_local_loop_t *l, weft_local_member_t *m) {
  weft_mutex_lock(&l->mu);
  m->prev = NULL;
  m->next = l->members;
  if (m->next != NULL) m->next->prev = m;
  l->members = m;
  l->num_members++;
  weft_mutex_unlock(&l->mu);
}

void weft_local_loop_leave(weft_local_loop_t *l, weft_local_member_t *m) {
  weft_mutex_lock(&l->mu);
  if (m->prev != NULL) m->prev->next = m->next;
  if (m->prev == NULL) l->members = m->next;
  if (m->next != NULL) m->next->prev = m->prev;
  l->num_members--;
  if (l->num_members == 0) weft_cond_broadcast(&l->emptied);
  weft_mutex_unlock(&l->mu);
}

/* ---- threads ---- */

/* A thread begins to handle something: are all others busy, too? */
static void enter_handler(weft_local_loop_t *l) {
  const int busy = atomic_fetch_add(&l->num_busy, 1) + 1;
  if (busy < atomic_load(&l->num_awake) || atomic_load_explicit(&l->is_reserve_asked, memory_order_relaxed))
    return;
  if (!atomic_exchange(&l->is_reserve_asked, true)) set_timer(l->reserve_timer, RESERVE_AFTER_NS);
}

/* The end of what it handled. True: it is not needed any more. */
static bool leave_handler(weft_local_loop_t *l) {
  const int busy = atomic_fetch_sub(&l->num_busy, 1) - 1;
  int awake = atomic_load(&l->num_awake);
  return awake > l->num_usual && busy < awake - 1 &&
         atomic_compare_exchange_strong(&l->num_awake, &awake, awake - 1);
}

/* Waits until a further thread is needed; woken by the timer. False: the loop ends. */
static bool await_need(weft_local_loop_t *l) {
  for (;;) {
    uint64_t count;
    const ssize_t got = read(l->reserve_timer, &count, sizeof count);
    if (atomic_load(&l->is_stopping) || (got < 0 && errno != EINTR)) return false;
    if (got < 0) continue;
    atomic_store(&l->is_reserve_asked, false);
    if (atomic_load(&l->num_busy) >= atomic_load(&l->num_awake)) break;
  }
  atomic_fetch_add(&l->num_awake, 1);
  return true;
}

static bool be_in_reserve(weft_local_loop_t *l) {
  weft_mutex_lock(&l->reserve);
  const bool is_needed = await_need(l);
  weft_mutex_unlock(&l->reserve);
  return is_needed;
}

/* Handles what comes, until the thread is not needed any more. False: the loop ends. */
static bool handle_events(weft_local_loop_t *l, weft_packet_room_t *room) {
  bool is_surplus = false;
  while (!is_surplus) {
    struct epoll_event e;
    const int n = epoll_wait(l->epoll, &e, 1, -1);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || e.data.ptr == &l->stopped) return false;
    loop_slot_t *slot = e.data.ptr;
    if (!take_source(slot)) continue;
    weft_local_source_t *s = slot->source;
    enter_handler(l);
    s->ready(s, room);
    is_surplus = leave_handler(l);
  }
  return true;
}

static void *run_thread(void *arg) {
  loop_thread_t *t = arg;
  bool goes_on = !t->is_reserve || be_in_reserve(t->loop);
  while (goes_on) goes_on = handle_events(t->loop, t->room) && be_in_reserve(t->loop);
  return NULL;
}

static bool start_threads(weft_local_loop_t *l) {
  for (int i = 0; i < ALL_THREADS; i++) {
    loop_thread_t *t = &l->threads[i];
    char name[16];
    t->loop = l;
    t->is_reserve = i >= l->num_usual;
    t->room = weft_packet_room_create();
    if (t->room == NULL || pthread_create(&t->thread, NULL, run_thread, t) != 0) {
      weft_packet_room_destroy(t->room);
      break;
    }
    snprintf(name, sizeof name, "weft-local/%u", (unsigned)i % 100u);
    pthread_setname_np(t->thread, name);
    l->num_threads++;
  }
  return l->num_threads >= l->num_usual;
}

static bool open_sources(weft_local_loop_t *l) {
  l->epoll = epoll_create1(EPOLL_CLOEXEC);
  l->posted = (weft_local_source_t){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = run_posts};
  l->timer =
      (weft_local_source_t){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), .ready = tick};
  l->reserve_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  l->stopped = (weft_local_source_t){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = &l->stopped};
  return l->epoll >= 0 && l->posted.fd >= 0 && l->timer.fd >= 0 && l->reserve_timer >= 0 &&
         l->stopped.fd >= 0 && weft_local_loop_add(l, &l->posted, WEFT_LOCAL_READ) &&
         weft_local_loop_add(l, &l->timer, WEFT_LOCAL_READ) &&
         epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->stopped.fd, &e) == 0;
}

static void close_one(int fd) {
  if (fd >= 0) close(fd);
}

static void loop_free(weft_local_loop_t *l) {
  close_one(l->epoll);
  close_one(l->posted.fd);
  close_one(l->timer.fd);
  close_one(l->reserve_timer);
  close_one(l->stopped.fd);
  for (loop_slot_t *slot = l->slots, *next; slot != NULL; slot = next) {
    next = slot->next;
    weft_free(slot);
  }
  weft_cond_deinit(&l->emptied);
  weft_mutex_deinit(&l->reserve);
  weft_mutex_deinit(&l->mu);
  weft_free(l);
}

/* Those in reserve find the timer running out again and again. */
static void stop_threads(weft_local_loop_t *l) {
  const struct itimerspec often = {.it_interval.tv_nsec = RESERVE_AFTER_NS, .it_value.tv_nsec = 1};
  const uint64_t one = 1;
  atomic_store(&l->is_stopping, true);
  (void)timerfd_settime(l->reserve_timer, 0, &often, NULL);
  while (write(l->stopped.fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
  for (int i = 0; i < l->num_threads; i++) {
    pthread_join(l->threads[i].thread, NULL);
    weft_packet_room_destroy(l->threads[i].room);
  }
}

weft_status_t *weft_local_loop_create(weft_local_loop_t **out) {
  weft_local_loop_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return WEFT_NO_MEMORY("local connections");
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  l->num_usual = processors < LEAST_THREADS   ? LEAST_THREADS
                 : processors > USUAL_THREADS ? USUAL_THREADS
                                              : (int)processors;
  atomic_init(&l->num_awake, l->num_usual);
  weft_mutex_init(&l->mu);
  weft_mutex_init(&l->reserve);
  weft_cond_init(&l->emptied);
  l->last = &l->first;
  if (!open_sources(l) || !start_threads(l)) {
    stop_threads(l);
    loop_free(l);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot wait for local connections");
  }
  *out = l;
  return NULL;
}

void weft_local_loop_destroy(weft_local_loop_t *l) {
  if (l == NULL) return;
  weft_mutex_lock(&l->mu);
  while (l->num_members > 0) weft_cond_wait(&l->emptied, &l->mu); /* woken by weft_local_loop_leave() */
  weft_mutex_unlock(&l->mu);
  stop_threads(l);
  loop_free(l);
}
