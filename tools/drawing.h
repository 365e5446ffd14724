/* tools/drawing.h - a graph drawn small enough to be read, however many nodes it has.
 *
 * Nodes of one name scope are one box in each place. Scopes that repeat (layer_0 to
 * layer_11, three or more that have about the same inside) are one box, "x 12"; a scope that
 * holds most of a graph is opened, and what does not fit on a screen is one box "others". With `scope` the
 * inside of one scope is drawn, and its neighbours. Places of one job are one, but for the first, where there
 * are many.
 *
 * "replica_1/dense/MatMul" and "dense/kernel/replica_1" count as dense: copies look alike everywhere.
 */
#ifndef WEFT_TOOLS_DRAWING_H_
#define WEFT_TOOLS_DRAWING_H_

#include "strategies/summary.h"

enum { WEFT_DRAWING_BOXES = 40 }; /* no drawing has more */

typedef enum weft_drawn_kind {
  WEFT_DRAWN_DATA, /* within a place */
  WEFT_DRAWN_CONTROL,
  WEFT_DRAWN_CROSSING, /* between places */
  WEFT_DRAWN_COLLECTIVE,
} weft_drawn_kind_t;

typedef struct weft_drawing weft_drawing_t; /* Confined. */

WEFT_MUST_CHECK weft_status_t *weft_drawing_create(weft_drawing_t **out);
void weft_drawing_destroy(weft_drawing_t *d); /* NULL is fine */
/* Texts are copied. *out: the node's number; nodes are numbered from 0. `place`: a task or device; "" for
 * none. */
WEFT_MUST_CHECK weft_status_t *weft_drawing_node(weft_drawing_t *d, weft_str_t name, weft_str_t place,
                                                 bool is_variable, int64_t bytes, int *out);
WEFT_MUST_CHECK weft_status_t *weft_drawing_edge(weft_drawing_t *d, int from, int to, weft_drawn_kind_t kind,
                                                 const weft_flow_t *flow);
/* Graphviz. `scope`: NULL for all. Errors: NOT_FOUND if no node is in the scope. */
WEFT_MUST_CHECK weft_status_t *weft_drawing_print(weft_drawing_t *d, const char *scope, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_DRAWING_H_ */
