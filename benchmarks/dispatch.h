/* benchmarks/dispatch.h - what the executor itself costs: graphs of nodes that do nothing. */
#ifndef WEFT_BENCHMARKS_DISPATCH_H_
#define WEFT_BENCHMARKS_DISPATCH_H_

#include "benchmarks/bench.h"

typedef enum weft_dispatch_kind {
  WEFT_DISPATCH_CHAIN,  /* each node after the one before */
  WEFT_DISPATCH_WIDE,   /* all after the first, and the last after all */
  WEFT_DISPATCH_RANDOM, /* each after up to three random earlier ones */
  WEFT_DISPATCH_VALUES, /* a chain of Identity: one scalar is handed on */
} weft_dispatch_kind_t;

/* Runs graphs of `num_nodes` on one thread, caches cold at the start of each step. *out_ns: median of a
 * step's time divided by the nodes. *out_spread (may be NULL): (90 % - 10 % quantile) / median. */
WEFT_MUST_CHECK weft_status_t *weft_bench_dispatch(weft_dispatch_kind_t kind, int num_nodes, int num_steps,
                                                   double *out_ns, double *out_spread);

weft_bench_fn weft_bench_dispatch_chain, weft_bench_dispatch_wide, weft_bench_dispatch_random,
    weft_bench_dispatch_step;

#endif /* WEFT_BENCHMARKS_DISPATCH_H_ */
