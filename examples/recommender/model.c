/* examples/recommender/model.c - the graphs: first values, a step, guesses. */
#include "examples/recommender/model.h"

#include <stdio.h>
#include <string.h>
#include <weft/sharded_variable.h>

enum { MAX_SERVERS = 16, USER_TASTE = 0, USER_BIAS, ITEM_TASTE, ITEM_BIAS, TABLES };

static const char *const table_names[TABLES] = {"user/taste", "user/bias", "item/taste", "item/bias"};

typedef struct building {
  TF_Graph *g;
  WEFT_WorkerContext *x;
  const model_t *m;
  TF_Status *s;
  WEFT_ShardedVariable *tables[TABLES];
} building_t;

/* ---- nodes; after a failure nothing is added ---- */

static bool ok(const building_t *b) { return TF_GetCode(b->s) == TF_OK; }

static TF_Output end(building_t *b, TF_OperationDescription *d) {
  return (TF_Output){TF_FinishOperation(d, b->s), 0};
}

static TF_Output op(building_t *b, const char *type, const char *name, const TF_Output *in, int n) {
  if (!ok(b)) return (TF_Output){NULL, 0};
  TF_OperationDescription *d = TF_NewOperation(b->g, type, name);
  for (int i = 0; i < n; i++) TF_AddInput(d, in[i]);
  return end(b, d);
}
static TF_Output op1(building_t *b, const char *type, const char *name, TF_Output x) {
  return op(b, type, name, &x, 1);
}
static TF_Output op2(building_t *b, const char *type, const char *name, TF_Output x, TF_Output y) {
  const TF_Output in[2] = {x, y};
  return op(b, type, name, in, 2);
}

static TF_Output constant(building_t *b, const char *name, TF_DataType type, const int64_t *dims, int rank,
                          const void *data, size_t bytes) {
  if (!ok(b)) return (TF_Output){NULL, 0};
  TF_Tensor *t = TF_AllocateTensor(type, dims, rank, bytes);
  TF_OperationDescription *d = TF_NewOperation(b->g, "Const", name);
  memcpy(TF_TensorData(t), data, bytes);
  TF_SetAttrType(d, "dtype", type);
  TF_SetAttrTensor(d, "value", t, b->s);
  TF_DeleteTensor(t);
  return end(b, d);
}
static TF_Output number(building_t *b, const char *name, float value) {
  return constant(b, name, TF_FLOAT, NULL, 0, &value, sizeof value);
}
static TF_Output ints(building_t *b, const char *name, const int32_t *values, int64_t n) {
  return constant(b, name, TF_INT32, &n, 1, values, (size_t)n * sizeof *values);
}

static TF_Output input(building_t *b, const char *name, TF_DataType type) {
  static const int64_t any[] = {-1};
  if (!ok(b)) return (TF_Output){NULL, 0};
  TF_OperationDescription *d = TF_NewOperation(b->g, "Placeholder", name);
  TF_SetAttrType(d, "dtype", type);
  TF_SetAttrShape(d, "shape", any, 1);
  TF_Output x = end(b, d);
  if (ok(b)) WEFT_WorkerContextAddInput(b->x, x);
  return x;
}

static TF_Output sum(building_t *b, const char *name, TF_Output x, TF_Output axes) {
  return op2(b, "Sum", name, x, axes);
}

/* ---- tables ---- */

static void open_tables(building_t *b) {
  const char *devices[MAX_SERVERS];
  char parts[32];
  int n = WEFT_WorkerContextNumParameterServers(b->x);
  if (n > MAX_SERVERS) n = MAX_SERVERS;
  for (int i = 0; i < n; i++) devices[i] = WEFT_WorkerContextParameterServerDevice(b->x, i);
  snprintf(parts, sizeof parts, "fixed:%d", n);
  for (int i = 0; i < TABLES && ok(b); i++) {
    bool is_taste = i == USER_TASTE || i == ITEM_TASTE, is_user = i == USER_TASTE || i == USER_BIAS;
    const int64_t dims[] = {is_user ? b->m->num_users : b->m->num_items, is_taste ? b->m->size : 1};
    b->tables[i] = WEFT_NewShardedVariable(b->g, table_names[i], TF_FLOAT, dims, 2, parts, devices, n, b->s);
  }
}

static void close_tables(building_t *b) {
  for (int i = 0; i < TABLES; i++) WEFT_DeleteShardedVariable(b->tables[i]);
}

/* Small numbers that do not depend on the task that draws them: this may run more than once. */
static TF_Output first_value(building_t *b, int i) {
  char name[64];
  bool is_taste = i == USER_TASTE || i == ITEM_TASTE, is_user = i == USER_TASTE || i == USER_BIAS;
  const int32_t dims[2] = {is_user ? b->m->num_users : b->m->num_items, is_taste ? b->m->size : 1};
  const int32_t seed[2] = {(int32_t)(b->m->seed & 0x7fffffff), i};
  snprintf(name, sizeof name, "init%d/shape", i);
  TF_Output shape = ints(b, name, dims, 2);
  snprintf(name, sizeof name, "init%d/seed", i);
  TF_Output from = ints(b, name, seed, 2);
  snprintf(name, sizeof name, "init%d/normal", i);
  TF_Output normal = op2(b, "StatelessRandomNormal", name, shape, from);
  snprintf(name, sizeof name, "init%d/scale", i);
  TF_Output scale = number(b, name, is_taste ? 0.1f : 0.0f);
  snprintf(name, sizeof name, "init%d/value", i);
  return op2(b, "Mul", name, normal, scale);
}

void model_build_init(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  building_t b = {.g = g, .x = x, .m = user, .s = s};
  open_tables(&b);
  for (int i = 0; i < TABLES && ok(&b); i++) {
    char name[64];
    TF_Output value = first_value(&b, i);
    snprintf(name, sizeof name, "init%d/assign", i);
    TF_Operation *assign = ok(&b) ? WEFT_ShardedVariableAssign(b.tables[i], name, value, s) : NULL;
    if (ok(&b)) WEFT_WorkerContextAddTarget(x, assign);
  }
  close_tables(&b);
}

/* ---- guesses and steps ---- */

/* rows[TABLES] of the batch, and the guesses [B]. */
static TF_Output guess(building_t *b, TF_Output users, TF_Output items, TF_Output *rows) {
  static const int32_t last = 1;
  for (int i = 0; i < TABLES && ok(b); i++) {
    char name[64];
    snprintf(name, sizeof name, "rows%d", i);
    rows[i] = WEFT_ShardedVariableLookup(b->tables[i], name,
                                         i == USER_TASTE || i == USER_BIAS ? users : items, b->s);
  }
  TF_Output liking = op2(b, "Mul", "liking", rows[USER_TASTE], rows[ITEM_TASTE]);
  TF_Output axis = ints(b, "last_axis", &last, 1);
  TF_Output biases = op2(b, "AddV2", "biases", rows[USER_BIAS], rows[ITEM_BIAS]);
  TF_Output all = op2(b, "AddV2", "likings", sum(b, "product", liking, axis), sum(b, "bias", biases, axis));
  return op2(b, "AddV2", "guess", all, number(b, "mean", b->m->mean));
}

void model_build_guess(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  building_t b = {.g = g, .x = x, .m = user, .s = s};
  TF_Output rows[TABLES];
  open_tables(&b);
  TF_Output users = input(&b, "users", TF_INT32), items = input(&b, "items", TF_INT32);
  TF_Output guesses = guess(&b, users, items, rows);
  if (ok(&b)) WEFT_WorkerContextAddOutput(x, guesses);
  close_tables(&b);
}

/* Half the squared errors, and the decay of the rows of the batch. */
static TF_Output loss_of(building_t *b, TF_Output error, const TF_Output *rows) {
  static const int32_t first = 0, both[] = {0, 1};
  TF_Output loss =
      sum(b, "errors", op1(b, "Square", "squared_error", error), ints(b, "first_axis", &first, 1));
  TF_Output axes = ints(b, "both_axes", both, 2), decay = number(b, "decay", b->m->decay);
  for (int i = 0; i < TABLES; i++) {
    char name[64];
    snprintf(name, sizeof name, "square%d", i);
    TF_Output square = op1(b, "Square", name, rows[i]);
    snprintf(name, sizeof name, "size%d", i);
    square = sum(b, name, square, axes);
    snprintf(name, sizeof name, "decay%d", i);
    square = op2(b, "Mul", name, square, decay);
    snprintf(name, sizeof name, "loss%d", i);
    loss = op2(b, "AddV2", name, loss, square);
  }
  return op2(b, "Mul", "loss", loss, number(b, "half", 0.5f));
}

static void update(building_t *b, int i, TF_Output ids, TF_Output gradient) {
  char name[64];
  snprintf(name, sizeof name, "rate%d", i);
  TF_Output rate = number(b, name, -b->m->rate);
  snprintf(name, sizeof name, "change%d", i);
  TF_Output change = op2(b, "Mul", name, gradient, rate);
  snprintf(name, sizeof name, "update%d", i);
  TF_Operation *done =
      ok(b) ? WEFT_ShardedVariableScatterAdd(b->tables[i], name, ids, change, b->x, b->s) : NULL;
  if (ok(b)) WEFT_WorkerContextAddTarget(b->x, done);
}

void model_build_step(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  building_t b = {.g = g, .x = x, .m = user, .s = s};
  TF_Output rows[TABLES], gradients[TABLES];
  static const int32_t first = 0;
  open_tables(&b);
  TF_Output users = input(&b, "users", TF_INT32), items = input(&b, "items", TF_INT32);
  TF_Output ratings = input(&b, "ratings", TF_FLOAT);
  TF_Output error = op2(&b, "Sub", "error", guess(&b, users, items, rows), ratings);
  TF_Output loss = loss_of(&b, error, rows);
  if (ok(&b)) TF_AddGradients(g, &loss, 1, rows, TABLES, NULL, s, gradients);
  for (int i = 0; i < TABLES && ok(&b); i++)
    update(&b, i, i == USER_TASTE || i == USER_BIAS ? users : items, gradients[i]);
  TF_Output squares = op1(&b, "Square", "squares", error);
  TF_Output mean = op2(&b, "Mean", "mse", squares, ints(&b, "batch_axis", &first, 1));
  if (ok(&b)) WEFT_WorkerContextAddOutput(x, mean);
  close_tables(&b);
}
