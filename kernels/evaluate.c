/* kernels/evaluate.c - one node, computed by itself. */
#include "kernels/evaluate.h"

#include "base/alloc.h"
#include "base/float_mode.h"

static weft_status_t *prepare(const weft_kernel_t *kernel, weft_kernel_setup_t *setup, void **state) {
  *state = NULL;
  return kernel->prepare == NULL ? NULL : kernel->prepare(setup, state);
}

static weft_status_t *compute(const weft_kernel_t *kernel, weft_kernel_ctx_t *c,
                              weft_tensor_t *const *inputs) {
  const int num_in = c->node->num_inputs, num_out = c->node->num_outputs;
  weft_value_t *values = weft_calloc((size_t)num_in + (size_t)num_out, sizeof *values);
  if (values == NULL) return WEFT_NO_MEMORY("computing node '%s'", c->node->name.data);
  c->inputs = values;
  c->outputs = values + num_in;
  for (int i = 0; i < num_in; i++) values[i].tensor = weft_tensor_retain(inputs[i]);
  return kernel->compute(c);
}

static void hand_over(weft_kernel_ctx_t *c, bool is_computed, weft_tensor_t **outputs) {
  for (int i = 0; c->inputs != NULL && i < c->node->num_inputs; i++) weft_tensor_release(c->inputs[i].tensor);
  for (int i = 0; c->inputs != NULL && i < c->node->num_outputs; i++) {
    if (is_computed && c->outputs[i].ref == NULL) {
      outputs[i] = c->outputs[i].tensor;
    } else {
      weft_tensor_release(c->outputs[i].tensor);
    }
  }
  weft_free(c->inputs);
}

weft_status_t *weft_evaluate_node(void *device, const weft_node_t *n, weft_tensor_t *const *inputs,
                                  weft_tensor_t **outputs) {
  const weft_kernel_t *kernel = weft_kernel_find("CPU", n->op->name, n->attrs, n->num_attrs);
  if (kernel == NULL || kernel->compute == NULL)
    return WEFT_ERROR(UNIMPLEMENTED, "no kernel computes '%s' at once", n->op->name.data);
  weft_kernel_setup_t setup = {.node = {.name = n->name,
                                        .op_name = n->op->name,
                                        .op = n->op,
                                        .num_inputs = n->num_inputs,
                                        .num_outputs = n->num_outputs,
                                        .input_types = n->input_types,
                                        .output_types = n->output_types,
                                        .device = device,
                                        .param = kernel->param,
                                        .host_outputs = kernel->host_outputs,
                                        .session = WEFT_STR("")},
                               .attrs = n->attrs,
                               .num_attrs = n->num_attrs,
                               .reads = kernel->reads};
  static const weft_step_t step = {.id = 0};
  weft_kernel_ctx_t c = {.node = &setup.node, .step = &step, .device = device};
  const uint64_t mode = weft_float_mode_flush();
  weft_status_t *s = prepare(kernel, &setup, &c.state);
  const bool is_prepared = s == NULL;
  if (s == NULL) s = compute(kernel, &c, inputs);
  hand_over(&c, s == NULL, outputs);
  if (is_prepared && kernel->destroy != NULL) kernel->destroy(c.state);
  weft_float_mode_restore(mode);
  return s;
}
