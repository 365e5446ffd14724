/* rpc/local_room.h - memory that the two ends of a local link share, for tensors of middle size.
 *
 * The receiver makes a file in memory, and hands it to the sender when the link begins. The sender copies a
 * tensor into a free place of it and says where; the receiver reads the bytes where they lie, and gives the
 * place back with one store when it has done with them. So a tensor is copied once, at the speed of memcpy,
 * and nothing is said about its end.
 *
 * A place has one owner at a time: the sender until it is filled, then the receiver until
 * weft_local_room_give_back(). The receiver may hear of a place while it is being filled: the answer is then
 * under way beside the copy. A room serves one link. A link that ends takes its room out of use for good: the
 * places that the receiver still has stay as they are, whatever becomes of the sender.
 *
 *   free --take--> filling --fill--> filled --give back--> free
 *                     \--await--> awaited --fill: the sender has to tell--^
 *
 * A place that the receiver has not seen filled it does not give back itself: it says the transfer's number,
 * and the sender forgets the place, also behind the copy.
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

/* Sender: takes a free place for `bytes` (1 to WEFT_LOCAL_ROOM_MOST) under the number `transfer`.
 * weft_local_room_fill() or weft_local_room_drop() comes next, with this place. False: there is no free
 * place, or the system has no memory for it. */
bool weft_local_room_take(weft_local_room_t *r, uint64_t transfer, size_t bytes, uint64_t *out_at);
typedef enum weft_local_fill {
  WEFT_LOCAL_FILLED,
  WEFT_LOCAL_FILLED_AWAITED,  /* the receiver waits to be told */
  WEFT_LOCAL_FILLED_FORGOTTEN /* the transfer was forgotten meanwhile: the place is free */
} weft_local_fill_t;
/* Sender: copies the bytes to a place that it has taken. */
weft_local_fill_t weft_local_room_fill(weft_local_room_t *r, uint64_t at, const void *data, size_t bytes);
/* Sender: a place that it has taken is free again; its receiver has not heard of it. */
void weft_local_room_drop(weft_local_room_t *r, uint64_t at);
/* Sender: `transfer` has failed, and its receiver does not use its places. True: it had some. */
bool weft_local_room_forget(weft_local_room_t *r, uint64_t transfer);

/* Receiver: the bytes of a place, to be read once they are there, which is the caller's until it is given
 * back; NULL: it does not lie in the room. */
void *weft_local_room_at(const weft_local_room_t *r, uint64_t at, size_t bytes);
/* Receiver, of what weft_local_room_at() gave: are the bytes there? */
bool weft_local_room_is_filled(const weft_local_room_t *r, const void *data);
/* The same, but if they are not, the sender tells when they are. */
bool weft_local_room_await(weft_local_room_t *r, const void *data);
/* Receiver: `data` is what weft_local_room_at() gave. */
void weft_local_room_give_back(weft_local_room_t *r, const void *data);

#endif /* WEFT_RPC_LOCAL_ROOM_H_ */
