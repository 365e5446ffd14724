/* tests/client/client_testing.c - see the header. */
#include "tests/client/client_testing.h"

void world_open(world_t *w) {
  *w = (world_t){.g = TF_NewGraph(), .s = TF_NewStatus()};
  CU_ASSERT_PTR_NOT_NULL_FATAL(w->g);
}

void world_close(world_t *w) {
  if (w->session != NULL) TF_DeleteSession(w->session, w->s);
  TF_DeleteGraph(w->g);
  TF_DeleteStatus(w->s);
}

static TF_Tensor *new_tensor(TF_DataType type, int rank, const int64_t *dims, const void *values) {
  size_t n = TF_DataTypeSize(type);
  for (int i = 0; i < rank; i++) n *= (size_t)dims[i];
  TF_Tensor *t = TF_AllocateTensor(type, dims, rank, n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  if (n > 0 && values != NULL) memcpy(TF_TensorData(t), values, n);
  return t;
}

TF_Tensor *new_floats(int rank, const int64_t *dims, const float *values) {
  return new_tensor(TF_FLOAT, rank, dims, values);
}
TF_Tensor *new_doubles(int rank, const int64_t *dims, const double *values) {
  return new_tensor(TF_DOUBLE, rank, dims, values);
}
TF_Tensor *new_ints(int rank, const int64_t *dims, const int32_t *values) {
  return new_tensor(TF_INT32, rank, dims, values);
}

TF_Tensor *new_string(const char *text) {
  TF_Tensor *t = TF_AllocateTensor(TF_STRING, NULL, 0, sizeof(TF_TString));
  TF_StringInit(TF_TensorData(t));
  TF_StringCopy(TF_TensorData(t), text, strlen(text));
  return t;
}

TF_Output placeholder(world_t *w, TF_Graph *g, const char *name, TF_DataType type) {
  TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", name);
  TF_SetAttrType(d, "dtype", type);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

TF_Output constant(world_t *w, TF_Graph *g, const char *name, TF_Tensor *value) {
  TF_OperationDescription *d = TF_NewOperation(g, "Const", name);
  TF_SetAttrType(d, "dtype", TF_TensorType(value));
  TF_SetAttrTensor(d, "value", value, w->s);
  ASSERT_OK(w);
  TF_DeleteTensor(value);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

TF_Output unary(world_t *w, TF_Graph *g, const char *op, const char *name, TF_Output x) {
  TF_OperationDescription *d = TF_NewOperation(g, op, name);
  TF_AddInput(d, x);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

TF_Output binary(world_t *w, TF_Graph *g, const char *op, const char *name, TF_Output x, TF_Output y) {
  TF_OperationDescription *d = TF_NewOperation(g, op, name);
  TF_AddInput(d, x);
  TF_AddInput(d, y);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

static void need_session(world_t *w) {
  if (w->session != NULL) return;
  TF_SessionOptions *o = TF_NewSessionOptions();
  if (w->target != NULL) TF_SetTarget(o, w->target);
  w->session = TF_NewSession(w->g, o, w->s);
  TF_DeleteSessionOptions(o);
  ASSERT_OK(w);
}

void run(world_t *w, const TF_Output *feeds, TF_Tensor *const *values, int num_feeds,
         const TF_Output *fetches, TF_Tensor **out, int num_fetches) {
  need_session(w);
  TF_SessionRun(w->session, NULL, feeds, values, num_feeds, fetches, out, num_fetches, NULL, 0, NULL, w->s);
}

TF_Tensor *run1(world_t *w, TF_Output feed, TF_Tensor *value, TF_Output fetch) {
  TF_Tensor *out = NULL;
  run(w, &feed, &value, feed.oper == NULL ? 0 : 1, &fetch, &out, 1);
  return out;
}

void run_target(world_t *w, TF_Operation *target) {
  const TF_Operation *const all[1] = {target};
  need_session(w);
  TF_SessionRun(w->session, NULL, NULL, NULL, 0, NULL, NULL, 0, all, 1, NULL, w->s);
}
