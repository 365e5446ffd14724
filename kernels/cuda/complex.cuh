/* kernels/cuda/complex.cuh - complex numbers, with what C makes of infinities and NaN (C11, annex G).
 *
 * Products and quotients are computed in the numbers' own type, a quotient of floats in double; all other
 * functions in double.
 */
#ifndef WEFT_KERNELS_CUDA_COMPLEX_CUH_
#define WEFT_KERNELS_CUDA_COMPLEX_CUH_

#include "kernels/cuda/numbers.cuh"

namespace weft {

template <class R>
struct alignas(2 * sizeof(R)) complex {
  R re, im;
};
typedef complex<float> c64;
typedef complex<double> c128;
template <>
struct number<c64> {
  typedef c64 comp;
  static const bool is_float = true;
};
template <>
struct number<c128> {
  typedef c128 comp;
  static const bool is_float = true;
};

template <class R>
WEFT_FN c128 widened(complex<R> z) {
  return c128{(double)z.re, (double)z.im};
}
template <class C>
WEFT_FN C narrowed(c128 z) {
  C n;
  n.re = (decltype(n.re))z.re;
  n.im = (decltype(n.im))z.im;
  return n;
}

template <class R>
WEFT_FN complex<R> operator+(complex<R> a, complex<R> b) {
  return complex<R>{a.re + b.re, a.im + b.im};
}
template <class R>
WEFT_FN complex<R> operator-(complex<R> a, complex<R> b) {
  return complex<R>{a.re - b.re, a.im - b.im};
}
template <class R>
WEFT_FN complex<R> operator-(complex<R> a) {
  return complex<R>{-a.re, -a.im};
}
template <class R>
WEFT_FN bool operator==(complex<R> a, complex<R> b) {
  return a.re == b.re && a.im == b.im;
}
template <class R>
WEFT_FN bool is_zero(complex<R> z) {
  return z.re == 0 && z.im == 0;
}
template <class R>
WEFT_FN complex<R> conj_of(complex<R> z) {
  return complex<R>{z.re, -z.im};
}
template <class R>
WEFT_FN complex<R> one_minus(complex<R> z) {
  return complex<R>{1 - z.re, 0 - z.im};
}

template <class R>
WEFT_FN bool is_nan(R v) {
  return v != v;
}
template <class R>
WEFT_FN bool is_infinite(R v) {
  return v == v && v - v != 0;
}
/* 1 or 0 with the sign of v: an infinity as a point of a box. */
template <class R>
WEFT_FN R boxed(R v) {
  return copysign(is_infinite(v) ? (R)1 : (R)0, v);
}
template <class R>
WEFT_FN R no_nan(R v) {
  return is_nan(v) ? copysign((R)0, v) : v;
}

/* A product that came out as no number, though an infinity was among the factors. */
template <class R>
WEFT_FN complex<R> infinite_product(complex<R> a, complex<R> b) {
  const R ac = a.re * b.re, bd = a.im * b.im, ad = a.re * b.im, bc = a.im * b.re;
  bool is_found = false;
  if (is_infinite(a.re) || is_infinite(a.im)) {
    a = complex<R>{boxed(a.re), boxed(a.im)};
    b = complex<R>{no_nan(b.re), no_nan(b.im)};
    is_found = true;
  }
  if (is_infinite(b.re) || is_infinite(b.im)) {
    b = complex<R>{boxed(b.re), boxed(b.im)};
    a = complex<R>{no_nan(a.re), no_nan(a.im)};
    is_found = true;
  }
  if (!is_found && (is_infinite(ac) || is_infinite(bd) || is_infinite(ad) || is_infinite(bc))) {
    a = complex<R>{no_nan(a.re), no_nan(a.im)};
    b = complex<R>{no_nan(b.re), no_nan(b.im)};
    is_found = true;
  }
  if (!is_found) return complex<R>{ac - bd, ad + bc};
  return complex<R>{(R)INFINITY * (a.re * b.re - a.im * b.im), (R)INFINITY * (a.re * b.im + a.im * b.re)};
}

template <class R>
WEFT_FN complex<R> operator*(complex<R> a, complex<R> b) {
  const complex<R> z = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  if (is_nan(z.re) && is_nan(z.im)) return infinite_product(a, b);
  return z;
}

/* A quotient that came out as no number. */
WEFT_FN c128 special_quotient(c128 a, c128 b, c128 z) {
  const bool a_is_infinite = is_infinite(a.re) || is_infinite(a.im);
  const bool b_is_infinite = is_infinite(b.re) || is_infinite(b.im);
  const bool a_is_finite = a.re - a.re == 0 && a.im - a.im == 0;
  const bool b_is_finite = b.re - b.re == 0 && b.im - b.im == 0;
  if (is_zero(b) && (!is_nan(a.re) || !is_nan(a.im))) {
    const double top = copysign((double)INFINITY, b.re);
    return c128{top * a.re, top * a.im};
  }
  if (a_is_infinite && b_is_finite) {
    a = c128{boxed(a.re), boxed(a.im)};
    return c128{(double)INFINITY * (a.re * b.re + a.im * b.im),
                (double)INFINITY * (a.im * b.re - a.re * b.im)};
  }
  if (b_is_infinite && a_is_finite) {
    b = c128{boxed(b.re), boxed(b.im)};
    return c128{0.0 * (a.re * b.re + a.im * b.im), 0.0 * (a.im * b.re - a.re * b.im)};
  }
  return z;
}

WEFT_CALLED_FN c128 quotient(c128 a, c128 b) {
  const double size = fmax(fabs(b.re), fabs(b.im));
  double by = 1; /* a power of two that keeps the squares in range */
  if (size > 0 && !is_infinite(size)) {
    int exponent = 0;
    (void)frexp(size, &exponent);
    by = ldexp(1.0, exponent > 1000 ? -1000 : exponent < -1000 ? 1000 : -exponent);
  }
  const double re = b.re * by, im = b.im * by, square = re * re + im * im;
  const c128 z = {(a.re * re + a.im * im) / square * by, (a.im * re - a.re * im) / square * by};
  if (is_nan(z.re) && is_nan(z.im)) return special_quotient(a, b, z);
  return z;
}
template <class R>
WEFT_FN complex<R> operator/(complex<R> a, complex<R> b) {
  return narrowed<complex<R>>(quotient(widened(a), widened(b)));
}

WEFT_CALLED_FN c128 exp_of(c128 z) {
  if (z.im == 0) return c128{exp(z.re), z.im};
  if (is_nan(z.im) || is_infinite(z.im)) {
    if (is_infinite(z.re)) return z.re < 0 ? c128{0, 0} : c128{z.re, z.im - z.im};
    return c128{z.im - z.im, z.im - z.im};
  }
  const double half = exp(z.re / 2), s = sin(z.im), c = cos(z.im), e = exp(z.re);
  if (is_infinite(e) && !is_infinite(z.re)) return c128{half * c * half, half * s * half};
  return c128{e * c, e * s};
}

WEFT_CALLED_FN c128 log_of(c128 z) {
  const double x = fabs(z.re), y = fabs(z.im), large = fmax(x, y), small = fmin(x, y);
  const double angle = atan2(z.im, z.re);
  if (x <= 2 && y <= 2 && large > 0.5)
    return c128{log1p((large - 1) * (large + 1) + small * small) / 2, angle};
  return c128{log(hypot(x, y)), angle};
}

WEFT_CALLED_FN c128 sqrt_of(c128 z) {
  if (is_zero(z)) return c128{0, z.im};
  if (is_infinite(z.im)) return c128{fabs(z.im), z.im};
  if (is_infinite(z.re)) {
    const double other = is_nan(z.im) ? z.im : 0;
    return z.re > 0 ? c128{z.re, copysign(other, z.im)} : c128{other, copysign(z.re, z.im)};
  }
  const bool is_large = fabs(z.re) > 1e300 || fabs(z.im) > 1e300;
  const double by = is_large ? 0.0625 : 1, re = z.re * by, im = z.im * by;
  const double t = sqrt((fabs(re) + hypot(re, im)) / 2), back = is_large ? 4 : 1;
  if (z.re >= 0) return c128{t * back, im / (2 * t) * back};
  return c128{fabs(im) / (2 * t) * back, copysign(t, im) * back};
}

/* What is 0 stays 0 beside an infinity. */
WEFT_CALLED_FN c128 sinh_of(c128 z) {
  return c128{z.re == 0 ? z.re : sinh(z.re) * cos(z.im), z.im == 0 ? z.im : cosh(z.re) * sin(z.im)};
}
WEFT_CALLED_FN c128 cosh_of(c128 z) {
  return c128{cosh(z.re) * cos(z.im), z.re == 0 || z.im == 0 ? copysign(0.0, z.re) * copysign(1.0, z.im) : sinh(z.re) * sin(z.im)};
}
WEFT_CALLED_FN c128 tanh_of(c128 z) {
  if (fabs(z.re) > 300)
    return c128{copysign(1.0, z.re), 4 * sin(z.im) * cos(z.im) * exp(-2 * fabs(z.re))};
  const double sh = sinh(z.re), ch = cosh(z.re), s = sin(z.im), c = cos(z.im), square = sh * sh + c * c;
  return c128{sh * ch / square, s * c / square};
}
/* i times z, and back. */
WEFT_FN c128 turned(c128 z) { return c128{-z.im, z.re}; }
WEFT_FN c128 turned_back(c128 z) { return c128{z.im, -z.re}; }

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_COMPLEX_CUH_ */
