/* kernels/cpu/array/diag.c - Diag, DiagPart, MatrixBandPart. */
#include <inttypes.h>

#include "kernels/cpu/loops/move.h"

static weft_status_t *diag_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  int rank = x->shape.rank;
  if (rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "Input must be at least rank 1, got 0");
  if (2 * rank > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "Diag: too many dimensions");
  weft_shape_t shape = {.rank = 2 * rank};
  for (int d = 0; d < rank; d++) shape.dims[d] = shape.dims[rank + d] = x->shape.dims[d];
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  weft_cpu_zero(y);
  weft_move_t m = {.rank = 1, .dims = {x->count}, .from_strides = {1}, .to_strides = {x->count + 1}};
  return weft_move_run(&m, ctx->device->pool, x, y);
}

static weft_status_t *diag_part_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  int rank = x->shape.rank;
  if (rank % 2 != 0) { /* of a scalar, TensorFlow gives the scalar, whatever the message says */
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "The rank of the tensor should be                                          even and positive, got "
        "shape %s",
        WEFT_SHAPE_TEXT(&x->shape));
  }
  weft_shape_t shape = {.rank = rank / 2};
  for (int d = 0; d < rank / 2; d++) {
    if (x->shape.dims[d] != x->shape.dims[rank / 2 + d]) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Invalid shape %s: dimensions %d and %d do not match.",
                        WEFT_SHAPE_TEXT(&x->shape), d, rank / 2 + d);
    }
    shape.dims[d] = x->shape.dims[d];
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  weft_move_t m = {.rank = 1, .dims = {y->count}, .from_strides = {y->count + 1}, .to_strides = {1}};
  return weft_move_run(&m, ctx->device->pool, x, y);
}

/* Keeps num_lower subdiagonals and num_upper superdiagonals (negative: all) of each matrix. */
static weft_status_t *band_part_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  int rank = x->shape.rank;
  int64_t lower = 0, upper = 0;
  if (rank < 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be at least 2-dim, received shape: %s",
                      WEFT_SHAPE_TEXT(&x->shape));
  }
  for (int i = 1; i < 3; i++) {
    if (weft_in(ctx, i)->shape.rank == 0) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "num_%s must be scalar, got shape %s", i == 1 ? "lower" : "upper",
                      WEFT_SHAPE_TEXT(&weft_in(ctx, i)->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_int_scalar(weft_in(ctx, 1), "num_lower", &lower));
  WEFT_RETURN_IF_ERROR(weft_cpu_int_scalar(weft_in(ctx, 2), "num_upper", &upper));
  int64_t rows = x->shape.dims[rank - 2], cols = x->shape.dims[rank - 1];
  if (lower > rows) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "num_lower must be negative or less or equal to number of rows (%" PRId64
                      ") got: %" PRId64,
                      rows, lower);
  }
  if (upper > cols) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "num_upper must be negative or less or equal to number of columns (%" PRId64
                      ") got: %" PRId64,
                      cols, upper);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  weft_cpu_zero(y);
  if (x->count == 0) return NULL;
  int64_t lines = x->count / cols;
  for (int64_t line = 0; line < lines; line++) {
    int64_t i = line % rows;
    int64_t begin = lower < 0 || i - lower < 0 ? 0 : i - lower,
            end = upper < 0 || i + upper + 1 > cols ? cols : i + upper + 1;
    if (begin < end)
      WEFT_RETURN_IF_ERROR(weft_cpu_copy(y, line * cols + begin, x, line * cols + begin, end - begin));
  }
  return NULL;
}

const weft_kernel_t weft_cpu_diag_kernels[] = {
    WEFT_KERNEL("BatchMatrixBandPart", NULL, 0, NULL, band_part_compute, NULL),
    WEFT_KERNEL("Diag", NULL, 0, NULL, diag_compute, NULL),
    WEFT_KERNEL("DiagPart", NULL, 0, NULL, diag_part_compute, NULL),
    WEFT_KERNEL("MatrixBandPart", NULL, 0, NULL, band_part_compute, NULL),
    {0},
};
