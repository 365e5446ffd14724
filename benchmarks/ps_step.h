/* benchmarks/ps_step.h - a training step with parameter servers, in processes of their own. */
#ifndef WEFT_BENCHMARKS_PS_STEP_H_
#define WEFT_BENCHMARKS_PS_STEP_H_

#include "benchmarks/bench.h"

weft_bench_fn
    weft_bench_ps_step_100mb; /* ms per step of each of two workers, which share one server: median */

#endif /* WEFT_BENCHMARKS_PS_STEP_H_ */
