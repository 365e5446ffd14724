/* collectives/join.c - a run finds its group: in memory, or the leader gives it.
 *
 * From then on a failure is told to the group.
 */
#include "collectives/collectives_impl.h"

#include <stdio.h>

#include "base/alloc.h"

static int rank_of(const weft_group_t *g, weft_str_t device) {
  for (int i = 0; i < g->size; i++) {
    if (weft_str_eq(g->members[i].device, device)) return i;
  }
  return -1;
}

/* The group is known: who am I in it? */
static weft_status_t *enter_group(weft_coll_run_t *r, weft_group_entry_t *e) { /* takes the reference to e */
  r->entry = e;
  weft_group_t *g = e->group;
  const weft_collective_t *call = &r->call;
  const int rank = rank_of(g, call->device);
  if (rank < 0 || g->size != call->group_size || (call->rank >= 0 && call->rank != rank)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Collective %.*s: %.*s wants to be rank %d of %d in group %lld, which has %d members "
                      "and knows it as rank %d",
                      WEFT_STR_ARGS(call->name), WEFT_STR_ARGS(call->device), call->rank, call->group_size,
                      (long long)call->group_key, g->size, rank);
  }
  uint64_t hash = 14695981039346656037u; /* FNV-1a of what was said about the collective */
  const unsigned char *bytes = (const unsigned char *)&r->signature;
  for (size_t i = 0; i < sizeof r->signature; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
  weft_mutex_lock(&r->mu);
  r->rank = rank;
  r->group = weft_group_retain(g);
  if (!r->has_failed) { /* from here on a failure is told to the others */
    r->run_length = (size_t)snprintf(
        r->run_text, sizeof r->run_text, "%llx.%llx.%llx.%llx.%x", (unsigned long long)call->group_key,
        (unsigned long long)call->instance_key, (unsigned long long)call->frame_id,
        (unsigned long long)call->iteration, (unsigned)(hash ^ (hash >> 32)));
  }
  weft_mutex_unlock(&r->mu);
  return NULL;
}

static weft_status_t *keep_group(weft_collectives_t *c, weft_group_t *group, weft_group_entry_t **out) {
  weft_group_entry_t *e = weft_calloc(1, sizeof *e), *old = NULL;
  if (e == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "collective group %lld", (long long)group->key);
  atomic_init(&e->refs, 2); /* the table's, the caller's */
  e->group = weft_group_retain(group);
  weft_mutex_lock(&c->mu);
  weft_group_entry_t *there = weft_map_get_u64(&c->groups, (uint64_t)group->key);
  weft_status_t *s = NULL;
  bool is_there = there != NULL && there->group == group;
  if (is_there) {
    atomic_fetch_add(&there->refs, 1);
  } else {
    /* Another run may have been told the same group: then the one that is there stays. */
    is_there = there != NULL && there->group->size == group->size;
    for (int i = 0; is_there && i < group->size; i++) {
      is_there = there->group->members[i].incarnation == group->members[i].incarnation &&
                 weft_str_eq(there->group->members[i].device, group->members[i].device);
    }
    if (is_there) atomic_fetch_add(&there->refs, 1);
    void *replaced = NULL;
    if (!is_there) s = weft_map_put_u64(&c->groups, (uint64_t)group->key, e, &replaced);
    old = replaced;
  }
  if (is_there) there->is_doubtful = false;
  weft_mutex_unlock(&c->mu);
  weft_group_entry_release(old);
  if (is_there || s != NULL) {
    atomic_store(&e->refs, 1);
    weft_group_entry_release(e);
  }
  if (s == NULL) *out = is_there ? there : e;
  return s;
}

static void on_group(void *arg, weft_status_t *s, weft_group_t *group) {
  weft_coll_run_t *r = arg;
  weft_group_entry_t *e = NULL;
  if (s == NULL) s = keep_group(r->owner, group, &e);
  if (s == NULL) s = enter_group(r, e);
  weft_group_release(group);
  weft_run_end(r, s);
}

weft_status_t *weft_run_stage_group(weft_coll_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_mutex_lock(&c->mu);
  weft_group_entry_t *e = weft_map_get_u64(&c->groups, (uint64_t)r->call.group_key);
  if (e != NULL) atomic_fetch_add(&e->refs, 1);
  const bool is_doubtful = e != NULL && e->is_doubtful;
  weft_mutex_unlock(&c->mu);
  if (e != NULL && !is_doubtful && rank_of(e->group, r->call.device) >= 0) return enter_group(r, e);
  weft_group_entry_release(e);
  const weft_group_request_t q = {
      .group_key = r->call.group_key,
      .group_size = r->call.group_size,
      .rank = r->call.rank,
      .device_type = weft_transport_type_of(r->call.device),
      .device = r->call.device,
      .timeout_ms = r->call.timeout_ms > 0 ? r->call.timeout_ms : WEFT_GROUP_JOIN_MS};
  weft_run_begin(r);
  c->transport->ops->complete_group(c->transport, &q, r->canceller, on_group, r);
  return NULL;
}
