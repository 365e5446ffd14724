/* ops/linalg.c - shapes of linear algebra: [..., rows, columns], where the dimensions in
 * front are those of a batch. */
#include "ops/infer.h"

/* A matrix operand: its batch, of unknown rank if that is unknown, and its last two dims. */
typedef struct matrix {
  weft_shape_t batch;
  int64_t rows, cols;
} matrix_t;

static weft_status_t *read_matrix(const weft_shape_ctx_t *c, int i, matrix_t *m) {
  const weft_shape_t *s = &c->inputs[i];
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(s, 2, NULL));
  m->batch = *s;
  if (s->rank >= 0) m->batch.rank -= 2;
  m->rows = weft_infer_dim(s, -2);
  m->cols = weft_infer_dim(s, -1);
  return NULL;
}

static weft_status_t *read_square(const weft_shape_ctx_t *c, int i, matrix_t *m) {
  WEFT_RETURN_IF_ERROR(read_matrix(c, i, m));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(m->rows, m->cols, &m->rows));
  m->cols = m->rows;
  return NULL;
}

static weft_status_t *set_vector(weft_shape_ctx_t *c, int o, const weft_shape_t *batch, int64_t n) {
  c->outputs[o] = *batch;
  return weft_infer_push(&c->outputs[o], n);
}

static weft_status_t *set_matrix(weft_shape_ctx_t *c, int o, const weft_shape_t *batch, int64_t rows,
                                 int64_t cols) {
  WEFT_RETURN_IF_ERROR(set_vector(c, o, batch, rows));
  return weft_infer_push(&c->outputs[o], cols);
}

static int64_t least(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a < 0 || b < 0) return WEFT_UNKNOWN_DIM;
  return a < b ? a : b;
}

weft_status_t *weft_infer_square(weft_shape_ctx_t *c) {
  matrix_t m;
  WEFT_RETURN_IF_ERROR(read_square(c, 0, &m));
  return set_matrix(c, 0, &m.batch, m.rows, m.rows);
}

weft_status_t *weft_infer_determinant(weft_shape_ctx_t *c) {
  matrix_t m;
  WEFT_RETURN_IF_ERROR(read_square(c, 0, &m));
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = m.batch;
  return NULL;
}

weft_status_t *weft_infer_packed_eig(weft_shape_ctx_t *c) { /* one row more */
  matrix_t m;
  int64_t rows;
  WEFT_RETURN_IF_ERROR(read_square(c, 0, &m));
  WEFT_RETURN_IF_ERROR(weft_infer_add(m.rows, 1, &rows));
  return set_matrix(c, 0, &m.batch, rows, m.rows);
}

weft_status_t *weft_infer_eig(weft_shape_ctx_t *c) {
  matrix_t m;
  WEFT_RETURN_IF_ERROR(read_square(c, 0, &m));
  WEFT_RETURN_IF_ERROR(set_vector(c, 0, &m.batch, m.rows));
  if (weft_infer_bool(c, "compute_v")) return set_matrix(c, 1, &m.batch, m.rows, m.rows);
  c->outputs[1] = weft_shape_vector(0);
  return NULL;
}

weft_status_t *weft_infer_lu(weft_shape_ctx_t *c) {
  matrix_t m;
  WEFT_RETURN_IF_ERROR(read_square(c, 0, &m));
  WEFT_RETURN_IF_ERROR(set_vector(c, 1, &m.batch, m.rows));
  return set_matrix(c, 0, &m.batch, m.rows, m.rows);
}

weft_status_t *weft_infer_qr(weft_shape_ctx_t *c) {
  matrix_t m;
  WEFT_RETURN_IF_ERROR(read_matrix(c, 0, &m));
  int64_t inner = weft_infer_bool(c, "full_matrices") ? m.rows : least(m.rows, m.cols);
  WEFT_RETURN_IF_ERROR(set_matrix(c, 0, &m.batch, m.rows, inner));
  return set_matrix(c, 1, &m.batch, inner, m.cols);
}

weft_status_t *weft_infer_svd(weft_shape_ctx_t *c) {
  matrix_t m;
  WEFT_RETURN_IF_ERROR(read_matrix(c, 0, &m));
  int64_t p = least(m.rows, m.cols);
  bool is_full = weft_infer_bool(c, "full_matrices");
  WEFT_RETURN_IF_ERROR(set_vector(c, 0, &m.batch, p));
  if (!weft_infer_bool(c, "compute_uv")) {
    c->outputs[1] = c->outputs[2] = weft_shape_vector(0);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(set_matrix(c, 1, &m.batch, m.rows, is_full ? m.rows : p));
  return set_matrix(c, 2, &m.batch, m.cols, is_full ? m.cols : p);
}

/* ---- solvers: [..., m, n] and [..., m, k] give [..., n, k] ---- */

static weft_status_t *solve(weft_shape_ctx_t *c, const matrix_t *a, bool is_square) {
  matrix_t b;
  weft_shape_t batch;
  int64_t m, n = a->cols;
  WEFT_RETURN_IF_ERROR(read_matrix(c, 1, &b));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&a->batch, &b.batch, &batch));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(a->rows, b.rows, &m));
  if (is_square) WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(m, n, &n));
  return set_matrix(c, 0, &batch, n, b.cols);
}

weft_status_t *weft_infer_matrix_solve(weft_shape_ctx_t *c) {
  matrix_t a;
  WEFT_RETURN_IF_ERROR(read_square(c, 0, &a));
  return solve(c, &a, true);
}

weft_status_t *weft_infer_matrix_solve_ls(weft_shape_ctx_t *c) {
  matrix_t a;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[2], 0, NULL));
  WEFT_RETURN_IF_ERROR(read_matrix(c, 0, &a));
  return solve(c, &a, false);
}

static weft_status_t *solve_broadcast(weft_shape_ctx_t *c, const matrix_t *a) {
  matrix_t b;
  weft_shape_t batch;
  int64_t m;
  WEFT_RETURN_IF_ERROR(read_matrix(c, 1, &b));
  WEFT_RETURN_IF_ERROR(weft_shape_broadcast(&a->batch, &b.batch, &batch));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(a->cols, b.rows, &m));
  return set_matrix(c, 0, &batch, m, b.cols);
}

weft_status_t *weft_infer_triangular_solve(weft_shape_ctx_t *c) {
  matrix_t a;
  WEFT_RETURN_IF_ERROR(read_square(c, 0, &a));
  return solve_broadcast(c, &a);
}

weft_status_t *weft_infer_banded_solve(weft_shape_ctx_t *c) { /* [..., bands, n] */
  matrix_t a;
  WEFT_RETURN_IF_ERROR(read_matrix(c, 0, &a));
  if (a.rows == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Number of bands must be positive, but is 0");
  if (a.rows > 0 && a.cols >= 0 && a.rows > a.cols) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Number of bands %lld cannot exceed the size of the matrix %lld",
                      (long long)a.rows, (long long)a.cols);
  }
  return solve_broadcast(c, &a);
}

weft_status_t *weft_infer_tridiagonal_solve(weft_shape_ctx_t *c) { /* [..., 3, n] */
  matrix_t a, b;
  weft_shape_t batch;
  int64_t n;
  WEFT_RETURN_IF_ERROR(read_matrix(c, 0, &a));
  WEFT_RETURN_IF_ERROR(read_matrix(c, 1, &b));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&a.batch, &b.batch, &batch));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(a.cols, b.rows, &n));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(a.rows, 3));
  c->outputs[0] = c->inputs[1];
  return NULL;
}

weft_status_t *weft_infer_tridiagonal_mat_mul(weft_shape_ctx_t *c) { /* three of [..., 1, n], [..., n, k] */
  matrix_t d[3], b;
  weft_shape_t diagonal, batch;
  int64_t n;
  for (int i = 0; i < 3; i++) WEFT_RETURN_IF_ERROR(read_matrix(c, i, &d[i]));
  WEFT_RETURN_IF_ERROR(read_matrix(c, 3, &b));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[0], &c->inputs[1], &diagonal));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&d[1].batch, &b.batch, &batch));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&d[2].batch, &batch, &batch));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[2], &diagonal, &diagonal));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(weft_infer_dim(&diagonal, -1), b.rows, &n));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(weft_infer_dim(&diagonal, -2), 1));
  c->outputs[0] = c->inputs[3];
  return NULL;
}

weft_status_t *weft_infer_cross(weft_shape_ctx_t *c) {
  weft_shape_t out;
  for (int i = 0; i < 2; i++) WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[i], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[0], &c->inputs[1], &out));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(weft_infer_dim(&out, -1), 3));
  c->outputs[0] = out;
  return NULL;
}
