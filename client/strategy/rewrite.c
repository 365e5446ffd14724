/* client/strategy/rewrite.c - strategies of strategies/ applied to a serialized graph, for C programs. */
#include "base/alloc.h"
#include "client/cluster.h"
#include "client/status.h"
#include "device/device.h"
#include "graph/graph_proto.h"
#include "kernels/loaded/library.h"
#include "strategies/strategy.h"
#include "weft/strategy.h"

enum { MAX_CPUS = 1024 };

struct WEFT_Rewrite {
  weft_rewrite_t rewrite;
  weft_strbuf_t explained;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a rewritten graph"); }

static weft_status_t *read_names(weft_arena_t *arena, const char *const *texts, weft_names_t *out) {
  int n = 0;
  while (texts != NULL && texts[n] != NULL) n++;
  weft_str_t *items = weft_arena_calloc(arena, (size_t)n + 1, sizeof *items);
  if (items == NULL) return no_memory();
  for (int i = 0; i < n; i++) items[i] = weft_str(texts[i]);
  *out = (weft_names_t){items, n};
  return NULL;
}

static weft_status_t *add_task(weft_arena_t *arena, weft_str_t job, int index, int cpus,
                               weft_task_devices_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "/job:%.*s/replica:0/task:%d", WEFT_STR_ARGS(job), index);
  weft_str_t task =
      text.failed ? (weft_str_t){NULL, 0} : weft_arena_str(arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  *out = (weft_task_devices_t){.task = task, .job = job, .index = index, .num_cpus = cpus};
  return task.data == NULL ? no_memory() : NULL;
}

/* No cluster: this process, which can be given any number of devices. */
static weft_status_t *view_cluster(weft_arena_t *arena, const WEFT_Cluster *cluster, int cpus,
                                   weft_cluster_view_t *out) {
  const weft_cluster_t *from = cluster == NULL ? NULL : weft_client_cluster(cluster);
  int n = from == NULL ? 1 : from->num_tasks;
  weft_task_devices_t *tasks = weft_arena_calloc(arena, (size_t)n + 1, sizeof *tasks);
  if (tasks == NULL) return no_memory();
  *out = (weft_cluster_view_t){.tasks = tasks, .num_tasks = n};
  if (from == NULL) {
    out->num_local_cpus = MAX_CPUS;
    WEFT_RETURN_IF_ERROR(add_task(arena, WEFT_STR("localhost"), 0, 1, &tasks[0]));
    weft_device_libraries_load();
    const weft_device_driver_t *driver = weft_device_accelerator();
    if (driver != NULL) tasks[0].accelerator = weft_str(driver->type);
    if (driver != NULL) tasks[0].num_accelerators = weft_device_count(driver);
    return NULL;
  }
  if (cpus < 1 || cpus > MAX_CPUS) return WEFT_ERROR(INVALID_ARGUMENT, "%d CPU devices per task", cpus);
  for (int i = 0; i < n; i++) {
    const weft_cluster_task_t *t = &from->tasks[i];
    ptrdiff_t colon = weft_str_rfind(t->address, ':');
    WEFT_RETURN_IF_ERROR(add_task(arena, t->job, t->index, cpus, &tasks[i]));
    tasks[i].host = weft_str_of(t->address.data, colon < 0 ? 0 : (size_t)colon);
  }
  return NULL;
}

static weft_status_t *apply(weft_arena_t *arena, weft_graph_t *graph, const char *text,
                            const WEFT_Cluster *cluster, int cpus, const WEFT_RewriteNames *names,
                            WEFT_Rewrite *out) {
  static const WEFT_RewriteNames none;
  if (names == NULL) names = &none;
  weft_cluster_view_t view;
  weft_strategy_request_t request = {.graph = graph, .cluster = &view};
  WEFT_RETURN_IF_ERROR(view_cluster(arena, cluster, cpus, &view));
  WEFT_RETURN_IF_ERROR(read_names(arena, names->feeds, &request.feeds));
  WEFT_RETURN_IF_ERROR(read_names(arena, names->fetches, &request.fetches));
  WEFT_RETURN_IF_ERROR(read_names(arena, names->targets, &request.targets));
  WEFT_RETURN_IF_ERROR(read_names(arena, names->inits, &request.inits));
  WEFT_RETURN_IF_ERROR(weft_strategy_apply(weft_str(text), &request, &out->rewrite));
  WEFT_RETURN_IF_ERROR(weft_strategy_explain(&out->rewrite, &out->explained));
  return out->explained.failed ? no_memory() : NULL;
}

WEFT_Rewrite *WEFT_RewriteGraph(const TF_Buffer *graph_def, const char *strategy, const WEFT_Cluster *cluster,
                                int cpus_per_task, const WEFT_RewriteNames *names, TF_Status *status) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_graph_t *graph = NULL;
  weft_import_options_t import = {.is_client_api = true};
  WEFT_Rewrite *r = weft_calloc(1, sizeof *r);
  weft_status_t *s = r == NULL ? no_memory() : weft_graph_create(&graph);
  if (s == NULL && graph_def == NULL)
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s: which graph? it is NULL", __func__);
  if (s == NULL) s = weft_graph_import(graph, weft_str_of(graph_def->data, graph_def->length), &import);
  if (s == NULL) s = apply(&arena, graph, strategy, cluster, cpus_per_task, names, r);
  weft_graph_destroy(graph);
  weft_arena_deinit(&arena);
  if (weft_client_end(status, s)) return r;
  WEFT_DeleteRewrite(r);
  return NULL;
}

void WEFT_DeleteRewrite(WEFT_Rewrite *r) {
  if (r == NULL) return;
  weft_rewrite_deinit(&r->rewrite);
  weft_strbuf_deinit(&r->explained);
  weft_free(r);
}

TF_Buffer *WEFT_RewriteGraphDef(const WEFT_Rewrite *r, TF_Status *status) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_graph_export(r->rewrite.graph, false, &bytes);
  if (s == NULL && bytes.failed) s = no_memory();
  TF_Buffer *out =
      s == NULL ? TF_NewBufferFromString(bytes.data == NULL ? "" : bytes.data, bytes.length) : NULL;
  weft_strbuf_deinit(&bytes);
  return weft_client_end(status, s) ? out : NULL;
}

int WEFT_RewriteNumLocalCPUs(const WEFT_Rewrite *r) { return r->rewrite.num_local_cpus; }
const char *WEFT_RewriteExplain(const WEFT_Rewrite *r) {
  return r->explained.data == NULL ? "" : r->explained.data;
}
int WEFT_RewriteNumWorkerLoops(const WEFT_Rewrite *r) { return r->rewrite.num_loops; }

static const weft_worker_loop_t *loop_of(const WEFT_Rewrite *r, int loop) {
  return loop < 0 || loop >= r->rewrite.num_loops ? NULL : &r->rewrite.loops[loop];
}

int WEFT_RewriteWorkerLoopIsUpdate(const WEFT_Rewrite *r, int loop) {
  const weft_worker_loop_t *l = loop_of(r, loop);
  return l != NULL && l->kind == WEFT_WORKER_LOOP_UPDATE;
}

static const char *name_at(const weft_names_t *names, int i) {
  return i < 0 || i >= names->n ? NULL : names->items[i].data;
}

const char *WEFT_RewriteWorkerLoopName(const WEFT_Rewrite *r, int loop, WEFT_RewriteNameKind kind, int i) {
  const weft_worker_loop_t *l = loop_of(r, loop);
  if (l == NULL) return NULL;
  switch (kind) {
    case WEFT_REWRITE_FEED: return name_at(&l->feeds, i);
    case WEFT_REWRITE_FETCH: return name_at(&l->fetches, i);
    case WEFT_REWRITE_TARGET: return name_at(&l->targets, i);
  }
  return NULL;
}

int64_t WEFT_RewriteCollectiveGraphKey(const WEFT_Rewrite *r) { return r->rewrite.collective_graph_key; }

const char *WEFT_RewriteInit(const WEFT_Rewrite *r, int i) { return name_at(&r->rewrite.inits, i); }
