/* tools/observe/watch.h - what `weft trace` and `weft profile` share: their options, and a number of steps of
 * a cluster, with a line that says how it goes and an orderly end at a signal.
 */
#ifndef WEFT_TOOLS_OBSERVE_WATCH_H_
#define WEFT_TOOLS_OBSERVE_WATCH_H_

#include "tools/observe/observer.h"
#include "tools/options.h"

typedef struct weft_watch_args {
  const char *cluster; /* NULL: TF_CONFIG's */
  int64_t steps, timeout_s;
} weft_watch_args_t;

enum { WEFT_WATCH_OPTIONS = 3 };
/* The options that both commands have: --cluster, --steps, --timeout. Their defaults are set here. */
void weft_watch_options(weft_watch_args_t *a, weft_option_t out[WEFT_WATCH_OPTIONS]);

extern const weft_help_item_t weft_watch_exit_codes[], weft_watch_environment[];
extern const int weft_watch_num_exit_codes, weft_watch_num_environment;

/* Each whole step in turn; `number` counts from 1. The step stays the caller's. */
typedef weft_status_t *weft_watch_fn(void *arg, weft_observer_t *o, const weft_whole_step_t *step,
                                     int64_t number);

/* What is wrong with the options as a whole; NULL: nothing. */
const char *weft_watch_complaint(const weft_watch_args_t *a);

typedef struct weft_watch_result {
  int64_t num_steps;
  double seconds; /* from the opening of all recordings to the last step */
  weft_observer_losses_t losses;
} weft_watch_result_t;

/* What a watch needs while it runs; the caller reads tasks and states in `ended`. */
typedef struct weft_step_watch {
  const weft_watch_args_t *args;
  bool measures_peaks;
  weft_watch_fn *fn;
  /* The steps are there, the recordings open no more; `tasks` and `o` are still valid. Returns the exit code.
   * Called with one step at least. */
  int (*ended)(void *arg, weft_observed_tasks_t *tasks, weft_observer_t *o, const weft_watch_result_t *r);
  void *arg;
} weft_step_watch_t;

/* Returns the command's exit code, and says on standard error why it is not 0: 1 for a failure, and where not
 * all steps came in time (then `ended` was called with those that came); 128 + n after signal n. */
int weft_watch_run(const weft_step_watch_t *w);

#endif /* WEFT_TOOLS_OBSERVE_WATCH_H_ */
