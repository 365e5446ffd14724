/* ops/product.h - the shape of a product of matrices, in the words of TensorFlow's kernels. */
#ifndef WEFT_OPS_PRODUCT_H_
#define WEFT_OPS_PRODUCT_H_

#include "tensor/shape.h"

/* [B..., M, N], the shape of op(a) [B..., M, K] . op(b) [B..., K, N] of BatchMatMul. Both shapes are known.
 *   broadcasts         B is broadcast, as of BatchMatMulV2 and V3; else it must be equal
 *   turns_a, turns_b   the operand lies transposed
 * Errors: INVALID_ARGUMENT, what the op says while a step runs. */
WEFT_MUST_CHECK weft_status_t *weft_product_shape(bool broadcasts, bool turns_a, bool turns_b,
                                                  const weft_shape_t *a, const weft_shape_t *b,
                                                  weft_shape_t *out);

#endif /* WEFT_OPS_PRODUCT_H_ */
