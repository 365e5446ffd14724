/* kernels/cpu/sparse/fill_empty_rows.c - SparseFillEmptyRows, RaggedFillEmptyRows and their gradient: a row
 * without elements gets one, the default value.
 *
 * A row is the first coordinate. Of a ragged tensor it is the only one: its indices are the vector of row
 * numbers.
 */
#include <inttypes.h>

#include "kernels/cpu/sparse/sparse.h"
#include "tensor/update.h"

enum { OUT_INDICES, OUT_VALUES, OUT_IS_EMPTY, OUT_MAP };

/* The param of a row of the table. */
typedef struct row_kind {
  bool is_ragged;
} row_kind_t;

typedef struct filled {
  const weft_tensor_t *indices, *values;
  const int64_t *at;
  int64_t n, width, num_rows;
} filled_t;

static weft_status_t *read_rows(const weft_kernel_ctx_t *ctx, bool is_ragged, filled_t *out) {
  const weft_tensor_t *indices = weft_in(ctx, 0), *values = weft_in(ctx, 1), *shape = weft_in(ctx, 2),
                      *fallback = weft_in(ctx, 3);
  if (is_ragged ? !weft_is_scalar(shape) : !weft_is_vector(shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s, saw: %s",
                      is_ragged ? "nrows must be a scalar" : "dense_shape must be a vector",
                      WEFT_SHAPE_TEXT(&shape->shape));
  }
  if (is_ragged ? !weft_is_vector(indices) : !weft_is_matrix(indices)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "indices must be a %s, saw: %s", is_ragged ? "vector" : "matrix",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (!weft_is_vector(values)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "values must be a vector, saw: %s", WEFT_SHAPE_TEXT(&values->shape));
  }
  if (indices->shape.dims[0] != values->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The length of `values` (%" PRId64
                      ") must match the first dimension of `indices` (%" PRId64 ").",
                      values->count, indices->shape.dims[0]);
  }
  if (!weft_is_scalar(fallback)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "default_value must be a scalar, saw: %s",
                      WEFT_SHAPE_TEXT(&fallback->shape));
  }
  if (shape->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Dense shape cannot be empty.");
  *out = (filled_t){indices,
                    values,
                    indices->data,
                    values->count,
                    is_ragged ? 1 : indices->shape.dims[1],
                    weft_cpu_int_at(shape, 0)};
  if (out->num_rows < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= 0", out->num_rows);
  }
  if (!is_ragged && out->width != shape->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "indices have %" PRId64 " columns, the dense shape %" PRId64 " dimensions", out->width,
                      shape->count);
  }
  return NULL;
}

/* Counts each row's elements in begins[row]; *is_ordered: rows never decrease. */
static weft_status_t *count_rows(const filled_t *x, int64_t *begins, bool *is_ordered) {
  int64_t last = 0;
  *is_ordered = true;
  for (int64_t i = 0; i < x->n; i++) {
    int64_t row = x->at[i * x->width];
    if (row < 0 || row >= x->num_rows) {
      return WEFT_ERROR(INVALID_ARGUMENT, "indices(%" PRId64 ", 0) is invalid: %" PRId64 " >= %" PRId64, i,
                        row, x->num_rows);
    }
    begins[row]++;
    *is_ordered = *is_ordered && row >= last;
    last = row;
  }
  return NULL;
}

/* The elements at their new places; `begins` holds where each row begins, and is used up. */
static weft_status_t *place(weft_kernel_ctx_t *ctx, const filled_t *x, int64_t *begins, int64_t total,
                            const uint8_t *is_empty, int64_t *map) {
  /* TensorFlow gives the rows of a ragged tensor without any as a matrix. */
  int rank = x->num_rows == 0 ? 2 : x->indices->shape.rank;
  weft_shape_t shape = {.rank = rank, .dims = {total, x->width}};
  weft_tensor_t *indices = NULL, *values = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, OUT_INDICES, WEFT_I64, &shape, &indices));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, OUT_VALUES, x->values->dtype, total, &values));
  weft_cpu_zero(indices);
  int64_t *at = indices->data;
  for (int64_t row = 0; row < x->num_rows; row++) {
    if (!is_empty[row]) continue;
    if (x->width > 0) at[begins[row] * x->width] = row;
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(values, begins[row], weft_in(ctx, 3), 0, 1));
  }
  for (int64_t i = 0; i < x->n; i++) {
    int64_t to = begins[x->at[i * x->width]]++;
    memcpy(at + to * x->width, x->at + i * x->width, (size_t)x->width * sizeof *at);
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(values, to, x->values, i, 1));
    map[i] = to;
  }
  return NULL;
}

static weft_status_t *fill(weft_kernel_ctx_t *ctx, const filled_t *x, int64_t *begins) {
  weft_tensor_t *empty = NULL, *map = NULL;
  bool is_ordered, is_full = true;
  int64_t total = 0;
  WEFT_RETURN_IF_ERROR(count_rows(x, begins, &is_ordered));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, OUT_IS_EMPTY, WEFT_BOOL, x->num_rows, &empty));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, OUT_MAP, WEFT_I64, x->n, &map));
  uint8_t *is_empty = empty->data;
  for (int64_t row = 0; row < x->num_rows; row++) {
    int64_t count = begins[row];
    is_empty[row] = count == 0;
    is_full = is_full && count > 0;
    begins[row] = total;
    total += count > 0 ? count : 1;
  }
  if (!is_full || !is_ordered || x->num_rows == 0) return place(ctx, x, begins, total, is_empty, map->data);
  weft_cpu_out_same(ctx, 0, OUT_INDICES);
  weft_cpu_out_same(ctx, 1, OUT_VALUES);
  for (int64_t i = 0; i < x->n; i++) ((int64_t *)map->data)[i] = i;
  return NULL;
}

static weft_status_t *fill_compute(weft_kernel_ctx_t *ctx) {
  filled_t x;
  WEFT_RETURN_IF_ERROR(read_rows(ctx, ((const row_kind_t *)ctx->node->param)->is_ragged, &x));
  if (x.num_rows == 0 && x.n != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = %" PRId64, x.n);
  }
  int64_t *begins = weft_calloc((size_t)x.num_rows, sizeof *begins);
  weft_status_t *s = begins == NULL ? WEFT_NO_MEMORY("%" PRId64 " rows", x.num_rows) : fill(ctx, &x, begins);
  weft_free(begins);
  return s;
}

/* ---- gradients: of the values, where they went; of the default, all the rest ---- */

static weft_status_t *grad(weft_kernel_ctx_t *ctx, const weft_tensor_t *map, const weft_tensor_t *dy,
                           bool *is_taken) {
  weft_tensor_t *d_values = NULL, *d_default = NULL;
  weft_shape_t scalar = WEFT_SCALAR;
  const int64_t *from = map->data;
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, 0, dy->dtype, map->count, &d_values));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, dy->dtype, &scalar, &d_default));
  weft_cpu_zero(d_default);
  for (int64_t i = 0; i < map->count; i++) {
    if (from[i] < 0 || from[i] >= dy->count) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Elements in reverse index must be in [0, %" PRId64 ") but got %" PRId64, dy->count,
                        from[i]);
    }
    is_taken[from[i]] = true;
  }
  WEFT_RETURN_IF_ERROR(weft_pick(d_values, dy, from, map->count));
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, dy->dtype);
  size_t size = weft_dtype_size(dy->dtype);
  for (int64_t i = 0; i < dy->count; i++) {
    if (!is_taken[i]) add(d_default->data, (const char *)dy->data + (size_t)i * size, 1, false);
  }
  return NULL;
}

static weft_status_t *grad_compute(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *map = weft_in(ctx, 0), *dy = weft_in(ctx, 1);
  if (!weft_is_vector(map)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "reverse_index_map must be a vector, saw: %s",
                      WEFT_SHAPE_TEXT(&map->shape));
  }
  if (!weft_is_vector(dy)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "grad_values must be a vector, saw: %s", WEFT_SHAPE_TEXT(&dy->shape));
  }
  bool *is_taken = weft_calloc((size_t)dy->count, sizeof *is_taken);
  weft_status_t *s = is_taken == NULL ? WEFT_NO_MEMORY("a gradient") : grad(ctx, map, dy, is_taken);
  weft_free(is_taken);
  return s;
}

static const row_kind_t sparse = {false}, ragged = {true};

const weft_kernel_t weft_cpu_fill_empty_rows_kernels[] = {
    {.op = "RaggedFillEmptyRows", .compute = fill_compute, .param = &ragged},
    WEFT_KERNEL("RaggedFillEmptyRowsGrad", "T", WEFT_SET_NUMBERS, NULL, grad_compute, NULL),
    {.op = "SparseFillEmptyRows", .compute = fill_compute, .param = &sparse},
    WEFT_KERNEL("SparseFillEmptyRowsGrad", "T", WEFT_SET_NUMBERS, NULL, grad_compute, NULL),
    {0},
};
