/* strategies/prepare.c - the graph prepared for rewrites: pruned, without functional control flow, with
 * shapes. */
#include "strategies/prepare.h"

#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/batch_norm.h"
#include "strategies/emit.h"
#include "strategies/gradient_shapes.h"
#include "strategies/lower.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("preparing a graph for a strategy"); }

weft_status_t *weft_find_named(const weft_graph_t *g, weft_str_t name, const char *what, weft_node_t **out,
                               int *out_index) {
  weft_str_t node = name;
  int index = 0;
  if (!weft_tensor_name_parse(name, &node, &index)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s' is no name for a %s", WEFT_STR_ARGS(name), what);
  }
  weft_node_t *n = weft_graph_find(g, node);
  if (n == NULL)
    return WEFT_ERROR(NOT_FOUND, "the graph has no node '%.*s' to be a %s", WEFT_STR_ARGS(node), what);
  if (index >= n->num_outputs && (index > 0 || weft_str_find(name, ':') >= 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "node '%.*s' has no output %d to be a %s", WEFT_STR_ARGS(node), index,
                      what);
  }
  *out = n;
  *out_index = index;
  return NULL;
}

bool weft_node_is_placeholder(const weft_node_t *n) {
  return (n->flags & (WEFT_OP_PLACEHOLDER | WEFT_OP_DEFAULT)) != 0;
}

weft_status_t *weft_copy_names(weft_arena_t *arena, weft_names_t names, weft_names_t *out) {
  weft_str_t *items = weft_arena_calloc(arena, (size_t)names.n + 1, sizeof *items);
  if (items == NULL) return no_memory();
  for (int i = 0; i < names.n; i++) {
    items[i] = weft_arena_str(arena, names.items[i]);
    if (items[i].data == NULL) return no_memory();
  }
  *out = (weft_names_t){items, names.n};
  return NULL;
}

/* Puts a placeholder with n's name in n's place; n stays under another name until it is pruned. */
static weft_status_t *replace_by_placeholder(weft_graph_t *g, weft_node_t *n) {
  weft_str_t name = n->name;
  weft_shape_t shape = n->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : n->output_shapes[0];
  weft_named_attr_t attrs[2] = {weft_type_attr("dtype", weft_dtype_base(n->output_types[0])),
                                weft_shape_attr("shape", &shape)};
  weft_node_spec_t spec = {
      .op = WEFT_STR("Placeholder"), .device = n->requested_device, .attrs = attrs, .num_attrs = 2};
  weft_node_t *feed = NULL;
  weft_str_t other = weft_graph_unique_name(g, WEFT_STR("replaced"));
  if (other.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_graph_rename(g, n, other));
  spec.name = name;
  WEFT_RETURN_IF_ERROR(weft_graph_add(g, &spec, &feed));
  for (int id = 0; id < g->num_nodes; id++) {
    weft_node_t *user = g->nodes[id];
    for (int i = 0; user != NULL && i < user->num_inputs; i++) {
      if (user->inputs[i].node == n) weft_graph_set_input(user, i, (weft_output_t){feed, 0});
    }
  }
  return NULL;
}

static weft_status_t *prepare_feeds(const weft_strategy_request_t *r, weft_graph_t *g) {
  bool has_shapes = false;
  for (int i = 0; i < r->feeds.n; i++) {
    weft_node_t *n = NULL;
    int index = 0;
    WEFT_RETURN_IF_ERROR(weft_find_named(g, r->feeds.items[i], "feed", &n, &index));
    if (n->num_outputs == 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "node '%.*s' has no output that could be fed",
                        WEFT_STR_ARGS(n->name));
    if (weft_node_is_placeholder(n)) continue;
    if (n->num_outputs > 1 || weft_dtype_is_ref(n->output_types[0])) {
      return WEFT_ERROR(INVALID_ARGUMENT, "node '%.*s' (%.*s) cannot be fed under a strategy: it has %s",
                        WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name),
                        n->num_outputs > 1 ? "several outputs" : "a reference");
    }
    if (!has_shapes) WEFT_RETURN_IF_ERROR(weft_pass_infer_shapes(g));
    has_shapes = true;
    WEFT_RETURN_IF_ERROR(replace_by_placeholder(g, n));
  }
  return NULL;
}

typedef struct roots {
  const weft_graph_t *g;
  weft_prepared_graph_t *out;
} roots_t;

static weft_status_t *add_roots(roots_t *k, weft_names_t names, const char *what, bool is_fetch,
                                bool is_init) {
  for (int i = 0; i < names.n; i++) {
    weft_node_t *n = NULL;
    int index = 0;
    WEFT_RETURN_IF_ERROR(weft_find_named(k->g, names.items[i], what, &n, &index));
    if (is_fetch && n->num_outputs == 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "node '%.*s' has no output to be fetched", WEFT_STR_ARGS(n->name));
    }
    weft_root_t *root = NULL;
    for (int j = 0; j < k->out->num_roots && root == NULL; j++) {
      if (k->out->roots[j].node == n) root = &k->out->roots[j];
    }
    if (root == NULL) {
      root = &k->out->roots[k->out->num_roots++];
      *root = (weft_root_t){.node = n, .is_init = is_init};
    }
    root->is_init = root->is_init && is_init;
    if (is_fetch) root->fetched |= (uint64_t)1 << (index < 63 ? index : 63);
  }
  return NULL;
}

static weft_status_t *resolve(const weft_strategy_request_t *r, weft_graph_t *g, weft_prepared_graph_t *out) {
  roots_t k = {g, out};
  out->num_roots = 0;
  WEFT_RETURN_IF_ERROR(add_roots(&k, r->fetches, "fetch", true, false));
  WEFT_RETURN_IF_ERROR(add_roots(&k, r->targets, "target", false, false));
  WEFT_RETURN_IF_ERROR(add_roots(&k, r->inits, "initial target", false, true));
  for (int i = 0; i < r->feeds.n; i++) {
    int index = 0;
    WEFT_RETURN_IF_ERROR(weft_find_named(g, r->feeds.items[i], "feed", &out->feeds[i], &index));
  }
  out->num_feeds = r->feeds.n;
  return NULL;
}

static weft_status_t *prune(weft_prepared_graph_t *p, weft_graph_t *g) {
  int n = 0;
  weft_node_t **keep = weft_calloc((size_t)p->num_roots + (size_t)p->num_feeds + 1, sizeof(*keep));
  if (keep == NULL) return no_memory();
  for (int i = 0; i < p->num_roots; i++) keep[n++] = p->roots[i].node;
  for (int i = 0; i < p->num_feeds; i++) keep[n++] = p->feeds[i];
  weft_status_t *s = weft_pass_prune(g, keep, n);
  weft_free(keep);
  return s;
}

static weft_status_t *expand(const weft_strategy_request_t *r, weft_graph_t *g, weft_prepared_graph_t *out) {
  WEFT_RETURN_IF_ERROR(weft_expand_batch_norms(g, &out->num_expanded));
  if (out->num_expanded == 0) return NULL;
  WEFT_RETURN_IF_ERROR(resolve(r, g, out));
  WEFT_RETURN_IF_ERROR(prune(out, g));
  WEFT_RETURN_IF_ERROR(weft_pass_infer_shapes(g));
  return weft_pass_infer_loop_shapes(g);
}

/* One edge goes around `n`: to what n passes on there, or, of a control edge, to all of it. n's control
 * inputs are kept. */
static weft_status_t *go_around(weft_graph_t *g, const weft_node_t *n, const weft_fanout_edge_t *edge) {
  weft_node_t *to = edge->to;
  if (edge->input >= 0) weft_graph_set_input(to, edge->input, n->inputs[edge->output]);
  int control = -1;
  if (edge->input < 0) WEFT_RETURN_IF_ERROR(weft_graph_find_control(g, to, n, &control));
  if (control >= 0) WEFT_RETURN_IF_ERROR(weft_graph_replace_control(g, to, control, n->inputs[0].node));
  for (int i = 1; i < n->num_inputs && edge->input < 0; i++)
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(g, n->inputs[i].node, to));
  for (int i = 0; i < n->num_controls; i++)
    WEFT_RETURN_IF_ERROR(weft_graph_add_control(g, n->controls[i], to));
  return NULL;
}

/* Edges go around what only passes many values on (the outputs of a function that was called): one of them
 * may be a variable's handle, and what touches a variable goes where that lives, with all the others. */
static weft_status_t *pass_around(weft_graph_t *g) {
  weft_fanout_t fanout = {0};
  weft_status_t *s = weft_fanout_build(g, &fanout);
  for (int id = 0, num_nodes = g->num_nodes; id < num_nodes && s == NULL; id++) {
    const weft_node_t *n = g->nodes[id];
    if (n == NULL || n->num_inputs == 0 || (n->flags & WEFT_OP_BUNDLE) == 0) continue;
    for (int at = fanout.begin[id]; at < fanout.begin[id + 1] && s == NULL; at++) {
      bool is_merge = (fanout.edges[at].to->op->flags & WEFT_OP_MERGE) !=
                      0; /* it waits for one of its inputs, and for nothing else */
      if (!is_merge) s = go_around(g, n, &fanout.edges[at]);
    }
  }
  weft_fanout_deinit(&fanout);
  return s;
}

weft_status_t *weft_prepare(const weft_strategy_request_t *r, bool expands_batch_norms,
                            weft_prepared_graph_t *out) {
  weft_graph_t *g = NULL;
  size_t num_names = (size_t)r->fetches.n + (size_t)r->targets.n + (size_t)r->inits.n;
  *out = (weft_prepared_graph_t){.roots = weft_calloc(num_names + 1, sizeof *out->roots),
                                 .feeds = weft_calloc((size_t)r->feeds.n + 1, sizeof(*out->feeds))};
  weft_status_t *s = out->roots == NULL || out->feeds == NULL ? no_memory() : NULL;
  if (s == NULL && r->fetches.n + r->targets.n == 0)
    s = WEFT_ERROR(INVALID_ARGUMENT, "a training step must fetch or run something");
  if (s == NULL) s = weft_graph_copy(r->graph, &g);
  if (s == NULL) s = prepare_feeds(r, g);
  if (s == NULL) s = resolve(r, g, out);
  if (s == NULL) s = prune(out, g);
  if (s == NULL) s = weft_lower_for_clients(g);
  if (s == NULL) s = pass_around(g);
  if (s == NULL) s = resolve(r, g, out);
  if (s == NULL) s = prune(out, g);
  if (s == NULL) s = weft_pass_infer_shapes(g);
  if (s == NULL) s = weft_pass_infer_loop_shapes(g);
  if (s == NULL && expands_batch_norms) s = expand(r, g, out);
  if (s == NULL) s = weft_infer_gradient_shapes(g);
  if (s == NULL) {
    out->graph = g;
    return NULL;
  }
  weft_graph_destroy(g);
  weft_prepared_deinit(out);
  return s;
}

void weft_prepared_deinit(weft_prepared_graph_t *p) {
  weft_graph_destroy(p->graph);
  weft_free(p->roots);
  weft_free(p->feeds);
  *p = (weft_prepared_graph_t){0};
}
