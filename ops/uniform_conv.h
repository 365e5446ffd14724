/* ops/uniform_conv.h - which dimensions and windows a UniformQuantizedConvolution has.
 *
 * Its attributes say which dimensions are batch, features and space, in the operands and in the result; shape
 * functions and kernels read them here. Also a dot product is one, without space.
 */
#ifndef WEFT_OPS_UNIFORM_CONV_H_
#define WEFT_OPS_UNIFORM_CONV_H_

#include "ops/attr.h"
#include "tensor/shape.h"

typedef struct weft_uniform_conv {
  int num_space;
  /* Dimensions: of lhs and of the result batch, features, then space; of rhs output features, input features,
   * then space. */
  int lhs[WEFT_MAX_DIMS], rhs[WEFT_MAX_DIMS], out[WEFT_MAX_DIMS];
  int64_t stride[WEFT_MAX_DIMS], lhs_dilation[WEFT_MAX_DIMS], rhs_dilation[WEFT_MAX_DIMS];
  int64_t before[WEFT_MAX_DIMS], after[WEFT_MAX_DIMS]; /* padding */
  int64_t feature_groups, batch_groups;
  weft_shape_t shape; /* of the result */
} weft_uniform_conv_t;

/* The padding is one of EXPLICIT, SAME and VALID, and explicit_padding fits. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_uniform_conv_check(const weft_named_attr_t *attrs, int num_attrs);
/* Of a node with operands of known shapes. Errors: INVALID_ARGUMENT in TensorFlow's words. */
WEFT_MUST_CHECK weft_status_t *weft_uniform_conv_plan(const weft_named_attr_t *attrs, int num_attrs,
                                                      const weft_shape_t *lhs, const weft_shape_t *rhs,
                                                      weft_uniform_conv_t *out);
/* lhs [m, k] times rhs [k, n]. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_uniform_dot_plan(const weft_shape_t *lhs, const weft_shape_t *rhs,
                                                     weft_uniform_conv_t *out);

#endif /* WEFT_OPS_UNIFORM_CONV_H_ */
