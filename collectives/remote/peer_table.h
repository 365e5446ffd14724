/* collectives/remote/peer_table.h - what a transport knows of other tasks: host, incarnation, which were lost
 * and in which order, and the groups that it has shared with them. */
#ifndef WEFT_COLLECTIVES_REMOTE_PEER_TABLE_H_
#define WEFT_COLLECTIVES_REMOTE_PEER_TABLE_H_

#include "collectives/transport.h"

typedef struct weft_peer_table weft_peer_table_t; /* Thread-safe. */

WEFT_MUST_CHECK weft_status_t *weft_peer_table_create(weft_peer_table_t **out);
void weft_peer_table_destroy(weft_peer_table_t *t); /* NULL is fine */

void weft_peer_table_note(weft_peer_table_t *t, weft_str_t task, weft_str_t host, uint64_t incarnation);
weft_str_t weft_peer_table_host_of(weft_peer_table_t *t, weft_str_t task); /* lent; "": unknown */
uint64_t weft_peer_table_incarnation_of(weft_peer_table_t *t, weft_str_t task);

/* `task` is lost, of this incarnation; 0: as it is known. is_departure: it said so before, perhaps only
 * because of another loss. False: another incarnation is known meanwhile, which is not lost, and nothing is
 * noted. */
bool weft_peer_table_note_loss(weft_peer_table_t *t, weft_str_t task, uint64_t incarnation,
                               const weft_status_t *why, bool is_departure);
void weft_peer_table_forget_loss(weft_peer_table_t *t, weft_str_t task);
bool weft_peer_table_is_lost(weft_peer_table_t *p, weft_str_t task);
/* The loss of the process that is `task` under this incarnation, while it has not returned: a copy, or NULL.
 * A transfer that has entered its table and then finds none here is ended by a later loss. */
weft_status_t *weft_peer_table_loss_of(weft_peer_table_t *t, weft_str_t task, uint64_t incarnation);
bool weft_peer_table_is_lost_lately(weft_peer_table_t *p, weft_str_t task);

/* The leader gives a complete group: notes its members, whose earlier losses and failures are over. Not
 * NULL: why the group cannot work, and nothing was noted: a member was lost a moment ago, and the leader does
 * not know it yet. */
WEFT_MUST_CHECK weft_status_t *weft_peer_table_adopt_group(weft_peer_table_t *t, weft_group_t *group);
/* A run of a group was UNAVAILABLE; the first time is kept until the group is complete again. */
void weft_peer_table_note_failure(weft_peer_table_t *t, weft_str_t run, const weft_status_t *why);

/* Why a transfer with `task` may have ended with `status` (consumed): the failure of another member of one of
 * its groups, or an earlier failure of such a group, if there was one; else `status`. */
weft_status_t *weft_peer_table_cause(weft_peer_table_t *t, weft_str_t task, weft_status_t *status);
/* Why the group of this key broke first, as far as this task knows: a copy, or NULL. Later losses may only
 * have followed. */
weft_status_t *weft_peer_table_first_loss(weft_peer_table_t *t, int64_t key);
/* The same, or why another member's run of the group was UNAVAILABLE. */
weft_status_t *weft_peer_table_failure_of(weft_peer_table_t *t, int64_t key);
/* Why this task departs, if because of a failure: a copy, or NULL; *out_task: the task that failed, if one
 * did; lent. */
weft_status_t *weft_peer_table_departure_cause(weft_peer_table_t *t, weft_str_t *out_task);

#endif /* WEFT_COLLECTIVES_REMOTE_PEER_TABLE_H_ */
