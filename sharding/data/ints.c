/* sharding/data/ints.c - computes with shapes whose first dimension is a multiple of the batch.
 *
 * A gradient of TensorFlow is full of small integer vectors: shapes, axes to sum
 * over, numbers of elements. Here they are followed through the ops that make
 * them, an element being a number, or a multiple of the number of rows, or unknown.
 * What does not stay a multiple (rows + 1, rows / 2) is not followed: the node is
 * then given the true numbers by communication.
 */
#include "sharding/data/ints.h"

typedef weft_data_ints_t ints_t;
typedef weft_data_int_t int_t;

ints_t *weft_ints_new(const weft_data_ctx_t *c, int n, bool is_scalar) {
  if (n < 0 || n > WEFT_DATA_INTS) return NULL;
  ints_t *v = weft_data_alloc(c, sizeof *v + (size_t)n * sizeof v->items[0]);
  if (v == NULL) return NULL;
  v->n = n;
  v->is_scalar = is_scalar;
  return v;
}

int_t weft_ints_plain(int64_t value) { return (int_t){value, true, WEFT_COUNT_PLAIN}; }

bool weft_ints_int_eq(int_t a, int_t b) {
  return a.of == b.of && a.known == b.known && (!a.known || a.value == b.value);
}

bool weft_data_ints_eq(const ints_t *a, const ints_t *b) {
  if (a == b) return true;
  if (a->n != b->n || a->columns != b->columns || a->is_scalar != b->is_scalar || a->is_set != b->is_set ||
      a->pick != b->pick || a->in != b->in || a->maybe != b->maybe || a->ones != b->ones) {
    return false;
  }
  for (int i = 0; i < a->n; i++) {
    if (!weft_ints_int_eq(a->items[i], b->items[i])) return false;
  }
  return true;
}

const ints_t *weft_data_ints_join(const weft_data_ctx_t *c, const ints_t *a, const ints_t *b) {
  if (a == NULL || b == NULL || a->n != b->n || a->columns != b->columns || a->is_scalar != b->is_scalar ||
      a->pick != b->pick)
    return NULL;
  if (weft_data_ints_eq(a, b)) return a;
  if (a->is_set || b->is_set) return NULL;
  ints_t *v = weft_ints_new(c, a->n, a->is_scalar);
  if (v == NULL) return NULL;
  v->columns = a->columns;
  for (int i = 0; i < a->n; i++) {
    if (a->items[i].of != b->items[i].of) return NULL;
    v->items[i] =
        weft_ints_int_eq(a->items[i], b->items[i]) ? a->items[i] : (int_t){0, false, a->items[i].of};
  }
  return v;
}

const ints_t *weft_data_ints_of_tensor(const weft_data_ctx_t *c, const weft_tensor_t *t) {
  if (t == NULL || t->shape.rank > 1 || t->count > WEFT_DATA_INTS) return NULL;
  if (t->dtype != WEFT_I32 && t->dtype != WEFT_I64) return NULL;
  ints_t *v = weft_ints_new(c, (int)t->count, t->shape.rank == 0);
  for (int i = 0; v != NULL && i < v->n; i++) {
    v->items[i] =
        weft_ints_plain(t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i]);
  }
  return v;
}

/* Where the batch lies in v, -1: nowhere; how its dimension counts rows. */
static int batch_axis(const weft_data_value_t *v, weft_count_of_t *of) {
  *of = v->s.kind == WEFT_SHARDING_SHARD ? WEFT_COUNT_ROWS : WEFT_COUNT_ALL;
  return v->s.kind == WEFT_SHARDING_SHARD ? v->s.dim : v->whole;
}

const ints_t *weft_data_ints_of_shape(const weft_data_ctx_t *c, const weft_shape_t *shape,
                                      const weft_data_value_t *v) {
  weft_count_of_t of;
  int axis = batch_axis(v, &of);
  if (v->ints != NULL && !v->ints->is_set &&
      v->ints->columns == 0) { /* a small vector or scalar that we know */
    ints_t *known = weft_ints_new(c, v->ints->is_scalar ? 0 : 1, false);
    if (known != NULL && !v->ints->is_scalar) known->items[0] = weft_ints_plain(v->ints->n);
    return known;
  }
  if (shape->rank < 0) return NULL;
  ints_t *out = weft_ints_new(c, shape->rank, false);
  for (int i = 0; out != NULL && i < out->n; i++) {
    out->items[i] = (int_t){shape->dims[i], shape->dims[i] >= 0, WEFT_COUNT_PLAIN};
    if (i == axis) out->items[i] = (int_t){v->factor, v->factor > 0, of};
  }
  return out;
}

weft_data_value_t weft_data_ints_value(const ints_t *ints) {
  weft_data_value_t v = weft_data_value(weft_sharding_replicate(0));
  v.ints = ints;
  v.rank = ints == NULL ? -1 : ints->is_scalar ? 0 : ints->columns > 0 ? 2 : 1;
  for (int i = 0; ints != NULL && i < ints->n; i++) {
    if (ints->items[i].of == WEFT_COUNT_ROWS) v.s.rows |= (uint64_t)1 << i;
  }
  if (v.s.rows != 0) {
    v.s.kind = WEFT_SHARDING_COUNTS;
    v.s.count = ints->is_scalar ? -1 : ints->n;
  }
  return v;
}

bool weft_data_int_at(const ints_t *ints, int i, int64_t *out) {
  if (ints == NULL || ints->is_set || ints->columns > 0 || i < 0 || i >= ints->n) return false;
  *out = ints->items[i].value;
  return ints->items[i].known && ints->items[i].of == WEFT_COUNT_PLAIN;
}

bool weft_data_axes(const ints_t *ints, int rank, uint32_t *in, uint32_t *maybe) {
  *in = *maybe = 0;
  if (ints == NULL) return false;
  if (rank < 0) rank = WEFT_MAX_DIMS; /* then axes from the front are known, those from the back are not */
  bool has_rank = rank < WEFT_MAX_DIMS;
  if (ints->is_set) {
    *in = ints->in;
    *maybe = ints->maybe | ints->ones;
    return true;
  }
  for (int i = 0; i < ints->n; i++) {
    int64_t axis;
    if (!weft_data_int_at(ints, i, &axis)) return false;
    if (axis < 0 && has_rank) axis += rank;
    if (axis < 0 || axis >= rank || rank > WEFT_MAX_DIMS) return false;
    *in |= (uint32_t)1 << axis;
  }
  *maybe = *in;
  return true;
}

/* ---- arithmetic of elements: false where the result is not a number or a multiple of rows ---- */

bool weft_ints_is_plain(int_t a, int64_t value) {
  return a.known && a.of == WEFT_COUNT_PLAIN && a.value == value;
}

bool weft_ints_int_mul(int_t a, int_t b, int_t *out) {
  if (weft_ints_is_plain(a, 0) || weft_ints_is_plain(b, 0)) return *out = weft_ints_plain(0), true;
  if (a.of != WEFT_COUNT_PLAIN && b.of != WEFT_COUNT_PLAIN) return false;
  int64_t product = 0;
  bool fits = a.known && b.known && !__builtin_mul_overflow(a.value, b.value, &product);
  *out = (int_t){product, fits, a.of != WEFT_COUNT_PLAIN ? a.of : b.of};
  return true;
}

static bool int_add_signed(int_t a, int_t b, int sign, int_t *out) {
  if (weft_ints_is_plain(b, 0)) return *out = a, true;
  if (sign > 0 && weft_ints_is_plain(a, 0)) return *out = b, true;
  if (a.of != b.of) return false;
  int64_t sum = 0;
  bool fits = a.known && b.known &&
              !(sign > 0 ? __builtin_add_overflow(a.value, b.value, &sum)
                         : __builtin_sub_overflow(a.value, b.value, &sum));
  *out = (int_t){sum, fits, fits && sum == 0 ? WEFT_COUNT_PLAIN : a.of};
  return true;
}

bool weft_ints_int_add(int_t a, int_t b, int_t *out) { return int_add_signed(a, b, 1, out); }
bool weft_ints_int_sub(int_t a, int_t b, int_t *out) { return int_add_signed(a, b, -1, out); }
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
/* rows * 6 / 3 is exact; (rows * x) / y of unknown x and y is what a gradient writes, and exact there;
 * rows * x / 2 is not known to be. */
bool weft_ints_int_div(int_t a, int_t b, int_t *out) {
  if (weft_ints_is_plain(b, 1)) return *out = a, true;
  if (weft_ints_is_plain(b, 0) || (b.known && b.value == 0)) return false;
  if (a.of == b.of) {
    bool known = a.known && b.known && b.value != -1;
    *out = (int_t){known ? floor_div(a.value, b.value) : 0, known, WEFT_COUNT_PLAIN};
    return true;
  }
  if (b.of != WEFT_COUNT_PLAIN) return weft_ints_is_plain(a, 0) ? (*out = weft_ints_plain(0), true) : false;
  if (a.known && b.known && a.value % b.value != 0) return false;
  if (b.known && !a.known) return false;
  *out = (int_t){a.known && b.known ? a.value / b.value : 0, a.known && b.known, a.of};
  return true;
}

bool weft_ints_int_mod(int_t a, int_t b, int_t *out) {
  if (a.of != WEFT_COUNT_PLAIN || b.of != WEFT_COUNT_PLAIN || (b.known && b.value == 0)) return false;
  bool known = a.known && b.known && b.value != -1;
  *out = (int_t){known ? a.value - floor_div(a.value, b.value) * b.value : 0, known, WEFT_COUNT_PLAIN};
  return true;
}
/* A replica with rows has one at least; for others see weft_ints_max. */
bool weft_ints_int_max(int_t a, int_t b, int_t *out) {
  if (a.of != WEFT_COUNT_PLAIN && b.known && b.of == WEFT_COUNT_PLAIN && b.value <= 1) return *out = a, true;
  if (b.of != WEFT_COUNT_PLAIN && a.known && a.of == WEFT_COUNT_PLAIN && a.value <= 1) return *out = b, true;
  if (a.of != b.of) return false;
  bool known = a.known && b.known;
  *out = (int_t){known ? (a.value > b.value ? a.value : b.value) : 0, known, a.of};
  return true;
}

bool weft_ints_int_min(int_t a, int_t b, int_t *out) {
  if (a.of != b.of) return false;
  bool known = a.known && b.known;
  *out = (int_t){known ? (a.value < b.value ? a.value : b.value) : 0, known, a.of};
  return true;
}

const weft_data_ints_t *weft_ints_in(const weft_data_ctx_t *c, int i) {
  const weft_data_ints_t *v = c->in[i].ints;
  return v != NULL && !v->is_set && v->columns == 0 ? v : NULL;
}

bool weft_ints_give(weft_data_ctx_t *c, int output, const weft_data_ints_t *v) {
  if (v == NULL) return false;
  c->out[output] = weft_data_ints_value(v);
  return true;
}
