/* kernels/cpu/ragged/ragged_to_sparse.c - RaggedTensorToSparse: the coordinates of all values. */
#include <inttypes.h>

#include "kernels/cpu/ragged/ragged.h"

static weft_status_t *bad_end(void) {
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Final value of ragged splits must match the length the corresponding ragged values.");
}

static weft_status_t *check(const weft_ragged_ints_t *splits, int rank, const weft_tensor_t *values) {
  for (int d = 0; d < rank; d++) {
    const weft_ragged_ints_t *s = &splits[d];
    if (s->n == 0) return WEFT_ERROR(INVALID_ARGUMENT, "ragged splits may not be empty.");
    if (s->at[0] != 0) return WEFT_ERROR(INVALID_ARGUMENT, "First value of ragged splits must be 0.");
    for (int64_t i = 1; i < s->n; i++) {
      if (s->at[i] >= s->at[i - 1]) continue;
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Ragged splits should be non decreasing, but we got %" PRId64 " followed by %" PRId64,
                        s->at[i - 1], s->at[i]);
    }
    if (d > 0 && s->n - 1 != splits[d - 1].at[splits[d - 1].n - 1]) return bad_end();
  }
  int64_t end = splits[rank - 1].at[splits[rank - 1].n - 1];
  return values->shape.rank < 1 || values->shape.dims[0] != end ? bad_end() : NULL;
}

/* Elements of innermost row `row`; `at` are the coordinates of the first, of which those that are ragged are
 * set. Returns where the coordinates of the next row go. */
static int64_t *put_row(int64_t *at, int rank, int64_t length, const weft_shape_t *values) {
  int width = rank + values->rank;
  int64_t inner = weft_cpu_product(values, 1, values->rank);
  const int64_t *first = at;
  for (int64_t i = 0; i < length; i++) {
    for (int64_t k = 0; k < inner; k++, at += width) {
      if (at != first) memcpy(at, first, (size_t)rank * sizeof *at);
      at[rank] = i;
      int64_t rest = k;
      for (int d = values->rank - 1; d > 0; d--) {
        at[rank + d] = rest % values->dims[d];
        rest /= values->dims[d];
      }
    }
  }
  return at;
}

/* where[d]: which row of dimension d the loop is in. */
static void put_indices(const weft_ragged_ints_t *splits, int rank, const weft_shape_t *values,
                        int64_t *where, int64_t *at) {
  const weft_ragged_ints_t *last = &splits[rank - 1];
  for (int64_t row = 0; row + 1 < last->n; row++) {
    where[rank - 1] = row;
    for (int d = rank - 2; d >= 0; d--) {
      while (splits[d].at[where[d] + 1] <= where[d + 1]) where[d]++;
    }
    int64_t length = last->at[row + 1] - last->at[row];
    if (length == 0 || weft_cpu_product(values, 1, values->rank) == 0) continue;
    for (int d = 0; d < rank; d++) at[d] = where[d] - (d > 0 ? splits[d - 1].at[where[d - 1]] : 0);
    at = put_row(at, rank, length, values);
  }
}

static weft_status_t *put_shape(weft_kernel_ctx_t *ctx, const weft_ragged_ints_t *splits, int rank,
                                const weft_shape_t *values) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(rank + values->rank);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 2, WEFT_I64, &shape, &t));
  int64_t *dims = t->data;
  dims[0] = splits[0].n - 1;
  for (int d = 0; d < rank; d++) {
    int64_t widest = 0;
    for (int64_t i = 1; i < splits[d].n; i++) {
      int64_t width = splits[d].at[i] - splits[d].at[i - 1];
      if (width > widest) widest = width;
    }
    dims[d + 1] = widest;
  }
  for (int d = 1; d < values->rank; d++) dims[rank + d] = values->dims[d];
  return NULL;
}

static weft_status_t *convert(weft_kernel_ctx_t *ctx, const weft_ragged_ints_t *splits, int rank) {
  const weft_tensor_t *values = weft_in(ctx, rank);
  WEFT_RETURN_IF_ERROR(check(splits, rank, values));
  weft_tensor_t *indices = NULL;
  weft_shape_t matrix = weft_shape_matrix(values->count, rank + values->shape.rank),
               vector = weft_shape_vector(values->count);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I64, &matrix, &indices));
  int64_t *where = weft_calloc((size_t)rank, sizeof *where);
  if (where == NULL) return WEFT_NO_MEMORY("%d dimensions", rank);
  put_indices(splits, rank, &values->shape, where, indices->data);
  weft_free(where);
  WEFT_RETURN_IF_ERROR(weft_cpu_out_view(ctx, rank, 1, &vector));
  return put_shape(ctx, splits, rank, &values->shape);
}

static weft_status_t *to_sparse_compute(weft_kernel_ctx_t *ctx) {
  int rank = ctx->node->num_inputs - 1;
  weft_ragged_ints_t *splits = NULL;
  weft_status_t *s = weft_ragged_open_all(ctx, 0, rank, &splits);
  if (s == NULL) s = convert(ctx, splits, rank);
  weft_ragged_close_all(splits, rank);
  return s;
}

const weft_kernel_t weft_cpu_ragged_to_sparse_kernels[] = {
    {.op = "RaggedTensorToSparse", .compute = to_sparse_compute},
    {0},
};
