#include "base/str.h"

#include "tests/runner.h"

static void views_compare_by_bytes(void) {
  CU_ASSERT_TRUE(weft_str_is(weft_str_of("abcd", 3), "abc"));
  CU_ASSERT_FALSE(weft_str_eq(WEFT_STR("ab"), WEFT_STR("abc")));
  CU_ASSERT_TRUE(weft_str_eq((weft_str_t){NULL, 0}, WEFT_STR("")));
  CU_ASSERT_TRUE(weft_str_compare(WEFT_STR("a"), WEFT_STR("ab")) < 0);
  CU_ASSERT_TRUE(weft_str_compare(WEFT_STR("b"), WEFT_STR("ab")) > 0);
  CU_ASSERT_TRUE(weft_str_compare(WEFT_STR("\xff"), WEFT_STR("a")) > 0);
  CU_ASSERT_EQUAL(weft_str_compare(WEFT_STR(""), (weft_str_t){NULL, 0}), 0);
  CU_ASSERT_TRUE(weft_str_starts_with(WEFT_STR("abc"), "ab"));
  CU_ASSERT_FALSE(weft_str_starts_with(WEFT_STR("a"), "ab"));
  CU_ASSERT_TRUE(weft_str_ends_with(WEFT_STR("abc"), "bc"));
  CU_ASSERT_FALSE(weft_str_ends_with(WEFT_STR("c"), "bc"));
  CU_ASSERT_EQUAL(weft_str_find(WEFT_STR("a:b:c"), ':'), 1);
  CU_ASSERT_EQUAL(weft_str_rfind(WEFT_STR("a:b:c"), ':'), 3);
  CU_ASSERT_EQUAL(weft_str_find(WEFT_STR(""), ':'), -1);
  CU_ASSERT_EQUAL(weft_str_rfind(WEFT_STR("abc"), ':'), -1);
}

static void numbers_are_read_whole_or_not_at_all(void) {
  static const struct {
    const char *text;
    bool ok;
    int64_t value;
  } cases[] = {
      {"0", true, 0},
      {"-1", true, -1},
      {"9223372036854775807", true, INT64_MAX},
      {"-9223372036854775808", true, INT64_MIN},
      {"9223372036854775808", false, 0},
      {"", false, 0},
      {"-", false, 0},
      {"1x", false, 0},
      {" 1", false, 0},
      {"1 ", false, 0},
      {"0x1", false, 0},
      {"99999999999999999999", false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t v = 77;
    CU_ASSERT_EQUAL(weft_str_to_i64(weft_str(cases[i].text), &v), cases[i].ok);
    CU_ASSERT_EQUAL(v, cases[i].ok ? cases[i].value : 77);
  }
  uint64_t u = 77;
  CU_ASSERT_TRUE(weft_str_to_u64(WEFT_STR("18446744073709551615"), &u));
  CU_ASSERT_EQUAL(u, UINT64_MAX);
  CU_ASSERT_FALSE(weft_str_to_u64(WEFT_STR("18446744073709551616"), &u));
  CU_ASSERT_FALSE(weft_str_to_u64(WEFT_STR("-1"), &u));
}

static void splits_at_the_first(void) {
  weft_str_t head, tail;
  CU_ASSERT_TRUE(weft_str_split(WEFT_STR("a=b=c"), '=', &head, &tail));
  CU_ASSERT_TRUE(weft_str_is(head, "a") && weft_str_is(tail, "b=c"));
  CU_ASSERT_TRUE(weft_str_split(WEFT_STR("="), '=', &head, &tail));
  CU_ASSERT_TRUE(head.length == 0 && tail.length == 0);
  CU_ASSERT_FALSE(weft_str_split(WEFT_STR("abc"), '=', &head, &tail));
}

static void splitting_may_overwrite_its_source(void) {
  weft_str_t rest = WEFT_STR("a;b;c"), part;
  CU_ASSERT_TRUE(weft_str_split(rest, ';', &part, &rest));
  CU_ASSERT_TRUE(weft_str_split(rest, ';', &part, &rest));
  CU_ASSERT_TRUE(weft_str_is(part, "b") && weft_str_is(rest, "c"));
}

static void builders_grow(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  for (int i = 0; i < 1000; i++) weft_strbuf_printf(&b, "%d,", i);
  weft_strbuf_puts(&b, "end");
  weft_strbuf_putc(&b, '!');
  weft_strbuf_append(&b, weft_str_of("\0x", 2));
  CU_ASSERT_FALSE(b.failed);
  CU_ASSERT_EQUAL(b.length, 10 * 2 + 90 * 3 + 900 * 4 + 4 + 2);
  char *text = NULL;
  size_t length = 0;
  CU_ASSERT_PTR_NULL(weft_strbuf_finish(&b, &text, &length));
  CU_ASSERT_EQUAL(length, 3896);
  CU_ASSERT_EQUAL(text[length], '\0');
  CU_ASSERT_EQUAL(strncmp(text, "0,1,2,", 6), 0);
  CU_ASSERT_EQUAL(b.length, 0);
  weft_free(text);
  weft_strbuf_deinit(&b);
}

static void escapes_are_those_of_a_c_string(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_put_escaped(&b, weft_str_of("a\"b'\\\n\r\t\0\x7f\xe2z", 12));
  weft_strbuf_putc(&b, '\0');
  CU_ASSERT_STRING_EQUAL(b.data, "a\\\"b\\'\\\\\\n\\r\\t\\000\\177\\342z");
  weft_strbuf_deinit(&b);
}

static void an_empty_builder_finishes_as_empty_text(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  char *text = NULL;
  size_t length = 1;
  CU_ASSERT_PTR_NULL(weft_strbuf_finish(&b, &text, &length));
  CU_ASSERT_STRING_EQUAL(text, "");
  CU_ASSERT_EQUAL(length, 0);
  weft_free(text);
  weft_strbuf_deinit(&b);
}

static weft_status_t *build(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  char *text = NULL;
  size_t length = 0;
  for (int i = 0; i < 100; i++) weft_strbuf_printf(&b, "%d,", i);
  weft_status_t *s = weft_strbuf_finish(&b, &text, &length);
  weft_free(text);
  weft_strbuf_deinit(&b);
  return s;
}

static void names_have_tensorflows_numbers(void) {
  CU_ASSERT_EQUAL(weft_str_hash64(WEFT_STR("N10tensorflow3VarE")), 17454915466513971685u);
  CU_ASSERT_EQUAL(weft_str_hash64(WEFT_STR("N10tensorflow5StackE")), 11783358439878174618u);
}

static void every_failing_allocation_is_remembered(void) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, build());
  CU_ASSERT_TRUE(n >= 2);
}

static const CU_TestInfo tests[] = {
    {"views compare by bytes", views_compare_by_bytes},
    {"numbers are read whole or not at all", numbers_are_read_whole_or_not_at_all},
    {"splits at the first", splits_at_the_first},
    {"splitting may overwrite its source", splitting_may_overwrite_its_source},
    {"builders grow", builders_grow},
    {"escapes are those of a C string", escapes_are_those_of_a_c_string},
    {"an empty builder finishes as empty text", an_empty_builder_finishes_as_empty_text},
    {"names have TensorFlow's numbers", names_have_tensorflows_numbers},
    {"every failing allocation is remembered", every_failing_allocation_is_remembered},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("str", tests); }
