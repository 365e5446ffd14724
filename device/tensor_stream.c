/* device/tensor_stream.c - a copy to the host, with a fence behind each part.
 *
 * The stream is held by its owner and by each part that is under way: neither the tensor nor the copy goes
 * while the device works on them.
 */
#include "device/tensor_stream.h"

#include "base/alloc.h"
#include "base/mutex.h"
#include "device/queue.h"

enum {
  LEAST_PART = 1 << 20, /* bytes: large beside the cost of a copy and a fence, small beside a tensor that
                         * is worth it */
  MOST_PARTS = 128,
};

typedef struct stream_part {
  weft_fence_waiter_t waiter;
  weft_tensor_stream_t *stream;
  size_t end; /* of its bytes */
} stream_part_t;

struct weft_tensor_stream {
  atomic_int refs;
  weft_tensor_t *from, *to; /* retained */
  weft_mutex_t mu;
  weft_cond_t changed;
  size_t there;                  /* guarded by mu: so many bytes, from the first on */
  bool has_ended;                /* guarded by mu: no more will come */
  weft_status_t *failure;        /* guarded by mu: why; owned */
  weft_stream_waiter_t *waiters; /* guarded by mu */
  stream_part_t parts[];
};

void weft_tensor_stream_release(weft_tensor_stream_t *s) {
  if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  weft_tensor_release(s->from);
  weft_tensor_release(s->to);
  weft_status_free(s->failure);
  weft_cond_deinit(&s->changed);
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}

/* Takes the waiters out of the list that wait no longer. */
static weft_stream_waiter_t *take_ready_locked(weft_tensor_stream_t *s) WEFT_REQUIRES(s->mu) {
  weft_stream_waiter_t *ready = NULL, **at = &s->waiters;
  while (*at != NULL) {
    weft_stream_waiter_t *w = *at;
    if (w->end <= s->there || s->has_ended) {
      *at = w->next;
      w->next = ready;
      ready = w;
    } else {
      at = &w->next;
    }
  }
  return ready;
}

/* What a waiter for the first `end` bytes is told. */
static weft_status_t *outcome_locked(const weft_tensor_stream_t *s, size_t end) {
  return end <= s->there ? NULL : weft_status_clone(s->failure);
}

/* The first `end` bytes are there, or no more will come. Consumes `status`: it has poisoned the queue, and
 * the device's own step fails with it, too. */
static void arrive(weft_tensor_stream_t *s, size_t end, weft_status_t *status) {
  weft_mutex_lock(&s->mu);
  if (status != NULL) {
    s->has_ended = true;
    if (s->failure == NULL) {
      s->failure = status;
      status = NULL;
    }
  } else if (s->there < end) { /* parts are done in order, but not told so */
    s->there = end;
  }
  weft_stream_waiter_t *ready = take_ready_locked(s);
  weft_cond_broadcast(&s->changed);
  weft_mutex_unlock(&s->mu);
  weft_status_free(status);
  while (ready != NULL) {
    weft_stream_waiter_t *w = ready;
    ready = w->next;
    weft_mutex_lock(&s->mu);
    weft_status_t *told = outcome_locked(s, w->end);
    weft_mutex_unlock(&s->mu);
    w->fn(w->arg, told);
  }
}

static void on_part(void *arg, weft_status_t *status) {
  stream_part_t *p = arg;
  weft_tensor_stream_t *s = p->stream;
  arrive(s, p->end, status);
  weft_tensor_stream_release(s);
}

/* Bytes [begin, end) of a tensor. */
static weft_status_t *part_of(weft_tensor_t *t, size_t begin, size_t end, weft_tensor_t **out) {
  weft_tensor_t *bytes = NULL;
  const weft_shape_t all = weft_shape_vector((int64_t)t->bytes);
  WEFT_RETURN_IF_ERROR(weft_tensor_view(t, WEFT_U8, &all, &bytes));
  weft_status_t *s = weft_tensor_slice(bytes, (int64_t)begin, (int64_t)(end - begin), out);
  weft_tensor_release(bytes);
  return s;
}

static weft_status_t *copy_part(weft_tensor_stream_t *s, weft_queue_t *q, size_t begin, size_t end) {
  weft_tensor_t *from = NULL, *to = NULL;
  weft_status_t *status = part_of(s->from, begin, end, &from);
  if (status == NULL) status = part_of(s->to, begin, end, &to);
  if (status == NULL) status = q->ops->copy(q, from, to);
  weft_tensor_release(from); /* the stream holds their bytes */
  weft_tensor_release(to);
  return status;
}

static void copy_parts(weft_tensor_stream_t *s, size_t num_parts) {
  weft_queue_t *q = s->from->space->device->copies_out;
  const size_t bytes = s->from->bytes, size = (bytes + num_parts - 1) / num_parts;
  weft_queue_wait(q, s->from->fence);
  for (size_t i = 0; i < num_parts; i++) {
    const size_t begin = i * size < bytes ? i * size : bytes;
    const size_t end = bytes - begin < size ? bytes : begin + size;
    weft_status_t *status = begin == end ? NULL : copy_part(s, q, begin, end);
    if (status != NULL) {
      arrive(s, 0, status);
      return;
    }
    stream_part_t *p = &s->parts[i];
    *p = (stream_part_t){.stream = s, .end = end};
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    weft_fence_then(weft_queue_mark(q), &p->waiter, on_part, p);
  }
}

weft_status_t *weft_tensor_stream_begin(weft_tensor_t *t, weft_tensor_stream_t **out) {
  weft_tensor_t *to = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->dtype, &t->shape, t->space->device->host_allocator, &to));
  size_t num_parts = t->bytes / LEAST_PART + 1;
  if (num_parts > MOST_PARTS) num_parts = MOST_PARTS;
  weft_tensor_stream_t *s = weft_calloc(1, sizeof *s + num_parts * sizeof s->parts[0]);
  if (s == NULL) {
    weft_tensor_release(to);
    return WEFT_NO_MEMORY("sending a tensor of %zu bytes", t->bytes);
  }
  atomic_init(&s->refs, 1);
  s->from = weft_tensor_retain(t);
  s->to = to;
  weft_mutex_init(&s->mu);
  weft_cond_init(&s->changed);
  copy_parts(s, num_parts);
  *out = s;
  return NULL;
}

const void *weft_tensor_stream_data(const weft_tensor_stream_t *s) { return s->to->data; }

size_t weft_tensor_stream_await(weft_tensor_stream_t *s, size_t at) {
  weft_mutex_lock(&s->mu);
  while (s->there <= at && !s->has_ended)
    weft_cond_wait(&s->changed, &s->mu); /* woken by arrive(): the device's queue calls back for each part */
  const size_t there = s->there > at ? s->there : 0;
  weft_mutex_unlock(&s->mu);
  return there;
}

void weft_tensor_stream_then(weft_tensor_stream_t *s, size_t end, weft_stream_waiter_t *w,
                             void (*fn)(void *arg, weft_status_t *status), void *arg) {
  *w = (weft_stream_waiter_t){.end = end, .fn = fn, .arg = arg};
  weft_mutex_lock(&s->mu);
  const bool waits = s->there < end && !s->has_ended;
  if (waits) {
    w->next = s->waiters;
    s->waiters = w;
  }
  weft_status_t *told = waits ? NULL : outcome_locked(s, end);
  weft_mutex_unlock(&s->mu);
  if (!waits) fn(arg, told);
}
