/* executor/called_graph.c - the graph of a function, or one that a kernel has as bytes: optimised and
 * compiled. It runs on one device, whatever its nodes ask for. Source: as TensorFlow's Grappler, which
 * optimises the functions of a graph by the graph's own settings.
 */
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

static weft_status_t *optimize(weft_graph_t **g, const weft_pass_settings_t *settings,
                               const weft_plan_options_t *options) {
  const bool is_host = options->device->space == NULL;
  const weft_evaluator_t evaluator = {evaluate, (void *)(uintptr_t)options};
  const weft_str_t device = weft_graph_intern(*g, options->device->name);
  if (device.data == NULL) return WEFT_NO_MEMORY("optimising a graph of %d nodes", (*g)->num_live);
  for (int id = 0; id < (*g)->num_nodes; id++) {
    if ((*g)->nodes[id] != NULL) (*g)->nodes[id]->assigned_device = device;
  }
  const weft_optimize_options_t o = {.settings = *settings,
                                     .keeps_ends = true,
                                     .evaluator = is_host ? &evaluator : NULL,
                                     .has_kernel = has_kernel,
                                     .has_kernel_arg = (void *)(uintptr_t)options};
  return weft_optimize(g, &o);
}

weft_status_t *weft_called_graph_compile(weft_graph_t *g, const weft_pass_settings_t *settings,
                                         const weft_plan_options_t *options, weft_exec_plan_t **out) {
  weft_status_t *s = optimize(&g, settings, options);
  if (s == NULL) s = weft_pass_settings_mark(g, settings);
  if (s == NULL) s = weft_plan_create(g, options, out);
  weft_graph_destroy(g);
  return s;
}
