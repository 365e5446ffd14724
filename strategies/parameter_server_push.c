/* strategies/parameter_server_push.c - a worker's side of a synchronous update: token, compute, push. */
#include <math.h>

#include "base/alloc.h"
#include "strategies/parameter_server_sync.h"

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "building a worker's step"); }

typedef struct lane {
  weft_ps_sync_t *s;
  weft_lane_copier_t c;
  weft_emitter_t b;       /* on server 0, names under "worker_i/parameter_server/" */
  weft_output_t token;    /* int64: the step */
  weft_output_t admitted; /* bool, with backup workers: are our gradients wanted? */
  weft_node_t *arrive;    /* with backup workers: tells that all gradients are there */
  weft_node_t *pushed;    /* with backup workers: all pushes are done, or were not wanted */
} lane_t;

/* ---- tokens ---- */

static const weft_named_attr_t *types_attr(weft_named_attr_t *to, int n) {
  static const int types[2] = {WEFT_I64, WEFT_I64};
  *to = (weft_named_attr_t){WEFT_STR("component_types"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = n}};
  to->value.list.types = types;
  return to;
}

/* The newest token. Only this worker takes from its queue, so the queue holds at least as many as it said. */
static void add_token(lane_t *lane, int worker) {
  weft_emitter_t *b = &lane->b;
  const int64_t all[1] = {0};
  weft_named_attr_t types;
  weft_output_t queue = lane->s->tokens[worker];
  weft_output_t n = weft_emit1(b, "QueueSizeV2", queue, "tokens");
  n = weft_emit2(b, "Maximum", n, weft_emit_int(b, WEFT_I32, 1, "one"), "take");
  const weft_output_t in[2] = {queue, n};
  weft_output_t tokens = weft_emit(b, "QueueDequeueManyV2", in, 2, types_attr(&types, 1), 1, "wait");
  lane->token = weft_emit2(b, "Max", tokens, weft_emit_ints(b, WEFT_I32, all, 1, "all"), "token");
  lane->c.gate = lane->token.node;
}

/* ---- parts of a batch ---- */

/* (1 / W)^power, times `times`: workers have batches of their own, as large as each other, of what makes one
 * update. */
static weft_output_t part_of_rows(lane_t *lane, weft_dtype_t dtype, int power, double times) {
  return weft_emit_number(&lane->b, (int)dtype, times * pow(1.0 / lane->s->required, power), "factor");
}

/* What the mean over W workers makes the value of all their batches: a value of degree d is worth W * (1 /
 * W)^d. */
static weft_output_t scaled(lane_t *lane, const weft_ps_cut_t *c, weft_output_t value) {
  if (!c->scales || c->degree == 1 || lane->b.s != NULL) return value;
  return weft_emit2(&lane->b, "Mul", value, part_of_rows(lane, c->dtype, c->degree, lane->s->required),
                    "shared");
}

/* ---- pushes ---- */

/* Rows that are wanted only: through a switch that drops them otherwise. */
static weft_output_t if_admitted(lane_t *lane, weft_output_t value) {
  if (lane->s->p->options.backup == 0 || lane->b.s != NULL) return value;
  weft_output_t both = weft_emit2(&lane->b, "Switch", value, lane->admitted, "admit");
  return (weft_output_t){both.node, 1};
}

static weft_node_t *push_dense(lane_t *lane, const weft_ps_cut_t *c, weft_output_t value, weft_str_t server) {
  const weft_named_attr_t dtype = weft_type_attr("dtype", (int)c->dtype);
  const weft_output_t in[3] = {c->sums, lane->token, if_admitted(lane, value)};
  lane->b.device = server;
  return weft_emit(&lane->b, "AccumulatorApplyGradient", in, 3, &dtype, 1, "%.*s",
                   WEFT_STR_ARGS(c->update->name))
      .node;
}

/* One row per number, in rising order: what sparse accumulators count on. */
static weft_node_t *push_sparse(lane_t *lane, const weft_ps_cut_t *c, weft_output_t value, weft_output_t rows,
                                weft_str_t server) {
  weft_emitter_t *b = &lane->b;
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
  weft_output_t in[5] = {c->sums, lane->token};
  in[2] = if_admitted(lane, weft_emit3(b, "GatherV2", once, order, axis, "sorted"));
  in[3] = if_admitted(lane, weft_emit3(b, "GatherV2", sums, order, axis, "sorted_values"));
  in[4] = weft_emit_ints(b, WEFT_I64, c->shape.dims, c->shape.rank, "shape");
  b->device = server;
  return weft_emit(b, "SparseAccumulatorApplyGradient", in, 5, attrs, 2, "%.*s",
                   WEFT_STR_ARGS(c->update->name))
      .node;
}

/* Pushes what worker's copy has for the cut. */
static weft_node_t *push(lane_t *lane, const weft_ps_cut_t *c) {
  weft_emitter_t *b = &lane->b;
  weft_str_t home = b->device;
  weft_output_t value = weft_copier_output(&lane->c.copier, c->update->inputs[c->input]);
  if (value.node == NULL) {
    weft_emitter_fail(
        b, WEFT_ERROR(
               INVALID_ARGUMENT,
               "parameter_server: the update '%.*s' takes the result of another update, '%.*s', and what a "
               "worker computes: they cannot be made in step",
               WEFT_STR_ARGS(c->update->name), WEFT_STR_ARGS(c->update->inputs[c->input].node->name)));
    return NULL;
  }
  b->device = lane->s->p->places.workers[lane->c.worker];
  if (lane->arrive != NULL) weft_emit_control(b, value.node, lane->arrive);
  value = scaled(lane, c, value);
  weft_str_t server = lane->s->p->places.servers[c->server];
  weft_node_t *out =
      c->indices < 0
          ? push_dense(lane, c, value, server)
          : push_sparse(lane, c, value, weft_copier_output(&lane->c.copier, c->rows_of->inputs[c->indices]),
                        server);
  b->device = home;
  if (lane->pushed != NULL) weft_emit_control(b, out, lane->pushed);
  return out;
}

/* ---- the copy ---- */

/* What stands for node n in control edges: the stands of all that it waits for. */
static weft_node_t *stand(lane_t *lane, const weft_node_t *n) {
  weft_node_t *out = weft_emit_noop(&lane->b, NULL, 0, "%.*s", WEFT_STR_ARGS(n->name));
  bool is_update = weft_lane_is_update(n);
  for (int i = 0; i < n->num_controls; i++)
    weft_emit_control(&lane->b, lane->c.copier.nodes[n->controls[i]->id], out);
  for (int i = 0; i < n->num_inputs && !is_update; i++) {
    weft_emit_control(&lane->b, lane->c.copier.nodes[n->inputs[i].node->id], out);
  }
  for (int i = 0; i < lane->s->num_cuts && is_update && lane->b.s == NULL; i++) {
    if (lane->s->cuts[i].update != n || lane->s->cuts[i].same_as != NULL) continue;
    weft_node_t *one = push(lane, &lane->s->cuts[i]);
    for (int k = 0; k < n->num_controls; k++)
      weft_emit_control(&lane->b, lane->c.copier.nodes[n->controls[k]->id], one);
    weft_emit_control(&lane->b, lane->s->p->options.backup > 0 ? NULL : one, out);
  }
  return out;
}

/* Where sums over rows meet means over them, a worker's part of either is brought to the other's scale. */
static weft_status_t *rescale(lane_t *lane, const weft_node_t *n, weft_node_t *copy) {
  weft_emitter_t *b = &lane->b;
  weft_str_t home = b->device;
  b->device = lane->s->p->places.workers[lane->c.worker];
  for (int i = 0; i < n->num_inputs && b->s == NULL; i++) {
    int power = weft_ps_rescale(lane->s, n, i);
    if (power == 0) continue;
    weft_output_t factor = part_of_rows(lane, (weft_dtype_t)weft_base_type_of(copy->inputs[i]), power, 1);
    weft_output_t value = weft_emit2(b, "Mul", copy->inputs[i], factor, "rescaled");
    if (b->s == NULL) weft_graph_set_input(copy, i, value);
  }
  b->device = home;
  return weft_emitter_end(b);
}

static weft_status_t *copy_node(lane_t *lane, const weft_node_t *n) {
  weft_node_t *copy = NULL;
  if (!weft_lane_is_update(n) && !lane->s->follows[n->id]) {
    WEFT_RETURN_IF_ERROR(weft_lane_copy(&lane->c, n, &copy));
    return rescale(lane, n, copy);
  }
  lane->c.copier.nodes[n->id] = stand(lane, n); /* outputs stay open: nobody here has them */
  return weft_emitter_end(&lane->b);
}

static weft_status_t *copy_step(lane_t *lane) {
  const weft_lane_graph_t *l = &lane->s->p->lanes;
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    if (!l->in_step[n->id] || (n->flags & WEFT_OP_VARIABLE) != 0) continue;
    WEFT_RETURN_IF_ERROR(copy_node(lane, n));
  }
  return weft_copier_finish(&lane->c.copier);
}

/* What moved to the update's side has cuts of its own: all updates of this lane stand for them, too. */
static void push_moved(lane_t *lane) {
  const weft_lane_graph_t *l = &lane->s->p->lanes;
  for (int i = 0; i < lane->s->num_cuts && lane->b.s == NULL; i++) {
    const weft_ps_cut_t *c = &lane->s->cuts[i];
    if (weft_lane_is_update(c->update) || c->same_as != NULL) continue;
    weft_node_t *one = push(lane, c);
    for (int k = 0; k < l->num_nodes && lane->s->p->options.backup == 0; k++) {
      const weft_node_t *n = l->order[k];
      if (l->in_step[n->id] && weft_lane_is_update(n))
        weft_emit_control(&lane->b, one, lane->c.copier.nodes[n->id]);
    }
  }
}

/* ---- backup workers ---- */

static weft_output_t verdicts_for(lane_t *lane, weft_output_t taken, const char *how, const char *name) {
  weft_emitter_t *b = &lane->b;
  const int64_t all[1] = {0};
  weft_output_t same = weft_emit_cast(b, weft_emit2(b, how, taken, lane->token, "compare"), WEFT_I64, "same");
  if (b->s != NULL) return same;
  if (weft_str_is(weft_str(how), "Equal"))
    same = weft_emit2(b, "Mul", same, (weft_output_t){taken.node, 1}, "ours");
  return weft_emit2(b, "Sum", same, weft_emit_ints(b, WEFT_I32, all, 1, "all"), "%s", name);
}

/* Announces the gradients, waits for the verdict of this step (if it did not come long ago), counts a
 * refusal. */
static void add_arrival(lane_t *lane, int worker) {
  weft_emitter_t *b = &lane->b;
  weft_ps_sync_t *s = lane->s;
  const weft_named_attr_t f32 = weft_type_attr("dtype", WEFT_F32), i64 = weft_type_attr("dtype", WEFT_I64);
  weft_output_t queue = s->verdicts[worker];
  weft_named_attr_t types;
  types_attr(&types, 2);
  b->after = lane->token.node; /* verdicts of earlier steps came before the token of this one */
  weft_output_t old[2] = {queue, weft_emit1(b, "QueueSizeV2", queue, "verdicts")};
  weft_output_t before = weft_emit(b, "QueueDequeueManyV2", old, 2, &types, 1, "old_verdicts");
  weft_output_t seen = verdicts_for(lane, before, "GreaterEqual", "seen");
  b->after = NULL;
  const weft_output_t hot[4] = {weft_emit_int(b, WEFT_I32, worker, "worker"),
                                weft_emit_int(b, WEFT_I32, s->p->places.num_workers, "workers"),
                                weft_emit_number(b, WEFT_F32, 1, "on"),
                                weft_emit_number(b, WEFT_F32, 0, "off")};
  const weft_output_t in[3] = {s->arrivals, lane->token, weft_emit(b, "OneHot", hot, 4, NULL, 0, "here")};
  lane->arrive = weft_emit(b, "AccumulatorApplyGradient", in, 3, &f32, 1, "arrive").node;
  weft_emit_control(b, before.node,
                    lane->arrive); /* what is thrown away came before the verdict on this step */
  weft_output_t one = weft_emit_int(b, WEFT_I64, 1, "one_verdict");
  weft_output_t need = weft_emit2(b, "Sub", one, weft_emit2(b, "Minimum", seen, one, "have"), "need");
  const weft_output_t next[2] = {queue, weft_emit_cast(b, need, WEFT_I32, "need32")};
  weft_output_t now = weft_emit(b, "QueueDequeueManyV2", next, 2, &types, 1, "verdict");
  weft_emit_control(b, lane->arrive, now.node);
  weft_output_t ours = verdicts_for(lane, now, "Equal", "picked");
  lane->admitted = weft_emit2(b, "Greater", ours, weft_emit_int(b, WEFT_I64, 0, "none"), "admitted");
  const weft_output_t count[2] = {
      s->dropped, weft_emit2(b, "Sub", one, weft_emit2(b, "Minimum", ours, one, "kept"), "refused")};
  weft_output_t counted = weft_emit(b, "AssignAddVariableOp", count, 2, &i64, 1, "count_dropped");
  /* pushed: alive in both cases, and after the pushes in one. */
  weft_output_t both = weft_emit2(b, "Switch", lane->admitted, lane->admitted, "outcome");
  if (b->s != NULL) return;
  lane->pushed = weft_emit1(b, "Identity", (weft_output_t){both.node, 1}, "pushed").node;
  if (lane->pushed == NULL) return;
  const weft_output_t merged[2] = {{lane->pushed, 0}, {both.node, 0}};
  weft_output_t end = weft_emit(b, "Merge", merged, 2, NULL, 0, "outcomes");
  weft_node_t *done = weft_emit_noop(b, NULL, 0, "done");
  weft_emit_control(b, end.node, done);
  weft_emit_control(b, counted.node, done);
}

/* ---- the lane ---- */

/* All that the worker pushes, so that running it is a whole step whatever else is fetched. */
static weft_node_t *add_end(lane_t *lane) {
  weft_emitter_t *b = &lane->b;
  if (lane->s->p->options.backup > 0) {
    weft_strbuf_t name = WEFT_STRBUF_INIT;
    weft_strbuf_append(&name, b->scope);
    weft_strbuf_puts(&name, "done");
    weft_node_t *done = name.failed ? NULL : weft_graph_find(b->g, weft_str_of(name.data, name.length));
    weft_strbuf_deinit(&name);
    if (done == NULL) weft_emitter_fail(b, no_memory());
    return done;
  }
  weft_node_t *done = weft_emit_noop(b, NULL, 0, "done");
  const weft_lane_graph_t *l = &lane->s->p->lanes;
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    if (l->in_step[n->id] && weft_lane_is_update(n)) weft_emit_control(b, lane->c.copier.nodes[n->id], done);
  }
  return done;
}

static weft_status_t *fill(lane_t *lane, const weft_lane_copier_t *base, int worker) {
  weft_emitter_t *b = &lane->b;
  add_token(lane, worker);
  if (lane->s->p->options.backup > 0) add_arrival(lane, worker);
  WEFT_RETURN_IF_ERROR(weft_emitter_end(b));
  WEFT_RETURN_IF_ERROR(weft_lane_share_variables(&lane->c, base));
  WEFT_RETURN_IF_ERROR(copy_step(lane));
  push_moved(lane);
  weft_node_t *done = add_end(lane);
  WEFT_RETURN_IF_ERROR(weft_emitter_end(b));
  return weft_ps_add_lane(lane->s->p, worker, &lane->c.copier, done);
}

weft_status_t *weft_ps_build_worker(weft_ps_sync_t *s, const weft_lane_copier_t *base, int worker) {
  lane_t lane = {.s = s};
  weft_strbuf_t scope = WEFT_STRBUF_INIT;
  weft_str_t prefix = weft_ps_prefix(s->p, worker);
  if (prefix.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(
      weft_lane_copier_init(&lane.c, &s->p->lanes, s->p->out->graph, &s->p->places, worker, prefix));
  weft_strbuf_append(&scope, prefix);
  weft_strbuf_puts(&scope, "parameter_server/");
  lane.c.caches = s->p->options.caches;
  lane.b = (weft_emitter_t){.g = s->p->out->graph,
                            .scope = weft_str_of(scope.data, scope.length),
                            .device = s->p->places.servers[0]};
  weft_status_t *status = scope.failed ? no_memory() : fill(&lane, base, worker);
  status = weft_status_join(status, weft_emitter_end(&lane.b));
  weft_lane_copier_deinit(&lane.c);
  weft_strbuf_deinit(&scope);
  return status;
}
