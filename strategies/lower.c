/* strategies/lower.c - see the header. */
#include "strategies/lower.h"

#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/emit.h"

/* The ways of `n`: way b is taken where the index is b, the last one where it is any other number. */
static void emit_ways(weft_emitter_t *e, const weft_node_t *n, weft_output_t *ways) {
  const char *name = n->name.data;
  weft_output_t rest = n->inputs[0], index = n->inputs[1];
  e->device = n->requested_device;
  e->after = index.node; /* in its frame */
  for (int b = 0; b + 1 < n->num_outputs; b++) {
    weft_output_t number = weft_emit_int(e, WEFT_I32, b, "%s/way%d", name, b);
    weft_output_t is_way = weft_emit2(e, "Equal", index, number, "%s/is_way%d", name, b);
    weft_output_t taken = weft_emit2(e, "Switch", rest, is_way, "%s/switch%d", name, b);
    ways[b] = (weft_output_t){taken.node, 1};
    rest = (weft_output_t){taken.node, 0};
  }
  ways[n->num_outputs - 1] = n->num_outputs > 1 ? rest : weft_emit1(e, "Identity", rest, "%s/way0", name);
}

static weft_status_t *replace(weft_graph_t *g, const weft_fanout_t *fanout, weft_node_t *n) {
  weft_emitter_t e = {.g = g};
  weft_output_t *ways = weft_calloc((size_t)n->num_outputs, sizeof *ways);
  if (ways == NULL) return WEFT_NO_MEMORY("lowering node '%s'", n->name.data);
  emit_ways(&e, n, ways);
  weft_status_t *s = weft_emitter_end(&e);
  for (int at = fanout->begin[n->id]; at < fanout->begin[n->id + 1] && s == NULL; at++) {
    const weft_fanout_edge_t *edge = &fanout->edges[at];
    if (edge->input >= 0)
      weft_graph_set_input(edge->to, edge->input, ways[edge->to->inputs[edge->input].index]);
  }
  weft_free(ways);
  return s;
}

static bool is_switch_of_ways(const weft_node_t *n) {
  return (n->flags & WEFT_OP_SWITCH) != 0 && n->op->outputs[0].kind == WEFT_ARG_REPEATED;
}

weft_status_t *weft_lower_for_clients(weft_graph_t *g) {
  weft_node_t **order = NULL; /* a switch before those that take one of its ways */
  weft_fanout_t fanout = {0};
  WEFT_RETURN_IF_ERROR(weft_pass_lower_functions(g, 0));
  int num_live = g->num_live;
  weft_status_t *s = weft_graph_topological_order(g, &order);
  if (s == NULL) s = weft_fanout_build(g, &fanout);
  for (int i = 0; i < num_live && s == NULL; i++) {
    if (is_switch_of_ways(order[i])) s = replace(g, &fanout, order[i]);
  }
  for (int i = 0; i < num_live && s == NULL; i++) {
    if (is_switch_of_ways(order[i])) weft_graph_remove(g, order[i]);
  }
  weft_fanout_deinit(&fanout);
  weft_free(order);
  return s;
}
