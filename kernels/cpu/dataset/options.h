/* kernels/cpu/dataset/options.h - how much a data set does at once, and whether it keeps the order: from its
 * own attributes and inputs, and from the options of the whole pipeline. */
#ifndef WEFT_KERNELS_CPU_DATASET_OPTIONS_H_
#define WEFT_KERNELS_CPU_DATASET_OPTIONS_H_

#include "kernels/cpu/dataset/ahead.h"

enum { WEFT_AUTOTUNE = -1, WEFT_MAX_PARALLEL = 1 << 16 };

typedef enum weft_order {
  WEFT_ORDER_OF_OPTIONS,
  WEFT_ORDER_KEPT,
  WEFT_ORDER_ANY,
} weft_order_t;

/* From the attribute `deterministic` ("true", "false", "default"), or `sloppy`. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_order_read(const weft_kernel_setup_t *setup, weft_order_t *out);
bool weft_order_is_any(weft_order_t o, const weft_traversal_t *n);

/* Input i as num_parallel_calls: at least 1, or WEFT_AUTOTUNE. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_parallel_in(const weft_kernel_ctx_t *c, int i, int64_t *out);
/* Sets the limits and threads of a ring for so many calls at once; WEFT_AUTOTUNE: as many as the pool has
 * threads. */
void weft_parallel_limit(const weft_iterator_t *it, int64_t num_parallel, weft_ahead_options_t *o);

/* A data set with elements of `d` made ahead (prefetch.c): `size` of them, or WEFT_AUTOTUNE. */
WEFT_MUST_CHECK weft_status_t *weft_prefetch_create(weft_dataset_t *d, int64_t size, weft_dataset_t **out);

/* What the options in the data set `d` and above it say of a pass, in which nothing runs yet: of each, the
 * word of the outermost data set counts. */
void weft_options_apply(const weft_dataset_t *d, weft_traversal_t *n);
/* How they say that workers share the data, TensorFlow's AutoShardPolicy; 0, AUTO, if they do not. */
int64_t weft_options_shard_policy(const weft_dataset_t *d);

#endif /* WEFT_KERNELS_CPU_DATASET_OPTIONS_H_ */
