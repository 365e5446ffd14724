/* kernels/cpu/fft/fft.c - Fourier transforms of the last one, two or three dimensions, of complex or real
 * numbers. */
#include "kernels/cpu/fft/fft.h"

#include <limits.h>

#include "base/mutex.h"

/* The param of a row. */
typedef struct transform {
  int rank;
  weft_fft_kind_t kind;
  bool forward;
} transform_t;

/* The plans of a node: of the lengths that it had last. A graph has the same ones step after step. */
typedef struct fft_state {
  weft_mutex_t mu;
  weft_fft_plans_t *last; /* guarded by mu; a reference; NULL at first */
} fft_state_t;

static weft_status_t *fft_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  fft_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  weft_mutex_init(&st->mu);
  *out_state = st;
  return NULL;
}

static void fft_destroy(void *state) {
  fft_state_t *st = state;
  if (st == NULL) return;
  weft_fft_plans_release(st->last);
  weft_mutex_deinit(&st->mu);
  weft_free(st);
}

static bool is_like(const weft_fft_plans_t *a, const weft_fft_plans_t *b) {
  return a != NULL && a->is_single == b->is_single &&
         memcmp(a->lengths, b->lengths, sizeof a->lengths) == 0; /* an op has one kind and rank */
}

/* Plans like those; the caller owns a reference. NULL: no memory. */
static weft_fft_plans_t *plans_like(fft_state_t *st, const weft_fft_plans_t *like) {
  weft_fft_plans_t *found = NULL;
  weft_mutex_lock(&st->mu);
  if (is_like(st->last, like)) {
    found = st->last;
    atomic_fetch_add(&found->refs, 1);
  }
  weft_mutex_unlock(&st->mu);
  if (found != NULL) return found;
  weft_fft_plans_t *made = weft_fft_plans_new(like), *old = NULL;
  if (made == NULL) return NULL;
  atomic_fetch_add(&made->refs, 1); /* the state's */
  weft_mutex_lock(&st->mu);
  old = st->last;
  st->last = made;
  weft_mutex_unlock(&st->mu);
  weft_fft_plans_release(old);
  return made;
}

/* The lengths, in input 1 for transforms of real numbers, and what they make of the shape. */
static weft_status_t *read_lengths(weft_kernel_ctx_t *ctx, weft_fft_plans_t *p, weft_fft_job_t *j,
                                   weft_shape_t *out) {
  const weft_shape_t *in = &weft_in(ctx, 0)->shape;
  const int first = in->rank - p->rank;
  const weft_tensor_t *lengths = p->kind == WEFT_FFT_COMPLEX ? NULL : weft_in(ctx, 1);
  if (lengths != NULL && (lengths->shape.rank != 1 || lengths->count != p->rank))
    return WEFT_ERROR(INVALID_ARGUMENT, "fft_length must have shape [%d]", p->rank);
  for (int i = 0; i < p->rank; i++) {
    const int64_t dim = in->dims[first + i], n = lengths == NULL ? dim : weft_cpu_int_at(lengths, i);
    const bool is_last = i == p->rank - 1;
    if (n < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "fft_length[%d] must >= 0, but got: %lld", i, (long long)n);
    const int64_t least = is_last ? weft_fft_used(p->kind, n) : n;
    if (dim != 0 && dim < least) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Input dimension %d must have length of at least %lld but got: %lld", first + i,
                        (long long)least, (long long)dim);
    }
    if (n > INT_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "a transform has 2^31 elements or more");
    p->lengths[i] = n;
    j->from[i] = dim;
    j->used[i] = least;
    j->to[i] = is_last ? weft_fft_made(p->kind, n) : n;
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

static weft_status_t *run(weft_kernel_ctx_t *ctx, const weft_fft_plans_t *like, weft_fft_job_t *j,
                          int64_t batch) {
  j->from_count = j->used_count = j->to_count = 1;
  for (int i = 0; i < like->rank; i++) {
    j->from_count *= j->from[i];
    j->used_count *= j->used[i];
    j->to_count *= j->to[i];
  }
  weft_fft_plans_t *plans = plans_like(ctx->state, like);
  if (plans == NULL) return WEFT_NO_MEMORY("a Fourier transform");
  j->plans = plans;
  const int64_t grain = WEFT_CPU_GRAIN / 8 / (j->used_count + 1) + 1;
  weft_parallel_for(ctx->device->pool, batch, grain, like->is_single ? weft_fft_run_f32 : weft_fft_run_f64,
                    j);
  weft_fft_plans_release(plans);
  return atomic_load(&j->failed) ? WEFT_NO_MEMORY("a Fourier transform") : NULL;
}

static weft_status_t *fft_compute(weft_kernel_ctx_t *ctx) {
  const transform_t *t = ctx->node->param;
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  weft_fft_plans_t like = {.is_single = x->dtype == WEFT_F32 || x->dtype == WEFT_C64,
                           .kind = t->kind,
                           .forward = t->forward,
                           .rank = t->rank};
  weft_fft_job_t j = {.x = x->data};
  weft_shape_t shape = x->shape;
  if (shape.rank < t->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input must have rank of at least %d but got: %s", t->rank,
                      WEFT_SHAPE_TEXT(&shape));
  }
  WEFT_RETURN_IF_ERROR(read_lengths(ctx, &like, &j, &shape));
  weft_dtype_t out = weft_dtype_base(ctx->node->output_types[0]);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, out, &shape, &y));
  WEFT_RETURN_IF_ERROR(check_types(t->kind, x->dtype, out));
  if (x->count == 0) weft_cpu_zero(y); /* TensorFlow leaves it as it is */
  if (x->count == 0 || y->count == 0) return NULL;
  j.y = y->data;
  return run(ctx, &like, &j, weft_cpu_product(&shape, 0, shape.rank - t->rank));
}

#define ROW(op_, rank_, kind_, forward_)                                               \
  {                                                                                    \
    .op = op_, .prepare = fft_prepare, .compute = fft_compute, .destroy = fft_destroy, \
    .param = &(const transform_t) {                                                    \
      rank_, kind_, forward_                                                           \
    }                                                                                  \
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
