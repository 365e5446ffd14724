/* base/thread_pool.c - threads with a deque each, stealing from one another.
 *
 * A thread pushes and pops its own deque at the back; thieves take from the
 * front, where the oldest and so the largest pieces lie. Work from outside goes
 * to one more deque that has no thread.
 *
 * Sleeping: `queued` counts closures in all deques, `sleepers` threads that wait
 * or are about to. A submitter raises `queued`, then looks at `sleepers`; a
 * thread raises `sleepers`, then looks at `queued`. Both are sequentially
 * consistent, so one of the two sees the other and no wake-up is lost.
 *
 * A thread without work looks for some for twice as long as waking it would take: loops often follow each
 * other closely, and one that finds their helper awake costs no system call.
 *
 * Locking: each deque's `mu` and the pool's `mu` are leaves. A deque allocates
 * under its lock only to double, which happens a few times in its life.
 */
#include "base/thread_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/float_mode.h"
#include "base/mutex.h"
#include "base/parallel_for.h"

typedef struct pool_work {
  weft_work_fn *fn;
  void *arg;
} pool_work_t;

typedef struct deque {
  weft_mutex_t mu;
  pool_work_t *ring;    /* guarded by mu; `capacity` entries, a power of two */
  size_t capacity;      /* guarded by mu */
  size_t front, back;   /* guarded by mu; entries are front..back-1, modulo capacity */
  atomic_size_t length; /* written under mu; read by thieves before they lock */
} deque_t;

typedef struct worker {
  weft_thread_pool_t *pool; /* borrowed */
  int index;
  pthread_t thread;
  char name[32]; /* the system shows 15 bytes of it */
} worker_t;

struct weft_thread_pool {
  int num_threads;
  worker_t *workers; /* owned; num_threads */
  deque_t *deques;   /* owned; one per thread, and the last for work from outside */
  atomic_long queued;
  atomic_int sleepers;
  weft_mutex_t mu;
  weft_cond_t wake;
  bool stopping; /* guarded by mu */
  int started;   /* threads to join */
};

/* Which worker this thread is; NULL outside pools. */
static _Thread_local worker_t *this_worker;

enum { FIRST_CAPACITY = 64 };

static bool deque_push(deque_t *d, pool_work_t w) {
  bool ok = true;
  weft_mutex_lock(&d->mu);
  size_t length = d->back - d->front;
  if (length == d->capacity) {
    size_t capacity = d->capacity == 0 ? FIRST_CAPACITY : d->capacity * 2;
    pool_work_t *ring = weft_calloc(capacity, sizeof *ring);
    ok = ring != NULL;
    if (ok) {
      for (size_t i = 0; i < length; i++) ring[i] = d->ring[(d->front + i) & (d->capacity - 1)];
      weft_free(d->ring);
      d->ring = ring;
      d->capacity = capacity;
      d->front = 0;
      d->back = length;
    }
  }
  if (ok) {
    d->ring[d->back++ & (d->capacity - 1)] = w;
    atomic_store_explicit(&d->length, d->back - d->front, memory_order_relaxed);
  }
  weft_mutex_unlock(&d->mu);
  return ok;
}

static bool deque_take(deque_t *d, bool from_back, pool_work_t *out) {
  if (atomic_load_explicit(&d->length, memory_order_relaxed) == 0) return false;
  weft_mutex_lock(&d->mu);
  bool found = d->front != d->back;
  if (found) {
    *out = d->ring[(from_back ? --d->back : d->front++) & (d->capacity - 1)];
    atomic_store_explicit(&d->length, d->back - d->front, memory_order_relaxed);
  }
  weft_mutex_unlock(&d->mu);
  return found;
}

/* Own work first, then what came from outside, then other threads' oldest, beginning with our neighbour. */
static bool find_work(weft_thread_pool_t *p, int self, pool_work_t *out) {
  bool found = deque_take(&p->deques[self], true, out) || deque_take(&p->deques[p->num_threads], false, out);
  for (int i = 1; !found && i < p->num_threads; i++) {
    found = deque_take(&p->deques[(self + i) % p->num_threads], false, out);
  }
  if (found) atomic_fetch_sub(&p->queued, 1);
  return found;
}

static bool work_comes_soon(weft_thread_pool_t *p) {
  const int64_t until_ns = weft_clock_ns() + WEFT_LOOK_NS;
  do {
    if (atomic_load_explicit(&p->queued, memory_order_relaxed) > 0) return true;
    weft_pause();
  } while (weft_clock_ns() < until_ns);
  return false;
}

/* Waits until there may be work. False when the pool stops and nothing is queued. Woken by
 * weft_thread_pool_submit and weft_thread_pool_destroy. */
static bool sleep_until_work(weft_thread_pool_t *p) {
  bool go_on = true;
  if (work_comes_soon(p)) return true;
  weft_mutex_lock(&p->mu);
  atomic_fetch_add(&p->sleepers, 1);
  while (atomic_load(&p->queued) == 0 && !p->stopping) weft_cond_wait(&p->wake, &p->mu);
  atomic_fetch_sub(&p->sleepers, 1);
  if (atomic_load(&p->queued) == 0 && p->stopping) go_on = false;
  weft_mutex_unlock(&p->mu);
  return go_on;
}

static void *thread_main(void *arg) {
  worker_t *self = arg;
  weft_thread_pool_t *p = self->pool;
  this_worker = self;
  prctl(PR_SET_NAME, self->name, 0, 0, 0);
  (void)weft_float_mode_flush();
  pool_work_t w;
  do {
    while (find_work(p, self->index, &w)) w.fn(w.arg);
  } while (sleep_until_work(p));
  this_worker = NULL;
  return NULL;
}

static void free_pool(weft_thread_pool_t *p) {
  if (p == NULL) return;
  for (int i = 0; p->deques != NULL && i <= p->num_threads; i++) {
    weft_free(p->deques[i].ring);
    weft_mutex_deinit(&p->deques[i].mu);
  }
  weft_cond_deinit(&p->wake);
  weft_mutex_deinit(&p->mu);
  weft_free(p->deques);
  weft_free(p->workers);
  weft_free(p);
}

/* Signals are for the program's main thread: ours start with all of them blocked. */
static bool start_threads(weft_thread_pool_t *p, const char *name) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  bool ok = true;
  for (int i = 0; ok && i < p->num_threads; i++) {
    worker_t *w = &p->workers[i];
    w->pool = p;
    w->index = i;
    snprintf(w->name, sizeof w->name, "%.12s/%d", name, i);
    ok = pthread_create(&w->thread, NULL, thread_main, w) == 0;
    if (ok) p->started++;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return ok;
}

weft_status_t *weft_thread_pool_create(const char *name, int num_threads, weft_thread_pool_t **out) {
  if (num_threads < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "thread pool '%s' of %d threads", name, num_threads);
  weft_thread_pool_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("creating thread pool '%s'", name);
  p->num_threads = num_threads;
  weft_mutex_init(&p->mu);
  weft_cond_init(&p->wake);
  p->deques = weft_calloc((size_t)num_threads + 1, sizeof *p->deques);
  for (int i = 0; p->deques != NULL && i <= num_threads; i++) weft_mutex_init(&p->deques[i].mu);
  p->workers = weft_calloc((size_t)num_threads, sizeof *p->workers);
  if (p->deques == NULL || p->workers == NULL) {
    free_pool(p);
    return WEFT_NO_MEMORY("creating thread pool '%s'", name);
  }
  if (!start_threads(p, name)) {
    weft_thread_pool_destroy(p);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "starting %d threads of pool '%s'", num_threads, name);
  }
  *out = p;
  return NULL;
}

void weft_thread_pool_destroy(weft_thread_pool_t *p) {
  if (p == NULL) return;
  weft_mutex_lock(&p->mu);
  p->stopping = true;
  weft_cond_broadcast(&p->wake);
  weft_mutex_unlock(&p->mu);
  for (int i = 0; i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
  free_pool(p);
}

int weft_thread_pool_size(const weft_thread_pool_t *p) { return p->num_threads; }

bool weft_thread_pool_submit(weft_thread_pool_t *p, weft_work_fn *fn, void *arg) {
  worker_t *self = this_worker;
  int to = self != NULL && self->pool == p ? self->index : p->num_threads;
  /* Counted first: a thread that finds it must not bring the count below zero. */
  atomic_fetch_add(&p->queued, 1);
  if (!deque_push(&p->deques[to], (pool_work_t){fn, arg})) {
    atomic_fetch_sub(&p->queued, 1);
    return false;
  }
  if (atomic_load(&p->sleepers) > 0) {
    weft_mutex_lock(&p->mu);
    weft_cond_signal(&p->wake);
    weft_mutex_unlock(&p->mu);
  }
  return true;
}
