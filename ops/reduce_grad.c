/* ops/reduce_grad.c - gradients of reductions, running sums, segments and matrix products. */
#include <float.h>

#include "ops/grad.h"

/* The names of the formula: a reduction of x over axes. */
#define REDUCTION                                                                  \
  weft_grad_t g_ = {c, NULL}, *g = &g_;                                            \
  value_t x = c->inputs[0], axes = c->inputs[1], y = c->outputs[0], dy = c->dy[0]; \
  (void)axes;                                                                      \
  (void)y

/* v of the reduced shape, with the reduced dims back as 1; a scalar or a kept shape needs nothing. */
static value_t kept(weft_grad_t *g, value_t v) {
  weft_shape_t shape = weft_grad_shape_of(g, g->c->outputs[0]);
  if (weft_grad_attr_bool(g, "keep_dims") || shape.rank == 0) return v;
  return weft_grad_op2(g, "Reshape", v, weft_grad_kept_shape(g, g->c->inputs[0], g->c->inputs[1]));
}

/* dy spread over the shape of x. */
static value_t spread(weft_grad_t *g, value_t x, value_t dy) {
  return weft_grad_op2(g, "BroadcastTo", kept(g, dy), weft_grad_shape_node(g, x, WEFT_I32));
}

weft_status_t *weft_grad_sum(weft_grad_ctx_t *c) {
  REDUCTION;
  c->dx[0] = spread(g, x, dy);
  return g->s;
}

weft_status_t *weft_grad_mean(weft_grad_ctx_t *c) {
  REDUCTION;
  int dtype = weft_grad_dtype(g, x);
  weft_shape_t in = weft_grad_shape_of(g, x), out = weft_grad_shape_of(g, y);
  int64_t n = weft_shape_count(&in), m = weft_shape_count(&out);
  value_t count;
  if (n > 0 && m > 0) {
    int64_t per_output = n / m; /* what is reduced is a whole number of times what is left */
    count = weft_grad_scalar(g, dtype, (double)per_output);
  } else {
    value_t size = weft_grad_op1(g, "Size", x), left = weft_grad_op1(g, "Size", y),
            one = weft_grad_int_scalar(g, WEFT_I32, 1);
    count =
        weft_grad_cast(g, weft_grad_op2(g, "FloorDiv", size, weft_grad_op2(g, "Maximum", left, one)), dtype);
  }
  c->dx[0] = weft_grad_op2(g, "RealDiv", spread(g, x, dy), count);
  return g->s;
}

/* Ties share equally. */
weft_status_t *weft_grad_min_max(weft_grad_ctx_t *c) {
  REDUCTION;
  value_t is_it = weft_grad_cast(g, weft_grad_op2(g, "Equal", kept(g, y), x), weft_grad_dtype(g, x));
  value_t ties = weft_grad_reduce(g, "Sum", is_it, axes, true);
  c->dx[0] = weft_grad_op2(g, "Mul", weft_grad_op2(g, "RealDiv", is_it, ties), kept(g, dy));
  return g->s;
}

/* Each element's gradient is the product of all others: from the left times from the right, so that zeros do
 * no harm. */
weft_status_t *weft_grad_prod(weft_grad_ctx_t *c) {
  REDUCTION;
  value_t zero = weft_grad_int_scalar(g, WEFT_I32, 0), one = weft_grad_int_scalar(g, WEFT_I32, 1);
  value_t shape = weft_grad_shape_node(g, x, WEFT_I32), rank = weft_grad_op1(g, "Size", shape);
  value_t flat =
      weft_grad_op2(g, "Reshape", weft_grad_cast(g, axes, WEFT_I32), weft_grad_int32s(g, (int32_t[]){-1}, 1));
  value_t reduced = weft_grad_op2(g, "FloorMod", weft_grad_op2(g, "AddV2", flat, rank), rank);
  value_t others = weft_grad_op2(g, "ListDiff", weft_grad_op3(g, "Range", zero, rank, one), reduced);
  value_t perm = weft_grad_concat(g, (value_t[]){reduced, others}, 2, 0);
  value_t rows = weft_grad_reduce(g, "Prod", weft_grad_gather0(g, shape, reduced), zero, false);
  value_t columns = weft_grad_reduce(g, "Prod", weft_grad_gather0(g, shape, others), zero, false);
  value_t turned = weft_grad_op2(g, "Transpose", x, perm);
  value_t matrix = weft_grad_op2(g, "Reshape", turned, weft_grad_pack(g, (value_t[]){rows, columns}, 2));
  weft_named_attr_t forward[] = {weft_bool_attr("exclusive", true), weft_bool_attr("reverse", false)};
  weft_named_attr_t backward[] = {weft_bool_attr("exclusive", true), weft_bool_attr("reverse", true)};
  value_t left = weft_grad_node(g, "Cumprod", (value_t[]){matrix, zero}, 2, forward, 2);
  value_t right = weft_grad_node(g, "Cumprod", (value_t[]){matrix, zero}, 2, backward, 2);
  value_t product = weft_grad_op2(g, "Mul", weft_grad_conj(g, left), weft_grad_conj(g, right));
  value_t back = weft_grad_op2(
      g, "Transpose", weft_grad_op2(g, "Reshape", product, weft_grad_shape_node(g, turned, WEFT_I32)),
      weft_grad_op1(g, "InvertPermutation", perm));
  c->dx[0] = weft_grad_op2(g, "Mul", spread(g, x, dy), back);
  return g->s;
}

weft_status_t *weft_grad_euclidean_norm(weft_grad_ctx_t *c) {
  REDUCTION;
  c->dx[0] = weft_grad_op2(g, "Mul", x, weft_grad_op2(g, "RealDiv", kept(g, dy), kept(g, y)));
  return g->s;
}

weft_status_t *weft_grad_l2_loss(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = weft_grad_op2(&g, "Mul", c->inputs[0], c->dy[0]);
  return g.s;
}

weft_status_t *weft_grad_cumsum(weft_grad_ctx_t *c) {
  REDUCTION;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "exclusive"),
                               weft_bool_attr("reverse", !weft_grad_attr_bool(g, "reverse"))};
  (void)x;
  c->dx[0] = weft_grad_node(g, "Cumsum", (value_t[]){dy, axes}, 2, attrs, 2);
  return g->s;
}

weft_status_t *weft_grad_cumprod(weft_grad_ctx_t *c) {
  REDUCTION;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "exclusive"),
                               weft_bool_attr("reverse", !weft_grad_attr_bool(g, "reverse"))};
  value_t weighted = weft_grad_op2(g, "Mul", y, dy);
  c->dx[0] =
      weft_grad_op2(g, "DivNoNan", weft_grad_node(g, "Cumsum", (value_t[]){weighted, axes}, 2, attrs, 2), x);
  return g->s;
}

/* The logarithm where there is one; elsewhere the lowest number, which the sums then ignore. */
static value_t log_of_part(weft_grad_t *g, value_t part) {
  static const double lowest[] = {
      [WEFT_F16] = -65504.0, [WEFT_BF16] = -0x1.fep127, [WEFT_F32] = -FLT_MAX, [WEFT_F64] = -DBL_MAX};
  int dtype = weft_grad_dtype(g, part);
  value_t is_positive = weft_grad_op2(g, "Greater", part, weft_grad_scalar(g, dtype, 0));
  return weft_grad_op3(g, "SelectV2", is_positive, weft_grad_op1(g, "Log", part),
                       weft_grad_scalar(g, dtype, lowest[dtype]));
}

/* What flows back is summed as logarithms, of its positive and of its negative part. */
weft_status_t *weft_grad_cumulative_logsumexp(weft_grad_ctx_t *c) {
  REDUCTION;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "exclusive"),
                               weft_bool_attr("reverse", !weft_grad_attr_bool(g, "reverse"))};
  value_t parts[2] = {dy, weft_grad_op1(g, "Neg", dy)};
  for (int i = 0; i < 2; i++) {
    value_t from = weft_grad_op2(g, "Sub", log_of_part(g, parts[i]), y);
    value_t sum = weft_grad_node(g, "CumulativeLogsumexp", (value_t[]){from, axes}, 2, attrs, 2);
    parts[i] = weft_grad_op1(g, "Exp", weft_grad_op2(g, "AddV2", sum, x));
  }
  c->dx[0] = weft_grad_op2(g, "Sub", parts[0], parts[1]);
  return g->s;
}

/* Equal elements share the gradient of their row. */
weft_status_t *weft_grad_nth_element(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t x = c->inputs[0], y = weft_grad_expand(g, c->outputs[0], -1),
          dy = weft_grad_expand(g, c->dy[0], -1);
  value_t is_it = weft_grad_cast(g, weft_grad_op2(g, "Equal", y, x), weft_grad_dtype(g, x));
  value_t ties = weft_grad_reduce(g, "Sum", is_it, weft_grad_int_scalar(g, WEFT_I32, -1), true);
  c->dx[0] = weft_grad_op2(g, "Mul", weft_grad_op2(g, "RealDiv", is_it, ties), dy);
  return g->s;
}

/* ---- segments: ids are input 1 ---- */

weft_status_t *weft_grad_segment_sum(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = weft_grad_gather0(&g, c->dy[0], c->inputs[1]);
  return g.s;
}

/* Each row's share is one part in as many as its segment has rows. */
weft_status_t *weft_grad_segment_mean(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t x = c->inputs[0], ids = c->inputs[1], one = weft_grad_int_scalar(g, WEFT_I32, 1);
  value_t tail = weft_grad_expand(g, weft_grad_op2(g, "Sub", weft_grad_op1(g, "Rank", x), one), 0);
  value_t dims[] = {weft_grad_shape_node(g, ids, WEFT_I32), weft_grad_op2(g, "Fill", tail, one)};
  value_t ones = weft_grad_op2(g, "Fill", weft_grad_concat(g, dims, 2, 0),
                               weft_grad_scalar(g, weft_grad_dtype(g, x), 1));
  value_t share = weft_grad_op2(g, "RealDiv", c->dy[0], weft_grad_op2(g, "SegmentSum", ones, ids));
  c->dx[0] = weft_grad_gather0(g, share, ids);
  return g->s;
}

/* Equal elements of a segment share its gradient. */
weft_status_t *weft_grad_segment_min_max(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t x = c->inputs[0], ids = c->inputs[1], dy = c->dy[0];
  value_t is_it = weft_grad_op2(g, "Equal", x, weft_grad_gather0(g, c->outputs[0], ids));
  value_t ties = weft_grad_op2(g, "SegmentSum", weft_grad_cast(g, is_it, weft_grad_dtype(g, dy)), ids);
  value_t share = weft_grad_gather0(g, weft_grad_op2(g, "RealDiv", dy, ties), ids);
  c->dx[0] = weft_grad_op3(g, "SelectV2", is_it, share, weft_grad_op1(g, "ZerosLike", x));
  return g->s;
}

/* What products need: which elements are zero; the gradient, which is zero where a segment has two zeros; the
 * elements with 1 in place of zeros. `segment` is a reduction by the ids of the node. */
typedef struct zeros {
  value_t is_zero, dy, others;
} zeros_t;
static zeros_t without_zeros(weft_grad_t *g, value_t (*segment)(weft_grad_t *g, const char *op, value_t v)) {
  value_t x = g->c->inputs[0], dy = g->c->dy[0];
  zeros_t z = {.is_zero = weft_grad_op2(g, "Equal", x, weft_grad_scalar(g, weft_grad_dtype(g, x), 0))};
  value_t count = segment(g, "Sum", weft_grad_cast(g, z.is_zero, WEFT_I32));
  value_t has_many = weft_grad_op2(g, "Greater", count, weft_grad_int_scalar(g, WEFT_I32, 1));
  z.dy = weft_grad_op3(g, "SelectV2", has_many, weft_grad_op1(g, "ZerosLike", dy), dy);
  z.others = weft_grad_op3(g, "SelectV2", z.is_zero, weft_grad_op1(g, "OnesLike", x), x);
  return z;
}

static value_t by_sorted(weft_grad_t *g, const char *op, value_t v) {
  return weft_grad_op2(g, strcmp(op, "Sum") == 0 ? "SegmentSum" : "SegmentProd", v, g->c->inputs[1]);
}

/* The product of a segment by the element, or that of its other elements where the element is zero. */
weft_status_t *weft_grad_segment_prod(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t ids = c->inputs[1];
  zeros_t z = without_zeros(g, by_sorted);
  value_t rest = weft_grad_gather0(g, by_sorted(g, "Prod", z.others), ids);
  value_t quotient = weft_grad_op2(g, "RealDiv", weft_grad_gather0(g, c->outputs[0], ids), z.others);
  value_t partial = weft_grad_op3(g, "SelectV2", z.is_zero, rest, quotient);
  c->dx[0] = weft_grad_op2(g, "Mul", weft_grad_gather0(g, z.dy, ids), partial);
  return g->s;
}

/* Rows of `v` at ids; a negative id gives zeros. */
static value_t gather_dropping(weft_grad_t *g, value_t v, value_t ids, value_t data) {
  value_t zero = weft_grad_scalar(g, weft_grad_dtype(g, ids), 0);
  value_t rows = weft_grad_gather0(g, v, weft_grad_op2(g, "Maximum", ids, zero));
  /* is_used gets as many trailing dims of 1 as the rows have more than ids */
  value_t one = weft_grad_int_scalar(g, WEFT_I32, 1), is_used = weft_grad_op2(g, "GreaterEqual", ids, zero);
  value_t extra = weft_grad_op2(g, "Sub", weft_grad_op1(g, "Rank", data), weft_grad_op1(g, "Rank", ids));
  value_t ones = weft_grad_op2(g, "Fill", weft_grad_expand(g, extra, 0), one);
  value_t shape = weft_grad_concat(g, (value_t[]){weft_grad_shape_node(g, ids, WEFT_I32), ones}, 2, 0);
  value_t mask = weft_grad_op2(g, "Reshape", is_used, shape);
  return weft_grad_op3(g, "SelectV2", mask, rows, weft_grad_op1(g, "ZerosLike", rows));
}

weft_status_t *weft_grad_unsorted_segment_sum(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = gather_dropping(&g, c->dy[0], c->inputs[1], c->inputs[0]);
  return g.s;
}

/* Minimum or maximum: equal elements of a segment share its gradient. */
weft_status_t *weft_grad_unsorted_segment_min_max(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t x = c->inputs[0], ids = c->inputs[1], y = c->outputs[0], dy = c->dy[0];
  value_t is_it = weft_grad_op2(g, "Equal", x, gather_dropping(g, y, ids, x));
  value_t ties = weft_grad_op3(g, "UnsortedSegmentSum", weft_grad_cast(g, is_it, weft_grad_dtype(g, dy)), ids,
                               c->inputs[2]);
  value_t share = gather_dropping(g, weft_grad_op2(g, "RealDiv", dy, ties), ids, x);
  c->dx[0] = weft_grad_op3(g, "SelectV2", is_it, share, weft_grad_op1(g, "ZerosLike", share));
  return g->s;
}

static value_t by_unsorted(weft_grad_t *g, const char *op, value_t v) {
  return weft_grad_op3(g, strcmp(op, "Sum") == 0 ? "UnsortedSegmentSum" : "UnsortedSegmentProd", v,
                       g->c->inputs[1], g->c->inputs[2]);
}

weft_status_t *weft_grad_unsorted_segment_prod(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t x = c->inputs[0], ids = c->inputs[1];
  value_t clipped = weft_grad_op2(g, "Maximum", ids, weft_grad_scalar(g, weft_grad_dtype(g, ids), 0));
  zeros_t z = without_zeros(g, by_unsorted);
  value_t rest = weft_grad_gather0(g, by_unsorted(g, "Prod", z.others), clipped);
  value_t quotient = weft_grad_op2(g, "RealDiv", weft_grad_gather0(g, c->outputs[0], clipped), x);
  value_t partial = weft_grad_op3(g, "SelectV2", z.is_zero, rest, quotient);
  c->dx[0] = weft_grad_op2(g, "Mul", gather_dropping(g, z.dy, ids, x), partial);
  return g->s;
}

/* ---- matrix products ---- */

typedef struct product {
  const char *op, *flag_a, *flag_b;
} product_t;

static value_t times(weft_grad_t *g, const product_t *p, value_t a, value_t b, bool ta, bool tb) {
  weft_named_attr_t attrs[] = {weft_bool_attr(p->flag_a, ta), weft_bool_attr(p->flag_b, tb)};
  return weft_grad_node(g, p->op, (value_t[]){a, b}, 2, attrs, 2);
}

/* With Y = op(A) op(B): dA and dB for each of the four transposes. */
static void products(weft_grad_t *g, const product_t *p, value_t a, value_t b, value_t dy, value_t *da,
                     value_t *db) {
  bool ta = weft_grad_attr_bool(g, p->flag_a), tb = weft_grad_attr_bool(g, p->flag_b);
  if (!ta && !tb) {
    *da = times(g, p, dy, b, false, true);
    *db = times(g, p, a, dy, true, false);
  } else if (!ta && tb) {
    *da = times(g, p, dy, b, false, false);
    *db = times(g, p, dy, a, true, false);
  } else if (ta && !tb) {
    *da = times(g, p, b, dy, false, true);
    *db = times(g, p, a, dy, false, false);
  } else {
    *da = times(g, p, b, dy, true, true);
    *db = times(g, p, dy, a, true, true);
  }
}

weft_status_t *weft_grad_matmul(weft_grad_ctx_t *c) {
  static const product_t matmul = {"MatMul", "transpose_a", "transpose_b"};
  weft_grad_t g = {c, NULL};
  products(&g, &matmul, weft_grad_conj(&g, c->inputs[0]), weft_grad_conj(&g, c->inputs[1]), c->dy[0],
           &c->dx[0], &c->dx[1]);
  return g.s;
}

weft_status_t *weft_grad_batch_matmul(weft_grad_ctx_t *c) { /* adjoints conjugate by themselves */
  static const product_t matmul = {"BatchMatMul", "adj_x", "adj_y"};
  weft_grad_t g = {c, NULL};
  products(&g, &matmul, c->inputs[0], c->inputs[1], c->dy[0], &c->dx[0], &c->dx[1]);
  return g.s;
}

value_t weft_grad_unbroadcast_batch(weft_grad_t *g, value_t grad, value_t x, value_t other) {
  weft_shape_t a = weft_grad_shape_of(g, x), b = weft_grad_shape_of(g, other);
  if (weft_shape_is_known(&a) && weft_shape_is_known(&b) && a.rank == b.rank) {
    bool is_same = true;
    for (int i = 0; i < a.rank - 2; i++) is_same = is_same && a.dims[i] == b.dims[i];
    if (is_same) return grad;
  }
  value_t shape_x = weft_grad_shape_node(g, x, WEFT_I32),
          shape_other = weft_grad_shape_node(g, other, WEFT_I32);
  value_t from = weft_grad_int32s(g, (int32_t[]){0}, 1), to = weft_grad_int32s(g, (int32_t[]){-2}, 1),
          step = weft_grad_int32s(g, (int32_t[]){1}, 1);
  weft_named_attr_t mask = weft_int_attr("begin_mask", 1);
  value_t batch_x = weft_grad_node(g, "StridedSlice", (value_t[]){shape_x, from, to, step}, 4, &mask, 1);
  value_t batch_other =
      weft_grad_node(g, "StridedSlice", (value_t[]){shape_other, from, to, step}, 4, &mask, 1);
  value_t axes = weft_grad_op2(g, "BroadcastGradientArgs", batch_x, batch_other);
  return weft_grad_op2(g, "Reshape", weft_grad_reduce(g, "Sum", grad, axes, false), shape_x);
}

weft_status_t *weft_grad_batch_matmul_v2(weft_grad_ctx_t *c) {
  static const product_t matmul = {"BatchMatMulV2", "adj_x", "adj_y"};
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t da = WEFT_GRAD_ZERO, db = WEFT_GRAD_ZERO;
  products(g, &matmul, c->inputs[0], c->inputs[1], c->dy[0], &da, &db);
  c->dx[0] = weft_grad_unbroadcast_batch(g, da, c->inputs[0], c->inputs[1]);
  c->dx[1] = weft_grad_unbroadcast_batch(g, db, c->inputs[1], c->inputs[0]);
  return g->s;
}
