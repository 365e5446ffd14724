/* jobs/log.h - what a job writes for TensorBoard: an event file of its directory (docs/tensorboard.md).
 *
 * At its start a log has the graph, the graph that a strategy made of it, and the hyperparameters; then an
 * event for each step, with what was fetched and how fast it went; statistics of steps that were traced; and
 * how the job ended. The file is written every few seconds, and when it is flushed.
 */
#ifndef WEFT_JOBS_LOG_H_
#define WEFT_JOBS_LOG_H_

#include "base/status.h"
#include "io/event_values.h"
#include "tensor/tensor.h"

typedef struct weft_job_log weft_job_log_t; /* Confined: one call at a time. */

/* `every`: events are written for multiples of so many steps, 1 or more. Errors: those of
 * weft_event_file_create. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_create(const char *directory, int64_t every,
                                                   weft_job_log_t **out);
/* Writes how the job ended, and frees `l`; NULL is fine. Errors: those of files; it is freed all the same. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_close(weft_job_log_t *l, bool is_success);
/* Errors of these and all below: those of files, which name the file; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_flush(weft_job_log_t *l);

/* ---- the start ---- */

/* Step `first` is the last that is done. Of an earlier job that went further, TensorBoard drops what came
 * later. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_begin(weft_job_log_t *l, int64_t first);
WEFT_MUST_CHECK weft_status_t *weft_job_log_graph(weft_job_log_t *l, weft_str_t graph_def);
/* The graph that the steps run, if it is another; copied, as statistics come with it. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_rewritten(weft_job_log_t *l, weft_str_t graph_def);
/* As a row of the table of hyperparameters, and as a text. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_hparams(weft_job_log_t *l, const weft_event_hparam_t *hparams,
                                                    int n);

/* ---- steps ---- */

typedef struct weft_job_log_value {
  weft_str_t tag;
  const weft_tensor_t *value; /* a number; a Summary that an op made; a text. Others are left out */
} weft_job_log_value_t;

/* Time counts from here: before the first step, and when steps go on after a pause of `paused_ns`. */
void weft_job_log_start_clock(weft_job_log_t *l, int64_t done);
void weft_job_log_skip(weft_job_log_t *l, int64_t paused_ns);
/* Rows that a batch of the steps had. */
void weft_job_log_rows(weft_job_log_t *l, int64_t rows);
/* Is it a step whose values are written? `is_last`: of a run, which always is. */
bool weft_job_log_wants(const weft_job_log_t *l, int64_t step, bool is_last);
/* After step `step`: values, and how fast the steps since the last event went. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_step(weft_job_log_t *l, int64_t step,
                                                 const weft_job_log_value_t *values, int n);
/* How long steps waited for input lately: a share of the time, and milliseconds of each. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_waits(weft_job_log_t *l, int64_t step, double share, double ms);
/* A serialized RunMetadata of a run that was traced in step `step`; those of the runs of one step belong
 * together, and are written with the first of another step, or when the log is flushed. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_statistics(weft_job_log_t *l, int64_t step,
                                                       weft_str_t run_metadata);

#endif /* WEFT_JOBS_LOG_H_ */
