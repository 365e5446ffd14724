/* strategies/replicate_ties.c - a step runs a collective on all replicas or on none.
 *
 * A value that all replicas compute alike may be read from one of them: a slice of its rows, a value that
 * lives once, a fetch. A step that needs no more would run a collective before that value on this replica
 * alone, and it would wait for ever. So, for each collective and each name of the request: if that name needs
 * the collective on one replica, it is made to need it on all. Its result then passes through an Identity
 * that waits for the copies on the other replicas.
 */
#include "base/alloc.h"
#include "strategies/replication.h"

enum { ROOTS_AT_A_TIME = 64 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("ties between replicas"); }

/* By node id: bit k: roots[k] needs the node. Repeated to a fixed point because of loops. */
static void find_needs(weft_node_t *const *order, int num_nodes, weft_node_t *const *roots, int num_roots,
                       uint64_t *needs) {
  bool changed = true;
  for (int k = 0; k < num_roots; k++) needs[roots[k]->id] |= (uint64_t)1 << k;
  while (changed) {
    changed = false;
    for (int at = num_nodes; at-- > 0;) {
      const weft_node_t *n = order[at];
      uint64_t mine = needs[n->id];
      for (int i = 0; i < n->num_inputs + n->num_controls; i++) {
        int from = i < n->num_inputs ? n->inputs[i].node->id : n->controls[i - n->num_inputs]->id;
        changed = changed || (mine & ~needs[from]) != 0;
        needs[from] |= mine;
      }
    }
  }
}

/* The result on replica i waits for replica k. */
static void tie(weft_replication_t *r, const weft_fanout_t *fanout, weft_node_t *const *nodes, int i,
                const bool *waits) {
  const weft_node_t *mine = nodes[i];
  r->e.device = r->o->devices[i];
  weft_output_t result = {nodes[i], 0};
  weft_output_t tied = weft_emit1(&r->e, "Identity", result, "%.*s/with_all", WEFT_STR_ARGS(mine->name));
  for (int at = fanout->begin[mine->id]; at < fanout->begin[mine->id + 1] && r->e.s == NULL; at++) {
    const weft_fanout_edge_t *edge = &fanout->edges[at];
    if (edge->input >= 0) {
      weft_graph_set_input(edge->to, edge->input, tied);
    } else {
      weft_emit_control(&r->e, tied.node, edge->to);
    }
  }
  for (int k = 0; k < r->n && r->e.s == NULL; k++) {
    if (waits[k]) weft_emit_control(&r->e, nodes[k], tied.node);
  }
}

/* Ties the collectives that a root needs on some replicas only. */
static weft_status_t *tie_for(weft_replication_t *r, weft_node_t *const *roots, int num_roots, bool *any) {
  weft_node_t **order = NULL;
  weft_fanout_t fanout = {0};
  int num_nodes = r->to->num_nodes;
  uint64_t *needs = weft_calloc((size_t)num_nodes + 1, sizeof *needs);
  bool *waits = weft_calloc((size_t)r->n, sizeof *waits);
  weft_status_t *s =
      needs == NULL || waits == NULL ? no_memory() : weft_graph_topological_order(r->to, &order);
  if (s == NULL) s = weft_fanout_build(r->to, &fanout);
  if (s == NULL) find_needs(order, r->to->num_live, roots, num_roots, needs);
  for (const weft_replica_collective_t *c = r->collectives; s == NULL && c != NULL; c = c->next) {
    for (int i = 0; i < r->n && s == NULL; i++) {
      bool is_tied = false;
      for (int k = 0; k < r->n; k++)
        is_tied |= waits[k] = (needs[c->nodes[i]->id] & ~needs[c->nodes[k]->id]) != 0;
      if (is_tied) tie(r, &fanout, c->nodes, i, waits);
      *any |= is_tied;
      s = weft_emitter_end(&r->e);
    }
  }
  weft_fanout_deinit(&fanout);
  weft_free(order);
  weft_free(waits);
  weft_free(needs);
  return s;
}

weft_status_t *weft_replication_tie_collectives(weft_replication_t *r) {
  const weft_prepared_graph_t *p = &r->source;
  if (r->n == 1 || r->collectives == NULL || weft_replication_is_between(r)) return NULL;
  weft_node_t **roots = weft_arena_calloc(&r->arena, (size_t)p->num_roots + 1, sizeof *roots);
  if (roots == NULL) return no_memory();
  int n = 0;
  for (int i = 0; i < p->num_roots; i++) {
    roots[n] = weft_graph_find(r->to, p->roots[i].node->name);
    n += roots[n] != NULL;
  }
  bool any = true; /* a tie makes a replica run more nodes, and possibly another collective among them */
  while (any) {
    any = false;
    for (int at = 0; at < n; at += ROOTS_AT_A_TIME) {
      WEFT_RETURN_IF_ERROR(tie_for(r, roots + at, n - at < ROOTS_AT_A_TIME ? n - at : ROOTS_AT_A_TIME, &any));
    }
  }
  return NULL;
}
