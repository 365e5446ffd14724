/* kernels/cpu/kv/kv_common.h - what the kernels of clocks and tables share. */
#ifndef WEFT_KERNELS_CPU_KV_KV_COMMON_H_
#define WEFT_KERNELS_CPU_KV_KV_COMMON_H_

#include "kernels/state.h"
#include "resources/kv_table.h"

/* The clock or the table behind input 0; retained. Errors: those of weft_state_in. */
WEFT_MUST_CHECK weft_status_t *weft_kv_in_clocked(weft_kernel_ctx_t *c, weft_clocked_t **out);
/* A scalar integer. Errors: INVALID_ARGUMENT naming `what`. */
WEFT_MUST_CHECK weft_status_t *weft_kv_scalar(const weft_kernel_ctx_t *c, int i, const char *what,
                                              int64_t *out);
/* The attributes num_workers and worker_tasks (lent by the plan). Errors: INVALID_ARGUMENT: too many workers.
 */
WEFT_MUST_CHECK weft_status_t *weft_kv_read_workers(const weft_kernel_setup_t *setup, int *out_num,
                                                    const weft_attr_t **out_tasks);
/* The attribute timeout_seconds, on the timer of the task's resources. */
weft_clock_timeout_t weft_kv_timeout(const weft_kernel_ctx_t *c, float timeout_seconds);

#endif /* WEFT_KERNELS_CPU_KV_KV_COMMON_H_ */
