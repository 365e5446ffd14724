/* kernels/cpu/math/sum.c - see the header. */
#include "kernels/cpu/math/sum.h"

#include <complex.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/simd.h"

/* Half of the registers of the level, where elements are computed with in their own type. */
enum { SUM_PART_BYTES = 8 * WEFT_SIMD * 4 };

#define MAP_STEM sum
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_COMPLEX
#define EACH_FILE "kernels/cpu/math/sum_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"

static weft_sum_fn *const sums[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

weft_sum_fn *weft_sum_of(weft_dtype_t dtype) { return sums[dtype]; }
