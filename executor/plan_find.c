/* executor/plan_find.c - what a node of the graph is in a plan: its device, its kernel, the node that it
 * stands for. */
#include "executor/plan.h"

weft_status_t *weft_plan_find_device(const weft_plan_options_t *o, const weft_node_t *n,
                                     weft_device_t **out) {
  weft_str_t name = n->assigned_device;
  int i = 0;
  *out = o->device;
  if (o->num_devices == 0 || name.length == 0 || weft_str_eq(o->device->name, name)) return NULL;
  while (i < o->num_devices && !weft_str_eq(o->devices[i]->name, name)) i++;
  if (i == o->num_devices) return WEFT_ERROR(INVALID_ARGUMENT, "%.*s unknown device.", WEFT_STR_ARGS(name));
  *out = o->devices[i];
  return NULL;
}

const weft_kernel_t *weft_plan_find_kernel(const weft_plan_options_t *o, const weft_node_t *n,
                                           const weft_device_t *d) {
  const weft_kernel_t *k = NULL;
  if (o->kernels != NULL && strcmp(o->kernels->device_type, d->type) == 0) {
    k = weft_kernel_table_find(o->kernels, n->op->name, n->attrs, n->num_attrs);
  }
  return k != NULL ? k : weft_kernel_find(d->type, n->op->name, n->attrs, n->num_attrs);
}

bool weft_plan_may_link(void *options, const weft_node_t *n) {
  const weft_plan_options_t *o = options;
  weft_device_t *d = NULL;
  weft_status_t *s = weft_plan_find_device(o, n, &d);
  if (s != NULL) {
    weft_status_free(s); /* adding the node will say it */
    return false;
  }
  return d->space != NULL && weft_plan_find_kernel(o, n, d) != NULL &&
         weft_kernel_may_link(d->type, n->op->name.data, n->input_types[n->num_inputs - 1],
                              n->output_types[0]);
}

const weft_node_t *weft_plan_origin(const weft_node_t *n) {
  const uint64_t memory_copy = WEFT_OP_COPY | WEFT_OP_INTERNAL;
  return (n->flags & memory_copy) == memory_copy ? n->inputs[0].node : n;
}
