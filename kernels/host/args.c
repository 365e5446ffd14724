/* kernels/host/args.c - what a step brings and what it takes away: _Arg and _Retval. */
#include "base/alloc.h"
#include "kernels/host/host_kernels.h"

typedef struct position {
  int64_t index;
} position_t;

static weft_status_t *prepare(const weft_kernel_node_t *node, void **out_state) {
  position_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("preparing %s", node->op_name.data);
  p->index = weft_knode_int(node, "index");
  *out_state = p;
  return NULL;
}

static weft_status_t *arg(weft_kernel_ctx_t *c) {
  const position_t *p = c->state;
  if (p->index < 0 || p->index >= c->step->num_args || c->step->args[p->index] == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "argument %lld of the step was not given", (long long)p->index);
  }
  weft_tensor_t *t = c->step->args[p->index];
  weft_dtype_t want = weft_dtype_base(c->node->output_types[0]);
  if (t->dtype != want) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Type mismatch: actual %s vs. expect %s", weft_dtype_name(t->dtype),
                      weft_dtype_name(want));
  }
  weft_out_set(c, 0, weft_tensor_retain(t));
  return NULL;
}

static weft_status_t *retval(weft_kernel_ctx_t *c) {
  const position_t *p = c->state;
  if (p->index < 0 || p->index >= c->step->num_results) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the step has no place for result %lld", (long long)p->index);
  }
  weft_tensor_t **place = &c->step->results[p->index];
  weft_tensor_release(*place);
  *place = c->inputs[0].tensor;
  c->inputs[0].tensor = NULL;
  return NULL;
}

const weft_kernel_t weft_args_kernels[] = {
    {.op = "_Arg",
     .type_attr = "T",
     .types = WEFT_SET_ALL,
     .prepare = prepare,
     .compute = arg,
     .host_outputs = 1,
     .destroy = weft_free},
    {.op = "_Retval",
     .type_attr = "T",
     .types = WEFT_SET_ALL,
     .prepare = prepare,
     .compute = retval,
     .host_inputs = 1,
     .destroy = weft_free},
    {0},
};
