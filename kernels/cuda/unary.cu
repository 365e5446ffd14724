/* kernels/cuda/unary.cu - functions of one operand: unary.def. The formulas are those of the CPU's kernels
 * (kernels/cpu/math/unary.c, kernels/cpu/nn/activation.c). */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* name::of<T>(x): x and the result are what T computes in, C. */
#define WEFT_FUNCTION(name, expression)  \
  struct name {                          \
    template <class T>                   \
    WEFT_FN auto of(const comp_t<T> x) { \
      typedef comp_t<T> C;               \
      return (C)(expression);            \
    }                                    \
  };
#define WEFT_TRUTH(name, expression)     \
  struct name {                          \
    template <class T>                   \
    WEFT_FN bool of(const comp_t<T> x) { \
      return expression;                 \
    }                                    \
  };

#define SELU_SCALE 1.0507009873554805
#define SELU_SCALE_ALPHA 1.7580993408473768 /* scale times alpha, 1.6732632423543772 */

struct Abs { /* of integers it wraps: the absolute value of the lowest number is that number */
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x) {
    if constexpr (number<T>::is_float) {
      return fabs(x);
    } else {
      return is_negative(x) ? wrap_sub((comp_t<T>)0, x) : x;
    }
  }
};
WEFT_FUNCTION(Acos, acos(x))
WEFT_FUNCTION(Acosh, acosh(x))
WEFT_FUNCTION(Asin, asin(x))
WEFT_FUNCTION(Asinh, asinh(x))
WEFT_FUNCTION(Atan, atan(x))
WEFT_FUNCTION(Atanh, atanh(x))
WEFT_FUNCTION(Ceil, ceil(x))
WEFT_FUNCTION(Cos, cos(x))
WEFT_FUNCTION(Cosh, cosh(x))
WEFT_FUNCTION(Elu, x < 0 ? expm1(x) : x)
WEFT_FUNCTION(Erf, erf(x))
WEFT_FUNCTION(Erfc, erfc(x))
WEFT_FUNCTION(Exp, exp(x))
WEFT_FUNCTION(Expm1, expm1(x))
WEFT_FUNCTION(Floor, floor(x))
WEFT_TRUTH(IsFinite, x - x == 0)
WEFT_TRUTH(IsInf, x == x && x - x != 0)
WEFT_TRUTH(IsNan, x != x)
WEFT_FUNCTION(Log, log(x))
WEFT_FUNCTION(Log1p, log1p(x))
WEFT_TRUTH(LogicalNot, !x)
struct Neg {
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x) {
    if constexpr (number<T>::is_float) {
      return -x;
    } else {
      return wrap_sub((comp_t<T>)0, x);
    }
  }
};
struct Reciprocal { /* an integer has no infinity: 1/0 is 0 */
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x) {
    if constexpr (number<T>::is_float) {
      return 1 / x;
    } else {
      return x == 0 ? 0 : 1 / x;
    }
  }
};
/* NaN goes through: the comparison is false and x itself is taken. */
WEFT_FUNCTION(Relu, is_negative(x) ? (C)0 : x)
WEFT_FUNCTION(Relu6, is_negative(x) ? (C)0 : x > (C)6 ? (C)6 : x)
WEFT_FUNCTION(Rint, rint(x))
WEFT_FUNCTION(Rsqrt, rsqrt(x))
WEFT_FUNCTION(Selu, x < 0 ? (C)SELU_SCALE_ALPHA * expm1(x) : (C)SELU_SCALE * x)
struct Sigmoid { /* one exponential that never overflows */
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x) {
    const comp_t<T> e = exp(-fabs(x)), r = 1 / (1 + e);
    return x < 0 ? e * r : r;
  }
};
WEFT_FUNCTION(Sign, x > 0 ? (C)1 : is_negative(x) ? (C)-1 : x)
WEFT_FUNCTION(Sin, sin(x))
WEFT_FUNCTION(Sinh, sinh(x))
WEFT_FUNCTION(Softplus, x != x ? x : (x > 0 ? x : (C)0) + log1p(exp(-fabs(x))))
WEFT_FUNCTION(Softsign, x / (1 + fabs(x)))
WEFT_FUNCTION(Sqrt, sqrt(x))
WEFT_FUNCTION(Square, wrap_mul(x, x))
WEFT_FUNCTION(Tan, tan(x))
WEFT_FUNCTION(Tanh, tanh(x))

/* Results may overwrite the operand: each is written after what it is made of has been read. */
template <class F, class T, class U>
WEFT_FN void unary(const T *x, U *y, int64_t n) {
  const int N = 16 / sizeof(T);
  int64_t begin = 0;
  if (is_aligned(x) && is_aligned(y)) {
    const int64_t packs = n / N;
    for (int64_t i = first_index(); i < packs; i += index_step()) {
      const pack<T, N> a = ((const pack<T, N> *)x)[i];
      pack<U, N> b;
      WEFT_UNROLL
      for (int k = 0; k < N; k++) store(&b.at[k], F::template of<T>(load(a.at[k])));
      ((pack<U, N> *)y)[i] = b;
    }
    begin = packs * N;
  }
  for (int64_t i = begin + first_index(); i < n; i += index_step())
    store(&y[i], F::template of<T>(load(x[i])));
}

}  // namespace weft

using namespace weft;

#define RESULT_SAME(type) type
#define RESULT_TRUTH(type) boolean
#define INSTANCE(op, type, result)                                                                    \
  WEFT_CUDA_KERNEL(weft_unary_##op##_##type, (const type *x, RESULT_##result(type) * y, int64_t n)) { \
    unary<op>(x, y, n);                                                                               \
  }
#define INSTANCE_SAME(op, type) INSTANCE(op, type, SAME)
#define INSTANCE_TRUTH(op, type) INSTANCE(op, type, TRUTH)
#define WEFT_CUDA_UNARY(op, set, result) WEFT_CUDA_##set(INSTANCE_##result, op)
#include "kernels/cuda/unary.def"
#undef WEFT_CUDA_UNARY

/* ---- LeakyRelu and its gradient: values, scaled by alpha where the features are not above 0 ---- */

template <class T>
WEFT_FN void leaky(const T *value, const T *x, T *y, float alpha, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const comp_t<T> v = load(value[i]);
    store(&y[i], load(x[i]) > 0 ? v : v * (comp_t<T>)alpha);
  }
}
#define LEAKY(f, type)                                                                                       \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *value, const type *x, type *y, float alpha, int64_t n)) { \
    leaky(value, x, y, alpha, n);                                                                            \
  }
WEFT_CUDA_FLOAT(LEAKY, leaky)
