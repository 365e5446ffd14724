/* benchmarks/thousand_workers.h - what a step costs the master of a large cluster. */
#ifndef WEFT_BENCHMARKS_THOUSAND_WORKERS_H_
#define WEFT_BENCHMARKS_THOUSAND_WORKERS_H_

#include "benchmarks/bench.h"

typedef struct weft_master_costs {
  double cpu_ns_step;     /* processor time of one step */
  double bytes_signature; /* memory of one more signature */
} weft_master_costs_t;

/* A master with `num_workers` workers that are only modelled: they answer at once and keep nothing, so that
 * the master alone is measured. The step runs a node on each of them. While nothing else allocates.
 */
WEFT_MUST_CHECK weft_status_t *weft_bench_master_costs(int num_workers, int num_steps,
                                                       weft_master_costs_t *out);

weft_bench_fn weft_bench_master_step;   /* us of processor time for each of 1,000 workers */
weft_bench_fn weft_bench_master_memory; /* kB for each of 1,000 workers and signature */

#endif /* WEFT_BENCHMARKS_THOUSAND_WORKERS_H_ */
