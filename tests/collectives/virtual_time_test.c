/* T-COL-3: how long collectives take on links of a known kind, in virtual time: a busy machine changes
 * nothing. */
#include <math.h>
#include <stdio.h>

#include "tests/collectives/world.h"
#include "tests/runner.h"

static void model_init(world_t *w, int n, double alpha_us, double bytes_per_s) {
  world_init(w, n, 0, true, NULL);
  weft_status_t *s =
      weft_local_hub_set_link(w->hub, WEFT_STR(""), WEFT_STR(""),
                              (weft_link_model_t){.alpha_us = alpha_us, .bytes_per_s = bytes_per_s});
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static double time_of(world_t *w, int64_t bytes, weft_collective_algorithm_t a, int64_t instance) {
  weft_collective_t c = world_call_of(w, WEFT_ALL_REDUCE, weft_shape_vector(bytes / 4), a, instance);
  c.takes_input = true;
  return world_run_all(w, c, 0);
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

static const CU_TestInfo tests[] = {
    {"the ring takes the time of its formula", the_ring_takes_the_time_of_its_formula},
    {"few rounds are better for small tensors", few_rounds_are_better_for_small_tensors},
    {"auto is near the best at every size", auto_is_near_the_best_at_every_size},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("virtual time", tests); }
