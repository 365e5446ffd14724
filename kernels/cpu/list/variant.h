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

/* ---- for lists in a device's memory ---- */

/* The param of rows of a device's table: how two values are added that may lie in any memory, of one type and
 * shape. The sum lies in the memory of the device. */
typedef struct weft_device_add {
  weft_status_t *(*add)(weft_kernel_ctx_t *c, const weft_tensor_t *x, const weft_tensor_t *y,
                        weft_tensor_t **out);
} weft_device_add_t;

/* How two elements are added, of one type and shape. */
typedef struct weft_element_add {
  weft_status_t *(*add)(void *arg, const weft_tensor_t *x, const weft_tensor_t *y, weft_tensor_t **out);
  void *arg;
} weft_element_add_t;
typedef struct weft_tensor_list weft_tensor_list_t; /* resources/tensor_list.h */
/* The sum of two lists: elements that only one has are that one's. *out may be set after a failure, too.
 * Errors: as weft_add_alike's, and those of `add`. */
WEFT_MUST_CHECK weft_status_t *weft_add_lists(const weft_tensor_list_t *a, const weft_tensor_list_t *b,
                                              const weft_element_add_t *add, weft_tensor_list_t **out);
/* The CPU's kernel of AddN for variants. */
WEFT_MUST_CHECK weft_status_t *weft_add_n_variants(weft_kernel_ctx_t *c);

#endif /* WEFT_KERNELS_CPU_LIST_VARIANT_H_ */
