/* benchmarks/thousand_workers.c - a master among workers that are modelled.
 *
 * A worker answers each request before the call returns, and forgets the graph that it is given: no thread,
 * no network and no executor is measured. What is left is the master's: finding the signature's plan, a
 * request for each worker, and the end of the step; for a new signature the cut of the graph.
 */
#include "benchmarks/thousand_workers.h"

#include <stdio.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "benchmarks/child.h"
#include "master/master.h"
#include "protos/wire.h"

enum { WORKERS = 1000, PRODUCER = 1882, SIGNATURES = 8 };

/* ---- workers ---- */

typedef struct modelled_worker {
  weft_worker_client_t base;
  char task[48], device[64];
  uint64_t incarnation;
  int num_graphs, num_runs;
} modelled_worker_t;

static modelled_worker_t *model_of(weft_worker_client_t *w) { return (modelled_worker_t *)(void *)w; }

static void get_status(weft_worker_client_t *w, weft_canceller_t *c, weft_devices_fn *fn, void *arg) {
  (void)c;
  const modelled_worker_t *m = model_of(w);
  weft_device_list_t list = {.arena = WEFT_ARENA_INIT};
  weft_device_attributes_t cpu = {.name = weft_str(m->device),
                                  .type = WEFT_STR("CPU"),
                                  .description = WEFT_STR(""),
                                  .memory_limit = 1 << 28,
                                  .incarnation = m->incarnation};
  weft_status_t *s = weft_device_list_add(&list, &cpu);
  fn(arg, s, s == NULL ? &list : NULL);
  weft_device_list_deinit(&list);
}
static void create_session(weft_worker_client_t *w, const weft_worker_session_spec_t *spec, weft_done_fn *fn,
                           void *arg) {
  (void)w, (void)spec;
  fn(arg, NULL);
}
static void delete_session(weft_worker_client_t *w, weft_str_t session, weft_done_fn *fn, void *arg) {
  (void)w, (void)session;
  fn(arg, NULL);
}
static void register_graph(weft_worker_client_t *w, weft_str_t session, weft_graph_t *graph, bool keeps_graph,
                           weft_text_fn *fn, void *arg) {
  (void)session, (void)keeps_graph;
  char handle[24];
  int n = snprintf(handle, sizeof handle, "%016x", (unsigned)model_of(w)->num_graphs++);
  weft_graph_destroy(graph);
  fn(arg, NULL, weft_str_of(handle, (size_t)n));
}
static void deregister_graph(weft_worker_client_t *w, weft_str_t session, weft_str_t handle, weft_done_fn *fn,
                             void *arg) {
  (void)w, (void)session, (void)handle;
  fn(arg, NULL);
}
static void run_graph(weft_worker_client_t *w, const weft_run_graph_t *run, weft_canceller_t *c,
                      weft_run_graph_fn *fn, void *arg) {
  (void)run, (void)c;
  model_of(w)->num_runs++;
  weft_run_graph_result_t nothing = {.num_recvs = 0};
  fn(arg, NULL, &nothing);
}
static void cleanup_graph(weft_worker_client_t *w, int64_t step_id, weft_done_fn *fn, void *arg) {
  (void)w, (void)step_id;
  fn(arg, NULL);
}
static void cleanup_all(weft_worker_client_t *w, const weft_str_t *containers, int n, weft_done_fn *fn,
                        void *arg) {
  (void)w, (void)containers, (void)n;
  fn(arg, NULL);
}
static void destroy_worker(weft_worker_client_t *w) { weft_free(w); }

static const weft_worker_client_ops_t model = {
    .get_status = get_status,
    .create_session = create_session,
    .delete_session = delete_session,
    .register_graph = register_graph,
    .deregister_graph = deregister_graph,
    .run_graph = run_graph,
    .cleanup_graph = cleanup_graph,
    .cleanup_all = cleanup_all,
    .destroy = destroy_worker,
};

/* ---- the cluster ---- */

typedef struct modelled_cluster {
  weft_worker_cache_t cache; /* first: the cache is the whole */
  int n;
  modelled_worker_t **workers; /* n */
  weft_str_t *names;           /* n */
  weft_map_t by_name;
  weft_master_t *master;
  weft_master_client_t *client;
  char session[64];
} modelled_cluster_t;

static weft_worker_client_t *find(weft_worker_cache_t *c, weft_str_t task) {
  modelled_worker_t *w = weft_map_get(&((modelled_cluster_t *)(void *)c)->by_name, task);
  return w == NULL ? NULL : weft_worker_client_retain(&w->base);
}
static const weft_str_t *tasks(weft_worker_cache_t *c, int *out_n) {
  *out_n = ((modelled_cluster_t *)(void *)c)->n;
  return ((modelled_cluster_t *)(void *)c)->names;
}
static uint32_t supports(const weft_node_t *n) {
  (void)n;
  return 1;
}
static const weft_kernel_support_t kernels = {supports, NULL};

static weft_status_t *build(modelled_cluster_t *c) {
  c->cache = (weft_worker_cache_t){.find = find, .tasks = tasks};
  c->workers = weft_calloc((size_t)c->n, sizeof *c->workers);
  c->names = weft_calloc((size_t)c->n, sizeof *c->names);
  if (c->workers == NULL || c->names == NULL) return WEFT_NO_MEMORY("%d workers", c->n);
  for (int i = 0; i < c->n; i++) {
    modelled_worker_t *w = c->workers[i] = weft_calloc(1, sizeof *w);
    void *before = NULL;
    if (w == NULL) return WEFT_NO_MEMORY("%d workers", c->n);
    snprintf(w->task, sizeof w->task, "/job:worker/replica:0/task:%d", i);
    snprintf(w->device, sizeof w->device, "%s/device:CPU:0", w->task);
    w->incarnation = (uint64_t)i + 1;
    w->base.ops = &model;
    w->base.task = c->names[i] = weft_str(w->task);
    atomic_init(&w->base.refs, 1);
    WEFT_RETURN_IF_ERROR(weft_map_put(&c->by_name, c->names[i], w, &before));
  }
  weft_master_options_t o = {.task = c->names[0], .cache = &c->cache, .kernels = &kernels};
  WEFT_RETURN_IF_ERROR(weft_master_create(&o, &c->master));
  return weft_local_master_client_create(c->master, &c->client);
}

static void take_down(modelled_cluster_t *c) {
  weft_master_destroy(c->master);
  weft_master_client_release(c->client);
  weft_map_deinit(&c->by_name);
  for (int i = 0; c->workers != NULL && i < c->n && c->workers[i] != NULL; i++)
    weft_worker_client_release(&c->workers[i]->base);
  weft_free(c->workers);
  weft_free(c->names);
}

/* ---- the graph: a node on each worker, and SIGNATURES nodes that wait for all of them ---- */

static void put_node(weft_strbuf_t *b, const char *prefix, int i, int task, int num_controls) {
  char text[48];
  size_t node = weft_wire_begin(b, 1);
  snprintf(text, sizeof text, "%s%d", prefix, i);
  weft_wire_put_text(b, 1, text);
  weft_wire_put_text(b, 2, "NoOp");
  for (int k = 0; k < num_controls; k++) {
    snprintf(text, sizeof text, "^on_%d", k);
    weft_wire_put_text(b, 3, text);
  }
  snprintf(text, sizeof text, "/job:worker/task:%d", task);
  weft_wire_put_text(b, 4, text);
  weft_wire_end(b, node);
}

static void write_graph(int num_workers, weft_strbuf_t *b) {
  for (int i = 0; i < num_workers; i++) put_node(b, "on_", i, i, 0);
  for (int i = 0; i < SIGNATURES; i++) put_node(b, "all_", i, 0, num_workers);
  size_t versions = weft_wire_begin(b, 4);
  weft_wire_put_varint(b, 1, PRODUCER);
  weft_wire_end(b, versions);
}

/* ---- the measurement: every call has ended when it returns ---- */

typedef struct costs_answer {
  bool is_done;
  weft_status_t *status;
  char session[64];
} costs_answer_t;

static void created(void *arg, weft_status_t *status, weft_str_t session, int64_t version) {
  (void)version;
  costs_answer_t *a = arg;
  snprintf(a->session, sizeof a->session, "%.*s", WEFT_STR_ARGS(session));
  a->status = status;
  a->is_done = true;
}
static void stepped(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  (void)result;
  costs_answer_t *a = arg;
  a->status = status;
  a->is_done = true;
}

static weft_status_t *outcome(costs_answer_t *a) {
  if (!a->is_done) return WEFT_ERROR(INTERNAL, "the master has not answered yet");
  a->is_done = false;
  return a->status;
}

static weft_status_t *run_signature(modelled_cluster_t *c, costs_answer_t *a, int signature) {
  char name[16];
  int n = snprintf(name, sizeof name, "all_%d", signature);
  weft_str_t target = weft_str_of(name, (size_t)n);
  weft_run_step_t run = {.session = weft_str(a->session), .targets = &target, .num_targets = 1};
  c->client->ops->run_step(c->client, &run, NULL, stepped, a);
  return outcome(a);
}

static double cpu_ns(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return 1e9 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static weft_status_t *measure(modelled_cluster_t *c, weft_str_t graph, int num_steps,
                              weft_master_costs_t *out) {
  costs_answer_t a = {.is_done = false};
  /* graph_options { rewrite_options { disable_meta_optimizer: true } }: a pass would see that nothing is
   * computed, and leave the other workers out. */
  static const char as_written[] = "\x52\x05\x52\x03\x98\x01\x01";
  weft_create_session_t create = {.graph_def = graph,
                                  .config = weft_str_of(as_written, sizeof as_written - 1)};
  c->client->ops->create_session(c->client, &create, NULL, created, &a);
  WEFT_RETURN_IF_ERROR(outcome(&a));
  WEFT_RETURN_IF_ERROR(run_signature(c, &a, 0)); /* pools and caches fill */
  double before = weft_allocated_bytes();
  for (int i = 1; i < SIGNATURES; i++) WEFT_RETURN_IF_ERROR(run_signature(c, &a, i));
  double after = weft_allocated_bytes();
  out->bytes_signature = after > before ? (after - before) / (SIGNATURES - 1) : 0;
  double began = cpu_ns();
  for (int i = 0; i < num_steps; i++) WEFT_RETURN_IF_ERROR(run_signature(c, &a, 0));
  out->cpu_ns_step = (cpu_ns() - began) / num_steps;
  for (int i = 0; i < c->n; i++) {
    if (c->workers[i]->num_runs != SIGNATURES + num_steps)
      return WEFT_ERROR(INTERNAL, "worker %d ran %d graphs in %d steps", i, c->workers[i]->num_runs,
                        SIGNATURES + num_steps);
  }
  return NULL;
}

weft_status_t *weft_bench_master_costs(int num_workers, int num_steps, weft_master_costs_t *out) {
  modelled_cluster_t c = {.n = num_workers};
  weft_strbuf_t graph = WEFT_STRBUF_INIT;
  write_graph(num_workers, &graph);
  weft_status_t *s = graph.failed ? WEFT_NO_MEMORY("%d workers", num_workers) : build(&c);
  if (s == NULL) s = measure(&c, weft_str_of(graph.data, graph.length), num_steps, out);
  take_down(&c);
  weft_strbuf_deinit(&graph);
  return s;
}

typedef struct costs_bench {
  int num_workers, num_steps;
} costs_bench_t;

static weft_status_t *be_master(void *arg, int to, int until) {
  (void)until;
  const costs_bench_t *j = arg;
  weft_master_costs_t costs = {.cpu_ns_step = 0};
  WEFT_RETURN_IF_ERROR(weft_bench_master_costs(j->num_workers, j->num_steps, &costs));
  return weft_write_all(to, &costs, sizeof costs) ? NULL
                                                  : WEFT_ERROR(INTERNAL, "the result cannot be written");
}

static weft_status_t *in_child(int num_workers, const weft_bench_options_t *o, weft_master_costs_t *out) {
  costs_bench_t job = {num_workers, o->is_quick ? 20 : 500};
  weft_child_t child;
  weft_status_t *s = weft_child_start(be_master, &job, "thousand_workers", out, sizeof *out, &child);
  weft_child_end(&child);
  return s;
}

/* A quarter of the workers is measured before: linear is what costs a worker the same. */
weft_status_t *weft_bench_master_step(const weft_bench_options_t *o, double *out_value) {
  weft_master_costs_t quarter, whole;
  WEFT_RETURN_IF_ERROR(in_child(WORKERS / 4, o, &quarter));
  WEFT_RETURN_IF_ERROR(in_child(WORKERS, o, &whole));
  if (whole.cpu_ns_step > 8 * quarter.cpu_ns_step) {
    return WEFT_ERROR(INTERNAL, "not linear: a step of %d workers costs %.0f us, of a quarter %.0f us",
                      WORKERS, whole.cpu_ns_step / 1e3, quarter.cpu_ns_step / 1e3);
  }
  *out_value = whole.cpu_ns_step / 1e3 / WORKERS;
  return NULL;
}

weft_status_t *weft_bench_master_memory(const weft_bench_options_t *o, double *out_value) {
  weft_master_costs_t costs;
  WEFT_RETURN_IF_ERROR(in_child(WORKERS, o, &costs));
  *out_value = costs.bytes_signature / 1e3 / WORKERS;
  return NULL;
}
