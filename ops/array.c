/* ops/array.c - shapes of ops that make, join, split and reshape arrays. */
#include <inttypes.h>

#include "ops/infer.h"

weft_status_t *weft_infer_unchanged(weft_shape_ctx_t *c) {
  c->outputs[0] = c->inputs[0];
  weft_infer_pass_handle(c, 0, 0);
  return NULL;
}

weft_status_t *weft_infer_scalar(weft_shape_ctx_t *c) {
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = WEFT_SCALAR;
  return NULL;
}

weft_status_t *weft_infer_vector(weft_shape_ctx_t *c) {
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_from_input0(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, NULL));
  return weft_shape_from_input(c, 0, &c->outputs[0]);
}

/* ---- shapes as values ---- */

weft_status_t *weft_infer_shape_of(weft_shape_ctx_t *c) {
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = weft_shape_vector(c->inputs[i].rank);
  return NULL;
}

weft_status_t *weft_infer_vectors_unchanged(weft_shape_ctx_t *c) {
  for (int i = 0; i < c->num_outputs; i++)
    WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &c->outputs[i]));
  return NULL;
}

weft_status_t *weft_infer_broadcast_gradient_args(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  return weft_infer_vector(c);
}

weft_status_t *weft_infer_broadcast_args(weft_shape_ctx_t *c) {
  weft_shape_t a, b;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, &a));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &b));
  int64_t x = a.dims[0], y = b.dims[0];
  c->outputs[0] = weft_shape_vector(x < 0 || y < 0 ? WEFT_UNKNOWN_DIM : x > y ? x : y);
  return NULL;
}

weft_status_t *weft_infer_concat_offset(weft_shape_ctx_t *c) {
  for (int i = 1; i < c->num_inputs; i++) c->outputs[i - 1] = c->inputs[i];
  return NULL;
}

/* ---- making ---- */

weft_status_t *weft_infer_fill(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  for (int64_t i = 0; i < weft_infer_num_values(c, 0); i++) {
    if (weft_infer_value(c, 0, i) == -1) return WEFT_ERROR(INVALID_ARGUMENT, "Fill dimensions must be >= 0");
  }
  return weft_shape_from_input(c, 0, &c->outputs[0]);
}

static double float_value(const weft_tensor_t *t) {
  switch (t->dtype) {
    case WEFT_F32: return (double)*(const float *)t->data;
    case WEFT_F64: return *(const double *)t->data;
    case WEFT_F16: return (double)weft_f16_to_f32(*(const uint16_t *)t->data);
    case WEFT_BF16: return (double)weft_bf16_to_f32(*(const uint16_t *)t->data);
    default: return 0;
  }
}

static weft_status_t *range_length(const weft_shape_ctx_t *c, int64_t *out) {
  if (weft_dtype_is_floating(c->input_types[0])) {
    double start = float_value(c->values[0]), limit = float_value(c->values[1]),
           delta = float_value(c->values[2]);
    if (delta == 0 || !(delta == delta)) return WEFT_ERROR(INVALID_ARGUMENT, "Requires delta != 0");
    if (start > limit && delta > 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Requires start <= limit when delta > 0: %.6g/%.6g", start, limit);
    }
    if (start < limit && delta < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Requires start >= limit when delta < 0: %.6g/%.6g", start, limit);
    }
    double size = (limit - start) / delta;
    if (!(size < 9e18))
      return WEFT_ERROR(INVALID_ARGUMENT, "Requires ((limit - start) / delta) <= %" PRId64, INT64_MAX);
    *out = (int64_t)size;
    if ((double)*out < size) ++*out;
    return NULL;
  }
  int64_t start = weft_infer_value(c, 0, 0), limit = weft_infer_value(c, 1, 0),
          delta = weft_infer_value(c, 2, 0);
  if (delta == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Requires delta != 0");
  if (start > limit && delta > 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Requires start <= limit when delta > 0: %" PRId64 "/%" PRId64, start,
                      limit);
  }
  if (start < limit && delta < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Requires start >= limit when delta < 0: %" PRId64 "/%" PRId64, start,
                      limit);
  }
  uint64_t span = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
  uint64_t length = span / step + (span % step != 0);
  if (length > INT64_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "Requires ((limit - start) / delta) <= %" PRId64, INT64_MAX);
  *out = (int64_t)length;
  return NULL;
}

static weft_status_t *named_scalars(const weft_shape_ctx_t *c, const char *const names[3]) {
  for (int i = 0; i < 3; i++) {
    if (c->inputs[i].rank <= 0) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank 0 but is rank %d\n\t for '%s'", c->inputs[i].rank,
                      names[i]);
  }
  return NULL;
}

weft_status_t *weft_infer_range(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(named_scalars(c, (const char *const[3]){"start", "limit", "delta"}));
  c->outputs[0] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  for (int i = 0; i < 3; i++) {
    if (!weft_infer_is_known(c, i) || c->values[i]->count != 1) return NULL;
  }
  return range_length(c, &c->outputs[0].dims[0]);
}

weft_status_t *weft_infer_lin_space(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(named_scalars(c, (const char *const[3]){"start", "stop", "num"}));
  c->outputs[0] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  if (!weft_infer_is_known(c, 2)) return NULL;
  int64_t num = weft_infer_value(c, 2, 0);
  if (num <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Requires num > 0: %" PRId64, num);
  c->outputs[0].dims[0] = num;
  return NULL;
}

weft_status_t *weft_infer_one_hot(weft_shape_ctx_t *c) {
  int64_t axis = weft_infer_int(c, "axis");
  if (axis < -1) return WEFT_ERROR(INVALID_ARGUMENT, "axis must be >= -1");
  int64_t depth = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_dim_input(c, 1, &depth));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 3));
  const weft_shape_t *in = &c->inputs[0];
  if (in->rank < 0) return NULL;
  int at = axis == -1 ? in->rank : (int)(axis % (in->rank + 1)); /* the kernel checks the range */
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, 0, at));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, depth));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, at, in->rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_diag(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  weft_shape_t out = *in;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(in, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, 0, in->rank));
  c->outputs[0] = out;
  return NULL;
}

/* Dim of a scalar input of a size, -1 meaning that it is to be worked out; WEFT_UNKNOWN_DIM for both. */
static int64_t size_or_unknown(const weft_shape_ctx_t *c, int i) {
  if (i >= c->num_inputs || !weft_infer_is_known(c, i)) return WEFT_UNKNOWN_DIM;
  int64_t value = weft_infer_value(c, i, 0);
  return value < 0 ? WEFT_UNKNOWN_DIM : value;
}

/* The diagonals `lower` to `upper` lie in a matrix of this size, if it is known. */
static weft_status_t *check_diagonals(int64_t lower, int64_t upper, int64_t rows, int64_t columns) {
  if (lower > upper) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "lower_diag_index is greater than upper_diag_index: %" PRId64 " > %" PRId64, lower,
                      upper);
  }
  if (rows < 0 || columns < 0) return NULL;
  for (int i = 0; i < 2; i++) {
    int64_t k = i == 0 ? lower : upper;
    if (k == 0 || (-rows < k && k < columns)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s_diag_index %" PRId64 " is out of bound for a matrix of %" PRId64 " x %" PRId64,
                      i == 0 ? "lower" : "upper", k, rows, columns);
  }
  return NULL;
}

weft_status_t *weft_infer_matrix_diag(weft_shape_ctx_t *c) { /* diagonal, k, num_rows, num_cols, padding */
  const weft_shape_t *in = &c->inputs[0];
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(in, 1, NULL));
  if (in->rank < 0 || (c->num_inputs > 1 && !weft_infer_is_known(c, 1))) return NULL;
  int64_t lower = c->num_inputs > 1 ? weft_infer_value(c, 1, 0) : 0, longest = weft_infer_dim(in, -1);
  int64_t upper = c->num_inputs > 1 && weft_infer_num_values(c, 1) > 1 ? weft_infer_value(c, 1, 1) : lower;
  int taken = upper > lower ? 2 : 1;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(in, taken, NULL));
  int64_t rows = size_or_unknown(c, 2), columns = size_or_unknown(c, 3);
  bool is_square =
      rows < 0 && columns < 0; /* sizes that are not known count as not given, as TensorFlow's do */
  if (longest >= 0) {          /* the smallest matrix that has room */
    int64_t down, right;
    WEFT_RETURN_IF_ERROR(weft_infer_add(longest, upper < 0 ? -upper : 0, &down));
    WEFT_RETURN_IF_ERROR(weft_infer_add(longest, lower > 0 ? lower : 0, &right));
    int64_t side = down > right ? down : right;
    if (rows < 0) rows = is_square ? side : down;
    if (columns < 0) columns = is_square ? side : right;
  }
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, 0, in->rank - taken));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, rows));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, columns));
  c->outputs[0] = out;
  return NULL;
}

/* The lesser of two dims; WEFT_UNKNOWN_DIM where it depends on one that is not known. */
static int64_t lesser(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a < 0 || b < 0) return WEFT_UNKNOWN_DIM;
  return a < b ? a : b;
}

/* The input's shape; what it lacks of the batch's comes from the diagonal's. */
weft_status_t *weft_infer_matrix_set_diag(weft_shape_ctx_t *c) { /* input, diagonal, k */
  const weft_shape_t *in = &c->inputs[0], *diagonal = &c->inputs[1];
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(in, 2, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(diagonal, 1, NULL));
  c->outputs[0] = *in;
  bool has_k = c->num_inputs > 2, knows_k = !has_k || weft_infer_is_known(c, 2);
  int64_t lower = has_k && knows_k ? weft_infer_value(c, 2, 0) : 0, upper = lower;
  if (has_k && knows_k && weft_infer_num_values(c, 2) > 1) upper = weft_infer_value(c, 2, 1);
  int taken = upper > lower ? 2 : 1;
  WEFT_RETURN_IF_ERROR(check_diagonals(lower, upper, weft_infer_dim(in, -2), weft_infer_dim(in, -1)));
  if (diagonal->rank < 0) return NULL;
  if (in->rank >= 0 && knows_k) WEFT_RETURN_IF_ERROR(weft_infer_rank(diagonal, in->rank - 2 + taken, NULL));
  if (in->rank >= 0 && !knows_k) {
    WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(diagonal, in->rank - 1, NULL));
    WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 1, in->rank));
  }
  if (!has_k && in->rank >= 0) {
    int64_t length, side = lesser(weft_infer_dim(in, -2), weft_infer_dim(in, -1));
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(side, weft_infer_dim(diagonal, -1), &length));
  }
  weft_shape_t batch = WEFT_SCALAR, unknown = weft_infer_unknown_of_rank(2);
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(diagonal, taken, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&batch, diagonal, 0, diagonal->rank - taken));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&batch, &unknown, 0, 2));
  return weft_shape_is_known(in) ? NULL : weft_shape_merge(in, &batch, &c->outputs[0]);
}

weft_status_t *weft_infer_matrix_diag_part(weft_shape_ctx_t *c) { /* input, k, padding */
  const weft_shape_t *in = &c->inputs[0];
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(in, 2, NULL));
  if (in->rank < 0 || (c->num_inputs > 1 && !weft_infer_is_known(c, 1))) return NULL;
  int64_t lower = c->num_inputs > 1 ? weft_infer_value(c, 1, 0) : 0;
  int64_t upper = c->num_inputs > 1 && weft_infer_num_values(c, 1) > 1 ? weft_infer_value(c, 1, 1) : lower;
  int64_t rows = weft_infer_dim(in, -2), columns = weft_infer_dim(in, -1), longest = WEFT_UNKNOWN_DIM;
  WEFT_RETURN_IF_ERROR(check_diagonals(lower, upper, rows, columns));
  if (rows >= 0 && columns >= 0) {
    int64_t down = rows + (upper < 0 ? upper : 0), right = columns - (lower > 0 ? lower : 0);
    longest = down < right ? down : right;
    if (longest < 0) longest = WEFT_UNKNOWN_DIM; /* the kernel says what is wrong */
  }
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, 0, in->rank - 2));
  if (upper > lower) WEFT_RETURN_IF_ERROR(weft_infer_push(&out, upper - lower + 1));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, longest));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_diag_part(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  if (in->rank < 0) return NULL;
  if (in->rank % 2 != 0 || in->rank <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input must have even and non-zero rank, input rank is %d", in->rank);
  }
  weft_shape_t out = {.rank = in->rank / 2};
  for (int i = 0; i < out.rank; i++) {
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(in->dims[i], in->dims[i + out.rank], &out.dims[i]));
  }
  c->outputs[0] = out;
  return NULL;
}

/* ---- reshaping ---- */

/* The product of the known dims, and where the one unknown is (-1: none, or a 0 settles the product; -2:
 * several). */
static weft_status_t *known_count(const weft_shape_t *s, int64_t *out, int *out_unknown) {
  int64_t product = 1;
  int unknown = -1;
  bool is_empty = false;
  for (int i = 0; i < s->rank; i++) {
    if (s->dims[i] < 0) {
      unknown = unknown == -1 ? i : -2;
    } else {
      WEFT_RETURN_IF_ERROR(weft_infer_multiply(product, s->dims[i], &product));
      is_empty = is_empty || s->dims[i] == 0;
    }
  }
  *out = product;
  *out_unknown = is_empty ? -1 : unknown;
  return NULL;
}

static weft_status_t *not_divisible(int64_t by, int64_t count) {
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Dimension size must be evenly divisible by %" PRId64 " but is %" PRId64, by, count);
}

weft_status_t *weft_infer_reshape(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  weft_shape_t out;
  int in_unknown = 0, out_unknown = 0;
  int64_t in_count = 0, out_count = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, 1, &out));
  c->outputs[0] = out;
  if (in->rank < 0 || out.rank < 0) return NULL;
  WEFT_RETURN_IF_ERROR(known_count(in, &in_count, &in_unknown));
  WEFT_RETURN_IF_ERROR(known_count(&out, &out_count, &out_unknown));
  if (in_unknown == -2 || out_unknown == -2) return NULL;
  if (in_unknown < 0 && out_unknown < 0 && in_count != out_count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Cannot reshape a tensor with %" PRId64 " elements to shape %s (%" PRId64 " elements)",
                      in_count, WEFT_SHAPE_TEXT(&out), out_count);
  }
  if (in_unknown < 0 && out_unknown >= 0) {
    if (in_count % out_count != 0) return not_divisible(out_count, in_count);
    c->outputs[0].dims[out_unknown] = in_count / out_count;
  }
  if (in_unknown >= 0 && out_unknown < 0 && out_count % in_count != 0)
    return not_divisible(in_count, out_count);
  return NULL;
}

weft_status_t *weft_infer_expand_dims(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  if (weft_infer_is_known(c, 1) && c->values[1]->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'dim' input must be a tensor with a single value");
  }
  if (in->rank < 0 || !weft_infer_is_known(c, 1)) return NULL;
  int64_t axis = weft_infer_value(c, 1, 0);
  if (axis < -1 - (int64_t)in->rank || axis > in->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "dim %" PRId64 " not in the interval [%d, %d].", axis, -1 - in->rank,
                      in->rank);
  }
  if (axis < 0) axis += in->rank + 1;
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, 0, (int)axis));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, 1));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, (int)axis, in->rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_squeeze(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  if (in->rank < 0) return NULL;
  int n = weft_infer_list_length(c, "squeeze_dims");
  bool drop[WEFT_MAX_DIMS] = {false};
  for (int i = 0; i < n; i++) {
    int64_t axis = weft_infer_list_int(c, "squeeze_dims", i, 0);
    if (axis < -(int64_t)in->rank || axis >= in->rank) {
      return WEFT_ERROR(INVALID_ARGUMENT, "squeeze_dims[%d] not in [%d,%d).", i, -in->rank, in->rank);
    }
    drop[axis < 0 ? axis + in->rank : axis] = true;
  }
  weft_shape_t out = WEFT_SCALAR;
  for (int i = 0; i < in->rank; i++) {
    if (n == 0 && in->dims[i] < 0) return NULL; /* the rank depends on the value */
    bool is_one = in->dims[i] == 1 || in->dims[i] < 0;
    if (n > 0 && drop[i] && !is_one) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Can not squeeze dim[%d], expected a dimension of 1, got %" PRId64,
                        i, in->dims[i]);
    }
    if (n > 0 ? drop[i] : is_one) continue;
    out.dims[out.rank++] = in->dims[i];
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_bitcast(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  size_t from = weft_dtype_size(c->input_types[0]), to = weft_dtype_size(weft_infer_type(c, "type"));
  if (from == 0 || to == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Cannot bitcast types of no fixed size");
  if (in->rank < 0) return NULL;
  weft_shape_t out = *in;
  if (from < to) {
    int64_t last = weft_infer_dim(in, -1), ratio = (int64_t)(to / from);
    WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(in, 1, NULL));
    if (last >= 0 && last != ratio) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Cannot bitcast from %d to %d due to shape. %" PRId64 " does not match %" PRId64,
                        c->input_types[0], weft_infer_type(c, "type"), last, ratio);
    }
    out.rank--;
  } else if (from > to) {
    WEFT_RETURN_IF_ERROR(weft_infer_push(&out, (int64_t)(from / to)));
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_ensure_shape(weft_shape_ctx_t *c) {
  weft_shape_t wanted = weft_infer_shape(c, "shape");
  weft_infer_pass_handle(c, 0, 0);
  if (c->inputs[0].rank >= 0 &&
      c->inputs[0].rank != wanted.rank) { /* so TensorFlow, also where any shape is wanted */
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank %d but is rank %d", wanted.rank,
                      c->inputs[0].rank);
  }
  return weft_shape_merge(&c->inputs[0], &wanted, &c->outputs[0]);
}

/* ---- joining and splitting ---- */

weft_status_t *weft_infer_pack(weft_shape_ctx_t *c) {
  weft_shape_t all = c->inputs[c->num_inputs - 1];
  for (int i = c->num_inputs - 2; i >= 0; i--) {
    weft_status_t *s = weft_shape_merge(&c->inputs[i], &all, &all);
    if (s != NULL) return weft_infer_from_merging(s, i);
  }
  if (all.rank < 0) return NULL;
  int64_t axis = weft_infer_int(c, "axis");
  if (axis < -1 - (int64_t)all.rank || axis > all.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid axis: %" PRId64 "; must be in [%d,%d)", axis, -1 - all.rank,
                      all.rank + 1);
  }
  if (axis < 0) axis += all.rank + 1;
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, &all, 0, (int)axis));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, c->num_inputs));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, &all, (int)axis, all.rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_unpack(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  if (in->rank < 0) return NULL;
  int64_t axis = weft_infer_int(c, "axis");
  if (axis < -(int64_t)in->rank || axis >= in->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid axis: %" PRId64 "; must be in [%d,%d)", axis, -in->rank,
                      in->rank);
  }
  if (axis < 0) axis += in->rank;
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(in->dims[axis], c->num_outputs));
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, 0, (int)axis));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, in, (int)axis + 1, in->rank));
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = out;
  return NULL;
}

/* The dims of `s` from `from` to `to`. */
static weft_shape_t part(const weft_shape_t *s, int from, int to) {
  weft_shape_t out = {.rank = to - from};
  for (int i = from; i < to; i++) out.dims[i - from] = s->dims[i];
  return out;
}

weft_status_t *weft_infer_join(weft_shape_ctx_t *c, int first, int last, int axis_input) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, axis_input, axis_input));
  int rank = WEFT_UNKNOWN_DIM;
  for (int i = first; i <= last; i++) {
    if (rank < 0) rank = c->inputs[i].rank;
    if (rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Can't concatenate scalars (use tf.stack instead)");
    if (rank >= 0) WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], rank, NULL));
  }
  if (rank < 0) return NULL;
  c->outputs[0] = weft_infer_unknown_of_rank(rank);
  if (!weft_infer_is_known(c, axis_input)) return NULL;
  int at = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_axis(weft_infer_value(c, axis_input, 0), rank, &at));
  weft_shape_t before = weft_infer_unknown_of_rank(at), after = weft_infer_unknown_of_rank(rank - at - 1);
  int64_t joined = 0;
  for (int i = last; i >= first; i--) {
    weft_shape_t in;
    WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], rank, &in));
    weft_shape_t in_before = part(&in, 0, at), in_after = part(&in, at + 1, rank);
    WEFT_RETURN_IF_ERROR(weft_shape_merge(&in_before, &before, &before));
    if (i == last || joined >= 0) WEFT_RETURN_IF_ERROR(weft_infer_add(joined, in.dims[at], &joined));
    WEFT_RETURN_IF_ERROR(weft_shape_merge(&in_after, &after, &after));
  }
  weft_shape_t out = before;
  WEFT_RETURN_IF_ERROR(weft_infer_push(&out, joined));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, &after, 0, after.rank));
  c->outputs[0] = out;
  return NULL;
}

/* The shape is the attribute; each value is one row of it, and known. */
weft_status_t *weft_infer_parallel_concat(weft_shape_ctx_t *c) {
  weft_shape_t shape = weft_infer_shape(c, "shape"), row = shape, merged;
  if (!weft_shape_is_known(&shape)) return WEFT_ERROR(INVALID_ARGUMENT, "shape attr must be fully defined");
  if (shape.rank > 0) row.dims[0] = 1;
  for (int i = 0; i < c->num_inputs; i++) {
    if (!weft_shape_is_known(&c->inputs[i]))
      return WEFT_ERROR(INVALID_ARGUMENT, "All input shapes must be fully defined.");
    if (c->inputs[i].rank < 1 || c->inputs[i].dims[0] != 1)
      return WEFT_ERROR(INVALID_ARGUMENT, "Size of first dimension must be 1.");
    weft_status_t *s = weft_shape_merge(&c->inputs[i], &row, &merged);
    if (s != NULL) return weft_status_annotate(s, "From merging shape %d with other shapes.", i);
  }
  c->outputs[0] = shape;
  return NULL;
}

weft_status_t *weft_infer_concat(weft_shape_ctx_t *c) { return weft_infer_join(c, 1, c->num_inputs - 1, 0); }
weft_status_t *weft_infer_concat_v2(weft_shape_ctx_t *c) {
  return weft_infer_join(c, 0, c->num_inputs - 2, c->num_inputs - 1);
}

/* The axis that input i holds. */
static weft_status_t *split_axis(const weft_shape_ctx_t *c, int i, int rank, int *out) {
  int64_t axis = weft_infer_value(c, i, 0);
  if (axis < -(int64_t)rank || axis >= rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimension size, given by scalar input %" PRId64 " must be in range [%d, %d)", axis,
                      -rank, rank);
  }
  *out = (int)(axis < 0 ? axis + rank : axis);
  return NULL;
}

weft_status_t *weft_infer_split(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[1];
  weft_shape_t out = weft_infer_unknown_of_rank(in->rank);
  if (weft_infer_is_known(c, 0) && in->rank >= 0) {
    int at = 0;
    WEFT_RETURN_IF_ERROR(split_axis(c, 0, in->rank, &at));
    out = *in;
    int64_t dim = in->dims[at];
    if (dim >= 0 && dim % c->num_outputs != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Dimension size must be evenly divisible by %d but is %" PRId64
                        "\n\tNumber of ways to split should evenly divide the split dimension",
                        c->num_outputs, dim);
    }
    out.dims[at] = dim < 0 ? WEFT_UNKNOWN_DIM : dim / c->num_outputs;
  }
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = out;
  return NULL;
}

/* "[2,-1,3]", as far as it fits. */
static weft_status_t *bad_pieces(const weft_shape_ctx_t *c, int64_t whole) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  for (int i = 0; i < c->num_outputs; i++) {
    weft_strbuf_printf(&text, "%s%" PRId64, i > 0 ? "," : "", weft_infer_value(c, 1, i));
  }
  weft_status_t *s =
      WEFT_ERROR(INVALID_ARGUMENT, "can't split axis of size %" PRId64 " into pieces of size [%s]", whole,
                 text.failed ? "..." : text.data);
  weft_strbuf_deinit(&text);
  return s;
}

weft_status_t *weft_infer_split_v(weft_shape_ctx_t *c) {
  const weft_shape_t *in = &c->inputs[0];
  if (in->rank < 0) return NULL;
  weft_shape_t out = weft_infer_unknown_of_rank(in->rank);
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = out;
  if (!weft_infer_is_known(c, 2)) return NULL;
  int at = 0, rest = -1;
  WEFT_RETURN_IF_ERROR(split_axis(c, 2, in->rank, &at));
  out = *in;
  out.dims[at] = WEFT_UNKNOWN_DIM;
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = out;
  if (!weft_infer_is_known(c, 1)) return NULL;
  if (c->values[1]->count != c->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Length of size_splits should be equal to num_outputs");
  }
  int64_t total = 0, whole = in->dims[at];
  for (int i = 0; i < c->num_outputs; i++) {
    int64_t size = weft_infer_value(c, 1, i);
    if (size == -1) {
      if (rest >= 0) return WEFT_ERROR(INVALID_ARGUMENT, "size_splits can only have one -1");
      rest = i;
      continue;
    }
    if (size < 0) return bad_pieces(c, whole);
    c->outputs[i].dims[at] = size;
    WEFT_RETURN_IF_ERROR(weft_infer_add(total, size, &total));
  }
  if (whole < 0) return NULL;
  if (rest >= 0 ? total > whole : total != whole) return bad_pieces(c, whole);
  if (rest >= 0) c->outputs[rest].dims[at] = whole - total;
  return NULL;
}

weft_status_t *weft_infer_sorted_bound(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 2, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 2, NULL));
  c->outputs[0] = c->inputs[1];
  return NULL;
}

weft_status_t *weft_infer_unravel_index(weft_shape_ctx_t *c) {
  const weft_shape_t *indices = &c->inputs[0];
  weft_shape_t dims;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &dims));
  if (indices->rank < 0) return NULL;
  int64_t n = 1;
  for (int d = 0; d < indices->rank; d++) WEFT_RETURN_IF_ERROR(weft_infer_multiply(n, indices->dims[d], &n));
  c->outputs[0] = indices->rank == 0 ? dims : weft_shape_matrix(dims.dims[0], n);
  return NULL;
}
