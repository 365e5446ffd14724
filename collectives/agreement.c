/* collectives/agreement.c - what all ranks do in an instance, as agreed once and remembered.
 *
 * An instance may be used with another shape or kind in a later step. Whoever sees that its own part
 * differs from what was agreed asks the leader again, and ends this step's run under the old agreement at all
 * others: if they go on as before they would wait for us. They then ask the leader, too, who tells all what
 * differs.
 */
#include "collectives/collectives_impl.h"

#include <stdio.h>

#include "base/alloc.h"

enum {
  MAX_INSTANCES = 1 << 14, /* per group; eager TensorFlow clients use a new key for each call: old ones go */
  DOUBT_MS = 1000, /* for the leader to say who differs: the others' questions are on their way already */
};

static uint64_t instance_number(const weft_coll_run_t *r) {
  return ((uint64_t)r->call.instance_key * 0x9e3779b97f4a7c15u) ^ (uint64_t)r->rank;
}

static weft_instance_t *find_locked(weft_collectives_t *c, const weft_coll_run_t *r) WEFT_REQUIRES(c->mu) {
  (void)c;
  weft_instance_t *i = weft_map_get_u64(&r->entry->instances, instance_number(r));
  while (i != NULL && (i->key != r->call.instance_key || i->rank != r->rank)) i = i->next;
  return i;
}

static weft_status_t *keep_instance(weft_coll_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_instance_t *spare = weft_calloc(1, sizeof *spare);
  if (spare == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(r->call.name));
  weft_status_t *s = NULL;
  weft_coll_plan_t *old = NULL;
  weft_mutex_lock(&c->mu);
  weft_instance_t *i = find_locked(c, r);
  if (i == NULL) {
    if (r->entry->num_instances >= MAX_INSTANCES) weft_group_entry_forget_instances(r->entry);
    spare->key = r->call.instance_key;
    spare->rank = r->rank;
    spare->next = weft_map_get_u64(&r->entry->instances, instance_number(r));
    s = weft_map_put_u64(&r->entry->instances, instance_number(r), spare, NULL);
    if (s == NULL) {
      i = spare;
      spare = NULL;
      r->entry->num_instances++;
    }
  }
  if (i != NULL) {
    const bool is_same =
        memcmp(&i->signature, &r->signature, sizeof i->signature) == 0 && i->source == r->source;
    if (!is_same) {
      old = i->plan;
      i->plan = NULL;
    }
    i->signature = r->signature;
    i->is_source = r->call.is_source;
    i->source = r->source;
  }
  weft_mutex_unlock(&c->mu);
  weft_collective_plan_release(old);
  weft_free(spare);
  return s;
}

static void on_instance(void *arg, weft_status_t *s, int source) {
  weft_coll_run_t *r = arg;
  r->source = r->agreed_source = source;
  if (s == NULL) s = keep_instance(r);
  if (s == NULL) {
    weft_run_end(r, NULL);
    return;
  }
  weft_collective_run_fail(
      r, s, weft_status_code(s) != WEFT_INVALID_ARGUMENT); /* a contradiction was told to all by the leader */
  weft_run_end(r, NULL);
}

static void ask(weft_coll_run_t *r, weft_canceller_t *canceller, bool is_doubt, weft_instance_fn *fn) {
  const weft_collective_t *call = &r->call;
  weft_instance_request_t q = {
      .group_key = call->group_key,
      .instance_key = call->instance_key,
      .step_id = call->step_id,
      .rank = r->rank,
      .group_size = call->group_size,
      .name = call->name,
      .device = call->device,
      .kind = call->kind,
      .dtype = (int)call->dtype,
      .reduction = call->reduction,
      .is_mean = call->is_mean,
      .is_source = call->is_source || (call->root >= 0 && call->root == r->rank),
      .algorithm = call->algorithm,
      .root = call->root,
      .details = (uint64_t)r->signature.details * 2 + (uint64_t)r->signature.is_uniform,
      .timeout_ms = is_doubt ? DOUBT_MS : call->timeout_ms};
  q.details = is_doubt ? q.details | WEFT_INSTANCE_DOUBT : q.details & ~WEFT_INSTANCE_DOUBT;
  q.shape.rank = (int)r->signature.rank_of_shape;
  for (int i = 0; i < q.shape.rank; i++) q.shape.dims[i] = r->signature.dims[i];
  weft_run_begin(r);
  r->transport->ops->complete_instance(r->transport, &q, canceller, fn, r);
}

static void on_explained(void *arg, weft_status_t *s, int source) {
  (void)source;
  weft_coll_run_t *r = arg;
  const bool is_known = weft_status_code(s) == WEFT_INVALID_ARGUMENT;
  weft_mutex_lock(&r->mu);
  weft_status_t *old = r->status;
  r->status = NULL;
  weft_mutex_unlock(&r->mu);
  if (!is_known) { /* the one who differs has gone meanwhile */
    weft_status_free(s);
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s", weft_status_message(old));
  }
  weft_status_free(old);
  weft_mutex_lock(&r->mu);
  r->status = s;
  weft_mutex_unlock(&r->mu);
  weft_run_end(r, NULL);
}

void weft_run_explain(weft_coll_run_t *r) {
  weft_mutex_lock(&r->mu);
  const bool asks = r->was_cached && weft_status_code(r->status) == WEFT_FAILED_PRECONDITION;
  r->was_cached = false;
  weft_mutex_unlock(&r->mu);
  if (asks) ask(r, NULL, true, on_explained);
}

/* This rank does something else than was agreed: under the old agreement nobody need wait for it. */
static void leave_agreement(weft_coll_run_t *r, const weft_coll_signature_t *old, int old_source) {
  uint64_t hash = 14695981039346656037u;
  const unsigned char *bytes = (const unsigned char *)old;
  for (size_t i = 0; i < sizeof *old; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
  char text[WEFT_RUN_TEXT];
  const int n = snprintf(text, sizeof text, "%llx.%llx.%llx.%llx.%x/%x",
                         (unsigned long long)r->call.group_key, (unsigned long long)r->call.instance_key,
                         (unsigned long long)r->call.frame_id, (unsigned long long)r->call.iteration,
                         (unsigned)(hash ^ (hash >> 32)), (unsigned)(old_source + 1));
  weft_status_t *why =
      WEFT_ERROR(FAILED_PRECONDITION,
                 "Collective %.*s (group_key=%lld, instance_key=%lld): rank %d (%.*s) does something "
                 "else than was agreed",
                 WEFT_STR_ARGS(r->call.name), (long long)r->call.group_key, (long long)r->call.instance_key,
                 r->rank, WEFT_STR_ARGS(r->call.device));
  r->transport->ops->fail(r->transport, r->call.step_id, weft_str_of(text, (size_t)n), r->group, why);
  weft_status_free(why);
}

weft_status_t *weft_run_stage_instance(weft_coll_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_coll_signature_t old;
  int old_source = -1;
  weft_mutex_lock(&c->mu);
  const weft_instance_t *i = find_locked(c, r);
  const bool is_known = i != NULL;
  bool is_same = false;
  if (is_known) {
    old = i->signature;
    old_source = i->source;
    is_same = memcmp(&old, &r->signature, sizeof old) == 0 && i->is_source == r->call.is_source;
    r->source = r->agreed_source = i->source;
    const bool fits = is_same && i->plan != NULL && i->plan_owns_input == r->call.takes_input;
    if (fits) r->plan = weft_collective_plan_retain(i->plan);
  }
  weft_mutex_unlock(&c->mu);
  weft_mutex_lock(&r->mu);
  r->was_cached = is_same;
  weft_mutex_unlock(&r->mu);
  if (is_same) return NULL;
  ask(r, r->canceller, false, on_instance);
  if (is_known) leave_agreement(r, &old, old_source);
  return NULL;
}

/* From the second step on: what is used once, as in TensorFlow's eager calls, is not worth the memory. */
static void keep_plan(weft_coll_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_mutex_lock(&r->mu);
  const bool is_again = r->was_cached;
  weft_mutex_unlock(&r->mu);
  if (!is_again) return;
  weft_coll_plan_t *old = NULL;
  weft_mutex_lock(&c->mu);
  weft_instance_t *i = find_locked(c, r);
  if (i != NULL && i->plan != r->plan && memcmp(&i->signature, &r->signature, sizeof i->signature) == 0) {
    old = i->plan;
    i->plan = weft_collective_plan_retain(r->plan);
    i->plan_owns_input = r->call.takes_input;
  }
  weft_mutex_unlock(&c->mu);
  weft_collective_plan_release(old);
}

weft_status_t *weft_run_stage(weft_coll_run_t *r, int stage) {
  switch (stage) {
    case 0: return weft_run_stage_group(r);
    case 1: return weft_run_stage_instance(r);
    case 2:
      if (r->call.timeout_ms > 0) WEFT_RETURN_IF_ERROR(weft_run_expect_others(r));
      return weft_prepare_has_counts(&r->call) && r->group->size > 1 ? weft_prepare_counts(r) : NULL;
    default:
      WEFT_RETURN_IF_ERROR(weft_prepare_buffers(r));
      if (!weft_prepare_has_counts(&r->call)) keep_plan(r);
      return weft_run_start_actions(r);
  }
}
