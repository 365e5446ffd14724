/* kernels/updates.c - the members of a _WeftUpdates as nodes. */
#include "kernels/updates.h"

void weft_updates_member_node(const weft_kernel_node_t *joint, const weft_updates_t *u,
                              const weft_kernel_t *kernel, int m, weft_kernel_node_t *out) {
  *out = *joint;
  out->name = u->nodes[m];
  out->op_name = u->op->name;
  out->op = u->op;
  out->num_inputs = u->num_inputs;
  out->num_outputs = u->num_outputs;
  out->input_types += m * u->num_inputs;
  out->output_types += m * u->num_outputs;
  out->param = kernel->param;
}

weft_status_t *weft_updates_members_prepare(const weft_kernel_setup_t *joint, const weft_updates_t *u,
                                            const weft_kernel_t *kernel, const weft_named_attr_t *attrs,
                                            void **out_state) {
  weft_kernel_setup_t first = *joint;
  weft_updates_member_node(&joint->node, u, kernel, 0, &first.node);
  first.attrs = attrs;
  first.num_attrs = u->op->num_attrs;
  return kernel->prepare == NULL ? NULL : kernel->prepare(&first, out_state);
}
