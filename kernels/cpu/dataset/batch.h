/* kernels/cpu/dataset/batch.h - elements put together to a batch. */
#ifndef WEFT_KERNELS_CPU_DATASET_BATCH_H_
#define WEFT_KERNELS_CPU_DATASET_BATCH_H_

#include "kernels/cpu/dataset/dataset.h"

/* Copies an element of n components to row `at` of a batch that may get `size` rows; a component that is NULL
 * yet is made as this one needs it, and grows. Errors: INVALID_ARGUMENT, in TensorFlow's words: the shapes
 * differ; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_batch_copy(weft_iterator_t *it, weft_tensor_t **batch, int64_t size,
                                               int64_t at, weft_tensor_t *const *element, int n);
/* Cuts a batch to its first rows. */
WEFT_MUST_CHECK weft_status_t *weft_batch_cut(weft_tensor_t **batch, int n, int64_t rows);

#endif /* WEFT_KERNELS_CPU_DATASET_BATCH_H_ */
