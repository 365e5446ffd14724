/* ops/math.c - shapes of arithmetic, comparisons, reductions, segments and matrix products. */
#include <inttypes.h>

#include "ops/infer.h"

/* ---- elementwise ---- */

/* The first aligned pair of dims, from the front, that may not fit, as one is unknown and the other is not 1:
 * true. False if there is none, or one that does not fit stands before it. */
static bool may_not_fit(const weft_shape_t *a, const weft_shape_t *b) {
  int shared = a->rank < b->rank ? a->rank : b->rank;
  for (int i = shared; i > 0; i--) {
    int64_t x = a->dims[a->rank - i], y = b->dims[b->rank - i];
    if (x == 1 || y == 1 || (x < 0 && y < 0)) continue;
    if (x < 0 || y < 0) return true;
    if (x != y) return false;
  }
  return false;
}

weft_status_t *weft_infer_broadcast(weft_shape_ctx_t *c) {
  const weft_shape_t *a = &c->inputs[0], *b = &c->inputs[1];
  const weft_attr_t *strict = weft_shape_attr(c, "incompatible_shape_error");
  if (strict->kind != WEFT_ATTR_BOOL || strict->b) return weft_shape_broadcast(a, b, &c->outputs[0]);
  /* For shapes that do not fit the kernel answers with a scalar. */
  weft_status_t *s = weft_shape_broadcast(a, b, &c->outputs[0]);
  if (may_not_fit(a, b)) {
    c->outputs[0] = WEFT_UNKNOWN_SHAPE;
  } else if (s != NULL) {
    c->outputs[0] = WEFT_SCALAR;
  }
  weft_status_free(s);
  return NULL;
}

weft_status_t *weft_infer_merged(weft_shape_ctx_t *c) {
  weft_shape_t all = c->inputs[c->num_inputs - 1];
  for (int i = c->num_inputs - 2; i >= 0; i--) {
    WEFT_RETURN_IF_ERROR(weft_infer_from_merging(weft_shape_merge(&c->inputs[i], &all, &all), i));
    weft_infer_pass_handle(c, i, 0);
  }
  c->outputs[0] = all;
  return NULL;
}

weft_status_t *weft_infer_merged_pair(weft_shape_ctx_t *c) {
  return weft_shape_merge(&c->inputs[0], &c->inputs[1], &c->outputs[0]);
}

weft_status_t *weft_infer_like_first(weft_shape_ctx_t *c) {
  weft_shape_t merged;
  c->outputs[0] = c->inputs[0];
  return weft_shape_merge(&c->inputs[0], &c->inputs[1], &merged);
}

/* Three inputs of one shape, but for scalars. */
weft_status_t *weft_infer_betainc(weft_shape_ctx_t *c) {
  weft_shape_t merged = WEFT_UNKNOWN_SHAPE, other = WEFT_UNKNOWN_SHAPE;
  int scalars = 0;
  for (int i = 0; i < 3; i++) {
    if (c->inputs[i].rank == 0) {
      scalars++;
    } else if (c->inputs[i].rank < 0) {
      other = c->inputs[i]; /* a scalar, or not */
    } else {
      WEFT_RETURN_IF_ERROR(weft_shape_merge(&merged, &c->inputs[i], &merged));
      other = merged;
    }
  }
  c->outputs[0] = scalars == 3 ? WEFT_SCALAR : scalars == 2 ? other : merged;
  return NULL;
}

weft_status_t *weft_infer_accumulate_n(weft_shape_ctx_t *c) {
  c->outputs[0] = weft_infer_shape(c, "shape");
  return NULL;
}

weft_status_t *weft_infer_select(weft_shape_ctx_t *c) {
  const weft_shape_t *cond = &c->inputs[0];
  weft_shape_t data;
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[1], &c->inputs[2], &data));
  c->outputs[0] = data;
  if (cond->rank < 0 || data.rank < 0 || cond->rank == 0) return NULL;
  if (cond->rank == 1 && data.rank > 0) { /* picks rows */
    weft_shape_t rows = weft_shape_vector(data.dims[0]), merged;
    return weft_shape_merge(cond, &rows, &merged);
  }
  return weft_shape_merge(&data, cond, &c->outputs[0]);
}

weft_status_t *weft_infer_select_v2(weft_shape_ctx_t *c) {
  weft_shape_t data;
  WEFT_RETURN_IF_ERROR(weft_shape_broadcast(&c->inputs[1], &c->inputs[2], &data));
  return weft_shape_broadcast(&c->inputs[0], &data, &c->outputs[0]);
}

/* ---- reductions ---- */

weft_status_t *weft_infer_reduce(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0], *axes = &c->inputs[1];
  bool keep = weft_infer_bool(c, "keep_dims");
  if (axes->rank >= 2 && !weft_infer_is_known(c, 1)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at most rank 1 but is rank %d", axes->rank);
  }
  if (!weft_infer_is_known(c, 1)) {
    if (keep && in->rank >= 0) c->outputs[0] = weft_infer_unknown_of_rank(in->rank);
    return NULL;
  }
  if (in->rank < 0) return NULL;
  bool drop[WEFT_MAX_DIMS] = {false};
  for (int64_t i = 0; i < c->values[1]->count; i++) {
    int64_t axis = weft_infer_value(c, 1, i);
    if (axis < -(int64_t)in->rank || axis >= in->rank) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Invalid reduction dimension %" PRId64 " for input with %d dimensions.", axis,
                        in->rank);
    }
    drop[axis < 0 ? axis + in->rank : axis] = true;
  }
  weft_shape_t out = WEFT_SCALAR;
  for (int i = 0; i < in->rank; i++) {
    if (!drop[i]) {
      out.dims[out.rank++] = in->dims[i];
    } else if (keep) {
      out.dims[out.rank++] = 1;
    }
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_arg_op(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  if (in->rank < 0) return NULL;
  if (in->rank <= 1) {
    c->outputs[0] = WEFT_SCALAR;
    return NULL;
  }
  if (!weft_infer_is_known(c, 1)) {
    c->outputs[0] = weft_infer_unknown_of_rank(in->rank - 1);
    return NULL;
  }
  int64_t axis = weft_infer_value(c, 1, 0);
  int64_t at = axis < 0 ? axis + in->rank : axis;
  if (at < 0 || at >= in->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimension (%" PRId64
                      ") must be in the range [%d, %d), where %d is the number of dimensions in the input.",
                      axis, -in->rank, in->rank, in->rank);
  }
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, 0, (int)at));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, (int)at + 1, in->rank));
  c->outputs[0] = out;
  return NULL;
}

/* ---- segments ---- */

weft_status_t *weft_infer_segment(weft_shape_ctx_t *c) {
  const weft_shape_t *data = &c->inputs[0];
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(data, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  weft_shape_t out = weft_shape_vector(WEFT_UNKNOWN_DIM);
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, data, 1, data->rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_unsorted_segment(weft_shape_ctx_t *c) {
  const weft_shape_t *data = &c->inputs[0], *ids = &c->inputs[1];
  weft_shape_t merged;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 2));
  if (ids->rank < 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_infer_merge_prefix(data, ids, &merged));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_input(c, 2, &n));
  if (data->rank < 0) return NULL;
  weft_shape_t out = weft_shape_vector(n);
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, data, ids->rank, data->rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_sparse_segment(weft_shape_ctx_t *c) {
  const weft_shape_t *data = &c->inputs[0];
  weft_shape_t indices, ids;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(data, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &indices));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, &ids));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&indices, &ids, &ids));
  weft_shape_t out = weft_shape_vector(WEFT_UNKNOWN_DIM);
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, data, 1, data->rank));
  c->outputs[0] = out;
  return NULL;
}

/* `rows` rows like those of the data. */
static weft_status_t *sparse_segment_grad(weft_shape_ctx_t *c, int64_t rows) {
  const weft_shape_t *data = &c->inputs[0];
  weft_shape_t indices, out = weft_shape_vector(rows);
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(data, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &indices));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[2], &indices, &indices));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 3, 3));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, data, 1, data->rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_sparse_segment_grad(weft_shape_ctx_t *c) {
  int64_t rows = weft_infer_num_values(c, 3) > 0 ? weft_infer_value(c, 3, 0) : WEFT_UNKNOWN_DIM;
  if (rows < 0 && weft_infer_is_known(c, 3))
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot specify a negative value for output_dim0");
  return sparse_segment_grad(c, rows);
}

/* One row for each index that there is: how many is not known. */
weft_status_t *weft_infer_sparse_segment_grad_v2(weft_shape_ctx_t *c) {
  c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return sparse_segment_grad(c, WEFT_UNKNOWN_DIM);
}

weft_status_t *weft_infer_sparse_segment_sized(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_sparse_segment(c));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 3, 3));
  if (!weft_infer_is_known(c, 3)) return NULL;
  int64_t n = weft_infer_value(c, 3, 0);
  if (n < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Cannot specify a negative value for num_segments");
  if (c->outputs[0].rank > 0) c->outputs[0].dims[0] = n;
  return NULL;
}

/* ---- counts, order ---- */

/* The size that scalar input i holds; unknown if its value is. Errors: below 0. */
static weft_status_t *bins(weft_shape_ctx_t *c, int i, int64_t *out) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, i, i));
  *out = weft_infer_is_known(c, i) ? weft_infer_value(c, i, 0) : WEFT_UNKNOWN_DIM;
  if (!weft_infer_is_known(c, i) || *out >= 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "size (%" PRId64 ") must be non-negative", *out);
}

weft_status_t *weft_infer_bincount(weft_shape_ctx_t *c) {
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(bins(c, 1, &n));
  c->outputs[0] = weft_shape_vector(n);
  return NULL;
}

weft_status_t *weft_infer_dense_bincount(weft_shape_ctx_t *c) {
  const weft_shape_t *values = &c->inputs[0];
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 0, 2));
  WEFT_RETURN_IF_ERROR(bins(c, 1, &n));
  if (values->rank < 0) return NULL;
  if (!weft_infer_is_known(c, 1)) {
    c->outputs[0] = weft_infer_unknown_of_rank(values->rank);
    return NULL;
  }
  c->outputs[0] = values->rank == 2 ? weft_shape_matrix(values->dims[0], n) : weft_shape_vector(n);
  return NULL;
}

weft_status_t *weft_infer_histogram(weft_shape_ctx_t *c) {
  weft_shape_t range;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &range));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(range.dims[0], 2));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 2));
  int64_t n = weft_infer_is_known(c, 2) ? weft_infer_value(c, 2, 0) : WEFT_UNKNOWN_DIM;
  if (weft_infer_is_known(c, 2) && n <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Requires nbins > 0: %" PRId64, n);
  }
  c->outputs[0] = weft_shape_vector(n);
  return NULL;
}

/* As weft_infer_dim_input; -1 is a size that is not known. */
static weft_status_t *size_or_unknown(const weft_shape_ctx_t *c, int i, int64_t *out) {
  *out = WEFT_UNKNOWN_DIM;
  if (weft_infer_is_known(c, i) && weft_infer_value(c, i, 0) == -1) return NULL;
  return weft_infer_dim_input(c, i, out);
}

weft_status_t *weft_infer_sobol(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 2));
  int64_t dim = 0, num_results = 0;
  WEFT_RETURN_IF_ERROR(size_or_unknown(c, 0, &dim));
  WEFT_RETURN_IF_ERROR(size_or_unknown(c, 1, &num_results));
  c->outputs[0] = weft_shape_matrix(num_results, dim);
  return NULL;
}

weft_status_t *weft_infer_nth_element(weft_shape_ctx_t *c) {
  weft_shape_t in;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 1, &in));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_input(c, 1, &n));
  int64_t last = weft_infer_dim(&in, -1);
  if (last >= 0 && n >= 0 && last <= n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input must have last dimension > n = %" PRId64 " but is %" PRId64, n,
                      last);
  }
  if (in.rank > 0) in.rank--;
  c->outputs[0] = in;
  return NULL;
}

/* ---- matrix products ---- */

weft_status_t *weft_infer_matmul(weft_shape_ctx_t *c) {
  weft_shape_t a, b;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &a));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 2, &b));
  int ta = weft_infer_bool(c, "transpose_a"), tb = weft_infer_bool(c, "transpose_b");
  int64_t inner = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(a.dims[1 - ta], b.dims[tb], &inner));
  c->outputs[0] = weft_shape_matrix(a.dims[ta], b.dims[1 - tb]);
  return NULL;
}

/* The dims in front of the matrix. */
static weft_shape_t batch_of(const weft_shape_t *s) {
  weft_shape_t batch = *s;
  if (batch.rank >= 2) batch.rank -= 2;
  return batch;
}

static weft_status_t *batch_matmul(weft_shape_ctx_t *c, bool broadcasts) {
  weft_shape_t a, b, out;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 2, &a));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 1, 2, &b));
  int ta = weft_infer_bool(c, "adj_x"), tb = weft_infer_bool(c, "adj_y");
  int64_t inner = 0;
  weft_shape_t batch_a = batch_of(&a), batch_b = batch_of(&b);
  int64_t inner_a = weft_infer_dim(&a, ta ? -2 : -1), inner_b = weft_infer_dim(&b, tb ? -1 : -2);
  if (broadcasts) WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(inner_a, inner_b, &inner));
  WEFT_RETURN_IF_ERROR(broadcasts ? weft_shape_broadcast(&batch_a, &batch_b, &out)
                                  : weft_shape_merge(&batch_a, &batch_b, &out));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(inner_a, inner_b, &inner));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, weft_infer_dim(&a, ta ? -1 : -2)));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, weft_infer_dim(&b, tb ? -2 : -1)));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_batch_matmul(weft_shape_ctx_t *c) { return batch_matmul(c, false); }
weft_status_t *weft_infer_batch_matmul_v2(weft_shape_ctx_t *c) { return batch_matmul(c, true); }
