/* kernels/cpu/sparse/merge.c - two sparse tensors element by element: SparseAdd and its gradient,
 * SparseSparseMaximum, SparseSparseMinimum.
 *
 * Both are walked at once as if they were in order. One that is not gives what such a walk gives, as in
 * TensorFlow.
 */
#include <complex.h>
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/sparse/sparse.h"
#include "tensor/update.h"

/* One element of the result: elements of a and b, or -1 for one that is not there. */
typedef struct pair {
  int64_t a, b;
} pair_t;

static weft_status_t *read_two(const weft_kernel_ctx_t *ctx, weft_sparse_t *a, weft_sparse_t *b) {
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, a));
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 3, 1, b));
  if (a->rank != b->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Operands do not have the same ranks; got %d and %d", a->rank,
                      b->rank);
  }
  for (int d = 0; d < a->rank; d++) {
    if (a->dims[d] == b->dims[d]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Operands' shapes do not match: got %" PRId64 " and %" PRId64 " for dimension %d",
                      a->dims[d], b->dims[d], d);
  }
  return NULL;
}

/* The pairs of a walk through both; *out has room for a->n + b->n, owned by the caller. */
static weft_status_t *walk(const weft_sparse_t *a, const weft_sparse_t *b, pair_t **out, int64_t *out_n) {
  int64_t i = 0, k = 0, n = 0;
  pair_t *pairs = weft_calloc((size_t)a->n + (size_t)b->n + 1, sizeof *pairs);
  if (pairs == NULL) return WEFT_NO_MEMORY("a sparse tensor of up to %" PRId64 " elements", a->n + b->n);
  while (i < a->n || k < b->n) {
    int order = i == a->n   ? 1
                : k == b->n ? -1
                            : weft_coordinates_compare(weft_sparse_at(a, i), weft_sparse_at(b, k), a->rank);
    pairs[n++] = (pair_t){order <= 0 ? i++ : -1, order >= 0 ? k++ : -1};
  }
  *out = pairs;
  *out_n = n;
  return NULL;
}

static const void *element(const weft_tensor_t *t, int64_t i) {
  return (const char *)t->data + (size_t)i * weft_dtype_size(t->dtype);
}

/* Output 0: the coordinates of the pairs. */
static weft_status_t *put_indices(weft_kernel_ctx_t *ctx, const weft_sparse_t *a, const weft_sparse_t *b,
                                  const pair_t *pairs, int64_t n) {
  int64_t *at = NULL;
  WEFT_RETURN_IF_ERROR(weft_sparse_new_indices(ctx, 0, n, a->rank, &at));
  for (int64_t i = 0; i < n; i++) {
    const int64_t *from = pairs[i].a >= 0 ? weft_sparse_at(a, pairs[i].a) : weft_sparse_at(b, pairs[i].b);
    for (int d = 0; d < a->rank; d++) at[i * a->rank + d] = from[d];
  }
  return NULL;
}

/* ---- SparseAdd ---- */

/* |v| as TensorFlow's std::abs gives it: the lowest integer stays what it is. */
static double magnitude(weft_dtype_t dtype, const void *v) {
  weft_c128_t z = {0};
  if (dtype == WEFT_C64) {
    const weft_c64_t *c = v;
    return (double)hypotf(c->re, c->im);
  }
  weft_cpu_cast_loop(dtype, WEFT_C128)(1, v, &z);
  return dtype == WEFT_C128 ? hypot(z.re, z.im) : fabs(z.re);
}

/* Is the sum that two elements have as large as the threshold? Of integers in 64 bits, of others in double.
 */
static bool is_kept(weft_dtype_t dtype, const void *v, const weft_tensor_t *threshold) {
  if (weft_dtype_is_integer(dtype)) {
    int64_t n = 0;
    weft_cpu_cast_loop(dtype, WEFT_I64)(1, v, &n);
    /* int8 and int16 are widened first; of the two others the lowest is its own negative. */
    int64_t size = n >= 0 ? n : dtype == WEFT_I32 ? (int32_t)(0u - (uint32_t)n) : (int64_t)(0u - (uint64_t)n);
    return weft_cpu_int_at(threshold, 0) <= size;
  }
  double least = 0;
  weft_cpu_cast_loop(threshold->dtype, WEFT_F64)(1, threshold->data, &least);
  return least <= magnitude(dtype, v);
}

/* Drops the pairs whose sum is below the threshold; returns how many are left. */
static int64_t drop_small(const weft_sparse_t *a, const weft_sparse_t *b, const weft_tensor_t *threshold,
                          pair_t *pairs, int64_t n) {
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, a->values->dtype);
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i++) {
    if (pairs[i].a >= 0 && pairs[i].b >= 0) {
      weft_c128_t sum = {0};
      memcpy(&sum, element(a->values, pairs[i].a), weft_dtype_size(a->values->dtype));
      add(&sum, element(b->values, pairs[i].b), 1, false);
      if (!is_kept(a->values->dtype, &sum, threshold)) continue;
    }
    pairs[kept++] = pairs[i];
  }
  return kept;
}

static weft_status_t *put_sum(weft_kernel_ctx_t *ctx, const weft_sparse_t *a, const weft_sparse_t *b,
                              const pair_t *pairs, int64_t n) {
  weft_tensor_t *values = NULL;
  WEFT_RETURN_IF_ERROR(put_indices(ctx, a, b, pairs, n));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, 1, a->values->dtype, n, &values));
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, values->dtype);
  size_t size = weft_dtype_size(values->dtype);
  for (int64_t i = 0; i < n; i++) {
    char *to = (char *)values->data + (size_t)i * size;
    bool in_a = pairs[i].a >= 0;
    memcpy(to, in_a ? element(a->values, pairs[i].a) : element(b->values, pairs[i].b), size);
    if (in_a && pairs[i].b >= 0) add(to, element(b->values, pairs[i].b), 1, false);
  }
  weft_cpu_out_same(ctx, 2, 2);
  return NULL;
}

static weft_status_t *add_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t a, b;
  const weft_tensor_t *threshold = weft_in(ctx, 6);
  WEFT_RETURN_IF_ERROR(read_two(ctx, &a, &b));
  if (!weft_is_scalar(threshold)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The magnitude threshold must be a scalar: got shape %s",
                      WEFT_SHAPE_TEXT(&threshold->shape));
  }
  if (weft_dtype_is_integer(a.values->dtype) != weft_dtype_is_integer(threshold->dtype)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The magnitude threshold of %s must not be %s",
                      weft_dtype_name(a.values->dtype), weft_dtype_name(threshold->dtype));
  }
  if (a.rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Tensors must not be empty");
  pair_t *pairs = NULL;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(walk(&a, &b, &pairs, &n));
  n = drop_small(&a, &b, threshold, pairs, n);
  weft_status_t *s = put_sum(ctx, &a, &b, pairs, n);
  weft_free(pairs);
  return s;
}

/* ---- its gradient: an element gets that of the sum it went into, or 0 ---- */

static weft_status_t *add_grad_check(const weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *dy = weft_in(ctx, 0), *a = weft_in(ctx, 1), *b = weft_in(ctx, 2),
                      *sum = weft_in(ctx, 3);
  if (!weft_is_matrix(a) || !weft_is_matrix(b) || !weft_is_matrix(sum)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "a_indices, b_indices and sum_indices should be matrices but received shapes: %s, %s, %s",
        WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape), WEFT_SHAPE_TEXT(&sum->shape));
  }
  if (!weft_is_vector(dy) || dy->count != sum->shape.dims[0]) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "# elements of backprop_val_grad and # rows of sum_indices should match (#nnz of sum): got "
        "shapes %s and %s",
        WEFT_SHAPE_TEXT(&dy->shape), WEFT_SHAPE_TEXT(&sum->shape));
  }
  if (a->shape.dims[1] != b->shape.dims[1] || a->shape.dims[1] != sum->shape.dims[1]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The densified operands should have the same ndims; for A, B, Sum got: %" PRId64
                      ", %" PRId64 ", %" PRId64,
                      a->shape.dims[1], b->shape.dims[1], sum->shape.dims[1]);
  }
  if (a->shape.dims[1] > INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "too many dimensions");
  return NULL;
}

static weft_status_t *spread(weft_kernel_ctx_t *ctx, int o, const weft_tensor_t *indices) {
  const weft_tensor_t *dy = weft_in(ctx, 0), *sum = weft_in(ctx, 3);
  weft_tensor_t *out = NULL;
  int64_t n = indices->shape.dims[0], k = 0;
  int rank = (int)indices->shape.dims[1];
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, o, dy->dtype, n, &out));
  weft_cpu_zero(out);
  for (int64_t i = 0; i < n && k < sum->shape.dims[0]; k++) {
    const int64_t *at = (const int64_t *)indices->data + i * rank,
                  *of = (const int64_t *)sum->data + k * rank;
    int order = weft_coordinates_compare(at, of, rank);
    if (order > 0) continue;
    if (order == 0) {
      WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, i, dy, k, 1));
      i++;
    } else { /* dropped from the sum: look at the same place again */
      i++;
      k--;
    }
  }
  return NULL;
}

static weft_status_t *add_grad_compute(weft_kernel_ctx_t *ctx) {
  WEFT_RETURN_IF_ERROR(add_grad_check(ctx));
  WEFT_RETURN_IF_ERROR(spread(ctx, 0, weft_in(ctx, 1)));
  return spread(ctx, 1, weft_in(ctx, 2));
}

/* ---- maximum, minimum: an element that is missing is 0 ---- */

static weft_status_t *put_folded(weft_kernel_ctx_t *ctx, const weft_sparse_t *a, const weft_sparse_t *b,
                                 const pair_t *pairs, int64_t n) {
  weft_tensor_t *values = NULL;
  WEFT_RETURN_IF_ERROR(put_indices(ctx, a, b, pairs, n));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, 1, a->values->dtype, n, &values));
  weft_update_fn *fold = weft_update_find(*(const weft_update_t *)ctx->node->param, values->dtype);
  size_t size = weft_dtype_size(values->dtype);
  const weft_c128_t zero = {0};
  for (int64_t i = 0; i < n; i++) {
    char *to = (char *)values->data + (size_t)i * size;
    memcpy(to, pairs[i].a >= 0 ? element(a->values, pairs[i].a) : &zero, size);
    fold(to, pairs[i].b >= 0 ? element(b->values, pairs[i].b) : &zero, 1, false);
  }
  return NULL;
}

static weft_status_t *fold_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t a, b;
  WEFT_RETURN_IF_ERROR(read_two(ctx, &a, &b));
  WEFT_RETURN_IF_ERROR(weft_sparse_check_inside(&a));
  WEFT_RETURN_IF_ERROR(weft_sparse_check_inside(&b));
  pair_t *pairs = NULL;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(walk(&a, &b, &pairs, &n));
  weft_status_t *s = put_folded(ctx, &a, &b, pairs, n);
  weft_free(pairs);
  return s;
}

#define FOLD(op_, how)                                                            \
  {                                                                               \
    .op = op_, .type_attr = "T", .types = WEFT_SET_REAL, .compute = fold_compute, \
    .param = &(const weft_update_t) {                                             \
      how                                                                         \
    }                                                                             \
  }
const weft_kernel_t weft_cpu_sparse_merge_kernels[] = {
    WEFT_KERNEL("SparseAdd", "T",
                WEFT_SET_SIGNED | WEFT_SET_COMPLEX | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64),
                NULL, add_compute, NULL),
    WEFT_KERNEL("SparseAddGrad", "T",
                WEFT_SET_SIGNED | WEFT_SET_COMPLEX | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64),
                NULL, add_grad_compute, NULL),
    FOLD("SparseSparseMaximum", WEFT_UPDATE_MAX),
    FOLD("SparseSparseMinimum", WEFT_UPDATE_MIN),
    {0},
};
