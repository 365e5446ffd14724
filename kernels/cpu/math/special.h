/* kernels/cpu/math/special.h - functions that several families of this room compute with. */
#ifndef WEFT_KERNELS_CPU_MATH_SPECIAL_H_
#define WEFT_KERNELS_CPU_MATH_SPECIAL_H_

double weft_lgamma(double x); /* the logarithm of |gamma(x)|; no global is written */
double weft_digamma(double x);

#endif /* WEFT_KERNELS_CPU_MATH_SPECIAL_H_ */
