/* benchmarks/million_nodes.c - CreateSession and MakeCallable for a graph of a million nodes over two tasks.
 *
 * The graph is a thousand chains of additions and negations, each begun by a
 * placeholder, so that no pass can fold it; every chain lives on one task and looks over to its neighbour on
 * the other once in a hundred nodes. One node waits for all chains, so that nothing is pruned. MakeCallable
 * prepares a step without running it.
 *
 * Both workers are in this process, and so is the master: no bytes go over a
 * network, but partitions are cut, and compiled to plans, as on a cluster. Each
 * size has a process of its own.
 */
#include "benchmarks/million_nodes.h"

#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "benchmarks/child.h"
#include "kernels/kernel.h"
#include "master/master.h"
#include "protos/wire.h"
#include "worker/worker.h"

enum { CHAINS = 1000, PRODUCER = 1882, DT_FLOAT = 1 };

static const char *const task_names[] = {"/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"};

/* ---- the graph ---- */

static void put_type(weft_strbuf_t *b, const char *attr) {
  size_t entry = weft_wire_begin(b, 5);
  weft_wire_put_text(b, 1, attr);
  size_t value = weft_wire_begin(b, 2);
  weft_wire_put_varint(b, 6, DT_FLOAT);
  weft_wire_end(b, value);
  weft_wire_end(b, entry);
}

static void put_input(weft_strbuf_t *b, const char *prefix, int chain, int index) {
  char name[64];
  int n = snprintf(name, sizeof name, "%stower_%d/layer/op_%d", prefix, chain, index);
  weft_wire_put_bytes(b, 3, weft_str_of(name, (size_t)n));
}

static void put_node(weft_strbuf_t *b, int chain, int i) {
  char name[64];
  int n = snprintf(name, sizeof name, "tower_%d/layer/op_%d", chain, i);
  size_t node = weft_wire_begin(b, 1);
  bool crosses = i > 1 && i % 100 == 0, adds = i > 1 && i % 2 == 0;
  weft_wire_put_bytes(b, 1, weft_str_of(name, (size_t)n));
  weft_wire_put_text(b, 2, i == 0 ? "Placeholder" : adds ? "AddV2" : "Neg");
  if (i > 0) put_input(b, "", chain, i - 1);
  if (adds) put_input(b, "", crosses ? chain ^ 1 : chain, crosses ? i - 1 : i - 2);
  weft_wire_put_text(b, 4, chain % 2 == 0 ? "/job:worker/task:0" : "/job:worker/task:1");
  put_type(b, i == 0 ? "dtype" : "T");
  weft_wire_end(b, node);
}

static void write_graph(int num_nodes, weft_strbuf_t *b) {
  int length = (num_nodes - 1) / CHAINS;
  for (int chain = 0; chain < CHAINS; chain++) {
    for (int i = 0; i < length; i++) put_node(b, chain, i);
  }
  size_t all = weft_wire_begin(b, 1);
  weft_wire_put_text(b, 1, "all");
  weft_wire_put_text(b, 2, "NoOp");
  for (int chain = 0; chain < CHAINS; chain++) put_input(b, "^", chain, length - 1);
  weft_wire_end(b, all);
  size_t versions = weft_wire_begin(b, 4);
  weft_wire_put_varint(b, 1, PRODUCER);
  weft_wire_end(b, versions);
}

/* ---- two tasks and a master ---- */

typedef struct two_tasks {
  weft_worker_cache_t cache; /* first: the cache is the whole */
  weft_str_t names[2];
  weft_worker_t *workers[2];
  weft_worker_client_t *clients[2];
  weft_master_t *master;
  weft_master_client_t *client;
} two_tasks_t;

static weft_worker_client_t *find(weft_worker_cache_t *c, weft_str_t task) {
  two_tasks_t *t = (two_tasks_t *)(void *)c;
  for (int i = 0; i < 2; i++) {
    if (weft_str_eq(task, t->names[i])) return weft_worker_client_retain(t->clients[i]);
  }
  return NULL;
}

static const weft_str_t *tasks(weft_worker_cache_t *c, int *out_n) {
  *out_n = 2;
  return ((two_tasks_t *)(void *)c)->names;
}

static uint32_t supports(const weft_node_t *n) {
  return weft_kernel_find("CPU", n->op->name, n->attrs, n->num_attrs) != NULL ? 1 : 0;
}
static const weft_kernel_support_t kernels = {supports, NULL};

static weft_status_t *build(two_tasks_t *t) {
  t->cache = (weft_worker_cache_t){.find = find, .tasks = tasks};
  for (int i = 0; i < 2; i++) {
    t->names[i] = weft_str(task_names[i]);
    weft_worker_options_t worker = {.task = t->names[i], .num_threads = 1, .cache = &t->cache};
    WEFT_RETURN_IF_ERROR(weft_worker_create(&worker, &t->workers[i]));
    WEFT_RETURN_IF_ERROR(weft_local_worker_client_create(t->workers[i], &t->clients[i]));
  }
  weft_master_options_t master = {.task = t->names[0], .cache = &t->cache, .kernels = &kernels};
  WEFT_RETURN_IF_ERROR(weft_master_create(&master, &t->master));
  return weft_local_master_client_create(t->master, &t->client);
}

static void take_down(two_tasks_t *t) {
  weft_master_destroy(t->master);
  weft_master_client_release(t->client);
  for (int i = 0; i < 2; i++) {
    weft_worker_destroy(t->workers[i]);
    weft_worker_client_release(t->clients[i]);
  }
}

/* ---- the measurement ---- */

typedef struct nodes_answer {
  weft_mutex_t mu;
  weft_cond_t ended;
  bool is_done; /* guarded by mu, as all below */
  weft_status_t *status;
  char session[64];
} nodes_answer_t;

static void end(nodes_answer_t *a, weft_status_t *status) {
  weft_mutex_lock(&a->mu);
  a->status = status;
  a->is_done = true;
  weft_cond_signal(&a->ended);
  weft_mutex_unlock(&a->mu);
}

static void created(void *arg, weft_status_t *status, weft_str_t session, int64_t version) {
  (void)version;
  nodes_answer_t *a = arg;
  snprintf(a->session, sizeof a->session, "%.*s", WEFT_STR_ARGS(session));
  end(a, status);
}

static void made(void *arg, weft_status_t *status, int64_t handle) {
  (void)handle;
  end(arg, status);
}

static weft_status_t *await(nodes_answer_t *a) {
  weft_mutex_lock(&a->mu);
  while (!a->is_done) weft_cond_wait(&a->ended, &a->mu); /* woken by end() */
  a->is_done = false;
  weft_mutex_unlock(&a->mu);
  return a->status;
}

static double cpu_seconds(void) {
  struct timespec t = {0, 0};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static weft_status_t *measure(two_tasks_t *t, weft_str_t graph, weft_large_graph_result_t *out) {
  nodes_answer_t a = {.is_done = false};
  weft_mutex_init(&a.mu);
  weft_cond_init(&a.ended);
  weft_create_session_t create = {.graph_def = graph, .config = WEFT_STR("")};
  double before = weft_allocated_bytes(), cpu = cpu_seconds();
  int64_t start = weft_clock_ns();
  t->client->ops->create_session(t->client, &create, NULL, created, &a);
  weft_status_t *s = await(&a);
  out->create_seconds = (double)(weft_clock_ns() - start) / 1e9;
  if (s == NULL) {
    const weft_str_t target = WEFT_STR("all");
    weft_make_callable_t make = {.session = weft_str(a.session), .targets = &target, .num_targets = 1};
    t->client->ops->make_callable(t->client, &make, NULL, made, &a);
    s = await(&a);
  }
  out->seconds = (double)(weft_clock_ns() - start) / 1e9;
  out->cpu_seconds = cpu_seconds() - cpu;
  out->bytes = weft_allocated_bytes() - before;
  weft_cond_deinit(&a.ended);
  weft_mutex_deinit(&a.mu);
  return s;
}

weft_status_t *weft_bench_large_graph(int num_nodes, weft_large_graph_result_t *out) {
  weft_strbuf_t graph = WEFT_STRBUF_INIT;
  two_tasks_t t = {.master = NULL};
  write_graph(num_nodes, &graph);
  weft_status_t *s = graph.failed ? WEFT_NO_MEMORY("a graph of %d nodes", num_nodes) : build(&t);
  if (s == NULL) s = measure(&t, weft_str_of(graph.data, graph.length), out);
  take_down(&t);
  weft_strbuf_deinit(&graph);
  return s;
}

static weft_status_t *be_large(void *arg, int to, int until) {
  (void)until;
  weft_large_graph_result_t r;
  WEFT_RETURN_IF_ERROR(weft_bench_large_graph(*(const int *)arg, &r));
  return weft_write_all(to, &r, sizeof r) ? NULL : WEFT_ERROR(INTERNAL, "the result cannot be written");
}

static weft_status_t *in_child(int num_nodes, weft_large_graph_result_t *out) {
  weft_child_t child;
  weft_status_t *s = weft_child_start(be_large, &num_nodes, "million_nodes", out, sizeof *out, &child);
  weft_child_end(&child);
  return s;
}

static int size_of(const weft_bench_options_t *o) {
  return o->num_nodes > 0 ? o->num_nodes : o->is_quick ? 100000 : 1000000;
}

/* A graph of a quarter is measured before: linear is what takes four times as much processor time for four
 * times as many nodes, with room for what no longer fits into caches. */
weft_status_t *weft_bench_million_nodes(const weft_bench_options_t *o, double *out_value) {
  weft_large_graph_result_t quarter, whole;
  const int n = size_of(o);
  WEFT_RETURN_IF_ERROR(in_child(n / 4, &quarter));
  WEFT_RETURN_IF_ERROR(in_child(n, &whole));
  if (whole.cpu_seconds > 6 * quarter.cpu_seconds && whole.cpu_seconds > 1) {
    return WEFT_ERROR(INTERNAL,
                      "not linear: %d nodes take %.2f s of processor time, a quarter of them %.2f s", n,
                      whole.cpu_seconds, quarter.cpu_seconds);
  }
  *out_value = whole.seconds * 1e9 / n;
  return NULL;
}

weft_status_t *weft_bench_million_nodes_memory(const weft_bench_options_t *o, double *out_value) {
  weft_large_graph_result_t r;
  WEFT_RETURN_IF_ERROR(in_child(size_of(o), &r));
  *out_value = r.bytes / size_of(o);
  return NULL;
}
