/* tests/kernels/sorted_bound_test.c - LowerBound and UpperBound against std::lower_bound and
 * std::upper_bound, step by step: of sorted rows, and of rows that are not, and of NaN. */
#include <math.h>
#include <string.h>

#include "tests/kernels/script.h"

static weft_bench_t bench;
static uint32_t seed = 1;

static int some(int n) {
  seed = seed * 1664525u + 1013904223u;
  return (int)((seed >> 8) % (uint32_t)n);
}

static int64_t bound_of(const float *row, int64_t n, float v, bool is_upper) {
  int64_t low = 0;
  while (n > 0) {
    const int64_t half = n / 2;
    if (is_upper ? !(v < row[low + half]) : row[low + half] < v) {
      low += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return low;
}

static weft_tensor_t *rows_of(int64_t rows, int64_t n, bool is_sorted) {
  const weft_shape_t shape = weft_shape_matrix(rows, n);
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_F32, &shape, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int64_t i = 0; i < t->count; i++) {
    float *x = (float *)t->data + i;
    *x = is_sorted ? (i % n == 0 ? 0 : x[-1]) + (float)some(3) : (float)some(100);
    if (!is_sorted && some(20) == 0) *x = NAN;
  }
  return t;
}

static void places_are_those_of_the_standard_library(void) {
  static const int64_t lengths[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 100, 1000},
                       counts[] = {1, 7, 8, 9, 255, 257, 600};
  for (int k = 0; k < 12 * 7 * 4; k++) {
    const int64_t n = lengths[k % 12], m = counts[k / 12 % 7];
    const bool is_upper = k / 84 % 2 != 0, is_sorted = k / 168 % 2 != 0;
    weft_tensor_t *in[2] = {rows_of(3, n, is_sorted), rows_of(3, m, false)}, *out = NULL;
    int num = 0;
    weft_status_t *s = weft_run_op(&bench, is_upper ? "UpperBound" : "LowerBound", "", in, 2, &out, 1, &num);
    CU_ASSERT_PTR_NULL_FATAL(s);
    int wrong = 0;
    for (int64_t i = 0; i < out->count; i++) {
      const float *row = (const float *)in[0]->data + i / m * n;
      wrong += ((const int32_t *)out->data)[i] != bound_of(row, n, ((const float *)in[1]->data)[i], is_upper);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    weft_tensor_release(in[0]);
    weft_tensor_release(in[1]);
    weft_tensor_release(out);
  }
}

static void edges(void) {
  static const weft_call_t calls[] = {
      {"LowerBound", "", "int32[1,0]: int32[1,3]:1,2,3", "int32[1,3]:0,0,0"},
      {"UpperBound", "out_type=int64", "int32[2,2]:1,3,5,5 int32[2,0]:", "int64[2,0]:"},
      {"UpperBound", "out_type=int64", "int8[1,4]:-3,0,0,7 int8[1,4]:-128,0,7,127", "int64[1,4]:0,3,4,4"},
      {"LowerBound", "", "half[1,3]:-1,0,1 half[1,3]:-0.5,-0,2", "int32[1,3]:1,1,3"},
      {"LowerBound", "", "int32[2,1]:1,2 int32[1,1]:1",
       "INVALID_ARGUMENT: Leading dim_size of both tensors must match."},
  };
  weft_expect_all(&bench, (weft_value_t){0}, calls, sizeof calls / sizeof calls[0]);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"places are those of the standard library", places_are_those_of_the_standard_library},
      {"edges", edges},
      CU_TEST_INFO_NULL,
  };
  return weft_run_bench_tests("sorted bound", tests, &bench);
}
