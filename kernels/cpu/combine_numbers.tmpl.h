/* kernels/cpu/combine_numbers.tmpl.h - combine.tmpl.h for real and complex numbers. */
#define EACH_COMPLEX
#include "kernels/cpu/combine_reals.tmpl.h"
