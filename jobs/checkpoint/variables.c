/* jobs/checkpoint/variables.c - the variables of a graph. */
#include "jobs/checkpoint/variables.h"

#include "base/alloc.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the variables of a graph"); }

void weft_saved_variables_deinit(weft_saved_variables_t *v) {
  weft_tensor_release(v->object_graph);
  weft_map_deinit(&v->by_node);
  weft_arena_deinit(&v->arena);
  *v = (weft_saved_variables_t){.arena = WEFT_ARENA_INIT};
}

weft_saved_variable_t *weft_saved_variables_get(const weft_saved_variables_t *v, weft_str_t node) {
  return weft_map_get(&v->by_node, node);
}

weft_saved_variable_t *weft_saved_variable_behind(const weft_saved_variables_t *v, weft_output_t of) {
  const weft_node_t *n = of.node;
  while (n != NULL && (n->flags & WEFT_OP_READ) != 0) n = n->inputs[0].node;
  return n == NULL ? NULL : weft_saved_variables_get(v, n->name);
}

void weft_saved_variable_place(const weft_saved_variable_t *v, int64_t first_row, const weft_shape_t *shape,
                               weft_tensor_slice_t *out) {
  const weft_shape_t *full = v->is_part ? &v->full : weft_shape_is_known(&v->shape) ? &v->shape : shape;
  *out = weft_tensor_slice_whole(full);
  for (int d = 0; d < full->rank; d++) {
    int64_t start = (v->is_part ? v->start[d] : 0) + (d == 0 ? first_row : 0);
    if (start == 0 && shape->dims[d] == full->dims[d]) continue;
    out->is_full[d] = false;
    out->start[d] = start;
    out->length[d] = shape->dims[d];
  }
}

/* ---- which there are ---- */

/* Nodes of equal identity hold the same variable. */
static weft_status_t *identity_of(weft_saved_variables_t *v, const weft_node_t *n, weft_str_t *out) {
  weft_str_t shared = weft_node_attr_string(n, "shared_name"),
             container = weft_node_attr_string(n, "container");
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, container);
  weft_strbuf_putc(&b, '\n');
  weft_strbuf_append(&b, shared.length > 0 || n->output_types[0] == WEFT_RESOURCE ? shared : n->name);
  *out = b.failed ? weft_str_of(NULL, 0) : weft_arena_str(&v->arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  return out->data == NULL ? no_memory() : NULL;
}

static weft_status_t *add(weft_saved_variables_t *v, const weft_node_t *n, weft_map_t *by_identity) {
  weft_str_t identity;
  const weft_attr_t *shape = weft_node_attr(n, "shape");
  weft_dtype_t dtype = (weft_dtype_t)weft_node_attr_type(n, "dtype");
  if (!weft_dtype_is_plain(dtype) && dtype != WEFT_STRING)
    return NULL; /* handles and variants are not saved */
  WEFT_RETURN_IF_ERROR(identity_of(v, n, &identity));
  weft_saved_variable_t *item = weft_map_get(by_identity, identity);
  if (item == NULL) {
    item = &v->items[v->n++];
    *item =
        (weft_saved_variable_t){.node = n, .tensor = n->name, .dtype = dtype, .shape = WEFT_UNKNOWN_SHAPE};
    if (shape != NULL && shape->kind == WEFT_ATTR_SHAPE) item->shape = *shape->shape;
    WEFT_RETURN_IF_ERROR(weft_map_put(by_identity, identity, item, NULL));
  }
  return weft_map_put(&v->by_node, n->name, item, NULL);
}

weft_status_t *weft_saved_variables_collect(const weft_graph_t *g, weft_saved_variables_t *v) {
  *v = (weft_saved_variables_t){.arena = WEFT_ARENA_INIT};
  weft_map_t by_identity = WEFT_MAP_INIT;
  int most = 0;
  for (int i = 0; i < g->num_nodes; i++)
    most += g->nodes[i] != NULL && (g->nodes[i]->flags & WEFT_OP_VARIABLE) != 0;
  v->items = weft_arena_calloc(&v->arena, (size_t)most + 1, sizeof *v->items);
  weft_status_t *s = v->items == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL && (g->nodes[i]->flags & WEFT_OP_VARIABLE) != 0)
      s = add(v, g->nodes[i], &by_identity);
  }
  weft_map_deinit(&by_identity);
  return s;
}
