/* graph/passes/dependencies.c - leaves out what is only waited for, and control inputs that order nothing.
 *
 * - A node that is waited for, but none of whose outputs is read, is not computed: it becomes a NoOp that
 * waits for what it would have read. Gradients of a model's input are such nodes. As in TensorFlow's
 * dependency optimizer.
 * - A node waits for the producer of one of its inputs anyway.
 * - A constant or NoOp that waits for nothing is there from the begin of the step, in every step.
 * - Waiting for a node that only passes its input on is waiting for the producer of that, and waiting for a
 *   NoOp is waiting for the one node that it waits for.
 *
 * An output of a Switch is dead in one branch, which a control edge from the Switch would not tell: such a
 * node stays between. Nodes that wait for more than MOST_CONTROLS others cost a table and are compared by
 * mark, so that the pass is linear.
 */
#include "base/alloc.h"
#include "graph/passes/round.h"

/* The node for which waiting is the same as waiting for `c`; NULL: nothing needs to be waited for. */
static weft_node_t *stands_for(weft_node_t *c) {
  for (;;) {
    const bool is_plain = c->function == NULL && c->num_inputs == 0 && c->num_controls == 0;
    const bool is_noop = (c->flags & WEFT_OP_NOOP) != 0;
    if (is_plain && (is_noop || (c->flags & WEFT_OP_CONST) != 0)) return NULL;
    if (is_noop && c->num_inputs == 0 && c->num_controls == 1) {
      c = c->controls[0];
    } else if (weft_node_copies_input(c) && c->num_controls == 0 &&
               weft_output_may_replace(c->inputs[0], c) && !weft_dtype_is_ref(c->input_types[0])) {
      c = c->inputs[0].node;
    } else {
      return c;
    }
  }
}

/* Puts what `n` has to wait for into `out`, each once. Marks of nodes hold the stamp of their last visitor.
 */
static int needed_controls(weft_node_t *n, int stamp, weft_node_t **out) {
  int num = 0;
  for (int i = 0; i < n->num_inputs; i++) n->inputs[i].node->mark = stamp;
  for (int i = 0; i < n->num_controls; i++) {
    weft_node_t *c = stands_for(n->controls[i]);
    if (c == NULL || c->mark == stamp) continue;
    c->mark = stamp;
    out[num++] = c;
  }
  return num;
}

static bool is_unchanged(const weft_node_t *n, weft_node_t *const *needed, int num) {
  return num == n->num_controls && memcmp(needed, n->controls, (size_t)num * sizeof(*needed)) == 0;
}

/* A NoOp of a loop's or a branch's own must not lose the only thing that keeps it there; it has something to
 * wait for in that case, so nothing is to be done. */
static weft_status_t *reduce(weft_pass_round_t *r, weft_node_t *n, weft_node_t **needed) {
  const int num = needed_controls(n, n->id, needed);
  if (is_unchanged(n, needed, num)) return NULL;
  weft_graph_clear_controls(r->g, n);
  for (int i = 0; i < num; i++) WEFT_RETURN_IF_ERROR(weft_graph_add_control(r->g, needed[i], n));
  r->has_changed = true;
  weft_pass_round_note(r, n, "waits for less", (weft_str_t){NULL, 0});
  return NULL;
}

/* ---- nodes that nothing reads ---- */

typedef struct readers {
  int *num_reads, *num_waits; /* by id: edges that lead out of a node */
} readers_t;

static void count(const readers_t *c, const weft_node_t *n, int by) {
  for (int i = 0; i < n->num_inputs; i++) c->num_reads[n->inputs[i].node->id] += by;
  for (int i = 0; i < n->num_controls; i++) c->num_waits[n->controls[i]->id] += by;
}

/* `n` becomes a NoOp that waits for its inputs' producers and for what it waits for now. */
static weft_status_t *become_noop(weft_pass_round_t *r, weft_node_t *n) {
  weft_node_t *noop = NULL;
  const weft_node_spec_t spec = {.name = n->name, .op = WEFT_STR("NoOp"), .device = n->requested_device};
  weft_graph_remove(r->g, n); /* its memory stays until the end of the pass */
  WEFT_RETURN_IF_ERROR(weft_graph_add(r->g, &spec, &noop));
  noop->assigned_device = n->assigned_device;
  for (int i = 0; i < n->num_inputs; i++)
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(r->g, n->inputs[i].node, noop));
  for (int i = 0; i < n->num_controls; i++)
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(r->g, n->controls[i], noop));
  r->merged[n->id] = noop;
  r->has_changed = r->has_replaced = true;
  weft_pass_round_note(r, n, "is not read, becomes", WEFT_STR("NoOp"));
  return NULL;
}

/* From the last node to the first: what only such a node read is then read by none. Nodes behind control flow
 * stay: whether they are dead says something to those that wait for them. */
static weft_status_t *drop_unread(weft_pass_round_t *r, const readers_t *c) {
  for (int id = 0; id < r->g->num_nodes; id++) {
    if (r->g->nodes[id] != NULL) count(c, r->g->nodes[id], 1);
  }
  for (int i = r->num_ordered - 1; i >= 0; i--) {
    weft_node_t *n = r->order[i];
    if (!weft_pass_round_has(r, n) || r->is_kept[n->id] || c->num_reads[n->id] > 0 ||
        c->num_waits[n->id] == 0)
      continue;
    if (!weft_node_is_pure(n) || n->num_inputs == 0 || weft_pass_round_is_conditional(r, n)) continue;
    count(c, n, -1);
    for (int k = 0; k < n->num_inputs; k++) c->num_waits[n->inputs[k].node->id]++;
    for (int k = 0; k < n->num_controls; k++) c->num_waits[n->controls[k]->id]++;
    WEFT_RETURN_IF_ERROR(become_noop(r, n));
  }
  return NULL;
}

static weft_status_t *leave_unread_out(weft_pass_round_t *r) {
  const size_t num = (size_t)r->g->num_nodes + 1;
  const readers_t c = {weft_calloc(num, sizeof(int)), weft_calloc(num, sizeof(int))};
  weft_status_t *s = NULL;
  if (c.num_reads == NULL || c.num_waits == NULL) {
    s = WEFT_NO_MEMORY("optimising a graph of %d nodes", r->g->num_live);
  } else {
    s = drop_unread(r, &c);
  }
  weft_free(c.num_reads);
  weft_free(c.num_waits);
  if (s == NULL) s = weft_pass_round_finish(r);
  return s;
}

weft_status_t *weft_pass_dependencies(weft_pass_round_t *r) {
  int most = 0;
  WEFT_RETURN_IF_ERROR(weft_pass_round_finish(r));
  WEFT_RETURN_IF_ERROR(leave_unread_out(r));
  for (int id = 0; id < r->g->num_nodes; id++) {
    weft_node_t *n = r->g->nodes[id];
    if (n == NULL) continue;
    n->mark = -1;
    if (n->num_controls > most) most = n->num_controls;
  }
  weft_node_t **needed = weft_calloc((size_t)most + 1, sizeof(*needed));
  if (needed == NULL) return WEFT_NO_MEMORY("optimising a graph of %d nodes", r->g->num_live);
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < r->num_ordered; i++) {
    weft_node_t *n = r->order[i];
    if (!weft_pass_round_has(r, n)) continue;
    s = weft_pass_round_visit(r, n);
    if (s == NULL && n->num_controls > 0 && (n->flags & WEFT_OPS_OF_CONTROL) == 0) s = reduce(r, n, needed);
  }
  weft_free(needed);
  return s;
}
