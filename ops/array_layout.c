/* ops/array_layout.c - shapes of ops that repeat, pad, permute and regroup whole dimensions. */
#include <inttypes.h>

#include "ops/infer.h"

weft_status_t *weft_infer_tile(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  weft_shape_t multiples;
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, 1, &multiples));
  if (in->rank < 0 && multiples.rank < 0) return NULL;
  weft_shape_t from, out = {.rank = in->rank < 0 ? multiples.rank : in->rank};
  WEFT_RETURN_IF_ERROR(weft_infer_rank(in, out.rank, &from));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&multiples, out.rank, &multiples));
  for (int i = 0; i < out.rank; i++) {
    WEFT_RETURN_IF_ERROR(weft_infer_multiply(from.dims[i], multiples.dims[i], &out.dims[i]));
  }
  c->outputs[0] = out;
  return NULL;
}

/* sign 1: grows each dim by its two paddings; -1: shrinks. */
static weft_status_t *pad(weft_shape_ctx_t *c, int64_t sign) {
  const weft_shape_t *in = &c->inputs[0];
  weft_shape_t paddings;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 2, &paddings));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(paddings.dims[1], 2));
  int64_t n = paddings.dims[0] >= 0 || sign < 0 ? paddings.dims[0] : in->rank;
  if (n > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "a padding of %" PRId64 " dimensions", n);
  if (n < 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(in, (int)n, NULL));
  if (!weft_infer_is_known(c, 1)) {
    c->outputs[0] = weft_infer_unknown_of_rank((int)n);
    return NULL;
  }
  weft_shape_t out = {.rank = (int)n};
  for (int i = 0; i < out.rank; i++) {
    int64_t before = weft_infer_value(c, 1, 2 * i), after = weft_infer_value(c, 1, 2 * i + 1),
            dim = weft_infer_dim(in, i);
    if (before < 0 || after < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Paddings must be non-negative");
    int64_t both = 0;
    WEFT_RETURN_IF_ERROR(weft_infer_add(before, after, &both));
    if (sign > 0) {
      WEFT_RETURN_IF_ERROR(weft_infer_add(dim, both, &out.dims[i]));
    } else if (dim >= 0 && both > dim) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Negative dimension size caused by subtracting %" PRId64 " from %" PRId64, both, dim);
    } else {
      out.dims[i] = dim < 0 ? WEFT_UNKNOWN_DIM : dim - both;
    }
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_pad(weft_shape_ctx_t *c) { return pad(c, 1); }
weft_status_t *weft_infer_mirror_pad_grad(weft_shape_ctx_t *c) { return pad(c, -1); }

/* Elements of input 1 of a transposition, a permutation once its rank is checked; WEFT_UNKNOWN_DIM. */
static int64_t count_of_perm(const weft_shape_ctx_t *c) {
  const weft_shape_t *perm = &c->inputs[1];
  int64_t n = 1;
  if (weft_infer_is_known(c, 1)) return c->values[1]->count;
  for (int i = 0; i < perm->rank; i++) {
    if (perm->dims[i] < 0 || perm->dims[i] > WEFT_MAX_DIMS) return WEFT_UNKNOWN_DIM;
    n *= perm->dims[i];
    if (n > WEFT_MAX_DIMS) return WEFT_UNKNOWN_DIM;
  }
  return perm->rank < 0 ? WEFT_UNKNOWN_DIM : n;
}

weft_status_t *weft_infer_transpose(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  weft_shape_t perm;
  const bool has_perm = weft_infer_is_known(c, 1);
  const int64_t count = count_of_perm(c), n = in->rank >= 0 ? in->rank : count;
  if (n < 0 || n > WEFT_MAX_DIMS) return NULL;
  if (in->rank < 0 && n < 2) { /* one element may stand for a scalar or a vector: both stay as they are */
    c->outputs[0] = *in;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &perm));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(perm.dims[0], n));
  weft_shape_t out = weft_infer_unknown_of_rank((int)n);
  if (has_perm) {
    for (int i = 0; i < out.rank; i++) {
      int64_t from = weft_infer_value(c, 1, i);
      if (from < -n || from >= n) {
        return WEFT_ERROR(INVALID_ARGUMENT, "perm dim %" PRId64 " is out of range of input rank %" PRId64,
                          from, n);
      }
      out.dims[i] = weft_infer_dim(in, (int)from);
    }
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_reverse(weft_shape_ctx_t *c) {
  weft_shape_t dims;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &dims));
  if (dims.dims[0] >= 0 && dims.dims[0] <= WEFT_MAX_DIMS) {
    return weft_infer_rank(&c->inputs[0], (int)dims.dims[0], &c->outputs[0]);
  }
  c->outputs[0] = c->inputs[0];
  return NULL;
}

weft_status_t *weft_infer_roll(weft_shape_ctx_t *c) {
  weft_shape_t merged;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[0], 1, NULL));
  for (int i = 1; i < 3; i++) {
    if (c->inputs[i].rank > 1)
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at most rank 1 but is rank %d", c->inputs[i].rank);
  }
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[1], &c->inputs[2], &merged));
  c->outputs[0] = c->inputs[0];
  return NULL;
}

weft_status_t *weft_infer_reverse_v2(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  uint32_t seen = 0;
  for (int64_t i = 0; i < weft_infer_num_values(c, 1) && in->rank >= 0; i++) {
    int64_t axis = weft_infer_value(c, 1, i), at = axis < 0 ? axis + in->rank : axis;
    if (at < 0 || at >= in->rank) {
      return WEFT_ERROR(INVALID_ARGUMENT, "'axis'[%" PRId64 "] = %" PRId64 " is out of valid range [0, %d", i,
                        axis, in->rank - 1);
    }
    if (seen >> at & 1) return WEFT_ERROR(INVALID_ARGUMENT, "axis %" PRId64 " specified more than once.", at);
    seen |= 1u << at;
  }
  c->outputs[0] = *in;
  return NULL;
}

weft_status_t *weft_infer_reverse_sequence(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  weft_shape_t lengths;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &lengths));
  int64_t batch = weft_infer_int(c, "batch_dim"), seq = weft_infer_int(c, "seq_dim");
  if (in->rank < 0) return NULL;
  if (batch < 0) batch += in->rank;
  if (seq < 0) seq += in->rank;
  if (batch < 0 || batch >= in->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "batch_dim must be < input rank: %" PRId64 " vs. %d", batch,
                      in->rank);
  }
  if (seq < 0 || seq >= in->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "seq_dim must be < input rank: %" PRId64 " vs. %d", seq, in->rank);
  }
  weft_shape_t out = *in;
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(in->dims[batch], lengths.dims[0], &out.dims[batch]));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_broadcast_to(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  weft_shape_t out;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, 1, &out));
  c->outputs[0] = out;
  if (out.rank < 0 || in->rank < 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 0, out.rank));
  for (int i = 0; i < in->rank; i++) { /* a dim of one is repeated; more than one stay as they are */
    int64_t *to = &c->outputs[0].dims[out.rank - in->rank + i];
    if (in->dims[i] > 1) WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(in->dims[i], *to, to));
  }
  return NULL;
}

/* ---- blocks ---- */

/* Batch and space trade places: by block_shape (input 1) or the attribute block_size, and paddings or crops,
 * the last input. */
static weft_status_t *space_batch(weft_shape_ctx_t *c, bool to_batch) {
  const bool is_square = c->num_inputs == 2, has_blocks = is_square || weft_infer_is_known(c, 1);
  const int pads = c->num_inputs - 1;
  weft_shape_t image = c->inputs[0], block = weft_shape_vector(2);
  const weft_shape_t *in = &image;
  if (is_square) WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &image));
  if (!is_square) WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &block));
  int64_t n = block.dims[0];
  weft_shape_t around_each, pairs = weft_shape_matrix(n, 2);
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[pads], &pairs, &around_each));
  if (n < 0 || in->rank < 0) {
    c->outputs[0] = weft_infer_unknown_of_rank(in->rank);
    return NULL;
  }
  if (in->rank <= n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank %" PRId64 " but is rank %d",
                      weft_infer_rank_for_axis(n), in->rank);
  }
  weft_shape_t out = *in;
  for (int i = 0; i < (int)n; i++) {
    int64_t size = is_square ? weft_infer_int(c, "block_size") : weft_infer_value(c, 1, i);
    int64_t dim = in->dims[i + 1], around = 0, all = 1;
    if (!has_blocks) {
      out.dims[0] = out.dims[i + 1] = WEFT_UNKNOWN_DIM;
      continue;
    }
    if (size < 1)
      return WEFT_ERROR(INVALID_ARGUMENT, "block_shape must be positive, got block_shape[%d] = %" PRId64, i,
                        size);
    if (to_batch) {
      WEFT_RETURN_IF_ERROR(weft_infer_multiply(out.dims[0], size, &out.dims[0]));
    } else {
      if (out.dims[0] >= 0 && out.dims[0] % size != 0) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Dimension size must be evenly divisible by %" PRId64 " but is %" PRId64, size,
                          out.dims[0]);
      }
      if (out.dims[0] >= 0) out.dims[0] /= size;
    }
    if (!weft_infer_is_known(c, pads)) {
      out.dims[i + 1] = WEFT_UNKNOWN_DIM;
      continue;
    }
    int64_t before = weft_infer_value(c, pads, 2 * i), after = weft_infer_value(c, pads, 2 * i + 1);
    if (before < 0 || after < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "paddings must be non-negative, got %" PRId64, before);
    WEFT_RETURN_IF_ERROR(weft_infer_add(before, after, &around));
    if (to_batch) {
      WEFT_RETURN_IF_ERROR(weft_infer_add(dim, around, &all));
      if (all >= 0 && all % size != 0) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Dimension size must be evenly divisible by %" PRId64 " but is %" PRId64, size,
                          all);
      }
      out.dims[i + 1] = all < 0 ? WEFT_UNKNOWN_DIM : all / size;
    } else {
      WEFT_RETURN_IF_ERROR(weft_infer_multiply(dim, size, &all));
      if (all >= 0 && around > all) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Negative dimension size caused by subtracting %" PRId64 " from %" PRId64, around,
                          all);
      }
      out.dims[i + 1] = all < 0 ? WEFT_UNKNOWN_DIM : all - around;
    }
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_space_to_batch(weft_shape_ctx_t *c) { return space_batch(c, true); }
weft_status_t *weft_infer_batch_to_space(weft_shape_ctx_t *c) { return space_batch(c, false); }

/* Depth and space trade places, in a layout of rank 4. */
static weft_status_t *space_depth(weft_shape_ctx_t *c, bool to_depth) {
  weft_shape_t in;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &in));
  int64_t size = weft_infer_int(c, "block_size"), area = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_multiply(size, size, &area));
  bool is_nchw = weft_str_starts_with(weft_infer_str(c, "data_format"), "NCHW");
  int first = is_nchw ? 2 : 1, depth = is_nchw ? 1 : 3;
  weft_shape_t out = in;
  for (int i = 0; i < 4; i++) {
    bool grows = i == depth ? to_depth : !to_depth;
    int64_t factor = i == depth ? area : size, dim = in.dims[i];
    if (i != depth && (i < first || i > first + 1)) continue;
    if (grows) {
      WEFT_RETURN_IF_ERROR(weft_infer_multiply(dim, factor, &out.dims[i]));
    } else if (dim >= 0) {
      if (dim % factor != 0) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Dimension size must be evenly divisible by %" PRId64 " but is %" PRId64, factor,
                          dim);
      }
      out.dims[i] = dim / factor;
    }
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_space_to_depth(weft_shape_ctx_t *c) { return space_depth(c, true); }
weft_status_t *weft_infer_depth_to_space(weft_shape_ctx_t *c) { return space_depth(c, false); }
