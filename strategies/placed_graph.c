/* strategies/placed_graph.c - variables, groups of variables that are updated together, and the servers of
 * nodes.
 *
 * Slots of an optimizer are found by the updates that take them: variables that go
 * into one update form a group, which stays on one server. A node belongs beside a
 * variable if it takes its handle or reference, reads it, looks up rows of it or
 * asks for its shape; everything else is a worker's.
 */
#include "strategies/placed_graph.h"

#include "base/alloc.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("placing a graph on parameter servers"); }

static bool is_handle(int type) { return weft_dtype_is_ref(type) || type == WEFT_RESOURCE; }

bool weft_placed_is_update(const weft_node_t *n) { return (n->flags & WEFT_OP_UPDATE) != 0; }

int weft_placed_input_named(const weft_node_t *n, const char *arg) {
  for (int i = 0; i < n->op->num_inputs && i < n->num_inputs; i++) {
    if (weft_str_is(n->op->inputs[i].name, arg)) return i;
  }
  return -1;
}

/* ---- names ---- */

weft_status_t *weft_placed_find(const weft_graph_t *g, weft_str_t name, const char *what,
                                weft_output_t *out) {
  weft_str_t node = name;
  int index = 0;
  if (weft_tensor_name_parse(name, &node, &index)) {
    weft_node_t *n = weft_graph_find(g, node);
    if (n != NULL && (index == 0 || index < n->num_outputs)) {
      *out = (weft_output_t){n, index};
      return NULL;
    }
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "%s '%.*s' is not in the graph", what, WEFT_STR_ARGS(name));
}

static weft_status_t *name_in(const weft_copier_t *c, weft_str_t name, const char *what, weft_rewrite_t *out,
                              weft_str_t *to) {
  weft_output_t of;
  WEFT_RETURN_IF_ERROR(weft_placed_find(c->from, name, what, &of));
  weft_output_t with = of.node->num_outputs == 0 || what[0] == 't' ? (weft_output_t){c->nodes[of.node->id], 0}
                                                                   : weft_copier_output(c, of);
  if (with.node == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s '%.*s' is the result of an update on the parameter servers, which follows all "
                      "gradients: workers cannot read it",
                      what, WEFT_STR_ARGS(name));
  }
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, with.node->name);
  if (weft_str_find(name, ':') >= 0)
    weft_strbuf_printf(&b, ":%d", with.index);
  else if (with.index > 0 && what[0] != 't')
    weft_strbuf_printf(&b, ":%d", with.index);
  *to = weft_arena_str(&out->arena, weft_str_of(b.data, b.length));
  bool failed = b.failed || to->data == NULL;
  weft_strbuf_deinit(&b);
  return failed ? no_memory() : NULL;
}

static weft_status_t *names_in(const weft_copier_t *c, const weft_names_t *names, const char *what,
                               weft_rewrite_t *out, weft_names_t *to) {
  weft_str_t *items = weft_arena_calloc(&out->arena, (size_t)names->n + 1, sizeof *items);
  if (items == NULL) return no_memory();
  for (int i = 0; i < names->n; i++) WEFT_RETURN_IF_ERROR(name_in(c, names->items[i], what, out, &items[i]));
  *to = (weft_names_t){items, names->n};
  return NULL;
}

weft_status_t *weft_placed_names(const weft_copier_t *c, const weft_strategy_request_t *r,
                                 weft_rewrite_t *out, weft_worker_loop_t *loop) {
  WEFT_RETURN_IF_ERROR(names_in(c, &r->feeds, "feed", out, &loop->feeds));
  WEFT_RETURN_IF_ERROR(names_in(c, &r->fetches, "fetch", out, &loop->fetches));
  return names_in(c, &r->targets, "target", out, &loop->targets);
}

/* ---- variables ---- */

static int64_t bytes_of(const weft_node_t *variable) {
  const weft_attr_t *shape = weft_node_attr(variable, "shape");
  int dtype = weft_node_attr_type(variable, "dtype");
  if (shape == NULL || shape->kind != WEFT_ATTR_SHAPE) return -1;
  int64_t n = weft_shape_count(shape->shape), size = (int64_t)weft_dtype_size(dtype);
  return n < 0 || (size > 0 && n > INT64_MAX / size) ? -1 : n * size;
}

static weft_status_t *find_variables(weft_placed_graph_t *l) {
  size_t n = (size_t)l->g->num_nodes + 1;
  l->variables = weft_arena_calloc(&l->arena, n, sizeof *l->variables);
  l->variable_of = weft_arena_calloc(&l->arena, n, sizeof *l->variable_of);
  l->server_of = weft_arena_calloc(&l->arena, n, sizeof *l->server_of);
  l->in_step = weft_arena_calloc(&l->arena, n, sizeof *l->in_step);
  if (l->variables == NULL || l->variable_of == NULL || l->server_of == NULL || l->in_step == NULL)
    return no_memory();
  for (int id = 0; id < l->g->num_nodes; id++) {
    weft_node_t *node = l->g->nodes[id];
    l->variable_of[id] = l->server_of[id] = -1;
    if (node == NULL || (node->flags & WEFT_OP_VARIABLE) == 0) continue;
    l->variable_of[id] = l->num_variables;
    l->variables[l->num_variables] = (weft_placed_variable_t){node, l->num_variables, 0, bytes_of(node)};
    l->num_variables++;
  }
  return NULL;
}

/* Does n pass on its input 0, a value or a handle? */
static bool hands_on(const weft_node_t *n) { return (n->flags & WEFT_OP_READ) != 0; }

/* The variable behind n's first output. Handles also pass through switches and into loops. */
static int variable_through(const weft_placed_graph_t *l, const weft_node_t *n) {
  if ((n->flags & WEFT_OP_VARIABLE) != 0) return l->variable_of[n->id];
  if (n->num_inputs == 0 || n->num_outputs == 0 || weft_placed_is_update(n)) return -1;
  bool passes_handle =
      is_handle(n->output_types[0]) && (n->flags & (WEFT_OP_SWITCH | WEFT_OP_ENTER | WEFT_OP_MERGE |
                                                    WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION)) != 0;
  if (!passes_handle && !hands_on(n)) return -1;
  return l->variable_of[n->inputs[0].node->id];
}

int weft_placed_variable_behind(const weft_placed_graph_t *l, const weft_node_t *n, int input) {
  const weft_node_t *p = n->inputs[input].node;
  return weft_placed_is_update(p) && p->num_inputs > 0 ? l->variable_of[p->inputs[0].node->id]
                                                       : l->variable_of[p->id];
}

static bool takes_handle(const weft_node_t *n, int input) {
  const weft_output_t from = n->inputs[input];
  return is_handle(n->input_types[input]) && is_handle(from.node->output_types[from.index]);
}

/* Variables of one update belong together: to the group of the first. */
static void join_groups(weft_placed_graph_t *l) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (int k = 0; k < l->num_nodes; k++) {
      const weft_node_t *n = l->order[k];
      int first = -1;
      for (int i = 0; i < n->num_inputs && weft_placed_is_update(n); i++) {
        int v = takes_handle(n, i) ? weft_placed_variable_behind(l, n, i) : -1;
        if (v < 0) continue;
        if (first < 0) first = v;
        int a = l->variables[first].group, b = l->variables[v].group, low = a < b ? a : b;
        if (a == b) continue;
        l->variables[first].group = l->variables[v].group = low;
        changed = true;
      }
    }
  }
}

static weft_status_t *mark_step(weft_placed_graph_t *l, const weft_names_t *names, const char *what) {
  for (int i = 0; i < names->n; i++) {
    weft_output_t of;
    WEFT_RETURN_IF_ERROR(weft_placed_find(l->g, names->items[i], what, &of));
    l->in_step[of.node->id] = true;
  }
  return NULL;
}

/* Back edges of loops make more than one round. */
static void close_step(weft_placed_graph_t *l) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (int k = l->num_nodes - 1; k >= 0; k--) {
      const weft_node_t *n = l->order[k];
      if (!l->in_step[n->id]) continue;
      for (int i = 0; i < n->num_inputs + n->num_controls; i++) {
        const weft_node_t *p = i < n->num_inputs ? n->inputs[i].node : n->controls[i - n->num_inputs];
        changed = changed || !l->in_step[p->id];
        l->in_step[p->id] = true;
      }
    }
  }
}

weft_status_t *weft_placed_graph_init(const weft_graph_t *g, const weft_strategy_request_t *r,
                                      weft_placed_graph_t *out) {
  weft_placed_graph_t *l = out;
  *l = (weft_placed_graph_t){.arena = WEFT_ARENA_INIT, .g = g};
  weft_status_t *s = weft_graph_topological_order(g, &l->order);
  l->num_nodes = s == NULL ? g->num_live : 0;
  if (s == NULL) s = find_variables(l);
  if (s == NULL) s = mark_step(l, &r->fetches, "fetch");
  if (s == NULL) s = mark_step(l, &r->targets, "target");
  if (s == NULL) s = mark_step(l, &r->feeds, "feed");
  if (s == NULL) {
    close_step(l);
    for (int k = 0; k < l->num_nodes; k++) l->variable_of[l->order[k]->id] = variable_through(l, l->order[k]);
    join_groups(l);
  } else {
    weft_placed_graph_deinit(l);
  }
  return s;
}

void weft_placed_graph_deinit(weft_placed_graph_t *l) {
  weft_free(l->order);
  weft_arena_deinit(&l->arena);
  *l = (weft_placed_graph_t){.arena = WEFT_ARENA_INIT};
}

/* ---- where ---- */

/* Groups, largest first, each to the server that has least (LPT): no server has more than the average and
 * (1 - 1/servers) of the largest group. Equal loads: the lower index; equal sizes: the order of creation. */
static void place_by_bytes(weft_placed_graph_t *l, int64_t *sizes, int64_t *loads, int num_servers) {
  for (int v = 0; v < l->num_variables; v++) {
    int64_t bytes = l->variables[v].bytes;
    sizes[l->variables[v].group] += bytes > 0 ? bytes : 1;
  }
  for (;;) {
    int group = -1, server = 0;
    for (int v = 0; v < l->num_variables; v++) {
      if (sizes[v] > 0 && (group < 0 || sizes[v] > sizes[group])) group = v;
    }
    if (group < 0) return;
    for (int i = 1; i < num_servers; i++) server = loads[i] < loads[server] ? i : server;
    loads[server] += sizes[group];
    sizes[group] = 0;
    l->variables[group].server = server;
  }
}

static bool is_lookup(const weft_node_t *n) { return (n->flags & (WEFT_OP_LOOKUP | WEFT_OP_LOOKUP_ND)) != 0; }

/* The server that n must be on; -1: none. Its inputs have theirs. */
static int server_for(const weft_placed_graph_t *l, const weft_node_t *n) {
  if ((n->flags & WEFT_OP_VARIABLE) != 0) return l->variables[l->variable_of[n->id]].server;
  for (int i = 0; i < n->num_inputs; i++) {
    int v = weft_placed_variable_behind(l, n, i);
    if (v >= 0 && takes_handle(n, i)) return l->variables[v].server;
  }
  if (n->num_inputs == 0) return -1;
  int v = weft_placed_variable_behind(l, n, 0);
  bool stays = hands_on(n) || is_lookup(n) || (n->flags & WEFT_OP_METADATA) != 0;
  return v >= 0 && stays ? l->variables[v].server : -1;
}

weft_status_t *weft_placed_graph_place(weft_placed_graph_t *l, int num_servers, weft_placement_t how) {
  size_t n = (size_t)l->num_variables + 1;
  int64_t *sizes = weft_arena_calloc(&l->arena, n, sizeof *sizes);
  int64_t *loads = weft_arena_calloc(&l->arena, (size_t)num_servers, sizeof *loads);
  if (sizes == NULL || loads == NULL) return no_memory();
  if (how == WEFT_PLACE_BYTES) place_by_bytes(l, sizes, loads, num_servers);
  for (int v = 0, next = 0; v < l->num_variables; v++) {
    weft_placed_variable_t *variable = &l->variables[v];
    if (variable->group != v) {
      variable->server = l->variables[variable->group].server;
    } else if (how == WEFT_PLACE_ROUND_ROBIN) {
      variable->server = next++ % num_servers;
    }
  }
  for (int k = 0; k < l->num_nodes; k++) l->server_of[l->order[k]->id] = server_for(l, l->order[k]);
  return NULL;
}
