/* strategies/parameter_server_data.c - worker loops with batches of their own: each reads its part of the
 * data.
 *
 * A worker loop has iterators of its own. What initialises one in the graph initialises those of all workers:
 * the data set and its MakeIterator are copied to each worker, and before the copy comes an AutoShardDataset:
 * as the data set's options say: by files where there are any, else by elements. A one-shot iterator makes
 * its data set itself: its copy is told which part of that is the worker's.
 */
#include "strategies/emit.h"
#include "strategies/parameter_server.h"

enum { DATASET, ITERATOR };      /* inputs of MakeIterator */
enum { POLICY_OF_OPTIONS = -2 }; /* of AutoShardDataset: Weft's own */

static bool begins(const weft_placed_graph_t *l, const weft_node_t *n) {
  return weft_str_is(n->op->name, "MakeIterator") && l->in_step[n->inputs[ITERATOR].node->id];
}

weft_status_t *weft_ps_find_data(weft_ps_t *p) {
  const weft_placed_graph_t *l = &p->placed;
  p->begins_data = weft_arena_calloc(&p->out->arena, (size_t)l->g->num_nodes + 1, sizeof *p->begins_data);
  if (p->begins_data == NULL) return WEFT_NO_MEMORY("the data of workers");
  for (int k = l->num_nodes - 1; k >= 0; k--) {
    const weft_node_t *n = l->order[k];
    if (!p->begins_data[n->id] && !begins(l, n)) continue;
    p->begins_data[n->id] = true;
    for (int i = 0; i < n->num_inputs; i++) p->begins_data[n->inputs[i].node->id] = true;
    for (int i = 0; i < n->num_controls; i++) p->begins_data[n->controls[i]->id] = true;
  }
  return NULL;
}

/* What is done once, on variables and beside them, is not done again for each worker. */
weft_status_t *weft_ps_share_data(const weft_ps_t *p, weft_placed_copier_t *c,
                                  const weft_placed_copier_t *base) {
  const weft_placed_graph_t *l = &p->placed;
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    bool is_once = weft_placed_is_update(n) || l->server_of[n->id] >= 0;
    if (!p->begins_data[n->id] || l->in_step[n->id] || !is_once) continue;
    WEFT_RETURN_IF_ERROR(weft_copier_set_node(&c->copier, n, base->copier.nodes[n->id]));
  }
  return NULL;
}

/* Puts the worker's part of the data before its copy of `n`. */
static void shard(const weft_ps_t *p, weft_emitter_t *b, const weft_node_t *n, weft_node_t *copy,
                  int worker) {
  const weft_node_t *iterator = n->inputs[ITERATOR].node;
  const weft_attr_t *types = weft_node_attr(iterator, "output_types"),
                    *shapes = weft_node_attr(iterator, "output_shapes");
  if (p->places.num_workers == 1 || types == NULL || shapes == NULL) return;
  b->device = p->places.workers[worker];
  const weft_named_attr_t attrs[3] = {
      {WEFT_STR("output_types"), *types},
      {WEFT_STR("output_shapes"), *shapes},
      {WEFT_STR("auto_shard_policy"), {.kind = WEFT_ATTR_INT, .i = POLICY_OF_OPTIONS}}};
  const weft_output_t in[3] = {
      copy->inputs[DATASET],
      weft_emit_int(b, WEFT_I64, p->places.num_workers, "%.*s/workers", WEFT_STR_ARGS(n->name)),
      weft_emit_int(b, WEFT_I64, worker, "%.*s/worker", WEFT_STR_ARGS(n->name))};
  weft_output_t part = weft_emit(b, "AutoShardDataset", in, 3, attrs, 3, "%.*s/part", WEFT_STR_ARGS(n->name));
  if (b->s == NULL) weft_graph_set_input(copy, DATASET, part);
}

static weft_status_t *shard_one_shot(const weft_ps_t *p, weft_node_t *copy, int worker) {
  const weft_attr_t num_workers = {.kind = WEFT_ATTR_INT, .i = p->places.num_workers},
                    index = {.kind = WEFT_ATTR_INT, .i = worker};
  if (num_workers.i == 1) return NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_set_attr(p->out->graph, copy, "_weft_workers", &num_workers));
  return weft_graph_set_attr(p->out->graph, copy, "_weft_worker", &index);
}

weft_status_t *weft_ps_shard_data(const weft_ps_t *p, const weft_placed_copier_t *c,
                                  const weft_placed_copier_t *base) {
  weft_emitter_t b = {.g = p->out->graph, .scope = c->copier.prefix};
  for (int k = 0; k < p->placed.num_nodes; k++) {
    const weft_node_t *n = p->placed.order[k];
    weft_node_t *copy = c->copier.copies[n->id];
    if (copy != NULL && weft_str_is(n->op->name, "OneShotIterator"))
      weft_emitter_fail(&b, shard_one_shot(p, copy, c->worker));
    if (copy == NULL || !begins(&p->placed, n)) continue;
    shard(p, &b, n, copy, c->worker);
    if (c != base) weft_emit_control(&b, copy, base->copier.copies[n->id]);
  }
  return weft_emitter_end(&b);
}
