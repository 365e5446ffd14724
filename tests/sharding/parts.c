/* tests/sharding/parts.c - tensors are moved, joined and reduced element by element. */
#include "tests/sharding/parts.h"

#include <math.h>
#include <stdlib.h>

static uint64_t seed = 11;
double weft_parts_random(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(seed >> 40) / 16777216.0;
}

weft_tensor_t *weft_parts_new(int dtype, const weft_shape_t *shape) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new((weft_dtype_t)dtype, shape, NULL, &t);
  if (s != NULL) abort();
  return t;
}

static void copy(weft_tensor_t *to, int64_t to_at, const weft_tensor_t *from, int64_t from_at, int64_t n) {
  weft_status_t *s = weft_tensor_copy_elements(to, to_at, from, from_at, n);
  if (s != NULL) abort();
}

weft_tensor_t *weft_parts_copy(const weft_tensor_t *x) {
  weft_tensor_t *t = weft_parts_new(x->dtype, &x->shape);
  copy(t, 0, x, 0, x->count);
  return t;
}

/* ---- numbers ---- */

void weft_parts_set(weft_tensor_t *t, int64_t i, double re, double im) {
  switch (t->dtype) {
    case WEFT_F32: ((float *)t->data)[i] = (float)re; break;
    case WEFT_F64: ((double *)t->data)[i] = re; break;
    case WEFT_C64: ((weft_c64_t *)t->data)[i] = (weft_c64_t){(float)re, (float)im}; break;
    case WEFT_C128: ((weft_c128_t *)t->data)[i] = (weft_c128_t){re, im}; break;
    case WEFT_BOOL: ((uint8_t *)t->data)[i] = re != 0; break;
    default: {
      int64_t wide = (int64_t)re;
      memcpy((char *)t->data + (size_t)i * weft_dtype_size(t->dtype), &wide, weft_dtype_size(t->dtype));
    }
  }
}

bool weft_parts_has_fractions(int dtype) {
  return dtype == WEFT_F32 || dtype == WEFT_F64 || dtype == WEFT_C64 || dtype == WEFT_C128;
}

static void randomize(weft_tensor_t *t, int64_t below) {
  for (int64_t i = 0; i < t->count; i++) {
    double whole = floor(weft_parts_random() * (double)(below > 0 ? below : 5)) + (below > 0 ? 0 : 1);
    if (t->dtype == WEFT_BOOL) whole = weft_parts_random() < 0.5;
    bool is_fraction = weft_parts_has_fractions(t->dtype) && below == 0;
    weft_parts_set(t, i, is_fraction ? 0.1 + 0.8 * weft_parts_random() : whole,
                   is_fraction ? weft_parts_random() - 0.5 : 0);
  }
}

weft_status_t *weft_parts_draw(weft_str_t word, weft_tensor_t **out) {
  char text[256];
  if (word.length >= sizeof text) return WEFT_ERROR(INVALID_ARGUMENT, "input too long");
  memcpy(text, word.data, word.length);
  text[word.length] = '\0';
  if (weft_str_find(word, ':') >= 0) {
    const char *p = text;
    return weft_tensor_parse(&p, out);
  }
  char *open = strchr(text, '['), *close = strchr(text, ']');
  if (open == NULL || close == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "bad input '%s'", text);
  int dtype = weft_dtype_from_name(weft_str_of(text, (size_t)(open - text)));
  weft_shape_t shape = WEFT_SCALAR;
  for (char *p = open + 1; p < close; p++) shape.dims[shape.rank++] = strtoll(p, &p, 10);
  *out = weft_parts_new(dtype, &shape);
  randomize(*out, close[1] == '%' ? strtoll(close + 2, NULL, 10) : 0);
  return NULL;
}

/* ---- parts ---- */

/* Elements begin to end-1 along `dim`: to a tensor of their own, or into one. */
static void move_part(weft_tensor_t *whole, int dim, int64_t begin, weft_tensor_t *part, bool is_put) {
  int64_t outer = 1, inner = 1, n = part->shape.dims[dim];
  for (int i = 0; i < dim; i++) outer *= whole->shape.dims[i];
  for (int i = dim + 1; i < whole->shape.rank; i++) inner *= whole->shape.dims[i];
  for (int64_t i = 0; i < outer; i++) {
    int64_t w = (i * whole->shape.dims[dim] + begin) * inner, p = i * n * inner;
    if (is_put)
      copy(whole, w, part, p, n * inner);
    else
      copy(part, p, whole, w, n * inner);
  }
}

weft_tensor_t *weft_parts_slice(weft_tensor_t *whole, int dim, int64_t begin, int64_t end) {
  weft_shape_t shape = whole->shape;
  shape.dims[dim] = end - begin;
  weft_tensor_t *part = weft_parts_new(whole->dtype, &shape);
  move_part(whole, dim, begin, part, false);
  return part;
}

weft_tensor_t *weft_parts_join(weft_tensor_t *const *parts, int n, int dim) {
  weft_shape_t shape = parts[0]->shape;
  int64_t begin = 0;
  if (dim >= shape.rank) return NULL;
  for (int k = 1; k < n; k++) {
    if (parts[k]->shape.rank != shape.rank) return NULL;
    for (int i = 0; i < shape.rank; i++) {
      if (i != dim && parts[k]->shape.dims[i] != shape.dims[i]) return NULL;
    }
  }
  for (int k = 1; k < n; k++) shape.dims[dim] += parts[k]->shape.dims[dim];
  weft_tensor_t *whole = weft_parts_new(parts[0]->dtype, &shape);
  for (int k = 0; k < n; k++) {
    move_part(whole, dim, begin, parts[k], true);
    begin += parts[k]->shape.dims[dim];
  }
  return whole;
}

static double combine(weft_partial_kind_t kind, double a, double b) {
  switch (kind) {
    case WEFT_PARTIAL_MIN: return fmin(a, b);
    case WEFT_PARTIAL_MAX: return fmax(a, b);
    case WEFT_PARTIAL_PROD: return a * b;
    default: return a + b;
  }
}

weft_tensor_t *weft_parts_reduce(weft_tensor_t *const *parts, int n, weft_partial_kind_t kind) {
  const weft_tensor_t *first = parts[0];
  bool is_complex = first->dtype == WEFT_C64 || first->dtype == WEFT_C128;
  double divisor = kind == WEFT_PARTIAL_MEAN ? n : 1;
  for (int k = 1; k < n; k++) {
    if (!weft_shape_eq(&first->shape, &parts[k]->shape)) return NULL;
  }
  weft_tensor_t *whole = weft_parts_new(first->dtype, &first->shape);
  for (int64_t i = 0; i < first->count; i++) {
    double re = weft_tensor_number(first, i, false), im = is_complex ? weft_tensor_number(first, i, true) : 0;
    for (int k = 1; k < n; k++) {
      re = combine(kind, re, weft_tensor_number(parts[k], i, false));
      if (is_complex) im = combine(kind, im, weft_tensor_number(parts[k], i, true));
    }
    weft_parts_set(whole, i, re / divisor, im / divisor);
  }
  return whole;
}

weft_tensor_t *weft_parts_shift_indices(const weft_tensor_t *indices, int64_t begin, int64_t end) {
  weft_tensor_t *t = weft_parts_copy(indices);
  for (int64_t i = 0; i < t->count; i++) {
    double at = weft_tensor_number(t, i, false);
    weft_parts_set(t, i, at >= (double)begin && at < (double)end ? at - (double)begin : 0, 0);
  }
  return t;
}

void weft_parts_mask(const weft_factor_operand_t *from, const weft_factor_operand_t *to,
                     const weft_tensor_t *indices, int64_t begin, int64_t end, weft_tensor_t *out) {
  for (int64_t i = 0; i < out->count; i++) {
    int64_t rest = i, at = 0, place[WEFT_MAX_DIMS] = {0};
    for (int k = out->shape.rank; k-- > 0; rest /= out->shape.dims[k]) place[k] = rest % out->shape.dims[k];
    for (int k = 0; k < from->rank; k++) {
      int dim = weft_factor_dim(to, from->dims[k]);
      at = at * indices->shape.dims[k] + (dim < 0 ? 0 : place[dim]); /* a wrong rule may lack it */
    }
    double index = weft_tensor_number(indices, at, false);
    if (index < (double)begin || index >= (double)end) weft_parts_set(out, i, 0, 0);
  }
}
