/* kernels/cpu/combine.tmpl.h - loops to[i] = COMBINE(to[i], from[i]), and the table <MAP_STEM>_fns of them by dtype.
 *   MAP_STEM        name          COMBINE(a, b)   the result; a and b are MAP_COMP
 *   MAP_COMP        COMP or WRAP  EACH_...        for which types
 */
#define EACH_FILE "kernels/cpu/combine_one.tmpl.h"
#include "kernels/cpu/each_dtype.tmpl.h"
static weft_combine_fn *const WEFT_CAT(MAP_STEM, fns)[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "kernels/cpu/map_entry.tmpl.h"
#include "kernels/cpu/each_dtype.tmpl.h"
};
#include "kernels/cpu/undef_each.tmpl.h"
#undef MAP_STEM
#undef MAP_COMP
#undef COMBINE
