/* benchmarks/session.c - y = -x of a scalar, or x times x of a matrix, over and over. */
#include "benchmarks/session.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "benchmarks/floors.h"
#include "tensorflow/c/c_api.h"

enum { BATCHES = 31 };

typedef struct bench_step {
  TF_Status *status;
  TF_Graph *graph;
  TF_SessionOptions *options;
  TF_Session *session;
  TF_Tensor *value;
  TF_Output x, y;
} bench_step_t;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool ok(const bench_step_t *k) { return TF_GetCode(k->status) == TF_OK; }

/* `side` 0: a scalar and its negative; else a matrix, and one thread. */
static void build(bench_step_t *k, int side) {
  static const unsigned char one_thread[] = {0x10, 1}; /* ConfigProto.intra_op_parallelism_threads */
  const int64_t dims[2] = {side, side};
  const size_t count = side == 0 ? 1 : (size_t)side * (size_t)side;
  k->status = TF_NewStatus();
  k->graph = TF_NewGraph();
  k->options = TF_NewSessionOptions();
  TF_OperationDescription *x = TF_NewOperation(k->graph, "Placeholder", "x");
  TF_SetAttrType(x, "dtype", TF_FLOAT);
  k->x = (TF_Output){TF_FinishOperation(x, k->status), 0};
  if (!ok(k)) return;
  if (side > 0) TF_SetConfig(k->options, one_thread, sizeof one_thread, k->status);
  TF_OperationDescription *y = TF_NewOperation(k->graph, side == 0 ? "Neg" : "MatMul", "y");
  TF_AddInput(y, k->x);
  if (side > 0) TF_AddInput(y, k->x);
  k->y = (TF_Output){TF_FinishOperation(y, k->status), 0};
  if (!ok(k)) return;
  k->value = TF_AllocateTensor(TF_FLOAT, dims, side == 0 ? 0 : 2, count * sizeof(float));
  float *to = k->value == NULL ? NULL : TF_TensorData(k->value);
  for (size_t i = 0; to != NULL && i < count; i++) to[i] = (float)(i % 7) / 7;
  k->session = TF_NewSession(k->graph, k->options, k->status);
}

static void take_down(bench_step_t *k) {
  TF_Status *ignored = TF_NewStatus();
  if (k->session != NULL) TF_DeleteSession(k->session, ignored);
  TF_DeleteStatus(ignored);
  if (k->value != NULL) TF_DeleteTensor(k->value);
  TF_DeleteSessionOptions(k->options);
  TF_DeleteGraph(k->graph);
  TF_DeleteStatus(k->status);
}

static bool run(bench_step_t *k, int n) {
  for (int i = 0; i < n && ok(k); i++) {
    TF_Tensor *out = NULL;
    TF_SessionRun(k->session, NULL, &k->x, &k->value, 1, &k->y, &out, 1, NULL, 0, NULL, k->status);
    if (out != NULL) TF_DeleteTensor(out);
  }
  return ok(k);
}

static weft_status_t *measure(int side, int steps, double *out_value) {
  bench_step_t k = {.session = NULL};
  double us[BATCHES];
  build(&k, side);
  if (ok(&k)) run(&k, steps);
  for (int i = 0; i < BATCHES && ok(&k); i++) {
    int64_t start = weft_clock_ns();
    run(&k, steps);
    us[i] = (double)(weft_clock_ns() - start) / 1e3 / steps;
  }
  weft_status_t *s = ok(&k) ? NULL : WEFT_ERROR(INTERNAL, "%s", TF_Message(k.status));
  if (s == NULL) {
    qsort(us, BATCHES, sizeof us[0], compare);
    *out_value = us[BATCHES / 2];
  }
  take_down(&k);
  return s;
}

weft_status_t *weft_bench_local_step(const weft_bench_options_t *o, double *out_value) {
  return measure(0, o->is_quick ? 100 : 5000, out_value);
}

weft_status_t *weft_bench_single_step(int steps, double *out_ns) {
  bench_step_t k = {.session = NULL};
  double *ns = weft_calloc((size_t)steps, sizeof *ns);
  build(&k, 0);
  if (ok(&k)) run(&k, steps / 10);
  for (int i = 0; i < steps && ns != NULL && ok(&k); i++) {
    int64_t start = weft_clock_ns();
    run(&k, 1);
    ns[i] = (double)(weft_clock_ns() - start);
  }
  weft_status_t *s = ok(&k) ? NULL : WEFT_ERROR(INTERNAL, "%s", TF_Message(k.status));
  if (s == NULL && ns == NULL) s = WEFT_NO_MEMORY("%d times", steps);
  if (s == NULL) {
    qsort(ns, (size_t)steps, sizeof *ns, compare);
    *out_ns = ns[steps / 2];
  }
  weft_free(ns);
  take_down(&k);
  return s;
}

weft_status_t *weft_bench_matmul_step(const weft_bench_options_t *o, double *out_value) {
  return measure(WEFT_BENCH_PRODUCT_SIDE, o->is_quick ? 1 : 5, out_value);
}
