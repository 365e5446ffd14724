/* kernels/cuda/complex.cu - complex numbers: complex_unary.def, complex_binary.def, equality, their parts,
 * sums and reductions. Formulas are those of the CPU's kernels (kernels/cpu/math). */
#include "kernels/cuda/complex.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/walk.cuh"

namespace weft {

/* name::of<C>(x), name::of<C>(x, y) */
#define ONE(name, expression) \
  struct name {               \
    template <class C>        \
    WEFT_FN C of(const C x) { \
      return expression;      \
    }                         \
  };
#define TWO(name, expression)            \
  struct name {                          \
    template <class C>                   \
    WEFT_FN C of(const C x, const C y) { \
      return expression;                 \
    }                                    \
  };
#define REAL(v) (C{(decltype(C::re))(v), 0})
#define WIDE(function) narrowed<C>(function(widened(x)))

WEFT_FN c128 real_of(double v) { return c128{v, 0}; }
WEFT_FN c128 expm1_of(c128 z) { return exp_of(z) - real_of(1); }
WEFT_CALLED_FN c128 log1p_of(c128 z) { return log_of(c128{1 + z.re, z.im}); }
WEFT_CALLED_FN c128 rsqrt_of(c128 z) { return quotient(real_of(1), sqrt_of(z)); }
WEFT_CALLED_FN c128 sigmoid_of(c128 z) { return quotient(real_of(1), real_of(1) + exp_of(-z)); }
WEFT_CALLED_FN c128 sign_of(c128 z) {
  const double size = hypot(z.re, z.im);
  return is_zero(z) ? z : c128{z.re / size, z.im / size};
}
WEFT_FN c128 sin_of(c128 z) { return turned_back(sinh_of(turned(z))); }
WEFT_FN c128 cos_of(c128 z) { return cosh_of(turned(z)); }
WEFT_FN c128 tan_of(c128 z) { return turned_back(tanh_of(turned(z))); }
WEFT_CALLED_FN c128 pow_of(c128 x, c128 y) { return exp_of(y * log_of(x)); }

ONE(Conj, conj_of(x))
ONE(Cos, WIDE(cos_of))
ONE(Cosh, WIDE(cosh_of))
ONE(Exp, WIDE(exp_of))
ONE(Expm1, WIDE(expm1_of))
ONE(Log, WIDE(log_of))
ONE(Log1p, WIDE(log1p_of))
ONE(Neg, -x)
ONE(Reciprocal, REAL(1) / x)
ONE(Rsqrt, WIDE(rsqrt_of))
ONE(Sigmoid, WIDE(sigmoid_of))
ONE(Sign, WIDE(sign_of))
ONE(Sin, WIDE(sin_of))
ONE(Sinh, WIDE(sinh_of))
ONE(Sqrt, WIDE(sqrt_of))
ONE(Square, x *x)
ONE(Tan, WIDE(tan_of))
ONE(Tanh, WIDE(tanh_of))

TWO(AddV2, x + y)
TWO(Div, x / y)
TWO(DivNoNan, is_zero(y) ? REAL(0) : x / y)
TWO(Mul, x *y)
TWO(MulNoNan, is_zero(y) ? REAL(0) : x *y)
TWO(Pow, narrowed<C>(pow_of(widened(x), widened(y))))
TWO(SquaredDifference, conj_of(x - y) * (x - y))
TWO(Sub, x - y)
TWO(Xdivy, is_zero(x) ? REAL(0) : x / y)
TWO(Xlog1py, is_zero(x) ? REAL(0) : x *narrowed<C>(log1p_of(widened(y))))
TWO(Xlogy, is_zero(x) ? REAL(0) : x *narrowed<C>(log_of(widened(y))))
/* Gradients; x is the output, y the gradient. The derivative is conjugated in three of them, and by the graph
 * for the others. */
TWO(ReciprocalGrad, is_zero(y) ? REAL(0) : -y *conj_of(x *x))
TWO(RsqrtGrad, is_zero(y) ? REAL(0) : y *conj_of(x *x *x) / REAL(-2))
TWO(SigmoidGrad, y *(x *one_minus(x)))
TWO(SqrtGrad, is_zero(y) ? REAL(0) : y / conj_of(x + x))
TWO(TanhGrad, y *one_minus(x *x))

struct Equal {
  template <class C>
  WEFT_FN bool of(const C x, const C y) {
    return x == y;
  }
};
struct NotEqual {
  template <class C>
  WEFT_FN bool of(const C x, const C y) {
    return !(x == y);
  }
};

template <class F, class C>
WEFT_FN void one(const C *x, C *y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = F::template of<C>(x[i]);
}
template <class F, class A, class C>
WEFT_FN void two(const A *x, const A *y, C *z, const weft_cuda_walk_t &w) {
  for (int64_t i = first_index(); i < w.n; i += index_step()) {
    int64_t at[2] = {i, i};
    if (w.is_flat == 0) locate(w, i, at);
    store(&z[i], F::template of<A>(x[at[0]], y[at[1]]));
  }
}

/* ---- parts ---- */

/* `part`: 0 to 3, the real part, the imaginary one, the angle, the absolute value. */
template <class C, class R>
WEFT_FN void part_of(const C *x, R *y, int part, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const c128 z = widened(x[i]);
    y[i] = (R)(part == 0 ? z.re : part == 1 ? z.im : part == 2 ? atan2(z.im, z.re) : hypot(z.re, z.im));
  }
}
struct joined {
  template <class R>
  WEFT_FN complex<R> of(const R re, const R im) {
    return complex<R>{re, im};
  }
};

/* ---- sums and reductions ---- */

template <class C>
WEFT_FN void add_n(const weft_cuda_list_t &list, C *y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    C sum = ((const C *)list.at[0])[i];
    for (int k = 1; k < list.n; k++) sum = sum + ((const C *)list.at[k])[i];
    y[i] = sum;
  }
}

/* Sums are kept in double, as on the CPU. */
template <class C>
struct Sum {
  typedef c128 acc_t;
  WEFT_FN acc_t start() { return real_of(0); }
  WEFT_FN acc_t value(C v, int64_t) { return widened(v); }
  WEFT_FN acc_t join(acc_t a, acc_t b) { return a + b; }
  WEFT_FN void put(void *y, int64_t i, acc_t a, int64_t, int) { ((C *)y)[i] = narrowed<C>(a); }
};
template <class C>
struct Mean : Sum<C> { /* of nothing it is 0 */
  WEFT_FN void put(void *y, int64_t i, c128 a, int64_t count, int) {
    ((C *)y)[i] = narrowed<C>(quotient(a, real_of(count == 0 ? 1 : (double)count)));
  }
};
template <class C>
struct Prod {
  typedef C acc_t;
  WEFT_FN acc_t start() { return REAL(1); }
  WEFT_FN acc_t value(C v, int64_t) { return v; }
  WEFT_FN acc_t join(acc_t a, acc_t b) { return a * b; }
  WEFT_FN void put(void *y, int64_t i, acc_t a, int64_t, int) { ((C *)y)[i] = a; }
};
template <class C>
struct EuclideanNorm {
  typedef double acc_t;
  WEFT_FN acc_t start() { return 0; }
  WEFT_FN acc_t value(C v, int64_t) {
    const c128 z = widened(v);
    return z.re * z.re + z.im * z.im;
  }
  WEFT_FN acc_t join(acc_t a, acc_t b) { return a + b; }
  WEFT_FN void put(void *y, int64_t i, acc_t a, int64_t, int) { ((C *)y)[i] = narrowed<C>(real_of(sqrt(a))); }
};

}  // namespace weft

using namespace weft;

#define ONE_OF(op, type) \
  WEFT_CUDA_KERNEL(weft_unary_##op##_##type, (const type *x, type *y, int64_t n)) { one<op>(x, y, n); }
#define WEFT_CUDA_COMPLEX_UNARY(op) WEFT_CUDA_COMPLEX(ONE_OF, op)
#include "kernels/cuda/complex_unary.def"
#undef WEFT_CUDA_COMPLEX_UNARY

#define TWO_OF(op, type)                                                                                     \
  WEFT_CUDA_KERNEL(weft_binary_##op##_##type, (const type *x, const type *y, type *z, weft_cuda_walk_t w)) { \
    two<op>(x, y, z, w);                                                                                     \
  }
#define WEFT_CUDA_COMPLEX_BINARY(op, result, shapes) WEFT_CUDA_COMPLEX(TWO_OF, op)
#include "kernels/cuda/complex_binary.def"
#undef WEFT_CUDA_COMPLEX_BINARY
#define TRUTH_OF(op, type)                                                           \
  WEFT_CUDA_KERNEL(weft_binary_##op##_##type,                                        \
                   (const type *x, const type *y, boolean *z, weft_cuda_walk_t w)) { \
    two<op>(x, y, z, w);                                                             \
  }
WEFT_CUDA_COMPLEX(TRUTH_OF, Equal)
WEFT_CUDA_COMPLEX(TRUTH_OF, NotEqual)

#define JOIN(type, result)                                                          \
  WEFT_CUDA_KERNEL(weft_complex_join_##type,                                        \
                   (const type *x, const type *y, result *z, weft_cuda_walk_t w)) { \
    two<joined>(x, y, z, w);                                                        \
  }
JOIN(f32, c64)
JOIN(f64, c128)
#define PART(type, result)                                                \
  WEFT_CUDA_KERNEL(weft_complex_part_##type##_##result,                   \
                   (const type *x, result *y, int32_t part, int64_t n)) { \
    part_of(x, y, part, n);                                               \
  }
PART(c64, f32)
PART(c64, f64)
PART(c128, f32)
PART(c128, f64)

/* Every element is 1. */
#define ONES(f, type)                                                            \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (type * y, int64_t n)) {                   \
    for (int64_t i = first_index(); i < n; i += index_step()) y[i] = type{1, 0}; \
  }
WEFT_CUDA_COMPLEX(ONES, ones)
#define ADD_N(f, type) \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (weft_cuda_list_t list, type * y, int64_t n)) { add_n(list, y, n); }
WEFT_CUDA_COMPLEX(ADD_N, add_n)
WEFT_CUDA_COMPLEX(WEFT_REDUCE_KERNEL, EuclideanNorm)
WEFT_CUDA_COMPLEX(WEFT_REDUCE_KERNEL, Mean)
WEFT_CUDA_COMPLEX(WEFT_REDUCE_KERNEL, Prod)
WEFT_CUDA_COMPLEX(WEFT_REDUCE_KERNEL, Sum)
