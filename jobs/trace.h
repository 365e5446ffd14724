/* jobs/trace.h - steps on a time line: Chrome's trace format, which Perfetto opens.
 *
 * Every device is a process of the trace, every thread of it a track. Waits for input, collectives, sends and
 * receives have tracks of their own below, and an arrow leads from where a tensor was made to where it
 * arrived. Where spans of a track overlap, the track has a second one beside it. Tasks of a cluster that is
 * observed are processes, too, with their parts of steps. Times count from the first event, in microseconds.
 */
#ifndef WEFT_JOBS_TRACE_H_
#define WEFT_JOBS_TRACE_H_

#include <tensorflow/c/c_api.h>

#include "base/str.h"

typedef struct weft_job_trace weft_job_trace_t; /* Thread-safe. */

WEFT_MUST_CHECK weft_status_t *weft_job_trace_create(weft_job_trace_t **out);
void weft_job_trace_destroy(weft_job_trace_t *t); /* NULL is fine */
/* Takes the statistics out of a serialized RunMetadata. Errors: INVALID_ARGUMENT for other bytes. */
WEFT_MUST_CHECK weft_status_t *weft_job_trace_add(weft_job_trace_t *t, weft_str_t run_metadata);

/* One task's part of a step, as an observer sees it. Texts are copied. */
typedef struct weft_trace_part {
  weft_str_t task;                  /* "/job:worker/replica:0/task:0" */
  int64_t step_id, number;          /* number: the step's, from 1 */
  int64_t start_micros, end_micros; /* on the task's clock, as the statistics */
  int64_t offset_micros;            /* what to add to them */
  weft_str_t session, graph;
  weft_str_t failure;    /* empty: it went well */
  weft_str_t step_stats; /* serialized StepStats */
} weft_trace_part_t;
WEFT_MUST_CHECK weft_status_t *weft_job_trace_add_part(weft_job_trace_t *t, const weft_trace_part_t *part);

/* {"traceEvents": [...]}. Errors: naming the file, after `option` ("--trace"). */
WEFT_MUST_CHECK weft_status_t *weft_job_trace_write(weft_job_trace_t *t, const char *option,
                                                    const char *path);
/* Of what was added: spans of nodes, arrows, bytes that these moved. */
typedef struct weft_trace_counts {
  int64_t num_spans, num_arrows, moved_bytes;
} weft_trace_counts_t;
weft_trace_counts_t weft_job_trace_counts(weft_job_trace_t *t);

#endif /* WEFT_JOBS_TRACE_H_ */
