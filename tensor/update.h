/* tensor/update.h - to op= from, over dense elements of one dtype: what assignments, scatters, segments
 * and accumulators do. */
#ifndef WEFT_TENSOR_UPDATE_H_
#define WEFT_TENSOR_UPDATE_H_

#include "base/thread_pool.h"
#include "tensor/tensor.h"

typedef enum weft_update {
  WEFT_UPDATE_SET, /* not in the table: weft_tensor_copy_elements does it for every dtype */
  WEFT_UPDATE_ADD,
  WEFT_UPDATE_SUB,
  WEFT_UPDATE_MUL,
  WEFT_UPDATE_DIV,
  WEFT_UPDATE_MIN,
  WEFT_UPDATE_MAX,
  WEFT_UPDATE_COUNT
} weft_update_t;

/* to[i] = to[i] op from[i] for i < n; `is_scalar`: from[0] for all. Integers wrap; x / 0 is 0 for integers.
 * Truth values can only be added: the sum is whether any is true. */
typedef void weft_update_fn(void *to, const void *from, int64_t n, bool is_scalar);

/* NULL if there is none for the dtype. Thread-safe. */
weft_update_fn *weft_update_find(weft_update_t update, weft_dtype_t dtype);

/* What a fold starts from: 0, 1, the highest or the lowest finite number; into n elements of `to`. */
void weft_update_identity(weft_update_t how, weft_dtype_t dtype, int64_t n, void *to);

/* The whole of `to` by the whole of `from`, of equal shape and dtype; large ones on several threads. NULL
 * pool: here. */
void weft_update_parallel(weft_thread_pool_t *pool, weft_update_fn *fn, weft_tensor_t *to,
                          const weft_tensor_t *from);

#endif /* WEFT_TENSOR_UPDATE_H_ */
