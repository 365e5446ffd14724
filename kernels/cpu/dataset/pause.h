/* kernels/cpu/dataset/pause.h - an iterator that waits for a while. */
#ifndef WEFT_KERNELS_CPU_DATASET_PAUSE_H_
#define WEFT_KERNELS_CPU_DATASET_PAUSE_H_

#include "kernels/cpu/dataset/dataset.h"

/* Waits on the caller's thread. Errors: CANCELLED, at once when the iterator is. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_pause(const weft_iterator_t *it, int64_t micros);

#endif /* WEFT_KERNELS_CPU_DATASET_PAUSE_H_ */
