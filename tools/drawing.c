/* tools/drawing.c - nodes to boxes, edges to arrows, both to Graphviz's language. */
#include "tools/drawing.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "tools/drawing_scopes.h"

enum { WHOLE_PLACES = 4, LEAST_BOXES = 7, MAX_OUTSIDE = 8, SHOWN_CROSSINGS = 2, HUB = 6, EXAMPLE_ROWS = 64 };

typedef struct drawing_item {
  weft_drawing_scope_t *leaf;
  int place, box; /* box -1: not drawn */
  bool is_variable;
  int64_t bytes;
} drawing_item_t;
typedef struct drawing_link {
  int from, to;
  weft_drawn_kind_t kind;
  weft_flow_t flow;
} drawing_link_t;
typedef struct drawing_place {
  weft_str_t name;
  int group;
} drawing_place_t;
typedef struct drawing_group { /* places that are drawn as one */
  weft_str_t first, last;
  int num_places;
} drawing_group_t;
typedef struct box {
  weft_drawing_scope_t *scope; /* NULL: the others */
  int group, num_nodes, num_variables;
  int64_t bytes; /* of variables */
} box_t;
typedef struct arrow {
  int from, to;
  weft_drawn_kind_t kind;
  weft_flow_t flow;
} arrow_t;

struct weft_drawing {
  weft_scopes_t scopes;
  weft_map_t place_index;
  drawing_item_t *items;
  drawing_link_t *links;
  drawing_place_t *places;
  int num_items, num_links, num_places, item_capacity, link_capacity, place_capacity;
  drawing_group_t *groups;
  box_t *boxes;
  arrow_t *arrows;
  int num_groups, num_boxes, num_arrows, box_capacity, arrow_capacity;
  weft_map_t box_index, arrow_index; /* key -> number + 1 */
  const weft_drawing_scope_t *at;    /* what is drawn; NULL: all */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a drawing"); }

weft_status_t *weft_drawing_create(weft_drawing_t **out) {
  weft_drawing_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return no_memory();
  weft_scopes_init(&d->scopes);
  d->place_index = d->box_index = d->arrow_index = (weft_map_t)WEFT_MAP_INIT;
  *out = d;
  return NULL;
}

void weft_drawing_destroy(weft_drawing_t *d) {
  if (d == NULL) return;
  weft_scopes_deinit(&d->scopes);
  weft_map_deinit(&d->place_index);
  weft_map_deinit(&d->box_index);
  weft_map_deinit(&d->arrow_index);
  weft_free(d->items);
  weft_free(d->links);
  weft_free(d->places);
  weft_free(d->groups);
  weft_free(d->boxes);
  weft_free(d->arrows);
  weft_free(d);
}

/* Room for one more of `size` bytes. */
static bool grow(void *array, int n, int *capacity, size_t size) {
  void **items = array;
  if (n < *capacity) return true;
  int more = *capacity == 0 ? 16 : 2 * *capacity;
  void *larger = weft_realloc(*items, (size_t)more, size);
  if (larger == NULL) return false;
  *items = larger;
  *capacity = more;
  return true;
}

static weft_status_t *find_place(weft_drawing_t *d, weft_str_t name, int *out) {
  uintptr_t known = (uintptr_t)weft_map_get(&d->place_index, name);
  *out = (int)known - 1;
  if (known != 0) return NULL;
  weft_str_t own = weft_arena_str(&d->scopes.arena, name);
  if (own.data == NULL || !grow(&d->places, d->num_places, &d->place_capacity, sizeof *d->places))
    return no_memory();
  *out = d->num_places++;
  d->places[*out] = (drawing_place_t){.name = own};
  return weft_map_put(&d->place_index, own, (void *)(uintptr_t)(*out + 1), NULL);
}

weft_status_t *weft_drawing_node(weft_drawing_t *d, weft_str_t name, weft_str_t place, bool is_variable,
                                 int64_t bytes, int *out) {
  drawing_item_t item = {.box = -1, .is_variable = is_variable, .bytes = bytes > 0 ? bytes : 0};
  WEFT_RETURN_IF_ERROR(find_place(d, place, &item.place));
  WEFT_RETURN_IF_ERROR(weft_scopes_add(&d->scopes, name, is_variable, &item.leaf));
  if (!grow(&d->items, d->num_items, &d->item_capacity, sizeof *d->items)) return no_memory();
  *out = d->num_items;
  d->items[d->num_items++] = item;
  return NULL;
}

weft_status_t *weft_drawing_edge(weft_drawing_t *d, int from, int to, weft_drawn_kind_t kind,
                                 const weft_flow_t *flow) {
  if (!grow(&d->links, d->num_links, &d->link_capacity, sizeof *d->links)) return no_memory();
  d->links[d->num_links++] = (drawing_link_t){from, to, kind, flow == NULL ? (weft_flow_t){0} : *flow};
  return NULL;
}

/* ---- places ---- */

/* "/job:worker" of a task, all before the last number of another name. */
static weft_str_t job_of(weft_str_t place) {
  size_t n = place.length;
  while (n > 0 && place.data[n - 1] >= '0' && place.data[n - 1] <= '9') n--;
  return weft_str_of(place.data, n);
}

/* Where there are many places, all of a job but the first are drawn as one. */
static weft_status_t *group_places(weft_drawing_t *d) {
  d->groups = weft_calloc((size_t)d->num_places + 1, sizeof *d->groups);
  if (d->groups == NULL) return no_memory();
  for (int i = 0; i < d->num_places; i++) {
    drawing_place_t *p = &d->places[i];
    int before = 0, others = -1;
    for (int k = 0; k < i && d->num_places > WHOLE_PLACES; k++) {
      if (!weft_str_eq(job_of(d->places[k].name), job_of(p->name))) continue;
      before++;
      if (before == 2) others = d->places[k].group;
    }
    p->group = others >= 0 ? others : d->num_groups++;
    drawing_group_t *g = &d->groups[p->group];
    if (g->num_places++ == 0) g->first = p->name;
    g->last = p->name;
  }
  return NULL;
}

/* ---- boxes ---- */

static weft_status_t *numbered(weft_map_t *index, uint64_t key, int next, int *out) {
  uintptr_t known = (uintptr_t)weft_map_get_u64(index, key);
  *out = (int)known - 1;
  return known != 0 ? NULL : weft_map_put_u64(index, key, (void *)(uintptr_t)(next + 1), NULL);
}

static bool is_inside(const weft_drawing_t *d, const weft_drawing_scope_t *s) {
  while (s != NULL && s != d->at) s = s->parent;
  return s != NULL;
}

static weft_status_t *find_box(weft_drawing_t *d, drawing_item_t *item) {
  weft_drawing_scope_t *scope = weft_scopes_box_of(&d->scopes, item->leaf);
  if (scope == NULL && d->at != NULL && !is_inside(d, weft_scopes_resolve(item->leaf)))
    return NULL; /* nor a neighbour */
  int group = d->places[item->place].group;
  uint64_t key = (uint64_t)(uintptr_t)scope ^ (uint64_t)(unsigned)group << 48; /* addresses have 48 bits */
  WEFT_RETURN_IF_ERROR(numbered(&d->box_index, key, d->num_boxes, &item->box));
  if (item->box < 0) {
    if (!grow(&d->boxes, d->num_boxes, &d->box_capacity, sizeof *d->boxes)) return no_memory();
    item->box = d->num_boxes++;
    d->boxes[item->box] = (box_t){.scope = scope, .group = group};
  }
  box_t *b = &d->boxes[item->box];
  b->num_nodes++;
  b->num_variables += item->is_variable;
  b->bytes += item->bytes;
  return NULL;
}

static bool is_around(const weft_drawing_t *d, const weft_drawing_scope_t *s) {
  for (const weft_drawing_scope_t *up = d->at; up != NULL; up = up->parent) {
    if (up == s) return true;
  }
  return false;
}

/* What an edge joins with the scope that is drawn: the largest scopes beside it, as many as fit. */
static void choose_neighbours(weft_drawing_t *d) {
  int n = 0;
  for (int i = 0; i < d->num_links && n < MAX_OUTSIDE; i++) {
    const drawing_link_t *l = &d->links[i];
    weft_drawing_scope_t *ends[2] = {weft_scopes_resolve(d->items[l->from].leaf),
                                     weft_scopes_resolve(d->items[l->to].leaf)};
    bool inside[2] = {is_inside(d, ends[0]), is_inside(d, ends[1])};
    if (inside[0] == inside[1] || l->kind == WEFT_DRAWN_CONTROL) continue;
    weft_drawing_scope_t *s = inside[0] ? ends[1] : ends[0];
    while (s->parent != NULL && !is_around(d, s->parent)) s = s->parent;
    if (is_around(d, s) || s->is_box) continue;
    s->is_box = s->is_outside = true;
    n++;
  }
}

/* ---- arrows ---- */

static void add_flow(weft_flow_t *to, const weft_flow_t *f) {
  to->bytes += f->bytes;
  to->row_bytes += f->row_bytes;
  to->messages += f->messages;
  to->num_unknown += f->num_unknown;
}

static weft_status_t *add_arrow(weft_drawing_t *d, const drawing_link_t *l) {
  int from = d->items[l->from].box, to = d->items[l->to].box, at;
  bool crosses = l->kind == WEFT_DRAWN_CROSSING || l->kind == WEFT_DRAWN_COLLECTIVE;
  if (from < 0 || to < 0 || (from == to && !crosses)) return NULL;
  uint64_t key = ((uint64_t)(unsigned)from << 32) ^ ((uint64_t)(unsigned)to << 2) ^ (uint64_t)l->kind;
  WEFT_RETURN_IF_ERROR(numbered(&d->arrow_index, key, d->num_arrows, &at));
  if (at < 0) {
    if (!grow(&d->arrows, d->num_arrows, &d->arrow_capacity, sizeof *d->arrows)) return no_memory();
    at = d->num_arrows++;
    d->arrows[at] = (arrow_t){.from = from, .to = to, .kind = l->kind};
  }
  add_flow(&d->arrows[at].flow, &l->flow);
  return NULL;
}

static double weight_of(const arrow_t *a) { return (double)a->flow.bytes + EXAMPLE_ROWS * a->flow.row_bytes; }

static bool has_data(const weft_drawing_t *d, int from, int to) {
  for (int i = 0; i < d->num_arrows; i++) {
    if (d->arrows[i].from == from && d->arrows[i].to == to && d->arrows[i].kind != WEFT_DRAWN_CONTROL)
      return true;
  }
  return false;
}

/* Order alone is drawn between boxes that no data joins, in small drawings. What goes between places is drawn
 * apart. */
static bool is_drawn(const weft_drawing_t *d, const arrow_t *a) {
  if (a->kind != WEFT_DRAWN_CONTROL) return a->kind == WEFT_DRAWN_DATA;
  return 2 * d->num_boxes <= WEFT_DRAWING_BOXES && !has_data(d, a->from, a->to) &&
         !has_data(d, a->to, a->from);
}

/* ---- text ---- */

static void put_quotable(weft_strbuf_t *out, weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) {
    if (s.data[i] == '"' || s.data[i] == '\\') weft_strbuf_putc(out, '\\');
    weft_strbuf_putc(out, s.data[i]);
  }
}

static void put_scope_name(weft_strbuf_t *out, const weft_drawing_scope_t *s) {
  put_quotable(out, s->name);
  if (s->members > 1) weft_strbuf_puts(out, " \xe2\x80\xa6 ");
  if (s->members > 1) put_quotable(out, s->last);
  if (s->members > 1) weft_strbuf_printf(out, "  \xc3\x97%d", s->members);
}

static void put_path(weft_strbuf_t *out, const weft_drawing_scope_t *s) {
  if (s->parent != NULL && s->parent->parent != NULL) {
    put_path(out, s->parent);
    weft_strbuf_putc(out, '/');
  }
  put_quotable(out, s->name);
}

static void put_box(weft_strbuf_t *out, int number, const box_t *b) {
  weft_strbuf_printf(out, "b%d [label=\"", number);
  if (b->scope == NULL) {
    weft_strbuf_puts(out, "others");
  } else {
    put_scope_name(out, b->scope);
  }
  if (b->num_nodes > 1) weft_strbuf_printf(out, "\\n%d nodes", b->num_nodes);
  if (b->num_variables > 0) {
    weft_strbuf_printf(out, "\\n%d variable%s", b->num_variables, b->num_variables == 1 ? "" : "s");
    if (b->bytes > 0) weft_strbuf_puts(out, ", ");
    if (b->bytes > 0) weft_print_bytes(out, b->bytes);
  }
  weft_strbuf_puts(out, "\"");
  if (b->scope != NULL && b->scope->first != NULL) {
    weft_strbuf_puts(out, ", tooltip=\"--scope ");
    put_path(out, b->scope);
    weft_strbuf_puts(out, "\"");
  }
  if (b->num_variables > 0) weft_strbuf_puts(out, ", fillcolor=\"#fdf0d0\"");
  if (b->scope == NULL || b->scope->is_outside)
    weft_strbuf_puts(out, ", style=\"rounded,dashed\", fontcolor=gray40, color=gray60");
  weft_strbuf_puts(out, "];\n");
}

/* The boxes of a group below an open scope, with frames around those of scopes that are open, too. */
static void put_boxes(const weft_drawing_t *d, int group, const weft_drawing_scope_t *in, int *number,
                      weft_strbuf_t *out) {
  for (int b = 0; b < d->num_boxes; b++) {
    const box_t *box = &d->boxes[b];
    const weft_drawing_scope_t *parent = box->scope == NULL    ? &d->scopes.root
                                         : box->scope->is_open ? box->scope
                                                               : box->scope->parent;
    if (box->group == group && parent == in) put_box(out, b, box);
  }
  for (const weft_drawing_scope_t *c = in->first; c != NULL; c = c->next) {
    if (!c->is_open && !is_around(d, c)) continue;
    weft_strbuf_printf(
        out,
        "subgraph cluster_s%d { style=\"rounded,filled\"; color=\"#d8d8d8\"; fillcolor=\"#f6f6f6\"; label=\"",
        (*number)++);
    put_scope_name(out, c);
    weft_strbuf_puts(out, "\";\n");
    put_boxes(d, group, c, number, out);
    weft_strbuf_puts(out, "}\n");
  }
}

/* Where many boxes meet (gradients, an optimizer), arrows are pale, so that the way through a model is seen.
 */
static bool is_at_hub(const weft_drawing_t *d, const arrow_t *a) {
  int n = 0;
  for (int i = 0; i < d->num_arrows; i++)
    n += d->arrows[i].to == a->to && d->arrows[i].kind == WEFT_DRAWN_DATA;
  return n >= HUB;
}

static void put_arrow(weft_strbuf_t *out, const weft_drawing_t *d, const arrow_t *a) {
  weft_strbuf_printf(out, "b%d -> b%d [", a->from, a->to);
  if (a->kind == WEFT_DRAWN_DATA) {
    weft_strbuf_printf(out, "color=%s", is_at_hub(d, a) ? "gray82" : "gray45");
  } else {
    weft_strbuf_puts(out, "style=dashed, color=gray75, arrowsize=0.5");
  }
  weft_strbuf_puts(out, "];\n");
}

/* ---- between places ---- */

static bool is_between(const weft_drawing_t *d, const arrow_t *a, int from, int to, weft_drawn_kind_t kind) {
  return a->kind == kind && d->boxes[a->from].group == from && d->boxes[a->to].group == to;
}

/* What goes from one place to another; how many arrows, and the largest that is lighter than `below` (NULL:
 * than none). */
static const arrow_t *sum_between(const weft_drawing_t *d, int from, int to, weft_drawn_kind_t kind,
                                  const arrow_t *below, weft_flow_t *sum, int *count) {
  const arrow_t *best = NULL;
  *sum = (weft_flow_t){0};
  *count = 0;
  for (int i = 0; i < d->num_arrows; i++) {
    const arrow_t *a = &d->arrows[i];
    if (!is_between(d, a, from, to, kind)) continue;
    add_flow(sum, &a->flow);
    ++*count;
    bool fits =
        below == NULL || weight_of(a) < weight_of(below) || (weight_of(a) == weight_of(below) && a > below);
    if (fits && a != below && (best == NULL || weight_of(a) > weight_of(best))) best = a;
  }
  return best;
}

static bool is_of_strategy(const box_t *b) { return b->scope == NULL || weft_str_is(b->scope->name, "weft"); }

/* The sum, and the largest of what it is made of. */
static void put_label(const weft_drawing_t *d, int from, int to, weft_drawn_kind_t kind, weft_strbuf_t *out) {
  weft_flow_t sum;
  int count;
  const arrow_t *a = sum_between(d, from, to, kind, NULL, &sum, &count);
  weft_print_flow(out, &sum);
  for (int shown = 0; a != NULL && count > 1 && shown < SHOWN_CROSSINGS; shown++) {
    const box_t *source = &d->boxes[a->from], *target = &d->boxes[a->to];
    const box_t *named = is_of_strategy(source) ? target : source;
    weft_strbuf_puts(out, "\\n");
    if (is_of_strategy(named)) {
      weft_strbuf_puts(out, named->scope == NULL ? "others" : "weft");
    } else {
      weft_strbuf_puts(out, named == target ? "to " : "");
      put_scope_name(out, named->scope);
    }
    weft_strbuf_puts(out, ": ");
    weft_print_flow(out, &a->flow);
    a = sum_between(d, from, to, kind, a, &sum, &count);
  }
}

static void put_between(const weft_drawing_t *d, int from, int to, weft_drawn_kind_t kind,
                        weft_strbuf_t *out) {
  weft_flow_t sum;
  int count;
  const char *color = kind == WEFT_DRAWN_COLLECTIVE ? "#3050b0" : "#b03030";
  const arrow_t *largest = sum_between(d, from, to, kind, NULL, &sum, &count);
  if (largest == NULL || from == to) return;
  weft_strbuf_printf(out, "p%d -> p%d [penwidth=2, color=\"%s\", fontcolor=\"%s\", label=\"", from, to, color,
                     color);
  put_label(d, from, to, kind, out);
  weft_strbuf_puts(out, "\"];\n");
}

/* In the frame of several places: what goes between these. */
static void put_among(const weft_drawing_t *d, int group, weft_strbuf_t *out) {
  weft_flow_t values, rings;
  int num_values, num_rings;
  (void)sum_between(d, group, group, WEFT_DRAWN_CROSSING, NULL, &values, &num_values);
  (void)sum_between(d, group, group, WEFT_DRAWN_COLLECTIVE, NULL, &rings, &num_rings);
  if (num_values + num_rings == 0) return;
  add_flow(&values, &rings);
  weft_strbuf_puts(out, "\\nbetween them ");
  weft_print_flow(out, &values);
}

static void put_group_name(const weft_drawing_t *d, int g, weft_strbuf_t *out) {
  const drawing_group_t *group = &d->groups[g];
  weft_print_place(out, group->first);
  if (group->num_places == 1) return;
  weft_strbuf_puts(out, group->num_places == 2 ? " and " : " to ");
  weft_print_place(out, group->last);
  weft_strbuf_printf(out, "  \xc3\x97%d", group->num_places);
}

/* Beside what is in each place: the places, and what goes between them. */
static void put_traffic(const weft_drawing_t *d, weft_strbuf_t *out) {
  bool is_any = false;
  for (int i = 0; i < d->num_arrows; i++)
    is_any |= d->arrows[i].kind == WEFT_DRAWN_CROSSING || d->arrows[i].kind == WEFT_DRAWN_COLLECTIVE;
  if (!is_any) return;
  weft_strbuf_puts(out, "subgraph cluster_traffic { style=invis; node [fontsize=12]; edge [fontsize=11];\n");
  for (int g = 0; g < d->num_groups; g++) {
    weft_strbuf_printf(
        out, "p%d [shape=box, style=filled, fillcolor=\"#e8eef8\", margin=\"0.2,0.12\", label=\"", g);
    put_group_name(d, g, out);
    put_among(d, g, out);
    weft_strbuf_puts(out, "\"];\n");
  }
  for (int from = 0; from < d->num_groups; from++) {
    for (int to = 0; to < d->num_groups; to++) {
      put_between(d, from, to, WEFT_DRAWN_CROSSING, out);
      put_between(d, from, to, WEFT_DRAWN_COLLECTIVE, out);
    }
  }
  weft_strbuf_puts(out, "}\n");
}

static void put_drawing(const weft_drawing_t *d, weft_strbuf_t *out) {
  int number = 0;
  weft_strbuf_puts(out,
                   "digraph weft {\nrankdir=TB; size=\"17,11\"; nodesep=0.25; ranksep=0.4; "
                   "fontname=\"sans-serif\"; fontsize=11;\n"
                   "node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\", "
                   "fontsize=10, margin=\"0.12,0.06\", "
                   "height=0.3];\nedge [fontname=\"sans-serif\", fontsize=9, arrowsize=0.6];\n");
  put_traffic(d, out);
  for (int g = 0; g < d->num_groups; g++) {
    bool is_named = d->groups[g].first.length > 0;
    if (is_named) {
      weft_strbuf_printf(out, "subgraph cluster_%d { style=rounded; color=gray50; label=\"", g);
      put_group_name(d, g, out);
      weft_strbuf_puts(out, "\";\n");
    }
    put_boxes(d, g, &d->scopes.root, &number, out);
    if (is_named) weft_strbuf_puts(out, "}\n");
  }
  for (int i = 0; i < d->num_arrows; i++) {
    if (is_drawn(d, &d->arrows[i])) put_arrow(out, d, &d->arrows[i]);
  }
  weft_strbuf_puts(out, "}\n");
}

weft_status_t *weft_drawing_print(weft_drawing_t *d, const char *scope, weft_strbuf_t *out) {
  WEFT_RETURN_IF_ERROR(group_places(d));
  WEFT_RETURN_IF_ERROR(weft_scopes_merge(&d->scopes));
  weft_drawing_scope_t *at = scope == NULL ? &d->scopes.root : weft_scopes_find(&d->scopes, weft_str(scope));
  if (at == NULL) return WEFT_ERROR(NOT_FOUND, "--scope %s: no node has a name of this scope", scope);
  int groups = d->num_groups > 0 ? d->num_groups : 1,
      limit = WEFT_DRAWING_BOXES / groups - (scope == NULL ? 0 : MAX_OUTSIDE / groups);
  weft_scopes_choose(at, limit < LEAST_BOXES ? LEAST_BOXES : limit);
  if (scope != NULL) d->at = at;
  if (scope != NULL) choose_neighbours(d);
  for (int i = 0; i < d->num_items; i++) WEFT_RETURN_IF_ERROR(find_box(d, &d->items[i]));
  for (int i = 0; i < d->num_links; i++) WEFT_RETURN_IF_ERROR(add_arrow(d, &d->links[i]));
  put_drawing(d, out);
  return out->failed ? no_memory() : NULL;
}
