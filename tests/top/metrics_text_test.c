/* tests/top/metrics_text_test.c - Prometheus's text, as it is written and as it is not. */
#include "tools/top/metrics_text.h"

#include <math.h>
#include <stdio.h>

#include "tests/runner.h"

/* Each sample as "name{label=value,...} number;", one behind the other. */
static void print_sample(void *arg, const weft_metrics_sample_t *s) {
  weft_strbuf_t *out = arg;
  weft_strbuf_append(out, s->name);
  for (int i = 0; i < s->num_labels; i++) {
    weft_strbuf_printf(out, "%s%s=%.*s", i == 0 ? "{" : ",", s->label_names[i],
                       WEFT_STR_ARGS(s->label_values[i]));
  }
  weft_strbuf_printf(out, "%s %g;", s->num_labels > 0 ? "}" : "", s->value);
}

static void reads_as(const char *text, size_t length, const char *wanted) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_metrics_text_read(weft_str_of(text, length), print_sample, &out);
  CU_ASSERT_PTR_NULL(s);
  if (s != NULL) fprintf(stderr, "%s\n", weft_status_message(s));
  weft_status_free(s);
  CU_ASSERT_STRING_EQUAL(out.data == NULL ? "" : out.data, wanted);
  weft_strbuf_deinit(&out);
}
#define READS_AS(text, wanted) reads_as(text, sizeof(text) - 1, wanted)

static void samples_are_read(void) {
  READS_AS("", "");
  READS_AS("\n\n", "");
  READS_AS("# HELP a b\n# TYPE a counter\na 1\n", "a 1;");
  READS_AS("a 1\nb 2.5", "a 1;b 2.5;");
  READS_AS("a{} 1\n", "a 1;");
  READS_AS("a{b=\"c\"} -1e3\n", "a{b=c} -1000;");
  READS_AS("a{b=\"c\",d=\"e f\"} 1\n", "a{b=c,d=e f} 1;");
  READS_AS("a{b=\"c\",} 1\n", "a{b=c} 1;");
  READS_AS(" a { b = \"c\" , d = \"\" } 1 1234567\n", "a{b=c,d=} 1;");
  READS_AS("a_b:c9\t7\t\n", "a_b:c9 7;");
  READS_AS("a{le=\"+Inf\"} +Inf\nb -Inf\n", "a{le=+Inf} inf;b -inf;");
  READS_AS("a NaN\n", "a nan;");
}

static void escapes_are_undone(void) {
  READS_AS("a{b=\"\\\\\\\"\\n}=, \"} 1\n", "a{b=\\\"\n}=, } 1;");
  READS_AS("a{b=\"\\\\n\"} 1\n", "a{b=\\n} 1;");
}

/* What base/metrics.h writes is read back, whatever the labels have. */
static void what_is_written_is_read_back(void) {
  static const char *const values[] = {"", "plain", "\\", "\"", "\n", "\\n\"{}=,#", "\x01\x7f\xff"};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT, wanted = WEFT_STRBUF_INIT;
    const weft_metric_label_t labels[] = {{"task", weft_str(values[i])}, {"b", WEFT_STR("c")}};
    weft_metrics_family(&text, "x_total", "counter", "Any.");
    weft_metrics_int(&text, "x_total", labels, 2, 42);
    weft_metrics_seconds(&text, "y", labels, 1, 1500000000);
    weft_strbuf_printf(&wanted, "x_total{task=%s,b=c} 42;y{task=%s} 1.5;", values[i], values[i]);
    reads_as(text.data, text.length, wanted.data);
    weft_strbuf_deinit(&text);
    weft_strbuf_deinit(&wanted);
  }
}

static void other_lines_are_refused_with_their_number(void) {
  static const char many_labels[] =
      "a{a=\"\",b=\"\",c=\"\",d=\"\",e=\"\",f=\"\",g=\"\",h=\"\",i=\"\",j=\"\",k=\"\",l=\"\",m=\"\",n=\"\","
      "o=\"\",p=\"\",q=\"\"} 1";
  static const char *const lines[] = {
      "a",
      "a{",
      "a{b",
      "a{b=",
      "a{b=c} 1",
      "a{b=\"c} 1",
      "a{b=\"c\\",
      "a{b=\"c\\x\"} 1",
      "a{b=\"c\" d=\"e\"} 1",
      "a{=\"c\"} 1",
      "9a 1",
      "{a=\"b\"} 1",
      "a x",
      "a 1x",
      "a 1 x",
      "a 1 2 3",
      "a 1 2 #",
      "-a 1",
      "a{b=\"c\"}",
      "a 0000000000000000000000000000000000000000000000000000000000000000000000000",
      "a,b 1",
      "\xc3\xa9 1",
      many_labels};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    weft_strbuf_t out = WEFT_STRBUF_INIT, text = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&text, "# a comment\nfirst 1\n%s\nlast 2\n", lines[i]);
    weft_status_t *s = weft_metrics_text_read(weft_str_of(text.data, text.length), print_sample, &out);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(s == NULL ? NULL : strstr(weft_status_message(s), "line 3 "));
    if (s == NULL) fprintf(stderr, "read: %s\n", lines[i]);
    CU_ASSERT_STRING_EQUAL(out.data, "first 1;");
    weft_status_free(s);
    weft_strbuf_deinit(&out);
    weft_strbuf_deinit(&text);
  }
}

static void a_zero_byte_is_no_number(void) {
  static const char text[] = "a 1\0\nb 2\n";
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_metrics_text_read(weft_str_of(text, sizeof text - 1), print_sample, &out);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_strbuf_deinit(&out);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"samples are read", samples_are_read},
      {"escapes are undone", escapes_are_undone},
      {"what is written is read back", what_is_written_is_read_back},
      {"other lines are refused with their number", other_lines_are_refused_with_their_number},
      {"a zero byte is no number", a_zero_byte_is_no_number},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("text of metrics", tests);
}
