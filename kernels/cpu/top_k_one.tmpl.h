/* kernels/cpu/top_k_one.tmpl.h - the k best of a row, for one element type: larger first, the lower index first among
 * equals. `heap` has room for k + 1 indices, or n if that is less; the worst lies on top.
 *
 * The heap moves the way C++'s standard heaps do (a hole sinks to a leaf, then the value rises), because the order
 * of a result that nobody asked to be sorted is the heap's own, and clients compare it with TensorFlow's. NaN is
 * neither better nor worse than anything; where it ends up follows from the same moves.
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

static void WEFT_CAT(top_k, SUFFIX)(const void *rowv, int64_t n, int64_t k, bool sorted, int64_t *heap) {
  const ELEM *x = rowv;
  if (k == 1) {
    heap[0] = WEFT_CAT(best, SUFFIX)(x, n);
    return;
  }
  const int64_t first = k < n ? k + 1 : n;
  for (int64_t i = 0; i < first; i++) heap[i] = i;
  WEFT_CAT(heapify, SUFFIX)(x, heap, first);
  if (k < n) WEFT_CAT(drop_worst, SUFFIX)(x, heap, first);
  for (int64_t i = first; i < n; i++) {
    if (!WEFT_CAT(is_better, SUFFIX)(x, i, heap[0])) continue;
    WEFT_CAT(drop_worst, SUFFIX)(x, heap, k);
    WEFT_CAT(rise, SUFFIX)(x, heap, 0, k - 1, i);
  }
  for (int64_t left = k; (sorted || k == n) && left > 1; left--) WEFT_CAT(drop_worst, SUFFIX)(x, heap, left);
}
