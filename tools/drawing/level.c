/* tools/drawing/level.c - which boxes a picture has, and what goes between them. */
#include "tools/drawing/level.h"

#include "base/alloc.h"
#include "tools/drawing/layout.h"

enum { MOST_BOXES = 44, LEAST_SHOWN = 3 }; /* of one frame */

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a level of a drawing"); }

void weft_level_deinit(weft_level_t *l) {
  weft_free(l->arrows);
  weft_free(l->links);
  weft_arena_deinit(&l->arena);
}

bool weft_level_has_inside(const weft_level_box_t *b) { return b->rest == 0 && b->scope->leaf < 0; }

/* ---- which boxes ---- */

typedef struct level_cut { /* the scopes that a frame shows, in order */
  weft_tree_scope_t **items;
  int n, capacity;
  int *groups; /* of each */
  bool *joins; /* of each: it shares the box of the one before */
} level_cut_t;

static int count_of(const weft_tree_scope_t *s, weft_drawn_role_t role) {
  return role == WEFT_DRAWN_ROLES ? s->num_nodes : s->by_role[role];
}

static weft_status_t *cut_at(weft_level_t *l, level_cut_t *c, int at, int group) {
  weft_tree_scope_t *s = c->items[at];
  const int more = s->num_children - 1;
  if (c->n + more > c->capacity)
    return WEFT_ERROR(INTERNAL, "a level of a drawing has %d boxes", c->n + more);
  memmove(c->items + at + s->num_children, c->items + at + 1, (size_t)(c->n - at - 1) * sizeof(*c->items));
  memmove(c->groups + at + s->num_children, c->groups + at + 1, (size_t)(c->n - at - 1) * sizeof *c->groups);
  int new_group = group;
  if (s->members > 1) {
    new_group = l->num_groups++;
    l->groups[new_group] = (weft_level_group_t){.scope = s};
  }
  for (int i = 0; i < s->num_children; i++) {
    c->items[at + i] = s->children[i];
    c->groups[at + i] = new_group;
  }
  c->n += more;
  return NULL;
}

/* What a scope has of what a picture is about: the variables of the model, or its nodes. */
typedef enum level_measure { BY_VARIABLES, BY_FORWARD, BY_NODES } level_measure_t;

static int weight_of(const weft_tree_scope_t *s, level_measure_t by) {
  return by == BY_VARIABLES ? s->num_homes : by == BY_FORWARD ? s->by_role[WEFT_DRAWN_FORWARD] : s->num_nodes;
}

/* Is it a model, or several layers folded, and not a layer? A layer has its variables in one of its scopes,
 * or its nodes outside of any. */
static bool holds_layers(const weft_tree_scope_t *s) {
  int with_variables = 0, scopes = 0, direct = 0;
  const weft_tree_scope_t *inner = NULL;
  for (int i = 0; i < s->num_children; i++) {
    const weft_tree_scope_t *c = s->children[i];
    const bool is_node = c->leaf >= 0 && !c->was_scope;
    if (is_node) direct += c->by_role[WEFT_DRAWN_FORWARD];
    if (is_node || c->by_role[WEFT_DRAWN_FORWARD] == 0) continue;
    scopes++;
    with_variables += c->num_homes > 0;
    if (c->num_homes > 0) inner = c;
  }
  if (with_variables == 1 && inner->num_homes == s->num_homes) return holds_layers(inner);
  if (s->num_homes > 0) return with_variables > 1;
  return scopes > 2 && 2 * direct < s->by_role[WEFT_DRAWN_FORWARD];
}

static bool is_group(const weft_tree_scope_t *s) {
  return s->path.length > 0 && s->path.data[0] == WEFT_DRAWN_GROUP;
}

/* What a frame has of it; what a strategy added can share a few boxes: *out_spare. */
static int weight_of_all(const level_cut_t *c, level_measure_t by, int *out_spare) {
  int sum = 0;
  *out_spare = 0;
  for (int i = 0; i < c->n; i++) {
    sum += is_group(c->items[i]) ? 0 : weight_of(c->items[i], by);
    *out_spare += is_group(c->items[i]) && i > 2;
  }
  return sum;
}

/* The scope that is opened next; -1: none. */
static int find_largest(const weft_level_t *l, const level_cut_t *c, level_measure_t by) {
  enum { MOST_GROUPS = 8 };
  int best = -1;
  for (int i = 0; i < c->n; i++) {
    const weft_tree_scope_t *s = c->items[i];
    if (s->leaf >= 0 || is_group(s) || !(holds_layers(s) || c->n < LEAST_SHOWN)) continue;
    if (s->members > 1 && (l->num_groups >= MOST_GROUPS || c->groups[i] >= 0)) continue;
    if (best < 0 || weight_of(s, by) > weight_of(c->items[best], by)) best = i;
  }
  return best;
}

/* What holds more than half of a frame, or where few boxes are shown, is opened while its parts fit. */
static weft_status_t *open_largest(weft_level_t *l, level_cut_t *c, int room) {
  int spare, all = 0;
  level_measure_t by = BY_VARIABLES;
  while ((all = weight_of_all(c, by, &spare)) == 0 && by < BY_NODES) by++;
  for (;;) {
    const int best = find_largest(l, c, by);
    if (best < 0) return NULL;
    const weft_tree_scope_t *s = c->items[best];
    const int weight = weight_of(s, by);
    if (2 * weight <= all && (c->n > LEAST_SHOWN || 4 * weight <= all)) return NULL;
    if (c->n + s->num_children - 1 > room + spare) return NULL;
    WEFT_RETURN_IF_ERROR(cut_at(l, c, best, c->groups[best]));
  }
}

static void fill_box(weft_level_box_t *b, const weft_tree_scope_t *s, weft_drawn_role_t role) {
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++) {
    if (role != WEFT_DRAWN_ROLES && (int)role != r) continue;
    b->num_nodes += s->by_role[r];
    b->by_role[r] += s->by_role[r];
  }
  if (role == WEFT_DRAWN_ROLES || role == WEFT_DRAWN_FORWARD || s->by_role[WEFT_DRAWN_FORWARD] == 0) {
    b->num_variables += s->num_variables;
    b->variable_bytes += s->variable_bytes;
  }
  for (int k = 1; k < WEFT_DRAWN_KINDS; k++) {
    if (s->kinds == 1u << k && b->rest == 0) b->kind = (weft_drawn_kind_t)k;
  }
}

/* Which scopes share a box with the one before them: as many as there are too many, the smallest neighbours
 * first, what a strategy added apart from the model. `joins`: of each. */
static void join_neighbours(const level_cut_t *c, weft_drawn_role_t role, int room, bool *joins) {
  int excess = c->n - room;
  for (int i = 0; i < c->n; i++) excess -= joins[i];
  for (; excess > 0; excess--) {
    int best = -1, least = 0;
    for (int i = 1; i < c->n; i++) {
      if (joins[i]) continue;
      int size = count_of(c->items[i], role), first = i - 1;
      while (joins[first]) size += count_of(c->items[first--], role);
      size += count_of(c->items[first], role);
      if (is_group(c->items[i]) != is_group(c->items[first])) size += 1 << 24;
      if (c->groups[i] != c->groups[first]) size += 1 << 24;
      if (best >= 0 && size >= least) continue;
      best = i;
      least = size;
    }
    if (best < 0) return;
    joins[best] = true;
  }
}

/* In a picture of layers, nodes of gradients beside them are one box. */
static void join_gradients(const level_cut_t *c, bool *joins) {
  for (int i = 1; i < c->n; i++) {
    const weft_tree_scope_t *a = c->items[i - 1], *b = c->items[i];
    const bool are_layers = a->by_role[WEFT_DRAWN_FORWARD] > 0 || b->by_role[WEFT_DRAWN_FORWARD] > 0;
    joins[i] = c->groups[i] == c->groups[i - 1] && !are_layers && !is_group(a) && !is_group(b);
  }
}

static void sort_by_role(level_cut_t *c, weft_drawn_role_t role) {
  for (int i = 1; i < c->n; i++) { /* few: an insertion keeps equal ones in order */
    weft_tree_scope_t *s = c->items[i];
    int k = i;
    for (; k > 0 && weft_tree_order(c->items[k - 1], role) > weft_tree_order(s, role); k--)
      c->items[k] = c->items[k - 1];
    c->items[k] = s;
  }
}

/* The boxes of one frame; where there are more than fit, neighbours share one. */
static void add_boxes(weft_tree_t *t, weft_level_t *l, int frame, level_cut_t *c, int room) {
  weft_level_frame_t *f = &l->frames[frame];
  f->first = l->num_boxes;
  if (f->role != WEFT_DRAWN_ROLES) sort_by_role(c, f->role);
  if (f->role == WEFT_DRAWN_ROLES && f->root->by_role[WEFT_DRAWN_FORWARD] > 0) join_gradients(c, c->joins);
  join_neighbours(c, f->role, room, c->joins);
  for (int i = 0; i < c->n; i++) {
    weft_tree_scope_t *s = c->items[i];
    if (!c->joins[i]) {
      l->boxes[l->num_boxes++] =
          (weft_level_box_t){.scope = s, .frame = frame, .role = f->role, .group = c->groups[i]};
    }
    weft_level_box_t *b = &l->boxes[l->num_boxes - 1];
    b->rest += c->joins[i];
    b->last = s;
    fill_box(b, s, f->role);
    for (int r = 0; r < WEFT_DRAWN_ROLES; r++) {
      if (f->role == WEFT_DRAWN_ROLES || (int)f->role == r) s->box[r] = l->num_boxes; /* + 1 */
    }
    s->stamp = t->num_marks;
  }
  f->num_boxes = l->num_boxes - f->first;
}

/* Clears what an earlier level has left in the scopes of this one. */
static void claim(weft_tree_t *t, level_cut_t *c) {
  for (int i = 0; i < c->n; i++) {
    if (c->items[i]->stamp == t->num_marks) continue;
    memset(c->items[i]->box, 0, sizeof c->items[i]->box);
    c->items[i]->stamp = t->num_marks;
  }
}

static weft_status_t *init_level(weft_tree_t *t, weft_tree_scope_t *scope, int num_frames, weft_level_t *l) {
  enum { GROUPS = 16 };
  *l = (weft_level_t){.arena = WEFT_ARENA_INIT, .scope = scope};
  t->num_marks++;
  l->frames = weft_arena_calloc(&l->arena, (size_t)num_frames, sizeof *l->frames);
  l->boxes = weft_arena_calloc(&l->arena, (size_t)num_frames * MOST_BOXES, sizeof *l->boxes);
  l->groups = weft_arena_calloc(&l->arena, GROUPS, sizeof *l->groups);
  return l->frames == NULL || l->boxes == NULL || l->groups == NULL ? no_memory() : NULL;
}

static void add_frame(weft_level_t *l, weft_tree_scope_t *root, weft_drawn_role_t role) {
  l->frames[l->num_frames++] = (weft_level_frame_t){.root = root, .role = role};
}

static int num_shown(const weft_tree_scope_t *s, weft_drawn_role_t role) {
  int n = 0;
  for (int i = 0; i < s->num_children; i++) n += count_of(s->children[i], role) > 0;
  return n;
}

/* Children that were put together for a page are shown one by one where a frame has room for them. */
static void open_chunks(level_cut_t *c, weft_drawn_role_t role, int room) {
  for (;;) {
    int best = -1, least = 0;
    for (int i = 0; i < c->n; i++) {
      const int n = c->items[i]->is_chunk ? num_shown(c->items[i], role) : 0;
      if (n == 0 || (best >= 0 && n >= least)) continue;
      best = i;
      least = n;
    }
    if (best < 0 || c->n + least - 1 > room) return;
    const weft_tree_scope_t *s = c->items[best];
    const size_t behind = (size_t)(c->n - best - 1);
    memmove(c->items + best + least, c->items + best + 1, behind * sizeof(*c->items));
    memmove(c->groups + best + least, c->groups + best + 1, behind * sizeof *c->groups);
    for (int i = 0, at = best; i < s->num_children; i++) {
      if (count_of(s->children[i], role) == 0) continue;
      c->groups[at] = -1;
      c->items[at++] = s->children[i];
    }
    c->n += least - 1;
  }
}

static weft_status_t *fill_frame(weft_tree_t *t, weft_level_t *l, int frame, int room) {
  weft_level_frame_t *f = &l->frames[frame];
  weft_tree_scope_t *root = f->root;
  const size_t capacity = (size_t)root->num_children + MOST_BOXES + WEFT_TREE_CHILDREN + 1;
  level_cut_t c = {.capacity = (int)capacity};
  c.items = weft_arena_calloc(&l->arena, capacity, sizeof(*c.items));
  c.groups = weft_arena_calloc(&l->arena, capacity, sizeof *c.groups);
  c.joins = weft_arena_calloc(&l->arena, capacity, sizeof *c.joins);
  if (c.items == NULL || c.groups == NULL || c.joins == NULL) return no_memory();
  for (int i = 0; i < root->num_children; i++) {
    if (count_of(root->children[i], f->role) == 0) continue;
    c.groups[c.n] = -1;
    c.items[c.n++] = root->children[i];
  }
  if (f->role == WEFT_DRAWN_ROLES) {
    WEFT_RETURN_IF_ERROR(open_largest(l, &c, room));
  } else {
    open_chunks(&c, f->role, room);
  }
  claim(t, &c);
  add_boxes(t, l, frame, &c, room);
  return NULL;
}

static weft_status_t *fill_frames(weft_tree_t *t, weft_level_t *l, int num_links) {
  int room = weft_layout_room(l->num_frames, num_links);
  if (room > MOST_BOXES) room = MOST_BOXES;
  for (int f = 0; f < l->num_frames; f++) WEFT_RETURN_IF_ERROR(fill_frame(t, l, f, room));
  return weft_level_find_arrows(t, l);
}

/* ---- levels ---- */

weft_status_t *weft_level_of_step(weft_tree_t *t, const weft_rewrite_t *r, weft_level_t *out) {
  WEFT_RETURN_IF_ERROR(init_level(t, NULL, t->num_roots + 1, out));
  for (int p = 0; p < t->num_roots; p++) add_frame(out, t->roots[p], WEFT_DRAWN_ROLES);
  WEFT_RETURN_IF_ERROR(weft_level_find_links(t, r, out));
  return fill_frames(t, out, out->num_links);
}

weft_status_t *weft_level_of_scope(weft_tree_t *t, weft_tree_scope_t *scope, weft_level_t *out) {
  enum { USUAL_LINKS = 5 };
  WEFT_RETURN_IF_ERROR(init_level(t, scope, WEFT_DRAWN_ROLES + 1, out));
  if (scope->parent == NULL) add_frame(out, scope, WEFT_DRAWN_ROLES);
  for (int r = 0; r < WEFT_DRAWN_ROLES && scope->parent != NULL; r++) {
    if (scope->by_role[r] > 0) add_frame(out, scope, (weft_drawn_role_t)r);
  }
  return fill_frames(t, out, out->num_frames > 1 ? USUAL_LINKS : 0);
}
