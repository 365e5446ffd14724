/* kernels/cpu/math/segment_reals.tmpl.h - segment_one.tmpl.h for floating point and integers, and for complex
 * numbers if SEGMENT_COMPLEX, and the table <MAP_STEM>_fns of them by dtype. Its parameters are undefined at
 * the end. */
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#ifdef SEGMENT_COMPLEX
#define EACH_COMPLEX
#endif
#define EACH_FILE "kernels/cpu/math/segment_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static segment_fold_fn *const WEFT_CAT(MAP_STEM, fns)[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"
#undef MAP_STEM
#undef MAP_COMP
#undef SEGMENT_JOIN
#undef SEGMENT_COMPLEX
