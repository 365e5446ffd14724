/* services/local_transfer.c - receives that end on two threads.
 *
 * A receive is in `expected` from its announcement to its end. The thread that takes it out of the map, under
 * mu, ends it: forget, await, the link's thread, or the canceller. The tensor being filled is also held by
 * the link's thread, so that a receive may be forgotten in the middle of a payload.
 *
 * A tensor for a device's memory is copied there as it comes (device/tensor_intake.h). The receive owns that
 * copy, because the device stays as long as the receive; the link's thread holds the host memory that it
 * fills. The thread calls the device without `mu`, because a device that fails calls back whatever waits for
 * it. Meanwhile the receive is busy: its end is left to the thread.
 *
 * A tensor that is imported is handed out when it has been copied and the link is still there: a sender
 * breaks the link before it lets go of what it has lent, so its bytes were whole then. Until then an import
 * holds the link, also when the receive has ended.
 *
 * Locking: `mu` is a leaf. Callbacks, the canceller and the device are called outside it.
 */
#include "services/local_transfer.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "base/polling.h"
#include "device/peer_memory.h"
#include "device/tensor_intake.h"
#include "rpc/local_link.h"
#include "services/local_transport.h"
#include "services/messages.h"
#include "tensor/tensor_proto.h"

/* A place of the room that is being filled. */
typedef struct filling_place {
  const void *data; /* in the room; NULL: none */
  size_t bytes;
  weft_tensor_head_t head;
} filling_place_t;

typedef struct expected {
  weft_local_transfers_t *owner;
  int64_t id;
  const weft_memory_space_t *space; /* constant */
  weft_tensor_intake_t *intake;     /* on its way to `space`; guarded by mu like all below */
  weft_tensor_t *tensor;            /* whole, once is_here; guarded by mu like all below */
  bool is_here,
      is_lost; /* lost: the peer sent something that is no tensor, or the link broke in the middle */
  bool is_cancelled;
  weft_local_receiver_t *link; /* retained: what the peer may lend the tensor over, or put it into its room */
  filling_place_t place;       /* that is awaited */
  bool may_import;             /* the peer may lend it */
  weft_status_t *failure;      /* owned: of an import's copy */
  bool is_busy;                /* the link's thread uses `intake` */
  bool ends_later;             /* and is to end the receive, which has been taken out of the map */
  weft_recv_fn *fn;            /* set by await */
  void *arg;
  weft_canceller_t *canceller; /* retained; may be NULL */
  uint64_t token;
} expected_t;

struct weft_local_transfers {
  atomic_int refs; /* the owner, and the link's thread */
  weft_str_t task;
  weft_mutex_t mu;
  weft_cond_t rested;          /* a receive is not busy any more */
  weft_map_t expected;         /* id -> expected_t */
  weft_local_receiver_t *link; /* NULL: none */
  bool is_tried;               /* a link was offered, and either is there or could not be made */
  bool cannot_import;          /* the peer's memory */
  weft_polling_t polling;      /* for places that are being filled */
  int num_imports;             /* that are copied now */
  bool closes_later;           /* the last of them closes the link */
  weft_tensor_t *filling;      /* link thread's own */
};

/* Frees one that was taken out of the map. */
static void expected_free(expected_t *x) {
  weft_tensor_t *none = NULL;
  if (x->intake != NULL) weft_status_free(weft_tensor_intake_end(x->intake, false, &none));
  weft_tensor_release(x->tensor);
  if (x->place.data != NULL) (void)weft_local_receiver_give_back(x->link, (uint64_t)x->id, WEFT_LOCAL_DONE);
  weft_local_receiver_release(x->link);
  weft_status_free(x->failure);
  weft_free(x);
}

static void unref(weft_local_transfers_t *t) {
  if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->expected, &at, &e);) expected_free(e.value);
  weft_map_deinit(&t->expected);
  weft_cond_deinit(&t->rested);
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

weft_status_t *weft_local_transfers_create(weft_str_t task, weft_local_transfers_t **out) {
  weft_local_transfers_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("local transfers");
  atomic_init(&t->refs, 1);
  t->task = task;
  weft_mutex_init(&t->mu);
  weft_cond_init(&t->rested);
  *out = t;
  return NULL;
}

void weft_local_transfers_destroy(weft_local_transfers_t *t) {
  if (t == NULL) return;
  weft_mutex_lock(&t->mu);
  weft_local_receiver_t *link = t->num_imports == 0 ? t->link : NULL;
  if (link != NULL) t->link = NULL;
  t->closes_later = link == NULL;
  t->is_tried = true;
  weft_mutex_unlock(&t->mu);
  weft_local_receiver_close(link);
  unref(t);
}

/* Ends a receive that is awaited and was taken out of the map. Unless we are in it, cancel() does not run any
 * more after the first line. */
static void finish(expected_t *x, bool is_in_cancel) {
  if (!is_in_cancel) weft_canceller_deregister(x->canceller, x->token);
  weft_canceller_release(x->canceller);
  weft_status_t *s = NULL;
  if (x->is_cancelled && !x->is_here) {
    s = WEFT_ERROR(CANCELLED, "RecvAsync is cancelled.");
  } else if (!x->is_here && x->failure != NULL) {
    s = x->failure;
    x->failure = NULL;
  } else if (!x->is_here) {
    s = WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s while receiving a tensor",
                   WEFT_STR_ARGS(x->owner->task));
  }
  weft_tensor_t *tensor = s == NULL ? x->tensor : NULL;
  if (s == NULL) x->tensor = NULL;
  weft_recv_fn *fn = x->fn;
  void *arg = x->arg;
  expected_free(x);
  fn(arg, s, tensor, false);
}

/* May the caller end `x`, which it has taken out of the map? Else the link's thread will. */
static bool may_end_locked(weft_local_transfers_t *t, expected_t *x) WEFT_REQUIRES(t->mu) {
  (void)t;
  x->ends_later = x->is_busy;
  return !x->is_busy;
}

static expected_t *take_locked(weft_local_transfers_t *t, int64_t id) WEFT_REQUIRES(t->mu) {
  return weft_map_remove_u64(&t->expected, (uint64_t)id);
}

/* Offers to read the peer's memory, if what wants the tensor can read any. */
static void offer_import(expected_t *x, weft_local_receiver_t *link, uint8_t id[WEFT_DEVICE_ID_BYTES],
                         weft_local_transport_msg_t *m) {
  if (x->space == NULL && weft_local_receiver_peer(link) <= 0) return;
  if (!weft_peer_memory_identify(x->space, id)) return;
  m->device_type = weft_str(x->space == NULL ? WEFT_PEER_HOST : x->space->device->type);
  m->device = weft_str_of((const char *)id, WEFT_DEVICE_ID_BYTES);
  x->may_import = true;
}

weft_status_t *weft_local_transfers_expect(weft_local_transfers_t *t, int64_t id,
                                           const weft_memory_space_t *space, weft_strbuf_t *options) {
  weft_local_transport_msg_t m = {.takes_parts = true, .to_device = space != NULL};
  uint8_t device[WEFT_DEVICE_ID_BYTES];
  weft_status_t *s = NULL;
  weft_mutex_lock(&t->mu);
  bool is_hopeless = t->is_tried && t->link == NULL;
  const bool may_import = !t->cannot_import;
  m.is_filling = weft_polling_may(&t->polling);
  weft_local_receiver_t *link = t->link == NULL ? NULL : weft_local_receiver_retain(t->link);
  weft_mutex_unlock(&t->mu);
  if (!is_hopeless) m.host = weft_local_link_host();
  if (link != NULL) {
    m.link = weft_local_receiver_link(link);
    expected_t *x = weft_calloc(1, sizeof *x);
    if (x == NULL) {
      weft_local_receiver_release(link);
      return WEFT_NO_MEMORY("a receive");
    }
    x->owner = t;
    x->id = id;
    x->space = space;
    x->link = link;
    if (may_import) offer_import(x, link, device, &m);
    weft_mutex_lock(&t->mu);
    s = weft_map_put_u64(&t->expected, (uint64_t)id, x, NULL);
    weft_mutex_unlock(&t->mu);
    if (s != NULL) {
      expected_free(x);
      return s;
    }
  }
  weft_local_transport_to_any(&m, options);
  return NULL;
}

void weft_local_transfers_forget(weft_local_transfers_t *t, int64_t id, bool has_failed) {
  weft_mutex_lock(&t->mu);
  expected_t *x = take_locked(t, id);
  while (x != NULL && x->is_busy) weft_cond_wait(&t->rested, &t->mu); /* woken by rest(); soon */
  weft_mutex_unlock(&t->mu);
  if (x == NULL) return;
  if (has_failed) (void)weft_local_receiver_give_back(x->link, (uint64_t)id, WEFT_LOCAL_DONE);
  expected_free(x);
}

static weft_status_t *no_transfer(weft_local_transfers_t *t) {
  return WEFT_ERROR(INTERNAL, "%.*s sent a tensor to a local link that is none", WEFT_STR_ARGS(t->task));
}

static void cancel(void *arg) {
  expected_t *x = arg; /* lives: finish waits for us */
  weft_local_transfers_t *t = x->owner;
  weft_mutex_lock(&t->mu);
  x->is_cancelled = true;
  bool is_ours = x->fn != NULL && weft_map_get_u64(&t->expected, (uint64_t)x->id) == x;
  if (is_ours) (void)take_locked(t, x->id);
  is_ours = is_ours && may_end_locked(t, x);
  weft_mutex_unlock(&t->mu);
  if (is_ours) finish(x, true);
}

void weft_local_transfers_await(weft_local_transfers_t *t, int64_t id, weft_canceller_t *canceller,
                                weft_recv_fn *fn, void *arg) {
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, (uint64_t)id);
  weft_mutex_unlock(&t->mu);
  if (x == NULL) { /* no such transfer was announced: the peer is faulty */
    fn(arg, no_transfer(t), NULL, false);
    return;
  }
  /* Until fn is set, only the creating thread uses the receive: the link only adds its tensor, cancel only
   * sets a flag.
   */
  x->canceller = weft_canceller_retain(canceller);
  bool is_registered = weft_canceller_register(canceller, cancel, x, &x->token);
  const bool is_cancelled = !is_registered && weft_canceller_is_cancelled(canceller);
  weft_status_t *starved = is_registered || is_cancelled ? NULL : WEFT_NO_MEMORY("receiving a tensor");
  weft_mutex_lock(&t->mu);
  x->fn = fn;
  x->arg = arg;
  if (is_cancelled) x->is_cancelled = true;
  if (starved != NULL && x->failure == NULL) {
    x->failure = starved;
    starved = NULL;
  }
  if (!is_registered && !is_cancelled) x->is_lost = true;
  bool is_over = x->is_here || x->is_lost || x->is_cancelled || t->link == NULL;
  if (is_over) (void)take_locked(t, id);
  is_over = is_over && may_end_locked(t, x);
  weft_mutex_unlock(&t->mu);
  weft_status_free(starved);
  if (is_over) finish(x, false);
}

/* What the peer says of a tensor that lies somewhere else. False: it is no tensor of plain bytes. */
static bool read_head(const weft_local_transport_msg_t *m, weft_tensor_head_t *out) {
  size_t payload_at = 0, total = 0;
  return m->offset >= 0 && m->bytes >= 0 && weft_add_size(m->head.length, (size_t)m->bytes, &total) &&
         weft_tensor_proto_peek(m->head, total, out, &payload_at) && payload_at == m->head.length &&
         weft_dtype_is_plain(out->dtype);
}

/* ---- the room ---- */

static void leave_place(void *data, size_t bytes, void *arg) {
  weft_local_room_t *room = arg;
  (void)bytes;
  weft_local_room_give_back(room, data);
  weft_local_room_release(room);
}

/* The bytes are there. */
static weft_status_t *wrap_place(weft_local_room_t *room, const filling_place_t *p, weft_tensor_t **out) {
  void *data = (void *)(uintptr_t)p->data; /* drops const: the room's bytes are mapped for reading */
  weft_status_t *s = weft_tensor_wrap(p->head.dtype, &p->head.shape, data, p->bytes, leave_place,
                                      weft_local_room_retain(room), out);
  if (s != NULL) leave_place(data, p->bytes, room);
  return s;
}

/* Where the peer says that the tensor is. False: there is no such place. */
static bool find_place(const weft_local_room_t *room, const weft_local_transport_msg_t *m,
                       filling_place_t *out) {
  *out = (filling_place_t){.bytes = (size_t)m->bytes};
  if (room != NULL && read_head(m, &out->head))
    out->data = weft_local_room_at(room, (uint64_t)m->offset, out->bytes);
  return out->data != NULL;
}

typedef struct place_look {
  const weft_local_room_t *room;
  const void *data;
} place_look_t;

static bool look_at_place(void *arg) {
  const place_look_t *k = arg;
  return weft_local_room_is_filled(k->room, k->data);
}

/* False: the place is not filled yet, and the link's thread will hear when it is. */
static bool is_filled_soon(weft_local_transfers_t *t, expected_t *x, weft_local_room_t *room,
                           const filling_place_t *p) {
  place_look_t k = {room, p->data};
  if (look_at_place(&k) || weft_polling_run(&t->polling, look_at_place, &k)) return true;
  weft_mutex_lock(&t->mu);
  x->place = *p;
  weft_mutex_unlock(&t->mu);
  if (!weft_local_room_await(room, p->data)) return false;
  weft_mutex_lock(&t->mu);
  x->place.data = NULL;
  weft_mutex_unlock(&t->mu);
  return true;
}

bool weft_local_transfers_take(weft_local_transfers_t *t, int64_t id, const weft_local_transport_msg_t *m,
                               weft_status_t **out_status, weft_tensor_t **out) {
  filling_place_t place;
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, (uint64_t)id); /* stays until it is awaited */
  weft_mutex_unlock(&t->mu);
  weft_local_room_t *room = x == NULL ? NULL : weft_local_receiver_room(x->link);
  const bool is_there = find_place(room, m, &place);
  if (is_there && m->is_filling && !is_filled_soon(t, x, room, &place)) return false;
  weft_local_room_retain(room);
  weft_mutex_lock(&t->mu);
  (void)take_locked(t, id);
  weft_mutex_unlock(&t->mu);
  if (x != NULL) expected_free(x);
  *out_status = is_there ? wrap_place(room, &place, out) : no_transfer(t);
  weft_local_room_release(room);
  return true;
}

/* On the link's thread. */
static void filled(void *arg, uint64_t transfer) {
  weft_local_transfers_t *t = arg;
  filling_place_t place = {.data = NULL};
  weft_local_room_t *room = NULL;
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, transfer);
  if (x != NULL && x->place.data != NULL) {
    room = weft_local_room_retain(weft_local_receiver_room(x->link));
    if (weft_local_room_is_filled(room, x->place.data)) {
      place = x->place;
      x->place.data = NULL; /* this thread's */
    }
  }
  weft_mutex_unlock(&t->mu);
  weft_tensor_t *tensor = NULL;
  weft_status_t *s = place.data == NULL ? NULL : wrap_place(room, &place, &tensor);
  weft_local_room_release(room);
  if (tensor == NULL && s == NULL) return; /* its receive has ended, or the peer is faulty */
  weft_mutex_lock(&t->mu);
  x = weft_map_get_u64(&t->expected, transfer);
  if (x != NULL) {
    x->is_here = tensor != NULL;
    x->is_lost = tensor == NULL;
    x->tensor = tensor;
    x->failure = s;
  }
  const bool is_awaited = x != NULL && x->fn != NULL;
  if (is_awaited) (void)take_locked(t, (int64_t)transfer);
  weft_mutex_unlock(&t->mu);
  if (x == NULL) {
    weft_tensor_release(tensor);
    weft_status_free(s);
  }
  if (is_awaited) finish(x, false);
}

/* ---- imports ---- */

typedef struct import {
  weft_local_transfers_t *owner; /* retained */
  weft_local_receiver_t *link;   /* retained; the tensor is lent over it */
  int64_t id;
  bool is_to_host;
} import_t;

/* An import reads nothing any more. */
static void import_end(import_t *i) {
  weft_local_transfers_t *t = i->owner;
  weft_local_receiver_t *closes = NULL;
  weft_mutex_lock(&t->mu);
  if (--t->num_imports == 0 && t->closes_later) {
    closes = t->link;
    t->link = NULL;
  }
  weft_mutex_unlock(&t->mu);
  weft_local_receiver_close(closes);
  weft_local_receiver_release(i->link);
  weft_free(i);
  unref(t);
}

/* Gives it back. False: the link is over. */
static bool give_back(const import_t *i, weft_local_end_t how) {
  const bool is_there = weft_local_receiver_give_back(i->link, (uint64_t)i->id, how);
  if (!is_there) weft_peer_memory_forget(weft_local_receiver_link(i->link));
  return is_there;
}

/* The receive is lost, or fails with `status`, which is consumed. Unless it has ended, or ends otherwise. */
static void import_fails(weft_local_transfers_t *t, int64_t id, weft_status_t *status) {
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, (uint64_t)id);
  bool is_mine = x != NULL && !x->is_here && x->intake == NULL && !x->is_busy;
  if (is_mine) {
    x->is_lost = true;
    if (x->failure == NULL) {
      x->failure = status;
      status = NULL;
    }
    is_mine = x->fn != NULL;
  }
  if (is_mine) (void)take_locked(t, id);
  weft_mutex_unlock(&t->mu);
  weft_status_free(status);
  if (is_mine) finish(x, false);
}

static void on_imported(void *arg, weft_status_t *status, weft_tensor_t *tensor) {
  import_t *i = arg;
  weft_local_transfers_t *t = i->owner;
  bool is_lost = false;
  if (i->is_to_host && weft_status_code(status) == WEFT_UNAVAILABLE) { /* the receive says what is lost */
    weft_status_free(status);
    status = NULL;
    is_lost = true;
  }
  const bool is_whole = give_back(i, WEFT_LOCAL_DONE) && status == NULL && !is_lost;
  if (!is_whole) {
    weft_tensor_release(tensor);
    import_fails(t, i->id, status);
    import_end(i);
    return;
  }
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, (uint64_t)i->id);
  bool is_first = x != NULL && !x->is_here && !x->is_lost && x->intake == NULL && !x->is_busy;
  if (is_first) {
    x->is_here = true;
    x->tensor = tensor;
  }
  const bool is_awaited = is_first && x->fn != NULL;
  if (is_awaited) (void)take_locked(t, i->id);
  weft_mutex_unlock(&t->mu);
  if (!is_first) weft_tensor_release(tensor);
  if (is_awaited) finish(x, false);
  import_end(i);
}

/* Where the peer says that the tensor lies. False: it is no tensor of plain bytes. */
static bool read_place(const weft_local_transport_msg_t *m, weft_peer_tensor_t *out) {
  weft_tensor_head_t head;
  if (m->memory.length != WEFT_MEMORY_HANDLE_BYTES || !read_head(m, &head)) return false;
  *out = (weft_peer_tensor_t){.dtype = head.dtype,
                              .shape = head.shape,
                              .handle = (const uint8_t *)m->memory.data,
                              .offset = (uint64_t)m->offset};
  return true;
}

void weft_local_transfers_import(weft_local_transfers_t *t, int64_t id, const weft_local_transport_msg_t *m) {
  weft_peer_tensor_t place;
  import_t *i = weft_calloc(1, sizeof *i);
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, (uint64_t)id); /* stays until it is awaited */
  const bool is_offered = x != NULL && x->may_import;
  if (i != NULL && is_offered) t->num_imports++;
  weft_mutex_unlock(&t->mu);
  if (i == NULL || !is_offered) {
    weft_free(i);
    if (x != NULL) import_fails(t, id, is_offered ? WEFT_NO_MEMORY("receiving a tensor") : NULL);
    if (is_offered) (void)weft_local_receiver_give_back(x->link, (uint64_t)id, WEFT_LOCAL_DONE);
    return;
  }
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  *i = (import_t){
      .owner = t, .link = weft_local_receiver_retain(x->link), .id = id, .is_to_host = x->space == NULL};
  if (!read_place(m, &place)) {
    (void)give_back(i, WEFT_LOCAL_DONE);
    import_fails(t, id, NULL);
    import_end(i);
    return;
  }
  place.pid = weft_local_receiver_peer(i->link);
  weft_status_t *s =
      weft_peer_memory_copy(weft_local_receiver_link(i->link), &place, x->space, on_imported, i);
  if (s == NULL) return;
  weft_status_free(s); /* the bytes come over the link, as they always did */
  weft_mutex_lock(&t->mu);
  t->cannot_import = true;
  weft_mutex_unlock(&t->mu);
  if (!give_back(i, WEFT_LOCAL_UNUSABLE)) import_fails(t, id, NULL);
  import_end(i);
}

/* ---- the link's thread ---- */

/* The receive, if it has a copy that fills what the link's thread fills; busy from now on. */
static expected_t *work_on(weft_local_transfers_t *t, uint64_t transfer) {
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, transfer);
  if (x == NULL || x->intake == NULL || weft_tensor_intake_host(x->intake) != t->filling) x = NULL;
  if (x != NULL) x->is_busy = true;
  weft_mutex_unlock(&t->mu);
  return x;
}

/* True: the receive was taken out of the map meanwhile, and is the caller's to end. */
static bool rest_locked(weft_local_transfers_t *t, expected_t *x) WEFT_REQUIRES(t->mu) {
  x->is_busy = false;
  weft_cond_broadcast(&t->rested);
  return x->ends_later;
}

/* What is to be filled for the receive. */
static weft_status_t *make_place(weft_local_transfers_t *t, uint64_t transfer,
                                 const weft_tensor_head_t *head) {
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, transfer);
  const bool is_for_device = x != NULL && x->space != NULL && x->intake == NULL && !x->is_here &&
                             !x->is_lost && weft_dtype_is_plain(head->dtype);
  if (is_for_device) x->is_busy = true;
  weft_mutex_unlock(&t->mu);
  if (!is_for_device) return weft_tensor_new(head->dtype, &head->shape, NULL, &t->filling);
  weft_tensor_intake_t *intake = NULL;
  weft_status_t *s = weft_tensor_intake_begin(head->dtype, &head->shape, x->space, &intake);
  if (s == NULL) t->filling = weft_tensor_retain(weft_tensor_intake_host(intake));
  weft_mutex_lock(&t->mu);
  x->intake = intake;
  const bool is_mine = rest_locked(t, x);
  weft_mutex_unlock(&t->mu);
  if (is_mine) finish(x, false);
  return s;
}

static void arrive(void *arg, uint64_t transfer, size_t there) {
  weft_local_transfers_t *t = arg;
  expected_t *x = work_on(t, transfer);
  if (x == NULL) return;
  weft_tensor_intake_arrive(x->intake, there);
  weft_mutex_lock(&t->mu);
  const bool is_mine = rest_locked(t, x);
  weft_mutex_unlock(&t->mu);
  if (is_mine) finish(x, false);
}

static void *begin(void *arg, uint64_t transfer, weft_str_t header, size_t bytes) {
  weft_local_transfers_t *t = arg;
  weft_tensor_head_t head;
  size_t payload_at = 0, total;
  weft_mutex_lock(&t->mu);
  bool is_wanted = weft_map_get_u64(&t->expected, transfer) != NULL;
  weft_mutex_unlock(&t->mu);
  bool ok = is_wanted && weft_add_size(header.length, bytes, &total) &&
            weft_tensor_proto_peek(header, total, &head, &payload_at) && payload_at == header.length;
  weft_status_t *s = ok ? make_place(t, transfer, &head) : NULL;
  ok = ok && s == NULL && t->filling->bytes == bytes;
  weft_status_free(s); /* the receive is lost; its own failure says so */
  if (ok) return t->filling->data;
  weft_tensor_release(t->filling);
  t->filling = NULL;
  if (!is_wanted) return NULL;
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, transfer);
  if (x != NULL) x->is_lost = true;
  bool is_awaited = x != NULL && x->fn != NULL;
  if (is_awaited) (void)take_locked(t, (int64_t)transfer);
  weft_mutex_unlock(&t->mu);
  if (is_awaited) finish(x, false);
  return NULL;
}

/* The device's tensor, once all is copied or will be. */
static void end_intake(weft_local_transfers_t *t, expected_t *x, bool is_whole) {
  weft_tensor_t *tensor = NULL;
  weft_status_t *s = weft_tensor_intake_end(x->intake, is_whole, &tensor);
  weft_status_free(s); /* the receive is lost; its own failure says so */
  weft_mutex_lock(&t->mu);
  x->intake = NULL;
  x->tensor = tensor;
  x->is_here = tensor != NULL;
  x->is_lost = tensor == NULL;
  bool is_mine = rest_locked(t, x);
  if (!is_mine && x->fn != NULL && take_locked(t, x->id) == x) is_mine = true;
  weft_mutex_unlock(&t->mu);
  if (is_mine) finish(x, false);
}

static void end(void *arg, uint64_t transfer, bool is_whole) {
  weft_local_transfers_t *t = arg;
  expected_t *at_device = work_on(t, transfer);
  weft_tensor_t *tensor = t->filling;
  t->filling = NULL;
  if (at_device != NULL) {
    weft_tensor_release(tensor); /* the intake's; behind the receive's end its device may go */
    end_intake(t, at_device, is_whole);
    return;
  }
  weft_mutex_lock(&t->mu);
  expected_t *x = weft_map_get_u64(&t->expected, transfer);
  bool is_first = x != NULL && !x->is_here && x->intake == NULL;
  if (is_first) {
    x->is_here = is_whole;
    x->is_lost = !is_whole;
    x->tensor = tensor;
  }
  bool is_awaited = is_first && x->fn != NULL;
  if (is_awaited) (void)take_locked(t, (int64_t)transfer);
  weft_mutex_unlock(&t->mu);
  if (!is_first) weft_tensor_release(tensor);
  if (is_awaited) finish(x, false);
}

/* Takes one receive that is awaited out of the map, or NULL. */
static expected_t *take_awaited_locked(weft_local_transfers_t *t) WEFT_REQUIRES(t->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->expected, &at, &e);) {
    expected_t *x = e.value;
    if (x->fn != NULL) return take_locked(t, x->id);
  }
  return NULL;
}

static void closed(void *arg) {
  weft_local_transfers_t *t = arg;
  weft_mutex_lock(&t->mu);
  weft_local_receiver_t *link = t->link;
  t->link = NULL;                /* a receive that begins to wait now is lost */
  t->is_tried = t->closes_later; /* a peer that was restarted offers a new one */
  t->cannot_import = false;      /* and may have other devices */
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->expected, &at, &e);) {
    expected_t *x = e.value;
    if (!x->is_here) x->is_lost = true; /* also for one that begins to wait when there is a new link */
  }
  weft_mutex_unlock(&t->mu);
  if (link != NULL) weft_peer_memory_forget(weft_local_receiver_link(link));
  weft_local_receiver_close(link);
  for (;;) {
    weft_mutex_lock(&t->mu);
    expected_t *x = take_awaited_locked(t);
    weft_mutex_unlock(&t->mu);
    if (x == NULL) break;
    finish(x, false);
  }
  unref(t);
}

void weft_local_transfers_offer(weft_local_transfers_t *t, weft_str_t name) {
  static const weft_local_receiver_ops_t ops = {
      .begin = begin, .arrive = arrive, .end = end, .filled = filled, .closed = closed};
  weft_mutex_lock(&t->mu);
  bool is_first = !t->is_tried;
  t->is_tried = true;
  weft_mutex_unlock(&t->mu);
  if (!is_first) return;
  weft_local_receiver_t *link = NULL;
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed); /* the link's thread */
  weft_status_t *s = weft_local_receiver_create(name, &ops, t, &link);
  if (s != NULL) {
    weft_status_free(s); /* no link: tensors go with their answers, as between hosts */
    unref(t);
    return;
  }
  weft_mutex_lock(&t->mu);
  t->link = link;
  weft_mutex_unlock(&t->mu);
}
