/* collectives/remote/remote_transport.h - how members of a group reach each other when they are in several
 * tasks.
 *
 * Within a task an offer and its fetch are matched in a table. Between tasks of one host an offer is
 * announced over the link of the two (collectives/remote/host_link.h) as soon as it is made, so that a fetch
 * costs no round trip: the shared-memory path. Between all others a fetch is a RecvBuf call, which waits at
 * the owner until the offer is there: the RPC path; any of TensorFlow's workers may be at the other end.
 *
 * The transport of the group's leader also has the table of groups and instances.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_REMOTE_TRANSPORT_H_
#define WEFT_COLLECTIVES_REMOTE_REMOTE_TRANSPORT_H_

#include "collectives/link_counters.h"
#include "collectives/remote/peers.h"

/* What the worker gives: calls to other tasks. The leader may be this task itself. */
typedef struct weft_collective_peers {
  void *arg;         /* borrowed */
  weft_str_t leader; /* that complete_group asks; borrowed */
  void (*recv_buf)(void *arg, weft_str_t task, const weft_buf_request_t *r, weft_canceller_t *canceller,
                   weft_buf_fn *fn, void *fn_arg);
  void (*complete_group)(void *arg, const weft_group_request_t *r, weft_canceller_t *canceller,
                         weft_group_fn *fn, void *fn_arg);
  void (*complete_instance)(void *arg, const weft_instance_request_t *r, weft_canceller_t *canceller,
                            weft_instance_fn *fn, void *fn_arg);
  const weft_str_t *(*tasks)(void *arg, int *out_n); /* of the cluster; lent, constant. May be NULL */
  /* A linked task is lost; `why` is lent. On any thread. */
  void (*lost)(void *arg, weft_str_t task, const weft_status_t *why);
} weft_collective_peers_t;

typedef struct weft_remote_transport_options {
  weft_str_t task;          /* copied */
  uint64_t incarnation;     /* of its devices */
  weft_thread_pool_t *pool; /* large payloads are read there; borrowed */
  weft_collective_peers_t peers;
  bool only_rpc; /* no links, even on one host */
} weft_remote_transport_options_t;

WEFT_MUST_CHECK weft_status_t *weft_remote_transport_create(const weft_remote_transport_options_t *o,
                                                            weft_transport_t **out);
/* This task is about to end: tells the other tasks so, and why if something failed; waits a moment for the
 * answers of those that are told by calls. Before anything by which they would take it for lost. */
void weft_remote_transport_leave(weft_transport_t *base);
/* `lost` is not called any more, and all transfers end with UNAVAILABLE. Destroying does it, too. */
void weft_remote_transport_stop(weft_transport_t *base);

/* Answers a RecvBuf, when the offer comes. Errors: FAILED_PRECONDITION if another incarnation is meant; what
 * ended the step or the run; CANCELLED. */
void weft_remote_transport_serve(weft_transport_t *base, const weft_buf_request_t *r,
                                 weft_canceller_t *canceller, weft_buf_fn *fn, void *arg);
/* Answers as the leader: see collectives/group_table.h. */
void weft_remote_transport_join_group(weft_transport_t *base, const weft_group_request_t *r,
                                      weft_canceller_t *canceller, weft_group_fn *fn, void *arg);
void weft_remote_transport_join_instance(weft_transport_t *base, const weft_instance_request_t *r,
                                         weft_canceller_t *canceller, weft_instance_fn *fn, void *arg);
/* A task is reported lost. If there is a link to it, that is broken now, and `lost` follows, in its turn:
 * links know best which task failed first. False if there is none. */
bool weft_remote_transport_break(weft_transport_t *t, weft_str_t task);
/* A task is there with this incarnation; if it was known with another one, it is not lost any more. */
void weft_remote_transport_returned_task(weft_transport_t *base, weft_str_t task, uint64_t incarnation);
weft_link_counters_t *weft_remote_transport_counters(
    weft_transport_t *t); /* what this task has fetched; lent */

#endif /* WEFT_COLLECTIVES_REMOTE_REMOTE_TRANSPORT_H_ */
