/* tools/drawing_scopes.c - names to a tree, repeated parts of it to one, the tree to boxes. */
#include "tools/drawing_scopes.h"

#include <stdlib.h>

#include "base/alloc.h"

enum {
  LEAST_REPEATED = 3, /* scopes, to be drawn as one */
  MAX_DEPTH = 100, /* scopes in scopes; what is deeper is one name, since each has its whole path and is gone
                      into on the stack */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a drawing"); }

void weft_scopes_init(weft_scopes_t *t) {
  *t = (weft_scopes_t){.arena = WEFT_ARENA_INIT, .by_path = WEFT_MAP_INIT, .root = {.members = 1}};
}

void weft_scopes_deinit(weft_scopes_t *t) {
  weft_map_deinit(&t->by_path);
  weft_arena_deinit(&t->arena);
}

/* ---- names ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* "replica_3": which replica or worker a copy is of. */
static bool is_copy_number(weft_str_t part) {
  size_t prefix = weft_str_starts_with(part, "replica_") ? 8 : weft_str_starts_with(part, "worker_") ? 7 : 0;
  if (prefix == 0 || part.length == prefix) return false;
  for (size_t i = prefix; i < part.length; i++) {
    if (!is_digit(part.data[i])) return false;
  }
  return true;
}

/* The name without what tells copies apart. */
static weft_str_t plain_name(weft_str_t name) {
  weft_str_t head, rest;
  if (weft_str_split(name, '/', &head, &rest) && is_copy_number(head)) name = rest;
  ptrdiff_t slash = weft_str_rfind(name, '/');
  if (slash > 0 && is_copy_number(weft_str_of(name.data + slash + 1, name.length - (size_t)slash - 1))) {
    name = weft_str_of(name.data, (size_t)slash);
  }
  return name;
}

/* "layer_" of "layer_11", "conv" of "conv2", "add" of "add_3" and of "add". */
static weft_str_t stem_of(weft_str_t name) {
  size_t n = name.length;
  while (n > 0 && is_digit(name.data[n - 1])) n--;
  if (n < name.length && n > 1 && name.data[n - 1] == '_') n--;
  return n == 0 ? name : weft_str_of(name.data, n);
}

static int64_t number_of(weft_str_t name) {
  int64_t value = 0;
  size_t at = name.length;
  while (at > 0 && is_digit(name.data[at - 1])) at--;
  for (; at < name.length && value < INT32_MAX; at++) value = value * 10 + (name.data[at] - '0');
  return value;
}

/* ---- the tree ---- */

static weft_status_t *child_of(weft_scopes_t *t, weft_drawing_scope_t *parent, weft_str_t path,
                               weft_str_t name, weft_drawing_scope_t **out) {
  *out = weft_map_get(&t->by_path, path);
  if (*out != NULL) return NULL;
  weft_str_t own = weft_arena_str(&t->arena, path);
  weft_drawing_scope_t *s = weft_arena_calloc(&t->arena, 1, sizeof *s);
  if (own.data == NULL || s == NULL) return no_memory();
  s->name = s->last = weft_str_of(own.data + own.length - name.length, name.length);
  s->members = 1;
  s->parent = parent;
  s->next = parent->first;
  parent->first = s;
  *out = s;
  return weft_map_put(&t->by_path, own, s, NULL);
}

weft_status_t *weft_scopes_add(weft_scopes_t *t, weft_str_t name, bool is_variable,
                               weft_drawing_scope_t **out) {
  weft_str_t plain = plain_name(name), part, rest = plain;
  weft_drawing_scope_t *s = &t->root;
  bool is_last = false;
  for (int depth = 1; !is_last; depth++) {
    is_last = depth == MAX_DEPTH || !weft_str_split(rest, '/', &part, &rest);
    if (is_last) part = rest;
    size_t end = (size_t)(part.data - plain.data) + part.length;
    s->num_nodes++;
    s->num_variables += is_variable;
    WEFT_RETURN_IF_ERROR(child_of(t, s, weft_str_of(plain.data, end), part, &s));
  }
  s->num_nodes++;
  s->num_variables += is_variable;
  s->num_own++;
  *out = s;
  return NULL;
}

weft_drawing_scope_t *weft_scopes_resolve(weft_drawing_scope_t *s) {
  while (s->merged_into != NULL) s = s->merged_into;
  return s;
}

weft_drawing_scope_t *weft_scopes_find(const weft_scopes_t *t, weft_str_t path) {
  while (path.length > 0 && path.data[path.length - 1] == '/') path.length--;
  weft_drawing_scope_t *s = weft_map_get(&t->by_path, path);
  return s == NULL ? NULL : weft_scopes_resolve(s);
}

/* ---- repeated scopes ---- */

static int num_children(const weft_drawing_scope_t *s) {
  int n = 0;
  for (const weft_drawing_scope_t *c = s->first; c != NULL; c = c->next) n++;
  return n;
}

static weft_drawing_scope_t *find_child(const weft_drawing_scope_t *s, weft_str_t name) {
  for (weft_drawing_scope_t *c = s->first; c != NULL; c = c->next) {
    if (weft_str_eq(c->name, name)) return c;
  }
  return NULL;
}

/* All that is below b goes to below a. */
static void unite(weft_drawing_scope_t *a, weft_drawing_scope_t *b) {
  a->num_nodes += b->num_nodes;
  a->num_own += b->num_own;
  a->num_variables += b->num_variables;
  b->merged_into = a;
  for (weft_drawing_scope_t *c = b->first, *next; c != NULL; c = next) {
    next = c->next;
    weft_drawing_scope_t *same = find_child(a, c->name);
    if (same != NULL) {
      unite(same, c);
      continue;
    }
    c->parent = a;
    c->next = a->first;
    a->first = c;
  }
  b->first = NULL;
}

/* Do two scopes have about the same inside? Half of the names at least. */
static bool are_alike(const weft_drawing_scope_t *a, const weft_drawing_scope_t *b) {
  int in_a = num_children(a), in_b = num_children(b), common = 0;
  if (in_a == 0 || in_b == 0) return in_a == in_b;
  for (const weft_drawing_scope_t *c = a->first; c != NULL; c = c->next)
    common += find_child(b, c->name) != NULL;
  return 2 * common >= (in_a > in_b ? in_a : in_b);
}

static int by_stem(const void *a, const void *b) {
  const weft_drawing_scope_t *x = *(weft_drawing_scope_t *const *)a, *y = *(weft_drawing_scope_t *const *)b;
  int by = weft_str_compare(stem_of(x->name), stem_of(y->name));
  if (by != 0) return by;
  int64_t m = number_of(x->name), n = number_of(y->name);
  return m != n ? (m < n ? -1 : 1) : weft_str_compare(x->name, y->name);
}

static void unite_run(weft_drawing_scope_t **items, int n) {
  weft_drawing_scope_t *of = items[0];
  for (int i = 1; i < n; i++) {
    of->last = items[i]->name;
    of->members += items[i]->members;
    unite(of, items[i]);
  }
}

static weft_status_t *merge(weft_scopes_t *t, weft_drawing_scope_t *s) {
  int n = num_children(s), k = 0;
  weft_drawing_scope_t **items = weft_calloc((size_t)n + 1, sizeof(*items));
  if (items == NULL) return no_memory();
  for (weft_drawing_scope_t *c = s->first; c != NULL; c = c->next) items[k++] = c;
  qsort(items, (size_t)n, sizeof(*items), by_stem);
  for (int begin = 0, end; begin < n; begin = end) {
    for (end = begin + 1; end < n && weft_str_eq(stem_of(items[end]->name), stem_of(items[begin]->name));
         end++) {
      if (!are_alike(items[begin], items[end])) break;
    }
    if (end - begin >= LEAST_REPEATED) unite_run(items + begin, end - begin);
  }
  s->first = NULL;
  for (int i = n - 1; i >= 0; i--) {
    if (items[i]->merged_into != NULL) continue;
    items[i]->next = s->first;
    s->first = items[i];
  }
  weft_free(items);
  weft_status_t *status = NULL;
  for (weft_drawing_scope_t *c = s->first; c != NULL && status == NULL; c = c->next) status = merge(t, c);
  return status;
}

weft_status_t *weft_scopes_merge(weft_scopes_t *t) { return merge(t, &t->root); }

/* ---- boxes ---- */

/* The largest box below `s` that has an inside. */
static void find_largest(weft_drawing_scope_t *s, weft_drawing_scope_t **best) {
  for (weft_drawing_scope_t *c = s->first; c != NULL; c = c->next) {
    if (c->is_open) {
      find_largest(c, best);
    } else if (c->is_box && c->first != NULL && (*best == NULL || c->num_nodes > (*best)->num_nodes)) {
      *best = c;
    }
  }
}

/* Makes the largest children of an open scope boxes; how many. */
static int open(weft_drawing_scope_t *s, int limit) {
  int n = 0;
  s->is_open = true;
  s->is_box = s->num_own > 0;
  for (; n < limit; n++) {
    weft_drawing_scope_t *best = NULL;
    for (weft_drawing_scope_t *c = s->first; c != NULL; c = c->next) {
      if (!c->is_box && (best == NULL ||
                         c->num_nodes + 100 * c->num_variables > best->num_nodes + 100 * best->num_variables))
        best = c;
    }
    if (best == NULL) break;
    best->is_box = true;
  }
  return n + s->is_box;
}

void weft_scopes_choose(weft_drawing_scope_t *at, int limit) {
  int boxes = open(at, limit - 1), all = at->num_nodes;
  for (;;) { /* what holds a third of all is opened, as long as its parts fit */
    weft_drawing_scope_t *largest = NULL;
    find_largest(at, &largest);
    if (largest == NULL || 3 * largest->num_nodes < all || boxes + num_children(largest) > limit - 1) return;
    boxes += open(largest, limit) - 1;
  }
}

weft_drawing_scope_t *weft_scopes_box_of(const weft_scopes_t *t, weft_drawing_scope_t *leaf) {
  for (weft_drawing_scope_t *s = weft_scopes_resolve(leaf); s != NULL && s != &t->root;
       s = s->parent == NULL ? NULL : weft_scopes_resolve(s->parent)) {
    if (s->is_box) return s;
  }
  return NULL;
}
