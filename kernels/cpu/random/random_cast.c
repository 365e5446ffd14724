/* kernels/cpu/random/random_cast.c - StochasticCastToInt: rounds down or up, up with a probability of the
 * fraction.
 *
 * A number takes a block of the generator if it has a fraction and is in range, and uses the first number of
 * the block. In the two conversions that TensorFlow does eight elements at a time, float and double to int32,
 * whole eights take blocks whatever is in them, and use all of the block twice.
 */
#include <math.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/random/random_groups.h"

enum { EIGHT = 8 };

typedef struct rounding {
  weft_dtype_t dtype; /* of the input */
  double min, max;    /* of the output, as values of the input's type */
  weft_philox_t generator;
} rounding_t;

/* The nearest value of the input's type. */
static double nearest(const rounding_t *r, double x) {
  switch (r->dtype) {
    case WEFT_F16: return (double)weft_random_round_f16((float)x);
    case WEFT_BF16: return (double)weft_bf16_to_f32(weft_f32_to_bf16((float)x));
    case WEFT_F32: return (double)(float)x;
    default: return x;
  }
}

/* The uniform numbers of the next block: two doubles, else four. */
static void next_block(rounding_t *r, double out[4]) {
  uint32_t words[4];
  float small[4];
  weft_philox_next(&r->generator, words);
  if (r->dtype == WEFT_F64) {
    weft_random_uniform_f64(words, out);
    return;
  }
  if (r->dtype == WEFT_F16) weft_random_uniform_f16(words, small);
  if (r->dtype == WEFT_F32) weft_random_uniform_f32(words, small);
  for (int i = 0; i < 4; i++)
    out[i] = r->dtype == WEFT_BF16 ? (double)(words[i] & 0x7fu) / 128 : (double)small[i];
}

/* Is x what it is rounded to, whatever the random number? */
static bool is_settled(const rounding_t *r, double x, double *out) {
  *out = isnan(x) ? 0 : x >= r->max ? r->max : x <= r->min ? r->min : x;
  return !(x > r->min && x < r->max) || floor(x) == x;
}

static double round_one(rounding_t *r, double x) {
  double result, u[4];
  if (is_settled(r, x, &result)) return result;
  next_block(r, u);
  return floor(nearest(r, x < 0 ? x + u[0] : nearest(r, x + 1) - u[0]));
}

static void round_eight(rounding_t *r, const double x[EIGHT], double y[EIGHT]) {
  int group = r->dtype == WEFT_F64 ? 2 : 4;
  double u[4];
  for (int i = 0; i < EIGHT; i++) {
    if (i % (2 * group) == 0) next_block(r, u);
    if (is_settled(r, x[i], &y[i])) continue;
    double random = u[i % group];
    y[i] = floor(nearest(r, x[i] < 0 ? x[i] + random : x[i] + nearest(r, 1 - random)));
  }
}

/* A value at the upper end may be one more than fits: as the processor's conversion, that is the lower end.
 */
static void store(weft_tensor_t *t, int64_t at, double x) {
  int32_t v = x >= INT32_MIN && x <= INT32_MAX ? (int32_t)x : INT32_MIN;
  switch (t->dtype) {
    case WEFT_I8: ((uint8_t *)t->data)[at] = (uint8_t)v; break;
    case WEFT_I16: ((uint16_t *)t->data)[at] = (uint16_t)v; break;
    default: ((int32_t *)t->data)[at] = v; break;
  }
}

static void round_all(rounding_t *r, const weft_tensor_t *t, weft_tensor_t *out) {
  weft_cpu_cast_fn *to_double = weft_cpu_cast_loop(t->dtype, WEFT_F64);
  bool is_by_eight = out->dtype == WEFT_I32 && (t->dtype == WEFT_F32 || t->dtype == WEFT_F64);
  size_t size = weft_dtype_size(t->dtype);
  for (int64_t at = 0; at < t->count; at += EIGHT) {
    int64_t n = t->count - at < EIGHT ? t->count - at : EIGHT;
    double x[EIGHT], y[EIGHT];
    to_double(n, (const char *)t->data + (size_t)at * size, x);
    if (is_by_eight && n == EIGHT) {
      round_eight(r, x, y);
    } else {
      for (int64_t i = 0; i < n; i++) y[i] = round_one(r, x[i]);
    }
    for (int64_t i = 0; i < n; i++) store(out, at + i, y[i]);
  }
}

static weft_status_t *stochastic_cast(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *x = weft_in(ctx, 0);
  weft_tensor_t *y = NULL;
  weft_philox_t given;
  int32_t alg = 0;
  WEFT_RETURN_IF_ERROR(weft_random_from_key(weft_in(ctx, 1), weft_in(ctx, 2), weft_in(ctx, 3), &alg, &given));
  WEFT_RETURN_IF_ERROR(weft_random_check_alg(alg));
  weft_dtype_t to = weft_dtype_base(ctx->node->output_types[0]);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, to, &x->shape, &y));
  int bits = 8 * (int)weft_dtype_size(to) - 1;
  rounding_t r = {.dtype = x->dtype};
  r.min = -ldexp(1, bits);
  r.max = nearest(&r, -r.min - 1);
  r.min = nearest(&r, r.min);
  /* TensorFlow takes the counter's first word for the key, and the key for the counter's upper half. */
  r.generator = (weft_philox_t){.key = {given.counter[0], given.counter[1]},
                                .counter = {0, 0, given.key[0], given.key[1]}};
  round_all(&r, x, y);
  return NULL;
}

#define NARROW (WEFT_DTYPE_BIT(WEFT_I8) | WEFT_DTYPE_BIT(WEFT_I16) | WEFT_DTYPE_BIT(WEFT_I32))

const weft_kernel_t weft_cpu_random_cast_kernels[] = {
    WEFT_KERNEL2("StochasticCastToInt", "Tin", WEFT_SET_FLOATS, "Tout", NARROW, NULL, stochastic_cast, NULL),
    {0},
};
