/* graph/controls.c - the control inputs of a node, without duplicates.
 *
 * Few are searched one by one. Many have a table from node to index, in the graph's arena, so that 100,000
 * are added in linear time. What reads a graph may fill `controls` of a new node itself; the table is made
 * when one is needed.
 *
 * Invariant: if the table's num_seen is num_controls, each control input is entered. An entry counts only if
 * that node stands at its index: what was replaced stays in the table until it is made anew.
 */
#include "graph/graph.h"

enum { FEW = 16 };

struct weft_control_table {
  int num_seen;        /* control inputs that have been entered */
  uint32_t used, size; /* slots; size: a power of two, at most half of them used */
  uint32_t *slots;     /* index in `controls` + 1; 0: free */
};

static uint32_t slot_of(const weft_control_table_t *t, const weft_node_t *from) {
  return (uint32_t)((uint64_t)from->id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (t->size - 1);
}

static void enter(weft_control_table_t *t, const weft_node_t *from, int index) {
  uint32_t at = slot_of(t, from);
  while (t->slots[at] != 0) at = (at + 1) & (t->size - 1);
  t->slots[at] = (uint32_t)index + 1;
  t->used++;
}

/* Sees to a table that has all control inputs, and room for one more. */
static weft_status_t *prepare(weft_graph_t *g, weft_node_t *n) {
  weft_control_table_t *t = n->control_table;
  if (t != NULL && t->num_seen == n->num_controls && t->used < t->size / 2) return NULL;
  if (t == NULL) t = weft_arena_calloc(&g->arena, 1, sizeof *t);
  if (t == NULL) goto no_memory;
  uint32_t size = 4 * FEW;
  while (size / 4 <= (uint32_t)n->num_controls) size *= 2;
  if (t->size < size) {
    uint32_t *slots = weft_arena_alloc(&g->arena, size * sizeof *slots);
    if (slots == NULL) goto no_memory;
    t->slots = slots;
    t->size = size;
  }
  memset(t->slots, 0, t->size * sizeof *t->slots);
  t->used = 0;
  for (int i = 0; i < n->num_controls; i++) enter(t, n->controls[i], i);
  t->num_seen = n->num_controls;
  n->control_table = t;
  return NULL;
no_memory:
  return WEFT_NO_MEMORY("control inputs of '%s'", n->name.data);
}

weft_status_t *weft_graph_find_control(weft_graph_t *g, weft_node_t *n, const weft_node_t *from, int *out) {
  *out = -1;
  if (n->num_controls <= FEW) {
    for (int i = 0; i < n->num_controls && *out < 0; i++) {
      if (n->controls[i] == from) *out = i;
    }
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(prepare(g, n));
  const weft_control_table_t *t = n->control_table;
  for (uint32_t at = slot_of(t, from); t->slots[at] != 0 && *out < 0; at = (at + 1) & (t->size - 1)) {
    const int index = (int)(t->slots[at] - 1);
    if (n->controls[index] == from) *out = index;
  }
  return NULL;
}

weft_status_t *weft_graph_add_control(weft_graph_t *g, weft_node_t *from, weft_node_t *to) {
  int index = -1;
  WEFT_RETURN_IF_ERROR(weft_graph_find_control(g, to, from, &index));
  if (index >= 0) return NULL;
  if (to->num_controls == to->controls_capacity) {
    int capacity = to->controls_capacity == 0 ? 2 : to->controls_capacity * 2;
    weft_node_t **controls = weft_arena_calloc(&g->arena, (size_t)capacity, sizeof *controls);
    if (controls == NULL) return WEFT_NO_MEMORY("adding a control input to '%s'", to->name.data);
    if (to->num_controls > 0) memcpy(controls, to->controls, (size_t)to->num_controls * sizeof *controls);
    to->controls = controls;
    to->controls_capacity = capacity;
  }
  if (to->num_controls > FEW) { /* the search has left room for it */
    enter(to->control_table, from, to->num_controls);
    to->control_table->num_seen++;
  }
  to->controls[to->num_controls++] = from;
  return NULL;
}

weft_status_t *weft_graph_replace_control(weft_graph_t *g, weft_node_t *n, int i, weft_node_t *from) {
  if (n->num_controls > FEW) {
    WEFT_RETURN_IF_ERROR(prepare(g, n));
    enter(n->control_table, from, i);
  }
  n->controls[i] = from;
  return NULL;
}

void weft_graph_clear_controls(weft_node_t *n) {
  n->num_controls = 0;
  n->control_table = NULL;
}
