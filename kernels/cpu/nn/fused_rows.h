/* kernels/cpu/nn/fused_rows.h - bias and activation of a product whose channels lie together. */
#ifndef WEFT_KERNELS_CPU_NN_FUSED_ROWS_H_
#define WEFT_KERNELS_CPU_NN_FUSED_ROWS_H_

#include "kernels/cpu/loops/common.h"

typedef enum weft_row_activation {
  WEFT_ROWS_PLAIN,
  WEFT_ROWS_RELU,
  WEFT_ROWS_RELU6,
  WEFT_ROWS_LEAKY_RELU,
  WEFT_ROWS_NUM_ACTIVATIONS
} weft_row_activation_t;

/* y = activation(y + bias), in place, with the bits of BiasAdd and the activation as ops of their own.
 *   y     [rows, channels] floats
 *   bias  [channels]
 * `alpha`: LeakyRelu's slope below 0. Blocks until it is done, on `pool` (NULL: here). Thread-safe. */
void weft_fused_rows(weft_thread_pool_t *pool, float *y, const float *bias, int64_t rows, int64_t channels,
                     weft_row_activation_t activation, float alpha);

#endif /* WEFT_KERNELS_CPU_NN_FUSED_ROWS_H_ */
