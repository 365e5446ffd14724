/* tools/submit/interrupt.h - Ctrl-C, SIGTERM and SIGHUP during a job, and a word to who waits long.
 *
 * A thread waits for the signals. The first one closes the session: that
 * cancels the step, on the cluster, too, and the job ends in the usual way. If
 * it has not ended a second later the process exits with 128 + the signal.
 */
#ifndef WEFT_TOOLS_SUBMIT_INTERRUPT_H_
#define WEFT_TOOLS_SUBMIT_INTERRUPT_H_

#include <signal.h>
#include <tensorflow/c/c_api.h>

#include "base/mutex.h"
#include "base/status.h"

typedef struct weft_interrupt { /* Thread-safe between start and stop. */
  sigset_t signals;
  pthread_t thread, closer;
  weft_mutex_t mu;
  weft_cond_t ended;
  TF_Session *session;     /* all guarded by mu; borrowed */
  const char *waiting_for; /* lent; NULL: nothing that is worth a word */
  int64_t waiting_since_ns;
  int signal_number;
  bool is_closing, is_over;
} weft_interrupt_t;

/* Blocks the signals in this thread and those that it will create; call it before there are others.
 * Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_interrupt_start(weft_interrupt_t *i);
void weft_interrupt_stop(weft_interrupt_t *i);
/* The session to close. Whoever deletes it watches NULL first: that waits while it is being closed. */
void weft_interrupt_watch(weft_interrupt_t *i, TF_Session *session);
/* What happens from now on, e.g. "the master to create a session"; is told if it takes long. NULL: nothing. */
void weft_interrupt_expect(weft_interrupt_t *i, const char *waiting_for);
int weft_interrupt_signal(weft_interrupt_t *i); /* the signal that came; 0 */

#endif /* WEFT_TOOLS_SUBMIT_INTERRUPT_H_ */
