/* collectives/remote/host_link.h - short messages between the tasks of one host, and reading in each other's
 * memory.
 *
 * Tasks that run on one host, for one user, in one network and process namespace
 * are linked by a Unix socket per pair. Over it a task announces its offers; small payloads come with that
 * message, large ones are read by the receiver straight out of the owner's memory (process_vm_readv), in
 * blocks that stay in the cache. The link's end is the first sign that a task is lost. With the greeting the
 * two hand each other their segments (collectives/remote/posts.h), in which all members of a small collective
 * read.
 *
 * Whether two tasks are linked is decided once per incarnation of theirs, before
 * the first group that holds both is complete, and both decide the same: the one
 * with the smaller name connects. Without a link all goes by RPC.
 *
 * Source for the split in eager and rendezvous messages: MPI implementations, e.g. Open MPI's vader/sm with
 * CMA.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_HOST_LINK_H_
#define WEFT_COLLECTIVES_REMOTE_HOST_LINK_H_

#include "base/str.h"
#include "collectives/remote/posts.h"

enum {
  WEFT_HOST_LINK_INLINE =
      16 << 10, /* bytes that still go with the message: two copies cost less than two wake-ups */
  WEFT_HOST_LINK_BLOCK = 256 << 10, /* read and consumed at once: a quarter of a core's second-level cache */
};

typedef struct weft_host_links weft_host_links_t; /* Thread-safe. */
typedef struct weft_host_link weft_host_link_t;   /* Thread-safe. Refcounted. One end of one link. */

/* An offer as it is announced over a link; all lent. */
typedef struct weft_host_offer {
  uint64_t id; /* of the owner; 0: no answer is expected */
  int64_t step_id;
  weft_str_t key, to_device;
  size_t bytes;
  uint64_t address;        /* in the owner's memory */
  const void *inline_data; /* NULL: read it at `address` */
} weft_host_offer_t;

/* All are called on the links' thread, one at a time, with no lock of ours held. */
typedef struct weft_host_link_ops {
  void (*offered)(void *arg, weft_host_link_t *l, const weft_host_offer_t *o);
  void (*finished)(void *arg, weft_host_link_t *l,
                   uint64_t id); /* this task's offer was read, or is not wanted any more */
  void (*refused)(void *arg, weft_host_link_t *l,
                  uint64_t id); /* this task's offer cannot be read; its receiver will call for it */
  void (*linked)(void *arg, double seconds); /* a new link: the seconds that a short message takes */
  void (*woken)(void *arg, uint64_t id);     /* the peer has seen that the post `id` of this task can go on */
  /* The peer ended a step, or one run of it (`run` not empty). Owns `why`. */
  void (*ended)(void *arg, weft_host_link_t *l, int64_t step_id, weft_str_t run, weft_status_t *why);
  void (*broken)(void *arg,
                 weft_host_link_t *l); /* the last call for this link: the peer's process is gone */
} weft_host_link_ops_t;

/* `task` ("/job:j/replica:0/task:0") and `ops` must outlive it. Never fails for want of links: then host() is
 * empty. */
WEFT_MUST_CHECK weft_status_t *weft_host_links_create(weft_str_t task, uint64_t incarnation,
                                                      const weft_host_link_ops_t *ops, void *arg,
                                                      weft_host_links_t **out);
/* Tells all peers that this task departs, and because of which failed task or failure: may be empty and NULL.
 */
void weft_host_links_leave(weft_host_links_t *l, weft_str_t failed_task, const weft_status_t *why);
/* Two steps: no callback runs after `stop`; links stay valid until they are released.
 * NULL is fine. */
void weft_host_links_stop(weft_host_links_t *l);
void weft_host_links_destroy(weft_host_links_t *l);
/* How long it takes to read `n` bytes of this process as if they were a peer's; 0: it cannot be done. */
double weft_host_links_time_read(weft_host_links_t *l, const void *from, void *to, size_t n);
/* Equal texts: the two can be linked. Empty: this system has no such means. */
weft_str_t weft_host_links_host(const weft_host_links_t *l);
/* Calls fn once, perhaps before it returns, when it is decided whether `task` with this incarnation is
 * linked. */
typedef void weft_host_linked_fn(void *arg);
void weft_host_links_connect(weft_host_links_t *l, weft_str_t task, uint64_t incarnation,
                             weft_host_linked_fn *fn, void *arg);
/* Calls fn once, perhaps before it returns, when all messages that had arrived from peers at this moment were
 * handled, the ends of links as well. */
void weft_host_links_settle(weft_host_links_t *l, weft_host_linked_fn *fn, void *arg);
/* The link to `task`; retained; NULL if there is none. */
weft_host_link_t *weft_host_links_find(weft_host_links_t *l, weft_str_t task);
/* Breaks the link to a task that is known to be lost; `broken` follows. False if there is none. */
bool weft_host_links_break(weft_host_links_t *l, weft_str_t task);

/* This task's segment; lent. NULL: this system has no such means, or it is switched off. */
weft_posts_t *weft_host_links_posts(const weft_host_links_t *l);

weft_host_link_t *weft_host_link_retain(weft_host_link_t *l);
void weft_host_link_release(weft_host_link_t *l);               /* NULL is fine */
void weft_host_link_break(weft_host_link_t *l);                 /* `broken` follows */
bool weft_host_link_is_linked(weft_host_link_t *l);             /* not broken yet */
weft_str_t weft_host_link_task(const weft_host_link_t *l);      /* lent */
uint64_t weft_host_link_incarnation(const weft_host_link_t *l); /* of the peer */
/* The peer's segment; lent. NULL: it has none, or this task cannot map it. */
weft_posts_view_t *weft_host_link_posts(const weft_host_link_t *l);
/* Did the peer announce its departure? And because of which failed task, or failure; NULL: none. Lent; only
 * in `broken`. */
bool weft_host_link_has_left(const weft_host_link_t *l, weft_str_t *out_failed,
                             const weft_status_t **out_why);
/* Each never blocks; false if the link is broken or without memory. */
bool weft_host_link_offer(weft_host_link_t *l, const weft_host_offer_t *o);
bool weft_host_link_finished(weft_host_link_t *l, uint64_t id);
bool weft_host_link_wake(weft_host_link_t *l, uint64_t id); /* the peer's post can go on */
/* The peer's offer cannot be read: it is to be held for a call. */
bool weft_host_link_refused(weft_host_link_t *l, uint64_t id);
bool weft_host_link_ended(weft_host_link_t *l, int64_t step_id, weft_str_t run, const weft_status_t *why);
void weft_host_links_tell_ended(weft_host_links_t *l, int64_t step_id,
                                const weft_status_t *why); /* to all, as well as one can */
/* Copies `n` bytes at `address` of the peer's memory. Errors: UNAVAILABLE if the peer is not there any more;
 * PERMISSION_DENIED if the system does not let us read any longer: the bytes are then to be got by other
 * means. */
WEFT_MUST_CHECK weft_status_t *weft_host_link_read(weft_host_link_t *l, uint64_t address, void *to, size_t n);

#endif /* WEFT_COLLECTIVES_REMOTE_HOST_LINK_H_ */
