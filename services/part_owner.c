/* services/part_owner.c - kept tensors by the ids of their requests.
 *
 * A kept tensor is held by the map, by each call for one of its parts until that is answered, and by the
 * transport until an answer's bytes are sent.
 *
 * Locking: `mu` is a leaf. Streams, calls and the timer are used outside it.
 */
#include "services/part_owner.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "base/timer.h"
#include "device/tensor_stream.h"
#include "protos/wire.h"
#include "services/messages.h"

typedef struct kept {
  atomic_int refs;
  uint64_t id;
  weft_tensor_t *tensor;        /* retained */
  weft_tensor_stream_t *stream; /* owned: its copy to the host's memory; NULL: it lies there */
  size_t left;                  /* bytes that were not asked for; guarded by the owner's mu, as the rest */
  int64_t used_ns;              /* when a part was asked for */
  struct kept *next;            /* of those that are dropped together */
} kept_t;

struct weft_part_owner {
  int64_t idle_ns;
  weft_timer_t *timer; /* owned */
  weft_mutex_t mu;
  weft_map_t kept;  /* id -> kept_t, one reference each */
  bool is_sweeping; /* sweep() will be called */
};

static void kept_unref(void *arg) {
  kept_t *k = arg;
  if (atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) != 1) return;
  if (k->stream != NULL) weft_tensor_stream_release(k->stream);
  weft_tensor_release(k->tensor);
  weft_free(k);
}

static void sweep(void *arg);

/* Sees to it that tensors which no peer fetches are dropped. */
static weft_status_t *begin_sweeping(weft_part_owner_t *o) {
  uint64_t id;
  weft_status_t *s = weft_timer_add(o->timer, weft_clock_ns() + o->idle_ns / 2, sweep, o, &id);
  if (s == NULL) return NULL;
  weft_mutex_lock(&o->mu);
  o->is_sweeping = false; /* the next tensor tries again */
  weft_mutex_unlock(&o->mu);
  return s;
}

static void sweep(void *arg) {
  weft_part_owner_t *o = arg;
  const int64_t before = weft_clock_ns() - o->idle_ns;
  kept_t *dropped = NULL;
  weft_map_entry_t e;
  weft_mutex_lock(&o->mu);
  for (size_t at = 0; weft_map_next(&o->kept, &at, &e);) {
    kept_t *k = e.value;
    if (k->used_ns > before) continue;
    (void)weft_map_remove_u64(&o->kept, k->id);
    k->next = dropped;
    dropped = k;
  }
  const bool goes_on = o->is_sweeping = o->kept.count > 0;
  weft_mutex_unlock(&o->mu);
  while (dropped != NULL) {
    kept_t *k = dropped;
    dropped = k->next;
    kept_unref(k);
  }
  if (goes_on) weft_status_free(begin_sweeping(o));
}

weft_status_t *weft_part_owner_create(int idle_ms, weft_part_owner_t **out) {
  weft_part_owner_t *o = weft_calloc(1, sizeof *o);
  if (o == NULL) return WEFT_NO_MEMORY("the tensors that are fetched in parts");
  weft_status_t *s = weft_timer_create(&o->timer);
  if (s != NULL) {
    weft_free(o);
    return s;
  }
  o->idle_ns = (int64_t)idle_ms * 1000000;
  weft_mutex_init(&o->mu);
  *out = o;
  return NULL;
}

void weft_part_owner_destroy(weft_part_owner_t *o) {
  if (o == NULL) return;
  weft_timer_destroy(o->timer);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&o->kept, &at, &e);) kept_unref(e.value);
  weft_map_deinit(&o->kept);
  weft_mutex_deinit(&o->mu);
  weft_free(o);
}

static weft_status_t *put(weft_part_owner_t *o, kept_t *k, bool *out_begins) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&o->mu);
  if (weft_map_get_u64(&o->kept, k->id) != NULL) {
    s = WEFT_ERROR(ALREADY_EXISTS, "a tensor is kept under %" PRIu64 " already", k->id);
  } else {
    s = weft_map_put_u64(&o->kept, k->id, k, NULL);
  }
  *out_begins = s == NULL && !o->is_sweeping;
  if (*out_begins) o->is_sweeping = true;
  weft_mutex_unlock(&o->mu);
  return s;
}

/* Takes it out of the map, if it is there. */
static void drop(weft_part_owner_t *o, uint64_t id) {
  weft_mutex_lock(&o->mu);
  kept_t *k = weft_map_remove_u64(&o->kept, id);
  weft_mutex_unlock(&o->mu);
  if (k != NULL) kept_unref(k);
}

weft_status_t *weft_part_owner_keep(weft_part_owner_t *o, uint64_t id, weft_tensor_t *tensor) {
  kept_t *k = weft_calloc(1, sizeof *k);
  if (k == NULL) return WEFT_NO_MEMORY("sending a tensor of %zu bytes", tensor->bytes);
  atomic_init(&k->refs, 1);
  k->id = id;
  k->tensor = weft_tensor_retain(tensor);
  k->left = tensor->bytes;
  k->used_ns = weft_clock_ns();
  bool begins = false;
  weft_status_t *s = tensor->space == NULL ? NULL : weft_tensor_stream_begin(tensor, &k->stream);
  if (s == NULL) s = put(o, k, &begins);
  if (s != NULL) {
    kept_unref(k);
    return s;
  }
  s = begins ? begin_sweeping(o) : NULL;
  if (s != NULL) drop(o, id);
  return s;
}

/* A call for a part. */
typedef struct asked {
  weft_stream_waiter_t waiter;
  weft_part_owner_t *owner;
  kept_t *kept; /* one reference */
  weft_served_t *call;
} asked_t;

static weft_status_t *part_message(kept_t *k, size_t offset, size_t bytes, weft_message_t **out) {
  const void *data = k->stream == NULL ? k->tensor->data : weft_tensor_stream_data(k->stream);
  weft_strbuf_t head = WEFT_STRBUF_INIT;
  weft_message_t *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_message_create(&m));
  weft_wire_add_header(&head, 1, bytes);
  weft_status_t *s = weft_message_take(m, &head);
  if (s == NULL) {
    atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
    s = weft_message_share(m, (const char *)data + offset, bytes, kept_unref, k);
  }
  if (s != NULL) {
    weft_message_destroy(m);
    return s;
  }
  *out = m;
  return NULL;
}

/* The part is there, or will never be. The call's memory, with `a`, goes with the answer. */
static void answer(void *arg, weft_status_t *status) {
  asked_t *a = arg;
  weft_served_t *call = a->call;
  kept_t *k = a->kept;
  const weft_recv_tensor_part_request_msg_t *m = call->request;
  weft_message_t *part = NULL;
  if (status == NULL) status = part_message(k, (size_t)m->offset, (size_t)m->bytes, &part);
  /* Nothing more is fetched of a tensor that cannot be copied, or by a peer that has gone. */
  if (status != NULL || weft_canceller_is_cancelled(weft_served_canceller(call))) drop(a->owner, k->id);
  if (status != NULL) {
    weft_served_fail(call, status);
  } else {
    weft_served_reply_message(call, part);
  }
  kept_unref(k);
}

/* Finds the tensor and notes that the part is fetched; with the last one the map lets go of it. */
static weft_status_t *find(weft_part_owner_t *o, const weft_recv_tensor_part_request_msg_t *m, kept_t **out) {
  weft_status_t *s = NULL;
  bool is_over = false;
  weft_mutex_lock(&o->mu);
  kept_t *k = weft_map_get_u64(&o->kept, m->request_id);
  if (k == NULL) {
    s = WEFT_ERROR(ABORTED, "the tensor of request %" PRIu64 " is not kept here, or not any more",
                   m->request_id);
  } else if (m->offset < 0 || m->bytes < 0 || (uint64_t)m->offset > k->tensor->bytes ||
             (uint64_t)m->bytes > k->tensor->bytes - (uint64_t)m->offset) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "a tensor of %zu bytes has no %" PRId64 " bytes from %" PRId64 " on",
                   k->tensor->bytes, m->bytes, m->offset);
  } else {
    atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
    k->used_ns = weft_clock_ns();
    k->left -= (size_t)m->bytes < k->left ? (size_t)m->bytes : k->left;
    is_over = m->bytes == 0 || k->left == 0;
    if (is_over) (void)weft_map_remove_u64(&o->kept, k->id);
  }
  weft_mutex_unlock(&o->mu);
  if (is_over) kept_unref(k); /* the map's; *out has one of its own */
  *out = k;
  return s;
}

void weft_part_owner_serve(weft_part_owner_t *o, weft_served_t *s) {
  const weft_recv_tensor_part_request_msg_t *m = s->request;
  kept_t *k = NULL;
  asked_t *a = weft_arena_calloc(&s->arena, 1, sizeof *a);
  weft_status_t *status = a == NULL ? WEFT_NO_MEMORY("a RecvTensorPart") : find(o, m, &k);
  if (status != NULL || m->bytes == 0) {
    weft_served_done(s, status);
    if (status == NULL) kept_unref(k);
    return;
  }
  a->owner = o;
  a->kept = k;
  a->call = s;
  if (k->stream == NULL) {
    answer(a, NULL);
  } else {
    weft_tensor_stream_then(k->stream, (size_t)(m->offset + m->bytes), &a->waiter, answer, a);
  }
}
