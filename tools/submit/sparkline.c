/* tools/submit/sparkline.c - a ring of means, and their heights. */
#include "tools/submit/sparkline.h"

#include <math.h>

enum { LEVELS = 8 };

static const char *const blocks[LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char letters[LEVELS + 1] = ".:-=+*#@";

void weft_sparkline_add(weft_sparkline_t *s, double value) {
  s->sum += value; /* a NaN stays one, an infinity, too */
  s->pending++;
}

void weft_sparkline_close(weft_sparkline_t *s) {
  if (s->pending == 0) return;
  s->means[s->next] = (double)(s->sum / (long double)s->pending);
  s->next = (s->next + 1) % WEFT_SPARKLINE_COLUMNS;
  s->n += s->n < WEFT_SPARKLINE_COLUMNS;
  s->sum = 0;
  s->pending = 0;
}

/* The i-th of the last n columns. */
static double column(const weft_sparkline_t *s, int n, int i) {
  return s->means[(s->next + WEFT_SPARKLINE_COLUMNS - n + i) % WEFT_SPARKLINE_COLUMNS];
}

/* Halves, so that a difference is finite. */
static int level(double value, double low, double high) {
  const double range = high / 2 - low / 2;
  if (!(range > 0)) return LEVELS / 2 - 1;
  const int at = (int)((value / 2 - low / 2) / range * LEVELS);
  return at < LEVELS ? at : LEVELS - 1;
}

void weft_sparkline_print(const weft_sparkline_t *s, int width, bool is_utf8, weft_strbuf_t *out) {
  const int n = width < s->n ? width : s->n;
  double low = INFINITY, high = -INFINITY;
  for (int i = 0; i < n; i++) {
    const double v = column(s, n, i);
    if (isfinite(v)) {
      low = fmin(low, v);
      high = fmax(high, v);
    }
  }
  for (int i = 0; i < n; i++) {
    const double v = column(s, n, i);
    if (isnan(v)) {
      weft_strbuf_putc(out, 'N');
    } else if (isinf(v)) {
      weft_strbuf_puts(out, is_utf8 ? "∞" : "I");
    } else if (is_utf8) {
      weft_strbuf_puts(out, blocks[level(v, low, high)]);
    } else {
      weft_strbuf_putc(out, letters[level(v, low, high)]);
    }
  }
}
