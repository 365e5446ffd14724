/* kernels/cpu/map2_floats.tmpl.h - map2.tmpl.h for floating point. */
#define EACH_HALFS
#define EACH_FLOATS
#include "kernels/cpu/map2.tmpl.h"
