/* kernels/cpu/loops/map1_floats.tmpl.h - map1.tmpl.h for floating point. */
#define EACH_HALFS
#define EACH_FLOATS
#include "kernels/cpu/loops/map1.tmpl.h"
