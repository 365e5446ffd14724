/* graph/infer_call.c - shapes through calls of functions.
 *
 * The function's body is put into a graph of its own, with placeholders for its arguments that have the
 * shapes and handles of the call's inputs, and shapes are inferred there. Values of constants do not pass
 * into a body. Source: the behaviour of TensorFlow's ShapeRefiner::InferShapesForFunction.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "graph/infer.h"
#include "graph/inline.h"
#include "graph/node_build.h"
#include "graph/passes.h"

/* A body that calls itself has no end; TensorFlow's stack ends some thousand calls deep. */
enum { MAX_DEPTH = 64 };

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

typedef struct infer_call {
  const weft_node_t *n;
  const weft_function_t *function;
  weft_func_attr_t func;
  weft_graph_t *body;
  weft_inference_t *inference; /* of `body` */
  weft_arena_t scratch;
  weft_output_t *args; /* one for each input of n */
} infer_call_t;

/* Placeholders with what is known of the call's inputs. */
static weft_status_t *add_arguments(infer_call_t *k, const weft_shape_ctx_t *c) {
  k->args = weft_arena_calloc(&k->scratch, (size_t)c->num_inputs + 1, sizeof *k->args);
  if (k->args == NULL) return no_memory(k->n);
  for (int i = 0; i < c->num_inputs; i++) {
    char name[32];
    snprintf(name, sizeof name, "_arg_%d", i);
    weft_named_attr_t dtype = weft_type_attr("dtype", (int)weft_dtype_base(c->input_types[i]));
    weft_node_spec_t spec = {.name = weft_arena_str(&k->body->arena, weft_str(name)),
                             .op = WEFT_STR("Placeholder"),
                             .attrs = &dtype,
                             .num_attrs = 1};
    if (spec.name.data == NULL) return no_memory(k->n);
    WEFT_RETURN_IF_ERROR(weft_graph_add(k->body, &spec, &k->args[i].node));
    k->args[i].node->output_shapes = weft_graph_intern_shape(k->body, &c->inputs[i]);
    if (k->args[i].node->output_shapes == NULL) return no_memory(k->n);
    if (c->handle_types[i] != 0)
      WEFT_RETURN_IF_ERROR(
          weft_inference_set_handle(k->inference, k->args[i], &c->handle_shapes[i], c->handle_types[i]));
  }
  return NULL;
}

static weft_status_t *infer_body(infer_call_t *k, const weft_inlined_t *inlined) {
  weft_node_t **order = NULL;
  for (int i = 0; i < inlined->num_body; i++) {
    const weft_node_t *n = inlined->body[i];
    if ((n->flags & WEFT_OP_UNREGISTERED) == 0) continue;
    return WEFT_ERROR(NOT_FOUND, "Op type not registered '%.*s' in function '%s'", WEFT_STR_ARGS(n->op->name),
                      k->function->name.data);
  }
  weft_status_t *s = weft_graph_topological_order(k->body, &order);
  for (int i = 0; s == NULL && i < k->body->num_live; i++) {
    bool is_argument =
        order[i]->id < k->n->num_inputs; /* the first nodes of the body: their shapes are given */
    if (!is_argument) s = weft_inference_add(k->inference, order[i]);
  }
  weft_free(order);
  return s;
}

static void take_results(const infer_call_t *k, const weft_inlined_t *inlined, weft_shape_ctx_t *c) {
  for (int i = 0; i < c->num_outputs && i < inlined->num_results; i++) {
    weft_output_t result = inlined->results[i];
    if (result.node->output_shapes != NULL) c->outputs[i] = result.node->output_shapes[result.index];
    if (!weft_inference_handle(k->inference, result, &c->out_handle_shapes[i], &c->out_handle_types[i]))
      c->out_handle_types[i] = 0;
  }
}

static weft_status_t *infer(infer_call_t *k, const weft_graph_t *g, int depth, weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_graph_create(&k->body));
  weft_function_library_release(k->body->library);
  k->body->library = weft_function_library_retain(g->library);
  k->body->producer = g->producer;
  WEFT_RETURN_IF_ERROR(weft_inference_create(k->body, &k->inference));
  weft_inference_set_depth(k->inference, depth + 1);
  WEFT_RETURN_IF_ERROR(add_arguments(k, c));
  weft_inline_spec_t spec = {.function = k->function,
                             .attrs = k->func.attrs,
                             .num_attrs = k->func.num_attrs,
                             .prefix = WEFT_STR("body"),
                             .device = WEFT_STR(""),
                             .args = k->args,
                             .num_args = c->num_inputs};
  weft_inlined_t inlined;
  WEFT_RETURN_IF_ERROR(weft_inline(k->body, &spec, &inlined));
  WEFT_RETURN_IF_ERROR(infer_body(k, &inlined));
  take_results(k, &inlined, c);
  return NULL;
}

weft_status_t *weft_infer_call(const weft_graph_t *g, const weft_node_t *n, int depth, weft_shape_ctx_t *c) {
  infer_call_t k = {.n = n, .func = callee(n)};
  if (k.func.name.data == NULL || depth >= MAX_DEPTH) return NULL;
  k.function = weft_function_find(g->library, k.func.name);
  if (k.function == NULL || weft_node_attr_bool(n, "_disable_call_shape_inference", false)) return NULL;
  weft_status_t *s = infer(&k, g, depth, c);
  weft_inference_destroy(k.inference);
  weft_graph_destroy(k.body);
  weft_arena_deinit(&k.scratch);
  return s;
}
