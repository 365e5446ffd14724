/* kernels/cpu/loops/indices.c - see the header. */
#include "kernels/cpu/loops/indices.h"

#include <inttypes.h>
#include <stdio.h>

/* For the usual types, whose values lie in memory as they are; the loop is short, so a call would count. */
#define FLATTEN(type)                                                                                 \
  static bool flatten_##type(const type *v, int64_t depth, const weft_shape_t *shape, int64_t *out) { \
    int64_t at = 0;                                                                                   \
    bool fits = true;                                                                                 \
    for (int d = 0; d < (int)depth; d++) {                                                            \
      fits &= (uint64_t)(int64_t)v[d] < (uint64_t)shape->dims[d];                                     \
      at = (int64_t)((uint64_t)at * (uint64_t)shape->dims[d] + (uint64_t)v[d]);                       \
    }                                                                                                 \
    *out = at;                                                                                        \
    return fits;                                                                                      \
  }
FLATTEN(int32_t)
FLATTEN(int64_t)

bool weft_index_flatten(const weft_tensor_t *indices, int64_t i, int64_t depth, const weft_shape_t *shape,
                        int64_t *out) {
  if (indices->dtype == WEFT_I32) {
    return flatten_int32_t((const int32_t *)indices->data + i * depth, depth, shape, out);
  }
  if (indices->dtype == WEFT_I64) {
    return flatten_int64_t((const int64_t *)indices->data + i * depth, depth, shape, out);
  }
  int64_t at = 0;
  for (int d = 0; d < (int)depth; d++) {
    int64_t v = weft_cpu_int_at(indices, i * depth + d);
    if (v < 0 || v >= shape->dims[d]) return false;
    at = at * shape->dims[d] + v;
  }
  *out = at;
  return true;
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
