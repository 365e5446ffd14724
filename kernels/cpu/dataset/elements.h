/* kernels/cpu/dataset/elements.h - elements that lie in memory as a data set of their own. */
#ifndef WEFT_KERNELS_CPU_DATASET_ELEMENTS_H_
#define WEFT_KERNELS_CPU_DATASET_ELEMENTS_H_

#include "kernels/cpu/dataset/dataset.h"

/* Elements in the order in which they came. Zero it to begin with. Thread-compatible. */
typedef struct weft_element_list {
  weft_tensor_t **parts; /* n tensors for each of `count` elements, owned */
  int64_t count, capacity;
} weft_element_list_t;

/* Room for one more element of n tensors: adding it cannot fail. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_element_list_reserve(weft_element_list_t *l, int n);
/* Takes the n tensors of `element`. Errors: RESOURCE_EXHAUSTED; then they are the caller's still. */
WEFT_MUST_CHECK weft_status_t *weft_element_list_add(weft_element_list_t *l, weft_tensor_t **element, int n);
/* The same with references of its own. */
WEFT_MUST_CHECK weft_status_t *weft_element_list_keep(weft_element_list_t *l, weft_tensor_t *const *element,
                                                      int n);
/* Away with the first `count`. */
void weft_element_list_drop(weft_element_list_t *l, int64_t count, int n);
void weft_element_list_deinit(weft_element_list_t *l, int n);

/* A data set of `count` elements, every `stride`th, of which it keeps components [from, from + num). Made
 * for, and on the device of, `it`. `spec` has `num` components. */
WEFT_MUST_CHECK weft_status_t *weft_elements_dataset(weft_device_t *device, weft_tensor_t *const *parts,
                                                     int n, int64_t count, int64_t stride, int from,
                                                     weft_element_spec_t *spec, weft_dataset_t **out);

/* The n tensors of an element. A scalar variant with such a data set is saved with its elements. Errors:
 * UNIMPLEMENTED: another variant that has no bytes. */
WEFT_MUST_CHECK weft_status_t *weft_saved_put_element(weft_saved_t *s, weft_tensor_t *const *parts, int n);
/* Tensors of the spec's dtypes; all NULL after a failure. Errors: DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_saved_get_element(weft_saved_t *s, const weft_element_spec_t *spec,
                                                      weft_tensor_t **parts);
WEFT_MUST_CHECK weft_status_t *weft_element_list_save(const weft_element_list_t *l, int n, weft_saved_t *to);
WEFT_MUST_CHECK weft_status_t *weft_element_list_load(weft_element_list_t *l, const weft_element_spec_t *spec,
                                                      weft_saved_t *from);

#endif /* WEFT_KERNELS_CPU_DATASET_ELEMENTS_H_ */
