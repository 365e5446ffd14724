/* collectives/group_losses.h - groups that have lost a member, and the steps of sessions that are older than
 * such a loss.
 *
 * A group that has lost a member is formed anew when the task is back, and its clients begin anew at a
 * checkpoint, each in a session of its own. The steps of a client that has not noticed the loss must not meet
 * theirs: what they would add up belongs to different steps of the training. A session is therefore as old as
 * the number of losses when it began, and collectives of older sessions fail with the loss.
 */
#ifndef WEFT_COLLECTIVES_GROUP_LOSSES_H_
#define WEFT_COLLECTIVES_GROUP_LOSSES_H_

#include <stdint.h>

#include "base/status.h"

typedef struct weft_group_losses weft_group_losses_t; /* Thread-safe. */

WEFT_MUST_CHECK weft_status_t *weft_group_losses_create(weft_group_losses_t **out);
void weft_group_losses_destroy(weft_group_losses_t *l); /* NULL is fine */

/* Group `key` has lost a member; `why` is copied. Beyond 256 losses the oldest ones are forgotten. */
void weft_group_losses_add(weft_group_losses_t *l, int64_t key, const weft_status_t *why);
int64_t weft_group_losses_count(const weft_group_losses_t *l);

/* Step `step_id` is of a session that began after `begun` losses. It is known until it is forgotten. Errors:
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_group_losses_note_step(weft_group_losses_t *l, int64_t step_id,
                                                           int64_t begun);
void weft_group_losses_forget_step(weft_group_losses_t *l, int64_t step_id);
/* The last loss of group `key`, if it came after the session of the step began; else NULL. */
weft_status_t *weft_group_losses_find(weft_group_losses_t *l, int64_t step_id, int64_t key);

#endif /* WEFT_COLLECTIVES_GROUP_LOSSES_H_ */
