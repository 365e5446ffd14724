/* rpc/local_calls.h - the calls that a process has made to one server over one local connection; only for
 * this folder.
 *
 * States of a call:
 *   new      --weft_local_calls_start()-->  sent      it is in the table of its connection
 *   sent     --answer, failure, loss, cancellation, weft_local_calls_end()-->  over    out of the table: by
 *                                                                            whichever comes first
 *   over     --done(), on a thread of the loop-->  the caller's again
 */
#ifndef WEFT_RPC_LOCAL_CALLS_H_
#define WEFT_RPC_LOCAL_CALLS_H_

#include "base/cancellation.h"
#include "rpc/local_conn.h"

typedef struct weft_local_calls weft_local_calls_t; /* Thread-safe. Refcounted. */

typedef enum weft_local_outcome {
  WEFT_LOCAL_ANSWERED,  /* `answer` */
  WEFT_LOCAL_FAILED,    /* `status`: by a handler if is_answered, else by the server itself */
  WEFT_LOCAL_LOST,      /* the connection has ended */
  WEFT_LOCAL_SILENT,    /* the server keeps the connection and answers no ping */
  WEFT_LOCAL_CANCELLED, /* by its canceller */
  WEFT_LOCAL_ENDED      /* `status`: by weft_local_calls_end() */
} weft_local_outcome_t;

/* Part of what the caller keeps of a call; zero at first. */
typedef struct weft_local_call {
  weft_local_post_t post;
  void (*done)(struct weft_local_call *call); /* set by the caller */
  /* What became of it: */
  weft_local_outcome_t outcome;
  weft_message_t *answer; /* owned by the caller once it is over */
  weft_status_t *status;  /* the same */
  bool is_answered;
  /* The rest is of this module. */
  weft_local_calls_t *calls;   /* retained until it is over */
  weft_canceller_t *canceller; /* retained; may be NULL */
  weft_cancel_waiter_t waiter; /* there while is_registered */
  uint64_t id;
  int64_t started_ns;
  bool is_registered, is_sent, is_over; /* is_sent, is_over: guarded by the connection's table */
} weft_local_call_t;

/* How long a server may be silent while it is waited for: it is asked after WEFT_LOCAL_PING_TICKS, and given
 * up after WEFT_LOCAL_SILENT_TICKS, as gRPC's keepalive does (rpc/arguments.c). */
enum { WEFT_LOCAL_PING_TICKS = 3, WEFT_LOCAL_SILENT_TICKS = 7 };

/* Connects to a server's name, without blocking. NULL: it does not listen any more (*is_gone), or cannot take
 * a connection now, or no memory. */
weft_local_calls_t *weft_local_calls_open(weft_local_loop_t *loop, weft_str_t name, bool *is_gone);
weft_local_calls_t *weft_local_calls_retain(weft_local_calls_t *c);
void weft_local_calls_release(weft_local_calls_t *c); /* NULL is fine */
/* What is under way ends as lost. */
void weft_local_calls_close(weft_local_calls_t *c);       /* NULL is fine */
bool weft_local_calls_are_over(weft_local_calls_t *c);    /* the connection has ended */
void weft_local_calls_expect_more(weft_local_calls_t *c); /* weft_local_conn_expect_more() */

/* Begins a call; consumes `request`. `canceller` may be NULL. False: the connection has ended or there is no
 * memory, nothing was sent and nothing taken. Else call->done will be called once. */
bool weft_local_calls_start(weft_local_calls_t *c, const char *path, weft_message_t *request,
                            weft_canceller_t *canceller, weft_local_call_t *call);
/* Ends those that began before `before_ns` with `why` (copied). */
void weft_local_calls_end(weft_local_calls_t *c, const weft_status_t *why, int64_t before_ns);

#endif /* WEFT_RPC_LOCAL_CALLS_H_ */
