/* tools/submit/progress_line.c - the parts of the line, and which of them fit. */
#include "tools/submit/progress_line.h"

#include <inttypes.h>

enum { BAR_WIDTH = 30, MIN_BAR_WIDTH = 8, BAR_EDGES = 3, MIN_SPARKLINE = 8 };

void weft_progress_print_time(double seconds, weft_strbuf_t *out) {
  int64_t s = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 1000000000;
  if (s < 60) {
    weft_strbuf_printf(out, "%" PRId64 " s", s);
  } else if (s < 3600) {
    weft_strbuf_printf(out, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
  } else {
    weft_strbuf_printf(out, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s / 60 % 60, s % 60);
  }
}

void weft_progress_print_count(int64_t done, int64_t steps, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%" PRId64, done);
  if (steps != WEFT_PROGRESS_UNBOUNDED) weft_strbuf_printf(out, "/%" PRId64, steps);
}

double weft_progress_rate(int64_t first, int64_t done, double seconds) {
  return seconds > 0 ? (double)(done - first) / seconds : 0;
}

double weft_progress_seconds_left(const weft_progress_figures_t *f) {
  const double rate = weft_progress_rate(f->first, f->done, f->seconds);
  if (!(rate > 0) || f->steps == WEFT_PROGRESS_UNBOUNDED) return -1;
  return f->steps > f->done ? (double)(f->steps - f->done) / rate : 0;
}

/* ---- parts ---- */

/* In the order in which they go. */
typedef enum progress_part {
  OTHERS,
  SAVED,
  EXAMPLES,
  LAG,
  SPARKLINE,
  BAR,
  RATE,
  LEFT,
  NUM_PARTS
} progress_part_t;

/* ASCII, so that a byte is a column. */
static void put_ascii(const char *text, weft_strbuf_t *out) {
  for (; *text != '\0'; text++) {
    const unsigned char c = (unsigned char)*text;
    if ((c & 0xc0) == 0x80) continue; /* a letter's second byte, or a later one */
    weft_strbuf_putc(out, c >= ' ' && c < 0x7f ? (char)c : '?');
  }
}

static int sparkline_width(const weft_progress_figures_t *f, int most) {
  const int n = f->sparkline == NULL ? 0 : f->sparkline->n;
  return n < most ? n : most;
}

static void append_tail(const weft_progress_figures_t *f, int gone, weft_strbuf_t *out) {
  const double left = weft_progress_seconds_left(f);
  if (gone <= RATE)
    weft_strbuf_printf(out, "  %.1f steps/s", weft_progress_rate(f->first, f->done, f->seconds));
  if (gone <= EXAMPLES && f->examples_per_second > 0)
    weft_strbuf_printf(out, "  %.*f examples/s", f->examples_per_second < 10 ? 1 : 0, f->examples_per_second);
  if (gone <= LEFT && left >= 0) {
    weft_strbuf_puts(out, "  ");
    weft_progress_print_time(left, out);
    weft_strbuf_puts(out, " left");
  }
  if (gone <= LAG && f->slowest != NULL && f->lag > 0) {
    weft_strbuf_puts(out, "  ");
    put_ascii(f->slowest, out);
    weft_strbuf_printf(out, " is %" PRId64 " behind", f->lag);
  }
  if (gone <= SAVED && f->saved_step >= 0) {
    weft_strbuf_printf(out, "  saved %" PRId64 ", ", f->saved_step);
    weft_progress_print_time(f->saved_ago, out);
    weft_strbuf_puts(out, " ago");
  }
  if (gone <= OTHERS && f->others != NULL && *f->others != '\0') {
    weft_strbuf_puts(out, "  ");
    put_ascii(f->others, out);
  }
}

/* The count and the loss: what stays. */
static void append_head(const weft_progress_figures_t *f, weft_strbuf_t *out) {
  weft_progress_print_count(f->done, f->steps, out);
  if (f->loss == NULL || *f->loss == '\0') return;
  weft_strbuf_puts(out, "  ");
  put_ascii(f->loss, out);
}

static void append_bar(const weft_progress_figures_t *f, int width, weft_strbuf_t *out) {
  int full = f->steps > 0 ? (int)((double)f->done / (double)f->steps * width) : width;
  weft_strbuf_putc(out, '[');
  for (int i = 0; i < width; i++) weft_strbuf_putc(out, i < full ? '#' : '.');
  weft_strbuf_puts(out, "] ");
}

typedef struct widths {
  int bar, sparkline; /* 0: it is gone */
} widths_t;

/* Shares out what is left over: `room` columns for the bar and the sparkline. */
static widths_t share(const weft_progress_figures_t *f, int gone, int room) {
  widths_t w = {0, 0};
  const bool has_bar = gone <= BAR && f->steps != WEFT_PROGRESS_UNBOUNDED;
  const int spark = gone <= SPARKLINE ? sparkline_width(f, WEFT_SPARKLINE_COLUMNS) : 0;
  const int least = spark < MIN_SPARKLINE ? spark : MIN_SPARKLINE;
  if (has_bar) {
    w.bar = room - BAR_EDGES - (least > 0 ? least + 1 : 0);
    if (w.bar > BAR_WIDTH) w.bar = BAR_WIDTH;
  }
  const int rest = room - (has_bar ? w.bar + BAR_EDGES : 0) - 1;
  w.sparkline = spark < rest ? spark : rest;
  if (w.sparkline < least) w.sparkline = -1; /* too little */
  if (has_bar && w.bar < MIN_BAR_WIDTH) w.bar = -1;
  if (least == 0) w.sparkline = 0;
  return w;
}

static void cut(weft_strbuf_t *out, size_t begin, int room) {
  const size_t most = begin + (size_t)(room > 0 ? room : 0);
  if (out->length <= most || out->data == NULL) return;
  out->length = most;
  out->data[most] = '\0';
}

void weft_progress_line(const weft_progress_figures_t *f, int columns, bool is_utf8, weft_strbuf_t *out) {
  const int room = columns - 1;
  const size_t begin = out->length;
  weft_strbuf_t head = WEFT_STRBUF_INIT, tail = WEFT_STRBUF_INIT;
  append_head(f, &head);
  for (int gone = 0; gone <= NUM_PARTS; gone++) {
    tail.length = 0;
    append_tail(f, gone, &tail);
    const int left = room - (int)(head.length + tail.length);
    const widths_t w = share(f, gone, left);
    if (gone < NUM_PARTS && (left < 0 || w.bar < 0 || w.sparkline < 0)) continue;
    if (w.bar > 0) append_bar(f, w.bar, out);
    weft_strbuf_append(out, weft_str_of(head.data, head.length));
    if (gone == NUM_PARTS) cut(out, begin, room);
    if (w.sparkline > 0) {
      weft_strbuf_putc(out, ' ');
      weft_sparkline_print(f->sparkline, w.sparkline, is_utf8, out);
    }
    if (tail.length > 0) weft_strbuf_append(out, weft_str_of(tail.data, tail.length));
    break;
  }
  weft_strbuf_deinit(&head);
  weft_strbuf_deinit(&tail);
}
