/* strategies/shard_plan.c - chooses the variables to shard: all their uses must be known, and variables that
 * are updated together are partitioned alike. */
#include "strategies/shard_plan.h"

weft_shard_t *weft_shard_behind(const weft_shard_plan_t *plan, const weft_node_t *n, int input,
                                bool straight) {
  const weft_node_t *p = n->inputs[input].node;
  if (straight && (p->flags & WEFT_OP_VARIABLE) == 0) return NULL;
  int v = plan->l.variable_of[p->id];
  return v >= 0 && plan->shards[v].n > 1 ? &plan->shards[v] : NULL;
}

bool weft_shard_is_lookup(const weft_node_t *n) {
  if ((n->flags & WEFT_OP_LOOKUP) == 0 || weft_node_attr_int(n, "batch_dims", 0) != 0) return false;
  int axis = weft_placed_input_named(n, "axis");
  if (axis < 0) return true;
  const weft_attr_t *value = weft_node_attr(n->inputs[axis].node, "value");
  bool is_known =
      (n->inputs[axis].node->flags & WEFT_OP_CONST) != 0 && value != NULL && value->kind == WEFT_ATTR_TENSOR;
  if (!is_known || value->tensor->count != 1) return false;
  return value->tensor->dtype == WEFT_I32   ? *(const int32_t *)value->tensor->data == 0
         : value->tensor->dtype == WEFT_I64 ? *(const int64_t *)value->tensor->data == 0
                                            : false;
}

static int rank_of(weft_output_t o) {
  return o.node->output_shapes == NULL ? WEFT_UNKNOWN_DIM : o.node->output_shapes[o.index].rank;
}

/* Why the update cannot be done shard by shard; NULL: it can. */
static const char *update_trouble(const weft_node_t *n, int rank) {
  int grad = n->op->update_grad_input, indices = weft_placed_input_named(n, "indices");
  if (grad < 0) return "is an update without a value";
  if (n->num_outputs > 1) return "is an update with several results";
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_output_t from = n->inputs[i];
    bool is_variable = (from.node->flags & WEFT_OP_VARIABLE) != 0;
    if (i == grad || i == indices || is_variable) continue;
    if (rank_of(from) != 0) return "takes more than a gradient and scalars";
  }
  if (indices < 0) return NULL;
  int updates = rank_of(n->inputs[grad]), of_rows = rank_of(n->inputs[indices]);
  bool is_known = updates != WEFT_UNKNOWN_DIM && of_rows != WEFT_UNKNOWN_DIM;
  return !is_known || updates != of_rows + rank - 1 ? "does not update whole rows" : NULL;
}

/* Why use i of the variable at n's input keeps it whole; NULL: it does not. */
static const char *trouble(const weft_node_t *n, int input, int rank) {
  const weft_output_t from = n->inputs[input];
  bool is_ref = weft_dtype_is_ref(from.node->output_types[from.index]);
  if ((n->flags & (WEFT_OP_READ | WEFT_OP_INITIALIZED | WEFT_OP_SHAPE)) != 0) return NULL;
  if (is_ref && !weft_dtype_is_ref(n->input_types[input])) return NULL; /* used as a value */
  if (weft_placed_is_update(n)) return update_trouble(n, rank);
  if (weft_shard_is_lookup(n) && input == 0) return NULL;
  return "uses it in a way that cannot be sharded";
}

static void keep_whole(weft_shard_plan_t *plan, int v, const char *why, weft_str_t culprit) {
  if (plan->shards[v].n <= 1) return;
  plan->shards[v].n = 1;
  plan->shards[v].why = why;
  plan->shards[v].culprit = culprit;
}

static void check_uses(weft_shard_plan_t *plan) {
  for (int k = 0; k < plan->l.num_nodes; k++) {
    const weft_node_t *n = plan->l.order[k];
    for (int i = 0; i < n->num_inputs; i++) {
      const weft_node_t *p = n->inputs[i].node;
      int v = weft_placed_variable_behind(&plan->l, n, i);
      if (v < 0 || plan->shards[v].n <= 1) continue;
      bool is_straight = (p->flags & WEFT_OP_VARIABLE) != 0;
      int from = p->output_types[n->inputs[i].index];
      bool is_handle = weft_dtype_is_ref(from) || from == WEFT_RESOURCE;
      const char *why = is_straight ? trouble(n, i, plan->shards[v].shape.rank)
                        : is_handle && (weft_dtype_is_ref(n->input_types[i]) || from == WEFT_RESOURCE)
                            ? "takes it from another node than itself"
                            : NULL;
      if (why != NULL) keep_whole(plan, v, why, n->name);
    }
  }
}

/* Variables of one update: as many shards each, of the same shape, or none. */
static bool equalize(weft_shard_plan_t *plan, const weft_node_t *n) {
  int first = -1;
  bool differ = false, any = false;
  for (int i = 0; i < n->num_inputs; i++) {
    if ((n->inputs[i].node->flags & WEFT_OP_VARIABLE) == 0 ||
        n->input_types[i] != n->inputs[i].node->output_types[0])
      continue;
    int v = plan->l.variable_of[n->inputs[i].node->id];
    if (first < 0) first = v;
    any = any || plan->shards[v].n > 1;
    differ = differ || plan->shards[v].n != plan->shards[first].n ||
             !weft_shape_eq(&plan->shards[v].shape, &plan->shards[first].shape);
  }
  if (!differ || !any) return false;
  for (int i = 0; i < n->num_inputs; i++) {
    if ((n->inputs[i].node->flags & WEFT_OP_VARIABLE) == 0 ||
        n->input_types[i] != n->inputs[i].node->output_types[0])
      continue;
    keep_whole(plan, plan->l.variable_of[n->inputs[i].node->id],
               "updates it together with a variable that stays whole", n->name);
  }
  return true;
}

weft_status_t *weft_shard_choose(weft_shard_plan_t *plan, const weft_partitioner_t *p) {
  weft_placed_graph_t *l = &plan->l;
  plan->shards = weft_arena_calloc(&l->arena, (size_t)l->num_variables + 1, sizeof *plan->shards);
  if (plan->shards == NULL) return WEFT_NO_MEMORY("sharding variables");
  for (int v = 0; v < l->num_variables; v++) {
    const weft_node_t *n = l->variables[v].node;
    const weft_attr_t *shape = weft_node_attr(n, "shape");
    weft_shard_t *shard = &plan->shards[v];
    shard->dtype = (weft_dtype_t)weft_node_attr_type(n, "dtype");
    shard->shape = shape == NULL || shape->kind != WEFT_ATTR_SHAPE ? WEFT_UNKNOWN_SHAPE : *shape->shape;
    shard->n = weft_partitioner_count(p, &shard->shape, shard->dtype);
  }
  check_uses(plan);
  bool changed = true;
  while (changed) {
    changed = false;
    for (int k = 0; k < l->num_nodes; k++) {
      if (weft_placed_is_update(l->order[k])) changed = equalize(plan, l->order[k]) || changed;
    }
  }
  return NULL;
}
