/* sharding/data/ints_vectors.c - vectors of integers cut, joined and put in another order. */
#include "sharding/data/ints.h"

typedef weft_data_ints_t ints_t;
typedef weft_data_int_t int_t;

bool weft_ints_strided_slice(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  const ints_t *a = weft_ints_in(c, 0);
  int64_t begin, end, stride;
  if (a == NULL || a->is_scalar || c->in[1].ints == NULL || c->in[1].ints->n != 1) return false;
  if (weft_node_attr_int(n, "new_axis_mask", 0) != 0 || weft_node_attr_int(n, "ellipsis_mask", 0) != 0)
    return false;
  bool is_single = (weft_node_attr_int(n, "shrink_axis_mask", 0) & 1) != 0;
  if (!weft_data_int_at(c->in[3].ints, 0, &stride) || stride == 0) return false;
  if ((weft_node_attr_int(n, "begin_mask", 0) & 1) != 0 && !is_single) {
    begin = stride > 0 ? 0 : a->n - 1;
  } else if (!weft_data_int_at(c->in[1].ints, 0, &begin)) {
    return false;
  } else if (begin < 0) {
    begin += a->n;
  }
  if (is_single) {
    ints_t *one = begin < 0 || begin >= a->n ? NULL : weft_ints_new(c, 1, true);
    if (one != NULL) one->items[0] = a->items[begin];
    return weft_ints_give(c, 0, one);
  }
  if ((weft_node_attr_int(n, "end_mask", 0) & 1) != 0) {
    end = stride > 0 ? a->n : -1;
  } else if (!weft_data_int_at(c->in[2].ints, 0, &end)) {
    return false;
  } else if (end < 0) {
    end += a->n;
  }
  int_t items[WEFT_DATA_INTS];
  int count = 0;
  if (stride > 0 && begin < 0) begin = 0;
  if (stride < 0 && begin >= a->n) begin = a->n - 1;
  for (int64_t i = begin; stride > 0 ? i < end && i < a->n : i > end && i >= 0; i += stride)
    items[count++] = a->items[i];
  ints_t *v = weft_ints_new(c, count, false);
  if (v != NULL) memcpy(v->items, items, (size_t)count * sizeof items[0]);
  return weft_ints_give(c, 0, v);
}

bool weft_ints_slice(weft_data_ctx_t *c) {
  const ints_t *a = weft_ints_in(c, 0);
  int64_t begin, size;
  if (a == NULL || a->is_scalar || !weft_data_int_at(c->in[1].ints, 0, &begin) ||
      !weft_data_int_at(c->in[2].ints, 0, &size)) {
    return false;
  }
  if (size < 0) size = a->n - begin;
  if (begin < 0 || size < 0 || size > a->n - begin) return false;
  ints_t *v = weft_ints_new(c, (int)size, false);
  if (v != NULL) memcpy(v->items, a->items + begin, (size_t)size * sizeof v->items[0]);
  return weft_ints_give(c, 0, v);
}

bool weft_ints_gather(weft_data_ctx_t *c) {
  const ints_t *a = weft_ints_in(c, 0), *indices = weft_ints_in(c, 1);
  if (a == NULL || indices == NULL || a->is_scalar) return false;
  ints_t *v = weft_ints_new(c, indices->n, indices->is_scalar);
  for (int i = 0; v != NULL && i < v->n; i++) {
    int64_t at;
    if (!weft_data_int_at(indices, i, &at) || at < 0 || at >= a->n) return false;
    v->items[i] = a->items[at];
  }
  return weft_ints_give(c, 0, v);
}

/* Inputs [first, end) one behind the other. */
static bool join_inputs(weft_data_ctx_t *c, int first, int end, bool scalars) {
  int_t items[WEFT_DATA_INTS];
  int count = 0;
  for (int i = first; i < end; i++) {
    const ints_t *a = weft_ints_in(c, i);
    if (a == NULL || a->is_scalar != scalars || count + a->n > WEFT_DATA_INTS) return false;
    memcpy(items + count, a->items, (size_t)a->n * sizeof items[0]);
    count += a->n;
  }
  ints_t *v = weft_ints_new(c, count, false);
  if (v != NULL) memcpy(v->items, items, (size_t)count * sizeof items[0]);
  return weft_ints_give(c, 0, v);
}
/* Numbers to a vector, or vectors to a matrix, as the gradient of Tile does. */
bool weft_ints_pack(weft_data_ctx_t *c) {
  const ints_t *first = weft_ints_in(c, 0);
  int n = c->node->num_inputs;
  if (first == NULL || first->is_scalar) return join_inputs(c, 0, n, true);
  if (weft_node_attr_int(c->node, "axis", 0) != 0 || first->n == 0 || n * first->n > WEFT_DATA_INTS)
    return false;
  ints_t *v = weft_ints_new(c, n * first->n, false);
  for (int i = 0; v != NULL && i < n; i++) {
    const ints_t *row = weft_ints_in(c, i);
    if (row == NULL || row->is_scalar || row->n != first->n) return false;
    memcpy(v->items + i * first->n, row->items, (size_t)row->n * sizeof v->items[0]);
  }
  if (v != NULL) v->columns = first->n;
  return weft_ints_give(c, 0, v);
}

bool weft_ints_transpose(weft_data_ctx_t *c) {
  const ints_t *a = c->in[0].ints;
  int64_t first;
  if (a == NULL || a->columns == 0 || !weft_data_int_at(weft_ints_in(c, 1), 0, &first) || first != 1)
    return false;
  int rows = a->n / a->columns;
  ints_t *v = weft_ints_new(c, a->n, false);
  for (int i = 0; v != NULL && i < a->n; i++) v->items[i % a->columns * rows + i / a->columns] = a->items[i];
  if (v != NULL) v->columns = rows;
  return weft_ints_give(c, 0, v);
}

bool weft_ints_concat_v2(weft_data_ctx_t *c) { return join_inputs(c, 0, c->node->num_inputs - 1, false); }
bool weft_ints_concat(weft_data_ctx_t *c) { return join_inputs(c, 1, c->node->num_inputs, false); }

bool weft_ints_unpack(weft_data_ctx_t *c) {
  const ints_t *a = weft_ints_in(c, 0);
  if (a == NULL || a->is_scalar || a->n != c->node->num_outputs) return false;
  for (int i = 0; i < a->n; i++) {
    ints_t *v = weft_ints_new(c, 1, true);
    if (v == NULL) return false;
    v->items[0] = a->items[i];
    weft_ints_give(c, i, v);
  }
  return true;
}

bool weft_ints_range(weft_data_ctx_t *c) {
  int64_t start, limit, delta;
  if (!weft_data_int_at(weft_ints_in(c, 0), 0, &start) || !weft_data_int_at(weft_ints_in(c, 1), 0, &limit) ||
      !weft_data_int_at(weft_ints_in(c, 2), 0, &delta) || delta == 0) {
    return false;
  }
  int_t items[WEFT_DATA_INTS];
  int count = 0;
  for (int64_t i = start; delta > 0 ? i < limit : i > limit; i += delta) {
    if (count == WEFT_DATA_INTS) return false;
    items[count++] = weft_ints_plain(i);
  }
  ints_t *v = weft_ints_new(c, count, false);
  if (v != NULL) memcpy(v->items, items, (size_t)count * sizeof items[0]);
  return weft_ints_give(c, 0, v);
}

bool weft_ints_fill(weft_data_ctx_t *c) {
  const ints_t *a = weft_ints_in(c, 1);
  int64_t count = 1;
  if (a == NULL || !a->is_scalar || c->in[0].ints == NULL || c->in[0].ints->is_set || c->in[0].ints->n > 1)
    return false;
  if (c->in[0].ints->n == 1 && !weft_data_int_at(c->in[0].ints, 0, &count)) return false;
  if (count < 0 || count > WEFT_DATA_INTS) return false;
  ints_t *v = weft_ints_new(c, (int)count, c->in[0].ints->n == 0);
  for (int i = 0; v != NULL && i < v->n; i++) v->items[i] = a->items[0];
  return weft_ints_give(c, 0, v);
}

bool weft_ints_stitch(weft_data_ctx_t *c) {
  int parts = c->node->num_inputs / 2, count = 0;
  int_t items[WEFT_DATA_INTS];
  bool is_set[WEFT_DATA_INTS] = {false};
  for (int p = 0; p < parts; p++) {
    const ints_t *at = weft_ints_in(c, p), *data = weft_ints_in(c, parts + p);
    if (at == NULL || data == NULL || at->n != data->n) return false;
    for (int i = 0; i < at->n; i++) {
      int64_t k;
      if (!weft_data_int_at(at, i, &k) || k < 0 || k >= WEFT_DATA_INTS) return false;
      items[k] = data->items[i];
      is_set[k] = true;
      if (k >= count) count = (int)k + 1;
    }
  }
  ints_t *v = weft_ints_new(c, count, false);
  for (int i = 0; v != NULL && i < count; i++) {
    if (!is_set[i]) return false;
    v->items[i] = items[i];
  }
  return weft_ints_give(c, 0, v);
}

bool weft_ints_invert_permutation(weft_data_ctx_t *c) {
  const ints_t *a = weft_ints_in(c, 0);
  ints_t *v = a == NULL ? NULL : weft_ints_new(c, a->n, false);
  for (int i = 0; v != NULL && i < v->n; i++) {
    int64_t k;
    if (!weft_data_int_at(a, i, &k) || k < 0 || k >= v->n) return false;
    v->items[k] = weft_ints_plain(i);
  }
  return weft_ints_give(c, 0, v);
}

/* Numbers of `from` that are not in `without`, and where they were. */
bool weft_ints_difference(weft_data_ctx_t *c) {
  const ints_t *from = weft_ints_in(c, 0), *without = weft_ints_in(c, 1);
  int_t values[WEFT_DATA_INTS], places[WEFT_DATA_INTS];
  int count = 0;
  if (from == NULL || without == NULL) return false;
  for (int i = 0; i < from->n; i++) {
    bool is_in = false;
    int64_t a, b;
    if (!weft_data_int_at(from, i, &a)) return false;
    for (int j = 0; j < without->n; j++) {
      if (!weft_data_int_at(without, j, &b)) return false;
      is_in |= a == b;
    }
    values[count] = from->items[i];
    places[count] = weft_ints_plain(i);
    count += !is_in;
  }
  ints_t *v = weft_ints_new(c, count, false), *w = weft_ints_new(c, count, false);
  if (v == NULL || w == NULL) return false;
  memcpy(v->items, values, (size_t)count * sizeof values[0]);
  memcpy(w->items, places, (size_t)count * sizeof places[0]);
  return weft_ints_give(c, 0, v) && weft_ints_give(c, 1, w);
}
