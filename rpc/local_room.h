/* rpc/local_room.h - memory that the two ends of a local link share, for tensors of middle size.
 *
 * The receiver makes a file in memory, and hands it to the sender when the link begins. The sender copies a
 * tensor into a free place of it and says where; the receiver reads the bytes where they lie, and gives the
 * place back with one store when it has done with them. So a tensor is copied once, at the speed of memcpy,
 * and nothing is said about its end.
 *
 * A place has one owner at a time: the sender from weft_local_room_put() to its answer, then the receiver
 * until weft_local_room_give_back(). A room serves one link. A link that ends takes its room out of use for
 * good: the places that the receiver still has stay as they are, whatever becomes of the sender.
 *
 * The file is sealed against a change of its size, so no end can take memory away from the other. What the
 * other end writes into it can harm the tensors of this link, and nothing else: the sender keeps the sizes of
 * its places itself.
 */
#ifndef WEFT_RPC_LOCAL_ROOM_H_
#define WEFT_RPC_LOCAL_ROOM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  WEFT_LOCAL_ROOM_BYTES = 32 << 20, /* memory is taken as it is used */
  WEFT_LOCAL_ROOM_UNIT = 64 << 10,  /* places begin at multiples */
  WEFT_LOCAL_ROOM_MOST = 4 << 20,   /* bytes of a place */
};

typedef struct weft_local_room weft_local_room_t; /* Thread-safe. Refcounted. One end's view. */

/* The receiver's: a new file. NULL where the system has no such files, and without memory. */
weft_local_room_t *weft_local_room_create(void);
/* The sender's: the file that the receiver has handed over, which is consumed. NULL if it is not sealed, or
 * no room. */
weft_local_room_t *weft_local_room_open(int file);
weft_local_room_t *weft_local_room_retain(weft_local_room_t *r); /* NULL is fine */
void weft_local_room_release(weft_local_room_t *r);              /* NULL is fine */
int weft_local_room_file(const weft_local_room_t *r);            /* lent */

/* Sender: copies `bytes` (1 to WEFT_LOCAL_ROOM_MOST) to a free place, under the number `transfer`. False:
 * there is no free place, the system has no memory for it, or the transfer has been forgotten meanwhile. */
bool weft_local_room_put(weft_local_room_t *r, uint64_t transfer, const void *data, size_t bytes,
                         uint64_t *out_at);
/* Sender: `transfer` has failed, and its receiver does not know of its places. True: it had some. */
bool weft_local_room_forget(weft_local_room_t *r, uint64_t transfer);

/* Receiver: the bytes of a place, to be read, which is the caller's until it is given back; NULL: it does not
 * lie in the room. */
void *weft_local_room_at(const weft_local_room_t *r, uint64_t at, size_t bytes);
/* Receiver: `data` is what weft_local_room_at() gave. */
void weft_local_room_give_back(weft_local_room_t *r, const void *data);

#endif /* WEFT_RPC_LOCAL_ROOM_H_ */
