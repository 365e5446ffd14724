/* kernels/cpu/sparse/sparse.c - see the header. */
#include "kernels/cpu/sparse/sparse.h"

#include <inttypes.h>

#include "base/str.h"

weft_status_t *weft_sparse_of(const weft_tensor_t *indices, const weft_tensor_t *values,
                              const weft_tensor_t *shape, weft_sparse_t *out) {
  if (!weft_is_matrix(indices)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input indices should be a matrix but received shape %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (!weft_is_vector(values)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input values should be a vector but received shape %s",
                      WEFT_SHAPE_TEXT(&values->shape));
  }
  if (!weft_is_vector(shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input shape should be a vector but received shape %s",
                      WEFT_SHAPE_TEXT(&shape->shape));
  }
  if (indices->shape.dims[0] != values->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "indices and values rows (indexing dimension) must match. (indices = %" PRId64
                      ", values = %" PRId64 ")",
                      indices->shape.dims[0], values->count);
  }
  if (indices->shape.dims[1] != shape->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Index rank (%" PRId64 ") and shape rank (%" PRId64 ") do not match",
                      indices->shape.dims[1], shape->count);
  }
  if (shape->count > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a sparse tensor has %" PRId64 " dimensions, more than %d",
                      shape->count, (int)WEFT_MAX_DIMS);
  }
  *out = (weft_sparse_t){.indices = indices,
                         .values = values,
                         .shape = shape,
                         .at = indices->data,
                         .n = values->count,
                         .rank = (int)shape->count,
                         .dims = shape->data};
  return NULL;
}

weft_status_t *weft_sparse_read(const weft_kernel_ctx_t *ctx, int i, int step, weft_sparse_t *out) {
  return weft_sparse_of(weft_in(ctx, i), weft_in(ctx, i + step), weft_in(ctx, i + 2 * step), out);
}

static void put_numbers(weft_strbuf_t *text, const int64_t *x, int n) {
  weft_strbuf_putc(text, '[');
  for (int d = 0; d < n; d++) weft_strbuf_printf(text, d == 0 ? "%" PRId64 : ",%" PRId64, x[d]);
  weft_strbuf_putc(text, ']');
}

/* `dims`: a shape to end with, or NULL. */
static weft_status_t *bad_index(int64_t i, const int64_t *at, int rank, const char *what,
                                const int64_t *dims) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "indices[%" PRId64 "] = ", i);
  put_numbers(&text, at, rank);
  weft_strbuf_printf(&text, " %s", what);
  if (dims != NULL) put_numbers(&text, dims, rank);
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT, "%s", text.failed ? what : text.data);
  weft_strbuf_deinit(&text);
  return s;
}

static bool is_inside(const int64_t *at, int rank, const int64_t *dims) {
  for (int d = 0; d < rank; d++) {
    if (at[d] < 0 || at[d] >= dims[d]) return false;
  }
  return true;
}

static weft_status_t *outside(int64_t i, const int64_t *at, int rank, const int64_t *dims) {
  return bad_index(i, at, rank, "is out of bounds: need 0 <= index < ", dims);
}

bool weft_sparse_is_inside(const weft_sparse_t *x, int64_t i) {
  return is_inside(weft_sparse_at(x, i), x->rank, x->dims);
}

weft_status_t *weft_sparse_check_inside(const weft_sparse_t *x) {
  for (int64_t i = 0; i < x->n; i++) {
    if (!weft_sparse_is_inside(x, i)) return outside(i, weft_sparse_at(x, i), x->rank, x->dims);
  }
  return NULL;
}

weft_status_t *weft_sparse_check_next(int64_t i, const int64_t *before, const int64_t *at, int rank,
                                      const int64_t *dims) {
  if (!is_inside(at, rank, dims)) return outside(i, at, rank, dims);
  int order = before == NULL ? -1 : weft_coordinates_compare(before, at, rank);
  if (order > 0) {
    return bad_index(i, at, rank,
                     "is out of order. Many sparse ops require sorted indices.\n"
                     "    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n",
                     NULL);
  }
  return order == 0 ? bad_index(i, at, rank, "is repeated", NULL) : NULL;
}

weft_status_t *weft_sparse_check_order(const weft_sparse_t *x) {
  for (int64_t i = 0; i < x->n; i++) {
    const int64_t *before = i == 0 ? NULL : weft_sparse_at(x, i - 1);
    WEFT_RETURN_IF_ERROR(weft_sparse_check_next(i, before, weft_sparse_at(x, i), x->rank, x->dims));
  }
  return NULL;
}

weft_status_t *weft_sparse_dense_shape(const weft_sparse_t *x, weft_shape_t *out) {
  return weft_shape_make(x->dims, x->rank, out);
}

/* ---- order ---- */

typedef struct sorter {
  const int64_t *at;
  int rank;
} sorter_t;

static bool is_after(const sorter_t *s, int64_t a, int64_t b) {
  return weft_coordinates_compare(s->at + a * s->rank, s->at + b * s->rank, s->rank) > 0;
}

/* Merges from[begin, middle) and from[middle, end) into `to`. */
static void merge(const sorter_t *s, const int64_t *from, int64_t *to, int64_t begin, int64_t middle,
                  int64_t end) {
  int64_t a = begin, b = middle;
  for (int64_t i = begin; i < end; i++) {
    bool takes_a = a < middle && (b == end || !is_after(s, from[a], from[b]));
    to[i] = takes_a ? from[a++] : from[b++];
  }
}

weft_status_t *weft_sparse_sort(const int64_t *at, int64_t n, int rank, int64_t **out) {
  int64_t *from = weft_malloc(((size_t)n + 1) * sizeof *from),
          *to = weft_malloc(((size_t)n + 1) * sizeof *to);
  if (from == NULL || to == NULL) {
    weft_free(from);
    weft_free(to);
    return WEFT_NO_MEMORY("the order of %" PRId64 " elements", n);
  }
  sorter_t s = {at, rank};
  for (int64_t i = 0; i < n; i++) from[i] = i;
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t middle = i + run < n ? i + run : n, end = i + 2 * run < n ? i + 2 * run : n;
      merge(&s, from, to, i, middle, end);
    }
    int64_t *other = from;
    from = to;
    to = other;
  }
  weft_free(to);
  *out = from;
  return NULL;
}

/* ---- results ---- */

weft_status_t *weft_sparse_new_indices(weft_kernel_ctx_t *ctx, int o, int64_t n, int rank, int64_t **out) {
  weft_shape_t shape = weft_shape_matrix(n, rank);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, o, WEFT_I64, &shape, &t));
  *out = t->data;
  return NULL;
}

weft_status_t *weft_sparse_new_values(weft_kernel_ctx_t *ctx, int o, weft_dtype_t dtype, int64_t n,
                                      weft_tensor_t **out) {
  weft_shape_t shape = weft_shape_vector(n);
  return weft_out_new(ctx, o, dtype, &shape, out);
}

weft_status_t *weft_sparse_put_shape(weft_kernel_ctx_t *ctx, int o, const int64_t *dims, int rank) {
  weft_shape_t shape = weft_shape_vector(rank);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, o, WEFT_I64, &shape, &t));
  if (rank > 0) memcpy(t->data, dims, (size_t)rank * sizeof *dims);
  return NULL;
}

weft_status_t *weft_pick(weft_tensor_t *to, const weft_tensor_t *from, const int64_t *pick, int64_t n) {
  size_t size = weft_dtype_size(to->dtype);
  for (int64_t i = 0; i < n; i++) {
    if (weft_dtype_is_plain(to->dtype)) {
      memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)pick[i] * size, size);
    } else {
      WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(to, i, from, pick[i], 1));
    }
  }
  return NULL;
}

weft_status_t *weft_sparse_put_picked(weft_kernel_ctx_t *ctx, int o, int step, const weft_sparse_t *x,
                                      const int64_t *pick, int64_t n) {
  int64_t *at = NULL;
  weft_tensor_t *values = NULL;
  WEFT_RETURN_IF_ERROR(weft_sparse_new_indices(ctx, o, n, x->rank, &at));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, o + step, x->values->dtype, n, &values));
  for (int64_t i = 0; i < n; i++) {
    for (int d = 0; d < x->rank; d++) at[i * x->rank + d] = weft_sparse_at(x, pick[i])[d];
  }
  return weft_pick(values, x->values, pick, n);
}
