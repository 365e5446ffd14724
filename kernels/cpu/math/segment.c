/* kernels/cpu/math/segment.c - rows folded by segment: Segment*, UnsortedSegment*, SparseSegment*. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/complex_times.h"
#include "kernels/cpu/loops/indices.h"
#include "tensor/update.h"

/* The param of a row. */
typedef struct segment {
  weft_update_t how;
  bool mean, root; /* divide by the count, or by its square root */
} segment_t;

typedef void segment_fold_fn(int64_t rows, const int64_t *to_rows, const int64_t *from_rows, int64_t inner,
                             const void *from, void *to);
typedef void segment_divide_fn(int64_t n, double by, void *to);

#define MAP_STEM segment_sum
#define MAP_COMP WRAP
#define SEGMENT_JOIN(a, b) ((a) + (b))
#define SEGMENT_COMPLEX
#include "kernels/cpu/math/segment_reals.tmpl.h"
#define MAP_STEM segment_product
#define MAP_COMP WRAP
#define SEGMENT_JOIN(a, b) WEFT_TIMES(a, b)
#define SEGMENT_COMPLEX
#include "kernels/cpu/math/segment_reals.tmpl.h"
/* In TensorFlow's order: the next row stays unless what is there is beyond it. So a NaN is taken, and the row
 * behind it takes its place. */
#define MAP_STEM segment_max
#define MAP_COMP COMP
#define SEGMENT_JOIN(a, b) ((b) < (a) ? (a) : (b))
#include "kernels/cpu/math/segment_reals.tmpl.h"
#define MAP_STEM segment_min
#define MAP_COMP COMP
#define SEGMENT_JOIN(a, b) ((a) < (b) ? (a) : (b))
#include "kernels/cpu/math/segment_reals.tmpl.h"

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_COMPLEX
#define EACH_FILE "kernels/cpu/math/segment_divide_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static segment_divide_fn *const segment_divide_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM segment_divide
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

/* How the next row of a segment joins what is there. */
static segment_fold_fn *fold_of(weft_update_t how, weft_dtype_t dtype) {
  if (how == WEFT_UPDATE_MAX) return segment_max_fns[dtype];
  if (how == WEFT_UPDATE_MIN) return segment_min_fns[dtype];
  return how == WEFT_UPDATE_MUL ? segment_product_fns[dtype] : segment_sum_fns[dtype];
}

enum { FOLD_ROWS = 128 }; /* rows that are numbered before they are folded */

static char *row_at(const weft_tensor_t *t, int64_t row, int64_t inner) {
  return (char *)t->data + (size_t)(row * inner) * weft_dtype_size(t->dtype);
}

static bool is_half(weft_dtype_t dtype) { return dtype == WEFT_F16 || dtype == WEFT_BF16; }

/* ---- unsorted: negative ids are dropped ---- */

/* Are all ids of this type before `segments`? Looks at all, without a branch. */
#define IDS_BEFORE(type)                                                      \
  static bool ids_before_##type(const type *x, int64_t n, int64_t segments) { \
    bool is_beyond = false;                                                   \
    for (int64_t i = 0; i < n; i++) is_beyond |= (int64_t)x[i] >= segments;   \
    return !is_beyond;                                                        \
  }
IDS_BEFORE(int32_t)
IDS_BEFORE(int64_t)

static bool are_before(const weft_tensor_t *ids, int64_t segments) {
  if (ids->dtype == WEFT_I32) return ids_before_int32_t(ids->data, ids->count, segments);
  if (ids->dtype == WEFT_I64) return ids_before_int64_t(ids->data, ids->count, segments);
  return false;
}

static weft_status_t *unsorted_compute(weft_kernel_ctx_t *ctx) {
  const segment_t *segment = ctx->node->param;
  weft_tensor_t *data = weft_in(ctx, 0), *ids = weft_in(ctx, 1), *num = weft_in(ctx, 2), *out = NULL;
  if (num->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_segments should be a scalar, not shape %s",
                      WEFT_SHAPE_TEXT(&num->shape));
  }
  const weft_shape_t *ds = &data->shape, *is = &ids->shape;
  bool fits = ds->rank >= is->rank;
  for (int d = 0; fits && d < is->rank; d++) fits = ds->dims[d] == is->dims[d];
  if (!fits) {
    return WEFT_ERROR(INVALID_ARGUMENT, "data.shape = %s does not start with segment_ids.shape = %s",
                      WEFT_SHAPE_TEXT(ds), WEFT_SHAPE_TEXT(is));
  }
  int64_t n = weft_cpu_int_at(num, 0);
  if (n < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input num_segments == %" PRId64 " must not be negative.", n);
  weft_shape_t shape = {.rank = ds->rank - is->rank + 1, .dims = {n}};
  if (shape.rank > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "too many dimensions");
  for (int d = 1; d < shape.rank; d++) shape.dims[d] = ds->dims[is->rank + d - 1];
  /* All ids before num_segments rows are taken; without data TensorFlow looks at none. */
  const int64_t suspect = data->count > 0 && !are_before(ids, n) ? ids->count : 0;
  for (int64_t i = 0; i < suspect; i++) {
    char text[WEFT_INDEX_TEXT];
    int64_t id = weft_cpu_int_at(ids, i);
    if (id < n) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "segment_ids%s = %" PRId64 " is out of range [0, %" PRId64 ")",
                      weft_index_print(is, is->rank, i, text), id, n);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, data->dtype, &shape, &out));
  weft_update_identity(segment->how, out->dtype, out->count, out->data);
  int64_t inner = weft_cpu_product(&shape, 1, shape.rank);
  segment_fold_fn *fold = fold_of(segment->how, out->dtype);
  int64_t to[FOLD_ROWS], from[FOLD_ROWS];
  for (int64_t i = 0, rows = 0; i < ids->count && data->count > 0; i += rows) {
    rows = ids->count - i < FOLD_ROWS ? ids->count - i : FOLD_ROWS;
    for (int64_t k = 0; k < rows; k++) {
      to[k] = weft_index_at(ids, i + k);
      from[k] = i + k;
    }
    fold(rows, to, from, inner, data->data, out->data);
  }
  return NULL;
}

/* ---- sorted ---- */

/* Are ids of this type in order, the first and the last in range? Looks at all, without a branch. */
#define IDS_FIT(type)                                                      \
  static bool ids_fit_##type(const type *x, int64_t n, int64_t segments) { \
    bool falls = false;                                                    \
    for (int64_t i = 0; i + 1 < n; i++) falls |= x[i + 1] < x[i];          \
    return !falls && (n == 0 || (x[0] >= 0 && x[n - 1] < segments));       \
  }
IDS_FIT(int32_t)
IDS_FIT(int64_t)

/* All ids and indices, before memory is taken for as many rows as the last id says. */
static weft_status_t *check_sorted(const weft_tensor_t *ids, const weft_tensor_t *pick, int64_t n,
                                   int64_t segments, int64_t size) {
  if (pick == NULL && n <= size) {
    if (ids->dtype == WEFT_I32 && ids_fit_int32_t(ids->data, n, segments)) return NULL;
    if (ids->dtype == WEFT_I64 && ids_fit_int64_t(ids->data, n, segments)) return NULL;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t id = weft_cpu_int_at(ids, i), from = pick == NULL ? i : weft_cpu_int_at(pick, i);
    if (i + 1 < n && weft_cpu_int_at(ids, i + 1) < id) {
      return WEFT_ERROR(INVALID_ARGUMENT, "segment ids are not increasing");
    }
    if (id < 0 || id >= segments) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Segment id %" PRId64 " out of range [0, %" PRId64
                        "), possibly because 'segment_ids' input is not sorted.",
                        id, segments);
    }
    if (from < 0 || from >= size) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Bad: indices[%" PRId64 "] == %" PRId64 " out of range [0, %" PRId64 ")", i, from,
                        size);
    }
  }
  return NULL;
}

typedef struct sorted_job {
  const segment_t *segment;
  const weft_tensor_t *data, *pick, *ids;
  weft_tensor_t *out;
  int64_t n, inner;
  segment_fold_fn *fold;
} sorted_job_t;

/* Row i of the segments' rows, in `data`. */
static int64_t picked(const sorted_job_t *j, int64_t i) {
  return j->pick == NULL ? i : weft_index_at(j->pick, i);
}

/* Rows [begin, end) into that of their segment. */
static void fold_segment(const sorted_job_t *j, int64_t id, int64_t begin, int64_t end) {
  int64_t to[FOLD_ROWS], from[FOLD_ROWS];
  for (int64_t i = begin, num = 0; i < end; i += num) {
    num = end - i < FOLD_ROWS ? end - i : FOLD_ROWS;
    for (int64_t k = 0; k < num; k++) {
      to[k] = id;
      from[k] = picked(j, i + k);
    }
    j->fold(num, to, from, j->inner, j->data->data, j->out->data);
  }
}

/* The segments that begin within rows [begin, end), whole. */
static void sorted_range(void *arg, int64_t begin, int64_t end) {
  const sorted_job_t *j = arg;
  const size_t bytes = (size_t)j->inner * weft_dtype_size(j->out->dtype);
  segment_divide_fn *divide = segment_divide_fns[j->out->dtype];
  int64_t i = begin;
  while (begin > 0 && i < end && weft_index_at(j->ids, i) == weft_index_at(j->ids, begin - 1)) i++;
  for (int64_t next = i; i < end; i = next) {
    const int64_t id = weft_index_at(j->ids, i);
    char *to = row_at(j->out, id, j->inner);
    for (next = i + 1; next < j->n && weft_index_at(j->ids, next) == id;) next++;
    if (bytes > 0) memcpy(to, row_at(j->data, picked(j, i), j->inner), bytes);
    fold_segment(j, id, i + 1, next);
    if (next - i == 1) continue;
    if (j->segment->mean) divide(j->inner, (double)(next - i), to);
    if (j->segment->root) divide(j->inner, sqrt((double)(next - i)), to);
  }
}

/* `pick` names the rows of data (NULL: one after another); `n` of them. `segments` is the size of the result,
 * or -1 to take it from the last id. What no row falls into: 0, but 1 for a product. */
static weft_status_t *sorted(weft_kernel_ctx_t *ctx, const segment_t *segment, const weft_tensor_t *data,
                             const weft_tensor_t *pick, const weft_tensor_t *ids, int64_t n,
                             int64_t segments) {
  int64_t last = n > 0 ? weft_cpu_int_at(ids, n - 1) : -1;
  bool sized = segments >= 0;
  if (!sized) {
    if (last == INT64_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "segment ids must be < num_segments");
    segments = last + 1;
  }
  if (segments < 0) return WEFT_ERROR(INVALID_ARGUMENT, "segment ids must be >= 0");
  weft_shape_t shape = data->shape;
  shape.dims[0] = segments;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(check_sorted(ids, pick, n, segments, data->shape.dims[0]));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, data->dtype, &shape, &out));
  int64_t inner = weft_cpu_product(&shape, 1, shape.rank);
  weft_update_identity(segment->how == WEFT_UPDATE_MUL ? WEFT_UPDATE_MUL : WEFT_UPDATE_ADD, out->dtype,
                       out->count, out->data);
  sorted_job_t j = {segment, data, pick, ids, out, n, inner, fold_of(segment->how, out->dtype)};
  weft_parallel_for(ctx->device->pool, n, WEFT_CPU_GRAIN / (inner + 8) + 1, sorted_range, &j);
  return NULL;
}

static weft_status_t *segment_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *data = weft_in(ctx, 0), *ids = weft_in(ctx, 1);
  if (ids->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "segment_ids should be a vector.");
  if (data->shape.rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank 1");
  if (data->shape.dims[0] != ids->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "segment_ids should be the same size as dimension 0 of input.");
  }
  return sorted(ctx, ctx->node->param, data, NULL, ids, ids->count, -1);
}

/* Of halfs, indices and ids: added up in float. */
static weft_status_t *sorted_halfs(weft_kernel_ctx_t *ctx, const weft_tensor_t *data,
                                   const weft_tensor_t *indices, const weft_tensor_t *ids, int64_t segments) {
  weft_tensor_t *wide = NULL, *sum = NULL;
  WEFT_RETURN_IF_ERROR(weft_cpu_cast(ctx, data, WEFT_F32, &wide));
  weft_status_t *s = sorted(ctx, ctx->node->param, wide, indices, ids, ids->count, segments);
  weft_tensor_release(wide);
  if (s != NULL) return s;
  sum = ctx->outputs[0].tensor;
  ctx->outputs[0].tensor = NULL;
  s = weft_cpu_cast(ctx, sum, data->dtype, &ctx->outputs[0].tensor);
  weft_tensor_release(sum);
  return s;
}

static weft_status_t *sparse_check(const weft_tensor_t *data, const weft_tensor_t *indices,
                                   const weft_tensor_t *ids) {
  if (indices->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "indices should be a vector.");
  if (ids->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "segment_ids should be a vector.");
  if (ids->count != indices->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "segment_ids and indices should have same size.");
  }
  if (data->shape.rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank 1");
  return NULL;
}

static weft_status_t *sparse_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *data = weft_in(ctx, 0), *indices = weft_in(ctx, 1), *ids = weft_in(ctx, 2);
  WEFT_RETURN_IF_ERROR(sparse_check(data, indices, ids));
  if (is_half(data->dtype)) return sorted_halfs(ctx, data, indices, ids, -1);
  return sorted(ctx, ctx->node->param, data, indices, ids, ids->count, -1);
}

/* The same with as many segments as input 3 says. */
static weft_status_t *sparse_sized_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *data = weft_in(ctx, 0), *indices = weft_in(ctx, 1), *ids = weft_in(ctx, 2),
                *num = weft_in(ctx, 3);
  if (num->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_segments should be a scalar, not shape %s",
                      WEFT_SHAPE_TEXT(&num->shape));
  }
  WEFT_RETURN_IF_ERROR(sparse_check(data, indices, ids));
  int64_t segments = weft_cpu_int_at(num, 0);
  if (segments < 0) return WEFT_ERROR(INVALID_ARGUMENT, "segment ids must be >= 0");
  if (ids->count > 0 && weft_cpu_int_at(ids, ids->count - 1) >= segments)
    return WEFT_ERROR(INVALID_ARGUMENT, "segment ids must be < num_segments");
  if (is_half(data->dtype)) return sorted_halfs(ctx, data, indices, ids, segments);
  return sorted(ctx, ctx->node->param, data, indices, ids, ids->count, segments);
}

/* The gradient spreads each segment's row back over the rows that it was made of. */
/* All ids and indices, before output_dim0 rows are taken. */
static weft_status_t *check_spread(const weft_tensor_t *ids, const weft_tensor_t *indices, int64_t segments,
                                   int64_t size) {
  for (int64_t i = 0; i < ids->count; i++) {
    int64_t id = weft_cpu_int_at(ids, i), to = weft_cpu_int_at(indices, i);
    if (id < 0 || id >= segments) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Segment id %" PRId64 " out of range [0, %" PRId64 ").", id,
                        segments);
    }
    if (to < 0 || to >= size) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Index %" PRId64 " out of range [0, %" PRId64 ").", to, size);
    }
  }
  return NULL;
}

/* n elements of a row times 1/count or its root, rounded to the type in between as TensorFlow does. */
static void scale(const segment_t *segment, weft_dtype_t dtype, int64_t n, double count, void *row) {
  if (!segment->mean && !segment->root) return;
  double factor = 1 / (segment->root ? sqrt(count) : count);
  weft_c128_t by = {0};
  weft_cpu_cast_loop(WEFT_F64, dtype)(1, &factor, &by);
  weft_update_find(WEFT_UPDATE_MUL, dtype)(row, &by, n, true);
}

/* Adds the row of each id to that row of `out` which `places` names. */
static weft_status_t *spread(const weft_kernel_ctx_t *ctx, const weft_tensor_t *grad,
                             const weft_tensor_t *ids, const int64_t *places, weft_tensor_t *out) {
  const segment_t *segment = ctx->node->param;
  weft_cpu_zero(out);
  double *counts = weft_calloc((size_t)grad->shape.dims[0] + 1, sizeof *counts);
  int64_t inner = weft_cpu_product(&grad->shape, 1, grad->shape.rank);
  char *scaled = weft_calloc((size_t)inner + 1, sizeof(weft_c128_t));
  weft_status_t *s = counts == NULL || scaled == NULL ? WEFT_NO_MEMORY("%s", ctx->node->op_name.data) : NULL;
  for (int64_t i = 0; s == NULL && i < ids->count; i++) counts[weft_cpu_int_at(ids, i)]++;
  weft_cpu_cast_fn *convert = weft_cpu_cast_loop(grad->dtype, out->dtype);
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, out->dtype);
  for (int64_t i = 0; s == NULL && inner > 0 && i < ids->count; i++) {
    int64_t id = weft_cpu_int_at(ids, i);
    convert(inner, row_at(grad, id, inner), scaled);
    scale(segment, out->dtype, inner, counts[id], scaled);
    add(row_at(out, places[i], inner), scaled, inner, false);
  }
  weft_free(counts);
  weft_free(scaled);
  return s;
}

static int by_number(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Each index once, ascending, in `unique`; and in `places` where each index is among them. Returns how many.
 */
static int64_t number_indices(const weft_tensor_t *indices, int64_t *unique, int64_t *places) {
  int64_t count = 0;
  for (int64_t i = 0; i < indices->count; i++) unique[i] = weft_cpu_int_at(indices, i);
  qsort(unique, (size_t)indices->count, sizeof *unique, by_number);
  for (int64_t i = 0; i < indices->count; i++) {
    if (count == 0 || unique[count - 1] != unique[i]) unique[count++] = unique[i];
  }
  for (int64_t i = 0; i < indices->count; i++) {
    int64_t wanted = weft_cpu_int_at(indices, i);
    places[i] = (int64_t *)bsearch(&wanted, unique, (size_t)count, sizeof wanted, by_number) - unique;
  }
  return count;
}

/* `size` rows; or only those that an index names, and which these are as output 1. */
static weft_status_t *put_spread(weft_kernel_ctx_t *ctx, int64_t size, int64_t *unique, int64_t *places) {
  const weft_tensor_t *grad = weft_in(ctx, 0), *indices = weft_in(ctx, 1), *ids = weft_in(ctx, 2);
  weft_tensor_t *out = NULL, *which = NULL;
  weft_shape_t shape = grad->shape;
  bool is_compact = ctx->node->num_outputs == 2;
  shape.dims[0] = size;
  if (is_compact) {
    weft_shape_t vector = weft_shape_vector(shape.dims[0] = number_indices(indices, unique, places));
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, indices->dtype, &vector, &which));
    for (int64_t i = 0; i < which->count; i++) {
      if (which->dtype == WEFT_I32) ((int32_t *)which->data)[i] = (int32_t)unique[i];
      if (which->dtype == WEFT_I64) ((int64_t *)which->data)[i] = unique[i];
    }
  } else {
    for (int64_t i = 0; i < indices->count; i++) places[i] = weft_cpu_int_at(indices, i);
  }
  if (!is_half(grad->dtype)) {
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, grad->dtype, &shape, &out));
    return spread(ctx, grad, ids, places, out);
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_F32, &shape, NULL, &out)); /* halfs are added up in float */
  weft_status_t *s = spread(ctx, grad, ids, places, out);
  if (s == NULL) s = weft_cpu_cast(ctx, out, grad->dtype, &ctx->outputs[0].tensor);
  weft_tensor_release(out);
  return s;
}

static weft_status_t *put_none(weft_kernel_ctx_t *ctx) {
  weft_shape_t shape = weft_in(ctx, 0)->shape, vector = weft_shape_vector(0);
  weft_tensor_t *out = NULL;
  shape.dims[0] = 0;
  if (ctx->node->num_outputs == 2)
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, weft_in(ctx, 1)->dtype, &vector, &out));
  return weft_out_new(ctx, 0, weft_in(ctx, 0)->dtype, &shape, &out);
}

static weft_status_t *sparse_grad_compute(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *grad = weft_in(ctx, 0), *indices = weft_in(ctx, 1), *ids = weft_in(ctx, 2);
  WEFT_RETURN_IF_ERROR(sparse_check(grad, indices, ids));
  int64_t size = 0;
  WEFT_RETURN_IF_ERROR(weft_cpu_int_scalar(weft_in(ctx, 3), "output_dim0", &size));
  if (size < 0) return WEFT_ERROR(INVALID_ARGUMENT, "output_dim0 must be >= 0, got %" PRId64, size);
  if (size == 0) return put_none(ctx); /* TensorFlow looks at no index then */
  WEFT_RETURN_IF_ERROR(check_spread(ids, indices, grad->shape.dims[0], size));
  int64_t *unique = weft_calloc((size_t)ids->count + 1, sizeof *unique),
          *places = weft_calloc((size_t)ids->count + 1, sizeof *places);
  weft_status_t *s = unique == NULL || places == NULL ? WEFT_NO_MEMORY("%s", ctx->node->op_name.data)
                                                      : put_spread(ctx, size, unique, places);
  weft_free(unique);
  weft_free(places);
  return s;
}

#define SEGMENT(op_, types_, fn, how, mean, root)                                              \
  {                                                                                            \
    .op = op_, .type_attr = "T", .types = types_, .compute = fn, .param = &(const segment_t) { \
      WEFT_UPDATE_##how, mean, root                                                            \
    }                                                                                          \
  }
const weft_kernel_t weft_cpu_segment_kernels[] = {
    SEGMENT("SegmentMax", WEFT_SET_REAL, segment_compute, MAX, false, false),
    SEGMENT("SegmentMean", WEFT_SET_NUMBERS, segment_compute, ADD, true, false),
    SEGMENT("SegmentMin", WEFT_SET_REAL, segment_compute, MIN, false, false),
    SEGMENT("SegmentProd", WEFT_SET_NUMBERS, segment_compute, MUL, false, false),
    SEGMENT("SegmentSum", WEFT_SET_NUMBERS, segment_compute, ADD, false, false),
    SEGMENT("SparseSegmentMean", WEFT_SET_FLOATS, sparse_compute, ADD, true, false),
    SEGMENT("SparseSegmentMeanGrad", WEFT_SET_FLOATS, sparse_grad_compute, ADD, true, false),
    SEGMENT("SparseSegmentMeanGradV2", WEFT_SET_FLOATS, sparse_grad_compute, ADD, true, false),
    SEGMENT("SparseSegmentMeanWithNumSegments", WEFT_SET_FLOATS, sparse_sized_compute, ADD, true, false),
    SEGMENT("SparseSegmentSqrtN", WEFT_SET_FLOATS, sparse_compute, ADD, false, true),
    SEGMENT("SparseSegmentSqrtNGrad", WEFT_SET_FLOATS, sparse_grad_compute, ADD, false, true),
    SEGMENT("SparseSegmentSqrtNGradV2", WEFT_SET_FLOATS, sparse_grad_compute, ADD, false, true),
    SEGMENT("SparseSegmentSqrtNWithNumSegments", WEFT_SET_FLOATS, sparse_sized_compute, ADD, false, true),
    SEGMENT("SparseSegmentSum", WEFT_SET_REAL, sparse_compute, ADD, false, false),
    SEGMENT("SparseSegmentSumGrad", WEFT_SET_FLOATS, sparse_grad_compute, ADD, false, false),
    SEGMENT("SparseSegmentSumGradV2", WEFT_SET_FLOATS, sparse_grad_compute, ADD, false, false),
    SEGMENT("SparseSegmentSumWithNumSegments", WEFT_SET_REAL, sparse_sized_compute, ADD, false, false),
    SEGMENT("UnsortedSegmentMax", WEFT_SET_REAL, unsorted_compute, MAX, false, false),
    SEGMENT("UnsortedSegmentMin", WEFT_SET_REAL, unsorted_compute, MIN, false, false),
    SEGMENT("UnsortedSegmentProd", WEFT_SET_NUMBERS, unsorted_compute, MUL, false, false),
    SEGMENT("UnsortedSegmentSum", WEFT_SET_NUMBERS, unsorted_compute, ADD, false, false),
    {0},
};
