/* kernels/cpu/list/stack.c - the kernels of stacks. */
#include "resources/stack.h"

#include "base/alloc.h"
#include "kernels/attrs.h"
#include "kernels/step_resource.h"

WEFT_ATTRS(stack_make, (TYPE, elem_type), (STRING, stack_name))
static weft_status_t *stack_make(weft_kernel_ctx_t *c, const stack_make_attrs_t *attrs) {
  int64_t max_size = -1;
  int n = 0;
  if (c->node->num_inputs > 0)
    WEFT_RETURN_IF_ERROR(weft_read_ints(weft_in(c, 0), "Stack size", 1, &max_size, &n));
  char *name = NULL;
  weft_stack_t *st = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_resource_name(c, attrs->stack_name, &name));
  weft_status_t *s = weft_stack_create(name, (weft_dtype_t)attrs->elem_type, max_size, &st);
  if (s == NULL) s = weft_step_resource_output(c, &weft_stack_type, name, (weft_object_t *)st);
  weft_object_release((weft_object_t *)st);
  weft_free(name);
  return s;
}

static weft_status_t *in_stack(weft_kernel_ctx_t *c, weft_stack_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_resource_in(c, 0, &weft_stack_type, &o));
  *out = (weft_stack_t *)o;
  return NULL;
}

static weft_status_t *stack_push(weft_kernel_ctx_t *c) {
  weft_stack_t *st = NULL;
  WEFT_RETURN_IF_ERROR(in_stack(c, &st));
  weft_status_t *s = weft_stack_push(st, weft_in(c, 1));
  weft_object_release((weft_object_t *)st);
  if (s == NULL) weft_out_set(c, 0, weft_tensor_retain(weft_in(c, 1)));
  return s;
}

static weft_status_t *stack_pop(weft_kernel_ctx_t *c) {
  weft_stack_t *st = NULL;
  WEFT_RETURN_IF_ERROR(in_stack(c, &st));
  weft_status_t *s = weft_stack_pop(st, &c->outputs[0].tensor);
  weft_object_release((weft_object_t *)st);
  return s;
}

static weft_status_t *stack_close(weft_kernel_ctx_t *c) {
  weft_stack_t *st = NULL;
  WEFT_RETURN_IF_ERROR(in_stack(c, &st));
  weft_stack_close(st);
  weft_object_release((weft_object_t *)st);
  return NULL;
}

const weft_kernel_t weft_cpu_stack_kernels[] = {
    {.op = "Stack", WEFT_COMPUTE(stack_make)},
    {.op = "StackClose", .compute = stack_close},
    {.op = "StackCloseV2", .compute = stack_close},
    {.op = "StackPop", .compute = stack_pop},
    {.op = "StackPopV2", .compute = stack_pop},
    {.op = "StackPush", .type_attr = "T", .types = WEFT_SET_ALL, .compute = stack_push},
    {.op = "StackPushV2", .type_attr = "T", .types = WEFT_SET_ALL, .compute = stack_push},
    {.op = "StackV2", WEFT_COMPUTE(stack_make)},
    {0},
};
