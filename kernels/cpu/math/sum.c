/* kernels/cpu/math/sum.c - see the header. */
#include "kernels/cpu/math/sum.h"

#include <string.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/narrow.h"
#include "kernels/cpu/loops/simd.h"

/* The additions of one vector wait for each other: so many vectors keep the processor busy meanwhile. */
enum { SUM_VECTOR_BYTES = 4 * WEFT_SIMD, SUM_VECTORS = 8 };

#define MAP_STEM sum
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/math/sum_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#include "tensor/undef_each.tmpl.h"

#define EACH_HALFS
#define EACH_FILE "kernels/cpu/math/sum_half.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#include "tensor/undef_each.tmpl.h"

/* Of complex numbers the two parts are summed alike. */
static void sum_c64(int64_t n, int num, const void *const *x, void *y) { sum_f32(2 * n, num, x, y); }
static void sum_c128(int64_t n, int num, const void *const *x, void *y) { sum_f64(2 * n, num, x, y); }

static weft_sum_fn *const sums[WEFT_DTYPE_COUNT] = {
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_COMPLEX
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"
#undef MAP_STEM

weft_sum_fn *weft_sum_of(weft_dtype_t dtype) { return sums[dtype]; }
