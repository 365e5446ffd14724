/* kernels/cpu/parsing/edit_distance.c - EditDistance: Levenshtein's distance between the sequences of two
 * sparse tensors.
 *
 * A sequence is a run of elements that agree in all coordinates but the last. Sequences of the two tensors
 * are matched as in a merge of sorted lists: one whose coordinates are the smaller lacks its match.
 */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/common.h"

typedef struct edit_side {
  const weft_tensor_t *values;
  const int64_t *at;
  int64_t n, begin, end; /* elements, and the current sequence */
} edit_side_t;

typedef struct edit_run {
  edit_side_t hypothesis, truth;
  int rank; /* of the sparse tensors */
  weft_shape_t shape;
  float *out;
  int64_t count;
  bool is_normalized;
  int64_t *row; /* owned; of the table of distances */
  int64_t capacity;
} edit_run_t;

/* The coordinates of a side's current sequence; false behind the last one. */
static bool find_end(const edit_run_t *r, edit_side_t *s) {
  const int64_t *first = s->at + s->begin * r->rank;
  if (s->begin == s->n) return false;
  for (s->end = s->begin + 1; s->end < s->n; s->end++) {
    if (memcmp(first, s->at + s->end * r->rank, (size_t)(r->rank - 1) * sizeof *first) != 0) break;
  }
  return true;
}

static double real_at(const weft_tensor_t *t, int64_t i) {
  switch (t->dtype) {
    case WEFT_F16: return (double)weft_f16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_BF16: return (double)weft_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_F32: return (double)((const float *)t->data)[i];
    default: return ((const double *)t->data)[i];
  }
}

static bool complex_equal(const weft_tensor_t *a, int64_t i, const weft_tensor_t *b, int64_t k) {
  if (a->dtype == WEFT_C64) {
    const weft_c64_t *x = (const weft_c64_t *)a->data + i, *y = (const weft_c64_t *)b->data + k;
    return x->re == y->re && x->im == y->im;
  }
  const weft_c128_t *x = (const weft_c128_t *)a->data + i, *y = (const weft_c128_t *)b->data + k;
  return x->re == y->re && x->im == y->im;
}

static bool is_equal(const weft_tensor_t *a, int64_t i, const weft_tensor_t *b, int64_t k) {
  if (a->dtype == WEFT_STRING) return weft_str_eq(weft_tensor_str_at(a, i), weft_tensor_str_at(b, k));
  if (weft_dtype_is_complex(a->dtype)) return complex_equal(a, i, b, k);
  if (weft_dtype_is_floating(a->dtype)) return real_at(a, i) == real_at(b, k);
  size_t size = weft_dtype_size(a->dtype);
  return memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)k * size, size) ==
         0;
}

/* Wagner and Fischer's table, one row at a time. */
static weft_status_t *distance_of(edit_run_t *r, int64_t *out) {
  const edit_side_t *a = &r->hypothesis, *b = &r->truth;
  int64_t width = b->end - b->begin;
  if (width + 1 > r->capacity) {
    int64_t *row = weft_realloc(r->row, (size_t)width + 1, sizeof *row);
    if (row == NULL) return WEFT_NO_MEMORY("the edit distance of %" PRId64 " elements", width);
    r->row = row;
    r->capacity = width + 1;
  }
  for (int64_t k = 0; k <= width; k++) r->row[k] = k;
  for (int64_t i = a->begin; i < a->end; i++) {
    int64_t diagonal = r->row[0]++;
    for (int64_t k = 1; k <= width; k++) {
      int64_t best = diagonal + !is_equal(a->values, i, b->values, b->begin + k - 1), above = r->row[k] + 1,
              left = r->row[k - 1] + 1;
      diagonal = r->row[k];
      if (above < best) best = above;
      r->row[k] = left < best ? left : best;
    }
  }
  *out = r->row[width];
  return NULL;
}

/* Writes the distance of the sequence at `at`. */
static weft_status_t *put(const edit_run_t *r, const int64_t *at, float value) {
  int64_t flat = 0;
  bool is_inside = true;
  for (int d = 0; d < r->rank - 1; d++) {
    is_inside = is_inside && !__builtin_mul_overflow(flat, r->shape.dims[d], &flat) &&
                !__builtin_add_overflow(flat, at[d], &flat);
  }
  if (!is_inside || flat < 0 || flat >= r->count) {
    return WEFT_ERROR(
        INTERNAL,
        "Got an inner product %" PRId64
        " which would require writing to outside of the buffer for the output tensor (max elements "
        "%" PRId64 ")",
        flat, r->count);
  }
  r->out[flat] = value;
  return NULL;
}

static int compare(const edit_run_t *r, const int64_t *a, const int64_t *b) {
  for (int d = 0; d < r->rank - 1; d++) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}

static weft_status_t *run(edit_run_t *r) {
  edit_side_t *h = &r->hypothesis, *t = &r->truth;
  for (;;) {
    bool has_h = find_end(r, h), has_t = find_end(r, t);
    const int64_t *h_at = h->at + h->begin * r->rank, *t_at = t->at + t->begin * r->rank;
    if (!has_h && !has_t) return NULL;
    int order = !has_h ? 1 : !has_t ? -1 : compare(r, h_at, t_at);
    int64_t distance = 0;
    if (order < 0) {
      float value = r->is_normalized ? INFINITY : (float)(h->end - h->begin);
      WEFT_RETURN_IF_ERROR(put(r, h_at, value));
    } else if (order > 0) {
      WEFT_RETURN_IF_ERROR(put(r, t_at, r->is_normalized ? 1.0F : (float)(t->end - t->begin)));
    } else {
      WEFT_RETURN_IF_ERROR(distance_of(r, &distance));
      WEFT_RETURN_IF_ERROR(
          put(r, t_at, r->is_normalized ? (float)distance / (float)(t->end - t->begin) : (float)distance));
    }
    if (order <= 0) h->begin = h->end;
    if (order >= 0) t->begin = t->end;
  }
}

static weft_status_t *read_side(const weft_kernel_ctx_t *c, int in, const char *what, edit_side_t *out) {
  const weft_tensor_t *indices = weft_in(c, in), *values = weft_in(c, in + 1), *shape = weft_in(c, in + 2);
  if (indices->shape.rank != 2 || values->shape.rank != 1 || shape->shape.rank != 1) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "%s_indices should be a matrix, %s_values and %s_shape vectors, but their shapes are %s, %s and %s",
        what, what, what, WEFT_SHAPE_TEXT(&indices->shape), WEFT_SHAPE_TEXT(&values->shape),
        WEFT_SHAPE_TEXT(&shape->shape));
  }
  if (indices->shape.dims[0] != values->count || indices->shape.dims[1] != shape->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s_values and %s_shape should fit %s_indices, but their shapes are %s, %s and %s",
                      what, what, what, WEFT_SHAPE_TEXT(&values->shape), WEFT_SHAPE_TEXT(&shape->shape),
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  *out = (edit_side_t){.values = values, .at = indices->data, .n = values->count};
  return NULL;
}

static weft_status_t *read_shape(const weft_tensor_t *hypothesis, const weft_tensor_t *truth, edit_run_t *r) {
  int64_t dims[WEFT_MAX_DIMS];
  if (truth->count < 2 || hypothesis->count != truth->count || truth->count > WEFT_MAX_DIMS) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Expected truth and hypothesis to have matching ranks of at least 2, but their shapes are: %s "
        "and %s",
        WEFT_SHAPE_TEXT(&truth->shape), WEFT_SHAPE_TEXT(&hypothesis->shape));
  }
  r->rank = (int)truth->count;
  for (int d = 0; d < r->rank; d++) {
    int64_t a = ((const int64_t *)hypothesis->data)[d], b = ((const int64_t *)truth->data)[d];
    if (a < 0 || b < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= 0", a < 0 ? a : b);
    dims[d] = a > b ? a : b;
  }
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, r->rank - 1, &r->shape));
  if (weft_shape_count(&r->shape) > 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Got output shape %s which has 0 elements", WEFT_SHAPE_TEXT(&r->shape));
}

WEFT_ATTRS(edit_distance, (BOOL, normalize))
static weft_status_t *edit_distance(weft_kernel_ctx_t *c, const edit_distance_attrs_t *attrs) {
  edit_run_t r = {.is_normalized = attrs->normalize};
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(read_side(c, 0, "hypothesis", &r.hypothesis));
  WEFT_RETURN_IF_ERROR(read_side(c, 3, "truth", &r.truth));
  WEFT_RETURN_IF_ERROR(read_shape(weft_in(c, 2), weft_in(c, 5), &r));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_F32, &r.shape, &out));
  weft_cpu_zero(out);
  r.out = out->data;
  r.count = out->count;
  weft_status_t *s = run(&r);
  weft_free(r.row);
  return s;
}

const weft_kernel_t weft_cpu_edit_distance_kernels[] = {
    {.op = "EditDistance", WEFT_COMPUTE(edit_distance)},
    {0},
};
