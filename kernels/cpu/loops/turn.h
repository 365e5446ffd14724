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

typedef uint32_t weft_turn8_t __attribute__((vector_size(32)));
typedef uint32_t weft_turn8_at_t __attribute__((vector_size(32), aligned(4), may_alias));

/* to[j][i] = from[i][j] for 8 x 8 elements of 4 bytes; rows are from_step and to_step elements apart. Rows of
 * `to` are written in their order, each as a whole, so that one may overlap the next. */
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

#endif /* WEFT_KERNELS_CPU_LOOPS_TURN_H_ */
