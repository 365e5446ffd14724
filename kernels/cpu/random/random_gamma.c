/* kernels/cpu/random/random_gamma.c - RandomGamma, StatelessRandomGammaV2 and V3.
 *
 * Source: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), section 6 for alpha
 * below 1. A group of numbers is used from its last to its first, as in TensorFlow, so the samples are
 * TensorFlow's.
 */
#include <math.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/random/random_groups.h"
#include "kernels/cpu/random/random_samples.h"

/* A normal number and the next uniform ones come from one generator, each in groups of their own. */
typedef struct gamma_source {
  weft_random_uniforms_t uniforms; /* with the generator of both */
  double normals[2];
  int normals_left;
} gamma_source_t;

static double next_normal(gamma_source_t *s) {
  if (s->normals_left == 0) {
    uint32_t words[4];
    weft_philox_next(&s->uniforms.generator, words);
    weft_random_normal_pair_f64(words, s->normals);
    s->normals_left = 2;
  }
  return s->normals[--s->normals_left];
}

static double by_rejection(double alpha, gamma_source_t *source) {
  bool is_small = alpha < 1; /* then one more, and a factor in the end */
  double d = alpha + (is_small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(d);
  if (!(d >= 0)) return NAN; /* no such distribution: TensorFlow tries for ever */
  for (;;) {
    double x = next_normal(source), v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    double u = weft_random_uniform_next(&source->uniforms);
    bool is_inside = u < 1 - 0.0331 * (x * x) * (x * x) || log(u) < 0.5 * x * x + d * (1 - v + log(v));
    if (!is_inside) continue;
    return is_small ? d * v * pow(weft_random_uniform_next(&source->uniforms), 1 / alpha) : d * v;
  }
}

/* With alpha 1 it is the exponential distribution. */
static double gamma_sample(const weft_samples_t *s, int64_t set, int64_t number) {
  double alpha = s->parameters[0][set];
  gamma_source_t source = {.uniforms = {.generator = s->generator}};
  weft_philox_skip(&source.uniforms.generator, (uint64_t)number * WEFT_RANDOM_BLOCKS_PER_ELEMENT);
  return alpha == 1 ? -log1p(-weft_random_uniform_next(&source.uniforms)) : by_rejection(alpha, &source);
}

static weft_status_t *of_stream(weft_kernel_ctx_t *ctx) { return weft_samples_of_stream(ctx, gamma_sample); }
static weft_status_t *of_seed(weft_kernel_ctx_t *ctx) { return weft_samples_of_seed(ctx, gamma_sample); }
static weft_status_t *of_key(weft_kernel_ctx_t *ctx) { return weft_samples_of_key(ctx, gamma_sample); }

#define REALS (WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))

const weft_kernel_t weft_cpu_random_gamma_kernels[] = {
    WEFT_STREAM_KERNEL("RandomGamma", "T", REALS, of_stream),
    WEFT_KERNEL("StatelessRandomGammaV2", "dtype", REALS, NULL, of_seed, NULL),
    WEFT_KERNEL("StatelessRandomGammaV3", "dtype", REALS, NULL, of_key, NULL),
    {0},
};
