/* kernels/cpu/math/histogram.c - which bin a value falls into, and how many fall into each: Bucketize,
 * Bincount, DenseBincount, HistogramFixedWidth. */
#include <inttypes.h>

#include "kernels/cpu/loops/indices.h"
#include "tensor/update.h"

#define F32_F64 (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))

/* ---- Bucketize ---- */

typedef struct buckets_job {
  const void *x;
  int32_t *out;
  const float *bounds;
  int64_t num_bounds;
} buckets_job_t;

/* The first boundary above x[i], by bisection: a NaN is above all of them. Integers are compared as float. */
#define DEFINE_BUCKETS(suffix, type, compared)                          \
  static void buckets_##suffix(void *arg, int64_t begin, int64_t end) { \
    const buckets_job_t *j = arg;                                       \
    for (int64_t i = begin; i < end; i++) {                             \
      const compared v = (compared)((const type *)j->x)[i];             \
      int64_t low = 0, n = j->num_bounds;                               \
      while (n > 0) {                                                   \
        int64_t half = n / 2;                                           \
        bool is_above = v < (compared)j->bounds[low + half];            \
        low = is_above ? low : low + half + 1;                          \
        n = is_above ? half : n - half - 1;                             \
      }                                                                 \
      j->out[i] = (int32_t)low;                                         \
    }                                                                   \
  }
DEFINE_BUCKETS(f32, float, float)
DEFINE_BUCKETS(f64, double, double)
DEFINE_BUCKETS(i32, int32_t, float)
DEFINE_BUCKETS(i64, int64_t, float)

/* The state is the attribute itself. */
static weft_status_t *bucketize_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *bounds = weft_knode_attr(setup, "boundaries");
  for (int i = 1; bounds != NULL && i < bounds->n; i++) {
    if (bounds->list.floats[i] < bounds->list.floats[i - 1])
      return WEFT_ERROR(INVALID_ARGUMENT, "Expected sorted boundaries");
  }
  *out_state = (void *)(uintptr_t)bounds;
  return NULL;
}

static weft_status_t *bucketize(weft_kernel_ctx_t *ctx) {
  static weft_range_fn *const fns[WEFT_DTYPE_COUNT] = {
      [WEFT_F32] = buckets_f32, [WEFT_F64] = buckets_f64, [WEFT_I32] = buckets_i32, [WEFT_I64] = buckets_i64};
  const weft_attr_t *bounds = ctx->state;
  weft_tensor_t *x = weft_in(ctx, 0), *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I32, &x->shape, &out));
  buckets_job_t j = {x->data, out->data, bounds->list.floats, bounds->n};
  weft_parallel_for(ctx->device->pool, x->count, WEFT_CPU_GRAIN / 8, fns[x->dtype], &j);
  return NULL;
}

/* ---- Bincount, DenseBincount: how often (or with what weight) each value below `size` occurs ---- */

static char *element(const weft_tensor_t *t, int64_t i) {
  return (char *)t->data + (size_t)i * weft_dtype_size(t->dtype);
}

static weft_status_t *read_size(const weft_tensor_t *t, int64_t *out) {
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank 0 but is rank %d", t->shape.rank);
  }
  *out = weft_cpu_int_at(t, 0);
  if (*out < 0) return WEFT_ERROR(INVALID_ARGUMENT, "size (%" PRId64 ") must be non-negative", *out);
  return NULL;
}

/* The usual counts: one more for each value below `size`, without a call. False for other types. */
static bool count_ones(const weft_tensor_t *values, int64_t begin, int64_t end, int64_t size,
                       weft_dtype_t dtype, void *bins) {
#define COUNT(type)                             \
  for (int64_t i = begin; i < end; i++) {       \
    const int64_t v = weft_index_at(values, i); \
    if (v < size) ((type *)bins)[v] += (type)1; \
  }                                             \
  return true;
  switch (dtype) {
    case WEFT_I32: COUNT(uint32_t)
    case WEFT_I64: COUNT(uint64_t)
    case WEFT_F32: COUNT(float)
    case WEFT_F64: COUNT(double)
    default: return false;
  }
#undef COUNT
}

/* Counts in rows of `width` values each. `weights` has as many elements as `values`, or none; `is_binary`:
 * whether a value occurs, not how often. */
static weft_status_t *count_rows(weft_kernel_ctx_t *ctx, const weft_shape_t *shape, int64_t size,
                                 int64_t width, bool is_binary) {
  const weft_tensor_t *values = weft_in(ctx, 0), *weights = weft_in(ctx, 2);
  weft_tensor_t *out = NULL;
  for (int64_t i = 0; i < values->count; i++) {
    if (weft_index_at(values, i) < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Input arr must be non-negative!");
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weights->dtype, shape, &out));
  weft_cpu_zero(out);
  uint64_t one[2] = {0};
  weft_update_identity(WEFT_UPDATE_MUL, weights->dtype, 1, one);
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, weights->dtype);
  bool is_plain = is_binary || weights->count == 0;
  for (int64_t begin = 0, row = 0; begin < values->count; begin += width, row++) {
    const int64_t end = begin + width;
    if (is_plain && !is_binary &&
        count_ones(values, begin, end, size, weights->dtype, element(out, row * size)))
      continue;
    for (int64_t i = begin; i < end; i++) {
      int64_t v = weft_index_at(values, i);
      if (v >= size) continue;
      char *bin = element(out, row * size + v);
      if (is_binary) weft_update_identity(WEFT_UPDATE_ADD, weights->dtype, 1, bin);
      add(bin, is_plain ? (const void *)one : element(weights, i), 1, false);
    }
  }
  return NULL;
}

static weft_status_t *bincount(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *values = weft_in(ctx, 0), *weights = weft_in(ctx, 2);
  int64_t size = 0;
  WEFT_RETURN_IF_ERROR(read_size(weft_in(ctx, 1), &size));
  if (weights->count != 0 && weights->count != values->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input indices and weights must have the same size.");
  }
  weft_shape_t shape = weft_shape_vector(size);
  return count_rows(ctx, &shape, size, values->count, false);
}

WEFT_ATTRS(dense_bincount, (BOOL, binary_output))
static weft_status_t *dense_bincount(weft_kernel_ctx_t *ctx, const dense_bincount_attrs_t *attrs) {
  const weft_tensor_t *values = weft_in(ctx, 0), *weights = weft_in(ctx, 2);
  int64_t size = 0;
  if (values->shape.rank > 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at most rank 2 but is rank %d", values->shape.rank);
  }
  WEFT_RETURN_IF_ERROR(read_size(weft_in(ctx, 1), &size));
  if (weights->count != 0 && !weft_shape_eq(&weights->shape, &values->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it "
                      "acts as all weights equal to 1. Received %s",
                      WEFT_SHAPE_TEXT(&weights->shape));
  }
  weft_shape_t shape = weft_shape_vector(size);
  int64_t width = values->count;
  if (values->shape.rank == 2) {
    shape = weft_shape_matrix(values->shape.dims[0], size);
    width = values->shape.dims[1];
  }
  return count_rows(ctx, &shape, size, width, attrs->binary_output);
}

/* ---- HistogramFixedWidth: bins of equal width; what lies outside is counted in the outermost ---- */

enum { HISTOGRAM_BLOCK = 256 }; /* values whose bins are computed in vectors, before they are counted */

/* bins_<type>() gives the bins of n values; false if one is NaN. DISTANCE(v, low) is how far v is above low,
 * or 0, in the type's own arithmetic; of integers it cannot overflow. A range that is not finite has all
 * values in bin 0 and in the last. There are at most INT32_MAX bins. */
#define DEFINE_HISTOGRAM(suffix, type, DISTANCE)                                              \
  static bool bins_##suffix(const void *values, int64_t n, const void *range_at, int64_t num, \
                            int32_t *out) {                                                   \
    const type *x = values, *range = range_at, low = range[0];                                \
    const double last = (double)(num - 1), step = DISTANCE(range[1], low) / (double)num;      \
    int has_nan = 0;                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                         \
      const double at = DISTANCE(x[i], low) / step, above = at > 0 ? at : 0;                  \
      has_nan |= x[i] != x[i];                                                                \
      out[i] = (int32_t)(above >= last ? last : above);                                       \
    }                                                                                         \
    return has_nan == 0;                                                                      \
  }                                                                                           \
  static bool is_range_##suffix(const void *range) {                                          \
    return ((const type *)range)[0] < ((const type *)range)[1];                               \
  }
#define OF_FLOATS(v, low) ((double)((v) > (low) ? (v) - (low) : 0))
#define OF_INTS(v, low) ((double)((v) > (low) ? (uint64_t)(v) - (uint64_t)(low) : 0))
DEFINE_HISTOGRAM(f32, float, OF_FLOATS)
DEFINE_HISTOGRAM(f64, double, OF_FLOATS)
DEFINE_HISTOGRAM(i32, int32_t, OF_INTS)
DEFINE_HISTOGRAM(i64, int64_t, OF_INTS)

typedef struct fixed_bins {
  bool (*bins)(const void *values, int64_t n, const void *range, int64_t num, int32_t *out);
  bool (*is_range)(const void *range);
} fixed_bins_t;

static void count_in(weft_tensor_t *out, const int32_t *bins, int64_t n) {
  if (out->dtype == WEFT_I32) {
    for (int64_t i = 0; i < n; i++) ((int32_t *)out->data)[bins[i]]++;
  } else if (out->dtype == WEFT_I64) {
    for (int64_t i = 0; i < n; i++) ((int64_t *)out->data)[bins[i]]++;
  }
}

static weft_status_t *histogram(weft_kernel_ctx_t *ctx) {
  static const fixed_bins_t of[WEFT_DTYPE_COUNT] = {[WEFT_F32] = {bins_f32, is_range_f32},
                                                    [WEFT_F64] = {bins_f64, is_range_f64},
                                                    [WEFT_I32] = {bins_i32, is_range_i32},
                                                    [WEFT_I64] = {bins_i64, is_range_i64}};
  const weft_tensor_t *values = weft_in(ctx, 0), *range = weft_in(ctx, 1), *nbins = weft_in(ctx, 2);
  weft_tensor_t *out = NULL;
  if (range->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "value_range should be a vector.");
  if (range->count != 2) return WEFT_ERROR(INVALID_ARGUMENT, "value_range should be a vector of 2 elements.");
  if (nbins->shape.rank != 0) return WEFT_ERROR(INVALID_ARGUMENT, "nbins should be a scalar.");
  if (!of[values->dtype].is_range(range->data)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "value_range should satisfy value_range[0] < value_range[1]");
  }
  int64_t n = weft_cpu_int_at(nbins, 0);
  if (n <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "nbins should be a positive number, but got '%" PRId64 "'", n);
  }
  weft_shape_t shape = weft_shape_vector(n);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, &out));
  weft_cpu_zero(out);
  const size_t size = weft_dtype_size(values->dtype);
  int32_t bins[HISTOGRAM_BLOCK];
  for (int64_t i = 0, m = 0; i < values->count; i += m) {
    m = values->count - i < HISTOGRAM_BLOCK ? values->count - i : HISTOGRAM_BLOCK;
    if (!of[values->dtype].bins((const char *)values->data + (size_t)i * size, m, range->data, n, bins))
      return WEFT_ERROR(INVALID_ARGUMENT, "Histogram values must not contain NaN");
    count_in(out, bins, m);
  }
  return NULL;
}

const weft_kernel_t weft_cpu_histogram_kernels[] = {
    WEFT_KERNEL("Bincount", "T", WEFT_SET_INDEX | F32_F64, NULL, bincount, NULL),
    WEFT_KERNEL("Bucketize", "T", WEFT_SET_INDEX | F32_F64, bucketize_prepare, bucketize, NULL),
    WEFT_KERNEL_ATTRS("DenseBincount", "T", WEFT_SET_INDEX | F32_F64, dense_bincount),
    WEFT_KERNEL("HistogramFixedWidth", "T", WEFT_SET_INDEX | F32_F64, NULL, histogram, NULL),
    {0},
};
