/* rpc/call.h - one call being served, whatever brought it; only for this folder.
 *
 * A call comes over gRPC (rpc/grpc_call.c) or, from a process of this host, over a local connection
 * (rpc/local_server.c). Handlers see no difference.
 */
#ifndef WEFT_RPC_CALL_H_
#define WEFT_RPC_CALL_H_

#include "base/hash_map.h"
#include "base/mutex.h"
#include "rpc/loop.h"
#include "rpc/server.h"
#include "rpc/unread.h"

/* Where a server's calls come in: what they need of it. */
typedef struct weft_rpc_intake {
  grpc_server *impl;
  grpc_completion_queue *queue;
  weft_unread_t *unread;
  weft_map_t by_path;  /* of the methods; constant once the server has started */
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

typedef struct weft_rpc_call_ops {
  const char *(*peer)(weft_rpc_call_t *call);
  int64_t (*deadline_ns)(weft_rpc_call_t *call);
  void (*reply)(weft_rpc_call_t *call, weft_message_t *response);
  void (*fail)(weft_rpc_call_t *call, weft_status_t *status);
  void (*expect_more)(weft_rpc_call_t *call);    /* NULL: nothing happens */
  bool (*was_looked_for)(weft_rpc_call_t *call); /* NULL: no */
} weft_rpc_call_ops_t;

/* What every call has; the first member of each kind's own struct. */
struct weft_rpc_call {
  const weft_rpc_call_ops_t *ops;
  weft_rpc_method_t *method;
  weft_message_t *request; /* owned */
  weft_canceller_t *canceller;
};

/* Asks gRPC for the next call of a method. Without memory nothing is awaited: the others of the method go on.
 */
void weft_rpc_call_await(weft_rpc_method_t *method);

#endif /* WEFT_RPC_CALL_H_ */
