/* kernels/cpu/math/compare.c - comparisons and logic: bool results of two broadcast operands. */
#include <complex.h>
#include <math.h>
#include <tgmath.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/map.h"

#define MAP_STEM equal
#define MAP_EXPR(x, y) ((x) == (y))
#define MAP_BOOL
#define EACH_BOOL
#include "kernels/cpu/loops/map2_numbers.tmpl.h"
#define MAP_STEM not_equal
#define MAP_EXPR(x, y) ((x) != (y))
#define MAP_BOOL
#define EACH_BOOL
#include "kernels/cpu/loops/map2_numbers.tmpl.h"
#define MAP_STEM less
#define MAP_EXPR(x, y) ((x) < (y))
#define MAP_BOOL
#include "kernels/cpu/loops/map2_reals.tmpl.h"
#define MAP_STEM less_equal
#define MAP_EXPR(x, y) ((x) <= (y))
#define MAP_BOOL
#include "kernels/cpu/loops/map2_reals.tmpl.h"
#define MAP_STEM greater
#define MAP_EXPR(x, y) ((x) > (y))
#define MAP_BOOL
#include "kernels/cpu/loops/map2_reals.tmpl.h"
#define MAP_STEM greater_equal
#define MAP_EXPR(x, y) ((x) >= (y))
#define MAP_BOOL
#include "kernels/cpu/loops/map2_reals.tmpl.h"
#define MAP_STEM logical_and
#define MAP_EXPR(x, y) ((x) & (y))
#define EACH_BOOL
#include "kernels/cpu/loops/map2.tmpl.h"
#define MAP_STEM logical_or
#define MAP_EXPR(x, y) ((x) | (y))
#define EACH_BOOL
#include "kernels/cpu/loops/map2.tmpl.h"

/* ---- Equal and NotEqual: also of strings, and of shapes that do not fit ---- */

typedef struct equal {
  weft_map2_t map;
  bool if_same; /* the answer for equal elements; for shapes that do not fit and need not, it is the other one
                 */
} equal_t;

/* The state: not NULL if the shapes must fit. */
static weft_status_t *equal_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  if (weft_knode_bool(setup, "incompatible_shape_error")) *out_state = (void *)(uintptr_t)setup->node.param;
  return NULL;
}

typedef struct strings_job {
  const weft_tensor_t *x, *y;
  uint8_t *z;
  bool if_same;
} strings_job_t;

static void equal_strings(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const strings_job_t *j = arg;
  for (int64_t i = 0; i < n; i++) {
    bool same = weft_str_eq(weft_tensor_str_at(j->x, at[0] + i * step[0]),
                            weft_tensor_str_at(j->y, at[1] + i * step[1]));
    j->z[out_at + i] = same == j->if_same;
  }
}

static weft_status_t *equal_compute(weft_kernel_ctx_t *ctx) {
  const equal_t *equal = ctx->node->param;
  weft_tensor_t *x = weft_in(ctx, 0), *y = weft_in(ctx, 1), *z = NULL;
  weft_broadcast_t b;
  const weft_shape_t *shapes[2] = {&x->shape, &y->shape};
  bool fits = weft_broadcast_init(&b, shapes, 2);
  if (!fits && ctx->state == NULL) {
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_BOOL, &WEFT_SCALAR, &z));
    *(uint8_t *)z->data = !equal->if_same;
    return NULL;
  }
  if (x->dtype != WEFT_STRING) return weft_map2_compute(ctx);
  if (!fits) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(&x->shape),
                      WEFT_SHAPE_TEXT(&y->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_BOOL, &b.shape, &z));
  strings_job_t j = {x, y, z->data, equal->if_same};
  weft_broadcast_run(&b, ctx->device->pool, WEFT_CPU_GRAIN / 16, equal_strings, &j);
  return NULL;
}

/* ---- ApproximateEqual: |x - y| <= tolerance, shapes must be the same ---- */

static double distance(weft_c128_t a, weft_c128_t b, bool in_float) {
  if (a.im == 0 && b.im == 0) return in_float ? (double)fabsf((float)a.re - (float)b.re) : fabs(a.re - b.re);
  return hypot(a.re - b.re, a.im - b.im);
}

WEFT_ATTRS(approximate_compute, (FLOAT, tolerance))
static weft_status_t *approximate_compute(weft_kernel_ctx_t *ctx, const approximate_compute_attrs_t *attrs) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = weft_in(ctx, 1), *z = NULL;
  if (!weft_shape_eq(&x->shape, &y->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "x and y must be of the same shape. x shape: %s. y shape: %s",
                      WEFT_SHAPE_TEXT(&x->shape), WEFT_SHAPE_TEXT(&y->shape));
  }
  double tolerance = (double)attrs->tolerance;
  if (weft_dtype_is_integer(x->dtype))
    tolerance = trunc(tolerance); /* it is converted to the operands' type */
  weft_cpu_cast_fn *cast = weft_cpu_cast_loop(x->dtype, WEFT_C128);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_BOOL, &x->shape, &z));
  size_t size = weft_dtype_size(x->dtype);
  uint8_t *out = z->data;
  for (int64_t i = 0; i < x->count; i++) {
    weft_c128_t a, b;
    cast(1, (const char *)x->data + (size_t)i * size, &a);
    cast(1, (const char *)y->data + (size_t)i * size, &b);
    out[i] = distance(a, b, x->dtype == WEFT_F32) <= tolerance;
  }
  return NULL;
}

#define EQUAL(op_, stem, if_same)                                                                        \
  {                                                                                                      \
    .op = op_, .type_attr = "T",                                                                         \
    .types =                                                                                             \
        WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL) | WEFT_DTYPE_BIT(WEFT_STRING) | WEFT_SET_QUANTIZED, \
    .prepare = equal_prepare, .compute = equal_compute, .param = &(const equal_t) {                      \
      {stem##_fns, 0}, if_same                                                                           \
    }                                                                                                    \
  }
#define LOGIC(op_, stem)                                                                     \
  {                                                                                          \
    .op = op_, .compute = weft_map2_compute, .param = &(const weft_map2_t) { stem##_fns, 0 } \
  }
/* ---- ToBool: of a scalar whether it is not zero or empty, else whether there are elements ---- */

static weft_status_t *to_bool(weft_kernel_ctx_t *ctx) {
  static const weft_dtype_set_t with_truth = WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8) |
                                             WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64) |
                                             WEFT_DTYPE_BIT(WEFT_BOOL) | WEFT_DTYPE_BIT(WEFT_STRING);
  const weft_tensor_t *x = weft_in(ctx, 0);
  const weft_shape_t scalar = WEFT_SCALAR;
  weft_tensor_t *out = NULL;
  if (x->shape.rank == 0 && (with_truth & WEFT_DTYPE_BIT(x->dtype)) == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s cannot be converted to a boolean", weft_dtype_name(x->dtype));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_BOOL, &scalar, &out));
  uint8_t *is_true = out->data;
  if (x->shape.rank > 0) {
    *is_true = x->count > 0;
  } else if (x->dtype == WEFT_STRING) {
    *is_true = weft_tensor_str_at(x, 0).length > 0;
  } else {
    weft_cpu_cast_loop(x->dtype, WEFT_BOOL)(1, x->data, is_true);
  }
  return NULL;
}

const weft_kernel_t weft_cpu_compare_kernels[] = {
    WEFT_KERNEL_ATTRS("ApproximateEqual", "T", WEFT_SET_NUMBERS, approximate_compute),
    EQUAL("Equal", equal, true),
    WEFT_MAP2("Greater", WEFT_SET_REAL, greater, 0),
    WEFT_MAP2("GreaterEqual", WEFT_SET_REAL, greater_equal, 0),
    WEFT_MAP2("Less", WEFT_SET_REAL, less, 0),
    WEFT_MAP2("LessEqual", WEFT_SET_REAL, less_equal, 0),
    LOGIC("LogicalAnd", logical_and),
    LOGIC("LogicalOr", logical_or),
    EQUAL("NotEqual", not_equal, false),
    WEFT_KERNEL("ToBool", NULL, 0, NULL, to_bool, NULL),
    {0},
};
