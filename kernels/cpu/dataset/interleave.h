/* kernels/cpu/dataset/interleave.h - data sets that functions return. */
#ifndef WEFT_KERNELS_CPU_DATASET_INTERLEAVE_H_
#define WEFT_KERNELS_CPU_DATASET_INTERLEAVE_H_

#include "kernels/cpu/dataset/dataset.h"

extern const weft_dataset_class_t weft_flat_map_class, weft_interleave_class;

/* Calls the data set's function with an element of input 0, and opens the data set that it returns, with
 * `num_ahead` of its elements made ahead (0: none). Errors: INVALID_ARGUMENT, with `what` in front: it
 * returns something else; those of the function. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_make_inner(weft_iterator_t *it, weft_tensor_t *const *args,
                                                        const char *what, int64_t num_ahead,
                                                        weft_iterator_t **out);

#endif /* WEFT_KERNELS_CPU_DATASET_INTERLEAVE_H_ */
