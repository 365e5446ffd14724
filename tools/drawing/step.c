/* tools/drawing/step.c - which nodes the steps run, where, and in which order. */
#include "tools/drawing/step.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "strategies/prepare.h"
#include "strategies/summary.h"
#include "strategies/traffic.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the nodes of a drawing"); }

/* ---- what runs ---- */

typedef struct step_walk {
  const weft_graph_t *g;
  uint8_t *state; /* by node id; bits */
  const weft_node_t **stack;
  int n;
} step_walk_t;

enum { RUNS = 1, SEEN = 2, FED = 4 };

static void visit(step_walk_t *w, const weft_node_t *n) {
  if (n == NULL || (w->state[n->id] & SEEN) != 0) return;
  w->state[n->id] |= RUNS | SEEN;
  w->stack[w->n++] = n;
}

static void follow(step_walk_t *w) {
  while (w->n > 0) {
    const weft_node_t *n = w->stack[--w->n];
    if ((w->state[n->id] & FED) != 0) continue;
    for (int i = 0; i < n->num_inputs; i++) visit(w, n->inputs[i].node);
    for (int i = 0; i < n->num_controls; i++) visit(w, n->controls[i]);
  }
}

/* What is fed in one worker loop may be computed in another. */
static weft_status_t *mark_loop(step_walk_t *w, const weft_worker_loop_t *l, uint8_t *was_fed) {
  const weft_names_t *lists[] = {&l->feeds, &l->fetches, &l->targets};
  for (int id = 0; id < w->g->num_nodes; id++) w->state[id] &= RUNS;
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < lists[k]->n; i++) {
      weft_node_t *n;
      int index;
      WEFT_RETURN_IF_ERROR(weft_find_named(w->g, lists[k]->items[i], "name", &n, &index));
      if (k == 0) {
        w->state[n->id] |= FED;
        was_fed[n->id] = 1;
      } else {
        visit(w, n);
      }
    }
  }
  follow(w);
  return NULL;
}

/* ---- in order ---- */

static weft_status_t *order_nodes(const weft_graph_t *g, weft_node_t ***out) {
  weft_status_t *s = weft_graph_topological_order(g, out);
  if (weft_status_code(s) != WEFT_INVALID_ARGUMENT) return s;
  weft_status_free(s); /* a graph that cannot run can still be looked at */
  *out = weft_calloc((size_t)g->num_live + 1, sizeof **out);
  if (*out == NULL) return no_memory();
  int n = 0;
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL) (*out)[n++] = g->nodes[id];
  }
  return NULL;
}

static weft_status_t *find_place(weft_step_nodes_t *s, weft_str_t device, int *out) {
  weft_str_t name = device.length == 0 ? WEFT_STR("any device")
                    : s->is_by_task    ? weft_traffic_task(device)
                                       : device;
  for (*out = 0; *out < s->num_places; (*out)++) {
    if (weft_str_eq(s->places[*out], name)) return NULL;
  }
  return WEFT_ERROR(INTERNAL, "the summary lacks the place %.*s", WEFT_STR_ARGS(name));
}

/* The places of the summary, so that a drawing and a text name the same. */
static weft_status_t *list_places(weft_step_nodes_t *s, const weft_rewrite_t *r) {
  weft_summary_t sum;
  WEFT_RETURN_IF_ERROR(weft_rewrite_summarize(r, &s->arena, &sum));
  s->is_by_task = sum.is_by_task;
  s->places = weft_arena_calloc(&s->arena, (size_t)sum.num_places + 1, sizeof *s->places);
  if (s->places == NULL) return no_memory();
  for (int i = 0; i < sum.num_places; i++) s->places[i] = sum.places[i].name;
  s->num_places = sum.num_places;
  if (s->num_places == 0) s->places[s->num_places++] = WEFT_STR("any device"); /* an empty graph */
  return NULL;
}

static weft_status_t *list_nodes(weft_step_nodes_t *s, const weft_graph_t *g, const uint8_t *state,
                                 const uint8_t *was_fed, bool takes_all) {
  weft_node_t **order = NULL;
  WEFT_RETURN_IF_ERROR(order_nodes(g, &order));
  s->nodes = weft_arena_calloc(&s->arena, (size_t)g->num_live + 1, sizeof *s->nodes);
  s->index_of = weft_arena_calloc(&s->arena, (size_t)g->num_nodes + 1, sizeof *s->index_of);
  weft_status_t *status = s->nodes == NULL || s->index_of == NULL ? no_memory() : NULL;
  for (int id = 0; id < g->num_nodes && status == NULL; id++) s->index_of[id] = -1;
  const char *device = NULL; /* devices are interned, and neighbours share them */
  int place = 0;
  for (int i = 0; i < g->num_live && status == NULL; i++) {
    const weft_node_t *n = order[i];
    if (!takes_all && (state[n->id] & RUNS) == 0) continue;
    if (s->num_nodes == 0 || n->requested_device.data != device)
      status = find_place(s, n->requested_device, &place);
    device = n->requested_device.data;
    s->index_of[n->id] = s->num_nodes;
    s->nodes[s->num_nodes++] = (weft_step_node_t){
        .node = n, .place = place, .attached_to = -1, .depth = -1, .is_fed = was_fed[n->id] != 0};
  }
  weft_free(order);
  return status;
}

weft_status_t *weft_step_nodes_find(const weft_rewrite_t *r, bool takes_all, weft_step_nodes_t *out) {
  const weft_graph_t *g = r->graph;
  size_t n = (size_t)g->num_nodes + 1;
  *out = (weft_step_nodes_t){.arena = WEFT_ARENA_INIT, .variables_in = WEFT_MAP_INIT};
  step_walk_t w = {.g = g, .state = weft_calloc(n, 1), .stack = weft_calloc(n, sizeof(*w.stack))};
  uint8_t *was_fed = weft_calloc(n, 1);
  weft_status_t *s = w.state == NULL || w.stack == NULL || was_fed == NULL ? no_memory() : NULL;
  for (int i = 0; i < r->num_loops && s == NULL; i++) s = mark_loop(&w, &r->loops[i], was_fed);
  if (s == NULL) s = list_places(out, r);
  if (s == NULL) s = list_nodes(out, g, w.state, was_fed, takes_all);
  if (s == NULL) s = weft_fanout_build(g, &out->fanout);
  if (s == NULL) s = weft_step_nodes_settle(out, g);
  weft_free(w.state);
  weft_free(w.stack);
  weft_free(was_fed);
  return s;
}

void weft_step_nodes_deinit(weft_step_nodes_t *s) {
  weft_fanout_deinit(&s->fanout);
  weft_map_deinit(&s->variables_in);
  weft_arena_deinit(&s->arena);
}
