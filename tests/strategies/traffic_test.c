/* tests/strategies/traffic_test.c - what a step sends, on graphs of a few nodes; wire_test.c compares it with
 * what servers count. */
#include "strategies/traffic.h"

#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define T " attr{key:'T' value{type:DT_FLOAT}} "
#define ON(task) " device:'/job:worker/replica:0/task:" task "/device:CPU:0' "
#define X                                                                                   \
  "node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' " \
  "value{shape{dim{size:-1} dim{size:4}}}}" ON("0") "} "
#define NEG(name, input, task) "node{name:'" name "' op:'Neg' input:'" input "'" T ON(task) "} "

/* A rewrite of one worker loop that runs "out", fed x; the client is at task 0. */
static weft_status_t *measure(const char *text, int64_t rows, bool fetches, weft_rewrite_t *r) {
  static weft_str_t x = {"x", 1}, out = {"out", 3};
  *r = (weft_rewrite_t){.arena = WEFT_ARENA_INIT, .graph = weft_test_graph(text), .num_loops = 1};
  r->loops = weft_arena_calloc(&r->arena, 1, sizeof *r->loops);
  if (r->loops == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a worker loop");
  r->loops[0] = (weft_worker_loop_t){.task = WEFT_STR("/job:worker/replica:0/task:0"), .feeds = {&x, 1}};
  if (fetches) r->loops[0].fetches = (weft_names_t){&out, 1};
  if (!fetches) r->loops[0].targets = (weft_names_t){&out, 1};
  return weft_rewrite_measure(r, NULL, rows);
}

static void values_cross_once_for_each_task(void) {
  static const struct {
    const char *text;
    bool fetches;
    int64_t bytes, messages; /* with 10 rows */
  } cases[] = {
      {X NEG("out", "x", "0"), true, 0, 0},
      {X NEG("out", "x", "1"), false, 160, 1}, /* what is fed comes from the client's task */
      {X NEG("out", "x", "1"), true, 320, 2},  /* and what is fetched goes there */
      {X NEG("a", "x", "1") NEG("b", "x", "1") "node{name:'out' op:'AddV2' input:'a' input:'b'" T ON("1") "}",
       false, 160, 1},
      {X NEG("a", "x", "1") NEG("b", "x", "2") "node{name:'out' op:'AddV2' input:'a' input:'b'" T ON("1") "}",
       false, 480, 3},
      {X NEG("a", "x", "0") "node{name:'out' op:'NoOp' input:'^a'" ON("1") "}", false, 0, 1}, /* a signal */
      {X NEG("a", "x", "0") NEG("unused", "a", "1") NEG("out", "a", "0"), true, 0, 0},
      /* a reference is read anew for each consumer */
      {X "node{name:'v' op:'VariableV2' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
         "value{shape{dim{size:5}}}}" ON(
             "1") "} "
                  "node{name:'a' op:'Neg' input:'v'" T ON("0") "} node{name:'b' op:'Neg' input:'v'" T ON(
                      "0") "} "
                           "node{name:'out' op:'AddV2' input:'a' input:'b'" T ON("0") "}",
       true, 40, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_rewrite_t r;
    weft_test_expect(measure(cases[i].text, 10, cases[i].fetches, &r), WEFT_OK, "");
    bool is_right = r.cost.remote_bytes == cases[i].bytes && r.cost.messages == cases[i].messages &&
                    r.cost.num_unknown == 0;
    if (!is_right)
      printf("\n    case %zu: %lld bytes, %lld messages", i, (long long)r.cost.remote_bytes,
             (long long)r.cost.messages);
    CU_ASSERT_TRUE(is_right);
    weft_rewrite_deinit(&r);
  }
}

static void what_depends_on_the_batch_is_told_per_row(void) {
  static const struct {
    const char *text;
    double row_bytes;
    int64_t bytes;
    int num_unknown;
  } cases[] = {
      {X NEG("out", "x", "1"), 16, 0, 0},
      /* a row for each two of them is no number of rows: rows * rows */
      {X "node{name:'a' op:'MatMul' input:'x' input:'x' attr{key:'transpose_b' value{b:true}}" T ON(
           "0") "} " NEG("out", "a", "1"),
       0, 0, 1},
      {X "node{name:'a' op:'MatMul' input:'x' input:'x' attr{key:'transpose_a' value{b:true}}" T ON(
           "0") "} " NEG("out", "a", "1"),
       0, 64, 0},
      {X "node{name:'w' op:'Where' input:'x'" T ON(
           "0") "} node{name:'out' op:'Neg' input:'w' attr{key:'T' value{type:DT_INT64}}" ON("1") "} ",
       0, 0, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_rewrite_t r;
    weft_test_expect(measure(cases[i].text, WEFT_ROWS_ANY, false, &r), WEFT_OK, "");
    bool is_right = r.cost.row_bytes == cases[i].row_bytes && r.cost.bytes == cases[i].bytes &&
                    r.cost.num_unknown == cases[i].num_unknown;
    if (!is_right)
      printf("\n    case %zu: %g a row, %lld bytes, %d unknown", i, r.cost.row_bytes, (long long)r.cost.bytes,
             r.cost.num_unknown);
    CU_ASSERT_TRUE(is_right);
    const weft_node_t *x = weft_test_node(r.graph, "x"); /* the graph is as before */
    CU_ASSERT_EQUAL(x->output_shapes[0].dims[0], WEFT_UNKNOWN_DIM);
    weft_rewrite_deinit(&r);
  }
}

/* What the master will refuse, it refuses; a forecast does not. */
static void loops_that_are_not_as_they_should_be_are_measured(void) {
  static const char text[] = X "node{name:'e' op:'Enter' input:'x' attr{key:'frame_name' value{s:'f'}}" T ON("0") "} "
                               "node{name:'h' op:'Enter' input:'x' attr{key:'frame_name' value{s:'g'}}" T ON("0") "} "
                               "node{name:'out' op:'AddV2' input:'e' input:'h'" T ON("1") "}";
  weft_rewrite_t r;
  weft_test_expect(measure(text, 10, false, &r), WEFT_OK, "");
  CU_ASSERT_EQUAL(r.num_crossings, 2);
  weft_rewrite_deinit(&r);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"values cross once for each task", values_cross_once_for_each_task},
      {"what depends on the batch is told per row", what_depends_on_the_batch_is_told_per_row},
      {"loops that are not as they should be are measured",
       loops_that_are_not_as_they_should_be_are_measured},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("strategies/traffic", tests);
}
