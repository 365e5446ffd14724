/* graph/const_fold.c - evaluates the integer arithmetic that graphs do on shapes.
 *
 * Values are read and written as int64; a result that does not fit its type, or
 * any case not understood (masks of StridedSlice beyond begin, end and shrink,
 * higher ranks), is simply not known.
 */
#include "graph/const_fold.h"

enum { MAX_ELEMENTS = 1024 };

typedef struct fold {
  const weft_node_t *n;
  const weft_tensor_t *const *values;
  const weft_shape_t *shapes;
  int64_t out[MAX_ELEMENTS];
  int64_t count;
  weft_shape_t shape;
} fold_t;

static bool is_foldable_type(int dtype) { return dtype == WEFT_I32 || dtype == WEFT_I64; }

static int64_t at(const weft_tensor_t *t, int64_t i) {
  return t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

static bool push(fold_t *f, int64_t value) {
  if (f->count >= MAX_ELEMENTS) return false;
  f->out[f->count++] = value;
  return true;
}

static bool scalar(const fold_t *f, int input, int64_t *out) {
  if (input >= f->n->num_inputs || f->values[input]->count != 1) return false;
  *out = at(f->values[input], 0);
  return true;
}

/* ---- from shapes alone ---- */

static bool fold_shape(fold_t *f) {
  const weft_shape_t *s = &f->shapes[0];
  for (int i = 0; i < s->rank; i++) {
    if (s->dims[i] < 0 || !push(f, s->dims[i])) return false;
  }
  f->shape = weft_shape_vector(s->rank);
  return s->rank >= 0;
}

static bool fold_size(fold_t *f) {
  int64_t count = weft_shape_is_known(&f->shapes[0]) ? weft_shape_count(&f->shapes[0]) : -1;
  return count >= 0 && push(f, count);
}

static bool fold_rank(fold_t *f) { return f->shapes[0].rank >= 0 && push(f, f->shapes[0].rank); }

/* ---- from values ---- */

static bool fold_copy(fold_t *f) {
  for (int64_t i = 0; i < f->values[0]->count; i++) {
    if (!push(f, at(f->values[0], i))) return false;
  }
  f->shape = f->values[0]->shape;
  return true;
}

static bool fold_pack(fold_t *f) {
  for (int i = 0; i < f->n->num_inputs; i++) {
    if (f->values[i]->shape.rank != 0 || !push(f, at(f->values[i], 0))) return false;
  }
  f->shape = weft_shape_vector(f->count);
  return true;
}

static bool fold_concat(fold_t *f) {
  int64_t axis = 0;
  int last = f->n->num_inputs - 1;
  if (!scalar(f, last, &axis) || (axis != 0 && axis != -1)) return false;
  for (int i = 0; i < last; i++) {
    if (f->values[i]->shape.rank != 1) return false;
    for (int64_t k = 0; k < f->values[i]->count; k++) {
      if (!push(f, at(f->values[i], k))) return false;
    }
  }
  f->shape = weft_shape_vector(f->count);
  return true;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

/* A slice of a vector by one begin, end and stride. */
static bool fold_strided_slice(fold_t *f) {
  int64_t begin, end, stride, n = f->values[0]->count;
  if (f->values[0]->shape.rank != 1 || !scalar(f, 1, &begin) || !scalar(f, 2, &end) || !scalar(f, 3, &stride)) {
    return false;
  }
  if (stride == 0 || weft_node_attr_int(f->n, "ellipsis_mask", 0) != 0 || weft_node_attr_int(f->n, "new_axis_mask", 0) != 0) {
    return false;
  }
  if (begin < 0) begin += n;
  if ((weft_node_attr_int(f->n, "shrink_axis_mask", 0) & 1) != 0) {
    return begin >= 0 && begin < n && push(f, at(f->values[0], begin));
  }
  if (end < 0) end += n;
  int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? n : n - 1;
  begin = (weft_node_attr_int(f->n, "begin_mask", 0) & 1) != 0 ? (stride > 0 ? low : high) : clamp(begin, low, high);
  end = (weft_node_attr_int(f->n, "end_mask", 0) & 1) != 0 ? (stride > 0 ? high : low) : clamp(end, low, high);
  if (stride < -MAX_ELEMENTS || stride > MAX_ELEMENTS) return false;
  for (int64_t i = begin; stride > 0 ? i < end : i > end; i += stride) {
    if (!push(f, at(f->values[0], i))) return false;
  }
  f->shape = weft_shape_vector(f->count);
  return true;
}

static bool floor_div(int64_t a, int64_t b, int64_t *out) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  *out = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  return true;
}

static bool apply(char op, int64_t a, int64_t b, int64_t *out) {
  switch (op) {
    case '+': return !__builtin_add_overflow(a, b, out);
    case '-': return !__builtin_sub_overflow(a, b, out);
    case '*': return !__builtin_mul_overflow(a, b, out);
    case '/': return floor_div(a, b, out);
    case '<': *out = a < b ? a : b; return true;
    default: *out = a > b ? a : b; return true;
  }
}

/* Equal shapes, or one of the two a scalar. */
static bool fold_binary(fold_t *f, char op) {
  const weft_tensor_t *a = f->values[0], *b = f->values[1];
  bool is_plain = weft_shape_eq(&a->shape, &b->shape);
  if (!is_plain && a->shape.rank != 0 && b->shape.rank != 0) return false;
  const weft_tensor_t *large = a->shape.rank != 0 ? a : b;
  for (int64_t i = 0; i < large->count; i++) {
    int64_t value = 0;
    if (!apply(op, at(a, a->shape.rank == 0 ? 0 : i), at(b, b->shape.rank == 0 ? 0 : i), &value)) return false;
    if (!push(f, value)) return false;
  }
  f->shape = large->shape;
  return true;
}

static bool fold_add(fold_t *f) { return fold_binary(f, '+'); }
static bool fold_sub(fold_t *f) { return fold_binary(f, '-'); }
static bool fold_mul(fold_t *f) { return fold_binary(f, '*'); }
static bool fold_div(fold_t *f) { return fold_binary(f, '/'); }
static bool fold_min(fold_t *f) { return fold_binary(f, '<'); }
static bool fold_max(fold_t *f) { return fold_binary(f, '>'); }

/* All of a vector. */
static bool fold_prod(fold_t *f) {
  int64_t axis = 0, product = 1;
  if (f->values[0]->shape.rank != 1 || !scalar(f, 1, &axis) || (axis != 0 && axis != -1)) return false;
  for (int64_t i = 0; i < f->values[0]->count; i++) {
    if (!apply('*', product, at(f->values[0], i), &product)) return false;
  }
  if (weft_node_attr_bool(f->n, "keep_dims", false)) f->shape = weft_shape_vector(1);
  return push(f, product);
}

static bool fold_range(fold_t *f) {
  int64_t start, limit, delta;
  if (!scalar(f, 0, &start) || !scalar(f, 1, &limit) || !scalar(f, 2, &delta) || delta == 0) return false;
  for (int64_t i = start; delta > 0 ? i < limit : i > limit;) {
    if (!push(f, i) || __builtin_add_overflow(i, delta, &i)) return false;
  }
  f->shape = weft_shape_vector(f->count);
  return true;
}

static bool fold_fill(fold_t *f) {
  int64_t value, count = 0;
  if (f->values[0]->shape.rank != 1 || f->values[0]->count > 1 || !scalar(f, 1, &value)) return false;
  count = f->values[0]->count == 0 ? 1 : at(f->values[0], 0);
  if (f->values[0]->count == 1) f->shape = weft_shape_vector(count);
  for (int64_t i = 0; i < count; i++) {
    if (!push(f, value)) return false;
  }
  return count >= 0;
}

/* Rows of a vector by an index of rank 0 or 1. */
static bool fold_gather(fold_t *f) {
  int64_t axis = 0;
  if (f->values[0]->shape.rank != 1 || f->values[1]->shape.rank > 1 || (f->n->num_inputs > 2 && !scalar(f, 2, &axis))) {
    return false;
  }
  for (int64_t i = 0; i < f->values[1]->count; i++) {
    int64_t k = at(f->values[1], i);
    if (k < 0 || k >= f->values[0]->count || !push(f, at(f->values[0], k))) return false;
  }
  f->shape = f->values[1]->shape;
  return axis == 0;
}

static bool fold_expand_dims(fold_t *f) {
  return f->values[0]->shape.rank == 0 && fold_copy(f) && (f->shape = weft_shape_vector(1), true);
}

/* ---- the table ---- */

static const struct {
  const char *op;
  bool (*fold)(fold_t *f);
  bool needs_values;
} folds[] = {
    {"Add", fold_add, true},           {"AddV2", fold_add, true},    {"Cast", fold_copy, true},
    {"ConcatV2", fold_concat, true},   {"ExpandDims", fold_expand_dims, true},
    {"Fill", fold_fill, true},         {"FloorDiv", fold_div, true}, {"GatherV2", fold_gather, true},
    {"Identity", fold_copy, true},     {"Maximum", fold_max, true},  {"Minimum", fold_min, true},
    {"Mul", fold_mul, true},           {"Pack", fold_pack, true},    {"Prod", fold_prod, true},
    {"Range", fold_range, true},       {"Rank", fold_rank, false},   {"Shape", fold_shape, false},
    {"Size", fold_size, false},        {"Snapshot", fold_copy, true}, {"StopGradient", fold_copy, true},
    {"StridedSlice", fold_strided_slice, true}, {"Sub", fold_sub, true},
};
enum { NUM_FOLDS = sizeof folds / sizeof folds[0] };

bool weft_const_fold_may(const weft_node_t *n) {
  return n->num_outputs == 1 && n->num_inputs > 0 && is_foldable_type(n->output_types[0]) &&
         (n->flags & (WEFT_OP_STATEFUL | WEFT_OP_MERGE | WEFT_OP_SWITCH)) == 0;
}

static bool values_are_known(const fold_t *f) {
  for (int i = 0; i < f->n->num_inputs; i++) {
    const weft_tensor_t *t = f->values[i];
    if (t == NULL || !is_foldable_type(t->dtype) || t->count > MAX_ELEMENTS) return false;
  }
  return true;
}

/* True if all fits; *s tells of missing memory. */
static weft_tensor_t *make_tensor(const fold_t *f, weft_status_t **s) {
  weft_tensor_t *t = NULL;
  bool is_i32 = f->n->output_types[0] == WEFT_I32;
  for (int64_t i = 0; i < f->count && is_i32; i++) {
    if (f->out[i] < INT32_MIN || f->out[i] > INT32_MAX) return NULL;
  }
  *s = weft_tensor_new(is_i32 ? WEFT_I32 : WEFT_I64, &f->shape, NULL, &t);
  for (int64_t i = 0; *s == NULL && i < f->count; i++) {
    if (is_i32) {
      ((int32_t *)t->data)[i] = (int32_t)f->out[i];
    } else {
      ((int64_t *)t->data)[i] = f->out[i];
    }
  }
  return t;
}

weft_status_t *weft_const_fold(const weft_node_t *n, const weft_tensor_t *const *values, const weft_shape_t *shapes,
                               weft_tensor_t **out) {
  fold_t f;
  *out = NULL;
  for (int i = 0; i < NUM_FOLDS; i++) {
    if (!weft_str_is(n->op->name, folds[i].op)) continue;
    f.n = n;
    f.values = values;
    f.shapes = shapes;
    f.count = 0;
    f.shape = WEFT_SCALAR;
    if (folds[i].needs_values && !values_are_known(&f)) return NULL;
    if (!folds[i].fold(&f)) return NULL;
    weft_status_t *s = NULL;
    *out = make_tensor(&f, &s);
    return s;
  }
  return NULL;
}
