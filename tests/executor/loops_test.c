/* Whole graphs of nested conditionals and loops, with real kernels: Weft computes what TensorFlow computed.
 */
#include <stdio.h>

#include "executor/executor.h"
#include "graph/graph_proto.h"
#include "tests/device/test_devices.h"
#include "tests/runner.h"

#define FOLDER "tests/executor/testdata/"

enum { MAX_OUTPUTS = 8, MAX_GRAPH = 1 << 17, RUNS = 6, THREADS = 3 };

typedef struct machine {
  weft_thread_pool_t *pool;
  weft_resource_manager_t *resources;
  test_devices_t devices;
} machine_t;

static void machine_init(machine_t *m) {
  CU_ASSERT_PTR_NULL_FATAL(weft_thread_pool_create("test", THREADS, &m->pool));
  CU_ASSERT_PTR_NULL_FATAL(weft_resource_manager_create(&m->resources));
  test_devices_init(&m->devices, m->pool, m->resources);
}

static void machine_deinit(machine_t *m) {
  weft_thread_pool_destroy(m->pool);
  test_devices_deinit(&m->devices);
  weft_resource_manager_destroy(m->resources);
}

static weft_status_t *add_result(weft_graph_t *g, weft_str_t output, int index) {
  weft_str_t name;
  int k = 0;
  char text[32];
  weft_node_t *from = weft_tensor_name_parse(output, &name, &k) ? weft_graph_find(g, name) : NULL;
  if (from == NULL) return WEFT_ERROR(NOT_FOUND, "no output '%.*s'", WEFT_STR_ARGS(output));
  snprintf(text, sizeof text, "_result_%d", index);
  weft_named_attr_t attr = {WEFT_STR("index"), {.kind = WEFT_ATTR_INT, .i = index}};
  weft_node_spec_t spec = {.name = weft_str(text),
                           .op = WEFT_STR("_Retval"),
                           .inputs = &(weft_output_t){from, k},
                           .num_inputs = 1,
                           .attrs = &attr,
                           .num_attrs = 1};
  weft_node_t *node = NULL;
  return weft_graph_add(g, &spec, &node);
}

/* A line "file output=value ...". */
typedef struct expected {
  char *file;
  weft_str_t outputs[MAX_OUTPUTS];
  int64_t values[MAX_OUTPUTS];
  int n;
} expected_t;

static expected_t parse(char *line) {
  expected_t e = {.file = line};
  line[strcspn(line, "\n")] = '\0';
  weft_str_t rest = weft_str(line), word;
  CU_ASSERT_TRUE_FATAL(weft_str_split(rest, ' ', &word, &rest));
  line[word.length] = '\0';
  while (rest.length > 0 && e.n < MAX_OUTPUTS) {
    weft_str_t value, tail = WEFT_STR("");
    if (weft_str_split(rest, ' ', &word, &tail)) rest = word;
    CU_ASSERT_TRUE_FATAL(weft_str_split(rest, '=', &e.outputs[e.n], &value));
    CU_ASSERT_TRUE_FATAL(weft_str_to_i64(value, &e.values[e.n]));
    e.n++;
    rest = tail;
  }
  return e;
}

static weft_status_t *load(const expected_t *e, machine_t *m, weft_exec_plan_t **out) {
  char path[256];
  char *bytes = weft_calloc(1, MAX_GRAPH);
  weft_graph_t *g = NULL;
  snprintf(path, sizeof path, FOLDER "%s", e->file);
  FILE *f = fopen(path, "rb");
  size_t length = f == NULL || bytes == NULL ? 0 : fread(bytes, 1, MAX_GRAPH, f);
  if (f != NULL) fclose(f);
  weft_status_t *s = length == 0 ? WEFT_ERROR(NOT_FOUND, "cannot read %s", path) : weft_graph_create(&g);
  if (s == NULL)
    s = weft_graph_import(g, weft_str_of(bytes, length), &(weft_import_options_t){.is_extend = false});
  for (int i = 0; s == NULL && i < e->n; i++) s = add_result(g, e->outputs[i], i);
  if (s == NULL) {
    test_devices_place(&m->devices, g, NULL);
    s = weft_plan_create(g,
                         &(weft_plan_options_t){.device = m->devices.all[0],
                                                .devices = m->devices.all,
                                                .num_devices = m->devices.n,
                                                .session = WEFT_STR("")},
                         out);
  }
  weft_graph_destroy(g);
  weft_free(bytes);
  return s;
}

static void run(weft_exec_plan_t *p, const expected_t *e, bool on_pool) {
  weft_tensor_t *results[MAX_OUTPUTS] = {NULL};
  weft_run_options_t o = {.step = {.id = 1, .results = results, .num_results = MAX_OUTPUTS},
                          .run_inline = !on_pool};
  weft_status_t *s = weft_plan_run_sync(p, &o);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "");
  weft_status_free(s);
  for (int i = 0; i < e->n; i++) {
    CU_ASSERT_PTR_NOT_NULL(results[i]);
    if (results[i] != NULL) CU_ASSERT_EQUAL(*(const int32_t *)results[i]->data, e->values[i]);
    weft_tensor_release(results[i]);
  }
}

static void graphs_compute_what_tensorflow_computes(void) {
  machine_t m;
  char line[1024];
  int graphs = 0;
  machine_init(&m);
  FILE *f = fopen(FOLDER "expected.txt", "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  while (fgets(line, sizeof line, f) != NULL) {
    if (line[0] == '#') continue;
    expected_t e = parse(line);
    weft_exec_plan_t *p = NULL;
    weft_status_t *s = load(&e, &m, &p);
    CU_ASSERT_STRING_EQUAL(weft_status_message(s), "");
    for (int i = 0; s == NULL && i < RUNS; i++) run(p, &e, i % 2 == 0);
    weft_plan_release(p);
    weft_status_free(s);
    graphs++;
  }
  fclose(f);
  CU_ASSERT_TRUE(graphs >= 20);
  machine_deinit(&m);
}

static const CU_TestInfo tests[] = {
    {"graphs compute what TensorFlow computes", graphs_compute_what_tensorflow_computes},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("loops", tests); }
