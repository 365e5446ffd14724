/* kernels/cpu/math/reduce_one.tmpl.h - the loops of reduce.tmpl.h for one element type. */
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

/* One accumulator over n elements: many lanes side by side, so that the loop over them is a vector loop. */
static void WEFT_CAT(RED_STEM, WEFT_CAT(run, SUFFIX))(int64_t n, const void *xv, void *accv) {
  enum { LANES = 32 };
  const ELEM *x = xv;
  RED_ACC acc = *(RED_ACC *)accv;
  int64_t i = 0;
  if (n >= 4 * LANES) {
    RED_ACC lane[LANES];
    for (int k = 0; k < LANES; k++) lane[k] = (RED_ACC)(RED_INIT(SUFFIX));
    for (; i + LANES <= n; i += LANES) {
      for (int k = 0; k < LANES; k++) {
        const RED_ACC v = RED_VALUE(LOAD(x[i + k]));
        lane[k] = (RED_ACC)(RED_JOIN(lane[k], v));
      }
    }
    for (int k = 0; k < LANES; k++) acc = (RED_ACC)(RED_JOIN(acc, lane[k]));
  }
  for (; i < n; i++) {
    const RED_ACC v = RED_VALUE(LOAD(x[i]));
    acc = (RED_ACC)(RED_JOIN(acc, v));
  }
  *(RED_ACC *)accv = acc;
}

/* n accumulators, one element each. */
static void WEFT_CAT(RED_STEM, WEFT_CAT(row, SUFFIX))(int64_t n, const void *xv, void *accv) {
  const ELEM *restrict x = xv;
  RED_ACC *restrict acc = accv;
  for (int64_t i = 0; i < n; i++) {
    const RED_ACC v = RED_VALUE(LOAD(x[i]));
    acc[i] = (RED_ACC)(RED_JOIN(acc[i], v));
  }
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
    WEFT_CAT(RED_STEM, WEFT_CAT(run, SUFFIX)),
    WEFT_CAT(RED_STEM, WEFT_CAT(row, SUFFIX)),
    WEFT_CAT(RED_STEM, WEFT_CAT(finish, SUFFIX)),
};
#undef RED_UNSIGNED
