/* sharding/data/ints.h - computing with small vectors of integers; for this folder only. */
#ifndef WEFT_SHARDING_DATA_INTS_H_
#define WEFT_SHARDING_DATA_INTS_H_

#include "sharding/data/rules.h"

/* ---- vectors ---- */

/* n unknown numbers; NULL if they are too many, or without memory. */
weft_data_ints_t *weft_ints_new(const weft_data_ctx_t *c, int n, bool is_scalar);
/* Input i, if it is a scalar or a vector of elements that we know; else NULL. */
const weft_data_ints_t *weft_ints_in(const weft_data_ctx_t *c, int i);
/* That is the output. False if v is NULL. */
bool weft_ints_give(weft_data_ctx_t *c, int output, const weft_data_ints_t *v);

/* ---- elements: false where the result is not a number or a multiple of rows ---- */

weft_data_int_t weft_ints_plain(int64_t value);
bool weft_ints_is_plain(weft_data_int_t a, int64_t value);
bool weft_ints_int_eq(weft_data_int_t a, weft_data_int_t b);
typedef bool weft_ints_int2_fn(weft_data_int_t a, weft_data_int_t b, weft_data_int_t *out);
weft_ints_int2_fn weft_ints_int_mul, weft_ints_int_add, weft_ints_int_sub, weft_ints_int_div,
    weft_ints_int_mod, weft_ints_int_max, weft_ints_int_min;

/* ---- nodes: false if it is none whose result is known ---- */

typedef bool weft_ints_fn(weft_data_ctx_t *c);
weft_ints_fn weft_ints_add, weft_ints_as_shaped, weft_ints_broadcast_args, weft_ints_broadcast_gradient,
    weft_ints_cast, weft_ints_concat, weft_ints_concat_offset, weft_ints_concat_v2, weft_ints_difference,
    weft_ints_div, weft_ints_fill, weft_ints_gather, weft_ints_invert_permutation, weft_ints_max,
    weft_ints_min, weft_ints_mod, weft_ints_mul, weft_ints_neg, weft_ints_ones, weft_ints_pack,
    weft_ints_prod, weft_ints_range, weft_ints_rank, weft_ints_shape, weft_ints_size, weft_ints_slice,
    weft_ints_stitch, weft_ints_strided_slice, weft_ints_sub, weft_ints_transpose, weft_ints_unpack,
    weft_ints_variable_shape, weft_ints_zeros;

#endif /* WEFT_SHARDING_DATA_INTS_H_ */
