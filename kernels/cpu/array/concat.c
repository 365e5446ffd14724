/* kernels/cpu/array/concat.c - joining and cutting along an axis: Concat, ConcatV2, Pack, Unpack, Split,
 * SplitV.
 *
 * Seen from the axis every tensor is [outer, axis, inner]; a piece is `outer` runs of axis*inner elements.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/move.h"

enum { SHORT_RUN = 4096 }; /* elements; a longer one may be worth several threads */

/* Copies `count` elements along the axis, `from_at` in a tensor of `from_axis`, to `to_at` in one of
 * `to_axis`. */
static weft_status_t *copy_piece(weft_kernel_ctx_t *ctx, const weft_tensor_t *from, int64_t from_axis,
                                 int64_t from_at, weft_tensor_t *to, int64_t to_axis, int64_t to_at,
                                 int64_t count, int64_t outer, int64_t inner) {
  if (outer == 1 && count * inner <= SHORT_RUN)
    return weft_tensor_copy_elements(to, to_at * inner, from, from_at * inner, count * inner);
  weft_move_t m = {.rank = 2,
                   .dims = {outer, count * inner},
                   .from_strides = {from_axis * inner, 1},
                   .to_strides = {to_axis * inner, 1},
                   .from_base = from_at * inner,
                   .to_base = to_at * inner};
  return weft_move_run(&m, ctx->device->pool, from, to);
}

static weft_status_t *concat(weft_kernel_ctx_t *ctx, int first, int n, const weft_tensor_t *axis_tensor,
                             const char *axis_name) {
  const weft_tensor_t *x = weft_in(ctx, first);
  const int rank = x->shape.rank;
  int at = 0;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_cpu_concat_shape(ctx, first, n, axis_tensor, axis_name, &at, &shape));
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &out));
  if (out->count == 0) return NULL;
  int64_t outer = weft_cpu_product(&shape, 0, at), inner = weft_cpu_product(&shape, at + 1, rank), pos = 0;
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *t = weft_in(ctx, first + i);
    int64_t size = t->shape.dims[at];
    WEFT_RETURN_IF_ERROR(copy_piece(ctx, t, size, 0, out, shape.dims[at], pos, size, outer, inner));
    pos += size;
  }
  return NULL;
}

static weft_status_t *concat_compute(weft_kernel_ctx_t *ctx) {
  return concat(ctx, 1, ctx->node->num_inputs - 1, weft_in(ctx, 0), "concat_dim");
}
static weft_status_t *concat_v2_compute(weft_kernel_ctx_t *ctx) {
  int n = ctx->node->num_inputs - 1;
  return concat(ctx, 0, n, weft_in(ctx, n), "axis");
}

WEFT_ATTRS(pack_compute, (INT, axis))
static weft_status_t *pack_compute(weft_kernel_ctx_t *ctx, const pack_compute_attrs_t *attrs) {
  int n = ctx->node->num_inputs, at = 0;
  const weft_tensor_t *x = weft_in(ctx, 0);
  int64_t axis = attrs->axis;
  int rank = x->shape.rank + 1;
  if (!weft_cpu_wrap_axis(axis, rank, &at)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "axis = %" PRId64 " not in [-%d, %d)", axis, rank, rank);
  }
  if (rank > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "Pack: too many dimensions");
  for (int i = 1; i < n; i++) {
    if (weft_shape_eq(&weft_in(ctx, i)->shape, &x->shape)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Shapes of all inputs must match: values[0].shape = %s != values[%d].shape = %s",
                      WEFT_SHAPE_TEXT(&x->shape), i, WEFT_SHAPE_TEXT(&weft_in(ctx, i)->shape));
  }
  weft_shape_t shape = {.rank = rank};
  for (int d = 0, from = 0; d < rank; d++) shape.dims[d] = d == at ? n : x->shape.dims[from++];
  if (n == 1) return weft_cpu_out_view(ctx, 0, 0, &shape);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &out));
  if (out->count == 0) return NULL;
  int64_t outer = weft_cpu_product(&shape, 0, at), inner = weft_cpu_product(&shape, at + 1, rank);
  for (int i = 0; i < n; i++) {
    WEFT_RETURN_IF_ERROR(copy_piece(ctx, weft_in(ctx, i), 1, 0, out, n, i, 1, outer, inner));
  }
  return NULL;
}

WEFT_ATTRS(unpack_compute, (INT, axis))
static weft_status_t *unpack_compute(weft_kernel_ctx_t *ctx, const unpack_compute_attrs_t *attrs) {
  int n = ctx->node->num_outputs, at = 0;
  weft_tensor_t *x = weft_in(ctx, 0);
  int64_t axis = attrs->axis;
  int rank = x->shape.rank;
  if (!weft_cpu_wrap_axis(axis, rank, &at)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "axis = %" PRId64 " not in [-%d, %d)", axis, rank, rank);
  }
  if (x->shape.dims[at] != n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input shape axis %d must equal %d, got shape %s", at, n,
                      WEFT_SHAPE_TEXT(&x->shape));
  }
  weft_shape_t shape = {.rank = rank - 1};
  for (int d = 0, to = 0; d < rank; d++) {
    if (d != at) shape.dims[to++] = x->shape.dims[d];
  }
  int64_t outer = weft_cpu_product(&x->shape, 0, at), inner = weft_cpu_product(&x->shape, at + 1, rank);
  for (int i = 0; i < n; i++) {
    weft_tensor_t *out = NULL;
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, i, x->dtype, &shape, &out));
    if (out->count == 0) continue;
    WEFT_RETURN_IF_ERROR(copy_piece(ctx, x, n, i, out, 1, 0, 1, outer, inner));
  }
  return NULL;
}

/* Pieces of `sizes` along `at`; along the first dimension a piece shares the input's bytes. */
static weft_status_t *cut(weft_kernel_ctx_t *ctx, weft_tensor_t *x, int at, const int64_t *sizes,
                          int64_t same_size) {
  int n = ctx->node->num_outputs, rank = x->shape.rank;
  int64_t outer = weft_cpu_product(&x->shape, 0, at), inner = weft_cpu_product(&x->shape, at + 1, rank),
          pos = 0;
  for (int i = 0; i < n; i++) {
    int64_t size = sizes == NULL ? same_size : sizes[i];
    weft_shape_t shape = x->shape;
    shape.dims[at] = size;
    weft_tensor_t *out = NULL;
    /* A shared piece must begin on a full vector, else the kernels behind it would be slow. */
    bool aligned = (size_t)(pos * inner) * weft_dtype_size(x->dtype) % WEFT_TENSOR_ALIGNMENT == 0;
    if (at == 0 && aligned && x->count > 0 && weft_dtype_is_plain(x->dtype)) {
      WEFT_RETURN_IF_ERROR(weft_tensor_slice(x, pos, size, &out));
      weft_out_set(ctx, i, out);
    } else {
      WEFT_RETURN_IF_ERROR(weft_out_new(ctx, i, x->dtype, &shape, &out));
      if (out->count > 0) {
        WEFT_RETURN_IF_ERROR(copy_piece(ctx, x, x->shape.dims[at], pos, out, size, 0, size, outer, inner));
      }
    }
    pos += size;
  }
  return NULL;
}

static weft_status_t *split_axis(const weft_tensor_t *dim, const weft_tensor_t *x, int *out) {
  if (dim->count != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "split_dim must be a scalar but has rank %d", dim->shape.rank);
  int64_t axis = weft_cpu_int_at(dim, 0);
  if (weft_cpu_wrap_axis(axis, x->shape.rank, out)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "-input rank(-%d) <= split_dim < input rank (%d), but got %" PRId64,
                    x->shape.rank, x->shape.rank, axis);
}

static weft_status_t *split_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 1);
  int at = 0, n = ctx->node->num_outputs;
  if (n == 1 && weft_in(ctx, 0)->count == 1) { /* all of it, whatever the axis */
    weft_cpu_out_same(ctx, 1, 0);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(split_axis(weft_in(ctx, 0), x, &at));
  int64_t size = x->shape.dims[at];
  if (size % n != 0) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Number of ways to split should evenly divide the split dimension, but got split_dim %d (size = "
        "%" PRId64 ") and num_split %d",
        at, size, n);
  }
  return cut(ctx, x, at, NULL, size / n);
}

/* The sizes of `n` pieces of `size` elements; one may be -1: what is left. */
static weft_status_t *read_sizes(const weft_tensor_t *list, int n, int64_t size, int64_t *sizes) {
  int unknown = -1;
  int64_t sum = 0;
  for (int i = 0; i < n; i++) {
    sizes[i] = weft_cpu_int_at(list, i);
    if (sizes[i] == -1) {
      if (unknown >= 0) return WEFT_ERROR(INVALID_ARGUMENT, "There can only be one -1 in the input.");
      unknown = i;
      continue;
    }
    if (sizes[i] < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Split size at index %d must be >= 0. Got: %" PRId64, i, sizes[i]);
    }
    if (__builtin_add_overflow(sum, sizes[i], &sum)) sum = INT64_MAX;
  }
  if (unknown >= 0 ? sum > size : sum != size) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Determined shape must either match input shape along split_dim exactly if fully specified, or be "
        "less than the size of the input along split_dim if not fully specified.  Got: %" PRId64,
        sum);
  }
  if (unknown >= 0) sizes[unknown] = size - sum;
  return NULL;
}

static weft_status_t *split_v_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *list = weft_in(ctx, 1);
  enum { FEW = 64 };
  int at = 0, n = ctx->node->num_outputs;
  int64_t few[FEW], *sizes = few;
  WEFT_RETURN_IF_ERROR(split_axis(weft_in(ctx, 2), x, &at));
  if (list->shape.rank != 1 || list->count != n) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "shape of tensor describing the output must have dimension 1 and the same number of "
                      "elements as the output. Got %d-D and %" PRId64 " elements",
                      list->shape.rank, list->count);
  }
  if (n > FEW) sizes = weft_calloc((size_t)n, sizeof *sizes);
  if (sizes == NULL) return WEFT_NO_MEMORY("SplitV");
  weft_status_t *s = read_sizes(list, n, x->shape.dims[at], sizes);
  if (s == NULL) s = cut(ctx, x, at, sizes, 0);
  if (sizes != few) weft_free(sizes);
  return s;
}

const weft_kernel_t weft_cpu_concat_kernels[] = {
    WEFT_KERNEL("Concat", NULL, 0, NULL, concat_compute, NULL),
    WEFT_KERNEL("ConcatV2", NULL, 0, NULL, concat_v2_compute, NULL),
    WEFT_KERNEL_ATTRS("Pack", NULL, 0, pack_compute),
    WEFT_KERNEL("Split", NULL, 0, NULL, split_compute, NULL),
    WEFT_KERNEL("SplitV", NULL, 0, NULL, split_v_compute, NULL),
    WEFT_KERNEL_ATTRS("Unpack", NULL, 0, unpack_compute),
    {0},
};
