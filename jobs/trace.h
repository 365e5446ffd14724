/* jobs/trace.h - a step on a time line: Chrome's trace format, which Perfetto opens.
 *
 * Every device is a process of the trace, every thread of it a track. Sends,
 * receives and collectives have tracks of their own below, and an arrow leads
 * from where a tensor was made to where it arrived. Times are the tasks' own
 * clocks in microseconds.
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
/* {"traceEvents": [...]}. Errors: naming the file, after `option` ("--trace"). */
WEFT_MUST_CHECK weft_status_t *weft_job_trace_write(weft_job_trace_t *t, const char *option,
                                                    const char *path);

#endif /* WEFT_JOBS_TRACE_H_ */
