/* kernels/cpu/random/random_poisson.c - RandomPoisson, RandomPoissonV2, StatelessRandomPoisson.
 *
 * Sources: Knuth, The Art of Computer Programming, volume 2, section 3.4.1, for rates below 10; Hoermann,
 * "The transformed rejection method for generating Poisson random variables" (1993), algorithm PTRS, above.
 * The constants and the order in which uniform numbers are used are TensorFlow's, so the numbers are, too.
 */
#define _GNU_SOURCE /* lgamma_r */
#include <float.h>
#include <math.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/random/random_groups.h"
#include "kernels/cpu/random/random_samples.h"

/* A rate above all values of the output's type never gives one that fits: TensorFlow tries for ever. */
enum { POISSON_MAX_TRIES = 10000 };

static double highest(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_F16: return 65504;
    case WEFT_F32: return FLT_MAX;
    case WEFT_I32: return INT32_MAX;
    case WEFT_I64: return (double)INT64_MAX;
    default: return DBL_MAX;
  }
}

static double by_product(double rate, weft_random_uniforms_t *uniforms) {
  double limit = exp(-rate), product = 1, x = 0;
  for (;; x++) {
    product *= weft_random_uniform_next(uniforms);
    if (product <= limit) return x;
  }
}

static double by_rejection(double rate, double max, weft_random_uniforms_t *uniforms) {
  double log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  for (int i = 0; i < POISSON_MAX_TRIES; i++) {
    double u = weft_random_uniform_next(uniforms) - 0.5, v = weft_random_uniform_next(uniforms);
    double shifted = 0.5 - fabs(u), k = floor((2 * a / shifted + b) * u + rate + 0.43);
    if (k > max) continue;
    if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
    int sign = 0;
    double s = log(v * inverse_alpha / (a / (shifted * shifted) + b));
    double t = -rate + k * log_rate - lgamma_r(k + 1, &sign);
    if (s <= t) return k;
  }
  return max;
}

static double poisson(const weft_samples_t *s, int64_t set, int64_t number) {
  double rate = s->parameters[0][set];
  if (isnan(rate) || rate == HUGE_VAL) return rate;
  weft_random_uniforms_t uniforms = {.generator = s->generator};
  weft_philox_skip(&uniforms.generator, (uint64_t)number * WEFT_RANDOM_BLOCKS_PER_ELEMENT);
  return rate < 10 ? by_product(rate, &uniforms) : by_rejection(rate, highest(s->out->dtype), &uniforms);
}

static weft_status_t *of_stream(weft_kernel_ctx_t *ctx) { return weft_samples_of_stream(ctx, poisson); }
static weft_status_t *of_seed(weft_kernel_ctx_t *ctx) { return weft_samples_of_seed(ctx, poisson); }

#define REALS (WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))
#define NUMBERS (REALS | WEFT_SET_INDEX)

const weft_kernel_t weft_cpu_random_poisson_kernels[] = {
    WEFT_STREAM_KERNEL("RandomPoisson", "dtype", REALS, of_stream),
    {.op = "RandomPoissonV2",
     .type_attr = "R",
     .types = NUMBERS,
     .type_attr2 = "dtype",
     .types2 = NUMBERS,
     .prepare = weft_random_stream_prepare,
     .compute = of_stream,
     .destroy = weft_random_stream_destroy,
     .keeping = &weft_random_stream_keeping},
    WEFT_KERNEL2("StatelessRandomPoisson", "Rtype", NUMBERS, "dtype", NUMBERS, NULL, of_seed, NULL),
    {0},
};
