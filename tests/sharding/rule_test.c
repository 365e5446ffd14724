/* Sharding rules: for each op that has one, everything that it allows is computed on parts and compared with
 * the whole; every op has a rule or a reason; mistakes are found. */
#include "sharding/rule.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernel.h"
#include "ops/factors.h"
#include "tests/runner.h"
#include "tests/sharding/exhaustive.h"

typedef struct rule_case {
  const char *op, *attrs, *inputs;
  const char *signatures; /* all that it must have (exhaustive.h); NULL: any */
} rule_case_t;
static const rule_case_t cases[] = {
#define CASE(op_, attrs_, inputs_) {op_, attrs_, inputs_, NULL},
#define COMPLETE(op_, attrs_, inputs_, ...) {op_, attrs_, inputs_, __VA_ARGS__},
#define NO_RULE(op_, reason_)
#include "tests/sharding/rules.def"
#undef CASE
#undef COMPLETE
#undef NO_RULE
};
enum { NUM_CASES = sizeof cases / sizeof cases[0] };

typedef struct unruled {
  const char *op, *reason;
} unruled_t;
static const unruled_t unruled[] = {
#define CASE(op_, attrs_, inputs_)
#define COMPLETE(op_, attrs_, inputs_, ...)
#define NO_RULE(op_, reason_) {op_, reason_},
#include "tests/sharding/rules.def"
#undef CASE
#undef COMPLETE
#undef NO_RULE
};
enum { NUM_UNRULED = sizeof unruled / sizeof unruled[0] };

static bool has_rule(const weft_op_def_t *op) {
  return op->sharding != NULL || op->shard != NULL || (op->flags & WEFT_OP_ELEMENTWISE) != 0;
}

static bool has_own_rule(const weft_op_def_t *op) { return op->sharding != NULL || op->shard != NULL; }

static bool reads_variable(const weft_op_def_t *op) {
  return op->num_inputs > 0 && op->inputs[0].kind == WEFT_ARG_FIXED && op->inputs[0].dtype == WEFT_RESOURCE;
}

/* Or is it rewritten before a graph runs? */
static bool has_kernel(const weft_op_def_t *op) {
  weft_dtype_set_t types;
  return weft_kernel_exists("CPU", op->name, &types) || (op->flags & WEFT_OP_FUNCTIONAL) != 0;
}

static bool is_unruled(weft_str_t op) {
  for (int i = 0; i < NUM_UNRULED; i++) {
    if (weft_str_is(op, unruled[i].op)) return true;
  }
  return false;
}

static weft_bench_t bench(void) {
  weft_bench_t b;
  weft_status_t *s = weft_bench_init(&b);
  if (s != NULL) abort();
  return b;
}

static void every_case_is_the_whole(void) {
  weft_bench_t b = bench();
  weft_rule_count_t all = {0};
  for (int i = 0; i < NUM_CASES; i++) {
    weft_rule_count_t count = {0};
    weft_status_t *s = weft_rule_compute(&b, cases[i].op, cases[i].attrs, cases[i].inputs, NULL, &count);
    if (s != NULL) fprintf(stderr, "%s\n", weft_status_message(s));
    CU_ASSERT_PTR_NULL(s);
    if (s == NULL && count.factors == 0) fprintf(stderr, "%s (%s): no factor\n", cases[i].op, cases[i].attrs);
    CU_ASSERT_TRUE(s != NULL || count.factors > 0);
    CU_ASSERT_EQUAL(count.failures, 0);
    weft_status_free(s);
    all.choices += count.choices;
    all.factors += count.factors;
  }
  fprintf(stderr, "%d cases, %d choices on parts\n", NUM_CASES, all.choices);
  weft_bench_deinit(&b);
}

/* Ops along whose every dimension a model may be split: they need all that the mathematics allows. */
static const char *const modelled[] = {"MatMul",
                                       "BatchMatMul",
                                       "BatchMatMulV2",
                                       "BatchMatMulV3",
                                       "Einsum",
                                       "Conv2D",
                                       "Conv2DBackpropFilter",
                                       "Conv2DBackpropInput",
                                       "DepthwiseConv2dNative",
                                       "DepthwiseConv2dNativeBackpropFilter",
                                       "DepthwiseConv2dNativeBackpropInput",
                                       "Softmax",
                                       "LogSoftmax",
                                       "SoftmaxCrossEntropyWithLogits",
                                       "SparseSoftmaxCrossEntropyWithLogits",
                                       "FusedBatchNorm",
                                       "FusedBatchNormV2",
                                       "FusedBatchNormV3",
                                       "FusedBatchNormGrad",
                                       "FusedBatchNormGradV2",
                                       "FusedBatchNormGradV3",
                                       "LRN",
                                       "LRNGrad",
                                       "AvgPool",
                                       "AvgPoolGrad",
                                       "MaxPool",
                                       "MaxPoolGrad",
                                       "MaxPoolV2",
                                       "MaxPoolGradV2",
                                       "MaxPoolGradGrad",
                                       "BiasAdd",
                                       "BiasAddGrad",
                                       "Gather",
                                       "GatherV2",
                                       "UnsortedSegmentSum",
                                       "Sum",
                                       "Mean",
                                       "Max",
                                       "Min",
                                       "Prod",
                                       "All",
                                       "Any",
                                       "Select",
                                       "Transpose",
                                       "Reshape",
                                       "Concat",
                                       "ConcatV2",
                                       "Split",
                                       "SplitV",
                                       "Slice",
                                       "StridedSlice",
                                       "Pad",
                                       "PadV2",
                                       "MirrorPad",
                                       "Tile",
                                       "Pack",
                                       "Unpack",
                                       "BroadcastTo"};

static void models_have_complete_rules(void) {
  weft_bench_t b = bench();
  for (int i = 0; i < NUM_CASES; i++) {
    weft_strbuf_t notation = WEFT_STRBUF_INIT, text = WEFT_STRBUF_INIT;
    if (cases[i].signatures == NULL) continue;
    weft_status_t *s =
        weft_rule_signatures(&b, cases[i].op, cases[i].attrs, cases[i].inputs, &notation, &text);
    CU_ASSERT_PTR_NULL(s);
    bool is_complete = s == NULL && weft_str_is(weft_str_of(text.data, text.length), cases[i].signatures);
    if (!is_complete) {
      fprintf(stderr, "COMPLETE(\"%s\", \"%s\", \"%s\", \"%s\")\n", cases[i].op, cases[i].attrs,
              cases[i].inputs, text.length > 0 ? text.data : "");
    }
    CU_ASSERT_TRUE(is_complete);
    weft_strbuf_deinit(&notation);
    weft_strbuf_deinit(&text);
    weft_status_free(s);
  }
  for (size_t i = 0; i < sizeof modelled / sizeof modelled[0]; i++) {
    bool is_there = false;
    for (int k = 0; k < NUM_CASES; k++) {
      is_there = is_there || (cases[k].signatures != NULL && strcmp(cases[k].op, modelled[i]) == 0);
    }
    if (!is_there) fprintf(stderr, "%s: no complete case\n", modelled[i]);
    CU_ASSERT_TRUE(is_there);
  }
  weft_bench_deinit(&b);
}

/* Inputs for an elementwise op, all of one type where the op leaves it open: of one shape, or broadcasting.
 */
static void elementwise_inputs(const weft_op_def_t *op, const char *type, bool broadcasts, char *out,
                               size_t size) {
  size_t used = 0;
  out[0] = '\0';
  for (int i = 0; i < op->num_inputs; i++) {
    const weft_arg_def_t *arg = &op->inputs[i];
    const char *mine = arg->kind == WEFT_ARG_FIXED ? weft_dtype_name(arg->dtype) : type;
    const char *shape = !broadcasts ? "[4,6]" : i % 2 == 0 ? "[4,1,6]" : "[2,1]";
    used += (size_t)snprintf(out + used, size - used, "%s%s%s", i > 0 ? " " : "", mine, shape);
    if (arg->kind == WEFT_ARG_REPEATED)
      used += (size_t)snprintf(out + used, size - used, " %s%s", mine, shape);
  }
}

/* Attributes that have no default. */
static const char *elementwise_attrs(weft_str_t op) {
  static const char *const pairs[][2] = {{"Cast", "DstT=float"},
                                         {"AccumulateNV2", "shape=[4,6]"},
                                         {"CheckNumerics", "message=x"},
                                         {"CheckNumericsV2", "message=x"}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    if (weft_str_is(op, pairs[i][0])) return pairs[i][1];
  }
  return NULL;
}

/* In the first type that has a kernel. Whether there is one. */
static bool compute_elementwise(weft_bench_t *b, const weft_op_def_t *op, bool broadcasts,
                                weft_rule_count_t *count) {
  static const char *const types[] = {"double", "float", "complex128", "int32", "bool"};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    char inputs[256];
    elementwise_inputs(op, types[i], broadcasts, inputs, sizeof inputs);
    weft_status_t *s = weft_rule_compute(b, op->name.data, elementwise_attrs(op->name), inputs, NULL, count);
    bool ran = s == NULL;
    weft_status_free(s);
    if (ran) return true;
  }
  return false;
}

static void elementwise_ops_are_the_whole(void) {
  weft_bench_t b = bench();
  int n = 0, num_ops = 0, num_broadcast = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  for (int i = 0; i < n; i++) {
    const weft_op_def_t *op = ops[i];
    if ((op->flags & WEFT_OP_ELEMENTWISE) == 0 || has_own_rule(op) || is_unruled(op->name)) continue;
    weft_rule_count_t count = {0};
    bool ran = compute_elementwise(&b, op, false, &count);
    if (!ran) fprintf(stderr, "%s: has no kernel\n", op->name.data);
    CU_ASSERT_TRUE(ran && count.factors > 0 && count.failures == 0);
    CU_ASSERT_EQUAL(count.dims, 2); /* both dimensions */
    weft_rule_count_t spread = {0};
    if (op->num_inputs > 1 && compute_elementwise(&b, op, true, &spread)) num_broadcast++;
    CU_ASSERT_EQUAL(spread.failures, 0);
    num_ops++;
  }
  CU_ASSERT_TRUE(num_ops > 90 && num_broadcast > 20);
  weft_bench_deinit(&b);
}

static void every_op_has_a_rule_or_a_reason(void) {
  int n = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  for (int i = 0; i < n; i++) {
    if (!has_kernel(ops[i])) continue;
    bool has_case = !has_own_rule(ops[i]) || reads_variable(ops[i]);
    for (int k = 0; k < NUM_CASES; k++) has_case = has_case || weft_str_is(ops[i]->name, cases[k].op);
    bool has_reason = is_unruled(ops[i]->name);
    if (has_rule(ops[i]) == has_reason) {
      fprintf(stderr, "%s: %s\n", ops[i]->name.data,
              has_reason ? "has a rule, and a reason to have none"
                         : "no rule: name the reason in tests/sharding/rules/");
    }
    CU_ASSERT_TRUE(has_rule(ops[i]) != has_reason);
    if (!has_case && !has_reason)
      fprintf(stderr, "%s: no case in tests/sharding/rules/\n", ops[i]->name.data);
    CU_ASSERT_TRUE(has_case || has_reason);
    if (ops[i]->sharding == NULL) continue;
    weft_status_t *s = weft_factors_check(ops[i], ops[i]->sharding);
    CU_ASSERT_PTR_NULL(s);
    weft_status_free(s);
  }
  for (int i = 0; i < NUM_UNRULED; i++) CU_ASSERT_PTR_NOT_NULL(weft_op_find(weft_str(unruled[i].op)));
}

/* A variable is not run by this test: its rule is the one of a tensor. */
static void variables_are_gathered_like_tensors(void) {
  static const char *const ops[] = {"ResourceGather", "ResourceGatherNd", "ReadVariableOp"};
  static const char *const texts[] = {"a:b,c->cb", "_b,c_->cb", "...->..."};
  for (int i = 0; i < 3; i++) {
    int types[2] = {WEFT_RESOURCE, WEFT_I32};
    weft_shape_t inputs[2] = {WEFT_SCALAR, i == 0 ? weft_shape_vector(4) : weft_shape_matrix(4, 1)};
    const weft_handle_data_t handles[2] = {{.shape = weft_shape_matrix(8, 6), .dtype = WEFT_F32}};
    weft_shape_t out = weft_shape_matrix(i == 2 ? 8 : 4, 6);
    const weft_tensor_t *values[2] = {NULL, NULL};
    weft_named_attr_t attrs[1] = {{WEFT_STR("batch_dims"), {.kind = WEFT_ATTR_INT, .i = 0}}};
    weft_shape_ctx_t c = {.op = weft_op_find(weft_str(ops[i])),
                          .attrs = attrs,
                          .num_attrs = 1,
                          .num_inputs = i == 2 ? 1 : 2,
                          .num_outputs = 1,
                          .input_types = types,
                          .inputs = inputs,
                          .values = values,
                          .outputs = &out,
                          .handles = handles};
    weft_arena_t arena = WEFT_ARENA_INIT;
    const char *text = NULL;
    weft_rule_t rule;
    weft_status_t *s = weft_rule_text(&c, &arena, &text);
    CU_ASSERT_PTR_NULL_FATAL(s);
    CU_ASSERT_STRING_EQUAL(text, texts[i]);
    s = weft_rule_make(&c, text, &arena, &rule);
    CU_ASSERT_PTR_NULL(s);
    weft_axis_sharding_t in[2], made;
    int columns = rule.factors.inputs[0].dims[1];
    weft_rule_apply(&rule, (weft_rule_choice_t){WEFT_RULE_FACTOR, columns}, in, &made);
    CU_ASSERT_EQUAL(in[0].dim, 1);
    CU_ASSERT_EQUAL(made.dim, 1);
    weft_status_free(s);
    weft_arena_deinit(&arena);
  }
}

/* Does the test see that the rule is not the op's? */
static bool is_found(weft_bench_t *b, const rule_case_t *of, const weft_rule_mutation_t *mutation) {
  weft_rule_count_t count = {0};
  weft_status_t *s = weft_rule_compute(b, of->op, of->attrs, of->inputs, mutation, &count);
  bool is_refused = s != NULL;
  weft_status_free(s);
  return is_refused || count.failures > 0;
}

static void mistakes_are_found(void) {
  static const struct {
    rule_case_t of;
    weft_rule_mutation_t mutation;
  } mistakes[] = {
      {{"MatMul", "", "double[4,6] double[6,4]", NULL}, {"mk,kn->nm", 0}},
      {{"MatMul", "", "double[4,4] double[4,4]", NULL}, {"km,kn->mn", 0}},
      {{"MatMul", "", "double[4,6] double[6,4]", NULL}, {"mk,kn->mn|max", 0}},
      {{"MatMul", "", "double[4,6] double[6,4]", NULL}, {"mk,_n->mn", 0}},
      {{"Softmax", "", "double[4,6]", NULL}, {"...->...", 0}},
      {{"Softmax", "", "double[4,6]", NULL}, {NULL, WEFT_OP_LINEAR_IN(0)}},
      {{"Square", "", "double[4,6]", NULL}, {NULL, WEFT_OP_LINEAR_IN(0)}},
      {{"Max", "", "double[4,6] int32[1]:1", NULL}, {"ab,->a|sum", 0}},
      {{"Mean", "", "double[4,6] int32[1]:1", NULL}, {"ab,->a|sum", 0}},
      {{"Cumsum", "", "double[4,6] int32[]:1", NULL}, {"ab,->ab", 0}},
      {{"GatherV2", "", "double[8,6] int32[4]%8 int32[]:0", NULL}, {"vb,i,->ib", 0}},
      {{"Reshape", "", "double[4,6] int32[2]:6,4", NULL}, {"a_,[_a]->_a", 0}},
      {{"Conv2D", "strides=[1,1,1,1] padding=SAME", "double[4,6,4,2] double[3,3,2,4]", NULL},
       {"bh_i,__io->bh_o", 0}},
      {{"FusedBatchNorm", "is_training=true", "float[4,3,3,4] float[4] float[4] float[0] float[0]", NULL},
       {"b__c,c,c,,->b__c,=c,=c,=c,=c", 0}},
      {{"UnsortedSegmentSum", "", "double[4,6] int32[4]%3 int32[]:3", NULL}, {"nb,_,->_b", 0}},
      {{"TopKV2", "", "double[4,8] int32[]:2", NULL}, {"ab,->a_,a_", 0}},
  };
  weft_bench_t b = bench();
  for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
    CU_ASSERT_FALSE(is_found(&b, &mistakes[i].of, &(weft_rule_mutation_t){NULL, 0}));
    bool found = is_found(&b, &mistakes[i].of, &mistakes[i].mutation);
    if (!found) fprintf(stderr, "mistake %d of %s is not found\n", (int)i, mistakes[i].of.op);
    CU_ASSERT_TRUE(found);
  }
  weft_bench_deinit(&b);
}

/* Is the letter a dimension of an input, and not only the size of one? A rule without it allows less then. */
static bool is_dimension(const char *notation, char letter) {
  bool is_size = false;
  for (const char *p = notation; strncmp(p, "->", 2) != 0; p++) {
    if (*p == '[' || *p == ']') is_size = *p == '[';
    if (*p == letter && !is_size) return true;
  }
  return false;
}

/* In every case, each dimension of a result that has a letter, taken for one that is whole. */
static void forgotten_letters_are_found(void) {
  weft_bench_t b = bench();
  int num_mutants = 0;
  for (int i = 0; i < NUM_CASES; i++) {
    weft_strbuf_t notation = WEFT_STRBUF_INIT, unused = WEFT_STRBUF_INIT;
    weft_status_t *s =
        weft_rule_signatures(&b, cases[i].op, cases[i].attrs, cases[i].inputs, &notation, &unused);
    char *results = s == NULL ? strstr(notation.data, "->") : NULL;
    for (char *p = results; p != NULL && *p != '\0' && *p != '|'; p++) {
      if (!isalpha((unsigned char)*p) || !is_dimension(notation.data, *p)) continue;
      char letter = *p;
      *p = '_';
      bool found = is_found(&b, &cases[i], &(weft_rule_mutation_t){notation.data, 0});
      if (!found)
        fprintf(stderr, "%s (%s) by \"%s\" is not found\n", cases[i].op, cases[i].attrs, notation.data);
      CU_ASSERT_TRUE(found);
      *p = letter;
      num_mutants++;
    }
    CU_ASSERT_PTR_NULL(s);
    weft_status_free(s);
    weft_strbuf_deinit(&notation);
    weft_strbuf_deinit(&unused);
  }
  fprintf(stderr, "%d mutants\n", num_mutants);
  CU_ASSERT_TRUE(num_mutants > 200);
  weft_bench_deinit(&b);
}

int main(void) {
  CU_TestInfo tests[] = {{"every op has a rule or a reason", every_op_has_a_rule_or_a_reason},
                         {"every case is the whole", every_case_is_the_whole},
                         {"models have complete rules", models_have_complete_rules},
                         {"elementwise ops are the whole", elementwise_ops_are_the_whole},
                         {"variables are gathered like tensors", variables_are_gathered_like_tensors},
                         {"mistakes are found", mistakes_are_found},
                         {"forgotten letters are found", forgotten_letters_are_found},
                         CU_TEST_INFO_NULL};
  return weft_run_tests("rule", tests);
}
