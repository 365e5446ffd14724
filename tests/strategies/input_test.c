/* tests/strategies/input_test.c - which iterators each task reads for itself, and what the rewrite makes of
 * them. */
#include <stdio.h>

#include "graph/passes.h"
#include "strategies/strategy.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define BATCHES                                                    \
  "attr { key: 'output_types' value { list { type: DT_FLOAT } } }" \
  "attr { key: 'output_shapes' value { list { shape { dim { size: -1 } dim { size: 4 } } } } }"
#define ROWS                                                       \
  "attr { key: 'output_types' value { list { type: DT_FLOAT } } }" \
  "attr { key: 'output_shapes' value { list { shape { dim { size: 4 } } } } }"
#define NUMBER(name, value)                                                           \
  "node { name: '" name                                                               \
  "' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } } attr { key: 'value' " \
  "value { tensor { dtype: DT_INT64 tensor_shape { } int64_val: " value " } } } }"
#define SHUFFLE(seed) \
  NUMBER("buffer", "4") NUMBER("seed", seed) NUMBER("seed2", seed)                            \
  "node { name: 'staged' op: 'ShuffleDataset' input: 'source' input: 'buffer' input: 'seed' " \
  "input: 'seed2' " ROWS " }"
/* OptionsDataset with a serialized message. */
#define OPTIONS(message)                                             \
  "node { name: 'staged' op: 'OptionsDataset' input: 'source' " ROWS \
  "attr { key: 'serialized_options' value { s: '" message "' } } }"

/* A step on batches of an iterator; %s: stages between the source and the batches, which end in 'staged'. */
static const char graph_text[] =
    "versions { producer: 1087 }"
    "node { name: 'rows' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' "
    "value { "
    "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 12 } dim { size: 4 } } float_val: 1 } } } }"
    "node { name: 'source' op: 'TensorSliceDataset' input: 'rows' " /* float [4] */
    "attr { key: 'Toutput_types' value { list { type: DT_FLOAT } } }"
    "attr { key: 'output_shapes' value { list { shape { dim { size: 4 } } } } } }"
    "%s"
    "node { name: 'size' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } } attr { key: 'value' "
    "value { "
    "tensor { dtype: DT_INT64 tensor_shape { } int64_val: 5 } } } }"
    "node { name: 'batches' op: 'BatchDataset' input: 'staged' input: 'size' " BATCHES
    " }"
    "node { name: 'iterator' op: 'IteratorV2' attr { key: 'shared_name' value { s: '' } }"
    "attr { key: 'container' value { s: '' } } " BATCHES
    " }"
    "node { name: 'data' op: 'MakeIterator' input: 'batches' input: 'iterator' }"
    "node { name: 'next' op: 'IteratorGetNext' input: 'iterator' " BATCHES
    " }"
    "node { name: 'axis' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } } attr { key: 'value' "
    "value { "
    "tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }"
    "node { name: 'mean' op: 'Mean' input: 'next' input: 'axis' attr { key: 'T' value { type: DT_FLOAT } } "
    "attr { key: 'Tidx' value { type: DT_INT32 } } }"
    "node { name: 'w' op: 'VariableV2' attr { key: 'dtype' value { type: DT_FLOAT } } "
    "attr { key: 'shape' value { shape { dim { size: 4 } } } } }"
    "node { name: 'train' op: 'AssignSub' input: 'w' input: 'mean' attr { key: 'T' value { type: DT_FLOAT } "
    "} }";

static weft_graph_t *graph_with(const char *stages) {
  char text[8192];
  snprintf(text, sizeof text, graph_text, stages);
  return weft_test_graph(text);
}

/* Three workers, of two CPUs, two and one, and a server. */
static weft_status_t *apply(const weft_graph_t *g, const char *strategy, weft_rewrite_t *out) {
  static const char *const names[] = {"/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1",
                                      "/job:worker/replica:0/task:2", "/job:ps/replica:0/task:0"};
  weft_task_devices_t tasks[4] = {{.num_cpus = 2}, {.num_cpus = 2}, {.num_cpus = 1}, {.num_cpus = 1}};
  for (int i = 0; i < 4; i++) {
    tasks[i].task = weft_str(names[i]);
    tasks[i].job = weft_str(i < 3 ? "worker" : "ps");
    tasks[i].index = i % 3;
  }
  const weft_cluster_view_t cluster = {.tasks = tasks, .num_tasks = 4};
  const weft_str_t targets[2] = {WEFT_STR("train"), WEFT_STR("found")},
                   inits[2] = {WEFT_STR("data"), WEFT_STR("fill")};
  const int n = weft_graph_find(g, targets[1]) == NULL ? 1 : 2; /* with a table, or without */
  const weft_strategy_request_t request = {
      .graph = g, .cluster = &cluster, .targets = {targets, n}, .inits = {inits, n}};
  return weft_strategy_apply(weft_str(strategy), &request, out);
}

static bool has_note(const weft_rewrite_t *r, const char *text) {
  for (int i = 0; i < r->num_notes; i++) {
    char note[512];
    snprintf(note, sizeof note, "%.*s", WEFT_STR_ARGS(r->notes[i]));
    if (strstr(note, text) != NULL) return true;
  }
  return false;
}

/* Do rows go from task to task? */
static bool sends_rows(const weft_rewrite_t *r) {
  for (int i = 0; i < r->num_crossings; i++) {
    const weft_crossing_t *c = &r->crossings[i];
    if (c->is_remote && (c->bytes < 0 || c->row_bytes > 0)) return true;
  }
  return false;
}

/* How many readers there are, and whether rows go from task to task. */
static void expect(const char *stages, const char *strategy, int num_readers, const char *note) {
  weft_graph_t *g = graph_with(stages);
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  weft_test_expect(apply(g, strategy, &r), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_test_count(r.graph, "IteratorGetNext"), num_readers);
  CU_ASSERT_EQUAL(weft_test_count(r.graph, "AutoShardDataset"), num_readers > 1 ? num_readers : 0);
  CU_ASSERT_EQUAL(weft_test_count(r.graph, "MakeIterator"), num_readers);
  CU_ASSERT(note == NULL || has_note(&r, note));
  CU_ASSERT(num_readers == 1 || !sends_rows(&r));
  weft_rewrite_deinit(&r);
  weft_graph_destroy(g);
}

#define PLAIN \
  "node { name: 'staged' op: 'PrefetchDataset' input: 'source' input: 'ahead' " ROWS " }" NUMBER("ahead", "2")

static void each_task_reads_for_itself(void) {
  expect(PLAIN, "multi_worker_mirrored:3,per_worker=1", 3,
         "'next' reads on each of 3 tasks: its rows of each batch");
  expect(PLAIN, "multi_worker_mirrored:2", 2, "'next' reads on each of 2 tasks: its rows of each batch");
  expect(PLAIN, "parameter_server:mode=sync", 3, "reads on each of 3 tasks");
  expect(SHUFFLE("3"), "multi_worker_mirrored:2", 2, "its rows of each batch");
  expect(PLAIN, "multi_worker_mirrored:2,input=sharded", 2, "its own files");
  expect(SHUFFLE("0"), "multi_worker_mirrored:2,input=sharded", 2,
         "may differ: 'staged' (ShuffleDataset) has no seed");
  expect(OPTIONS("\\022\\002\\010\\001"), "multi_worker_mirrored:2", 2, "its own files"); /* FILE */
  expect(OPTIONS("\\022\\002\\010\\002"), "multi_worker_mirrored:2,input=sharded", 2,
         "its rows of each batch"); /* DATA */
}

static void one_device_reads_for_all(void) {
  expect(PLAIN, "mirrored:2", 1, NULL);
  expect(PLAIN, "multi_worker_mirrored:2,input=split", 1, NULL);
  expect(PLAIN, "parameter_server:mode=sync,input=split", 1, NULL);
  expect(PLAIN, "multi_worker_mirrored", 1, "tasks have different numbers of replicas");
  expect(SHUFFLE("0"), "multi_worker_mirrored:2", 1, "'staged' (ShuffleDataset) has no seed");
  expect(OPTIONS("\\010\\000"), "multi_worker_mirrored:2", 1, "leaves the order open");
  expect(OPTIONS("\\022\\013\\010\\377\\377\\377\\377\\377\\377\\377\\377\\377\\001"),
         "multi_worker_mirrored:2,input=sharded", 1, "the options of the data set say so"); /* OFF */
}

/* Copies lie on their tasks, are told which part is theirs, and begin with the one of the request. */
static void copies_are_on_their_tasks(void) {
  weft_graph_t *g = graph_with(PLAIN);
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  weft_test_expect(apply(g, "multi_worker_mirrored:2", &r), WEFT_OK, "");
  const weft_node_t *first = weft_test_node(r.graph, "data"),
                    *second = weft_test_node(r.graph, "weft/input_1/data");
  CU_ASSERT(weft_str_starts_with(first->requested_device, "/job:worker/replica:0/task:0/"));
  CU_ASSERT(weft_str_starts_with(second->requested_device, "/job:worker/replica:0/task:1/"));
  CU_ASSERT(weft_test_depends(r.graph, first, second));
  CU_ASSERT(!weft_test_depends(r.graph, second, weft_test_node(r.graph, "batches")));
  const weft_node_t *const makers[2] = {first, second};
  for (int task = 0; task < 2; task++) {
    const weft_node_t *part = makers[task]->inputs[0].node;
    CU_ASSERT(weft_str_is(part->op->name, "AutoShardDataset"));
    CU_ASSERT_EQUAL(weft_node_attr_int(part, "auto_shard_policy", 0), -4);
    const weft_tensor_t *index = weft_node_attr(part->inputs[2].node, "value")->tensor;
    CU_ASSERT_EQUAL(*(const int64_t *)index->data, task);
  }
  CU_ASSERT_EQUAL(weft_test_count(r.graph, "WeftEndOfData"), 0); /* their data end together */
  weft_rewrite_deinit(&r);
  weft_test_expect(apply(g, "multi_worker_mirrored:2,input=sharded", &r), WEFT_OK, "");
  CU_ASSERT(weft_test_count(r.graph, "WeftEndOfData") > 0);
  weft_rewrite_deinit(&r);
  weft_graph_destroy(g);
}

static void a_client_of_one_worker_reads_as_its_graph_says(void) {
  weft_graph_t *g = graph_with(PLAIN);
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  weft_test_expect(apply(g, "multi_worker_mirrored:2,task=0,input=sharded", &r), WEFT_INVALID_ARGUMENT,
                   "option 'input' is for one client");
  weft_rewrite_deinit(&r);
  weft_test_expect(apply(g, "parameter_server:mode=sync,backup=1,input=sharded", &r), WEFT_INVALID_ARGUMENT,
                   "option 'input' requires workers that share each batch");
  weft_rewrite_deinit(&r);
  weft_test_expect(apply(g, "parameter_server:input=split", &r), WEFT_INVALID_ARGUMENT,
                   "option 'input' requires mode=sync");
  weft_rewrite_deinit(&r);
  weft_graph_destroy(g);
}

#define TEXTS(name, text)                                                              \
  "node { name: '" name                                                                \
  "' op: 'Const' attr { key: 'dtype' value { type: DT_STRING } } attr { key: 'value' " \
  "value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: '" text "' } } } }"
#define TEXT_TO_NUMBER(in, out) \
  "attr { key: '" in "' value { type: DT_STRING } } attr { key: '" out "' value { type: DT_INT64 } } "
/* A table of texts, filled before the steps, in which each step looks. */
#define TABLE \
  TEXTS("words", "a") NUMBER("zero", "0")                                                                 \
  "node { name: 'table' op: 'HashTableV2' " TEXT_TO_NUMBER("key_dtype", "value_dtype") " }"               \
  "node { name: 'one' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } } attr { key: 'value' "    \
  "value { tensor { dtype: DT_INT64 tensor_shape { dim { size: 1 } } int64_val: 1 } } } }"                \
  "node { name: 'into' op: 'InitializeTableV2' input: 'table' input: 'words' input: 'one' "               \
  TEXT_TO_NUMBER("Tkey", "Tval") " }"                                                                     \
  "node { name: 'fill' op: 'NoOp' input: '^into' }"                                                       \
  "node { name: 'found' op: 'LookupTableFindV2' input: 'table' input: 'words' input: 'zero' "             \
  TEXT_TO_NUMBER("Tin", "Tout") " }"

/* Is there a node of this op that takes the handle, on which one of the two initial targets waits? */
static bool is_begun(const weft_graph_t *g, const weft_node_t *handle, const char *op) {
  const weft_node_t *inits[2] = {weft_test_node(g, "data"), weft_test_node(g, "fill")};
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    if (n == NULL || !weft_str_is(n->op->name, op)) continue;
    for (int i = 0; i < n->num_inputs; i++) {
      bool runs = n == inits[0] || weft_test_depends(g, inits[0], n) || weft_test_depends(g, inits[1], n);
      if (n->inputs[i].node == handle && runs) return true;
    }
  }
  return false;
}

/* Workers with batches of their own: what each has its own of is set up, and each reads a part of the data.
 */
static void what_each_worker_has_is_set_up(void) {
  static const char *const strategies[] = {"parameter_server:mode=async",
                                           "parameter_server:mode=async,workers=1",
                                           "parameter_server:mode=ssp,workers=2",
                                           "parameter_server:mode=sync,backup=1",
                                           "parameter_server:mode=sync,backup=2,shards=fixed:2",
                                           "parameter_server:mode=sync,split=false",
                                           "parameter_server:mode=sync",
                                           "multi_worker_mirrored:2"};
  weft_graph_t *g = graph_with(PLAIN TABLE);
  for (size_t k = 0; k < sizeof strategies / sizeof *strategies; k++) {
    weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
    int num_tables = 0, num_iterators = 0;
    weft_test_expect(apply(g, strategies[k], &r), WEFT_OK, "");
    for (int id = 0; r.graph != NULL && id < r.graph->num_nodes; id++) {
      const weft_node_t *n = r.graph->nodes[id];
      bool looks = n != NULL && weft_str_is(n->op->name, "LookupTableFindV2"),
           reads = n != NULL && weft_str_is(n->op->name, "IteratorGetNext");
      num_tables += looks;
      num_iterators += reads;
      if (!looks && !reads) continue;
      bool begun = is_begun(r.graph, n->inputs[0].node, looks ? "InitializeTableV2" : "MakeIterator");
      if (!begun) fprintf(stderr, "%s: '%s' finds nothing\n", strategies[k], n->name.data);
      CU_ASSERT(begun);
    }
    CU_ASSERT(num_tables >= 1 &&
              num_iterators >= r.num_loops - (int)(strstr(strategies[k], "sync,") != NULL));
    weft_rewrite_deinit(&r);
  }
  weft_graph_destroy(g);
}

static weft_status_t *apply_and_forget(const weft_graph_t *g) {
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = apply(g, "multi_worker_mirrored:2,input=sharded", &r);
  weft_rewrite_deinit(&r);
  return s;
}

static weft_status_t *apply_backup_and_forget(const weft_graph_t *g) {
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = apply(g, "parameter_server:mode=sync,backup=1", &r);
  weft_rewrite_deinit(&r);
  return s;
}

static void running_out_of_memory_is_reported(void) {
  long n;
  weft_graph_t *g = graph_with(SHUFFLE("0"));
  WEFT_FAIL_EACH_ALLOCATION(n, s, apply_and_forget(g));
  CU_ASSERT(n > 0);
  weft_graph_destroy(g);
  g = graph_with(PLAIN TABLE);
  WEFT_FAIL_EACH_ALLOCATION(n, s, apply_backup_and_forget(g));
  CU_ASSERT(n > 0);
  weft_graph_destroy(g);
}

static const CU_TestInfo tests[] = {
    {"what each worker has is set up", what_each_worker_has_is_set_up},
    {"each task reads for itself", each_task_reads_for_itself},
    {"one device reads for all", one_device_reads_for_all},
    {"copies are on their tasks", copies_are_on_their_tasks},
    {"a client of one worker reads as its graph says", a_client_of_one_worker_reads_as_its_graph_says},
    {"running out of memory is reported", running_out_of_memory_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/input", tests); }
