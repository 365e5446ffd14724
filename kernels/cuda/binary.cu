/* kernels/cuda/binary.cu - functions of two operands: binary.def. The formulas are those of the CPU's kernels
 * (kernels/cpu/math/binary.c, compare.c, kernels/cpu/nn/activation.c).
 *
 * A division of integers by 0, which the CPU's kernels refuse, gives 0 here: a kernel of the device cannot
 * refuse its arguments.
 */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/walk.cuh"

namespace weft {

/* name::of<T>(x, y): both and the result are what T computes in, C. */
#define WEFT_FUNCTION(name, expression)                     \
  struct name {                                             \
    template <class T>                                      \
    WEFT_FN auto of(const comp_t<T> x, const comp_t<T> y) { \
      typedef comp_t<T> C;                                  \
      return (C)(expression);                               \
    }                                                       \
  };
#define WEFT_TRUTH(name, expression)                        \
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

WEFT_FUNCTION(AddV2, wrap_add(x, y))
WEFT_FUNCTION(Atan2, atan2(x, y))
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
WEFT_FUNCTION(DivNoNan, y == 0 ? (C)0 : x / y)
WEFT_TRUTH(Equal, x == y)
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
WEFT_TRUTH(Greater, x > y)
WEFT_TRUTH(GreaterEqual, x >= y)
WEFT_TRUTH(Less, x < y)
WEFT_TRUTH(LessEqual, x <= y)
WEFT_TRUTH(LogicalAnd, x &&y)
WEFT_TRUTH(LogicalOr, x || y)
/* A NaN on either side wins. */
WEFT_FUNCTION(Maximum, x < y || y != y ? y : x)
WEFT_FUNCTION(Minimum, x > y || y != y ? y : x)
WEFT_FUNCTION(Mul, wrap_mul(x, y))
WEFT_FUNCTION(MulNoNan, y == 0 ? (C)0 : x * y)
WEFT_TRUTH(NotEqual, x != y)
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
WEFT_FUNCTION(Sub, wrap_sub(x, y))
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
WEFT_FUNCTION(Xdivy, x == 0 ? (C)0 : x / y)
WEFT_FUNCTION(Xlogy, x == 0 ? (C)0 : x * log(y))
WEFT_FUNCTION(Xlog1py, x == 0 ? (C)0 : x * log1p(y))

/* Gradients. Of activations: x is the gradient, y the feature, or the output where the op's argument is
 * called so. Products, so that a gradient that is no number stays none. */
#define SELU_SCALE 1.0507009873554805
#define SELU_SCALE_ALPHA 1.7580993408473768 /* scale times alpha, 1.6732632423543772 */
WEFT_FUNCTION(EluGrad, y < 0 ? x * (y + 1) : x)
WEFT_FUNCTION(Relu6Grad, x *(C)(y > 0 && y < 6))
WEFT_FUNCTION(ReluGrad, x *(C)(y > 0))
WEFT_FUNCTION(SeluGrad, y < 0 ? x * (y + (C)SELU_SCALE_ALPHA) : x * (C)SELU_SCALE)
WEFT_FUNCTION(SoftplusGrad, x / (exp(-y) + 1))
WEFT_FUNCTION(SoftsignGrad, x / ((1 + fabs(y)) * (1 + fabs(y))))
/* Of the others: x is the output, y the gradient; no gradient comes back where none arrives, however steep
 * the function is there. */
WEFT_FUNCTION(ReciprocalGrad, y == 0 ? (C)0 : -y * x * x)
WEFT_FUNCTION(RsqrtGrad, y == 0 ? (C)0 : y * x * x * x / -2)
WEFT_FUNCTION(SigmoidGrad, y *(x *(1 - x)))
WEFT_FUNCTION(SqrtGrad, y == 0 ? (C)0 : y / (x + x))
WEFT_FUNCTION(TanhGrad, y *(1 - x * x))

/* Results may overwrite an operand that is read at the same index: each is written after what it is made of
 * has been read. */
template <class F, class T, class U>
WEFT_FN void binary(const T *x, const T *y, U *z, const weft_cuda_walk_t &w) {
  const int N = 16 / sizeof(T);
  if (w.is_flat && is_aligned(x) && is_aligned(y) && is_aligned(z)) {
    const int64_t packs = w.n / N;
    for (int64_t i = first_index(); i < packs; i += index_step()) {
      const pack<T, N> a = ((const pack<T, N> *)x)[i], b = ((const pack<T, N> *)y)[i];
      pack<U, N> r;
      WEFT_UNROLL
      for (int k = 0; k < N; k++) store(&r.at[k], F::template of<T>(load(a.at[k]), load(b.at[k])));
      ((pack<U, N> *)z)[i] = r;
    }
    for (int64_t i = packs * N + first_index(); i < w.n; i += index_step())
      store(&z[i], F::template of<T>(load(x[i]), load(y[i])));
    return;
  }
  for (int64_t i = first_index(); i < w.n; i += index_step()) {
    int64_t at[2];
    locate(w, i, at);
    store(&z[i], F::template of<T>(load(x[at[0]]), load(y[at[1]])));
  }
}

}  // namespace weft

using namespace weft;

#define RESULT_SAME(type) type
#define RESULT_TRUTH(type) boolean
#define INSTANCE(op, type, result)                                                                  \
  WEFT_CUDA_KERNEL(weft_binary_##op##_##type,                                                       \
                   (const type *x, const type *y, RESULT_##result(type) * z, weft_cuda_walk_t w)) { \
    binary<op>(x, y, z, w);                                                                         \
  }
#define INSTANCE_SAME(op, type) INSTANCE(op, type, SAME)
#define INSTANCE_TRUTH(op, type) INSTANCE(op, type, TRUTH)
#define WEFT_CUDA_BINARY(op, set, result, shapes) WEFT_CUDA_##set(INSTANCE_##result, op)
#include "kernels/cuda/binary.def"
#undef WEFT_CUDA_BINARY
