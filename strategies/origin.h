/* strategies/origin.h - finds each variable of a single-device graph, and each iterator, in the graph that a
 * strategy made of it.
 *
 * A variable that is marked before the rewrite carries its name as an attribute, and every copy of the node
 * keeps its attributes: copies of replicas carry the name of the one variable that they are copies of, shards
 * also the row of it at which they begin. Variables that a strategy adds for its own use (counters,
 * accumulated gradients) have no mark.
 */
#ifndef WEFT_STRATEGIES_ORIGIN_H_
#define WEFT_STRATEGIES_ORIGIN_H_

#include "graph/graph.h"

#define WEFT_ORIGIN_VARIABLE "_weft_variable"   /* string: the node's name in the single-device graph */
#define WEFT_ORIGIN_FIRST_ROW "_weft_first_row" /* int: of a shard; absent: the variable is whole */

/* string, of an iterator's copy on another task: the node with which it always shares its place in the data
 */
#define WEFT_ORIGIN_ITERATOR "_weft_same_iterator"

/* Marks all variables of `g`, before it is rewritten. */
WEFT_MUST_CHECK weft_status_t *weft_origin_mark(weft_graph_t *g);

#endif /* WEFT_STRATEGIES_ORIGIN_H_ */
