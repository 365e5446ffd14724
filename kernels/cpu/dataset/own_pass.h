/* kernels/cpu/dataset/own_pass.h - ops that go through a data set by themselves. */
#ifndef WEFT_KERNELS_CPU_DATASET_OWN_PASS_H_
#define WEFT_KERNELS_CPU_DATASET_OWN_PASS_H_

#include "kernels/cpu/dataset/dataset.h"

/* Ends the execution with what run(c, root) returns: on a thread of its own, with a pass through the data set
 * in input i. */
void weft_dataset_pass(weft_kernel_ctx_t *c, int i,
                       weft_status_t *(*run)(weft_kernel_ctx_t *c, weft_iterator_t *root));

#endif /* WEFT_KERNELS_CPU_DATASET_OWN_PASS_H_ */
