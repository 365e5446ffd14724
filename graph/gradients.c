/* graph/gradients.c - d(sum of ys)/d(xs) by reverse accumulation.
 *
 * Only nodes that lie between the xs and the ys matter. They are visited consumers
 * first, so when a node's turn comes, all gradients that flow into its outputs
 * have been added up; its op's gradient function turns them into those of its
 * inputs. Source: the procedure of TensorFlow's SymbolicGradientBuilder.
 */
#include "base/alloc.h"
#include "graph/passes.h"
#include "ops/gradient.h"

/* Gradients that flowed into one tensor, waiting to be added up. */
typedef struct gradient_flow gradient_flow_t;
struct gradient_flow {
  gradient_flow_t *next;
  weft_output_t gradient;
};

typedef struct gradient_build {
  weft_graph_t *g;
  weft_arena_t scratch;
  weft_inference_t *inference;
  weft_str_t prefix;   /* in the graph's arena */
  weft_str_t device;   /* of the node whose gradient is being built */
  int num_old;         /* ids of the graph before us */
  weft_node_t **order; /* owned; num_order, producers first */
  int num_order;
  uint8_t *from_x;          /* by old id: does some x reach the node's inputs, or is an output an x? */
  uint8_t *to_y;            /* by old id: does the node reach some y? */
  gradient_flow_t ***flows; /* by old id: NULL, or lists by output */
  const weft_output_t *xs;
  int num_xs;
} gradient_build_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("building gradients"); }

/* ---- adding nodes ---- */

static weft_status_t *add_node(gradient_build_t *b, const char *op, const weft_output_t *inputs,
                               int num_inputs, const weft_named_attr_t *attrs, int num_attrs,
                               weft_output_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s/%s", b->prefix.data, op);
  weft_str_t name = {NULL, 0};
  if (!text.failed) name = weft_graph_unique_name(b->g, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  if (name.data == NULL) return no_memory();
  const weft_node_spec_t spec = {.name = name,
                                 .op = weft_str(op),
                                 .device = b->device,
                                 .inputs = inputs,
                                 .num_inputs = num_inputs,
                                 .attrs = attrs,
                                 .num_attrs = num_attrs};
  weft_node_t *n = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_add(b->g, &spec, &n));
  *out = (weft_output_t){n, 0};
  return weft_inference_add(b->inference, n);
}

static weft_output_t to_output(weft_grad_value_t v) { return (weft_output_t){v.node, v.index}; }
static weft_grad_value_t to_value(weft_output_t o) { return (weft_grad_value_t){o.node, o.index}; }

static weft_status_t *builder_add(void *self, const char *op, const weft_grad_value_t *inputs, int num_inputs,
                                  const weft_named_attr_t *attrs, int num_attrs, weft_grad_value_t *out) {
  weft_output_t few[8] = {{NULL, 0}},
                *all = num_inputs <= 8 ? few : weft_calloc((size_t)num_inputs, sizeof *all);
  if (all == NULL) return no_memory();
  weft_output_t added = {NULL, 0};
  weft_status_t *s = NULL;
  for (int i = 0; i < num_inputs && s == NULL; i++) {
    all[i] = to_output(inputs[i]);
    if (all[i].node == NULL)
      s = WEFT_ERROR(INTERNAL, "a gradient needs a value that is not there, for '%s'", op);
  }
  if (s == NULL) s = add_node(self, op, all, num_inputs, attrs, num_attrs, &added);
  if (all != few) weft_free(all);
  if (s == NULL) *out = to_value(added);
  return s;
}

static weft_status_t *builder_constant(void *self, weft_tensor_t *tensor, weft_grad_value_t *out) {
  const weft_named_attr_t attrs[2] = {
      {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = (int)tensor->dtype}},
      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = tensor}}};
  weft_output_t added = {NULL, 0};
  WEFT_RETURN_IF_ERROR(add_node(self, "Const", NULL, 0, attrs, 2, &added));
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
  const gradient_build_t *b = self;
  return v.node == NULL ? NULL : weft_inference_value(b->inference, to_output(v));
}

static const weft_grad_builder_ops_t builder_ops = {builder_add, builder_constant, builder_dtype,
                                                    builder_shape, builder_value};

/* ---- which nodes matter ---- */

static bool is_x(const gradient_build_t *b, const weft_node_t *n, int output) {
  for (int i = 0; i < b->num_xs; i++) {
    if (b->xs[i].node == n && b->xs[i].index == output) return true;
  }
  return false;
}

/* mark of a node: 1 if one of its outputs is an x. */
static bool comes_from_x(const gradient_build_t *b, weft_output_t o) {
  if (b->from_x[o.node->id] != 0) return true;
  return o.node->mark != 0 && is_x(b, o.node, o.index);
}

static void mark_from_x(gradient_build_t *b) {
  for (int i = 0; i < b->num_order; i++) b->order[i]->mark = 0;
  for (int i = 0; i < b->num_xs; i++) b->xs[i].node->mark = 1;
  for (int i = 0; i < b->num_order; i++) {
    const weft_node_t *n = b->order[i];
    for (int k = 0; k < n->num_inputs && b->from_x[n->id] == 0; k++)
      b->from_x[n->id] = comes_from_x(b, n->inputs[k]);
  }
}

static void mark_to_y(gradient_build_t *b, const weft_output_t *ys, int num_ys) {
  for (int i = 0; i < num_ys; i++) b->to_y[ys[i].node->id] = 1;
  for (int i = b->num_order - 1; i >= 0; i--) {
    const weft_node_t *n = b->order[i];
    if (b->to_y[n->id] == 0) continue;
    for (int k = 0; k < n->num_inputs; k++) b->to_y[n->inputs[k].node->id] = 1;
  }
}

/* ---- flows ---- */

static weft_status_t *flow_into(gradient_build_t *b, weft_output_t tensor, weft_output_t gradient) {
  gradient_flow_t ***slots = &b->flows[tensor.node->id];
  if (*slots == NULL) {
    *slots = weft_arena_calloc(&b->scratch, (size_t)tensor.node->num_outputs, sizeof **slots);
    if (*slots == NULL) return no_memory();
  }
  gradient_flow_t *f = weft_arena_alloc(&b->scratch, sizeof *f);
  if (f == NULL) return no_memory();
  *f = (gradient_flow_t){(*slots)[tensor.index], gradient};
  (*slots)[tensor.index] = f;
  return NULL;
}

/* What has flowed into a tensor, added up; node NULL if nothing has. */
static weft_status_t *total(gradient_build_t *b, weft_output_t tensor, weft_output_t *out) {
  gradient_flow_t **slots = b->flows[tensor.node->id];
  gradient_flow_t *first = slots == NULL ? NULL : slots[tensor.index];
  *out = (weft_output_t){NULL, 0};
  if (first == NULL) return NULL;
  *out = first->gradient;
  if (first->next == NULL) return NULL;
  int n = 0;
  for (const gradient_flow_t *f = first; f != NULL; f = f->next) n++;
  weft_output_t *terms = weft_arena_alloc(&b->scratch, (size_t)n * sizeof *terms);
  if (terms == NULL) return no_memory();
  int at = n;
  for (const gradient_flow_t *f = first; f != NULL; f = f->next)
    terms[--at] = f->gradient; /* in the order they came */
  WEFT_RETURN_IF_ERROR(add_node(b, "AddN", terms, n, NULL, 0, out));
  *first = (gradient_flow_t){NULL, *out}; /* later requests get the same sum */
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

static weft_status_t *call_gradient(gradient_build_t *b, const weft_node_t *n, weft_grad_value_t *values,
                                    weft_grad_value_t **out_dx) {
  weft_grad_value_t *inputs = values, *outputs = inputs + n->num_inputs, *dy = outputs + n->num_outputs;
  weft_grad_value_t *dx = dy + n->num_outputs;
  bool has_dy = false;
  for (int i = 0; i < n->num_inputs; i++) inputs[i] = to_value(n->inputs[i]);
  for (int i = 0; i < n->num_outputs; i++) {
    weft_output_t sum;
    outputs[i] = (weft_grad_value_t){(void *)n, i};
    WEFT_RETURN_IF_ERROR(total(b, to_output(outputs[i]), &sum));
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

static weft_status_t *differentiate(gradient_build_t *b, const weft_node_t *n) {
  size_t num_values = (size_t)n->num_inputs * 2 + (size_t)n->num_outputs * 2;
  weft_grad_value_t *dx = NULL, *values = weft_arena_calloc(&b->scratch, num_values, sizeof *values);
  if (values == NULL) return no_memory();
  b->device = n->requested_device;
  WEFT_RETURN_IF_ERROR(call_gradient(b, n, values, &dx));
  for (int i = 0; i < n->num_inputs && dx != NULL; i++) {
    if (dx[i].node == NULL || !comes_from_x(b, n->inputs[i])) continue;
    WEFT_RETURN_IF_ERROR(flow_into(b, n->inputs[i], to_output(dx[i])));
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

static weft_status_t *choose_prefix(gradient_build_t *b, weft_str_t wanted) {
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
    for (int id = 0; id < b->g->num_nodes && !is_taken; id++) {
      const weft_node_t *n = b->g->nodes[id];
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
  b->prefix =
      text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(&b->g->arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return b->prefix.data == NULL ? no_memory() : NULL;
}

static weft_status_t *prepare(gradient_build_t *b) {
  b->num_old = b->g->num_nodes;
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(b->g, &b->order));
  b->num_order = b->g->num_live;
  WEFT_RETURN_IF_ERROR(weft_inference_create(b->g, &b->inference));
  for (int i = 0; i < b->num_order; i++) WEFT_RETURN_IF_ERROR(weft_inference_add(b->inference, b->order[i]));
  b->from_x = weft_arena_calloc(&b->scratch, (size_t)b->num_old, 1);
  b->to_y = weft_arena_calloc(&b->scratch, (size_t)b->num_old, 1);
  b->flows = weft_arena_calloc(&b->scratch, (size_t)b->num_old, sizeof *b->flows);
  return b->from_x == NULL || b->to_y == NULL || b->flows == NULL ? no_memory() : NULL;
}

static weft_status_t *start_flows(gradient_build_t *b, const weft_output_t *ys, int num_ys,
                                  const weft_output_t *dys) {
  for (int i = 0; i < num_ys; i++) {
    weft_output_t dy = {NULL, 0};
    b->device = ys[i].node->requested_device;
    if (dys != NULL) {
      dy = dys[i];
    } else {
      WEFT_RETURN_IF_ERROR(add_node(b, "OnesLike", &ys[i], 1, NULL, 0, &dy));
    }
    if (dy.node != NULL) WEFT_RETURN_IF_ERROR(flow_into(b, ys[i], dy));
  }
  return NULL;
}

static weft_status_t *run(gradient_build_t *b, const weft_output_t *ys, int num_ys, const weft_output_t *dys,
                          weft_output_t *out_dx) {
  WEFT_RETURN_IF_ERROR(prepare(b));
  mark_from_x(b);
  mark_to_y(b, ys, num_ys);
  WEFT_RETURN_IF_ERROR(start_flows(b, ys, num_ys, dys));
  for (int i = b->num_order - 1; i >= 0; i--) {
    const weft_node_t *n = b->order[i];
    if (b->from_x[n->id] != 0 && b->to_y[n->id] != 0 && b->flows[n->id] != NULL)
      WEFT_RETURN_IF_ERROR(differentiate(b, n));
  }
  for (int i = 0; i < b->num_xs; i++) {
    b->device = b->xs[i].node->requested_device;
    WEFT_RETURN_IF_ERROR(total(b, b->xs[i], &out_dx[i]));
  }
  return NULL;
}

weft_status_t *weft_graph_add_gradients(weft_graph_t *g, weft_str_t prefix, const weft_output_t *ys,
                                        int num_ys, const weft_output_t *xs, int num_xs,
                                        const weft_output_t *dys, weft_output_t *out_dx) {
  gradient_build_t b = {.g = g, .xs = xs, .num_xs = num_xs};
  weft_status_t *s = check_tensors(ys, num_ys, "y");
  if (s == NULL) s = check_tensors(xs, num_xs, "x");
  if (s == NULL) s = choose_prefix(&b, prefix);
  if (s == NULL) s = run(&b, ys, num_ys, dys, out_dx);
  weft_inference_destroy(b.inference);
  weft_free(b.order);
  weft_arena_deinit(&b.scratch);
  return s;
}
