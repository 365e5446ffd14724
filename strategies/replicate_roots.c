/* strategies/replicate_roots.c - names of the request in the new graph.
 *
 * A name whose copy on replica 0 is the true value, and all of the work, is that
 * copy's. Any other goes to an Identity (IdentityN, NoOp) of true values that follows the copies on all
 * replicas.
 */
#include "strategies/replication.h"

enum { LAST_BIT = 63 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("names of values"); }

static weft_output_t final_value(weft_replication_t *r, const weft_root_t *root, int k) {
  static const weft_axis_sharding_t once = {.kind = WEFT_SHARDING_SINGLE};
  weft_output_t of = {root->node, k};
  bool is_fetched = (root->fetched >> (k < LAST_BIT ? k : LAST_BIT) & 1) != 0;
  if (!is_fetched) return weft_replication_local(r, of, 0);
  if (weft_replication_is_between(r) && weft_replication_sharding(r, of)->kind == WEFT_SHARDING_SHARD) {
    return weft_replication_own_rows(r, of);
  }
  return weft_replication_value(r, of, &once, 0, weft_replication_host(r));
}

static weft_node_t *make_final(weft_replication_t *r, const weft_root_t *root) {
  const weft_node_t *n = root->node;
  weft_output_t *values = weft_arena_calloc(&r->arena, (size_t)n->num_outputs + 1, sizeof *values);
  if (values == NULL) {
    r->e.s = weft_status_join(r->e.s, no_memory());
    return NULL;
  }
  for (int k = 0; k < n->num_outputs; k++) values[k] = final_value(r, root, k);
  r->e.device = weft_replication_host(r);
  if (n->num_outputs == 0) return weft_emit_noop(&r->e, NULL, 0, "%.*s", WEFT_STR_ARGS(n->name));
  const char *op = n->num_outputs == 1 ? "Identity" : "IdentityN";
  return weft_emit(&r->e, op, values, n->num_outputs, NULL, 0, "%.*s", WEFT_STR_ARGS(n->name)).node;
}

static weft_status_t *check_name(const weft_node_t *required, const weft_node_t *made) {
  if (weft_str_eq(required->name, made->name)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "the name '%.*s' is needed for a result, but the graph has it already",
                    WEFT_STR_ARGS(required->name));
}

weft_status_t *weft_replication_finish_roots(weft_replication_t *r) {
  for (int i = 0; i < r->source.num_roots && r->total > 1; i++) {
    const weft_root_t *root = &r->source.roots[i];
    const weft_node_t *n = root->node;
    const weft_node_facts_t *f = weft_replication_facts(r, n);
    weft_node_t *made = r->copiers[0].nodes[n->id];
    if (f->needs_final) {
      made = make_final(r, root);
      WEFT_RETURN_IF_ERROR(weft_emitter_end(&r->e));
      WEFT_RETURN_IF_ERROR(check_name(n, made));
      for (int k = 0; k < r->n && f->has_effect; k++)
        weft_emit_control(&r->e, r->copiers[k].nodes[n->id], made);
    }
    weft_replication_check_joined(r, n, made);
    WEFT_RETURN_IF_ERROR(weft_emitter_end(&r->e));
  }
  return NULL;
}
