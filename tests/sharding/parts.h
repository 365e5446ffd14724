/* tests/sharding/parts.h - parts of tensors, for tests that compute on parts. What cannot be aborts. */
#ifndef WEFT_TESTS_SHARDING_PARTS_H_
#define WEFT_TESTS_SHARDING_PARTS_H_

#include "ops/factors.h"
#include "sharding/sharding.h"
#include "tests/kernels/harness.h"

weft_tensor_t *weft_parts_new(int dtype, const weft_shape_t *shape);
weft_tensor_t *weft_parts_copy(const weft_tensor_t *x);
double weft_parts_random(void); /* [0, 1) */
/* "double[4,6]" is random numbers, "int32[5]%7" random numbers below 7, "int32[2]:1,0" a constant. */
WEFT_MUST_CHECK weft_status_t *weft_parts_draw(weft_str_t text, weft_tensor_t **out);
void weft_parts_set(weft_tensor_t *t, int64_t i, double re, double im);
bool weft_parts_has_fractions(int dtype);

/* Elements begin to end-1 along `dim`. */
weft_tensor_t *weft_parts_slice(weft_tensor_t *whole, int dim, int64_t begin, int64_t end);
/* Parts one after the other along `dim`; and what the reduction makes of them. NULL: they do not fit. */
weft_tensor_t *weft_parts_join(weft_tensor_t *const *parts, int n, int dim);
weft_tensor_t *weft_parts_reduce(weft_tensor_t *const *parts, int n, weft_partial_kind_t kind);

/* Indices within [begin, end), counted from there; others 0. */
weft_tensor_t *weft_parts_shift_indices(const weft_tensor_t *indices, int64_t begin, int64_t end);
/* Zeros in a result `to` where the index, of an operand `from`, is not within [begin, end): they have the
 * factors of the indices in common. */
void weft_parts_mask(const weft_factor_operand_t *from, const weft_factor_operand_t *to,
                     const weft_tensor_t *indices, int64_t begin, int64_t end, weft_tensor_t *out);

#endif /* WEFT_TESTS_SHARDING_PARTS_H_ */
