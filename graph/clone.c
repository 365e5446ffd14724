/* graph/clone.c - a node of one graph copied into another: a record of its own, and what describes it shared.
 */
#include "graph/node_build.h"

static weft_status_t *no_memory(const weft_node_t *n) {
  return WEFT_NO_MEMORY("node '%.*s'", WEFT_STR_ARGS(n->name));
}

/* Neighbours in a graph mostly sit on one device: asks the node before, and only then the table. */
static weft_str_t intern_device(weft_graph_t *g, weft_str_t text, weft_str_t last) {
  return last.data != NULL && weft_str_eq(text, last) ? last : weft_graph_intern(g, text);
}

weft_status_t *weft_node_describe_like(weft_graph_t *g, const weft_graph_t *from, const weft_node_t *like,
                                       weft_node_t *n) {
  weft_str_t none = {NULL, 0};
  const weft_node_t *before = n->id > 0 ? g->nodes[n->id - 1] : NULL;
  n->requested_device =
      intern_device(g, like->requested_device, before == NULL ? none : before->requested_device);
  n->assigned_device =
      intern_device(g, like->assigned_device, before == NULL ? none : before->assigned_device);
  if (n->requested_device.data == NULL || n->assigned_device.data == NULL) return no_memory(n);
  WEFT_RETURN_IF_ERROR(weft_graph_store_keep(g->store, from->store));
  n->op = like->op;
  n->function = like->function;
  n->flags = like->flags;
  n->input_types = like->input_types;
  n->output_types = like->output_types;
  n->output_shapes = like->output_shapes;
  n->num_outputs = like->num_outputs;
  weft_attrs_retain_tensors(like->attrs, like->num_attrs);
  n->attrs = like->attrs;
  n->num_attrs = like->num_attrs;
  n->num_inputs = like->num_inputs;
  return weft_node_reserve_inputs(g, n);
}

weft_status_t *weft_graph_clone_node(weft_graph_t *g, const weft_graph_t *from, const weft_node_t *n,
                                     weft_node_t **out) {
  weft_node_t *c = NULL;
  weft_status_t *s = weft_graph_enter(g, n->name, &c);
  if (weft_status_code(s) == WEFT_INVALID_ARGUMENT) { /* in import's words, and of no client's doing here */
    weft_status_free(s);
    return WEFT_ERROR(ALREADY_EXISTS, "there is a node '%.*s' already", WEFT_STR_ARGS(n->name));
  }
  if (s == NULL) s = weft_node_describe_like(g, from, n, c);
  if (s == NULL) *out = c;
  return s;
}
