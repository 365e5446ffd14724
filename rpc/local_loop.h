/* rpc/local_loop.h - threads that wait for descriptors of a process's local connections; only for this
 * folder.
 */
#ifndef WEFT_RPC_LOCAL_LOOP_H_
#define WEFT_RPC_LOCAL_LOOP_H_

#include "rpc/local_packet.h"

typedef struct weft_local_loop weft_local_loop_t; /* Thread-safe. */

/* What a loop waits for: a descriptor that can be read or written. Once it can, `ready` is called, on one of
 * the loop's threads, and nothing more until it is awaited again. */
typedef struct weft_local_source {
  int fd;
  void (*ready)(struct weft_local_source *self, weft_packet_room_t *room);
  struct weft_local_slot *slot; /* the loop's, while it is added */
} weft_local_source_t;
typedef enum weft_local_interest {
  WEFT_LOCAL_READ,
  WEFT_LOCAL_WRITE,
  WEFT_LOCAL_BELL /* an eventfd that is never read: each write is an event */
} weft_local_interest_t;

/* What the loop's end waits for, and what hears its ticks. */
typedef struct weft_local_member {
  const struct weft_local_member_ops *ops;
  struct weft_local_member *prev, *next; /* guarded by the loop */
} weft_local_member_t;
typedef struct weft_local_member_ops {
  void (*retain)(weft_local_member_t *m);  /* the loop keeps it for a call of `tick`; under the loop's lock */
  void (*release)(weft_local_member_t *m); /* under no lock */
  bool (*tick)(weft_local_member_t *m);    /* true: wants another */
} weft_local_member_ops_t;

/* Something to be done by one of the loop's threads. */
typedef struct weft_local_post {
  struct weft_local_post *next;
  void (*fn)(struct weft_local_post *self); /* may free it */
} weft_local_post_t;

WEFT_MUST_CHECK weft_status_t *weft_local_loop_create(weft_local_loop_t **out);
/* Waits until the loop has no members any more; joins the threads. Not from one of them. NULL is fine. */
void weft_local_loop_destroy(weft_local_loop_t *l);

/* Waits for the source from now on; it must not be awaited. False without memory. */
bool weft_local_loop_add(weft_local_loop_t *l, weft_local_source_t *s, weft_local_interest_t what);
bool weft_local_loop_again(weft_local_loop_t *l, weft_local_source_t *s, weft_local_interest_t what);
void weft_local_loop_remove(weft_local_loop_t *l,
                            weft_local_source_t *s); /* before its descriptor is closed */
/* Of a WEFT_LOCAL_BELL, which is awaited again without a system call: true: the calling thread has it, as in
 * `ready`, until it leaves it. False: another thread has it, or it is not added. */
bool weft_local_source_take(weft_local_source_t *s);
void weft_local_source_leave(weft_local_source_t *s);
/* Calls `look` for a moment, until it is true (base/polling.h), unless another thread looks for something:
 * false then. */
bool weft_local_loop_look(weft_local_loop_t *l, bool (*look)(void *arg), void *arg);
void weft_local_loop_post(weft_local_loop_t *l, weft_local_post_t *p);
void weft_local_loop_enter(weft_local_loop_t *l, weft_local_member_t *m);
void weft_local_loop_leave(weft_local_loop_t *l, weft_local_member_t *m);
/* From now on members hear a tick every WEFT_LOCAL_TICK_MS, until none has a use for it. */
void weft_local_loop_tick(weft_local_loop_t *l);
enum { WEFT_LOCAL_TICK_MS = 500 };

#endif /* WEFT_RPC_LOCAL_LOOP_H_ */
