/* tools/drawing/layout.h - where the boxes and arrows of a level stand on the page.
 *
 * It is a grid: frames are columns side by side (of one or more columns of boxes), boxes stand below each
 * other in reading order, and what goes between frames has lines above them. A page has at most
 * WEFT_PAGE_WIDTH x WEFT_PAGE_HEIGHT pixels, whatever the graph; all units are pixels.
 */
#ifndef WEFT_TOOLS_DRAWING_LAYOUT_H_
#define WEFT_TOOLS_DRAWING_LAYOUT_H_

#include "tools/drawing/level.h"

enum {
  WEFT_PAGE_WIDTH = 1600,
  WEFT_PAGE_HEIGHT = 1000,
  WEFT_TEXT = 11, /* the size of texts; titles of boxes are bold and one larger, of frames two */
  WEFT_HEADER = 52,
  WEFT_LEGEND = 30,
  WEFT_MARGIN = 20,
};

/* Sets positions and texts. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_level_lay_out(weft_level_t *l, const weft_step_nodes_t *step);
/* How many boxes of each frame fit on a page. */
int weft_layout_room(int num_frames, int num_links);

/* ---- parts of weft_level_lay_out ---- */
void weft_layout_route(weft_level_t *l); /* layout_routes.c */
bool weft_layout_label(weft_level_t *l,
                       const weft_step_nodes_t *step); /* layout_labels.c; false: no memory */

#endif /* WEFT_TOOLS_DRAWING_LAYOUT_H_ */
