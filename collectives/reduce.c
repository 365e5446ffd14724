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

/* As weft_f16_to_f32() and back, but inline and without branches where it matters: loops over it are
 * vectorised. */
static inline float bits_to_float(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } v = {u};
  return v.f;
}
static inline uint32_t float_to_bits(float f) {
  union {
    float f;
    uint32_t u;
  } v = {f};
  return v.u;
}
static inline float half_to_float(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  const float small = (float)(int32_t)rest * 5.9604644775390625e-8f; /* 2^-24: exact for subnormals */
  const uint32_t normal = (rest << 13) + 0x38000000u, special = (rest << 13) | 0x7f800000u;
  const uint32_t bits = rest < 0x0400u ? float_to_bits(small) : rest < 0x7c00u ? normal : special;
  return bits_to_float(bits | sign);
}
static inline uint16_t float_to_half(float f) { /* to nearest, ties to even */
  const uint32_t u = float_to_bits(f), sign = (u >> 16) & 0x8000u, rest = u & 0x7fffffffu;
  const uint32_t normal = (rest + 0xfffu + ((rest >> 13) & 1u) - 0x38000000u) >> 13;
  /* Adding 0.5 puts the lowest bit of a subnormal half at the lowest bit of the float: the adder rounds. */
  const uint32_t small = float_to_bits(bits_to_float(rest) + 0.5f) - 0x3f000000u;
  const uint32_t huge = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
  return (uint16_t)(sign | (rest >= 0x47800000u ? huge : rest < 0x38800000u ? small : normal));
}

#define REDUCE_SUFFIX f16
#define REDUCE_T uint16_t
#define REDUCE_LOAD(x) half_to_float(x)
#define REDUCE_STORE(v) float_to_half(v)
#define REDUCE_ADD(x, y) PLUS(x, y)
#define REDUCE_MUL(x, y) TIMES(x, y)
#define REDUCE_DIV(x, n) ((x) / (float)(n))
#define REDUCE_ORDERED
#include "collectives/reduce.tmpl.h"

static inline uint16_t float_to_brain(float f) {
  const uint32_t u = float_to_bits(f);
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

#define REDUCE_SUFFIX bf16
#define REDUCE_T uint16_t
#define REDUCE_LOAD(x) bits_to_float((uint32_t)(x) << 16)
#define REDUCE_STORE(v) float_to_brain(v)
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
