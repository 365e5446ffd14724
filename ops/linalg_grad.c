/* ops/linalg_grad.c - gradients of linear algebra, of matrices in the last two dimensions.
 *
 * Sources: Giles, "An extended collection of matrix derivative results for forward and reverse mode automatic
 * differentiation" (2008); Seeger et al., "Auto-differentiating linear algebra" (2017); Roberts, Roberts, "QR
 * and LQ decomposition matrix backpropagation algorithms" (2020). What is not differentiable there has no
 * gradient.
 */
#include "ops/grad.h"

#define LINALG                                                \
  weft_grad_t g_ = {c, NULL}, *g = &g_;                       \
  value_t a = c->inputs[0], y = c->outputs[0], dy = c->dy[0]; \
  (void)a;                                                    \
  (void)y;                                                    \
  (void)dy

/* ---- what formulas are made of ---- */

static value_t add(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "AddV2", a, b); }
static value_t sub(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "Sub", a, b); }
static value_t mul(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "Mul", a, b); }
static value_t neg(weft_grad_t *g, value_t a) { return weft_grad_op1(g, "Neg", a); }
static value_t half(weft_grad_t *g, value_t a) {
  return mul(g, weft_grad_scalar(g, weft_grad_dtype(g, a), 0.5), a);
}

/* op(a) op(b), the adjoint where asked for. */
static value_t product(weft_grad_t *g, value_t a, bool adj_a, value_t b, bool adj_b) {
  weft_named_attr_t attrs[] = {weft_bool_attr("adj_x", adj_a), weft_bool_attr("adj_y", adj_b)};
  return weft_grad_node(g, "BatchMatMulV2", (value_t[]){a, b}, 2, attrs, 2);
}
static value_t times(weft_grad_t *g, value_t a, value_t b) { return product(g, a, false, b, false); }

static value_t einsum(weft_grad_t *g, const char *equation, const value_t *x, int n) {
  weft_named_attr_t attrs[] = {weft_int_attr("N", n), weft_text_attr("equation", weft_str(equation))};
  return weft_grad_node(g, "Einsum", x, n, attrs, 2);
}
static value_t transpose(weft_grad_t *g, value_t a) { return einsum(g, "...ij->...ji", &a, 1); }
static value_t adjoint(weft_grad_t *g, value_t a) { return transpose(g, weft_grad_conj(g, a)); }
static value_t diag(weft_grad_t *g, value_t a) { return weft_grad_op1(g, "MatrixDiag", a); }
static value_t diag_part(weft_grad_t *g, value_t a) { return weft_grad_op1(g, "MatrixDiagPart", a); }
static value_t set_diag(weft_grad_t *g, value_t a, value_t d) {
  return weft_grad_op2(g, "MatrixSetDiag", a, d);
}
static value_t zeros_like(weft_grad_t *g, value_t a) { return weft_grad_op1(g, "ZerosLike", a); }
static value_t band(weft_grad_t *g, value_t a, int lower, int upper) {
  return weft_grad_op3(g, "MatrixBandPart", a, weft_grad_int_scalar(g, WEFT_I64, lower),
                       weft_grad_int_scalar(g, WEFT_I64, upper));
}
/* Unit matrices in the shape of the square ones in a. */
static value_t eye_like(weft_grad_t *g, value_t a) {
  return set_diag(g, zeros_like(g, a), weft_grad_op1(g, "OnesLike", diag_part(g, a)));
}

/* The solution x of op(t) x = b, t triangular. */
static value_t triangular(weft_grad_t *g, value_t t, value_t b, bool lower, bool adj) {
  weft_named_attr_t attrs[] = {weft_bool_attr("lower", lower), weft_bool_attr("adjoint", adj)};
  return weft_grad_node(g, "MatrixTriangularSolve", (value_t[]){t, b}, 2, attrs, 2);
}

static value_t inverse(weft_grad_t *g, value_t a, bool adj) {
  weft_named_attr_t attr = weft_bool_attr("adjoint", adj);
  return weft_grad_node(g, "MatrixInverse", &a, 1, &attr, 1);
}

/* Places begin to end of the last axis (-1) or the one before (-2); end 0: all of them behind. */
static value_t slice(weft_grad_t *g, value_t x, int axis, int begin, int end) {
  int at = axis + 3; /* ..., rows, columns */
  int32_t from[3] = {0}, to[3] = {0};
  from[at] = begin;
  to[at] = end;
  int whole = axis == -1 ? 2 : 4, open = end == 0 ? 1 << at : 0;
  weft_named_attr_t attrs[] = {weft_int_attr("begin_mask", whole), weft_int_attr("ellipsis_mask", 1),
                               weft_int_attr("end_mask", whole | open)};
  return weft_grad_node(g, "StridedSlice",
                        (value_t[]){x, weft_grad_int32s(g, from, 3), weft_grad_int32s(g, to, 3),
                                    weft_grad_int32s(g, (int32_t[]){1, 1, 1}, 3)},
                        4, attrs, 3);
}

/* One place to the left along the axis, or to the right; a zero moves in. */
static value_t shift(weft_grad_t *g, value_t x, int axis, bool left) {
  value_t zero = zeros_like(g, slice(g, x, axis, 0, 1));
  value_t rest = left ? slice(g, x, axis, 1, 0) : slice(g, x, axis, 0, -1);
  return weft_grad_concat(g, left ? (value_t[]){rest, zero} : (value_t[]){zero, rest}, 2, axis);
}

/* 1 / x, or nearly 0 where x is: degenerate values give no infinities. */
static value_t safe_reciprocal(weft_grad_t *g, value_t x) {
  value_t tiny = weft_grad_scalar(g, weft_grad_dtype(g, x), 1e-20);
  return mul(g, x, weft_grad_op1(g, "Reciprocal", add(g, mul(g, x, x), tiny)));
}

/* Element (i, j) is 1 / (e_j - e_i); zeros on the diagonal. */
static value_t reciprocal_differences(weft_grad_t *g, value_t e) {
  value_t differences = sub(g, weft_grad_expand(g, e, -2), weft_grad_expand(g, e, -1));
  return set_diag(g, safe_reciprocal(g, differences), zeros_like(g, e));
}

static bool is_complex(weft_grad_t *g, value_t a) { return weft_dtype_is_complex(weft_grad_dtype(g, a)); }

static value_t real_part(weft_grad_t *g, value_t a) { /* in the type of a */
  if (!is_complex(g, a)) return a;
  int dtype = weft_grad_dtype(g, a);
  weft_named_attr_t type = weft_type_attr("Tout", dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64);
  return weft_grad_cast(g, weft_grad_node(g, "Real", &a, 1, &type, 1), dtype);
}

static weft_status_t *not_defined(weft_grad_t *g, const char *why) {
  if (g->s == NULL) {
    g->s = WEFT_ERROR(UNIMPLEMENTED, "the gradient of %.*s is not defined %s", WEFT_STR_ARGS(g->c->op->name),
                      why);
  }
  return g->s;
}

/* ---- inverses and determinants ---- */

weft_status_t *weft_grad_matrix_inverse(weft_grad_ctx_t *c) {
  LINALG;
  bool adj = weft_grad_attr_bool(g, "adjoint");
  c->dx[0] = neg(g, product(g, y, !adj, product(g, dy, adj, y, !adj), false));
  return g->s;
}

static value_t of_determinant(weft_grad_t *g, value_t a, value_t factor) {
  return mul(g, weft_grad_expand(g, weft_grad_expand(g, factor, -1), -1), inverse(g, a, true));
}

weft_status_t *weft_grad_matrix_determinant(weft_grad_ctx_t *c) {
  LINALG;
  c->dx[0] = of_determinant(g, a, mul(g, dy, y));
  return g->s;
}

weft_status_t *weft_grad_log_matrix_determinant(weft_grad_ctx_t *c) {
  LINALG;
  c->dx[0] = of_determinant(g, a, weft_grad_dy_or_zeros(g, 1));
  return g->s;
}

/* ---- solvers ---- */

/* dx[1] is given; dx[0] is the product of it with y. */
static value_t of_matrix(weft_grad_t *g, value_t y, value_t db, bool adj) {
  return neg(g, adj ? product(g, y, false, db, true) : product(g, db, false, y, true));
}

weft_status_t *weft_grad_matrix_solve(weft_grad_ctx_t *c) {
  LINALG;
  bool adj = weft_grad_attr_bool(g, "adjoint");
  weft_named_attr_t attr = weft_bool_attr("adjoint", !adj);
  c->dx[1] = weft_grad_node(g, "MatrixSolve", (value_t[]){a, dy}, 2, &attr, 1);
  c->dx[0] = of_matrix(g, y, c->dx[1], adj);
  return g->s;
}

weft_status_t *weft_grad_triangular_solve(weft_grad_ctx_t *c) {
  LINALG;
  bool adj = weft_grad_attr_bool(g, "adjoint"), lower = weft_grad_attr_bool(g, "lower");
  value_t db = triangular(g, a, dy, lower, !adj), da = of_matrix(g, y, db, adj);
  da = lower ? band(g, da, -1, 0) : band(g, da, 0, -1);
  c->dx[0] = weft_grad_unbroadcast_batch(g, da, a, c->inputs[1]);
  c->dx[1] = weft_grad_unbroadcast_batch(g, db, c->inputs[1], a);
  return g->s;
}

weft_status_t *weft_grad_banded_solve(weft_grad_ctx_t *c) {
  LINALG;
  bool adj = weft_grad_attr_bool(g, "adjoint"), lower = weft_grad_attr_bool(g, "lower");
  weft_named_attr_t attrs[] = {weft_bool_attr("adjoint", !adj), weft_bool_attr("lower", lower)};
  weft_named_attr_t align = weft_text_attr("align", WEFT_STR("LEFT_RIGHT")),
                    shrink[] = {weft_int_attr("shrink_axis_mask", 1)};
  value_t db = weft_grad_node(g, "BandedTriangularSolve", (value_t[]){a, dy}, 2, attrs, 2),
          da = of_matrix(g, y, db, adj);
  value_t bands = weft_grad_node(
      g, "StridedSlice",
      (value_t[]){weft_grad_shape_node(g, a, WEFT_I32), weft_grad_int32s(g, (int32_t[]){-2}, 1),
                  weft_grad_int32s(g, (int32_t[]){-1}, 1), weft_grad_int32s(g, (int32_t[]){1}, 1)},
      4, shrink, 1);
  value_t one = weft_grad_int_scalar(g, WEFT_I32, 1), zero = weft_grad_int_scalar(g, WEFT_I32, 0),
          beside = sub(g, bands, one);
  value_t k = weft_grad_pack(g, lower ? (value_t[]){neg(g, beside), zero} : (value_t[]){zero, beside}, 2);
  da = weft_grad_node(g, "MatrixDiagPartV3",
                      (value_t[]){da, k, weft_grad_scalar(g, weft_grad_dtype(g, a), 0)}, 3, &align, 1);
  c->dx[0] = weft_grad_unbroadcast_batch(g, da, a, c->inputs[1]);
  c->dx[1] = weft_grad_unbroadcast_batch(g, db, c->inputs[1], a);
  return g->s;
}

/* ---- least squares, by the normal equations ---- */

static value_t cholesky_solve(weft_grad_t *g, value_t l, value_t b) {
  return triangular(g, l, triangular(g, l, b, true, false), true, true);
}

static value_t gram_cholesky(weft_grad_t *g, value_t a, value_t l2, bool is_tall) {
  value_t gram = product(g, a, is_tall, a, !is_tall);
  return weft_grad_op1(g, "Cholesky", add(g, gram, mul(g, l2, eye_like(g, gram))));
}

static void overdetermined(weft_grad_t *g, value_t l2, value_t *da, value_t *db) {
  value_t a = g->c->inputs[0], b = g->c->inputs[1], x = g->c->outputs[0];
  value_t z = cholesky_solve(g, gram_cholesky(g, a, l2, true), g->c->dy[0]),
          xz = product(g, x, false, z, true);
  *da = add(g, neg(g, times(g, a, add(g, xz, transpose(g, xz)))), product(g, b, false, z, true));
  *db = times(g, a, z);
}

static void underdetermined(weft_grad_t *g, value_t l2, value_t *da, value_t *db) {
  value_t a = g->c->inputs[0], b = g->c->inputs[1], dy = g->c->dy[0], l = gram_cholesky(g, a, l2, false);
  value_t t = cholesky_solve(g, l, b);
  *db = cholesky_solve(g, l, times(g, a, dy));
  value_t first = neg(g, times(g, *db, product(g, t, true, a, false)));
  *da = add(g, first, product(g, t, false, sub(g, dy, product(g, a, true, *db, false)), true));
}

/* Where the shape is not known both are computed, and that is taken which fits. */
weft_status_t *weft_grad_matrix_solve_ls(weft_grad_ctx_t *c) {
  LINALG;
  if (!weft_grad_attr_bool(g, "fast")) return not_defined(g, "for fast=False");
  value_t l2 = weft_grad_cast(g, c->inputs[2], weft_grad_dtype(g, a)), tall[2], wide[2];
  weft_shape_t s = weft_grad_shape_of(g, a);
  bool is_known = s.rank >= 2 && s.dims[s.rank - 2] >= 0 && s.dims[s.rank - 1] >= 0;
  bool is_tall = is_known && s.dims[s.rank - 2] >= s.dims[s.rank - 1];
  if (!is_known || is_tall) overdetermined(g, l2, &tall[0], &tall[1]);
  if (!is_tall) underdetermined(g, l2, &wide[0], &wide[1]);
  if (is_known) {
    for (int i = 0; i < 2; i++) c->dx[i] = is_tall ? tall[i] : wide[i];
    return g->s;
  }
  weft_named_attr_t shrink = weft_int_attr("shrink_axis_mask", 1);
  value_t shape = weft_grad_shape_node(g, a, WEFT_I32), step = weft_grad_int32s(g, (int32_t[]){1}, 1),
          size[2];
  for (int i = 0; i < 2; i++) {
    value_t at = weft_grad_int32s(g, (int32_t[]){i - 2}, 1), end = weft_grad_int32s(g, (int32_t[]){i - 1}, 1);
    size[i] = weft_grad_node(g, "StridedSlice", (value_t[]){shape, at, end, step}, 4, &shrink, 1);
  }
  value_t taller = weft_grad_op2(g, "GreaterEqual", size[0], size[1]);
  for (int i = 0; i < 2; i++) c->dx[i] = weft_grad_op3(g, "SelectV2", taller, tall[i], wide[i]);
  return g->s;
}

/* ---- tridiagonal ---- */

static value_t sum_last(weft_grad_t *g, value_t a) {
  return weft_grad_reduce(g, "Sum", a, weft_grad_int_scalar(g, WEFT_I32, -1), false);
}

weft_status_t *weft_grad_tridiagonal_mat_mul(weft_grad_ctx_t *c) {
  LINALG;
  value_t d[3], b = weft_grad_conj(g, c->inputs[3]);
  for (int i = 0; i < 3; i++) d[i] = adjoint(g, c->inputs[i]);
  c->dx[0] = weft_grad_expand(g, sum_last(g, mul(g, shift(g, b, -2, true), dy)), -2);
  c->dx[1] = weft_grad_expand(g, sum_last(g, mul(g, b, dy)), -2);
  c->dx[2] = weft_grad_expand(g, sum_last(g, mul(g, shift(g, b, -2, false), dy)), -2);
  c->dx[3] = add(g, add(g, shift(g, mul(g, d[0], dy), -2, false), mul(g, d[1], dy)),
                 shift(g, mul(g, d[2], dy), -2, true));
  return g->s;
}

/* Of the transposed matrix; TensorFlow does not conjugate. */
weft_status_t *weft_grad_tridiagonal_solve(weft_grad_ctx_t *c) {
  LINALG;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "partial_pivoting"), weft_grad_same(g, "perturb_singular")};
  value_t turned[3] = {shift(g, slice(g, a, -2, 2, 3), -1, true), slice(g, a, -2, 1, 2),
                       shift(g, slice(g, a, -2, 0, 1), -1, false)};
  value_t db =
      weft_grad_node(g, "TridiagonalSolve", (value_t[]){weft_grad_concat(g, turned, 3, -2), dy}, 2, attrs, 2);
  value_t d[3] = {mul(g, db, shift(g, y, -2, true)), mul(g, db, y), mul(g, db, shift(g, y, -2, false))};
  for (int i = 0; i < 3; i++) d[i] = weft_grad_expand(g, sum_last(g, d[i]), -2);
  c->dx[0] = neg(g, weft_grad_concat(g, d, 3, -2));
  c->dx[1] = db;
  return g->s;
}

/* ---- factorisations ---- */

weft_status_t *weft_grad_cholesky(weft_grad_ctx_t *c) {
  LINALG;
  value_t inv = triangular(g, y, eye_like(g, y), true, false), middle = product(g, y, true, dy, false);
  middle = band(g, set_diag(g, middle, half(g, diag_part(g, middle))), -1, 0);
  value_t da = times(g, product(g, inv, true, middle, false), inv);
  c->dx[0] = half(g, add(g, da, adjoint(g, da)));
  return g->s;
}

/* x r*^-1, r upper triangular. */
static value_t over_adjoint(weft_grad_t *g, value_t x, value_t r) {
  return adjoint(g, triangular(g, r, adjoint(g, x), false, false));
}

static value_t deep_qr(weft_grad_t *g, value_t q, value_t r, value_t dq, value_t dr) {
  value_t qdq = product(g, q, true, dq, false), rdr = product(g, r, false, dr, true);
  value_t both = add(g, sub(g, qdq, adjoint(g, qdq)), sub(g, rdr, adjoint(g, rdr)));
  value_t first = times(g, q, add(g, dr, over_adjoint(g, band(g, both, -1, 0), r)));
  value_t da = add(g, first, over_adjoint(g, sub(g, dq, times(g, q, qdq)), r));
  if (!is_complex(g, q)) return da;
  value_t d = diag_part(g, sub(g, rdr, adjoint(g, qdq)));
  value_t imaginary = diag(g, sub(g, d, real_part(g, d)));
  return add(g, da, over_adjoint(g, times(g, q, adjoint(g, imaginary)), r));
}

weft_status_t *weft_grad_qr(weft_grad_ctx_t *c) {
  LINALG;
  value_t r = c->outputs[1], dq = weft_grad_dy_or_zeros(g, 0), dr = weft_grad_dy_or_zeros(g, 1);
  weft_shape_t qs = weft_grad_shape_of(g, y), rs = weft_grad_shape_of(g, r);
  int64_t rows = qs.rank < 2 ? -1 : qs.dims[qs.rank - 2], cols = rs.rank < 2 ? -1 : rs.dims[rs.rank - 1];
  if (rows < 0 || cols < 0 || rs.dims[rs.rank - 2] < 0)
    return not_defined(g, "for matrices of unknown shape");
  if (rs.dims[rs.rank - 2] > cols) return not_defined(g, "for full matrices of more rows than columns");
  if (rows >= cols) {
    c->dx[0] = deep_qr(g, y, r, dq, dr);
    return g->s;
  }
  int n = (int)rows; /* the left part is square */
  value_t right = slice(g, a, -1, n, 0), dv = slice(g, dr, -1, n, 0);
  value_t dx = deep_qr(g, y, slice(g, r, -1, 0, n), add(g, dq, product(g, right, false, dv, true)),
                       slice(g, dr, -1, 0, n));
  c->dx[0] = weft_grad_concat(g, (value_t[]){dx, times(g, y, dv)}, 2, -1);
  return g->s;
}

/* ---- eigenvalues and singular values ---- */

static value_t self_adjoint_middle(weft_grad_t *g, value_t e, value_t v, value_t de, value_t dv) {
  return add(g, diag(g, de), mul(g, reciprocal_differences(g, e), product(g, v, true, dv, false)));
}

weft_status_t *weft_grad_self_adjoint_eig(weft_grad_ctx_t *c) {
  LINALG;
  bool has_v = weft_grad_attr_bool(g, "compute_v");
  weft_named_attr_t attr = weft_bool_attr("compute_v", true);
  value_t de = weft_grad_dy_or_zeros(g, 0);
  value_t v =
      has_v ? c->outputs[1] : weft_grad_output(weft_grad_node(g, "SelfAdjointEigV2", &a, 1, &attr, 1), 1);
  value_t middle = has_v ? self_adjoint_middle(g, y, v, de, weft_grad_dy_or_zeros(g, 1)) : diag(g, de);
  value_t da = times(g, v, product(g, middle, false, v, true));
  da = band(g, add(g, da, adjoint(g, da)), -1, 0); /* the op reads the lower triangle */
  c->dx[0] = set_diag(g, da, half(g, diag_part(g, da)));
  return g->s;
}

static value_t eig_middle(weft_grad_t *g, value_t e, value_t v, value_t de, value_t dv) {
  value_t f = weft_grad_conj(g, reciprocal_differences(g, e)), vdv = product(g, v, true, dv, false);
  value_t d = diag(g, diag_part(g, real_part(g, vdv)));
  return add(g, diag(g, de), mul(g, f, sub(g, vdv, times(g, product(g, v, true, v, false), d))));
}

weft_status_t *weft_grad_eig(weft_grad_ctx_t *c) {
  LINALG;
  bool has_v = weft_grad_attr_bool(g, "compute_v");
  weft_named_attr_t attrs[] = {weft_bool_attr("compute_v", true), weft_grad_same(g, "Tout")};
  value_t de = weft_grad_dy_or_zeros(g, 0);
  value_t v = has_v ? c->outputs[1] : weft_grad_output(weft_grad_node(g, "Eig", &a, 1, attrs, 2), 1);
  value_t middle = has_v ? eig_middle(g, y, v, de, weft_grad_dy_or_zeros(g, 1)) : diag(g, de),
          vt = adjoint(g, v);
  value_t da = weft_grad_op2(g, "MatrixSolve", vt, times(g, middle, vt));
  c->dx[0] = weft_grad_cast(g, da, weft_grad_dtype(g, a));
  return g->s;
}

/* Of a matrix that is not deeper than wide, m x n. */
static value_t wide_svd(weft_grad_t *g, value_t s, value_t u, value_t v, value_t ds, value_t du, value_t dv,
                        int m, int n, bool is_full) {
  value_t s_mat = diag(g, s), s_inv = diag(g, safe_reciprocal(g, s)),
          f = reciprocal_differences(g, weft_grad_op1(g, "Square", s));
  value_t v1 = slice(g, v, -1, 0, m), dv1 = slice(g, dv, -1, 0, m), vdv = product(g, v1, true, dv1, false);
  value_t fu = mul(g, f, product(g, u, true, du, false)), fv = mul(g, f, vdv);
  value_t middle =
      add(g, diag(g, ds),
          add(g, times(g, add(g, fu, adjoint(g, fu)), s_mat), times(g, s_mat, add(g, fv, adjoint(g, fv)))));
  value_t da = times(g, u, product(g, middle, false, v1, true));
  if (m != n) {
    value_t dv1t = adjoint(g, dv1), rest = sub(g, dv1t, product(g, times(g, dv1t, v1), false, v1, true));
    if (is_full) {
      value_t v2 = slice(g, v, -1, m, n), dv2 = slice(g, dv, -1, m, n);
      rest = sub(g, rest, product(g, product(g, v1, true, dv2, false), false, v2, true));
    }
    da = add(g, da, times(g, times(g, u, s_inv), rest));
  }
  if (!is_complex(g, s)) return da;
  value_t l = diag(g, diag_part(g, vdv)), turned = times(g, s_inv, sub(g, adjoint(g, l), l));
  return add(g, da, half(g, times(g, u, product(g, turned, false, v1, true))));
}

weft_status_t *weft_grad_svd(weft_grad_ctx_t *c) {
  LINALG;
  value_t ds = weft_grad_dy_or_zeros(g, 0);
  if (!weft_grad_attr_bool(g, "compute_uv")) {
    weft_named_attr_t attr = weft_bool_attr("compute_uv", true);
    value_t svd = weft_grad_node(g, "Svd", &a, 1, &attr, 1);
    c->dx[0] =
        times(g, weft_grad_output(svd, 1), product(g, diag(g, ds), false, weft_grad_output(svd, 2), true));
    return g->s;
  }
  weft_shape_t shape = weft_grad_shape_of(g, a);
  int64_t m = shape.rank < 2 ? -1 : shape.dims[shape.rank - 2],
          n = shape.rank < 2 ? -1 : shape.dims[shape.rank - 1];
  bool is_full = weft_grad_attr_bool(g, "full_matrices");
  if (m < 0 || n < 0) return not_defined(g, "for matrices of unknown shape");
  if (is_full && (m > n + 1 || n > m + 1))
    return not_defined(g, "for full matrices that are not nearly square");
  value_t u = c->outputs[1], v = c->outputs[2], du = weft_grad_dy_or_zeros(g, 1),
          dv = weft_grad_dy_or_zeros(g, 2);
  c->dx[0] = m > n ? adjoint(g, wide_svd(g, y, v, u, ds, dv, du, (int)n, (int)m, is_full))
                   : wide_svd(g, y, u, v, ds, du, dv, (int)m, (int)n, is_full);
  return g->s;
}

/* R R = A: the Sylvester equation R* dA + dA R* = dR as one linear system. */
weft_status_t *weft_grad_matrix_square_root(weft_grad_ctx_t *c) {
  LINALG;
  value_t shape = weft_grad_shape_node(g, y, WEFT_I32), step = weft_grad_int32s(g, (int32_t[]){1}, 1);
  value_t minus2 = weft_grad_int32s(g, (int32_t[]){-2}, 1), minus1 = weft_grad_int32s(g, (int32_t[]){-1}, 1),
          zero = weft_grad_int32s(g, (int32_t[]){0}, 1);
  value_t batch =
      weft_grad_op3(g, "Slice", shape, zero,
                    sub(g, weft_grad_shape_node(g, shape, WEFT_I32), weft_grad_int32s(g, (int32_t[]){2}, 1)));
  value_t n = weft_grad_node(g, "StridedSlice", (value_t[]){shape, minus2, minus1, step}, 4, NULL, 0),
          n2 = mul(g, n, n);
  value_t square = weft_grad_concat(g, (value_t[]){batch, n2, n2}, 3, 0);
  value_t column = weft_grad_concat(g, (value_t[]){batch, n2, step}, 3, 0);
  value_t eye = eye_like(g, y), yt = transpose(g, y);
  value_t k1 = einsum(g, "...ik,...jl->...ijkl", (value_t[]){eye, yt}, 2),
          k2 = einsum(g, "...ik,...jl->...ijkl", (value_t[]){y, eye}, 2);
  value_t sum = weft_grad_op2(g, "Reshape", add(g, k1, k2), square);
  value_t x = weft_grad_op2(g, "MatrixSolve", sum, weft_grad_op2(g, "Reshape", transpose(g, dy), column));
  c->dx[0] = transpose(g, weft_grad_op2(g, "Reshape", x, shape));
  return g->s;
}

weft_status_t *weft_grad_cross(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = weft_grad_op2(&g, "Cross", c->inputs[1], c->dy[0]);
  c->dx[1] = weft_grad_op2(&g, "Cross", c->dy[0], c->inputs[0]);
  return g.s;
}
