/* ops/infer.h - what shape functions share: attributes, constant inputs, checks.
 *
 * Only for the files in this folder. A dim or value that is not known is
 * WEFT_UNKNOWN_DIM. Errors are INVALID_ARGUMENT in TensorFlow's words.
 */
#ifndef WEFT_OPS_INFER_H_
#define WEFT_OPS_INFER_H_

#include "ops/op_functions.h"

/* Attributes of the node; 0, false or "" if it has none of that name (the table's tests see to it that it
 * has). */
int64_t weft_infer_int(const weft_shape_ctx_t *c, const char *name);
bool weft_infer_bool(const weft_shape_ctx_t *c, const char *name);
int weft_infer_type(const weft_shape_ctx_t *c, const char *name);
weft_str_t weft_infer_str(const weft_shape_ctx_t *c, const char *name);
weft_shape_t weft_infer_shape(const weft_shape_ctx_t *c, const char *name);
/* Element i of a list of ints; `absent` beyond its end. */
int64_t weft_infer_list_int(const weft_shape_ctx_t *c, const char *name, int i, int64_t absent);
int weft_infer_list_length(const weft_shape_ctx_t *c, const char *name);

/* Is the value of input i known? And element k of it, of any integer type (0 beyond its end). */
bool weft_infer_is_known(const weft_shape_ctx_t *c, int i);
int64_t weft_infer_value(const weft_shape_ctx_t *c, int i, int64_t k);
int64_t weft_infer_num_values(const weft_shape_ctx_t *c, int i);

/* Dim k of a shape; negative k counts from the end; WEFT_UNKNOWN_DIM if the rank is unknown. */
int64_t weft_infer_dim(const weft_shape_t *s, int k);
/* Appends one dim, or all of `tail` from dim `from` on. Errors: more than WEFT_MAX_DIMS dimensions. `s` of
 * unknown rank stays so, and becomes so if `tail` is. */
WEFT_MUST_CHECK weft_status_t *weft_infer_push(weft_shape_t *s, int64_t dim);
WEFT_MUST_CHECK weft_status_t *weft_infer_append(weft_shape_t *s, const weft_shape_t *tail, int from, int to);
weft_shape_t weft_infer_unknown_of_rank(int rank);
/* Product of two dims, WEFT_UNKNOWN_DIM if one is unknown. Errors: overflow. */
WEFT_MUST_CHECK weft_status_t *weft_infer_multiply(int64_t a, int64_t b, int64_t *out);

WEFT_MUST_CHECK weft_status_t *weft_infer_rank(const weft_shape_t *s, int rank, weft_shape_t *out);
WEFT_MUST_CHECK weft_status_t *weft_infer_rank_at_least(const weft_shape_t *s, int rank, weft_shape_t *out);
WEFT_MUST_CHECK weft_status_t *weft_infer_rank_at_most(weft_shape_ctx_t *c, int input, int rank);
/* Inputs first..last are all scalars. */
WEFT_MUST_CHECK weft_status_t *weft_infer_scalars(weft_shape_ctx_t *c, int first, int last);
/* "Dimension must be 3 but is 4". */
WEFT_MUST_CHECK weft_status_t *weft_infer_dim_is(int64_t dim, int64_t wanted);
/* Where the dim of `axis` (of -rank..rank-1) is. "Shape must be at least rank 3 but is rank 2" else. */
WEFT_MUST_CHECK weft_status_t *weft_infer_axis(int64_t axis, int rank, int *out);
/* `s` after `prefix` removed; unknown if either is. Merges the dims of the prefix. */
WEFT_MUST_CHECK weft_status_t *weft_infer_merge_prefix(const weft_shape_t *s, const weft_shape_t *prefix,
                                                       weft_shape_t *out);
/* What is known of the object behind a handle goes from input i to output k. */
void weft_infer_pass_handle(weft_shape_ctx_t *c, int i, int k);
/* Behind the handle of output k is a value of that shape and dtype. */
void weft_infer_set_handle(weft_shape_ctx_t *c, int k, const weft_shape_t *shape, int dtype);
/* The shape of the variable behind input i: a ref's own shape, a handle's data. */
weft_shape_t weft_infer_variable(const weft_shape_ctx_t *c, int i);
/* Sum of two dims; unknown if one is. Errors: overflow. */
WEFT_MUST_CHECK weft_status_t *weft_infer_add(int64_t a, int64_t b, int64_t *out);

/* Consumes the failure `s` and returns it with the name of a node that the one at hand computes. */
WEFT_MUST_CHECK weft_status_t *weft_infer_at_node(weft_status_t *s, weft_str_t node);

/* Consumes `s` and returns it with "\n\tFrom merging shape 2 with other shapes." appended. */
WEFT_MUST_CHECK weft_status_t *weft_infer_from_merging(weft_status_t *s, int i);

/* Shared by values and variables. Sets output 0. */
WEFT_MUST_CHECK weft_status_t *weft_infer_gather_nd_shape(weft_shape_ctx_t *c, const weft_shape_t *params,
                                                          const weft_shape_t *indices);
/* indices [I..., depth] and updates [I..., shape[depth:]] fit `shape`. */
WEFT_MUST_CHECK weft_status_t *weft_infer_scatter_nd_check(const weft_shape_t *indices,
                                                           const weft_shape_t *updates,
                                                           const weft_shape_t *shape);

/* All outputs are vectors of unknown length. */
WEFT_MUST_CHECK weft_status_t *weft_infer_vector(weft_shape_ctx_t *c);

/* The dim that scalar input i holds; unknown if its value is. Errors: below 0; a known value of higher rank.
 */
WEFT_MUST_CHECK weft_status_t *weft_infer_dim_input(const weft_shape_ctx_t *c, int i, int64_t *out);

/* Output 0: inputs first..last joined along the axis that input `axis_input` holds. */
WEFT_MUST_CHECK weft_status_t *weft_infer_join(weft_shape_ctx_t *c, int first, int last, int axis_input);

/* The least rank that has an axis of that number, negative ones counting from the end; saturates. */
int64_t weft_infer_rank_for_axis(int64_t axis);

#endif /* WEFT_OPS_INFER_H_ */
