/* kernels/cpu/sparse/matmul.c - SparseTensorDenseMatMul: a sparse matrix times a dense one.
 *
 *   a [M, K] sparse, or [K, M] with adjoint_a; b [K, N], or [N, K] with adjoint_b; product [M, N]
 */
#include <inttypes.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/sparse/sparse.h"

typedef void add_row_fn(void *to, const void *a, const void *b, int64_t n, int64_t stride, bool conjugates_a,
                        bool conjugates_b);
#define MAP_STEM add_row
#define EACH_HALFS 1
#define EACH_FLOATS 1
#define EACH_I32_I64 1
#define EACH_COMPLEX 1
#define EACH_FILE "kernels/cpu/sparse/matmul_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static add_row_fn *const add_row[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"
#undef MAP_STEM

WEFT_ATTRS(matmul_compute, (BOOL, adjoint_a), (BOOL, adjoint_b))

static weft_status_t *check(const weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *indices = weft_in(ctx, 0), *values = weft_in(ctx, 1), *shape = weft_in(ctx, 2);
  if (!weft_is_matrix(weft_in(ctx, 3))) return WEFT_ERROR(INVALID_ARGUMENT, "Tensor 'b' is not a matrix");
  if (!weft_is_vector(shape)) return WEFT_ERROR(INVALID_ARGUMENT, "Tensor 'a_shape' is not a vector");
  if (shape->count != 2) return WEFT_ERROR(INVALID_ARGUMENT, "Tensor 'a_shape' must have 2 elements");
  if (!weft_is_vector(values)) return WEFT_ERROR(INVALID_ARGUMENT, "Tensor 'a_values' is not a vector");
  if (!weft_is_matrix(indices)) return WEFT_ERROR(INVALID_ARGUMENT, "Tensor 'a_indices' is not a matrix");
  if (indices->shape.dims[0] != values->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Number of rows of a_indices does not match number of entries in a_values");
  }
  if (indices->shape.dims[1] != shape->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Number of columns of a_indices does not match number of entries in a_shape");
  }
  return NULL;
}

static weft_status_t *check_indices(const weft_tensor_t *indices, int64_t M, int64_t K, int m_column) {
  for (int64_t i = 0; i < indices->shape.dims[0]; i++) {
    int64_t m = weft_cpu_int_at(indices, 2 * i + m_column),
            k = weft_cpu_int_at(indices, 2 * i + 1 - m_column);
    if (k < 0 || k >= K) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "k (%" PRId64 ") from index[%" PRId64 ",%d] out of bounds (>=%" PRId64 ")", k, i,
                        1 - m_column, K);
    }
    if (m < 0 || m >= M) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "m (%" PRId64 ") from index[%" PRId64 ",%d] out of bounds (>=%" PRId64 ")", m, i,
                        m_column, M);
    }
  }
  return NULL;
}

/* The indices are known to be good, or one of the sizes is 0. */
static void multiply(const matmul_compute_attrs_t *attrs, const weft_tensor_t *indices,
                     const weft_tensor_t *values, const weft_tensor_t *b, weft_tensor_t *out) {
  int m_column = attrs->adjoint_a ? 1 : 0;
  int64_t N = out->shape.dims[1], columns = b->shape.dims[1];
  size_t size = weft_dtype_size(b->dtype);
  weft_cpu_zero(out);
  if (out->count == 0 || b->count == 0) return;
  for (int64_t i = 0; i < values->count; i++) {
    int64_t m = weft_cpu_int_at(indices, 2 * i + m_column),
            k = weft_cpu_int_at(indices, 2 * i + 1 - m_column);
    int64_t from = attrs->adjoint_b ? k : k * columns;
    add_row[b->dtype]((char *)out->data + (size_t)(m * N) * size,
                      (const char *)values->data + (size_t)i * size,
                      (const char *)b->data + (size_t)from * size, N, attrs->adjoint_b ? columns : 1,
                      attrs->adjoint_a, attrs->adjoint_b);
  }
}

/* Of halfs the sum is kept in float; of bfloat16 each term and each sum is rounded. So does TensorFlow. */
static weft_status_t *multiply_halfs(weft_kernel_ctx_t *ctx, const matmul_compute_attrs_t *attrs,
                                     const weft_tensor_t *indices, const weft_tensor_t *values,
                                     const weft_tensor_t *b, weft_tensor_t *out) {
  weft_tensor_t *wide_values = NULL, *wide_b = NULL, *sum = NULL;
  weft_status_t *s = weft_cpu_cast(ctx, values, WEFT_F32, &wide_values);
  if (s == NULL) s = weft_cpu_cast(ctx, b, WEFT_F32, &wide_b);
  if (s == NULL) s = weft_tensor_new(WEFT_F32, &out->shape, NULL, &sum);
  if (s == NULL) {
    multiply(attrs, indices, wide_values, wide_b, sum);
    weft_cpu_cast_loop(WEFT_F32, out->dtype)(out->count, sum->data, out->data);
  }
  weft_tensor_release(wide_values);
  weft_tensor_release(wide_b);
  weft_tensor_release(sum);
  return s;
}

static weft_status_t *matmul_compute(weft_kernel_ctx_t *ctx, const matmul_compute_attrs_t *attrs) {
  WEFT_RETURN_IF_ERROR(check(ctx));
  const weft_tensor_t *indices = weft_in(ctx, 0), *values = weft_in(ctx, 1), *b = weft_in(ctx, 3);
  const int64_t *dims = weft_in(ctx, 2)->data;
  int m_column = attrs->adjoint_a ? 1 : 0;
  int64_t M = dims[m_column], K = dims[1 - m_column];
  int64_t N = b->shape.dims[attrs->adjoint_b ? 0 : 1];
  if (b->shape.dims[attrs->adjoint_b ? 1 : 0] != K) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Cannot multiply A and B because inner dimension does not match: %" PRId64 " vs. %" PRId64
        ".  Did you forget a transpose?  Dimensions of A: [%" PRId64 ", %" PRId64 ").  Dimensions of B: %s",
        K, b->shape.dims[attrs->adjoint_b ? 1 : 0], dims[0], dims[1], WEFT_SHAPE_TEXT(&b->shape));
  }
  weft_shape_t shape;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_shape_make((int64_t[]){M, N}, 2, &shape));
  bool is_zero = M == 0 || N == 0 || b->count == 0;
  if (!is_zero) WEFT_RETURN_IF_ERROR(check_indices(indices, M, K, m_column));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, b->dtype, &shape, &out));
  if (b->dtype == WEFT_F16) return multiply_halfs(ctx, attrs, indices, values, b, out);
  multiply(attrs, indices, values, b, out);
  return NULL;
}

const weft_kernel_t weft_cpu_sparse_matmul_kernels[] = {
    WEFT_KERNEL_ATTRS("SparseTensorDenseMatMul", "T",
                      WEFT_SET_FLOATS | WEFT_SET_COMPLEX | WEFT_DTYPE_BIT(WEFT_I32), matmul_compute),
    {0},
};
