/* kernels/cuda/truncated_args.h - parameters of truncated normal distributions, and what may fail. */
#ifndef WEFT_KERNELS_CUDA_TRUNCATED_ARGS_H_
#define WEFT_KERNELS_CUDA_TRUNCATED_ARGS_H_

#include "kernels/cuda/args.h"

/* Means, deviations, minima, maxima. */
typedef struct weft_cuda_truncated {
  const void *at[4];
} weft_cuda_truncated_t;

/* The largest one counts. */
enum {
  WEFT_CUDA_TRUNCATED_NORMAL = 1, /* that many numbers of the distribution were refused */
  WEFT_CUDA_TRUNCATED_UNIFORM,
  WEFT_CUDA_TRUNCATED_EXPONENTIAL,
  WEFT_CUDA_TRUNCATED_PARAMETERS /* there is no such distribution */
};

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_truncated_t &p, F f) {
  for (int i = 0; i < 4; i++) f(p.at[i]);
}
#endif

#endif /* WEFT_KERNELS_CUDA_TRUNCATED_ARGS_H_ */
