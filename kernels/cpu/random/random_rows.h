/* kernels/cpu/random/random_rows.h - which rows of a batch an op draws numbers for: the input `rows` of
 * WeftRandomRows and WeftMultinomialRows.
 *
 * Of a batch with `all` rows the op draws for rows [begin, begin + count), and moves its stream on as if it
 * had drawn for all. A dimension may be a multiple of the batch; the attribute `factor` says which, 0 if the
 * op is given the dimension of the whole batch and finds out.
 */
#ifndef WEFT_KERNELS_CPU_RANDOM_RANDOM_ROWS_H_
#define WEFT_KERNELS_CPU_RANDOM_RANDOM_ROWS_H_

#include "kernels/kernel.h"

typedef struct weft_random_rows {
  int64_t begin, count, all;
} weft_random_rows_t;

/* From an int64 tensor of three. Errors: INVALID_ARGUMENT if that is no part of a batch. */
WEFT_MUST_CHECK weft_status_t *weft_random_rows_read(const weft_tensor_t *t, weft_random_rows_t *out);
/* Elements along a dimension of `dim`, given for these rows or for all: those before ours, ours and all.
 * Errors: INVALID_ARGUMENT if `dim` does not fit the rows. */
WEFT_MUST_CHECK weft_status_t *weft_random_rows_along(const weft_random_rows_t *rows, int64_t factor,
                                                      int64_t dim, weft_random_rows_t *out);

#endif /* WEFT_KERNELS_CPU_RANDOM_RANDOM_ROWS_H_ */
