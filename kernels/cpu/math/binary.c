/* kernels/cpu/math/binary.c - arithmetic of two broadcast operands.
 *
 * Integers add, subtract and multiply as unsigned numbers, so that they wrap. Integer division never sees a
 * zero divisor (the driver refuses it), and MIN / -1 is MIN.
 */
#include <complex.h>
#include <math.h>
#include <tgmath.h>

#include "kernels/cpu/loops/complex_times.h"
#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/loops/vector_math.h"

#define MAP_STEM add
#define MAP_EXPR(x, y) ((x) + (y))
#define MAP_WRAPS
#include "kernels/cpu/loops/map2_numbers.tmpl.h"

weft_map2_fn *const *const weft_map2_add = add_fns;

#define MAP_STEM sub
#define MAP_EXPR(x, y) ((x) - (y))
#define MAP_WRAPS
#include "kernels/cpu/loops/map2_numbers.tmpl.h"

#define MAP_STEM mul
#define MAP_EXPR(x, y) WEFT_TIMES(x, y)
#define MAP_WRAPS
#include "kernels/cpu/loops/map2_numbers.tmpl.h"

#define MAP_STEM squared_difference
#define MAP_EXPR(x, y) (((x) - (y)) * ((x) - (y)))
#define MAP_COMPLEX_EXPR(x, y) WEFT_TIMES(conj((x) - (y)), (x) - (y))
#define MAP_WRAPS
#include "kernels/cpu/loops/map2_numbers.tmpl.h"

/* Of up to 32 bits in double, which has a quotient's digits: that is done in vectors. */
#define QUOTIENT(x, y) (sizeof(COMP) <= 4 ? (COMP)((double)(x) / (double)(y)) : (COMP)((x) / (y)))
#define REMAINDER(x, y) ((COMP)((WRAP)(x) - (WRAP)QUOTIENT(x, y) * (WRAP)(y)))
#define INT_DIV(x, y) (IS_MINUS_ONE(y) ? (COMP)(0 - (WRAP)(x)) : QUOTIENT(x, y))

/* A NaN on either side wins. */
#define MAP_STEM maximum
#define MAP_EXPR(x, y) ((x) < (y) || (y) != (y) ? (y) : (x))
#include "kernels/cpu/loops/map2_reals.tmpl.h"

#define MAP_STEM minimum
#define MAP_EXPR(x, y) ((x) > (y) || (y) != (y) ? (y) : (x))
#include "kernels/cpu/loops/map2_reals.tmpl.h"

#define MAP_STEM real_div
#define MAP_EXPR(x, y) ((x) / (y))
#define MAP_INT_EXPR(x, y) INT_DIV(x, y)
#include "kernels/cpu/loops/map2_numbers.tmpl.h"

/* The quotient is rounded to the element type before it is cut, as by a machine that divides in that type. */
#define MAP_STEM trunc_div
#define MAP_ROUNDS
#define MAP_EXPR(x, y) trunc(LOAD(STORE((x) / (y))))
#define MAP_INT_EXPR(x, y) INT_DIV(x, y)
#include "kernels/cpu/loops/map2_reals.tmpl.h"

#define MAP_STEM trunc_mod
#define MAP_EXPR(x, y) fmod(x, y)
#define MAP_INT_EXPR(x, y) (IS_MINUS_ONE(y) ? (COMP)0 : REMAINDER(x, y))
#include "kernels/cpu/loops/map2_reals.tmpl.h"

/* The quotient of integers goes down by one where it was cut towards zero. */
#define MAP_STEM floor_div
#define MAP_ROUNDS
#define MAP_EXPR(x, y) floor(LOAD(STORE((x) / (y))))
#define MAP_INT_EXPR(x, y)     \
  (IS_MINUS_ONE(y)             \
       ? (COMP)(0 - (WRAP)(x)) \
       : (COMP)(QUOTIENT(x, y) - (REMAINDER(x, y) != 0 && IS_NEGATIVE(x) != IS_NEGATIVE(y) ? 1 : 0)))
#include "kernels/cpu/loops/map2_reals.tmpl.h"

#define MAP_STEM floor_mod
#define MAP_EXPR(x, y) (fmod(x, y) != 0 && (fmod(x, y) < 0) != ((y) < 0) ? fmod(x, y) + (y) : fmod(x, y))
#define MAP_INT_EXPR(x, y)                    \
  (IS_MINUS_ONE(y) ? (COMP)0                  \
                   : (COMP)(REMAINDER(x, y) + \
                            (REMAINDER(x, y) != 0 && IS_NEGATIVE(x) != IS_NEGATIVE(y) ? (y) : (COMP)0)))
#include "kernels/cpu/loops/map2_reals.tmpl.h"

static uint64_t int_power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}
#define MAP_STEM pow
#define MAP_LIBM
#define MAP_EXPR(x, y) pow(x, y)
#define MAP_INT_EXPR(x, y) int_power((uint64_t)(x), (uint64_t)(y))
#include "kernels/cpu/loops/map2_numbers.tmpl.h"

#define MAP_STEM div_no_nan
#define MAP_EXPR(x, y) ((y) == 0 ? 0 : (x) / (y))
#include "kernels/cpu/loops/map2_field.tmpl.h"

#define MAP_STEM mul_no_nan
#define MAP_EXPR(x, y) ((y) == 0 ? 0 : WEFT_TIMES(x, y))
#include "kernels/cpu/loops/map2_field.tmpl.h"

#define MAP_STEM xdivy
#define MAP_EXPR(x, y) ((x) == 0 ? 0 : (x) / (y))
#include "kernels/cpu/loops/map2_field.tmpl.h"

#define MAP_STEM xlogy
#define MAP_LIBM
#define MAP_EXPR(x, y) ((x) == 0 ? 0 : WEFT_TIMES(x, WEFT_CAT(weft_log, SUFFIX)(y)))
#include "kernels/cpu/loops/map2_field.tmpl.h"

#define MAP_STEM xlog1py
#define MAP_LIBM
#define MAP_EXPR(x, y) ((x) == 0 ? 0 : (x)*log1p(y))
#define MAP_COMPLEX_EXPR(x, y) ((x) == 0 ? 0 : WEFT_TIMES(x, log(1 + (y))))
#include "kernels/cpu/loops/map2_field.tmpl.h"

#define MAP_STEM atan2
#define MAP_LIBM
#define MAP_EXPR(x, y) atan2(x, y)
#include "kernels/cpu/loops/map2_floats.tmpl.h"

/* Gradients: the first operand is the forward output or input, as the op's argument says. */
#define MAP_STEM sigmoid_grad
#define MAP_EXPR(y, dy) WEFT_TIMES(dy, WEFT_TIMES(y, 1 - (y)))
#include "kernels/cpu/loops/map2_field.tmpl.h"
#define MAP_STEM tanh_grad
#define MAP_EXPR(y, dy) WEFT_TIMES(dy, 1 - WEFT_TIMES(y, y))
#include "kernels/cpu/loops/map2_field.tmpl.h"
/* No gradient comes back where none arrives, however steep the function is there. Of complex numbers the
 * derivative is conjugated here; for the two above the graph does it. */
#define MAP_STEM sqrt_grad
#define MAP_EXPR(y, dy) ((dy) == 0 ? 0 : (dy) / ((y) + (y)))
#define MAP_COMPLEX_EXPR(y, dy) ((dy) == 0 ? 0 : (dy) / conj((y) + (y)))
#include "kernels/cpu/loops/map2_field.tmpl.h"
#define MAP_STEM rsqrt_grad
#define MAP_EXPR(y, dy) ((dy) == 0 ? 0 : (dy) * (y) * (y) * (y) / -2)
#define MAP_COMPLEX_EXPR(y, dy) ((dy) == 0 ? 0 : WEFT_TIMES(dy, conj(WEFT_TIMES(WEFT_TIMES(y, y), y))) / -2)
#include "kernels/cpu/loops/map2_field.tmpl.h"
#define MAP_STEM inv_grad
#define MAP_EXPR(y, dy) ((dy) == 0 ? 0 : -(dy) * (y) * (y))
#define MAP_COMPLEX_EXPR(y, dy) ((dy) == 0 ? 0 : WEFT_TIMES(-(dy), conj(WEFT_TIMES(y, y))))
#include "kernels/cpu/loops/map2_field.tmpl.h"

const weft_kernel_t weft_cpu_binary_kernels[] = {
    WEFT_MAP2("Add", WEFT_SET_FIELD | WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8), add, 0),
    WEFT_MAP2("AddV2", WEFT_SET_NUMBERS, add, 0),
    WEFT_MAP2("Atan2", WEFT_SET_FLOATS, atan2, WEFT_MAP_COSTLY),
    WEFT_MAP2("Div", WEFT_SET_NUMBERS, real_div, WEFT_MAP_CHECK_DIVISOR),
    WEFT_MAP2("DivNoNan", WEFT_SET_FIELD, div_no_nan, 0),
    WEFT_MAP2("FloorDiv", WEFT_SET_REAL, floor_div, WEFT_MAP_CHECK_DIVISOR),
    WEFT_MAP2("FloorMod", WEFT_SET_REAL, floor_mod, WEFT_MAP_CHECK_DIVISOR),
    WEFT_MAP2("InvGrad", WEFT_SET_FIELD, inv_grad, WEFT_MAP_SAME_COUNT),
    WEFT_MAP2("Maximum", WEFT_SET_REAL, maximum, 0),
    WEFT_MAP2("Minimum", WEFT_SET_REAL, minimum, 0),
    WEFT_MAP2("Mod", WEFT_SET_FLOATS | WEFT_SET_INDEX, trunc_mod, WEFT_MAP_CHECK_DIVISOR),
    WEFT_MAP2("Mul", WEFT_SET_NUMBERS, mul, 0),
    WEFT_MAP2("MulNoNan", WEFT_SET_FIELD, mul_no_nan, 0),
    WEFT_MAP2("Pow", WEFT_SET_FIELD | WEFT_SET_SIGNED, pow, WEFT_MAP_CHECK_EXPONENT | WEFT_MAP_COSTLY),
    WEFT_MAP2("RealDiv", WEFT_SET_NUMBERS, real_div, WEFT_MAP_CHECK_DIVISOR),
    WEFT_MAP2("ReciprocalGrad", WEFT_SET_FIELD, inv_grad, WEFT_MAP_SAME_COUNT),
    WEFT_MAP2("RsqrtGrad", WEFT_SET_FIELD, rsqrt_grad, WEFT_MAP_SAME_COUNT),
    WEFT_MAP2("SigmoidGrad", WEFT_SET_FIELD, sigmoid_grad, WEFT_MAP_SAME_COUNT),
    WEFT_MAP2("SqrtGrad", WEFT_SET_FIELD, sqrt_grad, WEFT_MAP_SAME_COUNT),
    WEFT_MAP2("SquaredDifference", WEFT_SET_FIELD | WEFT_SET_INDEX, squared_difference, 0),
    WEFT_MAP2("Sub", WEFT_SET_NUMBERS, sub, 0),
    WEFT_MAP2("TanhGrad", WEFT_SET_FIELD, tanh_grad, WEFT_MAP_SAME_COUNT),
    WEFT_MAP2("TruncateDiv", WEFT_SET_REAL, trunc_div, WEFT_MAP_CHECK_DIVISOR | WEFT_MAP_ZERO_IS_INTERNAL),
    WEFT_MAP2("TruncateMod", WEFT_SET_FLOATS | WEFT_SET_INDEX, trunc_mod,
              WEFT_MAP_CHECK_DIVISOR | WEFT_MAP_ZERO_IS_INTERNAL),
    WEFT_MAP2("Xdivy", WEFT_SET_FIELD, xdivy, 0),
    WEFT_MAP2("Xlog1py", WEFT_SET_FIELD, xlog1py, WEFT_MAP_COSTLY),
    WEFT_MAP2("Xlogy", WEFT_SET_FIELD, xlogy, WEFT_MAP_COSTLY),
    {0},
};
