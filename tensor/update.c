/* tensor/update.c - the loops of updates: a table by dtype for each. */
#include "tensor/update.h"

#include <float.h>
#include <string.h>

#include "base/parallel_for.h"

#define MAP_STEM add
#define MAP_COMP WRAP
#define UPDATE(a, b) ((a) + (b))
#include "tensor/update_numbers.tmpl.h"
#define MAP_STEM sub
#define MAP_COMP WRAP
#define UPDATE(a, b) ((a) - (b))
#include "tensor/update_numbers.tmpl.h"
#define MAP_STEM mul
#define MAP_COMP WRAP
#define UPDATE(a, b) ((a) * (b))
#include "tensor/update_numbers.tmpl.h"
#define MAP_STEM min
#define MAP_COMP COMP
#define UPDATE(a, b) ((b) < (a) ? (b) : (a))
#include "tensor/update_reals.tmpl.h"
#define MAP_STEM max
#define MAP_COMP COMP
#define UPDATE(a, b) ((a) < (b) ? (b) : (a))
#include "tensor/update_reals.tmpl.h"

/* Quotients differ by kind of number. The least integer divided by -1 wraps, too. */
#define MAP_STEM div
#define MAP_COMP COMP
#define UPDATE(a, b) ((a) / (b))
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_COMPLEX
#include "tensor/update_loops.tmpl.h"
#define UPDATE(a, b) ((b) == 0 ? 0 : (b) == -1 ? 0 - (uint64_t)(a) : (uint64_t)((a) / (b)))
#define EACH_I32_I64
#define EACH_I8_I16
#include "tensor/update_loops.tmpl.h"
#define UPDATE(a, b) ((b) == 0 ? 0 : (a) / (b))
#define EACH_UNSIGNED
#include "tensor/update_loops.tmpl.h"
#include "tensor/update_numbers.tmpl.h"

static weft_update_fn *const *const tables[WEFT_UPDATE_COUNT] = {
    [WEFT_UPDATE_ADD] = add_fns, [WEFT_UPDATE_SUB] = sub_fns, [WEFT_UPDATE_MUL] = mul_fns,
    [WEFT_UPDATE_DIV] = div_fns, [WEFT_UPDATE_MIN] = min_fns, [WEFT_UPDATE_MAX] = max_fns,
};

/* The sum of truth values: whether any is true. */
static void add_bool(void *to, const void *from, int64_t n, bool is_scalar) {
  bool *a = to;
  const bool *b = from;
  for (int64_t i = 0; i < n; i++) a[i] = a[i] || b[is_scalar ? 0 : i];
}

weft_update_fn *weft_update_find(weft_update_t update, weft_dtype_t dtype) {
  if (dtype == WEFT_BOOL && update == WEFT_UPDATE_ADD) return add_bool;
  if ((int)dtype < 0 || dtype >= WEFT_DTYPE_COUNT || tables[update] == NULL) return NULL;
  return tables[update][dtype];
}

/* ---- where folds start ---- */

/* The finite ends of each type's range. */
static void extreme(weft_dtype_t dtype, bool highest, void *to) {
  uint64_t all = ~(uint64_t)0;
  int bits = (int)weft_dtype_size(dtype) * 8;
  switch (dtype) {
    case WEFT_F32: *(float *)to = highest ? FLT_MAX : -FLT_MAX; return;
    case WEFT_F64: *(double *)to = highest ? DBL_MAX : -DBL_MAX; return;
    case WEFT_F16: *(uint16_t *)to = highest ? 0x7bff : 0xfbff; return;
    case WEFT_BF16: *(uint16_t *)to = highest ? 0x7f7f : 0xff7f; return;
    case WEFT_BOOL:
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

static void one(weft_dtype_t dtype, void *to) {
  const int64_t integer = 1; /* little-endian: a smaller type is its first bytes */
  switch (dtype) {
    case WEFT_F32: *(float *)to = 1; return;
    case WEFT_F64: *(double *)to = 1; return;
    case WEFT_F16: *(uint16_t *)to = weft_f32_to_f16(1); return;
    case WEFT_BF16: *(uint16_t *)to = weft_f32_to_bf16(1); return;
    case WEFT_C64: *(weft_c64_t *)to = (weft_c64_t){1, 0}; return;
    case WEFT_C128: *(weft_c128_t *)to = (weft_c128_t){1, 0}; return;
    default: memcpy(to, &integer, weft_dtype_size(dtype)); return;
  }
}

enum { REPEATED = 1024 }; /* elements that are copied at once: the first cache holds them */

void weft_update_identity(weft_update_t how, weft_dtype_t dtype, int64_t n, void *to) {
  size_t size = weft_dtype_size(dtype);
  if (n <= 0) return;
  switch (how) {
    case WEFT_UPDATE_MUL: one(dtype, to); break;
    case WEFT_UPDATE_MAX: extreme(dtype, false, to); break;
    case WEFT_UPDATE_MIN: extreme(dtype, true, to); break;
    default: memset(to, 0, size * (size_t)n); return;
  }
  const size_t most = (size_t)n < REPEATED ? (size_t)n : REPEATED;
  for (size_t done = 1, k; done < (size_t)n; done += k) {
    k = done < most ? done : most;
    if (k > (size_t)n - done) k = (size_t)n - done;
    memcpy((char *)to + done * size, to, k * size);
  }
}

/* ---- whole tensors ---- */

typedef struct update_range {
  weft_update_fn *fn;
  char *to;
  const char *from;
  size_t size;
} update_range_t;

static void run_range(void *arg, int64_t begin, int64_t end) {
  const update_range_t *r = arg;
  size_t at = (size_t)begin * r->size;
  r->fn(r->to + at, r->from + at, end - begin, false);
}

void weft_update_parallel(weft_thread_pool_t *pool, weft_update_fn *fn, weft_tensor_t *to,
                          const weft_tensor_t *from) {
  update_range_t r = {fn, to->data, from->data, weft_dtype_size(to->dtype)};
  weft_parallel_for_cost(pool, to->count, (weft_unit_cost_t){.bytes = 3 * (double)r.size}, run_range, &r);
}
