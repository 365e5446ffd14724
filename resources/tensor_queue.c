/* resources/tensor_queue.c - the operations of a queue.
 *
 * An operation is a waiter in the queue's room: enqueues and closes stand in line
 * IN, dequeues in line OUT. An attempt moves whole tuples between the waiter and
 * the store under the lock; tensors are cut before and stacked after it.
 *
 * Room for every tuple that is in the store, waits to get in, or may have to go
 * back (a dequeue of many that is cut short) is reserved before the lock is
 * taken: `alive` counts them.
 *
 * Locking: room.mu guards what changes; it is a leaf.
 */
#include "resources/tensor_queue.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "resources/wait_room.h"

enum { IN, OUT };

struct weft_tensor_queue {
  weft_object_t object;
  char *name;
  weft_tensor_queue_config_t config;
  weft_wait_room_t room;
  weft_tensor_queue_store_t store; /* guarded by room.mu, with what follows */
  size_t alive;
  bool is_closed;
};

static const char *const kind_names[] = {"FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue",
                                         "PriorityQueue"};

const char *weft_tensor_queue_kind_name(weft_tensor_queue_kind_t kind) { return kind_names[kind]; }

/* A padding queue is a FIFO queue in all but its batches; its messages say so. */
static const char *plain_name(const weft_tensor_queue_t *q) {
  return kind_names[q->config.kind == WEFT_QUEUE_PADDING ? WEFT_QUEUE_FIFO : q->config.kind];
}

static void cancel_waits(weft_object_t *o) {
  weft_tensor_queue_t *q = (weft_tensor_queue_t *)o;
  weft_mutex_lock(&q->room.mu);
  q->is_closed = true;
  weft_mutex_unlock(&q->room.mu);
  weft_wait_cancel_line(&q->room, IN);
  weft_wait_cancel_line(&q->room, OUT);
}

const weft_resource_type_t weft_tensor_queue_type = {"N10tensorflow14QueueInterfaceE", "Queue", cancel_waits};

void weft_tensor_queue_config_deinit(weft_tensor_queue_config_t *config) {
  weft_free(config->dtypes);
  weft_free(config->shapes);
  config->dtypes = NULL;
  config->shapes = NULL;
}

static void destroy(weft_object_t *o) {
  weft_tensor_queue_t *q = (weft_tensor_queue_t *)o;
  weft_tensor_queue_store_deinit(&q->store);
  weft_wait_room_deinit(&q->room);
  weft_tensor_queue_config_deinit(&q->config);
  weft_free(q->name);
  weft_free(q);
}

weft_status_t *weft_tensor_queue_create(const char *name, const weft_tensor_queue_config_t *config,
                                        weft_object_t **out) {
  weft_tensor_queue_t *q = weft_calloc(1, sizeof *q);
  char *copy = weft_strdup(name);
  if (q == NULL || copy == NULL) {
    weft_free(q);
    weft_free(copy);
    return WEFT_NO_MEMORY("creating queue %s", name);
  }
  atomic_init(&q->object.refs, 1);
  q->object.destroy = destroy;
  q->name = copy;
  q->config = *config;
  weft_wait_room_init(&q->room);
  weft_tensor_queue_store_init(&q->store, config->kind, config->seed, config->seed2);
  *out = &q->object;
  return NULL;
}

const weft_tensor_queue_config_t *weft_tensor_queue_config(const weft_tensor_queue_t *q) {
  return &q->config;
}

int64_t weft_tensor_queue_size(weft_tensor_queue_t *q) {
  weft_mutex_lock(&q->room.mu);
  int64_t n = (int64_t)q->store.count;
  weft_mutex_unlock(&q->room.mu);
  return n;
}

bool weft_tensor_queue_is_closed(weft_tensor_queue_t *q) {
  weft_mutex_lock(&q->room.mu);
  bool is = q->is_closed;
  weft_mutex_unlock(&q->room.mu);
  return is;
}

/* ---- room for tuples ---- */

static weft_status_t *reserve(weft_tensor_queue_t *q, size_t n) {
  for (;;) {
    size_t need = 0;
    weft_mutex_lock(&q->room.mu);
    bool fits = weft_add_size(q->alive, n, &need) && need <= q->store.capacity;
    if (fits) q->alive = need;
    size_t twice = q->store.capacity * 2;
    weft_mutex_unlock(&q->room.mu);
    if (fits) return NULL;
    size_t capacity = need < twice ? twice : need < 16 ? 16 : need;
    weft_tensor_queue_item_t **slots = weft_calloc(capacity, sizeof *slots);
    if (slots == NULL) return WEFT_NO_MEMORY("growing queue %s to %zu elements", q->name, capacity);
    weft_mutex_lock(&q->room.mu);
    if (capacity > q->store.capacity) slots = weft_tensor_queue_store_move(&q->store, slots, capacity);
    weft_mutex_unlock(&q->room.mu);
    weft_free(slots);
  }
}

/* ---- one operation ---- */

typedef enum queue_outcome { SERVED, QUEUE_CLOSED, NOT_ENOUGH } queue_outcome_t;

typedef struct queue_operation {
  weft_room_waiter_t waiter; /* first; waiter.owner is the queue */
  bool is_many, is_up_to;
  int64_t wanted;                  /* tuples still to be moved */
  int64_t requested, found;        /* for the message when there is not enough */
  weft_tensor_queue_item_t *items; /* still to be put in; or taken out so far */
  weft_tensor_queue_item_t **tail;
  int64_t num_items;
  queue_outcome_t outcome;
} queue_operation_t;

static weft_tensor_queue_t *queue_of(const queue_operation_t *op) {
  return (weft_tensor_queue_t *)op->waiter.owner;
}

static queue_operation_t *operation_new(weft_tensor_queue_t *q, const weft_resource_call_t *call) {
  queue_operation_t *op = weft_calloc(1, sizeof *op);
  if (op == NULL) {
    weft_resource_call_end(call, WEFT_NO_MEMORY("waiting for queue %s", q->name));
    return NULL;
  }
  op->waiter.call = *call;
  op->waiter.owner = weft_object_retain(&q->object);
  op->tail = &op->items;
  return op;
}

static void forget_locked(weft_tensor_queue_t *q, size_t n) WEFT_REQUIRES(q->room.mu) { q->alive -= n; }

static void operation_end(queue_operation_t *op, weft_status_t *s) {
  weft_tensor_queue_t *q = queue_of(op);
  const weft_resource_call_t call = op->waiter.call;
  if (op->num_items > 0) { /* whatever it still holds leaves the queue for good */
    weft_mutex_lock(&q->room.mu);
    forget_locked(q, (size_t)op->num_items);
    weft_mutex_unlock(&q->room.mu);
  }
  weft_tensor_queue_item_free(op->items);
  weft_free(op);
  weft_resource_call_end(&call, s);
}

static void append(queue_operation_t *op, weft_tensor_queue_item_t *item) {
  item->next = NULL;
  *op->tail = item;
  op->tail = &item->next;
  op->num_items++;
}

static weft_tensor_queue_item_t *take_first(queue_operation_t *op) {
  weft_tensor_queue_item_t *item = op->items;
  op->items = item->next;
  if (op->items == NULL) op->tail = &op->items;
  op->num_items--;
  return item;
}

/* ---- enqueue ---- */

#if defined(__clang__)
#define HOLDS_ROOM __attribute__((no_thread_safety_analysis)) /* attempts run under the room's lock */
#else
#define HOLDS_ROOM
#endif

HOLDS_ROOM static weft_wait_result_t try_enqueue(weft_room_waiter_t *w) {
  queue_operation_t *op = (queue_operation_t *)w;
  weft_tensor_queue_t *q = queue_of(op);
  if (q->is_closed) {
    op->outcome = QUEUE_CLOSED;
    return WEFT_WAIT_DONE;
  }
  weft_wait_result_t result = WEFT_WAIT_STUCK;
  while (op->items != NULL && (int64_t)q->store.count < q->config.capacity) {
    weft_tensor_queue_store_push(&q->store, take_first(op));
    result = WEFT_WAIT_PROGRESS;
  }
  return op->items == NULL ? WEFT_WAIT_DONE : result;
}

static void finish_enqueue(weft_room_waiter_t *w) {
  queue_operation_t *op = (queue_operation_t *)w;
  weft_tensor_queue_t *q = queue_of(op);
  weft_status_t *s = weft_wait_failure(w);
  if (s == NULL && op->outcome == QUEUE_CLOSED) {
    s = WEFT_ERROR(CANCELLED, "%s '%s' is closed.", plain_name(q), q->name);
  }
  operation_end(op, s);
}

static weft_status_t *check_component(const weft_tensor_queue_t *q, int i, const weft_tensor_t *t,
                                      int64_t batch) {
  if (t->dtype != q->config.dtypes[i]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Type mismatch in tuple component %d. Expected %s, got %s", i,
                      weft_dtype_name(q->config.dtypes[i]), weft_dtype_name(t->dtype));
  }
  if (batch >= 0 && t->shape.rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Component %d of a batch of tuples must have a first dimension, got a scalar", i);
  }
  if (q->config.shapes == NULL) {
    if (batch < 0 || t->shape.dims[0] == batch) return NULL;
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "All input tensors must have the same size in the 0th dimension. Component %d has %" PRId64
        ", and should have %" PRId64,
        i, t->shape.dims[0], batch);
  }
  weft_shape_t want = q->config.shapes[i];
  if (batch >= 0 && want.rank >= 0) {
    if (want.rank == WEFT_MAX_DIMS)
      return WEFT_ERROR(INVALID_ARGUMENT, "component %d has too many dimensions", i);
    memmove(want.dims + 1, want.dims, (size_t)want.rank * sizeof want.dims[0]);
    want.dims[0] = batch;
    want.rank++;
  }
  if (weft_shape_compatible(&want, &t->shape)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Shape mismatch in tuple component %d. Expected %s, got %s", i,
                    WEFT_SHAPE_TEXT(&want), WEFT_SHAPE_TEXT(&t->shape));
}

/* Row `row` of a batch as a tensor of its own: a slice would keep the whole batch alive. */
static weft_status_t *copy_row(const weft_tensor_t *batch, int64_t row, weft_tensor_t **out) {
  weft_shape_t shape = {.rank = batch->shape.rank - 1};
  if (shape.rank > 0) memcpy(shape.dims, batch->shape.dims + 1, (size_t)shape.rank * sizeof shape.dims[0]);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(batch->dtype, &shape, NULL, &t));
  weft_status_t *s = weft_tensor_copy_elements(t, 0, batch, row * t->count, t->count);
  if (s == NULL) *out = t;
  if (s != NULL) weft_tensor_release(t);
  return s;
}

/* One tuple of the inputs, or of row `row` of them. */
static weft_status_t *make_item(const weft_tensor_queue_t *q, const weft_value_t *components, int64_t row,
                                weft_tensor_queue_item_t **out) {
  weft_tensor_queue_item_t *item = weft_tensor_queue_item_new(q->config.num_components);
  weft_status_t *s = item == NULL ? WEFT_NO_MEMORY("enqueuing to %s", q->name) : NULL;
  for (int i = 0; s == NULL && i < q->config.num_components; i++) {
    weft_tensor_t *t = components[i].tensor;
    if (row < 0) {
      item->parts[i] = weft_tensor_retain(t);
    } else {
      s = copy_row(t, row, &item->parts[i]);
    }
  }
  if (s == NULL && q->config.kind == WEFT_QUEUE_PRIORITY)
    item->priority = *(const int64_t *)item->parts[0]->data;
  if (s == NULL) *out = item;
  if (s != NULL) weft_tensor_queue_item_free(item);
  return s;
}

void weft_tensor_queue_enqueue(weft_tensor_queue_t *q, const weft_resource_call_t *call,
                               const weft_value_t *components, int n, bool is_many) {
  int64_t batch = -1;
  weft_status_t *s = NULL;
  if (n != q->config.num_components) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Wrong number of components in tuple. Expected %d, got %d",
                   q->config.num_components, n);
  } else if (is_many) {
    const weft_tensor_t *first = components[0].tensor;
    batch = first->shape.rank < 1 ? 0 : first->shape.dims[0];
  }
  for (int i = 0; s == NULL && i < n; i++) s = check_component(q, i, components[i].tensor, batch);
  if (s != NULL || batch == 0) {
    weft_resource_call_end(call, s);
    return;
  }
  queue_operation_t *op = operation_new(q, call);
  if (op == NULL) return;
  weft_object_t *owner = op->waiter.owner;
  int64_t rows = is_many ? batch : 1;
  s = reserve(q, (size_t)rows);
  if (s == NULL) { /* from here on op->num_items are counted in `alive`: all or none */
    for (int64_t row = 0; s == NULL && row < rows; row++) {
      weft_tensor_queue_item_t *item = NULL;
      s = make_item(q, components, is_many ? row : -1, &item);
      if (s == NULL) append(op, item);
    }
    if (s != NULL) op->num_items = rows;
  }
  if (s != NULL) {
    operation_end(op, s);
    weft_object_release(owner);
    return;
  }
  op->waiter.line = IN;
  op->waiter.cancelled = "Enqueue operation was cancelled";
  op->waiter.attempt = try_enqueue;
  op->waiter.finish = finish_enqueue;
  weft_wait(&q->room, &op->waiter);
}

/* ---- dequeue ---- */

/* How many tuples may leave now. A shuffling queue keeps some back until it is closed. */
static int64_t available_locked(const weft_tensor_queue_t *q) WEFT_REQUIRES(q->room.mu) {
  int64_t n = (int64_t)q->store.count;
  if (q->config.kind == WEFT_QUEUE_SHUFFLE && !q->is_closed) n -= q->config.min_after_dequeue;
  return n < 0 ? 0 : n;
}

static weft_wait_result_t not_enough(queue_operation_t *op, int64_t requested, int64_t found) {
  op->outcome = NOT_ENOUGH;
  op->requested = requested;
  op->found = found;
  return WEFT_WAIT_DONE;
}

/* The queue is closed and will not have enough: gives back what was taken, the first in front. */
static void give_back_locked(weft_tensor_queue_t *q, queue_operation_t *op) WEFT_REQUIRES(q->room.mu) {
  weft_tensor_queue_item_t *reversed = NULL;
  while (op->items != NULL) {
    weft_tensor_queue_item_t *item = take_first(op);
    item->next = reversed;
    reversed = item;
    op->wanted++;
  }
  while (reversed != NULL) {
    weft_tensor_queue_item_t *item = reversed;
    reversed = item->next;
    weft_tensor_queue_store_push_front(&q->store, item);
  }
}

HOLDS_ROOM static weft_wait_result_t try_dequeue(weft_room_waiter_t *w) {
  queue_operation_t *op = (queue_operation_t *)w;
  weft_tensor_queue_t *q = queue_of(op);
  int64_t size = (int64_t)q->store.count;
  if (q->is_closed && size < op->wanted) {
    int64_t requested = op->wanted;
    give_back_locked(q, op);
    if (op->is_up_to && q->store.count > 0) {
      op->wanted = (int64_t)q->store.count; /* all that is left */
    } else if (op->is_up_to && q->room.lines[IN].first != NULL) {
      return WEFT_WAIT_STUCK; /* an enqueue is still waiting in front */
    } else {
      return not_enough(op, requested, size);
    }
  }
  weft_wait_result_t result = WEFT_WAIT_STUCK;
  for (int64_t n = available_locked(q); n > 0 && op->wanted > 0; n--) {
    append(op, weft_tensor_queue_store_pop(&q->store));
    op->wanted--;
    result = WEFT_WAIT_PROGRESS;
  }
  return op->wanted == 0 ? WEFT_WAIT_DONE : result;
}

/* The shape of a batch of n tuples: of a padding queue, as large as the largest of each unknown dimension. */
static weft_status_t *batch_shape(const weft_tensor_queue_t *q, const queue_operation_t *op, int i,
                                  weft_shape_t *out) {
  weft_shape_t shape = q->config.shapes[i];
  if (shape.rank == WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "component %d has too many dimensions", i);
  for (int d = 0; d < shape.rank; d++) {
    if (shape.dims[d] != WEFT_UNKNOWN_DIM) continue;
    shape.dims[d] = 0;
    for (const weft_tensor_queue_item_t *item = op->items; item != NULL; item = item->next) {
      if (item->parts[i]->shape.dims[d] > shape.dims[d]) shape.dims[d] = item->parts[i]->shape.dims[d];
    }
  }
  memmove(shape.dims + 1, shape.dims, (size_t)shape.rank * sizeof shape.dims[0]);
  shape.dims[0] = op->num_items;
  shape.rank++;
  *out = shape;
  return NULL;
}

/* Copies `from` into the corner of row `row` of `to`, whose rows are as large or larger. */
static weft_status_t *copy_padded(weft_tensor_t *to, int64_t row, const weft_tensor_t *from) {
  int rank = from->shape.rank;
  int64_t row_size = 1, at[WEFT_MAX_DIMS] = {0};
  for (int d = 1; d < to->shape.rank; d++) row_size *= to->shape.dims[d];
  if (from->count == row_size) return weft_tensor_copy_elements(to, row * row_size, from, 0, row_size);
  if (from->count == 0) return NULL;
  int64_t run = rank == 0 ? 1 : from->shape.dims[rank - 1];
  for (int64_t done = 0; done < from->count; done += run) { /* one innermost run after the other */
    int64_t offset = 0;
    for (int d = 0; d < rank; d++) offset = offset * to->shape.dims[d + 1] + at[d];
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(to, row * row_size + offset, from, done, run));
    for (int d = rank - 2; d >= 0 && ++at[d] == from->shape.dims[d]; d--) at[d] = 0;
  }
  return NULL;
}

static weft_status_t *stack_component(const weft_tensor_queue_t *q, const queue_operation_t *op, int i) {
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(batch_shape(q, op, i, &shape));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(q->config.dtypes[i], &shape, op->waiter.call.allocator, &t));
  op->waiter.call.outputs[i].tensor = t;
  if (q->config.kind == WEFT_QUEUE_PADDING && weft_dtype_is_plain(t->dtype) && t->bytes > 0) {
    memset(t->data, 0, t->bytes);
  }
  int64_t row = 0;
  for (const weft_tensor_queue_item_t *item = op->items; item != NULL; item = item->next, row++) {
    WEFT_RETURN_IF_ERROR(copy_padded(t, row, item->parts[i]));
  }
  return NULL;
}

static void finish_dequeue(weft_room_waiter_t *w) {
  queue_operation_t *op = (queue_operation_t *)w;
  weft_tensor_queue_t *q = queue_of(op);
  weft_status_t *s = weft_wait_failure(w);
  if (s != NULL) {
    operation_end(op, s);
    return;
  }
  if (op->outcome == NOT_ENOUGH) {
    s = WEFT_ERROR(
        OUT_OF_RANGE,
        "%s '%s' is closed and has insufficient elements (requested %" PRId64 ", current size %" PRId64 ")",
        op->is_many ? kind_names[q->config.kind] : plain_name(q), q->name, op->requested, op->found);
  } else if (op->is_many) {
    for (int i = 0; s == NULL && i < q->config.num_components; i++) s = stack_component(q, op, i);
  } else {
    for (int i = 0; i < q->config.num_components; i++) {
      w->call.outputs[i].tensor = op->items->parts[i];
      op->items->parts[i] = NULL;
    }
  }
  operation_end(op, s);
}

static void dequeue(weft_tensor_queue_t *q, const weft_resource_call_t *call, int64_t n, bool is_many,
                    bool is_up_to) {
  queue_operation_t *op = operation_new(q, call);
  if (op == NULL) return;
  op->wanted = n;
  op->is_many = is_many;
  op->is_up_to = is_up_to;
  op->waiter.line = OUT;
  op->waiter.cancelled = "Dequeue operation was cancelled";
  op->waiter.attempt = try_dequeue;
  op->waiter.finish = finish_dequeue;
  if (n == 0) { /* an empty batch of no tuples: nothing to wait for */
    weft_object_t *owner = op->waiter.owner;
    finish_dequeue(&op->waiter);
    weft_object_release(owner);
    return;
  }
  weft_wait(&q->room, &op->waiter);
}

void weft_tensor_queue_dequeue(weft_tensor_queue_t *q, const weft_resource_call_t *call) {
  dequeue(q, call, 1, false, false);
}

void weft_tensor_queue_dequeue_many(weft_tensor_queue_t *q, const weft_resource_call_t *call, int64_t n,
                                    bool is_up_to) {
  bool has_shapes = q->config.shapes != NULL;
  for (int i = 0; has_shapes && i < q->config.num_components; i++) has_shapes = q->config.shapes[i].rank >= 0;
  if (!has_shapes) {
    weft_resource_call_end(
        call, WEFT_ERROR(INVALID_ARGUMENT,
                         "%s's DequeueMany and DequeueUpTo require the components to have specified shapes.",
                         kind_names[q->config.kind]));
    return;
  }
  dequeue(q, call, n, true, is_up_to);
}

/* ---- close ---- */

/* A close stands in line behind the enqueues that came before it. */
HOLDS_ROOM static weft_wait_result_t try_close(weft_room_waiter_t *w) {
  queue_operation_t *op = (queue_operation_t *)w;
  weft_tensor_queue_t *q = queue_of(op);
  if (q->is_closed) op->outcome = QUEUE_CLOSED;
  q->is_closed = true;
  return WEFT_WAIT_DONE;
}

static void finish_close(weft_room_waiter_t *w) {
  queue_operation_t *op = (queue_operation_t *)w;
  weft_status_t *s = weft_wait_failure(w);
  if (s == NULL && op->outcome == QUEUE_CLOSED) {
    s = WEFT_ERROR(CANCELLED, "Queue '%s' is already closed.", queue_of(op)->name);
  }
  operation_end(op, s);
}

void weft_tensor_queue_close(weft_tensor_queue_t *q, const weft_resource_call_t *call, bool cancel_pending) {
  if (cancel_pending) {
    weft_mutex_lock(&q->room.mu);
    q->is_closed = true;
    weft_mutex_unlock(&q->room.mu);
    weft_wait_cancel_line(&q->room, IN);
    weft_resource_call_end(call, NULL);
    return;
  }
  queue_operation_t *op = operation_new(q, call);
  if (op == NULL) return;
  op->waiter.line = IN;
  op->waiter.cancelled = "Close operation was cancelled";
  op->waiter.attempt = try_close;
  op->waiter.finish = finish_close;
  weft_wait(&q->room, &op->waiter);
}
