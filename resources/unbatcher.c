/* resources/unbatcher.c - tensors by key, and the waits for them.
 *
 * Locking: room.mu guards the tensors; it is a leaf.
 */
#include "resources/unbatcher.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "resources/batcher.h"

typedef struct left {
  weft_tensor_t *tensor;
  int64_t until_ns; /* of weft_clock_ns(): when it is dropped */
} left_t;

struct weft_unbatcher {
  weft_object_t object; /* first */
  weft_wait_room_t room;
  weft_map_t left; /* guarded by room.mu; key -> left_t */
};

/* What a wait is for: the tensors of all keys, which are joined. */
typedef struct unbatch_wait {
  weft_room_waiter_t waiter; /* first; waiter.owner is the unbatcher */
  weft_status_t *outcome;
  int n;
  weft_tensor_t **tensors; /* n of them, once they are there */
  int64_t keys[];
} unbatch_wait_t;

/* ---- the object ---- */

static void cancel_waits(weft_object_t *o) { weft_wait_cancel_line(&((weft_unbatcher_t *)o)->room, 0); }

const weft_resource_type_t weft_unbatcher_type = {.name = "N10tensorflow15UnbatchResourceE",
                                                  .text = "UnbatchResource",
                                                  .abandon = cancel_waits},
                           weft_unbatch_grad_type = {.name = "N10tensorflow19UnbatchGradResourceE",
                                                     .text = "UnbatchGradResource",
                                                     .abandon = cancel_waits};

static void left_free(left_t *l) {
  if (l != NULL) weft_tensor_release(l->tensor);
  weft_free(l);
}

static void destroy(weft_object_t *o) {
  weft_unbatcher_t *u = (weft_unbatcher_t *)o;
  weft_map_entry_t each;
  for (size_t at = 0; weft_map_next(&u->left, &at, &each);) left_free(each.value);
  weft_map_deinit(&u->left);
  weft_wait_room_deinit(&u->room);
  weft_free(u);
}

weft_status_t *weft_unbatcher_create(weft_object_t **out) {
  weft_unbatcher_t *u = weft_calloc(1, sizeof *u);
  if (u == NULL) return WEFT_NO_MEMORY("creating an unbatcher");
  atomic_init(&u->object.refs, 1);
  u->object.destroy = destroy;
  weft_wait_room_init(&u->room);
  u->room.in_any_order = true; /* each waits for keys of its own */
  *out = &u->object;
  return NULL;
}

/* ---- tensors; the caller holds room.mu ---- */

static weft_status_t *put(weft_unbatcher_t *u, int64_t key, weft_tensor_t *tensor, int64_t until_ns) {
  left_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return WEFT_NO_MEMORY("a tensor of a batch");
  *l = (left_t){weft_tensor_retain(tensor), until_ns};
  weft_status_t *s = weft_map_put_u64(&u->left, (uint64_t)key, l, NULL);
  if (s != NULL) left_free(l);
  return s;
}

static bool is_there(const weft_unbatcher_t *u, int64_t key) {
  return weft_map_get_u64(&u->left, (uint64_t)key) != NULL;
}

static void drop_old(weft_unbatcher_t *u) {
  const int64_t now = weft_clock_ns();
  weft_map_entry_t each;
  for (size_t at = 0; weft_map_next(&u->left, &at, &each);) {
    if (((left_t *)each.value)->until_ns < now) left_free(weft_map_remove_u64(&u->left, each.key.length));
  }
}

static bool is_awaited(const weft_unbatcher_t *u, int64_t key) {
  for (const weft_room_waiter_t *w = u->room.lines[0].first; w != NULL; w = w->next) {
    const unbatch_wait_t *t = (const unbatch_wait_t *)w;
    for (int i = 0; i < t->n; i++) {
      if (t->keys[i] == key) return true;
    }
  }
  return false;
}

/* ---- waits ---- */

static void take_free(unbatch_wait_t *t) {
  for (int i = 0; t->tensors != NULL && i < t->n; i++) weft_tensor_release(t->tensors[i]);
  weft_free(t->tensors);
  weft_free(t);
}

static void finish(weft_room_waiter_t *w) {
  unbatch_wait_t *t = (unbatch_wait_t *)w;
  const weft_resource_call_t call = w->call;
  weft_status_t *s = weft_status_join(weft_wait_failure(w), t->outcome);
  if (w->is_late) s = WEFT_ERROR(DEADLINE_EXCEEDED, "Batched data did not arrive within timeout window.");
  if (s == NULL) s = weft_batch_join(t->tensors, t->n, call.allocator, &call.outputs[0].tensor);
  take_free(t);
  weft_resource_call_end(&call, s);
}

static void expired(weft_room_waiter_t *w) { (void)w; } /* the error needs nothing of the object */

static weft_wait_result_t attempt(weft_room_waiter_t *w) {
  unbatch_wait_t *t = (unbatch_wait_t *)w;
  weft_unbatcher_t *u = (weft_unbatcher_t *)w->owner;
  if (t->outcome != NULL) return WEFT_WAIT_DONE;
  for (int i = 0; i < t->n; i++) {
    if (!is_there(u, t->keys[i])) return WEFT_WAIT_STUCK;
  }
  for (int i = 0; i < t->n && t->outcome == NULL; i++) {
    left_t *l = weft_map_remove_u64(&u->left, (uint64_t)t->keys[i]);
    if (l == NULL) t->outcome = WEFT_ERROR(INTERNAL, "bad bookkeeping of available tensors.");
    if (l != NULL) t->tensors[i] = weft_tensor_retain(l->tensor);
    left_free(l);
  }
  return WEFT_WAIT_DONE;
}

static unbatch_wait_t *take_new(weft_unbatcher_t *u, const weft_resource_call_t *call, const int64_t *keys,
                                int n) {
  unbatch_wait_t *t = weft_calloc(1, sizeof *t + (size_t)n * sizeof t->keys[0]);
  weft_tensor_t **tensors = weft_calloc((size_t)n, sizeof(*tensors));
  if (t == NULL || tensors == NULL) {
    weft_free(t);
    weft_free(tensors);
    weft_resource_call_end(call, WEFT_NO_MEMORY("waiting for a batch"));
    return NULL;
  }
  t->waiter = (weft_room_waiter_t){.call = *call,
                                   .owner = weft_object_retain(&u->object),
                                   .cancelled = "Unbatching was cancelled.",
                                   .attempt = attempt,
                                   .expired = expired,
                                   .finish = finish};
  t->n = n;
  t->tensors = tensors;
  for (int i = 0; i < n; i++) t->keys[i] = keys[i];
  return t;
}

/* Leaves the tensors of a batch, unless there is one for `key`. The caller holds room.mu. */
static weft_status_t *leave_batch(weft_unbatcher_t *u, int64_t key, const weft_unbatched_t *left, int n,
                                  int64_t until_ns) {
  drop_old(u);
  if (is_there(u, key)) return NULL;
  if (is_awaited(u, key)) return WEFT_ERROR(ALREADY_EXISTS, "Multiple session runs with the same batch key.");
  for (int i = 0; i < n; i++) {
    if (is_there(u, left[i].key))
      return WEFT_ERROR(ALREADY_EXISTS, "Multiple tensors returned for same batch key.");
    WEFT_RETURN_IF_ERROR(put(u, left[i].key, left[i].tensor, until_ns));
  }
  return NULL;
}

static int64_t after_micros(int64_t micros) {
  int64_t ns;
  const int64_t now = weft_clock_ns();
  if (__builtin_mul_overflow(micros, 1000, &ns) || __builtin_add_overflow(now, ns, &ns)) return INT64_MAX;
  return ns;
}

void weft_unbatcher_take(weft_unbatcher_t *u, const weft_resource_call_t *call, int64_t key,
                         const weft_unbatched_t *left, int n, int64_t timeout_micros, weft_timer_t *timer) {
  unbatch_wait_t *t = take_new(u, call, &key, 1);
  if (t == NULL) return;
  t->waiter.timer = timer;
  t->waiter.deadline_ns = after_micros(timeout_micros);
  weft_mutex_lock(&u->room.mu);
  t->outcome = leave_batch(u, key, left, n, t->waiter.deadline_ns);
  weft_mutex_unlock(&u->room.mu);
  weft_wait(&u->room, &t->waiter);
}

weft_status_t *weft_unbatcher_leave(weft_unbatcher_t *u, int64_t key, weft_tensor_t *tensor) {
  weft_mutex_lock(&u->room.mu);
  weft_status_t *s = is_there(u, key) ? WEFT_ERROR(INVALID_ARGUMENT, "Two runs with the same batch key.")
                                      : put(u, key, tensor, INT64_MAX);
  weft_mutex_unlock(&u->room.mu);
  weft_wait_flush(&u->room);
  return s;
}

void weft_unbatcher_join(weft_unbatcher_t *u, const weft_resource_call_t *call, const int64_t *keys, int n) {
  unbatch_wait_t *t = take_new(u, call, keys, n);
  if (t == NULL) return;
  weft_mutex_lock(&u->room.mu);
  for (int i = 0; i < n && t->outcome == NULL; i++) {
    if (is_awaited(u, keys[i]))
      t->outcome = WEFT_ERROR(INVALID_ARGUMENT, "Missing tensor wanted by more than one batch.");
  }
  weft_mutex_unlock(&u->room.mu);
  weft_wait(&u->room, &t->waiter);
}
