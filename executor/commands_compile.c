/* executor/commands_compile.c - a command buffer as part of a plan: its nodes' kernels, and where their
 * values go. */
#include "base/alloc.h"
#include "executor/commands.h"

typedef struct commands_builder {
  plan_builder_t *b;
  const found_commands_t *found;
  weft_commands_t *out;
  weft_map_t values; /* output -> the number of its value + 1 */
} commands_builder_t;

static weft_status_t *no_memory(const found_commands_t *found) {
  return WEFT_NO_MEMORY("compiling node %s", found->node->name.data);
}

static uint64_t output_key(const weft_node_t *n, int output) {
  return (uint64_t)(uint32_t)n->id << 32 | (uint32_t)output;
}

static weft_status_t *number_value(commands_builder_t *c, const weft_node_t *n, int output, uint32_t value) {
  return weft_map_put_u64(&c->values, output_key(n, output), (void *)((uintptr_t)value + 1), NULL);
}

static uint32_t value_of(const commands_builder_t *c, weft_output_t of) {
  return (uint32_t)((uintptr_t)weft_map_get_u64(&c->values, output_key(of.node, of.index)) - 1);
}

/* Numbers the inputs, then each member's outputs. */
static weft_status_t *number_values(commands_builder_t *c) {
  weft_commands_t *out = c->out;
  const weft_node_t *node = c->found->node;
  for (int i = 0; i < node->num_inputs; i++)
    WEFT_RETURN_IF_ERROR(number_value(c, node->inputs[i].node, node->inputs[i].index, (uint32_t)i));
  out->num_values = out->num_inputs = (uint32_t)node->num_inputs;
  for (int m = 0; m < c->found->num_members; m++) {
    const weft_node_t *n = c->found->members[m];
    out->commands[m].first_value = out->num_values;
    for (int i = 0; i < n->num_outputs; i++) WEFT_RETURN_IF_ERROR(number_value(c, n, i, out->num_values++));
  }
  return NULL;
}

/* From the last to the first: the first that is seen of a value's operands is its last. */
static weft_status_t *add_operands(commands_builder_t *c) {
  weft_commands_t *out = c->out;
  weft_arena_t *arena = &c->b->plan->arena;
  uint32_t n = 0;
  for (int m = 0; m < c->found->num_members; m++) {
    const uint32_t inputs = (uint32_t)c->found->members[m]->num_inputs;
    out->commands[m].first_operand = n;
    n += inputs;
    if (inputs > out->most_inputs) out->most_inputs = inputs;
  }
  out->operands = weft_arena_calloc(arena, n, sizeof *out->operands);
  out->is_unused = weft_arena_calloc(arena, out->num_values, sizeof *out->is_unused);
  out->outputs = weft_arena_calloc(arena, (size_t)c->found->num_outputs, sizeof *out->outputs);
  if (out->operands == NULL || out->is_unused == NULL || out->outputs == NULL) return no_memory(c->found);
  memset(out->is_unused, true, out->num_values * sizeof *out->is_unused);
  out->num_outputs = (uint32_t)c->found->num_outputs;
  for (uint32_t i = 0; i < out->num_outputs; i++) {
    out->outputs[i] = value_of(c, c->found->outputs[i]);
    out->is_unused[out->outputs[i]] = false;
  }
  for (int m = c->found->num_members - 1; m >= 0; m--) {
    const weft_node_t *node = c->found->members[m];
    for (int i = node->num_inputs - 1; i >= 0; i--) {
      const uint32_t value = value_of(c, node->inputs[i]);
      out->operands[out->commands[m].first_operand + (uint32_t)i] =
          (command_operand_t){.value = value, .is_last = out->is_unused[value]};
      out->is_unused[value] = false;
    }
  }
  return NULL;
}

static weft_status_t *add_command(commands_builder_t *c, const weft_node_t *n, buffer_command_t *out) {
  weft_kernel_setup_t seen;
  const weft_kernel_t *k = weft_plan_find_kernel(c->b->options, n, c->out->device);
  weft_plan_describe(c->b, n, c->out->device, k, &seen);
  weft_plan_setup_set(&seen, &out->setup);
  out->instance.kernel = k;
  out->forwards = k->forwards && n->num_inputs == 1 && n->num_outputs == 1;
  if (k->prepare == NULL || out->forwards) return NULL;
  return weft_status_attach_node(k->prepare(&seen, &out->instance.state), n->name);
}

static weft_status_t *compile(commands_builder_t *c) {
  weft_commands_t *out = c->out;
  out->commands = weft_arena_calloc(&c->b->plan->arena, (size_t)c->found->num_members, sizeof *out->commands);
  if (out->commands == NULL) return no_memory(c->found);
  WEFT_RETURN_IF_ERROR(number_values(c));
  WEFT_RETURN_IF_ERROR(add_operands(c));
  for (int m = 0; m < c->found->num_members; m++) {
    out->num_commands++;
    WEFT_RETURN_IF_ERROR(add_command(c, c->found->members[m], &out->commands[m]));
  }
  return weft_commands_recordings_create(out, &out->recordings);
}

weft_status_t *weft_commands_compile(plan_builder_t *b, const found_commands_t *found, weft_commands_t *out) {
  commands_builder_t c = {.b = b, .found = found, .out = out};
  WEFT_RETURN_IF_ERROR(weft_plan_find_device(b->options, found->node, &out->device));
  weft_status_t *s = compile(&c);
  weft_map_deinit(&c.values);
  return s;
}

void weft_commands_deinit(weft_commands_t *c) {
  weft_commands_recordings_destroy(c->recordings);
  for (uint32_t i = 0; i < c->num_commands; i++) {
    op_instance_t *one = &c->commands[i].instance;
    if (one->state != NULL && one->kernel->destroy != NULL) one->kernel->destroy(one->state);
    weft_attrs_release_tensors(c->commands[i].setup.attrs, c->commands[i].setup.num_attrs);
  }
}
