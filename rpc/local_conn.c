/* rpc/local_conn.c - connections, and the threads that take their packets.
 *
 * The thread that takes the event of a connection's source is the only one that handles it, so a connection
 * is closed by one thread, and never while another one is about to read from it. That thread awaits the
 * source again as soon as it has taken one packet, and handles the packet then.
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
 * A call that goes another way than a cancellation before it may come before it. So a call says behind how
 * many cancellations of the other way it is (on its own way it is behind all that were sent before), and one
 * that comes before they are handled is held until they are.
 *
 * Locking: a connection's `sending` before all; its `mu`, then the loop's, both leaves for callers. A packet
 * is sent without a lock where none waits: the receiver that it wakes often takes the processor from the
 * sender, and the lock would hold up all that send meanwhile. Packets that wait are sent under the
 * connection's `mu`, which does not wait.
 */
#include "rpc/local_conn.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rpc/local_socket.h"

/* Packets of an ending connection: what a ring can hold. A peer that goes on writing is not listened to. */
enum { MOST_LATE = WEFT_LOCAL_RING_BYTES / 8 };

/* Bytes that wait for a peer that does not read; beyond it the connection ends. */
static const size_t MOST_WAITING = (size_t)1 << 30;

typedef struct waiting_packet {
  struct waiting_packet *next;
  weft_packet_t packet; /* owned: its message, and its text, which lies behind */
  char text[];
} waiting_packet_t;

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

static weft_packet_result_t send_over_socket(weft_local_conn_t *c, const weft_packet_t *p) {
  weft_packet_result_t r = WEFT_PACKET_LATER;
  if (!atomic_load(&c->has_waiting)) r = weft_packet_send(c->in.fd, p);
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

/* The way that the packet has gone is in *out. */
static weft_packet_result_t send_either_way(weft_local_conn_t *c, const weft_packet_t *p,
                                            weft_local_way_t *out) {
  weft_packet_t sent = *p;
  *out = WEFT_LOCAL_RING;
  if (atomic_load(&c->is_broken)) {
    weft_message_destroy(p->message);
    return WEFT_PACKET_OVER;
  }
  sent.behind = atomic_load_explicit(&c->order.sent[WEFT_LOCAL_SOCKET], memory_order_relaxed);
  if (c->rings != NULL && weft_packet_put(c->rings, &sent)) {
    weft_message_destroy(p->message);
    return WEFT_PACKET_DONE;
  }
  *out = WEFT_LOCAL_SOCKET;
  sent.behind = atomic_load_explicit(&c->order.sent[WEFT_LOCAL_RING], memory_order_relaxed);
  return send_over_socket(c, &sent);
}

weft_packet_result_t weft_local_conn_send(weft_local_conn_t *c, const weft_packet_t *p) {
  weft_local_way_t way;
  if (p->kind != WEFT_PACKET_CANCEL) return send_either_way(c, p, &way);
  weft_mutex_lock(&c->order.sending); /* counted in the order in which they go */
  const weft_packet_result_t r = send_either_way(c, p, &way);
  if (r == WEFT_PACKET_DONE) atomic_fetch_add_explicit(&c->order.sent[way], 1, memory_order_relaxed);
  weft_mutex_unlock(&c->order.sending);
  return r;
}

/* ---- calls that come before the cancellations that they are behind ---- */

static weft_local_way_t other_way(weft_local_way_t way) {
  return way == WEFT_LOCAL_RING ? WEFT_LOCAL_SOCKET : WEFT_LOCAL_RING;
}

static bool is_early(weft_local_conn_t *c, weft_local_way_t way, const weft_packet_t *p) {
  return p->kind == WEFT_PACKET_CALL && p->behind > atomic_load(&c->order.handled[other_way(way)]);
}

/* True: the packet is kept, or dropped with its connection. False: it can be handled now. */
static bool hold(weft_local_conn_t *c, weft_local_way_t way, const weft_packet_t *p) {
  weft_local_order_t *o = &c->order;
  waiting_packet_t *w = waiting_new(p);
  const size_t bytes = waiting_size(p);
  weft_mutex_lock(&o->mu);
  const bool waits = is_early(c, way, p),
             is_kept = waits && w != NULL && o->held_bytes <= MOST_WAITING - bytes;
  if (is_kept) {
    w->next = o->held[way];
    o->held[way] = w;
    o->held_bytes += bytes;
  }
  weft_mutex_unlock(&o->mu);
  if (is_kept) return true;
  if (!waits) {
    weft_free(w); /* the packet is the caller's */
    return false;
  }
  weft_message_destroy(p->message);
  weft_status_free(p->failure);
  weft_free(w);
  weft_local_conn_break(c); /* a call that is never answered would be waited for */
  return true;
}

/* A cancellation that came this way is through. Returns the calls that waited for it. */
static waiting_packet_t *count_handled(weft_local_conn_t *c, weft_local_way_t way) {
  weft_local_order_t *o = &c->order;
  waiting_packet_t *released = NULL;
  weft_mutex_lock(&o->mu);
  const uint64_t handled = atomic_fetch_add(&o->handled[way], 1) + 1;
  for (waiting_packet_t **at = &o->held[other_way(way)]; *at != NULL;) {
    waiting_packet_t *w = *at;
    if (w->packet.behind > handled) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    o->held_bytes -= waiting_size(&w->packet);
    w->next = released;
    released = w;
  }
  weft_mutex_unlock(&o->mu);
  return released;
}

static void handle_released(weft_local_conn_t *c, waiting_packet_t *w) {
  for (waiting_packet_t *next; w != NULL; w = next) {
    next = w->next;
    c->ops->packet(c, &w->packet);
    weft_free(w);
  }
}

static void drop_held(weft_local_conn_t *c) {
  for (int way = 0; way < WEFT_LOCAL_WAYS; way++) {
    for (waiting_packet_t *w = c->order.held[way], *next; w != NULL; w = next) {
      next = w->next;
      weft_status_free(w->packet.failure);
      waiting_free(w);
    }
  }
}

/* ---- connections ---- */

/* True: the calling thread has the connection's bell. False: there is none, or another thread has it, or had
 * it and has closed the connection. */
static bool take_bell(weft_local_conn_t *c) {
  weft_mutex_lock(&c->mu);
  const bool is_taken = weft_local_source_take(&c->bell);
  weft_mutex_unlock(&c->mu);
  return is_taken;
}

/* The calling thread has no part in the ring any more. */
static void leave_bell(weft_local_conn_t *c) {
  weft_local_source_leave(&c->bell);
  /* Behind it: what came before found the bell taken, and is for another thread. */
  if (weft_local_rings_has_more(c->rings) || atomic_load(&c->is_ending)) weft_local_rings_wake(c->rings);
}

/* A thread that has the bell closes the connection; where there is none, one that has the socket's source. */
static void close_conn(weft_local_conn_t *c) {
  weft_mutex_lock(&c->mu);
  if (c->bell.slot != NULL) weft_local_loop_remove(c->loop, &c->bell); /* take_bell() looks at its slot */
  weft_mutex_unlock(&c->mu);
  drop_waiting(c);
  c->ops->closed(c);
  weft_local_loop_leave(c->loop, &c->member);
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
 * handled side by side. True: it was such a packet; the calls that waited for it are in *out. */
static bool handle_in_turn(weft_local_conn_t *c, weft_local_way_t way, weft_packet_t *p,
                           waiting_packet_t **out) {
  *out = NULL;
  if (p->kind != WEFT_PACKET_CANCEL) return false;
  c->ops->packet(c, p);
  *out = count_handled(c, way);
  return true;
}

static void handle_beside_others(weft_local_conn_t *c, weft_local_way_t way, weft_packet_t *p) {
  if (!is_early(c, way, p) || !hold(c, way, p)) c->ops->packet(c, p);
}

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
  if (!atomic_load_explicit(&c->expects_more, memory_order_relaxed)) return;
  atomic_store_explicit(&c->expects_more, false, memory_order_relaxed);
  k->result = WEFT_PACKET_LATER;
  if (!weft_local_loop_look(c->loop, look, k)) {
    atomic_store_explicit(&c->expects_more, true, memory_order_relaxed);
    return;
  }
  if (k->has_bell) weft_local_rings_look(c->rings, false);
  k->packet.was_looked_for = k->has_bell;
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
    waiting_packet_t *released = NULL;
    const bool is_done = r == WEFT_PACKET_DONE && handle_in_turn(c, WEFT_LOCAL_RING, &k.packet, &released);
    leave_bell(c);
    k.has_bell = false;
    if (r == WEFT_PACKET_DONE) {
      if (!is_done) handle_beside_others(c, WEFT_LOCAL_RING, &k.packet);
      handle_released(c, released);
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
  waiting_packet_t *released = NULL;
  const bool is_done =
      is_file || (r == WEFT_PACKET_DONE && handle_in_turn(c, WEFT_LOCAL_SOCKET, &p, &released));
  const bool goes_on =
      r != WEFT_PACKET_OVER && !is_wrong && weft_local_loop_again(c->loop, self, WEFT_LOCAL_READ);
  if (r == WEFT_PACKET_DONE && !is_done) handle_beside_others(c, WEFT_LOCAL_SOCKET, &p);
  handle_released(c, released);
  if (!goes_on) end_conn(c, room);
  weft_local_conn_release(c);
}

void weft_local_conn_expect_more(weft_local_conn_t *c) {
  atomic_store_explicit(&c->expects_more, true, memory_order_relaxed);
}

static weft_local_conn_t *conn_of_member(weft_local_member_t *m) {
  return (weft_local_conn_t *)(void *)((char *)m - offsetof(weft_local_conn_t, member));
}
static void retain_member(weft_local_member_t *m) { weft_local_conn_retain(conn_of_member(m)); }
static void release_member(weft_local_member_t *m) { weft_local_conn_release(conn_of_member(m)); }
static bool tick_member(weft_local_member_t *m) {
  weft_local_conn_t *c = conn_of_member(m);
  return c->ops->tick != NULL && c->ops->tick(c);
}
static const weft_local_member_ops_t member_ops = {
    .retain = retain_member, .release = release_member, .tick = tick_member};

weft_status_t *weft_local_conn_open(weft_local_conn_t *c, const weft_local_conn_ops_t *ops,
                                    weft_local_loop_t *loop, int fd, bool is_caller) {
  c->ops = ops;
  c->loop = loop;
  c->in = (weft_local_source_t){.fd = fd, .ready = take_packet};
  c->out = (weft_local_source_t){.fd = -1, .ready = flush};
  c->is_caller = is_caller;
  atomic_init(&c->refs, 2);
  weft_mutex_init(&c->mu);
  weft_mutex_init(&c->order.sending);
  weft_mutex_init(&c->order.mu);
  c->last = &c->first;
  c->member.ops = &member_ops;
  weft_local_loop_enter(loop, &c->member);
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
  drop_held(c);
  weft_mutex_deinit(&c->order.mu);
  weft_mutex_deinit(&c->order.sending);
  weft_mutex_deinit(&c->mu);
  c->ops->destroy(c);
}

void weft_local_conn_break(weft_local_conn_t *c) {
  weft_mutex_lock(&c->mu);
  atomic_store(&c->is_broken, true);
  weft_mutex_unlock(&c->mu);
  weft_local_socket_break(c->in.fd);
}
