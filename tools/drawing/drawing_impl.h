/* tools/drawing/drawing_impl.h - a drawing, for the files that print it. */
#ifndef WEFT_TOOLS_DRAWING_DRAWING_IMPL_H_
#define WEFT_TOOLS_DRAWING_DRAWING_IMPL_H_

#include "tools/drawing/drawing.h"
#include "tools/drawing/layout.h"

struct weft_drawing {
  const weft_rewrite_t *r; /* borrowed */
  weft_step_nodes_t step;
  weft_tree_t tree;
  weft_strbuf_t title, subtitle;
};

/* The level of a scope, or the first, laid out. The caller deinits *out in any case. */
WEFT_MUST_CHECK weft_status_t *weft_drawing_level(weft_drawing_t *d, const char *scope, weft_level_t *out);

#endif /* WEFT_TOOLS_DRAWING_DRAWING_IMPL_H_ */
