/* executor/commands.c - runs the nodes of a command buffer one by one. */
#include "executor/commands.h"

#include "tensor/memory_holders.h"

static void take_operands(const weft_commands_t *c, const buffer_command_t *m, commands_run_t *x) {
  for (int i = 0; i < m->setup.node.num_inputs; i++) {
    const command_operand_t o = c->operands[m->first_operand + (uint32_t)i];
    weft_value_t *v = &x->values[o.value];
    x->scratch[i] = *v;
    if (o.is_last) {
      *v = (weft_value_t){NULL, NULL};
    } else {
      weft_tensor_retain(v->tensor);
    }
  }
}

static weft_status_t *call_kernel(const weft_commands_t *c, const buffer_command_t *m, commands_run_t *x,
                                  weft_value_t *out) {
  weft_kernel_node_t node = m->setup.node;
  if (x->memory != NULL) node.allocator = x->memory;
  weft_kernel_ctx_t ctx = {.node = x->memory != NULL ? &node : &m->setup.node,
                           .state = m->instance.state,
                           .inputs = x->scratch,
                           .outputs = out,
                           .step = x->step,
                           .device = c->device,
                           .queue = c->device->compute,
                           .frame_id = x->frame_id,
                           .iteration = x->iteration};
  const weft_memory_holder_t before =
      weft_memory_hold_for((weft_memory_holder_t){WEFT_HELD_BY_NODE, m->setup.node.name});
  weft_status_t *s = m->instance.kernel->compute(&ctx);
  (void)weft_memory_hold_for(before);
  weft_node_set_fences(c->device->compute, out, (uint32_t)m->setup.node.num_outputs);
  return s;
}

static weft_status_t *check_outputs(const weft_commands_t *c, const buffer_command_t *m,
                                    const weft_value_t *out) {
  for (int i = 0; i < m->setup.node.num_outputs; i++) {
    const bool is_needed = !c->is_unused[m->first_value + (uint32_t)i];
    WEFT_RETURN_IF_ERROR(weft_kernel_node_check(&m->setup.node, i, out[i].tensor, is_needed));
  }
  return NULL;
}

static weft_status_t *run_command(const weft_commands_t *c, const buffer_command_t *m, commands_run_t *x) {
  weft_value_t *out = &x->values[m->first_value];
  const uint32_t num_outputs = (uint32_t)m->setup.node.num_outputs;
  node_begin_t begin;
  take_operands(c, m, x);
  if (x->recorder != NULL) weft_step_record_begin(&m->setup, x->scratch, &begin);
  weft_status_t *s = NULL;
  if (m->forwards) {
    out[0] = x->scratch[0];
    x->scratch[0] = (weft_value_t){NULL, NULL};
  } else {
    s = call_kernel(c, m, x, out);
  }
  values_release(x->scratch, (uint32_t)m->setup.node.num_inputs);
  if (s == NULL) s = check_outputs(c, m, out);
  if (x->recorder != NULL) weft_step_record(x->recorder, &m->setup, &begin, out);
  for (uint32_t i = 0; i < num_outputs; i++) {
    if (c->is_unused[m->first_value + i] && !value_is_none(&out[i])) value_release(&out[i]);
  }
  if (s != NULL) x->failed = &m->setup.node;
  return s;
}

weft_status_t *weft_commands_enqueue(const weft_commands_t *c, commands_run_t *x) {
  weft_status_t *s = NULL;
  for (uint32_t i = 0; i < c->num_commands && s == NULL; i++) s = run_command(c, &c->commands[i], x);
  for (uint32_t i = 0; i < c->num_outputs && s == NULL; i++)
    x->outputs[i] = value_retain(x->values[c->outputs[i]]);
  values_release(x->values, c->num_values);
  return s;
}
