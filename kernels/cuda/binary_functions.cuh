/* kernels/cuda/binary_functions.cuh - the functions of binary.def. The formulas are those of the CPU's kernels
 * (kernels/cpu/math/binary.c, compare.c, kernels/cpu/nn/activation.c).
 *
 * A division of integers by 0, which the CPU's kernels refuse, gives 0 here: a kernel of the device cannot
 * refuse its arguments.
 */
#ifndef WEFT_KERNELS_CUDA_BINARY_FUNCTIONS_CUH_
#define WEFT_KERNELS_CUDA_BINARY_FUNCTIONS_CUH_

#include "kernels/cuda/numbers.cuh"

namespace weft {

/* name::of<T>(x, y): both and the result are what T computes in, C. */
#define WEFT_BINARY(name, expression)                     \
  struct name {                                             \
    template <class T>                                      \
    WEFT_FN auto of(const comp_t<T> x, const comp_t<T> y) { \
      typedef comp_t<T> C;                                  \
      return (C)(expression);                               \
    }                                                       \
  };
#define WEFT_BINARY_TRUTH(name, expression)                        \
  struct name {                                             \
    template <class T>                                      \
    WEFT_FN bool of(const comp_t<T> x, const comp_t<T> y) { \
      return expression;                                    \
    }                                                       \
  };

template <class C>
WEFT_FN bool is_minus_one(C v) {
  return is_signed<C>::value && v == (C)-1;
}
template <class C>
WEFT_FN C int_div(C x, C y) { /* MIN / -1 is MIN */
  return y == 0 ? 0 : is_minus_one(y) ? wrap_sub((C)0, x) : (C)(x / y);
}
template <class C>
WEFT_FN C int_mod(C x, C y) {
  return y == 0 || is_minus_one(y) ? 0 : (C)(x % y);
}

WEFT_BINARY(AddV2, wrap_add(x, y))
WEFT_BINARY(Atan2, atan2(x, y))
struct Div {
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x, const comp_t<T> y) {
    if constexpr (number<T>::is_float) {
      return x / y;
    } else {
      return int_div(x, y);
    }
  }
};
typedef Div TruncateDiv;
WEFT_BINARY(DivNoNan, y == 0 ? (C)0 : x / y)
WEFT_BINARY_TRUTH(Equal, x == y)
struct FloorDiv { /* a float's quotient is rounded to the element type first, as by a machine of that type */
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x, const comp_t<T> y) {
    typedef comp_t<T> C;
    if constexpr (number<T>::is_float) {
      return floor(rounded<T>(x / y));
    } else {
      const bool down = int_mod(x, y) != 0 && is_negative(x) != is_negative(y);
      return down ? wrap_sub(int_div(x, y), (C)1) : int_div(x, y);
    }
  }
};
struct FloorMod {
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x, const comp_t<T> y) {
    typedef comp_t<T> C;
    if constexpr (number<T>::is_float) {
      const C m = fmod(x, y);
      return m != 0 && (m < 0) != (y < 0) ? m + y : m;
    } else {
      const C m = int_mod(x, y);
      return m != 0 && is_negative(x) != is_negative(y) ? wrap_add(m, y) : m;
    }
  }
};
WEFT_BINARY_TRUTH(Greater, x > y)
WEFT_BINARY_TRUTH(GreaterEqual, x >= y)
WEFT_BINARY_TRUTH(Less, x < y)
WEFT_BINARY_TRUTH(LessEqual, x <= y)
WEFT_BINARY_TRUTH(LogicalAnd, x &&y)
WEFT_BINARY_TRUTH(LogicalOr, x || y)
/* A NaN on either side wins. */
WEFT_BINARY(Maximum, x < y || y != y ? y : x)
WEFT_BINARY(Minimum, x > y || y != y ? y : x)
WEFT_BINARY(Mul, wrap_mul(x, y))
WEFT_BINARY(MulNoNan, y == 0 ? (C)0 : x * y)
WEFT_BINARY_TRUTH(NotEqual, x != y)
struct Pow { /* of integers: a negative power of anything but 1 and -1 is cut to 0 */
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x, const comp_t<T> y) {
    if constexpr (number<T>::is_float) {
      return pow(x, y);
    } else {
      if (y < 0) return x == 1 ? 1 : x == -1 ? ((y & 1) != 0 ? -1 : 1) : 0;
      uint64_t base = (uint64_t)x, result = 1;
      for (uint64_t exponent = (uint64_t)y; exponent != 0; exponent >>= 1, base *= base) {
        if ((exponent & 1) != 0) result *= base;
      }
      return (comp_t<T>)result;
    }
  }
};
struct SquaredDifference {
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x, const comp_t<T> y) {
    const comp_t<T> d = wrap_sub(x, y);
    return wrap_mul(d, d);
  }
};
WEFT_BINARY(Sub, wrap_sub(x, y))
struct TruncateMod {
  template <class T>
  WEFT_FN comp_t<T> of(const comp_t<T> x, const comp_t<T> y) {
    if constexpr (number<T>::is_float) {
      return fmod(x, y);
    } else {
      return int_mod(x, y);
    }
  }
};
WEFT_BINARY(Xdivy, x == 0 ? (C)0 : x / y)
WEFT_BINARY(Xlogy, x == 0 ? (C)0 : x * log(y))
WEFT_BINARY(Xlog1py, x == 0 ? (C)0 : x * log1p(y))

/* Gradients. Of activations: x is the gradient, y the feature, or the output where the op's argument is
 * called so. Products, so that a gradient that is no number stays none. */
WEFT_BINARY(EluGrad, y < 0 ? x * (y + 1) : x)
WEFT_BINARY(Relu6Grad, x *(C)(y > 0 && y < 6))
WEFT_BINARY(ReluGrad, x *(C)(y > 0))
WEFT_BINARY(SeluGrad, y < 0 ? x * (y + (C)selu_scale_alpha) : x * (C)selu_scale)
WEFT_BINARY(SoftplusGrad, x / (exp(-y) + 1))
WEFT_BINARY(SoftsignGrad, x / ((1 + fabs(y)) * (1 + fabs(y))))
/* Of the others: x is the output, y the gradient; no gradient comes back where none arrives, however steep
 * the function is there. */
WEFT_BINARY(ReciprocalGrad, y == 0 ? (C)0 : -y * x * x)
WEFT_BINARY(RsqrtGrad, y == 0 ? (C)0 : y * x * x * x / -2)
WEFT_BINARY(SigmoidGrad, y *(x *(1 - x)))
WEFT_BINARY(SqrtGrad, y == 0 ? (C)0 : y / (x + x))
WEFT_BINARY(TanhGrad, y *(1 - x * x))

#undef WEFT_BINARY
#undef WEFT_BINARY_TRUTH

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_BINARY_FUNCTIONS_CUH_ */
