/* kernels/cuda/quantize.c - rows of FakeQuantWithMinMax..., QuantizeAndDequantize and their gradients.
 *
 * The ranges of QuantizeAndDequantize, which may be refused, lie in the host's memory, as on TensorFlow's
 * GPU; those of FakeQuant lie in the device's.
 */
#include "kernels/cuda/quantize_args.h"

#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

enum { STEPS_BYTES = 24, PAIR_BYTES = 16, WARP = 32 }; /* quant_steps and quant_pair of quantize.cu */

#define F(variable, name) static weft_cuda_function_t variable = WEFT_CUDA_FUNCTION(name)
F(steps_function, "weft_quant_steps");
F(fake_quant_function, "weft_fake_quant");
F(fake_quant_grad_function, "weft_fake_quant_grad");
F(outside_function, "weft_quant_outside");
F(outside_join_function, "weft_quant_outside_join");
WEFT_CUDA_INSTANCES(range_instances, quant_range, F32_F64)
WEFT_CUDA_INSTANCES(range_join_instances, quant_range_join, F32_F64)
WEFT_CUDA_INSTANCES(simulate_instances, simulate, F32_F64)
WEFT_CUDA_INSTANCES(simulate_grad_instances, simulate_grad, F32_F64)

/* ---- two numbers of each channel, in two launches ---- */

typedef struct cuda_channel_plan {
  weft_cuda_channels_t c;
  weft_cuda_geometry_t g;
  int64_t num_parts;
  void *parts;
} channel_plan_t;

static WEFT_Failure *plan_channels(WEFT_KernelContext *c, int64_t outer, int64_t channels, int64_t inner,
                                   channel_plan_t *p) {
  enum { WORTH = 8 }; /* elements of a thread */
  int32_t width = 1;
  while (inner == 1 && width < WARP && width < channels) width *= 2;
  const int64_t items = outer * inner, blocks = (channels + width - 1) / width,
                processors = weft_cuda_num_processors(c);
  const int64_t most_parts = processors * 8 / (blocks < processors * 8 ? blocks : processors * 8);
  int64_t num = items / (WEFT_CUDA_BLOCK / width * WORTH);
  num = num > most_parts ? most_parts : num < 1 ? 1 : num;
  p->c = (weft_cuda_channels_t){channels, inner, items, (items + num - 1) / num, width};
  p->num_parts = p->c.part > 0 ? (items + p->c.part - 1) / p->c.part : 1;
  p->g = (weft_cuda_geometry_t){
      {(unsigned)(blocks < processors * 16 ? blocks : processors * 16), (unsigned)p->num_parts, 1},
      {WEFT_CUDA_BLOCK, 1, 1},
      0};
  return weft_cuda_host->scratch(c, (size_t)(p->num_parts * channels) * PAIR_BYTES, &p->parts);
}

static WEFT_Failure *join_parts(WEFT_KernelContext *c, weft_cuda_function_t *f, channel_plan_t *p, void *low,
                                void *high) {
  void *args[] = {&p->parts, &p->num_parts, &low, &high, &p->c.channels};
  return weft_cuda_launch_over(c, f, p->c.channels, 1, args);
}

/* ---- FakeQuant ---- */

/* Which of the six ops it is. */
typedef struct cuda_fake_quant {
  bool is_gradient, has_args, is_per_channel;
} fake_quant_t;
typedef struct cuda_fake_quant_state {
  float range[2], first, last;
} fake_quant_state_t;

static WEFT_Failure *fake_quant_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  fake_quant_state_t a = {{0, 0}, 0, 0};
  int64_t num_bits = 8;
  int narrow_range = 0;
  (void)weft_cuda_host->attr_float(s, "min", &a.range[0]);
  (void)weft_cuda_host->attr_float(s, "max", &a.range[1]);
  (void)weft_cuda_host->attr_int(s, "num_bits", &num_bits);
  (void)weft_cuda_host->attr_bool(s, "narrow_range", &narrow_range);
  if (((const fake_quant_t *)param)->has_args && !(a.range[0] < a.range[1])) {
    return WEFT_CUDA_INVALID("min has to be smaller than max, was: %g >= %g", (double)a.range[0],
                             (double)a.range[1]);
  }
  if (num_bits < 2 || num_bits > 16) return WEFT_CUDA_INVALID("num_bits must be between 2 and 16, inclusive");
  a.first = narrow_range != 0 ? 1 : 0;
  a.last = (float)((1 << num_bits) - 1);
  fake_quant_state_t *state = malloc(sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a range");
  *state = a;
  *out = state;
  return NULL;
}

typedef struct cuda_fake_quant_run {
  const void *x, *dy, *min, *max; /* min: NULL where attributes give the range */
  void *steps;
  int64_t channels, count;
  weft_cuda_shape_t range_shape;
} fake_quant_run_t;

static WEFT_Failure *check_channels(const WEFT_TensorView *v, const char *name, int64_t channels) {
  if (v->rank != 1) return WEFT_CUDA_INVALID("`%s` must be rank 1 but is rank %d", name, v->rank);
  if (v->count == channels) return NULL;
  return WEFT_CUDA_INVALID("%s has incorrect size, expected %lld was %lld", name, (long long)channels,
                           (long long)v->count);
}

static WEFT_Failure *take_ranges(WEFT_KernelContext *c, const fake_quant_t *q, fake_quant_run_t *r) {
  const int first = q->is_gradient ? 2 : 1;
  WEFT_TensorView min, max;
  if (q->has_args) return NULL;
  weft_cuda_host->input(c, first, &min);
  weft_cuda_host->input(c, first + 1, &max);
  if (q->is_per_channel) {
    WEFT_CUDA_TRY(check_channels(&min, "min", r->channels));
    WEFT_CUDA_TRY(check_channels(&max, "max", r->channels));
  } else if (min.rank != 0 || max.rank != 0) {
    return WEFT_CUDA_INVALID("`%s` must be rank 0 but is rank %d", min.rank != 0 ? "min" : "max",
                             min.rank != 0 ? min.rank : max.rank);
  }
  r->min = min.data;
  r->max = max.data;
  r->range_shape = weft_cuda_shape_of(&min);
  return NULL;
}

static WEFT_Failure *find_steps(WEFT_KernelContext *c, fake_quant_run_t *r) {
  fake_quant_state_t s = *(const fake_quant_state_t *)weft_cuda_host->state(c);
  if (r->channels == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)r->channels * STEPS_BYTES, &r->steps));
  void *args[] = {&r->min, &r->max, &s.range[0], &s.range[1], &r->steps, &s.first, &s.last, &r->channels};
  return weft_cuda_launch_over(c, &steps_function, r->channels, 1, args);
}

/* The last two outputs of a gradient. */
static WEFT_Failure *range_gradients(WEFT_KernelContext *c, fake_quant_run_t *r) {
  channel_plan_t p;
  WEFT_TensorView low, high;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, r->range_shape.rank, r->range_shape.dims, &low));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 2, r->range_shape.rank, r->range_shape.dims, &high));
  if (r->channels == 0) return NULL;
  WEFT_CUDA_TRY(plan_channels(c, r->count / r->channels, r->channels, 1, &p));
  void *args[] = {&r->x, &r->dy, &r->steps, &p.parts, &p.c};
  WEFT_CUDA_TRY(weft_cuda_launch(c, &outside_function, &p.g, args));
  return join_parts(c, &outside_join_function, &p, low.data, high.data);
}

static WEFT_Failure *fake_quant(WEFT_KernelContext *c) {
  const fake_quant_t *q = weft_cuda_host->param(c);
  fake_quant_run_t r = {.channels = 1};
  WEFT_TensorView x, dy, y;
  weft_cuda_host->input(c, q->is_gradient ? 1 : 0, &x);
  if (q->is_gradient) {
    weft_cuda_host->input(c, 0, &dy);
    if (!weft_cuda_same_shape(&x, &dy)) return WEFT_CUDA_INVALID("gradient and input must be the same size");
    r.dy = dy.data;
  }
  if (q->is_per_channel && x.rank == 0) return WEFT_CUDA_INVALID("inputs must have at least one dimension");
  if (q->is_per_channel) r.channels = x.dims[x.rank - 1];
  r.x = x.data;
  r.count = x.count;
  WEFT_CUDA_TRY(take_ranges(c, q, &r));
  WEFT_CUDA_TRY(find_steps(c, &r));
  if (q->is_gradient && !q->has_args) WEFT_CUDA_TRY(range_gradients(c, &r));
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  int32_t divides = !q->has_args;
  void *forward[] = {&r.x, &r.steps, &y.data, &r.channels, &divides, &r.count};
  void *backward[] = {&r.x, &r.dy, &r.steps, &y.data, &r.channels, &r.count};
  return weft_cuda_launch_over(c, q->is_gradient ? &fake_quant_grad_function : &fake_quant_function, r.count,
                               1, q->is_gradient ? backward : forward);
}

/* ---- QuantizeAndDequantize ---- */

typedef struct cuda_simulation_state {
  int is_signed, is_range_given, narrow_range, rounds_up;
  int64_t num_bits, axis;
  float range[2];
} simulation_state_t;
enum { V1 = 1, V2 = 2, V3 = 3 }; /* V4 is as V2 */

static WEFT_Failure *check_bits(int64_t num_bits, int is_signed) {
  if (num_bits > 0 && num_bits < (is_signed != 0 ? 62 : 63)) return NULL;
  return WEFT_CUDA_INVALID("num_bits is out of range: %lld with signed_input_ %d", (long long)num_bits,
                           is_signed);
}
static WEFT_Failure *check_order(double min, double max) {
  if (min <= max) return NULL;
  return WEFT_CUDA_INVALID("Invalid range: input_min %g > input_max %g", min, max);
}

static WEFT_Failure *simulate_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  const int version = *(const int *)param;
  simulation_state_t a = {.num_bits = 8, .axis = -1, .is_signed = 1, .is_range_given = version == V3};
  const char *mode = NULL;
  size_t length = 0;
  (void)weft_cuda_host->attr_bool(s, "signed_input", &a.is_signed);
  (void)weft_cuda_host->attr_bool(s, "range_given", &a.is_range_given);
  (void)weft_cuda_host->attr_bool(s, "narrow_range", &a.narrow_range);
  (void)weft_cuda_host->attr_int(s, "num_bits", &a.num_bits);
  (void)weft_cuda_host->attr_int(s, "axis", &a.axis);
  (void)weft_cuda_host->attr_float(s, "input_min", &a.range[0]);
  (void)weft_cuda_host->attr_float(s, "input_max", &a.range[1]);
  (void)weft_cuda_host->attr_string(s, "round_mode", &mode, &length);
  a.rounds_up = mode != NULL && length == 7 && memcmp(mode, "HALF_UP", 7) == 0;
  if (version != V3) WEFT_CUDA_TRY(check_bits(a.num_bits, a.is_signed));
  if (version == V1 && a.is_range_given != 0)
    WEFT_CUDA_TRY(check_order((double)a.range[0], (double)a.range[1]));
  simulation_state_t *state = malloc(sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a range");
  *state = a;
  *out = state;
  return NULL;
}

/* How x falls into channels; axis -1: all is one. *outer: what is in front of them. */
static WEFT_Failure *split(const WEFT_TensorView *x, int64_t axis, weft_cuda_simulation_t *s,
                           int64_t *outer) {
  if (axis < -1) return WEFT_CUDA_INVALID("Axis must be at least -1. Found %lld", (long long)axis);
  if (axis >= x->rank) {
    return WEFT_CUDA_INVALID("Shape must be at least rank %lld but is rank %d", (long long)axis + 1, x->rank);
  }
  *outer = axis == -1 ? 1 : weft_cuda_product(x->dims, 0, (int)axis);
  s->channels = axis == -1 ? 1 : x->dims[axis];
  s->inner = weft_cuda_product(x->dims, (int)axis + 1, x->rank);
  return NULL;
}

static WEFT_Failure *check_ranges(const WEFT_TensorView *v, int64_t axis, int64_t channels) {
  static const char *const names[] = {"input_min", "input_max"};
  for (int k = 0; k < 2; k++) {
    if (axis == -1 && v[k].rank != 0)
      return WEFT_CUDA_INVALID("%s must be a scalar if axis is unspecified", names[k]);
    if (axis != -1 && v[k].rank != 1) {
      return WEFT_CUDA_INVALID("Shape must be rank 1 for %s_tensor when the axis is specified", names[k]);
    }
    if (v[k].count != channels) {
      return WEFT_CUDA_INVALID(
          "%s_tensor has incorrect size, was %lld expected %lld to match dim %lld of the input", names[k],
          (long long)v[k].count, (long long)channels, (long long)axis);
    }
  }
  return NULL;
}

static double value_of(const WEFT_TensorView *v) {
  return v->dtype == WEFT_CUDA_f64 ? *(const double *)v->data : (double)*(const float *)v->data;
}

/* Memory of the device for the lowest numbers of the channels and for the highest. */
static WEFT_Failure *room_for_range(WEFT_KernelContext *c, int dtype, int64_t channels, void *out[2]) {
  const size_t bytes = (size_t)channels * weft_cuda_size(dtype);
  for (int k = 0; k < 2; k++) WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &out[k]));
  return NULL;
}

/* The range of the values. */
static WEFT_Failure *find_range(WEFT_KernelContext *c, const WEFT_TensorView *x, int64_t outer,
                                const weft_cuda_simulation_t *s, void *range[2]) {
  channel_plan_t p;
  WEFT_CUDA_TRY(plan_channels(c, outer, s->channels, s->inner, &p));
  const void *from = x->data;
  void *args[] = {&from, &p.parts, &p.c};
  WEFT_CUDA_TRY(weft_cuda_launch(c, weft_cuda_pick(&range_instances, x->dtype), &p.g, args));
  return join_parts(c, weft_cuda_pick(&range_join_instances, x->dtype), &p, range[0], range[1]);
}

/* The range that is given: of V1 by attributes, else in the host's memory. */
static WEFT_Failure *send_range(WEFT_KernelContext *c, const simulation_state_t *a, int dtype,
                                int64_t channels, int version, void *range[2]) {
  for (int k = 0; k < 2; k++) {
    const double wide = (double)a->range[k];
    const void *from = dtype == WEFT_CUDA_f64 ? (const void *)&wide : &a->range[k];
    WEFT_TensorView v;
    if (version != V1) {
      weft_cuda_host->input(c, 1 + k, &v);
      from = v.data;
    }
    WEFT_CUDA_TRY(weft_cuda_copy(c, range[k], from, (size_t)channels * weft_cuda_size(dtype)));
  }
  return NULL;
}

/* What V2 to V4 may refuse. */
static WEFT_Failure *check_versions(WEFT_KernelContext *c, const simulation_state_t *a, int version,
                                    int64_t channels) {
  WEFT_TensorView v[2];
  if (a->is_range_given == 0) return NULL;
  if (a->axis != -1 && version != V3) return WEFT_CUDA_INVALID("input_min must be a scalar.");
  for (int k = 0; k < 2; k++) weft_cuda_host->input(c, 1 + k, &v[k]);
  WEFT_CUDA_TRY(check_ranges(v, a->axis, channels));
  return a->axis == -1 ? check_order(value_of(&v[0]), value_of(&v[1])) : NULL;
}

static WEFT_Failure *read_bits(WEFT_KernelContext *c, simulation_state_t *a, const WEFT_TensorView *x) {
  WEFT_TensorView bits;
  weft_cuda_host->input(c, 3, &bits);
  if (x->rank == 0) {
    return WEFT_CUDA_INVALID("Axis requested is larger than input dimensions. Axis: %lld Input Dimensions: 0",
                             (long long)a->axis);
  }
  if (bits.rank != 0) {
    return WEFT_CUDA_INVALID("Invalid shape. The `num_bits` tensor should be a scalar. Got dimensions: %d",
                             bits.rank);
  }
  a->num_bits = weft_cuda_int_at(&bits, 0);
  return check_bits(a->num_bits, a->is_signed);
}

static WEFT_Failure *simulate(WEFT_KernelContext *c) {
  const int version = *(const int *)weft_cuda_host->param(c);
  simulation_state_t a = *(const simulation_state_t *)weft_cuda_host->state(c);
  weft_cuda_simulation_t s = {.is_range_given = a.is_range_given, .rounds_up = a.rounds_up};
  WEFT_TensorView x, y;
  void *range[2] = {NULL};
  int64_t outer = 1;
  weft_cuda_host->input(c, 0, &x);
  if (version == V3) WEFT_CUDA_TRY(read_bits(c, &a, &x));
  const int64_t half = INT64_C(1) << (a.num_bits - 1);
  s.lowest = a.is_signed != 0 ? -half + a.narrow_range : 0;
  s.highest = a.is_signed != 0 ? half - 1 : (INT64_C(1) << a.num_bits) - 1;
  WEFT_CUDA_TRY(split(&x, a.axis, &s, &outer));
  if (version != V1) WEFT_CUDA_TRY(check_versions(c, &a, version, s.channels));
  const void *from = x.data;
  int64_t n = x.count;
  const int dtype = x.dtype;
  if (n > 0) {
    WEFT_CUDA_TRY(room_for_range(c, dtype, s.channels, range));
    WEFT_CUDA_TRY(a.is_range_given != 0 ? send_range(c, &a, dtype, s.channels, version, range)
                                        : find_range(c, &x, outer, &s, range));
  }
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  void *args[] = {&from, &range[0], &range[1], &y.data, &s, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(&simulate_instances, dtype), n, 1, args);
}

static WEFT_Failure *axis_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  int64_t axis = -1;
  (void)param;
  (void)weft_cuda_host->attr_int(s, "axis", &axis);
  *out = (void *)(intptr_t)axis;
  return NULL;
}

/* The range gets no gradient. */
static WEFT_Failure *simulate_grad(WEFT_KernelContext *c) {
  const int64_t axis = (intptr_t)weft_cuda_host->state(c);
  weft_cuda_simulation_t s;
  WEFT_TensorView dy, x, v[2], d, dx;
  int64_t outer = 1;
  weft_cuda_host->input(c, 0, &dy);
  weft_cuda_host->input(c, 1, &x);
  for (int k = 0; k < 2; k++) weft_cuda_host->input(c, 2 + k, &v[k]);
  WEFT_CUDA_TRY(split(&x, axis, &s, &outer));
  if (!weft_cuda_same_shape(&x, &dy)) return WEFT_CUDA_INVALID("gradient and input must be the same size");
  WEFT_CUDA_TRY(check_ranges(v, axis, s.channels));
  for (int k = 0; k < 2; k++) {
    WEFT_CUDA_TRY(weft_cuda_host->output(c, 1 + k, v[0].rank, v[0].dims, &d));
    if (d.bytes > 0) WEFT_CUDA_TRY(weft_cuda_fill(c, d.data, 0, d.bytes));
  }
  const void *from = dy.data;
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &dx));
  int64_t n = dx.count;
  void *args[] = {&x.data, &from, &v[0].data, &v[1].data, &dx.data, &s.channels, &s.inner, &n};
  return weft_cuda_launch_over(c, weft_cuda_pick(&simulate_grad_instances, dx.dtype), n, 1, args);
}

enum { SECOND = 2, THIRD = 4, FOURTH = 8 };
#define FAKE(op_, is_gradient, has_args, is_per_channel)                              \
  {                                                                                   \
    .op = op_, .prepare = fake_quant_prepare, .compute = fake_quant, .destroy = free, \
    .param = &(const fake_quant_t) {                                                  \
      is_gradient, has_args, is_per_channel                                           \
    }                                                                                 \
  }
#define SIMULATE(op_, version, host)                                                           \
  {                                                                                            \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(F32_F64), .prepare = simulate_prepare, \
    .compute = simulate, .destroy = free, .param = &(const int){version}, .host_inputs = host  \
  }
const WEFT_DeviceKernel weft_cuda_quantize_kernels[] = {
    FAKE("FakeQuantWithMinMaxArgs", false, true, false),
    FAKE("FakeQuantWithMinMaxArgsGradient", true, true, false),
    FAKE("FakeQuantWithMinMaxVars", false, false, false),
    FAKE("FakeQuantWithMinMaxVarsGradient", true, false, false),
    FAKE("FakeQuantWithMinMaxVarsPerChannel", false, false, true),
    FAKE("FakeQuantWithMinMaxVarsPerChannelGradient", true, false, true),
    SIMULATE("QuantizeAndDequantize", V1, 0),
    SIMULATE("QuantizeAndDequantizeV2", V2, SECOND | THIRD),
    SIMULATE("QuantizeAndDequantizeV3", V3, SECOND | THIRD | FOURTH),
    SIMULATE("QuantizeAndDequantizeV4", V2, SECOND | THIRD),
    {.op = "QuantizeAndDequantizeV4Grad",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(F32_F64),
     .prepare = axis_prepare,
     .compute = simulate_grad},
    {0},
};
