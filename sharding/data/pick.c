/* sharding/data/pick.c - rows partitioned by number: DynamicPartition, and DynamicStitch, which puts them
 * back.
 *
 * Partition keeps the order of rows. So what all replicas have of one part, one behind the other, is that
 * part of the whole batch; only how many rows of it a replica has is not known before the step. Such rows
 * carry the choice that made them (`pick`): values of one choice go together, with anything else they are
 * joined first. This is how a table in parts is looked up (embedding_lookup of a partitioned variable, shards
 * of a parameter server), and its gradient goes the same way.
 *
 * Rules that do not know of choices are given true values instead.
 */
#include "sharding/data/analysis.h"
#include "sharding/data/axis.h"

typedef weft_data_value_t value_t;

int weft_data_pick_of(weft_data_ctx_t *c, weft_output_t by, int part, int num_parts) {
  weft_data_analysis_t *a = c->analysis;
  for (weft_data_pick_t *p = a->picks; p != NULL; p = p->next) {
    if (p->by.node == by.node && p->by.index == by.index && p->part == part && p->num_parts == num_parts)
      return p->number;
  }
  weft_data_pick_t *p = weft_data_alloc(c, sizeof *p);
  if (p == NULL) return 0;
  *p = (weft_data_pick_t){a->picks, by, part, num_parts, a->picks == NULL ? 1 : a->picks->number + 1};
  a->picks = p;
  return p->number;
}

static const weft_data_pick_t *find_pick(const weft_data_ctx_t *c, int number) {
  for (const weft_data_pick_t *p = c->analysis->picks; p != NULL; p = p->next) {
    if (p->number == number) return p;
  }
  return NULL;
}

/* ---- which rules know ---- */

int weft_data_pick_in(const value_t *v) {
  if (v->pick != 0) return v->pick;
  return v->s.kind == WEFT_SHARDING_COUNTS && v->ints != NULL ? v->ints->pick : 0;
}

/* The one choice of all inputs; 0: none, or several. */
static int common_pick(const weft_data_ctx_t *c) {
  int pick = 0;
  for (int i = 0; i < c->node->num_inputs; i++) {
    int mine = weft_data_pick_in(&c->in[i]);
    if (mine != 0 && pick != 0 && mine != pick) return 0;
    if (mine != 0) pick = mine;
  }
  return pick;
}

/* Rows of one choice, and what is the same for each of them. */
static bool is_elementwise_on_rows(const weft_data_ctx_t *c) {
  int rank = -1;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].pick != 0 && weft_data_is_shard(c, i)) rank = weft_data_in_shape(c, i)->rank;
  }
  if (rank < 0 || common_pick(c) == 0) return false;
  for (int i = 0; i < c->node->num_inputs; i++) {
    const weft_shape_t *shape = weft_data_in_shape(c, i);
    if (c->in[i].pick != 0) {
      if (!weft_data_is_shard(c, i) || shape->rank != rank) return false;
      continue;
    }
    bool is_alike = c->in[i].s.kind == WEFT_SHARDING_REPLICATE && shape->rank >= 0 &&
                    (shape->rank < rank || (shape->rank == rank && shape->dims[0] == 1));
    if (!is_alike) return false;
  }
  return true;
}

/* Whole rows stay whole rows: [n, 4] to [n, 2, 2], not to [n / 2, 8]. */
static bool keeps_rows(const weft_data_ctx_t *c) {
  const weft_data_ints_t *to = c->in[1].ints;
  const weft_shape_t *from = weft_data_in_shape(c, 0);
  if (c->in[0].pick == 0 || !weft_data_is_shard(c, 0) || to == NULL || to->is_set || to->is_scalar ||
      to->n == 0 || from->rank < 1)
    return false;
  int64_t before = 1, after = 1, dim;
  bool is_count = weft_data_counts_rows(to, 0) && to->pick == c->in[0].pick;
  bool is_rest = weft_data_int_at(to, 0, &dim) && dim == -1;
  if (!is_count && !is_rest) return false;
  for (int i = 1; i < from->rank; i++) {
    if (from->dims[i] < 0 || __builtin_mul_overflow(before, from->dims[i], &before)) return false;
  }
  for (int i = 1; i < to->n; i++) {
    if (!weft_data_int_at(to, i, &dim) || dim < 0 || __builtin_mul_overflow(after, dim, &after)) return false;
  }
  return before == after;
}

static bool looks_up(const weft_data_ctx_t *c) {
  int64_t axis = 0;
  if (c->in[1].pick == 0 || c->in[0].pick != 0 || weft_node_attr_int(c->node, "batch_dims", 0) != 0)
    return false;
  if (c->node->op->batch == WEFT_BATCH_GATHER_AXIS &&
      (!weft_data_int_at(c->in[2].ints, 0, &axis) || axis != 0))
    return false;
  if (c->in[1].own != 0)
    return weft_data_is_shard(c, 0) && c->in[0].s.dim == 0 && c->in[0].factor == c->in[1].factor &&
           c->in[1].factor > 0;
  return weft_data_is_shard(c, 1) && (c->in[0].is_state || c->in[0].s.kind == WEFT_SHARDING_REPLICATE);
}

static bool sums(const weft_data_ctx_t *c) {
  uint32_t in, maybe;
  bool is_sum = c->node->op->batch == WEFT_BATCH_REDUCE_SUM; /* a mean needs to know of how many */
  if (c->in[0].pick == 0 || c->in[1].s.kind != WEFT_SHARDING_REPLICATE) return false;
  if (!weft_data_axes(c->in[1].ints, weft_data_in_shape(c, 0)->rank, &in, &maybe) || maybe != 0) return false;
  return is_sum || (in & 1) == 0;
}

static bool knows_picks(weft_data_ctx_t *c) {
  switch (c->node->op->batch) {
    case WEFT_BATCH_PASS_ALL:
    case WEFT_BATCH_STITCH: return true;
    case WEFT_BATCH_RESHAPE: return keeps_rows(c);
    case WEFT_BATCH_GATHER:
    case WEFT_BATCH_GATHER_AXIS:
    case WEFT_BATCH_GATHER_VARIABLE: return looks_up(c);
    case WEFT_BATCH_REDUCE_SUM:
    case WEFT_BATCH_REDUCE_MEAN:
    case WEFT_BATCH_REDUCE_ORDER:
    case WEFT_BATCH_REDUCE_PROD: return sums(c);
    case WEFT_BATCH_SAME_SHAPES:
    case WEFT_BATCH_QUOTIENT:
    case WEFT_BATCH_ZEROS_LIKE:
    case WEFT_BATCH_ONES_LIKE: return is_elementwise_on_rows(c);
    case WEFT_BATCH_BY_FLAGS: return weft_op_is_elementwise(c->node->op) && is_elementwise_on_rows(c);
    default: return false;
  }
}

/* Rows as they were asked for, and numbers made of how many there are, carry the choice on. */
static void carry(weft_data_ctx_t *c, int pick) {
  for (int o = 0; o < c->node->num_outputs; o++) {
    value_t *v = &c->out[o];
    if (v->s.kind == WEFT_SHARDING_SHARD) {
      v->pick = pick;
      v->factor = 0;
    } else if (v->s.kind == WEFT_SHARDING_COUNTS && v->ints != NULL) {
      size_t bytes = sizeof *v->ints + (size_t)v->ints->n * sizeof v->ints->items[0];
      weft_data_ints_t *copy = weft_data_alloc(c, bytes);
      if (copy == NULL) return;
      memcpy(copy, v->ints, bytes);
      copy->pick = pick;
      v->ints = copy;
    }
  }
}

static void require_true(weft_data_ctx_t *c, value_t *in) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (weft_data_pick_in(&in[i]) == 0 || in[i].own != 0) continue;
    in[i] = weft_data_true_value(c, &in[i], WEFT_SHARDING_REPLICATE);
    c->required[i] = in[i].s;
  }
}

weft_status_t *weft_data_with_picks(weft_data_ctx_t *c, value_t *in, weft_data_rule_fn *ask) {
  int pick = common_pick(c);
  weft_batch_rule_t rule = c->node->op->batch;
  bool is_merge = (c->node->op->flags & WEFT_OP_MERGE) != 0;
  if (pick != 0 && !is_merge && weft_data_ints_compute(c)) {
    carry(c, pick);
    return NULL;
  }
  bool knows = !is_merge && knows_picks(c);
  if (!knows) require_true(c, in);
  WEFT_RETURN_IF_ERROR(ask(c));
  if (knows && rule == WEFT_BATCH_PASS_ALL) return NULL; /* as they came */
  if (knows && rule != WEFT_BATCH_STITCH) carry(c, pick);
  return NULL;
}

/* ---- the rules ---- */

weft_status_t *weft_data_partition(weft_data_ctx_t *c) { /* data, partitions */
  const value_t *data = &c->in[0], *by = &c->in[1];
  bool is_dealt = weft_data_is_shard(c, 1) && by->s.dim == 0;
  bool is_rows = weft_data_is_shard(c, 0) && data->s.dim == 0, is_own = data->own != 0 && data->rank == 1;
  bool is_whole = data->s.kind == WEFT_SHARDING_REPLICATE && data->whole == 0;
  if (!is_dealt || !(is_rows || is_own || is_whole)) {
    if (data->own == 0) return weft_data_replicate_all(c);
    weft_data_force_true(c, data->own - 1);
    for (int o = 0; o < c->node->num_outputs; o++)
      c->out[o] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
    return NULL;
  }
  if (is_whole) c->required[0] = weft_sharding_shard(0, 0);
  for (int o = 0; o < c->node->num_outputs; o++) {
    value_t *v = &c->out[o];
    if (is_own) {
      *v = *data;
    } else {
      *v = weft_data_value(weft_sharding_shard(0, c->required[0].degree));
      v->zero = data->zero;
    }
    v->pick = weft_data_pick_of(c, c->node->inputs[1], o, c->node->num_outputs);
  }
  return NULL;
}

/* Are these all parts of one choice, numbered by own rows, with the rows that belong to them? */
static bool is_put_back(const weft_data_ctx_t *c, int n) {
  const weft_data_pick_t *first = find_pick(c, c->in[0].pick);
  uint64_t seen = 0;
  if (first == NULL || first->num_parts != n || n > 64) return false;
  for (int p = 0; p < n; p++) {
    const value_t *at = &c->in[p], *rows = &c->in[n + p];
    const weft_data_pick_t *pick = find_pick(c, at->pick);
    bool fits = pick != NULL && pick->by.node == first->by.node && pick->by.index == first->by.index &&
                pick->num_parts == n;
    if (!fits || at->own == 0 || at->own != c->in[0].own || rows->pick != at->pick) return false;
    if (rows->s.kind != WEFT_SHARDING_SHARD || rows->s.degree != c->in[n].s.degree) return false;
    seen |= (uint64_t)1 << pick->part;
  }
  return seen == (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1);
}

weft_status_t *weft_data_stitch(weft_data_ctx_t *c) { /* indices, then data */
  int n = c->node->num_inputs / 2;
  bool has_own = false;
  if (is_put_back(c, n)) {
    c->out[0] = weft_data_value(weft_sharding_shard(0, c->in[n].s.degree));
    c->out[0].factor = c->in[0].factor;
    return NULL;
  }
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].own != 0) weft_data_force_true(c, c->in[i].own - 1);
    has_own = has_own || c->in[i].own != 0;
  }
  if (!has_own) return weft_data_replicate_all(c);
  c->out[0] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
  return NULL;
}
