/* kernels/cpu/loops/each_row.h - loops over strings and records, which may fail, on several threads. */
#ifndef WEFT_KERNELS_CPU_LOOPS_EACH_ROW_H_
#define WEFT_KERNELS_CPU_LOOPS_EACH_ROW_H_

#include "kernels/kernel.h"

/* Row i. `text` is an empty buffer for the row's own use. */
typedef weft_status_t *weft_each_row_fn(void *arg, int64_t i, weft_strbuf_t *text);

/* Calls fn for 0 to n-1, at least `grain` of them on one thread. Returns the failure of the smallest row that
 * failed; rows behind it may or may not have been done. */
WEFT_MUST_CHECK weft_status_t *weft_each_row(const weft_kernel_ctx_t *ctx, int64_t n, int64_t grain,
                                             weft_each_row_fn *fn, void *arg);

/* Sets element i to what was built in `text`. */
WEFT_MUST_CHECK weft_status_t *weft_set_text(weft_tensor_t *t, int64_t i, const weft_strbuf_t *text);

#endif /* WEFT_KERNELS_CPU_LOOPS_EACH_ROW_H_ */
