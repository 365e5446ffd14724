/* ops/shard.h - the functions that write factor notation (ops/factors.h) for a node whose dimensions depend
 * on attributes, ranks, or the values of constant operands.
 *
 * A record names one by .shard = SHARD(name). It sees what a shape function sees, shapes of outputs included
 * and with a variable's shape in handles, and appends the string. False: no rule for such a node,
 * because something that it needs is not known. Memory that runs out is remembered by the builder.
 */
#ifndef WEFT_OPS_SHARD_H_
#define WEFT_OPS_SHARD_H_

#include "ops/shape_inference.h"

/* array_sharding.c */
weft_shard_fn weft_shard_bitcast, weft_shard_broadcast_to, weft_shard_concat, weft_shard_concat_v2,
    weft_shard_depth_to_space, weft_shard_ensure_shape, weft_shard_fill, weft_shard_gather,
    weft_shard_gather_nd, weft_shard_matrices, weft_shard_one_hot, weft_shard_pack, weft_shard_pad,
    weft_shard_reshape, weft_shard_reverse, weft_shard_reverse_axes, weft_shard_reverse_sequence,
    weft_shard_roll, weft_shard_scatter_nd, weft_shard_slice, weft_shard_space_to_batch, weft_shard_split,
    weft_shard_split_v, weft_shard_squeeze, weft_shard_strided_slice, weft_shard_strided_slice_grad,
    weft_shard_tensor_scatter, weft_shard_tile, weft_shard_transpose, weft_shard_unpack;
/* math_sharding.c */
weft_shard_fn weft_shard_all, weft_shard_any, weft_shard_arg, weft_shard_batch_matmul, weft_shard_cumulate,
    weft_shard_einsum, weft_shard_matmul, weft_shard_max, weft_shard_mean, weft_shard_min, weft_shard_norm,
    weft_shard_prod, weft_shard_segment_max, weft_shard_segment_min, weft_shard_segment_prod,
    weft_shard_segment_sum, weft_shard_select, weft_shard_sum;
/* nn_sharding.c */
weft_shard_fn weft_shard_avg_pool_grad, weft_shard_batch_norm, weft_shard_batch_norm_grad,
    weft_shard_bias_add, weft_shard_bias_add_grad, weft_shard_conv, weft_shard_conv_filter,
    weft_shard_conv_input, weft_shard_depthwise, weft_shard_depthwise_filter, weft_shard_depthwise_input,
    weft_shard_pool, weft_shard_pool_argmax;

/* For these files: dimension i of the operand that names dimensions. */
static inline char weft_shard_letter(int i) { return (char)('a' + i); }
/* Letters first to end-1, but "_" for those of the mask `whole`. */
void weft_shard_letters(weft_strbuf_t *out, int first, int end, uint32_t whole);
/* The mask of axes that input i holds, negative ones counted from the end; false: not known or out of range.
 */
bool weft_shard_axes(const weft_shape_ctx_t *c, int i, int rank, uint32_t *out);
/* 0 to rank-1, from an axis that may be negative; -1: out of range. */
int weft_shard_axis(int64_t axis, int rank);

#endif /* WEFT_OPS_SHARD_H_ */
