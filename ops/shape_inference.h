/* ops/shape_inference.h - what a shape function sees and says.
 *
 * Dims are numbers or WEFT_UNKNOWN_DIM. A constant input's value may be known,
 * and then settles output shapes (Reshape, Fill, ...). Confined.
 */
#ifndef WEFT_OPS_SHAPE_INFERENCE_H_
#define WEFT_OPS_SHAPE_INFERENCE_H_

#include "ops/op.h"

/* What is known of the object behind a resource handle, or of a variant. */
typedef struct weft_handle_data {
  weft_shape_t shape; /* of a variable's value, an array's element, a table's values */
  int dtype;          /* its dtype; 0: nothing is known */
  weft_shape_t keys;  /* of a table's keys */
  int key_dtype;      /* 0: it is no table */
} weft_handle_data_t;

#define WEFT_NO_HANDLE_DATA ((weft_handle_data_t){.shape = WEFT_UNKNOWN_SHAPE, .keys = WEFT_UNKNOWN_SHAPE})

struct weft_shape_ctx {
  const weft_op_def_t *op;
  weft_str_t node_name;
  const weft_named_attr_t *attrs; /* defaults filled in */
  int num_attrs;
  int num_inputs, num_outputs; /* flat */
  const int *input_types, *output_types;
  const weft_shape_t *inputs;         /* num_inputs of them */
  const weft_tensor_t *const *values; /* num_inputs; NULL where the value is not known */
  const weft_shape_t *partials; /* num_inputs, or NULL: what is known of the elements of an integer vector
                                   without a known value, as a shape */
  weft_shape_t *outputs;        /* num_outputs; unknown shapes until set */
  const weft_handle_data_t *handles; /* num_inputs, or NULL */
  weft_handle_data_t *out_handles;   /* num_outputs, or NULL: to be set by ops that make or pass on handles */
};

const weft_attr_t *weft_shape_attr(const weft_shape_ctx_t *c,
                                   const char *name); /* never NULL for an attr of the op */

/* Requirements; each error is INVALID_ARGUMENT in TensorFlow's words ("Shape must be rank 2 but is rank 1 for
 * '{{node n}} = Op[...](a, b)' with input shapes: [3]."): the caller adds the node part. */
WEFT_MUST_CHECK weft_status_t *weft_shape_with_rank(weft_shape_ctx_t *c, int input, int rank,
                                                    weft_shape_t *out);
WEFT_MUST_CHECK weft_status_t *weft_shape_with_rank_at_least(weft_shape_ctx_t *c, int input, int rank,
                                                             weft_shape_t *out);
WEFT_MUST_CHECK weft_status_t *weft_shape_merge(const weft_shape_t *a, const weft_shape_t *b,
                                                weft_shape_t *out);
WEFT_MUST_CHECK weft_status_t *weft_shape_merge_dim(int64_t a, int64_t b, int64_t *out);
WEFT_MUST_CHECK weft_status_t *weft_shape_broadcast(const weft_shape_t *a, const weft_shape_t *b,
                                                    weft_shape_t *out);
/* The shape that a 1-D int tensor input holds (as far as it is known: its rank, some of its dimensions). */
WEFT_MUST_CHECK weft_status_t *weft_shape_from_input(weft_shape_ctx_t *c, int input, weft_shape_t *out);
/* Window arithmetic of convolution and pooling: out = ceil or floor as `padding` says ("SAME", "VALID",
 * "EXPLICIT"). */
WEFT_MUST_CHECK weft_status_t *weft_window_size(int64_t in, int64_t window, int64_t dilation, int64_t stride,
                                                weft_str_t padding, int64_t explicit_before,
                                                int64_t explicit_after, int64_t *out_size,
                                                int64_t *out_pad_before, int64_t *out_pad_after);

#endif /* WEFT_OPS_SHAPE_INFERENCE_H_ */
