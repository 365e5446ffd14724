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
 * A connection has two sources: the socket, and the bell of its ring (rpc/local_ring.h), through which nearly
 * all packets come. The bell needs no arming: an event that finds a thread at the ring is of no use, and that
 * thread asks whether there is more when it leaves the ring, which is before it handles the packet, unless
 * that cancels a call. If there is, it rings the bell for another thread.
 *
 * The end of a connection is seen at the socket. What the other end put into the ring before is handled
 * first: the thread that has the bell closes the connection when the ring is empty.
 *
 * Where packets follow each other closely, waking a thread for each takes longer than handling it. So the
 * thread whose handler says that more is to come takes the bell back, and looks for the next packet itself;
 * one thread at a time. The other end does not ring meanwhile.
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

/* Packets of an ending connection: what a ring can hold. A peer that goes on writing is not listened to. */
enum { MOST_LATE = WEFT_LOCAL_RING_BYTES / 8 };

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
  } else if (c->rings != NULL && weft_packet_put(c->rings, p)) {
    r = WEFT_PACKET_DONE;
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

/* True: the calling thread has the connection's bell. False: there is none, or another thread has it, or had
 * it and has closed the connection. */
static bool take_bell(weft_local_conn_t *c) {
  weft_mutex_lock(&c->mu);
  const bool is_taken = c->bell.slot != NULL && take_source(c->bell.slot);
  weft_mutex_unlock(&c->mu);
  return is_taken;
}

/* The calling thread has no part in the ring any more. */
static void leave_bell(weft_local_conn_t *c) {
  atomic_store(&c->bell.slot->is_awaited, true);
  /* Behind the store: what came before found the bell taken, and is for another thread. */
  if (weft_local_rings_has_more(c->rings) || atomic_load(&c->is_ending)) weft_local_rings_wake(c->rings);
}

/* A thread that has the bell closes the connection; where there is none, one that has the socket's source. */
static void close_conn(weft_local_conn_t *c) {
  weft_mutex_lock(&c->mu);
  if (c->bell.slot != NULL) weft_local_loop_remove(c->loop, &c->bell); /* take_bell() looks at its slot */
  weft_mutex_unlock(&c->mu);
  drop_waiting(c);
  c->ops->closed(c);
  leave(c->loop, c);
  weft_local_conn_release(c); /* the loop's */
}

typedef struct packet_look {
  weft_local_conn_t *conn;
  weft_packet_room_t *room;
  bool has_bell;
  weft_packet_result_t result;
  weft_packet_t packet;
} packet_look_t;

/* A canceller's callbacks are through before the packets behind it are taken: a call that the other end makes
 * after it has cancelled another one finds that one cancelled. They do not wait. All other packets are
 * handled side by side. */
static bool is_handled_in_turn(const weft_packet_t *p) { return p->kind == WEFT_PACKET_CANCEL; }

/* Looks once. True: there is something, or the bell is not to be had, or the connection ends. */
static bool look(void *arg) {
  packet_look_t *k = arg;
  weft_local_conn_t *c = k->conn;
  if (!k->has_bell) {
    k->has_bell = take_bell(c);
    if (!k->has_bell) return true;
    weft_local_rings_look(c->rings, true);
  }
  k->result = weft_packet_take(c->rings, k->room, &k->packet);
  return k->result != WEFT_PACKET_LATER || atomic_load(&c->is_ending);
}

/* Looks for the next packet for a moment, if it is expected soon. */
static void look_for_more(packet_look_t *k) {
  weft_local_conn_t *c = k->conn;
  weft_local_loop_t *l = c->loop;
  if (!atomic_load_explicit(&c->expects_more, memory_order_relaxed)) return;
  if (atomic_exchange(&l->is_polling, true)) return;
  atomic_store_explicit(&c->expects_more, false, memory_order_relaxed);
  k->result = WEFT_PACKET_LATER;
  (void)weft_polling_run(&l->polling, look, k);
  if (k->has_bell) weft_local_rings_look(c->rings, false);
  k->packet.was_looked_for = k->has_bell;
  atomic_store(&l->is_polling, false);
}

static void drop_packet(packet_look_t *k) {
  if (k->result != WEFT_PACKET_DONE) return;
  weft_message_destroy(k->packet.message);
  weft_status_free(k->packet.failure);
}

/* The calling thread has the bell. Takes a packet, leaves the bell, and handles the packet; and so on while
 * more is expected, or the connection ends. */
static void read_ring(weft_local_conn_t *c, weft_packet_room_t *room) {
  packet_look_t k = {.conn = c, .room = room, .has_bell = true};
  k.result = weft_packet_take(c->rings, room, &k.packet);
  while (k.has_bell) {
    const weft_packet_result_t r = k.result;
    if (atomic_load(&c->is_ending) && (r != WEFT_PACKET_DONE || c->num_late++ == MOST_LATE)) {
      drop_packet(&k);
      close_conn(c);
      return;
    }
    const bool in_turn = r == WEFT_PACKET_DONE && is_handled_in_turn(&k.packet);
    if (in_turn) c->ops->packet(c, &k.packet);
    leave_bell(c);
    k.has_bell = false;
    if (r == WEFT_PACKET_DONE) {
      if (!in_turn) c->ops->packet(c, &k.packet);
      look_for_more(&k);
    } else if (r == WEFT_PACKET_OVER) {
      weft_local_conn_break(c);
    }
    if (k.has_bell || !atomic_load(&c->is_ending)) continue;
    k.has_bell = take_bell(c); /* also where the other end has kept the bell from being heard */
    if (k.has_bell) k.result = weft_packet_take(c->rings, room, &k.packet);
  }
}

static void bell_rang(weft_local_source_t *self, weft_packet_room_t *room) {
  weft_local_conn_t *c = (weft_local_conn_t *)(void *)((char *)self - offsetof(weft_local_conn_t, bell));
  weft_local_conn_retain(c); /* once the bell is left, another thread may close the connection */
  read_ring(c, room);
  weft_local_conn_release(c);
}

/* The connection has these rings from now on, which it owns; NULL: none. */
static void read_rings(weft_local_conn_t *c, weft_local_rings_t *rings) {
  if (rings == NULL) return;
  c->rings = rings;
  c->bell = (weft_local_source_t){.fd = weft_local_rings_bell(rings), .ready = bell_rang};
  if (weft_local_loop_add(c->loop, &c->bell, WEFT_LOCAL_BELL)) {
    weft_local_rings_look(rings, false);
    return;
  }
  c->rings = NULL; /* the other end finds them unread, and its packets go over the socket */
  weft_local_rings_destroy(rings);
}

/* Those of rings that are not complete. */
static void close_files(weft_local_conn_t *c) {
  for (int i = 0; i < c->num_files && c->num_files < WEFT_LOCAL_RING_FILES; i++) close(c->files[i]);
}

/* A caller's rings come before its other packets. Without memory for them, packets go over the socket. False:
 * it does not say what a caller says. */
static bool take_file(weft_local_conn_t *c, const weft_packet_t *p) {
  if (c->is_caller || (int)p->code != c->num_files || c->num_files == WEFT_LOCAL_RING_FILES) {
    close(p->file);
    return false;
  }
  c->files[c->num_files++] = p->file;
  if (c->num_files == WEFT_LOCAL_RING_FILES) read_rings(c, weft_local_rings_open(c->files));
  return true;
}

/* The calling thread has the socket's source. */
static void end_conn(weft_local_conn_t *c, weft_packet_room_t *room) {
  const bool has_bell = c->bell.slot != NULL;
  weft_local_loop_remove(c->loop, &c->in);
  weft_local_conn_break(c);
  atomic_store(&c->is_ending, true);
  if (!has_bell) {
    close_conn(c);
  } else if (take_bell(c)) { /* else the thread that has it sees that the connection ends */
    read_ring(c, room);
  }
}

static void take_packet(weft_local_source_t *self, weft_packet_room_t *room) {
  weft_local_conn_t *c = (weft_local_conn_t *)(void *)((char *)self - offsetof(weft_local_conn_t, in));
  weft_packet_t p;
  weft_local_conn_retain(c); /* once it is awaited again, another thread may close it */
  const weft_packet_result_t r = weft_packet_recv(self->fd, room, &p);
  const bool is_file = r == WEFT_PACKET_DONE && p.kind == WEFT_PACKET_FILE;
  const bool is_wrong = is_file && !take_file(c, &p);
  if (r == WEFT_PACKET_DONE && !is_file && c->num_files < WEFT_LOCAL_RING_FILES) {
    close_files(c); /* it offers no rings, or not all of them */
    c->num_files = WEFT_LOCAL_RING_FILES;
  }
  const bool in_turn = r == WEFT_PACKET_DONE && is_handled_in_turn(&p);
  if (in_turn) c->ops->packet(c, &p);
  const bool goes_on =
      r != WEFT_PACKET_OVER && !is_wrong && weft_local_loop_again(c->loop, self, WEFT_LOCAL_READ);
  if (r == WEFT_PACKET_DONE && !is_file && !in_turn) c->ops->packet(c, &p);
  if (!goes_on) end_conn(c, room);
  weft_local_conn_release(c);
}

void weft_local_conn_expect_more(weft_local_conn_t *c) {
  atomic_store_explicit(&c->expects_more, true, memory_order_relaxed);
}

weft_status_t *weft_local_conn_open(weft_local_conn_t *c, const weft_local_conn_ops_t *ops,
                                    weft_local_loop_t *loop, int fd, bool is_caller) {
  c->ops = ops;
  c->loop = loop;
  c->in = (weft_local_source_t){.fd = fd, .ready = take_packet};
  c->out = (weft_local_source_t){.fd = -1, .ready = flush};
  c->is_caller = is_caller;
  atomic_init(&c->refs, 2);
  weft_mutex_init(&c->mu);
  c->last = &c->first;
  enter(loop, c);
  if (is_caller) read_rings(c, weft_packet_offer_rings(fd));
  const bool has_bell = c->bell.slot != NULL;
  if (weft_local_loop_add(loop, &c->in, WEFT_LOCAL_READ)) return NULL;
  weft_status_t *s = WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot wait for a local connection: %d", errno);
  atomic_store(&c->is_ending, true);
  if (!has_bell || take_bell(c)) close_conn(c);
  weft_local_conn_release(c);
  return s;
}

weft_local_conn_t *weft_local_conn_retain(weft_local_conn_t *c) {
  atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
  return c;
}

void weft_local_conn_release(weft_local_conn_t *c) {
  if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  close_files(c);
  weft_local_rings_destroy(c->rings);
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
