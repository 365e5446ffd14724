/* ops/const_fold.h - values of small integer formulas, as far as shapes are made from them.
 *
 * A record names the function that knows its op's values by .fold = FOLD(name).
 */
#ifndef WEFT_OPS_CONST_FOLD_H_
#define WEFT_OPS_CONST_FOLD_H_

#include "ops/shape_inference.h"

weft_fold_fn weft_fold_add, weft_fold_concat, weft_fold_copy, weft_fold_div, weft_fold_expand_dims,
    weft_fold_fill, weft_fold_gather, weft_fold_max, weft_fold_min, weft_fold_mul, weft_fold_pack,
    weft_fold_prod, weft_fold_range, weft_fold_rank, weft_fold_reshape, weft_fold_shape, weft_fold_size,
    weft_fold_slice, weft_fold_squeeze, weft_fold_strided_slice, weft_fold_sub;

/* The value of output 0 given the values, partial values and shapes of the inputs. *out is owned by the
 * caller, or NULL where the value is not known, too large, or not of an op that is folded; then *out_partial
 * says what is known of the elements of an integer vector (WEFT_UNKNOWN_DIM: that one is not; an unknown
 * shape: nothing). Errors: RESOURCE_EXHAUSTED only. Thread-safe. */
WEFT_MUST_CHECK weft_status_t *weft_const_fold(const weft_shape_ctx_t *c, weft_tensor_t **out,
                                               weft_shape_t *out_partial);

#endif /* WEFT_OPS_CONST_FOLD_H_ */
