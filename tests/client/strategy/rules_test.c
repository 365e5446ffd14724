/* What reading and writing a variable mean: every synchronization, aggregation, context and way of writing
 * (T-STR-1); what checkpoints hold (T-STR-3). */
#include <stdio.h>

#include "tests/client/strategy/strategy_testing.h"
#include "tests/runner.h"

/* What the copies are after each replica i wrote 10 + i (or all wrote 10); NAN: an error. Copies start at 1.
 */
enum { CONTEXT_REPLICA, CONTEXT_CROSS, CONTEXT_UPDATE };
typedef struct rule {
  WEFT_Synchronization sync;
  WEFT_Aggregation aggregation;
  int context;
  bool adds;
  bool is_error;
  double copies[REPLICAS];
} rule_t;

/* replica 0..3 write 10, 11, 12, 13: sum 46, mean 11.5, first 10 */
#define ALL(x) \
  { x, x, x, x }
#define OWN(base) \
  { (base) + 10.0, (base) + 11.0, (base) + 12.0, (base) + 13.0 }
#define NONE WEFT_AGGREGATION_NONE
#define SUM WEFT_AGGREGATION_SUM
#define MEAN WEFT_AGGREGATION_MEAN
#define FIRST WEFT_AGGREGATION_ONLY_FIRST_REPLICA
#define WRITE WEFT_SYNC_ON_WRITE
#define READ WEFT_SYNC_ON_READ

static const rule_t rules[] = {
    /* mirrored: assign */
    {WRITE, NONE, CONTEXT_REPLICA, false, true, ALL(0)},
    {WRITE, SUM, CONTEXT_REPLICA, false, false, ALL(46)},
    {WRITE, MEAN, CONTEXT_REPLICA, false, false, ALL(11.5)},
    {WRITE, FIRST, CONTEXT_REPLICA, false, false, ALL(10)},
    {WRITE, NONE, CONTEXT_CROSS, false, false, ALL(10)},
    {WRITE, SUM, CONTEXT_CROSS, false, false, ALL(10)},
    {WRITE, MEAN, CONTEXT_CROSS, false, false, ALL(10)},
    {WRITE, FIRST, CONTEXT_CROSS, false, false, ALL(10)},
    {WRITE, NONE, CONTEXT_UPDATE, false, false, OWN(0)},
    {WRITE, SUM, CONTEXT_UPDATE, false, false, OWN(0)},
    {WRITE, MEAN, CONTEXT_UPDATE, false, false, OWN(0)},
    {WRITE, FIRST, CONTEXT_UPDATE, false, false, OWN(0)},
    /* mirrored: add */
    {WRITE, NONE, CONTEXT_REPLICA, true, true, ALL(0)},
    {WRITE, SUM, CONTEXT_REPLICA, true, false, ALL(47)},
    {WRITE, MEAN, CONTEXT_REPLICA, true, false, ALL(12.5)},
    {WRITE, FIRST, CONTEXT_REPLICA, true, false, ALL(11)},
    {WRITE, NONE, CONTEXT_CROSS, true, false, ALL(11)},
    {WRITE, SUM, CONTEXT_CROSS, true, false, ALL(11)},
    {WRITE, MEAN, CONTEXT_CROSS, true, false, ALL(11)},
    {WRITE, FIRST, CONTEXT_CROSS, true, false, ALL(11)},
    {WRITE, NONE, CONTEXT_UPDATE, true, false, OWN(1)},
    {WRITE, SUM, CONTEXT_UPDATE, true, false, OWN(1)},
    {WRITE, MEAN, CONTEXT_UPDATE, true, false, OWN(1)},
    {WRITE, FIRST, CONTEXT_UPDATE, true, false, OWN(1)},
    /* sync on read: assign */
    {READ, NONE, CONTEXT_REPLICA, false, false, OWN(0)},
    {READ, SUM, CONTEXT_REPLICA, false, false, OWN(0)},
    {READ, MEAN, CONTEXT_REPLICA, false, false, OWN(0)},
    {READ, FIRST, CONTEXT_REPLICA, false, false, OWN(0)},
    {READ, NONE, CONTEXT_CROSS, false, false, ALL(10)},
    {READ, SUM, CONTEXT_CROSS, false, false, {10, 0, 0, 0}},
    {READ, MEAN, CONTEXT_CROSS, false, false, ALL(10)},
    {READ, FIRST, CONTEXT_CROSS, false, false, ALL(10)},
    {READ, NONE, CONTEXT_UPDATE, false, false, OWN(0)},
    {READ, SUM, CONTEXT_UPDATE, false, false, OWN(0)},
    {READ, MEAN, CONTEXT_UPDATE, false, false, OWN(0)},
    {READ, FIRST, CONTEXT_UPDATE, false, false, OWN(0)},
    /* sync on read: add */
    {READ, NONE, CONTEXT_REPLICA, true, false, OWN(1)},
    {READ, SUM, CONTEXT_REPLICA, true, false, OWN(1)},
    {READ, MEAN, CONTEXT_REPLICA, true, false, OWN(1)},
    {READ, FIRST, CONTEXT_REPLICA, true, false, OWN(1)},
    {READ, NONE, CONTEXT_CROSS, true, false, ALL(11)},
    {READ, SUM, CONTEXT_CROSS, true, true, ALL(0)},
    {READ, MEAN, CONTEXT_CROSS, true, false, ALL(11)},
    {READ, FIRST, CONTEXT_CROSS, true, false, ALL(11)},
    {READ, NONE, CONTEXT_UPDATE, true, false, OWN(1)},
    {READ, SUM, CONTEXT_UPDATE, true, false, OWN(1)},
    {READ, MEAN, CONTEXT_UPDATE, true, false, OWN(1)},
    {READ, FIRST, CONTEXT_UPDATE, true, false, OWN(1)},
};

static TF_Output one(TF_Graph *graph, const int64_t *dims, int num_dims, TF_DataType dtype, int64_t begin,
                     int64_t rows, void *user, TF_Status *status) {
  (void)graph, (void)dims, (void)num_dims, (void)dtype, (void)begin, (void)rows, (void)status;
  return constant(user, "one", 1);
}

typedef struct writing {
  world_t *w;
  const rule_t *rule;
  WEFT_Variable *v;
  TF_Operation *op; /* of cross-replica and update */
} writing_t;

static TF_Operation *write(writing_t *x, TF_Output value, TF_Status *status) {
  return x->rule->adds ? WEFT_AssignAddVariable(x->w->graph, x->v, value, status)
                       : WEFT_AssignVariable(x->w->graph, x->v, value, status);
}

/* The write's end, as a value that can be fetched. */
static TF_Output ended(world_t *w, TF_Operation *op) {
  TF_OperationDescription *d = TF_NewOperation(w->graph, "Const", "ended");
  TF_Tensor *t = TF_AllocateTensor(TF_DOUBLE, NULL, 0, sizeof(double));
  memset(TF_TensorData(t), 0, sizeof(double));
  TF_SetAttrType(d, "dtype", TF_DOUBLE);
  TF_SetAttrTensor(d, "value", t, w->status);
  TF_AddControlInput(d, op);
  TF_DeleteTensor(t);
  return (TF_Output){TF_FinishOperation(d, w->status), 0};
}

static void in_replica(WEFT_ReplicaContext *c, WEFT_Value *const *args, int num_args, WEFT_Value **results,
                       int num_results, void *user, TF_Status *status) {
  writing_t *x = user;
  (void)c, (void)num_args, (void)num_results;
  TF_Operation *op = write(x, WEFT_ValueOfReplica(args[0], 0), status);
  if (op != NULL) results[0] = WEFT_NewValue(ended(x->w, op), status);
}

static TF_Operation *in_update(TF_Graph *g, WEFT_Variable *v, TF_Output component, TF_Output const *args,
                               int num_args, void *user, TF_Status *status) {
  (void)g, (void)v, (void)component, (void)num_args;
  return write(user, args[0], status);
}

static void write_in_context(writing_t *x, WEFT_Value *values, WEFT_TraceMode mode, TF_Output *out) {
  world_t *w = x->w;
  WEFT_Value *done = NULL;
  switch (x->rule->context) {
    case CONTEXT_REPLICA:
      WEFT_StrategyRun(w->strategy, w->graph, mode, in_replica, &values, 1, &done, 1, x, w->status);
      for (int i = 0; done != NULL && i < REPLICAS; i++) out[i] = WEFT_ValueOfReplica(done, i);
      WEFT_DeleteValue(done);
      break;
    case CONTEXT_CROSS: x->op = write(x, WEFT_ValueOfReplica(values, 0), w->status); break;
    default:
      x->op = WEFT_StrategyUpdate(w->strategy, w->graph, x->v, in_update, &values, 1, x, w->status);
      break;
  }
}

static void check_rule(const rule_t *rule, WEFT_TraceMode mode) {
  world_t w;
  TF_Output tens[REPLICAS], ends[REPLICAS] = {{NULL, 0}};
  char name[32];
  world_begin(&w, REPLICAS);
  for (int i = 0; i < REPLICAS; i++) {
    snprintf(name, sizeof name, "ten_%d", i);
    tens[i] = constant(&w, name, 10 + i);
  }
  WEFT_VariableOptions o = {.name = "v",
                            .dtype = TF_DOUBLE,
                            .init = one,
                            .init_user = &w,
                            .synchronization = rule->sync,
                            .aggregation = rule->aggregation};
  writing_t x = {.w = &w, .rule = rule, .v = WEFT_CreateVariable(w.graph, &o, w.status)};
  EXPECT_OK(&w);
  CU_ASSERT_EQUAL(WEFT_VariableNumComponents(x.v), REPLICAS);
  WEFT_Value *values = WEFT_NewPerReplicaValue(tens, REPLICAS, w.status);
  write_in_context(&x, values, mode, ends);
  WEFT_DeleteValue(values);
  if (rule->is_error) {
    EXPECT(&w, TF_INVALID_ARGUMENT, "'v'");
    world_end(&w);
    return;
  }
  EXPECT_OK(&w);
  run_target(&w, WEFT_Initializer(w.graph, w.status));
  if (x.op != NULL) {
    run_target(&w, x.op);
  } else {
    TF_Tensor *fetched[REPLICAS] = {NULL};
    CU_ASSERT_PTR_NOT_NULL_FATAL(ends[REPLICAS - 1].oper);
    TF_SessionRun(w.session, NULL, NULL, NULL, 0, ends, fetched, REPLICAS, NULL, 0, NULL, w.status);
    EXPECT_OK(&w);
    for (int i = 0; i < REPLICAS; i++) TF_DeleteTensor(fetched[i]);
  }
  for (int i = 0; i < REPLICAS; i++) {
    snprintf(name, sizeof name, "read_%d", i);
    TF_OperationDescription *d = TF_NewOperation(w.graph, "ReadVariableOp", name);
    TF_AddInput(d, WEFT_VariableComponent(x.v, i));
    TF_SetAttrType(d, "dtype", TF_DOUBLE);
    double got = fetch(&w, (TF_Output){TF_FinishOperation(d, w.status), 0});
    if (got != rule->copies[i])
      fprintf(stderr, "rule %d: copy %d is %g, not %g\n", (int)(rule - rules), i, got, rule->copies[i]);
    CU_ASSERT_EQUAL(got, rule->copies[i]);
  }
  world_end(&w);
}

static void writes_reach_the_copies_that_they_should(void) {
  CU_ASSERT_EQUAL(sizeof rules / sizeof rules[0], 48);
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    check_rule(&rules[i], WEFT_TRACE_ONCE);
    if (rules[i].context == CONTEXT_REPLICA) check_rule(&rules[i], WEFT_TRACE_EACH);
  }
}

/* ---- reading ---- */

static void read_own(WEFT_ReplicaContext *c, WEFT_Value *const *args, int num_args, WEFT_Value **results,
                     int num_results, void *user, TF_Status *status) {
  (void)args, (void)num_args, (void)num_results;
  results[0] = WEFT_NewValue(WEFT_ReadVariable(WEFT_ReplicaGraph(c), user, status), status);
}

static void reads_see_what_they_should(void) {
  static const struct {
    WEFT_Synchronization sync;
    WEFT_Aggregation aggregation;
    double cross;
    bool is_error;
  } cases[] = {
      {WRITE, NONE, 1, false}, {WRITE, SUM, 1, false},   {READ, NONE, 0, true},
      {READ, SUM, 10, false},  {READ, MEAN, 2.5, false}, {READ, FIRST, 1, false},
  };
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    world_t w;
    world_begin(&w, REPLICAS);
    WEFT_Variable *v = scalar_variable(&w, "v", cases[k].sync, cases[k].aggregation);
    TF_Output cross = WEFT_ReadVariable(w.graph, v, w.status);
    EXPECT(&w, cases[k].is_error ? TF_INVALID_ARGUMENT : TF_OK, cases[k].is_error ? "'v'" : "");
    WEFT_Value *own = NULL;
    WEFT_StrategyRun(w.strategy, w.graph, WEFT_TRACE_ONCE, read_own, NULL, 0, &own, 1, v, w.status);
    EXPECT_OK(&w);
    for (int i = 0; i < REPLICAS; i++) { /* copy i holds i + 1 */
      char name[32];
      snprintf(name, sizeof name, "value_%d", i);
      TF_Output value = constant(&w, name, i + 1);
      snprintf(name, sizeof name, "set_%d", i);
      TF_OperationDescription *d = TF_NewOperation(w.graph, "AssignVariableOp", name);
      TF_AddInput(d, WEFT_VariableComponent(v, i));
      TF_AddInput(d, value);
      run_target(&w, TF_FinishOperation(d, w.status));
    }
    for (int i = 0; i < REPLICAS; i++) CU_ASSERT_EQUAL(fetch(&w, WEFT_ValueOfReplica(own, i)), i + 1);
    if (!cases[k].is_error) CU_ASSERT_EQUAL(fetch(&w, cross), cases[k].cross);
    WEFT_DeleteValue(own);
    world_end(&w);
  }
}

/* ---- checkpoints ---- */

static void a_total_stays_when_restored_on_any_number_of_replicas(void) {
  static const int counts[] = {1, 2, 4};
  for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
    world_t w;
    world_begin(&w, counts[k]);
    WEFT_VariableOptions o = {
        .name = "total", .dtype = TF_INT64, .synchronization = READ, .aggregation = SUM};
    WEFT_Variable *v = WEFT_CreateVariable(w.graph, &o, w.status);
    TF_Operation *restore = WEFT_RestoreVariable(w.graph, v, int_constant(&w, "ten", 10), w.status);
    EXPECT_OK(&w);
    TF_Output saved = WEFT_VariableSaveValue(w.graph, v, w.status);
    EXPECT_OK(&w);
    run_target(&w, restore);
    CU_ASSERT_EQUAL(fetch(&w, saved), 10);
    world_end(&w);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"writes reach the copies that they should", writes_reach_the_copies_that_they_should},
      {"reads see what they should", reads_see_what_they_should},
      {"a total stays when restored on any number of replicas",
       a_total_stays_when_restored_on_any_number_of_replicas},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("rules of variables", tests);
}
