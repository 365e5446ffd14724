/* kernels/cpu/update.tmpl.h - the six updates of one dtype, and their row in the table.
 *
 * Parameters:
 *   UPDATE_STEM          suffix of the names: f32
 *   UPDATE_T, UPDATE_C   how an element is stored, and the type to compute with
 *   UPDATE_GET, UPDATE_PUT  from one to the other
 *   UPDATE_W             the type to add, subtract and multiply with: unsigned for integers, so that they wrap
 *   UPDATE_DIVIDE(a, b)  the quotient
 *   UPDATE_UNORDERED     defined: there is no smaller and greater
 */
#define UPDATE_JOIN2(a, b) a##_##b
#define UPDATE_JOIN(a, b) UPDATE_JOIN2(a, b)

#define UPDATE_FN UPDATE_JOIN(add, UPDATE_STEM)
#define UPDATE_EXPR(a, b) ((UPDATE_C)((UPDATE_W)(a) + (UPDATE_W)(b)))
#include "kernels/cpu/update_loop.tmpl.h"
#define UPDATE_FN UPDATE_JOIN(sub, UPDATE_STEM)
#define UPDATE_EXPR(a, b) ((UPDATE_C)((UPDATE_W)(a) - (UPDATE_W)(b)))
#include "kernels/cpu/update_loop.tmpl.h"
#define UPDATE_FN UPDATE_JOIN(mul, UPDATE_STEM)
#define UPDATE_EXPR(a, b) ((UPDATE_C)((UPDATE_W)(a) * (UPDATE_W)(b)))
#include "kernels/cpu/update_loop.tmpl.h"
#define UPDATE_FN UPDATE_JOIN(div, UPDATE_STEM)
#define UPDATE_EXPR(a, b) UPDATE_DIVIDE(a, b)
#include "kernels/cpu/update_loop.tmpl.h"
#ifndef UPDATE_UNORDERED
#define UPDATE_FN UPDATE_JOIN(min, UPDATE_STEM)
#define UPDATE_EXPR(a, b) ((b) < (a) ? (b) : (a))
#include "kernels/cpu/update_loop.tmpl.h"
#define UPDATE_FN UPDATE_JOIN(max, UPDATE_STEM)
#define UPDATE_EXPR(a, b) ((a) < (b) ? (b) : (a))
#include "kernels/cpu/update_loop.tmpl.h"
#endif

static weft_update_fn *const UPDATE_JOIN(row, UPDATE_STEM)[WEFT_UPDATE_COUNT] = {
    [WEFT_UPDATE_ADD] = UPDATE_JOIN(add, UPDATE_STEM), [WEFT_UPDATE_SUB] = UPDATE_JOIN(sub, UPDATE_STEM),
    [WEFT_UPDATE_MUL] = UPDATE_JOIN(mul, UPDATE_STEM), [WEFT_UPDATE_DIV] = UPDATE_JOIN(div, UPDATE_STEM),
#ifndef UPDATE_UNORDERED
    [WEFT_UPDATE_MIN] = UPDATE_JOIN(min, UPDATE_STEM), [WEFT_UPDATE_MAX] = UPDATE_JOIN(max, UPDATE_STEM),
#endif
};

#undef UPDATE_JOIN
#undef UPDATE_JOIN2
#undef UPDATE_STEM
#undef UPDATE_T
#undef UPDATE_C
#undef UPDATE_W
#undef UPDATE_GET
#undef UPDATE_PUT
#undef UPDATE_DIVIDE
#undef UPDATE_UNORDERED
