/* kernels/cpu/loops/turn.h - square blocks of elements, transposed in registers.
 *
 * A block is read by rows and written by rows, so that each line of either side is touched once. Shuffles of
 * gcc's vector extension: log2(side) rounds, each of which exchanges halves of pairs of rows.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_TURN_H_
#define WEFT_KERNELS_CPU_LOOPS_TURN_H_

#include <stdint.h>
#include <string.h>

/* __builtin_shuffle(a, b, places) is gcc's; clang has places as constants behind the operands. */
#if defined(__clang__)
#define WEFT_SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define WEFT_SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif

/* weft_turn_4bytes: to[j][i] = from[i][j] for 8 x 8 elements of 4 bytes; rows are from_step and to_step
 * elements apart. Rows of `to` are written in their order, each as a whole, so that one may overlap the next.
 * weft_turn_8bytes, weft_turn_2bytes: the same for 4 x 4 elements of 8 bytes, and for 8 x 8 of 2. */
#if defined(__AVX2__)
typedef uint32_t weft_turn8_t __attribute__((vector_size(32)));
typedef uint32_t weft_turn8_at_t __attribute__((vector_size(32), aligned(4), may_alias));

static inline void weft_turn_4bytes(const void *from, int64_t from_step, void *to, int64_t to_step) {
  const uint32_t *f = from;
  uint32_t *t = to;
  weft_turn8_t r[8], s[8];
  for (int i = 0; i < 8; i++) r[i] = *(const weft_turn8_at_t *)(const void *)(f + i * from_step);
  for (int i = 0; i < 8; i += 2) { /* pairs of rows: elements alternate */
    s[i] = WEFT_SHUFFLE(weft_turn8_t, r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[i + 1] = WEFT_SHUFFLE(weft_turn8_t, r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) { /* pairs of pairs */
    r[i] = WEFT_SHUFFLE(weft_turn8_t, s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 1] = WEFT_SHUFFLE(weft_turn8_t, s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    r[i + 2] = WEFT_SHUFFLE(weft_turn8_t, s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 3] = WEFT_SHUFFLE(weft_turn8_t, s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; i++) { /* halves */
    s[i] = WEFT_SHUFFLE(weft_turn8_t, r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    s[i + 4] = WEFT_SHUFFLE(weft_turn8_t, r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; i++) *(weft_turn8_at_t *)(void *)(t + i * to_step) = s[i];
}

typedef uint64_t weft_turn4_t __attribute__((vector_size(32)));
typedef uint64_t weft_turn4_at_t __attribute__((vector_size(32), aligned(8), may_alias));

static inline void weft_turn_8bytes(const void *from, int64_t from_step, void *to, int64_t to_step) {
  const uint64_t *f = from;
  uint64_t *t = to;
  weft_turn4_t r[4], s[4];
  for (int i = 0; i < 4; i++) r[i] = *(const weft_turn4_at_t *)(const void *)(f + i * from_step);
  for (int i = 0; i < 4; i += 2) {
    s[i] = WEFT_SHUFFLE(weft_turn4_t, r[i], r[i + 1], 0, 4, 2, 6);
    s[i + 1] = WEFT_SHUFFLE(weft_turn4_t, r[i], r[i + 1], 1, 5, 3, 7);
  }
  for (int i = 0; i < 2; i++) {
    r[i] = WEFT_SHUFFLE(weft_turn4_t, s[i], s[i + 2], 0, 1, 4, 5);
    r[i + 2] = WEFT_SHUFFLE(weft_turn4_t, s[i], s[i + 2], 2, 3, 6, 7);
  }
  for (int i = 0; i < 4; i++) *(weft_turn4_at_t *)(void *)(t + i * to_step) = r[i];
}
#else
typedef uint32_t weft_turn8_t __attribute__((vector_size(16)));
typedef uint32_t weft_turn8_at_t __attribute__((vector_size(16), aligned(4), may_alias));

/* 4 x 4 elements. */
static inline void weft_turn_quarter(const uint32_t *f, int64_t from_step, weft_turn8_t *out) {
  weft_turn8_t r[4], s[4];
  for (int i = 0; i < 4; i++) r[i] = *(const weft_turn8_at_t *)(const void *)(f + i * from_step);
  for (int i = 0; i < 4; i += 2) {
    s[i] = WEFT_SHUFFLE(weft_turn8_t, r[i], r[i + 1], 0, 4, 1, 5);
    s[i + 1] = WEFT_SHUFFLE(weft_turn8_t, r[i], r[i + 1], 2, 6, 3, 7);
  }
  for (int i = 0; i < 2; i++) {
    out[2 * i] = WEFT_SHUFFLE(weft_turn8_t, s[i], s[i + 2], 0, 1, 4, 5);
    out[2 * i + 1] = WEFT_SHUFFLE(weft_turn8_t, s[i], s[i + 2], 2, 3, 6, 7);
  }
}

static inline void weft_turn_4bytes(const void *from, int64_t from_step, void *to, int64_t to_step) {
  const uint32_t *f = from;
  uint32_t *t = to;
  for (int half = 0; half < 8; half += 4) {
    weft_turn8_t left[4], right[4];
    weft_turn_quarter(f + half, from_step, left);
    weft_turn_quarter(f + 4 * from_step + half, from_step, right);
    for (int i = 0; i < 4; i++) {
      *(weft_turn8_at_t *)(void *)(t + (half + i) * to_step) = left[i];
      *(weft_turn8_at_t *)(void *)(t + (half + i) * to_step + 4) = right[i];
    }
  }
}

typedef uint64_t weft_turn4_t __attribute__((vector_size(16)));
typedef uint64_t weft_turn4_at_t __attribute__((vector_size(16), aligned(8), may_alias));

static inline void weft_turn_8bytes(const void *from, int64_t from_step, void *to, int64_t to_step) {
  const uint64_t *f = from;
  uint64_t *t = to;
  for (int i = 0; i < 4; i += 2) {
    for (int j = 0; j < 4; j += 2) {
      const weft_turn4_t a = *(const weft_turn4_at_t *)(const void *)(f + j * from_step + i),
                         b = *(const weft_turn4_at_t *)(const void *)(f + (j + 1) * from_step + i);
      *(weft_turn4_at_t *)(void *)(t + i * to_step + j) = WEFT_SHUFFLE(weft_turn4_t, a, b, 0, 2);
      *(weft_turn4_at_t *)(void *)(t + (i + 1) * to_step + j) = WEFT_SHUFFLE(weft_turn4_t, a, b, 1, 3);
    }
  }
}
#endif

typedef uint16_t weft_turn16_t __attribute__((vector_size(16)));
typedef uint16_t weft_turn16_at_t __attribute__((vector_size(16), aligned(2), may_alias));

static inline void weft_turn_2bytes(const void *from, int64_t from_step, void *to, int64_t to_step) {
  const uint16_t *f = from;
  uint16_t *t = to;
  weft_turn16_t r[8], s[8];
  for (int i = 0; i < 8; i++) r[i] = *(const weft_turn16_at_t *)(const void *)(f + i * from_step);
  for (int i = 0; i < 8; i += 2) {
    s[i] = WEFT_SHUFFLE(weft_turn16_t, r[i], r[i + 1], 0, 8, 1, 9, 2, 10, 3, 11);
    s[i + 1] = WEFT_SHUFFLE(weft_turn16_t, r[i], r[i + 1], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int h = 0; h < 2; h++) {
      r[i + 2 * h] = WEFT_SHUFFLE(weft_turn16_t, s[i + h], s[i + h + 2], 0, 1, 8, 9, 2, 3, 10, 11);
      r[i + 2 * h + 1] = WEFT_SHUFFLE(weft_turn16_t, s[i + h], s[i + h + 2], 4, 5, 12, 13, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; i++) { /* row i of r has columns 2 i and 2 i + 1 of the first four rows */
    s[2 * i] = WEFT_SHUFFLE(weft_turn16_t, r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    s[2 * i + 1] = WEFT_SHUFFLE(weft_turn16_t, r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; i++) *(weft_turn16_at_t *)(void *)(t + i * to_step) = s[i];
}

#endif /* WEFT_KERNELS_CPU_LOOPS_TURN_H_ */
