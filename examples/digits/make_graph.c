/* examples/digits/make_graph.c - writes the training graph of the digits demo.
 *
 *   make_graph FILE.pb
 *
 * A plain graph for one device: a small network, its loss, gradients by
 * TF_AddGradients, updates by Adam. It names no device and knows of no other
 * task; `weft submit --strategy` makes a distributed one of it.
 *
 * Nodes for the program that runs it: images, labels (feeds); init, train (targets);
 * loss, accuracy (fetches).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/digits/model.h"

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
  TF_Output c =
      constant(b, v->name, name, TF_FLOAT, v->dims, v->rank, values, (size_t)count * sizeof *values);
  free(values);
  return c;
}

/* A variable and the op that gives it its first value. */
static TF_Output variable(build_t *b, const char *scope, const char *name, const int64_t *dims, int rank,
                          TF_Output start, TF_Operation **init) {
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
  TF_Output power1, power2; /* variables: beta to the power of the step */
  TF_Output power1_value, power2_value;
} adam_t;

static adam_t make_adam(build_t *b, TF_Operation **inits) {
  adam_t a = {.rate = scalar(b, "adam", "rate", 0.002f),
              .beta1 = scalar(b, "adam", "beta1", 0.9f),
              .beta2 = scalar(b, "adam", "beta2", 0.999f),
              .epsilon = scalar(b, "adam", "epsilon", 1e-8f)};
  a.power1 = variable(b, "adam", "beta1_power", NULL, 0, a.beta1, &inits[0]);
  a.power2 = variable(b, "adam", "beta2_power", NULL, 0, a.beta2, &inits[1]);
  a.power1_value = read_variable(b, "adam", "read_beta1_power", a.power1);
  a.power2_value = read_variable(b, "adam", "read_beta2_power", a.power2);
  return a;
}

static TF_Operation *apply_adam(build_t *b, const adam_t *a, const char *scope, TF_Output var, TF_Output m,
                                TF_Output v, TF_Output gradient) {
  TF_OperationDescription *node = begin(b, "ResourceApplyAdam", scope, "apply_adam");
  TF_Output inputs[10] = {var,     m,        v,        a->power1_value, a->power2_value,
                          a->rate, a->beta1, a->beta2, a->epsilon,      gradient};
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

int main(int argc, char **argv) {
  if (argc != 2 || strcmp(argv[1], "--help") == 0) {
    fprintf(argc == 2 ? stdout : stderr,
            "Usage: make_graph FILE.pb\nWrites the training graph of the digits demo.\n");
    return argc == 2 ? 0 : 2;
  }
  build_t b;
  build_init(&b);
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

  TF_Output logits = model_logits(&b, images, weights), loss = model_loss(&b, logits, labels),
            gradients[NUM_VARIABLES];
  TF_AddGradients(b.graph, &loss, 1, weights, NUM_VARIABLES, NULL, b.status, gradients);
  check(&b, "differentiating the loss");
  for (int i = 0; i < NUM_VARIABLES; i++)
    updates[i] = apply_adam(&b, &adam, VARIABLES[i].name, vars[i], ms[i], vs[i], gradients[i]);
  updates[NUM_VARIABLES] =
      advance(&b, "beta1_power", adam.power1, adam.power1_value, adam.beta1, updates, NUM_VARIABLES);
  updates[NUM_VARIABLES + 1] =
      advance(&b, "beta2_power", adam.power2, adam.power2_value, adam.beta2, updates, NUM_VARIABLES);
  group(&b, "train", updates, NUM_VARIABLES + 2);
  op1(&b, "Identity", "", "loss", loss);
  op1(&b, "Identity", "", "accuracy", model_accuracy(&b, logits, labels));
  write_graph(&b, argv[1]);
  build_deinit(&b);
  return 0;
}
