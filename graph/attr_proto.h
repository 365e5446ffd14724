/* graph/attr_proto.h - pieces of attribute messages that several conversions share; for this folder only. */
#ifndef WEFT_GRAPH_ATTR_PROTO_H_
#define WEFT_GRAPH_ATTR_PROTO_H_

#include "graph/graph_proto.h"

enum {
  WEFT_ATTR_MAX_DEPTH = 32, /* functions with attributes with functions ...: reading them recurses */
  WEFT_ATTR_MAX_FUNC_ATTRS = 1 << 12, /* of one function in an attribute */
};

/* As weft_attr_from_proto, but what is no value becomes a WEFT_ATTR_RAW. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_attr_from_proto_or_raw(weft_arena_t *arena, weft_str_t bytes,
                                                           weft_attr_t *out);
/* Why a raw attribute is no value. `is_tensor`: NULL if it is a tensor of a known shape, whose elements alone
 * are wrong: TensorFlow's importer does not look at them. */
WEFT_MUST_CHECK weft_status_t *weft_attr_raw_check(const weft_attr_t *raw, bool is_tensor);
/* An entry of a map whose key and value are both length-delimited; lent. False if it is not a message. */
bool weft_map_entry_read(weft_str_t bytes, weft_str_t *out_key, weft_str_t *out_value);
/* Reads a serialized OpDef; everything lives in `arena`, but tensors in defaults (see weft_op_def_release).
 * flags: STATEFUL, COMMUTATIVE, AGGREGATE, UNINIT_OK, COMMUNICATION as the message says.
 * control_output is not kept: a FunctionDef repeats it in control_ret. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_op_def_from_proto(weft_arena_t *arena, weft_str_t bytes,
                                                      weft_op_def_t *out);
void weft_op_def_release(weft_op_def_t *op); /* releases tensors in defaults */

#endif /* WEFT_GRAPH_ATTR_PROTO_H_ */
