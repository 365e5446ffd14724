/* tools/drawing/svg.c - boxes and arrows to SVG. */
#include "tools/drawing/svg.h"

#include <inttypes.h>

#include "tools/drawing/text.h"

static const char STYLE[] =
    "<style>text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:11px;fill:#24292f}"
    ".h{font-size:16px;font-weight:bold}.t{font-size:12px;font-weight:bold}.f{font-size:13px;font-weight:"
    "bold}"
    ".q{fill:#57606a}.l{paint-order:stroke;stroke:#fff;stroke-width:4px}.a{fill:none;stroke-width:1.4}</"
    "style>\n";

const char *weft_drawn_role_colour(weft_drawn_role_t role) {
  static const char *const colours[WEFT_DRAWN_ROLES] = {"#3b6fb6", "#c2571a", "#2d8659", "#7d4cc2"};
  return colours[role];
}

const char *weft_drawn_kind_colour(weft_drawn_kind_t kind) {
  static const char *const colours[WEFT_DRAWN_KINDS] = {
      [WEFT_DRAWN_USER] = "#ffffff",       [WEFT_DRAWN_SPLIT] = "#dff3f6", [WEFT_DRAWN_WEIGHTS] = "#fbe3ec",
      [WEFT_DRAWN_COLLECTIVE] = "#e8dcfa", [WEFT_DRAWN_SUM] = "#e3e7fb",   [WEFT_DRAWN_KEPT] = "#fff0c9",
      [WEFT_DRAWN_TRANSFER] = "#d9e8fb",   [WEFT_DRAWN_OTHER] = "#e9ecef"};
  return colours[kind];
}

static void put_text(weft_strbuf_t *out, int x, int y, const char *style, const char *anchor,
                     weft_str_t text) {
  if (text.length == 0) return;
  weft_strbuf_printf(out, "<text x=\"%d\" y=\"%d\"%s%s>", x, y, style, anchor);
  weft_text_put_xml(out, text);
  weft_strbuf_puts(out, "</text>");
}

static void put_flow(weft_strbuf_t *out, const weft_flow_t *f) {
  weft_strbuf_printf(out,
                     " data-bytes=\"%" PRId64 "\" data-row-bytes=\"%.10g\" data-messages=\"%" PRId64
                     "\" data-unknown=\"%d\"",
                     f->bytes, f->row_bytes, f->messages, f->num_unknown);
}

static void put_path(weft_strbuf_t *out, const weft_tree_scope_t *s) {
  weft_str_t path = s->path;
  if (path.length > 0 && path.data[0] == WEFT_DRAWN_GROUP) path = weft_str_of(path.data + 1, path.length - 1);
  weft_text_put_xml(out, path);
}

/* ---- boxes ---- */

static void put_counts(weft_strbuf_t *out, const weft_level_box_t *b) {
  weft_strbuf_t number = WEFT_STRBUF_INIT;
  double x = b->x + 8;
  const int y = b->y + b->height - 10;
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++) {
    if (b->by_role[r] == 0) continue;
    weft_strbuf_printf(&number, "%d", b->by_role[r]);
    const weft_str_t text = weft_str_of(number.data == NULL ? "" : number.data, number.length);
    weft_strbuf_printf(out, "<rect x=\"%.0f\" y=\"%d\" width=\"9\" height=\"9\" rx=\"2\" fill=\"%s\"/>", x,
                       y - 8, weft_drawn_role_colour((weft_drawn_role_t)r));
    put_text(out, (int)x + 13, y, "", "", text);
    x += 13 + weft_text_width(text, WEFT_TEXT, false) + 6;
    number.length = 0;
  }
  out->failed = out->failed || number.failed;
  weft_strbuf_deinit(&number);
}

static void put_box(weft_strbuf_t *out, const weft_level_box_t *b, const weft_step_nodes_t *step) {
  const bool is_leaf = b->scope->leaf >= 0 && b->rest == 0;
  const bool is_input = weft_str_is(b->scope->path, WEFT_DRAWN_INPUTS);
  weft_strbuf_printf(out,
                     "<g class=\"box\" data-nodes=\"%d\" data-variables=\"%d\" data-variable-bytes=\"%" PRId64
                     "\" data-path=\"",
                     b->num_nodes, b->num_variables, b->variable_bytes);
  put_path(out, b->scope);
  weft_strbuf_puts(out, "\"><title>");
  put_path(out, b->scope);
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++) {
    if (b->by_role[r] > 0)
      weft_strbuf_printf(out, "\n%d %s", b->by_role[r], weft_drawn_role_name((weft_drawn_role_t)r));
  }
  if (is_leaf) {
    weft_strbuf_puts(out, "\n");
    weft_text_put_xml(out, step->nodes[b->scope->leaf].node->op->name);
  }
  const char *edge = b->kind != WEFT_DRAWN_USER ? "#8a63c9" : b->num_variables > 0 ? "#57606a" : "#afb8c1";
  weft_strbuf_printf(
      out, "</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\" stroke=\"%s\"/>",
      b->x, b->y, b->width, b->height, is_input ? b->height / 2 : 5, weft_drawn_kind_colour(b->kind), edge);
  if (b->scope->members > 1) { /* a stack of boxes */
    weft_strbuf_printf(out, "<path d=\"M%d %dv-4h%dv%dh-4\" fill=\"none\" stroke=\"%s\"/>", b->x + 4, b->y,
                       b->width, b->height, edge);
  }
  put_text(out, b->x + 8, b->y + 17, " class=\"t\"", "", b->title);
  if (is_leaf) {
    put_text(out, b->x + 8, b->y + b->height - 10, " class=\"q\"", "", b->left);
  } else {
    put_counts(out, b);
  }
  put_text(out, b->x + b->width - 8, b->y + b->height - 10, "", " text-anchor=\"end\"", b->right);
  weft_strbuf_puts(out, "</g>\n");
}

/* ---- arrows ---- */

static const char *colour_of(const weft_level_arrow_t *a) {
  if (a->role == WEFT_DRAWN_GRADIENT) return "#c2571a";
  if (a->role == WEFT_DRAWN_UPDATE) return "#2d8659";
  return a->role == WEFT_DRAWN_ADDED ? "#7d4cc2" : "#57606a";
}

/* The head of an arrow that ends at (x, y), coming from (from_x, from_y) along an axis. */
static void put_head(weft_strbuf_t *out, int from_x, int from_y, int x, int y, const char *colour) {
  const int dx = x > from_x ? 1 : x < from_x ? -1 : 0, dy = y > from_y ? 1 : y < from_y ? -1 : 0;
  enum { LONG = 7, HALF = 4 };
  weft_strbuf_printf(out, "<path d=\"M%d %dL%d %dL%d %dZ\" fill=\"%s\"/>", x, y, x - LONG * dx - HALF * dy,
                     y - LONG * dy - HALF * dx, x - LONG * dx + HALF * dy, y - LONG * dy + HALF * dx, colour);
}

static void put_arrow(weft_strbuf_t *out, const weft_level_t *l, const weft_level_arrow_t *a) {
  const char *colour = colour_of(a);
  const int *p = a->points, n = a->num_points;
  weft_strbuf_puts(out, "<g class=\"arrow\" data-from=\"");
  put_path(out, l->boxes[a->from].scope);
  weft_strbuf_puts(out, "\" data-to=\"");
  put_path(out, l->boxes[a->to].scope);
  weft_strbuf_puts(out, "\"");
  put_flow(out, &a->flow);
  weft_strbuf_puts(out, "><title>");
  if (a->of != NULL) {
    weft_text_put_xml(out, a->of->name);
    weft_strbuf_printf(out, ": %s", weft_dtype_name(weft_dtype_base(a->of->output_types[a->output])));
    weft_strbuf_putc(out, ' ');
    if (a->of->output_shapes != NULL)
      weft_text_put_xml(out, weft_str(WEFT_SHAPE_TEXT(&a->of->output_shapes[a->output])));
  }
  const int last_x = p[2 * n - 2], last_y = p[2 * n - 1];
  weft_strbuf_printf(out, "</title><path class=\"a\" stroke=\"%s\" d=\"M%d %d", colour, p[0], p[1]);
  if (a->is_curve) {
    weft_strbuf_printf(out, "C%d %d %d %d %d %d", p[2], p[3], p[4], p[5], p[6], p[7]);
  } else {
    for (int i = 1; i < n; i++) weft_strbuf_printf(out, "L%d %d", p[2 * i], p[2 * i + 1]);
  }
  weft_strbuf_puts(out, a->is_curve ? "\" opacity=\".45\"/>" : "\"/>");
  put_head(out, p[2 * n - 4], p[2 * n - 3], last_x, last_y, colour);
  put_text(out, a->label_x, a->label_y, " class=\"q\"", a->label_anchor < 0 ? " text-anchor=\"end\"" : "",
           a->label);
  weft_strbuf_puts(out, "</g>\n");
}

static void put_link(weft_strbuf_t *out, const weft_level_t *l, const weft_level_link_t *a) {
  const weft_level_frame_t *from = &l->frames[a->from], *to = &l->frames[a->to];
  const char *colour = l->scope != NULL ? "#57606a" : a->num_collectives > 0 ? "#7d4cc2" : "#b3261e";
  weft_strbuf_puts(out, "<g class=\"link\" data-from=\"");
  weft_text_put_xml(out, l->scope == NULL ? from->root->name : from->title);
  weft_strbuf_puts(out, "\" data-to=\"");
  weft_text_put_xml(out, l->scope == NULL ? to->root->name : to->title);
  weft_strbuf_puts(out, "\"");
  put_flow(out, &a->flow);
  weft_strbuf_printf(out, " data-seconds=\"%.6g\"><path class=\"a\" stroke=\"%s\" d=\"M%d %dV%dH%dV%d\"/>",
                     a->seconds, colour, a->x1, from->y, a->y, a->x2, to->y);
  put_head(out, a->x2, a->y, a->x2, to->y, colour);
  weft_strbuf_puts(out, "</g>\n");
}

/* ---- frames ---- */

static void put_frame(weft_strbuf_t *out, const weft_level_frame_t *f) {
  weft_strbuf_printf(out, "<g class=\"frame\" data-name=\"");
  weft_text_put_xml(out, f->role == WEFT_DRAWN_ROLES ? f->root->name : f->title);
  weft_strbuf_printf(
      out,
      "\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#f6f8fa\" stroke=\"#d0d7de\"/>",
      f->x, f->y, f->width, f->height);
  put_text(out, f->x + 10, f->y + 19, " class=\"f\"", "", f->title);
  put_text(out, f->x + 10, f->y + 35, " class=\"q\"", "", f->subtitle);
  weft_strbuf_puts(out, "</g>\n");
}

static void put_group(weft_strbuf_t *out, const weft_level_group_t *g) {
  for (int i = 0; i < g->num_parts; i++) {
    weft_strbuf_printf(out,
                       "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#eaeef2\" "
                       "stroke=\"#8c959f\" stroke-dasharray=\"4 3\"/>",
                       g->parts[i].x, g->parts[i].y, g->parts[i].width, g->parts[i].height);
    put_text(out, g->parts[i].x + 9, g->parts[i].y + 14, " font-weight=\"bold\"", "", g->title);
  }
}

/* ---- the page ---- */

static double put_sample(weft_strbuf_t *out, double x, int y, const char *colour, const char *edge,
                         const char *what) {
  weft_strbuf_printf(
      out, "<rect x=\"%.0f\" y=\"%d\" width=\"9\" height=\"9\" rx=\"2\" fill=\"%s\" stroke=\"%s\"/>", x,
      y - 9, colour, edge);
  put_text(out, (int)x + 14, y, " class=\"q\"", "", weft_str(what));
  return x + 14 + weft_text_width(weft_str(what), WEFT_TEXT, false) + 14;
}

static void put_legend(weft_strbuf_t *out, const weft_level_t *l) {
  double x = WEFT_MARGIN;
  const int y = l->height - WEFT_MARGIN;
  bool has_role[WEFT_DRAWN_ROLES] = {false}, has_kind[WEFT_DRAWN_KINDS] = {false};
  for (int i = 0; i < l->num_boxes; i++) {
    for (int r = 0; r < WEFT_DRAWN_ROLES; r++) has_role[r] = has_role[r] || l->boxes[i].by_role[r] > 0;
    has_kind[l->boxes[i].kind] = true;
  }
  weft_strbuf_puts(out, "<g class=\"legend\">");
  for (int r = 0; r < WEFT_DRAWN_ROLES; r++) {
    static const char *const names[] = {"forward nodes", "gradient nodes", "update nodes", "added nodes"};
    if (has_role[r])
      x = put_sample(out, x, y, weft_drawn_role_colour((weft_drawn_role_t)r), "none", names[r]);
  }
  for (int k = 1; k < WEFT_DRAWN_KINDS; k++) {
    const char *what = weft_drawn_kind_name((weft_drawn_kind_t)k);
    if (!has_kind[k] || x + 30 + weft_text_width(weft_str(what), WEFT_TEXT, false) > l->width) continue;
    x = put_sample(out, x, y, weft_drawn_kind_colour((weft_drawn_kind_t)k), "#8a63c9", what);
  }
  weft_strbuf_puts(out, "</g>\n");
}

static void put_title(weft_strbuf_t *out, const weft_level_t *l, weft_str_t title, weft_str_t subtitle) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  const double room = l->width - 2 * WEFT_MARGIN;
  weft_str_t first = weft_text_fit_middle(&arena, title, 16, true, room),
             second = weft_text_fit(&arena, subtitle, WEFT_TEXT, false, room);
  if (first.data == NULL || second.data == NULL) out->failed = true;
  put_text(out, WEFT_MARGIN, 34, " class=\"h\"", "", first);
  put_text(out, WEFT_MARGIN, 54, " class=\"q\"", "", second);
  weft_strbuf_putc(out, '\n');
  weft_arena_deinit(&arena);
}

void weft_svg_print(const weft_level_t *l, const weft_step_nodes_t *step, weft_str_t title,
                    weft_str_t subtitle, weft_strbuf_t *out) {
  weft_strbuf_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
                     "%d\" role=\"img\">\n<title>",
                     l->width, l->height, l->width, l->height);
  weft_text_put_xml(out, title);
  weft_strbuf_puts(out, "</title>\n");
  weft_strbuf_puts(out, STYLE);
  weft_strbuf_printf(
      out,
      "<rect x=\".5\" y=\".5\" width=\"%d\" height=\"%d\" rx=\"10\" fill=\"#ffffff\" stroke=\"#d0d7de\"/>\n",
      l->width - 1, l->height - 1);
  put_title(out, l, title, subtitle);
  for (int i = 0; i < l->num_frames; i++) put_frame(out, &l->frames[i]);
  for (int i = 0; i < l->num_groups; i++) put_group(out, &l->groups[i]);
  for (int pass = 0; pass < 2; pass++) { /* curves go behind */
    for (int i = 0; i < l->num_arrows; i++) {
      if (l->arrows[i].num_points > 0 && l->arrows[i].is_curve == (pass == 0))
        put_arrow(out, l, &l->arrows[i]);
    }
  }
  for (int i = 0; i < l->num_boxes; i++) put_box(out, &l->boxes[i], step);
  for (int i = 0; i < l->num_links; i++) put_link(out, l, &l->links[i]);
  for (int i = 0; i < l->num_links; i++) { /* over lines that cross them */
    const weft_level_link_t *a = &l->links[i];
    put_text(out, (a->x1 + a->x2) / 2, a->y - 4, " class=\"l\"", " text-anchor=\"middle\"", a->label);
  }
  put_legend(out, l);
  weft_strbuf_puts(out, "</svg>\n");
}
