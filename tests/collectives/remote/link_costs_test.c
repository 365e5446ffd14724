/* tests/collectives/remote/link_costs_test.c - costs of links follow what was measured. */
#include "collectives/remote/link_costs.h"

#include <CUnit/CUnit.h>

#include "tests/runner.h"

static bool is_about(double a, double b) { return a > 0.9 * b && a < 1.1 * b; }

static void costs_come_to_what_is_measured(void) {
  for (int way = 0; way < WEFT_WAYS; way++) {
    for (int slow = 0; slow < 2; slow++) {
      weft_link_costs_t c;
      weft_link_costs_init(&c);
      const double alpha = slow ? 400e-6 : 5e-6, byte = slow ? 1 / 100e6 : 1 / 20e9;
      for (int i = 0; i < 400; i++) {
        weft_link_costs_note(&c, (weft_way_t)way, 0, alpha);
        weft_link_costs_note(&c, (weft_way_t)way, 1 << 20, alpha + (1 << 20) * byte);
      }
      CU_ASSERT_TRUE(is_about(weft_link_costs_of(&c, (weft_way_t)way).alpha_s, alpha));
      CU_ASSERT_TRUE(is_about(weft_link_costs_of(&c, (weft_way_t)way).byte_s, byte));
      weft_link_costs_deinit(&c);
    }
  }
}

static void a_wait_is_not_taken_for_a_slow_link(void) {
  weft_link_costs_t c;
  weft_link_costs_init(&c);
  for (int i = 0; i < 400; i++) weft_link_costs_note(&c, WEFT_WAY_NEAR, 8, i % 4 == 3 ? 10 : 6e-6);
  CU_ASSERT_TRUE(weft_link_costs_of(&c, WEFT_WAY_NEAR).alpha_s < 9e-6);
  weft_link_costs_deinit(&c);
}

static void nothing_is_learned_from_the_other_way(void) {
  weft_link_costs_t c;
  weft_link_costs_init(&c);
  const weft_link_t before = weft_link_costs_of(&c, WEFT_WAY_FAR);
  weft_link_costs_note(&c, WEFT_WAY_NEAR, 8, 1e-6);
  weft_link_costs_note(&c, WEFT_WAY_NEAR, 1 << 20, 1e-6);
  CU_ASSERT_TRUE(weft_link_costs_of(&c, WEFT_WAY_FAR).alpha_s == before.alpha_s);
  CU_ASSERT_TRUE(weft_link_costs_of(&c, WEFT_WAY_FAR).byte_s == before.byte_s);
  CU_ASSERT_TRUE(weft_link_costs_of(&c, WEFT_WAY_NEAR).byte_s > 0);
  weft_link_costs_deinit(&c);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"costs come to what is measured", costs_come_to_what_is_measured},
      {"a wait is not taken for a slow link", a_wait_is_not_taken_for_a_slow_link},
      {"nothing is learned from the other way", nothing_is_learned_from_the_other_way},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("link_costs", tests);
}
