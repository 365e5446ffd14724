/* sharding/data/index.c - rules of ops that choose elements by index or condition: where their rows come
 * from. */
#include "sharding/data/axis.h"

/* Indices into a replica's own rows: from rows of the same kind they choose rows, else the indices must be
 * the true ones. */
static weft_status_t *gather_own(weft_data_ctx_t *c, bool is_by_row) {
  bool fits = is_by_row && weft_data_is_shard(c, 0) && c->in[0].s.dim == 0 && c->in[1].factor > 0 &&
              c->in[0].factor == c->in[1].factor;
  if (fits) {
    weft_data_give_shard(c, 0, 0, 0);
  } else {
    weft_data_force_true(c, c->in[1].own - 1);
    c->out[0] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
  }
  return NULL;
}

weft_status_t *weft_data_gather(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  int batch_dims = (int)weft_node_attr_int(n, "batch_dims", 0);
  int64_t axis = 0;
  bool has_axis = n->op->batch == WEFT_BATCH_GATHER_AXIS;
  int params_rank = weft_data_in_shape(c, 0)->rank, indices_rank = weft_data_in_shape(c, 1)->rank;
  bool knows = !has_axis || weft_data_int_at(c->in[2].ints, 0, &axis);
  if (axis < 0 && params_rank < 0) knows = false;
  if (axis < 0) axis += params_rank;
  if (has_axis && !weft_data_require_numbers(c, 2, 3)) return weft_data_fall_back(c);
  if (c->in[0].s.kind == WEFT_SHARDING_SINGLE && c->in[0].is_state) return weft_data_single(c);
  if (c->in[1].own != 0) return gather_own(c, knows && axis == 0 && c->in[1].rank == 1 && c->in[0].pick == 0);
  if (batch_dims != 0) {
    bool fits = weft_data_is_shard(c, 0) && weft_data_is_shard(c, 1) && c->in[0].s.dim == c->in[1].s.dim &&
                c->in[0].s.dim < batch_dims;
    if (!fits) return weft_data_fall_back(c);
    weft_data_give_shard(c, 0, 0, c->in[0].s.dim);
    return NULL;
  }
  if (weft_data_is_shard(c, 1) && knows) { /* each replica looks up its own rows */
    if (c->in[0].s.kind != WEFT_SHARDING_REPLICATE) c->required[0] = weft_sharding_replicate(0);
    c->out[0] = weft_data_value(
        weft_sharding_shard((int)axis + c->in[1].s.dim, c->in[0].is_state ? 0 : c->required[0].degree));
    c->out[0].factor = c->in[1].factor;
    return NULL;
  }
  if (weft_data_is_shard(c, 0) && knows && c->in[0].s.dim != axis && indices_rank >= 0) {
    if (c->in[1].s.kind != WEFT_SHARDING_REPLICATE) c->required[1] = weft_sharding_replicate(0);
    int at = c->in[0].s.dim;
    weft_data_give_shard(c, 0, 0, at < axis ? at : at - 1 + indices_rank);
    return NULL;
  }
  if (c->in[0].is_state) { /* what the variable holds, looked up at the true indices */
    if (c->in[1].s.kind != WEFT_SHARDING_REPLICATE) c->required[1] = weft_sharding_replicate(0);
    c->out[0].whole = c->in[1].whole;
    c->out[0].factor = c->in[1].factor;
    return NULL;
  }
  if (c->in[1].s.kind == WEFT_SHARDING_REPLICATE && weft_data_passes_whole(c)) return NULL;
  weft_status_t *s = weft_data_fall_back(c);
  if (s == NULL && c->in[1].whole >= 0 && knows) {
    c->out[0].whole = (int)axis + c->in[1].whole;
    c->out[0].factor = c->in[1].factor;
  }
  return s;
}

/* How many dims of a tensor are chosen by `indices`, all replicas having the same, and how many dims those
 * have before the last. False if that is not known. */
static bool chooses_alike(const weft_data_ctx_t *c, int indices, int *depth, int *before) {
  const weft_shape_t *shape = weft_data_in_shape(c, indices);
  if (c->in[indices].s.kind != WEFT_SHARDING_REPLICATE || shape->rank < 1 || shape->dims[shape->rank - 1] < 0)
    return false;
  *depth = (int)shape->dims[shape->rank - 1];
  *before = shape->rank - 1;
  return true;
}

weft_status_t *weft_data_gather_nd(weft_data_ctx_t *c) {
  if (c->in[1].own != 0) return gather_own(c, c->in[1].rank == 2);
  int rank = weft_data_in_shape(c, 1)->rank, depth, before;
  if (weft_data_is_shard(c, 0) && chooses_alike(c, 1, &depth, &before) &&
      c->in[0].s.dim >= depth) { /* not among rows */
    weft_data_give_shard(c, 0, 0, before + c->in[0].s.dim - depth);
    return NULL;
  }
  if (weft_data_is_shard(c, 1) && rank > 0 && c->in[1].s.dim < rank - 1) {
    if (!c->in[0].is_state && c->in[0].s.kind != WEFT_SHARDING_REPLICATE)
      c->required[0] = weft_sharding_replicate(0);
    c->out[0] =
        weft_data_value(weft_sharding_shard(c->in[1].s.dim, c->in[0].is_state ? 0 : c->required[0].degree));
    c->out[0].factor = c->in[1].factor;
    return NULL;
  }
  if (c->in[0].is_state) {
    if (c->in[1].s.kind != WEFT_SHARDING_REPLICATE) c->required[1] = weft_sharding_replicate(0);
    return NULL;
  }
  return weft_data_fall_back(c);
}

/* A value of a shape that has the number of rows as one of its dims, once: the whole batch lies there. */
static void find_rows(const weft_data_ints_t *shape, weft_data_value_t *out) {
  int at = -1, n = 0;
  for (int i = 0; shape != NULL && !shape->is_set && shape->columns == 0 && i < shape->n; i++) {
    if (shape->items[i].of == WEFT_COUNT_PLAIN) continue;
    at = i;
    n++;
  }
  if (n != 1 || (out->s.kind != WEFT_SHARDING_REPLICATE && out->s.kind != WEFT_SHARDING_PARTIAL)) return;
  out->whole = at;
  out->factor = weft_data_factor_of(shape, at);
}

/* Marks and texts of several replicas cannot be added up. */
static bool is_addable(const weft_node_t *n) {
  const int type = weft_node_attr_type(n, "T");
  return type != WEFT_BOOL && weft_dtype_is_plain(type);
}

/* indices, updates, shape: added up where they meet. */
weft_status_t *weft_data_scatter_nd(weft_data_ctx_t *c) {
  if (c->in[0].own != 0) {
    bool mine = weft_data_is_shard(c, 1) && c->in[1].s.dim == 0 && weft_data_counting(c->in[2].ints) == 0 &&
                c->in[0].factor > 0 && weft_data_factor_of(c->in[2].ints, 0) == c->in[0].factor &&
                c->in[0].rank == 2;
    if (mine) {
      weft_data_give_shard(c, 1, 0, 0);
    } else {
      weft_data_force_true(c, c->in[0].own - 1);
      c->out[0] = weft_data_value(weft_sharding_of_kind(WEFT_SHARDING_NONE));
    }
    return NULL;
  }
  bool fits = weft_data_is_shard(c, 0) && weft_data_is_shard(c, 1) && c->in[0].s.dim == 0 &&
              c->in[1].s.dim == 0 && c->in[2].s.kind == WEFT_SHARDING_REPLICATE;
  if (!fits || !is_addable(c->node)) {
    WEFT_RETURN_IF_ERROR(weft_data_fall_back(c));
  } else {
    c->out[0] = weft_data_value(weft_sharding_partial(c->in[1].s.degree));
  }
  find_rows(c->in[2].ints, &c->out[0]);
  return NULL;
}

weft_status_t *weft_data_one_hot(weft_data_ctx_t *c) { /* indices, depth, on, off */
  int axis = (int)weft_node_attr_int(c->node, "axis", -1);
  int whole = weft_data_batch_axis(c, 0), to = axis >= 0 && axis <= whole ? whole + 1 : whole;
  if (!weft_data_is_shard(c, 0) || !weft_data_require_numbers(c, 1, 4)) return weft_data_keep_whole(c, to);
  for (int i = 1; i < 4; i++) c->required[i].degree = 0;
  weft_data_give_shard(c, 0, 0, to);
  return NULL;
}
