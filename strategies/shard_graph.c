/* strategies/shard_graph.c - copies a graph and shards its variables.
 *
 * Nodes are copied producers first. Nodes that use a sharded variable are rewritten: reads and shape queries
 * here, look-ups in shard_lookup.c, updates and savers in shard_update.c. All uses were checked before
 * (shard_plan.c).
 */
#include "strategies/shard_graph.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "strategies/origin.h"
#include "strategies/shard_plan.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("sharding variables"); }

/* ---- shared by the rewrites ---- */

/* ---- variables ---- */

static void rename_part(weft_shard_plan_t *plan, weft_node_t *part, int64_t i) {
  weft_str_t shared = weft_node_attr_string(part, "shared_name");
  if (shared.length == 0) return;
  const weft_attr_t value = {.kind = WEFT_ATTR_STRING, .s = weft_shard_name(plan, shared, "/part_", i)};
  if (value.s.data != NULL)
    weft_emitter_fail(&plan->b, weft_graph_set_attr(plan->b.g, part, "shared_name", &value));
}

static void cut_variable(weft_shard_plan_t *plan, weft_shard_t *v, const weft_node_t *n) {
  v->parts = weft_arena_calloc(&plan->l.arena, (size_t)v->n, sizeof *v->parts);
  if (v->parts == NULL) weft_emitter_fail(&plan->b, no_memory());
  for (int64_t i = 0; i < v->n && plan->b.s == NULL; i++) {
    int64_t begin, rows;
    weft_node_t *part = NULL;
    weft_shape_t shape = v->shape;
    weft_shard_rows(shape.dims[0], v->n, i, &begin, &rows);
    shape.dims[0] = rows;
    weft_str_t name = weft_shard_name(plan, n->name, "/part_", i);
    if (name.data == NULL) return;
    name = weft_graph_unique_name(plan->b.g, name);
    if (name.data == NULL) weft_emitter_fail(&plan->b, no_memory());
    if (plan->b.s != NULL ||
        weft_emitter_fail(&plan->b, weft_copier_copy_as(&plan->c, n, name, WEFT_STR(""), &part)))
      return;
    const weft_attr_t value = {.kind = WEFT_ATTR_SHAPE, .shape = &shape};
    weft_emitter_fail(&plan->b, weft_graph_set_attr(plan->b.g, part, "shape", &value));
    const weft_attr_t first_row = {.kind = WEFT_ATTR_INT, .i = begin};
    weft_emitter_fail(&plan->b, weft_graph_set_attr(plan->b.g, part, WEFT_ORIGIN_FIRST_ROW, &first_row));
    part->output_shapes = NULL; /* inferred anew */
    rename_part(plan, part, i);
    v->parts[i] = (weft_output_t){part, 0};
  }
  if (plan->b.s != NULL || !weft_dtype_is_ref(n->output_types[0])) return;
  v->value = weft_shard_join(plan, n->name, v->parts, v->n);
  if (v->value.node != NULL) weft_emitter_fail(&plan->b, weft_copier_set_node(&plan->c, n, v->value.node));
}

/* ---- reads and questions ---- */

static void stand_for(weft_shard_plan_t *plan, const weft_node_t *n, weft_output_t with) {
  if (plan->b.s == NULL) weft_emitter_fail(&plan->b, weft_copier_set_node(&plan->c, n, with.node));
}

static weft_output_t read_all(weft_shard_plan_t *plan, weft_shard_t *v, const weft_node_t *n,
                              weft_str_t name) {
  weft_output_t *parts = weft_arena_calloc(&plan->l.arena, (size_t)v->n, sizeof *parts);
  if (parts == NULL) weft_emitter_fail(&plan->b, no_memory());
  for (int64_t i = 0; i < v->n && plan->b.s == NULL; i++) parts[i] = weft_shard_read(plan, v, i, n);
  return plan->b.s == NULL ? weft_shard_join(plan, name, parts, v->n) : (weft_output_t){NULL, 0};
}

static void ask(weft_shard_plan_t *plan, weft_shard_t *v, const weft_node_t *n) {
  weft_output_t all = {NULL, 0};
  for (int64_t i = 0; i < v->n; i++) {
    weft_str_t name = weft_shard_name(plan, n->name, "/part_", i);
    weft_output_t one =
        weft_emit(&plan->b, n->op->name.data, &v->parts[i], 1, NULL, 0, "%.*s", WEFT_STR_ARGS(name));
    weft_shard_like(plan, n, one);
    if (i > 0) name = i == v->n - 1 ? n->name : weft_shard_name(plan, n->name, "/and_", i);
    const weft_output_t both[2] = {all, one};
    all = i == 0 ? one : weft_emit(&plan->b, "LogicalAnd", both, 2, NULL, 0, "%.*s", WEFT_STR_ARGS(name));
  }
  stand_for(plan, n, all);
}

/* The shape of a sharded variable, or of a read of it, is known. */
static void tell_shape(weft_shard_plan_t *plan, const weft_shard_t *v, const weft_node_t *n) {
  weft_str_t scope = plan->b.scope;
  weft_dtype_t type = (weft_dtype_t)n->output_types[0];
  weft_output_t shape = weft_emit_ints(&plan->b, type, v->shape.dims, v->shape.rank, "%s", n->name.data);
  plan->b.scope = scope;
  weft_shard_like(plan, n, shape);
  stand_for(plan, n, shape);
}

static void rewrite_read(weft_shard_plan_t *plan, const weft_node_t *n, bool *done) {
  if (n->num_inputs != 1) return;
  weft_shard_t *v = weft_shard_behind(plan, n, 0, true), *through = weft_shard_behind(plan, n, 0, false);
  *done = true;
  if (through != NULL && (n->flags & WEFT_OP_SHAPE) != 0) {
    tell_shape(plan, through, n);
  } else if (v != NULL && (n->flags & WEFT_OP_READ) != 0) {
    stand_for(plan, n, read_all(plan, v, n, n->name));
  } else if (v != NULL && (n->flags & WEFT_OP_INITIALIZED) != 0) {
    ask(plan, v, n);
  } else {
    *done = false;
  }
}

/* References that n takes as values after something: what they are then. */
static void reread(weft_shard_plan_t *plan, const weft_node_t *n, weft_node_t *copy) {
  for (int i = 0; i < n->num_inputs && n->num_controls > 0; i++) {
    weft_shard_t *v = weft_shard_behind(plan, n, i, true);
    if (v == NULL) continue;
    weft_output_t value = read_all(plan, v, n, weft_shard_name(plan, n->name, "/value_", i));
    if (plan->b.s == NULL) weft_graph_set_input(copy, i, value);
  }
}

/* ---- the way ---- */

static weft_status_t *rewrite_node(weft_shard_plan_t *plan, const weft_node_t *n) {
  weft_node_t *copy = NULL;
  bool done = false;
  if ((n->flags & WEFT_OP_VARIABLE) != 0) {
    int v = plan->l.variable_of[n->id];
    if (plan->shards[v].n <= 1) return weft_copier_copy(&plan->c, n, &copy);
    cut_variable(plan, &plan->shards[v], n);
    return weft_emitter_end(&plan->b);
  }
  rewrite_read(plan, n, &done);
  if (!done) weft_shard_rewrite_lookup(plan, n, &done);
  if (!done) weft_shard_rewrite_update(plan, n, &done);
  if (!done) weft_shard_rewrite_save(plan, n, &done);
  if (done || plan->b.s != NULL) return weft_emitter_end(&plan->b);
  WEFT_RETURN_IF_ERROR(weft_copier_copy(&plan->c, n, &copy));
  reread(plan, n, copy);
  return weft_emitter_end(&plan->b);
}

static weft_status_t *rewrite_nodes(weft_shard_plan_t *plan) {
  /* Variables first: the order of creation is what placement goes by. */
  for (int v = 0; v < plan->l.num_variables; v++) {
    const weft_node_t *n = plan->l.variables[v].node;
    if (n->num_controls == 0) WEFT_RETURN_IF_ERROR(rewrite_node(plan, n));
  }
  for (int k = 0; k < plan->l.num_nodes; k++) {
    const weft_node_t *n = plan->l.order[k];
    if ((n->flags & WEFT_OP_VARIABLE) != 0 && n->num_controls == 0) continue;
    WEFT_RETURN_IF_ERROR(rewrite_node(plan, n));
  }
  return weft_copier_finish(&plan->c);
}

static weft_status_t *note(const weft_shard_plan_t *plan, weft_rewrite_t *notes) {
  for (int v = 0; v < plan->l.num_variables; v++) {
    const weft_shard_t *s = &plan->shards[v];
    weft_str_t name = plan->l.variables[v].node->name;
    if (s->n > 1) {
      WEFT_RETURN_IF_ERROR(weft_rewrite_note(notes, "%.*s %s: %" PRId64 " shards", WEFT_STR_ARGS(name),
                                             WEFT_SHAPE_TEXT(&s->shape), s->n));
    } else if (s->why != NULL) {
      WEFT_RETURN_IF_ERROR(weft_rewrite_note(notes, "%.*s %s stays whole: node '%.*s' %s",
                                             WEFT_STR_ARGS(name), WEFT_SHAPE_TEXT(&s->shape),
                                             WEFT_STR_ARGS(s->culprit), s->why));
    }
  }
  return NULL;
}

weft_status_t *weft_shard_graph(const weft_graph_t *g, const weft_strategy_request_t *r,
                                const weft_partitioner_t *p, weft_rewrite_t *notes, weft_graph_t **out) {
  weft_shard_plan_t plan = {.request = r};
  weft_graph_t *to = NULL;
  WEFT_RETURN_IF_ERROR(weft_placed_graph_init(g, r, &plan.l));
  weft_status_t *s = weft_shard_choose(&plan, p);
  if (s == NULL) s = weft_fanout_build(g, &plan.fanout);
  if (s == NULL) s = weft_copier_new_graph(g, &to);
  if (s == NULL) s = weft_copier_init(&plan.c, g, to, WEFT_STR(""), WEFT_STR(""));
  plan.b = (weft_emitter_t){.g = to};
  if (s == NULL) {
    s = rewrite_nodes(&plan);
    weft_copier_deinit(&plan.c);
  }
  if (s == NULL) s = note(&plan, notes);
  if (plan.fanout.begin != NULL) weft_fanout_deinit(&plan.fanout);
  weft_placed_graph_deinit(&plan.l);
  if (s == NULL) *out = to;
  if (s != NULL) weft_graph_destroy(to);
  return s;
}
