/* tools/strategy/graph_map.h - a drawing of a graph by task: what runs where, and what crosses.
 *
 * Nodes of one task and one name scope are one box; edges between tasks are red
 * and carry their bytes per step (dotted where a tensor has come for another box
 * already), edges within a task are thin. Collectives are blue rings: what each
 * member sends to the next. A graph of thousands of nodes stays legible.
 */
#ifndef WEFT_TOOLS_STRATEGY_GRAPH_MAP_H_
#define WEFT_TOOLS_STRATEGY_GRAPH_MAP_H_

#include "graph/graph.h"

/* Graphviz. `g` has inferred shapes; `rows` stands for a first dimension that is not known (0: such bytes are shown as "?").
 * Nodes without a device are drawn as "any device". */
WEFT_MUST_CHECK weft_status_t *weft_graph_map(const weft_graph_t *g, int64_t rows, weft_strbuf_t *out);

/* Graphviz's program makes an SVG of a drawing. Errors: FAILED_PRECONDITION if `dot` is not installed. */
WEFT_MUST_CHECK weft_status_t *weft_dot_to_svg(const weft_strbuf_t *dot, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_STRATEGY_GRAPH_MAP_H_ */
