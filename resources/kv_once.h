/* resources/kv_once.h - lets something be done once per id, however often it is tried.
 *
 * A caller that repeats work that may have been done already (a closure after its worker died,
 * a message that may have arrived) gives each piece an id and asks before it does
 * it. A guard remembers the last `window` ids that are done.
 *
 *   unknown --WeftOnce: is_new = true--> claimed by a step --WeftOnceDone--> done: is_new = false ever after
 *      ^                                      |
 *      `---- the step ended without Done -----'      other steps that ask meanwhile wait
 *
 * So a step that fails before its updates leaves no trace, and one that fails
 * after them is not done again. To use it with any updates: control edges from
 * all their inputs to WeftOnce, a Switch by is_new on each input, WeftOnceDone after
 * the updates, all on the task that holds the variables and in one step. A step that
 * claims an id is committed (weft_step_commit): the local nodes behind the claim run
 * even if the step is cancelled, so that no cancel comes between an update and its
 * WeftOnceDone. Only parts with loops cannot be committed. WeftOnceAssignAdd and
 * WeftOnceAssignSub ask, update and remember under one lock, with a guard per variable.
 *
 * Sources: reference strategies 3.29, "effectively-once"; the window is that of
 * TensorFlow's recent_request_ids.
 */
#ifndef WEFT_RESOURCES_KV_ONCE_H_
#define WEFT_RESOURCES_KV_ONCE_H_

#include "base/hash_map.h"
#include "resources/wait_room.h"

typedef struct weft_once { /* Thread-safe. */
  weft_object_t object;
  weft_wait_room_t room; /* in any order */
  int64_t window;
  weft_map_t ids; /* guarded by room.mu, with all that follows: id -> claimed or done */
  uint64_t *done; /* a ring of `window` places for those done, the oldest at `first`; owned */
  int64_t num_done, first;
} weft_once_t;

enum { WEFT_ONCE_MAX_WINDOW = 1 << 24 };
extern const weft_resource_type_t weft_once_type;
/* `window`: from 1 to WEFT_ONCE_MAX_WINDOW. */
WEFT_MUST_CHECK weft_status_t *weft_once_create(int64_t window, weft_object_t **out);

typedef enum weft_once_state { WEFT_ONCE_NEW, WEFT_ONCE_CLAIMED, WEFT_ONCE_DONE } weft_once_state_t;
/* With room.mu held. */
weft_once_state_t weft_once_state_locked(const weft_once_t *o, int64_t id);
/* Errors: RESOURCE_EXHAUSTED; nothing has changed then. */
WEFT_MUST_CHECK weft_status_t *weft_once_claim_locked(weft_once_t *o, int64_t id);
void weft_once_finish_locked(weft_once_t *o, int64_t id, bool is_done); /* of a claimed one */

#endif /* WEFT_RESOURCES_KV_ONCE_H_ */
