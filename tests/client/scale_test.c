/* tests/client/scale_test.c - nodes with very many control inputs, through every call that makes or tells
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/client/client_testing.h"
#include "tests/pace.h"

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static TF_Operation *noop(world_t *w, const char *name, TF_Operation *const *controls, int n) {
  TF_OperationDescription *d = TF_NewOperation(w->g, "NoOp", name);
  for (int i = 0; i < n; i++) TF_AddControlInput(d, controls[i]);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return op;
}

static void check_controls(const TF_Graph *g, TF_Operation *op, TF_Operation *const *want, int n) {
  (void)g;
  CU_ASSERT_EQUAL_FATAL(TF_OperationNumControlInputs(op), n);
  TF_Operation **got = calloc((size_t)n, sizeof(*got));
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  CU_ASSERT_EQUAL(TF_OperationGetControlInputs(op, got, n), n);
  int num_wrong = 0;
  for (int i = 0; i < n; i++) num_wrong += strcmp(TF_OperationName(got[i]), TF_OperationName(want[i])) != 0;
  CU_ASSERT_EQUAL(num_wrong, 0);
  free(got);
}

/* Each control input is said twice; said at once when the node is made, or one by one to a node that is
 * there. */
static double seconds_of(int n) {
  world_t w;
  world_open(&w);
  TF_Operation **all = calloc((size_t)n * 2, sizeof(*all));
  CU_ASSERT_PTR_NOT_NULL_FATAL(all);
  TF_Operation *root = noop(&w, "root", NULL, 0);
  for (int i = 0; i < n; i++) {
    char name[24];
    snprintf(name, sizeof name, "n%d", i);
    all[i] = all[n + i] = noop(&w, name, &root, 1);
  }
  const double start = cpu_seconds();
  TF_Operation *at_once = noop(&w, "at_once", all, 2 * n), *later = noop(&w, "later", NULL, 0);
  for (int i = 0; i < 2 * n; i++) TF_AddOperationControlInput(w.g, later, all[i]);
  check_controls(w.g, at_once, all, n);
  check_controls(w.g, later, all, n);
  CU_ASSERT_EQUAL(TF_OperationNumControlOutputs(root), n);
  CU_ASSERT_EQUAL(TF_OperationNumControlOutputs(all[0]), 2);
  TF_Operation *both[] = {at_once, later};
  run_target(&w, noop(&w, "end", both, 2));
  ASSERT_OK(&w);

  TF_Buffer *def = TF_NewBuffer();
  TF_GraphToGraphDef(w.g, def, w.s);
  ASSERT_OK(&w);
  TF_Graph *copy = TF_NewGraph();
  TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(o, "");
  TF_GraphImportGraphDef(copy, def, o, w.s);
  ASSERT_OK(&w);
  TF_Operation *imported = TF_GraphOperationByName(copy, "later");
  CU_ASSERT_PTR_NOT_NULL_FATAL(imported);
  check_controls(copy, imported, all, n);
  const double seconds = cpu_seconds() - start;
  TF_DeleteImportGraphDefOptions(o);
  TF_DeleteGraph(copy);
  TF_DeleteBuffer(def);
  free(all);
  world_close(&w);
  return seconds;
}

/* Eight times as many take eight times as long, or twelve where the caches end; as the square it would be 64.
 * A busy machine makes a measurement twice as long. */
static void check_linear(const char *what, double seconds(int), int n) {
  double some = seconds(n), again = seconds(n), all = seconds(8 * n);
  if (again < some) some = again;
  printf("\n    %d %s: %.3f s, %d: %.3f s ", n, what, some, 8 * n, all);
  CU_ASSERT(WEFT_TEST_IS_SANITIZED || all < 24 * some + 0.1);
}

static void control_inputs_cost_linear_time(void) {
  check_linear("control inputs", seconds_of, WEFT_TEST_IS_SANITIZED ? 2500 : 25000);
}

/* d(-(-(...x)))/dx over n nodes: differentiated, and run. */
static double gradient_seconds_of(int n) {
  world_t w;
  world_open(&w);
  const double start = cpu_seconds();
  TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), y = x, dx;
  for (int i = 0; i < n; i++) {
    char name[24];
    snprintf(name, sizeof name, "n%d", i);
    y = unary(&w, w.g, "Neg", name, y);
  }
  TF_AddGradients(w.g, &y, 1, &x, 1, NULL, w.s, &dx);
  ASSERT_OK(&w);
  TF_Tensor *one = new_float(1), *out = run1(&w, x, one, dx);
  ASSERT_OK(&w);
  CU_ASSERT_PTR_NOT_NULL_FATAL(out);
  CU_ASSERT_EQUAL(float_at(out, 0), n % 2 == 0 ? 1.0f : -1.0f);
  TF_DeleteTensor(out);
  TF_DeleteTensor(one);
  world_close(&w);
  return cpu_seconds() - start;
}

static void gradients_of_long_chains_cost_linear_time(void) {
  check_linear("nodes and their gradients", gradient_seconds_of, WEFT_TEST_IS_SANITIZED ? 2500 : 25000);
}

static const CU_TestInfo tests[] = {
    {"control inputs cost linear time", control_inputs_cost_linear_time},
    {"gradients of long chains cost linear time", gradients_of_long_chains_cost_linear_time},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/scale", tests); }
