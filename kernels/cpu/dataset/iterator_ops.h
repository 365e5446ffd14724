/* kernels/cpu/dataset/iterator_ops.h - an iterator as a resource of a task. */
#ifndef WEFT_KERNELS_CPU_DATASET_ITERATOR_OPS_H_
#define WEFT_KERNELS_CPU_DATASET_ITERATOR_OPS_H_

#include "kernels/cpu/dataset/traversal.h"
#include "kernels/state.h"

typedef struct weft_iterator_resource weft_iterator_resource_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_iterator_resource_type;

/* `spec` (may be NULL) is retained: what its data sets must be like. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_resource_create(weft_element_spec_t *spec,
                                                             weft_iterator_resource_t **out);
/* Begins a pass through the data set in a tensor, in place of the one that goes on. Errors: INVALID_ARGUMENT.
 */
WEFT_MUST_CHECK weft_status_t *weft_iterator_resource_begin(weft_iterator_resource_t *r,
                                                            const weft_tensor_t *dataset,
                                                            weft_device_t *device);
/* The pass that goes on; retained. Errors: FAILED_PRECONDITION: there is none. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_resource_traversal(weft_iterator_resource_t *r,
                                                                weft_traversal_t **out);

/* Begins a pass through the same data set, in place of the one that goes on; *out: retained. Errors:
 * FAILED_PRECONDITION: there is none; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_resource_renew(weft_iterator_resource_t *r,
                                                            weft_device_t *device, weft_traversal_t **out);
/* Of all its passes; buffered and budget are those of the one that goes on. */
void weft_iterator_resource_waits(weft_iterator_resource_t *r, weft_waits_t *out);
/* Is it a multi-device iterator that input i is a handle of? Its elements are dealt out; then its waits, of
 * all its passes, as above. */
bool weft_is_multi_device(weft_kernel_ctx_t *c, int i);
WEFT_MUST_CHECK weft_status_t *weft_multi_device_waits(weft_kernel_ctx_t *c, int i, weft_waits_t *out);
/* The iterator behind input i; retained. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_in(weft_kernel_ctx_t *c, int i, weft_iterator_resource_t **out);

/* From output_types and output_shapes; NULL: there are none. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_spec_read(const weft_kernel_setup_t *setup,
                                                       weft_element_spec_t **out);
/* Sets the outputs of a node with the attribute output_shapes (`shapes`); takes the parts. Errors:
 * INVALID_ARGUMENT, in TensorFlow's words. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_outputs(weft_kernel_ctx_t *c, const weft_attr_t *shapes,
                                                     int num_parts, weft_tensor_t **parts);

/* Output 0: the handle in input 0 as a string, and back: output 0 is a handle to what the string in input 0
 * names, which is there; *out: the object, retained. Errors: INVALID_ARGUMENT, in TensorFlow's words: no
 * handle, or one of another device; NOT_FOUND. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_to_string(weft_kernel_ctx_t *c);
WEFT_MUST_CHECK weft_status_t *weft_iterator_from_string(weft_kernel_ctx_t *c,
                                                         const weft_resource_type_t *type,
                                                         weft_object_t **out);

#endif /* WEFT_KERNELS_CPU_DATASET_ITERATOR_OPS_H_ */
