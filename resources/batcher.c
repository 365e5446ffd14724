/* resources/batcher.c - queues of requests, and when their batches run.
 *
 * A queue is a list of batches that are not empty; the last one is open: requests are added to it. It runs
 * when another has been begun behind it, when it is full, or when it is old enough.
 *
 * A request ends once: `is_ended` is set under `mu` by the thread that ends it, which has a hold on it
 * (counted in num_left) until it has left the canceller and called done. The last hold or piece to go frees
 * it.
 *
 * Locking: `mu` is a leaf but for the timer's own lock.
 */
#include "resources/batcher.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"

typedef struct batch_queue {
  weft_str_t name;            /* owned */
  weft_batch_t *first, *last; /* the last one is open */
  int64_t num_batches;
  int64_t open_since_ns; /* of weft_clock_ns(); when the open batch got its first request */
} batch_queue_t;

struct weft_batcher {
  weft_object_t object; /* first */
  weft_batcher_options_t options;
  int64_t *sizes; /* owned; those of the options */
  weft_timer_t *timer;
  weft_mutex_t mu;
  batch_queue_t **queues; /* guarded by mu, as what follows */
  int num_queues, next_queue;
  int64_t num_running;
  bool is_abandoned;
  bool is_armed; /* the timer has an entry, which holds a reference to the batcher */
  uint64_t timer_id;
};

static void abandon(weft_object_t *o);
const weft_resource_type_t weft_batcher_type = {
    .name = "N10tensorflow12_GLOBAL__N_113BatchResourceE", .text = "BatchResource", .abandon = abandon};

/* A negative limit is none: TensorFlow keeps it in an unsigned number, but for adaptive batchers. */
static int64_t limit(int64_t n) { return n < 0 ? INT64_MAX : n; }

static void destroy(weft_object_t *o) {
  weft_batcher_t *b = (weft_batcher_t *)o;
  for (int i = 0; i < b->num_queues; i++) {
    weft_free((void *)(uintptr_t)b->queues[i]->name.data);
    weft_free(b->queues[i]);
  }
  weft_free(b->queues);
  weft_free(b->sizes);
  weft_mutex_deinit(&b->mu);
  weft_free(b);
}

weft_status_t *weft_batcher_create(const weft_batcher_options_t *options, weft_timer_t *timer,
                                   weft_object_t **out) {
  if (options->max_running < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_batch_threads must be positive; was %" PRId64,
                      options->max_running);
  }
  weft_batcher_t *b = weft_calloc(1, sizeof *b);
  int64_t *sizes = weft_calloc((size_t)options->num_sizes + 1, sizeof *sizes);
  if (b == NULL || sizes == NULL) {
    weft_free(b);
    weft_free(sizes);
    return WEFT_NO_MEMORY("creating a batcher");
  }
  for (int i = 0; i < options->num_sizes; i++) sizes[i] = options->sizes[i];
  atomic_init(&b->object.refs, 1);
  b->object.destroy = destroy;
  b->options = *options;
  b->options.sizes = b->sizes = sizes;
  if (!options->is_adaptive) {
    b->options.max_request_rows = limit(options->max_request_rows);
    b->options.max_batch_rows = limit(options->max_batch_rows);
    b->options.max_batches = limit(options->max_batches);
  }
  b->timer = timer;
  weft_mutex_init(&b->mu);
  *out = &b->object;
  return NULL;
}

/* ---- rows ---- */

weft_status_t *weft_batch_join(weft_tensor_t *const *parts, int n, weft_allocator_t *allocator,
                               weft_tensor_t **out) {
  weft_shape_t shape = parts[0]->shape;
  shape.dims[0] = 0;
  for (int i = 0; i < n; i++) {
    const weft_shape_t *part = &parts[i]->shape;
    bool fits = part->rank == shape.rank;
    for (int d = 1; fits && d < shape.rank; d++) fits = part->dims[d] == shape.dims[d];
    if (!fits) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s should match: shape[0] = %s vs. shape[%d] = %s",
                        part->rank != shape.rank ? "Ranks of all input tensors" : "Dimensions of inputs",
                        WEFT_SHAPE_TEXT(&parts[0]->shape), i, WEFT_SHAPE_TEXT(part));
    }
    shape.dims[0] += part->dims[0];
  }
  if (n == 1) {
    *out = weft_tensor_retain(parts[0]);
    return NULL;
  }
  weft_tensor_t *joined = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(parts[0]->dtype, &shape, allocator, &joined));
  weft_status_t *s = NULL;
  int64_t at = 0;
  for (int i = 0; s == NULL && i < n; i++) {
    s = weft_tensor_copy_elements(joined, at, parts[i], 0, parts[i]->count);
    at += parts[i]->count;
  }
  if (s == NULL) *out = joined;
  if (s != NULL) weft_tensor_release(joined);
  return s;
}

/* ---- requests ---- */

static void request_free(weft_batch_request_t *r) {
  for (int i = 0; i < r->num_pieces; i++) {
    weft_batch_piece_t *p = &r->pieces[i];
    for (int k = 0; p->results != NULL && k < r->spec.num_results; k++) weft_tensor_release(p->results[k]);
    weft_free(p->results);
  }
  for (int i = 0; r->inputs != NULL && i < r->spec.num_inputs; i++) weft_tensor_release(r->inputs[i]);
  weft_free(r->inputs);
  weft_free(r->pieces);
  weft_status_free(r->status);
  weft_object_release(&r->batcher->object);
  weft_free(r);
}

/* Gives a hold back. */
static void request_let_go(weft_batch_request_t *r) {
  weft_mutex_lock(&r->batcher->mu);
  const bool is_last = --r->num_left == 0;
  weft_mutex_unlock(&r->batcher->mu);
  if (is_last) request_free(r);
}

/* Ends a request that the caller has marked as ended, and holds. */
static void request_end(weft_batch_request_t *r, weft_status_t *status) {
  weft_canceller_deregister(r->spec.call.canceller, r->token);
  weft_resource_call_end(&r->spec.call, status);
  request_let_go(r);
}

/* The results of all pieces become the call's outputs. */
static weft_status_t *request_give_results(const weft_batch_request_t *r) {
  const weft_resource_call_t *call = &r->spec.call;
  weft_tensor_t **parts = weft_calloc((size_t)r->num_pieces, sizeof(*parts));
  weft_status_t *s = parts == NULL ? WEFT_NO_MEMORY("the results of a batch") : NULL;
  for (int i = 0; s == NULL && i < r->spec.num_results; i++) {
    for (int k = 0; k < r->num_pieces; k++) parts[k] = r->pieces[k].results[i];
    s = weft_batch_join(parts, r->num_pieces, call->allocator, &call->outputs[i].tensor);
  }
  weft_free(parts);
  return s;
}

static weft_status_t *request_new(weft_batcher_t *b, const weft_batch_spec_t *spec,
                                  weft_batch_request_t **out) {
  weft_batch_request_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("a request of a batch");
  r->spec = *spec;
  r->batcher = b;
  weft_object_retain(&b->object);
  r->num_left = 1; /* a hold of weft_batcher_add */
  r->inputs = weft_calloc((size_t)spec->num_inputs, sizeof(*r->inputs));
  if (r->inputs == NULL) {
    request_free(r);
    return WEFT_NO_MEMORY("a request of a batch");
  }
  for (int i = 0; i < spec->num_inputs; i++) r->inputs[i] = weft_tensor_retain(spec->inputs[i].tensor);
  *out = r;
  return NULL;
}

/* ---- queues ---- */

static weft_status_t *find_queue(weft_batcher_t *b, weft_str_t name, batch_queue_t **out) {
  for (int i = 0; i < b->num_queues; i++) {
    *out = b->queues[i];
    if (weft_str_eq(b->queues[i]->name, name)) return NULL;
  }
  batch_queue_t **grown = weft_realloc(b->queues, (size_t)b->num_queues + 1, sizeof(*grown));
  if (grown != NULL) b->queues = grown;
  batch_queue_t *q = weft_calloc(1, sizeof *q);
  char *copy = weft_strndup(name.length == 0 ? "" : name.data, name.length);
  if (grown == NULL || q == NULL || copy == NULL) {
    weft_free(q);
    weft_free(copy);
    return WEFT_NO_MEMORY("a queue of batches");
  }
  q->name = weft_str_of(copy, name.length);
  *out = b->queues[b->num_queues++] = q;
  return NULL;
}

static weft_status_t *not_positive(const char *what, int64_t is) {
  return WEFT_ERROR(INVALID_ARGUMENT, "%s must be positive; was %" PRId64, what, is);
}

static weft_status_t *check_adaptive(const weft_batcher_options_t *o) {
  if (o->max_batch_rows <= 0) return not_positive("max_batch_size", o->max_batch_rows);
  if (o->max_batches <= 0) return not_positive("max_enqueued_batches", o->max_batches);
  if (o->max_request_rows >= o->max_batch_rows) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "max_input_task_size must be larger than or equal to max_batch_size;got "
                    "max_input_task_size as %" PRId64 " and max_batch_size as %" PRId64,
                    o->max_request_rows, o->max_batch_rows);
}

static weft_status_t *check_options(const weft_batcher_options_t *o) {
  if (o->is_adaptive) return check_adaptive(o);
  if (o->max_request_rows == 0) return not_positive("input_batch_size_limit", 0);
  if (o->timeout_micros < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "batch_timeout_micros must be non-negative; was %" PRId64,
                      o->timeout_micros);
  }
  if (o->splits && o->max_batches == 0) return not_positive("max_enqueued_batches", 0);
  if (o->splits && o->max_batch_rows == 0) return not_positive("the last of allowed_batch_sizes", 0);
  if (o->splits && o->max_request_rows < o->max_batch_rows) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "When enable_large_batch_splitting is true, input_batch_size_limit must be greater than "
        "or equal to max_execution_batch_size.");
  }
  return NULL;
}

static weft_status_t *too_large(const weft_batcher_options_t *o, int64_t rows) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Task size %" PRId64 " is larger than %s %" PRId64, rows,
                    o->is_adaptive ? "max input task size" : "maximum input batch size", o->max_request_rows);
}

/* Is there room for a request? A batcher that does not split looks only at batches, as TensorFlow does. */
static weft_status_t *check_room(const weft_batcher_options_t *o, const batch_queue_t *q, int64_t rows) {
  const int64_t open = q->last == NULL ? 0 : q->last->rows;
  const int64_t n = q->num_batches < 1 ? 1 : q->num_batches; /* an empty one is open */
  if (!o->splits) {
    if (rows <= o->max_batch_rows - open || n < o->max_batches) return NULL;
    return WEFT_ERROR(
        UNAVAILABLE,
        "The batch scheduling queue to which this task was submitted is full; currently %" PRId64
        " batches enqueued and max_enqueued_batches is %" PRId64,
        n, o->max_batches);
  }
  int64_t room = o->max_batches - n; /* batches, then rows */
  if (__builtin_mul_overflow(room, o->max_batch_rows, &room) ||
      __builtin_add_overflow(room, o->max_batch_rows - open, &room) || rows <= room) {
    return NULL;
  }
  if (o->is_adaptive) return WEFT_ERROR(UNAVAILABLE, "The batch scheduling queue is full");
  return WEFT_ERROR(
      UNAVAILABLE,
      "The batch scheduling queue to which this task was submitted is full; task size is %" PRId64
      " but scheduling capacity is only %" PRId64 " (num_enqueued_batches=%" PRId64
      ", max_enqueued_batches=%" PRId64 ", open_batch_size=%" PRId64 ", max_execution_batch_size=%" PRId64
      ")",
      rows, room, n, o->max_batches, open, o->max_batch_rows);
}

/* How many rows of a request go into the next piece; `open` are in the open batch. */
static int64_t piece_rows(const weft_batcher_options_t *o, int64_t open, int64_t rows) {
  const int64_t room = o->max_batch_rows - open;
  if (!o->splits || rows <= room) return rows;
  return room > 0 ? room : (rows < o->max_batch_rows ? rows : o->max_batch_rows);
}

/* Makes pieces, in which the request goes behind the open batch. */
static weft_status_t *make_pieces(const weft_batcher_options_t *o, const batch_queue_t *q,
                                  weft_batch_request_t *r) {
  int64_t left = r->spec.rows, open = q->last == NULL ? 0 : q->last->rows;
  for (int n = 0; left > 0; n++) { /* counts, before there are any */
    left -= piece_rows(o, open, left);
    open = o->max_batch_rows;
    r->num_pieces = n + 1;
  }
  r->pieces = weft_calloc((size_t)r->num_pieces, sizeof *r->pieces);
  if (r->pieces == NULL) {
    r->num_pieces = 0;
    return WEFT_NO_MEMORY("a request of a batch");
  }
  left = r->spec.rows;
  open = q->last == NULL ? 0 : q->last->rows;
  for (int i = 0; i < r->num_pieces; i++) {
    weft_batch_piece_t *p = &r->pieces[i];
    *p = (weft_batch_piece_t){
        .request = r, .first_row = r->spec.rows - left, .rows = piece_rows(o, open, left)};
    p->results = weft_calloc((size_t)r->spec.num_results + 1, sizeof(*p->results));
    if (p->results == NULL) return WEFT_NO_MEMORY("a request of a batch");
    left -= p->rows;
    open = o->max_batch_rows;
  }
  return NULL;
}

/* Appends a piece, to a new batch where the open one has no room for it. */
static void append(weft_batcher_t *b, batch_queue_t *q, weft_batch_piece_t *p, weft_batch_t **spares) {
  weft_batch_t *open = q->last;
  if (open == NULL || p->rows > b->options.max_batch_rows - open->rows) {
    weft_batch_t *fresh = *spares;
    *spares = fresh->next;
    *fresh = (weft_batch_t){.batcher = b};
    if (open != NULL) open->next = fresh;
    if (open == NULL) q->first = fresh;
    q->last = open = fresh;
    q->num_batches++;
    q->open_since_ns = weft_clock_ns();
  }
  if (open->last != NULL) open->last->next = p;
  if (open->last == NULL) open->first = p;
  open->last = p;
  open->num_pieces++;
  open->rows += p->rows;
}

static weft_status_t *make_spares(int n, weft_batch_t **out) {
  for (int i = 0; i < n; i++) {
    weft_batch_t *spare = weft_calloc(1, sizeof *spare);
    if (spare == NULL) return WEFT_NO_MEMORY("a batch");
    spare->next = *out;
    *out = spare;
  }
  return NULL;
}

static void free_batches(weft_batch_t *b) {
  for (weft_batch_t *next; b != NULL; b = next) {
    next = b->next;
    weft_free(b);
  }
}

/* The caller holds mu. After a failure nothing is queued. */
static weft_status_t *enqueue(weft_batcher_t *b, weft_str_t queue, weft_batch_request_t *r) {
  const weft_batcher_options_t *o = &b->options;
  batch_queue_t *q = NULL;
  if (b->is_abandoned) return WEFT_ERROR(CANCELLED, "The batcher is gone");
  WEFT_RETURN_IF_ERROR(check_options(o));
  WEFT_RETURN_IF_ERROR(find_queue(b, queue, &q));
  if (r->spec.rows > o->max_request_rows) return too_large(o, r->spec.rows);
  WEFT_RETURN_IF_ERROR(check_room(o, q, r->spec.rows));
  WEFT_RETURN_IF_ERROR(make_pieces(o, q, r));
  weft_batch_t *spares = NULL;
  weft_status_t *s = make_spares(r->num_pieces, &spares);
  for (int i = 0; s == NULL && i < r->num_pieces; i++) append(b, q, &r->pieces[i], &spares);
  if (s == NULL) r->num_left = r->num_pieces; /* its pieces take the place of the hold */
  free_batches(spares);
  return s;
}

/* ---- which batches run ---- */

static int64_t open_until_ns(const weft_batcher_t *b, const batch_queue_t *q) {
  int64_t ns;
  if (__builtin_mul_overflow(b->options.timeout_micros, 1000, &ns) ||
      __builtin_add_overflow(q->open_since_ns, ns, &ns)) {
    return INT64_MAX;
  }
  return ns;
}

static bool may_run(const weft_batcher_t *b, const batch_queue_t *q) {
  if (q->first == NULL) return false;
  return q->num_batches > 1 || q->first->rows >= b->options.max_batch_rows ||
         weft_clock_ns() >= open_until_ns(b, q);
}

/* Takes `batch`, which follows `before` (NULL: the first), off the queue. */
static void unlink_batch(batch_queue_t *q, weft_batch_t *before, weft_batch_t *batch) {
  if (before != NULL) before->next = batch->next;
  if (before == NULL) q->first = batch->next;
  if (q->last == batch) q->last = before;
  q->num_batches--;
  batch->next = NULL;
}

/* How many rows of an open batch of `rows` are enough for now. */
static int64_t rows_enough(const weft_batcher_options_t *o, int64_t rows) {
  int64_t below = rows;
  for (int i = 0; o->leaves_rest && i < o->num_sizes; i++) {
    if (o->sizes[i] == rows) return rows;
    if (o->sizes[i] > rows) return below;
    below = o->sizes[i];
  }
  return rows;
}

/* Leaves what is too much for the open batch, which is the only one, to a new one; without memory for that
 * the batch keeps it. The new one is as old as it would be if rows had come at a steady rate. */
static void leave_rest(const weft_batcher_t *b, batch_queue_t *q) {
  weft_batch_t *batch = q->first;
  const int64_t enough = rows_enough(&b->options, batch->rows);
  weft_batch_piece_t *last = NULL, *rest = batch->first;
  int64_t rows = 0;
  int n = 0;
  for (; rest != NULL && rows + rest->rows <= enough; rest = rest->next, n++) {
    rows += rest->rows;
    last = rest;
  }
  if (rest == NULL || rows != enough) return;
  weft_batch_t *fresh = weft_calloc(1, sizeof *fresh);
  if (fresh == NULL) return;
  *fresh = (weft_batch_t){.first = rest,
                          .last = batch->last,
                          .num_pieces = batch->num_pieces - n,
                          .rows = batch->rows - rows,
                          .batcher = batch->batcher};
  const double share = (double)rows / (double)batch->rows;
  q->open_since_ns += (int64_t)(share * (double)(weft_clock_ns() - q->open_since_ns));
  last->next = NULL;
  batch->last = last;
  batch->num_pieces = n;
  batch->rows = rows;
  batch->next = q->last = fresh;
  q->num_batches++;
}

/* Takes what may run, a batch from each queue in turn; returns the end of the list. The caller holds mu. */
static weft_batch_t **take_batches(weft_batcher_t *b, weft_batch_t **tail) {
  for (int idle = 0; idle < b->num_queues && b->num_running < b->options.max_running;) {
    batch_queue_t *q = b->queues[b->next_queue];
    b->next_queue = (b->next_queue + 1) % b->num_queues;
    idle++;
    if (!may_run(b, q)) continue;
    if (q->num_batches == 1) leave_rest(b, q);
    weft_batch_t *batch = q->first;
    unlink_batch(q, NULL, batch);
    batch->last->request->num_led++;
    b->num_running++;
    weft_object_retain(&b->object); /* until weft_batch_end */
    *tail = batch;
    tail = &batch->next;
    idle = 0;
  }
  return tail;
}

static void on_time(void *arg);

/* Arms the timer for the first open batch that gets old enough; without memory for an entry (false) it is so
 * at once. The caller holds mu. */
static bool arm(weft_batcher_t *b) {
  int64_t first = INT64_MAX;
  batch_queue_t *of = NULL;
  for (int i = 0; !b->is_armed && i < b->num_queues; i++) {
    batch_queue_t *q = b->queues[i];
    if (q->first == NULL || may_run(b, q) || open_until_ns(b, q) >= first) continue;
    first = open_until_ns(b, q);
    of = q;
  }
  if (of == NULL) return true;
  weft_status_t *s = weft_timer_add(b->timer, first, on_time, b, &b->timer_id);
  b->is_armed = s == NULL;
  if (s == NULL) weft_object_retain(&b->object);
  if (s != NULL) of->open_since_ns = 0;
  weft_status_free(s);
  return b->is_armed;
}

/* Starts what may run. The caller has a reference to the batcher. */
static void dispatch(weft_batcher_t *b) {
  weft_batch_t *batch = NULL, **tail = &batch;
  weft_mutex_lock(&b->mu);
  do {
    tail = take_batches(b, tail);
  } while (!arm(b));
  weft_mutex_unlock(&b->mu);
  for (weft_batch_t *next; batch != NULL; batch = next) {
    next = batch->next;
    batch->next = NULL;
    batch->last->request->spec.run(batch);
  }
}

static void on_time(void *arg) {
  weft_batcher_t *b = arg;
  weft_mutex_lock(&b->mu);
  b->is_armed = false;
  weft_mutex_unlock(&b->mu);
  dispatch(b);
  weft_object_release(&b->object);
}

/* A piece is over, with the batch's outcome: that of all pieces, and of the request. Returns whether the
 * caller ends the request, which it then holds. */
static bool end_piece(weft_batch_request_t *r, const weft_status_t *status) {
  weft_batcher_t *b = r->batcher;
  weft_mutex_lock(&b->mu);
  if (status != NULL && r->status == NULL) r->status = weft_status_clone(status);
  const bool is_last = r->num_left == 1;
  const bool ends = is_last && !r->is_ended;
  if (ends) r->is_ended = true; /* and the piece's count becomes the hold */
  if (!ends) r->num_left--;
  weft_mutex_unlock(&b->mu);
  if (is_last && !ends) request_free(r);
  return ends;
}

void weft_batch_end(weft_batch_t *batch, weft_status_t *status) {
  weft_batcher_t *b = batch->batcher;
  weft_mutex_lock(&b->mu);
  b->num_running--;
  batch->last->request->num_led--;
  weft_mutex_unlock(&b->mu);
  for (weft_batch_piece_t *p = batch->first, *next; p != NULL; p = next) {
    weft_batch_request_t *r = p->request;
    next = p->next;
    if (!end_piece(r, status)) continue;
    weft_status_t *s = r->status;
    r->status = NULL;
    if (s == NULL) s = request_give_results(r);
    request_end(r, s);
  }
  weft_status_free(status);
  weft_free(batch);
  dispatch(b);
  weft_object_release(&b->object);
}

/* ---- cancellation ---- */

/* Takes the request's pieces out of their queues. The caller holds mu. */
static void dequeue(weft_batcher_t *b, weft_batch_request_t *r) {
  for (int i = 0; i < b->num_queues; i++) {
    batch_queue_t *q = b->queues[i];
    weft_batch_t *before = NULL;
    for (weft_batch_t *batch = q->first, *next; batch != NULL; batch = next) {
      next = batch->next;
      weft_batch_piece_t **at = &batch->first, *last = NULL;
      while (*at != NULL) {
        weft_batch_piece_t *p = *at;
        if (p->request != r) {
          last = p;
          at = &p->next;
          continue;
        }
        *at = p->next;
        batch->rows -= p->rows;
        batch->num_pieces--;
        r->num_left--;
      }
      batch->last = last;
      if (batch->first != NULL) {
        before = batch;
        continue;
      }
      unlink_batch(q, before, batch);
      weft_free(batch);
    }
  }
}

/* Returns whether the caller ends the request, which it then holds. The caller holds mu. */
static bool cancel(weft_batcher_t *b, weft_batch_request_t *r) {
  if (r->is_ended) return false;
  r->num_left++;
  dequeue(b, r);
  if (r->num_led == 0) {
    r->is_ended = true;
    return true;
  }
  r->num_left--; /* its batches end it */
  if (r->status == NULL) r->status = WEFT_ERROR(CANCELLED, "Batching was cancelled.");
  return false;
}

/* The canceller's callback. */
static void on_cancel(void *arg) {
  weft_batch_request_t *r = arg;
  weft_batcher_t *b = r->batcher;
  weft_mutex_lock(&b->mu);
  const bool ends = cancel(b, r);
  weft_mutex_unlock(&b->mu);
  if (!ends) return;
  const weft_resource_call_t call = r->spec.call;
  request_let_go(r); /* what is called here need not be deregistered */
  weft_resource_call_end(&call, WEFT_ERROR(CANCELLED, "Batching was cancelled."));
}

/* A request that waits; NULL: none does. The caller holds mu. */
static weft_batch_request_t *find_queued(weft_batcher_t *b) {
  for (int i = 0; i < b->num_queues; i++) {
    if (b->queues[i]->first != NULL) return b->queues[i]->first->first->request;
  }
  return NULL;
}

static void abandon(weft_object_t *o) {
  weft_batcher_t *b = (weft_batcher_t *)o;
  weft_mutex_lock(&b->mu);
  b->is_abandoned = true;
  for (weft_batch_request_t *r; (r = find_queued(b)) != NULL;) {
    const bool ends = cancel(b, r);
    weft_mutex_unlock(&b->mu);
    if (ends) request_end(r, WEFT_ERROR(CANCELLED, "Batching was cancelled."));
    weft_mutex_lock(&b->mu);
  }
  const bool was_armed = b->is_armed;
  const uint64_t timer_id = b->timer_id;
  weft_mutex_unlock(&b->mu);
  if (!was_armed || !weft_timer_remove(b->timer, timer_id)) return; /* it has run, or is running */
  weft_object_release(o);
}

void weft_batcher_add(weft_batcher_t *b, weft_str_t queue, const weft_batch_spec_t *spec) {
  weft_batch_request_t *r = NULL;
  weft_status_t *s = request_new(b, spec, &r);
  if (s == NULL && !weft_canceller_register(spec->call.canceller, on_cancel, r, &r->token)) {
    request_free(r);
    s = weft_canceller_is_cancelled(spec->call.canceller) ? WEFT_ERROR(CANCELLED, "Batching was cancelled.")
                                                          : WEFT_NO_MEMORY("a batch");
  }
  if (s != NULL) {
    weft_resource_call_end(&spec->call, s);
    return;
  }
  weft_mutex_lock(&b->mu);
  const bool is_cancelled = r->is_ended;
  if (!is_cancelled) s = enqueue(b, queue, r);
  r->is_ended = is_cancelled || s != NULL;
  weft_mutex_unlock(&b->mu);
  if (is_cancelled) request_let_go(r);
  if (s != NULL) request_end(r, s);
  dispatch(b);
}
