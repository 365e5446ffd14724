/* strategies/replicate_facts.c - facts about each node that are collected before anything is copied.
 *
 * One walk in topological order; values that come round a loop are looked at where
 * the loop is entered, which is enough for all of these: what a loop's body adds
 * (an effect, a batch) is not lost, because it leaves the loop through a Merge that
 * the body's nodes were walked after; so a second walk carries it round.
 */
#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/replication.h"

enum { LAST_BIT = 63 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("facts about nodes"); }

static weft_status_t *find_frames(weft_replication_t *r) {
  WEFT_RETURN_IF_ERROR(weft_pass_find_frames(r->source.graph, &r->arena, &r->frames));
  for (int id = 0; id < r->source.graph->num_nodes; id++) {
    const weft_node_t *n = r->source.graph->nodes[id];
    if (n == NULL) continue;
    int frame = r->frames.frame_of[id]; /* an Exit's value is outside */
    r->facts[id].frame = (n->flags & WEFT_OP_EXIT) != 0 ? r->frames.parent[frame] : frame;
  }
  return NULL;
}

/* Does it change something, or fail on purpose? Reading state does not count; drawing random numbers counts
 * where all replicas must do it as often. */
static bool has_effect_itself(const weft_replication_t *r, const weft_node_t *n) {
  if (weft_replication_draws_in_step(r, n)) return true;
  if (r->plan.run[n->id] == WEFT_RUN_UPDATE || (n->flags & WEFT_OP_UPDATE) != 0) return true;
  return (n->flags & WEFT_OP_STATEFUL) != 0 && (n->num_outputs == 0 || (n->flags & WEFT_OP_EFFECT) != 0);
}

static int max_of(int a, int b) { return a > b ? a : b; }

/* Is input i of n a Partial that a collective reduces? */
static bool is_summed(const weft_replication_t *r, const weft_node_t *n, int i) {
  const weft_axis_sharding_t *has = weft_replication_sharding(r, n->inputs[i]);
  return has->kind == WEFT_SHARDING_PARTIAL && r->plan.required[n->id][i].kind != WEFT_SHARDING_PARTIAL;
}

/* A Switch opens a branch, a Merge closes it; what leaves a loop leaves the Switch behind that decides on its
 * end. */
static int branches_of(const weft_replication_t *r, const weft_node_t *n, int around) {
  if ((n->flags & WEFT_OP_SWITCH) != 0) return around + 1;
  if ((n->flags & WEFT_OP_EXIT) != 0) return max_of(around - 1, 0);
  if ((n->flags & WEFT_OP_MERGE) == 0) return around;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_t *p = n->inputs[i].node;
    if ((p->flags & WEFT_OP_ENTER) != 0) return weft_replication_facts(r, p)->branches;
  }
  return max_of(around - 1, 0);
}

/* Does it pass on the value that it reads unchanged? */
static bool hands_on(const weft_node_t *n) { return (n->flags & (WEFT_OP_READ | WEFT_OP_COPY)) != 0; }

static weft_node_t *variable_read(const weft_replication_t *r, const weft_node_t *n) {
  if (!hands_on(n) || weft_carries_variable(n, 0)) return NULL;
  const weft_node_facts_t *from = weft_replication_facts(r, n->inputs[0].node);
  return weft_carries_variable(n->inputs[0].node, n->inputs[0].index) ? from->variable : from->read;
}

static void look_at(weft_replication_t *r, weft_node_t *n) {
  weft_node_facts_t *f = weft_replication_facts(r, n);
  int around = 0;
  f->has_effect = f->has_effect || has_effect_itself(r, n);
  if (r->plan.run[n->id] == WEFT_RUN_STATE) f->variable = n;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_t *p = n->inputs[i].node;
    const weft_node_facts_t *from = weft_replication_facts(r, p);
    f->batches |= from->batches;
    f->has_effect = f->has_effect || from->has_effect;
    f->depth = max_of(f->depth, from->depth + 1);
    f->level = max_of(f->level, from->level + is_summed(r, n, i));
    /* a collective ends only if all replicas take part */
    if (r->o->sum == WEFT_SUM_BY_COLLECTIVES && is_summed(r, n, i)) f->has_effect = true;
    around = max_of(around, from->branches);
    if (f->variable == NULL && from->variable != NULL && n->num_outputs > 0 && weft_carries_variable(n, 0) &&
        weft_carries_variable(p, n->inputs[i].index)) {
      f->variable = from->variable;
    }
  }
  for (int i = 0; i < n->num_controls; i++) {
    const weft_node_facts_t *from = weft_replication_facts(r, n->controls[i]);
    f->batches |= from->batches;
    f->has_effect = f->has_effect || from->has_effect;
    f->depth = max_of(f->depth, from->depth + 1);
    f->level = max_of(f->level, from->level);
    around = max_of(around, from->branches);
  }
  f->read = variable_read(r, n);
  f->branches = branches_of(r, n, around);
}

static void mark_batches(weft_replication_t *r) {
  for (int b = 0; b < r->plan.num_batches; b++) {
    weft_replication_facts(r, r->plan.batches[b].node)->batches |= (uint64_t)1
                                                                   << (b < LAST_BIT ? b : LAST_BIT);
  }
}

static weft_status_t *look_at_root(weft_replication_t *r, weft_root_t *root) {
  weft_node_t *n = root->node;
  weft_node_facts_t *f = weft_replication_facts(r, n);
  f->root = root;
  if (f->is_single) return NULL;
  f->needs_final =
      f->has_effect || (n->op->flags & WEFT_OP_EXIT) != 0; /* a root cannot wait for a node inside a loop */
  for (int k = 0; k < n->num_outputs; k++) {
    const weft_axis_sharding_t *s = &r->plan.outputs[n->id][k];
    bool is_fetched = (root->fetched >> (k < LAST_BIT ? k : LAST_BIT) & 1) != 0;
    if (!is_fetched || weft_is_true_sharding(s)) continue;
    f->needs_final = true;
    if (s->kind == WEFT_SHARDING_LOCAL && !weft_carries_variable(n, k)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "node '%.*s' (%.*s) cannot be fetched under %s: its value is local to each replica",
                        WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name), r->o->strategy);
    }
  }
  return NULL;
}

weft_status_t *weft_replication_find_facts(weft_replication_t *r) {
  weft_graph_t *g = r->source.graph;
  r->facts = weft_arena_calloc(&r->arena, (size_t)g->num_nodes + 1, sizeof *r->facts);
  r->values = weft_arena_calloc(&r->arena, (size_t)g->num_nodes + 1, sizeof(*r->values));
  if (r->facts == NULL || r->values == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(g, &r->order));
  WEFT_RETURN_IF_ERROR(find_frames(r));
  mark_batches(r);
  for (int walk = 0; walk < 2; walk++) {
    for (int i = 0; i < g->num_live; i++) look_at(r, r->order[i]);
  }
  WEFT_RETURN_IF_ERROR(weft_replication_find_single(r));
  for (int i = 0; i < r->source.num_roots; i++) WEFT_RETURN_IF_ERROR(look_at_root(r, &r->source.roots[i]));
  return NULL;
}
