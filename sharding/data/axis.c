/* sharding/data/axis.c - where the rows of a value lie. */
#include "sharding/data/axis.h"

bool weft_data_all_same(const weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_REPLICATE) return false;
  }
  return true;
}

bool weft_data_all_plain(const weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    weft_sharding_kind_t kind = c->in[i].s.kind;
    if (kind != WEFT_SHARDING_REPLICATE && kind != WEFT_SHARDING_SINGLE) return false;
  }
  return true;
}

weft_status_t *weft_data_fall_back(weft_data_ctx_t *c) {
  return weft_data_all_plain(c) ? weft_data_single(c) : weft_data_replicate_all(c);
}

bool weft_data_require_numbers(weft_data_ctx_t *c, int first, int end) {
  for (int i = first; i < end; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_LOCAL) return false;
    if (c->in[i].s.kind != WEFT_SHARDING_REPLICATE) c->required[i] = weft_sharding_replicate(0);
  }
  return true;
}

bool weft_data_passes_whole(weft_data_ctx_t *c) {
  for (int i = 1; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind != WEFT_SHARDING_REPLICATE) return false;
  }
  weft_sharding_kind_t kind = c->in[0].s.kind;
  if (kind != WEFT_SHARDING_PARTIAL && !(kind == WEFT_SHARDING_REPLICATE && c->in[0].s.degree != 0))
    return false;
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o] = weft_data_value(c->in[0].s);
    c->out[o].zero = c->in[0].zero;
  }
  return true;
}

void weft_data_give_shard(weft_data_ctx_t *c, int i, int o, int axis) {
  c->out[o] = weft_data_value(weft_sharding_shard(axis, c->required[i].degree));
  c->out[o].factor = c->in[i].factor;
  c->out[o].zero = c->in[i].zero;
}

int weft_data_batch_axis(const weft_data_ctx_t *c, int i) {
  return weft_data_is_shard(c, i) ? c->in[i].s.dim : c->in[i].whole;
}
weft_status_t *weft_data_keep_whole(weft_data_ctx_t *c, int axis) {
  weft_status_t *s = weft_data_fall_back(c);
  if (s != NULL || c->in[0].whole < 0 || axis < 0) return s;
  for (int o = 0; o < c->node->num_outputs; o++) {
    c->out[o].whole = axis;
    c->out[o].factor = c->in[0].factor;
  }
  return s;
}

bool weft_data_counts_rows(const weft_data_ints_t *ints, int i) {
  return ints != NULL && !ints->is_set && ints->columns == 0 && i < ints->n &&
         ints->items[i].of == WEFT_COUNT_ROWS;
}

int weft_data_counting(const weft_data_ints_t *ints) {
  int at = -1;
  for (int i = 0; ints != NULL && !ints->is_set && i < ints->n; i++) {
    if (!weft_data_counts_rows(ints, i)) continue;
    if (at >= 0) return -1;
    at = i;
  }
  return at;
}

int64_t weft_data_factor_of(const weft_data_ints_t *ints, int i) {
  return ints->items[i].known ? ints->items[i].value : 0;
}
