/* graph/passes/pads.h - a part of the pass remap. */
#ifndef WEFT_GRAPH_PASSES_PADS_H_
#define WEFT_GRAPH_PASSES_PADS_H_

#include "graph/passes/round.h"

/* Convolutions that read a Pad of zeros read its input instead, and pad themselves. Shapes are known: call it
 * behind weft_pass_round_infer. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_pass_fold_pads(weft_pass_round_t *r);

#endif /* WEFT_GRAPH_PASSES_PADS_H_ */
