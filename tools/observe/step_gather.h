/* tools/observe/step_gather.h - puts the records of all tasks together to whole steps.
 *
 * A step is whole when its master has all its parts, each task has told all that it has of it, and it began
 * after the recordings of all tasks were open. Steps that are not whole are counted and left out. Says
 * nothing of how tasks are reached.
 *
 *   1. weft_step_gather_asked   a request goes to a task
 *   2. weft_step_gather_add     its answer
 *   3. weft_step_gather_next    takes out what has become whole
 */
#ifndef WEFT_TOOLS_OBSERVE_STEP_GATHER_H_
#define WEFT_TOOLS_OBSERVE_STEP_GATHER_H_

#include "worker/step_record.h"

/* What one task did in a step. A task may have several. */
typedef struct weft_recorded_part {
  int task;                  /* its index */
  weft_step_record_t record; /* texts live as long as the step; times are those of the task's own clock */
} weft_recorded_part_t;

typedef struct weft_whole_step {
  int64_t step_id;
  weft_recorded_part_t *parts; /* n, at least 1 */
  int n;
} weft_whole_step_t;
void weft_whole_step_free(weft_whole_step_t *s); /* NULL is fine */

typedef struct weft_step_gather weft_step_gather_t; /* Thread-compatible. */

enum { WEFT_GATHER_MARK = 2 }; /* the request of a task that follows when the recordings of all are open */

WEFT_MUST_CHECK weft_status_t *weft_step_gather_create(int num_tasks, weft_step_gather_t **out);
void weft_step_gather_destroy(weft_step_gather_t *g); /* NULL is fine */

/* A request is sent to the task now: its answer tells what was before. */
void weft_step_gather_asked(weft_step_gather_t *g, int task);
/* The answer to that request; what is kept is copied. Errors: RESOURCE_EXHAUSTED: no memory, or too much that
 * is not whole. */
WEFT_MUST_CHECK weft_status_t *weft_step_gather_add(weft_step_gather_t *g, int task,
                                                    const weft_record_answer_t *a);
/* The task tells no more: steps that it has a part in, and that are not over, are not whole. */
void weft_step_gather_lose(weft_step_gather_t *g, int task);

/* How long the next answer of the task may wait for something to tell: 0 if a step waits for the task to
 * answer once more, else a little if a step is ending, else `idle_ms`. */
int64_t weft_step_gather_wait_ms(const weft_step_gather_t *g, int task, int64_t idle_ms);
/* The next whole step, in the order in which they became whole; owned by the caller. NULL: none. */
weft_whole_step_t *weft_step_gather_next(weft_step_gather_t *g);
/* Steps that were left out since they are not whole. */
int64_t weft_step_gather_num_left_out(const weft_step_gather_t *g);

#endif /* WEFT_TOOLS_OBSERVE_STEP_GATHER_H_ */
