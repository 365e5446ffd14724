/* kernels/cpu/math/special.c - special functions that the C library lacks, or has only with a global side
 * effect, and the parts of complex numbers. */
#define _DEFAULT_SOURCE /* special.h */
#include "kernels/cpu/math/special.h"

#include <complex.h>
#include <tgmath.h>

#include "kernels/cpu/loops/cost.h"
#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/loops/vector_math.h"

#define MAP_STEM lgamma
#define MAP_EXPR(x) weft_lgamma((double)(x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM digamma
#define MAP_EXPR(x) weft_digamma((double)(x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"

/* For float the approximation that the formulas begin with is exact enough: without their steps and branches
 * it is a vector loop. Error below 2 ulp. */
static inline double quantile_f32(double below_half, double tail) { /* 1/2 - below_half */
  const double root = sqrt(-2 * (double)weft_log_f32((float)tail));
  const double far = weft_quantile_far(root), near = weft_quantile_near(-below_half);
  return tail < 0.02425 ? far : near;
}

static inline float ndtri_of_f32(float p) {
  const double tail = (double)(p < 0.5f ? p : 1 - p), x = quantile_f32(0.5 - tail, tail);
  float y = (float)(p < 0.5f ? x : -x);
  y = p == 0 ? -INFINITY : y;
  y = p == 1 ? INFINITY : y;
  return p >= 0 && p <= 1 ? y : NAN;
}

static inline float erfinv_of_f32(float x) {
  const float a = (float)fabs(x);
  const double half = 0.5 * (double)a, z = quantile_f32(half, 0.5 - half) * 0.70710678118654752;
  float y = (float)(x < 0 ? z : -z);
  y = a == 1 ? copysignf(INFINITY, x) : y;
  y = x == 0 ? x : y;
  return a <= 1 ? y : NAN;
}
#define ndtri_of_f64 weft_ndtri
#define erfinv_of_f64 weft_erfinv

#define MAP_STEM erfinv
#define MAP_EXPR(x) WEFT_CAT(erfinv_of, SUFFIX)(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM ndtri
#define MAP_EXPR(x) WEFT_CAT(ndtri_of, SUFFIX)(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"

#define MAP_STEM next_after
#define MAP_EXPR(x, y) nextafter(x, y)
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"

/* ---- parts of complex numbers: Real, Imag, Angle, ComplexAbs, and Complex that joins two ---- */

typedef enum part { PART_REAL, PART_IMAG, PART_ANGLE, PART_ABS } part_t;

static double part_of(part_t part, double re, double im) {
  switch (part) {
    case PART_REAL: return re;
    case PART_IMAG: return im;
    case PART_ANGLE: return atan2(im, re);
    case PART_ABS: return hypot(re, im);
  }
  return 0;
}

static weft_status_t *part_compute(weft_kernel_ctx_t *ctx) {
  const part_t part = *(const part_t *)ctx->node->param;
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  weft_dtype_t to = weft_dtype_base(ctx->node->output_types[0]);
  if (!weft_dtype_is_complex(x->dtype) || (to != WEFT_F32 && to != WEFT_F64)) {
    return WEFT_ERROR(UNIMPLEMENTED, "%s of %s to %s is not supported", ctx->node->op_name.data,
                      weft_dtype_name(x->dtype), weft_dtype_name(to));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, to, &x->shape, &y));
  for (int64_t i = 0; i < x->count; i++) {
    double re, im;
    if (x->dtype == WEFT_C64) {
      re = (double)((const weft_c64_t *)x->data)[i].re;
      im = (double)((const weft_c64_t *)x->data)[i].im;
    } else {
      re = ((const weft_c128_t *)x->data)[i].re;
      im = ((const weft_c128_t *)x->data)[i].im;
    }
    double v = part_of(part, re, im);
    if (to == WEFT_F32) {
      ((float *)y->data)[i] = (float)v;
    } else {
      ((double *)y->data)[i] = v;
    }
  }
  return NULL;
}

typedef struct join_job {
  const weft_tensor_t *re, *im;
  weft_tensor_t *z;
} join_job_t;

static void join_run(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const join_job_t *j = arg;
  for (int64_t i = 0; i < n; i++) {
    int64_t r = at[0] + i * step[0], m = at[1] + i * step[1];
    if (j->re->dtype == WEFT_F32) {
      ((weft_c64_t *)j->z->data)[out_at + i] =
          (weft_c64_t){((const float *)j->re->data)[r], ((const float *)j->im->data)[m]};
    } else {
      ((weft_c128_t *)j->z->data)[out_at + i] =
          (weft_c128_t){((const double *)j->re->data)[r], ((const double *)j->im->data)[m]};
    }
  }
}

static weft_status_t *complex_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *re = weft_in(ctx, 0), *im = weft_in(ctx, 1), *z = NULL;
  weft_broadcast_t b;
  const weft_shape_t *shapes[2] = {&re->shape, &im->shape};
  if (!weft_broadcast_init(&b, shapes, 2)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(&re->shape),
                      WEFT_SHAPE_TEXT(&im->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, re->dtype == WEFT_F32 ? WEFT_C64 : WEFT_C128, &b.shape, &z));
  join_job_t j = {re, im, z};
  weft_broadcast_run_cost(&b, ctx->device->pool, weft_cpu_element(2 * weft_dtype_size(z->dtype), false),
                          join_run, &j);
  return NULL;
}

#define F32_F64 (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))
#define PART(op_, part)                                                                              \
  {                                                                                                  \
    .op = op_, .type_attr = "T", .types = WEFT_SET_COMPLEX, .type_attr2 = "Tout", .types2 = F32_F64, \
    .compute = part_compute, .param = &(const part_t) {                                              \
      part                                                                                           \
    }                                                                                                \
  }
const weft_kernel_t weft_cpu_special_kernels[] = {
    PART("Angle", PART_ANGLE),
    WEFT_KERNEL("Complex", "T", F32_F64, NULL, complex_compute, NULL),
    PART("ComplexAbs", PART_ABS),
    WEFT_MAP1("Digamma", WEFT_SET_FLOATS, digamma, WEFT_MAP_COSTLY),
    WEFT_MAP1("Erfinv", WEFT_SET_FLOATS, erfinv, WEFT_MAP_COSTLY),
    PART("Imag", PART_IMAG),
    WEFT_MAP1("Lgamma", WEFT_SET_FLOATS, lgamma, WEFT_MAP_COSTLY),
    WEFT_MAP1("Ndtri", WEFT_SET_FLOATS, ndtri, WEFT_MAP_COSTLY),
    WEFT_MAP2("NextAfter", F32_F64, next_after, 0),
    PART("Real", PART_REAL),
    {0},
};
