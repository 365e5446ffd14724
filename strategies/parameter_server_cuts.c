/* strategies/parameter_server_cuts.c - where a training graph is cut into what workers do and what an update does.
 *
 * An update wants the gradient of the whole batch. Where it takes what is a sum over
 * workers already, the graph is cut there. Where it takes what depends on the whole
 * gradient in another way (clipped by a norm, say), what lies between moves to the
 * update's side and the graph is cut in front of it. How values depend on the batch
 * is known from the spread analysis (spread.h), done before variables were cut;
 * nodes that came by cutting hand their first input on.
 */
#include "strategies/parameter_server_sync.h"

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "building a synchronous update"); }

static weft_status_t *refuse(const weft_node_t *n, const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "parameter_server: the update '%.*s' (%.*s) cannot be made in step: %s",
                    WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name), why);
}

static weft_shape_t shape_of(weft_output_t o) {
  return o.node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : o.node->output_shapes[o.index];
}

/* Rows that are assigned or multiplied have no mean. */
static bool adds_rows(const weft_node_t *n) {
  return !weft_str_ends_with(n->op->name, "Update") && !weft_str_ends_with(n->op->name, "Mul") &&
         !weft_str_ends_with(n->op->name, "Div") && !weft_str_ends_with(n->op->name, "Min") &&
         !weft_str_ends_with(n->op->name, "Max");
}

static weft_status_t *check_rows(const weft_ps_sync_t *s, weft_ps_cut_t *c) {
  const weft_node_t *n = c->update;
  int v = weft_lane_variable_behind(&s->p->lanes, n, 0);
  const weft_attr_t *shape = v < 0 ? NULL : weft_node_attr(s->p->lanes.variables[v].node, "shape");
  if (shape == NULL || shape->kind != WEFT_ATTR_SHAPE || !weft_shape_is_known(shape->shape) || shape->shape->rank < 1) {
    return refuse(n, "the shape of its variable is not known");
  }
  weft_shape_t updates = shape_of(n->inputs[c->input]), indices = shape_of(n->inputs[c->indices]);
  bool known = updates.rank >= 0 && indices.rank >= 0;
  if (!adds_rows(n) || (known && updates.rank != indices.rank + shape->shape->rank - 1)) {
    return refuse(n, "the mean of its rows over workers means nothing");
  }
  c->shape = *shape->shape;
  return NULL;
}

/* ---- how a value depends on the batch ---- */

static const weft_spread_t *spread_of(const weft_ps_sync_t *s, weft_output_t o) {
  const weft_ps_t *p = s->p;
  for (int depth = 0; p->spread.graph != NULL && depth < 8; depth++) {
    const weft_node_t *n = weft_graph_find(p->whole, o.node->name);
    bool same = n != NULL && n->op == o.node->op && p->spread.outputs[n->id] != NULL && o.index < n->num_outputs;
    if (same) return &p->spread.outputs[n->id][o.index];
    if (o.node->num_inputs == 0) return NULL;
    o = o.node->inputs[0]; /* a split of a gradient, a reshaped one */
  }
  return NULL;
}

/* ---- cuts ---- */

static weft_status_t *add_dense(weft_ps_sync_t *s, const weft_node_t *n, int input, int server, const weft_spread_t *spread) {
  const weft_output_t from = n->inputs[input];
  weft_ps_cut_t *c = &s->cuts[s->num_cuts++];
  bool is_sum = spread == NULL ? input == n->op->update_grad_input : spread->kind != WEFT_SPREAD_SAME;
  *c = (weft_ps_cut_t){.update = n, .input = input, .indices = -1, .dtype = (weft_dtype_t)weft_output_type(from),
                       .server = server, .scales = is_sum && s->p->options.splits,
                       .degree = spread == NULL ? 1 : spread->degree, .shape = shape_of(from)};
  if (c->dtype != WEFT_F32 && c->dtype != WEFT_F64 && c->dtype != WEFT_F16) {
    return refuse(n, "it depends on the batch, and only floating point values have a mean over workers");
  }
  for (int i = 0; i + 1 < s->num_cuts && c->same_as == NULL; i++) {
    const weft_output_t other = s->cuts[i].update->inputs[s->cuts[i].input];
    bool is_dense = s->cuts[i].indices < 0 && s->cuts[i].same_as == NULL;
    if (is_dense && other.node == from.node && other.index == from.index) c->same_as = &s->cuts[i];
  }
  return NULL;
}

static weft_status_t *add_sparse(weft_ps_sync_t *s, const weft_node_t *n, int server, int degree) {
  weft_ps_cut_t *c = &s->cuts[s->num_cuts++];
  int input = n->op->update_grad_input;
  *c = (weft_ps_cut_t){.update = n, .input = input, .indices = weft_lane_input_named(n, "indices"), .server = server,
                       .dtype = (weft_dtype_t)weft_output_type(n->inputs[input]), .scales = s->p->options.splits, .degree = degree};
  if (c->dtype != WEFT_F32 && c->dtype != WEFT_F64 && c->dtype != WEFT_F16) {
    return refuse(n, "it depends on the batch, and only floating point values have a mean over workers");
  }
  return check_rows(s, c);
}

/* The degree of the first value with rows or sums that n's input is made of. */
static int degree_behind(const weft_ps_sync_t *s, weft_output_t o, int depth) {
  const weft_spread_t *spread = spread_of(s, o);
  if (spread == NULL) return 1;
  if (spread->kind == WEFT_SPREAD_ROWS || spread->kind == WEFT_SPREAD_PART) return spread->degree;
  for (int i = 0; i < o.node->num_inputs && depth < 16; i++) {
    if (!s->depends[o.node->inputs[i].node->id] || weft_output_type(o.node->inputs[i]) != weft_output_type(o)) continue;
    return degree_behind(s, o.node->inputs[i], depth + 1);
  }
  return 1;
}

static weft_status_t *bring(weft_ps_sync_t *s, const weft_node_t *n, int input, int server);

/* n is computed on the update's side, on `server`. */
static weft_status_t *move(weft_ps_sync_t *s, const weft_node_t *n, int server) {
  if (s->moved[n->id]) return NULL;
  s->moved[n->id] = true;
  s->home[n->id] = server;
  if ((n->flags & (WEFT_OP_SWITCH | WEFT_OP_MERGE | WEFT_OP_ENTER | WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION)) != 0) {
    return refuse(n, "what depends on the gradient of the whole batch goes through control flow");
  }
  for (int i = 0; i < n->num_inputs; i++) WEFT_RETURN_IF_ERROR(bring(s, n, i, server));
  return NULL;
}

/* Makes input i of n, which is on the update's side, available there. */
static weft_status_t *bring(weft_ps_sync_t *s, const weft_node_t *n, int input, int server) {
  const weft_output_t from = n->inputs[input];
  if (!s->depends[from.node->id]) return NULL;
  const weft_spread_t *spread = spread_of(s, from);
  if (weft_lane_is_update(from.node)) return NULL;
  if (s->num_cuts == s->max_cuts) return WEFT_ERROR(INTERNAL, "more cuts than edges at node '%.*s'", WEFT_STR_ARGS(n->name));
  if (spread == NULL || weft_ps_is_source(s, from.node) || spread->kind == WEFT_SPREAD_PART ||
      spread->kind == WEFT_SPREAD_NONE) {
    return add_dense(s, n, input, server, spread);
  }
  if (spread->kind == WEFT_SPREAD_SAME) return move(s, from.node, server);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_spread_print(spread, &text);
  weft_status_t *why = WEFT_ERROR(INVALID_ARGUMENT,
                                  "parameter_server: node '%.*s' (%.*s), which an update depends on, takes '%.*s', which is %s: "
                                  "workers have only their part of it",
                                  WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name), WEFT_STR_ARGS(from.node->name),
                                  text.data == NULL ? "spread" : text.data);
  weft_strbuf_deinit(&text);
  return why;
}

static weft_status_t *cut_update(weft_ps_sync_t *s, const weft_node_t *n) {
  int indices = weft_lane_input_named(n, "indices"), grad = n->op->update_grad_input, server = s->p->lanes.server_of[n->id];
  bool is_sparse = indices >= 0 && s->depends[n->inputs[indices].node->id];
  for (int i = 0; i < n->num_inputs; i++) {
    if (!s->depends[n->inputs[i].node->id] || (is_sparse && i == indices)) continue;
    if (server < 0) return refuse(n, "it is no update of a variable on a server");
    if (i != grad && shape_of(n->inputs[i]).rank != 0) return refuse(n, "more than its gradient depends on the batch");
    WEFT_RETURN_IF_ERROR(is_sparse && i == grad ? add_sparse(s, n, server, degree_behind(s, n->inputs[i], 0))
                                                : bring(s, n, i, server));
  }
  return is_sparse && !s->depends[n->inputs[grad].node->id] ? refuse(n, "its rows depend on the batch, its values do not") : NULL;
}

/* A gradient is summed up where the update is that takes it in full, not where its norm is wanted. */
static void choose_homes(weft_ps_sync_t *s) {
  for (int i = 0; i < s->num_cuts; i++) {
    weft_ps_cut_t *c = &s->cuts[i];
    weft_ps_cut_t *first = c->same_as == NULL ? c : &s->cuts[c->same_as - s->cuts];
    weft_shape_t made = c->update->num_outputs > 0 ? shape_of((weft_output_t){(weft_node_t *)c->update, 0}) : WEFT_SCALAR;
    if (weft_lane_is_update(c->update) || weft_shape_eq(&made, &c->shape)) first->server = c->server;
  }
  for (int i = 0; i < s->num_cuts; i++) {
    const weft_ps_cut_t *c = &s->cuts[i];
    if (s->moved[c->update->id]) s->home[c->update->id] = c->same_as == NULL ? c->server : c->same_as->server;
  }
}

weft_status_t *weft_ps_find_cuts(weft_ps_sync_t *s) {
  const weft_lane_graph_t *l = &s->p->lanes;
  for (int k = 0; k < l->num_nodes; k++) s->max_cuts += l->order[k]->num_inputs;
  s->cuts = weft_arena_calloc(&s->p->out->arena, (size_t)s->max_cuts + 1, sizeof *s->cuts);
  if (s->cuts == NULL) return no_memory();
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    if (!l->in_step[n->id] || !weft_lane_is_update(n)) continue;
    s->num_updates++;
    WEFT_RETURN_IF_ERROR(cut_update(s, n));
  }
  choose_homes(s);
  if (s->num_cuts > 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "parameter_server: mode=sync needs a training step: nothing that is fetched or run updates a variable "
                    "from what is fed");
}

weft_ps_cut_t *weft_ps_cut_of(weft_ps_sync_t *s, const weft_node_t *update, int input, bool *is_indices) {
  for (int i = 0; i < s->num_cuts; i++) {
    if (s->cuts[i].update != update) continue;
    *is_indices = s->cuts[i].indices == input && input >= 0;
    if (s->cuts[i].input == input || *is_indices) return &s->cuts[i];
  }
  return NULL;
}
