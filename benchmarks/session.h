/* benchmarks/session.h - steps of a session in this process, through the C API. */
#ifndef WEFT_BENCHMARKS_SESSION_H_
#define WEFT_BENCHMARKS_SESSION_H_

#include "benchmarks/bench.h"

/* µs of a TF_SessionRun that feeds and fetches one scalar: median of batches. */
weft_bench_fn weft_bench_local_step;
/* The same step, by a clock that is read around each: the median of `steps`, in ns. */
WEFT_MUST_CHECK weft_status_t *weft_bench_single_step(int steps, double *out_ns);
/* us of a TF_SessionRun that multiplies two fed matrices of the floor sgemm's size, on one thread: median. */
weft_bench_fn weft_bench_matmul_step;

#endif /* WEFT_BENCHMARKS_SESSION_H_ */
