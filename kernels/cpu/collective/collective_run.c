/* kernels/cpu/collective/collective_run.c - one execution of a collective node, from its call to its end. */
#include "kernels/cpu/collective/collective.h"

#include "base/alloc.h"

weft_reduction_t weft_collective_reduction(weft_str_t merge_op) {
  if (weft_str_is(merge_op, "Mul")) return WEFT_REDUCE_PROD;
  if (weft_str_is(merge_op, "Min")) return WEFT_REDUCE_MIN;
  return weft_str_is(merge_op, "Max") ? WEFT_REDUCE_MAX : WEFT_REDUCE_SUM;
}

weft_collective_algorithm_t weft_collective_hint(weft_str_t hint) {
  weft_collective_algorithm_t a = WEFT_ALGORITHM_AUTO;
  return weft_collective_algorithm_parse(hint, &a) ? a : WEFT_ALGORITHM_AUTO;
}

int64_t weft_collective_timeout_ms(float seconds) {
  if (!(seconds > 0)) return 0;
  return seconds > 1e9f ? INT64_C(1000000000000) : (int64_t)((double)seconds * 1000 + 0.5);
}

/* Do the member's tensors lie in the device's memory? */
static bool is_on_device(const weft_kernel_ctx_t *c, bool has_input) {
  if (c->node->num_outputs > 0) return !weft_kernel_is_host(c->node->host_outputs, 0);
  return has_input && weft_in(c, 0)->space != NULL;
}

weft_status_t *weft_collective_run_new(weft_kernel_ctx_t *c, weft_collective_kind_t kind, bool has_input,
                                       weft_collective_run_t **out) {
  if (c->step->collectives == NULL) {
    return WEFT_ERROR(INTERNAL, "Failed to get CollectiveExecutor from OpKernelContext for Op %.*s",
                      WEFT_STR_ARGS(c->node->name));
  }
  weft_collective_run_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("the collective %.*s", WEFT_STR_ARGS(c->node->name));
  r->ctx = c;
  r->call = (weft_collective_t){
      .kind = kind,
      .name = c->node->name,
      .device = c->device->name,
      .step_id = c->step->id,
      .frame_id = c->frame_id,
      .iteration = c->iteration,
      .rank = -1,
      .root = -1,
      .dtype = WEFT_DTYPE_INVALID,
      .shape = WEFT_SCALAR,
  };
  if (c->queue != NULL && is_on_device(c, has_input)) {
    weft_device_place_init(&r->place, c->device, weft_out_allocator(c, false));
    r->call.place = &r->place.base;
  }
  if (has_input) {
    weft_tensor_t *in = weft_in(c, 0);
    r->call.input = in;
    r->call.dtype = in->dtype;
    r->call.shape = in->shape;
    r->call.takes_input = weft_tensor_is_exclusive(in);
  }
  *out = r;
  return NULL;
}

void weft_collective_run_free(weft_collective_run_t *r) {
  if (r == NULL) return;
  weft_free(r->extra);
  weft_free(r);
}

void weft_collective_run_end(weft_collective_run_t *r, weft_kernel_ctx_t *c, weft_status_t *s) {
  weft_collective_run_free(r);
  c->done(c, s);
}

static void came(void *arg, weft_status_t *status, weft_tensor_t *output) {
  weft_collective_run_t *r = arg;
  weft_kernel_ctx_t *c = r->ctx;
  if (status == NULL && r->finish != NULL) {
    status = r->finish(r, output);
  } else if (status == NULL && output == NULL && c->node->num_outputs > 0) {
    status = WEFT_ERROR(INTERNAL, "the collective %.*s ended without a result", WEFT_STR_ARGS(c->node->name));
  } else if (status == NULL && c->node->num_outputs > 0) {
    weft_out_set(c, 0, output);
  } else {
    weft_tensor_release(output);
  }
  weft_collective_run_end(r, c, status);
}

void weft_collective_run_start(weft_collective_run_t *r) {
  weft_collectives_run(r->ctx->step->collectives, &r->call, r->ctx->step->canceller, came, r);
}
