/* tools/submit/submit.h - a graph file, or a SavedModel, as a job (include/weft/job.h) whose course is
 * printed. */
#ifndef WEFT_TOOLS_SUBMIT_SUBMIT_H_
#define WEFT_TOOLS_SUBMIT_SUBMIT_H_

#include "base/status.h"
#include "tools/options.h"
#include "tools/submit/progress.h"
#include "weft/job.h"

/* As on the command line. */
typedef struct weft_submit_spec {
  const char *graph_path, *master; /* master NULL: a local session */
  const char *signature, *tags;    /* of a SavedModel; NULL: names are the graph's; the only tags, or serve */
  weft_option_texts_t feeds, inits, targets, fetches,
      saves;               /* nothing to run, with a signature: fetches all of it */
  const char *feed_option; /* what messages call `feeds`; NULL: --feed */
  const char *batch_names; /* "x+y": the feeds that are cut; NULL: all arrays */
  WEFT_JobOptions options;
  const char *save, *restore; /* NULL: none */
  const char *log;            /* a directory for TensorBoard; NULL: none */
  WEFT_JobLogOptions log_options;
  weft_option_texts_t hparams; /* "NAME=VALUE" */
  int64_t save_steps;
  double save_seconds;
  int64_t epochs, evaluate_every;     /* 0: by steps; never */
  weft_option_texts_t evaluate_feeds; /* of the entry "evaluate" */
  weft_option_texts_t data, evaluate_data,
      columns; /* files that the inputs are read from (tools/run/data_graph.h) */
  bool resumes;
  bool is_isolated; /* variables and tables are this run's own, also on a cluster */
  int64_t steps;    /* in all, those included that were done before a job that resumes; -1: one, or until the
                       data end where nothing is fed and a step reads a batch from the graph itself */
  weft_progress_style_t style;
} weft_submit_spec_t;

/* Runs it and prints what it does. Errors name what is wrong and what to do. *out_signal is the signal that
 * ended it (the error is then CANCELLED), or 0. Call it on the main thread. */
WEFT_MUST_CHECK weft_status_t *weft_submit_run(const weft_submit_spec_t *spec, int *out_signal);

/* What the exit codes say besides those of all commands. */
extern const weft_help_item_t weft_submit_exit_codes[];
extern const int weft_submit_num_exit_codes;

#endif /* WEFT_TOOLS_SUBMIT_SUBMIT_H_ */
