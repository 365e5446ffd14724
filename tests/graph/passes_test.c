#include "graph/passes.h"

#include <stdio.h>

#include "base/alloc.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define T_FLOAT " attr{key:'T' value{type:DT_FLOAT}} "
#define T_INT " attr{key:'T' value{type:DT_INT32}} "
#define INPUT(name, dims) \
  "node{name:'" name      \
  "' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{" dims "}}}} "
#define INTS(name, dims, values)                                                       \
  "node{name:'" name                                                                   \
  "' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' value{tensor{" \
  "dtype:DT_INT32 tensor_shape{" dims "} " values "}}}} "

/* ---- pruning ---- */

static void only_what_the_roots_need_is_kept(void) {
  weft_graph_t *g =
      weft_test_graph(INPUT("x", "") "node{name:'y' op:'Identity' input:'x' input:'^c'" T_FLOAT
                                     "} "
                                     "node{name:'c' op:'NoOp'} node{name:'z' op:'Identity' input:'y'" T_FLOAT
                                     "} "
                                     "node{name:'other' op:'NoOp'}");
  weft_node_t *roots[] = {weft_test_node(g, "y")};
  weft_test_expect(weft_pass_prune(g, roots, 1), WEFT_OK, "");
  CU_ASSERT_EQUAL(g->num_live, 3);
  CU_ASSERT_PTR_NOT_NULL(weft_graph_find(g, WEFT_STR("c")));
  CU_ASSERT_PTR_NULL(weft_graph_find(g, WEFT_STR("z")));
  CU_ASSERT_PTR_NULL(weft_graph_find(g, WEFT_STR("other")));
  weft_graph_destroy(g);
}

/* ---- frames ---- */

#define ENTER(name, input, frame) \
  "node{name:'" name "' op:'Enter' input:'" input "' attr{key:'frame_name' value{s:'" frame "'}}" T_FLOAT "} "

static void nested_loops_have_nested_frames(void) {
  weft_strbuf_t b = weft_test_read("while_v1");
  weft_graph_t *g = NULL;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_frames_t frames;
  weft_test_expect(weft_test_import(weft_str_of(b.data, b.length), &g), WEFT_OK, "");
  weft_test_expect(weft_pass_find_frames(g, &arena, &frames), WEFT_OK, "");
  CU_ASSERT_EQUAL(frames.num_frames, 3);
  int inner = frames.frame_of[weft_test_node(g, "while/while/Merge")->id];
  int outer = frames.frame_of[weft_test_node(g, "while/Merge")->id];
  CU_ASSERT_EQUAL(frames.parent[inner], outer);
  CU_ASSERT_EQUAL(frames.parent[outer], 0);
  CU_ASSERT_EQUAL(frames.frame_of[weft_test_node(g, "out")->id], 0);
  CU_ASSERT(weft_str_is(frames.name[outer], "while/while_context"));
  CU_ASSERT_PTR_EQUAL(frames.loop_cond[inner], weft_test_node(g, "while/while/LoopCond"));
  weft_arena_deinit(&arena);
  weft_strbuf_deinit(&b);
  weft_graph_destroy(g);
}

static void inputs_from_two_frames_are_refused(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x", "") ENTER("e", "x", "f") ENTER(
      "h", "x", "g") "node{name:'y' op:'AddV2' input:'e' input:'h'" T_FLOAT "}");
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_frames_t frames;
  weft_test_expect(
      weft_pass_find_frames(g, &arena, &frames), WEFT_INVALID_ARGUMENT,
      "{{node y}} has inputs from different frames. The input {{node e}} is in frame 'f'. The input "
      "{{node h}} is in frame 'g'.");
  weft_arena_deinit(&arena);
  weft_graph_destroy(g);
}

/* ---- shapes ---- */

static void expect_shape(const weft_graph_t *g, const char *node, const char *shape) {
  const weft_node_t *n = weft_test_node(g, node);
  CU_ASSERT_PTR_NOT_NULL_FATAL(n->output_shapes);
  CU_ASSERT_STRING_EQUAL(WEFT_SHAPE_TEXT(&n->output_shapes[0]), shape);
}

static void shapes_follow_from_inputs_and_constants(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x", "dim{size:-1} dim{size:6}") INPUT(
      "w",
      "dim{size:6} dim{size:4}") "node{name:'y' op:'MatMul' input:'x' input:'w'" T_FLOAT
                                 "} "
                                 /* reshape(w, [prod(shape(w)) / 3, 3]) */
                                 "node{name:'shape' op:'Shape' input:'w'" T_FLOAT
                                 "} " INTS("zero", "dim{size:1}", "int_val:0") INTS(
                                     "three", "",
                                     "int_val:3") "node{name:'prod' op:'Prod' input:'shape' "
                                                  "input:'zero'" T_INT
                                                  " attr{key:'Tidx' value{type:DT_INT32}}} "
                                                  "node{name:'div' op:'FloorDiv' input:'prod' "
                                                  "input:'three'" T_INT
                                                  "} "
                                                  "node{name:'pack' op:'Pack' input:'div' input:'three' "
                                                  "attr{key:'N' value{i:2}}" T_INT
                                                  "} "
                                                  "node{name:'reshaped' op:'Reshape' input:'w' "
                                                  "input:'pack'" T_FLOAT "}");
  weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
  expect_shape(g, "y", "[?,4]");
  expect_shape(g, "reshaped", "[8,3]");
  weft_graph_destroy(g);
}

static void a_slice_of_a_shape_is_known(void) {
  weft_graph_t *g = weft_test_graph(
      INPUT("x", "dim{size:-1} dim{size:6}") INPUT("w", "dim{size:6} dim{size:4}")
      "node{name:'shape' op:'Shape' input:'w'" T_FLOAT "} "
      INTS("b", "dim{size:1}", "int_val:-1") INTS("e", "dim{size:1}", "int_val:0") INTS("s", "dim{size:1}", "int_val:1")
      INTS("two", "", "int_val:2") INTS("axis", "", "int_val:0") INTS("five", "dim{size:1}", "int_val:5")
      "node{name:'last' op:'StridedSlice' input:'shape' input:'b' input:'e' input:'s' attr{key:'shrink_axis_mask' value{i:1}} "
      "attr{key:'Index' value{type:DT_INT32}}" T_INT "} "
      "node{name:'twice' op:'Mul' input:'last' input:'two'" T_INT "} "
      "node{name:'pack' op:'Pack' input:'twice' attr{key:'N' value{i:1}}" T_INT "} "
      "node{name:'dims' op:'ConcatV2' input:'pack' input:'five' input:'axis' attr{key:'N' value{i:2}} "
      "attr{key:'Tidx' value{type:DT_INT32}}" T_INT "} "
      "node{name:'one' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'value' value{tensor{dtype:DT_FLOAT "
      "tensor_shape{} float_val:1}}}} "
      "node{name:'fill' op:'Fill' input:'dims' input:'one'" T_FLOAT " attr{key:'index_type' value{type:DT_INT32}}}");
  weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
  expect_shape(g, "fill", "[8,5]");
  weft_graph_destroy(g);
}

/* What tf.tensordot makes of x [?, 5, 6] and w [6, 4], and the shape of its gradient. */
static void what_is_known_of_a_shape_is_used(void) {
  weft_graph_t *g = weft_test_graph(
      INPUT("x", "dim{size:-1} dim{size:5} dim{size:6}") INPUT("w", "dim{size:6} dim{size:4}")
          INTS("free", "dim{size:2}", "int_val:0 int_val:1") INTS("axes", "dim{size:1}", "int_val:2")
              INTS("zero", "dim{size:1}", "int_val:0") INTS("axis", "", "int_val:0")
                  INTS("four", "dim{size:1}",
                       "int_val:4") "node{name:'shape' op:'Shape' input:'x'" T_FLOAT
                                    "} "
                                    "node{name:'free_dims' op:'GatherV2' input:'shape' input:'free' "
                                    "input:'axis' attr{key:'Tparams' value{type:DT_INT32}} "
                                    "attr{key:'Tindices' value{type:DT_INT32}} attr{key:'Taxis' "
                                    "value{type:DT_INT32}}} "
                                    "node{name:'axes_dims' op:'GatherV2' input:'shape' input:'axes' "
                                    "input:'axis' attr{key:'Tparams' value{type:DT_INT32}} "
                                    "attr{key:'Tindices' value{type:DT_INT32}} attr{key:'Taxis' "
                                    "value{type:DT_INT32}}} "
                                    "node{name:'rows' op:'Prod' input:'free_dims' input:'zero'" T_INT
                                    " attr{key:'Tidx' value{type:DT_INT32}}} "
                                    "node{name:'columns' op:'Prod' input:'axes_dims' input:'zero'" T_INT
                                    " attr{key:'Tidx' value{type:DT_INT32}}} "
                                    "node{name:'matrix_shape' op:'Pack' input:'rows' input:'columns' "
                                    "attr{key:'N' value{i:2}}" T_INT
                                    "} "
                                    "node{name:'matrix' op:'Reshape' input:'x' input:'matrix_shape'" T_FLOAT
                                    "} "
                                    "node{name:'product' op:'MatMul' input:'matrix' input:'w'" T_FLOAT
                                    "} "
                                    "node{name:'dims' op:'ConcatV2' input:'free_dims' input:'four' "
                                    "input:'axis' attr{key:'N' value{i:2}} "
                                    "attr{key:'Tidx' value{type:DT_INT32}}" T_INT
                                    "} "
                                    "node{name:'y' op:'Reshape' input:'product' input:'dims'" T_FLOAT
                                    "} "
                                    "node{name:'gradient' op:'MatMul' input:'matrix' input:'product' "
                                    "attr{key:'transpose_a' value{b:true}}" T_FLOAT "}");
  weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
  expect_shape(g, "matrix", "[?,6]");
  expect_shape(g, "product", "[?,4]");
  expect_shape(g, "y", "[?,5,4]");
  expect_shape(g, "gradient", "[6,4]");
  weft_graph_destroy(g);
}

/* An element that is not known stays so through arithmetic, and is never taken for -1, 0 or 1. */
static void what_is_not_known_of_a_shape_stays_unknown(void) {
  static const struct {
    const char *op, *shape;
  } cases[] = {{"Mul", "[?,12]"},     {"AddV2", "[?,8]"},   {"Sub", "[?,4]"},
               {"FloorDiv", "[?,3]"}, {"Maximum", "[?,6]"}, {"Minimum", "[?,2]"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[1200];
    snprintf(text, sizeof text,
             INPUT("x", "dim{size:-1} dim{size:6}") INTS(
                 "two", "", "int_val:2") "node{name:'shape' op:'Shape' input:'x'" T_FLOAT
                                         "} "
                                         "node{name:'other' op:'%s' input:'shape' input:'two'" T_INT
                                         "} "
                                         "node{name:'one' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} "
                                         "attr{key:'value' value{tensor{dtype:DT_FLOAT "
                                         "tensor_shape{} float_val:1}}}} "
                                         "node{name:'fill' op:'Fill' input:'other' input:'one'" T_FLOAT
                                         " attr{key:'index_type' value{type:DT_INT32}}}",
             cases[i].op);
    weft_graph_t *g = weft_test_graph(text);
    weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
    expect_shape(g, "fill", cases[i].shape);
    weft_graph_destroy(g);
  }
}

static void reading_a_variable_has_its_shape(void) {
  weft_graph_t *g = weft_test_graph(
      "node{name:'v' op:'VarHandleOp' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
      "value{shape{dim{size:7}}}}} "
      "node{name:'i' op:'Identity' input:'v' attr{key:'T' value{type:DT_RESOURCE}}} "
      "node{name:'r' op:'ReadVariableOp' input:'i' attr{key:'dtype' value{type:DT_FLOAT}}}");
  weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
  expect_shape(g, "r", "[7]");
  weft_graph_destroy(g);
}

static void shapes_that_do_not_fit_are_refused_in_tensorflows_words(void) {
  weft_graph_t *g =
      weft_test_graph(INPUT("x", "dim{size:3}") "node{name:'y' op:'MatMul' input:'x' input:'x'" T_FLOAT "}");
  weft_test_expect(
      weft_pass_infer_shapes(g), WEFT_INVALID_ARGUMENT,
      "Shape must be rank 2 but is rank 1 for '{{node y}} = MatMul[T=DT_FLOAT, grad_a=false, grad_b=false, "
      "transpose_a=false, transpose_b=false](x, x)' with input shapes: [3], [3].");
  weft_graph_destroy(g);
}

static void shapes_in_graphs_made_by_tensorflow_fit(void) {
  static const char *const files[] = {"mlp_v1", "mlp_resource", "while_v1"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    weft_strbuf_t b = weft_test_read(files[i]);
    weft_graph_t *g = NULL;
    weft_test_expect(weft_test_import(weft_str_of(b.data, b.length), &g), WEFT_OK, "");
    weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
    if (i < 2) {
      expect_shape(g, "logits", "[?,3]");
      expect_shape(g, "loss", "[]");
    }
    weft_strbuf_deinit(&b);
    weft_graph_destroy(g);
  }
}

/* A loop whose body makes 'y' of 'switch:1'; its shapes. */
static weft_graph_t *loop_over(const char *body) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
#define FRAME "attr{key:'frame_name' value{s:'loop'}} "
  weft_strbuf_puts(
      &text, INPUT("x", "dim{size:-1} dim{size:6}") INPUT("w", "dim{size:6} dim{size:6}") INTS(
                 "axis", "", "int_val:1") "node{name:'enter' op:'Enter' input:'x'" T_FLOAT FRAME
                                          "} "
                                          "node{name:'merge' op:'Merge' input:'enter' input:'next' "
                                          "attr{key:'N' value{i:2}}" T_FLOAT
                                          "} "
                                          "node{name:'go' op:'Const' attr{key:'dtype' value{type:DT_BOOL}} "
                                          "attr{key:'value' value{tensor{dtype:DT_BOOL "
                                          "tensor_shape{} bool_val:false}}} input:'^merge'} "
                                          "node{name:'cond' op:'LoopCond' input:'go'} "
                                          "node{name:'switch' op:'Switch' input:'merge' input:'cond'" T_FLOAT
                                          "} "
                                          "node{name:'exit' op:'Exit' input:'switch'" T_FLOAT
                                          "} "
                                          "node{name:'weights' op:'Enter' input:'w'" T_FLOAT FRAME
                                          "attr{key:'is_constant' value{b:true}}} ");
  weft_strbuf_puts(&text, body);
  weft_strbuf_puts(&text, "node{name:'next' op:'NextIteration' input:'y'" T_FLOAT "} ");
  weft_graph_t *g = weft_test_graph(text.data);
  weft_strbuf_deinit(&text);
  weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
  expect_shape(g, "exit", "<unknown>");
  weft_test_expect(weft_pass_infer_loop_shapes(g), WEFT_OK, "");
  return g;
#undef FRAME
}

static void what_comes_round_a_loop_unchanged_keeps_its_shape(void) {
  weft_graph_t *g = loop_over("node{name:'y' op:'MatMul' input:'switch:1' input:'weights'" T_FLOAT "} ");
  expect_shape(g, "y", "[?,6]");
  expect_shape(g, "exit", "[?,6]");
  weft_graph_destroy(g);
}

static void what_grows_in_a_loop_is_not_known(void) {
  weft_graph_t *g = loop_over(
      "node{name:'y' op:'ConcatV2' input:'switch:1' input:'switch:1' input:'axis2' attr{key:'N' value{i:2}} "
      "attr{key:'Tidx' value{type:DT_INT32}}" T_FLOAT
      "} "
      "node{name:'axis2' op:'Enter' input:'axis' attr{key:'frame_name' value{s:'loop'}} "
      "attr{key:'is_constant' value{b:true}}" T_INT "} ");
  expect_shape(g, "exit", "[?,?]");
  weft_graph_destroy(g);
  g = loop_over(
      "node{name:'y' op:'ExpandDims' input:'switch:1' input:'axis2' attr{key:'Tdim' "
      "value{type:DT_INT32}}" T_FLOAT
      "} "
      "node{name:'axis2' op:'Enter' input:'axis' attr{key:'frame_name' value{s:'loop'}} "
      "attr{key:'is_constant' value{b:true}}" T_INT "} ");
  expect_shape(g, "exit", "<unknown>"); /* not even its rank */
  weft_graph_destroy(g);
}

static void a_dim_of_a_shape_and_the_size_of_an_array_are_known(void) {
  weft_graph_t *g = weft_test_graph(
      INPUT("x", "dim{size:7} dim{size:-1}") "node{name:'shape' op:'Shape' input:'x'" T_FLOAT "} "
      INTS("b", "dim{size:1}", "int_val:0") INTS("e", "dim{size:1}", "int_val:1") INTS("s", "dim{size:1}", "int_val:1")
      "node{name:'steps' op:'StridedSlice' input:'shape' input:'b' input:'e' input:'s' attr{key:'shrink_axis_mask' value{i:1}} "
      "attr{key:'Index' value{type:DT_INT32}}" T_INT "} "
      "node{name:'array' op:'TensorArrayV3' input:'steps' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'element_shape' "
      "value{shape{dim{size:-1} dim{size:3}}}} attr{key:'identical_element_shapes' value{b:true}}} "
      "node{name:'size' op:'TensorArraySizeV3' input:'array' input:'array:1'} "
      INTS("zero", "", "int_val:0") INTS("one", "", "int_val:1")
      "node{name:'range' op:'Range' input:'zero' input:'size' input:'one' attr{key:'Tidx' value{type:DT_INT32}}} "
      "node{name:'all' op:'TensorArrayGatherV3' input:'array' input:'range' input:'array:1' attr{key:'dtype' value{type:DT_FLOAT}}}");
  weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
  expect_shape(g, "all", "[7,?,3]");
  weft_graph_destroy(g);
}

static weft_status_t *infer(weft_str_t bytes) {
  weft_graph_t *g = NULL;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_frames_t frames;
  weft_status_t *s = weft_test_import(bytes, &g);
  if (s == NULL) s = weft_pass_infer_shapes(g);
  if (s == NULL) s = weft_pass_infer_loop_shapes(g);
  if (s == NULL) s = weft_pass_find_frames(g, &arena, &frames);
  if (s == NULL) s = weft_pass_prune(g, NULL, 0);
  weft_arena_deinit(&arena);
  weft_graph_destroy(g);
  return s;
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void) {
  weft_strbuf_t b = weft_test_read("while_v1");
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, infer(weft_str_of(b.data, b.length)));
  CU_ASSERT_TRUE(n > 10);
  weft_strbuf_deinit(&b);
}

static const CU_TestInfo tests[] = {
    {"only what the roots need is kept", only_what_the_roots_need_is_kept},
    {"nested loops have nested frames", nested_loops_have_nested_frames},
    {"inputs from two frames are refused", inputs_from_two_frames_are_refused},
    {"shapes follow from inputs and constants", shapes_follow_from_inputs_and_constants},
    {"a slice of a shape is known", a_slice_of_a_shape_is_known},
    {"what is known of a shape is used", what_is_known_of_a_shape_is_used},
    {"what is not known of a shape stays unknown", what_is_not_known_of_a_shape_stays_unknown},
    {"reading a variable has its shape", reading_a_variable_has_its_shape},
    {"what comes round a loop unchanged keeps its shape", what_comes_round_a_loop_unchanged_keeps_its_shape},
    {"what grows in a loop is not known", what_grows_in_a_loop_is_not_known},
    {"a dim of a shape and the size of an array are known",
     a_dim_of_a_shape_and_the_size_of_an_array_are_known},
    {"shapes that do not fit are refused", shapes_that_do_not_fit_are_refused_in_tensorflows_words},
    {"shapes in graphs made by TensorFlow fit", shapes_in_graphs_made_by_tensorflow_fit},
    {"a failed allocation is reported and leaks nothing", a_failed_allocation_is_reported_and_leaks_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("passes", tests); }
