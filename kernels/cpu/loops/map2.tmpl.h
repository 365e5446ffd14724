/* kernels/cpu/loops/map2.tmpl.h - loops of a function of two operands, and the table <MAP_STEM>_fns of them
 * by dtype.
 *   MAP_STEM         name of the function, in lower case
 *   MAP_EXPR(x, y)   the result; x and y are COMP (WRAP if MAP_WRAPS is defined) and may be named more than
 *                    once.
 *                    It may use IS_NEGATIVE(v) and IS_MINUS_ONE(v), which are 0 for unsigned types
 *   MAP_INT_EXPR, MAP_COMPLEX_EXPR   the same for such numbers, where it is another expression
 *   MAP_BOOL         define it when the result is a bool
 *   MAP_LIBM         define it when the function is one of libm_vectors.h (map1.tmpl.h)
 *   MAP_ROUNDS       define it when the expression rounds to the element type itself (LOAD, STORE): half and
 *                    bfloat16 then have loops of their own, where else theirs is the loop of float
 *   EACH_...         for which types (each_dtype.tmpl.h)
 * All of them are undefined at the end. The result may lie where an operand that steps lies.
 */
#if defined(EACH_HALFS) && !defined(MAP_ROUNDS)
#define MAP_HALFS
#undef EACH_HALFS
#endif
#define EACH_FILE "kernels/cpu/loops/map2_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#ifdef MAP_HALFS
#define SUFFIX f16
#include "kernels/cpu/loops/map2_half.tmpl.h"
#undef SUFFIX
#define SUFFIX bf16
#include "kernels/cpu/loops/map2_half.tmpl.h"
#undef SUFFIX
#define EACH_HALFS
#undef MAP_HALFS
#endif
static weft_map2_fn *const WEFT_CAT(MAP_STEM, fns)[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"
#undef MAP_STEM
#undef MAP_EXPR
#undef MAP_INT_EXPR
#undef MAP_COMPLEX_EXPR
#undef MAP_BOOL
#undef MAP_WRAPS
#undef MAP_LIBM
#undef MAP_ROUNDS
