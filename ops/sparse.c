/* ops/sparse.c - shape functions of sparse tensors. */
#include <inttypes.h>

#include "ops/infer.h"

/* Input i has the rank that digit i of `ranks` says; those behind its end may have any. */
static weft_status_t *ranks_are(weft_shape_ctx_t *c, const char *ranks) {
  for (int i = 0; ranks[i] != '\0' && i < c->num_inputs; i++) {
    if (ranks[i] != '.') WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], ranks[i] - '0', NULL));
  }
  return NULL;
}

/* Outputs i to i + 2 are a sparse tensor. */
static void set_sparse(weft_shape_ctx_t *c, int i, int64_t n, int64_t rank) {
  c->outputs[i] = weft_shape_matrix(n, rank);
  c->outputs[i + 1] = weft_shape_vector(n);
  c->outputs[i + 2] = weft_shape_vector(rank);
}

/* The product of what is known of a vector of dims, unknown if something is not. */
static int64_t count_of(const weft_shape_t *s) {
  if (s->rank < 0) return WEFT_UNKNOWN_DIM;
  int64_t n = 1;
  for (int d = 0; d < s->rank; d++) {
    if (s->dims[d] < 0 || __builtin_mul_overflow(n, s->dims[d], &n)) return WEFT_UNKNOWN_DIM;
  }
  return n;
}

weft_status_t *weft_infer_sparse_to_dense(weft_shape_ctx_t *c) {
  return weft_shape_from_input(c, 1, &c->outputs[0]);
}

weft_status_t *weft_infer_sparse_reshape(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(ranks_are(c, "211"));
  int64_t rank = weft_infer_dim(&c->inputs[2], 0);
  c->outputs[0] = weft_shape_matrix(weft_infer_dim(&c->inputs[0], 0), rank);
  c->outputs[1] = weft_shape_vector(rank);
  return NULL;
}

weft_status_t *weft_infer_sparse_reorder(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 2, &c->outputs[0]));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 1, &c->outputs[1]));
  return weft_infer_rank(&c->inputs[2], 1, NULL);
}

weft_status_t *weft_infer_sparse_fill_empty_rows(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(ranks_are(c, "2110"));
  int64_t n = 0, unused = 0, rank = weft_infer_dim(&c->inputs[2], 0);
  WEFT_RETURN_IF_ERROR(
      weft_shape_merge_dim(weft_infer_dim(&c->inputs[0], 0), weft_infer_dim(&c->inputs[1], 0), &n));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(weft_infer_dim(&c->inputs[0], 1), rank, &unused));
  if (rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "dense_shape must not be empty");
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, 2, &shape));
  c->outputs[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, rank);
  c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  c->outputs[2] = weft_shape_vector(weft_infer_dim(&shape, 0));
  c->outputs[3] = weft_shape_vector(n);
  return NULL;
}

weft_status_t *weft_infer_fill_empty_rows_grad(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 1, &c->outputs[0]));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 1, NULL));
  c->outputs[1] = WEFT_SCALAR;
  return NULL;
}

weft_status_t *weft_infer_sparse_dense_matmul(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(ranks_are(c, "21"));
  weft_shape_t a, b, a_rows, b_rows;
  bool adjoint_a = weft_infer_bool(c, "adjoint_a"), adjoint_b = weft_infer_bool(c, "adjoint_b");
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, 2, &a));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&a, 2, &a_rows));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[3], 2, &b_rows));
  b = b_rows;
  int64_t inner = 0;
  WEFT_RETURN_IF_ERROR(
      weft_shape_merge_dim(a_rows.dims[adjoint_a ? 0 : 1], b.dims[adjoint_b ? 1 : 0], &inner));
  c->outputs[0] = weft_shape_matrix(a_rows.dims[adjoint_a ? 1 : 0], b.dims[adjoint_b ? 0 : 1]);
  return NULL;
}

weft_status_t *weft_infer_sparse_dense_add(weft_shape_ctx_t *c) {
  c->outputs[0] = c->inputs[3];
  return NULL;
}

/* ---- sums, joins, parts ---- */

weft_status_t *weft_infer_sparse_add(weft_shape_ctx_t *c) {
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[2], 1, &shape));
  set_sparse(c, 0, WEFT_UNKNOWN_DIM, shape.dims[0]);
  return NULL;
}

weft_status_t *weft_infer_sparse_add_grad(weft_shape_ctx_t *c) {
  for (int i = 0; i < 2; i++) {
    weft_shape_t indices;
    WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i + 1], 2, &indices));
    c->outputs[i] = weft_shape_vector(indices.dims[0]);
  }
  return NULL;
}

weft_status_t *weft_infer_sparse_concat(weft_shape_ctx_t *c) {
  int n = c->num_inputs / 3;
  int64_t rows = 0, columns = WEFT_UNKNOWN_DIM;
  weft_shape_t shape = WEFT_UNKNOWN_SHAPE;
  for (int i = 0; i < n; i++) {
    weft_shape_t indices, values, dims;
    int64_t count = 0;
    WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], 2, &indices));
    WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i + n], 1, &values));
    WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i + 2 * n], 1, &dims));
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(indices.dims[0], values.dims[0], &count));
    WEFT_RETURN_IF_ERROR(weft_infer_add(rows, count, &rows));
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(columns, indices.dims[1], &columns));
    WEFT_RETURN_IF_ERROR(weft_shape_merge(&shape, &dims, &shape));
  }
  c->outputs[0] = weft_shape_matrix(rows, columns);
  c->outputs[1] = weft_shape_vector(rows);
  c->outputs[2] = shape;
  return NULL;
}

/* Parts of a sparse tensor whose shape is input `i`: num_outputs / 3 of them. */
static weft_status_t *parts_of(weft_shape_ctx_t *c, int i) {
  int n = c->num_outputs / 3;
  for (int k = 0; k < n; k++) {
    c->outputs[k] = weft_shape_matrix(WEFT_UNKNOWN_DIM, count_of(&c->inputs[i]));
    c->outputs[k + n] = weft_shape_vector(WEFT_UNKNOWN_DIM);
    c->outputs[k + 2 * n] = c->inputs[i];
  }
  return NULL;
}
weft_status_t *weft_infer_sparse_split(weft_shape_ctx_t *c) { return parts_of(c, 3); }
weft_status_t *weft_infer_sparse_slice(weft_shape_ctx_t *c) { return parts_of(c, 2); }

/* One number for each row of the matrix in input i. */
static weft_status_t *one_per_row(weft_shape_ctx_t *c, int i) {
  weft_shape_t indices;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], 2, &indices));
  c->outputs[0] = weft_shape_vector(indices.dims[0]);
  return NULL;
}
weft_status_t *weft_infer_sparse_slice_grad(weft_shape_ctx_t *c) { return one_per_row(c, 1); }
weft_status_t *weft_infer_sparse_cwise(weft_shape_ctx_t *c) { return one_per_row(c, 0); }

weft_status_t *weft_infer_sparse_softmax(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(ranks_are(c, "2.1"));
  return weft_infer_rank(&c->inputs[1], 1, &c->outputs[0]);
}

weft_status_t *weft_infer_sparse_of_two(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(ranks_are(c, "211211"));
  c->outputs[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, WEFT_UNKNOWN_DIM);
  c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_sparse_reduce(weft_shape_ctx_t *c) {
  if (!weft_infer_is_known(c, 2) || !weft_infer_is_known(c, 3)) return NULL;
  int64_t rank = weft_infer_num_values(c, 2);
  if (rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Number of dims in shape tensor must not be 0");
  weft_shape_t out = WEFT_SCALAR;
  for (int64_t d = 0; d < rank; d++) {
    bool is_reduced = false;
    for (int64_t k = 0; k < weft_infer_num_values(c, 3); k++) {
      is_reduced = is_reduced || (weft_infer_value(c, 3, k) + rank) % rank == d;
    }
    if (is_reduced && !weft_infer_bool(c, "keep_dims")) continue;
    if (!is_reduced && weft_infer_value(c, 2, d) < WEFT_UNKNOWN_DIM)
      return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= 0", weft_infer_value(c, 2, d));
    WEFT_RETURN_IF_ERROR(weft_infer_push(&out, is_reduced ? 1 : weft_infer_value(c, 2, d)));
  }
  c->outputs[0] = out;
  return NULL;
}

/* ---- sets ---- */

/* Inputs i to i + 2 are a sparse tensor; its rank is *rank or gets into it. */
static weft_status_t *is_sparse_of_rank(weft_shape_ctx_t *c, int i, int64_t *rank) {
  int64_t unused = 0;
  const weft_shape_t *indices = &c->inputs[i], *values = &c->inputs[i + 1], *shape = &c->inputs[i + 2];
  WEFT_RETURN_IF_ERROR(weft_infer_rank(indices, 2, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(values, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(shape, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(weft_infer_dim(indices, 0), weft_infer_dim(values, 0), &unused));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(weft_infer_dim(indices, 1), weft_infer_dim(shape, 0), &unused));
  return weft_shape_merge_dim(weft_infer_dim(shape, 0), *rank, rank);
}

/* A sparse result, as many sets as it may have. */
static weft_status_t *set_result(weft_shape_ctx_t *c, int64_t rank) {
  if (rank >= 0 && rank < 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input 0, expected rank >= 2, got %" PRId64 ".", rank);
  set_sparse(c, 0, WEFT_UNKNOWN_DIM, rank);
  return NULL;
}

static int64_t rank_of(const weft_shape_t *s) { return s->rank < 0 ? WEFT_UNKNOWN_DIM : s->rank; }

weft_status_t *weft_infer_set_operation(weft_shape_ctx_t *c) {
  const weft_shape_t *a = &c->inputs[0], *b = &c->inputs[1];
  int64_t rank = rank_of(a), unused = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(a, 2, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(b, 2, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(rank, rank_of(b), &rank));
  for (int d = 0; a->rank >= 0 && b->rank >= 0 && d < a->rank - 1; d++)
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(a->dims[d], b->dims[d], &unused));
  return set_result(c, rank);
}

weft_status_t *weft_infer_dense_sparse_sets(weft_shape_ctx_t *c) {
  int64_t rank = rank_of(&c->inputs[0]);
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[0], 2, NULL));
  bool is_known = rank >= 0;
  WEFT_RETURN_IF_ERROR(is_sparse_of_rank(c, 1, &rank));
  if (is_known) return set_result(c, rank);
  set_sparse(c, 0, WEFT_UNKNOWN_DIM, rank);
  return NULL;
}

weft_status_t *weft_infer_sparse_sets(weft_shape_ctx_t *c) {
  int64_t rank = WEFT_UNKNOWN_DIM;
  WEFT_RETURN_IF_ERROR(is_sparse_of_rank(c, 0, &rank));
  WEFT_RETURN_IF_ERROR(is_sparse_of_rank(c, 3, &rank));
  return set_result(c, rank);
}

/* ---- serialized, and in maps ---- */

weft_status_t *weft_infer_serialize_sparse(weft_shape_ctx_t *c) {
  c->outputs[0] = weft_shape_vector(3);
  return ranks_are(c, "211");
}

weft_status_t *weft_infer_serialize_many_sparse(weft_shape_ctx_t *c) {
  c->outputs[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, 3);
  return ranks_are(c, "211");
}

static weft_status_t *any_sparse(weft_shape_ctx_t *c) {
  c->outputs[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, WEFT_UNKNOWN_DIM);
  c->outputs[1] = c->outputs[2] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_deserialize_sparse(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[0], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(weft_infer_dim(&c->inputs[0], -1), 3));
  return any_sparse(c);
}

weft_status_t *weft_infer_deserialize_many_sparse(weft_shape_ctx_t *c) {
  weft_shape_t rows;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 2, &rows));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(rows.dims[1], 3));
  return any_sparse(c);
}

weft_status_t *weft_infer_sparse_to_map(weft_shape_ctx_t *c) {
  c->outputs[0] = WEFT_SCALAR;
  return ranks_are(c, "211");
}

weft_status_t *weft_infer_many_sparse_to_map(weft_shape_ctx_t *c) {
  c->outputs[0] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return ranks_are(c, "211");
}

weft_status_t *weft_infer_sparse_from_map(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(ranks_are(c, "1"));
  return any_sparse(c);
}

weft_status_t *weft_infer_sparse_cross(weft_shape_ctx_t *c) {
  set_sparse(c, 0, WEFT_UNKNOWN_DIM, 2);
  return NULL;
}

/* ---- counts ---- */

weft_status_t *weft_infer_sparse_count(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(ranks_are(c, "2"));
  set_sparse(c, 0, WEFT_UNKNOWN_DIM, weft_infer_dim(&c->inputs[0], 1));
  return NULL;
}

weft_status_t *weft_infer_sparse_bincount(weft_shape_ctx_t *c) {
  int64_t size = 0;
  if (!weft_infer_is_known(c, 3)) return NULL;
  if (c->inputs[3].rank > 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank 0 but is rank %d", c->inputs[3].rank);
  size = weft_infer_value(c, 3, 0);
  if (size < 0) return WEFT_ERROR(INVALID_ARGUMENT, "size (%" PRId64 ") must be non-negative", size);
  if (!weft_infer_is_known(c, 2)) return NULL;
  int64_t rank = weft_infer_num_values(c, 2);
  if (rank != 1 && rank != 2) return WEFT_ERROR(INVALID_ARGUMENT, "Input must be less than rank 2");
  c->outputs[0] = rank == 1 ? weft_shape_vector(size) : weft_shape_matrix(weft_infer_value(c, 2, 0), size);
  return NULL;
}
