/* graph/topology.c - an order in which producers come first, or the cycle that forbids one.
 *
 * Kahn's algorithm (A. B. Kahn, "Topological sorting of large networks", 1962).
 * An edge from a NextIteration to a Merge closes a loop and does not count.
 */
#include "graph/topology.h"

#include "base/alloc.h"

static bool closes_loop(const weft_node_t *from, const weft_node_t *to) {
  return (from->flags & WEFT_OP_NEXT_ITERATION) != 0 && (to->flags & WEFT_OP_MERGE) != 0;
}

/* How many edges a node waits for. */
static int count_waits(const weft_node_t *n) {
  int waits = n->num_controls;
  for (int i = 0; i < n->num_inputs; i++) waits += !closes_loop(n->inputs[i].node, n);
  return waits;
}

/* A producer of `n` that was never ready. */
static const weft_node_t *blocker(const weft_node_t *n, const int *waits) {
  for (int i = 0; i < n->num_inputs; i++) {
    if (waits[n->inputs[i].node->id] > 0 && !closes_loop(n->inputs[i].node, n)) return n->inputs[i].node;
  }
  for (int i = 0; i < n->num_controls; i++) {
    if (waits[n->controls[i]->id] > 0) return n->controls[i];
  }
  return n;
}

/* Walks back from any blocked node until it has surely entered a cycle, and names nodes on that. */
static weft_status_t *describe_cycle(const weft_graph_t *g, const int *waits, int num_blocked) {
  const weft_node_t *n = NULL;
  for (int id = 0; id < g->num_nodes && n == NULL; id++) {
    if (g->nodes[id] != NULL && waits[id] > 0) n = g->nodes[id];
  }
  if (n == NULL) return WEFT_ERROR(INTERNAL, "%d nodes are left, but none waits", num_blocked);
  for (int i = 0; i < num_blocked; i++) n = blocker(n, waits);
  weft_strbuf_t names = WEFT_STRBUF_INIT;
  const weft_node_t *at = n;
  for (int i = 0; i < 10; i++) {
    weft_strbuf_printf(&names, "%s{{node %s}}", i > 0 ? " <- " : "", at->name.data);
    at = blocker(at, waits);
    if (at == n) break;
  }
  weft_status_t *s = names.failed
                         ? WEFT_NO_MEMORY("describing a cycle")
                         : WEFT_ERROR(INVALID_ARGUMENT, "%d nodes in a cycle: %s", num_blocked, names.data);
  weft_strbuf_deinit(&names);
  return s;
}

/* Nodes that are ready, in the order in which they became so: those that are taken first fill the result,
 * late ones wait in `late`. */
typedef struct order_queue {
  const bool *is_late; /* NULL: none is */
  weft_node_t **order, **late;
  int num_ordered, num_late, first_late;
} order_queue_t;

static void add_ready(order_queue_t *q, weft_node_t *n) {
  if (q->is_late != NULL && q->is_late[n->id]) {
    q->late[q->num_late++] = n;
  } else {
    q->order[q->num_ordered++] = n;
  }
}

weft_status_t *weft_graph_order_with_late(const weft_graph_t *g, const bool *is_late, weft_node_t ***out) {
  weft_fanout_t fanout = {NULL, NULL};
  order_queue_t q = {.is_late = is_late};
  int *waits = NULL;
  weft_status_t *s = weft_fanout_build(g, &fanout);
  if (s != NULL) goto done;
  q.order = weft_calloc((size_t)g->num_live + 1, sizeof(weft_node_t *));
  q.late = is_late == NULL ? NULL : weft_calloc((size_t)g->num_live + 1, sizeof(weft_node_t *));
  waits = weft_calloc((size_t)g->num_nodes + 1, sizeof *waits);
  if (q.order == NULL || (is_late != NULL && q.late == NULL) || waits == NULL) {
    s = WEFT_NO_MEMORY("ordering %d nodes", g->num_live);
    goto done;
  }
  for (int id = 0; id < g->num_nodes; id++) {
    weft_node_t *n = g->nodes[id];
    if (n == NULL) continue;
    waits[id] = count_waits(n);
    if (waits[id] == 0) add_ready(&q, n);
  }
  for (int i = 0; i < q.num_ordered || q.first_late < q.num_late; i++) {
    if (i == q.num_ordered) q.order[q.num_ordered++] = q.late[q.first_late++];
    const weft_node_t *n = q.order[i];
    for (int k = fanout.begin[n->id]; k < fanout.begin[n->id + 1]; k++) {
      const weft_fanout_edge_t *e = &fanout.edges[k];
      if (e->input >= 0 && closes_loop(n, e->to)) continue;
      if (--waits[e->to->id] == 0) add_ready(&q, e->to);
    }
  }
  if (q.num_ordered < g->num_live) {
    s = describe_cycle(g, waits, g->num_live - q.num_ordered);
    goto done;
  }
  *out = q.order;
  q.order = NULL;
done:
  weft_fanout_deinit(&fanout);
  weft_free(q.order);
  weft_free(q.late);
  weft_free(waits);
  return s;
}

weft_status_t *weft_graph_topological_order(const weft_graph_t *g, weft_node_t ***out) {
  return weft_graph_order_with_late(g, NULL, out);
}
