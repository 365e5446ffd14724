/* collectives/remote/remote_impl.h - the parts of the remote transport; for its files alone.
 *
 * From bottom to top, each using only those before it:
 *
 *   peer_table.h        what is known of other tasks
 *   transfers.h         the tables of offers, fetches and requests
 *   transfer_end.c      how each of these ends
 *   copies.c            copies the bytes of a fetch to where they belong
 *   shares.c            how a share goes on and ends
 *   abort.c             ends many transfers at once
 *   abort_broadcast.c   tells tasks without a link that a run has failed
 *   rpc_path.c          fetches by RecvBuf and answers to it
 *   shm_path.c          offers and fetches over links, by shared memory
 *   post_path.c         collectives by posts
 *   group_join.c        requests to the leader
 *   remote_transport.c  the transport
 *
 * The transport itself has no lock: each part guards its own state.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_REMOTE_IMPL_H_
#define WEFT_COLLECTIVES_REMOTE_REMOTE_IMPL_H_

#include "base/mutex.h"
#include "base/polling.h"
#include "collectives/group_table.h"
#include "collectives/remote/host_link.h"
#include "collectives/remote/link_costs.h"
#include "collectives/remote/peer_table.h"
#include "collectives/remote/remote_transport.h"
#include "collectives/remote/transfers.h"

enum {
  WEFT_REMOTE_SCRATCH = 8,
  WEFT_REMOTE_POOL_BYTES = 64 << 10, /* less is copied at once, a closure for it would cost as much */
};

/* Blocks to read into, kept for the next read. */
typedef struct weft_scratch_blocks {
  weft_mutex_t mu;
  void *blocks[WEFT_REMOTE_SCRATCH]; /* guarded by mu */
} weft_scratch_blocks_t;

/* Messages about failed runs that their receivers have not confirmed yet. */
typedef struct weft_abort_broadcasts {
  weft_mutex_t mu;
  weft_cond_t idle; /* num_in_flight fell */
  int num_in_flight;
  bool is_stopping;            /* guarded by mu, as above: no more are sent */
  weft_canceller_t *canceller; /* of all; owned */
} weft_abort_broadcasts_t;

/* Calls to the leader that have not returned. */
typedef struct weft_leader_calls {
  weft_mutex_t mu;
  struct leader_wait *first; /* guarded by mu */
} weft_leader_calls_t;

struct weft_remote {
  weft_transport_t base;
  char *task; /* owned */
  uint64_t incarnation;
  weft_thread_pool_t *pool;
  weft_collective_peers_t peers; /* calls to other tasks */
  weft_host_links_t *links;
  weft_group_table_t *groups;
  weft_link_counters_t *counters;
  weft_link_costs_t costs;
  weft_peer_table_t *known;
  weft_transfers_t *transfers;
  weft_scratch_blocks_t scratch;
  weft_abort_broadcasts_t broadcasts;
  weft_leader_calls_t leader_calls;
  weft_polling_t polling;
};

static inline weft_remote_t *weft_remote_of(weft_transport_t *t) { return (weft_remote_t *)(void *)t; }
static inline weft_status_t *weft_remote_no_memory(weft_str_t key) {
  return WEFT_NO_MEMORY("transferring '%.*s'", WEFT_STR_ARGS(key));
}
weft_status_t *weft_remote_cancelled(weft_str_t key);

/* transfer_end.c: each consumes the item, which is in no table, and the status. */

void weft_remote_end_offer(weft_remote_offer_t *o, weft_status_t *status);
/* is_in_cancel: its cancel callback does it, or none is registered. */
void weft_remote_end_fetch(weft_remote_fetch_t *f, weft_status_t *status, bool is_in_cancel);
void weft_remote_answer(weft_remote_request_t *r, weft_remote_offer_t *o); /* consumes both */
void weft_remote_refuse(weft_remote_request_t *r, weft_status_t *status, bool is_in_cancel);
void weft_remote_end_arrival(weft_remote_arrival_t *a, bool tells_owner);
/* Holds an offer until it is fetched by a call, or answers the request that waits for it. */
void weft_remote_hold(weft_remote_t *t, weft_remote_offer_t *o);

/* copies.c */

/* Where bytes come from: memory of this task, a call's answer, or a peer's memory. */
typedef struct weft_remote_source {
  const char *data;
  const weft_buf_t *buf;
  weft_host_link_t *link;
  uint64_t address;
} weft_remote_source_t;

weft_status_t *weft_remote_check_bytes(const weft_remote_fetch_t *f, size_t bytes);
weft_status_t *weft_remote_copy(weft_remote_fetch_t *f, const weft_remote_source_t *s);
/* The fetch has all its bytes: its time goes into the measured costs. */
void weft_remote_note_cost(weft_remote_fetch_t *f, weft_way_t way);
void weft_scratch_blocks_deinit(weft_scratch_blocks_t *s);

/* shares.c: each consumes `s`, which is looking, and the status. */

/* is_in_cancel: its cancel callback does it, or none is registered. */
void weft_remote_finish_share(weft_remote_share_t *s, weft_status_t *status, bool is_in_cancel);
/* Ends it with `why`, unless all has come by now that it waits for. */
void weft_remote_end_share(weft_remote_share_t *s, weft_status_t *why, bool is_in_cancel);
/* Goes on until it is complete or parked. keeps_thread: this thread looks for a moment, then sleeps, until it
 * is complete; it is parked only where the system cannot do that. */
void weft_remote_go_on(weft_remote_share_t *s, bool keeps_thread);
/* The same, on the pool if it has much to read. */
void weft_remote_go_on_anywhere(weft_remote_share_t *s);
void weft_remote_on_woken(void *arg, uint64_t id); /* arg: weft_remote_t. Of a peer: any number */

/* abort.c */

/* Ends all that match here, but not what is being read: its reader ends it. */
void weft_remote_abort(weft_remote_t *t, const weft_transfer_filter_t *w, const weft_status_t *why);
/* A run failed: ends it in this task. A second failure is ignored. */
void weft_remote_fail_here(weft_remote_t *t, int64_t step_id, weft_str_t run, const weft_status_t *why);

/* abort_broadcast.c */

WEFT_MUST_CHECK weft_status_t *weft_abort_broadcasts_init(weft_abort_broadcasts_t *b);
/* Waits until the callbacks of all have returned. */
void weft_abort_broadcasts_deinit(weft_abort_broadcasts_t *b);
/* Tells a task without a link that a run failed, as well as one can, without waiting. */
void weft_remote_broadcast_abort(weft_remote_t *t, weft_str_t task, int64_t step_id, weft_str_t run,
                                 const weft_status_t *why);
/* Is the request such a message? Then it was handled, and the answer is an empty buffer. */
bool weft_remote_receive_abort(weft_remote_t *t, const weft_buf_request_t *r);
/* A run failed: tells the tasks of `group`, and ends it here. */
void weft_remote_fail(weft_remote_t *t, int64_t step_id, weft_str_t run, const weft_group_t *group,
                      const weft_status_t *why);
/* No more are sent; waits a moment for those that are in flight. */
void weft_remote_stop_broadcasts(weft_remote_t *t);
bool weft_remote_is_departing(weft_remote_t *t);
/* What ends with a task that departs ends with this: the failure that it departs because of, else UNAVAILABLE
 * in its own name. Never NULL. */
weft_status_t *weft_remote_departure_status(weft_remote_t *t);

/* rpc_path.c */

void weft_remote_call(weft_remote_t *t, weft_remote_fetch_t *f, bool is_own);

/* shm_path.c */

/* Announces an offer over o->link. Few bytes go with the message; the offer is done then, unless is_kept.
 * `key` and `to_device` are the caller's: o may be gone as soon as the peer knows of it. */
void weft_remote_announce(weft_remote_t *t, weft_remote_offer_t *o, weft_str_t key, weft_str_t to_device,
                          bool is_kept);
void weft_remote_wait(weft_remote_t *t, weft_remote_fetch_t *f,
                      weft_host_link_t *link); /* takes the reference to link */
/* What waits for the peer is in its table by now: if the link broke, or the peer was lost, before, no later
 * callback will end it. NULL is fine. */
void weft_remote_notice_end(weft_remote_t *t, weft_host_link_t *link);
extern const weft_host_link_ops_t weft_remote_link_ops; /* arg: weft_remote_t */

/* post_path.c */

void weft_remote_post(weft_transport_t *base, const weft_posting_t *p, weft_canceller_t *canceller,
                      weft_transfer_done_fn *done, void *arg);

/* group_join.c */

/* `task` is lost. If it is the leader, calls to it end for groups that it had made: they would wait for its
 * return. */
void weft_remote_lost_leader(weft_remote_t *t, weft_str_t task);

void weft_remote_complete_group(weft_transport_t *base, const weft_group_request_t *r,
                                weft_canceller_t *canceller, weft_group_fn *fn, void *arg);
void weft_remote_complete_instance(weft_transport_t *base, const weft_instance_request_t *r,
                                   weft_canceller_t *canceller, weft_instance_fn *fn, void *arg);

#endif /* WEFT_COLLECTIVES_REMOTE_REMOTE_IMPL_H_ */
