/* kernels/host/control_flow.c - ops that pass values on, or do not.
 *
 * None of them looks at its data, so one kernel serves every dtype and device,
 * values and references alike. What makes frames and iterations of Enter, Exit
 * and NextIteration is the executor; to a kernel they are identities.
 */
#include "kernels/host/host_kernels.h"

/* Hands input `in`, value or reference, over to output `out`. */
static void pass(weft_kernel_ctx_t *c, int in, int out) {
  if (weft_dtype_is_ref(c->node->output_types[out])) {
    c->outputs[out] = c->inputs[in];
    c->inputs[in] = (weft_value_t){NULL, NULL};
  } else {
    c->outputs[out].tensor = c->inputs[in].tensor;
    c->inputs[in].tensor = NULL;
  }
}

static weft_status_t *no_op(weft_kernel_ctx_t *c) {
  (void)c;
  return NULL;
}

static weft_status_t *identity(weft_kernel_ctx_t *c) {
  pass(c, 0, 0);
  return NULL;
}

static weft_status_t *loop_cond(weft_kernel_ctx_t *c) {
  if (weft_canceller_is_cancelled(c->step->canceller))
    return WEFT_ERROR(CANCELLED, "Loop execution was cancelled.");
  pass(c, 0, 0);
  return NULL;
}

/* Reads the scalar int32 or bool that steers Switch, _SwitchN and RefSelect. */
static weft_status_t *read_selector(const weft_tensor_t *t, const char *what, int64_t *out) {
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar, but it has shape %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = t->dtype == WEFT_BOOL ? *(const bool *)t->data : *(const int32_t *)t->data;
  return NULL;
}

static weft_status_t *switch_on_pred(weft_kernel_ctx_t *c) {
  int64_t pred = 0;
  WEFT_RETURN_IF_ERROR(read_selector(weft_in(c, 1), "The second input", &pred));
  pass(c, 0, pred != 0 ? 1 : 0);
  return NULL;
}

static weft_status_t *switch_on_index(weft_kernel_ctx_t *c) {
  int64_t index = 0;
  WEFT_RETURN_IF_ERROR(read_selector(weft_in(c, 1), "The second input", &index));
  int last = c->node->num_outputs - 1;
  pass(c, 0, index < 0 || index > last ? last : (int)index); /* out of range means the last one, as in Case */
  return NULL;
}

static weft_status_t *ref_select(weft_kernel_ctx_t *c) {
  int64_t index = 0;
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Index must be a scalar, but it has shape %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  WEFT_RETURN_IF_ERROR(read_selector(t, "Index", &index));
  if (index < 0 || index >= c->node->num_inputs - 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Index must be in the range [0, %d) but got %lld",
                      c->node->num_inputs - 1, (long long)index);
  }
  pass(c, (int)index + 1, 0);
  return NULL;
}

/* The executor runs a Merge with its one live input. */
static weft_status_t *merge(weft_kernel_ctx_t *c) {
  int live = 0;
  while (live < c->node->num_inputs && c->inputs[live].tensor == NULL && c->inputs[live].ref == NULL) live++;
  if (live == c->node->num_inputs) return NULL;
  int32_t index = live;
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I32, &index, &c->outputs[1].tensor));
  pass(c, live, 0);
  return NULL;
}

#define ANY_TYPE .type_attr = "T", .types = WEFT_SET_ALL
/* What steers is read by the host. */
enum { FIRST = 1 << 0, SECOND = 1 << 1 };

const weft_kernel_t weft_control_flow_kernels[] = {
    {.op = "ControlTrigger", .compute = no_op},
    {.op = "Enter", ANY_TYPE, .compute = identity, .forwards = true},
    {.op = "Exit", ANY_TYPE, .compute = identity, .forwards = true},
    {.op = "Identity", ANY_TYPE, .compute = identity, .forwards = true},
    {.op = "LoopCond", .compute = loop_cond, .host_inputs = FIRST, .host_outputs = FIRST},
    {.op = "Merge", ANY_TYPE, .compute = merge, .host_outputs = SECOND},
    {.op = "NextIteration", ANY_TYPE, .compute = identity, .forwards = true},
    {.op = "NoOp", .compute = no_op},
    {.op = "RefEnter", ANY_TYPE, .compute = identity, .forwards = true},
    {.op = "RefExit", ANY_TYPE, .compute = identity, .forwards = true},
    {.op = "RefIdentity", ANY_TYPE, .compute = identity, .forwards = true},
    {.op = "RefMerge", ANY_TYPE, .compute = merge, .host_outputs = SECOND},
    {.op = "RefNextIteration", ANY_TYPE, .compute = identity, .forwards = true},
    {.op = "RefSelect", ANY_TYPE, .compute = ref_select, .host_inputs = FIRST},
    {.op = "RefSwitch", ANY_TYPE, .compute = switch_on_pred, .host_inputs = SECOND},
    {.op = "Switch", ANY_TYPE, .compute = switch_on_pred, .host_inputs = SECOND},
    {.op = "_SwitchN", ANY_TYPE, .compute = switch_on_index, .host_inputs = SECOND},
    {0},
};
