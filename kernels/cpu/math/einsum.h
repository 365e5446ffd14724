/* kernels/cpu/math/einsum.h - Einsum as products of matrices, for other kernels of this folder. */
#ifndef WEFT_KERNELS_CPU_MATH_EINSUM_H_
#define WEFT_KERNELS_CPU_MATH_EINSUM_H_

#include "kernels/cpu/math/batch_product.h"

/* The Einsum of operands of these shapes as products of matrices that lie in the operands and in the result
 * as they are; false in *out_is_one: an operand or the result would have to be copied. `a` of *out is operand
 * *out_a, `b` the other one. The batch goes through the labels in the order that the result has them in.
 * Errors: INVALID_ARGUMENT: the equation does not fit, in the words of TensorFlow's kernel. */
WEFT_MUST_CHECK weft_status_t *weft_einsum_product(weft_str_t equation, const weft_shape_t *const shapes[2],
                                                   weft_batch_product_t *out, int *out_a, bool *out_is_one);

#endif /* WEFT_KERNELS_CPU_MATH_EINSUM_H_ */
