/* Messages and bytes by link and class. */
#include <pthread.h>

#include "collectives/link_counters.h"
#include "tests/runner.h"

static const weft_str_t a = {"a", 1}, b = {"b", 1}, c = {"c", 1}, any = {"", 0};

static weft_link_counters_t *fresh(void) {
  weft_link_counters_t *out = NULL;
  weft_status_t *s = weft_link_counters_create(&out);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return out;
}

static void sums_go_by_source_destination_and_class(void) {
  weft_link_counters_t *k = fresh();
  weft_link_counters_add(k, a, b, WEFT_TRAFFIC_COLLECTIVE, 10);
  weft_link_counters_add(k, a, b, WEFT_TRAFFIC_COLLECTIVE, 20);
  weft_link_counters_add(k, a, c, WEFT_TRAFFIC_COLLECTIVE, 5);
  weft_link_counters_add(k, b, a, WEFT_TRAFFIC_KV, 7);
  weft_link_count_t n = weft_link_counters_sum(k, a, b, WEFT_TRAFFIC_COLLECTIVE);
  CU_ASSERT(n.messages == 2 && n.bytes == 30);
  n = weft_link_counters_sum(k, a, any, WEFT_TRAFFIC_COLLECTIVE);
  CU_ASSERT(n.messages == 3 && n.bytes == 35);
  n = weft_link_counters_sum(k, any, any, WEFT_TRAFFIC_KV);
  CU_ASSERT(n.messages == 1 && n.bytes == 7);
  n = weft_link_counters_sum(k, a, b, WEFT_TRAFFIC_CONTROL);
  CU_ASSERT(n.messages == 0 && n.bytes == 0);
  weft_link_counters_reset(k);
  n = weft_link_counters_sum(k, any, any, WEFT_TRAFFIC_COLLECTIVE);
  CU_ASSERT(n.messages == 0 && n.bytes == 0);
  weft_link_counters_add(NULL, a, b, WEFT_TRAFFIC_KV, 1);
  weft_link_counters_destroy(k);
  weft_link_counters_destroy(NULL);
}

static void add_up(void *arg, weft_str_t src, weft_str_t dst, weft_traffic_t traffic,
                   weft_link_count_t count) {
  (void)src;
  (void)dst;
  int64_t *sums = arg;
  sums[traffic] += count.bytes;
}

static void each_row_is_seen_once(void) {
  weft_link_counters_t *k = fresh();
  weft_link_counters_add(k, a, b, WEFT_TRAFFIC_TENSOR, 1);
  weft_link_counters_add(k, b, c, WEFT_TRAFFIC_TENSOR, 2);
  weft_link_counters_add(k, a, b, WEFT_TRAFFIC_CONTROL, 4);
  int64_t sums[WEFT_TRAFFIC_COUNT] = {0};
  weft_link_counters_each(k, add_up, sums);
  CU_ASSERT(sums[WEFT_TRAFFIC_TENSOR] == 3 && sums[WEFT_TRAFFIC_CONTROL] == 4 && sums[WEFT_TRAFFIC_KV] == 0);
  weft_link_counters_destroy(k);
}

static void *count_many(void *arg) {
  for (int i = 0; i < 10000; i++) weft_link_counters_add(arg, i % 2 == 0 ? a : b, c, WEFT_TRAFFIC_KV, 3);
  return NULL;
}

static void nothing_is_lost_between_threads(void) {
  weft_link_counters_t *k = fresh();
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, count_many, k), 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  const weft_link_count_t n = weft_link_counters_sum(k, any, c, WEFT_TRAFFIC_KV);
  CU_ASSERT(n.messages == 30000 && n.bytes == 90000);
  weft_link_counters_destroy(k);
}

static void without_memory_a_message_is_not_counted(void) {
  weft_link_counters_t *k = fresh();
  weft_fault_arm(0);
  weft_link_counters_add(k, a, b, WEFT_TRAFFIC_KV, 1);
  CU_ASSERT(weft_fault_fired());
  weft_fault_arm(-1);
  CU_ASSERT_EQUAL(weft_link_counters_sum(k, any, any, WEFT_TRAFFIC_KV).messages, 0);
  weft_link_counters_add(k, a, b, WEFT_TRAFFIC_KV, 1);
  CU_ASSERT_EQUAL(weft_link_counters_sum(k, any, any, WEFT_TRAFFIC_KV).messages, 1);
  CU_ASSERT_STRING_EQUAL(weft_traffic_name(WEFT_TRAFFIC_KV), "kv");
  CU_ASSERT_STRING_EQUAL(weft_traffic_name((weft_traffic_t)77), "");
  weft_link_counters_destroy(k);
}

static const CU_TestInfo tests[] = {
    {"sums go by source, destination and class", sums_go_by_source_destination_and_class},
    {"each row is seen once", each_row_is_seen_once},
    {"nothing is lost between threads", nothing_is_lost_between_threads},
    {"without memory a message is not counted", without_memory_a_message_is_not_counted},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("link_counters", tests); }
