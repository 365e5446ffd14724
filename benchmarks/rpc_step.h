/* benchmarks/rpc_step.h - the time of one step over gRPC, seen by a client in C that does nothing else. */
#ifndef WEFT_BENCHMARKS_RPC_STEP_H_
#define WEFT_BENCHMARKS_RPC_STEP_H_

#include "base/str.h"
#include "benchmarks/bench.h"

enum { WEFT_RPC_STEP_MAX_NAMES = 16 };

typedef struct weft_rpc_step {
  const char *master;     /* "grpc://host:port" or "host:port" */
  const char *graph_file; /* NULL: x (float placeholder), y = x + 1, noop */
  const char *fetches[WEFT_RPC_STEP_MAX_NAMES], *targets[WEFT_RPC_STEP_MAX_NAMES];
  const char *feeds[WEFT_RPC_STEP_MAX_NAMES]; /* "name=1.5" */
  int num_fetches, num_targets, num_feeds;    /* none at all: runs noop */
  int steps, warmup;
} weft_rpc_step_t;

typedef struct weft_rpc_step_result {
  double median_us, mean_us, min_us, p99_us;
} weft_rpc_step_result_t;

/* One session, `warmup` steps, `steps` timed ones, one at a time. Blocks. Errors: what the master says. */
WEFT_MUST_CHECK weft_status_t *weft_rpc_step_measure(const weft_rpc_step_t *step,
                                                     weft_rpc_step_result_t *out);

/* Appends the GraphDef that is run by default: x (a float placeholder), y = x + 1, noop. */
void weft_rpc_step_write_graph(weft_strbuf_t *b);

/* Median µs of a scalar step on a Weft server that the benchmark starts. */
weft_status_t *weft_bench_rpc_step(const weft_bench_options_t *o, double *out_value);

#endif /* WEFT_BENCHMARKS_RPC_STEP_H_ */
