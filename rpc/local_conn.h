/* rpc/local_conn.h - a connection to a process of the same host; only for this folder.
 *
 * Packets of one connection may be handled by several threads at once, as the calls of one gRPC connection
 * are: a handler that takes its time does not hold up the packets behind it. Only a packet that cancels a
 * call does: calls that are sent after it, through the ring or over the socket, are handled once its handler
 * has returned.
 */
#ifndef WEFT_RPC_LOCAL_CONN_H_
#define WEFT_RPC_LOCAL_CONN_H_

#include <stdatomic.h>

#include "base/mutex.h"
#include "rpc/local_loop.h"

typedef struct weft_local_conn weft_local_conn_t; /* Thread-safe. Refcounted. */

typedef enum weft_local_way { WEFT_LOCAL_RING, WEFT_LOCAL_SOCKET, WEFT_LOCAL_WAYS } weft_local_way_t;

/* The order of cancellations and calls, at the end that sends them and at the one that handles them. */
typedef struct weft_local_order {
  weft_mutex_t sending;                          /* a CANCEL is sent and counted under it */
  atomic_uint_fast64_t sent[WEFT_LOCAL_WAYS];    /* CANCELs; change under `sending` */
  weft_mutex_t mu;                               /* a leaf */
  atomic_uint_fast64_t handled[WEFT_LOCAL_WAYS]; /* CANCELs; change under mu */
  struct waiting_packet
      *held[WEFT_LOCAL_WAYS]; /* guarded by mu: calls that came before what they are behind */
  size_t held_bytes;          /* guarded by mu */
} weft_local_order_t;

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
  weft_local_member_t member; /* of the loop, until it has closed */
  weft_mutex_t mu;
  struct waiting_packet *first, **last; /* guarded by mu: packets that wait for room in the buffer */
  size_t waiting_bytes;                 /* guarded by mu */
  atomic_bool has_waiting, is_broken;   /* change under mu; read without it */
  weft_local_order_t order;
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

#endif /* WEFT_RPC_LOCAL_CONN_H_ */
