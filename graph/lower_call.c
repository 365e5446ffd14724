/* graph/lower_call.c - a call becomes the body of its function.
 *
 * The runtime that executes calls as one op starts the body when all arguments
 * and control inputs are there, and gives results when the body is done. A body
 * without effects need not be that strict; one with effects must be, or they
 * could be seen in another order.
 */
#include "base/alloc.h"
#include "graph/lower.h"

/* A node that nothing precedes is never dead and never late. */
static bool is_source(const weft_node_t *n) { return n->num_inputs + n->num_controls == 0; }

weft_status_t *weft_lower_gate(weft_lowering_t *l, const weft_node_t *n, weft_node_t **out) {
  weft_node_t **controls =
      weft_calloc((size_t)n->num_inputs + (size_t)n->num_controls + 1, sizeof(*controls));
  if (controls == NULL) return WEFT_NO_MEMORY("lowering node '%s'", n->name.data);
  int num = 0;
  for (int i = 0; i < n->num_inputs; i++) {
    if (!is_source(n->inputs[i].node)) controls[num++] = n->inputs[i].node;
  }
  for (int i = 0; i < n->num_controls; i++) controls[num++] = n->controls[i];
  *out = NULL;
  weft_status_t *s = num == 0 ? NULL : weft_lower_add_noop(l, n, "gate", controls, num, out);
  weft_free(controls);
  return s;
}

static weft_status_t *gate_args(weft_lowering_t *l, const weft_node_t *n, weft_node_t *gate,
                                weft_output_t *args) {
  bool is_strict = gate != NULL && (n->num_controls > 0 || (n->flags & WEFT_OP_STATEFUL) != 0);
  for (int i = 0; i < n->num_inputs; i++) {
    args[i] = n->inputs[i];
    bool is_ref = weft_dtype_is_ref(args[i].node->output_types[args[i].index]);
    if (!is_strict && !is_ref) continue;
    weft_node_t *identity = NULL;
    WEFT_RETURN_IF_ERROR(weft_lower_add1(l, n, "input", "Identity", args[i], gate, &identity));
    args[i] = (weft_output_t){identity, 0};
  }
  return NULL;
}

weft_status_t *weft_lower_call(weft_lowering_t *l, weft_node_t *n, const weft_func_attr_t *func,
                               int first_arg) {
  weft_node_t *gate = NULL;
  weft_body_t body;
  weft_output_t *args = weft_calloc((size_t)n->num_inputs + 1, sizeof *args);
  if (args == NULL) return WEFT_NO_MEMORY("lowering node '%s'", n->name.data);
  weft_status_t *s = weft_lower_gate(l, n, &gate);
  if (s == NULL) s = gate_args(l, n, gate, args);
  if (s == NULL)
    s = weft_lower_body(l, n, func, "", args + first_arg, n->num_inputs - first_arg, gate, &body);
  if (s == NULL) s = weft_lower_finish(l, n, body.results, body.num_results, body.done);
  /* Clients may feed a call's results, so its consumers in the graph keep taking them from the call. */
  if (s == NULL && l->chains[n->id] == NULL) l->done[n->id] = NULL;
  weft_free(args);
  return s;
}

/* Where a node runs is decided when the graph is made. A call whose target is computed is left to its kernel,
 * which knows the devices of its own task. */
weft_status_t *weft_lower_remote_call(weft_lowering_t *l, weft_node_t *n) {
  const weft_node_t *target = n->inputs[0].node;
  const weft_attr_t *value = (target->flags & WEFT_OP_CONST) == 0 ? NULL : weft_node_attr(target, "value");
  if (value == NULL || value->kind != WEFT_ATTR_TENSOR || value->tensor->dtype != WEFT_STRING ||
      value->tensor->count != 1)
    return NULL;
  const weft_func_attr_t *func = NULL;
  WEFT_RETURN_IF_ERROR(weft_lower_func_attr(n, "f", &func));
  weft_str_t own = n->requested_device,
             device = weft_graph_intern(l->g, weft_tensor_str_at(value->tensor, 0));
  if (device.data == NULL) return WEFT_NO_MEMORY("lowering node '%s'", n->name.data);
  n->requested_device = weft_device_merge(l->g, device, own);
  weft_status_t *s = n->requested_device.data == NULL ? WEFT_NO_MEMORY("lowering node '%s'", n->name.data)
                                                      : weft_lower_call(l, n, func, 1);
  n->requested_device = own;
  return s;
}
