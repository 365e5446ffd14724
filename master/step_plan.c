/* master/step_plan.c - from a signature to registered parts. */
#include "master/step_plan.h"

#include "base/alloc.h"
#include "graph/partition.h"
#include "graph/passes.h"
#include "graph/references.h"
#include "master/debug_watch.h"

enum { BUILDING, READY, FAILED };

/* In the list from wait() until settle() or its canceller takes it out; the one that takes it out calls fn
 * and frees it.
 */
struct weft_step_plan_waiter {
  weft_step_plan_waiter_t *next; /* guarded by the plan's mu, as the two flags */
  bool is_listed, is_cancelled;
  weft_step_plan_t *plan;      /* borrowed: the waiting step holds it */
  weft_canceller_t *canceller; /* retained */
  uint64_t token;
  weft_step_plan_fn *fn;
  void *arg;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a step's signature"); }

/* Names may hold any bytes, so each is preceded by its length: different lists print differently. */
static void print_number(weft_strbuf_t *out, size_t number) {
  weft_strbuf_append(out, weft_str_of((const char *)&number, sizeof number));
}

static void print_names(weft_strbuf_t *out, const weft_str_t *names, int n) {
  print_number(out, (size_t)n);
  for (int i = 0; i < n; i++) {
    print_number(out, names[i].length);
    weft_strbuf_append(out, names[i]);
  }
}

void weft_signature_print(const weft_signature_t *s, bool is_partial, weft_strbuf_t *out) {
  (void)weft_strbuf_reserve(out, 64 + 64 * (size_t)(s->num_feeds + s->num_fetches + s->num_targets));
  weft_strbuf_putc(out, is_partial ? 'p' : 'w');
  weft_strbuf_putc(out, s->keeps_graphs ? 'g' : '-');
  print_names(out, s->feeds, s->num_feeds);
  print_names(out, s->fetches, s->num_fetches);
  print_names(out, s->targets, s->num_targets);
  print_names(out, &s->debug_options, 1);
}

static bool are_names(const weft_str_t *a, int num_a, const weft_str_t *b, int num_b) {
  bool same = num_a == num_b;
  for (int i = 0; same && i < num_a; i++) same = weft_str_eq(a[i], b[i]);
  return same;
}

bool weft_step_plan_is_of(const weft_step_plan_t *p, const weft_signature_t *s) {
  return are_names(p->feeds, p->num_feeds, s->feeds, s->num_feeds) &&
         are_names(p->fetches, p->num_fetches, s->fetches, s->num_fetches) &&
         are_names(p->targets, p->num_targets, s->targets, s->num_targets);
}

static bool copy_names(weft_arena_t *arena, const weft_str_t *names, int n, weft_str_t **out) {
  *out = weft_arena_calloc(arena, (size_t)n + 1, sizeof **out);
  for (int i = 0; *out != NULL && i < n; i++) {
    (*out)[i] = weft_arena_str(arena, names[i]);
    if ((*out)[i].data == NULL) return false;
  }
  return *out != NULL;
}

static bool make_keys(weft_arena_t *arena, const weft_session_device_t *client, const weft_str_t *names,
                      int n, weft_str_t **out) {
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  *out = weft_arena_calloc(arena, (size_t)n + 1, sizeof **out);
  bool ok = *out != NULL;
  for (int i = 0; ok && i < n; i++) {
    key.length = 0;
    weft_client_key(&key, client, names[i]);
    (*out)[i] = weft_arena_str(arena, weft_str_of(key.data, key.length));
    ok = !key.failed && (*out)[i].data != NULL;
  }
  weft_strbuf_deinit(&key);
  return ok;
}

weft_status_t *weft_step_plan_create(weft_str_t session, const weft_signature_t *signature,
                                     const weft_session_device_t *client, bool is_partial,
                                     weft_step_plan_t **out) {
  weft_step_plan_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return no_memory();
  atomic_init(&p->refs, 1);
  weft_mutex_init(&p->mu);
  p->is_partial = is_partial;
  p->num_feeds = signature->num_feeds;
  p->num_fetches = signature->num_fetches;
  p->num_targets = signature->num_targets;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_signature_print(signature, is_partial, &text);
  p->session = weft_arena_str(&p->arena, session);
  p->signature_text = weft_arena_str(&p->arena, weft_str_of(text.data, text.length));
  bool ok = !text.failed && p->session.data != NULL && p->signature_text.data != NULL &&
            copy_names(&p->arena, signature->feeds, p->num_feeds, &p->feeds) &&
            copy_names(&p->arena, signature->fetches, p->num_fetches, &p->fetches) &&
            copy_names(&p->arena, signature->targets, p->num_targets, &p->targets) &&
            make_keys(&p->arena, client, p->feeds, p->num_feeds, &p->feed_keys) &&
            make_keys(&p->arena, client, p->fetches, p->num_fetches, &p->fetch_keys);
  weft_strbuf_deinit(&text);
  if (!ok) {
    weft_step_plan_release(p);
    return no_memory();
  }
  *out = p;
  return NULL;
}

weft_step_plan_t *weft_step_plan_retain(weft_step_plan_t *p) {
  if (p != NULL) atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  return p;
}

static void ignore(void *arg, weft_status_t *status) {
  (void)arg;
  weft_status_free(status); /* a worker that is gone has dropped the graph as well */
}

void weft_step_plan_forget(weft_step_plan_t *p) {
  for (int i = 0; i < p->num_parts; i++) {
    weft_kept_graph_t *kept = atomic_exchange(&p->parts[i].kept, NULL);
    if (kept != NULL) kept->forget(kept);
  }
}

void weft_step_plan_release(weft_step_plan_t *p) {
  if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
  weft_step_plan_forget(p);
  for (int i = 0; i < p->num_parts; i++) {
    weft_step_part_t *part = &p->parts[i];
    if (part->graph_handle.length > 0 && atomic_load(&p->is_dropped)) {
      part->worker->ops->deregister_graph(part->worker, p->session, part->graph_handle, ignore, NULL);
    }
    weft_free((void *)(uintptr_t)part->graph_handle.data);
    weft_worker_client_release(part->worker);
  }
  weft_free(p->parts);
  weft_status_free(p->status);
  weft_mutex_deinit(&p->mu);
  weft_arena_deinit(&p->arena);
  weft_free(p);
}

/* ---- building ---- */

static void end_wait(weft_step_plan_waiter_t *w, weft_status_t *status) {
  weft_step_plan_fn *fn = w->fn;
  void *arg = w->arg;
  weft_canceller_release(w->canceller);
  weft_free(w);
  fn(arg, status);
}

static void settle(weft_step_plan_t *p, weft_status_t *status) {
  weft_mutex_lock(&p->mu);
  p->state = status == NULL ? READY : FAILED;
  p->status = status;
  weft_step_plan_waiter_t *waiters = p->waiters;
  p->waiters = NULL;
  for (weft_step_plan_waiter_t *w = waiters; w != NULL; w = w->next) w->is_listed = false;
  weft_mutex_unlock(&p->mu);
  if (status == NULL) atomic_store_explicit(&p->is_ready, true, memory_order_release);
  while (waiters != NULL) {
    weft_step_plan_waiter_t *w = waiters;
    waiters = w->next;
    weft_canceller_deregister(w->canceller, w->token);
    end_wait(w, weft_status_clone(status));
  }
}

/* The first failure stays in p->status until the last registration has ended. */
static void registration_ended(weft_step_plan_t *p, weft_status_t *failure) {
  weft_mutex_lock(&p->mu);
  bool first = p->status == NULL;
  if (first) p->status = failure;
  weft_mutex_unlock(&p->mu);
  if (!first) weft_status_free(failure);
  if (atomic_fetch_sub(&p->pending, 1) == 1) {
    weft_mutex_lock(&p->mu);
    weft_status_t *status = p->status;
    p->status = NULL;
    weft_mutex_unlock(&p->mu);
    settle(p, status);
  }
  weft_step_plan_release(p);
}

typedef struct registration {
  weft_step_plan_t *plan; /* retained */
  int part;
} registration_t;

static void registered(void *arg, weft_status_t *status, weft_str_t handle) {
  registration_t *r = arg;
  weft_step_plan_t *p = r->plan;
  if (status == NULL) {
    char *copy = weft_strndup(handle.data, handle.length);
    if (copy == NULL) status = no_memory();
    if (copy != NULL) p->parts[r->part].graph_handle = weft_str(copy);
  }
  weft_free(r);
  registration_ended(p, status);
}

static uint64_t incarnation(void *arg, weft_str_t device) {
  const weft_session_device_t *d = weft_device_set_find(arg, device);
  return d == NULL ? 0 : d->attributes.incarnation;
}

static weft_worker_client_t *worker_of(const weft_step_plan_options_t *o, weft_str_t task) {
  for (int i = 0; i < o->num_workers; i++) {
    if (weft_str_eq(o->workers[i]->task, task)) return o->workers[i];
  }
  return NULL;
}

/* Where a part runs: the task of any of its nodes. */
static weft_str_t task_of(const weft_graph_t *g) {
  for (int i = 0; i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL) return weft_device_task_part(g->nodes[i]->assigned_device);
  }
  return WEFT_STR("");
}

static weft_status_t *build_client_graph(void *arg, weft_graph_t **out) {
  const weft_step_plan_options_t *o = arg;
  return weft_client_graph_build(o->graph, o->signature, o->devices->client, o->kernels, out);
}

/* The name of a node, of a target as a client writes it: "^node", "node:0" and "node" are the same. */
static weft_str_t target_node(weft_str_t target) {
  weft_str_t name =
      target.length > 1 && target.data[0] == '^' ? weft_str_of(target.data + 1, target.length - 1) : target;
  int index;
  return weft_tensor_name_parse(name, &name, &index) ? name : target;
}

/* Of the type of device that the node has been given. */
static bool has_kernel(void *arg, const weft_node_t *n) {
  const weft_step_plan_options_t *o = arg;
  const weft_session_device_t *d = weft_device_set_find(o->devices, n->assigned_device);
  return d != NULL && o->kernels != NULL && (o->kernels->types(n) & d->type_bit) != 0;
}

/* What is watched, and what is fed bit by bit, has to be there under its name. */
static weft_status_t *optimize(const weft_step_plan_t *p, const weft_step_plan_options_t *o,
                               weft_graph_t **g) {
  const weft_signature_t *signature = o->signature;
  if (p->is_partial || signature->debug_options.length > 0) {
    weft_pass_settings_t none = *o->passes;
    none.passes = 0;
    return weft_pass_settings_mark(*g, &none);
  }
  weft_str_t *keep = weft_calloc((size_t)signature->num_targets + 1, sizeof *keep);
  if (keep == NULL) return no_memory();
  for (int i = 0; i < signature->num_targets; i++) keep[i] = target_node(signature->targets[i]);
  const weft_optimize_options_t options = {.settings = *o->passes,
                                           .keep = keep,
                                           .num_keep = signature->num_targets,
                                           .evaluator = o->evaluator,
                                           .has_kernel = has_kernel,
                                           .has_kernel_arg = (void *)(uintptr_t)o,
                                           .rebuild = build_client_graph,
                                           .rebuild_arg = (void *)(uintptr_t)o};
  weft_status_t *s = weft_optimize(g, &options);
  weft_free(keep);
  return s == NULL ? weft_pass_settings_mark(*g, o->passes) : s;
}

static bool crosses_tasks(void *arg, const weft_node_t *from, const weft_node_t *to) {
  (void)arg;
  return !weft_str_eq(weft_device_task_part(from->assigned_device),
                      weft_device_task_part(to->assigned_device));
}

/* Devices with queues copy what leaves them in the order of their work. */
static bool lends_to_task(void *arg, const weft_node_t *from, const weft_node_t *to) {
  const weft_step_plan_options_t *o = arg;
  const weft_session_device_t *d = weft_device_set_find(o->devices, from->assigned_device);
  return d != NULL && weft_str_is(d->attributes.type, "CPU") && crosses_tasks(NULL, from, to);
}

/* Readers of reference variables come before updates, and workers leave it at that. Not where feeds come bit
 * by bit: an update would wait for the feed of a reader, which its own result may be needed for. */
static weft_status_t *order_references(const weft_step_plan_t *p, const weft_step_plan_options_t *o,
                                       weft_graph_t *g) {
  if (!p->is_partial) {
    WEFT_RETURN_IF_ERROR(weft_pass_copy_references(g, lends_to_task, (void *)(uintptr_t)o));
    WEFT_RETURN_IF_ERROR(weft_pass_order_references(g, crosses_tasks, NULL));
  }
  return weft_pass_settle_references(g);
}

static weft_status_t *cut(weft_step_plan_t *p, const weft_step_plan_options_t *o, weft_partition_t **parts,
                          int *num_parts) {
  weft_graph_t *g = NULL;
  WEFT_RETURN_IF_ERROR(build_client_graph((void *)(uintptr_t)o, &g));
  weft_partition_options_t options = {.locate = weft_device_task_part,
                                      .incarnation = incarnation,
                                      .arg = (void *)(uintptr_t)o->devices,
                                      .next_edge = o->next_edge};
  weft_status_t *s = optimize(p, o, &g);
  if (s == NULL) s = order_references(p, o, g);
  if (s == NULL) s = weft_pass_pair_nccl(g);
  if (s == NULL) s = weft_collective_members_find(g, &p->arena, &p->members);
  if (s == NULL) s = weft_graph_partition(&g, &options, parts, num_parts);
  for (int i = 0; s == NULL && i < *num_parts; i++) {
    s = weft_debug_watch_insert((*parts)[i].graph, o->signature->debug_options, o->kernels);
  }
  weft_graph_destroy(g);
  return s;
}

void weft_step_plan_build(weft_step_plan_t *p, const weft_step_plan_options_t *o) {
  weft_partition_t *parts = NULL;
  int n = 0;
  weft_status_t *s = cut(p, o, &parts, &n);
  if (s == NULL && (p->parts = weft_calloc((size_t)n, sizeof *p->parts)) == NULL) s = no_memory();
  for (int i = 0; s == NULL && i < n; i++) {
    weft_str_t task = task_of(parts[i].graph);
    weft_worker_client_t *w = worker_of(o, task);
    if (w == NULL) s = WEFT_ERROR(INTERNAL, "no worker for task '%.*s' in this session", WEFT_STR_ARGS(task));
    p->parts[i].worker = weft_worker_client_retain(w);
    p->parts[i].is_client = weft_str_eq(task, o->devices->client->task);
    p->num_parts = i + (s == NULL);
  }
  if (s != NULL || n == 0) {
    weft_partitions_free(parts, n);
    settle(p, s);
    return;
  }
  atomic_store(&p->pending, n);
  for (int i = 0; i < n; i++) {
    registration_t *r = weft_calloc(1, sizeof *r);
    weft_step_plan_retain(p); /* for registration_ended */
    if (r == NULL) {
      registration_ended(p, no_memory());
      continue;
    }
    *r = (registration_t){p, i};
    weft_graph_t *g = parts[i].graph;
    parts[i].graph = NULL; /* the worker takes it */
    p->parts[i].worker->ops->register_graph(p->parts[i].worker, p->session, g, o->signature->keeps_graphs,
                                            registered, r);
  }
  weft_partitions_free(parts, n);
}

static weft_status_t *cancelled(void) {
  return WEFT_ERROR(CANCELLED, "Step was cancelled while its graph was being registered.");
}

static void wait_cancelled(void *arg) {
  weft_step_plan_waiter_t *w = arg;
  weft_step_plan_t *p = w->plan;
  weft_mutex_lock(&p->mu);
  bool mine = w->is_listed;
  w->is_cancelled = true;
  w->is_listed = false;
  for (weft_step_plan_waiter_t **at = &p->waiters; mine && *at != NULL; at = &(*at)->next) {
    if (*at != w) continue;
    *at = w->next;
    break;
  }
  weft_mutex_unlock(&p->mu);
  if (mine) end_wait(w, cancelled());
}

void weft_step_plan_wait(weft_step_plan_t *p, weft_canceller_t *c, weft_step_plan_fn *fn, void *arg) {
  if (atomic_load_explicit(&p->is_ready, memory_order_acquire)) {
    fn(arg, NULL);
    return;
  }
  weft_step_plan_waiter_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) {
    fn(arg, no_memory());
    return;
  }
  *w = (weft_step_plan_waiter_t){.plan = p, .canceller = weft_canceller_retain(c), .fn = fn, .arg = arg};
  bool is_linked = weft_canceller_register(c, wait_cancelled, w, &w->token);
  weft_mutex_lock(&p->mu);
  bool is_building = p->state == BUILDING, waits = is_building && is_linked && !w->is_cancelled;
  if (waits) {
    w->next = p->waiters;
    w->is_listed = true;
    p->waiters = w;
  }
  weft_status_t *status = is_building ? NULL : weft_status_clone(p->status);
  weft_mutex_unlock(&p->mu);
  if (waits) return;
  if (is_linked) weft_canceller_deregister(c, w->token);
  if (is_building) status = is_linked || weft_canceller_is_cancelled(c) ? cancelled() : no_memory();
  end_wait(w, status);
}

void weft_step_plan_cleanup_part(weft_step_part_t *p, int64_t step_id) {
  p->worker->ops->cleanup_graph(p->worker, step_id, ignore, NULL);
}

void weft_step_plan_cleanup_step(weft_step_plan_t *p, int64_t step_id) {
  for (int i = 0; i < p->num_parts; i++) weft_step_plan_cleanup_part(&p->parts[i], step_id);
}
