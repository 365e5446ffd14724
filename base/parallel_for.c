/* base/parallel_for.c - one loop on several threads.
 *
 * The pieces of a loop are claimed by a counter. The caller claims, too, and
 * returns when every piece has ended; a helper that a busy pool starts late finds
 * nothing left. So no thread waits for work that is merely queued, and loops may nest. The job is refcounted
 * because late helpers outlive the call.
 */
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "base/thread_pool.h"

typedef struct parallel_loop {
  atomic_int refs;
  weft_range_fn *fn;
  void *arg;
  int64_t total, piece, num_pieces;
  atomic_llong next;     /* piece to claim */
  atomic_llong finished; /* pieces that ended */
  weft_mutex_t mu;
  weft_cond_t all_done;
} parallel_loop_t;

static _Thread_local bool is_alone;

void weft_parallel_for_alone(void) { is_alone = true; }

static void job_release(parallel_loop_t *j) {
  if (atomic_fetch_sub(&j->refs, 1) != 1) return;
  weft_cond_deinit(&j->all_done);
  weft_mutex_deinit(&j->mu);
  weft_free(j);
}

static void run_pieces(parallel_loop_t *j) {
  for (;;) {
    int64_t i = atomic_fetch_add(&j->next, 1);
    if (i >= j->num_pieces) return;
    int64_t begin = i * j->piece;
    int64_t end = j->total - begin < j->piece ? j->total : begin + j->piece;
    j->fn(j->arg, begin, end);
    if (atomic_fetch_add(&j->finished, 1) + 1 == j->num_pieces) {
      weft_mutex_lock(&j->mu);
      weft_cond_signal(&j->all_done);
      weft_mutex_unlock(&j->mu);
    }
  }
}

static void help(void *arg) {
  parallel_loop_t *j = arg;
  run_pieces(j);
  job_release(j);
}

/* Two pieces per thread even out unequal speeds. NULL if the loop is not worth dividing, or without memory.
 */
static parallel_loop_t *divide(const weft_thread_pool_t *p, int64_t total, int64_t grain, weft_range_fn *fn,
                               void *arg) {
  if (p == NULL || is_alone || total <= grain) return NULL;
  int64_t max_pieces = ((int64_t)weft_thread_pool_size(p) + 1) * 2;
  int64_t pieces = total / grain; /* each at least `grain` */
  if (pieces > max_pieces) pieces = max_pieces;
  if (pieces < 2) return NULL;
  parallel_loop_t *j = weft_calloc(1, sizeof *j);
  if (j == NULL) return NULL;
  atomic_init(&j->refs, 1);
  j->fn = fn;
  j->arg = arg;
  j->total = total;
  j->piece = (total - 1) / pieces + 1;
  j->num_pieces = (total - 1) / j->piece + 1;
  weft_mutex_init(&j->mu);
  weft_cond_init(&j->all_done);
  return j;
}

void weft_parallel_for(weft_thread_pool_t *p, int64_t total, int64_t grain, weft_range_fn *fn, void *arg) {
  if (total <= 0) return;
  parallel_loop_t *j = divide(p, total, grain < 1 ? 1 : grain, fn, arg);
  if (j == NULL) {
    fn(arg, 0, total);
    return;
  }
  int64_t helpers = j->num_pieces - 1;
  if (helpers > weft_thread_pool_size(p)) helpers = weft_thread_pool_size(p);
  for (int64_t i = 0; i < helpers; i++) {
    atomic_fetch_add(&j->refs, 1);
    if (!weft_thread_pool_submit(p, help, j)) job_release(j);
  }
  run_pieces(j);
  weft_mutex_lock(&j->mu);
  while (atomic_load(&j->finished) < j->num_pieces) {
    weft_cond_wait(&j->all_done, &j->mu); /* woken by the thread that ends the last piece */
  }
  weft_mutex_unlock(&j->mu);
  job_release(j);
}
