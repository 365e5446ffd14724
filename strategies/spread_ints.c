/* strategies/spread_ints.c - computes with shapes whose first dimension is a multiple of the batch.
 *
 * A gradient of TensorFlow is full of small integer vectors: shapes, axes to sum
 * over, numbers of elements. Here they are followed through the ops that make
 * them, an element being a number, or a multiple of the number of rows, or unknown.
 * What does not stay a multiple (rows + 1, rows / 2) is not followed: the node is
 * then given the true numbers by communication.
 */
#include "strategies/spread_rules.h"

typedef weft_spread_ints_t ints_t;
typedef weft_spread_int_t int_t;

static ints_t *ints_new(const weft_spread_ctx_t *c, int n, bool is_scalar) {
  if (n < 0 || n > WEFT_SPREAD_INTS) return NULL;
  ints_t *v = weft_spread_alloc(c, sizeof *v + (size_t)n * sizeof v->items[0]);
  if (v == NULL) return NULL;
  v->n = n;
  v->is_scalar = is_scalar;
  return v;
}
static int_t plain(int64_t value) { return (int_t){value, true, WEFT_COUNT_PLAIN}; }

static bool int_eq(int_t a, int_t b) {
  return a.of == b.of && a.known == b.known && (!a.known || a.value == b.value);
}
bool weft_spread_ints_eq(const ints_t *a, const ints_t *b) {
  if (a == b) return true;
  if (a->n != b->n || a->columns != b->columns || a->is_scalar != b->is_scalar || a->is_set != b->is_set || a->is_own != b->is_own || a->in != b->in ||
      a->maybe != b->maybe) {
    return false;
  }
  for (int i = 0; i < a->n; i++) {
    if (!int_eq(a->items[i], b->items[i])) return false;
  }
  return true;
}

const ints_t *weft_spread_ints_join(const weft_spread_ctx_t *c, const ints_t *a, const ints_t *b) {
  if (a == NULL || b == NULL || a->n != b->n || a->columns != b->columns || a->is_scalar != b->is_scalar) return NULL;
  if (weft_spread_ints_eq(a, b)) return a;
  if (a->is_set || b->is_set) return NULL;
  ints_t *v = ints_new(c, a->n, a->is_scalar);
  if (v == NULL) return NULL;
  v->columns = a->columns;
  for (int i = 0; i < a->n; i++) {
    if (a->items[i].of != b->items[i].of) return NULL;
    v->items[i] = int_eq(a->items[i], b->items[i]) ? a->items[i] : (int_t){0, false, a->items[i].of};
  }
  return v;
}

const ints_t *weft_spread_ints_of_tensor(const weft_spread_ctx_t *c, const weft_tensor_t *t) {
  if (t == NULL || t->shape.rank > 1 || t->count > WEFT_SPREAD_INTS) return NULL;
  if (t->dtype != WEFT_I32 && t->dtype != WEFT_I64) return NULL;
  ints_t *v = ints_new(c, (int)t->count, t->shape.rank == 0);
  for (int i = 0; v != NULL && i < v->n; i++) {
    v->items[i] = plain(t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i]);
  }
  return v;
}

/* Where the batch lies in v, -1: nowhere; how its dimension counts rows. */
static int batch_axis(const weft_spread_value_t *v, weft_count_of_t *of) {
  *of = v->s.kind == WEFT_SPREAD_ROWS ? WEFT_COUNT_ROWS : WEFT_COUNT_ALL;
  return v->s.kind == WEFT_SPREAD_ROWS ? v->s.axis : v->whole;
}

const ints_t *weft_spread_ints_of_shape(const weft_spread_ctx_t *c, const weft_shape_t *shape, const weft_spread_value_t *v) {
  weft_count_of_t of;
  int axis = batch_axis(v, &of);
  if (v->ints != NULL && !v->ints->is_set && v->ints->columns == 0) { /* a small vector or scalar that we know */
    ints_t *known = ints_new(c, v->ints->is_scalar ? 0 : 1, false);
    if (known != NULL && !v->ints->is_scalar) known->items[0] = plain(v->ints->n);
    return known;
  }
  if (shape->rank < 0) return NULL;
  ints_t *out = ints_new(c, shape->rank, false);
  for (int i = 0; out != NULL && i < out->n; i++) {
    out->items[i] = (int_t){shape->dims[i], shape->dims[i] >= 0, WEFT_COUNT_PLAIN};
    if (i == axis) out->items[i] = (int_t){v->factor, v->factor > 0, of};
  }
  return out;
}

weft_spread_value_t weft_spread_ints_value(const ints_t *ints) {
  weft_spread_value_t v = weft_spread_value(weft_spread_same(0));
  v.ints = ints;
  v.rank = ints == NULL ? -1 : ints->is_scalar ? 0 : ints->columns > 0 ? 2 : 1;
  for (int i = 0; ints != NULL && i < ints->n; i++) {
    if (ints->items[i].of == WEFT_COUNT_ROWS) v.s.rows |= (uint64_t)1 << i;
  }
  if (v.s.rows != 0) {
    v.s.kind = WEFT_SPREAD_SHAPE;
    v.s.count = ints->is_scalar ? -1 : ints->n;
  }
  return v;
}

bool weft_spread_int_at(const ints_t *ints, int i, int64_t *out) {
  if (ints == NULL || ints->is_set || ints->columns > 0 || i < 0 || i >= ints->n) return false;
  *out = ints->items[i].value;
  return ints->items[i].known && ints->items[i].of == WEFT_COUNT_PLAIN;
}

bool weft_spread_axes(const ints_t *ints, int rank, uint32_t *in, uint32_t *maybe) {
  *in = *maybe = 0;
  if (ints == NULL) return false;
  if (rank < 0) rank = WEFT_MAX_DIMS; /* then axes from the front are known, those from the back are not */
  bool has_rank = rank < WEFT_MAX_DIMS;
  if (ints->is_set) {
    *in = ints->in;
    *maybe = ints->maybe;
    return true;
  }
  for (int i = 0; i < ints->n; i++) {
    int64_t axis;
    if (!weft_spread_int_at(ints, i, &axis)) return false;
    if (axis < 0 && has_rank) axis += rank;
    if (axis < 0 || axis >= rank || rank > WEFT_MAX_DIMS) return false;
    *in |= (uint32_t)1 << axis;
  }
  *maybe = *in;
  return true;
}

/* ---- arithmetic of elements: false where the result is not a number or a multiple of rows ---- */

typedef bool int2_fn(int_t a, int_t b, int_t *out);

static bool is_plain(int_t a, int64_t value) { return a.known && a.of == WEFT_COUNT_PLAIN && a.value == value; }

static bool int_mul(int_t a, int_t b, int_t *out) {
  if (is_plain(a, 0) || is_plain(b, 0)) return *out = plain(0), true;
  if (a.of != WEFT_COUNT_PLAIN && b.of != WEFT_COUNT_PLAIN) return false;
  int64_t product = 0;
  bool fits = a.known && b.known && !__builtin_mul_overflow(a.value, b.value, &product);
  *out = (int_t){product, fits, a.of != WEFT_COUNT_PLAIN ? a.of : b.of};
  return true;
}
static bool int_add_signed(int_t a, int_t b, int sign, int_t *out) {
  if (is_plain(b, 0)) return *out = a, true;
  if (sign > 0 && is_plain(a, 0)) return *out = b, true;
  if (a.of != b.of) return false;
  int64_t sum = 0;
  bool fits = a.known && b.known &&
              !(sign > 0 ? __builtin_add_overflow(a.value, b.value, &sum) : __builtin_sub_overflow(a.value, b.value, &sum));
  *out = (int_t){sum, fits, fits && sum == 0 ? WEFT_COUNT_PLAIN : a.of};
  return true;
}
static bool int_add(int_t a, int_t b, int_t *out) { return int_add_signed(a, b, 1, out); }
static bool int_sub(int_t a, int_t b, int_t *out) { return int_add_signed(a, b, -1, out); }
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
/* rows * 6 / 3 is exact; (rows * x) / y of unknown x and y is what a gradient writes, and exact there;
 * rows * x / 2 is not known to be. */
static bool int_div(int_t a, int_t b, int_t *out) {
  if (is_plain(b, 1)) return *out = a, true;
  if (is_plain(b, 0) || (b.known && b.value == 0)) return false;
  if (a.of == b.of) {
    bool known = a.known && b.known && b.value != -1;
    *out = (int_t){known ? floor_div(a.value, b.value) : 0, known, WEFT_COUNT_PLAIN};
    return true;
  }
  if (b.of != WEFT_COUNT_PLAIN) return is_plain(a, 0) ? (*out = plain(0), true) : false;
  if (a.known && b.known && a.value % b.value != 0) return false;
  if (b.known && !a.known) return false;
  *out = (int_t){a.known && b.known ? a.value / b.value : 0, a.known && b.known, a.of};
  return true;
}
static bool int_mod(int_t a, int_t b, int_t *out) {
  if (a.of != WEFT_COUNT_PLAIN || b.of != WEFT_COUNT_PLAIN || (b.known && b.value == 0)) return false;
  bool known = a.known && b.known && b.value != -1;
  *out = (int_t){known ? a.value - floor_div(a.value, b.value) * b.value : 0, known, WEFT_COUNT_PLAIN};
  return true;
}
/* A replica that takes part has a row at least. */
static bool int_max(int_t a, int_t b, int_t *out) {
  if (a.of != WEFT_COUNT_PLAIN && b.known && b.of == WEFT_COUNT_PLAIN && b.value <= 1) return *out = a, true;
  if (b.of != WEFT_COUNT_PLAIN && a.known && a.of == WEFT_COUNT_PLAIN && a.value <= 1) return *out = b, true;
  if (a.of != b.of) return false;
  bool known = a.known && b.known;
  *out = (int_t){known ? (a.value > b.value ? a.value : b.value) : 0, known, a.of};
  return true;
}
static bool int_min(int_t a, int_t b, int_t *out) {
  if (a.of != b.of) return false;
  bool known = a.known && b.known;
  *out = (int_t){known ? (a.value < b.value ? a.value : b.value) : 0, known, a.of};
  return true;
}

/* ---- the ops ---- */

static const ints_t *in_ints(const weft_spread_ctx_t *c, int i) {
  const ints_t *v = c->in[i].ints;
  return v != NULL && !v->is_set && v->columns == 0 ? v : NULL;
}
static bool give(weft_spread_ctx_t *c, int output, const ints_t *v) {
  if (v == NULL) return false;
  c->out[output] = weft_spread_ints_value(v);
  return true;
}

static bool map2(weft_spread_ctx_t *c, int2_fn *fn) {
  const ints_t *a = in_ints(c, 0), *b = in_ints(c, 1);
  if (a == NULL || b == NULL || (a->n != b->n && a->n != 1 && b->n != 1)) return false;
  int n = a->n == 1 ? b->n : a->n;
  ints_t *v = ints_new(c, n, a->is_scalar && b->is_scalar);
  for (int i = 0; v != NULL && i < n; i++) {
    if (!fn(a->items[a->n == 1 ? 0 : i], b->items[b->n == 1 ? 0 : i], &v->items[i])) return false;
  }
  return give(c, 0, v);
}

#define MAP2(name, fn) \
  static bool name(weft_spread_ctx_t *c) { return map2(c, fn); }
MAP2(compute_mul, int_mul)
MAP2(compute_add, int_add)
MAP2(compute_sub, int_sub)
MAP2(compute_div, int_div)
MAP2(compute_mod, int_mod)
MAP2(compute_max, int_max)
MAP2(compute_min, int_min)
#undef MAP2

static bool compute_neg(weft_spread_ctx_t *c) {
  const ints_t *a = in_ints(c, 0);
  ints_t *v = a == NULL ? NULL : ints_new(c, a->n, a->is_scalar);
  for (int i = 0; v != NULL && i < v->n; i++) {
    if (!int_sub(plain(0), a->items[i], &v->items[i])) return false;
  }
  return give(c, 0, v);
}

/* The same numbers as a vector or a scalar, if they are as many. */
static bool as_rank(weft_spread_ctx_t *c, int output, const ints_t *a, int rank) {
  if (a == NULL || rank < 0 || rank > 1 || (rank == 0 && a->n != 1)) return false;
  if (a->is_scalar == (rank == 0)) return give(c, output, a);
  ints_t *v = ints_new(c, a->n, rank == 0);
  if (v == NULL) return false;
  memcpy(v->items, a->items, (size_t)a->n * sizeof a->items[0]);
  return give(c, output, v);
}
static bool compute_as_shaped(weft_spread_ctx_t *c) {
  int rank = weft_spread_out_shape(c, 0)->rank;
  if (rank < 0 && weft_str_is(c->node->op->name, "Reshape") && c->in[1].ints != NULL) rank = c->in[1].ints->n;
  const ints_t *matrix = c->in[0].ints;
  if (matrix != NULL && matrix->columns > 0 && rank == 1 && weft_str_is(c->node->op->name, "Reshape")) {
    ints_t *flat = ints_new(c, matrix->n, false);
    if (flat != NULL) memcpy(flat->items, matrix->items, (size_t)matrix->n * sizeof flat->items[0]);
    return give(c, 0, flat);
  }
  return as_rank(c, 0, in_ints(c, 0), rank);
}
static bool compute_cast(weft_spread_ctx_t *c) {
  int to = c->node->output_types[0] % WEFT_REF;
  if (to != WEFT_I32 && to != WEFT_I64 && !weft_spread_has_fraction(to)) return false;
  const ints_t *a = in_ints(c, 0);
  return a != NULL && give(c, 0, a);
}

static bool compute_prod(weft_spread_ctx_t *c) {
  const ints_t *a = in_ints(c, 0);
  uint32_t in, maybe;
  if (a == NULL || !weft_spread_axes(c->in[1].ints, 1, &in, &maybe) || (!a->is_scalar && in != 1)) return false;
  int_t product = plain(1);
  for (int i = 0; i < a->n; i++) {
    if (!int_mul(product, a->items[i], &product)) return false;
  }
  ints_t *v = ints_new(c, 1, !weft_node_attr_bool(c->node, "keep_dims", false));
  if (v != NULL) v->items[0] = product;
  return give(c, 0, v);
}

static bool compute_strided_slice(weft_spread_ctx_t *c) {
  const weft_node_t *n = c->node;
  const ints_t *a = in_ints(c, 0);
  int64_t begin, end, stride;
  if (a == NULL || a->is_scalar || c->in[1].ints == NULL || c->in[1].ints->n != 1) return false;
  if (weft_node_attr_int(n, "new_axis_mask", 0) != 0 || weft_node_attr_int(n, "ellipsis_mask", 0) != 0) return false;
  bool is_single = (weft_node_attr_int(n, "shrink_axis_mask", 0) & 1) != 0;
  if (!weft_spread_int_at(c->in[3].ints, 0, &stride) || stride == 0) return false;
  if ((weft_node_attr_int(n, "begin_mask", 0) & 1) != 0 && !is_single) {
    begin = stride > 0 ? 0 : a->n - 1;
  } else if (!weft_spread_int_at(c->in[1].ints, 0, &begin)) {
    return false;
  } else if (begin < 0) {
    begin += a->n;
  }
  if (is_single) {
    ints_t *one = begin < 0 || begin >= a->n ? NULL : ints_new(c, 1, true);
    if (one != NULL) one->items[0] = a->items[begin];
    return give(c, 0, one);
  }
  if ((weft_node_attr_int(n, "end_mask", 0) & 1) != 0) {
    end = stride > 0 ? a->n : -1;
  } else if (!weft_spread_int_at(c->in[2].ints, 0, &end)) {
    return false;
  } else if (end < 0) {
    end += a->n;
  }
  int_t items[WEFT_SPREAD_INTS];
  int count = 0;
  if (stride > 0 && begin < 0) begin = 0;
  if (stride < 0 && begin >= a->n) begin = a->n - 1;
  for (int64_t i = begin; stride > 0 ? i < end && i < a->n : i > end && i >= 0; i += stride) items[count++] = a->items[i];
  ints_t *v = ints_new(c, count, false);
  if (v != NULL) memcpy(v->items, items, (size_t)count * sizeof items[0]);
  return give(c, 0, v);
}

static bool compute_slice(weft_spread_ctx_t *c) {
  const ints_t *a = in_ints(c, 0);
  int64_t begin, size;
  if (a == NULL || a->is_scalar || !weft_spread_int_at(c->in[1].ints, 0, &begin) ||
      !weft_spread_int_at(c->in[2].ints, 0, &size)) {
    return false;
  }
  if (size < 0) size = a->n - begin;
  if (begin < 0 || size < 0 || size > a->n - begin) return false;
  ints_t *v = ints_new(c, (int)size, false);
  if (v != NULL) memcpy(v->items, a->items + begin, (size_t)size * sizeof v->items[0]);
  return give(c, 0, v);
}

static bool compute_gather(weft_spread_ctx_t *c) {
  const ints_t *a = in_ints(c, 0), *indices = in_ints(c, 1);
  if (a == NULL || indices == NULL || a->is_scalar) return false;
  ints_t *v = ints_new(c, indices->n, indices->is_scalar);
  for (int i = 0; v != NULL && i < v->n; i++) {
    int64_t at;
    if (!weft_spread_int_at(indices, i, &at) || at < 0 || at >= a->n) return false;
    v->items[i] = a->items[at];
  }
  return give(c, 0, v);
}

/* Inputs [first, end) one behind the other. */
static bool join_inputs(weft_spread_ctx_t *c, int first, int end, bool scalars) {
  int_t items[WEFT_SPREAD_INTS];
  int count = 0;
  for (int i = first; i < end; i++) {
    const ints_t *a = in_ints(c, i);
    if (a == NULL || a->is_scalar != scalars || count + a->n > WEFT_SPREAD_INTS) return false;
    memcpy(items + count, a->items, (size_t)a->n * sizeof items[0]);
    count += a->n;
  }
  ints_t *v = ints_new(c, count, false);
  if (v != NULL) memcpy(v->items, items, (size_t)count * sizeof items[0]);
  return give(c, 0, v);
}
/* Numbers to a vector, or vectors to a matrix, as the gradient of Tile does. */
static bool compute_pack(weft_spread_ctx_t *c) {
  const ints_t *first = in_ints(c, 0);
  int n = c->node->num_inputs;
  if (first == NULL || first->is_scalar) return join_inputs(c, 0, n, true);
  if (weft_node_attr_int(c->node, "axis", 0) != 0 || first->n == 0 || n * first->n > WEFT_SPREAD_INTS) return false;
  ints_t *v = ints_new(c, n * first->n, false);
  for (int i = 0; v != NULL && i < n; i++) {
    const ints_t *row = in_ints(c, i);
    if (row == NULL || row->is_scalar || row->n != first->n) return false;
    memcpy(v->items + i * first->n, row->items, (size_t)row->n * sizeof v->items[0]);
  }
  if (v != NULL) v->columns = first->n;
  return give(c, 0, v);
}
static bool compute_transpose(weft_spread_ctx_t *c) {
  const ints_t *a = c->in[0].ints;
  int64_t first;
  if (a == NULL || a->columns == 0 || !weft_spread_int_at(in_ints(c, 1), 0, &first) || first != 1) return false;
  int rows = a->n / a->columns;
  ints_t *v = ints_new(c, a->n, false);
  for (int i = 0; v != NULL && i < a->n; i++) v->items[i % a->columns * rows + i / a->columns] = a->items[i];
  if (v != NULL) v->columns = rows;
  return give(c, 0, v);
}
static bool compute_concat_v2(weft_spread_ctx_t *c) { return join_inputs(c, 0, c->node->num_inputs - 1, false); }
static bool compute_concat(weft_spread_ctx_t *c) { return join_inputs(c, 1, c->node->num_inputs, false); }

static bool compute_unpack(weft_spread_ctx_t *c) {
  const ints_t *a = in_ints(c, 0);
  if (a == NULL || a->is_scalar || a->n != c->node->num_outputs) return false;
  for (int i = 0; i < a->n; i++) {
    ints_t *v = ints_new(c, 1, true);
    if (v == NULL) return false;
    v->items[0] = a->items[i];
    give(c, i, v);
  }
  return true;
}

static bool compute_range(weft_spread_ctx_t *c) {
  int64_t start, limit, delta;
  if (!weft_spread_int_at(in_ints(c, 0), 0, &start) || !weft_spread_int_at(in_ints(c, 1), 0, &limit) ||
      !weft_spread_int_at(in_ints(c, 2), 0, &delta) || delta == 0) {
    return false;
  }
  int_t items[WEFT_SPREAD_INTS];
  int count = 0;
  for (int64_t i = start; delta > 0 ? i < limit : i > limit; i += delta) {
    if (count == WEFT_SPREAD_INTS) return false;
    items[count++] = plain(i);
  }
  ints_t *v = ints_new(c, count, false);
  if (v != NULL) memcpy(v->items, items, (size_t)count * sizeof items[0]);
  return give(c, 0, v);
}

static bool compute_fill(weft_spread_ctx_t *c) {
  const ints_t *a = in_ints(c, 1);
  int64_t count = 1;
  if (a == NULL || !a->is_scalar || c->in[0].ints == NULL || c->in[0].ints->is_set || c->in[0].ints->n > 1) return false;
  if (c->in[0].ints->n == 1 && !weft_spread_int_at(c->in[0].ints, 0, &count)) return false;
  if (count < 0 || count > WEFT_SPREAD_INTS) return false;
  ints_t *v = ints_new(c, (int)count, c->in[0].ints->n == 0);
  for (int i = 0; v != NULL && i < v->n; i++) v->items[i] = a->items[0];
  return give(c, 0, v);
}
static bool compute_like(weft_spread_ctx_t *c, int64_t value) {
  const ints_t *a = in_ints(c, 0);
  ints_t *v = a == NULL ? NULL : ints_new(c, a->n, a->is_scalar);
  for (int i = 0; v != NULL && i < v->n; i++) v->items[i] = plain(value);
  return give(c, 0, v);
}
static bool compute_ones(weft_spread_ctx_t *c) { return compute_like(c, 1); }
static bool compute_zeros(weft_spread_ctx_t *c) { return compute_like(c, 0); }

static bool compute_stitch(weft_spread_ctx_t *c) {
  int parts = c->node->num_inputs / 2, count = 0;
  int_t items[WEFT_SPREAD_INTS];
  bool is_set[WEFT_SPREAD_INTS] = {false};
  for (int p = 0; p < parts; p++) {
    const ints_t *at = in_ints(c, p), *data = in_ints(c, parts + p);
    if (at == NULL || data == NULL || at->n != data->n) return false;
    for (int i = 0; i < at->n; i++) {
      int64_t k;
      if (!weft_spread_int_at(at, i, &k) || k < 0 || k >= WEFT_SPREAD_INTS) return false;
      items[k] = data->items[i];
      is_set[k] = true;
      if (k >= count) count = (int)k + 1;
    }
  }
  ints_t *v = ints_new(c, count, false);
  for (int i = 0; v != NULL && i < count; i++) {
    if (!is_set[i]) return false;
    v->items[i] = items[i];
  }
  return give(c, 0, v);
}

static bool compute_invert_permutation(weft_spread_ctx_t *c) {
  const ints_t *a = in_ints(c, 0);
  ints_t *v = a == NULL ? NULL : ints_new(c, a->n, false);
  for (int i = 0; v != NULL && i < v->n; i++) {
    int64_t k;
    if (!weft_spread_int_at(a, i, &k) || k < 0 || k >= v->n) return false;
    v->items[k] = plain(i);
  }
  return give(c, 0, v);
}

/* Numbers of `from` that are not in `without`, and where they were. */
static bool compute_difference(weft_spread_ctx_t *c) {
  const ints_t *from = in_ints(c, 0), *without = in_ints(c, 1);
  int_t values[WEFT_SPREAD_INTS], places[WEFT_SPREAD_INTS];
  int count = 0;
  if (from == NULL || without == NULL) return false;
  for (int i = 0; i < from->n; i++) {
    bool is_in = false;
    int64_t a, b;
    if (!weft_spread_int_at(from, i, &a)) return false;
    for (int j = 0; j < without->n; j++) {
      if (!weft_spread_int_at(without, j, &b)) return false;
      is_in |= a == b;
    }
    values[count] = from->items[i];
    places[count] = plain(i);
    count += !is_in;
  }
  ints_t *v = ints_new(c, count, false), *w = ints_new(c, count, false);
  if (v == NULL || w == NULL) return false;
  memcpy(v->items, values, (size_t)count * sizeof values[0]);
  memcpy(w->items, places, (size_t)count * sizeof places[0]);
  return give(c, 0, v) && give(c, 1, w);
}

/* Which axes each side was broadcast along. Axes where both count rows are broadcast on neither side; where a dim is
 * not known, the axis may be among them. A dim of 1 beside 1 counts on both sides, which sums nothing. */
static bool compute_broadcast_gradient(weft_spread_ctx_t *c) {
  const ints_t *side[2] = {in_ints(c, 0), in_ints(c, 1)};
  if (side[0] == NULL || side[1] == NULL) return false;
  bool is_own = c->in[0].s.kind == WEFT_SPREAD_SHAPE || c->in[1].s.kind == WEFT_SPREAD_SHAPE;
  int rank = side[0]->n > side[1]->n ? side[0]->n : side[1]->n;
  uint32_t in[2] = {0, 0}, maybe[2] = {0, 0};
  if (rank > WEFT_MAX_DIMS) return false;
  for (int axis = 0; axis < rank; axis++) {
    int_t dim[2];
    for (int k = 0; k < 2; k++) {
      int at = axis - (rank - side[k]->n);
      dim[k] = at < 0 ? plain(1) : side[k]->items[at];
    }
    uint32_t bit = (uint32_t)1 << axis;
    for (int k = 0; k < 2; k++) {
      int_t mine = dim[k], other = dim[1 - k];
      if (mine.of == WEFT_COUNT_ROWS && other.of != WEFT_COUNT_ROWS && !is_plain(other, 1)) return false; /* not as long */
      if (is_plain(mine, 1)) {
        if (!is_plain(other, 1)) in[k] |= bit;
        maybe[k] |= bit;
      } else if (!mine.known && mine.of == WEFT_COUNT_PLAIN && !is_plain(other, 1)) {
        maybe[k] |= bit;
      }
    }
  }
  for (int k = 0; k < 2; k++) {
    ints_t *v = ints_new(c, 0, false);
    if (v == NULL) return false;
    v->is_set = true;
    v->is_own = is_own;
    v->in = in[k];
    v->maybe = maybe[k];
    c->out[k] = weft_spread_value(weft_spread_same(0));
    c->out[k].ints = v;
  }
  return true;
}

static bool compute_broadcast_args(weft_spread_ctx_t *c) {
  const ints_t *a = in_ints(c, 0), *b = in_ints(c, 1);
  if (a == NULL || b == NULL) return false;
  int rank = a->n > b->n ? a->n : b->n;
  ints_t *v = ints_new(c, rank, false);
  for (int i = 0; v != NULL && i < rank; i++) {
    int at_a = i - (rank - a->n), at_b = i - (rank - b->n);
    int_t x = at_a < 0 ? plain(1) : a->items[at_a], y = at_b < 0 ? plain(1) : b->items[at_b];
    if (is_plain(x, 1) || int_eq(x, y)) {
      v->items[i] = y;
    } else if (is_plain(y, 1)) {
      v->items[i] = x;
    } else if (x.of == y.of) {
      v->items[i] = (int_t){x.known ? x.value : y.value, x.known || y.known, x.of};
    } else {
      return false;
    }
  }
  return give(c, 0, v);
}

static bool compute_concat_offset(weft_spread_ctx_t *c) {
  int64_t axis;
  if (!weft_spread_int_at(in_ints(c, 0), 0, &axis)) return false;
  int_t sum = plain(0);
  for (int i = 1; i < c->node->num_inputs; i++) {
    const ints_t *shape = in_ints(c, i);
    if (shape == NULL) return false;
    if (axis < 0) axis += shape->n;
    if (axis < 0 || axis >= shape->n) return false;
    ints_t *v = ints_new(c, shape->n, false);
    for (int k = 0; v != NULL && k < v->n; k++) v->items[k] = k == axis ? sum : plain(0);
    if (!give(c, i - 1, v) || !int_add(sum, shape->items[axis], &sum)) return false;
  }
  return true;
}

/* Shape, Size and Rank read no value: only how many rows there are. */
static bool compute_shape(weft_spread_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SPREAD_EACH || c->in[i].s.kind == WEFT_SPREAD_ONCE) return false;
    if (!give(c, i, weft_spread_ints_of_shape(c, weft_spread_in_shape(c, i), &c->in[i]))) return false;
  }
  return true;
}
static bool compute_size(weft_spread_ctx_t *c) {
  if (c->in[0].s.kind == WEFT_SPREAD_EACH || c->in[0].s.kind == WEFT_SPREAD_ONCE) return false;
  const ints_t *shape = weft_spread_ints_of_shape(c, weft_spread_in_shape(c, 0), &c->in[0]);
  int_t size = plain(1);
  for (int i = 0; shape != NULL && i < shape->n; i++) {
    if (!int_mul(size, shape->items[i], &size)) return false;
  }
  ints_t *v = shape == NULL ? NULL : ints_new(c, 1, true);
  if (v != NULL) v->items[0] = size;
  return give(c, 0, v);
}
static bool compute_rank(weft_spread_ctx_t *c) {
  int rank = weft_spread_in_shape(c, 0)->rank;
  if (c->in[0].s.kind == WEFT_SPREAD_ONCE || rank < 0) return false;
  ints_t *v = ints_new(c, 1, true);
  if (v != NULL) v->items[0] = plain(rank);
  return give(c, 0, v);
}

/* The shape of the variable behind a handle. */
static bool compute_variable_shape(weft_spread_ctx_t *c) {
  const weft_node_t *of = c->node->inputs[0].node;
  while ((of->op->flags & WEFT_OP_VARIABLE) == 0) {
    if (of->num_inputs == 0 || of->num_outputs != 1 || (of->op->flags & WEFT_OP_MERGE) != 0) return false;
    of = of->inputs[0].node;
  }
  const weft_attr_t *shape = weft_node_attr(of, "shape");
  weft_spread_value_t nothing = weft_spread_value(weft_spread_same(0));
  return shape != NULL && shape->kind == WEFT_ATTR_SHAPE && !shape->is_list &&
         give(c, 0, weft_spread_ints_of_shape(c, shape->shape, &nothing));
}

static const struct {
  const char *op;
  bool (*compute)(weft_spread_ctx_t *c);
  bool of_shape; /* reads no values */
} computers[] = {
    {"Add", compute_add, false},
    {"AddV2", compute_add, false},
    {"BroadcastArgs", compute_broadcast_args, false},
    {"BroadcastGradientArgs", compute_broadcast_gradient, false},
    {"Cast", compute_cast, false},
    {"Concat", compute_concat, false},
    {"ConcatOffset", compute_concat_offset, false},
    {"ConcatV2", compute_concat_v2, false},
    {"DynamicStitch", compute_stitch, false},
    {"ExpandDims", compute_as_shaped, false},
    {"Fill", compute_fill, false},
    {"FloorDiv", compute_div, false},
    {"FloorMod", compute_mod, false},
    {"Gather", compute_gather, false},
    {"GatherV2", compute_gather, false},
    {"InvertPermutation", compute_invert_permutation, false},
    {"ListDiff", compute_difference, false},
    {"Maximum", compute_max, false},
    {"Minimum", compute_min, false},
    {"Mul", compute_mul, false},
    {"Neg", compute_neg, false},
    {"OnesLike", compute_ones, false},
    {"Pack", compute_pack, false},
    {"ParallelDynamicStitch", compute_stitch, false},
    {"Prod", compute_prod, false},
    {"Range", compute_range, false},
    {"Rank", compute_rank, true},
    {"Reshape", compute_as_shaped, false},
    {"Shape", compute_shape, true},
    {"ShapeN", compute_shape, true},
    {"Size", compute_size, true},
    {"Slice", compute_slice, false},
    {"Squeeze", compute_as_shaped, false},
    {"StridedSlice", compute_strided_slice, false},
    {"Sub", compute_sub, false},
    {"Transpose", compute_transpose, false},
    {"Unpack", compute_unpack, false},
    {"VariableShape", compute_variable_shape, true},
    {"ZerosLike", compute_zeros, false},
};

bool weft_spread_ints_compute(weft_spread_ctx_t *c) {
  const weft_node_t *n = c->node;
  for (size_t k = 0; k < sizeof computers / sizeof computers[0]; k++) {
    if (!weft_str_is(n->op->name, computers[k].op)) continue;
    bool is_int = n->num_outputs > 0;
    for (int i = 0; i < n->num_inputs && !computers[k].of_shape; i++) {
      int dtype = n->input_types[i] % WEFT_REF;
      is_int = is_int && (dtype == WEFT_I32 || dtype == WEFT_I64) &&
               (c->in[i].s.kind == WEFT_SPREAD_SAME || c->in[i].s.kind == WEFT_SPREAD_SHAPE);
    }
    if (is_int && computers[k].compute(c)) return true;
    for (int o = 0; o < n->num_outputs; o++) c->out[o] = weft_spread_value(weft_spread_same(0));
    return false;
  }
  return false;
}
