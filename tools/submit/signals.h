/* tools/submit/signals.h - ends a job at SIGINT, SIGTERM and SIGHUP.
 *
 * The job runs on a thread of its own; the main thread waits for signals. It has to be the main one:
 * libraries may have started threads that block no signals, and only a main thread that waits for a signal is
 * sure to get it.
 *
 * A signal stops the job: that cancels the step, on the cluster, too, and the job ends in the usual way. If
 * it has not ended a second later the process exits with 128 + the signal; so it does at a second signal.
 */
#ifndef WEFT_TOOLS_SUBMIT_SIGNALS_H_
#define WEFT_TOOLS_SUBMIT_SIGNALS_H_

#include <signal.h>

#include "base/mutex.h"
#include "base/status.h"
#include "weft/job.h"

typedef struct weft_submit_signals { /* Thread-safe. */
  sigset_t signals;
  pthread_t main;
  weft_mutex_t mu;
  weft_cond_t ended;
  void (*fn)(void *arg), (*tick)(void *arg);
  void *arg;
  WEFT_Job *job; /* borrowed; guarded by mu like all that follows */
  int number;    /* of the signal that came; 0 */
  bool is_over;
} weft_submit_signals_t;

/* Runs fn(arg) on a thread and waits for its end and for signals. Call it on the main thread. `tick` NULL:
 * there is no bar; else a line may be open on standard output when the process ends, and tick(arg) is called
 * once a second and when the terminal gets another size. Errors: RESOURCE_EXHAUSTED, fn was not called. */
WEFT_MUST_CHECK weft_status_t *weft_submit_signals_run(weft_submit_signals_t *w, void (*tick)(void *arg),
                                                       void (*fn)(void *arg), void *arg);

/* The rest is for fn. The signal that came; 0: none has. */
int weft_submit_signals_number(weft_submit_signals_t *w);
/* The job that a signal stops (at once, if one has come); NULL before it is deleted. */
void weft_submit_signals_job(weft_submit_signals_t *w, WEFT_Job *job);
/* A line on standard error; a bar that is in the way is erased. */
void weft_submit_signals_say(const weft_submit_signals_t *w, const char *message);
/* The same, and ends the process: the job hangs in a call. */
void weft_submit_signals_give_up(const weft_submit_signals_t *w, int code, const char *message);

#endif /* WEFT_TOOLS_SUBMIT_SIGNALS_H_ */
