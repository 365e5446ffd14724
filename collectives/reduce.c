/* collectives/reduce.c - the table of reductions by operation and dtype.
 *
 * Storage and value differ where an element is smaller than what it is computed in:
 * half and bfloat16 in float, small integers in int, others unsigned, so that they wrap.
 */
#include "collectives/reduce.h"

#define SAME(x) (x)
#define PLUS(x, y) ((x) + (y))
#define TIMES(x, y) ((x) * (y))
#define OVER(x, n) ((x) / (n))

#define REDUCE_SUFFIX f32
#define REDUCE_T float
#define REDUCE_LOAD(x) SAME(x)
#define REDUCE_STORE(v) SAME(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) TIMES(x, y)
#define REDUCE_DIV(x, n) ((x) / (float)(n))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX f64
#define REDUCE_T double
#define REDUCE_LOAD(x) SAME(x)
#define REDUCE_STORE(v) SAME(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) TIMES(x, y)
#define REDUCE_DIV(x, n) ((x) / (double)(n))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX f16
#define REDUCE_T uint16_t
#define REDUCE_LOAD(x) weft_f16_to_f32(x)
#define REDUCE_STORE(v) weft_f32_to_f16(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) TIMES(x, y)
#define REDUCE_DIV(x, n) ((x) / (float)(n))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX bf16
#define REDUCE_T uint16_t
#define REDUCE_LOAD(x) weft_bf16_to_f32(x)
#define REDUCE_STORE(v) weft_f32_to_bf16(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) TIMES(x, y)
#define REDUCE_DIV(x, n) ((x) / (float)(n))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX i8
#define REDUCE_T int8_t
#define REDUCE_LOAD(x) (int)(x)
#define REDUCE_STORE(v) (int8_t)(uint8_t)(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) TIMES(x, y)
#define REDUCE_DIV(x, n) ((int)((x) / (n)))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX u8
#define REDUCE_T uint8_t
#define REDUCE_LOAD(x) (int)(x)
#define REDUCE_STORE(v) (uint8_t)(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) (int)((unsigned)(x) * (unsigned)(y))
#define REDUCE_DIV(x, n) ((int)((x) / (n)))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX i16
#define REDUCE_T int16_t
#define REDUCE_LOAD(x) (int)(x)
#define REDUCE_STORE(v) (int16_t)(uint16_t)(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) TIMES(x, y)
#define REDUCE_DIV(x, n) ((int)((x) / (n)))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX u16
#define REDUCE_T uint16_t
#define REDUCE_LOAD(x) (int)(x)
#define REDUCE_STORE(v) (uint16_t)(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) (int)((unsigned)(x) * (unsigned)(y))
#define REDUCE_DIV(x, n) ((int)((x) / (n)))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX i32
#define REDUCE_T int32_t
#define REDUCE_LOAD(x) SAME(x)
#define REDUCE_STORE(v) (int32_t)(v)
#define REDUCE_ADD(x, y) (int32_t)((uint32_t)(x) + (uint32_t)(y))
#define REDUCE_MUL(x, y) (int32_t)((uint32_t)(x) * (uint32_t)(y))
#define REDUCE_DIV(x, n) ((x) / (n))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX u32
#define REDUCE_T uint32_t
#define REDUCE_LOAD(x) SAME(x)
#define REDUCE_STORE(v) (uint32_t)(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) TIMES(x, y)
#define REDUCE_DIV(x, n) ((x) / (uint64_t)(n))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX i64
#define REDUCE_T int64_t
#define REDUCE_LOAD(x) SAME(x)
#define REDUCE_STORE(v) (int64_t)(v)
#define REDUCE_ADD(x, y) (int64_t)((uint64_t)(x) + (uint64_t)(y))
#define REDUCE_MUL(x, y) (int64_t)((uint64_t)(x) * (uint64_t)(y))
#define REDUCE_DIV(x, n) ((x) / (n))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

#define REDUCE_SUFFIX u64
#define REDUCE_T uint64_t
#define REDUCE_LOAD(x) SAME(x)
#define REDUCE_STORE(v) (uint64_t)(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) TIMES(x, y)
#define REDUCE_DIV(x, n) ((x) / (uint64_t)(n))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

static inline weft_c64_t c64_times(weft_c64_t x, weft_c64_t y) {
  return (weft_c64_t){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
#define REDUCE_SUFFIX c64
#define REDUCE_T weft_c64_t
#define REDUCE_LOAD(x) SAME(x)
#define REDUCE_STORE(v) SAME(v)
#define REDUCE_ADD(x, y) ((weft_c64_t){(x).re + (y).re, (x).im + (y).im})
#define REDUCE_MUL(x, y) c64_times(x, y)
#define REDUCE_DIV(x, n) ((weft_c64_t){(x).re / (float)(n), (x).im / (float)(n)})
#include "collectives/reduce.tmpl.h"

static inline weft_c128_t c128_times(weft_c128_t x, weft_c128_t y) {
  return (weft_c128_t){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
#define REDUCE_SUFFIX c128
#define REDUCE_T weft_c128_t
#define REDUCE_LOAD(x) SAME(x)
#define REDUCE_STORE(v) SAME(v)
#define REDUCE_ADD(x, y) ((weft_c128_t){(x).re + (y).re, (x).im + (y).im})
#define REDUCE_MUL(x, y) c128_times(x, y)
#define REDUCE_DIV(x, n) ((weft_c128_t){(x).re / (double)(n), (x).im / (double)(n)})
#include "collectives/reduce.tmpl.h"

#define ORDERED(id, suffix)                          \
  [WEFT_##id] = {[WEFT_REDUCE_SUM] = sum_##suffix,   \
                 [WEFT_REDUCE_PROD] = prod_##suffix, \
                 [WEFT_REDUCE_MIN] = min_##suffix,   \
                 [WEFT_REDUCE_MAX] = max_##suffix},
#define COMPLEX(id, suffix) \
  [WEFT_##id] = {[WEFT_REDUCE_SUM] = sum_##suffix, [WEFT_REDUCE_PROD] = prod_##suffix},
#define DIVIDED(id, suffix) [WEFT_##id] = divide_##suffix,
#define EVERY_ORDERED(X) \
  X(F32, f32)            \
  X(F64, f64)            \
  X(F16, f16)            \
  X(BF16, bf16) X(I8, i8) X(U8, u8) X(I16, i16) X(U16, u16) X(I32, i32) X(U32, u32) X(I64, i64) X(U64, u64)
#define EVERY_COMPLEX(X) X(C64, c64) X(C128, c128)

static weft_reduce_fn *const reductions[WEFT_DTYPE_COUNT][WEFT_REDUCE_MAX + 1] = {EVERY_ORDERED(ORDERED)
                                                                                      EVERY_COMPLEX(COMPLEX)};
static weft_divide_fn *const divisions[WEFT_DTYPE_COUNT] = {EVERY_ORDERED(DIVIDED) EVERY_COMPLEX(DIVIDED)};

weft_reduce_fn *weft_reduce_kernel(weft_reduction_t op, weft_dtype_t dtype) {
  return (unsigned)dtype < WEFT_DTYPE_COUNT && (unsigned)op <= WEFT_REDUCE_MAX ? reductions[dtype][op] : NULL;
}

weft_divide_fn *weft_divide_kernel(weft_dtype_t dtype) {
  return (unsigned)dtype < WEFT_DTYPE_COUNT ? divisions[dtype] : NULL;
}

const char *weft_reduction_name(weft_reduction_t op) {
  static const char *const names[] = {"sum", "prod", "min", "max"};
  return (unsigned)op <= WEFT_REDUCE_MAX ? names[op] : "unknown";
}
