/* kernels/cpu/loops/complex_times.h - products of numbers that may be complex.
 *
 * gcc 12 makes one rounding of the products and sums of the parts of a double _Complex, whatever
 * -ffp-contract says, where it vectorises straight-line code (https://gcc.gnu.org/PR107647): a number then
 * has other bits in the middle of a loop than at its end. Its option against that, -fno-tree-slp-vectorize,
 * makes sums of float three times as slow.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_COMPLEX_TIMES_H_
#define WEFT_KERNELS_CPU_LOOPS_COMPLEX_TIMES_H_

#include <complex.h>

static inline double _Complex weft_times_c128(double _Complex a, double _Complex b) {
  const double ar = creal(a), ai = cimag(a), br = creal(b), bi = cimag(b);
  const volatile double second_real = ai * bi, second_imag = ai * br; /* so rounded */
  const double real = ar * br - second_real, imag = ar * bi + second_imag;
  return real != real && imag != imag ? a * b /* with C's rules of infinities */
                                      : __builtin_complex(real, imag);
}

/* a * b, each operation rounded. The operands are evaluated once. */
#define WEFT_TIMES(a, b)                                                          \
  _Generic((a) * (b), double _Complex                                             \
           : weft_times_c128((double _Complex)(a), (double _Complex)(b)), default \
           : (a) * (b))

#endif /* WEFT_KERNELS_CPU_LOOPS_COMPLEX_TIMES_H_ */
