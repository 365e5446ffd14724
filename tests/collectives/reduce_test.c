/* The arithmetic: every half and brain float, NaNs, wrapping, places that are the same. */
#include <math.h>

#include "collectives/reduce.h"
#include "tests/runner.h"

/* All 16-bit patterns against a few others: the inline conversions are those of the dtype. */
static void small_floats_round_as_their_type(void) {
  static const uint16_t others[] = {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x3c01,
                                    0xbbff, 0x7bff, 0x7c00, 0xfc00, 0x5640, 0x4248};
  static uint16_t a[65536], b[65536], out[65536];
  for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
    for (uint32_t i = 0; i < 65536; i++) {
      a[i] = (uint16_t)i;
      b[i] = others[k];
    }
    int wrong = 0;
    for (int op = WEFT_REDUCE_SUM; op <= WEFT_REDUCE_PROD; op++) {
      weft_reduce_kernel((weft_reduction_t)op, WEFT_F16)(out, a, b, 65536);
      for (uint32_t i = 0; i < 65536; i++) {
        const float x = weft_f16_to_f32(a[i]), y = weft_f16_to_f32(b[i]),
                    v = op == WEFT_REDUCE_SUM ? x + y : x * y;
        const uint16_t want = weft_f32_to_f16(v);
        wrong += isnan(v) ? !isnan(weft_f16_to_f32(out[i])) : out[i] != want;
      }
      weft_reduce_kernel((weft_reduction_t)op, WEFT_BF16)(out, a, b, 65536);
      for (uint32_t i = 0; i < 65536; i++) {
        const float x = weft_bf16_to_f32(a[i]), y = weft_bf16_to_f32(b[i]),
                    v = op == WEFT_REDUCE_SUM ? x + y : x * y;
        wrong += isnan(v) ? !isnan(weft_bf16_to_f32(out[i])) : out[i] != weft_f32_to_bf16(v);
      }
    }
    CU_ASSERT_EQUAL(wrong, 0);
  }
}

static void nan_is_kept_from_either_side(void) {
  const float a[] = {NAN, 1, NAN, 2, -0.0f}, b[] = {1, NAN, NAN, 3, 1};
  float out[5];
  weft_reduce_kernel(WEFT_REDUCE_MIN, WEFT_F32)(out, a, b, 5);
  CU_ASSERT(isnan(out[0]) && isnan(out[1]) && isnan(out[2]) && out[3] == 2);
  weft_reduce_kernel(WEFT_REDUCE_MAX, WEFT_F32)(out, a, b, 5);
  CU_ASSERT(isnan(out[0]) && isnan(out[1]) && isnan(out[2]) && out[3] == 3 && out[4] == 1);
}

static void integers_wrap(void) {
  int32_t a[] = {INT32_MAX, INT32_MIN, 65536}, b[] = {1, -1, 65536};
  weft_reduce_kernel(WEFT_REDUCE_SUM, WEFT_I32)(a, a, b, 3);
  CU_ASSERT(a[0] == INT32_MIN && a[1] == INT32_MAX);
  int64_t c[] = {INT64_MAX}, d[] = {2};
  weft_reduce_kernel(WEFT_REDUCE_PROD, WEFT_I64)(c, c, d, 1);
  CU_ASSERT_EQUAL(c[0], -2);
  uint8_t e[] = {200, 255}, f[] = {100, 255};
  weft_reduce_kernel(WEFT_REDUCE_SUM, WEFT_U8)(e, e, f, 2);
  CU_ASSERT(e[0] == 44 && e[1] == 254);
  uint16_t g[] = {65535}, h[] = {65535};
  weft_reduce_kernel(WEFT_REDUCE_PROD, WEFT_U16)(g, g, h, 1);
  CU_ASSERT_EQUAL(g[0], 1);
  int8_t i[] = {-128}, j[] = {-1};
  weft_reduce_kernel(WEFT_REDUCE_SUM, WEFT_I8)(i, i, j, 1);
  CU_ASSERT_EQUAL(i[0], 127);
}

static void means_divide_as_their_type(void) {
  int32_t a[] = {7, -7};
  weft_divide_kernel(WEFT_I32)(a, 2, 2);
  CU_ASSERT(a[0] == 3 && a[1] == -3);
  float b[] = {1, 10};
  weft_divide_kernel(WEFT_F32)(b, 3, 2);
  CU_ASSERT(b[0] == 1.0f / 3 && b[1] == 10.0f / 3);
  uint16_t c[] = {weft_f32_to_f16(1)};
  weft_divide_kernel(WEFT_F16)(c, 3, 1);
  CU_ASSERT_EQUAL(c[0], weft_f32_to_f16(1.0f / 3));
  weft_c64_t d[] = {{2, 4}};
  weft_divide_kernel(WEFT_C64)(d, 4, 1);
  CU_ASSERT(d[0].re == 0.5f && d[0].im == 1);
}

static void the_result_may_lie_on_the_first(void) {
  double a[37], b[37], apart[37];
  for (int i = 0; i < 37; i++) {
    a[i] = i * 0.1;
    b[i] = i * 0.7;
  }
  weft_reduce_kernel(WEFT_REDUCE_SUM, WEFT_F64)(apart, a, b, 37);
  weft_reduce_kernel(WEFT_REDUCE_SUM, WEFT_F64)(a, a, b, 37);
  CU_ASSERT_EQUAL(memcmp(a, apart, sizeof a), 0);
}

static void what_has_no_reduction_has_none(void) {
  CU_ASSERT_PTR_NULL(weft_reduce_kernel(WEFT_REDUCE_SUM, WEFT_STRING));
  CU_ASSERT_PTR_NULL(weft_reduce_kernel(WEFT_REDUCE_SUM, WEFT_BOOL));
  CU_ASSERT_PTR_NULL(weft_reduce_kernel(WEFT_REDUCE_MAX, WEFT_C64));
  CU_ASSERT_PTR_NULL(weft_reduce_kernel((weft_reduction_t)9, WEFT_F32));
  CU_ASSERT_PTR_NULL(weft_reduce_kernel(WEFT_REDUCE_SUM, (weft_dtype_t)999));
  CU_ASSERT_PTR_NULL(weft_divide_kernel(WEFT_VARIANT));
}

static const CU_TestInfo tests[] = {
    {"small floats round as their type", small_floats_round_as_their_type},
    {"NaN is kept from either side", nan_is_kept_from_either_side},
    {"integers wrap", integers_wrap},
    {"means divide as their type", means_divide_as_their_type},
    {"the result may lie on the first operand", the_result_may_lie_on_the_first},
    {"what has no reduction has none", what_has_no_reduction_has_none},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("reduce", tests); }
