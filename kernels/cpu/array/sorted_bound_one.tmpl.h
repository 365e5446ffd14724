/* kernels/cpu/array/sorted_bound_one.tmpl.h - where values would go into sorted rows, for one element type.
 */
static int64_t WEFT_CAT(bound, SUFFIX)(const void *row, int64_t n, const void *values, int64_t i,
                                       bool is_upper) {
  const ELEM *sorted = row;
  const COMP v = LOAD(((const ELEM *)values)[i]);
  int64_t low = 0;
  while (n > 0) {
    int64_t half = n / 2;
    const COMP at = LOAD(sorted[low + half]);
    bool is_before = is_upper ? !(v < at) : at < v;
    low = is_before ? low + half + 1 : low;
    n = is_before ? n - half - 1 : half;
  }
  return low;
}
