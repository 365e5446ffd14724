/* jobs/rewrite_graph.c - what a request leaves out is filled in; names are checked. */
#include "jobs/rewrite_graph.h"

#include "base/alloc.h"
#include "base/similar.h"
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "strategies/origin.h"
#include "strategies/prepare.h"

typedef struct names { /* a list that grows; texts are lent */
  weft_str_t *items;
  int n, capacity;
} names_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("names"); }

static weft_status_t *add(names_t *l, weft_str_t name) {
  if (l->n == l->capacity) {
    int capacity = l->capacity == 0 ? 16 : 2 * l->capacity;
    weft_str_t *more = weft_realloc(l->items, (size_t)capacity, sizeof *more);
    if (more == NULL) return no_memory();
    l->items = more;
    l->capacity = capacity;
  }
  l->items[l->n++] = name;
  return NULL;
}

/* Marks what is made, in the end, of what must be fed. Loops go round until nothing is new. */
static weft_status_t *mark_fed(const weft_graph_t *g, const weft_fanout_t *f, bool *fed) {
  int *stack = weft_calloc((size_t)g->num_nodes + 1, sizeof *stack), n = 0;
  if (stack == NULL) return no_memory();
  for (int i = 0; i < g->num_nodes; i++) {
    if (g->nodes[i] == NULL || (g->nodes[i]->flags & WEFT_OP_PLACEHOLDER) == 0) continue;
    fed[i] = true;
    stack[n++] = i;
  }
  while (n > 0) {
    int at = stack[--n];
    for (int e = f->begin[at]; e < f->begin[at + 1]; e++) {
      int to = f->edges[e].to->id;
      if (!fed[to]) stack[n++] = to;
      fed[to] = true;
    }
  }
  weft_free(stack);
  return NULL;
}

/* The default is a training step: all nodes without consumers that are made of what is fed. Others without
 * consumers that have no value (initialisers, restores) come before. */
static weft_status_t *add_sinks(names_t *targets, names_t *inits, const weft_graph_t *g) {
  weft_fanout_t f;
  WEFT_RETURN_IF_ERROR(weft_fanout_build(g, &f));
  bool *fed = weft_calloc((size_t)g->num_nodes + 1, sizeof *fed), any = false;
  weft_status_t *s = fed == NULL ? no_memory() : mark_fed(g, &f, fed);
  for (int i = 0; s == NULL && i < g->num_nodes; i++)
    any = any || (g->nodes[i] != NULL && f.begin[i] == f.begin[i + 1] && fed[i]);
  for (int i = 0; s == NULL && i < g->num_nodes; i++) {
    if (g->nodes[i] == NULL || f.begin[i] != f.begin[i + 1]) continue;
    if (!any || fed[i]) {
      s = add(targets, g->nodes[i]->name);
    } else if (g->nodes[i]->num_outputs == 0) {
      s = add(inits, g->nodes[i]->name);
    }
  }
  weft_free(fed);
  weft_fanout_deinit(&f);
  return s;
}

/* Nodes that are still to be looked at, each once. */
typedef struct todo {
  weft_node_t **stack;
  bool *is_known; /* by node id */
  int n;
} todo_t;

static void push(todo_t *t, weft_node_t *n) {
  if (n == NULL || t->is_known[n->id]) return;
  t->is_known[n->id] = true;
  t->stack[t->n++] = n;
}

static void push_all(todo_t *t, const weft_graph_t *g, const weft_names_t *names) {
  for (int i = 0; i < names->n; i++) {
    weft_str_t node;
    int index;
    if (weft_tensor_name_parse(names->items[i], &node, &index)) push(t, weft_graph_find(g, node));
  }
}

/* Those that what runs is made of: a graph may have other entries with inputs of their own. */
static weft_status_t *add_placeholders(names_t *l, const weft_graph_t *g, const weft_strategy_request_t *r) {
  todo_t t = {weft_calloc((size_t)g->num_nodes + 1, sizeof *t.stack),
              weft_calloc((size_t)g->num_nodes + 1, sizeof *t.is_known), 0};
  weft_status_t *s = t.stack == NULL || t.is_known == NULL ? no_memory() : NULL;
  if (s == NULL) {
    push_all(&t, g, &r->fetches);
    push_all(&t, g, &r->targets);
    push_all(&t, g, &r->inits);
  }
  while (s == NULL && t.n > 0) {
    const weft_node_t *n = t.stack[--t.n];
    for (int i = 0; i < n->num_inputs; i++) push(&t, n->inputs[i].node);
    for (int i = 0; i < n->num_controls; i++) push(&t, n->controls[i]);
  }
  for (int i = 0; s == NULL && i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL && t.is_known[i] && (g->nodes[i]->flags & WEFT_OP_PLACEHOLDER) != 0)
      s = add(l, g->nodes[i]->name);
  }
  weft_free(t.stack);
  weft_free(t.is_known);
  return s;
}

/* Every name that was given is of a node. */
static weft_status_t *check_nodes(const weft_graph_t *g, const weft_names_t *names) {
  for (int i = 0; i < names->n; i++) {
    weft_str_t node;
    int index;
    if (!weft_tensor_name_parse(names->items[i], &node, &index) || weft_graph_find(g, node) != NULL) continue;
    weft_similar_t similar;
    weft_similar_init(&similar, node);
    for (int id = 0; id < g->num_nodes; id++) {
      if (g->nodes[id] != NULL) weft_similar_offer(&similar, g->nodes[id]->name);
    }
    if (similar.best.data == NULL)
      return WEFT_ERROR(NOT_FOUND, "the graph has no node '%.*s'", WEFT_STR_ARGS(node));
    return WEFT_ERROR(NOT_FOUND, "the graph has no node '%.*s'; did you mean '%.*s'?", WEFT_STR_ARGS(node),
                      WEFT_STR_ARGS(similar.best));
  }
  return NULL;
}

/* A request with what it leaves out. */
typedef struct completed {
  weft_strategy_request_t request;
  names_t feeds, targets, inits;
} completed_t;

static void deinit_completed(completed_t *c) {
  weft_free(c->feeds.items);
  weft_free(c->targets.items);
  weft_free(c->inits.items);
}

static weft_status_t *complete(const weft_graph_t *g, const weft_strategy_request_t *given,
                               completed_t *out) {
  const weft_names_t *lists[] = {&given->feeds, &given->fetches, &given->targets, &given->inits};
  out->request = *given;
  out->request.graph = g;
  for (int i = 0; i < 4; i++) WEFT_RETURN_IF_ERROR(check_nodes(g, lists[i]));
  if (given->fetches.n + given->targets.n + given->inits.n == 0) {
    WEFT_RETURN_IF_ERROR(add_sinks(&out->targets, &out->inits, g));
    out->request.targets = (weft_names_t){out->targets.items, out->targets.n};
    out->request.inits = (weft_names_t){out->inits.items, out->inits.n};
  }
  if (given->feeds.n == 0) {
    WEFT_RETURN_IF_ERROR(add_placeholders(&out->feeds, g, &out->request));
    out->request.feeds = (weft_names_t){out->feeds.items, out->feeds.n};
  }
  return NULL;
}

weft_status_t *weft_job_rewrite(weft_str_t graph_def, const char *text, const weft_strategy_request_t *given,
                                bool marks_variables, weft_rewrite_t *out) {
  completed_t c = {0};
  weft_graph_t *graph = NULL;
  const weft_import_options_t import = {.is_client_api = true};
  *out = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
  weft_status_t *s = weft_strategy_check(weft_str(text));
  if (s == NULL) s = weft_graph_create(&graph);
  if (s == NULL) s = weft_graph_import(graph, graph_def, &import);
  if (s == NULL && marks_variables) s = weft_origin_mark(graph);
  if (s == NULL) s = complete(graph, given, &c);
  if (s == NULL) s = weft_strategy_apply(weft_str(text), &c.request, out);
  weft_graph_destroy(graph);
  deinit_completed(&c);
  return s;
}

/* ---- without a strategy ---- */

static weft_status_t *prune(weft_graph_t *g, const weft_strategy_request_t *r) {
  const weft_names_t *lists[] = {&r->feeds, &r->fetches, &r->targets};
  weft_node_t **roots = weft_calloc((size_t)(r->feeds.n + r->fetches.n + r->targets.n) + 1, sizeof(*roots));
  int n = 0;
  if (roots == NULL) return no_memory();
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < lists[k]->n; i++) {
      weft_str_t node;
      int index;
      weft_node_t *found =
          weft_tensor_name_parse(lists[k]->items[i], &node, &index) ? weft_graph_find(g, node) : NULL;
      if (found != NULL) roots[n++] = found;
    }
  }
  weft_status_t *s = weft_pass_prune(g, roots, n);
  weft_free(roots);
  return s;
}

/* As a server takes it: ops that are not known are no failure until a step needs them. */
static weft_status_t *import_whole(weft_str_t graph_def, weft_graph_t **out) {
  const weft_import_options_t import = {.is_client_api = false};
  *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_create(out));
  return weft_graph_import(*out, graph_def, &import);
}

static weft_status_t *fill_loop(weft_rewrite_t *r, const weft_strategy_request_t *request) {
  r->loops = weft_arena_calloc(&r->arena, 1, sizeof *r->loops);
  if (r->loops == NULL) return no_memory();
  r->num_loops = 1;
  r->loops[0] = (weft_worker_loop_t){.name = WEFT_STR("step"), .task = WEFT_STR(""), .leave = WEFT_STR("")};
  WEFT_RETURN_IF_ERROR(weft_copy_names(&r->arena, request->feeds, &r->loops[0].feeds));
  WEFT_RETURN_IF_ERROR(weft_copy_names(&r->arena, request->fetches, &r->loops[0].fetches));
  return weft_copy_names(&r->arena, request->targets, &r->loops[0].targets);
}

weft_status_t *weft_job_keep(weft_str_t graph_def, const weft_strategy_request_t *given, bool takes_all,
                             weft_rewrite_t *out) {
  completed_t c = {0};
  *out = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
  weft_status_t *s = import_whole(graph_def, &out->graph);
  if (s == NULL) s = complete(out->graph, given, &c);
  if (s == NULL) s = fill_loop(out, &c.request);
  if (s == NULL && !takes_all) s = prune(out->graph, &c.request);
  weft_status_t *lowered = s == NULL ? weft_pass_lower_functions(out->graph, 0) : NULL;
  if (lowered != NULL) { /* what cannot run can still be looked at: with its functions as they are */
    weft_status_free(lowered);
    weft_graph_destroy(out->graph);
    s = import_whole(graph_def, &out->graph);
  }
  if (s == NULL) weft_status_free(weft_pass_infer_shapes(out->graph)); /* where they fit */
  deinit_completed(&c);
  return s;
}
