/* Waits of data sets' iterators: a failed allocation is no cancellation. */
#include "kernels/cpu/dataset/ahead.h"
#include "kernels/cpu/dataset/pause.h"
#include "tests/runner.h"

static bool begin(void *arg, weft_ahead_slot_t *slot) {
  (void)arg;
  weft_ahead_end(slot, NULL, true);
  return false;
}

static weft_status_t *make_and_destroy(weft_iterator_t *it) {
  weft_canceller_t *before = it->canceller;
  const weft_ahead_options_t o = {.owner = it, .limit = 2, .begin = begin};
  weft_ahead_t *a = NULL;
  weft_status_t *s = weft_ahead_create(&o, &a);
  CU_ASSERT_EQUAL(a == NULL, s != NULL);
  weft_ahead_destroy(a);
  it->canceller = before;
  return s;
}

static void each_failing_allocation_is_told_as_such(void) {
  int n = 0;
  const weft_dataset_t of = {.spec = NULL};
  weft_iterator_t it = {.of = &of, .canceller = weft_canceller_create(NULL)};
  CU_ASSERT_PTR_NOT_NULL_FATAL(it.canceller);
  WEFT_FAIL_EACH_ALLOCATION(n, s, make_and_destroy(&it));
  CU_ASSERT_TRUE(n > 3);
  WEFT_FAIL_EACH_ALLOCATION(n, s, weft_iterator_pause(&it, 1));
  CU_ASSERT_EQUAL(n, 1);
  weft_canceller_cancel(it.canceller);
  weft_status_t *s = weft_iterator_pause(&it, 1000000);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  weft_status_free(s);
  weft_canceller_release(it.canceller);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"each failing allocation is told as such", each_failing_allocation_is_told_as_such},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("dataset_wait", tests);
}
