/* kernels/cpu/sparse/csr.h - sparse matrices in compressed rows, one or a batch, inside a variant.
 *
 * The variant is a pack (tensor/pack.h) of five vectors. Of matrix b, element k of row r has the place
 * batch_ptrs[b] + row_ptrs[b * (rows + 1) + r] + k in `columns` and `values`.
 */
#ifndef WEFT_KERNELS_CPU_SPARSE_CSR_H_
#define WEFT_KERNELS_CPU_SPARSE_CSR_H_

#include "kernels/cpu/loops/common.h"
#include "tensor/pack.h"

enum { WEFT_CSR_DIMS, WEFT_CSR_BATCH, WEFT_CSR_ROWS, WEFT_CSR_COLUMNS, WEFT_CSR_VALUES, WEFT_CSR_PARTS };

typedef struct weft_csr {
  weft_tensor_t *parts[WEFT_CSR_PARTS]; /* lent, or owned: as its maker says */
  int rank;                             /* 2, or 3 of a batch */
  int64_t batch, rows, cols, nnz;
  const int32_t *batch_ptrs, *row_ptrs, *columns;
} weft_csr_t;

static inline weft_dtype_t weft_csr_dtype(const weft_csr_t *m) { return m->parts[WEFT_CSR_VALUES]->dtype; }
/* Places of the elements of one row: from *begin to the result. */
static inline int64_t weft_csr_row(const weft_csr_t *m, int64_t b, int64_t r, int64_t *begin) {
  const int32_t *ptr = m->row_ptrs + b * (m->rows + 1) + r;
  *begin = m->batch_ptrs[b] + ptr[0];
  return m->batch_ptrs[b] + ptr[1];
}

/* The matrices in input i, lent, of `dtype` unless that is WEFT_DTYPE_INVALID. What has no such structure,
 * wherever it came from, is refused. O(elements). Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_csr_in(const weft_kernel_ctx_t *ctx, int i, weft_dtype_t dtype,
                                           weft_csr_t *out);

/* New matrices with room for `nnz` elements; row pointers are zero, all else is not initialised. The caller
 * releases them. Errors: INVALID_ARGUMENT: they are more than 32 bits can count; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_csr_new(weft_dtype_t dtype, const int64_t *dims, int rank, int64_t nnz,
                                            weft_csr_t *out);
void weft_csr_release(weft_csr_t *m);
/* Output 0: the matrices, whose parts are then the output's as well. */
WEFT_MUST_CHECK weft_status_t *weft_csr_put(weft_kernel_ctx_t *ctx, const weft_csr_t *m);
/* The same matrices transposed, as new ones. */
WEFT_MUST_CHECK weft_status_t *weft_csr_transpose(const weft_csr_t *m, bool conjugates, weft_csr_t *out);

/* Conjugates the values in place. */
void weft_csr_conjugate(const weft_csr_t *m);

/* For makers: the pointers to be written. */
static inline int32_t *weft_csr_batch_ptrs(const weft_csr_t *m) { return m->parts[WEFT_CSR_BATCH]->data; }
static inline int32_t *weft_csr_row_ptrs(const weft_csr_t *m) { return m->parts[WEFT_CSR_ROWS]->data; }
static inline int32_t *weft_csr_columns(const weft_csr_t *m) { return m->parts[WEFT_CSR_COLUMNS]->data; }
/* Row pointers hold how many elements each row has, one place behind: now where rows begin and end. */
void weft_csr_sum_rows(const weft_csr_t *m);

#define WEFT_CSR_TYPES \
  (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))

#endif /* WEFT_KERNELS_CPU_SPARSE_CSR_H_ */
