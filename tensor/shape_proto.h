/* tensor/shape_proto.h - TensorShapeProto and ResourceHandleProto, from and to the wire.
 *
 * Both describe a value without being one: shapes stand in tensors and in
 * attributes, handles are the elements of resource tensors.
 */
#ifndef WEFT_TENSOR_SHAPE_PROTO_H_
#define WEFT_TENSOR_SHAPE_PROTO_H_

#include "tensor/handle.h"
#include "tensor/shape.h"

/* A shape as attributes hold it: the rank or any dim may be unknown.
 * Errors: INVALID_ARGUMENT with TensorFlow's wording (a dim below -1, too many dims, more than 2**63 - 1
 * elements). */
WEFT_MUST_CHECK weft_status_t *weft_shape_from_proto(weft_str_t bytes, weft_shape_t *out);
/* A shape as values have it: also an error if a dim is unknown. As in TensorFlow, unknown_rank is not looked
 * at. */
WEFT_MUST_CHECK weft_status_t *weft_shape_from_proto_known(weft_str_t bytes, weft_shape_t *out);
/* The message's fields, without a tag or length in front; and how many bytes they take. */
void weft_shape_to_proto(const weft_shape_t *s, weft_strbuf_t *out);
size_t weft_shape_proto_size(const weft_shape_t *s);

/* A message that comes in pieces (a repeated occurrence of one field adds to the first). */
typedef struct weft_shape_parts {
  weft_shape_t shape; /* rank counts all dims, also those beyond WEFT_MAX_DIMS, which are not kept */
  bool unknown_rank;
} weft_shape_parts_t;
bool weft_shape_parts_add(weft_shape_parts_t *parts, weft_str_t bytes); /* false if `bytes` are no message */
WEFT_MUST_CHECK weft_status_t *weft_shape_parts_finish(const weft_shape_parts_t *parts, bool may_be_unknown,
                                                       weft_shape_t *out);

/* A handle that names its resource and holds no object. The caller owns one reference.
 * Only the first of dtypes_and_shapes is kept: Weft's handles have room for one.
 * Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_handle_from_proto(weft_str_t bytes, weft_handle_t **out);
/* NULL is the empty handle, as in a resource tensor that was never written. */
void weft_handle_to_proto(const weft_handle_t *h, weft_strbuf_t *out);
size_t weft_handle_proto_size(const weft_handle_t *h);

#endif /* WEFT_TENSOR_SHAPE_PROTO_H_ */
