/* examples/digits/make_graph.c - writes the training graph of the digits demo.
 *
 *   make_graph FILE.pb
 *
 * One parameter server task holds the variables; each of two worker tasks
 * computes the gradients of half the batch; they are averaged and applied by
 * Adam on the parameter server. The gradients of one worker are built once, in a
 * graph of their own, by TF_AddGradients; that tower is then imported once per
 * worker, onto its device.
 *
 * Nodes for whoever runs it: images, labels (feeds); init, train (targets);
 * loss, accuracy (fetches).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/digits/model.h"

enum { NUM_WORKERS = 2 };

#define PS "/job:ps/task:0"
static const char *const WORKERS[NUM_WORKERS] = {"/job:worker/task:0", "/job:worker/task:1"};

/* ---- the tower: images, labels and weights in; loss and gradients out ---- */

static TF_Buffer *make_tower(void) {
  build_t b;
  build_init(&b);
  int64_t image_dims[2] = {-1, IMAGE_PIXELS}, label_dims[1] = {-1};
  TF_Output images = placeholder(&b, "images", TF_FLOAT, image_dims, 2);
  TF_Output labels = placeholder(&b, "labels", TF_INT64, label_dims, 1);
  TF_Output weights[NUM_VARIABLES], gradients[NUM_VARIABLES];
  for (int i = 0; i < NUM_VARIABLES; i++) {
    char name[64];
    snprintf(name, sizeof name, "weight_%d", i);
    weights[i] = placeholder(&b, name, TF_FLOAT, VARIABLES[i].dims, VARIABLES[i].rank);
  }
  TF_Output loss = model_loss(&b, model_logits(&b, images, weights), labels);
  TF_AddGradients(b.graph, &loss, 1, weights, NUM_VARIABLES, NULL, b.status, gradients);
  check(&b, "differentiating the loss");
  for (int i = 0; i < NUM_VARIABLES; i++) {
    char name[64];
    snprintf(name, sizeof name, "gradient_%d", i);
    op1(&b, "Identity", "", name, gradients[i]);
  }
  TF_Buffer *def = TF_NewBuffer();
  TF_GraphToGraphDef(b.graph, def, b.status);
  check(&b, "serializing the tower");
  build_deinit(&b);
  return def;
}

/* Puts a tower onto `device`; results: the loss, then the gradients. */
static void place_tower(build_t *b, const TF_Buffer *tower, int worker, TF_Output images, TF_Output labels,
                        const TF_Output *weights, TF_Output *results) {
  char prefix[32], name[64];
  snprintf(prefix, sizeof prefix, "worker_%d", worker);
  TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(o, prefix);
  TF_ImportGraphDefOptionsSetDefaultDevice(o, WORKERS[worker]);
  TF_ImportGraphDefOptionsAddInputMapping(o, "images", 0, images);
  TF_ImportGraphDefOptionsAddInputMapping(o, "labels", 0, labels);
  for (int i = 0; i < NUM_VARIABLES; i++) {
    snprintf(name, sizeof name, "weight_%d", i);
    TF_ImportGraphDefOptionsAddInputMapping(o, name, 0, weights[i]);
  }
  TF_ImportGraphDefOptionsAddReturnOutput(o, "loss/mean", 0);
  for (int i = 0; i < NUM_VARIABLES; i++) {
    snprintf(name, sizeof name, "gradient_%d", i);
    TF_ImportGraphDefOptionsAddReturnOutput(o, name, 0);
  }
  TF_GraphImportGraphDefWithReturnOutputs(b->graph, tower, o, results, NUM_VARIABLES + 1, b->status);
  check(b, "placing a tower");
  TF_DeleteImportGraphDefOptions(o);
}

/* ---- variables ---- */

/* Normal numbers by Box and Muller, the same on every machine. */
static double uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

static TF_Output start_value(build_t *b, const variable_spec_t *v, const char *slot) {
  int64_t count = 1;
  for (int i = 0; i < v->rank; i++) count *= v->dims[i];
  float *values = calloc((size_t)count, sizeof *values);
  if (values == NULL) exit(1);
  uint64_t state = 7 + (uint64_t)(v - VARIABLES);
  for (int64_t i = 0; slot == NULL && v->fan_in > 0 && i < count; i++) {
    double radius = sqrt(-2 * log(uniform(&state)));
    values[i] = (float)(radius * cos(6.283185307179586 * uniform(&state)) * sqrt(2.0 / v->fan_in));
  }
  char name[64];
  snprintf(name, sizeof name, "initial%s%s", slot == NULL ? "" : "_", slot == NULL ? "" : slot);
  TF_Output c = constant(b, v->name, name, TF_FLOAT, v->dims, v->rank, values, (size_t)count * sizeof *values);
  free(values);
  return c;
}

/* A variable and the op that gives it its first value. */
static TF_Output variable(build_t *b, const char *scope, const char *name, const int64_t *dims, int rank, TF_Output start,
                          TF_Operation **init) {
  char full[128];
  snprintf(full, sizeof full, "%s/%s", scope, name);
  TF_OperationDescription *node = begin(b, "VarHandleOp", scope, name);
  TF_SetAttrType(node, "dtype", TF_FLOAT);
  TF_SetAttrShape(node, "shape", dims, rank);
  TF_SetAttrString(node, "shared_name", full, strlen(full));
  TF_Output handle = end(b, node);
  snprintf(full, sizeof full, "assign_%s", name);
  node = begin(b, "AssignVariableOp", scope, full);
  TF_AddInput(node, handle);
  TF_AddInput(node, start);
  *init = end(b, node).oper;
  return handle;
}

static TF_Output read_variable(build_t *b, const char *scope, const char *name, TF_Output handle) {
  TF_OperationDescription *node = begin(b, "ReadVariableOp", scope, name);
  TF_AddInput(node, handle);
  TF_SetAttrType(node, "dtype", TF_FLOAT);
  return end(b, node);
}

/* ---- Adam: Kingma & Ba (2015), algorithm 1, as ResourceApplyAdam does it ---- */

typedef struct adam {
  TF_Output rate, beta1, beta2, epsilon;
  TF_Output power1, power2;           /* variables: beta to the power of the step */
  TF_Output power1_value, power2_value;
} adam_t;

static adam_t make_adam(build_t *b, TF_Operation **inits) {
  adam_t a = {.rate = scalar(b, "adam", "rate", 0.002f), .beta1 = scalar(b, "adam", "beta1", 0.9f),
              .beta2 = scalar(b, "adam", "beta2", 0.999f), .epsilon = scalar(b, "adam", "epsilon", 1e-8f)};
  a.power1 = variable(b, "adam", "beta1_power", NULL, 0, a.beta1, &inits[0]);
  a.power2 = variable(b, "adam", "beta2_power", NULL, 0, a.beta2, &inits[1]);
  a.power1_value = read_variable(b, "adam", "read_beta1_power", a.power1);
  a.power2_value = read_variable(b, "adam", "read_beta2_power", a.power2);
  return a;
}

static TF_Operation *apply_adam(build_t *b, const adam_t *a, const char *scope, TF_Output var, TF_Output m, TF_Output v,
                                TF_Output gradient) {
  TF_OperationDescription *node = begin(b, "ResourceApplyAdam", scope, "apply_adam");
  TF_Output inputs[10] = {var, m, v, a->power1_value, a->power2_value, a->rate, a->beta1, a->beta2, a->epsilon, gradient};
  for (int i = 0; i < 10; i++) TF_AddInput(node, inputs[i]);
  return end(b, node).oper;
}

/* The powers go on once all variables have been updated. */
static TF_Operation *advance(build_t *b, const char *name, TF_Output power, TF_Output value, TF_Output beta,
                             TF_Operation *const *after, int n) {
  char full[64];
  snprintf(full, sizeof full, "next_%s", name);
  TF_Output next = op2(b, "Mul", "adam", full, value, beta);
  snprintf(full, sizeof full, "update_%s", name);
  TF_OperationDescription *node = begin(b, "AssignVariableOp", "adam", full);
  TF_AddInput(node, power);
  TF_AddInput(node, next);
  for (int i = 0; i < n; i++) TF_AddControlInput(node, after[i]);
  return end(b, node).oper;
}

/* ---- the whole ---- */

static TF_Output average(build_t *b, const char *scope, TF_Output x, TF_Output y, TF_Output half) {
  return op2(b, "Mul", scope, "average", op2(b, "AddV2", scope, "sum", x, y), half);
}

/* Halves of the batch, in order; an odd one gives the first worker one less. */
static void split(build_t *b, TF_Output whole, const char *scope, TF_Output size, TF_Output *halves) {
  TF_OperationDescription *node = begin(b, "SplitV", scope, "halves");
  static const int32_t rows = 0;
  TF_AddInput(node, whole);
  TF_AddInput(node, size);
  TF_AddInput(node, constant(b, scope, "rows", TF_INT32, NULL, 0, &rows, sizeof rows));
  TF_SetAttrInt(node, "num_split", NUM_WORKERS);
  TF_Output first = end(b, node);
  for (int i = 0; i < NUM_WORKERS; i++) halves[i] = (TF_Output){first.oper, i};
}

static TF_Output half_sizes(build_t *b, TF_Output labels) {
  static const int32_t two = 2;
  TF_Output n = op1(b, "Size", "batch", "size", labels);
  TF_Output first = op2(b, "FloorDiv", "batch", "first", n, constant(b, "batch", "two", TF_INT32, NULL, 0, &two, sizeof two));
  TF_Output sizes[2] = {first, op2(b, "Sub", "batch", "second", n, first)};
  TF_OperationDescription *node = begin(b, "Pack", "batch", "sizes");
  TF_AddInputList(node, sizes, 2);
  return end(b, node);
}

int main(int argc, char **argv) {
  if (argc != 2 || strcmp(argv[1], "--help") == 0) {
    fprintf(argc == 2 ? stdout : stderr, "Usage: make_graph FILE.pb\nWrites the training graph of the digits demo.\n");
    return argc == 2 ? 0 : 2;
  }
  build_t b;
  build_init(&b);
  b.device = PS;
  int64_t image_dims[2] = {-1, IMAGE_PIXELS}, label_dims[1] = {-1};
  TF_Output images = placeholder(&b, "images", TF_FLOAT, image_dims, 2);
  TF_Output labels = placeholder(&b, "labels", TF_INT64, label_dims, 1);
  TF_Operation *inits[3 * NUM_VARIABLES + 2], *updates[NUM_VARIABLES + 2];
  TF_Output vars[NUM_VARIABLES], ms[NUM_VARIABLES], vs[NUM_VARIABLES], weights[NUM_VARIABLES];
  for (int i = 0; i < NUM_VARIABLES; i++) {
    const variable_spec_t *v = &VARIABLES[i];
    vars[i] = variable(&b, v->name, "value", v->dims, v->rank, start_value(&b, v, NULL), &inits[3 * i]);
    ms[i] = variable(&b, v->name, "m", v->dims, v->rank, start_value(&b, v, "m"), &inits[3 * i + 1]);
    vs[i] = variable(&b, v->name, "v", v->dims, v->rank, start_value(&b, v, "v"), &inits[3 * i + 2]);
    weights[i] = read_variable(&b, v->name, "read", vars[i]);
  }
  adam_t adam = make_adam(&b, &inits[3 * NUM_VARIABLES]);
  group(&b, "init", inits, 3 * NUM_VARIABLES + 2);

  TF_Output image_halves[NUM_WORKERS], label_halves[NUM_WORKERS], results[NUM_WORKERS][NUM_VARIABLES + 1];
  TF_Output sizes = half_sizes(&b, labels);
  split(&b, images, "split_images", sizes, image_halves);
  split(&b, labels, "split_labels", sizes, label_halves);
  TF_Buffer *tower = make_tower();
  for (int w = 0; w < NUM_WORKERS; w++) place_tower(&b, tower, w, image_halves[w], label_halves[w], weights, results[w]);
  TF_DeleteBuffer(tower);

  TF_Output half = scalar(&b, "average", "half", 0.5f);
  op1(&b, "Identity", "", "loss", average(&b, "average_loss", results[0][0], results[1][0], half));
  for (int i = 0; i < NUM_VARIABLES; i++) {
    TF_Output gradient = average(&b, VARIABLES[i].name, results[0][i + 1], results[1][i + 1], half);
    updates[i] = apply_adam(&b, &adam, VARIABLES[i].name, vars[i], ms[i], vs[i], gradient);
  }
  updates[NUM_VARIABLES] = advance(&b, "beta1_power", adam.power1, adam.power1_value, adam.beta1, updates, NUM_VARIABLES);
  updates[NUM_VARIABLES + 1] = advance(&b, "beta2_power", adam.power2, adam.power2_value, adam.beta2, updates, NUM_VARIABLES);
  group(&b, "train", updates, NUM_VARIABLES + 2);

  b.device = WORKERS[0]; /* testing needs no gradients: one forward pass */
  op1(&b, "Identity", "", "accuracy", model_accuracy(&b, model_logits(&b, images, weights), labels));
  write_graph(&b, argv[1]);
  build_deinit(&b);
  return 0;
}
