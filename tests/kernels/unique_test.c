/* tests/kernels/unique_test.c - Unique and ListDiff: which values are equal, in which order they come, and
 * many of them. */
#include "tests/kernels/script.h"

static weft_bench_t bench;

static void values_compare_as_numbers(void) {
  static const weft_call_t calls[] = {
      {"Unique", "", "float[6]:0,-0,nan,1,nan,1", "float[4]:0,nan,1,nan int32[6]:0,0,1,2,3,2"},
      {"Unique", "out_idx=int64", "double[6]:-0,0,nan,1,nan,-1",
       "double[5]:-0,nan,1,nan,-1 int64[6]:0,0,1,2,3,4"},
      {"Unique", "", "half[5]:-inf,inf,-0,nan,0", "half[4]:-inf,inf,-0,nan int32[5]:0,1,2,3,2"},
      {"Unique", "", "bfloat16[5]:1,nan,1,-0,0", "bfloat16[3]:1,nan,-0 int32[5]:0,1,0,2,2"},
      {"Unique", "", "int8[5]:-128,127,0,-128,0", "int8[3]:-128,127,0 int32[5]:0,1,2,0,2"},
      {"Unique", "", "uint64[3]:18446744073709551615,0,18446744073709551615",
       "uint64[2]:-1,0 int32[3]:0,1,0"},
      {"Unique", "", "bool[3]:1,0,1", "bool[2]:1,0 int32[3]:0,1,0"},
      {"Unique", "", "complex64[3]:1:2,1:3,1:2", "complex64[2]:1:2,1:3 int32[3]:0,1,0"},
      {"Unique", "", "string[3]:'b','a','b'", "string[2]:'b','a' int32[3]:0,1,0"},
      {"Unique", "", "int32[0]:", "int32[0]: int32[0]:"},
      {"UniqueWithCounts", "out_idx=int64", "int32[4]:7,7,-7,7",
       "int32[2]:7,-7 int64[4]:0,0,1,0 int64[2]:3,1"},
      {"UniqueWithCountsV2", "", "int32[3,2]:1,2,3,4,1,2 int32[1]:0",
       "int32[2,2]:1,2,3,4 int32[3]:0,1,0 int32[2]:2,1"},
      {"ListDiff", "", "float[5]:0,nan,1,2,-0 float[3]:-0,nan,2", "float[2]:nan,1 int32[2]:1,2"},
      {"ListDiff", "out_idx=int64", "int64[4]:5,-1,5,9 int64[1]:-1", "int64[3]:5,5,9 int64[3]:0,2,3"},
      {"ListDiff", "", "uint8[2]:1,2 uint8[0]:", "uint8[2]:1,2 int32[2]:0,1"},
      {"ListDiff", "", "string[3]:'b','a','b' string[1]:'a'", "string[2]:'b','b' int32[2]:0,2"},
  };
  weft_expect_all(&bench, (weft_value_t){0}, calls, sizeof calls / sizeof calls[0]);
  weft_fail_allocations(&bench, calls, sizeof calls / sizeof calls[0]);
}

/* More than the table has at first, twice over, with steps between them that hashes like least. */
static void many_values(void) {
  static const int64_t steps[] = {1, 4096, -1, 65537};
  enum { NUM = 70000, DIFFERENT = 50000 };
  for (int k = 0; k < 8; k++) {
    const weft_dtype_t dtype = k % 2 != 0 ? WEFT_I32 : WEFT_I64;
    const weft_shape_t shape = weft_shape_vector(NUM);
    weft_tensor_t *x = NULL, *out[2] = {NULL, NULL};
    int num = 0, wrong = 0;
    weft_status_t *s = weft_tensor_new(dtype, &shape, NULL, &x);
    CU_ASSERT_PTR_NULL_FATAL(s);
    for (int64_t i = 0; i < NUM; i++) {
      const int64_t v = i % DIFFERENT * steps[k / 2];
      if (dtype == WEFT_I32) ((int32_t *)x->data)[i] = (int32_t)(uint32_t)v;
      if (dtype == WEFT_I64) ((int64_t *)x->data)[i] = v;
    }
    s = weft_run_op(&bench, "Unique", "", &x, 1, out, 2, &num);
    CU_ASSERT_PTR_NULL_FATAL(s);
    CU_ASSERT_EQUAL(out[0]->count, DIFFERENT);
    for (int64_t i = 0; i < NUM; i++) wrong += ((const int32_t *)out[1]->data)[i] != i % DIFFERENT;
    CU_ASSERT_EQUAL(wrong, 0);
    weft_tensor_release(x);
    weft_tensor_release(out[0]);
    weft_tensor_release(out[1]);
  }
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"values compare as numbers", values_compare_as_numbers},
      {"many values", many_values},
      CU_TEST_INFO_NULL,
  };
  return weft_run_bench_tests("unique", tests, &bench);
}
