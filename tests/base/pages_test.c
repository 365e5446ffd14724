/* Pages from the system: where they begin, what they hold, and that they can be refused. */
#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>

#include "tests/runner.h"

static void blocks_are_zeros_at_a_huge_pages_boundary(void) {
  const size_t sizes[] = {1, 4096, 4097, WEFT_HUGE_PAGE - 1, WEFT_HUGE_PAGE, 2 * WEFT_HUGE_PAGE + 5000};
  char *blocks[sizeof sizes / sizeof sizes[0]];
  const int n = (int)(sizeof sizes / sizeof sizes[0]);
  for (int i = 0; i < n; i++) {
    blocks[i] = weft_pages_map(sizes[i]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    CU_ASSERT_EQUAL((uintptr_t)blocks[i] % WEFT_HUGE_PAGE, 0);
    CU_ASSERT_EQUAL(blocks[i][0], 0);
    CU_ASSERT_EQUAL(blocks[i][sizes[i] - 1], 0);
    blocks[i][0] = blocks[i][sizes[i] - 1] = 1;
  }
  for (int i = 0; i < n; i++) weft_pages_unmap(blocks[i], sizes[i]);
  weft_pages_unmap(NULL, 1);
}

/* Of a page that no mapping has, msync says so. */
static void unmapped_blocks_are_gone(void) {
  const size_t bytes = WEFT_HUGE_PAGE + 100;
  char *p = weft_pages_map(bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  CU_ASSERT_EQUAL(msync(p + WEFT_HUGE_PAGE, 1, MS_ASYNC), 0);
  weft_pages_unmap(p, bytes);
  CU_ASSERT_NOT_EQUAL(msync(p, 1, MS_ASYNC), 0);
  CU_ASSERT_NOT_EQUAL(msync(p + WEFT_HUGE_PAGE, 1, MS_ASYNC), 0);
}

static void too_much_is_refused(void) {
  CU_ASSERT_PTR_NULL(weft_pages_map(SIZE_MAX));
  CU_ASSERT_PTR_NULL(weft_pages_map(SIZE_MAX / 2));
  weft_fault_arm(0);
  CU_ASSERT_PTR_NULL(weft_pages_map(1));
  CU_ASSERT_TRUE(weft_fault_fired());
  weft_fault_arm(-1);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"blocks are zeros at a huge page's boundary", blocks_are_zeros_at_a_huge_pages_boundary},
      {"unmapped blocks are gone", unmapped_blocks_are_gone},
      {"too much is refused", too_much_is_refused},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("pages", tests);
}
