/* kernels/evaluate.h - one node, computed by itself: what folds constants before a step. */
#ifndef WEFT_KERNELS_EVALUATE_H_
#define WEFT_KERNELS_EVALUATE_H_

#include "graph/graph.h"
#include "kernels/kernel.h"

/* Computes `n` with the CPU's kernel on `device`, a CPU device (weft_evaluator_t.evaluate). inputs:
 * num_inputs tensors in the host's memory, lent. outputs: num_outputs, owned by the caller. Blocks until it
 * is computed; denormal numbers are 0, as on the threads that run steps. Thread-safe. Errors: UNIMPLEMENTED:
 * there is no kernel, or one that waits; the kernel's own. */
WEFT_MUST_CHECK weft_status_t *weft_evaluate_node(void *device, const weft_node_t *n,
                                                  weft_tensor_t *const *inputs, weft_tensor_t **outputs);

#endif /* WEFT_KERNELS_EVALUATE_H_ */
