/* kernels/cpu/loops/map1_numbers.tmpl.h - map1.tmpl.h for real and complex numbers. */
#define EACH_COMPLEX
#include "kernels/cpu/loops/map1_reals.tmpl.h"
