/* kernels/cpu/random/random_stateless.c - random numbers that depend on their seed alone: the Stateless ops,
 * which take two seeds, and their second versions, which take a key and a counter made from them. */
#include <inttypes.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/random/random_fill.h"

static weft_status_t *check_seed(const weft_tensor_t *seed) {
  if (seed->shape.rank == 1 && seed->count == 2) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "seed must have shape [2], not %s", WEFT_SHAPE_TEXT(&seed->shape));
}

weft_status_t *weft_random_from_seed(const weft_tensor_t *seed, weft_philox_t *out) {
  WEFT_RETURN_IF_ERROR(check_seed(seed));
  if (seed->dtype != WEFT_I32 && seed->dtype != WEFT_I64)
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid seed type: %s", weft_dtype_name(seed->dtype));
  *out = weft_philox_scrambled((uint64_t)weft_cpu_int_at(seed, 0), (uint64_t)weft_cpu_int_at(seed, 1));
  return NULL;
}

weft_status_t *weft_random_seeded_output(weft_kernel_ctx_t *ctx, weft_tensor_t **out,
                                         weft_philox_t *out_generator) {
  WEFT_RETURN_IF_ERROR(check_seed(weft_in(ctx, 1)));
  WEFT_RETURN_IF_ERROR(weft_random_output(ctx, weft_in(ctx, 0), out));
  return (*out)->count == 0 ? NULL : weft_random_from_seed(weft_in(ctx, 1), out_generator);
}

static weft_status_t *draw(weft_kernel_ctx_t *ctx) {
  const weft_distribution_t distribution = ((const weft_drawn_t *)ctx->node->param)->distribution;
  weft_tensor_t *y = NULL;
  weft_philox_t generator;
  uint64_t low = 0, range = 0;
  WEFT_RETURN_IF_ERROR(weft_random_seeded_output(ctx, &y, &generator));
  if (y->count == 0) return NULL;
  if (distribution == WEFT_UNIFORM_INT) {
    WEFT_RETURN_IF_ERROR(weft_random_bounds(weft_in(ctx, 2), weft_in(ctx, 3), false, &low, &range));
  }
  weft_random_fill(ctx->device->pool, generator, distribution, low, range, y);
  return NULL;
}

/* ---- version 2 ---- */

weft_status_t *weft_random_from_key(const weft_tensor_t *key, const weft_tensor_t *counter,
                                    const weft_tensor_t *alg, int32_t *out_alg, weft_philox_t *out) {
  if (alg->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input 3 (0-based) must have shape [], not %s",
                      WEFT_SHAPE_TEXT(&alg->shape));
  }
  int32_t id = *(const int32_t *)alg->data;
  if (id == WEFT_ALG_AUTO) id = WEFT_ALG_PHILOX;
  if (key->shape.rank != 1 || key->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "key must have shape [1], not %s. (Note that batched keys are not supported yet.)",
                      WEFT_SHAPE_TEXT(&key->shape));
  }
  /* TensorFlow asks for as many words as the algorithm's number; a word that is missing counts as 0 here. */
  if (counter->shape.rank != 1 || counter->count < id) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "counter must be a vector with length at least %" PRId32
                      "; got shape: %s. (Note that batched "
                      "counters are not supported yet.)",
                      id, WEFT_SHAPE_TEXT(&counter->shape));
  }
  const uint64_t *k = key->data, *c = counter->data;
  uint64_t low = counter->count > 0 ? c[0] : 0, high = counter->count > 1 ? c[1] : 0;
  *out_alg = id;
  *out = (weft_philox_t){
      .key = {(uint32_t)k[0], (uint32_t)(k[0] >> 32)},
      .counter = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
  return NULL;
}

weft_status_t *weft_random_check_alg(int32_t alg) {
  return alg == WEFT_ALG_PHILOX ? NULL
                                : WEFT_ERROR(INVALID_ARGUMENT, "Unsupported algorithm id: %" PRId32, alg);
}

weft_status_t *weft_random_keyed_output(weft_kernel_ctx_t *ctx, weft_tensor_t **out, int32_t *out_alg,
                                        weft_philox_t *out_generator) {
  WEFT_RETURN_IF_ERROR(
      weft_random_from_key(weft_in(ctx, 1), weft_in(ctx, 2), weft_in(ctx, 3), out_alg, out_generator));
  return weft_random_output(ctx, weft_in(ctx, 0), out);
}

static weft_status_t *draw_v2(weft_kernel_ctx_t *ctx) {
  const weft_distribution_t distribution = ((const weft_drawn_t *)ctx->node->param)->distribution;
  weft_tensor_t *y = NULL;
  weft_philox_t generator;
  int32_t alg = 0;
  uint64_t low = 0, range = 0;
  WEFT_RETURN_IF_ERROR(weft_random_keyed_output(ctx, &y, &alg, &generator));
  if (y->count == 0) return NULL;
  if (distribution == WEFT_UNIFORM_INT) {
    WEFT_RETURN_IF_ERROR(weft_random_bounds(weft_in(ctx, 4), weft_in(ctx, 5), false, &low, &range));
  }
  WEFT_RETURN_IF_ERROR(weft_random_check_alg(alg));
  weft_random_fill(ctx->device->pool, generator, distribution, low, range, y);
  return NULL;
}

/* ---- keys and counters ---- */

static weft_status_t *output_alg(weft_kernel_ctx_t *ctx, int o) {
  weft_tensor_t *y = NULL;
  weft_shape_t scalar = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, o, WEFT_I32, &scalar, &y));
  *(int32_t *)y->data = WEFT_ALG_PHILOX;
  return NULL;
}

static weft_status_t *get_alg(weft_kernel_ctx_t *ctx) { return output_alg(ctx, 0); }

static weft_status_t *get_key_counter(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *key = NULL, *counter = NULL;
  weft_philox_t p;
  weft_shape_t one = weft_shape_vector(1), two = weft_shape_vector(2);
  WEFT_RETURN_IF_ERROR(weft_random_from_seed(weft_in(ctx, 0), &p));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_U64, &one, &key));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, WEFT_U64, &two, &counter));
  *(uint64_t *)key->data = (uint64_t)p.key[1] << 32 | p.key[0];
  uint64_t *c = counter->data;
  c[0] = (uint64_t)p.counter[1] << 32 | p.counter[0];
  c[1] = (uint64_t)p.counter[3] << 32 | p.counter[2];
  return NULL;
}

static weft_status_t *get_key_counter_alg(weft_kernel_ctx_t *ctx) {
  WEFT_RETURN_IF_ERROR(get_key_counter(ctx));
  return output_alg(ctx, 2);
}

#define DRAW(op_, set, fn, source, what) \
  { .op = op_, .type_attr = "dtype", .types = set, .compute = fn, WEFT_DRAWS(source, what) }

const weft_kernel_t weft_cpu_random_stateless_kernels[] = {
    WEFT_KERNEL("StatelessRandomGetAlg", NULL, 0, NULL, get_alg, NULL),
    WEFT_KERNEL("StatelessRandomGetKeyCounter", NULL, 0, NULL, get_key_counter, NULL),
    WEFT_KERNEL("StatelessRandomGetKeyCounterAlg", NULL, 0, NULL, get_key_counter_alg, NULL),
    DRAW("StatelessRandomNormal", WEFT_SET_FLOATS, draw, SEED, NORMAL),
    DRAW("StatelessRandomNormalV2", WEFT_SET_FLOATS, draw_v2, KEY, NORMAL),
    DRAW("StatelessRandomUniform", WEFT_SET_FLOATS, draw, SEED, UNIFORM),
    DRAW("StatelessRandomUniformFullInt", WEFT_SET_FULL_INTS, draw, SEED, FULL_INT),
    DRAW("StatelessRandomUniformFullIntV2", WEFT_SET_FULL_INTS, draw_v2, KEY, FULL_INT),
    DRAW("StatelessRandomUniformInt", WEFT_SET_INDEX, draw, SEED, UNIFORM_INT),
    DRAW("StatelessRandomUniformIntV2", WEFT_SET_INDEX, draw_v2, KEY, UNIFORM_INT),
    DRAW("StatelessRandomUniformV2", WEFT_SET_FLOATS, draw_v2, KEY, UNIFORM),
    DRAW("StatelessTruncatedNormal", WEFT_SET_FLOATS, draw, SEED, TRUNCATED_NORMAL),
    DRAW("StatelessTruncatedNormalV2", WEFT_SET_FLOATS, draw_v2, KEY, TRUNCATED_NORMAL),
    {0},
};
