/* sharding/data/analyse.c - the analysis of the data axis: rounds over the graph, and the plan that comes
 * out.
 *
 * 1. Nodes that the roots need, producers first. A round asks each node's rule; a
 *    node whose inputs are not known yet (values that come round a loop) waits for
 *    the next round. Rounds end when nothing changes.
 * 2. A Partial value that one consumer requires as Replicate is all-reduced for all its consumers: the
 * all-reduce is paid for, and what follows then needs none. So the rounds start again with these values
 * reduced, until no new ones appear.
 * 3. Communication inside a loop would happen in every round of it. Where the value
 *    came into the loop from outside, it happens there, before (`forced`);
 *    elsewhere the loop runs whole on every replica (whole.c).
 */
#include "sharding/data/plan.h"

#include "base/alloc.h"
#include "sharding/data/whole.h"

typedef weft_data_value_t value_t;

enum { MAX_ROUNDS = 64 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("analysing a graph for replicas"); }

/* ---- rounds ---- */

/* What was asked for in the last round: before it, values were not yet what they are. */
static bool grant(weft_data_analysis_t *a) {
  bool any = false;
  for (int i = 0; i < a->num_order; i++) {
    int id = a->order[i]->id;
    if (a->asked[id] != a->round || a->forced[id].kind != WEFT_SHARDING_NONE) continue;
    a->forced[id] = weft_sharding_replicate(0);
    any = true;
  }
  return any;
}

static void forget(weft_data_analysis_t *a) {
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    for (int o = 0; o < n->num_outputs; o++)
      a->values[n->id][o] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
  }
  for (int i = 1; i < a->num_cells; i++)
    a->cells[i].value = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
}

/* What is refused in a loop because of the rows of the batch can be done where it has all of them. */
static weft_status_t *visit(weft_data_analysis_t *a, const weft_node_t *n) {
  weft_status_t *s = weft_data_visit(a, n);
  if (s == NULL || weft_status_code(s) != WEFT_INVALID_ARGUMENT) return s;
  if (a->later) { /* it may be because of values that will be others */
    weft_status_free(s);
    return NULL;
  }
  bool is_whole;
  weft_status_t *failed = weft_data_make_whole(a, n, &is_whole);
  if (failed == NULL && !is_whole) return s;
  weft_status_free(s);
  a->again = true;
  return failed;
}

static weft_status_t *settle(weft_data_analysis_t *a) {
  forget(a);
  a->changed = true;
  for (int round = 0; a->changed; round++) {
    if (round == MAX_ROUNDS) {
      return weft_data_refuse(a->order[a->num_order - 1],
                              "the analysis of its loops does not come to an end");
    }
    a->changed = false;
    a->round++;
    for (int i = 0; i < a->num_order && !a->again; i++) WEFT_RETURN_IF_ERROR(visit(a, a->order[i]));
    if (a->again || a->later) return NULL;
    if (!a->has_loops && !a->has_cells) break;
  }
  return NULL;
}

/* Marks Partial values that a consumer requires as Replicate. */
static bool share_sums(weft_data_analysis_t *a) {
  bool any = false;
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    for (int k = 0; k < n->num_inputs; k++) {
      weft_output_t from = n->inputs[k];
      const value_t *v = &a->values[from.node->id][from.index];
      bool *shared = &a->shared[from.node->id][from.index];
      if (v->s.kind != WEFT_SHARDING_PARTIAL || *shared) continue;
      if (a->plan->required[n->id][k].kind == WEFT_SHARDING_REPLICATE) *shared = any = true;
    }
  }
  return any;
}

static weft_status_t *refuse_talk(const weft_node_t *n, const weft_node_t *from,
                                  const weft_axis_sharding_t *as) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_axis_sharding_print(as, &text);
  weft_status_t *s =
      weft_data_refuse(n,
                       "it needs the whole of '%.*s' (%s) in every round of a loop, and replicas exchange "
                       "nothing inside loops; compute "
                       "it before the loop, or after it",
                       WEFT_STR_ARGS(from->name), text.failed || text.data == NULL ? "?" : text.data);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *move_out_of_loops(weft_data_analysis_t *a, bool *any) {
  *any = false;
  for (int i = 0; a->has_loops && i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    int frame = a->frames.frame_of[n->id];
    if ((n->op->flags & WEFT_OP_ENTER) != 0) frame = a->frames.parent[frame];
    for (int k = 0; frame != 0 && k < n->num_inputs; k++) {
      weft_output_t from = n->inputs[k];
      const value_t *v = &a->values[from.node->id][from.index];
      const weft_axis_sharding_t *to = &a->plan->required[n->id][k];
      if (weft_axis_sharding_eq(&v->s, to) || to->kind == WEFT_SHARDING_SINGLE || v->zero) continue;
      bool is_cut = v->s.kind == WEFT_SHARDING_REPLICATE && v->s.degree == 0 &&
                    to->kind == WEFT_SHARDING_SHARD && to->degree == 0;
      bool is_element = weft_data_is_element(from.node);
      if (is_cut && !is_element && !weft_data_comes_through(from.node))
        continue; /* each replica has it, and takes its rows */
      bool found = true, is_new = false;
      for (int j = 0; j < a->num_order; j++) a->order[j]->mark = 0;
      weft_data_force(a, from, to, &found, &is_new);
      *any |= is_new;
      if (is_cut && is_element && !is_new) continue; /* if it cannot be cut before the loop, then there */
      if (found && is_new) continue;
      bool is_whole;
      WEFT_RETURN_IF_ERROR(
          weft_data_make_whole(a, a->frames.frame_of[n->id] == frame ? n : from.node, &is_whole));
      if (!is_whole) return refuse_talk(n, from.node, &v->s);
      return *any = true, NULL; /* much is different now */
    }
  }
  return NULL;
}

static weft_status_t *run_rounds(weft_data_analysis_t *a) {
  for (int pass = 0; pass < MAX_ROUNDS + 3 * a->num_order;
       pass++) { /* each asks for something new: of a node, a list, a loop */
    bool moved;
    WEFT_RETURN_IF_ERROR(settle(a));
    if (a->again || a->later) {
      a->again = a->later = false;
      continue;
    }
    for (int i = 0; i < a->options->num_roots; i++) { /* fetched: then as it truly is */
      const weft_node_t *n = a->options->roots[i];
      for (int o = 0; o < n->num_outputs; o++) {
        const value_t *v = &a->values[n->id][o];
        if (v->own != 0) a->asked[v->own - 1] = a->round;
        if (v->lacking != 0) a->asked[v->lacking - 1] = a->round;
      }
    }
    if (grant(a)) continue;
    WEFT_RETURN_IF_ERROR(move_out_of_loops(a, &moved));
    bool shared = share_sums(a);
    if (!shared && !moved) return NULL;
  }
  return weft_data_refuse(a->order[a->num_order - 1], "the analysis does not come to an end");
}

/* ---- start and end ---- */

static bool is_needed(const weft_data_analysis_t *a, const weft_node_t *n) {
  return a->values[n->id] != NULL;
}

static weft_status_t *need(weft_data_analysis_t *a, weft_node_t **stack, int *depth, weft_node_t *n) {
  if (is_needed(a, n)) return NULL;
  weft_data_plan_t *p = a->plan;
  size_t outputs = (size_t)n->num_outputs + 1;
  a->values[n->id] = weft_arena_calloc(&a->arena, outputs, sizeof(value_t));
  a->shared[n->id] = weft_arena_calloc(&a->arena, outputs, sizeof(bool));
  p->outputs[n->id] = weft_arena_calloc(&p->arena, outputs, sizeof(weft_axis_sharding_t));
  p->required[n->id] = weft_arena_calloc(&p->arena, (size_t)n->num_inputs + 1, sizeof(weft_axis_sharding_t));
  if (a->values[n->id] == NULL || a->shared[n->id] == NULL || p->outputs[n->id] == NULL ||
      p->required[n->id] == NULL) {
    return no_memory();
  }
  stack[(*depth)++] = n;
  return NULL;
}

static weft_status_t *find_needed(weft_data_analysis_t *a) {
  const weft_graph_t *g = a->g;
  int depth = 0;
  weft_node_t **stack = weft_arena_alloc(&a->arena, ((size_t)g->num_nodes + 1) * sizeof *stack);
  if (stack == NULL) return no_memory();
  for (int i = 0; i < a->options->num_roots; i++) {
    WEFT_RETURN_IF_ERROR(need(a, stack, &depth, g->nodes[a->options->roots[i]->id]));
  }
  while (depth > 0) {
    const weft_node_t *n = stack[--depth];
    a->has_loops |= (n->op->flags & WEFT_OP_ENTER) != 0;
    for (int i = 0; i < n->num_inputs; i++) WEFT_RETURN_IF_ERROR(need(a, stack, &depth, n->inputs[i].node));
    for (int i = 0; i < n->num_controls; i++) WEFT_RETURN_IF_ERROR(need(a, stack, &depth, n->controls[i]));
  }
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(g, &a->order));
  for (int i = 0; i < g->num_live; i++) {
    if (is_needed(a, a->order[i])) a->order[a->num_order++] = a->order[i];
  }
  return NULL;
}

static weft_status_t *start(weft_data_analysis_t *a) {
  weft_data_plan_t *p = a->plan;
  size_t n = (size_t)a->g->num_nodes + 1;
  p->run = weft_arena_calloc(&p->arena, n, sizeof *p->run);
  p->outputs = weft_arena_calloc(&p->arena, n, sizeof *p->outputs);
  p->required = weft_arena_calloc(&p->arena, n, sizeof *p->required);
  p->draws = weft_arena_calloc(&p->arena, n, sizeof *p->draws);
  p->named = weft_arena_calloc(&p->arena, n, sizeof *p->named);
  p->prints_once = weft_arena_calloc(&p->arena, n, sizeof *p->prints_once);
  p->notes = weft_arena_calloc(&p->arena, WEFT_DATA_NOTES, sizeof *p->notes);
  a->values = weft_arena_calloc(&a->arena, n, sizeof *a->values);
  a->shared = weft_arena_calloc(&a->arena, n, sizeof *a->shared);
  a->forced = weft_arena_calloc(&a->arena, n, sizeof *a->forced);
  a->forced_in = weft_arena_calloc(&a->arena, n, sizeof *a->forced_in);
  a->asked = weft_arena_calloc(&a->arena, n, sizeof *a->asked);
  a->shapes = weft_arena_calloc(&a->arena, n, sizeof *a->shapes);
  bool is_there = p->run != NULL && p->outputs != NULL && p->required != NULL && p->draws != NULL &&
                  p->named != NULL && p->prints_once != NULL && p->notes != NULL && a->values != NULL &&
                  a->shared != NULL && a->forced != NULL && a->asked != NULL && a->forced_in != NULL &&
                  a->shapes != NULL;
  if (!is_there) return no_memory();
  WEFT_RETURN_IF_ERROR(find_needed(a));
  for (int i = 0; i < a->num_order; i++) {
    int num_values = a->order[i]->num_inputs + a->order[i]->num_outputs + 2;
    if (num_values > a->num_scratch) a->num_scratch = num_values;
  }
  a->scratch = weft_arena_calloc(&a->arena, (size_t)a->num_scratch + 1, sizeof *a->scratch);
  if (a->scratch == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_data_improve_shapes(a));
  return a->has_loops ? weft_pass_find_frames(a->g, &a->arena, &a->frames) : NULL;
}

/* Has the graph a batch that this step does not need? If the step is fed nothing, each replica computes it as
 * it is. */
static bool has_unused_batch(const weft_data_analysis_t *a) {
  for (int id = 0; id < a->g->num_nodes; id++) {
    const weft_node_t *n = a->g->nodes[id];
    bool is_placeholder = n != NULL && (n->op->flags & (WEFT_OP_PLACEHOLDER | WEFT_OP_DEFAULT)) != 0;
    if (is_placeholder && weft_data_is_batch_placeholder(a, n)) return true;
  }
  return false;
}

/* Finds the readers with a consumer that takes rows of their batch. */
static weft_status_t *find_batches(weft_data_analysis_t *a) {
  weft_data_plan_t *p = a->plan;
  size_t n = 0, feeds = 0;
  for (int i = 0; i < a->num_order; i++) {
    for (int o = 0; o < a->order[i]->num_outputs; o++) n += a->values[a->order[i]->id][o].is_batch;
    feeds += weft_data_is_batch_placeholder(a, a->order[i]) && a->order[i]->op->batch != WEFT_BATCH_BY_FLAGS;
    n += (a->order[i]->op->flags & WEFT_OP_PLACEHOLDER) != 0;
  }
  p->batches = weft_arena_calloc(&p->arena, n + feeds + 1, sizeof *p->batches);
  p->batch_feeds = weft_arena_calloc(&p->arena, n + feeds + 1, sizeof *p->batch_feeds);
  if (p->batches == NULL || p->batch_feeds == NULL) return no_memory();
  for (int i = 0; i < a->num_order; i++) {
    weft_node_t *node = a->order[i];
    bool is_placeholder = (node->op->flags & (WEFT_OP_PLACEHOLDER | WEFT_OP_DEFAULT)) != 0;
    if (is_placeholder && weft_data_is_batch_placeholder(a, node)) {
      p->batch_feeds[p->num_batch_feeds++] = node;
      p->batches[p->num_batches++] = (weft_output_t){node, 0};
    }
    for (int o = 0; o < node->num_outputs; o++) {
      if (a->values[node->id][o].is_batch) p->batches[p->num_batches++] = (weft_output_t){node, o};
    }
  }
  if (p->num_batches > 0 || a->options->may_lack_batch) return NULL;
  const weft_node_t *culprit = a->num_order > 0 ? a->order[a->num_order - 1] : NULL;
  bool is_fed = false;
  for (int i = 0; i < a->num_order; i++) {
    if ((a->order[i]->op->flags & WEFT_OP_PLACEHOLDER) == 0) continue;
    culprit = a->order[i];
    is_fed = true;
  }
  if (!is_fed && has_unused_batch(a)) return NULL;
  if (culprit == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "Nothing is to be run: no batch to split over replicas");
  return weft_data_refuse(
      culprit,
      "no input has a batch dimension; declare the first dimension of what is fed as unknown, "
      "or name the placeholders to be split: batch=x+y");
}

static weft_status_t *finish(weft_data_analysis_t *a) {
  weft_data_plan_t *p = a->plan;
  p->graph = a->g;
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    bool takes_sharded = false;
    for (int o = 0; o < n->num_outputs; o++) {
      p->outputs[n->id][o] = a->values[n->id][o].s;
      p->outputs[n->id][o].is_hollow = a->values[n->id][o].is_hollow;
      if (a->values[n->id][o].s.kind == WEFT_SHARDING_NONE) {
        return weft_data_refuse(n, "the sharding of its output %d is unknown: nothing is ever put there", o);
      }
    }
    for (int k = 0; k < n->num_inputs; k++) {
      weft_sharding_kind_t kind = a->values[n->inputs[k].node->id][n->inputs[k].index].s.kind;
      takes_sharded |= kind == WEFT_SHARDING_SHARD || kind == WEFT_SHARDING_PARTIAL;
    }
    if ((p->run[n->id] == WEFT_RUN_SINGLE || p->prints_once[n->id]) && takes_sharded) {
      WEFT_RETURN_IF_ERROR(
          weft_data_note(a, "'%.*s' (%.*s) runs on replica 0 alone, on the inputs of all replicas",
                         WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name)));
    }
    if ((n->flags & WEFT_OP_BATCH_NORM) != 0 && p->run[n->id] == WEFT_RUN_REPLICAS &&
        weft_node_attr_bool(n, "is_training", true)) {
      WEFT_RETURN_IF_ERROR(weft_data_note(
          a, "'%.*s' normalises with the statistics of each replica's own rows", WEFT_STR_ARGS(n->name)));
    }
  }
  return weft_data_note_draws(a);
}

weft_status_t *weft_data_analyse(const weft_graph_t *g, const weft_data_options_t *o, weft_data_plan_t *out) {
  weft_data_plan_t plan = {.arena = WEFT_ARENA_INIT};
  weft_data_analysis_t a = {.g = g, .options = o, .plan = &plan, .arena = WEFT_ARENA_INIT};
  weft_status_t *s = start(&a);
  if (s == NULL && a.num_order > 0) s = run_rounds(&a);
  if (s == NULL) s = find_batches(&a);
  if (s == NULL) s = finish(&a);
  weft_free(a.order);
  weft_free(a.cells);
  weft_arena_deinit(&a.arena);
  if (s != NULL) {
    weft_data_plan_deinit(&plan);
  } else {
    *out = plan;
  }
  return s;
}

void weft_data_plan_deinit(weft_data_plan_t *p) {
  weft_arena_deinit(&p->arena);
  *p = (weft_data_plan_t){.arena = WEFT_ARENA_INIT};
}
