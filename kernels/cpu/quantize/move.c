/* kernels/cpu/quantize/move.c - QuantizedConcat and QuantizedReshape: values that move with their range. */
#include <inttypes.h>
#include <string.h>

#include "kernels/cpu/quantize/quantize.h"

/* The range in inputs i and j, of one element each. */
static weft_status_t *range_at(const weft_kernel_ctx_t *c, int i, int j, weft_range_t *out) {
  if (weft_in(c, i)->count != 1 || weft_in(c, j)->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "input_mins and input_maxes must have one element each, given %" PRId64 " and %" PRId64,
                      weft_in(c, i)->count, weft_in(c, j)->count);
  }
  *out = (weft_range_t){*(const float *)weft_in(c, i)->data, *(const float *)weft_in(c, j)->data};
  return NULL;
}

/* The range that has all n of them in it, and zero; of signed integers as far below zero as above. */
static weft_range_t common_range(const weft_range_t *ranges, int n, int dtype) {
  weft_range_t all = {0, -FLT_MAX};
  for (int i = 0; i < n; i++) {
    all.min = ranges[i].min < all.min ? ranges[i].min : all.min;
    all.max = ranges[i].max > all.max ? ranges[i].max : all.max;
  }
  if (weft_quant_lowest(dtype) == 0) return all;
  const float a = fabsf(all.min), b = fabsf(all.max), most = a < b ? b : a;
  return (weft_range_t){-most, most};
}

/* `x`, [outer, size], to the columns of y, [outer, width], that begin at `at`. */
static void put_columns(const weft_tensor_t *x, weft_range_t from, weft_tensor_t *y, weft_range_t to,
                        int64_t outer, int64_t width, int64_t at) {
  const int64_t size = x->count / outer;
  const size_t bytes = weft_dtype_size(x->dtype);
  const weft_dequant_t d = weft_dequant_of(x->dtype, from);
  const weft_quant_t q = weft_quant_of(x->dtype, to);
  const bool is_same = from.min == to.min && from.max == to.max;
  for (int64_t o = 0; o < outer; o++) {
    const int64_t in = o * size, out = o * width + at;
    if (is_same) {
      memcpy((char *)y->data + (size_t)out * bytes, (const char *)x->data + (size_t)in * bytes,
             (size_t)size * bytes);
      continue;
    }
    for (int64_t i = 0; i < size; i++) {
      weft_quant_set(y, out + i, weft_quantize(&q, weft_dequantize(&d, weft_quant_at(x, in + i))));
    }
  }
}

/* n values from input `first` on, along the axis in input `axis`; the ranges are the last 2n inputs. */
static weft_status_t *concat_along(weft_kernel_ctx_t *c, int first, int axis, int n, weft_range_t *ranges) {
  const weft_tensor_t *axis_tensor = weft_in(c, axis);
  const int rank = weft_in(c, first)->shape.rank;
  int at = 0;
  weft_shape_t shape;
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_cpu_concat_shape(c, first, n, axis_tensor, "axis", &at, &shape));
  if (axis_tensor->shape.rank != 0 || weft_cpu_int_at(axis_tensor, 0) < 0) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "ConcatOp : Expected a scalar concatenating dimension in the range [0, %d), but got %s %" PRId64,
        rank, WEFT_SHAPE_TEXT(&axis_tensor->shape), weft_cpu_int_at(axis_tensor, 0));
  }
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(range_at(c, n + 1 + i, 2 * n + 1 + i, &ranges[i]));
  const weft_dtype_t dtype = weft_in(c, first)->dtype;
  const weft_range_t all = common_range(ranges, n, dtype);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &shape, &y));
  const int64_t outer = weft_cpu_product(&shape, 0, at), width = outer > 0 ? y->count / outer : 0;
  int64_t column = 0;
  int kept = 0; /* TensorFlow numbers values without elements not at all: the next one gets its range */
  for (int i = 0; i < n && y->count > 0; i++) {
    const weft_tensor_t *x = weft_in(c, first + i);
    if (x->count == 0) continue;
    put_columns(x, ranges[kept++], y, all, outer, width, column);
    column += x->count / outer;
  }
  return weft_range_output(c, 1, all);
}

static weft_status_t *concat(weft_kernel_ctx_t *c) {
  const int n = (c->node->num_inputs - 1) / 3;
  weft_range_t *ranges = weft_malloc((size_t)n * sizeof *ranges);
  if (ranges == NULL) return WEFT_NO_MEMORY("the ranges of QuantizedConcat");
  weft_status_t *s = concat_along(c, 1, 0, n, ranges);
  weft_free(ranges);
  return s;
}

static weft_status_t *reshape(weft_kernel_ctx_t *c) {
  weft_shape_t shape;
  weft_range_t r;
  WEFT_RETURN_IF_ERROR(weft_cpu_reshaped(weft_in(c, 0), weft_in(c, 1), &shape));
  for (int i = 2; i < 4; i++) {
    const weft_tensor_t *t = weft_in(c, i);
    if (t->shape.rank <= 1 && t->count == 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s must be a scalar or a vector of 1 element",
                      WEFT_STR_ARGS(c->node->op->inputs[i].name));
  }
  WEFT_RETURN_IF_ERROR(range_at(c, 2, 3, &r));
  WEFT_RETURN_IF_ERROR(weft_range_output(c, 1, r));
  return weft_cpu_out_view(c, 0, 0, &shape);
}

#define QUINT8_QINT32 (WEFT_DTYPE_BIT(WEFT_QUINT8) | WEFT_DTYPE_BIT(WEFT_QINT32))
const weft_kernel_t weft_cpu_quantize_move_kernels[] = {
    {.op = "QuantizedConcat",
     .type_attr = "T",
     .types = QUINT8_QINT32,
     .compute = concat,
     .host_inputs = 1u << 0},
    {.op = "QuantizedReshape",
     .type_attr = "T",
     .types = QUINT8_QINT32,
     .compute = reshape,
     .host_inputs = 1u << 1},
    {0},
};
