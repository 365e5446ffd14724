/* ops/sparse_grad.c - gradients of sparse tensors: of their values, and of dense operands. */
#include "ops/grad.h"

#define BEGIN                                    \
  weft_grad_t g_ = {c, NULL}, *g = &g_;          \
  const value_t *x = c->inputs, *y = c->outputs; \
  (void)x;                                       \
  (void)y

static value_t number64(weft_grad_t *g, int64_t v) { return weft_grad_int_scalar(g, WEFT_I64, v); }

/* v[:, k] of a matrix of indices. */
static value_t column(weft_grad_t *g, value_t v, int k) {
  weft_named_attr_t type = weft_type_attr("Taxis", WEFT_I32);
  return weft_grad_node(
      g, "GatherV2",
      (value_t[]){v, weft_grad_int_scalar(g, WEFT_I32, k), weft_grad_int_scalar(g, WEFT_I32, 1)}, 3, &type,
      1);
}

weft_status_t *weft_grad_sparse_to_dense(weft_grad_ctx_t *c) {
  BEGIN;
  value_t dy = c->dy[0], all = weft_grad_op1(g, "Rank", dy);
  value_t axes = weft_grad_op3(g, "Range", weft_grad_int_scalar(g, WEFT_I32, 0), all,
                               weft_grad_int_scalar(g, WEFT_I32, 1));
  value_t picked = weft_grad_op2(g, "GatherNd", dy, x[0]);
  value_t picked_axes = weft_grad_op3(g, "Range", weft_grad_int_scalar(g, WEFT_I32, 0),
                                      weft_grad_op1(g, "Rank", picked), weft_grad_int_scalar(g, WEFT_I32, 1));
  c->dx[2] = picked;
  c->dx[3] = weft_grad_op2(g, "Sub", weft_grad_reduce(g, "Sum", dy, axes, false),
                           weft_grad_reduce(g, "Sum", picked, picked_axes, false));
  return g->s;
}

weft_status_t *weft_grad_sparse_reorder(weft_grad_ctx_t *c) {
  BEGIN;
  value_t count = weft_grad_op1(g, "Size", x[1]);
  value_t numbers = weft_grad_op3(g, "Range", weft_grad_int_scalar(g, WEFT_I32, 0), count,
                                  weft_grad_int_scalar(g, WEFT_I32, 1));
  value_t sorted = weft_grad_op3(g, "SparseReorder", x[0], numbers, x[2]);
  value_t back = weft_grad_op1(g, "InvertPermutation", weft_grad_output(sorted, 1));
  c->dx[1] = weft_grad_gather0(g, weft_grad_dy_or_zeros(g, 1), back);
  return g->s;
}

static weft_status_t *fill_empty_rows(weft_grad_ctx_t *c, const char *grad_op) {
  BEGIN;
  value_t d = weft_grad_op2(g, grad_op, y[3], weft_grad_dy_or_zeros(g, 1));
  c->dx[1] = d;
  c->dx[3] = weft_grad_output(d, 1);
  return g->s;
}
weft_status_t *weft_grad_sparse_fill_empty_rows(weft_grad_ctx_t *c) {
  return fill_empty_rows(c, "SparseFillEmptyRowsGrad");
}
weft_status_t *weft_grad_ragged_fill_empty_rows(weft_grad_ctx_t *c) {
  return fill_empty_rows(c, "RaggedFillEmptyRowsGrad");
}

weft_status_t *weft_grad_sparse_add(weft_grad_ctx_t *c) {
  BEGIN;
  value_t d = weft_grad_node(g, "SparseAddGrad", (value_t[]){weft_grad_dy_or_zeros(g, 1), x[0], x[3], y[0]},
                             4, NULL, 0);
  c->dx[1] = d;
  c->dx[4] = weft_grad_output(d, 1);
  return g->s;
}

weft_status_t *weft_grad_sparse_tensor_dense_add(weft_grad_ctx_t *c) {
  BEGIN;
  c->dx[1] = weft_grad_op2(g, "GatherNd", c->dy[0], x[0]);
  c->dx[3] = c->dy[0];
  return g->s;
}

weft_status_t *weft_grad_sparse_reduce_sum(weft_grad_ctx_t *c) {
  BEGIN;
  /* The shape of the result with 1 for what is summed, from a tensor of that shape's own making: sizes are
   * values here. */
  value_t shape = weft_grad_cast(g, x[2], WEFT_I32);
  value_t rank = weft_grad_op1(g, "Size", shape), zero = weft_grad_int_scalar(g, WEFT_I32, 0),
          one = weft_grad_int_scalar(g, WEFT_I32, 1);
  value_t axes = weft_grad_op2(g, "FloorMod", weft_grad_op2(g, "AddV2", x[3], rank), rank);
  value_t flat = weft_grad_op2(g, "Reshape", axes, weft_grad_int32s(g, (const int32_t[]){-1}, 1));
  value_t ones = weft_grad_op2(g, "Fill", weft_grad_shape_node(g, flat, WEFT_I32), one);
  value_t numbers = weft_grad_op3(g, "Range", zero, rank, one);
  value_t kept = weft_grad_node(g, "DynamicStitch", (value_t[]){numbers, flat, shape, ones}, 4,
                                (weft_named_attr_t[]){weft_int_attr("N", 2)}, 1);
  value_t scale = weft_grad_op2(g, "FloorDiv", x[2], weft_grad_cast(g, kept, WEFT_I64));
  value_t dy = weft_grad_op2(g, "Reshape", c->dy[0], kept);
  c->dx[1] = weft_grad_op2(g, "GatherNd", dy, weft_grad_op2(g, "FloorDiv", x[0], scale));
  return g->s;
}

weft_status_t *weft_grad_sparse_slice(weft_grad_ctx_t *c) {
  BEGIN;
  c->dx[1] = weft_grad_node(g, "SparseSliceGrad", (value_t[]){weft_grad_dy_or_zeros(g, 1), x[0], x[3], y[0]},
                            4, NULL, 0);
  return g->s;
}

/* ---- products with a dense matrix ---- */

static value_t expand(weft_grad_t *g, value_t v, int axis) { return weft_grad_expand(g, v, axis); }

static value_t transposed(weft_grad_t *g, value_t v) {
  return weft_grad_op2(g, "Transpose", v, weft_grad_int32s(g, (const int32_t[]){1, 0}, 2));
}

weft_status_t *weft_grad_sparse_dense_matmul(weft_grad_ctx_t *c) {
  BEGIN;
  bool adjoint_a = weft_grad_attr_bool(g, "adjoint_a"), adjoint_b = weft_grad_attr_bool(g, "adjoint_b");
  value_t dy = c->dy[0], rows = column(g, x[0], 0), columns = column(g, x[0], 1);
  weft_named_attr_t flipped = weft_bool_attr("adjoint_a", !adjoint_a);
  value_t db =
      weft_grad_node(g, "SparseTensorDenseMatMul", (value_t[]){x[0], x[1], x[2], dy}, 4, &flipped, 1);
  c->dx[3] = adjoint_b ? weft_grad_conj(g, transposed(g, db)) : db;
  /* One product of two vectors for each element of a. */
  value_t left = weft_grad_gather0(g, dy, adjoint_a ? columns : rows);
  value_t right = weft_grad_gather0(g, adjoint_b ? transposed(g, x[3]) : x[3], adjoint_a ? rows : columns);
  weft_named_attr_t adjoints[] = {weft_bool_attr("adj_x", adjoint_a),
                                  weft_bool_attr("adj_y", adjoint_a == adjoint_b)};
  value_t products = weft_grad_node(
      g, "BatchMatMulV2",
      (value_t[]){expand(g, left, adjoint_a ? -1 : -2), expand(g, right, adjoint_a != adjoint_b ? -1 : -2)},
      2, adjoints, 2);
  c->dx[1] = weft_grad_op2(g, "Reshape", products, weft_grad_int32s(g, (const int32_t[]){-1}, 1));
  return g->s;
}

/* One product of the gradient of SparseMatMul, in the type of x[of]. The operands' hints go with them. */
static value_t hinted_product(weft_grad_t *g, value_t a, value_t b, bool transpose_a, bool transpose_b,
                              int of) {
  const value_t *x = g->c->inputs;
  weft_named_attr_t attrs[] = {weft_bool_attr("transpose_a", transpose_a),
                               weft_bool_attr("transpose_b", transpose_b),
                               weft_bool_attr("a_is_sparse", false), weft_bool_attr("b_is_sparse", false)};
  value_t sides[] = {a, b};
  for (int i = 0; i < 2; i++) {
    bool is_first = sides[i].node == x[0].node && sides[i].index == x[0].index;
    bool is_second = sides[i].node == x[1].node && sides[i].index == x[1].index;
    attrs[i + 2].value.b = is_second  ? weft_grad_attr_bool(g, "b_is_sparse")
                           : is_first ? weft_grad_attr_bool(g, "a_is_sparse")
                                      : false;
  }
  return weft_grad_cast(g, weft_grad_node(g, "SparseMatMul", sides, 2, attrs, 4), weft_grad_dtype(g, x[of]));
}

weft_status_t *weft_grad_hinted_matmul(weft_grad_ctx_t *c) {
  BEGIN;
  bool ta = weft_grad_attr_bool(g, "transpose_a"), tb = weft_grad_attr_bool(g, "transpose_b");
  value_t dy = c->dy[0];
  c->dx[0] = ta ? hinted_product(g, x[1], dy, tb, true, 0) : hinted_product(g, dy, x[1], false, !tb, 0);
  c->dx[1] = tb ? hinted_product(g, dy, x[0], true, ta, 1) : hinted_product(g, x[0], dy, !ta, false, 1);
  return g->s;
}

/* ---- elementwise with a dense tensor that is broadcast ---- */

/* Of each element, its place in the dense operand. */
static value_t places(weft_grad_t *g, value_t dense_shape) {
  const value_t *x = g->c->inputs;
  value_t added = weft_grad_expand(
      g, weft_grad_op2(g, "Sub", weft_grad_op1(g, "Size", x[2]), weft_grad_op1(g, "Size", dense_shape)), 0);
  value_t ones = weft_grad_op2(g, "Fill", added, number64(g, 1));
  value_t augmented = weft_grad_concat(g, (value_t[]){ones, dense_shape}, 2, 0);
  value_t scaled = weft_grad_op2(g, "FloorDiv", x[0], weft_grad_op2(g, "FloorDiv", x[2], augmented));
  value_t begin = weft_grad_concat(g, (value_t[]){weft_grad_int32s(g, (const int32_t[]){0}, 1), added}, 2, 0);
  return weft_grad_op3(g, "Slice", scaled, begin, weft_grad_int32s(g, (const int32_t[]){-1, -1}, 2));
}

static weft_status_t *cwise(weft_grad_ctx_t *c, bool divides) {
  BEGIN;
  value_t dy = c->dy[0], shape = weft_grad_shape_node(g, x[3], WEFT_I64), at = places(g, shape);
  value_t dense = weft_grad_op2(g, "GatherNd", x[3], at), d_dense;
  if (divides) {
    c->dx[1] = weft_grad_op2(g, "RealDiv", dy, dense);
    value_t slope =
        weft_grad_op2(g, "RealDiv", weft_grad_op1(g, "Neg", x[1]), weft_grad_op1(g, "Square", dense));
    d_dense = weft_grad_op2(g, "Mul", dy, slope);
  } else {
    c->dx[1] = weft_grad_op2(g, "Mul", dy, dense);
    d_dense = weft_grad_op2(g, "Mul", dy, x[1]);
  }
  c->dx[3] = weft_grad_node(g, "SparseTensorDenseAdd",
                            (value_t[]){at, d_dense, shape, weft_grad_op1(g, "ZerosLike", x[3])}, 4, NULL, 0);
  return g->s;
}
weft_status_t *weft_grad_sparse_cwise_mul(weft_grad_ctx_t *c) { return cwise(c, false); }
weft_status_t *weft_grad_sparse_cwise_div(weft_grad_ctx_t *c) { return cwise(c, true); }

weft_status_t *weft_grad_sparse_softmax(weft_grad_ctx_t *c) {
  BEGIN;
  value_t product = weft_grad_op2(g, "Mul", y[0], c->dy[0]);
  weft_named_attr_t keeps = weft_bool_attr("keep_dims", true);
  value_t sum = weft_grad_node(
      g, "SparseReduceSum", (value_t[]){x[0], product, x[2], weft_grad_int32s(g, (const int32_t[]){-1}, 1)},
      4, &keeps, 1);
  value_t shifted = weft_grad_node(
      g, "SparseDenseCwiseAdd", (value_t[]){x[0], c->dy[0], x[2], weft_grad_op1(g, "Neg", sum)}, 4, NULL, 0);
  c->dx[1] = weft_grad_op2(g, "Mul", shifted, y[0]);
  return g->s;
}

/* ---- rows that indices pick, folded by segment ---- */

static weft_status_t *sparse_segment(weft_grad_ctx_t *c, const char *op) {
  BEGIN;
  weft_named_attr_t axis = weft_type_attr("Taxis", WEFT_I32);
  value_t zero = weft_grad_int_scalar(g, WEFT_I32, 0);
  value_t rows = weft_grad_node(
      g, "GatherV2", (value_t[]){weft_grad_shape_node(g, x[0], WEFT_I32), zero, zero}, 3, &axis, 1);
  c->dx[0] = weft_grad_node(g, op, (value_t[]){c->dy[0], x[1], x[2], rows}, 4, NULL, 0);
  return g->s;
}
weft_status_t *weft_grad_sparse_segment_sum(weft_grad_ctx_t *c) {
  return sparse_segment(c, "SparseSegmentSumGrad");
}
weft_status_t *weft_grad_sparse_segment_mean(weft_grad_ctx_t *c) {
  return sparse_segment(c, "SparseSegmentMeanGrad");
}
weft_status_t *weft_grad_sparse_segment_sqrt_n(weft_grad_ctx_t *c) {
  return sparse_segment(c, "SparseSegmentSqrtNGrad");
}
