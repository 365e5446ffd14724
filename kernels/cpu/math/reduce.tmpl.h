/* kernels/cpu/math/reduce.tmpl.h - loops of a reduction, and the table <RED_STEM>_fns of them by dtype.
 *   RED_STEM               name, in lower case
 *   RED_ACC                type of the accumulator; may be COMP or ACC of each_dtype.tmpl.h
 *   RED_INIT(suffix)       what an accumulator starts with: the result of nothing
 *   RED_VALUE(v)           a COMP as the accumulator takes it
 *   RED_JOIN(a, b)         two accumulators in one; associative
 *   RED_FINISH(a, count)   the result of `count` elements, a COMP
 *   RED_SUMS               optional: PLAIN_SUMS, SQUARES if it is a sum of elements or of their squares
 *   RED_EXTREME(a, b)      optional: RED_JOIN of two numbers, neither of which is NaN
 *   EACH_...               for which types
 * All are undefined at the end.
 */
#ifndef RED_SUMS
#define RED_SUMS NO_SUMS
#endif
#define EACH_FILE "kernels/cpu/math/reduce_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static const reduce_fns_t *const WEFT_CAT(RED_STEM, fns)[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "kernels/cpu/math/reduce_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"
#undef RED_STEM
#undef RED_ACC
#undef RED_INIT
#undef RED_VALUE
#undef RED_JOIN
#undef RED_FINISH
#undef RED_SUMS
#undef RED_EXTREME
