/* executor/kernel_node.c - what kernels see of a node, copied out of the graph. */
#include "executor/plan.h"

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

weft_status_t *weft_status_attach_node(weft_status_t *s, weft_str_t node) {
  if (s == NULL) return NULL;
  weft_status_t *named = weft_status_new(weft_status_code(s), __FILE__, __LINE__, "%s\n\t [[{{node %.*s}}]]",
                                         weft_status_message(s), WEFT_STR_ARGS(node));
  weft_status_free(s);
  return named;
}
