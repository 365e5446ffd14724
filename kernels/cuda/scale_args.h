/* kernels/cuda/scale_args.h - images resampled along one dimension. */
#ifndef WEFT_KERNELS_CUDA_SCALE_ARGS_H_
#define WEFT_KERNELS_CUDA_SCALE_ARGS_H_

#include <float.h>
#include <math.h>

#include "kernels/cuda/args.h"

#ifndef __cplusplus
#define WEFT_FORMULA static inline
#define WEFT_PRODUCT(a, b) ((a) * (b))
#else
#include "kernels/cuda/numbers.cuh"
#define WEFT_FORMULA WEFT_FN
#define WEFT_PRODUCT(a, b) weft::multiplied(a, b)
#endif
#include "kernels/formulas/sampling.h"

/* Lines of pixels of `inner` elements each: from `count` elements of lines [from, inner] are made those of
 * lines [to, inner]. */
typedef struct weft_cuda_lines {
  int64_t from, to, inner, count; /* count: of the result */
} weft_cuda_lines_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_sampling_t &, F) {}
template <class F>
void weft_visit_pointers(weft_cuda_lines_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_SCALE_ARGS_H_ */
