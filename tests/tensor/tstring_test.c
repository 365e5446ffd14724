#include "tensor/tstring.h"

#include "base/alloc.h"
#include "tests/runner.h"

static void zero_bytes_are_an_empty_string(void) {
  weft_tstring_t s = {.words = {0, 0, 0}};
  CU_ASSERT_EQUAL(weft_tstring_get(&s).length, 0);
  weft_tstring_clear(&s);
  CU_ASSERT_EQUAL(sizeof s, 24);
}

static void text_of_every_length_comes_back(void) {
  char text[100];
  weft_tstring_t s = {.words = {0, 0, 0}};
  for (size_t n = 0; n < sizeof text; n++) {
    for (size_t i = 0; i < n; i++) text[i] = (char)(n + i);
    CU_ASSERT_PTR_NULL(weft_tstring_set(&s, weft_str_of(text, n)));
    CU_ASSERT(weft_str_eq(weft_tstring_get(&s), weft_str_of(text, n)));
    CU_ASSERT_EQUAL(s.bytes[0] & 3, n <= WEFT_TSTRING_SMALL_MAX ? 0 : 1);
  }
  weft_tstring_clear(&s);
  CU_ASSERT_EQUAL(weft_tstring_get(&s).length, 0);
}

static void short_text_lies_inside_as_the_c_api_expects(void) {
  weft_tstring_t s = {.words = {0, 0, 0}};
  CU_ASSERT_PTR_NULL(weft_tstring_set(&s, WEFT_STR("abc")));
  CU_ASSERT_EQUAL(s.bytes[0], 3 << 2);
  CU_ASSERT_NSTRING_EQUAL((const char *)s.bytes + 1, "abc", 4);
}

static void views_and_offsets_are_read(void) {
  static const char text[] = "somewhere else";
  weft_tstring_t view = {.words = {14u << 2 | 3, (uint64_t)(uintptr_t)text, 0}};
  CU_ASSERT(weft_str_is(weft_tstring_get(&view), text));
  weft_tstring_clear(&view); /* frees nothing */
  struct {
    weft_tstring_t s;
    char text[8];
  } both = {.s = {.words = {0, 0, 0}}, .text = "offset"};
  both.s.words[0] = (6u << 2 | 2) | (uint64_t)sizeof(weft_tstring_t) << 32;
  CU_ASSERT(weft_str_is(weft_tstring_get(&both.s), "offset"));
}

static weft_status_t *set_long(weft_tstring_t *s) {
  return weft_tstring_set(s, WEFT_STR("a text that is too long to lie inside"));
}

static void a_failed_set_leaves_the_old_text(void) {
  weft_tstring_t s = {.words = {0, 0, 0}};
  CU_ASSERT_PTR_NULL(weft_tstring_set(&s, WEFT_STR("old")));
  weft_fault_arm(0);
  weft_status_t *e = set_long(&s);
  weft_fault_arm(-1);
  CU_ASSERT_EQUAL(weft_status_code(e), WEFT_RESOURCE_EXHAUSTED);
  weft_status_free(e);
  CU_ASSERT(weft_str_is(weft_tstring_get(&s), "old"));
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s2, set_long(&s));
  CU_ASSERT(n >= 1);
  weft_tstring_clear(&s);
}

static const CU_TestInfo tests[] = {
    {"zero bytes are an empty string", zero_bytes_are_an_empty_string},
    {"text of every length comes back", text_of_every_length_comes_back},
    {"short text lies inside, as the C API expects", short_text_lies_inside_as_the_c_api_expects},
    {"views and offsets are read", views_and_offsets_are_read},
    {"a failed set leaves the old text", a_failed_set_leaves_the_old_text},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("tstring", tests); }
