/* kernels/cpu/binary.c - arithmetic of two broadcast operands.
 *
 * Integers add, subtract and multiply as unsigned numbers, so that they wrap. Integer division never sees a
 * zero divisor (the driver refuses it), and MIN / -1 is MIN.
 */
#include <complex.h>
#include <math.h>
#include <tgmath.h>

#include "base/alloc.h"
#include "kernels/cpu/map.h"

#define MAP_STEM add
#define MAP_EXPR(x, y) ((x) + (y))
#define MAP_WRAPS
#include "kernels/cpu/map2_numbers.tmpl.h"

weft_map2_fn *const *const weft_map2_add = add_fns;

#define MAP_STEM sub
#define MAP_EXPR(x, y) ((x) - (y))
#define MAP_WRAPS
#include "kernels/cpu/map2_numbers.tmpl.h"

#define MAP_STEM mul
#define MAP_EXPR(x, y) ((x) * (y))
#define MAP_WRAPS
#include "kernels/cpu/map2_numbers.tmpl.h"

#define MAP_STEM squared_difference
#define MAP_EXPR(x, y) (((x) - (y)) * ((x) - (y)))
#define MAP_WRAPS
#include "kernels/cpu/map2_reals.tmpl.h"

#define MAP_STEM squared_difference_complex
#define MAP_EXPR(x, y) (conj((x) - (y)) * ((x) - (y)))
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"

/* A NaN on either side wins. */
#define MAP_STEM maximum
#define MAP_EXPR(x, y) ((x) < (y) || (y) != (y) ? (y) : (x))
#include "kernels/cpu/map2_reals.tmpl.h"

#define MAP_STEM minimum
#define MAP_EXPR(x, y) ((x) > (y) || (y) != (y) ? (y) : (x))
#include "kernels/cpu/map2_reals.tmpl.h"

#define MAP_STEM real_div
#define MAP_EXPR(x, y) ((x) / (y))
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"

/* The quotient is rounded to the element type before it is cut, as by a machine that divides in that type. */
#define MAP_STEM trunc_div
#define MAP_EXPR(x, y) trunc(LOAD(STORE((x) / (y))))
#include "kernels/cpu/map2_floats.tmpl.h"

#define MAP_STEM int_div
#define MAP_EXPR(x, y) (IS_MINUS_ONE(y) ? (COMP)(0 - (WRAP)(x)) : (COMP)((x) / (y)))
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/map2.tmpl.h"

#define MAP_STEM int_mod
#define MAP_EXPR(x, y) (IS_MINUS_ONE(y) ? (COMP)0 : (COMP)((x) % (y)))
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/map2.tmpl.h"

/* The quotient goes down by one where it was cut towards zero. */
#define MAP_STEM int_floor_div
#define MAP_EXPR(x, y)                     \
  (IS_MINUS_ONE(y) ? (COMP)(0 - (WRAP)(x)) \
                   : (COMP)((x) / (y) - ((x) % (y) != 0 && IS_NEGATIVE(x) != IS_NEGATIVE(y) ? 1 : 0)))
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/map2.tmpl.h"

#define MAP_STEM int_floor_mod
#define MAP_EXPR(x, y) \
  (IS_MINUS_ONE(y)     \
       ? (COMP)0       \
       : (COMP)((x) % (y) + ((x) % (y) != 0 && IS_NEGATIVE(x) != IS_NEGATIVE(y) ? (y) : (COMP)0)))
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/map2.tmpl.h"

#define MAP_STEM floor_div
#define MAP_EXPR(x, y) floor(LOAD(STORE((x) / (y))))
#include "kernels/cpu/map2_floats.tmpl.h"

#define MAP_STEM float_mod
#define MAP_EXPR(x, y) fmod(x, y)
#include "kernels/cpu/map2_floats.tmpl.h"

#define MAP_STEM floor_mod
#define MAP_EXPR(x, y) (fmod(x, y) != 0 && (fmod(x, y) < 0) != ((y) < 0) ? fmod(x, y) + (y) : fmod(x, y))
#include "kernels/cpu/map2_floats.tmpl.h"

#define MAP_STEM pow
#define MAP_EXPR(x, y) pow(x, y)
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"

static uint64_t int_power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}
#define MAP_STEM int_pow
#define MAP_EXPR(x, y) int_power((uint64_t)(x), (uint64_t)(y))
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#include "kernels/cpu/map2.tmpl.h"

#define MAP_STEM div_no_nan
#define MAP_EXPR(x, y) ((y) == 0 ? 0 : (x) / (y))
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"

#define MAP_STEM mul_no_nan
#define MAP_EXPR(x, y) ((y) == 0 ? 0 : (x) * (y))
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"

#define MAP_STEM xdivy
#define MAP_EXPR(x, y) ((x) == 0 ? 0 : (x) / (y))
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"

#define MAP_STEM xlogy
#define MAP_EXPR(x, y) ((x) == 0 ? 0 : (x)*log(y))
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"

#define MAP_STEM xlog1py
#define MAP_EXPR(x, y) ((x) == 0 ? 0 : (x)*log1p(y))
#include "kernels/cpu/map2_floats.tmpl.h"

#define MAP_STEM xlog1py_complex
#define MAP_EXPR(x, y) ((x) == 0 ? 0 : (x)*log(1 + (y)))
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"

#define MAP_STEM atan2
#define MAP_EXPR(x, y) atan2(x, y)
#include "kernels/cpu/map2_floats.tmpl.h"

/* Gradients: the first operand is the forward output or input, as the op's argument says. */
#define MAP_STEM sigmoid_grad
#define MAP_EXPR(y, dy) ((dy) * (y) * (1 - (y)))
#define EACH_COMPLEX
#include "kernels/cpu/map2_floats.tmpl.h"
#define MAP_STEM tanh_grad
#define MAP_EXPR(y, dy) ((dy) * (1 - (y) * (y)))
#define EACH_COMPLEX
#include "kernels/cpu/map2_floats.tmpl.h"
/* No gradient comes back where none arrives, however steep the function is there. */
#define MAP_STEM sqrt_grad
#define MAP_EXPR(y, dy) ((dy) == 0 ? 0 : (dy) / ((y) + (y)))
#include "kernels/cpu/map2_floats.tmpl.h"
#define MAP_STEM rsqrt_grad
#define MAP_EXPR(y, dy) ((dy) == 0 ? 0 : (dy) * (y) * (y) * (y) / -2)
#include "kernels/cpu/map2_floats.tmpl.h"
#define MAP_STEM inv_grad
#define MAP_EXPR(y, dy) ((dy) == 0 ? 0 : -(dy) * (y) * (y))
#include "kernels/cpu/map2_floats.tmpl.h"

/* The same for complex numbers. Of these three the derivative is conjugated here, of the two above by the
 * graph. */
#define MAP_STEM sqrt_grad_complex
#define MAP_EXPR(y, dy) ((dy) == 0 ? 0 : (dy) / conj((y) + (y)))
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"
#define MAP_STEM rsqrt_grad_complex
#define MAP_EXPR(y, dy) ((dy) == 0 ? 0 : (dy)*conj((y) * (y) * (y)) / -2)
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"
#define MAP_STEM inv_grad_complex
#define MAP_EXPR(y, dy) ((dy) == 0 ? 0 : -(dy)*conj((y) * (y)))
#define EACH_COMPLEX
#include "kernels/cpu/map2.tmpl.h"

/* An op's loops may come from several tables, one for each kind of numbers. */
typedef struct arith_row {
  const char *op;
  weft_map2_fn *const *reals, *const *ints, *const *complexes;
  uint32_t flags;
} arith_row_t;

static const arith_row_t arith[] = {
    {"Add", add_fns, add_fns, add_fns, 0},
    {"AddV2", add_fns, add_fns, add_fns, 0},
    {"Atan2", atan2_fns, NULL, NULL, WEFT_MAP_COSTLY},
    {"Div", real_div_fns, int_div_fns, real_div_fns, WEFT_MAP_CHECK_DIVISOR},
    {"DivNoNan", div_no_nan_fns, NULL, div_no_nan_fns, 0},
    {"FloorDiv", floor_div_fns, int_floor_div_fns, NULL, WEFT_MAP_CHECK_DIVISOR},
    {"FloorMod", floor_mod_fns, int_floor_mod_fns, NULL, WEFT_MAP_CHECK_DIVISOR},
    {"InvGrad", inv_grad_fns, NULL, inv_grad_complex_fns, WEFT_MAP_SAME_COUNT},
    {"Maximum", maximum_fns, maximum_fns, NULL, 0},
    {"Minimum", minimum_fns, minimum_fns, NULL, 0},
    {"Mod", float_mod_fns, int_mod_fns, NULL, WEFT_MAP_CHECK_DIVISOR},
    {"Mul", mul_fns, mul_fns, mul_fns, 0},
    {"MulNoNan", mul_no_nan_fns, NULL, mul_no_nan_fns, 0},
    {"Pow", pow_fns, int_pow_fns, pow_fns, WEFT_MAP_CHECK_EXPONENT | WEFT_MAP_COSTLY},
    {"RealDiv", real_div_fns, int_div_fns, real_div_fns, WEFT_MAP_CHECK_DIVISOR},
    {"ReciprocalGrad", inv_grad_fns, NULL, inv_grad_complex_fns, WEFT_MAP_SAME_COUNT},
    {"RsqrtGrad", rsqrt_grad_fns, NULL, rsqrt_grad_complex_fns, WEFT_MAP_SAME_COUNT},
    {"SigmoidGrad", sigmoid_grad_fns, NULL, sigmoid_grad_fns, WEFT_MAP_SAME_COUNT},
    {"SqrtGrad", sqrt_grad_fns, NULL, sqrt_grad_complex_fns, WEFT_MAP_SAME_COUNT},
    {"SquaredDifference", squared_difference_fns, squared_difference_fns, squared_difference_complex_fns, 0},
    {"Sub", sub_fns, sub_fns, sub_fns, 0},
    {"TanhGrad", tanh_grad_fns, NULL, tanh_grad_fns, WEFT_MAP_SAME_COUNT},
    {"TruncateDiv", trunc_div_fns, int_div_fns, NULL, WEFT_MAP_CHECK_DIVISOR | WEFT_MAP_ZERO_IS_INTERNAL},
    {"TruncateMod", float_mod_fns, int_mod_fns, NULL, WEFT_MAP_CHECK_DIVISOR | WEFT_MAP_ZERO_IS_INTERNAL},
    {"Xdivy", xdivy_fns, NULL, xdivy_fns, 0},
    {"Xlog1py", xlog1py_fns, NULL, xlog1py_complex_fns, WEFT_MAP_COSTLY},
    {"Xlogy", xlogy_fns, NULL, xlogy_fns, WEFT_MAP_COSTLY},
};

/* The state of a prepared node: a row with the one table that its dtype needs. */
static weft_status_t *prepare(const weft_kernel_node_t *node, void **out_state) {
  int dtype = weft_dtype_base(node->input_types[0]);
  for (size_t i = 0; i < sizeof arith / sizeof arith[0]; i++) {
    if (!weft_str_is(node->op_name, arith[i].op)) continue;
    weft_map2_row_t *row = weft_calloc(1, sizeof *row);
    if (row == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "preparing %s", arith[i].op);
    *row = (weft_map2_row_t){arith[i].op, arith[i].reals, arith[i].flags};
    if (weft_dtype_is_integer(dtype)) row->fns = arith[i].ints;
    if (weft_dtype_is_complex(dtype)) row->fns = arith[i].complexes;
    *out_state = row;
    return NULL;
  }
  return WEFT_ERROR(INTERNAL, "op %s has no row", node->op_name.data);
}

#define ARITH(op, types) WEFT_KERNEL(op, "T", types, prepare, weft_map2_compute, weft_free)
const weft_kernel_t weft_cpu_binary_kernels[] = {
    ARITH("Add", WEFT_SET_NUMBERS),
    ARITH("AddV2", WEFT_SET_NUMBERS),
    ARITH("Atan2", WEFT_SET_FLOATS),
    ARITH("Div", WEFT_SET_NUMBERS),
    ARITH("DivNoNan", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("FloorDiv", WEFT_SET_REAL),
    ARITH("FloorMod", WEFT_SET_REAL),
    ARITH("InvGrad", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("Maximum", WEFT_SET_REAL),
    ARITH("Minimum", WEFT_SET_REAL),
    ARITH("Mod", WEFT_SET_REAL),
    ARITH("Mul", WEFT_SET_NUMBERS),
    ARITH("MulNoNan", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("Pow", WEFT_SET_NUMBERS),
    ARITH("RealDiv", WEFT_SET_NUMBERS),
    ARITH("ReciprocalGrad", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("RsqrtGrad", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("SigmoidGrad", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("SqrtGrad", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("SquaredDifference", WEFT_SET_NUMBERS),
    ARITH("Sub", WEFT_SET_NUMBERS),
    ARITH("TanhGrad", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("TruncateDiv", WEFT_SET_REAL),
    ARITH("TruncateMod", WEFT_SET_REAL),
    ARITH("Xdivy", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("Xlog1py", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    ARITH("Xlogy", WEFT_SET_FLOATS | WEFT_SET_COMPLEX),
    {0},
};
