/* T-COL-2 and T-COL-3: how much moves, and how long it takes on links of a known kind. */
#include <math.h>
#include <stdio.h>

#include "collectives/choose.h"
#include "tests/collectives/world.h"
#include "tests/runner.h"

static weft_link_count_t sent_by(world_t *w, int rank) {
  return weft_link_counters_sum(weft_local_hub_counters(w->hub), weft_str(w->tasks[rank]), WEFT_STR(""),
                                WEFT_TRAFFIC_COLLECTIVE);
}

/* Runs `call` on all ranks with inputs of zeros; returns the virtual seconds that it took. */
static double run_all(world_t *w, weft_collective_t call, int64_t root_rows) {
  weft_tensor_t *in[WORLD_MOST] = {NULL};
  result_t out[WORLD_MOST];
  const double before = weft_local_hub_seconds(w->hub);
  weft_link_counters_reset(weft_local_hub_counters(w->hub));
  for (int r = 0; r < w->n; r++) {
    weft_collective_t c = call;
    c.device = weft_str(w->devices[r]);
    c.rank = r;
    c.step_id = w->next_step;
    if (root_rows > 0 && r == c.root) c.shape.dims[0] = root_rows;
    weft_status_t *s = c.kind == WEFT_BARRIER ? NULL : weft_tensor_new(c.dtype, &c.shape, NULL, &in[r]);
    CU_ASSERT_PTR_NULL_FATAL(s);
    if (in[r] != NULL) memset(in[r]->data, 0, in[r]->bytes);
    c.input = in[r];
    c.takes_input = call.takes_input;
    world_start(w, r, &c, NULL, &out[r]);
    if (call.takes_input) { /* the run has it alone */
      weft_tensor_release(in[r]);
      in[r] = NULL;
    }
  }
  for (int r = 0; r < w->n; r++) {
    world_wait(w, &out[r]);
    CU_ASSERT_PTR_NULL(out[r].status);
    result_deinit(&out[r]);
    weft_tensor_release(in[r]);
  }
  w->next_step++;
  return weft_local_hub_seconds(w->hub) - before;
}

static weft_collective_t call_of(world_t *w, weft_collective_kind_t kind, weft_shape_t shape,
                                 weft_collective_algorithm_t a, int64_t instance) {
  weft_collective_t c = world_call(w, 0, kind, WEFT_F32, shape);
  c.algorithm = a;
  c.instance_key = instance;
  return c;
}

static void ring_all_reduce_sends_what_it_must(void) {
  for (int n = 2; n <= 8; n++) {
    world_t w;
    world_init(&w, n, 0, false, NULL);
    const int64_t counts[] = {n, 1000, 1023, 100000};
    for (int i = 0; i < 4; i++) {
      run_all(&w, call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(counts[i]), WEFT_ALGORITHM_RING, i + 1), 0);
      for (int r = 0; r < n; r++) {
        const weft_link_count_t sent = sent_by(&w, r);
        CU_ASSERT_EQUAL(sent.messages, 2 * (n - 1)); /* one field: what is small is not cut */
        CU_ASSERT(fabs((double)sent.bytes - 2.0 * (n - 1) / n * (double)counts[i] * 4) <= 2 * 4);
        const weft_link_count_t next =
            weft_link_counters_sum(weft_local_hub_counters(w.hub), weft_str(w.tasks[r]),
                                   weft_str(w.tasks[(r + 1) % n]), WEFT_TRAFFIC_COLLECTIVE);
        CU_ASSERT_EQUAL(next.bytes, sent.bytes); /* to its neighbour and to nobody else */
      }
    }
    world_deinit(&w);
  }
}

static void a_field_is_sent_as_often_as_a_tensor(void) {
  world_t w;
  world_init(&w, 4, 0, false, NULL);
  const int64_t count = 8 << 20; /* 32 MiB: chunks of 8 MiB are cut */
  run_all(&w, call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(count), WEFT_ALGORITHM_RING, 1), 0);
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
    weft_collective_t c = call_of(&w, WEFT_BROADCAST, weft_shape_vector(rows), WEFT_ALGORITHM_AUTO, 1);
    c.root = n / 2;
    run_all(&w, c, 0);
    for (int r = 0; r < n; r++) messages += sent_by(&w, r).messages;
    CU_ASSERT_EQUAL(messages, n - 1);
    run_all(&w, call_of(&w, WEFT_REDUCE_SCATTER, weft_shape_vector(rows), WEFT_ALGORITHM_RING, 2), 0);
    for (int r = 0; r < n; r++) {
      CU_ASSERT_EQUAL(sent_by(&w, r).messages, n - 1);
      CU_ASSERT_EQUAL(sent_by(&w, r).bytes, all / n * (n - 1));
    }
    run_all(&w, call_of(&w, WEFT_ALL_GATHER, weft_shape_vector(rows / n), WEFT_ALGORITHM_RING, 3), 0);
    for (int r = 0; r < n; r++) {
      CU_ASSERT_EQUAL(sent_by(&w, r).messages, n - 1);
      CU_ASSERT_EQUAL(sent_by(&w, r).bytes, all / n * (n - 1));
    }
    run_all(&w, call_of(&w, WEFT_ALL_TO_ALL, weft_shape_vector(rows), WEFT_ALGORITHM_AUTO, 4), 0);
    for (int r = 0; r < n; r++) CU_ASSERT_EQUAL(sent_by(&w, r).bytes, all / n * (n - 1));
    c = call_of(&w, WEFT_SCATTER, weft_shape_vector(rows / n), WEFT_ALGORITHM_AUTO, 5);
    c.root = n - 1;
    run_all(&w, c, rows);
    CU_ASSERT_EQUAL(sent_by(&w, n - 1).bytes, all / n * (n - 1));
    c = call_of(&w, WEFT_REDUCE, weft_shape_vector(rows), WEFT_ALGORITHM_AUTO, 6);
    c.root = 0;
    run_all(&w, c, 0);
    for (int r = 0; r < n; r++) CU_ASSERT_EQUAL(sent_by(&w, r).bytes, r == 0 ? 0 : all);
    run_all(&w, call_of(&w, WEFT_BARRIER, WEFT_SCALAR, WEFT_ALGORITHM_AUTO, 7), 0);
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
    run_all(&w, call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(count), WEFT_ALGORITHM_HALVING_DOUBLING, 1),
            0);
    const int rounds = n == 8 ? 3 : n == 4 ? 2 : 1;
    for (int r = 0; r < n; r++) {
      CU_ASSERT_EQUAL(sent_by(&w, r).bytes, 2 * (n - 1) * 64 * 4);
      CU_ASSERT_EQUAL(sent_by(&w, r).messages, 2 * rounds);
    }
    run_all(&w, call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(count), WEFT_ALGORITHM_DIRECT, 2), 0);
    for (int r = 0; r < n; r++) CU_ASSERT_EQUAL(sent_by(&w, r).bytes, 2 * (n - 1) * 64 * 4);
    world_deinit(&w);
  }
}

static void hosts_save_the_slow_links(void) {
  static const char *const hosts[] = {"a", "a", "a", "a", "b", "b", "b", "b"};
  world_t w;
  world_init(&w, 8, 0, false, hosts);
  const int64_t count = 8 * 1000;
  run_all(&w, call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(count), WEFT_ALGORITHM_HIERARCHICAL, 1), 0);
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

/* ---- time ---- */

static void model_init(world_t *w, int n, double alpha_us, double bytes_per_s) {
  world_init(w, n, 0, true, NULL);
  weft_status_t *s =
      weft_local_hub_set_link(w->hub, WEFT_STR(""), WEFT_STR(""),
                              (weft_link_model_t){.alpha_us = alpha_us, .bytes_per_s = bytes_per_s});
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static double time_of(world_t *w, int64_t bytes, weft_collective_algorithm_t a, int64_t instance) {
  weft_collective_t c = call_of(w, WEFT_ALL_REDUCE, weft_shape_vector(bytes / 4), a, instance);
  c.takes_input = true;
  return run_all(w, c, 0);
}

static void the_ring_takes_the_time_of_its_formula(void) {
  world_t w;
  const int n = 8;
  const double alpha = 200e-6, beta = 1 / 200e6, bytes = 64 << 20;
  model_init(&w, n, alpha * 1e6, 1 / beta);
  const double formula = 2 * (n - 1) * alpha + 2.0 * (n - 1) / n * bytes * beta;
  const double took = time_of(&w, (int64_t)bytes, WEFT_ALGORITHM_RING, 1);
  printf("\n    ring, 8 ranks, 64 MiB: %.1f ms, formula %.1f ms", took * 1e3, formula * 1e3);
  CU_ASSERT(fabs(took - formula) <= 0.15 * formula);
  world_deinit(&w);
}

static void few_rounds_are_better_for_small_tensors(void) {
  world_t w;
  model_init(&w, 8, 200, 200e6);
  const double ring = time_of(&w, 4096, WEFT_ALGORITHM_RING, 1);
  const double halving = time_of(&w, 4096, WEFT_ALGORITHM_HALVING_DOUBLING, 2);
  printf("\n    4 KiB: ring %.2f ms, halving-doubling %.2f ms", ring * 1e3, halving * 1e3);
  CU_ASSERT(ring >= 1.5 * halving);
  world_deinit(&w);
}

static void auto_is_near_the_best_at_every_size(void) {
  static const weft_collective_algorithm_t fixed[] = {WEFT_ALGORITHM_RING, WEFT_ALGORITHM_TREE,
                                                      WEFT_ALGORITHM_HALVING_DOUBLING,
                                                      WEFT_ALGORITHM_HIERARCHICAL, WEFT_ALGORITHM_DIRECT};
  static const int64_t sizes[] = {256, 4096, 64 << 10, 1 << 20, 8 << 20, 32 << 20};
  static const int groups[] = {3, 5, 6, 8};
  for (int g = 0; g < 4; g++) {
    world_t w;
    model_init(&w, groups[g], 200, 200e6);
    for (int z = 0; z < 6; z++) {
      double best = INFINITY;
      for (int a = 0; a < 5; a++) best = fmin(best, time_of(&w, sizes[z], fixed[a], z * 10 + a + 1));
      const double own = time_of(&w, sizes[z], WEFT_ALGORITHM_AUTO, z * 10 + 9);
      if (own > 1.2 * best)
        printf("\n    %d ranks, %lld bytes: auto %.3f ms, best %.3f ms", groups[g], (long long)sizes[z],
               own * 1e3, best * 1e3);
      CU_ASSERT(own <= 1.2 * best);
    }
    world_deinit(&w);
  }
}

static void lost_messages_are_sent_again(void) {
  world_t w;
  world_init(&w, 4, 0, true, NULL);
  weft_status_t *s =
      weft_local_hub_set_link(w.hub, WEFT_STR(""), WEFT_STR(""),
                              (weft_link_model_t){.alpha_us = 100, .bytes_per_s = 1e9, .drop_percent = 30});
  CU_ASSERT_PTR_NULL_FATAL(s);
  int64_t messages = 0;
  for (int i = 0; i < 10; i++) {
    run_all(&w, call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(1000), WEFT_ALGORITHM_RING, 1), 0);
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
    run_all(&w, call_of(&w, WEFT_ALL_REDUCE, weft_shape_vector(5000), WEFT_ALGORITHM_AUTO, 1), 0);
  world_deinit(&w);
}

static const CU_TestInfo tests[] = {
    {"ring all-reduce sends what it must", ring_all_reduce_sends_what_it_must},
    {"a field is sent as often as a tensor", a_field_is_sent_as_often_as_a_tensor},
    {"other primitives send what they must", other_primitives_send_what_they_must},
    {"halving-doubling and direct send as little as the ring",
     halving_doubling_and_direct_send_as_little_as_the_ring},
    {"hosts save the slow links", hosts_save_the_slow_links},
    {"the ring takes the time of its formula", the_ring_takes_the_time_of_its_formula},
    {"few rounds are better for small tensors", few_rounds_are_better_for_small_tensors},
    {"auto is near the best at every size", auto_is_near_the_best_at_every_size},
    {"lost messages are sent again", lost_messages_are_sent_again},
    {"a partition holds messages until it ends", a_partition_holds_messages_until_it_ends},
    {"a link in real time delivers", a_link_in_real_time_delivers},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("traffic", tests); }
