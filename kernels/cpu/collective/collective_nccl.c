/* kernels/cpu/collective/collective_nccl.c - TensorFlow's ops of NCCL, between devices of one task.
 *
 * Members name each other by the attribute shared_name, within a step. On GPUs they are the device library's
 * collectives, NCCL's between cards; on other devices, which TensorFlow has no kernels for, Weft's own.
 * NcclReduce and NcclBroadcast are placed by these rows and replaced before they run
 * (graph/nccl_pairs.c), as in TensorFlow.
 *
 * Source: TensorFlow's kernels/nccl_ops.cc.
 */
#include "base/alloc.h"
#include "kernels/attrs.h"
#include "kernels/cpu/collective/collective.h"

static weft_reduction_t reduction_of(weft_str_t name) {
  if (weft_str_is(name, "prod")) return WEFT_REDUCE_PROD;
  if (weft_str_is(name, "min")) return WEFT_REDUCE_MIN;
  return weft_str_is(name, "max") ? WEFT_REDUCE_MAX : WEFT_REDUCE_SUM;
}

static weft_status_t *check(const weft_kernel_ctx_t *c, int64_t num_devices, weft_str_t shared_name) {
  if (num_devices < 1 || num_devices > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s is of %lld devices", WEFT_STR_ARGS(c->node->name),
                      (long long)num_devices);
  }
  if (shared_name.length > 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%.*s has an empty shared_name", WEFT_STR_ARGS(c->node->name));
}

static weft_status_t *new_run(weft_kernel_ctx_t *c, weft_collective_kind_t kind, bool has_input,
                              int64_t num_devices, weft_str_t shared_name, weft_collective_run_t **out) {
  WEFT_RETURN_IF_ERROR(check(c, num_devices, shared_name));
  WEFT_RETURN_IF_ERROR(weft_collective_run_new(c, kind, has_input, out));
  (*out)->call.shared_name = shared_name;
  (*out)->call.group_size = (int)num_devices;
  return NULL;
}

/* ---- reductions ---- */

WEFT_ATTRS_STRUCT(nccl_reduce, (INT, num_devices), (STRING, shared_name), (STRING, reduction))

static void reduce(weft_kernel_ctx_t *c, const nccl_reduce_attrs_t *attrs, weft_collective_kind_t kind,
                   bool is_root) {
  weft_collective_run_t *r = NULL;
  weft_status_t *s = new_run(c, kind, true, attrs->num_devices, attrs->shared_name, &r);
  if (s != NULL) {
    weft_collective_run_end(r, c, s);
    return;
  }
  r->call.reduction = reduction_of(attrs->reduction);
  r->call.is_source = is_root;
  weft_collective_run_start(r);
}

WEFT_ATTRS_OF_ASYNC(all_reduce, nccl_reduce)
static void all_reduce(weft_kernel_ctx_t *ctx, const nccl_reduce_attrs_t *attrs) {
  reduce(ctx, attrs, WEFT_ALL_REDUCE, false);
}
WEFT_ATTRS_OF_ASYNC(reduce_send, nccl_reduce)
static void reduce_send(weft_kernel_ctx_t *ctx, const nccl_reduce_attrs_t *attrs) {
  reduce(ctx, attrs, WEFT_REDUCE, false);
}
WEFT_ATTRS_OF_ASYNC(reduce_recv, nccl_reduce)
static void reduce_recv(weft_kernel_ctx_t *ctx, const nccl_reduce_attrs_t *attrs) {
  reduce(ctx, attrs, WEFT_REDUCE, true);
}

/* ---- broadcasts ---- */

WEFT_ATTRS_STRUCT(nccl_broadcast, (INT, num_devices), (STRING, shared_name))

WEFT_ATTRS_OF_ASYNC(broadcast_send, nccl_broadcast)
static void broadcast_send(weft_kernel_ctx_t *ctx, const nccl_broadcast_attrs_t *attrs) {
  weft_collective_run_t *r = NULL;
  weft_status_t *s = new_run(ctx, WEFT_BROADCAST, true, attrs->num_devices, attrs->shared_name, &r);
  if (s != NULL) {
    weft_collective_run_end(r, ctx, s);
    return;
  }
  r->call.is_source = true;
  weft_collective_run_start(r);
}

static weft_status_t *read_shape(const weft_kernel_ctx_t *c, weft_shape_t *out) {
  int64_t dims[WEFT_MAX_DIMS];
  int n = 0;
  WEFT_RETURN_IF_ERROR(weft_read_ints(weft_in(c, 0), "shape", WEFT_MAX_DIMS, dims, &n));
  out->rank = n;
  for (int i = 0; i < n; i++) {
    if (dims[i] < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %lld must be >= 0", (long long)dims[i]);
    out->dims[i] = dims[i];
  }
  return NULL; /* too many elements are the collective's to refuse */
}

WEFT_ATTRS_OF_ASYNC(broadcast_recv, nccl_broadcast)
static void broadcast_recv(weft_kernel_ctx_t *ctx, const nccl_broadcast_attrs_t *attrs) {
  weft_collective_run_t *r = NULL;
  weft_status_t *s = new_run(ctx, WEFT_BROADCAST, false, attrs->num_devices, attrs->shared_name, &r);
  if (s == NULL) s = read_shape(ctx, &r->call.shape);
  if (s != NULL) {
    weft_collective_run_end(r, ctx, s);
    return;
  }
  r->call.dtype = (weft_dtype_t)ctx->node->output_types[0];
  weft_collective_run_start(r);
}

/* ---- what is replaced, as in TensorFlow, before a step (graph/nccl_pairs.c) ---- */

static weft_status_t *refuse_unreplaced(weft_kernel_ctx_t *c) {
  return WEFT_ERROR(UNIMPLEMENTED, "%.*s: This op should be replaced during graph optimization.",
                    WEFT_STR_ARGS(c->node->name));
}

const weft_kernel_t weft_cpu_collective_nccl_kernels[] = {
    {.op = "NcclAllReduce", WEFT_COMPUTE_ASYNC(all_reduce)},
    {.op = "NcclBroadcast", .compute = refuse_unreplaced},
    {.op = "NcclReduce", .compute = refuse_unreplaced},
    {.op = "_NcclBroadcastRecv", WEFT_COMPUTE_ASYNC(broadcast_recv)},
    {.op = "_NcclBroadcastSend", WEFT_COMPUTE_ASYNC(broadcast_send)},
    {.op = "_NcclReduceRecv", WEFT_COMPUTE_ASYNC(reduce_recv)},
    {.op = "_NcclReduceSend", WEFT_COMPUTE_ASYNC(reduce_send)},
    {0},
};
