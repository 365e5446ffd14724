/* kernels/cpu/loops/map1_signed.tmpl.h - map1.tmpl.h for floating point and integers with a sign. */
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#include "kernels/cpu/loops/map1.tmpl.h"
