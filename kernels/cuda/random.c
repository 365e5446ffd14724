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
static const cuda_drawn_t uniform = UNIFORM, normal = NORMAL, truncated = TRUNCATED,
                          uniform_int = UNIFORM_INT, full_int = FULL_INT;

/* One block of Philox4x32-10, which scrambles a pair of seeds. */
static weft_cuda_generator_t scrambled(uint64_t seed0, uint64_t seed1) {
  uint32_t c[4] = {(uint32_t)seed0, (uint32_t)(seed0 >> 32), (uint32_t)seed1, (uint32_t)(seed1 >> 32)};
  uint32_t key[2] = {0x3ec8f720u, 0x02461e29u};
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key[0];
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c[3] ^ key[1];
    c[3] = (uint32_t)a;
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return (weft_cuda_generator_t){(uint64_t)c[1] << 32 | c[0], 0, (uint64_t)c[3] << 32 | c[2]};
}

WEFT_Failure *weft_cuda_generator_from_seed(WEFT_KernelContext *c, int i, weft_cuda_generator_t *out) {
  WEFT_TensorView seed;
  weft_cuda_host->input(c, i, &seed);
  if (seed.rank != 1 || seed.count != 2)
    return WEFT_CUDA_INVALID("seed must have shape [2], not %s", WEFT_CUDA_SHAPE(&seed));
  *out = scrambled((uint64_t)weft_cuda_int_at(&seed, 0), (uint64_t)weft_cuda_int_at(&seed, 1));
  return NULL;
}

WEFT_Failure *weft_cuda_generator_from_key(WEFT_KernelContext *c, int i, weft_cuda_generator_t *out) {
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
  *out = (weft_cuda_generator_t){*(const uint64_t *)key.data, words[0], counter.count > 1 ? words[1] : 0};
  return NULL;
}

WEFT_Failure *weft_cuda_generator_take(WEFT_KernelContext *c, uint64_t n, weft_cuda_generator_t *out) {
  uint64_t counter[2];
  WEFT_CUDA_TRY(weft_cuda_host->random_take(c, n * WEFT_CUDA_BLOCKS_PER_ELEMENT, &out->key, counter));
  out->low = counter[0];
  out->high = counter[1];
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

/* is_stream: the generator is taken out of the node's stream, once nothing can be wrong any more. */
static WEFT_Failure *draw(WEFT_KernelContext *c, weft_cuda_generator_t g, int bounds, bool is_stream) {
  const cuda_drawn_t drawn = *(const cuda_drawn_t *)weft_cuda_host->param(c);
  WEFT_TensorView y;
  uint64_t low = 0, range = 0;
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  int64_t n = y.count,
          groups = (n + (weft_cuda_size(y.dtype) == 8 ? 1 : 3)) / (weft_cuda_size(y.dtype) == 8 ? 2 : 4);
  if (n == 0) return NULL;
  if (drawn == UNIFORM_INT) WEFT_CUDA_TRY(read_bounds(c, bounds, &low, &range));
  if (is_stream) WEFT_CUDA_TRY(weft_cuda_generator_take(c, (uint64_t)n, &g));
  if (drawn != UNIFORM_INT && drawn != FULL_INT) {
    int32_t distribution = (int32_t)drawn;
    void *args[] = {&y.data, &n, &g.key, &g.low, &g.high, &distribution};
    return weft_cuda_launch_over(c, weft_cuda_pick(&float_instances, y.dtype), groups, 1, args);
  }
  void *args[] = {&y.data, &n, &g.key, &g.low, &g.high, &low, &range};
  const int signed_type = weft_cuda_size(y.dtype) == 8 ? WEFT_CUDA_i64 : WEFT_CUDA_i32;
  return weft_cuda_launch_over(c, weft_cuda_pick(&int_instances, signed_type), groups, 1, args);
}

static WEFT_Failure *from_seed(WEFT_KernelContext *c) {
  weft_cuda_generator_t g;
  WEFT_CUDA_TRY(weft_cuda_generator_from_seed(c, 1, &g));
  return draw(c, g, 2, false);
}

static WEFT_Failure *from_key(WEFT_KernelContext *c) {
  weft_cuda_generator_t g;
  WEFT_CUDA_TRY(weft_cuda_generator_from_key(c, 1, &g));
  return draw(c, g, 4, false);
}

static WEFT_Failure *from_stream(WEFT_KernelContext *c) {
  return draw(c, (weft_cuda_generator_t){0}, 1, true);
}

#define ALL UINT32_MAX
#define FULL_INTS (WEFT_CUDA_SET(INDEX) | UINT32_C(1) << WEFT_CUDA_u32 | UINT32_C(1) << WEFT_CUDA_u64)
#define ROW_OF(op_, attr, types_, fn, drawn) \
  { .op = op_, .type_attr = attr, .types = types_, .compute = fn, .param = &drawn, .host_inputs = ALL }
#define ROW(op_, set, fn, drawn) ROW_OF(op_, "dtype", WEFT_CUDA_SET(set), fn, drawn)
const WEFT_DeviceKernel weft_cuda_random_kernels[] = {
    ROW("RandomStandardNormal", FLOAT, from_stream, normal),
    ROW("RandomUniform", FLOAT, from_stream, uniform),
    ROW_OF("RandomUniformInt", "Tout", WEFT_CUDA_SET(INDEX), from_stream, uniform_int),
    ROW("StatelessRandomNormal", FLOAT, from_seed, normal),
    ROW("StatelessRandomNormalV2", FLOAT, from_key, normal),
    ROW("StatelessRandomUniform", FLOAT, from_seed, uniform),
    ROW_OF("StatelessRandomUniformFullInt", "dtype", FULL_INTS, from_seed, full_int),
    ROW_OF("StatelessRandomUniformFullIntV2", "dtype", FULL_INTS, from_key, full_int),
    ROW("StatelessRandomUniformInt", INDEX, from_seed, uniform_int),
    ROW("StatelessRandomUniformIntV2", INDEX, from_key, uniform_int),
    ROW("StatelessRandomUniformV2", FLOAT, from_key, uniform),
    ROW("StatelessTruncatedNormal", FLOAT, from_seed, truncated),
    ROW("StatelessTruncatedNormalV2", FLOAT, from_key, truncated),
    ROW("TruncatedNormal", FLOAT, from_stream, truncated),
    {0},
};
