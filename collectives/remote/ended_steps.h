/* collectives/remote/ended_steps.h - steps that ended, runs that failed, and peers that ended a step: kept
 * for transfers that begin later. The oldest are forgotten.
 *
 * Thread-compatible: the transfer table makes all calls under its lock.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_ENDED_STEPS_H_
#define WEFT_COLLECTIVES_REMOTE_ENDED_STEPS_H_

#include "base/status.h"
#include "base/str.h"

enum { WEFT_ENDED_STEPS = 4096 };

typedef struct weft_ended_step {
  int64_t step_id;    /* 0: the step has begun again */
  char *run, *task;   /* owned; NULL: all runs; the step ended in this task */
  weft_status_t *why; /* NULL: a free place */
  uint16_t bucket;    /* these two are ended_steps.c's */
  uint16_t behind;    /* the next of the bucket, older, plus 1; 0: none */
} weft_ended_step_t;

typedef struct weft_ended_steps { /* Zeroed is ready for use. */
  weft_ended_step_t ring[WEFT_ENDED_STEPS];
  size_t next;
  uint16_t buckets[WEFT_ENDED_STEPS]; /* by the hash of step and run: the newest one, plus 1; 0: none */
} weft_ended_steps_t;

/* Why a transfer of this step and key, with `task`, cannot be: a copy, or NULL. */
weft_status_t *weft_ended_steps_find(const weft_ended_steps_t *s, int64_t step_id, weft_str_t key,
                                     weft_str_t task);
/* A step that ended in this task as a whole begins again. */
void weft_ended_steps_begin(weft_ended_steps_t *s, int64_t step_id);
/* Consumes e. Returns what is forgotten for it, to be deinited without the lock. */
weft_ended_step_t weft_ended_steps_add(weft_ended_steps_t *s, weft_ended_step_t e);
void weft_ended_step_deinit(weft_ended_step_t *e);
void weft_ended_steps_deinit(weft_ended_steps_t *s);
bool weft_ended_steps_is_in_run(weft_str_t key, const char *run); /* NULL: any run */

#endif /* WEFT_COLLECTIVES_REMOTE_ENDED_STEPS_H_ */
