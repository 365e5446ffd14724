/* kernels/cpu/array/reshape.c - ops that change the shape or nothing at all: no byte moves. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/cast.h"

static weft_status_t *reshape_compute(weft_kernel_ctx_t *ctx) {
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_cpu_reshaped(weft_in(ctx, 0), weft_in(ctx, 1), &shape));
  return weft_cpu_out_view(ctx, 0, 0, &shape);
}

static weft_status_t *expand_dims_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *dim = weft_in(ctx, 1);
  if (dim->count != 1) return WEFT_ERROR(INVALID_ARGUMENT, "'dim' must be a tensor with a single value");
  int64_t axis = weft_cpu_int_at(dim, 0);
  int at = 0;
  if (!weft_cpu_wrap_axis(axis, x->shape.rank + 1, &at)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Tried to expand dim index %" PRId64 " for tensor with %d dimensions.", axis,
                      x->shape.rank);
  }
  if (x->shape.rank == WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "ExpandDims: too many dimensions");
  weft_shape_t shape = {.rank = x->shape.rank + 1};
  for (int d = 0, from = 0; d < shape.rank; d++) shape.dims[d] = d == at ? 1 : x->shape.dims[from++];
  return weft_cpu_out_view(ctx, 0, 0, &shape);
}

WEFT_ATTRS(squeeze_compute, (INTS, squeeze_dims))
static weft_status_t *squeeze_compute(weft_kernel_ctx_t *ctx, const squeeze_compute_attrs_t *attrs) {
  weft_tensor_t *x = weft_in(ctx, 0);
  const weft_attr_t *list = attrs->squeeze_dims;
  bool wanted[WEFT_MAX_DIMS] = {false};
  int n = list->n;
  for (int i = 0; i < n; i++) {
    int at = 0;
    if (!weft_cpu_wrap_axis(list->list.ints[i], x->shape.rank, &at)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Tried to squeeze dim index %" PRId64 " for tensor with %d dimensions.",
                        list->list.ints[i], x->shape.rank);
    }
    wanted[at] = true;
  }
  weft_shape_t shape = WEFT_SCALAR;
  for (int d = 0; d < x->shape.rank; d++) {
    if (n > 0 && wanted[d] && x->shape.dims[d] != 1) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Can not squeeze dim[%d], expected a dimension of 1, got %" PRId64,
                        d, x->shape.dims[d]);
    }
    bool drop = n > 0 ? wanted[d] : x->shape.dims[d] == 1;
    if (!drop) shape.dims[shape.rank++] = x->shape.dims[d];
  }
  return weft_cpu_out_view(ctx, 0, 0, &shape);
}

static weft_status_t *same_compute(weft_kernel_ctx_t *ctx) {
  weft_cpu_out_same(ctx, 0, 0);
  return NULL;
}

/* What a reference reads, without sharing its bytes: later writes do not show. */
static weft_status_t *deep_copy_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &out));
  return weft_cpu_copy(out, 0, x, 0, x->count);
}

WEFT_ATTRS(ensure_shape_compute, (SHAPE, shape))
static weft_status_t *ensure_shape_compute(weft_kernel_ctx_t *ctx,
                                           const ensure_shape_compute_attrs_t *attrs) {
  weft_tensor_t *x = weft_in(ctx, 0);
  if (!weft_shape_compatible(&x->shape, attrs->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape of tensor %s %s is not compatible with expected shape %s.",
                      ctx->node->name.data, WEFT_SHAPE_TEXT(&x->shape), WEFT_SHAPE_TEXT(attrs->shape));
  }
  weft_cpu_out_same(ctx, 0, 0);
  return NULL;
}

/* What a tensor holds that is no number, as CheckNumerics says it. */
WEFT_ATTRS(check_numerics_compute, (STRING, message))
static weft_status_t *check_numerics_compute(weft_kernel_ctx_t *ctx,
                                             const check_numerics_compute_attrs_t *attrs) {
  weft_tensor_t *x = weft_in(ctx, 0);
  enum { CHUNK = 256 };
  double values[CHUNK];
  weft_cpu_cast_fn *to_double = weft_cpu_cast_loop(x->dtype, WEFT_F64);
  bool has_nan = false, has_inf = false;
  for (int64_t i = 0; i < x->count; i += CHUNK) {
    int64_t n = x->count - i < CHUNK ? x->count - i : CHUNK;
    to_double(n, (const char *)x->data + (size_t)i * weft_dtype_size(x->dtype), values);
    for (int64_t k = 0; k < n; k++) {
      has_nan |= isnan(values[k]) != 0;
      has_inf |= isinf(values[k]) != 0;
    }
  }
  if (has_nan || has_inf) {
    const char *what = has_nan && has_inf ? "Inf and NaN" : has_nan ? "NaN" : "Inf";
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s : Tensor had %s values", WEFT_STR_ARGS(attrs->message), what);
  }
  weft_cpu_out_same(ctx, 0, 0);
  return NULL;
}

#define SAME(op_) \
  { .op = op_, .compute = same_compute, .forwards = true }
const weft_kernel_t weft_cpu_reshape_kernels[] = {
    WEFT_KERNEL_ATTRS("CheckNumerics", "T", WEFT_SET_FLOATS, check_numerics_compute),
    WEFT_KERNEL("DeepCopy", NULL, 0, NULL, deep_copy_compute, NULL),
    WEFT_KERNEL_ATTRS("EnsureShape", NULL, 0, ensure_shape_compute),
    WEFT_KERNEL("ExpandDims", NULL, 0, NULL, expand_dims_compute, NULL),
    SAME("PreventGradient"),
    WEFT_KERNEL("Reshape", NULL, 0, NULL, reshape_compute, NULL),
    SAME("Snapshot"),
    WEFT_KERNEL_ATTRS("Squeeze", NULL, 0, squeeze_compute),
    SAME("StopGradient"),
    {0},
};
