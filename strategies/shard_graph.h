/* strategies/shard_graph.h - partitions large variables of a graph into shards.
 *
 * Variable v becomes v/part_0, v/part_1, ... Reads of it become a concatenation,
 * look-ups go to the shard that has the row, updates are split over the shards, slots of an optimizer are
 * partitioned as their variable is, and a saver writes one tensor in slices, so that checkpoints do not
 * depend on the number of shards. A variable with a use that cannot be sharded stays whole, and a note gives
 * the reason.
 */
#ifndef WEFT_STRATEGIES_SHARD_GRAPH_H_
#define WEFT_STRATEGIES_SHARD_GRAPH_H_

#include "strategies/rewrite.h"
#include "strategies/shard.h"

/* `g` has lowered control flow and inferred shapes. Feeds, fetches and targets of the request keep their
 * names and meanings. Notes go to `notes`. */
WEFT_MUST_CHECK weft_status_t *weft_shard_graph(const weft_graph_t *g, const weft_strategy_request_t *r,
                                                const weft_partitioner_t *p, weft_rewrite_t *notes,
                                                weft_graph_t **out);

#endif /* WEFT_STRATEGIES_SHARD_GRAPH_H_ */
