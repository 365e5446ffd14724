/* tools/submit/progress_line.h - how far a job is, in one line of a terminal.
 *
 *   [########......] 120/500  loss 0.123 ▇▅▃▂▁  12.3 steps/s  787 examples/s  0:31 left
 *       worker 1 is 5 behind  saved 100, 35 s ago  accuracy 0.9
 *
 * A line that is too long loses parts, in this order: columns of the bar over 8 (and of the sparkline over
 * 8), the other values, the last save, the examples, the lag, the sparkline, the bar, the steps a second, the
 * time left. The count and the loss stay, and are cut at the end. What is left over makes the bar longer, up
 * to 30 columns, then the sparkline, up to 60.
 */
#ifndef WEFT_TOOLS_SUBMIT_PROGRESS_LINE_H_
#define WEFT_TOOLS_SUBMIT_PROGRESS_LINE_H_

#include "tools/submit/sparkline.h"

/* For `steps`: how many there will be is not known. There is no bar then. */
#define WEFT_PROGRESS_UNBOUNDED INT64_MAX

typedef struct weft_progress_figures { /* texts are lent; NULL: there is none */
  int64_t first, done, steps;          /* first: done before this run */
  double seconds;                      /* since it began */
  const char *loss;                    /* "loss 0.123" */
  const weft_sparkline_t *sparkline;   /* of it */
  double examples_per_second;          /* 0: not known */
  const char *slowest;                 /* "worker 1", which is `lag` steps behind the first */
  int64_t lag;
  int64_t saved_step; /* -1: nothing was saved */
  double saved_ago;   /* seconds */
  const char *others; /* "accuracy 0.9  rate 0.1" */
} weft_progress_figures_t;

/* Appends the line, narrower than `columns`: the last column stays free, as some terminals wrap there.
 * Letters outside of ASCII in names and values are shown as '?': nothing is known of their width. */
void weft_progress_line(const weft_progress_figures_t *f, int columns, bool is_utf8, weft_strbuf_t *out);

/* "12 s", "3:20", "1:05:00" */
void weft_progress_print_time(double seconds, weft_strbuf_t *out);
/* "3/10", or "3" if there is no end. */
void weft_progress_print_count(int64_t done, int64_t steps, weft_strbuf_t *out);
/* Steps per second of this run. */
double weft_progress_rate(int64_t first, int64_t done, double seconds);
/* How long the rest takes at this rate; -1: not known. */
double weft_progress_seconds_left(const weft_progress_figures_t *f);

#endif /* WEFT_TOOLS_SUBMIT_PROGRESS_LINE_H_ */
