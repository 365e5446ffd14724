/* kernels/cpu/queue/accumulator.c - the kernels of accumulators: by handle or by reference, dense or sparse.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/state.h"
#include "resources/accumulator.h"

static weft_status_t *read_dense(const weft_kernel_setup_t *setup, void *config) {
  const weft_attr_t *shape = weft_knode_attr(setup, "shape");
  *(weft_accumulator_config_t *)config = (weft_accumulator_config_t){
      .dtype = (weft_dtype_t)weft_knode_type(setup, "dtype"),
      .shape = shape == NULL || shape->kind != WEFT_ATTR_SHAPE ? WEFT_UNKNOWN_SHAPE : *shape->shape,
      .is_sum = weft_str_is(weft_knode_string(setup, "reduction_type"), "SUM")};
  return NULL;
}

static weft_status_t *read_sparse(const weft_kernel_setup_t *setup, void *config) {
  WEFT_RETURN_IF_ERROR(read_dense(setup, config));
  ((weft_accumulator_config_t *)config)->is_sparse = true;
  return NULL;
}

static weft_status_t *create(weft_kernel_ctx_t *ctx, const char *name, const void *config,
                             weft_object_t **out) {
  (void)ctx;
  return weft_accumulator_create(name, config, out);
}

/* ---- operations ---- */

static weft_status_t *in_accumulator(weft_kernel_ctx_t *c, weft_accumulator_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_accumulator_type, &o));
  *out = (weft_accumulator_t *)o;
  return NULL;
}

static void release(weft_accumulator_t *a) { weft_object_release((weft_object_t *)a); }

static weft_status_t *scalar(const weft_kernel_ctx_t *c, int i, const char *what, int64_t *out) {
  const weft_tensor_t *t = weft_in(c, i);
  int n = 0;
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Argument %s must be scalar, but had bad shape %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  return weft_read_ints(t, what, 1, out, &n);
}

/* The node's gradient must be of the accumulator's type. */
static weft_status_t *check_kind(const weft_kernel_ctx_t *c, const weft_accumulator_t *a, bool is_sparse,
                                 weft_dtype_t dtype) {
  const weft_accumulator_config_t *config = weft_accumulator_config(a);
  if (config->is_sparse != is_sparse) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s on an accumulator of %s gradients",
                      WEFT_STR_ARGS(c->node->op_name), config->is_sparse ? "sparse" : "dense");
  }
  if (config->dtype == dtype) return NULL;
  const char *handle = weft_dtype_name(c->node->input_types[0]);
  bool takes = c->node->num_outputs > 0;
  return takes
             ? WEFT_ERROR(INVALID_ARGUMENT, "Signature mismatch, have: %s, int32->%s expected: %s, int32->%s",
                          handle, weft_dtype_name(dtype), handle, weft_dtype_name(config->dtype))
             : WEFT_ERROR(INVALID_ARGUMENT,
                          "Signature mismatch, have: %s, int64, %s-> expected: %s, int64, %s->", handle,
                          weft_dtype_name(dtype), handle, weft_dtype_name(config->dtype));
}

static weft_status_t *apply(weft_kernel_ctx_t *c) {
  weft_accumulator_t *a = NULL;
  int64_t step = 0;
  WEFT_RETURN_IF_ERROR(in_accumulator(c, &a));
  weft_status_t *s = check_kind(c, a, false, weft_in(c, 2)->dtype);
  if (s == NULL) s = scalar(c, 1, "local_step", &step);
  if (s == NULL) s = weft_accumulator_apply(a, step, weft_in(c, 2));
  release(a);
  return s;
}

WEFT_ATTRS(apply_sparse, (BOOL, has_known_shape))
static weft_status_t *apply_sparse(weft_kernel_ctx_t *c, const apply_sparse_attrs_t *attrs) {
  weft_accumulator_t *a = NULL;
  int64_t step = 0;
  WEFT_RETURN_IF_ERROR(in_accumulator(c, &a));
  weft_status_t *s = check_kind(c, a, true, weft_in(c, 3)->dtype);
  if (s == NULL) s = scalar(c, 1, "local_step", &step);
  if (s == NULL) {
    s = weft_accumulator_apply_sparse(a, step, weft_in(c, 2), weft_in(c, 3), weft_in(c, 4),
                                      attrs->has_known_shape);
  }
  release(a);
  return s;
}

static void take_any(weft_kernel_ctx_t *c, bool is_sparse) {
  weft_accumulator_t *a = NULL;
  int64_t required = 0;
  weft_status_t *s = in_accumulator(c, &a);
  if (s == NULL) s = check_kind(c, a, is_sparse, (weft_dtype_t)c->node->output_types[is_sparse ? 1 : 0]);
  if (s == NULL) s = scalar(c, 1, "num_required", &required);
  if (s == NULL && required <= 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Argument num_required must be positive, but was %" PRId64, required);
  }
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_accumulator_take(a, &call, required);
  }
  release(a);
}

static void take(weft_kernel_ctx_t *c) { take_any(c, false); }
static void take_sparse(weft_kernel_ctx_t *c) { take_any(c, true); }

static weft_status_t *set_step(weft_kernel_ctx_t *c) {
  weft_accumulator_t *a = NULL;
  int64_t step = 0;
  WEFT_RETURN_IF_ERROR(in_accumulator(c, &a));
  weft_status_t *s = scalar(c, 1, "new_global_step", &step);
  if (s == NULL) weft_accumulator_set_step(a, step);
  release(a);
  return s;
}

static weft_status_t *count(weft_kernel_ctx_t *c) {
  weft_accumulator_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_accumulator(c, &a));
  int32_t n = (int32_t)weft_accumulator_count(a);
  release(a);
  return weft_tensor_scalar(WEFT_I32, &n, &c->outputs[0].tensor);
}

#define FLOATS .type_attr = "dtype", .types = WEFT_SET_FLOATS
#define MAKER(name, read)                                                                 \
  {                                                                                       \
    .op = name, FLOATS, WEFT_STATE_MAKER, .param = &(const weft_state_maker_t) {          \
      &weft_accumulator_type, sizeof(weft_accumulator_config_t), read, create, NULL, NULL \
    }                                                                                     \
  }

const weft_kernel_t weft_cpu_accumulator_kernels[] = {
    {.op = "AccumulatorApplyGradient", .compute = apply},
    {.op = "AccumulatorNumAccumulated", .compute = count},
    {.op = "AccumulatorSetGlobalStep", .compute = set_step},
    {.op = "AccumulatorTakeGradient", .compute_async = take},
    MAKER("ConditionalAccumulator", read_dense),
    {.op = "ResourceAccumulatorApplyGradient", .compute = apply},
    {.op = "ResourceAccumulatorNumAccumulated", .compute = count},
    {.op = "ResourceAccumulatorSetGlobalStep", .compute = set_step},
    {.op = "ResourceAccumulatorTakeGradient", .compute_async = take},
    MAKER("ResourceConditionalAccumulator", read_dense),
    {.op = "SparseAccumulatorApplyGradient", WEFT_COMPUTE(apply_sparse)},
    {.op = "SparseAccumulatorTakeGradient", .compute_async = take_sparse},
    MAKER("SparseConditionalAccumulator", read_sparse),
    {0},
};
