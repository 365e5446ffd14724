/* tests/coordinator/rewritten_test.c - a graph that the parameter-server strategy has rewritten, through the
 * coordinator. */
#include <stdio.h>

#include "graph/graph_proto.h"
#include "strategies/strategy.h"
#include "tests/coordinator/fleet.h"
#include "tests/graph/graph_testing.h"

/* y = w * x, learned by gradient descent: as it trains on one device. */
static const char training[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }"
    "  attr { key: 'shape' value { shape { dim { size: -1 } } } } }"
    "node { name: 'y' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }"
    "  attr { key: 'shape' value { shape { dim { size: -1 } } } } }"
    "node { name: 'w' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_FLOAT } }"
    "  attr { key: 'shape' value { shape { } } } attr { key: 'shared_name' value { s: 'w' } } }"
    "node { name: 'zero' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }"
    "  attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 0 } } } }"
    "node { name: 'assign' op: 'AssignVariableOp' input: 'w' input: 'zero'"
    "  attr { key: 'dtype' value { type: DT_FLOAT } } }"
    "node { name: 'init' op: 'NoOp' input: '^assign' }"
    "node { name: 'read' op: 'ReadVariableOp' input: 'w' attr { key: 'dtype' value { type: DT_FLOAT } } }"
    "node { name: 'guess' op: 'Mul' input: 'read' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }"
    "node { name: 'error' op: 'Sub' input: 'guess' input: 'y' attr { key: 'T' value { type: DT_FLOAT } } }"
    "node { name: 'square' op: 'Square' input: 'error' attr { key: 'T' value { type: DT_FLOAT } } }"
    "node { name: 'axis' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } }"
    "  attr { key: 'value' value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 0 } } "
    "} }"
    "node { name: 'loss' op: 'Mean' input: 'square' input: 'axis' attr { key: 'T' value { type: DT_FLOAT } }"
    "  attr { key: 'Tidx' value { type: DT_INT32 } } }"
    "node { name: 'product' op: 'Mul' input: 'error' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }"
    "node { name: 'gradient' op: 'Mean' input: 'product' input: 'axis' attr { key: 'T' value { type: "
    "DT_FLOAT } }"
    "  attr { key: 'Tidx' value { type: DT_INT32 } } }"
    "node { name: 'rate' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }"
    "  attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 0.25 } } } }"
    "node { name: 'train' op: 'ResourceApplyGradientDescent' input: 'w' input: 'rate' input: 'gradient'"
    "  attr { key: 'T' value { type: DT_FLOAT } } }";

enum { WORKERS = 2, CALLS = 300, BATCH = 4 };

static weft_status_t *rewrite(weft_rewrite_t *out) {
  static const weft_str_t feeds[] = {{"x", 1}, {"y", 1}}, fetch = {"loss:0", 6}, target = {"train", 5},
                          init = {"init", 4};
  const weft_task_devices_t tasks[1 + WORKERS] = {
      {WEFT_STR("/job:ps/replica:0/task:0"), WEFT_STR("ps"), 0, 1, WEFT_STR("")},
      {WEFT_STR("/job:worker/replica:0/task:0"), WEFT_STR("worker"), 0, 1, WEFT_STR("")},
      {WEFT_STR("/job:worker/replica:0/task:1"), WEFT_STR("worker"), 1, 1, WEFT_STR("")}};
  const weft_cluster_view_t view = {.tasks = tasks, .num_tasks = 1 + WORKERS};
  weft_graph_t *g = weft_test_graph(training);
  const weft_strategy_request_t r = {.graph = g,
                                     .cluster = &view,
                                     .feeds = {feeds, 2},
                                     .fetches = {&fetch, 1},
                                     .targets = {&target, 1},
                                     .inits = {&init, 1}};
  weft_status_t *s = weft_strategy_apply(WEFT_STR("parameter_server:mode=async"), &r, out);
  weft_graph_destroy(g);
  return s;
}

/* Texts of the rewrite end nowhere in particular. */
static const char *text_of(weft_str_t s, char (*room)[128]) {
  snprintf(*room, sizeof *room, "%.*s", WEFT_STR_ARGS(s));
  return *room;
}

static void initialise(fleet_t *f, const TF_Buffer *bytes, const weft_rewrite_t *r) {
  world_t w;
  char name[128];
  world_open(&w);
  TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(w.g, bytes, o, w.s);
  ASSERT_OK(&w);
  char target[160];
  snprintf(target, sizeof target, "grpc://%s", WEFT_ClusterAddress(f->cluster, "ps", 0));
  w.target = target;
  for (int i = 0; i < r->inits.n; i++) {
    run_target(&w, TF_GraphOperationByName(w.g, text_of(r->inits.items[i], &name)));
    ASSERT_OK(&w);
  }
  TF_DeleteImportGraphDefOptions(o);
  world_close(&w);
}

static WEFT_Closure *closure_of(fleet_t *f, const TF_Buffer *bytes, const weft_rewrite_t *r) {
  char room[WORKERS][8][128];
  const char *texts[WORKERS][8];
  WEFT_ClosureNames names[WORKERS];
  CU_ASSERT_EQUAL_FATAL(r->num_loops, WORKERS);
  for (int i = 0; i < WORKERS; i++) {
    const weft_worker_loop_t *l = &r->loops[i];
    int n = 0;
    CU_ASSERT_TRUE_FATAL(l->feeds.n + l->fetches.n + l->targets.n <= 8);
    for (int k = 0; k < l->feeds.n; k++, n++) texts[i][n] = text_of(l->feeds.items[k], &room[i][n]);
    for (int k = 0; k < l->fetches.n; k++, n++) texts[i][n] = text_of(l->fetches.items[k], &room[i][n]);
    for (int k = 0; k < l->targets.n; k++, n++) texts[i][n] = text_of(l->targets.items[k], &room[i][n]);
    names[i] = (WEFT_ClosureNames){
        texts[i],    l->feeds.n, texts[i] + l->feeds.n, l->fetches.n, texts[i] + l->feeds.n + l->fetches.n,
        l->targets.n};
  }
  WEFT_Closure *c = WEFT_NewClosureFromGraphDef(f->coordinator, bytes, names, WORKERS, f->s);
  ASSERT_OK(f);
  return c;
}

static void a_rewritten_graph_trains_although_a_worker_dies(void) {
  fleet_t f;
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = rewrite(&r);
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_export(r.graph, false, &text));
  TF_Buffer *bytes = TF_NewBufferFromString(text.data, text.length);
  fleet_open(&f, 1, WORKERS);
  initialise(&f, bytes, &r);
  fleet_coordinate(&f);
  WEFT_Closure *step = closure_of(&f, bytes, &r);
  const int64_t dims[] = {BATCH};
  WEFT_RemoteValue *last = NULL;
  for (int i = 0; i < CALLS; i++) {
    float x[BATCH], y[BATCH];
    for (int k = 0; k < BATCH; k++) x[k] = (float)((i + k) % 5 - 2), y[k] = 3 * x[k];
    TF_Tensor *t[2] = {new_floats(1, dims, x), new_floats(1, dims, y)};
    const WEFT_Arg args[2] = {{.kind = WEFT_ARG_TENSOR, .tensor = t[0]},
                              {.kind = WEFT_ARG_TENSOR, .tensor = t[1]}};
    WEFT_RemoteValueRelease(last);
    last = fleet_schedule(&f, step, args, 2);
    TF_DeleteTensor(t[0]);
    TF_DeleteTensor(t[1]);
  }
  fleet_await(&f, WEFT_EVENT_CLOSURE_DONE, -1, CALLS / 4);
  fleet_kill_worker(&f, 1);
  fleet_start_worker(&f, 1);
  fleet_join(&f);
  TF_Tensor *loss = NULL;
  WEFT_Fetch(last, &loss, 1, f.s);
  ASSERT_OK(&f);
  CU_ASSERT_TRUE(float_at(loss, 0) < 1e-6f);
  CU_ASSERT_TRUE(fleet_count(&f, WEFT_EVENT_CLOSURE_DONE, 0) > 0);
  CU_ASSERT_EQUAL(fleet_count(&f, WEFT_EVENT_CLOSURE_DONE, -1), CALLS);
  TF_DeleteTensor(loss);
  WEFT_RemoteValueRelease(last);
  WEFT_DeleteClosure(step);
  TF_DeleteBuffer(bytes);
  weft_strbuf_deinit(&text);
  weft_rewrite_deinit(&r);
  fleet_close(&f);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a rewritten graph trains although a worker dies", a_rewritten_graph_trains_although_a_worker_dies},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("rewritten", tests);
}
