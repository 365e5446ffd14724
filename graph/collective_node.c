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

bool weft_node_collective_keys(const weft_node_t *n, weft_collective_keys_t *out) {
  if ((n->flags & WEFT_OP_COMMUNICATION) == 0 || (n->flags & (WEFT_OP_SEND | WEFT_OP_RECV)) != 0)
    return false;
  return read_key(n, "group_size", &out->group_size) && read_key(n, "group_key", &out->group_key) &&
         read_key(n, "instance_key", &out->instance_key);
}
