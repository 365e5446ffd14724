/* T-COL-2: how much moves. How long that takes is in virtual_time_test. */
#include <math.h>

#include "tests/collectives/world.h"
#include "tests/runner.h"

static weft_link_count_t sent_by(world_t *w, int rank) {
  return weft_link_counters_sum(weft_local_hub_counters(w->hub), weft_str(w->tasks[rank]), WEFT_STR(""),
                                WEFT_TRAFFIC_COLLECTIVE);
}

static void ring_all_reduce_sends_what_it_must(void) {
  for (int n = 2; n <= 8; n++) {
    world_t w;
    world_init(&w, n, 0, false, NULL);
    const int64_t counts[] = {n, 1000, 1023, 100000};
    for (int i = 0; i < 4; i++) {
      world_run_all(
          &w, world_call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(counts[i]), WEFT_ALGORITHM_RING, i + 1),
          0);
      for (int r = 0; r < n; r++) {
        const weft_link_count_t sent = sent_by(&w, r);
        CU_ASSERT_EQUAL(sent.messages, 2 * (n - 1)); /* one field: what is small is not cut */
        CU_ASSERT(fabs((double)sent.bytes - 2.0 * (n - 1) / n * (double)counts[i] * 4) <= 2 * 4);
        const weft_link_count_t next =
            weft_link_counters_sum(weft_local_hub_counters(w.hub), weft_str(w.tasks[r]),
                                   weft_str(w.tasks[(r + 1) % n]), WEFT_TRAFFIC_COLLECTIVE);
        CU_ASSERT_EQUAL(next.bytes, sent.bytes); /* to its neighbour alone */
      }
    }
    world_deinit(&w);
  }
}

static void a_field_is_sent_as_often_as_a_tensor(void) {
  world_t w;
  world_init(&w, 4, 0, false, NULL);
  const int64_t count = 8 << 20; /* 32 MiB: chunks of 8 MiB are cut */
  world_run_all(&w, world_call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(count), WEFT_ALGORITHM_RING, 1), 0);
  for (int r = 0; r < 4; r++) {
    CU_ASSERT_EQUAL(sent_by(&w, r).messages % 6, 0);
    CU_ASSERT(sent_by(&w, r).messages > 6);
    CU_ASSERT_EQUAL(sent_by(&w, r).bytes, 2 * 3 * (count / 4) * 4);
  }
  world_deinit(&w);
}

static void other_primitives_send_what_they_must(void) {
  for (int n = 2; n <= 8; n++) {
    world_t w;
    world_init(&w, n, 0, false, NULL);
    const int64_t rows = 60 * n, all = rows * 4;
    int64_t messages = 0;
    weft_collective_t c = world_call_of(&w, WEFT_BROADCAST, weft_shape_vector(rows), WEFT_ALGORITHM_AUTO, 1);
    c.root = n / 2;
    world_run_all(&w, c, 0);
    for (int r = 0; r < n; r++) messages += sent_by(&w, r).messages;
    CU_ASSERT_EQUAL(messages, n - 1);
    world_run_all(&w, world_call_of(&w, WEFT_REDUCE_SCATTER, weft_shape_vector(rows), WEFT_ALGORITHM_RING, 2),
                  0);
    for (int r = 0; r < n; r++) {
      CU_ASSERT_EQUAL(sent_by(&w, r).messages, n - 1);
      CU_ASSERT_EQUAL(sent_by(&w, r).bytes, all / n * (n - 1));
    }
    world_run_all(&w, world_call_of(&w, WEFT_ALL_GATHER, weft_shape_vector(rows / n), WEFT_ALGORITHM_RING, 3),
                  0);
    for (int r = 0; r < n; r++) {
      CU_ASSERT_EQUAL(sent_by(&w, r).messages, n - 1);
      CU_ASSERT_EQUAL(sent_by(&w, r).bytes, all / n * (n - 1));
    }
    world_run_all(&w, world_call_of(&w, WEFT_ALL_TO_ALL, weft_shape_vector(rows), WEFT_ALGORITHM_AUTO, 4), 0);
    for (int r = 0; r < n; r++) CU_ASSERT_EQUAL(sent_by(&w, r).bytes, all / n * (n - 1));
    c = world_call_of(&w, WEFT_SCATTER, weft_shape_vector(rows / n), WEFT_ALGORITHM_AUTO, 5);
    c.root = n - 1;
    world_run_all(&w, c, rows);
    CU_ASSERT_EQUAL(sent_by(&w, n - 1).bytes, all / n * (n - 1));
    c = world_call_of(&w, WEFT_REDUCE, weft_shape_vector(rows), WEFT_ALGORITHM_AUTO, 6);
    c.root = 0;
    world_run_all(&w, c, 0);
    for (int r = 0; r < n; r++) CU_ASSERT_EQUAL(sent_by(&w, r).bytes, r == 0 ? 0 : all);
    world_run_all(&w, world_call_of(&w, WEFT_BARRIER, WEFT_SCALAR, WEFT_ALGORITHM_AUTO, 7), 0);
    const int rounds = n > 4 ? 3 : n > 2 ? 2 : 1;
    for (int r = 0; r < n; r++) {
      CU_ASSERT_EQUAL(sent_by(&w, r).messages, rounds);
      CU_ASSERT_EQUAL(sent_by(&w, r).bytes, 0);
    }
    world_deinit(&w);
  }
}

static void halving_doubling_and_direct_send_as_little_as_the_ring(void) {
  for (int n = 2; n <= 8; n *= 2) {
    world_t w;
    world_init(&w, n, 0, false, NULL);
    const int64_t count = 64 * n;
    world_run_all(
        &w, world_call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(count), WEFT_ALGORITHM_HALVING_DOUBLING, 1),
        0);
    const int rounds = n == 8 ? 3 : n == 4 ? 2 : 1;
    for (int r = 0; r < n; r++) {
      CU_ASSERT_EQUAL(sent_by(&w, r).bytes, 2 * (n - 1) * 64 * 4);
      CU_ASSERT_EQUAL(sent_by(&w, r).messages, 2 * rounds);
    }
    world_run_all(&w, world_call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(count), WEFT_ALGORITHM_DIRECT, 2),
                  0);
    for (int r = 0; r < n; r++) CU_ASSERT_EQUAL(sent_by(&w, r).bytes, 2 * (n - 1) * 64 * 4);
    world_deinit(&w);
  }
}

static void hosts_save_the_slow_links(void) {
  static const char *const hosts[] = {"a", "a", "a", "a", "b", "b", "b", "b"};
  world_t w;
  world_init(&w, 8, 0, false, hosts);
  const int64_t count = 8 * 1000;
  world_run_all(
      &w, world_call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(count), WEFT_ALGORITHM_HIERARCHICAL, 1), 0);
  for (int r = 0; r < 8; r++) {
    int64_t near = 0, far = 0;
    for (int q = 0; q < 8; q++) {
      const weft_link_count_t c = weft_link_counters_sum(weft_local_hub_counters(w.hub), weft_str(w.tasks[r]),
                                                         weft_str(w.tasks[q]), WEFT_TRAFFIC_COLLECTIVE);
      if (r / 4 == q / 4) near += c.bytes;
      if (r / 4 != q / 4) far += c.bytes;
    }
    CU_ASSERT_EQUAL(near, 2 * 3 * count / 4 * 4);
    CU_ASSERT_EQUAL(far, 2 * (count / 4) / 2 * 4);
  }
  world_deinit(&w);
}

/* ---- links that lose and hold ---- */

static void lost_messages_are_sent_again(void) {
  world_t w;
  world_init(&w, 4, 0, true, NULL);
  weft_status_t *s =
      weft_local_hub_set_link(w.hub, WEFT_STR(""), WEFT_STR(""),
                              (weft_link_model_t){.alpha_us = 100, .bytes_per_s = 1e9, .drop_percent = 30});
  CU_ASSERT_PTR_NULL_FATAL(s);
  int64_t messages = 0;
  for (int i = 0; i < 10; i++) {
    world_run_all(&w, world_call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(1000), WEFT_ALGORITHM_RING, 1), 0);
    for (int r = 0; r < 4; r++) messages += sent_by(&w, r).messages;
  }
  CU_ASSERT(messages > 240 + 30); /* 240 without losses */
  world_deinit(&w);
}

static void a_partition_holds_messages_until_it_ends(void) {
  world_t w;
  world_init(&w, 2, 0, true, NULL);
  weft_link_model_t m = {.alpha_us = 10, .is_partitioned = true};
  CU_ASSERT_PTR_NULL_FATAL(weft_local_hub_set_link(w.hub, WEFT_STR(""), WEFT_STR(""), m));
  result_t out[2];
  for (int r = 0; r < 2; r++) {
    weft_collective_t c = world_call(&w, r, WEFT_BARRIER, WEFT_F32, WEFT_SCALAR);
    world_start(&w, r, &c, NULL, &out[r]);
  }
  weft_local_hub_run(w.hub);
  CU_ASSERT_EQUAL(out[0].calls + out[1].calls, 0);
  m.is_partitioned = false;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_hub_set_link(w.hub, WEFT_STR(""), WEFT_STR(""), m));
  for (int r = 0; r < 2; r++) {
    world_wait(&w, &out[r]);
    CU_ASSERT_PTR_NULL(out[r].status);
    result_deinit(&out[r]);
  }
  world_deinit(&w);
}

static void a_link_in_real_time_delivers(void) {
  world_t w;
  world_init(&w, 4, 2, false, NULL);
  CU_ASSERT_PTR_NULL_FATAL(weft_local_hub_set_link(w.hub, WEFT_STR(""), WEFT_STR(""),
                                                   (weft_link_model_t){.alpha_us = 100, .bytes_per_s = 1e9}));
  for (int i = 0; i < 5; i++)
    world_run_all(&w, world_call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(5000), WEFT_ALGORITHM_AUTO, 1), 0);
  world_deinit(&w);
}

static const CU_TestInfo tests[] = {
    {"ring all-reduce sends what it must", ring_all_reduce_sends_what_it_must},
    {"a field is sent as often as a tensor", a_field_is_sent_as_often_as_a_tensor},
    {"other primitives send what they must", other_primitives_send_what_they_must},
    {"halving-doubling and direct send as little as the ring",
     halving_doubling_and_direct_send_as_little_as_the_ring},
    {"hosts save the slow links", hosts_save_the_slow_links},
    {"lost messages are sent again", lost_messages_are_sent_again},
    {"a partition holds messages until it ends", a_partition_holds_messages_until_it_ends},
    {"a link in real time delivers", a_link_in_real_time_delivers},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("traffic", tests); }
