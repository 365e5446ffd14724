/* jobs/rewrite_graph.c - what a request leaves out is filled in; names are checked. */
#include "jobs/rewrite_graph.h"

#include "base/alloc.h"
#include "base/similar.h"
#include "graph/graph_proto.h"
#include "strategies/origin.h"

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

static weft_status_t *check_name(weft_str_t text) {
  weft_str_t name = text, rest;
  weft_similar_t similar;
  const weft_strategy_t *strategy;
  weft_status_t *s = weft_strategy_find(text, &strategy, &rest);
  if (s == NULL) return NULL;
  if (!weft_str_split(text, ':', &name, &rest)) name = text;
  weft_similar_init(&similar, name);
  for (int i = 0; weft_strategies[i] != NULL; i++)
    weft_similar_offer(&similar, weft_str(weft_strategies[i]->name));
  if (similar.best.data == NULL) return s;
  return weft_status_annotate(s, "did you mean '%.*s'?", WEFT_STR_ARGS(similar.best));
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

weft_status_t *weft_job_rewrite(weft_str_t graph_def, const char *text, const weft_strategy_request_t *given,
                                bool marks_variables, weft_rewrite_t *out) {
  names_t feeds = {0}, targets = {0}, inits = {0};
  weft_graph_t *graph = NULL;
  weft_strategy_request_t request = *given;
  const weft_import_options_t import = {.is_client_api = true};
  const weft_names_t *lists[] = {&given->feeds, &given->fetches, &given->targets, &given->inits};
  *out = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
  weft_status_t *s = check_name(weft_str(text));
  if (s == NULL) s = weft_graph_create(&graph);
  if (s == NULL) s = weft_graph_import(graph, graph_def, &import);
  if (s == NULL && marks_variables) s = weft_origin_mark(graph);
  for (int i = 0; i < 4 && s == NULL; i++) s = check_nodes(graph, lists[i]);
  request.graph = graph;
  if (s == NULL && given->fetches.n + given->targets.n + given->inits.n == 0) {
    s = add_sinks(&targets, &inits, graph);
    request.targets = (weft_names_t){targets.items, targets.n};
    request.inits = (weft_names_t){inits.items, inits.n};
  }
  if (s == NULL && given->feeds.n == 0) {
    s = add_placeholders(&feeds, graph, &request);
    request.feeds = (weft_names_t){feeds.items, feeds.n};
  }
  if (s == NULL) s = weft_strategy_apply(weft_str(text), &request, out);
  weft_graph_destroy(graph);
  weft_free(feeds.items);
  weft_free(targets.items);
  weft_free(inits.items);
  return s;
}
