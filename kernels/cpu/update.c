/* kernels/cpu/update.c - the table of updates: a template per dtype. */
#include "kernels/cpu/update.h"

#include <complex.h>

#define SAME(x) (x)
#define QUOTIENT(a, b) ((a) / (b))
/* The least integer divided by -1 wraps, too. */
#define SIGNED_QUOTIENT(a, b) ((b) == 0 ? 0 : (b) == -1 ? 0 - (uint64_t)(a) : (uint64_t)((a) / (b)))
#define UNSIGNED_QUOTIENT(a, b) ((b) == 0 ? 0 : (a) / (b))

#define UPDATE_STEM f32
#define UPDATE_T float
#define UPDATE_C float
#define UPDATE_W float
#define UPDATE_GET SAME
#define UPDATE_PUT SAME
#define UPDATE_DIVIDE QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM f64
#define UPDATE_T double
#define UPDATE_C double
#define UPDATE_W double
#define UPDATE_GET SAME
#define UPDATE_PUT SAME
#define UPDATE_DIVIDE QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM f16
#define UPDATE_T uint16_t
#define UPDATE_C float
#define UPDATE_W float
#define UPDATE_GET weft_f16_to_f32
#define UPDATE_PUT weft_f32_to_f16
#define UPDATE_DIVIDE QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM bf16
#define UPDATE_T uint16_t
#define UPDATE_C float
#define UPDATE_W float
#define UPDATE_GET weft_bf16_to_f32
#define UPDATE_PUT weft_f32_to_bf16
#define UPDATE_DIVIDE QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM i8
#define UPDATE_T int8_t
#define UPDATE_C int8_t
#define UPDATE_W uint32_t
#define UPDATE_GET SAME
#define UPDATE_PUT (int8_t)
#define UPDATE_DIVIDE (int8_t)SIGNED_QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM u8
#define UPDATE_T uint8_t
#define UPDATE_C uint8_t
#define UPDATE_W uint32_t
#define UPDATE_GET SAME
#define UPDATE_PUT (uint8_t)
#define UPDATE_DIVIDE (uint8_t)UNSIGNED_QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM i16
#define UPDATE_T int16_t
#define UPDATE_C int16_t
#define UPDATE_W uint32_t
#define UPDATE_GET SAME
#define UPDATE_PUT (int16_t)
#define UPDATE_DIVIDE (int16_t)SIGNED_QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM u16
#define UPDATE_T uint16_t
#define UPDATE_C uint16_t
#define UPDATE_W uint32_t
#define UPDATE_GET SAME
#define UPDATE_PUT (uint16_t)
#define UPDATE_DIVIDE (uint16_t)UNSIGNED_QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM i32
#define UPDATE_T int32_t
#define UPDATE_C int32_t
#define UPDATE_W uint32_t
#define UPDATE_GET SAME
#define UPDATE_PUT (int32_t)
#define UPDATE_DIVIDE (int32_t)SIGNED_QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM u32
#define UPDATE_T uint32_t
#define UPDATE_C uint32_t
#define UPDATE_W uint32_t
#define UPDATE_GET SAME
#define UPDATE_PUT (uint32_t)
#define UPDATE_DIVIDE (uint32_t)UNSIGNED_QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM i64
#define UPDATE_T int64_t
#define UPDATE_C int64_t
#define UPDATE_W uint64_t
#define UPDATE_GET SAME
#define UPDATE_PUT (int64_t)
#define UPDATE_DIVIDE (int64_t)SIGNED_QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM u64
#define UPDATE_T uint64_t
#define UPDATE_C uint64_t
#define UPDATE_W uint64_t
#define UPDATE_GET SAME
#define UPDATE_PUT (uint64_t)
#define UPDATE_DIVIDE (uint64_t)UNSIGNED_QUOTIENT
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM c64
#define UPDATE_T float _Complex
#define UPDATE_C float _Complex
#define UPDATE_W float _Complex
#define UPDATE_GET SAME
#define UPDATE_PUT SAME
#define UPDATE_DIVIDE QUOTIENT
#define UPDATE_UNORDERED
#include "kernels/cpu/update.tmpl.h"

#define UPDATE_STEM c128
#define UPDATE_T double _Complex
#define UPDATE_C double _Complex
#define UPDATE_W double _Complex
#define UPDATE_GET SAME
#define UPDATE_PUT SAME
#define UPDATE_DIVIDE QUOTIENT
#define UPDATE_UNORDERED
#include "kernels/cpu/update.tmpl.h"

static weft_update_fn *const *const table[WEFT_DTYPE_COUNT] = {
    [WEFT_F32] = row_f32,
    [WEFT_F64] = row_f64,
    [WEFT_F16] = row_f16,
    [WEFT_BF16] = row_bf16,
    [WEFT_I8] = row_i8,
    [WEFT_I16] = row_i16,
    [WEFT_I32] = row_i32,
    [WEFT_I64] = row_i64,
    [WEFT_U8] = row_u8,
    [WEFT_U16] = row_u16,
    [WEFT_U32] = row_u32,
    [WEFT_U64] = row_u64,
    [WEFT_C64] = row_c64,
    [WEFT_C128] = row_c128,
};

weft_update_fn *weft_update_find(weft_update_t update, weft_dtype_t dtype) {
  if ((int)dtype < 0 || dtype >= WEFT_DTYPE_COUNT || table[dtype] == NULL) return NULL;
  return table[dtype][update];
}

enum { GRAIN = 16384 }; /* elements: some ten microseconds, well above what handing a piece over costs */

typedef struct range {
  weft_update_fn *fn;
  char *to;
  const char *from;
  size_t size;
} range_t;

static void run_range(void *arg, int64_t begin, int64_t end) {
  const range_t *r = arg;
  size_t at = (size_t)begin * r->size;
  r->fn(r->to + at, r->from + at, end - begin, false);
}

void weft_update_parallel(weft_thread_pool_t *pool, weft_update_fn *fn, weft_tensor_t *to, const weft_tensor_t *from) {
  range_t r = {fn, to->data, from->data, weft_dtype_size(to->dtype)};
  if (to->count <= GRAIN) {
    if (to->count > 0) fn(to->data, from->data, to->count, false);
    return;
  }
  weft_parallel_for(pool, to->count, GRAIN, run_range, &r);
}
