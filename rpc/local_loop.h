/* rpc/local_loop.h - threads that wait for the packets of a process's local connections; only for this
 * folder.
 *
 * Packets of one connection may be handled by several threads at once, as the calls of one gRPC connection
 * are: a handler that takes its time does not hold up the packets behind it. Only a packet that cancels a
 * call does: what is behind it on the same way, ring or socket, is taken once its handler has returned.
 */
#ifndef WEFT_RPC_LOCAL_LOOP_H_
#define WEFT_RPC_LOCAL_LOOP_H_

#include <stdatomic.h>

#include "base/mutex.h"
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

/* Something to be done by one of the loop's threads. */
typedef struct weft_local_post {
  struct weft_local_post *next;
  void (*fn)(struct weft_local_post *self); /* may free it */
} weft_local_post_t;

WEFT_MUST_CHECK weft_status_t *weft_local_loop_create(weft_local_loop_t **out);
/* Waits until the loop's connections have closed, which their owners have broken before; joins the threads.
 * Not from one of them. NULL is fine. */
void weft_local_loop_destroy(weft_local_loop_t *l);

/* Waits for the source from now on; it must not be awaited. False without memory. */
bool weft_local_loop_add(weft_local_loop_t *l, weft_local_source_t *s, weft_local_interest_t what);
bool weft_local_loop_again(weft_local_loop_t *l, weft_local_source_t *s, weft_local_interest_t what);
void weft_local_loop_remove(weft_local_loop_t *l,
                            weft_local_source_t *s); /* before its descriptor is closed */
void weft_local_loop_post(weft_local_loop_t *l, weft_local_post_t *p);
/* From now on connections hear a tick every WEFT_LOCAL_TICK_MS, until none has a use for it. */
void weft_local_loop_tick(weft_local_loop_t *l);
enum { WEFT_LOCAL_TICK_MS = 500 };

/* ---- connections ---- */

typedef struct weft_local_conn weft_local_conn_t; /* Thread-safe. Refcounted. */

typedef struct weft_local_conn_ops {
  void (*packet)(weft_local_conn_t *c, weft_packet_t *p); /* owns what the packet owns */
  void (*closed)(weft_local_conn_t *c); /* once; packets taken before may still be handled */
  bool (*tick)(weft_local_conn_t *c);   /* true: wants another. May be NULL */
  void (*destroy)(weft_local_conn_t *c);
} weft_local_conn_ops_t;

/* The first member of what each end keeps of it. */
struct weft_local_conn {
  const weft_local_conn_ops_t *ops;
  weft_local_loop_t *loop;     /* borrowed */
  weft_local_source_t in, out; /* out: another descriptor of the socket, once the buffer was full */
  weft_local_source_t bell;    /* of the rings */
  weft_local_rings_t *rings;   /* owned; NULL: packets go over the socket. A server's are there later */
  atomic_int refs;
  weft_local_conn_t *prev, *next; /* guarded by the loop */
  weft_mutex_t mu;
  struct waiting_packet *first, **last; /* guarded by mu: packets that wait for room in the buffer */
  size_t waiting_bytes;                 /* guarded by mu */
  atomic_bool has_waiting, is_broken;   /* change under mu; read without it */
  atomic_bool expects_more;
  atomic_bool is_ending;            /* nothing more comes over the socket */
  int num_late;                     /* packets taken since; of the thread that has the bell */
  bool is_caller;                   /* constant */
  int files[WEFT_LOCAL_RING_FILES]; /* of the thread that has `in`, as the next: what a caller has sent */
  int num_files;                    /* all: nothing more is taken, and the files are not owned any more */
};

/* Takes over the connected socket `fd` and receives from now on; the end that has connected offers rings to
 * the other one. The caller has one reference, the loop another, until the connection has closed. Errors:
 * RESOURCE_EXHAUSTED; the connection is destroyed then. */
WEFT_MUST_CHECK weft_status_t *weft_local_conn_open(weft_local_conn_t *c, const weft_local_conn_ops_t *ops,
                                                    weft_local_loop_t *loop, int fd, bool is_caller);
weft_local_conn_t *weft_local_conn_retain(weft_local_conn_t *c);
void weft_local_conn_release(weft_local_conn_t *c); /* NULL is fine */
/* Sends it now or when there is room; consumes its message. DONE, OVER or NO_MEMORY. Never waits. */
weft_packet_result_t weft_local_conn_send(weft_local_conn_t *c, const weft_packet_t *p);
void weft_local_conn_break(weft_local_conn_t *c); /* `closed` comes soon */
/* Another packet is likely to come within some tens of microseconds: the thread that handles one now, or the
 * next, looks for it before it sleeps (base/polling.h). */
void weft_local_conn_expect_more(weft_local_conn_t *c);

#endif /* WEFT_RPC_LOCAL_LOOP_H_ */
