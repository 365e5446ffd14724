/* tests/kernels/re2_syntax_test.c - patterns of RE2 as they are written for PCRE2, and what is refused. What
 * they match is compared with TensorFlow by tests/conformance. */
#include "kernels/cpu/io/re2_syntax.h"

#include <stdio.h>
#include <string.h>

#include "tests/runner.h"

static void patterns_are_written_as_numbers_ranges_and_anchors(void) {
  static const char *const rows[][2] = {
      {"", ""},
      {"ab1", "ab1"},
      {"-\\.\\x41\\x{e9}\\101\\v", "\\x{2d}\\x{2e}A\\x{e9}A\\x{b}"},
      {"a{,3}{01}", "a\\x{7b}\\x{2c}3\\x{7d}\\x{7b}01\\x{7d}"},
      {"[\\w-.]", "[0-9A-Z_a-z\\x{2d}\\x{2e}]"},
      {"[[.a.]]", "[\\x{5b}\\x{2e}a\\x{2e}]\\x{5d}"},
      {"[^]a-c[:digit:][:^alpha:]]", "[^\\x{5d}a-c0-9[:^alpha:]]"},
      {"\\s\\S", "[\\t\\n\\f\\r\\x20][^\\t\\n\\f\\r\\x20]"},
      {"\\pL\\p{^Greek}", "\\p{L}\\P{sc:Greek}"},
      {"(?i)\\p{Lu}", "(?i)\\p{L&}"},
      {"^a$", "(?:^)a(?:$)"},
      {"(?m)^$\\z", "(?:(?m:^))(?:(?m:$))(?:$)"},
      {"(?s).(?-s).", "(?s:.)."},
      {"(?U)a*b*?", "a*?b*"},
      {"a(?i)*b", "a*(?i)b"},
      {"a*(?i)+", "(?:a*)+"},
      {"((?i)a)b|c", "((?i)a)b|c"},
      {"(?P<n>a)(?:b)(c)", "(a)(?:b)(c)"},
      {"\\Qa.\\E*", "a\\x{2e}*"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    weft_status_t *s = weft_re2_translate(weft_str(rows[i][0]), &out);
    CU_ASSERT_PTR_NULL(s);
    const bool is_right = weft_str_is(weft_str_of(out.data, out.length), rows[i][1]);
    CU_ASSERT_TRUE(is_right);
    if (!is_right) printf("%s becomes %.*s\n", rows[i][0], (int)out.length, out.data == NULL ? "" : out.data);
    weft_status_free(s);
    weft_strbuf_deinit(&out);
  }
}

static void refused_patterns_are_named_in_the_words_of_re2(void) {
  static const char *const rows[][2] = {
      {"(a", "missing ): (a"},
      {"a)", "unexpected ): a)"},
      {"a**", "bad repetition operator: **"},
      {"|*", "no argument for repetition operator: *"},
      {"(a{2}){600}?", "invalid repetition size: {600}?"},
      {"[b-a]", "invalid character class range: b-a"},
      {"x[a", "missing ]: [a"},
      {"\\p{Grek}", "invalid character class range: \\p{Grek}"},
      {"(?P<a b>c)", "invalid named capture group: (?P<a b>"},
      {"(?=a)", "invalid perl operator: (?="},
      {"\\1", "invalid escape sequence: \\1"},
      {"a\\", "trailing \\"},
      {"\xc3(", "invalid UTF-8"},
      {"\xf4\x90\x80\x80", "invalid UTF-8"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    weft_status_t *s = weft_re2_translate(weft_str(rows[i][0]), &out);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    const char *said = strstr(weft_status_message(s), ", error: ");
    CU_ASSERT_STRING_EQUAL(said == NULL ? "" : said + strlen(", error: "), rows[i][1]);
    weft_status_free(s);
    weft_strbuf_deinit(&out);
  }
}

static void groups_nest_a_thousand_deep(void) {
  enum { DEEP = 1000 };
  char pattern[DEEP + 2];
  memset(pattern, '(', sizeof pattern);
  for (int n = DEEP; n <= DEEP + 1; n++) {
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    weft_status_t *s = weft_re2_translate(weft_str_of(pattern, (size_t)n), &out);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), n == DEEP ? "missing )" : "nests too deeply"));
    weft_status_free(s);
    weft_strbuf_deinit(&out);
  }
}

static weft_status_t *translate_once(void) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_status_t *s =
      weft_re2_translate(weft_str("a*(?i)+[[:alpha:]]{3}(?:bcdefghijklmnopq-----------)|."), &out);
  if (s == NULL && out.failed) s = WEFT_NO_MEMORY("translating");
  weft_strbuf_deinit(&out);
  return s;
}

static void lack_of_memory_is_reported(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, translate_once());
  CU_ASSERT_TRUE(n > 0);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"patterns are written as numbers, ranges and anchors",
       patterns_are_written_as_numbers_ranges_and_anchors},
      {"refused patterns are named in the words of RE2", refused_patterns_are_named_in_the_words_of_re2},
      {"groups nest a thousand deep", groups_nest_a_thousand_deep},
      {"lack of memory is reported", lack_of_memory_is_reported},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("RE2 syntax", tests);
}
