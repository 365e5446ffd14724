/* tools/drawing/layout_labels.c - what stands in boxes, on arrows and over frames, cut to the room that there
 * is. */
#include "tools/drawing/layout.h"
#include "tools/drawing/text.h"

enum { INSET = 8, LABEL_GAP = 5, LONG_GAP = 32 };

static weft_str_t view(const weft_strbuf_t *b) {
  return weft_str_of(b->data == NULL ? "" : b->data, b->length);
}

/* Cuts what a builder holds, empties it, and keeps the text. */
static bool keep(weft_level_t *l, weft_strbuf_t *text, int size, bool is_bold, double width,
                 weft_str_t *out) {
  *out = weft_text_fit(&l->arena, view(text), size, is_bold, width);
  const bool ok = !text->failed && out->data != NULL;
  text->length = 0;
  return ok;
}

static void put_names(weft_strbuf_t *out, const weft_tree_scope_t *s) {
  weft_strbuf_append(out, s->name);
  if (weft_str_eq(s->last, s->name)) return;
  weft_strbuf_puts(out, " \xe2\x80\xa6 ");
  weft_strbuf_append(out, s->last);
}

static void put_name(weft_strbuf_t *out, const weft_tree_scope_t *s) {
  put_names(out, s);
  if (s->members > 1) weft_strbuf_printf(out, "  \xc3\x97%d", s->members);
}

static void put_place(weft_strbuf_t *out, const weft_tree_scope_t *s, bool is_only) {
  if (is_only && weft_str_is(s->name, "any device")) {
    weft_strbuf_puts(out, "one device");
    return;
  }
  weft_print_place(out, s->name);
  if (s->members == 1) return;
  weft_strbuf_puts(out, " \xe2\x80\xa6 ");
  weft_print_place(out, s->last);
  weft_strbuf_printf(out, "  \xc3\x97%d", s->members);
}

static void put_count(weft_strbuf_t *out, int n, const char *what) {
  weft_strbuf_printf(out, "%s%d %s%s", out->length > 0 ? " \xc2\xb7 " : "", n, what, n == 1 ? "" : "s");
}

static void put_shape(weft_strbuf_t *out, const weft_node_t *n, int output) {
  if (output < 0 || output >= n->num_outputs) return;
  weft_strbuf_puts(out, weft_dtype_name(weft_dtype_base(n->output_types[output])));
  if (n->output_shapes != NULL) weft_strbuf_printf(out, " %s", WEFT_SHAPE_TEXT(&n->output_shapes[output]));
}

/* ---- boxes ---- */

static bool label_leaf(weft_level_t *l, weft_level_box_t *b, const weft_step_nodes_t *step,
                       weft_strbuf_t *text) {
  const weft_node_t *n = step->nodes[b->scope->leaf].node;
  const double room = b->width - 2 * INSET;
  weft_strbuf_append(text, n->op->name);
  bool ok = keep(l, text, WEFT_TEXT, false, room, &b->left);
  if (b->num_variables > 0 && b->variable_bytes > 0) {
    weft_print_bytes(text, b->variable_bytes);
  } else {
    put_shape(text, n, 0);
  }
  const double used = weft_text_width(b->left, WEFT_TEXT, false) + INSET;
  return ok && keep(l, text, WEFT_TEXT, false, room - used, &b->right);
}

/* On the right the bytes of variables; the counts on the left are drawn from the box. */
static bool label_scope(weft_level_t *l, weft_level_box_t *b, weft_strbuf_t *text) {
  enum { MARK = 14, BETWEEN = 6 };
  double used = 0;
  b->left = WEFT_STR("");
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++) {
    if (b->by_role[r] == 0) continue;
    weft_strbuf_printf(text, "%d", b->by_role[r]);
    used += weft_text_width(view(text), WEFT_TEXT, false) + MARK + BETWEEN;
    text->length = 0;
  }
  if (b->num_variables > 0) weft_print_bytes(text, b->variable_bytes);
  return keep(l, text, WEFT_TEXT, false, b->width - 2 * INSET - used, &b->right);
}

static bool label_box(weft_level_t *l, weft_level_box_t *b, const weft_step_nodes_t *step,
                      weft_strbuf_t *text) {
  put_name(text, b->scope);
  if (b->rest > 0) {
    weft_strbuf_puts(text, b->rest == 1 ? ", " : " \xe2\x80\xa6 ");
    put_name(text, b->last);
  }
  b->title = weft_text_fit_middle(&l->arena, view(text), WEFT_TEXT + 1, true, b->width - 2 * INSET);
  text->length = 0;
  if (b->title.data == NULL) return false;
  return b->scope->leaf >= 0 && b->rest == 0 ? label_leaf(l, b, step, text) : label_scope(l, b, text);
}

/* ---- frames, arrows, links ---- */

static bool label_frame(weft_level_t *l, weft_level_frame_t *f, weft_strbuf_t *text) {
  int nodes = 0, variables = 0;
  int64_t bytes = 0;
  for (int i = f->first; i < f->first + f->num_boxes; i++) {
    nodes += l->boxes[i].num_nodes;
    variables += l->boxes[i].num_variables;
    bytes += l->boxes[i].variable_bytes;
  }
  if (f->role != WEFT_DRAWN_ROLES) {
    weft_strbuf_puts(text, weft_drawn_role_name(f->role));
  } else {
    put_place(text, f->root, l->num_frames == 1);
  }
  bool ok = keep(l, text, WEFT_TEXT + 2, true, f->width - 2 * INSET, &f->title);
  if (f->among.messages > 0) {
    weft_print_flow(text, &f->among);
    weft_strbuf_puts(text, " among them");
  }
  if (variables > 0) put_count(text, variables, "variable");
  if (bytes > 0) weft_strbuf_puts(text, ", ");
  if (bytes > 0) weft_print_bytes(text, bytes);
  put_count(text, nodes, "node");
  return ok && keep(l, text, WEFT_TEXT, false, f->width - 2 * INSET, &f->subtitle);
}

/* "3.2 kB/row": what fits where "3.24 kB a row" does not. */
static void put_short_flow(weft_strbuf_t *out, const weft_flow_t *f) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  const bool is_row = f->row_bytes > (double)f->bytes;
  double value = is_row ? f->row_bytes : (double)f->bytes;
  int unit = 0;
  for (; value >= 999.5 && unit < 4; unit++) value /= 1000;
  weft_strbuf_printf(out, value < 9.95 && unit > 0 ? "%.1f %s%s" : "%.0f %s%s", value, units[unit],
                     is_row ? "/row" : "");
}

static bool label_arrow(weft_level_t *l, weft_level_arrow_t *a, weft_strbuf_t *text) {
  a->label = WEFT_STR("");
  if (a->num_points != 2 || a->flow.messages == 0) return true;
  const weft_level_box_t *from = &l->boxes[a->from];
  const int x = a->points[0];
  const bool is_left = x < from->x + from->width / 2;
  const int room = (is_left ? x - from->x : from->x + from->width - x) - LABEL_GAP;
  weft_print_flow(text, &a->flow);
  if (weft_text_width(view(text), WEFT_TEXT, false) > room) {
    text->length = 0;
    put_short_flow(text, &a->flow);
    if (weft_text_width(view(text), WEFT_TEXT, false) > room) text->length = 0;
  }
  a->label_x = is_left ? x - LABEL_GAP : x + LABEL_GAP;
  const int y1 = a->points[1], y2 = a->points[3], upper = y1 < y2 ? y1 : y2,
            high = y1 < y2 ? y2 - y1 : y1 - y2;
  a->label_y = upper + (high > LONG_GAP ? LONG_GAP : high) / 2 + 4; /* above the title of a group */
  a->label_anchor = is_left ? -1 : 1;
  return keep(l, text, WEFT_TEXT, false, room, &a->label);
}

static bool label_link(weft_level_t *l, weft_level_link_t *a, weft_strbuf_t *text) {
  const int room = (a->x1 < a->x2 ? a->x2 - a->x1 : a->x1 - a->x2) - 2 * INSET;
  weft_print_flow(text, &a->flow);
  if (l->scope == NULL)
    weft_strbuf_printf(text, " in %lld message%s", (long long)a->flow.messages,
                       a->flow.messages == 1 ? "" : "s");
  if (a->seconds > 0) weft_strbuf_printf(text, ", %.3g ms", a->seconds * 1e3);
  return keep(l, text, WEFT_TEXT, false, room, &a->label);
}

bool weft_layout_label(weft_level_t *l, const weft_step_nodes_t *step) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  bool ok = true;
  for (int i = 0; i < l->num_boxes && ok; i++) ok = label_box(l, &l->boxes[i], step, &text);
  for (int i = 0; i < l->num_frames && ok; i++) ok = label_frame(l, &l->frames[i], &text);
  for (int i = 0; i < l->num_arrows && ok; i++) ok = label_arrow(l, &l->arrows[i], &text);
  for (int i = 0; i < l->num_links && ok; i++) ok = label_link(l, &l->links[i], &text);
  for (int i = 0; i < l->num_groups && ok; i++) {
    weft_level_group_t *g = &l->groups[i];
    weft_strbuf_printf(&text, "\xc3\x97%d  ", g->scope->members); /* first: names are cut */
    put_names(&text, g->scope);
    ok = keep(l, &text, WEFT_TEXT, true, g->num_parts > 0 ? g->parts[0].width - 2 * INSET : 0, &g->title);
  }
  weft_strbuf_deinit(&text);
  return ok;
}
