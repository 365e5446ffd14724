/* ops/list_grad.c - gradients of tensor lists, tensor arrays, tensor maps, optionals and encoded composites.
 *
 * The gradient of a list is a list: it holds the gradients of the elements. The gradient of a tensor array is
 * another array, which belongs to the array and to one set of gradients (its `source`); what flows along the
 * edges is only the order of reads and writes.
 */
#include "ops/grad.h"

#define LIST                                                                              \
  weft_grad_t g_ = {c, NULL}, *g = &g_;                                                   \
  value_t x = c->inputs[0], dy = c->dy[0], second = c->num_inputs > 1 ? c->inputs[1] : x; \
  (void)x;                                                                                \
  (void)dy;                                                                               \
  (void)second

static weft_named_attr_t element_type(int dtype) { return weft_type_attr("element_dtype", dtype); }

static value_t shape_of(weft_grad_t *g, value_t x) { return weft_grad_shape_node(g, x, WEFT_I32); }

/* The shape of the rows of x. */
static value_t row_shape(weft_grad_t *g, value_t x) {
  return weft_grad_op3(g, "Slice", shape_of(g, x), weft_grad_int32s(g, (int32_t[]){1}, 1),
                       weft_grad_int32s(g, (int32_t[]){-1}, 1));
}

static value_t length(weft_grad_t *g, value_t list) { return weft_grad_op1(g, "TensorListLength", list); }

static value_t element_shape(weft_grad_t *g, value_t list) {
  weft_named_attr_t type = weft_type_attr("shape_type", WEFT_I32);
  return weft_grad_node(g, "TensorListElementShape", &list, 1, &type, 1);
}

/* A node whose elements have type `dtype`. */
static value_t typed(weft_grad_t *g, const char *op, const value_t *inputs, int n, int dtype) {
  weft_named_attr_t type = element_type(dtype);
  return weft_grad_node(g, op, inputs, n, &type, 1);
}

/* As long as `list`, with nothing in it. */
static value_t reserved_like(weft_grad_t *g, value_t list, int dtype) {
  return typed(g, "TensorListReserve", (value_t[]){element_shape(g, list), length(g, list)}, 2, dtype);
}

static value_t gather(weft_grad_t *g, value_t list, value_t indices, value_t like) {
  return typed(g, "TensorListGather", (value_t[]){list, indices, row_shape(g, like)}, 3,
               weft_grad_dtype(g, like));
}

static value_t resized_like(weft_grad_t *g, value_t list, value_t like) {
  return weft_grad_op2(g, "TensorListResize", list, length(g, like));
}

/* ---- lists ---- */

weft_status_t *weft_grad_list_push(weft_grad_ctx_t *c) {
  LIST;
  value_t popped =
      typed(g, "TensorListPopBack", (value_t[]){dy, shape_of(g, second)}, 2, weft_grad_dtype(g, second));
  c->dx[0] = popped;
  c->dx[1] = weft_grad_output(popped, 1);
  return g->s;
}

weft_status_t *weft_grad_list_pop(weft_grad_ctx_t *c) {
  LIST;
  value_t element = weft_grad_dy_or_zeros(g, 1);
  if (weft_grad_is_zero(dy)) {
    value_t no_limit = weft_grad_int_scalar(g, WEFT_I32, -1);
    dy = typed(g, "EmptyTensorList", (value_t[]){element_shape(g, c->outputs[0]), no_limit}, 2,
               weft_grad_dtype(g, element));
  }
  c->dx[0] = weft_grad_op2(g, "TensorListPushBack", dy, element);
  return g->s;
}

weft_status_t *weft_grad_list_stack(weft_grad_ctx_t *c) {
  LIST;
  c->dx[0] = weft_grad_op2(g, "TensorListFromTensor", dy, row_shape(g, dy));
  return g->s;
}

weft_status_t *weft_grad_list_from_tensor(weft_grad_ctx_t *c) {
  LIST;
  weft_shape_t shape = weft_grad_shape_of(g, x);
  weft_named_attr_t attrs[] = {element_type(weft_grad_dtype(g, x)),
                               weft_int_attr("num_elements", shape.rank > 0 ? shape.dims[0] : -1)};
  c->dx[0] = weft_grad_node(g, "TensorListStack", (value_t[]){dy, row_shape(g, x)}, 2, attrs, 2);
  return g->s;
}

/* Of TensorListConcat and ConcatV2. */
weft_status_t *weft_grad_list_concat(weft_grad_ctx_t *c) {
  LIST;
  if (weft_grad_is_zero(dy)) return NULL;
  c->dx[0] = weft_grad_op3(g, "TensorListSplit", dy, element_shape(g, x), c->outputs[1]);
  return g->s;
}

weft_status_t *weft_grad_list_split(weft_grad_ctx_t *c) {
  LIST;
  value_t parts[] = {weft_grad_int32s(g, (int32_t[]){-1}, 1), row_shape(g, x)};
  value_t inputs[] = {dy, weft_grad_concat(g, parts, 2, 0), c->inputs[2]};
  c->dx[0] = typed(g, "TensorListConcatV2", inputs, 3, weft_grad_dtype(g, x));
  return g->s;
}

weft_status_t *weft_grad_list_get(weft_grad_ctx_t *c) {
  LIST;
  value_t nothing = reserved_like(g, x, weft_grad_dtype(g, dy));
  c->dx[0] = weft_grad_op3(g, "TensorListSetItem", nothing, second, dy);
  return g->s;
}

weft_status_t *weft_grad_list_set(weft_grad_ctx_t *c) {
  LIST;
  value_t item = c->inputs[2];
  value_t rest = weft_grad_op3(g, "TensorListSetItem", dy, second, weft_grad_op1(g, "ZerosLike", item));
  bool may_grow = weft_grad_attr_bool(g, "resize_if_index_out_of_bounds");
  c->dx[0] = may_grow ? resized_like(g, rest, x) : rest;
  c->dx[2] =
      typed(g, "TensorListGetItem", (value_t[]){dy, second, shape_of(g, item)}, 3, weft_grad_dtype(g, item));
  return g->s;
}

weft_status_t *weft_grad_list_resize(weft_grad_ctx_t *c) {
  LIST;
  c->dx[0] = resized_like(g, dy, x);
  return g->s;
}

weft_status_t *weft_grad_list_gather(weft_grad_ctx_t *c) {
  LIST;
  value_t nothing = reserved_like(g, x, weft_grad_dtype(g, dy));
  c->dx[0] = weft_grad_op3(g, "TensorListScatterIntoExistingList", nothing, dy, second);
  return g->s;
}

/* Of TensorListScatter and ScatterV2. */
weft_status_t *weft_grad_list_scatter(weft_grad_ctx_t *c) {
  LIST;
  c->dx[0] = gather(g, dy, second, x);
  return g->s;
}

weft_status_t *weft_grad_list_scatter_into(weft_grad_ctx_t *c) {
  LIST;
  value_t indices = c->inputs[2], zeros = weft_grad_op1(g, "ZerosLike", second);
  c->dx[0] = weft_grad_op3(g, "TensorListScatterIntoExistingList", dy, zeros, indices);
  c->dx[1] = gather(g, dy, indices, second);
  return g->s;
}

/* ---- arrays ---- */

/* The array of gradients that belongs to the array of input 0; its handle, and *flow, which comes after. The
 * three versions of the ops differ in the last letters of their names, and in what a handle is. */
static value_t gradient_array(weft_grad_t *g, value_t *flow) {
  weft_grad_ctx_t *c = g->c;
  weft_named_attr_t source = weft_text_attr("source", c->scope);
  value_t inputs[] = {c->inputs[0], *flow};
  bool is_v3 = weft_str_ends_with(c->op->name, "V3"), is_v2 = weft_str_ends_with(c->op->name, "V2");
  const char *op = is_v3 ? "TensorArrayGradV3" : is_v2 ? "TensorArrayGradV2" : "TensorArrayGrad";
  value_t handle = weft_grad_node(g, op, inputs, 2, &source, 1);
  if (is_v3) *flow = weft_grad_output(handle, 1);
  return handle;
}

/* The op of that kind in the version of the node. */
static value_t array_op(weft_grad_t *g, const char *const ops[3], const value_t *inputs, int n,
                        const weft_named_attr_t *attrs, int num_attrs) {
  weft_str_t name = g->c->op->name;
  int version = weft_str_ends_with(name, "V3") ? 2 : weft_str_ends_with(name, "V2") ? 1 : 0;
  return weft_grad_node(g, ops[version], inputs, n, attrs, num_attrs);
}

#define VERSIONS(name) ((const char *const[3]){name, name "V2", name "V3"})

/* Gradients of what was read are written into the array of gradients. */
static weft_status_t *array_read(weft_grad_ctx_t *c, const char *const ops[3], bool has_index) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  int last = has_index ? 2 : 1;
  if (weft_grad_is_zero(c->dy[0])) return NULL;
  value_t flow = c->inputs[last], handle = gradient_array(g, &flow);
  value_t indexed[] = {handle, c->inputs[1], c->dy[0], flow}, cut[] = {handle, c->dy[0], c->outputs[1], flow};
  c->dx[last] = array_op(g, ops, has_index ? indexed : cut, 4, NULL, 0);
  return g->s;
}

weft_status_t *weft_grad_array_read(weft_grad_ctx_t *c) {
  return array_read(c, VERSIONS("TensorArrayWrite"), true);
}
weft_status_t *weft_grad_array_gather(weft_grad_ctx_t *c) {
  return array_read(c, VERSIONS("TensorArrayScatter"), true);
}
weft_status_t *weft_grad_array_concat(weft_grad_ctx_t *c) {
  return array_read(c, VERSIONS("TensorArraySplit"), false);
}

/* Gradients of what was written are read from it. */
static weft_status_t *array_write(weft_grad_ctx_t *c, const char *const ops[3], int value, bool has_index) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  weft_named_attr_t type = weft_type_attr("dtype", weft_grad_dtype(g, c->inputs[value]));
  value_t flow = c->dy[0], handle = gradient_array(g, &flow);
  value_t indexed[] = {handle, c->inputs[1], flow}, whole[] = {handle, flow};
  c->dx[value] = array_op(g, ops, has_index ? indexed : whole, has_index ? 3 : 2, &type, 1);
  c->dx[3] = c->dy[0];
  return g->s;
}

weft_status_t *weft_grad_array_write(weft_grad_ctx_t *c) {
  return array_write(c, VERSIONS("TensorArrayRead"), 2, true);
}
weft_status_t *weft_grad_array_scatter(weft_grad_ctx_t *c) {
  return array_write(c, VERSIONS("TensorArrayGather"), 2, true);
}
weft_status_t *weft_grad_array_split(weft_grad_ctx_t *c) {
  return array_write(c, VERSIONS("TensorArrayConcat"), 1, false);
}

/* ---- maps ---- */

weft_status_t *weft_grad_map_lookup(weft_grad_ctx_t *c) {
  LIST;
  value_t nothing = weft_grad_node(g, "EmptyTensorMap", NULL, 0, NULL, 0);
  c->dx[0] = weft_grad_op3(g, "TensorMapInsert", nothing, second, dy);
  return g->s;
}

/* The gradient of the value is what the gradient map has at the key, and the map's is what it has elsewhere.
 */
weft_status_t *weft_grad_map_insert(weft_grad_ctx_t *c) {
  LIST;
  value_t value = c->inputs[2], has_key = weft_grad_op2(g, "TensorMapHasKey", dy, second);
  value_t map = weft_grad_op2(g, "Switch", dy, has_key), key = weft_grad_op2(g, "Switch", second, has_key);
  value_t there[] = {weft_grad_output(map, 1), weft_grad_output(key, 1)};
  weft_named_attr_t type = weft_type_attr("value_dtype", weft_grad_dtype(g, value));
  weft_named_attr_t n = weft_int_attr("N", 2);
  value_t erased = weft_grad_node(g, "TensorMapErase", there, 2, &type, 1);
  value_t found = weft_grad_node(g, "TensorMapLookup", there, 2, &type, 1);
  value_t zeros = weft_grad_op1(g, "ZerosLike", weft_grad_op2(g, "Switch", value, has_key));
  c->dx[0] = weft_grad_node(g, "Merge", (value_t[]){map, erased}, 2, &n, 1);
  c->dx[2] = weft_grad_node(g, "Merge", (value_t[]){zeros, found}, 2, &n, 1);
  return g->s;
}

/* ---- several values in one ---- */

weft_status_t *weft_grad_optional_from(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_named_attr_t types = weft_grad_same(&g, "Toutput_types");
  weft_shape_t *shapes = weft_arena_calloc(&arena, (size_t)c->num_inputs, sizeof *shapes);
  if (shapes == NULL) return WEFT_NO_MEMORY("building a gradient");
  for (int i = 0; i < c->num_inputs; i++) shapes[i] = weft_grad_shape_of(&g, c->inputs[i]);
  types.name = WEFT_STR("output_types");
  weft_attr_t list = {.kind = WEFT_ATTR_SHAPE, .is_list = true, .n = c->num_inputs, .list.shapes = shapes};
  weft_named_attr_t attrs[] = {types, {WEFT_STR("output_shapes"), list}};
  value_t parts = weft_grad_node(&g, "OptionalGetValue", &c->dy[0], 1, attrs, 2);
  for (int i = 0; i < c->num_inputs; i++) c->dx[i] = weft_grad_output(parts, i);
  weft_arena_deinit(&arena);
  return g.s;
}

/* One value from the gradients of all outputs; for what has none, zeros or the output itself. */
static weft_status_t *packed(weft_grad_ctx_t *c, const char *op, const weft_named_attr_t *attrs,
                             int num_attrs, bool has_zeros) {
  weft_grad_t g = {c, NULL};
  weft_arena_t arena = WEFT_ARENA_INIT;
  value_t *parts = weft_arena_calloc(&arena, (size_t)c->num_outputs, sizeof *parts);
  if (parts == NULL) return WEFT_NO_MEMORY("building a gradient");
  for (int i = 0; i < c->num_outputs; i++) {
    bool is_zero = weft_grad_is_zero(c->dy[i]);
    parts[i] = is_zero && !has_zeros ? c->outputs[i] : weft_grad_dy_or_zeros(&g, i);
  }
  c->dx[0] = weft_grad_node(&g, op, parts, c->num_outputs, attrs, num_attrs);
  weft_arena_deinit(&arena);
  return g.s;
}

weft_status_t *weft_grad_optional_get(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_named_attr_t types = weft_grad_same(&g, "output_types");
  types.name = WEFT_STR("Toutput_types");
  return g.s != NULL ? g.s : packed(c, "OptionalFromValue", &types, 1, true);
}

weft_status_t *weft_grad_composite_to(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_named_attr_t attrs[] = {weft_grad_same(&g, "metadata"), weft_grad_same(&g, "Tcomponents")};
  return g.s != NULL ? g.s : packed(c, "CompositeTensorVariantFromComponents", attrs, 2, false);
}

weft_status_t *weft_grad_composite_from(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_named_attr_t attrs[] = {weft_grad_same(&g, "metadata"), weft_grad_same(&g, "Tcomponents")};
  value_t parts = weft_grad_node(&g, "CompositeTensorVariantToComponents", &c->dy[0], 1, attrs, 2);
  for (int i = 0; i < c->num_inputs; i++) c->dx[i] = weft_grad_output(parts, i);
  return g.s;
}
