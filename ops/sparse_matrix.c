/* ops/sparse_matrix.c - shape functions of sparse matrices in compressed rows, which are variants.
 *
 * What such a variant holds is known where it was made in sight; its shape goes along the edge as that behind
 * a handle. Where it is not known, as in a function's body, nothing is refused.
 */
#include <inttypes.h>

#include "ops/infer.h"

/* The shape of the matrices in input i, of rank 2 or 3, or unknown. */
static weft_status_t *matrices(weft_shape_ctx_t *c, int i, weft_shape_t *out) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], 0, NULL));
  *out = c->handles != NULL ? c->handles[i].shape : WEFT_UNKNOWN_SHAPE;
  if (out->rank > 3)
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at most rank 3 but is rank %d", out->rank);
  return weft_infer_rank_at_least(out, 2, NULL);
}

/* The result is a variant with matrices of that shape. */
static weft_status_t *set_matrices(weft_shape_ctx_t *c, const weft_shape_t *shape, int dtype) {
  c->outputs[0] = WEFT_SCALAR;
  if (shape->rank >= 0) weft_infer_set_handle(c, 0, shape, dtype);
  return NULL;
}

static weft_status_t *bad_rank(int rank) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid rank: %d.  Expected a known rank of either 2 or 3.", rank);
}

/* [a's batch..., rows, columns] */
static weft_shape_t with_sizes(const weft_shape_t *a, int64_t rows, int64_t columns) {
  weft_shape_t out = *a;
  out.dims[out.rank - 2] = rows;
  out.dims[out.rank - 1] = columns;
  return out;
}

/* ---- to and from ---- */

weft_status_t *weft_infer_sparse_to_csr(weft_shape_ctx_t *c) {
  weft_shape_t dense;
  int64_t unused = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 2, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[2], 1, NULL));
  int64_t rank = weft_infer_dim(&c->inputs[0], 1);
  WEFT_RETURN_IF_ERROR(
      weft_shape_merge_dim(weft_infer_dim(&c->inputs[0], 0), weft_infer_dim(&c->inputs[1], 0), &unused));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(rank, weft_infer_dim(&c->inputs[2], 0), &unused));
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, 2, &dense));
  if (rank >= 0) WEFT_RETURN_IF_ERROR(weft_infer_rank(&dense, (int)rank, &dense));
  if (dense.rank >= 0 && dense.rank != 2 && dense.rank != 3) return bad_rank(dense.rank);
  return set_matrices(c, &dense, c->input_types[1]);
}

weft_status_t *weft_infer_dense_to_csr(weft_shape_ctx_t *c) {
  const weft_shape_t *dense = &c->inputs[0], *indices = &c->inputs[1];
  if (dense->rank != 2 && dense->rank != 3) return bad_rank(dense->rank);
  if (indices->rank != 2 || indices->dims[1] != dense->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "indices must be a matrix of %d columns; but it is %s", dense->rank,
                      WEFT_SHAPE_TEXT(indices));
  }
  return set_matrices(c, dense, c->input_types[0]);
}

weft_status_t *weft_infer_csr_to_dense(weft_shape_ctx_t *c) { return matrices(c, 0, &c->outputs[0]); }

weft_status_t *weft_infer_csr_to_sparse(weft_shape_ctx_t *c) {
  weft_shape_t m;
  WEFT_RETURN_IF_ERROR(matrices(c, 0, &m));
  int64_t rank = m.rank < 0 ? WEFT_UNKNOWN_DIM : m.rank;
  c->outputs[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, rank);
  c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  c->outputs[2] = weft_shape_vector(rank);
  return NULL;
}

weft_status_t *weft_infer_csr_components(weft_shape_ctx_t *c) {
  weft_shape_t m;
  int64_t rows = 0;
  WEFT_RETURN_IF_ERROR(matrices(c, 0, &m));
  if (c->inputs[1].rank > 0) return WEFT_ERROR(INVALID_ARGUMENT, "index must be a scalar.");
  WEFT_RETURN_IF_ERROR(weft_infer_add(weft_infer_dim(&m, -2), 1, &rows));
  c->outputs[0] = weft_shape_vector(rows);
  c->outputs[1] = c->outputs[2] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_csr_nnz(weft_shape_ctx_t *c) {
  weft_shape_t m;
  WEFT_RETURN_IF_ERROR(matrices(c, 0, &m));
  if (m.rank >= 0) c->outputs[0] = m.rank == 3 ? weft_shape_vector(m.dims[0]) : WEFT_SCALAR;
  return NULL;
}

weft_status_t *weft_infer_csr_transpose(weft_shape_ctx_t *c) {
  weft_shape_t m;
  WEFT_RETURN_IF_ERROR(matrices(c, 0, &m));
  if (m.rank >= 0) m = with_sizes(&m, m.dims[m.rank - 1], m.dims[m.rank - 2]);
  return set_matrices(c, &m, weft_infer_type(c, "type"));
}

/* ---- products ---- */

static weft_status_t *is_transposed(weft_shape_ctx_t *c, const char *transposes, const char *adjoins,
                                    bool *out) {
  bool transpose = weft_infer_bool(c, transposes), adjoint = weft_infer_bool(c, adjoins);
  *out = transpose || adjoint;
  if (!transpose || !adjoint) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Only one of %s and %s may be true.", adjoins, transposes);
}

/* Rows and columns of the product of a and b, of rank 2 or 3 or unknown. */
static weft_status_t *product(weft_shape_ctx_t *c, const weft_shape_t *a, const weft_shape_t *b,
                              int64_t *rows, int64_t *columns) {
  bool ta = false, tb = false;
  int64_t unused = 0;
  WEFT_RETURN_IF_ERROR(is_transposed(c, "transpose_a", "adjoint_a", &ta));
  WEFT_RETURN_IF_ERROR(is_transposed(c, "transpose_b", "adjoint_b", &tb));
  *rows = weft_infer_dim(a, ta ? -1 : -2);
  *columns = weft_infer_dim(b, tb ? -2 : -1);
  return weft_shape_merge_dim(weft_infer_dim(a, ta ? -2 : -1), weft_infer_dim(b, tb ? -1 : -2), &unused);
}

weft_status_t *weft_infer_csr_matmul(weft_shape_ctx_t *c) {
  weft_shape_t a, b = c->inputs[1];
  int64_t rows = 0, columns = 0;
  WEFT_RETURN_IF_ERROR(matrices(c, 0, &a));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&b, 2, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 1, 3));
  WEFT_RETURN_IF_ERROR(product(c, &a, &b, &rows, &columns));
  if (a.rank < 0) return NULL;
  if (b.rank >= 0) {
    if (b.rank != a.rank)
      return WEFT_ERROR(INVALID_ARGUMENT, "Shapes must be equal rank, but are %d and %d", a.rank - 2,
                        b.rank - 2);
    if (a.rank == 3) WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(a.dims[0], b.dims[0], &a.dims[0]));
  }
  bool is_flipped = weft_infer_bool(c, "transpose_output");
  c->outputs[0] = with_sizes(&a, is_flipped ? columns : rows, is_flipped ? rows : columns);
  return NULL;
}

weft_status_t *weft_infer_csr_csr_matmul(weft_shape_ctx_t *c) {
  weft_shape_t a, b, batch_a, batch_b, out;
  int64_t rows = 0, columns = 0;
  WEFT_RETURN_IF_ERROR(matrices(c, 0, &a));
  WEFT_RETURN_IF_ERROR(matrices(c, 1, &b));
  WEFT_RETURN_IF_ERROR(product(c, &a, &b, &rows, &columns));
  c->outputs[0] = WEFT_SCALAR;
  if (a.rank < 0 || b.rank < 0) return NULL;
  batch_a = a;
  batch_b = b;
  batch_a.rank -= 2;
  batch_b.rank -= 2;
  WEFT_RETURN_IF_ERROR(weft_shape_broadcast(&batch_a, &batch_b, &out));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, rows));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, columns));
  return set_matrices(c, &out, weft_infer_type(c, "type"));
}

/* ---- factors ---- */

static weft_status_t *square(weft_shape_ctx_t *c, weft_shape_t *out, int64_t *n) {
  WEFT_RETURN_IF_ERROR(matrices(c, 0, out));
  return weft_shape_merge_dim(weft_infer_dim(out, -2), weft_infer_dim(out, -1), n);
}

weft_status_t *weft_infer_csr_ordering(weft_shape_ctx_t *c) {
  weft_shape_t m;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(square(c, &m, &n));
  if (m.rank < 0) return NULL;
  m.rank--;
  c->outputs[0] = m;
  return NULL;
}

weft_status_t *weft_infer_csr_cholesky(weft_shape_ctx_t *c) {
  weft_shape_t m;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(square(c, &m, &n));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[1], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 1, 2));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(n, weft_infer_dim(&c->inputs[1], -1), &n));
  return set_matrices(c, &m, weft_infer_type(c, "type"));
}
