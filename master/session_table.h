/* master/session_table.h - the sessions of a master by their handles, why others have ended, and what is
 * under way in the master.
 *
 * After weft_session_table_stop() nothing begins and no session is added; what is under way ends.
 */
#ifndef WEFT_MASTER_SESSION_TABLE_H_
#define WEFT_MASTER_SESSION_TABLE_H_

#include "master/session.h"

typedef struct weft_session_table weft_session_table_t; /* Thread-safe. */

/* `task`: the master's; lent. */
WEFT_MUST_CHECK weft_status_t *weft_session_table_create(weft_str_t task, weft_session_table_t **out);
void weft_session_table_stop(weft_session_table_t *t);
/* Blocks until nothing is under way: weft_session_table_end() wakes it. */
void weft_session_table_wait(weft_session_table_t *t);
void weft_session_table_destroy(weft_session_table_t *t); /* its sessions have been taken; NULL is fine */

/* Something is under way until weft_session_table_end(). Errors: UNAVAILABLE after a stop. */
WEFT_MUST_CHECK weft_status_t *weft_session_table_begin(weft_session_table_t *t);
void weft_session_table_end(weft_session_table_t *t);
/* A failure (consumed; NULL stays NULL) after a stop is one by the stop: what waited was cancelled. */
WEFT_MUST_CHECK weft_status_t *weft_session_table_blame(weft_session_table_t *t, weft_status_t *status);

/* Retained by the table. Errors: UNAVAILABLE after a stop, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_session_table_add(weft_session_table_t *t, weft_master_session_t *s);
/* The caller owns one reference; NULL: there is none of that handle. */
int64_t weft_session_table_count(weft_session_table_t *t);
weft_master_session_t *weft_session_table_find(weft_session_table_t *t, weft_str_t handle);
/* The failure of a call with a handle that is not found: what became of the session, or `unknown`. */
WEFT_MUST_CHECK weft_status_t *weft_session_table_unknown(weft_session_table_t *t, weft_code_t code,
                                                          weft_str_t handle, const char *unknown);

/* Out of the table: the caller owns the reference. `why` is what later calls with the handle are told. NULL:
 * there is none. */
weft_master_session_t *weft_session_table_take(weft_session_table_t *t, weft_str_t handle, const char *why);
/* The same for one of the sessions of a client's life, or of all if `life` is 0, whose closing is one more
 * thing that is under way. */
weft_master_session_t *weft_session_table_take_one(weft_session_table_t *t, uint64_t life, const char *why);

#endif /* WEFT_MASTER_SESSION_TABLE_H_ */
