/* tools/submit/job.h - a graph file run step by step in a session of the C API. */
#ifndef WEFT_TOOLS_SUBMIT_JOB_H_
#define WEFT_TOOLS_SUBMIT_JOB_H_

#include "base/status.h"
#include "tools/options.h"
#include "tools/submit/feeds.h"
#include "tools/submit/progress.h"
#include "tools/submit/saving.h"

/* As on the command line. */
typedef struct weft_job_spec {
  const char *graph_path, *master; /* master NULL: a local session */
  const char *container; /* where its state is; NULL: the graph's own containers, on each task that of its job */
  const char *strategy; /* "mirrored:4"; NULL: the graph as it is */
  const char *trace;    /* where to write the last step's time line; NULL: nowhere */
  weft_option_texts_t feeds, inits, targets, fetches, saves;
  int64_t steps;           /* in all, those included that were done before a job that resumes */
  weft_batching_t batching;
  weft_saving_spec_t saving;
  weft_progress_style_t style;
} weft_job_spec_t;

/* Runs it and prints what it does. Errors name what is wrong and what to do. *out_signal is the signal that ended it
 * (the error is then CANCELLED), or 0. Call it on the main thread. */
WEFT_MUST_CHECK weft_status_t *weft_job_run(const weft_job_spec_t *spec, int *out_signal);

#endif /* WEFT_TOOLS_SUBMIT_JOB_H_ */
