/* kernels/cpu/array/scatter.c - values put at given coordinates: ScatterNd, TensorScatter*, DynamicStitch,
 * DynamicPartition. */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/indices.h"
#include "tensor/update.h"

/* How many leading dimensions of indices count rows: each row is the vector of the last dimension. Indices
 * that are a vector have a row for each element, as TensorFlow reads them. */
static int num_outer(const weft_shape_t *indices) { return indices->rank > 1 ? indices->rank - 1 : 1; }

/* Of strings, the sum is one behind the other. */
static weft_status_t *append(weft_tensor_t *to, int64_t at, const weft_tensor_t *from, int64_t i, int64_t n) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int64_t k = 0; s == NULL && k < n; k++) {
    text.length = 0;
    weft_strbuf_append(&text, weft_tensor_str_at(to, at + k));
    weft_strbuf_append(&text, weft_tensor_str_at(from, i + k));
    s = text.failed ? WEFT_NO_MEMORY("adding strings")
                    : weft_tensor_set_str(to, at + k, weft_str_of(text.data, text.length));
  }
  weft_strbuf_deinit(&text);
  return s;
}

/* Rows [begin, begin + n) of `updates` to the positions `at` in `out`; -1: nowhere. */
static weft_status_t *scatter_rows(const weft_tensor_t *updates, int64_t begin, const int64_t *at, int64_t n,
                                   int64_t inner, weft_update_t how, weft_tensor_t *out) {
  weft_update_fn *update = weft_update_find(how, out->dtype);
  const size_t bytes = (size_t)inner * weft_dtype_size(out->dtype);
  const bool is_text = how == WEFT_UPDATE_ADD && out->dtype == WEFT_STRING;
  for (int64_t i = 0; i < n; i++) {
    if (at[i] < 0) continue;
    if (update != NULL) {
      update((char *)out->data + (size_t)at[i] * bytes,
             (const char *)updates->data + (size_t)(begin + i) * bytes, inner, false);
    } else if (is_text) {
      WEFT_RETURN_IF_ERROR(append(out, at[i] * inner, updates, (begin + i) * inner, inner));
    } else {
      WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, at[i] * inner, updates, (begin + i) * inner, inner));
    }
  }
  return NULL;
}

/* Puts each row of `updates` where its coordinates say. Rows that meet are combined in order. Of places that
 * are not in `out` the last is the error, as in TensorFlow. */
static weft_status_t *scatter(const weft_tensor_t *indices, const weft_tensor_t *updates, weft_update_t how,
                              bool ignores_bad, int64_t depth, weft_tensor_t *out) {
  const int64_t rows = weft_cpu_product(&indices->shape, 0, num_outer(&indices->shape)),
                inner = weft_cpu_product(&out->shape, (int)depth, out->shape.rank);
  int64_t at[WEFT_INDEX_BLOCK], bad = -1;
  for (int64_t i = 0, n = 0; i < rows; i += n) {
    n = rows - i < WEFT_INDEX_BLOCK ? rows - i : WEFT_INDEX_BLOCK;
    const int64_t last = weft_index_positions(indices, i, n, depth, &out->shape, at);
    if (last >= 0) bad = last;
    WEFT_RETURN_IF_ERROR(scatter_rows(updates, i, at, n, inner, how, out));
  }
  if (bad < 0 || ignores_bad) return NULL;
  char where[WEFT_INDEX_TEXT], what[WEFT_INDEX_TEXT];
  return WEFT_ERROR(INVALID_ARGUMENT, "indices%s = %s does not index into shape %s",
                    weft_index_print(&indices->shape, num_outer(&indices->shape), bad, where),
                    weft_index_values(indices, bad, depth, what), WEFT_SHAPE_TEXT(&out->shape));
}

static weft_status_t *check_shapes(const weft_shape_t *is, const weft_shape_t *us, const weft_shape_t *target,
                                   int64_t *out_depth) {
  if (is->rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Indices shape must have rank at least one. Found:%s",
                      WEFT_SHAPE_TEXT(is));
  }
  if (us->rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Updates shape must have rank at least one. Found:%s",
                      WEFT_SHAPE_TEXT(us));
  }
  int64_t depth = is->rank > 1 ? is->dims[is->rank - 1] : 1;
  int outer = num_outer(is);
  if (depth > target->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimensions [%" PRId64
                      ",%d) of input[shape=%s] must match dimensions [%d,%d) of updates[shape=%s]",
                      depth, target->rank, WEFT_SHAPE_TEXT(target), outer, us->rank, WEFT_SHAPE_TEXT(us));
  }
  bool same = us->rank >= outer;
  for (int d = 0; same && d < outer; d++) same = is->dims[d] == us->dims[d];
  if (!same) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Dimensions [0,%d) of indices[shape=%s] must match dimensions [0,%d) of updates[shape=%s]", outer,
        WEFT_SHAPE_TEXT(is), outer, WEFT_SHAPE_TEXT(us));
  }
  same = us->rank - outer == target->rank - (int)depth;
  for (int d = 0; same && d < us->rank - outer; d++)
    same = us->dims[outer + d] == target->dims[(int)depth + d];
  if (!same) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimensions [%" PRId64
                      ",%d) of input[shape=%s] must match dimensions [%d,%d) of updates[shape=%s]",
                      depth, target->rank, WEFT_SHAPE_TEXT(target), outer, us->rank, WEFT_SHAPE_TEXT(us));
  }
  *out_depth = depth;
  return NULL;
}

WEFT_ATTRS_OF(scatter_nd_compute, weft_bad_indices)
static weft_status_t *scatter_nd_compute(weft_kernel_ctx_t *ctx, const weft_bad_indices_attrs_t *attrs) {
  weft_tensor_t *indices = weft_in(ctx, 0), *updates = weft_in(ctx, 1), *out = NULL;
  weft_shape_t shape;
  if (weft_in(ctx, 2)->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be a vector");
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(weft_in(ctx, 2), "shape", &shape));
  if (weft_shape_count(&shape) == 0 && updates->count > 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Indices and updates specified for empty output.  indices shape: %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  int64_t depth = 0;
  WEFT_RETURN_IF_ERROR(check_shapes(&indices->shape, &updates->shape, &shape, &depth));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, updates->dtype, &shape, &out));
  weft_cpu_zero(out);
  return scatter(indices, updates, WEFT_UPDATE_ADD, weft_ignores_bad_indices(attrs), depth, out);
}

WEFT_ATTRS_OF(tensor_scatter, weft_bad_indices)
static weft_status_t *tensor_scatter(weft_kernel_ctx_t *ctx, const weft_bad_indices_attrs_t *attrs) {
  const weft_update_t how = *(const weft_update_t *)ctx->node->param;
  weft_tensor_t *tensor = weft_in(ctx, 0), *indices = weft_in(ctx, 1), *updates = weft_in(ctx, 2),
                *out = NULL;
  weft_shape_t shape = tensor->shape;
  if (tensor->count == 0 &&
      updates->count > 0) { /* indices alone are fine: a replica may have no rows along another axis */
    return WEFT_ERROR(INVALID_ARGUMENT, "Indices and updates specified for empty output");
  }
  int64_t depth = 0;
  int outer = num_outer(&indices->shape);
  bool outer_fits = indices->shape.rank >= 1 && updates->shape.rank >= outer;
  for (int d = 0; outer_fits && d < outer; d++) {
    outer_fits = indices->shape.dims[d] == updates->shape.dims[d];
  }
  if (!outer_fits && indices->shape.rank >= 1) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Outer dimensions of indices and update must match. Indices shape: %s, updates shape:%s",
        WEFT_SHAPE_TEXT(&indices->shape), WEFT_SHAPE_TEXT(&updates->shape));
  }
  if (shape.rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Output must be at least 1-D, got shape: %s",
                      WEFT_SHAPE_TEXT(&shape));
  }
  WEFT_RETURN_IF_ERROR(check_shapes(&indices->shape, &updates->shape, &shape, &depth));
  const void *old = tensor->data;
  weft_dtype_t dtype = tensor->dtype;
  if (weft_tensor_is_exclusive(tensor) && weft_dtype_is_plain(dtype)) {
    WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, dtype, &shape, &out));
  } else {
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &shape, &out));
  }
  if (out->data != old) WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, 0, tensor, 0, tensor->count));
  return scatter(indices, updates, how, weft_ignores_bad_indices(attrs), depth, out);
}

/* ---- DynamicStitch: rows of several lists, each to the place its index names; the last wins ---- */

static bool starts_with(const weft_shape_t *whole, const weft_shape_t *start) {
  if (whole->rank < start->rank) return false;
  for (int d = 0; d < start->rank; d++) {
    if (whole->dims[d] != start->dims[d]) return false;
  }
  return true;
}

/* Zeros in those rows of `out` that no list of the first n inputs names. */
static weft_status_t *zero_unnamed(weft_kernel_ctx_t *ctx, int n, weft_tensor_t *out) {
  const int64_t rows = out->shape.dims[0];
  const size_t bytes = (size_t)(out->count / rows) * weft_dtype_size(out->dtype);
  if (!weft_dtype_is_plain(out->dtype)) return NULL; /* a new tensor of these is empty */
  uint8_t *is_named = weft_calloc((size_t)rows, 1);
  if (is_named == NULL) return WEFT_NO_MEMORY("DynamicStitch of %" PRId64 " rows", rows);
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *ids = weft_in(ctx, i);
    for (int64_t k = 0; k < ids->count; k++) is_named[weft_index_at(ids, k)] = 1;
  }
  for (int64_t r = 0; r < rows; r++) {
    if (is_named[r] == 0) memset((char *)out->data + (size_t)r * bytes, 0, bytes);
  }
  weft_free(is_named);
  return NULL;
}

/* Rows of `inner` elements of `data`, each to the row of `out` that `ids` names. */
static weft_status_t *stitch_rows(const weft_tensor_t *ids, const weft_tensor_t *data, int64_t inner,
                                  weft_tensor_t *out) {
  const size_t bytes = (size_t)inner * weft_dtype_size(out->dtype);
  if (!weft_dtype_is_plain(out->dtype)) {
    for (int64_t k = 0; k < ids->count; k++) {
      WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, weft_index_at(ids, k) * inner, data, k * inner, inner));
    }
    return NULL;
  }
  const char *from = data->data;
  char *to = out->data;
#define EACH_ROW(size)                                   \
  for (int64_t k = 0; k < ids->count; k++, from += size) \
  memcpy(to + (size_t)weft_index_at(ids, k) * (size), from, size)
  switch (bytes) { /* the usual small rows without a call */
    case 4: EACH_ROW(4); break;
    case 8: EACH_ROW(8); break;
    case 16: EACH_ROW(16); break;
    default: EACH_ROW(bytes); break;
  }
#undef EACH_ROW
  return NULL;
}

static weft_status_t *stitch_compute(weft_kernel_ctx_t *ctx) {
  int n = ctx->node->num_inputs / 2;
  const weft_tensor_t *first_ids = weft_in(ctx, 0), *first = weft_in(ctx, n);
  int64_t largest = -1;
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *ids = weft_in(ctx, i), *data = weft_in(ctx, n + i);
    if (!starts_with(&data->shape, &ids->shape)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "data[%d].shape = %s does not start with indices[%d].shape = %s", i,
                        WEFT_SHAPE_TEXT(&data->shape), i, WEFT_SHAPE_TEXT(&ids->shape));
    }
    bool same = data->shape.rank - ids->shape.rank == first->shape.rank - first_ids->shape.rank;
    for (int d = 0; same && d < data->shape.rank - ids->shape.rank; d++) {
      same = data->shape.dims[ids->shape.rank + d] == first->shape.dims[first_ids->shape.rank + d];
    }
    if (!same) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Need data[0].shape[%d:] = data[%d].shape[%d:], got data[0].shape = %s, data[%d].shape = %s, "
          "indices[0].shape = %s, indices[%d].shape = %s",
          first_ids->shape.rank, i, ids->shape.rank, WEFT_SHAPE_TEXT(&first->shape), i,
          WEFT_SHAPE_TEXT(&data->shape), WEFT_SHAPE_TEXT(&first_ids->shape), i, WEFT_SHAPE_TEXT(&ids->shape));
    }
    for (int64_t k = 0; k < ids->count; k++) {
      int64_t id = weft_index_at(ids, k);
      if (id < 0) return WEFT_ERROR(INVALID_ARGUMENT, "indices[%" PRId64 "] is out of range", k);
      if (id > largest) largest = id;
    }
  }
  weft_shape_t shape = {.rank = first->shape.rank - first_ids->shape.rank + 1};
  if (shape.rank > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "DynamicStitch: too many dimensions");
  shape.dims[0] = largest + 1;
  for (int d = 1; d < shape.rank; d++) shape.dims[d] = first->shape.dims[first_ids->shape.rank + d - 1];
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, first->dtype, &shape, &out));
  if (out->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(zero_unnamed(ctx, n, out));
  const int64_t inner = weft_cpu_product(&shape, 1, shape.rank);
  for (int i = 0; i < n; i++) {
    WEFT_RETURN_IF_ERROR(stitch_rows(weft_in(ctx, i), weft_in(ctx, n + i), inner, out));
  }
  return NULL;
}

static weft_status_t *partition_compute(weft_kernel_ctx_t *ctx) {
  int n = ctx->node->num_outputs;
  const weft_tensor_t *data = weft_in(ctx, 0), *to = weft_in(ctx, 1);
  if (!starts_with(&data->shape, &to->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "data.shape must start with partitions.shape, got data.shape = %s, "
                      "partitions.shape = %s",
                      WEFT_SHAPE_TEXT(&data->shape), WEFT_SHAPE_TEXT(&to->shape));
  }
  int64_t *counts = weft_calloc((size_t)n * 2, sizeof *counts);
  if (counts == NULL) return WEFT_NO_MEMORY("DynamicPartition");
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < to->count; i++) {
    int64_t p = weft_index_at(to, i);
    char text[WEFT_INDEX_TEXT];
    if (p < 0 || p >= n) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "partitions%s = %" PRId64 " is not in [0, %d)",
                     weft_index_print(&to->shape, to->shape.rank, i, text), p, n);
    } else {
      counts[p]++;
    }
  }
  weft_shape_t shape = {.rank = data->shape.rank - to->shape.rank + 1};
  for (int d = 1; d < shape.rank; d++) shape.dims[d] = data->shape.dims[to->shape.rank + d - 1];
  for (int p = 0; s == NULL && p < n; p++) {
    weft_tensor_t *out = NULL;
    shape.dims[0] = counts[p];
    s = weft_out_new(ctx, p, data->dtype, &shape, &out);
  }
  int64_t inner = weft_cpu_product(&shape, 1, shape.rank);
  for (int64_t i = 0; s == NULL && i < to->count; i++) {
    int64_t p = weft_index_at(to, i);
    s = weft_cpu_copy(ctx->outputs[p].tensor, counts[n + p]++ * inner, data, i * inner, inner);
  }
  weft_free(counts);
  return s;
}

#define TENSOR_SCATTER(op_, set, how)                                        \
  {                                                                          \
    .op = op_, .type_attr = "T", .types = set, WEFT_COMPUTE(tensor_scatter), \
    .param = &(const weft_update_t) {                                        \
      WEFT_UPDATE_##how                                                      \
    }                                                                        \
  }
const weft_kernel_t weft_cpu_scatter_kernels[] = {
    WEFT_KERNEL("DynamicPartition", NULL, 0, NULL, partition_compute, NULL),
    WEFT_KERNEL("DynamicStitch", NULL, 0, NULL, stitch_compute, NULL),
    WEFT_KERNEL("ParallelDynamicStitch", NULL, 0, NULL, stitch_compute, NULL),
    WEFT_KERNEL_ATTRS("ScatterNd", NULL, 0, scatter_nd_compute),
    TENSOR_SCATTER("ScatterNdNonAliasingAdd", WEFT_SET_NUMBERS, ADD),
    TENSOR_SCATTER("ScatterNdNonAliasingAdd", WEFT_DTYPE_BIT(WEFT_BOOL), ADD),
    TENSOR_SCATTER("TensorScatterAdd", WEFT_SET_NUMBERS, ADD),
    TENSOR_SCATTER("TensorScatterMax", WEFT_SET_REAL, MAX),
    TENSOR_SCATTER("TensorScatterMin", WEFT_SET_REAL, MIN),
    TENSOR_SCATTER("TensorScatterSub", WEFT_SET_NUMBERS, SUB),
    TENSOR_SCATTER("TensorScatterUpdate", WEFT_SET_ALL, SET),
    {0},
};
