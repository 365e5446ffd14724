/* tools/inspect_optimized.h - what the passes make of a step's graph, node by node. */
#ifndef WEFT_TOOLS_INSPECT_OPTIMIZED_H_
#define WEFT_TOOLS_INSPECT_OPTIMIZED_H_

#include "graph/graph.h"
#include "strategies/strategy.h"

/* Optimises a copy of `g`, a step's graph with its feeds, as a session would, by the passes that `passes`
 * names (NULL: all), and prints every node that was there before, what became of it and by which pass, and
 * the nodes that are new; then the same of each function that a kernel of the step calls, or one of these
 * functions does. Errors: INVALID_ARGUMENT: no such pass, or a function that is not valid. */
WEFT_MUST_CHECK weft_status_t *weft_inspect_optimized(const weft_graph_t *g, const weft_worker_loop_t *step,
                                                      const char *passes, bool json);

#endif /* WEFT_TOOLS_INSPECT_OPTIMIZED_H_ */
