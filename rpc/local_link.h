/* rpc/local_link.h - large payloads between two processes of one user on one host, past gRPC.
 *
 * A Unix stream socket carries twice what a TCP connection on loopback does, and
 * the receiver reads straight into the buffer that will be used. The sender
 * listens at a random abstract name, which it tells its peers by RPC; a receiver
 * connects, and both check that the other end belongs to their own user. From
 * then on the sender may push payloads, each under a number that the receiver
 * chose and expects. Whatever goes wrong here, gRPC still works: a link that
 * cannot be made is no error.
 *
 * What the receiver can read where it lies, the sender lends: it hears over the link when the receiver is
 * done with it, and a link that breaks gives back all that was lent over it.
 *
 * What is not too large for the memory that both ends share (rpc/local_room.h), the sender copies there. A
 * receiver that hears of it before the copy is made, and does not see it made soon, is told over the link.
 *
 * Wire: the receiver says (magic, link id) once, and hands over the file of its room; then per payload the
 * sender says (transfer, header bytes, payload bytes) in three little-endian words, the header, the payload.
 * Per place whose filling the receiver awaits it says (transfer, all bits set, 0).
 * Per loan the receiver says (transfer, what became of it) in two.
 */
#ifndef WEFT_RPC_LOCAL_LINK_H_
#define WEFT_RPC_LOCAL_LINK_H_

#include "base/str.h"
#include "rpc/local_room.h"

enum { WEFT_LOCAL_LINK_MAX_HEADER = 4096, WEFT_LOCAL_LINK_MAX_LINKS = 64 };

/* Tells whether two processes could reach each other this way: the boot of the machine and the user.
 * Empty if that cannot be found out, or the environment has WEFT_LOCAL_LINKS=0: tensors then go as between
 * hosts. Static; thread-safe. */
weft_str_t weft_local_link_host(void);

/* ---- the sending end: a listener and its links ---- */

typedef struct weft_local_sender weft_local_sender_t; /* Thread-safe. */

/* Starts a thread that accepts. */
WEFT_MUST_CHECK weft_status_t *weft_local_sender_create(weft_local_sender_t **out);
/* Breaks all links, releases what is still queued, joins the threads. NULL is fine. */
void weft_local_sender_destroy(weft_local_sender_t *s);
weft_str_t weft_local_sender_name(const weft_local_sender_t *s);
/* Is the link there? A receiver may ask for a tensor over its link before the link's thread has heard of it,
 * and any link may break at any time. */
bool weft_local_sender_has(weft_local_sender_t *s, uint64_t link);
/* Queues a payload; never blocks. `header` is copied. True: release(arg) will be called once, on any thread,
 * when the bytes are no longer needed. False: there is no such link, or no memory, and nothing was taken. */
bool weft_local_sender_send(weft_local_sender_t *s, uint64_t link, uint64_t transfer, weft_str_t header,
                            const void *data, size_t bytes, void (*release)(void *arg), void *arg);

/* The same for bytes that come while they are sent. arrive(arg, at), on the link's thread, waits until more
 * than the first `at` bytes are there and returns how many are, from the first on; 0: they will never be, and
 * then the link breaks. */
bool weft_local_sender_stream(weft_local_sender_t *s, uint64_t link, uint64_t transfer, weft_str_t header,
                              const void *data, size_t bytes, size_t (*arrive)(void *arg, size_t at),
                              void (*release)(void *arg), void *arg);

typedef enum weft_local_end {
  WEFT_LOCAL_DONE,     /* the receiver does not need it any more */
  WEFT_LOCAL_UNUSABLE, /* the receiver cannot read it, and waits for the bytes on the link */
  WEFT_LOCAL_BROKEN    /* the link has broken */
} weft_local_end_t;
/* Called once, on any thread, under no lock. False: the receiver waits for what will not come, and the link
 * breaks. */
typedef bool weft_local_loan_fn(void *arg, weft_local_end_t how);

/* Lends something to the receiving end, which hears of it by other means, later, under the number `transfer`.
 * True: fn(arg, ...) will be called. False: there is no such link, the receiver has given it back already, or
 * no memory. */
bool weft_local_sender_lend(weft_local_sender_t *s, uint64_t link, uint64_t transfer, weft_local_loan_fn *fn,
                            void *arg);

/* A place in the room of a link's receiving end, which is to be filled. */
typedef struct weft_local_place {
  weft_local_sender_t *sender; /* stays until it is filled */
  weft_local_room_t *room;     /* owned */
  uint64_t link, transfer, at;
} weft_local_place_t;
/* Takes a place for `bytes` in the room of the receiving end, which hears of it by other means, later, at
 * out->at, under the number `transfer`. weft_local_sender_fill() comes next. False: there is no such link or
 * room, the receiver has given it back already, or there is no free place. */
bool weft_local_sender_take(weft_local_sender_t *s, uint64_t link, uint64_t transfer, size_t bytes,
                            weft_local_place_t *out);
/* Copies the bytes to the place, before or after the receiver hears of it. Consumes what `p` owns; calls
 * release(arg) when the bytes are no longer needed. False: the receiver has given it back meanwhile, or the
 * link is over. */
bool weft_local_sender_fill(weft_local_place_t *p, const void *data, size_t bytes, void (*release)(void *arg),
                            void *arg);

/* ---- the receiving end: one link ---- */

typedef struct weft_local_receiver weft_local_receiver_t; /* Thread-safe. */

/* All are called on the link's thread, one at a time. */
typedef struct weft_local_receiver_ops {
  /* Where the payload is to go, `bytes` long; NULL: it is not wanted and is skipped. */
  void *(*begin)(void *arg, uint64_t transfer, weft_str_t header, size_t bytes);
  /* The first `there` bytes of it have come; each time that some have. May be NULL. */
  void (*arrive)(void *arg, uint64_t transfer, size_t there);
  /* The payload is there, or will never be. Only after a begin that gave a place. */
  void (*end)(void *arg, uint64_t transfer, bool is_whole);
  /* The place of a transfer, for which weft_local_room_await() was false, is filled. May be NULL, if it never
   * was. */
  void (*filled)(void *arg, uint64_t transfer);
  /* The link is over; the last call of all. */
  void (*closed)(void *arg);
} weft_local_receiver_ops_t;

/* Connects to a sender's name, without blocking, and starts the link's thread. Errors: UNAVAILABLE,
 * RESOURCE_EXHAUSTED; `closed` is then not called. */
WEFT_MUST_CHECK weft_status_t *weft_local_receiver_create(weft_str_t name,
                                                          const weft_local_receiver_ops_t *ops, void *arg,
                                                          weft_local_receiver_t **out);
uint64_t weft_local_receiver_link(const weft_local_receiver_t *r); /* what the sender knows it by; never 0 */
/* The sender's process, as the kernel says; 0: it is not seen from here. */
int64_t weft_local_receiver_peer(const weft_local_receiver_t *r);
/* Where the sender puts tensors. Lent; a holder of a place retains it. NULL: nowhere. */
weft_local_room_t *weft_local_receiver_room(const weft_local_receiver_t *r);
/* Gives back a loan, or the places of a transfer of which the receiver does not hear any more; neither need
 * have been made yet. False: the link is over, and what was lent over it may be gone since any time. Never
 * blocks. */
bool weft_local_receiver_give_back(weft_local_receiver_t *r, uint64_t transfer, weft_local_end_t how);
/* Another holder, with a release of its own; the link may be over meanwhile. */
weft_local_receiver_t *weft_local_receiver_retain(weft_local_receiver_t *r);
void weft_local_receiver_release(weft_local_receiver_t *r); /* NULL is fine */
/* Breaks the link. Its thread frees it after `closed`. May be called from the callbacks. NULL is fine. */
void weft_local_receiver_close(weft_local_receiver_t *r);

#endif /* WEFT_RPC_LOCAL_LINK_H_ */
