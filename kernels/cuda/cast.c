/* kernels/cuda/cast.c - rows of Cast, ZerosLike, OnesLike and Fill. */
#include "kernels/cuda/cast.h"

#include "kernels/cuda/kernels.h"

WEFT_CUDA_INSTANCES(cast_instances, cast, EVERY)
WEFT_CUDA_INSTANCES(ones_instances, ones, REAL_BOOL)
WEFT_CUDA_INSTANCES(complex_ones_instances, ones, COMPLEX)
WEFT_CUDA_SIZES(fill_functions, fill)

/* ---- Cast; the state of one with Truncate is not NULL ---- */

static WEFT_Failure *cast_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char truncates = 1;
  int truncate = 0;
  (void)param;
  weft_cuda_host->attr_bool(s, "Truncate", &truncate);
  *out = truncate != 0 ? (void *)(uintptr_t)&truncates : NULL;
  return NULL;
}

static int mantissa_bits(int dtype) {
  switch (dtype) {
    case WEFT_CUDA_f64: return 52;
    case WEFT_CUDA_f32: return 23;
    case WEFT_CUDA_f16: return 10;
    case WEFT_CUDA_bf16: return 7;
    default: return -1;
  }
}

static WEFT_Failure *cast(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  int32_t to = y.dtype, spare = mantissa_bits(x.dtype) - mantissa_bits(y.dtype);
  int32_t cut = weft_cuda_host->state(c) != NULL && mantissa_bits(y.dtype) > 0 && spare > 0 ? spare : 0;
  int64_t n = x.count;
  if (to == x.dtype) return weft_cuda_copy(c, y.data, x.data, x.bytes);
  void *args[] = {&x.data, &y.data, &to, &cut, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(&cast_instances, x.dtype), n, 4, args);
}

WEFT_Failure *weft_cuda_convert(WEFT_KernelContext *c, int from_dtype, const void *from, int to_dtype,
                                void *to, int64_t n) {
  int32_t type = to_dtype, cut = 0;
  void *args[] = {&from, &to, &type, &cut, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(&cast_instances, from_dtype), n, 4, args);
}

/* ---- one value ---- */

static WEFT_Failure *zeros_like(WEFT_KernelContext *c) {
  WEFT_TensorView y;
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  return y.bytes > 0 ? weft_cuda_fill(c, y.data, 0, y.bytes) : NULL;
}

static WEFT_Failure *ones_like(WEFT_KernelContext *c) {
  WEFT_TensorView y;
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  int64_t n = y.count;
  void *args[] = {&y.data, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(weft_cuda_host->param(c), y.dtype), n, 4, args);
}

static WEFT_Failure *fill(WEFT_KernelContext *c) {
  WEFT_TensorView value, y;
  weft_cuda_host->input(c, 1, &value);
  if (value.count != 1)
    return WEFT_CUDA_INVALID("value must represent a scalar, got shape %s", WEFT_CUDA_SHAPE(&value));
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  int64_t n = y.count;
  void *args[] = {&value.data, &y.data, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(fill_functions, y.dtype), n, 4, args);
}

enum { FIRST = 1 };
#define ONES_ROW(set, name) \
  { .op = "OnesLike", .type_attr = "T", .types = WEFT_CUDA_SET(set), .compute = ones_like, .param = &name }
const WEFT_DeviceKernel weft_cuda_cast_kernels[] = {
    {.op = "Cast",
     .type_attr = "SrcT",
     .types = WEFT_CUDA_SET(EVERY),
     .type_attr2 = "DstT",
     .types2 = WEFT_CUDA_SET(EVERY),
     .prepare = cast_prepare,
     .compute = cast},
    {.op = "Fill", .type_attr = "T", .types = WEFT_CUDA_PLAIN_BUT_I32, .compute = fill, .host_inputs = FIRST},
    ONES_ROW(REAL_BOOL, ones_instances),
    ONES_ROW(COMPLEX, complex_ones_instances),
    {.op = "ZerosLike", .type_attr = "T", .types = WEFT_CUDA_PLAIN_BUT_I32, .compute = zeros_like},
    {0},
};
