/* kernels/cpu/array/inplace.c - tensors with rows replaced: InplaceUpdate, InplaceAdd, InplaceSub,
 * ParallelConcat and the nodes that TensorFlow rewrites it to.
 *
 * TensorFlow's kernels write into their input. Here an input that others hold is copied first, so that they
 * do not see the change.
 */
#include <inttypes.h>

#include "kernels/cpu/loops/common.h"
#include "tensor/update.h"

/* Output 0 with the elements of input 0, in its memory where that is free to take. */
static weft_status_t *copy_input(weft_kernel_ctx_t *ctx, weft_tensor_t **out) {
  weft_tensor_t *x = weft_in(ctx, 0);
  const void *old = x->data;
  if (weft_tensor_is_exclusive(x) && weft_dtype_is_plain(x->dtype)) {
    WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, x->dtype, &x->shape, out));
  } else {
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, out));
  }
  return (*out)->data == old ? NULL : weft_cpu_copy(*out, 0, x, 0, x->count);
}

static weft_status_t *check_rows(const weft_shape_t *x, const weft_shape_t *i, const weft_shape_t *v) {
  if (i->rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "i must be a vector. %s", WEFT_SHAPE_TEXT(i));
  if (x->rank != v->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "x and v shape doesn't match (ranks differ): %s vs. %s",
                      WEFT_SHAPE_TEXT(x), WEFT_SHAPE_TEXT(v));
  }
  if (x->rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "x must be at least 1 dimensional");
  for (int d = 1; d < x->rank; d++) {
    if (x->dims[d] == v->dims[d]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "x and v shape doesn't match at index %d : %s vs. %s", d,
                      WEFT_SHAPE_TEXT(x), WEFT_SHAPE_TEXT(v));
  }
  if (i->dims[0] != v->dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "i and x shape doesn't match at index 0: %s vs. %s",
                      WEFT_SHAPE_TEXT(i), WEFT_SHAPE_TEXT(v));
  }
  return NULL;
}

/* Row i[k] of the output, taken modulo the number of rows, is combined with row k of v. */
static weft_status_t *inplace_compute(weft_kernel_ctx_t *ctx) {
  const weft_update_t how = *(const weft_update_t *)ctx->node->param;
  const weft_tensor_t *i = weft_in(ctx, 1), *v = weft_in(ctx, 2);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(check_rows(&weft_in(ctx, 0)->shape, &i->shape, &v->shape));
  weft_update_fn *update = v->dtype == WEFT_BOOL ? NULL : weft_update_find(how, v->dtype);
  const bool has_work = weft_in(ctx, 0)->count > 0 && v->count > 0;
  if (update == NULL && how != WEFT_UPDATE_SET && has_work)
    return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported data type: %s", weft_dtype_name(v->dtype));
  WEFT_RETURN_IF_ERROR(copy_input(ctx, &y));
  if (!has_work) return NULL;
  int64_t rows = y->shape.dims[0], row = weft_cpu_product(&y->shape, 1, y->shape.rank);
  size_t bytes = (size_t)row * weft_dtype_size(y->dtype);
  for (int64_t k = 0; k < i->count; k++) {
    int64_t at = (weft_cpu_int_at(i, k) % rows + rows) % rows;
    if (update != NULL) {
      update((char *)y->data + (size_t)at * bytes, (const char *)v->data + (size_t)k * bytes, row, false);
    } else {
      WEFT_RETURN_IF_ERROR(weft_cpu_copy(y, at * row, v, k * row, row));
    }
  }
  return NULL;
}

/* ---- ParallelConcat: N tensors of one row, below each other ---- */

WEFT_ATTRS(parallel_concat_compute, (SHAPE, shape))
static weft_status_t *parallel_concat_compute(weft_kernel_ctx_t *ctx,
                                              const parallel_concat_compute_attrs_t *attrs) {
  weft_tensor_t *y = NULL;
  int n = ctx->node->num_inputs;
  weft_shape_t shape = *attrs->shape, row = shape;
  if (!weft_shape_is_known(&shape) || shape.rank < 1 || shape.dims[0] != n)
    return WEFT_ERROR(INVALID_ARGUMENT, "shape %s does not have a row for each of %d values",
                      WEFT_SHAPE_TEXT(&shape), n);
  row.dims[0] = 1;
  for (int i = 0; i < n; i++) {
    if (weft_shape_eq(&weft_in(ctx, i)->shape, &row)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "value %d has shape %s instead of %s", i,
                      WEFT_SHAPE_TEXT(&weft_in(ctx, i)->shape), WEFT_SHAPE_TEXT(&row));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_in(ctx, 0)->dtype, &shape, &y));
  int64_t count = weft_in(ctx, 0)->count;
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(weft_cpu_copy(y, i * count, weft_in(ctx, i), 0, count));
  return NULL;
}

WEFT_ATTRS(concat_start_compute, (SHAPE, shape), (TYPE, dtype))
static weft_status_t *concat_start_compute(weft_kernel_ctx_t *ctx,
                                           const concat_start_compute_attrs_t *attrs) {
  weft_tensor_t *y = NULL;
  if (!weft_shape_is_known(attrs->shape))
    return WEFT_ERROR(INVALID_ARGUMENT, "shape %s is not fully known", WEFT_SHAPE_TEXT(attrs->shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, (weft_dtype_t)attrs->dtype, attrs->shape, &y));
  weft_cpu_zero(y);
  return NULL;
}

/* Row `loc` of the output is the update. */
WEFT_ATTRS(concat_update_compute, (INT, loc))
static weft_status_t *concat_update_compute(weft_kernel_ctx_t *ctx,
                                            const concat_update_compute_attrs_t *attrs) {
  const weft_tensor_t *update = weft_in(ctx, 1);
  const weft_shape_t x = weft_in(ctx, 0)->shape;
  weft_tensor_t *y = NULL;
  int64_t at = attrs->loc;
  bool fits = x.rank >= 1 && update->shape.rank == x.rank && update->shape.dims[0] == 1;
  for (int d = 1; fits && d < x.rank; d++) fits = update->shape.dims[d] == x.dims[d];
  if (!fits) {
    return WEFT_ERROR(INVALID_ARGUMENT, "update of shape %s is no row of a value of shape %s",
                      WEFT_SHAPE_TEXT(&update->shape), WEFT_SHAPE_TEXT(&x));
  }
  if (at < 0 || at >= x.dims[0])
    return WEFT_ERROR(INVALID_ARGUMENT, "loc %" PRId64 " is no row of shape %s", at, WEFT_SHAPE_TEXT(&x));
  WEFT_RETURN_IF_ERROR(copy_input(ctx, &y));
  return weft_cpu_copy(y, at * update->count, update, 0, update->count);
}

#define INPLACE(op_, how)                                                                        \
  {                                                                                              \
    .op = op_, .compute = inplace_compute, .param = &(const weft_update_t) { WEFT_UPDATE_##how } \
  }
const weft_kernel_t weft_cpu_inplace_kernels[] = {
    INPLACE("InplaceAdd", ADD),
    INPLACE("InplaceSub", SUB),
    INPLACE("InplaceUpdate", SET),
    WEFT_KERNEL_ATTRS("ParallelConcat", NULL, 0, parallel_concat_compute),
    WEFT_KERNEL_ATTRS("_ParallelConcatStart", NULL, 0, concat_start_compute),
    WEFT_KERNEL_ATTRS("_ParallelConcatUpdate", NULL, 0, concat_update_compute),
    {0},
};
