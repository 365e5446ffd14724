/* kernels/cpu/loops/indices.c - see the header. */
#include "kernels/cpu/loops/indices.h"

#include <inttypes.h>
#include <stdio.h>

/* The positions of n rows of int32 or, if `is_wide`, int64. Where both and the depth are constants, the inner
 * loop is straight code. */
static inline __attribute__((always_inline)) void flatten(const void *rows, const bool is_wide, int64_t n,
                                                          const int depth, const int64_t *dims,
                                                          int64_t *out) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t at = 0;
    bool fits = true;
    for (int d = 0; d < depth; d++) {
      const int64_t k = i * depth + d, v = is_wide ? ((const int64_t *)rows)[k] : ((const int32_t *)rows)[k];
      fits &= (uint64_t)v < (uint64_t)dims[d];
      at = at * (uint64_t)dims[d] + (uint64_t)v;
    }
    out[i] = fits ? (int64_t)at : -1;
  }
}

static void flatten_narrow(const int32_t *rows, int64_t n, int depth, const int64_t *dims, int64_t *out) {
  switch (depth) {
    case 1: flatten(rows, false, n, 1, dims, out); break;
    case 2: flatten(rows, false, n, 2, dims, out); break;
    case 3: flatten(rows, false, n, 3, dims, out); break;
    default: flatten(rows, false, n, depth, dims, out); break;
  }
}

static void flatten_wide(const int64_t *rows, int64_t n, int depth, const int64_t *dims, int64_t *out) {
  switch (depth) {
    case 1: flatten(rows, true, n, 1, dims, out); break;
    case 2: flatten(rows, true, n, 2, dims, out); break;
    case 3: flatten(rows, true, n, 3, dims, out); break;
    default: flatten(rows, true, n, depth, dims, out); break;
  }
}

/* Of other types than int32 and int64. */
static int64_t flatten_row(const weft_tensor_t *indices, int64_t row, int depth, const int64_t *dims) {
  int64_t at = 0;
  for (int d = 0; d < depth; d++) {
    const int64_t v = weft_cpu_int_at(indices, row * depth + d);
    if (v < 0 || v >= dims[d]) return -1;
    at = at * dims[d] + v;
  }
  return at;
}

int64_t weft_index_positions(const weft_tensor_t *indices, int64_t begin, int64_t n, int64_t depth,
                             const weft_shape_t *shape, int64_t *out) {
  if (indices->dtype == WEFT_I32) {
    flatten_narrow((const int32_t *)indices->data + begin * depth, n, (int)depth, shape->dims, out);
  } else if (indices->dtype == WEFT_I64) {
    flatten_wide((const int64_t *)indices->data + begin * depth, n, (int)depth, shape->dims, out);
  } else {
    for (int64_t i = 0; i < n; i++) out[i] = flatten_row(indices, begin + i, (int)depth, shape->dims);
  }
  int64_t bad = -1;
  for (int64_t i = 0; i < n; i++) bad = out[i] < 0 ? i : bad;
  return bad < 0 ? -1 : begin + bad;
}

const char *weft_index_print(const weft_shape_t *shape, int rank, int64_t i, char *text) {
  int64_t at[WEFT_MAX_DIMS];
  for (int d = rank - 1; d >= 0; d--) {
    int64_t dim = shape->dims[d] > 0 ? shape->dims[d] : 1;
    at[d] = i % dim;
    i /= dim;
  }
  size_t n = 0;
  text[0] = '\0';
  for (int d = 0; d < rank; d++) {
    n += (size_t)snprintf(text + n, WEFT_INDEX_TEXT - n, "%s%" PRId64, d == 0 ? "[" : ",", at[d]);
  }
  if (rank > 0) (void)snprintf(text + n, WEFT_INDEX_TEXT - n, "]");
  return text;
}

const char *weft_index_values(const weft_tensor_t *indices, int64_t i, int64_t depth, char *text) {
  size_t n = (size_t)snprintf(text, WEFT_INDEX_TEXT, "[");
  for (int64_t d = 0; d < depth && d < WEFT_MAX_DIMS; d++) {
    n += (size_t)snprintf(text + n, WEFT_INDEX_TEXT - n, "%s%" PRId64, d == 0 ? "" : ", ",
                          weft_cpu_int_at(indices, i * depth + d));
  }
  (void)snprintf(text + n, WEFT_INDEX_TEXT - n, "]");
  return text;
}
