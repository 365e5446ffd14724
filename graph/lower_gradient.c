/* graph/lower_gradient.c - SymbolicGradient becomes the nodes that compute the gradient of its function.
 *
 * The function's body is put into a graph of its own, with placeholders for its arguments and for the
 * gradients of its results; its calls are lowered, its gradients added, and all of that is copied to where
 * the node is. A function with a gradient of its own in the library is a call of that one. Source: the
 * semantics of TensorFlow's SymbolicGradientBuilder and InstantiateSymbolicGradient.
 */
#include "base/alloc.h"
#include "graph/attr_proto.h"
#include "graph/lower.h"
#include "graph/passes.h"

typedef struct gradient_site {
  weft_lowering_t *l;
  weft_node_t *n; /* the SymbolicGradient */
  const weft_func_attr_t *func;
  weft_graph_t *body;
  weft_arena_t scratch;
  weft_output_t *inputs; /* placeholders in `body`, one for each input of n */
  int num_args;          /* so many inputs are arguments, the others gradients of results */
  weft_output_t *dx;     /* num_args, in `body` */
} gradient_site_t;

static weft_status_t *no_memory(const gradient_site_t *s) {
  return WEFT_NO_MEMORY("lowering node '%s'", s->n->name.data);
}

static weft_str_t name_of(gradient_site_t *s, const char *what, int number) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_lower_put_name(s->l, s->n, &text);
  weft_strbuf_printf(&text, "/%s", what);
  if (number >= 0) weft_strbuf_printf(&text, "_%d", number);
  weft_str_t name =
      text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(&s->scratch, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return name;
}

static weft_status_t *add_placeholders(gradient_site_t *s) {
  s->inputs = weft_arena_calloc(&s->scratch, (size_t)s->n->num_inputs + 1, sizeof *s->inputs);
  if (s->inputs == NULL) return no_memory(s);
  for (int i = 0; i < s->n->num_inputs; i++) {
    weft_named_attr_t dtype = weft_type_attr("dtype", (int)weft_dtype_base(s->n->input_types[i]));
    weft_node_spec_t spec = {
        .name = name_of(s, "arg", i), .op = WEFT_STR("Placeholder"), .attrs = &dtype, .num_attrs = 1};
    if (spec.name.data == NULL) return no_memory(s);
    spec.device = s->n->requested_device;
    WEFT_RETURN_IF_ERROR(weft_graph_add(s->body, &spec, &s->inputs[i].node));
  }
  return NULL;
}

/* The function's results, computed in `body`: it is one of the library, or an op's name. */
static weft_status_t *add_function(gradient_site_t *s, const weft_output_t **out, int *out_n) {
  weft_str_t name = name_of(s, "f", -1);
  if (name.data == NULL) return no_memory(s);
  const weft_function_t *function = weft_function_find(s->body->library, s->func->name);
  if (function == NULL) {
    if (weft_op_find(s->func->name) == NULL) {
      return WEFT_ERROR(NOT_FOUND, "Node '%s': Failed to find function \"%s\" in function library",
                        s->n->name.data, s->func->name.data);
    }
    weft_node_spec_t spec = {.name = name,
                             .op = s->func->name,
                             .device = s->n->requested_device,
                             .inputs = s->inputs,
                             .num_inputs = s->num_args,
                             .attrs = s->func->attrs,
                             .num_attrs = s->func->num_attrs};
    weft_node_t *n = NULL;
    WEFT_RETURN_IF_ERROR(weft_graph_add(s->body, &spec, &n));
    weft_output_t *results = weft_arena_calloc(&s->scratch, (size_t)n->num_outputs + 1, sizeof *results);
    if (results == NULL) return no_memory(s);
    for (int i = 0; i < n->num_outputs; i++) results[i] = (weft_output_t){n, i};
    *out = results;
    *out_n = n->num_outputs;
    return NULL;
  }
  weft_inline_spec_t spec = {.name_bytes = &s->l->name_bytes,
                             .function = function,
                             .attrs = s->func->attrs,
                             .num_attrs = s->func->num_attrs,
                             .prefix = name,
                             .device = s->n->requested_device,
                             .args = s->inputs,
                             .num_args = s->num_args};
  weft_inlined_t inlined;
  WEFT_RETURN_IF_ERROR(weft_inline(s->body, &spec, &inlined));
  *out = inlined.results;
  *out_n = inlined.num_results;
  return s->l->nested(s->l, s->body, true);
}

static weft_status_t *add_gradients(gradient_site_t *s) {
  const weft_output_t *results = NULL;
  int num_results = 0;
  WEFT_RETURN_IF_ERROR(add_function(s, &results, &num_results));
  if (s->num_args + num_results != s->n->num_inputs) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Node '%s': %d inputs are not the %d arguments of function \"%s\" and gradients of its %d results",
        s->n->name.data, s->n->num_inputs, s->num_args, s->func->name.data, num_results);
  }
  s->dx = weft_arena_calloc(&s->scratch, (size_t)s->num_args + 1, sizeof *s->dx);
  weft_str_t prefix = name_of(s, "gradients", -1);
  if (s->dx == NULL || prefix.data == NULL) return no_memory(s);
  WEFT_RETURN_IF_ERROR(weft_graph_add_gradients(s->body, prefix, results, num_results, s->inputs, s->num_args,
                                                s->inputs + s->num_args, s->dx));
  WEFT_RETURN_IF_ERROR(s->l->nested(s->l, s->body, false));
  for (int i = 0; i < s->num_args; i++) {
    if (s->dx[i].node != NULL) continue;
    weft_node_spec_t zeros = {.name = name_of(s, "zeros", i),
                              .op = WEFT_STR("ZerosLike"),
                              .device = s->n->requested_device,
                              .inputs = &s->inputs[i],
                              .num_inputs = 1};
    if (zeros.name.data == NULL) return no_memory(s);
    WEFT_RETURN_IF_ERROR(weft_graph_add(s->body, &zeros, &s->dx[i].node));
  }
  return NULL;
}

/* ---- into the graph ---- */

static weft_output_t moved(const gradient_site_t *s, weft_node_t *const *copies, weft_output_t from) {
  for (int i = 0; i < s->n->num_inputs; i++) {
    if (from.node == s->inputs[i].node) return s->n->inputs[i];
  }
  return (weft_output_t){copies[from.node->id], from.index};
}

/* A copy of what the gradients need; a node without inputs waits for `gate`. */
static weft_status_t *copy_body(gradient_site_t *s, weft_node_t *gate, weft_node_t **copies) {
  for (int i = 0; i < s->n->num_inputs; i++) s->inputs[i].node->mark = -1;
  for (int id = 0; id < s->body->num_nodes; id++) {
    const weft_node_t *n = s->body->nodes[id];
    if (n != NULL && n->mark != -1)
      WEFT_RETURN_IF_ERROR(weft_graph_clone_node(s->l->g, s->body, n, &copies[id]));
  }
  for (int id = 0; id < s->body->num_nodes; id++) {
    const weft_node_t *n = s->body->nodes[id];
    if (n == NULL || copies[id] == NULL) continue;
    for (int i = 0; i < n->num_inputs; i++)
      weft_graph_set_input(copies[id], i, moved(s, copies, n->inputs[i]));
    for (int i = 0; i < n->num_controls; i++) {
      weft_node_t *from = moved(s, copies, (weft_output_t){n->controls[i], 0}).node;
      WEFT_RETURN_IF_ERROR(weft_graph_add_control(s->l->g, from, copies[id]));
    }
    if (gate != NULL && n->num_inputs + n->num_controls == 0)
      WEFT_RETURN_IF_ERROR(weft_graph_add_control(s->l->g, gate, copies[id]));
  }
  return NULL;
}

static weft_status_t *replace(gradient_site_t *s) {
  weft_node_t *gate = NULL, *done = NULL;
  size_t num_nodes = (size_t)s->body->num_nodes;
  weft_node_t **copies = weft_arena_calloc(&s->scratch, num_nodes, sizeof(*copies));
  weft_node_t **controls = weft_arena_calloc(&s->scratch, (size_t)s->num_args + 1, sizeof(*controls));
  if (copies == NULL || controls == NULL) return no_memory(s);
  for (int id = 0; id < s->body->num_nodes; id++) {
    if (s->body->nodes[id] != NULL) s->body->nodes[id]->mark = 0;
  }
  WEFT_RETURN_IF_ERROR(weft_lower_gate(s->l, s->n, &gate));
  WEFT_RETURN_IF_ERROR(copy_body(s, gate, copies));
  for (int i = 0; i < s->num_args; i++) {
    s->dx[i] = moved(s, copies, s->dx[i]);
    controls[i] = s->dx[i].node;
  }
  WEFT_RETURN_IF_ERROR(weft_lower_add_noop(s->l, s->n, "done", controls, s->num_args, &done));
  return weft_lower_finish(s->l, s->n, s->dx, s->num_args, done);
}

static weft_status_t *lower(gradient_site_t *s) {
  WEFT_RETURN_IF_ERROR(weft_graph_create(&s->body));
  weft_function_library_release(s->body->library);
  s->body->library = weft_function_library_retain(s->l->g->library);
  s->body->producer = s->l->g->producer;
  WEFT_RETURN_IF_ERROR(add_placeholders(s));
  WEFT_RETURN_IF_ERROR(add_gradients(s));
  return replace(s);
}

weft_str_t weft_lower_own_gradient(const weft_graph_t *g, weft_str_t function) {
  weft_str_t key, gradient = {NULL, 0};
  const weft_str_t *def = weft_map_get(&g->library->gradients, function);
  if (def == NULL || !weft_map_entry_read(*def, &key, &gradient) || gradient.length == 0)
    return (weft_str_t){NULL, 0};
  return gradient;
}

bool weft_lower_called(const weft_node_t *n, weft_func_attr_t *out) {
  *out = (weft_func_attr_t){.name = n->op->name, .attrs = n->attrs, .num_attrs = n->num_attrs};
  if (n->function != NULL) return true; /* the op is the function, its attributes are the node's */
  const weft_attr_t *f = (n->flags & WEFT_OP_CALL) == 0 ? NULL : weft_node_attr(n, "f");
  if (f == NULL || f->kind != WEFT_ATTR_FUNC || f->is_list) return false;
  *out = *f->func;
  return true;
}

weft_status_t *weft_lower_gradient(weft_lowering_t *l, weft_node_t *n) {
  gradient_site_t s = {.l = l, .n = n, .num_args = n->num_outputs};
  WEFT_RETURN_IF_ERROR(weft_lower_func_attr(n, "f", &s.func));
  weft_str_t own = weft_lower_own_gradient(l->g, s.func->name);
  if (own.data != NULL) {
    const weft_func_attr_t call = {.name = own, .attrs = s.func->attrs, .num_attrs = s.func->num_attrs};
    return weft_lower_call(l, n, &call, 0);
  }
  if (n->num_inputs < s.num_args) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Node '%s': %d inputs are fewer than the %d gradients asked for",
                      n->name.data, n->num_inputs, s.num_args);
  }
  weft_status_t *status = lower(&s);
  weft_graph_destroy(s.body);
  weft_arena_deinit(&s.scratch);
  return status;
}
