/* tools/observe/tasks.c - a channel and a client for each task of a cluster. */
#include "base/alloc.h"
#include "rpc/channel.h"
#include "services/remote_worker.h"
#include "tools/observe/observer.h"

enum { RPC_THREADS = 2 };

struct weft_observed_tasks {
  const weft_cluster_t *cluster; /* borrowed */
  weft_rpc_client_t *rpc;
  int n;
  weft_worker_client_t **workers; /* n; owned */
};

static weft_status_t *connect_task(weft_observed_tasks_t *t, int i) {
  const weft_cluster_task_t *task = &t->cluster->tasks[i];
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_rpc_channel_t *channel = NULL;
  weft_strbuf_printf(&name, "/job:%.*s/replica:0/task:%d", WEFT_STR_ARGS(task->job), task->index);
  weft_status_t *s = name.failed ? WEFT_NO_MEMORY("a task") : NULL;
  if (s == NULL) s = weft_rpc_channel_create(t->rpc, task->address, &channel);
  if (s == NULL) weft_rpc_channel_name_peer(channel, weft_str_of(name.data, name.length));
  if (s == NULL)
    s = weft_remote_worker_client_create(channel, weft_str_of(name.data, name.length), &t->workers[i]);
  weft_rpc_channel_release(channel);
  weft_strbuf_deinit(&name);
  return s;
}

weft_status_t *weft_observed_tasks_connect(const weft_cluster_t *cluster, weft_observed_tasks_t **out) {
  weft_observed_tasks_t *t = weft_calloc(1, sizeof *t);
  if (t != NULL) t->workers = weft_calloc((size_t)cluster->num_tasks + 1, sizeof(weft_worker_client_t *));
  weft_status_t *s = t == NULL || t->workers == NULL ? WEFT_NO_MEMORY("a cluster") : NULL;
  if (s == NULL) s = weft_rpc_client_create(RPC_THREADS, &t->rpc);
  if (s == NULL) {
    t->cluster = cluster;
    t->n = cluster->num_tasks;
  }
  for (int i = 0; s == NULL && i < t->n; i++) s = connect_task(t, i);
  if (s != NULL) {
    weft_observed_tasks_disconnect(t);
    return s;
  }
  *out = t;
  return NULL;
}

void weft_observed_tasks_disconnect(weft_observed_tasks_t *t) {
  if (t == NULL) return;
  for (int i = 0; i < t->n; i++) weft_worker_client_release(t->workers[i]);
  weft_rpc_client_destroy(t->rpc);
  weft_free(t->workers);
  weft_free(t);
}

int weft_observed_tasks_count(const weft_observed_tasks_t *t) { return t->n; }

weft_observed_task_t weft_observed_tasks_get(const weft_observed_tasks_t *t, int i) {
  return (weft_observed_task_t){t->workers[i]->task, t->cluster->tasks[i].address, t->workers[i]};
}

/* The first line: what follows are the texts of gRPC. */
static weft_str_t first_line(const char *text) { return weft_str_of(text, strcspn(text, "\n")); }

weft_status_t *weft_observed_tasks_explain(const weft_observed_tasks_t *t, int i, weft_status_t *failure,
                                           bool was_reached) {
  if (failure == NULL) return NULL;
  const weft_observed_task_t task = weft_observed_tasks_get(t, i);
  weft_code_t code = weft_status_code(failure);
  weft_str_t why = first_line(weft_status_message(failure));
  weft_status_t *s = NULL;
  bool is_silent = code == WEFT_UNAVAILABLE || code == WEFT_DEADLINE_EXCEEDED;
  if (code == WEFT_UNIMPLEMENTED) {
    s = WEFT_ERROR(UNIMPLEMENTED,
                   "task %.*s at %.*s cannot be observed: it is no Weft server, or an older one",
                   WEFT_STR_ARGS(task.name), WEFT_STR_ARGS(task.address));
  } else if (is_silent && !was_reached) {
    s = WEFT_ERROR(UNAVAILABLE,
                   "task %.*s does not answer at %.*s; is its `weft server` running, and is --cluster right?",
                   WEFT_STR_ARGS(task.name), WEFT_STR_ARGS(task.address));
  } else if (is_silent || code == WEFT_NOT_FOUND) {
    s = WEFT_ERROR(UNAVAILABLE, "task %.*s at %.*s was lost while it was observed: %.*s",
                   WEFT_STR_ARGS(task.name), WEFT_STR_ARGS(task.address), WEFT_STR_ARGS(why));
  } else {
    s = weft_status_new(code, __FILE__, __LINE__, "task %.*s at %.*s: %.*s", WEFT_STR_ARGS(task.name),
                        WEFT_STR_ARGS(task.address), WEFT_STR_ARGS(why));
  }
  weft_status_free(failure);
  return s;
}
