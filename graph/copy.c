/* graph/copy.c - a deep copy of a graph. */
#include "base/alloc.h"
#include "graph/function.h"
#include "graph/node_build.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("copying a graph"); }

static weft_status_t *copy_attrs(weft_graph_t *to, const weft_node_t *from, weft_node_t *n) {
  if (from->num_attrs == 0) return NULL;
  n->attrs = weft_arena_calloc(&to->arena, (size_t)from->num_attrs, sizeof *n->attrs);
  if (n->attrs == NULL) return no_memory();
  for (int i = 0; i < from->num_attrs; i++) {
    n->attrs[i].name = weft_graph_intern(to, from->attrs[i].name);
    if (n->attrs[i].name.data == NULL) return no_memory();
    WEFT_RETURN_IF_ERROR(weft_attr_copy(&to->arena, &from->attrs[i].value, &n->attrs[i].value));
    n->num_attrs++;
  }
  return NULL;
}

static weft_status_t *copy_shapes(weft_graph_t *to, const weft_node_t *from, weft_node_t *n) {
  if (from->output_shapes == NULL || from->num_outputs == 0) return NULL;
  if (from->num_outputs == 1) {
    n->output_shapes = weft_graph_intern_shape(to, from->output_shapes);
    return n->output_shapes == NULL ? no_memory() : NULL;
  }
  weft_shape_t *shapes = weft_arena_calloc(&to->arena, (size_t)from->num_outputs, sizeof *shapes);
  if (shapes == NULL) return no_memory();
  memcpy(shapes, from->output_shapes, (size_t)from->num_outputs * sizeof *shapes);
  n->output_shapes = shapes;
  return NULL;
}

/* Everything but the edges. */
static weft_status_t *copy_node(weft_graph_t *to, const weft_node_t *from, weft_node_t **out) {
  weft_str_t name = weft_arena_str(&to->arena, from->name);
  if (name.data == NULL) return no_memory();
  weft_node_t *n = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_enter(to, name, &n));
  n->op = from->op;
  n->function = from->function;
  n->flags = from->flags;
  n->requested_device = weft_graph_intern(to, from->requested_device);
  n->assigned_device = weft_graph_intern(to, from->assigned_device);
  n->input_types = weft_graph_intern_types(to, from->input_types, from->num_inputs);
  n->output_types = weft_graph_intern_types(to, from->output_types, from->num_outputs);
  n->num_inputs = from->num_inputs;
  n->num_outputs = from->num_outputs;
  n->inputs = weft_arena_calloc(&to->arena, (size_t)from->num_inputs, sizeof *n->inputs);
  n->controls = weft_arena_calloc(&to->arena, (size_t)from->num_controls, sizeof(*n->controls));
  n->num_controls = n->controls_capacity = from->num_controls;
  if (n->requested_device.data == NULL || n->assigned_device.data == NULL || n->input_types == NULL ||
      n->output_types == NULL || n->inputs == NULL || n->controls == NULL) {
    return no_memory();
  }
  WEFT_RETURN_IF_ERROR(copy_attrs(to, from, n));
  WEFT_RETURN_IF_ERROR(copy_shapes(to, from, n));
  *out = n;
  return NULL;
}

static weft_status_t *copy_versions(const weft_graph_t *from, weft_graph_t *to) {
  to->producer = from->producer;
  to->min_consumer = from->min_consumer;
  if (from->num_bad_consumers == 0) return NULL;
  int *bad = weft_arena_calloc(&to->arena, (size_t)from->num_bad_consumers, sizeof *bad);
  if (bad == NULL) return no_memory();
  memcpy(bad, from->bad_consumers, (size_t)from->num_bad_consumers * sizeof *bad);
  to->bad_consumers = bad;
  to->num_bad_consumers = from->num_bad_consumers;
  return NULL;
}

weft_status_t *weft_graph_copy(const weft_graph_t *g, weft_graph_t **out) {
  weft_graph_t *to = NULL;
  weft_node_t **twin = NULL; /* by id of the original */
  weft_status_t *s = weft_graph_create(&to);
  if (s != NULL) goto done;
  weft_function_library_release(to->library);
  to->library = weft_function_library_retain(g->library);
  s = copy_versions(g, to);
  if (s != NULL) goto done;
  twin = weft_calloc((size_t)g->num_nodes + 1, sizeof(*twin));
  if (twin == NULL) s = no_memory();
  for (int id = 0; id < g->num_nodes && s == NULL; id++) {
    if (g->nodes[id] != NULL) s = copy_node(to, g->nodes[id], &twin[id]);
  }
  for (int id = 0; id < g->num_nodes && s == NULL; id++) {
    const weft_node_t *from = g->nodes[id];
    if (from == NULL) continue;
    for (int i = 0; i < from->num_inputs; i++) {
      twin[id]->inputs[i] = (weft_output_t){twin[from->inputs[i].node->id], from->inputs[i].index};
    }
    for (int i = 0; i < from->num_controls; i++) twin[id]->controls[i] = twin[from->controls[i]->id];
  }
  if (s != NULL) goto done;
  *out = to;
  to = NULL;
done:
  weft_free(twin);
  weft_graph_destroy(to);
  return s;
}
