/* tools/submit/progress.h - tells how a run goes: a bar on a terminal, lines elsewhere, JSON for machines. Or
 * nothing is told but the values at the end.
 *
 * The bar is one line, as wide as the terminal at most, redrawn ten times a
 * second at most; lines come twenty times a run. JSON is an object per line and step; the last one
 * has "done": true and, if the run failed, "error" and "code".
 */
#ifndef WEFT_TOOLS_SUBMIT_PROGRESS_H_
#define WEFT_TOOLS_SUBMIT_PROGRESS_H_

#include "jobs/job.h"
#include "tensor/tensor.h"

typedef enum weft_progress_style {
  WEFT_PROGRESS_BAR,
  WEFT_PROGRESS_LINES,
  WEFT_PROGRESS_JSON,
  WEFT_PROGRESS_VALUES,     /* only what was fetched last: NAME = VALUE */
  WEFT_PROGRESS_VALUES_JSON /* the same as one object */
} weft_progress_style_t;

/* A fetch that is shown. */
typedef struct weft_progress_value {
  const char *name;     /* lent */
  weft_tensor_t *value; /* of the last step; lent; NULL before it */
} weft_progress_value_t;

/* For `steps`: how many there will be is not known. Shown are then steps 1 to 10, 20, 30, ..., 100, 200, ...
 */
#define WEFT_PROGRESS_UNBOUNDED INT64_MAX

typedef struct weft_progress { /* Confined. */
  weft_progress_style_t style;
  int64_t first, steps, started_ns, shown_ns, every; /* first: steps done before this run */
  const weft_progress_value_t *values;               /* lent */
  int num_values;
  const weft_job_device_wait_t *waits; /* lent; num_waits of them: for the last word */
  int num_waits;
  bool is_line_open; /* there is a bar without a line's end */
} weft_progress_t;

void weft_progress_start(weft_progress_t *p, weft_progress_style_t style, int64_t first, int64_t steps,
                         const weft_progress_value_t *values, int n);
/* Something other than a step has happened after step `done`: a line of text, or {"step": done, "steps": ...,
 * key: value} (value NULL: null). */
void weft_progress_tell(weft_progress_t *p, int64_t done, const char *key, const char *value, const char *fmt,
                        ...) WEFT_PRINTF(5, 6);
/* The same with values: {"step": done, "steps": ..., key: {name: value}}, or "key at step N: name value". */
void weft_progress_tell_values(weft_progress_t *p, int64_t done, const char *key,
                               const weft_progress_value_t *values, int n);
/* After step `done` of steps: shows it if it is time to. */
void weft_progress_step(weft_progress_t *p, int64_t done);
/* The last word: how many steps, how fast, and the values. `failure` (lent) NULL: all went well; otherwise
 * only as much as leaves a clean line for the error. */
void weft_progress_end(weft_progress_t *p, int64_t done, const weft_status_t *failure);

/* One line for a terminal of `columns`. If it is narrow the bar shrinks first, then the time left and the
 * speed go; the count and the values stay, and are cut at the end. */
void weft_progress_line(const weft_progress_t *p, int64_t done, double time, int columns, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_SUBMIT_PROGRESS_H_ */
