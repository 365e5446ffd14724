/* membership/store_requests.h - the requests of this task for keys and values that have not been answered
 * yet. */
#ifndef WEFT_MEMBERSHIP_STORE_REQUESTS_H_
#define WEFT_MEMBERSHIP_STORE_REQUESTS_H_

#include "membership/coordination_client.h"

typedef struct weft_store_requests weft_store_requests_t; /* Thread-safe. */

WEFT_MUST_CHECK weft_status_t *weft_store_requests_create(weft_store_requests_t **out);
/* Sends `r` by `client` (borrowed; NULL: FAILED_PRECONDITION). Calls fn(arg) once, perhaps before this
 * returns. Errors beside those of the store: CANCELLED after the stop, RESOURCE_EXHAUSTED, UNAVAILABLE. */
void weft_store_requests_send(weft_store_requests_t *q, weft_coordination_client_t *client,
                              const weft_store_request_t *r, weft_canceller_t *canceller, weft_value_fn *fn,
                              void *arg);
/* Cancels all, and waits until every `fn` has returned. Idempotent. */
void weft_store_requests_stop(weft_store_requests_t *q);
void weft_store_requests_destroy(weft_store_requests_t *q); /* after the stop; NULL is fine */

#endif /* WEFT_MEMBERSHIP_STORE_REQUESTS_H_ */
