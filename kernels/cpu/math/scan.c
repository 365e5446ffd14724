/* kernels/cpu/math/scan.c - along one axis: ArgMax, ArgMin, Cumsum, Cumprod, CumulativeLogsumexp. The tensor
 * is seen as [outer, axis, inner]. */
#include <inttypes.h>
#include <math.h>
#include <tgmath.h>

#include "base/parallel_for.h"
#include "kernels/cpu/loops/common.h"
#include "tensor/update.h"

typedef struct scan_job {
  const void *x;
  void *y;
  int64_t axis, inner;
  bool exclusive, reverse; /* of a running fold */
  weft_dtype_t out_dtype;  /* of an index */
  void (*fn)(const struct scan_job *j, int64_t begin, int64_t end);
} scan_job_t;

static void put_index(const scan_job_t *j, int64_t i, int64_t v) {
  switch (j->out_dtype) {
    case WEFT_I16:
    case WEFT_U16: ((uint16_t *)j->y)[i] = (uint16_t)v; break;
    case WEFT_I32: ((int32_t *)j->y)[i] = (int32_t)v; break;
    default: ((int64_t *)j->y)[i] = v; break;
  }
}

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_BOOL
#define ARG_STEM arg_max
#define ARG_BEATS >
#define ARG_UPDATE WEFT_UPDATE_MAX
#define EACH_FILE "kernels/cpu/math/arg_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef ARG_STEM
#undef ARG_BEATS
#undef ARG_UPDATE
#define ARG_STEM arg_min
#define ARG_BEATS <
#define ARG_UPDATE WEFT_UPDATE_MIN
#define EACH_FILE "kernels/cpu/math/arg_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef ARG_STEM
#undef ARG_BEATS
#undef ARG_UPDATE
typedef void scan_fn(const scan_job_t *j, int64_t begin, int64_t end);
static scan_fn *const arg_max_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM arg_max
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static scan_fn *const arg_min_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM arg_min
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#undef EACH_BOOL
#define EACH_COMPLEX
#define EACH_FILE "kernels/cpu/math/cumulate_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static scan_fn *const cumsum_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM cumsum
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static scan_fn *const cumprod_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM cumprod
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/math/logsumexp_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static scan_fn *const cumlogsumexp_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM cumlogsumexp
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

static void run_range(void *arg, int64_t begin, int64_t end) {
  const scan_job_t *j = arg;
  j->fn(j, begin, end);
}

/* One unit is one line along the axis; there are outer * inner of them. */
static void run(weft_kernel_ctx_t *ctx, scan_job_t *j, int64_t lines) {
  const weft_unit_cost_t line = {.cycles = 4 * (double)j->axis}; /* each waits for the one before it */
  weft_parallel_for_cost(ctx->device->pool, lines, line, run_range, j);
}

static weft_status_t *arg_compute(weft_kernel_ctx_t *ctx) {
  scan_fn *const *fns = ctx->node->param;
  weft_tensor_t *x = weft_in(ctx, 0), *dim = weft_in(ctx, 1), *y = NULL;
  int at = 0, rank = x->shape.rank;
  if (dim->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "dim must be a scalar, but received tensor of shape: %s",
                      WEFT_SHAPE_TEXT(&dim->shape));
  }
  int64_t axis = weft_cpu_int_at(dim, 0);
  if (!weft_cpu_wrap_axis(axis, rank, &at)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected dimension in the range [%d, %d), but got %" PRId64, -rank,
                      rank, axis);
  }
  if (x->shape.dims[at] == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Reduction axis %" PRId64 " is empty in shape %s", axis,
                      WEFT_SHAPE_TEXT(&x->shape));
  }
  weft_shape_t shape = WEFT_SCALAR;
  for (int d = 0; d < rank; d++) {
    if (d != at) shape.dims[shape.rank++] = x->shape.dims[d];
  }
  weft_dtype_t out_dtype = weft_dtype_base(ctx->node->output_types[0]);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, out_dtype, &shape, &y));
  scan_job_t j = {.x = x->data,
                  .y = y->data,
                  .axis = x->shape.dims[at],
                  .out_dtype = out_dtype,
                  .inner = weft_cpu_product(&x->shape, at + 1, rank),
                  .fn = fns[x->dtype]};
  if (y->count > 0) run(ctx, &j, y->count);
  return NULL;
}

WEFT_ATTRS(cumulate, (BOOL, exclusive), (BOOL, reverse))
static weft_status_t *cumulate(weft_kernel_ctx_t *ctx, const cumulate_attrs_t *attrs) {
  scan_fn *const *fns = ctx->node->param;
  weft_tensor_t *x = weft_in(ctx, 0), *dim = weft_in(ctx, 1), *y = NULL;
  int at = 0, rank = x->shape.rank;
  if (dim->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "ScanOp: axis must be a scalar, not %s",
                      WEFT_SHAPE_TEXT(&dim->shape));
  }
  int64_t axis = weft_cpu_int_at(dim, 0);
  if (!weft_cpu_wrap_axis(axis, rank, &at)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "ScanOp: Expected scan axis in the range [%d, %d), but got %" PRId64,
                      -rank, rank, axis);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  scan_job_t j = {.x = x->data,
                  .y = y->data,
                  .axis = x->shape.dims[at],
                  .fn = fns[x->dtype],
                  .inner = weft_cpu_product(&x->shape, at + 1, rank),
                  .exclusive = attrs->exclusive,
                  .reverse = attrs->reverse};
  if (x->count > 0) run(ctx, &j, x->count / j.axis);
  return NULL;
}

#define ORDERED (WEFT_SET_REAL | WEFT_DTYPE_BIT(WEFT_BOOL))
#define ARG(op_, fns) \
  { .op = op_, .type_attr = "T", .types = ORDERED, .compute = arg_compute, .param = fns }
#define SCAN(op_, types_, fns) \
  { .op = op_, .type_attr = "T", .types = types_, WEFT_COMPUTE(cumulate), .param = fns }

const weft_kernel_t weft_cpu_scan_kernels[] = {
    ARG("ArgMax", arg_max_fns),
    ARG("ArgMin", arg_min_fns),
    SCAN("Cumprod", WEFT_SET_NUMBERS, cumprod_fns),
    SCAN("Cumsum", WEFT_SET_NUMBERS, cumsum_fns),
    SCAN("CumulativeLogsumexp", WEFT_SET_FLOATS, cumlogsumexp_fns),
    {0},
};
