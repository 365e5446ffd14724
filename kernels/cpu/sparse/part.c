/* kernels/cpu/sparse/part.c - SparseConcat, SparseSplit, SparseSlice and its gradient. */
#include <inttypes.h>

#include "kernels/cpu/sparse/sparse.h"

/* ---- SparseConcat: all elements with an offset along one dimension, sorted ---- */

WEFT_ATTRS(concat_compute, (INT, concat_dim))

static weft_status_t *concat_check(const weft_sparse_t *parts, int num_parts, int axis, int64_t *dims) {
  for (int i = 0; i < num_parts; i++) {
    weft_shape_t shape;
    if (parts[i].rank != parts[0].rank) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Ranks of all input tensors must match: expected %d but got %d at position %d",
                        parts[0].rank, parts[i].rank, i);
    }
    weft_status_t *s = weft_sparse_dense_shape(&parts[i], &shape);
    if (s != NULL) {
      weft_status_free(s);
      return WEFT_ERROR(INTERNAL, "Encountered overflow from large input shape.");
    }
    for (int d = 0; d < parts[0].rank; d++) {
      if (d == axis || parts[i].dims[d] == parts[0].dims[d]) continue;
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Input shapes must match: expected %" PRId64 " for dimension %d but got %" PRId64
                        " at position %d",
                        parts[0].dims[d], d, parts[i].dims[d], i);
    }
    if (i == 0) memcpy(dims, parts[0].dims, (size_t)parts[0].rank * sizeof *dims);
    if (i > 0 && __builtin_add_overflow(dims[axis], parts[i].dims[axis], &dims[axis])) {
      return WEFT_ERROR(INTERNAL, "Encountered overflow from large input shape.");
    }
  }
  return NULL;
}

static weft_status_t *join(weft_kernel_ctx_t *ctx, const weft_sparse_t *parts, int num_parts, int axis,
                           int64_t *at, weft_tensor_t *values, int64_t n) {
  int rank = parts[0].rank;
  int64_t offset = 0, row = 0, *order = NULL;
  for (int i = 0; i < num_parts; i++) {
    for (int64_t k = 0; k < parts[i].n; k++, row++) {
      for (int d = 0; d < rank; d++) at[row * rank + d] = weft_sparse_at(&parts[i], k)[d];
      at[row * rank + axis] = (int64_t)((uint64_t)at[row * rank + axis] + (uint64_t)offset);
    }
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(values, row - parts[i].n, parts[i].values, 0, parts[i].n));
    offset += parts[i].dims[axis];
  }
  weft_sparse_t whole = {.values = values, .at = at, .n = n, .rank = rank};
  WEFT_RETURN_IF_ERROR(weft_sparse_sort(at, n, rank, &order));
  weft_status_t *s = weft_sparse_put_picked(ctx, 0, 1, &whole, order, n);
  weft_free(order);
  return s;
}

static weft_status_t *concat(weft_kernel_ctx_t *ctx, weft_sparse_t *parts, int num_parts,
                             int64_t wanted_axis) {
  int axis;
  int64_t n = 0, dims[WEFT_MAX_DIMS];
  for (int i = 0; i < num_parts; i++) {
    WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, i, num_parts, &parts[i]));
    n += parts[i].n;
  }
  if (!weft_cpu_wrap_axis(wanted_axis, parts[0].rank, &axis)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Concat dimension must be in range [%d, %d), got %" PRId64,
                      -parts[0].rank, parts[0].rank, wanted_axis);
  }
  WEFT_RETURN_IF_ERROR(concat_check(parts, num_parts, axis, dims));
  weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *values = NULL;
  int64_t *at = weft_calloc((size_t)n + 1, (size_t)parts[0].rank * sizeof *at);
  weft_status_t *s = at == NULL ? WEFT_NO_MEMORY("%" PRId64 " sparse elements", n) : NULL;
  if (s == NULL) s = weft_tensor_new(parts[0].values->dtype, &shape, NULL, &values);
  if (s == NULL) s = join(ctx, parts, num_parts, axis, at, values, n);
  weft_free(at);
  weft_tensor_release(values);
  if (s != NULL) return s;
  return weft_sparse_put_shape(ctx, 2, dims, parts[0].rank);
}

static weft_status_t *concat_compute(weft_kernel_ctx_t *ctx, const concat_compute_attrs_t *attrs) {
  int num_parts = ctx->node->num_inputs / 3;
  weft_sparse_t *parts = weft_calloc((size_t)num_parts, sizeof *parts);
  if (parts == NULL) return WEFT_NO_MEMORY("%d sparse tensors", num_parts);
  weft_status_t *s = concat(ctx, parts, num_parts, attrs->concat_dim);
  weft_free(parts);
  return s;
}

/* ---- SparseSplit: the first `rest` parts have one more than the others ---- */

typedef struct split {
  int axis;
  int64_t size, rest; /* of a part along the axis; how many have one more */
} split_t;

static int64_t split_begin(const split_t *c, int64_t part) {
  return part * c->size + (part < c->rest ? part : c->rest);
}

static int64_t part_of(const split_t *c, int64_t at) {
  int64_t larger = c->rest * (c->size + 1);
  return at < larger ? at / (c->size + 1) : c->rest + (at - larger) / c->size;
}

/* Outputs i, i + num and i + 2 num: part i, the `n` elements in `pick`. */
static weft_status_t *put_part(weft_kernel_ctx_t *ctx, const weft_sparse_t *x, const split_t *c, int i,
                               int num, const int64_t *pick, int64_t n) {
  int64_t dims[WEFT_MAX_DIMS], begin = split_begin(c, i);
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  dims[c->axis] = split_begin(c, i + 1) - begin;
  WEFT_RETURN_IF_ERROR(weft_sparse_put_picked(ctx, i, num, x, pick, n));
  int64_t *at = ctx->outputs[i].tensor->data;
  for (int64_t k = 0; k < n; k++) at[k * x->rank + c->axis] -= begin;
  return weft_sparse_put_shape(ctx, i + 2 * num, dims, x->rank);
}

/* Elements by part: a counting sort. `begins` has num + 2 zeros, `pick` room for all elements. */
static weft_status_t *split(weft_kernel_ctx_t *ctx, const weft_sparse_t *x, const split_t *c, int num,
                            int64_t *begins, int64_t *pick) {
  for (int64_t i = 0; i < x->n; i++) begins[part_of(c, weft_sparse_at(x, i)[c->axis]) + 2]++;
  for (int k = 2; k < num + 2; k++) begins[k] += begins[k - 1];
  for (int64_t i = 0; i < x->n; i++) pick[begins[part_of(c, weft_sparse_at(x, i)[c->axis]) + 1]++] = i;
  for (int k = 0; k < num; k++) {
    WEFT_RETURN_IF_ERROR(put_part(ctx, x, c, k, num, pick + begins[k], begins[k + 1] - begins[k]));
  }
  return NULL;
}

static weft_status_t *split_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t x;
  weft_shape_t shape;
  split_t c;
  int num = ctx->node->num_outputs / 3;
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 1, 1, &x));
  if (!weft_is_scalar(weft_in(ctx, 0))) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input axis should be a scalar but received shape %s",
                      WEFT_SHAPE_TEXT(&weft_in(ctx, 0)->shape));
  }
  int64_t axis = weft_cpu_int_at(weft_in(ctx, 0), 0);
  if (!weft_cpu_wrap_axis(axis, x.rank, &c.axis)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input axis should be in range [%d, %d), got %" PRId64, -x.rank,
                      x.rank, axis);
  }
  if (num > x.dims[c.axis]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input num_split should be between 1 and the splitting dimension size (%" PRId64
                      "), got %d",
                      x.dims[c.axis], num);
  }
  WEFT_RETURN_IF_ERROR(weft_sparse_dense_shape(&x, &shape));
  WEFT_RETURN_IF_ERROR(weft_sparse_check_inside(&x));
  c.size = x.dims[c.axis] / num;
  c.rest = x.dims[c.axis] % num;
  int64_t *begins = weft_calloc((size_t)num + 2, sizeof *begins),
          *pick = weft_calloc((size_t)x.n + 1, sizeof *pick);
  weft_status_t *s = begins == NULL || pick == NULL ? WEFT_NO_MEMORY("parts of a sparse tensor")
                                                    : split(ctx, &x, &c, num, begins, pick);
  weft_free(begins);
  weft_free(pick);
  return s;
}

/* ---- SparseSlice ---- */

static int64_t wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static weft_status_t *slice_check(const weft_sparse_t *x, const weft_tensor_t *t, const char *what) {
  if (!weft_is_vector(t)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input %s should be a vector but received shape %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  if (t->count != x->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected %s to be a vector of length %d but got length %" PRId64,
                      what, x->rank, t->count);
  }
  return NULL;
}

/* The part of [0, size) that a slice selects. */
static int64_t overlap(int64_t size, int64_t start, int64_t length) {
  if (start < wrap_sub(size, length)) return length;
  return start < size ? wrap_sub(size, start) : 0;
}

static weft_status_t *slice_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t x;
  weft_shape_t shape;
  int64_t dims[WEFT_MAX_DIMS], n = 0;
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, &x));
  WEFT_RETURN_IF_ERROR(slice_check(&x, weft_in(ctx, 3), "start"));
  WEFT_RETURN_IF_ERROR(slice_check(&x, weft_in(ctx, 4), "size"));
  WEFT_RETURN_IF_ERROR(weft_sparse_dense_shape(&x, &shape));
  const int64_t *start = weft_in(ctx, 3)->data, *size = weft_in(ctx, 4)->data;
  for (int d = 0; d < x.rank; d++) dims[d] = overlap(x.dims[d], start[d], size[d]);
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, x.rank, &shape));
  int64_t *pick = weft_calloc((size_t)x.n + 1, sizeof *pick);
  if (pick == NULL) return WEFT_NO_MEMORY("a slice of %" PRId64 " elements", x.n);
  for (int64_t i = 0; i < x.n; i++) {
    bool is_in = true;
    for (int d = 0; is_in && d < x.rank; d++) {
      int64_t at = weft_sparse_at(&x, i)[d];
      is_in = at >= start[d] && at < wrap_add(start[d], size[d]);
    }
    if (is_in) pick[n++] = i;
  }
  weft_status_t *s = weft_sparse_put_picked(ctx, 0, 1, &x, pick, n);
  weft_free(pick);
  if (s != NULL) return s;
  int64_t *at = ctx->outputs[0].tensor->data;
  for (int64_t i = 0; i < n * x.rank; i++) at[i] -= start[i % x.rank];
  return weft_sparse_put_shape(ctx, 2, dims, x.rank);
}

/* ---- its gradient: elements of the slice go back to where they came from, in order ---- */

static weft_status_t *slice_grad_check(const weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *dy = weft_in(ctx, 0), *in = weft_in(ctx, 1), *start = weft_in(ctx, 2),
                      *out = weft_in(ctx, 3);
  if (!weft_is_matrix(in) || !weft_is_matrix(out)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input indices should be matrices but received shapes: %s and %s",
                      WEFT_SHAPE_TEXT(&in->shape), WEFT_SHAPE_TEXT(&out->shape));
  }
  if (!weft_is_vector(dy)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input backprop_val_grad should be a vector but received shape: %s",
                      WEFT_SHAPE_TEXT(&dy->shape));
  }
  if (in->shape.dims[1] != out->shape.dims[1]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The input and output should have the same ndims: got: %" PRId64 " and %" PRId64,
                      in->shape.dims[1], out->shape.dims[1]);
  }
  if (out->shape.dims[0] > in->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "# rows of output_indices should be not greater than of input_indices, got %" PRId64
                      " and %" PRId64,
                      out->shape.dims[0], in->shape.dims[0]);
  }
  if (dy->count != out->shape.dims[0]) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "# elements of backprop_val_grad and # rows of output_indices should match (#nnz of sum): "
        "got %" PRId64 " and %" PRId64,
        dy->count, out->shape.dims[0]);
  }
  if (!weft_is_vector(start)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input start should be a vector but received shape %s",
                      WEFT_SHAPE_TEXT(&start->shape));
  }
  if (start->count != in->shape.dims[1]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected start to be a vector of length %" PRId64 " but got length %" PRId64,
                      in->shape.dims[1], start->count);
  }
  return NULL;
}

static weft_status_t *slice_grad_compute(weft_kernel_ctx_t *ctx) {
  WEFT_RETURN_IF_ERROR(slice_grad_check(ctx));
  const weft_tensor_t *dy = weft_in(ctx, 0), *in = weft_in(ctx, 1);
  const int64_t *start = weft_in(ctx, 2)->data, *of = weft_in(ctx, 3)->data, *at = in->data;
  int64_t n = in->shape.dims[0], rank = in->shape.dims[1], k = 0;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, 0, dy->dtype, n, &out));
  weft_cpu_zero(out);
  for (int64_t i = 0; i < n && k < dy->count; i++) {
    bool is_same = true;
    for (int64_t d = 0; is_same && d < rank; d++) {
      is_same = at[i * rank + d] == wrap_add(of[k * rank + d], start[d]);
    }
    if (is_same) WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, i, dy, k++, 1));
  }
  if (k < dy->count) {
    return WEFT_ERROR(INTERNAL,
                      "Elements of backprop_val_grad aren't all propagated. Num elements:%" PRId64
                      ", used: %" PRId64,
                      dy->count, k);
  }
  return NULL;
}

const weft_kernel_t weft_cpu_sparse_part_kernels[] = {
    WEFT_KERNEL_ATTRS("SparseConcat", NULL, 0, concat_compute),
    WEFT_KERNEL("SparseSlice", NULL, 0, NULL, slice_compute, NULL),
    WEFT_KERNEL("SparseSliceGrad", "T", WEFT_SET_NUMBERS, NULL, slice_grad_compute, NULL),
    WEFT_KERNEL("SparseSplit", NULL, 0, NULL, split_compute, NULL),
    {0},
};
