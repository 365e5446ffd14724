/* master/master.c - the master's calls. */
#include "master/master.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "master/clients.h"
#include "master/collective_steps.h"
#include "master/create_session.h"
#include "master/partial_step.h"
#include "master/session_table.h"
#include "master/step.h"

enum { CLIENT_GRACE_MS = 60000 };

struct weft_master {
  weft_str_t task; /* owned */
  weft_worker_cache_t *cache;
  weft_cluster_maker_t *clusters;
  const weft_kernel_support_t *kernels;
  weft_evaluator_t evaluator; /* evaluate NULL: none */
  weft_pass_settings_t passes;
  int64_t discovery_timeout_ms;
  bool is_direct;
  weft_collective_steps_t *collective_steps;
  weft_session_table_t *sessions;
  weft_clients_t *holders;
  weft_timer_t *timer;
  weft_canceller_t *stop;
};

typedef struct local_master_client {
  weft_master_client_t base;
  weft_master_t *master; /* borrowed */
} local_master_client_t;

static weft_master_t *master_of(weft_master_client_t *c) {
  return ((local_master_client_t *)(void *)c)->master;
}

static weft_status_t *unknown_session(weft_master_t *m, weft_str_t handle) {
  return weft_session_table_unknown(m->sessions, WEFT_ABORTED, handle, "");
}
#define MAYBE_RESTARTED "Possibly, this master has restarted."

static weft_master_session_t *find(weft_master_t *m, weft_str_t handle) {
  return weft_session_table_find(m->sessions, handle);
}

/* ---- CreateSession, ExtendSession ---- */

typedef struct pending_creation {
  weft_master_t *master;
  weft_session_fn *fn;
  void *arg;
  weft_canceller_t *call; /* retained */
} pending_creation_t;

static weft_status_t *add_session(weft_master_t *m, weft_master_session_t *s) {
  WEFT_RETURN_IF_ERROR(weft_clients_enter(m->holders, s->client, &s->life));
  weft_status_t *status = weft_session_table_add(m->sessions, s);
  if (status == NULL) {
    weft_log(WEFT_LOG_DEBUG, "session %.*s has begun%s%.*s", WEFT_STR_ARGS(s->handle),
             s->client.length > 0 ? ": it is of " : "", WEFT_STR_ARGS(s->client));
  } else {
    weft_clients_leave(m->holders, s->client, s->life);
  }
  return status;
}

static void dropped(void *arg, weft_status_t *status) {
  (void)arg;
  weft_status_free(status);
}

static void created(void *arg, weft_status_t *status, weft_master_session_t *s) {
  pending_creation_t *c = arg;
  weft_master_t *m = c->master;
  if (status == NULL) {
    if (weft_canceller_is_cancelled(c->call))
      status = WEFT_ERROR(CANCELLED, "the client is gone: it does not learn the session's handle");
    if (status == NULL) status = add_session(m, s);
    if (status != NULL) weft_master_session_close(s, NULL, dropped, NULL); /* the workers have it */
  }
  status = weft_session_table_blame(m->sessions, status);
  c->fn(c->arg, status, status != NULL ? WEFT_STR("") : s->handle, 0);
  weft_master_session_release(s);
  weft_canceller_release(c->call);
  weft_free(c);
  weft_session_table_end(m->sessions);
}

/* The ids of steps that this master counts may be those of a leader that was restarted since the last
 * session. */
static void create_session(weft_master_client_t *client, const weft_create_session_t *r,
                           weft_canceller_t *canceller, weft_session_fn *fn, void *arg) {
  weft_master_t *m = master_of(client);
  pending_creation_t *c = weft_calloc(1, sizeof *c);
  weft_status_t *s = c == NULL ? WEFT_NO_MEMORY("a session") : weft_session_table_begin(m->sessions);
  if (s != NULL) {
    weft_free(c);
    fn(arg, s, WEFT_STR(""), 0);
    return;
  }
  *c = (pending_creation_t){m, fn, arg, weft_canceller_retain(canceller)};
  weft_collective_steps_doubt(m->collective_steps);
  weft_create_options_t o = {.task = m->task,
                             .cache = m->cache,
                             .clusters = m->clusters,
                             .kernels = m->kernels,
                             .evaluator = m->evaluator.evaluate != NULL ? &m->evaluator : NULL,
                             .passes = m->passes,
                             .is_direct = m->is_direct,
                             .collective_steps = m->collective_steps,
                             .timer = m->timer,
                             .discovery_timeout_ms = m->discovery_timeout_ms,
                             .stop = m->stop};
  weft_create_session_start(&o, r, canceller, created, c);
}

static void extend_session(weft_master_client_t *client, const weft_extend_session_t *r,
                           weft_canceller_t *canceller, weft_number_fn *fn, void *arg) {
  (void)canceller; /* never waits for others */
  weft_master_session_t *s = find(master_of(client), r->session);
  int64_t version = 0;
  weft_status_t *status =
      s == NULL ? unknown_session(master_of(client), r->session) : weft_master_session_extend(s, r, &version);
  fn(arg, status, version);
  weft_master_session_release(s);
}

/* ---- steps ---- */

static void run_plan(weft_master_session_t *s, weft_step_plan_t *p, weft_tensor_t *const *feeds,
                     const weft_named_tensor_t *named, const weft_step_options_t *options,
                     weft_canceller_t *c, weft_run_step_fn *fn, void *arg) {
  enum { ON_STACK = 16 };
  weft_named_tensor_t few[ON_STACK], *sends = few;
  weft_status_t *status = NULL;
  if (p->num_feeds > ON_STACK && (sends = weft_calloc((size_t)p->num_feeds, sizeof *sends)) == NULL) {
    status = WEFT_NO_MEMORY("a step");
  }
  if (status == NULL) status = weft_master_session_begin_step(s);
  if (status != NULL) {
    fn(arg, status, NULL);
  } else {
    for (int i = 0; i < p->num_feeds; i++) {
      sends[i] = (weft_named_tensor_t){p->feed_keys[i], named != NULL ? named[i].tensor : feeds[i]};
    }
    weft_step_request_t request = {.plan = p,
                                   .sends = sends,
                                   .num_sends = p->num_feeds,
                                   .recv_keys = p->fetch_keys,
                                   .num_recvs = p->num_fetches,
                                   .options = *options,
                                   .canceller = c};
    weft_step_run(s, &request, fn, arg);
  }
  if (sends != few) weft_free(sends);
}

static void run_step(weft_master_client_t *client, const weft_run_step_t *r, weft_canceller_t *c,
                     weft_run_step_fn *fn, void *arg) {
  enum { ON_STACK = 16 };
  weft_master_session_t *s = find(master_of(client), r->session);
  if (s == NULL) {
    fn(arg, unknown_session(master_of(client), r->session), NULL);
    return;
  }
  if (r->partial_run_handle.length > 0) {
    weft_partial_step_run(s, r, c, fn, arg);
    weft_master_session_release(s);
    return;
  }
  weft_str_t few[ON_STACK], *feeds = few;
  weft_step_plan_t *p = NULL;
  weft_status_t *status = NULL;
  if (r->num_feeds > ON_STACK && (feeds = weft_calloc((size_t)r->num_feeds, sizeof *feeds)) == NULL) {
    status = WEFT_NO_MEMORY("a step");
  }
  if (status == NULL) {
    for (int i = 0; i < r->num_feeds; i++) feeds[i] = r->feeds[i].name;
    weft_signature_t signature = {.feeds = feeds,
                                  .fetches = r->fetches,
                                  .targets = r->targets,
                                  .num_feeds = r->num_feeds,
                                  .num_fetches = r->num_fetches,
                                  .num_targets = r->num_targets,
                                  .keeps_graphs = r->options.output_partition_graphs,
                                  .debug_options = r->options.debug_options};
    status = weft_master_session_plan(s, &signature, false, &p);
  }
  if (status != NULL) {
    fn(arg, status, NULL);
  } else {
    weft_step_options_t options = r->options;
    if (options.timeout_ms <= 0) options.timeout_ms = s->config.operation_timeout_ms;
    run_plan(s, p, NULL, r->feeds, &options, c, fn, arg);
  }
  if (feeds != few) weft_free(feeds);
  weft_step_plan_release(p);
  weft_master_session_release(s);
}

static void partial_run_setup(weft_master_client_t *client, const weft_partial_run_setup_t *r,
                              weft_canceller_t *c, weft_text_fn *fn, void *arg) {
  weft_master_session_t *s = find(master_of(client), r->session);
  if (s == NULL) {
    fn(arg, unknown_session(master_of(client), r->session), WEFT_STR(""));
    return;
  }
  weft_partial_step_setup(s, r, c, fn, arg);
  weft_master_session_release(s);
}

/* ---- callables ---- */

typedef struct making {
  weft_master_session_t *session;
  weft_step_plan_t *plan;
  weft_number_fn *fn;
  void *arg;
} making_t;

static void made(void *arg, weft_status_t *status) {
  making_t *k = arg;
  weft_master_session_t *s = k->session;
  int64_t handle = 0;
  if (status == NULL) {
    weft_mutex_lock(&s->mu);
    handle = s->next_callable;
    status = weft_map_put_u64(&s->callables, (uint64_t)handle, k->plan, NULL);
    if (status == NULL) s->next_callable++;
    weft_mutex_unlock(&s->mu);
    if (status == NULL) weft_step_plan_retain(k->plan); /* the table's */
  }
  k->fn(k->arg, status, handle);
  weft_step_plan_release(k->plan);
  weft_master_session_release(s);
  weft_free(k);
}

static void make_callable(weft_master_client_t *client, const weft_make_callable_t *r, weft_canceller_t *c,
                          weft_number_fn *fn, void *arg) {
  weft_master_session_t *s = find(master_of(client), r->session);
  weft_step_plan_t *p = NULL;
  weft_status_t *status = s == NULL ? unknown_session(master_of(client), r->session) : NULL;
  if (status == NULL && r->has_device_options) {
    status = WEFT_ERROR(UNIMPLEMENTED,
                        "CallableOptions::feed_devices and CallableOptions::fetch_devices to configure "
                        "feeding/fetching tensors "
                        "to/from device memory is not yet supported when using a remote session.");
  }
  if (status == NULL) {
    weft_signature_t signature = {.feeds = r->feeds,
                                  .fetches = r->fetches,
                                  .targets = r->targets,
                                  .num_feeds = r->num_feeds,
                                  .num_fetches = r->num_fetches,
                                  .num_targets = r->num_targets,
                                  .connections_from = r->connections_from,
                                  .connections_to = r->connections_to,
                                  .num_connections = r->num_connections,
                                  .keeps_graphs = r->options.output_partition_graphs,
                                  .debug_options = r->options.debug_options};
    status = weft_master_session_plan_callable(s, &signature, &p);
  }
  making_t *k = status != NULL ? NULL : weft_calloc(1, sizeof *k);
  if (status == NULL && k == NULL) status = WEFT_NO_MEMORY("a callable");
  if (status != NULL) {
    fn(arg, status, 0);
    weft_step_plan_release(p);
    weft_master_session_release(s);
    return;
  }
  p->timeout_ms = r->options.timeout_ms;
  p->trace_level = r->options.trace_level;
  p->output_partition_graphs = r->options.output_partition_graphs;
  p->collective_graph_key = r->options.collective_graph_key;
  *k = (making_t){s, p, fn, arg};
  weft_step_plan_wait(p, c, made, k);
}

static weft_status_t *unknown_callable(int64_t handle) {
  return WEFT_ERROR(INVALID_ARGUMENT, "No such callable handle: %" PRId64, handle);
}

static void run_callable(weft_master_client_t *client, const weft_run_callable_t *r, weft_canceller_t *c,
                         weft_run_step_fn *fn, void *arg) {
  weft_master_session_t *s = find(master_of(client), r->session);
  if (s == NULL) {
    fn(arg, unknown_session(master_of(client), r->session), NULL);
    return;
  }
  weft_mutex_lock(&s->mu);
  weft_step_plan_t *p = weft_step_plan_retain(weft_map_get_u64(&s->callables, (uint64_t)r->handle));
  weft_mutex_unlock(&s->mu);
  weft_status_t *status = NULL;
  if (p == NULL) {
    status = unknown_callable(r->handle);
  } else if (p->num_feeds != r->num_feeds) {
    status = WEFT_ERROR(INVALID_ARGUMENT, "Expected %d feeds for callable %" PRId64 ", got %d", p->num_feeds,
                        r->handle, r->num_feeds);
  }
  if (status != NULL) {
    fn(arg, status, NULL);
  } else {
    weft_step_options_t options = {
        .trace_level = p->trace_level,
        .output_partition_graphs = p->output_partition_graphs,
        .collective_graph_key = p->collective_graph_key,
        .timeout_ms = p->timeout_ms > 0 ? p->timeout_ms : s->config.operation_timeout_ms};
    run_plan(s, p, r->feeds, NULL, &options, c, fn, arg);
  }
  weft_step_plan_release(p);
  weft_master_session_release(s);
}

static void release_callable(weft_master_client_t *client, weft_str_t session, int64_t handle,
                             weft_done_fn *fn, void *arg) {
  weft_master_session_t *s = find(master_of(client), session);
  weft_step_plan_t *p = NULL;
  if (s != NULL) {
    weft_mutex_lock(&s->mu);
    p = weft_map_remove_u64(&s->callables, (uint64_t)handle);
    weft_mutex_unlock(&s->mu);
    if (p != NULL) atomic_store(&p->is_dropped, true);
  }
  weft_status_t *status = s == NULL ? unknown_session(master_of(client), session) : NULL;
  weft_step_plan_release(p);
  weft_master_session_release(s);
  fn(arg, status);
}

/* ---- the end of sessions ---- */

static void close_session(weft_master_client_t *client, weft_str_t handle, weft_done_fn *fn, void *arg) {
  weft_master_t *m = master_of(client);
  weft_master_session_t *s = weft_session_table_take(m->sessions, handle, "its client closed it");
  if (s == NULL) {
    fn(arg, weft_session_table_unknown(m->sessions, WEFT_ABORTED, handle, MAYBE_RESTARTED));
    return;
  }
  weft_clients_leave(m->holders, s->client, s->life);
  weft_master_session_close(s, NULL, fn, arg);
  weft_master_session_release(s);
}

static void closed(void *arg, weft_status_t *status) {
  weft_master_t *m = arg;
  weft_status_free(status);
  weft_session_table_end(m->sessions);
}

static void client_gone(void *arg, uint64_t life, const char *why) {
  weft_master_t *m = arg;
  weft_status_t *cause = WEFT_ERROR(CANCELLED, "Step was cancelled: %s", why);
  for (weft_master_session_t *s; (s = weft_session_table_take_one(m->sessions, life, why)) != NULL;) {
    weft_log(WEFT_LOG_WARNING, "closing session %.*s: %s", WEFT_STR_ARGS(s->handle), why);
    weft_master_session_close(s, cause, closed, m);
    weft_master_session_release(s);
  }
  weft_status_free(cause);
}

static void hold_client(weft_master_client_t *client, const weft_hold_client_t *r, weft_canceller_t *c,
                        weft_done_fn *fn, void *arg) {
  weft_clients_hold(master_of(client)->holders, r, c, fn, arg);
}

/* ---- ListDevices ---- */

typedef struct listing {
  weft_str_t task; /* the master's */
  weft_devices_fn *fn;
  void *arg;
  weft_worker_client_t **workers;
  int n;
} listing_t;

/* The master's own devices come first, the others keep their order. */
static void own_first(weft_device_list_t *list, weft_str_t task) {
  int own = 0;
  for (int i = 0; i < list->n; i++) {
    weft_device_attributes_t d = list->devices[i];
    if (!weft_str_eq(weft_device_task_part(d.name), task)) continue;
    memmove(&list->devices[own + 1], &list->devices[own], (size_t)(i - own) * sizeof d);
    list->devices[own++] = d;
  }
  list->num_remote = list->n - own;
}

static void listed(void *arg, weft_status_t *status, weft_device_set_t *devices) {
  listing_t *l = arg;
  if (status == NULL) own_first(&devices->list, l->task);
  l->fn(l->arg, status, status == NULL ? &devices->list : NULL);
  for (int i = 0; i < l->n; i++) weft_worker_client_release(l->workers[i]);
  weft_free(l->workers);
  weft_free(l);
}

/* Without a session: everything the master can reach. */
static void list_all(weft_master_t *m, weft_canceller_t *c, weft_devices_fn *fn, void *arg) {
  int n = 0;
  const weft_str_t *tasks = m->cache->tasks(m->cache, &n);
  listing_t *l = weft_calloc(1, sizeof *l);
  weft_worker_client_t **workers = weft_calloc((size_t)n + 1, sizeof(weft_worker_client_t *));
  if (l == NULL || workers == NULL) {
    weft_free(l);
    weft_free(workers);
    fn(arg, WEFT_NO_MEMORY("listing devices"), NULL);
    return;
  }
  *l = (listing_t){.task = m->task, .fn = fn, .arg = arg, .workers = workers};
  for (int i = 0; i < n; i++) {
    workers[l->n] = m->cache->find(m->cache, tasks[i]);
    l->n += workers[l->n] != NULL;
  }
  const weft_discover_options_t discover = {
      .timer = m->timer, .cache = m->cache, .discovery_timeout_ms = m->discovery_timeout_ms};
  weft_discover_devices(workers, l->n, &discover, c, listed, l);
}

static void list_devices(weft_master_client_t *client, weft_str_t handle, weft_canceller_t *c,
                         weft_devices_fn *fn, void *arg) {
  if (handle.length == 0) {
    list_all(master_of(client), c, fn, arg);
    return;
  }
  weft_master_session_t *s = find(master_of(client), handle);
  weft_status_t *status = s != NULL
                              ? NULL
                              : weft_session_table_unknown(master_of(client)->sessions, WEFT_INVALID_ARGUMENT,
                                                           handle, MAYBE_RESTARTED);
  fn(arg, status, s == NULL ? NULL : &s->devices.list);
  weft_master_session_release(s);
}

/* ---- Reset: close every session, then empty the containers everywhere ---- */

typedef struct resetting {
  weft_master_t *master;
  weft_arena_t arena;
  weft_str_t *containers;
  int num_containers;
  weft_session_config_t filters; /* only its device_filters: which tasks are to be cleared */
  atomic_int left;
  weft_mutex_t mu;
  weft_status_t *status; /* guarded by mu */
  weft_done_fn *fn;
  void *arg;
  bool is_clearing;
} resetting_t;

static void reset_one_done(void *arg, weft_status_t *status);

static void clear_containers(resetting_t *r) {
  int n = 0;
  weft_worker_cache_t *cache = r->master->cache;
  const weft_str_t *tasks = cache->tasks(cache, &n);
  r->is_clearing = true;
  atomic_store(&r->left, n + 1);
  for (int i = 0; i < n; i++) {
    bool takes_part = weft_takes_part(&r->filters, tasks[i], r->master->task);
    weft_worker_client_t *w = takes_part ? cache->find(cache, tasks[i]) : NULL;
    if (w == NULL) {
      reset_one_done(r, NULL);
      continue;
    }
    w->ops->cleanup_all(w, r->containers, r->num_containers, reset_one_done, r);
    weft_worker_client_release(w);
  }
  reset_one_done(r, NULL);
}

static void reset_one_done(void *arg, weft_status_t *status) {
  resetting_t *r = arg;
  weft_mutex_lock(&r->mu);
  bool first = r->status == NULL;
  if (first) r->status = status;
  weft_mutex_unlock(&r->mu);
  if (!first) weft_status_free(status);
  if (atomic_fetch_sub(&r->left, 1) != 1) return;
  if (!r->is_clearing) {
    clear_containers(r);
    return;
  }
  weft_master_t *m = r->master;
  r->fn(r->arg, r->status);
  weft_arena_deinit(&r->arena);
  weft_mutex_deinit(&r->mu);
  weft_free(r);
  weft_session_table_end(m->sessions);
}

static weft_status_t *copy_containers(resetting_t *r, const weft_str_t *containers, int n) {
  r->containers = weft_arena_calloc(&r->arena, (size_t)n + 1, sizeof *r->containers);
  for (int i = 0; r->containers != NULL && i < n; i++) {
    r->containers[i] = weft_arena_str(&r->arena, containers[i]);
    if (r->containers[i].data == NULL) r->containers = NULL;
  }
  r->num_containers = n;
  return r->containers == NULL ? WEFT_NO_MEMORY("a reset") : NULL;
}

static weft_status_t *copy_filters(resetting_t *r, const weft_str_t *filters, int n) {
  weft_device_name_t *parsed = weft_arena_calloc(&r->arena, (size_t)n + 1, sizeof *parsed);
  for (int i = 0; parsed != NULL && i < n; i++) {
    weft_str_t copy = weft_arena_str(&r->arena, filters[i]);
    if (copy.data == NULL) return WEFT_NO_MEMORY("a reset");
    weft_status_t *s = weft_device_name_parse(copy, &parsed[i]);
    if (s != NULL) return weft_status_annotate(s, "in ResetRequest.device_filters");
  }
  r->filters = (weft_session_config_t){.device_filters = parsed, .num_device_filters = n};
  return parsed == NULL ? WEFT_NO_MEMORY("a reset") : NULL;
}

/* "a client reset the cluster (containers 'a', 'b')" */
static void say_reset(weft_strbuf_t *out, const weft_str_t *containers, int n) {
  enum { MAX_NAMES = 10, MAX_NAME = 64 };
  weft_strbuf_puts(out, "a client reset the cluster");
  for (int i = 0; i < n && i < MAX_NAMES; i++) {
    weft_str_t name =
        weft_str_of(containers[i].data, containers[i].length < MAX_NAME ? containers[i].length : MAX_NAME);
    weft_strbuf_printf(out, "%s'%.*s'",
                       i > 0    ? ", "
                       : n == 1 ? " (container "
                                : " (containers ",
                       WEFT_STR_ARGS(name));
  }
  if (n > MAX_NAMES) weft_strbuf_printf(out, " and %d more", n - MAX_NAMES);
  if (n > 0) weft_strbuf_putc(out, ')');
}

static void reset(weft_master_client_t *client, const weft_str_t *containers, int num_containers,
                  const weft_str_t *filters, int num_filters, weft_done_fn *fn, void *arg) {
  weft_master_t *m = master_of(client);
  resetting_t *r = weft_calloc(1, sizeof *r);
  weft_status_t *status =
      r == NULL ? WEFT_NO_MEMORY("a reset") : copy_containers(r, containers, num_containers);
  if (status == NULL) status = copy_filters(r, filters, num_filters);
  if (status == NULL) status = weft_session_table_begin(m->sessions);
  if (status != NULL) {
    if (r != NULL) weft_arena_deinit(&r->arena);
    weft_free(r);
    fn(arg, status);
    return;
  }
  r->master = m;
  r->fn = fn;
  r->arg = arg;
  weft_mutex_init(&r->mu);
  atomic_init(&r->left, 1);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  say_reset(&text, containers, num_containers);
  const char *what = text.failed ? "a client reset the cluster" : text.data;
  weft_status_t *why = WEFT_ERROR(
      CANCELLED, "Step was cancelled by an explicit call to `Session::Close()`. The cause: %s", what);
  for (weft_master_session_t *s; (s = weft_session_table_take_one(m->sessions, 0, what)) != NULL;) {
    weft_session_table_end(m->sessions); /* the reset itself is under way */
    weft_clients_leave(m->holders, s->client, s->life);
    atomic_fetch_add(&r->left, 1);
    weft_master_session_close(s, why, reset_one_done, r);
    weft_master_session_release(s);
  }
  weft_status_free(why);
  weft_strbuf_deinit(&text);
  reset_one_done(r, NULL);
}

/* ---- life ---- */

static void destroy_client(weft_master_client_t *c) { weft_free(c); }

static const weft_master_client_ops_t client_ops = {
    .create_session = create_session,
    .extend_session = extend_session,
    .run_step = run_step,
    .partial_run_setup = partial_run_setup,
    .make_callable = make_callable,
    .run_callable = run_callable,
    .release_callable = release_callable,
    .close_session = close_session,
    .list_devices = list_devices,
    .hold_client = hold_client,
    .reset = reset,
    .destroy = destroy_client,
};

weft_status_t *weft_local_master_client_create(weft_master_t *m, weft_master_client_t **out) {
  local_master_client_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a master client");
  c->base.ops = &client_ops;
  c->base.task = m->task;
  c->master = m;
  atomic_init(&c->base.refs, 1);
  *out = &c->base;
  return NULL;
}

weft_status_t *weft_master_create(const weft_master_options_t *o, weft_master_t **out) {
  weft_master_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("a master");
  m->cache = o->cache;
  m->clusters = o->clusters;
  m->kernels = o->kernels;
  if (o->evaluator != NULL) m->evaluator = *o->evaluator;
  m->passes = o->passes != NULL ? *o->passes : weft_pass_defaults();
  m->discovery_timeout_ms = o->discovery_timeout_ms;
  m->is_direct = o->is_direct;
  m->stop = weft_canceller_create(NULL);
  char *task = weft_strndup(o->task.data, o->task.length);
  if (task != NULL) m->task = weft_str(task);
  weft_status_t *s = m->stop == NULL || task == NULL ? WEFT_NO_MEMORY("a master") : NULL;
  if (s == NULL) s = weft_timer_create(&m->timer);
  if (s == NULL) s = weft_session_table_create(m->task, &m->sessions);
  int64_t grace_ms = o->client_grace_ms == 0 ? CLIENT_GRACE_MS : o->client_grace_ms;
  if (s == NULL) s = weft_clients_create(m->timer, grace_ms, client_gone, m, &m->holders);
  weft_collective_steps_options_t steps = {
      .cache = o->cache, .task = o->task, .leader = o->collective_leader};
  if (s == NULL) s = weft_collective_steps_create(&steps, &m->collective_steps);
  if (s != NULL) {
    weft_master_destroy(m);
    return s;
  }
  *out = m;
  return NULL;
}

int64_t weft_master_num_sessions(weft_master_t *m) { return weft_session_table_count(m->sessions); }

void weft_master_stop(weft_master_t *m) {
  if (m->sessions == NULL) return; /* it was never made, without memory */
  weft_session_table_stop(m->sessions);
  weft_canceller_cancel(m->stop);
  if (m->holders != NULL) weft_clients_stop(m->holders);
  char what[300];
  snprintf(what, sizeof what, "The task %.*s, the master of this session, was shut down",
           WEFT_STR_ARGS(m->task));
  weft_status_t *why =
      WEFT_ERROR(ABORTED, "%s", what); /* not UNAVAILABLE: a retry with that session cannot succeed */
  for (weft_master_session_t *s; (s = weft_session_table_take_one(m->sessions, 0, what)) != NULL;) {
    weft_clients_leave(m->holders, s->client, s->life);
    weft_master_session_close(s, why, closed, m);
    weft_master_session_release(s);
  }
  weft_status_free(why);
}

void weft_master_destroy(weft_master_t *m) {
  if (m == NULL) return;
  weft_master_stop(m);
  if (m->sessions != NULL) weft_session_table_wait(m->sessions); /* all was cancelled */
  weft_clients_destroy(m->holders);
  weft_timer_destroy(m->timer);
  weft_collective_steps_destroy(m->collective_steps);
  weft_session_table_destroy(m->sessions);
  weft_canceller_release(m->stop);
  weft_free((void *)(uintptr_t)m->task.data);
  weft_free(m);
}
