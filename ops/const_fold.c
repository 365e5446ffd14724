/* ops/const_fold.c - evaluates the integer arithmetic that graphs do on shapes.
 *
 * Values are read and written as int64, an element that is not known as UNKNOWN:
 * the shape of a value with some unknown dimensions still tells the others, and
 * so does what is gathered, packed and multiplied of them. A result that does not
 * fit its type, or any case not understood (masks of StridedSlice beyond begin,
 * end and shrink, higher ranks), is simply not known.
 */
#include "ops/const_fold.h"

#include "ops/infer.h"

enum { MAX_ELEMENTS = 1024 };
#define UNKNOWN INT64_MIN

struct weft_fold {
  const weft_shape_ctx_t *c;
  int64_t out[MAX_ELEMENTS];
  int64_t count;
  weft_shape_t shape;
  bool is_partial; /* some element is not known */
};

static bool is_foldable_type(int dtype) { return dtype == WEFT_I32 || dtype == WEFT_I64; }

/* Is the whole value of an input known? */
static bool is_known(const weft_fold_t *f, int input) {
  const weft_tensor_t *t = f->c->values[input];
  return t != NULL && is_foldable_type(t->dtype) && t->count <= MAX_ELEMENTS;
}

/* How many elements an input has, and in how many dimensions: 0 or 1, or any where the value is known. False:
 * not known. */
static bool elements_of(const weft_fold_t *f, int input, int *rank, int64_t *count) {
  if (input >= f->c->num_inputs) return false;
  if (is_known(f, input)) {
    *rank = f->c->values[input]->shape.rank;
    *count = f->c->values[input]->count;
    return true;
  }
  const weft_shape_t *s = &f->c->inputs[input];
  if (f->c->values[input] != NULL || !is_foldable_type(weft_dtype_base(f->c->input_types[input])))
    return false;
  *rank = s->rank;
  *count = s->rank == 0 ? 1 : s->dims[0];
  if (f->c->partials[input].rank >= 0) {
    *rank = 1;
    *count = f->c->partials[input].rank;
  }
  return (*rank == 0 || *rank == 1) && *count >= 0 && *count <= WEFT_MAX_DIMS;
}

static int64_t at(const weft_fold_t *f, int input, int64_t i) {
  if (is_known(f, input)) {
    const weft_tensor_t *t = f->c->values[input];
    return t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
  }
  const weft_shape_t *p = &f->c->partials[input];
  return i < p->rank && p->dims[i] >= 0 ? p->dims[i] : UNKNOWN;
}

static bool push(weft_fold_t *f, int64_t value) {
  if (f->count >= MAX_ELEMENTS) return false;
  f->is_partial |= value == UNKNOWN;
  f->out[f->count++] = value;
  return true;
}

static bool scalar(const weft_fold_t *f, int input, int64_t *out) {
  if (input >= f->c->num_inputs || !is_known(f, input) || f->c->values[input]->count != 1) return false;
  *out = at(f, input, 0);
  return true;
}

/* ---- from shapes alone ---- */

bool weft_fold_shape(weft_fold_t *f) {
  const weft_shape_t *s = &f->c->inputs[0];
  for (int i = 0; i < s->rank; i++) {
    if (!push(f, s->dims[i] < 0 ? UNKNOWN : s->dims[i])) return false;
  }
  f->shape = weft_shape_vector(s->rank);
  return s->rank >= 0;
}

bool weft_fold_size(weft_fold_t *f) {
  int64_t count = weft_shape_is_known(&f->c->inputs[0]) ? weft_shape_count(&f->c->inputs[0]) : -1;
  return count >= 0 && push(f, count);
}

bool weft_fold_rank(weft_fold_t *f) { return f->c->inputs[0].rank >= 0 && push(f, f->c->inputs[0].rank); }

/* ---- from values ---- */

bool weft_fold_copy(weft_fold_t *f) {
  int rank;
  int64_t count;
  if (!elements_of(f, 0, &rank, &count)) return false;
  for (int64_t i = 0; i < count; i++) {
    if (!push(f, at(f, 0, i))) return false;
  }
  f->shape = is_known(f, 0) ? f->c->values[0]->shape : rank == 0 ? WEFT_SCALAR : weft_shape_vector(count);
  return true;
}

bool weft_fold_pack(weft_fold_t *f) {
  for (int i = 0; i < f->c->num_inputs; i++) {
    int rank;
    int64_t count;
    if (!elements_of(f, i, &rank, &count) || rank != 0 || !push(f, at(f, i, 0))) return false;
  }
  f->shape = weft_shape_vector(f->count);
  return true;
}

bool weft_fold_concat(weft_fold_t *f) {
  int64_t axis = 0, count = 0;
  int last = f->c->num_inputs - 1, rank;
  if (!scalar(f, last, &axis) || (axis != 0 && axis != -1)) return false;
  for (int i = 0; i < last; i++) {
    if (!elements_of(f, i, &rank, &count) || rank != 1) return false;
    for (int64_t k = 0; k < count; k++) {
      if (!push(f, at(f, i, k))) return false;
    }
  }
  f->shape = weft_shape_vector(f->count);
  return true;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

/* A slice of a vector by one begin, end and stride. */
bool weft_fold_strided_slice(weft_fold_t *f) {
  int64_t begin, end, stride, n;
  int rank;
  if (!elements_of(f, 0, &rank, &n) || rank != 1) return false;
  if (!scalar(f, 1, &begin) || !scalar(f, 2, &end) || !scalar(f, 3, &stride)) return false;
  if (stride == 0 || weft_infer_int(f->c, "ellipsis_mask") != 0 ||
      weft_infer_int(f->c, "new_axis_mask") != 0) {
    return false;
  }
  if (begin < 0) begin += n;
  if ((weft_infer_int(f->c, "shrink_axis_mask") & 1) != 0) {
    return begin >= 0 && begin < n && push(f, at(f, 0, begin));
  }
  if (end < 0) end += n;
  int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? n : n - 1;
  begin = (weft_infer_int(f->c, "begin_mask") & 1) != 0 ? (stride > 0 ? low : high) : clamp(begin, low, high);
  end = (weft_infer_int(f->c, "end_mask") & 1) != 0 ? (stride > 0 ? high : low) : clamp(end, low, high);
  if (stride < -MAX_ELEMENTS || stride > MAX_ELEMENTS) return false;
  for (int64_t i = begin; stride > 0 ? i < end : i > end; i += stride) {
    if (!push(f, at(f, 0, i))) return false;
  }
  f->shape = weft_shape_vector(f->count);
  return true;
}

/* A part of a vector from a place on, with a length (-1: all that is left). */
bool weft_fold_slice(weft_fold_t *f) {
  int64_t begin, size, n;
  int rank;
  if (!elements_of(f, 0, &rank, &n) || rank != 1 || !scalar(f, 1, &begin) || !scalar(f, 2, &size))
    return false;
  if (size == -1) size = n - begin;
  if (begin < 0 || size < 0 || begin > n || size > n - begin) return false;
  for (int64_t i = begin; i < begin + size; i++) {
    if (!push(f, at(f, 0, i))) return false;
  }
  f->shape = weft_shape_vector(size);
  return true;
}

static bool floor_div(int64_t a, int64_t b, int64_t *out) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  *out = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  return true;
}

static bool apply(char op, int64_t a, int64_t b, int64_t *out) {
  *out = UNKNOWN;
  if (a == UNKNOWN || b == UNKNOWN) return true;
  switch (op) {
    case '+': return !__builtin_add_overflow(a, b, out);
    case '-': return !__builtin_sub_overflow(a, b, out);
    case '*': return !__builtin_mul_overflow(a, b, out);
    case '/': return floor_div(a, b, out);
    case '<': *out = a < b ? a : b; return true;
    default: *out = a > b ? a : b; return true;
  }
}

/* Scalars and vectors, broadcast; or equal shapes. */
static bool fold_binary(weft_fold_t *f, char op) {
  int rank_a, rank_b;
  int64_t num_a, num_b;
  if (!elements_of(f, 0, &rank_a, &num_a) || !elements_of(f, 1, &rank_b, &num_b)) return false;
  bool is_large = rank_a > 1 || rank_b > 1; /* the values are known then */
  if (is_large && (rank_a != rank_b || !weft_shape_eq(&f->c->values[0]->shape, &f->c->values[1]->shape)))
    return false;
  if (num_a != num_b && num_a != 1 && num_b != 1) return false;
  int64_t count = num_a == 1 ? num_b : num_a;
  for (int64_t i = 0; i < count; i++) {
    int64_t value = 0;
    if (!apply(op, at(f, 0, num_a == 1 ? 0 : i), at(f, 1, num_b == 1 ? 0 : i), &value) || !push(f, value))
      return false;
  }
  f->shape = is_large ? f->c->values[0]->shape : rank_a + rank_b > 0 ? weft_shape_vector(count) : WEFT_SCALAR;
  return true;
}

bool weft_fold_add(weft_fold_t *f) { return fold_binary(f, '+'); }
bool weft_fold_sub(weft_fold_t *f) { return fold_binary(f, '-'); }
bool weft_fold_mul(weft_fold_t *f) { return fold_binary(f, '*'); }
bool weft_fold_div(weft_fold_t *f) { return fold_binary(f, '/'); }
bool weft_fold_min(weft_fold_t *f) { return fold_binary(f, '<'); }
bool weft_fold_max(weft_fold_t *f) { return fold_binary(f, '>'); }

/* All of a vector. */
bool weft_fold_prod(weft_fold_t *f) {
  int64_t axis = 0, product = 1, count;
  int rank;
  if (!elements_of(f, 0, &rank, &count) || rank != 1) return false;
  if (!scalar(f, 1, &axis) || (axis != 0 && axis != -1)) return false;
  for (int64_t i = 0; i < count; i++) {
    if (!apply('*', product, at(f, 0, i), &product)) return false;
  }
  if (weft_infer_bool(f->c, "keep_dims")) f->shape = weft_shape_vector(1);
  return push(f, product);
}

bool weft_fold_range(weft_fold_t *f) {
  int64_t start, limit, delta;
  if (!scalar(f, 0, &start) || !scalar(f, 1, &limit) || !scalar(f, 2, &delta) || delta == 0) return false;
  for (int64_t i = start; delta > 0 ? i < limit : i > limit;) {
    if (!push(f, i) || __builtin_add_overflow(i, delta, &i)) return false;
  }
  f->shape = weft_shape_vector(f->count);
  return true;
}

bool weft_fold_fill(weft_fold_t *f) {
  int64_t value, count = 0;
  if (!is_known(f, 0) || f->c->values[0]->shape.rank != 1 || f->c->values[0]->count > 1 ||
      !scalar(f, 1, &value))
    return false;
  count = f->c->values[0]->count == 0 ? 1 : at(f, 0, 0);
  if (f->c->values[0]->count == 1) f->shape = weft_shape_vector(count);
  for (int64_t i = 0; i < count; i++) {
    if (!push(f, value)) return false;
  }
  return count >= 0;
}

/* Rows of a vector by an index of rank 0 or 1. */
bool weft_fold_gather(weft_fold_t *f) {
  int64_t axis = 0, count;
  int rank;
  if (!elements_of(f, 0, &rank, &count) || rank != 1 || !is_known(f, 1) || f->c->values[1]->shape.rank > 1)
    return false;
  if (f->c->num_inputs > 2 && !scalar(f, 2, &axis)) return false;
  for (int64_t i = 0; i < f->c->values[1]->count; i++) {
    int64_t k = at(f, 1, i);
    if (k < 0 || k >= count || !push(f, at(f, 0, k))) return false;
  }
  f->shape = f->c->values[1]->shape;
  return axis == 0;
}

bool weft_fold_expand_dims(weft_fold_t *f) {
  int rank;
  int64_t count;
  return elements_of(f, 0, &rank, &count) && rank == 0 && weft_fold_copy(f) &&
         (f->shape = weft_shape_vector(1), true);
}

/* A vector of one to a scalar. */
bool weft_fold_squeeze(weft_fold_t *f) {
  int rank;
  int64_t count;
  return elements_of(f, 0, &rank, &count) && rank <= 1 && count == 1 && weft_fold_copy(f) &&
         (f->shape = WEFT_SCALAR, true);
}

/* A scalar or a vector to a scalar or a vector. */
bool weft_fold_reshape(weft_fold_t *f) {
  int rank;
  int64_t count;
  if (!elements_of(f, 0, &rank, &count) || !is_known(f, 1) || f->c->values[1]->shape.rank != 1 ||
      f->c->values[1]->count > 1)
    return false;
  bool is_scalar = f->c->values[1]->count == 0;
  int64_t wanted = is_scalar ? 1 : at(f, 1, 0);
  if ((wanted != count && wanted != -1) || !weft_fold_copy(f)) return false;
  f->shape = is_scalar ? WEFT_SCALAR : weft_shape_vector(count);
  return true;
}

/* ---- the result ---- */

/* NULL if it does not fit; *s tells of missing memory. */
static weft_tensor_t *make_tensor(const weft_fold_t *f, weft_status_t **s) {
  weft_tensor_t *t = NULL;
  bool is_i32 = f->c->output_types[0] == WEFT_I32;
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

/* What is known of a vector, as a shape: all that could be a dimension. */
static void make_partial(const weft_fold_t *f, weft_shape_t *out) {
  int64_t most = f->c->output_types[0] == WEFT_I32 ? INT32_MAX : INT64_MAX;
  if (f->shape.rank != 1 || f->count > WEFT_MAX_DIMS) return;
  out->rank = (int)f->count;
  for (int64_t i = 0; i < f->count; i++) {
    out->dims[i] = f->out[i] >= 0 && f->out[i] <= most ? f->out[i] : WEFT_UNKNOWN_DIM;
  }
}

weft_status_t *weft_const_fold(const weft_shape_ctx_t *c, weft_tensor_t **out, weft_shape_t *out_partial) {
  weft_fold_t f;
  *out = NULL;
  *out_partial = WEFT_UNKNOWN_SHAPE;
  if (c->op->fold == NULL || !is_foldable_type(c->output_types[0])) return NULL;
  f.c = c;
  f.count = 0;
  f.shape = WEFT_SCALAR;
  f.is_partial = false;
  if (!c->op->fold(&f)) return NULL;
  weft_status_t *s = NULL;
  if (f.is_partial) {
    make_partial(&f, out_partial);
  } else {
    *out = make_tensor(&f, &s);
  }
  return s;
}
