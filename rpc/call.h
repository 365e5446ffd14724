/* rpc/call.h - one call being served; only for this folder.
 *
 * Its states, and the holders of the object (`refs`) in each:
 *
 *   1. weft_rpc_call_await   asks gRPC for the next call of a method.              gRPC holds the object by
 * `arrived`
 *   2. on_arrived            a call is here, with its payload; the next is awaited. The handler's and the
 * closing operation's references are made, the closing operation (`closed`) is started.
 *   3. handler               runs on the loop thread, keeps the call as long as it likes.   handler holds one
 *      on_closed             the call is over, or the peer went away: cancels.              `closed` gives
 * its one back
 *   4. weft_rpc_reply/_fail  first metadata, message and status go out in one operation (`answered`), which
 * takes the handler's reference over.
 *   5. on_answered           they are on their way.                                        gives it back
 *   6. the last reference    frees the object, and tells a server that waits for its end.
 *
 * on_closed may come before, during or after 4. When the server stops, step 1 ends with ok == false.
 */
#ifndef WEFT_RPC_CALL_H_
#define WEFT_RPC_CALL_H_

#include <stdatomic.h>

#include "base/mutex.h"
#include "rpc/loop.h"
#include "rpc/server.h"
#include "rpc/unread.h"

/* Where a server's calls come in: what they need of it. */
typedef struct weft_rpc_intake {
  grpc_server *impl;
  grpc_completion_queue *queue;
  weft_unread_t *unread;
  weft_mutex_t mu;     /* a leaf; the server's own, too */
  weft_cond_t changed; /* signalled when num_calls falls to 0 */
  bool is_open;        /* guarded by mu: calls are awaited */
  int64_t num_calls;   /* guarded by mu: call objects alive */
} weft_rpc_intake_t;

/* A method of a server; `registered` is NULL for the one that stands for all unknown methods. */
typedef struct weft_rpc_method {
  weft_rpc_intake_t *intake;
  const char *path;
  weft_rpc_handler_fn *fn;
  void *arg;
  const void *row;
  void *registered;
} weft_rpc_method_t;

/* Counts a call object; false once the server stops. */
bool weft_rpc_intake_enter(weft_rpc_intake_t *in);
void weft_rpc_intake_leave(weft_rpc_intake_t *in);

/* Step 1. Without memory nothing is awaited: the others of the method go on.  */
void weft_rpc_call_await(weft_rpc_method_t *method);

#endif /* WEFT_RPC_CALL_H_ */
