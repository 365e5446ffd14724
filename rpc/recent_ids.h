/* rpc/recent_ids.h - remembers the last N request ids, so that a request sent again is not served twice.
 *
 * A client whose answer was lost sends the same bytes again. The window is a
 * ring: memory does not grow, and an id older than N others is forgotten.
 */
#ifndef WEFT_RPC_RECENT_IDS_H_
#define WEFT_RPC_RECENT_IDS_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct weft_recent_ids weft_recent_ids_t; /* Thread-safe. */

/* TensorFlow's windows: 10,000 on a master, 100,000 on a worker. */
WEFT_MUST_CHECK weft_status_t *weft_recent_ids_create(int window, weft_recent_ids_t **out);
void weft_recent_ids_destroy(weft_recent_ids_t *r); /* NULL is fine */
/* Errors: ABORTED "The same <method> request was received twice. request_id: <id>". Id 0 is never refused. */
WEFT_MUST_CHECK weft_status_t *weft_recent_ids_add(weft_recent_ids_t *r, int64_t id, const char *method);
/* Is that the failure, as a client gets it? From TensorFlow's servers, too. */
bool weft_recent_ids_is_refusal(const weft_status_t *s);

#endif /* WEFT_RPC_RECENT_IDS_H_ */
