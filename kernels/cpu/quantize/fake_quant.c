/* kernels/cpu/quantize/fake_quant.c - FakeQuantWithMinMax...: floats rounded to what a quantised type could
 * hold.
 *
 * The range is moved a little so that zero is among the steps (TensorFlow's fake_quant_ops_functor.h). One
 * range serves all, or each channel, the last dimension, has its own. A range of nothing, 0 to 0, gives
 * zeros.
 */
#include "base/thread_pool.h"
#include "kernels/cpu/quantize/quantize.h"

typedef struct steps {
  float low, high, size, per_unit, zero; /* zero: the number of the step that is 0 */
  bool is_none;
} steps_t;

/* The steps of the range from min to max: integers from narrow_range (0 or 1) to 2^num_bits - 1. */
static steps_t steps_of(float min, float max, int64_t num_bits, bool narrow_range) {
  const float first = narrow_range ? 1.0f : 0.0f, last = (float)((1 << num_bits) - 1);
  if (min == 0 && max == 0) return (steps_t){.is_none = true};
  steps_t s = {.size = (max - min) / (last - first), .per_unit = (last - first) / (max - min)};
  float zero = first - min / s.size;
  zero = zero < first ? first : zero > last ? last : roundf(zero);
  if (!(zero >= first)) zero = 0; /* NaN */
  s.low = (first - zero) * s.size;
  s.high = (last - zero) * s.size;
  s.zero = floorf(-s.low * s.per_unit + 0.5f);
  return s;
}

typedef struct fake_quant_run {
  const float *x, *dy;
  float *y;
  int64_t channels;
  const steps_t *steps; /* of each channel */
  bool divides; /* by the size of a step, where others multiply by the inverse: they round differently */
} fake_quant_run_t;

static inline float rounded(const steps_t *s, float x, bool divides) {
  x = s->high < x ? s->high : x;
  x = (x < s->low ? s->low : x) - s->low;
  x = divides ? x / s->size : x * s->per_unit;
  return s->is_none ? 0.0f : floorf(x - s->zero + 0.5f) * s->size;
}

static inline bool lets_through(const steps_t *s, float x) {
  return s->is_none || (x >= s->low && x <= s->high);
}

/* One range for all: loops without it in memory. y may be x. */
static void forward_one(const fake_quant_run_t *r, int64_t begin, int64_t end) {
  const steps_t s = r->steps[0];
  const float *x = r->x;
  float *y = r->y;
  if (r->divides) {
    WEFT_IVDEP
    for (int64_t i = begin; i < end; i++) y[i] = rounded(&s, x[i], true);
  } else {
    WEFT_IVDEP
    for (int64_t i = begin; i < end; i++) y[i] = rounded(&s, x[i], false);
  }
}

static void backward_one(const fake_quant_run_t *r, int64_t begin, int64_t end) {
  const steps_t s = r->steps[0];
  const float *x = r->x, *dy = r->dy;
  float *y = r->y;
  WEFT_IVDEP
  for (int64_t i = begin; i < end; i++) y[i] = dy[i] * (lets_through(&s, x[i]) ? 1.0f : 0.0f);
}

static void forward_rows(void *arg, int64_t begin, int64_t end) {
  const fake_quant_run_t *r = arg;
  if (r->channels == 1) {
    forward_one(r, begin, end);
    return;
  }
  for (int64_t i = begin * r->channels; i < end * r->channels; i += r->channels) {
    for (int64_t k = 0; k < r->channels; k++) r->y[i + k] = rounded(&r->steps[k], r->x[i + k], r->divides);
  }
}

static void backward_rows(void *arg, int64_t begin, int64_t end) {
  const fake_quant_run_t *r = arg;
  if (r->channels == 1) {
    backward_one(r, begin, end);
    return;
  }
  for (int64_t i = begin * r->channels; i < end * r->channels; i += r->channels) {
    for (int64_t k = 0; k < r->channels; k++) {
      r->y[i + k] = r->dy[i + k] * (lets_through(&r->steps[k], r->x[i + k]) ? 1.0f : 0.0f);
    }
  }
}

/* What x lies below its range gives to the gradient of min, what lies above to that of max. */
static void sum_outside(const fake_quant_run_t *r, int64_t rows, float *dmin, float *dmax) {
  for (int64_t k = 0; k < r->channels; k++) {
    const steps_t *s = &r->steps[k];
    float below = 0, above = 0;
    for (int64_t i = k; i < rows * r->channels && !s->is_none; i += r->channels) {
      below += r->dy[i] * (r->x[i] < s->low ? 1.0f : 0.0f);
      above += r->dy[i] * (r->x[i] > s->high ? 1.0f : 0.0f);
    }
    dmin[k] = below;
    dmax[k] = above;
  }
}

static void run_rows(weft_kernel_ctx_t *c, int64_t rows, fake_quant_run_t *r) {
  int64_t grain = WEFT_CPU_GRAIN / (r->channels > 0 ? r->channels : 1);
  weft_parallel_for(c->device->pool, rows, grain > 0 ? grain : 1,
                    r->dy == NULL ? forward_rows : backward_rows, r);
}

/* Inputs of a gradient: dy, then x. */
static weft_status_t *take_inputs(weft_kernel_ctx_t *c, bool is_gradient, fake_quant_run_t *r) {
  const weft_tensor_t *x = weft_in(c, is_gradient ? 1 : 0);
  r->x = x->data;
  if (!is_gradient) return NULL;
  if (!weft_shape_eq(&x->shape, &weft_in(c, 0)->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "gradient and input must be the same size");
  }
  r->dy = weft_in(c, 0)->data;
  return NULL;
}

static weft_status_t *new_output(weft_kernel_ctx_t *c, bool is_gradient, fake_quant_run_t *r) {
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_forward(c, 0, 0, WEFT_F32, &weft_in(c, is_gradient ? 1 : 0)->shape, &y));
  r->y = y->data;
  return NULL;
}

static weft_status_t *check_bits(const weft_kernel_setup_t *setup) {
  int64_t num_bits = weft_knode_int(setup, "num_bits");
  if (num_bits >= 2 && num_bits <= 16) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "num_bits must be between 2 and 16, inclusive");
}

static weft_status_t *args_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  float min = weft_knode_float(setup, "min"), max = weft_knode_float(setup, "max");
  if (!(min < max)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "min has to be smaller than max, was: %g >= %g", (double)min,
                      (double)max);
  }
  WEFT_RETURN_IF_ERROR(check_bits(setup));
  return weft_attrs_prepare(setup, out_state);
}

static weft_status_t *vars_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  WEFT_RETURN_IF_ERROR(check_bits(setup));
  return weft_attrs_prepare(setup, out_state);
}

/* A row's param: NULL, or this. */
static const char is_gradient_row[1];

WEFT_ATTRS(with_args, (FLOAT, min), (FLOAT, max), (INT, num_bits), (BOOL, narrow_range))
static weft_status_t *with_args(weft_kernel_ctx_t *c, const with_args_attrs_t *a) {
  bool is_gradient = c->node->param != NULL;
  steps_t steps = steps_of(a->min, a->max, a->num_bits, a->narrow_range);
  fake_quant_run_t r = {.channels = 1, .steps = &steps};
  WEFT_RETURN_IF_ERROR(take_inputs(c, is_gradient, &r));
  const int64_t count = weft_in(c, is_gradient ? 1 : 0)->count;
  WEFT_RETURN_IF_ERROR(new_output(c, is_gradient, &r));
  run_rows(c, count, &r);
  return NULL;
}

WEFT_ATTRS_STRUCT(fake_quant, (INT, num_bits), (BOOL, narrow_range))

/* The last two outputs of a gradient, of the shape of input `like`. */
static weft_status_t *range_gradients(weft_kernel_ctx_t *c, int like, float **dmin, float **dmax) {
  const weft_shape_t shape = weft_in(c, like)->shape;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 1, WEFT_F32, &shape, &t));
  *dmin = t->data;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 2, WEFT_F32, &shape, &t));
  *dmax = t->data;
  return NULL;
}

/* `count` elements, with the steps of their channels in r. */
static weft_status_t *run_vars(weft_kernel_ctx_t *c, int64_t count, fake_quant_run_t *r) {
  const bool is_gradient = c->node->param != NULL;
  const int64_t rows = r->channels > 0 ? count / r->channels : 0;
  if (is_gradient) {
    float *dmin = NULL, *dmax = NULL;
    WEFT_RETURN_IF_ERROR(range_gradients(c, 2, &dmin, &dmax));
    sum_outside(r, rows, dmin, dmax);
  }
  WEFT_RETURN_IF_ERROR(new_output(c, is_gradient, r));
  run_rows(c, rows, r);
  return NULL;
}

WEFT_ATTRS_OF(with_vars, fake_quant)
static weft_status_t *with_vars(weft_kernel_ctx_t *c, const fake_quant_attrs_t *a) {
  const bool is_gradient = c->node->param != NULL;
  fake_quant_run_t r = {.channels = 1, .divides = true};
  weft_range_t range;
  WEFT_RETURN_IF_ERROR(take_inputs(c, is_gradient, &r));
  WEFT_RETURN_IF_ERROR(weft_range_input(c, is_gradient ? 2 : 1, &range));
  steps_t steps = steps_of(range.min, range.max, a->num_bits, a->narrow_range);
  r.steps = &steps;
  return run_vars(c, weft_in(c, is_gradient ? 1 : 0)->count, &r);
}

static weft_status_t *channel_values(const weft_kernel_ctx_t *c, int i, int64_t channels, const float **out) {
  const weft_tensor_t *t = weft_in(c, i);
  const weft_str_t name = c->node->op->inputs[i].name;
  if (t->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "`%.*s` must be rank 1 but is rank %d", WEFT_STR_ARGS(name),
                      t->shape.rank);
  }
  if (t->count != channels) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s has incorrect size, expected %lld was %lld",
                      WEFT_STR_ARGS(name), (long long)channels, (long long)t->count);
  }
  *out = t->data;
  return NULL;
}

WEFT_ATTRS_OF(with_channels, fake_quant)
static weft_status_t *with_channels(weft_kernel_ctx_t *c, const fake_quant_attrs_t *a) {
  const bool is_gradient = c->node->param != NULL;
  fake_quant_run_t r = {0};
  const float *min = NULL, *max = NULL;
  WEFT_RETURN_IF_ERROR(take_inputs(c, is_gradient, &r));
  const weft_tensor_t *x = weft_in(c, is_gradient ? 1 : 0);
  if (x->shape.rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "inputs must have at least one dimension");
  const int64_t count = x->count;
  r.channels = x->shape.dims[x->shape.rank - 1];
  WEFT_RETURN_IF_ERROR(channel_values(c, is_gradient ? 2 : 1, r.channels, &min));
  WEFT_RETURN_IF_ERROR(channel_values(c, is_gradient ? 3 : 2, r.channels, &max));
  steps_t *steps = weft_malloc(((size_t)r.channels + 1) * sizeof *steps);
  if (steps == NULL) return WEFT_NO_MEMORY("the steps of each channel");
  for (int64_t k = 0; k < r.channels; k++) steps[k] = steps_of(min[k], max[k], a->num_bits, a->narrow_range);
  r.steps = steps;
  weft_status_t *s = run_vars(c, count, &r);
  weft_free(steps);
  return s;
}

const weft_kernel_t weft_cpu_fake_quant_kernels[] = {
    {.op = "FakeQuantWithMinMaxArgs", WEFT_COMPUTE_CHECKED(with_args, args_prepare)},
    {.op = "FakeQuantWithMinMaxArgsGradient",
     WEFT_COMPUTE_CHECKED(with_args, args_prepare),
     .param = is_gradient_row},
    {.op = "FakeQuantWithMinMaxVars", WEFT_COMPUTE_CHECKED(with_vars, vars_prepare)},
    {.op = "FakeQuantWithMinMaxVarsGradient",
     WEFT_COMPUTE_CHECKED(with_vars, vars_prepare),
     .param = is_gradient_row},
    {.op = "FakeQuantWithMinMaxVarsPerChannel", WEFT_COMPUTE_CHECKED(with_channels, vars_prepare)},
    {.op = "FakeQuantWithMinMaxVarsPerChannelGradient",
     WEFT_COMPUTE_CHECKED(with_channels, vars_prepare),
     .param = is_gradient_row},
    {0},
};
