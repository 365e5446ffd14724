/* kernels/cuda/complex.c - rows of Complex, the parts of complex numbers, and Cast of them. */
#include "kernels/cuda/cast.h"
#include "kernels/cuda/kernels.h"

/* ---- Complex ---- */

static weft_cuda_function_t join_f32 = WEFT_CUDA_FUNCTION("weft_complex_join_f32"),
                            join_f64 = WEFT_CUDA_FUNCTION("weft_complex_join_f64");

static WEFT_Failure *join(WEFT_KernelContext *c) {
  WEFT_TensorView re, im, z;
  weft_cuda_walk_t w;
  weft_cuda_host->input(c, 0, &re);
  weft_cuda_host->input(c, 1, &im);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &z));
  weft_cuda_walk_init(&w, z.rank, z.dims);
  if (z.count == 0) return NULL;
  if (!weft_cuda_walk_broadcast(&w, 0, re.rank, re.dims) ||
      !weft_cuda_walk_broadcast(&w, 1, im.rank, im.dims))
    return weft_cuda_host->failure(WEFT_CUDA_INTERNAL, "%s: shapes", weft_cuda_host->node_name(c));
  weft_cuda_walk_collapse(&w, 2);
  void *args[] = {&re.data, &im.data, &z.data, &w};
  return weft_cuda_launch_over(c, re.dtype == WEFT_CUDA_f32 ? &join_f32 : &join_f64, w.n, 1, args);
}

/* ---- Real, Imag, Angle, ComplexAbs ---- */

static weft_cuda_function_t part_functions[] = {
    WEFT_CUDA_FUNCTION("weft_complex_part_c64_f32"), WEFT_CUDA_FUNCTION("weft_complex_part_c64_f64"),
    WEFT_CUDA_FUNCTION("weft_complex_part_c128_f32"), WEFT_CUDA_FUNCTION("weft_complex_part_c128_f64")};
enum { REAL, IMAG, ANGLE, ABS };

static WEFT_Failure *launch_part(WEFT_KernelContext *c, int32_t part, const WEFT_TensorView *x, void *y,
                                 int y_dtype) {
  const int which = (x->dtype == WEFT_CUDA_c128 ? 2 : 0) + (y_dtype == WEFT_CUDA_f64);
  const void *from = x->data;
  int64_t n = x->count;
  void *args[] = {&from, &y, &part, &n};
  return weft_cuda_launch_over(c, &part_functions[which], n, 1, args);
}

static WEFT_Failure *part(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  return launch_part(c, *(const int *)weft_cuda_host->param(c), &x, y.data, y.dtype);
}

/* ---- Cast: by way of the real numbers of that size; between complex numbers it is one of twice as many real
 * ones ---- */

static bool is_complex(int dtype) { return weft_cuda_part_type(dtype) != dtype; }

static WEFT_Failure *from_real(WEFT_KernelContext *c, const WEFT_TensorView *x, const WEFT_TensorView *y) {
  static const int64_t one = 1;
  const int type = weft_cuda_part_type(y->dtype);
  void *re = x->data, *im = NULL, *z = y->data;
  weft_cuda_walk_t w;
  if (x->dtype != type) {
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)x->count * weft_cuda_size(type), &re));
    WEFT_CUDA_TRY(weft_cuda_convert(c, x->dtype, x->data, type, re, x->count));
  }
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, sizeof(double), &im));
  WEFT_CUDA_TRY(weft_cuda_fill(c, im, 0, sizeof(double)));
  weft_cuda_walk_init(&w, 1, &x->count);
  (void)weft_cuda_walk_broadcast(&w, 0, 1, &x->count);
  (void)weft_cuda_walk_broadcast(&w, 1, 1, &one);
  void *args[] = {&re, &im, &z, &w};
  return weft_cuda_launch_over(c, type == WEFT_CUDA_f32 ? &join_f32 : &join_f64, w.n, 1, args);
}

static WEFT_Failure *to_real(WEFT_KernelContext *c, const WEFT_TensorView *x, const WEFT_TensorView *y) {
  const int type = weft_cuda_part_type(x->dtype);
  void *re = NULL;
  if (y->dtype == WEFT_CUDA_f32 || y->dtype == WEFT_CUDA_f64)
    return launch_part(c, REAL, x, y->data, y->dtype);
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)x->count * weft_cuda_size(type), &re));
  WEFT_CUDA_TRY(launch_part(c, REAL, x, re, type));
  return weft_cuda_convert(c, type, re, y->dtype, y->data, x->count);
}

static WEFT_Failure *cast(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  if (x.count == 0) return NULL;
  if (x.dtype == y.dtype) return weft_cuda_copy(c, y.data, x.data, x.bytes);
  if (!is_complex(x.dtype)) return from_real(c, &x, &y);
  if (!is_complex(y.dtype)) return to_real(c, &x, &y);
  return weft_cuda_convert(c, weft_cuda_part_type(x.dtype), x.data, weft_cuda_part_type(y.dtype), y.data,
                           2 * x.count);
}

#define CAST(from, to)                                                                                   \
  {                                                                                                      \
    .op = "Cast", .type_attr = "SrcT", .types = WEFT_CUDA_SET(from), .type_attr2 = "DstT", .types2 = to, \
    .compute = cast                                                                                      \
  }
#define PART(op_, which)                                                                \
  {                                                                                     \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(COMPLEX), .type_attr2 = "Tout", \
    .types2 = WEFT_CUDA_SET(F32_F64), .compute = part, .param = &(const int) {          \
      which                                                                             \
    }                                                                                   \
  }
const WEFT_DeviceKernel weft_cuda_complex_kernels[] = {
    PART("Angle", ANGLE),
    CAST(COMPLEX, WEFT_CUDA_SET(EVERY) | WEFT_CUDA_SET(COMPLEX)),
    CAST(EVERY, WEFT_CUDA_SET(COMPLEX)),
    {.op = "Complex", .type_attr = "T", .types = WEFT_CUDA_SET(F32_F64), .compute = join},
    PART("ComplexAbs", ABS),
    PART("Imag", IMAG),
    PART("Real", REAL),
    {0},
};
