/* tests/strategies/training.c - see the header. */
#include "tests/strategies/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "device/device.h"
#include "tests/graph/graph_testing.h"

static void check(TF_Status *s) {
  if (TF_GetCode(s) != TF_OK) fprintf(stderr, "%s\n", TF_Message(s));
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(s), TF_OK);
}

static void need(weft_status_t *s) {
  if (s != NULL) {
    fprintf(stderr, "%s\n", weft_status_message(s));
    CU_FAIL("a call failed");
  }
  CU_ASSERT_PTR_NULL_FATAL(s);
}

weft_graph_t *read_graph(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "tests/strategies/testdata/%s.pb", name);
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  weft_strbuf_t def = WEFT_STRBUF_INIT;
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) weft_strbuf_append(&def, weft_str_of(block, n));
  fclose(f);
  weft_graph_t *g = NULL;
  need(weft_test_import(weft_str_of(def.data, def.length), &g));
  weft_strbuf_deinit(&def);
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  return g;
}

static weft_names_t names_of(const char *const *list, weft_str_t *items) {
  int n = 0;
  for (; list[n] != NULL; n++) items[n] = weft_str(list[n]);
  return (weft_names_t){items, n};
}

weft_status_t *rewrite_for(const weft_graph_t *g, const use_t *u, weft_rewrite_t *out) {
  weft_str_t feeds[MAX_NAMES], fetches[MAX_NAMES], targets[MAX_NAMES], inits[MAX_NAMES];
  weft_task_devices_t task = {
      .task = WEFT_STR("/job:localhost/replica:0/task:0"), .job = WEFT_STR("localhost"), .num_cpus = 1};
  const weft_device_driver_t *driver = weft_device_accelerator();
  if (driver != NULL) task.accelerator = weft_str(driver->type);
  if (driver != NULL) task.num_accelerators = weft_device_count(driver);
  weft_cluster_view_t cluster = {.tasks = &task, .num_tasks = 1, .num_local_cpus = 2};
  weft_strategy_request_t r = {.graph = g,
                               .cluster = &cluster,
                               .feeds = names_of(u->feeds, feeds),
                               .fetches = names_of(u->fetches, fetches),
                               .targets = names_of(u->targets, targets),
                               .inits = names_of(u->inits, inits)};
  return weft_strategy_apply(weft_str(u->strategy), &r, out);
}

/* ConfigProto {device_count: {"CPU": n}, allow_soft_placement: true}. */
static void set_cpus(TF_SessionOptions *o, int n, TF_Status *s) {
  unsigned char config[] = {0x0a, 7, 0x0a, 3, 'C', 'P', 'U', 0x10, (unsigned char)n, 0x38, 1};
  TF_SetConfig(o, config, sizeof config, s);
}

void job_open(job_t *j, const weft_graph_t *g, int num_cpus) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  need(weft_graph_export(g, false, &bytes));
  j->graph = TF_NewGraph();
  j->status = TF_NewStatus();
  TF_Buffer *buffer = TF_NewBufferFromString(bytes.data, bytes.length);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(j->graph, buffer, options, j->status);
  check(j->status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  weft_strbuf_deinit(&bytes);
  TF_SessionOptions *session_options = TF_NewSessionOptions();
  set_cpus(session_options, num_cpus > 0 ? num_cpus : 1, j->status);
  check(j->status);
  j->session = TF_NewSession(j->graph, session_options, j->status);
  check(j->status);
  TF_DeleteSessionOptions(session_options);
}

job_t *job_start(const use_t *u) {
  job_t *j = weft_calloc(1, sizeof *j);
  CU_ASSERT_PTR_NOT_NULL_FATAL(j);
  j->source = read_graph(u->graph);
  if (u->edit != NULL) u->edit(j->source);
  j->rewrite.arena = (weft_arena_t)WEFT_ARENA_INIT;
  if (u->strategy != NULL) need(rewrite_for(j->source, u, &j->rewrite));
  job_open(j, u->strategy != NULL ? j->rewrite.graph : j->source, j->rewrite.num_local_cpus);
  for (int i = 0; u->strategy != NULL && i < j->rewrite.inits.n; i++) {
    step_t init = {.targets = {j->rewrite.inits.items[i].data}};
    job_step(j, &init);
    check(j->status);
  }
  for (int i = 0; u->strategy == NULL && u->inits[i] != NULL; i++) {
    step_t init = {.targets = {u->inits[i]}};
    job_step(j, &init);
    check(j->status);
  }
  return j;
}

void job_end(job_t *j) {
  TF_DeleteSession(j->session, j->status);
  TF_DeleteGraph(j->graph);
  TF_DeleteStatus(j->status);
  weft_rewrite_deinit(&j->rewrite);
  weft_graph_destroy(j->source);
  weft_free(j);
}

static TF_Output find(job_t *j, const char *name) {
  char node[256];
  snprintf(node, sizeof node, "%s", name);
  char *colon = strchr(node, ':');
  int index = colon == NULL ? 0 : atoi(colon + 1);
  if (colon != NULL) *colon = '\0';
  TF_Output o = {TF_GraphOperationByName(j->graph, node), index};
  if (o.oper == NULL) fprintf(stderr, "no node %s\n", node);
  CU_ASSERT_PTR_NOT_NULL_FATAL(o.oper);
  return o;
}

void job_step(job_t *j, step_t *s) {
  TF_Output feeds[MAX_NAMES], fetches[MAX_NAMES];
  const TF_Operation *targets[MAX_NAMES];
  int num_feeds = 0, num_fetches = 0, num_targets = 0;
  for (; s->feeds[num_feeds] != NULL; num_feeds++) feeds[num_feeds] = find(j, s->feeds[num_feeds]);
  for (; s->fetches[num_fetches] != NULL; num_fetches++)
    fetches[num_fetches] = find(j, s->fetches[num_fetches]);
  for (; s->targets[num_targets] != NULL; num_targets++)
    targets[num_targets] = find(j, s->targets[num_targets]).oper;
  memset(s->results, 0, sizeof s->results);
  TF_Buffer options = {.data = s->options, .length = s->options == NULL ? 0 : strlen(s->options)};
  TF_SessionRun(j->session, s->options == NULL ? NULL : &options, feeds, s->values, num_feeds, fetches,
                s->results, num_fetches, targets, num_targets, NULL, j->status);
}

void step_end(step_t *s) {
  for (int i = 0; i < MAX_NAMES; i++) {
    if (s->values[i] != NULL) TF_DeleteTensor(s->values[i]);
    if (s->results[i] != NULL) TF_DeleteTensor(s->results[i]);
    s->values[i] = s->results[i] = NULL;
  }
}

double number_of(const TF_Tensor *t) {
  const void *data = TF_TensorData(t);
  switch (TF_TensorType(t)) {
    case TF_FLOAT: return (double)*(const float *)data;
    case TF_DOUBLE: return *(const double *)data;
    case TF_INT32: return *(const int32_t *)data;
    case TF_INT64: return (double)*(const int64_t *)data;
    default: CU_FAIL("a type that tests do not know"); return 0;
  }
}

int count_nodes(const weft_graph_t *g, const char *op) { return weft_test_count(g, op); }

static double next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / 9007199254740992.0;
}

TF_Tensor *random_floats(uint64_t *state, TF_DataType type, int64_t rows, int64_t columns) {
  int64_t dims[2] = {rows, columns}, count = rows * (columns > 0 ? columns : 1);
  TF_Tensor *t = TF_AllocateTensor(type, dims, columns > 0 ? 2 : 1, (size_t)count * TF_DataTypeSize(type));
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  for (int64_t i = 0; i < count; i++) {
    double x = next(state) * 2 - 1;
    if (type == TF_FLOAT) {
      ((float *)TF_TensorData(t))[i] = (float)x;
    } else {
      ((double *)TF_TensorData(t))[i] = x;
    }
  }
  return t;
}

TF_Tensor *random_ints(uint64_t *state, int64_t rows, int below) {
  TF_Tensor *t = TF_AllocateTensor(TF_INT32, &rows, 1, (size_t)rows * sizeof(int32_t));
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  for (int64_t i = 0; i < rows; i++) ((int32_t *)TF_TensorData(t))[i] = (int32_t)(next(state) * below);
  return t;
}

/* ---- training beside one device ---- */

static const use_t classifier = {.feeds = {"x", "y"},
                                 .fetches = {"loss:0", "logits:0", "summaries:0"},
                                 .targets = {"train"},
                                 .inits = {"init", "saver/restore_all"}};

use_t use_of(const char *graph, const char *strategy) {
  use_t u = classifier;
  u.graph = graph;
  u.strategy = strategy;
  return u;
}

step_t next_step(const run_t *k, uint64_t *state, int i) {
  int64_t rows = i % 4 == 3 ? k->last_rows : k->rows;
  step_t s = {.feeds = {"x", "y"}, .fetches = {"loss:0", "logits:0"}, .targets = {"train"}};
  s.values[0] = k->type == TF_INT32 ? random_ints(state, rows, k->columns)
                                    : random_floats(state, k->type, rows, k->columns);
  s.values[1] = random_ints(state, rows, k->classes);
  return s;
}

static double largest_difference(const TF_Tensor *a, const TF_Tensor *b) {
  double most = 0;
  CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(a), TF_TensorByteSize(b));
  for (int64_t i = 0; i < TF_TensorElementCount(a); i++) {
    double x = TF_TensorType(a) == TF_FLOAT ? (double)((const float *)TF_TensorData(a))[i]
                                            : ((const double *)TF_TensorData(a))[i];
    double y = TF_TensorType(b) == TF_FLOAT ? (double)((const float *)TF_TensorData(b))[i]
                                            : ((const double *)TF_TensorData(b))[i];
    double d = fabs(x - y) / (1 + fabs(x));
    if (!(d <= most)) most = d;
  }
  return most;
}

enum { MOST_COPIES = 256 };

/* The output that gives a variable's value, by the name of its node; a read of a resource is added once. */
static TF_Output reader_of(job_t *j, const char *variable) {
  char name[256];
  TF_Output v = find(j, variable);
  if (strcmp(TF_OperationOpType(v.oper), "VarHandleOp") != 0) return v;
  snprintf(name, sizeof name, "read_for_test/%s", variable);
  if (TF_GraphOperationByName(j->graph, name) == NULL) {
    TF_DataType type;
    TF_OperationGetAttrType(v.oper, "dtype", &type, j->status);
    TF_OperationDescription *d = TF_NewOperation(j->graph, "ReadVariableOp", name);
    TF_AddInput(d, v);
    TF_SetAttrType(d, "dtype", type);
    TF_FinishOperation(d, j->status);
    check(j->status);
  }
  return find(j, name);
}

TF_Tensor *job_read(job_t *j, const char *variable) {
  TF_Output from = reader_of(j, variable);
  TF_Tensor *value = NULL;
  TF_SessionRun(j->session, NULL, NULL, NULL, 0, &from, &value, 1, NULL, 0, NULL, j->status);
  check(j->status);
  return value;
}

/* All are read in one step. */
void compare_copies(job_t *j) {
  TF_Output from[2 * MOST_COPIES]; /* first copy, another one, first copy, ... */
  TF_Tensor *values[2 * MOST_COPIES];
  int n = 0;
  for (int id = 0; id < j->rewrite.graph->num_nodes; id++) {
    const weft_node_t *v = j->rewrite.graph->nodes[id];
    ptrdiff_t at = v == NULL ? -1 : weft_str_rfind(v->name, '/');
    if (v == NULL || (v->flags & WEFT_OP_VARIABLE) == 0 || at < 0) continue;
    if (!weft_str_starts_with(weft_str_of(v->name.data + at, v->name.length - (size_t)at), "/replica_"))
      continue;
    char first[256];
    snprintf(first, sizeof first, "%.*s", (int)at, v->name.data);
    CU_ASSERT_FATAL(n + 2 <= 2 * MOST_COPIES);
    from[n++] = reader_of(j, first);
    from[n++] = reader_of(j, v->name.data);
  }
  CU_ASSERT(n > 0 || count_nodes(j->rewrite.graph, "CollectiveReduceV2") == 0);
  if (n == 0) return;
  TF_SessionRun(j->session, NULL, NULL, NULL, 0, from, values, n, NULL, 0, NULL, j->status);
  check(j->status);
  for (int i = 0; i < n; i += 2) {
    CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(values[i]), TF_TensorByteSize(values[i + 1]));
    CU_ASSERT_EQUAL(
        memcmp(TF_TensorData(values[i]), TF_TensorData(values[i + 1]), TF_TensorByteSize(values[i])), 0);
    TF_DeleteTensor(values[i]);
    TF_DeleteTensor(values[i + 1]);
  }
}

void train_beside_one_device(const run_t *k) {
  use_t alone = use_of(k->graph, NULL), together = use_of(k->graph, k->strategy);
  alone.inits[1] = together.inits[1] = NULL;
  job_t *one = job_start(&alone), *many = job_start(&together);
  uint64_t a = 7, b = 7;
  double worst = 0, worst_logits = 0, first = 0, last = 0;
  compare_copies(many);
  /* A device of tests (tests/device/late) is late at each piece of work: it trains for a tenth of the time.
   */
  const int num_steps = weft_device_accelerator() == NULL ? k->steps : k->steps / 10 + 1;
  for (int i = 0; i < num_steps; i++) {
    step_t s = next_step(k, &a, i), t = next_step(k, &b, i);
    job_step(one, &s);
    job_step(many, &t);
    if (TF_GetCode(one->status) != TF_OK) CU_FAIL_FATAL(TF_Message(one->status));
    if (TF_GetCode(many->status) != TF_OK)
      fprintf(stderr, "%s %s: %s\n", k->graph, k->strategy, TF_Message(many->status));
    CU_ASSERT_EQUAL_FATAL(TF_GetCode(many->status), TF_OK);
    double x = number_of(s.results[0]), y = number_of(t.results[0]), d = fabs(x - y) / fabs(x);
    if (!(d <= worst)) worst = d;
    double e = largest_difference(s.results[1], t.results[1]);
    if (!(e <= worst_logits)) worst_logits = e;
    if (i == 0) first = x;
    last = x;
    step_end(&s);
    step_end(&t);
    compare_copies(many);
  }
  if (getenv("SHOW") != NULL || !(worst <= k->tolerance))
    fprintf(stderr, "%s %s: loss differs by %g, logits by %g\n", k->graph, k->strategy, worst, worst_logits);
  CU_ASSERT(worst <= k->tolerance);
  CU_ASSERT(worst_logits <= k->tolerance * 100);
  CU_ASSERT(last != first);
  TF_Tensor *steps = job_read(many, "global_step");
  CU_ASSERT_EQUAL((int)number_of(steps), num_steps);
  TF_DeleteTensor(steps);
  job_end(one);
  job_end(many);
}
