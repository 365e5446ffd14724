/* kernels/cpu/math/reduce_one.tmpl.h - the loops of reduce.tmpl.h for one element type. */
/* Floats that are summed in double: float_sums.h has the loops. */
#define RED_IS_FLOAT_SUM                                                                        \
  (RED_SUMS != NO_SUMS && sizeof(ELEM) == sizeof(float) && sizeof(RED_ACC) == sizeof(double) && \
   (ELEM)0.5 != 0)
#ifdef IS_COMPLEX
#define RED_UNSIGNED 0
#elif defined(IS_UNSIGNED)
#define RED_UNSIGNED 1
#else
#define RED_UNSIGNED 0
#endif
static void WEFT_CAT(RED_STEM, WEFT_CAT(init, SUFFIX))(int64_t n, void *accv) {
  RED_ACC *acc = accv;
  for (int64_t i = 0; i < n; i++) acc[i] = (RED_ACC)(RED_INIT(SUFFIX));
}

static void WEFT_CAT(RED_STEM, WEFT_CAT(join, SUFFIX))(int64_t n, const void *fromv, void *tov) {
  const RED_ACC *from = fromv;
  RED_ACC *to = tov;
  for (int64_t i = 0; i < n; i++) to[i] = (RED_ACC)(RED_JOIN(to[i], from[i]));
}

/* WIDTH accumulators over rows of as many elements, one element of each row for each. Meanwhile as many bytes
 * are fetched from `next` on, which goes on by `next_step` with each row; NULL: none are. */
static inline void WEFT_CAT(RED_STEM, WEFT_CAT(lanes, SUFFIX))(int64_t rows, int64_t stride, const ELEM *x,
                                                               RED_ACC *acc, const char *next,
                                                               int64_t next_step) {
  if (RED_IS_FLOAT_SUM) {
    weft_float_sums_columns(rows, stride, (const void *)x, (void *)acc, next, next_step, RED_SUMS == SQUARES);
    return;
  }
  RED_ACC lane[WIDTH];
  for (int k = 0; k < WIDTH; k++) lane[k] = acc[k];
  for (int64_t r = 0; r < rows; r++, x += stride) {
    if (next != NULL) {
      for (size_t line = 0; line < WIDTH * sizeof(ELEM); line += LINE) __builtin_prefetch(next + line);
      next += next_step;
    }
    for (int k = 0; k < WIDTH; k++) {
      const RED_ACC v = RED_VALUE(LOAD(x[k]));
      lane[k] = (RED_ACC)(RED_JOIN(lane[k], v));
    }
  }
  for (int k = 0; k < WIDTH; k++) acc[k] = lane[k];
}

#ifdef RED_EXTREME
/* The same as `run` below, of floats and halfs: whether one is NaN is asked once, at the end. A NaN is what
 * has the greatest bits beside the sign. */
static inline __attribute__((always_inline)) float WEFT_CAT(RED_STEM,
                                                            WEFT_CAT(float_run, SUFFIX))(int64_t n,
                                                                                         const ELEM *x,
                                                                                         const int width) {
  float lane[WIDTH];
  uint32_t most[WIDTH]; /* bits of an element, twice as large */
  int64_t i = 0;
  for (int k = 0; k < width; k++) lane[k] = (float)(RED_INIT(SUFFIX)), most[k] = 0;
  for (; i + width <= n; i += width) {
#pragma GCC unroll 1
    for (int k = 0; k < width; k++) {
      const float v = (float)LOAD(x[i + k]);
      const uint32_t bits = bits_of(v) << 1;
      lane[k] = RED_EXTREME(lane[k], v);
      most[k] = most[k] > bits ? most[k] : bits;
    }
  }
  for (int64_t k = 0; i + k < n; k++) {
    const float v = (float)LOAD(x[i + k]);
    const uint32_t bits = bits_of(v) << 1;
    lane[k] = RED_EXTREME(lane[k], v);
    most[k] = most[k] > bits ? most[k] : bits;
  }
#pragma GCC unroll 8
  for (int half = width / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; k++) {
      lane[k] = RED_EXTREME(lane[k], lane[k + half]);
      most[k] = most[k] > most[k + half] ? most[k] : most[k + half];
    }
  }
  return most[0] > 2 * bits_of(INFINITY) ? NAN : lane[0];
}
#endif

/* An accumulator over the n elements of a run, out of `width` lanes side by side, which are joined in pairs.
 */
static inline __attribute__((always_inline)) RED_ACC WEFT_CAT(RED_STEM,
                                                              WEFT_CAT(run, SUFFIX))(int64_t n, const ELEM *x,
                                                                                     const int width) {
  if (RED_IS_FLOAT_SUM) return (RED_ACC)weft_float_sums_run(n, (const void *)x, width, RED_SUMS == SQUARES);
#ifdef RED_EXTREME
  if (sizeof(COMP) == sizeof(float) && (COMP)0.5 != 0)
    return (RED_ACC)WEFT_CAT(RED_STEM, WEFT_CAT(float_run, SUFFIX))(n, x, width);
#endif
  RED_ACC lane[WIDTH];
  int64_t i = 0;
  for (int k = 0; k < width; k++) lane[k] = (RED_ACC)(RED_INIT(SUFFIX));
  for (; i + width <= n; i += width) {
#pragma GCC unroll 1 /* a loop is what becomes vectors of any kind of join */
    for (int k = 0; k < width; k++) {
      const RED_ACC v = RED_VALUE(LOAD(x[i + k]));
      lane[k] = (RED_ACC)(RED_JOIN(lane[k], v));
    }
  }
  for (int64_t k = 0; i + k < n; k++) {
    const RED_ACC v = RED_VALUE(LOAD(x[i + k]));
    lane[k] = (RED_ACC)(RED_JOIN(lane[k], v));
  }
#pragma GCC unroll 8
  for (int half = width / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; k++) lane[k] = (RED_ACC)(RED_JOIN(lane[k], lane[k + half]));
  }
  return lane[0];
}

/* Each of `rows` runs of n elements into its own accumulator. A short run has few lanes: joining them is most
 * of the work, and runs do not wait for each other. */
static void WEFT_CAT(RED_STEM, WEFT_CAT(runs, SUFFIX))(int64_t rows, int64_t n, const void *xv, void *accv) {
  const ELEM *x = xv;
  RED_ACC *acc = accv;
  if (n < SHORT_RUN) {
    for (int64_t r = 0; r < rows; r++) {
      const RED_ACC v = WEFT_CAT(RED_STEM, WEFT_CAT(run, SUFFIX))(n, x + r * n, SHORT_WIDTH);
      acc[r] = (RED_ACC)(RED_JOIN(acc[r], v));
    }
  } else {
    for (int64_t r = 0; r < rows; r++) {
      const RED_ACC v = WEFT_CAT(RED_STEM, WEFT_CAT(run, SUFFIX))(n, x + r * n, WIDTH);
      acc[r] = (RED_ACC)(RED_JOIN(acc[r], v));
    }
  }
}

/* n accumulators over rows of n elements. Rows wider than the lanes are taken a few at a time, which the
 * first-level cache holds: for each of its lanes an accumulator is loaded once for all of them. The next ones
 * are fetched meanwhile in the order of memory, which the processor does not see in these steps by itself. */
static void WEFT_CAT(RED_STEM, WEFT_CAT(columns, SUFFIX))(int64_t rows, int64_t stride, int64_t n,
                                                          const ELEM *x, RED_ACC *acc) {
  const int64_t fits = TOGETHER / n, together = n <= WIDTH ? rows : fits > LEAST_ROWS ? fits : LEAST_ROWS;
  for (int64_t m = 0; rows > 0; rows -= m, x += m * stride) {
    int64_t at = 0;
    m = rows < together ? rows : together;
    const char *next = rows > m ? (const char *)(x + m * stride) : NULL;
    const int64_t step = stride == n ? WIDTH : stride, column = stride == n ? m : 1;
    for (; at + WIDTH <= n; at += WIDTH) {
      WEFT_CAT(RED_STEM, WEFT_CAT(lanes, SUFFIX))
      (m, stride, x + at, acc + at, next == NULL ? NULL : next + at * column * (int64_t)sizeof(ELEM),
       step * (int64_t)sizeof(ELEM));
    }
    for (int64_t r = 0; r < m && at < n; r++) {
      for (int64_t k = at; k < n; k++) {
        const RED_ACC v = RED_VALUE(LOAD(x[r * stride + k]));
        acc[k] = (RED_ACC)(RED_JOIN(acc[k], v));
      }
    }
  }
}

/* The same; of many rows that are narrow and follow each other, as many as make up whole lanes are one. */
static void WEFT_CAT(RED_STEM, WEFT_CAT(rows, SUFFIX))(int64_t rows, int64_t stride, int64_t n,
                                                       const void *xv, void *accv) {
  const ELEM *x = xv;
  RED_ACC *acc = accv;
  if (n < WIDTH && stride == n && rows >= 4 * WIDTH) {
    const int64_t together = WIDTH / common_divisor(n, WIDTH), wide = together * n, num = rows / together;
    RED_ACC many[WIDTH * WIDTH];
    for (int64_t k = 0; k < wide; k++) many[k] = (RED_ACC)(RED_INIT(SUFFIX));
    WEFT_CAT(RED_STEM, WEFT_CAT(columns, SUFFIX))(num, wide, wide, x, many);
    for (int64_t k = 0; k < wide; k++) acc[k % n] = (RED_ACC)(RED_JOIN(acc[k % n], many[k]));
    x += num * wide;
    rows -= num * together;
  }
  WEFT_CAT(RED_STEM, WEFT_CAT(columns, SUFFIX))(rows, stride, n, x, acc);
}

static void WEFT_CAT(RED_STEM, WEFT_CAT(finish, SUFFIX))(int64_t n, const void *accv, int64_t count,
                                                         void *yv) {
  const RED_ACC *acc = accv;
  ELEM *y = yv;
  (void)count;
  for (int64_t i = 0; i < n; i++) y[i] = STORE(RED_FINISH(acc[i], count));
}

static const reduce_fns_t WEFT_CAT(RED_STEM, SUFFIX) = {
    sizeof(RED_ACC),
    WEFT_CAT(RED_STEM, WEFT_CAT(init, SUFFIX)),
    WEFT_CAT(RED_STEM, WEFT_CAT(join, SUFFIX)),
    WEFT_CAT(RED_STEM, WEFT_CAT(runs, SUFFIX)),
    WEFT_CAT(RED_STEM, WEFT_CAT(rows, SUFFIX)),
    WEFT_CAT(RED_STEM, WEFT_CAT(finish, SUFFIX)),
};
#undef RED_IS_FLOAT_SUM
#undef RED_UNSIGNED
