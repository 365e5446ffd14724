/* strategies/replicate_skips.c - what is computed in steps that skip the update.
 *
 * With accumulation, an update and all that needs its value are dead in most steps. A value that merely comes
 * after an update (what a function returns comes after all that the function does) is not: in steps that skip
 * the update it waits for the choice instead,
 *
 *   is_last -> Switch -> Identity, after the update -> Merge -> the value
 *                    \-----------------------------/
 *
 * Effects (a message, an element for a queue) stay with the update that they follow.
 */
#include "base/alloc.h"
#include "strategies/replication.h"

typedef struct skips {
  weft_replication_t *r;
  weft_output_t is_last;
  weft_node_t **order;   /* owned; of the new graph, producers first */
  int num_nodes;         /* of order */
  bool *is_dead;         /* by id, in steps that skip the update */
  int *frame_of;         /* by id */
  weft_node_t **choices; /* by replica: Switch; NULL: not made yet */
  weft_node_t **after;   /* by id of what may be dead: what follows it and never is; NULL: not made yet */
} skips_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("steps without an update"); }

static bool is_same(weft_output_t a, weft_output_t b) { return a.node == b.node && a.index == b.index; }

static bool chooses(const skips_t *k, const weft_node_t *n) {
  return (n->flags & WEFT_OP_SWITCH) != 0 && is_same(n->inputs[1], k->is_last);
}

static bool is_dead_value(const skips_t *k, weft_output_t o) {
  return k->is_dead[o.node->id] || (chooses(k, o.node) && o.index == 1);
}

/* Rounds of a loop are as alive as what enters it. */
static bool lacks_value(const skips_t *k, const weft_node_t *n) {
  bool is_merge = (n->flags & WEFT_OP_MERGE) != 0, any = false, all = true;
  for (int i = 0; i < n->num_inputs; i++) {
    if ((n->inputs[i].node->flags & WEFT_OP_NEXT_ITERATION) != 0) continue;
    bool dead = is_dead_value(k, n->inputs[i]);
    any = any || dead;
    all = all && dead;
  }
  return is_merge ? all && n->num_inputs > 0 : any;
}

/* Does the update wait at it for the step that applies? */
static bool is_gate(const skips_t *k, const weft_node_t *n) {
  return n->num_inputs == 1 && chooses(k, n->inputs[0].node) &&
         is_same(n->inputs[0].node->inputs[0], k->is_last);
}

static bool follows_only(const skips_t *k, const weft_node_t *n) {
  bool has_effect = (n->flags & (WEFT_OP_UPDATE | WEFT_OP_EFFECT)) != 0;
  if (has_effect || n->num_outputs == 0 || k->frame_of[n->id] != 0) return false;
  for (int i = 0; i < n->num_controls; i++) {
    const weft_node_t *c = n->controls[i];
    if (is_gate(k, c) || (k->is_dead[c->id] && k->frame_of[c->id] != 0)) return false;
  }
  return true;
}

static weft_node_t *choice_on(skips_t *k, int replica) {
  if (k->choices[replica] == NULL)
    k->choices[replica] =
        weft_emit2(&k->r->e, "Switch", k->is_last, k->is_last, "replica_%d/weft/skips", replica).node;
  return k->choices[replica];
}

static weft_node_t *after(skips_t *k, weft_node_t *n) {
  weft_replication_t *r = k->r;
  int replica = 0;
  if (k->after[n->id] != NULL || r->e.s != NULL) return k->after[n->id];
  for (int i = 1; i < r->n; i++)
    if (weft_str_eq(n->requested_device, r->o->devices[i])) replica = i;
  r->e.device = r->o->devices[replica];
  weft_node_t *choice = choice_on(k, replica);
  weft_output_t done =
      weft_emit1(&r->e, "Identity", (weft_output_t){choice, 1}, "replica_%d/weft/updated", replica);
  weft_emit_control(&r->e, n, done.node);
  const weft_output_t both[2] = {{choice, 0}, done};
  k->after[n->id] =
      weft_emit(&r->e, "Merge", both, 2, NULL, 0, "replica_%d/weft/updated_or_not", replica).node;
  return k->after[n->id];
}

static weft_status_t *look_at(skips_t *k, weft_node_t *n) {
  k->is_dead[n->id] = lacks_value(k, n);
  bool is_freed = !k->is_dead[n->id] && follows_only(k, n);
  for (int i = 0; i < n->num_controls; i++) {
    if (!k->is_dead[n->controls[i]->id]) continue;
    k->is_dead[n->id] = !is_freed;
    if (!is_freed) return NULL;
    weft_node_t *with = after(k, n->controls[i]);
    WEFT_RETURN_IF_ERROR(weft_emitter_end(&k->r->e));
    WEFT_RETURN_IF_ERROR(weft_graph_replace_control(k->r->to, n, i, with));
  }
  return NULL;
}

static weft_status_t *check_fetches(const skips_t *k) {
  const weft_replication_t *r = k->r;
  for (int i = 0; i < r->source.num_roots; i++) {
    const weft_root_t *root = &r->source.roots[i];
    const weft_node_t *made = weft_graph_find(r->to, root->node->name);
    if (root->fetched == 0 || made == NULL || !k->is_dead[made->id]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "node '%.*s' (%.*s) cannot be fetched with accumulate=%d: it is computed from the "
                      "update, which most steps skip",
                      WEFT_STR_ARGS(root->node->name), WEFT_STR_ARGS(root->node->op->name), r->o->accumulate);
  }
  return NULL;
}

static weft_status_t *look_at_all(skips_t *k) {
  weft_frames_t frames;
  weft_replication_t *r = k->r;
  size_t num = (size_t)r->to->num_nodes + 1;
  k->is_dead = weft_arena_calloc(&r->arena, num, sizeof *k->is_dead);
  k->after = weft_arena_calloc(&r->arena, num, sizeof(*k->after));
  k->choices = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof(*k->choices));
  if (k->is_dead == NULL || k->after == NULL || k->choices == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_pass_find_frames(r->to, &r->arena, &frames));
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(r->to, &k->order));
  k->frame_of = frames.frame_of;
  k->num_nodes = r->to->num_live;
  for (int at = 0; at < k->num_nodes; at++) WEFT_RETURN_IF_ERROR(look_at(k, k->order[at]));
  return check_fetches(k);
}

weft_status_t *weft_replication_follow_skipped(weft_replication_t *r) {
  skips_t k = {.r = r};
  if (r->accumulation == NULL) return NULL;
  k.is_last = weft_replication_is_last(r);
  weft_status_t *s = look_at_all(&k);
  weft_free(k.order);
  return s;
}
