/* kernels/cpu/list/variant.h - arithmetic on what variants hold: lists and optionals, of numbers or of
 * variants again. The gradients of second-generation control flow need it. */
#ifndef WEFT_KERNELS_CPU_LIST_VARIANT_H_
#define WEFT_KERNELS_CPU_LIST_VARIANT_H_

#include "kernels/kernel.h"

/* Zeros of the same dtype and shape; of a list or an optional, such a thing of zeros. Errors: UNIMPLEMENTED
 * for what has no zero (a resource), RESOURCE_EXHAUSTED. The caller owns one reference. */
WEFT_MUST_CHECK weft_status_t *weft_zeros_like(const weft_tensor_t *x, weft_tensor_t **out);
/* The sum of two tensors of one dtype and shape, or of two things of the same make, element by element.
 * Errors: INVALID_ARGUMENT in TensorFlow's words if they differ; RESOURCE_EXHAUSTED. The caller owns one
 * reference. */
WEFT_MUST_CHECK weft_status_t *weft_add_alike(const weft_tensor_t *a, const weft_tensor_t *b,
                                              weft_tensor_t **out);

#endif /* WEFT_KERNELS_CPU_LIST_VARIANT_H_ */
