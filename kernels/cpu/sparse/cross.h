/* kernels/cpu/sparse/cross.h - crosses of features: all combinations of one feature of each column, row by
 * row. Sparse and ragged ops share it. */
#ifndef WEFT_KERNELS_CPU_SPARSE_CROSS_H_
#define WEFT_KERNELS_CPU_SPARSE_CROSS_H_

#include "kernels/cpu/loops/common.h"

/* Which values are features of row b. */
typedef enum weft_cross_rows {
  WEFT_CROSS_DENSE,        /* row b of a matrix */
  WEFT_CROSS_SPARSE,       /* those behind the last row's whose first coordinate is b */
  WEFT_CROSS_SPARSE_UP_TO, /* or is below */
  WEFT_CROSS_RAGGED,       /* from split b to split b + 1 */
} weft_cross_rows_t;

/* int64s or strings. */
typedef struct weft_cross_column {
  weft_cross_rows_t by;
  const weft_tensor_t *values, *places; /* lent; places: indices or splits, checked by the caller */
  int64_t begin, count;                 /* of the current row */
} weft_cross_column_t;

/* How a feature becomes a number. */
typedef enum weft_cross_hash {
  WEFT_CROSS_PLAIN,  /* an integer is its own, a string its fingerprint */
  WEFT_CROSS_WEAK,   /* likewise, but of a sparse integer the fingerprint of its low four bytes */
  WEFT_CROSS_STRONG, /* keyed hashes, of an integer that of its low four bytes */
} weft_cross_hash_t;

typedef struct weft_cross {
  weft_cross_column_t *columns; /* owned, as picks */
  int64_t *picks;
  int num_columns;
  weft_str_t separator; /* between the texts of features */
  weft_cross_hash_t hash;
  uint64_t key[2];
  bool has_seed; /* else the first column's number is where the hash begins */
  uint64_t seed;
  int64_t buckets; /* 0 and less: all positive numbers */
} weft_cross_t;

/* Columns are all zero. The caller deinitialises *c, whatever happens. */
WEFT_MUST_CHECK weft_status_t *weft_cross_init(weft_cross_t *c, int num_columns);
void weft_cross_deinit(weft_cross_t *c);
/* Before the first row. */
void weft_cross_rewind(weft_cross_t *c);
/* Goes on to row b, the one behind the last, and counts its crosses: 0 if a column has no feature there.
 * Errors: INVALID_ARGUMENT: too many. */
WEFT_MUST_CHECK weft_status_t *weft_cross_next_row(weft_cross_t *c, int64_t b, int64_t *out);
/* The crosses of that row, the last column's features changing fastest, as elements `at` and on of `out`,
 * which is of strings or int64s. */
WEFT_MUST_CHECK weft_status_t *weft_cross_put(weft_cross_t *c, int64_t n, weft_tensor_t *out, int64_t at);

#endif /* WEFT_KERNELS_CPU_SPARSE_CROSS_H_ */
