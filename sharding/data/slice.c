/* sharding/data/slice.c - parts of a value, and values with something round them: is the axis of rows
 * left alone? */
#include "sharding/data/axis.h"

/* Inputs [first, end) are numbers by axis. Only number `own` (-1: none) may be a count of a replica's own
 * rows; along other axes every replica has the whole batch, and counts of it are required true. False if one
 * input has both. */
static bool count_others_whole(weft_data_ctx_t *c, int first, int end, int own) {
  uint64_t mine = own >= 0 && own < 64 ? (uint64_t)1 << own : 0;
  for (int i = first; i < end; i++) {
    bool has_own = c->in[i].s.kind == WEFT_SHARDING_COUNTS && (c->in[i].s.rows & mine) != 0;
    if (c->in[i].s.kind == WEFT_SHARDING_REPLICATE || (has_own && (c->in[i].s.rows & ~mine) == 0)) continue;
    if (has_own || c->in[i].s.kind == WEFT_SHARDING_LOCAL) return false;
    c->required[i] = weft_sharding_replicate(0);
  }
  return true;
}

weft_status_t *weft_data_slice(weft_data_ctx_t *c) {
  int axis = weft_data_batch_axis(c, 0);
  int64_t begin, size;
  if (weft_data_passes_whole(c)) return NULL;
  bool takes_all = axis >= 0 && weft_data_int_at(c->in[1].ints, axis, &begin) && begin == 0;
  bool to_end = takes_all && weft_data_int_at(c->in[2].ints, axis, &size) && size == -1;
  bool counted = takes_all && weft_data_counts_rows(c->in[2].ints, axis) &&
                 weft_data_factor_of(c->in[2].ints, axis) == c->in[0].factor && c->in[0].factor > 0;
  if (weft_data_is_shard(c, 0) && (to_end || counted) && count_others_whole(c, 1, 3, counted ? axis : -1)) {
    weft_data_give_shard(c, 0, 0, axis);
    return NULL;
  }
  return weft_data_keep_whole(c, to_end ? axis : -1);
}

/* What a strided slice does to one axis of its input. */
typedef struct strided {
  bool takes_all; /* this axis, from begin to end by ones */
  int to;         /* where it is then */
  int counted;    /* the number of the spec whose end is the count of rows; -1: none is needed */
} strided_t;

static bool mask_bit(const weft_node_t *n, const char *name, int i) {
  return ((uint64_t)weft_node_attr_int(n, name, 0) >> i & 1) != 0;
}

/* `first` is the input with begin; end and strides follow it. */
static bool follow_axis(const weft_data_ctx_t *c, int first, int rank, int axis, strided_t *out) {
  const weft_node_t *n = c->node;
  const weft_data_ints_t *begin = c->in[first].ints, *end = c->in[first + 1].ints,
                         *by = c->in[first + 2].ints;
  if (begin == NULL || end == NULL || by == NULL || begin->is_set || end->is_set || by->is_set) return false;
  int at = 0, to = 0, num_new = 0, specs = begin->n;
  for (int i = 0; i < specs; i++)
    num_new += mask_bit(n, "new_axis_mask", i) && !mask_bit(n, "ellipsis_mask", i);
  *out = (strided_t){true, 0, -1};
  for (int i = 0; i < specs; i++) {
    if (mask_bit(n, "ellipsis_mask", i)) {
      if (rank < 0) return false;
      int skipped = rank - (specs - num_new - 1);
      if (axis < at + skipped) {
        out->to = to + axis - at;
        return true;
      }
      at += skipped;
      to += skipped;
      continue;
    }
    if (mask_bit(n, "new_axis_mask", i)) {
      to++;
      continue;
    }
    bool shrinks = mask_bit(n, "shrink_axis_mask", i);
    if (at == axis) {
      int64_t b = 0, s = 0, e = 0;
      bool from_start = mask_bit(n, "begin_mask", i) || (weft_data_int_at(begin, i, &b) && b == 0);
      bool ends = mask_bit(n, "end_mask", i) || (weft_data_int_at(end, i, &e) && e == INT32_MAX);
      bool counted = weft_data_counts_rows(end, i) &&
                     weft_data_factor_of(end, i) == c->in[first == 0 ? 0 : first - 1].factor &&
                     c->in[first == 0 ? 0 : first - 1].factor > 0;
      if (counted && !ends) out->counted = i;
      out->takes_all = !shrinks && from_start && (ends || counted) && weft_data_int_at(by, i, &s) && s == 1;
      out->to = to;
      return true;
    }
    at++;
    to += !shrinks;
  }
  out->to = to + axis - at;
  return true;
}

weft_status_t *weft_data_strided_slice(weft_data_ctx_t *c) {
  strided_t s = {false, 0, -1};
  int axis = weft_data_batch_axis(c, 0);
  if (weft_data_passes_whole(c)) return NULL;
  bool follows = axis >= 0 && follow_axis(c, 1, weft_data_in_shape(c, 0)->rank, axis, &s) && s.takes_all;
  if (weft_data_is_shard(c, 0) && follows && count_others_whole(c, 1, 4, s.counted)) {
    weft_data_give_shard(c, 0, 0, s.to);
    return NULL;
  }
  return weft_data_keep_whole(c, follows ? s.to : -1);
}

weft_status_t *weft_data_strided_slice_grad(weft_data_ctx_t *c) { /* shape, begin, end, strides, dy */
  const weft_data_ints_t *shape = c->in[0].ints;
  strided_t s = {false, 0, -1};
  int axis = weft_data_counting(shape);
  if (c->in[4].s.kind == WEFT_SHARDING_PARTIAL && c->in[0].s.kind == WEFT_SHARDING_REPLICATE) {
    if (!weft_data_require_numbers(c, 1, 4)) return weft_data_fall_back(c);
    c->out[0] = weft_data_value(c->in[4].s);
    return NULL;
  }
  bool follows = axis >= 0 && weft_data_is_shard(c, 4) && follow_axis(c, 1, shape->n, axis, &s) &&
                 s.takes_all && s.to == c->in[4].s.dim;
  if (!follows || !count_others_whole(c, 1, 4, s.counted)) return weft_data_fall_back(c);
  weft_data_give_shard(c, 4, 0, axis);
  return NULL;
}
