/* kernels/cpu/io/summarize.h - a tensor's values as text, as Assert, Print and StringFormat show them. */
#ifndef WEFT_KERNELS_CPU_IO_SUMMARIZE_H_
#define WEFT_KERNELS_CPU_IO_SUMMARIZE_H_

#include "tensor/tensor.h"

/* The first `max` values (< 0: all), dimensions in brackets, "..." for the rest: "[1 2][3..." */
void weft_summarize(const weft_tensor_t *t, int64_t max, weft_strbuf_t *out);
/* As tf.print does it: the first and last `ends` (< 0: all) of each dimension, one line per row, strings
 * quoted. */
void weft_summarize_v2(const weft_tensor_t *t, int64_t ends, weft_strbuf_t *out);

#endif /* WEFT_KERNELS_CPU_IO_SUMMARIZE_H_ */
