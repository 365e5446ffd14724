/* benchmarks/ps_step.c - one parameter server, two workers, a dense model of 100 MB: every step moves it
 * twice per worker.
 *
 * The single-device training graph is rewritten by the strategy parameter_server
 * (async) and run on three `weft server` processes, a client thread per worker loop.
 * benchmarks/compare_tensorflow runs the same on TensorFlow's servers.
 */
#define _GNU_SOURCE
#include "benchmarks/ps_step.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "strategies/emit.h"
#include "strategies/strategy.h"
#include "tensorflow/c/c_api.h"

enum { TASKS = 3, WORKERS = 2, LAYERS = 6, SIDE = 2048, ROWS = 4, ROUNDS = 9, START_TIMEOUT_MS = 10000 };

/* ---- the graph ---- */

static weft_graph_t *make_graph(weft_status_t **status) {
  weft_graph_t *g = NULL;
  *status = weft_graph_create(&g);
  if (*status != NULL) return NULL;
  weft_emitter_t b = {.g = g};
  const weft_shape_t rows = weft_shape_matrix(-1, SIDE), square = weft_shape_matrix(SIDE, SIDE);
  const weft_named_attr_t f32 = weft_type_attr("dtype", WEFT_F32);
  const weft_named_attr_t fed[2] = {f32, weft_shape_attr("shape", &rows)};
  const int64_t dims[2] = {SIDE, SIDE}, all[2] = {0, 1};
  weft_output_t x = weft_emit(&b, "Placeholder", NULL, 0, fed, 2, "x"),
                y = weft_emit(&b, "Placeholder", NULL, 0, fed, 2, "y");
  weft_output_t handles[LAYERS], values[LAYERS], grads[LAYERS], h = x;
  weft_node_t *inits[LAYERS], *updates[LAYERS];
  for (int i = 0; i < LAYERS; i++) {
    char name[16];
    snprintf(name, sizeof name, "w%d", i);
    const weft_named_attr_t attrs[3] = {f32, weft_shape_attr("shape", &square),
                                        weft_text_attr("shared_name", weft_str(name))};
    handles[i] = weft_emit(&b, "VarHandleOp", NULL, 0, attrs, 3, "%s", name);
    const weft_output_t init[2] = {handles[i],
                                   weft_emit2(&b, "Fill", weft_emit_ints(&b, WEFT_I32, dims, 2, "dims"),
                                              weft_emit_number(&b, WEFT_F32, 1e-3, "small"), "initial")};
    inits[i] = weft_emit(&b, "AssignVariableOp", init, 2, &f32, 1, "assign").node;
    values[i] = weft_emit(&b, "ReadVariableOp", &handles[i], 1, &f32, 1, "read");
    h = weft_emit2(&b, "MatMul", h, values[i], "product");
    if (i + 1 < LAYERS) h = weft_emit1(&b, "Relu", h, "active");
  }
  weft_output_t loss =
      weft_emit2(&b, "Mean", weft_emit1(&b, "Square", weft_emit2(&b, "Sub", h, y, "wrong"), "squares"),
                 weft_emit_ints(&b, WEFT_I32, all, 2, "all"), "loss");
  if (b.s == NULL) {
    weft_emitter_fail(
        &b, weft_graph_add_gradients(g, WEFT_STR("gradients"), &loss, 1, values, LAYERS, NULL, grads));
  }
  weft_output_t rate = weft_emit_number(&b, WEFT_F32, 1e-3, "rate");
  for (int i = 0; i < LAYERS && b.s == NULL; i++) {
    updates[i] = weft_emit3(&b, "ResourceApplyGradientDescent", handles[i], rate, grads[i], "update").node;
  }
  if (b.s == NULL) weft_emit_noop(&b, inits, LAYERS, "init");
  if (b.s == NULL) weft_emit_noop(&b, updates, LAYERS, "train");
  *status = weft_emitter_end(&b);
  if (*status == NULL) return g;
  weft_graph_destroy(g);
  return NULL;
}

static weft_status_t *rewrite(weft_rewrite_t *out) {
  const weft_task_devices_t tasks[TASKS] = {
      {WEFT_STR("/job:ps/replica:0/task:0"), WEFT_STR("ps"), 0, 1, WEFT_STR("")},
      {WEFT_STR("/job:worker/replica:0/task:0"), WEFT_STR("worker"), 0, 1, WEFT_STR("")},
      {WEFT_STR("/job:worker/replica:0/task:1"), WEFT_STR("worker"), 1, 1, WEFT_STR("")}};
  const weft_str_t feeds[2] = {WEFT_STR("x"), WEFT_STR("y")}, train = WEFT_STR("train"),
                   init = WEFT_STR("init");
  const weft_cluster_view_t cluster = {.tasks = tasks, .num_tasks = TASKS};
  weft_status_t *s = NULL;
  weft_graph_t *g = make_graph(&s);
  if (s != NULL) return s;
  const weft_strategy_request_t r = {
      .graph = g, .cluster = &cluster, .feeds = {feeds, 2}, .targets = {&train, 1}, .inits = {&init, 1}};
  s = weft_strategy_apply(WEFT_STR("parameter_server"), &r, out);
  weft_graph_destroy(g);
  return s;
}

/* ---- processes ---- */

typedef struct cluster {
  pid_t pids[TASKS];
  int ports[TASKS];
} cluster_t;

static int free_port(int *held) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  *held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (*held < 0 || bind(*held, (struct sockaddr *)&a, n) != 0 ||
      getsockname(*held, (struct sockaddr *)&a, &n) != 0)
    return -1;
  return ntohs(a.sin_port);
}

static bool wait_ready(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  char c = '\0';
  while (c != '\n' && poll(&p, 1, START_TIMEOUT_MS) == 1 && read(fd, &c, 1) == 1) {
  }
  return c == '\n';
}

static weft_status_t *start_task(const weft_bench_options_t *o, char *spec, cluster_t *c, int i) {
  char task[8];
  int fds[2];
  snprintf(task, sizeof task, "%d", i == 0 ? 0 : i - 1);
  char *const argv[] = {"weft",   "server", "--cluster", spec, "--job", i == 0 ? "ps" : "worker",
                        "--task", task,     NULL};
  if (pipe2(fds, O_CLOEXEC) != 0) return WEFT_ERROR(INTERNAL, "cannot make a pipe: %s", strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  int rc = posix_spawn(&c->pids[i], o->weft_path, &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(fds[1]);
  if (rc != 0) c->pids[i] = 0;
  bool ready = rc == 0 && wait_ready(fds[0]);
  close(fds[0]);
  return ready ? NULL : WEFT_ERROR(INTERNAL, "'%s server' did not start", o->weft_path);
}

static weft_status_t *start(const weft_bench_options_t *o, cluster_t *c) {
  char spec[128];
  int held[TASKS] = {-1, -1, -1};
  bool ok = o->weft_path != NULL;
  if (!ok) return WEFT_ERROR(UNIMPLEMENTED, "needs the weft command");
  for (int i = 0; i < TASKS; i++) ok = (c->ports[i] = free_port(&held[i])) > 0 && ok;
  for (int i = 0; i < TASKS; i++) {
    if (held[i] >= 0) close(held[i]);
  }
  if (!ok) return WEFT_ERROR(INTERNAL, "no free ports");
  snprintf(spec, sizeof spec, "ps=127.0.0.1:%d;worker=127.0.0.1:%d,127.0.0.1:%d", c->ports[0], c->ports[1],
           c->ports[2]);
  for (int i = 0; i < TASKS; i++) WEFT_RETURN_IF_ERROR(start_task(o, spec, c, i));
  return NULL;
}

static void stop(cluster_t *c) {
  for (int i = 0; i < TASKS; i++) {
    if (c->pids[i] > 0) kill(c->pids[i], SIGTERM);
  }
  for (int i = 0; i < TASKS; i++) {
    while (c->pids[i] > 0 && waitpid(c->pids[i], NULL, 0) < 0 && errno == EINTR) {
    }
  }
}

/* ---- worker loops ---- */

typedef struct worker_loop {
  const weft_worker_loop_t *l;
  TF_Graph *graph; /* owned, as all below */
  TF_Session *session;
  TF_Tensor *values[2];
  TF_Status *status;
  int steps;
  pthread_t thread;
} worker_loop_t;

static weft_status_t *outcome(const TF_Status *s) {
  return TF_GetCode(s) == TF_OK
             ? NULL
             : weft_status_from_wire((int)TF_GetCode(s), TF_Message(s), strlen(TF_Message(s)));
}

static weft_status_t *open_loop(worker_loop_t *loop, const weft_worker_loop_t *l, weft_str_t def, int port) {
  const int64_t dims[2] = {ROWS, SIDE};
  char target[64];
  *loop = (worker_loop_t){.l = l, .graph = TF_NewGraph(), .status = TF_NewStatus()};
  snprintf(target, sizeof target, "grpc://127.0.0.1:%d", port);
  TF_Buffer *bytes = TF_NewBufferFromString(def.data, def.length);
  TF_ImportGraphDefOptions *how = TF_NewImportGraphDefOptions();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_GraphImportGraphDef(loop->graph, bytes, how, loop->status);
  TF_SetTarget(options, target);
  if (TF_GetCode(loop->status) == TF_OK) loop->session = TF_NewSession(loop->graph, options, loop->status);
  TF_DeleteSessionOptions(options);
  TF_DeleteImportGraphDefOptions(how);
  TF_DeleteBuffer(bytes);
  for (int i = 0; i < 2; i++) {
    loop->values[i] = TF_AllocateTensor(TF_FLOAT, dims, 2, (size_t)ROWS * SIDE * sizeof(float));
    float *to = loop->values[i] == NULL ? NULL : TF_TensorData(loop->values[i]);
    for (int k = 0; to != NULL && k < ROWS * SIDE; k++) to[k] = (float)(k % 7) / 7;
    if (to == NULL) return WEFT_NO_MEMORY("a batch");
  }
  return outcome(loop->status);
}

static void close_loop(worker_loop_t *loop) {
  TF_Status *s = TF_NewStatus();
  if (loop->session != NULL) TF_DeleteSession(loop->session, s);
  if (loop->graph != NULL) TF_DeleteGraph(loop->graph);
  for (int i = 0; i < 2; i++) {
    if (loop->values[i] != NULL) TF_DeleteTensor(loop->values[i]);
  }
  if (loop->status != NULL) TF_DeleteStatus(loop->status);
  TF_DeleteStatus(s);
}

static void run_target(worker_loop_t *loop, weft_str_t target, bool is_fed) {
  TF_Operation *op = TF_GraphOperationByName(loop->graph, target.data);
  TF_Output feeds[2];
  for (int i = 0; i < 2; i++)
    feeds[i] = (TF_Output){TF_GraphOperationByName(loop->graph, loop->l->feeds.items[i].data), 0};
  const TF_Operation *const targets[1] = {op};
  TF_SessionRun(loop->session, NULL, feeds, loop->values, is_fed ? 2 : 0, NULL, NULL, 0, targets, 1, NULL,
                loop->status);
}

static void *run_steps(void *arg) {
  worker_loop_t *loop = arg;
  for (int i = 0; i < loop->steps && TF_GetCode(loop->status) == TF_OK; i++)
    run_target(loop, loop->l->targets.items[0], true);
  return NULL;
}

/* Milliseconds per step, both workers at once. */
static weft_status_t *measure(worker_loop_t *loops, int steps, double *out_ms) {
  weft_status_t *s = NULL;
  int64_t began = weft_clock_ns();
  int started = 0;
  for (; started < WORKERS; started++) {
    loops[started].steps = steps;
    if (pthread_create(&loops[started].thread, NULL, run_steps, &loops[started]) != 0) break;
  }
  if (started < WORKERS) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start a thread");
  for (int i = 0; i < started; i++) {
    pthread_join(loops[i].thread, NULL);
    s = weft_status_join(s, outcome(loops[i].status));
  }
  *out_ms = (double)(weft_clock_ns() - began) / 1e6 / steps;
  return s;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static weft_status_t *train(worker_loop_t *loops, bool is_quick, double *out_value) {
  double ms[ROUNDS];
  int rounds = is_quick ? 3 : ROUNDS;
  run_target(&loops[0], WEFT_STR("init"), false);
  WEFT_RETURN_IF_ERROR(outcome(loops[0].status));
  WEFT_RETURN_IF_ERROR(measure(loops, 2, &ms[0])); /* registers graphs, warms caches */
  for (int i = 0; i < rounds; i++) WEFT_RETURN_IF_ERROR(measure(loops, 3, &ms[i]));
  qsort(ms, (size_t)rounds, sizeof ms[0], compare);
  *out_value = ms[rounds / 2];
  return NULL;
}

weft_status_t *weft_bench_ps_step_100mb(const weft_bench_options_t *o, double *out_value) {
  cluster_t c = {{0}, {0}};
  worker_loop_t loops[WORKERS] = {{0}};
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  weft_strbuf_t def = WEFT_STRBUF_INIT;
  weft_status_t *s = rewrite(&r);
  if (s == NULL) s = weft_graph_export(r.graph, false, &def);
  if (s == NULL) s = start(o, &c);
  for (int i = 0; i < WORKERS && s == NULL; i++) {
    s = open_loop(&loops[i], &r.loops[i], weft_str_of(def.data, def.length), c.ports[i + 1]);
  }
  if (s == NULL) s = train(loops, o->is_quick, out_value);
  for (int i = 0; i < WORKERS; i++) close_loop(&loops[i]);
  stop(&c);
  weft_strbuf_deinit(&def);
  weft_rewrite_deinit(&r);
  return s;
}
