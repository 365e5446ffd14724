/* tools/submit/progress.h - tells how a run goes: a bar on a terminal, lines elsewhere, JSON for machines. */
#ifndef WEFT_TOOLS_SUBMIT_PROGRESS_H_
#define WEFT_TOOLS_SUBMIT_PROGRESS_H_

#include <stdbool.h>
#include <stdint.h>

typedef enum weft_progress_style { WEFT_PROGRESS_BAR, WEFT_PROGRESS_LINES, WEFT_PROGRESS_JSON } weft_progress_style_t;

/* A scalar that is shown: the last value of a fetch. */
typedef struct weft_progress_value {
  const char *name; /* lent */
  double value;
  bool is_known;    /* false: not a scalar number */
} weft_progress_value_t;

typedef struct weft_progress { /* Confined. */
  weft_progress_style_t style;
  int64_t steps, started_ns, last_ns, every;
  const weft_progress_value_t *values; /* lent */
  int num_values;
} weft_progress_t;

void weft_progress_start(weft_progress_t *p, weft_progress_style_t style, int64_t steps, const weft_progress_value_t *values, int n);
/* After step `done` of steps: shows it if it is time to. */
void weft_progress_step(weft_progress_t *p, int64_t done);
void weft_progress_end(weft_progress_t *p, int64_t done); /* the last word: how many steps, how fast */

#endif /* WEFT_TOOLS_SUBMIT_PROGRESS_H_ */
