/* kernels/cuda/special.cu - special functions: special_unary.def, special_binary.def, Betainc.
 *
 * They are computed in double, by the functions that the CPU's kernels have. Elements take very different
 * times, and memory is no limit: a thread has one at a time.
 */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/walk.cuh"

#define WEFT_FORMULA WEFT_CALLED_FN
#ifdef WEFT_CUDA_ON_HOST
WEFT_FORMULA double weft_lgamma(double x) { /* lgamma() writes a global */
  int sign = 0;
  return lgamma_r(x, &sign);
}
#else
WEFT_FORMULA double weft_lgamma(double x) { return lgamma(x); }
#endif
#include "kernels/formulas/gamma_slope.h"
#include "kernels/formulas/integral.h"
#include "kernels/formulas/special.h"

namespace weft {

/* name::of<C>(x), name::of<C>(x, y): C is what the element type computes in. */
#define ONE(name, expression) \
  struct name {               \
    template <class C>        \
    WEFT_FN C of(const C x) { \
      return (C)(expression); \
    }                         \
  };
#define TWO(name, expression)            \
  struct name {                          \
    template <class C>                   \
    WEFT_FN C of(const C x, const C y) { \
      return (C)(expression);            \
    }                                    \
  };

/* What grows or vanishes exponentially gets the exponential in C, and overflows where C does. */
ONE(BesselI0, exp(fabs(x)) * (C)weft_bessel_i(0, fabs((double)x)))
ONE(BesselI0e, weft_bessel_i(0, fabs((double)x)))
ONE(BesselI1, exp(fabs(x)) * (C)weft_bessel_i1e(x))
ONE(BesselI1e, weft_bessel_i1e(x))
ONE(BesselJ0, weft_bessel_j(0, x))
ONE(BesselJ1, weft_bessel_j(1, x))
#define K_PLAIN(order) \
  x <= 0 ? (C)INFINITY : x <= 2 ? (C)weft_bessel_k_near(order, x) : exp(-x) * (C)weft_bessel_k_far(order, x)
#define K_SCALED(order) \
  x <= 0 ? (C)INFINITY : x <= 2 ? exp(x) * (C)weft_bessel_k_near(order, x) : (C)weft_bessel_k_far(order, x)
ONE(BesselK0, K_PLAIN(0))
ONE(BesselK0e, K_SCALED(0))
ONE(BesselK1, K_PLAIN(1))
ONE(BesselK1e, K_SCALED(1))
ONE(BesselY0, weft_bessel_y(0, x))
ONE(BesselY1, weft_bessel_y(1, x))
ONE(Dawsn, weft_dawson(x))
ONE(Digamma, weft_digamma(x))
ONE(Erfinv, weft_erfinv(x))
ONE(Expint, x < 0   ? (C)NAN
            : x < 2 ? (C)weft_expint_series((double)x)
                    : exp(x) * (C)weft_expint_scaled((double)x))
ONE(FresnelCos, weft_fresnel_of(x).c)
ONE(FresnelSin, weft_fresnel_of(x).s)
ONE(Lgamma, weft_lgamma(x))
ONE(Ndtri, weft_ndtri(x))
ONE(Spence, weft_spence(x))
TWO(RandomGammaGrad, weft_gamma_slope(x, y, sizeof(C) == sizeof(float) ? -87.33654475 : -708.3964185322641))
TWO(Igamma, weft_igamma(x, y).v)
TWO(IgammaGradA, weft_igamma(x, y).d)
TWO(Igammac, weft_igammac(x, y))
TWO(NextAfter, nextafter(x, y))
TWO(Polygamma, weft_polygamma(x, y))
TWO(Zeta, weft_zeta(x, y))

template <class F, class T>
WEFT_FN void one(const T *x, T *y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step())
    store(&y[i], F::template of<comp_t<T>>(load(x[i])));
}
template <class F, class T>
WEFT_FN void two(const T *x, const T *y, T *z, const weft_cuda_walk_t &w) {
  for (int64_t i = first_index(); i < w.n; i += index_step()) {
    int64_t at[2];
    locate(w, i, at);
    store(&z[i], F::template of<comp_t<T>>(load(x[at[0]]), load(y[at[1]])));
  }
}

}  // namespace weft

using namespace weft;

#define ONE_OF(op, type) \
  WEFT_CUDA_KERNEL(weft_unary_##op##_##type, (const type *x, type *y, int64_t n)) { one<op>(x, y, n); }
#define WEFT_CUDA_UNARY(op, set, result) WEFT_CUDA_##set(ONE_OF, op)
#include "kernels/cuda/special_unary.def"
#undef WEFT_CUDA_UNARY

#define TWO_OF(op, type)                                                                                     \
  WEFT_CUDA_KERNEL(weft_binary_##op##_##type, (const type *x, const type *y, type *z, weft_cuda_walk_t w)) { \
    two<op>(x, y, z, w);                                                                                     \
  }
#define WEFT_CUDA_BINARY(op, set, result, shapes) WEFT_CUDA_##set(TWO_OF, op)
#include "kernels/cuda/special_binary.def"
#undef WEFT_CUDA_BINARY

#define BETAINC(f, type)                                                                         \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                            \
                   (const type *a, const type *b, const type *x, type *y, weft_cuda_walk_t w)) { \
    for (int64_t i = first_index(); i < w.n; i += index_step()) {                                \
      int64_t at[3];                                                                             \
      locate(w, i, at);                                                                          \
      y[i] = (type)weft_betainc(a[at[0]], b[at[1]], x[at[2]]);                                   \
    }                                                                                            \
  }
WEFT_CUDA_F32_F64(BETAINC, betainc)
