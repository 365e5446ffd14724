/* tests/strategies/multi_worker_test.c - servers in this process, one client each or one for all: T-MWM-1, T-MWM-2,
 * T-DDP-7. */
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

enum { MOST_WORKERS = 3 };

typedef struct shape { /* of a cluster */
  int workers, cpus; /* CPU devices of each */
} shape_t;
static const shape_t pair = {2, 1}, three_with_two = {3, 2};

typedef struct worker {
  TF_Server *server;
  TF_Status *status;
  job_t job;
  pthread_t thread;
  const char *key; /* RunOptions {experimental {collective_graph_key}}: the same for steps that go together */
  step_t step;
  float rate; /* of learning, instead of the graph's own; 0: that */
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

static void serve(worker_t *w, int index, shape_t shape, const int *ports) {
  const char devices[] = {10, 3, 'C', 'P', 'U', 16, (char)shape.cpus}; /* an entry of ConfigProto.device_count */
  weft_strbuf_t job = WEFT_STRBUF_INIT, cluster = WEFT_STRBUF_INIT, def = WEFT_STRBUF_INIT, config = WEFT_STRBUF_INIT;
  put(&job, 1, WEFT_STR("worker"));
  for (int i = 0; i < shape.workers; i++) {
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
  put(&config, 1, weft_str_of(devices, sizeof devices));
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

static void serve_all(worker_t *workers, shape_t shape) {
  int ports[MOST_WORKERS];
  memset(workers, 0, MOST_WORKERS * sizeof *workers);
  for (int i = 0; i < shape.workers; i++) ports[i] = free_port();
  for (int i = 0; i < shape.workers; i++) serve(&workers[i], i, shape, ports);
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

static void open_client(worker_t *w, shape_t shape, const char *graph, const char *strategy) {
  static const char *const names[MOST_WORKERS] = {"/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1",
                                                  "/job:worker/replica:0/task:2"};
  weft_task_devices_t tasks[MOST_WORKERS];
  for (int i = 0; i < shape.workers; i++) {
    tasks[i] = (weft_task_devices_t){weft_str(names[i]), WEFT_STR("worker"), i, shape.cpus, WEFT_STR("")};
  }
  weft_cluster_view_t cluster = {.tasks = tasks, .num_tasks = shape.workers};
  weft_str_t feeds[3] = {WEFT_STR("x"), WEFT_STR("y"), WEFT_STR("use")}, fetches[2] = {WEFT_STR("loss:0"), WEFT_STR("logits:0")};
  weft_str_t target = WEFT_STR("train"), init = WEFT_STR("init");
  job_t *j = &w->job;
  *j = (job_t){.source = read_graph(graph), .graph = TF_NewGraph(), .status = TF_NewStatus()};
  if (w->rate != 0) set_rate(j->source, w->rate);
  int num_feeds = weft_graph_find(j->source, WEFT_STR("use")) == NULL ? 2 : 3;
  weft_strategy_request_t r = {.graph = j->source, .cluster = &cluster, .feeds = {feeds, num_feeds}, .fetches = {fetches, 2},
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

/* RunOptions {experimental {collective_graph_key}} of the steps that go together. */
static const char init_key[] = "\x42\x02\x08\x01", train_key[] = "\x42\x02\x08\x02";

static void initialise(worker_t *workers, int clients) {
  for (int i = 0; i < clients; i++) {
    workers[i].step = (step_t){.targets = {"init"}};
    workers[i].key = clients > 1 ? init_key : NULL;
  }
  run_all(workers, clients);
  expect_all(workers, clients);
}

/* Every copy of every variable of the source, on all workers: the same bits, and as many copies as there are devices. */
static void compare_all(worker_t *workers, int clients, shape_t shape) {
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
        if (n == NULL || (n->flags & WEFT_OP_VARIABLE) == 0 || !weft_str_starts_with(n->name, name.data)) continue;
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

/* ---- tests ---- */

static void train(shape_t shape, const char *graph, TF_DataType type, int columns, int classes, double tolerance, bool between) {
  int clients = between ? shape.workers : 1, last = clients - 1;
  worker_t workers[MOST_WORKERS];
  serve_all(workers, shape);
  use_t alone = use_of(graph, NULL);
  alone.inits[1] = NULL;
  job_t *one = job_start(&alone);
  for (int i = 0; i < clients; i++) {
    char strategy[64];
    snprintf(strategy, sizeof strategy, between ? "multi_worker_mirrored:task=%d" : "multi_worker_mirrored", i);
    open_client(&workers[i], shape, graph, strategy);
  }
  initialise(workers, clients);
  for (int i = 0; i < clients && between; i++) workers[i].key = train_key;
  uint64_t state = 11;
  for (int step = 0; step < 20; step++) {
    int rows = step % 4 == 3 ? 30 : 32;
    int first = !between ? rows : step % 3 == 0 ? rows / clients : 1 + step; /* rows of the first, and of each but the last */
    int cuts[MOST_WORKERS + 1] = {0, first, last > 1 ? first + 3 : rows, rows};
    step_t s = {.feeds = {"x", "y"}, .fetches = {"loss:0"}, .targets = {"train"}};
    s.values[0] = type == TF_INT32 ? random_ints(&state, rows, columns) : random_floats(&state, type, rows, columns);
    s.values[1] = random_ints(&state, rows, classes);
    for (int i = 0; i < clients; i++) {
      workers[i].step = (step_t){.feeds = {"x", "y"}, .fetches = {"loss:0", "logits:0"}, .targets = {"train"}};
      for (int f = 0; f < 2; f++) workers[i].step.values[f] = rows_of(s.values[f], cuts[i], cuts[i + 1]);
    }
    job_step(one, &s);
    run_all(workers, clients);
    expect_all(workers, clients);
    for (int i = 0; i < clients; i++) {
      double x = number_of(s.results[0]), y = number_of(workers[i].step.results[0]);
      CU_ASSERT(fabs(x - y) <= tolerance * fabs(x));
      CU_ASSERT_EQUAL(TF_Dim(workers[i].step.results[1], 0), cuts[i + 1] - cuts[i]);
      step_end(&workers[i].step);
    }
    step_end(&s);
    compare_all(workers, clients, shape);
  }
  job_end(one);
  for (int i = 0; i < clients; i++) close_client(&workers[i]);
  for (int i = 0; i < shape.workers; i++) dismiss(&workers[i]);
}

static void one_client_drives_all_workers(void) {
  train(pair, "mlp64_adam", TF_DOUBLE, 32, 10, 1e-10, false);
  train(three_with_two, "embedding_sgd", TF_INT32, 1000, 4, 1e-5, false);
}

static void each_worker_has_a_client_of_its_own(void) {
  train(pair, "mlp64_adam", TF_DOUBLE, 32, 10, 1e-10, true);
  train(pair, "batch_norm", TF_FLOAT, 64, 10, 1e-5, true);
}

/* Rows of gradients differ in number from worker to worker. */
static void workers_gather_rows_of_sparse_gradients(void) {
  train(pair, "embedding_adam", TF_INT32, 1000, 4, 1e-5, true);
}

/* T-MWM-1 */
static void three_workers_with_two_devices_are_as_one_device(void) {
  train(three_with_two, "mlp_sgd", TF_FLOAT, 32, 10, 1e-5, true);
  train(three_with_two, "mlp64_momentum", TF_DOUBLE, 32, 10, 1e-10, true);
}

/* T-MWM-2: every worker draws numbers of its own, and gets the first one's. */
static void initial_values_are_the_first_workers(void) {
  worker_t workers[MOST_WORKERS];
  serve_all(workers, three_with_two);
  for (int i = 0; i < three_with_two.workers; i++) {
    char strategy[64];
    snprintf(strategy, sizeof strategy, "multi_worker_mirrored:task=%d", i);
    open_client(&workers[i], three_with_two, "random_start", strategy);
  }
  initialise(workers, three_with_two.workers);
  compare_all(workers, three_with_two.workers, three_with_two);
  TF_Tensor *w = job_read(&workers[2].job, "w");
  const float *values = TF_TensorData(w);
  CU_ASSERT(values[0] != values[1] && values[0] >= 0 && values[0] < 1);
  TF_DeleteTensor(w);
  for (int i = 0; i < three_with_two.workers; i++) close_client(&workers[i]);
  for (int i = 0; i < three_with_two.workers; i++) dismiss(&workers[i]);
}

/* T-DDP-7: pred = x w + [use] x v, where each worker says for itself whether it uses v; by hand. */
static void who_does_not_use_a_variable_adds_nothing(void) {
  enum { ROWS = 6, COLUMNS = 8, STEPS = 12 };
  worker_t workers[MOST_WORKERS];
  double w[2][COLUMNS];
  serve_all(workers, pair);
  for (int i = 0; i < 2; i++) {
    open_client(&workers[i], pair, "branch", i == 0 ? "multi_worker_mirrored:task=0" : "multi_worker_mirrored:task=1");
  }
  initialise(workers, 2);
  for (int k = 0; k < 2; k++) {
    TF_Tensor *t = job_read(&workers[0].job, k == 0 ? "w" : "v");
    memcpy(w[k], TF_TensorData(t), sizeof w[k]);
    TF_DeleteTensor(t);
  }
  uint64_t state = 4;
  for (int step = 0; step < STEPS; step++) {
    double gradient[2][COLUMNS] = {{0}}, loss = 0;
    for (int i = 0; i < 2; i++) {
      bool uses = step % 3 != 2 && (i == 0 || step % 2 == 0); /* in each third step nobody does */
      step_t *s = &workers[i].step;
      *s = (step_t){.feeds = {"x", "y", "use"}, .fetches = {"loss:0"}, .targets = {"train"}};
      s->values[0] = random_floats(&state, TF_DOUBLE, ROWS, COLUMNS);
      s->values[1] = random_floats(&state, TF_DOUBLE, ROWS, 1);
      s->values[2] = TF_AllocateTensor(TF_BOOL, NULL, 0, 1);
      *(unsigned char *)TF_TensorData(s->values[2]) = uses;
      const double *x = TF_TensorData(s->values[0]), *y = TF_TensorData(s->values[1]);
      for (int r = 0; r < ROWS; r++, x += COLUMNS) {
        double d = -y[r];
        for (int c = 0; c < COLUMNS; c++) d += x[c] * (w[0][c] + (uses ? w[1][c] : 0));
        loss += d * d / (2 * ROWS);
        for (int c = 0; c < COLUMNS; c++) {
          gradient[0][c] += d * x[c] / ROWS;
          if (uses) gradient[1][c] += d * x[c] / ROWS;
        }
      }
      workers[i].key = train_key;
    }
    run_all(workers, 2);
    expect_all(workers, 2);
    for (int i = 0; i < 2; i++) {
      CU_ASSERT_DOUBLE_EQUAL(number_of(workers[i].step.results[0]), loss, 1e-12);
      step_end(&workers[i].step);
    }
    for (int k = 0; k < 2; k++) {
      TF_Tensor *t = job_read(&workers[1].job, k == 0 ? "w" : "v");
      const double *now = TF_TensorData(t);
      for (int c = 0; c < COLUMNS; c++) {
        w[k][c] -= (double)0.1f * gradient[k][c]; /* the rate is a float */
        CU_ASSERT_DOUBLE_EQUAL(now[c], w[k][c], 1e-12);
      }
      memcpy(w[k], now, sizeof w[k]);
      TF_DeleteTensor(t);
    }
    compare_all(workers, 2, pair);
  }
  for (int i = 0; i < 2; i++) close_client(&workers[i]);
  for (int i = 0; i < 2; i++) dismiss(&workers[i]);
}

/* One worker packs otherwise, has another optimizer, another type, model or rate of learning: all are told before anything is trained. */
static void workers_with_different_graphs_are_refused(void) {
  static const struct {
    const char *graph, *options, *target;
    float rate;
  } others[] = {{"mlp_sgd", ",fusion=none", "init"}, {"mlp_momentum", "", "init"}, {"mlp64_sgd", "", "init"},
                {"random_start", "", "init"},        {"mlp_sgd", "", "init", 0.2f},   {"mlp_momentum", "", "train"}};
  for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
    worker_t workers[MOST_WORKERS];
    char strategy[64];
    serve_all(workers, pair);
    snprintf(strategy, sizeof strategy, "multi_worker_mirrored:task=1%s", others[k].options);
    open_client(&workers[0], pair, "mlp_sgd", "multi_worker_mirrored:task=0");
    workers[1].rate = others[k].rate;
    open_client(&workers[1], pair, others[k].graph, strategy);
    uint64_t state = 3;
    bool trains = strcmp(others[k].target, "train") == 0; /* without initial values, and nobody waits for ever */
    for (int i = 0; i < pair.workers; i++) {
      workers[i].step = (step_t){.targets = {others[k].target}};
      workers[i].key = init_key;
      if (!trains) continue;
      workers[i].step.feeds[0] = "x";
      workers[i].step.feeds[1] = "y";
      workers[i].step.values[0] = random_floats(&state, TF_FLOAT, 4, 32);
      workers[i].step.values[1] = random_ints(&state, 4, 10);
    }
    run_all(workers, pair.workers);
    int told = 0;
    for (int i = 0; i < pair.workers; i++) {
      CU_ASSERT_NOT_EQUAL(TF_GetCode(workers[i].job.status), TF_OK);
      told += strstr(TF_Message(workers[i].job.status), "the graph of this worker is not that of all others") != NULL;
      step_end(&workers[i].step);
    }
    if (told == 0 && !trains) fprintf(stderr, "%s%s: %s\n", others[k].graph, others[k].options, TF_Message(workers[0].job.status));
    CU_ASSERT(told > 0 || trains);
    for (int i = 0; i < pair.workers; i++) close_client(&workers[i]);
    for (int i = 0; i < pair.workers; i++) dismiss(&workers[i]);
  }
}

static const CU_TestInfo tests[] = {
    {"one client drives all workers", one_client_drives_all_workers},
    {"each worker has a client of its own", each_worker_has_a_client_of_its_own},
    {"workers gather rows of sparse gradients", workers_gather_rows_of_sparse_gradients},
    {"three workers with two devices are as one device", three_workers_with_two_devices_are_as_one_device},
    {"initial values are the first worker's", initial_values_are_the_first_workers},
    {"who does not use a variable adds nothing", who_does_not_use_a_variable_adds_nothing},
    {"workers with different graphs are refused", workers_with_different_graphs_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/multi_worker", tests); }
