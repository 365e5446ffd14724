/* StatelessParameterizedTruncatedNormal: the CPU's first sample, and many samples of the right distribution.
 *
 * The samples behind the first one of a thread's piece depend on how the CPU cuts the work. */
#include <math.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"
#include "tests/kernels/harness.h"

static void set(weft_tensor_t *t, int64_t i, double v) {
  switch (t->dtype) {
    case WEFT_F64: ((double *)t->data)[i] = v; break;
    case WEFT_F32: ((float *)t->data)[i] = (float)v; break;
    default: ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)v); break;
  }
}
static double get(const weft_tensor_t *t, int64_t i) {
  switch (t->dtype) {
    case WEFT_F64: return ((const double *)t->data)[i];
    case WEFT_F32: return ((const float *)t->data)[i];
    default: return weft_f16_to_f32(((const uint16_t *)t->data)[i]);
  }
}

/* Mean, deviation, bounds: those that each of the samplers has, mirrored ones, and such as are none. */
static const double sets[][4] = {
    {0, 1, -2, 2},
    {1, 2, -1, 9},
    {0, 1, 0.5, 0.75},
    {0, 1, 2, 2.25},
    {0, 1, 3, INFINITY},
    {-1, 0.5, -INFINITY, -3},
    {0, 1, 1.5, 9},
    {5, 3, -9, -4},
    {0, 0, -1, 1},
    {0, 1, 2, 1},
    {0, 1, -INFINITY, INFINITY},
};
enum { NUM_GOOD = 8, NUM_SETS = sizeof sets / sizeof *sets };

static void one_sample(weft_row_case_t *c) {
  const int64_t dims[3] = {1, 1, 1}, seeds[2] = {weft_row_int(c, -1000000, 1000000), weft_row_int(c, 0, 9)};
  /* Of half, which is computed in float here, only what fails is the same. */
  const double *of =
      sets[c->round < 7 ? weft_row_int(c, c->dtype == WEFT_F16 ? NUM_GOOD : 0, NUM_SETS - 1) : 0];
  weft_row_add_ints(c, c->round % 2 == 0 ? WEFT_I32 : WEFT_I64, c->round % 3, dims);
  weft_row_add_ints(c, WEFT_I64, 2, seeds);
  for (int i = 0; i < 4; i++) {
    weft_shape_t shape = {.rank = c->round == 7 && i == 2 ? 2 : i % (c->round % 3 + 1), .dims = {1, 1, 1}};
    if (c->round == 7 && i == 3) shape.dims[0] = 2; /* of which the result has not so many */
    weft_tensor_t *t = weft_row_add(c, c->dtype, &shape, WEFT_ROW_SMALL);
    for (int64_t k = 0; k < t->count; k++) set(t, k, of[i]);
  }
}

static const weft_row_op_t ops[] = {
    {"StatelessParameterizedTruncatedNormal", WEFT_CUDA_SET(F32_F64_F16), one_sample, .tolerance = 20},
};

static void the_first_sample_is_the_cpus(void) { weft_row_check(weft_cuda_truncated_kernels, ops, 1); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_truncated_kernels, ops, 1); }

/* Mean and variance of a set, by Simpson's rule over the part of its density that counts. */
static void moments(const double *of, double *mean, double *variance) {
  enum { STEPS = 20000 };
  const double low = fmax(of[2], of[0] - 12 * of[1]), high = fmin(of[3], of[0] + 12 * of[1]);
  double sums[3] = {0};
  for (int i = 0; i <= STEPS; i++) {
    const double x = low + (high - low) * i / STEPS, z = (x - of[0]) / of[1];
    const double w = (i == 0 || i == STEPS ? 1 : i % 2 == 1 ? 4 : 2) * exp(-z * z / 2);
    for (int k = 0; k < 3; k++) sums[k] += w * pow(x, k);
  }
  *mean = sums[1] / sums[0];
  *variance = sums[2] / sums[0] - *mean * *mean;
}

static void samples_have_the_distribution(void) {
  enum { SAMPLES = 4000 };
  const weft_dtype_t types[] = {WEFT_F32, WEFT_F64, WEFT_F16};
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  weft_row_host_init();
  for (int t = 0; t < 3; t++) {
    weft_row_case_t c = {.dtype = types[t], .random = 5};
    const int64_t dims[2] = {SAMPLES, NUM_GOOD}, seeds[2] = {7, 11};
    const weft_shape_t of_sets = {.rank = 1, .dims = {NUM_GOOD}};
    int in_types[6];
    weft_harness_t *h = NULL;
    weft_row_add_ints(&c, WEFT_I32, 2, dims);
    weft_row_add_ints(&c, WEFT_I64, 2, seeds);
    for (int i = 0; i < 4; i++) {
      weft_tensor_t *p = weft_row_add(&c, c.dtype, &of_sets, WEFT_ROW_SMALL);
      for (int64_t k = 0; k < NUM_GOOD; k++) set(p, k, sets[k][i]);
    }
    for (int i = 0; i < 6; i++) in_types[i] = (int)c.inputs[i]->dtype;
    CU_ASSERT_PTR_NULL_FATAL(weft_harness_create(&b, ops[0].op, NULL, in_types, 6, &h));
    weft_row_run_t r = {.setup = weft_harness_setup(h), .num_inputs = 6, .num_processors = 4};
    r.row = weft_row_find(weft_cuda_truncated_kernels, r.setup);
    memcpy(r.inputs, c.inputs, sizeof r.inputs);
    CU_ASSERT_PTR_NULL_FATAL(weft_row_run(&r));
    for (int k = 0; k < NUM_GOOD; k++) {
      double sum = 0, squares = 0, mean, variance;
      const double slack = types[t] == WEFT_F16 ? 0.01 : 1e-6;
      moments(sets[k], &mean, &variance);
      for (int64_t i = 0; i < SAMPLES; i++) {
        const double v = get(r.outputs[0], i * NUM_GOOD + k);
        CU_ASSERT(v >= sets[k][2] - slack && v <= sets[k][3] + slack);
        sum += v;
        squares += (v - mean) * (v - mean);
      }
      const double error = sqrt(variance / SAMPLES);
      CU_ASSERT(fabs(sum / SAMPLES - mean) < 4 * error + slack);
      CU_ASSERT(fabs(squares / SAMPLES / variance - 1) < 0.12);
    }
    weft_tensor_release(r.outputs[0]);
    for (int i = 0; i < c.num_inputs; i++) weft_tensor_release(c.inputs[i]);
    weft_harness_destroy(h);
  }
  weft_bench_deinit(&b);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"the first sample is the CPU's", the_first_sample_is_the_cpus},
      {"all are tested", all_are_tested},
      {"samples have the distribution", samples_have_the_distribution},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("truncated normal", tests);
}
