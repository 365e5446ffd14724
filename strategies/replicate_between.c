/* strategies/replicate_between.c - one client per worker: values that workers exchange by collectives.
 *
 * Every worker rewrites the graph for its own replicas. Values of other workers are
 * not in its graph, so values that must be equal on all workers are all-reduced, gathered or broadcast. Each
 * replica takes part in each collective and uses its own result, so that no collective is pruned on one
 * worker while another waits for it.
 *
 * Source: reference strategies 3.26: the chief's initial values; equal graphs are checked, not believed.
 */
#include "base/alloc.h"
#include "strategies/replicate_alike.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("replicas of several workers"); }

static weft_output_t *new_outputs(weft_replication_t *r) {
  weft_output_t *out = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *out);
  if (out == NULL && r->e.s == NULL) r->e.s = no_memory();
  return out;
}

void weft_replication_total_rows(weft_replication_t *r, int batch, weft_output_t *out) {
  weft_batch_shards_t *shards = &r->batch_shards[batch];
  if (r->e.s != NULL) return;
  if (shards->totals == NULL) {
    weft_output_t *values = new_outputs(r);
    for (int i = 0; i < r->n && r->e.s == NULL; i++) {
      int64_t one = 1;
      weft_output_t rows = weft_replication_rows_on(r, batch, i);
      r->e.device = r->o->devices[i];
      values[i] = weft_emit2(&r->e, "Reshape", rows,
                             weft_emit_ints(&r->e, WEFT_I64, &one, 1, "replica_%d/weft/one", i),
                             "replica_%d/weft/rows", i);
    }
    if (r->e.s != NULL) return;
    weft_replication_add(r, values);
    shards->totals = values;
  }
  memcpy(out, shards->totals, (size_t)r->n * sizeof *out);
}

void weft_replication_places_between(weft_replication_t *r, int batch, weft_output_t *out) {
  weft_emitter_t *e = &r->e;
  weft_output_t *counts = new_outputs(r), *own = new_outputs(r);
  weft_str_t device = e->device;
  int64_t one = 1;
  for (int i = 0; i < r->n && e->s == NULL; i++) {
    weft_output_t rows = weft_replication_rows_on(r, batch, i);
    e->device = r->o->devices[i];
    own[i] = counts[i] =
        weft_emit2(e, "Reshape", rows, weft_emit_ints(e, WEFT_I64, &one, 1, "replica_%d/weft/place/one", i),
                   "replica_%d/weft/place/rows", i);
  }
  weft_replication_collective(r, "CollectiveGatherV2", NULL, 0, "gather_rows", counts);
  for (int i = 0; i < r->n && e->s == NULL; i++) {
    e->device = r->o->devices[i];
    int64_t zero = 0, before = r->first + i;
    weft_output_t begin = weft_emit_ints(e, WEFT_I64, &zero, 1, "replica_%d/weft/place/zero", i);
    weft_output_t up_to = weft_emit_ints(e, WEFT_I64, &before, 1, "replica_%d/weft/place/before", i);
    weft_output_t axis = weft_emit_ints(e, WEFT_I64, &zero, 1, "replica_%d/weft/place/axis", i);
    weft_output_t at = weft_emit_int(e, WEFT_I32, 0, "replica_%d/weft/place/concat_axis", i);
    weft_named_attr_t keeps = weft_bool_attr("keep_dims", true);
    const weft_output_t mine[2] = {
        weft_emit3(e, "Slice", counts[i], begin, up_to, "replica_%d/weft/place/ranks", i), axis};
    const weft_output_t all[2] = {counts[i], axis};
    const weft_output_t parts[4] = {
        weft_emit(e, "Sum", mine, 2, &keeps, 1, "replica_%d/weft/place/begin", i), own[i],
        weft_emit(e, "Sum", all, 2, &keeps, 1, "replica_%d/weft/place/all", i), at};
    out[i] = weft_emit(e, "ConcatV2", parts, 4, NULL, 0, "replica_%d/weft/place", i);
  }
  e->device = device;
}

/* ---- broadcast ---- */

static bool can_be_sent(int dtype) {
  return dtype == WEFT_BOOL || dtype == WEFT_F32 || dtype == WEFT_F16 || dtype == WEFT_F64 ||
         dtype == WEFT_I32 || dtype == WEFT_I64;
}

static void remember(weft_replication_t *r, const weft_node_t *of, const weft_output_t *values) {
  weft_sent_t *sent = weft_arena_calloc(&r->arena, 1, sizeof *sent);
  weft_node_t **nodes = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof(*nodes));
  if (sent == NULL || nodes == NULL) {
    if (r->e.s == NULL) r->e.s = no_memory();
    return;
  }
  for (int i = 0; i < r->n; i++) nodes[i] = values[i].node;
  *sent = (weft_sent_t){r->sent, of, nodes};
  r->sent = sent;
}

void weft_replication_broadcast(weft_replication_t *r, const weft_node_t *of, int root,
                                weft_output_t *values) {
  weft_emitter_t *e = &r->e;
  weft_named_attr_t hint = weft_text_attr("communication_hint", r->o->hint);
  if (e->s != NULL || !can_be_sent(weft_base_type_of(values[0]))) return;
  if (r->group_size == NULL) e->s = weft_replication_make_group(r);
  weft_str_t device = e->device;
  for (int i = 0; i < r->n && e->s == NULL; i++) {
    e->device = r->o->devices[i];
    weft_output_t key =
        weft_emit_int(e, WEFT_I32, r->instance_key, "replica_%d/weft/broadcast/instance_key", i);
    if (r->first + i == root) {
      weft_output_t with[4] = {values[i], r->group_size[i], r->group[i], key};
      values[i] = weft_emit(e, "CollectiveBcastSendV2", with, 4, &hint, 1, "replica_%d/weft/broadcast", i);
    } else {
      weft_named_attr_t attrs[2] = {hint, weft_type_attr("T", weft_base_type_of(values[i]))};
      weft_output_t shape = weft_emit1(e, "Shape", values[i], "replica_%d/weft/broadcast/shape", i);
      weft_output_t with[4] = {r->group_size[i], r->group[i], key, shape};
      values[i] = weft_emit(e, "CollectiveBcastRecvV2", with, 4, attrs, 2, "replica_%d/weft/broadcast", i);
    }
  }
  r->instance_key++;
  remember(r, of, values);
  weft_replication_tie(r, "broadcast", values);
  e->device = device;
}

/* ---- rows ---- */

/* The dtype in which rows are gathered: collectives do not take small ones. */
static int carrier_of(int dtype) {
  switch (dtype) {
    case WEFT_BOOL:
    case WEFT_I8:
    case WEFT_U8:
    case WEFT_I16:
    case WEFT_U16: return WEFT_I32;
    case WEFT_U32: return WEFT_I64;
    case WEFT_BF16: return WEFT_F32;
    default: return dtype;
  }
}

static void cast_all(weft_replication_t *r, weft_output_t *values, int dtype) {
  for (int i = 0; i < r->n && r->e.s == NULL; i++) {
    if (weft_base_type_of(values[i]) == dtype) continue;
    r->e.device = r->o->devices[i];
    values[i] = weft_emit_cast(&r->e, values[i], dtype, "replica_%d/weft/gather/cast", i);
  }
}

/* Gathers take equal numbers of rows only: all replicas pad to the largest number, and the padding is dropped
 * afterwards. */
static void gather_rows(weft_replication_t *r, weft_output_t *values) {
  weft_emitter_t *e = &r->e;
  weft_output_t *counts = new_outputs(r), *own = new_outputs(r);
  int64_t zero = 0, one = 1, none = 0;
  weft_str_t device = e->device;
  for (int i = 0; i < r->n && e->s == NULL; i++) {
    e->device = r->o->devices[i];
    weft_named_attr_t as = weft_type_attr("out_type", WEFT_I64);
    weft_output_t shape = weft_emit(e, "Shape", &values[i], 1, &as, 1, "replica_%d/weft/gather/shape", i);
    weft_output_t at = weft_emit_ints(e, WEFT_I64, &zero, 1, "replica_%d/weft/gather/zero", i);
    own[i] = counts[i] = weft_emit3(e, "Slice", shape, at,
                                    weft_emit_ints(e, WEFT_I64, &one, 1, "replica_%d/weft/gather/one", i),
                                    "replica_%d/weft/gather/rows", i);
  }
  weft_replication_collective(r, "CollectiveGatherV2", NULL, 0, "gather_counts", counts);
  for (int i = 0; i < r->n && e->s == NULL; i++) {
    e->device = r->o->devices[i];
    weft_output_t axis = weft_emit_int(e, WEFT_I32, 0, "replica_%d/weft/gather/axis", i);
    weft_output_t most = weft_emit2(e, "Max", counts[i], axis, "replica_%d/weft/gather/most", i);
    weft_output_t scalar = weft_emit_ints(e, WEFT_I64, &none, 0, "replica_%d/weft/gather/scalar", i);
    weft_output_t have = weft_emit2(e, "Reshape", own[i], scalar, "replica_%d/weft/gather/have", i);
    weft_output_t missing = weft_emit2(e, "Sub", most, have, "replica_%d/weft/gather/missing", i);
    weft_output_t one_row = weft_emit_ints(e, WEFT_I64, &one, 1, "replica_%d/weft/gather/one_row", i);
    weft_named_attr_t as = weft_type_attr("out_type", WEFT_I64);
    weft_output_t shape = weft_emit(e, "Shape", &values[i], 1, &as, 1, "replica_%d/weft/gather/own_shape", i);
    weft_output_t all = weft_emit_ints(e, WEFT_I64, &(int64_t){-1}, 1, "replica_%d/weft/gather/all", i);
    weft_output_t row_shape =
        weft_emit3(e, "Slice", shape, one_row, all, "replica_%d/weft/gather/row_shape", i);
    weft_output_t parts[3] = {
        weft_emit2(e, "Reshape", missing, one_row, "replica_%d/weft/gather/missing_rows", i), row_shape,
        axis};
    weft_output_t fill_shape =
        weft_emit(e, "ConcatV2", parts, 3, NULL, 0, "replica_%d/weft/gather/fill_shape", i);
    weft_output_t number = e->s == NULL ? weft_emit_number(e, weft_base_type_of(values[i]), 0,
                                                           "replica_%d/weft/gather/nothing", i)
                                        : axis;
    weft_output_t filled[3] = {
        values[i], weft_emit2(e, "Fill", fill_shape, number, "replica_%d/weft/gather/fill", i), axis};
    own[i] = most;
    values[i] = weft_emit(e, "ConcatV2", filled, 3, NULL, 0, "replica_%d/weft/gather/filled", i);
  }
  weft_replication_collective(r, "CollectiveGatherV2", NULL, 0, "gather", values);
  for (int i = 0; i < r->n && e->s == NULL; i++) {
    e->device = r->o->devices[i];
    weft_output_t begin = weft_emit_int(e, WEFT_I64, 0, "replica_%d/weft/gather/begin", i),
                  step = weft_emit_int(e, WEFT_I64, 1, "replica_%d/weft/gather/step", i);
    weft_output_t ranks = weft_emit_int(e, WEFT_I64, r->total, "replica_%d/weft/gather/ranks", i);
    weft_output_t axis = weft_emit_int(e, WEFT_I32, 0, "replica_%d/weft/gather/rows_axis", i);
    weft_output_t end = weft_emit2(e, "Mul", own[i], ranks, "replica_%d/weft/gather/end", i);
    weft_output_t at = weft_emit3(e, "Range", begin, end, step, "replica_%d/weft/gather/places", i);
    weft_output_t least = weft_emit2(e, "Maximum", own[i], step, "replica_%d/weft/gather/per_rank", i);
    weft_output_t rank = weft_emit2(e, "FloorDiv", at, least, "replica_%d/weft/gather/rank", i);
    weft_output_t row = weft_emit2(e, "FloorMod", at, least, "replica_%d/weft/gather/row", i);
    weft_output_t has = weft_emit3(e, "GatherV2", counts[i], rank, axis, "replica_%d/weft/gather/has", i);
    weft_output_t is_row = weft_emit2(e, "Less", row, has, "replica_%d/weft/gather/is_row", i);
    weft_output_t places = weft_emit1(e, "Where", is_row, "replica_%d/weft/gather/which", i);
    weft_output_t flat =
        weft_emit2(e, "Reshape", places,
                   weft_emit_ints(e, WEFT_I64, &(int64_t){-1}, 1, "replica_%d/weft/gather/flat", i),
                   "replica_%d/weft/gather/kept", i);
    values[i] = weft_emit3(e, "GatherV2", values[i], flat, axis, "replica_%d/weft/gathered", i);
  }
  e->device = device;
}

void weft_replication_gather(weft_replication_t *r, weft_output_t *values) {
  weft_str_t device = r->e.device;
  int dtype = r->e.s == NULL ? weft_base_type_of(values[0]) : 0;
  cast_all(r, values, carrier_of(dtype));
  gather_rows(r, values);
  cast_all(r, values, dtype);
  r->e.device = device;
}

/* ---- initialisation ---- */

weft_status_t *weft_replication_mark_reached(const weft_replication_t *r, bool inits, bool *reached) {
  int n = 0, capacity = r->source.graph->num_nodes + 1;
  weft_node_t **stack = weft_calloc((size_t)capacity, sizeof(*stack));
  if (stack == NULL) return no_memory();
  for (int i = 0; i < r->source.num_roots; i++) {
    weft_node_t *root = r->source.roots[i].node;
    if (r->source.roots[i].is_init != inits || reached[root->id]) continue;
    reached[root->id] = true;
    stack[n++] = root;
  }
  while (n > 0) {
    const weft_node_t *at = stack[--n];
    for (int i = 0; i < at->num_inputs + at->num_controls; i++) {
      weft_node_t *p = i < at->num_inputs ? at->inputs[i].node : at->controls[i - at->num_inputs];
      if (reached[p->id]) continue;
      reached[p->id] = true;
      stack[n++] = p;
    }
  }
  weft_free(stack);
  return NULL;
}

/* The value that an initialiser assigns comes from replica 0 of all, even where every worker could compute
 * it. */
static void take_from_chief(weft_replication_t *r, const weft_node_t *n) {
  int input = n->op->update_grad_input;
  weft_output_t *values = new_outputs(r);
  if (values == NULL || input < 0 || input >= n->num_inputs) return;
  if (weft_replication_sharding(r, n->inputs[input])->kind == WEFT_SHARDING_SINGLE)
    return; /* has been sent */
  for (int i = 0; i < r->n; i++) values[i] = r->copiers[i].copies[n->id]->inputs[input];
  weft_replication_broadcast(r, n, 0, values);
  for (int i = 0; i < r->n && r->e.s == NULL; i++)
    weft_graph_set_input(r->copiers[i].copies[n->id], input, values[i]);
}

weft_status_t *weft_replication_agree(weft_replication_t *r) {
  size_t num = (size_t)r->source.graph->num_nodes + 1;
  bool *in_step = weft_arena_calloc(&r->arena, num, sizeof *in_step),
       *in_init = weft_arena_calloc(&r->arena, num, sizeof *in_init);
  weft_node_t **checks = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof(*checks));
  if (in_step == NULL || in_init == NULL || checks == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_replication_mark_reached(r, false, in_step));
  WEFT_RETURN_IF_ERROR(weft_replication_mark_reached(r, true, in_init));
  for (int at = 0; at < r->source.graph->num_live; at++) {
    const weft_node_t *n = r->order[at];
    bool is_init = r->plan.run[n->id] == WEFT_RUN_UPDATE && in_init[n->id] && !in_step[n->id];
    if (is_init && r->copiers[0].copies[n->id] != NULL && weft_replication_facts(r, n)->branches == 0)
      take_from_chief(r, n);
  }
  WEFT_RETURN_IF_ERROR(weft_replication_check_alike(r, in_step, checks));
  for (const weft_sent_t *sent = r->sent; sent != NULL;
       sent = sent->next) { /* nothing is sent between graphs that differ */
    for (int i = 0; i < r->n && in_init[sent->of->id] && !in_step[sent->of->id]; i++) {
      weft_emit_control(&r->e, checks[i], sent->nodes[i]);
    }
  }
  for (int k = 0; k < r->source.num_roots; k++) {
    if (!r->source.roots[k].is_init) continue;
    weft_node_t *made = weft_graph_find(r->to, r->source.roots[k].node->name);
    for (int i = 0; i < r->n; i++) weft_emit_control(&r->e, checks[i], made);
  }
  return weft_emitter_end(&r->e);
}
