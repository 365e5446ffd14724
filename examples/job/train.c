/* examples/job/train.c - builds a training graph for one device and runs it as a job, under a strategy and on
 * a cluster.
 *
 *   train [STRATEGY [CLUSTER [PREFIX [STEPS]]]]
 *
 *   train                                              two replicas in this process
 *   train parameter_server:mode=sync "ps=host:2220;worker=host:2221,host:2222" run/spirals 3000
 *
 * The task: which of two spirals does a point of the plane lie on? The graph knows of one device only. The
 * program prints what the strategy makes of it, trains with rows of two arrays, tells the loss now and then,
 * and saves every 500 steps; started again it goes on from the newest checkpoint. The first worker of CLUSTER
 * is the master. At the end another job restores the checkpoint in this process and tests it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/job.h"
#include "weft/strategy.h"

enum {
  TRAIN = 600,
  TEST = 300,
  BATCH = 120,
  HIDDEN = 32,
  CLASSES = 2,
  NUM_WEIGHTS = 6,
  TOLD = 300,
  SAVED = 500
};

static TF_Graph *graph;
static TF_Status *status;

static void check(const char *what) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "train: %s: %s\n", what, TF_Message(status));
  exit(1);
}

/* ---- the graph ---- */

/* Nodes that another one waits for; NULL-ended. */
static TF_Output node(const char *op, const char *name, const TF_Output *inputs, int n,
                      TF_Operation *const *controls) {
  TF_OperationDescription *d = TF_NewOperation(graph, op, name);
  for (int i = 0; i < n; i++) TF_AddInput(d, inputs[i]);
  for (; controls != NULL && *controls != NULL; controls++) TF_AddControlInput(d, *controls);
  TF_Output out = {TF_FinishOperation(d, status), 0};
  check(name);
  return out;
}
#define NODE(op, name, ...)                                                                                 \
  node(op, name, (TF_Output[]){__VA_ARGS__}, (int)(sizeof((TF_Output[]){__VA_ARGS__}) / sizeof(TF_Output)), \
       NULL)

static TF_Tensor *tensor(TF_DataType dtype, const void *data, int64_t rows, int64_t columns, int rank) {
  int64_t dims[2] = {rows, columns};
  size_t count = (size_t)((rank > 0 ? rows : 1) * (rank > 1 ? columns : 1));
  TF_Tensor *t = TF_AllocateTensor(dtype, dims, rank, count * TF_DataTypeSize(dtype));
  memcpy(TF_TensorData(t), data, TF_TensorByteSize(t));
  return t;
}

static TF_Output constant(const char *name, TF_Tensor *value) {
  TF_OperationDescription *d = TF_NewOperation(graph, "Const", name);
  TF_SetAttrType(d, "dtype", TF_TensorType(value));
  TF_SetAttrTensor(d, "value", value, status);
  TF_Output out = {TF_FinishOperation(d, status), 0};
  TF_DeleteTensor(value);
  check(name);
  return out;
}
static TF_Output scalar(const char *name, float value) {
  return constant(name, tensor(TF_FLOAT, &value, 0, 0, 0));
}
static TF_Output axis(const char *name, int32_t value) {
  return constant(name, tensor(TF_INT32, &value, 0, 0, 0));
}

static TF_Output placeholder(const char *name, TF_DataType dtype, int rank) {
  TF_OperationDescription *d = TF_NewOperation(graph, "Placeholder", name);
  TF_SetAttrType(d, "dtype", dtype);
  TF_SetAttrShape(d, "shape", (int64_t[]){-1, 2}, rank);
  TF_Output out = {TF_FinishOperation(d, status), 0};
  check(name);
  return out;
}

static TF_Output cast(const char *name, TF_Output x, TF_DataType to) {
  TF_OperationDescription *d = TF_NewOperation(graph, "Cast", name);
  TF_AddInput(d, x);
  TF_SetAttrType(d, "DstT", to);
  TF_Output out = {TF_FinishOperation(d, status), 0};
  check(name);
  return out;
}

static uint64_t random_state = 1;
static float random_number(void) { /* -1 .. 1 */
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (float)(random_state >> 40) / (float)(1 << 23) - 1;
}

/* A variable and what gives it its first value; `limit` of random numbers. */
static TF_Output variable(const char *name, int64_t rows, int64_t columns, float limit, TF_Operation **init) {
  static float values[HIDDEN * HIDDEN];
  char text[64];
  for (int64_t i = 0; i < rows * columns; i++) values[i] = limit * random_number();
  TF_OperationDescription *d = TF_NewOperation(graph, "VarHandleOp", name);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrShape(d, "shape", (int64_t[]){rows, columns}, 2);
  TF_SetAttrString(d, "shared_name", name, strlen(name));
  TF_Output handle = {TF_FinishOperation(d, status), 0};
  check(name);
  snprintf(text, sizeof text, "%s/first", name);
  TF_Output first = constant(text, tensor(TF_FLOAT, values, rows, columns, 2));
  snprintf(text, sizeof text, "%s/assign", name);
  *init = NODE("AssignVariableOp", text, handle, first).oper;
  return handle;
}

static TF_Output read_variable(const char *name, TF_Output handle) {
  TF_OperationDescription *d = TF_NewOperation(graph, "ReadVariableOp", name);
  TF_AddInput(d, handle);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_Output out = {TF_FinishOperation(d, status), 0};
  check(name);
  return out;
}

/* Inputs "points" and "labels"; "init", "train", "loss" and "accuracy". */
static TF_Buffer *build(void) {
  static const struct {
    const char *name;
    int64_t rows, columns;
  } weights[NUM_WEIGHTS] = {{"layer1/w", 2, HIDDEN},       {"layer1/b", 1, HIDDEN},
                            {"layer2/w", HIDDEN, HIDDEN},  {"layer2/b", 1, HIDDEN},
                            {"output/w", HIDDEN, CLASSES}, {"output/b", 1, CLASSES}};
  TF_Output handles[NUM_WEIGHTS], momenta[NUM_WEIGHTS], values[NUM_WEIGHTS], gradients[NUM_WEIGHTS];
  TF_Operation *inits[2 * NUM_WEIGHTS + 1] = {NULL}, *updates[NUM_WEIGHTS + 1] = {NULL};
  char text[64];
  for (int i = 0; i < NUM_WEIGHTS; i++) {
    handles[i] = variable(weights[i].name, weights[i].rows, weights[i].columns,
                          weights[i].rows == 1 ? 0 : sqrtf(3.0f / (float)weights[i].rows), &inits[2 * i]);
    snprintf(text, sizeof text, "%s/momentum", weights[i].name);
    momenta[i] = variable(text, weights[i].rows, weights[i].columns, 0, &inits[2 * i + 1]);
    snprintf(text, sizeof text, "%s/read", weights[i].name);
    values[i] = read_variable(text, handles[i]);
  }
  (void)node("NoOp", "init", NULL, 0, inits);
  TF_Output x = placeholder("points", TF_FLOAT, 2), labels = placeholder("labels", TF_INT32, 1);
  TF_Output h =
      NODE("Tanh", "tanh1", NODE("AddV2", "layer1", NODE("MatMul", "product1", x, values[0]), values[1]));
  h = NODE("Tanh", "tanh2", NODE("AddV2", "layer2", NODE("MatMul", "product2", h, values[2]), values[3]));
  TF_Output logits = NODE("AddV2", "logits", NODE("MatMul", "product3", h, values[4]), values[5]);
  TF_Output loss = NODE("Mean", "loss", NODE("SparseSoftmaxCrossEntropyWithLogits", "each", logits, labels),
                        axis("rows", 0));
  TF_Output guess = cast("guess", NODE("ArgMax", "most_likely", logits, axis("classes", 1)), TF_INT32);
  (void)NODE("Mean", "accuracy", cast("right", NODE("Equal", "is_right", guess, labels), TF_FLOAT),
             axis("all", 0));
  TF_AddGradients(graph, &loss, 1, values, NUM_WEIGHTS, NULL, status, gradients);
  check("gradients");
  TF_Output rate = scalar("rate", 0.1f), decay = scalar("decay", 0.9f);
  for (int i = 0; i < NUM_WEIGHTS; i++) {
    snprintf(text, sizeof text, "update_%d", i);
    updates[i] = NODE("ResourceApplyMomentum", text, handles[i], momenta[i], rate, gradients[i], decay).oper;
  }
  (void)node("NoOp", "train", NULL, 0, updates);
  TF_Buffer *out = TF_NewBuffer();
  TF_GraphToGraphDef(graph, out, status);
  check("serializing the graph");
  return out;
}

/* ---- data ---- */

static void make_spirals(TF_Tensor **points, TF_Tensor **labels, int n) {
  static float at[2 * TRAIN];
  static int32_t label[TRAIN];
  for (int i = 0; i < n; i++) {
    float along = (random_number() + 1) / 2, angle = 3.5f * sqrtf(along) + 0.4f;
    label[i] = i % 2;
    float radius = angle / 4, turn = label[i] == 0 ? 0 : 3.14159265f;
    at[2 * i] = radius * cosf(angle * 1.6f + turn) + 0.02f * random_number();
    at[2 * i + 1] = radius * sinf(angle * 1.6f + turn) + 0.02f * random_number();
  }
  *points = tensor(TF_FLOAT, at, n, 2, 2);
  *labels = tensor(TF_INT32, label, n, 0, 1);
}

/* ---- jobs ---- */

static int tell_loss(void *arg, WEFT_Job *job, int64_t step) {
  const int *loss = arg;
  const TF_Tensor *value = WEFT_JobValue(job, *loss);
  if (step % TOLD == 0 && value != NULL)
    printf("step %5" PRId64 "  loss %.4f\n", step, (double)*(const float *)TF_TensorData(value));
  fflush(stdout);
  return 0; /* go on */
}

static void tell_event(void *arg, WEFT_Job *job, const WEFT_JobEvent *e) {
  (void)arg, (void)job;
  if (e->kind == WEFT_JOB_EVENT_SAVED) printf("saved %s\n", e->path);
  if (e->kind == WEFT_JOB_EVENT_RESUMED) printf("step %" PRId64 " is done, as %s says\n", e->step, e->path);
  if (e->kind == WEFT_JOB_EVENT_WAITING)
    printf("still waiting for %s; are all tasks of its cluster running?\n", e->path);
  fflush(stdout);
}

static void add_inputs(WEFT_Job *job, int rows, WEFT_JobFeeding how) {
  TF_Tensor *points, *labels;
  make_spirals(&points, &labels, rows);
  WEFT_JobInputTensor(job, "points", points, how, status);
  check("the points");
  WEFT_JobInputTensor(job, "labels", labels, how, status);
  check("the labels");
  TF_DeleteTensor(points);
  TF_DeleteTensor(labels);
}

static void train(const TF_Buffer *graph_def, const char *strategy, const char *master, const char *prefix,
                  int64_t steps, char *checkpoint, size_t size) {
  WEFT_JobOptions options;
  WEFT_InitJobOptions(&options);
  options.strategy = strategy;
  options.batch = BATCH;
  options.shuffle = 1;
  WEFT_Job *job = WEFT_NewJob(graph_def, master, &options, status);
  check("making the job");
  WEFT_JobAddInitialiser(job, "init", status);
  check("init");
  WEFT_JobAddTarget(job, "train", status);
  check("train");
  int loss = WEFT_JobAddFetch(job, "loss", status);
  check("loss");
  add_inputs(job, TRAIN, WEFT_JOB_ROWS);
  WEFT_JobOnStep(job, tell_loss, &loss, status);
  WEFT_JobOnEvent(job, tell_event, NULL, status);
  WEFT_JobSaveEvery(job, prefix, SAVED, 0, status);
  check("saving");
  WEFT_JobResume(job, status); /* the first time there is nothing to resume: it begins with step 1 */
  check("beginning");
  WEFT_JobRun(job, steps, status);
  check("training");
  const char *folder_end = strrchr(prefix, '/');
  int folder = folder_end == NULL ? 0 : (int)(folder_end + 1 - prefix);
  snprintf(checkpoint, size, "%.*s%s", folder, prefix, WEFT_JobLastCheckpoint(job));
  WEFT_DeleteJob(job);
}

static void test(const TF_Buffer *graph_def, const char *checkpoint) {
  WEFT_Job *job = WEFT_NewJob(graph_def, NULL, NULL, status);
  check("making a job to test with");
  int accuracy = WEFT_JobAddFetch(job, "accuracy", status);
  check("accuracy");
  random_state = 2; /* other points */
  add_inputs(job, TEST, WEFT_JOB_WHOLE);
  WEFT_JobRestore(job, checkpoint, status);
  WEFT_JobRun(job, 1, status);
  check("testing");
  printf("test accuracy: %.3f\n", (double)*(const float *)TF_TensorData(WEFT_JobValue(job, accuracy)));
  WEFT_DeleteJob(job);
}

int main(int argc, char **argv) {
  static const char *const feeds[] = {"points", "labels", NULL}, *const fetches[] = {"loss", NULL},
                           *const targets[] = {"train", NULL}, *const inits[] = {"init", NULL};
  const WEFT_RewriteNames names = {.feeds = feeds, .fetches = fetches, .targets = targets, .inits = inits};
  const char *strategy = argc > 1 ? argv[1] : "mirrored:2",
             *prefix = argc > 3 ? argv[3] : "/tmp/weft_spirals";
  int64_t steps = argc > 4 ? strtoll(argv[4], NULL, 10) : 1500;
  char master[300] = "", checkpoint[1000];
  graph = TF_NewGraph();
  status = TF_NewStatus();
  WEFT_Cluster *cluster = argc > 2 && argv[2][0] != '\0' ? WEFT_NewCluster(argv[2], status) : NULL;
  check("CLUSTER");
  if (cluster != NULL) {
    const char *address = WEFT_ClusterAddress(cluster, "worker", 0);
    snprintf(master, sizeof master, "grpc://%s", address == NULL ? "" : address);
  }
  TF_Buffer *graph_def = build();
  WEFT_Rewrite *rewrite = WEFT_RewriteGraph(graph_def, strategy, cluster, 1, &names,
                                            status); /* to look at: the job makes its own */
  check("rewriting the graph");
  printf("%s\n", WEFT_RewriteExplain(rewrite));
  train(graph_def, strategy, cluster == NULL ? NULL : master, prefix, steps, checkpoint, sizeof checkpoint);
  test(graph_def, checkpoint);
  WEFT_DeleteRewrite(rewrite);
  WEFT_DeleteCluster(cluster);
  TF_DeleteBuffer(graph_def);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
