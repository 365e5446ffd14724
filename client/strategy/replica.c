/* client/strategy/replica.c - where a replica's nodes are put, and the step out of it for a merge. */
#include "client/strategy/run.h"

weft_place_t weft_replica_place(weft_replica_run_t *r, WEFT_ReplicaContext *c, weft_arena_t *arena) {
  weft_place_t p = {.context = WEFT_CONTEXT_REPLICA,
                    .replica = c->replica,
                    .replica_run = c,
                    .device = r->strategy->devices[c->replica]};
  weft_strbuf_t prefix = WEFT_STRBUF_INIT;
  if (c->replica > 0) weft_strbuf_printf(&prefix, "replica_%d/", c->replica);
  p.prefix = weft_arena_str(arena, weft_str_of(prefix.data == NULL ? "" : prefix.data, prefix.length));
  weft_strbuf_deinit(&prefix);
  if (p.prefix.data == NULL) p.prefix = WEFT_STR("");
  return p;
}

weft_status_t *weft_call_merge(weft_replica_run_t *r, weft_merge_fn *fn, void *user, const TF_Output *args,
                               int num_args, TF_Output *results, int num_results, TF_Operation **out_op) {
  weft_place_t before = weft_scope_go(r->graph, r->scope, weft_cross_place());
  TF_Operation *op = NULL;
  weft_status_t *s = fn(r->graph, r->scope, args, num_args, results, num_results, &op, user);
  weft_scope_go(r->graph, r->scope, before);
  if (out_op != NULL) *out_op = op;
  return s;
}
