/* kernels/cuda/matrix.c - rows of Diag, DiagPart, MatrixBandPart, MatrixDiag, MatrixDiagPart, MatrixSetDiag
 * and their later versions, Cross. Positions and sizes lie in the host's memory. */
#include "kernels/cuda/matrix_args.h"

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/move.h"

WEFT_CUDA_SIZES(part_functions, band_part)
WEFT_CUDA_SIZES(take_functions, take_band)
WEFT_CUDA_SIZES(put_functions, put_band)
WEFT_CUDA_INSTANCES(cross_instances, cross_product, REAL)

/* ---- Diag, DiagPart ---- */

/* n elements at these distances. */
static WEFT_Failure *move_line(WEFT_KernelContext *c, const WEFT_TensorView *x, int64_t from_step,
                               const WEFT_TensorView *y, int64_t to_step, int64_t n) {
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, 1, &n);
  w.steps[0][0] = from_step;
  w.steps[1][0] = to_step;
  return weft_cuda_move(c, x->dtype, x->data, 0, y->data, 0, &w);
}

static WEFT_Failure *diag(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  int64_t dims[WEFT_CUDA_DIMS];
  weft_cuda_host->input(c, 0, &x);
  if (x.rank < 1) return WEFT_CUDA_INVALID("Input must be at least rank 1, got 0");
  if (2 * x.rank > WEFT_CUDA_DIMS) return WEFT_CUDA_INVALID("Diag: too many dimensions");
  for (int d = 0; d < x.rank; d++) dims[d] = dims[x.rank + d] = x.dims[d];
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2 * x.rank, dims, &y));
  if (y.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes));
  return move_line(c, &x, 1, &y, x.count + 1, x.count);
}

static WEFT_Failure *diag_part(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank % 2 != 0) {
    return WEFT_CUDA_INVALID(
        "The rank of the tensor should be                                          even and positive, got "
        "shape %s",
        WEFT_CUDA_SHAPE(&x));
  }
  const int rank = x.rank / 2;
  for (int d = 0; d < rank; d++) {
    if (x.dims[d] == x.dims[rank + d]) continue;
    return WEFT_CUDA_INVALID("Invalid shape %s: dimensions %d and %d do not match.", WEFT_CUDA_SHAPE(&x), d,
                             rank + d);
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, x.dims, &y));
  return move_line(c, &x, y.count + 1, &y, 1, y.count);
}

/* ---- MatrixBandPart ---- */

static WEFT_Failure *band_part(WEFT_KernelContext *c) {
  WEFT_TensorView x, y, sides[2];
  weft_cuda_host->input(c, 0, &x);
  if (x.rank < 2)
    return WEFT_CUDA_INVALID("input must be at least 2-dim, received shape: %s", WEFT_CUDA_SHAPE(&x));
  for (int i = 0; i < 2; i++) {
    weft_cuda_host->input(c, i + 1, &sides[i]);
    if (sides[i].rank == 0) continue;
    return WEFT_CUDA_INVALID("num_%s must be scalar, got shape %s", i == 0 ? "lower" : "upper",
                             WEFT_CUDA_SHAPE(&sides[i]));
  }
  int64_t lower = weft_cuda_int_at(&sides[0], 0), upper = weft_cuda_int_at(&sides[1], 0),
          rows = x.dims[x.rank - 2], columns = x.dims[x.rank - 1], n = x.count;
  if (lower > rows) {
    return WEFT_CUDA_INVALID("num_lower must be negative or less or equal to number of rows (%lld) got: %lld",
                             (long long)rows, (long long)lower);
  }
  if (upper > columns) {
    return WEFT_CUDA_INVALID(
        "num_upper must be negative or less or equal to number of columns (%lld) got: %lld",
        (long long)columns, (long long)upper);
  }
  const void *from = x.data;
  weft_cuda_function_t *f = weft_cuda_pick_size(part_functions, x.dtype);
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  void *args[] = {&from, &y.data, &n, &rows, &columns, &lower, &upper};
  return weft_cuda_launch_over(c, f, n, 1, args);
}

/* ---- bands of diagonals ---- */

/* The state: bit 0, those above the main diagonal are at the left; bit 1, those below. */
static WEFT_Failure *align_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  const char *text = "LEFT_LEFT"; /* those above, then those below */
  size_t length = strlen(text);
  (void)param;
  weft_cuda_host->attr_string(s, "align", &text, &length);
  const bool above = length >= 5 && memcmp(text, "LEFT_", 5) == 0,
             below = length >= 5 && memcmp(text + length - 5, "_LEFT", 5) == 0;
  *out = (void *)(uintptr_t)((above ? 1 : 0) | (below ? 2 : 0));
  return NULL;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The diagonals that input `k` names; the main one if there is no such input. */
static WEFT_Failure *read_band(WEFT_KernelContext *c, int k, weft_cuda_band_t *b) {
  const uintptr_t align = (uintptr_t)weft_cuda_host->state(c);
  WEFT_TensorView v;
  *b = (weft_cuda_band_t){.left_above = (align & 1) != 0, .left_below = (align & 2) != 0};
  if (k >= weft_cuda_host->num_inputs(c)) return NULL;
  weft_cuda_host->input(c, k, &v);
  if (v.rank > 1 || v.count < 1 || v.count > 2) {
    return WEFT_CUDA_INVALID("diag_index must have only one or two elements, received %lld elements.",
                             (long long)v.count);
  }
  b->lower = weft_cuda_int_at(&v, 0);
  b->upper = weft_cuda_int_at(&v, v.count - 1);
  if (b->lower <= b->upper) return NULL;
  return WEFT_CUDA_INVALID(
      "lower_diag_index must not be larger than upper_diag_index: received %lld is larger than %lld",
      (long long)b->lower, (long long)b->upper);
}

/* The band of x's matrices. */
static WEFT_Failure *fit_band(const WEFT_TensorView *x, weft_cuda_band_t *b) {
  if (x->rank < 2)
    return WEFT_CUDA_INVALID("input must be at least 2-dim, received shape: %s", WEFT_CUDA_SHAPE(x));
  b->rows = x->dims[x->rank - 2];
  b->columns = x->dims[x->rank - 1];
  const bool is_low = (-b->rows < b->lower && b->lower < b->columns) || b->lower == 0,
             is_high = (-b->rows < b->upper && b->upper < b->columns) || b->upper == 0;
  if (!is_low || !is_high) {
    return WEFT_CUDA_INVALID("%s_diag_index is out of bound: %lld. It must be between %lld and %lld",
                             is_low ? "upper" : "lower", (long long)(is_low ? b->upper : b->lower),
                             (long long)-b->rows, (long long)b->columns);
  }
  b->longest = least(b->rows + least(b->upper, 0), b->columns - most(b->lower, 0));
  return NULL;
}

/* [..., diagonals, longest], without the diagonals' dimension if there is one. */
static weft_cuda_shape_t shape_of_band(const WEFT_TensorView *x, const weft_cuda_band_t *b) {
  weft_cuda_shape_t s = weft_cuda_shape_of(x);
  s.rank -= 2;
  if (b->upper > b->lower) s.dims[s.rank++] = b->upper - b->lower + 1;
  s.dims[s.rank++] = b->longest;
  return s;
}

/* The value in input i, in the device's memory; NULL: there is no such input. */
static WEFT_Failure *read_padding(WEFT_KernelContext *c, int i, const void **out) {
  WEFT_TensorView v;
  *out = NULL;
  if (i >= weft_cuda_host->num_inputs(c)) return NULL;
  weft_cuda_host->input(c, i, &v);
  if (v.count != 1) return WEFT_CUDA_INVALID("padding_value must be a scalar");
  *out = v.data;
  return NULL;
}

/* input, k, padding_value */
static WEFT_Failure *take(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_band_t b;
  const void *padding = NULL;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(read_band(c, 1, &b));
  WEFT_CUDA_TRY(fit_band(&x, &b));
  WEFT_CUDA_TRY(read_padding(c, 2, &padding));
  const weft_cuda_shape_t s = shape_of_band(&x, &b);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, s.rank, s.dims, &y));
  int64_t n = y.count;
  void *args[] = {&x.data, &padding, &y.data, &n, &b};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(take_functions, x.dtype), n, 1, args);
}

static WEFT_Failure *read_size(WEFT_KernelContext *c, int i, const char *what, int64_t *out) {
  WEFT_TensorView v;
  *out = -1;
  if (i >= weft_cuda_host->num_inputs(c)) return NULL;
  weft_cuda_host->input(c, i, &v);
  if (v.count != 1) {
    return WEFT_CUDA_INVALID("%s must be a scalar, but received tensor of shape: %s", what,
                             WEFT_CUDA_SHAPE(&v));
  }
  *out = weft_cuda_int_at(&v, 0);
  return NULL;
}

/* The matrices' size: as asked for, or the least that has room. */
static WEFT_Failure *find_size(WEFT_KernelContext *c, weft_cuda_band_t *b) {
  const int64_t min_rows = b->longest - least(b->upper, 0), min_columns = b->longest + most(b->lower, 0);
  WEFT_CUDA_TRY(read_size(c, 2, "num_rows", &b->rows));
  WEFT_CUDA_TRY(read_size(c, 3, "num_cols", &b->columns));
  if (b->rows != -1 && b->rows < min_rows) return WEFT_CUDA_INVALID("The number of rows is too small.");
  if (b->columns != -1 && b->columns < min_columns)
    return WEFT_CUDA_INVALID("The number of columns is too small.");
  if (b->rows == -1 && b->columns == -1) {
    b->rows = b->columns = most(min_rows, min_columns);
  } else if (b->rows == -1) {
    b->rows = min_rows;
  } else if (b->columns == -1) {
    b->columns = min_columns;
  }
  if (b->rows == min_rows || b->columns == min_columns) return NULL;
  return WEFT_CUDA_INVALID(
      "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal.");
}

/* diagonal, k, num_rows, num_cols, padding_value */
static WEFT_Failure *put(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_band_t b;
  const void *padding = NULL, *other = NULL;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(read_band(c, 1, &b));
  const int64_t diagonals = b.upper - b.lower + 1;
  const int taken = diagonals > 1 ? 2 : 1;
  if (x.rank < taken) {
    return WEFT_CUDA_INVALID("diagonal must be at least %d-dim, received shape: %s", taken,
                             WEFT_CUDA_SHAPE(&x));
  }
  if (taken == 2 && x.dims[x.rank - 2] != diagonals) {
    return WEFT_CUDA_INVALID(
        "The number of diagonals provided in the input does not match the lower_diag_index and "
        "upper_diag_index range.");
  }
  if (x.rank - taken + 2 > WEFT_CUDA_DIMS) return WEFT_CUDA_INVALID("MatrixDiag: too many dimensions");
  b.longest = x.dims[x.rank - 1];
  WEFT_CUDA_TRY(find_size(c, &b));
  WEFT_CUDA_TRY(read_padding(c, 4, &padding));
  weft_cuda_shape_t s = weft_cuda_shape_of(&x);
  s.rank -= taken;
  s.dims[s.rank++] = b.rows;
  s.dims[s.rank++] = b.columns;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, s.rank, s.dims, &y));
  int64_t n = y.count;
  void *args[] = {&x.data, &other, &padding, &y.data, &n, &b};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(put_functions, x.dtype), n, 1, args);
}

/* input, diagonal, k */
static WEFT_Failure *set(WEFT_KernelContext *c) {
  WEFT_TensorView x, diagonal, y;
  weft_cuda_band_t b;
  const void *padding = NULL;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &diagonal);
  WEFT_CUDA_TRY(read_band(c, 2, &b));
  WEFT_CUDA_TRY(fit_band(&x, &b));
  const weft_cuda_shape_t s = shape_of_band(&x, &b);
  const WEFT_TensorView wanted = {.rank = s.rank, .dims = s.dims};
  if (!weft_cuda_same_shape(&wanted, &diagonal)) {
    return WEFT_CUDA_INVALID(
        "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not "
        "equal to the longests diagonal in range [lower_diag_index:upper_diag_index].\nInput shape: "
        "%s\nDiagonal shape: %s\n"
        "Expected diagonal shape: %s",
        WEFT_CUDA_SHAPE(&x), WEFT_CUDA_SHAPE(&diagonal), WEFT_CUDA_SHAPE(&wanted));
  }
  const void *other = x.data;
  int64_t n = x.count;
  weft_cuda_function_t *f = weft_cuda_pick_size(put_functions, x.dtype);
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  void *args[] = {&diagonal.data, &other, &padding, &y.data, &n, &b};
  return weft_cuda_launch_over(c, f, n, 1, args);
}

/* ---- Cross ---- */

static WEFT_Failure *cross(WEFT_KernelContext *c) {
  enum { FAILED_PRECONDITION = 9 };
  WEFT_TensorView a, b, y;
  weft_cuda_host->input(c, 0, &a);
  weft_cuda_host->input(c, 1, &b);
  if (!weft_cuda_same_shape(&a, &b)) {
    return WEFT_CUDA_INVALID("Both inputs must be of same shape: %s vs. %s", WEFT_CUDA_SHAPE(&a),
                             WEFT_CUDA_SHAPE(&b));
  }
  if (a.rank < 1) return WEFT_CUDA_INVALID("Input must be at least 1D%s", WEFT_CUDA_SHAPE(&a));
  if (a.dims[a.rank - 1] != 3)
    return weft_cuda_host->failure(FAILED_PRECONDITION,
                                   "Cross-products are only defined for 3-element vectors.");
  const void *u = a.data, *v = b.data;
  int64_t n = a.count / 3;
  weft_cuda_function_t *f = weft_cuda_pick(&cross_instances, a.dtype);
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  void *args[] = {&u, &v, &y.data, &n};
  return weft_cuda_launch_over(c, f, n, 1, args);
}

enum { SECOND = 2, THIRD = 4, FOURTH = 8 };
#define ROW(op_, fn, host) \
  { .op = op_, .type_attr = "T", .types = WEFT_CUDA_PLAIN, .compute = fn, .host_inputs = host }
#define BAND_ROW(op_, fn, host)                                                                     \
  {                                                                                                 \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_PLAIN, .prepare = align_prepare, .compute = fn, \
    .host_inputs = host                                                                             \
  }
#define NUMBERS (WEFT_CUDA_SET(FLOAT_INDEX) | UINT32_C(1) << WEFT_CUDA_c64 | UINT32_C(1) << WEFT_CUDA_c128)
const WEFT_DeviceKernel weft_cuda_matrix_kernels[] = {
    {.op = "Cross", .type_attr = "T", .types = WEFT_CUDA_SET(REAL), .compute = cross},
    {.op = "Diag", .type_attr = "T", .types = NUMBERS, .compute = diag},
    {.op = "DiagPart", .type_attr = "T", .types = NUMBERS, .compute = diag_part},
    ROW("MatrixBandPart", band_part, SECOND | THIRD),
    BAND_ROW("MatrixDiag", put, 0),
    BAND_ROW("MatrixDiagPart", take, 0),
    BAND_ROW("MatrixDiagPartV2", take, SECOND),
    BAND_ROW("MatrixDiagPartV3", take, SECOND),
    BAND_ROW("MatrixDiagV2", put, SECOND | THIRD | FOURTH),
    BAND_ROW("MatrixDiagV3", put, SECOND | THIRD | FOURTH),
    BAND_ROW("MatrixSetDiag", set, 0),
    BAND_ROW("MatrixSetDiagV2", set, THIRD),
    BAND_ROW("MatrixSetDiagV3", set, THIRD),
    {0},
};
