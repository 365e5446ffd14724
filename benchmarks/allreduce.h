/* benchmarks/allreduce.h - all-reduce between four processes on this machine. */
#ifndef WEFT_BENCHMARKS_ALLREDUCE_H_
#define WEFT_BENCHMARKS_ALLREDUCE_H_

#include "benchmarks/bench.h"

weft_bench_fn weft_bench_allreduce_64mb;  /* ms of one all-reduce of 64 MB, in place: median */
weft_bench_fn weft_bench_allreduce_fused; /* how many times faster 100 tensors of 4 KB are in one buffer than
                                             one by one */

/* ns of what such an all-reduce cannot do without: reads of the other ranks' memory, and additions. */
weft_bench_fn weft_bench_allreduce_copies;

/* Seconds of each of `rounds` all-reduces of `count` floats among `size` processes, as rank 0 sees them. */
WEFT_MUST_CHECK weft_status_t *weft_bench_allreduce(int size, long count, int rounds, double *out_seconds);

#endif /* WEFT_BENCHMARKS_ALLREDUCE_H_ */
