/* graph/call_body.c - what a call calls, as a graph in which its shapes are inferred. */
#include <stdio.h>

#include "base/alloc.h"
#include "graph/call_body.h"
#include "graph/node_build.h"

static weft_status_t *no_memory(const weft_node_t *n) {
  return WEFT_NO_MEMORY("inferring shapes of the call '%s'", n->name.data);
}

/* What a node calls; name.data is NULL if it calls nothing, or nothing that is known. */
static weft_func_attr_t callee(const weft_node_t *n) {
  if (n->function != NULL)
    return (weft_func_attr_t){.name = n->function->name, .attrs = n->attrs, .num_attrs = n->num_attrs};
  const weft_attr_t *f = weft_node_attr(n, "f");
  bool is_call = (n->flags & WEFT_OP_CALL) != 0 && f != NULL && f->kind == WEFT_ATTR_FUNC && !f->is_list;
  return is_call ? *f->func : (weft_func_attr_t){.name = {NULL, 0}};
}

/* Placeholders with what is known of the call's inputs: the first nodes of the body. */
static weft_status_t *add_arguments(weft_call_body_t *b, const weft_node_t *n, const weft_shape_ctx_t *c) {
  b->args = weft_arena_calloc(b->graph->arena, (size_t)c->num_inputs + 1, sizeof *b->args);
  if (b->args == NULL) return no_memory(n);
  for (int i = 0; i < c->num_inputs; i++) {
    char name[32];
    snprintf(name, sizeof name, "_arg_%d", i);
    weft_named_attr_t dtype = weft_type_attr("dtype", (int)weft_dtype_base(c->input_types[i]));
    weft_node_spec_t spec = {.name = weft_arena_str(b->graph->arena, weft_str(name)),
                             .op = WEFT_STR("Placeholder"),
                             .attrs = &dtype,
                             .num_attrs = 1};
    if (spec.name.data == NULL) return no_memory(n);
    weft_node_t *arg;
    WEFT_RETURN_IF_ERROR(weft_graph_add(b->graph, &spec, &arg));
    arg->output_shapes = weft_graph_intern_shape(b->graph, &c->inputs[i]);
    if (arg->output_shapes == NULL) return no_memory(n);
    b->args[i] = (weft_output_t){arg, 0};
  }
  return NULL;
}

static weft_status_t *check_ops(const weft_call_body_t *b, const weft_function_t *function) {
  for (int i = 0; i < b->inlined.num_body; i++) {
    const weft_node_t *n = b->inlined.body[i];
    if ((n->flags & WEFT_OP_UNREGISTERED) == 0) continue;
    return WEFT_ERROR(NOT_FOUND, "Op type not registered '%.*s' in function '%s'", WEFT_STR_ARGS(n->op->name),
                      function->name.data);
  }
  return NULL;
}

static weft_status_t *fill(weft_call_body_t *b, const weft_graph_t *g, const weft_node_t *n,
                           const weft_func_attr_t *func, const weft_function_t *function,
                           const weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_graph_create(&b->graph));
  weft_function_library_release(b->graph->library);
  b->graph->library = weft_function_library_retain(g->library);
  b->graph->producer = g->producer;
  WEFT_RETURN_IF_ERROR(add_arguments(b, n, c));
  weft_inline_spec_t spec = {.function = function,
                             .attrs = func->attrs,
                             .num_attrs = func->num_attrs,
                             .prefix = WEFT_STR("body"),
                             .device = WEFT_STR(""),
                             .args = b->args,
                             .num_args = c->num_inputs};
  WEFT_RETURN_IF_ERROR(weft_inline(b->graph, &spec, &b->inlined));
  return check_ops(b, function);
}

weft_status_t *weft_call_body_create(const weft_graph_t *g, const weft_node_t *n, const weft_shape_ctx_t *c,
                                     weft_call_body_t **out) {
  *out = NULL;
  weft_func_attr_t func = callee(n);
  if (func.name.data == NULL) return NULL;
  const weft_function_t *function = weft_function_find(g->library, func.name);
  if (function == NULL || weft_node_attr_bool(n, "_disable_call_shape_inference", false)) return NULL;
  weft_call_body_t *b = weft_calloc(1, sizeof *b);
  if (b == NULL) return no_memory(n);
  weft_status_t *s = fill(b, g, n, &func, function, c);
  if (s == NULL) {
    *out = b;
  } else {
    weft_call_body_destroy(b);
  }
  return s;
}

void weft_call_body_destroy(weft_call_body_t *b) {
  if (b == NULL) return;
  weft_graph_destroy(b->graph);
  weft_free(b);
}
