/* kernels/cpu/sparse/csr_cholesky.c - SparseMatrixSparseCholesky: the factor L of P A P^T = L L^H, in
 * compressed rows with all places that may fill.
 *
 * Of A the lower triangle is read. Rows of L are found one after another: their columns by climbing the
 * elimination tree, their numbers from the rows above. Source: Davis, "Direct Methods for Sparse Linear
 * Systems", 2006, sections 4.1 to 4.7 (up-looking).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "kernels/cpu/sparse/csr.h"
#include "kernels/cpu/sparse/sparse.h"

/* The lower triangle of one permuted matrix, by rows. All owned. */
typedef struct symmetric {
  int64_t n;
  int64_t *rows;           /* where row r of A went */
  int64_t *begins;         /* n + 1 */
  int64_t *columns, *from; /* of element i: its column, and its place among A's values */
  bool *is_flipped;        /* it stands conjugated, above the diagonal of what is permuted */
  int64_t *parent, *seen;  /* the elimination tree; the last row that has seen a column */
} symmetric_t;

#define EACH_FILE "kernels/cpu/sparse/csr_cholesky.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"

static void symmetric_free(symmetric_t *s) {
  weft_free(s->rows);
  weft_free(s->begins);
  weft_free(s->columns);
  weft_free(s->from);
  weft_free(s->is_flipped);
  weft_free(s->parent);
  weft_free(s->seen);
}

static weft_status_t *symmetric_init(symmetric_t *s, int64_t n, int64_t nnz) {
  size_t of_rows = (size_t)n + 2, of_elements = (size_t)nnz + 1;
  *s = (symmetric_t){.n = n,
                     .rows = weft_calloc(of_rows, sizeof *s->rows),
                     .begins = weft_calloc(of_rows, sizeof *s->begins),
                     .columns = weft_calloc(of_elements, sizeof *s->columns),
                     .from = weft_calloc(of_elements, sizeof *s->from),
                     .is_flipped = weft_calloc(of_elements, sizeof *s->is_flipped),
                     .parent = weft_calloc(of_rows, sizeof *s->parent),
                     .seen = weft_calloc(of_rows, sizeof *s->seen)};
  bool has_all = s->rows != NULL && s->begins != NULL && s->columns != NULL && s->from != NULL &&
                 s->is_flipped != NULL && s->parent != NULL && s->seen != NULL;
  return has_all ? NULL : WEFT_NO_MEMORY("a sparse matrix of %" PRId64 " rows", n);
}

static weft_status_t *invert(symmetric_t *s, const int32_t *order) {
  for (int64_t i = 0; i < s->n; i++) s->rows[i] = -1;
  for (int64_t i = 0; i < s->n; i++) {
    if (order[i] < 0 || order[i] >= s->n || s->rows[order[i]] >= 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "permutation[%" PRId64 "] = %d is out of range or repeated", i,
                        order[i]);
    s->rows[order[i]] = i;
  }
  return NULL;
}

/* Counts elements of each row, or, with `fills`, puts them into their places. */
static void distribute(symmetric_t *s, const weft_csr_t *a, int64_t b, bool fills) {
  for (int64_t r = 0; r < s->n; r++) {
    int64_t i = 0, end = weft_csr_row(a, b, r, &i);
    for (; i < end; i++) {
      if (a->columns[i] > r) continue;
      int64_t row = s->rows[r], column = s->rows[a->columns[i]];
      bool is_flipped = row < column;
      if (is_flipped) {
        row = column;
        column = s->rows[r];
      }
      int64_t *at = &s->begins[row + 1];
      if (fills) {
        s->columns[*at] = column;
        s->from[*at] = i;
        s->is_flipped[*at] = is_flipped;
      }
      ++*at;
    }
  }
}

/* Matrix b of `a`, permuted. */
static weft_status_t *permute(symmetric_t *s, const weft_csr_t *a, int64_t b, const int32_t *order) {
  WEFT_RETURN_IF_ERROR(invert(s, order));
  for (int64_t k = 0; k <= s->n; k++) s->begins[k] = 0;
  distribute(s, a, b, false);
  int64_t at = 0;
  for (int64_t k = 0; k < s->n; k++) { /* begins[k + 1]: where row k begins, until it is filled */
    int64_t count = s->begins[k + 1];
    s->begins[k + 1] = at;
    at += count;
  }
  distribute(s, a, b, true);
  return NULL;
}

static int by_column(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Columns of row k of the factor, ascending, k itself last; NULL: only counts them. Rows come in order. */
static int64_t factor_columns(symmetric_t *s, int64_t k, int32_t *out) {
  int64_t n = 0;
  s->parent[k] = -1;
  s->seen[k] = k;
  for (int64_t i = s->begins[k]; i < s->begins[k + 1]; i++) {
    for (int64_t j = s->columns[i]; s->seen[j] != k; j = s->parent[j]) {
      s->seen[j] = k;
      if (out != NULL) out[n] = (int32_t)j;
      n++;
      if (s->parent[j] < 0) s->parent[j] = k;
    }
  }
  if (out != NULL) {
    if (n > 0) qsort(out, (size_t)n, sizeof *out, by_column);
    out[n] = (int32_t)k;
  }
  return n + 1;
}

typedef bool factor_row_fn(const symmetric_t *s, const void *of_a, const int32_t *begins,
                           const int32_t *columns, void *of_factor, int64_t k, void *of_row);

static factor_row_fn *row_fn(weft_dtype_t dtype) {
  return dtype == WEFT_F32   ? factor_row_f32
         : dtype == WEFT_F64 ? factor_row_f64
         : dtype == WEFT_C64 ? factor_row_c64
                             : factor_row_c128;
}

/* Matrix b of the factor, whose elements begin at `at`; *at moves behind them. */
static weft_status_t *factor_one(symmetric_t *s, const weft_csr_t *a, int64_t b, const weft_csr_t *out,
                                 void *row, int64_t *at) {
  size_t size = weft_dtype_size(weft_csr_dtype(a));
  int32_t *begins = weft_csr_row_ptrs(out) + b * (s->n + 1), *columns = weft_csr_columns(out) + *at;
  char *values = (char *)out->parts[WEFT_CSR_VALUES]->data + (size_t)*at * size;
  factor_row_fn *factor_row = row_fn(weft_csr_dtype(a));
  weft_csr_batch_ptrs(out)[b] = (int32_t)*at;
  begins[0] = 0;
  for (int64_t k = 0; k < s->n; k++) {
    begins[k + 1] = begins[k] + (int32_t)factor_columns(s, k, columns + begins[k]);
    if (!factor_row(s, a->parts[WEFT_CSR_VALUES]->data, begins, columns, values, k, row)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Sparse Cholesky factorization failed for batch index %" PRId64
                        ". The input might not be valid.",
                        b);
    }
  }
  *at += begins[s->n];
  return NULL;
}

static weft_status_t *factor(weft_kernel_ctx_t *ctx, const weft_csr_t *a, symmetric_t *s, void *row) {
  const int32_t *order = weft_in(ctx, 1)->data;
  int64_t total = 0, at = 0;
  weft_csr_t out;
  for (int64_t b = 0; b < a->batch; b++) {
    WEFT_RETURN_IF_ERROR(permute(s, a, b, order + b * s->n));
    for (int64_t k = 0; k < s->n; k++) total += factor_columns(s, k, NULL);
  }
  WEFT_RETURN_IF_ERROR(weft_csr_new(weft_csr_dtype(a), a->parts[WEFT_CSR_DIMS]->data, a->rank, total, &out));
  weft_status_t *status = NULL;
  for (int64_t b = 0; b < a->batch && status == NULL; b++) {
    status = permute(s, a, b, order + b * s->n);
    if (status == NULL) status = factor_one(s, a, b, &out, row, &at);
  }
  weft_csr_batch_ptrs(&out)[a->batch] = (int32_t)at;
  if (status == NULL) status = weft_csr_put(ctx, &out);
  weft_csr_release(&out);
  return status;
}

static weft_status_t *check(const weft_csr_t *a, const weft_tensor_t *order) {
  if (a->rows != a->cols)
    return WEFT_ERROR(INVALID_ARGUMENT, "sparse matrix must be square; got: %" PRId64 " != %" PRId64, a->rows,
                      a->cols);
  bool fits = order->shape.rank + 1 == a->rank && order->shape.dims[a->rank - 2] == a->rows &&
              (a->rank == 2 || order->shape.dims[0] == a->batch);
  if (fits) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "permutation must have as many elements in each batch as the sparse matrix has rows; got: %s",
      WEFT_SHAPE_TEXT(&order->shape));
}

WEFT_ATTRS(cholesky_compute, (TYPE, type))
static weft_status_t *cholesky_compute(weft_kernel_ctx_t *ctx, const cholesky_compute_attrs_t *attrs) {
  weft_csr_t a;
  symmetric_t s;
  WEFT_RETURN_IF_ERROR(weft_csr_in(ctx, 0, (weft_dtype_t)attrs->type, &a));
  WEFT_RETURN_IF_ERROR(check(&a, weft_in(ctx, 1)));
  weft_status_t *status = symmetric_init(&s, a.rows, a.nnz);
  void *row = weft_calloc((size_t)a.rows + 1, weft_dtype_size(weft_csr_dtype(&a)));
  if (status == NULL && row == NULL) status = WEFT_NO_MEMORY("a row of %" PRId64 " numbers", a.rows);
  if (status == NULL) status = factor(ctx, &a, &s, row);
  symmetric_free(&s);
  weft_free(row);
  return status;
}

const weft_kernel_t weft_cpu_csr_cholesky_kernels[] = {
    {.op = "SparseMatrixSparseCholesky", WEFT_COMPUTE(cholesky_compute)},
    {0},
};
