/* kernels/cpu/array/strided_slice.c - see the header. The rules are TensorFlow's StridedSlice documentation.
 */
#include "kernels/cpu/array/strided_slice.h"

#include <inttypes.h>

static bool bit(int64_t mask, int i) { return ((mask >> i) & 1) != 0; }

/* What the sparse spec says about one dimension of the input. */
typedef struct dense {
  int64_t begin, end, stride;
  bool begin_open, end_open, shrink;
} dense_t;

/* The result's dimensions in order: an input dimension, or -1 for an inserted one. Shrunk ones are left out.
 */
typedef struct slice_layout {
  dense_t dims[WEFT_MAX_DIMS];
  int result[2 * WEFT_MAX_DIMS], num_result;
} slice_layout_t;

static weft_status_t *spread(const weft_shape_t *input, const weft_tensor_t *begin, const weft_tensor_t *end,
                             const weft_tensor_t *strides, const weft_slice_attrs_t *m, slice_layout_t *out) {
  int n = (int)begin->count, ellipsis = -1, new_after = 0;
  for (int i = 0; i < n; i++) {
    if (ellipsis >= 0 && bit(m->new_axis_mask, i) && !bit(m->ellipsis_mask, i)) new_after++;
    if (!bit(m->ellipsis_mask, i)) continue;
    if (ellipsis >= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Multiple ellipses in slice spec not allowed");
    ellipsis = i;
  }
  int at = 0;
  for (int i = 0; i <= n; i++) {
    if (i == ellipsis || (i == n && ellipsis < 0)) { /* all dimensions that no later entry names */
      int left = i == n ? 0 : n - i - 1 - new_after;
      int stop = input->rank - left;
      for (; at < stop && at < input->rank; at++) {
        out->dims[at] = (dense_t){0, 0, 1, true, true, false};
        if (out->num_result < 2 * WEFT_MAX_DIMS) out->result[out->num_result++] = at;
      }
    } else if (i < n && bit(m->new_axis_mask, i)) {
      if (out->num_result < 2 * WEFT_MAX_DIMS) out->result[out->num_result++] = -1;
    } else if (i < n) {
      if (at == input->rank) {
        return WEFT_ERROR(INVALID_ARGUMENT, "Index out of range using input dim %d; input has only %d dims",
                          at, input->rank);
      }
      out->dims[at] =
          (dense_t){weft_cpu_int_at(begin, i), weft_cpu_int_at(end, i), weft_cpu_int_at(strides, i),
                    bit(m->begin_mask, i),     bit(m->end_mask, i),     bit(m->shrink_axis_mask, i)};
      if (!out->dims[at].shrink && out->num_result < 2 * WEFT_MAX_DIMS) out->result[out->num_result++] = at;
      at++;
    }
  }
  if (out->num_result > WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "StridedSlice: too many dimensions");
  return NULL;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

weft_status_t *weft_slice_decode(const weft_shape_t *input, const weft_tensor_t *begin,
                                 const weft_tensor_t *end, const weft_tensor_t *strides,
                                 const weft_slice_attrs_t *masks, weft_slice_t *out) {
  if (begin->shape.rank != 1 || end->shape.rank != 1 || strides->shape.rank != 1 ||
      begin->count != end->count || begin->count != strides->count || begin->count >= 32) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Expected begin, end, and strides to be 1D equal size tensors, but got shapes %s, %s, and %s "
        "instead.",
        WEFT_SHAPE_TEXT(&begin->shape), WEFT_SHAPE_TEXT(&end->shape), WEFT_SHAPE_TEXT(&strides->shape));
  }
  slice_layout_t layout = {.num_result = 0};
  WEFT_RETURN_IF_ERROR(spread(input, begin, end, strides, masks, &layout));
  out->full = (weft_shape_t){.rank = input->rank};
  for (int d = 0; d < input->rank; d++) {
    const dense_t *e = &layout.dims[d];
    int64_t dim = input->dims[d], stride = e->stride;
    if (stride == 0) return WEFT_ERROR(INVALID_ARGUMENT, "strides[%d] must be non-zero", d);
    if (e->shrink && stride < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "only stride 1 allowed on non-range indexing.");
    }
    if (e->shrink) {
      int64_t from = e->begin < 0 ? e->begin + dim : e->begin;
      if (from < 0 || from >= dim) {
        return WEFT_ERROR(INVALID_ARGUMENT, "slice index %" PRId64 " of dimension %d out of bounds.", from,
                          d);
      }
      out->begin[d] = from;
      out->stride[d] = 1;
      out->size[d] = 1;
    } else {
      int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? dim : dim - 1;
      int64_t from = e->begin_open ? (stride > 0 ? 0 : dim - 1)
                                   : clamp(e->begin < 0 ? e->begin + dim : e->begin, low, high);
      int64_t to =
          e->end_open ? (stride > 0 ? dim : -1) : clamp(e->end < 0 ? e->end + dim : e->end, low, high);
      int64_t length = stride > 0 ? to - from : from - to;
      uint64_t step = stride > 0 ? (uint64_t)stride : 0 - (uint64_t)stride;
      out->begin[d] = from;
      out->stride[d] = stride;
      out->size[d] = length <= 0 ? 0 : (int64_t)(((uint64_t)length + step - 1) / step);
    }
    out->full.dims[d] = out->size[d];
  }
  out->final = (weft_shape_t){.rank = layout.num_result};
  for (int i = 0; i < layout.num_result; i++) {
    out->final.dims[i] = layout.result[i] < 0 ? 1 : out->size[layout.result[i]];
  }
  return NULL;
}

void weft_slice_move(const weft_slice_t *s, const weft_shape_t *input, bool to_input, weft_move_t *out) {
  int64_t strides[WEFT_MAX_DIMS], dense[WEFT_MAX_DIMS], base = 0;
  weft_strides_of(input, strides);
  weft_strides_of(&s->full, dense);
  *out = (weft_move_t){.rank = input->rank};
  for (int d = 0; d < input->rank; d++) {
    int64_t stride =
        s->size[d] > 1 ? s->stride[d] * strides[d] : strides[d]; /* one element: its stride may overflow */
    out->dims[d] = s->size[d];
    out->from_strides[d] = to_input ? dense[d] : stride;
    out->to_strides[d] = to_input ? stride : dense[d];
    base += s->size[d] > 0 ? s->begin[d] * strides[d] : 0;
  }
  *(to_input ? &out->to_base : &out->from_base) = base;
}

weft_status_t *weft_slice_value(const weft_slice_t *s, weft_allocator_t *allocator, weft_tensor_t *value,
                                weft_tensor_t **out) {
  const weft_shape_t *from = &value->shape, *to = &s->final;
  int lead = to->rank - from->rank;
  if (weft_shape_count(&s->full) == 0 || weft_shape_eq(from, to)) {
    *out = weft_tensor_retain(value);
    return NULL;
  }
  int64_t strides[WEFT_MAX_DIMS];
  weft_strides_of(from, strides);
  weft_move_t m = {.rank = to->rank};
  bool fits = lead >= 0;
  for (int d = 0; fits && d < to->rank; d++) {
    int64_t dim = d < lead ? 1 : from->dims[d - lead];
    fits = dim == 1 || dim == to->dims[d];
    m.dims[d] = to->dims[d];
    m.from_strides[d] = dim == 1 ? 0 : strides[d - lead];
  }
  if (!fits) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot broadcast input shape %s into final shape %s",
                      WEFT_SHAPE_TEXT(from), WEFT_SHAPE_TEXT(to));
  }
  weft_tensor_t *whole = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(value->dtype, to, allocator, &whole));
  weft_strides_of(to, m.to_strides);
  weft_status_t *status = weft_move_run(&m, NULL, value, whole);
  if (status != NULL) {
    weft_tensor_release(whole);
    whole = NULL;
  }
  *out = whole;
  return status;
}
