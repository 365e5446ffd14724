/* strategies/parameter_server_data.c - worker loops with batches of their own: each reads its part of the
 * data.
 *
 * A worker loop has iterators of its own, and tables. What initialises one in the graph initialises those of
 * all workers: the data set and its MakeIterator are copied to each worker, and before the copy comes an
 * AutoShardDataset: as the data set's options say: by files where there are any, else by elements. A one-shot
 * iterator makes its data set itself: its copy is told which part of that is the worker's. What fills a table
 * is copied as it is.
 */
#include "strategies/emit.h"
#include "strategies/parameter_server.h"

enum { DATASET, ITERATOR };      /* inputs of MakeIterator */
enum { POLICY_OF_OPTIONS = -2 }; /* of AutoShardDataset: Weft's own */

static bool makes_iterator(const weft_node_t *n) { return weft_str_is(n->op->name, "MakeIterator"); }

/* Does n set up, before the steps, what each worker has its own of: an iterator, a table? */
static bool begins(const weft_ps_t *p, const bool *in_inits, const weft_node_t *n) {
  const weft_placed_graph_t *l = &p->placed;
  if (n->num_outputs > 0 || l->in_step[n->id] || (!in_inits[n->id] && !makes_iterator(n))) return false;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_t *of = n->inputs[i].node;
    bool is_handle = weft_dtype_is_ref(n->input_types[i]) || n->input_types[i] == WEFT_RESOURCE;
    bool is_own = l->server_of[of->id] < 0 && (l->in_step[of->id] || p->begins_data[of->id]);
    if (is_handle && is_own) return true;
  }
  return false;
}

static weft_status_t *find_inits(const weft_ps_t *p, bool *in_inits) {
  const weft_placed_graph_t *l = &p->placed;
  for (int i = 0; i < p->request->inits.n; i++) {
    weft_output_t of;
    WEFT_RETURN_IF_ERROR(weft_placed_find(l->g, p->request->inits.items[i], "initial target", &of));
    in_inits[of.node->id] = true;
  }
  for (int k = l->num_nodes - 1; k >= 0; k--) {
    const weft_node_t *n = l->order[k];
    for (int i = 0; i < n->num_inputs && in_inits[n->id]; i++) in_inits[n->inputs[i].node->id] = true;
    for (int i = 0; i < n->num_controls && in_inits[n->id]; i++) in_inits[n->controls[i]->id] = true;
  }
  return NULL;
}

weft_status_t *weft_ps_find_data(weft_ps_t *p) {
  const weft_placed_graph_t *l = &p->placed;
  size_t num = (size_t)l->g->num_nodes + 1;
  bool *in_inits = weft_arena_calloc(&p->out->arena, num, sizeof *in_inits);
  p->begins_data = weft_arena_calloc(&p->out->arena, num, sizeof *p->begins_data);
  p->begins = weft_arena_calloc(&p->out->arena, num, sizeof *p->begins);
  if (in_inits == NULL || p->begins_data == NULL || p->begins == NULL)
    return WEFT_NO_MEMORY("the data of workers");
  WEFT_RETURN_IF_ERROR(find_inits(p, in_inits));
  for (bool changed = true; changed;) { /* a data set may use tables, which are filled beside it */
    changed = false;
    for (int k = l->num_nodes - 1; k >= 0; k--) {
      const weft_node_t *n = l->order[k];
      p->begins[n->id] = p->begins[n->id] || begins(p, in_inits, n);
      if (p->begins_data[n->id] || !p->begins[n->id]) continue;
      changed = p->begins_data[n->id] = true;
    }
    for (int k = l->num_nodes - 1; k >= 0; k--) {
      const weft_node_t *n = l->order[k];
      if (!p->begins_data[n->id]) continue;
      for (int i = 0; i < n->num_inputs; i++) p->begins_data[n->inputs[i].node->id] = true;
      for (int i = 0; i < n->num_controls; i++) p->begins_data[n->controls[i]->id] = true;
    }
  }
  return NULL;
}

bool weft_ps_is_copied(const weft_ps_t *p, const weft_copier_t *c, const weft_node_t *n) {
  return p->placed.in_step[n->id] || (p->begins_data[n->id] && c->nodes[n->id] == NULL);
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
    if (copy == NULL || !p->begins[n->id]) continue;
    if (makes_iterator(n)) shard(p, &b, n, copy, c->worker);
    if (c != base) weft_emit_control(&b, copy, base->copier.copies[n->id]);
  }
  return weft_emitter_end(&b);
}
