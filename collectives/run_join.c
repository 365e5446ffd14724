/* collectives/run_join.c - the first stage of a run: its group, from the cache or from the leader.
 *
 * From then on a failure is told to the group.
 */
#include "collectives/run.h"

/* The group is known: finds this rank in it. Takes over the reference to `cached`. */
static weft_status_t *enter_group(weft_coll_run_t *r, weft_cached_group_t *cached) {
  r->cached = cached;
  weft_group_t *g = weft_cached_group(cached);
  const weft_collective_t *call = &r->call;
  const int rank = weft_group_rank_of(g, call->device);
  if (rank < 0 || g->size != call->group_size || (call->rank >= 0 && call->rank != rank)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Collective %.*s: %.*s requests rank %d of %d in group %lld, which has %d members "
                      "and has it as rank %d",
                      WEFT_STR_ARGS(call->name), WEFT_STR_ARGS(call->device), call->rank, call->group_size,
                      (long long)call->group_key, g->size, rank);
  }
  weft_mutex_lock(&r->mu);
  r->rank = rank;
  r->group = weft_group_retain(g);
  if (!r->has_failed) { /* from here on a failure is told to the other members */
    r->run_length = weft_coll_run_name(r, &r->signature, r->run_text, sizeof r->run_text);
  }
  weft_mutex_unlock(&r->mu);
  return NULL;
}

static void on_group(void *arg, weft_status_t *s, weft_group_t *group) {
  weft_coll_run_t *r = arg;
  weft_cached_group_t *cached = NULL;
  if (s == NULL) s = weft_group_cache_keep(r->groups, group, &cached);
  if (s == NULL) s = enter_group(r, cached);
  weft_group_release(group);
  weft_coll_run_end(r, s);
}

weft_status_t *weft_coll_run_join_group(weft_coll_run_t *r) {
  if (r->call.shared_name.length > 0) return weft_coll_run_join_by_name(r);
  weft_cached_group_t *cached = weft_group_cache_find(r->groups, r->call.group_key);
  if (cached != NULL && weft_group_rank_of(weft_cached_group(cached), r->call.device) >= 0)
    return enter_group(r, cached);
  weft_cached_group_release(cached);
  const weft_group_request_t q = {
      .group_key = r->call.group_key,
      .group_size = r->call.group_size,
      .rank = r->call.rank,
      .device_type = weft_transport_type_of(r->call.device),
      .device = r->call.device,
      .timeout_ms = r->call.timeout_ms > 0 ? r->call.timeout_ms : WEFT_GROUP_JOIN_MS};
  weft_coll_run_begin(r);
  r->transport->ops->complete_group(r->transport, &q, r->canceller, on_group, r);
  return NULL;
}
