/* kernels/cuda/bins.c - rows of Bucketize, Bincount, DenseBincount and HistogramFixedWidth. The number of
 * bins and the range lie in the host's memory; whether a value is refused is known when the device has seen
 * all of them.
 */
#include "kernels/cuda/bins_args.h"

#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

#define WEFT_CUDA_COUNTED(m, f) m(f, f32) m(f, f64) m(f, i32) m(f, i64)
WEFT_CUDA_INSTANCES(bucketize_instances, bucketize, COUNTED)
WEFT_CUDA_INSTANCES(bincount_instances, bincount, COUNTED)
WEFT_CUDA_INSTANCES(histogram_i32_instances, histogram_i32, COUNTED)
WEFT_CUDA_INSTANCES(histogram_i64_instances, histogram_i64, COUNTED)

/* The param is what is said of a value that is refused. */
static WEFT_Failure *finish(WEFT_KernelContext *c) {
  bool is_refused = false;
  WEFT_CUDA_TRY(weft_cuda_note_read(c, &is_refused));
  return is_refused ? WEFT_CUDA_INVALID("%s", (const char *)weft_cuda_host->param(c)) : NULL;
}

/* ---- Bucketize ---- */

/* The state: n boundaries. */
typedef struct cuda_buckets {
  int n;
  float bounds[];
} buckets_t;

static WEFT_Failure *buckets_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  const int found = weft_cuda_host->attr_floats(s, "boundaries", NULL, 0), n = found < 0 ? 0 : found;
  buckets_t *b = calloc(1, sizeof *b + (size_t)n * sizeof b->bounds[0]);
  if (b == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: %d boundaries", n);
  b->n = n;
  (void)weft_cuda_host->attr_floats(s, "boundaries", b->bounds, n);
  for (int i = 1; i < n; i++) {
    if (b->bounds[i] >= b->bounds[i - 1]) continue;
    free(b);
    return WEFT_CUDA_INVALID("Expected sorted boundaries");
  }
  *out = b;
  return NULL;
}

static WEFT_Failure *bucketize(WEFT_KernelContext *c) {
  const buckets_t *b = weft_cuda_host->state(c);
  const size_t bytes = (size_t)b->n * sizeof b->bounds[0];
  WEFT_TensorView x, y;
  void *bounds = NULL;
  int64_t n = b->n;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  if (y.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes + sizeof(float), &bounds));
  if (bytes > 0) WEFT_CUDA_TRY(weft_cuda_copy(c, bounds, b->bounds, bytes));
  void *args[] = {&x.data, &y.data, &y.count, &bounds, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(&bucketize_instances, x.dtype), y.count, 1, args);
}

/* ---- Bincount, DenseBincount ---- */

static WEFT_Failure *read_size(WEFT_KernelContext *c, int64_t *out) {
  WEFT_TensorView v;
  weft_cuda_host->input(c, 1, &v);
  if (v.rank != 0) return WEFT_CUDA_INVALID("Shape must be rank 0 but is rank %d", v.rank);
  *out = weft_cuda_int_at(&v, 0);
  if (*out < 0) return WEFT_CUDA_INVALID("size (%lld) must be non-negative", (long long)*out);
  return NULL;
}

static WEFT_Failure *count_rows(WEFT_KernelContext *c, int rank, const int64_t *dims, int64_t width,
                                bool is_binary) {
  WEFT_TensorView values, weights, y;
  void *found = NULL;
  weft_cuda_host->input(c, 0, &values);
  weft_cuda_host->input(c, 2, &weights);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, dims, &y));
  if (y.count > 0) WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes));
  if (values.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_note_new(c, &found));
  weft_cuda_bins_t b = {.n = values.count,
                        .width = width,
                        .size = dims[rank - 1],
                        .value_bytes = (int32_t)weft_cuda_size(values.dtype),
                        .is_binary = is_binary};
  const void *of = weights.count > 0 ? weights.data : NULL;
  void *args[] = {&values.data, &of, &y.data, &b, &found};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(&bincount_instances, y.dtype), b.n, 1, args));
  return weft_cuda_note_send(c, found);
}

static WEFT_Failure *bincount(WEFT_KernelContext *c) {
  WEFT_TensorView values, weights;
  int64_t size = 0;
  weft_cuda_host->input(c, 0, &values);
  weft_cuda_host->input(c, 2, &weights);
  WEFT_CUDA_TRY(read_size(c, &size));
  if (weights.count != 0 && weights.count != values.count)
    return WEFT_CUDA_INVALID("Input indices and weights must have the same size.");
  return count_rows(c, 1, &size, values.count, false);
}

/* The state: not NULL if binary_output. */
static WEFT_Failure *dense_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char is_binary = 1;
  int binary = 0;
  (void)param;
  (void)weft_cuda_host->attr_bool(s, "binary_output", &binary);
  *out = binary != 0 ? (void *)(uintptr_t)&is_binary : NULL;
  return NULL;
}

static WEFT_Failure *dense_bincount(WEFT_KernelContext *c) {
  WEFT_TensorView values, weights;
  int64_t dims[2] = {0};
  weft_cuda_host->input(c, 0, &values);
  weft_cuda_host->input(c, 2, &weights);
  if (values.rank > 2) return WEFT_CUDA_INVALID("Shape must be at most rank 2 but is rank %d", values.rank);
  const int rank = values.rank == 2 ? 2 : 1;
  WEFT_CUDA_TRY(read_size(c, &dims[rank - 1]));
  if (weights.count != 0 && !weft_cuda_same_shape(&weights, &values)) {
    return WEFT_CUDA_INVALID(
        "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as all "
        "weights equal to 1. Received %s",
        WEFT_CUDA_SHAPE(&weights));
  }
  if (rank == 2) dims[0] = values.dims[0];
  return count_rows(c, rank, dims, rank == 2 ? values.dims[1] : values.count,
                    weft_cuda_host->state(c) != NULL);
}

/* ---- HistogramFixedWidth ---- */

/* Whether the range is one, and how wide it is in the type's own arithmetic. */
#define RANGE(type, code, distance)    \
  case WEFT_CUDA_##code: {             \
    const type *of = range->data;      \
    *is_range = of[0] < of[1];         \
    *width = distance(of[1], of[0]);   \
    memcpy(low, &of[0], sizeof of[0]); \
    break;                             \
  }
#define OF_FLOATS(v, low) ((double)((v) - (low)))
#define OF_INTS(v, low) ((double)((uint64_t)(v) - (uint64_t)(low)))
static void read_range(const WEFT_TensorView *range, bool *is_range, double *width, uint64_t *low) {
  switch (range->dtype) {
    RANGE(float, f32, OF_FLOATS)
    RANGE(double, f64, OF_FLOATS)
    RANGE(int32_t, i32, OF_INTS)
    default: RANGE(int64_t, i64, OF_INTS)
  }
}

static WEFT_Failure *histogram(WEFT_KernelContext *c) {
  WEFT_TensorView x, range, num, y;
  weft_cuda_range_t r = {.low = 0};
  bool is_range = false;
  double width = 0;
  void *found = NULL;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &range);
  weft_cuda_host->input(c, 2, &num);
  if (range.rank != 1) return WEFT_CUDA_INVALID("value_range should be a vector.");
  if (range.count != 2) return WEFT_CUDA_INVALID("value_range should be a vector of 2 elements.");
  if (num.rank != 0) return WEFT_CUDA_INVALID("nbins should be a scalar.");
  read_range(&range, &is_range, &width, &r.low);
  if (!is_range) return WEFT_CUDA_INVALID("value_range should satisfy value_range[0] < value_range[1]");
  r.size = weft_cuda_int_at(&num, 0);
  if (r.size <= 0)
    return WEFT_CUDA_INVALID("nbins should be a positive number, but got '%lld'", (long long)r.size);
  r.step = width / (double)r.size;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 1, &r.size, &y));
  WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes));
  if (x.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_note_new(c, &found));
  const weft_cuda_instances_t *f =
      y.dtype == WEFT_CUDA_i32 ? &histogram_i32_instances : &histogram_i64_instances;
  void *args[] = {&x.data, &x.count, &y.data, &r, &found};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(f, x.dtype), x.count, 1, args));
  return weft_cuda_note_send(c, found);
}

enum { SECOND = 2, THIRD = 4 };
static const char negative[] = "Input arr must be non-negative!",
                  not_a_number[] = "Histogram values must not contain NaN";
const WEFT_DeviceKernel weft_cuda_bins_kernels[] = {
    {.op = "Bincount",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(COUNTED),
     .compute = bincount,
     .finish = finish,
     .param = negative,
     .host_inputs = SECOND},
    {.op = "Bucketize",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(COUNTED),
     .prepare = buckets_prepare,
     .compute = bucketize,
     .destroy = free},
    {.op = "DenseBincount",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(COUNTED),
     .prepare = dense_prepare,
     .compute = dense_bincount,
     .finish = finish,
     .param = negative,
     .host_inputs = SECOND},
    {.op = "HistogramFixedWidth",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(COUNTED),
     .compute = histogram,
     .finish = finish,
     .param = not_a_number,
     .host_inputs = SECOND | THIRD},
    {.op = NULL},
};
