/* kernels/cpu/array/fill.c - tensors made from a few numbers: Fill, Empty, Range, LinSpace, OneHot. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/indices.h"
#include "kernels/cpu/loops/move.h"

static weft_status_t *fill_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *dims = weft_in(ctx, 0), *value = weft_in(ctx, 1), *y = NULL;
  if (dims->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "dims must represent a vector, got shape %s",
                      WEFT_SHAPE_TEXT(&dims->shape));
  }
  if (value->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "value must represent a scalar, got shape %s",
                      WEFT_SHAPE_TEXT(&value->shape));
  }
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(dims, "dims", &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, value->dtype, &shape, &y));
  if (weft_dtype_is_plain(value->dtype)) {
    weft_move_fill(ctx->device->pool, y->data, value->data, weft_dtype_size(value->dtype), y->count);
    return NULL;
  }
  for (int64_t i = 0; i < y->count; i++) WEFT_RETURN_IF_ERROR(weft_cpu_copy(y, i, value, 0, 1));
  return NULL;
}

/* Garbage is allowed when init is false; zeros are as good, and never leak what was there. */
static weft_status_t *empty_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *y = NULL;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(weft_in(ctx, 0), "shape", &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, &y));
  weft_cpu_zero(y);
  return NULL;
}

/* ---- Range ---- */

static weft_status_t *range_error(const char *what, double start, double limit) {
  return WEFT_ERROR(INVALID_ARGUMENT, "%s: %g/%g", what, start, limit);
}

static weft_status_t *int_range(weft_kernel_ctx_t *ctx, weft_dtype_t dtype) {
  bool is_unsigned = dtype == WEFT_U16 || dtype == WEFT_U32 || dtype == WEFT_U64 || dtype == WEFT_U8;
  int64_t start = weft_cpu_int_at(weft_in(ctx, 0), 0), limit = weft_cpu_int_at(weft_in(ctx, 1), 0);
  int64_t delta = weft_cpu_int_at(weft_in(ctx, 2), 0);
  if (delta == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Requires delta != 0: 0");
  bool rising = delta > 0 || is_unsigned;
  bool starts_below = is_unsigned ? (uint64_t)start <= (uint64_t)limit : start <= limit;
  bool starts_above = is_unsigned ? (uint64_t)start >= (uint64_t)limit : start >= limit;
  if (rising && !starts_below) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Requires start <= limit when delta > 0: %" PRId64 "/%" PRId64, start,
                      limit);
  }
  if (!rising && !starts_above) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Requires start >= limit when delta < 0: %" PRId64 "/%" PRId64, start,
                      limit);
  }
  uint64_t way = rising ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t step = rising ? (uint64_t)delta : 0 - (uint64_t)delta;
  uint64_t n = way / step + (way % step != 0);
  if (n > (uint64_t)INT64_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "Requires ((limit - start) / delta) <= 2^63 - 1");
  weft_shape_t shape = weft_shape_vector((int64_t)n);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &shape, &y));
  const uint64_t first = (uint64_t)start, by = (uint64_t)delta;
#define RANGE(type, wide) \
  for (uint64_t i = 0; i < n; i++) ((type *)y->data)[i] = (type)((wide)first + (wide)i * (wide)by);
  switch (weft_dtype_size(dtype)) { /* the low bits of a sum are those of the sum of low bits */
    case 1: RANGE(uint8_t, uint32_t) break;
    case 2: RANGE(uint16_t, uint32_t) break;
    case 4: RANGE(uint32_t, uint32_t) break;
    default: RANGE(uint64_t, uint64_t) break;
  }
#undef RANGE
  return NULL;
}

/* float: `val += delta` in the type itself, as TensorFlow does, so that the last digits agree. */
static weft_status_t *float_range(weft_kernel_ctx_t *ctx, weft_dtype_t dtype) {
  double v[3];
  weft_cpu_cast_fn *to_double = weft_cpu_cast_loop(dtype, WEFT_F64),
                   *back = weft_cpu_cast_loop(WEFT_F64, dtype);
  for (int i = 0; i < 3; i++) to_double(1, weft_in(ctx, i)->data, &v[i]);
  double start = v[0], limit = v[1], delta = v[2];
  if (delta == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Requires delta != 0: %g", delta);
  if (delta > 0 && !(start <= limit))
    return range_error("Requires start <= limit when delta > 0", start, limit);
  if (!(delta > 0) && !(start >= limit))
    return range_error("Requires start >= limit when delta < 0", start, limit);
  double length = dtype == WEFT_F64 ? fabs((limit - start) / delta)
                                    : (double)fabsf(((float)limit - (float)start) / (float)delta);
  double n = ceil(length);
  if (!(n < 9e18))
    return WEFT_ERROR(INVALID_ARGUMENT, "Requires ((limit - start) / delta) <= 9223372036854775807");
  weft_shape_t shape = weft_shape_vector((int64_t)n);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &shape, &y));
  size_t size = weft_dtype_size(dtype);
  double value = start;
  if (dtype == WEFT_F32) {
    float next = (float)start, *out = y->data;
    for (int64_t i = 0; i < y->count; i++, next += (float)delta) out[i] = next;
    return NULL;
  }
  for (int64_t i = 0; i < y->count; i++) {
    char *at = (char *)y->data + (size_t)i * size;
    back(1, &value, at);
    to_double(1, at, &value); /* rounded to the type at each step */
    value += delta;
  }
  return NULL;
}

static weft_status_t *range_compute(weft_kernel_ctx_t *ctx) {
  static const char *const names[] = {"start", "limit", "delta"};
  for (int i = 0; i < 3; i++) {
    if (weft_in(ctx, i)->count == 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar, not shape %s", names[i],
                      WEFT_SHAPE_TEXT(&weft_in(ctx, i)->shape));
  }
  weft_dtype_t dtype = weft_in(ctx, 0)->dtype;
  return weft_dtype_is_integer(dtype) ? int_range(ctx, dtype) : float_range(ctx, dtype);
}

/* ---- LinSpace: start + step * i, and exactly stop at the end ---- */

static weft_status_t *lin_space_compute(weft_kernel_ctx_t *ctx) {
  weft_dtype_t dtype = weft_in(ctx, 0)->dtype;
  static const char *const names[] = {"start", "stop", "num"};
  for (int i = 0; i < 3; i++) {
    if (weft_in(ctx, i)->count == 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar, not shape %s", names[i],
                      WEFT_SHAPE_TEXT(&weft_in(ctx, i)->shape));
  }
  int64_t n = weft_cpu_int_at(weft_in(ctx, 2), 0);
  if (n <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Requires num > 0: %" PRId64, n);
  double ends[2];
  weft_cpu_cast_fn *to_double = weft_cpu_cast_loop(dtype, WEFT_F64),
                   *back = weft_cpu_cast_loop(WEFT_F64, dtype);
  for (int i = 0; i < 2; i++) to_double(1, weft_in(ctx, i)->data, &ends[i]);
  weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &shape, &y));
  size_t size = weft_dtype_size(dtype);
  double step = n > 1 ? (ends[1] - ends[0]) / (double)(n - 1) : 0;
  float step_f = n > 1 ? ((float)ends[1] - (float)ends[0]) / (float)(n - 1) : 0;
  if (dtype == WEFT_F32) {
    float *out = y->data;
    for (int64_t i = 0; i < n; i++) out[i] = (float)ends[0] + step_f * (float)i;
    if (n > 1) out[n - 1] = (float)ends[1];
    return NULL;
  }
  for (int64_t i = 0; i < n; i++) {
    double v = dtype == WEFT_F64 ? ends[0] + step * (double)i : (double)((float)ends[0] + step_f * (float)i);
    if (i > 0 && i == n - 1) v = ends[1];
    back(1, &v, (char *)y->data + (size_t)i * size);
  }
  return NULL;
}

/* ---- OneHot ---- */

typedef struct one_hot_job {
  const weft_tensor_t *indices, *on, *off;
  weft_tensor_t *y;
  int64_t depth, inner; /* of y: [.., depth, inner] */
  bool off_is_zero;     /* all its bits */
} one_hot_job_t;

enum { ONE_HOT_BLOCK = 2048 }; /* elements */

/* The on values of `num` slices from `slice` on, the first of which is at `to`. An index outside of the axis
 * leaves off values, and is no error. `size`: bytes of an element; a constant in the usual cases. */
static inline __attribute__((always_inline)) void set_hot_of(const one_hot_job_t *j, int64_t slice,
                                                             int64_t num, const size_t size, char *to) {
  const int64_t inner = j->inner, depth = j->depth;
  for (int64_t s = slice; s < slice + num; s++, to += (size_t)(depth * inner) * size) {
    for (int64_t i = 0; i < inner; i++) {
      const int64_t hot = weft_index_at(j->indices, s * inner + i);
      if (hot >= 0 && hot < depth) memcpy(to + (size_t)(hot * inner + i) * size, j->on->data, size);
    }
  }
}

static void set_hot(const one_hot_job_t *j, int64_t slice, int64_t num, size_t size, char *to) {
  switch (size) {
    case 1: set_hot_of(j, slice, num, 1, to); break;
    case 2: set_hot_of(j, slice, num, 2, to); break;
    case 4: set_hot_of(j, slice, num, 4, to); break;
    case 8: set_hot_of(j, slice, num, 8, to); break;
    default: set_hot_of(j, slice, num, size, to); break;
  }
}

static void one_hot_range(void *arg, int64_t begin, int64_t end) {
  const one_hot_job_t *j = arg;
  const size_t size = weft_dtype_size(j->on->dtype);
  const int64_t slice = j->depth * j->inner, fits = ONE_HOT_BLOCK / slice, most = fits > 1 ? fits : 1;
  for (int64_t s = begin, num = 0; s < end; s += num) { /* so many slices as the first-level cache holds */
    char *to = (char *)j->y->data + (size_t)(s * slice) * size;
    num = end - s < most ? end - s : most;
    if (j->off_is_zero) {
      memset(to, 0, (size_t)(num * slice) * size);
    } else {
      weft_move_fill(NULL, to, j->off->data, size, num * slice);
    }
    set_hot(j, s, num, size, to);
  }
}

static weft_status_t *one_hot_elements(const one_hot_job_t *j) {
  for (int64_t i = 0; i < j->y->count; i++) WEFT_RETURN_IF_ERROR(weft_cpu_copy(j->y, i, j->off, 0, 1));
  for (int64_t i = 0; i < j->indices->count; i++) {
    const int64_t hot = weft_cpu_int_at(j->indices, i);
    if (hot < 0 || hot >= j->depth) continue;
    const int64_t to = (i / j->inner * j->depth + hot) * j->inner + i % j->inner;
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(j->y, to, j->on, 0, 1));
  }
  return NULL;
}

WEFT_ATTRS(one_hot_compute, (INT, axis))
static weft_status_t *one_hot_compute(weft_kernel_ctx_t *ctx, const one_hot_compute_attrs_t *attrs) {
  weft_tensor_t *indices = weft_in(ctx, 0), *depth_tensor = weft_in(ctx, 1), *on = weft_in(ctx, 2),
                *off = weft_in(ctx, 3);
  weft_tensor_t *y = NULL;
  static const char *const names[] = {"depth", "on_value", "off_value"};
  for (int i = 1; i < 4; i++) {
    if (weft_in(ctx, i)->shape.rank == 0) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar, but got: %s", names[i - 1],
                      WEFT_SHAPE_TEXT(&weft_in(ctx, i)->shape));
  }
  int64_t axis = attrs->axis, depth = weft_cpu_int_at(depth_tensor, 0);
  int rank = indices->shape.rank, at;
  if (axis < -1 || axis > rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected axis to be -1 or between [0, %d).  But received: %" PRId64,
                      rank + 1, axis);
  }
  at = axis == -1 ? rank : (int)axis;
  if (depth < 0) return WEFT_ERROR(INVALID_ARGUMENT, "depth must be non-negative, got: %" PRId64, depth);
  if (rank == WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "OneHot: too many dimensions");
  weft_shape_t shape = {.rank = rank + 1};
  for (int d = 0, from = 0; d <= rank; d++) shape.dims[d] = d == at ? depth : indices->shape.dims[from++];
  if (weft_shape_count(&shape) < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "OneHot result shape would overflow an int64: %s",
                      WEFT_SHAPE_TEXT(&shape));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, on->dtype, &shape, &y));
  if (y->count == 0) return NULL;
  one_hot_job_t j = {indices, on, off, y, depth, weft_cpu_product(&shape, at + 1, rank + 1), false};
  if (!weft_dtype_is_plain(on->dtype)) return one_hot_elements(&j);
  static const weft_c128_t zero = {0, 0};
  j.off_is_zero = memcmp(off->data, &zero, weft_dtype_size(off->dtype)) == 0;
  /* A slice is what has one index in front of the axis: [depth, inner]. */
  const int64_t slices = indices->count / j.inner, grain = WEFT_CPU_GRAIN / (depth * j.inner) + 1;
  weft_parallel_for(ctx->device->pool, slices, grain, one_hot_range, &j);
  return NULL;
}

const weft_kernel_t weft_cpu_fill_kernels[] = {
    WEFT_KERNEL("Empty", NULL, 0, NULL, empty_compute, NULL),
    WEFT_KERNEL("Fill", NULL, 0, NULL, fill_compute, NULL),
    WEFT_KERNEL("LinSpace", "T", WEFT_SET_FLOATS, NULL, lin_space_compute, NULL),
    WEFT_KERNEL_ATTRS("OneHot", NULL, 0, one_hot_compute),
    WEFT_KERNEL("Range", "Tidx",
                WEFT_SET_FLOATS | WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U16) | WEFT_DTYPE_BIT(WEFT_U32), NULL,
                range_compute, NULL),
    {0},
};
