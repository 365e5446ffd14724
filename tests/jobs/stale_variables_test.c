/* tests/jobs/stale_variables_test.c - which variables lose the values of a former job before the initialisers
 * run: assigned in every case, and asked about. */
#include "jobs/stale_variables.h"

#include <stdio.h>

#include "base/alloc.h"
#include "tests/runner.h"

static TF_Graph *graph; /* of the running test */
static TF_Status *status;

static void begin(void) {
  graph = TF_NewGraph();
  status = TF_NewStatus();
}

static void end(void) {
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}

/* ---- graphs ---- */

/* `inputs` end with {NULL}. */
static TF_Output node(const char *op, const char *name, const TF_Output *inputs, TF_Operation *control) {
  TF_OperationDescription *d = TF_NewOperation(graph, op, name);
  for (; inputs != NULL && inputs->oper != NULL; inputs++) TF_AddInput(d, *inputs);
  if (control != NULL) TF_AddControlInput(d, control);
  if (strcmp(op, "VariableV2") == 0 || strcmp(op, "VarHandleOp") == 0) {
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", NULL, 0);
    TF_SetDevice(d, "/job:ps/task:1");
  }
  if (strcmp(op, "Enter") == 0) TF_SetAttrString(d, "frame_name", "f", 1);
  TF_Operation *made = TF_FinishOperation(d, status);
  if (made == NULL) printf("\n    %s: %s\n", name, TF_Message(status));
  CU_ASSERT_PTR_NOT_NULL_FATAL(made);
  return (TF_Output){made, 0};
}
#define NODE(op, name, ...) node(op, name, (const TF_Output[]){__VA_ARGS__, {NULL, 0}}, NULL)

static TF_Output constant(const char *name, TF_DataType type) {
  TF_OperationDescription *d = TF_NewOperation(graph, "Const", name);
  TF_Tensor *t = TF_AllocateTensor(type, NULL, 0, TF_DataTypeSize(type));
  memset(TF_TensorData(t), 0, TF_TensorByteSize(t));
  TF_SetAttrTensor(d, "value", t, status);
  TF_SetAttrType(d, "dtype", type);
  TF_Operation *made = TF_FinishOperation(d, status);
  TF_DeleteTensor(t);
  CU_ASSERT_PTR_NOT_NULL_FATAL(made);
  return (TF_Output){made, 0};
}

typedef struct made {
  TF_Output variable, value, asked;
  bool is_handle;
} made_t;

static made_t variable(bool is_handle) {
  made_t v = {.is_handle = is_handle};
  v.variable = node(is_handle ? "VarHandleOp" : "VariableV2", "v", NULL, NULL);
  v.value = constant("c", TF_FLOAT);
  v.asked = NODE(is_handle ? "VarIsInitializedOp" : "IsVariableInitialized", "asked", v.variable);
  return v;
}

static TF_Output assign(const made_t *v, const char *name, TF_Output value, TF_Operation *control) {
  return node(v->is_handle ? "AssignVariableOp" : "Assign", name,
              (const TF_Output[]){v->variable, value, {NULL, 0}}, control);
}

/* The value of a conditional on whether the variable has one. */
static TF_Output either(const made_t *v, TF_Output *branch) {
  TF_Output s = NODE("Switch", "switch", v->value, v->asked);
  *branch = (TF_Output){s.oper, 1};
  TF_OperationDescription *d = TF_NewOperation(graph, "Merge", "merge");
  TF_AddInputList(d, (const TF_Output[]){s, *branch}, 2);
  TF_Operation *made = TF_FinishOperation(d, status);
  CU_ASSERT_PTR_NOT_NULL_FATAL(made);
  return (TF_Output){made, 0};
}

/* How many are cleared before these initialisers (ended by NULL). */
static int cleared(const TF_Operation *const *inits, const made_t *v) {
  weft_job_plan_t plan = {.graph = graph, .inits = (const TF_Operation **)(uintptr_t)inits};
  weft_job_stale_t f;
  while (inits[plan.num_inits] != NULL) plan.num_inits++;
  weft_status_t *s = weft_job_stale_init(&f, &plan);
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  int n = f.n;
  for (int i = 0; i < n; i++) {
    TF_Operation *op = (TF_Operation *)(uintptr_t)f.clears[i];
    CU_ASSERT_STRING_EQUAL(TF_OperationOpType(op), v->is_handle ? "DestroyResourceOp" : "WeftForgetVariable");
    CU_ASSERT_STRING_EQUAL(TF_OperationDevice(op), "/job:ps/task:1");
    CU_ASSERT_PTR_EQUAL(TF_OperationInput((TF_Input){op, 0}).oper, v->variable.oper);
  }
  weft_job_stale_deinit(&f);
  return n;
}
#define CLEARED(v, ...) cleared((const TF_Operation *const[]){__VA_ARGS__, NULL}, v)

/* ---- tests ---- */

static void assigned_and_asked_about_is_cleared(void) {
  for (int handle = 0; handle < 2; handle++) {
    begin();
    made_t v = variable(handle);
    TF_Output branch, a = assign(&v, "a", v.value, NULL), use = either(&v, &branch);
    CU_ASSERT_EQUAL(CLEARED(&v, a.oper), 0); /* no initialiser asks */
    CU_ASSERT_EQUAL(CLEARED(&v, use.oper), 0);
    CU_ASSERT_EQUAL(CLEARED(&v, a.oper, use.oper), 1); /* one asks, another assigns */
    CU_ASSERT_EQUAL(CLEARED(&v, use.oper, a.oper), 1); /* and again: names do not clash */
    CU_ASSERT_EQUAL(CLEARED(&v, v.value.oper), 0);
    end();
  }
}

/* v = v's value, if it has one: as variables that are made of others, or of themselves. */
static void a_value_behind_a_conditional_is_assigned_in_every_case(void) {
  for (int handle = 0; handle < 2; handle++) {
    begin();
    made_t v = variable(handle);
    TF_Output branch, use = either(&v, &branch), a = assign(&v, "a", use, NULL);
    CU_ASSERT_EQUAL(CLEARED(&v, a.oper), 1);
    end();
  }
}

static void what_is_assigned_in_a_branch_stays(void) {
  for (int handle = 0; handle < 2; handle++) {
    for (int by_control = 0; by_control < 2; by_control++) {
      begin();
      made_t v = variable(handle);
      TF_Output branch;
      (void)either(&v, &branch);
      TF_Output pivot = NODE("Identity", "pivot", branch);
      TF_Output a = by_control ? assign(&v, "a", v.value, pivot.oper) : assign(&v, "a", pivot, NULL);
      CU_ASSERT_EQUAL(CLEARED(&v, a.oper), 0);
      TF_Output always = assign(&v, "always", v.value, NULL); /* in another initialiser */
      CU_ASSERT_EQUAL(CLEARED(&v, a.oper, always.oper), 1);
      end();
    }
  }
}

/* A loop may do no round. Behind it all is certain again. */
static void loops_are_like_branches(void) {
  begin();
  made_t v = variable(false);
  TF_Output zero = constant("zero", TF_FLOAT), entered = NODE("Enter", "enter", zero);
  TF_OperationDescription *d = TF_NewOperation(graph, "Merge", "head");
  TF_AddInputList(d, (const TF_Output[]){entered, entered},
                  2); /* the second comes from the end of the body below */
  TF_Output head = {TF_FinishOperation(d, status), 0};
  CU_ASSERT_PTR_NOT_NULL_FATAL(head.oper);
  TF_Output cond = NODE("LoopCond", "cond", v.asked), s = NODE("Switch", "switch", head, cond);
  TF_Output body = NODE("Identity", "body", (TF_Output){s.oper, 1}), a = assign(&v, "in_body", body, NULL);
  TF_Output left = NODE("Exit", "left", s), behind = assign(&v, "behind", left, NULL);
  CU_ASSERT_EQUAL(CLEARED(&v, a.oper), 0);
  CU_ASSERT_EQUAL(CLEARED(&v, behind.oper), 1);
  end();
}

static void long_chains_cost_no_stack(void) {
  enum { LENGTH = 100000 };
  begin();
  made_t v = variable(true);
  TF_Output branch, at = either(&v, &branch);
  for (int i = 0; i < LENGTH; i++) {
    char name[32];
    snprintf(name, sizeof name, "n%d", i);
    at = NODE("Identity", name, at);
  }
  TF_Output a = assign(&v, "a", at, NULL);
  CU_ASSERT_EQUAL(CLEARED(&v, a.oper), 1);
  end();
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"assigned and asked about is cleared", assigned_and_asked_about_is_cleared},
      {"a value behind a conditional is assigned in every case",
       a_value_behind_a_conditional_is_assigned_in_every_case},
      {"what is assigned in a branch stays", what_is_assigned_in_a_branch_stays},
      {"loops are like branches", loops_are_like_branches},
      {"long chains cost no stack", long_chains_cost_no_stack},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("stale variables", tests);
}
