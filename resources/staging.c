/* resources/staging.c - staging areas.
 *
 * Whole tuples are kept in the order of their keys; a FIFO numbers them as they come.
 *
 * Locking: room.mu guards the tuples; it is a leaf.
 */
#include "resources/staging.h"

#include <inttypes.h>

#include "base/alloc.h"

/* Some components of a tuple; NULL: not there yet, or taken. */
typedef struct staged {
  int64_t key;
  weft_tensor_t *key_tensor; /* of a map's whole tuples: the key as it was staged; NULL: of others */
  int count;
  weft_tensor_t *items[];
} staged_t;

/* By key. */
typedef struct staged_list {
  staged_t **items; /* owned, and what they point to */
  int64_t count, room;
} staged_list_t;

struct weft_staging {
  weft_object_t object; /* first */
  weft_staging_config_t config;
  weft_wait_room_t room;
  staged_list_t whole, incomplete; /* guarded by room.mu, with what follows */
  int64_t bytes;                   /* of both */
  int64_t next_key;                /* of a FIFO */
};

enum { IN, OUT };

/* ---- tuples ---- */

static staged_t *staged_create(int64_t key, int count) {
  staged_t *t = weft_calloc(1, sizeof *t + (size_t)count * sizeof t->items[0]);
  if (t == NULL) return NULL;
  t->key = key;
  t->count = count;
  return t;
}

static void staged_destroy(staged_t *t) {
  for (int i = 0; t != NULL && i < t->count; i++) weft_tensor_release(t->items[i]);
  if (t != NULL) weft_tensor_release(t->key_tensor);
  weft_free(t);
}

static int staged_present(const staged_t *t) {
  int n = 0;
  for (int i = 0; i < t->count; i++) n += t->items[i] != NULL;
  return n;
}

/* Where `key` is, or would be. */
static int64_t list_at(const staged_list_t *l, int64_t key) {
  int64_t low = 0, high = l->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (l->items[middle]->key < key) low = middle + 1;
    if (l->items[middle]->key >= key) high = middle;
  }
  return low;
}

static bool list_has(const staged_list_t *l, int64_t at, int64_t key) {
  return at < l->count && l->items[at]->key == key;
}

/* Takes `t` over on success. */
static bool list_insert(staged_list_t *l, staged_t *t) {
  if (l->count == l->room) {
    const int64_t room = l->room == 0 ? 16 : 2 * l->room;
    staged_t **items = weft_realloc(l->items, (size_t)room, sizeof(*items));
    if (items == NULL) return false;
    l->items = items;
    l->room = room;
  }
  const int64_t at = list_at(l, t->key);
  memmove(l->items + at + 1, l->items + at, (size_t)(l->count - at) * sizeof(*l->items));
  l->items[at] = t;
  l->count++;
  return true;
}

static staged_t *list_remove(staged_list_t *l, int64_t at) {
  staged_t *t = l->items[at];
  l->count--;
  memmove(l->items + at, l->items + at + 1, (size_t)(l->count - at) * sizeof(*l->items));
  return t;
}

static void list_deinit(staged_list_t *l) {
  for (int64_t i = 0; i < l->count; i++) staged_destroy(l->items[i]);
  weft_free(l->items);
  *l = (staged_list_t){0};
}

/* ---- the area ---- */

static void cancel_waits(weft_object_t *o) {
  weft_wait_cancel_line(&((weft_staging_t *)o)->room, IN);
  weft_wait_cancel_line(&((weft_staging_t *)o)->room, OUT);
}

const weft_resource_type_t weft_staging_types[WEFT_STAGING_KINDS] = {
    [WEFT_STAGING_FIFO] = {.name = "N10tensorflow6BufferE", .text = "Buffer", .abandon = cancel_waits},
    [WEFT_STAGING_MAP] = {.name = "N10tensorflow10StagingMapILb0EEE",
                          .text = "StagingMap",
                          .abandon = cancel_waits},
    [WEFT_STAGING_ORDERED_MAP] = {
        .name = "N10tensorflow10StagingMapILb1EEE", .text = "StagingMap", .abandon = cancel_waits}};

static void destroy(weft_object_t *o) {
  weft_staging_t *st = (weft_staging_t *)o;
  list_deinit(&st->whole);
  list_deinit(&st->incomplete);
  weft_wait_room_deinit(&st->room);
  weft_free(st);
}

weft_status_t *weft_staging_create(const weft_staging_config_t *config, weft_object_t **out) {
  weft_staging_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("creating a staging area");
  atomic_init(&st->object.refs, 1);
  st->object.destroy = destroy;
  st->config = *config;
  weft_wait_room_init(&st->room);
  st->room.in_any_order = true; /* a take waits for its key, a small put passes one that finds no room */
  *out = &st->object;
  return NULL;
}

void weft_staging_clear(weft_staging_t *st) {
  weft_mutex_lock(&st->room.mu);
  staged_list_t whole = st->whole, incomplete = st->incomplete;
  st->whole = st->incomplete = (staged_list_t){0};
  st->bytes = 0;
  weft_mutex_unlock(&st->room.mu);
  list_deinit(&whole);
  list_deinit(&incomplete);
  weft_wait_flush(&st->room);
}

static int64_t count_of(weft_staging_t *st, const staged_list_t *l) {
  weft_mutex_lock(&st->room.mu);
  int64_t n = l->count;
  weft_mutex_unlock(&st->room.mu);
  return n;
}

int64_t weft_staging_size(weft_staging_t *st) { return count_of(st, &st->whole); }
int64_t weft_staging_incomplete_size(weft_staging_t *st) { return count_of(st, &st->incomplete); }

/* ---- operations that wait ---- */

typedef struct stage_op {
  weft_room_waiter_t waiter; /* first; waiter.owner is the area */
  weft_status_t *outcome;
  staged_t *tuple; /* of a put: what is staged; of a take: what was found */
  int64_t key, bytes;
  int32_t *indices; /* num_indices of them; NULL: all components */
  int64_t num_indices;
  bool is_part; /* a put that does not bring the whole tuple */
  weft_staging_wish_t wish;
} stage_op_t;

static weft_status_t *out_of_bounds(const stage_op_t *op, int64_t index, int count) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Index '%" PRId64 "' for key '%" PRId64 "' was out of bounds '%d'.",
                    index, op->key, count);
}

static void finish(weft_room_waiter_t *w) {
  stage_op_t *op = (stage_op_t *)w;
  const weft_resource_call_t call = w->call;
  weft_status_t *s = weft_wait_failure(w);
  const int first = op->wish.has_key ? 1 : 0;
  if (s == NULL) s = op->outcome;
  bool takes = w->line == OUT && s == NULL;
  if (takes && op->tuple->count != op->wish.num_outputs - first) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Mismatch stage/unstage: %d vs. %d", op->tuple->count,
                   op->wish.num_outputs - first);
    takes = false;
  }
  if (takes && op->wish.has_key) {
    call.outputs[0].tensor = op->tuple->key_tensor;
    op->tuple->key_tensor = NULL;
  }
  for (int i = 0; takes && s == NULL && i < op->tuple->count; i++) {
    call.outputs[first + i].tensor = op->tuple->items[i];
    op->tuple->items[i] = NULL;
  }
  staged_destroy(op->tuple);
  weft_free(op->indices);
  weft_free(op);
  weft_resource_call_end(&call, s);
}

/* A waiter for the line; NULL: the call has ended, for lack of memory or with bad indices. */
static stage_op_t *begin(weft_staging_t *st, const weft_resource_call_t *call, int line,
                         const weft_tensor_t *indices, int64_t key) {
  stage_op_t *op = weft_calloc(1, sizeof *op);
  int32_t *copy = indices == NULL ? NULL : weft_calloc((size_t)indices->count + 1, sizeof *copy);
  weft_status_t *s = NULL;
  if (op == NULL || (indices != NULL && copy == NULL)) s = WEFT_NO_MEMORY("waiting for a staging area");
  if (s == NULL && indices != NULL && indices->count == 0)
    s = WEFT_ERROR(INVALID_ARGUMENT, "Indices are empty");
  for (int64_t i = 0; s == NULL && indices != NULL && i < indices->count; i++) {
    copy[i] = ((const int32_t *)indices->data)[i];
    if (i > 0 && copy[i] <= copy[i - 1]) s = WEFT_ERROR(INVALID_ARGUMENT, "Indices are not strictly ordered");
  }
  if (s != NULL) {
    weft_free(op);
    weft_free(copy);
    weft_resource_call_end(call, s);
    return NULL;
  }
  op->waiter.call = *call;
  op->waiter.owner = weft_object_retain(&st->object);
  op->waiter.line = line;
  op->waiter.finish = finish;
  op->key = key;
  op->indices = copy;
  op->num_indices = indices == NULL ? 0 : indices->count;
  return op;
}

#if defined(__clang__)
#define HOLDS_ROOM __attribute__((no_thread_safety_analysis)) /* attempts run under the room's lock */
#else
#define HOLDS_ROOM
#endif

/* ---- putting ---- */

/* Adds the parts to the tuple of their key; it becomes whole with the last, whose key tensor it gets. Those
 * in front of a bad one stay, as in TensorFlow. */
HOLDS_ROOM static weft_status_t *put_parts(weft_staging_t *st, stage_op_t *op) {
  int64_t at = list_at(&st->incomplete, op->key);
  const bool is_new = !list_has(&st->incomplete, at, op->key);
  staged_t *t = is_new ? staged_create(op->key, st->config.num_components) : st->incomplete.items[at];
  weft_status_t *s = t == NULL ? WEFT_NO_MEMORY("staging a tuple") : NULL;
  for (int64_t i = 0; s == NULL && i < op->num_indices; i++) {
    const int32_t index = op->indices[i];
    if (index < 0 || index >= t->count) {
      s = out_of_bounds(op, index, t->count);
    } else if (t->items[index] != NULL) {
      s = WEFT_ERROR(INVALID_ARGUMENT,
                     "The tensor for index '%d' for key '%" PRId64 "' was already initialized '%d'.", index,
                     op->key, t->count);
    } else {
      t->items[index] = op->tuple->items[i];
      op->tuple->items[i] = NULL;
      if (!is_new) st->bytes += (int64_t)t->items[index]->bytes;
    }
  }
  if (is_new && s == NULL && !list_insert(&st->incomplete, t)) s = WEFT_NO_MEMORY("staging a tuple");
  if (is_new && s != NULL) staged_destroy(t);
  if (is_new && s == NULL) st->bytes += op->bytes;
  if (is_new || s != NULL || staged_present(t) < t->count) return s;
  (void)list_remove(&st->incomplete, at);
  t->key_tensor = op->tuple->key_tensor;
  op->tuple->key_tensor = NULL;
  at = list_at(&st->whole, op->key);
  if (list_has(&st->whole, at, op->key) || !list_insert(&st->whole, t)) staged_destroy(t);
  return NULL;
}

/* A tuple whose key is there already is dropped, as in TensorFlow. */
HOLDS_ROOM static weft_status_t *put_whole(weft_staging_t *st, stage_op_t *op) {
  if (st->config.kind == WEFT_STAGING_FIFO) op->tuple->key = st->next_key++;
  if (list_has(&st->whole, list_at(&st->whole, op->tuple->key), op->tuple->key)) return NULL;
  if (!list_insert(&st->whole, op->tuple)) return WEFT_NO_MEMORY("staging a tuple");
  st->bytes += op->bytes;
  op->tuple = NULL;
  return NULL;
}

HOLDS_ROOM static weft_wait_result_t try_put(weft_room_waiter_t *w) {
  stage_op_t *op = (stage_op_t *)w;
  weft_staging_t *st = (weft_staging_t *)w->owner;
  const weft_staging_config_t *config = &st->config;
  if (config->memory_limit > 0 && op->bytes > config->memory_limit - st->bytes) return WEFT_WAIT_STUCK;
  if (!op->is_part && config->capacity > 0 && st->whole.count >= config->capacity) return WEFT_WAIT_STUCK;
  op->outcome = op->is_part ? put_parts(st, op) : put_whole(st, op);
  return WEFT_WAIT_DONE;
}

void weft_staging_put(weft_staging_t *st, const weft_resource_call_t *call, int64_t key,
                      weft_tensor_t *key_tensor, const weft_tensor_t *indices, const weft_value_t *values,
                      int n) {
  const int64_t limit = st->config.memory_limit;
  stage_op_t *op = begin(st, call, IN, indices, key);
  if (op == NULL) return;
  op->waiter.cancelled = "Stage operation was cancelled";
  op->waiter.attempt = try_put;
  op->is_part = indices != NULL && op->num_indices != st->config.num_components;
  op->tuple = staged_create(key, n);
  if (op->tuple == NULL) op->outcome = WEFT_NO_MEMORY("staging %d tensors", n);
  if (op->tuple != NULL && key_tensor != NULL) op->tuple->key_tensor = weft_tensor_retain(key_tensor);
  for (int i = 0; op->tuple != NULL && i < n; i++) {
    op->tuple->items[i] = weft_tensor_retain(values[i].tensor);
    op->bytes += (int64_t)values[i].tensor->bytes;
  }
  if (op->outcome == NULL && indices != NULL && op->num_indices != n) {
    op->outcome = WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " indices for %d tensors", op->num_indices, n);
  }
  if (op->outcome == NULL && limit > 0 && op->bytes > limit) {
    op->outcome = WEFT_ERROR(RESOURCE_EXHAUSTED,
                             "Attempted to insert tensors with combined size of '%" PRId64
                             "' bytes into Staging Area with a memory limit of '%" PRId64 "'.",
                             op->bytes, limit);
  }
  if (op->outcome == NULL) {
    weft_wait(&st->room, &op->waiter);
    return;
  }
  finish(&op->waiter);
  weft_object_release(&st->object); /* the waiter's reference */
}

/* ---- taking ---- */

/* Components of a whole tuple go to op->tuple. */
HOLDS_ROOM static weft_status_t *take_from(weft_staging_t *st, stage_op_t *op, int64_t at) {
  staged_t *from = st->whole.items[at];
  const int n = op->indices == NULL ? from->count : (int)op->num_indices;
  const bool removes = op->wish.removes;
  op->key = from->key;
  op->tuple = staged_create(from->key, n);
  if (op->tuple == NULL) return WEFT_NO_MEMORY("taking %d tensors", n);
  if (op->wish.has_key) op->tuple->key_tensor = weft_tensor_retain(from->key_tensor);
  for (int i = 0; i < n; i++) {
    const int32_t index = op->indices == NULL ? i : op->indices[i];
    if (index < 0 || index >= from->count) return out_of_bounds(op, index, from->count);
    if (from->items[index] == NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Tensor at index '%d' for key '%" PRId64 "' has already been removed.", index,
                        op->key);
    }
    op->tuple->items[i] = removes ? from->items[index] : weft_tensor_retain(from->items[index]);
    if (!removes) continue;
    st->bytes -= (int64_t)from->items[index]->bytes;
    from->items[index] = NULL;
  }
  if (removes && staged_present(from) == 0) staged_destroy(list_remove(&st->whole, at));
  return NULL;
}

HOLDS_ROOM static weft_wait_result_t try_take(weft_room_waiter_t *w) {
  stage_op_t *op = (stage_op_t *)w;
  weft_staging_t *st = (weft_staging_t *)w->owner;
  int64_t at = 0;
  if (op->wish.choice == WEFT_STAGING_AT) at = op->wish.key;
  if (op->wish.choice == WEFT_STAGING_BY_KEY) {
    at = list_at(&st->whole, op->wish.key);
    if (!list_has(&st->whole, at, op->wish.key)) return WEFT_WAIT_STUCK;
  }
  if (at < 0 || at >= st->whole.count) return WEFT_WAIT_STUCK;
  op->outcome = take_from(st, op, at);
  return WEFT_WAIT_DONE;
}

void weft_staging_take(weft_staging_t *st, const weft_resource_call_t *call,
                       const weft_staging_wish_t *wish) {
  stage_op_t *op = begin(st, call, OUT, wish->indices, wish->key);
  if (op == NULL) return;
  op->waiter.cancelled = "Unstage operation was cancelled";
  op->waiter.attempt = try_take;
  op->wish = *wish;
  op->wish.indices = NULL; /* lent for this call alone */
  weft_wait(&st->room, &op->waiter);
}
