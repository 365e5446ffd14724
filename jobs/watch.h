/* jobs/watch.h - a thread that closes a job's session when the job is stopped, and detects the loss of its
 * master.
 *
 * Closing a session cancels its steps, on the cluster, too; it waits for the master's answer, so it is done
 * by this thread and not by the caller of weft_job_watch_stop(). A session waits for a lost master to come
 * back, as TensorFlow's does. After two seconds without progress the watch tests whether the master's address
 * accepts connections; if not, it calls the callback and closes the session.
 */
#ifndef WEFT_JOBS_WATCH_H_
#define WEFT_JOBS_WATCH_H_

#include <stdatomic.h>
#include <tensorflow/c/c_api.h>

#include "base/mutex.h"
#include "base/status.h"

/* On the watch's thread, with no lock held. `is_lost`: the master is gone; else the first answer is overdue.
 */
typedef void weft_job_watch_fn(void *arg, bool is_lost);

typedef struct weft_job_watch { /* Thread-safe. */
  const char *master;           /* lent; NULL: in this process, nothing to watch */
  weft_job_watch_fn *fn;
  void *arg;
  pthread_t thread;
  weft_mutex_t mu;
  weft_cond_t changed;
  TF_Session *session; /* borrowed; guarded by mu like what follows */
  bool is_started, is_closing, is_closed, is_over, is_slow_told;
  bool is_stopped, is_lost;
  atomic_bool has_begun;    /* a step has ended since the start */
  atomic_llong progress_ns; /* the last progress; relaxed: a hint when to probe the master */
} weft_job_watch_t;

/* Errors: RESOURCE_EXHAUSTED; end it in any case. */
WEFT_MUST_CHECK weft_status_t *weft_job_watch_start(weft_job_watch_t *w, const char *master,
                                                    weft_job_watch_fn *fn, void *arg);
void weft_job_watch_end(weft_job_watch_t *w); /* waits for its thread; also of one that is all zero */
/* The session that a stop closes; if it is stopped already, now. weft_job_watch_detach(), which waits while
 * it is being closed, comes before the session is deleted. */
void weft_job_watch_attach(weft_job_watch_t *w, TF_Session *session);
void weft_job_watch_detach(weft_job_watch_t *w);
void weft_job_watch_progress(weft_job_watch_t *w); /* a step is done */
/* Closes the session that is attached, and those that will be. Does not wait. */
void weft_job_watch_stop(weft_job_watch_t *w);
/* Waits until that time of weft_clock_ns(), or until it is stopped. True: it is stopped. */
bool weft_job_watch_wait(weft_job_watch_t *w, int64_t until_ns);
/* Has it been stopped? *out_lost: because the master is gone. */
bool weft_job_watch_is_stopped(weft_job_watch_t *w, bool *out_lost);

#endif /* WEFT_JOBS_WATCH_H_ */
