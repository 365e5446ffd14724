/* kernels/cpu/loops/move.h - copies a box of elements from one strided layout to another.
 *
 * Slices, transpositions, reversals, repetition, concatenation and padding are all such copies. Strides may
 * be negative (reversal) or, in the source, zero (repetition).
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_MOVE_H_
#define WEFT_KERNELS_CPU_LOOPS_MOVE_H_

#include "kernels/cpu/loops/common.h"

typedef struct weft_move {
  int rank;
  int64_t dims[WEFT_MAX_DIMS];
  int64_t from_strides[WEFT_MAX_DIMS], to_strides[WEFT_MAX_DIMS]; /* in elements */
  int64_t from_base, to_base;                                     /* of the first element */
} weft_move_t;

/* Row-major strides of `shape`. */
void weft_strides_of(const weft_shape_t *shape, int64_t *strides);
/* Copies. The caller guarantees that every position is inside both tensors, which have one dtype, of any
 * kind, and that none is written twice. Errors: RESOURCE_EXHAUSTED (strings). */
WEFT_MUST_CHECK weft_status_t *weft_move_run(const weft_move_t *m, weft_thread_pool_t *pool,
                                             const weft_tensor_t *from, weft_tensor_t *to);

/* Rows of n elements: steps from row to row and from element to element, in elements. */
typedef struct weft_sheet {
  int64_t rows, n;
  int64_t from_row, from_step, to_row, to_step;
} weft_sheet_t;

/* Copies a sheet of elements of `size` bytes (1, 2, 4, 8 or 16), on the calling thread alone. `from` and `to`
 * are the first elements; what is written does not overlap what is read. */
void weft_move_sheet(const weft_sheet_t *h, const void *from, void *to, size_t size);

/* Sets n elements of `size` bytes (1, 2, 4, 8 or 16) to the one at `value`. pool NULL: on the calling thread
 * alone. */
void weft_move_fill(weft_thread_pool_t *pool, void *to, const void *value, size_t size, int64_t n);

#endif /* WEFT_KERNELS_CPU_LOOPS_MOVE_H_ */
