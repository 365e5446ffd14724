/* server/worker_cache.c - one client per task, made when first asked for.
 *
 * Locking: `mu` guards the clients and is a leaf.
 */
#include "server/worker_cache.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/mutex.h"
#include "services/remote_worker.h"

typedef struct cache {
  weft_worker_cache_t base;
  weft_arena_t arena;
  weft_rpc_client_t *rpc; /* borrowed */
  weft_str_t *tasks, *addresses;
  int num_tasks, own;
  weft_transfer_log_t *log;            /* borrowed; may be NULL */
  struct weft_link_counters *counters; /* the same */
  weft_mutex_t mu;
  weft_worker_client_t **clients; /* guarded by mu */
  weft_rpc_channel_t **channels;  /* guarded by mu; theirs; NULL for the own task's */
  weft_status_t **losses;         /* guarded by mu; NULL for tasks that are not known to be lost */
} cache_t;

static cache_t *of(weft_worker_cache_t *c) { return (cache_t *)(void *)c; }

static weft_worker_client_t *connect(cache_t *c, int i, weft_rpc_channel_t **out_channel) {
  weft_worker_client_t *w = NULL;
  weft_status_t *s = weft_rpc_channel_create(c->rpc, c->addresses[i], out_channel);
  if (s == NULL) weft_rpc_channel_name_peer(*out_channel, c->tasks[i]);
  if (s == NULL) s = weft_remote_worker_client_create(*out_channel, c->tasks[i], &w);
  if (w != NULL) {
    w->transfers = c->log;
    w->counters = c->counters;
    w->seen_from = c->own >= 0 ? c->tasks[c->own] : WEFT_STR("");
  }
  if (s != NULL) weft_log_status(WEFT_LOG_ERROR, "cannot make a channel to a worker", s);
  return w;
}

static int index_of(const cache_t *c, weft_str_t task) {
  int i = 0;
  while (i < c->num_tasks && !weft_str_eq(c->tasks[i], task)) i++;
  return i < c->num_tasks ? i : -1;
}

static weft_worker_client_t *find(weft_worker_cache_t *base, weft_str_t task) {
  cache_t *c = of(base);
  int i = index_of(c, task);
  if (i < 0) return NULL;
  weft_mutex_lock(&c->mu);
  weft_worker_client_t *w = weft_worker_client_retain(c->clients[i]);
  weft_mutex_unlock(&c->mu);
  if (w != NULL || i == c->own || c->rpc == NULL) return w;
  weft_rpc_channel_t *channel = NULL;
  weft_worker_client_t *mine = connect(c, i, &channel);
  weft_mutex_lock(&c->mu);
  if (c->clients[i] == NULL && mine != NULL) {
    c->clients[i] = weft_worker_client_retain(mine);
    c->channels[i] = channel;
    channel = NULL;
  }
  w = weft_worker_client_retain(c->clients[i]);
  weft_mutex_unlock(&c->mu);
  weft_rpc_channel_release(channel);
  weft_worker_client_release(mine);
  return w;
}

static const weft_str_t *tasks(weft_worker_cache_t *base, int *out_n) {
  *out_n = of(base)->num_tasks;
  return of(base)->tasks;
}

static weft_status_t *lost(weft_worker_cache_t *base, weft_str_t task) {
  cache_t *c = of(base);
  int i = index_of(c, task);
  weft_mutex_lock(&c->mu);
  weft_status_t *s = i < 0 ? NULL : weft_status_clone(c->losses[i]);
  weft_mutex_unlock(&c->mu);
  return s;
}

static void destroy(weft_worker_cache_t *base) {
  cache_t *c = of(base);
  for (int i = 0; c->losses != NULL && i < c->num_tasks; i++) weft_status_free(c->losses[i]);
  weft_free(c->losses);
  for (int i = 0; c->clients != NULL && i < c->num_tasks; i++) weft_worker_client_release(c->clients[i]);
  for (int i = 0; c->channels != NULL && i < c->num_tasks; i++) weft_rpc_channel_release(c->channels[i]);
  weft_free(c->clients);
  weft_free(c->channels);
  weft_mutex_deinit(&c->mu);
  weft_arena_deinit(&c->arena);
  weft_free(c);
}

static weft_status_t *allocate(int num_tasks, cache_t **out) {
  cache_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a cluster");
  c->base = (weft_worker_cache_t){find, tasks, lost, destroy};
  weft_mutex_init(&c->mu);
  c->num_tasks = num_tasks;
  c->clients = weft_calloc((size_t)num_tasks, sizeof(weft_worker_client_t *));
  c->channels = weft_calloc((size_t)num_tasks, sizeof(weft_rpc_channel_t *));
  c->losses = weft_calloc((size_t)num_tasks, sizeof(weft_status_t *));
  c->tasks = weft_arena_calloc(&c->arena, (size_t)num_tasks, sizeof *c->tasks);
  c->addresses = weft_arena_calloc(&c->arena, (size_t)num_tasks, sizeof *c->addresses);
  if (c->clients == NULL || c->channels == NULL || c->losses == NULL || c->tasks == NULL ||
      c->addresses == NULL) {
    destroy(&c->base);
    return WEFT_NO_MEMORY("a cluster");
  }
  *out = c;
  return NULL;
}

weft_status_t *weft_worker_cache_create_local(weft_str_t task, weft_worker_cache_t **out) {
  cache_t *c = NULL;
  WEFT_RETURN_IF_ERROR(allocate(1, &c));
  c->tasks[0] = weft_arena_str(&c->arena, task);
  *out = &c->base;
  return NULL;
}

weft_status_t *weft_worker_cache_create(const weft_cluster_t *cluster, weft_str_t own_task,
                                        weft_rpc_client_t *rpc, weft_worker_cache_t **out) {
  cache_t *c = NULL;
  WEFT_RETURN_IF_ERROR(allocate(cluster->num_tasks, &c));
  c->rpc = rpc;
  c->own = -1;
  bool ok = true;
  for (int i = 0; ok && i < cluster->num_tasks; i++) {
    weft_strbuf_t name = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&name, "/job:%.*s/replica:0/task:%d", WEFT_STR_ARGS(cluster->tasks[i].job),
                       cluster->tasks[i].index);
    c->tasks[i] = weft_arena_str(&c->arena, weft_str_of(name.data, name.length));
    c->addresses[i] = weft_arena_str(&c->arena, cluster->tasks[i].address);
    ok = !name.failed && c->tasks[i].data != NULL && c->addresses[i].data != NULL;
    weft_strbuf_deinit(&name);
    if (ok && weft_str_eq(c->tasks[i], own_task)) c->own = i;
  }
  if (!ok) {
    destroy(&c->base);
    return WEFT_NO_MEMORY("a cluster");
  }
  *out = &c->base;
  return NULL;
}

void weft_worker_cache_set_log(weft_worker_cache_t *base, weft_transfer_log_t *l,
                               struct weft_link_counters *counters) {
  of(base)->log = l;
  of(base)->counters = counters;
}

/* The channel to a task, retained; NULL if it has not been called yet. */
static weft_rpc_channel_t *channel_of(cache_t *c, weft_str_t task) {
  int i = index_of(c, task);
  if (i < 0) return NULL;
  weft_mutex_lock(&c->mu);
  weft_rpc_channel_t *channel = c->channels[i] == NULL ? NULL : weft_rpc_channel_retain(c->channels[i]);
  weft_mutex_unlock(&c->mu);
  return channel;
}

void weft_worker_cache_end_calls(weft_worker_cache_t *c, weft_str_t task, const weft_status_t *why,
                                 int64_t min_age_ms) {
  weft_rpc_channel_t *channel = channel_of(of(c), task);
  if (channel != NULL) weft_rpc_channel_end_calls(channel, why, min_age_ms);
  weft_rpc_channel_release(channel);
}

void weft_worker_cache_refuse(weft_worker_cache_t *c, weft_str_t task, const weft_status_t *why) {
  weft_rpc_channel_t *channel = channel_of(of(c), task);
  if (channel != NULL) weft_rpc_channel_refuse(channel, why);
  weft_rpc_channel_release(channel);
}

void weft_worker_cache_set_lost(weft_worker_cache_t *base, weft_str_t task, const weft_status_t *why) {
  cache_t *c = of(base);
  int i = index_of(c, task);
  if (i < 0) return;
  weft_status_t *copy = weft_status_clone(why);
  weft_mutex_lock(&c->mu);
  weft_status_t *old = c->losses[i];
  c->losses[i] = copy;
  weft_mutex_unlock(&c->mu);
  weft_status_free(old);
}

void weft_worker_cache_set_local(weft_worker_cache_t *base, weft_worker_client_t *local) {
  cache_t *c = of(base);
  weft_mutex_lock(&c->mu);
  c->clients[c->own] = weft_worker_client_retain(local);
  weft_mutex_unlock(&c->mu);
}
