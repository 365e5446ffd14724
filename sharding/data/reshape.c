/* sharding/data/reshape.c - the same elements under another shape: where the axis of rows goes. */
#include "sharding/data/axis.h"

/* Which axis of the new shape do rows of axis 0 become? The first, if those before it are 1. */
static int leading_axis(const weft_data_ints_t *shape) {
  int i = 0;
  int64_t dim;
  while (i < shape->n && weft_data_int_at(shape, i, &dim) && dim == 1) i++;
  if (i == shape->n) return -1;
  if (weft_data_counts_rows(shape, i)) return i;
  return weft_data_int_at(shape, i, &dim) && dim == -1 ? i : -1;
}

/* Rows of axis k > 0 keep their place if the dims before them do. They surely do if the dims behind are as
 * many elements as before. */
static bool same_before(const weft_data_ctx_t *c, const weft_data_ints_t *shape, int k) {
  const weft_shape_t *old = weft_data_in_shape(c, 0);
  if (old->rank < 0 || k >= shape->n || !weft_data_counts_rows(shape, k)) return false;
  int64_t before = 1, now = 1, dim;
  bool knows = c->in[0].factor == weft_data_factor_of(shape, k) || old->rank == shape->n;
  for (int i = k + 1; i < old->rank; i++)
    knows = knows && old->dims[i] > 0 && !__builtin_mul_overflow(before, old->dims[i], &before);
  for (int i = k + 1; i < shape->n; i++) {
    knows = knows && weft_data_int_at(shape, i, &dim) && dim > 0 && !__builtin_mul_overflow(now, dim, &now);
  }
  bool all_known = true;
  for (int i = 0; i < k; i++) all_known = all_known && shape->items[i].known && old->dims[i] >= 0;
  if (!all_known && !(knows && before == now)) return false;
  for (int i = 0; i < k; i++) {
    if (shape->is_set || shape->items[i].of != WEFT_COUNT_PLAIN) return false;
    bool differ = shape->items[i].known && old->dims[i] >= 0 && shape->items[i].value != old->dims[i];
    if (differ) return false;
  }
  return true;
}

/* Which axis rows of input 0 become; -1: it cannot be told. */
static int axis_of_rows(const weft_data_ctx_t *c, const weft_data_ints_t *shape) {
  const weft_shape_t *old = weft_data_in_shape(c, 0);
  int axis = c->in[0].s.dim, ones = 0; /* dims of 1 before the rows are no dims */
  while (old->rank > ones && ones < axis && old->dims[ones] == 1) ones++;
  int to = axis == 0 || ones == axis ? leading_axis(shape) : -1;
  return to < 0 && axis > 0 && same_before(c, shape, axis) ? axis : to;
}

/* How many rows per row of the batch axis `to` has, where its dim is -1: what is left over. 0: not known. -1:
 * a row of it is made of several of the batch, and perhaps not of one replica's. */
static int64_t left_over(const weft_data_ctx_t *c, const weft_data_ints_t *shape, int to) {
  const weft_shape_t *old = weft_data_in_shape(c, 0);
  int64_t in = 1, out = 1, dim, factor = c->in[0].factor;
  if (old->rank < 0 || factor <= 0) return 0;
  for (int i = 0; i < old->rank; i++) {
    if (i != c->in[0].s.dim && (old->dims[i] <= 0 || __builtin_mul_overflow(in, old->dims[i], &in))) return 0;
  }
  for (int i = 0; i < shape->n; i++) {
    if (i == to) continue;
    if (!weft_data_int_at(shape, i, &dim) || dim <= 0 || __builtin_mul_overflow(out, dim, &out)) return 0;
  }
  if (__builtin_mul_overflow(in, factor, &in)) return 0;
  return in % out == 0 ? in / out : -1;
}

/* Where the whole batch is now: at the axis that counts it; where none does, at a first one that is left
 * over. */
static void find_whole(weft_data_ctx_t *c, const weft_data_ints_t *shape) {
  for (int i = 0; i < shape->n; i++) {
    if (shape->items[i].of == WEFT_COUNT_PLAIN) continue;
    c->out[0].whole = i;
    c->out[0].factor = weft_data_factor_of(shape, i);
    return;
  }
  if (shape->n == 0 || weft_data_batch_axis(c, 0) != 0 || leading_axis(shape) != 0) return;
  c->out[0].whole = 0;
  c->out[0].factor = 0;
}

/* Does another axis than that of the rows have a count of a replica's own rows as its length? It is one of
 * the whole batch. */
static bool counts_beside(const weft_data_ctx_t *c, int axis) {
  uint64_t own = axis < 64 ? (uint64_t)1 << axis : 0;
  return c->in[1].s.kind == WEFT_SHARDING_COUNTS && (c->in[1].s.rows & ~own) != 0;
}

/* `shape` is NULL where the new shape is not known. */
static weft_status_t *reshape(weft_data_ctx_t *c, const weft_data_ints_t *shape) {
  const weft_data_value_t *x = &c->in[0];
  bool knows = shape != NULL && c->in[1].s.kind != WEFT_SHARDING_SINGLE;
  if (x->s.kind == WEFT_SHARDING_LOCAL) return weft_data_fall_back(c);
  if (weft_data_is_shard(c, 0) && knows) {
    int to = axis_of_rows(c, shape);
    bool counts = to >= 0 && weft_data_counts_rows(shape, to);
    int64_t factor = to < 0 ? -1 : counts ? weft_data_factor_of(shape, to) : left_over(c, shape, to);
    if (factor >= 0 && !counts_beside(c, to)) {
      weft_data_give_shard(c, 0, 0, to);
      c->out[0].factor = factor;
      return NULL;
    }
    if (to >= 0 && factor < 0) return weft_data_fall_back(c);
  } /* a shape that fixes the number of rows is one of the whole batch */
  if (x->s.kind == WEFT_SHARDING_PARTIAL && c->in[1].s.kind == WEFT_SHARDING_REPLICATE) {
    (void)weft_data_passes_whole(c);
    return NULL;
  }
  if (c->in[1].s.kind == WEFT_SHARDING_COUNTS && x->s.kind == WEFT_SHARDING_REPLICATE && x->whole == 0 &&
      knows && leading_axis(shape) >= 0 &&
      !counts_beside(c, leading_axis(shape))) { /* rows of a value that all replicas have */
    int to = leading_axis(shape);
    c->required[0] = weft_sharding_shard(0, 0);
    c->out[0] = weft_data_value(weft_sharding_shard(to, 0));
    c->out[0].factor = weft_data_factor_of(shape, to);
    return NULL;
  }
  if (c->in[1].s.kind == WEFT_SHARDING_REPLICATE && weft_data_passes_whole(c)) return NULL;
  WEFT_RETURN_IF_ERROR(weft_data_fall_back(c));
  if (knows) find_whole(c, shape);
  return NULL;
}

weft_status_t *weft_data_reshape(weft_data_ctx_t *c) {
  const weft_data_ints_t *shape = c->in[1].ints;
  if (shape != NULL && (shape->is_set || shape->is_scalar)) shape = NULL;
  WEFT_RETURN_IF_ERROR(reshape(c, shape));
  if (shape != NULL) {
    c->out[0].dims = shape;
    c->out[0].rank = shape->n;
  }
  return NULL;
}

weft_status_t *weft_data_expand(weft_data_ctx_t *c) {
  int64_t at;
  int rank = weft_data_in_shape(c, 0)->rank, axis = weft_data_batch_axis(c, 0);
  if (weft_data_passes_whole(c)) return NULL;
  bool knows = weft_data_int_at(c->in[1].ints, 0, &at) && (rank >= 0 || at >= 0);
  if (c->in[0].own != 0) { /* a column of numbers */
    bool is_column = knows && rank == 1 && (at == 1 || at == -1);
    if (!is_column) weft_data_force_true(c, c->in[0].own - 1);
    c->out[0] = weft_data_value(weft_sharding_of_kind(is_column ? WEFT_SHARDING_LOCAL : WEFT_SHARDING_NONE));
    c->out[0].own = is_column ? c->in[0].own : 0;
    c->out[0].factor = is_column ? c->in[0].factor : 0;
    c->out[0].rank = is_column ? 2 : -1;
    return NULL;
  }
  if (knows && at < 0) at += rank + 1;
  int to = at <= axis ? axis + 1 : axis;
  if (weft_data_is_shard(c, 0) && knows) {
    weft_data_give_shard(c, 0, 0, to);
    return NULL;
  }
  return weft_data_keep_whole(c, knows ? to : -1);
}

weft_status_t *weft_data_squeeze(weft_data_ctx_t *c) {
  const weft_attr_t *dims = weft_node_attr(c->node, "squeeze_dims");
  const weft_shape_t *shape = weft_data_in_shape(c, 0);
  if (weft_data_passes_whole(c)) return NULL;
  int axis = weft_data_batch_axis(c, 0), to = axis, n = dims == NULL ? 0 : dims->n;
  bool knows = true;
  for (int i = 0; i < n; i++) {
    int64_t at = dims->list.ints[i];
    if (at < 0 && shape->rank < 0) knows = false;
    if (at < 0) at += shape->rank;
    to -= at < axis;
  }
  if (n == 0) { /* all dims of 1: those before the rows must be known */
    knows = shape->rank >= 0;
    for (int i = 0; knows && i < axis; i++) {
      knows = shape->dims[i] >= 0;
      to -= shape->dims[i] == 1;
    }
  }
  if (weft_data_is_shard(c, 0) && knows) {
    for (int i = 0; n == 0 && i < shape->rank; i++) {
      if (i != axis && shape->dims[i] == 1) c->named.dims |= (uint32_t)1 << i;
    }
    c->named.is_named = c->named.dims != 0;
    weft_data_give_shard(c, 0, 0, to);
    return NULL;
  }
  return weft_data_keep_whole(c, knows ? to : -1);
}
