/* ops/ragged_grad.c - gradients of ragged tensors: of their values, and of defaults. */
#include "base/alloc.h"
#include "ops/grad.h"

#define BEGIN                                    \
  weft_grad_t g_ = {c, NULL}, *g = &g_;          \
  const value_t *x = c->inputs, *y = c->outputs; \
  (void)x;                                       \
  (void)y

static value_t number(weft_grad_t *g, int64_t v) { return weft_grad_int_scalar(g, WEFT_I32, v); }

/* v[begin:], of a vector. */
static value_t tail(weft_grad_t *g, value_t v, int32_t begin) {
  return weft_grad_op3(g, "Slice", v, weft_grad_int32s(g, (const int32_t[]){begin}, 1),
                       weft_grad_int32s(g, (const int32_t[]){-1}, 1));
}

static value_t gather(weft_grad_t *g, value_t params, value_t indices) {
  return weft_grad_gather0(g, params, indices);
}

/* Rows `values` added up at `indices` in a tensor of the shape of `like`. */
static value_t scatter(weft_grad_t *g, value_t values, value_t indices, value_t like) {
  value_t rows = gather(g, weft_grad_shape_node(g, like, WEFT_I32), number(g, 0));
  return weft_grad_op3(g, "UnsortedSegmentSum", values, indices, rows);
}

weft_status_t *weft_grad_ragged_gather(weft_grad_ctx_t *c) {
  BEGIN;
  int rank = c->num_inputs - 2;
  value_t splits = x[0], dy = weft_grad_dy_or_zeros(g, c->num_outputs - 1);
  for (int i = 1; i < rank; i++) splits = gather(g, x[i], splits);
  value_t flat = weft_grad_op2(g, "Reshape", x[rank + 1], weft_grad_int32s(g, (const int32_t[]){-1}, 1));
  value_t one = weft_grad_int_scalar(g, weft_grad_dtype(g, splits), 1);
  value_t places =
      weft_grad_op3(g, "RaggedRange", gather(g, splits, flat), gather(g, tail(g, splits, 1), flat), one);
  c->dx[rank] = scatter(g, dy, weft_grad_output(places, 1), x[rank]);
  return g->s;
}

weft_status_t *weft_grad_ragged_to_sparse(weft_grad_ctx_t *c) {
  BEGIN;
  int rank = c->num_inputs - 1;
  c->dx[rank] =
      weft_grad_op2(g, "Reshape", weft_grad_dy_or_zeros(g, 1), weft_grad_shape_node(g, x[rank], WEFT_I32));
  return g->s;
}

/* The sum of what came from the default, which was broadcast along all dimensions but its own; those of size
 * 1 in front of it count as not its own. */
static value_t default_grad(weft_grad_t *g, value_t dy, value_t is_value, value_t fallback) {
  value_t rest =
      weft_grad_op2(g, "GatherNd", dy, weft_grad_op1(g, "Where", weft_grad_op1(g, "LogicalNot", is_value)));
  value_t shape = weft_grad_shape_node(g, fallback, WEFT_I32);
  value_t is_one = weft_grad_cast(g, weft_grad_op2(g, "Equal", shape, number(g, 1)), WEFT_I32);
  value_t zeros = weft_grad_int32s(g, (const int32_t[]){0}, 1);
  value_t ones = weft_grad_reduce(g, "Sum", weft_grad_op2(g, "Cumprod", is_one, number(g, 0)), zeros, false);
  value_t own = weft_grad_op2(g, "Sub", weft_grad_op1(g, "Rank", fallback), ones);
  value_t others = weft_grad_op2(g, "Sub", weft_grad_op1(g, "Rank", rest), own);
  value_t axes = weft_grad_op3(g, "Range", number(g, 0), others, number(g, 1));
  return weft_grad_op2(g, "Reshape", weft_grad_reduce(g, "Sum", rest, axes, false), shape);
}

weft_status_t *weft_grad_ragged_to_tensor(weft_grad_ctx_t *c) {
  BEGIN;
  value_t dy = c->dy[0], *inputs = weft_calloc((size_t)c->num_inputs, sizeof *inputs);
  if (inputs == NULL) return WEFT_NO_MEMORY("a gradient");
  weft_named_attr_t attrs[] = {weft_grad_same(g, "row_partition_types"),
                               weft_grad_same(g, "num_row_partition_tensors"), weft_grad_same(g, "Tindex"),
                               weft_type_attr("Tshape", WEFT_I32)};
  int ragged = attrs[0].value.n - (int)weft_str_is(attrs[0].value.list.strings[0], "FIRST_DIM_SIZE");
  /* Which row of the values lies at each place of the result; -1: the default. */
  value_t rows = gather(g, weft_grad_shape_node(g, x[1], WEFT_I32), number(g, 0));
  inputs[0] = weft_grad_op3(g, "Slice", weft_grad_shape_node(g, dy, WEFT_I32),
                            weft_grad_int32s(g, (const int32_t[]){0}, 1),
                            weft_grad_int32s(g, (const int32_t[]){1 + ragged}, 1));
  inputs[1] = weft_grad_op3(g, "Range", number(g, 0), rows, number(g, 1));
  inputs[2] = number(g, -1);
  for (int i = 3; i < c->num_inputs; i++) inputs[i] = x[i];
  value_t which = weft_grad_node(g, "RaggedTensorToTensor", inputs, c->num_inputs, attrs, 4);
  weft_free(inputs);
  value_t is_value = weft_grad_op2(g, "NotEqual", which, number(g, -1));
  value_t where = weft_grad_op1(g, "Where", is_value);
  c->dx[1] =
      scatter(g, weft_grad_op2(g, "GatherNd", dy, where), weft_grad_op2(g, "GatherNd", which, where), x[1]);
  c->dx[2] = default_grad(g, dy, is_value, x[2]);
  return g->s;
}

/* ---- variants ---- */

weft_status_t *weft_grad_ragged_from_variant(weft_grad_ctx_t *c) {
  BEGIN;
  int rank = c->num_outputs - 1, of_input = weft_grad_shape_of(g, x[0]).rank;
  if (of_input > 1) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Unable to compute gradient: RaggedTensorToVariant can currently only generate 0D or 1D output.");
  }
  value_t *inputs = weft_calloc((size_t)rank + 1, sizeof *inputs);
  if (inputs == NULL) return WEFT_NO_MEMORY("a gradient");
  for (int i = 0; i < rank; i++) inputs[i] = y[i];
  inputs[rank] = weft_grad_dy_or_zeros(g, rank);
  weft_named_attr_t attrs[] = {weft_int_attr("RAGGED_RANK", rank), weft_grad_same(g, "Tsplits"),
                               weft_bool_attr("batched_input", of_input < 0 ? rank > 0 : of_input == 1)};
  c->dx[0] = weft_grad_node(g, "RaggedTensorToVariant", inputs, rank + 1, attrs, 3);
  weft_free(inputs);
  return g->s;
}

weft_status_t *weft_grad_ragged_to_variant(weft_grad_ctx_t *c) {
  BEGIN;
  int rank = c->num_inputs - 1;
  weft_named_attr_t type = weft_grad_same(g, "Tvalues");
  c->dx[rank] = weft_grad_node(
      g, "RaggedTensorToVariantGradient",
      (value_t[]){c->dy[0], rank == 0 ? number(g, 0) : x[0], weft_grad_shape_node(g, x[rank], WEFT_I32)}, 3,
      &type, 1);
  return g->s;
}
