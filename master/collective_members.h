/* master/collective_members.h - are all members of a step's collectives in the step? */
#ifndef WEFT_MASTER_COLLECTIVE_MEMBERS_H_
#define WEFT_MASTER_COLLECTIVE_MEMBERS_H_

#include "graph/graph.h"

/* Steps of one client have ids that no other client knows, unless the client gives a collective_graph_key; so
 * without one a collective whose members are not all in the step would wait for ever. *out says so of the
 * first such collective, naming a node (in `arena`); data NULL: there is none. Collectives that have a
 * timeout, or whose keys are computed, are left alone. Linear. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_collective_members_check(const weft_graph_t *g, weft_arena_t *arena,
                                                             weft_str_t *out);

#endif /* WEFT_MASTER_COLLECTIVE_MEMBERS_H_ */
