/* tests/device/late/late_queue.c - a thread that does its work in order, but late.
 *
 * Each piece of work has the value that the timeline had when it was enqueued. A fence has passed when no
 * piece of a smaller value is left. Work that fails poisons the timeline from its value on: what is behind it
 * is not done.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/device/late/late.h"

typedef struct work {
  struct work *next;
  uint64_t value;
  weft_late_work_fn *fn;
  void *arg;
} work_t;

struct weft_late_queue {
  weft_late_device_t *device;
  WEFT_QueueKind kind;
  const volatile uint64_t *marked;
  pthread_mutex_t mu;
  pthread_cond_t changed;
  work_t *first, **last;     /* guarded by mu, as the rest; the first stays until it is done */
  WEFT_FenceWaiter *waiters; /* any order */
  WEFT_Failure *poison;
  uint64_t poisoned_at; /* fences of larger values are */
  bool is_stopping;
  atomic_bool is_between; /* the last copy that was enqueued comes from another device; for a mutation */
  uint64_t random;        /* the thread's */
  pthread_t thread;
};

uint64_t weft_late_queue_marked(const weft_late_queue_t *q) {
  return __atomic_load_n(q->marked, __ATOMIC_ACQUIRE);
}

static uint64_t done_below_locked(const weft_late_queue_t *q) {
  return q->first == NULL ? UINT64_MAX : q->first->value;
}

/* Takes the waiters whose fences have passed or will not. */
static WEFT_FenceWaiter *take_waiters_locked(weft_late_queue_t *q) {
  WEFT_FenceWaiter *taken = NULL, **at = &q->waiters;
  const uint64_t below = done_below_locked(q);
  while (*at != NULL) {
    WEFT_FenceWaiter *w = *at;
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

static void tell(weft_late_queue_t *q, WEFT_FenceWaiter *w) {
  for (WEFT_FenceWaiter *next; w != NULL; w = next) {
    next = w->next;
    pthread_mutex_lock(&q->mu);
    const bool is_poisoned = q->poison != NULL && w->value > q->poisoned_at;
    WEFT_Failure *f = is_poisoned ? weft_late_host->failure_copy(q->poison) : NULL;
    pthread_mutex_unlock(&q->mu);
    w->fn(w, f);
  }
}

static void be_late(weft_late_queue_t *q) {
  const int most = weft_late_options()->max_delay_us;
  if (most == 0) return;
  q->random = q->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  if ((q->random >> 60) % 4 != 0) return; /* mostly on time, else nothing would ever overtake */
  const int64_t ns = (int64_t)((q->random >> 33) % (uint64_t)most) * 1000;
  struct timespec pause = {0, ns};
  nanosleep(&pause, NULL);
}

static void *run(void *arg) {
  weft_late_queue_t *q = arg;
  pthread_mutex_lock(&q->mu);
  for (;;) {
    while (q->first == NULL && !q->is_stopping)
      pthread_cond_wait(&q->changed, &q->mu); /* woken by append and stop */
    if (q->first == NULL) break;
    work_t *w = q->first;
    WEFT_Failure *poison = weft_late_host->failure_copy(q->poison);
    pthread_mutex_unlock(&q->mu);
    be_late(q);
    WEFT_Failure *failed = w->fn(w->arg, poison);
    weft_late_host->failure_free(poison);
    pthread_mutex_lock(&q->mu);
    q->first = w->next;
    if (q->first == NULL) q->last = &q->first;
    if (failed != NULL) {
      q->poison = failed;
      q->poisoned_at = w->value;
    }
    WEFT_FenceWaiter *passed = take_waiters_locked(q);
    pthread_mutex_unlock(&q->mu);
    free(w);
    tell(q, passed);
    pthread_mutex_lock(&q->mu);
  }
  pthread_mutex_unlock(&q->mu);
  return NULL;
}

static uint64_t append(weft_late_queue_t *q, work_t *w) {
  pthread_mutex_lock(&q->mu);
  const uint64_t value = w->value = weft_late_queue_marked(q);
  *q->last = w;
  q->last = &w->next;
  pthread_cond_signal(&q->changed);
  pthread_mutex_unlock(&q->mu);
  return value;
}

uint64_t weft_late_enqueue_always(weft_late_queue_t *q, weft_late_work_fn *fn, void *arg) {
  work_t *w = calloc(1, sizeof *w);
  if (w == NULL) abort();
  *w = (work_t){.fn = fn, .arg = arg};
  return append(q, w);
}

WEFT_Failure *weft_late_enqueue(weft_late_queue_t *q, weft_late_work_fn *fn, void *arg) {
  work_t *w = calloc(1, sizeof *w);
  if (w == NULL) return weft_late_host->failure(WEFT_LATE_RESOURCE_EXHAUSTED, "out of memory: work");
  *w = (work_t){.fn = fn, .arg = arg};
  append(q, w);
  return NULL;
}

/* ---- the interface ---- */

int weft_late_queue_has_passed(void *queue, uint64_t value) {
  weft_late_queue_t *q = queue;
  pthread_mutex_lock(&q->mu);
  const bool passed = value <= done_below_locked(q) && !(q->poison != NULL && value > q->poisoned_at);
  pthread_mutex_unlock(&q->mu);
  return passed;
}

static bool lacks_callback(weft_late_queue_t *q) {
  switch (weft_late_options()->mutation) {
    case WEFT_LATE_HOST_BEFORE_COPY_OUT: return q->kind == WEFT_QUEUE_COPIES_OUT;
    case WEFT_LATE_HOST_BEFORE_COPY_IN: return q->kind == WEFT_QUEUE_COPIES_IN;
    case WEFT_LATE_HOST_BEFORE_PEER_COPY: return atomic_load(&q->is_between);
    case WEFT_LATE_HOST_BEFORE_COMPUTE: return q->kind == WEFT_QUEUE_COMPUTE;
    default: return false;
  }
}

static void when(weft_late_queue_t *q, WEFT_FenceWaiter *w) {
  pthread_mutex_lock(&q->mu);
  w->next = q->waiters;
  q->waiters = w;
  WEFT_FenceWaiter *passed = take_waiters_locked(q);
  pthread_mutex_unlock(&q->mu);
  tell(q, passed);
}

void weft_late_queue_when(void *queue, WEFT_FenceWaiter *w) {
  if (lacks_callback(queue)) {
    w->fn(w, NULL);
  } else {
    when(queue, w);
  }
}

/* A queue that waits for another's fence. */
typedef struct gate {
  WEFT_FenceWaiter waiter; /* first */
  weft_late_queue_t *other;
  pthread_mutex_t mu;
  pthread_cond_t opened;
  bool is_open;          /* guarded by mu */
  WEFT_Failure *failure; /* guarded by mu */
} gate_t;

static void open_gate(WEFT_FenceWaiter *w, WEFT_Failure *failure) {
  gate_t *g = (gate_t *)(void *)w;
  pthread_mutex_lock(&g->mu);
  g->is_open = true;
  g->failure = failure;
  pthread_cond_signal(&g->opened);
  pthread_mutex_unlock(&g->mu);
}

static WEFT_Failure *pass_gate(void *arg, const WEFT_Failure *poison) {
  gate_t *g = arg;
  if (poison == NULL) {
    weft_late_queue_when(g->other, &g->waiter);
    pthread_mutex_lock(&g->mu);
    while (!g->is_open)
      pthread_cond_wait(&g->opened,
                        &g->mu); /* woken by open_gate(): the work that it waits for is enqueued */
    pthread_mutex_unlock(&g->mu);
  }
  WEFT_Failure *f = g->failure;
  pthread_cond_destroy(&g->opened);
  pthread_mutex_destroy(&g->mu);
  free(g);
  return f;
}

static bool lacks_wait(const weft_late_queue_t *q, const weft_late_queue_t *other) {
  const bool is_copy_in = q->kind == WEFT_QUEUE_COPIES_IN;
  const bool are_peers =
      q->kind == WEFT_QUEUE_COMPUTE && other->kind == WEFT_QUEUE_COMPUTE && other->device != q->device;
  switch (weft_late_options()->mutation) {
    case WEFT_LATE_COMPUTE_BEFORE_COPY_IN:
      return q->kind == WEFT_QUEUE_COMPUTE && other->kind == WEFT_QUEUE_COPIES_IN;
    case WEFT_LATE_COPY_OUT_BEFORE_COMPUTE:
      return q->kind == WEFT_QUEUE_COPIES_OUT && other->kind == WEFT_QUEUE_COMPUTE;
    case WEFT_LATE_COPY_IN_BEFORE_COMPUTE:
      return is_copy_in && other->kind == WEFT_QUEUE_COMPUTE && other->device == q->device;
    case WEFT_LATE_COPY_IN_BEFORE_PEER: return is_copy_in && other->device != q->device;
    case WEFT_LATE_FIRST_BEFORE_OTHERS: return are_peers && weft_late_ordinal(q->device) == 0;
    case WEFT_LATE_OTHERS_BEFORE_FIRST: return are_peers && weft_late_ordinal(q->device) != 0;
    default: return false;
  }
}

void weft_late_queue_wait(void *queue, void *other_queue, uint64_t value) {
  weft_late_queue_t *q = queue, *other = other_queue;
  if (lacks_wait(q, other) || weft_late_queue_has_passed(other, value)) return;
  gate_t *g = calloc(1, sizeof *g); /* waiting cannot fail */
  if (g == NULL) abort();
  pthread_mutex_init(&g->mu, NULL);
  pthread_cond_init(&g->opened, NULL);
  g->other = other;
  g->waiter = (WEFT_FenceWaiter){.value = value, .fn = open_gate};
  weft_late_enqueue_always(q, pass_gate, g);
}

typedef struct copying {
  const char *from;
  char *to;
  size_t bytes;
} copying_t;

static WEFT_Failure *do_copy(void *arg, const WEFT_Failure *poison) {
  const copying_t *c = arg;
  if (poison == NULL && c->bytes > 0) memcpy(c->to, c->from, c->bytes);
  free(arg);
  return NULL;
}

static void *bytes_of(const weft_late_device_t *d, const void *p) {
  void *at = (void *)(uintptr_t)p;
  return d == NULL ? at : weft_late_bytes(d, at);
}

WEFT_Failure *weft_late_queue_copy(void *queue, void *from_device, const void *from, void *to_device,
                                   void *to, size_t bytes) {
  weft_late_queue_t *q = queue;
  copying_t *c = calloc(1, sizeof *c);
  if (c == NULL) return weft_late_host->failure(WEFT_LATE_RESOURCE_EXHAUSTED, "out of memory: a copy");
  *c = (copying_t){bytes_of(from_device, from), bytes_of(to_device, to), bytes};
  WEFT_Failure *f = weft_late_enqueue(q, do_copy, c);
  if (f != NULL) free(c);
  if (f == NULL) atomic_store(&q->is_between, from_device != NULL && to_device != NULL);
  return f;
}

/* ---- life ---- */

weft_late_queue_t *weft_late_queue_create(weft_late_device_t *d, WEFT_QueueKind kind, uint64_t seed,
                                          const volatile uint64_t *marked) {
  weft_late_queue_t *q = calloc(1, sizeof *q);
  if (q == NULL) return NULL;
  q->device = d;
  q->kind = kind;
  q->marked = marked;
  q->last = &q->first;
  q->random = seed;
  pthread_mutex_init(&q->mu, NULL);
  pthread_cond_init(&q->changed, NULL);
  if (pthread_create(&q->thread, NULL, run, q) == 0) return q;
  pthread_cond_destroy(&q->changed);
  pthread_mutex_destroy(&q->mu);
  free(q);
  return NULL;
}

void weft_late_queue_stop(weft_late_queue_t *q) {
  if (q == NULL) return;
  pthread_mutex_lock(&q->mu);
  q->is_stopping = true;
  pthread_cond_signal(&q->changed);
  pthread_mutex_unlock(&q->mu);
  pthread_join(q->thread, NULL);
}

void weft_late_queue_destroy(weft_late_queue_t *q) {
  if (q == NULL) return;
  weft_late_host->failure_free(q->poison);
  pthread_cond_destroy(&q->changed);
  pthread_mutex_destroy(&q->mu);
  free(q);
}
