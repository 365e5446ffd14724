/* tests/tools/drawing/text_test.c - labels are as wide as they may be, and bytes from outside do no harm. */
#include "tools/drawing/text.h"

#include <stdlib.h>

#include "tests/runner.h"

static bool gives(weft_str_t text, int width, const char *wanted, const char *wanted_middle) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  const bool ok = weft_str_is(weft_text_fit(&arena, text, 10, false, width), wanted) &&
                  weft_str_is(weft_text_fit_middle(&arena, text, 10, false, width), wanted_middle);
  weft_arena_deinit(&arena);
  return ok;
}

static void what_is_too_wide_is_cut(void) {
  CU_ASSERT_TRUE(gives(WEFT_STR("mmmm"), 100, "mmmm", "mmmm"));
  CU_ASSERT_TRUE(gives(WEFT_STR("mmmmmmmm"), 50, "mmmm\xe2\x80\xa6", "mm\xe2\x80\xa6mm"));
  CU_ASSERT_TRUE(gives(WEFT_STR("mmmm"), 5, "", ""));
  CU_ASSERT_TRUE(gives(WEFT_STR(""), 0, "", ""));
  CU_ASSERT_TRUE(weft_text_width(WEFT_STR("WWW"), 12, true) > weft_text_width(WEFT_STR("iii"), 12, false));
}

/* Of any bytes, at any width: what is kept fits, and is text. */
static void any_bytes_are_made_text(void) {
  srand(7);
  for (int i = 0; i < 20000; i++) {
    char bytes[40];
    const size_t n = (size_t)rand() % sizeof bytes;
    for (size_t k = 0; k < n; k++)
      bytes[k] = (char)(rand() % 4 == 0 ? rand() : "<>&\"'\\ab\xc3\xa9\xe2\x80\xa6"[rand() % 13]);
    const weft_str_t text = weft_str_of(bytes, n);
    weft_arena_t arena = WEFT_ARENA_INIT;
    weft_strbuf_t xml = WEFT_STRBUF_INIT, json = WEFT_STRBUF_INIT;
    const int width = rand() % 200;
    const weft_str_t cut = weft_text_fit(&arena, text, 11, false, width),
                     middle = weft_text_fit_middle(&arena, text, 11, true, width);
    CU_ASSERT_TRUE(weft_text_width(cut, 11, false) <= width + 0.01);
    CU_ASSERT_TRUE(weft_text_width(middle, 11, true) <= width + 0.01);
    weft_text_put_xml(&xml, cut);
    weft_text_put_json(&json, text);
    for (size_t k = 0; k < xml.length; k++)
      CU_ASSERT_TRUE((unsigned char)xml.data[k] >= ' ' && xml.data[k] != '<' && xml.data[k] != '>' &&
                     xml.data[k] != '"');
    for (size_t k = 1; k + 1 < json.length; k++) {
      CU_ASSERT_TRUE((unsigned char)json.data[k] >= ' ' && json.data[k] != '<' && json.data[k] != '>');
      if (json.data[k] == '"') CU_ASSERT_EQUAL(json.data[k - 1], '\\');
    }
    weft_strbuf_deinit(&xml);
    weft_strbuf_deinit(&json);
    weft_arena_deinit(&arena);
  }
}

static void markup_is_escaped(void) {
  weft_strbuf_t xml = WEFT_STRBUF_INIT, json = WEFT_STRBUF_INIT;
  weft_text_put_xml(&xml, WEFT_STR("a<b>&\"c\"'\x01\xff"));
  weft_text_put_json(&json, WEFT_STR("</script>\"\\\n\xc3\xa9"));
  CU_ASSERT_TRUE(weft_str_eq(weft_str_of(xml.data, xml.length),
                             WEFT_STR("a&lt;b&gt;&amp;&quot;c&quot;&#39;\xef\xbf\xbd\xef\xbf\xbd")));
  CU_ASSERT_TRUE(weft_str_eq(weft_str_of(json.data, json.length),
                             WEFT_STR("\"\\u003c/script\\u003e\\\"\\\\\xef\xbf\xbd\xc3\xa9\"")));
  weft_strbuf_deinit(&xml);
  weft_strbuf_deinit(&json);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"what is too wide is cut", what_is_too_wide_is_cut},
      {"any bytes are made text", any_bytes_are_made_text},
      {"markup is escaped", markup_is_escaped},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("tools/drawing/text", tests);
}
