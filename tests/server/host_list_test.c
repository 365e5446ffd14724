/* Slurm's lists: what `scontrol show hostnames` writes for them, and what is refused. */
#include "server/host_list.h"

#include <stdio.h>

#include "base/alloc.h"
#include "tests/runner.h"

/* The names of a list with spaces between them. */
static void expands(const char *text, const char *expected) {
  weft_host_list_t l;
  weft_strbuf_t got = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_host_list_parse(weft_str(text), &l);
  if (s != NULL) printf("\n    %s: %s\n", text, weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < l.num_names; i++) {
    if (i > 0) weft_strbuf_putc(&got, ' ');
    weft_strbuf_append(&got, l.names[i]);
  }
  CU_ASSERT_STRING_EQUAL(got.data, expected);
  if (strcmp(got.data, expected) != 0) printf("\n    %s: %s\n", text, got.data);
  weft_strbuf_deinit(&got);
  weft_host_list_deinit(&l);
}

static void lists_of_nodes_are_expanded_in_order(void) {
  expands("n1", "n1");
  expands("b,a,c", "b a c");
  expands("n[1-3]", "n1 n2 n3");
  expands("n[1-2],m5,o[3-4,6,7-9]", "n1 n2 m5 o3 o4 o6 o7 o8 o9");
  expands("n[3,1]", "n3 n1");
  expands("n[5]", "n5");
  expands("n[5-5]", "n5");
  expands("[1-2]", "1 2");
  expands("rack-a.[1-2].example_x.org", "rack-a.1.example_x.org rack-a.2.example_x.org");
  expands("n[1-2]-ib", "n1-ib n2-ib");
}

static void numbers_keep_their_width(void) {
  expands("n[08-11]", "n08 n09 n10 n11");
  expands("n[8-11]", "n8 n9 n10 n11");
  expands("n[098-101,7,07]", "n098 n099 n100 n101 n7 n07");
  expands("n[000-001]", "n000 n001");
  expands("n[9-010]", "n9 n10");
  expands("n[999999999999999998-999999999999999999]", "n999999999999999998 n999999999999999999");
}

static void the_last_bracket_varies_first(void) {
  expands("r[0-1]n[1-2]", "r0n1 r0n2 r1n1 r1n2");
  expands("r[0-1]n[1,3-4]x[0-1],z",
          "r0n1x0 r0n1x1 r0n3x0 r0n3x1 r0n4x0 r0n4x1 r1n1x0 r1n1x1 r1n3x0 r1n3x1 "
          "r1n4x0 r1n4x1 z");
}

static void refused(weft_status_t *s, const char *text, const char *why) {
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  bool is_named = strstr(weft_status_message(s), why) != NULL;
  CU_ASSERT_TRUE(is_named);
  if (!is_named) printf("\n    %s: %s\n", text, weft_status_message(s));
  weft_status_free(s);
}

static void broken_lists_are_refused(void) {
  static const struct {
    const char *text, *why;
  } cases[] = {
      {"", "empty"},
      {",", "empty"},
      {"a,", "empty"},
      {",a", "empty"},
      {"a,,b", "empty"},
      {"n[", "not closed"},
      {"n[1", "not closed"},
      {"n[1-2", "not closed"},
      {"n1-2]", "letters"},
      {"n]", "letters"},
      {"n[]", "ranges"},
      {"n[,]", "ranges"},
      {"n[1,]", "ranges"},
      {"n[1,,2]", "ranges"},
      {"n[-]", "ranges"},
      {"n[1-]", "ranges"},
      {"n[-1]", "ranges"},
      {"n[2-1]", "ranges"},
      {"n[1-2-3]", "ranges"},
      {"n[a-b]", "ranges"},
      {"n[1 -2]", "ranges"},
      {"n[0x1]", "ranges"},
      {"n[+1]", "ranges"},
      {"n[[1]]", "ranges"},
      {"n[1000000000000000000]", "ranges"},
      {"n[99999999999999999999]", "ranges"},
      {"a b", "letters"},
      {"a;b", "letters"},
      {"a/b", "letters"},
      {"a:1", "letters"},
      {"n[1-2]:1", "letters"},
      {"\xc3\xa4", "letters"},
      {"n[0-99999],m", "more than 100000"},
      {"n[0-999999999999999999]", "more than 100000"},
      {"n[0-999]m[0-999]", "more than 100000"},
      {"n[1][1][1][1][1][1][1][1][1]", "too many brackets"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_host_list_t l;
    refused(weft_host_list_parse(weft_str(cases[i].text), &l), cases[i].text, cases[i].why);
  }
}

static void names_have_an_end(void) {
  char text[WEFT_MAX_HOST_NAME + 8];
  weft_host_list_t l;
  memset(text, 'n', sizeof text);
  weft_status_t *s = weft_host_list_parse(weft_str_of(text, WEFT_MAX_HOST_NAME), &l);
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_EQUAL(l.names[0].length, WEFT_MAX_HOST_NAME);
  weft_host_list_deinit(&l);
  refused(weft_host_list_parse(weft_str_of(text, WEFT_MAX_HOST_NAME + 1), &l), "long", "too long");
  memcpy(text + WEFT_MAX_HOST_NAME - 1, "[10]", 4);
  refused(weft_host_list_parse(weft_str_of(text, WEFT_MAX_HOST_NAME + 3), &l), "long", "too long");
}

static void as_many_as_allowed_are_taken(void) {
  weft_host_list_t l;
  weft_status_t *s = weft_host_list_parse(WEFT_STR("n[0-99999]"), &l);
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_EQUAL(l.num_names, WEFT_MAX_HOSTS);
  CU_ASSERT_TRUE(weft_str_is(l.names[WEFT_MAX_HOSTS - 1], "n99999"));
  weft_host_list_deinit(&l);
}

static void counts_are(const char *text, const char *expected) {
  weft_strbuf_t got = WEFT_STRBUF_INIT;
  int *counts = NULL, num = 0;
  weft_status_t *s = weft_task_counts_parse(weft_str(text), &counts, &num);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int i = 0; i < num; i++) weft_strbuf_printf(&got, "%s%d", i > 0 ? " " : "", counts[i]);
  CU_ASSERT_STRING_EQUAL(got.data, expected);
  weft_strbuf_deinit(&got);
  weft_free(counts);
}

static void counts_of_tasks_are_repeated(void) {
  counts_are("1", "1");
  counts_are("2(x3),1", "2 2 2 1");
  counts_are("3(x2),2,1", "3 3 2 1");
  counts_are("4,2(x1),16(x2)", "4 2 16 16");
}

static void broken_counts_are_refused(void) {
  static const char *const texts[] = {"",     ",",      "1,",     ",1",     "x",      "-1",    "0",
                                      "1(",   "1()",    "1(x)",   "1(x0)",  "1(x2",   "1(2)",  "1x2",
                                      "(x2)", "1(x2)3", "1(x-1)", "1 (x2)", "100001", "1(x2),"};
  int *counts = NULL, num = 0;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    refused(weft_task_counts_parse(weft_str(texts[i]), &counts, &num), texts[i], "2(x3),1");
  refused(weft_task_counts_parse(WEFT_STR("1(x100001)"), &counts, &num), "", "more than 100000");
  refused(weft_task_counts_parse(WEFT_STR("1(x100000),1"), &counts, &num), "", "more than 100000");
  refused(weft_task_counts_parse(WEFT_STR("1(x18446744073709551615)"), &counts, &num), "",
          "more than 100000");
  refused(weft_task_counts_parse(WEFT_STR("1(x18446744073709551616)"), &counts, &num), "", "2(x3),1");
}

static weft_status_t *parse_and_drop(void) {
  weft_host_list_t l;
  int *counts = NULL, num = 0;
  WEFT_RETURN_IF_ERROR(weft_host_list_parse(WEFT_STR("n[1-40],m"), &l));
  weft_host_list_deinit(&l);
  WEFT_RETURN_IF_ERROR(weft_task_counts_parse(WEFT_STR("2(x3),1"), &counts, &num));
  weft_free(counts);
  return NULL;
}

static void no_allocation_failure_is_lost(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, parse_and_drop());
  CU_ASSERT_TRUE(n >= 5);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"lists_of_nodes_are_expanded_in_order", lists_of_nodes_are_expanded_in_order},
      {"numbers_keep_their_width", numbers_keep_their_width},
      {"the_last_bracket_varies_first", the_last_bracket_varies_first},
      {"broken_lists_are_refused", broken_lists_are_refused},
      {"names_have_an_end", names_have_an_end},
      {"as_many_as_allowed_are_taken", as_many_as_allowed_are_taken},
      {"counts_of_tasks_are_repeated", counts_of_tasks_are_repeated},
      {"broken_counts_are_refused", broken_counts_are_refused},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("host_list", tests);
}
