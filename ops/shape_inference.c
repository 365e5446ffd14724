/* ops/shape_inference.c - the building stones of shape functions. */
#include "ops/shape_inference.h"

#include <inttypes.h>

#include "ops/infer.h"

/* ---- attributes ---- */

const weft_attr_t *weft_shape_attr(const weft_shape_ctx_t *c, const char *name) {
  static const weft_attr_t absent = {.kind = WEFT_ATTR_NONE};
  const weft_attr_t *a = weft_attr_find(c->attrs, c->num_attrs, name);
  return a == NULL ? &absent : a;
}

static const weft_attr_t *attr_of_kind(const weft_shape_ctx_t *c, const char *name, weft_attr_kind_t kind) {
  const weft_attr_t *a = weft_shape_attr(c, name);
  return a->kind == kind && !a->is_list ? a : NULL;
}

int64_t weft_infer_int(const weft_shape_ctx_t *c, const char *name) {
  const weft_attr_t *a = attr_of_kind(c, name, WEFT_ATTR_INT);
  return a == NULL ? 0 : a->i;
}

bool weft_infer_bool(const weft_shape_ctx_t *c, const char *name) {
  const weft_attr_t *a = attr_of_kind(c, name, WEFT_ATTR_BOOL);
  return a != NULL && a->b;
}

int weft_infer_type(const weft_shape_ctx_t *c, const char *name) {
  const weft_attr_t *a = attr_of_kind(c, name, WEFT_ATTR_TYPE);
  return a == NULL ? 0 : a->type;
}

weft_str_t weft_infer_str(const weft_shape_ctx_t *c, const char *name) {
  const weft_attr_t *a = attr_of_kind(c, name, WEFT_ATTR_STRING);
  return a == NULL ? WEFT_STR("") : a->s;
}

weft_shape_t weft_infer_shape(const weft_shape_ctx_t *c, const char *name) {
  const weft_attr_t *a = attr_of_kind(c, name, WEFT_ATTR_SHAPE);
  return a == NULL ? WEFT_UNKNOWN_SHAPE : *a->shape;
}

int weft_infer_list_length(const weft_shape_ctx_t *c, const char *name) {
  const weft_attr_t *a = weft_shape_attr(c, name);
  return a->is_list ? a->n : 0;
}

int64_t weft_infer_list_int(const weft_shape_ctx_t *c, const char *name, int i, int64_t absent) {
  const weft_attr_t *a = weft_shape_attr(c, name);
  return a->is_list && a->kind == WEFT_ATTR_INT && i < a->n ? a->list.ints[i] : absent;
}

/* ---- constant inputs ---- */

bool weft_infer_is_known(const weft_shape_ctx_t *c, int i) {
  return c->values != NULL && c->values[i] != NULL;
}

int64_t weft_infer_num_values(const weft_shape_ctx_t *c, int i) {
  return weft_infer_is_known(c, i) ? c->values[i]->count : 0;
}

int64_t weft_infer_value(const weft_shape_ctx_t *c, int i, int64_t k) {
  if (!weft_infer_is_known(c, i) || k < 0 || k >= c->values[i]->count) return 0;
  const void *data = c->values[i]->data;
  switch (c->values[i]->dtype) {
    case WEFT_I64: return ((const int64_t *)data)[k];
    case WEFT_I32: return ((const int32_t *)data)[k];
    case WEFT_I16: return ((const int16_t *)data)[k];
    case WEFT_I8: return ((const int8_t *)data)[k];
    case WEFT_U16: return ((const uint16_t *)data)[k];
    case WEFT_U8:
    case WEFT_BOOL: return ((const uint8_t *)data)[k];
    case WEFT_U32: return ((const uint32_t *)data)[k];
    default: return 0;
  }
}

/* ---- dims and shapes ---- */

int64_t weft_infer_dim(const weft_shape_t *s, int k) {
  if (s->rank < 0) return WEFT_UNKNOWN_DIM;
  if (k < 0) k += s->rank;
  return k >= 0 && k < s->rank ? s->dims[k] : WEFT_UNKNOWN_DIM;
}

weft_status_t *weft_infer_push(weft_shape_t *s, int64_t dim) {
  if (s->rank < 0) return NULL;
  if (s->rank == WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a shape has more than the %d dimensions that are supported",
                      WEFT_MAX_DIMS);
  }
  s->dims[s->rank++] = dim;
  return NULL;
}

weft_status_t *weft_infer_append(weft_shape_t *s, const weft_shape_t *tail, int from, int to) {
  if (tail->rank < 0) *s = WEFT_UNKNOWN_SHAPE;
  for (int i = from; i < to && i < tail->rank; i++) WEFT_RETURN_IF_ERROR(weft_infer_push(s, tail->dims[i]));
  return NULL;
}

weft_shape_t weft_infer_unknown_of_rank(int rank) {
  weft_shape_t s = {.rank = rank > WEFT_MAX_DIMS ? WEFT_UNKNOWN_DIM : rank};
  for (int i = 0; i < s.rank; i++) s.dims[i] = WEFT_UNKNOWN_DIM;
  return s;
}

weft_status_t *weft_infer_multiply(int64_t a, int64_t b, int64_t *out) {
  *out = WEFT_UNKNOWN_DIM;
  if (a == 0 || b == 0) {
    *out = 0;
  } else if (a >= 0 && b >= 0 && __builtin_mul_overflow(a, b, out)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Negative dimension size caused by overflow when multiplying %" PRId64 " and %" PRId64,
                      a, b);
  }
  return NULL;
}

weft_status_t *weft_infer_add(int64_t a, int64_t b, int64_t *out) {
  *out = WEFT_UNKNOWN_DIM;
  if (a < 0 || b < 0) return NULL;
  if (__builtin_add_overflow(a, b, out)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Dimension size overflow from adding %" PRId64 " and %" PRId64, a, b);
  }
  return NULL;
}

weft_status_t *weft_infer_rank(const weft_shape_t *s, int rank, weft_shape_t *out) {
  weft_shape_t result = *s;
  if (s->rank < 0) result = weft_infer_unknown_of_rank(rank);
  if (s->rank >= 0 && s->rank != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank %d but is rank %d", rank, s->rank);
  }
  if (out != NULL) *out = result;
  return NULL;
}

weft_status_t *weft_infer_rank_at_least(const weft_shape_t *s, int rank, weft_shape_t *out) {
  if (s->rank >= 0 && s->rank < rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank %d but is rank %d", rank, s->rank);
  }
  if (out != NULL) *out = *s;
  return NULL;
}

weft_status_t *weft_shape_with_rank(weft_shape_ctx_t *c, int input, int rank, weft_shape_t *out) {
  return weft_infer_rank(&c->inputs[input], rank, out);
}

weft_status_t *weft_shape_with_rank_at_least(weft_shape_ctx_t *c, int input, int rank, weft_shape_t *out) {
  return weft_infer_rank_at_least(&c->inputs[input], rank, out);
}

weft_status_t *weft_infer_rank_at_most(weft_shape_ctx_t *c, int input, int rank) {
  if (c->inputs[input].rank > rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at most rank %d but is rank %d", rank,
                      c->inputs[input].rank);
  }
  return NULL;
}

weft_status_t *weft_infer_scalars(weft_shape_ctx_t *c, int first, int last) {
  for (int i = first; i <= last; i++) WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], 0, NULL));
  return NULL;
}

weft_status_t *weft_infer_dim_input(const weft_shape_ctx_t *c, int i, int64_t *out) {
  *out = WEFT_UNKNOWN_DIM;
  if (!weft_infer_is_known(c, i)) return NULL;
  if (c->inputs[i].rank > 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input must be scalar but has rank %d", c->inputs[i].rank);
  }
  int64_t dim = weft_infer_value(c, i, 0);
  if (dim < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimension size, given by scalar input %d, must be non-negative but is %" PRId64, i,
                      dim);
  }
  *out = dim;
  return NULL;
}

weft_status_t *weft_infer_dim_is(int64_t dim, int64_t wanted) {
  if (dim < 0 || dim == wanted) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Dimension must be %" PRId64 " but is %" PRId64, wanted, dim);
}

int64_t weft_infer_rank_for_axis(int64_t axis) {
  if (axis == INT64_MIN || axis == INT64_MAX) return INT64_MAX;
  return axis < 0 ? -axis : axis + 1;
}

weft_status_t *weft_infer_axis(int64_t axis, int rank, int *out) {
  if (axis >= rank || axis < -(int64_t)rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank %" PRId64 " but is rank %d",
                      weft_infer_rank_for_axis(axis), rank);
  }
  *out = (int)(axis < 0 ? axis + rank : axis);
  return NULL;
}

weft_status_t *weft_shape_merge_dim(int64_t a, int64_t b, int64_t *out) {
  if (a >= 0 && b >= 0 && a != b) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Dimensions must be equal, but are %" PRId64 " and %" PRId64, a, b);
  }
  *out = a >= 0 ? a : b;
  return NULL;
}

weft_status_t *weft_shape_merge(const weft_shape_t *a, const weft_shape_t *b, weft_shape_t *out) {
  weft_shape_t merged = *a;
  if (a->rank < 0) merged = *b;
  if (a->rank >= 0 && b->rank >= 0) {
    if (a->rank != b->rank) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Shapes must be equal rank, but are %d and %d", a->rank, b->rank);
    }
    for (int i = 0; i < a->rank; i++) {
      if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i]) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Dimension %d in both shapes must be equal, but are %" PRId64 " and %" PRId64
                          ". Shapes are %s and %s.",
                          i, a->dims[i], b->dims[i], WEFT_SHAPE_TEXT(a), WEFT_SHAPE_TEXT(b));
      }
      if (a->dims[i] < 0) merged.dims[i] = b->dims[i];
    }
  }
  *out = merged;
  return NULL;
}

weft_status_t *weft_infer_merge_prefix(const weft_shape_t *s, const weft_shape_t *prefix, weft_shape_t *out) {
  if (s->rank < 0 || prefix->rank < 0) {
    *out = *s;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(s, prefix->rank, NULL));
  weft_shape_t merged = *s;
  for (int i = 0; i < prefix->rank; i++) {
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(s->dims[i], prefix->dims[i], &merged.dims[i]));
  }
  *out = merged;
  return NULL;
}

/* One dim of a broadcast. Where one side is unknown and the other is above 1, that one must win. */
static weft_status_t *broadcast_dim(int64_t a, int64_t b, int64_t *out) {
  if (a < 0 || b < 0) {
    *out = a > 1 ? a : b > 1 ? b : a == 1 ? b : b == 1 ? a : WEFT_UNKNOWN_DIM;
    return NULL;
  }
  if (a == 1 || b == 1) {
    *out = a == 1 ? b : a;
    return NULL;
  }
  return weft_shape_merge_dim(a, b, out);
}

weft_status_t *weft_shape_broadcast(const weft_shape_t *a, const weft_shape_t *b, weft_shape_t *out) {
  if (a->rank < 0 || b->rank < 0) {
    *out = WEFT_UNKNOWN_SHAPE;
    return NULL;
  }
  weft_shape_t result = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (int i = 0; i < result.rank; i++) {
    int ia = i - (result.rank - a->rank), ib = i - (result.rank - b->rank);
    WEFT_RETURN_IF_ERROR(broadcast_dim(ia < 0 ? 1 : a->dims[ia], ib < 0 ? 1 : b->dims[ib], &result.dims[i]));
  }
  *out = result;
  return NULL;
}

weft_status_t *weft_shape_from_input(weft_shape_ctx_t *c, int input, weft_shape_t *out) {
  const weft_shape_t *in = &c->inputs[input];
  if (weft_infer_is_known(c, input) && c->values[input]->dtype != WEFT_I32 &&
      c->values[input]->dtype != WEFT_I64) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input tensor must be int32 or int64, but was %s",
                      weft_dtype_name(c->values[input]->dtype));
  }
  if (in->rank == 0 && weft_infer_is_known(c, input)) {
    int64_t v = weft_infer_value(c, input, 0);
    if (v != WEFT_UNKNOWN_DIM) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Input tensor must be rank 1, or if its rank 0 it must have value -1 (representing an unknown "
          "shape).  Saw value: %" PRId64,
          v);
    }
    *out = WEFT_UNKNOWN_SHAPE;
    return NULL;
  }
  weft_shape_t vector;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(in, 1, &vector));
  if (!weft_infer_is_known(c, input)) {
    if (c->partials != NULL && c->partials[input].rank >= 0) {
      *out = c->partials[input];
      return NULL;
    }
    *out = vector.dims[0] < 0 || vector.dims[0] > WEFT_MAX_DIMS
               ? WEFT_UNKNOWN_SHAPE
               : weft_infer_unknown_of_rank((int)vector.dims[0]);
    return NULL;
  }
  weft_shape_t shape = WEFT_SCALAR;
  for (int64_t i = 0; i < c->values[input]->count; i++) {
    int64_t v = weft_infer_value(c, input, i);
    if (v < WEFT_UNKNOWN_DIM) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Invalid value in tensor used for shape: %" PRId64, v);
    }
    WEFT_RETURN_IF_ERROR(weft_infer_push(&shape, v));
  }
  *out = shape;
  return NULL;
}

weft_status_t *weft_infer_at_node(weft_status_t *s, weft_str_t node) {
  weft_status_t *named = weft_status_new(weft_status_code(s), __FILE__, __LINE__, "%s\n\t [[{{node %.*s}}]]",
                                         weft_status_message(s), WEFT_STR_ARGS(node));
  weft_status_free(s);
  return named;
}

weft_status_t *weft_infer_from_merging(weft_status_t *s, int i) {
  if (s == NULL) return NULL;
  weft_status_t *longer = WEFT_ERROR(INVALID_ARGUMENT, "%s\n\tFrom merging shape %d with other shapes.",
                                     weft_status_message(s), i);
  weft_status_free(s);
  return longer;
}

/* ---- handles ---- */

void weft_infer_pass_handle(weft_shape_ctx_t *c, int i, int k) {
  if (c->handles != NULL && c->out_handles != NULL) c->out_handles[k] = c->handles[i];
}

void weft_infer_set_handle(weft_shape_ctx_t *c, int k, const weft_shape_t *shape, int dtype) {
  if (c->out_handles == NULL) return;
  c->out_handles[k] = WEFT_NO_HANDLE_DATA;
  c->out_handles[k].shape = *shape;
  c->out_handles[k].dtype = dtype;
}

weft_shape_t weft_infer_variable(const weft_shape_ctx_t *c, int i) {
  if (weft_dtype_base(c->input_types[i]) != WEFT_RESOURCE) return c->inputs[i];
  return c->handles == NULL || c->handles[i].dtype == 0 ? WEFT_UNKNOWN_SHAPE : c->handles[i].shape;
}

/* ---- windows ---- */

weft_status_t *weft_window_size(int64_t in, int64_t window, int64_t dilation, int64_t stride,
                                weft_str_t padding, int64_t explicit_before, int64_t explicit_after,
                                int64_t *out_size, int64_t *out_pad_before, int64_t *out_pad_after) {
  int64_t size = WEFT_UNKNOWN_DIM, before = 0, after = 0, extent = 0;
  if (stride <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Stride must be > 0, but got %" PRId64, stride);
  if (dilation < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "Dilation rate must be >= 1, but got %" PRId64, dilation);
  bool is_valid = weft_str_is(padding, "VALID"), is_explicit = weft_str_is(padding, "EXPLICIT");
  if (in >= 0 && window < 0 && !is_valid && !is_explicit) size = in / stride + (in % stride != 0);
  if (in >= 0 && window >= 0) {
    if (__builtin_mul_overflow(window - 1, dilation, &extent) || __builtin_add_overflow(extent, 1, &extent)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "a window of %" PRId64 " with dilation %" PRId64 " is too large",
                        window, dilation);
    }
    int64_t span = in;
    if (is_explicit) {
      before = explicit_before;
      after = explicit_after;
      if (__builtin_add_overflow(span, before, &span) || __builtin_add_overflow(span, after, &span)) {
        return WEFT_ERROR(INVALID_ARGUMENT, "the padding %" PRId64 ", %" PRId64 " is too large", before,
                          after);
      }
    }
    if (is_valid || is_explicit) {
      if (__builtin_sub_overflow(span, extent, &span) || __builtin_add_overflow(span, stride, &span)) {
        return WEFT_ERROR(INVALID_ARGUMENT, "a window of %" PRId64 " is too large", window);
      }
      size = span / stride; /* a window that lacks less than a stride gives nothing */
      if (size < 0) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "Computed output size would be negative: %" PRId64 " [input_size: %" PRId64
                          ", effective_filter_size: %" PRId64 ", stride: %" PRId64 "]",
                          size, in, extent, stride);
      }
    } else {
      size = in / stride + (in % stride != 0);
      int64_t needed = 0; /* (size - 1) * stride is below `in`, so only the extent can overflow */
      if (size > 0 && __builtin_add_overflow((size - 1) * stride - in, extent, &needed)) {
        return WEFT_ERROR(INVALID_ARGUMENT, "a window of %" PRId64 " is too large", window);
      }
      if (needed < 0) needed = 0;
      before = needed / 2;
      after = needed - before;
    }
  }
  *out_size = size;
  if (out_pad_before != NULL) *out_pad_before = before;
  if (out_pad_after != NULL) *out_pad_after = after;
  return NULL;
}
