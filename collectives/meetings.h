/* collectives/meetings.h - where the members of a task come together that do a collective at once.
 *
 * A meeting is of one run of an instance, found by step and name. The member that comes last takes all of
 * them away. A failure of the run takes those away that have come and, until its step ends, refuses those
 * that come later.
 */
#ifndef WEFT_COLLECTIVES_MEETINGS_H_
#define WEFT_COLLECTIVES_MEETINGS_H_

#include "base/status.h"
#include "base/str.h"

typedef struct weft_meetings weft_meetings_t; /* Thread-safe. */

/* A member leaves a meeting that failed. Consumes `why`. Called under no lock. */
typedef void weft_meeting_left_fn(void *member, weft_status_t *why);

WEFT_MUST_CHECK weft_status_t *weft_meetings_create(weft_meeting_left_fn *left, weft_meetings_t **out);
void weft_meetings_destroy(weft_meetings_t *m); /* nothing waits. NULL is fine */

/* A member comes to the meeting "run/agreement" of `n`, as `rank` (-1: in the order of coming). *out: all
 * members by rank, to be freed, if it is the last one; else NULL. Errors: why the run failed; INTERNAL if the
 * rank is there already; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_meetings_come(weft_meetings_t *m, int64_t step_id, weft_str_t name, int n,
                                                  int rank, void *member, void ***out);
/* The meetings "run" and "run/..." fail. `why` is copied. */
void weft_meetings_fail(weft_meetings_t *m, int64_t step_id, weft_str_t run, const weft_status_t *why);
/* Forgets what failed in a step. */
void weft_meetings_forget_step(weft_meetings_t *m, int64_t step_id);

#endif /* WEFT_COLLECTIVES_MEETINGS_H_ */
