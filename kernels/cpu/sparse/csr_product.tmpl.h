/* kernels/cpu/sparse/csr_product.tmpl.h - rows of products of sparse matrices, for one scalar type. */

/* Rows `begin` to `end` of matrix b of p->a times a dense one. */
static void FN(dense_rows)(const dense_product_t *p, int64_t b, int64_t begin, int64_t end) {
  const SCALAR *values = p->a->parts[WEFT_CSR_VALUES]->data;
  const SCALAR *right = (const SCALAR *)p->right.data + b * p->right.size;
  SCALAR *out = (SCALAR *)p->out.data + b * p->out.size;
  for (int64_t r = begin; r < end; r++) {
    SCALAR *to = out + r * p->out.row;
    for (int64_t j = 0; j < p->n; j++) to[j * p->out.column] = 0;
    int64_t i = 0, row_end = weft_csr_row(p->a, b, r, &i);
    for (; i < row_end; i++) {
      const SCALAR *from = right + p->a->columns[i] * p->right.row;
      for (int64_t j = 0; j < p->n; j++) {
        SCALAR v = from[j * p->right.column];
        to[j * p->out.column] += values[i] * (p->right.conjugates ? CONJ(v) : v);
      }
    }
    for (int64_t j = 0; p->out.conjugates && j < p->n; j++)
      to[j * p->out.column] = CONJ(to[j * p->out.column]);
  }
}

/* Row r of matrix b of a product of two sparse ones, whose columns are in place: `sum`, zero outside of
 * calls, has room for a row. */
static void FN(sparse_row)(const weft_csr_t *a, const weft_csr_t *right, int64_t b, int64_t r, void *sums,
                           const weft_csr_t *out) {
  const SCALAR *of_a = a->parts[WEFT_CSR_VALUES]->data, *of_right = right->parts[WEFT_CSR_VALUES]->data;
  SCALAR *sum = sums, *values = out->parts[WEFT_CSR_VALUES]->data;
  int64_t i = 0, end = weft_csr_row(a, b, r, &i);
  for (; i < end; i++) {
    int64_t k = 0, k_end = weft_csr_row(right, b, a->columns[i], &k);
    for (; k < k_end; k++) sum[right->columns[k]] += of_a[i] * of_right[k];
  }
  end = weft_csr_row(out, b, r, &i);
  for (; i < end; i++) {
    values[i] = sum[out->columns[i]];
    sum[out->columns[i]] = 0;
  }
}
