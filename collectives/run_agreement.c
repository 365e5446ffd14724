/* collectives/run_agreement.c - the second stage of a run: what all ranks do in an instance, as agreed once
 * and remembered.
 *
 * An instance may be used with another shape or kind in a later step. A rank whose own part differs from what
 * was agreed asks the leader again, and ends this step's run under the old agreement at all other ranks,
 * which would wait for it otherwise. They then ask the leader, too, and the leader tells all ranks what
 * differs.
 */
#include "collectives/run.h"

#include <stdio.h>

enum {
  DOUBT_MS = 1000
}; /* for the leader to name the rank that differs: the other ranks' requests are under way */

static void on_instance(void *arg, weft_status_t *s, int source) {
  weft_coll_run_t *r = arg;
  r->source = r->agreed_source = source;
  if (s == NULL) {
    s = weft_cached_group_keep(r->cached, r->call.instance_key, r->rank, &r->signature, r->call.is_source,
                               source);
  }
  /* A contradiction was told to all ranks by the leader. */
  if (s != NULL) weft_coll_run_fail(r, s, weft_status_code(s) != WEFT_INVALID_ARGUMENT);
  weft_coll_run_end(r, NULL);
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
  weft_coll_run_begin(r);
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
  if (!is_known) { /* the rank that differs has left meanwhile */
    weft_status_free(s);
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s", weft_status_message(old));
  }
  weft_status_free(old);
  weft_mutex_lock(&r->mu);
  r->status = s;
  weft_mutex_unlock(&r->mu);
  weft_coll_run_end(r, NULL);
}

void weft_coll_run_explain(weft_coll_run_t *r) {
  weft_mutex_lock(&r->mu);
  const bool asks = r->was_cached && weft_status_code(r->status) == WEFT_FAILED_PRECONDITION;
  r->was_cached = false;
  weft_mutex_unlock(&r->mu);
  if (asks) ask(r, NULL, true, on_explained);
}

/* This rank does something else than was agreed: ends this step's run under the old agreement at all ranks.
 */
static void leave_agreement(weft_coll_run_t *r, const weft_coll_signature_t *old, int old_source) {
  char text[WEFT_RUN_TEXT + 16];
  size_t n = weft_coll_run_name(r, old, text, WEFT_RUN_TEXT);
  n += (size_t)snprintf(text + n, 16, "/%x", (unsigned)(old_source + 1));
  weft_status_t *why =
      WEFT_ERROR(FAILED_PRECONDITION,
                 "Collective %.*s (group_key=%lld, instance_key=%lld): rank %d (%.*s) does something "
                 "else than was agreed",
                 WEFT_STR_ARGS(r->call.name), (long long)r->call.group_key, (long long)r->call.instance_key,
                 r->rank, WEFT_STR_ARGS(r->call.device));
  weft_coll_run_tell(r, weft_str_of(text, n), r->group, why);
  weft_status_free(why);
}

weft_status_t *weft_coll_run_agree(weft_coll_run_t *r) {
  if (r->call.shared_name.length > 0) return NULL; /* they agreed when they came together */
  weft_cached_instance_t known;
  const bool is_known = weft_cached_group_find(r->cached, r->call.instance_key, r->rank, &known);
  const bool is_same = is_known && memcmp(&known.signature, &r->signature, sizeof known.signature) == 0 &&
                       known.is_source == r->call.is_source;
  if (is_known) {
    r->source = r->agreed_source = known.source;
    if (is_same && known.plan_owns_input == r->call.takes_input)
      r->plan = weft_collective_plan_retain(known.plan);
    weft_collective_plan_release(known.plan);
  }
  weft_mutex_lock(&r->mu);
  r->was_cached = is_same;
  weft_mutex_unlock(&r->mu);
  if (is_same) return NULL;
  ask(r, r->canceller, false, on_instance);
  if (is_known) leave_agreement(r, &known.signature, known.source);
  return NULL;
}

/* From the second step on: a plan that is used once, as in TensorFlow's eager calls, is not worth its memory.
 */
void weft_coll_run_keep_plan(weft_coll_run_t *r) {
  weft_mutex_lock(&r->mu);
  const bool is_again = r->was_cached;
  weft_mutex_unlock(&r->mu);
  if (!is_again) return;
  weft_cached_group_keep_plan(r->cached, r->call.instance_key, r->rank, &r->signature, r->plan,
                              r->call.takes_input);
}
