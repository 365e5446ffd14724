/* rendezvous/remote/remote_rendezvous.h - a step's rendezvous on one worker of a cluster.
 *
 * Sends, and receives whose source device is on this task, meet in a local table. A receive from another
 * task's device is fetched from there, through functions that the worker gives: this folder knows neither
 * workers nor gRPC.
 *
 * What a step will receive from other tasks is known when its graph is registered. A step that subscribes
 * asks each of these tasks once for all of that, when it begins. What arrives goes into the local table,
 * where the receives meet it. So the small tensors of a task that become ready together come together.
 */
#ifndef WEFT_RENDEZVOUS_REMOTE_REMOTE_RENDEZVOUS_H_
#define WEFT_RENDEZVOUS_REMOTE_REMOTE_RENDEZVOUS_H_

#include "rendezvous/gather.h"

/* Fetches key's tensor of step `step_id` from the task that owns key's source device; must call fn exactly
 * once. */
typedef void weft_fetch_remote_fn(void *arg, int64_t step_id, weft_key_t key, const weft_key_parts_t *parts,
                                  weft_canceller_t *canceller, weft_recv_fn *fn, void *fn_arg);

/* The same for several keys of devices of `task` (rendezvous/gather.h). UNIMPLEMENTED: the task answers
 * receives of one key only. `keys` are lent until fn is called. */
typedef void weft_gather_remote_fn(void *arg, int64_t step_id, weft_str_t task, const weft_key_t *keys, int n,
                                   weft_canceller_t *canceller, weft_gather_fn *fn, void *fn_arg);

/* How tensors come from other tasks. */
typedef struct weft_tensor_source {
  weft_fetch_remote_fn *fetch;
  weft_gather_remote_fn *gather; /* NULL: subscriptions have no effect */
  void *arg;                     /* must outlive the rendezvous */
} weft_tensor_source_t;

/* `task` ("/job:j/replica:0/task:0") is copied. An abort cancels what is being fetched, too. */
WEFT_MUST_CHECK weft_status_t *weft_remote_rendezvous_create(weft_str_t task, int64_t step_id,
                                                             weft_tensor_source_t source,
                                                             weft_rendezvous_t **out);
/* From now on the rendezvous is the task `task`'s (copied), and fetches with another argument: for a session
 * in whose cluster this process has another name. Not while a receive is under way. Errors:
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_remote_rendezvous_move(weft_rendezvous_t *r, weft_str_t task,
                                                           void *fetch_arg);
/* Only from the local table: for the RecvTensor service and for the fetches of partial runs. */
void weft_remote_rendezvous_recv_local(weft_rendezvous_t *base, weft_key_t key, weft_canceller_t *canceller,
                                       weft_recv_fn *fn, void *arg);
void weft_remote_rendezvous_gather_local(weft_rendezvous_t *base, const weft_key_t *keys, int n,
                                         weft_canceller_t *canceller, weft_gather_fn *fn, void *arg);

/* As weft_local_rendezvous_renew(); false also for one that was moved. */
bool weft_remote_rendezvous_renew(weft_rendezvous_t *r, int64_t step_id);
/* As weft_local_rendezvous_take() and weft_local_rendezvous_aborted(): for a step's fetches. */
bool weft_remote_rendezvous_take(weft_rendezvous_t *base, weft_key_t key, weft_tensor_t **out_tensor,
                                 bool *out_is_dead);
weft_status_t *weft_remote_rendezvous_aborted(weft_rendezvous_t *base);
/* Does nothing lie in the local table, and wait for it? */
bool weft_remote_rendezvous_is_empty(weft_rendezvous_t *base);

/* ---- subscriptions ---- */

/* The keys that each step of a graph receives from other tasks, by task. A key whose tensor had to be
 * received alone once is left out of later subscriptions. Thread-safe. Refcounted. */
typedef struct weft_receive_lists weft_receive_lists_t;

/* Of `keys` (copied; each is received once in a step) those whose source is another task than `task`. *out is
 * NULL if there are none. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_receive_lists_create(weft_str_t task, const weft_str_t *keys, int n,
                                                         weft_receive_lists_t **out);
weft_receive_lists_t *weft_receive_lists_retain(weft_receive_lists_t *l);
void weft_receive_lists_release(weft_receive_lists_t *l); /* NULL is fine */

/* Asks for the tensors of the lists (retained), and for those that are not there yet again, until all have
 * come. Before the step's first receive, once. `canceller` (retained) ends what is under way. Without memory
 * receives fetch their tensors one by one. */
void weft_remote_rendezvous_subscribe(weft_rendezvous_t *base, weft_receive_lists_t *lists,
                                      weft_canceller_t *canceller);

#endif /* WEFT_RENDEZVOUS_REMOTE_REMOTE_RENDEZVOUS_H_ */
