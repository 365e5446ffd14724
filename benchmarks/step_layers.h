/* benchmarks/step_layers.h - where the nanoseconds of a step go, layer by layer. */
#ifndef WEFT_BENCHMARKS_STEP_LAYERS_H_
#define WEFT_BENCHMARKS_STEP_LAYERS_H_

#include "benchmarks/bench.h"

/* Medians of a step that feeds a scalar, adds one to it and fetches the sum. Each contains the ones below it.
 */
typedef struct weft_step_layers {
  double rpc_ns;      /* RunStep over gRPC, by a client in C, on a server that is a process of its own */
  double session_ns;  /* TF_SessionRun in this process */
  double master_ns;   /* RunStep of a master in this process */
  double worker_ns;   /* RunGraph of the worker in this process, as that master sees it */
  double executor_ns; /* a plan of five nodes, alone */
  double grpc_ns;     /* an empty call of gRPC's core: of rpc_ns */
} weft_step_layers_t;

/* Measured one after the other: on a machine that is busy, differences of them can be less than nothing. */
WEFT_MUST_CHECK weft_status_t *weft_bench_step_layers(const weft_bench_options_t *o, weft_step_layers_t *out);

#endif /* WEFT_BENCHMARKS_STEP_LAYERS_H_ */
