/* kernels/formulas/integral.h - functions that are integrals of elementary ones, in double, for C and for
 * CUDA's C++: Dawson's, the exponential one, Fresnel's and Spence's.
 *
 * The includer has <math.h> and gives WEFT_FORMULA, how a function is declared, before this header. Outside
 * of its domain a function is what TensorFlow's is.
 */
#ifndef WEFT_KERNELS_FORMULAS_INTEGRAL_H_
#define WEFT_KERNELS_FORMULAS_INTEGRAL_H_

/* Terms below this part of the sum do not count: DBL_EPSILON / 4. */
#define WEFT_LAST_TERM (2.220446049250313e-16 / 4)
#define WEFT_INTEGRAL_PI 3.14159265358979323846

/* Rybicki's sum of exponentials at the odd multiples of a step (Computers in Physics 3, 1989); near 0 the
 * power series, far away the asymptotic one. */
WEFT_FORMULA double weft_dawson(double x) {
  const double step = 0.2, far_away = 10, z = fabs(x);
  double sum = 0, term = 1;
  if (!(z < far_away)) {
    for (int k = 1; fabs(term) > WEFT_LAST_TERM; k++) {
      sum += term;
      term *= (2 * k - 1) / (2 * z * z);
    }
    return sum / (2 * x);
  }
  if (z < step) {
    for (int k = 1; fabs(term) > WEFT_LAST_TERM; k++) {
      sum += term;
      term *= -2 * z * z / (2 * k + 1);
    }
    return sum * x;
  }
  for (int n = (int)(z / step) - 35; n < (int)(z / step) + 35; n++) {
    if (n % 2 != 0) sum += exp(-(z - n * step) * (z - n * step)) / n;
  }
  return copysign(sum / sqrt(WEFT_INTEGRAL_PI), x);
}

/* Ei(x) for x > 0 by its power series (Abramowitz and Stegun, 5.1.10). */
WEFT_FORMULA double weft_expint_series(double x) {
  double term = 1, sum = 0;
  for (int k = 1; term > WEFT_LAST_TERM * sum; k++) {
    term *= x / k;
    sum += term / k;
  }
  return 0.57721566490153286061 + log(x) + sum;
}

/* exp(-x) Ei(x) for x >= 2; from 40 on by the asymptotic series (5.1.51). */
WEFT_FORMULA double weft_expint_scaled(double x) {
  if (x < 40) return exp(-x) * weft_expint_series(x);
  double term = 1, sum = 0;
  for (int k = 1; term > WEFT_LAST_TERM; k++) {
    sum += term;
    term *= k / x;
    if (k > x) break;
  }
  return sum / x;
}

/* ---- Fresnel's integrals ---- */

typedef struct weft_fresnel {
  double c, s;
} weft_fresnel_t; /* c + i s; any complex number, too */

WEFT_FORMULA weft_fresnel_t weft_fresnel_product(weft_fresnel_t a, weft_fresnel_t b) {
  const weft_fresnel_t p = {a.c * b.c - a.s * b.s, a.c * b.s + a.s * b.c};
  return p;
}

/* 1 / a, without overflow (Smith, "Algorithm 116", 1962). */
WEFT_FORMULA weft_fresnel_t weft_fresnel_inverse(weft_fresnel_t a) {
  const int is_flat = fabs(a.c) >= fabs(a.s);
  const double ratio = is_flat ? a.s / a.c : a.c / a.s,
               whole = is_flat ? a.c + a.s * ratio : a.c * ratio + a.s;
  const weft_fresnel_t inverse = {(is_flat ? 1 : ratio) / whole, (is_flat ? -ratio : -1) / whole};
  return inverse;
}

/* C(z) + i S(z) for z < 1.5 by the power series (7.3.11, 7.3.13), whose terms go round the four directions.
 */
WEFT_FORMULA weft_fresnel_t weft_fresnel_near(double z) {
  const double square = WEFT_INTEGRAL_PI / 2 * z * z;
  double sums[2] = {0, 0}, term = z;
  for (int k = 0; term > WEFT_LAST_TERM / 2; k++) {
    const double part = term / (2 * k + 1);
    sums[k % 2] += k % 4 < 2 ? part : -part;
    term *= square / (k + 1);
  }
  const weft_fresnel_t sum = {sums[0], sums[1]};
  return sum;
}

/* The same from there on, by Lentz's continued fraction of the error function of a complex argument. */
WEFT_FORMULA weft_fresnel_t weft_fresnel_far(double z) {
  const double square = WEFT_INTEGRAL_PI / 2 * z * z;
  weft_fresnel_t b = {1, -2 * square}, c = {1e300, 0}, d = weft_fresnel_inverse(b), h = d, change = {0, 0};
  for (int n = 1; fabs(change.c - 1) + fabs(change.s) > 4 * WEFT_LAST_TERM && n < 400; n += 2) {
    const double factor = n * (n + 1.0);
    const weft_fresnel_t over_c = weft_fresnel_inverse(c);
    b.c += 4;
    const weft_fresnel_t below = {b.c - factor * d.c, b.s - factor * d.s};
    d = weft_fresnel_inverse(below);
    c.c = b.c - factor * over_c.c;
    c.s = b.s - factor * over_c.s;
    change = weft_fresnel_product(c, d);
    h = weft_fresnel_product(h, change);
  }
  const weft_fresnel_t wave = {cos(square), sin(square)}, slope = {z, -z}, half = {0.5, 0.5};
  const weft_fresnel_t tail = weft_fresnel_product(wave, weft_fresnel_product(h, slope)),
                       rest = {1 - tail.c, -tail.s};
  return weft_fresnel_product(half, rest);
}

/* C(x) + i S(x); both are odd. */
WEFT_FORMULA weft_fresnel_t weft_fresnel_of(double x) {
  const double z = fabs(x);
  const weft_fresnel_t not_a_number = {x, x}, limit = {0.5, 0.5};
  if (isnan(x)) return not_a_number;
  /* Beyond, the waves are below the last digit. */
  const weft_fresnel_t v = z > 36974 ? limit : z < 1.5 ? weft_fresnel_near(z) : weft_fresnel_far(z);
  const weft_fresnel_t signed_v = {copysign(1.0, x) * v.c, copysign(1.0, x) * v.s};
  return signed_v;
}

/* ---- Spence's function ---- */

/* The dilogarithm of 1 - x for 0.5 <= x <= 2, by the series of Bernoulli numbers in -log(x). */
WEFT_FORMULA double weft_spence_near_one(double x) {
  static const double bernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,    5.0 / 66,
                                     -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798};
  double u = -log(x), power = u, sum = u - u * u / 4;
  for (int k = 1; k <= 9; k++) {
    power *= u * u / ((2 * k) * (2 * k + 1.0));
    sum += bernoulli[k - 1] * power;
  }
  return sum;
}

/* For 0 <= x <= 2. */
WEFT_FORMULA double weft_spence_below(double x) {
  const double at_zero = WEFT_INTEGRAL_PI * WEFT_INTEGRAL_PI / 6;
  if (x == 0) return at_zero;
  return x < 0.5 ? at_zero - log(x) * log1p(-x) - weft_spence_near_one(1 - x) : weft_spence_near_one(x);
}

WEFT_FORMULA double weft_spence(double x) {
  if (!(x >= 0)) return (double)NAN;
  if (x <= 2) return weft_spence_below(x);
  const double log_x = log(x);
  return -0.5 * log_x * log_x - weft_spence_below(1 / x);
}

#endif /* WEFT_KERNELS_FORMULAS_INTEGRAL_H_ */
