/* kernels/cpu/quantize/convert.c - QuantizeV2 and Dequantize.
 *
 * MIN_COMBINED spreads the integers over the range; MIN_FIRST does, too, but zero is an integer (quantize.h);
 * SCALED makes 0 stand for 0 and widens the range where it must. With an axis, each slice has a range.
 */
#include <inttypes.h>

#include "base/thread_pool.h"
#include "kernels/cpu/quantize/quantize.h"

typedef enum convert_mode { MIN_COMBINED, MIN_FIRST, SCALED } convert_mode_t;

static convert_mode_t mode_of(weft_str_t name) {
  return weft_str_is(name, "MIN_FIRST") ? MIN_FIRST : weft_str_is(name, "SCALED") ? SCALED : MIN_COMBINED;
}

/* Slice k of a tensor [outer, slices, inner]. */
typedef struct slices {
  int64_t outer, slices, inner;
} slices_t;

static slices_t slices_of(const weft_shape_t *s, int64_t axis) {
  if (axis < 0) return (slices_t){1, 1, weft_cpu_product(s, 0, s->rank)};
  return (slices_t){weft_cpu_product(s, 0, (int)axis), s->dims[axis],
                    weft_cpu_product(s, (int)axis + 1, s->rank)};
}

/* ---- QuantizeV2 ---- */

typedef struct quantize_run {
  const float *x;
  weft_tensor_t *y;
  slices_t s;
  convert_mode_t mode;
  bool to_even, narrow_range;
  int64_t lowest, highest;
  const weft_range_t *ranges; /* of each slice, widened */
} quantize_run_t;

/* The range with zero in it, and not too narrow to tell numbers apart. */
static weft_status_t *widened(weft_range_t r, float least, weft_range_t *out) {
  if (r.max < r.min)
    return WEFT_ERROR(INVALID_ARGUMENT, "input_max_range must be larger than input_min_range.");
  const float a = fabsf(r.min), b = fabsf(r.max), larger = a < b ? b : a;
  const float epsilon = (1.0f < larger ? larger : 1.0f) * least;
  out->min = r.min < 0 ? r.min : 0.0f;
  const float max = r.max < out->min + epsilon ? out->min + epsilon : r.max;
  out->max = 0.0f < max ? max : 0.0f;
  return NULL;
}

/* SCALED: the scale at which the range fits, and the range that all the integers then have. */
static float scaled_range(const quantize_run_t *q, weft_range_t *r) {
  const float lowest = (float)(q->lowest + q->narrow_range), highest = (float)q->highest;
  const float by_min = lowest * r->min > 0 ? lowest / r->min : FLT_MAX;
  const float by_max = highest * r->max > 0 ? highest / r->max : FLT_MAX;
  const float scale = by_max < by_min ? by_max : by_min;
  *r = (weft_range_t){lowest / scale, highest / scale};
  return scale;
}

static float clamped(float v, weft_range_t r) {
  v = r.max < v ? r.max : v;
  return v < r.min ? r.min : v;
}

static void quantize_slice(const quantize_run_t *q, int64_t k, int64_t begin, int64_t end) {
  weft_range_t r = q->ranges[k];
  const weft_quant_t first = weft_quant_of(q->y->dtype, r);
  float scale = q->mode == SCALED ? scaled_range(q, &r)
                                  : (float)((double)(q->highest - q->lowest) / (double)(r.max - r.min));
  const float half_range = q->lowest == 0 ? 0.0f : (float)((double)(q->highest - q->lowest + 1) / 2.0);
  for (int64_t i = begin; i < end; i++) {
    float v = q->x[i];
    int32_t n = 0;
    switch (q->mode) {
      case MIN_FIRST: n = weft_quantize(&first, v); break;
      case SCALED:
        v = clamped(v, r) * scale;
        n = weft_float_to_i32(q->to_even ? rintf(v) : roundf(v));
        break;
      case MIN_COMBINED:
        v = (clamped(v, r) - r.min) * scale;
        n = weft_float_to_i32(q->lowest == 0 ? v + 0.5f : roundf(v - half_range));
        break;
    }
    weft_quant_set(q->y, i, n);
  }
}

static void quantize_all(void *arg, int64_t begin, int64_t end) { quantize_slice(arg, 0, begin, end); }

static void quantize_rows(void *arg, int64_t begin, int64_t end) {
  const quantize_run_t *q = arg;
  for (int64_t i = begin; i < end; i++)
    quantize_slice(q, i % q->s.slices, i * q->s.inner, (i + 1) * q->s.inner);
}

static weft_status_t *check_slice_range(const weft_kernel_ctx_t *c, int i, int64_t axis, int64_t slices) {
  const weft_tensor_t *t = weft_in(c, i);
  const weft_str_t name = c->node->op->inputs[i].name;
  if (axis < 0 && t->count == 1) return NULL;
  if (axis < 0) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "If axis is not specified, %.*s must contain a single float element, but it contains %" PRId64
        " elements",
        WEFT_STR_ARGS(name), t->count);
  }
  if (t->shape.rank == 1 && t->count == slices) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "If axis is specified, %.*s must be a 1-D tensor whose size matches the axis dimension of the "
      "input and output tensors, but its shape is %s and the axis dimension %" PRId64,
      WEFT_STR_ARGS(name), WEFT_SHAPE_TEXT(&t->shape), slices);
}

WEFT_ATTRS(quantize_v2, (STRING, mode), (STRING, round_mode), (BOOL, narrow_range), (INT, axis),
           (FLOAT, ensure_minimum_range))

/* Outputs 1 and 2: the ranges that the integers stand for. */
static weft_status_t *range_outputs(weft_kernel_ctx_t *c, const quantize_run_t *q) {
  const weft_shape_t shape = q->s.slices == 1 ? WEFT_SCALAR : weft_in(c, 1)->shape;
  weft_tensor_t *min = NULL, *max = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 1, WEFT_F32, &shape, &min));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 2, WEFT_F32, &shape, &max));
  for (int64_t k = 0; k < q->s.slices; k++) {
    weft_range_t r = q->ranges[k];
    if (q->mode == SCALED) scaled_range(q, &r);
    ((float *)min->data)[k] = r.min;
    ((float *)max->data)[k] = r.max;
  }
  return NULL;
}

static weft_status_t *run_quantize(weft_kernel_ctx_t *c, quantize_run_t *q, weft_range_t *ranges,
                                   float least) {
  const weft_tensor_t *x = weft_in(c, 0);
  for (int64_t k = 0; k < q->s.slices; k++) {
    weft_range_t r = {((const float *)weft_in(c, 1)->data)[k], ((const float *)weft_in(c, 2)->data)[k]};
    WEFT_RETURN_IF_ERROR(widened(r, least, &ranges[k]));
  }
  q->x = x->data;
  q->ranges = ranges;
  const weft_dtype_t dtype = (weft_dtype_t)c->node->output_types[0];
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &x->shape, &q->y));
  q->lowest = weft_quant_lowest(dtype);
  q->highest = weft_quant_highest(dtype);
  WEFT_RETURN_IF_ERROR(range_outputs(c, q));
  if (x->count == 0) return NULL;
  if (q->s.slices == 1) {
    weft_parallel_for(c->device->pool, x->count, WEFT_CPU_GRAIN, quantize_all, q);
  } else {
    weft_parallel_for(c->device->pool, q->s.outer * q->s.slices, WEFT_CPU_GRAIN / (q->s.inner + 1) + 1,
                      quantize_rows, q);
  }
  return NULL;
}

static weft_status_t *quantize_v2(weft_kernel_ctx_t *c, const quantize_v2_attrs_t *a) {
  const weft_tensor_t *x = weft_in(c, 0);
  if (a->axis >= x->shape.rank) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Axis is on a zero-based index, so its value must always be less than number of input's dims, "
        "but given axis value was %" PRId64 " and input's dims was %d",
        a->axis, x->shape.rank);
  }
  quantize_run_t q = {.s = slices_of(&x->shape, a->axis),
                      .mode = mode_of(a->mode),
                      .to_even = weft_str_is(a->round_mode, "HALF_TO_EVEN"),
                      .narrow_range = a->narrow_range};
  for (int i = 1; i < 3; i++) WEFT_RETURN_IF_ERROR(check_slice_range(c, i, a->axis, q.s.slices));
  if (q.mode == MIN_FIRST && q.s.slices != 1) {
    return WEFT_ERROR(UNIMPLEMENTED, "MIN_FIRST mode is not implemented for Quantize with axis != -1.");
  }
  weft_range_t *ranges = weft_malloc(((size_t)q.s.slices + 1) * sizeof *ranges);
  if (ranges == NULL) return WEFT_NO_MEMORY("the ranges of slices");
  weft_status_t *s = run_quantize(c, &q, ranges, a->ensure_minimum_range);
  weft_free(ranges);
  return s;
}

static weft_status_t *quantize_v2_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_str_t mode = weft_knode_string(setup, "mode");
  if (weft_str_is(weft_knode_string(setup, "round_mode"), "HALF_TO_EVEN") && mode_of(mode) != SCALED) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '%.*s'.",
                      WEFT_STR_ARGS(mode));
  }
  return weft_attrs_prepare(setup, out_state);
}

/* ---- Dequantize ---- */

typedef struct dequantize_run {
  const weft_tensor_t *x, *min, *max;
  weft_tensor_t *y;
  slices_t s;
  convert_mode_t mode;
  bool narrow_range;
} dequantize_run_t;

/* ((integer + shift) * scale) + base */
typedef struct dequant_line {
  float shift, scale, base;
} dequant_line_t;

static dequant_line_t line_of(const dequantize_run_t *d, weft_range_t r) {
  const float lowest = (float)weft_quant_lowest(d->x->dtype),
              highest = (float)weft_quant_highest(d->x->dtype);
  if (d->mode == SCALED) {
    const int64_t bottom = weft_quant_lowest(d->x->dtype) + d->narrow_range;
    const float by_min = r.min / (float)bottom, by_max = r.max / highest;
    return (dequant_line_t){.scale = lowest == 0 || !(by_min >= by_max) ? by_max : by_min};
  }
  const float half_range = lowest == 0 ? 0.0f : (highest - lowest + 1) / 2.0f;
  return (dequant_line_t){half_range, (r.max - r.min) / (highest - lowest), r.min};
}

static void put_float(const dequantize_run_t *d, int64_t i, float v) {
  if (d->y->dtype == WEFT_F32) {
    ((float *)d->y->data)[i] = v;
  } else {
    ((uint16_t *)d->y->data)[i] = weft_f32_to_bf16(v);
  }
}

static void dequantize_slice(const dequantize_run_t *d, int64_t k, int64_t begin, int64_t end) {
  const weft_range_t r = {((const float *)d->min->data)[k], ((const float *)d->max->data)[k]};
  if (d->mode == MIN_FIRST) {
    const weft_dequant_t first = weft_dequant_of(d->x->dtype, r);
    for (int64_t i = begin; i < end; i++) put_float(d, i, weft_dequantize(&first, weft_quant_at(d->x, i)));
    return;
  }
  const dequant_line_t line = line_of(d, r);
  for (int64_t i = begin; i < end; i++) {
    put_float(d, i, ((float)weft_quant_at(d->x, i) + line.shift) * line.scale + line.base);
  }
}

static void dequantize_all(void *arg, int64_t begin, int64_t end) { dequantize_slice(arg, 0, begin, end); }

static void dequantize_rows(void *arg, int64_t begin, int64_t end) {
  const dequantize_run_t *d = arg;
  for (int64_t i = begin; i < end; i++) {
    dequantize_slice(d, i % d->s.slices, i * d->s.inner, (i + 1) * d->s.inner);
  }
}

WEFT_ATTRS(dequantize, (STRING, mode), (BOOL, narrow_range), (INT, axis))
static weft_status_t *dequantize(weft_kernel_ctx_t *c, const dequantize_attrs_t *a) {
  dequantize_run_t d = {.x = weft_in(c, 0),
                        .min = weft_in(c, 1),
                        .max = weft_in(c, 2),
                        .mode = mode_of(a->mode),
                        .narrow_range = a->narrow_range};
  const weft_shape_t *shape = &d.x->shape;
  if (a->axis >= shape->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Axis must be less than input dimension(%d), got %" PRId64,
                      shape->rank, a->axis);
  }
  d.s = slices_of(shape, a->axis);
  for (int i = 1; i < 3; i++) {
    if (weft_in(c, i)->count == d.s.slices) continue;
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "input_%s_tensor must have as many elements as input on the dequantization axis (%" PRId64
        "), got %" PRId64 ", expected %" PRId64,
        i == 1 ? "min" : "max", a->axis, weft_in(c, i)->count, d.s.slices);
  }
  if (d.mode == MIN_FIRST && d.s.slices != 1) {
    return WEFT_ERROR(UNIMPLEMENTED, "MIN_FIRST mode is not implemented for Dequantize with axis != -1.");
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, (weft_dtype_t)c->node->output_types[0], shape, &d.y));
  if (d.x->count == 0) return NULL;
  if (d.s.slices == 1) {
    weft_parallel_for(c->device->pool, d.x->count, WEFT_CPU_GRAIN, dequantize_all, &d);
  } else {
    weft_parallel_for(c->device->pool, d.s.outer * d.s.slices, WEFT_CPU_GRAIN / (d.s.inner + 1) + 1,
                      dequantize_rows, &d);
  }
  return NULL;
}

static weft_status_t *dequantize_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_str_t mode = weft_knode_string(setup, "mode");
  if (weft_knode_type(setup, "dtype") == WEFT_BF16 && mode_of(mode) != MIN_COMBINED) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '%.*s'",
                      WEFT_STR_ARGS(mode));
  }
  return weft_attrs_prepare(setup, out_state);
}

const weft_kernel_t weft_cpu_quantize_convert_kernels[] = {
    {.op = "Dequantize",
     .type_attr = "T",
     .types = WEFT_SET_QUANTIZED,
     WEFT_COMPUTE_CHECKED(dequantize, dequantize_prepare)},
    {.op = "QuantizeV2",
     .type_attr = "T",
     .types = WEFT_SET_QUANTIZED,
     WEFT_COMPUTE_CHECKED(quantize_v2, quantize_v2_prepare)},
    {0},
};
