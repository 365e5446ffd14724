/* tests/strategies/data_parallel_test.c - variables in one place, replicas elsewhere: T-DP-1, T-DP-3, central
 * storage. */
#include <stdio.h>

#include "tests/strategies/training.h"

/* T-DP-1: N = 1..4, 64 and 62 rows, 2 rows on four devices. */
static void results_are_those_of_one_device(void) {
  for (int n = 1; n <= 4; n++) {
    char strategy[64];
    snprintf(strategy, sizeof strategy, "data_parallel:%d", n);
    run_t k = {"mlp64_momentum", strategy, TF_DOUBLE, 32, 10, 50, 64, 62, 1e-12};
    train_beside_one_device(&k);
    k.rows = 2;
    k.last_rows = 1;
    train_beside_one_device(&k);
    run_t in_floats = {"mlp_sgd", strategy, TF_FLOAT, 32, 10, 50, 64, 62, 1e-6};
    train_beside_one_device(&in_floats);
  }
}

static void rows_are_looked_up_where_the_table_is(void) {
  run_t k = {"embedding_adam", "data_parallel:3", TF_INT32, 1000, 4, 30, 64, 62, 1e-5};
  train_beside_one_device(&k);
  k.graph = "embedding_sgd";
  k.strategy = "central_storage:2";
  train_beside_one_device(&k);
}

static void variables_live_where_they_are_told_to(void) {
  run_t k = {"convolution", "central_storage:2,variable_device=CPU:1", TF_FLOAT, 64, 10, 30, 32, 30, 1e-5};
  train_beside_one_device(&k);
  k.strategy = "central_storage:2,variable_device=CPU:3";
  train_beside_one_device(&k);
  use_t u = use_of("convolution", k.strategy);
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  weft_graph_t *g = read_graph("convolution");
  CU_ASSERT_PTR_NULL_FATAL(rewrite_for(g, &u, &r));
  CU_ASSERT_EQUAL(r.num_local_cpus, 4);
  /* T-DP-3: there is one of each, and all that writes it is with it. */
  for (int id = 0; id < r.graph->num_nodes; id++) {
    const weft_node_t *n = r.graph->nodes[id];
    if (n == NULL || (n->flags & (WEFT_OP_VARIABLE | WEFT_OP_UPDATE)) == 0) continue;
    CU_ASSERT(weft_str_ends_with(n->requested_device, "CPU:3"));
    CU_ASSERT_FALSE(weft_str_starts_with(n->name, "replica_1/"));
  }
  weft_rewrite_deinit(&r);
  weft_graph_destroy(g);
}

static const CU_TestInfo tests[] = {
    {"results are those of one device", results_are_those_of_one_device},
    {"rows are looked up where the table is", rows_are_looked_up_where_the_table_is},
    {"variables live where they are told to", variables_live_where_they_are_told_to},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/data_parallel", tests); }
