/* kernels/cpu/loops/map1.tmpl.h - loops of a function of one operand, and the table <MAP_STEM>_fns of them
 * by dtype.
 *   MAP_STEM      name of the function, in lower case
 *   MAP_EXPR(x)   the result; x is a COMP (WRAP if MAP_WRAPS is defined) and may be named more than once.
 *                 It may use IS_NEGATIVE(v), which is 0 for unsigned types
 *   MAP_INT_EXPR, MAP_COMPLEX_EXPR   the same for such numbers, where it is another expression
 *   MAP_BOOL      define it when the result is a bool
 *   MAP_LIBM      define it when the function is one of libm_vectors.h: whole blocks are taken, so that a
 *                 result does not depend on the element's place
 *   EACH_...      for which types (each_dtype.tmpl.h)
 * All of them are undefined at the end. x and y may be the same memory.
 */
#define EACH_FILE "kernels/cpu/loops/map1_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static weft_map1_fn *const WEFT_CAT(MAP_STEM, fns)[WEFT_DTYPE_COUNT] = {
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
