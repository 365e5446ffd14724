/* strategies/spread_axis.c - where the rows of a value lie. */
#include "strategies/spread_axis.h"

bool weft_spread_all_same(const weft_spread_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SPREAD_SAME) return false;
  }
  return true;
}

bool weft_spread_all_plain(const weft_spread_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    weft_spread_kind_t kind = c->in[i].s.kind;
    if (kind != WEFT_SPREAD_SAME && kind != WEFT_SPREAD_ONCE) return false;
  }
  return true;
}

weft_status_t *weft_spread_fall_back(weft_spread_ctx_t *c) {
  return weft_spread_all_plain(c) ? weft_spread_once(c) : weft_spread_everywhere(c);
}

bool weft_spread_want_numbers(weft_spread_ctx_t *c, int first, int end) {
  for (int i = first; i < end; i++) {
    if (c->in[i].s.kind == WEFT_SPREAD_EACH) return false;
    if (c->in[i].s.kind != WEFT_SPREAD_SAME) c->wanted[i] = weft_spread_same(0);
  }
  return true;
}

bool weft_spread_passes_whole(weft_spread_ctx_t *c) {
  for (int i = 1; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SPREAD_SAME) return false;
  }
  weft_spread_kind_t kind = c->in[0].s.kind;
  if (kind != WEFT_SPREAD_PART && !(kind == WEFT_SPREAD_SAME && c->in[0].s.degree != 0)) return false;
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o] = weft_spread_value(c->in[0].s);
    c->out[o].zero = c->in[0].zero;
  }
  return true;
}

void weft_spread_give_rows(weft_spread_ctx_t *c, int i, int o, int axis) {
  c->out[o] = weft_spread_value(weft_spread_rows(axis, c->wanted[i].degree));
  c->out[o].factor = c->in[i].factor;
  c->out[o].zero = c->in[i].zero;
}

int weft_spread_batch_axis(const weft_spread_ctx_t *c, int i) {
  return weft_spread_is_rows(c, i) ? c->in[i].s.axis : c->in[i].whole;
}
weft_status_t *weft_spread_keep_whole(weft_spread_ctx_t *c, int axis) {
  weft_status_t *s = weft_spread_fall_back(c);
  if (s != NULL || c->in[0].whole < 0 || axis < 0) return s;
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o].whole = axis;
    c->out[o].factor = c->in[0].factor;
  }
  return s;
}

bool weft_spread_counts_rows(const weft_spread_ints_t *ints, int i) {
  return ints != NULL && !ints->is_set && ints->columns == 0 && i < ints->n &&
         ints->items[i].of == WEFT_COUNT_ROWS;
}

int weft_spread_counting(const weft_spread_ints_t *ints) {
  int at = -1;
  for (int i = 0; ints != NULL && !ints->is_set && i < ints->n; i++) {
    if (!weft_spread_counts_rows(ints, i)) continue;
    if (at >= 0) return -1;
    at = i;
  }
  return at;
}

int64_t weft_spread_factor_of(const weft_spread_ints_t *ints, int i) {
  return ints->items[i].known ? ints->items[i].value : 0;
}
