/* tests/ops/cost_test.c - operations of nodes: formulas by hand, shapes that do not fit, and the list itself.
 *
 * That the numbers are TensorFlow's is shown by tests/conformance/test_profile.py.
 */
#include "ops/cost.h"

#include <stdio.h>
#include <string.h>

#include "ops/chain.h"
#include "tests/runner.h"

enum { MAX_INPUTS = 10, MAX_ATTRS = 4 };

/* A node in a few words: shapes end with rank -1; a rank of -2 is an input without a tensor. */
typedef struct cost_case {
  const char *op;
  weft_shape_t inputs[MAX_INPUTS];
  int num_inputs;
  weft_named_attr_t attrs[MAX_ATTRS];
  int num_attrs;
  weft_shape_t output;
  int64_t flops;
} cost_case_t;

#define S(...)                                                                                 \
  {                                                                                            \
    .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dims = { __VA_ARGS__ } \
  }
#define SCALAR \
  { .rank = 0 }
#define NO_TENSOR \
  { .rank = -2 }

static const int64_t ones[] = {1, 1, 1, 1}, twos[] = {1, 2, 2, 1}, window[] = {1, 3, 2, 1};
#define INTS(name_, list_)              \
  {                                     \
    .name = WEFT_STR(name_), .value = { \
      .kind = WEFT_ATTR_INT,            \
      .is_list = true,                  \
      .n = 4,                           \
      .list.ints = (list_)              \
    }                                   \
  }
#define BOOL(name_, b_)                                                    \
  {                                                                        \
    .name = WEFT_STR(name_), .value = {.kind = WEFT_ATTR_BOOL, .b = (b_) } \
  }
#define TEXT(name_, s_)                                                              \
  {                                                                                  \
    .name = WEFT_STR(name_), .value = {.kind = WEFT_ATTR_STRING, .s = WEFT_STR(s_) } \
  }

static int64_t cost_of(const cost_case_t *c) {
  const weft_shape_t *shapes[MAX_INPUTS];
  for (int i = 0; i < c->num_inputs; i++) shapes[i] = c->inputs[i].rank == -2 ? NULL : &c->inputs[i];
  const weft_cost_inputs_t in = {
      c->attrs,      c->num_attrs,
      shapes,        c->num_inputs < WEFT_COST_MAX_SHAPES ? c->num_inputs : WEFT_COST_MAX_SHAPES,
      c->num_inputs, NULL};
  const weft_op_def_t *op = weft_op_find(weft_str(c->op));
  CU_ASSERT_PTR_NOT_NULL_FATAL(op);
  const weft_op_cost_t cost = weft_op_cost_begin(op, &in);
  return weft_op_cost_end(&cost, c->output.rank == -2 ? NULL : &c->output);
}

static void check(const cost_case_t *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    int64_t got = cost_of(&cases[i]);
    if (got != cases[i].flops) printf("case %zu, %s: %lld\n", i, cases[i].op, (long long)got);
    CU_ASSERT_EQUAL(got, cases[i].flops);
  }
}
#define CHECK(cases) check(cases, sizeof(cases) / sizeof((cases)[0]))

static void products_count_two_for_each_factor(void) {
  const cost_case_t cases[] = {
      {"MatMul", {S(2, 3), S(3, 5)}, 2, {BOOL("transpose_a", false)}, 1, S(2, 5), 60},
      {"MatMul", {S(3, 2), S(3, 5)}, 2, {BOOL("transpose_a", true)}, 1, S(2, 5), 60},
      {"MatMul", {S(0, 3), S(3, 5)}, 2, {{{"", 0}, {.i = 0}}}, 0, S(0, 5), 0},
      {"BatchMatMulV2", {S(7, 2, 3), S(3, 5)}, 2, {BOOL("adj_x", false)}, 1, S(7, 2, 5), 420},
      {"BatchMatMulV2", {S(7, 3, 2), S(3, 5)}, 2, {BOOL("adj_x", true)}, 1, S(7, 2, 5), 420},
      {"Einsum", {S(2, 3), S(3, 5)}, 2, {TEXT("equation", "ij,jk->ik")}, 1, S(2, 5), 60},
      {"Einsum", {S(2, 3)}, 1, {TEXT("equation", "ij->j")}, 1, S(3), 6},
      {"Einsum", {S(2, 3), S(3, 5)}, 2, {TEXT("equation", "...j,jk->...k")}, 1, S(2, 5), -1},
      {"Einsum", {S(2), S(3, 5)}, 2, {TEXT("equation", "ij,jk->ik")}, 1, S(2, 5), -1},
      {"BlockLSTMV2",
       {SCALAR, S(4, 2, 3), S(2, 6), S(2, 6), S(9, 24)},
       5,
       {{{"", 0}, {.i = 0}}},
       0,
       S(4, 2, 6),
       3456},
      {"GRUBlockCell", {S(2, 3), S(2, 5), S(8, 10), S(8, 5)}, 4, {{{"", 0}, {.i = 0}}}, 0, S(2, 5), 480},
  };
  CHECK(cases);
}

static void convolutions_count_their_windows(void) {
  const cost_case_t cases[] = {
      {"Conv2D", {S(2, 8, 8, 3), S(3, 3, 3, 4)}, 2, {INTS("strides", ones)}, 1, S(2, 8, 8, 4), 27648},
      {"Conv3D", {S(1, 4, 4, 4, 2), S(2, 2, 2, 2, 3)}, 2, {{{"", 0}, {.i = 0}}}, 0, S(1, 4, 4, 4, 3), 6144},
      {"DepthwiseConv2dNative",
       {S(1, 8, 8, 3), S(3, 3, 3, 2)},
       2,
       {{{"", 0}, {.i = 0}}},
       0,
       S(1, 8, 8, 6),
       6912},
      {"Conv2DBackpropInput",
       {S(4), S(3, 3, 3, 4), S(2, 4, 4, 4)},
       3,
       {INTS("strides", twos)},
       1,
       S(2, 8, 8, 3),
       6912},
      {"Conv2DBackpropFilter",
       {S(2, 8, 8, 3), S(4), S(2, 4, 4, 4)},
       3,
       {INTS("strides", twos)},
       1,
       S(3, 3, 3, 4),
       6912},
      {"Conv2DBackpropFilter",
       {S(2, 3, 8, 8), S(4), S(2, 4, 4, 4)},
       3,
       {INTS("strides", twos), TEXT("data_format", "NCHW")},
       2,
       S(3, 3, 3, 4),
       6912},
      {"DepthwiseConv2dNativeBackpropInput",
       {S(4), S(3, 3, 3, 2), S(1, 8, 8, 6)},
       3,
       {INTS("strides", ones)},
       1,
       S(1, 8, 8, 3),
       6912},
      {"DepthwiseConv2dNativeBackpropFilter",
       {S(1, 8, 8, 3), S(4), S(1, 8, 8, 6)},
       3,
       {INTS("strides", ones)},
       1,
       S(3, 3, 3, 2),
       6912},
      {"MaxPool", {S(1, 9, 8, 3)}, 1, {INTS("ksize", window)}, 1, S(1, 3, 4, 3), 216},
      {"AvgPoolGrad", {S(4), S(1, 3, 4, 3)}, 2, {INTS("ksize", window)}, 1, S(1, 9, 8, 3), 432},
      {"MaxPoolGrad",
       {S(1, 9, 8, 3), S(1, 3, 4, 3), S(1, 3, 4, 3)},
       3,
       {INTS("ksize", window)},
       1,
       S(1, 9, 8, 3),
       252},
  };
  CHECK(cases);
}

static void elements_count_one_by_one(void) {
  const cost_case_t cases[] = {
      {"AddV2", {S(4, 1), S(5)}, 2, {{{"", 0}, {.i = 0}}}, 0, S(4, 5), 20},
      {"Tanh", {S(4, 5)}, 1, {{{"", 0}, {.i = 0}}}, 0, S(4, 5), 20}, /* not in the list: element-wise */
      {"Rsqrt", {S(4, 5)}, 1, {{{"", 0}, {.i = 0}}}, 0, S(4, 5), 40},
      {"Cast", {S(4, 5)}, 1, {{{"", 0}, {.i = 0}}}, 0, S(4, 5), 0},
      {"Identity", {S(4, 5)}, 1, {{{"", 0}, {.i = 0}}}, 0, S(4, 5), 0},
      {"Sum", {S(4, 5), S(1)}, 2, {{{"", 0}, {.i = 0}}}, 0, S(4), 16},
      {"Mean", {S(4, 5), S(1)}, 2, {{{"", 0}, {.i = 0}}}, 0, S(4), 20},
      {"Sum", {S(0, 5), S(1)}, 2, {{{"", 0}, {.i = 0}}}, 0, S(5), 0},
      {"L2Loss", {S(4, 5)}, 1, {{{"", 0}, {.i = 0}}}, 0, SCALAR, 59},
      {"Softmax", {S(4, 5)}, 1, {{{"", 0}, {.i = 0}}}, 0, S(4, 5), 100},
      {"AddN",
       {S(4), S(4), S(4), S(4), S(4), S(4), S(4), S(4), S(4), S(4)},
       10,
       {{{"", 0}, {.i = 0}}},
       0,
       S(4),
       36},
      {"AssignAddVariableOp", {SCALAR, S(7)}, 2, {{{"", 0}, {.i = 0}}}, 0, NO_TENSOR, 7},
  };
  CHECK(cases);
}

static void what_does_not_fit_is_not_known(void) {
  const cost_case_t cases[] = {
      {"MatMul", {S(3), S(3, 5)}, 2, {{{"", 0}, {.i = 0}}}, 0, S(2, 5), -1},
      {"MatMul", {NO_TENSOR, S(3, 5)}, 2, {{{"", 0}, {.i = 0}}}, 0, S(2, 5), -1},
      {"MatMul", {S(2, 3), S(3, 5)}, 2, {{{"", 0}, {.i = 0}}}, 0, NO_TENSOR, -1},
      {"Conv2D", {S(2, 8, 8, 3)}, 1, {{{"", 0}, {.i = 0}}}, 0, S(2, 8, 8, 4), -1},
      {"Conv2DBackpropInput",
       {S(4), S(3, 3, 3, 4), S(2, 4, 4, 4)},
       3,
       {{{"", 0}, {.i = 0}}},
       0,
       S(2, 8, 8, 3),
       -1},
      {"MaxPool", {S(1, 9, 8, 3)}, 1, {{{"", 0}, {.i = 0}}}, 0, S(1, 3, 4, 3), -1},
      {"Einsum", {S(2, 3)}, 1, {{{"", 0}, {.i = 0}}}, 0, S(3), -1},
      {"AddV2", {S(4), S(4)}, 2, {{{"", 0}, {.i = 0}}}, 0, NO_TENSOR, -1},
      {"Where", {S(4)}, 1, {{{"", 0}, {.i = 0}}}, 0, S(2, 1), -1}, /* not counted */
      {"MatMul",
       {S(INT64_MAX / 2, INT64_MAX / 2), S(INT64_MAX / 2, INT64_MAX / 2)},
       2,
       {{{"", 0}, {.i = 0}}},
       0,
       S(INT64_MAX / 2, INT64_MAX / 2),
       -1}, /* more than can be counted */
  };
  CHECK(cases);
}

/* (x + y) * (x + y) of a column and a row. */
static void a_chain_costs_what_its_links_cost(void) {
  static const int types[] = {WEFT_F32, WEFT_F32};
  static const int64_t sum[] = {0, 1}, square[] = {2, 2}, outputs[] = {3};
  const weft_chain_link_t links[] = {
      {weft_op_find(WEFT_STR("AddV2")), WEFT_STR("a"), WEFT_F32, false, 2, sum},
      {weft_op_find(WEFT_STR("Mul")), WEFT_STR("b"), WEFT_F32, false, 2, square},
  };
  const weft_chain_t c = {2, 2, 1, types, links, outputs};
  const weft_shape_t column = S(3, 1), row = S(5), *shapes[] = {&column, &row}, *unknown[] = {&column, NULL};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_named_attr_t attrs[WEFT_CHAIN_NUM_ATTRS];
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_attrs(&arena, &c, attrs));
  const weft_op_def_t *op = weft_op_find(WEFT_STR("_WeftChain"));
  const weft_cost_inputs_t in = {attrs, WEFT_CHAIN_NUM_ATTRS, shapes, 2, 2, NULL},
                           without = {attrs, WEFT_CHAIN_NUM_ATTRS, unknown, 2, 2, NULL};
  const weft_op_cost_t cost = weft_op_cost_begin(op, &in), none = weft_op_cost_begin(op, &without);
  CU_ASSERT_EQUAL(weft_op_cost_end(&cost, NULL), 30);
  CU_ASSERT_EQUAL(weft_op_cost_end(&none, NULL), -1);
  weft_arena_deinit(&arena);
}

/* softmax(q . k') . v of 2 heads, 3 rows, 5 keys, 4 columns. */
static void an_attention_costs_products_and_chain(void) {
  static const int types[] = {WEFT_F32, WEFT_F32, WEFT_F32};
  static const int64_t operand[] = {0}, outputs[] = {3};
  const weft_chain_link_t link = {
      weft_op_find(WEFT_STR("Softmax")), WEFT_STR("s"), WEFT_F32, false, 1, operand};
  const weft_chain_t c = {3, 1, 1, types, &link, outputs};
  const weft_shape_t q = S(2, 3, 4), k = S(2, 5, 4), scores = S(2, 3, 5), out = S(2, 3, 4),
                     *shapes[] = {&q, &k, &k}, *of_softmax[] = {&scores};
  weft_arena_t arena = WEFT_ARENA_INIT;
  enum { NUM = WEFT_CHAIN_NUM_ATTRS + 3 };
  weft_named_attr_t attrs[NUM];
  CU_ASSERT_PTR_NULL_FATAL(weft_chain_attrs(&arena, &c, attrs));
  attrs[NUM - 3] = weft_int_attr("scores", 0);
  attrs[NUM - 2] = weft_bool_attr("adj_q", false);
  attrs[NUM - 1] = weft_bool_attr("adj_k", true);
  const weft_cost_inputs_t in = {attrs, NUM, shapes, 3, 3, NULL}, softmax = {NULL, 0, of_softmax, 1, 1, NULL};
  const weft_op_cost_t cost = weft_op_cost_begin(weft_op_find(WEFT_STR("_WeftAttention")), &in),
                       between = weft_op_cost_begin(link.op, &softmax);
  CU_ASSERT_EQUAL(weft_op_cost_end(&cost, &out),
                  2 * 4 * 30 + 2 * 5 * 24 + weft_op_cost_end(&between, &scores));
  weft_arena_deinit(&arena);
}

static void the_list_is_sorted_and_names_ops(void) {
  static const char *const names[] = {
#define WEFT_COST(op, kind, a, b) op,
#include "ops/cost.def"
#undef WEFT_COST
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const weft_op_def_t *op = weft_op_find(weft_str(names[i]));
    CU_ASSERT_PTR_NOT_NULL_FATAL(op);
    if (i > 0) CU_ASSERT_TRUE(strcmp(names[i - 1], names[i]) < 0);
  }
  CU_ASSERT_TRUE(weft_op_has_cost(weft_op_find(WEFT_STR("MatMul"))));
  CU_ASSERT_TRUE(weft_op_has_cost(weft_op_find(WEFT_STR("Tanh"))));
  CU_ASSERT_FALSE(weft_op_has_cost(weft_op_find(WEFT_STR("Identity"))));
  CU_ASSERT_FALSE(weft_op_has_cost(weft_op_find(WEFT_STR("Where"))));
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"products count two for each factor", products_count_two_for_each_factor},
      {"convolutions count their windows", convolutions_count_their_windows},
      {"elements count one by one", elements_count_one_by_one},
      {"what does not fit is not known", what_does_not_fit_is_not_known},
      {"a chain costs what its links cost", a_chain_costs_what_its_links_cost},
      {"an attention costs its products and its chain", an_attention_costs_products_and_chain},
      {"the list is sorted and names ops", the_list_is_sorted_and_names_ops},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("cost", tests);
}
