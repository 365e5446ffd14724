/* graph/gradients.c - d(sum of ys)/d(xs) by reverse accumulation.
 *
 * Calls, conditionals and loops that are functional ops become nodes of the graph
 * first, as they would when the graph is run. Only nodes that lie between the xs and the ys matter. They are
 * visited consumers first, so when a node's turn comes, all gradients that flow into its outputs have been
 * added up; its op's gradient function turns them into those of its inputs. Source: the procedure of
 * TensorFlow's SymbolicGradientBuilder.
 */
#include "base/alloc.h"
#include "graph/gradient_build.h"
#include "graph/lower.h"

weft_status_t *weft_gradient_no_memory(void) { return WEFT_NO_MEMORY("building gradients"); }

/* ---- adding nodes ---- */

/* Room for what is known of each node of the graph. */
static weft_status_t *reserve_facts(weft_gradient_build_t *b) {
  if (b->g->num_nodes <= b->capacity) return NULL;
  int capacity = b->g->num_nodes + b->g->num_nodes / 2 + 16;
  weft_gradient_fact_t *facts = weft_realloc(b->facts, (size_t)capacity, sizeof *facts);
  if (facts == NULL) return weft_gradient_no_memory();
  memset(facts + b->capacity, 0, (size_t)(capacity - b->capacity) * sizeof *facts);
  b->facts = facts;
  b->capacity = capacity;
  return NULL;
}

weft_status_t *weft_gradient_add(weft_gradient_build_t *b, const weft_gradient_node_t *spec,
                                 weft_output_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s/%s", b->prefix.data, spec->op);
  weft_str_t name = {NULL, 0};
  if (!text.failed) name = weft_graph_unique_name(b->g, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  if (name.data == NULL) return weft_gradient_no_memory();
  const weft_node_spec_t whole = {.name = name,
                                  .op = weft_str(spec->op),
                                  .device = b->device,
                                  .inputs = spec->inputs,
                                  .num_inputs = spec->num_inputs,
                                  .controls = &spec->control,
                                  .num_controls = spec->control != NULL,
                                  .attrs = spec->attrs,
                                  .num_attrs = spec->num_attrs};
  weft_node_t *n = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_add(b->g, &whole, &n));
  WEFT_RETURN_IF_ERROR(reserve_facts(b));
  *out = (weft_output_t){n, 0};
  return weft_inference_add(b->inference, n);
}

/* What is asked of nothing but a loop's values' shapes is asked in the loop, so that no more is kept of them.
 */
static bool belongs_to_loop(const weft_gradient_build_t *b, const weft_gradient_node_t *spec) {
  const weft_op_def_t *op = weft_op_find(weft_str(spec->op));
  bool belongs = b->loop != NULL && op != NULL && (op->flags & WEFT_OP_METADATA) != 0;
  for (int i = 0; i < spec->num_inputs && belongs; i++)
    belongs = weft_gradient_is_forward(b, spec->inputs[i].node);
  return belongs;
}

/* The values that it takes, in `inputs`. */
static weft_status_t *add_translated(weft_gradient_build_t *b, const weft_gradient_node_t *spec,
                                     weft_output_t *inputs, weft_output_t *out) {
  for (int i = 0; i < spec->num_inputs; i++) {
    inputs[i] = spec->inputs[i];
    if (weft_gradient_is_forward(b, inputs[i].node))
      WEFT_RETURN_IF_ERROR(weft_gradient_value(b, b->loop, inputs[i], &inputs[i]));
  }
  weft_gradient_node_t translated = *spec;
  translated.inputs = inputs;
  if (spec->num_inputs == 0) translated.control = b->loop->pivot;
  return weft_gradient_add(b, &translated, out);
}

weft_status_t *weft_gradient_node(weft_gradient_build_t *b, const char *op, const weft_output_t *inputs,
                                  int num_inputs, const weft_named_attr_t *attrs, int num_attrs,
                                  weft_output_t *out) {
  const weft_gradient_node_t spec = {
      .op = op, .inputs = inputs, .num_inputs = num_inputs, .attrs = attrs, .num_attrs = num_attrs};
  if (b->loop == NULL) return weft_gradient_add(b, &spec, out);
  if (belongs_to_loop(b, &spec)) return weft_gradient_add_forward(b, b->loop->frame, &spec, out);
  weft_output_t few[8] = {{NULL, 0}};
  weft_output_t *all = num_inputs <= 8 ? few : weft_calloc((size_t)num_inputs, sizeof *all);
  if (all == NULL) return weft_gradient_no_memory();
  weft_status_t *s = add_translated(b, &spec, all, out);
  if (all != few) weft_free(all);
  return s;
}

static weft_output_t to_output(weft_grad_value_t v) { return (weft_output_t){v.node, v.index}; }
static weft_grad_value_t to_value(weft_output_t o) { return (weft_grad_value_t){o.node, o.index}; }

static weft_status_t *builder_add(void *self, const char *op, const weft_grad_value_t *inputs, int num_inputs,
                                  const weft_named_attr_t *attrs, int num_attrs, weft_grad_value_t *out) {
  weft_output_t few[8] = {{NULL, 0}},
                *all = num_inputs <= 8 ? few : weft_calloc((size_t)num_inputs, sizeof *all);
  if (all == NULL) return weft_gradient_no_memory();
  weft_output_t added = {NULL, 0};
  weft_status_t *s = NULL;
  for (int i = 0; i < num_inputs && s == NULL; i++) {
    all[i] = to_output(inputs[i]);
    if (all[i].node == NULL)
      s = WEFT_ERROR(INTERNAL, "a gradient needs a value that is not there, for '%s'", op);
  }
  if (s == NULL) s = weft_gradient_node(self, op, all, num_inputs, attrs, num_attrs, &added);
  if (all != few) weft_free(all);
  if (s == NULL) *out = to_value(added);
  return s;
}

static weft_status_t *builder_constant(void *self, weft_tensor_t *tensor, weft_grad_value_t *out) {
  const weft_named_attr_t attrs[2] = {
      {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = (int)tensor->dtype}},
      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = tensor}}};
  weft_output_t added = {NULL, 0};
  WEFT_RETURN_IF_ERROR(weft_gradient_node(self, "Const", NULL, 0, attrs, 2, &added));
  *out = to_value(added);
  return NULL;
}

static int builder_dtype(void *self, weft_grad_value_t v) {
  (void)self;
  const weft_node_t *n = v.node;
  return n == NULL ? 0 : (int)weft_dtype_base(n->output_types[v.index]);
}

static weft_shape_t builder_shape(void *self, weft_grad_value_t v) {
  (void)self;
  const weft_node_t *n = v.node;
  return n == NULL || n->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : n->output_shapes[v.index];
}

static const weft_tensor_t *builder_value(void *self, weft_grad_value_t v) {
  const weft_gradient_build_t *b = self;
  return v.node == NULL ? NULL : weft_inference_value(b->inference, to_output(v));
}

static const weft_grad_builder_ops_t builder_ops = {builder_add, builder_constant, builder_dtype,
                                                    builder_shape, builder_value};

/* ---- which nodes matter ---- */

static bool is_x(const weft_gradient_build_t *b, const weft_node_t *n, int output) {
  for (int i = 0; i < b->num_xs; i++) {
    if (b->xs[i].node == n && b->xs[i].index == output) return true;
  }
  return false;
}

/* mark of a node: 1 if one of its outputs is an x. */
bool weft_gradient_comes_from_x(const weft_gradient_build_t *b, weft_output_t o) {
  if (b->from_x[o.node->id] != 0) return true;
  return o.node->mark != 0 && is_x(b, o.node, o.index);
}

/* Marks are never taken back, and a pass that sets no more is the last: loops may need more than one. */
static void mark_from_x(weft_gradient_build_t *b) {
  bool has_changed = true;
  for (int i = 0; i < b->num_order; i++) b->order[i]->mark = 0;
  for (int i = 0; i < b->num_xs; i++) b->xs[i].node->mark = 1;
  while (has_changed) {
    has_changed = false;
    for (int i = 0; i < b->num_order; i++) {
      const weft_node_t *n = b->order[i];
      for (int k = 0; k < n->num_inputs && b->from_x[n->id] == 0; k++) {
        b->from_x[n->id] = weft_gradient_comes_from_x(b, n->inputs[k]);
        bool is_way_back = (n->flags & WEFT_OP_NEXT_ITERATION) != 0;
        has_changed |= is_way_back && b->from_x[n->id] != 0;
      }
    }
  }
}

static void mark_to_y(weft_gradient_build_t *b, const weft_output_t *ys, int num_ys) {
  bool has_changed = true;
  for (int i = 0; i < num_ys; i++) b->to_y[ys[i].node->id] = 1;
  while (has_changed) {
    has_changed = false;
    for (int i = b->num_order - 1; i >= 0; i--) {
      const weft_node_t *n = b->order[i];
      for (int k = 0; k < n->num_inputs && b->to_y[n->id] != 0; k++) {
        const weft_node_t *from = n->inputs[k].node;
        has_changed |= (from->flags & WEFT_OP_NEXT_ITERATION) != 0 && b->to_y[from->id] == 0;
        b->to_y[from->id] = 1;
      }
    }
  }
}

/* Does a gradient flow through the node, or a loop's variable? */
static bool matters(const weft_gradient_build_t *b, const weft_node_t *n) {
  return b->from_x[n->id] != 0 && b->to_y[n->id] != 0;
}

/* ---- flows ---- */

weft_status_t *weft_gradient_flow_into(weft_gradient_build_t *b, weft_output_t tensor,
                                       weft_output_t gradient) {
  weft_gradient_flow_t ***slots = &b->facts[tensor.node->id].flows;
  if (*slots == NULL) {
    *slots = weft_arena_calloc(&b->scratch, (size_t)tensor.node->num_outputs, sizeof **slots);
    if (*slots == NULL) return weft_gradient_no_memory();
  }
  weft_gradient_flow_t *f = weft_arena_alloc(&b->scratch, sizeof *f);
  if (f == NULL) return weft_gradient_no_memory();
  *f = (weft_gradient_flow_t){(*slots)[tensor.index], gradient};
  (*slots)[tensor.index] = f;
  return NULL;
}

/* What has flowed into a tensor, added up; node NULL if nothing has. */
weft_status_t *weft_gradient_total(weft_gradient_build_t *b, weft_output_t tensor, weft_output_t *out) {
  weft_gradient_flow_t **slots = b->facts[tensor.node->id].flows;
  weft_gradient_flow_t *first = slots == NULL ? NULL : slots[tensor.index];
  *out = (weft_output_t){NULL, 0};
  if (first == NULL) return NULL;
  *out = first->gradient;
  if (first->next == NULL) return NULL;
  int n = 0;
  for (const weft_gradient_flow_t *f = first; f != NULL; f = f->next) n++;
  weft_output_t *terms = weft_arena_alloc(&b->scratch, (size_t)n * sizeof *terms);
  if (terms == NULL) return weft_gradient_no_memory();
  int at = n;
  for (const weft_gradient_flow_t *f = first; f != NULL; f = f->next)
    terms[--at] = f->gradient; /* in the order they came */
  WEFT_RETURN_IF_ERROR(weft_gradient_node(b, "AddN", terms, n, NULL, 0, out));
  *first = (weft_gradient_flow_t){NULL, *out}; /* later requests get the same sum */
  return NULL;
}

/* ---- one node ---- */

static weft_status_t *no_gradient(const weft_node_t *n) {
  return WEFT_ERROR(
      NOT_FOUND,
      "No gradient defined for op: %.*s. Please see "
      "https://www.tensorflow.org/code/tensorflow/cc/gradients/README.md for instructions on how to add C++ "
      "gradients. (node '%s')",
      WEFT_STR_ARGS(n->op->name), n->name.data);
}

static weft_status_t *call_gradient(weft_gradient_build_t *b, const weft_node_t *n, weft_grad_value_t *values,
                                    weft_grad_value_t **out_dx) {
  weft_grad_value_t *inputs = values, *outputs = inputs + n->num_inputs, *dy = outputs + n->num_outputs;
  weft_grad_value_t *dx = dy + n->num_outputs;
  bool has_dy = false;
  for (int i = 0; i < n->num_inputs; i++) inputs[i] = to_value(n->inputs[i]);
  for (int i = 0; i < n->num_outputs; i++) {
    weft_output_t sum;
    outputs[i] = (weft_grad_value_t){(void *)n, i};
    WEFT_RETURN_IF_ERROR(weft_gradient_total(b, to_output(outputs[i]), &sum));
    dy[i] = to_value(sum);
    has_dy |= sum.node != NULL;
  }
  *out_dx = NULL;
  if (!has_dy) return NULL;
  if (n->op->gradient == NULL) return no_gradient(n);
  weft_grad_ctx_t c = {.ops = &builder_ops,
                       .self = b,
                       .op = n->op,
                       .node_name = n->name,
                       .scope = b->prefix,
                       .attrs = n->attrs,
                       .num_attrs = n->num_attrs,
                       .num_inputs = n->num_inputs,
                       .num_outputs = n->num_outputs,
                       .inputs = inputs,
                       .outputs = outputs,
                       .dy = dy,
                       .dx = dx};
  *out_dx = dx;
  weft_status_t *s = n->op->gradient(&c);
  return weft_status_annotate(s, "in the gradient of node '%s' (op %.*s)", n->name.data,
                              WEFT_STR_ARGS(n->op->name));
}

/* A call of a function that has a gradient of its own: a call of that, with what the function took and the
 * gradients of what it gave. */
static weft_status_t *call_own_gradient(weft_gradient_build_t *b, const weft_node_t *n,
                                        weft_func_attr_t *called, weft_output_t *dx) {
  int num_inputs = n->num_inputs + n->num_outputs;
  weft_output_t *inputs = weft_arena_calloc(&b->scratch, (size_t)num_inputs + 1, sizeof *inputs), node;
  int *types = weft_arena_calloc(&b->scratch, (size_t)num_inputs + 1, sizeof *types);
  if (inputs == NULL || types == NULL) return weft_gradient_no_memory();
  for (int i = 0; i < num_inputs; i++) {
    weft_output_t output = {(weft_node_t *)(uintptr_t)n, i - n->num_inputs};
    if (i < n->num_inputs) {
      inputs[i] = n->inputs[i];
    } else {
      WEFT_RETURN_IF_ERROR(weft_gradient_total(b, output, &inputs[i]));
      if (inputs[i].node == NULL)
        WEFT_RETURN_IF_ERROR(weft_gradient_node(b, "ZerosLike", &output, 1, NULL, 0, &inputs[i]));
    }
    types[i] = weft_gradient_dtype(inputs[i]);
  }
  const weft_named_attr_t attrs[] = {
      {WEFT_STR("Tin"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = num_inputs, .list.types = types}},
      {WEFT_STR("Tout"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = n->num_inputs, .list.types = types}},
      {WEFT_STR("f"), {.kind = WEFT_ATTR_FUNC, .func = called}}};
  WEFT_RETURN_IF_ERROR(weft_gradient_node(b, "SymbolicGradient", inputs, num_inputs, attrs, 3, &node));
  for (int i = 0; i < n->num_inputs; i++) dx[i] = (weft_output_t){node.node, i};
  return NULL;
}

static weft_status_t *differentiate_call(weft_gradient_build_t *b, const weft_node_t *n,
                                         weft_func_attr_t *called) {
  weft_output_t *dx = weft_arena_calloc(&b->scratch, (size_t)n->num_inputs + 1, sizeof *dx);
  if (dx == NULL) return weft_gradient_no_memory();
  b->device = n->requested_device;
  WEFT_RETURN_IF_ERROR(call_own_gradient(b, n, called, dx));
  for (int i = 0; i < n->num_inputs; i++) {
    if (weft_gradient_comes_from_x(b, n->inputs[i]))
      WEFT_RETURN_IF_ERROR(weft_gradient_flow_into(b, n->inputs[i], dx[i]));
  }
  return NULL;
}

static weft_status_t *differentiate(weft_gradient_build_t *b, const weft_node_t *n) {
  weft_func_attr_t called;
  if ((n->flags & WEFT_OP_FUNCTIONAL) != 0 && weft_lower_called(n, &called))
    return differentiate_call(b, n, &called);
  size_t num_values = (size_t)n->num_inputs * 2 + (size_t)n->num_outputs * 2;
  weft_grad_value_t *dx = NULL, *values = weft_arena_calloc(&b->scratch, num_values, sizeof *values);
  if (values == NULL) return weft_gradient_no_memory();
  b->device = n->requested_device;
  WEFT_RETURN_IF_ERROR(call_gradient(b, n, values, &dx));
  for (int i = 0; i < n->num_inputs && dx != NULL; i++) {
    weft_output_t gradient = to_output(dx[i]);
    if (gradient.node == NULL || !weft_gradient_comes_from_x(b, n->inputs[i])) continue;
    if (weft_gradient_is_forward(b, gradient.node))
      WEFT_RETURN_IF_ERROR(weft_gradient_value(b, b->loop, gradient, &gradient));
    WEFT_RETURN_IF_ERROR(weft_gradient_flow_into(b, n->inputs[i], gradient));
  }
  return NULL;
}

/* ---- all of it ---- */

static weft_status_t *check_tensors(const weft_output_t *all, int n, const char *what) {
  for (int i = 0; i < n; i++) {
    const weft_node_t *node = all[i].node;
    if (node != NULL && all[i].index >= 0 && all[i].index < node->num_outputs) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s %d of the gradients is not a tensor of the graph", what, i);
  }
  return NULL;
}

static weft_status_t *choose_prefix(weft_graph_t *g, weft_str_t wanted, weft_str_t *out) {
  weft_str_t base = wanted.data == NULL ? WEFT_STR("gradients") : wanted;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  bool is_taken = true;
  for (int number = 0; is_taken; number++) {
    text.length = 0;
    weft_strbuf_append(&text, base);
    if (number > 0) weft_strbuf_printf(&text, "_%d", number);
    size_t length = text.length;
    weft_strbuf_putc(&text, '/');
    if (text.failed) break;
    is_taken = false;
    for (int id = 0; id < g->num_nodes && !is_taken; id++) {
      const weft_node_t *n = g->nodes[id];
      if (n == NULL) continue;
      is_taken =
          weft_str_eq(n->name, weft_str_of(text.data, length)) || weft_str_starts_with(n->name, text.data);
      if (!is_taken || wanted.data == NULL) continue;
      weft_strbuf_deinit(&text);
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "prefix [%.*s] conflicts with existing node in the graph named [%s]",
                        WEFT_STR_ARGS(wanted), n->name.data);
    }
    text.length = length;
  }
  *out = text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(g->arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return out->data == NULL ? weft_gradient_no_memory() : NULL;
}

static weft_status_t *mark(weft_gradient_build_t *b, const weft_output_t *ys, int num_ys) {
  b->num_old = b->g->num_nodes;
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(b->g, &b->order));
  b->num_order = b->g->num_live;
  b->from_x = weft_arena_calloc(&b->scratch, (size_t)b->num_old, 1);
  b->to_y = weft_arena_calloc(&b->scratch, (size_t)b->num_old, 1);
  if (b->from_x == NULL || b->to_y == NULL) return weft_gradient_no_memory();
  mark_from_x(b);
  mark_to_y(b, ys, num_ys);
  return reserve_facts(b);
}

static weft_status_t *infer(weft_gradient_build_t *b) {
  WEFT_RETURN_IF_ERROR(weft_inference_create(b->g, &b->inference));
  for (int i = 0; i < b->num_order; i++) WEFT_RETURN_IF_ERROR(weft_inference_add(b->inference, b->order[i]));
  return NULL;
}

/* Loops through which gradients flow. What has no loops is one level, in the graph's order. */
static weft_status_t *find_loops(weft_gradient_build_t *b, const weft_output_t *ys, int num_ys) {
  bool has_loops = false;
  for (int i = 0; i < b->num_order && !has_loops; i++)
    has_loops = (b->order[i]->flags & WEFT_OP_NEXT_ITERATION) != 0 && matters(b, b->order[i]);
  for (int i = 0; i < b->num_order && !has_loops; i++)
    has_loops = (b->order[i]->flags & WEFT_OP_EXIT) != 0 && matters(b, b->order[i]);
  if (!has_loops) return NULL;
  WEFT_RETURN_IF_ERROR(weft_pass_infer_loop_shapes(b->g));
  WEFT_RETURN_IF_ERROR(weft_gradient_find_levels(b));
  for (int i = 0; i < num_ys + b->num_xs; i++) {
    const weft_node_t *n = i < num_ys ? ys[i].node : b->xs[i - num_ys].node;
    if (b->facts[n->id].frame == 0 || (n->flags & WEFT_OP_EXIT) != 0) continue;
    return WEFT_ERROR(UNIMPLEMENTED, "node '%s' is within a loop: only what is outside has gradients",
                      n->name.data);
  }
  return NULL;
}

weft_status_t *weft_gradient_run_level(weft_gradient_build_t *b, int frame) {
  int num = b->has_loops ? b->levels[frame].num : b->num_order;
  for (int i = num - 1; i >= 0; i--) {
    const weft_node_t *n = b->has_loops ? b->levels[frame].steps[i].node : b->order[i];
    if (n == NULL) {
      WEFT_RETURN_IF_ERROR(weft_gradient_of_loop(b, b->levels[frame].steps[i].loop));
    } else if (matters(b, n) && b->facts[n->id].flows != NULL) {
      WEFT_RETURN_IF_ERROR(differentiate(b, n));
    }
  }
  return NULL;
}

static weft_status_t *start_flows(weft_gradient_build_t *b, const weft_output_t *ys, int num_ys,
                                  const weft_output_t *dys) {
  for (int i = 0; i < num_ys; i++) {
    weft_output_t dy = {NULL, 0};
    b->device = ys[i].node->requested_device;
    if (dys != NULL) {
      dy = dys[i];
    } else {
      WEFT_RETURN_IF_ERROR(weft_gradient_node(b, "OnesLike", &ys[i], 1, NULL, 0, &dy));
    }
    if (dy.node != NULL) WEFT_RETURN_IF_ERROR(weft_gradient_flow_into(b, ys[i], dy));
  }
  return NULL;
}

static void deinit(weft_gradient_build_t *b) {
  weft_inference_destroy(b->inference);
  weft_free(b->order);
  weft_free(b->facts);
  weft_arena_deinit(&b->scratch);
  *b = (weft_gradient_build_t){.g = NULL};
}

/* Of a graph whose calls, as far as they matter, have become nodes. */
static weft_status_t *build(weft_graph_t *g, weft_str_t prefix, const weft_output_t *ys, int num_ys,
                            const weft_output_t *xs, int num_xs, const weft_output_t *dys,
                            weft_output_t *out_dx) {
  weft_gradient_build_t b = {.g = g, .prefix = prefix, .xs = xs, .num_xs = num_xs};
  weft_status_t *s = mark(&b, ys, num_ys);
  if (s == NULL) s = infer(&b);
  if (s == NULL) s = find_loops(&b, ys, num_ys);
  if (s == NULL) s = start_flows(&b, ys, num_ys, dys);
  if (s == NULL) s = weft_gradient_run_level(&b, 0);
  for (int i = 0; i < num_xs && s == NULL; i++) {
    b.device = xs[i].node->requested_device;
    s = weft_gradient_total(&b, xs[i], &out_dx[i]);
  }
  deinit(&b);
  return s;
}

/* ---- calls, conditionals and loops of functions ---- */

/* Which nodes must become others before the graph can be differentiated: by id; NULL: none. Owned. */
static weft_status_t *find_calls(weft_graph_t *g, const weft_output_t *ys, int num_ys,
                                 const weft_output_t *xs, int num_xs, uint8_t **out) {
  bool has_calls = false;
  *out = NULL;
  for (int id = 0; id < g->num_nodes && !has_calls; id++)
    has_calls = g->nodes[id] != NULL && (g->nodes[id]->flags & WEFT_OP_FUNCTIONAL) != 0;
  if (!has_calls) return NULL;
  weft_gradient_build_t b = {.g = g, .xs = xs, .num_xs = num_xs};
  uint8_t *which = weft_calloc((size_t)g->num_nodes, 1);
  weft_status_t *s = which == NULL ? weft_gradient_no_memory() : mark(&b, ys, num_ys);
  has_calls = false;
  for (int i = 0; i < b.num_order && s == NULL; i++) {
    const weft_node_t *n = b.order[i];
    weft_func_attr_t called;
    bool has_own = weft_lower_called(n, &called) && weft_lower_own_gradient(g, called.name).data != NULL;
    which[n->id] = (n->flags & WEFT_OP_FUNCTIONAL) != 0 && !has_own && matters(&b, n);
    has_calls |= which[n->id] != 0;
  }
  deinit(&b);
  if (s == NULL && has_calls) {
    *out = which;
  } else {
    weft_free(which);
  }
  return s;
}

static void counterparts(const weft_graph_t *copy, const weft_output_t *from, int n, weft_output_t *to) {
  for (int i = 0; i < n; i++) {
    to[i] = from[i];
    if (from[i].node != NULL) to[i].node = weft_graph_find(copy, from[i].node->name);
  }
}

/* Does all of it on a copy: a graph in which lowering has failed is of no use, and the caller's must be. */
static weft_status_t *try_on_copy(const weft_graph_t *g, weft_str_t prefix, const weft_output_t *ys,
                                  int num_ys, const weft_output_t *xs, int num_xs, const weft_output_t *dys) {
  weft_graph_t *copy = NULL;
  uint8_t *calls = NULL;
  weft_output_t *all = weft_calloc((size_t)num_ys * 2 + (size_t)num_xs * 2 + 1, sizeof *all);
  weft_status_t *s = all == NULL ? weft_gradient_no_memory() : weft_graph_copy(g, &copy);
  if (s == NULL) {
    weft_output_t *y = all, *x = y + num_ys, *dy = x + num_xs, *dx = dy + num_ys;
    counterparts(copy, ys, num_ys, y);
    counterparts(copy, xs, num_xs, x);
    if (dys != NULL) counterparts(copy, dys, num_ys, dy);
    s = find_calls(copy, y, num_ys, x, num_xs, &calls);
    if (s == NULL) s = weft_pass_lower_some(copy, calls, prefix);
    if (s == NULL) s = build(copy, prefix, y, num_ys, x, num_xs, dys == NULL ? NULL : dy, dx);
  }
  weft_free(calls);
  weft_free(all);
  weft_graph_destroy(copy);
  return s;
}

weft_status_t *weft_graph_add_gradients(weft_graph_t *g, weft_str_t prefix, const weft_output_t *ys,
                                        int num_ys, const weft_output_t *xs, int num_xs,
                                        const weft_output_t *dys, weft_output_t *out_dx) {
  uint8_t *calls = NULL;
  weft_str_t scope = {NULL, 0};
  WEFT_RETURN_IF_ERROR(check_tensors(ys, num_ys, "y"));
  WEFT_RETURN_IF_ERROR(check_tensors(xs, num_xs, "x"));
  WEFT_RETURN_IF_ERROR(choose_prefix(g, prefix, &scope));
  WEFT_RETURN_IF_ERROR(find_calls(g, ys, num_ys, xs, num_xs, &calls));
  weft_status_t *s = NULL;
  if (calls != NULL) {
    s = try_on_copy(g, scope, ys, num_ys, xs, num_xs, dys);
    if (s == NULL) s = weft_pass_lower_some(g, calls, scope);
    weft_free(calls);
  }
  return s != NULL ? s : build(g, scope, ys, num_ys, xs, num_xs, dys, out_dx);
}
