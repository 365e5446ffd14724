/* kernels/cpu/loops/cost.h - what the loops of CPU kernels cost, for weft_parallel_for_cost. */
#ifndef WEFT_KERNELS_CPU_LOOPS_COST_H_
#define WEFT_KERNELS_CPU_LOOPS_COST_H_

#include "base/parallel_for.h"
#include "kernels/cpu/loops/broadcast.h"

/* What an element of a loop costs that reads and writes `bytes`; `is_costly`: exp and the like, which take 1
 * to 5 cycles in vectors of float, and 30 to 100 one by one. Too much here makes pieces too small, which
 * costs less than pieces that are too large. */
static inline weft_unit_cost_t weft_cpu_element(size_t bytes, bool is_costly) {
  return (weft_unit_cost_t){.bytes = (double)bytes, .cycles = is_costly ? 16 : 1};
}

/* weft_broadcast_run by what an element of the result costs. */
void weft_broadcast_run_cost(const weft_broadcast_t *b, weft_thread_pool_t *pool, weft_unit_cost_t element,
                             weft_broadcast_fn *fn, void *arg);

#endif /* WEFT_KERNELS_CPU_LOOPS_COST_H_ */
