/* rpc/local_ring.h - packets between two processes of one host through memory that both have mapped.
 *
 * A connection has a ring for each direction, in one file in memory, and a bell for each end: an eventfd that
 * the other end writes when it has put a packet into an empty ring. A packet so costs its sender a copy and,
 * where the reader may sleep, one system call; a reader that looks at the ring by itself costs none.
 *
 * The caller makes the file and the bells and sends them over the connection's socket. The socket remains:
 * for packets that are too large for a ring or find it full, and as the sign that the other end lives. A
 * packet may overtake another one that went the other way.
 *
 * What the other end writes is copied before it is looked at, and each of its numbers is read once. The
 * file's size is sealed, so the memory stays. A faulty peer can harm this connection alone, as long as it
 * leaves the bells non-blocking; it is a process of the same user.
 *
 * Source: the ring with one reader is that of Lamport, "Proving the Correctness of Multiprocess Programs"
 * (1977), with a lock among the writers; bells follow eventfd(2) and the edge-triggered events of epoll(7).
 */
#ifndef WEFT_RPC_LOCAL_RING_H_
#define WEFT_RPC_LOCAL_RING_H_

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
  WEFT_LOCAL_RING_BYTES = 32 << 10, /* of each direction: stays in the cache of its two users */
  WEFT_LOCAL_RING_MOST = 8 << 10,   /* bytes of a packet */
  WEFT_LOCAL_RING_FILES = 3         /* the memory, the server's bell, the caller's */
};

typedef struct weft_local_rings weft_local_rings_t; /* One end's view of a connection's rings. */

/* The caller's end: new memory and bells. NULL where the system has none, and without memory. */
weft_local_rings_t *weft_local_rings_create(void);
/* The server's end: what the caller has sent, in the order of weft_local_rings_file(); consumes the files.
 * NULL: they are not what they should be, or no memory. */
weft_local_rings_t *weft_local_rings_open(const int files[WEFT_LOCAL_RING_FILES]);
/* The caller's: what is to be sent. Lent. */
int weft_local_rings_file(const weft_local_rings_t *r, int i);
/* The caller's: all has been sent. */
void weft_local_rings_sent(weft_local_rings_t *r);
void weft_local_rings_destroy(weft_local_rings_t *r); /* NULL is fine */

/* Puts a packet into the ring to the other end. False: it is too large, there is no room, or the other end
 * does not read its ring yet. Thread-safe; never waits. */
bool weft_local_rings_put(weft_local_rings_t *r, const struct iovec *pieces, int n);

/* The reader: one thread at a time. */

/* Copies the next packet of the other end to `to`, which has room for WEFT_LOCAL_RING_MOST bytes. Returns its
 * size; 0: there is none; -1: the ring is not as its writer should leave it. */
ssize_t weft_local_rings_take(weft_local_rings_t *r, void *to);
/* From now on the reader looks by itself, and is not told by its bell; or it is told. Nothing is put before
 * the first of these calls. What was put while the reader looked must be looked for once more behind the
 * change. */
void weft_local_rings_look(weft_local_rings_t *r, bool looks);

/* Any thread: is there a packet? A thread that has ended its turn as reader asks: bells that rang meanwhile
 * were of no use. */
bool weft_local_rings_has_more(weft_local_rings_t *r);
int weft_local_rings_bell(
    const weft_local_rings_t *r);                   /* this end's; lent; to be waited for until readable */
void weft_local_rings_wake(weft_local_rings_t *r);  /* writes this end's bell */
void weft_local_rings_quiet(weft_local_rings_t *r); /* reads it, so that it is not readable any more */

#endif /* WEFT_RPC_LOCAL_RING_H_ */
