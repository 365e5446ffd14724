/* kernels/cpu/math/nth_element_one.tmpl.h - the n-th smallest of each row, for one element type. */

/* By partitions of `a`, which is reordered. The bounds in the inner loops are for NaNs. */
static COMP WEFT_CAT(select_nth, SUFFIX)(COMP *a, int64_t size, int64_t n) {
  int64_t left = 0, right = size - 1;
  while (left < right) {
    const COMP pivot = a[left + (right - left) / 2];
    int64_t i = left, j = right;
    while (i <= j) {
      while (i < right && a[i] < pivot) i++;
      while (j > left && pivot < a[j]) j--;
      if (i > j) break;
      const COMP swapped = a[i];
      a[i++] = a[j];
      a[j--] = swapped;
    }
    if (j < n) left = i;
    if (n < i) right = j;
  }
  return a[n];
}

static weft_status_t *WEFT_CAT(nth_element, SUFFIX)(const weft_tensor_t *in, int64_t n, weft_tensor_t *out) {
  const ELEM *x = in->data;
  ELEM *y = out->data;
  int64_t width = in->shape.dims[in->shape.rank - 1];
  COMP *row = weft_calloc((size_t)width, sizeof *row);
  if (row == NULL) return WEFT_NO_MEMORY("a row of NthElement");
  for (int64_t k = 0; k < out->count; k++, x += width) {
    for (int64_t i = 0; i < width; i++) row[i] = LOAD(x[i]);
    y[k] = STORE(WEFT_CAT(select_nth, SUFFIX)(row, width, n));
  }
  weft_free(row);
  return NULL;
}
