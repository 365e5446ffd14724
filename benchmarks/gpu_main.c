/* benchmarks/gpu_main.c - measures of the CUDA device, each beside what the card does without Weft
 * (benchmarks/gpu_card.h) in the same run.
 *
 *   gpu NAME...       one line for each:
 *   measure NAME VALUE UNIT; a bar, and whether it is reached
 *
 * A measure times steps whose graph has many nodes of one kind, one behind the other, and ends with a fetch
 * of a number behind them. The least of some rounds counts. With WEFT_GPU_SMALL=1 all is small: to see that
 * it works. Exit status: 1 if a bar is not reached or a measure failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "benchmarks/gpu_card.h"
#include "tensorflow/c/c_api.h"

enum { ROUNDS = 5, MAX_NODES = 1024 };
static const char GPU[] = "/device:GPU:0";

/* A session on the card, and the node that a step ends with. */
typedef struct gpu_world {
  TF_Status *s;
  TF_Graph *g;
  TF_Session *session;
  TF_Output fetched; /* a number */
  TF_Operation *inits[4];
  int num_inits, num_names;
} gpu_world_t;

static bool ok(const gpu_world_t *w) { return TF_GetCode(w->s) == TF_OK; }

/* ---- graphs ---- */

static TF_OperationDescription *begin(gpu_world_t *w, const char *op) {
  char name[32];
  snprintf(name, sizeof name, "n%d", w->num_names++);
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  TF_SetDevice(d, GPU);
  return d;
}
static TF_Output end(gpu_world_t *w, TF_OperationDescription *d) {
  return (TF_Output){TF_FinishOperation(d, w->s), 0};
}
static TF_Output of_one(gpu_world_t *w, const char *op, TF_Output x) {
  TF_OperationDescription *d = begin(w, op);
  TF_AddInput(d, x);
  return end(w, d);
}
static TF_Output constant(gpu_world_t *w, TF_DataType type, int rank, const int64_t *dims, const void *data,
                          size_t bytes) {
  TF_Tensor *t = TF_AllocateTensor(type, dims, rank, bytes);
  memcpy(TF_TensorData(t), data, bytes);
  TF_OperationDescription *d = begin(w, "Const");
  TF_SetAttrTensor(d, "value", t, w->s);
  TF_SetAttrType(d, "dtype", type);
  TF_DeleteTensor(t);
  return end(w, d);
}
static TF_Output number(gpu_world_t *w, float v) { return constant(w, TF_FLOAT, 0, NULL, &v, sizeof v); }

/* A variable [rows, columns], which the first step makes: 1/64 everywhere. */
static TF_Output variable(gpu_world_t *w, TF_DataType type, int rank, const int64_t *dims) {
  int32_t sizes[2] = {(int32_t)dims[0], rank > 1 ? (int32_t)dims[1] : 0};
  const int64_t num = rank;
  TF_OperationDescription *d = begin(w, "VarHandleOp");
  TF_SetAttrType(d, "dtype", type);
  TF_SetAttrShape(d, "shape", dims, rank);
  TF_SetAttrString(d, "shared_name", "", 0);
  const TF_Output handle = end(w, d);
  TF_Output value = number(w, 1.0F / 64);
  if (type != TF_FLOAT) {
    d = begin(w, "Cast");
    TF_AddInput(d, value);
    TF_SetAttrType(d, "DstT", type);
    value = end(w, d);
  }
  const TF_Output shape = constant(w, TF_INT32, 1, &num, sizes, (size_t)rank * sizeof *sizes);
  d = begin(w, "Fill");
  TF_AddInput(d, shape);
  TF_AddInput(d, value);
  const TF_Output filled = end(w, d);
  d = begin(w, "AssignVariableOp");
  TF_AddInput(d, handle);
  TF_AddInput(d, filled);
  w->inits[w->num_inits++] = end(w, d).oper;
  return handle;
}
static TF_Output read_of(gpu_world_t *w, TF_Output handle, TF_DataType type, TF_Operation *after) {
  TF_OperationDescription *d = begin(w, "ReadVariableOp");
  TF_AddInput(d, handle);
  TF_SetAttrType(d, "dtype", type);
  if (after != NULL) TF_AddControlInput(d, after);
  return end(w, d);
}
/* A number behind x: its size, when it is there. */
static void fetch_behind(gpu_world_t *w, TF_Output x) {
  TF_OperationDescription *d = begin(w, "Fill");
  const int64_t none = 0;
  TF_AddInput(d, constant(w, TF_INT32, 1, &none, "", 0));
  TF_AddInput(d, number(w, 1));
  TF_AddControlInput(d, x.oper);
  w->fetched = end(w, d);
}

/* ---- steps ---- */

static void open_world(gpu_world_t *w) { *w = (gpu_world_t){.s = TF_NewStatus(), .g = TF_NewGraph()}; }

/* Memory is taken as it is needed, so that the floors have some. */
static void start(gpu_world_t *w) {
  static const unsigned char grows[] = {0x32, 2, 0x20, 1}; /* ConfigProto.gpu_options.allow_growth */
  if (!ok(w)) return;
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetConfig(o, grows, sizeof grows, w->s);
  if (ok(w)) w->session = TF_NewSession(w->g, o, w->s);
  TF_DeleteSessionOptions(o);
  if (ok(w) && w->num_inits > 0) {
    TF_SessionRun(w->session, NULL, NULL, NULL, 0, NULL, NULL, 0, (const TF_Operation *const *)w->inits,
                  w->num_inits, NULL, w->s);
  }
}
static void step(gpu_world_t *w) {
  TF_Tensor *out = NULL;
  if (ok(w)) TF_SessionRun(w->session, NULL, NULL, NULL, 0, &w->fetched, &out, 1, NULL, 0, NULL, w->s);
  if (out != NULL) TF_DeleteTensor(out);
}
/* Seconds of a step: the least of the rounds, behind those that compile and record. Below 0: it failed. */
static double seconds_of(gpu_world_t *w) {
  double best = -1;
  for (int i = 0; i < 6; i++) step(w);
  for (int i = 0; i < ROUNDS && ok(w); i++) {
    const int64_t from = weft_clock_ns();
    step(w);
    const double s = (double)(weft_clock_ns() - from) / 1e9;
    if (best < 0 || s < best) best = s;
  }
  return ok(w) ? best : -1;
}
static bool close_world(gpu_world_t *w, const char *name) {
  const bool done = ok(w);
  if (!done) printf("measure %s failed: %s\n", name, TF_Message(w->s));
  TF_SetStatus(w->s, TF_OK, "");
  if (w->session != NULL) TF_DeleteSession(w->session, w->s);
  TF_DeleteGraph(w->g);
  TF_DeleteStatus(w->s);
  return done;
}

/* ---- measures ---- */

typedef struct gpu_run {
  weft_gpu_card_t *card;
  bool is_small;
} gpu_run_t;

/* `value` beside a bar; a small run reaches each. */
static bool report(const gpu_run_t *r, const char *name, const char *text, double value, bool less,
                   double bar) {
  const bool reached = r->is_small || (less ? value <= bar : value >= bar);
  printf("measure %-16s %s; bar %s %g: %s\n", name, text, less ? "<=" : ">=", bar,
         reached ? "reached" : "MISSED");
  fflush(stdout);
  return reached;
}

static int64_t elements_of(const gpu_run_t *r) { return r->is_small ? 4096 : INT64_C(1) << 28; }

static bool beside_copy(const gpu_run_t *r, const char *name, double seconds, double bytes) {
  char text[128];
  const size_t copied = (size_t)elements_of(r) * sizeof(float);
  const double copy = weft_gpu_card_copy(r->card, copied, ROUNDS);
  if (copy <= 0 || seconds <= 0) return printf("measure %s failed: no copy\n", name), false;
  const double rate = bytes / seconds, of_copy = 2 * (double)copied / copy;
  snprintf(text, sizeof text, "%.1f GB/s, %.3f of a copy's", rate / 1e9, rate / of_copy);
  return report(r, name, text, rate / of_copy, false, 0.85);
}

static bool copy(const gpu_run_t *r, const char *name) {
  const size_t bytes = (size_t)elements_of(r) * sizeof(float);
  const double s = weft_gpu_card_copy(r->card, bytes, ROUNDS);
  if (s <= 0) return printf("measure %s failed\n", name), false;
  printf("measure %-16s %.1f GB/s read and written\n", name, 2 * (double)bytes / s / 1e9);
  return true;
}

static bool elementwise(const gpu_run_t *r, const char *name) {
  enum { NODES = 16 };
  const int64_t n = elements_of(r);
  gpu_world_t w;
  open_world(&w);
  TF_Output x = read_of(&w, variable(&w, TF_FLOAT, 1, &n), TF_FLOAT, NULL);
  for (int i = 0; i < NODES; i++) x = of_one(&w, "Neg", x);
  fetch_behind(&w, x);
  start(&w);
  const double s = seconds_of(&w);
  return close_world(&w, name) && beside_copy(r, name, s, NODES * 2.0 * sizeof(float) * (double)n);
}

static bool update(const gpu_run_t *r, const char *name) {
  enum { NODES = 8, TENSORS = 5 }; /* the variable and the momentum read and written, the gradient read */
  const int64_t n = elements_of(r) / 4;
  gpu_world_t w;
  open_world(&w);
  const TF_Output var = variable(&w, TF_FLOAT, 1, &n), momentum = variable(&w, TF_FLOAT, 1, &n),
                  gradient = read_of(&w, variable(&w, TF_FLOAT, 1, &n), TF_FLOAT, NULL),
                  rate = number(&w, 1e-3F), keep = number(&w, 0.9F);
  TF_Output last = {NULL, 0};
  for (int i = 0; i < NODES; i++) {
    TF_OperationDescription *d = begin(&w, "ResourceApplyMomentum");
    const TF_Output inputs[] = {var, momentum, rate, gradient, keep};
    for (int k = 0; k < 5; k++) TF_AddInput(d, inputs[k]);
    if (last.oper != NULL) TF_AddControlInput(d, last.oper);
    last = end(&w, d);
  }
  fetch_behind(&w, last);
  start(&w);
  const double s = seconds_of(&w);
  return close_world(&w, name) && beside_copy(r, name, s, NODES * TENSORS * sizeof(float) * (double)n);
}

static bool product(const gpu_run_t *r, const char *name, TF_DataType type) {
  enum { NODES = 8 };
  const int64_t side = r->is_small ? 32 : 8192, dims[2] = {side, side};
  const double flops = 2.0 * (double)side * (double)side * (double)side;
  gpu_world_t w;
  char text[128];
  open_world(&w);
  const TF_Output y = read_of(&w, variable(&w, type, 2, dims), type, NULL);
  TF_Output x = read_of(&w, variable(&w, type, 2, dims), type, NULL);
  for (int i = 0; i < NODES; i++) {
    TF_OperationDescription *d = begin(&w, "MatMul");
    TF_AddInput(d, x);
    TF_AddInput(d, y);
    x = end(&w, d);
  }
  fetch_behind(&w, x);
  start(&w);
  const double s = seconds_of(&w) / NODES;
  if (!close_world(&w, name)) return false;
  const double alone = weft_gpu_card_product(r->card, side, type == TF_BFLOAT16, ROUNDS);
  if (alone <= 0) return printf("measure %s failed: cuBLASLt alone\n", name), false;
  snprintf(text, sizeof text, "%.1f TFLOP/s, %.3f of cuBLASLt's", flops / s / 1e12, alone / s);
  return report(r, name, text, alone / s, false, 0.9);
}
static bool product_bf16(const gpu_run_t *r, const char *name) { return product(r, name, TF_BFLOAT16); }
static bool product_tf32(const gpu_run_t *r, const char *name) { return product(r, name, TF_FLOAT); }

/* Microseconds of a node that has next to nothing to compute; WEFT_CUDA_GRAPHS says how steps are launched.
 */
static bool dispatch_as(const gpu_run_t *r, const char *name, double bar) {
  const int nodes = r->is_small ? 32 : MAX_NODES;
  const int64_t n = 64;
  gpu_world_t w;
  char text[64];
  open_world(&w);
  TF_Output x = read_of(&w, variable(&w, TF_FLOAT, 1, &n), TF_FLOAT, NULL);
  for (int i = 0; i < nodes; i++) x = of_one(&w, "Neg", x);
  fetch_behind(&w, x);
  start(&w);
  const double us = seconds_of(&w) * 1e6 / nodes;
  if (!close_world(&w, name)) return false;
  snprintf(text, sizeof text, "%.2f us a node", us);
  return report(r, name, text, us, true, bar);
}
static bool dispatch(const gpu_run_t *r, const char *name) { return dispatch_as(r, name, 5); }
static bool dispatch_graphs(const gpu_run_t *r, const char *name) { return dispatch_as(r, name, 1.5); }

/* Bytes of the card's memory that 10,000 steps have taken and not given back. */
static bool steps(const gpu_run_t *r, const char *name) {
  const int64_t dims[2] = {64, 64};
  const int num = r->is_small ? 40 : 10000;
  gpu_world_t w;
  char text[64];
  open_world(&w);
  const TF_Output var = variable(&w, TF_FLOAT, 2, dims), x = read_of(&w, var, TF_FLOAT, NULL);
  TF_OperationDescription *d = begin(&w, "MatMul");
  TF_AddInput(d, x);
  TF_AddInput(d, of_one(&w, "Tanh", x));
  const TF_Output y = of_one(&w, "Softmax", end(&w, d));
  d = begin(&w, "AssignSubVariableOp");
  TF_AddInput(d, var);
  TF_AddInput(d, y);
  fetch_behind(&w, end(&w, d));
  start(&w);
  for (int i = 0; i < num / 20; i++) step(&w);
  const size_t before = weft_gpu_card_free_bytes(r->card);
  for (int i = 0; i < num; i++) step(&w);
  const size_t after = weft_gpu_card_free_bytes(r->card);
  if (!close_world(&w, name)) return false;
  const double lost = (double)before - (double)after;
  snprintf(text, sizeof text, "%.0f bytes lost in %d steps", lost, num);
  return report(r, name, text, lost, true, 0) && lost <= 0;
}

static const struct {
  const char *name;
  bool (*run)(const gpu_run_t *r, const char *name);
} measures[] = {
    {"copy", copy},
    {"elementwise", elementwise},
    {"update", update},
    {"product_bf16", product_bf16},
    {"product_tf32", product_tf32},
    {"dispatch", dispatch},
    {"dispatch_graphs", dispatch_graphs},
    {"steps", steps},
};
enum { NUM_MEASURES = sizeof measures / sizeof *measures };

int main(int argc, char **argv) {
  const char *why = NULL, *small = getenv("WEFT_GPU_SMALL");
  bool reached = argc > 1;
  setenv("WEFT_PASSES", "none", 0); /* else nodes that are equal are one */
  setenv("WEFT_NVRTC", "none", 1);  /* and those one behind the other a chain */
  gpu_run_t r = {.card = weft_gpu_card_open(&why), .is_small = small != NULL && strcmp(small, "1") == 0};
  if (r.card == NULL) {
    printf("%s\n", why);
    return 1;
  }
  for (int a = 1; a < argc; a++) {
    int i = 0;
    while (i < NUM_MEASURES && strcmp(measures[i].name, argv[a]) != 0) i++;
    if (i == NUM_MEASURES) {
      printf("there is no measure '%s'\n", argv[a]);
      reached = false;
    } else if (!measures[i].run(&r, measures[i].name)) {
      reached = false;
    }
  }
  weft_gpu_card_close(r.card);
  return reached ? 0 : 1;
}
