/* tests/strategies/gradient_shapes_test.c - shapes that follow from the variable that a gradient is applied
 * to. */
#include "strategies/gradient_shapes.h"

#include "graph/passes.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define FLOAT " attr{key:'T' value{type:DT_FLOAT}}"
#define ANY(name) "node{name:'" name "' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}}} "
#define HALF                                                                                          \
  "node{name:'half' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'value' value{tensor{" \
  "dtype:DT_FLOAT tensor_shape{} float_val:0.5}}}} "
#define REFERENCE(dims)                                                                                     \
  "node{name:'v' op:'VariableV2' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{" dims \
  "}}}} "                                                                                                   \
  "node{name:'train' op:'ApplyGradientDescent' input:'v' input:'half' input:'g'" FLOAT "} "
#define RESOURCE(dims)                                                                                       \
  "node{name:'v' op:'VarHandleOp' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{" dims \
  "}}}} "                                                                                                    \
  "node{name:'train' op:'ResourceApplyGradientDescent' input:'v' input:'half' input:'g'" FLOAT "} "
#define MATRIX "dim{size:4} dim{size:3}"

static weft_graph_t *inferred(const char *text) {
  weft_graph_t *g = weft_test_graph(text);
  weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
  weft_test_expect(weft_infer_gradient_shapes(g), WEFT_OK, "");
  return g;
}

static void expect_shape(const weft_graph_t *g, const char *node, const char *shape) {
  const weft_node_t *n = weft_test_node(g, node);
  CU_ASSERT_PTR_NOT_NULL_FATAL(n->output_shapes);
  CU_ASSERT_STRING_EQUAL(WEFT_SHAPE_TEXT(&n->output_shapes[0]), shape);
}

static void gradients_have_the_shape_of_their_variable(void) {
  static const char *const texts[] = {
      HALF REFERENCE(MATRIX) "node{name:'g' op:'Identity' input:'a'" FLOAT "} " ANY("a"),
      HALF RESOURCE(MATRIX) "node{name:'g' op:'Identity' input:'a'" FLOAT "} " ANY("a"),
      HALF RESOURCE(MATRIX) "node{name:'g' op:'Mul' input:'a' input:'half'" FLOAT "} " ANY("a"),
      HALF RESOURCE(MATRIX) "node{name:'g' op:'RealDiv' input:'a' input:'half'" FLOAT "} " ANY("a"),
      HALF RESOURCE(MATRIX) "node{name:'g' op:'AddN' input:'a' input:'b' attr{key:'N' value{i:2}}" FLOAT
                            "} " ANY("a") ANY("b"),
      HALF RESOURCE(MATRIX) "node{name:'g' op:'Neg' input:'n'" FLOAT
                            "} node{name:'n' op:'Mul' input:'half' input:'a'" FLOAT "} " ANY("a"),
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    weft_graph_t *g = inferred(texts[i]);
    expect_shape(g, "g", "[4,3]");
    expect_shape(g, "a", "[4,3]");
    weft_graph_destroy(g);
  }
}

static void nothing_is_said_of_what_may_have_another_shape(void) {
  static const struct {
    const char *text, *shape;
  } cases[] = {
      /* either of two may be broadcast */
      {HALF RESOURCE(MATRIX) "node{name:'g' op:'Mul' input:'a' input:'b'" FLOAT "} " ANY("a") ANY("b"), "?"},
      {HALF RESOURCE(MATRIX) "node{name:'g' op:'Reshape' input:'a' input:'s'" FLOAT "} " ANY(
           "a") "node{name:'s' op:'Placeholder' attr{key:'dtype' value{type:DT_INT32}}} ",
       "?"},
      /* a variable of unknown shape */
      {HALF RESOURCE("dim{size:-1} dim{size:3}") "node{name:'g' op:'Identity' input:'a'" FLOAT "} " ANY("a"),
       "?"},
      /* rows of a variable, and what is assigned to it */
      {HALF "node{name:'v' op:'VarHandleOp' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
            "value{shape{" MATRIX "}}}} " ANY(
                "a") "node{name:'i' op:'Placeholder' attr{key:'dtype' value{type:DT_INT32}}} "
                     "node{name:'train' op:'ResourceSparseApplyAdagrad' input:'v' input:'v' input:'half' "
                     "input:'a' input:'i'" FLOAT " attr{key:'Tindices' value{type:DT_INT32}}}",
       "?"},
      {"node{name:'v' op:'VariableV2' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
       "value{shape{" MATRIX "}}}} "
       "node{name:'train' op:'Assign' input:'v' input:'a' attr{key:'validate_shape' value{b:false}}" FLOAT
       "} " ANY("a"),
       "?"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_graph_t *g = inferred(cases[i].text);
    const weft_node_t *n = weft_test_node(g, "a");
    CU_ASSERT_PTR_NOT_NULL_FATAL(n->output_shapes);
    if (n->output_shapes[0].rank >= 0) printf("\n    case %zu: %s", i, WEFT_SHAPE_TEXT(&n->output_shapes[0]));
    CU_ASSERT_EQUAL(n->output_shapes[0].rank, WEFT_UNKNOWN_DIM);
    weft_graph_destroy(g);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"gradients have the shape of their variable", gradients_have_the_shape_of_their_variable},
      {"nothing is said of what may have another shape", nothing_is_said_of_what_may_have_another_shape},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("strategies/gradient_shapes", tests);
}
