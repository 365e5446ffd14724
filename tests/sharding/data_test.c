/* The analysis of the data axis: what is refused and why, what is said of single ops, the table of rules. */
#include "sharding/data/plan.h"

#include <stdio.h>

#include "base/alloc.h"
#include "graph/passes.h"
#include "sharding/data/rules.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define F " attr{key:'T' value{type:DT_FLOAT}} "
#define FEED(name, dims) \
  "node{name:'" name     \
  "' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{" dims "}}}} "
#define ROWS_OF(k) "dim{size:-1} dim{size:" #k "}"
#define VAR(name, dims) \
  "node{name:'" name    \
  "' op:'VariableV2' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{" dims "}}}} "
#define OP1(name, op, a) "node{name:'" name "' op:'" op "' input:'" a "'" F "} "
#define OP2(name, op, a, b) "node{name:'" name "' op:'" op "' input:'" a "' input:'" b "'" F "} "
#define INTS(name, n, values)                                                                \
  "node{name:'" name                                                                         \
  "' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' value{tensor{dtype:" \
  "DT_INT32 tensor_shape{dim{size:" #n "}} " values "}}}} "
#define NUMBER(name, v)                                                                      \
  "node{name:'" name                                                                         \
  "' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'value' value{tensor{dtype:" \
  "DT_FLOAT tensor_shape{} float_val:" #v "}}}} "

typedef struct analysed {
  weft_graph_t *g;
  weft_data_plan_t plan;
} analysed_t;

static weft_status_t *analyse(weft_graph_t *g, const char *root, const char *batch, bool may_lack,
                              weft_data_plan_t *plan) {
  weft_status_t *s = weft_pass_infer_shapes(g);
  const weft_node_t *roots[1] = {weft_test_node(g, root)};
  const weft_node_t *named[1] = {batch == NULL ? NULL : weft_test_node(g, batch)};
  const weft_data_options_t o = {.roots = roots,
                                 .num_roots = 1,
                                 .batch = named,
                                 .num_batch = batch == NULL ? 0 : 1,
                                 .may_lack_batch = may_lack};
  return s != NULL ? s : weft_data_analyse(g, &o, plan);
}

static analysed_t take(const char *text, const char *root) {
  analysed_t a = {.g = weft_test_graph(text)};
  weft_test_expect(analyse(a.g, root, NULL, false, &a.plan), WEFT_OK, "");
  return a;
}
static void leave(analysed_t *a) {
  weft_data_plan_deinit(&a->plan);
  weft_graph_destroy(a->g);
}
static weft_axis_sharding_t output(const analysed_t *a, const char *name) {
  return a->plan.outputs[weft_test_node(a->g, name)->id][0];
}
static weft_axis_sharding_t required(const analysed_t *a, const char *name, int input) {
  return a->plan.required[weft_test_node(a->g, name)->id][input];
}
static bool is(weft_axis_sharding_t s, weft_sharding_kind_t kind, int axis, int degree) {
  return s.kind == kind && s.degree == degree && (kind != WEFT_SHARDING_SHARD || s.dim == axis);
}
static void refuses(const char *text, const char *root, const char *why) {
  weft_graph_t *g = weft_test_graph(text);
  weft_data_plan_t plan;
  weft_test_expect(analyse(g, root, NULL, false, &plan), WEFT_INVALID_ARGUMENT, why);
  weft_graph_destroy(g);
}

/* A loss that does not depend on the rows, in a graph that has some. What is fed may be meant to be rows. */
static void a_batch_may_be_unused(void) {
  refuses(FEED("rows", "dim{size:-1} dim{size:3}") FEED("x", "dim{size:4}") OP1("y", "Relu", "x"), "y",
          "'x' (Placeholder) cannot be split over replicas: no input has a batch dimension");
  const char *text = FEED("rows", "dim{size:-1} dim{size:3}") NUMBER("x", 2) OP1("y", "Relu", "x");
  weft_graph_t *g = weft_test_graph(text);
  weft_data_plan_t plan;
  weft_test_expect(analyse(g, "y", NULL, false, &plan), WEFT_OK, "");
  CU_ASSERT_EQUAL(plan.num_batches, 0);
  CU_ASSERT(is(plan.outputs[weft_test_node(g, "y")->id][0], WEFT_SHARDING_REPLICATE, 0, 0));
  weft_data_plan_deinit(&plan);
  weft_graph_destroy(g);
}

/* ---- what is refused ---- */

static void a_graph_without_a_batch_is_refused(void) {
  const char *text = FEED("x", "dim{size:4} dim{size:3}") OP1("y", "Relu", "x");
  refuses(text, "y", "'x' (Placeholder) cannot be split over replicas: no input has a batch dimension");
  weft_graph_t *g = weft_test_graph(text);
  weft_data_plan_t plan;
  weft_test_expect(analyse(g, "y", NULL, true, &plan), WEFT_OK, "");
  CU_ASSERT_EQUAL(plan.num_batches, 0);
  weft_data_plan_deinit(&plan);
  weft_test_expect(analyse(g, "y", "x", false, &plan), WEFT_OK, ""); /* its user says that it is one */
  CU_ASSERT_EQUAL(plan.num_batch_feeds, 1);
  CU_ASSERT(is(plan.outputs[weft_test_node(g, "y")->id][0], WEFT_SHARDING_SHARD, 0, 0));
  weft_data_plan_deinit(&plan);
  weft_graph_destroy(g);
}

static void an_unknown_effect_on_a_variable_is_refused(void) {
  refuses(FEED("x", ROWS_OF(3)) VAR("v", "dim{size:3}") "node{name:'gone' op:'DestroyTemporaryVariable' input:'v' attr{key:'var_name' value{s:'v'}} attr{key:'T' value{type:DT_FLOAT}}} "
              OP2("y", "AddV2", "x", "gone"),
          "y", "'gone' (DestroyTemporaryVariable) cannot be split over replicas: it may write the variable 'v'");
}

/* ---- what is said of values ---- */

static void a_variable_is_written_with_the_rows_of_all(void) {
  analysed_t a = take(FEED("x", ROWS_OF(3)) VAR("v", ROWS_OF(3)) OP2("keep", "Assign", "v", "x"), "keep");
  CU_ASSERT(is(required(&a, "keep", 1), WEFT_SHARDING_REPLICATE, 0, 0));
  leave(&a);
}

static void a_shape_that_fixes_the_batch_is_one_of_all_rows(void) {
  analysed_t a = take(
      FEED("x", ROWS_OF(3)) INTS("shape", 2, "int_val:64 int_val:-1") OP2("y", "Reshape", "x", "shape"), "y");
  CU_ASSERT(is(required(&a, "y", 0), WEFT_SHARDING_REPLICATE, 0, 0));
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_REPLICATE, 0, 0));
  leave(&a);
}

/* A replica without rows has the mean of nothing, which is no number. */
static void numbers_are_checked_of_true_means(void) {
  static const struct {
    const char *op;
    weft_sharding_kind_t kind;
  } cases[] = {{"Mean", WEFT_SHARDING_REPLICATE}, {"Sum", WEFT_SHARDING_PARTIAL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[2000];
    snprintf(text, sizeof text,
             FEED("x", ROWS_OF(4)) INTS(
                 "zero", 1,
                 "int_val:0") "node{name:'m' op:'%s' input:'x' input:'zero'" F
                              "} "
                              "node{name:'y' op:'CheckNumerics' input:'m' attr{key:'message' value{s:'m'}}" F
                              "} ",
             cases[i].op);
    analysed_t a = take(text, "y");
    CU_ASSERT_EQUAL(required(&a, "y", 0).kind, cases[i].kind);
    CU_ASSERT_EQUAL(output(&a, "y").kind, cases[i].kind);
    leave(&a);
  }
}

/* [-1, 2, 3]: pairs of consecutive rows, of which a replica may have one row each. */
static void rows_that_are_grouped_are_gathered(void) {
  static const struct {
    const char *shape;
    weft_sharding_kind_t kind;
  } cases[] = {
      {INTS("shape", 3, "int_val:-1 int_val:2 int_val:4"), WEFT_SHARDING_REPLICATE},
      {INTS("shape", 2, "int_val:-1 int_val:3"), WEFT_SHARDING_REPLICATE},
      {INTS("shape", 3, "int_val:1 int_val:-1 int_val:8"), WEFT_SHARDING_REPLICATE},
      {INTS("shape", 2, "int_val:-1 int_val:4"), WEFT_SHARDING_SHARD},
      {INTS("shape", 3, "int_val:-1 int_val:2 int_val:2"), WEFT_SHARDING_SHARD},
      {INTS("shape", 1, "int_val:-1"), WEFT_SHARDING_SHARD},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[2000];
    snprintf(text, sizeof text, FEED("x", ROWS_OF(4)) "%s" OP2("y", "Reshape", "x", "shape"), cases[i].shape);
    analysed_t a = take(text, "y");
    CU_ASSERT_EQUAL(required(&a, "y", 0).kind, cases[i].kind);
    CU_ASSERT_EQUAL(output(&a, "y").kind, cases[i].kind);
    leave(&a);
  }
}

/* The gradient of a Concat of rows with what all replicas have whole: its shapes are those of the whole
 * batch. */
static void offsets_beside_a_whole_batch_are_taken_of_whole_shapes(void) {
#define SHAPE_OF(name, a) "node{name:'" name "' op:'Shape' input:'" a "'" F "} "
#define OFFSETS(a, b) \
  "node{name:'y' op:'ConcatOffset' input:'one' input:'" a "' input:'" b "' attr{key:'N' value{i:2}}} "
#define COLUMNS                                                                         \
  "node{name:'one' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' " \
  "value{tensor{dtype:DT_INT32 tensor_shape{} int_val:1}}}} "
  const char *text = FEED("x", ROWS_OF(4)) INTS("pairs", 3, "int_val:-1 int_val:2 int_val:4")
      INTS("flat", 2, "int_val:-1 int_val:4") COLUMNS OP2("grouped", "Reshape", "x", "pairs")
          OP2("back", "Reshape", "grouped", "flat") SHAPE_OF("of_x", "x") SHAPE_OF("of_all", "back")
              OFFSETS("of_x", "of_all");
  analysed_t a = take(text, "y");
  CU_ASSERT(is(required(&a, "y", 1), WEFT_SHARDING_REPLICATE, 0, 0));
  leave(&a);
  a = take(FEED("x", ROWS_OF(4)) COLUMNS SHAPE_OF("of_x", "x") SHAPE_OF("too", "x") OFFSETS("of_x", "too"),
           "y");
  CU_ASSERT_EQUAL(required(&a, "y", 1).kind, WEFT_SHARDING_COUNTS);
  leave(&a);
#undef SHAPE_OF
#undef OFFSETS
#undef COLUMNS
}

static void a_mean_is_a_part_of_degree_one_and_a_sum_of_degree_zero(void) {
  analysed_t a = take(FEED("x", ROWS_OF(3)) INTS("zero", 1, "int_val:0") OP2("mean", "Mean", "x", "zero")
                          OP2("sum", "Sum", "x", "zero") OP2("both", "AddV2", "mean", "sum"),
                      "both");
  CU_ASSERT(is(output(&a, "mean"), WEFT_SHARDING_PARTIAL, 0, 1));
  CU_ASSERT(is(output(&a, "sum"), WEFT_SHARDING_PARTIAL, 0, 0));
  CU_ASSERT_EQUAL(output(&a, "both").kind, WEFT_SHARDING_PARTIAL);
  CU_ASSERT(required(&a, "both", 0).degree == required(&a, "both", 1).degree); /* scaled, not added up */
  leave(&a);
}

static void a_nonlinear_use_of_a_part_adds_it_up_for_all(void) {
  analysed_t a = take(FEED("x", ROWS_OF(3)) INTS("zero", 1, "int_val:0") OP2("mean", "Mean", "x", "zero")
                          OP1("e", "Exp", "mean") OP1("n", "Neg", "mean") OP2("y", "AddV2", "e", "n"),
                      "y");
  CU_ASSERT(is(required(&a, "e", 0), WEFT_SHARDING_REPLICATE, 0, 0));
  CU_ASSERT(is(required(&a, "n", 0), WEFT_SHARDING_REPLICATE, 0, 0)); /* it is there anyway */
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_REPLICATE, 0, 0));
  leave(&a);
}

static void rows_against_rows_need_one_side_whole(void) {
  analysed_t a = take(FEED("x", ROWS_OF(3)) "node{name:'y' op:'MatMul' input:'x' input:'x'" F
                                            "attr{key:'transpose_b' value{b:true}}} ",
                      "y");
  CU_ASSERT(is(required(&a, "y", 0), WEFT_SHARDING_SHARD, 0, 0));
  CU_ASSERT(is(required(&a, "y", 1), WEFT_SHARDING_REPLICATE, 0, 0));
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_SHARD, 0, 0));
  leave(&a);
}

static void rows_follow_transposes_and_counts_follow_shapes(void) {
  analysed_t a = take(FEED("x", ROWS_OF(3)) INTS("perm", 2, "int_val:1 int_val:0")
                          OP2("t", "Transpose", "x",
                              "perm") "node{name:'shape' op:'Shape' input:'t'" F
                                      "attr{key:'out_type' value{type:DT_INT32}}} " NUMBER(
                                          "zero", 0) "node{name:'fill' op:'Fill' input:'shape' input:'zero'" F
                                                     "} " OP2("y", "AddV2", "t", "fill"),
                      "y");
  CU_ASSERT(is(output(&a, "t"), WEFT_SHARDING_SHARD, 1, 0));
  CU_ASSERT(output(&a, "shape").kind == WEFT_SHARDING_COUNTS && output(&a, "shape").rows == 2);
  CU_ASSERT(is(output(&a, "fill"), WEFT_SHARDING_SHARD, 1, 0));
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_SHARD, 1, 0));
  leave(&a);
}

static void what_has_no_rule_runs_once_and_is_noted(void) {
  analysed_t a = take(FEED("x", ROWS_OF(3)) "node{name:'tag' op:'Const' attr{key:'dtype' value{type:DT_STRING}} "
                          "attr{key:'value' value{tensor{dtype:DT_STRING tensor_shape{} string_val:'h'}}}} "
                          OP2("y", "HistogramSummary", "tag", "x"),
                      "y");
  CU_ASSERT_EQUAL(a.plan.run[weft_test_node(a.g, "y")->id], WEFT_RUN_SINGLE);
  CU_ASSERT_EQUAL(required(&a, "y", 1).kind, WEFT_SHARDING_SINGLE);
  CU_ASSERT_FATAL(a.plan.num_notes == 1);
  CU_ASSERT(weft_str_starts_with(a.plan.notes[0], "'y' (HistogramSummary) runs on replica 0 alone"));
  leave(&a);
}

static void random_rows_are_drawn_by_those_that_have_them_and_others_once(void) {
#define RANDOM(name, shape)                               \
  "node{name:'" name "' op:'RandomUniform' input:'" shape \
  "' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'T' value{type:DT_INT32}}} "
  analysed_t a =
      take(FEED("x", ROWS_OF(3)) "node{name:'shape' op:'Shape' input:'x'" F
                                 "attr{key:'out_type' value{type:DT_INT32}}} " INTS("three", 1, "int_val:3")
                                     RANDOM("mine", "shape") RANDOM("ours", "three")
                                         OP2("a", "Mul", "x", "mine") OP2("y", "Mul", "a", "ours"),
           "y");
  CU_ASSERT(is(output(&a, "mine"), WEFT_SHARDING_SHARD, 0, 0));
  const weft_data_draw_t *draw = &a.plan.draws[weft_test_node(a.g, "mine")->id];
  CU_ASSERT(draw->kind == WEFT_DRAW_SHARD && draw->dim == 0 && draw->factor == 1);
  CU_ASSERT_EQUAL(a.plan.draws[weft_test_node(a.g, "ours")->id].kind, WEFT_DRAW_NONE);
  CU_ASSERT_EQUAL(output(&a, "ours").kind, WEFT_SHARDING_SINGLE);
  CU_ASSERT(is(required(&a, "y", 1), WEFT_SHARDING_REPLICATE, 0, 0));
  leave(&a);
#undef RANDOM
}

/* A list of steps of x, along its axis 1, added to itself: what comes out of it is as what was put in. */
static void sums_and_zeros_of_lists_keep_what_is_known_of_the_elements(void) {
#define V "attr{key:'T' value{type:DT_VARIANT}} "
#define E "attr{key:'element_dtype' value{type:DT_FLOAT}} "
  analysed_t a = take(
      FEED("rows", "dim{size:-1} dim{size:4} dim{size:3}") INTS("perm", 3, "int_val:1 int_val:0 int_val:2")
          OP2("x", "Transpose", "rows", "perm") INTS(
              "shape", 2,
              "int_val:-1 int_val:3") "node{name:'list' op:'TensorListFromTensor' input:'x' input:'shape' " E
                                      "attr{key:'shape_type' value{type:DT_INT32}}} "
                                      "node{name:'zeros' op:'ZerosLike' input:'list' " V
                                      "} "
                                      "node{name:'sum' op:'AddN' input:'list' input:'zeros' input:'list' "
                                      "attr{key:'N' value{i:3}} " V
                                      "} "
                                      "node{name:'y' op:'TensorListStack' input:'sum' input:'shape' " E
                                      "attr{key:'num_elements' value{i:4}}} ",
      "y");
  CU_ASSERT_EQUAL(output(&a, "sum").kind, WEFT_SHARDING_LOCAL);
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_SHARD, 1, 0));
  leave(&a);
#undef V
#undef E
}

/* What a branch keeps for its gradient comes out of the optional as it was put in; how many elements a list
 * has is the same on all. */
static void optionals_hold_what_was_put_in_and_lists_are_as_long_on_all(void) {
  analysed_t a = take(
      FEED("x", ROWS_OF(3)) "node{name:'some' op:'OptionalFromValue' input:'x' attr{key:'Toutput_types' value{list{type:DT_FLOAT}}}} "
      "node{name:'none' op:'OptionalNone'} "
      "node{name:'either' op:'Merge' input:'none' input:'some' attr{key:'N' value{i:2}} attr{key:'T' value{type:DT_VARIANT}}} "
      "node{name:'y' op:'OptionalGetValue' input:'either' attr{key:'output_types' value{list{type:DT_FLOAT}}} "
      "attr{key:'output_shapes' value{list{shape{unknown_rank:true}}}}} ",
      "y");
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_SHARD, 0, 0));
  leave(&a);
  a = take(FEED("x", ROWS_OF(3)) "node{name:'rows' op:'Size' input:'x'" F "attr{key:'out_type' value{type:DT_INT32}}} "
           INTS("shape", 1, "int_val:3")
           "node{name:'y' op:'TensorListReserve' input:'shape' input:'rows' attr{key:'element_dtype' value{type:DT_FLOAT}} "
           "attr{key:'shape_type' value{type:DT_INT32}}} ",
           "y");
  CU_ASSERT_EQUAL(output(&a, "rows").kind, WEFT_SHARDING_COUNTS);
  CU_ASSERT(is(required(&a, "y", 1), WEFT_SHARDING_REPLICATE, 0, 0));
  leave(&a);
}

static void the_flow_of_an_array_meets_a_zero(void) {
#define ARRAY "node{name:'array' op:'TensorArrayV3' input:'n' attr{key:'dtype' value{type:DT_FLOAT}}} "
  const char *text = FEED("x", ROWS_OF(3)) NUMBER("zero", 0)
      "node{name:'n' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' value{tensor{dtype:DT_INT32 "
      "tensor_shape{} int_val:0}}}} " ARRAY
      "node{name:'flow' op:'TensorArrayWriteV3' input:'array' input:'n' input:'x' input:'array:1'" F "} "
      "node{name:'y' op:'Merge' input:'zero' input:'flow' attr{key:'N' value{i:2}}" F "} ";
  analysed_t a = take(text, "y");
  CU_ASSERT_EQUAL(output(&a, "y").kind, WEFT_SHARDING_LOCAL);
  CU_ASSERT(is(required(&a, "y", 0), WEFT_SHARDING_REPLICATE, 0, 0)); /* as it is */
  leave(&a);
#undef ARRAY
}

static void a_squeeze_without_dims_is_told_which(void) {
  analysed_t a = take(FEED("x", ROWS_OF(1)) OP1("y", "Squeeze", "x"), "y");
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_SHARD, 0, 0));
  CU_ASSERT(a.plan.named[weft_test_node(a.g, "y")->id].is_named);
  CU_ASSERT_EQUAL(a.plan.named[weft_test_node(a.g, "y")->id].dims, 2);
  leave(&a);
}

/* Gradients of a broadcast add up along axes that are worked out from shapes: of a replica's rows, or of all.
 * Such shapes may have a dim of 1 where there are rows, which must not be added up. */
static void axes_worked_out_from_shapes_are_named(void) {
  enum { BIAS = 2 };
#define SHAPE_OF(name, of) OP1(name, "Shape", of)
#define SUM_OF(name, of, axes) OP2(name, "Sum", of, axes)
  static const struct {
    const char *a, *b, *axes, *summed;
    uint32_t named;
    weft_sharding_kind_t kind;
  } cases[] = {
      {"x", "column", "axes", "x", 0, WEFT_SHARDING_SHARD},      /* rows beside rows */
      {"x", "column", "axes:1", "x", BIAS, WEFT_SHARDING_SHARD}, /* [B, 1] was broadcast along 1 */
      {"x", "v", "axes:1", "x", 1, WEFT_SHARDING_PARTIAL},       /* [3] was broadcast along the rows */
      {"all", "all", "axes", "x", 0, WEFT_SHARDING_SHARD},       /* of all rows, for those of a replica */
      {"all", "all_column", "axes:1", "x", BIAS, WEFT_SHARDING_SHARD},
      {"column", "column", "axes", "column", 0, WEFT_SHARDING_SHARD}, /* 1 beside 1 */
      {"all", "column", "axes", "column", 0, WEFT_SHARDING_SHARD},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[4096];
    (void)snprintf(text, sizeof text,
                   FEED("x", ROWS_OF(3)) FEED("column", ROWS_OF(1)) VAR("v", "dim{size:3}")
                       INTS("one", 1, "int_val:1") "node{name:'all' op:'Cumsum' input:'x' input:'zero'" F "} "
                       "node{name:'all_column' op:'Cumsum' input:'column' input:'zero'" F "} "
                       "node{name:'zero' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' value{tensor{dtype:DT_INT32 "
                       "tensor_shape{} int_val:0}}}} "
                       SHAPE_OF("shape_a", "%s") SHAPE_OF("shape_b", "%s")
                       "node{name:'axes' op:'BroadcastGradientArgs' input:'shape_a' input:'shape_b'} " SUM_OF("sum", "%s", "%s"),
                   cases[i].a, cases[i].b, cases[i].summed, cases[i].axes);
    analysed_t a = take(text, "sum");
    const weft_data_named_t *named = &a.plan.named[weft_test_node(a.g, "sum")->id];
    CU_ASSERT(named->is_named);
    CU_ASSERT_EQUAL(named->dims, cases[i].named);
    CU_ASSERT_EQUAL(output(&a, "sum").kind, cases[i].kind);
    leave(&a);
  }
#undef SHAPE_OF
#undef SUM_OF
}

/* [B, ?] beside [B]: the step knows whether the columns were broadcast. Of the rows it is known that they
 * were not, though a batch of one row names them. */
static void rows_that_were_not_broadcast_are_kept(void) {
  static const char *const orders[][2] = {{"s", "v"}, {"v", "s"}};
  for (int k = 0; k < 2; k++) {
    char text[2048];
    (void)snprintf(
        text, sizeof text,
        FEED("s", "dim{size:-1} dim{size:-1}") FEED("v", "dim{size:-1}") OP1("shape_a", "Shape", "%s") OP1(
            "shape_b",
            "Shape", "%s") "node{name:'axes' op:'BroadcastGradientArgs' input:'shape_a' "
                           "input:'shape_b'} " OP2("matrix", "Sum", "s", "axes:%d")
                               OP2("vector", "Sum", "s", "axes:%d"),
        orders[k][0], orders[k][1], k, 1 - k);
    analysed_t a = take(text, "matrix");
    const weft_data_named_t *named = &a.plan.named[weft_test_node(a.g, "matrix")->id];
    CU_ASSERT(!named->is_named);
    CU_ASSERT_EQUAL(named->kept, 1);
    CU_ASSERT(is(output(&a, "matrix"), WEFT_SHARDING_SHARD, 0, 0));
    leave(&a);
    a = take(text, "vector");
    CU_ASSERT_EQUAL(output(&a, "vector").kind, WEFT_SHARDING_PARTIAL);
    leave(&a);
  }
}

static void axes_of_unknown_dims_are_not_named(void) {
  analysed_t a =
      take(
          FEED("x", "dim{size:-1} dim{size:-1}") FEED("z", "dim{size:-1} dim{size:-1}")
              OP1("shape_a", "Shape", "x")
                  OP1("shape_b", "Shape",
                      "z") "node{name:'axes' op:'BroadcastGradientArgs' input:'shape_a' "
                           "input:'shape_b'} " OP2("sum", "Sum", "x", "axes"),
          "sum");
  CU_ASSERT(!a.plan.named[weft_test_node(a.g, "sum")->id].is_named);
  leave(&a);
}

/* A mean and rows are printed once, as one device has them; what is passed on stays where it is. */
static void what_is_printed_is_true_and_printed_once(void) {
  analysed_t a = take(FEED("x", ROWS_OF(3)) INTS("front", 1, "int_val:0") OP2("mean", "Mean", "x", "front")
                          "node{name:'shown' op:'Print' input:'x' input:'mean' input:'x' attr{key:'T' value{type:DT_FLOAT}} "
                          "attr{key:'U' value{list{type:DT_FLOAT type:DT_FLOAT}}}} " OP1("y", "Neg", "shown"),
                      "y");
  CU_ASSERT(a.plan.prints_once[weft_test_node(a.g, "shown")->id]);
  CU_ASSERT(is(required(&a, "shown", 0), WEFT_SHARDING_SHARD, 0, 0));
  CU_ASSERT(is(output(&a, "shown"), WEFT_SHARDING_SHARD, 0, 0));
  for (int i = 1; i < 3; i++) CU_ASSERT_EQUAL(required(&a, "shown", i).kind, WEFT_SHARDING_SINGLE);
  CU_ASSERT(!a.plan.prints_once[weft_test_node(a.g, "y")->id]);
  leave(&a);
}

#define COUNT(x) \
  OP1("shape", "Shape", x) INTS("front", 1, "int_val:0") INTS("behind", 1, "int_val:1") \
  "node{name:'n' op:'StridedSlice' input:'shape' input:'front' input:'behind' input:'behind' attr{key:'shrink_axis_mask' value{i:1}} " \
  "attr{key:'T' value{type:DT_INT32}} attr{key:'Index' value{type:DT_INT32}}} "
#define INT(name, v)                                                                         \
  "node{name:'" name                                                                         \
  "' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' value{tensor{dtype:" \
  "DT_INT32 tensor_shape{} int_val:" #v "}}}} "
#define INT2(name, op, a, b) \
  "node{name:'" name "' op:'" op "' input:'" a "' input:'" b "' attr{key:'T' value{type:DT_INT32}}} "
#define REAL(name, a)                        \
  "node{name:'" name "' op:'Cast' input:'" a \
  "' attr{key:'SrcT' value{type:DT_INT32}} attr{key:'DstT' value{type:DT_FLOAT}}} "

/* 0.7 times the rows of a replica, scaled, is not always 0.7 times all rows; where it is rounded, that shows.
 */
static void numbers_that_all_replicas_have_are_made_of_true_counts(void) {
#define GRAPH FEED("x", ROWS_OF(3)) COUNT("x") REAL("real", "n") NUMBER("rate", 1)
  static const char *const texts[] = {
      GRAPH OP2("y", "Mul", "real", "rate"),
      GRAPH OP2("y", "RealDiv", "real", "rate"),
      GRAPH OP2("z", "RealDiv", "rate", "real") OP2("y", "Mul", "z", "rate"),
      GRAPH OP2("z", "AddV2", "rate", "real") OP2("y", "Mul", "z", "rate"),
      GRAPH OP2("y", "Mul", "real", "real"),
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    analysed_t a = take(texts[i], "y");
    CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_REPLICATE, 0, 0));
    CU_ASSERT(is(required(&a, "y", 0), WEFT_SHARDING_REPLICATE, 0, 0));
    leave(&a);
  }
  analysed_t a = take(GRAPH OP2("y", "RealDiv", "x", "real"), "y"); /* rows by their number: no exchange */
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_SHARD, 0, 1));
  leave(&a);
#undef GRAPH
}

/* Sums of parts: what the first replica alone has is a term once, not once for each replica. */
static void a_term_of_the_first_replica_is_scaled_where_parts_are_added(void) {
  static const char text[] =
      FEED("x", ROWS_OF(3)) INTS("all", 2, "int_val:0 int_val:1") OP2("part", "Sum", "x", "all")
      "node{name:'once' op:'HistogramFixedWidth' input:'x' input:'range' input:'bins' attr{key:'T' "
      "value{type:DT_FLOAT}} attr{key:'dtype' value{type:DT_INT32}}} "
      "node{name:'range' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'value' "
      "value{tensor{dtype:DT_FLOAT tensor_shape{dim{size:2}} float_val:0 float_val:1}}}} " INT("bins", 4)
      REAL("real", "once") INTS("first", 1, "int_val:0") OP2("term", "Sum", "real", "first")
      OP2("y", "AddV2", "term", "part");
  analysed_t a = take(text, "y");
  CU_ASSERT(is(output(&a, "term"), WEFT_SHARDING_SINGLE, 0, 0));
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_PARTIAL, 0, 0));
  CU_ASSERT(is(required(&a, "y", 0), WEFT_SHARDING_REPLICATE, 0, -1));
  CU_ASSERT(is(required(&a, "y", 1), WEFT_SHARDING_PARTIAL, 0, 0));
  leave(&a);
}

/* A replica without rows would count one, or divide by none. */
static void counts_with_a_least_are_those_of_the_batch(void) {
#define GRAPH FEED("x", ROWS_OF(3)) COUNT("x") INT("one", 1) INT2("least", "Maximum", "n", "one")
  static const struct {
    const char *text, *root, *node; /* inputs of `node` are required as true values, or as they are */
    bool is_true;
  } cases[] = {
      {GRAPH, "least", "least", true},
      {GRAPH INT("zero", 0) INT2("none", "Maximum", "n", "zero"), "none", "none", false},
      {GRAPH INT2("more", "Mul", "least", "one"), "more", "least", true},
      {GRAPH REAL("real", "least") OP2("y", "RealDiv", "x", "real"), "y", "least",
       false}, /* rows divided by their number */
      {GRAPH REAL("real", "least") OP2("y", "Sum", "x", "front") OP2("z", "RealDiv", "y", "real"), "z",
       "least", false},
      {GRAPH REAL("real", "least") NUMBER("rate", 1) OP2("y", "RealDiv", "rate", "real"), "y", "least", true},
      {GRAPH "node{name:'size' op:'Size' input:'x'" F "} " INT2("width", "FloorDiv", "size", "n"), "width",
       "width", true},
      {GRAPH "node{name:'size' op:'Size' input:'x'" F "} " INT2("width", "FloorDiv", "size", "least"),
       "width", "least", true},
      {GRAPH "node{name:'size' op:'Size' input:'x'" F "} " INT2("width", "FloorDiv", "size", "least")
           REAL("real", "width") OP2("y", "RealDiv", "x", "real"),
       "y", "least", false}, /* the gradient of a mean over other axes */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    analysed_t a = take(cases[i].text, cases[i].root);
    CU_ASSERT_EQUAL(required(&a, cases[i].node, 0).kind,
                    cases[i].is_true ? WEFT_SHARDING_REPLICATE : WEFT_SHARDING_COUNTS);
    leave(&a);
  }
#undef GRAPH
}

/* (1 / n) * n is 0 / 0 where there are no rows. */
static void degrees_that_cancel_are_taken_from_true_numbers(void) {
  analysed_t a =
      take(FEED("x", ROWS_OF(3)) COUNT("x") REAL("real", "n") NUMBER("one", 1)
               OP2("y", "RealDiv", "one", "real") OP2("z", "Mul", "y", "real") OP2("rows", "Mul", "x", "y"),
           "z");
  CU_ASSERT(is(output(&a, "y"), WEFT_SHARDING_REPLICATE, 0, 0));
  for (int i = 0; i < 2; i++) CU_ASSERT(is(required(&a, "z", i), WEFT_SHARDING_REPLICATE, 0, 0));
  leave(&a);
}

/* It is checked on each replica. */
static void a_shape_that_fixes_the_number_of_rows_sees_all_of_them(void) {
  static const char *const rows[] = {"8", "-1"};
  for (int i = 0; i < 2; i++) {
    char text[512];
    snprintf(text, sizeof text,
             FEED("x", ROWS_OF(3)) "node{name:'e' op:'EnsureShape' input:'x' attr{key:'T' value{type:DT_FLOAT}} "
                                   "attr{key:'shape' value{shape{dim{size:%s} dim{size:3}}}}} " OP1("y", "Relu", "e"),
             rows[i]);
    analysed_t a = take(text, "y");
    CU_ASSERT_EQUAL(required(&a, "e", 0).kind, i == 0 ? WEFT_SHARDING_REPLICATE : WEFT_SHARDING_SHARD);
    leave(&a);
  }
}

static void a_queue_of_batches_is_shared_out(void) {
#define TYPES "attr{key:'component_types' value{list{type:DT_FLOAT}}} "
  analysed_t a =
      take("node{name:'q' op:'FIFOQueueV2' " TYPES
           "attr{key:'shapes' value{list{shape{dim{size:3}}}}}} "
           "node{name:'n' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' value{tensor{"
           "dtype:DT_INT32 tensor_shape{} int_val:8}}}} "
           "node{name:'x' op:'QueueDequeueManyV2' input:'q' input:'n' " TYPES
           "} " INTS("zero", 1, "int_val:0") OP1("r", "Relu", "x") OP2("y", "Mean", "r", "zero"),
           "y");
  CU_ASSERT_EQUAL(output(&a, "x").kind, WEFT_SHARDING_SINGLE);
  CU_ASSERT(is(required(&a, "r", 0), WEFT_SHARDING_SHARD, 0, 0));
  CU_ASSERT_EQUAL(output(&a, "y").kind, WEFT_SHARDING_PARTIAL);
  CU_ASSERT(a.plan.num_batches == 1 && a.plan.num_batch_feeds == 0);
  leave(&a);
#undef TYPES
}

static void shardings_are_printed_for_people(void) {
  const weft_axis_sharding_t part = weft_sharding_partial(1), rows = weft_sharding_shard(2, 0);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_axis_sharding_print(&part, &text);
  weft_strbuf_puts(&text, "; ");
  weft_axis_sharding_print(&rows, &text);
  CU_ASSERT_STRING_EQUAL(text.data, "Partial(sum), degree 1; Shard(2)");
  weft_strbuf_deinit(&text);
}

/* ---- the table ---- */

static void every_rule_of_a_record_has_a_function(void) {
  int n;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  for (int i = 0; i < n; i++) {
    bool has_factors = ops[i]->sharding != NULL || ops[i]->shard != NULL;
    CU_ASSERT_EQUAL(weft_data_rule_of(ops[i]) != NULL, has_factors || ops[i]->batch != WEFT_BATCH_BY_FLAGS);
  }
}

/* Of the ops that training goes through, those with a gradient. The rest runs once, on gathered inputs:
 * linear algebra on whole matrices, calls, and arithmetic that training rarely meets. */
static void most_ops_have_a_rule(void) {
  int n, trained = 0, without = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  for (int i = 0; i < n; i++) {
    if (ops[i]->gradient == NULL || ops[i]->gradient == weft_grad_none) continue;
    trained++;
    without += !weft_data_has_rule(ops[i]);
  }
  printf("(%d of %d run once) ", without, trained);
  CU_ASSERT(trained > 200 && without * 2 < trained);
}

/* ---- memory ---- */

static weft_status_t *analyse_again(weft_graph_t *g) {
  const weft_node_t *roots[1] = {weft_graph_find(g, WEFT_STR("y"))};
  const weft_data_options_t o = {.roots = roots, .num_roots = 1};
  weft_data_plan_t plan;
  weft_status_t *s = weft_data_analyse(g, &o, &plan);
  if (s == NULL) weft_data_plan_deinit(&plan);
  return s;
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void) {
  weft_graph_t *g = weft_test_graph(FEED("x", ROWS_OF(3)) VAR("w", "dim{size:3} dim{size:2}")
                                        INTS("zero", 1, "int_val:0") OP2("h", "MatMul", "x", "w")
                                            OP2("mean", "Mean", "h", "zero") OP1("y", "Exp", "mean"));
  weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, analyse_again(g));
  CU_ASSERT_TRUE(n > 2);
  weft_graph_destroy(g);
}

static const CU_TestInfo tests[] = {
    {"numbers are checked of true means", numbers_are_checked_of_true_means},
    {"rows that are grouped are gathered", rows_that_are_grouped_are_gathered},
    {"offsets beside a whole batch are taken of whole shapes",
     offsets_beside_a_whole_batch_are_taken_of_whole_shapes},
    {"a batch may be unused", a_batch_may_be_unused},
    {"a graph without a batch is refused", a_graph_without_a_batch_is_refused},
    {"a variable is written with the rows of all", a_variable_is_written_with_the_rows_of_all},
    {"a shape that fixes the batch is one of all rows", a_shape_that_fixes_the_batch_is_one_of_all_rows},
    {"an unknown effect on a variable is refused", an_unknown_effect_on_a_variable_is_refused},
    {"a mean is a part of degree one and a sum of degree zero",
     a_mean_is_a_part_of_degree_one_and_a_sum_of_degree_zero},
    {"a nonlinear use of a part adds it up for all", a_nonlinear_use_of_a_part_adds_it_up_for_all},
    {"rows against rows need one side whole", rows_against_rows_need_one_side_whole},
    {"rows follow transposes and counts follow shapes", rows_follow_transposes_and_counts_follow_shapes},
    {"what has no rule runs once and is noted", what_has_no_rule_runs_once_and_is_noted},
    {"sums and zeros of lists keep what is known of the elements",
     sums_and_zeros_of_lists_keep_what_is_known_of_the_elements},
    {"random rows are drawn by those that have them, others once",
     random_rows_are_drawn_by_those_that_have_them_and_others_once},
    {"optionals hold what was put in, and lists are as long on all",
     optionals_hold_what_was_put_in_and_lists_are_as_long_on_all},
    {"the flow of an array meets a zero", the_flow_of_an_array_meets_a_zero},
    {"a squeeze without dims is told which", a_squeeze_without_dims_is_told_which},
    {"numbers that all replicas have are made of true counts",
     numbers_that_all_replicas_have_are_made_of_true_counts},
    {"a term of the first replica is scaled where parts are added",
     a_term_of_the_first_replica_is_scaled_where_parts_are_added},
    {"counts with a least are those of the batch", counts_with_a_least_are_those_of_the_batch},
    {"degrees that cancel are taken from true numbers", degrees_that_cancel_are_taken_from_true_numbers},
    {"axes worked out from shapes are named", axes_worked_out_from_shapes_are_named},
    {"what is printed is true and printed once", what_is_printed_is_true_and_printed_once},
    {"rows that were not broadcast are kept", rows_that_were_not_broadcast_are_kept},
    {"axes of unknown dims are not named", axes_of_unknown_dims_are_not_named},
    {"a shape that fixes the number of rows sees all of them",
     a_shape_that_fixes_the_number_of_rows_sees_all_of_them},
    {"a queue of batches is shared out", a_queue_of_batches_is_shared_out},
    {"shardings are printed for people", shardings_are_printed_for_people},
    {"every rule names an op, once and in order", every_rule_of_a_record_has_a_function},
    {"most ops have a rule", most_ops_have_a_rule},
    {"a failed allocation is reported and leaks nothing", a_failed_allocation_is_reported_and_leaks_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("data", tests); }
