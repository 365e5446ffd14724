/* strategies/batch_norm.h - fused batch normalisation taken apart, so that its statistics can be those of the
 * whole batch. */
#ifndef WEFT_STRATEGIES_BATCH_NORM_H_
#define WEFT_STRATEGIES_BATCH_NORM_H_

#include "graph/graph.h"

/* Replaces every FusedBatchNorm (V1 to V3, and its gradient) that normalises with the statistics of its batch
 * by means, products and sums, which the analysis of the data axis knows; shapes must be inferred, and are to
 * be inferred again afterwards. A replaced node's name goes to an IdentityN of the results; the node itself
 * stays, unused, under another name. Those inside loops, and those of unknown rank, stay as they are.
 * *out_replaced counts. Source: Ioffe and Szegedy, "Batch Normalization" (2015), algorithm 1 and section 3;
 * TensorFlow's outputs: the variance that moving averages get is unbiased, the one that the gradient gets is
 * not. */
WEFT_MUST_CHECK weft_status_t *weft_expand_batch_norms(weft_graph_t *g, int *out_replaced);

#endif /* WEFT_STRATEGIES_BATCH_NORM_H_ */
