/* base/parallel_for.c - one loop on several threads.
 *
 * A loop is cut into pieces that are always the same. Each thread that takes part has a share: a range of
 * pieces that it runs from the front, one at a time. The caller's share has all pieces at first. A thread
 * whose share is empty takes the rear half of the fullest one. So a thread that starts late, or is
 * descheduled, holds up no more than the piece that it is in, and threads walk through memory in stretches of
 * their own.
 *
 * The caller takes part, too, and returns when every piece has ended; a helper that a busy pool starts late
 * finds nothing left. So no thread waits for work that is merely queued, and loops may nest. The job is
 * refcounted because late helpers outlive the call.
 *
 * Waking a thread costs the waking one microseconds, so the caller wakes one, which wakes two more, and so
 * on. For the same reason the caller looks for the end of pieces that others are in for a moment
 * before it sleeps.
 */
#include "base/parallel_for.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"

/* The pieces [begin, end) of a share in one word: begin in the lower half. */
typedef struct loop_share {
  _Alignas(64) atomic_ullong range;
} loop_share_t;

typedef struct parallel_loop {
  atomic_int refs;
  atomic_int num_shares; /* in use */
  atomic_int to_wake;    /* helpers that are still to be asked for */
  weft_thread_pool_t *pool;
  weft_range_fn *fn;
  void *arg;
  int64_t total, piece;
  atomic_llong unfinished; /* pieces that have not ended, or not been reported yet */
  weft_mutex_t mu;
  weft_cond_t all_done;
  loop_share_t shares[];
} parallel_loop_t;

static _Thread_local bool is_alone;

void weft_parallel_for_alone(void) { is_alone = true; }

static uint64_t range_of(uint64_t begin, uint64_t end) { return end << 32 | begin; }
static uint64_t begin_of(uint64_t range) { return range & UINT32_MAX; }
static uint64_t end_of(uint64_t range) { return range >> 32; }

static void job_release(parallel_loop_t *j) {
  if (atomic_fetch_sub(&j->refs, 1) != 1) return;
  weft_cond_deinit(&j->all_done);
  weft_mutex_deinit(&j->mu);
  weft_free(j);
}

static void run_piece(weft_range_fn *fn, void *arg, int64_t total, int64_t piece, int64_t i) {
  const int64_t begin = i * piece;
  fn(arg, begin, total - begin < piece ? total : begin + piece);
}

/* Runs the share's pieces from the front until it is empty. Returns how many. */
static int64_t run_share(parallel_loop_t *j, loop_share_t *share) {
  int64_t num = 0;
  unsigned long long range = atomic_load_explicit(&share->range, memory_order_relaxed);
  while (begin_of(range) < end_of(range)) {
    const uint64_t rest = range_of(begin_of(range) + 1, end_of(range));
    if (!atomic_compare_exchange_weak_explicit(&share->range, &range, rest, memory_order_relaxed,
                                               memory_order_relaxed)) {
      continue;
    }
    run_piece(j->fn, j->arg, j->total, j->piece, (int64_t)begin_of(range));
    num++;
    range = atomic_load_explicit(&share->range, memory_order_relaxed);
  }
  return num;
}

/* Moves the rear half of the fullest share to `mine`, which is empty. False if all are empty. */
static bool steal(parallel_loop_t *j, loop_share_t *mine) {
  for (;;) {
    loop_share_t *fullest = NULL;
    unsigned long long most = 0;
    uint64_t num = 0;
    for (int i = 0, n = atomic_load_explicit(&j->num_shares, memory_order_relaxed); i < n; i++) {
      const unsigned long long range = atomic_load_explicit(&j->shares[i].range, memory_order_relaxed);
      if (begin_of(range) >= end_of(range) || end_of(range) - begin_of(range) <= num) continue;
      fullest = &j->shares[i];
      most = range;
      num = end_of(range) - begin_of(range);
    }
    if (fullest == NULL) return false;
    const uint64_t middle = begin_of(most) + num / 2;
    if (!atomic_compare_exchange_strong_explicit(&fullest->range, &most, range_of(begin_of(most), middle),
                                                 memory_order_relaxed, memory_order_relaxed)) {
      continue;
    }
    atomic_store_explicit(&mine->range, range_of(middle, end_of(most)), memory_order_relaxed);
    return true;
  }
}

/* Returns true if this thread has ended the last piece. The count orders what the pieces wrote before what
 * the caller does next. */
static bool take_part(parallel_loop_t *j, loop_share_t *mine) {
  do {
    const int64_t num = run_share(j, mine);
    if (num > 0 && atomic_fetch_sub_explicit(&j->unfinished, num, memory_order_acq_rel) == num) return true;
  } while (steal(j, mine));
  return false;
}

static void help(void *arg);

static void wake_helpers(parallel_loop_t *j, int num) {
  for (int i = 0; i < num && atomic_fetch_sub(&j->to_wake, 1) > 0; i++) {
    atomic_fetch_add(&j->refs, 1);
    if (!weft_thread_pool_submit(j->pool, help, j)) job_release(j);
  }
}

static void help(void *arg) {
  parallel_loop_t *j = arg;
  if (atomic_load(&j->unfinished) > 0) {
    wake_helpers(j, 2);
    loop_share_t *mine = &j->shares[atomic_fetch_add(&j->num_shares, 1)];
    if (take_part(j, mine)) {
      weft_mutex_lock(&j->mu);
      weft_cond_signal(&j->all_done);
      weft_mutex_unlock(&j->mu);
    }
  }
  job_release(j);
}

/* All pieces from `first` on are the caller's. NULL without memory. */
static parallel_loop_t *job_new(weft_thread_pool_t *p, const weft_loop_plan_t *plan, int64_t total,
                                int64_t first, int threads, weft_range_fn *fn, void *arg) {
  parallel_loop_t *j =
      weft_aligned_alloc(_Alignof(parallel_loop_t), sizeof *j + (size_t)threads * sizeof j->shares[0]);
  if (j == NULL) return NULL;
  atomic_init(&j->refs, 1);
  atomic_init(&j->num_shares, 1);
  atomic_init(&j->to_wake, threads - 1);
  atomic_init(&j->unfinished, plan->num_pieces - first);
  j->pool = p;
  j->fn = fn;
  j->arg = arg;
  j->total = total;
  j->piece = plan->piece;
  for (int i = 0; i < threads; i++) atomic_init(&j->shares[i].range, 0);
  atomic_init(&j->shares[0].range, range_of((uint64_t)first, (uint64_t)plan->num_pieces));
  weft_mutex_init(&j->mu);
  weft_cond_init(&j->all_done);
  return j;
}

/* Looks for the end for a moment. A thread that sleeps on a busy machine waits
 * for a processor afterwards, often for milliseconds. */
static bool ends_soon(const parallel_loop_t *j) {
  const int64_t until_ns = weft_clock_ns() + WEFT_LOOK_NS;
  do {
    if (atomic_load_explicit(&j->unfinished, memory_order_acquire) == 0) return true;
    weft_pause();
  } while (weft_clock_ns() < until_ns);
  return false;
}

/* Pieces from `first` on, with the help of `threads` - 1 others. */
static void run_shared(weft_thread_pool_t *p, const weft_loop_plan_t *plan, int64_t total, int64_t first,
                       int threads, weft_range_fn *fn, void *arg) {
  parallel_loop_t *j = threads < 2 ? NULL : job_new(p, plan, total, first, threads, fn, arg);
  if (j == NULL) {
    for (int64_t i = first; i < plan->num_pieces; i++) run_piece(fn, arg, total, plan->piece, i);
    return;
  }
  wake_helpers(j, 1);
  if (!take_part(j, &j->shares[0]) && !ends_soon(j)) {
    weft_mutex_lock(&j->mu);
    while (atomic_load_explicit(&j->unfinished, memory_order_acquire) > 0) {
      weft_cond_wait(&j->all_done, &j->mu); /* woken by the thread that ends the last piece */
    }
    weft_mutex_unlock(&j->mu);
  }
  job_release(j);
}

static void run_plan(weft_thread_pool_t *p, const weft_loop_plan_t *plan, int64_t total, weft_range_fn *fn,
                     void *arg) {
  int threads = p == NULL || is_alone ? 1 : weft_thread_pool_size(p);
  if (threads > plan->max_threads) threads = (int)plan->max_threads;
  if (threads < 2) {
    fn(arg, 0, total);
    return;
  }
  int64_t first = 0;
  if (plan->is_short) {
    const int64_t begin_ns = weft_clock_ns();
    run_piece(fn, arg, total, plan->piece, first++);
    const int64_t worth = weft_loop_worth(plan->num_pieces - first, weft_clock_ns() - begin_ns);
    if (threads > worth) threads = (int)worth;
  }
  run_shared(p, plan, total, first, threads, fn, arg);
}

void weft_parallel_for(weft_thread_pool_t *p, int64_t total, int64_t grain, weft_range_fn *fn, void *arg) {
  if (total <= 0) return;
  const weft_loop_plan_t plan = weft_loop_plan_by_grain(total, grain);
  run_plan(p, &plan, total, fn, arg);
}

void weft_parallel_for_cost(weft_thread_pool_t *p, int64_t total, weft_unit_cost_t unit, weft_range_fn *fn,
                            void *arg) {
  if (total <= 0) return;
  if (p == NULL || weft_unit_ns(unit) * (double)total < 4 * WEFT_HANDOFF_NS) { /* as the plan would say */
    fn(arg, 0, total);
    return;
  }
  const weft_loop_plan_t plan = weft_loop_plan(total, unit);
  run_plan(p, &plan, total, fn, arg);
}
