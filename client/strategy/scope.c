/* client/strategy/scope.c - opening and leaving a scope; where the builder of a graph is. */
#include "client/strategy/scope.h"

#include "base/alloc.h"
#include "client/status.h"

static void destroy(void *arg) {
  weft_scope_t *s = arg;
  weft_map_deinit(&s->shared);
  weft_arena_deinit(&s->arena);
  weft_free(s);
}

weft_status_t *weft_scope_of(TF_Graph *g, weft_scope_t **out) {
  *out = g->strategy_scope;
  if (*out != NULL) return NULL;
  weft_scope_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("a strategy's scope");
  s->place = (weft_place_t){.prefix = WEFT_STR(""), .device = WEFT_STR("")};
  s->last_variable = &s->variables;
  s->next_instance = 1;
  g->strategy_scope = *out = s;
  g->free_strategy_scope = destroy;
  return NULL;
}

static const char *const context_names[] = {"outside of a strategy's scope", "in cross-replica context",
                                            "inside a replica's function", "inside an update"};
static const char *const advice[] = {
    "call WEFT_ScopeEnter first",
    "call it inside the function of WEFT_StrategyRun",
    "use WEFT_ReplicaMergeCall to enter cross-replica context",
    "call it before or after WEFT_StrategyUpdate",
};

weft_status_t *weft_scope_check(TF_Graph *g, const WEFT_Strategy *strategy, unsigned allowed,
                                const char *what, weft_scope_t **out) {
  WEFT_RETURN_IF_ERROR(weft_scope_of(g, out));
  weft_scope_t *s = *out;
  if (strategy != NULL && s->strategy != NULL && s->strategy != strategy) {
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "%s: another strategy's scope is open on the graph; leave it with WEFT_ScopeExit",
                      what);
  }
  weft_context_t context = s->strategy == NULL ? WEFT_CONTEXT_NONE : s->place.context;
  if ((allowed & 1u << context) != 0) return NULL;
  return WEFT_ERROR(FAILED_PRECONDITION, "%s cannot be called %s: %s", what, context_names[context],
                    advice[context]);
}

weft_place_t weft_scope_go(TF_Graph *g, weft_scope_t *s, weft_place_t to) {
  weft_place_t from = s->place;
  s->place = to;
  g->name_prefix = to.prefix;
  g->default_device = to.device;
  return from;
}

/* ---- the public calls ---- */

static weft_status_t *enter(WEFT_Strategy *strategy, TF_Graph *graph) {
  weft_scope_t *s;
  WEFT_RETURN_IF_ERROR(weft_scope_of(graph, &s));
  if (s->strategy != NULL && s->strategy != strategy) {
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "another strategy's scope is open on the graph; leave it with WEFT_ScopeExit first");
  }
  if (s->depth++ > 0) return NULL;
  s->strategy = strategy;
  weft_scope_go(graph, s, weft_cross_place());
  return NULL;
}

void WEFT_ScopeEnter(WEFT_Strategy *strategy, TF_Graph *graph, TF_Status *status) {
  weft_client_end(status, enter(strategy, graph));
}

static weft_status_t *leave(WEFT_Strategy *strategy, TF_Graph *graph) {
  weft_scope_t *s;
  WEFT_RETURN_IF_ERROR(weft_scope_check(graph, strategy, 1u << WEFT_CONTEXT_CROSS, "WEFT_ScopeExit", &s));
  if (--s->depth > 0) return NULL;
  s->strategy = NULL;
  weft_scope_go(graph, s, (weft_place_t){.prefix = WEFT_STR(""), .device = WEFT_STR("")});
  return NULL;
}

void WEFT_ScopeExit(WEFT_Strategy *strategy, TF_Graph *graph, TF_Status *status) {
  weft_client_end(status, leave(strategy, graph));
}

int WEFT_HasScope(TF_Graph *graph) {
  const weft_scope_t *s = graph->strategy_scope;
  return s != NULL && s->strategy != NULL;
}

weft_status_t *weft_status_taken(TF_Status *status) {
  if (TF_GetCode(status) == TF_OK) return NULL;
  const char *message = TF_Message(status);
  return weft_status_from_wire((int)TF_GetCode(status), message, strlen(message));
}

/* ---- adding nodes ---- */

void weft_adding_begin(weft_adding_t *b, TF_Graph *g, weft_str_t device) WEFT_TSA(no_thread_safety_analysis) {
  weft_mutex_lock(&g->mu);
  *b = (weft_adding_t){.e = {.g = g->graph, .device = device}, .graph = g, .first_id = g->graph->num_nodes};
}

weft_status_t *weft_adding_end(weft_adding_t *b) WEFT_TSA(no_thread_safety_analysis) {
  TF_Graph *g = b->graph;
  weft_status_t *s = weft_emitter_end(&b->e);
  for (int id = b->first_id; s == NULL && id < g->graph->num_nodes; id++) {
    if (g->graph->nodes[id] != NULL) s = weft_inference_add(g->inference, g->graph->nodes[id]);
  }
  if (s == NULL) s = weft_client_graph_sync_locked(g);
  weft_mutex_unlock(&g->mu);
  return s;
}

TF_Operation *weft_adding_operation(const weft_adding_t *b, weft_node_t *n)
    WEFT_TSA(no_thread_safety_analysis) {
  return n == NULL ? NULL : weft_client_operation(b->graph, n);
}

TF_Output weft_adding_output(const weft_adding_t *b, weft_output_t o) {
  return (TF_Output){weft_adding_operation(b, o.node), o.index};
}
