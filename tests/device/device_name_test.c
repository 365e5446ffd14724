#include "device/device_name.h"

#include "tests/runner.h"

/* What each form is once parsed and printed; NULL: refused. Where TensorFlow's Python and C++ parsers differ
 * (the former drops empty parts and upper-cases types), this is the C++ one, which reads what comes off the
 * wire. */
static const struct {
  const char *text, *printed;
} forms[] = {
    {"", ""},
    {"/", ""},
    {"/job:worker", "/job:worker"},
    {"/job:worker/task:1/cpu:0", "/job:worker/task:1/device:CPU:0"},
    {"/cpu:0", "/device:CPU:0"},
    {"/CPU:0", "/device:CPU:0"},
    {"/gpu:1", "/device:GPU:1"},
    {"/GPU:*", "/device:GPU:*"},
    {"/device:cpu:0", "/device:cpu:0"},
    {"/device:GPU", "/device:GPU:*"},
    {"/device:GPU:*", "/device:GPU:*"},
    {"/job:*/replica:*/task:*/device:*:*", ""},
    {"/device:*", ""},
    {"/job:a/job:b", "/job:b"},
    {"/job:a/job:*", ""},
    {"/task:1/job:w", "/job:w/task:1"},
    {"/job:a/device:CPU:0/task:3", "/job:a/task:3/device:CPU:0"},
    {"/job:a/cpu:0/gpu:1", "/job:a/device:GPU:1"},
    {"/cpu:0/device:GPU", "/device:GPU:*"},
    {"/device:XLA_CPU:0", "/device:XLA_CPU:0"},
    {"/device:custom_dev:3", "/device:custom_dev:3"},
    {"/task:01", "/task:1"},
    {"/job:Worker_9", "/job:Worker_9"},
    {"/replica:0/task:2147483647", "/replica:0/task:2147483647"},
    {"/job:1a", NULL},
    {"/job:a-b", NULL},
    {"/job:", NULL},
    {"job:a", NULL},
    {"/job:a/", NULL},
    {"//job:a", NULL},
    {"/replica:x", NULL},
    {"/task:-1", NULL},
    {"/task:99999999999", NULL},
    {"/device:CPU:", NULL},
    {"/device:CPU:x", NULL},
    {"/device:9PU:0", NULL},
    {"/cpu", NULL},
    {"/tpu:0", NULL},
    {"CPU:0", NULL},
    {"/cpu:0/", NULL},
    {"/job:a /task:0", NULL},
};

static weft_device_name_t parse(const char *text) {
  weft_device_name_t n = {0};
  weft_status_t *s = weft_device_name_parse(weft_str(text), &n);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "");
  weft_status_free(s);
  return n;
}

static void every_form_is_read_as_tensorflow_does(void) {
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    weft_device_name_t n;
    weft_device_text_t text;
    weft_status_t *s = weft_device_name_parse(weft_str(forms[i].text), &n);
    if (forms[i].printed == NULL) {
      CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    } else {
      CU_ASSERT_PTR_NULL_FATAL(s);
      CU_ASSERT_STRING_EQUAL(weft_device_name_print(&n, &text), forms[i].printed);
    }
    weft_status_free(s);
  }
}

static void refusals_quote_the_text(void) {
  weft_device_name_t n;
  weft_status_t *s = weft_device_name_parse(WEFT_STR("/tpu:0"), &n);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "Malformed device specification '/tpu:0'");
  weft_status_free(s);
}

static void long_names_are_refused(void) {
  char text[1024] = "/job:";
  memset(text + 5, 'a', 257);
  weft_device_name_t n;
  weft_status_t *s = weft_device_name_parse(weft_str(text), &n);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  text[5 + 256] = '\0';
  n = parse(text);
  weft_device_text_t printed;
  CU_ASSERT_STRING_EQUAL(weft_device_name_print(&n, &printed), text);
}

static void matching_asks_for_every_part_of_the_pattern(void) {
  static const struct {
    const char *pattern, *full;
    bool matches, intersects;
  } cases[] = {
      {"", "/job:a/replica:0/task:0/device:CPU:0", true, true},
      {"/job:a", "/job:a/replica:0/task:0/device:CPU:0", true, true},
      {"/job:b", "/job:a/replica:0/task:0/device:CPU:0", false, false},
      {"/cpu:*", "/job:a/replica:0/task:0/device:CPU:1", true, true},
      {"/cpu:0", "/job:a/replica:0/task:0/device:CPU:1", false, false},
      {"/device:GPU", "/job:a/replica:0/task:0/device:CPU:1", false, false},
      {"/job:a/task:1", "/job:a", false, true},
      {"/task:1", "/job:a/task:2", false, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_device_name_t p = parse(cases[i].pattern), f = parse(cases[i].full);
    CU_ASSERT_EQUAL(weft_device_name_matches(&p, &f), cases[i].matches);
    CU_ASSERT_EQUAL(weft_device_name_intersects(&p, &f), cases[i].intersects);
  }
}

static void merging_fills_what_is_open(void) {
  static const struct {
    const char *a, *b, *hard, *soft; /* NULL: refused */
  } cases[] = {
      {"", "/job:a/task:1", "/job:a/task:1", "/job:a/task:1"},
      {"/job:a", "/task:1/cpu:0", "/job:a/task:1/device:CPU:0", "/job:a/task:1/device:CPU:0"},
      {"/job:a", "/job:b", NULL, NULL},
      {"/replica:0", "/replica:1", NULL, NULL},
      {"/task:0", "/task:1", NULL, NULL},
      {"/cpu:0", "/gpu:0", NULL, ""},
      {"/job:a/cpu:0", "/task:1/gpu:*", NULL, "/job:a/task:1"},
      {"/cpu:0", "/cpu:1", NULL, "/device:CPU:*"},
      {"/cpu:*", "/cpu:1", "/device:CPU:1", "/device:CPU:1"},
      {"/cpu:0", "/cpu:*", "/device:CPU:0", "/device:CPU:0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int soft = 0; soft < 2; soft++) {
      const char *want = soft ? cases[i].soft : cases[i].hard;
      weft_device_name_t a = parse(cases[i].a), b = parse(cases[i].b);
      weft_device_text_t text;
      weft_status_t *s = weft_device_name_merge(&a, &b, soft);
      CU_ASSERT_EQUAL(weft_status_code(s), want == NULL ? WEFT_INVALID_ARGUMENT : WEFT_OK);
      CU_ASSERT_STRING_EQUAL(weft_device_name_print(&a, &text), want == NULL ? text.text : want);
      weft_status_free(s);
    }
  }
}

static void tasks_are_compared_whole(void) {
  weft_device_name_t a = parse("/job:a/replica:0/task:1/cpu:0"), b = parse("/job:a/replica:0/task:1/gpu:3"),
                     c = parse("/job:a/replica:0/task:2/cpu:0"), d = parse("/job:a/task:1/cpu:0");
  CU_ASSERT_TRUE(weft_device_name_same_task(&a, &b));
  CU_ASSERT_FALSE(weft_device_name_same_task(&a, &c));
  CU_ASSERT_FALSE(weft_device_name_same_task(&d, &d));
  CU_ASSERT_TRUE(weft_device_name_is_full(&a));
  CU_ASSERT_FALSE(weft_device_name_is_full(&d));
  weft_str_t full = WEFT_STR("/job:a/replica:0/task:1/device:CPU:0");
  CU_ASSERT_TRUE(weft_str_is(weft_device_task_part(full), "/job:a/replica:0/task:1"));
  CU_ASSERT_TRUE(weft_str_is(weft_device_task_part(WEFT_STR("/job:a")), "/job:a"));
}

static const CU_TestInfo tests[] = {
    {"every form is read as TensorFlow does", every_form_is_read_as_tensorflow_does},
    {"refusals quote the text", refusals_quote_the_text},
    {"long names are refused", long_names_are_refused},
    {"matching asks for every part of the pattern", matching_asks_for_every_part_of_the_pattern},
    {"merging fills what is open", merging_fills_what_is_open},
    {"tasks are compared whole", tasks_are_compared_whole},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device name", tests); }
