/* The plan of the data axis, taken at its word: on graphs that TensorFlow made, each value of each
 * replica is compared with the value of one device. tests/oracle/data_axis_graphs.py says what the graphs
 * are.
 */
#include <stdio.h>

#include "graph/passes.h"
#include "tests/runner.h"
#include "tests/sharding/data_replicas.h"

static const char *const train[] = {"train", NULL};

static void check(const char *name, double tolerance, const int *shares) {
  weft_data_case_t c = {.name = name, .roots = train, .init = "init", .steps = 3, .tolerance = tolerance};
  for (int i = 0; i < MAX_SHARES; i++) c.shares[i] = shares[i];
  CU_ASSERT(weft_data_check(&c) > 0);
}
static void check_float64(const char *name) {
  static const int even[] = {4, 4, 0, 0}, uneven[] = {5, 2, 4, 0}, four[] = {1, 3, 2, 6},
                   one[] = {7, 0, 0, 0};
  check(name, 1e-10, even);
  check(name, 1e-10, uneven);
  check(name, 1e-10, four);
  check(name, 1e-10, one);
}
static void check_float32(const char *name) {
  static const int even[] = {4, 4, 0, 0}, uneven[] = {5, 2, 4, 0};
  check(name, 2e-4, even);
  check(name, 2e-4, uneven);
}

/* Gradients as our own builder writes them, beside TensorFlow's. */
static void check_own_gradients(const char *name, double tolerance, const char *const *variables) {
  static char names[8][128];
  const char *roots[8] = {NULL};
  weft_output_t xs[4], dx[4];
  int n = 0;
  weft_graph_t *g = weft_data_test_graph(name);
  for (; variables[n] != NULL; n++) xs[n] = (weft_output_t){weft_graph_find(g, weft_str(variables[n])), 0};
  const weft_output_t loss = {weft_graph_find(g, WEFT_STR("Mean")), 0};
  CU_ASSERT_PTR_NOT_NULL_FATAL(loss.node);
  for (int i = 0; i < n; i++) CU_ASSERT_PTR_NOT_NULL_FATAL(xs[i].node);
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_add_gradients(g, WEFT_STR("ours"), &loss, 1, xs, n, NULL, dx));
  for (int i = 0; i < n; i++) {
    CU_ASSERT_PTR_NOT_NULL_FATAL(dx[i].node);
    (void)snprintf(names[i], sizeof names[i], "%.*s", WEFT_STR_ARGS(dx[i].node->name));
    roots[i] = names[i];
  }
  const weft_data_case_t c = {.name = name,
                              .graph = g,
                              .roots = roots,
                              .init = "init",
                              .steps = 1,
                              .tolerance = tolerance,
                              .shares = {5, 1, 4}};
  CU_ASSERT(weft_data_check(&c) > 0);
  weft_graph_destroy(g);
}
static void own_gradients_are_sharded_as_the_plan_says(void) {
  static const char *const dense[] = {"h_w/read", "h_b/read", "o_w/read", NULL};
  static const char *const conv[] = {"c/read", "cb/read", "o_w/read", NULL};
  check_own_gradients("mlp", 1e-10, dense);
  check_own_gradients("conv", 2e-4, conv);
}

#define CASE64(name) \
  static void name(void) { check_float64(#name); }
#define CASE32(name) \
  static void name(void) { check_float32(#name); }
#include "tests/sharding/data_cases.def"
#undef CASE64
#undef CASE32

static const CU_TestInfo tests[] = {
#define CASE64(name) {#name " is sharded as the plan says", name},
#define CASE32(name) {#name " is sharded as the plan says", name},
#include "tests/sharding/data_cases.def"
#undef CASE64
#undef CASE32
    {"own gradients are sharded as the plan says", own_gradients_are_sharded_as_the_plan_says},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("data_numbers", tests); }
