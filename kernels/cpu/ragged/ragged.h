/* kernels/cpu/ragged/ragged.h - what kernels of ragged tensors share.
 *
 * A ragged tensor is nested row splits (vectors of int32 or int64), outermost first, and the values that the
 * innermost splits divide into rows. Nothing of the splits may be believed: that there are any, that they
 * ascend, that they end where the values do.
 */
#ifndef WEFT_KERNELS_CPU_RAGGED_RAGGED_H_
#define WEFT_KERNELS_CPU_RAGGED_RAGGED_H_

#include "kernels/cpu/loops/common.h"

/* The elements of an int32 or int64 tensor as int64. */
typedef struct weft_ragged_ints {
  const int64_t *at;
  int64_t n;
  int64_t *copy; /* owned; NULL: `at` is the tensor's own memory */
} weft_ragged_ints_t;

/* `t` is lent as long as *out is used. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_ragged_open(const weft_tensor_t *t, weft_ragged_ints_t *out);
void weft_ragged_close(weft_ragged_ints_t *x);
/* Inputs first to first + n - 1. *out: owned by the caller, freed by weft_ragged_close_all, also when this
 * fails. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_ragged_open_all(const weft_kernel_ctx_t *ctx, int first, int n,
                                                    weft_ragged_ints_t **out);
void weft_ragged_close_all(weft_ragged_ints_t *x, int n);

/* Element i of an int32 or int64 tensor becomes v. */
static inline void weft_ragged_put(weft_tensor_t *t, int64_t i, int64_t v) {
  if (t->dtype == WEFT_I32) {
    ((int32_t *)t->data)[i] = (int32_t)v;
  } else {
    ((int64_t *)t->data)[i] = v;
  }
}
/* Can splits of that type hold v? */
static inline bool weft_ragged_fits(int dtype, int64_t v) { return dtype != WEFT_I32 || v <= INT32_MAX; }

#endif /* WEFT_KERNELS_CPU_RAGGED_RAGGED_H_ */
