/* kernels/cpu/quantize/simulate.c - QuantizeAndDequantize and its versions: floats rounded to a grid with
 * zero.
 *
 * Unlike FakeQuant... the range may be that of the values, and zero stays where it is: the grid is made
 * wider.
 */
#include <inttypes.h>

#include "base/thread_pool.h"
#include "kernels/cpu/quantize/quantize.h"

typedef struct simulation {
  const void *x, *dy, *min, *max; /* min and max of each channel, if the range is given */
  void *y;
  int64_t outer, channels, inner;
  int64_t lowest, highest; /* the integers */
  bool is_range_given, rounds_up;
} simulation_t;

#define ELEM float
#define COMP float
#define SUFFIX f32
#define HUGEST FLT_MAX
#define FLOOR floorf
#define RINT rintf
#include "kernels/cpu/quantize/simulate_one.tmpl.h"
#define ELEM double
#define COMP double
#define SUFFIX f64
#define HUGEST DBL_MAX
#define FLOOR floor
#define RINT rint
#include "kernels/cpu/quantize/simulate_one.tmpl.h"

static void simulate_f32(void *arg, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; k++) simulate_channel_f32(arg, k);
}
static void simulate_f64(void *arg, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; k++) simulate_channel_f64(arg, k);
}
static void simulate_back_f32(void *arg, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; k++) simulate_back_channel_f32(arg, k);
}
static void simulate_back_f64(void *arg, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; k++) simulate_back_channel_f64(arg, k);
}

static weft_status_t *check_bits(int64_t num_bits, bool is_signed) {
  if (num_bits > 0 && num_bits < (is_signed ? 62 : 63)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "num_bits is out of range: %" PRId64 " with signed_input_ %d", num_bits,
                    is_signed);
}

static void set_integers(simulation_t *s, int64_t num_bits, bool is_signed, bool narrow_range) {
  const int64_t half = INT64_C(1) << (num_bits - 1);
  s->lowest = is_signed ? -half + narrow_range : 0;
  s->highest = is_signed ? half - 1 : (INT64_C(1) << num_bits) - 1;
}

/* How x falls into channels; axis -1: all is one. */
static weft_status_t *set_channels(simulation_t *s, const weft_shape_t *x, int64_t axis) {
  if (axis < -1) return WEFT_ERROR(INVALID_ARGUMENT, "Axis must be at least -1. Found %" PRId64, axis);
  if (axis >= x->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be at least rank %" PRId64 " but is rank %d", axis + 1,
                      x->rank);
  }
  s->outer = axis == -1 ? 1 : weft_cpu_product(x, 0, (int)axis);
  s->channels = axis == -1 ? 1 : x->dims[axis];
  s->inner = weft_cpu_product(x, (int)axis + 1, x->rank);
  return NULL;
}

/* Inputs i and i+1 have a value for each channel. */
static weft_status_t *take_ranges(const weft_kernel_ctx_t *c, int i, int64_t axis, simulation_t *s) {
  for (int k = i; k < i + 2; k++) {
    const weft_tensor_t *t = weft_in(c, k);
    const weft_str_t name = c->node->op->inputs[k].name;
    if (axis == -1 && t->shape.rank != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%.*s must be a scalar if axis is unspecified",
                        WEFT_STR_ARGS(name));
    }
    if (axis != -1 && t->shape.rank != 1) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank 1 for %.*s_tensor when the axis is specified",
                        WEFT_STR_ARGS(name));
    }
    if (t->count != s->channels) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "%.*s_tensor has incorrect size, was %" PRId64 " expected %" PRId64
                        " to match dim %" PRId64 " of the input",
                        WEFT_STR_ARGS(name), t->count, s->channels, axis);
    }
  }
  s->min = weft_in(c, i)->data;
  s->max = weft_in(c, i + 1)->data;
  return NULL;
}

static double value_of(const weft_tensor_t *t) {
  return t->dtype == WEFT_F64 ? *(const double *)t->data : (double)*(const float *)t->data;
}

static weft_status_t *check_order(double min, double max) {
  if (min <= max) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid range: input_min %g > input_max %g", min, max);
}

static weft_status_t *run_simulation(weft_kernel_ctx_t *c, simulation_t *s) {
  const weft_tensor_t *x = weft_in(c, 0);
  const bool is_double = x->dtype == WEFT_F64;
  weft_tensor_t *y = NULL;
  s->x = x->data;
  WEFT_RETURN_IF_ERROR(weft_out_forward(c, 0, 0, x->dtype, &x->shape, &y));
  s->y = y->data;
  if (y->count == 0) return NULL;
  weft_parallel_for(c->device->pool, s->channels, WEFT_CPU_GRAIN / (y->count / s->channels + 1) + 1,
                    is_double ? simulate_f64 : simulate_f32, s);
  return NULL;
}

WEFT_ATTRS(simulate_v1, (BOOL, signed_input), (INT, num_bits), (BOOL, range_given), (FLOAT, input_min),
           (FLOAT, input_max))
static weft_status_t *simulate_v1(weft_kernel_ctx_t *c, const simulate_v1_attrs_t *a) {
  simulation_t s = {.is_range_given = a->range_given};
  const float min = a->input_min, max = a->input_max;
  const double wide_min = (double)min, wide_max = (double)max;
  const bool is_double = weft_in(c, 0)->dtype == WEFT_F64;
  set_integers(&s, a->num_bits, a->signed_input, false);
  WEFT_RETURN_IF_ERROR(set_channels(&s, &weft_in(c, 0)->shape, -1));
  s.min = is_double ? (const void *)&wide_min : &min;
  s.max = is_double ? (const void *)&wide_max : &max;
  return run_simulation(c, &s);
}

static weft_status_t *simulate_v1_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  WEFT_RETURN_IF_ERROR(check_bits(weft_knode_int(setup, "num_bits"), weft_knode_bool(setup, "signed_input")));
  if (weft_knode_bool(setup, "range_given")) {
    WEFT_RETURN_IF_ERROR(check_order((double)weft_knode_float(setup, "input_min"),
                                     (double)weft_knode_float(setup, "input_max")));
  }
  return weft_attrs_prepare(setup, out_state);
}

/* Of V2 to V4: inputs 1 and 2 are the range, if it is given. V3 alone takes one of each channel. */
static weft_status_t *simulate_versions(weft_kernel_ctx_t *c, simulation_t *s, int64_t axis, bool is_v3) {
  WEFT_RETURN_IF_ERROR(set_channels(s, &weft_in(c, 0)->shape, axis));
  if (s->is_range_given && axis != -1 && !is_v3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input_min must be a scalar.");
  }
  if (s->is_range_given) {
    WEFT_RETURN_IF_ERROR(take_ranges(c, 1, axis, s));
    if (axis == -1) WEFT_RETURN_IF_ERROR(check_order(value_of(weft_in(c, 1)), value_of(weft_in(c, 2))));
  }
  return run_simulation(c, s);
}

WEFT_ATTRS(simulate_v2, (BOOL, signed_input), (INT, num_bits), (BOOL, range_given), (STRING, round_mode),
           (BOOL, narrow_range), (INT, axis))
static weft_status_t *simulate_v2(weft_kernel_ctx_t *c, const simulate_v2_attrs_t *a) {
  simulation_t s = {.is_range_given = a->range_given, .rounds_up = weft_str_is(a->round_mode, "HALF_UP")};
  set_integers(&s, a->num_bits, a->signed_input, a->narrow_range);
  return simulate_versions(c, &s, a->axis, false);
}

static weft_status_t *simulate_v2_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  WEFT_RETURN_IF_ERROR(check_bits(weft_knode_int(setup, "num_bits"), weft_knode_bool(setup, "signed_input")));
  return weft_attrs_prepare(setup, out_state);
}

/* The number of bits is an input. */
WEFT_ATTRS(simulate_v3, (BOOL, signed_input), (BOOL, range_given), (BOOL, narrow_range), (INT, axis))
static weft_status_t *simulate_v3(weft_kernel_ctx_t *c, const simulate_v3_attrs_t *a) {
  simulation_t s = {.is_range_given = a->range_given};
  const weft_tensor_t *bits = weft_in(c, 3);
  if (weft_in(c, 0)->shape.rank == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Axis requested is larger than input dimensions. Axis: %" PRId64 " Input Dimensions: 0",
                      a->axis);
  }
  if (bits->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Invalid shape. The `num_bits` tensor should be a scalar. Got dimensions: %d",
                      bits->shape.rank);
  }
  const int64_t num_bits = weft_cpu_int_at(bits, 0);
  WEFT_RETURN_IF_ERROR(check_bits(num_bits, a->signed_input));
  set_integers(&s, num_bits, a->signed_input, a->narrow_range);
  return simulate_versions(c, &s, a->axis, true);
}

/* The range gets no gradient. */
WEFT_ATTRS(simulate_back, (INT, axis))
static weft_status_t *simulate_back(weft_kernel_ctx_t *c, const simulate_back_attrs_t *a) {
  const weft_tensor_t *x = weft_in(c, 1);
  const weft_dtype_t dtype = x->dtype;
  simulation_t s = {.x = x->data};
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(set_channels(&s, &x->shape, a->axis));
  if (!weft_shape_eq(&x->shape, &weft_in(c, 0)->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "gradient and input must be the same size");
  }
  WEFT_RETURN_IF_ERROR(take_ranges(c, 2, a->axis, &s));
  for (int i = 1; i < 3; i++) {
    WEFT_RETURN_IF_ERROR(weft_out_new(c, i, dtype, &weft_in(c, 2)->shape, &t));
    weft_cpu_zero(t);
  }
  s.dy = weft_in(c, 0)->data;
  WEFT_RETURN_IF_ERROR(weft_out_forward(c, 0, 0, dtype, &x->shape, &t));
  s.y = t->data;
  if (t->count == 0) return NULL;
  weft_parallel_for(c->device->pool, s.channels, WEFT_CPU_GRAIN / (t->count / s.channels + 1) + 1,
                    dtype == WEFT_F64 ? simulate_back_f64 : simulate_back_f32, &s);
  return NULL;
}

#define FLOATS (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))
const weft_kernel_t weft_cpu_quantize_simulate_kernels[] = {
    {.op = "QuantizeAndDequantize",
     .type_attr = "T",
     .types = FLOATS,
     WEFT_COMPUTE_CHECKED(simulate_v1, simulate_v1_prepare)},
    {.op = "QuantizeAndDequantizeV2",
     .type_attr = "T",
     .types = FLOATS,
     WEFT_COMPUTE_CHECKED(simulate_v2, simulate_v2_prepare)},
    {.op = "QuantizeAndDequantizeV3", .type_attr = "T", .types = FLOATS, WEFT_COMPUTE(simulate_v3)},
    {.op = "QuantizeAndDequantizeV4",
     .type_attr = "T",
     .types = FLOATS,
     WEFT_COMPUTE_CHECKED(simulate_v2, simulate_v2_prepare)},
    {.op = "QuantizeAndDequantizeV4Grad", .type_attr = "T", .types = FLOATS, WEFT_COMPUTE(simulate_back)},
    {0},
};
