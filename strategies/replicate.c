/* strategies/replicate.c - drives the phases of the replication engine (replication.h lists them). */
#include "strategies/replicate.h"

#include <stdio.h>

#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/replication.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("replicas"); }

/* The batches: those that the options name, else the feeds that the request gives by rows. */
static weft_status_t *find_batches(const weft_replication_t *r, const weft_strategy_request_t *request,
                                   weft_arena_t *arena, weft_data_options_t *out) {
  const weft_replicate_options_t *o = r->o;
  const weft_graph_t *g = r->source.graph;
  const weft_names_t *names = o->batch.n > 0 ? &o->batch : &request->batches;
  const weft_node_t **batch = weft_arena_calloc(arena, (size_t)names->n + 1, sizeof(*batch));
  if (batch == NULL) return no_memory();
  for (int i = 0; i < names->n; i++) {
    weft_node_t *n = NULL;
    int index = 0;
    WEFT_RETURN_IF_ERROR(weft_find_named(g, names->items[i], "batch", &n, &index));
    if (!weft_node_is_placeholder(n)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s: node '%.*s' (%.*s) is no placeholder that could be a batch",
                        o->strategy, WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name));
    }
    batch[i] = n;
  }
  out->batch = batch;
  out->num_batch = names->n;
  return NULL;
}

/* Does the step write variables? A step that only reads them needs no batch. */
static weft_status_t *find_updates(weft_replication_t *r, bool *out) {
  bool *reached = weft_arena_calloc(&r->arena, (size_t)r->source.graph->num_nodes + 1, sizeof *reached);
  if (reached == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_replication_mark_reached(r, false, reached));
  *out = false;
  for (int id = 0; id < r->source.graph->num_nodes; id++) {
    const weft_node_t *n = r->source.graph->nodes[id];
    *out = *out || (n != NULL && reached[id] && (n->op->flags & WEFT_OP_UPDATE) != 0);
  }
  return NULL;
}

static weft_status_t *analyse(weft_replication_t *r, const weft_strategy_request_t *request) {
  weft_data_options_t options = {0};
  const weft_node_t **roots = weft_arena_calloc(&r->arena, (size_t)r->source.num_roots + 1, sizeof(*roots));
  if (roots == NULL) return no_memory();
  for (int i = 0; i < r->source.num_roots; i++) roots[i] = r->source.roots[i].node;
  options.roots = roots;
  options.num_roots = r->source.num_roots;
  bool updates = true;
  WEFT_RETURN_IF_ERROR(find_updates(r, &updates));
  options.may_lack_batch = !updates;
  WEFT_RETURN_IF_ERROR(find_batches(r, request, &r->arena, &options));
  return weft_data_analyse(r->source.graph, &options, &r->plan);
}

static weft_status_t *start(weft_replication_t *r) {
  r->batch_shards = weft_arena_calloc(&r->arena, (size_t)r->plan.num_batches + 1, sizeof *r->batch_shards);
  r->copiers = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *r->copiers);
  if (r->batch_shards == NULL || r->copiers == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_copier_new_graph(r->source.graph, &r->out->graph));
  r->to = r->out->graph;
  r->e.g = r->to;
  for (int i = 0; i < r->n; i++) {
    char prefix[32] = "";
    if (i > 0) snprintf(prefix, sizeof prefix, "replica_%d/", i);
    WEFT_RETURN_IF_ERROR(
        weft_copier_init(&r->copiers[i], r->source.graph, r->to, weft_str(prefix), r->o->devices[i]));
    r->copiers[i].drops_colocation = true;
  }
  return NULL;
}

/* Removes copies that only names of other replicas needed. */
static weft_status_t *drop_unused(weft_replication_t *r) {
  int n = 0;
  const weft_prepared_graph_t *p = &r->source;
  weft_node_t **keep =
      weft_arena_calloc(&r->arena, (size_t)p->num_roots + (size_t)p->num_feeds + 2, sizeof(*keep));
  if (keep == NULL) return no_memory();
  for (int i = 0; i < p->num_roots; i++) keep[n++] = weft_graph_find(r->to, p->roots[i].node->name);
  for (int i = 0; i < p->num_feeds; i++) keep[n++] = weft_graph_find(r->to, p->feeds[i]->name);
  if (r->accumulate_init != NULL) keep[n++] = r->accumulate_init;
  for (int i = 0; i < n; i++) {
    if (keep[i] == NULL)
      return WEFT_ERROR(INTERNAL, "a name of the request was lost by strategy %s", r->o->strategy);
  }
  return weft_pass_prune(r->to, keep, n);
}

static weft_status_t *fill_names(weft_replication_t *r, const weft_strategy_request_t *request) {
  weft_rewrite_t *out = r->out;
  weft_arena_t *arena = &out->arena;
  weft_names_t inits = {0};
  out->loops = weft_arena_calloc(arena, 1, sizeof *out->loops);
  weft_str_t *items = weft_arena_calloc(arena, (size_t)request->inits.n + 2, sizeof *items);
  if (out->loops == NULL || items == NULL) return no_memory();
  out->num_loops = 1;
  weft_worker_loop_t *loop = &out->loops[0];
  *loop = (weft_worker_loop_t){.kind = WEFT_WORKER_LOOP_STEP, .name = WEFT_STR("all replicas")};
  WEFT_RETURN_IF_ERROR(weft_copy_names(arena, request->feeds, &loop->feeds));
  WEFT_RETURN_IF_ERROR(weft_copy_names(arena, request->fetches, &loop->fetches));
  WEFT_RETURN_IF_ERROR(weft_copy_names(arena, request->targets, &loop->targets));
  WEFT_RETURN_IF_ERROR(weft_copy_names(arena, request->inits, &inits));
  memcpy(items, inits.items, (size_t)inits.n * sizeof *items);
  if (r->accumulate_init != NULL) items[inits.n++] = r->accumulate_init->name;
  out->inits = (weft_names_t){items, inits.n};
  out->is_follower = r->first > 0;
  out->round_steps = r->accumulation == NULL ? 1 : r->o->accumulate;
  return NULL;
}

/* The replicas of all workers, and the feeds that are split by rows. */
static weft_status_t *fill_replicas(weft_replication_t *r) {
  weft_rewrite_t *out = r->out;
  const weft_names_t all = {weft_replication_is_between(r) ? r->o->all_devices : r->o->devices, r->total};
  weft_str_t *shared = weft_arena_calloc(&out->arena, (size_t)r->plan.num_batches + 1, sizeof *shared);
  if (shared == NULL) return no_memory();
  int n = 0;
  for (int i = 0; i < r->plan.num_batches; i++) {
    if (weft_node_is_placeholder(r->plan.batches[i].node)) shared[n++] = r->plan.batches[i].node->name;
  }
  WEFT_RETURN_IF_ERROR(weft_copy_names(&out->arena, (weft_names_t){shared, n}, &out->shared));
  return weft_copy_names(&out->arena, all, &out->replicas);
}

/* Notes that a summary of the new graph cannot give. */
static weft_status_t *note_all(weft_replication_t *r) {
  weft_rewrite_t *out = r->out;
  weft_status_t *s = NULL;
  if (r->source.num_expanded > 0) {
    s = weft_rewrite_note(
        out, "%d fused batch normalisations expanded: their statistics are those of the whole batch",
        r->source.num_expanded);
  }
  for (int i = 0; i < r->plan.num_notes && s == NULL; i++)
    s = weft_rewrite_note(out, "%.*s", WEFT_STR_ARGS(r->plan.notes[i]));
  return s;
}

static weft_status_t *tell_shardings(weft_replication_t *r) {
  for (int id = 0; id < r->source.graph->num_nodes; id++) {
    weft_node_t *n = r->source.graph->nodes[id];
    for (int i = 0; n != NULL && r->plan.outputs[id] != NULL && i < n->num_outputs; i++) {
      const weft_axis_sharding_t *s = &r->plan.outputs[id][i];
      bool is_plain = s->kind == WEFT_SHARDING_REPLICATE && s->degree == 0;
      if (is_plain || s->kind == WEFT_SHARDING_NONE) continue;
      WEFT_RETURN_IF_ERROR(weft_rewrite_sharding(r->out, (weft_output_t){n, i}, s));
    }
  }
  return NULL;
}

static weft_status_t *rewrite(weft_replication_t *r, const weft_strategy_request_t *request) {
  WEFT_RETURN_IF_ERROR(weft_prepare(request, r->total > 1 && !r->o->local_batch_norm, &r->source));
  WEFT_RETURN_IF_ERROR(weft_replication_order_reads(r));
  WEFT_RETURN_IF_ERROR(analyse(r, request));
  WEFT_RETURN_IF_ERROR(weft_replication_find_homes(r, request));
  WEFT_RETURN_IF_ERROR(weft_replication_find_facts(r));
  WEFT_RETURN_IF_ERROR(weft_replication_find_input(r));
  WEFT_RETURN_IF_ERROR(start(r));
  WEFT_RETURN_IF_ERROR(weft_replication_copy_nodes(r));
  WEFT_RETURN_IF_ERROR(weft_replication_copy_input(r));
  WEFT_RETURN_IF_ERROR(weft_replication_reduce(r));
  WEFT_RETURN_IF_ERROR(weft_replication_connect(r));
  WEFT_RETURN_IF_ERROR(weft_replication_finish_input(r));
  WEFT_RETURN_IF_ERROR(weft_replication_gate_updates(r));
  WEFT_RETURN_IF_ERROR(weft_replication_finish_roots(r));
  WEFT_RETURN_IF_ERROR(weft_replication_follow_skipped(r));
  if (weft_replication_is_between(r)) WEFT_RETURN_IF_ERROR(weft_replication_agree(r));
  WEFT_RETURN_IF_ERROR(weft_replication_tie_collectives(r));
  WEFT_RETURN_IF_ERROR(note_all(r));
  WEFT_RETURN_IF_ERROR(tell_shardings(r));
  WEFT_RETURN_IF_ERROR(drop_unused(r));
  WEFT_RETURN_IF_ERROR(fill_replicas(r));
  return fill_names(r, request);
}

weft_status_t *weft_replicate(const weft_strategy_request_t *request, const weft_replicate_options_t *o,
                              weft_rewrite_t *out) {
  weft_replication_t r = {.o = o,
                          .out = out,
                          .n = o->num_replicas,
                          .total = o->num_all_devices > 0 ? o->num_all_devices : o->num_replicas,
                          .first = o->first_replica,
                          .agreement = request->agreement};
  weft_status_t *s = rewrite(&r, request);
  s = weft_status_join(s, weft_emitter_end(&r.e));
  for (int i = 0; r.copiers != NULL && i < r.n; i++) weft_copier_deinit(&r.copiers[i]);
  for (int i = 1; r.input_copiers != NULL && i < r.num_tasks; i++) weft_copier_deinit(&r.input_copiers[i]);
  weft_free(r.order);
  weft_data_plan_deinit(&r.plan);
  weft_prepared_deinit(&r.source);
  weft_arena_deinit(&r.arena);
  return s;
}
