/* kernels/cpu/loops/epilogue.h - what follows a convolution or a product on each of its elements.
 *
 *   y = activation((y + bias - mean) * factor + shift + addend), or v * activation(v)
 *
 * What computes y calls weft_epilogue_apply for each block that is finished, while the block is in the cache:
 * so a layer walks over its result once. The bits are those of BiasAdd, FusedBatchNorm, Add and the
 * activation as ops of their own, however the result is divided into blocks.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_EPILOGUE_H_
#define WEFT_KERNELS_CPU_LOOPS_EPILOGUE_H_

#include "kernels/cpu/loops/map.h"

typedef enum weft_epilogue_activation {
  WEFT_EPILOGUE_PLAIN,
  WEFT_EPILOGUE_RELU,
  WEFT_EPILOGUE_RELU6,
  WEFT_EPILOGUE_LEAKY_RELU,
  WEFT_EPILOGUE_NUM_ACTIVATIONS
} weft_epilogue_activation_t;

/* All borrowed. A part that is NULL is left out. */
typedef struct weft_epilogue {
  int64_t channels;                   /* of a row of y: they lie together */
  const float *bias;                  /* [channels] */
  const float *mean, *factor, *shift; /* [channels]; all of them or none */
  const float *addend;                /* [rows, channels], as y */
  weft_epilogue_activation_t activation;
  float alpha;        /* LeakyRelu's slope below 0 */
  weft_map1_fn *then; /* an activation that is an op's own loop, behind all else; NULL: there is none */
  bool multiplies;    /* v * then(v), as Swish */
} weft_epilogue_t;

/* Columns [column, column + columns) of rows [row, row + rows) of y, in place. y [.., channels] is the whole
 * result. Thread-safe. */
void weft_epilogue_apply(const weft_epilogue_t *e, float *y, int64_t row, int64_t rows, int64_t column,
                         int64_t columns);
/* Of that `then` alone: what else there is was computed in registers. */
void weft_epilogue_then(const weft_epilogue_t *e, float *y, int64_t row, int64_t rows, int64_t column,
                        int64_t columns);
/* All `rows` rows of y. Blocks until it is done, on `pool` (NULL: here). */
void weft_epilogue_run(weft_thread_pool_t *pool, const weft_epilogue_t *e, float *y, int64_t rows);

/* Gives the epilogue of a result once the shape of that is known. */
typedef struct weft_epilogue_binder {
  /* Called once, before anything is computed. `result`: its last dimension has the channels. What *out points
   * to stays until the result is computed. Errors: INVALID_ARGUMENT: operands do not fit the result. */
  weft_status_t *(*bind)(struct weft_epilogue_binder *self, const weft_shape_t *result, weft_epilogue_t *out);
  int addend; /* set by bind: which input of the node out->addend is; -1: there is none */
} weft_epilogue_binder_t;

#endif /* WEFT_KERNELS_CPU_LOOPS_EPILOGUE_H_ */
