/* rpc/unread.h - answers that wait until their peer reads them; only for this folder.
 *
 * gRPC keeps an answer in memory until it is written out, and writes as fast as the peer reads. A peer that
 * opens calls and never reads would fill the memory of the server. So the bytes that wait for one connection
 * have a limit, beyond which calls fail with RESOURCE_EXHAUSTED, and a connection that takes no answer for a
 * while loses its calls (UNAVAILABLE). gRPC 1.51 does not tell how much of an answer is written, so a peer
 * that reads slowly has time for what waits for it. Small answers are not counted: they are no more than the
 * calls themselves.
 */
#ifndef WEFT_RPC_UNREAD_H_
#define WEFT_RPC_UNREAD_H_

#include <grpc/grpc.h>

#include "base/status.h"

enum {
  WEFT_UNREAD_SMALL = 64 << 10,   /* bytes; smaller answers are not counted */
  WEFT_UNREAD_TIMEOUT_MS = 60000, /* with a peer that takes no answer ... */
  WEFT_UNREAD_RATE = 4 << 20, /* ... beside the time that this many bytes a second allow for all that waits */
};

typedef struct weft_unread weft_unread_t; /* Thread-safe. */
typedef struct weft_unread_peer weft_unread_peer_t;

/* Part of a call; zero at first. The fields are unread.c's. */
typedef struct weft_unread_answer {
  struct weft_unread_answer *next, *prev;
  weft_unread_peer_t *peer; /* NULL: does not wait */
  grpc_call *call;          /* borrowed */
  size_t bytes;
  bool is_ended;
} weft_unread_answer_t;

/* 0: a quarter of the machine's memory, at least 4 GiB, for each connection; WEFT_UNREAD_TIMEOUT_MS. */
WEFT_MUST_CHECK weft_status_t *weft_unread_create(size_t max_bytes, int timeout_ms, weft_unread_t **out);
void weft_unread_destroy(weft_unread_t *u); /* when no answer waits. NULL is fine */
/* An answer of `bytes` is about to be sent to `peer` by `call`. Errors: RESOURCE_EXHAUSTED, then it must not
 * be. */
WEFT_MUST_CHECK weft_status_t *weft_unread_add(weft_unread_t *u, weft_unread_answer_t *a, grpc_call *call,
                                               const char *peer, size_t bytes);
/* It is on its way, or will never be. Nothing for one that does not wait. Before the call's reference is
 * given back. */
void weft_unread_remove(weft_unread_t *u, weft_unread_answer_t *a);

#endif /* WEFT_RPC_UNREAD_H_ */
