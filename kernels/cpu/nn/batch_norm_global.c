/* kernels/cpu/nn/batch_norm_global.c - BatchNormWithGlobalNormalization, the first form of batch
 * normalisation, with statistics as inputs: y = (x - m) f + beta, f = gamma / sqrt(v + epsilon), or without
 * gamma. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/common.h"

WEFT_ATTRS_STRUCT(global_norm, (FLOAT, variance_epsilon), (BOOL, scale_after_normalization))

typedef struct global_norm_job {
  const void *x, *mean, *variance, *beta, *gamma, *dy;
  void *out[5];
  int64_t rows, channels;
  float epsilon;
  bool has_gamma;
} global_norm_job_t;

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/nn/batch_norm_global_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
typedef void global_norm_fn(const global_norm_job_t *j);
static global_norm_fn *const global_norm_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM global_norm
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static global_norm_fn *const global_norm_grad_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM global_norm_grad
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

/* Inputs [1, end) are vectors of as many elements as x has channels. */
static weft_status_t *check_norm(weft_kernel_ctx_t *ctx, int end, global_norm_job_t *j) {
  const weft_tensor_t *x = weft_in(ctx, 0);
  if (x->shape.rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4-dimensional, got %s", WEFT_SHAPE_TEXT(&x->shape));
  j->channels = x->shape.dims[3];
  j->rows = weft_cpu_product(&x->shape, 0, 3);
  for (int i = 1; i < end; i++) {
    const weft_shape_t *s = &weft_in(ctx, i)->shape;
    if (s->rank == 1 && s->dims[0] == j->channels) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "input %d must be a vector of %" PRId64 " elements, got %s", i,
                      j->channels, WEFT_SHAPE_TEXT(s));
  }
  return NULL;
}

WEFT_ATTRS_OF(norm, global_norm)
static weft_status_t *norm(weft_kernel_ctx_t *ctx, const global_norm_attrs_t *attrs) {
  const weft_tensor_t *x = weft_in(ctx, 0);
  global_norm_job_t j = {.epsilon = attrs->variance_epsilon, .has_gamma = attrs->scale_after_normalization};
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(check_norm(ctx, 5, &j));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  j.x = x->data;
  j.mean = weft_in(ctx, 1)->data;
  j.variance = weft_in(ctx, 2)->data;
  j.beta = weft_in(ctx, 3)->data;
  j.gamma = weft_in(ctx, 4)->data;
  j.out[0] = y->data;
  global_norm_fns[x->dtype](&j);
  return NULL;
}

WEFT_ATTRS_OF(norm_grad, global_norm)
static weft_status_t *norm_grad(weft_kernel_ctx_t *ctx, const global_norm_attrs_t *attrs) {
  const weft_tensor_t *x = weft_in(ctx, 0), *dy = weft_in(ctx, 4);
  global_norm_job_t j = {.epsilon = attrs->variance_epsilon, .has_gamma = attrs->scale_after_normalization};
  WEFT_RETURN_IF_ERROR(check_norm(ctx, 4, &j));
  if (!weft_shape_eq(&x->shape, &dy->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "out_backprop must have the shape of the input, %s, got %s",
                      WEFT_SHAPE_TEXT(&x->shape), WEFT_SHAPE_TEXT(&dy->shape));
  }
  const weft_shape_t vector = weft_shape_vector(j.channels);
  for (int o = 0; o < 5; o++) {
    weft_tensor_t *t = NULL;
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, o, x->dtype, o == 0 ? &x->shape : &vector, &t));
    j.out[o] = t->data;
  }
  j.x = x->data;
  j.mean = weft_in(ctx, 1)->data;
  j.variance = weft_in(ctx, 2)->data;
  j.gamma = weft_in(ctx, 3)->data;
  j.dy = dy->data;
  global_norm_grad_fns[x->dtype](&j);
  return NULL;
}

#define GLOBAL_NORM_TYPES (WEFT_SET_FLOATS & ~WEFT_DTYPE_BIT(WEFT_BF16))
const weft_kernel_t weft_cpu_batch_norm_global_kernels[] = {
    WEFT_KERNEL_ATTRS("BatchNormWithGlobalNormalization", "T", GLOBAL_NORM_TYPES, norm),
    WEFT_KERNEL_ATTRS("BatchNormWithGlobalNormalizationGrad", "T", GLOBAL_NORM_TYPES, norm_grad),
    {0},
};
