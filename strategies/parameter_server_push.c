/* strategies/parameter_server_push.c - a worker's side of a synchronous update: token, compute, push. */
#include <math.h>

#include "base/alloc.h"
#include "strategies/parameter_server_sync.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("building a worker's step"); }

typedef struct push_loop {
  weft_ps_sync_t *s;
  weft_placed_copier_t c;
  weft_emitter_t b;       /* on server 0, names under "worker_i/parameter_server/" */
  weft_output_t token;    /* int64: the step */
  weft_output_t admitted; /* bool, with backup workers: will this worker's gradients be applied? */
  weft_node_t *arrive;    /* with backup workers: announces that all gradients are ready */
  weft_node_t *pushed;    /* with backup workers: all pushes are done, or were skipped */
} push_loop_t;

/* ---- tokens ---- */

static const weft_named_attr_t *types_attr(weft_named_attr_t *to, int n) {
  static const int types[2] = {WEFT_I64, WEFT_I64};
  *to = (weft_named_attr_t){WEFT_STR("component_types"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = n}};
  to->value.list.types = types;
  return to;
}

/* The newest token. Only this worker dequeues from its queue, so the queue still holds at least QueueSize
 * elements. */
static void add_token(push_loop_t *loop, int worker) {
  weft_emitter_t *b = &loop->b;
  const int64_t all[1] = {0};
  weft_named_attr_t types;
  weft_output_t queue = loop->s->tokens[worker];
  weft_output_t n = weft_emit1(b, "QueueSizeV2", queue, "tokens");
  n = weft_emit2(b, "Maximum", n, weft_emit_int(b, WEFT_I32, 1, "one"), "take");
  const weft_output_t in[2] = {queue, n};
  weft_output_t tokens = weft_emit(b, "QueueDequeueManyV2", in, 2, types_attr(&types, 1), 1, "wait");
  loop->token = weft_emit2(b, "Max", tokens, weft_emit_ints(b, WEFT_I32, all, 1, "all"), "token");
  loop->c.gate = loop->token.node;
}

/* ---- parts of a batch ---- */

/* (1 / W)^power, times `times`: the weight of one worker's batch among the W equal batches of an update. */
static weft_output_t part_of_rows(push_loop_t *loop, weft_dtype_t dtype, int power, double times) {
  return weft_emit_number(&loop->b, (int)dtype, times * pow(1.0 / loop->s->required, power), "factor");
}

/* Scales a value so that the mean over W workers is the value of all their batches: degree d needs the factor
 * W * (1 / W)^d. */
static weft_output_t scaled(push_loop_t *loop, const weft_ps_aggregate_t *c, weft_output_t value) {
  if (!c->scales || c->degree == 1 || loop->b.s != NULL) return value;
  return weft_emit2(&loop->b, "Mul", value, part_of_rows(loop, c->dtype, c->degree, loop->s->required),
                    "shared");
}

/* ---- pushes ---- */

/* `value` behind a Switch that drops it when the worker is not admitted. */
static weft_output_t if_admitted(push_loop_t *loop, weft_output_t value) {
  if (loop->s->p->options.backup == 0 || loop->b.s != NULL) return value;
  weft_output_t both = weft_emit2(&loop->b, "Switch", value, loop->admitted, "admit");
  return (weft_output_t){both.node, 1};
}

static weft_node_t *push_dense(push_loop_t *loop, const weft_ps_aggregate_t *c, weft_output_t value,
                               weft_str_t server) {
  const weft_named_attr_t dtype = weft_type_attr("dtype", (int)c->dtype);
  const weft_output_t in[3] = {c->accumulator, loop->token, if_admitted(loop, value)};
  loop->b.device = server;
  return weft_emit(&loop->b, "AccumulatorApplyGradient", in, 3, &dtype, 1, "%.*s",
                   WEFT_STR_ARGS(c->update->name))
      .node;
}

/* Sparse accumulators expect unique row numbers in rising order. */
static weft_node_t *push_sparse(push_loop_t *loop, const weft_ps_aggregate_t *c, weft_output_t value,
                                weft_output_t rows, weft_str_t server) {
  weft_emitter_t *b = &loop->b;
  weft_shape_t row = c->shape;
  const int64_t any = -1;
  row.dims[0] = -1;
  value = weft_emit2(b, "Reshape", value, weft_emit_ints(b, WEFT_I32, row.dims, row.rank, "values_shape"),
                     "values");
  rows = weft_emit2(b, "Reshape", rows, weft_emit_ints(b, WEFT_I32, &any, 1, "rows_shape"), "rows");
  weft_output_t once = weft_emit1(b, "Unique", weft_emit_cast(b, rows, WEFT_I64, "rows64"), "once");
  if (b->s != NULL) return NULL;
  weft_output_t n = weft_emit1(b, "Size", once, "num_rows"), axis = weft_emit_int(b, WEFT_I32, 0, "axis");
  weft_output_t sums = weft_emit3(b, "UnsortedSegmentSum", value, (weft_output_t){once.node, 1}, n, "sums");
  weft_output_t order = weft_emit2(b, "TopKV2", weft_emit1(b, "Neg", once, "falling"), n, "order");
  if (b->s != NULL) return NULL;
  order.index = 1;
  const weft_named_attr_t attrs[2] = {weft_type_attr("dtype", (int)c->dtype),
                                      weft_bool_attr("has_known_shape", c->shape.dims[0] >= 0)};
  weft_output_t in[5] = {c->accumulator, loop->token};
  in[2] = if_admitted(loop, weft_emit3(b, "GatherV2", once, order, axis, "sorted"));
  in[3] = if_admitted(loop, weft_emit3(b, "GatherV2", sums, order, axis, "sorted_values"));
  in[4] = weft_emit_ints(b, WEFT_I64, c->shape.dims, c->shape.rank, "shape");
  b->device = server;
  return weft_emit(b, "SparseAccumulatorApplyGradient", in, 5, attrs, 2, "%.*s",
                   WEFT_STR_ARGS(c->update->name))
      .node;
}

/* Pushes the worker's gradient into the accumulator of `c`. */
static weft_node_t *push(push_loop_t *loop, const weft_ps_aggregate_t *c) {
  weft_emitter_t *b = &loop->b;
  weft_str_t home = b->device;
  weft_output_t value = weft_copier_output(&loop->c.copier, c->update->inputs[c->input]);
  if (value.node == NULL) {
    weft_emitter_fail(
        b, WEFT_ERROR(INVALID_ARGUMENT,
                      "parameter_server: the update '%.*s' takes the result of another update, '%.*s', and a "
                      "value that workers compute: they cannot be made synchronously",
                      WEFT_STR_ARGS(c->update->name), WEFT_STR_ARGS(c->update->inputs[c->input].node->name)));
    return NULL;
  }
  b->device = loop->s->p->places.workers[loop->c.worker];
  if (loop->arrive != NULL) weft_emit_control(b, value.node, loop->arrive);
  value = scaled(loop, c, value);
  weft_str_t server = loop->s->p->places.servers[c->server];
  weft_node_t *out =
      c->indices < 0
          ? push_dense(loop, c, value, server)
          : push_sparse(loop, c, value, weft_copier_output(&loop->c.copier, c->rows_of->inputs[c->indices]),
                        server);
  b->device = home;
  if (loop->pushed != NULL) weft_emit_control(b, out, loop->pushed);
  return out;
}

/* ---- the copy ---- */

/* A NoOp in place of node n for control edges: it waits for the replacements of n's inputs. */
static weft_node_t *stand(push_loop_t *loop, const weft_node_t *n) {
  weft_node_t *out = weft_emit_noop(&loop->b, NULL, 0, "%.*s", WEFT_STR_ARGS(n->name));
  bool is_update = weft_placed_is_update(n);
  for (int i = 0; i < n->num_controls; i++)
    weft_emit_control(&loop->b, loop->c.copier.nodes[n->controls[i]->id], out);
  for (int i = 0; i < n->num_inputs && !is_update; i++) {
    weft_emit_control(&loop->b, loop->c.copier.nodes[n->inputs[i].node->id], out);
  }
  for (int i = 0; i < loop->s->num_aggregates && is_update && loop->b.s == NULL; i++) {
    if (loop->s->aggregates[i].update != n || loop->s->aggregates[i].same_as != NULL) continue;
    weft_node_t *one = push(loop, &loop->s->aggregates[i]);
    for (int k = 0; k < n->num_controls; k++)
      weft_emit_control(&loop->b, loop->c.copier.nodes[n->controls[k]->id], one);
    weft_emit_control(&loop->b, loop->s->p->options.backup > 0 ? NULL : one, out);
  }
  return out;
}

/* Where a node combines sums and means over rows, a worker's value of one is rescaled to the other. */
static weft_status_t *rescale(push_loop_t *loop, const weft_node_t *n, weft_node_t *copy) {
  weft_emitter_t *b = &loop->b;
  weft_str_t home = b->device;
  b->device = loop->s->p->places.workers[loop->c.worker];
  for (int i = 0; i < n->num_inputs && b->s == NULL; i++) {
    int power = weft_ps_rescale(loop->s, n, i);
    if (power == 0) continue;
    weft_output_t factor = part_of_rows(loop, (weft_dtype_t)weft_base_type_of(copy->inputs[i]), power, 1);
    weft_output_t value = weft_emit2(b, "Mul", copy->inputs[i], factor, "rescaled");
    if (b->s == NULL) weft_graph_set_input(copy, i, value);
  }
  b->device = home;
  return weft_emitter_end(b);
}

static weft_status_t *copy_node(push_loop_t *loop, const weft_node_t *n) {
  weft_node_t *copy = NULL;
  if (!weft_placed_is_update(n) && !loop->s->follows[n->id]) {
    WEFT_RETURN_IF_ERROR(weft_placed_copy(&loop->c, n, &copy));
    return rescale(loop, n, copy);
  }
  loop->c.copier.nodes[n->id] =
      stand(loop, n); /* its outputs stay unset: they exist in the update's part only */
  return weft_emitter_end(&loop->b);
}

static weft_status_t *copy_step(push_loop_t *loop) {
  const weft_placed_graph_t *l = &loop->s->p->placed;
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    bool is_wanted = weft_ps_is_copied(loop->s->p, &loop->c.copier, n);
    if (!is_wanted || (n->flags & WEFT_OP_VARIABLE) != 0) continue;
    WEFT_RETURN_IF_ERROR(copy_node(loop, n));
  }
  return weft_copier_finish(&loop->c.copier);
}

/* Nodes that moved to the update's part have aggregated values of their own: every update of this worker loop
 * waits for their pushes, too. */
static void push_moved(push_loop_t *loop) {
  const weft_placed_graph_t *l = &loop->s->p->placed;
  for (int i = 0; i < loop->s->num_aggregates && loop->b.s == NULL; i++) {
    const weft_ps_aggregate_t *c = &loop->s->aggregates[i];
    if (weft_placed_is_update(c->update) || c->same_as != NULL) continue;
    weft_node_t *one = push(loop, c);
    for (int k = 0; k < l->num_nodes && loop->s->p->options.backup == 0; k++) {
      const weft_node_t *n = l->order[k];
      if (l->in_step[n->id] && weft_placed_is_update(n))
        weft_emit_control(&loop->b, one, loop->c.copier.nodes[n->id]);
    }
  }
}

/* ---- backup workers ---- */

static weft_output_t verdicts_for(push_loop_t *loop, weft_output_t taken, const char *how, const char *name) {
  weft_emitter_t *b = &loop->b;
  const int64_t all[1] = {0};
  weft_output_t same = weft_emit_cast(b, weft_emit2(b, how, taken, loop->token, "compare"), WEFT_I64, "same");
  if (b->s != NULL) return same;
  if (weft_str_is(weft_str(how), "Equal"))
    same = weft_emit2(b, "Mul", same, (weft_output_t){taken.node, 1}, "ours");
  return weft_emit2(b, "Sum", same, weft_emit_ints(b, WEFT_I32, all, 1, "all"), "%s", name);
}

/* Announces the gradients, waits for the verdict of this step unless it has arrived already, and counts a
 * refusal. */
static void add_arrival(push_loop_t *loop, int worker) {
  weft_emitter_t *b = &loop->b;
  weft_ps_sync_t *s = loop->s;
  const weft_named_attr_t f32 = weft_type_attr("dtype", WEFT_F32), i64 = weft_type_attr("dtype", WEFT_I64);
  weft_output_t queue = s->verdicts[worker];
  weft_named_attr_t types;
  types_attr(&types, 2);
  b->after = loop->token.node; /* verdicts of earlier steps came before the token of this one */
  weft_output_t old[2] = {queue, weft_emit1(b, "QueueSizeV2", queue, "verdicts")};
  weft_output_t before = weft_emit(b, "QueueDequeueManyV2", old, 2, &types, 1, "old_verdicts");
  weft_output_t seen = verdicts_for(loop, before, "GreaterEqual", "seen");
  b->after = NULL;
  const weft_output_t hot[4] = {weft_emit_int(b, WEFT_I32, worker, "worker"),
                                weft_emit_int(b, WEFT_I32, s->p->places.num_workers, "workers"),
                                weft_emit_number(b, WEFT_F32, 1, "on"),
                                weft_emit_number(b, WEFT_F32, 0, "off")};
  const weft_output_t in[3] = {s->arrivals, loop->token, weft_emit(b, "OneHot", hot, 4, NULL, 0, "here")};
  loop->arrive = weft_emit(b, "AccumulatorApplyGradient", in, 3, &f32, 1, "arrive").node;
  weft_emit_control(b, before.node, loop->arrive); /* discarded verdicts precede that of this step */
  weft_output_t one = weft_emit_int(b, WEFT_I64, 1, "one_verdict");
  weft_output_t need = weft_emit2(b, "Sub", one, weft_emit2(b, "Minimum", seen, one, "have"), "need");
  const weft_output_t next[2] = {queue, weft_emit_cast(b, need, WEFT_I32, "need32")};
  weft_output_t now = weft_emit(b, "QueueDequeueManyV2", next, 2, &types, 1, "verdict");
  weft_emit_control(b, loop->arrive, now.node);
  weft_output_t ours = verdicts_for(loop, now, "Equal", "picked");
  loop->admitted = weft_emit2(b, "Greater", ours, weft_emit_int(b, WEFT_I64, 0, "none"), "admitted");
  const weft_output_t count[2] = {
      s->dropped, weft_emit2(b, "Sub", one, weft_emit2(b, "Minimum", ours, one, "kept"), "refused")};
  weft_output_t counted = weft_emit(b, "AssignAddVariableOp", count, 2, &i64, 1, "count_dropped");
  /* pushed: alive in both cases, and after the pushes in one. */
  weft_output_t both = weft_emit2(b, "Switch", loop->admitted, loop->admitted, "outcome");
  if (b->s != NULL) return;
  loop->pushed = weft_emit1(b, "Identity", (weft_output_t){both.node, 1}, "pushed").node;
  if (loop->pushed == NULL) return;
  const weft_output_t merged[2] = {{loop->pushed, 0}, {both.node, 0}};
  weft_output_t end = weft_emit(b, "Merge", merged, 2, NULL, 0, "outcomes");
  weft_node_t *done = weft_emit_noop(b, NULL, 0, "done");
  weft_emit_control(b, end.node, done);
  weft_emit_control(b, counted.node, done);
}

/* ---- the worker loop ---- */

/* A target that includes all pushes, so that a run of it is a whole step whatever else is fetched. */
static weft_node_t *add_end(push_loop_t *loop) {
  weft_emitter_t *b = &loop->b;
  if (loop->s->p->options.backup > 0) {
    weft_strbuf_t name = WEFT_STRBUF_INIT;
    weft_strbuf_append(&name, b->scope);
    weft_strbuf_puts(&name, "done");
    weft_node_t *done = name.failed ? NULL : weft_graph_find(b->g, weft_str_of(name.data, name.length));
    weft_strbuf_deinit(&name);
    if (done == NULL) weft_emitter_fail(b, no_memory());
    return done;
  }
  weft_node_t *done = weft_emit_noop(b, NULL, 0, "done");
  const weft_placed_graph_t *l = &loop->s->p->placed;
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    if (l->in_step[n->id] && weft_placed_is_update(n))
      weft_emit_control(b, loop->c.copier.nodes[n->id], done);
  }
  return done;
}

static weft_status_t *fill(push_loop_t *loop, const weft_placed_copier_t *base, int worker) {
  weft_emitter_t *b = &loop->b;
  add_token(loop, worker);
  if (loop->s->p->options.backup > 0) add_arrival(loop, worker);
  WEFT_RETURN_IF_ERROR(weft_emitter_end(b));
  WEFT_RETURN_IF_ERROR(weft_placed_share_variables(&loop->c, base));
  WEFT_RETURN_IF_ERROR(weft_ps_share_data(loop->s->p, &loop->c, base));
  WEFT_RETURN_IF_ERROR(copy_step(loop));
  WEFT_RETURN_IF_ERROR(weft_ps_shard_data(loop->s->p, &loop->c, base));
  push_moved(loop);
  weft_node_t *done = add_end(loop);
  WEFT_RETURN_IF_ERROR(weft_emitter_end(b));
  return weft_ps_add_loop(loop->s->p, worker, &loop->c.copier, done);
}

weft_status_t *weft_ps_build_worker(weft_ps_sync_t *s, const weft_placed_copier_t *base, int worker) {
  push_loop_t loop = {.s = s};
  weft_strbuf_t scope = WEFT_STRBUF_INIT;
  weft_str_t prefix = weft_ps_prefix(s->p, worker);
  if (prefix.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(
      weft_placed_copier_init(&loop.c, &s->p->placed, s->p->out->graph, &s->p->places, worker, prefix));
  weft_strbuf_append(&scope, prefix);
  weft_strbuf_puts(&scope, "parameter_server/");
  loop.c.caches = s->p->options.caches;
  loop.b = (weft_emitter_t){.g = s->p->out->graph,
                            .scope = weft_str_of(scope.data, scope.length),
                            .device = s->p->places.servers[0]};
  weft_status_t *status = scope.failed ? no_memory() : fill(&loop, base, worker);
  status = weft_status_join(status, weft_emitter_end(&loop.b));
  weft_placed_copier_deinit(&loop.c);
  weft_strbuf_deinit(&scope);
  return status;
}
