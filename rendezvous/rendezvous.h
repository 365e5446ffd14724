/* rendezvous/rendezvous.h - hands tensors from producers to consumers by key.
 *
 * One rendezvous serves one step on one worker. The producer never waits; the
 * consumer may come first or second. Tensors sent under one key arrive in the
 * order sent. When the step fails, weft_rendezvous_abort() gives every waiter,
 * present and future, the same failure, so that no wait lasts for ever.
 *
 * Keys have TensorFlow's form: "src device;incarnation (16 hex);dst device;edge name;frame:iteration".
 */
#ifndef WEFT_RENDEZVOUS_RENDEZVOUS_H_
#define WEFT_RENDEZVOUS_RENDEZVOUS_H_

#include "base/cancellation.h"
#include "tensor/tensor.h"

typedef struct weft_rendezvous weft_rendezvous_t; /* Thread-safe. Refcounted. */

/* A key with its hash, worked out once. */
typedef struct weft_key {
  weft_str_t text; /* borrowed */
  uint64_t hash;   /* weft_str_hash(text) */
  /* Where the receiver wants the tensor, as a hint; NULL: in the host's memory. Its device outlives the
   * receive. */
  const weft_memory_space_t *space;
} weft_key_t;
static inline weft_key_t weft_key(weft_str_t text) { return (weft_key_t){text, weft_str_hash(text), NULL}; }

/* A bool attribute of a _Recv, set when a plan is made: the tensor is wanted in its device's memory. */
#define WEFT_RECV_TO_DEVICE "_weft_to_device"

/* Called exactly once per receive, on the sender's, the receiver's, the canceller's or the aborter's thread,
 * with none of our locks held. The callee owns `status` (NULL: received) and one reference to `tensor`
 * (NULL if dead or failed). */
typedef void weft_recv_fn(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead);

typedef struct weft_rendezvous_ops {
  weft_status_t *(*send)(weft_rendezvous_t *r, weft_key_t key, weft_tensor_t *tensor, bool is_dead);
  void (*recv_async)(weft_rendezvous_t *r, weft_key_t key, weft_canceller_t *canceller, weft_recv_fn *fn,
                     void *arg);
  void (*abort)(weft_rendezvous_t *r, const weft_status_t *why);
  void (*destroy)(weft_rendezvous_t *r);
} weft_rendezvous_ops_t;

struct weft_rendezvous {
  const weft_rendezvous_ops_t *ops;
  atomic_int refs;
};

weft_rendezvous_t *weft_rendezvous_retain(weft_rendezvous_t *r);
void weft_rendezvous_release(
    weft_rendezvous_t *r); /* NULL is fine. The last release aborts remaining waits */

/* Sends `tensor` (retained; NULL if dead) under `key` (copied). Never blocks.
 * Errors: RESOURCE_EXHAUSTED; the abort's failure after an abort. */
WEFT_MUST_CHECK static inline weft_status_t *weft_rendezvous_send(weft_rendezvous_t *r, weft_key_t key,
                                                                  weft_tensor_t *tensor, bool is_dead) {
  return r->ops->send(r, key, tensor, is_dead);
}
/* Receives what was or will be sent under `key` (copied if need be). `canceller` (may be NULL) ends the wait
 * with CANCELLED "RecvAsync is cancelled." */
static inline void weft_rendezvous_recv_async(weft_rendezvous_t *r, weft_key_t key,
                                              weft_canceller_t *canceller, weft_recv_fn *fn, void *arg) {
  r->ops->recv_async(r, key, canceller, fn, arg);
}
/* `why` is copied; the first abort wins. NULL: the step has ended, and what still waits is not its cause. */
static inline void weft_rendezvous_abort(weft_rendezvous_t *r, const weft_status_t *why) {
  r->ops->abort(r, why);
}

/* A rendezvous inside one process, of a step (for messages). */
WEFT_MUST_CHECK weft_status_t *weft_local_rendezvous_create(int64_t step_id, weft_rendezvous_t **out);
/* Takes what was sent to it under `key`, if it is there: ownership of *out_tensor (NULL: dead) goes to the
 * caller. Does not wait. */
bool weft_local_rendezvous_take(weft_rendezvous_t *r, weft_key_t key, weft_tensor_t **out_tensor,
                                bool *out_is_dead);
/* What it was aborted with (owned), or NULL. */
weft_status_t *weft_local_rendezvous_aborted(weft_rendezvous_t *r);

/* Makes it that of another step, if the caller's reference is the only one and it was never used, but perhaps
 * ended; else false. */
bool weft_local_rendezvous_renew(weft_rendezvous_t *r, int64_t step_id);

/* The parts of a key; views into it. Errors: INVALID_ARGUMENT "Invalid rendezvous key: ...". */
typedef struct weft_key_parts {
  weft_str_t src_device, dst_device, edge;
  uint64_t src_incarnation;
} weft_key_parts_t;
WEFT_MUST_CHECK weft_status_t *weft_key_parse(weft_str_t key, weft_key_parts_t *out);
/* Writes "src;incarnation;dst;edge;frame:iteration". */
void weft_key_print(weft_strbuf_t *out, weft_str_t src_device, uint64_t src_incarnation,
                    weft_str_t dst_device, weft_str_t edge, uint64_t frame_id, int64_t iteration);

#endif /* WEFT_RENDEZVOUS_RENDEZVOUS_H_ */
