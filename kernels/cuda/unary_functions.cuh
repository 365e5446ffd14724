/* kernels/cuda/unary_functions.cuh - the functions of unary.def. The formulas are those of the CPU's kernels
 * (kernels/cpu/math/unary.c, kernels/cpu/nn/activation.c). */
#ifndef WEFT_KERNELS_CUDA_UNARY_FUNCTIONS_CUH_
#define WEFT_KERNELS_CUDA_UNARY_FUNCTIONS_CUH_

#include "kernels/cuda/numbers.cuh"

namespace weft {

/* name::of<T>(x): x and the result are what T computes in, C. */
#define WEFT_UNARY(name, expression)  \
  struct name {                          \
    template <class T>                   \
    WEFT_FN auto of(const comp_t<T> x) { \
      typedef comp_t<T> C;               \
      return (C)(expression);            \
    }                                    \
  };
#define WEFT_UNARY_TRUTH(name, expression)     \
  struct name {                          \
    template <class T>                   \
    WEFT_FN bool of(const comp_t<T> x) { \
      return expression;                 \
    }                                    \
  };

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
WEFT_UNARY(Acos, acos(x))
WEFT_UNARY(Acosh, acosh(x))
WEFT_UNARY(Asin, asin(x))
WEFT_UNARY(Asinh, asinh(x))
WEFT_UNARY(Atan, atan(x))
WEFT_UNARY(Atanh, atanh(x))
WEFT_UNARY(Ceil, ceil(x))
WEFT_UNARY(Cos, cos(x))
WEFT_UNARY(Cosh, cosh(x))
WEFT_UNARY(Elu, x < 0 ? expm1(x) : x)
WEFT_UNARY(Erf, erf(x))
WEFT_UNARY(Erfc, erfc(x))
WEFT_UNARY(Exp, exp(x))
WEFT_UNARY(Expm1, expm1(x))
WEFT_UNARY(Floor, floor(x))
WEFT_UNARY_TRUTH(IsFinite, x - x == 0)
WEFT_UNARY_TRUTH(IsInf, x == x && x - x != 0)
WEFT_UNARY_TRUTH(IsNan, x != x)
WEFT_UNARY(Log, log(x))
WEFT_UNARY(Log1p, log1p(x))
WEFT_UNARY_TRUTH(LogicalNot, !x)
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
WEFT_UNARY(Relu, is_negative(x) ? (C)0 : x)
WEFT_UNARY(Relu6, is_negative(x) ? (C)0 : x > (C)6 ? (C)6 : x)
WEFT_UNARY(Rint, rint(x))
WEFT_UNARY(Rsqrt, rsqrt(x))
WEFT_UNARY(Selu, x < 0 ? (C)selu_scale_alpha * expm1(x) : (C)selu_scale * x)
struct Sigmoid { /* one exponential that never overflows */
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x) {
    const comp_t<T> e = exp(-fabs(x)), r = 1 / (1 + e);
    return x < 0 ? e * r : r;
  }
};
WEFT_UNARY(Sign, x > 0 ? (C)1 : is_negative(x) ? (C)-1 : x)
WEFT_UNARY(Sin, sin(x))
WEFT_UNARY(Sinh, sinh(x))
WEFT_UNARY(Softplus, x != x ? x : (x > 0 ? x : (C)0) + log1p(exp(-fabs(x))))
WEFT_UNARY(Softsign, x / (1 + fabs(x)))
WEFT_UNARY(Sqrt, sqrt(x))
WEFT_UNARY(Square, wrap_mul(x, x))
WEFT_UNARY(Tan, tan(x))
WEFT_UNARY(Tanh, tanh(x))

#undef WEFT_UNARY
#undef WEFT_UNARY_TRUTH

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_UNARY_FUNCTIONS_CUH_ */
