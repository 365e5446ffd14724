/* kernels/host/args.c - what a step brings and what it takes away: _Arg and _Retval. */
#include "kernels/attrs.h"
#include "kernels/host/host_kernels.h"

WEFT_ATTRS(arg, (INT, index))
static weft_status_t *arg(weft_kernel_ctx_t *c, const arg_attrs_t *attrs) {
  if (attrs->index < 0 || attrs->index >= c->step->num_args || c->step->args[attrs->index] == NULL) {
    return WEFT_ERROR(INTERNAL, "no call frame: argument %lld of the step was not given",
                      (long long)attrs->index);
  }
  weft_tensor_t *t = c->step->args[attrs->index];
  weft_dtype_t want = weft_dtype_base(c->node->output_types[0]);
  if (t->dtype != want) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Type mismatch: actual %s vs. expect %s", weft_dtype_name(t->dtype),
                      weft_dtype_name(want));
  }
  weft_out_set(c, 0, weft_tensor_retain(t));
  return NULL;
}

WEFT_ATTRS(retval, (INT, index))
static weft_status_t *retval(weft_kernel_ctx_t *c, const retval_attrs_t *attrs) {
  if (attrs->index < 0 || attrs->index >= c->step->num_results) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the step has no place for result %lld", (long long)attrs->index);
  }
  weft_tensor_t **place = &c->step->results[attrs->index];
  weft_tensor_release(*place);
  *place = c->inputs[0].tensor;
  c->inputs[0].tensor = NULL;
  return NULL;
}

const weft_kernel_t weft_args_kernels[] = {
    {.op = "_Arg", .type_attr = "T", .types = WEFT_SET_ALL, WEFT_COMPUTE(arg), .host_outputs = 1},
    {.op = "_Retval", .type_attr = "T", .types = WEFT_SET_ALL, WEFT_COMPUTE(retval), .host_inputs = 1},
    {0},
};
