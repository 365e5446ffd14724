/* worker/record.c - what observers ask of a worker: its recordings, or its machine's peaks.
 *
 * Peaks take a while to measure, so that is done on a thread of its own.
 */
#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "worker/worker_impl.h"

typedef struct peaks_call {
  weft_worker_t *worker; /* counts as one of its runs */
  weft_record_fn *fn;
  void *arg;
} peaks_call_t;

static void *measure(void *arg) {
  peaks_call_t c = *(peaks_call_t *)arg;
  weft_record_answer_t a = {.num_records = 0};
  weft_free(arg);
  weft_peaks_get(&c.worker->peaks, c.worker->devices.all[0], &a.peak_flops, &a.peak_bytes);
  a.clock_micros = weft_clock_micros();
  c.fn(c.arg, NULL, &a);
  weft_worker_end_run(c.worker);
  return NULL;
}

static weft_status_t *start_measuring(weft_worker_t *w, weft_record_fn *fn, void *arg) {
  pthread_t thread;
  peaks_call_t *c = weft_malloc(sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("measuring the machine");
  *c = (peaks_call_t){w, fn, arg};
  if (!weft_worker_begin_run(w)) {
    weft_free(c);
    return WEFT_ERROR(UNAVAILABLE, "The task %.*s was shut down", WEFT_STR_ARGS(w->task));
  }
  if (pthread_create(&thread, NULL, measure, c) != 0) {
    weft_worker_end_run(w);
    weft_free(c);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start a thread that measures the machine");
  }
  pthread_detach(thread);
  return NULL;
}

void weft_worker_record(weft_worker_t *w, const weft_record_request_t *r, weft_canceller_t *canceller,
                        weft_record_fn *fn, void *arg) {
  if (!r->measures_peaks) {
    weft_step_recordings_ask(w->recordings, r, canceller, fn, arg);
    return;
  }
  weft_status_t *s = start_measuring(w, fn, arg);
  if (s != NULL) fn(arg, s, NULL);
}
