#include "base/hash_map.h"

#include <stdio.h>

#include "tests/runner.h"

static void *value(uintptr_t n) { return (void *)n; }

static void what_was_put_is_found(void) {
  weft_map_t m = WEFT_MAP_INIT;
  void *old = value(1);
  CU_ASSERT_PTR_NULL(weft_map_get(&m, WEFT_STR("a")));
  CU_ASSERT_PTR_NULL(weft_map_put(&m, WEFT_STR("a"), value(1), &old));
  CU_ASSERT_PTR_NULL(old);
  CU_ASSERT_PTR_NULL(weft_map_put(&m, WEFT_STR("a"), value(2), &old));
  CU_ASSERT_PTR_EQUAL(old, value(1));
  CU_ASSERT_PTR_EQUAL(weft_map_get(&m, WEFT_STR("a")), value(2));
  CU_ASSERT_EQUAL(m.count, 1);
  weft_map_deinit(&m);
}

static void texts_and_numbers_do_not_meet(void) {
  weft_map_t m = WEFT_MAP_INIT;
  CU_ASSERT_PTR_NULL(weft_map_put(&m, WEFT_STR(""), value(1), NULL));
  CU_ASSERT_PTR_NULL(weft_map_put_u64(&m, 0, value(2), NULL));
  CU_ASSERT_PTR_NULL(weft_map_put_u64(&m, UINT64_MAX, value(3), NULL));
  CU_ASSERT_PTR_EQUAL(weft_map_get(&m, WEFT_STR("")), value(1));
  CU_ASSERT_PTR_EQUAL(weft_map_get(&m, (weft_str_t){NULL, 0}), value(1));
  CU_ASSERT_PTR_EQUAL(weft_map_get_u64(&m, 0), value(2));
  CU_ASSERT_PTR_EQUAL(weft_map_get_u64(&m, UINT64_MAX), value(3));
  CU_ASSERT_PTR_NULL(weft_map_get_u64(&m, 1));
  weft_map_deinit(&m);
}

static void maps_grow_and_shrink(void) {
  enum { NUM = 5000 };
  static char keys[NUM][16];
  weft_map_t m = WEFT_MAP_INIT;
  for (int i = 0; i < NUM; i++) {
    snprintf(keys[i], sizeof keys[i], "key%d", i);
    CU_ASSERT_PTR_NULL_FATAL(weft_map_put(&m, weft_str(keys[i]), value((uintptr_t)i + 1), NULL));
  }
  for (int i = 0; i < NUM; i += 2)
    CU_ASSERT_PTR_EQUAL(weft_map_remove(&m, weft_str(keys[i])), value((uintptr_t)i + 1));
  CU_ASSERT_EQUAL(m.count, NUM / 2);
  int right = 0;
  for (int i = 0; i < NUM; i++) {
    right += weft_map_get(&m, weft_str(keys[i])) == (i % 2 == 0 ? NULL : value((uintptr_t)i + 1));
  }
  CU_ASSERT_EQUAL(right, NUM);
  CU_ASSERT_PTR_NULL(weft_map_remove(&m, WEFT_STR("absent")));
  weft_map_deinit(&m);
}

static void removed_places_are_used_again(void) {
  weft_map_t m = WEFT_MAP_INIT;
  for (uint64_t i = 0; i < 100000; i++) {
    CU_ASSERT_PTR_NULL_FATAL(weft_map_put_u64(&m, i, value(1), NULL));
    CU_ASSERT_PTR_EQUAL_FATAL(weft_map_remove_u64(&m, i), value(1));
  }
  CU_ASSERT_TRUE(m.capacity <= 64);
  weft_map_deinit(&m);
}

static void a_walk_sees_every_entry_once(void) {
  weft_map_t m = WEFT_MAP_INIT;
  for (uint64_t i = 0; i < 100; i++)
    CU_ASSERT_PTR_NULL(weft_map_put_u64(&m, i, value((uintptr_t)i + 1), NULL));
  uint64_t sum = 0, n = 0;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&m, &at, &e);) {
    n++;
    sum += (uintptr_t)e.value;
  }
  CU_ASSERT_EQUAL(n, 100);
  CU_ASSERT_EQUAL(sum, 5050);
  weft_map_deinit(&m);
}

static weft_status_t *fill(void) {
  weft_map_t m = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  for (uint64_t i = 0; s == NULL && i < 100; i++) {
    s = weft_map_put_u64(&m, i, value(1), NULL);
  }
  weft_map_deinit(&m);
  return s;
}

static void every_failing_allocation_is_reported(void) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, fill());
  CU_ASSERT_TRUE(n >= 2);
}

static const CU_TestInfo tests[] = {
    {"what was put is found", what_was_put_is_found},
    {"texts and numbers do not meet", texts_and_numbers_do_not_meet},
    {"maps grow and shrink", maps_grow_and_shrink},
    {"removed places are used again", removed_places_are_used_again},
    {"a walk sees every entry once", a_walk_sees_every_entry_once},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("hash map", tests); }
