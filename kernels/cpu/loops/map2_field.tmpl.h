/* kernels/cpu/loops/map2_field.tmpl.h - map2.tmpl.h for floating point and complex numbers. */
#define EACH_COMPLEX
#include "kernels/cpu/loops/map2_floats.tmpl.h"
