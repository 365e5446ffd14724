/* tools/strategy/graph_map.c - a rewrite's nodes, edges and crossings to a drawing. */
#include "tools/strategy/graph_map.h"

#include "base/alloc.h"
#include "strategies/traffic.h"
#include "tools/drawing.h"

typedef struct map {
  const weft_rewrite_t *r;
  weft_drawing_t *d;
  bool is_by_task;
  int *numbers; /* owned; by node id */
} map_t;

static weft_str_t place_of(const map_t *m, weft_str_t device) {
  return m->is_by_task ? weft_traffic_task(device) : device;
}

static int64_t bytes_of_variable(const weft_node_t *n) {
  const weft_attr_t *shape = weft_node_attr(n, "shape");
  int64_t count = shape != NULL && shape->shape != NULL ? weft_shape_count(shape->shape) : -1;
  return count < 0 ? 0 : count * (int64_t)weft_dtype_size(weft_node_attr_type(n, "dtype"));
}

static weft_status_t *add_nodes(map_t *m) {
  const weft_graph_t *g = m->r->graph;
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    if (n == NULL) continue;
    bool is_variable = (n->flags & WEFT_OP_VARIABLE) != 0;
    weft_str_t place =
        n->requested_device.length == 0 ? WEFT_STR("any device") : place_of(m, n->requested_device);
    WEFT_RETURN_IF_ERROR(weft_drawing_node(m->d, n->name, place, is_variable,
                                           is_variable ? bytes_of_variable(n) : 0, &m->numbers[id]));
  }
  return NULL;
}

static bool are_together(const map_t *m, const weft_node_t *a, const weft_node_t *b) {
  return weft_str_eq(place_of(m, a->requested_device), place_of(m, b->requested_device));
}

/* What stays in a place; the rest are crossings, or none of a step. */
static weft_status_t *add_edges(map_t *m) {
  const weft_graph_t *g = m->r->graph;
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs + n->num_controls; i++) {
      bool is_control = i >= n->num_inputs;
      const weft_node_t *from = is_control ? n->controls[i - n->num_inputs] : n->inputs[i].node;
      if (!are_together(m, from, n)) continue;
      WEFT_RETURN_IF_ERROR(weft_drawing_edge(m->d, m->numbers[from->id], m->numbers[id],
                                             is_control ? WEFT_DRAWN_CONTROL : WEFT_DRAWN_DATA, NULL));
    }
  }
  return NULL;
}

/* The end of a crossing that is no node of this graph: the client, or another worker. */
static weft_status_t *end_of(map_t *m, const weft_node_t *n, weft_str_t device, const char *name, int *out) {
  if (n != NULL) {
    *out = m->numbers[n->id];
    return NULL;
  }
  return weft_drawing_node(m->d, weft_str(name), place_of(m, device), false, 0, out);
}

static weft_status_t *add_crossings(map_t *m) {
  for (int i = 0; i < m->r->num_crossings; i++) {
    const weft_crossing_t *c = &m->r->crossings[i];
    const weft_flow_t flow = {c->bytes > 0 ? c->bytes : 0, c->row_bytes, c->messages, c->bytes < 0};
    bool is_collective = c->kind == WEFT_CROSSING_COLLECTIVE;
    int from, to;
    if (weft_str_eq(place_of(m, c->from), place_of(m, c->to)) || c->kind == WEFT_CROSSING_SIGNAL) continue;
    WEFT_RETURN_IF_ERROR(end_of(m, c->source, c->from, is_collective ? "weft" : "fed", &from));
    WEFT_RETURN_IF_ERROR(end_of(m, c->target, c->to, is_collective ? "weft" : "fetched", &to));
    WEFT_RETURN_IF_ERROR(weft_drawing_edge(
        m->d, from, to, is_collective ? WEFT_DRAWN_COLLECTIVE : WEFT_DRAWN_CROSSING, &flow));
  }
  return NULL;
}

weft_status_t *weft_graph_map(const weft_rewrite_t *r, const char *scope, weft_strbuf_t *out) {
  map_t m = {.r = r, .numbers = weft_calloc((size_t)r->graph->num_nodes + 1, sizeof *m.numbers)};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_summary_t summary = {0};
  weft_status_t *s = m.numbers == NULL ? WEFT_NO_MEMORY("a drawing") : NULL;
  if (s == NULL) s = weft_rewrite_summarize(r, &arena, &summary);
  m.is_by_task = summary.is_by_task;
  if (s == NULL) s = weft_drawing_create(&m.d);
  if (s == NULL) s = add_nodes(&m);
  if (s == NULL) s = add_edges(&m);
  if (s == NULL) s = add_crossings(&m);
  if (s == NULL) s = weft_drawing_print(m.d, scope, out);
  weft_drawing_destroy(m.d);
  weft_free(m.numbers);
  weft_arena_deinit(&arena);
  return s;
}
