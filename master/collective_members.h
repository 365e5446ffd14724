/* master/collective_members.h - are all members of a step's collectives in the step, and if not, by what do
 * it and the steps of other clients know each other? */
#ifndef WEFT_MASTER_COLLECTIVE_MEMBERS_H_
#define WEFT_MASTER_COLLECTIVE_MEMBERS_H_

#include "graph/graph.h"

typedef struct weft_collective_members {
  int64_t graph_key; /* of a graph that other clients' steps belong to; 0: all members are in the step */
  weft_str_t
      missing; /* a sentence about the first collective that lacks members; data NULL: none is known to */
} weft_collective_members_t;

/* Steps of one client have ids that no other client knows, so a collective whose members are not all in the
 * step needs an id that its clients share: that of the graph's key, which TensorFlow's masters compute from
 * the graph where RunOptions give none. Clients whose graphs have the same collectives get the same key. A
 * collective whose keys are computed may lack members, too. `missing` is in `arena`; collectives that have a
 * timeout are not spoken of. Linear. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_collective_members_find(const weft_graph_t *g, weft_arena_t *arena,
                                                            weft_collective_members_t *out);

#endif /* WEFT_MASTER_COLLECTIVE_MEMBERS_H_ */
