/* strategies/lower.h - functional control flow becomes nodes that a client may send. */
#ifndef WEFT_STRATEGIES_LOWER_H_
#define WEFT_STRATEGIES_LOWER_H_

#include "graph/graph.h"

/* weft_pass_lower_functions for a graph that is rewritten and goes to a master as a client's: the switch of n
 * ways that Case becomes is an internal op, which masters refuse from clients, so it becomes a chain of
 * switches of two ways. Errors: those of the pass; RESOURCE_EXHAUSTED. The graph is good for nothing then. */
WEFT_MUST_CHECK weft_status_t *weft_lower_for_clients(weft_graph_t *g);

#endif /* WEFT_STRATEGIES_LOWER_H_ */
