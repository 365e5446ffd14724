/* collectives/negotiated/fusion.h - which tensors of a list go into one buffer.
 *
 * Source: Horovod's rule (reference strategies 3.7): greedy from the front; a tensor
 * joins if it is of the first one's kind and the sum stays within the limit; others are
 * passed over as long as what is fused and what was passed over stay within it
 * together. What was passed over keeps its order.
 */
#ifndef WEFT_COLLECTIVES_NEGOTIATED_FUSION_H_
#define WEFT_COLLECTIVES_NEGOTIATED_FUSION_H_

#include <stdint.h>

#include "base/status.h"

/* May items i and j share a buffer? */
typedef bool weft_fusion_kind_fn(const void *arg, int i, int j);

/* Fills order[n] with the items, batch by batch, and ends[n]: is it the last of its batch? Pure. Quadratic in
 * n at most. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_fusion_plan(const int64_t *bytes, int n, int64_t limit_bytes,
                                                weft_fusion_kind_fn *same_kind, const void *arg, int *order,
                                                bool *ends);

#endif /* WEFT_COLLECTIVES_NEGOTIATED_FUSION_H_ */
