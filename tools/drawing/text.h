/* tools/drawing/text.h - how wide a text is, so that labels fit their boxes; and texts from graphs, which may
 * hold any bytes, made safe to print.
 *
 * Widths are those of DejaVu Sans, one of the widest common sans-serif fonts: what fits in it fits in others.
 */
#ifndef WEFT_TOOLS_DRAWING_TEXT_H_
#define WEFT_TOOLS_DRAWING_TEXT_H_

#include "base/arena.h"

/* In pixels, at `size` pixels. */
double weft_text_width(weft_str_t text, int size, bool is_bold);
/* A copy in `arena` that is valid UTF-8 without control characters (others are U+FFFD), cut to `width` pixels
 * with an ellipsis at its end, or in its middle. Data NULL without memory. */
weft_str_t weft_text_fit(weft_arena_t *arena, weft_str_t text, int size, bool is_bold, double width);
weft_str_t weft_text_fit_middle(weft_arena_t *arena, weft_str_t text, int size, bool is_bold, double width);
/* Appends the text as XML has it, or as a JSON string with its quotes; "<" never appears as itself. */
void weft_text_put_xml(weft_strbuf_t *out, weft_str_t text);
void weft_text_put_json(weft_strbuf_t *out, weft_str_t text);

#endif /* WEFT_TOOLS_DRAWING_TEXT_H_ */
