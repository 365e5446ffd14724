/* kernels/cpu/array/key_table.c - see the header. A key is an integer with the bits of the number; of a half,
 * those of the float that it is. */
#include "kernels/cpu/array/key_table.h"

#include "kernels/cpu/loops/cast.h"

enum {
  FIRST_BITS = 10, /* slots at first: a table of few numbers stays in the first-level cache */
  GROWTH = 2,      /* and four times as many each time that half of them are taken */
  AHEAD = 8,       /* a slot is asked for so many elements before it is looked at */
};

static uint64_t key_hash(uint64_t key) { return key * 0x9E3779B97F4A7C15u; }

/* Twice the key of infinity: of a NaN it is more. Of types without NaN nothing is. */
static uint64_t twice_infinity(weft_dtype_t dtype) {
  if (!weft_dtype_is_floating(dtype)) return UINT64_MAX;
  return dtype == WEFT_F64 ? UINT64_C(0xffe0000000000000) : UINT64_C(0xff000000);
}

#define KEY uint32_t
#define PLACE uint32_t
#define SUFFIX narrow
#include "kernels/cpu/array/key_table_one.tmpl.h"
#undef KEY
#undef PLACE
#undef SUFFIX
#define KEY uint64_t
#define PLACE int64_t
#define SUFFIX wide
#include "kernels/cpu/array/key_table_one.tmpl.h"
#undef KEY
#undef PLACE
#undef SUFFIX

bool weft_has_keys(weft_dtype_t dtype) {
  return weft_dtype_is_integer(dtype) || weft_dtype_is_floating(dtype) || dtype == WEFT_BOOL;
}

void weft_key_table_init(weft_key_table_t *t, weft_dtype_t dtype, int64_t most) {
  *t = (weft_key_table_t){.shift = 64 - FIRST_BITS,
                          .is_wide = weft_dtype_size(dtype) == sizeof(uint64_t) || most >= UINT32_MAX};
}

void weft_key_table_deinit(weft_key_table_t *t) {
  weft_free(t->slots);
  t->slots = NULL;
}

bool weft_key_table_add(weft_key_table_t *t, const weft_tensor_t *x, int64_t begin, int64_t n,
                        int64_t *places) {
  return t->is_wide ? add_keys_wide(t, x, begin, n, places) : add_keys_narrow(t, x, begin, n, places);
}

void weft_key_table_find(const weft_key_table_t *t, const weft_tensor_t *x, int64_t begin, int64_t n,
                         bool *found) {
  if (t->is_wide) {
    find_keys_wide(t, x, begin, n, found);
  } else {
    find_keys_narrow(t, x, begin, n, found);
  }
}
