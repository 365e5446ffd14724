/* services/presence.h - shows a master that a client is there: its side of master/clients.h.
 *
 * A thread opens HoldClient at the master and opens it again whenever it breaks, until the master does not
 * know the call, as TensorFlow's, or the presence is stopped. Sessions that are created with its id end when
 * this process does.
 */
#ifndef WEFT_SERVICES_PRESENCE_H_
#define WEFT_SERVICES_PRESENCE_H_

#include "master/master_client.h"

typedef struct weft_presence weft_presence_t; /* Thread-safe. */

/* `m` (retained) is one whose calls wait: weft_remote_master_client_create. Does not wait for the master.
 * Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_presence_start(weft_master_client_t *m, weft_presence_t **out);
weft_str_t weft_presence_id(const weft_presence_t *p); /* for weft_create_session_t; lent */
/* After its sessions were closed. NULL is fine. */
void weft_presence_stop(weft_presence_t *p);

#endif /* WEFT_SERVICES_PRESENCE_H_ */
