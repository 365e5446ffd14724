/* kernels/cpu/math/reduce.h - folding a tensor along some of its axes. */
#ifndef WEFT_KERNELS_CPU_MATH_REDUCE_H_
#define WEFT_KERNELS_CPU_MATH_REDUCE_H_

#include "kernels/cpu/loops/common.h"

enum { WEFT_REDUCE_WIDTH = 32 }; /* accumulators side by side, so that loops over them are vector loops */

/* The loops of one reduction of one element type. An accumulator may be wider than an element. */
typedef struct reduce_fns {
  size_t acc_size;
  void (*init)(int64_t n, void *acc);
  void (*join)(int64_t n, const void *from, void *to);
  /* Each of `rows` runs of n elements, one behind the other, into its own accumulator. */
  void (*runs)(int64_t rows, int64_t n, const void *x, void *acc);
  /* Rows of n elements, `stride` apart, into n accumulators, one element of each row. */
  void (*rows)(int64_t rows, int64_t stride, int64_t n, const void *x, void *acc);
  void (*finish)(int64_t n, const void *acc, int64_t count, void *y);
} reduce_fns_t;

/* The tensor as alternating runs of kept and reduced dimensions. */
typedef struct weft_reduced_dims {
  int rank;
  int64_t dims[WEFT_MAX_DIMS];
  bool reduced[WEFT_MAX_DIMS];
  int64_t out_count; /* product of the kept */
  int64_t count;     /* product of the reduced */
} weft_reduced_dims_t;

/* `axes`: a flag per dimension of `shape`. */
void weft_reduction_plan(const weft_shape_t *shape, const bool *axes, weft_reduced_dims_t *out);
/* y[out_count] from x. On several threads where large; the result does not depend on their number.
 * Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_reduction_run(const weft_reduced_dims_t *r, weft_thread_pool_t *pool,
                                                  const reduce_fns_t *fns, size_t elem_size, const void *x,
                                                  void *y);
/* y[rows] from x[rows, n], n > 0, on the calling thread: what weft_reduction_run gives where the last
 * dimensions are reduced, but of one row of WEFT_REDUCE_PIECES elements and more. */
enum { WEFT_REDUCE_PIECES = 131072 };
void weft_reduction_rows(const reduce_fns_t *fns, size_t elem_size, int64_t rows, int64_t n, const void *x,
                         void *y);
/* Reads a reduction_indices tensor. Errors: INVALID_ARGUMENT as TensorFlow words it. */
WEFT_MUST_CHECK weft_status_t *weft_reduction_axes(const weft_tensor_t *t, int rank, bool *axes);
/* `shape` without the axes, or with 1 in their place. */
void weft_reduction_shape(const weft_shape_t *shape, const bool *axes, bool keep_dims, weft_shape_t *out);

/* Sums, kept in double for float: by dtype. */
extern const reduce_fns_t *const weft_reduce_sum[WEFT_DTYPE_COUNT];

#endif /* WEFT_KERNELS_CPU_MATH_REDUCE_H_ */
