#include "tests/client/strategy/strategy_testing.h"

#include <stdio.h>
#include <string.h>

#include "tests/runner.h"

void world_begin_with(world_t *w, WEFT_Strategy *strategy, TF_Status *status) {
  *w = (world_t){.graph = TF_NewGraph(), .status = status, .strategy = strategy};
  EXPECT_OK(w);
  CU_ASSERT_PTR_NOT_NULL_FATAL(strategy);
  WEFT_ScopeEnter(strategy, w->graph, w->status);
  EXPECT_OK(w);
}

void world_begin(world_t *w, int n) {
  static const char *const devices[] = {"CPU:0", "CPU:1", "CPU:2", "CPU:3"};
  TF_Status *status = TF_NewStatus();
  world_begin_with(w, WEFT_NewMirroredStrategy(devices, n, NULL, status), status);
}

void world_end(world_t *w) {
  if (w->session != NULL) TF_DeleteSession(w->session, w->status);
  TF_DeleteGraph(w->graph);
  WEFT_DeleteStrategy(w->strategy);
  TF_DeleteStatus(w->status);
}

void expect(world_t *w, TF_Code code, const char *text, const char *file, int line) {
  bool ok = TF_GetCode(w->status) == code && strstr(TF_Message(w->status), text) != NULL;
  if (!ok)
    fprintf(stderr, "%s:%d: code %d '%s', not %d '%s'\n", file, line, TF_GetCode(w->status),
            TF_Message(w->status), code, text);
  CU_ASSERT_TRUE(ok);
  TF_SetStatus(w->status, TF_OK, "");
}

static TF_Output make_constant(world_t *w, const char *name, TF_DataType dtype, const void *values,
                               const int64_t *dims, int rank, size_t bytes) {
  TF_Tensor *t = TF_AllocateTensor(dtype, dims, rank, bytes);
  if (bytes > 0) memcpy(TF_TensorData(t), values, bytes);
  TF_OperationDescription *d = TF_NewOperation(w->graph, "Const", name);
  TF_SetAttrType(d, "dtype", dtype);
  TF_SetAttrTensor(d, "value", t, w->status);
  TF_Output out = {TF_FinishOperation(d, w->status), 0};
  TF_DeleteTensor(t);
  EXPECT_OK(w);
  return out;
}

TF_Output constant(world_t *w, const char *name, double value) {
  return make_constant(w, name, TF_DOUBLE, &value, NULL, 0, sizeof value);
}
TF_Output vector(world_t *w, const char *name, const double *values, int n) {
  int64_t dims[1] = {n};
  return make_constant(w, name, TF_DOUBLE, values, dims, 1, (size_t)n * sizeof *values);
}
TF_Output int_constant(world_t *w, const char *name, int64_t value) {
  return make_constant(w, name, TF_INT64, &value, NULL, 0, sizeof value);
}
TF_Output ids(world_t *w, const char *name, const int64_t *values, int n) {
  int64_t dims[1] = {n};
  return make_constant(w, name, TF_INT64, values, dims, 1, (size_t)n * sizeof *values);
}

WEFT_Variable *scalar_variable(world_t *w, const char *name, WEFT_Synchronization sync,
                               WEFT_Aggregation aggregation) {
  WEFT_VariableOptions o = {
      .name = name, .dtype = TF_DOUBLE, .synchronization = sync, .aggregation = aggregation};
  WEFT_Variable *v = WEFT_CreateVariable(w->graph, &o, w->status);
  EXPECT_OK(w);
  return v;
}

static void open_session(world_t *w) {
  static const char config[] = {10,  7,   10, 3,       'C',
                                'P', 'U', 16, REPLICAS}; /* device_count {key: "CPU" value: 4} */
  if (w->session != NULL) return;
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, config, sizeof config, w->status);
  EXPECT_OK(w);
  w->session = TF_NewSession(w->graph, options, w->status);
  EXPECT_OK(w);
  TF_DeleteSessionOptions(options);
}

void run_target(world_t *w, const TF_Operation *op) {
  open_session(w);
  CU_ASSERT_PTR_NOT_NULL_FATAL(op);
  TF_SessionRun(w->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &op, 1, NULL, w->status);
  EXPECT_OK(w);
}

static TF_Tensor *fetch_tensor(world_t *w, TF_Output o) {
  TF_Tensor *t = NULL;
  open_session(w);
  CU_ASSERT_PTR_NOT_NULL_FATAL(o.oper);
  TF_SessionRun(w->session, NULL, NULL, NULL, 0, &o, &t, 1, NULL, 0, NULL, w->status);
  EXPECT_OK(w);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  return t;
}

int fetch_all(world_t *w, TF_Output o, double *out, int max) {
  TF_Tensor *t = fetch_tensor(w, o);
  int n = (int)TF_TensorElementCount(t);
  for (int i = 0; i < n && i < max; i++) {
    out[i] = TF_TensorType(t) == TF_INT64 ? (double)((const int64_t *)TF_TensorData(t))[i]
                                          : ((const double *)TF_TensorData(t))[i];
  }
  TF_DeleteTensor(t);
  return n;
}

double fetch(world_t *w, TF_Output o) {
  double value = -1;
  CU_ASSERT_TRUE(fetch_all(w, o, &value, 1) >= 1);
  return value;
}
