/* benchmarks/million_nodes.h - how long it takes, and how much memory, until a large graph is ready to run.
 */
#ifndef WEFT_BENCHMARKS_MILLION_NODES_H_
#define WEFT_BENCHMARKS_MILLION_NODES_H_

#include "benchmarks/bench.h"

typedef struct weft_large_graph_result {
  double seconds;        /* from a GraphDef to plans on two workers of this process: imported, placed, cut,
                            registered */
  double cpu_seconds;    /* of all threads of this process, for that */
  double create_seconds; /* the share of CreateSession: import and placement */
  double bytes;          /* allocated and kept, the GraphDef not counted */
} weft_large_graph_result_t;

/* A graph of `num_nodes`. While nothing else allocates. */
WEFT_MUST_CHECK weft_status_t *weft_bench_large_graph(int num_nodes, weft_large_graph_result_t *out);

weft_bench_fn weft_bench_million_nodes;        /* ns a node */
weft_bench_fn weft_bench_million_nodes_memory; /* bytes a node */

#endif /* WEFT_BENCHMARKS_MILLION_NODES_H_ */
