/* client/tensor.h - TF_Tensor: a box around one of our tensors. */
#ifndef WEFT_CLIENT_TENSOR_H_
#define WEFT_CLIENT_TENSOR_H_

#include "tensor/tensor.h"
#include "tensorflow/c/tf_tensor.h"

/* A new box; consumes the reference. A scalar resource becomes the bytes of its ResourceHandleProto, as
 * TensorFlow shows it. Errors: RESOURCE_EXHAUSTED; INVALID_ARGUMENT for a resource tensor that is no scalar.
 */
WEFT_MUST_CHECK weft_status_t *weft_client_tensor_new(weft_tensor_t *t, TF_Tensor **out);
/* What a box holds, as a tensor for a graph; *out is one reference. Errors: INVALID_ARGUMENT for a resource
 * whose bytes are no handle. */
WEFT_MUST_CHECK weft_status_t *weft_client_tensor_get(const TF_Tensor *box, weft_tensor_t **out);

/* A shape from C arrays, num_dims -1: unknown rank. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_client_shape(const int64_t *dims, int num_dims, weft_shape_t *out);

#endif /* WEFT_CLIENT_TENSOR_H_ */
