/* kernels/cuda/random.c - rows of random numbers: of ops with a stream that goes on from run to run, and of
 * the Stateless ops, whose numbers depend on a seed, or on a key and a counter, alone. These lie in the
 * host's memory. */
#include "kernels/cuda/random.h"

#include "kernels/cuda/kernels.h"

WEFT_CUDA_INSTANCES(float_instances, random, FLOAT)
WEFT_CUDA_INSTANCES(int_instances, random, INDEX)

typedef enum cuda_drawn {
  UNIFORM,
  NORMAL,
  TRUNCATED,
  UNIFORM_INT,
  FULL_INT
} cuda_drawn_t; /* as in random.cu */

/* The param of a row. */
typedef struct cuda_random_op {
  cuda_drawn_t drawn;
  weft_cuda_source_t source;
} random_op_t;

/* Philox4x32-10, as kernels/cuda/philox.cuh has it. */
void weft_cuda_generator_next(weft_cuda_generator_t *g, uint32_t out[4]) {
  uint32_t c[4] = {(uint32_t)g->low, (uint32_t)(g->low >> 32), (uint32_t)g->high, (uint32_t)(g->high >> 32)};
  uint32_t key[2] = {(uint32_t)g->key, (uint32_t)(g->key >> 32)};
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key[0];
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c[3] ^ key[1];
    c[3] = (uint32_t)a;
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  memcpy(out, c, sizeof c);
  if (++g->low == 0) g->high++;
}

/* A block scrambles a pair of seeds. */
static weft_cuda_generator_t scrambled(uint64_t seed0, uint64_t seed1) {
  weft_cuda_generator_t g = {.key = UINT64_C(0x02461e293ec8f720), .low = seed0, .high = seed1};
  uint32_t mixed[4];
  weft_cuda_generator_next(&g, mixed);
  return (weft_cuda_generator_t){.source = WEFT_CUDA_FROM_SEED,
                                 .key = (uint64_t)mixed[1] << 32 | mixed[0],
                                 .high = (uint64_t)mixed[3] << 32 | mixed[2]};
}

static WEFT_Failure *from_seed(WEFT_KernelContext *c, int i, weft_cuda_generator_t *out) {
  WEFT_TensorView seed;
  weft_cuda_host->input(c, i, &seed);
  if (seed.rank != 1 || seed.count != 2)
    return WEFT_CUDA_INVALID("seed must have shape [2], not %s", WEFT_CUDA_SHAPE(&seed));
  *out = scrambled((uint64_t)weft_cuda_int_at(&seed, 0), (uint64_t)weft_cuda_int_at(&seed, 1));
  return NULL;
}

static WEFT_Failure *from_key(WEFT_KernelContext *c, int i, weft_cuda_generator_t *out) {
  enum { PHILOX = 1, AUTO = 3 };
  WEFT_TensorView key, counter, alg;
  weft_cuda_host->input(c, i, &key);
  weft_cuda_host->input(c, i + 1, &counter);
  weft_cuda_host->input(c, i + 2, &alg);
  if (alg.rank != 0)
    return WEFT_CUDA_INVALID("input %d (0-based) must have shape [], not %s", i + 2, WEFT_CUDA_SHAPE(&alg));
  const int32_t id = *(const int32_t *)alg.data;
  if (key.rank != 1 || key.count != 1) {
    return WEFT_CUDA_INVALID(
        "key must have shape [1], not %s. (Note that batched keys are not supported yet.)",
        WEFT_CUDA_SHAPE(&key));
  }
  if (counter.rank != 1 || counter.count < 1) {
    return WEFT_CUDA_INVALID(
        "counter must be a vector with length at least 1; got shape: %s. (Note that "
        "batched counters are not supported yet.)",
        WEFT_CUDA_SHAPE(&counter));
  }
  if (id != PHILOX && id != AUTO) return WEFT_CUDA_INVALID("Unsupported algorithm id: %d", (int)id);
  const uint64_t *words = counter.data;
  *out = (weft_cuda_generator_t){.source = WEFT_CUDA_FROM_KEY,
                                 .key = *(const uint64_t *)key.data,
                                 .low = words[0],
                                 .high = counter.count > 1 ? words[1] : 0};
  return NULL;
}

WEFT_Failure *weft_cuda_generator_read(WEFT_KernelContext *c, weft_cuda_source_t source, int *at,
                                       weft_cuda_generator_t *out) {
  const int first = *at;
  *out = (weft_cuda_generator_t){.source = source};
  if (source == WEFT_CUDA_FROM_STREAM) return NULL;
  *at += source == WEFT_CUDA_FROM_SEED ? 1 : 3;
  return source == WEFT_CUDA_FROM_SEED ? from_seed(c, first, out) : from_key(c, first, out);
}

WEFT_Failure *weft_cuda_generator_take(WEFT_KernelContext *c, uint64_t n, weft_cuda_generator_t *g) {
  uint64_t counter[2];
  if (g->source != WEFT_CUDA_FROM_STREAM) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->random_take(c, n * WEFT_CUDA_BLOCKS_PER_ELEMENT, &g->key, counter));
  g->low = counter[0];
  g->high = counter[1];
  return NULL;
}

static WEFT_Failure *read_bounds(WEFT_KernelContext *c, int at, uint64_t *low, uint64_t *range) {
  WEFT_TensorView limits[2];
  for (int i = 0; i < 2; i++) {
    weft_cuda_host->input(c, at + i, &limits[i]);
    if (limits[i].rank == 0) continue;
    return WEFT_CUDA_INVALID("%s must be 0-D, got shape %s", i == 0 ? "minval" : "maxval",
                             WEFT_CUDA_SHAPE(&limits[i]));
  }
  const int64_t min = weft_cuda_int_at(&limits[0], 0), max = weft_cuda_int_at(&limits[1], 0);
  if (min >= max)
    return WEFT_CUDA_INVALID("Need minval < maxval, got %lld >= %lld", (long long)min, (long long)max);
  *low = (uint64_t)min;
  *range = (uint64_t)max - (uint64_t)min;
  return NULL;
}

static WEFT_Failure *draw(WEFT_KernelContext *c) {
  const random_op_t *op = weft_cuda_host->param(c);
  const cuda_drawn_t drawn = op->drawn;
  WEFT_TensorView y;
  weft_cuda_generator_t g;
  uint64_t low = 0, range = 0;
  int bounds = 1; /* the input behind the shape and the generator */
  WEFT_CUDA_TRY(weft_cuda_generator_read(c, op->source, &bounds, &g));
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  int64_t n = y.count,
          groups = (n + (weft_cuda_size(y.dtype) == 8 ? 1 : 3)) / (weft_cuda_size(y.dtype) == 8 ? 2 : 4);
  if (n == 0) return NULL;
  if (drawn == UNIFORM_INT) WEFT_CUDA_TRY(read_bounds(c, bounds, &low, &range));
  WEFT_CUDA_TRY(weft_cuda_generator_take(c, (uint64_t)n, &g));
  if (drawn != UNIFORM_INT && drawn != FULL_INT) {
    int32_t distribution = (int32_t)drawn;
    void *args[] = {&y.data, &n, &g.key, &g.low, &g.high, &distribution};
    return weft_cuda_launch_over(c, weft_cuda_pick(&float_instances, y.dtype), groups, 1, args);
  }
  void *args[] = {&y.data, &n, &g.key, &g.low, &g.high, &low, &range};
  const int signed_type = weft_cuda_size(y.dtype) == 8 ? WEFT_CUDA_i64 : WEFT_CUDA_i32;
  return weft_cuda_launch_over(c, weft_cuda_pick(&int_instances, signed_type), groups, 1, args);
}

#define ALL UINT32_MAX
#define FULL_INTS (WEFT_CUDA_SET(INDEX) | UINT32_C(1) << WEFT_CUDA_u32 | UINT32_C(1) << WEFT_CUDA_u64)
#define ROW_OF(op_, attr, types_, from, drawn)                                          \
  {                                                                                     \
    .op = op_, .type_attr = attr, .types = types_, .compute = draw, .host_inputs = ALL, \
    .param = &(const random_op_t) {                                                     \
      drawn, WEFT_CUDA_FROM_##from                                                      \
    }                                                                                   \
  }
#define ROW(op_, set, from, drawn) ROW_OF(op_, "dtype", WEFT_CUDA_SET(set), from, drawn)
const WEFT_DeviceKernel weft_cuda_random_kernels[] = {
    ROW("RandomStandardNormal", FLOAT, STREAM, NORMAL),
    ROW("RandomUniform", FLOAT, STREAM, UNIFORM),
    ROW_OF("RandomUniformInt", "Tout", WEFT_CUDA_SET(INDEX), STREAM, UNIFORM_INT),
    ROW("StatelessRandomNormal", FLOAT, SEED, NORMAL),
    ROW("StatelessRandomNormalV2", FLOAT, KEY, NORMAL),
    ROW("StatelessRandomUniform", FLOAT, SEED, UNIFORM),
    ROW_OF("StatelessRandomUniformFullInt", "dtype", FULL_INTS, SEED, FULL_INT),
    ROW_OF("StatelessRandomUniformFullIntV2", "dtype", FULL_INTS, KEY, FULL_INT),
    ROW("StatelessRandomUniformInt", INDEX, SEED, UNIFORM_INT),
    ROW("StatelessRandomUniformIntV2", INDEX, KEY, UNIFORM_INT),
    ROW("StatelessRandomUniformV2", FLOAT, KEY, UNIFORM),
    ROW("StatelessTruncatedNormal", FLOAT, SEED, TRUNCATED),
    ROW("StatelessTruncatedNormalV2", FLOAT, KEY, TRUNCATED),
    ROW("TruncatedNormal", FLOAT, STREAM, TRUNCATED),
    {0},
};
