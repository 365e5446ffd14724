/* rpc/local_loop.c - threads at an epoll descriptor, and the connections whose packets they take.
 *
 * Each source is armed for one event: the thread that takes it is the only one that handles it, so a
 * connection is closed by one thread, and never while another one is about to read from it. That thread arms
 * the source again as soon as it has taken one packet, and handles the packet then.
 *
 * An event names a slot, which says whether the source is awaited. The thread that changes that to false has
 * the source. An event that comes too late for it is of no use, and may be of a source that is gone: slots
 * stay until the loop ends, and are used again.
 *
 * Few threads wait for packets, because each that is awake costs the others time: one for each processor, up
 * to USUAL_THREADS. The rest are in reserve, and wait for a timer. A thread that finds all others busy sets
 * it; where they are still busy RESERVE_AFTER_NS later, some handler takes its time, and one of the reserve
 * waits for packets, too, until there are idle ones again. So no handler keeps the process from hearing its
 * peers.
 *
 * Where packets follow each other closely, waking a thread for each takes longer than handling it. So the
 * thread whose handler says that more is to come takes the source back, and looks for the next packet itself;
 * one thread at a time. Events of the source would wake the others meanwhile: it is disarmed.
 *
 * A packet that finds the socket's buffer full waits in the connection, and all later ones behind it. Then
 * the loop waits for room at a second descriptor of the same socket, so that the two waits do not touch each
 * other.
 *
 * Locking: a connection's `mu`, then the loop's, both leaves for callers; `reserve` is taken by the loop's
 * threads alone, under no other. A packet is sent without a lock where none waits: the receiver that it wakes
 * often takes the processor from the sender, and the lock would hold up all that send meanwhile. Packets that
 * wait are sent under the connection's `mu`, which does not wait.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "rpc/local_loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/polling.h"
#include "rpc/local_socket.h"

enum { LEAST_THREADS = 2, USUAL_THREADS = 4, ALL_THREADS = 8 };
#define RESERVE_AFTER_NS 10000000L

/* Bytes that wait for a peer that does not read; beyond it the connection ends. */
static const size_t MOST_WAITING = (size_t)1 << 30;

typedef struct waiting_packet {
  struct waiting_packet *next;
  weft_packet_t packet; /* owned: its message, and its text, which lies behind */
  char text[];
} waiting_packet_t;

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
  atomic_bool is_polling; /* a thread looks for the next packet of a connection */
  weft_polling_t polling;
  weft_mutex_t mu;
  weft_cond_t emptied;
  weft_local_conn_t *conns; /* guarded by mu, as all below */
  int num_conns;
  weft_local_post_t *first, **last;
  loop_slot_t *slots, *free_slots; /* all, by `next`; those without a source, by `next_free` */
  int num_threads;                 /* constant once created */
  loop_thread_t threads[ALL_THREADS];
};

static bool await_source(weft_local_loop_t *l, weft_local_source_t *s, weft_local_interest_t what, int how) {
  struct epoll_event e = {.events = (what == WEFT_LOCAL_READ ? EPOLLIN : EPOLLOUT) | EPOLLONESHOT,
                          .data.ptr = s->slot};
  loop_slot_t *slot = s->slot;
  atomic_store_explicit(&slot->is_awaited, true, memory_order_release); /* pairs with take_source() */
  if (epoll_ctl(l->epoll, how, s->fd, &e) == 0) return true;
  atomic_store_explicit(&slot->is_awaited, false, memory_order_relaxed);
  return false;
}

/* True: the calling thread has the slot's source, until it awaits it again. */
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

/* All connections, retained; without memory none: this tick is left out. */
static weft_local_conn_t **list_conns(weft_local_loop_t *l, int *out_n) {
  weft_mutex_lock(&l->mu);
  const int most = l->num_conns;
  weft_mutex_unlock(&l->mu);
  weft_local_conn_t **list = weft_calloc((size_t)most + 1, sizeof *list);
  int n = 0;
  weft_mutex_lock(&l->mu);
  for (weft_local_conn_t *c = l->conns; list != NULL && c != NULL && n < most; c = c->next)
    list[n++] = weft_local_conn_retain(c);
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
  atomic_store(&l->is_ticking, false); /* before the connections are asked: what begins now ticks again */
  weft_local_conn_t **list = list_conns(l, &n);
  bool again = list == NULL;
  for (int i = 0; i < n; i++) {
    if (list[i]->ops->tick != NULL && list[i]->ops->tick(list[i])) again = true;
    weft_local_conn_release(list[i]);
  }
  weft_free(list);
  if (again) weft_local_loop_tick(l);
}

/* ---- connections of the loop ---- */

static void enter(weft_local_loop_t *l, weft_local_conn_t *c) {
  weft_mutex_lock(&l->mu);
  c->prev = NULL;
  c->next = l->conns;
  if (c->next != NULL) c->next->prev = c;
  l->conns = c;
  l->num_conns++;
  weft_mutex_unlock(&l->mu);
}

static void leave(weft_local_loop_t *l, weft_local_conn_t *c) {
  weft_mutex_lock(&l->mu);
  if (c->prev != NULL) c->prev->next = c->next;
  if (c->prev == NULL) l->conns = c->next;
  if (c->next != NULL) c->next->prev = c->prev;
  l->num_conns--;
  if (l->num_conns == 0) weft_cond_broadcast(&l->emptied);
  weft_mutex_unlock(&l->mu);
}

/* ---- sending ---- */

static void waiting_free(waiting_packet_t *w) {
  weft_message_destroy(w->packet.message);
  weft_free(w);
}

static size_t waiting_size(const weft_packet_t *p) {
  return sizeof(waiting_packet_t) + (p->message == NULL ? 0 : weft_message_bytes(p->message));
}

static void drop_waiting(weft_local_conn_t *c) {
  weft_mutex_lock(&c->mu);
  waiting_packet_t *w = c->first;
  c->first = NULL;
  c->last = &c->first;
  c->waiting_bytes = 0;
  atomic_store(&c->has_waiting, false);
  weft_mutex_unlock(&c->mu);
  for (waiting_packet_t *next; w != NULL; w = next) {
    next = w->next;
    waiting_free(w);
  }
}

/* Sends what there is room for. Returns what was sent, to be freed. */
static waiting_packet_t *send_waiting_locked(weft_local_conn_t *c, weft_packet_result_t *out) {
  waiting_packet_t *sent = NULL;
  *out = WEFT_PACKET_DONE;
  while (c->first != NULL && !atomic_load(&c->is_broken)) {
    waiting_packet_t *w = c->first;
    *out = weft_packet_send(c->in.fd, &w->packet);
    if (*out != WEFT_PACKET_DONE) break;
    c->first = w->next;
    if (c->first == NULL) c->last = &c->first;
    c->waiting_bytes -= waiting_size(&w->packet);
    w->next = sent;
    sent = w;
  }
  atomic_store(&c->has_waiting, c->first != NULL); /* behind the send: a later packet does not overtake */
  return sent;
}

static weft_local_conn_t *conn_of_out(weft_local_source_t *out) {
  return (weft_local_conn_t *)(void *)((char *)out - offsetof(weft_local_conn_t, out));
}

/* There is room, or the connection is over. Has the reference of whatever began to wait. */
static void flush(weft_local_source_t *self, weft_packet_room_t *room) {
  weft_local_conn_t *c = conn_of_out(self);
  weft_packet_result_t r;
  (void)room;
  weft_mutex_lock(&c->mu);
  waiting_packet_t *sent = send_waiting_locked(c, &r);
  bool goes_on = c->first != NULL && !atomic_load(&c->is_broken) && r == WEFT_PACKET_LATER;
  const bool is_stuck = c->first != NULL && !goes_on;
  if (!goes_on) weft_local_loop_remove(c->loop, self);
  if (goes_on) goes_on = weft_local_loop_again(c->loop, self, WEFT_LOCAL_WRITE);
  if (!goes_on) {
    close(self->fd);
    self->fd = -1;
  }
  weft_mutex_unlock(&c->mu);
  for (waiting_packet_t *next; sent != NULL; sent = next) {
    next = sent->next;
    waiting_free(sent);
  }
  if (is_stuck) weft_local_conn_break(c);
  if (!goes_on) weft_local_conn_release(c);
}

/* False: without memory or descriptors, or more waits than may. */
static bool wait_locked(weft_local_conn_t *c, waiting_packet_t *w) WEFT_REQUIRES(c->mu) {
  const size_t bytes = waiting_size(&w->packet);
  if (c->waiting_bytes > MOST_WAITING - bytes) return false;
  if (c->out.fd < 0) {
    c->out.fd = dup(c->in.fd);
    if (c->out.fd < 0) return false;
    weft_local_conn_retain(c); /* for flush() */
    if (!weft_local_loop_add(c->loop, &c->out, WEFT_LOCAL_WRITE)) {
      close(c->out.fd);
      c->out.fd = -1;
      atomic_fetch_sub_explicit(&c->refs, 1, memory_order_relaxed); /* the caller has another */
      return false;
    }
  }
  *c->last = w;
  c->last = &w->next;
  atomic_store(&c->has_waiting, true);
  c->waiting_bytes += bytes;
  return true;
}

static waiting_packet_t *waiting_new(const weft_packet_t *p) {
  waiting_packet_t *w = weft_malloc(sizeof *w + p->text.length);
  if (w == NULL) return NULL;
  w->next = NULL;
  w->packet = *p;
  if (p->text.length > 0) memcpy(w->text, p->text.data, p->text.length);
  w->packet.text = weft_str_of(w->text, p->text.length);
  return w;
}

weft_packet_result_t weft_local_conn_send(weft_local_conn_t *c, const weft_packet_t *p) {
  weft_packet_result_t r = WEFT_PACKET_LATER;
  if (atomic_load(&c->is_broken)) {
    r = WEFT_PACKET_OVER;
  } else if (!atomic_load(&c->has_waiting)) {
    r = weft_packet_send(c->in.fd, p);
  }
  if (r != WEFT_PACKET_LATER) {
    weft_message_destroy(p->message);
    return r;
  }
  waiting_packet_t *w = waiting_new(p);
  bool waits = false;
  weft_mutex_lock(&c->mu);
  if (atomic_load(&c->is_broken)) {
    r = WEFT_PACKET_OVER;
  } else if (w != NULL) {
    waits = wait_locked(c, w);
  }
  weft_mutex_unlock(&c->mu);
  if (waits) return WEFT_PACKET_DONE;
  if (w != NULL) {
    waiting_free(w);
  } else {
    weft_message_destroy(p->message);
  }
  return r == WEFT_PACKET_OVER ? r : WEFT_PACKET_NO_MEMORY;
}

/* ---- connections ---- */

/* A thread that has the connection's source closes it. */
static void close_conn(weft_local_conn_t *c) {
  weft_mutex_lock(&c->mu);
  weft_local_loop_remove(c->loop, &c->in); /* under `mu`: take_back() looks at its slot */
  weft_mutex_unlock(&c->mu);
  weft_local_conn_break(c);
  drop_waiting(c);
  c->ops->closed(c);
  leave(c->loop, c);
  weft_local_conn_release(c); /* the loop's */
}

typedef struct packet_look {
  weft_local_conn_t *conn;
  weft_packet_room_t *room;
  bool has_source;
  weft_packet_result_t result;
  weft_packet_t packet;
} packet_look_t;

/* True: the calling thread has the connection's source, which is disarmed. False: another thread has it, or
 * had it and has closed the connection. */
static bool take_back(weft_local_conn_t *c) {
  weft_mutex_lock(&c->mu);
  loop_slot_t *slot = c->in.slot;
  const bool is_taken = slot != NULL && take_source(slot);
  weft_mutex_unlock(&c->mu);
  struct epoll_event none = {.events = 0, .data.ptr = slot};
  if (is_taken) (void)epoll_ctl(c->loop->epoll, EPOLL_CTL_MOD, c->in.fd, &none);
  return is_taken;
}

/* Looks once. True: there is something, or the source is not to be had. */
static bool look(void *arg) {
  packet_look_t *k = arg;
  weft_local_source_t *s = &k->conn->in;
  if (!k->has_source) k->has_source = take_back(k->conn);
  if (!k->has_source) return true;
  k->result = weft_packet_recv(s->fd, k->room, &k->packet);
  return k->result != WEFT_PACKET_LATER;
}

/* Looks for the next packet for a moment, if it is expected soon. */
static void look_for_more(packet_look_t *k) {
  weft_local_loop_t *l = k->conn->loop;
  k->has_source = false;
  if (!atomic_load_explicit(&k->conn->expects_more, memory_order_relaxed)) return;
  if (atomic_exchange(&l->is_polling, true)) return;
  atomic_store_explicit(&k->conn->expects_more, false, memory_order_relaxed);
  (void)weft_polling_run(&l->polling, look, k);
  atomic_store(&l->is_polling, false);
}

static void take_packet(weft_local_source_t *self, weft_packet_room_t *room) {
  weft_local_conn_t *c = (weft_local_conn_t *)(void *)((char *)self - offsetof(weft_local_conn_t, in));
  packet_look_t k = {.conn = c, .room = room, .has_source = true};
  weft_local_conn_retain(c); /* once it is awaited again, another thread may close it */
  k.result = weft_packet_recv(self->fd, room, &k.packet);
  while (k.has_source) {
    const bool goes_on =
        k.result != WEFT_PACKET_OVER && weft_local_loop_again(c->loop, self, WEFT_LOCAL_READ);
    if (k.result == WEFT_PACKET_DONE) c->ops->packet(c, &k.packet);
    if (!goes_on) close_conn(c);
    k.has_source = false;
    if (goes_on && k.result == WEFT_PACKET_DONE) look_for_more(&k);
    k.packet.was_looked_for = k.has_source;
  }
  weft_local_conn_release(c);
}

void weft_local_conn_expect_more(weft_local_conn_t *c) {
  atomic_store_explicit(&c->expects_more, true, memory_order_relaxed);
}

weft_status_t *weft_local_conn_open(weft_local_conn_t *c, const weft_local_conn_ops_t *ops,
                                    weft_local_loop_t *loop, int fd) {
  c->ops = ops;
  c->loop = loop;
  c->in = (weft_local_source_t){.fd = fd, .ready = take_packet};
  c->out = (weft_local_source_t){.fd = -1, .ready = flush};
  atomic_init(&c->refs, 2);
  weft_mutex_init(&c->mu);
  c->last = &c->first;
  enter(loop, c);
  if (weft_local_loop_add(loop, &c->in, WEFT_LOCAL_READ)) return NULL;
  weft_status_t *s = WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot wait for a local connection: %d", errno);
  leave(loop, c);
  weft_local_conn_release(c);
  weft_local_conn_release(c);
  return s;
}

weft_local_conn_t *weft_local_conn_retain(weft_local_conn_t *c) {
  atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
  return c;
}

void weft_local_conn_release(weft_local_conn_t *c) {
  if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  close(c->in.fd);
  weft_mutex_deinit(&c->mu);
  c->ops->destroy(c);
}

void weft_local_conn_break(weft_local_conn_t *c) {
  weft_mutex_lock(&c->mu);
  atomic_store(&c->is_broken, true);
  weft_mutex_unlock(&c->mu);
  weft_local_socket_break(c->in.fd);
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
  while (l->num_conns > 0) weft_cond_wait(&l->emptied, &l->mu); /* woken by leave() */
  weft_mutex_unlock(&l->mu);
  stop_threads(l);
  loop_free(l);
}
