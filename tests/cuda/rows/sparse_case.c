/* tests/cuda/rows/sparse_case.c - see the header. */
#include "tests/cuda/rows/sparse_case.h"

weft_tensor_t *weft_row_add_indices(weft_row_case_t *c, int rank, const int64_t *dims, int of,
                                    weft_row_order_t order) {
  int64_t places[WEFT_ROW_MAX_ELEMENTS], count = 1, num = 0;
  for (int d = 0; d < rank; d++) count *= dims[d];
  for (int64_t i = 0; i < count && num < WEFT_ROW_MAX_ELEMENTS; i++) {
    if (weft_row_int(c, 1, of) == 1)
      places[num++] = order == WEFT_ROW_SORTED ? i : weft_row_int(c, 0, count - 1);
  }
  const weft_shape_t shape = weft_shape_matrix(num, rank);
  weft_tensor_t *t = weft_row_add(c, WEFT_I64, &shape, WEFT_ROW_SMALL);
  int64_t *at = t->data;
  for (int64_t i = 0; i < num; i++) {
    int64_t rest = places[i];
    for (int d = rank - 1; d >= 0; d--) {
      at[i * rank + d] = rest % dims[d];
      rest /= dims[d];
    }
  }
  return t;
}

void weft_row_add_sparse(weft_row_case_t *c, int rank, const int64_t *dims, int of, weft_row_order_t order,
                         weft_row_values_t values) {
  const weft_tensor_t *indices = weft_row_add_indices(c, rank, dims, of, order);
  const weft_shape_t vector = weft_shape_vector(indices->shape.dims[0]);
  weft_row_add(c, c->dtype, &vector, values);
  weft_row_add_ints(c, WEFT_I64, rank, dims);
}
