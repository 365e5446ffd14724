/* kernels/cpu/array/sorted_bound_one.tmpl.h - where values would go into a row, for one element type. */

static bool WEFT_CAT(is_sorted, SUFFIX)(const ELEM *row, int64_t n) {
  int in_order = 1;
  for (int64_t i = 0; i + 1 < n; i++) in_order &= LOAD(row[i]) <= LOAD(row[i + 1]);
  return in_order != 0;
}

/* The places of SEARCHES values in a sorted row of n elements, n > 0. The searches go side by side, by
 * steps that depend on n alone: none waits for another one's element, and nothing branches on a value. */
static inline __attribute__((always_inline)) void WEFT_CAT(bound_together, SUFFIX)(const ELEM *row, int64_t n,
                                                                                   const ELEM *values,
                                                                                   const bool is_upper,
                                                                                   int64_t *low) {
  COMP v[SEARCHES];
  for (int k = 0; k < SEARCHES; k++) low[k] = 0, v[k] = LOAD(values[k]);
  for (int64_t half = n / 2; n > 1; n -= half, half = n / 2) {
#pragma GCC unroll 8
    for (int k = 0; k < SEARCHES; k++) {
      const COMP x = LOAD(row[low[k] + half - 1]);
      const int64_t is_behind = is_upper ? !(v[k] < x) : x < v[k];
      low[k] += -is_behind & half;
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < SEARCHES; k++) {
    const COMP x = LOAD(row[low[k]]);
    low[k] += is_upper ? !(v[k] < x) : x < v[k];
  }
}

/* The place of one value by the steps of std::lower_bound or std::upper_bound, which show where a row is not
 * sorted. */
static inline __attribute__((always_inline)) int64_t WEFT_CAT(bound_step, SUFFIX)(const ELEM *row, int64_t n,
                                                                                  COMP v,
                                                                                  const bool is_upper) {
  int64_t low = 0;
  while (n > 0) {
    const int64_t half = n / 2;
    const COMP x = LOAD(row[low + half]);
    const bool is_behind = is_upper ? !(v < x) : x < v;
    low = is_behind ? low + half + 1 : low;
    n = is_behind ? n - half - 1 : half;
  }
  return low;
}

static inline __attribute__((always_inline)) void WEFT_CAT(bound_of, SUFFIX)(const ELEM *row, int64_t n,
                                                                             const ELEM *values,
                                                                             int64_t count, bool in_order,
                                                                             const bool is_upper,
                                                                             int64_t *out) {
  int64_t i = 0;
  for (; in_order && i + SEARCHES <= count; i += SEARCHES) {
    WEFT_CAT(bound_together, SUFFIX)(row, n, values + i, is_upper, out + i);
  }
  for (; i < count; i++) out[i] = WEFT_CAT(bound_step, SUFFIX)(row, n, LOAD(values[i]), is_upper);
}

static void WEFT_CAT(bound, SUFFIX)(const void *row, int64_t n, const void *values, int64_t count,
                                    bool is_upper, int64_t *out) {
  const bool in_order = count >= n / WORTH_A_LOOK && WEFT_CAT(is_sorted, SUFFIX)(row, n);
  if (is_upper) {
    WEFT_CAT(bound_of, SUFFIX)(row, n, values, count, in_order, true, out);
  } else {
    WEFT_CAT(bound_of, SUFFIX)(row, n, values, count, in_order, false, out);
  }
}
