/* kernels/cpu/queue/barrier.c - the kernels of barriers. */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/state.h"
#include "resources/barrier.h"

/* ---- the node that makes it ---- */

static void deinit(void *config) { weft_barrier_config_deinit(config); }

static weft_status_t *create(weft_kernel_ctx_t *ctx, const char *name, const void *config,
                             weft_object_t **out) {
  (void)ctx;
  return weft_barrier_create(name, config, out);
}

static weft_status_t *read_config(const weft_kernel_setup_t *setup, void *config) {
  const weft_attr_t *types = weft_knode_attr(setup, "component_types"),
                    *shapes = weft_knode_attr(setup, "shapes");
  int n = types == NULL ? 0 : types->n;
  if (shapes == NULL || shapes->n != n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "All of the component shapes must be specified: %d types, %d shapes",
                      n, shapes->n);
  }
  if (weft_knode_int(setup, "capacity") != -1) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to enforce "
        "a limited capacity.");
  }
  weft_dtype_t *dtypes = weft_calloc((size_t)n + 1, sizeof *dtypes);
  if (dtypes == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  for (int i = 0; i < n; i++) dtypes[i] = (weft_dtype_t)types->list.types[i];
  weft_status_t *s = weft_barrier_config_init(config, dtypes, shapes->list.shapes, n);
  weft_free(dtypes);
  return s;
}

static const weft_state_maker_t maker = {
    &weft_barrier_type, sizeof(weft_barrier_config_t), read_config, create, NULL, deinit};

/* ---- operations ---- */

static weft_status_t *in_barrier(weft_kernel_ctx_t *c, weft_barrier_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_barrier_type, &o));
  *out = (weft_barrier_t *)o;
  return NULL;
}

static void release(weft_barrier_t *b) { weft_object_release((weft_object_t *)b); }

WEFT_ATTRS(barrier_insert, (INT, component_index))
static weft_status_t *barrier_insert(weft_kernel_ctx_t *c, const barrier_insert_attrs_t *attrs) {
  weft_barrier_t *b = NULL;
  WEFT_RETURN_IF_ERROR(in_barrier(c, &b));
  weft_status_t *s = weft_barrier_insert(b, weft_in(c, 1), weft_in(c, 2), attrs->component_index);
  release(b);
  return s;
}

/* The number of tuples that is asked for; the node's components must be the barrier's. */
static weft_status_t *check_take(const weft_kernel_ctx_t *c, const weft_barrier_t *b, int64_t *out_n) {
  const weft_barrier_config_t *config = weft_barrier_config(b);
  int count = 0;
  WEFT_RETURN_IF_ERROR(weft_read_ints(weft_in(c, 1), "num_elements", 1, out_n, &count));
  if (*out_n < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_elements must not be negative, but is %" PRId64, *out_n);
  }
  if (c->node->num_outputs != config->num_components + 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "barrier %s has %d components, not %d", weft_barrier_name(b),
                      config->num_components, c->node->num_outputs - 2);
  }
  for (int i = 0; i < config->num_components; i++) {
    if (weft_dtype_base(c->node->output_types[i + 2]) == config->dtypes[i]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "component %d of barrier %s is of type %s, not %s", i,
                      weft_barrier_name(b), weft_dtype_name(config->dtypes[i]),
                      weft_dtype_name(c->node->output_types[i + 2]));
  }
  return NULL;
}

WEFT_ATTRS_ASYNC(barrier_take, (BOOL, allow_small_batch))
static void barrier_take(weft_kernel_ctx_t *c, const barrier_take_attrs_t *attrs) {
  weft_barrier_t *b = NULL;
  int64_t n = 0;
  weft_status_t *s = in_barrier(c, &b);
  if (s == NULL) s = check_take(c, b, &n);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_barrier_take(b, &call, n, attrs->allow_small_batch);
  }
  release(b);
}

WEFT_ATTRS(barrier_close, (BOOL, cancel_pending_enqueues))
static weft_status_t *barrier_close(weft_kernel_ctx_t *c, const barrier_close_attrs_t *attrs) {
  weft_barrier_t *b = NULL;
  WEFT_RETURN_IF_ERROR(in_barrier(c, &b));
  weft_status_t *s = weft_barrier_close(b, attrs->cancel_pending_enqueues);
  release(b);
  return s;
}

static weft_status_t *size_of(weft_kernel_ctx_t *c, bool is_ready) {
  weft_barrier_t *b = NULL;
  size_t ready = 0, incomplete = 0;
  WEFT_RETURN_IF_ERROR(in_barrier(c, &b));
  weft_barrier_sizes(b, &ready, &incomplete);
  release(b);
  int32_t n = (int32_t)(is_ready ? ready : incomplete);
  return weft_tensor_scalar(WEFT_I32, &n, &c->outputs[0].tensor);
}

static weft_status_t *ready_size(weft_kernel_ctx_t *c) { return size_of(c, true); }
static weft_status_t *incomplete_size(weft_kernel_ctx_t *c) { return size_of(c, false); }

const weft_kernel_t weft_cpu_barrier_kernels[] = {
    {.op = "Barrier", WEFT_STATE_MAKER, .param = &maker},
    {.op = "BarrierClose", WEFT_COMPUTE(barrier_close)},
    {.op = "BarrierIncompleteSize", .compute = incomplete_size},
    {.op = "BarrierInsertMany", WEFT_COMPUTE(barrier_insert)},
    {.op = "BarrierReadySize", .compute = ready_size},
    {.op = "BarrierTakeMany", WEFT_COMPUTE_ASYNC(barrier_take)},
    {0},
};
