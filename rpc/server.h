/* rpc/server.h - serves unary methods over gRPC.
 *
 * Methods are registered by path ("/tensorflow.MasterService/RunStep") before
 * the start. A few threads wait on completion queues and call handlers; a
 * handler must not block: it keeps the call and answers later, from any thread.
 */
#ifndef WEFT_RPC_SERVER_H_
#define WEFT_RPC_SERVER_H_

#include "base/cancellation.h"
#include "rpc/message.h"

typedef struct weft_rpc_server weft_rpc_server_t; /* Thread-safe. */
typedef struct weft_rpc_call weft_rpc_call_t;     /* One call being served; see below. */

/* Owns `call` until it has answered it: exactly one of weft_rpc_reply and weft_rpc_fail, once. */
typedef void weft_rpc_handler_fn(void *arg, weft_rpc_call_t *call);

typedef struct weft_rpc_server_options {
  const char *host;        /* "127.0.0.1" to listen on loopback, "0.0.0.0" or "[::]" for all */
  int port;                /* 0: any free one */
  int num_threads;         /* that poll and run handlers; 0: chosen */
  size_t max_unread_bytes; /* of answers that wait for one connection; 0: see rpc/unread.h */
  int unread_timeout_ms;   /* with a connection that takes none of them; 0: the same */
  /* Runs on this client's threads instead of its own, if not NULL (borrowed): the way for a server that also
   * calls others, because two sets of threads would wake each other for every message. */
  struct weft_rpc_client *client;
} weft_rpc_server_options_t;

WEFT_MUST_CHECK weft_status_t *weft_rpc_server_create(const weft_rpc_server_options_t *o,
                                                      weft_rpc_server_t **out);
/* Before the start. `path` must be a string constant; `row`, which a call knows (weft_rpc_call_row), lives as
 * long as the server and may be NULL. */
WEFT_MUST_CHECK weft_status_t *weft_rpc_server_handle(weft_rpc_server_t *s, const char *path,
                                                      weft_rpc_handler_fn *fn, void *arg, const void *row);
/* Binds and listens. Errors: UNAVAILABLE naming host:port if it is taken. Unknown methods get UNIMPLEMENTED.
 */
WEFT_MUST_CHECK weft_status_t *weft_rpc_server_start(weft_rpc_server_t *s);
int weft_rpc_server_port(const weft_rpc_server_t *s); /* the bound one */
/* Stops accepting, cancels the calls in flight after `grace_ms`, waits for their handlers' answers.
 * Idempotent. */
void weft_rpc_server_stop(weft_rpc_server_t *s, int grace_ms);
void weft_rpc_server_destroy(weft_rpc_server_t *s); /* stops first; NULL is fine */

const void *weft_rpc_call_row(const weft_rpc_call_t *call);   /* what its method was registered with */
weft_message_t *weft_rpc_call_request(weft_rpc_call_t *call); /* lent until the answer */
/* Cancelled when the client goes away, cancels or its deadline passes, and when the server stops. Lent until
 * the answer. */
weft_canceller_t *weft_rpc_call_canceller(weft_rpc_call_t *call);
const char *weft_rpc_call_peer(weft_rpc_call_t *call);    /* "ipv4:127.0.0.1:4711"; for messages */
int64_t weft_rpc_call_deadline_ns(weft_rpc_call_t *call); /* on weft_clock_ns()'s scale; INT64_MAX: none */
/* The caller is likely to call again within some tens of microseconds: within a host a thread looks for that
 * call for a moment before it sleeps. */
void weft_rpc_call_expect_more(weft_rpc_call_t *call);
/* Is the calling thread the one that looked for this call and found it, and has not slept since the call
 * before? Cores are free then, and the caller is likely to be awake, too. */
bool weft_rpc_call_was_looked_for(weft_rpc_call_t *call);
/* Both consume their arguments and end the call. A status text over 3,072 bytes is cut, as TensorFlow cuts
 * it. An answer that is too much for a peer that does not read becomes RESOURCE_EXHAUSTED. In-band errors are
 * the caller's business. UNAVAILABLE from a handler would be retried by TensorFlow clients. */
void weft_rpc_reply(weft_rpc_call_t *call, weft_message_t *response);
void weft_rpc_fail(weft_rpc_call_t *call, weft_status_t *status);

#endif /* WEFT_RPC_SERVER_H_ */
