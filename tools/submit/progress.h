/* tools/submit/progress.h - tells how a run goes: a bar on a terminal, lines elsewhere, JSON for machines. Or
 * nothing is told but the values at the end.
 *
 * The bar is one line (progress_line.h), as wide as the terminal at most, redrawn ten times a second at most
 * and, while a step takes long, by weft_progress_tick(); lines come twenty times a run. JSON is an object per
 * line and step; the last one has "done": true and, if the run failed, "error" and "code".
 *
 * Locking: `mu` keeps what is written to the terminal apart; nothing else is taken under it.
 */
#ifndef WEFT_TOOLS_SUBMIT_PROGRESS_H_
#define WEFT_TOOLS_SUBMIT_PROGRESS_H_

#include "base/mutex.h"
#include "jobs/job.h"
#include "tensor/tensor.h"
#include "tools/submit/progress_line.h"

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

typedef struct weft_progress weft_progress_t;
/* Asks the job for what the steps do not tell: sets `workers` and `examples`. Called before something is
 * shown, in weft_progress_step(). */
typedef void weft_progress_ask_fn(void *arg, weft_progress_t *p);

struct weft_progress { /* weft_progress_tick() may be called by any thread; else confined. */
  weft_progress_style_t style;
  int64_t first, steps, started_ns, shown_ns, every; /* first: steps done before this run */
  const weft_progress_value_t *values;               /* lent */
  int num_values;
  const weft_job_device_wait_t *waits; /* lent; num_waits of them: for the last word */
  int num_waits;
  weft_progress_ask_fn *ask; /* NULL: none */
  void *ask_arg;
  const weft_job_worker_t *workers; /* lent; num_workers of them, 0: there is one */
  int num_workers;
  double examples;              /* that the steps of this run have had; 0: not known */
  int64_t saved_step, saved_ns; /* -1: nothing was saved; when */

  weft_mutex_t mu; /* guards what follows, and standard output */
  bool has_mu;     /* weft_progress_start has made it */
  int64_t done;
  bool is_line_open; /* there is a bar without a line's end */
  bool is_utf8;
  int loss;                   /* which of the values has a sparkline; -1: none so far */
  weft_sparkline_t sparkline; /* a column for each time that the bar is drawn */
  weft_strbuf_t loss_text, others_text;
};

/* The bar of a job: which value is the loss? The first that is called loss ("loss", "model/loss:0"), else the
 * first that is a number; -1: there is none. */
int weft_progress_find_loss(const weft_progress_value_t *values, int n);

/* Shown are, if steps is WEFT_PROGRESS_UNBOUNDED, steps 1 to 10, 20, 30, ..., 100, 200, ... Ask functions and
 * what was saved before stay as they are set in *p. */
void weft_progress_start(weft_progress_t *p, weft_progress_style_t style, int64_t first, int64_t steps,
                         const weft_progress_value_t *values, int n);
void weft_progress_deinit(weft_progress_t *p); /* of one that is all zero, too */
/* Draws the bar anew, if there is one: times pass, and the terminal may have another width. */
void weft_progress_tick(weft_progress_t *p);
/* The state after step `step` was saved, now. */
void weft_progress_saved(weft_progress_t *p, int64_t step);
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

#endif /* WEFT_TOOLS_SUBMIT_PROGRESS_H_ */
