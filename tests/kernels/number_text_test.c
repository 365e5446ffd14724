/* tests/kernels/number_text_test.c - numbers from text are those of the C library, to the last bit. */
#include "kernels/cpu/loops/number_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runner.h"

enum { RANDOM_TEXTS = 200000 };

static uint64_t seed = 1;

static uint32_t some(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((seed >> 33) % n);
}

static weft_tensor_t *scalar(weft_dtype_t dtype) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(dtype, &WEFT_SCALAR, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return t;
}

static void expect_same(const char *text) {
  weft_tensor_t *single = scalar(WEFT_F32), *both = scalar(WEFT_F64);
  const weft_str_t s = weft_str_of(text, strlen(text));
  char *end = NULL;
  const float f = strtof(text, NULL);
  const double d = strtod(text, &end);
  const bool is_number = *end == '\0' && end != text;
  CU_ASSERT_EQUAL(weft_number_from_text(s, single, 0), is_number);
  CU_ASSERT_EQUAL(weft_number_from_text(s, both, 0), is_number);
  if (is_number && (memcmp(single->data, &f, sizeof f) != 0 || memcmp(both->data, &d, sizeof d) != 0)) {
    printf("'%s': %a, not %a; %a, not %a\n", text, (double)*(float *)single->data, (double)f,
           *(double *)both->data, d);
    CU_FAIL("other bits");
  }
  weft_tensor_release(single);
  weft_tensor_release(both);
}

static void texts_of_all_forms(void) {
  static const char *const texts[] = {
      "0", "-0", "0.0", "-0e5", "00012.500", "1.", ".5", ".", "-", "+", "", "1e", "1e+", "1e5", "1E-5",
      "-1.5e+3", "1e22", "1e23", "1e27", "1e28", "1e-27", "1e-28", "1e39", "1e309", "-1e400", "1e-45",
      "1e-46", "7e-46", "5e-324", "2e-324", "1e99999", "1e-99999", "0e99999", "nan", "inf", "-infinity",
      "0x1.8p3", "1.5x", "1 2", "1_000", "--1", "+-1", "18446744073709551615", "18446744073709551616",
      "9999999999999999999", "99999999999999999999", "0.0000000000000000000000000000000000001",
      /* half way between two floats, and two doubles, and beside that */
      "16777217", "16777217.000000001", "16777216.999999999", "16777219", "9007199254740993",
      "9007199254740993.0000000000000001", "9007199254740992.9999999999999999", "9007199254740995",
      "1.00000005960464477539062500", "1.00000005960464477539062501",
      "340282356779733661637539395458142568447", "340282356779733661637539395458142568448",
      "2.2250738585072011e-308", "123456789012345678e-17"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) expect_same(texts[i]);
}

static void random_texts(void) {
  for (int i = 0; i < RANDOM_TEXTS; i++) {
    char text[64];
    size_t n = 0;
    if (some(2) == 0) text[n++] = '-';
    const uint32_t whole = some(18), behind = some(20);
    for (uint32_t k = 0; k < whole; k++) text[n++] = (char)('0' + some(10));
    if (behind > 0) text[n++] = '.';
    for (uint32_t k = 0; k < behind; k++) text[n++] = (char)('0' + some(10));
    if (some(3) == 0) n += (size_t)snprintf(text + n, sizeof text - n, "e%d", (int)some(90) - 45);
    text[n] = '\0';
    expect_same(text);
  }
}

/* Texts that printing makes: they are nearest to one number. */
static void printed_numbers(void) {
  for (int i = 0; i < RANDOM_TEXTS; i++) {
    char text[64];
    const double d =
        ((double)some(1u << 30) + (double)some(1u << 30) / (1 << 30)) / (1 + (double)some(1u << 20));
    (void)snprintf(text, sizeof text, some(2) == 0 ? "%.17g" : "%.9g", d);
    expect_same(text);
  }
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"texts of all forms", texts_of_all_forms},
      {"random texts", random_texts},
      {"printed numbers", printed_numbers},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("number text", tests);
}
