/* sharding/data/ints_shapes.c - vectors of integers that are shapes: asked for, broadcast, counted. */
#include "sharding/data/ints.h"

typedef weft_data_ints_t ints_t;
typedef weft_data_int_t int_t;

/* May the dim be 1? */
static bool may_be_one(int_t dim) { return dim.of != WEFT_COUNT_PLAIN || !dim.known || dim.value == 1; }

/* Which axes each side was broadcast along. Axes where both count rows are broadcast on neither side; where a
 * dim is not known, the axis may be among them. In the step, the op names axes of 1 beside 1 for both sides
 * (or none, if the shapes are equal), which sums nothing: also those of a replica, or a batch, with one row.
 */
bool weft_ints_broadcast_gradient(weft_data_ctx_t *c) {
  const ints_t *side[2] = {weft_ints_in(c, 0), weft_ints_in(c, 1)};
  if (side[0] == NULL || side[1] == NULL) return false;
  int rank = side[0]->n > side[1]->n ? side[0]->n : side[1]->n;
  uint32_t in[2] = {0, 0}, maybe[2] = {0, 0}, ones[2] = {0, 0};
  if (rank > WEFT_MAX_DIMS) return false;
  for (int axis = 0; axis < rank; axis++) {
    int_t dim[2];
    for (int k = 0; k < 2; k++) {
      int at = axis - (rank - side[k]->n);
      dim[k] = at < 0 ? weft_ints_plain(1) : side[k]->items[at];
    }
    uint32_t bit = (uint32_t)1 << axis;
    for (int k = 0; k < 2; k++) {
      int_t mine = dim[k], other = dim[1 - k];
      if (mine.of == WEFT_COUNT_ROWS && other.of != WEFT_COUNT_ROWS && !weft_ints_is_plain(other, 1))
        return false; /* not as long */
      bool is_unclear = mine.of == WEFT_COUNT_PLAIN ? !mine.known && !weft_ints_is_plain(other, 1)
                                                    : !other.known && other.of == WEFT_COUNT_PLAIN;
      if (weft_ints_is_plain(mine, 1) && !weft_ints_is_plain(other, 1)) {
        in[k] |= bit;
        maybe[k] |= bit;
      } else if (is_unclear) {
        maybe[k] |= bit;
      } else if (may_be_one(mine) && may_be_one(other)) {
        ones[k] |= bit;
      }
    }
  }
  for (int k = 0; k < 2; k++) {
    ints_t *v = weft_ints_new(c, 0, false);
    if (v == NULL) return false;
    v->is_set = true;
    v->in = in[k];
    v->maybe = maybe[k];
    v->ones = ones[k];
    c->out[k] = weft_data_value(weft_sharding_replicate(0));
    c->out[k].ints = v;
  }
  return true;
}

bool weft_ints_broadcast_args(weft_data_ctx_t *c) {
  const ints_t *a = weft_ints_in(c, 0), *b = weft_ints_in(c, 1);
  if (a == NULL || b == NULL) return false;
  int rank = a->n > b->n ? a->n : b->n;
  ints_t *v = weft_ints_new(c, rank, false);
  for (int i = 0; v != NULL && i < rank; i++) {
    int at_a = i - (rank - a->n), at_b = i - (rank - b->n);
    int_t x = at_a < 0 ? weft_ints_plain(1) : a->items[at_a],
          y = at_b < 0 ? weft_ints_plain(1) : b->items[at_b];
    if (weft_ints_is_plain(x, 1) || weft_ints_int_eq(x, y)) {
      v->items[i] = y;
    } else if (weft_ints_is_plain(y, 1)) {
      v->items[i] = x;
    } else if (x.of == y.of) {
      v->items[i] = (int_t){x.known ? x.value : y.value, x.known || y.known, x.of};
    } else {
      return false;
    }
  }
  return weft_ints_give(c, 0, v);
}

/* Beside `axis`, do both count rows in the same places? What has all rows does not go with what has a
 * replica's own. */
static bool goes_with(const ints_t *a, const ints_t *b, int64_t axis) {
  if (a->n != b->n) return false;
  for (int k = 0; k < a->n; k++) {
    if (k != axis && a->items[k].of != b->items[k].of) return false;
  }
  return true;
}

bool weft_ints_concat_offset(weft_data_ctx_t *c) {
  int64_t axis;
  if (!weft_data_int_at(weft_ints_in(c, 0), 0, &axis)) return false;
  int_t sum = weft_ints_plain(0);
  for (int i = 1; i < c->node->num_inputs; i++) {
    const ints_t *shape = weft_ints_in(c, i);
    if (shape == NULL) return false;
    if (axis < 0) axis += shape->n;
    if (axis < 0 || axis >= shape->n || !goes_with(weft_ints_in(c, 1), shape, axis)) return false;
    ints_t *v = weft_ints_new(c, shape->n, false);
    for (int k = 0; v != NULL && k < v->n; k++) v->items[k] = k == axis ? sum : weft_ints_plain(0);
    if (!weft_ints_give(c, i - 1, v) || !weft_ints_int_add(sum, shape->items[axis], &sum)) return false;
  }
  return true;
}

/* Shape, Size and Rank read no value: only how many rows there are. */
bool weft_ints_shape(weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_LOCAL || c->in[i].s.kind == WEFT_SHARDING_SINGLE) return false;
    if (!weft_ints_give(c, i, weft_data_ints_of_shape(c, weft_data_in_shape(c, i), &c->in[i]))) return false;
  }
  return true;
}

bool weft_ints_size(weft_data_ctx_t *c) {
  if (c->in[0].s.kind == WEFT_SHARDING_LOCAL || c->in[0].s.kind == WEFT_SHARDING_SINGLE) return false;
  const ints_t *shape = weft_data_ints_of_shape(c, weft_data_in_shape(c, 0), &c->in[0]);
  int_t size = weft_ints_plain(1);
  for (int i = 0; shape != NULL && i < shape->n; i++) {
    if (!weft_ints_int_mul(size, shape->items[i], &size)) return false;
  }
  ints_t *v = shape == NULL ? NULL : weft_ints_new(c, 1, true);
  if (v != NULL) v->items[0] = size;
  return weft_ints_give(c, 0, v);
}

bool weft_ints_rank(weft_data_ctx_t *c) {
  int rank = weft_data_in_shape(c, 0)->rank;
  if (c->in[0].s.kind == WEFT_SHARDING_SINGLE || rank < 0) return false;
  ints_t *v = weft_ints_new(c, 1, true);
  if (v != NULL) v->items[0] = weft_ints_plain(rank);
  return weft_ints_give(c, 0, v);
}

/* The shape of the variable behind a handle. */
bool weft_ints_variable_shape(weft_data_ctx_t *c) {
  const weft_node_t *of = c->node->inputs[0].node;
  while ((of->op->flags & WEFT_OP_VARIABLE) == 0) {
    if (of->num_inputs == 0 || of->num_outputs != 1 || (of->op->flags & WEFT_OP_MERGE) != 0) return false;
    of = of->inputs[0].node;
  }
  const weft_attr_t *shape = weft_node_attr(of, "shape");
  weft_data_value_t nothing = weft_data_value(weft_sharding_replicate(0));
  return shape != NULL && shape->kind == WEFT_ATTR_SHAPE && !shape->is_list &&
         weft_ints_give(c, 0, weft_data_ints_of_shape(c, shape->shape, &nothing));
}
