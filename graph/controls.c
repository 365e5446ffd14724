/* graph/controls.c - the control inputs of a node, without duplicates.
 *
 * Few are searched one by one. Many have a table from node to index, in the graph's arena, so that 100,000
 * are added in linear time. What reads a graph may fill `controls` of a new node itself; the table is made
 * when one is needed.
 *
 * Invariants: `controls` has room for the next power of two of num_controls, and at least two, unless it is
 * NULL. If the table's num_seen is num_controls, each control input is entered. An entry counts only if that
 * node stands at its index: what was replaced stays in the table until it is made anew.
 */
#include "graph/node_build.h"

enum { FEW = 16 };

typedef struct weft_control_table {
  int num_seen;        /* control inputs that have been entered */
  uint32_t used, size; /* slots; size: a power of two, at most half of them used */
  uint32_t *slots;     /* index in `controls` + 1; 0: free */
} weft_control_table_t;

static weft_control_table_t *table_of(const weft_graph_t *g, const weft_node_t *n) {
  return weft_map_get_u64(&g->control_tables, (uint64_t)n->id);
}

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
  weft_control_table_t *t = table_of(g, n);
  if (t != NULL && t->num_seen == n->num_controls && t->used < t->size / 2) return NULL;
  if (t == NULL) {
    t = weft_arena_calloc(&g->records, 1, sizeof *t);
    if (t == NULL) goto no_memory;
    WEFT_RETURN_IF_ERROR(weft_map_put_u64(&g->control_tables, (uint64_t)n->id, t, NULL));
  }
  uint32_t size = 4 * FEW;
  while (size / 4 <= (uint32_t)n->num_controls) size *= 2;
  if (t->size < size) {
    uint32_t *slots = weft_arena_alloc(&g->records, size * sizeof *slots);
    if (slots == NULL) goto no_memory;
    t->slots = slots;
    t->size = size;
  }
  memset(t->slots, 0, t->size * sizeof *t->slots);
  t->used = 0;
  for (int i = 0; i < n->num_controls; i++) enter(t, n->controls[i], i);
  t->num_seen = n->num_controls;
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
  const weft_control_table_t *t = table_of(g, n);
  for (uint32_t at = slot_of(t, from); t->slots[at] != 0 && *out < 0; at = (at + 1) & (t->size - 1)) {
    const int index = (int)(t->slots[at] - 1);
    if (n->controls[index] == from) *out = index;
  }
  return NULL;
}

static int room_for(int num_controls) {
  int room = 2;
  while (room < num_controls) room *= 2;
  return room;
}

weft_status_t *weft_node_reserve_controls(weft_graph_t *g, weft_node_t *n, int num_controls) {
  if (num_controls == 0) return NULL;
  weft_node_t **controls = weft_arena_alloc(&g->records, (size_t)room_for(num_controls) * sizeof *controls);
  if (controls == NULL) return WEFT_NO_MEMORY("control inputs of '%s'", n->name.data);
  n->controls = controls;
  return NULL;
}

weft_status_t *weft_graph_add_control(weft_graph_t *g, weft_node_t *from, weft_node_t *to) {
  int index = -1;
  const int num = to->num_controls;
  WEFT_RETURN_IF_ERROR(weft_graph_find_control(g, to, from, &index));
  if (index >= 0) return NULL;
  if (num == 0 || num == room_for(num)) {
    weft_node_t **old = to->controls;
    WEFT_RETURN_IF_ERROR(weft_node_reserve_controls(g, to, num + 1));
    if (num > 0) memcpy(to->controls, old, (size_t)num * sizeof(*old));
  }
  if (num > FEW) { /* the search has left room for it */
    weft_control_table_t *t = table_of(g, to);
    enter(t, from, num);
    t->num_seen++;
  }
  to->controls[to->num_controls++] = from;
  return NULL;
}

weft_status_t *weft_graph_replace_control(weft_graph_t *g, weft_node_t *n, int i, weft_node_t *from) {
  if (n->num_controls > FEW) {
    WEFT_RETURN_IF_ERROR(prepare(g, n));
    enter(table_of(g, n), from, i);
  }
  n->controls[i] = from;
  return NULL;
}

void weft_graph_clear_controls(weft_graph_t *g, weft_node_t *n) {
  n->num_controls = 0;
  if (g->control_tables.count > 0) weft_map_remove_u64(&g->control_tables, (uint64_t)n->id);
}
