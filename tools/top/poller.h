/* tools/top/poller.h - asks all tasks of a cluster for their numbers, each for itself: one that hangs holds
 * none.
 *
 * Each task has a connection and at most one call in flight, which ends within a second and a half. The
 * caller says when to ask; answers come on threads of gRPC's.
 */
#ifndef WEFT_TOOLS_TOP_POLLER_H_
#define WEFT_TOOLS_TOP_POLLER_H_

#include "server/cluster.h"
#include "tools/top/view.h"

typedef struct weft_top_poller weft_top_poller_t; /* Confined, but for its own threads. */

/* `cluster` (borrowed) must outlive it. Errors: RESOURCE_EXHAUSTED; what an address has that is none. */
WEFT_MUST_CHECK weft_status_t *weft_top_poller_create(const weft_cluster_t *cluster, weft_top_poller_t **out);
/* Ends calls in flight and waits for that. NULL is fine. */
void weft_top_poller_destroy(weft_top_poller_t *p);

/* Asks each task that has no call in flight. Does not wait. */
void weft_top_poller_ask(weft_top_poller_t *p);
/* Readable, with poll(), once a task has answered since the last weft_top_poller_is_answered(). */
int weft_top_poller_fd(const weft_top_poller_t *p);
/* Is no call in flight? */
bool weft_top_poller_is_answered(weft_top_poller_t *p);
/* The cluster as it is known now: fills out->arena, tasks, traffic and time. The caller deinits *out in any
 * case. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_top_poller_look(weft_top_poller_t *p, weft_top_view_t *out);

#endif /* WEFT_TOOLS_TOP_POLLER_H_ */
