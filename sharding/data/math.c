/* sharding/data/math.c - reductions, matrix products, segments: where rows are contracted, parts come
 * out. */
#include "ops/einsum.h"
#include "sharding/data/axis.h"

typedef weft_data_value_t value_t;

static int degree(const weft_data_ctx_t *c, int i) {
  return c->required[i].kind == WEFT_SHARDING_REPLICATE || c->required[i].kind == WEFT_SHARDING_SHARD ||
                 c->required[i].kind == WEFT_SHARDING_PARTIAL
             ? c->required[i].degree
             : 0;
}

/* Inputs that are neither rows, parts nor the same everywhere are required true. */
static void settle(weft_data_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_SINGLE || c->in[i].s.kind == WEFT_SHARDING_COUNTS)
      c->required[i] = weft_sharding_replicate(0);
  }
}
static bool any_of(const weft_data_ctx_t *c, weft_sharding_kind_t kind) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == kind) return true;
  }
  return false;
}
/* Nothing is sharded: the general rule does. */
static bool is_plain(const weft_data_ctx_t *c) {
  return !any_of(c, WEFT_SHARDING_SHARD) && !any_of(c, WEFT_SHARDING_PARTIAL);
}

/* ---- biases ---- */

/* The axis of channels of a value of `rank`. */
static int channels(const weft_node_t *n, int rank) {
  return weft_str_starts_with(weft_node_attr_string(n, "data_format"), "NC") && rank >= 3 ? 1 : rank - 1;
}

weft_status_t *weft_data_add_bias(weft_data_ctx_t *c) {
  int rank = weft_data_in_shape(c, 0)->rank;
  bool fits = weft_data_is_shard(c, 0) && !weft_data_is_shard(c, 1) &&
              (rank < 0 ? c->in[0].s.dim == 0 : c->in[0].s.dim != channels(c->node, rank));
  settle(c);
  if (fits) {
    int d = c->in[0].s.degree;
    if (c->in[1].s.kind != WEFT_SHARDING_REPLICATE) d = 0;
    c->required[0].degree = d;
    if (!c->in[1].zero) c->required[1] = weft_sharding_replicate(d);
    c->out[0] = weft_data_value(weft_sharding_shard(c->in[0].s.dim, d));
    c->out[0].factor = c->in[0].factor;
    return NULL;
  }
  if (!weft_data_all_same(c)) return weft_data_replicate_all(c);
  int d = c->in[0].s.degree == c->in[1].s.degree ? c->in[0].s.degree : 0;
  for (int i = 0; i < 2; i++) c->required[i].degree = d;
  c->out[0].s.degree = d;
  c->out[0].whole = c->in[0].whole;
  return NULL;
}

weft_status_t *weft_data_bias_grad(weft_data_ctx_t *c) {
  int rank = weft_data_in_shape(c, 0)->rank;
  if (weft_data_is_partial(c, 0) || weft_data_all_same(c)) {
    c->out[0] = weft_data_value(c->in[0].s);
    c->out[0].zero = c->in[0].zero;
    return NULL;
  }
  bool fits = weft_data_is_shard(c, 0) &&
              (rank < 0 ? c->in[0].s.dim == 0 : c->in[0].s.dim != channels(c->node, rank));
  if (!fits) return weft_data_single(c);
  c->out[0] = weft_data_value(weft_sharding_partial(c->in[0].s.degree));
  c->out[0].zero = c->in[0].zero;
  return NULL;
}

/* ---- reductions ---- */

/* How many of the axes below `axis` go away; -1: not known. */
static int dropped_below(uint32_t in, uint32_t maybe, int axis) {
  uint32_t below = ((uint32_t)1 << axis) - 1;
  return ((in ^ maybe) & below) != 0 ? -1 : __builtin_popcount(in & below);
}

typedef struct reduced {
  value_t x; /* input 0 as it will be given */
  bool is_linear, keeps, knows;
  uint32_t in, maybe; /* if it knows: axes that go, and that might go */
} reduced_t;

/* Where axis `axis` of the input is in the output; -1: not known, or gone. */
static int axis_left(const reduced_t *r, int axis) {
  if (axis < 0 || !r->knows || ((r->in | r->maybe) & ((uint32_t)1 << axis)) != 0) return -1;
  int dropped = r->keeps ? 0 : dropped_below(r->in, r->maybe, axis);
  return dropped < 0 ? -1 : axis - dropped;
}

/* Axes that are worked out from shapes: copies name those that are known to be among them, and no others that
 * are known. */
static void name_axes(weft_data_ctx_t *c) {
  const weft_data_ints_t *axes = c->in[1].ints;
  if (axes == NULL || !axes->is_set) return;
  c->named = (weft_data_named_t){.is_named = axes->in == axes->maybe, .dims = axes->in, .kept = axes->ones};
}

/* Rows that are summed are a part; rows that stay are rows. False if neither. */
static bool reduce_rows(weft_data_ctx_t *c, const reduced_t *r, weft_batch_rule_t kind) {
  const value_t *x = &r->x;
  if (!r->knows || c->in[1].s.kind != WEFT_SHARDING_REPLICATE) return false;
  if ((r->in & ((uint32_t)1 << x->s.dim)) != 0 && r->is_linear) {
    c->out[0] =
        weft_data_value(weft_sharding_partial(x->s.degree + (kind == WEFT_BATCH_REDUCE_MEAN ? 1 : 0)));
    c->out[0].zero = x->zero;
    return true;
  }
  int to = axis_left(r, x->s.dim);
  if (to < 0) return false;
  if (kind == WEFT_BATCH_REDUCE_PROD) c->required[0].degree = 0;
  c->out[0] = weft_data_value(weft_sharding_shard(to, c->required[0].degree));
  c->out[0].factor = x->factor;
  c->out[0].zero = x->zero && kind != WEFT_BATCH_REDUCE_PROD;
  return true;
}

weft_status_t *weft_data_reduce(weft_data_ctx_t *c) {
  weft_batch_rule_t kind = c->node->op->batch;
  reduced_t r = {.x = c->in[0], .keeps = weft_node_attr_bool(c->node, "keep_dims", false)};
  const value_t *x = &r.x;
  name_axes(c);
  r.is_linear = kind == WEFT_BATCH_REDUCE_SUM ||
                (kind == WEFT_BATCH_REDUCE_MEAN && weft_data_has_fraction(c->node->output_types[0]));
  if (x->s.kind == WEFT_SHARDING_COUNTS && x->ints != NULL && x->ints->is_scalar && r.is_linear) {
    weft_data_pass(c, 0, 0); /* of one number */
    return NULL;
  }
  for (int i = 0; i < 2; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_SINGLE || c->in[i].s.kind == WEFT_SHARDING_LOCAL)
      return weft_data_single(c);
  }
  settle(c);
  if (c->in[1].s.kind != WEFT_SHARDING_REPLICATE) c->required[1] = weft_sharding_replicate(0);
  r.knows = weft_data_axes(c->in[1].ints, weft_data_in_shape(c, 0)->rank, &r.in, &r.maybe);
  if (r.knows && c->in[1].ints->is_set) r.maybe = c->in[1].ints->maybe;
  if (x->s.kind == WEFT_SHARDING_SHARD && reduce_rows(c, &r, kind)) return NULL;
  if (x->s.kind == WEFT_SHARDING_PARTIAL && r.is_linear && c->in[1].s.kind == WEFT_SHARDING_REPLICATE) {
    c->out[0] = weft_data_value(x->s);
    c->out[0].zero = x->zero;
    return NULL;
  }
  int d = x->s.kind == WEFT_SHARDING_REPLICATE && r.is_linear ? x->s.degree : 0;
  c->required[0] = weft_sharding_replicate(d);
  c->out[0] = weft_data_value(weft_sharding_replicate(d));
  c->out[0].zero = x->zero && r.is_linear;
  c->out[0].whole = axis_left(&r, x->s.kind == WEFT_SHARDING_SHARD ? x->s.dim : x->whole);
  if (c->out[0].whole >= 0) c->out[0].factor = x->factor;
  return NULL;
}

weft_status_t *weft_data_l2_loss(weft_data_ctx_t *c) {
  if (!weft_data_is_shard(c, 0))
    return weft_data_is_partial(c, 0) ? weft_data_replicate_all(c) : weft_data_single(c);
  c->required[0].degree = 0;
  c->out[0] = weft_data_value(weft_sharding_partial(0));
  return NULL;
}

weft_status_t *weft_data_arg(weft_data_ctx_t *c) {
  int rank = weft_data_in_shape(c, 0)->rank;
  uint32_t in, maybe;
  if (is_plain(c)) return weft_data_single(c);
  if (!weft_data_is_shard(c, 0) || !weft_data_axes(c->in[1].ints, rank, &in, &maybe) ||
      (in & ((uint32_t)1 << c->in[0].s.dim)) != 0) {
    return weft_data_replicate_all(c);
  }
  int axis = c->in[0].s.dim - dropped_below(in, in, c->in[0].s.dim);
  c->out[0] = weft_data_value(weft_sharding_shard(axis, 0)); /* a positive factor changes no order */
  c->out[0].factor = c->in[0].factor;
  return NULL;
}

weft_status_t *weft_data_cumulate(weft_data_ctx_t *c) {
  bool is_linear = (c->node->op->flags & WEFT_OP_LINEAR_IN(0)) != 0;
  int rank = weft_data_in_shape(c, 0)->rank;
  uint32_t in, maybe;
  if (is_plain(c)) return weft_data_single(c);
  if (is_linear && weft_data_is_partial(c, 0) && c->in[1].s.kind == WEFT_SHARDING_REPLICATE) {
    c->out[0] = weft_data_value(c->in[0].s);
    return NULL;
  }
  if (!weft_data_is_shard(c, 0) || !weft_data_axes(c->in[1].ints, rank, &in, &maybe) ||
      (in & ((uint32_t)1 << c->in[0].s.dim)) != 0) {
    WEFT_RETURN_IF_ERROR(weft_data_replicate_all(c));
    c->out[0].whole = weft_data_batch_axis(c, 0);
    c->out[0].factor = c->in[0].factor;
    return NULL;
  }
  if (!is_linear) c->required[0].degree = 0;
  c->out[0] = weft_data_value(c->required[0]);
  c->out[0].factor = c->in[0].factor;
  return NULL;
}

/* ---- products ---- */

/* A product with dims named by letters: which letter is where in a, b and the output. '\0' ends. */
typedef struct letters {
  char a[WEFT_MAX_DIMS + 1], b[WEFT_MAX_DIMS + 1], out[WEFT_MAX_DIMS + 1];
} letters_t;

static int place(const char *text, char letter) {
  const char *at = letter == '\0' ? NULL : strchr(text, letter);
  return at == NULL ? -1 : (int)(at - text);
}
static void require_shard(weft_data_ctx_t *c, int i, int axis) {
  c->required[i] = weft_sharding_shard(axis, 0);
}

/* A product of inputs `ia` and `ib`, linear in both. */
static weft_status_t *contract(weft_data_ctx_t *c, int ia, int ib, const letters_t *l) {
  settle(c);
  const value_t *a = &c->in[ia], *b = &c->in[ib];
  if (a->s.kind == WEFT_SHARDING_LOCAL || b->s.kind == WEFT_SHARDING_LOCAL) return weft_data_single(c);
  if (weft_data_is_partial(c, ia) && b->s.kind != WEFT_SHARDING_REPLICATE)
    c->required[ia] = weft_sharding_replicate(0);
  if (weft_data_is_partial(c, ib) && a->s.kind != WEFT_SHARDING_REPLICATE &&
      !(weft_data_is_partial(c, ia) && c->required[ia].kind == WEFT_SHARDING_REPLICATE)) {
    c->required[ib] = weft_sharding_replicate(0);
  }
  char ra = weft_data_is_shard(c, ia) ? l->a[a->s.dim] : '\0',
       rb = weft_data_is_shard(c, ib) ? l->b[b->s.dim] : '\0';
  if (ra == '\0' && rb == '\0') {
    bool has_part =
        c->required[ia].kind == WEFT_SHARDING_PARTIAL || c->required[ib].kind == WEFT_SHARDING_PARTIAL;
    int d = degree(c, ia) + degree(c, ib);
    c->out[0] = weft_data_value(has_part ? weft_sharding_partial(d) : weft_sharding_replicate(d));
    c->out[0].zero = a->zero || b->zero;
    if (!has_part && a->whole >= 0) c->out[0].whole = place(l->out, l->a[a->whole]);
    if (!has_part && b->whole >= 0 && c->out[0].whole < 0) c->out[0].whole = place(l->out, l->b[b->whole]);
    return NULL;
  }
  char rows = ra != '\0' ? ra : rb;
  if (ra != '\0' && rb != '\0' && ra != rb) {
    c->required[ib] = weft_sharding_replicate(0); /* rows against rows: b is needed whole */
    if (place(l->out, ra) < 0) {                  /* a's rows go away: then a is */
      c->required[ib] = b->s;
      c->required[ia] = weft_sharding_replicate(0);
      rows = rb;
    }
  }
  /* the other side may have the same dim without its being rows */
  bool a_has = c->required[ia].kind == WEFT_SHARDING_SHARD,
       b_has = c->required[ib].kind == WEFT_SHARDING_SHARD;
  int other = a_has ? ib : ia, at = place(a_has ? l->b : l->a, rows);
  if (a_has != b_has && at >= 0) {
    const weft_shape_t *shape = weft_data_in_shape(c, other);
    bool is_one = shape->rank >= 0 && at < shape->rank && shape->dims[at] == 1 && place(l->out, rows) >= 0;
    bool is_whole = c->in[other].whole == at || (shape->rank >= 0 && at < shape->rank && shape->dims[at] > 1);
    bool has_it =
        c->in[other].s.kind == WEFT_SHARDING_REPLICATE || c->in[other].s.kind == WEFT_SHARDING_SINGLE;
    if (!is_one) {
      if (!is_whole || !has_it) return weft_data_replicate_all(c);
      require_shard(c, other, at);
    }
  }
  int d = degree(c, ia) + degree(c, ib), axis = place(l->out, rows);
  c->out[0] = weft_data_value(axis < 0 ? weft_sharding_partial(d) : weft_sharding_shard(axis, d));
  if (axis >= 0) c->out[0].factor = ra == rows ? a->factor : b->factor;
  c->out[0].zero = a->zero || b->zero;
  return NULL;
}

weft_status_t *weft_data_matmul(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  letters_t l = {"mk", "kn", "mn"};
  if (weft_node_attr_bool(n, "transpose_a", false)) memcpy(l.a, "km", 3);
  if (weft_node_attr_bool(n, "transpose_b", false)) memcpy(l.b, "nk", 3);
  return contract(c, 0, 1, &l);
}

weft_status_t *weft_data_batch_matmul(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  int ra = weft_data_in_shape(c, 0)->rank, rb = weft_data_in_shape(c, 1)->rank;
  if (ra < 2 || rb < 2 || ra > 12 || rb > 12)
    return is_plain(c) ? weft_data_single(c) : weft_data_replicate_all(c);
  int rank = ra > rb ? ra : rb;
  letters_t l = {{0}, {0}, {0}};
  for (int i = 0; i < rank - 2; i++) {
    char letter = (char)('A' + i);
    l.out[i] = letter;
    if (i >= rank - ra) l.a[i - (rank - ra)] = letter;
    if (i >= rank - rb) l.b[i - (rank - rb)] = letter;
  }
  memcpy(l.a + ra - 2, weft_node_attr_bool(n, "adj_x", false) ? "km" : "mk", 3);
  memcpy(l.b + rb - 2, weft_node_attr_bool(n, "adj_y", false) ? "nk" : "kn", 3);
  memcpy(l.out + rank - 2, "mn", 3);
  return contract(c, 0, 1, &l);
}

/* Labels of a term, as letters. False if it has one twice: a diagonal. */
static bool write_letters(const weft_einsum_term_t *t, char *out) {
  for (int i = 0; i < t->n; i++) {
    out[i] = (char)('!' + t->labels[i]);
    for (int k = 0; k < i; k++) {
      if (out[k] == out[i]) return false;
    }
  }
  out[t->n] = '\0';
  return true;
}

/* One operand alone: labels that the output lacks are summed over. */
static weft_status_t *sum_and_turn(weft_data_ctx_t *c, const letters_t *l) {
  const value_t *x = &c->in[0];
  int at = x->s.kind == WEFT_SHARDING_SHARD ? place(l->out, l->a[x->s.dim]) : -1;
  if (weft_data_passes_whole(c)) return NULL;
  if (!weft_data_is_shard(c, 0)) {
    return weft_data_keep_whole(c, x->whole >= 0 ? place(l->out, l->a[x->whole]) : -1);
  }
  if (at >= 0) {
    weft_data_give_shard(c, 0, 0, at);
  } else {
    c->out[0] = weft_data_value(weft_sharding_partial(x->s.degree));
    c->out[0].zero = x->zero;
  }
  return NULL;
}

weft_status_t *weft_data_einsum(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  int ranks[WEFT_EINSUM_OPERANDS] = {0};
  weft_einsum_t e;
  letters_t l = {{0}, {0}, {0}};
  bool knows = n->num_inputs <= WEFT_EINSUM_OPERANDS;
  for (int i = 0; i < n->num_inputs && knows; i++) {
    ranks[i] = weft_data_in_shape(c, i)->rank;
    knows = ranks[i] >= 0;
  }
  if (!knows) return weft_data_fall_back(c);
  WEFT_RETURN_IF_ERROR(weft_einsum_parse(weft_node_attr_string(n, "equation"), ranks, n->num_inputs, &e));
  knows = write_letters(&e.in[0], l.a) && write_letters(&e.in[1], l.b) && write_letters(&e.out, l.out);
  if (!knows) return weft_data_fall_back(c);
  return n->num_inputs == 1 ? sum_and_turn(c, &l) : contract(c, 0, 1, &l);
}

/* d filter = sum over rows of input times gradient. */
weft_status_t *weft_data_conv_filter(weft_data_ctx_t *c) {
  if (weft_data_is_shard(c, 0) && weft_data_is_shard(c, 2) && c->in[0].s.dim == 0 && c->in[2].s.dim == 0) {
    if (c->in[1].s.kind != WEFT_SHARDING_REPLICATE) c->required[1] = weft_sharding_replicate(0);
    c->out[0] = weft_data_value(weft_sharding_partial(c->in[0].s.degree + c->in[2].s.degree));
    return NULL;
  }
  return is_plain(c) ? weft_data_single(c) : weft_data_replicate_all(c);
}

/* d input: rows as the gradient's; their number comes from a shape. */
weft_status_t *weft_data_conv_input(weft_data_ctx_t *c) {
  const weft_data_ints_t *sizes = c->in[0].ints;
  bool counts = sizes != NULL && !sizes->is_set && sizes->n > 0 && sizes->items[0].of == WEFT_COUNT_ROWS;
  if (!weft_data_is_shard(c, 2)) {
    if (weft_data_is_partial(c, 2) && c->in[1].s.kind == WEFT_SHARDING_REPLICATE &&
        c->in[0].s.kind == WEFT_SHARDING_REPLICATE) {
      c->out[0] = weft_data_value(weft_sharding_partial(c->in[1].s.degree + c->in[2].s.degree));
      return NULL;
    }
    return is_plain(c) ? weft_data_single(c) : weft_data_replicate_all(c);
  }
  if (!counts || c->in[2].s.dim != 0) return weft_data_replicate_all(c);
  if (c->in[1].s.kind != WEFT_SHARDING_REPLICATE) c->required[1] = weft_sharding_replicate(0);
  c->out[0] = weft_data_value(weft_sharding_shard(0, c->in[2].s.degree + degree(c, 1)));
  c->out[0].factor = c->in[2].factor;
  return NULL;
}

/* ---- segments ---- */

/* With as many segments as there are rows (of the batch, or a multiple), the whole batch lies along axis 0.
 */
static void find_segments(weft_data_ctx_t *c) {
  const weft_data_ints_t *n = c->in[2].ints;
  bool counts = n != NULL && !n->is_set && n->n == 1 && n->items[0].of != WEFT_COUNT_PLAIN;
  if (!counts || (c->out[0].s.kind != WEFT_SHARDING_REPLICATE && c->out[0].s.kind != WEFT_SHARDING_PARTIAL))
    return;
  c->out[0].whole = 0;
  c->out[0].factor = weft_data_factor_of(n, 0);
}

/* Rows added up by ids: data, ids, number of segments. */
weft_status_t *weft_data_segment(weft_data_ctx_t *c) {
  bool fits =
      weft_data_is_shard(c, 0) && weft_data_is_shard(c, 1) && c->in[0].s.dim == 0 && c->in[1].s.dim == 0;
  bool is_linear = weft_data_is_partial(c, 0) && c->in[1].s.kind == WEFT_SHARDING_REPLICATE &&
                   c->in[2].s.kind == WEFT_SHARDING_REPLICATE;
  if (!fits && !is_linear) {
    WEFT_RETURN_IF_ERROR(weft_data_fall_back(c));
  } else if (fits) {
    if (c->in[2].s.kind != WEFT_SHARDING_REPLICATE) c->required[2] = weft_sharding_replicate(0);
    c->out[0] = weft_data_value(weft_sharding_partial(c->in[0].s.degree));
  } else {
    c->out[0] = weft_data_value(c->in[0].s);
  }
  find_segments(c);
  return NULL;
}
