/* Transposes between channels last and channels first: which ones go, and what is between them then. */
#include <time.h>

#include "graph/passes.h"
#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

#define TO_FIRST INTS_CONST("to_first", "4", "int_val:0 int_val:3 int_val:1 int_val:2")
#define TO_LAST INTS_CONST("to_last", "4", "int_val:0 int_val:2 int_val:3 int_val:1")
#define IMAGE FED("image", "dim{size:2} dim{size:8} dim{size:9} dim{size:3}")
#define FILTER(name, in, out) FED(name, "dim{size:3} dim{size:3} dim{size:" in "} dim{size:" out "}")
#define ONES "value{list{i:1 i:1 i:1 i:1}}"
#define CONV(name, in, filter)          \
  NODE(name, "Conv2D", IN2(in, filter), \
       T_F "attr{key:'strides' " ONES "} attr{key:'padding' value{s:'SAME'}}")
#define FIRST(name, in) NODE(name, "Transpose", IN2(in, "to_first"), T_F)
#define LAST(name, in) NODE(name, "Transpose", IN2(in, "to_last"), T_F)
#define ONE(name, op, in) NODE(name, op, IN1(in), T_F)
#define TWO(name, op, a, b) NODE(name, op, IN2(a, b), T_F)
/* A convolution whose result is brought to channels first. */
#define BEGIN \
  TO_FIRST TO_LAST IMAGE FILTER("f", "3", "4") FILTER("g", "4", "4") CONV("c", "image", "f") FIRST("x", "c")
#define END(in) LAST("back", in) CONV("d", "back", "g") ONE("y", "Neg", "d")

static int transposes(const weft_graph_t *g) { return weft_test_count(g, "Transpose"); }

static void expect_dims(const weft_graph_t *g, const char *node, const char *attr, const int64_t *dims) {
  const weft_attr_t *a = weft_node_attr(weft_test_node(g, node), attr);
  CU_ASSERT_PTR_NOT_NULL_FATAL(a);
  for (int i = 0; i < a->n; i++) CU_ASSERT_EQUAL(a->list.ints[i], dims[i]);
}

/* The numbers of a constant input, after all passes. */
static void expect_numbers(const weft_graph_t *g, const char *node, int input, int n, const int32_t *want) {
  const weft_node_t *c = weft_test_node(g, node)->inputs[input].node;
  CU_ASSERT_FATAL((c->flags & WEFT_OP_CONST) != 0);
  const weft_tensor_t *t = weft_node_attr(c, "value")->tensor;
  CU_ASSERT_EQUAL_FATAL(t->count, n);
  for (int i = 0; i < n; i++) CU_ASSERT_EQUAL(((const int32_t *)t->data)[i], want[i]);
}

static void elementwise_nodes_keep_the_order_of_convolutions(void) {
  weft_graph_t *g = weft_test_optimized1(
      BEGIN ONE("r", "Relu", "x") TWO("s", "AddV2", "r", "x") ONE("t", "Tanh", "s") END("t"), "layout", "y");
  CU_ASSERT_EQUAL(transposes(g), 0);
  CU_ASSERT(weft_test_reads(g, "r", 0, "c"));
  CU_ASSERT(weft_test_reads(g, "s", 1, "c"));
  CU_ASSERT(weft_test_reads(g, "d", 0, "t"));
  weft_graph_destroy(g);
}

static void numbers_of_dimensions_are_changed(void) {
  weft_graph_t *g = weft_test_optimized1(
      BEGIN CONST("paddings", "DT_INT32", "dim{size:4} dim{size:2}",
                  "int_val:0 int_val:0 int_val:0 int_val:0 int_val:1 int_val:2 int_val:3 int_val:4")
          INT_CONST("axis", "1") NODE("p", "Pad", IN2("x", "paddings"), T_F)
              NODE("j", "ConcatV2", IN3("p", "p", "axis"), T_F "attr{key:'N' value{i:2}}")
                  NODE("sp", "Split", IN2("axis", "j"), T_F "attr{key:'num_split' value{i:2}}")
                      INTS_CONST("hw", "2", "int_val:-1 int_val:2")
                          NODE("m", "Mean", IN2("sp:1", "hw"), T_F "attr{key:'keep_dims' value{b:true}}")
                              TWO("u", "Mul", "m", "sp") END("u"),
      "all", "y");
  CU_ASSERT_EQUAL(transposes(g), 0);
  expect_numbers(g, "p", 1, 8, (const int32_t[]){0, 0, 1, 2, 3, 4, 0, 0});
  expect_numbers(g, "j", 2, 1, (const int32_t[]){3});
  expect_numbers(g, "sp", 0, 1, (const int32_t[]){3});
  expect_numbers(g, "m", 1, 2, (const int32_t[]){2, 1});
  weft_graph_destroy(g);
}

#define SIX "value{list{i:1 i:1 i:2 i:3}}"
static void channels_come_last_on_cpus(void) {
#define CONV_FIRST(name, in, filter)    \
  NODE(name, "Conv2D", IN2(in, filter), \
       T_F "attr{key:'strides' " SIX    \
           "} attr{key:'padding' value{s:'SAME'}} attr{key:'data_format' value{s:'NCHW'}}")
  weft_graph_t *g = weft_test_optimized1(
      FED("image", "dim{size:-1} dim{size:3} dim{size:18} dim{size:27}") FILTER("f", "3", "4")
          FILTER("g", "4", "4") FED("b", "dim{size:4}") CONV_FIRST("c", "image", "f")
              NODE("s", "BiasAdd", IN2("c", "b"), T_F "attr{key:'data_format' value{s:'NCHW'}}")
                  ONE("r", "Relu", "s") NODE(
                      "p", "MaxPool", IN1("r"),
                      T_F "attr{key:'ksize' " SIX "} attr{key:'strides' " SIX
                          "} attr{key:'padding' value{s:'VALID'}} attr{key:'data_format' value{s:'NCHW'}}")
                      CONV_FIRST("d", "p", "g") ONE("y", "Neg", "d"),
      "layout", "y");
  const int64_t dims[] = {1, 2, 3, 1};
  CU_ASSERT_EQUAL(transposes(g), 2);
  for (const char *const *each = (const char *const[]){"c", "s", "p", "d", NULL}; *each != NULL; each++)
    CU_ASSERT(weft_str_is(weft_node_attr_string(weft_test_node(g, *each), "data_format"), "NHWC"));
  expect_dims(g, "c", "strides", dims);
  expect_dims(g, "p", "ksize", dims);
  expect_dims(g, "p", "strides", dims);
  expect_dims(g, "d", "strides", dims);
  CU_ASSERT(weft_test_reads(g, "y", 0, "d/Transpose"));
  weft_graph_destroy(g);
}

/* Operands of a lower rank are padded with ones; what keeps its places is viewed. */
static void operands_are_brought_into_the_order(void) {
  weft_graph_t *g =
      weft_test_optimized1(BEGIN FED("v", "dim{size:4} dim{size:1} dim{size:1}") FED("one", "")
                               FED("row", "dim{size:9}") TWO("s", "Mul", "x", "v") TWO("t", "Mul", "one", "s")
                                   TWO("u", "Mul", "t", "row") ONE("e", "Relu", "u") END("e"),
                           "layout", "y");
  CU_ASSERT_EQUAL(transposes(g), 0);
  CU_ASSERT(weft_test_reads(g, "s", 1, "v/Reshape"));
  CU_ASSERT(weft_test_reads(g, "t", 0, "one"));
  CU_ASSERT(weft_test_reads(g, "u", 1, "row/Reshape"));
  weft_graph_destroy(g);
}

static void other_readers_get_the_order_that_they_had(void) {
  const char *const keep[] = {"y", "q", "z", "wk", NULL};
  weft_graph_t *g = weft_test_optimized(BEGIN ONE("r", "Relu", "x") ONE("q", "Softmax", "r") LAST("also", "r")
                                            TWO("z", "AddV2", "also", "also") ONE("w", "Shape", "r")
                                                NODE("k", "Size", IN1("r"), T_F)
                                                    NODE("wk", "Mul", IN2("w", "k"), T_I) END("r"),
                                        "layout", keep);
  CU_ASSERT_EQUAL(transposes(g), 1);
  CU_ASSERT(weft_test_reads(g, "q", 0, "r/Transpose"));
  CU_ASSERT(weft_test_reads(g, "z", 0, "r"));
  CU_ASSERT(weft_test_reads(g, "k", 0, "r"));
  CU_ASSERT(weft_str_is(weft_test_node(g, "wk")->inputs[0].node->op->name, "GatherV2"));
  weft_graph_destroy(g);
}

/* As gradients of convolutions ask for the shapes of both operands. */
static void shapes_are_gathered(void) {
  const char *const keep[] = {"y", "w", NULL};
  weft_graph_t *g = weft_test_optimized(
      BEGIN ONE("r", "Relu", "x") NODE("n", "ShapeN", IN3("r", "g", "x"), T_F "attr{key:'N' value{i:3}}")
          NODE("w", "Add", IN2("n", "n:1"), T_I) NODE("v", "Mul", IN2("w", "n:2"), T_I) END("r"),
      "layout", keep);
  CU_ASSERT_EQUAL(transposes(g), 0);
  CU_ASSERT(weft_str_is(weft_test_node(g, "w")->inputs[0].node->op->name, "GatherV2"));
  CU_ASSERT(weft_test_reads(g, "w", 1, "n"));
  CU_ASSERT(weft_test_reads(g, "n", 0, "r"));
  CU_ASSERT(weft_test_reads(g, "n", 2, "c"));
  weft_graph_destroy(g);
}

static void what_gains_nothing_stays(void) {
  const char *const graphs[] = {
      BEGIN ONE("r", "Relu", "x") ONE("y", "Softmax", "r"), /* in one order, out of it in another */
      BEGIN ONE("r", "Softmax", "x") END("r"),              /* of the last dimension */
      BEGIN ONE("r", "Relu", "x") TWO("s", "AddV2", "r", "r") LAST("t", "s")
          TWO("y", "AddV2", "t", "x"), /* read */
  };
  const int want[] = {1, 2, 1};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    weft_graph_t *g = weft_test_optimized1(graphs[i], "layout", "y");
    if (transposes(g) != want[i]) fprintf(stderr, "graph %zu: %d transposes\n", i, transposes(g));
    CU_ASSERT_EQUAL(transposes(g), want[i]);
    weft_graph_destroy(g);
  }
}

/* Floats that are added up keep their order but in regions of images. */
static void sums_are_moved_in_images_only(void) {
#define SUMS(perm, back)                                                        \
  INTS_CONST("perm", "3", perm)                                                 \
  INTS_CONST("back", "3", back)                                                 \
  INT_CONST("axis", "1")                                                        \
  FED("a", "dim{size:2} dim{size:3} dim{size:4}")                               \
  NODE("x", "Transpose", IN2("a", "perm"), T_F)                                 \
  NODE("m", "Sum", IN2("x", "axis"), T_F "attr{key:'keep_dims' value{b:true}}") \
  TWO("s", "Mul", "m", "x")                                                     \
  NODE("back_again", "Transpose", IN2("s", "back"), T_F) ONE("y", "Neg", "back_again")
  weft_graph_t *g = weft_test_optimized1(
      SUMS("int_val:2 int_val:1 int_val:0", "int_val:2 int_val:1 int_val:0"), "layout", "y");
  CU_ASSERT(transposes(g) >= 2);
  weft_graph_destroy(g);
  g = weft_test_optimized1(SUMS("int_val:0 int_val:2 int_val:1", "int_val:0 int_val:2 int_val:1"), "layout",
                           "y");
  CU_ASSERT_EQUAL(transposes(g), 0);
  weft_graph_destroy(g);
}

/* A loop's body has its constants in the loop. */
static void nodes_that_are_waited_for_or_wait_stay_in_place(void) {
  weft_graph_t *g = weft_test_optimized1(
      BEGIN ONE("r", "Relu", "x") NODE("t", "Transpose", IN2("r", "to_last") " input:'^image'", T_F)
          CONV("d", "t", "g") ONE("y", "Neg", "d"),
      "layout", "y");
  CU_ASSERT_EQUAL(transposes(g), 2); /* one waits */
  weft_graph_destroy(g);
}

/* Of this thread. */
static double processor_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of_chain(int n, int *out_num_transposes) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&b, BEGIN);
  weft_strbuf_puts(&b, ONE("n0", "Relu", "x"));
  for (int i = 1; i < n; i++)
    weft_strbuf_printf(&b, "node{name:'n%d' op:'AddV2' input:'n%d' input:'%s'" T_F "} ", i, i - 1,
                       i % 3 == 0 ? "x" : "image_first");
  weft_strbuf_puts(
      &b, FED("wide", "dim{size:2} dim{size:8} dim{size:9} dim{size:4}") FIRST("image_first", "wide"));
  weft_strbuf_printf(&b, "node{name:'back' op:'Transpose' input:'n%d' input:'to_last' " T_F "}", n - 1);
  weft_strbuf_puts(&b, ONE("y", "Neg", "back"));
  weft_graph_t *g = weft_test_graph(b.data);
  const weft_str_t keep = WEFT_STR("y");
  weft_optimize_options_t o = {.settings = weft_pass_defaults(), .keep = &keep, .num_keep = 1};
  o.settings.passes = WEFT_PASS_BIT(WEFT_PASS_LAYOUT);
  const double begin = processor_seconds();
  weft_test_expect(weft_optimize(&g, &o), WEFT_OK, "");
  const double seconds = processor_seconds() - begin;
  *out_num_transposes = transposes(g);
  weft_graph_destroy(g);
  weft_strbuf_deinit(&b);
  return seconds;
}

static void long_chains_take_linear_time(void) {
  int num = -1;
  const double seconds = seconds_of_chain(100000, &num);
  CU_ASSERT_EQUAL(num, 0);
  CU_ASSERT(seconds < 5); /* half a second; quadratic would be minutes */
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"elementwise nodes keep the order of convolutions", elementwise_nodes_keep_the_order_of_convolutions},
      {"numbers of dimensions are changed", numbers_of_dimensions_are_changed},
      {"channels come last on CPUs", channels_come_last_on_cpus},
      {"operands are brought into the order", operands_are_brought_into_the_order},
      {"other readers get the order that they had", other_readers_get_the_order_that_they_had},
      {"shapes are gathered", shapes_are_gathered},
      {"what gains nothing stays", what_gains_nothing_stays},
      {"sums are moved in images only", sums_are_moved_in_images_only},
      {"nodes that are waited for or wait stay in place", nodes_that_are_waited_for_or_wait_stay_in_place},
      {"long chains take linear time", long_chains_take_linear_time},
      CU_TEST_INFO_NULL,
  };
  const int failed = weft_run_tests("layout", tests);
  weft_test_evaluator_destroy();
  return failed;
}
