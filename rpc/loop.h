/* rpc/loop.h - gRPC's library, one completion queue, and the threads that wait at it; only for this folder.
 *
 * gRPC reports the end of every operation at a completion queue, with the tag
 * that the operation was started with. Our tags are objects with a function;
 * whichever thread takes the event calls it. A server and the channels of one
 * process should share a loop: with two, the thread that reads a socket would
 * mostly be one of the other loop, and every message would cost a thread switch.
 */
#ifndef WEFT_RPC_LOOP_H_
#define WEFT_RPC_LOOP_H_

#include <grpc/grpc.h>
#include <stdatomic.h>

#include "base/status.h"
#include "rpc/local_loop.h"

typedef struct weft_rpc_tag weft_rpc_tag_t;
struct weft_rpc_tag {
  void (*done)(weft_rpc_tag_t *self, bool ok); /* on a loop thread; may free the tag */
  atomic_bool is_armed;
};
/* Before the operation starts. gRPC orders what we wrote before what the loop reads; ThreadSanitizer, which
 * cannot look into libgrpc, needs this pair with the load in loop.c to know. */
static inline void weft_rpc_tag_arm(weft_rpc_tag_t *t) {
  atomic_store_explicit(&t->is_armed, true, memory_order_release);
}

typedef struct weft_rpc_loop weft_rpc_loop_t; /* Thread-safe. */

/* `num_threads` 0: chosen. Threads start with weft_rpc_loop_start. */
WEFT_MUST_CHECK weft_status_t *weft_rpc_loop_create(int num_threads, weft_rpc_loop_t **out);
/* Starts the threads that do not run yet: a client that only makes waiting calls needs none. */
WEFT_MUST_CHECK weft_status_t *weft_rpc_loop_start(weft_rpc_loop_t *l);
/* Handles all events still to come, and joins the threads. Not from one of them. NULL is fine. */
void weft_rpc_loop_destroy(weft_rpc_loop_t *l);
grpc_completion_queue *weft_rpc_loop_queue(weft_rpc_loop_t *l);
/* The loop of the process's local connections, lent; starts at the first call. Its connections are broken
 * before weft_rpc_loop_destroy(). Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_rpc_loop_local(weft_rpc_loop_t *l, weft_local_loop_t **out);

#endif /* WEFT_RPC_LOOP_H_ */
