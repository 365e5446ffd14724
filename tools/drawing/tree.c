/* tools/drawing/tree.c - nodes into their scopes. */
#include "tools/drawing/tree.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tools/drawing/names.h"

enum {
  MAX_DEPTH = 32,   /* scopes below that are one: names from outside are as deep as they like */
  WHOLE_PLACES = 4, /* are drawn beside each other as they are */
  MOST_PLACES = 6,
  TRIES = 3, /* to find what uses a variable: a read, a cast */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the scopes of a drawing"); }

/* "3:dense/MatMul", a scope or (3) leaf of place 3. */
static weft_status_t *key_of(weft_tree_t *t, int place, char kind, weft_str_t path, weft_str_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%d%c", place, kind);
  weft_strbuf_append(&text, path);
  *out = weft_arena_str(&t->arena, weft_str_of(text.data, text.length));
  bool failed = text.failed || out->data == NULL;
  weft_strbuf_deinit(&text);
  return failed ? no_memory() : NULL;
}

static size_t key_prefix(weft_str_t key) {
  size_t n = 0;
  while (key.data[n] >= '0' && key.data[n] <= '9') n++;
  return n + 1;
}

/* The scope of a path, made with all that it is in. */
static weft_status_t *scope_of(weft_tree_t *t, int place, weft_str_t path, weft_tree_scope_t **out) {
  weft_str_t key, part, rest;
  *out = t->root_of[place];
  if (path.length == 0) return NULL;
  WEFT_RETURN_IF_ERROR(key_of(t, place, ':', path, &key));
  weft_tree_scope_t *known = weft_map_get(&t->by_path, key);
  if (known != NULL) {
    *out = known;
    return NULL;
  }
  const size_t skipped = key_prefix(key);
  rest = weft_str_of(key.data + skipped, key.length - skipped);
  bool is_last = false;
  for (int depth = 1; !is_last; depth++) {
    is_last = depth == MAX_DEPTH || !weft_str_split(rest, '/', &part, &rest);
    if (is_last) part = rest;
    const weft_str_t here = weft_str_of(key.data, (size_t)(part.data - key.data) + part.length);
    known = weft_map_get(&t->by_path, here);
    if (known == NULL) {
      weft_str_t name = part;
      if (name.length > 1 && name.data[0] == WEFT_DRAWN_GROUP)
        name = weft_str_of(name.data + 1, name.length - 1);
      const weft_str_t own = weft_str_of(here.data + skipped, here.length - skipped);
      WEFT_RETURN_IF_ERROR(weft_tree_add(t, *out, name, own, &known));
      known->num_homes = (int)(uintptr_t)weft_map_get(&t->step->variables_in, own);
      WEFT_RETURN_IF_ERROR(weft_map_put(&t->by_path, here, known, NULL));
    }
    *out = known;
  }
  return NULL;
}

static int64_t bytes_of_variable(const weft_node_t *n) {
  const weft_attr_t *shape = weft_node_attr(n, "shape");
  int64_t count = shape != NULL && shape->shape != NULL ? weft_shape_count(shape->shape) : -1;
  return count < 0 ? 0 : count * (int64_t)weft_dtype_size(weft_node_attr_type(n, "dtype"));
}

/* Variables and constants stand before what uses them first. */
static bool order_of(const weft_step_nodes_t *s, int i, int tries, double *out) {
  const weft_step_node_t *n = &s->nodes[i];
  const weft_fanout_t *f = &s->fanout;
  *out = n->depth;
  if (n->depth >= 0) return true;
  bool found = false;
  for (int e = f->begin[n->node->id]; e < f->begin[n->node->id + 1] && tries > 0; e++) {
    double order;
    int to = s->index_of[f->edges[e].to->id];
    if (to <= i || f->edges[e].input < 0 || !order_of(s, to, tries - 1, &order)) continue;
    if (!found || order - 0.5 < *out) *out = order - 0.5;
    found = true;
  }
  return found;
}

static void count(const weft_tree_t *t, weft_tree_scope_t *leaf, int i, bool is_main) {
  const weft_step_node_t *n = &t->step->nodes[i];
  const bool is_variable = (n->node->flags & WEFT_OP_VARIABLE) != 0;
  const int64_t bytes = is_variable ? bytes_of_variable(n->node) : 0;
  double order;
  const bool is_ordered = is_main && order_of(t->step, i, TRIES, &order);
  for (weft_tree_scope_t *s = leaf; s != NULL; s = s->parent) {
    s->num_nodes++;
    s->by_role[n->role]++;
    s->num_variables += is_variable;
    s->variable_bytes += bytes;
    s->kinds |= 1u << n->kind;
    s->num_ordered[n->role] += is_ordered;
  }
}

/* "dense_1" of "sequential/dense_1/kernel", a variable in "dense_1_2": Keras numbers calls apart from layers.
 */
static weft_status_t *rename_scopes(weft_tree_t *t, weft_tree_scope_t *s, weft_str_t variable) {
  for (; s->parent != NULL; s = s->parent) {
    weft_str_t part, rest = variable, found = {NULL, 0};
    while (weft_str_split(rest, '/', &part, &rest)) {
      if (weft_str_eq(weft_drawn_stem(part), weft_drawn_stem(s->name))) found = part;
    }
    if (found.data == NULL || s->is_renamed) continue;
    s->name = s->last = found;
    s->is_renamed = true;
    WEFT_RETURN_IF_ERROR(weft_map_put(&t->renamed, s->path, s, NULL));
  }
  return NULL;
}

/* A scope has one name in all places, also where its variables are not. */
static void rename_elsewhere(weft_tree_t *t) {
  for (int i = 0; i < t->num_all; i++) {
    weft_tree_scope_t *s = t->all[i];
    const weft_tree_scope_t *like = s->leaf < 0 && !s->is_renamed ? weft_map_get(&t->renamed, s->path) : NULL;
    if (like == NULL) continue;
    s->name = s->last = like->name;
    s->is_renamed = true;
  }
}

static weft_status_t *add_leaf(weft_tree_t *t, int i) {
  const weft_step_node_t *n = &t->step->nodes[i];
  weft_tree_scope_t *scope, *leaf;
  weft_str_t key;
  WEFT_RETURN_IF_ERROR(scope_of(t, n->place, n->home, &scope));
  WEFT_RETURN_IF_ERROR(key_of(t, n->place, "fgua"[n->role], n -> name, &key));
  leaf = weft_map_get(&t->by_path, key);
  if (leaf == NULL || leaf->parent != scope) {
    WEFT_RETURN_IF_ERROR(weft_tree_add(t, scope, weft_drawn_last(n->name), n->node->name, &leaf));
    leaf->leaf = i;
    t->first_node[i] = -1;
    WEFT_RETURN_IF_ERROR(weft_map_put(&t->by_path, key, leaf, NULL));
    if ((n->node->flags & WEFT_OP_VARIABLE) != 0) WEFT_RETURN_IF_ERROR(rename_scopes(t, scope, n->name));
  }
  t->leaf_of[i] = leaf;
  count(t, leaf, i, true);
  return NULL;
}

typedef struct ordered_node {
  double order;
  int node;
} ordered_node_t;

static int by_order(const void *a, const void *b) {
  const ordered_node_t *x = a, *y = b;
  if (x->order != y->order) return x->order < y->order ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

/* In order, each node counts in all that it is in, until half of that is seen. */
static weft_status_t *find_orders(weft_tree_t *t) {
  const weft_step_nodes_t *s = t->step;
  ordered_node_t *nodes = weft_calloc((size_t)s->num_nodes + 1, sizeof *nodes);
  if (nodes == NULL) return no_memory();
  for (int role = 0; role < WEFT_DRAWN_ROLES; role++) {
    int n = 0;
    for (int i = 0; i < s->num_nodes; i++) {
      if (s->nodes[i].attached_to >= 0 || (int)s->nodes[i].role != role) continue;
      nodes[n].node = i;
      n += order_of(s, i, TRIES, &nodes[n].order);
    }
    if (n > 1) qsort(nodes, (size_t)n, sizeof *nodes, by_order);
    for (int i = 0; i < t->num_all; i++) t->all[i]->num_seen = 0;
    for (int i = 0; i < n; i++) {
      for (weft_tree_scope_t *c = t->leaf_of[nodes[i].node]; c != NULL; c = c->parent) {
        if (2 * c->num_seen++ <= c->num_ordered[role]) c->order[role] = nodes[i].order;
      }
    }
  }
  weft_free(nodes);
  return NULL;
}

static weft_status_t *build(weft_tree_t *t) {
  const weft_step_nodes_t *s = t->step;
  for (int p = 0; p < s->num_places; p++)
    WEFT_RETURN_IF_ERROR(weft_tree_add(t, NULL, s->places[p], WEFT_STR(""), &t->root_of[p]));
  for (int i = 0; i < s->num_nodes; i++) {
    if (s->nodes[i].attached_to < 0) WEFT_RETURN_IF_ERROR(add_leaf(t, i));
  }
  for (int i = s->num_nodes - 1; i >= 0; i--) {
    const int to = s->nodes[i].attached_to;
    if (to >= 0) {
      t->leaf_of[i] = t->leaf_of[to];
      count(t, t->leaf_of[i], i, false);
    }
    const int first = t->leaf_of[i]->leaf;
    t->next_node[i] = t->first_node[first];
    t->first_node[first] = i;
  }
  return NULL;
}

/* A scope that has nothing in it but another one, or one node, stands for it under its own name: levels of
 * one box say nothing. */
static void collapse(weft_tree_scope_t *s) {
  for (int i = 0; i < s->num_children; i++) collapse(s->children[i]);
  const bool is_group = s->path.length > 0 && s->path.data[0] == WEFT_DRAWN_GROUP;
  if (s->parent == NULL || s->num_children != 1 || (is_group && s->parent->parent == NULL)) return;
  weft_tree_scope_t *only = s->children[0];
  s->path = only->path;
  s->leaf = only->leaf;
  s->was_scope = only->leaf >= 0;
  s->is_renamed = s->is_renamed || only->is_renamed;
  weft_free(s->children);
  s->children = only->children;
  s->num_children = only->num_children;
  s->capacity = only->capacity;
  for (int i = 0; i < s->num_children; i++) s->children[i]->parent = s;
  only->children = NULL;
  only->num_children = only->capacity = 0;
  only->merged_into = s;
}

/* "/job:worker" of a task, all before the last number of another name. */
static weft_str_t job_of(weft_str_t place) {
  size_t n = place.length;
  while (n > 0 && place.data[n - 1] >= '0' && place.data[n - 1] <= '9') n--;
  return weft_str_of(place.data, n);
}

/* Where there are many places, all of a job but the first are drawn as one. */
static weft_status_t *unite_places(weft_tree_t *t) {
  const weft_step_nodes_t *s = t->step;
  for (int p = 0; p < s->num_places; p++) {
    weft_tree_scope_t *into = NULL;
    int before = 0;
    for (int k = 0; k < p && s->num_places > WHOLE_PLACES; k++) {
      if (!weft_str_eq(job_of(s->places[k]), job_of(s->places[p]))) continue;
      if (++before == 2) into = weft_tree_resolve(t->root_of[k]);
    }
    if (into == NULL && t->num_roots == MOST_PLACES) into = t->roots[MOST_PLACES - 1];
    if (into == NULL) {
      t->roots[t->num_roots++] = t->root_of[p];
      continue;
    }
    WEFT_RETURN_IF_ERROR(weft_tree_unite(t, into, t->root_of[p]));
    const weft_str_t last = into->last, name = s->places[p]; /* names are sorted as texts: task 9 behind 10 */
    if (name.length > last.length || (name.length == last.length && weft_str_compare(name, last) > 0))
      into->last = name;
    into->members++;
  }
  return NULL;
}

weft_status_t *weft_tree_build(const weft_step_nodes_t *step, bool folds, weft_tree_t *out) {
  const size_t n = (size_t)step->num_nodes + 1;
  *out = (weft_tree_t){
      .arena = WEFT_ARENA_INIT, .step = step, .by_path = WEFT_MAP_INIT, .renamed = WEFT_MAP_INIT};
  out->roots = weft_arena_calloc(&out->arena, (size_t)step->num_places + 1, sizeof(*out->roots));
  out->root_of = weft_arena_calloc(&out->arena, (size_t)step->num_places + 1, sizeof(*out->root_of));
  out->leaf_of = weft_arena_calloc(&out->arena, n, sizeof(*out->leaf_of));
  out->first_node = weft_arena_calloc(&out->arena, n, sizeof *out->first_node);
  out->next_node = weft_arena_calloc(&out->arena, n, sizeof *out->next_node);
  if (out->roots == NULL || out->root_of == NULL || out->leaf_of == NULL || out->first_node == NULL ||
      out->next_node == NULL)
    return no_memory();
  WEFT_RETURN_IF_ERROR(build(out));
  rename_elsewhere(out);
  WEFT_RETURN_IF_ERROR(find_orders(out));
  for (int p = 0; p < step->num_places; p++) collapse(out->root_of[p]);
  WEFT_RETURN_IF_ERROR(unite_places(out));
  for (int p = 0; p < out->num_roots; p++) WEFT_RETURN_IF_ERROR(weft_tree_arrange(out, out->roots[p], folds));
  return NULL;
}

void weft_tree_deinit(weft_tree_t *t) {
  for (int i = 0; i < t->num_all; i++) weft_free(t->all[i]->children);
  weft_free(t->all);
  weft_map_deinit(&t->by_path);
  weft_map_deinit(&t->renamed);
  weft_arena_deinit(&t->arena);
}
