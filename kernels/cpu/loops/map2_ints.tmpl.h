/* kernels/cpu/loops/map2_ints.tmpl.h - map2.tmpl.h for integers. */
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/loops/map2.tmpl.h"
