/* strategies/placed_copier.c - copies of a step that share their variables. */
#include "strategies/draw_rows.h"
#include "strategies/emit.h"
#include "strategies/placed_graph.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("copying a graph for a worker"); }

weft_status_t *weft_placed_copier_init(weft_placed_copier_t *c, const weft_placed_graph_t *l,
                                       weft_graph_t *to, const weft_ps_places_t *places, int worker,
                                       weft_str_t prefix) {
  *c = (weft_placed_copier_t){.l = l, .places = places, .worker = worker};
  WEFT_RETURN_IF_ERROR(weft_copier_init(&c->copier, l->g, to, prefix, WEFT_STR("")));
  c->reads = weft_arena_calloc(&c->copier.arena, (size_t)l->num_variables + 1, sizeof(*c->reads));
  if (c->reads != NULL) return NULL;
  weft_placed_copier_deinit(c);
  return no_memory();
}

void weft_placed_copier_deinit(weft_placed_copier_t *c) {
  if (c->l != NULL) weft_copier_deinit(&c->copier);
  *c = (weft_placed_copier_t){0};
}

weft_status_t *weft_placed_share_variables(weft_placed_copier_t *c, const weft_placed_copier_t *base) {
  for (int v = 0; v < c->l->num_variables; v++) {
    const weft_node_t *of = c->l->variables[v].node;
    WEFT_RETURN_IF_ERROR(weft_copier_set_node(&c->copier, of, base->copier.nodes[of->id]));
  }
  return NULL;
}

static weft_str_t device_of(const weft_placed_copier_t *c, const weft_node_t *n) {
  int server = c->l->server_of[n->id];
  if (server >= 0) return c->places->servers[server];
  return c->worker >= 0 ? c->places->workers[c->worker] : c->places->servers[0];
}

static bool is_variable(const weft_node_t *n) { return (n->flags & WEFT_OP_VARIABLE) != 0; }

static bool reads_at_once(const weft_node_t *n) {
  return n->num_inputs == 1 && n->num_controls == 0 && is_variable(n->inputs[0].node) &&
         (n->flags & WEFT_OP_READ) != 0;
}

/* A reference that is used as a value on another device is read once on the variable's device, after the
 * gate. */
static weft_status_t *read_reference(weft_placed_copier_t *c, const weft_node_t *variable,
                                     weft_node_t **out) {
  int v = c->l->variable_of[variable->id];
  if (c->reads[v] == NULL) {
    weft_emitter_t b = {.g = c->copier.to,
                        .scope = c->copier.prefix,
                        .after = c->gate,
                        .device = c->places->servers[c->l->variables[v].server]};
    const weft_output_t from = weft_copier_output(&c->copier, (weft_output_t){(weft_node_t *)variable, 0});
    c->reads[v] = weft_emit1(&b, "Identity", from, "%.*s/value", WEFT_STR_ARGS(variable->name)).node;
    WEFT_RETURN_IF_ERROR(weft_emitter_end(&b));
  }
  *out = c->reads[v];
  return NULL;
}

static weft_status_t *read_references(weft_placed_copier_t *c, const weft_node_t *n, weft_node_t *copy) {
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_output_t from = n->inputs[i];
    weft_node_t *read = NULL;
    bool is_value = is_variable(from.node) && weft_dtype_is_ref(from.node->output_types[0]) &&
                    !weft_dtype_is_ref(n->input_types[i]);
    if (!is_value || c->l->server_of[n->id] >= 0) continue;
    WEFT_RETURN_IF_ERROR(read_reference(c, from.node, &read));
    weft_graph_set_input(copy, i, (weft_output_t){read, 0});
  }
  return NULL;
}

static weft_status_t *wait_at_gate(weft_placed_copier_t *c, const weft_node_t *n, weft_node_t *copy) {
  bool touches = false;
  for (int i = 0; i < n->num_inputs; i++) touches = touches || is_variable(n->inputs[i].node);
  if (!touches || c->gate == NULL || c->l->server_of[n->id] < 0) return NULL;
  return weft_graph_add_control(c->copier.to, c->gate, copy);
}

bool weft_placed_draws(const weft_placed_graph_t *l, const weft_node_t *n) {
  return weft_draws_from_stream(n) && l->in_step[n->id] && l->server_of[n->id] < 0;
}

/* With a common seed, workers would draw the same numbers for different rows. */
static weft_status_t *draw_own_numbers(const weft_placed_copier_t *c, const weft_node_t *n,
                                       weft_node_t *copy) {
  enum { APART = 1000003 };
  if (c->worker <= 0 || !weft_placed_draws(c->l, n) || !weft_has_seed(n)) return NULL;
  uint64_t seed2 = (uint64_t)weft_node_attr_int(n, "seed2", 0) + (uint64_t)c->worker * APART;
  const weft_attr_t own = {.kind = WEFT_ATTR_INT, .i = seed2 == 0 ? 1 : (int64_t)seed2};
  return weft_graph_set_attr(c->copier.to, copy, "seed2", &own);
}

weft_status_t *weft_placed_copy(weft_placed_copier_t *c, const weft_node_t *n, weft_node_t **out) {
  int v = c->caches && reads_at_once(n) ? c->l->variable_of[n->id] : -1;
  weft_node_t *copy = NULL;
  if (v >= 0 && c->reads[v] != NULL &&
      c->copier.prefix.length > 0) { /* only names that come from the source graph must be kept */
    *out = c->reads[v];
    return weft_copier_set_node(&c->copier, n, c->reads[v]);
  }
  WEFT_RETURN_IF_ERROR(weft_copier_copy(&c->copier, n, &copy));
  copy->requested_device = weft_graph_intern(c->copier.to, device_of(c, n));
  if (copy->requested_device.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_forget_colocation(c->copier.to, copy)); /* devices are assigned node by node */
  *out = copy;
  WEFT_RETURN_IF_ERROR(draw_own_numbers(c, n, copy));
  WEFT_RETURN_IF_ERROR(wait_at_gate(c, n, copy));
  if (c->copier.prefix.length > 0) WEFT_RETURN_IF_ERROR(read_references(c, n, copy));
  if (v < 0) return NULL;
  if (c->reads[v] == NULL) c->reads[v] = copy;
  return weft_copier_set_node(&c->copier, n, c->reads[v]);
}
