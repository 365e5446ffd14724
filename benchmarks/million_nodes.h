/* benchmarks/million_nodes.h - how long it takes until a large graph is ready to run. */
#ifndef WEFT_BENCHMARKS_MILLION_NODES_H_
#define WEFT_BENCHMARKS_MILLION_NODES_H_

#include "benchmarks/bench.h"

/* Seconds from a GraphDef of `num_nodes` to plans on two workers of this process: imported, placed, cut,
 * registered. *out_create (may be NULL) is the share of CreateSession: import and placement. */
WEFT_MUST_CHECK weft_status_t *weft_bench_large_graph(int num_nodes, double *out_seconds, double *out_create);

weft_bench_fn weft_bench_million_nodes;

#endif /* WEFT_BENCHMARKS_MILLION_NODES_H_ */
