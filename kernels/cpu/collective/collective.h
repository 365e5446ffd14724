/* kernels/cpu/collective/collective.h - what the kernels of collective operations share.
 *
 * A kernel says what its member gives and wants (weft_collective_t) and hands it to the task's collectives;
 * the node ends when they call back. Only for kernels/cpu/collective*.c.
 */
#ifndef WEFT_KERNELS_CPU_COLLECTIVE_COLLECTIVE_H_
#define WEFT_KERNELS_CPU_COLLECTIVE_COLLECTIVE_H_

#include "collectives/collectives.h"
#include "kernels/cpu/collective/collective_place.h"
#include "kernels/kernel.h"

/* One execution of a node. Freed when the node ends. */
typedef struct weft_collective_run weft_collective_run_t;
/* Makes the node's outputs from `output` (consumed; NULL if this rank gets none). */
typedef weft_status_t *weft_collective_finish_fn(weft_collective_run_t *r, weft_tensor_t *output);
struct weft_collective_run {
  weft_kernel_ctx_t *ctx;
  weft_collective_t call;            /* texts borrowed from the node */
  weft_device_place_t place;         /* the call's, if output 0 lies in the device's memory */
  weft_collective_finish_fn *finish; /* NULL: output 0 is what came */
  void *extra;                       /* borrowed by the call; freed with the run */
};

/* *out: a call of the node with what every call has: member, step, input 0 if `has_input`. */
WEFT_MUST_CHECK weft_status_t *weft_collective_run_new(weft_kernel_ctx_t *c, weft_collective_kind_t kind,
                                                       bool has_input, weft_collective_run_t **out);
void weft_collective_run_free(weft_collective_run_t *r); /* NULL is fine */
/* Runs r->call; ends the node. Consumes `r`. */
void weft_collective_run_start(weft_collective_run_t *r);
/* Ends the node without a call. Consumes both. */
void weft_collective_run_end(weft_collective_run_t *r, weft_kernel_ctx_t *c, weft_status_t *s);

/* "Add" -> WEFT_REDUCE_SUM, ...; anything else is a sum: the attribute was checked. */
weft_reduction_t weft_collective_reduction(weft_str_t merge_op);
/* A hint that is unknown is AUTO, as in TensorFlow. */
weft_collective_algorithm_t weft_collective_hint(weft_str_t hint);
int64_t weft_collective_timeout_ms(float seconds);

#endif /* WEFT_KERNELS_CPU_COLLECTIVE_COLLECTIVE_H_ */
