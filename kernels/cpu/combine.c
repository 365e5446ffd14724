/* kernels/cpu/combine.c - see the header. */
#include "kernels/cpu/combine.h"

#include <float.h>

#include "kernels/cpu/cast.h"

#define MAP_STEM add
#define MAP_COMP WRAP
#define COMBINE(a, b) ((a) + (b))
#include "kernels/cpu/combine_numbers.tmpl.h"
#define MAP_STEM sub
#define MAP_COMP WRAP
#define COMBINE(a, b) ((a) - (b))
#include "kernels/cpu/combine_numbers.tmpl.h"
#define MAP_STEM mul
#define MAP_COMP WRAP
#define COMBINE(a, b) ((a) * (b))
#include "kernels/cpu/combine_numbers.tmpl.h"
#define MAP_STEM max
#define MAP_COMP COMP
#define COMBINE(a, b) ((a) < (b) ? (b) : (a))
#include "kernels/cpu/combine_reals.tmpl.h"
#define MAP_STEM min
#define MAP_COMP COMP
#define COMBINE(a, b) ((a) > (b) ? (b) : (a))
#include "kernels/cpu/combine_reals.tmpl.h"

static weft_combine_fn *const *const tables[WEFT_COMBINE_COUNT] = {
    [WEFT_COMBINE_ADD] = add_fns, [WEFT_COMBINE_SUB] = sub_fns, [WEFT_COMBINE_MUL] = mul_fns,
    [WEFT_COMBINE_MAX] = max_fns, [WEFT_COMBINE_MIN] = min_fns,
};

weft_combine_fn *weft_combine_loop(weft_combine_t how, weft_dtype_t dtype) {
  return tables[how] == NULL ? NULL : tables[how][dtype];
}

/* The finite ends of each type's range. */
static void extreme(weft_dtype_t dtype, bool highest, void *to) {
  uint64_t all = ~(uint64_t)0;
  int bits = (int)weft_dtype_size(dtype) * 8;
  switch (dtype) {
    case WEFT_F32: *(float *)to = highest ? FLT_MAX : -FLT_MAX; return;
    case WEFT_F64: *(double *)to = highest ? DBL_MAX : -DBL_MAX; return;
    case WEFT_F16: *(uint16_t *)to = highest ? 0x7bff : 0xfbff; return;
    case WEFT_BF16: *(uint16_t *)to = highest ? 0x7f7f : 0xff7f; return;
    case WEFT_U8:
    case WEFT_U16:
    case WEFT_U32:
    case WEFT_U64: all = highest ? all : 0; break;
    default: /* two's complement: 0111... and 1000... */
      all = highest ? all >> (65 - bits) : (uint64_t)1 << (bits - 1);
      break;
  }
  memcpy(to, &all, (size_t)bits / 8); /* little-endian */
}

void weft_combine_identity(weft_combine_t how, weft_dtype_t dtype, int64_t n, void *to) {
  size_t size = weft_dtype_size(dtype);
  if (n <= 0) return;
  switch (how) {
    case WEFT_COMBINE_MUL: {
      const uint8_t one = 1;
      weft_cpu_cast_fn *cast = weft_cpu_cast_loop(WEFT_BOOL, dtype);
      if (cast != NULL) cast(1, &one, to);
      break;
    }
    case WEFT_COMBINE_MAX: extreme(dtype, false, to); break;
    case WEFT_COMBINE_MIN: extreme(dtype, true, to); break;
    default: memset(to, 0, size * (size_t)n); return;
  }
  for (int64_t i = 1; i < n; i++) memcpy((char *)to + (size_t)i * size, to, size);
}
