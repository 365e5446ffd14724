/* kernels/cpu/math/reduce.c - Sum, Mean, Prod, Max, Min, All, Any, EuclideanNorm, L2Loss. */
#include "kernels/cpu/math/reduce.h"

#include <complex.h>
#include <math.h>
#include <tgmath.h>

#include "kernels/cpu/loops/complex_times.h"
#include "kernels/cpu/math/float_sums.h"

enum {
  WIDTH = WEFT_REDUCE_WIDTH,
  SHORT_RUN = 256, /* elements; with fewer a run has a shorter vector of accumulators, */
  SHORT_WIDTH = 8, /* of so many */
  TOGETHER = 2048, /* elements of the rows that are taken together, */
  LEAST_ROWS = 8,  /* which are at least so many */
  LINE = 64,       /* bytes of a cache line */
};

enum { NO_SUMS, PLAIN_SUMS, SQUARES }; /* RED_SUMS */

static inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* The greatest number that divides both, which are positive. */
static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Sums of float are kept in double, of half in float, of integers in 64 bits (the low bits are those of a
 * wrapping sum in the type itself). */
#define RED_STEM sum
#define RED_SUMS PLAIN_SUMS
#define RED_ACC ACC
#define RED_INIT(suffix) 0
#define RED_VALUE(v) ((ACC)(v))
#define RED_JOIN(a, b) ((a) + (b))
#define RED_FINISH(a, count) (a)
#include "kernels/cpu/math/reduce_numbers.tmpl.h"

#define RED_STEM mean
#define RED_SUMS PLAIN_SUMS
#define RED_ACC ACC
#define RED_INIT(suffix) 0
#define RED_VALUE(v) ((ACC)(v))
#define RED_JOIN(a, b) ((a) + (b))
#define RED_FINISH(a, count) ((a) / (COMP)(count))
#define EACH_HALFS
#define EACH_FLOATS
#include "kernels/cpu/math/reduce.tmpl.h"

/* Of nothing it is 0, not NaN. */
#define RED_STEM complex_mean
#define RED_ACC ACC
#define RED_INIT(suffix) 0
#define RED_VALUE(v) ((ACC)(v))
#define RED_JOIN(a, b) ((a) + (b))
#define RED_FINISH(a, count) ((a) / (COMP)((count) == 0 ? 1 : (count)))
#define EACH_COMPLEX
#include "kernels/cpu/math/reduce.tmpl.h"

/* An integer mean is cut towards zero. */
#define RED_STEM int_mean
#define RED_ACC int64_t
#define RED_INIT(suffix) 0
#define RED_VALUE(v) ((int64_t)(v))
#define RED_JOIN(a, b) ((uint64_t)(a) + (uint64_t)(b))
#define RED_FINISH(a, count) \
  ((count) == 0 ? 0 : RED_UNSIGNED ? (int64_t)((uint64_t)(a) / (uint64_t)(count)) : (a) / (count))
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/math/reduce.tmpl.h"

#define RED_STEM prod
#define RED_ACC WRAP
#define RED_INIT(suffix) 1
#define RED_VALUE(v) ((WRAP)(v))
#define RED_JOIN(a, b) WEFT_TIMES(a, b)
#define RED_FINISH(a, count) (a)
#include "kernels/cpu/math/reduce_numbers.tmpl.h"

/* The lowest and the highest of each type. */
#define LOWEST_f16 (-INFINITY)
#define LOWEST_bf16 (-INFINITY)
#define LOWEST_f32 (-INFINITY)
#define LOWEST_f64 ((double)-INFINITY)
#define LOWEST_i8 INT8_MIN
#define LOWEST_i16 INT16_MIN
#define LOWEST_i32 INT32_MIN
#define LOWEST_i64 INT64_MIN
#define LOWEST_u8 0
#define LOWEST_u16 0
#define LOWEST_u32 0
#define LOWEST_u64 0
#define HIGHEST_f16 INFINITY
#define HIGHEST_bf16 INFINITY
#define HIGHEST_f32 INFINITY
#define HIGHEST_f64 ((double)INFINITY)
#define HIGHEST_i8 INT8_MAX
#define HIGHEST_i16 INT16_MAX
#define HIGHEST_i32 INT32_MAX
#define HIGHEST_i64 INT64_MAX
#define HIGHEST_u8 UINT8_MAX
#define HIGHEST_u16 UINT16_MAX
#define HIGHEST_u32 UINT32_MAX
#define HIGHEST_u64 UINT64_MAX

/* A NaN, once met, stays: nothing compares with it. */
#define RED_STEM max
#define RED_ACC COMP
#define RED_INIT(suffix) WEFT_CAT(LOWEST, suffix)
#define RED_VALUE(v) (v)
#define RED_JOIN(a, b) ((a) < (b) || (b) != (b) ? (b) : (a))
#define RED_EXTREME(a, b) ((b) > (a) ? (b) : (a))
#define RED_FINISH(a, count) (a)
#include "kernels/cpu/math/reduce_reals.tmpl.h"

#define RED_STEM min
#define RED_ACC COMP
#define RED_INIT(suffix) WEFT_CAT(HIGHEST, suffix)
#define RED_VALUE(v) (v)
#define RED_JOIN(a, b) ((a) > (b) || (b) != (b) ? (b) : (a))
#define RED_EXTREME(a, b) ((b) < (a) ? (b) : (a))
#define RED_FINISH(a, count) (a)
#include "kernels/cpu/math/reduce_reals.tmpl.h"

#define RED_STEM all
#define RED_ACC uint8_t
#define RED_INIT(suffix) 1
#define RED_VALUE(v) (v)
#define RED_JOIN(a, b) ((a) & (b))
#define RED_FINISH(a, count) (a)
#define EACH_BOOL
#include "kernels/cpu/math/reduce.tmpl.h"

#define RED_STEM any
#define RED_ACC uint8_t
#define RED_INIT(suffix) 0
#define RED_VALUE(v) (v)
#define RED_JOIN(a, b) ((a) | (b))
#define RED_FINISH(a, count) (a)
#define EACH_BOOL
#include "kernels/cpu/math/reduce.tmpl.h"

#define RED_STEM norm
#define RED_SUMS SQUARES
#define RED_ACC double
#define RED_INIT(suffix) 0
#define RED_VALUE(v) ((double)(v) * (double)(v))
#define RED_JOIN(a, b) ((a) + (b))
#define RED_FINISH(a, count) sqrt(a)
#define EACH_HALFS
#define EACH_FLOATS
#include "kernels/cpu/math/reduce.tmpl.h"

/* Squares and their sum wrap around in the type itself. */
#define RED_STEM int_norm
#define RED_ACC uint64_t
#define RED_INIT(suffix) 0
#define RED_VALUE(v) ((uint64_t)(v) * (uint64_t)(v))
#define RED_JOIN(a, b) ((a) + (b))
#define RED_FINISH(a, count) sqrt((double)(ELEM)(a))
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/math/reduce.tmpl.h"

#define RED_STEM complex_norm
#define RED_ACC double
#define RED_INIT(suffix) 0
#define RED_VALUE(v) ((double)creal((v)*conj(v)))
#define RED_JOIN(a, b) ((a) + (b))
#define RED_FINISH(a, count) sqrt(a)
#define EACH_COMPLEX
#include "kernels/cpu/math/reduce.tmpl.h"

#define RED_STEM half_squares
#define RED_SUMS SQUARES
#define RED_ACC double
#define RED_INIT(suffix) 0
#define RED_VALUE(v) ((double)(v) * (double)(v))
#define RED_JOIN(a, b) ((a) + (b))
#define RED_FINISH(a, count) ((a) / 2)
#define EACH_HALFS
#define EACH_FLOATS
#include "kernels/cpu/math/reduce.tmpl.h"

const reduce_fns_t *const weft_reduce_sum[WEFT_DTYPE_COUNT] = {
    [WEFT_F16] = &sum_f16, [WEFT_BF16] = &sum_bf16, [WEFT_F32] = &sum_f32, [WEFT_F64] = &sum_f64,
    [WEFT_I8] = &sum_i8,   [WEFT_I16] = &sum_i16,   [WEFT_I32] = &sum_i32, [WEFT_I64] = &sum_i64,
    [WEFT_U8] = &sum_u8,   [WEFT_U16] = &sum_u16,   [WEFT_U32] = &sum_u32, [WEFT_U64] = &sum_u64,
    [WEFT_C64] = &sum_c64, [WEFT_C128] = &sum_c128,
};

/* The state: not NULL if reduced dimensions stay as 1. */
static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  if (weft_knode_bool(setup, "keep_dims")) *out_state = (void *)(uintptr_t)setup->node.param;
  return NULL;
}

static weft_status_t *reduce(weft_kernel_ctx_t *ctx, bool one_is_itself) {
  const reduce_fns_t *const *fns = ctx->node->param;
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  bool axes[WEFT_MAX_DIMS];
  WEFT_RETURN_IF_ERROR(weft_reduction_axes(weft_in(ctx, 1), x->shape.rank, axes));
  weft_shape_t shape;
  weft_reduction_shape(&x->shape, axes, ctx->state != NULL, &shape);
  weft_reduced_dims_t plan;
  weft_reduction_plan(&x->shape, axes, &plan);
  if (plan.count == 1 && one_is_itself) return weft_cpu_out_view(ctx, 0, 0, &shape);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  return weft_reduction_run(&plan, ctx->device->pool, fns[x->dtype], weft_dtype_size(x->dtype), x->data,
                            y->data);
}

static weft_status_t *compute(weft_kernel_ctx_t *ctx) { return reduce(ctx, true); }
static weft_status_t *norm_compute(weft_kernel_ctx_t *ctx) { return reduce(ctx, false); } /* of -1 it is 1 */

static weft_status_t *l2_loss_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  bool axes[WEFT_MAX_DIMS];
  for (int d = 0; d < WEFT_MAX_DIMS; d++) axes[d] = true;
  weft_reduced_dims_t plan;
  weft_reduction_plan(&x->shape, axes, &plan);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &WEFT_SCALAR, &y));
  return weft_reduction_run(&plan, ctx->device->pool, half_squares_fns[x->dtype], weft_dtype_size(x->dtype),
                            x->data, y->data);
}

#define REDUCE(op_, attr, types_, stem, fn) \
  { .op = op_, .type_attr = attr, .types = types_, .prepare = prepare, .compute = fn, .param = stem##_fns }
const weft_kernel_t weft_cpu_reduce_kernels[] = {
    REDUCE("All", NULL, 0, all, compute),
    REDUCE("Any", NULL, 0, any, compute),
    REDUCE("EuclideanNorm", "T", WEFT_SET_FLOATS, norm, norm_compute),
    REDUCE("EuclideanNorm", "T", WEFT_SET_INTS, int_norm, norm_compute),
    REDUCE("EuclideanNorm", "T", WEFT_SET_COMPLEX, complex_norm, norm_compute),
    WEFT_KERNEL("L2Loss", "T", WEFT_SET_FLOATS, NULL, l2_loss_compute, NULL),
    REDUCE("Max", "T", WEFT_SET_REAL, max, compute),
    REDUCE("Mean", "T", WEFT_SET_FLOATS, mean, compute),
    REDUCE("Mean", "T", WEFT_SET_COMPLEX, complex_mean, compute),
    REDUCE("Mean", "T", WEFT_SET_INTS, int_mean, compute),
    REDUCE("Min", "T", WEFT_SET_REAL, min, compute),
    REDUCE("Prod", "T", WEFT_SET_NUMBERS, prod, compute),
    REDUCE("Sum", "T", WEFT_SET_NUMBERS, sum, compute),
    {0},
};
