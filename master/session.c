/* master/session.c - versions of a session's graph, their step plans, and the session's end. */
#include "master/session.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "master/partial_step.h"
#include "master/placer.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a session"); }

weft_status_t *weft_master_session_create(const weft_kernel_support_t *kernels,
                                          const weft_evaluator_t *evaluator,
                                          const weft_pass_settings_t *passes, weft_timer_t *timer,
                                          weft_str_t config, weft_master_session_t **out) {
  weft_master_session_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return no_memory();
  atomic_init(&s->refs, 1);
  weft_mutex_init(&s->mu);
  weft_mutex_init(&s->extending);
  s->kernels = kernels;
  s->evaluator = evaluator;
  s->timer = timer;
  s->canceller = weft_canceller_create(NULL);
  weft_strbuf_t handle = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&handle, "%016" PRIx64, weft_random_id());
  char *text = NULL;
  weft_status_t *status = weft_strbuf_finish(&handle, &text, NULL);
  if (status == NULL) s->handle = weft_str(text);
  if (status == NULL && s->canceller == NULL) status = no_memory();
  if (status == NULL) status = weft_session_config_read(&s->arena, config, passes, &s->config);
  if (status != NULL) {
    weft_master_session_release(s);
    return status;
  }
  *out = s;
  return NULL;
}

weft_master_session_t *weft_master_session_retain(weft_master_session_t *s) {
  if (s != NULL) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

/* Of plans whose build has ended; their registrations may still be in progress. */
static void forget_all(weft_master_session_t *s, weft_map_t *plans) {
  weft_mutex_lock(&s->mu);
  weft_map_t taken = *plans;
  *plans = (weft_map_t){0};
  memset(s->recent, 0, sizeof s->recent);
  weft_mutex_unlock(&s->mu);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&taken, &at, &e);) {
    weft_step_plan_forget(e.value);
    weft_step_plan_release(e.value);
  }
  weft_map_deinit(&taken);
}

void weft_master_session_release(weft_master_session_t *s) {
  if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  forget_all(s, &s->step_plans);
  forget_all(s, &s->callables);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&s->partial_steps, &at, &e);) weft_partial_step_release(e.value);
  weft_map_deinit(&s->partial_steps);
  weft_graph_version_release(s->graph);
  weft_status_free(s->ended_by);
  weft_device_set_deinit(&s->devices);
  for (int i = 0; i < s->num_workers; i++) weft_worker_client_release(s->workers[i]);
  weft_free(s->workers);
  weft_session_cluster_deinit(&s->cluster);
  weft_canceller_release(s->canceller);
  weft_arena_deinit(&s->arena);
  weft_mutex_deinit(&s->mu);
  weft_mutex_deinit(&s->extending);
  weft_free((void *)(uintptr_t)s->handle.data);
  weft_free(s);
}

/* ---- versions of the graph ---- */

/* Imports into `g` (consumed), lowers what is new and places it, and makes it the session's graph. */
static weft_status_t *advance(weft_master_session_t *s, weft_graph_t *g, weft_str_t graph_def,
                              bool is_extend) {
  bool is_empty = g->num_live == 0; /* the first nodes come as in CreateSession, and bring their version */
  weft_import_options_t options = {.allow_existing = !is_empty, .is_extend = !is_empty};
  weft_placer_options_t placing = {.devices = &s->devices,
                                   .kernels = s->kernels,
                                   .allow_soft_placement = s->config.allow_soft_placement,
                                   .log_device_placement = s->config.log_device_placement};
  int first_new = g->num_nodes;
  weft_graph_version_t *v = NULL;
  weft_status_t *status = weft_graph_import(g, graph_def, &options);
  if (status == NULL) status = weft_pass_lower_functions(g, first_new);
  if (status == NULL) status = weft_place(g, &placing);
  if (status == NULL) status = weft_graph_version_create(g, &v);
  if (status != NULL) {
    weft_graph_destroy(g);
    return status;
  }
  weft_mutex_lock(&s->mu);
  weft_graph_version_t *old = s->graph;
  s->graph = v;
  if (is_extend) s->version++;
  weft_mutex_unlock(&s->mu);
  weft_graph_version_release(old);
  return NULL;
}

weft_status_t *weft_master_session_load(weft_master_session_t *s, weft_str_t graph_def) {
  weft_graph_t *g = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_create(&g));
  return advance(s, g, graph_def, false);
}

weft_graph_version_t *weft_master_session_graph(weft_master_session_t *s) {
  weft_mutex_lock(&s->mu);
  weft_graph_version_t *v = weft_graph_version_retain(s->graph);
  weft_mutex_unlock(&s->mu);
  return v;
}

weft_status_t *weft_master_session_extend(weft_master_session_t *s, const weft_extend_session_t *r,
                                          int64_t *out_version) {
  weft_mutex_lock(&s->extending);
  weft_mutex_lock(&s->mu);
  int64_t version = s->version;
  bool closed = s->closed;
  weft_mutex_unlock(&s->mu);
  weft_status_t *status = NULL;
  if (closed) {
    status = WEFT_ERROR(FAILED_PRECONDITION, "Session is closed.");
  } else if (version != r->current_version) {
    status = WEFT_ERROR(ABORTED, "Current version is %" PRId64 " but caller expected %" PRId64 ".", version,
                        r->current_version);
  }
  weft_graph_version_t *now = weft_master_session_graph(s);
  weft_graph_t *g = NULL;
  if (status == NULL)
    status = now->graph->num_live == 0 ? weft_graph_create(&g) : weft_graph_copy(now->graph, &g);
  weft_graph_version_release(now);
  if (status == NULL) status = advance(s, g, r->graph_def, true);
  weft_mutex_unlock(&s->extending);
  if (status == NULL) *out_version = version + 1;
  return status;
}

/* ---- preparing ---- */

static void build(weft_master_session_t *s, weft_step_plan_t *p, const weft_signature_t *signature) {
  weft_graph_version_t *v = weft_master_session_graph(s);
  weft_mutex_lock(&s->mu);
  int64_t next_edge = s->next_edge;
  s->next_edge += (int64_t)1 << 32; /* every build has names of its own, without a lock */
  weft_mutex_unlock(&s->mu);
  weft_step_plan_options_t options = {.graph = v->graph,
                                      .kernels = s->kernels,
                                      .passes = &s->config.passes,
                                      .evaluator = s->evaluator,
                                      .signature = signature,
                                      .devices = &s->devices,
                                      .workers = s->workers,
                                      .num_workers = s->num_workers,
                                      .next_edge = &next_edge};
  weft_step_plan_build(p, &options);
  weft_graph_version_release(v);
}

weft_status_t *weft_master_session_plan_callable(weft_master_session_t *s, const weft_signature_t *signature,
                                                 weft_step_plan_t **out) {
  WEFT_RETURN_IF_ERROR(weft_master_session_begin_step(s));
  weft_status_t *status = weft_step_plan_create(s->handle, signature, s->devices.client, false, out);
  if (status == NULL) build(s, *out, signature);
  weft_master_session_end_step(s);
  return status;
}

/* The plan of a signature that was asked for lately: found without a look at the map. */
static weft_step_plan_t *find_recent_locked(weft_master_session_t *s, const weft_signature_t *signature)
    WEFT_REQUIRES(s->mu) {
  for (int i = 0; i < WEFT_RECENT_PLANS && s->recent[i] != NULL; i++) {
    if (weft_step_plan_is_of(s->recent[i], signature)) return s->recent[i];
  }
  return NULL;
}

/* The first place is the last one's that was not found. */
static void add_recent_locked(weft_master_session_t *s, weft_step_plan_t *p) WEFT_REQUIRES(s->mu) {
  memmove(&s->recent[1], &s->recent[0], (WEFT_RECENT_PLANS - 1) * sizeof(weft_step_plan_t *));
  s->recent[0] = p;
}

static void remove_recent_locked(weft_master_session_t *s, const weft_step_plan_t *p) WEFT_REQUIRES(s->mu) {
  int n = 0;
  for (int i = 0; i < WEFT_RECENT_PLANS; i++) {
    weft_step_plan_t *one = s->recent[i];
    s->recent[i] = NULL;
    if (one != p) s->recent[n++] = one;
  }
}

/* A signature that failed is forgotten, so that the next step tries again. */
typedef struct forget {
  weft_master_session_t *session;
  weft_step_plan_t *plan;
} forget_t;

static void forget_failed(void *arg, weft_status_t *status) {
  forget_t *f = arg;
  weft_step_plan_t *dropped = NULL;
  if (status != NULL) {
    weft_mutex_lock(&f->session->mu);
    if (weft_map_get(&f->session->step_plans, f->plan->signature_text) == f->plan) {
      dropped = weft_map_remove(&f->session->step_plans, f->plan->signature_text);
      remove_recent_locked(f->session, f->plan);
    }
    weft_mutex_unlock(&f->session->mu);
  }
  weft_status_free(status);
  weft_step_plan_release(dropped);
  weft_step_plan_release(f->plan);
  weft_master_session_release(f->session);
  weft_free(f);
}

/* Finds the plan or builds it. */
static weft_status_t *make_plan(weft_master_session_t *s, const weft_signature_t *signature, bool is_partial,
                                weft_step_plan_t **out) {
  const bool is_plain = !is_partial && signature->debug_options.length == 0;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_signature_print(signature, is_partial, &text);
  if (text.failed) return no_memory();
  weft_str_t key = weft_str_of(text.data, text.length);
  weft_mutex_lock(&s->mu);
  weft_step_plan_t *p = weft_step_plan_retain(weft_map_get(&s->step_plans, key));
  if (p != NULL && is_plain) add_recent_locked(s, p);
  weft_mutex_unlock(&s->mu);
  if (p != NULL) {
    weft_strbuf_deinit(&text);
    *out = p;
    return NULL;
  }
  weft_step_plan_t *mine = NULL;
  weft_status_t *status = weft_step_plan_create(s->handle, signature, s->devices.client, is_partial, &mine);
  forget_t *f = status != NULL ? NULL : weft_calloc(1, sizeof *f);
  if (status == NULL && f == NULL) status = no_memory();
  if (status == NULL) {
    weft_mutex_lock(&s->mu);
    p = weft_step_plan_retain(weft_map_get(&s->step_plans, key)); /* another step may have been faster */
    if (p == NULL) status = weft_map_put(&s->step_plans, mine->signature_text, mine, NULL);
    if (p == NULL && status == NULL) p = weft_step_plan_retain(mine);
    weft_mutex_unlock(&s->mu);
  }
  weft_strbuf_deinit(&text);
  if (status != NULL || p != mine) {
    weft_free(f);
    weft_step_plan_release(mine);
    if (status == NULL) *out = p;
    return status;
  }
  *f = (forget_t){weft_master_session_retain(s), weft_step_plan_retain(p)};
  build(s, p, signature);
  weft_step_plan_wait(p, NULL, forget_failed, f);
  *out = p;
  return NULL;
}

weft_status_t *weft_master_session_plan(weft_master_session_t *s, const weft_signature_t *signature,
                                        bool is_partial, weft_step_plan_t **out) {
  if (!is_partial && signature->debug_options.length == 0) {
    weft_mutex_lock(&s->mu);
    *out = weft_step_plan_retain(find_recent_locked(s, signature));
    weft_mutex_unlock(&s->mu);
    if (*out != NULL) return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_master_session_begin_step(s));
  weft_status_t *status = make_plan(s, signature, is_partial, out);
  weft_master_session_end_step(s);
  return status;
}

/* ---- steps and the end ---- */

weft_status_t *weft_master_session_begin_step(weft_master_session_t *s) {
  weft_mutex_lock(&s->mu);
  bool closed = s->closed, by_client = s->ended_by == NULL;
  if (!closed) s->running++;
  weft_mutex_unlock(&s->mu);
  if (!closed) return NULL;
  return by_client ? WEFT_ERROR(FAILED_PRECONDITION, "Session is closed.") : weft_master_session_end(s);
}

typedef struct closing {
  weft_master_session_t *session;
  weft_done_fn *fn;
  void *arg;
  atomic_int left;
} closing_t;

static void worker_dropped(void *arg, weft_status_t *status) {
  closing_t *c = arg;
  weft_status_free(status); /* as TensorFlow: a worker that is gone does not keep a session from closing */
  if (atomic_fetch_sub(&c->left, 1) != 1) return;
  c->fn(c->arg, NULL);
  weft_master_session_release(c->session);
  weft_free(c);
}

/* No step runs any more: the workers may drop the session. */
static void drop_from_workers(weft_master_session_t *s, weft_done_fn *fn, void *arg) {
  weft_partial_steps_abandon(s);
  forget_all(s, &s->step_plans);
  forget_all(s, &s->callables);
  closing_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) {
    fn(arg, no_memory());
    return;
  }
  *c = (closing_t){.session = weft_master_session_retain(s), .fn = fn, .arg = arg};
  atomic_init(&c->left, s->num_workers + 1);
  for (int i = 0; i < s->num_workers; i++) {
    s->workers[i]->ops->delete_session(s->workers[i], s->handle, worker_dropped, c);
  }
  worker_dropped(c, NULL);
}

void weft_master_session_end_step(weft_master_session_t *s) {
  weft_done_fn *fn = NULL;
  void *arg = NULL;
  weft_mutex_lock(&s->mu);
  if (--s->running == 0 && s->close_fn != NULL) {
    fn = s->close_fn;
    arg = s->close_arg;
    s->close_fn = NULL;
  }
  weft_mutex_unlock(&s->mu);
  if (fn != NULL) drop_from_workers(s, fn, arg);
}

weft_status_t *weft_master_session_end(weft_master_session_t *s) {
  weft_mutex_lock(&s->mu);
  weft_status_t *why = weft_status_clone(s->ended_by);
  weft_mutex_unlock(&s->mu);
  return why != NULL ? why
                     : WEFT_ERROR(CANCELLED, "Step was cancelled by an explicit call to `Session::Close()`.");
}

void weft_master_session_close(weft_master_session_t *s, const weft_status_t *why, weft_done_fn *fn,
                               void *arg) {
  weft_status_t *copy = weft_status_clone(why);
  weft_mutex_lock(&s->mu);
  bool was_closed = s->closed;
  if (!was_closed) {
    s->ended_by = copy;
    copy = NULL;
  }
  s->closed = true;
  bool is_idle = s->running == 0;
  if (!was_closed && !is_idle) {
    s->close_fn = fn;
    s->close_arg = arg;
  }
  weft_mutex_unlock(&s->mu);
  weft_status_free(copy);
  if (was_closed) {
    fn(arg, NULL);
    return;
  }
  weft_canceller_cancel(s->canceller);
  if (is_idle) drop_from_workers(s, fn, arg);
}
