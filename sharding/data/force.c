/* sharding/data/force.c - asking that a value be given otherwise where it was made: before a loop, or where a
 * list is put together. */
#include "sharding/data/analysis.h"

bool weft_data_is_element(const weft_node_t *n) {
  return n->op->batch == WEFT_BATCH_ARRAY_READ || n->op->batch == WEFT_BATCH_LIST_GET;
}

bool weft_data_makes_list(const weft_node_t *n) {
  switch (n->op->batch) {
    case WEFT_BATCH_LIST_FROM:
    case WEFT_BATCH_OPTIONAL_FROM:
    case WEFT_BATCH_NEW_LIST:
    case WEFT_BATCH_LIST_SCATTER: return true;
    default: return false;
  }
}

/* May its value have come into the loop from outside? */
bool weft_data_comes_through(const weft_node_t *n) {
  return (n->op->flags &
          (WEFT_OP_ENTER | WEFT_OP_SWITCH | WEFT_OP_NEXT_ITERATION | WEFT_OP_MERGE | WEFT_OP_IDENTITY)) != 0;
}

static void force_list(weft_data_analysis_t *a, weft_output_t from, const weft_axis_sharding_t *to,
                       bool *any);

/* Once: if it does not help, it is refused. Others may ask in the same round. */
static void ask_for_elements(const weft_data_analysis_t *a, weft_axis_sharding_t *forced, int *forced_in,
                             const weft_axis_sharding_t *to, bool *any) {
  if (forced->kind == WEFT_SHARDING_NONE) {
    *forced = *to;
    *forced_in = a->round;
  }
  *any = *any || (*forced_in == a->round && weft_axis_sharding_eq(forced, to));
}

/* Asks that the elements of the TensorArray or list that `n` reads be put as `to`. */
static void force_elements(weft_data_analysis_t *a, const weft_node_t *n, const weft_axis_sharding_t *to,
                           bool *any) {
  weft_output_t of = n->inputs[0];
  int cell = a->values[of.node->id][of.index].cell;
  if (cell == 0) {
    force_list(a, of, to, any);
  } else {
    ask_for_elements(a, &a->cells[cell].forced, &a->cells[cell].forced_in, to, any);
  }
}

/* The list may have come round a loop, and have been written to there. */
static void force_list(weft_data_analysis_t *a, weft_output_t from, const weft_axis_sharding_t *to,
                       bool *any) {
  weft_node_t *n = from.node;
  if (n->mark == 2) return;
  n->mark = 2;
  if (weft_data_makes_list(n)) {
    ask_for_elements(a, &a->forced[n->id], &a->forced_in[n->id], to, any);
    return;
  }
  bool is_merge = (n->op->flags & WEFT_OP_MERGE) != 0;
  for (int i = 0; i < n->num_inputs && (i == 0 || is_merge); i++) {
    if (n->input_types[i] == WEFT_VARIANT) force_list(a, n->inputs[i], to, any);
  }
}

bool weft_data_force_list(weft_data_ctx_t *c, int axis) {
  weft_data_analysis_t *a = c->analysis;
  weft_axis_sharding_t to = weft_sharding_shard(axis, 0);
  bool any = false;
  for (int i = 0; i < a->num_order; i++) a->order[i]->mark = 0;
  force_list(a, c->node->inputs[0], &to, &any);
  a->again = a->again || any;
  return any;
}

void weft_data_force(weft_data_analysis_t *a, weft_output_t from, const weft_axis_sharding_t *to, bool *found,
                     bool *any) {
  weft_node_t *n = from.node;
  uint64_t flags = n->op->flags;
  if ((flags & WEFT_OP_ENTER) != 0) {
    weft_axis_sharding_t *forced = &a->forced[n->id];
    if (weft_axis_sharding_eq(forced, to)) {
      *any |= !weft_axis_sharding_eq(&a->values[n->id][0].s, to); /* asked for just now, by another */
      return;
    }
    *forced = forced->kind == WEFT_SHARDING_NONE ? *to : weft_sharding_replicate(0);
    *any = true;
    return;
  }
  if (weft_data_is_element(n)) {
    force_elements(a, n, to, any);
    return;
  }
  bool passes = weft_data_comes_through(n);
  if (!passes) *found = false;
  if (!passes || n->mark == 1) return;
  n->mark = 1;
  int num_values = (flags & WEFT_OP_MERGE) != 0 ? n->num_inputs : 1;
  for (int i = 0; i < num_values; i++) weft_data_force(a, n->inputs[i], to, found, any);
}
