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

/* Nodes that are ready, in the order in which they became so: those with lateness 0 fill the result, the
 * others wait in `late`. An Exit that has all its inputs waits with its frame for the rest of that. */
typedef struct order_queue {
  const weft_order_wishes_t *wishes;
  weft_node_t **order;
  weft_node_t **late[WEFT_MAX_LATENESS];
  int first_late[WEFT_MAX_LATENESS], num_late[WEFT_MAX_LATENESS];
  int num_ordered;
  /* By frame, only with wishes->frames: its nodes but for its Exits, the Exits of frames in it, and these
   * frames themselves, as far as they are not ordered; and the Exits that wait for that. */
  int *open;
  weft_node_t **held;
  weft_node_t **next_held; /* by node id */
} order_queue_t;

static void add_ready(order_queue_t *q, weft_node_t *n) {
  const unsigned char *lateness = q->wishes->lateness;
  const int late = lateness == NULL ? 0 : lateness[n->id];
  if (late == 0) {
    q->order[q->num_ordered++] = n;
  } else {
    q->late[late - 1][q->num_late[late - 1]++] = n;
  }
}

static bool is_exit(const weft_node_t *n) { return (n->flags & WEFT_OP_EXIT) != 0; }

/* All inputs of the node are ordered. */
static void add_complete(order_queue_t *q, weft_node_t *n) {
  const int frame = q->open == NULL || !is_exit(n) ? 0 : q->wishes->frames->frame_of[n->id];
  if (frame == 0 || q->open[frame] == 0) {
    add_ready(q, n);
    return;
  }
  q->next_held[n->id] = q->held[frame];
  q->held[frame] = n;
}

/* One of what is open in the frame is ordered. */
static void close_one(order_queue_t *q, int frame) {
  const weft_frames_t *frames = q->wishes->frames;
  for (; frame != 0 && --q->open[frame] == 0; frame = frames->parent[frame]) {
    for (weft_node_t *n = q->held[frame]; n != NULL; n = q->next_held[n->id]) add_ready(q, n);
  }
}

/* The frame that the node's value is in, if that is open until the node is ordered. */
static int opens(const weft_frames_t *frames, const weft_node_t *n) {
  const int frame = frames->frame_of[n->id];
  return is_exit(n) ? frames->parent[frame] : frame;
}

static weft_status_t *init_queue(order_queue_t *q, const weft_graph_t *g) {
  const size_t num_live = (size_t)g->num_live + 1;
  const weft_frames_t *frames = q->wishes->frames;
  q->order = weft_calloc(num_live, sizeof(weft_node_t *));
  bool ok = q->order != NULL;
  for (int i = 0; i < WEFT_MAX_LATENESS && q->wishes->lateness != NULL; i++)
    ok = (q->late[i] = weft_calloc(num_live, sizeof(weft_node_t *))) != NULL && ok;
  if (frames != NULL && frames->num_frames > 1) {
    q->open = weft_calloc((size_t)frames->num_frames, sizeof *q->open);
    q->held = weft_calloc((size_t)frames->num_frames, sizeof(weft_node_t *));
    q->next_held = weft_calloc((size_t)g->num_nodes + 1, sizeof(weft_node_t *));
    ok = ok && q->open != NULL && q->held != NULL && q->next_held != NULL;
  }
  if (!ok) return WEFT_NO_MEMORY("ordering %d nodes", g->num_live);
  if (q->open == NULL) return NULL;
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL) q->open[opens(frames, g->nodes[id])]++;
  }
  for (int f = 1; f < frames->num_frames; f++) q->open[frames->parent[f]]++;
  return NULL;
}

static void deinit_queue(order_queue_t *q) {
  weft_free(q->order);
  for (int i = 0; i < WEFT_MAX_LATENESS; i++) weft_free(q->late[i]);
  weft_free(q->open);
  weft_free(q->held);
  weft_free(q->next_held);
}

/* Takes a late node, if no other one is ready. */
static void take_late(order_queue_t *q, int num_taken) {
  for (int i = 0; i < WEFT_MAX_LATENESS && num_taken == q->num_ordered; i++) {
    if (q->first_late[i] < q->num_late[i]) q->order[q->num_ordered++] = q->late[i][q->first_late[i]++];
  }
}

/* *out is NULL where wishes for loops are not to be had. */
static weft_status_t *order_nodes(const weft_graph_t *g, const weft_order_wishes_t *w, weft_node_t ***out) {
  weft_fanout_t fanout = {NULL, NULL};
  order_queue_t q = {.wishes = w};
  int *waits = NULL;
  weft_status_t *s = weft_fanout_build(g, &fanout);
  if (s == NULL) s = init_queue(&q, g);
  if (s != NULL) goto done;
  waits = weft_calloc((size_t)g->num_nodes + 1, sizeof *waits);
  if (waits == NULL) {
    s = WEFT_NO_MEMORY("ordering %d nodes", g->num_live);
    goto done;
  }
  for (int id = 0; id < g->num_nodes; id++) {
    weft_node_t *n = g->nodes[id];
    if (n == NULL) continue;
    waits[id] = count_waits(n);
    if (waits[id] == 0) add_complete(&q, n);
  }
  for (int i = 0;; i++) {
    take_late(&q, i);
    if (i == q.num_ordered) break;
    const weft_node_t *n = q.order[i];
    for (int k = fanout.begin[n->id]; k < fanout.begin[n->id + 1]; k++) {
      const weft_fanout_edge_t *e = &fanout.edges[k];
      if (e->input >= 0 && closes_loop(n, e->to)) continue;
      if (--waits[e->to->id] == 0) add_complete(&q, e->to);
    }
    if (q.open != NULL) close_one(&q, opens(w->frames, n));
  }
  if (q.num_ordered == g->num_live) {
    *out = q.order;
    q.order = NULL;
  } else if (q.open == NULL) {
    s = describe_cycle(g, waits, g->num_live - q.num_ordered);
  }
done:
  weft_fanout_deinit(&fanout);
  deinit_queue(&q);
  weft_free(waits);
  return s;
}

weft_status_t *weft_graph_order_as_wished(const weft_graph_t *g, const weft_order_wishes_t *w,
                                          weft_node_t ***out, bool *out_loops_are_whole) {
  weft_node_t **order = NULL;
  weft_status_t *s = order_nodes(g, w, &order);
  *out_loops_are_whole = w->frames != NULL && order != NULL;
  const weft_order_wishes_t less = {.lateness = w->lateness};
  if (s == NULL && order == NULL) s = order_nodes(g, &less, &order);
  if (s == NULL) *out = order;
  return s;
}

weft_status_t *weft_graph_topological_order(const weft_graph_t *g, weft_node_t ***out) {
  const weft_order_wishes_t none = {NULL, NULL};
  return order_nodes(g, &none, out);
}
