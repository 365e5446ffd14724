/* kernels/cpu/random/random_binomial.c - StatefulRandomBinomial, StatelessRandomBinomial.
 *
 * Sources: sums of geometric variables where a mean below 10 is expected; Hoermann, "The generation of
 * binomial random variates" (1993), algorithm BTRS, above. Of a probability above a half the complement is
 * drawn. The order in which uniform numbers are used is TensorFlow's, so the numbers are, too.
 */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/broadcast.h"
#include "kernels/cpu/random/random_groups.h"
#include "kernels/cpu/random/random_samples.h"
#include "kernels/cpu/random/random_state.h"

/* Blocks that TensorFlow keeps for a number of the first kind. */
enum { INVERSION_BLOCKS = 42 };

static double by_inversion(double count, double probability, weft_random_uniforms_t *uniforms) {
  double sum = 0, n = 0;
  for (;; n++) {
    sum += ceil(log(weft_random_uniform_next(uniforms)) / log1p(-probability));
    if (sum > count) return n;
  }
}

/* What Stirling's approximation of log k! lacks. */
static double stirling_tail(double k) {
  static const double tails[] = {
      0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
      0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return tails[(int)k];
  double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

static double by_rejection(double count, double probability, weft_random_uniforms_t *uniforms) {
  double deviation = sqrt(count * probability * (1 - probability));
  double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * probability;
  double c = count * probability + 0.5, certain = 0.92 - 4.2 / b, odds = probability / (1 - probability);
  double alpha = (2.83 + 5.1 / b) * deviation, m = floor((count + 1) * probability);
  for (;;) {
    double u = weft_random_uniform_next(uniforms), v = weft_random_uniform_next(uniforms);
    u -= 0.5;
    double shifted = 0.5 - fabs(u), k = floor((2 * a / shifted + b) * u + c);
    if (shifted >= 0.07 && v <= certain) return k;
    if (k < 0 || k > count) continue;
    v = log(v * alpha / (a / (shifted * shifted) + b));
    double bound = (m + 0.5) * log((m + 1) / (odds * (count - m + 1))) +
                   (count + 1) * log((count - m + 1) / (count - k + 1)) +
                   (k + 0.5) * log(odds * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                   stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
    if (v <= bound) return k;
  }
}

static double round_to(weft_dtype_t dtype, double x) {
  return dtype == WEFT_F64   ? x
         : dtype == WEFT_F32 ? (double)(float)x
                             : (double)weft_random_round_f16((float)x);
}

static double binomial(const weft_samples_t *s, int64_t set, int64_t number) {
  double count = s->parameters[0][set], probability = s->parameters[1][set];
  if (count <= 0 || probability <= 0) return 0;
  if (isnan(count)) return count;
  if (probability >= 1) return count;
  if (isnan(probability)) return probability;
  if (!isfinite(count)) return count; /* TensorFlow tries for ever */
  bool is_flipped = probability > 0.5;
  if (is_flipped) probability = round_to(s->type, 1 - probability);
  bool is_large = round_to(s->type, count * probability) >= 10;
  weft_random_uniforms_t uniforms = {.generator = s->generator};
  weft_philox_skip(&uniforms.generator,
                   (uint64_t)number * (is_large ? WEFT_RANDOM_BLOCKS_PER_ELEMENT : INVERSION_BLOCKS));
  double k =
      is_large ? by_rejection(count, probability, &uniforms) : by_inversion(count, probability, &uniforms);
  return is_flipped ? count - k : k;
}

/* ---- the ops ---- */

/* The sets' shape, from counts and probabilities in inputs `first` and after it. */
static weft_status_t *shape_of_sets(weft_kernel_ctx_t *ctx, int first, weft_shape_t *out) {
  weft_broadcast_t b;
  const weft_shape_t *const shapes[] = {&weft_in(ctx, first)->shape, &weft_in(ctx, first + 1)->shape};
  if (!weft_broadcast_init(&b, shapes, 2)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "counts and probs must have compatible batch dimensions: %s vs. %s",
                      WEFT_SHAPE_TEXT(shapes[0]), WEFT_SHAPE_TEXT(shapes[1]));
  }
  *out = b.shape;
  return NULL;
}

static weft_status_t *draw_all(weft_kernel_ctx_t *ctx, int first, const weft_shape_t *sets,
                               weft_samples_t *s) {
  s->draw = binomial;
  s->type = weft_in(ctx, first)->dtype;
  weft_status_t *status = weft_samples_parameter(weft_in(ctx, first), sets, &s->parameters[0]);
  if (status == NULL) status = weft_samples_parameter(weft_in(ctx, first + 1), sets, &s->parameters[1]);
  if (status == NULL) weft_samples_fill(s, ctx->device->pool);
  weft_samples_deinit(s);
  return status;
}

static weft_status_t *stateless(weft_kernel_ctx_t *ctx) {
  weft_samples_t s = {0};
  weft_shape_t sets;
  WEFT_RETURN_IF_ERROR(shape_of_sets(ctx, 2, &sets));
  WEFT_RETURN_IF_ERROR(weft_random_seeded_output(ctx, &s.out, &s.generator));
  WEFT_RETURN_IF_ERROR(weft_samples_plan(&s, &s.out->shape, &sets));
  return s.out->count == 0 ? NULL : draw_all(ctx, 2, &sets, &s);
}

static weft_status_t *stateful(weft_kernel_ctx_t *ctx) {
  weft_samples_t s = {0};
  weft_shape_t sets;
  const weft_tensor_t *alg = weft_in(ctx, 1);
  WEFT_RETURN_IF_ERROR(shape_of_sets(ctx, 3, &sets));
  WEFT_RETURN_IF_ERROR(weft_random_output(ctx, weft_in(ctx, 2), &s.out));
  WEFT_RETURN_IF_ERROR(weft_samples_plan(&s, &s.out->shape, &sets));
  if (alg->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "algorithm must be of shape [], not %s",
                      WEFT_SHAPE_TEXT(&alg->shape));
  }
  /* Errors of the variable come before that of the algorithm. */
  bool is_philox = *(const int64_t *)alg->data == WEFT_ALG_PHILOX;
  uint64_t numbers = (uint64_t)s.num_sets * 2 * 100 * (uint64_t)(s.num_samples + 3) / 4;
  WEFT_RETURN_IF_ERROR(
      weft_random_state_take(ctx, WEFT_ALG_PHILOX, is_philox ? numbers : 0, NULL, &s.generator));
  if (!is_philox)
    return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported algorithm id: %" PRId64, *(const int64_t *)alg->data);
  return s.out->count == 0 ? NULL : draw_all(ctx, 3, &sets, &s);
}

#define REALS (WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))
#define NUMBERS (REALS | WEFT_SET_INDEX)

const weft_kernel_t weft_cpu_random_binomial_kernels[] = {
    WEFT_KERNEL2("StatefulRandomBinomial", "T", REALS, "dtype", NUMBERS, NULL, stateful, NULL),
    WEFT_KERNEL2("StatelessRandomBinomial", "T", REALS, "dtype", NUMBERS, NULL, stateless, NULL),
    {0},
};
