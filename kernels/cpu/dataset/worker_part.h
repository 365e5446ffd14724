/* kernels/cpu/dataset/worker_part.h - a worker's rows of each batch that all workers share in step.
 *
 * Workers that share a step read together what one device would read: of a batch of B rows each gets about
 * B / num_workers. Rows [i*B/N, (i+1)*B/N) in integers are part i of N. */
#ifndef WEFT_KERNELS_CPU_DATASET_WORKER_PART_H_
#define WEFT_KERNELS_CPU_DATASET_WORKER_PART_H_

#include "kernels/cpu/dataset/dataset.h"

/* Part `index` of num_parts of each batch of `d`: all workers read the same batches. `passes_state`: an
 * iterator has the state of one over `d`, so that any number of workers go on from it; else only the same
 * part does. */
WEFT_MUST_CHECK weft_status_t *weft_part_create(weft_dataset_t *d, int64_t num_parts, int64_t index,
                                                bool passes_state, weft_dataset_t **out);
/* The whole of each batch of `d`, in num_parts steps: workers read batches of their own. In step s worker
 * `index` gets a part as long as part (s + index) mod num_parts, so that the workers' rows of a step are as
 * many as one batch has. */
WEFT_MUST_CHECK weft_status_t *weft_turns_create(weft_dataset_t *d, int64_t num_parts, int64_t index,
                                                 weft_dataset_t **out);
/* The elements of `d`, then batches of no rows without end: workers whose data are longer go on. */
WEFT_MUST_CHECK weft_status_t *weft_then_empty_create(weft_dataset_t *d, weft_dataset_t **out);

#endif /* WEFT_KERNELS_CPU_DATASET_WORKER_PART_H_ */
