/* Members that come together, and runs that fail before they do. */
#include "collectives/meetings.h"

#include <stdio.h>

#include "base/alloc.h"
#include "tests/runner.h"

static int num_left;
static void left(void *member, weft_status_t *why) {
  (void)member;
  num_left++;
  weft_status_free(why);
}

static weft_meetings_t *fresh(void) {
  weft_meetings_t *m = NULL;
  num_left = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_meetings_create(left, &m));
  return m;
}

/* The code with which a member of two comes to the meeting; *out_full: it was the last one. */
static weft_code_t come(weft_meetings_t *m, int64_t step, const char *name, int rank, bool *out_full) {
  static int member;
  void **all = NULL;
  weft_status_t *s = weft_meetings_come(m, step, weft_str(name), 2, rank, &member, &all);
  const weft_code_t code = weft_status_code(s);
  if (out_full != NULL) *out_full = all != NULL;
  weft_free(all);
  weft_status_free(s);
  return code;
}

static void fail(weft_meetings_t *m, int64_t step, const char *run) {
  weft_status_t *why = WEFT_ERROR(ABORTED, "%s has failed", run);
  weft_meetings_fail(m, step, weft_str(run), why);
  weft_status_free(why);
}

static void the_last_member_takes_all(void) {
  weft_meetings_t *m = fresh();
  bool is_full;
  CU_ASSERT_EQUAL(come(m, 1, "run/0", 0, &is_full), WEFT_OK);
  CU_ASSERT_FALSE(is_full);
  CU_ASSERT_EQUAL(come(m, 2, "run/0", 0, &is_full), WEFT_OK); /* another step */
  CU_ASSERT_FALSE(is_full);
  CU_ASSERT_EQUAL(come(m, 1, "run/0", 0, NULL), WEFT_INTERNAL);
  CU_ASSERT_EQUAL(come(m, 1, "run/0", 1, &is_full), WEFT_OK);
  CU_ASSERT_TRUE(is_full);
  weft_meetings_destroy(m);
}

static void a_failure_is_for_those_there_and_those_to_come(void) {
  weft_meetings_t *m = fresh();
  CU_ASSERT_EQUAL(come(m, 1, "run/0", 0, NULL), WEFT_OK);
  CU_ASSERT_EQUAL(come(m, 1, "runner/0", 0, NULL), WEFT_OK);
  fail(m, 1, "run");
  CU_ASSERT_EQUAL(num_left, 1);
  CU_ASSERT_EQUAL(come(m, 1, "run/0", 1, NULL), WEFT_ABORTED);
  CU_ASSERT_EQUAL(come(m, 1, "run/1", 1, NULL), WEFT_ABORTED);
  CU_ASSERT_EQUAL(come(m, 1, "run", 1, NULL), WEFT_ABORTED);
  CU_ASSERT_EQUAL(come(m, 2, "run/0", 1, NULL), WEFT_OK);
  CU_ASSERT_EQUAL(come(m, 1, "runner/0", 1, NULL), WEFT_OK);
  fail(m, 1, "other/3"); /* under one agreement only */
  CU_ASSERT_EQUAL(come(m, 1, "other/3", 0, NULL), WEFT_ABORTED);
  CU_ASSERT_EQUAL(come(m, 1, "other/4", 0, NULL), WEFT_OK);
  weft_meetings_forget_step(m, 1);
  CU_ASSERT_EQUAL(come(m, 1, "run/0", 1, NULL), WEFT_OK);
  weft_meetings_destroy(m);
}

/* A step that lasts as long as its process keeps the last of its failures, not all. */
static void of_many_failures_the_last_are_remembered(void) {
  enum { N = 20000 };
  weft_meetings_t *m = fresh();
  char run[32];
  for (int i = 0; i < N; i++) {
    snprintf(run, sizeof run, "run%d", i);
    fail(m, 1, run);
    fail(m, 1, run); /* is known */
  }
  CU_ASSERT_EQUAL(come(m, 1, "run0/0", 0, NULL), WEFT_OK);
  snprintf(run, sizeof run, "run%d/0", N - 1);
  CU_ASSERT_EQUAL(come(m, 1, run, 0, NULL), WEFT_ABORTED);
  snprintf(run, sizeof run, "run%d/0", N - 1000);
  CU_ASSERT_EQUAL(come(m, 1, run, 0, NULL), WEFT_ABORTED);
  weft_meetings_forget_step(m, 1);
  CU_ASSERT_EQUAL(come(m, 1, run, 0, NULL), WEFT_OK);
  weft_meetings_destroy(m);
}

static const CU_TestInfo tests[] = {
    {"the last member takes all", the_last_member_takes_all},
    {"a failure is for those there and those to come", a_failure_is_for_those_there_and_those_to_come},
    {"of many failures the last are remembered", of_many_failures_the_last_are_remembered},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("meetings", tests); }
