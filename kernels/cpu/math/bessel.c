/* kernels/cpu/math/bessel.c - Bessel functions of the orders 0 and 1, plain and scaled by an exponential.
 *
 * In double; those that grow or vanish exponentially get the exponential in the type of the result, so that
 * they overflow where it does.
 */
#define _DEFAULT_SOURCE /* special.h */
#include "kernels/cpu/math/special.h"

#include <tgmath.h>

#include "kernels/cpu/loops/map.h"

/* Below 0 it is infinity, as at 0. */
#define K_PLAIN(order, x)                                    \
  ((x) <= 0   ? (COMP)INFINITY                               \
   : (x) <= 2 ? (COMP)weft_bessel_k_near(order, (double)(x)) \
              : exp(-(x)) * (COMP)weft_bessel_k_far(order, (double)(x)))
#define K_SCALED(order, x)                                            \
  ((x) <= 0   ? (COMP)INFINITY                                        \
   : (x) <= 2 ? exp(x) * (COMP)weft_bessel_k_near(order, (double)(x)) \
              : (COMP)weft_bessel_k_far(order, (double)(x)))

#define MAP_STEM bessel_i0e
#define MAP_EXPR(x) weft_bessel_i(0, fabs((double)(x)))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_i1e
#define MAP_EXPR(x) weft_bessel_i1e((double)(x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_i0
#define MAP_EXPR(x) (exp(fabs(x)) * (COMP)weft_bessel_i(0, fabs((double)(x))))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_i1
#define MAP_EXPR(x) (exp(fabs(x)) * (COMP)weft_bessel_i1e((double)(x)))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_k0
#define MAP_EXPR(x) K_PLAIN(0, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_k1
#define MAP_EXPR(x) K_PLAIN(1, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_k0e
#define MAP_EXPR(x) K_SCALED(0, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_k1e
#define MAP_EXPR(x) K_SCALED(1, x)
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_j0
#define MAP_EXPR(x) weft_bessel_j(0, (double)(x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_j1
#define MAP_EXPR(x) weft_bessel_j(1, (double)(x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_y0
#define MAP_EXPR(x) weft_bessel_y(0, (double)(x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"
#define MAP_STEM bessel_y1
#define MAP_EXPR(x) weft_bessel_y(1, (double)(x))
#include "kernels/cpu/loops/map1_floats.tmpl.h"

const weft_kernel_t weft_cpu_bessel_kernels[] = {
    WEFT_MAP1("BesselI0", WEFT_SET_FLOATS, bessel_i0, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselI0e", WEFT_SET_FLOATS, bessel_i0e, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselI1", WEFT_SET_FLOATS, bessel_i1, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselI1e", WEFT_SET_FLOATS, bessel_i1e, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselJ0", WEFT_SET_FLOATS, bessel_j0, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselJ1", WEFT_SET_FLOATS, bessel_j1, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselK0", WEFT_SET_FLOATS, bessel_k0, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselK0e", WEFT_SET_FLOATS, bessel_k0e, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselK1", WEFT_SET_FLOATS, bessel_k1, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselK1e", WEFT_SET_FLOATS, bessel_k1e, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselY0", WEFT_SET_FLOATS, bessel_y0, WEFT_MAP_COSTLY),
    WEFT_MAP1("BesselY1", WEFT_SET_FLOATS, bessel_y1, WEFT_MAP_COSTLY),
    {0},
};
