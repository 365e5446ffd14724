/* graph/clone.c - a node of one graph copied into another. */
#include "base/alloc.h"
#include "graph/graph.h"

static weft_status_t *no_memory(const weft_node_t *n) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for node '%.*s'", WEFT_STR_ARGS(n->name));
}

static bool reserve_id(weft_graph_t *g) {
  if (g->num_nodes < g->capacity) return true;
  int capacity = g->capacity < 64 ? 64 : g->capacity * 2;
  weft_node_t **nodes = weft_realloc(g->nodes, (size_t)capacity, sizeof *nodes);
  if (nodes == NULL) return false;
  g->nodes = nodes;
  g->capacity = capacity;
  return true;
}

static bool copy_types(weft_arena_t *arena, const int *from, int n, const int **out) {
  *out = NULL;
  if (n == 0) return true;
  int *to = weft_arena_alloc(arena, (size_t)n * sizeof *to);
  if (to == NULL) return false;
  memcpy(to, from, (size_t)n * sizeof *to);
  *out = to;
  return true;
}

weft_status_t *weft_graph_clone_node(weft_graph_t *g, const weft_node_t *n, weft_node_t **out) {
  weft_node_t *c = weft_arena_calloc(&g->arena, 1, sizeof *c);
  if (c == NULL || !reserve_id(g)) return no_memory(n);
  c->op = n->op;
  c->function = n->function;
  c->flags = n->flags;
  c->num_inputs = n->num_inputs;
  c->num_outputs = n->num_outputs;
  c->name = weft_arena_str(&g->arena, n->name);
  c->requested_device = weft_graph_intern(g, n->requested_device);
  c->assigned_device = weft_graph_intern(g, n->assigned_device);
  c->inputs = n->num_inputs == 0 ? NULL : weft_arena_calloc(&g->arena, (size_t)n->num_inputs, sizeof *c->inputs);
  c->attrs = n->num_attrs == 0 ? NULL : weft_arena_calloc(&g->arena, (size_t)n->num_attrs, sizeof *c->attrs);
  bool ok = c->name.data != NULL && c->requested_device.data != NULL && c->assigned_device.data != NULL &&
            (n->num_inputs == 0 || c->inputs != NULL) && (n->num_attrs == 0 || c->attrs != NULL) &&
            copy_types(&g->arena, n->input_types, n->num_inputs, &c->input_types) &&
            copy_types(&g->arena, n->output_types, n->num_outputs, &c->output_types);
  if (!ok) return no_memory(n);
  if (n->output_shapes != NULL && n->num_outputs > 0) {
    weft_shape_t *shapes = weft_arena_alloc(&g->arena, (size_t)n->num_outputs * sizeof *shapes);
    if (shapes == NULL) return no_memory(n);
    memcpy(shapes, n->output_shapes, (size_t)n->num_outputs * sizeof *shapes);
    c->output_shapes = shapes;
  }
  if (weft_map_get(&g->by_name, c->name) != NULL) {
    return WEFT_ERROR(ALREADY_EXISTS, "there is a node '%.*s' already", WEFT_STR_ARGS(n->name));
  }
  WEFT_RETURN_IF_ERROR(weft_map_put(&g->by_name, c->name, c, NULL));
  /* From here the graph owns the node, and with it the tensors of its attributes. */
  c->id = g->num_nodes;
  g->nodes[g->num_nodes++] = c;
  g->num_live++;
  for (int i = 0; i < n->num_attrs; i++) {
    c->attrs[i].name = weft_graph_intern(g, n->attrs[i].name);
    if (c->attrs[i].name.data == NULL) return no_memory(n);
    WEFT_RETURN_IF_ERROR(weft_attr_copy(&g->arena, &n->attrs[i].value, &c->attrs[i].value));
    c->num_attrs = i + 1;
  }
  *out = c;
  return NULL;
}
