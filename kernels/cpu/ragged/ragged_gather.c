/* kernels/cpu/ragged/ragged_gather.c - RaggedGather: rows of a ragged tensor, by their numbers.
 *
 * The result has the dimensions of the indices, and in the place of each index its row. Two passes: how long
 * each tensor of splits and the values get, then the splits and values themselves.
 */
#include <inttypes.h>

#include "kernels/cpu/loops/indices.h"
#include "kernels/cpu/ragged/ragged.h"

typedef struct gather_args {
  const weft_tensor_t *values, *indices;
  weft_ragged_ints_t *splits; /* owned; of `values`, outermost first */
  int rank;                   /* how many */
  int num_outer;              /* dimensions of the indices less one: -1 for a scalar */
  int split_type;
} gather_args_t;

static weft_status_t *check_indices(const gather_args_t *g) {
  char text[WEFT_INDEX_TEXT];
  for (int64_t i = 0; i < g->indices->count; i++) {
    int64_t index = weft_cpu_int_at(g->indices, i);
    if (index >= 0 && index < g->splits[0].n - 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "indices%s = %" PRId64 " is not in [0, %" PRId64 ")",
                      weft_index_print(&g->indices->shape, g->indices->shape.rank, i, text), index,
                      g->splits[0].n - 1);
  }
  return NULL;
}

static weft_status_t *check_splits(const gather_args_t *g) {
  for (int d = 0; d < g->rank; d++) {
    const weft_ragged_ints_t *s = &g->splits[d];
    if (s->n == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Ragged splits may not be empty");
    if (s->at[0] < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Ragged splits must be non-negative");
    int64_t end = d + 1 < g->rank ? g->splits[d + 1].n - 1 : g->values->shape.dims[0];
    if (s->at[s->n - 1] > end)
      return WEFT_ERROR(INVALID_ARGUMENT, "Ragged splits must not point past values");
    for (int64_t i = 1; i < s->n; i++) {
      if (s->at[i - 1] > s->at[i]) return WEFT_ERROR(INVALID_ARGUMENT, "Ragged splits must be sorted");
    }
  }
  return NULL;
}

static weft_status_t *add(const gather_args_t *g, int64_t n, int64_t *total) {
  if (__builtin_add_overflow(*total, n, total) || !weft_ragged_fits(g->split_type, *total))
    return WEFT_ERROR(INVALID_ARGUMENT, "the result has more rows than its row splits can count");
  return NULL;
}

/* rows[d]: rows of the result at ragged dimension d, which begin[d + 1] - begin[d] less one splits divide. */
static weft_status_t *count_rows(const gather_args_t *g, int64_t *rows) {
  for (int64_t i = 0; i < g->indices->count; i++) {
    int64_t start = weft_cpu_int_at(g->indices, i), limit = start + 1;
    for (int d = 0; d < g->rank; d++) {
      WEFT_RETURN_IF_ERROR(add(g, limit - start, &rows[d]));
      start = g->splits[d].at[start];
      limit = g->splits[d].at[limit];
    }
    WEFT_RETURN_IF_ERROR(add(g, limit - start, &rows[g->rank]));
  }
  return NULL;
}

/* The dimensions of the indices have rows of one length. */
static weft_status_t *put_outer_splits(weft_kernel_ctx_t *ctx, const gather_args_t *g) {
  int64_t rows = 1;
  for (int d = 0; d < g->num_outer; d++) {
    weft_tensor_t *t = NULL;
    int64_t width = g->indices->shape.dims[d + 1];
    rows = weft_cpu_product(&g->indices->shape, 0, d + 1);
    weft_shape_t shape = weft_shape_vector(rows + 1);
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, d, (weft_dtype_t)g->split_type, &shape, &t));
    if (rows > 0 && !weft_ragged_fits(g->split_type, rows * width))
      return WEFT_ERROR(INVALID_ARGUMENT, "the result has more rows than its row splits can count");
    for (int64_t i = 0; i <= rows; i++) weft_ragged_put(t, i, i * width);
  }
  return NULL;
}

/* Splits of ragged dimension d are written behind at[d] others; ends[d]: the last of them. */
static weft_status_t *put_rows(const gather_args_t *g, weft_tensor_t **splits, int64_t *at, int64_t *ends,
                               weft_tensor_t *values) {
  int64_t inner = weft_cpu_product(&values->shape, 1, values->shape.rank), row = 0;
  for (int64_t i = 0; i < g->indices->count; i++) {
    int64_t start = weft_cpu_int_at(g->indices, i), limit = start + 1;
    for (int d = 0; d < g->rank; d++) {
      const int64_t *from = g->splits[d].at;
      if (splits[d] != NULL) {
        int64_t shift = ends[d] - from[start];
        for (int64_t k = start; k < limit; k++) weft_ragged_put(splits[d], ++at[d], from[k + 1] + shift);
        ends[d] = from[limit] + shift;
      }
      start = from[start];
      limit = from[limit];
    }
    WEFT_RETURN_IF_ERROR(
        weft_cpu_copy(values, row * inner, g->values, start * inner, (limit - start) * inner));
    row += limit - start;
  }
  return NULL;
}

static weft_status_t *gather(weft_kernel_ctx_t *ctx, const gather_args_t *g, int64_t *counts,
                             weft_tensor_t **splits) {
  int64_t *rows = counts, *at = counts + g->rank + 1, *ends = at + g->rank;
  weft_tensor_t *values = NULL;
  WEFT_RETURN_IF_ERROR(count_rows(g, rows));
  WEFT_RETURN_IF_ERROR(put_outer_splits(ctx, g));
  for (int d = 0; d < g->rank; d++) {
    if (d + g->num_outer < 0) continue; /* the row of a scalar index is no row of rows */
    weft_shape_t shape = weft_shape_vector(rows[d] + 1);
    WEFT_RETURN_IF_ERROR(
        weft_out_new(ctx, d + g->num_outer, (weft_dtype_t)g->split_type, &shape, &splits[d]));
    weft_ragged_put(splits[d], 0, 0);
  }
  weft_shape_t shape = g->values->shape;
  shape.dims[0] = rows[g->rank];
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, g->rank + g->num_outer, g->values->dtype, &shape, &values));
  return put_rows(g, splits, at, ends, values);
}

static weft_status_t *check(const weft_kernel_ctx_t *ctx, const gather_args_t *g) {
  for (int d = 0; d < g->rank; d++) {
    if (weft_in(ctx, d)->shape.rank != 1)
      return WEFT_ERROR(INVALID_ARGUMENT, "Ragged splits must be vectors, got shape %s",
                        WEFT_SHAPE_TEXT(&weft_in(ctx, d)->shape));
  }
  if (ctx->node->num_outputs - 1 != g->rank + g->num_outer) {
    return WEFT_ERROR(INVALID_ARGUMENT, "OUTPUT_RAGGED_RANK is %d, must be %d for indices of shape %s",
                      ctx->node->num_outputs - 1, g->rank + g->num_outer,
                      WEFT_SHAPE_TEXT(&g->indices->shape));
  }
  WEFT_RETURN_IF_ERROR(check_indices(g));
  if (g->values->shape.rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "params.rank must be nonzero");
  return check_splits(g);
}

static weft_status_t *gather_compute(weft_kernel_ctx_t *ctx) {
  gather_args_t g = {.rank = ctx->node->num_inputs - 2, .split_type = ctx->node->input_types[0]};
  g.values = weft_in(ctx, g.rank);
  g.indices = weft_in(ctx, g.rank + 1);
  g.num_outer = g.indices->shape.rank - 1;
  int64_t *counts = weft_calloc(3 * (size_t)g.rank + 1, sizeof *counts);
  weft_tensor_t **splits = weft_calloc((size_t)g.rank, sizeof *splits);
  weft_status_t *s = weft_ragged_open_all(ctx, 0, g.rank, &g.splits);
  if (s == NULL && (counts == NULL || splits == NULL)) s = WEFT_NO_MEMORY("%d tensors of row splits", g.rank);
  if (s == NULL) s = check(ctx, &g);
  if (s == NULL) s = gather(ctx, &g, counts, splits);
  weft_ragged_close_all(g.splits, g.rank);
  weft_free(splits);
  weft_free(counts);
  return s;
}

const weft_kernel_t weft_cpu_ragged_gather_kernels[] = {
    {.op = "RaggedGather", .compute = gather_compute},
    {0},
};
