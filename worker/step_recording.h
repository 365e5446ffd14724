/* worker/step_recording.h - the recordings of a worker's steps, for observers.
 *
 * While a recording is open every run of a graph that begins is recorded, as if its client had asked for step
 * statistics; the client's own answer does not change. While none is open a run pays one load.
 *
 * Life of a recording:
 *   1. weft_step_recordings_ask, is_first   opened; steps that run already are told as partial
 *   2. weft_run_recording_begin, _end       each run leaves a record, until the observer takes it
 *   3. weft_step_recordings_ask             takes what there is, or waits a little for it
 *   4. ended by is_last, by a call that breaks, by ten seconds without a call, or by the worker's end
 *
 * What waits to be taken is bounded, for all observers together: records beyond are dropped, and counted.
 */
#ifndef WEFT_WORKER_STEP_RECORDING_H_
#define WEFT_WORKER_STEP_RECORDING_H_

#include <stdatomic.h>

#include "base/cancellation.h"
#include "worker/step_record.h"

typedef struct weft_step_recordings weft_step_recordings_t; /* Thread-safe. */

/* Appends the ids of the steps that run now: int64_t, in a row. On failure out->failed is set. */
typedef void weft_running_steps_fn(void *arg, weft_strbuf_t *out);

enum {
  WEFT_MAX_OBSERVERS = 16,
  WEFT_RECORDING_SILENCE_MS = 10000, /* without a call of its observer a recording ends */
};
#define WEFT_RECORDING_MAX_BYTES ((size_t)256 << 20)

typedef struct weft_recording_options {
  weft_running_steps_fn *running_steps;
  void *arg;          /* of running_steps */
  size_t max_bytes;   /* of records that wait; 0: WEFT_RECORDING_MAX_BYTES */
  int64_t silence_ms; /* 0: WEFT_RECORDING_SILENCE_MS */
} weft_recording_options_t;

WEFT_MUST_CHECK weft_status_t *weft_step_recordings_create(const weft_recording_options_t *o,
                                                           weft_step_recordings_t **out);
/* Ends all recordings: calls that wait fail with UNAVAILABLE, as do later ones. */
void weft_step_recordings_stop(weft_step_recordings_t *r);
/* Stops first. No run may be in progress. NULL is fine. */
void weft_step_recordings_destroy(weft_step_recordings_t *r);

/* Answers an observer: at once if there is something to tell, or if it is the first or the last call; else
 * when there is, or after wait_ms. `canceller` (may be NULL) is the call's: if it is cancelled the recording
 * ends. fn is called once, on any thread, also before this returns. Peaks are not its part.
 * Errors: INVALID_ARGUMENT: a bad id; ALREADY_EXISTS: is_first, and it is open; NOT_FOUND: it is not open
 * (any more); FAILED_PRECONDITION: another call of the observer waits (the last call ends it with CANCELLED);
 * RESOURCE_EXHAUSTED: too many observers, or no memory for a record; CANCELLED; UNAVAILABLE. */
void weft_step_recordings_ask(weft_step_recordings_t *r, const weft_record_request_t *q,
                              weft_canceller_t *canceller, weft_record_fn *fn, void *arg);

/* How many recordings are open. */
int weft_step_recordings_count(weft_step_recordings_t *r);

/* ---- for runs ---- */

typedef struct weft_run_recording weft_run_recording_t; /* one run; owned by it */

/* A run of the step begins; NULL: it is not recorded. What the step table says of the step must be written
 * before. */
weft_run_recording_t *weft_run_recording_begin(weft_step_recordings_t *r, int64_t step_id);
/* Does an observer still want the record? If not, its statistics need not be made. */
bool weft_run_recording_is_wanted(weft_step_recordings_t *r, const weft_run_recording_t *run);
/* The run is over; consumes `run` (NULL is fine). Of `record` (copied) the step, the start and the calls are
 * filled in here. */
void weft_run_recording_end(weft_step_recordings_t *r, weft_run_recording_t *run,
                            const weft_step_record_t *record);
/* The step is over, on all tasks, as far as its master is concerned. */
void weft_step_recordings_end_step(weft_step_recordings_t *r, int64_t step_id);

#endif /* WEFT_WORKER_STEP_RECORDING_H_ */
