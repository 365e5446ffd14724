/* server/health.c - a server's membership, and what follows from a loss. */
#include "server/health.h"

#include "base/alloc.h"
#include "base/log.h"
#include "server/worker_cache.h"
#include "services/remote_coordination.h"

struct weft_health {
  weft_task_t *own; /* borrowed */
  int64_t heartbeat_ms;
  weft_arena_t arena;
  weft_str_t *names; /* of all tasks, in the cluster's order */
  int num_tasks, own_index, service_task;
  weft_member_t *members; /* room for a list; only for the timer's thread */
  weft_membership_t *membership;
};

/* Ends calls to a task that is lost; returns why. Later calls to a task that is silent but keeps its
 * connections would wait: they are refused. Calls to a task that has ended are not: it may be back before we
 * hear of it. */
static weft_status_t *end_calls(weft_health_t *h, const weft_member_t *m, int64_t min_age_ms) {
  bool is_silent = !m->has_left && m->silent_ms > 2 * h->heartbeat_ms;
  const char *what = m->has_left        ? "was shut down"
                     : is_silent        ? "is lost: it does not answer"
                     : m->silent_ms < 0 ? "was lost for a while, and is there again"
                                        : "is lost: it has ended";
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "The task %.*s %s", WEFT_STR_ARGS(m->task), what);
  if (is_silent && min_age_ms == 0) weft_worker_cache_refuse(h->own->cache, m->task, why);
  if (min_age_ms == 0) weft_worker_cache_set_lost(h->own->cache, m->task, why);
  weft_worker_cache_end_calls(h->own->cache, m->task, why, min_age_ms);
  return why;
}

static void on_change(void *arg, uint64_t epoch, const weft_member_t *m) {
  weft_health_t *h = arg;
  if (weft_str_eq(m->task, h->names[h->own_index])) return;
  bool is_lost = m->state == WEFT_MEMBER_LOST;
  weft_log(is_lost ? WEFT_LOG_WARNING : WEFT_LOG_DEBUG, "%.*s is %s (epoch %llu)", WEFT_STR_ARGS(m->task),
           is_lost ? "lost" : "there", (unsigned long long)epoch);
  if (!is_lost) {
    weft_worker_cache_refuse(h->own->cache, m->task, NULL);
    weft_worker_cache_set_lost(h->own->cache, m->task, NULL);
    weft_worker_task_returned(h->own->worker, m->task, m->incarnation);
    return;
  }
  weft_status_t *why = end_calls(h, m, 0);
  weft_worker_task_lost(h->own->worker, m->task, why);
  weft_status_free(why);
}

/* Ends calls that began while their task was lost. A task that has returned is known within an interval. */
static void on_tick(void *arg) {
  weft_health_t *h = arg;
  int n = weft_membership_list(h->membership, h->members, h->num_tasks);
  for (int i = 0; i < n; i++) {
    if (h->members[i].state == WEFT_MEMBER_LOST)
      weft_status_free(end_calls(h, &h->members[i], 2 * h->heartbeat_ms));
  }
}

static weft_status_t *name_tasks(weft_health_t *h, const weft_health_options_t *o) {
  int n = o->cluster->num_tasks;
  h->own_index = -1;
  h->num_tasks = n;
  h->names = weft_arena_calloc(&h->arena, (size_t)n + 1, sizeof *h->names);
  h->members = weft_arena_calloc(&h->arena, (size_t)n + 1, sizeof *h->members);
  bool ok = h->names != NULL && h->members != NULL;
  for (int i = 0; ok && i < n; i++) {
    const weft_cluster_task_t *t = &o->cluster->tasks[i];
    weft_strbuf_t name = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&name, "/job:%.*s/replica:0/task:%d", WEFT_STR_ARGS(t->job), t->index);
    h->names[i] = weft_arena_str(&h->arena, weft_str_of(name.data, name.length));
    ok = !name.failed && h->names[i].data != NULL;
    weft_strbuf_deinit(&name);
    if (t->index == o->task && weft_str_eq(t->job, o->job)) h->own_index = i;
  }
  if (!ok) return WEFT_NO_MEMORY("the health of %d tasks", n);
  h->service_task = weft_membership_service_task(h->names, n);
  return NULL;
}

/* The connection is made with the first call. The task that hosts the coordination service reaches itself by
 * its address, if the cluster has one. */
static weft_status_t *connect_to_service(weft_health_t *h, const weft_health_options_t *o) {
  bool is_own = h->service_task == h->own_index;
  if (is_own && (h->num_tasks == 1 || weft_str_ends_with(o->cluster->tasks[h->service_task].address, ":0")))
    return NULL;
  weft_rpc_channel_t *channel = NULL;
  weft_coordination_client_t *client = NULL;
  WEFT_RETURN_IF_ERROR(weft_rpc_channel_create(o->rpc, o->cluster->tasks[h->service_task].address, &channel));
  weft_rpc_channel_name_peer(channel, h->names[h->service_task]);
  weft_status_t *s = weft_remote_coordination_client_create(channel, &client);
  weft_rpc_channel_release(channel);
  if (s == NULL && is_own) weft_membership_connect_self(h->membership, client);
  if (s == NULL && !is_own) weft_membership_connect(h->membership, client);
  return s;
}

static weft_status_t *build(weft_health_t *h, const weft_health_options_t *o, weft_rpc_server_t *server) {
  h->own = o->own;
  h->heartbeat_ms = o->heartbeat_ms;
  WEFT_RETURN_IF_ERROR(name_tasks(h, o));
  weft_membership_options_t m = {.tasks = h->names,
                                 .num_tasks = h->num_tasks,
                                 .own = h->own_index,
                                 .service_task = h->service_task,
                                 .incarnation = weft_worker_device(o->own->worker)->incarnation,
                                 .interval_ms = o->heartbeat_ms};
  WEFT_RETURN_IF_ERROR(weft_membership_create(&m, &h->membership));
  weft_membership_watch(h->membership, on_change, h);
  weft_membership_on_tick(h->membership, on_tick, h);
  weft_membership_on_replaced(h->membership, o->on_replaced, o->on_replaced_arg);
  weft_coordination_t *service = weft_membership_service(h->membership);
  if (service != NULL) WEFT_RETURN_IF_ERROR(weft_membership_service_register(service, server));
  return connect_to_service(h, o);
}

weft_status_t *weft_health_create(const weft_health_options_t *o, weft_rpc_server_t *server,
                                  weft_health_t **out) {
  weft_health_t *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return WEFT_NO_MEMORY("a server's health");
  weft_status_t *s = build(h, o, server);
  if (s != NULL) {
    weft_health_destroy(h);
    return s;
  }
  *out = h;
  return NULL;
}

weft_membership_t *weft_health_membership(weft_health_t *h) { return h->membership; }
weft_status_t *weft_health_start(weft_health_t *h) { return weft_membership_start(h->membership); }

void weft_health_stop(weft_health_t *h) {
  if (h != NULL && h->membership != NULL) weft_membership_stop(h->membership);
}

void weft_health_destroy(weft_health_t *h) {
  if (h == NULL) return;
  weft_membership_destroy(h->membership);
  weft_arena_deinit(&h->arena);
  weft_free(h);
}
