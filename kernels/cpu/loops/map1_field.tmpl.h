/* kernels/cpu/loops/map1_field.tmpl.h - map1.tmpl.h for floating point and complex numbers. */
#define EACH_COMPLEX
#include "kernels/cpu/loops/map1_floats.tmpl.h"
