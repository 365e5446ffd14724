/* Random numbers: those of the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static void add_shape(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 3);
  weft_row_add_ints(c, c->round % 2 == 0 ? WEFT_I32 : WEFT_I64, s.rank, s.dims);
}

static void add_bounds(weft_row_case_t *c) {
  const int64_t low = weft_row_int(c, -50, 50), high = low + (c->round == 7 ? 0 : weft_row_int(c, 1, 1000));
  weft_row_add_ints(c, c->dtype, -1, &low);
  weft_row_add_ints(c, c->dtype, -1, &high);
}

static void seed(weft_row_case_t *c) {
  const int64_t seeds[2] = {weft_row_int(c, -1000000, 1000000), weft_row_int(c, 0, 9)};
  add_shape(c);
  weft_row_add_ints(c, c->round % 3 == 0 ? WEFT_I32 : WEFT_I64, 2, seeds);
  weft_row_attr(c, "dtype=%s", weft_dtype_name(c->dtype));
}
static void seed_int(weft_row_case_t *c) {
  seed(c);
  add_bounds(c);
}

static void key(weft_row_case_t *c) {
  const int64_t k = weft_row_int(c, 0, INT32_MAX), alg = c->round % 2 == 0 ? 1 : 3;
  const int64_t counter[2] = {weft_row_int(c, 0, INT32_MAX) * 7, weft_row_int(c, 0, INT32_MAX)};
  add_shape(c);
  weft_row_add_ints(c, WEFT_U64, 1, &k);
  weft_row_add_ints(c, WEFT_U64, 2, counter);
  weft_row_add_ints(c, WEFT_I32, -1, &alg);
  weft_row_attr(c, "dtype=%s", weft_dtype_name(c->dtype));
}
static void key_int(weft_row_case_t *c) {
  key(c);
  add_bounds(c);
}

static void stream(weft_row_case_t *c) {
  add_shape(c);
  weft_row_attr(c, "seed=%d seed2=%d", (int)weft_row_int(c, 1, 1000000), (int)weft_row_int(c, -9, 9));
}
static void stream_float(weft_row_case_t *c) {
  stream(c);
  weft_row_attr(c, "dtype=%s", weft_dtype_name(c->dtype));
}
static void stream_int(weft_row_case_t *c) {
  stream(c);
  add_bounds(c);
}

#define FULL_INTS (WEFT_CUDA_SET(INDEX) | WEFT_DTYPE_BIT(WEFT_U32) | WEFT_DTYPE_BIT(WEFT_U64))
/* Uniform ones are the same bit for bit; sines and logarithms are each library's own. */
static const weft_row_op_t ops[] = {
    {"RandomStandardNormal", WEFT_CUDA_SET(FLOAT), stream_float},
    {"RandomUniform", WEFT_CUDA_SET(FLOAT), stream_float, .tolerance = -1},
    {"RandomUniformInt", WEFT_CUDA_SET(INDEX), stream_int},
    {"StatelessRandomUniformFullInt", FULL_INTS, seed},
    {"StatelessRandomUniformFullIntV2", FULL_INTS, key},
    {"TruncatedNormal", WEFT_CUDA_SET(FLOAT), stream_float},
    {"StatelessRandomNormal", WEFT_CUDA_SET(FLOAT), seed},
    {"StatelessRandomNormalV2", WEFT_CUDA_SET(FLOAT), key},
    {"StatelessRandomUniform", WEFT_CUDA_SET(FLOAT), seed, .tolerance = -1},
    {"StatelessRandomUniformInt", WEFT_CUDA_SET(INDEX), seed_int},
    {"StatelessRandomUniformIntV2", WEFT_CUDA_SET(INDEX), key_int},
    {"StatelessRandomUniformV2", WEFT_CUDA_SET(FLOAT), key, .tolerance = -1},
    {"StatelessTruncatedNormal", WEFT_CUDA_SET(FLOAT), seed},
    {"StatelessTruncatedNormalV2", WEFT_CUDA_SET(FLOAT), key},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_random_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_random_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("random", tests);
}
