/* kernels/cpu/sparse/reduce.c - SparseReduceSum, SparseReduceMax and their sparse results, SparseSoftmax.
 *
 * Elements are sorted by the dimensions that stay, so that those of one result are neighbours.
 */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/sparse/sparse.h"
#include "tensor/update.h"

/* The param of a row. */
typedef struct fold {
  weft_update_t how;
  bool is_sparse;
} fold_t;

typedef struct groups {
  int kept[WEFT_MAX_DIMS], num_kept; /* dimensions that stay */
  bool is_kept[WEFT_MAX_DIMS];
  int64_t *keys;  /* owned; coordinates of element i in the kept dimensions, then in the others */
  int64_t *order; /* owned; elements, sorted */
  int64_t n, rank;
} groups_t;

static void groups_free(groups_t *g) {
  weft_free(g->keys);
  weft_free(g->order);
}

static const int64_t *key_of(const groups_t *g, int64_t i) { return g->keys + g->order[i] * g->rank; }

/* Where the group that begins at `begin` of the order ends. */
static int64_t group_end(const groups_t *g, int64_t begin) {
  int64_t end = begin + 1;
  while (end < g->n && weft_coordinates_compare(key_of(g, begin), key_of(g, end), g->num_kept) == 0) end++;
  return end;
}

/* Sorts; `is_kept` is set. The caller frees *g, whatever happens. */
static weft_status_t *group(const weft_sparse_t *x, groups_t *g) {
  int dims[WEFT_MAX_DIMS], n = 0;
  for (int d = 0; d < x->rank; d++) {
    if (g->is_kept[d]) g->kept[g->num_kept++] = dims[n++] = d;
  }
  for (int d = 0; d < x->rank; d++) {
    if (!g->is_kept[d]) dims[n++] = d;
  }
  g->n = x->n;
  g->rank = x->rank;
  g->keys = weft_calloc((size_t)x->n + 1, ((size_t)x->rank + 1) * sizeof *g->keys);
  if (g->keys == NULL) return WEFT_NO_MEMORY("the order of %" PRId64 " elements", x->n);
  for (int64_t i = 0; i < x->n; i++) {
    for (int d = 0; d < x->rank; d++) g->keys[i * x->rank + d] = weft_sparse_at(x, i)[dims[d]];
  }
  return weft_sparse_sort(g->keys, x->n, x->rank, &g->order);
}

/* ---- sums and maxima ---- */

static const char *element(const weft_tensor_t *t, int64_t i) {
  return (const char *)t->data + (size_t)i * weft_dtype_size(t->dtype);
}

/* Elements begin to end of the order, folded into *to. Halfs are added up in float. */
static void fold_group(const fold_t *fold, const groups_t *g, const weft_tensor_t *values, int64_t begin,
                       int64_t end, char *to) {
  bool is_half = values->dtype == WEFT_F16 || values->dtype == WEFT_BF16;
  weft_dtype_t wide = is_half ? WEFT_F32 : values->dtype;
  weft_cpu_cast_fn *widen = weft_cpu_cast_loop(values->dtype, wide);
  weft_update_fn *update = weft_update_find(fold->how, wide);
  weft_c128_t sum, next;
  widen(1, element(values, g->order[begin]), &sum);
  for (int64_t i = begin + 1; i < end; i++) {
    widen(1, element(values, g->order[i]), &next);
    update(&sum, &next, 1, false);
  }
  weft_cpu_cast_loop(wide, values->dtype)(1, &sum, to);
}

static weft_status_t *read_axes(const weft_kernel_ctx_t *ctx, const weft_sparse_t *x, groups_t *g) {
  const weft_tensor_t *axes = weft_in(ctx, 3);
  for (int d = 0; d < x->rank; d++) g->is_kept[d] = true;
  for (int64_t i = 0; i < axes->count; i++) {
    int axis;
    if (!weft_cpu_wrap_axis(weft_cpu_int_at(axes, i), x->rank, &axis)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Invalid reduction dimension %" PRId64 ", for input with %d dimensions.",
                        weft_cpu_int_at(axes, i), x->rank);
    }
    g->is_kept[axis] = false;
  }
  return NULL;
}

static weft_status_t *put_dense(weft_kernel_ctx_t *ctx, const weft_sparse_t *x, const groups_t *g,
                                const weft_shape_t *shape) {
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->values->dtype, shape, &out));
  weft_cpu_zero(out);
  for (int64_t begin = 0, end; begin < g->n; begin = end) {
    uint64_t at = 0;
    end = group_end(g, begin);
    for (int d = 0; d < g->num_kept; d++) {
      at = at * (uint64_t)x->dims[g->kept[d]] + (uint64_t)key_of(g, begin)[d];
    }
    if (at >= (uint64_t)out->count) {
      return WEFT_ERROR(
          INTERNAL, "Obtained a write index of %" PRId64 " which is outside of bounds of [0, %" PRId64 ")",
          (int64_t)at, out->count);
    }
    fold_group(ctx->node->param, g, x->values, begin, end,
               (char *)out->data + at * weft_dtype_size(out->dtype));
  }
  return NULL;
}

static weft_status_t *put_sparse(weft_kernel_ctx_t *ctx, const weft_sparse_t *x, const groups_t *g,
                                 const weft_shape_t *shape) {
  int64_t n = 0, *at = NULL;
  weft_tensor_t *out = NULL;
  for (int64_t begin = 0; begin < g->n; begin = group_end(g, begin)) n++;
  WEFT_RETURN_IF_ERROR(weft_sparse_new_indices(ctx, 0, n, shape->rank, &at));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, 1, x->values->dtype, n, &out));
  weft_cpu_zero(ctx->outputs[0].tensor);
  int64_t i = 0;
  for (int64_t begin = 0, end; begin < g->n; begin = end, i++) {
    end = group_end(g, begin);
    for (int d = 0; d < g->num_kept; d++) {
      at[i * shape->rank + (shape->rank == x->rank ? g->kept[d] : d)] = key_of(g, begin)[d];
    }
    fold_group(ctx->node->param, g, x->values, begin, end,
               (char *)out->data + (size_t)i * weft_dtype_size(out->dtype));
  }
  return weft_sparse_put_shape(ctx, 2, shape->dims, shape->rank);
}

WEFT_ATTRS(reduce_compute, (BOOL, keep_dims))
static weft_status_t *reduce_compute(weft_kernel_ctx_t *ctx, const reduce_compute_attrs_t *attrs) {
  weft_sparse_t x;
  weft_shape_t dense, shape = WEFT_SCALAR;
  groups_t g = {.num_kept = 0};
  if (weft_in(ctx, 3)->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected reduction_axes to be a scalar or a vector; got shape: %s",
                      WEFT_SHAPE_TEXT(&weft_in(ctx, 3)->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, &x));
  WEFT_RETURN_IF_ERROR(read_axes(ctx, &x, &g));
  WEFT_RETURN_IF_ERROR(weft_sparse_dense_shape(&x, &dense));
  for (int d = 0; d < x.rank; d++) {
    if (g.is_kept[d] || attrs->keep_dims) shape.dims[shape.rank++] = g.is_kept[d] ? x.dims[d] : 1;
  }
  const fold_t *fold = ctx->node->param;
  weft_status_t *s = group(&x, &g);
  if (s == NULL) s = (fold->is_sparse ? put_sparse : put_dense)(ctx, &x, &g, &shape);
  groups_free(&g);
  return s;
}

/* ---- softmax over the last dimension; the results are in sorted order, wherever the elements were ---- */

static void softmax_group(const groups_t *g, const double *x, int64_t begin, int64_t end, double *y) {
  double largest = x[g->order[begin]], sum = 0;
  for (int64_t i = begin; i < end; i++) {
    if (x[g->order[i]] > largest) largest = x[g->order[i]];
  }
  for (int64_t i = begin; i < end; i++) sum += y[i] = exp(x[g->order[i]] - largest);
  for (int64_t i = begin; i < end; i++) y[i] /= sum;
}

static weft_status_t *softmax_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t x;
  weft_shape_t dense, vector;
  groups_t g = {.num_kept = 0};
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, &x));
  if (x.rank < 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input should have rank >= 2, but received rank %d", x.rank);
  WEFT_RETURN_IF_ERROR(weft_sparse_dense_shape(&x, &dense));
  for (int d = 0; d < x.rank - 1; d++) g.is_kept[d] = true;
  vector = weft_shape_vector(x.n);
  weft_tensor_t *wide = NULL, *out = NULL;
  weft_status_t *s = group(&x, &g);
  if (s == NULL) s = weft_cpu_cast(ctx, x.values, WEFT_F64, &wide);
  if (s == NULL) s = weft_tensor_new(WEFT_F64, &vector, NULL, &out);
  if (s == NULL) {
    for (int64_t begin = 0, end; begin < g.n; begin = end) {
      end = group_end(&g, begin);
      softmax_group(&g, wide->data, begin, end, out->data);
    }
    s = weft_cpu_cast(ctx, out, x.values->dtype, &ctx->outputs[0].tensor);
  }
  groups_free(&g);
  weft_tensor_release(wide);
  weft_tensor_release(out);
  return s;
}

#define REDUCE(op_, types_, how, is_sparse)                                                                \
  {                                                                                                        \
    .op = op_, .type_attr = "T", .types = types_, WEFT_COMPUTE(reduce_compute), .param = &(const fold_t) { \
      how, is_sparse                                                                                       \
    }                                                                                                      \
  }
const weft_kernel_t weft_cpu_sparse_reduce_kernels[] = {
    REDUCE("SparseReduceMax", WEFT_SET_REAL, WEFT_UPDATE_MAX, false),
    REDUCE("SparseReduceMaxSparse", WEFT_SET_REAL, WEFT_UPDATE_MAX, true),
    REDUCE("SparseReduceSum", WEFT_SET_NUMBERS, WEFT_UPDATE_ADD, false),
    REDUCE("SparseReduceSumSparse", WEFT_SET_NUMBERS, WEFT_UPDATE_ADD, true),
    WEFT_KERNEL("SparseSoftmax", "T",
                WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64), NULL,
                softmax_compute, NULL),
    {0},
};
