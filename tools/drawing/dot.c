/* tools/drawing/dot.c - a level in Graphviz's language: Graphviz lays it out. */
#include "tools/drawing/drawing_impl.h"
#include "tools/drawing/svg.h"
#include "tools/drawing/text.h"

/* In a double-quoted string. */
static void put_quotable(weft_strbuf_t *out, weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) {
    if (s.data[i] == '"' || s.data[i] == '\\') weft_strbuf_putc(out, '\\');
    weft_strbuf_putc(out, (unsigned char)s.data[i] < ' ' ? ' ' : s.data[i]);
  }
}

static void put_label(weft_strbuf_t *out, weft_str_t first, weft_str_t second) {
  weft_strbuf_puts(out, "label=\"");
  put_quotable(out, first);
  if (second.length > 0) weft_strbuf_puts(out, "\\n");
  put_quotable(out, second);
  weft_strbuf_puts(out, "\"");
}

static void put_box(weft_strbuf_t *out, const weft_level_t *l, int i, const weft_step_nodes_t *step) {
  const weft_level_box_t *b = &l->boxes[i];
  weft_strbuf_printf(out, "  b%d [", i);
  if (b->scope->leaf >= 0 && b->rest == 0) {
    put_label(out, b->title, step->nodes[b->scope->leaf].node->op->name);
  } else {
    weft_strbuf_puts(out, "label=\"");
    put_quotable(out, b->title);
    weft_strbuf_printf(out, "\\n%d node%s", b->num_nodes, b->num_nodes == 1 ? "" : "s");
    if (b->num_variables > 0)
      weft_strbuf_printf(out, ", %d variable%s", b->num_variables, b->num_variables == 1 ? "" : "s");
    weft_strbuf_puts(out, "\"");
  }
  weft_strbuf_puts(out, ", tooltip=\"");
  put_quotable(out, b->scope->path);
  weft_strbuf_printf(out, "\", fillcolor=\"%s\"];\n", weft_drawn_kind_colour(b->kind));
}

static void put_flow(weft_strbuf_t *out, const weft_flow_t *f, const char *colour) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(out, "[color=\"%s\", fontcolor=\"%s\"", colour, colour);
  if (f->messages > 0) {
    weft_print_flow(&text, f);
    weft_strbuf_printf(out, ", label=\"%s\"", text.data == NULL ? "" : text.data);
  }
  weft_strbuf_puts(out, "];\n");
  out->failed = out->failed || text.failed;
  weft_strbuf_deinit(&text);
}

static void print_level(weft_strbuf_t *out, const weft_level_t *l, const weft_step_nodes_t *step) {
  weft_strbuf_puts(
      out,
      "digraph weft {\n  rankdir=TB; fontname=\"sans-serif\";\n  node [shape=box, style=\"rounded,filled\", "
      "fontname=\"sans-serif\", fontsize=11];\n  edge [fontname=\"sans-serif\", fontsize=10];\n");
  for (int f = 0; f < l->num_frames; f++) {
    const weft_level_frame_t *frame = &l->frames[f];
    weft_strbuf_printf(
        out, "subgraph cluster_%d { style=\"rounded,filled\"; fillcolor=\"#f6f8fa\"; color=\"#d0d7de\"; ", f);
    put_label(out, frame->title, frame->subtitle);
    weft_strbuf_printf(out, ";\n  f%d [shape=point, style=invis];\n", f);
    for (int i = frame->first; i < frame->first + frame->num_boxes; i++) put_box(out, l, i, step);
    weft_strbuf_puts(out, "}\n");
  }
  for (int i = 0; i < l->num_arrows; i++) {
    const weft_level_arrow_t *a = &l->arrows[i];
    if (a->num_points == 0) continue;
    weft_strbuf_printf(out, "b%d -> b%d ", a->from, a->to);
    put_flow(out, &a->flow, a->role < WEFT_DRAWN_ROLES ? weft_drawn_role_colour(a->role) : "#57606a");
  }
  for (int i = 0; i < l->num_links; i++) {
    const weft_level_link_t *a = &l->links[i];
    weft_strbuf_printf(out, "f%d -> f%d ", a->from, a->to);
    put_flow(out, &a->flow, a->num_collectives > 0 ? "#7d4cc2" : "#b3261e");
  }
  weft_strbuf_puts(out, "}\n");
}

weft_status_t *weft_drawing_dot(weft_drawing_t *d, const char *scope, weft_strbuf_t *out) {
  weft_level_t l;
  weft_status_t *s = weft_drawing_level(d, scope, &l);
  if (s == NULL) print_level(out, &l, &d->step);
  weft_level_deinit(&l);
  return s == NULL && out->failed ? WEFT_NO_MEMORY("a drawing") : s;
}
