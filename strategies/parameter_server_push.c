/* strategies/parameter_server_push.c - a worker's side of a synchronous update: token, compute, push. */
#include <math.h>

#include "base/alloc.h"
#include "strategies/parameter_server_sync.h"

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "building a worker's step"); }

typedef struct lane {
  weft_ps_sync_t *s;
  weft_lane_copier_t c;
  weft_build_t b;           /* on server 0, names under "worker_i/parameter_server/" */
  weft_output_t token;      /* int64: the step */
  weft_output_t share;      /* float placeholder; node NULL: no need of one */
  weft_output_t admitted;   /* bool, with backup workers: are our gradients wanted? */
  weft_node_t *arrive;      /* with backup workers: tells that all gradients are there */
  weft_node_t *pushed;      /* with backup workers: all pushes are done, or were not wanted */
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
  weft_build_t *b = &lane->b;
  const int64_t all[1] = {0};
  weft_named_attr_t types;
  weft_output_t queue = lane->s->tokens[worker];
  weft_output_t n = weft_build1(b, "QueueSizeV2", "tokens", queue);
  n = weft_build2(b, "Maximum", "take", n, weft_build_int(b, "one", WEFT_I32, 1));
  const weft_output_t in[2] = {queue, n};
  weft_output_t tokens = weft_build(b, "QueueDequeueManyV2", WEFT_STR("wait"), in, 2, types_attr(&types, 1), 1);
  lane->token = weft_build2(b, "Max", "token", tokens, weft_build_ints(b, "all", WEFT_I32, all, 1));
  lane->c.gate = lane->token.node;
}

/* ---- shares ---- */

static void add_share(lane_t *lane, int worker) {
  bool scales = false;
  int type = WEFT_F32; /* as exact as what it scales */
  for (int i = 0; i < lane->s->num_cuts; i++) {
    scales = scales || lane->s->cuts[i].scales;
    if (lane->s->cuts[i].dtype == WEFT_F64) type = WEFT_F64;
  }
  if (!scales || !lane->s->p->options.splits) return;
  weft_str_t home = lane->b.device;
  const weft_shape_t scalar = WEFT_SCALAR;
  const weft_named_attr_t attrs[2] = {weft_type_attr("dtype", type), weft_shape_attr("shape", &scalar)};
  lane->b.device = lane->s->p->places.workers[worker];
  weft_output_t one = weft_build_number(&lane->b, "whole_share", type, 1);
  lane->share = weft_build(&lane->b, "PlaceholderWithDefault", WEFT_STR("share"), &one, 1, attrs, 2);
  lane->b.device = home;
}

/* (rows of this worker / rows of all)^power, times `times`. With f = the share, that is rows * W / rows of all, it is
 * (f / W)^power; workers that share no batch have 1 / W each. */
static weft_output_t part_of_rows(lane_t *lane, weft_dtype_t dtype, int power, double times) {
  weft_build_t *b = &lane->b;
  double workers = lane->s->required;
  if (power == 0 || lane->share.node == NULL) return weft_build_number(b, "factor", (int)dtype, times * pow(1 / workers, power));
  weft_output_t f = weft_build_cast(b, "share_cast", lane->share, (int)dtype);
  if (power == 1 && times == workers) return f;
  f = weft_build2(b, "RealDiv", "part", f, weft_build_number(b, "workers", (int)dtype, workers));
  if (power != 1) f = weft_build2(b, "Pow", "part_d", f, weft_build_number(b, "degree", (int)dtype, power));
  return times == 1 ? f : weft_build2(b, "Mul", "factor", f, weft_build_number(b, "times", (int)dtype, times));
}

/* What the mean over W workers makes the value of the whole batch: a value of degree d is worth W * (f / W)^d. A worker without
 * rows has the mean of nothing, which is not a number: its part is zero all the same. */
static weft_output_t scaled(lane_t *lane, const weft_ps_cut_t *c, weft_output_t value) {
  bool is_mean = c->degree == 1 && lane->share.node == NULL;
  if (!c->scales || is_mean || lane->b.failure != NULL) return value;
  const char *times = c->degree > 0 && lane->share.node != NULL ? "MulNoNan" : "Mul";
  return weft_build2(&lane->b, times, "shared", value, part_of_rows(lane, c->dtype, c->degree, lane->s->required));
}

/* ---- pushes ---- */

/* Rows that are wanted only: through a switch that drops them otherwise. */
static weft_output_t if_admitted(lane_t *lane, weft_output_t value) {
  if (lane->s->p->options.backup == 0 || lane->b.failure != NULL) return value;
  weft_output_t both = weft_build2(&lane->b, "Switch", "admit", value, lane->admitted);
  return (weft_output_t){both.node, 1};
}

static weft_node_t *push_dense(lane_t *lane, const weft_ps_cut_t *c, weft_output_t value, weft_str_t server) {
  const weft_named_attr_t dtype = weft_type_attr("dtype", (int)c->dtype);
  const weft_output_t in[3] = {c->sums, lane->token, if_admitted(lane, value)};
  lane->b.device = server;
  return weft_build(&lane->b, "AccumulatorApplyGradient", c->update->name, in, 3, &dtype, 1).node;
}

/* One row per number, in rising order: what sparse accumulators count on. */
static weft_node_t *push_sparse(lane_t *lane, const weft_ps_cut_t *c, weft_output_t value, weft_output_t rows, weft_str_t server) {
  weft_build_t *b = &lane->b;
  weft_shape_t row = c->shape;
  const int64_t any = -1;
  row.dims[0] = -1;
  value = weft_build2(b, "Reshape", "values", value, weft_build_ints(b, "values_shape", WEFT_I32, row.dims, row.rank));
  rows = weft_build2(b, "Reshape", "rows", rows, weft_build_ints(b, "rows_shape", WEFT_I32, &any, 1));
  weft_output_t once = weft_build1(b, "Unique", "once", weft_build_cast(b, "rows64", rows, WEFT_I64));
  if (b->failure != NULL) return NULL;
  weft_output_t n = weft_build1(b, "Size", "num_rows", once), axis = weft_build_int(b, "axis", WEFT_I32, 0);
  weft_output_t sums = weft_build3(b, "UnsortedSegmentSum", "sums", value, (weft_output_t){once.node, 1}, n);
  weft_output_t order = weft_build2(b, "TopKV2", "order", weft_build1(b, "Neg", "falling", once), n);
  if (b->failure != NULL) return NULL;
  order.index = 1;
  const weft_named_attr_t attrs[2] = {weft_type_attr("dtype", (int)c->dtype), weft_bool_attr("has_known_shape", c->shape.dims[0] >= 0)};
  weft_output_t in[5] = {c->sums, lane->token};
  in[2] = if_admitted(lane, weft_build3(b, "GatherV2", "sorted", once, order, axis));
  in[3] = if_admitted(lane, weft_build3(b, "GatherV2", "sorted_values", sums, order, axis));
  in[4] = weft_build_ints(b, "shape", WEFT_I64, c->shape.dims, c->shape.rank);
  b->device = server;
  return weft_build(b, "SparseAccumulatorApplyGradient", c->update->name, in, 5, attrs, 2).node;
}

/* Pushes what worker's copy has for the cut. */
static weft_node_t *push(lane_t *lane, const weft_ps_cut_t *c) {
  weft_build_t *b = &lane->b;
  weft_str_t home = b->device;
  weft_output_t value = weft_copier_output(&lane->c.copier, c->update->inputs[c->input]);
  if (value.node == NULL) {
    weft_build_fail(b, WEFT_ERROR(INVALID_ARGUMENT,
                                  "parameter_server: the update '%.*s' takes the result of another update, '%.*s', and what a "
                                  "worker computes: they cannot be made in step",
                                  WEFT_STR_ARGS(c->update->name), WEFT_STR_ARGS(c->update->inputs[c->input].node->name)));
    return NULL;
  }
  b->device = lane->s->p->places.workers[lane->c.worker];
  if (lane->arrive != NULL) weft_build_control(b, value.node, lane->arrive);
  value = scaled(lane, c, value);
  weft_str_t server = lane->s->p->places.servers[c->server];
  weft_node_t *out = c->indices < 0 ? push_dense(lane, c, value, server)
                                    : push_sparse(lane, c, value, weft_copier_output(&lane->c.copier, c->rows_of->inputs[c->indices]),
                                                  server);
  b->device = home;
  if (lane->pushed != NULL) weft_build_control(b, out, lane->pushed);
  return out;
}

/* ---- the copy ---- */

/* What stands for node n in control edges: the stands of all that it waits for. */
static weft_node_t *stand(lane_t *lane, const weft_node_t *n) {
  weft_node_t *out = weft_build_noop(&lane->b, n->name, NULL, 0);
  bool is_update = weft_lane_is_update(n);
  for (int i = 0; i < n->num_controls; i++) weft_build_control(&lane->b, lane->c.copier.nodes[n->controls[i]->id], out);
  for (int i = 0; i < n->num_inputs && !is_update; i++) {
    weft_build_control(&lane->b, lane->c.copier.nodes[n->inputs[i].node->id], out);
  }
  for (int i = 0; i < lane->s->num_cuts && is_update && lane->b.failure == NULL; i++) {
    if (lane->s->cuts[i].update != n || lane->s->cuts[i].same_as != NULL) continue;
    weft_node_t *one = push(lane, &lane->s->cuts[i]);
    for (int k = 0; k < n->num_controls; k++) weft_build_control(&lane->b, lane->c.copier.nodes[n->controls[k]->id], one);
    weft_build_control(&lane->b, lane->s->p->options.backup > 0 ? NULL : one, out);
  }
  return out;
}

/* Where sums over rows meet means over them, a worker's part of either is brought to the other's scale. */
static weft_status_t *rescale(lane_t *lane, const weft_node_t *n, weft_node_t *copy) {
  weft_build_t *b = &lane->b;
  weft_str_t home = b->device;
  b->device = lane->s->p->places.workers[lane->c.worker];
  for (int i = 0; i < n->num_inputs && b->failure == NULL; i++) {
    int power = weft_ps_rescale(lane->s, n, i);
    if (power == 0) continue;
    weft_output_t factor = part_of_rows(lane, (weft_dtype_t)weft_output_type(copy->inputs[i]), power, 1);
    weft_output_t value = weft_build2(b, "Mul", "rescaled", copy->inputs[i], factor);
    if (b->failure == NULL) weft_graph_set_input(copy, i, value);
  }
  b->device = home;
  return weft_build_end(b);
}

static weft_status_t *copy_node(lane_t *lane, const weft_node_t *n) {
  weft_node_t *copy = NULL;
  if (!weft_lane_is_update(n) && !lane->s->follows[n->id]) {
    WEFT_RETURN_IF_ERROR(weft_lane_copy(&lane->c, n, &copy));
    return rescale(lane, n, copy);
  }
  lane->c.copier.nodes[n->id] = stand(lane, n); /* outputs stay open: nobody here has them */
  return weft_build_end(&lane->b);
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
  for (int i = 0; i < lane->s->num_cuts && lane->b.failure == NULL; i++) {
    const weft_ps_cut_t *c = &lane->s->cuts[i];
    if (weft_lane_is_update(c->update) || c->same_as != NULL) continue;
    weft_node_t *one = push(lane, c);
    for (int k = 0; k < l->num_nodes && lane->s->p->options.backup == 0; k++) {
      const weft_node_t *n = l->order[k];
      if (l->in_step[n->id] && weft_lane_is_update(n)) weft_build_control(&lane->b, one, lane->c.copier.nodes[n->id]);
    }
  }
}

/* ---- backup workers ---- */

static weft_output_t verdicts_for(lane_t *lane, weft_output_t taken, const char *how, const char *name) {
  weft_build_t *b = &lane->b;
  const int64_t all[1] = {0};
  weft_output_t same = weft_build_cast(b, "same", weft_build2(b, how, "compare", taken, lane->token), WEFT_I64);
  if (b->failure != NULL) return same;
  if (weft_str_is(weft_str(how), "Equal")) same = weft_build2(b, "Mul", "ours", same, (weft_output_t){taken.node, 1});
  return weft_build2(b, "Sum", name, same, weft_build_ints(b, "all", WEFT_I32, all, 1));
}

/* Announces the gradients, waits for the verdict of this step (if it did not come long ago), counts a refusal. */
static void add_arrival(lane_t *lane, int worker) {
  weft_build_t *b = &lane->b;
  weft_ps_sync_t *s = lane->s;
  const weft_named_attr_t f32 = weft_type_attr("dtype", WEFT_F32), i64 = weft_type_attr("dtype", WEFT_I64);
  weft_output_t queue = s->verdicts[worker];
  weft_named_attr_t types;
  types_attr(&types, 2);
  b->after = lane->token.node; /* verdicts of earlier steps came before the token of this one */
  weft_output_t old[2] = {queue, weft_build1(b, "QueueSizeV2", "verdicts", queue)};
  weft_output_t before = weft_build(b, "QueueDequeueManyV2", WEFT_STR("old_verdicts"), old, 2, &types, 1);
  weft_output_t seen = verdicts_for(lane, before, "GreaterEqual", "seen");
  b->after = NULL;
  const weft_output_t hot[4] = {weft_build_int(b, "worker", WEFT_I32, worker),
                                weft_build_int(b, "workers", WEFT_I32, s->p->places.num_workers),
                                weft_build_number(b, "on", WEFT_F32, 1), weft_build_number(b, "off", WEFT_F32, 0)};
  const weft_output_t in[3] = {s->arrivals, lane->token, weft_build(b, "OneHot", WEFT_STR("here"), hot, 4, NULL, 0)};
  lane->arrive = weft_build(b, "AccumulatorApplyGradient", WEFT_STR("arrive"), in, 3, &f32, 1).node;
  weft_build_control(b, before.node, lane->arrive); /* what is thrown away came before the verdict on this step */
  weft_output_t one = weft_build_int(b, "one_verdict", WEFT_I64, 1);
  weft_output_t need = weft_build2(b, "Sub", "need", one, weft_build2(b, "Minimum", "have", seen, one));
  const weft_output_t next[2] = {queue, weft_build_cast(b, "need32", need, WEFT_I32)};
  weft_output_t now = weft_build(b, "QueueDequeueManyV2", WEFT_STR("verdict"), next, 2, &types, 1);
  weft_build_control(b, lane->arrive, now.node);
  weft_output_t ours = verdicts_for(lane, now, "Equal", "picked");
  lane->admitted = weft_build2(b, "Greater", "admitted", ours, weft_build_int(b, "none", WEFT_I64, 0));
  const weft_output_t count[2] = {s->dropped, weft_build2(b, "Sub", "refused", one, weft_build2(b, "Minimum", "kept", ours, one))};
  weft_output_t counted = weft_build(b, "AssignAddVariableOp", WEFT_STR("count_dropped"), count, 2, &i64, 1);
  /* pushed: alive in both cases, and after the pushes in one. */
  weft_output_t both = weft_build2(b, "Switch", "outcome", lane->admitted, lane->admitted);
  if (b->failure != NULL) return;
  lane->pushed = weft_build1(b, "Identity", "pushed", (weft_output_t){both.node, 1}).node;
  if (lane->pushed == NULL) return;
  const weft_output_t merged[2] = {{lane->pushed, 0}, {both.node, 0}};
  weft_output_t end = weft_build(b, "Merge", WEFT_STR("outcomes"), merged, 2, NULL, 0);
  weft_node_t *done = weft_build_noop(b, WEFT_STR("done"), NULL, 0);
  weft_build_control(b, end.node, done);
  weft_build_control(b, counted.node, done);
}

/* ---- the lane ---- */

/* All that the worker pushes, so that running it is a whole step whatever else is fetched. */
static weft_node_t *add_end(lane_t *lane) {
  weft_build_t *b = &lane->b;
  if (lane->s->p->options.backup > 0) {
    weft_strbuf_t name = WEFT_STRBUF_INIT;
    weft_strbuf_append(&name, b->scope);
    weft_strbuf_puts(&name, "done");
    weft_node_t *done = name.failed ? NULL : weft_graph_find(b->g, weft_str_of(name.data, name.length));
    weft_strbuf_deinit(&name);
    if (done == NULL) weft_build_fail(b, no_memory());
    return done;
  }
  weft_node_t *done = weft_build_noop(b, WEFT_STR("done"), NULL, 0);
  const weft_lane_graph_t *l = &lane->s->p->lanes;
  for (int k = 0; k < l->num_nodes; k++) {
    const weft_node_t *n = l->order[k];
    if (l->in_step[n->id] && weft_lane_is_update(n)) weft_build_control(b, lane->c.copier.nodes[n->id], done);
  }
  return done;
}

static weft_status_t *fill(lane_t *lane, const weft_lane_copier_t *base, int worker) {
  weft_build_t *b = &lane->b;
  add_token(lane, worker);
  add_share(lane, worker);
  if (lane->s->p->options.backup > 0) add_arrival(lane, worker);
  WEFT_RETURN_IF_ERROR(weft_build_end(b));
  WEFT_RETURN_IF_ERROR(weft_lane_share_variables(&lane->c, base));
  WEFT_RETURN_IF_ERROR(copy_step(lane));
  push_moved(lane);
  weft_node_t *done = add_end(lane);
  WEFT_RETURN_IF_ERROR(weft_build_end(b));
  return weft_ps_add_lane(lane->s->p, worker, &lane->c.copier, done, lane->share.node);
}

weft_status_t *weft_ps_build_worker(weft_ps_sync_t *s, const weft_lane_copier_t *base, int worker) {
  lane_t lane = {.s = s};
  weft_strbuf_t scope = WEFT_STRBUF_INIT;
  weft_str_t prefix = weft_ps_prefix(s->p, worker);
  if (prefix.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_lane_copier_init(&lane.c, &s->p->lanes, s->p->out->graph, &s->p->places, worker, prefix));
  weft_strbuf_append(&scope, prefix);
  weft_strbuf_puts(&scope, "parameter_server/");
  lane.c.caches = s->p->options.caches;
  lane.b = (weft_build_t){.g = s->p->out->graph, .scope = weft_str_of(scope.data, scope.length),
                          .device = s->p->places.servers[0]};
  weft_status_t *status = scope.failed ? no_memory() : fill(&lane, base, worker);
  status = weft_status_join(status, weft_build_end(&lane.b));
  weft_lane_copier_deinit(&lane.c);
  weft_strbuf_deinit(&scope);
  return status;
}
