/* sharding/data/reduce.c - reductions, of which axes may be worked out from shapes, and segments, which may
 * be as many as rows. */
#include "sharding/data/axis.h"

typedef weft_data_value_t value_t;

/* ---- reductions ---- */

/* How many of the axes below `axis` go away; -1: not known. */
static int dropped_below(uint32_t in, uint32_t maybe, int axis) {
  uint32_t below = ((uint32_t)1 << axis) - 1;
  return ((in ^ maybe) & below) != 0 ? -1 : __builtin_popcount(in & below);
}

typedef struct reduced {
  value_t x; /* input 0 as it will be given */
  bool is_linear, keeps, knows;
  uint32_t in, maybe; /* if it knows: axes that go, and that might go */
} reduced_t;

/* Where axis `axis` of the input is in the output; -1: not known, or gone. */
static int axis_left(const reduced_t *r, int axis) {
  if (axis < 0 || !r->knows || ((r->in | r->maybe) & ((uint32_t)1 << axis)) != 0) return -1;
  int dropped = r->keeps ? 0 : dropped_below(r->in, r->maybe, axis);
  return dropped < 0 ? -1 : axis - dropped;
}

/* Axes that are worked out from shapes: copies name those that are known to be among them, and no others that
 * are known. */
static void name_axes(weft_data_ctx_t *c) {
  const weft_data_ints_t *axes = c->in[1].ints;
  if (axes == NULL || !axes->is_set) return;
  c->named = (weft_data_named_t){.is_named = axes->in == axes->maybe, .dims = axes->in, .kept = axes->ones};
}

/* Rows that are summed are a part; rows that stay are rows. False if neither. */
static bool reduce_rows(weft_data_ctx_t *c, const reduced_t *r, weft_batch_rule_t kind) {
  const value_t *x = &r->x;
  if (!r->knows || c->in[1].s.kind != WEFT_SHARDING_REPLICATE) return false;
  if ((r->in & ((uint32_t)1 << x->s.dim)) != 0 && r->is_linear) {
    c->out[0] =
        weft_data_value(weft_sharding_partial(x->s.degree + (kind == WEFT_BATCH_REDUCE_MEAN ? 1 : 0)));
    c->out[0].zero = x->zero;
    return true;
  }
  int to = axis_left(r, x->s.dim);
  if (to < 0) return false;
  if (kind == WEFT_BATCH_REDUCE_PROD) c->required[0].degree = 0;
  c->out[0] = weft_data_value(weft_sharding_shard(to, c->required[0].degree));
  c->out[0].factor = x->factor;
  c->out[0].zero = x->zero && kind != WEFT_BATCH_REDUCE_PROD;
  return true;
}

weft_status_t *weft_data_reduce(weft_data_ctx_t *c) {
  weft_batch_rule_t kind = c->node->op->batch;
  reduced_t r = {.x = c->in[0], .keeps = weft_node_attr_bool(c->node, "keep_dims", false)};
  const value_t *x = &r.x;
  name_axes(c);
  r.is_linear = kind == WEFT_BATCH_REDUCE_SUM ||
                (kind == WEFT_BATCH_REDUCE_MEAN && weft_data_has_fraction(c->node->output_types[0]));
  if (x->s.kind == WEFT_SHARDING_COUNTS && x->ints != NULL && x->ints->is_scalar && r.is_linear) {
    weft_data_pass(c, 0, 0); /* of one number */
    return NULL;
  }
  for (int i = 0; i < 2; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_SINGLE || c->in[i].s.kind == WEFT_SHARDING_LOCAL)
      return weft_data_single(c);
  }
  if (x->s.kind == WEFT_SHARDING_COUNTS) c->required[0] = weft_sharding_replicate(0);
  if (c->in[1].s.kind != WEFT_SHARDING_REPLICATE) c->required[1] = weft_sharding_replicate(0);
  r.knows = weft_data_axes(c->in[1].ints, weft_data_in_shape(c, 0)->rank, &r.in, &r.maybe);
  if (r.knows && c->in[1].ints->is_set) r.maybe = c->in[1].ints->maybe;
  if (x->s.kind == WEFT_SHARDING_SHARD && reduce_rows(c, &r, kind)) return NULL;
  if (x->s.kind == WEFT_SHARDING_PARTIAL && r.is_linear && c->in[1].s.kind == WEFT_SHARDING_REPLICATE) {
    c->out[0] = weft_data_value(x->s);
    c->out[0].zero = x->zero;
    return NULL;
  }
  int d = x->s.kind == WEFT_SHARDING_REPLICATE && r.is_linear ? x->s.degree : 0;
  c->required[0] = weft_sharding_replicate(d);
  c->out[0] = weft_data_value(weft_sharding_replicate(d));
  c->out[0].zero = x->zero && r.is_linear;
  c->out[0].whole = axis_left(&r, x->s.kind == WEFT_SHARDING_SHARD ? x->s.dim : x->whole);
  if (c->out[0].whole >= 0) c->out[0].factor = x->factor;
  return NULL;
}

/* ---- segments ---- */

/* With as many segments as there are rows (of the batch, or a multiple), the whole batch lies along axis 0.
 */
static void find_segments(weft_data_ctx_t *c) {
  const weft_data_ints_t *n = c->in[2].ints;
  bool counts = n != NULL && !n->is_set && n->n == 1 && n->items[0].of != WEFT_COUNT_PLAIN;
  if (!counts || (c->out[0].s.kind != WEFT_SHARDING_REPLICATE && c->out[0].s.kind != WEFT_SHARDING_PARTIAL))
    return;
  c->out[0].whole = 0;
  c->out[0].factor = weft_data_factor_of(n, 0);
}

/* Rows added up by ids: data, ids, number of segments. With ids that all have, segments may be as many as
 * rows, and a Partial as large as what is gathered instead. */
weft_status_t *weft_data_segment(weft_data_ctx_t *c) {
  bool is_by_rows = weft_data_is_shard(c, 0) == weft_data_is_shard(c, 1);
  WEFT_RETURN_IF_ERROR(is_by_rows ? weft_data_by_factors(c) : weft_data_fall_back(c));
  find_segments(c);
  return NULL;
}
