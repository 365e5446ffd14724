/* kernels/cpu/random/random.c - RandomUniform, RandomUniformInt, RandomStandardNormal, TruncatedNormal:
 * numbers of a stream that goes on from run to run.
 *
 * A run takes 256 blocks per element out of the stream, whatever it uses, because TensorFlow does.
 */
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/random/random_fill.h"

static weft_status_t *draw(weft_kernel_ctx_t *ctx) {
  const weft_distribution_t distribution = ((const weft_drawn_t *)ctx->node->param)->distribution;
  weft_tensor_t *y = NULL;
  uint64_t low = 0, range = 0;
  bool is_int = distribution == WEFT_UNIFORM_INT;
  if (is_int) WEFT_RETURN_IF_ERROR(weft_random_bounds(weft_in(ctx, 1), weft_in(ctx, 2), true, &low, &range));
  WEFT_RETURN_IF_ERROR(weft_random_output(ctx, weft_in(ctx, 0), &y));
  if (y->count == 0) return NULL;
  if (is_int) WEFT_RETURN_IF_ERROR(weft_random_bounds(weft_in(ctx, 1), weft_in(ctx, 2), false, &low, &range));
  weft_philox_t mine =
      weft_random_stream_take(ctx->state, (uint64_t)y->count * WEFT_RANDOM_BLOCKS_PER_ELEMENT);
  weft_random_fill(ctx->device->pool, mine, distribution, low, range, y);
  return NULL;
}

#define STREAM(op_, attr, set, what)                                                                        \
  {                                                                                                         \
    .op = op_, .type_attr = attr, .types = set, .prepare = weft_random_stream_prepare, .compute = draw,     \
    .destroy = weft_random_stream_destroy, .keeping = &weft_random_stream_keeping, WEFT_DRAWS(STREAM, what) \
  }

const weft_kernel_t weft_cpu_random_kernels[] = {
    STREAM("RandomStandardNormal", "dtype", WEFT_SET_FLOATS, NORMAL),
    STREAM("RandomUniform", "dtype", WEFT_SET_FLOATS, UNIFORM),
    STREAM("RandomUniformInt", "Tout", WEFT_SET_INDEX, UNIFORM_INT),
    STREAM("TruncatedNormal", "dtype", WEFT_SET_FLOATS, TRUNCATED_NORMAL),
    {0},
};
