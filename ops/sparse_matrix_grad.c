/* ops/sparse_matrix_grad.c - gradients of sparse matrices in compressed rows. A matrix' gradient is one, too,
 * with the elements that it has itself. */
#include "ops/grad.h"

#define BEGIN                                    \
  weft_grad_t g_ = {c, NULL}, *g = &g_;          \
  const value_t *x = c->inputs, *y = c->outputs; \
  (void)x;                                       \
  (void)y

/* ---- nodes ---- */

static weft_named_attr_t type_of(int dtype) { return weft_type_attr("type", dtype); }

/* Indices, values and shape of the matrices m, as outputs 0 to 2. */
static value_t to_sparse(weft_grad_t *g, value_t m, int dtype) {
  weft_named_attr_t type = type_of(dtype);
  return weft_grad_node(g, "CSRSparseMatrixToSparseTensor", &m, 1, &type, 1);
}

static value_t from_sparse(weft_grad_t *g, value_t indices, value_t values, value_t shape) {
  return weft_grad_op3(g, "SparseTensorToCSRSparseMatrix", indices, values, shape);
}

static int csr_dtype(weft_grad_t *g) {
  for (int i = 0; i < g->c->num_attrs; i++) {
    const weft_named_attr_t *a = &g->c->attrs[i];
    if (weft_str_is(a->name, "type") || weft_str_is(a->name, "T")) return a->value.type;
  }
  return WEFT_F32;
}

/* Of real matrices, themselves. */
static value_t conjugate(weft_grad_t *g, value_t m) {
  int dtype = csr_dtype(g);
  return weft_dtype_is_complex(dtype) ? weft_grad_op1(g, "Conj", m) : m;
}

/* ---- to and from ---- */

weft_status_t *weft_grad_dense_to_csr(weft_grad_ctx_t *c) {
  BEGIN;
  weft_named_attr_t type = type_of(csr_dtype(g));
  c->dx[0] = weft_grad_node(g, "CSRSparseMatrixToDense", &c->dy[0], 1, &type, 1);
  return g->s;
}

weft_status_t *weft_grad_csr_to_dense(weft_grad_ctx_t *c) {
  BEGIN;
  value_t sparse = to_sparse(g, x[0], csr_dtype(g));
  c->dx[0] =
      from_sparse(g, sparse, weft_grad_op2(g, "GatherNd", c->dy[0], sparse), weft_grad_output(sparse, 2));
  return g->s;
}

weft_status_t *weft_grad_sparse_to_csr(weft_grad_ctx_t *c) {
  BEGIN;
  c->dx[1] = weft_grad_output(to_sparse(g, c->dy[0], csr_dtype(g)), 1);
  return g->s;
}

weft_status_t *weft_grad_csr_to_sparse(weft_grad_ctx_t *c) {
  BEGIN;
  c->dx[0] = from_sparse(g, y[0], weft_grad_dy_or_zeros(g, 1), y[2]);
  return g->s;
}

weft_status_t *weft_grad_csr_transpose(weft_grad_ctx_t *c) {
  BEGIN;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "conjugate"), weft_grad_same(g, "type")};
  c->dx[0] = weft_grad_node(g, "SparseMatrixTranspose", &c->dy[0], 1, attrs, 2);
  return g->s;
}

/* ---- a product with a dense matrix ----
 *
 * With G the gradient of op(A) op(B), that of op(A) is G op(B)^H, of which only the elements of A are wanted:
 * each is a row of G times a row of the other. That of op(B) is op(A)^H G.
 */

static value_t transposed(weft_grad_t *g, value_t v, int rank) {
  const int32_t order[] = {0, 2, 1}, flat[] = {1, 0};
  return weft_grad_op2(g, "Transpose", v, weft_grad_int32s(g, rank == 3 ? order : flat, rank));
}

/* [n, rank - 1]: the coordinates of the elements of A without that of `axis`, which is rank - 1 or rank - 2.
 */
static value_t without(weft_grad_t *g, value_t indices, int rank, int axis) {
  int32_t kept[2] = {0, axis == rank - 1 ? rank - 2 : rank - 1};
  weft_named_attr_t type = weft_type_attr("Taxis", WEFT_I32);
  value_t which = weft_grad_int32s(g, rank == 3 ? kept : kept + 1, rank - 1);
  return weft_grad_node(g, "GatherV2", (value_t[]){indices, which, weft_grad_int_scalar(g, WEFT_I32, 1)}, 3,
                        &type, 1);
}

/* The gradient of A; `right` is op(B) with its last two dimensions swapped, conjugated. */
static value_t elements_of_a(weft_grad_t *g, value_t grad, value_t right, int rank, bool flips,
                             bool conjugates) {
  value_t sparse = to_sparse(g, g->c->inputs[0], csr_dtype(g));
  value_t rows = without(g, sparse, rank, rank - 1), columns = without(g, sparse, rank, rank - 2);
  value_t of_grad = weft_grad_op2(g, "GatherNd", grad, flips ? columns : rows);
  value_t of_right = weft_grad_op2(g, "GatherNd", right, flips ? rows : columns);
  value_t products = weft_grad_op2(g, "Mul", of_grad, of_right);
  value_t values = weft_grad_reduce(g, "Sum", products, weft_grad_int_scalar(g, WEFT_I32, 1), false);
  if (conjugates) values = weft_grad_conj(g, values);
  return from_sparse(g, sparse, values, weft_grad_output(sparse, 2));
}

weft_status_t *weft_grad_csr_matmul(weft_grad_ctx_t *c) {
  BEGIN;
  bool ta = weft_grad_attr_bool(g, "transpose_a"), ha = weft_grad_attr_bool(g, "adjoint_a"),
       tb = weft_grad_attr_bool(g, "transpose_b"), hb = weft_grad_attr_bool(g, "adjoint_b");
  int rank = weft_grad_shape_of(g, x[1]).rank;
  if (rank < 0) rank = weft_grad_shape_of(g, y[0]).rank;
  if (rank != 2 && rank != 3)
    return WEFT_ERROR(INVALID_ARGUMENT, "the gradient of SparseMatrixMatMul needs operands of known rank");
  value_t grad = c->dy[0];
  if (weft_grad_attr_bool(g, "conjugate_output")) grad = weft_grad_conj(g, grad);
  if (weft_grad_attr_bool(g, "transpose_output")) grad = transposed(g, grad, rank);
  value_t right = tb || hb ? transposed(g, x[1], rank) : x[1];
  if (!hb) right = weft_grad_conj(g, right);
  c->dx[0] = elements_of_a(g, grad, right, rank, ta || ha, ha);
  /* op(A)^H is A^H, conj(A) or A. The gradient of B is that of op(B), swapped or its adjoint. */
  value_t left = ta ? conjugate(g, x[0]) : x[0];
  weft_named_attr_t attrs[] = {weft_bool_attr("adjoint_a", !ta && !ha),
                               weft_bool_attr("transpose_output", tb || hb),
                               weft_bool_attr("conjugate_output", hb)};
  c->dx[1] = weft_grad_node(g, "SparseMatrixMatMul", (value_t[]){left, grad}, 2, attrs, 3);
  return g->s;
}

/* ---- a product with a sparse matrix ---- */

/* Flat positions of the elements of a sparse tensor, as [n]. */
static value_t positions(weft_grad_t *g, value_t sparse) {
  value_t flat = weft_grad_op3(g, "SparseReshape", sparse, weft_grad_output(sparse, 2),
                               weft_grad_cast(g, weft_grad_int32s(g, (const int32_t[]){-1}, 1), WEFT_I64));
  return weft_grad_op2(g, "Reshape", flat, weft_grad_int32s(g, (const int32_t[]){-1}, 1));
}

/* Of the matrices m, the elements that `pattern` has as well. */
static value_t pruned(weft_grad_t *g, value_t m, value_t pattern) {
  int dtype = csr_dtype(g);
  value_t from = to_sparse(g, m, dtype), like = to_sparse(g, pattern, dtype);
  value_t of_from = positions(g, from), of_like = positions(g, like);
  value_t row = weft_grad_int32s(g, (const int32_t[]){1, -1}, 2);
  value_t place = weft_grad_op2(g, "LowerBound", weft_grad_op2(g, "Reshape", of_from, row),
                                weft_grad_op2(g, "Reshape", of_like, row));
  place = weft_grad_op2(g, "Reshape", place, weft_grad_int32s(g, (const int32_t[]){-1}, 1));
  value_t is_there =
      weft_grad_op1(g, "Where", weft_grad_op2(g, "Equal", weft_grad_gather0(g, of_from, place), of_like));
  value_t kept = weft_grad_gather0(g, place, is_there);
  return from_sparse(g, weft_grad_op2(g, "GatherNd", from, kept),
                     weft_grad_op2(g, "GatherNd", weft_grad_output(from, 1), kept),
                     weft_grad_output(like, 2));
}

typedef enum op_kind { PLAIN, TRANSPOSE, ADJOINT } op_kind_t;

/* op(a) op(b); a conjugate without a transpose is a node of its own. */
static value_t multiply(weft_grad_t *g, value_t a, op_kind_t op_a, value_t b, op_kind_t op_b) {
  weft_named_attr_t attrs[] = {weft_grad_same(g, "type"), weft_bool_attr("transpose_a", op_a == TRANSPOSE),
                               weft_bool_attr("adjoint_a", op_a == ADJOINT),
                               weft_bool_attr("transpose_b", op_b == TRANSPOSE),
                               weft_bool_attr("adjoint_b", op_b == ADJOINT)};
  return weft_grad_node(g, "SparseMatrixSparseMatMul", (value_t[]){a, b}, 2, attrs, 5);
}

static op_kind_t kind_of(weft_grad_t *g, const char *transposes, const char *adjoins) {
  return weft_grad_attr_bool(g, transposes) ? TRANSPOSE : weft_grad_attr_bool(g, adjoins) ? ADJOINT : PLAIN;
}

weft_status_t *weft_grad_csr_csr_matmul(weft_grad_ctx_t *c) {
  BEGIN;
  op_kind_t of_a = kind_of(g, "transpose_a", "adjoint_a"), of_b = kind_of(g, "transpose_b", "adjoint_b");
  value_t dy = c->dy[0], a = of_a == TRANSPOSE ? conjugate(g, x[0]) : x[0],
          b = of_b == TRANSPOSE ? conjugate(g, x[1]) : x[1];
  /* op(B)^H and op(A)^H, of what is conjugated already */
  op_kind_t b_back = of_b == PLAIN ? ADJOINT : PLAIN, a_back = of_a == PLAIN ? ADJOINT : PLAIN;
  value_t da, db;
  if (of_a == PLAIN) {
    da = multiply(g, dy, PLAIN, b, b_back);
  } else if (of_a == TRANSPOSE) { /* conj(op(B)) dy^T */
    da = of_b == PLAIN ? multiply(g, conjugate(g, x[1]), PLAIN, dy, TRANSPOSE)
                       : multiply(g, b, TRANSPOSE, dy, TRANSPOSE);
  } else { /* op(B) dy^H */
    da = multiply(g, x[1], of_b, dy, ADJOINT);
  }
  if (of_b == PLAIN) {
    db = multiply(g, a, a_back, dy, PLAIN);
  } else if (of_b == TRANSPOSE) { /* dy^T conj(op(A)) */
    db = of_a == PLAIN ? multiply(g, dy, TRANSPOSE, conjugate(g, x[0]), PLAIN)
                       : multiply(g, dy, TRANSPOSE, a, TRANSPOSE);
  } else { /* dy^H op(A) */
    db = multiply(g, dy, ADJOINT, x[0], of_a);
  }
  c->dx[0] = pruned(g, da, x[0]);
  c->dx[1] = pruned(g, db, x[1]);
  return g->s;
}
