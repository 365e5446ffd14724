/* kernels/cpu/map2_numbers.tmpl.h - map2.tmpl.h for real and complex numbers. */
#define EACH_COMPLEX
#include "kernels/cpu/map2_reals.tmpl.h"
