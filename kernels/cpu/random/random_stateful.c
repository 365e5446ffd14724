/* kernels/cpu/random/random_stateful.c - random numbers whose generator is a variable: the Stateful ops,
 * RngSkip, RngReadAndSkip; and NonDeterministicInts, which has none.
 */
#include <inttypes.h>

#include "base/random.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/random/random_state.h"
#include "kernels/state.h"

/* ---- the state ---- */

static weft_status_t *resolve_alg(int64_t id, int64_t *out) {
  if (id < WEFT_ALG_PHILOX || id > WEFT_ALG_AUTO)
    return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported algorithm id: %" PRId64, id);
  *out = id == WEFT_ALG_AUTO ? WEFT_ALG_PHILOX : id;
  return NULL;
}

static weft_status_t *check_scalar(weft_kernel_ctx_t *ctx, int i) {
  const weft_tensor_t *t = weft_in(ctx, i);
  if (t->shape.rank == 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "input %d (0-based) must have shape [], not %s", i,
                    WEFT_SHAPE_TEXT(&t->shape));
}

weft_status_t *weft_random_alg_input(weft_kernel_ctx_t *ctx, int i, int64_t *out) {
  WEFT_RETURN_IF_ERROR(check_scalar(ctx, i));
  return resolve_alg(weft_cpu_int_at(weft_in(ctx, i), 0), out);
}

/* Can the variable hold a state that begins at element *out_first? */
static weft_status_t *check_state(const weft_tensor_t *t, int64_t alg, int *out_first) {
  if (t->dtype != WEFT_I64) {
    return WEFT_ERROR(INVALID_ARGUMENT, "dtype of RNG state variable must be int64, not %s",
                      weft_dtype_name(t->dtype));
  }
  if (t->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "RNG state must have one and only one dimension, not %d",
                      t->shape.rank);
  }
  *out_first = alg == 0;
  if (alg == 0) {
    if (t->count < 1) return WEFT_ERROR(INVALID_ARGUMENT, "Size of tensor must be at least 1");
    WEFT_RETURN_IF_ERROR(resolve_alg(*(const int64_t *)t->data, &alg));
  }
  if (alg != WEFT_ALG_PHILOX)
    return WEFT_ERROR(UNIMPLEMENTED, "Non-XLA devices don't support the ThreeFry algorithm.");
  if (t->count >= *out_first + WEFT_RANDOM_STATE_WORDS) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "For the Philox algorithm, the size of state must be at least %d; got %" PRId64,
                    *out_first + WEFT_RANDOM_STATE_WORDS, t->count);
}

static weft_philox_t philox_of(const int64_t state[WEFT_RANDOM_STATE_WORDS]) {
  weft_philox_t p;
  for (int i = 0; i < 2; i++) {
    p.counter[2 * i] = (uint32_t)state[i];
    p.counter[2 * i + 1] = (uint32_t)((uint64_t)state[i] >> 32);
    p.key[i] = (uint32_t)((uint64_t)state[2] >> 32 * i);
  }
  return p;
}

static weft_status_t *take_locked(weft_variable_t *v, int64_t alg, uint64_t numbers, int64_t *old,
                                  weft_philox_t *out) WEFT_REQUIRES(v->mu) {
  int first = 0;
  if (v->value == NULL) return weft_variable_uninitialized(v);
  WEFT_RETURN_IF_ERROR(check_state(v->value, alg, &first));
  WEFT_RETURN_IF_ERROR(weft_variable_make_writable_locked(v));
  int64_t *state = (int64_t *)v->value->data + first;
  if (old != NULL) memcpy(old, state, WEFT_RANDOM_STATE_WORDS * sizeof *old);
  *out = philox_of(state);
  weft_philox_t next = *out;
  weft_philox_skip(&next, numbers * WEFT_RANDOM_BLOCKS_PER_ELEMENT);
  for (int i = 0; i < 2; i++)
    state[i] = (int64_t)((uint64_t)next.counter[2 * i + 1] << 32 | next.counter[2 * i]);
  return NULL;
}

weft_status_t *weft_random_state_take(weft_kernel_ctx_t *ctx, int64_t alg, uint64_t numbers,
                                      int64_t old[WEFT_RANDOM_STATE_WORDS], weft_philox_t *out) {
  weft_variable_t *v = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_variable(ctx, 0, &v));
  weft_mutex_lock(&v->mu);
  weft_status_t *s = take_locked(v, alg, numbers, old, out);
  weft_mutex_unlock(&v->mu);
  weft_object_release(&v->object);
  return s;
}

/* ---- numbers ---- */

static weft_status_t *draw(weft_kernel_ctx_t *ctx, int64_t alg, int sizes, uint64_t low, uint64_t range) {
  const weft_distribution_t *distribution = ctx->node->param;
  weft_tensor_t *y = NULL;
  weft_philox_t generator;
  WEFT_RETURN_IF_ERROR(weft_random_output(ctx, weft_in(ctx, sizes), &y));
  WEFT_RETURN_IF_ERROR(weft_random_state_take(ctx, alg, (uint64_t)y->count, NULL, &generator));
  weft_random_fill(ctx->device->pool, generator, *distribution, low, range, y);
  return NULL;
}

/* StatefulStandardNormal: the variable says the algorithm. */
static weft_status_t *draw_v1(weft_kernel_ctx_t *ctx) { return draw(ctx, 0, 1, 0, 0); }

static weft_status_t *draw_v2(weft_kernel_ctx_t *ctx) {
  int64_t alg = 0;
  WEFT_RETURN_IF_ERROR(weft_random_alg_input(ctx, 1, &alg));
  return draw(ctx, alg, 2, 0, 0);
}

static weft_status_t *draw_int(weft_kernel_ctx_t *ctx) {
  int64_t alg = 0;
  uint64_t low = 0, range = 0;
  WEFT_RETURN_IF_ERROR(weft_random_alg_input(ctx, 1, &alg));
  WEFT_RETURN_IF_ERROR(weft_random_bounds(weft_in(ctx, 3), weft_in(ctx, 4), false, &low, &range));
  return draw(ctx, alg, 2, low, range);
}

/* ---- moving on ---- */

static weft_status_t *skip(weft_kernel_ctx_t *ctx, int64_t old[WEFT_RANDOM_STATE_WORDS]) {
  int64_t alg = 0;
  weft_philox_t generator;
  WEFT_RETURN_IF_ERROR(weft_random_alg_input(ctx, 1, &alg));
  WEFT_RETURN_IF_ERROR(check_scalar(ctx, 2));
  return weft_random_state_take(ctx, alg, *(const uint64_t *)weft_in(ctx, 2)->data, old, &generator);
}

static weft_status_t *rng_skip(weft_kernel_ctx_t *ctx) { return skip(ctx, NULL); }

static weft_status_t *rng_read_and_skip(weft_kernel_ctx_t *ctx) {
  int64_t old[WEFT_RANDOM_STATE_WORDS];
  weft_shape_t shape = weft_shape_vector(WEFT_RANDOM_STATE_WORDS);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(skip(ctx, old));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I64, &shape, &y));
  memcpy(y->data, old, sizeof old);
  return NULL;
}

/* ---- numbers from the system ---- */

static weft_status_t *non_deterministic(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_random_output(ctx, weft_in(ctx, 0), &y));
  if (y->count == 0) return NULL;
  weft_random_fill(ctx->device->pool, weft_philox_scrambled(weft_random_id(), weft_random_id()),
                   WEFT_FULL_INT, 0, 0, y);
  return NULL;
}

#define DRAW(op_, set, fn, what)                                                                          \
  {                                                                                                       \
    .op = op_, .type_attr = "dtype", .types = set, .compute = fn, .param = &(const weft_distribution_t) { \
      WEFT_##what                                                                                         \
    }                                                                                                     \
  }

const weft_kernel_t weft_cpu_random_stateful_kernels[] = {
    {.op = "NonDeterministicInts",
     .type_attr = "dtype",
     .types = WEFT_SET_FULL_INTS,
     .compute = non_deterministic},
    {.op = "RngReadAndSkip", .compute = rng_read_and_skip},
    {.op = "RngSkip", .compute = rng_skip},
    DRAW("StatefulStandardNormal", WEFT_SET_FLOATS, draw_v1, NORMAL),
    DRAW("StatefulStandardNormalV2", WEFT_SET_FLOATS, draw_v2, NORMAL),
    DRAW("StatefulTruncatedNormal", WEFT_SET_FLOATS, draw_v2, TRUNCATED_NORMAL),
    DRAW("StatefulUniform", WEFT_SET_FLOATS, draw_v2, UNIFORM),
    DRAW("StatefulUniformFullInt", WEFT_SET_FULL_INTS, draw_v2, FULL_INT),
    DRAW("StatefulUniformInt", WEFT_SET_INDEX, draw_int, UNIFORM_INT),
    {0},
};
