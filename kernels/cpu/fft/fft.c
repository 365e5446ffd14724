/* kernels/cpu/fft/fft.c - Fourier transforms of the last one, two or three dimensions, of complex or real
 * numbers. */
#include "kernels/cpu/fft/fft.h"

#include <limits.h>

/* The param of a row. */
typedef struct transform {
  int rank;
  weft_fft_kind_t kind;
  bool forward;
} transform_t;

/* The lengths, in input 1 for transforms of real numbers, and what they make of the shape. */
static weft_status_t *read_lengths(weft_kernel_ctx_t *ctx, weft_fft_job_t *j, weft_shape_t *out) {
  const weft_shape_t *in = &weft_in(ctx, 0)->shape;
  const int first = in->rank - j->rank;
  const weft_tensor_t *lengths = j->kind == WEFT_FFT_COMPLEX ? NULL : weft_in(ctx, 1);
  if (lengths != NULL && (lengths->shape.rank != 1 || lengths->count != j->rank))
    return WEFT_ERROR(INVALID_ARGUMENT, "fft_length must have shape [%d]", j->rank);
  for (int i = 0; i < j->rank; i++) {
    int64_t dim = in->dims[first + i], n = lengths == NULL ? dim : weft_cpu_int_at(lengths, i);
    bool is_last = i == j->rank - 1;
    if (n < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "fft_length[%d] must >= 0, but got: %lld", i, (long long)n);
    int64_t least = j->kind == WEFT_FFT_TO_REAL && is_last ? n / 2 + 1 : n;
    if (dim != 0 && dim < least) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Input dimension %d must have length of at least %lld but got: %lld", first + i,
                        (long long)least, (long long)dim);
    }
    if (n > INT_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "a transform has 2^31 elements or more");
    j->lengths[i] = n;
    j->from[i] = dim;
    j->used[i] = least;
    j->to[i] = j->kind == WEFT_FFT_FROM_REAL && is_last && n != 0 ? n / 2 + 1 : n;
    out->dims[first + i] = j->to[i];
  }
  return NULL;
}

static weft_status_t *check_types(weft_fft_kind_t kind, weft_dtype_t in, weft_dtype_t out) {
  bool is_single = in == WEFT_F32 || in == WEFT_C64;
  if (is_single == (out == WEFT_F32 || out == WEFT_C64)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Wrong types for %s FFT: in=%s out=%s",
                    kind == WEFT_FFT_FROM_REAL ? "forward real" : "backward real", weft_dtype_name(in),
                    weft_dtype_name(out));
}

static weft_status_t *run(weft_kernel_ctx_t *ctx, weft_fft_job_t *j, bool is_single, int64_t batch) {
  j->from_count = j->used_count = j->to_count = 1;
  for (int i = 0; i < j->rank; i++) {
    j->from_count *= j->from[i];
    j->used_count *= j->used[i];
    j->to_count *= j->to[i];
  }
  bool has_plan = is_single ? weft_fft_plan_f32(j) : weft_fft_plan_f64(j);
  int64_t grain = WEFT_CPU_GRAIN / 8 / (j->used_count + 1) + 1;
  if (has_plan)
    weft_parallel_for(ctx->device->pool, batch, grain, is_single ? weft_fft_run_f32 : weft_fft_run_f64, j);
  if (is_single) {
    weft_fft_unplan_f32(j);
  } else {
    weft_fft_unplan_f64(j);
  }
  return has_plan && !j->failed ? NULL : WEFT_NO_MEMORY("a Fourier transform");
}

static weft_status_t *fft_compute(weft_kernel_ctx_t *ctx) {
  const transform_t *t = ctx->node->param;
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  weft_fft_job_t j = {.kind = t->kind, .forward = t->forward, .rank = t->rank};
  weft_shape_t shape = x->shape;
  if (shape.rank < t->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input must have rank of at least %d but got: %s", t->rank,
                      WEFT_SHAPE_TEXT(&shape));
  }
  WEFT_RETURN_IF_ERROR(read_lengths(ctx, &j, &shape));
  weft_dtype_t out = weft_dtype_base(ctx->node->output_types[0]);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, out, &shape, &y));
  WEFT_RETURN_IF_ERROR(check_types(t->kind, x->dtype, out));
  if (x->count == 0) weft_cpu_zero(y); /* TensorFlow leaves it as it is */
  if (x->count == 0 || y->count == 0) return NULL;
  j.x = x->data;
  j.y = y->data;
  return run(ctx, &j, x->dtype == WEFT_F32 || x->dtype == WEFT_C64,
             weft_cpu_product(&shape, 0, shape.rank - t->rank));
}

#define ROW(op_, rank_, kind_, forward_)                                                        \
  {                                                                                             \
    .op = op_, .compute = fft_compute, .param = &(const transform_t) { rank_, kind_, forward_ } \
  }
const weft_kernel_t weft_cpu_fft_kernels[] = {
    ROW("FFT", 1, WEFT_FFT_COMPLEX, true),
    ROW("FFT2D", 2, WEFT_FFT_COMPLEX, true),
    ROW("FFT3D", 3, WEFT_FFT_COMPLEX, true),
    ROW("IFFT", 1, WEFT_FFT_COMPLEX, false),
    ROW("IFFT2D", 2, WEFT_FFT_COMPLEX, false),
    ROW("IFFT3D", 3, WEFT_FFT_COMPLEX, false),
    ROW("IRFFT", 1, WEFT_FFT_TO_REAL, false),
    ROW("IRFFT2D", 2, WEFT_FFT_TO_REAL, false),
    ROW("IRFFT3D", 3, WEFT_FFT_TO_REAL, false),
    ROW("RFFT", 1, WEFT_FFT_FROM_REAL, true),
    ROW("RFFT2D", 2, WEFT_FFT_FROM_REAL, true),
    ROW("RFFT3D", 3, WEFT_FFT_FROM_REAL, true),
    {0},
};
