/* kernels/cpu/loops/map2_floats.tmpl.h - map2.tmpl.h for floating point. */
#define EACH_HALFS
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"
