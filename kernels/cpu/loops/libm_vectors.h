/* kernels/cpu/loops/libm_vectors.h - tells the compiler which functions of the C library have vector
 * variants, so that a loop that calls them is vectorised.
 *
 * glibc's libmvec has them for x86-64: of 4 floats or 2 doubles with SSE4, twice as many with AVX2, four
 * times with AVX-512. Their error is below 4 ulp (glibc manual, "Errors in Math Functions"; what is measured
 * here is in tests/kernels/vector_math_test.c), and NaN, infinities, signed zeros and subnormals are those of
 * the scalar functions. A vector variant and the scalar function may differ in the last bit: where a result
 * must not depend on an element's place, the loop takes whole blocks of WEFT_LIBM_BLOCK elements
 * (map1.tmpl.h).
 *
 * Elsewhere (other libraries, other processors, clang) the functions are scalar.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_LIBM_VECTORS_H_
#define WEFT_KERNELS_CPU_LOOPS_LIBM_VECTORS_H_

#include <math.h>

/* Elements in a block: a multiple of what any variant takes. */
enum { WEFT_LIBM_BLOCK = 16 };

/* A loop over whole blocks, of which the compiler makes one copy. */
#ifdef __clang__
#define WEFT_LIBM_LOOP static __attribute__((noinline))
#else
#define WEFT_LIBM_LOOP static __attribute__((noinline, noclone))
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#define WEFT_LIBM_VECTORS 1
#endif
#endif

#ifdef WEFT_LIBM_VECTORS
/* In parentheses, since <tgmath.h> may have made macros of the names. */
#define WEFT_VECTOR1(fn)                                              \
  extern double(fn)(double) __attribute__((__simd__("notinbranch"))); \
  extern float(fn##f)(float) __attribute__((__simd__("notinbranch")));
#define WEFT_VECTOR2(fn)                                                      \
  extern double(fn)(double, double) __attribute__((__simd__("notinbranch"))); \
  extern float(fn##f)(float, float) __attribute__((__simd__("notinbranch")));
WEFT_VECTOR1(acos)
WEFT_VECTOR1(acosh)
WEFT_VECTOR1(asin)
WEFT_VECTOR1(asinh)
WEFT_VECTOR1(atan)
WEFT_VECTOR1(atanh)
WEFT_VECTOR1(cos)
WEFT_VECTOR1(cosh)
WEFT_VECTOR1(erf)
WEFT_VECTOR1(erfc)
WEFT_VECTOR1(exp)
WEFT_VECTOR1(expm1)
WEFT_VECTOR1(log)
WEFT_VECTOR1(log1p)
WEFT_VECTOR1(sin)
WEFT_VECTOR1(sinh)
WEFT_VECTOR1(tan)
WEFT_VECTOR1(tanh)
WEFT_VECTOR2(atan2)
WEFT_VECTOR2(pow)
#undef WEFT_VECTOR1
#undef WEFT_VECTOR2
#endif

#endif /* WEFT_KERNELS_CPU_LOOPS_LIBM_VECTORS_H_ */
