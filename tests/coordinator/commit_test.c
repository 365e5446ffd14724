/* tests/coordinator/commit_test.c - behind a claim, the rest of a step's part runs although the step fails.
 */
#include <stdio.h>

#include "tests/client/client_testing.h"

static TF_Output variable(world_t *w) {
  TF_OperationDescription *d = TF_NewOperation(w->g, "VarHandleOp", "v");
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrShape(d, "shape", NULL, 0);
  TF_SetAttrString(d, "shared_name", "v", 1);
  TF_Output v = {TF_FinishOperation(d, w->s), 0};
  ASSERT_OK(w);
  return v;
}

static TF_Operation *update(world_t *w, const char *op, const char *name, TF_Output v, TF_Output value) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  TF_AddInput(d, v);
  TF_AddInput(d, value);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return o;
}

/* Fails when `after` has run. */
static TF_Operation *failing(world_t *w, TF_Output after) {
  static const TF_DataType types[] = {TF_STRING};
  TF_Tensor *no = TF_AllocateTensor(TF_BOOL, NULL, 0, 1);
  memset(TF_TensorData(no), 0, 1);
  TF_Output never = constant(w, w->g, "never", no),
            text = constant(w, w->g, "text", new_string("on purpose"));
  TF_OperationDescription *d = TF_NewOperation(w->g, "Assert", "assert");
  TF_AddInput(d, never);
  TF_AddInputList(d, &text, 1);
  TF_SetAttrTypeList(d, "T", types, 1);
  TF_AddControlInput(d, after.oper);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return o;
}

/* A step that claims a number (or, without a claim, only makes a constant), fails then, and has an update to
 * do that becomes ready later. The value of the variable after `runs` of it. */
static float value_after(bool claims, int runs) {
  world_t w;
  world_open(&w);
  TF_Output v = variable(&w), begun;
  run_target(&w, update(&w, "AssignVariableOp", "init", v, constant(&w, w.g, "zero", new_float(0))));
  ASSERT_OK(&w);
  TF_Output id = placeholder(&w, w.g, "id", TF_INT64);
  if (claims) {
    TF_OperationDescription *d = TF_NewOperation(w.g, "WeftOnce", "claim");
    TF_AddInput(d, id);
    TF_SetAttrString(d, "shared_name", "numbers", 7);
    begun = (TF_Output){TF_FinishOperation(d, w.s), 0};
    ASSERT_OK(&w);
  } else {
    begun = unary(&w, w.g, "Identity", "no_claim", id);
  }
  TF_Operation *bad = failing(&w, begun);
  TF_OperationDescription *d = TF_NewOperation(w.g, "NoOp", "later_0");
  TF_AddControlInput(d, begun.oper);
  TF_Operation *last = TF_FinishOperation(d, w.s);
  for (int i = 1; i < 20; i++) { /* the failure comes first */
    char name[24];
    snprintf(name, sizeof name, "later_%d", i);
    d = TF_NewOperation(w.g, "NoOp", name);
    TF_AddControlInput(d, last);
    last = TF_FinishOperation(d, w.s);
  }
  d = TF_NewOperation(w.g, "Identity", "one_later");
  TF_AddInput(d, constant(&w, w.g, "one", new_float(1)));
  TF_AddControlInput(d, last);
  TF_Output one = {TF_FinishOperation(d, w.s), 0};
  TF_Operation *add = update(&w, "AssignAddVariableOp", "add", v, one);
  const TF_Operation *targets[] = {bad, add};
  const int64_t number = 7;
  TF_Tensor *t = TF_AllocateTensor(TF_INT64, NULL, 0, sizeof number);
  memcpy(TF_TensorData(t), &number, sizeof number);
  for (int i = 0; i < runs; i++) {
    TF_SessionRun(w.session, NULL, &id, &t, 1, NULL, NULL, 0, targets, 2, NULL, w.s);
    ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "on purpose");
  }
  d = TF_NewOperation(w.g, "ReadVariableOp", "read");
  TF_AddInput(d, v);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_Tensor *value = run1(&w, (TF_Output){NULL, 0}, NULL, (TF_Output){TF_FinishOperation(d, w.s), 0});
  CU_ASSERT_PTR_NOT_NULL_FATAL(value);
  float result = float_at(value, 0);
  TF_DeleteTensor(value);
  TF_DeleteTensor(t);
  world_close(&w);
  return result;
}

static void what_is_behind_a_claim_runs_although_the_step_fails(void) {
  CU_ASSERT_EQUAL(value_after(true, 1), 1.0f);
}

/* The failure need not come first, so a busy machine may be asked again; with a claim it would
 * never be 0. */
static void without_a_claim_it_does_not(void) {
  int without = 0;
  for (int i = 0; i < 100 && without == 0; i++) without += value_after(false, 1) == 0.0f;
  CU_ASSERT_EQUAL(without, 1);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"what is behind a claim runs although the step fails",
       what_is_behind_a_claim_runs_although_the_step_fails},
      {"without a claim it does not", without_a_claim_it_does_not},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("commit", tests);
}
