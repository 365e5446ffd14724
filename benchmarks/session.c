/* benchmarks/session.c - y = -x, over and over. */
#include "benchmarks/session.h"

#include <stdlib.h>

#include "base/clock.h"
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

static void build(bench_step_t *k) {
  k->status = TF_NewStatus();
  k->graph = TF_NewGraph();
  k->options = TF_NewSessionOptions();
  TF_OperationDescription *x = TF_NewOperation(k->graph, "Placeholder", "x");
  TF_SetAttrType(x, "dtype", TF_FLOAT);
  k->x = (TF_Output){TF_FinishOperation(x, k->status), 0};
  if (!ok(k)) return;
  TF_OperationDescription *y = TF_NewOperation(k->graph, "Neg", "y");
  TF_AddInput(y, k->x);
  k->y = (TF_Output){TF_FinishOperation(y, k->status), 0};
  if (!ok(k)) return;
  k->value = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
  if (k->value != NULL) *(float *)TF_TensorData(k->value) = 1;
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

weft_status_t *weft_bench_local_step(const weft_bench_options_t *o, double *out_value) {
  bench_step_t k = {.session = NULL};
  double us[BATCHES];
  int steps = o->is_quick ? 100 : 5000;
  build(&k);
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
