/* kernels/cpu/math/integral.c - functions that are integrals of elementary ones: kernels/formulas/integral.h.
 */
#include <math.h>

#define WEFT_FORMULA static inline
#include "kernels/formulas/integral.h"

#include <tgmath.h>

#include "kernels/cpu/loops/map.h"

static double fresnel_cos_of(double x) { return weft_fresnel_of(x).c; }
static double fresnel_sin_of(double x) { return weft_fresnel_of(x).s; }

#define MAP_STEM dawsn
#define MAP_EXPR(x) weft_dawson(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
/* The exponential in the type of the result, so that it overflows there. */
#define MAP_STEM expint
#define MAP_EXPR(x)                                  \
  ((x) < 0   ? (COMP)NAN                             \
   : (x) < 2 ? (COMP)weft_expint_series((double)(x)) \
             : exp(x) * (COMP)weft_expint_scaled((double)(x)))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM fresnel_cos
#define MAP_EXPR(x) fresnel_cos_of(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM fresnel_sin
#define MAP_EXPR(x) fresnel_sin_of(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM spence
#define MAP_EXPR(x) weft_spence(x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"

const weft_kernel_t weft_cpu_integral_kernels[] = {
    WEFT_MAP1("Dawsn", WEFT_SET_FLOATS, dawsn, WEFT_MAP_COSTLY),
    WEFT_MAP1("Expint", WEFT_SET_FLOATS, expint, WEFT_MAP_COSTLY),
    WEFT_MAP1("FresnelCos", WEFT_SET_FLOATS, fresnel_cos, WEFT_MAP_COSTLY),
    WEFT_MAP1("FresnelSin", WEFT_SET_FLOATS, fresnel_sin, WEFT_MAP_COSTLY),
    WEFT_MAP1("Spence", WEFT_SET_FLOATS, spence, WEFT_MAP_COSTLY),
    {0},
};
