/* master/create_session.c - see the header for the way of a creation. */
#include "master/create_session.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "protos/wire.h"

typedef struct session_creation {
  weft_create_options_t o;
  weft_create_session_t request; /* lent */
  weft_master_session_t *session;
  weft_canceller_t *canceller; /* of the waiting: child of the master's */
  weft_canceller_t *call;      /* retained */
  uint64_t call_token;
  bool is_linked;
  weft_created_fn *fn;
  void *arg;
  atomic_int left;
  weft_mutex_t mu;
  weft_status_t *status; /* guarded by mu */
} session_creation_t;

static void finish(session_creation_t *c, weft_status_t *status) {
  if (c->is_linked) weft_canceller_deregister(c->call, c->call_token);
  if (status != NULL) {
    weft_master_session_release(c->session);
    c->session = NULL;
  }
  c->fn(c->arg, status, c->session);
  weft_canceller_release(c->canceller);
  weft_canceller_release(c->call);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

static void nothing(void *arg, weft_status_t *status) {
  (void)arg;
  weft_status_free(status);
}

static void worker_ready(void *arg, weft_status_t *status) {
  session_creation_t *c = arg;
  weft_mutex_lock(&c->mu);
  bool first = c->status == NULL;
  if (first) c->status = status;
  weft_mutex_unlock(&c->mu);
  if (!first) weft_status_free(status);
  if (atomic_fetch_sub(&c->left, 1) != 1) return;
  status = c->status;
  weft_master_session_t *s = c->session;
  for (int i = 0; status != NULL && i < s->num_workers; i++) { /* those that did make one drop it again */
    s->workers[i]->ops->delete_session(s->workers[i], s->handle, nothing, NULL);
  }
  finish(c, status);
}

/* ServerDef {cluster = 1, job_name = 2, task_index = 3, protocol = 5}: what a worker is in the session's own
 * cluster. */
static void put_server_def(weft_str_t cluster_def, weft_str_t task, weft_strbuf_t *out) {
  weft_device_name_t name;
  weft_status_t *s = weft_device_name_parse(task, &name);
  if (s == NULL) {
    weft_wire_put_bytes(out, 1, cluster_def);
    weft_wire_put_bytes(out, 2, name.job);
    weft_wire_put_i64(out, 3, name.task);
  }
  weft_wire_put_text(out, 5, "grpc");
  weft_status_free(s);
}

static void create_on_workers(session_creation_t *c) {
  weft_master_session_t *s = c->session;
  bool has_cluster = s->cluster.cache != NULL;
  weft_worker_session_spec_t spec = {
      .session = s->handle,
      .master_task = c->o.task,
      .isolate = has_cluster ? !s->config.share_state_in_cluster : s->config.isolate_session_state,
      .master_incarnation = (int64_t)s->devices.client->attributes.incarnation};
  atomic_init(&c->left, s->num_workers + 1);
  for (int i = 0; i < s->num_workers; i++) {
    weft_worker_client_t *w = s->workers[i];
    weft_strbuf_t def = WEFT_STRBUF_INIT;
    if (has_cluster) put_server_def(s->config.cluster_def, w->task, &def);
    spec.server_def = weft_str_of(def.data, def.length);
    if (def.failed) {
      worker_ready(c, WEFT_NO_MEMORY("a session"));
    } else {
      w->ops->create_session(w, &spec, worker_ready, c);
    }
    weft_strbuf_deinit(&def);
  }
  worker_ready(c, NULL);
}

/* Device filters apply to devices as well as to tasks; the master's own always take part. */
static weft_status_t *take_devices(session_creation_t *c, weft_device_set_t *found) {
  weft_master_session_t *s = c->session;
  s->devices = *found;
  *found = (weft_device_set_t){.list = {.arena = WEFT_ARENA_INIT}};
  weft_device_list_t *list = &s->devices.list;
  int kept = 0;
  for (int i = 0; i < list->n; i++) {
    if (weft_takes_part(&s->config, list->devices[i].name, c->o.task))
      list->devices[kept++] = list->devices[i];
  }
  list->n = kept;
  return weft_device_set_finish(&s->devices, c->o.task);
}

static void got_devices(void *arg, weft_status_t *status, weft_device_set_t *devices) {
  session_creation_t *c = arg;
  if (status == NULL) status = take_devices(c, devices);
  if (status == NULL) status = weft_master_session_load(c->session, c->request.graph_def);
  if (status != NULL) {
    finish(c, status);
    return;
  }
  create_on_workers(c);
}

/* ---- which tasks take part: reference 3.1, 3 ---- */

bool weft_takes_part(const weft_session_config_t *config, weft_str_t name, weft_str_t master_task) {
  if (config->num_device_filters == 0 || weft_str_eq(weft_device_task_part(name), master_task)) return true;
  weft_device_name_t parsed;
  weft_status_t *s = weft_device_name_parse(name, &parsed);
  bool yes = false;
  for (int i = 0; s == NULL && !yes && i < config->num_device_filters; i++) {
    yes = weft_device_name_intersects(&config->device_filters[i], &parsed);
  }
  weft_status_free(s);
  return yes;
}

static weft_status_t *find_workers(session_creation_t *c) {
  weft_master_session_t *s = c->session;
  int n = 0;
  const weft_str_t *tasks = c->o.cache->tasks(c->o.cache, &n);
  s->workers = weft_calloc((size_t)n + 1, sizeof(weft_worker_client_t *));
  if (s->workers == NULL) return WEFT_NO_MEMORY("a session");
  for (int i = 0; i < n; i++) {
    if (!weft_takes_part(&s->config, tasks[i], c->o.task)) continue;
    weft_worker_client_t *w = c->o.cache->find(c->o.cache, tasks[i]);
    if (w == NULL) return WEFT_ERROR(INTERNAL, "no worker for task '%.*s'", WEFT_STR_ARGS(tasks[i]));
    s->workers[s->num_workers++] = w;
  }
  return NULL;
}

static void caller_gone(void *arg) { weft_canceller_cancel(((session_creation_t *)arg)->canceller); }

static weft_status_t *prepare(session_creation_t *c) {
  WEFT_RETURN_IF_ERROR(weft_master_session_create(c->o.kernels, c->o.evaluator, &c->o.passes, c->o.timer,
                                                  c->request.config, &c->session));
  if (c->request.client.length > 0)
    c->session->client = weft_arena_str(&c->session->arena, c->request.client);
  if (c->session->client.length != c->request.client.length) return WEFT_NO_MEMORY("a session");
  c->session->is_direct = c->o.is_direct;
  c->session->collective_steps = c->o.collective_steps;
  weft_str_t cluster_def = c->session->config.cluster_def;
  if (cluster_def.length > 0 && c->o.clusters == NULL) {
    return WEFT_ERROR(UNIMPLEMENTED, "ConfigProto.cluster_def: a session without servers has no cluster");
  }
  if (cluster_def.length > 0) {
    weft_session_cluster_t *cluster = &c->session->cluster;
    WEFT_RETURN_IF_ERROR(c->o.clusters->for_master(c->o.clusters, cluster_def, c->request.target, cluster));
    c->o.cache = cluster->cache;
    c->o.task = weft_str(cluster->task);
  }
  WEFT_RETURN_IF_ERROR(find_workers(c));
  c->canceller = weft_canceller_create(c->o.stop);
  return c->canceller == NULL ? WEFT_NO_MEMORY("a session") : NULL;
}

void weft_create_session_start(const weft_create_options_t *o, const weft_create_session_t *r,
                               weft_canceller_t *call, weft_created_fn *fn, void *arg) {
  session_creation_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) {
    fn(arg, WEFT_NO_MEMORY("a session"), NULL);
    return;
  }
  c->o = *o;
  c->request = *r;
  c->fn = fn;
  c->arg = arg;
  c->call = weft_canceller_retain(call);
  weft_mutex_init(&c->mu);
  weft_status_t *status = prepare(c);
  if (status != NULL) {
    finish(c, status);
    return;
  }
  if (call != NULL) {
    c->is_linked = weft_canceller_register(call, caller_gone, c, &c->call_token);
    if (!c->is_linked && !weft_canceller_is_cancelled(call)) {
      finish(c, WEFT_NO_MEMORY("a session"));
      return;
    }
    if (!c->is_linked) weft_canceller_cancel(c->canceller);
  }
  const weft_discover_options_t discover = {
      .timer = c->o.timer, .cache = c->o.cache, .discovery_timeout_ms = c->o.discovery_timeout_ms};
  weft_discover_devices(c->session->workers, c->session->num_workers, &discover, c->canceller, got_devices,
                        c);
}
