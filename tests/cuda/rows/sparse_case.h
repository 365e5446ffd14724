/* tests/cuda/rows/sparse_case.h - sparse tensors as arguments of rows. */
#ifndef WEFT_TESTS_CUDA_ROWS_SPARSE_CASE_H_
#define WEFT_TESTS_CUDA_ROWS_SPARSE_CASE_H_

#include "tests/cuda/rows/row_case.h"

enum { WEFT_ROW_MAX_ELEMENTS = 400 };

typedef enum weft_row_order {
  WEFT_ROW_SORTED, /* and each place once */
  WEFT_ROW_MIXED   /* in any order, some places twice */
} weft_row_order_t;

/* Indices of at most WEFT_ROW_MAX_ELEMENTS elements of a tensor [dims], each place with a chance of one in
 * `of`. */
weft_tensor_t *weft_row_add_indices(weft_row_case_t *c, int rank, const int64_t *dims, int of,
                                    weft_row_order_t order);
/* Indices, values and shape. */
void weft_row_add_sparse(weft_row_case_t *c, int rank, const int64_t *dims, int of, weft_row_order_t order,
                         weft_row_values_t values);

#endif /* WEFT_TESTS_CUDA_ROWS_SPARSE_CASE_H_ */
