#include "base/alloc.h"
#include "graph/passes.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define T_FLOAT " attr{key:'T' value{type:DT_FLOAT}} "
#define INPUT(name)                                                                                     \
  "node{name:'" name                                                                                    \
  "' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{dim{size:2} " \
  "dim{size:2}}}}} "
#define OP1(name, op, a) "node{name:'" name "' op:'" op "' input:'" a "'" T_FLOAT "} "
#define OP2(name, op, a, b) "node{name:'" name "' op:'" op "' input:'" a "' input:'" b "'" T_FLOAT "} "

static weft_status_t *gradient(weft_graph_t *g, const char *y, const char *x, weft_output_t *out) {
  const weft_output_t ys = {weft_test_node(g, y), 0}, xs = {weft_test_node(g, x), 0};
  return weft_graph_add_gradients(g, (weft_str_t){NULL, 0}, &ys, 1, &xs, 1, NULL, out);
}

static weft_output_t gradient_of(weft_graph_t *g, const char *y, const char *x) {
  weft_output_t out = {NULL, 0};
  weft_test_expect(gradient(g, y, x, &out), WEFT_OK, "");
  return out;
}

static void a_product_has_the_gradient_of_a_product(void) {
  weft_graph_t *g = weft_test_graph(INPUT("a") INPUT("b") OP2("y", "MatMul", "a", "b"));
  weft_output_t da = gradient_of(g, "y", "a");
  CU_ASSERT_PTR_NOT_NULL_FATAL(da.node);
  CU_ASSERT(weft_str_is(da.node->op->name, "MatMul"));
  CU_ASSERT(weft_str_starts_with(da.node->name, "gradients/"));
  CU_ASSERT(weft_str_is(weft_test_node(g, "gradients/OnesLike")->op->name, "OnesLike"));
  CU_ASSERT_PTR_EQUAL(da.node->inputs[1].node, weft_test_node(g, "b"));
  CU_ASSERT_TRUE(weft_node_attr_bool(da.node, "transpose_b", false));
  CU_ASSERT_STRING_EQUAL(WEFT_SHAPE_TEXT(&da.node->output_shapes[0]), "[2,2]");
  weft_graph_destroy(g);
}

static void paths_are_added_up(void) {
  weft_graph_t *g =
      weft_test_graph(INPUT("x") OP1("a", "Tanh", "x") OP1("b", "Exp", "x") OP2("y", "AddV2", "a", "b"));
  weft_output_t dx = gradient_of(g, "y", "x");
  CU_ASSERT_PTR_NOT_NULL_FATAL(dx.node);
  CU_ASSERT(weft_str_is(dx.node->op->name, "AddN"));
  CU_ASSERT_EQUAL(dx.node->num_inputs, 2);
  weft_graph_destroy(g);
}

static void a_tensor_is_its_own_gradient_and_no_path_gives_none(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x") INPUT("z") OP1("y", "Exp", "x"));
  CU_ASSERT(weft_str_is(gradient_of(g, "x", "x").node->op->name, "OnesLike"));
  CU_ASSERT_PTR_NULL(gradient_of(g, "y", "z").node);
  weft_graph_destroy(g);
}

static void gradients_stop_where_an_op_says_so(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x") OP1("s", "StopGradient", "x") OP1("y", "Exp", "s"));
  CU_ASSERT_PTR_NULL(gradient_of(g, "y", "x").node);
  weft_graph_destroy(g);
}

static void second_derivatives_go_through_first_ones(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x") OP1("y", "Exp", "x"));
  weft_output_t dx = gradient_of(g, "y", "x"), ddx = {NULL, 0};
  const weft_output_t x = {weft_test_node(g, "x"), 0};
  weft_test_expect(weft_graph_add_gradients(g, (weft_str_t){NULL, 0}, &dx, 1, &x, 1, NULL, &ddx), WEFT_OK,
                   "");
  CU_ASSERT_PTR_NOT_NULL_FATAL(ddx.node);
  CU_ASSERT(weft_str_starts_with(ddx.node->name, "gradients_1/"));
  weft_graph_destroy(g);
}

static void given_gradients_flow_in(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x") INPUT("dy") OP1("y", "Exp", "x"));
  const weft_output_t x = {weft_test_node(g, "x"), 0}, y = {weft_test_node(g, "y"), 0},
                      dy = {weft_test_node(g, "dy"), 0};
  weft_output_t dx = {NULL, 0};
  weft_test_expect(weft_graph_add_gradients(g, WEFT_STR("mine"), &y, 1, &x, 1, &dy, &dx), WEFT_OK, "");
  CU_ASSERT(weft_str_starts_with(dx.node->name, "mine/"));
  CU_ASSERT_TRUE(weft_test_depends(g, dx.node, dy.node));
  CU_ASSERT_EQUAL(weft_test_count(g, "OnesLike"), 0);
  weft_test_expect(weft_graph_add_gradients(g, WEFT_STR("mine"), &y, 1, &x, 1, &dy, &dx),
                   WEFT_INVALID_ARGUMENT,
                   "prefix [mine] conflicts with existing node in the graph named [mine/");
  weft_graph_destroy(g);
}

static void an_op_without_gradient_is_named(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x") OP1("y", "Copy", "x"));
  weft_output_t dx = {NULL, 0};
  weft_test_expect(gradient(g, "y", "x", &dx), WEFT_NOT_FOUND, "No gradient defined for op: Copy. ");
  weft_graph_destroy(g);
}

static void a_variables_gradient_is_a_tensor(void) {
  weft_graph_t *g = weft_test_graph(INPUT(
      "x") "node{name:'v' op:'VarHandleOp' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
           "value{shape{dim{size:2} dim{size:2}}}} device:'/job:ps'} "
           "node{name:'r' op:'ReadVariableOp' input:'v' attr{key:'dtype' value{type:DT_FLOAT}} "
           "device:'/job:ps'} "
           "node{name:'y' op:'MatMul' input:'x' input:'r'" T_FLOAT "device:'/job:worker'}");
  weft_output_t dv = gradient_of(g, "y", "v"), dr = gradient_of(g, "y", "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(dv.node);
  CU_ASSERT_EQUAL(dv.node->output_types[dv.index], WEFT_F32);
  CU_ASSERT(weft_str_is(dr.node->requested_device, "/job:worker"));
  weft_graph_destroy(g);
}

/* Gradients that TensorFlow's client built are in the file; ours are built beside them. */
static void a_training_graph_can_be_differentiated(void) {
  static const char *const files[] = {"mlp_v1", "mlp_resource"};
  for (size_t i = 0; i < 2; i++) {
    weft_strbuf_t b = weft_test_read(files[i]);
    weft_graph_t *g = NULL;
    weft_test_expect(weft_test_import(weft_str_of(b.data, b.length), &g), WEFT_OK, "");
    weft_strbuf_deinit(&b);
    CU_ASSERT_PTR_NOT_NULL_FATAL(g);
    const weft_output_t y = {weft_test_node(g, "loss"), 0};
    const weft_output_t xs[3] = {
        {weft_test_node(g, "w"), 0}, {weft_test_node(g, "b"), 0}, {weft_test_node(g, "w2"), 0}};
    weft_output_t dx[3] = {{NULL, 0}};
    weft_test_expect(weft_graph_add_gradients(g, (weft_str_t){NULL, 0}, &y, 1, xs, 3, NULL, dx), WEFT_OK, "");
    for (int k = 0; k < 3; k++) {
      CU_ASSERT_PTR_NOT_NULL_FATAL(dx[k].node);
      CU_ASSERT(weft_str_starts_with(dx[k].node->name, "gradients_1/"));
    }
    const weft_shape_t w = weft_shape_matrix(4, 8);
    CU_ASSERT_TRUE(weft_shape_compatible(&dx[0].node->output_shapes[dx[0].index], &w));
    CU_ASSERT_EQUAL(dx[0].node->output_shapes[dx[0].index].rank, 2);
    weft_graph_destroy(g);
  }
}

#define SQUARE(op)                                                                                          \
  "function{signature{name:'square' input_arg{name:'a' type:DT_FLOAT} output_arg{name:'r' type:DT_FLOAT}} " \
  "node_def{name:'m' op:'" op "' input:'a'" T_FLOAT "} ret{key:'r' value:'m:y:0'}} "
#define CALL(name, x) "node{name:'" name "' op:'square' input:'" x "'} "

static void a_call_becomes_what_it_calls(void) {
  weft_graph_t *g =
      weft_test_graph(INPUT("x") CALL("y", "x") OP1("z", "Exp", "y") "library{" SQUARE("Square") "}");
  const weft_node_t *y = weft_test_node(g, "y");
  weft_output_t dx = gradient_of(g, "z", "x");
  CU_ASSERT(weft_str_is(y->op->name, "IdentityN"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "z")->inputs[0].node, y);
  CU_ASSERT_TRUE(weft_test_depends(g, dx.node, weft_test_node(g, "z")));
  CU_ASSERT_PTR_NULL(gradient_of(g, "y", "z").node);
  weft_graph_destroy(g);
}

/* Also where what follows is a call, too. */
static void a_call_s_result_may_be_an_x(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x") CALL("y", "x") CALL("z", "y") "library{" SQUARE("Square") "}");
  const weft_output_t z = {weft_test_node(g, "z"), 0},
                      xs[2] = {{weft_test_node(g, "x"), 0}, {weft_test_node(g, "y"), 0}};
  weft_output_t dx[2];
  weft_test_expect(weft_graph_add_gradients(g, (weft_str_t){NULL, 0}, &z, 1, xs, 2, NULL, dx), WEFT_OK, "");
  CU_ASSERT_PTR_NOT_NULL_FATAL(dx[0].node);
  CU_ASSERT_PTR_NOT_NULL_FATAL(dx[1].node);
  CU_ASSERT_TRUE(weft_test_depends(g, dx[0].node, dx[1].node));
  weft_graph_destroy(g);
}

static void a_function_may_have_a_gradient_of_its_own(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x") CALL("y", "x") "library{" SQUARE(
      "Square") "function{signature{name:'grad' input_arg{name:'a' type:DT_FLOAT} input_arg{name:'dr' "
                "type:DT_FLOAT} output_arg{name:'da' type:DT_FLOAT}} "
                "node_def{name:'m' op:'Mul' input:'a' input:'dr'" T_FLOAT
                "} ret{key:'da' value:'m:z:0'}} gradient{function_name:'square' gradient_func:'grad'}}");
  weft_output_t dx = gradient_of(g, "y", "x");
  CU_ASSERT_TRUE(weft_str_is(weft_test_node(g, "y")->op->name, "square"));
  CU_ASSERT_TRUE(weft_str_is(dx.node->op->name, "SymbolicGradient"));
  weft_test_expect(weft_pass_lower_functions(g, 0), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_test_count(g, "Mul"), 1);
  weft_graph_destroy(g);
}

static void a_call_without_a_gradient_leaves_the_graph_as_it_is(void) {
  weft_output_t dx = {NULL, 0};
  weft_graph_t *h = weft_test_graph(INPUT("x") CALL(
      "y", "x") "library{function{signature{name:'square' input_arg{name:'a' "
                "type:DT_FLOAT} output_arg{name:'r' type:DT_FLOAT}} node_def{name:'m' op:'Copy' "
                "input:'a'" T_FLOAT "} ret{key:'r' value:'m:output:0'}}}");
  weft_test_expect(gradient(h, "y", "x", &dx), WEFT_NOT_FOUND, "No gradient defined for op: Copy. ");
  CU_ASSERT_EQUAL(h->num_nodes, 2);
  CU_ASSERT(weft_str_is(weft_test_node(h, "y")->op->name, "square"));
  weft_graph_destroy(h);
}

/* Loops in loops and a conditional, as nodes and as functional ops. */
static const struct {
  const char *file, *y, *x;
} graphs[] = {
    {"mlp_v1", "loss", "w"}, {"while_v1", "out2", "while/Const_1"}, {"control_v2", "out3", "Const_1"}};
enum { NUM_GRAPHS = sizeof graphs / sizeof graphs[0] };

static weft_status_t *differentiate(int i, weft_str_t bytes, bool *is_there) {
  weft_graph_t *g = NULL;
  weft_output_t dx = {NULL, 0};
  weft_status_t *s = weft_test_import(bytes, &g);
  if (s == NULL) s = gradient(g, graphs[i].y, graphs[i].x, &dx);
  *is_there = s == NULL && dx.node != NULL;
  weft_graph_destroy(g);
  return s;
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void) {
  for (int i = 0; i < NUM_GRAPHS; i++) {
    weft_strbuf_t b = weft_test_read(graphs[i].file);
    long n;
    bool is_there = false;
    WEFT_FAIL_EACH_ALLOCATION(n, s, differentiate(i, weft_str_of(b.data, b.length), &is_there));
    CU_ASSERT_TRUE(n > 10);
    CU_ASSERT_TRUE(is_there);
    weft_strbuf_deinit(&b);
  }
}

static const CU_TestInfo tests[] = {
    {"a product has the gradient of a product", a_product_has_the_gradient_of_a_product},
    {"paths are added up", paths_are_added_up},
    {"a tensor is its own gradient, no path gives none", a_tensor_is_its_own_gradient_and_no_path_gives_none},
    {"gradients stop where an op says so", gradients_stop_where_an_op_says_so},
    {"second derivatives go through first ones", second_derivatives_go_through_first_ones},
    {"given gradients flow in", given_gradients_flow_in},
    {"an op without gradient is named", an_op_without_gradient_is_named},
    {"a variable's gradient is a tensor", a_variables_gradient_is_a_tensor},
    {"a training graph can be differentiated", a_training_graph_can_be_differentiated},
    {"a call becomes what it calls", a_call_becomes_what_it_calls},
    {"a call's result may be an x", a_call_s_result_may_be_an_x},
    {"a function may have a gradient of its own", a_function_may_have_a_gradient_of_its_own},
    {"a call without a gradient leaves the graph as it is",
     a_call_without_a_gradient_leaves_the_graph_as_it_is},
    {"a failed allocation is reported and leaks nothing", a_failed_allocation_is_reported_and_leaks_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("gradients", tests); }
