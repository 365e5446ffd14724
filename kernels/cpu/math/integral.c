/* kernels/cpu/math/integral.c - functions that are integrals of elementary ones: Dawson's, the exponential,
 * Fresnel's, and Spence's, in double. Outside of its domain a function is what TensorFlow's is. */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <tgmath.h>

#include "kernels/cpu/loops/map.h"

static const double pi = 3.14159265358979323846, euler = 0.57721566490153286061;
static const double _Complex i_unit = I;

/* Rybicki's sum of exponentials at the odd multiples of a step (Computers in Physics 3, 1989); near 0 the
 * power series, far away the asymptotic one. */
static double dawson_of(double x) {
  const double step = 0.2, far = 10, z = fabs(x);
  double sum = 0, term = 1;
  if (!(z < far)) {
    for (int k = 1; fabs(term) > DBL_EPSILON / 4; k++) {
      sum += term;
      term *= (2 * k - 1) / (2 * z * z);
    }
    return sum / (2 * x);
  }
  if (z < step) {
    for (int k = 1; fabs(term) > DBL_EPSILON / 4; k++) {
      sum += term;
      term *= -2 * z * z / (2 * k + 1);
    }
    return sum * x;
  }
  for (int n = (int)(z / step) - 35; n < (int)(z / step) + 35; n++) {
    if (n % 2 != 0) sum += exp(-(z - n * step) * (z - n * step)) / n;
  }
  return copysign(sum / sqrt(pi), x);
}

/* Ei(x) for x > 0 by its power series (Abramowitz and Stegun, 5.1.10). */
static double expint_series(double x) {
  double term = 1, sum = 0;
  for (int k = 1; term > DBL_EPSILON / 4 * sum; k++) {
    term *= x / k;
    sum += term / k;
  }
  return euler + log(x) + sum;
}

/* exp(-x) Ei(x) for x >= 2; from 40 on by the asymptotic series (5.1.51). */
static double expint_scaled(double x) {
  if (x < 40) return exp(-x) * expint_series(x);
  double term = 1, sum = 0;
  for (int k = 1; term > DBL_EPSILON / 4; k++) {
    sum += term;
    term *= k / x;
    if (k > x) break;
  }
  return sum / x;
}

/* C(x) + i S(x): the power series (7.3.11, 7.3.13), from 1.5 on Lentz's continued fraction of the error
 * function of a complex argument. */
static double _Complex fresnel_of(double x) {
  double z = fabs(x);
  double _Complex sum = 0;
  if (z > 36974) return copysign(0.5, x) * (1 + i_unit); /* the waves are below the last digit */
  if (z < 1.5) {
    double _Complex term = z;
    for (int k = 0; fabs(creal(term)) + fabs(cimag(term)) > DBL_EPSILON / 8; k++) {
      sum += term / (2 * k + 1);
      term *= i_unit * (pi / 2 * z * z) / (k + 1);
    }
  } else {
    double _Complex b = 1 - i_unit * (pi * z * z), c = 1e300, d = 1 / b, h = d, change = 0;
    for (int n = 1; cabs(change - 1) > DBL_EPSILON && n < 400; n += 2) {
      b += 4;
      d = 1 / (b - n * (n + 1.0) * d);
      c = b - n * (n + 1.0) / c;
      change = c * d;
      h *= change;
    }
    sum = (0.5 + 0.5 * i_unit) * (1 - cexp(i_unit * (pi / 2 * z * z)) * (h * (z - i_unit * z)));
  }
  return isnan(x) ? x * (1 + i_unit) : copysign(1, x) * sum;
}
static double fresnel_cos_of(double x) { return creal(fresnel_of(x)); }
static double fresnel_sin_of(double x) { return cimag(fresnel_of(x)); }

/* The dilogarithm of 1 - x for 0.5 <= x <= 2, by the series of Bernoulli numbers in -log(x). */
static double spence_near_one(double x) {
  static const double bernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,    5.0 / 66,
                                     -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798};
  double u = -log(x), power = u, sum = u - u * u / 4;
  for (int k = 1; k <= 9; k++) {
    power *= u * u / ((2 * k) * (2 * k + 1.0));
    sum += bernoulli[k - 1] * power;
  }
  return sum;
}

static double spence_of(double x) {
  if (!(x >= 0)) return (double)NAN;
  if (x == 0) return pi * pi / 6;
  if (x < 0.5) return pi * pi / 6 - log(x) * log1p(-x) - spence_near_one(1 - x);
  if (x <= 2) return spence_near_one(x);
  double log_x = log(x);
  return -0.5 * log_x * log_x - spence_of(1 / x);
}

#define MAP_STEM dawsn
#define MAP_EXPR(x) dawson_of(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
/* The exponential in the type of the result, so that it overflows there. */
#define MAP_STEM expint
#define MAP_EXPR(x)                             \
  ((x) < 0   ? (COMP)NAN                        \
   : (x) < 2 ? (COMP)expint_series((double)(x)) \
             : exp(x) * (COMP)expint_scaled((double)(x)))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM fresnel_cos
#define MAP_EXPR(x) fresnel_cos_of(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM fresnel_sin
#define MAP_EXPR(x) fresnel_sin_of(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM spence
#define MAP_EXPR(x) spence_of(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"

const weft_kernel_t weft_cpu_integral_kernels[] = {
    WEFT_MAP1("Dawsn", WEFT_SET_FLOATS, dawsn, WEFT_MAP_COSTLY),
    WEFT_MAP1("Expint", WEFT_SET_FLOATS, expint, WEFT_MAP_COSTLY),
    WEFT_MAP1("FresnelCos", WEFT_SET_FLOATS, fresnel_cos, WEFT_MAP_COSTLY),
    WEFT_MAP1("FresnelSin", WEFT_SET_FLOATS, fresnel_sin, WEFT_MAP_COSTLY),
    WEFT_MAP1("Spence", WEFT_SET_FLOATS, spence, WEFT_MAP_COSTLY),
    {0},
};
