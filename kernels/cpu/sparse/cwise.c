/* kernels/cpu/sparse/cwise.c - SparseDenseCwiseAdd, -Mul, -Div: the elements of a sparse tensor and those of
 * a dense one at the same places. The dense one is broadcast; the result has the sparse one's places. */
#include <inttypes.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/sparse/sparse.h"
#include "tensor/update.h"

enum { MAX_RANK = 5 }; /* TensorFlow's */

static weft_status_t *check(const weft_sparse_t *x, const weft_shape_t *dense) {
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_sparse_dense_shape(x, &shape));
  bool fits = dense->rank <= x->rank;
  for (int d = 0; fits && d < dense->rank; d++) {
    int64_t of_dense = dense->dims[d], of_sparse = x->dims[x->rank - dense->rank + d];
    fits = of_dense == of_sparse || (of_dense == 1 && of_sparse > 1);
  }
  if (!fits) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: %s vs. %s",
        WEFT_SHAPE_TEXT(&shape), WEFT_SHAPE_TEXT(dense));
  }
  if (x->rank < 1 || x->rank > MAX_RANK) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Only tensors with ranks between 1 and %d are currently supported.  Tensor rank: %d",
                      (int)MAX_RANK, x->rank);
  }
  for (int64_t i = 0; i < x->n; i++) {
    if (weft_sparse_is_inside(x, i)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Provided indices are out-of-bounds w.r.t. dense side with broadcasted shape");
  }
  return NULL;
}

/* The element of the dense tensor at the place of element i. */
static const char *dense_at(const weft_sparse_t *x, const weft_tensor_t *dense, int64_t i) {
  const int64_t *at = weft_sparse_at(x, i) + (x->rank - dense->shape.rank);
  int64_t from = 0;
  for (int d = 0; d < dense->shape.rank; d++) {
    from = from * dense->shape.dims[d] + (dense->shape.dims[d] == 1 ? 0 : at[d]);
  }
  return (const char *)dense->data + (size_t)from * weft_dtype_size(dense->dtype);
}

static bool is_zero(const char *v, weft_dtype_t dtype) {
  weft_c128_t wide;
  weft_cpu_cast_loop(dtype, WEFT_C128)(1, v, &wide);
  return wide.re == 0;
}

static weft_status_t *cwise_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t x;
  const weft_tensor_t *dense = weft_in(ctx, 3);
  weft_update_t how = *(const weft_update_t *)ctx->node->param;
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, &x));
  WEFT_RETURN_IF_ERROR(check(&x, &dense->shape));
  weft_tensor_t *out = NULL;
  size_t size = weft_dtype_size(dense->dtype);
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, 0, dense->dtype, x.n, &out));
  weft_update_fn *update = weft_update_find(how, dense->dtype);
  for (int64_t i = 0; i < x.n; i++) {
    const char *by = dense_at(&x, dense, i);
    char *to = (char *)out->data + (size_t)i * size;
    if (how == WEFT_UPDATE_DIV && is_zero(by, dense->dtype)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "SparseDenseCwiseDiv cannot divide by zero, but input dense tensor contains zero ");
    }
    memcpy(to, (const char *)x.values->data + (size_t)i * size, size);
    update(to, by, 1, false);
  }
  return NULL;
}

#define CWISE(op_, how)                                                            \
  {                                                                                \
    .op = op_, .type_attr = "T", .types = WEFT_SET_REAL, .compute = cwise_compute, \
    .param = &(const weft_update_t) {                                              \
      how                                                                          \
    }                                                                              \
  }
const weft_kernel_t weft_cpu_sparse_cwise_kernels[] = {
    CWISE("SparseDenseCwiseAdd", WEFT_UPDATE_ADD),
    CWISE("SparseDenseCwiseDiv", WEFT_UPDATE_DIV),
    CWISE("SparseDenseCwiseMul", WEFT_UPDATE_MUL),
    {0},
};
