#include "base/alloc.h"
#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

#define GRAPH                          \
  FED("x", "dim{size:2}")              \
  FLOAT_CONST("a", "3")                \
  FLOAT_CONST("b", "4")                \
  NODE("m", "Mul", IN2("a", "b"), T_F) \
  NODE("i", "Identity", IN1("x"), T_F) \
  NODE("p", "Mul", IN2("i", "m"), T_F) \
  NODE("q", "Mul", IN2("x", "m"), T_F) NODE("y", "Sub", IN2("p", "q"), T_F)

static weft_graph_t *original;

static weft_status_t *copy_again(void *arg, weft_graph_t **out) {
  (*(int *)arg)++;
  weft_fault_arm(-1);
  return weft_graph_copy(original, out);
}

/* The graph is either as it was, or optimised by the passes that did not fail. */
static weft_status_t *optimize(int fail_at, int *rebuilt, bool *out_fired, weft_graph_t **g) {
  const weft_str_t keep[] = {WEFT_STR("y")};
  const weft_optimize_options_t o = {
      .settings = {.passes = WEFT_ALL_PASSES, .rounds = 2, .max_folded_bytes = 1000},
      .keep = keep,
      .num_keep = 1,
      .evaluator = weft_test_evaluator(),
      .rebuild = copy_again,
      .rebuild_arg = rebuilt};
  *rebuilt = 0;
  WEFT_RETURN_IF_ERROR(weft_graph_copy(original, g));
  weft_fault_arm(fail_at);
  weft_status_t *s = weft_optimize(g, &o);
  *out_fired = *rebuilt > 0 || weft_fault_fired();
  weft_fault_arm(-1);
  return s;
}

static void a_pass_that_fails_leaves_the_graph_usable(void) {
  original = weft_test_graph(GRAPH);
  bool fired = true;
  for (int n = 0; fired; n++) {
    weft_graph_t *g = NULL;
    int rebuilt = 0;
    weft_test_expect(optimize(n, &rebuilt, &fired, &g), WEFT_OK, "");
    weft_node_t **order = NULL;
    weft_test_expect(weft_graph_topological_order(g, &order), WEFT_OK, "");
    CU_ASSERT(weft_test_depends(g, weft_test_node(g, "y"), weft_test_node(g, "x")));
    if (!fired) {
      CU_ASSERT_EQUAL(rebuilt, 0);
      CU_ASSERT_EQUAL(g->num_live, 4); /* x, m = 12, one product, y */
    }
    weft_free(order);
    weft_graph_destroy(g);
  }
  weft_graph_destroy(original);
}

static void a_small_graph_is_left_alone(void) {
  weft_graph_t *g =
      weft_test_graph(FED("x", "") NODE("i", "Identity", IN1("x"), T_F) NODE("y", "Neg", IN1("i"), T_F));
  const weft_optimize_options_t o = {.settings = weft_pass_defaults()};
  weft_test_expect(weft_optimize(&g, &o), WEFT_OK, "");
  CU_ASSERT_EQUAL(g->num_live, 3);
  weft_graph_destroy(g);
}

typedef struct notes {
  int folded, merged, read_as, dropped;
} notes_t;

static void take_note(void *arg, const char *pass, const weft_node_t *n, const char *what, weft_str_t other) {
  notes_t *notes = arg;
  (void)n;
  if (strcmp(what, "is a constant") == 0) notes->folded += strcmp(pass, "fold") == 0 && other.data == NULL;
  if (strcmp(what, "is the same as") == 0) notes->merged += strcmp(pass, "share") == 0 && other.length > 0;
  if (strcmp(what, "is read as") == 0) notes->read_as += strcmp(pass, "identities") == 0;
  if (strcmp(what, "is not needed") == 0) notes->dropped++;
}

static void notes_say_what_became_of_each_node(void) {
  const weft_str_t keep[] = {WEFT_STR("y")};
  notes_t notes = {0};
  weft_graph_t *g = weft_test_graph(GRAPH);
  const weft_optimize_options_t o = {.settings = weft_pass_defaults(),
                                     .keep = keep,
                                     .num_keep = 1,
                                     .evaluator = weft_test_evaluator(),
                                     .note = take_note,
                                     .note_arg = &notes};
  weft_test_expect(weft_optimize(&g, &o), WEFT_OK, "");
  CU_ASSERT_EQUAL(notes.folded, 1);
  CU_ASSERT_EQUAL(notes.merged, 1);
  CU_ASSERT_EQUAL(notes.read_as, 1);
  CU_ASSERT_EQUAL(notes.dropped, 4);
  weft_graph_destroy(g);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"a pass that fails leaves the graph usable", a_pass_that_fails_leaves_the_graph_usable},
      {"a small graph is left alone", a_small_graph_is_left_alone},
      {"notes say what became of each node", notes_say_what_became_of_each_node},
      CU_TEST_INFO_NULL,
  };
  const int status = weft_run_tests("optimize", tests);
  weft_test_evaluator_destroy();
  return status;
}
