/* kernels/cpu/math/float_sums.h - sums of floats, or of their squares, that are kept in double: the loops of
 * reduce_one.tmpl.h in vectors by name.
 *
 * The same additions in the same order, so with the same bits, in about half of the time: gcc's own
 * vectors are loaded as floats, cut in two, and converted by halves.
 */
#ifndef WEFT_KERNELS_CPU_MATH_FLOAT_SUMS_H_
#define WEFT_KERNELS_CPU_MATH_FLOAT_SUMS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/loops/simd.h"

enum { WEFT_FLOAT_SUMS_MOST = 32 /* sums side by side */ };

#define UNROLLED_SUMS _Pragma("GCC unroll 16")

/* sum + t, or sum + t * t, in one operation for both, with the bits of two: the square of a float is a double
 * without rounding. Multiplications by one have units of the processor that conversions leave idle. */
static inline weft_simd_wide_t weft_float_sums_add(weft_simd_wide_t sum, weft_simd_wide_t t,
                                                   const bool squares) {
#if WEFT_SIMD_FMA
  for (int k = 0; k < WEFT_SIMD_WIDE; k++) sum[k] = __builtin_fma(t[k], squares ? t[k] : 1.0, sum[k]);
  return sum;
#else
  return sum + (squares ? t * t : t);
#endif
}

/* The sum of the n elements of a run, or of their squares, out of `width` sums side by side, which are
 * joined in pairs. width: a constant, a multiple of WEFT_SIMD_WIDE. A last part that is not whole is filled
 * up with zeros: a sum begins with zero, so that they change no bit. */
static inline __attribute__((always_inline)) double weft_float_sums_run(int64_t n, const float *x,
                                                                        const int width, const bool squares) {
  weft_simd_wide_t sums[WEFT_FLOAT_SUMS_MOST / WEFT_SIMD_WIDE];
  const int vectors = width / WEFT_SIMD_WIDE;
  int64_t i = 0;
  UNROLLED_SUMS for (int v = 0; v < vectors; v++) sums[v] = (weft_simd_wide_t){0};
  for (; i + width <= n; i += width) {
    UNROLLED_SUMS for (int v = 0; v < vectors; v++) {
      sums[v] = weft_float_sums_add(sums[v], weft_simd_load_wide(x + i + v * WEFT_SIMD_WIDE), squares);
    }
  }
  UNROLLED_SUMS for (int v = 0; v < vectors; v++) {
    if (i >= n) break;
    const weft_simd_wide_t t =
        n - i < WEFT_SIMD_WIDE ? weft_simd_load_wide_part(x + i, n - i) : weft_simd_load_wide(x + i);
    sums[v] = weft_float_sums_add(sums[v], t, squares);
    i += WEFT_SIMD_WIDE;
  }
  UNROLLED_SUMS for (int half = vectors / 2; half > 0; half /= 2) {
    UNROLLED_SUMS for (int v = 0; v < half; v++) sums[v] += sums[v + half];
  }
  double one[WEFT_SIMD_WIDE];
  __builtin_memcpy(one, sums, sizeof one);
  for (int half = WEFT_SIMD_WIDE / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; k++) one[k] += one[k + half];
  }
  return one[0];
}

/* WEFT_FLOAT_SUMS_MOST sums over `rows` rows of as many elements, `stride` apart, one element of each row for
 * each, added to acc. Meanwhile as many bytes are fetched from `next` on, which goes on by `next_step` bytes
 * with each row; NULL: none are. */
static inline __attribute__((always_inline)) void weft_float_sums_columns(int64_t rows, int64_t stride,
                                                                          const float *x, double *acc,
                                                                          const char *next, int64_t next_step,
                                                                          const bool squares) {
  enum { VECTORS = WEFT_FLOAT_SUMS_MOST / WEFT_SIMD_WIDE, LINE_BYTES = 64 };
  weft_simd_wide_t sums[VECTORS];
  __builtin_memcpy(sums, acc, sizeof sums);
  for (int64_t r = 0; r < rows; r++, x += stride) {
    if (next != NULL) {
      for (size_t line = 0; line < WEFT_FLOAT_SUMS_MOST * sizeof *x; line += LINE_BYTES)
        __builtin_prefetch(next + line);
      next += next_step;
    }
    UNROLLED_SUMS for (int v = 0; v < VECTORS; v++) {
      sums[v] = weft_float_sums_add(sums[v], weft_simd_load_wide(x + v * WEFT_SIMD_WIDE), squares);
    }
  }
  __builtin_memcpy(acc, sums, sizeof sums);
}

#undef UNROLLED_SUMS

#endif /* WEFT_KERNELS_CPU_MATH_FLOAT_SUMS_H_ */
