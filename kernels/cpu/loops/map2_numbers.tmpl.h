/* kernels/cpu/loops/map2_numbers.tmpl.h - map2.tmpl.h for real and complex numbers. */
#define EACH_COMPLEX
#include "kernels/cpu/loops/map2_reals.tmpl.h"
