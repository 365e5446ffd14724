/* coordinator/prune.h - the part of a GraphDef that one worker needs.
 *
 * A graph that a strategy has rewritten has nodes for every worker, on devices that the session of one worker
 * does not see. Each session gets what its inputs, outputs and targets need, and no more.
 */
#ifndef WEFT_COORDINATOR_PRUNE_H_
#define WEFT_COORDINATOR_PRUNE_H_

#include "base/arena.h"
#include "base/str.h"

/* Writes to *out, in the arena, the GraphDef `from` with only the nodes that `roots` ("node", "node:0") reach
 * through their inputs; functions and versions stay. Linear. Errors: INVALID_ARGUMENT for malformed bytes;
 * NOT_FOUND naming a root that is no node; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_co_prune(weft_str_t from, const weft_str_t *roots, int num_roots,
                                             weft_arena_t *arena, weft_str_t *out);

#endif /* WEFT_COORDINATOR_PRUNE_H_ */
