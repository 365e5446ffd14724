/* kernels/cpu/random/random_gamma_grad.c - RandomGammaGrad: how a sample of the gamma distribution changes
 * with alpha.
 *
 * The sample x is where the distribution function P(alpha, x) has a given value, so dx / dalpha is
 * -(dP / dalpha) / (dP / dx). Sources: Figurnov et al., "Implicit reparameterization gradients" (2018); P by
 * its power series or its continued fraction (Abramowitz and Stegun, 6.5.29 and 6.5.31), differentiated term
 * by term.
 */
#define _DEFAULT_SOURCE /* special.h */
#include <float.h>

#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/math/special.h"

enum { MAX_TERMS = 2000 };

/* A number and its derivative by alpha. */
typedef struct slope {
  double v, d;
} slope_t;

static slope_t times(slope_t x, slope_t y) { return (slope_t){x.v * y.v, x.d * y.v + x.v * y.d}; }
static slope_t minus(slope_t x, slope_t y) { return (slope_t){x.v - y.v, x.d - y.d}; }
static slope_t over(slope_t x, slope_t y) {
  double v = x.v / y.v;
  return (slope_t){v, (x.d - v * y.d) / y.v};
}
static slope_t scaled(slope_t x, double factor) { return (slope_t){x.v * factor, x.d * factor}; }

/* P(a, x) is x^a exp(-x) / gamma(a + 1) times this. */
static slope_t power_series(double a, double x) {
  slope_t term = {1, 0}, sum = term;
  for (int i = 1; i < MAX_TERMS; i++) {
    term = times(term, over((slope_t){x, 0}, (slope_t){a + i, 1}));
    sum = (slope_t){sum.v + term.v, sum.d + term.d};
    if (fabs(term.d) <= DBL_EPSILON / 2 * fabs(sum.d)) break;
  }
  return sum;
}

/* 1 - P(a, x) is x^a exp(-x) / gamma(a) times this. */
static slope_t fraction(double a, double x) {
  slope_t p2 = {1, 0}, q2 = {x, 0}, p1 = {x + 1, 0}, z = {x + 2 - a, -1}, q1 = times(z, q2);
  slope_t value = over(p1, q1);
  for (int i = 1; i < MAX_TERMS; i++) {
    slope_t factor = {(1 - a + i) * i, -i};
    z.v += 2;
    slope_t p = minus(times(p1, z), times(p2, factor)), q = minus(times(q1, z), times(q2, factor));
    if (q.v != 0) {
      double before = value.d;
      value = over(p, q);
      if (fabs(value.d - before) <= DBL_EPSILON / 2) break;
    }
    bool is_large = fabs(p.v) > 1 / DBL_EPSILON;
    double scale = is_large ? DBL_EPSILON : 1;
    p2 = scaled(p1, scale);
    q2 = scaled(q1, scale);
    p1 = scaled(p, scale);
    q1 = scaled(q, scale);
  }
  return value;
}

/* `least_log`: the logarithm of the least normal number. Of a density below that the gradient is 0, as in
 * TensorFlow. */
static double gamma_slope(double a, double x, double least_log) {
  if (x == 0) return 0;
  if (!(x > 0 && a > 0)) return (double)NAN;
  double log_x = log(x);
  if (!(a * log_x - x - weft_lgamma(a) >= least_log)) return 0;
  if (x > 1 && x > a) {
    slope_t s = fraction(a, x);
    return (s.d + s.v * (log_x - weft_digamma(a))) * x;
  }
  slope_t s = power_series(a, x);
  return -(s.d + s.v * (log_x - weft_digamma(a + 1))) * x / a;
}

#define MAP_STEM random_gamma_grad
#define MAP_EXPR(a, x) \
  gamma_slope((double)(a), (double)(x), sizeof(a) == sizeof(float) ? -87.33654475 : -708.3964185322641)
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"

const weft_kernel_t weft_cpu_random_gamma_grad_kernels[] = {
    WEFT_MAP2("RandomGammaGrad", WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64), random_gamma_grad,
              WEFT_MAP_COSTLY),
    {0},
};
