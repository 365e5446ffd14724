/* kernels/cpu/math/bessel.c - Bessel functions of the orders 0 and 1, plain and scaled by an exponential.
 *
 * In double; those that grow or vanish exponentially get the exponential in the type of the result, so that
 * they overflow where it does. J and Y are the C library's. Outside of its domain a function is what
 * TensorFlow's is. The formulas are those of Abramowitz and Stegun, chapter 9.
 */
#define _DEFAULT_SOURCE /* j0 and its kin */
#include <float.h>
#include <math.h>
#include <tgmath.h>

#include "kernels/cpu/loops/map.h"

static const double pi = 3.14159265358979323846, euler = 0.57721566490153286061;

/* exp(-x) I(x) for x >= 0: the power series (9.6.10), from 25 on the asymptotic one (9.7.1). */
static double i_scaled(int order, double x) {
  if (x < 25) {
    double term = order == 0 ? 1 : x / 2, sum = term;
    for (int k = 1; term > DBL_EPSILON / 4 * sum; k++) {
      term *= x * x / 4 / (k * (double)(k + order));
      sum += term;
    }
    return sum * exp(-x);
  }
  double term = 1, sum = 1;
  for (int k = 1; fabs(term) > DBL_EPSILON / 4; k++) {
    term *= ((2 * k - 1) * (double)(2 * k - 1) - 4 * order) / (8 * x * k);
    sum += term;
  }
  return sum / (sqrt(2 * pi) * sqrt(x));
}

/* I1e is odd. */
static double i1_scaled(double x) { return copysign(i_scaled(1, fabs(x)), x); }

/* K(x) for 0 < x <= 2: 9.6.13 and 9.6.11. */
static double k_series(int order, double x) {
  double q = x * x / 4, term = 1, harmonic = 0, sum = 0, bessel = 0;
  for (int k = 0; term > DBL_EPSILON / 4; k++) {
    sum += term * (order == 0 ? harmonic : 2 * harmonic + 1.0 / (k + 1));
    bessel += term;
    harmonic += 1.0 / (k + 1);
    term *= q / ((k + 1) * (double)(k + 1 + order));
  }
  double log_half = log(x / 2) + euler;
  return order == 0 ? sum - log_half * bessel : 1 / x + x / 2 * log_half * bessel - x / 4 * sum;
}

/* exp(x) K(x) for x > 2: the integral of exp(-x (cosh t - 1)) cosh(order t) (9.6.24) by the trapezoidal rule,
 * which converges exponentially. */
static double k_integral(int order, double x) {
  double step = fmin(0.15, 0.5 / sqrt(x)), sum = 0.5;
  if (!isfinite(x)) return 1 / x;
  for (int i = 1;; i++) {
    double t = i * step, half = sinh(t / 2), exponent = 2 * x * half * half;
    if (!(exponent < 45)) return sum * step;
    sum += exp(-exponent) * (order == 0 ? 1 : cosh(t));
  }
}

/* Below 0 it is infinity, as at 0. */
#define K_PLAIN(order, x) \
  ((x) <= 0 ? (COMP)INFINITY : (x) <= 2 ? (COMP)k_series(order, x) : exp(-(x)) * (COMP)k_integral(order, x))
#define K_SCALED(order, x) \
  ((x) <= 0 ? (COMP)INFINITY : (x) <= 2 ? exp(x) * (COMP)k_series(order, x) : (COMP)k_integral(order, x))

/* At infinity TensorFlow's J and Y are no numbers; Y is minus infinity below 0. */
static double j_of(double (*function)(double), double x) { return isinf(x) ? (double)NAN : function(x); }
static double y_of(double (*function)(double), double x) {
  if (x <= 0) return -(double)INFINITY;
  return isinf(x) ? (double)NAN : function(x);
}

#define MAP_STEM bessel_i0e
#define MAP_EXPR(x) i_scaled(0, fabs((double)(x)))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_i1e
#define MAP_EXPR(x) i1_scaled(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_i0
#define MAP_EXPR(x) (exp(fabs(x)) * (COMP)i_scaled(0, fabs((double)(x))))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_i1
#define MAP_EXPR(x) (exp(fabs(x)) * (COMP)i1_scaled(x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_k0
#define MAP_EXPR(x) K_PLAIN(0, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_k1
#define MAP_EXPR(x) K_PLAIN(1, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_k0e
#define MAP_EXPR(x) K_SCALED(0, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_k1e
#define MAP_EXPR(x) K_SCALED(1, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_j0
#define MAP_EXPR(x) j_of(j0, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_j1
#define MAP_EXPR(x) j_of(j1, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_y0
#define MAP_EXPR(x) y_of(y0, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_y1
#define MAP_EXPR(x) y_of(y1, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"

const weft_kernel_t weft_cpu_bessel_kernels[] = {
    WEFT_MAP1("BesselI0", WEFT_SET_FLOATS, bessel_i0, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselI0e", WEFT_SET_FLOATS, bessel_i0e, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselI1", WEFT_SET_FLOATS, bessel_i1, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselI1e", WEFT_SET_FLOATS, bessel_i1e, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselJ0", WEFT_SET_FLOATS, bessel_j0, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselJ1", WEFT_SET_FLOATS, bessel_j1, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselK0", WEFT_SET_FLOATS, bessel_k0, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselK0e", WEFT_SET_FLOATS, bessel_k0e, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselK1", WEFT_SET_FLOATS, bessel_k1, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselK1e", WEFT_SET_FLOATS, bessel_k1e, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselY0", WEFT_SET_FLOATS, bessel_y0, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselY1", WEFT_SET_FLOATS, bessel_y1, WEFT_MAP_COSTLY),
    {0},
};
