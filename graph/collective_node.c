/* graph/collective_node.c - keys from attributes and constants. */
#include "graph/collective_node.h"

static bool read_key(const weft_node_t *n, const char *name, int64_t *out) {
  const weft_attr_t *attr = weft_node_attr(n, name);
  if (attr != NULL && attr->kind == WEFT_ATTR_INT) {
    *out = attr->i;
    return true;
  }
  for (int i = 0; i < n->op->num_inputs && i < n->num_inputs; i++) {
    if (!weft_str_is(n->op->inputs[i].name, name)) continue;
    const weft_node_t *from = n->inputs[i].node;
    const weft_attr_t *value = (from->flags & WEFT_OP_CONST) != 0 ? weft_node_attr(from, "value") : NULL;
    bool is_scalar = value != NULL && value->kind == WEFT_ATTR_TENSOR && value->tensor->dtype == WEFT_I32 &&
                     value->tensor->shape.rank == 0;
    if (is_scalar) *out = *(const int32_t *)value->tensor->data;
    return is_scalar;
  }
  return false;
}

static bool has_argument(const weft_op_def_t *op, const char *name) {
  for (int i = 0; i < op->num_inputs; i++) {
    if (weft_str_is(op->inputs[i].name, name)) return true;
  }
  return false;
}

bool weft_node_is_collective(const weft_node_t *n) {
  if ((n->flags & WEFT_OP_COMMUNICATION) == 0 || (n->flags & (WEFT_OP_SEND | WEFT_OP_RECV)) != 0)
    return false;
  return weft_node_attr(n, "group_key") != NULL || has_argument(n->op, "group_key") ||
         has_argument(n->op, "communicator");
}

bool weft_node_collective_keys(const weft_node_t *n, weft_collective_keys_t *out) {
  return weft_node_is_collective(n) && read_key(n, "group_size", &out->group_size) &&
         read_key(n, "group_key", &out->group_key) && read_key(n, "instance_key", &out->instance_key);
}
