/* kernels/cpu/sparse/rows.h - a sparse tensor as rows of its first dimension, and rows as one. */
#ifndef WEFT_KERNELS_CPU_SPARSE_ROWS_H_
#define WEFT_KERNELS_CPU_SPARSE_ROWS_H_

#include "kernels/cpu/sparse/sparse.h"
#include "resources/sparse_map.h"

/* Inputs 0 to 2 as a sparse tensor of rank 2 or more, its elements inside and in order.
 * Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_read_rows(const weft_kernel_ctx_t *ctx, weft_sparse_t *out);
/* The shape that each of its rows has, a vector. The caller owns it. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_row_shape(const weft_sparse_t *x, weft_tensor_t **out);
/* Row `row`, whose elements begin at *next if there are any, which then moves behind them. The caller owns
 * indices [n, rank - 1] and values [n]; the shape is not set. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_take_row(const weft_sparse_t *x, int64_t row, int64_t *next,
                                                    weft_sparse_parts_t *out);

/* Outputs 0 to 2: n sparse tensors of `dtype` as one. `leads`, a shape of n elements, are its first
 * dimensions, row-major; the others are the largest of each row's. Each row's parts fit together. Errors:
 * INVALID_ARGUMENT: the rows' ranks differ; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_stack(weft_kernel_ctx_t *ctx, weft_dtype_t dtype,
                                                 const weft_sparse_parts_t *rows, int64_t n,
                                                 const weft_shape_t *leads);
/* Do indices, values and shape of row i fit, and have they the types? Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_check_parts(const weft_sparse_parts_t *row, weft_dtype_t dtype,
                                                       int64_t i);

#endif /* WEFT_KERNELS_CPU_SPARSE_ROWS_H_ */
