/* kernels/cuda/sparse_tensor.h - sparse tensors whose indices and shape lie in the host's memory: they are
 * checked there, and so is put together there what the device does with the values. */
#ifndef WEFT_KERNELS_CUDA_SPARSE_TENSOR_H_
#define WEFT_KERNELS_CUDA_SPARSE_TENSOR_H_

#include "kernels/cuda/common.h"

/* Lent by the inputs. */
typedef struct weft_cuda_sparse {
  int64_t n;
  int rank;
  const int64_t *at;   /* [n, rank] */
  const int64_t *dims; /* rank */
  WEFT_TensorView values;
} weft_cuda_sparse_t;

/* Inputs i to i + 2: indices, values and shape. Failures: INVALID_ARGUMENT. */
WEFT_Failure *weft_cuda_sparse_read(WEFT_KernelContext *c, int i, weft_cuda_sparse_t *out);
static inline const int64_t *weft_cuda_sparse_at(const weft_cuda_sparse_t *x, int64_t i) {
  return x->at + i * x->rank;
}
bool weft_cuda_sparse_is_inside(const weft_cuda_sparse_t *x, int64_t i);
/* Where element i, which is inside, lies in the dense tensor. */
int64_t weft_cuda_sparse_place(const weft_cuda_sparse_t *x, int64_t i);
/* `dims` are those of a dense tensor. Failures: INVALID_ARGUMENT. */
WEFT_Failure *weft_cuda_check_dims(const int64_t *dims, int rank);
/* Below 0, 0 or above 0: a comes before b, is the same, or behind it. */
int weft_cuda_coordinates_compare(const int64_t *a, const int64_t *b, int rank);
/* The elements in the order of their coordinates in dims[0], dims[1], ... `num` of them; equal ones stay as
 * they are. *out [n]: owned by the caller. Failures: RESOURCE_EXHAUSTED. */
WEFT_Failure *weft_cuda_sparse_sort(const weft_cuda_sparse_t *x, const int *dims, int num, int64_t **out);

/* Numbers of the host in the device's memory, as scratch memory. n may be 0. */
WEFT_Failure *weft_cuda_send_places(WEFT_KernelContext *c, const int64_t *from, int64_t n, void **out);
/* y[i] = x[from[i]] for n elements; 0 where from[i], in the host's memory, is negative. */
WEFT_Failure *weft_cuda_pick_values(WEFT_KernelContext *c, int dtype, const void *x, const int64_t *from,
                                    int64_t n, void *y);

#endif /* WEFT_KERNELS_CUDA_SPARSE_TENSOR_H_ */
