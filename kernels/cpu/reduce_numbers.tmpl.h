/* kernels/cpu/reduce_numbers.tmpl.h - reduce.tmpl.h for real and complex numbers. */
#define EACH_COMPLEX
#include "kernels/cpu/reduce_reals.tmpl.h"
