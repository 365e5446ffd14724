/* kernels/cpu/math/unary.c - functions of one operand that the C library or one expression gives. */
#include <complex.h>
#include <math.h>
#include <tgmath.h>

#include "kernels/cpu/loops/libm_vectors.h"
#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/loops/vector_math.h"

/* Integers wrap: the absolute value of the lowest number is that number. */
#define MAP_STEM neg
#define MAP_EXPR(x) (-(x))
#define MAP_INT_EXPR(x) (0 - (x))
#define MAP_HALF_BITS(x) ((x) ^ 0x8000)
#define MAP_WRAPS
#define EACH_COMPLEX
#include "kernels/cpu/loops/map1_signed.tmpl.h"
#define MAP_STEM square
#define MAP_EXPR(x) ((x) * (x))
#define MAP_WRAPS
#include "kernels/cpu/loops/map1_numbers.tmpl.h"
#define MAP_STEM abs
#define MAP_EXPR(x) fabs(x)
#define MAP_INT_EXPR(x) ((x) < 0 ? 0 - (WRAP)(x) : (WRAP)(x))
#define MAP_HALF_BITS(x) ((x)&0x7fff)
#include "kernels/cpu/loops/map1_signed.tmpl.h"
#define MAP_STEM sign
#define MAP_EXPR(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : (x))
#define MAP_INT_EXPR(x) (((x) > 0) - ((x) < 0))
#define MAP_COMPLEX_EXPR(x) ((x) == 0 ? 0 : (x) / fabs(x))
#define EACH_COMPLEX
#include "kernels/cpu/loops/map1_signed.tmpl.h"
/* An integer has no infinity; 1/0 gives 0 here, where TensorFlow would trap. */
#define MAP_STEM reciprocal
#define MAP_EXPR(x) (1 / (x))
#define MAP_INT_EXPR(x) ((x) == 0 ? 0 : 1 / (x))
#define EACH_COMPLEX
#include "kernels/cpu/loops/map1_signed.tmpl.h"
#define MAP_STEM floor
#define MAP_EXPR(x) floor(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM ceil
#define MAP_EXPR(x) ceil(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM rint
#define MAP_EXPR(x) rint(x)
#define MAP_INT_EXPR(x) (x)
#include "kernels/cpu/loops/map1_signed.tmpl.h"
#define MAP_STEM is_nan
#define MAP_EXPR(x) ((x) != (x))
#define MAP_BOOL
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM is_inf
#define MAP_EXPR(x) (isinf(x) != 0)
#define MAP_BOOL
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM is_finite
#define MAP_EXPR(x) (isfinite(x) != 0)
#define MAP_BOOL
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM logical_not
#define MAP_EXPR(x) ((x) == 0)
#define EACH_BOOL
#include "kernels/cpu/loops/map1.tmpl.h"
#define MAP_STEM conj
#define MAP_EXPR(x) conj(x)
#define EACH_COMPLEX
#include "kernels/cpu/loops/map1.tmpl.h"

/* Real and complex alike: the type-generic macros choose. */
#define MAP_STEM sqrt
#define MAP_EXPR(x) sqrt(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM rsqrt
#define MAP_EXPR(x) (1 / sqrt(x))
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM exp
#define MAP_LIBM
#define MAP_EXPR(x) WEFT_CAT(weft_exp, SUFFIX)(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM log
#define MAP_LIBM
#define MAP_EXPR(x) WEFT_CAT(weft_log, SUFFIX)(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM sin
#define MAP_LIBM
#define MAP_EXPR(x) sin(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM cos
#define MAP_LIBM
#define MAP_EXPR(x) cos(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM tan
#define MAP_LIBM
#define MAP_EXPR(x) tan(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM asin
#define MAP_LIBM
#define MAP_EXPR(x) asin(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM acos
#define MAP_LIBM
#define MAP_EXPR(x) acos(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM atan
#define MAP_LIBM
#define MAP_EXPR(x) atan(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM sinh
#define MAP_LIBM
#define MAP_EXPR(x) sinh(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM cosh
#define MAP_LIBM
#define MAP_EXPR(x) cosh(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM tanh
#define MAP_LIBM
#define MAP_EXPR(x) WEFT_CAT(weft_tanh, SUFFIX)(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM asinh
#define MAP_LIBM
#define MAP_EXPR(x) asinh(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM acosh
#define MAP_LIBM
#define MAP_EXPR(x) acosh(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM atanh
#define MAP_LIBM
#define MAP_EXPR(x) atanh(x)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM expm1
#define MAP_LIBM
#define MAP_EXPR(x) expm1(x)
#define MAP_COMPLEX_EXPR(x) (exp(x) - 1)
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM log1p
#define MAP_LIBM
#define MAP_EXPR(x) log1p(x)
#define MAP_COMPLEX_EXPR(x) log(1 + (x))
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM sigmoid
#define MAP_LIBM
#define MAP_EXPR(x) WEFT_CAT(weft_sigmoid, SUFFIX)(x)
#define MAP_COMPLEX_EXPR(x) (1 / (1 + exp(-(x))))
#include "kernels/cpu/loops/map1_field.tmpl.h"
#define MAP_STEM erf
#define MAP_LIBM
#define MAP_EXPR(x) WEFT_CAT(weft_erf, SUFFIX)(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM erfc
#define MAP_LIBM
#define MAP_EXPR(x) erfc(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"

const weft_kernel_t weft_cpu_unary_kernels[] = {
    WEFT_MAP1("Abs", WEFT_SET_FLOATS | WEFT_SET_SIGNED, abs, 0),
    WEFT_MAP1("Acos", WEFT_SET_FIELD, acos, WEFT_MAP_COSTLY),
    WEFT_MAP1("Acosh", WEFT_SET_FIELD, acosh, WEFT_MAP_COSTLY),
    WEFT_MAP1("Asin", WEFT_SET_FIELD, asin, WEFT_MAP_COSTLY),
    WEFT_MAP1("Asinh", WEFT_SET_FIELD, asinh, WEFT_MAP_COSTLY),
    WEFT_MAP1("Atan", WEFT_SET_FIELD, atan, WEFT_MAP_COSTLY),
    WEFT_MAP1("Atanh", WEFT_SET_FIELD, atanh, WEFT_MAP_COSTLY),
    WEFT_MAP1("Ceil", WEFT_SET_FLOATS, ceil, 0),
    WEFT_MAP1("Conj", WEFT_SET_COMPLEX, conj, 0),
    WEFT_MAP1("Cos", WEFT_SET_FIELD, cos, WEFT_MAP_COSTLY),
    WEFT_MAP1("Cosh", WEFT_SET_FIELD, cosh, WEFT_MAP_COSTLY),
    WEFT_MAP1("Erf", WEFT_SET_FLOATS, erf, WEFT_MAP_COSTLY),
    WEFT_MAP1("Erfc", WEFT_SET_FLOATS, erfc, WEFT_MAP_COSTLY),
    WEFT_MAP1("Exp", WEFT_SET_FIELD, exp, WEFT_MAP_COSTLY),
    WEFT_MAP1("Expm1", WEFT_SET_FIELD, expm1, WEFT_MAP_COSTLY),
    WEFT_MAP1("Floor", WEFT_SET_FLOATS, floor, 0),
    WEFT_MAP1("Inv", WEFT_SET_FIELD | WEFT_SET_SIGNED, reciprocal, 0),
    WEFT_MAP1("IsFinite", WEFT_SET_FLOATS, is_finite, 0),
    WEFT_MAP1("IsInf", WEFT_SET_FLOATS, is_inf, 0),
    WEFT_MAP1("IsNan", WEFT_SET_FLOATS, is_nan, 0),
    WEFT_MAP1("Log", WEFT_SET_FIELD, log, WEFT_MAP_COSTLY),
    WEFT_MAP1("Log1p", WEFT_SET_FIELD, log1p, WEFT_MAP_COSTLY),
    {.op = "LogicalNot", .compute = weft_map1_compute, .param = &(const weft_map1_t){logical_not_fns, 0}},
    WEFT_MAP1("Neg", WEFT_SET_FIELD | WEFT_SET_SIGNED, neg, 0),
    WEFT_MAP1("Reciprocal", WEFT_SET_FIELD | WEFT_SET_SIGNED, reciprocal, 0),
    WEFT_MAP1("Rint", WEFT_SET_FLOATS, rint, 0),
    WEFT_MAP1("Round", WEFT_SET_FLOATS | WEFT_SET_SIGNED, rint, 0),
    WEFT_MAP1("Rsqrt", WEFT_SET_FIELD, rsqrt, 0),
    WEFT_MAP1("Sigmoid", WEFT_SET_FIELD, sigmoid, WEFT_MAP_COSTLY),
    WEFT_MAP1("Sign", WEFT_SET_FIELD | WEFT_SET_SIGNED, sign, 0),
    WEFT_MAP1("Sin", WEFT_SET_FIELD, sin, WEFT_MAP_COSTLY),
    WEFT_MAP1("Sinh", WEFT_SET_FIELD, sinh, WEFT_MAP_COSTLY),
    WEFT_MAP1("Sqrt", WEFT_SET_FIELD, sqrt, 0),
    WEFT_MAP1("Square", WEFT_SET_NUMBERS, square, 0),
    WEFT_MAP1("Tan", WEFT_SET_FIELD, tan, WEFT_MAP_COSTLY),
    WEFT_MAP1("Tanh", WEFT_SET_FIELD, tanh, WEFT_MAP_COSTLY),
    {0},
};
