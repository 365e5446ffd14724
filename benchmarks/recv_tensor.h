/* benchmarks/recv_tensor.h - one tensor from another process: RecvTensor against a plain TCP connection and a
 * copy. */
#ifndef WEFT_BENCHMARKS_RECV_TENSOR_H_
#define WEFT_BENCHMARKS_RECV_TENSOR_H_

#include "benchmarks/bench.h"

/* Share of the bytes per second that one TCP connection carries between the same two processes, in the same
 * run: 1 is as fast. One tensor after the other, each asked for when the one before is there. */
weft_status_t *weft_bench_recv_tensor_1mb(const weft_bench_options_t *o, double *out_value);
weft_status_t *weft_bench_recv_tensor_128mb(const weft_bench_options_t *o, double *out_value);
/* Share of the bytes per second that memcpy copies within the receiving process, in the same run. */
weft_status_t *weft_bench_recv_memcpy_1mb(const weft_bench_options_t *o, double *out_value);
weft_status_t *weft_bench_recv_memcpy_128mb(const weft_bench_options_t *o, double *out_value);

#endif /* WEFT_BENCHMARKS_RECV_TENSOR_H_ */
