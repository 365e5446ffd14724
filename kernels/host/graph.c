/* kernels/host/graph.c - constants, placeholders, lists of identities: what a graph needs to be a graph. */
#include "base/alloc.h"
#include "kernels/attrs.h"
#include "kernels/host/host_kernels.h"

static weft_status_t *constant_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *value = weft_knode_attr(setup, "value");
  if (value->tensor->dtype != (weft_dtype_t)weft_knode_type(setup, "dtype")) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Type mismatch between value (%s) and dtype (%s)",
                      weft_dtype_name(value->tensor->dtype),
                      weft_dtype_name(weft_knode_type(setup, "dtype")));
  }
  *out_state = weft_tensor_retain(value->tensor);
  return NULL;
}

static void constant_destroy(void *state) { weft_tensor_release(state); }

static weft_status_t *constant(weft_kernel_ctx_t *c) {
  weft_out_set(c, 0, weft_tensor_retain(c->state));
  return NULL;
}

/* A placeholder is replaced by what is fed; one that runs was forgotten. */
WEFT_ATTRS(placeholder, (TYPE, dtype), (SHAPE, shape))
static weft_status_t *placeholder(weft_kernel_ctx_t *c, const placeholder_attrs_t *attrs) {
  const char *dtype = weft_dtype_name(attrs->dtype);
  if (attrs->shape->rank <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "You must feed a value for placeholder tensor '%.*s' with dtype %s",
                      WEFT_STR_ARGS(c->node->name), dtype);
  }
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "You must feed a value for placeholder tensor '%.*s' with dtype %s and shape %s",
                    WEFT_STR_ARGS(c->node->name), dtype, WEFT_SHAPE_TEXT(attrs->shape));
}

static weft_status_t *pass_all(weft_kernel_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    c->outputs[i] = c->inputs[i];
    c->inputs[i] = (weft_value_t){NULL, NULL};
  }
  return NULL;
}

/* Of a branch that is not taken, for one that is: its value is never read. Dimensions that are not known are
 * 0. */
WEFT_ATTRS(fake_param, (SHAPE, shape))
static weft_status_t *fake_param(weft_kernel_ctx_t *c, const fake_param_attrs_t *attrs) {
  weft_shape_t shape = {.rank = attrs->shape->rank < 0 ? 0 : attrs->shape->rank};
  for (int i = 0; i < shape.rank; i++) shape.dims[i] = attrs->shape->dims[i] < 0 ? 0 : attrs->shape->dims[i];
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, weft_dtype_base(c->node->output_types[0]), &shape, &t));
  if (c->queue == NULL && weft_dtype_is_plain(t->dtype) && t->bytes > 0) memset(t->data, 0, t->bytes);
  return NULL;
}

static weft_status_t *pass_list(weft_kernel_ctx_t *c) {
  const weft_kernel_node_t *n = c->node;
  for (int i = 0; i < n->num_inputs || i < n->num_outputs; i++) {
    if (i < n->num_inputs && i < n->num_outputs && n->input_types[i] == n->output_types[i]) continue;
    return WEFT_ERROR(INTERNAL, "input and output %d are of different types, or one of them is not there", i);
  }
  return pass_all(c);
}

const weft_kernel_t weft_graph_kernels[] = {
    {.op = "Const",
     .type_attr = "dtype",
     .types = WEFT_SET_ALL,
     .prepare = constant_prepare,
     .compute = constant,
     .destroy = constant_destroy},
    WEFT_KERNEL_ATTRS("FakeParam", "dtype", WEFT_SET_ALL, fake_param),
    {.op = "IdentityN", .compute = pass_all},
    WEFT_KERNEL_ATTRS("Placeholder", "dtype", WEFT_SET_ALL, placeholder),
    WEFT_KERNEL_ATTRS("PlaceholderV2", "dtype", WEFT_SET_ALL, placeholder),
    {.op = "PlaceholderWithDefault", .type_attr = "dtype", .types = WEFT_SET_ALL, .compute = pass_all},
    {.op = "_ArrayToList", .compute = pass_list},
    {.op = "_ListToArray", .compute = pass_list},
    {0},
};
