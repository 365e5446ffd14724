/* executor/called_graph.c - the graph of a function, or one that a kernel has as bytes: optimised and
 * compiled. It runs on one device, whatever its nodes ask for. Source: as TensorFlow's Grappler, which
 * optimises the functions of a graph by the graph's own settings.
 */
#include "base/alloc.h"
#include "executor/functions.h"
#include "executor/plan.h"
#include "kernels/evaluate.h"

/* A kernel of the plan's own table may compute something else than the device's. */
static weft_status_t *evaluate(void *arg, const weft_node_t *n, weft_tensor_t *const *inputs,
                               weft_tensor_t **outputs) {
  const weft_plan_options_t *o = arg;
  if (weft_plan_find_kernel(o, n, o->device) !=
      weft_kernel_find(o->device->type, n->op->name, n->attrs, n->num_attrs))
    return WEFT_ERROR(UNIMPLEMENTED, "'%s' has a kernel of its own", n->op->name.data);
  return weft_evaluate_node(o->device, n, inputs, outputs);
}

static bool has_kernel(void *arg, const weft_node_t *n) {
  const weft_plan_options_t *o = arg;
  return weft_plan_find_kernel(o, n, o->device) != NULL;
}

/* Names of the nodes that nothing reads or waits for: they are what the graph is for. */
static int list_ends(weft_graph_t *g, weft_str_t *out) {
  int num = 0;
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL) g->nodes[id]->mark = 0;
  }
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs; i++) n->inputs[i].node->mark = 1;
    for (int i = 0; n != NULL && i < n->num_controls; i++) n->controls[i]->mark = 1;
  }
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL && g->nodes[id]->mark == 0) out[num++] = g->nodes[id]->name;
  }
  return num;
}

static weft_status_t *optimize(weft_graph_t **g, const weft_pass_settings_t *settings,
                               const weft_plan_options_t *options) {
  const bool is_host = options->device->space == NULL;
  const weft_evaluator_t evaluator = {evaluate, (void *)(uintptr_t)options};
  weft_str_t *ends = weft_calloc((size_t)(*g)->num_live + 1, sizeof *ends);
  if (ends == NULL) return WEFT_NO_MEMORY("optimising a graph of %d nodes", (*g)->num_live);
  const weft_str_t device = weft_graph_intern(*g, options->device->name);
  if (device.data == NULL) {
    weft_free(ends);
    return WEFT_NO_MEMORY("optimising a graph of %d nodes", (*g)->num_live);
  }
  for (int id = 0; id < (*g)->num_nodes; id++) {
    if ((*g)->nodes[id] != NULL) (*g)->nodes[id]->assigned_device = device;
  }
  const weft_optimize_options_t o = {.settings = *settings,
                                     .keep = ends,
                                     .num_keep = list_ends(*g, ends),
                                     .evaluator = is_host ? &evaluator : NULL,
                                     .has_kernel = has_kernel,
                                     .has_kernel_arg = (void *)(uintptr_t)options};
  weft_status_t *s = weft_optimize(g, &o);
  weft_free(ends);
  return s;
}

weft_status_t *weft_called_graph_compile(weft_graph_t *g, const weft_pass_settings_t *settings,
                                         const weft_plan_options_t *options, weft_exec_plan_t **out) {
  weft_status_t *s = optimize(&g, settings, options);
  if (s == NULL) s = weft_pass_settings_mark(g, settings);
  if (s == NULL) s = weft_plan_create(g, options, out);
  weft_graph_destroy(g);
  return s;
}
