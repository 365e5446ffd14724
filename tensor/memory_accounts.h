/* tensor/memory_accounts.h - how much memory tensors take, and what for: now, and at most so far.
 *
 * A device keeps one account per tag. Each account is an allocator over the
 * device's own, so what is allocated through it is counted, and the tensor gives
 * the bytes back to the account that it belongs to. A variable's value moves to
 * the account of parameters, or of the state of optimizers, when it is assigned. A
 * constant of a graph is in no account, and no variable's value before an update
 * makes a copy of it. Tensors of up to 256 bytes, which need no block of their own,
 * are not counted.
 *
 * Source: reference strategies 1.1, R8.
 */
#ifndef WEFT_TENSOR_MEMORY_ACCOUNTS_H_
#define WEFT_TENSOR_MEMORY_ACCOUNTS_H_

#include <stdint.h>

#include "base/str.h"
#include "tensor/tensor.h"

#define WEFT_MEMORY_TAGS(X)                                                             \
  X(ACTIVATION, "activation") /* whatever is nothing else                       */      \
  X(PARAM, "param")           /* values of variables                            */      \
  X(GRAD, "grad")             /* what updates apply                             */      \
  X(OPT_STATE, "opt_state")   /* slots of optimizer ops; what says so (_weft_memory) */ \
  X(COMM, "comm")             /* what was received or reduced                   */      \
  X(STASH, "stash")           /* kept for later steps                           */

typedef enum weft_memory_tag {
#define X(id, name) WEFT_MEMORY_##id,
  WEFT_MEMORY_TAGS(X)
#undef X
      WEFT_NUM_MEMORY_TAGS
} weft_memory_tag_t;
const char *weft_memory_tag_name(weft_memory_tag_t tag);
bool weft_memory_tag_parse(weft_str_t name, weft_memory_tag_t *out); /* false if there is none such */

typedef struct weft_memory_accounts weft_memory_accounts_t; /* Of a device. Thread-safe. */

/* Over `over`, which lives for ever. NULL without memory. */
weft_memory_accounts_t *weft_memory_accounts_create(weft_allocator_t *over);
weft_memory_accounts_t *weft_memory_accounts_retain(weft_memory_accounts_t *a); /* NULL is fine */
/* Tensors may outlive it: the rest goes with the last of them. NULL is fine. */
void weft_memory_accounts_release(weft_memory_accounts_t *a);
weft_allocator_t *weft_memory_account(weft_memory_accounts_t *a,
                                      weft_memory_tag_t tag); /* lent; for weft_tensor_new */

int64_t weft_memory_in_use(weft_memory_accounts_t *a, weft_memory_tag_t tag);
/* The most bytes that were in use at once since the start or the last reset. `reset`: begins anew with what
 * is in use. */
int64_t weft_memory_high_water(weft_memory_accounts_t *a, weft_memory_tag_t tag, bool reset);

/* The tensor has become the value of a variable that is counted as `tag` (PARAM or OPT_STATE): its bytes move
 * to that account of their device, unless they were made as a stash, or as the state of an optimizer where
 * the tag is PARAM, or are in no account. */
void weft_memory_becomes_variable(weft_tensor_t *t, weft_memory_tag_t tag);

/* The account that the tensor's bytes belong to, for another tensor that is to be counted with it; NULL:
 * none. */
weft_allocator_t *weft_memory_account_of(const weft_tensor_t *t);

#endif /* WEFT_TENSOR_MEMORY_ACCOUNTS_H_ */
