/* graph/gradient_values.c - what the gradient of a loop needs of the loop's values: constants are made again,
 * what does not change enters from outside, and all else is kept in lists. */
#include "base/alloc.h"
#include "graph/gradient_build.h"

/* ---- nodes of loops ---- */

weft_status_t *weft_gradient_add_forward(weft_gradient_build_t *b, int frame,
                                         const weft_gradient_node_t *spec, weft_output_t *out) {
  WEFT_RETURN_IF_ERROR(weft_gradient_add(b, spec, out));
  if (frame < 0) return NULL;
  weft_gradient_fact_t *fact = &b->facts[out->node->id];
  fact->is_forward = true;
  fact->frame = frame;
  /* A variable of the loop is alive in all of it. */
  bool is_of_loop = weft_gradient_is_structure(b, out->node) && (out->node->flags & WEFT_OP_ENTER) == 0;
  return is_of_loop ? NULL : weft_gradient_find_branch(b, out->node);
}

/* In the frame of a loop (`frame` of it) or, with -1, of a gradient. */
static weft_status_t *add1(weft_gradient_build_t *b, int frame, const char *op, weft_output_t input,
                           weft_output_t *out) {
  const weft_gradient_node_t spec = {.op = op, .inputs = &input, .num_inputs = 1};
  return weft_gradient_add_forward(b, frame, &spec, out);
}

static weft_status_t *add2(weft_gradient_build_t *b, int frame, const char *op, weft_output_t x,
                           weft_output_t y, weft_output_t *out) {
  const weft_output_t inputs[2] = {x, y};
  const weft_gradient_node_t spec = {.op = op, .inputs = inputs, .num_inputs = 2};
  return weft_gradient_add_forward(b, frame, &spec, out);
}

weft_status_t *weft_gradient_constant(weft_gradient_build_t *b, weft_tensor_t *tensor, int forward,
                                      weft_node_t *control, weft_output_t *out) {
  const weft_named_attr_t attrs[2] = {weft_type_attr("dtype", (int)tensor->dtype),
                                      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = tensor}}};
  const weft_gradient_node_t spec = {.op = "Const", .control = control, .attrs = attrs, .num_attrs = 2};
  return weft_gradient_add_forward(b, forward, &spec, out);
}

weft_status_t *weft_gradient_int32s(weft_gradient_build_t *b, const int32_t *values, int n, int forward,
                                    weft_node_t *control, weft_output_t *out) {
  weft_shape_t shape = n < 0 ? WEFT_SCALAR : weft_shape_vector(n);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I32, &shape, NULL, &t));
  for (int64_t i = 0; i < t->count; i++) ((int32_t *)t->data)[i] = values[i];
  weft_status_t *s = weft_gradient_constant(b, t, forward, control, out);
  weft_tensor_release(t);
  return s;
}

weft_status_t *weft_gradient_enter(weft_gradient_build_t *b, const weft_gradient_frame_t *f, int forward,
                                   weft_output_t value, bool is_constant, weft_output_t *out) {
  const weft_named_attr_t attrs[] = {weft_text_attr("frame_name", f->name),
                                     weft_bool_attr("is_constant", is_constant),
                                     weft_int_attr("parallel_iterations", f->parallel_iterations)};
  const weft_gradient_node_t spec = {
      .op = "Enter", .inputs = &value, .num_inputs = 1, .attrs = attrs, .num_attrs = 3};
  return weft_gradient_add_forward(b, forward, &spec, out);
}

static weft_status_t *set_first_shape(weft_gradient_build_t *b, weft_node_t *n, const weft_shape_t *shape) {
  weft_shape_t *shapes = weft_arena_alloc(b->g->arena, (size_t)n->num_outputs * sizeof *shapes);
  if (shapes == NULL) return weft_gradient_no_memory();
  for (int i = 0; i < n->num_outputs; i++)
    shapes[i] = i == 0 ? *shape : weft_gradient_shape((weft_output_t){n, i});
  n->output_shapes = shapes;
  return NULL;
}

weft_status_t *weft_gradient_open(weft_gradient_build_t *b, const weft_gradient_frame_t *f, int forward,
                                  weft_output_t start, const weft_shape_t *shape, weft_gradient_ring_t *out) {
  weft_output_t enter, merge;
  WEFT_RETURN_IF_ERROR(weft_gradient_enter(b, f, forward, start, false, &enter));
  /* The second input becomes the NextIteration. */
  WEFT_RETURN_IF_ERROR(add2(b, -1, "Merge", enter, enter, &merge));
  if (forward >= 0) {
    b->facts[merge.node->id].is_forward = true;
    b->facts[merge.node->id].frame = forward;
  }
  *out = (weft_gradient_ring_t){.enter = enter.node, .merge = merge.node};
  return set_first_shape(b, merge.node, shape);
}

weft_status_t *weft_gradient_split(weft_gradient_build_t *b, const weft_gradient_frame_t *f, int forward,
                                   weft_gradient_ring_t *ring) {
  weft_output_t split;
  WEFT_RETURN_IF_ERROR(add2(b, forward, "Switch", (weft_output_t){ring->merge, 0}, f->cond, &split));
  ring->split = split.node;
  return NULL;
}

weft_status_t *weft_gradient_close(weft_gradient_build_t *b, int forward, weft_output_t next,
                                   weft_gradient_ring_t *ring) {
  weft_output_t again, exit;
  WEFT_RETURN_IF_ERROR(add1(b, forward, "NextIteration", next, &again));
  weft_graph_set_input(ring->merge, 1, again);
  WEFT_RETURN_IF_ERROR(add1(b, forward, "Exit", (weft_output_t){ring->split, 0}, &exit));
  ring->exit = exit.node;
  return NULL;
}

/* ---- values that are not always alive ---- */

static weft_status_t *add_switch(weft_gradient_build_t *b, int frame, weft_output_t value,
                                 weft_output_t which, int num_branches, weft_output_t *out) {
  const weft_output_t inputs[2] = {value, which};
  const weft_named_attr_t num_outs = weft_int_attr("num_outs", num_branches);
  bool is_bool = weft_gradient_dtype(which) == WEFT_BOOL;
  const weft_gradient_node_t spec = {.op = is_bool ? "Switch" : "_SwitchN",
                                     .inputs = inputs,
                                     .num_inputs = 2,
                                     .attrs = &num_outs,
                                     .num_attrs = !is_bool};
  return weft_gradient_add_forward(b, frame, &spec, out);
}

/* `value`, which is alive within `from`, where it is alive within `to`, in the gradient's frame. */
static weft_status_t *confine(weft_gradient_build_t *b, weft_gradient_loop_t *loop,
                              const weft_gradient_branch_t *from, const weft_gradient_branch_t *to,
                              weft_output_t *value) {
  weft_output_t which, split;
  if (to == NULL || (from != NULL && to->depth <= from->depth)) return NULL;
  WEFT_RETURN_IF_ERROR(confine(b, loop, from, to->outer, value));
  WEFT_RETURN_IF_ERROR(weft_gradient_value(b, loop, to->which, &which));
  WEFT_RETURN_IF_ERROR(add_switch(b, -1, *value, which, to->num_branches, &split));
  *value = (weft_output_t){split.node, to->branch};
  return NULL;
}

/* Something of that type, in the loop itself. */
static weft_status_t *add_filler(weft_gradient_build_t *b, weft_gradient_loop_t *loop, int dtype,
                                 weft_output_t *out) {
  if (dtype == WEFT_VARIANT) {
    const weft_gradient_node_t none = {.op = "OptionalNone", .control = loop->body};
    return weft_gradient_add_forward(b, loop->frame, &none, out);
  }
  weft_tensor_t *zero = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new((weft_dtype_t)dtype, &WEFT_SCALAR, NULL, &zero));
  if (weft_dtype_is_plain((weft_dtype_t)dtype)) memset(zero->data, 0, weft_dtype_size((weft_dtype_t)dtype));
  weft_status_t *s = weft_gradient_constant(b, zero, loop->frame, loop->body, out);
  weft_tensor_release(zero);
  return s;
}

/* The Switch of a filler on what chooses `branch`. */
static weft_status_t *split_filler(weft_gradient_build_t *b, weft_gradient_loop_t *loop, weft_output_t filler,
                                   const weft_gradient_branch_t *branch, weft_node_t **out) {
  weft_output_t value = filler, split;
  if (branch->outer != NULL) {
    WEFT_RETURN_IF_ERROR(split_filler(b, loop, filler, branch->outer, &value.node));
    value.index = branch->outer->branch;
  }
  WEFT_RETURN_IF_ERROR(add_switch(b, loop->frame, value, branch->which, branch->num_branches, &split));
  *out = split.node;
  return NULL;
}

/* *value, which is alive within `branch`, or a filler where it is not: alive in every iteration. */
static weft_status_t *complete(weft_gradient_build_t *b, weft_gradient_loop_t *loop,
                               const weft_gradient_branch_t *branch, weft_output_t *value) {
  weft_output_t filler;
  if (branch == NULL) return NULL;
  WEFT_RETURN_IF_ERROR(add_filler(b, loop, weft_gradient_dtype(*value), &filler));
  for (; branch != NULL; branch = branch->outer) {
    weft_node_t *split = NULL;
    WEFT_RETURN_IF_ERROR(split_filler(b, loop, filler, branch, &split));
    size_t n = (size_t)branch->num_branches;
    weft_output_t *inputs = weft_arena_alloc(&b->scratch, n * sizeof *inputs);
    if (inputs == NULL) return weft_gradient_no_memory();
    for (int i = 0; i < branch->num_branches; i++)
      inputs[i] = i == branch->branch ? *value : (weft_output_t){split, i};
    const weft_gradient_node_t spec = {.op = "Merge", .inputs = inputs, .num_inputs = branch->num_branches};
    WEFT_RETURN_IF_ERROR(weft_gradient_add_forward(b, loop->frame, &spec, value));
  }
  return NULL;
}

/* ---- lists ---- */

/* The shape of a list's elements as an op takes it: -1 for what is not known. */
static weft_status_t *add_shape(weft_gradient_build_t *b, const weft_shape_t *shape, int forward,
                                weft_node_t *control, weft_output_t *out) {
  int32_t dims[WEFT_MAX_DIMS] = {-1};
  for (int i = 0; i < shape->rank; i++)
    dims[i] = shape->dims[i] >= 0 && shape->dims[i] <= INT32_MAX ? (int32_t)shape->dims[i] : -1;
  return weft_gradient_int32s(b, dims, shape->rank, forward, control, out);
}

/* In the loop: a list that gets the value of each iteration; *out is what it holds behind the loop. */
static weft_status_t *push(weft_gradient_build_t *b, weft_gradient_loop_t *loop, weft_output_t value,
                           const weft_shape_t *shape, weft_output_t *out) {
  int around = loop->outer == NULL ? 0 : loop->outer->frame, frame = loop->frame;
  int32_t no_limit = -1;
  weft_output_t sizes[2], list;
  weft_gradient_ring_t ring;
  WEFT_RETURN_IF_ERROR(add_shape(b, shape, around, loop->gate, &sizes[0]));
  WEFT_RETURN_IF_ERROR(weft_gradient_int32s(b, &no_limit, -1, around, loop->gate, &sizes[1]));
  const weft_named_attr_t attrs[] = {weft_type_attr("element_dtype", weft_gradient_dtype(value)),
                                     weft_type_attr("shape_type", WEFT_I32)};
  const weft_gradient_node_t empty = {
      .op = "EmptyTensorList", .inputs = sizes, .num_inputs = 2, .attrs = attrs, .num_attrs = 2};
  WEFT_RETURN_IF_ERROR(weft_gradient_add_forward(b, around, &empty, &list));
  WEFT_RETURN_IF_ERROR(weft_gradient_open(b, &loop->forward, frame, list, &WEFT_SCALAR, &ring));
  WEFT_RETURN_IF_ERROR(weft_gradient_split(b, &loop->forward, frame, &ring));
  WEFT_RETURN_IF_ERROR(add2(b, frame, "TensorListPushBack", (weft_output_t){ring.split, 1}, value, &list));
  WEFT_RETURN_IF_ERROR(weft_gradient_close(b, frame, list, &ring));
  *out = (weft_output_t){ring.exit, 0};
  return NULL;
}

/* In the gradient: the elements of the list, the last first. */
static weft_status_t *pop(weft_gradient_build_t *b, weft_gradient_loop_t *loop, weft_output_t list, int dtype,
                          const weft_shape_t *shape, weft_output_t *out) {
  weft_output_t inputs[2], popped;
  weft_gradient_ring_t ring;
  WEFT_RETURN_IF_ERROR(weft_gradient_open(b, &loop->backward, -1, list, &WEFT_SCALAR, &ring));
  WEFT_RETURN_IF_ERROR(weft_gradient_split(b, &loop->backward, -1, &ring));
  inputs[0] = (weft_output_t){ring.split, 1};
  WEFT_RETURN_IF_ERROR(add_shape(b, shape, -1, loop->pivot, &inputs[1]));
  const weft_named_attr_t type = weft_type_attr("element_dtype", dtype);
  const weft_gradient_node_t spec = {
      .op = "TensorListPopBack", .inputs = inputs, .num_inputs = 2, .attrs = &type, .num_attrs = 1};
  WEFT_RETURN_IF_ERROR(weft_gradient_add(b, &spec, &popped));
  WEFT_RETURN_IF_ERROR(weft_gradient_close(b, -1, popped, &ring));
  *out = (weft_output_t){popped.node, 1};
  return NULL;
}

/* Lists hold no handles, but optionals that hold them. */
static weft_status_t *wrap(weft_gradient_build_t *b, weft_gradient_loop_t *loop, weft_output_t *value) {
  const int types[1] = {WEFT_RESOURCE};
  const weft_named_attr_t type = {WEFT_STR("Toutput_types"),
                                  {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = 1, .list.types = types}};
  const weft_output_t handle = *value;
  const weft_gradient_node_t spec = {
      .op = "OptionalFromValue", .inputs = &handle, .num_inputs = 1, .attrs = &type, .num_attrs = 1};
  return weft_gradient_add_forward(b, loop->frame, &spec, value);
}

static weft_status_t *unwrap(weft_gradient_build_t *b, weft_output_t *value) {
  const int types[1] = {WEFT_RESOURCE};
  const weft_shape_t shapes[1] = {WEFT_UNKNOWN_SHAPE};
  const weft_named_attr_t attrs[] = {
      {WEFT_STR("output_types"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = 1, .list.types = types}},
      {WEFT_STR("output_shapes"), {.kind = WEFT_ATTR_SHAPE, .is_list = true, .n = 1, .list.shapes = shapes}}};
  const weft_output_t optional = *value;
  const weft_gradient_node_t spec = {
      .op = "OptionalGetValue", .inputs = &optional, .num_inputs = 1, .attrs = attrs, .num_attrs = 2};
  return weft_gradient_add(b, &spec, value);
}

static weft_status_t *keep(weft_gradient_build_t *b, weft_gradient_loop_t *loop, weft_output_t t,
                           weft_output_t *out) {
  const weft_gradient_branch_t *branch = NULL;
  weft_output_t whole = t, list;
  bool is_handle = weft_gradient_dtype(t) == WEFT_RESOURCE;
  WEFT_RETURN_IF_ERROR(weft_gradient_branch_of(b, t, &branch));
  if (is_handle) WEFT_RETURN_IF_ERROR(wrap(b, loop, &whole));
  WEFT_RETURN_IF_ERROR(complete(b, loop, branch, &whole));
  weft_shape_t shape = branch == NULL ? weft_gradient_shape(whole) : WEFT_UNKNOWN_SHAPE;
  WEFT_RETURN_IF_ERROR(push(b, loop, whole, &shape, &list));
  WEFT_RETURN_IF_ERROR(weft_gradient_value(b, loop->outer, list, &list));
  WEFT_RETURN_IF_ERROR(pop(b, loop, list, weft_gradient_dtype(whole), &shape, out));
  WEFT_RETURN_IF_ERROR(confine(b, loop, NULL, branch, out));
  return is_handle ? unwrap(b, out) : NULL;
}

/* ---- any value ---- */

/* What does not change in the loop, from outside. */
static weft_status_t *constant_of_loop(weft_gradient_build_t *b, weft_gradient_loop_t *loop,
                                       const weft_node_t *enter, weft_output_t *out) {
  weft_output_t outside;
  WEFT_RETURN_IF_ERROR(weft_gradient_value(b, loop->outer, enter->inputs[0], &outside));
  return weft_gradient_enter(b, &loop->backward, -1, outside, true, out);
}

/* What `t` is a copy of: the same tensor, wherever both are alive; node NULL if it is none. */
static weft_output_t original(const weft_gradient_build_t *b, weft_output_t t) {
  const weft_node_t *n = t.node;
  bool is_copy = (n->flags & (WEFT_OP_IDENTITY | WEFT_OP_BUNDLE)) != 0 && t.index < n->num_inputs;
  bool is_branch = (n->flags & WEFT_OP_SWITCH) != 0 && !weft_gradient_is_structure(b, n);
  if (is_copy) return n->inputs[t.index];
  return is_branch ? n->inputs[0] : (weft_output_t){NULL, 0};
}

static weft_status_t *make(weft_gradient_build_t *b, weft_gradient_loop_t *loop, weft_output_t t,
                           weft_output_t *out) {
  const weft_gradient_branch_t *branch = NULL, *of_original = NULL;
  weft_output_t from = t;
  WEFT_RETURN_IF_ERROR(weft_gradient_branch_of(b, t, &branch));
  for (weft_output_t next = t; next.node != NULL; next = original(b, next)) from = next;
  const weft_tensor_t *known = weft_inference_value(b->inference, from);
  const weft_gradient_var_t *var = b->facts[from.node->id].var;
  if (known != NULL) {
    WEFT_RETURN_IF_ERROR(weft_gradient_constant(b, (weft_tensor_t *)(uintptr_t)known, -1, loop->pivot, out));
  } else if (var != NULL && var->is_same) {
    WEFT_RETURN_IF_ERROR(constant_of_loop(b, loop, var->enter, out));
  } else if (var != NULL && from.node == var->merge && from.index == 0) {
    WEFT_RETURN_IF_ERROR(weft_gradient_value(b, loop, (weft_output_t){var->split, 1}, out));
  } else if (from.node == t.node && from.index == t.index) {
    return keep(b, loop, t, out);
  } else {
    WEFT_RETURN_IF_ERROR(weft_gradient_branch_of(b, from, &of_original));
    WEFT_RETURN_IF_ERROR(weft_gradient_value(b, loop, from, out));
  }
  return confine(b, loop, of_original, branch, out);
}

weft_status_t *weft_gradient_value(weft_gradient_build_t *b, weft_gradient_loop_t *loop, weft_output_t t,
                                   weft_output_t *out) {
  *out = t;
  if (loop == NULL) return NULL;
  weft_output_t *copies = b->facts[t.node->id].copies;
  if (copies == NULL) {
    copies = weft_arena_calloc(&b->scratch, (size_t)t.node->num_outputs, sizeof *copies);
    if (copies == NULL) return weft_gradient_no_memory();
    b->facts[t.node->id].copies = copies;
  }
  if (copies[t.index].node == NULL) WEFT_RETURN_IF_ERROR(make(b, loop, t, &copies[t.index]));
  *out = copies[t.index];
  return NULL;
}
