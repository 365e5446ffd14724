/* server/server.c - a task with gRPC around it.
 *
 * Made bottom up: channels to other tasks, worker and master, services, server.
 * Stopped top down: master and worker cancel what runs, so that every call in
 * flight is answered; then the server drains.
 */
#include "server/server.h"

#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/mutex.h"
#include "device/device_name.h"
#include "server/health.h"
#include "server/metrics.h"
#include "server/task.h"
#include "server/worker_cache.h"
#include "services/remote_master.h"
#include "services/remote_metrics.h"
#include "services/remote_worker.h"

enum { STOP_GRACE_MS = 300, CALLS_GRACE_MS = 200 };

struct weft_server {
  weft_cluster_t cluster;
  weft_server_clusters_t clusters;
  weft_task_t task;
  weft_rpc_client_t *rpc_client;
  weft_rpc_server_t *rpc_server;
  weft_worker_service_t *worker_service;
  weft_master_service_t *master_service;
  weft_metrics_service_t *metrics_service;
  weft_health_t *health;
  char *host;
  char *target; /* set by the start */
  weft_mutex_t mu;
  weft_cond_t stopped_cond;
  bool started, stopping, stopped; /* guarded by mu */
  void (*on_replaced)(void *arg, const weft_status_t *why);
  void *on_replaced_arg;
  pthread_t leaver; /* stops a server that was replaced */
  bool has_leaver;  /* guarded by mu */
};

static weft_status_t *find_port(const weft_server_options_t *o, const weft_cluster_t *cluster,
                                int *out_port) {
  const weft_cluster_task_t *own = weft_cluster_find(cluster, o->job, o->task);
  if (own == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the cluster has no task %d of job '%.*s'", o->task,
                      WEFT_STR_ARGS(o->job));
  }
  *out_port = o->port;
  if (o->port >= 0) return NULL;
  ptrdiff_t colon = weft_str_rfind(own->address, ':');
  uint64_t port = 0;
  (void)weft_str_to_u64(weft_str_of(own->address.data + colon + 1, own->address.length - (size_t)colon - 1),
                        &port);
  *out_port = (int)port; /* the cluster's reader has checked it */
  return NULL;
}

/* A leader that is not there would be waited for by every collective. A text that names no task leaves the
 * choice to the worker. */
static weft_status_t *check_leader(weft_str_t leader, const weft_cluster_t *cluster) {
  weft_device_name_t name;
  weft_status_t *s = leader.length == 0 ? NULL : weft_device_name_parse(leader, &name);
  bool is_task = leader.length > 0 && s == NULL && name.has_job && name.has_task;
  weft_status_free(s);
  if (!is_task || weft_cluster_find(cluster, name.job, name.task) != NULL) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "the collective leader '%.*s' is not a task of the cluster",
                    WEFT_STR_ARGS(leader));
}

static void *leave(void *arg) {
  weft_server_stop(arg);
  return NULL;
}

/* Not on this thread: the stop waits for it. */
static void replaced(void *arg, const weft_status_t *why) {
  weft_server_t *s = arg;
  weft_log(WEFT_LOG_ERROR, "this process was replaced, and stops: %s", weft_status_message(why));
  if (s->on_replaced != NULL) s->on_replaced(s->on_replaced_arg, why);
  weft_mutex_lock(&s->mu);
  s->has_leaver = !s->stopping && pthread_create(&s->leaver, NULL, leave, s) == 0;
  weft_mutex_unlock(&s->mu);
}

static void write_metrics(void *arg, weft_strbuf_t *out) { weft_server_write_metrics(arg, out); }

static weft_status_t *build(weft_server_t *s, const weft_server_options_t *o) {
  int port = 0;
  WEFT_RETURN_IF_ERROR(weft_cluster_copy(o->cluster, &s->cluster));
  WEFT_RETURN_IF_ERROR(check_leader(o->collective_leader, &s->cluster));
  WEFT_RETURN_IF_ERROR(find_port(o, &s->cluster, &port));
  s->host = weft_strdup(o->host == NULL ? "127.0.0.1" : o->host);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "/job:%.*s/replica:0/task:%d", WEFT_STR_ARGS(o->job), o->task);
  if (s->host == NULL || text.failed) {
    weft_strbuf_deinit(&text);
    return WEFT_NO_MEMORY("a server");
  }
  weft_str_t name = weft_str_of(text.data, text.length);
  weft_worker_cache_t *cache = NULL;
  weft_status_t *status = weft_rpc_client_create(0, &s->rpc_client);
  if (status == NULL) status = weft_worker_cache_create(&s->cluster, name, s->rpc_client, &cache);
  if (status == NULL) {
    /* The job's name that the cluster has lives as long as the server. */
    weft_server_clusters_init(&s->clusters, weft_cluster_find(&s->cluster, o->job, o->task)->job, o->task,
                              s->rpc_client);
    const weft_task_options_t task = {o->num_threads,          o->num_cpus,
                                      o->accelerators,         o->collective_leader,
                                      o->collectives_only_rpc, o->client_grace_ms};
    status = weft_task_init(name, task, false, cache, &s->clusters, &s->task);
  }
  weft_strbuf_deinit(&text);
  if (status != NULL) return status;
  weft_rpc_server_options_t rpc = {.host = s->host, .port = port, .client = s->rpc_client};
  WEFT_RETURN_IF_ERROR(weft_rpc_server_create(&rpc, &s->rpc_server));
  WEFT_RETURN_IF_ERROR(weft_worker_service_create(s->task.worker_client, s->rpc_server, &s->worker_service));
  WEFT_RETURN_IF_ERROR(weft_master_service_create(s->task.master_client, s->rpc_server, &s->master_service));
  weft_health_options_t health = {.cluster = &s->cluster,
                                  .job = o->job,
                                  .task = o->task,
                                  .own = &s->task,
                                  .rpc = s->rpc_client,
                                  .heartbeat_ms = o->heartbeat_ms < 0    ? 0
                                                  : o->heartbeat_ms == 0 ? WEFT_HEARTBEAT_MS
                                                                         : o->heartbeat_ms,
                                  .on_replaced = replaced,
                                  .on_replaced_arg = s};
  s->on_replaced = o->on_replaced;
  s->on_replaced_arg = o->on_replaced_arg;
  WEFT_RETURN_IF_ERROR(weft_health_create(&health, s->rpc_server, &s->health));
  return weft_metrics_service_create(s->rpc_server, write_metrics, s, &s->metrics_service);
}

weft_status_t *weft_server_create(const weft_server_options_t *o, weft_server_t **out) {
  weft_server_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("a server");
  weft_mutex_init(&s->mu);
  weft_cond_init(&s->stopped_cond);
  weft_status_t *status = build(s, o);
  if (status != NULL) {
    weft_server_destroy(s);
    return status;
  }
  *out = s;
  return NULL;
}

weft_status_t *weft_server_start(weft_server_t *s) {
  weft_mutex_lock(&s->mu);
  bool again = s->started, late = s->stopping;
  s->started = true;
  weft_mutex_unlock(&s->mu);
  if (late) return WEFT_ERROR(FAILED_PRECONDITION, "the server was stopped and cannot be started again");
  if (again) return NULL;
  WEFT_RETURN_IF_ERROR(weft_rpc_server_start(s->rpc_server));
  atomic_store(&s->clusters.port, weft_rpc_server_port(s->rpc_server));
  WEFT_RETURN_IF_ERROR(weft_health_start(s->health));
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "grpc://%s:%d", s->host, weft_rpc_server_port(s->rpc_server));
  return weft_strbuf_finish(&text, &s->target, NULL);
}

void weft_server_stop(weft_server_t *s) {
  weft_mutex_lock(&s->mu);
  bool mine = !s->stopping;
  s->stopping = true;
  while (!mine && !s->stopped) weft_cond_wait(&s->stopped_cond, &s->mu); /* woken by the thread that stops */
  weft_mutex_unlock(&s->mu);
  if (!mine) return;
  if (s->task.worker != NULL) weft_worker_leave(s->task.worker);
  weft_health_stop(s->health);
  weft_task_stop(&s->task);
  if (s->rpc_server != NULL) weft_rpc_server_stop(s->rpc_server, STOP_GRACE_MS);
  if (s->rpc_client != NULL)
    weft_rpc_client_stop(s->rpc_client,
                         CALLS_GRACE_MS); /* peers are told of closed sessions, if they listen */
  weft_mutex_lock(&s->mu);
  s->stopped = true;
  weft_cond_broadcast(&s->stopped_cond);
  weft_mutex_unlock(&s->mu);
}

void weft_server_join(weft_server_t *s) {
  weft_mutex_lock(&s->mu);
  while (!s->stopped) weft_cond_wait(&s->stopped_cond, &s->mu); /* woken by weft_server_stop */
  weft_mutex_unlock(&s->mu);
}

void weft_server_destroy(weft_server_t *s) {
  if (s == NULL) return;
  weft_server_stop(s);
  if (s->has_leaver) pthread_join(s->leaver, NULL); /* its stop is over: ours has waited for it */
  weft_rpc_server_destroy(s->rpc_server);
  weft_master_service_destroy(s->master_service);
  weft_worker_service_destroy(s->worker_service);
  weft_metrics_service_destroy(s->metrics_service);
  weft_health_destroy(s->health);
  weft_task_deinit(&s->task);
  weft_rpc_client_destroy(s->rpc_client);
  weft_cluster_deinit(&s->cluster);
  weft_cond_deinit(&s->stopped_cond);
  weft_mutex_deinit(&s->mu);
  weft_free(s->host);
  weft_free(s->target);
  weft_free(s);
}

const char *weft_server_target(const weft_server_t *s) { return s->target; }

weft_status_t *weft_server_why_not_ready(weft_server_t *s) {
  weft_mutex_lock(&s->mu);
  const bool serves = s->started && !s->stopping;
  weft_mutex_unlock(&s->mu);
  return serves ? NULL : WEFT_ERROR(UNAVAILABLE, "the task does not serve yet, or no longer");
}

void weft_server_write_metrics(weft_server_t *s, weft_strbuf_t *out) {
  weft_task_write_metrics(&s->task, weft_health_membership(s->health), out);
}

struct weft_collectives *weft_server_collectives(weft_server_t *s) {
  return weft_worker_collectives(s->task.worker);
}
struct weft_link_counters *weft_server_counters(weft_server_t *s) {
  return weft_worker_counters(s->task.worker);
}
