/* tensor/update_reals.tmpl.h - the loops of an update and <MAP_STEM>_fns, the table of them by dtype,
 * for floating point and integers; for complex numbers, too, if UPDATE_COMPLEX. Without UPDATE(a, b) the
 * loops are there already. */
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#ifdef UPDATE_COMPLEX
#define EACH_COMPLEX
#endif
#ifdef UPDATE
#include "tensor/update_loops.tmpl.h"
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#ifdef UPDATE_COMPLEX
#define EACH_COMPLEX
#endif
#endif
static weft_update_fn *const WEFT_CAT(MAP_STEM, fns)[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"
#undef MAP_STEM
#undef MAP_COMP
#undef UPDATE_COMPLEX
