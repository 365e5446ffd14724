/* kernels/cpu/math/reduce_numbers.tmpl.h - reduce.tmpl.h for real and complex numbers. */
#define EACH_COMPLEX
#include "kernels/cpu/math/reduce_reals.tmpl.h"
