/* collectives/collective_call.h - what a call of a collective says: its checks, and what of it must be equal
 * on all ranks. Pure. */
#ifndef WEFT_COLLECTIVES_COLLECTIVE_CALL_H_
#define WEFT_COLLECTIVES_COLLECTIVE_CALL_H_

#include "collectives/collectives.h"

/* What must be equal on all ranks, and in repeated steps for what was learned to hold. Compared by bytes:
 * zeroed first. */
typedef struct weft_coll_signature {
  int64_t kind, dtype, reduction, is_mean, algorithm, root, group_size, is_uniform, details;
  int64_t rank_of_shape, dims[WEFT_MAX_DIMS];
} weft_coll_signature_t;

bool weft_collective_has_root(weft_collective_kind_t k);
bool weft_collective_has_rows(weft_collective_kind_t k);
/* A rank that is not the root has no input. */
bool weft_collective_may_only_receive(weft_collective_kind_t k);

/* Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_collective_check(const weft_collective_t *call);
void weft_collective_sign(const weft_collective_t *call, weft_coll_signature_t *out);
uint32_t weft_collective_hash(const weft_coll_signature_t *s); /* FNV-1a, folded */
/* Do the ranks tell each other how many rows they have? */
bool weft_collective_has_counts(const weft_collective_t *call);

#endif /* WEFT_COLLECTIVES_COLLECTIVE_CALL_H_ */
