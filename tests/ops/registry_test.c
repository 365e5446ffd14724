/* tests/ops/registry_test.c - the op table against TensorFlow's own registry.
 *
 * testdata/registry.txt holds each op as TensorFlow 2.19 prints it in its
 * messages, sorted by name. Inputs, outputs, attributes with types, defaults, minima and allowed
 * values, and the properties that TensorFlow declares must all be equal.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "ops/op.h"
#include "tests/runner.h"

#define GOLDEN "tests/ops/testdata/registry.txt"

/* An op whose arguments are lists prints no type for them: these are checked here by name. */
static const struct {
  const char *op, *attr;
} list_args[] = {{"IdentityN", "T"},
                 {"If", "Tin"},
                 {"While", "T"},
                 {"SaveV2", "dtypes"},
                 {"QueueEnqueueV2", "Tcomponents"}};

/* An op that TensorFlow has not. */
static bool is_own(const weft_op_def_t *op) {
  return weft_str_starts_with(op->name, "Weft") || weft_str_starts_with(op->name, "_Weft");
}

static void every_op_prints_as_in_tensorflow(void) {
  int n = 0, i = 0, wrong = 0;
  char line[8192];
  const weft_op_def_t *const *ops = weft_op_list(&n);
  FILE *f = fopen(GOLDEN, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  while (fgets(line, sizeof line, f) != NULL) {
    weft_str_t name, rest, wanted = weft_str_of(line, strcspn(line, "\n"));
    CU_ASSERT_TRUE_FATAL(weft_str_starts_with(wanted, "Op<name="));
    CU_ASSERT_TRUE_FATAL(weft_str_split(weft_str_of(line + 8, wanted.length - 8), ';', &name, &rest));
    const weft_op_def_t *op = weft_op_find(name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(op);
    while (i < n && is_own(ops[i])) i++;
    CU_ASSERT_TRUE(i < n && ops[i] == op); /* same order, none left out */
    i++;
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_op_print(op, &text);
    if (!weft_str_eq(weft_str_of(text.data, text.length), wanted)) {
      wrong++;
      fprintf(stderr, "wanted %.*s\n   got %s\n", WEFT_STR_ARGS(wanted), text.data);
    }
    weft_strbuf_deinit(&text);
  }
  fclose(f);
  CU_ASSERT_EQUAL(wrong, 0);
  while (i < n && is_own(ops[i])) i++;
  CU_ASSERT_EQUAL(i, n);
  CU_ASSERT_TRUE(n > 1700);
}

static void list_arguments_name_their_attribute(void) {
  for (size_t i = 0; i < sizeof list_args / sizeof list_args[0]; i++) {
    const weft_op_def_t *op = weft_op_find(weft_str(list_args[i].op));
    CU_ASSERT_PTR_NOT_NULL_FATAL(op);
    const weft_arg_def_t *arg = &op->inputs[op->num_inputs - 1];
    CU_ASSERT_EQUAL(arg->kind, WEFT_ARG_TYPE_LIST);
    CU_ASSERT_TRUE(weft_str_is(arg->type_attr, list_args[i].attr));
  }
}

static void an_unknown_op_is_not_found(void) {
  CU_ASSERT_PTR_NULL(weft_op_find(weft_str("MatMu")));
  CU_ASSERT_PTR_NULL(weft_op_find(weft_str("")));
  CU_ASSERT_PTR_NULL(weft_op_find(weft_str("matmul")));
}

static bool has(const char *name, uint64_t flags) {
  const weft_op_def_t *op = weft_op_find(weft_str(name));
  return op != NULL && (op->flags & flags) == flags;
}

static void properties_are_told(void) {
  CU_ASSERT_TRUE(has("Switch", WEFT_OP_SWITCH | WEFT_OP_CHEAP));
  CU_ASSERT_TRUE(has("_SwitchN", WEFT_OP_SWITCH | WEFT_OP_INTERNAL));
  CU_ASSERT_TRUE(has("VarHandleOp", WEFT_OP_VARIABLE | WEFT_OP_STATEFUL));
  CU_ASSERT_TRUE(has("Shape", WEFT_OP_METADATA));
  CU_ASSERT_TRUE(has("_Recv", WEFT_OP_RECV | WEFT_OP_BLOCKING | WEFT_OP_COMMUNICATION));
  CU_ASSERT_FALSE(has("_Send", WEFT_OP_COMMUNICATION));
  CU_ASSERT_TRUE(has("AddN", WEFT_OP_AGGREGATE | WEFT_OP_COMMUTATIVE));
  CU_ASSERT_FALSE(has("Add", WEFT_OP_COMMUTATIVE));
  CU_ASSERT_TRUE(has("While", WEFT_OP_FUNCTIONAL | WEFT_OP_COLOCATE_EXEMPT));
  CU_ASSERT_FALSE(has("MatMul", WEFT_OP_CHEAP));
}

static void only_underscored_ops_are_internal(void) {
  int n = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  for (int i = 0; i < n; i++) {
    CU_ASSERT_EQUAL((ops[i]->flags & WEFT_OP_INTERNAL) != 0, ops[i]->name.data[0] == '_');
  }
}

static void updates_name_the_input_that_updates(void) {
  static const struct {
    const char *op, *input;
  } cases[] = {{"ApplyAdam", "grad"},
               {"ResourceApplyGradientDescent", "delta"},
               {"AssignVariableOp", "value"},
               {"ScatterAdd", "updates"},
               {"SparseApplyFtrlV2", "grad"},
               {"Assign", "value"},
               {"ResourceApplyAdamWithAmsgrad", "grad"},
               {"AssignAddVariableOp", "value"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const weft_op_def_t *op = weft_op_find(weft_str(cases[i].op));
    CU_ASSERT_PTR_NOT_NULL_FATAL(op);
    CU_ASSERT_TRUE(op->flags & WEFT_OP_UPDATE);
    CU_ASSERT_TRUE_FATAL(op->update_grad_input > 0 && op->update_grad_input < op->num_inputs);
    CU_ASSERT_TRUE(weft_str_is(op->inputs[op->update_grad_input].name, cases[i].input));
  }
  CU_ASSERT_EQUAL(weft_op_find(weft_str("CountUpTo"))->update_grad_input, -1);
  CU_ASSERT_TRUE(has("CountUpTo", WEFT_OP_UPDATE));
  CU_ASSERT_EQUAL(weft_op_find(weft_str("MatMul"))->update_grad_input, -1);
}

static void removed_ops_say_since_when(void) {
  const weft_op_def_t *op = weft_op_find(weft_str("TopK"));
  CU_ASSERT_EQUAL(op->removed_in, 7);
  CU_ASSERT_STRING_EQUAL(op->removed_why, "Use TopKV2 instead");
  CU_ASSERT_EQUAL(weft_op_find(weft_str("TopKV2"))->removed_in, 0);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"every op prints as in TensorFlow", every_op_prints_as_in_tensorflow},
      {"list arguments name their attribute", list_arguments_name_their_attribute},
      {"an unknown op is not found", an_unknown_op_is_not_found},
      {"properties are told", properties_are_told},
      {"only underscored ops are internal", only_underscored_ops_are_internal},
      {"updates name the input that updates", updates_name_the_input_that_updates},
      {"removed ops say since when", removed_ops_say_since_when},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("registry", tests);
}
