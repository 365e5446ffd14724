/* benchmarks/step_layers.c - one step, entered at each layer.
 *
 * No clock is read within a step of a user: the layers are told apart by entering below them. Only
 * the worker's share is taken from within the master's steps, by a client that notes when RunGraph began and
 * ended.
 */
#include "benchmarks/step_layers.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "benchmarks/dispatch.h"
#include "benchmarks/floors.h"
#include "benchmarks/rpc_step.h"
#include "benchmarks/session.h"
#include "kernels/kernel.h"
#include "master/master.h"
#include "worker/worker.h"

enum { MAX_STEPS = 20000, WARM_UP = 200 };

static const weft_str_t task_name = {"/job:worker/replica:0/task:0", 28};

/* One task, whose worker's RunGraph is timed. */
typedef struct timed_task {
  weft_worker_cache_t cache; /* first: the cache is the whole */
  weft_worker_t *worker;
  weft_worker_client_t *client;
  const weft_worker_client_ops_t *inner; /* the client's own */
  weft_worker_client_ops_t timed;
  weft_master_t *master;
  weft_master_client_t *master_client;
  weft_run_graph_fn *done; /* of the RunGraph that is under way, as the two below: one step at a time */
  void *arg;
  int64_t began;
  double took_ns; /* the last one's time */
} timed_task_t;

static timed_task_t task; /* client operations are told of the client alone */

static void graph_ran(void *arg, weft_status_t *status, weft_run_graph_result_t *result) {
  (void)arg;
  task.took_ns = (double)(weft_clock_ns() - task.began);
  task.done(task.arg, status, result);
}
static void run_graph(weft_worker_client_t *w, const weft_run_graph_t *run, weft_canceller_t *c,
                      weft_run_graph_fn *fn, void *arg) {
  task.done = fn;
  task.arg = arg;
  task.began = weft_clock_ns();
  task.inner->run_graph(w, run, c, graph_ran, NULL);
}

static weft_worker_client_t *find(weft_worker_cache_t *c, weft_str_t name) {
  (void)c;
  return weft_str_eq(name, task_name) ? weft_worker_client_retain(task.client) : NULL;
}
static const weft_str_t *tasks(weft_worker_cache_t *c, int *out_n) {
  (void)c;
  *out_n = 1;
  return &task_name;
}
static uint32_t supports(const weft_node_t *n) {
  return weft_kernel_find("CPU", n->op->name, n->attrs, n->num_attrs) != NULL ? 1 : 0;
}
static const weft_kernel_support_t kernels = {supports, NULL};

static weft_status_t *build(void) {
  task.cache = (weft_worker_cache_t){.find = find, .tasks = tasks};
  weft_worker_options_t worker = {.task = task_name, .num_threads = 1, .cache = &task.cache};
  WEFT_RETURN_IF_ERROR(weft_worker_create(&worker, &task.worker));
  WEFT_RETURN_IF_ERROR(weft_local_worker_client_create(task.worker, &task.client));
  task.inner = task.client->ops;
  task.timed = *task.inner;
  task.timed.run_graph = run_graph;
  task.client->ops = &task.timed;
  weft_master_options_t master = {.task = task_name, .cache = &task.cache, .kernels = &kernels};
  WEFT_RETURN_IF_ERROR(weft_master_create(&master, &task.master));
  return weft_local_master_client_create(task.master, &task.master_client);
}

static void take_down(void) {
  weft_master_destroy(task.master);
  weft_master_client_release(task.master_client);
  weft_worker_destroy(task.worker);
  weft_worker_client_release(task.client);
  task = (timed_task_t){.worker = NULL};
}

/* ---- steps of the master ---- */

typedef struct layers_answer {
  weft_mutex_t mu;
  weft_cond_t ended;
  bool is_done; /* guarded by mu, as all below */
  weft_status_t *status;
  char session[64];
} layers_answer_t;

static void end(layers_answer_t *a, weft_status_t *status) {
  weft_mutex_lock(&a->mu);
  a->status = status;
  a->is_done = true;
  weft_cond_signal(&a->ended);
  weft_mutex_unlock(&a->mu);
}
static void created(void *arg, weft_status_t *status, weft_str_t session, int64_t version) {
  (void)version;
  layers_answer_t *a = arg;
  snprintf(a->session, sizeof a->session, "%.*s", WEFT_STR_ARGS(session));
  end(a, status);
}
static void stepped(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  for (int i = 0; result != NULL && i < result->num_fetches; i++) weft_tensor_release(result->fetches[i]);
  end(arg, status);
}
static weft_status_t *await(layers_answer_t *a) {
  weft_mutex_lock(&a->mu);
  while (!a->is_done) weft_cond_wait(&a->ended, &a->mu); /* woken by end() */
  a->is_done = false;
  weft_mutex_unlock(&a->mu);
  return a->status;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, compare);
  return x[n / 2];
}

static weft_status_t *time_steps(layers_answer_t *a, const weft_run_step_t *run, int steps,
                                 weft_step_layers_t *out) {
  double *ns = weft_calloc((size_t)steps, 2 * sizeof *ns), *within = ns == NULL ? NULL : ns + steps;
  weft_status_t *s = ns == NULL ? WEFT_NO_MEMORY("%d times", steps) : NULL;
  for (int i = -WARM_UP; s == NULL && i < steps; i++) {
    int64_t began = weft_clock_ns();
    task.master_client->ops->run_step(task.master_client, run, NULL, stepped, a);
    s = await(a);
    if (i < 0) continue;
    ns[i] = (double)(weft_clock_ns() - began);
    within[i] = task.took_ns;
  }
  if (s == NULL) {
    out->master_ns = median(ns, steps);
    out->worker_ns = median(within, steps);
  }
  weft_free(ns);
  return s;
}

static weft_status_t *time_master(int steps, weft_step_layers_t *out) {
  layers_answer_t a = {.is_done = false};
  weft_strbuf_t graph = WEFT_STRBUF_INIT;
  weft_named_tensor_t feed = {WEFT_STR("x:0"), NULL};
  const weft_str_t fetch = WEFT_STR("y:0");
  const float one = 1;
  weft_mutex_init(&a.mu);
  weft_cond_init(&a.ended);
  weft_rpc_step_write_graph(&graph);
  weft_status_t *s = graph.failed ? WEFT_NO_MEMORY("a graph") : build();
  if (s == NULL) s = weft_tensor_scalar(WEFT_F32, &one, &feed.tensor);
  if (s == NULL) {
    weft_create_session_t create = {.graph_def = weft_str_of(graph.data, graph.length)};
    task.master_client->ops->create_session(task.master_client, &create, NULL, created, &a);
    s = await(&a);
  }
  if (s == NULL) {
    weft_run_step_t run = {
        .session = weft_str(a.session), .feeds = &feed, .num_feeds = 1, .fetches = &fetch, .num_fetches = 1};
    s = time_steps(&a, &run, steps, out);
  }
  weft_tensor_release(feed.tensor);
  take_down();
  weft_strbuf_deinit(&graph);
  weft_cond_deinit(&a.ended);
  weft_mutex_deinit(&a.mu);
  return s;
}

weft_status_t *weft_bench_step_layers(const weft_bench_options_t *o, weft_step_layers_t *out) {
  weft_step_layers_t l = {.rpc_ns = 0};
  const int steps = o->is_quick ? 200 : MAX_STEPS;
  double executor_us = 0, rpc_us = 0;
  WEFT_RETURN_IF_ERROR(weft_bench_dispatch_step(o, &executor_us));
  WEFT_RETURN_IF_ERROR(time_master(steps, &l));
  WEFT_RETURN_IF_ERROR(weft_bench_single_step(steps, &l.session_ns));
  WEFT_RETURN_IF_ERROR(weft_bench_rpc_step(o, &rpc_us));
  WEFT_RETURN_IF_ERROR(weft_bench_floor(WEFT_FLOOR_GRPC_CALL)->run(o, &l.grpc_ns));
  l.executor_ns = executor_us * 1e3;
  l.rpc_ns = rpc_us * 1e3;
  *out = l;
  return NULL;
}
