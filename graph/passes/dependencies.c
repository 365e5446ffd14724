/* graph/passes/dependencies.c - leaves control inputs out that order nothing.
 *
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

weft_status_t *weft_pass_dependencies(weft_pass_round_t *r) {
  int most = 0;
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
