/* resources/lock.c - the lock, its line of waiters, and what holds it. */
#include "resources/lock.h"

#include "base/alloc.h"

struct weft_lock {
  weft_object_t object;
  weft_wait_room_t room;
  bool is_held; /* guarded by room.mu */
};

typedef struct lock_hold {
  weft_variant_t variant; /* first */
  weft_lock_t *lock;      /* retained */
} lock_hold_t;

/* What the wait ends with is made before it begins. */
typedef struct lock_waiter {
  weft_room_waiter_t waiter; /* first */
  weft_tensor_t *tensor;     /* owned; of `hold`, which it gets when the lock is there */
  lock_hold_t *hold;         /* owned */
} lock_waiter_t;

static void cancel_waits(weft_object_t *o) { weft_wait_cancel_line(&((weft_lock_t *)o)->room, 0); }

const weft_resource_type_t weft_lock_type = {"N10tensorflow12_GLOBAL__N_15MutexE", "Mutex", cancel_waits};

static void destroy(weft_object_t *o) {
  weft_wait_room_deinit(&((weft_lock_t *)o)->room);
  weft_free(o);
}

weft_status_t *weft_lock_create(weft_object_t **out) {
  weft_lock_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return WEFT_NO_MEMORY("creating a lock");
  atomic_init(&l->object.refs, 1);
  l->object.destroy = destroy;
  weft_wait_room_init(&l->room);
  *out = &l->object;
  return NULL;
}

static void give_back(weft_variant_t *v) {
  weft_lock_t *l = ((lock_hold_t *)v)->lock;
  weft_free(v);
  weft_mutex_lock(&l->room.mu);
  l->is_held = false;
  weft_mutex_unlock(&l->room.mu);
  weft_wait_flush(&l->room);
  weft_object_release(&l->object);
}

const weft_variant_type_t weft_lock_hold_type = {"tensorflow::MutexLock", give_back};

static weft_wait_result_t try_acquire(weft_room_waiter_t *w) {
  weft_lock_t *l = (weft_lock_t *)w->owner;
  if (l->is_held) return WEFT_WAIT_STUCK;
  l->is_held = true;
  return WEFT_WAIT_DONE;
}

static void waiter_free(lock_waiter_t *w) {
  weft_tensor_release(w->tensor);
  weft_free(w->hold);
  weft_free(w);
}

static void finish(weft_room_waiter_t *room_waiter) {
  lock_waiter_t *w = (lock_waiter_t *)room_waiter;
  weft_resource_call_t call = w->waiter.call;
  weft_status_t *s = weft_wait_failure(room_waiter);
  if (s == NULL) {
    weft_object_retain(w->waiter.owner); /* of the hold */
    ((weft_variant_t **)w->tensor->data)[0] = &w->hold->variant;
    call.outputs[0].tensor = w->tensor;
    w->tensor = NULL;
    w->hold = NULL;
  }
  waiter_free(w);
  weft_resource_call_end(&call, s);
}

static weft_status_t *waiter_new(weft_lock_t *l, const weft_resource_call_t *call, lock_waiter_t **out) {
  lock_waiter_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("waiting for a lock");
  w->hold = weft_calloc(1, sizeof *w->hold);
  weft_status_t *s = w->hold == NULL ? WEFT_NO_MEMORY("waiting for a lock")
                                     : weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &w->tensor);
  if (s != NULL) {
    waiter_free(w);
    return s;
  }
  atomic_init(&w->hold->variant.refs, 1);
  w->hold->variant.type = &weft_lock_hold_type;
  w->hold->lock = l;
  w->waiter = (weft_room_waiter_t){.call = *call,
                                   .owner = weft_object_retain(&l->object),
                                   .cancelled = "Lock acquisition cancelled.",
                                   .attempt = try_acquire,
                                   .finish = finish};
  *out = w;
  return NULL;
}

void weft_lock_acquire(weft_lock_t *l, const weft_resource_call_t *call) {
  lock_waiter_t *w = NULL;
  weft_status_t *s = waiter_new(l, call, &w);
  if (s != NULL) weft_resource_call_end(call, s);
  if (s == NULL) weft_wait(&l->room, &w->waiter);
}
