/* ops/array_grad.c - gradients of ops that move elements: the way back of each move. */
#include "ops/grad.h"

#define MOVE                               \
  weft_grad_t g_ = {c, NULL}, *g = &g_;    \
  value_t x = c->inputs[0], dy = c->dy[0]; \
  (void)x

static weft_named_attr_t number(int64_t n) { return weft_int_attr("N", n); }
static value_t int32(weft_grad_t *g, int32_t v) { return weft_grad_scalar(g, WEFT_I32, v); }
static value_t minus_one(weft_grad_t *g) { return weft_grad_int32s(g, (int32_t[]){-1}, 1); }

/* dy in the shape of input 0: Reshape, Squeeze, ExpandDims. */
weft_status_t *weft_grad_reshape(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[0] = weft_grad_op2(g, "Reshape", dy, weft_grad_shape_node(g, x, WEFT_I32));
  return g->s;
}

weft_status_t *weft_grad_transpose(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[0] = weft_grad_op2(g, "Transpose", dy, weft_grad_op1(g, "InvertPermutation", c->inputs[1]));
  return g->s;
}

weft_status_t *weft_grad_conjugate_transpose(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[0] = weft_grad_op2(g, "ConjugateTranspose", dy, weft_grad_op1(g, "InvertPermutation", c->inputs[1]));
  return g->s;
}

/* ---- joining and splitting ---- */

weft_status_t *weft_grad_pack_op(weft_grad_ctx_t *c) {
  MOVE;
  weft_named_attr_t attrs[] = {weft_int_attr("num", c->num_inputs), weft_grad_same(g, "axis")};
  value_t parts = weft_grad_node(g, "Unpack", &dy, 1, attrs, 2);
  for (int i = 0; i < c->num_inputs; i++) c->dx[i] = weft_grad_output(parts, i);
  return g->s;
}

/* The gradients of all outputs, zeros for those that get none, with room for `extra` more. NULL sets g->s. */
static value_t *all_dy(weft_grad_t *g, weft_arena_t *arena, int extra) {
  value_t *list = weft_arena_calloc(arena, (size_t)g->c->num_outputs + (size_t)extra, sizeof *list);
  if (list == NULL) {
    if (g->s == NULL) g->s = WEFT_NO_MEMORY("building a gradient");
    return NULL;
  }
  for (int i = 0; i < g->c->num_outputs; i++) list[i] = weft_grad_dy_or_zeros(g, i);
  return list;
}

weft_status_t *weft_grad_unpack(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_arena_t arena = WEFT_ARENA_INIT;
  value_t *parts = all_dy(&g, &arena, 0);
  weft_named_attr_t attrs[] = {number(c->num_outputs), weft_grad_same(&g, "axis")};
  if (parts != NULL) c->dx[0] = weft_grad_node(&g, "Pack", parts, c->num_outputs, attrs, 2);
  weft_arena_deinit(&arena);
  return g.s;
}

/* dx = the outputs' gradients joined along `axis`. */
static weft_status_t *join(weft_grad_ctx_t *c, value_t axis, int input) {
  weft_grad_t g = {c, NULL};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_named_attr_t n = number(c->num_outputs);
  if (c->num_outputs == 1) { /* ConcatV2 wants two */
    c->dx[input] = c->dy[0];
    return NULL;
  }
  value_t *parts = all_dy(&g, &arena, 1);
  if (parts != NULL) {
    parts[c->num_outputs] = axis;
    c->dx[input] = weft_grad_node(&g, "ConcatV2", parts, c->num_outputs + 1, &n, 1);
  }
  weft_arena_deinit(&arena);
  return g.s;
}

weft_status_t *weft_grad_split(weft_grad_ctx_t *c) { return join(c, c->inputs[0], 1); }
weft_status_t *weft_grad_split_v(weft_grad_ctx_t *c) { return join(c, c->inputs[2], 0); }

/* Each joined input is a slice of the result, where ConcatOffset says. */
static weft_status_t *concat(weft_grad_ctx_t *c, int first, int n, value_t axis) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  weft_arena_t arena = WEFT_ARENA_INIT;
  value_t dy = c->dy[0], *list = weft_arena_calloc(&arena, (size_t)n + 1, sizeof *list);
  if (list == NULL) return WEFT_NO_MEMORY("building a gradient");
  weft_named_attr_t count = number(n);
  value_t shapes = weft_grad_node(g, "ShapeN", c->inputs + first, n, &count, 1);
  list[0] = weft_grad_op2(g, "FloorMod", weft_grad_cast(g, axis, WEFT_I32),
                          weft_grad_op1(g, "Rank", c->inputs[first]));
  for (int i = 0; i < n; i++) list[i + 1] = weft_grad_output(shapes, i);
  value_t offsets = weft_grad_node(g, "ConcatOffset", list, n + 1, &count, 1);
  for (int i = 0; i < n; i++) {
    c->dx[first + i] =
        weft_grad_op3(g, "Slice", dy, weft_grad_output(offsets, i), weft_grad_output(shapes, i));
  }
  weft_arena_deinit(&arena);
  return g->s;
}

weft_status_t *weft_grad_concat_op(weft_grad_ctx_t *c) {
  return concat(c, 1, c->num_inputs - 1, c->inputs[0]);
}
weft_status_t *weft_grad_concat_v2(weft_grad_ctx_t *c) {
  return concat(c, 0, c->num_inputs - 1, c->inputs[c->num_inputs - 1]);
}

/* ---- slices and pads ---- */

weft_status_t *weft_grad_slice(weft_grad_ctx_t *c) {
  MOVE;
  value_t begin = c->inputs[1];
  int type = weft_grad_dtype(g, begin);
  value_t whole = weft_grad_shape_node(g, x, type), part = weft_grad_shape_node(g, c->outputs[0], type);
  value_t after = weft_grad_op2(g, "Sub", weft_grad_op2(g, "Sub", whole, part), begin);
  value_t columns[] = {weft_grad_expand(g, begin, 1), weft_grad_expand(g, after, 1)};
  c->dx[0] = weft_grad_op2(g, "Pad", dy, weft_grad_concat(g, columns, 2, 1));
  return g->s;
}

static const char *const masks[] = {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask",
                                    "shrink_axis_mask"};

weft_status_t *weft_grad_strided_slice(weft_grad_ctx_t *c) {
  MOVE;
  weft_named_attr_t attrs[5];
  int type = weft_grad_dtype(g, c->inputs[1]) == WEFT_I64 ? WEFT_I64 : WEFT_I32;
  value_t inputs[5] = {weft_grad_shape_node(g, x, type)};
  for (int i = 0; i < 5; i++) attrs[i] = weft_grad_same(g, masks[i]);
  for (int i = 1; i < 4; i++) inputs[i] = weft_grad_cast(g, c->inputs[i], type);
  inputs[4] = dy;
  c->dx[0] = weft_grad_node(g, "StridedSliceGrad", inputs, 5, attrs, 5);
  return g->s;
}

weft_status_t *weft_grad_strided_slice_grad(weft_grad_ctx_t *c) {
  MOVE;
  weft_named_attr_t attrs[5];
  value_t inputs[] = {dy, c->inputs[1], c->inputs[2], c->inputs[3]};
  for (int i = 0; i < 5; i++) attrs[i] = weft_grad_same(g, masks[i]);
  c->dx[4] = weft_grad_node(g, "StridedSlice", inputs, 4, attrs, 5);
  return g->s;
}

/* The first column of the paddings is where x begins in y. */
static value_t unpadded(weft_grad_t *g, value_t x, value_t paddings, value_t dy) {
  int type = weft_grad_dtype(g, paddings);
  value_t rank = weft_grad_op1(g, "Rank", x), one = int32(g, 1);
  value_t size = weft_grad_cast(g, weft_grad_pack(g, (value_t[]){rank, one}, 2), type);
  value_t zeros = weft_grad_cast(g, weft_grad_int32s(g, (int32_t[]){0, 0}, 2), type);
  value_t column = weft_grad_op3(g, "Slice", paddings, zeros, size);
  return weft_grad_op3(g, "Slice", dy, weft_grad_op2(g, "Reshape", column, minus_one(g)),
                       weft_grad_shape_node(g, x, type));
}

/* The padding value has no gradient, as in TensorFlow. */
weft_status_t *weft_grad_pad(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[0] = unpadded(g, x, c->inputs[1], dy);
  return g->s;
}

/* MirrorPad and MirrorPadGrad are each other's gradient. */
static weft_status_t *mirror(weft_grad_ctx_t *c, const char *op) {
  MOVE;
  weft_named_attr_t mode = weft_grad_same(g, "mode");
  c->dx[0] = weft_grad_node(g, op, (value_t[]){dy, c->inputs[1]}, 2, &mode, 1);
  return g->s;
}
weft_status_t *weft_grad_mirror_pad(weft_grad_ctx_t *c) { return mirror(c, "MirrorPadGrad"); }
weft_status_t *weft_grad_mirror_pad_grad(weft_grad_ctx_t *c) { return mirror(c, "MirrorPad"); }

/* ---- repeating ---- */

weft_status_t *weft_grad_fill(weft_grad_ctx_t *c) {
  MOVE;
  value_t all = weft_grad_op3(g, "Range", int32(g, 0), weft_grad_op1(g, "Rank", dy), int32(g, 1));
  c->dx[1] = weft_grad_reduce(g, "Sum", dy, all, false);
  return g->s;
}

/* dy as [m0, d0, m1, d1, ...], summed over the multiples. */
weft_status_t *weft_grad_tile(weft_grad_ctx_t *c) {
  MOVE;
  value_t multiples = weft_grad_cast(g, c->inputs[1], WEFT_I32), shape = weft_grad_shape_node(g, x, WEFT_I32);
  value_t rank2 = weft_grad_op2(g, "Mul", weft_grad_op1(g, "Size", shape), int32(g, 2));
  value_t columns[] = {weft_grad_expand(g, multiples, 1), weft_grad_expand(g, shape, 1)};
  value_t mixed = weft_grad_op2(g, "Reshape", weft_grad_concat(g, columns, 2, 1), minus_one(g));
  value_t even = weft_grad_op3(g, "Range", int32(g, 0), rank2, int32(g, 2));
  c->dx[0] = weft_grad_reduce(g, "Sum", weft_grad_op2(g, "Reshape", dy, mixed), even, false);
  return g->s;
}

weft_status_t *weft_grad_broadcast_to(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[0] = weft_grad_unbroadcast(g, dy, x, c->outputs[0], 0);
  return g->s;
}

/* ---- gathers ---- */

/* 1-D [from, to) of a vector. */
static value_t part(weft_grad_t *g, value_t vector, value_t from, value_t to) {
  value_t begin = weft_grad_expand(g, from, 0),
          size = weft_grad_expand(g, weft_grad_op2(g, "Sub", to, from), 0);
  return weft_grad_op3(g, "Slice", vector, begin, size);
}

/* Rows of dy added up at their indices, along axis 0, to a tensor of that shape. dy [I..., tail...] */
static value_t add_rows(weft_grad_t *g, value_t dy, value_t shape, value_t indices) {
  value_t zero = int32(g, 0), one = int32(g, 1);
  value_t n = weft_grad_op2(g, "Reshape", part(g, shape, zero, one), weft_grad_int32s(g, NULL, 0));
  value_t tail = part(g, shape, one, weft_grad_op1(g, "Size", shape));
  value_t count = weft_grad_expand(g, weft_grad_op1(g, "Size", indices), 0);
  value_t rows = weft_grad_op2(g, "Reshape", dy, weft_grad_concat(g, (value_t[]){count, tail}, 2, 0));
  return weft_grad_op3(g, "UnsortedSegmentSum", rows, weft_grad_op2(g, "Reshape", indices, minus_one(g)), n);
}

weft_status_t *weft_grad_gather_op(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[0] = add_rows(g, dy, weft_grad_shape_node(g, x, WEFT_I32), c->inputs[1]);
  return g->s;
}

/* Of a gather along any axis whose params, of that shape, and indices share the first `batch` dims, with
 * batch <= axis: the axis goes to the place behind those, they become rows of one matrix, and it all goes
 * back. */
static value_t add_slices(weft_grad_t *g, value_t dy, value_t shape, value_t indices, value_t axis,
                          int batch) {
  value_t zero = int32(g, 0), one = int32(g, 1), first = int32(g, batch),
          rank = weft_grad_op1(g, "Size", shape);
  value_t next = weft_grad_op2(g, "AddV2", axis, one), n = weft_grad_gather0(g, shape, axis);
  value_t lead = part(g, shape, zero, first), mid = part(g, shape, first, axis),
          inner = part(g, shape, next, rank);
  value_t places = weft_grad_shape_node(g, indices, WEFT_I32);
  value_t count =
      weft_grad_reduce(g, "Prod", part(g, places, first, weft_grad_op1(g, "Size", places)), zero, true);
  value_t slices =
      weft_grad_op2(g, "Reshape", dy, weft_grad_concat(g, (value_t[]){lead, mid, count, inner}, 4, 0));
  value_t perm_parts[] = {weft_grad_op3(g, "Range", zero, first, one), weft_grad_expand(g, axis, 0),
                          weft_grad_op3(g, "Range", first, axis, one),
                          weft_grad_op3(g, "Range", next, rank, one)};
  value_t perm = weft_grad_concat(g, perm_parts, 4, 0);
  value_t num_leads = weft_grad_reduce(g, "Prod", lead, zero, false);
  value_t grid = weft_grad_concat(g, (value_t[]){weft_grad_expand(g, num_leads, 0), count}, 2, 0);
  value_t starts = weft_grad_op2(g, "Mul", weft_grad_op3(g, "Range", zero, num_leads, one), n);
  value_t ids = weft_grad_op2(g, "AddV2", weft_grad_op2(g, "Reshape", indices, grid),
                              weft_grad_expand(g, weft_grad_cast(g, starts, weft_grad_dtype(g, indices)), 1));
  value_t flat[] = {weft_grad_reduce(g, "Prod", grid, zero, true), mid, inner};
  value_t rows = weft_grad_op2(g, "Reshape", weft_grad_op2(g, "Transpose", slices, perm),
                               weft_grad_concat(g, flat, 3, 0));
  value_t sums = weft_grad_op3(g, "UnsortedSegmentSum", rows, weft_grad_op2(g, "Reshape", ids, minus_one(g)),
                               weft_grad_op2(g, "Mul", num_leads, n));
  value_t whole[] = {lead, weft_grad_expand(g, n, 0), mid, inner};
  sums = weft_grad_op2(g, "Reshape", sums, weft_grad_concat(g, whole, 4, 0));
  return weft_grad_op2(g, "Transpose", sums, weft_grad_op1(g, "InvertPermutation", perm));
}

/* The attribute batch_dims, counted from the front. */
static weft_status_t *count_batch_dims(weft_grad_t *g, int *out) {
  weft_grad_ctx_t *c = g->c;
  int64_t batch = weft_grad_attr_int(g, "batch_dims");
  weft_shape_t indices = weft_grad_shape_of(g, c->inputs[1]);
  if (batch < 0 && indices.rank < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Currently, it is unsupported to take the gradient of a gather when batch_dims < 0 and "
                      "the rank of the indices is unknown: node '%.*s'",
                      WEFT_STR_ARGS(c->node_name));
  }
  *out = (int)(batch < 0 ? batch + indices.rank : batch);
  return g->s;
}

weft_status_t *weft_grad_gather_v2(weft_grad_ctx_t *c) {
  MOVE;
  value_t indices = c->inputs[1], shape = weft_grad_shape_node(g, x, WEFT_I32);
  int64_t known = 0;
  int batch = 0;
  if (g->s == NULL) g->s = count_batch_dims(g, &batch);
  bool is_first = weft_grad_const_int(g, c->inputs[2], &known) && known == 0;
  if (weft_grad_shape_of(g, x).rank == 1 || (is_first && batch == 0)) {
    c->dx[0] = add_rows(g, dy, shape, indices);
    return g->s;
  }
  value_t axis = weft_grad_op2(g, "FloorMod", weft_grad_cast(g, c->inputs[2], WEFT_I32),
                               weft_grad_op1(g, "Size", shape));
  c->dx[0] = add_slices(g, dy, shape, indices, axis, batch);
  return g->s;
}

/* The gradient of a handle is that of its variable. */
static value_t variable_shape(weft_grad_t *g, value_t handle, int out_type) {
  weft_named_attr_t type = weft_type_attr("out_type", out_type);
  return weft_grad_node(g, "VariableShape", &handle, 1, &type, 1);
}

weft_status_t *weft_grad_resource_gather(weft_grad_ctx_t *c) {
  MOVE;
  value_t indices = c->inputs[1], shape = variable_shape(g, x, WEFT_I32);
  int batch = 0;
  if (g->s == NULL) g->s = count_batch_dims(g, &batch);
  c->dx[0] = batch == 0 ? add_rows(g, dy, shape, indices)
                        : add_slices(g, dy, shape, indices, int32(g, batch), batch);
  return g->s;
}

weft_status_t *weft_grad_resource_gather_nd(weft_grad_ctx_t *c) {
  MOVE;
  value_t indices = c->inputs[1];
  c->dx[0] = weft_grad_op3(g, "ScatterNd", indices, dy, variable_shape(g, x, weft_grad_dtype(g, indices)));
  return g->s;
}

weft_status_t *weft_grad_gather_nd(weft_grad_ctx_t *c) {
  MOVE;
  int type = weft_grad_dtype(g, c->inputs[1]);
  value_t shape = type == WEFT_I32 || type == WEFT_I64
                      ? weft_grad_shape_node(g, x, type)
                      : weft_grad_cast(g, weft_grad_shape_node(g, x, WEFT_I32), type);
  c->dx[0] = weft_grad_op3(g, "ScatterNd", c->inputs[1], dy, shape);
  return g->s;
}

weft_status_t *weft_grad_scatter_nd(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[1] = weft_grad_op2(g, "GatherNd", dy, x);
  return g->s;
}

weft_status_t *weft_grad_tensor_scatter_update(weft_grad_ctx_t *c) {
  MOVE;
  value_t indices = c->inputs[1], zeros = weft_grad_op1(g, "ZerosLike", c->inputs[2]);
  c->dx[0] = weft_grad_op3(g, "TensorScatterUpdate", dy, indices, zeros);
  c->dx[2] = weft_grad_op2(g, "GatherNd", dy, indices);
  return g->s;
}

static weft_status_t *tensor_scatter(weft_grad_ctx_t *c, bool is_sub) {
  MOVE;
  value_t updates = weft_grad_op2(g, "GatherNd", dy, c->inputs[1]);
  c->dx[0] = dy;
  c->dx[2] = is_sub ? weft_grad_op1(g, "Neg", updates) : updates;
  return g->s;
}
weft_status_t *weft_grad_tensor_scatter_add(weft_grad_ctx_t *c) { return tensor_scatter(c, false); }
weft_status_t *weft_grad_tensor_scatter_sub(weft_grad_ctx_t *c) { return tensor_scatter(c, true); }

/* Of TensorScatterMax and Min: what is equal to the result shares its gradient. */
weft_status_t *weft_grad_tensor_scatter_choice(weft_grad_ctx_t *c) {
  MOVE;
  value_t indices = c->inputs[1], out = c->outputs[0];
  int dtype = weft_grad_dtype(g, dy), type = weft_grad_dtype(g, indices);
  value_t own = weft_grad_cast(g, weft_grad_op2(g, "Equal", x, out), dtype);
  value_t chosen = weft_grad_op2(g, "GatherNd", out, indices);
  value_t other = weft_grad_cast(g, weft_grad_op2(g, "Equal", c->inputs[2], chosen), dtype);
  value_t spread = weft_grad_op3(g, "ScatterNd", indices, other, weft_grad_shape_node(g, x, type));
  value_t shared = weft_grad_op2(g, "AddV2", own, spread);
  c->dx[0] = weft_grad_op2(g, "RealDiv", weft_grad_op2(g, "Mul", dy, own), shared);
  value_t each = weft_grad_op2(g, "GatherNd", weft_grad_op2(g, "RealDiv", dy, shared), indices);
  c->dx[2] = weft_grad_op2(g, "Mul", each, other);
  return g->s;
}

weft_status_t *weft_grad_tensor_strided_slice_update(weft_grad_ctx_t *c) {
  MOVE;
  weft_named_attr_t attrs[5];
  for (int i = 0; i < 5; i++) attrs[i] = weft_grad_same(g, masks[i]);
  value_t slice[] = {dy, c->inputs[1], c->inputs[2], c->inputs[3]}, value = c->inputs[4];
  value_t part = weft_grad_node(g, "StridedSlice", slice, 4, attrs, 5);
  value_t update[] = {dy, c->inputs[1], c->inputs[2], c->inputs[3], weft_grad_op1(g, "ZerosLike", part)};
  int type = weft_grad_dtype(g, c->inputs[1]);
  value_t given = weft_grad_shape_node(g, value, type);
  value_t axes = weft_grad_op2(g, "BroadcastGradientArgs", weft_grad_shape_node(g, part, type), given);
  axes.index = 1; /* those along which the value was broadcast */
  c->dx[0] = weft_grad_node(g, "TensorStridedSliceUpdate", update, 5, attrs, 5);
  c->dx[4] = weft_grad_op2(g, "Reshape", weft_grad_reduce(g, "Sum", part, axes, true), given);
  return g->s;
}

weft_status_t *weft_grad_dynamic_stitch(weft_grad_ctx_t *c) {
  MOVE;
  int n = c->num_inputs / 2;
  for (int i = 0; i < n; i++) c->dx[n + i] = weft_grad_gather0(g, dy, c->inputs[i]);
  return g->s;
}

/* Where each element went, by partitioning its position likewise; then stitched back. */
weft_status_t *weft_grad_dynamic_partition(weft_grad_ctx_t *c) {
  MOVE;
  int n = c->num_outputs;
  weft_arena_t arena = WEFT_ARENA_INIT;
  value_t partitions = c->inputs[1], *list = weft_arena_calloc(&arena, 2 * (size_t)n, sizeof *list);
  if (list == NULL) return WEFT_NO_MEMORY("building a gradient");
  weft_named_attr_t num = weft_int_attr("num_partitions", n), count = number(n);
  value_t shape = weft_grad_shape_node(g, partitions, WEFT_I32), size = weft_grad_op1(g, "Size", partitions);
  value_t positions =
      weft_grad_op2(g, "Reshape", weft_grad_op3(g, "Range", int32(g, 0), size, int32(g, 1)), shape);
  value_t places = weft_grad_node(g, "DynamicPartition", (value_t[]){positions, partitions}, 2, &num, 1);
  (void)dy;
  for (int i = 0; i < n; i++) {
    list[i] = weft_grad_output(places, i);
    list[n + i] = weft_grad_dy_or_zeros(g, i);
  }
  value_t flat = weft_grad_node(g, "DynamicStitch", list, 2 * n, &count, 1);
  c->dx[0] = weft_grad_op2(g, "Reshape", flat, weft_grad_shape_node(g, x, WEFT_I32));
  weft_arena_deinit(&arena);
  return g->s;
}

/* ---- permuting and picking ---- */

/* The same op with the same other inputs on dy. */
static weft_status_t *same_op(weft_grad_ctx_t *c, const char *op, const char *const *attrs, int num_attrs) {
  MOVE;
  weft_named_attr_t copies[2];
  value_t inputs[3] = {dy};
  for (int i = 0; i < num_attrs && i < 2; i++) copies[i] = weft_grad_same(g, attrs[i]);
  for (int i = 1; i < c->num_inputs && i < 3; i++) inputs[i] = c->inputs[i];
  c->dx[0] = weft_grad_node(g, op, inputs, c->num_inputs, copies, num_attrs);
  return g->s;
}

weft_status_t *weft_grad_reverse(weft_grad_ctx_t *c) { return same_op(c, "Reverse", NULL, 0); }
weft_status_t *weft_grad_reverse_v2(weft_grad_ctx_t *c) { return same_op(c, "ReverseV2", NULL, 0); }
weft_status_t *weft_grad_matrix_band_part(weft_grad_ctx_t *c) {
  return same_op(c, "MatrixBandPart", NULL, 0);
}
weft_status_t *weft_grad_reverse_sequence(weft_grad_ctx_t *c) {
  return same_op(c, "ReverseSequence", (const char *const[]){"seq_dim", "batch_dim"}, 2);
}
weft_status_t *weft_grad_space_to_batch(weft_grad_ctx_t *c) { return same_op(c, "BatchToSpaceND", NULL, 0); }
weft_status_t *weft_grad_batch_to_space(weft_grad_ctx_t *c) { return same_op(c, "SpaceToBatchND", NULL, 0); }
weft_status_t *weft_grad_square_to_batch(weft_grad_ctx_t *c) {
  return same_op(c, "BatchToSpace", (const char *const[]){"block_size"}, 1);
}
weft_status_t *weft_grad_batch_to_square(weft_grad_ctx_t *c) {
  return same_op(c, "SpaceToBatch", (const char *const[]){"block_size"}, 1);
}
weft_status_t *weft_grad_space_to_depth(weft_grad_ctx_t *c) {
  return same_op(c, "DepthToSpace", (const char *const[]){"block_size", "data_format"}, 2);
}
weft_status_t *weft_grad_depth_to_space(weft_grad_ctx_t *c) {
  return same_op(c, "SpaceToDepth", (const char *const[]){"block_size", "data_format"}, 2);
}

weft_status_t *weft_grad_roll(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[0] = weft_grad_op3(g, "Roll", dy, weft_grad_op1(g, "Neg", c->inputs[1]), c->inputs[2]);
  return g->s;
}
weft_status_t *weft_grad_diag(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[0] = weft_grad_op1(g, "DiagPart", dy);
  return g->s;
}
weft_status_t *weft_grad_diag_part(weft_grad_ctx_t *c) {
  MOVE;
  c->dx[0] = weft_grad_op1(g, "Diag", dy);
  return g->s;
}
