/* strategies/parameter_server_aggregates.c - partitions a training graph into the workers' part and the
 * update's part.
 *
 * An update needs the gradient of the whole batch. Where its input is a plain sum over workers, that edge is
 * the partition point. Where its input depends on the whole gradient in another way (clipping by a norm), the
 * nodes between move to the update's part and the partition point lies before them. How values depend on the
 * batch is known from the analysis of the data axis (sharding/data), done before variables were sharded;
 * nodes that sharding added are treated as identities of their first input.
 */
#include "base/alloc.h"
#include "strategies/parameter_server_sync.h"

bool weft_ps_is_source(const weft_ps_sync_t *s, const weft_node_t *n) {
  if ((n->flags & WEFT_OP_PLACEHOLDER) != 0) return true;
  bool is_state = (n->flags & WEFT_OP_VARIABLE) != 0 || s->p->placed.server_of[n->id] >= 0;
  return (n->flags & WEFT_OP_STATEFUL) != 0 && !is_state; /* random numbers, readers, queues */
}

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("building a synchronous update"); }

static weft_status_t *refuse(const weft_node_t *n, const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "parameter_server: the update '%.*s' (%.*s) cannot be made synchronously: %s",
                    WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name), why);
}

static weft_shape_t shape_of(weft_output_t o) {
  return o.node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : o.node->output_shapes[o.index];
}

/* Rows that are assigned or multiplied have no mean. */
static bool adds_rows(const weft_node_t *n) { return (n->flags & WEFT_OP_REPLACES) == 0; }

static const weft_shape_t *variable_shape(const weft_ps_sync_t *s, const weft_node_t *update) {
  int v = weft_placed_variable_behind(&s->p->placed, update, 0);
  const weft_attr_t *shape = v < 0 ? NULL : weft_node_attr(s->p->placed.variables[v].node, "shape");
  bool is_known = shape != NULL && shape->kind == WEFT_ATTR_SHAPE && weft_shape_is_known(shape->shape);
  return is_known && shape->shape->rank > 0 ? shape->shape : NULL;
}

static weft_status_t *check_rows(const weft_ps_sync_t *s, const weft_node_t *n) {
  const weft_shape_t *shape = variable_shape(s, n);
  if (shape == NULL) return refuse(n, "the shape of its variable is not known");
  weft_shape_t updates = shape_of(n->inputs[n->op->update_grad_input]);
  weft_shape_t indices = shape_of(n->inputs[weft_placed_input_named(n, "indices")]);
  bool known = updates.rank >= 0 && indices.rank >= 0;
  if (!adds_rows(n) || (known && updates.rank != indices.rank + shape->rank - 1)) {
    return refuse(n, "a mean over workers is not defined for its rows");
  }
  return NULL;
}

/* ---- how a value depends on the batch ---- */

/* The node of the analysed graph that corresponds to o; later nodes correspond to that of their input. NULL:
 * none. */
static const weft_node_t *known_as(const weft_ps_sync_t *s, weft_output_t *o) {
  const weft_ps_t *p = s->p;
  for (int depth = 0; p->data.graph != NULL && !s->ignores_sharding && depth < 12; depth++) {
    const weft_node_t *n = weft_graph_find(p->whole, o->node->name);
    if (n != NULL && n->op == o->node->op && p->data.outputs[n->id] != NULL && o->index < n->num_outputs)
      return n;
    int from = 0; /* derived from the batch: a split of a gradient, a reshaped gradient */
    while (from < o->node->num_inputs && !s->depends[o->node->inputs[from].node->id]) from++;
    if (from == o->node->num_inputs) return NULL;
    *o = o->node->inputs[from];
  }
  return NULL;
}

static const weft_axis_sharding_t *sharding_of(const weft_ps_sync_t *s, weft_output_t o) {
  const weft_node_t *n = known_as(s, &o);
  return n == NULL ? NULL : &s->p->data.outputs[n->id][o.index];
}

/* Does a worker's value differ from the whole batch's in a way that a mean over workers does not correct? */
static bool is_local(const weft_ps_sync_t *s, weft_output_t o) {
  const weft_node_t *n = known_as(s, &o);
  return n != NULL && s->is_local[n->id];
}

int weft_ps_rescale(const weft_ps_sync_t *s, const weft_node_t *n, int input) {
  weft_output_t out = {(weft_node_t *)n, 0}, from = n->inputs[input];
  const weft_node_t *known = known_as(s, &out);
  const weft_axis_sharding_t *made = sharding_of(s, from);
  if (known == NULL || out.node != n || made == NULL || s->p->data.required[known->id] == NULL) return 0;
  const weft_axis_sharding_t *required = &s->p->data.required[known->id][input];
  bool is_same_kind = made->kind == required->kind &&
                      (made->kind == WEFT_SHARDING_SHARD || made->kind == WEFT_SHARDING_PARTIAL ||
                       made->kind == WEFT_SHARDING_REPLICATE);
  int type = weft_base_type_of(from);
  return is_same_kind && (type == WEFT_F32 || type == WEFT_F64 || type == WEFT_F16)
             ? made->degree - required->degree
             : 0;
}

static weft_status_t *find_local(weft_ps_sync_t *s) {
  const weft_data_plan_t *plan = &s->p->data;
  weft_node_t **order = NULL;
  if (plan->graph == NULL) return NULL;
  const weft_graph_t *g = s->p->whole;
  s->is_local = weft_arena_calloc(&s->p->out->arena, (size_t)g->num_nodes + 1, sizeof *s->is_local);
  if (s->is_local == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_graph_topological_order(g, &order));
  for (int k = 0; k < 2 * g->num_live; k++) { /* twice, for loops */
    const weft_node_t *n = order[k % g->num_live];
    for (int i = 0; i < n->num_inputs && plan->required[n->id] != NULL && !weft_placed_is_update(n); i++) {
      const weft_output_t from = n->inputs[i];
      const weft_axis_sharding_t *made =
          plan->outputs[from.node->id] == NULL ? NULL : &plan->outputs[from.node->id][from.index];
      bool is_part = made != NULL &&
                     (made->kind == WEFT_SHARDING_PARTIAL || made->kind == WEFT_SHARDING_SHARD) &&
                     plan->required[n->id][i].kind == WEFT_SHARDING_REPLICATE;
      s->is_local[n->id] = s->is_local[n->id] || s->is_local[from.node->id] || is_part;
    }
  }
  weft_free(order);
  return NULL;
}

/* ---- aggregated values ---- */

static weft_status_t *add_dense(weft_ps_sync_t *s, const weft_node_t *n, int input, int server,
                                const weft_axis_sharding_t *sharding) {
  const weft_output_t from = n->inputs[input];
  weft_ps_aggregate_t *c = &s->aggregates[s->num_aggregates++];
  bool is_sum =
      sharding == NULL ? input == n->op->update_grad_input : sharding->kind != WEFT_SHARDING_REPLICATE;
  *c = (weft_ps_aggregate_t){.update = n,
                             .input = input,
                             .indices = -1,
                             .dtype = (weft_dtype_t)weft_base_type_of(from),
                             .server = server,
                             .scales = is_sum,
                             .degree = sharding == NULL ? 1 : sharding->degree,
                             .shape = shape_of(from)};
  if (c->dtype != WEFT_F32 && c->dtype != WEFT_F64 && c->dtype != WEFT_F16) {
    return refuse(n, "it depends on the batch, and only floating point values have a mean over workers");
  }
  for (int i = 0; i + 1 < s->num_aggregates && c->same_as == NULL; i++) {
    const weft_output_t other = s->aggregates[i].update->inputs[s->aggregates[i].input];
    bool is_dense = s->aggregates[i].indices < 0 && s->aggregates[i].same_as == NULL;
    if (is_dense && other.node == from.node && other.index == from.index) c->same_as = &s->aggregates[i];
  }
  return NULL;
}

/* Sparse rows: values at n's input, row numbers at input `indices` of rows_of; of the variable of `update`.
 */
static weft_status_t *add_sparse(weft_ps_sync_t *s, const weft_node_t *update, const weft_node_t *n,
                                 int input, const weft_node_t *rows_of, int indices, int server, int degree) {
  const weft_shape_t *shape = variable_shape(s, update);
  bool is_indices = false;
  if (shape == NULL) return refuse(update, "the shape of its variable is not known");
  if (weft_ps_aggregate_of(s, n, input, &is_indices) != NULL) return NULL;
  weft_ps_aggregate_t *c = &s->aggregates[s->num_aggregates++];
  *c = (weft_ps_aggregate_t){.update = n,
                             .input = input,
                             .rows_of = rows_of,
                             .indices = indices,
                             .server = server,
                             .shape = *shape,
                             .dtype = (weft_dtype_t)weft_base_type_of(n->inputs[input]),
                             .scales = true,
                             .degree = degree};
  if (rows_of != update)
    c->shape.dims[0] = WEFT_UNKNOWN_DIM; /* row numbers of the whole variable, of which this may be a shard */
  if (c->dtype == WEFT_F32 || c->dtype == WEFT_F64 || c->dtype == WEFT_F16) return NULL;
  return refuse(n, "it depends on the batch, and only floating point values have a mean over workers");
}

/* The degree of the first sharded or partial value among the sources of n's input. */
static int degree_behind(const weft_ps_sync_t *s, weft_output_t o, int depth) {
  const weft_axis_sharding_t *sharding = sharding_of(s, o);
  if (sharding == NULL) return 1;
  if (sharding->kind == WEFT_SHARDING_SHARD || sharding->kind == WEFT_SHARDING_PARTIAL)
    return sharding->degree;
  for (int i = 0; i < o.node->num_inputs && depth < 16; i++) {
    if (!s->depends[o.node->inputs[i].node->id] ||
        weft_base_type_of(o.node->inputs[i]) != weft_base_type_of(o))
      continue;
    return degree_behind(s, o.node->inputs[i], depth + 1);
  }
  return 1;
}

/* A walk that moves nodes to the update's part, for one update. */
typedef struct side {
  weft_ps_sync_t *s;
  const weft_node_t *update;
  int server;
  bool is_moving; /* a move() further up empties s->todo */
} side_t;

static weft_status_t *bring(side_t *side, const weft_node_t *n, int input);
static weft_status_t *cut_rows(side_t *side, const weft_node_t *n, int input, const weft_node_t *rows_of,
                               int indices);

/* Moves n to the update's part, with the nodes that it depends on (by bring(), defined below). */
static weft_status_t *move(side_t *side, const weft_node_t *n) {
  weft_ps_sync_t *s = side->s;
  if (s->moved[n->id]) return NULL;
  s->moved[n->id] = true;
  s->home[n->id] = side->server;
  if ((n->flags & (WEFT_OP_SWITCH | WEFT_OP_MERGE | WEFT_OP_ENTER | WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION)) !=
      0) {
    return refuse(n, "a value that depends on the gradient of the whole batch passes through control flow");
  }
  s->todo[s->num_todo++] = n;
  if (side->is_moving) return NULL;
  side->is_moving = true;
  while (s->num_todo > 0) {
    const weft_node_t *at = s->todo[--s->num_todo];
    for (int i = 0; i < at->num_inputs; i++) WEFT_RETURN_IF_ERROR(bring(side, at, i));
  }
  side->is_moving = false;
  return NULL;
}

static weft_status_t *refuse_part(const weft_node_t *n, const weft_node_t *from,
                                  const weft_axis_sharding_t *sharding) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_axis_sharding_print(sharding, &text);
  weft_status_t *why = WEFT_ERROR(
      INVALID_ARGUMENT,
      "parameter_server: node '%.*s' (%.*s), which an update depends on, takes '%.*s', which is %s: "
      "workers hold only their part of it",
      WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name), WEFT_STR_ARGS(from->name),
      text.data == NULL ? "sharded" : text.data);
  weft_strbuf_deinit(&text);
  return why;
}

/* The ops that add up equal rows of all workers: Unique of the row numbers, UnsortedSegmentSum of the rows.
 * Rows from an accumulator are unique already, and both ops leave those unchanged. */
static weft_status_t *gather_rows(side_t *side, const weft_node_t *n, int input,
                                  const weft_axis_sharding_t *sharding) {
  const weft_placed_graph_t *l = &side->s->p->placed;
  const weft_node_t *sum = NULL, *unique = (n->flags & WEFT_OP_UNIQUE) != 0 ? n : NULL;
  for (int k = 0; k < l->num_nodes && unique != NULL && sum == NULL; k++) {
    const weft_node_t *c = l->order[k];
    bool adds = (c->flags & WEFT_OP_SEGMENT_SUM) != 0 && l->in_step[c->id];
    if (adds && c->inputs[1].node == unique && c->inputs[1].index == 1) sum = c;
  }
  if ((n->flags & WEFT_OP_SEGMENT_SUM) != 0 && input == 0 &&
      (n->inputs[1].node->flags & WEFT_OP_UNIQUE) != 0) {
    sum = n;
    unique = n->inputs[1].node;
  }
  if (sum == NULL || unique == NULL) return refuse_part(n, n->inputs[input].node, sharding);
  return cut_rows(side, sum, 0, unique, 0);
}

/* Makes input i of n available in the update's part, where n is. */
static weft_status_t *bring(side_t *side, const weft_node_t *n, int input) {
  weft_ps_sync_t *s = side->s;
  const weft_output_t from = n->inputs[input];
  bool is_indices = false;
  if (!s->depends[from.node->id] || weft_placed_is_update(from.node)) return NULL;
  if (weft_ps_aggregate_of(s, n, input, &is_indices) != NULL) return NULL;
  const weft_axis_sharding_t *sharding = sharding_of(s, from);
  if (s->num_aggregates == s->max_aggregates)
    return WEFT_ERROR(INTERNAL, "more aggregated values than edges at node '%.*s'", WEFT_STR_ARGS(n->name));
  if (sharding == NULL || weft_ps_is_source(s, from.node) || sharding->kind == WEFT_SHARDING_NONE) {
    return add_dense(s, n, input, side->server, sharding);
  }
  if (sharding->kind == WEFT_SHARDING_REPLICATE || is_local(s, from)) return move(side, from.node);
  if (sharding->kind == WEFT_SHARDING_PARTIAL) return add_dense(s, n, input, side->server, sharding);
  return sharding->kind == WEFT_SHARDING_SHARD ? gather_rows(side, n, input, sharding)
                                               : refuse_part(n, from.node, sharding);
}

/* Moves the nodes that partition row numbers by shard; returns the node with the original row numbers as
 * input. NULL: none. */
static const weft_node_t *move_route(side_t *side, const weft_node_t *n) {
  weft_ps_sync_t *s = side->s;
  const weft_node_t *entry = NULL;
  weft_output_t itself = {(weft_node_t *)n, 0};
  if (known_as(s, &itself) != NULL && itself.node == n) return NULL;
  s->moved[n->id] = true;
  s->home[n->id] = side->server;
  for (int i = 0; i < n->num_inputs; i++) {
    if (!s->depends[n->inputs[i].node->id]) continue;
    const weft_node_t *found = move_route(side, n->inputs[i].node);
    entry = found != NULL ? found : n;
  }
  return entry;
}

/* Finds the partition point of a sparse gradient: its values are n's input, its indices an input of rows_of.
 * Rows that are multiplied by a value of all workers (a clip by the global norm) are aggregated before that
 * multiplication; all else moves to the update's part. */
static weft_status_t *cut_rows(side_t *side, const weft_node_t *n, int input, const weft_node_t *rows_of,
                               int indices) {
  weft_ps_sync_t *s = side->s;
  const weft_node_t *m = n->inputs[input].node;
  int rows = -1;
  if (!is_local(s, n->inputs[input])) {
    return add_sparse(s, side->update, n, input, rows_of, indices, side->server,
                      degree_behind(s, n->inputs[input], 0));
  }
  bool deals_out = (m->flags & WEFT_OP_PARTITION) != 0;
  for (int i = 0; i < m->num_inputs; i++) {
    const weft_axis_sharding_t *sharding = sharding_of(s, m->inputs[i]);
    if (!s->depends[m->inputs[i].node->id] || sharding == NULL || sharding->kind != WEFT_SHARDING_SHARD)
      continue;
    if (deals_out && i == 1) continue;
    if (rows >= 0) return refuse_part(m, m->inputs[i].node, sharding);
    rows = i;
  }
  bool is_scaled =
      rows >= 0 && (m->flags & WEFT_OP_ELEMENTWISE) != 0 && (m->flags & WEFT_OP_LINEAR_IN(rows)) != 0;
  bool is_linear = deals_out || is_scaled || (rows == 0 && (m->flags & WEFT_OP_VIEW) != 0);
  if (rows < 0 || !is_linear) {
    return refuse(side->update, "its rows depend on the gradient of the whole batch in an unknown way");
  }
  s->moved[m->id] = true;
  s->home[m->id] = side->server;
  for (int i = 0; i < m->num_inputs; i++) {
    if (i != rows && !deals_out) WEFT_RETURN_IF_ERROR(bring(side, m, i));
  }
  if (deals_out) {
    const weft_node_t *entry = move_route(side, m->inputs[1].node);
    const weft_node_t *same = move_route(side, rows_of->inputs[indices].node);
    if (entry == NULL || same != entry)
      return refuse(side->update, "its rows are partitioned in an unknown way");
    rows_of = entry;
    indices = 0;
  }
  return cut_rows(side, m, rows, rows_of, indices);
}

static weft_status_t *cut_update(weft_ps_sync_t *s, const weft_node_t *n) {
  int indices = weft_placed_input_named(n, "indices"), grad = n->op->update_grad_input;
  side_t side = {s, n, s->p->placed.server_of[n->id]};
  bool is_sparse = indices >= 0 && grad >= 0 && s->depends[n->inputs[indices].node->id];
  if (is_sparse) {
    const weft_axis_sharding_t *rows = sharding_of(s, n->inputs[indices]);
    if (side.server < 0) return refuse(n, "it is no update of a variable on a server");
    if (!s->depends[n->inputs[grad].node->id])
      return refuse(n, "its rows depend on the batch, its values do not");
    WEFT_RETURN_IF_ERROR(check_rows(s, n));
    bool is_known_to_all =
        rows != NULL && rows->kind == WEFT_SHARDING_REPLICATE; /* rows were gathered, then made unique */
    if (!is_known_to_all) WEFT_RETURN_IF_ERROR(cut_rows(&side, n, grad, n, indices));
    if (is_known_to_all) WEFT_RETURN_IF_ERROR(bring(&side, n, indices));
  }
  for (int i = 0; i < n->num_inputs; i++) {
    bool is_indices = false;
    if (!s->depends[n->inputs[i].node->id] || (is_sparse && i == indices)) continue;
    if (weft_ps_aggregate_of(s, n, i, &is_indices) != NULL || (is_sparse && s->moved[n->inputs[i].node->id]))
      continue;
    if (side.server < 0) return refuse(n, "it is no update of a variable on a server");
    if (i != grad && shape_of(n->inputs[i]).rank != 0)
      return refuse(n, "more than its gradient depends on the batch");
    WEFT_RETURN_IF_ERROR(bring(&side, n, i));
  }
  return NULL;
}

/* A gradient is aggregated on the server of the update that applies it, not where its norm is required. */
static void choose_homes(weft_ps_sync_t *s) {
  for (int i = 0; i < s->num_aggregates; i++) {
    weft_ps_aggregate_t *c = &s->aggregates[i];
    if (c->indices >= 0) continue;
    weft_ps_aggregate_t *first = c->same_as == NULL ? c : &s->aggregates[c->same_as - s->aggregates];
    weft_shape_t made =
        c->update->num_outputs > 0 ? shape_of((weft_output_t){(weft_node_t *)c->update, 0}) : WEFT_SCALAR;
    if (weft_placed_is_update(c->update) || weft_shape_eq(&made, &c->shape)) first->server = c->server;
  }
  for (int i = 0; i < s->num_aggregates; i++) {
    const weft_ps_aggregate_t *c = &s->aggregates[i];
    if (s->moved[c->update->id]) s->home[c->update->id] = c->same_as == NULL ? c->server : c->same_as->server;
  }
}

/* How many conditionals a node stands in, by id: it may be dead if there are any. */
static int *find_branches(weft_ps_sync_t *s) {
  const weft_placed_graph_t *l = &s->p->placed;
  int *branches = weft_arena_calloc(&s->p->placed.arena, (size_t)l->g->num_nodes + 1, sizeof *branches);
  for (int k = 0; k < 2 * l->num_nodes && branches != NULL; k++) { /* twice, for loops */
    const weft_node_t *n = l->order[k % l->num_nodes];
    int around = 0;
    for (int i = 0; i < n->num_inputs + n->num_controls; i++) {
      int of = branches[i < n->num_inputs ? n->inputs[i].node->id : n->controls[i - n->num_inputs]->id];
      around = of > around ? of : around;
    }
    if ((n->flags & WEFT_OP_SWITCH) != 0) around++;
    if ((n->flags & (WEFT_OP_MERGE | WEFT_OP_EXIT)) != 0 && around > 0) around--;
    branches[n->id] = around;
  }
  return branches;
}

static weft_status_t *cut_updates(weft_ps_sync_t *s) {
  const weft_placed_graph_t *l = &s->p->placed;
  const int *branches = find_branches(s);
  if (branches == NULL) return no_memory();
  s->num_aggregates = s->num_updates = 0;
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    if (!l->in_step[n->id] || !weft_placed_is_update(n)) continue;
    s->num_updates++;
    if (branches[n->id] > 0) {
      return refuse(
          n,
          "it is inside a conditional, and the step would wait for ever where the branch is not taken; "
          "workers that share each batch "
          "(mode=sync without backup and split) can make it");
    }
    WEFT_RETURN_IF_ERROR(cut_update(s, n));
  }
  choose_homes(s);
  if (s->num_aggregates > 0) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "parameter_server: mode=sync needs a training step: nothing that is fetched or run updates a variable "
      "from what is fed");
}

weft_status_t *weft_ps_find_aggregates(weft_ps_sync_t *s) {
  const weft_placed_graph_t *l = &s->p->placed;
  for (int k = 0; k < l->num_nodes; k++) s->max_aggregates += l->order[k]->num_inputs;
  s->aggregates = weft_arena_calloc(&s->p->out->arena, (size_t)s->max_aggregates + 1, sizeof *s->aggregates);
  if (s->aggregates == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(find_local(s));
  weft_status_t *status = cut_updates(s);
  if (status == NULL || s->p->data.graph == NULL || weft_status_code(status) != WEFT_INVALID_ARGUMENT)
    return status;
  /* Workers with batches of their own may use local batch statistics: their gradients are averaged unchanged.
   */
  weft_status_t *noted = weft_rewrite_note(s->p->out, "gradients are averaged at the inputs of updates: %s",
                                           weft_status_message(status));
  weft_status_free(status);
  if (noted != NULL) return noted;
  memset(s->moved, 0, ((size_t)l->g->num_nodes + 1) * sizeof *s->moved);
  s->ignores_sharding = true;
  return cut_updates(s);
}

weft_ps_aggregate_t *weft_ps_aggregate_of(weft_ps_sync_t *s, const weft_node_t *update, int input,
                                          bool *is_indices) {
  for (int i = 0; i < s->num_aggregates; i++) {
    weft_ps_aggregate_t *c = &s->aggregates[i];
    *is_indices = c->indices >= 0 && c->rows_of == update && c->indices == input;
    if (*is_indices || (c->update == update && c->input == input)) return c;
  }
  return NULL;
}
