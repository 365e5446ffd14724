/* graph/lower_functions.c - the pass: every functional node in the order of ids, those of bodies after their
 * callers, until none is left. */
#include "base/alloc.h"
#include "graph/function.h"
#include "graph/lower.h"
#include "graph/passes.h"

static bool has_func(const weft_node_t *n, const char *name) {
  const weft_attr_t *a = weft_node_attr(n, name);
  return a != NULL && a->kind == WEFT_ATTR_FUNC;
}

static weft_status_t *lower_node(weft_lowering_t *l, weft_node_t *n) {
  weft_func_attr_t called;
  if (n->function != NULL && weft_lower_called(n, &called)) return weft_lower_call(l, n, &called, 0);
  if (has_func(n, "then_branch") || has_func(n, "branches")) return weft_lower_cond(l, n);
  if (has_func(n, "body")) return weft_lower_while(l, n);
  if ((n->flags & WEFT_OP_GRADIENT) != 0) return weft_lower_gradient(l, n);
  if ((n->flags & WEFT_OP_REMOTE_CALL) != 0) return weft_lower_remote_call(l, n);
  if ((n->flags & WEFT_OP_CALL) == 0) return NULL; /* others use functions in ways that are not calls */
  const weft_func_attr_t *func = NULL;
  WEFT_RETURN_IF_ERROR(weft_lower_func_attr(n, "f", &func));
  return weft_lower_call(l, n, func, 0);
}

/* Does the node stay as it is? */
static bool stays(const weft_lowering_t *l, const weft_node_t *n) {
  weft_func_attr_t called;
  if ((n->flags & WEFT_OP_FUNCTIONAL) == 0) return true;
  if (l->which != NULL && n->id < l->first_new_id && l->which[n->id] == 0) return true;
  return l->keeps_own && weft_lower_called(n, &called) &&
         weft_lower_own_gradient(l->g, called.name).data != NULL;
}

/* A call that cannot be lowered is as an op that is not registered: only a step that needs it fails. What was
 * added for it goes again. */
static weft_status_t *set_aside(weft_graph_t *g, weft_node_t *n, int first_added, weft_status_t *s) {
  weft_code_t code = weft_status_code(s);
  if (code != WEFT_INVALID_ARGUMENT && code != WEFT_NOT_FOUND) return s;
  for (int id = g->num_nodes - 1; id >= first_added; id--) {
    if (g->nodes[id] != NULL) weft_graph_remove(g, g->nodes[id]);
  }
  WEFT_RETURN_IF_ERROR(weft_function_library_set_aside(g->library, n->op->name, s, &n->op));
  n->function = NULL;
  n->flags = n->op->flags;
  return NULL;
}

/* What is done when the node that only keeps a name was to be; NULL: it is another node, or keeps its
 * consumers. */
static weft_node_t *passed(const weft_lowering_t *l, const weft_node_t *n) {
  return l->which != NULL && n->id < l->first_new_id ? NULL : l->done[n->id];
}

/* Connects consumers past the nodes that only keep a name. */
static weft_status_t *bypass(const weft_lowering_t *l, weft_node_t *n) {
  for (int i = 0; i < n->num_inputs; i++) {
    while (passed(l, n->inputs[i].node) != NULL) n->inputs[i] = n->inputs[i].node->inputs[n->inputs[i].index];
  }
  for (int i = 0; i < n->num_controls; i++) {
    weft_node_t *done = passed(l, n->controls[i]);
    if (done != NULL) WEFT_RETURN_IF_ERROR(weft_graph_replace_control(l->g, n, i, done));
  }
  return NULL;
}

static weft_status_t *run(weft_lowering_t *l, int first_id) {
  weft_graph_t *g = l->g;
  int num_lowered = 0;
  l->capacity = g->num_nodes + 16;
  l->chains = weft_calloc((size_t)l->capacity, sizeof(*l->chains));
  l->done = weft_calloc((size_t)l->capacity, sizeof(*l->done));
  if (l->chains == NULL || l->done == NULL) return WEFT_NO_MEMORY("lowering %d nodes", g->num_nodes);
  for (int id = first_id; id < g->num_nodes; id++) { /* num_nodes grows */
    weft_node_t *n = g->nodes[id];
    if (n == NULL || stays(l, n)) continue;
    int first_added = g->num_nodes;
    weft_status_t *s = lower_node(l, n);
    if (s != NULL && l->which == NULL) s = set_aside(g, n, first_added, s);
    if (s != NULL) return s;
    num_lowered++;
  }
  if (num_lowered == 0) return NULL;
  /* Finishing the last one has made l->done long enough for every id. */
  for (int id = first_id; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL) WEFT_RETURN_IF_ERROR(bypass(l, g->nodes[id]));
  }
  return NULL;
}

static weft_status_t *lower_all(weft_lowering_t *l, int first_id) {
  weft_status_t *s = run(l, first_id);
  weft_free(l->chains);
  weft_free(l->done);
  return s;
}

static weft_status_t *lower_nested(const weft_lowering_t *outer, weft_graph_t *g, bool keeps_own) {
  weft_lowering_t l = {.g = g,
                       .first_new_id = g->num_nodes,
                       .name_bytes = outer->name_bytes,
                       .depth = outer->depth + 1,
                       .keeps_own = keeps_own,
                       .nested = lower_nested};
  if (l.depth > WEFT_LOWER_GRADIENT_DEPTH) {
    return WEFT_ERROR(INVALID_ARGUMENT, "gradients of functions are nested more than %d deep",
                      WEFT_LOWER_GRADIENT_DEPTH);
  }
  return lower_all(&l, 0);
}

weft_status_t *weft_pass_lower_functions(weft_graph_t *g, int first_id) {
  weft_lowering_t l = {
      .g = g, .first_new_id = g->num_nodes, .name_bytes = WEFT_LOWER_NAME_BYTES, .nested = lower_nested};
  return lower_all(&l, first_id);
}

weft_status_t *weft_pass_lower_some(weft_graph_t *g, const uint8_t *which, weft_str_t scope) {
  weft_lowering_t l = {.g = g,
                       .first_new_id = g->num_nodes,
                       .which = which,
                       .scope = scope,
                       .keeps_own = true,
                       .name_bytes = WEFT_LOWER_NAME_BYTES,
                       .nested = lower_nested};
  return lower_all(&l, 0);
}
