/* tests/strategies/multi_worker_test.c - servers in this process, one client each or one for all: T-MWM-1, T-MWM-2. */
#define _GNU_SOURCE /* sockets */
#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "graph/graph_proto.h"
#include "tests/graph/graph_testing.h"
#include "tests/strategies/training.h"

enum { WORKERS = 2 };

typedef struct worker {
  TF_Server *server;
  TF_Status *status;
  job_t job;
  pthread_t thread;
  const char *key; /* RunOptions {experimental {collective_graph_key}}: the same for steps that go together */
  step_t step;
} worker_t;

/* ---- servers ---- */

static int free_port(void) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof a;
  int s = socket(AF_INET, SOCK_STREAM, 0);
  CU_ASSERT_FATAL(s >= 0 && bind(s, (struct sockaddr *)&a, sizeof a) == 0 && getsockname(s, (struct sockaddr *)&a, &length) == 0);
  close(s);
  return ntohs(a.sin_port);
}

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

/* ConfigProto: who leads groups. */
static void put_config(weft_strbuf_t *config) {
  weft_strbuf_t experimental = WEFT_STRBUF_INIT;
  put(&experimental, 1, WEFT_STR("/job:worker/replica:0/task:0"));
  put(config, 16, view(&experimental));
  weft_strbuf_deinit(&experimental);
}

static void serve(worker_t *w, int index, const int *ports) {
  weft_strbuf_t job = WEFT_STRBUF_INIT, cluster = WEFT_STRBUF_INIT, def = WEFT_STRBUF_INIT, config = WEFT_STRBUF_INIT;
  put(&job, 1, WEFT_STR("worker"));
  for (int i = 0; i < WORKERS; i++) {
    char address[32];
    weft_strbuf_t task = WEFT_STRBUF_INIT;
    snprintf(address, sizeof address, "127.0.0.1:%d", ports[i]);
    put_number(&task, 1, i);
    put(&task, 2, weft_str(address));
    put(&job, 2, view(&task));
    weft_strbuf_deinit(&task);
  }
  put(&cluster, 1, view(&job));
  put(&def, 1, view(&cluster));
  put(&def, 2, WEFT_STR("worker"));
  put_number(&def, 3, index);
  put_config(&config);
  put(&def, 4, view(&config));
  put(&def, 5, WEFT_STR("grpc"));
  w->status = TF_NewStatus();
  w->server = TF_NewServer(def.data, def.length, w->status);
  if (TF_GetCode(w->status) != TF_OK) CU_FAIL_FATAL(TF_Message(w->status));
  TF_ServerStart(w->server, w->status);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(w->status), TF_OK);
  weft_strbuf_deinit(&job);
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

/* ---- clients ---- */

static void open_client(worker_t *w, const char *graph, const char *strategy) {
  weft_task_devices_t tasks[WORKERS] = {{WEFT_STR("/job:worker/replica:0/task:0"), WEFT_STR("worker"), 0, 1, WEFT_STR("")},
                                        {WEFT_STR("/job:worker/replica:0/task:1"), WEFT_STR("worker"), 1, 1, WEFT_STR("")}};
  weft_cluster_view_t cluster = {.tasks = tasks, .num_tasks = WORKERS};
  weft_str_t feeds[2] = {WEFT_STR("x"), WEFT_STR("y")}, fetches[2] = {WEFT_STR("loss:0"), WEFT_STR("logits:0")};
  weft_str_t target = WEFT_STR("train"), init = WEFT_STR("init");
  job_t *j = &w->job;
  *j = (job_t){.source = read_graph(graph), .graph = TF_NewGraph(), .status = TF_NewStatus()};
  weft_strategy_request_t r = {.graph = j->source, .cluster = &cluster, .feeds = {feeds, 2}, .fetches = {fetches, 2},
                               .targets = {&target, 1}, .inits = {&init, 1}};
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

static void close_client(worker_t *w) {
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

/* A step of all clients at once. */
static void run_all(worker_t *workers, int n) {
  for (int i = 0; i < n; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&workers[i].thread, NULL, run_one, &workers[i]), 0);
  for (int i = 0; i < n; i++) pthread_join(workers[i].thread, NULL);
}

static void expect_all(worker_t *workers, int n) {
  for (int i = 0; i < n; i++) {
    if (TF_GetCode(workers[i].job.status) != TF_OK) fprintf(stderr, "worker %d: %s\n", i, TF_Message(workers[i].job.status));
    CU_ASSERT_EQUAL_FATAL(TF_GetCode(workers[i].job.status), TF_OK);
  }
}

static TF_Tensor *rows_of(const TF_Tensor *t, int64_t begin, int64_t end) {
  int64_t dims[2] = {end - begin, TF_NumDims(t) > 1 ? TF_Dim(t, 1) : 1};
  size_t row = TF_TensorByteSize(t) / (size_t)TF_Dim(t, 0);
  TF_Tensor *out = TF_AllocateTensor(TF_TensorType(t), dims, TF_NumDims(t), row * (size_t)(end - begin));
  memcpy(TF_TensorData(out), (const char *)TF_TensorData(t) + row * (size_t)begin, row * (size_t)(end - begin));
  return out;
}

/* ---- tests ---- */

static void train(const char *graph, TF_DataType type, int columns, int classes, double tolerance, bool between) {
  int ports[WORKERS], clients = between ? WORKERS : 1;
  worker_t workers[WORKERS];
  memset(workers, 0, sizeof workers);
  for (int i = 0; i < WORKERS; i++) ports[i] = free_port();
  for (int i = 0; i < WORKERS; i++) serve(&workers[i], i, ports);
  use_t alone = use_of(graph, NULL);
  alone.inits[1] = NULL;
  job_t *one = job_start(&alone);
  for (int i = 0; i < clients; i++) {
    char strategy[64];
    snprintf(strategy, sizeof strategy, between ? "multi_worker_mirrored:task=%d" : "multi_worker_mirrored", i);
    open_client(&workers[i], graph, strategy);
    workers[i].step = (step_t){.targets = {"init"}};
    workers[i].key = between ? "\x42\x02\x08\x01" : NULL;
  }
  run_all(workers, clients);
  for (int i = 0; i < clients && between; i++) workers[i].key = "\x42\x02\x08\x02";
  expect_all(workers, clients);
  uint64_t state = 11;
  for (int step = 0; step < 20; step++) {
    int rows = step % 4 == 3 ? 30 : 32, cut = between ? step % 3 == 0 ? 16 : 1 + step : rows;
    step_t s = {.feeds = {"x", "y"}, .fetches = {"loss:0"}, .targets = {"train"}};
    s.values[0] = type == TF_INT32 ? random_ints(&state, rows, columns) : random_floats(&state, type, rows, columns);
    s.values[1] = random_ints(&state, rows, classes);
    for (int i = 0; i < clients; i++) {
      workers[i].step = (step_t){.feeds = {"x", "y"}, .fetches = {"loss:0", "logits:0"}, .targets = {"train"}};
      for (int f = 0; f < 2; f++) workers[i].step.values[f] = rows_of(s.values[f], i == 0 ? 0 : cut, i == 0 ? cut : rows);
    }
    job_step(one, &s);
    run_all(workers, clients);
    expect_all(workers, clients);
    for (int i = 0; i < clients; i++) {
      double x = number_of(s.results[0]), y = number_of(workers[i].step.results[0]);
      CU_ASSERT(fabs(x - y) <= tolerance * fabs(x));
      CU_ASSERT_EQUAL(TF_Dim(workers[i].step.results[1], 0), i == 0 ? cut : rows - cut);
      step_end(&workers[i].step);
    }
    step_end(&s);
  }
  job_end(one);
  for (int i = 0; i < clients; i++) close_client(&workers[i]);
  for (int i = 0; i < WORKERS; i++) dismiss(&workers[i]);
}

static void one_client_drives_all_workers(void) {
  train("mlp64_adam", TF_DOUBLE, 32, 10, 1e-10, false);
  train("embedding_sgd", TF_INT32, 1000, 4, 1e-5, false);
}

static void each_worker_has_a_client_of_its_own(void) {
  train("mlp64_adam", TF_DOUBLE, 32, 10, 1e-10, true);
  train("batch_norm", TF_FLOAT, 64, 10, 1e-5, true);
}

/* Rows of gradients differ in number from worker to worker. */
static void workers_gather_rows_of_sparse_gradients(void) { train("embedding_adam", TF_INT32, 1000, 4, 1e-5, true); }

/* One worker packs otherwise: both are told before anything is trained. */
static void workers_with_different_graphs_are_refused(void) {
  int ports[WORKERS];
  worker_t workers[WORKERS];
  memset(workers, 0, sizeof workers);
  for (int i = 0; i < WORKERS; i++) ports[i] = free_port();
  for (int i = 0; i < WORKERS; i++) serve(&workers[i], i, ports);
  open_client(&workers[0], "mlp_sgd", "multi_worker_mirrored:task=0");
  open_client(&workers[1], "mlp_sgd", "multi_worker_mirrored:task=1,fusion=none");
  for (int i = 0; i < WORKERS; i++) {
    workers[i].step = (step_t){.targets = {"init"}};
    workers[i].key = "\x42\x02\x08\x01";
  }
  run_all(workers, WORKERS);
  int told = 0;
  for (int i = 0; i < WORKERS; i++) {
    CU_ASSERT_NOT_EQUAL(TF_GetCode(workers[i].job.status), TF_OK);
    told += strstr(TF_Message(workers[i].job.status), "the graph of this worker is not that of all others") != NULL;
  }
  CU_ASSERT(told > 0);
  for (int i = 0; i < WORKERS; i++) close_client(&workers[i]);
  for (int i = 0; i < WORKERS; i++) dismiss(&workers[i]);
}

static const CU_TestInfo tests[] = {
    {"one client drives all workers", one_client_drives_all_workers},
    {"each worker has a client of its own", each_worker_has_a_client_of_its_own},
    {"workers gather rows of sparse gradients", workers_gather_rows_of_sparse_gradients},
    {"workers with different graphs are refused", workers_with_different_graphs_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/multi_worker", tests); }
