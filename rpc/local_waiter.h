/* rpc/local_waiter.h - a local connection for calls whose thread waits for the answer; only for this folder.
 *
 * The waiting thread sends and receives itself, so a call wakes no other thread of its process. One call at a
 * time.
 */
#ifndef WEFT_RPC_LOCAL_WAITER_H_
#define WEFT_RPC_LOCAL_WAITER_H_

#include "rpc/local_calls.h"

typedef struct weft_local_waiter weft_local_waiter_t; /* Confined, but for weft_local_waiter_break(). */

/* Connects to a server's name, without blocking. NULL: it does not listen any more (*is_gone), or cannot take
 * a connection now, or no memory. */
weft_local_waiter_t *weft_local_waiter_open(weft_str_t name, bool *is_gone);
void weft_local_waiter_close(weft_local_waiter_t *w); /* NULL is fine */
/* Has the server closed it? */
bool weft_local_waiter_is_over(const weft_local_waiter_t *w);
/* Ends the call under way, as lost. From any thread. */
void weft_local_waiter_break(weft_local_waiter_t *w);

typedef struct weft_local_reply {
  weft_local_outcome_t outcome; /* ANSWERED, FAILED, LOST or SILENT; after the last two it is to be closed */
  weft_message_t *answer;       /* owned */
  weft_status_t *status;        /* owned */
  bool is_answered;             /* of a failure: by a handler */
} weft_local_reply_t;

/* Waits for the answer; `request` is lent. Ends with the server, with a server that answers no ping, or by
 * weft_local_waiter_break(). */
void weft_local_waiter_call(weft_local_waiter_t *w, const char *path, weft_message_t *request,
                            weft_local_reply_t *out);

#endif /* WEFT_RPC_LOCAL_WAITER_H_ */
