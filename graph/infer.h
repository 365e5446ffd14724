/* graph/infer.h - inference of shapes through calls; for this folder only. */
#ifndef WEFT_GRAPH_INFER_H_
#define WEFT_GRAPH_INFER_H_

#include "graph/passes.h"
#include "ops/shape_inference.h"

/* The shapes of a call's results, worked out in the body of its function; `c` has those of its inputs, and
 * gets those of its outputs. Leaves them unknown where the function is not in the library, or says not to
 * look into it. `depth`: calls around this one. Errors: those of the body's shape functions; INVALID_ARGUMENT
 * for a body that cannot be instantiated, NOT_FOUND for one with an op that is not registered. */
WEFT_MUST_CHECK weft_status_t *weft_infer_call(const weft_graph_t *g, const weft_node_t *n, int depth,
                                               weft_shape_ctx_t *c);
/* How many calls are around the graph of this inference. */
void weft_inference_set_depth(weft_inference_t *inference, int depth);

#endif /* WEFT_GRAPH_INFER_H_ */
