/* kernels/cuda/scalars.cuh - what linear algebra asks of numbers, real or complex. */
#ifndef WEFT_KERNELS_CUDA_SCALARS_CUH_
#define WEFT_KERNELS_CUDA_SCALARS_CUH_

#include "kernels/cuda/complex.cuh"

namespace weft {

template <class T>
struct scalar {
  typedef T real;
  static const bool is_complex = false;
};
template <class R>
struct scalar<complex<R>> {
  typedef R real;
  static const bool is_complex = true;
};
template <class T>
using real_t = typename scalar<T>::real;

WEFT_FN float conjugate(float v) { return v; }
WEFT_FN double conjugate(double v) { return v; }
template <class R>
WEFT_FN complex<R> conjugate(complex<R> v) {
  return complex<R>{v.re, -v.im};
}
WEFT_FN float real_of(float v) { return v; }
WEFT_FN double real_of(double v) { return v; }
template <class R>
WEFT_FN R real_of(complex<R> v) {
  return v.re;
}
WEFT_FN float imaginary_of(float) { return 0; }
WEFT_FN double imaginary_of(double) { return 0; }
template <class R>
WEFT_FN R imaginary_of(complex<R> v) {
  return v.im;
}
/* The square of the absolute value. */
WEFT_FN float square_of(float v) { return v * v; }
WEFT_FN double square_of(double v) { return v * v; }
template <class R>
WEFT_FN R square_of(complex<R> v) {
  return v.re * v.re + v.im * v.im;
}
WEFT_FN float size_of(float v) { return fabsf(v); }
WEFT_FN double size_of(double v) { return fabs(v); }
template <class R>
WEFT_FN R size_of(complex<R> v) {
  return (R)hypot((double)v.re, (double)v.im);
}

/* A number that is real. */
template <class T>
struct from_real {
  static __device__ T make(T v) { return v; }
};
template <class R>
struct from_real<complex<R>> {
  static __device__ complex<R> make(R v) { return complex<R>{v, 0}; }
};
template <class T>
WEFT_FN T number_of(real_t<T> v) {
  return from_real<T>::make(v);
}

/* By a real number. */
WEFT_FN float times(float v, float by) { return v * by; }
WEFT_FN double times(double v, double by) { return v * by; }
template <class R>
WEFT_FN complex<R> times(complex<R> v, R by) {
  return complex<R>{v.re * by, v.im * by};
}

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_SCALARS_CUH_ */
