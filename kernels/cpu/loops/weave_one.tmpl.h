/* kernels/cpu/loops/weave_one.tmpl.h - a few runs woven into one, element by element, and taken apart again,
 * for elements of type WORD: planes to pixels, and pixels to planes. */

/* to[r * n + i] = from[i * step + r]; n is a constant, so that the compiler shuffles vectors. */
static inline __attribute__((always_inline)) void WEFT_CAT(weave, SUFFIX)(const WORD *restrict from,
                                                                          int64_t step, WORD *restrict to,
                                                                          int64_t rows, const int n) {
  for (int64_t r = 0; r < rows; r++) {
    for (int i = 0; i < n; i++) to[r * n + i] = from[i * step + r];
  }
}

/* to[i * step + r] = from[r * n + i]. */
static inline __attribute__((always_inline)) void WEFT_CAT(part, SUFFIX)(const WORD *restrict from,
                                                                         WORD *restrict to, int64_t step,
                                                                         int64_t rows, const int n) {
  for (int64_t r = 0; r < rows; r++) {
    for (int i = 0; i < n; i++) to[i * step + r] = from[r * n + i];
  }
}

/* n: 2 to MOST_WOVEN. */
static void WEFT_CAT(weave_few, SUFFIX)(const void *from, int64_t step, void *to, int64_t rows, int64_t n) {
  switch (n) {
    case 2: WEFT_CAT(weave, SUFFIX)(from, step, to, rows, 2); break;
    case 3: WEFT_CAT(weave, SUFFIX)(from, step, to, rows, 3); break;
    default: WEFT_CAT(weave, SUFFIX)(from, step, to, rows, 4); break;
  }
}

static void WEFT_CAT(part_few, SUFFIX)(const void *from, void *to, int64_t step, int64_t rows, int64_t n) {
  switch (n) {
    case 2: WEFT_CAT(part, SUFFIX)(from, to, step, rows, 2); break;
    case 3: WEFT_CAT(part, SUFFIX)(from, to, step, rows, 3); break;
    default: WEFT_CAT(part, SUFFIX)(from, to, step, rows, 4); break;
  }
}
