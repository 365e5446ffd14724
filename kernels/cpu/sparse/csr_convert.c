/* kernels/cpu/sparse/csr_convert.c - sparse matrices in compressed rows from and to dense and sparse tensors:
 * DenseToCSRSparseMatrix, SparseTensorToCSRSparseMatrix, CSRSparseMatrixToDense,
 * CSRSparseMatrixToSparseTensor, CSRSparseMatrixComponents, SparseMatrixNNZ, SparseMatrixTranspose.
 */
#include <inttypes.h>

#include "kernels/cpu/sparse/csr.h"
#include "kernels/cpu/sparse/sparse.h"

/* ---- to compressed rows ---- */

/* The structure of elements whose coordinates are inside. Those of one matrix are neighbours; within it they
 * stay in the order in which they came. Values are not set. */
static weft_status_t *compress(const int64_t *at, int64_t n, weft_csr_t *m) {
  int64_t last = 0;
  int32_t *batch = weft_csr_batch_ptrs(m), *rows = weft_csr_row_ptrs(m), *columns = weft_csr_columns(m);
  batch[0] = 0;
  for (int64_t i = 0; i < n; i++, at += m->rank) {
    int64_t b = m->rank == 3 ? at[0] : 0;
    if (b < last) {
      return WEFT_ERROR(INVALID_ARGUMENT, "indices[%" PRId64 "] is of matrix %" PRId64 ", out of order", i,
                        b);
    }
    while (last < b) batch[++last] = (int32_t)i;
    rows[b * (m->rows + 1) + at[m->rank - 2] + 1]++;
    columns[i] = (int32_t)at[m->rank - 1];
  }
  while (last < m->batch) batch[++last] = (int32_t)n;
  weft_csr_sum_rows(m);
  return NULL;
}

static weft_status_t *check_rank(int64_t rank) {
  if (rank == 2 || rank == 3) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "SparseTensor must have rank 2 or 3; but indices has rank: %" PRId64,
                    rank);
}

static weft_status_t *from_sparse_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t x;
  weft_csr_t m;
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, &x));
  WEFT_RETURN_IF_ERROR(check_rank(x.rank));
  WEFT_RETURN_IF_ERROR(weft_sparse_check_inside(&x));
  WEFT_RETURN_IF_ERROR(weft_csr_new(x.values->dtype, x.dims, x.rank, x.n, &m));
  weft_status_t *s = compress(x.at, x.n, &m);
  if (s == NULL) s = weft_cpu_copy(m.parts[WEFT_CSR_VALUES], 0, x.values, 0, x.n);
  if (s == NULL) s = weft_csr_put(ctx, &m);
  weft_csr_release(&m);
  return s;
}

/* The values of a dense tensor at coordinates that are inside. */
static weft_status_t *gather(const weft_sparse_t *x, const weft_tensor_t *dense, weft_tensor_t *out) {
  for (int64_t i = 0; i < x->n; i++) {
    int64_t place = 0;
    for (int d = 0; d < x->rank; d++) place = place * x->dims[d] + weft_sparse_at(x, i)[d];
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, i, dense, place, 1));
  }
  return NULL;
}

static weft_status_t *from_dense_compute(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *dense = weft_in(ctx, 0), *indices = weft_in(ctx, 1);
  weft_csr_t m;
  WEFT_RETURN_IF_ERROR(check_rank(dense->shape.rank));
  if (!weft_is_matrix(indices) || indices->shape.dims[1] != dense->shape.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "indices must be a matrix with as many columns as params has dimensions, "
                      "but saw %s and %s",
                      WEFT_SHAPE_TEXT(&indices->shape), WEFT_SHAPE_TEXT(&dense->shape));
  }
  weft_sparse_t x = {
      .at = indices->data, .n = indices->shape.dims[0], .rank = dense->shape.rank, .dims = dense->shape.dims};
  WEFT_RETURN_IF_ERROR(weft_sparse_check_inside(&x));
  WEFT_RETURN_IF_ERROR(weft_csr_new(dense->dtype, x.dims, x.rank, x.n, &m));
  weft_status_t *s = compress(x.at, x.n, &m);
  if (s == NULL) s = gather(&x, dense, m.parts[WEFT_CSR_VALUES]);
  if (s == NULL) s = weft_csr_put(ctx, &m);
  weft_csr_release(&m);
  return s;
}

/* ---- and back ---- */

/* Calls fn for each element, in the order of places. */
typedef struct element {
  int64_t batch, row, column, place;
} element_t;
static weft_status_t *each_element(const weft_csr_t *m, weft_status_t *(*fn)(void *arg, const element_t *e),
                                   void *arg) {
  for (int64_t b = 0; b < m->batch; b++) {
    for (int64_t r = 0; r < m->rows; r++) {
      int64_t i = 0, end = weft_csr_row(m, b, r, &i);
      for (; i < end; i++) WEFT_RETURN_IF_ERROR(fn(arg, &(element_t){b, r, m->columns[i], i}));
    }
  }
  return NULL;
}

typedef struct to_dense {
  const weft_csr_t *m;
  weft_tensor_t *out;
} to_dense_t;

static weft_status_t *put_dense(void *arg, const element_t *e) {
  const to_dense_t *d = arg;
  return weft_cpu_copy(d->out, (e->batch * d->m->rows + e->row) * d->m->cols + e->column,
                       d->m->parts[WEFT_CSR_VALUES], e->place, 1);
}

static weft_status_t *to_dense_compute(weft_kernel_ctx_t *ctx) {
  weft_csr_t m;
  weft_shape_t shape;
  to_dense_t d = {.m = &m};
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[0]);
  WEFT_RETURN_IF_ERROR(weft_csr_in(ctx, 0, dtype, &m));
  WEFT_RETURN_IF_ERROR(weft_shape_make(m.parts[WEFT_CSR_DIMS]->data, m.rank, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &shape, &d.out));
  weft_cpu_zero(d.out);
  return each_element(&m, put_dense, &d);
}

typedef struct to_sparse {
  int64_t *at;
  int rank;
} to_sparse_t;

static weft_status_t *put_coordinates(void *arg, const element_t *e) {
  const to_sparse_t *t = arg;
  int64_t *at = t->at + e->place * t->rank;
  if (t->rank == 3) *at++ = e->batch;
  at[0] = e->row;
  at[1] = e->column;
  return NULL;
}

static weft_status_t *to_sparse_compute(weft_kernel_ctx_t *ctx) {
  weft_csr_t m;
  to_sparse_t t = {0};
  WEFT_RETURN_IF_ERROR(weft_csr_in(ctx, 0, weft_dtype_base(ctx->node->output_types[1]), &m));
  t.rank = m.rank;
  WEFT_RETURN_IF_ERROR(weft_sparse_new_indices(ctx, 0, m.nnz, m.rank, &t.at));
  weft_out_set(ctx, 1, weft_tensor_retain(m.parts[WEFT_CSR_VALUES]));
  weft_out_set(ctx, 2, weft_tensor_retain(m.parts[WEFT_CSR_DIMS]));
  return each_element(&m, put_coordinates, &t);
}

/* ---- parts ---- */

/* Output o: elements begin to begin + n of a part. */
static weft_status_t *put_part(weft_kernel_ctx_t *ctx, int o, weft_tensor_t *part, int64_t begin, int64_t n) {
  return weft_tensor_slice(part, begin, n, &ctx->outputs[o].tensor);
}

static weft_status_t *components_compute(weft_kernel_ctx_t *ctx) {
  weft_csr_t m;
  int64_t b = 0;
  WEFT_RETURN_IF_ERROR(weft_csr_in(ctx, 0, weft_dtype_base(ctx->node->output_types[2]), &m));
  if (!weft_is_scalar(weft_in(ctx, 1))) {
    return WEFT_ERROR(INVALID_ARGUMENT, "index should be a scalar, but saw: %s",
                      WEFT_SHAPE_TEXT(&weft_in(ctx, 1)->shape));
  }
  b = weft_cpu_int_at(weft_in(ctx, 1), 0);
  if (b < 0 || b >= m.batch)
    return WEFT_ERROR(INVALID_ARGUMENT, "index (%" PRId64 ") not in [0, %" PRId64 ")", b, m.batch);
  int64_t begin = m.batch_ptrs[b], n = m.batch_ptrs[b + 1] - begin;
  WEFT_RETURN_IF_ERROR(put_part(ctx, 0, m.parts[WEFT_CSR_ROWS], b * (m.rows + 1), m.rows + 1));
  WEFT_RETURN_IF_ERROR(put_part(ctx, 1, m.parts[WEFT_CSR_COLUMNS], begin, n));
  return put_part(ctx, 2, m.parts[WEFT_CSR_VALUES], begin, n);
}

static weft_status_t *nnz_compute(weft_kernel_ctx_t *ctx) {
  weft_csr_t m;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_csr_in(ctx, 0, WEFT_DTYPE_INVALID, &m));
  weft_shape_t shape = m.rank == 2 ? WEFT_SCALAR : weft_shape_vector(m.batch);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I32, &shape, &out));
  for (int64_t b = 0; b < m.batch; b++) ((int32_t *)out->data)[b] = m.batch_ptrs[b + 1] - m.batch_ptrs[b];
  return NULL;
}

WEFT_ATTRS(transpose_compute, (BOOL, conjugate), (TYPE, type))
static weft_status_t *transpose_compute(weft_kernel_ctx_t *ctx, const transpose_compute_attrs_t *attrs) {
  weft_csr_t m, out;
  WEFT_RETURN_IF_ERROR(weft_csr_in(ctx, 0, (weft_dtype_t)attrs->type, &m));
  WEFT_RETURN_IF_ERROR(weft_csr_transpose(&m, attrs->conjugate, &out));
  weft_status_t *s = weft_csr_put(ctx, &out);
  weft_csr_release(&out);
  return s;
}

/* Conj of a variant: of real matrices, themselves. */
static weft_status_t *conj_compute(weft_kernel_ctx_t *ctx) {
  weft_csr_t m, out;
  WEFT_RETURN_IF_ERROR(weft_csr_in(ctx, 0, WEFT_DTYPE_INVALID, &m));
  if (!weft_dtype_is_complex((int)weft_csr_dtype(&m))) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  out = m;
  WEFT_RETURN_IF_ERROR(weft_tensor_copy(m.parts[WEFT_CSR_VALUES], &out.parts[WEFT_CSR_VALUES]));
  weft_csr_conjugate(&out);
  weft_status_t *s = weft_csr_put(ctx, &out);
  weft_tensor_release(out.parts[WEFT_CSR_VALUES]);
  return s;
}

const weft_kernel_t weft_cpu_csr_convert_kernels[] = {
    {.op = "CSRSparseMatrixComponents", .compute = components_compute},
    {.op = "CSRSparseMatrixToDense", .compute = to_dense_compute},
    {.op = "CSRSparseMatrixToSparseTensor", .compute = to_sparse_compute},
    {.op = "Conj", .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_VARIANT), .compute = conj_compute},
    {.op = "DenseToCSRSparseMatrix", .compute = from_dense_compute},
    {.op = "SparseMatrixNNZ", .compute = nnz_compute},
    {.op = "SparseMatrixTranspose", WEFT_COMPUTE(transpose_compute)},
    {.op = "SparseTensorToCSRSparseMatrix", .compute = from_sparse_compute},
    {0},
};
