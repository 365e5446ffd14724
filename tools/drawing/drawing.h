/* tools/drawing/drawing.h - what the steps of a graph run, drawn small enough to be read, however many nodes
 * it has.
 *
 * The way: the nodes of the steps with their layers (step.h), a tree of them for each place (tree.h), one
 * picture of it (level.h) on a grid (layout.h), printed.
 */
#ifndef WEFT_TOOLS_DRAWING_DRAWING_H_
#define WEFT_TOOLS_DRAWING_DRAWING_H_

#include "strategies/rewrite.h"

typedef struct weft_drawing weft_drawing_t; /* Confined. */

/* `r` has been measured (strategies/traffic.h), and is lent until the end. `what` is the title, "digits.pb
 * under mirrored:2"; copied. `takes_all`: also nodes that no step runs. */
WEFT_MUST_CHECK weft_status_t *weft_drawing_create(const weft_rewrite_t *r, const char *what, bool takes_all,
                                                   weft_drawing_t **out);
void weft_drawing_destroy(weft_drawing_t *d); /* NULL is fine */

/* A picture of at most 1600 x 1000 pixels. `scope`: the inside of that scope; NULL: all.
 * Errors: NOT_FOUND if no node of the steps is in the scope. */
WEFT_MUST_CHECK weft_status_t *weft_drawing_svg(weft_drawing_t *d, const char *scope, weft_strbuf_t *out);
/* The same boxes and arrows in Graphviz's language, for it to lay out. */
WEFT_MUST_CHECK weft_status_t *weft_drawing_dot(weft_drawing_t *d, const char *scope, weft_strbuf_t *out);
/* All levels, in one page that needs no network. */
WEFT_MUST_CHECK weft_status_t *weft_drawing_html(weft_drawing_t *d, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_DRAWING_DRAWING_H_ */
