/* executor/graph_runner.c - graphs that come as bytes, run once: what DatasetFromGraph does. Source:
 * TensorFlow's GraphRunner, behind a copy of the caller's function library in which the graph's own functions
 * come first.
 */
#include "base/alloc.h"
#include "executor/functions.h"
#include "graph/function.h"
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "protos/wire.h"

typedef struct graph_runner {
  weft_graph_runner_t base;
  weft_function_library_t *library; /* of the node's graph */
  weft_device_t *device;
  weft_arena_t arena;
  weft_str_t session;
  const weft_kernel_table_t *kernels;
  weft_pass_settings_t passes;
} graph_runner_t;

static void destroy(weft_graph_runner_t *runner) {
  graph_runner_t *r = (graph_runner_t *)runner;
  weft_function_library_release(r->library);
  weft_arena_deinit(&r->arena);
  weft_free(r);
}

/* ---- one graph ---- */

/* Adds the functions of a serialized GraphDef (library = 2; function = 1, gradient = 2). */
static weft_status_t *add_functions(weft_function_library_t *l, weft_str_t graph_def) {
  weft_wire_reader_t in = weft_wire_reader(graph_def);
  weft_wire_field_t f, each;
  while (weft_wire_next(&in, &f)) {
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t list = weft_wire_reader(f.bytes);
    while (weft_wire_next(&list, &each)) {
      if (each.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES))
        WEFT_RETURN_IF_ERROR(weft_function_add(l, each.bytes));
      if (each.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES))
        WEFT_RETURN_IF_ERROR(weft_function_add_gradient(l, each.bytes));
    }
    if (list.failed) return WEFT_ERROR(INVALID_ARGUMENT, "Could not parse GraphDef");
  }
  return in.failed ? WEFT_ERROR(INVALID_ARGUMENT, "Could not parse GraphDef") : NULL;
}

/* Leaves what the last _Retval needs; its value is result 0. */
static weft_status_t *keep_result(weft_graph_t *g) {
  static const weft_attr_t zero = {.kind = WEFT_ATTR_INT, .i = 0};
  weft_node_t *result = NULL;
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL && (g->nodes[id]->flags & WEFT_OP_RETVAL) != 0) result = g->nodes[id];
  }
  if (result == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "the graph has no _Retval: nothing is its result");
  WEFT_RETURN_IF_ERROR(weft_pass_prune(g, &result, 1));
  return weft_graph_set_attr(g, result, "index", &zero);
}

static weft_status_t *check_function(const weft_graph_t *g, const weft_attr_t *a) {
  for (int i = 0; a->kind == WEFT_ATTR_FUNC && i < (a->is_list ? a->n : 1); i++) {
    const weft_str_t name = a->is_list ? a->list.funcs[i]->name : a->func->name;
    if (weft_function_find(g->library, name) != NULL) continue;
    return WEFT_ERROR(FAILED_PRECONDITION, "Could not find required function definition %.*s",
                      WEFT_STR_ARGS(name));
  }
  return NULL;
}

/* A missing function is found now, not at its first call. */
static weft_status_t *check_functions(const weft_graph_t *g) {
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_attrs; i++)
      WEFT_RETURN_IF_ERROR(check_function(g, &n->attrs[i].value));
  }
  return NULL;
}

static weft_status_t *build(const graph_runner_t *r, weft_str_t graph_def, weft_graph_t *g) {
  static const weft_import_options_t options = {.allow_internal_ops = true};
  WEFT_RETURN_IF_ERROR(add_functions(g->library, graph_def));
  WEFT_RETURN_IF_ERROR(weft_function_library_add_missing(g->library, r->library));
  WEFT_RETURN_IF_ERROR(weft_graph_import(g, graph_def, &options));
  WEFT_RETURN_IF_ERROR(keep_result(g));
  WEFT_RETURN_IF_ERROR(check_functions(g));
  return weft_pass_lower_functions(g, 0);
}

/* The plan has its own table of functions, since names may mean others than in the node's graph. */
static weft_status_t *compile(const graph_runner_t *r, weft_str_t graph_def, weft_exec_plan_t **out) {
  const weft_plan_options_t options = {.device = r->device, .session = r->session, .kernels = r->kernels};
  weft_graph_t *g = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_create(&g));
  weft_status_t *s = build(r, graph_def, g);
  if (s == NULL) return weft_called_graph_compile(g, &r->passes, &options, out);
  weft_graph_destroy(g);
  return s;
}

static void run(weft_graph_runner_t *runner, weft_str_t graph_def, const weft_function_call_t *call) {
  weft_exec_plan_t *plan = NULL;
  weft_status_t *s = NULL;
  if (call->step != NULL && call->step->depth >= WEFT_MAX_CALL_DEPTH)
    s = WEFT_ERROR(INVALID_ARGUMENT, "A graph is run within %d calls", WEFT_MAX_CALL_DEPTH);
  if (s == NULL) s = compile((graph_runner_t *)runner, graph_def, &plan);
  if (s != NULL) {
    call->done(call->arg, s, NULL);
    return;
  }
  weft_plan_call(plan, WEFT_STR("graph"), call);
  weft_plan_release(plan);
}

weft_status_t *weft_graph_runner_create(const weft_graph_functions_t *f, weft_device_t *device,
                                        weft_graph_runner_t **out) {
  static const weft_graph_runner_ops_t ops = {run, destroy};
  const function_source_t *from = (const function_source_t *)f;
  graph_runner_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("running graphs");
  r->base.ops = &ops;
  r->library = weft_function_library_retain(from->library);
  r->device = device;
  r->kernels = from->options->kernels;
  r->passes = from->passes;
  r->session = weft_arena_str(&r->arena, from->options->session);
  if (r->session.data == NULL) {
    destroy(&r->base);
    return WEFT_NO_MEMORY("running graphs");
  }
  *out = &r->base;
  return NULL;
}
