/* sharding/data/ints_compute.c - which ops compute with integers, and those that do so element by
 * element. */
#include "sharding/data/ints.h"

typedef weft_data_ints_t ints_t;
typedef weft_data_int_t int_t;

static bool map2(weft_data_ctx_t *c, weft_ints_int2_fn *fn) {
  const ints_t *a = weft_ints_in(c, 0), *b = weft_ints_in(c, 1);
  if (a == NULL || b == NULL || (a->n != b->n && a->n != 1 && b->n != 1)) return false;
  int n = a->n == 1 ? b->n : a->n;
  ints_t *v = weft_ints_new(c, n, a->is_scalar && b->is_scalar);
  for (int i = 0; v != NULL && i < n; i++) {
    if (!fn(a->items[a->n == 1 ? 0 : i], b->items[b->n == 1 ? 0 : i], &v->items[i])) return false;
  }
  return weft_ints_give(c, 0, v);
}

#define MAP2(name, fn) \
  bool name(weft_data_ctx_t *c) { return map2(c, fn); }
MAP2(weft_ints_mul, weft_ints_int_mul)
MAP2(weft_ints_add, weft_ints_int_add)
MAP2(weft_ints_sub, weft_ints_int_sub)
MAP2(weft_ints_mod, weft_ints_int_mod)
MAP2(weft_ints_min, weft_ints_int_min)
#undef MAP2

/* Does an item of input i count a replica's own rows? */
static bool counts_own(const weft_data_ctx_t *c, int i) {
  const ints_t *v = weft_ints_in(c, i);
  bool counts = false;
  for (int k = 0; v != NULL && k < v->n; k++) counts = counts || v->items[k].of == WEFT_COUNT_ROWS;
  return counts;
}

/* Rows divided by rows: 0 / 0 where there are none. A gradient divides by max(rows, 1), for rows that are not
 * there; others need the number, and make it of all rows. */
bool weft_ints_div(weft_data_ctx_t *c) {
  bool is_of_rows = counts_own(c, 0) && counts_own(c, 1);
  if (is_of_rows && c->in[1].lacking == 0) {
    weft_data_force_true(c, c->node->id);
    return false;
  }
  if (!map2(c, weft_ints_int_div)) return false;
  if (is_of_rows) c->out[0].lacking = c->in[1].lacking;
  return true;
}

/* max(rows, 1) is 1 where there are none. */
bool weft_ints_max(weft_data_ctx_t *c) {
  bool counts = counts_own(c, 0) || counts_own(c, 1);
  if (!map2(c, weft_ints_int_max)) return false;
  for (int i = 0; i < 2 && counts; i++) {
    const ints_t *v = weft_ints_in(c, i);
    for (int k = 0; k < v->n; k++) {
      if (weft_ints_is_plain(v->items[k], 1)) c->out[0].lacking = c->node->id + 1;
    }
  }
  return true;
}

bool weft_ints_neg(weft_data_ctx_t *c) {
  const ints_t *a = weft_ints_in(c, 0);
  ints_t *v = a == NULL ? NULL : weft_ints_new(c, a->n, a->is_scalar);
  for (int i = 0; v != NULL && i < v->n; i++) {
    if (!weft_ints_int_sub(weft_ints_plain(0), a->items[i], &v->items[i])) return false;
  }
  return weft_ints_give(c, 0, v);
}

/* The same numbers as a vector or a scalar, if they are as many. */
static bool as_rank(weft_data_ctx_t *c, int output, const ints_t *a, int rank) {
  if (a == NULL || rank < 0 || rank > 1 || (rank == 0 && a->n != 1)) return false;
  if (a->is_scalar == (rank == 0)) return weft_ints_give(c, output, a);
  ints_t *v = weft_ints_new(c, a->n, rank == 0);
  if (v == NULL) return false;
  memcpy(v->items, a->items, (size_t)a->n * sizeof a->items[0]);
  return weft_ints_give(c, output, v);
}

bool weft_ints_as_shaped(weft_data_ctx_t *c) {
  int rank = weft_data_out_shape(c, 0)->rank;
  if (rank < 0 && weft_str_is(c->node->op->name, "ExpandDims") && c->in[0].ints != NULL &&
      c->in[0].ints->is_scalar)
    rank = 1;
  if (rank < 0 && weft_str_is(c->node->op->name, "Reshape") && c->in[1].ints != NULL) rank = c->in[1].ints->n;
  const ints_t *matrix = c->in[0].ints;
  if (matrix != NULL && matrix->columns > 0 && rank == 1 && weft_str_is(c->node->op->name, "Reshape")) {
    ints_t *flat = weft_ints_new(c, matrix->n, false);
    if (flat != NULL) memcpy(flat->items, matrix->items, (size_t)matrix->n * sizeof flat->items[0]);
    return weft_ints_give(c, 0, flat);
  }
  return as_rank(c, 0, weft_ints_in(c, 0), rank);
}

bool weft_ints_cast(weft_data_ctx_t *c) {
  int to = c->node->output_types[0] % WEFT_REF;
  if (to != WEFT_I32 && to != WEFT_I64 && !weft_data_has_fraction(to)) return false;
  const ints_t *a = weft_ints_in(c, 0);
  return a != NULL && weft_ints_give(c, 0, a);
}

bool weft_ints_prod(weft_data_ctx_t *c) {
  const ints_t *a = weft_ints_in(c, 0);
  uint32_t in, maybe;
  if (a == NULL || !weft_data_axes(c->in[1].ints, 1, &in, &maybe) || (!a->is_scalar && in != 1)) return false;
  int_t product = weft_ints_plain(1);
  for (int i = 0; i < a->n; i++) {
    if (!weft_ints_int_mul(product, a->items[i], &product)) return false;
  }
  ints_t *v = weft_ints_new(c, 1, !weft_node_attr_bool(c->node, "keep_dims", false));
  if (v != NULL) v->items[0] = product;
  return weft_ints_give(c, 0, v);
}

static bool weft_ints_like(weft_data_ctx_t *c, int64_t value) {
  const ints_t *a = weft_ints_in(c, 0);
  ints_t *v = a == NULL ? NULL : weft_ints_new(c, a->n, a->is_scalar);
  for (int i = 0; v != NULL && i < v->n; i++) v->items[i] = weft_ints_plain(value);
  return weft_ints_give(c, 0, v);
}

bool weft_ints_ones(weft_data_ctx_t *c) { return weft_ints_like(c, 1); }
bool weft_ints_zeros(weft_data_ctx_t *c) { return weft_ints_like(c, 0); }

static const struct {
  const char *op;
  bool (*compute)(weft_data_ctx_t *c);
  bool of_shape; /* reads no values */
} computers[] = {
    {"Add", weft_ints_add, false},
    {"AddV2", weft_ints_add, false},
    {"BroadcastArgs", weft_ints_broadcast_args, false},
    {"BroadcastGradientArgs", weft_ints_broadcast_gradient, false},
    {"Cast", weft_ints_cast, false},
    {"Concat", weft_ints_concat, false},
    {"ConcatOffset", weft_ints_concat_offset, false},
    {"ConcatV2", weft_ints_concat_v2, false},
    {"DynamicStitch", weft_ints_stitch, false},
    {"ExpandDims", weft_ints_as_shaped, false},
    {"Fill", weft_ints_fill, false},
    {"FloorDiv", weft_ints_div, false},
    {"FloorMod", weft_ints_mod, false},
    {"Gather", weft_ints_gather, false},
    {"GatherV2", weft_ints_gather, false},
    {"InvertPermutation", weft_ints_invert_permutation, false},
    {"ListDiff", weft_ints_difference, false},
    {"Maximum", weft_ints_max, false},
    {"Minimum", weft_ints_min, false},
    {"Mul", weft_ints_mul, false},
    {"Neg", weft_ints_neg, false},
    {"OnesLike", weft_ints_ones, false},
    {"Pack", weft_ints_pack, false},
    {"ParallelDynamicStitch", weft_ints_stitch, false},
    {"Prod", weft_ints_prod, false},
    {"Range", weft_ints_range, false},
    {"Rank", weft_ints_rank, true},
    {"Reshape", weft_ints_as_shaped, false},
    {"Shape", weft_ints_shape, true},
    {"ShapeN", weft_ints_shape, true},
    {"Size", weft_ints_size, true},
    {"Slice", weft_ints_slice, false},
    {"Squeeze", weft_ints_as_shaped, false},
    {"StridedSlice", weft_ints_strided_slice, false},
    {"Sub", weft_ints_sub, false},
    {"Transpose", weft_ints_transpose, false},
    {"Unpack", weft_ints_unpack, false},
    {"VariableShape", weft_ints_variable_shape, true},
    {"ZerosLike", weft_ints_zeros, false},
};

bool weft_data_ints_compute(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  for (size_t k = 0; k < sizeof computers / sizeof computers[0]; k++) {
    if (!weft_str_is(n->op->name, computers[k].op)) continue;
    bool is_int = n->num_outputs > 0;
    for (int i = 0; i < n->num_inputs && !computers[k].of_shape; i++) {
      int dtype = n->input_types[i] % WEFT_REF;
      is_int = is_int && (dtype == WEFT_I32 || dtype == WEFT_I64) &&
               (c->in[i].s.kind == WEFT_SHARDING_REPLICATE || c->in[i].s.kind == WEFT_SHARDING_COUNTS);
    }
    if (is_int && computers[k].compute(c)) return true;
    for (int o = 0; o < n->num_outputs; o++) c->out[o] = weft_data_value(weft_sharding_replicate(0));
    return false;
  }
  return false;
}
