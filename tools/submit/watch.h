/* tools/submit/watch.h - keeps watch over a job: signals, a master that dies, waits that take long.
 *
 * The job runs on a thread of its own; the main thread watches. It has to be the
 * main one: libraries may have started threads that block no signals, and only
 * a main thread that waits for a signal is sure to get it.
 *
 * SIGINT, SIGTERM and SIGHUP close the session: that cancels the step, on the
 * cluster, too, and the job ends in the usual way. If it has not ended a second
 * later the process exits with 128 + the signal; so it does at a second signal.
 * A session waits for ever for a master that is gone, in case it comes back, as
 * TensorFlow's does; this ends the process instead, with a line that says so.
 */
#ifndef WEFT_TOOLS_SUBMIT_WATCH_H_
#define WEFT_TOOLS_SUBMIT_WATCH_H_

#include <signal.h>
#include <tensorflow/c/c_api.h>

#include "base/mutex.h"
#include "base/status.h"

typedef void weft_watched_fn(void *arg);

typedef struct weft_watch { /* Thread-safe. */
  sigset_t signals;
  pthread_t main, closer;
  weft_mutex_t mu;
  weft_cond_t ended;
  weft_watched_fn *fn;
  void *arg;
  const char *master;  /* lent; guarded by mu like all that follows */
  TF_Session *session; /* borrowed */
  int64_t progress_ns; /* the last sign of life */
  int signal_number;
  bool has_bar, has_begun, is_slow_told, is_closing, is_over;
} weft_watch_t;

/* Runs fn(arg) and watches. Call it on the main thread. `has_bar`: a line may be open on standard output when the
 * process ends. Errors: RESOURCE_EXHAUSTED, fn was not called. */
WEFT_MUST_CHECK weft_status_t *weft_watch_run(weft_watch_t *w, bool has_bar, weft_watched_fn *fn, void *arg);

/* The rest is for the job. A session at `master` (NULL: in this process) is to be closed by a signal. Whoever deletes it
 * first calls weft_watch_forget(), which waits while it is being closed. */
void weft_watch_session(weft_watch_t *w, TF_Session *session, const char *master);
void weft_watch_forget(weft_watch_t *w);
void weft_watch_progress(weft_watch_t *w); /* a step is done */
int weft_watch_signal(weft_watch_t *w);    /* the signal that came; 0 */

#endif /* WEFT_TOOLS_SUBMIT_WATCH_H_ */
