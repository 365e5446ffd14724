#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

#define IN_FRAME "attr{key:'frame_name' value{s:'f'}} "
#define STAYS IN_FRAME "attr{key:'is_constant' value{b:true}} "
#define T_V "attr{key:'T' value{type:DT_VARIANT}} "
#define OF_FLOATS "attr{key:'element_dtype' value{type:DT_FLOAT}} "
#define LIST_OF(columns)                                           \
  FED("x", "")                                                     \
  CONST("w", "DT_FLOAT", "dim{size:3} dim{size:4}", "float_val:1") \
  INTS_CONST("shape", "2", "int_val:-1 int_val:" columns)          \
  NODE("list", "TensorListFromTensor", IN2("x", "shape"),          \
       OF_FLOATS "attr{key:'shape_type' value{type:DT_INT32}}")
/* A loop over `i`, whose body reads item i of `list_in`. */
#define LOOP_WITH(list_in)                                                                    \
  INT_CONST("zero", "0")                                                                      \
  NODE("e", "Enter", IN1("zero"), T_I IN_FRAME)                                               \
  NODE("m", "Merge", IN2("e", "n"), T_I "attr{key:'N' value{i:2}}")                           \
  NODE("t", "Const", "input:'^m'",                                                            \
       "attr{key:'dtype' value{type:DT_BOOL}} attr{key:'value' value{tensor{dtype:DT_BOOL "   \
       "tensor_shape{} bool_val:false}}}")                                                    \
  NODE("l", "LoopCond", IN1("t"), "")                                                         \
  NODE("s", "Switch", IN2("m", "l"), T_I)                                                     \
  NODE("i", "Identity", IN1("s:1"), T_I)                                                      \
  NODE("n", "NextIteration", IN1("i"), T_I)                                                   \
  NODE("z", "Exit", IN1("s"), T_I)                                                            \
  NODE("item_shape", "Const", "input:'^i'",                                                   \
       "attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' value{tensor{dtype:DT_INT32 " \
       "tensor_shape{dim{size:2}} int_val:-1 int_val:-1}}}")                                  \
  NODE("item", "TensorListGetItem", IN3(list_in, "i", "item_shape"), OF_FLOATS)
#define LIST_STAYS NODE("list_in", "Enter", IN1("list"), T_V STAYS)
#define MATRIX_STAYS NODE("w_in", "Enter", IN1("w"), T_F STAYS)
#define PRODUCT(attrs) NODE("p", "MatMul", IN2("item", "w_in"), T_F attrs) NODE("q", "Neg", IN1("p"), T_F)

static weft_graph_t *optimized(const char *text) {
  return weft_test_optimized(text, "loops", (const char *const[]){"q", "z", NULL});
}

/* Reads `item` a slice of products x . w? */
static void check_item(const weft_node_t *item) {
  CU_ASSERT_FATAL(weft_str_is(item->op->name, "TensorListGetItem"));
  const weft_node_t *enter = item->inputs[0].node;
  CU_ASSERT_FATAL(weft_str_is(enter->op->name, "Enter"));
  CU_ASSERT(weft_node_attr_bool(enter, "is_constant", false));
  CU_ASSERT(weft_str_is(weft_node_attr_string(enter, "frame_name"), "f"));
  const weft_node_t *list = enter->inputs[0].node;
  CU_ASSERT_FATAL(weft_str_is(list->op->name, "TensorListFromTensor"));
  const weft_node_t *product = list->inputs[0].node;
  CU_ASSERT_FATAL(weft_str_is(product->op->name, "BatchMatMulV2"));
  CU_ASSERT(weft_str_is(product->inputs[0].node->name, "x"));
  CU_ASSERT(weft_str_is(product->inputs[1].node->name, "w"));
  CU_ASSERT_EQUAL(product->num_controls, 1); /* the list, which fails where x does not fit */
  CU_ASSERT(weft_str_is(product->controls[0]->name, "list"));
}

static void a_product_of_slices_is_made_before_the_loop(void) {
  weft_graph_t *g = optimized(LIST_OF("3") LIST_STAYS MATRIX_STAYS LOOP_WITH("list_in") PRODUCT(""));
  CU_ASSERT(weft_test_reads(g, "q", 0, "item"));
  check_item(weft_test_node(g, "item"));
  CU_ASSERT(weft_test_is_gone(g, "p"));
  weft_graph_destroy(g);
}

static void a_list_may_be_a_variable_of_the_loop_that_stays(void) {
  weft_graph_t *g =
      optimized(LIST_OF("3") MATRIX_STAYS LOOP_WITH("list_i") PRODUCT("")
                    NODE("list_e", "Enter", IN1("list"), T_V IN_FRAME)
                        NODE("list_m", "Merge", IN2("list_e", "list_n"), T_V "attr{key:'N' value{i:2}}")
                            NODE("list_s", "Switch", IN2("list_m", "l"), T_V)
                                NODE("list_i", "Identity", IN1("list_s:1"), T_V)
                                    NODE("list_n", "NextIteration", IN1("list_i"), T_V));
  CU_ASSERT(weft_test_reads(g, "q", 0, "item"));
  check_item(weft_test_node(g, "item"));
  CU_ASSERT(weft_test_is_gone(g, "list_m"));
  weft_graph_destroy(g);
}

/* As of the gates of a cell, each with a matrix of its own; and the item is read otherwise, too. */
static void several_products_of_an_item_are_lists_of_their_own(void) {
  weft_graph_t *g = optimized(
      LIST_OF("3") LIST_STAYS MATRIX_STAYS LOOP_WITH("list_in") NODE("p1", "MatMul", IN2("item", "w_in"), T_F)
          NODE("p2", "MatMul", IN2("item", "w_in"), T_F) NODE("r", "Neg", IN1("item"), T_F)
              NODE("q", "AddN", IN3("p1", "p2", "r"), T_F "attr{key:'N' value{i:3}}"));
  const weft_node_t *q = weft_test_node(g, "q");
  CU_ASSERT(q->inputs[0].node != q->inputs[1].node);
  check_item(q->inputs[0].node);
  check_item(q->inputs[1].node);
  CU_ASSERT(weft_test_reads(g, "item", 0, "list_in"));
  weft_graph_destroy(g);
}

static void stays(const char *text) {
  weft_graph_t *g = optimized(text);
  CU_ASSERT(weft_test_reads(g, "q", 0, "p"));
  CU_ASSERT(weft_test_reads(g, "p", 0, "item"));
  weft_graph_destroy(g);
}

static void products_that_may_fail_or_have_other_bits_stay(void) {
  stays(LIST_OF("-1") LIST_STAYS MATRIX_STAYS LOOP_WITH("list_in") PRODUCT(""));
  stays(LIST_OF("4") LIST_STAYS MATRIX_STAYS LOOP_WITH("list_in") PRODUCT(""));
  stays(LIST_OF("3") LIST_STAYS MATRIX_STAYS LOOP_WITH("list_in")
            PRODUCT("attr{key:'transpose_b' value{b:true}}"));
  stays(LIST_OF("3") LIST_STAYS MATRIX_STAYS LOOP_WITH("list_in")
            PRODUCT("attr{key:'transpose_a' value{b:true}}"));
  stays(LIST_OF("3") LIST_STAYS FED("u", "") NODE("w_in", "Enter", IN1("u"), T_F STAYS) LOOP_WITH("list_in")
            PRODUCT(""));
}

/* The matrix of the first is another one in each iteration, the list of the second is made in the loop, the
 * third waits. */
static void products_of_what_changes_in_the_loop_stay(void) {
  stays(LIST_OF("3") LIST_STAYS NODE("w_e", "Enter", IN1("w"), T_F IN_FRAME)
            NODE("w_m", "Merge", IN2("w_e", "w_n"), T_F "attr{key:'N' value{i:2}}")
                NODE("w_s", "Switch", IN2("w_m", "l"), T_F) NODE("w_in", "Identity", IN1("w_s:1"), T_F)
                    NODE("w_2", "Neg", IN1("w_in"), T_F) NODE("w_n", "NextIteration", IN1("w_2"), T_F)
                        LOOP_WITH("list_in") PRODUCT(""));
  stays(LIST_OF("3") MATRIX_STAYS NODE("x_in", "Enter", IN1("x"), T_F STAYS)
            NODE("shape_in", "Enter", IN1("shape"), T_I STAYS) NODE(
                "list_in", "TensorListFromTensor", IN2("x_in", "shape_in"),
                OF_FLOATS "attr{key:'shape_type' value{type:DT_INT32}}") LOOP_WITH("list_in") PRODUCT(""));
  stays(LIST_OF("3") LIST_STAYS MATRIX_STAYS LOOP_WITH("list_in")
            NODE("p", "MatMul", IN2("item", "w_in") " input:'^i'", T_F) NODE("q", "Neg", IN1("p"), T_F));
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"a product of slices is made before the loop", a_product_of_slices_is_made_before_the_loop},
      {"a list may be a variable of the loop that stays", a_list_may_be_a_variable_of_the_loop_that_stays},
      {"several products of an item are lists of their own",
       several_products_of_an_item_are_lists_of_their_own},
      {"products that may fail or have other bits stay", products_that_may_fail_or_have_other_bits_stay},
      {"products of what changes in the loop stay", products_of_what_changes_in_the_loop_stay},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("loops", tests);
}
