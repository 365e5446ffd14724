/* strategies/replicate_draws.c - copies of nodes that draw random numbers, so that replicas get those of one
 * device.
 *
 * A node that draws for rows becomes WeftRandomRows (WeftMultinomialRows), whose last input says where the
 * replica's rows lie in the batch. Streams of replicas stay synchronised because a step runs the same nodes
 * on all replicas, and because the executor runs the rounds of a loop that draws one after the other.
 */
#include "base/random.h"
#include "strategies/draw_rows.h"
#include "strategies/replication.h"

bool weft_replication_draws_in_step(const weft_replication_t *r, const weft_node_t *n) {
  return r->plan.draws[n->id].kind != WEFT_DRAW_NONE && weft_draws_from_stream(n);
}

/* ---- into loops ---- */

/* ---- copies ---- */

/* Without a given seed: the same seed for all replicas. */
weft_status_t *weft_replication_share_seed(weft_replication_t *r, const weft_node_t *n, weft_node_t *copy) {
  if (r->plan.draws[n->id].kind != WEFT_DRAW_REPLICATED || !weft_draws_from_stream(n) || weft_has_seed(n))
    return NULL;
  if (weft_replication_is_between(r)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "node '%.*s' (%.*s) cannot be split over workers with a client each: it draws random "
                      "numbers inside a loop that must be equal on all workers; give it a seed",
                      WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name));
  }
  if (r->common_seed == 0) r->common_seed = (int64_t)(weft_random_id() >> 2 | 1);
  const weft_attr_t seed = {.kind = WEFT_ATTR_INT, .i = r->common_seed},
                    seed2 = {.kind = WEFT_ATTR_INT, .i = n->id};
  WEFT_RETURN_IF_ERROR(weft_graph_set_attr(r->to, copy, "seed", &seed));
  return weft_graph_set_attr(r->to, copy, "seed2", &seed2);
}

weft_status_t *weft_replication_copy_draw(weft_replication_t *r, const weft_node_t *n, weft_str_t name,
                                          int replica) {
  enum { MAX_INPUTS = 8 };
  const weft_copier_t *c = &r->copiers[replica];
  weft_output_t inputs[MAX_INPUTS];
  weft_node_t *copy = NULL,
              **controls = weft_arena_calloc(&r->arena, (size_t)n->num_controls + 1, sizeof(*controls));
  if (controls == NULL) return WEFT_NO_MEMORY("copies of nodes");
  if (n->num_inputs >= MAX_INPUTS)
    return WEFT_ERROR(INTERNAL, "node '%.*s' has too many inputs", WEFT_STR_ARGS(n->name));
  weft_output_t rows = weft_replication_place(r, weft_replication_batch_of(r, n), replica);
  rows = weft_replication_enter(r, rows, weft_replication_facts(r, n)->frame, replica);
  WEFT_RETURN_IF_ERROR(weft_emitter_end(&r->e));
  for (int i = 0; i < n->num_inputs; i++) inputs[i] = weft_copier_output(c, n->inputs[i]);
  inputs[n->num_inputs] = rows;
  for (int i = 0; i < n->num_controls; i++) controls[i] = c->nodes[n->controls[i]->id];
  weft_node_spec_t spec = {.name = name,
                           .device = r->o->devices[replica],
                           .inputs = inputs,
                           .num_inputs = n->num_inputs + 1,
                           .controls = controls,
                           .num_controls = n->num_controls};
  WEFT_RETURN_IF_ERROR(weft_draw_rows_add(r->to, n, &r->plan.draws[n->id], &spec, &copy));
  WEFT_RETURN_IF_ERROR(weft_copier_set_node(&r->copiers[replica], n, copy));
  r->copiers[replica].copies[n->id] = copy;
  return NULL;
}
