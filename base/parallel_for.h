/* base/parallel_for.h - loops that say what they cost.
 *
 * weft_parallel_for() (base/thread_pool.h) takes the size of a piece. A loop that knows what one unit costs
 * says so here instead, and this model turns it into pieces and a number of threads.
 *
 * A piece takes 4 to 25 us, a 64th of the loop in between: a thread that is descheduled holds
 * no more than that, and a piece is still hundreds of times what claiming it costs (10 ns). A thread is
 * asked for help only where its share is worth two hand-overs.
 *
 * The figures of the machine are constants and not measured at start: pieces have to be the same in each run,
 * or a sum by pieces would change from run to run. docs/performance.md says how they were measured.
 * What has no influence on results is measured: where the loop is so short that the number of threads matters
 * (below 256 us by its costs), the caller runs the first piece alone, and its time says how many threads the
 * rest is worth.
 */
#ifndef WEFT_BASE_PARALLEL_FOR_H_
#define WEFT_BASE_PARALLEL_FOR_H_

#include "base/thread_pool.h"

/* What waking a thread costs the waking one, in nanoseconds; meanwhile the other comes to run. */
#define WEFT_HANDOFF_NS 5000.0
/* How long a thread looks for what it waits for before it sleeps. */
#define WEFT_LOOK_NS ((int64_t)(2 * WEFT_HANDOFF_NS))
/* What one core moves, reads and writes together, from and to memory. */
#define WEFT_CORE_BYTES_PER_NS 20.0
#define WEFT_CORE_CYCLES_PER_NS 3.0

/* What one unit of a loop costs one core. The slower of the two counts: memory and arithmetic overlap. */
typedef struct weft_unit_cost {
  double bytes;  /* that it reads and writes */
  double cycles; /* of arithmetic */
} weft_unit_cost_t;

static inline double weft_unit_ns(weft_unit_cost_t c) {
  const double moving = c.bytes * (1 / WEFT_CORE_BYTES_PER_NS),
               computing = c.cycles * (1 / WEFT_CORE_CYCLES_PER_NS);
  return moving > computing ? moving : computing;
}

/* Tells the processor that this turn of a loop only waits. */
static inline void weft_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* How a loop is cut. Depends on the loop alone, never on the number of threads. */
typedef struct weft_loop_plan {
  int64_t piece;       /* units, the last piece may have fewer */
  int64_t num_pieces;  /* at most 2^20 */
  int64_t max_threads; /* that it is worth, the caller's included; at least 1 */
  bool is_short;       /* the first piece is to be timed */
} weft_loop_plan_t;

/* `total` >= 1; a cost that is not positive counts as next to nothing. */
weft_loop_plan_t weft_loop_plan(int64_t total, weft_unit_cost_t unit);
/* The plan of weft_parallel_for: pieces of `grain` units, a thread for each. */
weft_loop_plan_t weft_loop_plan_by_grain(int64_t total, int64_t grain);

/* How many threads `num` pieces of `ns` each are worth; at least 1. */
int64_t weft_loop_worth(int64_t num, int64_t ns);

/* weft_parallel_for by cost. Where the plan has one thread, or there is no pool, `fn` is called once for all,
 * and otherwise for one piece at a time. */
void weft_parallel_for_cost(weft_thread_pool_t *p, int64_t total, weft_unit_cost_t unit, weft_range_fn *fn,
                            void *arg);

#endif /* WEFT_BASE_PARALLEL_FOR_H_ */
