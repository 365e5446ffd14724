/* sharding/data/grow.c - values repeated: where the rows of what comes out begin. */
#include "sharding/data/axis.h"

/* x repeated to a shape or by multiples of which one element counts rows. */
weft_status_t *weft_data_tile(weft_data_ctx_t *c) {
  const weft_data_ints_t *by = c->in[1].ints;
  int axis = weft_data_batch_axis(c, 0), at = weft_data_counting(by);
  int64_t times;
  if (weft_data_passes_whole(c)) return NULL;
  if (weft_data_is_shard(c, 0)) {
    bool once = weft_data_int_at(by, axis, &times) && times == 1;
    if (!once) return weft_data_replicate_all(c);
    if (c->in[1].s.kind != WEFT_SHARDING_REPLICATE) c->required[1] = weft_sharding_replicate(0);
    weft_data_give_shard(c, 0, 0, axis);
    return NULL;
  }
  const weft_shape_t *shape = weft_data_in_shape(c, 0);
  bool grows = c->in[1].s.kind == WEFT_SHARDING_COUNTS && at >= 0 && c->in[0].s.kind != WEFT_SHARDING_LOCAL &&
               c->in[0].whole < 0 && shape->rank > at && shape->dims[at] > 0;
  if (!grows) return weft_data_keep_whole(c, weft_data_int_at(by, axis, &times) && times == 1 ? axis : -1);
  if (c->in[0].s.kind != WEFT_SHARDING_REPLICATE) c->required[0] = weft_sharding_replicate(0);
  c->out[0] = weft_data_value(weft_sharding_shard(at, c->required[0].degree));
  if (__builtin_mul_overflow(weft_data_factor_of(by, at), shape->dims[at], &c->out[0].factor))
    c->out[0].factor = 0;
  c->out[0].zero = c->in[0].zero;
  return NULL;
}

weft_status_t *weft_data_broadcast(weft_data_ctx_t *c) {
  const weft_data_ints_t *to = c->in[1].ints;
  const weft_shape_t *shape = weft_data_in_shape(c, 0);
  int at = weft_data_counting(to);
  if (weft_data_passes_whole(c)) return NULL;
  bool counts = c->in[1].s.kind == WEFT_SHARDING_COUNTS && at >= 0 && c->in[0].s.kind != WEFT_SHARDING_LOCAL;
  if (counts && shape->rank < 0 && weft_data_is_shard(c, 0)) counts = false;
  int mine = counts ? at - (to->n - shape->rank) : -1;
  if (counts && weft_data_is_shard(c, 0)) {
    if (mine != c->in[0].s.dim) return weft_data_replicate_all(c);
    weft_data_give_shard(c, 0, 0, at);
    c->out[0].factor = weft_data_factor_of(to, at);
    return NULL;
  }
  if (weft_data_is_shard(c, 0)) { /* to a shape that is not known to go with the rows */
    return weft_data_replicate_all(c);
  }
  bool grows = counts && (shape->rank >= 0 && (mine < 0 || shape->dims[mine] == 1));
  bool is_whole = counts && !grows && mine >= 0 && (c->in[0].whole == mine || shape->dims[mine] > 1);
  if (!grows && !is_whole) return weft_data_fall_back(c);
  if (is_whole) {
    if (c->in[0].s.kind == WEFT_SHARDING_PARTIAL) return weft_data_replicate_all(c);
    c->required[0] = weft_sharding_shard(mine, 0);
  } else if (c->in[0].s.kind != WEFT_SHARDING_REPLICATE) {
    c->required[0] = weft_sharding_replicate(0);
  }
  c->out[0] = weft_data_value(weft_sharding_shard(at, c->required[0].degree));
  c->out[0].factor = weft_data_factor_of(to, at);
  c->out[0].zero = c->in[0].zero;
  return NULL;
}

weft_status_t *weft_data_fill(weft_data_ctx_t *c) { /* dims, value */
  const weft_data_ints_t *to = c->in[0].ints;
  int at = weft_data_counting(to);
  if (c->in[0].s.kind ==
      WEFT_SHARDING_LOCAL) { /* like a thing of each replica's own: the flow of a TensorArray */
    if (!weft_data_require_numbers(c, 1, 2)) return weft_data_replicate_all(c);
    return weft_data_own(c);
  }
  if (c->in[0].s.kind == WEFT_SHARDING_COUNTS && at >= 0 && c->in[1].s.kind != WEFT_SHARDING_LOCAL) {
    bool as_it_is = c->in[1].s.kind == WEFT_SHARDING_REPLICATE;
    if (!as_it_is) c->required[1] = weft_sharding_replicate(0);
    c->out[0] = weft_data_value(weft_sharding_shard(at, c->required[1].degree));
    c->out[0].factor = weft_data_factor_of(to, at);
    c->out[0].zero = c->in[1].zero;
    return NULL;
  }
  if (c->in[0].s.kind == WEFT_SHARDING_REPLICATE && c->in[1].s.kind == WEFT_SHARDING_PARTIAL) {
    c->out[0] = weft_data_value(c->in[1].s);
    return NULL;
  }
  int d = c->in[0].s.kind == WEFT_SHARDING_REPLICATE && c->in[1].s.kind == WEFT_SHARDING_REPLICATE
              ? c->in[1].s.degree
              : 0;
  weft_status_t *s = weft_data_fall_back(c);
  if (s != NULL || c->out[0].s.kind != WEFT_SHARDING_REPLICATE) return s;
  c->required[1].degree = d;
  c->out[0].s.degree = d;
  c->out[0].zero = c->in[1].zero;
  for (int i = 0; to != NULL && !to->is_set && i < to->n; i++) {
    if (to->items[i].of == WEFT_COUNT_PLAIN) continue;
    c->out[0].whole = i;
    c->out[0].factor = weft_data_factor_of(to, i);
  }
  return NULL;
}

/* Elements without a value yet: as many as a shape says. */
weft_status_t *weft_data_empty(weft_data_ctx_t *c) {
  const weft_data_ints_t *to = c->in[0].ints;
  int at = weft_data_counting(to);
  if (c->in[0].s.kind != WEFT_SHARDING_COUNTS || at < 0) return weft_data_replicate_all(c);
  c->out[0] = weft_data_value(weft_sharding_shard(at, 0));
  c->out[0].factor = weft_data_factor_of(to, at);
  return NULL;
}
