/* kernels/cpu/array/matrix_diag.c - diagonals of batches of matrices: MatrixDiag, MatrixDiagPart,
 * MatrixSetDiag and their V2, V3.
 *
 * A band of diagonals d (d > 0 above the main one) lies in a tensor [..., upper - d, place]: each as long as
 * the longest, a shorter one at the left or right of its row, as `align` says for those above and below the
 * main diagonal. One diagonal alone has no such dimension.
 */
#include "base/alloc.h"
#include "kernels/cpu/loops/move.h"

typedef struct align { /* of a node */
  bool left_above, left_below;
  int num_inputs;
} align_t;

typedef struct band {
  int64_t rows, columns; /* of a matrix */
  int64_t lower, upper;  /* the diagonals */
  int64_t longest;       /* of them */
  align_t align;
} band_t;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t length_of(const band_t *b, int64_t d) {
  return least(b->rows + least(d, 0), b->columns - most(d, 0));
}

/* Where diagonal d begins in its row. */
static int64_t offset_of(const band_t *b, int64_t d) {
  bool is_left = (d >= 0 && b->align.left_above) || (d <= 0 && b->align.left_below);
  return is_left ? 0 : b->longest - length_of(b, d);
}

static weft_status_t *read_k(const weft_tensor_t *k, band_t *b) {
  if (k->shape.rank > 1 || k->count < 1 || k->count > 2) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "diag_index must have only one or two elements, received %lld elements.",
                      (long long)k->count);
  }
  b->lower = weft_cpu_int_at(k, 0);
  b->upper = weft_cpu_int_at(k, k->count - 1);
  if (b->lower > b->upper) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "lower_diag_index must not be larger than upper_diag_index: received %lld is larger than %lld",
        (long long)b->lower, (long long)b->upper);
  }
  return NULL;
}

/* The band of matrices [..., rows, columns]. */
static weft_status_t *band_of(const weft_shape_t *s, band_t *b) {
  if (s->rank < 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be at least 2-dim, received shape: %s",
                      WEFT_SHAPE_TEXT(s));
  b->rows = s->dims[s->rank - 2];
  b->columns = s->dims[s->rank - 1];
  bool is_low = (-b->rows < b->lower && b->lower < b->columns) || b->lower == 0;
  bool is_high = (-b->rows < b->upper && b->upper < b->columns) || b->upper == 0;
  if (!is_low || !is_high) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s_diag_index is out of bound: %lld. It must be between %lld and %lld",
                      is_low ? "upper" : "lower", (long long)(is_low ? b->upper : b->lower),
                      (long long)-b->rows, (long long)b->columns);
  }
  b->longest = least(b->rows + least(b->upper, 0), b->columns - most(b->lower, 0));
  return NULL;
}

/* [..., diagonals, longest] for matrices of shape s; the diagonals' dimension is there if there are several.
 */
static weft_shape_t shape_of_band(const weft_shape_t *s, const band_t *b) {
  weft_shape_t out = {.rank = s->rank - 2};
  memcpy(out.dims, s->dims, sizeof out.dims);
  if (b->upper > b->lower) out.dims[out.rank++] = b->upper - b->lower + 1;
  out.dims[out.rank++] = b->longest;
  return out;
}

static weft_status_t *pad_with(const weft_tensor_t *padding, weft_tensor_t *y) {
  if (padding == NULL) {
    weft_cpu_zero(y);
    return NULL;
  }
  if (padding->count != 1) return WEFT_ERROR(INVALID_ARGUMENT, "padding_value must be a scalar");
  weft_move_t m = {.rank = 1, .dims = {y->count}, .from_strides = {0}, .to_strides = {1}};
  return weft_move_run(&m, NULL, padding, y);
}

/* Copies each diagonal of `matrices` to its place in `band`, or back. */
static weft_status_t *move_band(weft_kernel_ctx_t *ctx, const band_t *b, const weft_tensor_t *from,
                                weft_tensor_t *to, bool to_band) {
  const weft_tensor_t *matrices = to_band ? from : to;
  int64_t size = b->rows * b->columns, count = size == 0 ? 0 : matrices->count / size,
          rows_of_band = b->upper - b->lower + 1;
  for (int64_t d = b->lower; d <= b->upper; d++) {
    int64_t length = length_of(b, d);
    if (length <= 0 || count == 0) continue;
    weft_move_t m = {.rank = 2, .dims = {count, length}};
    int64_t matrix[2] = {size, b->columns + 1}, band[2] = {rows_of_band * b->longest, 1};
    int64_t in_matrix = most(-d, 0) * b->columns + most(d, 0),
            in_band = (b->upper - d) * b->longest + offset_of(b, d);
    memcpy(m.from_strides, to_band ? matrix : band, sizeof matrix);
    memcpy(m.to_strides, to_band ? band : matrix, sizeof matrix);
    m.from_base = to_band ? in_matrix : in_band;
    m.to_base = to_band ? in_band : in_matrix;
    WEFT_RETURN_IF_ERROR(weft_move_run(&m, ctx->device->pool, from, to));
  }
  return NULL;
}

/* input, k, padding_value; k 0 if there is no such input. */
static weft_status_t *part_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  band_t b = {.align = *(const align_t *)ctx->state};
  if (b.align.num_inputs > 1) WEFT_RETURN_IF_ERROR(read_k(weft_in(ctx, 1), &b));
  WEFT_RETURN_IF_ERROR(band_of(&x->shape, &b));
  weft_shape_t shape = shape_of_band(&x->shape, &b);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  WEFT_RETURN_IF_ERROR(pad_with(b.align.num_inputs > 2 ? weft_in(ctx, 2) : NULL, y));
  return move_band(ctx, &b, x, y, true);
}

/* The matrices' size: as asked for, or the least that has room. */
static weft_status_t *find_size(weft_kernel_ctx_t *ctx, band_t *b) {
  int64_t rows = -1, columns = -1, min_rows = b->longest - least(b->upper, 0),
          min_columns = b->longest + most(b->lower, 0);
  if (b->align.num_inputs > 2) WEFT_RETURN_IF_ERROR(weft_cpu_int_scalar(weft_in(ctx, 2), "num_rows", &rows));
  if (b->align.num_inputs > 3)
    WEFT_RETURN_IF_ERROR(weft_cpu_int_scalar(weft_in(ctx, 3), "num_cols", &columns));
  if (rows != -1 && rows < min_rows) return WEFT_ERROR(INVALID_ARGUMENT, "The number of rows is too small.");
  if (columns != -1 && columns < min_columns)
    return WEFT_ERROR(INVALID_ARGUMENT, "The number of columns is too small.");
  if (rows == -1 && columns == -1) {
    rows = columns = most(min_rows, min_columns);
  } else if (rows == -1) {
    rows = min_rows;
  } else if (columns == -1) {
    columns = min_columns;
  }
  if (rows != min_rows && columns != min_columns) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal.");
  }
  b->rows = rows;
  b->columns = columns;
  return NULL;
}

/* diagonal, k, num_rows, num_cols, padding_value. */
static weft_status_t *diag_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  band_t b = {.align = *(const align_t *)ctx->state};
  if (b.align.num_inputs > 1) WEFT_RETURN_IF_ERROR(read_k(weft_in(ctx, 1), &b));
  int64_t diagonals = b.upper - b.lower + 1;
  int taken = diagonals > 1 ? 2 : 1, rank = x->shape.rank;
  if (rank < taken) {
    return WEFT_ERROR(INVALID_ARGUMENT, "diagonal must be at least %d-dim, received shape: %s", taken,
                      WEFT_SHAPE_TEXT(&x->shape));
  }
  if (taken == 2 && x->shape.dims[rank - 2] != diagonals) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The number of diagonals provided in the input does not match the lower_diag_index and "
                      "upper_diag_index range.");
  }
  if (rank - taken + 2 > WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "MatrixDiag: too many dimensions");
  b.longest = x->shape.dims[rank - 1];
  WEFT_RETURN_IF_ERROR(find_size(ctx, &b));
  weft_shape_t shape = {.rank = rank - taken};
  memcpy(shape.dims, x->shape.dims, sizeof shape.dims);
  shape.dims[shape.rank++] = b.rows;
  shape.dims[shape.rank++] = b.columns;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  WEFT_RETURN_IF_ERROR(pad_with(b.align.num_inputs > 4 ? weft_in(ctx, 4) : NULL, y));
  return move_band(ctx, &b, x, y, false);
}

/* input, diagonal, k. */
static weft_status_t *set_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *diagonal = weft_in(ctx, 1), *y = NULL;
  band_t b = {.align = *(const align_t *)ctx->state};
  if (b.align.num_inputs > 2) WEFT_RETURN_IF_ERROR(read_k(weft_in(ctx, 2), &b));
  WEFT_RETURN_IF_ERROR(band_of(&x->shape, &b));
  weft_shape_t wanted = shape_of_band(&x->shape, &b);
  if (!weft_shape_eq(&wanted, &diagonal->shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not "
        "equal to the longests diagonal in range [lower_diag_index:upper_diag_index].\nInput shape: "
        "%s\nDiagonal shape: %s\n"
        "Expected diagonal shape: %s",
        WEFT_SHAPE_TEXT(&x->shape), WEFT_SHAPE_TEXT(&diagonal->shape), WEFT_SHAPE_TEXT(&wanted));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  WEFT_RETURN_IF_ERROR(weft_cpu_copy(y, 0, x, 0, x->count));
  return move_band(ctx, &b, diagonal, y, false);
}

static weft_status_t *align_prepare(const weft_kernel_setup_t *setup, void **out) {
  align_t *a = weft_calloc(1, sizeof *a);
  if (a == NULL) return WEFT_NO_MEMORY("a kernel");
  bool has_align = weft_knode_attr(setup, "align") != NULL;
  weft_str_t text = has_align ? weft_knode_string(setup, "align")
                              : WEFT_STR("LEFT_LEFT"); /* those above, then those below */
  a->left_above = weft_str_starts_with(text, "LEFT_");
  a->left_below = weft_str_ends_with(text, "_LEFT");
  a->num_inputs = setup->node.num_inputs;
  *out = a;
  return NULL;
}
static void align_destroy(void *state) { weft_free(state); }

const weft_kernel_t weft_cpu_matrix_diag_kernels[] = {
    WEFT_KERNEL("BatchMatrixSetDiag", NULL, 0, align_prepare, set_compute, align_destroy),
    WEFT_KERNEL("BatchMatrixDiagPart", NULL, 0, align_prepare, part_compute, align_destroy),
    WEFT_KERNEL("BatchMatrixDiag", NULL, 0, align_prepare, diag_compute, align_destroy),
    WEFT_KERNEL("MatrixDiag", NULL, 0, align_prepare, diag_compute, align_destroy),
    WEFT_KERNEL("MatrixDiagPart", NULL, 0, align_prepare, part_compute, align_destroy),
    WEFT_KERNEL("MatrixDiagPartV2", NULL, 0, align_prepare, part_compute, align_destroy),
    WEFT_KERNEL("MatrixDiagPartV3", NULL, 0, align_prepare, part_compute, align_destroy),
    WEFT_KERNEL("MatrixDiagV2", NULL, 0, align_prepare, diag_compute, align_destroy),
    WEFT_KERNEL("MatrixDiagV3", NULL, 0, align_prepare, diag_compute, align_destroy),
    WEFT_KERNEL("MatrixSetDiag", NULL, 0, align_prepare, set_compute, align_destroy),
    WEFT_KERNEL("MatrixSetDiagV2", NULL, 0, align_prepare, set_compute, align_destroy),
    WEFT_KERNEL("MatrixSetDiagV3", NULL, 0, align_prepare, set_compute, align_destroy),
    {0},
};
