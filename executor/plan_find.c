/* executor/plan_find.c - what a node of the graph is in a plan: its device, its kernel, the node that it
 * stands for. */
#include "executor/plan.h"

#include <limits.h>

/* Of a chain of the host's: a step that is cancelled ends before the next node begins. */
enum { MOST_LINKS = 4096 };

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

static const weft_chain_limits_t *find_limits(const weft_plan_options_t *o, const weft_node_t *n) {
  static const weft_chain_limits_t of_host = {INT_MAX, MOST_LINKS, INT_MAX},
                                   of_library = {WEFT_CHAIN_LIBRARY_INPUTS, WEFT_CHAIN_LIBRARY_LINKS,
                                                 WEFT_CHAIN_LIBRARY_OUTPUTS};
  weft_device_t *d = NULL;
  weft_status_t *s = weft_plan_find_device(o, n, &d);
  if (s != NULL) {
    weft_status_free(s); /* adding the node will say it */
    return NULL;
  }
  /* A kernel of the plan's own table is no link's. */
  const weft_kernel_t *k = weft_plan_find_kernel(o, n, d);
  const int operand = n->input_types[weft_chain_main_operand(n->op, n->num_inputs)];
  if (k == NULL || k != weft_kernel_find(d->type, n->op->name, n->attrs, n->num_attrs) ||
      !weft_kernel_may_link(d->type, n->op->name.data, operand, n->output_types[0]))
    return NULL;
  if (d->space != NULL && weft_chain_reduces(n->op)) return NULL; /* libraries are not told of axes */
  return d->space == NULL ? &of_host : &of_library;
}

const weft_chain_limits_t *weft_plan_chain_limits(void *finder, const weft_node_t *n) {
  chain_limits_finder_t *f = finder;
  const int operand = n->input_types[weft_chain_main_operand(n->op, n->num_inputs)],
            result = n->output_types[0];
  const uintptr_t hash = (uintptr_t)n->op / sizeof *n->op + (uintptr_t)n->assigned_device.data +
                         (uintptr_t)operand * 5 + (uintptr_t)result;
  chain_limits_known_t *known = &f->known[hash % CHAIN_LIMITS_KNOWN];
  if (known->op != n->op || known->device != n->assigned_device.data || known->operand != operand ||
      known->result != result) {
    *known =
        (chain_limits_known_t){n->op, n->assigned_device.data, operand, result, find_limits(f->options, n)};
  }
  return known->limits;
}

bool weft_plan_may_attend(void *finder, const weft_node_t *n) {
  const weft_plan_options_t *o = ((chain_limits_finder_t *)finder)->options;
  weft_device_t *d = NULL;
  weft_status_t *s = weft_plan_find_device(o, n, &d);
  if (s != NULL) {
    weft_status_free(s); /* adding the node will say it */
    return false;
  }
  /* A kernel of the plan's own table is no part of another. */
  const weft_kernel_t *k = weft_plan_find_kernel(o, n, d);
  weft_dtype_set_t types = 0;
  if (k == NULL || k != weft_kernel_find(d->type, n->op->name, n->attrs, n->num_attrs) ||
      !weft_kernel_exists(d->type, WEFT_STR("_WeftAttention"), &types) ||
      (types & WEFT_DTYPE_BIT(n->output_types[0])) == 0)
    return false;
  const bool is_einsum = weft_str_is(n->op->name, "Einsum"); /* device libraries know BatchMatMul alone */
  if (is_einsum && !weft_str_is(weft_str(d->type), "CPU")) return false;
  return !weft_chain_is_by_rows(n->op) || weft_plan_chain_limits(finder, n) != NULL;
}

const weft_node_t *weft_plan_origin(const weft_node_t *n) {
  const uint64_t memory_copy = WEFT_OP_COPY | WEFT_OP_INTERNAL;
  return (n->flags & memory_copy) == memory_copy ? n->inputs[0].node : n;
}
