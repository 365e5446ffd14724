/* examples/typed_ops/line.c - a graph built with one typed function per op (weft/ops.h): a line through
 * points.
 *
 * The points lie on y = 3 x - 1. The program builds the loss, asks for its gradients, and makes a step that
 * changes slope and offset; it prints what they are at the end. One look at `status` after the graph is built
 * is enough: after a failure the functions do nothing.
 */
#include <stdio.h>
#include <string.h>

#include "weft/ops.h"

enum { POINTS = 8, STEPS = 200 };

static TF_Tensor *floats(const float *values, int n) {
  const int64_t dims[] = {n};
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, dims, n == 1 ? 0 : 1, (size_t)n * sizeof *values);
  if (t != NULL) memcpy(TF_TensorData(t), values, (size_t)n * sizeof *values);
  return t;
}

static TF_Output constant(TF_Graph *g, float value, TF_Status *status) {
  TF_Tensor *t = floats(&value, 1);
  TF_Output c = WEFT_OpConst(g, NULL, t, TF_FLOAT, status);
  TF_DeleteTensor(t);
  return c;
}

/* A variable that starts as 0; *out_init sets it. */
static TF_Output variable(TF_Graph *g, const char *name, TF_Operation **out_init, TF_Status *status) {
  WEFT_OpVarHandleOpOptions o = WEFT_OpVarHandleOpDefaults;
  o.shared_name = name;
  TF_Output v = WEFT_OpVarHandleOp(g, name, TF_FLOAT, (WEFT_PartialShape){NULL, 0}, &o, status);
  *out_init = WEFT_OpAssignVariableOp(g, NULL, v, constant(g, 0, status), NULL, status);
  return v;
}

typedef struct line_fit {
  TF_Output x, y, loss, values[2];
  TF_Operation *inits[2], *steps[2];
} line_fit_t;

static void build(TF_Graph *g, line_fit_t *l, TF_Status *status) {
  TF_Output v[2];
  WEFT_OpPlaceholderOptions any = WEFT_OpPlaceholderDefaults;
  const int64_t points[] = {POINTS};
  any.shape = (WEFT_PartialShape){points, 1};
  l->x = WEFT_OpPlaceholder(g, "x", TF_FLOAT, &any, status);
  l->y = WEFT_OpPlaceholder(g, "y", TF_FLOAT, &any, status);
  for (int i = 0; i < 2; i++) {
    v[i] = variable(g, i == 0 ? "slope" : "offset", &l->inits[i], status);
    l->values[i] = WEFT_OpReadVariableOp(g, NULL, v[i], TF_FLOAT, status);
  }
  TF_Output line =
      WEFT_OpAddV2(g, NULL, WEFT_OpMul(g, NULL, l->values[0], l->x, status), l->values[1], status);
  TF_Output squares = WEFT_OpSquaredDifference(g, NULL, line, l->y, status);
  TF_Tensor *zero = TF_AllocateTensor(TF_INT32, (const int64_t[]){1}, 1, sizeof(int32_t));
  *(int32_t *)TF_TensorData(zero) = 0;
  TF_Output axis = WEFT_OpConst(g, NULL, zero, TF_INT32, status);
  TF_DeleteTensor(zero);
  l->loss = WEFT_OpMean(g, "loss", squares, axis, NULL, status);
  TF_Output gradients[2] = {{0}};
  if (TF_GetCode(status) == TF_OK) TF_AddGradients(g, &l->loss, 1, l->values, 2, NULL, status, gradients);
  for (int i = 0; i < 2; i++)
    l->steps[i] = WEFT_OpResourceApplyGradientDescent(g, NULL, v[i], constant(g, 0.3F, status), gradients[i],
                                                      NULL, status);
}

static void train(TF_Session *session, line_fit_t *l, TF_Status *status) {
  float xs[POINTS], ys[POINTS];
  for (int i = 0; i < POINTS; i++) {
    xs[i] = (float)i / (POINTS - 1) * 2 - 1;
    ys[i] = 3 * xs[i] - 1;
  }
  TF_Tensor *values[] = {floats(xs, POINTS), floats(ys, POINTS)}, *results[2] = {NULL, NULL};
  const TF_Output feeds[] = {l->x, l->y};
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, (const TF_Operation *const *)l->inits, 2, NULL,
                status);
  for (int i = 0; i < STEPS && TF_GetCode(status) == TF_OK; i++)
    TF_SessionRun(session, NULL, feeds, values, 2, NULL, NULL, 0, (const TF_Operation *const *)l->steps, 2,
                  NULL, status);
  if (TF_GetCode(status) == TF_OK)
    TF_SessionRun(session, NULL, NULL, NULL, 0, l->values, results, 2, NULL, 0, NULL, status);
  if (TF_GetCode(status) == TF_OK)
    printf("y = %.3f x %+.3f\n", (double)*(float *)TF_TensorData(results[0]),
           (double)*(float *)TF_TensorData(results[1]));
  for (int i = 0; i < 2; i++) {
    TF_DeleteTensor(values[i]);
    TF_DeleteTensor(results[i]);
  }
}

int main(void) {
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  line_fit_t l;
  build(graph, &l, status);
  TF_Session *session = TF_GetCode(status) == TF_OK ? TF_NewSession(graph, options, status) : NULL;
  if (session != NULL) train(session, &l, status);
  int code = TF_GetCode(status) == TF_OK ? 0 : 1;
  if (code != 0) fprintf(stderr, "line: %s\n", TF_Message(status));
  if (session != NULL) TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return code;
}
