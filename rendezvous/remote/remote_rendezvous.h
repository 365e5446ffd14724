/* rendezvous/remote/remote_rendezvous.h - a step's rendezvous on one worker of a cluster.
 *
 * Sends, and receives whose source device is on this task, meet in a local
 * table. A receive from another task's device is fetched from there, through a
 * function that the worker gives: this folder knows neither workers nor gRPC.
 */
#ifndef WEFT_RENDEZVOUS_REMOTE_REMOTE_RENDEZVOUS_H_
#define WEFT_RENDEZVOUS_REMOTE_REMOTE_RENDEZVOUS_H_

#include "rendezvous/rendezvous.h"

/* Fetches key's tensor of step `step_id` from the task that owns key's source device; must call fn exactly
 * once. */
typedef void weft_fetch_remote_fn(void *arg, int64_t step_id, weft_key_t key, const weft_key_parts_t *parts,
                                  weft_canceller_t *canceller, weft_recv_fn *fn, void *fn_arg);

/* `task` ("/job:j/replica:0/task:0") is copied. `fetch_arg` must outlive the rendezvous. An abort cancels
 * what is being fetched, too. */
WEFT_MUST_CHECK weft_status_t *weft_remote_rendezvous_create(weft_str_t task, int64_t step_id,
                                                             weft_fetch_remote_fn *fetch, void *fetch_arg,
                                                             weft_rendezvous_t **out);
/* From now on the rendezvous is the task `task`'s (copied), and fetches with another argument: for a session
 * in whose cluster this process has another name. Not while a receive is under way. Errors:
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_remote_rendezvous_move(weft_rendezvous_t *r, weft_str_t task,
                                                           void *fetch_arg);
/* Only from the local table: for the RecvTensor service and for the fetches of partial runs. */
void weft_remote_rendezvous_recv_local(weft_rendezvous_t *base, weft_key_t key, weft_canceller_t *canceller,
                                       weft_recv_fn *fn, void *arg);

/* As weft_local_rendezvous_renew(); false also for one that was moved. */
bool weft_remote_rendezvous_renew(weft_rendezvous_t *r, int64_t step_id);
/* As weft_local_rendezvous_take() and weft_local_rendezvous_aborted(): for a step's fetches. */
bool weft_remote_rendezvous_take(weft_rendezvous_t *base, weft_key_t key, weft_tensor_t **out_tensor,
                                 bool *out_is_dead);
weft_status_t *weft_remote_rendezvous_aborted(weft_rendezvous_t *base);

#endif /* WEFT_RENDEZVOUS_REMOTE_REMOTE_RENDEZVOUS_H_ */
