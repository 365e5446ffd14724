/* server/cluster_maker.c - reads what clients and masters send, refuses what TensorFlow refuses.
 * Reference 3.10. */
#include "server/cluster_maker.h"

#include "base/alloc.h"
#include "protos/wire.h"
#include "server/worker_cache.h"

static weft_server_clusters_t *of(weft_cluster_maker_t *m) { return (weft_server_clusters_t *)(void *)m; }

/* The cluster in protobuf's text format, on one line or on many: messages quote it so. */
static void print(const weft_cluster_t *c, bool is_short, weft_strbuf_t *out) {
  const char *line = is_short ? " " : "\n", *in = is_short ? "" : "  ", *in2 = is_short ? "" : "    ";
  for (int i = 0; i < c->num_tasks; i++) {
    const weft_cluster_task_t *t = &c->tasks[i];
    bool is_first = i == 0 || !weft_str_eq(t[-1].job, t->job);
    bool is_last = i + 1 == c->num_tasks || !weft_str_eq(t[1].job, t->job);
    if (is_first) weft_strbuf_printf(out, "job {%s%sname: \"%.*s\"%s", line, in, WEFT_STR_ARGS(t->job), line);
    weft_strbuf_printf(out, "%stasks {%s%skey: %d%s%svalue: \"%.*s\"%s%s}%s", in, line, in2, t->index, line,
                       in2, WEFT_STR_ARGS(t->address), line, in, line);
    if (is_last) weft_strbuf_printf(out, "}%s", is_short && i + 1 == c->num_tasks ? "" : line);
  }
}

/* `before`, the cluster, nothing else. */
static weft_status_t *refuse(const char *before, const weft_cluster_t *c, bool is_short) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  print(c, is_short, &text);
  weft_status_t *s =
      WEFT_ERROR(INVALID_ARGUMENT, "%s%s", before, text.failed || text.data == NULL ? "" : text.data);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *refuse_twins(weft_str_t target, const weft_cluster_t *c) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(
      &text,
      "Found multiple matching tasks that correspond to to the master. Master target: '%.*s'. ClusterDef: ",
      WEFT_STR_ARGS(target));
  weft_status_t *s = refuse(text.failed ? "" : text.data, c, true);
  weft_strbuf_deinit(&text);
  return s;
}

/* Which of the cluster's tasks is the one whose address the client called? */
static weft_status_t *find_self(const weft_server_clusters_t *m, const weft_cluster_t *c, weft_str_t target,
                                int *out) {
  weft_str_t address = target;
  static const char scheme[] = "grpc://";
  size_t skip = sizeof scheme - 1;
  if (weft_str_starts_with(target, scheme)) address = weft_str_of(target.data + skip, target.length - skip);
  int found = -1;
  for (int i = 0; i < c->num_tasks; i++) {
    const weft_cluster_task_t *t = &c->tasks[i];
    if (!weft_str_eq(t->address, address)) continue;
    if (found >= 0) return refuse_twins(target, c);
    if (t->index == m->task && weft_str_eq(t->job, m->job)) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "The ClusterSpec names the job and task index to be the same names that were provided when the "
          "server booted. This is currently not allowed. Job: %.*s, task index: %d",
          WEFT_STR_ARGS(t->job), t->index);
    }
    found = i;
  }
  if (found < 0)
    return refuse("The master (current machine) is not included in the provided cluster_def. ", c, false);
  *out = found;
  return NULL;
}

/* A caller has reached this process by `address`, so the port should be the one it listens on. */
static weft_status_t *check_port(weft_server_clusters_t *m, weft_str_t address) {
  ptrdiff_t colon = weft_str_rfind(address, ':');
  uint64_t port = 0;
  (void)weft_str_to_u64(weft_str_of(address.data + colon + 1, address.length - (size_t)colon - 1), &port);
  int bound = atomic_load(&m->port);
  if (bound == 0 || port == (uint64_t)bound) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Requested port %d differs from expected port %d", (int)port, bound);
}

/* Makes *out: every task reached over its channel, but `own` by a client in this process. */
static weft_status_t *make(weft_server_clusters_t *m, const weft_cluster_t *c, weft_str_t job, int index,
                           weft_session_cluster_t *out) {
  weft_session_cluster_t made = {NULL, NULL};
  weft_worker_client_t *self = NULL;
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "/job:%.*s/replica:0/task:%d", WEFT_STR_ARGS(job), index);
  weft_status_t *s = weft_strbuf_finish(&name, &made.task, NULL);
  if (s == NULL) s = weft_worker_cache_create(c, weft_str(made.task), m->rpc, &made.cache);
  if (s == NULL) s = weft_local_worker_client_create_as(m->worker, weft_str(made.task), &self);
  if (s == NULL)
    weft_worker_cache_set_log(made.cache, weft_worker_transfers(m->worker), weft_worker_counters(m->worker));
  if (s == NULL) weft_worker_cache_set_local(made.cache, self);
  weft_worker_client_release(self);
  if (s != NULL) {
    weft_session_cluster_deinit(&made);
    return s;
  }
  *out = made;
  return NULL;
}

static weft_status_t *for_master(weft_cluster_maker_t *base, weft_str_t cluster_def, weft_str_t target,
                                 weft_session_cluster_t *out) {
  weft_server_clusters_t *m = of(base);
  weft_cluster_t c = {.arena = WEFT_ARENA_INIT};
  int own = -1;
  WEFT_RETURN_IF_ERROR(weft_cluster_from_cluster_def(cluster_def, &c));
  weft_status_t *s = find_self(m, &c, target, &own);
  if (s == NULL) s = check_port(m, c.tasks[own].address);
  if (s == NULL) s = make(m, &c, c.tasks[own].job, c.tasks[own].index, out);
  weft_cluster_deinit(&c);
  return s;
}

/* ServerDef {cluster = 1, ...}. Masters always send one; without a cluster it means the worker's own. */
static bool has_cluster(weft_str_t server_def) {
  weft_wire_reader_t r = weft_wire_reader(server_def);
  weft_wire_field_t f;
  bool yes = false;
  while (weft_wire_next(&r, &f))
    yes = yes || (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES) && f.bytes.length > 0);
  return yes || r.failed; /* bad bytes are refused where they are read whole */
}

static weft_status_t *for_worker(weft_cluster_maker_t *base, weft_str_t server_def,
                                 weft_session_cluster_t *out) {
  weft_cluster_t c = {.arena = WEFT_ARENA_INIT};
  weft_str_t job = {NULL, 0};
  int task = 0;
  if (!has_cluster(server_def)) return NULL;
  WEFT_RETURN_IF_ERROR(weft_cluster_from_server_def(server_def, &c, &job, &task));
  weft_status_t *s = NULL;
  if (weft_cluster_find(&c, job, task) == NULL) {
    s = WEFT_ERROR(INVALID_ARGUMENT,
                   "CreateWorkerSession: the cluster in server_def has no task %d of job '%.*s'", task,
                   WEFT_STR_ARGS(job));
  }
  if (s == NULL) s = make(of(base), &c, job, task, out);
  weft_cluster_deinit(&c);
  return s;
}

void weft_server_clusters_init(weft_server_clusters_t *c, weft_str_t job, int task, weft_rpc_client_t *rpc) {
  *c = (weft_server_clusters_t){.base = {for_master, for_worker}, .rpc = rpc, .job = job, .task = task};
  atomic_init(&c->port, 0);
}
