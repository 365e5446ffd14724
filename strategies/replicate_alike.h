/* strategies/replicate_alike.h - with one client per worker: whether all workers train the same model. */
#ifndef WEFT_STRATEGIES_REPLICATE_ALIKE_H_
#define WEFT_STRATEGIES_REPLICATE_ALIKE_H_

#include "strategies/replication.h"

/* On each replica a node that fails unless all workers' graphs are alike; checks[i] must run before anything
 * of the i-th replica that other workers see. `in_step`: by id, nodes of the source that a step runs. Adds
 * nodes. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_replication_check_alike(weft_replication_t *r, const bool *in_step,
                                                            weft_node_t **checks);

#endif /* WEFT_STRATEGIES_REPLICATE_ALIKE_H_ */
