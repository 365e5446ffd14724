/* kernels/cuda/fractional_args.h - windows of fractional pooling over images [images, in, in, channels]. */
#ifndef WEFT_KERNELS_CUDA_FRACTIONAL_ARGS_H_
#define WEFT_KERNELS_CUDA_FRACTIONAL_ARGS_H_

#include "kernels/cuda/args.h"

/* Rows, columns: in[d] cells, of which starts[d] makes out[d] windows. All in the device's memory. */
typedef struct weft_cuda_fractions {
  int64_t images, channels;
  int64_t in[2], out[2];
  const int64_t *starts[2];
  /* Of gradients: the windows that have a cell are among those from firsts[d] up to ends[d]. */
  const int64_t *firsts[2], *ends[2];
  int32_t is_overlapping;
} weft_cuda_fractions_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_fractions_t &j, F f) {
  for (int d = 0; d < 2; d++) {
    f(j.starts[d]);
    f(j.firsts[d]);
    f(j.ends[d]);
  }
}
#endif

#endif /* WEFT_KERNELS_CUDA_FRACTIONAL_ARGS_H_ */
