#include <stdio.h>

#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

/* y = Neg(what `text` calls "z") reads `from` afterwards; the rest of `text` makes "x" and "z". */
static bool is_read_as(const char *text, const char *from) {
  char whole[8192];
  snprintf(whole, sizeof whole, "%s%s", text, NODE("y", "Exp", IN1("z"), T_F));
  weft_graph_t *g = weft_test_optimized1(whole, "arithmetic", "y");
  const bool reads = weft_test_reads(g, "y", 0, from);
  weft_graph_destroy(g);
  return reads;
}

#define X FED("x", "dim{size:2} dim{size:3}")
#define U                      \
  NODE("x", "Placeholder", "", \
       "attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{unknown_rank:true}}}")

static void neutral_operands_are_left_out(void) {
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "0") NODE("z", "Sub", IN2("x", "c"), T_F), "x"));
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "1") NODE("z", "Mul", IN2("c", "x"), T_F), "x"));
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "1") NODE("z", "RealDiv", IN2("x", "c"), T_F), "x"));
  CU_ASSERT(is_read_as(U FLOAT_CONST("c", "1") NODE("z", "Mul", IN2("x", "c"), T_F), "x"));
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "-0") NODE("z", "AddV2", IN2("x", "c"), T_F), "x"));
}

static void what_is_not_neutral_stays(void) {
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "0") NODE("z", "AddV2", IN2("x", "c"), T_F), "z")); /* -0.0 + 0.0 */
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "-0") NODE("z", "Sub", IN2("x", "c"), T_F), "z"));
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "0") NODE("z", "Sub", IN2("c", "x"), T_F), "z"));
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "1") NODE("z", "RealDiv", IN2("c", "x"), T_F), "z"));
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "1") NODE("z", "FloorDiv", IN2("x", "c"), T_F), "z"));
  CU_ASSERT(is_read_as(X FLOAT_CONST("c", "0") NODE("z", "Mul", IN2("x", "c"), T_F), "z")); /* NaN * 0 */
}

static void what_broadcasts_stays(void) {
#define ONES(name, dims) CONST(name, "DT_FLOAT", dims, "float_val:1")
  CU_ASSERT(is_read_as(
      X ONES("c", "dim{size:4} dim{size:2} dim{size:3}") NODE("z", "Mul", IN2("x", "c"), T_F), "z"));
  CU_ASSERT(is_read_as(X ONES("c", "dim{size:2} dim{size:3}") NODE("z", "Mul", IN2("x", "c"), T_F), "x"));
  CU_ASSERT(is_read_as(U ONES("c", "dim{size:1}") NODE("z", "Mul", IN2("x", "c"), T_F), "z"));
  CU_ASSERT(is_read_as(X ONES("c", "dim{size:1}") NODE("z", "Mul", IN2("x", "c"), T_F), "x"));
}

#define PERM(name, a, b) INTS_CONST(name, "2", "int_val:[" a "," b "]")
#define TP "attr{key:'Tperm' value{type:DT_INT32}}" T_F
#define TS "attr{key:'Tshape' value{type:DT_INT32}}" T_F

static void layouts_undo_each_other(void) {
  CU_ASSERT(is_read_as(X PERM("p", "1", "0") NODE("t", "Transpose", IN2("x", "p"), TP)
                           NODE("z", "Transpose", IN2("t", "p"), TP),
                       "x"));
  CU_ASSERT(is_read_as(X PERM("p", "0", "1") NODE("z", "Transpose", IN2("x", "p"), TP), "x"));
  CU_ASSERT(is_read_as(X PERM("p", "1", "0") PERM("q", "0", "1") NODE("t", "Transpose", IN2("x", "p"), TP)
                           NODE("z", "Transpose", IN2("t", "q"), TP),
                       "t"));
  CU_ASSERT(is_read_as(X INTS_CONST("s", "1", "int_val:-1") PERM("r", "2", "3")
                           NODE("t", "Reshape", IN2("x", "s"), TS) NODE("z", "Reshape", IN2("t", "r"), TS),
                       "x"));
  CU_ASSERT(is_read_as(X PERM("r", "2", "3") NODE("z", "Reshape", IN2("x", "r"), TS), "x"));
  CU_ASSERT(is_read_as(X INTS_CONST("r", "2", "int_val:[3,2]") NODE("z", "Reshape", IN2("x", "r"), TS), "z"));
}

static void twice_is_not_at_all(void) {
  CU_ASSERT(is_read_as(X NODE("a", "Neg", IN1("x"), T_F) NODE("z", "Neg", IN1("a"), T_F), "x"));
  CU_ASSERT(is_read_as(X NODE("z", "AddN", IN1("x"), T_F "attr{key:'N' value{i:1}}"), "x"));
  CU_ASSERT(is_read_as(X CONST("axes", "DT_INT32", "dim{size:0}", "")
                           NODE("z", "Sum", IN2("x", "axes"), T_F "attr{key:'Tidx' value{type:DT_INT32}}"),
                       "x"));
}

static void a_difference_takes_the_place_of_a_negated_term(void) {
  weft_graph_t *g =
      weft_test_optimized1(X FED("w", "") NODE("n", "Neg", IN1("w"), T_F)
                               NODE("y", "AddV2", IN2("x", "n"), T_F) NODE("z", "Sub", IN2("y", "n"), T_F),
                           "arithmetic", "z");
  CU_ASSERT(weft_str_is(weft_test_node(g, "y")->op->name, "Sub"));
  CU_ASSERT(weft_test_reads(g, "y", 0, "x"));
  CU_ASSERT(weft_test_reads(g, "y", 1, "w"));
  CU_ASSERT(weft_str_is(weft_test_node(g, "z")->op->name, "AddV2"));
  CU_ASSERT(weft_test_is_gone(g, "n"));
  weft_graph_destroy(g);
}

static void powers_become_what_is_cheaper(void) {
  static const struct {
    const char *text, *op;
  } cases[] = {
      {X FLOAT_CONST("c", "2") NODE("y", "Pow", IN2("x", "c"), T_F), "Square"},
      {X FLOAT_CONST("c", "0.5") NODE("y", "Pow", IN2("x", "c"), T_F), "Sqrt"},
      {X FLOAT_CONST("c", "-0.5") NODE("y", "Pow", IN2("x", "c"), T_F), "Rsqrt"},
      {X FLOAT_CONST("c", "-1") NODE("y", "Pow", IN2("x", "c"), T_F), "Reciprocal"},
      {X FLOAT_CONST("c", "3") NODE("y", "Pow", IN2("x", "c"), T_F), "Mul"},
      {X FLOAT_CONST("c", "4") NODE("y", "Pow", IN2("x", "c"), T_F), "Pow"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_graph_t *g = weft_test_optimized1(cases[i].text, "arithmetic", "y");
    CU_ASSERT(weft_str_is(weft_test_node(g, "y")->op->name, cases[i].op));
    weft_graph_destroy(g);
  }
}

static void the_value_of_a_variable_is_copied_where_it_was(void) {
  CU_ASSERT(is_read_as(
      NODE("v", "VariableV2", "", "attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{}}}")
          NODE("x", "Identity", IN1("v"), T_F) FLOAT_CONST("c", "1") NODE("z", "Mul", IN2("x", "c"), T_F),
      "z"));
}

static void a_constant_that_decides_the_branch_stays(void) {
  CU_ASSERT(is_read_as(
      X NODE("p", "Placeholder", "", "attr{key:'dtype' value{type:DT_BOOL}}")
          NODE("s", "Switch", IN2("x", "p"), T_F)
              NODE("pivot", "Identity", IN1("s:1"),
                   T_F) "node{name:'c' op:'Const' input:'^pivot' attr{key:'dtype' value{type:DT_FLOAT}} "
                        "attr{key:'value' value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:1}}}} " NODE(
                            "z", "Mul", IN2("x", "c"), T_F),
      "z"));
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"neutral operands are left out", neutral_operands_are_left_out},
      {"what is not neutral stays", what_is_not_neutral_stays},
      {"what broadcasts stays", what_broadcasts_stays},
      {"layouts undo each other", layouts_undo_each_other},
      {"twice is not at all", twice_is_not_at_all},
      {"a difference takes the place of a negated term", a_difference_takes_the_place_of_a_negated_term},
      {"powers become what is cheaper", powers_become_what_is_cheaper},
      {"the value of a variable is copied where it was", the_value_of_a_variable_is_copied_where_it_was},
      {"a constant that decides the branch stays", a_constant_that_decides_the_branch_stays},
      CU_TEST_INFO_NULL,
  };
  const int status = weft_run_tests("arithmetic", tests);
  weft_test_evaluator_destroy();
  return status;
}
