/* graph/clone.c - a node of one graph copied into another. */
#include "base/alloc.h"
#include "graph/graph.h"

static weft_status_t *no_memory(const weft_node_t *n) {
  return WEFT_NO_MEMORY("node '%.*s'", WEFT_STR_ARGS(n->name));
}

static bool reserve_ids(weft_graph_t *g, int capacity) {
  weft_node_t **nodes = weft_realloc(g->nodes, (size_t)capacity, sizeof *nodes);
  if (nodes == NULL) return false;
  g->nodes = nodes;
  g->capacity = capacity;
  return true;
}

static bool reserve_id(weft_graph_t *g) {
  return g->num_nodes < g->capacity || reserve_ids(g, g->capacity < 64 ? 64 : g->capacity * 2);
}

weft_status_t *weft_graph_reserve(weft_graph_t *g, int num_nodes) {
  int needed = g->num_nodes + num_nodes;
  if (needed > g->capacity && !reserve_ids(g, needed)) {
    return WEFT_NO_MEMORY("a graph of %d nodes", needed);
  }
  return weft_map_reserve(&g->by_name, (size_t)needed);
}

/* Neighbours in a graph mostly sit on one device: asks the node before, and only then the table. */
static weft_str_t intern_device(weft_graph_t *g, weft_str_t text, weft_str_t last) {
  return last.data != NULL && weft_str_eq(text, last) ? last : weft_graph_intern(g, text);
}

/* The names of an op's own attributes live for ever. */
static weft_str_t intern_attr_name(weft_graph_t *g, const weft_op_def_t *op, bool is_static,
                                   weft_str_t name) {
  for (int i = 0; is_static && i < op->num_attrs; i++) {
    if (op->attrs[i].name.data == name.data) return name;
  }
  return weft_graph_intern(g, name);
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
  const weft_node_t *before = g->num_nodes > 0 ? g->nodes[g->num_nodes - 1] : NULL;
  weft_str_t none = {NULL, 0};
  c->requested_device =
      intern_device(g, n->requested_device, before == NULL ? none : before->requested_device);
  c->assigned_device = intern_device(g, n->assigned_device, before == NULL ? none : before->assigned_device);
  c->inputs =
      n->num_inputs == 0 ? NULL : weft_arena_calloc(&g->arena, (size_t)n->num_inputs, sizeof *c->inputs);
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
  void *old = NULL;
  WEFT_RETURN_IF_ERROR(weft_map_put(&g->by_name, c->name, c, &old));
  if (old != NULL) {
    weft_node_t *first = old;
    weft_status_t *s =
        weft_map_put(&g->by_name, first->name, first, NULL); /* replaces, so it needs no memory */
    return weft_status_join(
        WEFT_ERROR(ALREADY_EXISTS, "there is a node '%.*s' already", WEFT_STR_ARGS(n->name)), s);
  }
  /* From here the graph owns the node, and with it the tensors of its attributes. */
  c->id = g->num_nodes;
  g->nodes[g->num_nodes++] = c;
  g->num_live++;
  for (int i = 0; i < n->num_attrs; i++) {
    c->attrs[i].name = intern_attr_name(g, n->op, n->function == NULL, n->attrs[i].name);
    if (c->attrs[i].name.data == NULL) return no_memory(n);
    WEFT_RETURN_IF_ERROR(weft_attr_copy(&g->arena, &n->attrs[i].value, &c->attrs[i].value));
    c->num_attrs = i + 1;
  }
  *out = c;
  return NULL;
}
