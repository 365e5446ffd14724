/* kernels/cpu/loops/map1_ints.tmpl.h - map1.tmpl.h for integers. */
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/loops/map1.tmpl.h"
