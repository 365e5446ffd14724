/* kernels/cuda/fft.c - rows of the Fourier transforms of the last one, two or three dimensions, by cuFFT. */
#include "device/cuda/fft.h"

#include <limits.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/move.h"

WEFT_CUDA_INSTANCES(scale_instances, fft_scale, F32_F64)

extern const WEFT_DeviceKernel weft_cuda_fft_kernels[];

/* The param of a row. */
typedef struct cuda_transform {
  int rank;
  weft_cuda_fft_kind_t kind;
} transform_t;

/* What is transformed: of each dimension the elements that there are, those that are read, those of the
 * result. */
typedef struct transform_sizes {
  weft_cuda_fft_t fft;
  int first; /* dimension */
  int64_t used[WEFT_CUDA_DIMS], to[WEFT_CUDA_DIMS];
  bool is_cut; /* not all of the input is read */
} transform_sizes_t;

/* The lengths, in input 1 for transforms of real numbers, and what they make of the shape. */
static WEFT_Failure *read_lengths(WEFT_KernelContext *c, const WEFT_TensorView *x, transform_sizes_t *s) {
  const bool has_lengths = s->fft.kind >= WEFT_CUDA_FFT_FROM_REAL;
  WEFT_TensorView lengths = {.rank = 0};
  if (has_lengths) weft_cuda_host->input(c, 1, &lengths);
  if (has_lengths && (lengths.rank != 1 || lengths.count != s->fft.rank))
    return WEFT_CUDA_INVALID("fft_length must have shape [%d]", s->fft.rank);
  for (int d = 0; d < s->first; d++) s->used[d] = s->to[d] = x->dims[d];
  for (int i = 0; i < s->fft.rank; i++) {
    const int d = s->first + i;
    const int64_t dim = x->dims[d], n = has_lengths ? weft_cuda_int_at(&lengths, i) : dim;
    const bool is_last = i == s->fft.rank - 1;
    if (n < 0) return WEFT_CUDA_INVALID("fft_length[%d] must >= 0, but got: %lld", i, (long long)n);
    const int64_t least = s->fft.kind == WEFT_CUDA_FFT_TO_REAL && is_last ? n / 2 + 1 : n;
    if (dim != 0 && dim < least) {
      return WEFT_CUDA_INVALID("Input dimension %d must have length of at least %lld but got: %lld", d,
                               (long long)least, (long long)dim);
    }
    if (n > INT_MAX) return WEFT_CUDA_INVALID("a transform has 2^31 elements or more");
    s->fft.n[i] = n;
    s->used[d] = least;
    s->to[d] = s->fft.kind == WEFT_CUDA_FFT_FROM_REAL && is_last && n != 0 ? n / 2 + 1 : n;
    if (least != dim) s->is_cut = true;
  }
  return NULL;
}

static WEFT_Failure *check_types(weft_cuda_fft_kind_t kind, const WEFT_TensorView *x,
                                 const WEFT_TensorView *y) {
  const bool from_single = x->dtype == WEFT_CUDA_f32 || x->dtype == WEFT_CUDA_c64;
  if (from_single == (y->dtype == WEFT_CUDA_f32 || y->dtype == WEFT_CUDA_c64)) return NULL;
  return WEFT_CUDA_INVALID("Wrong types for %s FFT: in=%s out=%s",
                           kind == WEFT_CUDA_FFT_FROM_REAL ? "forward real" : "backward real",
                           kind == WEFT_CUDA_FFT_FROM_REAL ? from_single ? "float" : "double"
                           : from_single                   ? "complex64"
                                                           : "complex128",
                           kind == WEFT_CUDA_FFT_FROM_REAL ? from_single ? "complex128" : "complex64"
                           : from_single                   ? "double"
                                                           : "float");
}

/* The elements of x that are read, one behind the other. A transform to real numbers writes over them. */
static WEFT_Failure *gather(WEFT_KernelContext *c, const WEFT_TensorView *x, const transform_sizes_t *s,
                            void **out) {
  *out = x->data;
  if (!s->is_cut && s->fft.kind != WEFT_CUDA_FFT_TO_REAL) return NULL;
  weft_cuda_walk_t w;
  const size_t bytes = (size_t)weft_cuda_product(s->used, 0, x->rank) * weft_cuda_size(x->dtype);
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, out));
  weft_cuda_walk_init(&w, x->rank, s->used);
  weft_cuda_dense_steps(x->rank, x->dims, w.steps[0]);
  weft_cuda_dense_steps(x->rank, s->used, w.steps[1]);
  return weft_cuda_move(c, x->dtype, x->data, 0, *out, 0, &w);
}

/* TensorFlow's transforms back are divided by the number of elements. */
static WEFT_Failure *divide(WEFT_KernelContext *c, const WEFT_TensorView *y, const weft_cuda_fft_t *fft) {
  if (fft->kind != WEFT_CUDA_FFT_BACKWARD && fft->kind != WEFT_CUDA_FFT_TO_REAL) return NULL;
  double by = 1 / (double)weft_cuda_product(fft->n, 0, fft->rank);
  int64_t n = y->count * (fft->kind == WEFT_CUDA_FFT_BACKWARD ? 2 : 1);
  void *data = y->data;
  void *args[] = {&data, &n, &by};
  return weft_cuda_launch_over(c, weft_cuda_pick(&scale_instances, weft_cuda_part_type(y->dtype)), n, 4,
                               args);
}

static WEFT_Failure *fft(WEFT_KernelContext *c) {
  const transform_t *t = weft_cuda_host->param(c);
  WEFT_TensorView x, y;
  void *from = NULL;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank < t->rank)
    return WEFT_CUDA_INVALID("Input must have rank of at least %d but got: %s", t->rank, WEFT_CUDA_SHAPE(&x));
  transform_sizes_t s = {.fft = {.kind = t->kind, .rank = t->rank}, .first = x.rank - t->rank};
  WEFT_CUDA_TRY(read_lengths(c, &x, &s));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, s.to, &y));
  WEFT_CUDA_TRY(check_types(t->kind, &x, &y));
  if (y.count == 0) return NULL;
  if (x.count == 0) return weft_cuda_fill(c, y.data, 0, y.bytes);
  s.fft.is_double = weft_cuda_part_type(y.dtype) == WEFT_CUDA_f64;
  s.fft.batch = weft_cuda_product(x.dims, 0, s.first);
  WEFT_CUDA_TRY(gather(c, &x, &s, &from));
  WEFT_CUDA_TRY(weft_cuda_fft(c, &s.fft, from, y.data));
  return divide(c, &y, &s.fft);
}

#define COMPLEX_ROW(op_, rank_, kind_)                                                   \
  {                                                                                      \
    .op = op_, .type_attr = "Tcomplex", .types = WEFT_CUDA_SET(COMPLEX), .compute = fft, \
    .param = &(const transform_t) {                                                      \
      rank_, kind_                                                                       \
    }                                                                                    \
  }
#define REAL_ROW(op_, rank_, kind_)                                                                     \
  {                                                                                                     \
    .op = op_, .type_attr = "Tcomplex", .types = WEFT_CUDA_SET(COMPLEX), .type_attr2 = "Treal",         \
    .types2 = WEFT_CUDA_SET(F32_F64), .compute = fft, .host_inputs = 2, .param = &(const transform_t) { \
      rank_, kind_                                                                                      \
    }                                                                                                   \
  }
const WEFT_DeviceKernel weft_cuda_fft_kernels[] = {
    COMPLEX_ROW("FFT", 1, WEFT_CUDA_FFT_FORWARD),
    COMPLEX_ROW("FFT2D", 2, WEFT_CUDA_FFT_FORWARD),
    COMPLEX_ROW("FFT3D", 3, WEFT_CUDA_FFT_FORWARD),
    COMPLEX_ROW("IFFT", 1, WEFT_CUDA_FFT_BACKWARD),
    COMPLEX_ROW("IFFT2D", 2, WEFT_CUDA_FFT_BACKWARD),
    COMPLEX_ROW("IFFT3D", 3, WEFT_CUDA_FFT_BACKWARD),
    REAL_ROW("IRFFT", 1, WEFT_CUDA_FFT_TO_REAL),
    REAL_ROW("IRFFT2D", 2, WEFT_CUDA_FFT_TO_REAL),
    REAL_ROW("IRFFT3D", 3, WEFT_CUDA_FFT_TO_REAL),
    REAL_ROW("RFFT", 1, WEFT_CUDA_FFT_FROM_REAL),
    REAL_ROW("RFFT2D", 2, WEFT_CUDA_FFT_FROM_REAL),
    REAL_ROW("RFFT3D", 3, WEFT_CUDA_FFT_FROM_REAL),
    {.op = NULL},
};
