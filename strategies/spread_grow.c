/* strategies/spread_grow.c - values repeated: where the rows of what comes out begin. */
#include "strategies/spread_axis.h"

/* x repeated to a shape or by multiples of which one element counts rows. */
weft_status_t *weft_spread_tile(weft_spread_ctx_t *c) {
  const weft_spread_ints_t *by = c->in[1].ints;
  int axis = weft_spread_batch_axis(c, 0), at = weft_spread_counting(by);
  int64_t times;
  if (weft_spread_passes_whole(c)) return NULL;
  if (weft_spread_is_rows(c, 0)) {
    bool once = weft_spread_int_at(by, axis, &times) && times == 1;
    if (!once) return weft_spread_everywhere(c);
    if (c->in[1].s.kind != WEFT_SPREAD_SAME) c->wanted[1] = weft_spread_same(0);
    weft_spread_give_rows(c, 0, 0, axis);
    return NULL;
  }
  const weft_shape_t *shape = weft_spread_in_shape(c, 0);
  bool grows = c->in[1].s.kind == WEFT_SPREAD_SHAPE && at >= 0 && c->in[0].s.kind != WEFT_SPREAD_EACH &&
               c->in[0].whole < 0 && shape->rank > at && shape->dims[at] > 0;
  if (!grows)
    return weft_spread_keep_whole(c, weft_spread_int_at(by, axis, &times) && times == 1 ? axis : -1);
  if (c->in[0].s.kind != WEFT_SPREAD_SAME) c->wanted[0] = weft_spread_same(0);
  c->out[0] = weft_spread_value(weft_spread_rows(at, c->wanted[0].degree));
  if (__builtin_mul_overflow(weft_spread_factor_of(by, at), shape->dims[at], &c->out[0].factor))
    c->out[0].factor = 0;
  c->out[0].zero = c->in[0].zero;
  return NULL;
}

weft_status_t *weft_spread_broadcast(weft_spread_ctx_t *c) {
  const weft_spread_ints_t *to = c->in[1].ints;
  const weft_shape_t *shape = weft_spread_in_shape(c, 0);
  int at = weft_spread_counting(to);
  if (weft_spread_passes_whole(c)) return NULL;
  bool counts = c->in[1].s.kind == WEFT_SPREAD_SHAPE && at >= 0 && c->in[0].s.kind != WEFT_SPREAD_EACH;
  if (counts && shape->rank < 0 && weft_spread_is_rows(c, 0)) counts = false;
  int mine = counts ? at - (to->n - shape->rank) : -1;
  if (counts && weft_spread_is_rows(c, 0)) {
    if (mine != c->in[0].s.axis) return weft_spread_everywhere(c);
    weft_spread_give_rows(c, 0, 0, at);
    c->out[0].factor = weft_spread_factor_of(to, at);
    return NULL;
  }
  if (weft_spread_is_rows(c, 0)) { /* to a shape that is not known to go with the rows */
    return weft_spread_everywhere(c);
  }
  bool grows = counts && (shape->rank >= 0 && (mine < 0 || shape->dims[mine] == 1));
  bool is_whole = counts && !grows && mine >= 0 && (c->in[0].whole == mine || shape->dims[mine] > 1);
  if (!grows && !is_whole) return weft_spread_fall_back(c);
  if (is_whole) {
    if (c->in[0].s.kind == WEFT_SPREAD_PART) return weft_spread_everywhere(c);
    c->wanted[0] = weft_spread_rows(mine, 0);
  } else if (c->in[0].s.kind != WEFT_SPREAD_SAME) {
    c->wanted[0] = weft_spread_same(0);
  }
  c->out[0] = weft_spread_value(weft_spread_rows(at, c->wanted[0].degree));
  c->out[0].factor = weft_spread_factor_of(to, at);
  c->out[0].zero = c->in[0].zero;
  return NULL;
}

weft_status_t *weft_spread_fill(weft_spread_ctx_t *c) { /* dims, value */
  const weft_spread_ints_t *to = c->in[0].ints;
  int at = weft_spread_counting(to);
  if (c->in[0].s.kind ==
      WEFT_SPREAD_EACH) { /* like a thing of each replica's own: the flow of a TensorArray */
    if (!weft_spread_want_numbers(c, 1, 2)) return weft_spread_everywhere(c);
    return weft_spread_own(c);
  }
  if (c->in[0].s.kind == WEFT_SPREAD_SHAPE && at >= 0 && c->in[1].s.kind != WEFT_SPREAD_EACH) {
    bool as_it_is = c->in[1].s.kind == WEFT_SPREAD_SAME;
    if (!as_it_is) c->wanted[1] = weft_spread_same(0);
    c->out[0] = weft_spread_value(weft_spread_rows(at, c->wanted[1].degree));
    c->out[0].factor = weft_spread_factor_of(to, at);
    c->out[0].zero = c->in[1].zero;
    return NULL;
  }
  if (c->in[0].s.kind == WEFT_SPREAD_SAME && c->in[1].s.kind == WEFT_SPREAD_PART) {
    c->out[0] = weft_spread_value(c->in[1].s);
    return NULL;
  }
  int d = c->in[0].s.kind == WEFT_SPREAD_SAME && c->in[1].s.kind == WEFT_SPREAD_SAME ? c->in[1].s.degree : 0;
  weft_status_t *s = weft_spread_fall_back(c);
  if (s != NULL || c->out[0].s.kind != WEFT_SPREAD_SAME) return s;
  c->wanted[1].degree = d;
  c->out[0].s.degree = d;
  c->out[0].zero = c->in[1].zero;
  for (int i = 0; to != NULL && !to->is_set && i < to->n; i++) {
    if (to->items[i].of == WEFT_COUNT_PLAIN) continue;
    c->out[0].whole = i;
    c->out[0].factor = weft_spread_factor_of(to, i);
  }
  return NULL;
}

/* Elements without a value yet: as many as a shape says. */
weft_status_t *weft_spread_empty(weft_spread_ctx_t *c) {
  const weft_spread_ints_t *to = c->in[0].ints;
  int at = weft_spread_counting(to);
  if (c->in[0].s.kind != WEFT_SPREAD_SHAPE || at < 0) return weft_spread_everywhere(c);
  c->out[0] = weft_spread_value(weft_spread_rows(at, 0));
  c->out[0].factor = weft_spread_factor_of(to, at);
  return NULL;
}
