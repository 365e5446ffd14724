/* tools/drawing/drawing.c - from a rewrite to a level, and to an SVG. */
#include "tools/drawing/drawing.h"

#include "base/alloc.h"
#include "strategies/summary.h"
#include "tools/drawing/drawing_impl.h"
#include "tools/drawing/svg.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a drawing"); }

static weft_status_t *describe(weft_drawing_t *d, const char *what, bool takes_all) {
  const weft_rewrite_t *r = d->r;
  int variables = 0;
  for (int i = 0; i < d->step.num_nodes; i++)
    variables += (d->step.nodes[i].node->flags & WEFT_OP_VARIABLE) != 0;
  weft_strbuf_printf(&d->title, "%s", what);
  weft_strbuf_printf(&d->subtitle, "%s %d node%s, %d variable%s",
                     takes_all ? "the whole file:" : "a step runs", d->step.num_nodes,
                     d->step.num_nodes == 1 ? "" : "s", variables, variables == 1 ? "" : "s");
  if (r->num_crossings > 0) {
    weft_flow_t all = {r->cost.bytes, r->cost.row_bytes, r->cost.messages, r->cost.num_unknown};
    weft_strbuf_puts(&d->subtitle, " \xc2\xb7 sent ");
    weft_print_flow(&d->subtitle, &all);
    weft_strbuf_printf(
        &d->subtitle, " in %lld messages between %s \xc2\xb7 predicted %.3g ms of communication",
        (long long)r->cost.messages, d->step.is_by_task ? "tasks" : "devices", r->cost.seconds * 1e3);
  }
  return d->title.failed || d->subtitle.failed ? no_memory() : NULL;
}

weft_status_t *weft_drawing_create(const weft_rewrite_t *r, const char *what, bool takes_all,
                                   weft_drawing_t **out) {
  weft_drawing_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return no_memory();
  d->r = r;
  weft_status_t *s = weft_step_nodes_find(r, takes_all, &d->step);
  if (s == NULL) s = weft_tree_build(&d->step, true, &d->tree);
  if (s == NULL) s = describe(d, what, takes_all);
  if (s != NULL) {
    weft_drawing_destroy(d);
    return s;
  }
  *out = d;
  return NULL;
}

void weft_drawing_destroy(weft_drawing_t *d) {
  if (d == NULL) return;
  weft_tree_deinit(&d->tree);
  weft_step_nodes_deinit(&d->step);
  weft_strbuf_deinit(&d->title);
  weft_strbuf_deinit(&d->subtitle);
  weft_free(d);
}

weft_status_t *weft_drawing_level(weft_drawing_t *d, const char *scope, weft_level_t *out) {
  weft_tree_scope_t *at = scope == NULL ? NULL : weft_tree_find(&d->tree, weft_str(scope));
  weft_status_t *s = NULL;
  *out = (weft_level_t){.arena = WEFT_ARENA_INIT};
  if (scope != NULL && (at == NULL || at->leaf >= 0))
    return WEFT_ERROR(NOT_FOUND, "--scope %s: %s", scope,
                      at == NULL ? "no node that a step runs is in it" : "it is a node");
  s = at == NULL ? weft_level_of_step(&d->tree, d->r, out) : weft_level_of_scope(&d->tree, at, out);
  return s != NULL ? s : weft_level_lay_out(out, &d->step);
}

weft_status_t *weft_drawing_svg(weft_drawing_t *d, const char *scope, weft_strbuf_t *out) {
  weft_level_t l;
  weft_strbuf_t title = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_drawing_level(d, scope, &l);
  if (s == NULL) {
    if (scope != NULL) weft_strbuf_printf(&title, "%s in ", scope);
    weft_strbuf_append(&title, weft_str_of(d->title.data, d->title.length));
    weft_svg_print(&l, &d->step, weft_str_of(title.data == NULL ? "" : title.data, title.length),
                   weft_str_of(d->subtitle.data, d->subtitle.length), out);
    if (title.failed || out->failed) s = no_memory();
  }
  weft_strbuf_deinit(&title);
  weft_level_deinit(&l);
  return s;
}
