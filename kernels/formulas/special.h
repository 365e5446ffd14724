/* kernels/formulas/special.h - special functions in double, for C and for CUDA's C++.
 *
 * The includer has <math.h> and gives, before this header:
 *   WEFT_FORMULA                 how a function is declared: static inline
 *   double weft_lgamma(double)   the logarithm of |gamma(x)|
 * Outside of its domain a function is what TensorFlow's is.
 */
#ifndef WEFT_KERNELS_FORMULAS_SPECIAL_H_
#define WEFT_KERNELS_FORMULAS_SPECIAL_H_

#define WEFT_NAN ((double)NAN)
#define WEFT_INFINITE ((double)INFINITY)
#define WEFT_PI 3.14159265358979323846
#define WEFT_EULER 0.57721566490153286061
#define WEFT_EPSILON 2.220446049250313e-16 /* DBL_EPSILON */
#define WEFT_MAX_TERMS 20000

/* Reflection for x <= 0, then the recurrence up to 10 and the asymptotic series (Abramowitz and
 * Stegun, 6.3.18); with seven terms the error at 10 is below 1e-16. */
WEFT_FORMULA double weft_digamma(double x) {
  static const double series[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                  1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double shift = 0;
  if (x <= 0) {
    const double part = x - floor(x);
    if (!(part > 0)) return WEFT_NAN; /* a pole, or minus infinity */
    shift = -WEFT_PI / tan(WEFT_PI * part);
    x = 1 - x;
  }
  if (isinf(x)) return x;
  for (; x < 10; x++) shift -= 1 / x;
  double z = 1 / (x * x), sum = 0;
  for (int i = 6; i >= 0; i--) sum = (sum + series[i]) * z;
  return shift + log(x) - 0.5 / x - sum;
}

/* Acklam's rational approximation of the inverse normal distribution below 1/2, with a relative error below
 * 1.2e-9: of p - 1/2 for p from 0.02425 on, of sqrt(-2 log p) for the tail. */
WEFT_FORMULA double weft_quantile_near(double q) {
  const double r = q * q;
  return (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
            1.383577518672690e+02) *
               r -
           3.066479806614716e+01) *
              r +
          2.506628277459239e+00) *
         q /
         (((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
            6.680131188771972e+01) *
               r -
           1.328068155288572e+01) *
              r +
          1);
}

WEFT_FORMULA double weft_quantile_far(double q) {
  return (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e+00) * q -
            2.549732539343734e+00) *
               q +
           4.374664141464968e+00) *
              q +
          2.938163982698783e+00) /
         ((((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q +
           3.754408661907416e+00) *
              q +
          1);
}

/* The inverse normal distribution: the approximation, then two Newton steps (Halley) to full precision. */
WEFT_FORMULA double weft_ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return WEFT_NAN;
  if (p == 0) return -WEFT_INFINITE;
  if (p == 1) return WEFT_INFINITE;
  const double tail = p < 0.5 ? p : 1 - p;
  double x = tail < 0.02425 ? weft_quantile_far(sqrt(-2 * log(tail))) : weft_quantile_near(tail - 0.5);
  for (int i = 0; i < 2; i++) {
    const double e = 0.5 * erfc(-x / sqrt(2.0)) - tail, u = e * sqrt(2 * WEFT_PI) * exp(x * x / 2);
    x -= u / (1 + x * u / 2);
  }
  return p < 0.5 ? x : -x;
}

WEFT_FORMULA double weft_erfinv(double x) {
  if (x == 0) return x;
  if (!(x >= -1 && x <= 1)) return WEFT_NAN;
  if (fabs(x) < 1e-4) { /* which is little beside 1/2: the first terms of the series */
    const double z = x * x;
    return x * (0.88622692545275801 + z * (0.23201366653465444 + z * 0.12755617530559793));
  }
  const double y = weft_ndtri(0.5 - 0.5 * fabs(x)); /* the lower tail, where nothing cancels */
  return (x < 0 ? y : -y) / sqrt(2.0);
}

/* ---- incomplete gamma functions, with their derivatives by a ---- */

/* A number and its derivative by a. */
typedef struct weft_dual {
  double v, d;
} weft_dual_t;

WEFT_FORMULA weft_dual_t weft_dual_of(double v, double d) {
  weft_dual_t t;
  t.v = v;
  t.d = d;
  return t;
}
WEFT_FORMULA weft_dual_t weft_dual_add(weft_dual_t x, weft_dual_t y) {
  return weft_dual_of(x.v + y.v, x.d + y.d);
}
WEFT_FORMULA weft_dual_t weft_dual_mul(weft_dual_t x, weft_dual_t y) {
  return weft_dual_of(x.v * y.v, x.d * y.v + x.v * y.d);
}
WEFT_FORMULA weft_dual_t weft_dual_div(weft_dual_t x, weft_dual_t y) {
  const double q = x.v / y.v;
  return weft_dual_of(q, (x.d - q * y.d) / y.v);
}

/* x^a exp(-x) / gamma(a + shift) */
WEFT_FORMULA weft_dual_t weft_gamma_power(double a, double x, int shift) {
  const double v = exp(a * log(x) - x - weft_lgamma(a + shift));
  return weft_dual_of(v, v == 0 ? 0 : v * (log(x) - weft_digamma(a + shift)));
}

/* The lower function by its power series (Abramowitz and Stegun, 6.5.29). */
WEFT_FORMULA weft_dual_t weft_gamma_series(double a, double x) {
  weft_dual_t term = weft_dual_of(1, 0), sum = term;
  for (int k = 1; k < WEFT_MAX_TERMS; k++) {
    term = weft_dual_mul(term, weft_dual_div(weft_dual_of(x, 0), weft_dual_of(a + k, 1)));
    sum = weft_dual_add(sum, term);
    if (fabs(term.v) <= WEFT_EPSILON / 4 * fabs(sum.v) && fabs(term.d) <= WEFT_EPSILON / 4 * fabs(sum.d))
      break;
  }
  return weft_dual_mul(sum, weft_gamma_power(a, x, 1));
}

/* The upper function by Legendre's continued fraction (6.5.31 in its even form), by Lentz' method. */
WEFT_FORMULA weft_dual_t weft_gamma_fraction(double a, double x) {
  const weft_dual_t one = weft_dual_of(1, 0);
  weft_dual_t b = weft_dual_of(x + 1 - a, -1), c = weft_dual_of(1e300, 0), d = weft_dual_div(one, b), h = d;
  for (int k = 1; k < WEFT_MAX_TERMS; k++) {
    const weft_dual_t numerator = weft_dual_of(k * (a - k), k);
    b.v += 2;
    d = weft_dual_div(one, weft_dual_add(weft_dual_mul(numerator, d), b));
    c = weft_dual_add(b, weft_dual_div(numerator, c));
    const weft_dual_t change = weft_dual_mul(c, d);
    h = weft_dual_mul(h, change);
    if (fabs(change.v - 1) <= WEFT_EPSILON && fabs(change.d) <= WEFT_EPSILON) break;
  }
  return weft_dual_mul(h, weft_gamma_power(a, x, 0));
}

WEFT_FORMULA weft_dual_t weft_igamma(double a, double x) {
  if (x == 0) return weft_dual_of(0, 0);
  if (!(x >= 0 && a > 0)) return weft_dual_of(WEFT_NAN, WEFT_NAN);
  if (isinf(a) || isinf(x)) return weft_dual_of(isinf(a) ? 0 : 1, 0);
  if (!(x > 1 && x > a)) return weft_gamma_series(a, x);
  const weft_dual_t upper = weft_gamma_fraction(a, x);
  return weft_dual_of(1 - upper.v, -upper.d);
}

WEFT_FORMULA double weft_igammac(double a, double x) {
  if (!(x >= 0 && a > 0)) return WEFT_NAN;
  if (isinf(a) || isinf(x)) return isinf(x) ? 0 : 1;
  return x < 1 || x < a ? 1 - weft_gamma_series(a, x).v : weft_gamma_fraction(a, x).v;
}

/* ---- the incomplete beta function ---- */

/* The continued fraction (26.5.8), by Lentz' method; converges fast for x < (a + 1) / (a + b + 2). */
WEFT_FORMULA double weft_beta_fraction(double a, double b, double x) {
  double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < WEFT_MAX_TERMS; m++) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    h *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    h *= c * d;
    if (!(fabs(c * d - 1) > WEFT_EPSILON)) break;
  }
  return h;
}

WEFT_FORMULA double weft_betainc(double a, double b, double x) {
  if ((x == 0 || x == 1) && !(a <= 0 || b <= 0)) return x; /* of NaNs, too */
  if (!(a > 0 && b > 0 && x > 0 && x < 1)) return WEFT_NAN;
  const double front = exp(weft_lgamma(a + b) - weft_lgamma(a) - weft_lgamma(b) + a * log(x) + b * log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * weft_beta_fraction(a, b, x) / a;
  return 1 - front * weft_beta_fraction(b, a, 1 - x) / b;
}

/* ---- Hurwitz' zeta function, and the derivatives of digamma ---- */

/* For s > 1 and q > 0, by Euler-Maclaurin summation. */
WEFT_FORMULA double weft_zeta_right(double s, double q) {
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
WEFT_FORMULA double weft_zeta(double s, double q) {
  if (s == 1) return WEFT_INFINITE;
  if (!(s > 1)) return WEFT_NAN;
  if (!(q <= 0)) return weft_zeta_right(s, q);
  const int is_even = fmod(s, 2.0) == 0;
  if (q == floor(q)) return is_even ? WEFT_INFINITE : WEFT_NAN;
  if (s != floor(s)) return WEFT_NAN;
  const double part = q - floor(q);
  const double between = weft_zeta_right(s, 1 - part) - weft_zeta_right(s, 1 - q);
  return weft_zeta_right(s, part) + (is_even ? between : -between);
}

WEFT_FORMULA double weft_polygamma(double a, double x) {
  if (!(a >= 0) || a != floor(a)) return WEFT_NAN;
  if (a == 0) return weft_digamma(x);
  const double sign = fmod(a, 2.0) == 1 ? 1 : -1;
  return sign * exp(weft_lgamma(a + 1)) * weft_zeta(a + 1, x);
}

/* ---- Bessel functions of the orders 0 and 1, scaled by an exponential (Abramowitz and Stegun, chapter 9).
 * J and Y are those of the C library. ---- */

/* exp(-x) I(x) for x >= 0: the power series (9.6.10), from 25 on the asymptotic one (9.7.1). */
WEFT_FORMULA double weft_bessel_i(int order, double x) {
  if (x < 25) {
    double term = order == 0 ? 1 : x / 2, sum = term;
    for (int k = 1; term > WEFT_EPSILON / 4 * sum; k++) {
      term *= x * x / 4 / (k * (double)(k + order));
      sum += term;
    }
    return sum * exp(-x);
  }
  double term = 1, sum = 1;
  for (int k = 1; fabs(term) > WEFT_EPSILON / 4; k++) {
    term *= ((2 * k - 1) * (double)(2 * k - 1) - 4 * order) / (8 * x * k);
    sum += term;
  }
  return sum / (sqrt(2 * WEFT_PI) * sqrt(x));
}

/* I1e is odd. */
WEFT_FORMULA double weft_bessel_i1e(double x) { return copysign(weft_bessel_i(1, fabs(x)), x); }

/* K(x) for 0 < x <= 2: 9.6.13 and 9.6.11. */
WEFT_FORMULA double weft_bessel_k_near(int order, double x) {
  double q = x * x / 4, term = 1, harmonic = 0, sum = 0, bessel = 0;
  for (int k = 0; term > WEFT_EPSILON / 4; k++) {
    sum += term * (order == 0 ? harmonic : 2 * harmonic + 1.0 / (k + 1));
    bessel += term;
    harmonic += 1.0 / (k + 1);
    term *= q / ((k + 1) * (double)(k + 1 + order));
  }
  const double log_half = log(x / 2) + WEFT_EULER;
  return order == 0 ? sum - log_half * bessel : 1 / x + x / 2 * log_half * bessel - x / 4 * sum;
}

/* exp(x) K(x) for x > 2: the integral of exp(-x (cosh t - 1)) cosh(order t) (9.6.24) by the trapezoidal rule,
 * which converges exponentially. */
WEFT_FORMULA double weft_bessel_k_far(int order, double x) {
  double step = fmin(0.15, 0.5 / sqrt(x)), sum = 0.5;
  if (!isfinite(x)) return 1 / x;
  for (int i = 1;; i++) {
    const double t = i * step, half = sinh(t / 2), exponent = 2 * x * half * half;
    if (!(exponent < 45)) return sum * step;
    sum += exp(-exponent) * (order == 0 ? 1 : cosh(t));
  }
}

/* At infinity TensorFlow's J and Y are no numbers; Y is minus infinity below 0. */
WEFT_FORMULA double weft_bessel_j(int order, double x) {
  return isinf(x) ? WEFT_NAN : order == 0 ? j0(x) : j1(x);
}
WEFT_FORMULA double weft_bessel_y(int order, double x) {
  if (x <= 0) return -WEFT_INFINITE;
  return isinf(x) ? WEFT_NAN : order == 0 ? y0(x) : y1(x);
}

#endif /* WEFT_KERNELS_FORMULAS_SPECIAL_H_ */
