/* coordinator/closure.c - closures, and their graphs for each worker. */
#include "base/alloc.h"
#include "client/status.h"
#include "coordinator/impl.h"
#include "coordinator/prune.h"
#include "coordinator/worker_context.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a closure"); }

/* ---- life ---- */

WEFT_Closure *weft_closure_retain(WEFT_Closure *c) {
  atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
  return c;
}

static void free_part(weft_co_part_t *p) {
  weft_arena_deinit(&p->graph.arena);
  weft_free(p->session);
}

static void closed(void *arg, weft_status_t *status) {
  (void)arg;
  weft_status_free(status); /* the master drops unused sessions anyway */
}

void weft_closure_close_sessions(WEFT_Closure *c) {
  WEFT_Coordinator *co = c->coordinator;
  for (int i = 0; c->parts != NULL && i < co->num_workers; i++) {
    weft_co_part_t *p = &c->parts[i];
    weft_co_worker_t *w = &co->workers[i];
    weft_master_client_t *m = NULL;
    weft_mutex_lock(&co->mu);
    if (p->session != NULL && p->generation == w->generation && !w->is_lost && w->closer != NULL)
      m = weft_master_client_retain(w->closer);
    weft_mutex_unlock(&co->mu);
    if (m != NULL) m->ops->close_session(m, weft_str(p->session), closed, NULL);
    weft_master_client_release(m);
    weft_free(p->session);
    p->session = NULL;
  }
}

/* Out of the coordinator's list. */
static void forget(WEFT_Closure *c) {
  WEFT_Coordinator *co = c->coordinator;
  weft_mutex_lock(&co->mu);
  if (c->prev != NULL)
    c->prev->next = c->next;
  else if (co->closures == c)
    co->closures = c->next;
  if (c->next != NULL) c->next->prev = c->prev;
  c->prev = c->next = NULL;
  weft_mutex_unlock(&co->mu);
}

void weft_closure_release(WEFT_Closure *c) {
  if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  WEFT_Coordinator *co = c->coordinator;
  forget(c);
  weft_closure_close_sessions(c);
  for (int i = 0; c->parts != NULL && i < co->num_workers; i++) free_part(&c->parts[i]);
  weft_free(c->parts);
  weft_arena_deinit(&c->arena);
  if (c->destroy != NULL) c->destroy(c->user);
  weft_free(c);
  weft_coordinator_release(co);
}

/* A closure with nothing in it but its parts; in the list. */
static weft_status_t *create(WEFT_Coordinator *co, WEFT_Closure **out) {
  WEFT_Closure *c = weft_calloc(1, sizeof *c);
  weft_co_part_t *parts = weft_calloc((size_t)co->num_workers, sizeof *parts);
  if (c == NULL || parts == NULL) {
    weft_free(c);
    weft_free(parts);
    return no_memory();
  }
  atomic_init(&c->refs, 1);
  c->coordinator = weft_coordinator_retain(co);
  c->arena = (weft_arena_t)WEFT_ARENA_INIT;
  c->parts = parts;
  for (int i = 0; i < co->num_workers; i++) parts[i].graph.arena = (weft_arena_t)WEFT_ARENA_INIT;
  weft_mutex_lock(&co->mu);
  c->next = co->closures;
  if (c->next != NULL) c->next->prev = c;
  co->closures = c;
  weft_mutex_unlock(&co->mu);
  *out = c;
  return NULL;
}

WEFT_Closure *WEFT_NewClosure(WEFT_Coordinator *co, WEFT_BuildFn build, void *user,
                              void (*destroy)(void *user), TF_Status *status) {
  WEFT_Closure *c = NULL;
  if (!weft_client_end(status, create(co, &c))) return NULL;
  c->build = build;
  c->user = user;
  c->destroy = destroy;
  return c;
}

void WEFT_DeleteClosure(WEFT_Closure *closure) { weft_closure_release(closure); }

/* ---- ready graphs ---- */

/* "node" as an input or an output means "node:0"; as a target it stays. */
static weft_status_t *copy_name(weft_arena_t *a, const char *name, bool is_tensor, weft_str_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (name == NULL || name[0] == '\0')
    return WEFT_ERROR(INVALID_ARGUMENT, "a name of a closure's graph is empty");
  weft_strbuf_puts(&text, name);
  if (is_tensor && strchr(name, ':') == NULL) weft_strbuf_puts(&text, ":0");
  if (!text.failed) *out = weft_arena_str(a, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return out->data == NULL ? no_memory() : NULL;
}

static weft_status_t *copy_names(weft_arena_t *a, const char *const *names, int n, bool are_tensors,
                                 weft_str_t **out, int *out_n) {
  if (n < 0) return WEFT_ERROR(INVALID_ARGUMENT, "a closure has %d names", n);
  *out = weft_arena_calloc(a, (size_t)n + 1, sizeof **out);
  if (*out == NULL) return no_memory();
  *out_n = n;
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(copy_name(a, names[i], are_tensors, &(*out)[i]));
  return NULL;
}

static weft_status_t *copy_all_names(WEFT_Closure *c, const WEFT_ClosureNames *names, int num_names) {
  c->names = weft_arena_calloc(&c->arena, (size_t)num_names, sizeof *c->names);
  if (c->names == NULL) return no_memory();
  c->num_names = num_names;
  for (int i = 0; i < num_names; i++) {
    weft_co_graph_t *g = &c->names[i];
    const WEFT_ClosureNames *n = &names[i];
    WEFT_RETURN_IF_ERROR(copy_names(&c->arena, n->inputs, n->num_inputs, true, &g->inputs, &g->num_inputs));
    WEFT_RETURN_IF_ERROR(
        copy_names(&c->arena, n->outputs, n->num_outputs, true, &g->outputs, &g->num_outputs));
    WEFT_RETURN_IF_ERROR(
        copy_names(&c->arena, n->targets, n->num_targets, false, &g->targets, &g->num_targets));
    if (g->num_inputs != c->names[0].num_inputs || g->num_outputs != c->names[0].num_outputs) {
      return WEFT_ERROR(INVALID_ARGUMENT, "worker %d has %d inputs and %d outputs, worker 0 has %d and %d", i,
                        g->num_inputs, g->num_outputs, c->names[0].num_inputs, c->names[0].num_outputs);
    }
  }
  return NULL;
}

WEFT_Closure *WEFT_NewClosureFromGraphDef(WEFT_Coordinator *co, const TF_Buffer *graph_def,
                                          const WEFT_ClosureNames *names, int num_names, TF_Status *status) {
  WEFT_Closure *c = NULL;
  weft_status_t *s = NULL;
  if (num_names != 1 && num_names != co->num_workers)
    s = WEFT_ERROR(INVALID_ARGUMENT, "names are given for %d workers; there are %d", num_names,
                   co->num_workers);
  if (s == NULL) s = create(co, &c);
  if (s == NULL) {
    char *bytes = weft_arena_alloc(&c->arena, graph_def->length + 1);
    if (bytes == NULL) s = no_memory();
    if (s == NULL && graph_def->length > 0) memcpy(bytes, graph_def->data, graph_def->length);
    if (s == NULL) c->graph_def = weft_str_of(bytes, graph_def->length);
  }
  if (s == NULL) s = copy_all_names(c, names, num_names);
  if (weft_client_end(status, s)) return c;
  weft_closure_release(c);
  return NULL;
}

/* ---- a worker's graph ---- */

static weft_status_t *from_tf(const TF_Status *status, const char *what) {
  if (TF_GetCode(status) == TF_OK) return NULL;
  weft_status_t *s =
      weft_status_from_wire((int)TF_GetCode(status), TF_Message(status), strlen(TF_Message(status)));
  return weft_status_annotate(s, "%s", what);
}

static weft_status_t *take_graph(TF_Graph *g, WEFT_WorkerContext *x, weft_co_graph_t *out,
                                 TF_Status *status) {
  TF_Buffer *bytes = TF_NewBuffer();
  if (bytes == NULL) return no_memory();
  TF_GraphToGraphDef(g, bytes, status);
  weft_status_t *s = from_tf(status, "writing a closure's graph");
  if (s == NULL) {
    out->graph_def = weft_arena_str(&out->arena, weft_str_of(bytes->data, bytes->length));
    if (out->graph_def.data == NULL) s = no_memory();
  }
  if (s == NULL) s = weft_worker_context_take(x, out);
  TF_DeleteBuffer(bytes);
  return s;
}

static weft_status_t *call_build(WEFT_Closure *c, int worker, weft_co_graph_t *out) {
  TF_Graph *g = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  WEFT_WorkerContext x;
  weft_worker_context_init(&x, c->coordinator, worker);
  weft_status_t *s = g == NULL || status == NULL ? no_memory() : NULL;
  if (s == NULL) {
    c->build(g, &x, c->user, status);
    s = from_tf(status, "building a closure");
  }
  if (s == NULL) s = take_graph(g, &x, out, status);
  weft_worker_context_deinit(&x);
  TF_DeleteGraph(g);
  TF_DeleteStatus(status);
  return s;
}

/* What a worker needs of a ready graph. The lists stay the closure's. */
static weft_status_t *take_part(WEFT_Closure *c, int worker, weft_co_graph_t *out) {
  *out = c->names[c->num_names == 1 ? 0 : worker];
  out->arena = (weft_arena_t)WEFT_ARENA_INIT;
  const struct {
    const weft_str_t *items;
    int n;
  } lists[] = {
      {out->inputs, out->num_inputs}, {out->outputs, out->num_outputs}, {out->targets, out->num_targets}};
  weft_str_t *roots = weft_arena_calloc(
      &out->arena, (size_t)(out->num_inputs + out->num_outputs + out->num_targets) + 1, sizeof *roots);
  int n = 0;
  if (roots == NULL) return no_memory();
  for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
    for (int i = 0; i < lists[k].n; i++) roots[n++] = lists[k].items[i];
  }
  return weft_co_prune(c->graph_def, roots, n, &out->arena, &out->graph_def);
}

weft_status_t *weft_closure_build(WEFT_Closure *c, int worker) {
  weft_co_part_t *p = &c->parts[worker];
  weft_status_t *s = NULL;
  if (p->is_built) return NULL;
  if (c->build != NULL) {
    s = call_build(c, worker, &p->graph);
  } else {
    s = take_part(c, worker, &p->graph);
  }
  p->is_built = s == NULL;
  if (s != NULL) weft_arena_deinit(&p->graph.arena);
  if (s != NULL) p->graph = (weft_co_graph_t){.arena = WEFT_ARENA_INIT};
  return s;
}
