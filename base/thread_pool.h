/* base/thread_pool.h - a fixed set of named threads that run closures.
 *
 * Each thread has a deque: it pushes and pops its own work at one end, idle
 * threads steal from the other. Work from outside goes to a shared queue.
 */
#ifndef WEFT_BASE_THREAD_POOL_H_
#define WEFT_BASE_THREAD_POOL_H_

#include "base/status.h"

#include <stdint.h>

typedef struct weft_thread_pool weft_thread_pool_t; /* Thread-safe. */

typedef void weft_work_fn(void *arg);
typedef void weft_range_fn(void *arg, int64_t begin, int64_t end);

/* `num_threads` >= 1; threads are called name/0, name/1, ... */
WEFT_MUST_CHECK weft_status_t *weft_thread_pool_create(const char *name, int num_threads,
                                                       weft_thread_pool_t **out);
void weft_thread_pool_destroy(
    weft_thread_pool_t *p); /* runs what is queued, then joins; not from a pool thread. NULL is fine */
int weft_thread_pool_size(const weft_thread_pool_t *p);
/* Runs fn(arg) on some thread, soon. False without memory: the caller runs it itself. From a thread of the
 * pool the work goes to that thread's own deque. Closures must not block for long: blocking work is
 * asynchronous here. */
bool weft_thread_pool_submit(weft_thread_pool_t *p, weft_work_fn *fn, void *arg);
/* Calls fn on pieces of [0, total) of at least `grain`, on the caller and idle threads; returns when all are
 * done. The caller works too, so it never deadlocks, also not from within the pool. NULL pool: on the caller
 * alone. */
void weft_parallel_for(weft_thread_pool_t *p, int64_t total, int64_t grain, weft_range_fn *fn, void *arg);
/* Loops of the calling thread run on it alone from now on: it is one of several that have work of their own.
 */
void weft_parallel_for_alone(void);

#endif /* WEFT_BASE_THREAD_POOL_H_ */
