/* strategies/parameter_server_sync.c - one update for the gradients of all workers.
 *
 *   worker i     token(step) -> read, compute -> push(gradient, step)          parameter_server_push.c
 *   update       take(mean of W - backup) -> apply -> step + 1 -> W tokens     here
 *
 * The graph is partitioned at the inputs of updates that depend on a worker's batch
 * (parameter_server_aggregates.c). The graph under its own names is the update's part; its forward pass stays
 * there for evaluation. Each worker has a token queue of its own and takes the newest token, so that a slow
 * worker continues with the current step and computes at most once per step. Gradients of an older step are
 * dropped.
 *
 * With backup workers an update applies exactly W - backup gradients, those of the same workers for every
 * variable. A worker announces its arrival by a one-hot vector in an accumulator, which drops late ones; the
 * update picks the first arrivals and sends each worker a verdict. A worker that was not picked drops its
 * gradient, which `dropped` counts.
 *
 * Source: TensorFlow's SyncReplicasOptimizer; reference 3.3. It has one queue of tokens,
 * which lets a fast worker take two of a step and feeds it stale ones later, and
 * averages k or more gradients per variable. Weft differs in both.
 */
#include "strategies/parameter_server_sync.h"

#include "base/alloc.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("building a synchronous update"); }

/* ---- which side computes what ---- */

static weft_status_t *mark(weft_ps_sync_t *s) {
  const weft_placed_graph_t *l = &s->p->placed;
  const weft_names_t *feeds = &s->p->request->feeds;
  for (int i = 0; i < feeds->n; i++) {
    weft_output_t of;
    WEFT_RETURN_IF_ERROR(weft_placed_find(l->g, feeds->items[i], "feed", &of));
    s->depends[of.node->id] = true;
  }
  for (int round = 0; round < 2; round++) { /* the second for what comes round loops */
    for (int k = 0; k < l->num_nodes; k++) {
      const weft_node_t *n = l->order[k];
      if (!l->in_step[n->id]) continue;
      bool depends = s->depends[n->id] || weft_ps_is_source(s, n), follows = weft_placed_is_update(n),
           waits = follows;
      for (int i = 0; i < n->num_inputs; i++) {
        depends = depends || s->depends[n->inputs[i].node->id];
        follows = follows || s->follows[n->inputs[i].node->id];
        waits = waits || s->waits[n->inputs[i].node->id];
      }
      for (int i = 0; i < n->num_controls; i++) {
        depends = depends || s->depends[n->controls[i]->id];
        waits = waits || s->waits[n->controls[i]->id];
      }
      s->depends[n->id] = depends && !weft_placed_is_update(n);
      s->follows[n->id] = follows;
      s->waits[n->id] = waits || follows;
    }
  }
  return NULL;
}

/* ---- state on the servers ---- */

static weft_str_t joined(weft_ps_sync_t *s, const char *before, weft_str_t name, const char *after,
                         int number) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&b, before);
  weft_strbuf_append(&b, name);
  weft_strbuf_puts(&b, after);
  if (number >= 0) weft_strbuf_printf(&b, "%d", number);
  weft_str_t out = {NULL, 0};
  if (!b.failed) out = weft_arena_str(&s->p->out->arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  if (out.data == NULL) weft_emitter_fail(&s->b, no_memory());
  return out;
}

static weft_output_t make_accumulator(weft_ps_sync_t *s, weft_str_t name, weft_dtype_t dtype,
                                      const weft_shape_t *shape, bool is_sparse, bool is_sum) {
  const weft_named_attr_t attrs[4] = {
      weft_type_attr("dtype", (int)dtype), weft_shape_attr("shape", shape), weft_ps_shared_name(s->p, name),
      weft_text_attr("reduction_type", is_sum ? WEFT_STR("SUM") : WEFT_STR("MEAN"))};
  return weft_emit(&s->b, is_sparse ? "SparseConditionalAccumulator" : "ConditionalAccumulator", NULL, 0,
                   attrs, 4, "%.*s", WEFT_STR_ARGS(name));
}

/* The sum of rows is divided by the number of workers, while a sparse mean would divide each row by the
 * number of workers that have it. */
static void take_sparse(weft_ps_sync_t *s, weft_ps_aggregate_t *c, weft_output_t required) {
  const weft_named_attr_t dtype = weft_type_attr("dtype", (int)c->dtype);
  const weft_output_t in[2] = {c->accumulator, required};
  weft_output_t taken = weft_emit(&s->b, "SparseAccumulatorTakeGradient", in, 2, &dtype, 1,
                                  "parameter_server/take/%.*s", WEFT_STR_ARGS(c->update->name));
  if (s->b.s != NULL) return;
  weft_output_t number = weft_emit_number(&s->b, (int)c->dtype, s->required, "parameter_server/workers");
  c->mean = weft_emit2(&s->b, "RealDiv", (weft_output_t){taken.node, 1}, number, "parameter_server/mean");
  c->rows = weft_emit_cast(&s->b, taken, weft_dtype_base(c->rows_of->input_types[c->indices]),
                           "parameter_server/rows");
}

static void make_cut(weft_ps_sync_t *s, weft_ps_aggregate_t *c, int number) {
  const weft_named_attr_t dtype = weft_type_attr("dtype", (int)c->dtype);
  weft_str_t home = s->b.device;
  s->b.device = s->p->places.servers[c->server];
  weft_str_t name = joined(s, "parameter_server/", c->update->name, "/sum_", number);
  c->accumulator = make_accumulator(s, name, c->dtype, &c->shape, c->indices >= 0, c->indices >= 0);
  weft_output_t required = weft_emit_int(&s->b, WEFT_I32, s->required, "parameter_server/required");
  if (c->indices >= 0) {
    take_sparse(s, c, required);
  } else {
    const weft_output_t in[2] = {c->accumulator, required};
    c->mean = weft_emit(&s->b, "AccumulatorTakeGradient", in, 2, &dtype, 1, "parameter_server/take/%.*s",
                        WEFT_STR_ARGS(c->update->name));
  }
  s->b.device = home;
}

static weft_output_t make_counter(weft_ps_sync_t *s, const char *name) {
  const weft_shape_t scalar = WEFT_SCALAR;
  const weft_named_attr_t attrs[3] = {weft_type_attr("dtype", WEFT_I64), weft_shape_attr("shape", &scalar),
                                      weft_text_attr("shared_name", weft_str(name))};
  return weft_emit(&s->b, "VarHandleOp", NULL, 0, attrs, 3, "%s", name);
}

static weft_output_t make_queue(weft_ps_sync_t *s, const char *name, int worker, int num_components) {
  static const int types[2] = {WEFT_I64, WEFT_I64};
  const weft_shape_t shapes[2] = {WEFT_SCALAR, WEFT_SCALAR};
  weft_str_t full = joined(s, "parameter_server/", weft_str(name), "_", worker);
  weft_named_attr_t attrs[3] = {
      {WEFT_STR("component_types"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = num_components}},
      {WEFT_STR("shapes"), {.kind = WEFT_ATTR_SHAPE, .is_list = true, .n = num_components}},
      weft_ps_shared_name(s->p, full)};
  attrs[0].value.list.types = types;
  attrs[1].value.list.shapes = shapes;
  return weft_emit(&s->b, "FIFOQueueV2", NULL, 0, attrs, 3, "%.*s", WEFT_STR_ARGS(full));
}

static weft_status_t *make_state(weft_ps_sync_t *s) {
  int n = s->p->places.num_workers;
  const weft_shape_t workers = weft_shape_vector(n);
  s->tokens = weft_arena_calloc(&s->p->out->arena, (size_t)n, sizeof *s->tokens);
  s->verdicts = weft_arena_calloc(&s->p->out->arena, (size_t)n, sizeof *s->verdicts);
  if (s->tokens == NULL || s->verdicts == NULL) return no_memory();
  s->step = make_counter(s, "parameter_server/step");
  for (int i = 0; i < n; i++) s->tokens[i] = make_queue(s, "tokens", i, 1);
  for (int i = 0; i < s->num_aggregates; i++) {
    weft_ps_aggregate_t *c = &s->aggregates[i];
    if (c->same_as == NULL) make_cut(s, c, c->input);
    if (c->same_as != NULL) c->mean = c->same_as->mean; /* an earlier one */
  }
  if (s->p->options.backup > 0) {
    s->dropped = make_counter(s, "parameter_server/dropped");
    s->arrivals = make_accumulator(s, WEFT_STR("parameter_server/arrivals"), WEFT_F32, &workers, false, true);
    for (int i = 0; i < n; i++) s->verdicts[i] = make_queue(s, "verdicts", i, 2);
  }
  return weft_emitter_end(&s->b);
}

/* ---- init ---- */

static const weft_named_attr_t *types_attr(weft_named_attr_t *to, const char *name, int n) {
  static const int types[2] = {WEFT_I64, WEFT_I64};
  *to = (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = n}};
  to->value.list.types = types;
  return to;
}

/* Discards the elements that an earlier run has left in a queue. */
static weft_node_t *drain(weft_ps_sync_t *s, weft_output_t queue, int num_components) {
  weft_named_attr_t types;
  const weft_output_t in[2] = {queue, weft_emit1(&s->b, "QueueSizeV2", queue, "parameter_server/init/left")};
  return weft_emit(&s->b, "QueueDequeueManyV2", in, 2, types_attr(&types, "component_types", num_components),
                   1, "parameter_server/init/drain")
      .node;
}

/* The same for an accumulator: something is added, so that taking does not wait. Its step is 0 afterwards. */
static weft_node_t *reset_accumulator(weft_ps_sync_t *s, weft_output_t sums, weft_dtype_t dtype,
                                      const weft_shape_t *shape, bool is_sparse) {
  weft_emitter_t *b = &s->b;
  const weft_named_attr_t type = weft_type_attr("dtype", (int)dtype);
  weft_output_t last = weft_emit_int(b, WEFT_I64, INT64_MAX, "parameter_server/init/last"), taken = {NULL, 0};
  weft_node_t *applied = NULL;
  weft_shape_t some = *shape;
  if (is_sparse && some.rank > 0) some.dims[0] = 0;
  if (weft_shape_is_known(&some)) {
    weft_output_t dims = weft_emit_ints(b, WEFT_I64, some.dims, some.rank, "parameter_server/init/shape");
    weft_output_t zeros =
        weft_emit2(b, "Fill", dims, weft_emit_number(b, (int)dtype, 0, "parameter_server/init/zero"),
                   "parameter_server/init/zeros");
    weft_output_t rows = weft_emit_ints(b, WEFT_I64, NULL, 0, "parameter_server/init/rows");
    const weft_named_attr_t unknown[2] = {type, weft_bool_attr("has_known_shape", false)};
    const weft_output_t dense[3] = {sums, last, zeros}, sparse[5] = {sums, last, rows, zeros, dims};
    applied = is_sparse ? weft_emit(b, "SparseAccumulatorApplyGradient", sparse, 5, unknown, 2,
                                    "parameter_server/init/apply")
                              .node
                        : weft_emit(b, "AccumulatorApplyGradient", dense, 3, &type, 1,
                                    "parameter_server/init/apply")
                              .node;
    const weft_output_t in[2] = {sums, weft_emit_int(b, WEFT_I32, 1, "parameter_server/init/one")};
    taken = weft_emit(b, is_sparse ? "SparseAccumulatorTakeGradient" : "AccumulatorTakeGradient", in, 2,
                      &type, 1, "parameter_server/init/take");
    weft_emit_control(b, applied, taken.node);
  }
  weft_node_t *set = weft_emit2(b, "AccumulatorSetGlobalStep", sums,
                                weft_emit_int(b, WEFT_I64, 0, "parameter_server/init/step"),
                                "parameter_server/init/set_step")
                         .node;
  weft_emit_control(b, taken.node, set);
  return set;
}

static weft_output_t assign(weft_ps_sync_t *s, weft_output_t variable, weft_output_t value) {
  const weft_output_t in[2] = {variable, value};
  const weft_named_attr_t dtype = weft_type_attr("dtype", WEFT_I64);
  return weft_emit(&s->b, "AssignVariableOp", in, 2, &dtype, 1, "parameter_server/init/assign");
}

static weft_node_t *enqueue(weft_ps_sync_t *s, const char *name, weft_output_t queue,
                            const weft_output_t *values, int n) {
  weft_named_attr_t types;
  weft_output_t in[3] = {queue};
  for (int i = 0; i < n; i++) in[i + 1] = values[i];
  return weft_emit(&s->b, "QueueEnqueueV2", in, n + 1, types_attr(&types, "Tcomponents", n), 1, "%s", name)
      .node;
}

static weft_node_t *make_init(weft_ps_sync_t *s) {
  weft_emitter_t *b = &s->b;
  weft_output_t zero = weft_emit_int(b, WEFT_I64, 0, "parameter_server/init/zero");
  weft_node_t *cleared = weft_emit_noop(b, NULL, 0, "parameter_server/init/cleared");
  weft_node_t *init = weft_emit_noop(b, NULL, 0, "parameter_server/init");
  weft_emit_control(b, assign(s, s->step, zero).node, cleared);
  if (s->p->options.backup > 0) weft_emit_control(b, assign(s, s->dropped, zero).node, cleared);
  weft_str_t home = b->device;
  for (int i = 0; i < s->num_aggregates; i++) {
    const weft_ps_aggregate_t *c = &s->aggregates[i];
    if (c->same_as != NULL) continue;
    b->device = s->p->places.servers[c->server];
    weft_emit_control(b, reset_accumulator(s, c->accumulator, c->dtype, &c->shape, c->indices >= 0), cleared);
  }
  b->device = home;
  if (s->p->options.backup > 0) {
    const weft_shape_t workers = weft_shape_vector(s->p->places.num_workers);
    weft_emit_control(b, reset_accumulator(s, s->arrivals, WEFT_F32, &workers, false), cleared);
  }
  for (int i = 0; i < s->p->places.num_workers; i++) {
    weft_emit_control(b, drain(s, s->tokens[i], 1), cleared);
    if (s->p->options.backup > 0) weft_emit_control(b, drain(s, s->verdicts[i], 2), cleared);
    weft_node_t *token = enqueue(s, "parameter_server/init/token", s->tokens[i], &zero, 1);
    weft_emit_control(b, cleared, token);
    weft_emit_control(b, token, init);
  }
  return init;
}

/* ---- the update ---- */

/* Picks the required number of workers among the arrivals; ties rotate with the step. */
static void tell_verdicts(weft_ps_sync_t *s, weft_node_t *done) {
  weft_emitter_t *b = &s->b;
  int64_t n = s->p->places.num_workers, all[1] = {0};
  int64_t *numbers = weft_arena_calloc(&s->p->out->arena, (size_t)n, sizeof *numbers);
  if (numbers == NULL) weft_emitter_fail(b, no_memory());
  for (int64_t i = 0; numbers != NULL && i < n; i++) numbers[i] = i;
  b->scope = WEFT_STR("parameter_server/pick/");
  const weft_named_attr_t f32 = weft_type_attr("dtype", WEFT_F32), i64 = weft_type_attr("dtype", WEFT_I64);
  weft_output_t k = weft_emit_int(b, WEFT_I32, s->required, "required");
  const weft_output_t take[2] = {s->arrivals, k};
  weft_output_t came = weft_emit(b, "AccumulatorTakeGradient", take, 2, &f32, 1, "came");
  weft_output_t step = weft_emit(b, "ReadVariableOp", &s->step, 1, &i64, 1, "step");
  weft_output_t turn =
      weft_emit2(b, "AddV2", weft_emit_ints(b, WEFT_I64, numbers, (int)n, "numbers"), step, "turns");
  turn = weft_emit2(b, "FloorMod", turn, weft_emit_int(b, WEFT_I64, n, "workers"), "turn");
  turn = weft_emit2(b, "AddV2", weft_emit_cast(b, turn, WEFT_F32, "turn_f"),
                    weft_emit_number(b, WEFT_F32, 1, "one"), "rank");
  weft_output_t best = weft_emit2(b, "TopKV2", weft_emit2(b, "Mul", came, turn, "score"), k, "best");
  if (b->s != NULL) return;
  const weft_output_t hot[4] = {{best.node, 1},
                                weft_emit_int(b, WEFT_I32, n, "depth"),
                                weft_emit_int(b, WEFT_I64, 1, "on"),
                                weft_emit_int(b, WEFT_I64, 0, "off")};
  weft_output_t picked = weft_emit(b, "OneHot", hot, 4, NULL, 0, "hot");
  picked = weft_emit2(b, "Sum", picked, weft_emit_ints(b, WEFT_I32, all, 1, "axis"), "picked");
  const weft_named_attr_t parts[2] = {weft_int_attr("num", n), weft_int_attr("axis", 0)};
  weft_output_t each = weft_emit(b, "Unpack", &picked, 1, parts, 2, "each");
  for (int64_t i = 0; i < n && b->s == NULL; i++) {
    const weft_output_t values[2] = {step, {each.node, (int)i}};
    weft_emit_control(b, enqueue(s, "verdict", s->verdicts[i], values, 2), done);
  }
  b->scope = WEFT_STR("");
  weft_emit_control(b, each.node, done); /* the step is read before it is advanced */
}

static weft_node_t *make_update(weft_ps_sync_t *s, const weft_placed_copier_t *base) {
  weft_emitter_t *b = &s->b;
  const weft_named_attr_t dtype = weft_type_attr("dtype", WEFT_I64);
  weft_node_t *applied = weft_emit_noop(b, NULL, 0, "parameter_server/applied");
  for (int k = 0; k < s->p->placed.num_nodes; k++) {
    const weft_node_t *n = s->p->placed.order[k];
    if (s->p->placed.in_step[n->id] && weft_placed_is_update(n))
      weft_emit_control(b, base->copier.nodes[n->id], applied);
  }
  if (s->p->options.backup > 0) tell_verdicts(s, applied);
  const weft_output_t in[2] = {s->step, weft_emit_int(b, WEFT_I64, 1, "parameter_server/one")};
  weft_output_t add = weft_emit(b, "AssignAddVariableOp", in, 2, &dtype, 1, "parameter_server/advance");
  weft_emit_control(b, applied, add.node);
  weft_output_t now = weft_emit(b, "ReadVariableOp", &s->step, 1, &dtype, 1, "parameter_server/now");
  weft_emit_control(b, add.node, now.node);
  if (s->p->options.backup > 0)
    weft_emit(b, "ReadVariableOp", &s->dropped, 1, &dtype, 1, "parameter_server/dropped_now");
  weft_node_t *update = weft_emit_noop(b, NULL, 0, "parameter_server/update");
  for (int i = 0; i < s->p->places.num_workers; i++) {
    weft_emit_control(b, enqueue(s, "parameter_server/token", s->tokens[i], &now, 1), update);
  }
  return update;
}

/* ---- the graph under its own names ---- */

/* The control inputs of an update in place of n: the updates among n's ancestors. */
static weft_node_t *side_of(weft_ps_sync_t *s, const weft_placed_copier_t *base, weft_node_t **sides,
                            const weft_node_t *n) {
  if (!s->depends[n->id]) return base->copier.nodes[n->id];
  if (!s->waits[n->id]) return NULL; /* workers have done it before they pushed */
  if (sides[n->id] != NULL) return sides[n->id];
  sides[n->id] = weft_emit_noop(&s->b, NULL, 0, "parameter_server/after");
  if (sides[n->id] != NULL) s->todo[s->num_todo++] = n;
  return sides[n->id];
}

static weft_node_t *update_side(weft_ps_sync_t *s, const weft_placed_copier_t *base, weft_node_t **sides,
                                const weft_node_t *n) {
  weft_node_t *side = side_of(s, base, sides, n);
  while (s->num_todo > 0 && s->b.s == NULL) {
    const weft_node_t *at = s->todo[--s->num_todo];
    for (int i = 0; i < at->num_inputs + at->num_controls; i++) {
      const weft_node_t *p = i < at->num_inputs ? at->inputs[i].node : at->controls[i - at->num_inputs];
      weft_emit_control(&s->b, side_of(s, base, sides, p), sides[at->id]);
    }
  }
  return side;
}

static weft_status_t *copy_update(weft_ps_sync_t *s, weft_placed_copier_t *base, weft_node_t **sides,
                                  const weft_node_t *n) {
  weft_node_t like = *n, *copy = NULL; /* without control inputs: they are chosen below */
  like.num_controls = 0;
  WEFT_RETURN_IF_ERROR(weft_placed_copy(base, &like, &copy));
  for (int i = 0; i < n->num_inputs; i++) {
    bool is_indices = false;
    const weft_ps_aggregate_t *c = weft_ps_aggregate_of(s, n, i, &is_indices);
    if (c != NULL) weft_graph_set_input(copy, i, is_indices ? c->rows : c->mean);
  }
  for (int i = 0; i < n->num_controls; i++)
    weft_emit_control(&s->b, update_side(s, base, sides, n->controls[i]), copy);
  if (s->moved[n->id])
    copy->requested_device = weft_graph_intern(s->p->out->graph, s->p->places.servers[s->home[n->id]]);
  return copy->requested_device.data == NULL ? no_memory() : weft_emitter_end(&s->b);
}

/* In the step, nodes that do not depend on the batch belong to the update's part: on a server, unless only
 * workers use them. */
static weft_status_t *copy_base(weft_ps_sync_t *s, weft_placed_copier_t *base) {
  const weft_placed_graph_t *l = &s->p->placed;
  weft_node_t **sides = weft_calloc((size_t)l->g->num_nodes + 1, sizeof(*sides));
  weft_status_t *status = sides == NULL ? no_memory() : NULL;
  for (int k = 0; k < l->num_nodes && status == NULL; k++) {
    const weft_node_t *n = l->order[k];
    weft_node_t *copy = NULL;
    bool is_constant = (n->flags & WEFT_OP_CONST) != 0; /* moved later to the device of its consumers */
    base->worker = l->in_step[n->id] && !s->depends[n->id] && !is_constant ? -1 : 0;
    bool follows = l->in_step[n->id] && (weft_placed_is_update(n) || s->moved[n->id]);
    status = follows ? copy_update(s, base, sides, n) : weft_placed_copy(base, n, &copy);
  }
  weft_free(sides);
  return status != NULL ? status : weft_copier_finish(&base->copier);
}

static weft_status_t *fill(weft_ps_sync_t *s) {
  weft_placed_copier_t base;
  weft_ps_t *p = s->p;
  weft_node_t *init = NULL, *update = NULL;
  WEFT_RETURN_IF_ERROR(mark(s));
  WEFT_RETURN_IF_ERROR(weft_ps_find_data(p));
  WEFT_RETURN_IF_ERROR(weft_ps_find_aggregates(s));
  p->out->in_step = p->options.backup == 0;
  WEFT_RETURN_IF_ERROR(make_state(s));
  WEFT_RETURN_IF_ERROR(
      weft_placed_copier_init(&base, &p->placed, p->out->graph, &p->places, 0, WEFT_STR("")));
  weft_status_t *status = copy_base(s, &base);
  if (status == NULL) init = make_init(s);
  if (status == NULL) update = make_update(s, &base);
  if (status == NULL) status = weft_emitter_end(&s->b);
  if (status == NULL) status = weft_ps_set_inits(p, &base.copier, init);
  for (int i = 0; i < p->places.num_workers && status == NULL; i++)
    status = weft_ps_build_worker(s, &base, i);
  if (status == NULL) status = weft_ps_add_loop(p, -1, NULL, update);
  weft_placed_copier_deinit(&base);
  return status;
}

weft_status_t *weft_ps_build_sync(weft_ps_t *p) {
  size_t n = (size_t)p->source->num_nodes + 1;
  weft_ps_sync_t s = {.p = p,
                      .b = {.g = p->out->graph, .device = p->places.servers[0]},
                      .required = p->places.num_workers - p->options.backup};
  s.depends = weft_arena_calloc(&p->placed.arena, n, sizeof *s.depends);
  s.follows = weft_arena_calloc(&p->placed.arena, n, sizeof *s.follows);
  s.waits = weft_arena_calloc(&p->placed.arena, n, sizeof *s.waits);
  s.moved = weft_arena_calloc(&p->placed.arena, n, sizeof *s.moved);
  s.home = weft_arena_calloc(&p->placed.arena, n, sizeof *s.home);
  s.todo = weft_arena_calloc(&p->placed.arena, n, sizeof(*s.todo));
  if (s.depends == NULL || s.follows == NULL || s.waits == NULL || s.moved == NULL || s.home == NULL ||
      s.todo == NULL)
    return no_memory();
  weft_status_t *status = fill(&s);
  return weft_status_join(status, weft_emitter_end(&s.b));
}
