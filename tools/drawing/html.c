/* tools/drawing/html.c - all levels of a drawing as JSON, in a page that draws them.
 *
 * Levels are numbered in the order in which they are first met; a scope that is in several boxes has one
 * level. The page (page.html) is lines of text with one mark where the data go. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/drawing/drawing_impl.h"
#include "tools/drawing/svg.h"
#include "tools/drawing/text.h"

static const char *const page[] = {
#include "tools/drawing/page.inc"
};

enum { MOST_DETAILED = 20000, MOST_MEMBERS = 256, MOST_ATTRIBUTES = 12, MOST_TEXT = 400 };

typedef struct html {
  weft_drawing_t *d;
  weft_strbuf_t *out;
  weft_tree_scope_t **queue; /* owned; scopes of the levels, by number; [0] NULL: the first */
  int *parents;              /* owned; by number */
  int num_levels, capacity;
  bool has_details;
} html_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a page of levels"); }

static void put(html_t *h, const char *text) { weft_strbuf_puts(h->out, text); }

static void put_field(html_t *h, const char *name, weft_str_t text) {
  weft_strbuf_printf(h->out, ",\"%s\":", name);
  weft_text_put_json(h->out, text);
}

static weft_str_t shown_path(weft_str_t path) {
  return path.length > 0 && path.data[0] == WEFT_DRAWN_GROUP ? weft_str_of(path.data + 1, path.length - 1)
                                                             : path;
}

/* ---- numbers of levels ---- */

static weft_status_t *enqueue(html_t *h, weft_tree_scope_t *scope, int parent, int *out) {
  if (scope != NULL && scope->level >= 0) {
    *out = scope->level;
    return NULL;
  }
  if (h->num_levels == h->capacity) {
    const int capacity = h->capacity == 0 ? 64 : 2 * h->capacity;
    weft_tree_scope_t **queue = weft_realloc(h->queue, (size_t)capacity, sizeof(*queue));
    if (queue == NULL) return no_memory();
    h->queue = queue;
    int *parents = weft_realloc(h->parents, (size_t)capacity, sizeof *parents);
    if (parents == NULL) return no_memory();
    h->parents = parents;
    h->capacity = capacity;
  }
  h->queue[h->num_levels] = scope;
  h->parents[h->num_levels] = parent;
  *out = h->num_levels++;
  if (scope != NULL) scope->level = *out;
  return NULL;
}

/* ---- details of a node ---- */

static void put_node(weft_strbuf_t *text, const weft_node_t *n) {
  weft_strbuf_puts(text, n->op->name.data);
  if (n->requested_device.length > 0)
    weft_strbuf_printf(text, " on %.*s", WEFT_STR_ARGS(n->requested_device));
  for (int i = 0; i < n->num_outputs && i < 4; i++) {
    weft_strbuf_printf(text, "\n:%d %s", i, weft_dtype_name(weft_dtype_base(n->output_types[i])));
    if (n->output_shapes != NULL) weft_strbuf_printf(text, " %s", WEFT_SHAPE_TEXT(&n->output_shapes[i]));
  }
  for (int i = 0, shown = 0; i < n->num_attrs && shown < MOST_ATTRIBUTES && text->length < MOST_TEXT; i++) {
    const weft_attr_t *a = &n->attrs[i].value;
    if (a->kind == WEFT_ATTR_TENSOR || a->kind == WEFT_ATTR_FUNC) continue;
    weft_strbuf_printf(text, "\n%.*s = ", WEFT_STR_ARGS(n->attrs[i].name));
    weft_attr_print(a, text);
    shown++;
  }
}

static void put_details(html_t *h, const weft_level_box_t *b) {
  const weft_step_nodes_t *s = &h->d->step;
  const int first = b->scope->leaf;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (!h->has_details) return;
  put_node(&text, s->nodes[first].node);
  int others = 0;
  for (int i = h->d->tree.first_node[first]; i >= 0 && others < 4; i = h->d->tree.next_node[i]) {
    if (i == first) continue;
    weft_strbuf_printf(&text, "%s%.*s", others++ == 0 ? "\nwith " : ", ",
                       WEFT_STR_ARGS(s->nodes[i].node->name));
  }
  put_field(h, "d", weft_str_of(text.data == NULL ? "" : text.data, text.length));
  h->out->failed = h->out->failed || text.failed;
  weft_strbuf_deinit(&text);
}

/* ---- parts of a level ---- */

/* Does the path of a box follow from that of its level and its title? */
static bool is_path_told(const weft_level_t *l, const weft_level_box_t *b, weft_str_t path) {
  const weft_str_t of = l->scope == NULL ? WEFT_STR("") : l->scope->path;
  const size_t skipped = of.length == 0 ? 0 : of.length + 1;
  if (path.length != skipped + b->title.length) return false;
  if (skipped > 0 && (memcmp(path.data, of.data, of.length) != 0 || path.data[of.length] != '/'))
    return false;
  return memcmp(path.data + skipped, b->title.data, b->title.length) == 0;
}

static weft_status_t *put_box(html_t *h, const weft_level_t *l, const weft_level_box_t *b, int level) {
  const bool is_leaf = b->scope->leaf >= 0 && b->rest == 0;
  weft_strbuf_printf(h->out, "{\"r\":[%d,%d],\"n\":[", b->x, b->y);
  for (int r = 0, n = 0; r < WEFT_DRAWN_ROLES && n < b->num_nodes; n += b->by_role[r++])
    weft_strbuf_printf(h->out, "%s%d", r > 0 ? "," : "", b->by_role[r]); /* as many as there are */
  put(h, "],\"t\":");
  weft_text_put_json(h->out, b->title);
  if (b->kind != WEFT_DRAWN_USER) weft_strbuf_printf(h->out, ",\"k\":%d", (int)b->kind);
  if (b->num_variables > 0)
    weft_strbuf_printf(h->out, ",\"v\":%d,\"b\":%" PRId64, b->num_variables, b->variable_bytes);
  if (is_leaf) put_field(h, "l", b->left);
  if (b->right.length > 0) put_field(h, "s", b->right);
  if (weft_str_is(b->scope->path, WEFT_DRAWN_INPUTS)) put(h, ",\"i\":1");
  if (!is_path_told(l, b, b->scope->path)) put_field(h, "p", shown_path(b->scope->path));
  if (b->scope->member_paths != NULL && b->scope->members > 1) {
    put(h, ",\"m\":[");
    for (int i = 0; i < b->scope->members && i < MOST_MEMBERS; i++) {
      if (i > 0) put(h, ",");
      weft_text_put_json(h->out, b->scope->member_paths[i]);
    }
    put(h, "]");
  }
  if (is_leaf) put_details(h, b);
  if (weft_level_has_inside(b)) {
    int inside;
    WEFT_RETURN_IF_ERROR(enqueue(h, b->scope, level, &inside));
    weft_strbuf_printf(h->out, ",\"o\":%d", inside);
  }
  put(h, "}");
  return NULL;
}

static void put_flow_text(html_t *h, const weft_flow_t *f, const weft_node_t *of, int output) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_print_flow(&text, f);
  weft_strbuf_printf(&text, " in %" PRId64 " %s%s", f->messages, of == NULL ? "message" : "value",
                     f->messages == 1 ? "" : "s");
  if (of != NULL) {
    weft_strbuf_printf(&text, "\n%.*s: %s", WEFT_STR_ARGS(of->name),
                       weft_dtype_name(weft_dtype_base(of->output_types[output])));
    if (of->output_shapes != NULL)
      weft_strbuf_printf(&text, " %s", WEFT_SHAPE_TEXT(&of->output_shapes[output]));
  }
  put_field(h, "d", weft_str_of(text.data == NULL ? "" : text.data, text.length));
  h->out->failed = h->out->failed || text.failed;
  weft_strbuf_deinit(&text);
}

static void put_arrow(html_t *h, const weft_level_arrow_t *a, bool is_first) {
  weft_strbuf_printf(h->out, "%s{\"x\":[", is_first ? "" : ",");
  for (int i = 0; i < 2 * a->num_points; i++)
    weft_strbuf_printf(h->out, "%s%d", i > 0 ? "," : "", a->points[i]);
  weft_strbuf_printf(h->out, "],\"c\":%d", (int)a->role);
  if (a->is_curve) put(h, ",\"z\":1");
  if (a->label.length > 0) {
    weft_strbuf_printf(h->out, ",\"t\":[%d,%d,%d,", a->label_x, a->label_y, a->label_anchor);
    weft_text_put_json(h->out, a->label);
    put(h, "]");
  }
  if (h->has_details || a->label.length == 0) put_flow_text(h, &a->flow, a->of, a->output);
  put(h, "}");
}

static void put_link(html_t *h, const weft_level_t *l, const weft_level_link_t *a, bool is_first) {
  const int colour = l->scope != NULL         ? WEFT_DRAWN_ROLES
                     : a->num_collectives > 0 ? WEFT_DRAWN_ADDED
                                              : WEFT_DRAWN_ROLES + 1;
  weft_strbuf_printf(h->out,
                     "%s{\"x\":[%d,%d,%d,%d,%d],\"c\":%d,\"f\":%d,\"g\":%d,\"bytes\":%" PRId64
                     ",\"row_bytes\":%.10g,\"messages\":%" PRId64 ",\"unknown\":%d,\"seconds\":%.6g",
                     is_first ? "" : ",", a->x1, l->frames[a->from].y, a->x2, l->frames[a->to].y, a->y,
                     colour, a->from, a->to, a->flow.bytes, a->flow.row_bytes, a->flow.messages,
                     a->flow.num_unknown, a->seconds);
  put_field(h, "t", a->label);
  put_flow_text(h, &a->flow, NULL, 0);
  put(h, "}");
}

static weft_status_t *put_frames(html_t *h, const weft_level_t *l, int level) {
  put(h, "],\n\"F\":[");
  for (int i = 0; i < l->num_frames; i++) {
    const weft_level_frame_t *f = &l->frames[i];
    weft_strbuf_printf(h->out, "%s{\"r\":[%d,%d,%d,%d]", i > 0 ? "," : "", f->x, f->y, f->width, f->height);
    put_field(h, "t", f->title);
    put_field(h, "s", f->subtitle);
    if (l->scope == NULL && l->num_frames > 1) {
      int inside;
      WEFT_RETURN_IF_ERROR(enqueue(h, f->root, level, &inside));
      weft_strbuf_printf(h->out, ",\"o\":%d", inside);
    }
    put(h, "}");
  }
  put(h, "],\n\"G\":[");
  for (int i = 0, n = 0; i < l->num_groups; i++) {
    const weft_level_group_t *g = &l->groups[i];
    if (g->num_parts == 0) continue;
    weft_strbuf_printf(h->out, "%s{\"r\":[", n++ > 0 ? "," : "");
    for (int k = 0; k < g->num_parts; k++)
      weft_strbuf_printf(h->out, "%s[%d,%d,%d,%d]", k > 0 ? "," : "", g->parts[k].x, g->parts[k].y,
                         g->parts[k].width, g->parts[k].height);
    put(h, "]");
    put_field(h, "t", g->title);
    put(h, "}");
  }
  return NULL;
}

static weft_status_t *put_level(html_t *h, int number) {
  weft_level_t l = {.arena = WEFT_ARENA_INIT};
  weft_tree_scope_t *scope = h->queue[number];
  weft_status_t *s = scope == NULL ? weft_level_of_step(&h->d->tree, h->d->r, &l)
                                   : weft_level_of_scope(&h->d->tree, scope, &l);
  if (s == NULL) s = weft_level_lay_out(&l, &h->d->step);
  if (s == NULL) {
    weft_strbuf_t name = WEFT_STRBUF_INIT;
    if (scope == NULL) {
      weft_strbuf_puts(&name, "all");
    } else if (scope->parent == NULL) {
      weft_print_place(&name, scope->name);
    } else {
      weft_strbuf_append(&name, scope->name);
      if (!weft_str_eq(scope->name, scope->last))
        weft_strbuf_printf(&name, " \xe2\x80\xa6 %.*s", WEFT_STR_ARGS(scope->last));
      if (scope->members > 1) weft_strbuf_printf(&name, " \xc3\x97%d", scope->members);
    }
    weft_strbuf_printf(h->out, "%s{\"u\":%d,\"w\":%d,\"h\":%d,\"b\":[%d,%d]", number > 0 ? ",\n" : "",
                       h->parents[number], l.width, l.height, l.num_boxes > 0 ? l.boxes[0].width : 0,
                       l.num_boxes > 0 ? l.boxes[0].height : 0);
    put_field(h, "n", weft_str_of(name.data == NULL ? "" : name.data, name.length));
    put_field(h, "p", scope == NULL ? WEFT_STR("") : shown_path(scope->path));
    put(h, ",\n\"B\":[");
    h->out->failed = h->out->failed || name.failed;
    weft_strbuf_deinit(&name);
  }
  for (int i = 0; i < l.num_boxes && s == NULL; i++) {
    if (i > 0) put(h, ",\n");
    s = put_box(h, &l, &l.boxes[i], number);
  }
  if (s == NULL) s = put_frames(h, &l, number);
  if (s == NULL) {
    put(h, "],\n\"A\":[");
    for (int i = 0, n = 0; i < l.num_arrows; i++) {
      if (l.arrows[i].num_points > 0) put_arrow(h, &l.arrows[i], n++ == 0);
    }
    put(h, "],\n\"L\":[");
    for (int i = 0; i < l.num_links; i++) put_link(h, &l, &l.links[i], i == 0);
    put(h, "]}");
  }
  weft_level_deinit(&l);
  return s;
}

/* ---- the page ---- */

static void put_words(html_t *h) {
  static const char *const rest[] = {"#57606a",
                                     "#b3261e"}; /* after the roles: other arrows, values between tasks */
  put(h, "{\"title\":");
  weft_text_put_json(h->out, weft_str_of(h->d->title.data, h->d->title.length));
  put_field(h, "subtitle", weft_str_of(h->d->subtitle.data, h->d->subtitle.length));
  unsigned kinds = 0;
  for (int i = 0; i < h->d->tree.num_roots; i++) kinds |= h->d->tree.roots[i]->kinds;
  put(h, ",\"roles\":[");
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++)
    weft_strbuf_printf(h->out, "%s\"%s\"", r > 0 ? "," : "", weft_drawn_role_name((weft_drawn_role_t)r));
  put(h, "],\"roleColours\":[");
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++)
    weft_strbuf_printf(h->out, "%s\"%s\"", r > 0 ? "," : "", weft_drawn_role_colour((weft_drawn_role_t)r));
  put(h, "],\"arrowColours\":[\"#57606a\"");
  for (int r = 1; r < WEFT_DRAWN_ROLES; r++)
    weft_strbuf_printf(h->out, ",\"%s\"", weft_drawn_role_colour((weft_drawn_role_t)r));
  weft_strbuf_printf(h->out, ",\"%s\",\"%s\"],\"kinds\":[", rest[0], rest[1]);
  for (int k = 0; k < WEFT_DRAWN_KINDS; k++)
    weft_strbuf_printf(h->out, "%s\"%s\"", k > 0 ? "," : "",
                       (kinds >> k & 1) != 0 ? weft_drawn_kind_name((weft_drawn_kind_t)k) : "");
  put(h, "],\"kindColours\":[");
  for (int k = 0; k < WEFT_DRAWN_KINDS; k++)
    weft_strbuf_printf(h->out, "%s\"%s\"", k > 0 ? "," : "", weft_drawn_kind_colour((weft_drawn_kind_t)k));
  put(h, "],\n\"levels\":[\n");
}

static weft_status_t *put_data(html_t *h) {
  int first;
  for (int i = 0; i < h->d->tree.num_all; i++) h->d->tree.all[i]->level = -1;
  put_words(h);
  WEFT_RETURN_IF_ERROR(enqueue(h, NULL, -1, &first));
  for (int i = 0; i < h->num_levels; i++) WEFT_RETURN_IF_ERROR(put_level(h, i));
  put(h, "\n]}\n");
  return NULL;
}

weft_status_t *weft_drawing_html(weft_drawing_t *d, weft_strbuf_t *out) {
  html_t h = {.d = d, .out = out};
  weft_status_t *s = NULL;
  int leaves = 0;
  for (int i = 0; i < d->tree.num_all; i++)
    leaves += d->tree.all[i]->leaf >= 0 && d->tree.all[i]->merged_into == NULL;
  h.has_details = leaves <= MOST_DETAILED;
  for (size_t i = 0; i < sizeof page / sizeof page[0] && s == NULL; i++) {
    if (strcmp(page[i], "@DATA@\n") == 0) {
      s = put_data(&h);
    } else {
      weft_strbuf_puts(out, page[i]);
    }
  }
  weft_free(h.queue);
  weft_free(h.parents);
  return s == NULL && out->failed ? no_memory() : s;
}
