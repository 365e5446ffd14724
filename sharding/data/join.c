/* sharding/data/join.c - values joined and cut: rows beside rows, and numbers of rows. */
#include "sharding/data/axis.h"

typedef struct joint { /* Inputs [first, end), joined along `axis`. */
  int first, end;
  int64_t axis;
  bool stacks; /* `axis` is a new one */
  bool knows;  /* the axis */
  bool zero;   /* all of them */
} joint_t;

/* Parts of equal degrees are a part; the same everywhere counts as a part of a degree more. False if they do
 * not fit. */
static bool join_parts(weft_data_ctx_t *c, const joint_t *j) {
  int degree = 0, num_parts = 0;
  for (int i = j->first; i < j->end; i++) {
    if (weft_data_is_partial(c, i)) degree = c->in[i].s.degree;
    num_parts += weft_data_is_partial(c, i);
    if (!weft_data_is_partial(c, i) && c->in[i].s.kind != WEFT_SHARDING_REPLICATE) return false;
  }
  bool fits = num_parts > 0;
  for (int i = j->first; i < j->end && num_parts > 0; i++) {
    if (c->in[i].zero) continue;
    int want = weft_data_is_partial(c, i) ? degree : degree - 1;
    fits = fits && (c->in[i].s.degree == want || weft_data_has_fraction(c->node->input_types[i]));
    c->required[i].degree = want;
  }
  if (!fits) return false;
  c->out[0] = weft_data_value(weft_sharding_partial(degree));
  c->out[0].zero = j->zero;
  return true;
}

/* Nothing is rows, or the axis is not known. */
static weft_status_t *join_whole(weft_data_ctx_t *c, const joint_t *j) {
  WEFT_RETURN_IF_ERROR(weft_data_fall_back(c));
  for (int i = j->first; i < j->end; i++) {
    int whole = weft_data_batch_axis(c, i);
    if (whole < 0 || !j->knows || (!j->stacks && whole == j->axis)) continue;
    c->out[0].whole = j->stacks && j->axis <= whole ? whole + 1 : whole;
  }
  return NULL;
}

/* Rows as input `lead` has them; what all have whole is cut. */
static weft_status_t *join_rows(weft_data_ctx_t *c, const joint_t *j, int lead) {
  int rows = c->in[lead].s.dim, degree = c->in[lead].s.degree;
  if (!j->stacks && rows == j->axis) { /* batches one behind the other: not rows of anything */
    WEFT_RETURN_IF_ERROR(weft_data_replicate_all(c));
    c->out[0].whole = rows;
    return NULL;
  }
  for (int i = j->first; i < j->end; i++) {
    bool fits = weft_data_is_shard(c, i) && c->in[i].s.degree == c->in[lead].s.degree;
    if (!fits && !c->in[i].zero) degree = 0;
  }
  for (int i = j->first; i < j->end; i++) {
    const weft_shape_t *shape = weft_data_in_shape(c, i);
    if (weft_data_is_shard(c, i)) {
      if (c->in[i].s.dim != rows) return weft_data_replicate_all(c);
      if (!c->in[i].zero) c->required[i].degree = degree;
      continue;
    }
    bool has_rows = c->in[i].whole == rows || (shape->rank > rows && shape->dims[rows] > 1);
    bool fits = c->in[i].s.kind == WEFT_SHARDING_REPLICATE || c->in[i].s.kind == WEFT_SHARDING_SINGLE;
    if (!has_rows || !fits) return weft_data_replicate_all(c);
    c->required[i] = weft_sharding_shard(rows, 0);
  }
  c->out[0] = weft_data_value(weft_sharding_shard(j->stacks && j->axis <= rows ? rows + 1 : rows, degree));
  c->out[0].factor = c->in[lead].factor;
  c->out[0].zero = j->zero;
  return NULL;
}

static weft_status_t *join(weft_data_ctx_t *c, joint_t j) {
  int lead = -1, rank = -1; /* lead: rows, not zeros if there are others */
  j.zero = true;
  for (int i = j.first; i < j.end; i++) {
    j.zero = j.zero && c->in[i].zero;
    if (weft_data_in_shape(c, i)->rank >= 0) rank = weft_data_in_shape(c, i)->rank;
    if (weft_data_is_shard(c, i) && (lead < 0 || (c->in[lead].zero && !c->in[i].zero))) lead = i;
  }
  if (rank < 0 && j.axis < 0) j.knows = false;
  if (j.axis < 0) j.axis += rank + (j.stacks ? 1 : 0);
  if (lead < 0 && join_parts(c, &j)) return NULL;
  return lead < 0 || !j.knows ? join_whole(c, &j) : join_rows(c, &j, lead);
}

/* Numbers of rows, 0, 1, ...: each replica may number its own, as long as they only choose among its own. */
weft_status_t *weft_data_range(weft_data_ctx_t *c) {
  int64_t start, by;
  const weft_data_ints_t *limit = c->in[1].ints;
  bool numbers_rows = c->in[1].s.kind == WEFT_SHARDING_COUNTS && limit != NULL &&
                      weft_data_counts_rows(limit, 0) && limit->pick == 0 &&
                      weft_data_int_at(c->in[0].ints, 0, &start) && start == 0 &&
                      weft_data_int_at(c->in[2].ints, 0, &by) && by == 1;
  if (numbers_rows) {
    c->out[0] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
    c->out[0].own = c->node->id + 1;
    c->out[0].factor = weft_data_factor_of(limit, 0);
    c->out[0].rank = 1;
    return NULL;
  }
  weft_status_t *s = weft_data_fall_back(c);
  bool counts_all = limit != NULL && !limit->is_set && limit->n == 1 &&
                    limit->items[0].of != WEFT_COUNT_PLAIN && weft_data_int_at(c->in[0].ints, 0, &start) &&
                    start == 0;
  if (s == NULL && counts_all) {
    c->out[0].whole = 0;
    c->out[0].factor = weft_data_factor_of(limit, 0);
  }
  return s;
}

/* Joins numbers of own rows, in front, with other columns of indices; false if these are none. */
static bool join_own(weft_data_ctx_t *c, int first, int end, int64_t axis, int rank) {
  int own = 0;
  for (int i = first; i < end; i++) {
    if (own == 0) own = c->in[i].own;
  }
  if (own == 0) return false;
  bool fits = c->in[first].own != 0 && (axis == 1 || axis == -1) && rank == 2;
  for (int i = first; i < end; i++) {
    bool is_column = c->in[i].own != 0 || (weft_data_is_shard(c, i) && c->in[i].s.dim == 0);
    fits = fits && is_column;
  }
  if (fits) {
    c->out[0] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_LOCAL));
    c->out[0].own = own;
    c->out[0].factor = c->in[first].factor;
    c->out[0].rank = 2;
    return true;
  }
  for (int i = first; i < end; i++) {
    if (c->in[i].own != 0) weft_data_force_true(c, c->in[i].own - 1);
  }
  c->out[0] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
  return true;
}

weft_status_t *weft_data_concat(weft_data_ctx_t *c) {
  int first = c->node->op->batch == WEFT_BATCH_CONCAT_AXIS_FIRST ? 1 : 0,
      at = first == 1 ? 0 : c->node->num_inputs - 1;
  joint_t j = {.first = first, .end = first + c->node->num_inputs - 1};
  j.knows = weft_data_int_at(c->in[at].ints, 0, &j.axis);
  if (join_own(c, first, j.end, j.axis, weft_data_in_shape(c, first)->rank)) return NULL;
  j.knows = j.knows && weft_data_require_numbers(c, at, at + 1);
  return join(c, j);
}

weft_status_t *weft_data_pack(weft_data_ctx_t *c) {
  int rank = weft_data_in_shape(c, 0)->rank, n = c->node->num_inputs;
  int64_t axis = weft_node_attr_int(c->node, "axis", 0);
  if (join_own(c, 0, n, axis, rank < 0 ? -1 : rank + 1)) return NULL;
  return join(c, (joint_t){.end = n, .axis = axis, .stacks = true, .knows = true});
}
