/* kernels/cpu/ragged/ragged_range.c - RaggedRange: a row of numbers for each start, limit and delta. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/ragged/ragged.h"

typedef struct range_args {
  const weft_tensor_t *starts, *limits, *deltas;
  int64_t num_rows;
  int64_t largest; /* that a split may be */
} range_args_t;

static weft_status_t *no_delta(void) { return WEFT_ERROR(INVALID_ARGUMENT, "Requires delta != 0"); }

static weft_status_t *too_long(const range_args_t *r) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Requires ((limit - start) / delta) <= %" PRId64, r->largest);
}

/* How many numbers lie from `start` on below `limit` (above it if `delta` is negative). In unsigned numbers
 * neither the distance nor the absolute value of the least delta overflows. */
static weft_status_t *count_whole(const range_args_t *r, int64_t start, int64_t limit, int64_t delta,
                                  int64_t *out) {
  if (delta == 0) return no_delta();
  *out = 0;
  if (delta > 0 ? limit <= start : limit >= start) return NULL;
  uint64_t distance = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t step = delta > 0 ? (uint64_t)delta : -(uint64_t)delta;
  uint64_t size = distance / step + (distance % step != 0);
  if (size > (uint64_t)r->largest) return too_long(r);
  *out = (int64_t)size;
  return NULL;
}

static weft_status_t *take_size(const range_args_t *r, double size, int64_t *out) {
  if (!(size < (double)r->largest)) return too_long(r); /* NaN, too */
  *out = (int64_t)size;
  return NULL;
}

#define NUMBER float
#define SUFFIX f32
#define IS_WHOLE 0
#include "kernels/cpu/ragged/ragged_range.tmpl.h"
#define NUMBER double
#define SUFFIX f64
#define IS_WHOLE 0
#include "kernels/cpu/ragged/ragged_range.tmpl.h"
#define NUMBER int32_t
#define SUFFIX i32
#define IS_WHOLE 1
#include "kernels/cpu/ragged/ragged_range.tmpl.h"
#define NUMBER int64_t
#define SUFFIX i64
#define IS_WHOLE 1
#include "kernels/cpu/ragged/ragged_range.tmpl.h"

typedef struct range_loops {
  weft_status_t *(*count)(const range_args_t *r, int64_t row, int64_t *out);
  void (*fill)(const range_args_t *r, int64_t row, void *out, int64_t begin, int64_t n);
} range_loops_t;

static weft_status_t *read_args(const weft_kernel_ctx_t *ctx, range_args_t *out) {
  static const char *const names[] = {"starts", "limits", "deltas"};
  int64_t rows = -1;
  for (int i = 0; i < 3; i++) {
    const weft_shape_t *s = &weft_in(ctx, i)->shape;
    if (s->rank > 1) return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar or vector", names[i]);
    if (s->rank == 0) continue;
    if (rows >= 0 && rows != s->dims[0])
      return WEFT_ERROR(INVALID_ARGUMENT, "starts, limits, and deltas must have the same shape");
    rows = s->dims[0];
  }
  *out = (range_args_t){weft_in(ctx, 0), weft_in(ctx, 1), weft_in(ctx, 2), rows < 0 ? 1 : rows,
                        ctx->node->output_types[0] == WEFT_I32 ? (int64_t)INT32_MAX : INT64_MAX};
  return NULL;
}

static weft_status_t *range_compute(weft_kernel_ctx_t *ctx) {
  const range_loops_t *loops = ctx->node->param;
  range_args_t r;
  weft_tensor_t *splits = NULL, *values = NULL;
  WEFT_RETURN_IF_ERROR(read_args(ctx, &r));
  weft_shape_t shape = weft_shape_vector(r.num_rows + 1);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, (weft_dtype_t)ctx->node->output_types[0], &shape, &splits));
  int64_t total = 0;
  weft_ragged_put(splits, 0, 0);
  for (int64_t row = 0; row < r.num_rows; row++) {
    int64_t size = 0;
    WEFT_RETURN_IF_ERROR(loops->count(&r, row, &size));
    if (__builtin_add_overflow(total, size, &total) || total > r.largest) return too_long(&r);
    weft_ragged_put(splits, row + 1, total);
  }
  shape = weft_shape_vector(total);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, r.starts->dtype, &shape, &values));
  for (int64_t row = 0; row < r.num_rows; row++) {
    int64_t begin = weft_cpu_int_at(splits, row);
    loops->fill(&r, row, values->data, begin, weft_cpu_int_at(splits, row + 1) - begin);
  }
  return NULL;
}

#define RANGE(dtype, suffix)                                                                         \
  {                                                                                                  \
    .op = "RaggedRange", .type_attr = "T", .types = WEFT_DTYPE_BIT(dtype), .compute = range_compute, \
    .param = &(const range_loops_t) {                                                                \
      count_##suffix, fill_##suffix                                                                  \
    }                                                                                                \
  }
const weft_kernel_t weft_cpu_ragged_range_kernels[] = {
    RANGE(WEFT_F32, f32), RANGE(WEFT_F64, f64), RANGE(WEFT_I32, i32), RANGE(WEFT_I64, i64), {0},
};
