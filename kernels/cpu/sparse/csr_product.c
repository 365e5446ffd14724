/* kernels/cpu/sparse/csr_product.c - products of sparse matrices in compressed rows: SparseMatrixMatMul with
 * a dense one, SparseMatrixSparseMatMul with another.
 *
 * A sparse operand that is transposed is made so first. The second product takes two walks, of columns and of
 * values; it keeps elements whose sum is 0.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "kernels/cpu/sparse/csr.h"
#include "kernels/cpu/sparse/sparse.h"

/* A dense operand or result: element [r, c] of a matrix of `size` elements is data[r * row + c * column]. */
typedef struct csr_dense {
  void *data;
  int64_t row, column, size;
  bool conjugates;
} csr_dense_t;

typedef struct dense_product {
  const weft_csr_t *a;
  csr_dense_t right, out;
  int64_t n; /* columns of both */
  void (*rows)(const struct dense_product *p, int64_t b, int64_t begin, int64_t end);
} dense_product_t;

#define EACH_FILE "kernels/cpu/sparse/csr_product.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"

/* fn_f32 and its kin by dtype, which is one of WEFT_CSR_TYPES. */
#define PICK(fn, dtype)             \
  ((dtype) == WEFT_F32   ? fn##_f32 \
   : (dtype) == WEFT_F64 ? fn##_f64 \
   : (dtype) == WEFT_C64 ? fn##_c64 \
                         : fn##_c128)

/* How an attribute pair of an operand says that it is transposed. */
static weft_status_t *check_flags(bool transposes, bool adjoins, const char *which) {
  if (!transposes || !adjoins) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Only one of adjoint_%s and transpose_%s may be true.", which, which);
}

/* The operand in input i, transposed if so wanted: then *owned is what to release. */
static weft_status_t *operand(weft_kernel_ctx_t *ctx, int i, weft_dtype_t dtype, bool transposes,
                              bool adjoins, weft_csr_t *out, weft_csr_t *owned) {
  weft_csr_t m;
  WEFT_RETURN_IF_ERROR(weft_csr_in(ctx, i, dtype, &m));
  if (transposes || adjoins) WEFT_RETURN_IF_ERROR(weft_csr_transpose(&m, adjoins, owned));
  *out = transposes || adjoins ? *owned : m;
  return NULL;
}

static weft_status_t *bad_inner(const weft_csr_t *a, int64_t inner) {
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Inner product dimensions of A and B do not agree: %" PRId64 " vs. %" PRId64, a->cols,
                    inner);
}

/* ---- with a dense matrix ---- */

WEFT_ATTRS(dense_compute, (BOOL, transpose_b), (BOOL, adjoint_a), (BOOL, adjoint_b), (BOOL, transpose_a),
           (BOOL, transpose_output), (BOOL, conjugate_output))

static weft_status_t *dense_prepare(const weft_kernel_setup_t *setup, void **out) {
  WEFT_RETURN_IF_ERROR(
      check_flags(weft_knode_bool(setup, "transpose_a"), weft_knode_bool(setup, "adjoint_a"), "a"));
  WEFT_RETURN_IF_ERROR(
      check_flags(weft_knode_bool(setup, "transpose_b"), weft_knode_bool(setup, "adjoint_b"), "b"));
  return weft_attrs_prepare(setup, out);
}

static void dense_range(void *arg, int64_t begin, int64_t end) {
  const dense_product_t *p = arg;
  while (begin < end) {
    int64_t b = begin / p->a->rows, first = begin % p->a->rows;
    int64_t last = first + (end - begin) < p->a->rows ? first + (end - begin) : p->a->rows;
    p->rows(p, b, first, last);
    begin += last - first;
  }
}

static weft_status_t *multiply_dense(weft_kernel_ctx_t *ctx, const dense_compute_attrs_t *attrs,
                                     const weft_csr_t *a) {
  const weft_tensor_t *b = weft_in(ctx, 1);
  bool is_flipped = attrs->transpose_b || attrs->adjoint_b;
  weft_tensor_t *out = NULL;
  weft_shape_t shape;
  if (b->shape.rank != a->rank)
    return WEFT_ERROR(INVALID_ARGUMENT, "Ranks of a and b must match, saw: %d vs. %d.", a->rank,
                      b->shape.rank);
  int64_t rows = b->shape.dims[a->rank - 2], columns = b->shape.dims[a->rank - 1];
  int64_t inner = is_flipped ? columns : rows, n = is_flipped ? rows : columns;
  if (a->rank == 3 && b->shape.dims[0] != a->batch) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Batch sizes of a and b must match, saw: %" PRId64 " vs. %" PRId64 ".", a->batch,
                      b->shape.dims[0]);
  }
  if (inner != a->cols) return bad_inner(a, inner);
  int64_t dims[] = {a->batch, attrs->transpose_output ? n : a->rows, attrs->transpose_output ? a->rows : n};
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims + 3 - a->rank, a->rank, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, b->dtype, &shape, &out));
  if (out->count == 0) return NULL;
  dense_product_t p = {.a = a,
                       .right = {.data = b->data,
                                 .row = is_flipped ? 1 : columns,
                                 .column = is_flipped ? columns : 1,
                                 .size = rows * columns,
                                 .conjugates = attrs->adjoint_b},
                       .out = {.data = out->data,
                               .row = attrs->transpose_output ? 1 : n,
                               .column = attrs->transpose_output ? a->rows : 1,
                               .size = a->rows * n,
                               .conjugates = attrs->conjugate_output},
                       .n = n,
                       .rows = PICK(dense_rows, b->dtype)};
  int64_t work = 1 + n * (1 + a->nnz / (a->batch * a->rows));
  weft_parallel_for(ctx->device->pool, a->batch * a->rows, 1 + WEFT_CPU_GRAIN / work, dense_range, &p);
  return NULL;
}

static weft_status_t *dense_compute(weft_kernel_ctx_t *ctx, const dense_compute_attrs_t *attrs) {
  weft_csr_t a, owned = {0};
  WEFT_RETURN_IF_ERROR(
      operand(ctx, 0, weft_in(ctx, 1)->dtype, attrs->transpose_a, attrs->adjoint_a, &a, &owned));
  weft_status_t *s = multiply_dense(ctx, attrs, &a);
  weft_csr_release(&owned);
  return s;
}

/* ---- with a sparse matrix ---- */

WEFT_ATTRS(sparse_compute, (BOOL, transpose_a), (BOOL, adjoint_a), (BOOL, transpose_b), (BOOL, adjoint_b),
           (TYPE, type))

static int by_column(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Columns of row r, ascending; the caller has marked none in seen[cols] with `mark`. NULL: only counts them.
 */
static int64_t columns_of_row(const weft_csr_t *a, const weft_csr_t *b, int64_t batch, int64_t r,
                              int64_t *seen, int64_t mark, int32_t *out) {
  int64_t n = 0, i = 0, end = weft_csr_row(a, batch, r, &i);
  for (; i < end; i++) {
    int64_t k = 0, k_end = weft_csr_row(b, batch, a->columns[i], &k);
    for (; k < k_end; k++) {
      if (seen[b->columns[k]] == mark) continue;
      seen[b->columns[k]] = mark;
      if (out != NULL) out[n] = b->columns[k];
      n++;
    }
  }
  if (out != NULL && n > 0) qsort(out, (size_t)n, sizeof *out, by_column);
  return n;
}

static void fill_product(const weft_csr_t *a, const weft_csr_t *b, int64_t *seen, void *sums,
                         const weft_csr_t *out) {
  int32_t *batch = weft_csr_batch_ptrs(out), *ptrs = weft_csr_row_ptrs(out), *columns = weft_csr_columns(out);
  int64_t mark = 0, at = 0;
  for (int64_t i = 0; i < out->cols; i++) seen[i] = -1;
  for (int64_t m = 0; m < out->batch; m++, ptrs += out->rows + 1) {
    batch[m] = (int32_t)at;
    for (int64_t r = 0; r < out->rows; r++, mark++) {
      ptrs[r] = (int32_t)(at - batch[m]);
      at += columns_of_row(a, b, m, r, seen, mark, columns + at);
    }
    ptrs[out->rows] = (int32_t)(at - batch[m]);
    for (int64_t r = 0; r < out->rows; r++) {
      PICK(sparse_row, weft_csr_dtype(a))(a, b, m, r, sums, out);
    }
  }
  batch[out->batch] = (int32_t)at;
}

static weft_status_t *multiply_sparse(weft_kernel_ctx_t *ctx, const weft_csr_t *a, const weft_csr_t *b) {
  if (a->rank != b->rank || a->batch != b->batch) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Batch sizes of A and B do not agree.  Batch sizes are: %" PRId64 " vs. %" PRId64,
                      a->batch, b->batch);
  }
  if (a->cols != b->rows) return bad_inner(a, b->rows);
  int64_t dims[] = {a->batch, a->rows, b->cols}, nnz = 0;
  weft_csr_t out = {0};
  int64_t *seen = weft_malloc(((size_t)b->cols + 1) * sizeof *seen);
  void *sums = weft_calloc((size_t)b->cols + 1, weft_dtype_size(weft_csr_dtype(a)));
  weft_status_t *s = NULL;
  if (seen == NULL || sums == NULL) s = WEFT_NO_MEMORY("a product of %" PRId64 " columns", b->cols);
  for (int64_t i = 0; i < b->cols && s == NULL; i++) seen[i] = -1;
  for (int64_t r = 0; r < a->batch * a->rows && s == NULL; r++)
    nnz += columns_of_row(a, b, r / a->rows, r % a->rows, seen, r, NULL);
  if (s == NULL) s = weft_csr_new(weft_csr_dtype(a), dims + 3 - a->rank, a->rank, nnz, &out);
  if (s == NULL) {
    fill_product(a, b, seen, sums, &out);
    s = weft_csr_put(ctx, &out);
  }
  weft_csr_release(&out);
  weft_free(seen);
  weft_free(sums);
  return s;
}

static weft_status_t *sparse_compute(weft_kernel_ctx_t *ctx, const sparse_compute_attrs_t *attrs) {
  weft_csr_t a, b, own_a = {0}, own_b = {0};
  weft_status_t *s =
      operand(ctx, 0, (weft_dtype_t)attrs->type, attrs->transpose_a, attrs->adjoint_a, &a, &own_a);
  if (s == NULL)
    s = operand(ctx, 1, (weft_dtype_t)attrs->type, attrs->transpose_b, attrs->adjoint_b, &b, &own_b);
  if (s == NULL) s = multiply_sparse(ctx, &a, &b);
  weft_csr_release(&own_a);
  weft_csr_release(&own_b);
  return s;
}

const weft_kernel_t weft_cpu_csr_product_kernels[] = {
    {.op = "SparseMatrixMatMul",
     .type_attr = "T",
     .types = WEFT_CSR_TYPES,
     WEFT_COMPUTE_CHECKED(dense_compute, dense_prepare)},
    {.op = "SparseMatrixSparseMatMul", WEFT_COMPUTE_CHECKED(sparse_compute, dense_prepare)},
    {0},
};
