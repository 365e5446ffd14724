/* kernels/cpu/list/list_join.h - elements of a list as one tensor, and one tensor as elements, in whatever
 * memory they lie.
 *
 * An element stays where it was made. An op that needs its bytes gets them into the memory of its own device;
 * ops that only pass elements on never touch them.
 */
#ifndef WEFT_KERNELS_CPU_LIST_LIST_JOIN_H_
#define WEFT_KERNELS_CPU_LIST_LIST_JOIN_H_

#include "kernels/kernel.h"

/* What output 0 is made of: items one after the other. */
typedef struct weft_list_join {
  weft_kernel_ctx_t *c;
  weft_dtype_t dtype;
  weft_shape_t shape; /* of the output */
  int64_t n;
  weft_tensor_t **items; /* n and one more; lent. NULL: zeros */
  int64_t *at;           /* n + 1: item i is elements at[i] to at[i + 1] of the output */
  weft_tensor_t **owned; /* num_owned tensors that it keeps until it is freed; owned, may be NULL */
  int64_t num_owned;
  weft_tensor_t *zeros; /* owned; NULL: none are needed */
} weft_list_join_t;

/* Room for n items; the caller fills in the rest. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_list_join_new(weft_kernel_ctx_t *c, weft_dtype_t dtype, int64_t n,
                                                  weft_list_join_t **out);
void weft_list_join_free(weft_list_join_t *j);
/* Makes the output; consumes j. The first is for kernels of the host in plans that have no other memory; the
 * second ends with done(). */
WEFT_MUST_CHECK weft_status_t *weft_list_join_run(weft_list_join_t *j);
void weft_list_join_run_async(weft_list_join_t *j);

/* `t` where the host may read it; consumes the reference. Waits, if it lies elsewhere: see above. */
WEFT_MUST_CHECK weft_status_t *weft_list_item_here(weft_tensor_t *t, weft_tensor_t **out);
/* Ends an asynchronous kernel whose last output is `t`, in the memory of its device. Consumes both. */
void weft_list_item_give(weft_kernel_ctx_t *c, weft_tensor_t *t, weft_status_t *s);

/* `t` as something that may be held for long; *out is owned. It is `t` itself, but for an output of a
 * recording (docs/decisions/0016), which could not be replayed before that is released: then a copy, which
 * the compute queue makes. */
WEFT_MUST_CHECK weft_status_t *weft_list_keep(weft_kernel_ctx_t *c, weft_tensor_t *t, weft_tensor_t **out);

/* Elements `begin` on of t, which lies in the memory of c's device, as a tensor of their own. *out is owned.
 */
WEFT_MUST_CHECK weft_status_t *weft_list_part(weft_kernel_ctx_t *c, weft_tensor_t *t, int64_t begin,
                                              const weft_shape_t *shape, weft_tensor_t **out);

#endif /* WEFT_KERNELS_CPU_LIST_LIST_JOIN_H_ */
