/* ops/array_move.c - shapes of ops that pick, repeat, pad and permute elements. */
#include <inttypes.h>

#include "ops/infer.h"

/* ---- slices ---- */

weft_status_t *weft_infer_slice(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  weft_shape_t begin, size;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &begin));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, &size));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&begin, &size, &begin));
  int64_t n = begin.dims[0];
  if (n < 0) n = in->rank;
  if (n >= 0) {
    if (n > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "a slice of %" PRId64 " dimensions", n);
    WEFT_RETURN_IF_ERROR(weft_infer_rank(in, (int)n, NULL));
  }
  if (n < 0) return NULL;
  weft_shape_t out = weft_infer_unknown_of_rank((int)n);
  bool has_begin = weft_infer_is_known(c, 1), has_size = weft_infer_is_known(c, 2);
  for (int i = 0; i < (int)n; i++) {
    int64_t from = weft_infer_value(c, 1, i), length = weft_infer_value(c, 2, i), dim = weft_infer_dim(in, i);
    if (has_size && length < -1) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Invalid value in tensor used for shape: %" PRId64, length);
    }
    if (has_size && length >= 0) {
      out.dims[i] = length; /* the kernel checks that it is in range */
    } else if (has_size && has_begin && dim >= 0) {
      if (from < 0 || from > dim) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Negative dimension size caused by subtracting %" PRId64 " from %" PRId64, from,
                          dim);
      }
      out.dims[i] = dim - from;
    }
  }
  c->outputs[0] = out;
  return NULL;
}

/* One dim of the dense form of a strided slice. */
typedef struct stride_dim {
  int64_t begin, end, stride;
  bool begin_masked, end_masked, is_shrunk;
} stride_dim_t;

/* The interval's length within a dim; both known. */
static weft_status_t *strided_length(const stride_dim_t *d, int64_t dim, int at, int64_t *out) {
  if (dim < 0) {
    *out = WEFT_UNKNOWN_DIM;
    return NULL;
  }
  if (d->is_shrunk) {
    int64_t i = d->begin < 0 ? d->begin + dim : d->begin;
    if (i < 0 || i >= dim) {
      return WEFT_ERROR(INVALID_ARGUMENT, "slice index %" PRId64 " of dimension %d out of bounds.", d->begin,
                        at);
    }
    return NULL;
  }
  int64_t lowest = d->stride > 0 ? 0 : -1, highest = d->stride > 0 ? dim : dim - 1;
  int64_t begin = d->begin < 0 ? d->begin + dim : d->begin, end = d->end < 0 ? d->end + dim : d->end;
  begin = begin < lowest ? lowest : begin > highest ? highest : begin;
  end = end < lowest ? lowest : end > highest ? highest : end;
  if (d->begin_masked) begin = d->stride > 0 ? lowest : highest;
  if (d->end_masked) end = d->stride > 0 ? highest : lowest;
  int64_t span = end - begin;
  if (span == 0 || (span < 0) != (d->stride < 0)) {
    *out = 0;
  } else {
    *out = span / d->stride + (span % d->stride != 0);
  }
  return NULL;
}

/* A mask bit; entries beyond 63 have none. */
static bool bit(int64_t mask, int i) { return i < 63 && (mask >> i & 1) != 0; }

typedef struct masks {
  int64_t begin, end, ellipsis, new_axis, shrink;
} masks_t;

/* Walks the sparse spec of n entries over `in` and builds the final shape. */
static weft_status_t *strided_slice(weft_shape_ctx_t *c, const weft_shape_t *in, int n, const masks_t *m,
                                    weft_shape_t *out) {
  bool has_values = weft_infer_is_known(c, 1) && weft_infer_is_known(c, 2) && weft_infer_is_known(c, 3);
  int after = 0; /* new axes behind the ellipsis, as TensorFlow counts them */
  bool seen = false;
  for (int i = 0; i < n; i++) {
    if (seen && bit(m->new_axis, i)) after++;
    if (bit(m->ellipsis, i)) {
      if (seen) return WEFT_ERROR(INVALID_ARGUMENT, "Multiple ellipses in slice spec not allowed");
      seen = true;
    }
  }
  int dense = 0, total = seen ? n : n + 1; /* without an ellipsis one stands at the end */
  weft_shape_t result = WEFT_SCALAR;
  for (int i = 0; i < total; i++) {
    if (i == n || bit(m->ellipsis, i)) {
      int next = in->rank - (n - i) + 1 + after;
      if (i == n) next = in->rank;
      if (next > in->rank) next = in->rank;
      for (; dense < next; dense++) WEFT_RETURN_IF_ERROR(weft_infer_push(&result, in->dims[dense]));
      continue;
    }
    if (bit(m->new_axis, i)) {
      WEFT_RETURN_IF_ERROR(weft_infer_push(&result, 1));
      continue;
    }
    if (in->rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Attempting to slice scalar input.");
    if (dense >= in->rank) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Index out of range using input dim %d; input has only %d dims",
                        dense, in->rank);
    }
    stride_dim_t d = {.begin = weft_infer_value(c, 1, i),
                      .end = weft_infer_value(c, 2, i),
                      .stride = weft_infer_value(c, 3, i),
                      .begin_masked = bit(m->begin, i),
                      .end_masked = bit(m->end, i),
                      .is_shrunk = bit(m->shrink, i)};
    if (d.stride == 0) return WEFT_ERROR(INVALID_ARGUMENT, "strides[%d] must be non-zero", i);
    if (d.is_shrunk && d.stride < 0 && in->dims[dense] >= 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "only stride 1 allowed on non-range indexing.");
    }
    int64_t length = WEFT_UNKNOWN_DIM, dim = in->dims[dense];
    if (has_values || (d.begin_masked && d.end_masked && !d.is_shrunk)) {
      WEFT_RETURN_IF_ERROR(strided_length(&d, dim, dense, &length));
    }
    dense++;
    if (!d.is_shrunk) WEFT_RETURN_IF_ERROR(weft_infer_push(&result, length));
  }
  *out = result;
  return NULL;
}

static masks_t masks_of(const weft_shape_ctx_t *c) {
  return (masks_t){weft_infer_int(c, "begin_mask"), weft_infer_int(c, "end_mask"),
                   weft_infer_int(c, "ellipsis_mask"), weft_infer_int(c, "new_axis_mask"),
                   weft_infer_int(c, "shrink_axis_mask")};
}

weft_status_t *weft_infer_strided_slice(weft_shape_ctx_t *c) {
  weft_shape_t begin, end, strides;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &begin));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, &end));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 3, 1, &strides));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&begin, &end, &begin));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&begin, &strides, &begin));
  int64_t n = begin.dims[0];
  if (c->inputs[0].rank < 0 || n < 0 || !weft_infer_is_known(c, 3)) return NULL;
  if (n > 2 * WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "a slice of %" PRId64 " dimensions", n);
  masks_t m = masks_of(c);
  return strided_slice(c, &c->inputs[0], (int)n, &m, &c->outputs[0]);
}

weft_status_t *weft_infer_strided_slice_grad(weft_shape_ctx_t *c) {
  return weft_shape_from_input(c, 0, &c->outputs[0]);
}

weft_status_t *weft_infer_where(weft_shape_ctx_t *c) {
  c->outputs[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, c->inputs[0].rank);
  return NULL;
}

/* ---- gathers ---- */

weft_status_t *weft_infer_gather(weft_shape_ctx_t *c) {
  weft_shape_t out = c->inputs[1];
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[0], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, &c->inputs[0], 1, c->inputs[0].rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_gather_v2(weft_shape_ctx_t *c) {
  const weft_shape_t *params = &c->inputs[0], *indices = &c->inputs[1];
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(params, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 2));
  int64_t batch = weft_infer_int(c, "batch_dims"),
          least = batch < 0 ? weft_infer_rank_for_axis(batch) : batch;
  if (!weft_infer_is_known(c, 2)) {
    int64_t rank =
        batch < -WEFT_MAX_DIMS || batch > WEFT_MAX_DIMS ? -1 : params->rank + indices->rank - 1 - batch;
    if (params->rank >= 0 && indices->rank >= 0 && rank >= 0 && rank <= WEFT_MAX_DIMS) {
      c->outputs[0] = weft_infer_unknown_of_rank((int)rank);
    }
    return NULL;
  }
  int64_t axis = weft_infer_value(c, 2, 0), needed = weft_infer_rank_for_axis(axis);
  if (params->rank >= 0 && params->rank < needed) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank %" PRId64 " but is rank %d", needed,
                      params->rank);
  }
  if (indices->rank >= 0 && indices->rank < least) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank %" PRId64 " but is rank %d", least,
                      indices->rank);
  }
  if (batch < 0 && indices->rank >= 0) batch += indices->rank;
  if (params->rank >= 0 && batch >= params->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank %" PRId64 " but is rank %d",
                      weft_infer_rank_for_axis(batch), params->rank);
  }
  if (params->rank < 0 || indices->rank < 0) return NULL;
  if (axis < 0) axis += params->rank;
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, params, 0, (int)axis));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, indices, (int)batch, indices->rank));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, params, (int)axis + 1, params->rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_gather_nd_shape(weft_shape_ctx_t *c, const weft_shape_t *params,
                                          const weft_shape_t *indices) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(indices, 1, NULL));
  int64_t depth = weft_infer_dim(indices, -1);
  if (params->rank < 0 || depth < 0) return NULL;
  if (depth > params->rank) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "indices.shape[-1] must be <= params.rank, but saw indices shape: %s and params shape: %s",
        WEFT_SHAPE_TEXT(indices), WEFT_SHAPE_TEXT(params));
  }
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, indices, 0, indices->rank - 1));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, params, (int)depth, params->rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_gather_nd(weft_shape_ctx_t *c) {
  return weft_infer_gather_nd_shape(c, &c->inputs[0], &c->inputs[1]);
}

/* Dims [from, to) of a whole shape, as a shape. */
static weft_shape_t part(const weft_shape_t *s, int from, int to) {
  weft_shape_t out = {.rank = to > from ? to - from : 0};
  for (int i = 0; i < out.rank; i++) out.dims[i] = s->dims[from + i];
  return out;
}

/* Dims [from, end) of two shapes must match. */
static weft_status_t *match_parts(const char *name_a, const weft_shape_t *a, int from_a, int to_a,
                                  const weft_shape_t *b, int from_b, int to_b) {
  weft_shape_t x = part(a, from_a, to_a), y = part(b, from_b, to_b), merged;
  weft_status_t *why = weft_shape_merge(&x, &y, &merged);
  if (why == NULL) return NULL;
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT,
                                "Dimensions [%d,%d) of %s[shape=%s] = %s must match dimensions [%d,%d) of "
                                "updates[shape=%s] = %s: %s",
                                from_a, to_a, name_a, WEFT_SHAPE_TEXT(a), WEFT_SHAPE_TEXT(&x), from_b, to_b,
                                WEFT_SHAPE_TEXT(b), WEFT_SHAPE_TEXT(&y), weft_status_message(why));
  weft_status_free(why);
  return s;
}

/* indices [I..., depth], updates [I..., shape[depth:]...] */
weft_status_t *weft_infer_scatter_nd_check(const weft_shape_t *indices, const weft_shape_t *updates,
                                           const weft_shape_t *shape) {
  if (weft_shape_count(shape) == 0 && (weft_shape_count(indices) > 0 || weft_shape_count(updates) > 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Indices and updates specified for empty input");
  }
  if (indices->rank < 0 || updates->rank <= 0) return NULL; /* a scalar has no rows to compare */
  int outer = indices->rank - 1;
  int64_t depth = weft_infer_dim(indices, -1);
  if (depth < 0) return NULL;
  if (updates->rank < outer || (shape->rank >= 0 && depth > shape->rank)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank %d but is rank %d",
                      updates->rank < outer ? outer : (int)(depth < INT32_MAX ? depth : INT32_MAX),
                      updates->rank < outer ? updates->rank : shape->rank);
  }
  WEFT_RETURN_IF_ERROR(match_parts("indices", indices, 0, outer, updates, 0, outer));
  if (shape->rank < 0) return NULL;
  return match_parts("input", shape, (int)depth, shape->rank, updates, outer, updates->rank);
}

weft_status_t *weft_infer_scatter_nd(weft_shape_ctx_t *c) {
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[0], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[1], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, 2, &shape));
  WEFT_RETURN_IF_ERROR(weft_infer_scatter_nd_check(&c->inputs[0], &c->inputs[1], &shape));
  c->outputs[0] = shape;
  return NULL;
}

weft_status_t *weft_infer_tensor_scatter(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[0], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[1], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_scatter_nd_check(&c->inputs[1], &c->inputs[2], &c->inputs[0]));
  c->outputs[0] = c->inputs[0];
  return NULL;
}

/* ---- sets of values ---- */

weft_status_t *weft_infer_unique(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, NULL));
  c->outputs[0] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  c->outputs[1] = c->inputs[0];
  if (c->num_outputs > 2) c->outputs[2] = c->outputs[0];
  return NULL;
}

weft_status_t *weft_infer_unique_with_counts(weft_shape_ctx_t *c) { /* the kernel checks the rank */
  c->outputs[0] = c->outputs[2] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  c->outputs[1] = c->inputs[0];
  return NULL;
}

weft_status_t *weft_infer_unique_v2(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  int64_t axis = 0, indices = WEFT_UNKNOWN_DIM;
  bool has_axis = weft_infer_num_values(c, 1) == 1;
  if (has_axis) axis = weft_infer_value(c, 1, 0);
  if (weft_infer_is_known(c, 1) && in->rank >= 0) {
    int at = 0;
    if (!has_axis) WEFT_RETURN_IF_ERROR(weft_infer_rank(in, 1, NULL));
    WEFT_RETURN_IF_ERROR(weft_infer_axis(axis, in->rank, &at));
    indices = in->dims[at];
  }
  c->outputs[0] = weft_infer_unknown_of_rank(in->rank);
  c->outputs[1] = weft_shape_vector(indices);
  if (c->num_outputs > 2) c->outputs[2] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_list_diff(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  return weft_infer_vector(c);
}

/* ---- dynamic partition and stitch ---- */

weft_status_t *weft_infer_dynamic_partition(weft_shape_ctx_t *c) {
  const weft_shape_t *data = &c->inputs[0], *partitions = &c->inputs[1];
  if (data->rank < 0 || partitions->rank < 0) return NULL;
  weft_shape_t merged, out = weft_shape_vector(WEFT_UNKNOWN_DIM);
  WEFT_RETURN_IF_ERROR(weft_infer_merge_prefix(data, partitions, &merged));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, data, partitions->rank, data->rank));
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = out;
  return NULL;
}

weft_status_t *weft_infer_dynamic_stitch(weft_shape_ctx_t *c) {
  int n = c->num_inputs / 2;
  weft_shape_t tail = WEFT_UNKNOWN_SHAPE;
  int64_t largest = -1;
  bool all_known = true;
  for (int i = 0; i < n; i++) {
    const weft_shape_t *indices = &c->inputs[i], *data = &c->inputs[n + i];
    if (weft_infer_is_known(c, i)) {
      for (int64_t k = 0; k < c->values[i]->count; k++) {
        int64_t v = weft_infer_value(c, i, k);
        if (v > largest) largest = v;
      }
    } else {
      all_known = false;
    }
    if (indices->rank < 0 || data->rank < 0) continue;
    weft_shape_t merged, rest = WEFT_SCALAR;
    WEFT_RETURN_IF_ERROR(weft_infer_merge_prefix(data, indices, &merged));
    WEFT_RETURN_IF_ERROR(weft_infer_append(&rest, data, indices->rank, data->rank));
    WEFT_RETURN_IF_ERROR(weft_shape_merge(&tail, &rest, &tail));
  }
  if (tail.rank < 0) return NULL;
  weft_shape_t out = weft_shape_vector(all_known ? largest + 1 : WEFT_UNKNOWN_DIM);
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, &tail, 0, tail.rank));
  c->outputs[0] = out;
  return NULL;
}
