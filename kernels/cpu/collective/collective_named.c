/* kernels/cpu/collective/collective_named.c - WeftNamedAllReduce: members find each other by the tensor's
 * name, at run time.
 *
 * For members whose graphs differ, or whose order of launches does: see
 * collectives/negotiated/negotiated.h. Each group has a negotiator per device, which lives as long as the
 * task.
 */
#include <stdatomic.h>

#include "base/alloc.h"
#include "collectives/negotiated/negotiators.h"
#include "kernels/cpu/collective/collective.h"

enum { NEGOTIATED_KEY = 1 << 30 }; /* groups of negotiators have keys of their own */

/* What the attributes say. Texts are lent by the plan. */
typedef struct named_state {
  int64_t size, rank, group_key;
  weft_named_request_t request;
} named_state_t;

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out) {
  named_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *st = (named_state_t){
      .size = weft_knode_int(setup, "group_size"),
      .rank = weft_knode_int(setup, "rank"),
      .group_key = (int32_t)((uint32_t)weft_knode_int(setup, "group_key") ^ NEGOTIATED_KEY),
      .request = {.kind = weft_knode_bool(setup, "adasum") ? WEFT_NAMED_ADASUM : WEFT_NAMED_ALL_REDUCE,
                  .name = weft_knode_string(setup, "tensor_name"),
                  .reduction = weft_collective_reduction(weft_knode_string(setup, "merge_op")),
                  .is_mean = weft_str_is(weft_knode_string(setup, "final_op"), "Div"),
                  .group = weft_knode_string(setup, "group"),
                  .group_members = (int)weft_knode_int(setup, "group_members")}};
  *out = st;
  return NULL;
}

/* One execution. Held by run() while that starts it, by the negotiator until it calls back, and by the step's
 * canceller until it has called or never will. */
typedef struct named_run {
  atomic_int refs;
  weft_kernel_ctx_t *ctx;
  weft_negotiator_t *negotiator;
  uint64_t token;
  weft_status_t *status;
  weft_tensor_t *output;
} named_run_t;

/* The last one ends the node: by then the canceller knows us no more. */
static void drop(named_run_t *r) {
  if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  weft_kernel_ctx_t *c = r->ctx;
  weft_status_t *s = r->status;
  if (s == NULL) {
    weft_out_set(c, 0, r->output);
  } else {
    weft_tensor_release(r->output);
  }
  weft_free(r);
  c->done(c, s);
}

static void came(void *arg, weft_status_t *status, weft_tensor_t *output) {
  named_run_t *r = arg;
  r->status = status;
  r->output = output;
  if (weft_canceller_try_deregister(r->ctx->step->canceller, r->token)) drop(r); /* the canceller's */
  drop(r);
}

static void cancelled(void *arg) {
  named_run_t *r = arg;
  weft_negotiator_withdraw(r->negotiator, r);
  drop(r);
}

static weft_status_t *find_negotiator(const weft_kernel_ctx_t *c, weft_negotiator_t **out) {
  const named_state_t *st = c->state;
  if (c->step->negotiators == NULL) {
    return WEFT_ERROR(INTERNAL, "Failed to get CollectiveExecutor from OpKernelContext for Op %.*s",
                      WEFT_STR_ARGS(c->node->name));
  }
  if (st->size > INT32_MAX || st->rank >= st->size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "rank must be less than group size but got %lld >= %lld",
                      (long long)st->rank, (long long)st->size);
  }
  const weft_negotiator_options_t o = {.device = c->device->name,
                                       .rank = (int)st->rank,
                                       .size = (int)st->size,
                                       .group_key = st->group_key,
                                       .fusion_bytes = -1,
                                       .cache_capacity = -1};
  return weft_negotiators_get(c->step->negotiators, &o, out);
}

static void run(weft_kernel_ctx_t *c) {
  const weft_kernel_node_t *n = c->node;
  weft_canceller_t *canceller = c->step->canceller;
  weft_negotiator_t *negotiator = NULL;
  weft_status_t *s = find_negotiator(c, &negotiator);
  named_run_t *r = s == NULL ? weft_calloc(1, sizeof *r) : NULL;
  if (s == NULL && r == NULL) s = WEFT_NO_MEMORY("the collective %.*s", WEFT_STR_ARGS(n->name));
  if (s == NULL) {
    atomic_init(&r->refs, 3);
    r->ctx = c;
    r->negotiator = negotiator;
    if (!weft_canceller_register(canceller, cancelled, r, &r->token)) {
      s = weft_canceller_is_cancelled(canceller)
              ? WEFT_ERROR(CANCELLED, "Collective %.*s was cancelled before it began", WEFT_STR_ARGS(n->name))
              : WEFT_NO_MEMORY("the collective %.*s", WEFT_STR_ARGS(n->name));
    }
  }
  if (s != NULL) {
    weft_free(r);
    c->done(c, s);
    return;
  }
  const named_state_t *st = c->state;
  weft_negotiator_submit(negotiator, &st->request, weft_in(c, 0), came, r);
  if (weft_canceller_is_cancelled(canceller))
    weft_negotiator_withdraw(negotiator, r); /* it may have come before the submission */
  drop(r);
}

const weft_kernel_t weft_cpu_collective_named_kernels[] = {
    {.op = "WeftNamedAllReduce", .prepare = prepare, .compute_async = run, .destroy = weft_free},
    {0},
};
