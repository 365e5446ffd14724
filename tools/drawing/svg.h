/* tools/drawing/svg.h - a level that is laid out, as an SVG of its own: white ground, texts in any sans-serif
 * font. */
#ifndef WEFT_TOOLS_DRAWING_SVG_H_
#define WEFT_TOOLS_DRAWING_SVG_H_

#include "tools/drawing/layout.h"

/* Appends a whole file. Boxes, arrows and links carry their figures as data-... attributes: nodes, variables
 * and bytes of boxes, bytes, row-bytes, messages and unknown of what goes between them. */
void weft_svg_print(const weft_level_t *l, const weft_step_nodes_t *step, weft_str_t title,
                    weft_str_t subtitle, weft_strbuf_t *out);

/* "#4472c4" */
const char *weft_drawn_role_colour(weft_drawn_role_t role);
const char *weft_drawn_kind_colour(weft_drawn_kind_t kind);

#endif /* WEFT_TOOLS_DRAWING_SVG_H_ */
