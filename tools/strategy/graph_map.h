/* tools/strategy/graph_map.h - a drawing of what a strategy made: what runs where, and what crosses.
 *
 * Tasks are frames (with one task: its devices), in them boxes of nodes as drawing.h
 * has them. Values that cross are red, what members of collectives send each other
 * is blue; their bytes are those of the rewrite's crossings, so the drawing says what the summary says.
 */
#ifndef WEFT_TOOLS_STRATEGY_GRAPH_MAP_H_
#define WEFT_TOOLS_STRATEGY_GRAPH_MAP_H_

#include "strategies/rewrite.h"

/* Graphviz. `r` has been measured. `scope`: what of it (drawing.h); NULL: all. */
WEFT_MUST_CHECK weft_status_t *weft_graph_map(const weft_rewrite_t *r, const char *scope, weft_strbuf_t *out);

/* Graphviz's program makes an SVG of a drawing. Errors: FAILED_PRECONDITION if `dot` is not installed. */
WEFT_MUST_CHECK weft_status_t *weft_dot_to_svg(const weft_strbuf_t *dot, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_STRATEGY_GRAPH_MAP_H_ */
