/* tests/device/late/late_queue.c - a thread that does its work in order, but late.
 *
 * Each piece of work has the value that the timeline had when it was enqueued. A fence has passed when no
 * piece of a smaller value is left. Work that fails poisons the timeline from its value on: what is behind it
 * is not done.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "tests/device/late/late.h"

typedef struct work {
  struct work *next;
  uint64_t value;
  weft_late_work_fn *fn;
  void *arg;
} work_t;

typedef struct late_queue {
  weft_queue_t base; /* first */
  weft_mutex_t mu;
  weft_cond_t changed;
  work_t *first, **last;        /* guarded by mu, as the rest; the first stays until it is done */
  weft_fence_waiter_t *waiters; /* any order */
  weft_status_t *poison;
  uint64_t poisoned_at; /* fences of larger values are */
  bool is_stopping;
  atomic_bool is_between; /* the last copy that was enqueued comes from another device; for a mutation */
  uint64_t random;        /* the thread's */
  pthread_t thread;
} late_queue_t;

static uint64_t done_below_locked(const late_queue_t *q) WEFT_REQUIRES(q->mu) {
  return q->first == NULL ? UINT64_MAX : q->first->value;
}

/* Takes the waiters whose fences have passed or will not. */
static weft_fence_waiter_t *take_waiters_locked(late_queue_t *q) WEFT_REQUIRES(q->mu) {
  weft_fence_waiter_t *taken = NULL, **at = &q->waiters;
  const uint64_t below = done_below_locked(q);
  while (*at != NULL) {
    weft_fence_waiter_t *w = *at;
    if (w->value > below && !(q->poison != NULL && w->value > q->poisoned_at)) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    w->next = taken;
    taken = w;
  }
  return taken;
}

static void tell(late_queue_t *q, weft_fence_waiter_t *w) {
  for (weft_fence_waiter_t *next; w != NULL; w = next) {
    next = w->next;
    weft_mutex_lock(&q->mu);
    weft_status_t *s = q->poison != NULL && w->value > q->poisoned_at ? weft_status_clone(q->poison) : NULL;
    weft_mutex_unlock(&q->mu);
    w->fn(w->arg, s);
  }
}

static void be_late(late_queue_t *q) {
  const int most = weft_late_options()->max_delay_us;
  if (most == 0) return;
  q->random = q->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  if ((q->random >> 60) % 4 != 0) return; /* mostly on time, else nothing would ever overtake */
  const int64_t ns = (int64_t)((q->random >> 33) % (uint64_t)most) * 1000;
  struct timespec pause = {0, ns};
  nanosleep(&pause, NULL);
}

static void *run(void *arg) {
  late_queue_t *q = arg;
  weft_mutex_lock(&q->mu);
  for (;;) {
    while (q->first == NULL && !q->is_stopping)
      weft_cond_wait(&q->changed, &q->mu); /* woken by enqueue and destroy */
    if (q->first == NULL) break;
    work_t *w = q->first;
    weft_status_t *poison = weft_status_clone(q->poison);
    weft_mutex_unlock(&q->mu);
    be_late(q);
    weft_status_t *failed = w->fn(w->arg, poison);
    weft_status_free(poison);
    weft_mutex_lock(&q->mu);
    q->first = w->next;
    if (q->first == NULL) q->last = &q->first;
    if (failed != NULL) {
      q->poison = failed;
      q->poisoned_at = w->value;
    }
    weft_fence_waiter_t *passed = take_waiters_locked(q);
    weft_mutex_unlock(&q->mu);
    weft_free(w);
    tell(q, passed);
    weft_mutex_lock(&q->mu);
  }
  weft_mutex_unlock(&q->mu);
  return NULL;
}

static void append(late_queue_t *q, work_t *w) {
  weft_mutex_lock(&q->mu);
  w->value = atomic_load_explicit(&q->base.last, memory_order_acquire);
  *q->last = w;
  q->last = &w->next;
  weft_cond_signal(&q->changed);
  weft_mutex_unlock(&q->mu);
}

bool weft_late_enqueue_always(weft_queue_t *base, weft_late_work_fn *fn, void *arg) {
  work_t *w = calloc(1, sizeof *w); /* none of the allocations that tests let fail */
  if (w == NULL) return false;
  *w = (work_t){.fn = fn, .arg = arg};
  append((late_queue_t *)(void *)base, w);
  return true;
}

weft_status_t *weft_late_enqueue(weft_queue_t *base, weft_late_work_fn *fn, void *arg) {
  work_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("work on the queue '%s'", base->name);
  *w = (work_t){.fn = fn, .arg = arg};
  append((late_queue_t *)(void *)base, w);
  return NULL;
}

/* ---- the interface ---- */

static bool has_passed(weft_queue_t *base, uint64_t value) {
  late_queue_t *q = (late_queue_t *)(void *)base;
  weft_mutex_lock(&q->mu);
  const bool passed = value <= done_below_locked(q) && !(q->poison != NULL && value > q->poisoned_at);
  weft_mutex_unlock(&q->mu);
  return passed;
}

static bool is_named(const weft_queue_t *q, const char *name) { return strcmp(q->name, name) == 0; }

static bool lacks_callback(const weft_queue_t *q) {
  switch (weft_late_options()->mutation) {
    case WEFT_LATE_HOST_BEFORE_COPY_OUT: return is_named(q, "copies out");
    case WEFT_LATE_HOST_BEFORE_COPY_IN: return is_named(q, "copies in");
    case WEFT_LATE_HOST_BEFORE_PEER_COPY:
      return atomic_load(&((const late_queue_t *)(const void *)q)->is_between);
    case WEFT_LATE_HOST_BEFORE_COMPUTE: return is_named(q, "compute");
    default: return false;
  }
}

static void then(weft_queue_t *base, weft_fence_waiter_t *w) {
  late_queue_t *q = (late_queue_t *)(void *)base;
  if (lacks_callback(base)) {
    w->fn(w->arg, NULL);
    return;
  }
  weft_mutex_lock(&q->mu);
  w->next = q->waiters;
  q->waiters = w;
  weft_fence_waiter_t *passed = take_waiters_locked(q);
  weft_mutex_unlock(&q->mu);
  tell(q, passed);
}

/* A queue that waits for another's fence. */
typedef struct gate {
  work_t work; /* first: freed with it */
  weft_fence_t fence;
  weft_fence_waiter_t waiter;
  weft_mutex_t mu;
  weft_cond_t opened;
  bool is_open;          /* guarded by mu */
  weft_status_t *status; /* guarded by mu */
} gate_t;

static void open_gate(void *arg, weft_status_t *status) {
  gate_t *g = arg;
  weft_mutex_lock(&g->mu);
  g->is_open = true;
  g->status = status;
  weft_cond_signal(&g->opened);
  weft_mutex_unlock(&g->mu);
}

static weft_status_t *pass_gate(void *arg, const weft_status_t *poison) {
  gate_t *g = arg;
  if (poison == NULL) {
    then(g->fence.queue, &g->waiter);
    weft_mutex_lock(&g->mu);
    while (!g->is_open)
      weft_cond_wait(&g->opened, &g->mu); /* woken by open_gate(): the work that it waits for is enqueued */
    weft_mutex_unlock(&g->mu);
  }
  weft_status_t *s = g->status;
  weft_cond_deinit(&g->opened);
  weft_mutex_deinit(&g->mu);
  return s;
}

static bool lacks_wait(const weft_queue_t *q, const weft_queue_t *other) {
  switch (weft_late_options()->mutation) {
    case WEFT_LATE_COMPUTE_BEFORE_COPY_IN: return is_named(q, "compute") && is_named(other, "copies in");
    case WEFT_LATE_COPY_OUT_BEFORE_COMPUTE: return is_named(q, "copies out") && is_named(other, "compute");
    case WEFT_LATE_COPY_IN_BEFORE_COMPUTE: return is_named(q, "copies in") && other == q->device->compute;
    case WEFT_LATE_COPY_IN_BEFORE_PEER: return is_named(q, "copies in") && other->device != q->device;
    default: return false;
  }
}

static void wait_for(weft_queue_t *base, weft_fence_t f) {
  if (lacks_wait(base, f.queue) || has_passed(f.queue, f.value)) return;
  gate_t *g =
      calloc(1, sizeof *g); /* waiting cannot fail, so this is none of the allocations that tests let fail */
  if (g == NULL) abort();
  weft_mutex_init(&g->mu);
  weft_cond_init(&g->opened);
  g->fence = f;
  g->waiter = (weft_fence_waiter_t){.value = f.value, .fn = open_gate, .arg = g};
  g->work.fn = pass_gate;
  g->work.arg = g;
  append((late_queue_t *)(void *)base, &g->work);
}

typedef struct copying {
  const char *from;
  char *to;
  size_t bytes;
} copying_t;

static weft_status_t *do_copy(void *arg, const weft_status_t *poison) {
  const copying_t *c = arg;
  if (poison == NULL && c->bytes > 0) memcpy(c->to, c->from, c->bytes);
  weft_free(arg);
  return NULL;
}

static void *bytes_of(const weft_tensor_t *t) {
  return t->space == NULL ? t->data : weft_late_bytes(t->space->device, t->data);
}

static weft_status_t *copy(weft_queue_t *q, const weft_tensor_t *from, weft_tensor_t *to) {
  copying_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a copy");
  *c = (copying_t){bytes_of(from), bytes_of(to), from->bytes};
  const bool is_between = from->space != NULL && to->space != NULL;
  weft_status_t *s = weft_late_enqueue(q, do_copy, c);
  if (s != NULL) weft_free(c);
  if (s == NULL) atomic_store(&((late_queue_t *)(void *)q)->is_between, is_between);
  return s;
}

weft_status_t *weft_late_queue_create(weft_device_t *d, const char *name, uint64_t seed, weft_queue_t **out) {
  static const weft_queue_ops_t ops = {
      .wait = wait_for, .has_passed = has_passed, .then = then, .copy = copy};
  late_queue_t *q = weft_calloc(1, sizeof *q);
  if (q == NULL) return WEFT_NO_MEMORY("a queue");
  q->base.ops = &ops;
  q->base.device = d;
  q->base.name = name;
  q->last = &q->first;
  q->random = seed;
  weft_mutex_init(&q->mu);
  weft_cond_init(&q->changed);
  if (pthread_create(&q->thread, NULL, run, q) != 0) {
    weft_cond_deinit(&q->changed);
    weft_mutex_deinit(&q->mu);
    weft_free(q);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for a queue");
  }
  *out = &q->base;
  return NULL;
}

void weft_late_queue_stop(weft_queue_t *base) {
  late_queue_t *q = (late_queue_t *)(void *)base;
  if (q == NULL) return;
  weft_mutex_lock(&q->mu);
  q->is_stopping = true;
  weft_cond_signal(&q->changed);
  weft_mutex_unlock(&q->mu);
  pthread_join(q->thread, NULL);
}

void weft_late_queue_destroy(weft_queue_t *base) {
  late_queue_t *q = (late_queue_t *)(void *)base;
  if (q == NULL) return;
  weft_status_free(q->poison);
  weft_cond_deinit(&q->changed);
  weft_mutex_deinit(&q->mu);
  weft_free(q);
}
