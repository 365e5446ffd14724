/* tools/drawing/tree_fold.c - children in reading order, what repeats folded, and what does not fit put
 * together. */
#include <stdlib.h>

#include "base/alloc.h"
#include "tools/drawing/names.h"
#include "tools/drawing/tree.h"

enum {
  FEW = 10, /* children are drawn as they are */
  LEAST_REPEATED = 3,
  LONGEST_PERIOD = 16,
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the scopes of a drawing"); }

/* Is it drawn for a scope, with one node or with more? */
static bool is_scope(const weft_tree_scope_t *s) { return s->leaf < 0 || s->was_scope; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool has_letter(weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) {
    if ((s.data[i] >= 'a' && s.data[i] <= 'z') || (s.data[i] >= 'A' && s.data[i] <= 'Z')) return true;
  }
  return false;
}

static void add_counts(weft_tree_scope_t *to, const weft_tree_scope_t *s) {
  to->num_nodes += s->num_nodes;
  to->num_variables += s->num_variables;
  to->num_homes += s->num_homes;
  to->variable_bytes += s->variable_bytes;
  to->kinds |= s->kinds;
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++) {
    to->by_role[r] += s->by_role[r];
    if (to->num_ordered[r] == 0) to->order[r] = s->order[r]; /* what is put together begins with its first */
    to->num_ordered[r] += s->num_ordered[r];
  }
}

/* ---- names ---- */

/* Calls that are numbered apart from layers lose the number, where siblings did after their variables and
 * where names stay apart. */
static void rename_calls(weft_tree_scope_t *s) {
  bool any = false;
  for (int i = 0; i < s->num_children; i++)
    any = any || (s->children[i]->is_renamed && is_scope(s->children[i]));
  for (int i = 0; i < s->num_children && any; i++) {
    weft_tree_scope_t *c = s->children[i];
    size_t n = c->name.length;
    if (c->is_renamed || !is_scope(c) || c->path.length == 0 || c->path.data[0] == WEFT_DRAWN_GROUP) continue;
    while (n > 0 && is_digit(c->name.data[n - 1])) n--;
    if (n == c->name.length || n < 2 || c->name.data[n - 1] != '_') continue;
    const weft_str_t shorter = weft_str_of(c->name.data, n - 1);
    bool is_taken = false;
    for (int k = 0; k < s->num_children; k++)
      is_taken = is_taken || (s->children[k] != c && s->children[k]->is_renamed &&
                              weft_str_eq(s->children[k]->name, shorter));
    if (is_taken) continue;
    c->name = c->last = shorter;
    c->is_renamed = true;
  }
}

/* "conv2" of "conv2_block1_1_bn"; the whole length: it is no scope of scopes. */
static size_t group_prefix(weft_str_t name) {
  for (size_t i = 2; i + 1 < name.length; i++) {
    if (name.data[i] != '_' || !is_digit(name.data[i - 1])) continue;
    if (has_letter(weft_str_of(name.data, i)) && has_letter(weft_str_of(name.data + i, name.length - i)))
      return i;
  }
  return name.length;
}

static weft_status_t *push(weft_tree_scope_t *to, weft_tree_scope_t *child) {
  if (to->num_children == to->capacity) {
    int capacity = to->capacity == 0 ? 8 : 2 * to->capacity;
    weft_tree_scope_t **more = weft_realloc(to->children, (size_t)capacity, sizeof(*more));
    if (more == NULL) return no_memory();
    to->children = more;
    to->capacity = capacity;
  }
  to->children[to->num_children++] = child;
  child->parent = to;
  return NULL;
}

/* The prefix of a child's name that is shorter than the name; data NULL: it has none. */
static weft_str_t prefix_of(const weft_tree_scope_t *c) {
  const size_t n = is_scope(c) ? group_prefix(c->name) : c->name.length;
  return n < c->name.length ? weft_str_of(c->name.data, n) : (weft_str_t){NULL, 0};
}

/* "net/conv2" for the children of "net" that begin with "conv2". */
static weft_status_t *path_below(weft_tree_t *t, weft_str_t scope, weft_str_t name, weft_str_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, scope);
  if (scope.length > 0) weft_strbuf_putc(&text, '/');
  weft_strbuf_append(&text, name);
  *out = weft_arena_str(&t->arena, weft_str_of(text.data, text.length));
  const bool failed = text.failed || out->data == NULL;
  weft_strbuf_deinit(&text);
  return failed ? no_memory() : NULL;
}

/* Makes a scope, which is nowhere yet, for each prefix that several children have. */
static weft_status_t *find_groups(weft_tree_t *t, const weft_tree_scope_t *s, weft_map_t *first,
                                  weft_map_t *groups) {
  for (int i = 0; i < s->num_children; i++) {
    const weft_str_t prefix = prefix_of(s->children[i]);
    if (prefix.data == NULL || weft_map_get(groups, prefix) != NULL) continue;
    if (weft_map_get(first, prefix) == NULL) {
      WEFT_RETURN_IF_ERROR(weft_map_put(first, prefix, s->children[i], NULL));
      continue;
    }
    weft_tree_scope_t *made;
    weft_str_t path;
    WEFT_RETURN_IF_ERROR(path_below(t, s->path, prefix, &path));
    WEFT_RETURN_IF_ERROR(weft_tree_add(t, NULL, prefix, path, &made));
    WEFT_RETURN_IF_ERROR(weft_map_put(groups, prefix, made, NULL));
  }
  return NULL;
}

static weft_status_t *move_to_groups(weft_tree_scope_t *s, const weft_map_t *groups) {
  int kept = 0;
  for (int i = 0; i < s->num_children; i++) {
    weft_tree_scope_t *c = s->children[i];
    const weft_str_t prefix = prefix_of(c);
    weft_tree_scope_t *g = prefix.data == NULL ? NULL : weft_map_get(groups, prefix);
    if (g == NULL || g->parent == NULL) s->children[kept++] = g == NULL ? c : g;
    if (g == NULL) continue;
    g->parent = s;
    c->name = c->last = weft_str_of(c->name.data + prefix.length + 1, c->name.length - prefix.length - 1);
    add_counts(g, c);
    WEFT_RETURN_IF_ERROR(push(g, c));
  }
  s->num_children = kept;
  return NULL;
}

/* Children with one prefix become a scope of their own, in the place of the first. */
static weft_status_t *group(weft_tree_t *t, weft_tree_scope_t *s) {
  weft_map_t first = WEFT_MAP_INIT, groups = WEFT_MAP_INIT;
  int num_scopes = 0;
  for (int i = 0; i < s->num_children; i++) num_scopes += is_scope(s->children[i]);
  if (num_scopes <= FEW) return NULL;
  weft_status_t *status = find_groups(t, s, &first, &groups);
  if (status == NULL) status = move_to_groups(s, &groups);
  weft_map_deinit(&first);
  weft_map_deinit(&groups);
  return status;
}

/* ---- order ---- */

static int by_order(const void *a, const void *b) {
  const weft_tree_scope_t *x = *(weft_tree_scope_t *const *)a, *y = *(weft_tree_scope_t *const *)b;
  const double m = weft_tree_order(x, WEFT_DRAWN_ROLES), n = weft_tree_order(y, WEFT_DRAWN_ROLES);
  if (m != n) return m < n ? -1 : 1;
  if (x->leaf != y->leaf && x->leaf >= 0 && y->leaf >= 0) return x->leaf < y->leaf ? -1 : 1;
  const int by_name = weft_str_compare(x->name, y->name);
  return by_name != 0 ? by_name : weft_str_compare(x->path, y->path);
}

/* ---- folding ---- */

static const weft_op_def_t *op_of(const weft_tree_t *t, const weft_tree_scope_t *s) {
  return s->leaf < 0 ? NULL : t->step->nodes[s->leaf].node->op;
}

static weft_drawn_role_t role_of(const weft_tree_t *t, const weft_tree_scope_t *s) {
  return s->leaf < 0 ? WEFT_DRAWN_ROLES : t->step->nodes[s->leaf].role;
}

static bool have_one_stem(const weft_tree_t *t, const weft_tree_scope_t *a, const weft_tree_scope_t *b) {
  return op_of(t, a) == op_of(t, b) && role_of(t, a) == role_of(t, b) &&
         weft_str_eq(weft_drawn_stem(a->name), weft_drawn_stem(b->name));
}

static bool are_alike(const weft_tree_t *t, const weft_tree_scope_t *a, const weft_tree_scope_t *b) {
  const int more = a->num_nodes > b->num_nodes ? a->num_nodes : b->num_nodes,
            difference = abs(a->num_nodes - b->num_nodes);
  if (a->path.length > 0 && a->path.data[0] == WEFT_DRAWN_GROUP && a->leaf < 0) return false;
  return have_one_stem(t, a, b) && a->num_variables == b->num_variables &&
         a->variable_bytes == b->variable_bytes && 4 * difference <= more + 8;
}

static weft_tree_scope_t *counterpart(const weft_tree_t *t, weft_tree_scope_t *in,
                                      const weft_tree_scope_t *of, int mark) {
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < in->num_children; i++) {
      weft_tree_scope_t *c = in->children[i];
      if (c->mark == mark || !have_one_stem(t, c, of)) continue;
      if (pass == 1 || weft_str_eq(c->name, of->name)) return c;
    }
  }
  return NULL;
}

weft_status_t *weft_tree_unite(weft_tree_t *t, weft_tree_scope_t *a, weft_tree_scope_t *b) {
  const int mark = ++t->num_marks;
  add_counts(a, b);
  b->merged_into = a;
  if (a->leaf >= 0 && b->leaf >= 0) { /* the nodes of b go before those of a */
    int at = t->first_node[b->leaf];
    while (t->next_node[at] >= 0) at = t->next_node[at];
    t->next_node[at] = t->first_node[a->leaf];
    t->first_node[a->leaf] = t->first_node[b->leaf];
  }
  for (int i = 0; i < b->num_children; i++) {
    weft_tree_scope_t *c = b->children[i], *same = counterpart(t, a, c, mark);
    if (same == NULL) {
      c->mark = mark;
      WEFT_RETURN_IF_ERROR(push(a, c));
      continue;
    }
    same->mark = mark;
    WEFT_RETURN_IF_ERROR(weft_tree_unite(t, same, c));
  }
  b->num_children = 0;
  return NULL;
}

/* How many of the children from `at` on repeat with this period: a multiple of it. */
static int repeated(const weft_tree_t *t, const weft_tree_scope_t *s, int at, int period) {
  int n = 0;
  while (at + n + period < s->num_children && are_alike(t, s->children[at + n], s->children[at + n + period]))
    n++;
  return n < period ? 0 : (n / period + 1) * period;
}

static weft_status_t *keep_members(weft_tree_t *t, weft_tree_scope_t *to, weft_tree_scope_t *const *of,
                                   int step, int members) {
  to->member_paths = weft_arena_calloc(&t->arena, (size_t)members, sizeof *to->member_paths);
  if (to->member_paths == NULL) return no_memory();
  for (int m = 0; m < members; m++) {
    to->member_paths[m] = of[m * step]->path;
    of[m * step]->member = m;
  }
  to->members = members;
  return NULL;
}

/* Children at, at + 1, ... are `members` rows of `period`: they become one scope, which is returned. */
static weft_status_t *fold_run(weft_tree_t *t, weft_tree_scope_t *s, int at, int period, int members,
                               weft_tree_scope_t **out) {
  weft_tree_scope_t **c = s->children + at, *whole = c[0];
  WEFT_RETURN_IF_ERROR(keep_members(t, c[0], c, period, members));
  if (period > 1) {
    WEFT_RETURN_IF_ERROR(weft_tree_add(t, NULL, c[0]->name, c[0]->path, &whole));
    whole->member_paths = c[0]->member_paths;
    whole->members = members;
  }
  whole->last = c[(members - 1) * period]->name;
  for (int k = 0; k < period; k++) {
    for (int m = 1; m < members; m++) WEFT_RETURN_IF_ERROR(weft_tree_unite(t, c[k], c[m * period + k]));
    if (period == 1) continue;
    WEFT_RETURN_IF_ERROR(keep_members(t, c[k], c + k, period, members));
    c[k]->members = 1;
    c[k]->name = c[k]->last = weft_drawn_stem(c[k]->name);
    add_counts(whole, c[k]);
    WEFT_RETURN_IF_ERROR(push(whole, c[k]));
  }
  whole->parent = s;
  *out = whole;
  return NULL;
}

static weft_status_t *fold(weft_tree_t *t, weft_tree_scope_t *s) {
  int kept = 0;
  if (s->num_children <= FEW) return NULL;
  for (int at = 0; at < s->num_children;) {
    int best = 0, best_period = 1;
    for (int period = 1; period <= LONGEST_PERIOD; period++) {
      const int n = repeated(t, s, at, period);
      if (n >= LEAST_REPEATED * period && n > best) {
        best = n;
        best_period = period;
      }
    }
    weft_tree_scope_t *one = s->children[at];
    if (best > 0) WEFT_RETURN_IF_ERROR(fold_run(t, s, at, best_period, best / best_period, &one));
    s->children[kept++] = one;
    at += best > 0 ? best : 1;
  }
  s->num_children = kept;
  return NULL;
}

/* ---- what does not fit ---- */

static weft_status_t *chunk(weft_tree_t *t, weft_tree_scope_t *s) {
  while (s->num_children > WEFT_TREE_CHILDREN) {
    const int n = s->num_children;
    int num_chunks = (n + WEFT_TREE_CHILDREN - 1) / WEFT_TREE_CHILDREN, made = 0;
    if (num_chunks < 2) num_chunks = 2;
    for (int k = 0; k < num_chunks; k++) {
      const int begin = (int)((int64_t)n * k / num_chunks), end = (int)((int64_t)n * (k + 1) / num_chunks);
      weft_tree_scope_t *c = s->children[begin], *last = s->children[end - 1];
      WEFT_RETURN_IF_ERROR(weft_tree_add(t, NULL, c->name, c->path, &c));
      c->last = last->last;
      c->is_chunk = true;
      for (int i = begin; i < end; i++) {
        add_counts(c, s->children[i]);
        WEFT_RETURN_IF_ERROR(push(c, s->children[i]));
      }
      c->parent = s;
      s->children[made++] = c;
    }
    s->num_children = made;
  }
  return NULL;
}

weft_status_t *weft_tree_arrange(weft_tree_t *t, weft_tree_scope_t *s, bool folds) {
  rename_calls(s);
  if (folds) WEFT_RETURN_IF_ERROR(group(t, s));
  if (s->num_children > 1) qsort(s->children, (size_t)s->num_children, sizeof(*s->children), by_order);
  if (folds) WEFT_RETURN_IF_ERROR(fold(t, s));
  for (int i = 0; i < s->num_children; i++) WEFT_RETURN_IF_ERROR(weft_tree_arrange(t, s->children[i], folds));
  return chunk(t, s);
}
