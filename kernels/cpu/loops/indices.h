/* kernels/cpu/loops/indices.h - index tensors: coordinates to positions, and how messages name them. */
#ifndef WEFT_KERNELS_CPU_LOOPS_INDICES_H_
#define WEFT_KERNELS_CPU_LOOPS_INDICES_H_

#include "kernels/cpu/loops/common.h"

enum { WEFT_INDEX_TEXT = WEFT_MAX_DIMS * 22 + 8 };

/* What to do with coordinates out of range. */
WEFT_ATTRS_STRUCT(weft_bad_indices, (STRING, bad_indices_policy))
static inline bool weft_ignores_bad_indices(const weft_bad_indices_attrs_t *attrs) {
  return weft_str_is(attrs->bad_indices_policy, "IGNORE");
}

/* weft_cpu_int_at, without a call for the usual types of indices. */
static inline int64_t weft_index_at(const weft_tensor_t *t, int64_t i) {
  if (t->dtype == WEFT_I32) return ((const int32_t *)t->data)[i];
  return t->dtype == WEFT_I64 ? ((const int64_t *)t->data)[i] : weft_cpu_int_at(t, i);
}

enum { WEFT_INDEX_BLOCK = 256 }; /* rows whose positions a caller keeps on its stack */

/* Rows [begin, begin + n) of `indices` ([..., depth], integers) as positions among the first `depth`
 * dimensions of `shape`, into out[n]; -1 for a row with a coordinate out of range. Returns the last such row,
 * counted from 0 of the tensor; -1 if there is none. */
int64_t weft_index_positions(const weft_tensor_t *indices, int64_t begin, int64_t n, int64_t depth,
                             const weft_shape_t *shape, int64_t *out);
/* "[1,2]": the coordinates of flat position i in the first `rank` dimensions. */
const char *weft_index_print(const weft_shape_t *shape, int rank, int64_t i, char *text);
/* "[1, 2]": the values in row i. */
const char *weft_index_values(const weft_tensor_t *indices, int64_t i, int64_t depth, char *text);

#endif /* WEFT_KERNELS_CPU_LOOPS_INDICES_H_ */
