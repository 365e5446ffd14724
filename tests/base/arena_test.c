#include "base/arena.h"

#include <stdint.h>

#include "tests/runner.h"

static void blocks_do_not_overlap_and_are_aligned(void) {
  weft_arena_t a = WEFT_ARENA_INIT;
  unsigned char *p[300];
  for (size_t i = 0; i < 300; i++) {
    p[i] = weft_arena_alloc(&a, i * 7);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p[i]);
    CU_ASSERT_EQUAL((uintptr_t)p[i] % 16, 0);
    memset(p[i], (int)(i & 0xff), i * 7);
  }
  int right = 0;
  for (size_t i = 0; i < 300; i++) {
    bool same = true;
    for (size_t k = 0; k < i * 7; k++) same = same && p[i][k] == (i & 0xff);
    right += same;
  }
  CU_ASSERT_EQUAL(right, 300);
  CU_ASSERT_TRUE(a.bytes >= 300 * 299 / 2 * 7);
  weft_arena_deinit(&a);
}

static void large_blocks_fit(void) {
  weft_arena_t a = WEFT_ARENA_INIT;
  char *big = weft_arena_calloc(&a, 5 << 20, 1), *small = weft_arena_alloc(&a, 8);
  CU_ASSERT_PTR_NOT_NULL_FATAL(big);
  CU_ASSERT_PTR_NOT_NULL_FATAL(small);
  CU_ASSERT_EQUAL(big[(5 << 20) - 1], 0);
  weft_arena_deinit(&a);
}

static void sizes_that_overflow_fail(void) {
  weft_arena_t a = WEFT_ARENA_INIT;
  CU_ASSERT_PTR_NULL(weft_arena_calloc(&a, SIZE_MAX / 2, 3));
  CU_ASSERT_PTR_NULL(weft_arena_alloc(&a, SIZE_MAX));
  CU_ASSERT_PTR_NULL(weft_arena_alloc(&a, SIZE_MAX - 15));
  weft_arena_deinit(&a);
}

static void texts_are_copied_and_ended(void) {
  weft_arena_t a = WEFT_ARENA_INIT;
  weft_str_t s = weft_arena_str(&a, weft_str_of("hello, world", 5));
  CU_ASSERT_STRING_EQUAL(s.data, "hello");
  CU_ASSERT_EQUAL(s.length, 5);
  CU_ASSERT_STRING_EQUAL(weft_arena_str(&a, (weft_str_t){NULL, 0}).data, "");
  weft_arena_deinit(&a);
}

static weft_status_t *use(void) {
  weft_arena_t a = WEFT_ARENA_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < 100; i++) {
    if (weft_arena_calloc(&a, 1000, 1) == NULL) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "arena");
  }
  weft_arena_deinit(&a);
  return s;
}

static void every_failing_allocation_is_reported(void) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, use());
  CU_ASSERT_TRUE(n >= 2);
}

static const CU_TestInfo tests[] = {
    {"blocks do not overlap and are aligned", blocks_do_not_overlap_and_are_aligned},
    {"large blocks fit", large_blocks_fit},
    {"sizes that overflow fail", sizes_that_overflow_fail},
    {"texts are copied and ended", texts_are_copied_and_ended},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("arena", tests); }
