/* graph/function_graph.c - a function as a graph that runs by itself. */
#include "base/alloc.h"
#include "graph/function.h"
#include "graph/node_build.h"
#include "graph/passes.h"

static weft_status_t *copy_attrs(weft_graph_t *g, weft_node_t *call, const weft_func_attr_t *func) {
  weft_named_attr_t *attrs = weft_arena_calloc(g->arena, (size_t)func->num_attrs + 1, sizeof *attrs);
  if (attrs == NULL) return WEFT_NO_MEMORY("function '%s'", func->name.data);
  weft_status_t *s = NULL;
  int n = 0;
  while (s == NULL && n < func->num_attrs) {
    s = weft_attr_copy(g->arena, &func->attrs[n].value, &attrs[n].value);
    attrs[n].name = weft_arena_str(g->arena, func->attrs[n].name);
    if (s == NULL && attrs[n++].name.data == NULL) s = WEFT_NO_MEMORY("function '%s'", func->name.data);
  }
  if (s == NULL) return weft_node_set_attrs(g, call, attrs, n, WEFT_WORDS_CLIENT);
  for (int i = 0; i < n; i++) weft_attr_release_tensors(&attrs[i].value);
  return s;
}

/* The function's name as a node's: '_' stands for what only a function's name may have. */
static weft_str_t node_name(weft_graph_t *g, const weft_function_t *f) {
  char *name = weft_arena_calloc(g->arena, f->name.length + 1, 1);
  for (size_t i = 0; name != NULL && i < f->name.length; i++) {
    const bool is_valid = weft_name_is_valid(weft_str_of(f->name.data + i, 1), true);
    name[i] = is_valid ? f->name.data[i] : '_';
  }
  return weft_str_of(name, f->name.length);
}

/* A node that calls `f`. */
static weft_status_t *add_call(weft_graph_t *g, weft_function_t *f, const weft_func_attr_t *func,
                               weft_node_t **out) {
  const weft_str_t name = node_name(g, f);
  if (name.data == NULL) return WEFT_NO_MEMORY("function '%s'", f->name.data);
  WEFT_RETURN_IF_ERROR(weft_graph_enter(g, name, out));
  weft_node_t *call = *out;
  call->op = &f->signature;
  call->function = f;
  call->flags = f->signature.flags;
  call->requested_device = call->assigned_device = WEFT_STR("");
  WEFT_RETURN_IF_ERROR(copy_attrs(g, call, func));
  return weft_node_set_types(g, call, -1);
}

static weft_status_t *add_end(weft_graph_t *g, const char *op, int index, int type,
                              const weft_output_t *input, weft_node_t **out) {
  const weft_named_attr_t attrs[] = {weft_int_attr("index", index), weft_type_attr("T", type)};
  weft_node_spec_t spec = {.name = weft_graph_unique_name(g, weft_str(input == NULL ? "arg" : "result")),
                           .op = weft_str(op),
                           .inputs = input,
                           .num_inputs = input != NULL,
                           .attrs = attrs,
                           .num_attrs = 2};
  if (spec.name.data == NULL) return WEFT_NO_MEMORY("the arguments of a function");
  return weft_graph_add(g, &spec, out);
}

static weft_status_t *build(weft_graph_t *g, weft_function_t *f, const weft_func_attr_t *func) {
  weft_node_t *call = NULL;
  WEFT_RETURN_IF_ERROR(add_call(g, f, func, &call));
  const int num_args = call->num_inputs, num_ends = num_args + call->num_outputs;
  weft_node_t **roots = weft_arena_calloc(g->arena, (size_t)num_ends + 1, sizeof(*roots));
  if (roots == NULL) return WEFT_NO_MEMORY("function '%s'", f->name.data);
  for (int i = 0; i < num_args; i++) {
    WEFT_RETURN_IF_ERROR(add_end(g, "_Arg", i, (int)weft_dtype_base(call->input_types[i]), NULL, &roots[i]));
    WEFT_RETURN_IF_ERROR(weft_node_connect(g, call, i, (weft_output_t){roots[i], 0}));
  }
  for (int i = num_args; i < num_ends; i++) {
    const weft_output_t result = {call, i - num_args};
    const int type = (int)weft_dtype_base(call->output_types[result.index]);
    WEFT_RETURN_IF_ERROR(add_end(g, "_Retval", result.index, type, &result, &roots[i]));
  }
  roots[num_ends] = call; /* which stays, behind the function's effects */
  WEFT_RETURN_IF_ERROR(weft_pass_lower_functions(g, 0));
  if ((call->flags & WEFT_OP_UNREGISTERED) != 0) { /* set aside: a step would fail with the reason */
    return WEFT_ERROR(INVALID_ARGUMENT, "%s",
                      call->op->absent != NULL ? call->op->absent : "a function that is not valid");
  }
  return weft_pass_prune(g, roots, num_ends + 1);
}

weft_status_t *weft_function_graph(weft_function_library_t *l, const weft_func_attr_t *func,
                                   weft_graph_t **out) {
  weft_function_t *f = weft_function_find(l, func->name);
  if (f == NULL) return WEFT_ERROR(NOT_FOUND, "Function %.*s is not defined.", WEFT_STR_ARGS(func->name));
  weft_graph_t *g = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_create(&g));
  weft_function_library_release(g->library);
  g->library = weft_function_library_retain(l);
  weft_status_t *s = build(g, f, func);
  if (s != NULL) {
    weft_graph_destroy(g);
    return s;
  }
  *out = g;
  return NULL;
}
