/* executor/kernel_node.c - what kernels see of a node, copied out of the graph. */
#include "executor/commands.h"

/* What a node's outputs are for, by its own word or by its op and its consumers. */
static weft_allocator_t *account_of(const plan_builder_t *b, const weft_node_t *n, const weft_device_t *d) {
  weft_memory_tag_t tag = WEFT_MEMORY_ACTIVATION;
  if (d->memory == NULL) return NULL;
  if ((n->flags & (WEFT_OP_COMMUNICATION | WEFT_OP_RECV)) != 0) tag = WEFT_MEMORY_COMM;
  if (b->feeds_update[n->id]) tag = WEFT_MEMORY_GRAD;
  const weft_attr_t *said = weft_node_attr(n, "_weft_memory");
  if (said != NULL && said->kind == WEFT_ATTR_STRING && !said->is_list) weft_memory_tag_parse(said->s, &tag);
  return weft_memory_account(d->memory, tag);
}

/* The node that `n` stands for, in messages: of a copy what it copies, also out of a command buffer. */
static const weft_node_t *origin_of(const plan_builder_t *b, const weft_node_t *n) {
  const weft_node_t *origin = weft_plan_origin(n);
  const found_commands_t *in = origin == n ? NULL : weft_command_buffers_find(b->buffers, origin);
  return in == NULL ? origin : in->outputs[n->inputs[0].index].node;
}

void weft_plan_describe(const plan_builder_t *b, const weft_node_t *n, weft_device_t *d,
                        const weft_kernel_t *k, weft_kernel_setup_t *out) {
  *out = (weft_kernel_setup_t){
      .node = {.name = origin_of(b, n)->name,
               .op_name = n->op->name,
               .op = n->op,
               .num_inputs = n->num_inputs,
               .num_outputs = n->num_outputs,
               .input_types = n->input_types,
               .output_types = n->output_types,
               .device = d,
               .allocator = account_of(b, n, d),
               .param = k == NULL ? NULL : k->param,
               .host_outputs = k == NULL ? 0 : k->host_outputs,
               .session = b->options->session},
      .attrs = n->attrs,
      .num_attrs = n->num_attrs,
      .reads = k == NULL ? NULL : k->reads,
      .functions = &b->functions.base,
  };
}

void weft_plan_setup_set(const weft_kernel_setup_t *seen, plan_setup_t *out) {
  weft_attrs_retain_tensors(seen->attrs, seen->num_attrs);
  *out = (plan_setup_t){.node = seen->node, .attrs = seen->attrs, .num_attrs = seen->num_attrs};
}

static weft_status_t *no_memory(const weft_kernel_setup_t *n) {
  return WEFT_NO_MEMORY("compiling node %.*s", WEFT_STR_ARGS(n->node.name));
}

static const int *copy_types(weft_arena_t *arena, const int *types, int n) {
  int *copy = weft_arena_calloc(arena, (size_t)n, sizeof *copy);
  if (copy != NULL && n > 0) memcpy(copy, types, (size_t)n * sizeof *copy);
  return copy;
}

weft_status_t *weft_kernel_setup_copy(weft_arena_t *arena, const weft_kernel_setup_t *from,
                                      weft_kernel_setup_t *out) {
  weft_kernel_setup_t n = *from;
  weft_named_attr_t *attrs = weft_arena_calloc(arena, (size_t)from->num_attrs, sizeof *attrs);
  n.node.name = weft_arena_str(arena, from->node.name);
  n.node.op_name = from->node.op->name; /* lives as long as the op table */
  n.attrs = attrs;
  n.num_attrs = 0;
  n.node.input_types = copy_types(arena, from->node.input_types, from->node.num_inputs);
  n.node.output_types = copy_types(arena, from->node.output_types, from->node.num_outputs);
  if (n.node.name.data == NULL || attrs == NULL || n.node.input_types == NULL || n.node.output_types == NULL)
    return no_memory(from);
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < from->num_attrs; i++) {
    attrs[i].name = weft_arena_str(arena, from->attrs[i].name);
    s = attrs[i].name.data == NULL ? no_memory(from)
                                   : weft_attr_copy(arena, &from->attrs[i].value, &attrs[i].value);
    if (s == NULL) n.num_attrs++;
  }
  if (s != NULL) {
    weft_kernel_setup_release(&n);
    return s;
  }
  *out = n;
  return NULL;
}

void weft_kernel_setup_release(weft_kernel_setup_t *n) {
  weft_named_attr_t *attrs = (weft_named_attr_t *)n->attrs; /* ours: made above */
  for (int i = 0; i < n->num_attrs; i++) weft_attr_release_tensors(&attrs[i].value);
  n->num_attrs = 0;
}

weft_status_t *weft_kernel_node_check(const weft_kernel_node_t *n, int output, const weft_tensor_t *t,
                                      bool is_needed) {
  const int want = n->output_types[output];
  if (t == NULL && is_needed)
    return WEFT_ERROR(INTERNAL, "Missing %d-th output from {{node %s}}", output, n->name.data);
  if (t == NULL || (int)t->dtype == want) return NULL;
  return WEFT_ERROR(INTERNAL,
                    "Output %d of type %s does not match declared output type %s for node {{node %s}}",
                    output, weft_dtype_name((int)t->dtype), weft_dtype_name(want), n->name.data);
}

weft_status_t *weft_status_attach_node(weft_status_t *s, weft_str_t node) {
  if (s == NULL) return NULL;
  weft_status_t *named = weft_status_new(weft_status_code(s), __FILE__, __LINE__, "%s\n\t [[{{node %.*s}}]]",
                                         weft_status_message(s), WEFT_STR_ARGS(node));
  weft_status_free(s);
  return named;
}
