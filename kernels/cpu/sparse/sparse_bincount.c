/* kernels/cpu/sparse/sparse_bincount.c - SparseBincount, RaggedBincount: how often, or with what weight, each
 * number below `size` occurs in each row. */
#include <inttypes.h>

#include "kernels/cpu/sparse/sparse.h"
#include "tensor/update.h"

typedef struct bins {
  const weft_tensor_t *values, *weights;
  weft_tensor_t *out;
  int64_t size;
  bool is_binary;
  weft_update_fn *add;
  uint64_t one[2]; /* of the weights' type */
} bins_t;

static weft_status_t *read_size(const weft_tensor_t *t, bins_t *b) {
  if (!weft_is_scalar(t))
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank 0 but is rank %d", t->shape.rank);
  b->size = weft_cpu_int_at(t, 0);
  return b->size < 0 ? WEFT_ERROR(INVALID_ARGUMENT, "size (%" PRId64 ") must be non-negative", b->size)
                     : NULL;
}

/* The result: zeros; num_rows below 0: a vector. */
static weft_status_t *start(weft_kernel_ctx_t *ctx, bins_t *b, int64_t num_rows) {
  weft_dtype_t dtype = b->weights->dtype;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(
      weft_shape_make((int64_t[]){num_rows, b->size} + (num_rows < 0), num_rows < 0 ? 1 : 2, &shape));
  if (b->weights->count != 0 && b->weights->count != b->values->count)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input indices and weights must have the same size.");
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &shape, &b->out));
  weft_cpu_zero(b->out);
  weft_update_identity(WEFT_UPDATE_MUL, dtype, 1, b->one);
  b->add = weft_update_find(WEFT_UPDATE_ADD, dtype);
  return NULL;
}

/* Value i is in that row. */
static weft_status_t *count(const bins_t *b, int64_t row, int64_t i) {
  int64_t number = weft_cpu_int_at(b->values, i);
  if (number < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Input must be non-negative");
  if (number >= b->size) return NULL;
  size_t size = weft_dtype_size(b->out->dtype);
  char *bin = (char *)b->out->data + (size_t)(row * b->size + number) * size;
  if (b->is_binary) {
    memcpy(bin, b->one, size);
  } else {
    const void *weight =
        b->weights->count > 0 ? (const char *)b->weights->data + (size_t)i * size : (const char *)b->one;
    b->add(bin, weight, 1, false);
  }
  return NULL;
}

WEFT_ATTRS(sparse_compute, (BOOL, binary_output))
static weft_status_t *sparse_compute(weft_kernel_ctx_t *ctx, const sparse_compute_attrs_t *attrs) {
  weft_sparse_t x;
  bins_t b = {.values = weft_in(ctx, 1), .weights = weft_in(ctx, 4), .is_binary = attrs->binary_output};
  WEFT_RETURN_IF_ERROR(read_size(weft_in(ctx, 3), &b));
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, &x));
  if (x.rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "dense_shape must have at least one element");
  WEFT_RETURN_IF_ERROR(weft_sparse_check_inside(&x));
  if (x.rank > 1 && x.dims[0] < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= 0", x.dims[0]);
  WEFT_RETURN_IF_ERROR(start(ctx, &b, x.rank == 1 ? -1 : x.dims[0]));
  for (int64_t i = 0; i < x.n; i++)
    WEFT_RETURN_IF_ERROR(count(&b, x.rank == 1 ? 0 : weft_sparse_at(&x, i)[0], i));
  return NULL;
}

/* Each row ends where the next split that is greater than the value's number says, in whatever order the
 * splits are. */
WEFT_ATTRS(ragged_compute, (BOOL, binary_output))
static weft_status_t *ragged_compute(weft_kernel_ctx_t *ctx, const ragged_compute_attrs_t *attrs) {
  const weft_tensor_t *splits = weft_in(ctx, 0);
  const int64_t *ends = splits->data;
  bins_t b = {.values = weft_in(ctx, 1), .weights = weft_in(ctx, 3), .is_binary = attrs->binary_output};
  WEFT_RETURN_IF_ERROR(read_size(weft_in(ctx, 2), &b));
  if (splits->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Splits must be non-empty");
  if (ends[0] != 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Splits must start with 0, not with %" PRId64, ends[0]);
  if (ends[splits->count - 1] != b.values->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Splits must end with the number of values, got %" PRId64 " instead of %" PRId64,
                      ends[splits->count - 1], b.values->count);
  }
  WEFT_RETURN_IF_ERROR(start(ctx, &b, splits->count - 1));
  for (int64_t i = 0, row = 0; i < b.values->count; i++) {
    while (i >= ends[row]) row++;
    WEFT_RETURN_IF_ERROR(count(&b, row - 1, i));
  }
  return NULL;
}

#define BINCOUNT(op_, fn) \
  WEFT_KERNEL_ATTRS(op_, "T", WEFT_SET_INDEX | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64), fn)
const weft_kernel_t weft_cpu_sparse_bincount_kernels[] = {
    BINCOUNT("RaggedBincount", ragged_compute),
    BINCOUNT("SparseBincount", sparse_compute),
    {0},
};
