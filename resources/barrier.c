/* resources/barrier.c - the tuples of a barrier: incomplete by key, whole ones by index.
 *
 * Locking: room.mu guards what changes; growing allocates under it.
 */
#include "resources/barrier.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "resources/tensor_queue_store.h"

struct weft_barrier {
  weft_object_t object;
  char *name;
  weft_barrier_config_t config;
  weft_wait_room_t room;
  weft_map_t incomplete; /* guarded by room.mu, with what follows: weft_tensor_queue_item_t by key */
  weft_tensor_queue_store_t ready; /* by index; parts[0] is the key, then the components */
  int64_t next_index;
  bool is_closed, is_cancelled;
};

void weft_barrier_config_deinit(weft_barrier_config_t *c) {
  weft_free(c->dtypes);
  weft_free(c->shapes);
}

weft_status_t *weft_barrier_config_init(weft_barrier_config_t *out, const weft_dtype_t *dtypes,
                                        const weft_shape_t *shapes, int n) {
  *out = (weft_barrier_config_t){n, weft_calloc((size_t)n + 1, sizeof out->dtypes[0]), NULL};
  if (shapes != NULL) out->shapes = weft_calloc((size_t)n + 1, sizeof out->shapes[0]);
  if (out->dtypes == NULL || (shapes != NULL && out->shapes == NULL)) {
    weft_barrier_config_deinit(out);
    return WEFT_NO_MEMORY("creating a barrier");
  }
  for (int i = 0; i < n; i++) out->dtypes[i] = dtypes[i];
  for (int i = 0; shapes != NULL && i < n; i++) out->shapes[i] = shapes[i];
  return NULL;
}

static void drop_incomplete(weft_barrier_t *b) {
  weft_map_entry_t at;
  for (size_t i = 0; weft_map_next(&b->incomplete, &i, &at);) weft_tensor_queue_item_free(at.value);
  weft_map_deinit(&b->incomplete);
  b->incomplete = (weft_map_t)WEFT_MAP_INIT;
}

static void destroy(weft_object_t *o) {
  weft_barrier_t *b = (weft_barrier_t *)o;
  drop_incomplete(b);
  weft_tensor_queue_store_deinit(&b->ready);
  weft_wait_room_deinit(&b->room);
  weft_barrier_config_deinit(&b->config);
  weft_free(b->name);
  weft_free(b);
}

static void cancel_waits(weft_object_t *o) { weft_wait_cancel_line(&((weft_barrier_t *)o)->room, 0); }

const weft_resource_type_t weft_barrier_type = {"N10tensorflow7barrier7BarrierE", "Barrier", cancel_waits};

weft_status_t *weft_barrier_create(const char *name, const weft_barrier_config_t *config,
                                   weft_object_t **out) {
  weft_barrier_t *b = weft_calloc(1, sizeof *b);
  char *copy = weft_strdup(name);
  weft_barrier_config_t own = {0};
  weft_status_t *s = weft_barrier_config_init(&own, config->dtypes, config->shapes, config->num_components);
  if (s == NULL && (b == NULL || copy == NULL)) s = WEFT_NO_MEMORY("creating a barrier");
  if (s != NULL) {
    weft_barrier_config_deinit(&own);
    weft_free(copy);
    weft_free(b);
    return s;
  }
  atomic_init(&b->object.refs, 1);
  b->object.destroy = destroy;
  b->name = copy;
  b->config = own;
  b->next_index = INT64_MIN;
  weft_wait_room_init(&b->room);
  weft_tensor_queue_store_init(&b->ready, WEFT_QUEUE_PRIORITY, 1, 1);
  *out = &b->object;
  return NULL;
}

const char *weft_barrier_name(const weft_barrier_t *b) { return b->name; }
const weft_barrier_config_t *weft_barrier_config(const weft_barrier_t *b) { return &b->config; }

/* ---- insert ---- */

static weft_status_t *row_of(const weft_tensor_t *batch, int64_t row, weft_tensor_t **out) {
  weft_shape_t shape = {.rank = batch->shape.rank - 1};
  weft_tensor_t *t = NULL;
  if (shape.rank > 0) memcpy(shape.dims, batch->shape.dims + 1, (size_t)shape.rank * sizeof shape.dims[0]);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(batch->dtype, &shape, NULL, &t));
  weft_status_t *s = weft_tensor_copy_elements(t, 0, batch, row * t->count, t->count);
  if (s == NULL) *out = t;
  if (s != NULL) weft_tensor_release(t);
  return s;
}

static weft_status_t *new_key_locked(weft_barrier_t *b, weft_str_t key, weft_tensor_queue_item_t **out)
    WEFT_REQUIRES(b->room.mu) {
  weft_tensor_queue_item_t *item = weft_tensor_queue_item_new(b->config.num_components + 1);
  if (item == NULL) return WEFT_NO_MEMORY("inserting into barrier %s", b->name);
  weft_status_t *s = weft_tensor_string(key, &item->parts[0]);
  if (s == NULL) s = weft_map_put(&b->incomplete, weft_tensor_str_at(item->parts[0], 0), item, NULL);
  if (s != NULL) {
    weft_tensor_queue_item_free(item);
    return s;
  }
  item->priority = b->next_index;
  *out = item;
  return NULL;
}

static weft_status_t *make_ready_locked(weft_barrier_t *b, weft_tensor_queue_item_t *item)
    WEFT_REQUIRES(b->room.mu) {
  for (int i = 0; b->config.shapes != NULL && i < b->config.num_components; i++) {
    if (weft_shape_compatible(&b->config.shapes[i], &item->parts[i + 1]->shape)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape mismatch in tuple component %d. Expected %s, got %s", i + 2,
                      WEFT_SHAPE_TEXT(&b->config.shapes[i]), WEFT_SHAPE_TEXT(&item->parts[i + 1]->shape));
  }
  if (b->ready.count == b->ready.capacity) {
    size_t capacity = b->ready.capacity == 0 ? 16 : b->ready.capacity * 2;
    weft_tensor_queue_item_t **slots = weft_calloc(capacity, sizeof *slots);
    if (slots == NULL) return WEFT_NO_MEMORY("growing barrier %s", b->name);
    weft_free(weft_tensor_queue_store_move(&b->ready, slots, capacity));
  }
  weft_map_remove(&b->incomplete, weft_tensor_str_at(item->parts[0], 0));
  weft_tensor_queue_store_push(&b->ready, item);
  return NULL;
}

/* `value` is retained on success. Sets *has_new if the key is a new one. */
static weft_status_t *insert_locked(weft_barrier_t *b, weft_str_t key, int component, weft_tensor_t *value,
                                    bool *has_new) WEFT_REQUIRES(b->room.mu) {
  weft_tensor_queue_item_t *item = weft_map_get(&b->incomplete, key);
  if (item == NULL) {
    WEFT_RETURN_IF_ERROR(new_key_locked(b, key, &item));
    *has_new = true;
  }
  if (item->parts[component + 1] != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Key %.*s already has a value for component %d in barrier %s",
                      WEFT_STR_ARGS(key), component, b->name);
  }
  item->parts[component + 1] = weft_tensor_retain(value);
  for (int i = 0; i <= b->config.num_components; i++) {
    if (item->parts[i] == NULL) return NULL;
  }
  return make_ready_locked(b, item);
}

/* A closed barrier takes no new keys. */
static weft_status_t *check_closed_locked(weft_barrier_t *b, const weft_tensor_t *keys)
    WEFT_REQUIRES(b->room.mu) {
  int64_t new_keys = 0;
  if (!b->is_closed) return NULL;
  for (int64_t i = 0; i < keys->count; i++) {
    if (weft_map_get(&b->incomplete, weft_tensor_str_at(keys, i)) != NULL) continue;
    new_keys++;
    if (!b->is_cancelled) {
      return WEFT_ERROR(
          CANCELLED,
          "Barrier %s is closed, but attempted to insert a brand new key: %.*s.  Pending enqueues "
          "cancelled: %d.  Insertion index: %" PRId64 ".  Number of incomplete keys: %zu.",
          b->name, WEFT_STR_ARGS(weft_tensor_str_at(keys, i)), b->is_cancelled, i, b->incomplete.count);
    }
  }
  if (!b->is_cancelled) return NULL;
  return WEFT_ERROR(
      CANCELLED,
      "Barrier %s is closed.  Pending enqueues cancelled: %d.  Number of new insertions: %" PRId64
      ".  Number of incomplete keys: %zu.",
      b->name, b->is_cancelled, new_keys, b->incomplete.count);
}

weft_status_t *weft_barrier_insert(weft_barrier_t *b, const weft_tensor_t *keys, const weft_tensor_t *values,
                                   int64_t component) {
  if (component < 0 || component >= b->config.num_components) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The component ID is out of range %" PRId64 " > num_components (= %d)", component,
                      b->config.num_components);
  }
  if (values->dtype != b->config.dtypes[component]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Type mismatch in tuple component %" PRId64 ". Expected %s, got %s",
                      component, weft_dtype_name(b->config.dtypes[component]),
                      weft_dtype_name(values->dtype));
  }
  if (keys->shape.rank != 1 || values->shape.rank < 1 || values->shape.dims[0] != keys->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "keys and values must have the same number of rows: %s and %s",
                      WEFT_SHAPE_TEXT(&keys->shape), WEFT_SHAPE_TEXT(&values->shape));
  }
  weft_mutex_lock(&b->room.mu);
  weft_status_t *s = check_closed_locked(b, keys);
  bool has_new = false;
  for (int64_t i = 0; s == NULL && i < keys->count; i++) {
    weft_tensor_t *row = NULL;
    s = row_of(values, i, &row);
    if (s == NULL) s = insert_locked(b, weft_tensor_str_at(keys, i), (int)component, row, &has_new);
    weft_tensor_release(row);
  }
  if (s == NULL && has_new) b->next_index++;
  weft_mutex_unlock(&b->room.mu);
  weft_wait_flush(&b->room);
  return s;
}

/* ---- take ---- */

typedef struct taking {
  weft_room_waiter_t waiter; /* first; waiter.owner is the barrier */
  int64_t wanted, available;
  bool takes_fewer, is_short;
  weft_tensor_queue_item_t *items, **tail;
  int64_t count;
} taking_t;

#if defined(__clang__)
#define HOLDS_ROOM __attribute__((no_thread_safety_analysis)) /* attempts run under the room's lock */
#else
#define HOLDS_ROOM
#endif

HOLDS_ROOM static weft_wait_result_t try_take(weft_room_waiter_t *w) {
  taking_t *t = (taking_t *)w;
  weft_barrier_t *b = (weft_barrier_t *)w->owner;
  int64_t ready = (int64_t)b->ready.count, deliver = t->wanted;
  if (b->is_closed) {
    int64_t available = ready;
    if (t->takes_fewer) {
      deliver = ready < deliver ? ready : deliver;
    } else {
      available += (int64_t)b->incomplete.count;
    }
    if (available < (deliver > 1 ? deliver : 1)) {
      t->is_short = true;
      t->wanted = deliver;
      t->available = available;
      return WEFT_WAIT_DONE;
    }
  }
  if (ready < deliver) return WEFT_WAIT_STUCK;
  for (; t->count < deliver; t->count++) {
    weft_tensor_queue_item_t *item = weft_tensor_queue_store_pop(&b->ready);
    *t->tail = item;
    t->tail = &item->next;
    item->next = NULL;
  }
  return WEFT_WAIT_DONE;
}

static weft_status_t *stack_part(taking_t *t, int part, int output, weft_dtype_t dtype,
                                 const weft_shape_t *declared) {
  weft_shape_t shape = declared == NULL ? WEFT_SCALAR : *declared;
  if (t->items != NULL) shape = t->items->parts[part]->shape;
  if (!weft_shape_is_known(&shape)) shape = WEFT_SCALAR;
  if (shape.rank == WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "component %d has too many dimensions", part);
  weft_tensor_t *out = NULL;
  int64_t row = 0, each = weft_shape_count(&shape);
  for (const weft_tensor_queue_item_t *i = t->items; i != NULL; i = i->next) {
    if (!weft_shape_eq(&i->parts[part]->shape, &shape)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "values of component %d have different shapes: %s and %s", part - 1,
                        WEFT_SHAPE_TEXT(&shape), WEFT_SHAPE_TEXT(&i->parts[part]->shape));
    }
  }
  memmove(shape.dims + 1, shape.dims, (size_t)shape.rank * sizeof shape.dims[0]);
  shape.dims[0] = t->count;
  shape.rank++;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &shape, t->waiter.call.allocator, &out));
  t->waiter.call.outputs[output].tensor = out;
  for (const weft_tensor_queue_item_t *i = t->items; i != NULL; i = i->next, row++) {
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(out, row * each, i->parts[part], 0, each));
  }
  return NULL;
}

static weft_status_t *deliver(taking_t *t, const weft_barrier_t *b) {
  weft_tensor_t *indices = NULL;
  weft_shape_t vector = weft_shape_vector(t->count);
  int64_t row = 0;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &vector, t->waiter.call.allocator, &indices));
  t->waiter.call.outputs[0].tensor = indices;
  for (const weft_tensor_queue_item_t *i = t->items; i != NULL; i = i->next)
    ((int64_t *)indices->data)[row++] = i->priority;
  WEFT_RETURN_IF_ERROR(stack_part(t, 0, 1, WEFT_STRING, NULL));
  for (int i = 0; i < b->config.num_components; i++) {
    WEFT_RETURN_IF_ERROR(stack_part(t, i + 1, i + 2, b->config.dtypes[i],
                                    b->config.shapes == NULL ? NULL : &b->config.shapes[i]));
  }
  return NULL;
}

static void finish_take(weft_room_waiter_t *w) {
  taking_t *t = (taking_t *)w;
  weft_barrier_t *b = (weft_barrier_t *)w->owner;
  const weft_resource_call_t call = w->call;
  weft_status_t *s = weft_wait_failure(w);
  if (s == NULL && t->is_short) {
    s = WEFT_ERROR(OUT_OF_RANGE,
                   "Barrier '%s' is closed and has insufficient elements (requested %" PRId64
                   ", total size %" PRId64 ")",
                   b->name, t->wanted, t->available);
  } else if (s == NULL) {
    s = deliver(t, b);
  }
  weft_tensor_queue_item_free(t->items);
  weft_free(t);
  weft_resource_call_end(&call, s);
}

void weft_barrier_take(weft_barrier_t *b, const weft_resource_call_t *call, int64_t n, bool takes_fewer) {
  taking_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) {
    weft_resource_call_end(call, WEFT_NO_MEMORY("waiting for barrier %s", b->name));
    return;
  }
  t->wanted = n;
  t->takes_fewer = takes_fewer;
  t->tail = &t->items;
  t->waiter.call = *call;
  t->waiter.owner = weft_object_retain(&b->object);
  t->waiter.cancelled = "Dequeue operation was cancelled";
  t->waiter.attempt = try_take;
  t->waiter.finish = finish_take;
  weft_wait(&b->room, &t->waiter);
}

/* ---- close, sizes ---- */

weft_status_t *weft_barrier_close(weft_barrier_t *b, bool cancels) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&b->room.mu);
  if (b->is_closed && !cancels) s = WEFT_ERROR(CANCELLED, "Barrier '%s' is already closed.", b->name);
  if (b->is_cancelled && cancels) s = WEFT_ERROR(CANCELLED, "Barrier '%s' is already cancelled.", b->name);
  if (s == NULL) {
    b->is_closed = true;
    b->is_cancelled = cancels;
    if (cancels) drop_incomplete(b);
  }
  weft_mutex_unlock(&b->room.mu);
  weft_wait_flush(&b->room);
  return s;
}

void weft_barrier_sizes(weft_barrier_t *b, size_t *out_ready, size_t *out_incomplete) {
  weft_mutex_lock(&b->room.mu);
  *out_ready = b->ready.count;
  *out_incomplete = b->incomplete.count;
  weft_mutex_unlock(&b->room.mu);
}
