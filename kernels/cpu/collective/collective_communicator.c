/* kernels/cpu/collective/collective_communicator.c - collective operations of TensorFlow's third form, over a
 * communicator.
 *
 * CollectiveInitializeCommunicator gathers the group once, with wanted ranks, and makes a
 * resource of it. Ops over it count up its instances: all members must run them in
 * the same order.
 */
#include "kernels/cpu/collective/collective.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "kernels/attrs.h"
#include "kernels/state.h"

typedef struct communicator {
  weft_object_t object; /* first: a communicator is a resource */
  int64_t group_key, timeout_ms;
  int rank, group_size;
  weft_collective_algorithm_t algorithm;
  atomic_int next_instance; /* nothing else is ordered by it */
} communicator_t;

static const weft_resource_type_t communicator_type = {
    .name = "N10tensorflow12_GLOBAL__N_123CollectiveGroupResourceE", .text = "CollectiveGroupResource"};

enum { GATHERING = -1 }; /* the instance key of the group's first collective; those of ops begin at 0 */

static void destroy_communicator(weft_object_t *o) { weft_free(o); }

/* ---- making one ---- */

static weft_status_t *read_scalar(const weft_kernel_ctx_t *c, int i, const char *name, int32_t *out) {
  const weft_tensor_t *t = weft_in(c, i);
  if (t->shape.rank > 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Unexpected dimensions on input %s. It shoulbe a scalar, got tensor with shape %s",
                      name, WEFT_SHAPE_TEXT(&t->shape)); /* worded as TensorFlow does */
  }
  *out = *(const int32_t *)t->data;
  return NULL;
}

static weft_status_t *read_group(const weft_kernel_ctx_t *c, weft_collective_t *call) {
  int32_t key = 0, rank = 0, size = 0;
  WEFT_RETURN_IF_ERROR(read_scalar(c, 2, "group_size", &size));
  WEFT_RETURN_IF_ERROR(read_scalar(c, 0, "group_key", &key));
  WEFT_RETURN_IF_ERROR(read_scalar(c, 1, "rank", &rank));
  if (size <= 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "group_size must be positive integer but got %" PRId32, size);
  if (rank < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "rank must be non-negative integer but got %" PRId32, rank);
  if (rank >= size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "rank must be less than group size but got %" PRId32 " >= %" PRId32,
                      rank, size);
  }
  call->group_key = key;
  call->group_size = size;
  call->rank = rank;
  return NULL;
}

static weft_status_t *make_communicator(weft_collective_run_t *r, weft_tensor_t *output) {
  weft_kernel_ctx_t *c = r->ctx;
  weft_tensor_release(output);
  communicator_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("the communicator %.*s", WEFT_STR_ARGS(c->node->name));
  atomic_init(&m->object.refs, 1);
  m->object.destroy = destroy_communicator;
  m->group_key = r->call.group_key;
  m->timeout_ms = r->call.timeout_ms;
  m->rank = r->call.rank;
  m->group_size = r->call.group_size;
  m->algorithm = r->call.algorithm;
  atomic_init(&m->next_instance, 0);
  weft_tensor_t *handle = NULL;
  weft_status_t *s = weft_state_handle(c->device, "", c->node->name.data, &communicator_type, &m->object,
                                       WEFT_DTYPE_INVALID, NULL, &handle);
  weft_object_release(&m->object);
  if (s == NULL) weft_out_set(c, 0, handle);
  return s;
}

WEFT_ATTRS_ASYNC(initialize, (STRING, communication_hint), (FLOAT, timeout_seconds))
static void initialize(weft_kernel_ctx_t *c, const initialize_attrs_t *attrs) {
  weft_collective_run_t *r = NULL;
  weft_status_t *s = weft_collective_run_new(c, WEFT_BARRIER, false, &r);
  if (s == NULL) s = read_group(c, &r->call);
  if (s != NULL) {
    weft_collective_run_end(r, c, s);
    return;
  }
  r->call.instance_key = GATHERING;
  r->call.algorithm = weft_collective_hint(attrs->communication_hint);
  r->call.timeout_ms = weft_collective_timeout_ms(attrs->timeout_seconds);
  r->finish = make_communicator;
  weft_collective_run_start(r);
}

/* ---- using one ---- */

static weft_status_t *join(const weft_kernel_ctx_t *c, communicator_t *m, float timeout_seconds,
                           weft_collective_t *call) {
  if (weft_in(c, 2)->count > 0) return WEFT_ERROR(UNIMPLEMENTED, "Group assignments are not supported yet.");
  int64_t own = weft_collective_timeout_ms(timeout_seconds);
  call->group_key = m->group_key;
  call->group_size = m->group_size;
  call->rank = m->rank;
  call->algorithm = m->algorithm;
  call->timeout_ms = own > 0 ? own : m->timeout_ms;
  call->instance_key = atomic_fetch_add_explicit(&m->next_instance, 1, memory_order_relaxed);
  return NULL;
}

/* `reduction`: of an all-reduce. */
static void run(weft_kernel_ctx_t *c, weft_collective_kind_t kind, float timeout_seconds,
                weft_str_t reduction) {
  weft_object_t *o = NULL;
  weft_collective_run_t *r = NULL;
  weft_status_t *s = weft_collective_run_new(c, kind, true, &r);
  if (s == NULL) s = weft_state_in(c, 1, &communicator_type, &o);
  if (s == NULL) s = join(c, (communicator_t *)o, timeout_seconds, &r->call);
  weft_object_release(o);
  if (s == NULL) r->call.reduction = weft_collective_reduction(reduction);
  if (s == NULL && kind == WEFT_ALL_TO_ALL && r->call.shape.rank < 1) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "%.*s: the input has no rows: it is a scalar",
                   WEFT_STR_ARGS(c->node->name));
  }
  if (s != NULL) {
    weft_collective_run_end(r, c, s);
  } else {
    weft_collective_run_start(r);
  }
}

WEFT_ATTRS_ASYNC(reduce, (FLOAT, timeout_seconds), (STRING, reduction))
static void reduce(weft_kernel_ctx_t *c, const reduce_attrs_t *attrs) {
  run(c, WEFT_ALL_REDUCE, attrs->timeout_seconds, attrs->reduction);
}

WEFT_ATTRS_ASYNC(all_to_all, (FLOAT, timeout_seconds))
static void all_to_all(weft_kernel_ctx_t *c, const all_to_all_attrs_t *attrs) {
  run(c, WEFT_ALL_TO_ALL, attrs->timeout_seconds, WEFT_STR(""));
}

const weft_kernel_t weft_cpu_collective_communicator_kernels[] = {
    {.op = "CollectiveAllToAllV3", WEFT_COMPUTE_ASYNC(all_to_all)},
    {.op = "CollectiveInitializeCommunicator", WEFT_COMPUTE_ASYNC(initialize)},
    {.op = "CollectiveReduceV3", WEFT_COMPUTE_ASYNC(reduce)},
    {0},
};
