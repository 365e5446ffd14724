/* kernels/formulas/gamma_slope.h - how a sample of the gamma distribution changes with alpha, for C and for
 * CUDA's C++. The includer gives what special.h asks for.
 *
 * The sample x is where the distribution function P(alpha, x) has a given value, so dx / dalpha is
 * -(dP / dalpha) / (dP / dx). Sources: Figurnov et al., "Implicit reparameterization gradients" (2018); P by
 * its power series or its continued fraction (Abramowitz and Stegun, 6.5.29 and 6.5.31), differentiated term
 * by term.
 */
#ifndef WEFT_KERNELS_FORMULAS_GAMMA_SLOPE_H_
#define WEFT_KERNELS_FORMULAS_GAMMA_SLOPE_H_

#include "kernels/formulas/special.h"

#define WEFT_MAX_SLOPE_TERMS 2000

/* A number and its derivative by alpha. */
typedef struct weft_slope {
  double v, d;
} weft_slope_t;

WEFT_FORMULA weft_slope_t weft_slope(double v, double d) {
  weft_slope_t s;
  s.v = v;
  s.d = d;
  return s;
}
WEFT_FORMULA weft_slope_t weft_slope_times(weft_slope_t x, weft_slope_t y) {
  return weft_slope(x.v * y.v, x.d * y.v + x.v * y.d);
}
WEFT_FORMULA weft_slope_t weft_slope_minus(weft_slope_t x, weft_slope_t y) {
  return weft_slope(x.v - y.v, x.d - y.d);
}
WEFT_FORMULA weft_slope_t weft_slope_over(weft_slope_t x, weft_slope_t y) {
  double v = x.v / y.v;
  return weft_slope(v, (x.d - v * y.d) / y.v);
}
WEFT_FORMULA weft_slope_t weft_slope_scaled(weft_slope_t x, double factor) {
  return weft_slope(x.v * factor, x.d * factor);
}

/* P(a, x) is x^a exp(-x) / gamma(a + 1) times this. */
WEFT_FORMULA weft_slope_t weft_slope_series(double a, double x) {
  weft_slope_t term = weft_slope(1, 0), sum = term;
  for (int i = 1; i < WEFT_MAX_SLOPE_TERMS; i++) {
    term = weft_slope_times(term, weft_slope_over(weft_slope(x, 0), weft_slope(a + i, 1)));
    sum = weft_slope(sum.v + term.v, sum.d + term.d);
    if (fabs(term.d) <= WEFT_EPSILON / 2 * fabs(sum.d)) break;
  }
  return sum;
}

/* 1 - P(a, x) is x^a exp(-x) / gamma(a) times this. */
WEFT_FORMULA weft_slope_t weft_slope_fraction(double a, double x) {
  weft_slope_t p2 = weft_slope(1, 0), q2 = weft_slope(x, 0), p1 = weft_slope(x + 1, 0),
               z = weft_slope(x + 2 - a, -1), q1 = weft_slope_times(z, q2);
  weft_slope_t value = weft_slope_over(p1, q1);
  for (int i = 1; i < WEFT_MAX_SLOPE_TERMS; i++) {
    const weft_slope_t factor = weft_slope((1 - a + i) * i, -i);
    z.v += 2;
    weft_slope_t p = weft_slope_minus(weft_slope_times(p1, z), weft_slope_times(p2, factor)),
                 q = weft_slope_minus(weft_slope_times(q1, z), weft_slope_times(q2, factor));
    if (q.v != 0) {
      double before = value.d;
      value = weft_slope_over(p, q);
      if (fabs(value.d - before) <= WEFT_EPSILON / 2) break;
    }
    bool is_large = fabs(p.v) > 1 / WEFT_EPSILON;
    double scale = is_large ? WEFT_EPSILON : 1;
    p2 = weft_slope_scaled(p1, scale);
    q2 = weft_slope_scaled(q1, scale);
    p1 = weft_slope_scaled(p, scale);
    q1 = weft_slope_scaled(q, scale);
  }
  return value;
}

/* `least_log`: the logarithm of the least normal number. Of a density below that the gradient is 0, as in
 * TensorFlow. */
WEFT_FORMULA double weft_gamma_slope(double a, double x, double least_log) {
  if (x == 0) return 0;
  if (!(x > 0 && a > 0)) return WEFT_NAN;
  double log_x = log(x);
  if (!(a * log_x - x - weft_lgamma(a) >= least_log)) return 0;
  if (x > 1 && x > a) {
    weft_slope_t s = weft_slope_fraction(a, x);
    return (s.d + s.v * (log_x - weft_digamma(a))) * x;
  }
  weft_slope_t s = weft_slope_series(a, x);
  return -(s.d + s.v * (log_x - weft_digamma(a + 1))) * x / a;
}

#endif /* WEFT_KERNELS_FORMULAS_GAMMA_SLOPE_H_ */
