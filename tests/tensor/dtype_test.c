#include "tensor/dtype.h"

#include <math.h>

#include "tests/runner.h"

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* The value of a half, by its definition. */
static double half_value(uint16_t h) {
  int exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
  double magnitude = exponent == 31  ? (mantissa == 0 ? (double)INFINITY : (double)NAN)
                     : exponent == 0 ? ldexp(mantissa, -24)
                                     : ldexp(1024 + mantissa, exponent - 25);
  return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

static void every_half_becomes_the_float_it_means(void) {
  int wrong = 0;
  for (uint32_t h = 0; h < 0x10000; h++) {
    double want = half_value((uint16_t)h), got = (double)weft_f16_to_f32((uint16_t)h);
    wrong += isnan(want) ? !isnan(got) : (got != want || signbit(got) != signbit(want));
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

static void every_half_survives_the_way_there_and_back(void) {
  int wrong = 0;
  for (uint32_t h = 0; h < 0x10000; h++) {
    float f = weft_f16_to_f32((uint16_t)h);
    uint16_t back = weft_f32_to_f16(f);
    wrong += isnan(f) ? !isnan(weft_f16_to_f32(back)) : back != h;
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

/* Nearest half, ties to even, by search among all non-negative ones. */
static uint16_t nearest_half(double value) {
  uint16_t low = 0, high = 0x7c00; /* halves of one sign are ordered as their bits are */
  double magnitude = fabs(value);
  while (high - low > 1) {
    uint16_t mid = (uint16_t)((low + high) / 2);
    if (half_value(mid) <= magnitude) {
      low = mid;
    } else {
      high = mid;
    }
  }
  double below = half_value(low), above = high == 0x7c00 ? 65536.0 : half_value(high);
  double to_low = magnitude - below, to_high = above - magnitude;
  uint16_t best = to_low < to_high || (to_low == to_high && (low & 1) == 0) ? low : high;
  return (uint16_t)(best | (signbit(value) ? 0x8000 : 0));
}

static void floats_round_to_the_nearest_half(void) {
  int wrong = 0;
  /* Around every half and every midpoint between two of them, and a stride through all floats. */
  for (uint32_t h = 0; h < 0x7c00; h++) {
    double a = half_value((uint16_t)h), b = h + 1 == 0x7c00 ? 65536.0 : half_value((uint16_t)(h + 1));
    float middle = (float)((a + b) / 2);
    float points[] = {(float)a, middle, nextafterf(middle, 0), nextafterf(middle, INFINITY)};
    for (int i = 0; i < 4; i++) {
      wrong += weft_f32_to_f16(points[i]) != nearest_half((double)points[i]);
      wrong += weft_f32_to_f16(-points[i]) != nearest_half(-(double)points[i]);
    }
  }
  for (uint32_t u = 0; u < 0x7f800000u; u += 9973)
    wrong += weft_f32_to_f16(float_of(u)) != nearest_half((double)float_of(u));
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(weft_f32_to_f16(INFINITY), 0x7c00);
  CU_ASSERT_EQUAL(weft_f32_to_f16(-INFINITY), 0xfc00);
  CU_ASSERT(isnan(weft_f16_to_f32(weft_f32_to_f16(NAN))));
}

static void bfloat16_is_the_upper_half_of_a_float_rounded_to_even(void) {
  int wrong = 0;
  for (uint32_t high = 0; high < 0x10000; high++) {
    float exact = weft_bf16_to_f32((uint16_t)high);
    wrong += bits_of(exact) != high << 16;
    if (isnan(exact)) {
      wrong += !isnan(weft_bf16_to_f32(weft_f32_to_bf16(exact)));
      continue;
    }
    static const uint32_t lows[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (int i = 0; i < 6; i++) {
      uint32_t u = high << 16 | lows[i];
      if (isnan(float_of(u))) continue; /* above infinity's bits */
      bool up = lows[i] > 0x8000 || (lows[i] == 0x8000 && (high & 1) != 0);
      wrong += weft_f32_to_bf16(float_of(u)) != (uint16_t)(high + up);
    }
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(isnan(weft_bf16_to_f32(weft_f32_to_bf16(float_of(0x7f800001))))); /* must not round to infinity */
}

static void names_and_numbers_agree(void) {
  int n = 0;
  for (int d = -5; d < 300; d++) {
    if (!weft_dtype_is_valid(d)) {
      CU_ASSERT_EQUAL(weft_dtype_size(d), 0);
      CU_ASSERT_STRING_EQUAL(weft_dtype_name(d), "invalid");
      continue;
    }
    n++;
    CU_ASSERT_EQUAL(weft_dtype_from_name(weft_str(weft_dtype_name(d))), d);
    CU_ASSERT_EQUAL(weft_dtype_from_name(weft_str(weft_dtype_enum_name(d))), d);
    CU_ASSERT(weft_dtype_size(d) > 0);
    CU_ASSERT_EQUAL(weft_dtype_is_ref(d), d > 100);
    CU_ASSERT_EQUAL(weft_dtype_size(d), weft_dtype_size(weft_dtype_base(d)));
  }
  CU_ASSERT_EQUAL(n, 46);
  CU_ASSERT_STRING_EQUAL(weft_dtype_enum_name(WEFT_F32 + WEFT_REF), "DT_FLOAT_REF");
  CU_ASSERT_EQUAL(weft_dtype_from_name(WEFT_STR("float64")), WEFT_F64);
  CU_ASSERT_EQUAL(weft_dtype_from_name(WEFT_STR("no such")), WEFT_DTYPE_INVALID);
}

static void kinds_do_not_overlap(void) {
  for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
    int kinds = weft_dtype_is_floating(d) + weft_dtype_is_complex(d) + weft_dtype_is_integer(d);
    CU_ASSERT(kinds <= 1);
    CU_ASSERT(kinds == 0 || weft_dtype_is_plain(d));
  }
  CU_ASSERT_FALSE(weft_dtype_is_plain(WEFT_STRING));
  CU_ASSERT_FALSE(weft_dtype_is_plain(WEFT_RESOURCE + WEFT_REF));
  CU_ASSERT_FALSE(weft_dtype_is_integer(WEFT_BOOL));
  CU_ASSERT_FALSE(weft_dtype_is_integer(WEFT_QINT8));
}

static const CU_TestInfo tests[] = {
    {"every half becomes the float it means", every_half_becomes_the_float_it_means},
    {"every half survives the way there and back", every_half_survives_the_way_there_and_back},
    {"floats round to the nearest half", floats_round_to_the_nearest_half},
    {"bfloat16 is the upper half of a float, rounded to even",
     bfloat16_is_the_upper_half_of_a_float_rounded_to_even},
    {"names and numbers agree", names_and_numbers_agree},
    {"kinds do not overlap", kinds_do_not_overlap},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("dtype", tests); }
