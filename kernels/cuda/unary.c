/* kernels/cuda/unary.c - rows of unary.def, special_unary.def and complex_unary.def, and LeakyRelu. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

#define WEFT_CUDA_UNARY(op, set, result) WEFT_CUDA_INSTANCES(op##_instances, unary_##op, set)
#include "kernels/cuda/special_unary.def"
#include "kernels/cuda/unary.def"
#undef WEFT_CUDA_UNARY

#define WEFT_CUDA_COMPLEX_UNARY(op) WEFT_CUDA_INSTANCES(complex_##op##_instances, unary_##op, COMPLEX)
#include "kernels/cuda/complex_unary.def"
#undef WEFT_CUDA_COMPLEX_UNARY

static WEFT_Failure *unary(WEFT_KernelContext *c, bool is_truth) {
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  if (is_truth) {
    WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  } else {
    WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  }
  int64_t n = x.count;
  void *args[] = {&x.data, &y.data, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(weft_cuda_host->param(c), x.dtype), n,
                               (int64_t)(16 / weft_cuda_size(x.dtype)), args);
}

static WEFT_Failure *unary_SAME(WEFT_KernelContext *c) { return unary(c, false); }
static WEFT_Failure *unary_TRUTH(WEFT_KernelContext *c) { return unary(c, true); }

/* ---- LeakyRelu, LeakyReluGrad: the features are the last input ---- */

WEFT_CUDA_INSTANCES(leaky_instances, leaky, FLOAT)

static WEFT_Failure *leaky_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  float alpha = 0;
  uint32_t bits = 0;
  weft_cuda_host->attr_float(s, "alpha", &alpha);
  memcpy(&bits, &alpha, sizeof bits);
  *out = (void *)(uintptr_t)bits;
  return NULL;
}

static WEFT_Failure *leaky_compute(WEFT_KernelContext *c) {
  const uint32_t bits = (uint32_t)(uintptr_t)weft_cuda_host->state(c);
  float alpha = 0;
  memcpy(&alpha, &bits, sizeof alpha);
  WEFT_TensorView value, x, y;
  weft_cuda_host->input(c, 0, &value);
  weft_cuda_host->input(c, weft_cuda_host->num_inputs(c) - 1, &x);
  if (!weft_cuda_same_shape(&value, &x)) return weft_cuda_shapes_differ(c, 1);
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  int64_t n = x.count;
  void *args[] = {&value.data, &x.data, &y.data, &alpha, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(&leaky_instances, x.dtype), n, 1, args);
}

/* An op of bools has no attribute for its type. */
#define TYPE_ATTR_BOOL NULL
#define TYPE_ATTR_COMPLEX "T"
#define TYPE_ATTR_FLOAT "T"
#define TYPE_ATTR_FLOAT_I64 "T"
#define TYPE_ATTR_FLOAT_SIGNED "T"
#define TYPE_ATTR_REAL "T"
#define ROW(op_, name, set, result)                                                                  \
  {                                                                                                  \
    .op = op_, .type_attr = TYPE_ATTR_##set, .types = WEFT_CUDA_SET(set), .compute = unary_##result, \
    .param = &name##_instances                                                                       \
  }
#define LEAKY(op_)                                                                        \
  {                                                                                       \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .prepare = leaky_prepare, \
    .compute = leaky_compute                                                              \
  }
const WEFT_DeviceKernel weft_cuda_unary_kernels[] = {
#define WEFT_CUDA_UNARY(op, set, result) ROW(#op, op, set, result),
#include "kernels/cuda/special_unary.def"
#include "kernels/cuda/unary.def"
#undef WEFT_CUDA_UNARY
#define WEFT_CUDA_COMPLEX_UNARY(op) ROW(#op, complex_##op, COMPLEX, SAME),
#include "kernels/cuda/complex_unary.def"
#undef WEFT_CUDA_COMPLEX_UNARY
    ROW("Inv", Reciprocal, FLOAT_I64, SAME),
    ROW("Inv", complex_Reciprocal, COMPLEX, SAME),
    ROW("Round", Rint, FLOAT, SAME),
    LEAKY("LeakyRelu"),
    LEAKY("LeakyReluGrad"),
    {0},
};
