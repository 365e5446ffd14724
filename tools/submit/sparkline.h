/* tools/submit/sparkline.h - the course of a value in a few letters: ▇▅▃▂▁▁.
 *
 * Values go into a column until it is closed; a column shows the mean of its values. Only the last columns
 * are kept. The lowest of those that are shown is at the bottom, the highest at the top. A column with a NaN
 * is shown as 'N', one with an infinity as '∞'.
 */
#ifndef WEFT_TOOLS_SUBMIT_SPARKLINE_H_
#define WEFT_TOOLS_SUBMIT_SPARKLINE_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { WEFT_SPARKLINE_COLUMNS = 60 };

typedef struct weft_sparkline {         /* Thread-compatible; starts as all zero. */
  double means[WEFT_SPARKLINE_COLUMNS]; /* a ring; the newest is in front of `next` */
  int n, next;
  long double sum; /* of the open column's values, `pending` of them */
  int64_t pending;
} weft_sparkline_t;

void weft_sparkline_add(weft_sparkline_t *s, double value);
/* The next value begins another column; nothing, if the open one has no values. */
void weft_sparkline_close(weft_sparkline_t *s);
/* Appends the last `width` columns, or as many as there are. `is_utf8`: blocks of eight heights, else letters
 * from . to @, and 'I' for an infinity. */
void weft_sparkline_print(const weft_sparkline_t *s, int width, bool is_utf8, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_SUBMIT_SPARKLINE_H_ */
