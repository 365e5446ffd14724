/* Running a function on all replicas: merge calls, all-reduce, packs, scopes, shares of a batch, parts on
 * parameter servers. */
#include <stdio.h>
#include <string.h>

#include "tests/client/strategy/strategy_testing.h"
#include "tests/runner.h"
#include "weft/statistics.h"

static const WEFT_TraceMode modes[] = {WEFT_TRACE_ONCE, WEFT_TRACE_EACH};

static TF_Output op2(TF_Graph *g, const char *op, const char *name, TF_Output a, TF_Output b,
                     TF_Status *status) {
  TF_OperationDescription *d = TF_NewOperation(g, op, name);
  TF_AddInput(d, a);
  TF_AddInput(d, b);
  return (TF_Output){TF_FinishOperation(d, status), 0};
}

static WEFT_Value *ten_and_more(world_t *w) {
  TF_Output values[REPLICAS];
  for (int i = 0; i < REPLICAS; i++) {
    char name[32];
    snprintf(name, sizeof name, "ten_%d", i);
    values[i] = constant(w, name, 10 + i);
  }
  return WEFT_NewPerReplicaValue(values, REPLICAS, w->status);
}

static int count_ops(const world_t *w, const char *type) {
  size_t at = 0;
  int n = 0;
  for (TF_Operation *op; (op = TF_GraphNextOperation(w->graph, &at)) != NULL;)
    n += strcmp(TF_OperationOpType(op), type) == 0;
  return n;
}

/* ---- segments and merges ---- */

/* x = arg * arg; sum = all-reduce(x); result 0 = sum + arg; result 1 = mean(sum * x). */
static void two_merges(WEFT_ReplicaContext *c, WEFT_Value *const *args, int num_args, WEFT_Value **results,
                       int num_results, void *user, TF_Status *status) {
  TF_Graph *g = WEFT_ReplicaGraph(c);
  TF_Output arg = WEFT_ValueOfReplica(args[0], 0), x = op2(g, "Mul", "square", arg, arg, status);
  (void)num_args, (void)num_results, (void)user;
  TF_Output sum = WEFT_ReplicaAllReduce(c, WEFT_SUM, x, status);
  if (TF_GetCode(status) != TF_OK) return;
  results[0] = WEFT_NewValue(op2(g, "AddV2", "sum_and_arg", sum, arg, status), status);
  TF_Output mean = WEFT_ReplicaAllReduce(c, WEFT_MEAN, op2(g, "Mul", "product", sum, x, status), status);
  if (TF_GetCode(status) == TF_OK) results[1] = WEFT_NewValue(mean, status);
}

static void merges_see_all_replicas_and_replicas_go_on(void) {
  for (int m = 0; m < 2; m++) {
    world_t w;
    WEFT_Value *results[2];
    world_begin(&w, REPLICAS);
    WEFT_Value *args = ten_and_more(&w);
    WEFT_StrategyRun(w.strategy, w.graph, modes[m], two_merges, &args, 1, results, 2, NULL, w.status);
    EXPECT_OK(&w);
    double sum = 100 + 121 + 144 + 169;
    for (int i = 0; i < REPLICAS; i++) {
      CU_ASSERT_EQUAL(fetch(&w, WEFT_ValueOfReplica(results[0], i)), sum + 10 + i);
      CU_ASSERT_EQUAL(fetch(&w, WEFT_ValueOfReplica(results[1], i)), sum * sum / 4);
    }
    TF_Output local[REPLICAS];
    CU_ASSERT_EQUAL(WEFT_LocalResults(w.strategy, results[0], local, REPLICAS), REPLICAS);
    CU_ASSERT_STRING_EQUAL(TF_OperationDevice(local[2].oper), "/device:CPU:2");
    CU_ASSERT_EQUAL(strncmp(TF_OperationName(local[2].oper), "replica_2/", 10), 0);
    for (int k = 0; k < 2; k++) WEFT_DeleteValue(results[k]);
    WEFT_DeleteValue(args);
    world_end(&w);
  }
}

static void unequal_merges(WEFT_ReplicaContext *c, WEFT_Value *const *args, int num_args,
                           WEFT_Value **results, int num_results, void *user, TF_Status *status) {
  (void)num_args, (void)results, (void)num_results, (void)user;
  if (WEFT_ReplicaId(c) != 1) WEFT_ReplicaAllReduce(c, WEFT_SUM, WEFT_ValueOfReplica(args[0], 0), status);
}

static void replicas_that_merge_differently_are_refused(void) {
  for (int m = 0; m < 2; m++) { /* and a function that is traced once may not ask for its replica */
    world_t w;
    world_begin(&w, REPLICAS);
    WEFT_Value *args = ten_and_more(&w);
    WEFT_StrategyRun(w.strategy, w.graph, modes[m], unequal_merges, &args, 1, NULL, 0, NULL, w.status);
    EXPECT(&w, TF_FAILED_PRECONDITION, m == 0 ? "WEFT_TRACE_EACH" : "different numbers of merge calls");
    WEFT_Value *results[2];
    WEFT_StrategyRun(w.strategy, w.graph, WEFT_TRACE_ONCE, two_merges, &args, 1, results, 2, NULL,
                     w.status); /* the graph is usable */
    EXPECT_OK(&w);
    for (int k = 0; k < 2; k++) WEFT_DeleteValue(results[k]);
    WEFT_DeleteValue(args);
    TF_SetStatus(w.status, TF_OK, "");
    world_end(&w);
  }
}

static void failing(WEFT_ReplicaContext *c, WEFT_Value *const *args, int num_args, WEFT_Value **results,
                    int num_results, void *user, TF_Status *status) {
  (void)args, (void)num_args, (void)results, (void)num_results, (void)user;
  if (WEFT_ReplicaId(c) == 2) TF_SetStatus(status, TF_DATA_LOSS, "the model is gone");
}

static void a_failure_of_a_replica_is_told(void) {
  world_t w;
  world_begin(&w, REPLICAS);
  WEFT_StrategyRun(w.strategy, w.graph, WEFT_TRACE_EACH, failing, NULL, 0, NULL, 0, NULL, w.status);
  EXPECT(&w, TF_DATA_LOSS, "the model is gone");
  world_end(&w);
}

/* ---- packs ---- */

enum { NUM_GRADIENTS = 5 };

static void reduce_many(WEFT_ReplicaContext *c, WEFT_Value *const *args, int num_args, WEFT_Value **results,
                        int num_results, void *user, TF_Status *status) {
  TF_Output in[NUM_GRADIENTS], out[NUM_GRADIENTS];
  (void)num_args, (void)user;
  for (int k = 0; k < num_results; k++) in[k] = WEFT_ValueOfReplica(args[k], 0);
  WEFT_ReplicaBatchAllReduce(c, WEFT_SUM, in, num_results, out, status);
  for (int k = 0; TF_GetCode(status) == TF_OK && k < num_results; k++)
    results[k] = WEFT_NewValue(out[k], status);
}

/* Values of 8, 16, 24, 32 and 40 bytes; the last first; a pack closes when it holds more than the limit. */
static void gradients_are_reduced_in_packs(void) {
  static const struct {
    int64_t bytes_per_pack;
    int packs;
  } cases[] = {{0, 5}, {1, 5}, {72, 2}, {71, 2}, {1 << 20, 1}};
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    static const char *const devices[] = {"CPU:0", "CPU:1"};
    world_t w;
    WEFT_CommOptions comm = {.bytes_per_pack = cases[k].bytes_per_pack};
    TF_Status *status = TF_NewStatus();
    world_begin_with(&w, WEFT_NewMirroredStrategy(devices, 2, &comm, status), status);
    WEFT_Value *args[NUM_GRADIENTS], *results[NUM_GRADIENTS];
    for (int i = 0; i < NUM_GRADIENTS; i++) {
      double values[NUM_GRADIENTS] = {i + 1, i + 2, i + 3, i + 4, i + 5};
      char name[32];
      snprintf(name, sizeof name, "gradient_%d", i);
      args[i] = WEFT_NewValue(vector(&w, name, values, i + 1), w.status);
    }
    WEFT_StrategyRun(w.strategy, w.graph, WEFT_TRACE_ONCE, reduce_many, args, NUM_GRADIENTS, results,
                     NUM_GRADIENTS, NULL, w.status);
    EXPECT_OK(&w);
    CU_ASSERT_EQUAL(count_ops(&w, "CollectiveReduceV2"), 2 * cases[k].packs);
    for (int i = 0; i < NUM_GRADIENTS; i++) {
      double got[NUM_GRADIENTS];
      CU_ASSERT_EQUAL(fetch_all(&w, WEFT_ValueOfReplica(results[i], 1), got, NUM_GRADIENTS), i + 1);
      for (int j = 0; j <= i; j++) CU_ASSERT_EQUAL(got[j], 2 * (i + 1 + j));
      WEFT_DeleteValue(results[i]);
      WEFT_DeleteValue(args[i]);
    }
    world_end(&w);
  }
}

/* ---- variables inside ---- */

static void make_inside(WEFT_ReplicaContext *c, WEFT_Value *const *args, int num_args, WEFT_Value **results,
                        int num_results, void *user, TF_Status *status) {
  (void)args, (void)num_args, (void)num_results, (void)user;
  WEFT_VariableOptions o = {.name = "inside", .dtype = TF_DOUBLE, .aggregation = WEFT_AGGREGATION_SUM};
  WEFT_Variable *v = WEFT_CreateVariable(WEFT_ReplicaGraph(c), &o, status);
  if (v != NULL) results[0] = WEFT_NewValue(WEFT_ReadVariable(WEFT_ReplicaGraph(c), v, status), status);
}

static void a_variable_of_a_replica_is_made_once_and_found_again(void) {
  for (int m = 0; m < 2; m++) {
    world_t w;
    WEFT_Value *first, *again;
    world_begin(&w, REPLICAS);
    WEFT_StrategyRun(w.strategy, w.graph, modes[m], make_inside, NULL, 0, &first, 1, NULL, w.status);
    EXPECT_OK(&w);
    CU_ASSERT_EQUAL(count_ops(&w, "VarHandleOp"), REPLICAS);
    WEFT_StrategyRun(w.strategy, w.graph, modes[m], make_inside, NULL, 0, &again, 1, NULL, w.status);
    EXPECT_OK(&w);
    CU_ASSERT_EQUAL(count_ops(&w, "VarHandleOp"), REPLICAS);
    WEFT_Variable *v = WEFT_FindVariable(w.graph, "inside");
    CU_ASSERT_STRING_EQUAL(TF_OperationName(WEFT_VariableComponent(v, 3).oper), "inside/replica_3");
    CU_ASSERT_STRING_EQUAL(WEFT_VariableDevice(v, 3), "/device:CPU:3");
    run_target(&w, WEFT_Initializer(w.graph, w.status));
    for (int i = 0; i < REPLICAS; i++) CU_ASSERT_EQUAL(fetch(&w, WEFT_ValueOfReplica(again, i)), 0);
    WEFT_DeleteValue(first);
    WEFT_DeleteValue(again);
    world_end(&w);
  }
}

static WEFT_Variable *doubling(TF_Graph *graph, const WEFT_VariableOptions *options, WEFT_CreatorChain *next,
                               void *user, TF_Status *status) {
  static const int64_t dims[1] = {2};
  WEFT_VariableOptions changed = *options;
  ++*(int *)user;
  changed.dims = dims;
  changed.num_dims = 1;
  return WEFT_CallNextCreator(next, graph, &changed, status);
}

static void creators_have_a_say(void) {
  world_t w;
  int calls = 0;
  double got[3];
  world_begin(&w, 2);
  WEFT_PushVariableCreator(w.graph, doubling, &calls, w.status);
  WEFT_Variable *v = scalar_variable(&w, "v", WEFT_SYNC_AUTO, WEFT_AGGREGATION_NONE);
  WEFT_PopVariableCreator(w.graph, w.status);
  scalar_variable(&w, "u", WEFT_SYNC_AUTO, WEFT_AGGREGATION_NONE);
  WEFT_PopVariableCreator(w.graph, w.status);
  EXPECT(&w, TF_FAILED_PRECONDITION, "");
  CU_ASSERT_EQUAL(calls, 1);
  TF_Output read = WEFT_ReadVariable(w.graph, v, w.status);
  run_target(&w, WEFT_Initializer(w.graph, w.status));
  CU_ASSERT_EQUAL(fetch_all(&w, read, got, 3), 2);
  world_end(&w);
}

/* ---- scopes ---- */

static void enter_inside(WEFT_ReplicaContext *c, WEFT_Value *const *args, int num_args, WEFT_Value **results,
                         int num_results, void *user, TF_Status *status) {
  world_t *w = user;
  (void)num_args, (void)results, (void)num_results;
  WEFT_StrategyReduce(w->strategy, WEFT_ReplicaGraph(c), WEFT_SUM, args[0], -1, status);
}

static void scopes_nest_and_exclude_each_other(void) {
  world_t w;
  world_begin(&w, REPLICAS);
  WEFT_Strategy *other = WEFT_NewOneDeviceStrategy("CPU:0", w.status);
  WEFT_ScopeEnter(w.strategy, w.graph, w.status);
  EXPECT_OK(&w);
  WEFT_ScopeEnter(other, w.graph, w.status);
  EXPECT(&w, TF_FAILED_PRECONDITION, "WEFT_ScopeExit");
  WEFT_Value *args = ten_and_more(&w);
  WEFT_StrategyRun(other, w.graph, WEFT_TRACE_ONCE, two_merges, &args, 1, NULL, 0, NULL, w.status);
  EXPECT(&w, TF_FAILED_PRECONDITION, "another strategy");
  WEFT_StrategyRun(w.strategy, w.graph, WEFT_TRACE_ONCE, enter_inside, &args, 1, NULL, 0, &w, w.status);
  EXPECT(&w, TF_FAILED_PRECONDITION, "WEFT_ReplicaMergeCall");
  WEFT_ScopeExit(w.strategy, w.graph, w.status);
  EXPECT_OK(&w);
  CU_ASSERT_EQUAL(WEFT_HasScope(w.graph), 1);
  WEFT_ScopeExit(w.strategy, w.graph, w.status);
  CU_ASSERT_EQUAL(WEFT_HasScope(w.graph), 0);
  WEFT_StrategyReduce(w.strategy, w.graph, WEFT_SUM, args, -1, w.status);
  EXPECT(&w, TF_FAILED_PRECONDITION, "WEFT_ScopeEnter");
  WEFT_ScopeEnter(other, w.graph, w.status); /* now it may */
  EXPECT_OK(&w);
  WEFT_DeleteValue(args);
  world_end(&w);
  WEFT_DeleteStrategy(other);
}

/* ---- reductions outside ---- */

static void values_are_reduced_and_gathered(void) {
  static const double rows[] = {1, 2, 3, 4, 5, 6, 7};
  world_t w;
  double got[8];
  world_begin(&w, 3);
  WEFT_Value *shares = WEFT_DistributeBatch(w.strategy, w.graph, vector(&w, "batch", rows, 7), w.status);
  EXPECT_OK(&w);
  static const int sizes[] = {2, 2, 3};
  for (int i = 0, at = 0; i < 3; at += sizes[i++]) {
    CU_ASSERT_EQUAL(fetch_all(&w, WEFT_ValueOfReplica(shares, i), got, 8), sizes[i]);
    CU_ASSERT_EQUAL(got[0], rows[at]);
  }
  TF_Output mean = WEFT_StrategyReduce(w.strategy, w.graph, WEFT_MEAN, shares, 0, w.status);
  TF_Output sum = WEFT_StrategyReduce(w.strategy, w.graph, WEFT_SUM, shares, 0, w.status);
  TF_Output max = WEFT_StrategyReduce(w.strategy, w.graph, WEFT_MAX, shares, 0, w.status);
  TF_Output whole = WEFT_StrategyGather(w.strategy, w.graph, shares, 0, w.status);
  EXPECT_OK(&w);
  CU_ASSERT_DOUBLE_EQUAL(fetch(&w, mean), 4, 1e-12); /* every row weighs the same, also in the larger share */
  CU_ASSERT_EQUAL(fetch(&w, sum), 28);
  CU_ASSERT_EQUAL(fetch(&w, max), 7);
  CU_ASSERT_EQUAL(fetch_all(&w, whole, got, 8), 7);
  for (int i = 0; i < 7; i++) CU_ASSERT_EQUAL(got[i], rows[i]);
  WEFT_DeleteValue(shares);
  world_end(&w);
}

static void shares_of_a_batch_are_even_or_refused(void) {
  TF_Status *status = TF_NewStatus();
  WEFT_InputContext c = {.num_input_pipelines = 2, .input_pipeline_id = 1, .num_replicas_in_sync = 4};
  CU_ASSERT_EQUAL(WEFT_InputContextPerReplicaBatch(&c, 64, status), 16);
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_OK);
  CU_ASSERT_EQUAL(WEFT_InputContextPerReplicaBatch(&c, 62, status), -1);
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteStatus(status);
}

/* ---- parts on parameter servers ---- */

static TF_Output first_rows(TF_Graph *graph, const int64_t *dims, int num_dims, TF_DataType dtype,
                            int64_t begin, int64_t rows, void *user, TF_Status *status) {
  double values[40];
  char name[32];
  world_t *w = user;
  (void)graph, (void)dims, (void)num_dims, (void)dtype, (void)status;
  for (int i = 0; i < 2 * (int)rows; i++) values[i] = (double)(10 * begin + 5 * i);
  snprintf(name, sizeof name, "rows_from_%d", (int)begin);
  TF_Output flat = vector(w, name, values, 2 * (int)rows);
  snprintf(name, sizeof name, "shape_from_%d", (int)begin);
  int64_t shape[2] = {rows, 2};
  TF_Output to = ids(w, name, shape, 2);
  snprintf(name, sizeof name, "value_from_%d", (int)begin);
  return op2(w->graph, "Reshape", name, flat, to, w->status);
}

/* Row r of 13 is {10 r, 10 r + 5}, in 5 parts of 3, 3, 3, 2, 2 rows; devices are forgotten so that it runs
 * here. */
static void tables_in_parts_behave_as_one(void) {
  static const int64_t wanted[] = {12, 0, 3, 2, 2, 8, 9}, twice[] = {3, 12, 3};
  static const double more[] = {1, 1, 2, 2, 4, 4};
  static const int rows[] = {3, 3, 3, 2, 2};
  TF_Status *status = TF_NewStatus();
  WEFT_Cluster *cluster = WEFT_NewCluster("ps=127.0.0.1:1,127.0.0.1:2;worker=127.0.0.1:3", status);
  world_t w;
  double got[30];
  int64_t dims[2] = {13, 2};
  world_begin_with(&w, WEFT_NewParameterServerStrategy(cluster, "fixed:5", status), status);
  WEFT_VariableOptions o = {
      .name = "table", .dtype = TF_DOUBLE, .dims = dims, .num_dims = 2, .init = first_rows, .init_user = &w};
  WEFT_Variable *v = WEFT_CreateVariable(w.graph, &o, w.status);
  EXPECT_OK(&w);
  CU_ASSERT_EQUAL_FATAL(WEFT_VariableNumComponents(v), 5);
  WEFT_VariableOptions slot = {
      .name = "table/momentum", .dtype = TF_DOUBLE, .dims = dims, .num_dims = 2, .colocate_with = v};
  WEFT_Variable *m = WEFT_CreateVariable(w.graph, &slot, w.status);
  EXPECT_OK(&w);
  for (int i = 0; i < 5; i++) {
    char name[32];
    int64_t shape[2];
    snprintf(name, sizeof name, "table/part_%d", i);
    CU_ASSERT_STRING_EQUAL(TF_OperationName(WEFT_VariableComponent(v, i).oper), name);
    CU_ASSERT_STRING_EQUAL(WEFT_VariableDevice(v, i), i % 2 == 0 ? "/job:ps/replica:0/task:0/device:CPU:0"
                                                                 : "/job:ps/replica:0/task:1/device:CPU:0");
    CU_ASSERT_STRING_EQUAL(WEFT_VariableDevice(m, i), WEFT_VariableDevice(v, i));
    TF_OperationGetAttrShape(WEFT_VariableComponent(m, i).oper, "shape", shape, 2, w.status);
    CU_ASSERT_EQUAL(shape[0], rows[i]);
  }
  TF_Output table_ids = ids(&w, "wanted", wanted, 7);
  TF_Output gathered = WEFT_GatherRows(w.graph, v, table_ids, w.status),
            whole = WEFT_ReadVariable(w.graph, v, w.status);
  TF_Operation *add =
      WEFT_ScatterAddRows(w.graph, v, ids(&w, "twice", twice, 3), vector(&w, "more", more, 6), w.status);
  EXPECT_OK(&w);
  TF_Operation *init = WEFT_Initializer(w.graph, w.status);
  size_t at = 0;
  for (TF_Operation *op; (op = TF_GraphNextOperation(w.graph, &at)) != NULL;)
    TF_SetRequestedDevice(w.graph, op, "");
  run_target(&w, init);
  CU_ASSERT_EQUAL(fetch_all(&w, gathered, got, 30), 14);
  for (int i = 0; i < 7; i++) {
    CU_ASSERT_EQUAL(got[2 * i], 10.0 * (double)wanted[i]);
    CU_ASSERT_EQUAL(got[2 * i + 1], 10.0 * (double)wanted[i] + 5);
  }
  run_target(&w, add);
  CU_ASSERT_EQUAL(fetch_all(&w, whole, got, 30), 26);
  CU_ASSERT_EQUAL(got[6], 30 + 1 + 4);
  CU_ASSERT_EQUAL(got[24], 120 + 2);
  CU_ASSERT_EQUAL(got[0], 0);
  world_end(&w);
  WEFT_DeleteCluster(cluster);
}

/* T-PS2-5: what is made outside of the scope is whole and on no server: it stays with the session's own
 * task. */
static void a_variable_outside_of_the_scope_is_no_servers(void) {
  TF_Status *status = TF_NewStatus();
  WEFT_Cluster *cluster = WEFT_NewCluster("ps=127.0.0.1:1,127.0.0.1:2;worker=127.0.0.1:3", status);
  world_t w;
  int64_t dims[2] = {13, 2};
  world_begin_with(&w, WEFT_NewParameterServerStrategy(cluster, "fixed:5", status), status);
  WEFT_VariableOptions o = {.name = "outside", .dtype = TF_DOUBLE, .dims = dims, .num_dims = 2};
  WEFT_ScopeExit(w.strategy, w.graph, w.status);
  WEFT_Variable *v = WEFT_CreateVariable(w.graph, &o, w.status);
  EXPECT_OK(&w);
  CU_ASSERT_EQUAL(WEFT_VariableNumComponents(v), 1);
  CU_ASSERT_STRING_EQUAL(WEFT_VariableDevice(v, 0), "");
  WEFT_ScopeEnter(w.strategy, w.graph, w.status);
  o.name = "inside";
  v = WEFT_CreateVariable(w.graph, &o, w.status);
  EXPECT_OK(&w);
  CU_ASSERT_EQUAL(WEFT_VariableNumComponents(v), 5);
  world_end(&w);
  WEFT_DeleteCluster(cluster);
}

/* ---- memory ---- */

static TF_Output kilobytes(TF_Graph *graph, const int64_t *dims, int num_dims, TF_DataType dtype,
                           int64_t begin, int64_t rows, void *user, TF_Status *status) {
  static double values[512];
  (void)dims, (void)num_dims, (void)dtype, (void)begin, (void)rows;
  TF_OperationDescription *d = TF_NewOperation(graph, "PlaceholderWithDefault", "given"); /* is not folded */
  TF_AddInput(d, vector(user, "value", values, 512));
  TF_SetAttrShape(d, "shape", (const int64_t[]){512}, 1);
  const TF_Output value = {TF_FinishOperation(d, status), 0};
  return op2(graph, "AddV2", "computed", value, value, status);
}

static void a_traced_step_tells_what_memory_is_for(void) {
  static const char trace[] = {8, 3}; /* RunOptions.trace_level: FULL_TRACE */
  world_t w;
  int64_t dims[1] = {512};
  world_begin(&w, 1);
  WEFT_VariableOptions o = {
      .name = "v", .dtype = TF_DOUBLE, .dims = dims, .num_dims = 1, .init = kilobytes, .init_user = &w};
  WEFT_Variable *v = WEFT_CreateVariable(w.graph, &o, w.status);
  TF_Output read = WEFT_ReadVariable(w.graph, v, w.status),
            sum = op2(w.graph, "Mul", "sum", read, read, w.status);
  EXPECT_OK(&w);
  run_target(&w, WEFT_Initializer(w.graph, w.status));
  TF_Buffer *options = TF_NewBufferFromString(trace, sizeof trace), *metadata = TF_NewBuffer();
  TF_Tensor *out = NULL;
  TF_SessionRun(w.session, options, NULL, NULL, 0, &sum, &out, 1, NULL, 0, metadata, w.status);
  EXPECT_OK(&w);
  WEFT_MemoryUse param, activation, stash;
  const char *device = "/job:localhost/replica:0/task:0/device:CPU:0";
  CU_ASSERT_EQUAL(WEFT_StepMemory(metadata, device, "param", &param), 1);
  CU_ASSERT_EQUAL(param.in_use, 4096);
  CU_ASSERT_EQUAL(param.high_water, 4096);
  CU_ASSERT_EQUAL(WEFT_StepMemory(metadata, device, "activation", &activation), 1);
  CU_ASSERT_TRUE(activation.high_water >= 4096);
  CU_ASSERT_EQUAL(WEFT_StepMemory(metadata, device, "stash", &stash), 0);
  TF_DeleteTensor(out);
  TF_DeleteBuffer(options);
  TF_DeleteBuffer(metadata);
  world_end(&w);
}

/* ---- rewriting ---- */

static void unknown_strategies_are_told(void) {
  TF_Status *status = TF_NewStatus();
  TF_Buffer *nothing = TF_NewBufferFromString("", 0);
  WEFT_RewriteNames names = {0};
  CU_ASSERT_PTR_NULL(WEFT_RewriteGraph(nothing, "sideways:2", NULL, 1, &names, status));
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_NOT_FOUND);
  CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(status), "sideways"));
  CU_ASSERT_PTR_NULL(WEFT_RewriteGraph(nothing, NULL, NULL, 1, NULL, status));
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_NOT_FOUND);
  CU_ASSERT_PTR_NULL(WEFT_RewriteGraph(NULL, "mirrored:2", NULL, 1, NULL, status));
  CU_ASSERT_EQUAL(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteBuffer(nothing);
  TF_DeleteStatus(status);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"merges see all replicas and replicas go on", merges_see_all_replicas_and_replicas_go_on},
      {"replicas that merge differently are refused", replicas_that_merge_differently_are_refused},
      {"a failure of a replica is told", a_failure_of_a_replica_is_told},
      {"gradients are reduced in packs", gradients_are_reduced_in_packs},
      {"a variable of a replica is made once and found again",
       a_variable_of_a_replica_is_made_once_and_found_again},
      {"creators have a say", creators_have_a_say},
      {"scopes nest and exclude each other", scopes_nest_and_exclude_each_other},
      {"values are reduced and gathered", values_are_reduced_and_gathered},
      {"shares of a batch are even or refused", shares_of_a_batch_are_even_or_refused},
      {"tables in parts behave as one", tables_in_parts_behave_as_one},
      {"a variable outside of the scope is no server's", a_variable_outside_of_the_scope_is_no_servers},
      {"a traced step tells what memory is for", a_traced_step_tells_what_memory_is_for},
      {"unknown strategies are told", unknown_strategies_are_told},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("running replicas", tests);
}
