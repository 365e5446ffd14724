/* tests/strategies/servers.c - see the header. */
#include "tests/strategies/servers.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/graph_proto.h"
#include "tests/graph/graph_testing.h"
#include "tests/ports.h"

const char *const task_names[MOST_TASKS] = {"/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1",
                                            "/job:worker/replica:0/task:2", "/job:ps/replica:0/task:0",
                                            "/job:ps/replica:0/task:1"};

/* ---- servers ---- */

/* A field of bytes; all here are shorter than 128. */
static void put(weft_strbuf_t *b, int field, weft_str_t bytes) {
  CU_ASSERT_FATAL(bytes.length < 128);
  if (field >= 16) {
    weft_strbuf_putc(b, (char)(((field << 3 | 2) & 127) | 128));
    weft_strbuf_putc(b, (char)((field << 3 | 2) >> 7));
  } else {
    weft_strbuf_putc(b, (char)(field << 3 | 2));
  }
  weft_strbuf_putc(b, (char)bytes.length);
  weft_strbuf_append(b, bytes);
}
static void put_number(weft_strbuf_t *b, int field, int value) {
  weft_strbuf_putc(b, (char)(field << 3));
  weft_strbuf_putc(b, (char)value);
}
static weft_str_t view(const weft_strbuf_t *b) { return weft_str_of(b->data, b->length); }

/* ConfigProto: the leader of collective groups. */
static void put_config(weft_strbuf_t *config) {
  weft_strbuf_t experimental = WEFT_STRBUF_INIT;
  put(&experimental, 1, WEFT_STR("/job:worker/replica:0/task:0"));
  put(config, 16, view(&experimental));
  weft_strbuf_deinit(&experimental);
}

/* A JobDef of a cluster. */
static void put_job(weft_strbuf_t *cluster, const char *name, const int *ports, int n) {
  weft_strbuf_t job = WEFT_STRBUF_INIT;
  put(&job, 1, weft_str(name));
  for (int i = 0; i < n; i++) {
    char address[32];
    weft_strbuf_t task = WEFT_STRBUF_INIT;
    snprintf(address, sizeof address, "127.0.0.1:%d", ports[i]);
    put_number(&task, 1, i);
    put(&task, 2, weft_str(address));
    put(&job, 2, view(&task));
    weft_strbuf_deinit(&task);
  }
  put(cluster, 1, view(&job));
  weft_strbuf_deinit(&job);
}

static void serve(worker_t *w, int index, shape_t shape, const int *ports) {
  const char devices[] = {
      10, 3, 'C', 'P', 'U', 16, (char)shape.cpus}; /* an entry of ConfigProto.device_count */
  weft_strbuf_t cluster = WEFT_STRBUF_INIT, def = WEFT_STRBUF_INIT, config = WEFT_STRBUF_INIT;
  put_job(&cluster, "worker", ports, shape.workers);
  if (shape.servers > 0) put_job(&cluster, "ps", ports + shape.workers, shape.servers);
  put(&def, 1, view(&cluster));
  bool is_worker = index < shape.workers;
  put(&def, 2, weft_str(is_worker ? "worker" : "ps"));
  put_number(&def, 3, is_worker ? index : index - shape.workers);
  put_config(&config);
  put(&config, 1, weft_str_of(devices, sizeof devices));
  put(&def, 4, view(&config));
  put(&def, 5, WEFT_STR("grpc"));
  w->status = TF_NewStatus();
  w->server = TF_NewServer(def.data, def.length, w->status);
  if (TF_GetCode(w->status) != TF_OK) CU_FAIL_FATAL(TF_Message(w->status));
  TF_ServerStart(w->server, w->status);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(w->status), TF_OK);
  weft_strbuf_deinit(&cluster);
  weft_strbuf_deinit(&def);
  weft_strbuf_deinit(&config);
}

static void dismiss(worker_t *w) {
  TF_ServerStop(w->server, w->status);
  TF_ServerJoin(w->server, w->status);
  TF_DeleteServer(w->server);
  TF_DeleteStatus(w->status);
}

void serve_all(worker_t *workers, shape_t shape) {
  int ports[MOST_TASKS], n = shape.workers + shape.servers;
  CU_ASSERT_FATAL(n <= MOST_TASKS);
  memset(workers, 0, MOST_TASKS * sizeof *workers);
  for (int i = 0; i < n; i++) ports[i] = weft_test_free_port();
  for (int i = 0; i < n; i++) serve(&workers[i], i, shape, ports);
}

void dismiss_all(worker_t *workers, shape_t shape) {
  for (int i = 0; i < shape.workers + shape.servers; i++) dismiss(&workers[i]);
}

/* ---- clients ---- */

static void set_rate(weft_graph_t *g, float rate) {
  weft_attr_t value = {.kind = WEFT_ATTR_TENSOR};
  weft_node_t *n = weft_graph_find(g, WEFT_STR("train/learning_rate"));
  CU_ASSERT_PTR_NOT_NULL_FATAL(n);
  weft_test_expect(weft_tensor_scalar(WEFT_F32, &rate, &value.tensor), WEFT_OK, "");
  weft_test_expect(weft_graph_set_attr(g, n, "value", &value), WEFT_OK, "");
  weft_tensor_release(value.tensor);
}

void open_client(worker_t *w, shape_t shape, const char *graph, const char *strategy) {
  weft_task_devices_t tasks[MOST_TASKS];
  int n = shape.workers + shape.servers;
  for (int i = 0; i < n; i++) {
    bool is_worker = i < shape.workers;
    tasks[i] = (weft_task_devices_t){weft_str(task_names[is_worker ? i : MOST_WORKERS + i - shape.workers]),
                                     weft_str(is_worker ? "worker" : "ps"), is_worker ? i : i - shape.workers,
                                     shape.cpus, WEFT_STR("")};
  }
  weft_cluster_view_t cluster = {.tasks = tasks, .num_tasks = n};
  weft_str_t feeds[3] = {WEFT_STR("x"), WEFT_STR("y"), WEFT_STR("use")},
             fetches[2] = {WEFT_STR("loss:0"), WEFT_STR("logits:0")};
  weft_str_t target = WEFT_STR("train"), init = WEFT_STR("init");
  job_t *j = &w->job;
  *j = (job_t){.source = read_graph(graph), .graph = TF_NewGraph(), .status = TF_NewStatus()};
  if (w->rate != 0) set_rate(j->source, w->rate);
  int num_feeds = weft_graph_find(j->source, WEFT_STR("use")) == NULL ? 2 : 3;
  weft_strategy_request_t r = {.graph = j->source,
                               .cluster = &cluster,
                               .feeds = {feeds, num_feeds},
                               .fetches = {fetches, 2},
                               .targets = {&target, 1},
                               .inits = {&init, 1}};
  weft_test_expect(weft_strategy_apply(weft_str(strategy), &r, &j->rewrite), WEFT_OK, "");
  weft_strbuf_t bytes = WEFT_STRBUF_INIT, config = WEFT_STRBUF_INIT;
  weft_test_expect(weft_graph_export(j->rewrite.graph, false, &bytes), WEFT_OK, "");
  TF_Buffer *buffer = TF_NewBufferFromString(bytes.data, bytes.length);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(j->graph, buffer, options, j->status);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(j->status), TF_OK);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  put_config(&config);
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetTarget(o, TF_ServerTarget(w->server));
  TF_SetConfig(o, config.data, config.length, j->status);
  j->session = TF_NewSession(j->graph, o, j->status);
  if (TF_GetCode(j->status) != TF_OK) CU_FAIL_FATAL(TF_Message(j->status));
  TF_DeleteSessionOptions(o);
  weft_strbuf_deinit(&bytes);
  weft_strbuf_deinit(&config);
}

void close_client(worker_t *w) {
  TF_DeleteSession(w->job.session, w->job.status);
  TF_DeleteGraph(w->job.graph);
  TF_DeleteStatus(w->job.status);
  weft_rewrite_deinit(&w->job.rewrite);
  weft_graph_destroy(w->job.source);
}

static void *run_one(void *arg) {
  worker_t *w = arg;
  w->step.options = w->key;
  job_step(&w->job, &w->step);
  return NULL;
}

void run_all(worker_t *workers, int n) {
  for (int i = 0; i < n; i++)
    CU_ASSERT_EQUAL_FATAL(pthread_create(&workers[i].thread, NULL, run_one, &workers[i]), 0);
  for (int i = 0; i < n; i++) pthread_join(workers[i].thread, NULL);
}

void expect_all(worker_t *workers, int n) {
  for (int i = 0; i < n; i++) {
    if (TF_GetCode(workers[i].job.status) != TF_OK)
      fprintf(stderr, "worker %d: %s\n", i, TF_Message(workers[i].job.status));
  }
  for (int i = 0; i < n; i++) CU_ASSERT_EQUAL_FATAL(TF_GetCode(workers[i].job.status), TF_OK);
}

TF_Tensor *rows_of(const TF_Tensor *t, int64_t begin, int64_t end) {
  int64_t dims[2] = {end - begin, TF_NumDims(t) > 1 ? TF_Dim(t, 1) : 1};
  size_t row = TF_TensorByteSize(t) / (size_t)TF_Dim(t, 0);
  TF_Tensor *out = TF_AllocateTensor(TF_TensorType(t), dims, TF_NumDims(t), row * (size_t)(end - begin));
  memcpy(TF_TensorData(out), (const char *)TF_TensorData(t) + row * (size_t)begin,
         row * (size_t)(end - begin));
  return out;
}

const char init_key[] = "\x42\x02\x08\x01", train_key[] = "\x42\x02\x08\x02";

void initialise(worker_t *workers, int clients) {
  for (int i = 0; i < clients; i++) {
    workers[i].step = (step_t){.targets = {"init"}};
    workers[i].key = clients > 1 ? init_key : NULL;
  }
  run_all(workers, clients);
  expect_all(workers, clients);
}

void compare_all(worker_t *workers, int clients, shape_t shape) {
  const weft_graph_t *g = workers[0].job.source;
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] == NULL || (g->nodes[id]->flags & WEFT_OP_VARIABLE) == 0) continue;
    weft_str_t name = g->nodes[id]->name;
    TF_Tensor *first = NULL;
    int copies = 0;
    for (int i = 0; i < clients; i++) {
      const weft_graph_t *made = workers[i].job.rewrite.graph;
      for (int k = 0; k < made->num_nodes; k++) {
        const weft_node_t *n = made->nodes[k];
        if (n == NULL || (n->flags & WEFT_OP_VARIABLE) == 0 || !weft_str_starts_with(n->name, name.data))
          continue;
        weft_str_t rest = weft_str_of(n->name.data + name.length, n->name.length - name.length);
        if (rest.length > 0 && !weft_str_starts_with(rest, "/replica_")) continue;
        TF_Tensor *t = job_read(&workers[i].job, n->name.data);
        copies++;
        if (first == NULL) {
          first = t;
          continue;
        }
        CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(t), TF_TensorByteSize(first));
        CU_ASSERT_EQUAL(memcmp(TF_TensorData(t), TF_TensorData(first), TF_TensorByteSize(t)), 0);
        TF_DeleteTensor(t);
      }
    }
    if (first != NULL) TF_DeleteTensor(first);
    CU_ASSERT_EQUAL(copies, shape.workers * shape.cpus);
  }
}
