/* rendezvous/gather.h - the tensors of several keys, received by one request.
 *
 * A gather ends when at least one of its keys has a tensor, and takes all that are there at that moment. The
 * caller gathers again for the others. So the tensors that become ready while an answer travels go together
 * in the next one. What is not taken stays in the rendezvous, where the end of the step drops it.
 *
 * Only small tensors in the host's memory are gathered. For any other the gather says that it is there; it is
 * received alone, by the ways that large tensors have.
 */
#ifndef WEFT_RENDEZVOUS_GATHER_H_
#define WEFT_RENDEZVOUS_GATHER_H_

#include "rendezvous/rendezvous.h"

enum {
  WEFT_GATHER_TENSOR_BYTES = 64 << 10, /* a larger tensor is received alone */
  WEFT_GATHER_BYTES = 256 << 10,       /* of the tensors that one gather takes, but for the last */
};

typedef enum weft_gathered_kind {
  WEFT_GATHERED_TENSOR,
  WEFT_GATHERED_DEAD,
  WEFT_GATHERED_ALONE, /* it is there, and was not taken: it is to be received by itself */
} weft_gathered_kind_t;

typedef struct weft_gathered {
  int key; /* index of the key; ascending, each at most once */
  weft_gathered_kind_t kind;
  weft_tensor_t *tensor; /* of WEFT_GATHERED_TENSOR */
} weft_gathered_t;

/* Called exactly once per gather, on any thread, with no lock held. The callee owns `status` and the tensors;
 * the array is lent. n is at least 1 without a failure, and 0 with one. */
typedef void weft_gather_fn(void *arg, weft_status_t *status, const weft_gathered_t *items, int n);

/* Gathers from a local rendezvous. `keys` (with their hashes; lent until fn is called) are different ones, at
 * least one. `canceller` (may be NULL) ends the wait with CANCELLED. Errors: those of a receive. */
void weft_local_rendezvous_gather(weft_rendezvous_t *base, const weft_key_t *keys, int n,
                                  weft_canceller_t *canceller, weft_gather_fn *fn, void *arg);

/* Does nothing lie in a local rendezvous, and wait for it? */
bool weft_local_rendezvous_is_empty(weft_rendezvous_t *r);

/* As weft_key_parse(), for one of several keys: quick where the devices and the incarnation are those of
 * `before`, the parts of another one. */
WEFT_MUST_CHECK weft_status_t *weft_key_parse_next(weft_str_t key, const weft_key_parts_t *before,
                                                   weft_key_parts_t *out);

/* Sends a failure (consumed) instead of a tensor to a local rendezvous: the receive of `key` (copied) ends
 * with it. After an abort nothing happens. Without memory the rendezvous is aborted. */
void weft_local_rendezvous_fail(weft_rendezvous_t *r, weft_key_t key, weft_status_t *why);

#endif /* WEFT_RENDEZVOUS_GATHER_H_ */
