/* rpc/channel.h - calls unary methods of one server over gRPC. */
#ifndef WEFT_RPC_CHANNEL_H_
#define WEFT_RPC_CHANNEL_H_

#include "base/cancellation.h"
#include "rpc/message.h"

/* gRPC's library and the threads that wait for answers; shared by all channels of a process. Thread-safe. */
typedef struct weft_rpc_client weft_rpc_client_t;
WEFT_MUST_CHECK weft_status_t *weft_rpc_client_create(int num_threads, weft_rpc_client_t **out);
/* Ends the calls that have no canceller of their own: after `grace_ms`, or as soon as none is left. Later
 * ones end at once with CANCELLED. For a process that goes and does not wait for peers that hang. */
void weft_rpc_client_stop(weft_rpc_client_t *c, int grace_ms);
void weft_rpc_client_destroy(
    weft_rpc_client_t *c); /* after its channels; waits for calls in flight. NULL is fine */

typedef struct weft_rpc_channel weft_rpc_channel_t; /* Thread-safe. Refcounted. */
/* `target` is "host:port". Connects at the first call and again after a loss (at most 1 s between tries). */
WEFT_MUST_CHECK weft_status_t *weft_rpc_channel_create(weft_rpc_client_t *c, weft_str_t target,
                                                       weft_rpc_channel_t **out);
weft_rpc_channel_t *weft_rpc_channel_retain(weft_rpc_channel_t *c);
void weft_rpc_channel_release(weft_rpc_channel_t *c);
weft_str_t weft_rpc_channel_target(const weft_rpc_channel_t *c);
/* What a failure of the connection calls the server, beside its address: "/job:ps/replica:0/task:0". Copied;
 * the first name stays. */
void weft_rpc_channel_name_peer(weft_rpc_channel_t *c, weft_str_t name);
/* The server is known to be gone or to hang: each call in flight ends with `why` (not OK; copied), but those
 * that wait for the server to come up, whatever happens to it (weft_rpc_options_t), and those younger than
 * `min_age_ms`. Later ones are not harmed. */
void weft_rpc_channel_end_calls(weft_rpc_channel_t *c, const weft_status_t *why, int64_t min_age_ms);
/* Did the last call end with UNAVAILABLE because the server keeps the connection, but answers no ping? What
 * was asked may have reached it, and it may yet do it. */
bool weft_rpc_channel_is_silent(weft_rpc_channel_t *c);
/* The server is known to hang: from now on calls end at once with `why` (copied), but those that wait for the
 * server to come up. NULL, or a call that is answered: it is served again. */
void weft_rpc_channel_refuse(weft_rpc_channel_t *c, const weft_status_t *why);

/* Another answer is likely to come within some tens of microseconds: within a host a thread looks for it for
 * a moment before it sleeps. For the function that is told of an answer. */
void weft_rpc_channel_expect_more(weft_rpc_channel_t *c);

/* Called once, on a client thread. Owns both; response is NULL on failure. */
typedef void weft_rpc_done_fn(void *arg, weft_status_t *status, weft_message_t *response);

typedef struct weft_rpc_options {
  bool wait_for_ready;         /* wait for the server to come up instead of failing with UNAVAILABLE */
  bool ends_at_loss;           /* with wait_for_ready: until the server is known to be gone, as other calls */
  int64_t timeout_ms;          /* 0: none. Then DEADLINE_EXCEEDED */
  weft_canceller_t *canceller; /* cancels the call: CANCELLED. May be NULL */
  /* Of weft_rpc_call_sync, for a call that stays open beside others: its end is noticed within half a second,
   * and the thread that waits does not poll meanwhile. gRPC would have that thread take in the messages of
   * all others: a step took 90 us longer. */
  bool is_quiet;
  bool *out_is_answered; /* of weft_rpc_call_sync: whether a failure comes from a server of ours, not from the
                            connection. May be NULL */
} weft_rpc_options_t;

/* A string constant as `path` is found fastest. Consumes `request`. */
void weft_rpc_call(weft_rpc_channel_t *c, const char *path, weft_message_t *request,
                   const weft_rpc_options_t *o, weft_rpc_done_fn *done, void *arg);
/* The same, waiting: for clients with nothing else to do. The calling thread polls for its own answer, so a
 * call costs no thread switch. *out is owned. */
WEFT_MUST_CHECK weft_status_t *weft_rpc_call_sync(weft_rpc_channel_t *c, const char *path,
                                                  weft_message_t *request, const weft_rpc_options_t *o,
                                                  weft_message_t **out);

#endif /* WEFT_RPC_CHANNEL_H_ */
