/* kernels/cpu/nn/top_k_one.tmpl.h - the k best of a row, for one element type: larger first, the lower index
 * first among equals. `heap` has room for k + 1 indices, for 2 n if k is n; the worst lies on top.
 *
 * The heap moves the way C++'s standard heaps do (a hole sinks to a leaf, then the value rises), because the
 * order of a result that need not be sorted is the heap's own, and clients compare it with
 * TensorFlow's. NaN is neither better nor worse than anything; where it ends up follows from the same moves.
 */
static bool WEFT_CAT(is_better, SUFFIX)(const ELEM *x, int64_t a, int64_t b) {
  const COMP u = LOAD(x[a]), v = LOAD(x[b]);
  return u > v || (!(v > u) && a < b);
}

/* Puts `value` at the free place `hole`, or above it, at most as high as `top`. */
static void WEFT_CAT(rise, SUFFIX)(const ELEM *x, int64_t *heap, int64_t top, int64_t hole, int64_t value) {
  while (hole > top && WEFT_CAT(is_better, SUFFIX)(x, heap[(hole - 1) / 2], value)) {
    heap[hole] = heap[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  heap[hole] = value;
}

/* Puts `value` into the heap of n indices whose place `hole` is free. */
static void WEFT_CAT(settle, SUFFIX)(const ELEM *x, int64_t *heap, int64_t n, int64_t hole, int64_t value) {
  const int64_t top = hole;
  for (int64_t child = 2 * hole + 1; child < n; child = 2 * hole + 1) {
    if (child + 1 < n && !WEFT_CAT(is_better, SUFFIX)(x, heap[child + 1], heap[child])) child++;
    heap[hole] = heap[child];
    hole = child;
  }
  WEFT_CAT(rise, SUFFIX)(x, heap, top, hole, value);
}

static void WEFT_CAT(heapify, SUFFIX)(const ELEM *x, int64_t *heap, int64_t n) {
  for (int64_t i = n / 2 - 1; i >= 0; i--) WEFT_CAT(settle, SUFFIX)(x, heap, n, i, heap[i]);
}

/* Moves the worst of n indices to their end. */
static void WEFT_CAT(drop_worst, SUFFIX)(const ELEM *x, int64_t *heap, int64_t n) {
  const int64_t last = heap[n - 1];
  heap[n - 1] = heap[0];
  WEFT_CAT(settle, SUFFIX)(x, heap, n - 1, 0, last);
}

/* The first largest number; 0 if there is none. */
static int64_t WEFT_CAT(best, SUFFIX)(const ELEM *x, int64_t n) {
  int64_t at = 0;
  while (at < n && isnan((double)LOAD(x[at]))) at++;
  if (at == n) return 0;
  COMP most = LOAD(x[at]);
  for (int64_t i = at + 1; i < n; i++) {
    const COMP v = LOAD(x[i]);
    if (v > most) {
      at = i;
      most = v;
    }
  }
  return at;
}

/* Sorts the indices [begin, end) by insertion. What beats the first goes there without a look at the others.
 */
static void WEFT_CAT(insert_all, SUFFIX)(const ELEM *x, int64_t *at, int64_t begin, int64_t end) {
  for (int64_t i = begin + 1; i < end; i++) {
    const int64_t v = at[i];
    int64_t hole = i;
    const bool leads = WEFT_CAT(is_better, SUFFIX)(x, v, at[begin]);
    while (hole > begin && (leads || WEFT_CAT(is_better, SUFFIX)(x, v, at[hole - 1]))) {
      at[hole] = at[hole - 1];
      hole--;
    }
    at[hole] = v;
  }
}

/* Sorts all n: merges of runs, which read memory in order. The second half of `at` is room to merge to. */
static void WEFT_CAT(sort_all, SUFFIX)(const ELEM *x, int64_t n, int64_t *at) {
  enum { RUN = 16 };
  int64_t *from = at, *to = at + n;
  for (int64_t i = 0; i < n; i++) at[i] = i;
  for (int64_t i = 0; i < n; i += RUN) WEFT_CAT(insert_all, SUFFIX)(x, at, i, n - i < RUN ? n : i + RUN);
  for (int64_t run = RUN; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      const int64_t middle = n - begin < run ? n : begin + run,
                    end = n - begin < 2 * run ? n : begin + 2 * run;
      int64_t a = begin, b = middle, i = begin;
      while (a < middle &&
             b < end) { /* every index of the second run is higher: equals stay with the first */
        const int64_t u = from[a], v = from[b];
        const bool second = LOAD(x[v]) > LOAD(x[u]);
        to[i++] = second ? v : u;
        a += !second;
        b += second;
      }
      memcpy(to + i, from + a, (size_t)(middle - a) * sizeof *to);
      memcpy(to + i + (middle - a), from + b, (size_t)(end - b) * sizeof *to);
    }
    int64_t *t = from;
    from = to;
    to = t;
  }
  if (from != at) memcpy(at, from, (size_t)n * sizeof *at);
}

static void WEFT_CAT(top_k, SUFFIX)(const void *rowv, int64_t n, int64_t k, bool sorted, int64_t *heap) {
  const ELEM *x = rowv;
  if (k == 1) {
    heap[0] = WEFT_CAT(best, SUFFIX)(x, n);
    return;
  }
  if (k == n) {
    WEFT_CAT(sort_all, SUFFIX)(x, n, heap);
    return;
  }
  for (int64_t i = 0; i <= k; i++) heap[i] = i;
  WEFT_CAT(heapify, SUFFIX)(x, heap, k + 1);
  WEFT_CAT(drop_worst, SUFFIX)(x, heap, k + 1);
  for (int64_t i = k + 1; i < n; i++) {
    if (!WEFT_CAT(is_better, SUFFIX)(x, i, heap[0])) continue;
    WEFT_CAT(drop_worst, SUFFIX)(x, heap, k);
    WEFT_CAT(rise, SUFFIX)(x, heap, 0, k - 1, i);
  }
  for (int64_t left = k; sorted && left > 1; left--) WEFT_CAT(drop_worst, SUFFIX)(x, heap, left);
}
