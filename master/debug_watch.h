/* master/debug_watch.h - RunOptions.debug_options: nodes that watch values, added to a step's graph. */
#ifndef WEFT_MASTER_DEBUG_WATCH_H_
#define WEFT_MASTER_DEBUG_WATCH_H_

#include "graph/graph.h"
#include "master/master.h"

/* Of each watched output that has a consumer: a Copy, which the consumers get instead, and behind that a node
 * for each debug op, for which they wait. Outputs that the step does not need are no error. `g` is one part
 * of a step's graph: a value that leaves it is watched where it is made; `debug_options` is a serialized
 * DebugOptions, empty: nothing changes; `kernels` NULL: all ops are taken to have some.
 * Errors: INVALID_ARGUMENT (not such a message), UNIMPLEMENTED (a URL that is not of a file),
 * FAILED_PRECONDITION (no such op, attribute or kernel, unless the watch tolerates that), RESOURCE_EXHAUSTED.
 * Source: TensorFlow's DebugNodeInserter. */
WEFT_MUST_CHECK weft_status_t *weft_debug_watch_insert(weft_graph_t *g, weft_str_t debug_options,
                                                       const weft_kernel_support_t *kernels);

#endif /* WEFT_MASTER_DEBUG_WATCH_H_ */
