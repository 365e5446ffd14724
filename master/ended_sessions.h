/* master/ended_sessions.h - what became of sessions that a master no longer has.
 *
 * The last WEFT_ENDED_SESSIONS are remembered, with when and why they ended, so that a call with the handle
 * of one of them fails with that cause.
 */
#ifndef WEFT_MASTER_ENDED_SESSIONS_H_
#define WEFT_MASTER_ENDED_SESSIONS_H_

#include "base/str.h"

enum { WEFT_ENDED_SESSIONS = 1024 };
typedef struct weft_ended_sessions weft_ended_sessions_t; /* Thread-safe. */

/* `task`: the master's; lent. It starts now. */
WEFT_MUST_CHECK weft_status_t *weft_ended_sessions_create(weft_str_t task, weft_ended_sessions_t **out);
void weft_ended_sessions_destroy(weft_ended_sessions_t *e); /* NULL is fine */
/* The session has just ended; `why` ("its client closed it") is copied, and cut after 300 bytes. */
void weft_ended_sessions_add(weft_ended_sessions_t *e, weft_str_t handle, const char *why);
/* "Session <handle> is not found.", as TensorFlow says it, and behind it when and why it ended. For one that
 * is not remembered: `unknown`, and since when this master runs. */
WEFT_MUST_CHECK weft_status_t *weft_ended_sessions_error(weft_ended_sessions_t *e, weft_code_t code,
                                                         weft_str_t handle, const char *unknown);

#endif /* WEFT_MASTER_ENDED_SESSIONS_H_ */
