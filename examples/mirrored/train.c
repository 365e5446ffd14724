/* examples/mirrored/train.c - builds a model and trains it with the mirrored strategy, from nothing.
 *
 *   train [DEVICES]      DEVICES: how many CPU devices share each batch (default 2)
 *
 * The task: which of two spirals does a point of the plane lie on? A network with
 * two hidden layers learns it. The program says what one replica does: forward, loss,
 * gradients (TF_AddGradients), an all-reduce of the gradients, and a momentum update of
 * its own copies of the variables. WEFT_StrategyRun makes a graph for all replicas
 * of it. Any number of devices gives the same numbers, up to rounding.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/strategy.h"

enum {
  TRAIN = 600,
  TEST = 300,
  BATCH = 120,
  STEPS = 1500,
  HIDDEN = 32,
  CLASSES = 2,
  NUM_WEIGHTS = 6,
  MAX_DEVICES = 8
};

static TF_Graph *graph;
static TF_Status *status;

static void check(const char *what) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "train: %s: %s\n", what, TF_Message(status));
  exit(1);
}

/* ---- building ---- */

static TF_Output node(const char *op, const char *name, const TF_Output *inputs, int n) {
  TF_OperationDescription *d = TF_NewOperation(graph, op, name);
  for (int i = 0; i < n; i++) TF_AddInput(d, inputs[i]);
  TF_Output out = {TF_FinishOperation(d, status), 0};
  check(name);
  return out;
}
#define NODE(op, name, ...) \
  node(op, name, (TF_Output[]){__VA_ARGS__}, (int)(sizeof((TF_Output[]){__VA_ARGS__}) / sizeof(TF_Output)))

static TF_Output constant(const char *name, TF_DataType dtype, const void *data, const int64_t *dims,
                          int rank, size_t bytes) {
  TF_Tensor *t = TF_AllocateTensor(dtype, dims, rank, bytes);
  memcpy(TF_TensorData(t), data, bytes);
  TF_OperationDescription *d = TF_NewOperation(graph, "Const", name);
  TF_SetAttrType(d, "dtype", dtype);
  TF_SetAttrTensor(d, "value", t, status);
  TF_Output out = {TF_FinishOperation(d, status), 0};
  TF_DeleteTensor(t);
  check(name);
  return out;
}
static TF_Output scalar(const char *name, float value) {
  return constant(name, TF_FLOAT, &value, NULL, 0, sizeof value);
}

static TF_Output placeholder(const char *name, TF_DataType dtype, int columns) {
  int64_t dims[2] = {-1, columns};
  TF_OperationDescription *d = TF_NewOperation(graph, "Placeholder", name);
  TF_SetAttrType(d, "dtype", dtype);
  TF_SetAttrShape(d, "shape", dims, columns > 0 ? 2 : 1);
  TF_Output out = {TF_FinishOperation(d, status), 0};
  check(name);
  return out;
}

/* ---- variables: weights and their momenta, one of each on every device ---- */

static uint64_t random_state = 1;
static float random_number(void) { /* -1 .. 1 */
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (float)(random_state >> 40) / (float)(1 << 23) - 1;
}

typedef struct weight {
  const char *name;
  int64_t rows, columns;
  WEFT_Variable *value, *momentum;
} weight_t;
static weight_t weights[NUM_WEIGHTS] = {
    {"layer1/w", 2, HIDDEN, NULL, NULL},       {"layer1/b", 1, HIDDEN, NULL, NULL},
    {"layer2/w", HIDDEN, HIDDEN, NULL, NULL},  {"layer2/b", 1, HIDDEN, NULL, NULL},
    {"output/w", HIDDEN, CLASSES, NULL, NULL}, {"output/b", 1, CLASSES, NULL, NULL}};

static TF_Output first_value(TF_Graph *g, const int64_t *dims, int num_dims, TF_DataType dtype, int64_t begin,
                             int64_t rows, void *user, TF_Status *s) {
  static float values[HIDDEN * HIDDEN];
  const weight_t *w = user;
  char name[64];
  (void)g, (void)begin, (void)rows, (void)s;
  for (int64_t i = 0; i < dims[0] * dims[1]; i++)
    values[i] = w->rows == 1 ? 0 : random_number() * sqrtf(3.0f / (float)w->rows);
  snprintf(name, sizeof name, "%s/first", w->name);
  return constant(name, dtype, values, dims, num_dims, (size_t)(dims[0] * dims[1]) * sizeof values[0]);
}

static void make_variables(void) {
  for (int i = 0; i < NUM_WEIGHTS; i++) {
    weight_t *w = &weights[i];
    char slot[64];
    int64_t dims[2] = {w->rows, w->columns};
    snprintf(slot, sizeof slot, "%s/momentum", w->name);
    WEFT_VariableOptions o = {
        .name = w->name, .dtype = TF_FLOAT, .dims = dims, .num_dims = 2, .init = first_value, .init_user = w};
    w->value = WEFT_CreateVariable(graph, &o, status);
    check(w->name);
    WEFT_VariableOptions m = {
        .name = slot, .dtype = TF_FLOAT, .dims = dims, .num_dims = 2, .colocate_with = w->value};
    w->momentum = WEFT_CreateVariable(graph, &m, status);
    check(slot);
  }
}

/* ---- one replica ---- */

static TF_Output logits_of(TF_Output x, TF_Output *values, const char *scope) {
  char name[6][64];
  static const char *const parts[] = {"product1", "layer1", "product2", "layer2", "product3", "logits"};
  for (int i = 0; i < 6; i++) snprintf(name[i], sizeof name[i], "%s/%s", scope, parts[i]);
  for (int i = 0; i < NUM_WEIGHTS; i++) {
    values[i] = WEFT_ReadVariable(graph, weights[i].value, status);
    check("reading a weight");
  }
  x = NODE("AddV2", name[1], NODE("MatMul", name[0], x, values[0]), values[1]);
  snprintf(name[0], sizeof name[0], "%s/tanh1", scope);
  x = NODE("AddV2", name[3], NODE("MatMul", name[2], NODE("Tanh", name[0], x), values[2]), values[3]);
  snprintf(name[0], sizeof name[0], "%s/tanh2", scope);
  return NODE("AddV2", name[5], NODE("MatMul", name[4], NODE("Tanh", name[0], x), values[4]), values[5]);
}

/* args: points, labels, 1 / rows of the whole batch. results: this replica's part of the loss, and the end of
 * its update. */
static void replica(WEFT_ReplicaContext *context, WEFT_Value *const *args, int num_args, WEFT_Value **results,
                    int num_results, void *user, TF_Status *s) {
  TF_Output values[NUM_WEIGHTS], gradients[NUM_WEIGHTS], sums[NUM_WEIGHTS];
  int32_t axis = 0;
  (void)num_args, (void)num_results, (void)user;
  TF_Output logits = logits_of(WEFT_ValueOfReplica(args[0], 0), values, "train");
  TF_Output each =
      NODE("SparseSoftmaxCrossEntropyWithLogits", "train/each", logits, WEFT_ValueOfReplica(args[1], 0));
  TF_Output sum =
      NODE("Sum", "train/sum", each, constant("train/axis", TF_INT32, &axis, NULL, 0, sizeof axis));
  TF_Output loss = NODE("Mul", "train/loss", sum, WEFT_ValueOfReplica(args[2], 0));
  TF_AddGradients(graph, &loss, 1, values, NUM_WEIGHTS, NULL, s, gradients);
  if (TF_GetCode(s) != TF_OK) return;
  WEFT_ReplicaBatchAllReduce(context, WEFT_SUM, gradients, NUM_WEIGHTS, sums, s);
  if (TF_GetCode(s) != TF_OK) return;
  TF_Output rate = scalar("train/rate", 0.1f), decay = scalar("train/decay", 0.9f),
            zero = scalar("train/zero", 0);
  TF_Operation *updates[NUM_WEIGHTS];
  for (int i = 0; i < NUM_WEIGHTS; i++) { /* component 0: in the copies for other replicas it is their own */
    char name[64];
    snprintf(name, sizeof name, "train/update_%d", i);
    updates[i] = NODE("ResourceApplyMomentum", name, WEFT_VariableComponent(weights[i].value, 0),
                      WEFT_VariableComponent(weights[i].momentum, 0), rate, sums[i], decay)
                     .oper;
  }
  TF_OperationDescription *end = TF_NewOperation(graph, "Identity", "train/end");
  TF_AddInput(end, zero);
  for (int i = 0; i < NUM_WEIGHTS; i++) TF_AddControlInput(end, updates[i]);
  TF_Output ended = {TF_FinishOperation(end, s), 0};
  if (TF_GetCode(s) == TF_OK) results[0] = WEFT_NewValue(loss, s);
  if (TF_GetCode(s) == TF_OK) results[1] = WEFT_NewValue(ended, s);
}

/* ---- data ---- */

static void make_spirals(float *points, int32_t *labels, int n) {
  for (int i = 0; i < n; i++) {
    float along = (random_number() + 1) / 2, angle = 3.5f * sqrtf(along) + 0.4f;
    labels[i] = i % 2;
    float radius = angle / 4, turn = labels[i] == 0 ? 0 : 3.14159265f;
    points[2 * i] = radius * cosf(angle * 1.6f + turn) + 0.02f * random_number();
    points[2 * i + 1] = radius * sinf(angle * 1.6f + turn) + 0.02f * random_number();
  }
}

static TF_Tensor *rows_tensor(TF_DataType dtype, const void *data, int64_t rows, int64_t columns,
                              size_t bytes) {
  int64_t dims[2] = {rows, columns};
  TF_Tensor *t = TF_AllocateTensor(dtype, dims, columns > 0 ? 2 : 1, bytes);
  memcpy(TF_TensorData(t), data, bytes);
  return t;
}

/* ---- the whole ---- */

static TF_Session *open_session(int devices) {
  char config[] = {10,  7,  10,           3, 'C', 'P',
                   'U', 16, (char)devices}; /* ConfigProto: device_count {key: "CPU" value: N} */
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_SetConfig(options, config, sizeof config, status);
  TF_Session *session = TF_NewSession(graph, options, status);
  check("opening a session");
  TF_DeleteSessionOptions(options);
  return session;
}

/* ends[0..num_ends-1] are what each replica ends with, ends[num_ends] is the loss. */
static void train(TF_Session *session, TF_Output x, TF_Output y, const float *points, const int32_t *labels,
                  const TF_Output *ends, int num_ends) {
  for (int step = 0; step < STEPS; step++) {
    int first = step * BATCH % TRAIN;
    TF_Output feeds[2] = {x, y};
    TF_Tensor *fed[2] = {rows_tensor(TF_FLOAT, points + 2 * first, BATCH, 2, 2 * BATCH * sizeof(float)),
                         rows_tensor(TF_INT32, labels + first, BATCH, 0, BATCH * sizeof(int32_t))};
    TF_Tensor *out[MAX_DEVICES + 1] = {NULL};
    TF_SessionRun(session, NULL, feeds, fed, 2, ends, out, num_ends + 1, NULL, 0, NULL, status);
    check("training");
    if (step % 300 == 299)
      printf("step %4d  loss %.4f\n", step + 1, (double)*(const float *)TF_TensorData(out[num_ends]));
    for (int i = 0; i <= num_ends; i++) TF_DeleteTensor(out[i]);
    for (int i = 0; i < 2; i++) TF_DeleteTensor(fed[i]);
  }
}

int main(int argc, char **argv) {
  static const char *const names[MAX_DEVICES] = {"CPU:0", "CPU:1", "CPU:2", "CPU:3",
                                                 "CPU:4", "CPU:5", "CPU:6", "CPU:7"};
  static float points[2 * TRAIN], test_points[2 * TEST];
  static int32_t labels[TRAIN], test_labels[TEST];
  int devices = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 2;
  if (devices < 1 || devices > MAX_DEVICES) {
    fprintf(stderr, "Usage: train [DEVICES]   1 to %d CPU devices share each batch (default 2)\n",
            MAX_DEVICES);
    return 2;
  }
  graph = TF_NewGraph();
  status = TF_NewStatus();
  make_spirals(points, labels, TRAIN);
  make_spirals(test_points, test_labels, TEST);

  WEFT_CommOptions comm = {.bytes_per_pack = 1 << 20};
  WEFT_Strategy *strategy = WEFT_NewMirroredStrategy(names, devices, &comm, status);
  check("making the strategy");
  WEFT_ScopeEnter(strategy, graph, status);
  make_variables();
  TF_Output x = placeholder("points", TF_FLOAT, 2), y = placeholder("labels", TF_INT32, 0),
            one_per_row = scalar("one_per_row", 1.0f / BATCH);
  WEFT_Value *args[3] = {WEFT_DistributeBatch(strategy, graph, x, status),
                         WEFT_DistributeBatch(strategy, graph, y, status),
                         WEFT_NewValue(one_per_row, status)};
  WEFT_Value *results[2];
  check("sharing out the batch");
  WEFT_StrategyRun(strategy, graph, WEFT_TRACE_ONCE, replica, args, 3, results, 2, NULL, status);
  check("building the replicas");
  TF_Output loss = WEFT_StrategyReduce(strategy, graph, WEFT_SUM, results[0], -1, status),
            ends[MAX_DEVICES + 1], test_values[NUM_WEIGHTS];
  int num_ends = WEFT_LocalResults(strategy, results[1], ends, MAX_DEVICES);
  TF_Output test_logits = logits_of(x, test_values, "test");
  TF_Operation *init = WEFT_Initializer(graph, status);
  WEFT_ScopeExit(strategy, graph, status);
  check("building the graph");

  TF_Session *session = open_session(devices);
  TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, (const TF_Operation *const *)&init, 1, NULL,
                status);
  check("initializing");
  ends[num_ends] = loss;
  train(session, x, y, points, labels, ends, num_ends);

  TF_Tensor *fed = rows_tensor(TF_FLOAT, test_points, TEST, 2, sizeof test_points), *out = NULL;
  TF_SessionRun(session, NULL, &x, &fed, 1, &test_logits, &out, 1, NULL, 0, NULL, status);
  check("testing");
  int right = 0;
  for (int i = 0; i < TEST; i++) {
    const float *l = (const float *)TF_TensorData(out) + 2 * i;
    right += (l[1] > l[0]) == test_labels[i];
  }
  printf("test accuracy: %.3f\n", (double)right / TEST);

  TF_DeleteTensor(fed);
  TF_DeleteTensor(out);
  for (int i = 0; i < 3; i++) WEFT_DeleteValue(args[i]);
  for (int i = 0; i < 2; i++) WEFT_DeleteValue(results[i]);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  WEFT_DeleteStrategy(strategy);
  TF_DeleteStatus(status);
  return 0;
}
