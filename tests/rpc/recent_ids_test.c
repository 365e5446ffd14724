#include "rpc/recent_ids.h"

#include <string.h>

#include "tests/runner.h"

static bool is_new(weft_recent_ids_t *r, int64_t id) {
  weft_status_t *s = weft_recent_ids_add(r, id, "RunStep");
  bool ok = s == NULL;
  if (!ok) {
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ABORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "The same RunStep request was received twice."));
    CU_ASSERT_TRUE(weft_recent_ids_is_refusal(s));
  }
  weft_status_free(s);
  return ok;
}

/* Random-looking, never 0 for small i. */
static int64_t spread(int64_t i) { return (int64_t)((uint64_t)i * 0x9e3779b97f4a7c15u); }

static void an_id_is_refused_while_it_is_in_the_window(void) {
  enum { WINDOW = 1000, TURNS = 5000 };
  weft_recent_ids_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_recent_ids_create(WINDOW, &r));
  int bad = 0;
  for (int64_t i = 1; i <= TURNS; i++) {
    int64_t id = spread(i);
    bad += !is_new(r, id);
    bad += is_new(r, id);
    if (i > WINDOW / 2) bad += is_new(r, spread(i - WINDOW / 2));
    if (i >= WINDOW) bad += is_new(r, spread(i - WINDOW + 1));
  }
  CU_ASSERT_EQUAL(bad, 0);
  CU_ASSERT_TRUE(is_new(r, spread(1))); /* the first is long forgotten */
  weft_recent_ids_destroy(r);
}

static void counted_and_negative_ids_work_as_well(void) {
  weft_recent_ids_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_recent_ids_create(300, &r));
  int bad = 0;
  for (int64_t i = 1; i <= 2000; i++) bad += !is_new(r, i % 2 == 0 ? i : -i);
  for (int64_t i = 1701; i <= 2000; i++) bad += is_new(r, i % 2 == 0 ? i : -i);
  CU_ASSERT_EQUAL(bad, 0);
  weft_recent_ids_destroy(r);
}

static void id_zero_is_never_refused(void) {
  weft_recent_ids_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_recent_ids_create(10, &r));
  CU_ASSERT_TRUE(is_new(r, 0));
  CU_ASSERT_TRUE(is_new(r, 0));
  weft_recent_ids_destroy(r);
}

static weft_status_t *fill(void) {
  weft_recent_ids_t *r = NULL;
  weft_status_t *s = weft_recent_ids_create(2000, &r);
  for (int64_t i = 1; i <= 1500 && s == NULL; i++) s = weft_recent_ids_add(r, i, "RunStep");
  weft_recent_ids_destroy(r);
  return s;
}

static void each_failed_allocation_is_reported(void) {
  int n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, fill());
  CU_ASSERT_EQUAL(n, 7); /* the object, and a ring and a set three times */
}

static const CU_TestInfo tests[] = {
    {"an id is refused while it is in the window", an_id_is_refused_while_it_is_in_the_window},
    {"counted and negative ids work as well", counted_and_negative_ids_work_as_well},
    {"id zero is never refused", id_zero_is_never_refused},
    {"each failed allocation is reported", each_failed_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("recent_ids", tests); }
