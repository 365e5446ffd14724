/* kernels/cuda/sequence.c - rows of Range and LinSpace, with their scalars in the host's memory.
 *
 * An element is its number times the step, as in TensorFlow's kernel of a GPU. The CPU's Range adds the step
 * again and again, so that the last bits of floats differ.
 */
#include <math.h>

#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_INSTANCES(sequence_instances, sequence, F32_F64_I64)

/* A number of the type that a kernel takes. */
typedef union cuda_number {
  float f32;
  double f64;
  int64_t i64;
} number_t;

static number_t number_of(int dtype, double v) {
  number_t n = {.f64 = v};
  if (dtype == WEFT_CUDA_f32) n.f32 = (float)v;
  return n;
}
static double float_at(const WEFT_TensorView *v) {
  return v->dtype == WEFT_CUDA_f32 ? (double)*(const float *)v->data : *(const double *)v->data;
}

static WEFT_Failure *fill(WEFT_KernelContext *c, number_t start, number_t step, const number_t *last,
                          int64_t n) {
  WEFT_TensorView y;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, &n, &y));
  number_t end = last != NULL ? *last : start;
  int32_t has_last = last != NULL;
  void *args[] = {&y.data, &start, &step, &end, &has_last, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(&sequence_instances, y.dtype), n, 1, args);
}

static WEFT_Failure *scalars(WEFT_KernelContext *c, const char *const *names, WEFT_TensorView *out) {
  for (int i = 0; i < 3; i++) {
    weft_cuda_host->input(c, i, &out[i]);
    if (out[i].count != 1)
      return WEFT_CUDA_INVALID("%s must be a scalar, not shape %s", names[i], WEFT_CUDA_SHAPE(&out[i]));
  }
  return NULL;
}

static WEFT_Failure *int_range(WEFT_KernelContext *c, int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return WEFT_CUDA_INVALID("Requires delta != 0: 0");
  if (delta > 0 ? start > limit : start < limit) {
    return WEFT_CUDA_INVALID("Requires start %s limit when delta %s 0: %lld/%lld",
                             delta > 0 ? "<=" : ">=", delta > 0 ? ">" : "<", (long long)start,
                             (long long)limit);
  }
  const uint64_t way = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  const uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
  const uint64_t n = way / step + (way % step != 0);
  if (n > (uint64_t)INT64_MAX) return WEFT_CUDA_INVALID("Requires ((limit - start) / delta) <= 2^63 - 1");
  return fill(c, (number_t){.i64 = start}, (number_t){.i64 = delta}, NULL, (int64_t)n);
}

static WEFT_Failure *range(WEFT_KernelContext *c) {
  static const char *const names[] = {"start", "limit", "delta"};
  WEFT_TensorView v[3];
  WEFT_CUDA_TRY(scalars(c, names, v));
  const int dtype = v[0].dtype;
  if (dtype == WEFT_CUDA_i64)
    return int_range(c, weft_cuda_int_at(&v[0], 0), weft_cuda_int_at(&v[1], 0), weft_cuda_int_at(&v[2], 0));
  const double start = float_at(&v[0]), limit = float_at(&v[1]), delta = float_at(&v[2]);
  if (delta == 0) return WEFT_CUDA_INVALID("Requires delta != 0: %g", delta);
  if (delta > 0 ? !(start <= limit) : !(start >= limit)) {
    return WEFT_CUDA_INVALID("Requires start %s limit when delta %s 0: %g/%g",
                             delta > 0 ? "<=" : ">=", delta > 0 ? ">" : "<", start, limit);
  }
  const double n = ceil(dtype == WEFT_CUDA_f64 ? fabs((limit - start) / delta)
                                               : (double)fabsf(((float)limit - (float)start) / (float)delta));
  if (!(n < 9e18)) return WEFT_CUDA_INVALID("Requires ((limit - start) / delta) <= 9223372036854775807");
  return fill(c, number_of(dtype, start), number_of(dtype, delta), NULL, (int64_t)n);
}

/* The last element is exactly where it stops. */
static WEFT_Failure *lin_space(WEFT_KernelContext *c) {
  static const char *const names[] = {"start", "stop", "num"};
  WEFT_TensorView v[3];
  WEFT_CUDA_TRY(scalars(c, names, v));
  const int64_t n = weft_cuda_int_at(&v[2], 0);
  if (n <= 0) return WEFT_CUDA_INVALID("Requires num > 0: %lld", (long long)n);
  const int dtype = v[0].dtype;
  const double start = float_at(&v[0]), stop = float_at(&v[1]);
  double step = 0;
  if (n > 1 && dtype == WEFT_CUDA_f64) step = (stop - start) / (double)(n - 1);
  if (n > 1 && dtype == WEFT_CUDA_f32) step = (double)(((float)stop - (float)start) / (float)(n - 1));
  const number_t last = number_of(dtype, stop);
  return fill(c, number_of(dtype, start), number_of(dtype, step), n > 1 ? &last : NULL, n);
}

enum { ALL_THREE = 7 };
const WEFT_DeviceKernel weft_cuda_sequence_kernels[] = {
    {.op = "LinSpace",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(F32_F64),
     .compute = lin_space,
     .host_inputs = ALL_THREE},
    {.op = "Range",
     .type_attr = "Tidx",
     .types = WEFT_CUDA_SET(F32_F64_I64),
     .compute = range,
     .host_inputs = ALL_THREE},
    {0},
};
