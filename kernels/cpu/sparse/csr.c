/* kernels/cpu/sparse/csr.c - sparse matrices in compressed rows; see the header. */
#include "kernels/cpu/sparse/csr.h"

#include <inttypes.h>

#include "kernels/cpu/sparse/sparse.h"

static void set_views(weft_csr_t *m) {
  m->nnz = m->parts[WEFT_CSR_VALUES]->count;
  m->batch_ptrs = weft_csr_batch_ptrs(m);
  m->row_ptrs = weft_csr_row_ptrs(m);
  m->columns = weft_csr_columns(m);
}

/* Sizes that 32 bits can count. */
static weft_status_t *set_dims(weft_csr_t *m, const int64_t *dims, int rank) {
  int64_t row_ptrs = 0;
  m->rank = rank;
  m->batch = rank == 3 ? dims[0] : 1;
  m->rows = dims[rank - 2];
  m->cols = dims[rank - 1];
  bool fits = m->batch >= 0 && m->rows >= 0 && m->cols >= 0 && m->batch < INT32_MAX && m->rows < INT32_MAX &&
              weft_cpu_mul(m->batch, m->rows + 1, &row_ptrs) && row_ptrs <= INT32_MAX;
  if (fits) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "The csr row index size, computed based on the dense_shape, must be <= Int32Max, but is too "
      "large: %" PRId64 " matrices of %" PRId64 " rows and %" PRId64 " columns",
      m->batch, m->rows, m->cols);
}

/* ---- reading ---- */

static bool has_types(const weft_pack_t *p) {
  static const weft_dtype_t types[] = {WEFT_I64, WEFT_I32, WEFT_I32, WEFT_I32};
  if (p->count != WEFT_CSR_PARTS) return false;
  for (int i = 0; i < WEFT_CSR_PARTS; i++) {
    if (p->items[i]->shape.rank != 1) return false;
    if (i < WEFT_CSR_VALUES && p->items[i]->dtype != types[i]) return false;
  }
  return (WEFT_CSR_TYPES & WEFT_DTYPE_BIT(p->items[WEFT_CSR_VALUES]->dtype)) != 0;
}

/* Do pointers ascend from 0 to `end`? */
static bool ascends(const int32_t *ptrs, int64_t n, int64_t end) {
  if (n == 0 || ptrs[0] != 0 || ptrs[n - 1] != end) return false;
  for (int64_t i = 1; i < n; i++) {
    if (ptrs[i] < ptrs[i - 1]) return false;
  }
  return true;
}

static bool is_sound(const weft_csr_t *m) {
  bool fits = m->batch > 0 && m->parts[WEFT_CSR_BATCH]->count == m->batch + 1 &&
              m->parts[WEFT_CSR_ROWS]->count == m->batch * (m->rows + 1) &&
              m->parts[WEFT_CSR_COLUMNS]->count == m->nnz && ascends(m->batch_ptrs, m->batch + 1, m->nnz);
  for (int64_t b = 0; fits && b < m->batch; b++)
    fits = ascends(m->row_ptrs + b * (m->rows + 1), m->rows + 1, m->batch_ptrs[b + 1] - m->batch_ptrs[b]);
  for (int64_t i = 0; fits && i < m->nnz; i++) fits = m->columns[i] >= 0 && m->columns[i] < m->cols;
  return fits;
}

weft_status_t *weft_csr_in(const weft_kernel_ctx_t *ctx, int i, weft_dtype_t dtype, weft_csr_t *out) {
  const weft_tensor_t *t = weft_in(ctx, i);
  *out = (weft_csr_t){0};
  if (!weft_is_scalar(t)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid input matrix: Shape must be rank 0 but is rank %d",
                      t->shape.rank);
  }
  const weft_pack_t *p = weft_pack_at(t, 0, &weft_csr_type);
  if (p == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "Could not retrieve Variant input %d", i);
  int64_t rank = has_types(p) ? p->items[WEFT_CSR_DIMS]->count : 0;
  if (rank != 2 && rank != 3) return WEFT_ERROR(INVALID_ARGUMENT, "Variant input %d is not valid.", i);
  memcpy(out->parts, p->items, sizeof out->parts);
  WEFT_RETURN_IF_ERROR(set_dims(out, out->parts[WEFT_CSR_DIMS]->data, (int)rank));
  set_views(out);
  if (!is_sound(out)) return WEFT_ERROR(INVALID_ARGUMENT, "Variant input %d is not valid.", i);
  if (dtype == WEFT_DTYPE_INVALID || dtype == weft_csr_dtype(out)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Asked for a CSRSparseMatrix of type %s but saw dtype: %s",
                    weft_dtype_name(dtype), weft_dtype_name(weft_csr_dtype(out)));
}

/* ---- making ---- */

weft_status_t *weft_csr_new(weft_dtype_t dtype, const int64_t *dims, int rank, int64_t nnz, weft_csr_t *out) {
  *out = (weft_csr_t){0};
  WEFT_RETURN_IF_ERROR(set_dims(out, dims, rank));
  if (nnz > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "values number of elements must be <= Int32Max, but is %" PRId64,
                      nnz);
  }
  const int64_t counts[] = {rank, out->batch + 1, out->batch * (out->rows + 1), nnz, nnz};
  const weft_dtype_t types[] = {WEFT_I64, WEFT_I32, WEFT_I32, WEFT_I32, dtype};
  for (int i = 0; i < WEFT_CSR_PARTS; i++) {
    weft_shape_t shape = weft_shape_vector(counts[i]);
    weft_status_t *s = weft_tensor_new(types[i], &shape, NULL, &out->parts[i]);
    if (s != NULL) {
      weft_csr_release(out);
      return s;
    }
  }
  memcpy(out->parts[WEFT_CSR_DIMS]->data, dims, (size_t)rank * sizeof *dims);
  weft_cpu_zero(out->parts[WEFT_CSR_ROWS]);
  set_views(out);
  return NULL;
}

void weft_csr_release(weft_csr_t *m) {
  for (int i = 0; i < WEFT_CSR_PARTS; i++) weft_tensor_release(m->parts[i]);
  *m = (weft_csr_t){0};
}

weft_status_t *weft_csr_put(weft_kernel_ctx_t *ctx, const weft_csr_t *m) {
  weft_pack_t *p = NULL;
  WEFT_RETURN_IF_ERROR(weft_pack_of(&weft_csr_type, m->parts, WEFT_CSR_PARTS, &p));
  return weft_pack_scalar(p, &ctx->outputs[0].tensor);
}

void weft_csr_sum_rows(const weft_csr_t *m) {
  int32_t *ptrs = weft_csr_row_ptrs(m);
  for (int64_t b = 0; b < m->batch; b++, ptrs += m->rows + 1) {
    for (int64_t r = 0; r < m->rows; r++) ptrs[r + 1] += ptrs[r];
  }
}

void weft_csr_conjugate(const weft_csr_t *m) {
  const weft_tensor_t *values = m->parts[WEFT_CSR_VALUES];
  if (values->dtype == WEFT_C64) {
    weft_c64_t *v = values->data;
    for (int64_t i = 0; i < values->count; i++) v[i].im = -v[i].im;
  } else if (values->dtype == WEFT_C128) {
    weft_c128_t *v = values->data;
    for (int64_t i = 0; i < values->count; i++) v[i].im = -v[i].im;
  }
}

/* Where each element of m goes; row pointers of `out` are set. */
static void transpose_places(const weft_csr_t *m, const weft_csr_t *out, int64_t *from) {
  int32_t *columns = weft_csr_columns(out);
  for (int64_t b = 0; b < m->batch; b++) {
    int32_t *ptrs = weft_csr_row_ptrs(out) + b * (out->rows + 1);
    for (int64_t r = 0; r < m->rows; r++) {
      int64_t i = 0, end = weft_csr_row(m, b, r, &i);
      for (; i < end; i++) {
        int64_t at = m->batch_ptrs[b] + ptrs[m->columns[i]]++;
        columns[at] = (int32_t)r;
        from[at] = i;
      }
    }
    for (int64_t c = out->rows; c > 0; c--) ptrs[c] = ptrs[c - 1];
    ptrs[0] = 0;
  }
}

weft_status_t *weft_csr_transpose(const weft_csr_t *m, bool conjugates, weft_csr_t *out) {
  int64_t dims[3] = {m->batch, m->cols, m->rows};
  int64_t *from = weft_malloc(((size_t)m->nnz + 1) * sizeof *from);
  if (from == NULL) return WEFT_NO_MEMORY("the transpose of %" PRId64 " elements", m->nnz);
  weft_status_t *s = weft_csr_new(weft_csr_dtype(m), dims + 3 - m->rank, m->rank, m->nnz, out);
  if (s == NULL) {
    memcpy(weft_csr_batch_ptrs(out), m->batch_ptrs, out->parts[WEFT_CSR_BATCH]->bytes);
    for (int64_t b = 0; b < m->batch; b++) {
      int32_t *counts = weft_csr_row_ptrs(out) + b * (out->rows + 1) + 1;
      for (int64_t i = m->batch_ptrs[b]; i < m->batch_ptrs[b + 1]; i++) counts[m->columns[i]]++;
    }
    weft_csr_sum_rows(out);
    transpose_places(m, out, from);
    s = weft_pick(out->parts[WEFT_CSR_VALUES], m->parts[WEFT_CSR_VALUES], from, m->nnz);
    if (conjugates) weft_csr_conjugate(out);
  }
  weft_free(from);
  return s;
}
