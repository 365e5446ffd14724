/* kernels/cuda/scan.c - rows of Cumsum, Cumprod, CumulativeLogsumexp, TopK, TopKV2, ApproxTopK, InTopK,
 * InTopKV2, NthElement. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_INSTANCES(lines_instances, scan_lines, FLOAT_I64)
WEFT_CUDA_INSTANCES(blocks_instances, scan_blocks, FLOAT_I64)
WEFT_CUDA_INSTANCES(top_instances, top_k, FLOAT_I64)
WEFT_CUDA_INSTANCES(nth_instances, nth_element, REAL)
static weft_cuda_function_t in_top_k_function = WEFT_CUDA_FUNCTION("weft_in_top_k");

/* A block of so many threads for each row, which step on. */
static WEFT_Failure *launch_blocks(WEFT_KernelContext *c, weft_cuda_function_t *f, int64_t rows,
                                   unsigned threads, void **args) {
  enum { WAVES = 16 };
  if (rows <= 0) return NULL;
  const int64_t most = (int64_t)weft_cuda_num_processors(c) * WAVES;
  const weft_cuda_geometry_t g = {{(unsigned)(rows < most ? rows : most), 1, 1}, {threads, 1, 1}, 0};
  return weft_cuda_launch(c, f, &g, args);
}
static WEFT_Failure *launch_rows(WEFT_KernelContext *c, weft_cuda_function_t *f, int64_t rows, void **args) {
  return launch_blocks(c, f, rows, WEFT_CUDA_BLOCK, args);
}

/* ---- Cumsum, Cumprod, CumulativeLogsumexp ---- */

typedef struct cuda_scan {
  int is_exclusive, is_reverse;
} cuda_scan_t;
static const int32_t is_sum = 0, is_product = 1, is_log_sum_exp = 2; /* as scan.cu numbers them */

static WEFT_Failure *scan_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  cuda_scan_t *state = calloc(1, sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a scan");
  weft_cuda_host->attr_bool(s, "exclusive", &state->is_exclusive);
  weft_cuda_host->attr_bool(s, "reverse", &state->is_reverse);
  *out = state;
  return NULL;
}

static WEFT_Failure *scan(WEFT_KernelContext *c) {
  enum { MANY = 8192, FEW = 32 }; /* lines that keep the device busy; elements that are not worth a block */
  const cuda_scan_t *state = weft_cuda_host->state(c);
  WEFT_TensorView x, axis, y;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &axis);
  if (axis.rank != 0)
    return WEFT_CUDA_INVALID("ScanOp: axis must be a scalar, not %s", WEFT_CUDA_SHAPE(&axis));
  const int64_t given = weft_cuda_int_at(&axis, 0), at = given < 0 ? given + x.rank : given;
  if (at < 0 || at >= x.rank) {
    return WEFT_CUDA_INVALID("ScanOp: Expected scan axis in the range [%d, %d), but got %lld", -x.rank,
                             x.rank, (long long)given);
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  if (y.count == 0) return NULL;
  int64_t n = x.dims[at], inner = weft_cuda_product(x.dims, (int)at + 1, x.rank), lines = x.count / n;
  const int dtype = weft_cuda_part_type(x.dtype);
  if (dtype != x.dtype) inner *= 2, lines *= 2; /* complex numbers are added as twice as many real ones */
  int32_t how = *(const int32_t *)weft_cuda_host->param(c), exclusive = state->is_exclusive,
          reverse = state->is_reverse;
  void *args[] = {&x.data, &y.data, &lines, &n, &inner, &how, &exclusive, &reverse};
  if (n <= FEW || (inner > 1 && lines >= MANY))
    return weft_cuda_launch_over(c, weft_cuda_pick(&lines_instances, dtype), lines, 1, args);
  return launch_rows(c, weft_cuda_pick(&blocks_instances, dtype), lines, args);
}

/* ---- TopK ---- */

static WEFT_Failure *k_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  int64_t k = 0;
  (void)param;
  weft_cuda_host->attr_int(s, "k", &k);
  *out = (void *)(intptr_t)k;
  return NULL;
}

/* Exact here, as on the CPU, and of the same attributes. */
static WEFT_Failure *approx_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  int64_t dimension = -1;
  int is_max = 1;
  (void)weft_cuda_host->attr_int(s, "reduction_dimension", &dimension);
  (void)weft_cuda_host->attr_bool(s, "is_max_k", &is_max);
  if (is_max == 0 || dimension != -1) {
    return weft_cuda_host->failure(WEFT_CUDA_UNIMPLEMENTED,
                                   "ApproxTopK takes maxima along the last dimension only");
  }
  return k_prepare(s, param, out);
}

/* Input i, in the host's memory, or the attribute where there is no such input. */
static WEFT_Failure *read_k(WEFT_KernelContext *c, int i, int64_t *out) {
  WEFT_TensorView v;
  *out = (intptr_t)weft_cuda_host->state(c);
  if (i >= weft_cuda_host->num_inputs(c)) return NULL;
  weft_cuda_host->input(c, i, &v);
  if (v.rank != 0) return WEFT_CUDA_INVALID("k must be scalar, got shape %s", WEFT_CUDA_SHAPE(&v));
  *out = v.dtype == WEFT_CUDA_i16 ? ((const int16_t *)v.data)[0] : weft_cuda_int_at(&v, 0);
  return NULL;
}

static WEFT_Failure *top_k(WEFT_KernelContext *c) {
  WEFT_TensorView x, values, indices;
  int64_t k = 0, dims[WEFT_CUDA_DIMS];
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(read_k(c, 1, &k));
  if (k < 0) return WEFT_CUDA_INVALID("Need k >= 0, got %lld", (long long)k);
  if (x.rank < 1) return WEFT_CUDA_INVALID("input must be >= 1-D, got shape %s", WEFT_CUDA_SHAPE(&x));
  int64_t n = x.dims[x.rank - 1];
  if (n < k) {
    return WEFT_CUDA_INVALID("input must have at least k columns. Had %lld, needed %lld", (long long)n,
                             (long long)k);
  }
  if (n > INT32_MAX) return WEFT_CUDA_INVALID("TopK of %lld columns", (long long)n);
  for (int d = 0; d < x.rank; d++) dims[d] = d == x.rank - 1 ? k : x.dims[d];
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, dims, &values));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, x.rank, dims, &indices));
  if (values.count == 0) return NULL;
  int64_t rows = x.count / n;
  int32_t index_bytes = (int32_t)weft_cuda_size(indices.dtype);
  void *args[] = {&x.data, &values.data, &indices.data, &index_bytes, &rows, &n, &k};
  return launch_rows(c, weft_cuda_pick(&top_instances, x.dtype), rows, args);
}

static WEFT_Failure *in_top_k(WEFT_KernelContext *c) {
  WEFT_TensorView x, targets, y;
  int64_t k = 0;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &targets);
  WEFT_CUDA_TRY(read_k(c, 2, &k));
  if (x.rank != 2) return WEFT_CUDA_INVALID("predictions must be 2-dimensional");
  if (targets.rank != 1) return WEFT_CUDA_INVALID("targets must be 1-dimensional");
  if (x.dims[0] != targets.count) {
    return WEFT_CUDA_INVALID("First dimension of predictions %lld must match length of targets %lld",
                             (long long)x.dims[0], (long long)targets.count);
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, targets.dims, &y));
  int64_t rows = targets.count, n = x.dims[1];
  int32_t index_bytes = (int32_t)weft_cuda_size(targets.dtype);
  void *args[] = {&x.data, &targets.data, &index_bytes, &y.data, &rows, &n, &k};
  return launch_rows(c, &in_top_k_function, rows, args);
}

/* ---- NthElement ---- */

/* The state: not NULL if elements are counted from the largest one on. */
static WEFT_Failure *nth_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char is_reverse = 1;
  int reverse = 0;
  (void)param;
  (void)weft_cuda_host->attr_bool(s, "reverse", &reverse);
  *out = reverse != 0 ? (void *)(uintptr_t)&is_reverse : NULL;
  return NULL;
}

static WEFT_Failure *nth_element(WEFT_KernelContext *c) {
  WEFT_TensorView x, which, y;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &which);
  if (which.rank != 0) return WEFT_CUDA_INVALID("N must be scalar but has rank %d", which.rank);
  int64_t nth = weft_cuda_int_at(&which, 0);
  if (nth < 0) return WEFT_CUDA_INVALID("n must be non-negative but is %lld", (long long)nth);
  if (x.rank == 0) return WEFT_CUDA_INVALID("Input must be at least rank 1 but is rank 0");
  int64_t n = x.dims[x.rank - 1];
  if (n <= nth) return WEFT_CUDA_INVALID("Input must have last dimension > n = %lld", (long long)nth);
  if (n > INT32_MAX) return WEFT_CUDA_INVALID("NthElement of %lld columns", (long long)n);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank - 1, x.dims, &y));
  if (weft_cuda_host->state(c) != NULL) nth = n - nth - 1;
  unsigned threads = 32; /* of a block, for a row */
  while (threads < WEFT_CUDA_BLOCK && threads < n) threads *= 2;
  void *args[] = {&x.data, &y.data, &y.count, &n, &nth};
  return launch_blocks(c, weft_cuda_pick(&nth_instances, x.dtype), y.count, threads, args);
}

enum { SECOND = 2, THIRD = 4 };
#define SCAN(op_, types_, kind)                                                                              \
  {                                                                                                          \
    .op = op_, .type_attr = "T", .types = types_, .prepare = scan_prepare, .compute = scan, .destroy = free, \
    .param = &kind, .host_inputs = SECOND                                                                    \
  }
const WEFT_DeviceKernel weft_cuda_scan_kernels[] = {
    {.op = "ApproxTopK",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(F32_HALFS),
     .prepare = approx_prepare,
     .compute = top_k},
    SCAN("Cumprod", WEFT_CUDA_SET(FLOAT_I64), is_product),
    SCAN("Cumsum", WEFT_CUDA_SET(FLOAT_I64) | WEFT_CUDA_SET(COMPLEX), is_sum),
    SCAN("CumulativeLogsumexp", WEFT_CUDA_SET(FLOAT), is_log_sum_exp),
    {.op = "InTopK", .prepare = k_prepare, .compute = in_top_k},
    {.op = "InTopKV2", .compute = in_top_k, .host_inputs = THIRD},
    {.op = "NthElement",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(REAL),
     .prepare = nth_prepare,
     .compute = nth_element,
     .host_inputs = SECOND},
    {.op = "TopK",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT_I64),
     .prepare = k_prepare,
     .compute = top_k},
    {.op = "TopKV2",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT_I64),
     .compute = top_k,
     .host_inputs = SECOND},
    {0},
};
