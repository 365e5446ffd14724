/* kernels/cuda/permutation.c - the row of InvertPermutation: whether its input is a permutation is known when
 * the device has looked at all elements. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"

static weft_cuda_function_t place_function = WEFT_CUDA_FUNCTION("weft_permutation_place"),
                            check_function = WEFT_CUDA_FUNCTION("weft_permutation_check"),
                            blame_function = WEFT_CUDA_FUNCTION("weft_permutation_blame");

/* What the host is told of the first element that is wrong; all bytes of `element` are LATER if none is. */
typedef struct permutation_wrong {
  int64_t element, value;
} permutation_wrong_t;

enum { LATER = 0x7f }; /* a number of such bytes is behind all elements */

static WEFT_Failure *invert(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  void *wrong = NULL, *told = NULL;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank != 1) return WEFT_CUDA_INVALID("invert_permutation expects a 1D vector.");
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, x.dims, &y));
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, sizeof(permutation_wrong_t), &told));
  if (x.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, sizeof(permutation_wrong_t), &wrong));
  WEFT_CUDA_TRY(weft_cuda_fill(c, wrong, LATER, sizeof(permutation_wrong_t)));
  WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, LATER, (size_t)x.count * sizeof(int64_t)));
  void *place[] = {&x.data, &x.count, &y.data}, *check[] = {&x.data, &x.count, &y.data, &wrong},
       *blame[] = {&x.data, &x.count, &wrong};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &place_function, x.count, 1, place));
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &check_function, x.count, 1, check));
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &blame_function, 1, 1, blame));
  return weft_cuda_read(c, told, wrong, sizeof(permutation_wrong_t));
}

static WEFT_Failure *finish(WEFT_KernelContext *c) {
  WEFT_TensorView x;
  void *memory = NULL;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, 0, &memory));
  const permutation_wrong_t *wrong = memory;
  const long long value = wrong->value, n = x.count;
  if (n == 0 || wrong->element >= n) return NULL;
  if (value < 0 || value >= n) return WEFT_CUDA_INVALID("%lld is not between 0 and %lld", value, n);
  return WEFT_CUDA_INVALID("%lld is duplicated in the input.", value);
}

/* int32, which mostly is a shape, stays where the CPU's kernel is. */
const WEFT_DeviceKernel weft_cuda_permutation_kernels[] = {
    {.op = "InvertPermutation",
     .type_attr = "T",
     .types = UINT32_C(1) << WEFT_CUDA_i64,
     .compute = invert,
     .finish = finish},
    {.op = NULL},
};
