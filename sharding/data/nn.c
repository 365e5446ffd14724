/* sharding/data/nn.c - ops that treat each example of a batch by itself, and batch normalisation. */
#include "sharding/data/axis.h"

typedef weft_data_value_t value_t;

/* The first input that may have a degree, and be a part if nothing else is rows; -1: none. */
static int linear_input(const weft_op_def_t *op) {
  for (int i = 0; i < WEFT_OP_MAX_LINEAR; i++) {
    if ((op->flags & WEFT_OP_LINEAR_IN(i)) != 0) return i;
  }
  return -1;
}

/* Is input i a factor that all replicas have? */
static bool is_filter(const weft_data_ctx_t *c, int i) {
  return i == 1 && c->node->op->batch == WEFT_BATCH_EXAMPLES_FILTER;
}

static bool axis_fits(const weft_data_ctx_t *c, int i) {
  int axis = c->in[i].s.dim, rank = weft_data_in_shape(c, i)->rank;
  switch (c->node->op->batch) {
    case WEFT_BATCH_ROWS: return rank > 0 && axis < rank - 1;
    case WEFT_BATCH_MATRICES: return rank > 0 && axis < rank - 2;
    default: return axis == 0;
  }
}

static weft_status_t *give_up(weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    weft_sharding_kind_t kind = c->in[i].s.kind;
    if (kind != WEFT_SHARDING_REPLICATE && kind != WEFT_SHARDING_SINGLE) return weft_data_replicate_all(c);
  }
  weft_status_t *s = weft_data_single(c);
  for (int i = c->node->num_inputs; s == NULL && i-- > 0;) {
    for (int o = 0; o < c->node->num_outputs && c->in[i].whole >= 0 && axis_fits(c, i); o++) {
      c->out[o].whole = c->in[i].whole;
    }
  }
  return s;
}

/* The axis of rows, -1: there are none. False if they are not the op's rows. */
static bool find_axis(const weft_data_ctx_t *c, int *axis) {
  *axis = -1;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_SHARD) continue;
    if (!axis_fits(c, i) || (*axis >= 0 && *axis != c->in[i].s.dim) || is_filter(c, i)) return false;
    *axis = c->in[i].s.dim;
  }
  return true;
}

/* A part goes through what is linear in it, if all else is the same everywhere. */
static weft_status_t *pass_part(weft_data_ctx_t *c, int part) {
  int d = c->in[part].s.degree;
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_REPLICATE && i != part) return give_up(c);
    if (is_filter(c, i)) d += c->in[i].s.degree;
    if (i != part && !is_filter(c, i)) c->required[i].degree = 0;
  }
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o] = weft_data_value(weft_sharding_partial(d));
    c->out[o].zero = c->in[part].zero;
  }
  return NULL;
}

/* An input that is not rows goes as it truly is, or, if it has as many, by its rows. False if it cannot. */
static bool take_other(weft_data_ctx_t *c, int i, int axis, int linear) {
  const weft_node_t *n = c->node;
  const weft_shape_t *shape = weft_data_in_shape(c, i);
  c->required[i] = weft_sharding_replicate(0);
  bool has_axis = (shape->rank < 0 || shape->rank > axis) && !(shape->rank > axis && shape->dims[axis] == 1);
  bool is_data = (n->input_types[i] == n->input_types[linear >= 0 ? linear : 0] ||
                  n->op->batch == WEFT_BATCH_EXAMPLES_LABELS) &&
                 shape->rank != 0;
  if (!is_data || !has_axis) return true;
  bool is_whole = c->in[i].whole == axis || (shape->rank > axis && shape->dims[axis] > 1);
  if (!is_whole || c->in[i].s.kind == WEFT_SHARDING_PARTIAL) return false;
  c->required[i] = weft_sharding_shard(axis, 0);
  return true;
}

weft_status_t *weft_data_each_row(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  int linear = linear_input(n->op), axis, d = 0;
  int64_t factor = 0;
  if (!find_axis(c, &axis)) return give_up(c);
  for (int i = 0; i < n->num_inputs && axis < 0; i++) {
    if (i == linear && c->in[i].s.kind == WEFT_SHARDING_PARTIAL) return pass_part(c, i);
  }
  if (axis < 0) return give_up(c);
  for (int i = 0; i < n->num_inputs; i++) {
    weft_sharding_kind_t kind = c->in[i].s.kind;
    if (kind == WEFT_SHARDING_LOCAL) return give_up(c);
    if (i == 0 && n->op->batch == WEFT_BATCH_EXAMPLES_OF_SHAPE) {
      if (!weft_data_counts_rows(c->in[0].ints, axis)) return give_up(c);
    } else if (kind == WEFT_SHARDING_SHARD) {
      if (i != linear) c->required[i].degree = 0;
      if (i == linear) d += c->in[i].s.degree;
      if (factor == 0) factor = c->in[i].factor;
    } else if (is_filter(c, i)) {
      if (kind != WEFT_SHARDING_REPLICATE) c->required[i] = weft_sharding_replicate(0);
      d += c->required[i].degree;
    } else if (!take_other(c, i, axis, linear)) {
      return give_up(c);
    }
  }
  for (int o = 0; o < n->num_outputs; o++) {
    c->out[o] = weft_data_value(weft_sharding_shard(axis, d));
    c->out[o].factor = factor;
    c->out[o].zero = linear >= 0 && c->in[linear].zero;
  }
  return NULL;
}

/* Indices of pixels within an image; those within a batch are of the whole batch. */
weft_status_t *weft_data_pool_with_indices(weft_data_ctx_t *c) {
  return weft_node_attr_bool(c->node, "include_batch_in_index", false) ? give_up(c) : weft_data_each_row(c);
}

/* Training: each replica normalises its rows by their own mean and variance, as TensorFlow's MirroredStrategy
 * does; what moving averages get is the mean of the replicas'. */
weft_status_t *weft_data_batch_norm(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  if (c->in[0].s.kind != WEFT_SHARDING_SHARD || c->in[0].s.dim != 0) return give_up(c);
  c->required[0].degree = 0;
  for (int i = 1; i < n->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_SHARD) return give_up(c);
    c->required[i] = weft_sharding_replicate(0);
  }
  bool is_training = weft_node_attr_bool(n, "is_training", true);
  c->out[0] = weft_data_value(weft_sharding_shard(0, 0));
  c->out[0].factor = c->in[0].factor;
  for (int o = 1; o < n->num_outputs; o++) {
    weft_axis_sharding_t s = weft_sharding_of_kind(WEFT_SHARDING_LOCAL);
    if (o <= 2) s = is_training ? weft_sharding_partial(1) : weft_sharding_replicate(0);
    c->out[o] = weft_data_value(s);
  }
  return NULL;
}

weft_status_t *weft_data_batch_norm_grad(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  bool fits = c->in[0].s.kind == WEFT_SHARDING_SHARD && c->in[1].s.kind == WEFT_SHARDING_SHARD &&
              c->in[0].s.dim == 0 && c->in[1].s.dim == 0;
  if (!fits) return give_up(c);
  int d = c->in[0].s.degree;
  c->required[1].degree = 0;
  for (int i = 2; i < n->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_SHARD) return give_up(c);
    /* statistics come from the forward op of the same replica, as it has them */
    bool is_statistic =
        i >= 3 && (c->in[i].s.kind == WEFT_SHARDING_LOCAL || c->in[i].s.kind == WEFT_SHARDING_PARTIAL);
    if (!is_statistic) c->required[i] = weft_sharding_replicate(0);
  }
  for (int o = 0; o < n->num_outputs; o++) {
    weft_axis_sharding_t s = o == 0   ? weft_sharding_shard(0, d)
                             : o <= 2 ? weft_sharding_partial(d)
                                      : weft_sharding_of_kind(WEFT_SHARDING_LOCAL);
    c->out[o] = weft_data_value(s);
  }
  c->out[0].factor = c->in[0].factor;
  return NULL;
}
