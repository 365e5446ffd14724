/* graph/passes/settings_marks.c - marks on nodes by which workers know what a session says of passes.
 *
 * A worker gets the session's graph in parts. Nodes that its own passes are to leave alone say so, each for
 * itself; nodes that call functions have the settings for the graphs of these, if they are not the defaults.
 */
#include "graph/passes/optimize.h"

#include "graph/passes.h"

#define SETTINGS_ATTR "_weft_graph_options" /* a serialized GraphOptions */

static bool calls_functions(const weft_node_t *n) {
  if (n->function != NULL) return false; /* it will be lowered, or fails */
  for (int i = 0; i < n->num_attrs; i++) {
    if (n->attrs[i].value.kind == WEFT_ATTR_FUNC) return true;
  }
  return false;
}

bool weft_pass_settings_eq(const weft_pass_settings_t *a, const weft_pass_settings_t *b) {
  return a->passes == b->passes && a->min_nodes == b->min_nodes && a->rounds == b->rounds &&
         a->max_folded_bytes == b->max_folded_bytes;
}

static weft_status_t *mark(weft_graph_t *g, weft_node_t *n, const weft_pass_settings_t *s, weft_str_t text) {
  static const weft_attr_t is_set = {.kind = WEFT_ATTR_BOOL, .b = true};
  const bool is_apart = (s->passes & WEFT_PASS_BIT(WEFT_PASS_UPDATES)) == 0,
             is_no_link = (s->passes & WEFT_PASS_BIT(WEFT_PASS_FUSE)) == 0;
  if (n->function == NULL && is_no_link && weft_chain_may_link(n->op))
    WEFT_RETURN_IF_ERROR(weft_graph_set_attr(g, n, WEFT_NO_CHAIN_ATTR, &is_set));
  if (n->function == NULL && is_apart && (n->flags & WEFT_OP_UPDATE) != 0)
    WEFT_RETURN_IF_ERROR(weft_graph_set_attr(g, n, WEFT_APART_ATTR, &is_set));
  if (!calls_functions(n)) return NULL;
  const weft_attr_t settings = {.kind = WEFT_ATTR_STRING, .s = text};
  return weft_graph_set_attr(g, n, SETTINGS_ATTR, &settings);
}

weft_status_t *weft_pass_settings_mark(weft_graph_t *g, const weft_pass_settings_t *s) {
  const weft_pass_settings_t defaults = weft_pass_defaults();
  if (weft_pass_settings_eq(s, &defaults)) return NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_pass_settings_write(s, &text);
  weft_status_t *status =
      text.failed ? WEFT_NO_MEMORY("the passes of a graph of %d nodes", g->num_live) : NULL;
  for (int id = 0; status == NULL && id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL) status = mark(g, g->nodes[id], s, weft_str_of(text.data, text.length));
  }
  weft_strbuf_deinit(&text);
  return status;
}

weft_pass_settings_t weft_pass_settings_of_calls(const weft_graph_t *g) {
  weft_pass_settings_t s = weft_pass_defaults();
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    const char *ignored = NULL;
    if (n == NULL || !calls_functions(n)) continue;
    weft_pass_settings_read(weft_node_attr_string(n, SETTINGS_ATTR), &s, &ignored);
    break; /* of one session, which says the same to all */
  }
  return s;
}
