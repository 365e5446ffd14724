/* kernels/cpu/sparse/sparse.h - what kernels of sparse tensors share.
 *
 * A sparse tensor is three tensors: indices [n, rank] (int64), values [n], shape [rank] (int64). Nothing of
 * it may be believed: ranks, counts, coordinates, their order, a product of sizes that overflows. Each
 * kernel makes the checks that TensorFlow's makes, with its codes; what TensorFlow leaves undefined is
 * INVALID_ARGUMENT.
 */
#ifndef WEFT_KERNELS_CPU_SPARSE_SPARSE_H_
#define WEFT_KERNELS_CPU_SPARSE_SPARSE_H_

#include "kernels/cpu/loops/common.h"

/* One sparse tensor, lent. */
typedef struct weft_sparse {
  const weft_tensor_t *indices, *values, *shape;
  const int64_t *at; /* coordinates: row i begins at at[i * rank] */
  int64_t n;
  int rank;
  const int64_t *dims;
} weft_sparse_t;

static inline bool weft_is_vector(const weft_tensor_t *t) { return t->shape.rank == 1; }
static inline bool weft_is_matrix(const weft_tensor_t *t) { return t->shape.rank == 2; }
static inline bool weft_is_scalar(const weft_tensor_t *t) { return t->shape.rank == 0; }

/* Inputs i, i + step, i + 2 step of a node as a sparse tensor. Errors: INVALID_ARGUMENT: indices are no
 * matrix, values or shape no vector, or their counts do not fit. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_read(const weft_kernel_ctx_t *ctx, int i, int step,
                                                weft_sparse_t *out);
/* The same of any three tensors. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_of(const weft_tensor_t *indices, const weft_tensor_t *values,
                                              const weft_tensor_t *shape, weft_sparse_t *out);
/* Coordinates of element i. */
static inline const int64_t *weft_sparse_at(const weft_sparse_t *x, int64_t i) { return x->at + i * x->rank; }
/* Is every coordinate of element i inside the shape? */
bool weft_sparse_is_inside(const weft_sparse_t *x, int64_t i);
/* Element i, at coordinates `at`, is inside the shape and behind the element at `before` (NULL: i is the
 * first), in the row-major order of the dense tensor. Errors: INVALID_ARGUMENT, naming i, in TensorFlow's
 * words. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_check_next(int64_t i, const int64_t *before, const int64_t *at,
                                                      int rank, const int64_t *dims);
/* All elements are inside, in strictly ascending order (of the row-major dense tensor).
 * Errors: INVALID_ARGUMENT, naming the first that is not. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_check_order(const weft_sparse_t *x);
/* All elements are inside. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_check_inside(const weft_sparse_t *x);
/* The dense shape. Errors: INVALID_ARGUMENT: too many dimensions, one below 0, the product overflows. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_dense_shape(const weft_sparse_t *x, weft_shape_t *out);

/* -1, 0 or 1: the order of two coordinates. */
static inline int weft_coordinates_compare(const int64_t *a, const int64_t *b, int rank) {
  for (int d = 0; d < rank; d++) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}
/* The numbers of the elements in ascending order; equal ones keep theirs. *out: owned by the caller
 * (weft_free). O(n log n). Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_sort(const int64_t *at, int64_t n, int rank, int64_t **out);

/* n coordinates among `from` as coordinates among `to`, a shape of as many elements, not 0. TensorFlow checks
 * none of them: a coordinate outside goes through the same arithmetic. */
void weft_sparse_reshape_indices(const int64_t *at, int64_t n, const weft_shape_t *from,
                                 const weft_shape_t *to, int64_t *out);

/* A tensor of a sparse result: output o, [n, rank] or [n]. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_new_indices(weft_kernel_ctx_t *ctx, int o, int64_t n, int rank,
                                                       int64_t **out);
WEFT_MUST_CHECK weft_status_t *weft_sparse_new_values(weft_kernel_ctx_t *ctx, int o, weft_dtype_t dtype,
                                                      int64_t n, weft_tensor_t **out);
/* Output o: the vector of `rank` dims. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_put_shape(weft_kernel_ctx_t *ctx, int o, const int64_t *dims,
                                                     int rank);
/* Outputs o and o + step: the elements of `x` whose numbers are in `pick`, in that order. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_put_picked(weft_kernel_ctx_t *ctx, int o, int step,
                                                      const weft_sparse_t *x, const int64_t *pick, int64_t n);
/* to[i] = from[pick[i]], of any dtype. */
WEFT_MUST_CHECK weft_status_t *weft_pick(weft_tensor_t *to, const weft_tensor_t *from, const int64_t *pick,
                                         int64_t n);

#endif /* WEFT_KERNELS_CPU_SPARSE_SPARSE_H_ */
