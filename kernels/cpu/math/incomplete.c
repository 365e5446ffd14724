/* kernels/cpu/math/incomplete.c - incomplete gamma and beta functions, and Hurwitz' zeta function with what
 * is made of it, in double. Outside of its domain a function is what TensorFlow's is. */
#include <float.h>
#include <math.h>

#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/math/special.h"

/* ---- incomplete gamma functions, with their derivatives by a ---- */

/* A number and its derivative by a. */
typedef struct dual {
  double v, d;
} dual_t;

static dual_t add(dual_t x, dual_t y) { return (dual_t){x.v + y.v, x.d + y.d}; }
static dual_t mul(dual_t x, dual_t y) { return (dual_t){x.v * y.v, x.d * y.v + x.v * y.d}; }
static dual_t divide(dual_t x, dual_t y) {
  double q = x.v / y.v;
  return (dual_t){q, (x.d - q * y.d) / y.v};
}

/* x^a exp(-x) / gamma(a + shift) */
static dual_t power_term(double a, double x, int shift) {
  double v = exp(a * log(x) - x - weft_lgamma(a + shift));
  return (dual_t){v, v == 0 ? 0 : v * (log(x) - weft_digamma(a + shift))};
}

enum { MAX_TERMS = 20000 };

/* The lower function by its power series (Abramowitz and Stegun, 6.5.29). */
static dual_t lower_series(double a, double x) {
  dual_t term = {1, 0}, sum = term;
  for (int k = 1; k < MAX_TERMS; k++) {
    term = mul(term, divide((dual_t){x, 0}, (dual_t){a + k, 1}));
    sum = add(sum, term);
    if (fabs(term.v) <= DBL_EPSILON / 4 * fabs(sum.v) && fabs(term.d) <= DBL_EPSILON / 4 * fabs(sum.d)) break;
  }
  return mul(sum, power_term(a, x, 1));
}

/* The upper function by Legendre's continued fraction (6.5.31 in its even form), by Lentz' method. */
static dual_t upper_fraction(double a, double x) {
  const dual_t one = {1, 0};
  dual_t b = {x + 1 - a, -1}, c = {1e300, 0}, d = divide(one, b), h = d;
  for (int k = 1; k < MAX_TERMS; k++) {
    dual_t numerator = {k * (a - k), k};
    b.v += 2;
    d = divide(one, add(mul(numerator, d), b));
    c = add(b, divide(numerator, c));
    dual_t change = mul(c, d);
    h = mul(h, change);
    if (fabs(change.v - 1) <= DBL_EPSILON && fabs(change.d) <= DBL_EPSILON) break;
  }
  return mul(h, power_term(a, x, 0));
}

static bool is_outside(double a, double x) { return !(x >= 0 && a > 0); }

static dual_t igamma_of(double a, double x) {
  if (x == 0) return (dual_t){0, 0};
  if (is_outside(a, x)) return (dual_t){(double)NAN, (double)NAN};
  if (isinf(a) || isinf(x)) return (dual_t){isinf(a) ? 0 : 1, 0};
  if (!(x > 1 && x > a)) return lower_series(a, x);
  dual_t upper = upper_fraction(a, x);
  return (dual_t){1 - upper.v, -upper.d};
}

static double igammac_of(double a, double x) {
  if (is_outside(a, x)) return (double)NAN;
  if (isinf(a) || isinf(x)) return isinf(x) ? 0 : 1;
  return x < 1 || x < a ? 1 - lower_series(a, x).v : upper_fraction(a, x).v;
}

#define MAP_STEM igamma
#define MAP_EXPR(a, x) igamma_of((double)(a), (double)(x)).v
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"
#define MAP_STEM igamma_grad_a
#define MAP_EXPR(a, x) igamma_of((double)(a), (double)(x)).d
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"
#define MAP_STEM igammac
#define MAP_EXPR(a, x) igammac_of((double)(a), (double)(x))
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"

/* ---- the incomplete beta function ---- */

/* The continued fraction (26.5.8), by Lentz' method; converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x) {
  double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < MAX_TERMS; m++) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    h *= c * d;
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    h *= c * d;
    if (!(fabs(c * d - 1) > DBL_EPSILON)) break;
  }
  return h;
}

static double betainc_of(double a, double b, double x) {
  if ((x == 0 || x == 1) && !(a <= 0 || b <= 0)) return x; /* of NaNs, too */
  if (!(a > 0 && b > 0 && x > 0 && x < 1)) return (double)NAN;
  double front = exp(weft_lgamma(a + b) - weft_lgamma(a) - weft_lgamma(b) + a * log(x) + b * log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

typedef struct betainc_job {
  const weft_tensor_t *in[3];
  weft_tensor_t *out;
} betainc_job_t;

static void betainc_run(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const betainc_job_t *j = arg;
  for (int64_t i = 0; i < n; i++) {
    int64_t k[3];
    for (int o = 0; o < 3; o++) k[o] = at[o] + i * step[o];
    if (j->out->dtype == WEFT_F32) {
      const float *a = j->in[0]->data, *b = j->in[1]->data, *x = j->in[2]->data;
      ((float *)j->out->data)[out_at + i] =
          (float)betainc_of((double)a[k[0]], (double)b[k[1]], (double)x[k[2]]);
    } else {
      const double *a = j->in[0]->data, *b = j->in[1]->data, *x = j->in[2]->data;
      ((double *)j->out->data)[out_at + i] = betainc_of(a[k[0]], b[k[1]], x[k[2]]);
    }
  }
}

/* Shapes are equal, but for scalars. */
static weft_status_t *betainc(weft_kernel_ctx_t *ctx) {
  betainc_job_t j = {.out = NULL};
  const weft_shape_t *shapes[3], *whole = NULL;
  weft_broadcast_t b;
  for (int i = 0; i < 3; i++) {
    j.in[i] = weft_in(ctx, i);
    shapes[i] = &j.in[i]->shape;
    if (shapes[i]->rank == 0) continue;
    if (whole != NULL && !weft_shape_eq(whole, shapes[i])) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Shapes of a, b and x are inconsistent: %s vs. %s",
                        WEFT_SHAPE_TEXT(whole), WEFT_SHAPE_TEXT(shapes[i]));
    }
    whole = shapes[i];
  }
  if (!weft_broadcast_init(&b, shapes, 3)) return WEFT_ERROR(INTERNAL, "Betainc: shapes");
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, j.in[0]->dtype, &b.shape, &j.out));
  weft_broadcast_run(&b, ctx->device->pool, WEFT_CPU_GRAIN / 16, betainc_run, &j);
  return NULL;
}

/* ---- Hurwitz' zeta function, and the derivatives of digamma ---- */

/* For s > 1 and q > 0, by Euler-Maclaurin summation. */
static double zeta_right(double s, double q) {
  static const double bernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                     5.0 / 66, -691.0 / 2730, 7.0 / 6};
  double sum = 0, power = 1;
  for (int i = 0; i < 12 && power > 0; i++, q++) {
    power = pow(q, -s);
    sum += power;
  }
  if (power == 0 || isinf(sum)) return sum;
  sum += pow(q, 1 - s) / (s - 1) + 0.5 * pow(q, -s);
  double factor = s * pow(q, -s - 1) / 2;
  for (int k = 1; k <= 7; k++) {
    sum += bernoulli[k - 1] * factor;
    factor *= (s + 2 * k - 1) * (s + 2 * k) / (q * q * (2 * k + 1) * (2 * k + 2));
  }
  return sum;
}

/* Left of 0 for whole s only: the sum over the terms between q and 0 is itself a difference of two zetas. At
 * the poles it is infinity for even s, where both sides agree. */
static double zeta_of(double s, double q) {
  if (s == 1) return (double)INFINITY;
  if (!(s > 1)) return (double)NAN;
  if (!(q <= 0)) return zeta_right(s, q);
  bool is_even = fmod(s, 2) == 0;
  if (q == floor(q)) return is_even ? (double)INFINITY : (double)NAN;
  if (s != floor(s)) return (double)NAN;
  double part = q - floor(q);
  double between = zeta_right(s, 1 - part) - zeta_right(s, 1 - q);
  return zeta_right(s, part) + (is_even ? between : -between);
}

static double polygamma_of(double a, double x) {
  if (!(a >= 0) || a != floor(a)) return (double)NAN;
  if (a == 0) return weft_digamma(x);
  double sign = fmod(a, 2) == 1 ? 1 : -1;
  return sign * exp(weft_lgamma(a + 1)) * zeta_of(a + 1, x);
}

#define MAP_STEM polygamma
#define MAP_EXPR(x, y) polygamma_of((double)(x), (double)(y))
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"
#define MAP_STEM zeta
#define MAP_EXPR(x, y) zeta_of((double)(x), (double)(y))
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"

#define F32_F64 (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))
const weft_kernel_t weft_cpu_incomplete_kernels[] = {
    WEFT_KERNEL("Betainc", "T", F32_F64, NULL, betainc, NULL),
    WEFT_MAP2("Igamma", F32_F64, igamma, WEFT_MAP_COSTLY),
    WEFT_MAP2("IgammaGradA", F32_F64, igamma_grad_a, WEFT_MAP_COSTLY),
    WEFT_MAP2("Igammac", F32_F64, igammac, WEFT_MAP_COSTLY),
    WEFT_MAP2("Polygamma", F32_F64, polygamma, WEFT_MAP_COSTLY),
    WEFT_MAP2("Zeta", F32_F64, zeta, WEFT_MAP_COSTLY),
    {0},
};
