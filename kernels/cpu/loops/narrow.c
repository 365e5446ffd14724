/* kernels/cpu/loops/narrow.c - see the header. */
#include "kernels/cpu/loops/narrow.h"

#include <string.h>

#include "kernels/cpu/loops/simd.h"
#include "tensor/half.h"

#if WEFT_SIMD_F16
/* The last numbers stand in a vector that is filled up with zeros. */
void weft_widen_f16(int64_t n, const uint16_t *x, float *y) {
  int64_t i = 0;
  for (; i + WEFT_SIMD <= n; i += WEFT_SIMD) weft_simd_store(y + i, weft_simd_load_f16(x + i));
  if (i == n) return;
  uint16_t last[WEFT_SIMD] = {0};
  memcpy(last, x + i, (size_t)(n - i) * sizeof *x);
  const weft_simd_t v = weft_simd_load_f16(last);
  memcpy(y + i, &v, (size_t)(n - i) * sizeof *y);
}

void weft_narrow_f16(int64_t n, const float *x, uint16_t *y) {
  int64_t i = 0;
  for (; i + WEFT_SIMD <= n; i += WEFT_SIMD) weft_simd_store_f16(y + i, weft_simd_load(x + i));
  if (i == n) return;
  weft_simd_t v = {0};
  uint16_t last[WEFT_SIMD];
  memcpy(&v, x + i, (size_t)(n - i) * sizeof *x);
  weft_simd_store_f16(last, v);
  memcpy(y + i, last, (size_t)(n - i) * sizeof *y);
}
#else
void weft_widen_f16(int64_t n, const uint16_t *restrict x, float *restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] = weft_f16_to_f32(x[i]);
}

void weft_narrow_f16(int64_t n, const float *restrict x, uint16_t *restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] = weft_f32_to_f16(x[i]);
}
#endif

void weft_widen_bf16(int64_t n, const uint16_t *restrict x, float *restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] = weft_bf16_to_f32(x[i]);
}

static void narrow_bf16(int64_t n, const float *restrict x, uint16_t *restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] = weft_f32_to_bf16(x[i]);
}

#if WEFT_SIMD_PAIRS
WEFT_SIMD_PAIRS_TARGET static void narrow_bf16_by_instruction(int64_t n, const float *x, uint16_t *y) {
  enum { STEP = 2 * WEFT_SIMD };
  int64_t i = 0;
  for (; i + STEP <= n; i += STEP) {
    if (!weft_simd_store_bf16(y + i, weft_simd_load(x + i), weft_simd_load(x + i + WEFT_SIMD)))
      narrow_bf16(STEP, x + i, y + i);
  }
  narrow_bf16(n - i, x + i, y + i);
}
#endif

void weft_narrow_bf16(int64_t n, const float *x, uint16_t *y) {
#if WEFT_SIMD_PAIRS
  if (weft_simd_has_pairs()) {
    narrow_bf16_by_instruction(n, x, y);
    return;
  }
#endif
  narrow_bf16(n, x, y);
}
