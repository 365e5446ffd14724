/* tools/drawing/tree_scopes.c - scopes of a tree: added, found by their paths, and where they stand among
 * others. */
#include "base/alloc.h"
#include "tools/drawing/tree.h"

enum { MOST_LENGTH = 1 << 20 }; /* of a path that is told from another */

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the scopes of a drawing"); }

static weft_status_t *add_child(weft_tree_scope_t *parent, weft_tree_scope_t *child) {
  if (parent->num_children == parent->capacity) {
    int capacity = parent->capacity == 0 ? 4 : 2 * parent->capacity;
    weft_tree_scope_t **more = weft_realloc(parent->children, (size_t)capacity, sizeof(*more));
    if (more == NULL) return no_memory();
    parent->children = more;
    parent->capacity = capacity;
  }
  parent->children[parent->num_children++] = child;
  child->parent = parent;
  return NULL;
}

weft_status_t *weft_tree_add(weft_tree_t *t, weft_tree_scope_t *parent, weft_str_t name, weft_str_t path,
                             weft_tree_scope_t **out) {
  if (t->num_all == t->all_capacity) {
    int capacity = t->all_capacity == 0 ? 64 : 2 * t->all_capacity;
    weft_tree_scope_t **more = weft_realloc(t->all, (size_t)capacity, sizeof(*more));
    if (more == NULL) return no_memory();
    t->all = more;
    t->all_capacity = capacity;
  }
  weft_tree_scope_t *s = weft_arena_calloc(&t->arena, 1, sizeof *s);
  if (s == NULL) return no_memory();
  t->all[t->num_all++] = s;
  *s = (weft_tree_scope_t){.name = name, .last = name, .path = path, .leaf = -1, .members = 1, .level = -1};
  *out = s;
  return parent == NULL ? NULL : add_child(parent, s);
}

weft_tree_scope_t *weft_tree_resolve(weft_tree_scope_t *s) {
  while (s->merged_into != NULL) s = s->merged_into;
  return s;
}

/* ---- looking up ---- */

static bool ends_with_path(weft_str_t path, weft_str_t end) {
  return path.length > end.length + 1 && path.data[path.length - end.length - 1] == '/' &&
         memcmp(path.data + path.length - end.length, end.data, end.length) == 0;
}

/* How well a path names a scope or a node; 0: not at all. Groups are known by the name that is drawn; a scope
 * also by its path in the graph, of which the scope around all was left out, and by the end of its path. */
static int match(const weft_tree_scope_t *s, weft_str_t path) {
  weft_str_t own = s->path;
  if (own.length > 0 && own.data[0] == WEFT_DRAWN_GROUP) own = weft_str_of(own.data + 1, own.length - 1);
  if (own.length == 0 || s->is_chunk) return 0;
  if (weft_str_eq(own, path)) return INT32_MAX;
  if (s->leaf >= 0) return 0;
  const int length = own.length < MOST_LENGTH ? (int)own.length : MOST_LENGTH;
  if (ends_with_path(path, own)) return MOST_LENGTH + length;
  return ends_with_path(own, path) ? MOST_LENGTH - length + 1 : 0;
}

weft_tree_scope_t *weft_tree_find(const weft_tree_t *t, weft_str_t path) {
  while (path.length > 0 && path.data[path.length - 1] == '/') path.length--;
  weft_tree_scope_t *best = NULL;
  int most = 0;
  for (int i = 0; i < t->num_all && path.length > 0; i++) {
    const int n = match(t->all[i], path);
    if (n <= most) continue;
    most = n;
    best = t->all[i];
  }
  return best == NULL ? NULL : weft_tree_resolve(best);
}

double weft_tree_order(const weft_tree_scope_t *s, weft_drawn_role_t role) {
  static const double AFTER[WEFT_DRAWN_ROLES] = {0, 1e8, 8e8, 6e8};
  static const struct {
    const char *group;
    double order;
  } groups[] = {{WEFT_DRAWN_INPUTS, -2},
                {"\x01"
                 "batch split",
                 -1},
                {WEFT_DRAWN_RESULTS, 5e8}};
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
    if (weft_str_is(s->path, groups[i].group)) return groups[i].order;
  }
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++) {
    if ((role != WEFT_DRAWN_ROLES && (int)role != r) || s->num_ordered[r] == 0) continue;
    return AFTER[r] + s->order[r];
  }
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++) {
    if (s->by_role[r] > 0) return AFTER[r];
  }
  return 0;
}
