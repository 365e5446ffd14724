/* tools/drawing/homes.c - what each node of a step is for, and in which layer it is drawn.
 *
 * Passes over the nodes in topological order, forwards or backwards, each linear in nodes and edges. */
#include "base/alloc.h"
#include "tools/drawing/names.h"

enum { MOST_ROUNDS = 5, MOST_NAME = 1024 };

enum {
  NAMED_GRADIENT = 1, /* by its scope */
  OF_GRADIENT = 2,    /* made of a gradient */
  ONLY_UPDATES = 4,   /* leads to updates, and to nothing else */
  LEARNS = 8,         /* leads to a gradient or an update */
  ADDED = 16,
  HAS_HOME = 32,
  TO_GRADIENT = 64, /* leads to a gradient that is named so */
};

typedef struct homes {
  weft_step_nodes_t *s;
  const weft_graph_t *graph;
  uint8_t *marks;     /* by index */
  int *layers;        /* by index: of variables and updates; 0: none, else a number of `scopes` */
  int *reached;       /* by index: of gradients, the latest layer that they update; -1: none */
  weft_str_t *scopes; /* by number; those of layers */
  int *orders;        /* by number: where the layer is first used */
  int num_scopes;
  weft_map_t scope_index; /* scope -> number + 1 */
  weft_map_t forward;     /* plain name of a forward node -> node */
  weft_map_t forward_scopes;
  weft_map_t purposes; /* scope -> HAS_ bits */
  weft_str_t common;   /* the scope of all: "train" */
  bool learns;
} homes_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the layers of a drawing"); }

static int index_of(const homes_t *h, const weft_node_t *n) { return n == NULL ? -1 : h->s->index_of[n->id]; }

static bool has(const weft_step_node_t *n, uint64_t flag) { return (n->node->flags & flag) != 0; }

static bool is_update(const weft_step_node_t *n) { return has(n, WEFT_OP_UPDATE); }

/* ---- what names and edges say ---- */

/* What has a value of its own that is neither constant nor a variable: fed, drawn, read from files. */
static bool is_source(const weft_step_node_t *n) {
  if (n->is_fed || has(n, WEFT_OP_PLACEHOLDER)) return true;
  return n->node->num_inputs == 0 && !has(n, WEFT_OP_CONST | WEFT_OP_VARIABLE | WEFT_OP_NOOP);
}

/* What leaves a loop comes behind all that is in it: the depth of what goes round to where it leaves. */
static int depth_of_loop(const homes_t *h, const weft_node_t *exit) {
  const weft_node_t *at = exit;
  for (uint64_t flag = WEFT_OP_SWITCH;; flag = WEFT_OP_MERGE) {
    if (at->num_inputs == 0 || at->inputs[0].node == NULL || (at->inputs[0].node->flags & flag) == 0)
      return -1;
    at = at->inputs[0].node;
    if (flag == WEFT_OP_MERGE) break;
  }
  int depth = -1;
  for (int k = 0; k < at->num_inputs; k++) {
    const int from = index_of(h, at->inputs[k].node);
    if (from >= 0 && h->s->nodes[from].depth > depth) depth = h->s->nodes[from].depth;
  }
  return depth;
}

static void look_at(homes_t *h, int i) {
  weft_step_node_t *n = &h->s->nodes[i];
  weft_str_t before, behind;
  n->name = weft_drawn_plain_name(n->node->name);
  if (n->name.length > MOST_NAME)
    n->name.length = MOST_NAME; /* names from outside are as long as they like */
  n->kind = weft_drawn_kind_of(n->name, &behind);
  if (n->kind == WEFT_DRAWN_USER && has(n, WEFT_OP_SEND | WEFT_OP_RECV)) n->kind = WEFT_DRAWN_TRANSFER;
  if (n->kind != WEFT_DRAWN_USER) h->marks[i] |= ADDED;
  if (weft_drawn_is_gradient(n->name, &before, &behind)) h->marks[i] |= NAMED_GRADIENT | OF_GRADIENT;
  if (is_source(n)) n->depth = 0;
  if (has(n, WEFT_OP_EXIT)) {
    const int depth = depth_of_loop(h, n->node);
    if (depth >= n->depth && depth >= 0) n->depth = depth + 1;
  }
  for (int k = 0; k < n->node->num_inputs && !n->is_fed; k++) {
    int from = index_of(h, n->node->inputs[k].node);
    if (from < 0) continue;
    h->marks[i] |= h->marks[from] & OF_GRADIENT;
    if (from > i && n->depth >= 0) continue; /* round a loop */
    if (h->s->nodes[from].depth >= n->depth && h->s->nodes[from].depth >= 0)
      n->depth = h->s->nodes[from].depth + 1;
  }
}

static void look_back(homes_t *h, int i) {
  const weft_fanout_t *f = &h->s->fanout;
  int id = h->s->nodes[i].node->id, n = 0, only = 0;
  for (int e = f->begin[id]; e < f->begin[id + 1]; e++) {
    int to = h->s->index_of[f->edges[e].to->id];
    if (to < 0) continue;
    const bool writes = is_update(&h->s->nodes[to]);
    if (writes || (h->marks[to] & (LEARNS | OF_GRADIENT)) != 0) h->marks[i] |= LEARNS;
    if (f->edges[e].input < 0) continue; /* what only waits says nothing of what a value is for */
    n++;
    only += writes || (h->marks[to] & ONLY_UPDATES) != 0;
    if ((h->marks[to] & (NAMED_GRADIENT | TO_GRADIENT)) != 0) h->marks[i] |= TO_GRADIENT;
  }
  if (n > 0 && n == only) h->marks[i] |= ONLY_UPDATES;
}

static weft_drawn_role_t role_of(const homes_t *h, int i) {
  const weft_step_node_t *n = &h->s->nodes[i];
  uint8_t marks = h->marks[i];
  if ((marks & ADDED) != 0) return WEFT_DRAWN_ADDED;
  if (is_update(n)) return WEFT_DRAWN_UPDATE;
  if ((marks & NAMED_GRADIENT) != 0) return WEFT_DRAWN_GRADIENT;
  if ((marks & (OF_GRADIENT | TO_GRADIENT)) == (OF_GRADIENT | TO_GRADIENT)) return WEFT_DRAWN_GRADIENT;
  if ((marks & (ONLY_UPDATES | TO_GRADIENT)) == ONLY_UPDATES && h->learns) return WEFT_DRAWN_UPDATE;
  if ((marks & OF_GRADIENT) != 0) return WEFT_DRAWN_GRADIENT;
  weft_drawn_role_t role = WEFT_DRAWN_FORWARD; /* what only waits is like what it waits for */
  for (int k = 0; n->node->num_inputs == 0 && has(n, WEFT_OP_NOOP) && k < n->node->num_controls; k++) {
    int from = index_of(h, n->node->controls[k]);
    if (from >= 0 && h->s->nodes[from].role > role && h->s->nodes[from].role < WEFT_DRAWN_ADDED)
      role = h->s->nodes[from].role;
  }
  return role;
}

enum { HAS_UPDATES = 2, HAS_MODEL = 4 };

static weft_status_t *mark_scopes(homes_t *h, weft_str_t name, uintptr_t mark) {
  for (weft_str_t scope = weft_drawn_parent(name); scope.length > 0; scope = weft_drawn_parent(scope)) {
    const uintptr_t known = (uintptr_t)weft_map_get(&h->purposes, scope);
    if ((known & mark) != 0) return NULL;
    WEFT_RETURN_IF_ERROR(weft_map_put(&h->purposes, scope, (void *)(known | mark), NULL));
  }
  return NULL;
}

/* A scope with updates, in which nothing leads to a gradient, is an optimizer's, with all that is in it. */
static weft_status_t *find_optimizers(homes_t *h) {
  const weft_step_nodes_t *s = h->s;
  if (!h->learns) return NULL;
  for (int i = 0; i < s->num_nodes; i++) {
    const bool is_model = (h->marks[i] & TO_GRADIENT) != 0 && (h->marks[i] & NAMED_GRADIENT) == 0;
    if (is_update(&s->nodes[i])) WEFT_RETURN_IF_ERROR(mark_scopes(h, s->nodes[i].name, HAS_UPDATES));
    if (is_model) WEFT_RETURN_IF_ERROR(mark_scopes(h, s->nodes[i].name, HAS_MODEL));
  }
  for (int i = 0; i < s->num_nodes; i++) {
    weft_step_node_t *n = &s->nodes[i];
    if (n->role > WEFT_DRAWN_GRADIENT || has(n, WEFT_OP_VARIABLE) || (h->marks[i] & NAMED_GRADIENT) != 0)
      continue;
    for (weft_str_t scope = weft_drawn_parent(n->name); scope.length > 0; scope = weft_drawn_parent(scope)) {
      if ((uintptr_t)weft_map_get(&h->purposes, scope) == HAS_UPDATES) n->role = WEFT_DRAWN_UPDATE;
    }
  }
  return NULL;
}

static void find_roles(homes_t *h) {
  weft_step_nodes_t *s = h->s;
  bool is_new =
      true; /* what comes round a loop may be all that a value is made of: nested loops take more rounds */
  for (int round = 0; round < MOST_ROUNDS && is_new; round++) {
    is_new = false;
    for (int i = 0; i < s->num_nodes; i++) {
      const int was = s->nodes[i].depth;
      look_at(h, i);
      is_new = is_new || (s->nodes[i].depth != was && has(&s->nodes[i], WEFT_OP_MERGE | WEFT_OP_EXIT));
      h->learns = h->learns || (h->marks[i] & NAMED_GRADIENT) != 0;
    }
    is_new = is_new || round == 0;
  }
  for (int i = s->num_nodes - 1; i >= 0; i--) look_back(h, i);
  for (int i = 0; i < s->num_nodes; i++) s->nodes[i].role = role_of(h, i);
}

/* ---- forward ---- */

static bool is_plumbing(const weft_step_node_t *n) {
  return has(n, WEFT_OP_CONST | WEFT_OP_VARIABLE | WEFT_OP_NOOP) || (has(n, WEFT_OP_READ) && n->depth < 0);
}

static weft_str_t common_of(weft_str_t a, weft_str_t b) {
  while (!weft_drawn_is_below(b, a)) a = weft_drawn_parent(a);
  return a;
}

static weft_status_t *add_forward(homes_t *h, weft_step_node_t *n) {
  weft_str_t scope = weft_drawn_parent(n->name);
  WEFT_RETURN_IF_ERROR(weft_map_put(&h->forward, n->name, n, NULL));
  for (; scope.length > 0 && weft_map_get(&h->forward_scopes, scope) == NULL;
       scope = weft_drawn_parent(scope))
    WEFT_RETURN_IF_ERROR(weft_map_put(&h->forward_scopes, scope, n, NULL));
  return NULL;
}

/* The part of a scope below that of all. */
static weft_str_t below_common(const homes_t *h, weft_str_t scope) {
  if (h->common.length == 0 || !weft_drawn_is_below(scope, h->common)) return scope;
  size_t n = h->common.length;
  return n == scope.length ? WEFT_STR("") : weft_str_of(scope.data + n + 1, scope.length - n - 1);
}

static weft_status_t *find_forward(homes_t *h) {
  bool is_first = true;
  for (int i = 0; i < h->s->num_nodes; i++) {
    weft_step_node_t *n = &h->s->nodes[i];
    if (n->role != WEFT_DRAWN_FORWARD || is_plumbing(n)) continue;
    WEFT_RETURN_IF_ERROR(add_forward(h, n));
    h->common = is_first ? weft_drawn_parent(n->name) : common_of(h->common, weft_drawn_parent(n->name));
    is_first = false;
  }
  for (int i = 0; i < h->s->num_nodes; i++) {
    weft_step_node_t *n = &h->s->nodes[i];
    if (n->role == WEFT_DRAWN_ADDED) continue;
    weft_str_t scope = below_common(h, weft_drawn_parent(n->name));
    if (n->is_fed || has(n, WEFT_OP_PLACEHOLDER)) {
      n->home = WEFT_STR(WEFT_DRAWN_INPUTS);
    } else if (n->role == WEFT_DRAWN_FORWARD && !is_plumbing(n)) {
      n->home = scope;
      if (scope.length == 0 && weft_map_get(&h->forward_scopes, n->name) != NULL)
        n->home = below_common(h, n->name);
      else if (scope.length == 0 && h->learns && (h->marks[i] & LEARNS) == 0)
        n->home = WEFT_STR(WEFT_DRAWN_RESULTS);
    } else {
      continue;
    }
    h->marks[i] |= HAS_HOME;
  }
  return NULL;
}

/* ---- variables ---- */

static weft_status_t *number_of(homes_t *h, weft_str_t scope, int order, int *out) {
  *out = 0;
  if (scope.length == 0 || scope.data[0] == WEFT_DRAWN_GROUP) return NULL;
  uintptr_t known = (uintptr_t)weft_map_get(&h->scope_index, scope);
  if (known == 0) {
    known = (uintptr_t)++h->num_scopes;
    h->scopes[known] = scope;
    h->orders[known] = order;
    WEFT_RETURN_IF_ERROR(weft_map_put(&h->scope_index, scope, (void *)known, NULL));
  }
  if (h->orders[known] > order) h->orders[known] = order;
  *out = (int)known;
  return NULL;
}

/* The first forward node that uses node i, through reads and what else is made of it alone. */
static int first_use(const homes_t *h, int i, int depth) {
  enum { DEEPEST = 8 };
  const weft_fanout_t *f = &h->s->fanout;
  int id = h->s->nodes[i].node->id, best = -1;
  for (int e = f->begin[id]; e < f->begin[id + 1]; e++) {
    int to = h->s->index_of[f->edges[e].to->id], use = to;
    if (to < 0 || f->edges[e].input < 0 || h->s->nodes[to].role != WEFT_DRAWN_FORWARD) continue;
    if (h->s->nodes[to].depth < 0) use = depth < DEEPEST ? first_use(h, to, depth + 1) : -1;
    if (use >= 0 && (best < 0 || use < best)) best = use;
  }
  return best;
}

static weft_status_t *find_variables(homes_t *h) {
  for (int i = 0; i < h->s->num_nodes; i++) {
    weft_step_node_t *n = &h->s->nodes[i];
    if (!has(n, WEFT_OP_VARIABLE) || n->role == WEFT_DRAWN_ADDED) continue;
    int use = first_use(h, i, 0);
    if (use < 0) continue;
    n->role = WEFT_DRAWN_FORWARD;
    n->home = h->s->nodes[use].home;
    h->marks[i] |= HAS_HOME;
    WEFT_RETURN_IF_ERROR(number_of(h, n->home, use, &h->layers[i]));
    h->s->num_variables++;
    for (weft_str_t scope = n->home; scope.length > 0; scope = weft_drawn_parent(scope)) {
      const uintptr_t known = (uintptr_t)weft_map_get(&h->s->variables_in, scope);
      WEFT_RETURN_IF_ERROR(weft_map_put(&h->s->variables_in, scope, (void *)(known + 1), NULL));
    }
  }
  return NULL;
}

/* Most variables are at home below it: it is a model, and no layer. */
static bool is_container(const homes_t *h, weft_str_t scope) {
  return scope.length == 0 ||
         2 * (uintptr_t)weft_map_get(&h->s->variables_in, scope) > (uintptr_t)h->s->num_variables;
}

/* ---- gradients ---- */

static int latest(const homes_t *h, int a, int b) {
  if (a <= 0 || b <= 0) return a > b ? a : b;
  return h->orders[a] >= h->orders[b] ? a : b;
}

/* The variable that a node writes: input 0, or what that is a view of. */
static int written(const homes_t *h, int i) {
  const weft_node_t *n = h->s->nodes[i].node;
  int at = n->num_inputs > 0 ? index_of(h, n->inputs[0].node) : -1;
  while (at >= 0 && !has(&h->s->nodes[at], WEFT_OP_VARIABLE) && h->s->nodes[at].node->num_inputs == 1)
    at = index_of(h, h->s->nodes[at].node->inputs[0].node);
  return at >= 0 && has(&h->s->nodes[at], WEFT_OP_VARIABLE) ? at : -1;
}

/* The node that hands on, at output `input`, what `to` is given there: itself, if it only passes values on
 * together; what splits up the sums of a bucket of gradients. NULL: `to` uses what it is given. */
static const weft_node_t *passed_on_by(const homes_t *h, const weft_node_t *to) {
  if ((to->flags & WEFT_OP_BUNDLE) != 0) return to;
  const int i = h->s->index_of[to->id];
  if (i < 0 || h->s->nodes[i].kind != WEFT_DRAWN_COLLECTIVE || to->num_inputs < 2) return NULL;
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_append(&name, to->name);
  weft_strbuf_puts(&name, "/split");
  const weft_node_t *split =
      name.failed ? NULL : weft_graph_find(h->graph, weft_str_of(name.data, name.length));
  weft_strbuf_deinit(&name);
  return split;
}

/* The latest layer that an edge leads to. */
static int reached_by(const homes_t *h, const weft_fanout_edge_t *e) {
  const int to = h->s->index_of[e->to->id];
  int best = 0;
  if (to < 0 || e->input < 0) return 0;
  const weft_node_t *by = passed_on_by(h, e->to);
  if (by == NULL) return h->reached[to];
  const weft_fanout_t *f = &h->s->fanout;
  for (int k = f->begin[by->id]; k < f->begin[by->id + 1]; k++) {
    const int next = h->s->index_of[f->edges[k].to->id];
    if (f->edges[k].output == e->input && next >= 0 && f->edges[k].input >= 0)
      best = latest(h, best, h->reached[next]);
  }
  return best;
}

/* The one layer that the consumers of an update's part, or of its variable, are in, as far as that is known;
 * 0: there is none such. */
static int layer_of_consumers(const homes_t *h, int i) {
  const weft_fanout_t *f = &h->s->fanout;
  const int id = h->s->nodes[i].node->id;
  int layer = 0;
  for (int e = f->begin[id]; e < f->begin[id + 1]; e++) {
    const int to = h->s->index_of[f->edges[e].to->id];
    if (to < 0 || f->edges[e].input < 0 || h->layers[to] == 0) continue;
    if (layer != 0 && layer != h->layers[to]) return 0;
    layer = h->layers[to];
  }
  return layer;
}

/* From what updates a layer's variables to what that is made of, and to variables that only updates read. */
static void spread_layers(homes_t *h) {
  for (int pass = 0; pass < 2; pass++) { /* then the variables are known that are read to update others */
    for (int i = h->s->num_nodes - 1; i >= 0; i--) {
      const weft_step_node_t *n = &h->s->nodes[i];
      if (h->layers[i] != 0 || (n->role != WEFT_DRAWN_UPDATE && !has(n, WEFT_OP_VARIABLE))) continue;
      const int variable = is_update(n) ? written(h, i) : -1;
      h->layers[i] = variable >= 0 ? h->layers[variable] : layer_of_consumers(h, i);
    }
  }
}

static void find_reached(homes_t *h) {
  const weft_fanout_t *f = &h->s->fanout;
  for (int i = h->s->num_nodes - 1; i >= 0; i--) {
    const weft_step_node_t *n = &h->s->nodes[i];
    if (is_update(n)) {
      int v = written(h, i);
      h->reached[i] = v < 0 ? 0 : h->layers[v];
    }
    for (int e = f->begin[n->node->id]; e < f->begin[n->node->id + 1] && !is_update(n); e++)
      h->reached[i] = latest(h, h->reached[i], reached_by(h, &f->edges[e]));
  }
}

/* "dense/MatMul" of "dense/MatMul_grad/tuple": as gradients of the first version are called. */
static weft_status_t *without_grad(homes_t *h, weft_str_t scope, weft_str_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_str_t part, rest = scope;
  bool is_last = false;
  while (!is_last) {
    is_last = !weft_str_split(rest, '/', &part, &rest);
    if (is_last) part = rest;
    if (weft_str_ends_with(part, "_grad")) part.length -= 5;
    if (text.length > 0) weft_strbuf_putc(&text, '/');
    weft_strbuf_append(&text, part);
  }
  *out = weft_arena_str(&h->s->arena, weft_str_of(text.data, text.length));
  bool failed = text.failed || out->data == NULL;
  weft_strbuf_deinit(&text);
  return failed ? no_memory() : NULL;
}

/* The scope of what a gradient is a gradient of, as its name says; *out stays "" if it says nothing. */
static weft_status_t *home_by_name(homes_t *h, const weft_step_node_t *n, weft_str_t *out) {
  weft_str_t before, behind, scope;
  if (!weft_drawn_is_gradient(n->name, &before, &behind)) return NULL;
  scope = weft_drawn_parent(behind);
  if (scope.length == 0) return NULL;
  WEFT_RETURN_IF_ERROR(without_grad(h, scope, &scope));
  weft_strbuf_t whole = WEFT_STRBUF_INIT;
  weft_strbuf_append(&whole, before);
  if (before.length > 0) weft_strbuf_putc(&whole, '/');
  weft_strbuf_append(&whole, scope);
  weft_str_t path = weft_arena_str(&h->s->arena, weft_str_of(whole.data, whole.length));
  bool failed = whole.failed || path.data == NULL;
  weft_strbuf_deinit(&whole);
  if (failed) return no_memory();
  while (path.length > 0 && weft_map_get(&h->forward, path) != NULL) path = weft_drawn_parent(path);
  weft_str_t known = path; /* what is a gradient of a layer that is there, stands in it */
  while (known.length > 0 && weft_map_get(&h->forward_scopes, known) == NULL)
    known = weft_drawn_parent(known);
  *out = below_common(h, known.length > h->common.length ? known : path);
  return NULL;
}

static weft_status_t *find_gradients(homes_t *h) {
  for (int i = 0; i < h->s->num_nodes; i++) {
    weft_step_node_t *n = &h->s->nodes[i];
    if (n->role != WEFT_DRAWN_GRADIENT || (h->marks[i] & HAS_HOME) != 0) continue;
    n->home = WEFT_STR("");
    WEFT_RETURN_IF_ERROR(home_by_name(h, n, &n->home));
    if (h->reached[i] > 0 && is_container(h, n->home)) n->home = h->scopes[h->reached[i]];
    if (n->home.length == 0) n->home = below_common(h, weft_drawn_parent(n->name));
    h->marks[i] |= HAS_HOME;
  }
  return NULL;
}

/* What nothing but gradients needs is theirs, where no layer has it. */
static void adopt_for_gradients(homes_t *h) {
  const weft_fanout_t *f = &h->s->fanout;
  for (int i = h->s->num_nodes - 1; i >= 0; i--) {
    weft_step_node_t *n = &h->s->nodes[i];
    const int id = n->node->id;
    int first = -1;
    bool is_theirs = n->role == WEFT_DRAWN_FORWARD && n->home.length == 0 && (h->marks[i] & HAS_HOME) != 0;
    for (int e = f->begin[id]; e < f->begin[id + 1] && is_theirs; e++) {
      const int to = h->s->index_of[f->edges[e].to->id];
      if (to < 0) continue;
      is_theirs = h->s->nodes[to].role == WEFT_DRAWN_GRADIENT;
      if (first < 0 || to < first) first = to;
    }
    if (!is_theirs || first < 0) continue;
    n->role = WEFT_DRAWN_GRADIENT;
    n->home = h->s->nodes[first].home;
  }
}

/* ---- updates ---- */

static weft_status_t *joined(homes_t *h, int a, int b, int *out) {
  *out = a == 0 ? b : a;
  if (a == 0 || b == 0 || a == b) return NULL;
  weft_str_t x = h->scopes[a], y = h->scopes[b], shared = common_of(x, y);
  bool is_one = weft_str_eq(shared, x) || weft_str_eq(shared, y);
  *out = 0;
  return is_one ? number_of(h, shared, h->orders[a], out) : NULL;
}

/* The layer that an input of an update comes from. */
static weft_status_t *layer_of_input(homes_t *h, weft_output_t of, int *out) {
  int from = index_of(h, of.node);
  *out = 0;
  if (from < 0) return NULL;
  const weft_step_node_t *n = &h->s->nodes[from];
  if ((of.node->flags & WEFT_OP_BUNDLE) != 0 && of.index < of.node->num_inputs) {
    const weft_output_t through = of.node->inputs[of.index];
    from = index_of(h, through.node);
    if (from < 0) return NULL;
    n = &h->s->nodes[from];
  }
  const bool is_of_layer = n->role == WEFT_DRAWN_FORWARD && n->depth >= 0 && !is_container(h, n->home);
  if (n->role == WEFT_DRAWN_GRADIENT || is_of_layer) return number_of(h, n->home, INT32_MAX, out);
  *out = h->layers[from];
  return NULL;
}

static weft_status_t *find_updates(homes_t *h) {
  for (int i = 0; i < h->s->num_nodes; i++) {
    weft_step_node_t *n = &h->s->nodes[i];
    if (n->role != WEFT_DRAWN_UPDATE || has(n, WEFT_OP_VARIABLE)) continue;
    int variable = is_update(n) ? written(h, i) : -1, layer = variable < 0 ? 0 : h->layers[variable], other;
    for (int k = 0; k < n->node->num_inputs && (variable < 0 || layer == 0); k++) {
      WEFT_RETURN_IF_ERROR(layer_of_input(h, n->node->inputs[k], &other));
      WEFT_RETURN_IF_ERROR(joined(h, layer, other, &layer));
    }
    h->layers[i] = layer;
    if (variable >= 0 && h->layers[variable] == 0) h->layers[variable] = layer;
  }
  spread_layers(h);
  for (int i = h->s->num_nodes - 1; i >= 0; i--) { /* what has no layer yet, and variables of updates alone */
    weft_step_node_t *n = &h->s->nodes[i];
    if ((h->marks[i] & HAS_HOME) != 0 || n->role == WEFT_DRAWN_ADDED) continue;
    if (n->role != WEFT_DRAWN_UPDATE && !has(n, WEFT_OP_VARIABLE)) continue;
    n->role = WEFT_DRAWN_UPDATE;
    weft_str_t own = below_common(h, weft_drawn_parent(n->name));
    n->home = h->layers[i] > 0                                             ? h->scopes[h->layers[i]]
              : h->learns || weft_map_get(&h->forward_scopes, own) == NULL ? WEFT_STR(WEFT_DRAWN_OPTIMIZER)
                                                                           : own;
    h->marks[i] |= HAS_HOME;
  }
  return NULL;
}

/* ---- what was added, and what shares a box ---- */

static weft_status_t *find_added(homes_t *h) {
  for (int i = 0; i < h->s->num_nodes; i++) {
    weft_step_node_t *n = &h->s->nodes[i];
    weft_str_t behind;
    if (n->role != WEFT_DRAWN_ADDED) continue;
    weft_drawn_kind_of(n->name, &behind);
    weft_strbuf_t home = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&home, "%c%s", WEFT_DRAWN_GROUP, weft_drawn_kind_name(n->kind));
    behind = weft_drawn_parent(behind);
    if (behind.length > 0) weft_strbuf_putc(&home, '/');
    weft_strbuf_append(&home, behind);
    n->home = weft_arena_str(&h->s->arena, weft_str_of(home.data, home.length));
    bool failed = home.failed || n->home.data == NULL;
    weft_strbuf_deinit(&home);
    if (failed) return no_memory();
  }
  return NULL;
}

static bool is_attached(const homes_t *h, int i) {
  const weft_step_node_t *n = &h->s->nodes[i];
  if (n->is_fed || has(n, WEFT_OP_VARIABLE | WEFT_OP_PLACEHOLDER)) return false;
  if (has(n, WEFT_OP_CONST | WEFT_OP_NOOP)) return true;
  int from = has(n, WEFT_OP_READ) && n->node->num_inputs > 0 ? index_of(h, n->node->inputs[0].node) : -1;
  return from >= 0 && has(&h->s->nodes[from], WEFT_OP_VARIABLE);
}

/* The first node beside node i that takes its value, or else that waits for it; -1: there is none. */
static int first_consumer(const homes_t *h, int i) {
  const weft_fanout_t *f = &h->s->fanout;
  const weft_step_node_t *n = &h->s->nodes[i];
  int best = -1;
  bool takes_value = false;
  for (int e = f->begin[n->node->id]; e < f->begin[n->node->id + 1]; e++) {
    const int to = h->s->index_of[f->edges[e].to->id];
    const bool is_value = f->edges[e].input >= 0;
    if (to <= i || h->s->nodes[to].place != n->place) continue;
    if ((h->s->nodes[to].role == WEFT_DRAWN_ADDED) != (n->role == WEFT_DRAWN_ADDED)) continue;
    if (best >= 0 && (is_value < takes_value || (is_value == takes_value && to > best))) continue;
    best = to;
    takes_value = is_value;
  }
  return best;
}

static void attach(homes_t *h) {
  for (int i = h->s->num_nodes - 1; i >= 0; i--) {
    weft_step_node_t *n = &h->s->nodes[i];
    if (!is_attached(h, i)) continue;
    int best = first_consumer(h, i);
    if (best >= 0 && h->s->nodes[best].attached_to >= 0) best = h->s->nodes[best].attached_to;
    n->attached_to = best;
    if (best < 0) continue;
    n->role = h->s->nodes[best].role;
    n->kind = h->s->nodes[best].kind;
    n->home = h->s->nodes[best].home;
    h->marks[i] |= HAS_HOME;
  }
  for (int i = 0; i < h->s->num_nodes; i++) {
    weft_step_node_t *n = &h->s->nodes[i];
    if ((h->marks[i] & HAS_HOME) == 0 && n->role != WEFT_DRAWN_ADDED)
      n->home = below_common(h, weft_drawn_parent(n->name));
  }
}

weft_status_t *weft_step_nodes_settle(weft_step_nodes_t *s, const weft_graph_t *g) {
  size_t n = (size_t)s->num_nodes + 2;
  homes_t h = {.s = s,
               .graph = g,
               .scope_index = WEFT_MAP_INIT,
               .forward = WEFT_MAP_INIT,
               .forward_scopes = WEFT_MAP_INIT,
               .purposes = WEFT_MAP_INIT};
  h.common = WEFT_STR("");
  h.marks = weft_arena_calloc(&s->arena, n, sizeof *h.marks);
  h.layers = weft_arena_calloc(&s->arena, n, sizeof *h.layers);
  h.reached = weft_arena_calloc(&s->arena, n, sizeof *h.reached);
  h.scopes = weft_arena_calloc(&s->arena, 2 * n, sizeof *h.scopes);
  h.orders = weft_arena_calloc(&s->arena, 2 * n, sizeof *h.orders);
  bool failed =
      h.marks == NULL || h.layers == NULL || h.reached == NULL || h.scopes == NULL || h.orders == NULL;
  weft_status_t *status = failed ? no_memory() : NULL;
  if (status == NULL) {
    find_roles(&h);
    status = find_optimizers(&h);
  }
  if (status == NULL) status = find_forward(&h);
  if (status == NULL) status = find_variables(&h);
  if (status == NULL) {
    spread_layers(&h);
    find_reached(&h);
    status = find_gradients(&h);
  }
  if (status == NULL) adopt_for_gradients(&h);
  if (status == NULL) status = find_updates(&h);
  if (status == NULL) status = find_added(&h);
  if (status == NULL) attach(&h);
  weft_map_deinit(&h.scope_index);
  weft_map_deinit(&h.forward);
  weft_map_deinit(&h.forward_scopes);
  weft_map_deinit(&h.purposes);
  return status;
}
