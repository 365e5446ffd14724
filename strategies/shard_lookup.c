/* strategies/shard_lookup.c - looks up rows of a sharded variable in the shard that holds them.
 *
 * With `rows` rows in n shards, q = rows / n and r = rows mod n, the first r shards
 * have q + 1 rows; row i is in shard max(i / (q + 1), (i - r) / q). The ids are split
 * out by it, looked up on the servers, and the rows are put back in the ids' order;
 * the table stays where it is. Source: the "div" strategy of TensorFlow's embedding_lookup.
 */
#include "strategies/shard_plan.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("dealing out rows to shards"); }

typedef struct weft_route {
  weft_output_t shard;  /* int32 [ids]: which */
  weft_output_t *local; /* n: rows within each shard */
} weft_route_t;

static const weft_output_t nothing = {NULL, 0};

static weft_output_t *outputs(weft_shard_plan_t *plan, weft_output_t first, int64_t n) {
  weft_output_t *all = weft_arena_calloc(&plan->l.arena, (size_t)n, sizeof *all);
  if (all == NULL) weft_emitter_fail(&plan->b, no_memory());
  for (int64_t i = 0; all != NULL && i < n; i++) all[i] = (weft_output_t){first.node, (int)i};
  return all;
}

static weft_output_t *deal_out(weft_shard_plan_t *plan, const char *name, weft_output_t data,
                               weft_output_t shard, int64_t n) {
  const weft_named_attr_t number = weft_int_attr("num_partitions", n);
  const weft_output_t in[2] = {data, shard};
  weft_output_t split_ids = weft_emit(&plan->b, "DynamicPartition", in, 2, &number, 1, "%s", name);
  return split_ids.node == NULL ? NULL : outputs(plan, split_ids, n);
}

/* `flat`: a vector of ids. Ids out of range go to the first or last shard, where they fail. */
static bool route(weft_shard_plan_t *plan, const weft_shard_t *v, weft_output_t flat, weft_route_t *out) {
  weft_emitter_t *b = &plan->b;
  if (b->s != NULL) return false;
  weft_dtype_t type = (weft_dtype_t)weft_base_type_of(flat);
  int64_t each = v->shape.dims[0] / v->n, longer = v->shape.dims[0] % v->n, rows;
  int64_t *begins = weft_arena_calloc(&plan->l.arena, (size_t)v->n, sizeof *begins);
  if (begins == NULL) return !weft_emitter_fail(b, no_memory());
  for (int64_t i = 0; i < v->n; i++) weft_shard_rows(v->shape.dims[0], v->n, i, &begins[i], &rows);
  weft_output_t a = weft_emit2(b, "FloorDiv", flat, weft_emit_int(b, type, each + 1, "rows_of_long"), "long");
  weft_output_t c = weft_emit2(b, "Sub", flat, weft_emit_int(b, type, longer, "num_long"), "past");
  c = weft_emit2(b, "FloorDiv", c, weft_emit_int(b, type, each, "rows_of_short"), "short");
  a = weft_emit2(b, "Maximum", a, c, "shard");
  a = weft_emit2(b, "Minimum", a, weft_emit_int(b, type, v->n - 1, "last"), "most");
  a = weft_emit2(b, "Maximum", a, weft_emit_int(b, type, 0, "first"), "least");
  out->shard = weft_emit_cast(b, a, WEFT_I32, "shard32");
  weft_output_t begin = weft_emit3(b, "GatherV2", weft_emit_ints(b, type, begins, (int)v->n, "begins"),
                                   out->shard, weft_emit_int(b, WEFT_I32, 0, "axis"), "begin");
  out->local = deal_out(plan, "local", weft_emit2(b, "Sub", flat, begin, "within"), out->shard, v->n);
  return b->s == NULL;
}

static weft_output_t flatten(weft_shard_plan_t *plan, weft_output_t ids) {
  const int64_t any = -1;
  return weft_emit2(&plan->b, "Reshape", ids, weft_emit_ints(&plan->b, WEFT_I32, &any, 1, "any"), "flat");
}

static weft_output_t look_up(weft_shard_plan_t *plan, const weft_shard_t *v, int64_t i, weft_output_t ids,
                             bool is_ref) {
  weft_emitter_t *b = &plan->b;
  if (is_ref)
    return weft_emit3(b, "GatherV2", v->parts[i], ids, weft_emit_int(b, WEFT_I32, 0, "axis"), "rows");
  const weft_named_attr_t dtype = weft_type_attr("dtype", (int)v->dtype);
  const weft_output_t in[2] = {v->parts[i], ids};
  return weft_emit(b, "ResourceGather", in, 2, &dtype, 1, "rows");
}

/* Rows in the order of the ids, in the ids' shape. */
static weft_output_t put_back(weft_shard_plan_t *plan, const weft_shard_t *v, weft_output_t ids,
                              weft_output_t *at, weft_output_t *rows, weft_str_t name) {
  weft_emitter_t *b = &plan->b;
  weft_output_t *in = weft_arena_calloc(&plan->l.arena, 2 * (size_t)v->n, sizeof *in);
  if (in == NULL) weft_emitter_fail(b, no_memory());
  if (b->s != NULL) return nothing;
  memcpy(in, at, (size_t)v->n * sizeof *in);
  memcpy(in + v->n, rows, (size_t)v->n * sizeof *in);
  const weft_named_attr_t number = weft_int_attr("N", v->n);
  weft_output_t all = weft_emit(b, "DynamicStitch", in, 2 * (int)v->n, &number, 1, "in_order");
  weft_output_t shape = weft_emit1(b, "Shape", ids, "ids_shape");
  const weft_output_t dims[3] = {
      shape, weft_emit_ints(b, WEFT_I32, v->shape.dims + 1, v->shape.rank - 1, "row_shape"),
      weft_emit_int(b, WEFT_I32, 0, "axis")};
  shape = weft_emit(b, "ConcatV2", dims, 3, NULL, 0, "shape");
  const weft_output_t last[2] = {all, shape};
  b->scope = WEFT_STR("");
  return weft_emit(b, "Reshape", last, 2, NULL, 0, "%.*s", WEFT_STR_ARGS(name));
}

void weft_shard_rewrite_lookup(weft_shard_plan_t *plan, const weft_node_t *n, bool *done) {
  weft_shard_t *v = n->num_inputs > 1 ? weft_shard_behind(plan, n, 0, false) : NULL;
  if (v == NULL || !weft_shard_is_lookup(n)) return;
  weft_emitter_t *b = &plan->b;
  const weft_node_t *variable = plan->l.variables[v - plan->shards].node, *read = n->inputs[0].node;
  bool is_ref = weft_dtype_is_ref(variable->output_types[0]);
  weft_output_t ids = weft_copier_output(&plan->c, n->inputs[1]);
  weft_output_t *rows = weft_arena_calloc(&plan->l.arena, (size_t)v->n, sizeof *rows);
  weft_route_t r;
  *done = true;
  if (rows == NULL) weft_emitter_fail(b, no_memory());
  b->scope = weft_shard_name(plan, n->name, "/shards/", -1);
  weft_output_t flat = flatten(plan, ids);
  if (route(plan, v, flat, &r)) {
    weft_output_t size = weft_emit1(b, "Size", flat, "count");
    weft_output_t order = weft_emit3(b, "Range", weft_emit_int(b, WEFT_I32, 0, "zero"), size,
                                     weft_emit_int(b, WEFT_I32, 1, "one"), "order");
    weft_output_t *at = deal_out(plan, "at", order, r.shard, v->n);
    for (int64_t i = 0; i < v->n && b->s == NULL; i++) {
      rows[i] = look_up(plan, v, i, r.local[i], is_ref);
      weft_shard_like(plan, n, rows[i]);
      if (read != variable) weft_shard_like(plan, read, rows[i]);
    }
    weft_output_t all = put_back(plan, v, ids, at, rows, n->name);
    if (b->s == NULL) weft_emitter_fail(b, weft_copier_set_node(&plan->c, n, all.node));
  }
  b->scope = WEFT_STR("");
}

/* ---- updates ---- */

static bool has_data_use(const weft_shard_plan_t *plan, const weft_node_t *n) {
  for (int e = plan->fanout.begin[n->id]; e < plan->fanout.begin[n->id + 1]; e++) {
    if (plan->fanout.edges[e].output >= 0) return true;
  }
  return false;
}

static bool is_fetched(const weft_shard_plan_t *plan, const weft_node_t *n) {
  const weft_names_t *f = &plan->request->fetches;
  for (int i = 0; i < f->n; i++) {
    weft_str_t node = f->items[i];
    int index = 0;
    if (weft_tensor_name_parse(f->items[i], &node, &index) && weft_str_eq(node, n->name)) return true;
  }
  return false;
}

/* The pieces of the gradient, and of the indices if there are such. */
static bool cut_values(weft_shard_plan_t *plan, const weft_shard_t *v, const weft_node_t *n,
                       weft_output_t **grads, weft_output_t **indices) {
  weft_emitter_t *b = &plan->b;
  int grad = n->op->update_grad_input, index = weft_placed_input_named(n, "indices");
  weft_output_t value = weft_copier_output(&plan->c, n->inputs[grad]);
  weft_route_t r;
  if (index < 0) {
    int64_t *rows = weft_arena_calloc(&plan->l.arena, (size_t)v->n, sizeof *rows), begin;
    if (rows == NULL) return !weft_emitter_fail(b, no_memory());
    for (int64_t i = 0; i < v->n; i++) weft_shard_rows(v->shape.dims[0], v->n, i, &begin, &rows[i]);
    const weft_output_t in[3] = {value, weft_emit_ints(b, WEFT_I64, rows, (int)v->n, "rows"),
                                 weft_emit_int(b, WEFT_I32, 0, "axis")};
    const weft_named_attr_t number = weft_int_attr("num_split", v->n);
    weft_output_t split = weft_emit(b, "SplitV", in, 3, &number, 1, "split");
    *grads = split.node == NULL ? NULL : outputs(plan, split, v->n);
    return b->s == NULL;
  }
  weft_output_t ids = weft_copier_output(&plan->c, n->inputs[index]);
  const weft_output_t of = n->inputs[index];
  if (of.node->output_shapes == NULL || of.node->output_shapes[of.index].rank != 1) {
    weft_shape_t row = v->shape;
    row.dims[0] = -1;
    ids = flatten(plan, ids);
    value = weft_emit2(b, "Reshape", value, weft_emit_ints(b, WEFT_I32, row.dims, row.rank, "rows_shape"),
                       "rows");
  } else {
    ids = weft_emit1(b, "Identity", ids, "flat"); /* one node consumes them in any case */
  }
  if (!route(plan, v, ids, &r)) return false;
  *indices = r.local;
  *grads = deal_out(plan, "gradient", value, r.shard, v->n);
  return b->s == NULL;
}

/* Update i of n: the same op on part i of each variable. */
static weft_output_t update_part(weft_shard_plan_t *plan, const weft_node_t *n, int64_t i, weft_output_t grad,
                                 const weft_output_t *index) {
  weft_output_t *in = weft_arena_calloc(&plan->l.arena, (size_t)n->num_inputs, sizeof *in);
  if (in == NULL) weft_emitter_fail(&plan->b, no_memory());
  if (plan->b.s != NULL) return nothing;
  int indices = weft_placed_input_named(n, "indices");
  for (int k = 0; k < n->num_inputs; k++) {
    bool is_handle = n->input_types[k] == WEFT_RESOURCE || weft_dtype_is_ref(n->input_types[k]);
    weft_shard_t *v = is_handle ? weft_shard_behind(plan, n, k, true) : NULL;
    in[k] = v != NULL ? v->parts[i] : weft_copier_output(&plan->c, n->inputs[k]);
  }
  in[n->op->update_grad_input] = grad;
  if (indices >= 0) in[indices] = index[i];
  weft_str_t name = weft_shard_name(plan, n->name, "/part_", i);
  weft_output_t part = weft_emit(&plan->b, n->op->name.data, in, n->num_inputs, n->attrs, n->num_attrs,
                                 "%.*s", WEFT_STR_ARGS(name));
  weft_shard_like(plan, n, part);
  return part;
}

/* Control edges from the update become edges from all shards' updates; its value is their concatenation. */
static void join_parts(weft_shard_plan_t *plan, const weft_node_t *n, const weft_output_t *parts,
                       int64_t num_parts) {
  weft_emitter_t *b = &plan->b;
  bool fetched = n->num_outputs > 0 && is_fetched(plan, n);
  weft_node_t *done = weft_emit_noop(b, NULL, 0, fetched ? "%.*s/done" : "%.*s", WEFT_STR_ARGS(n->name));
  for (int64_t i = 0; i < num_parts; i++) weft_emit_control(b, parts[i].node, done);
  if (b->s != NULL || weft_emitter_fail(b, weft_copier_set_node(&plan->c, n, done))) return;
  if (!fetched && (n->num_outputs == 0 || !has_data_use(plan, n))) return;
  weft_output_t value = weft_shard_join(
      plan, fetched ? n->name : weft_shard_name(plan, n->name, "/value", -1), parts, num_parts);
  if (b->s == NULL)
    weft_emitter_fail(b, weft_copier_set(&plan->c, (weft_output_t){(weft_node_t *)n, 0}, value));
}

void weft_shard_rewrite_update(weft_shard_plan_t *plan, const weft_node_t *n, bool *done) {
  weft_shard_t *v =
      weft_placed_is_update(n) && n->num_inputs > 0 ? weft_shard_behind(plan, n, 0, true) : NULL;
  if (v == NULL) return;
  weft_emitter_t *b = &plan->b;
  weft_output_t *grads = NULL, *indices = NULL;
  weft_output_t *parts = weft_arena_calloc(&plan->l.arena, (size_t)v->n, sizeof *parts);
  *done = true;
  if (parts == NULL) weft_emitter_fail(b, no_memory());
  b->scope = weft_shard_name(plan, n->name, "/shards/", -1);
  bool ok = b->s == NULL && cut_values(plan, v, n, &grads, &indices);
  b->scope = WEFT_STR("");
  for (int64_t i = 0; ok && i < v->n; i++) parts[i] = update_part(plan, n, i, grads[i], indices);
  if (ok) join_parts(plan, n, parts, v->n);
}
