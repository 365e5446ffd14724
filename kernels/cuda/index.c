/* kernels/cuda/index.c - rows of Gather, GatherV2, GatherNd, OneHot, ScatterNd, TensorScatter, of gathers out
 * of variables and scatters into them, and of UnsortedSegment. */
#include "kernels/cuda/index.h"

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/move.h"

WEFT_CUDA_SIZES(gather_functions, gather)
WEFT_CUDA_SIZES(gather_nd_functions, gather_nd)
WEFT_CUDA_SIZES(one_hot_functions, one_hot)
WEFT_CUDA_SIZES(put_functions, scatter_put)
WEFT_CUDA_INSTANCES(add_instances, scatter_add, FLOAT_INDEX)
WEFT_CUDA_INSTANCES(fold_instances, scatter_fold, FLOAT_INDEX)
WEFT_CUDA_INSTANCES(start_instances, fold_start, FLOAT_INDEX)

/* ---- Gather, GatherV2 ---- */

/* A wider element where pieces are whole numbers of them. */
static size_t widen(size_t size, int64_t *inner, const void *x, const void *y) {
  size_t wide = 16;
  for (; wide > size; wide /= 2) {
    const int64_t by = (int64_t)(wide / size);
    if (*inner % by != 0 || (uintptr_t)x % wide != 0 || (uintptr_t)y % wide != 0) continue;
    *inner /= by;
    break;
  }
  return wide;
}

static WEFT_Failure *gather_along(WEFT_KernelContext *c, int axis, int batch_dims) {
  WEFT_TensorView x, indices, y;
  int64_t dims[WEFT_CUDA_DIMS];
  int rank = 0;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &indices);
  if (x.rank - 1 + indices.rank - batch_dims > WEFT_CUDA_DIMS)
    return WEFT_CUDA_INVALID("gather: the result has too many dimensions");
  for (int d = 0; d < axis; d++) dims[rank++] = x.dims[d];
  for (int d = batch_dims; d < indices.rank; d++) dims[rank++] = indices.dims[d];
  for (int d = axis + 1; d < x.rank; d++) dims[rank++] = x.dims[d];
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, dims, &y));
  if (y.count == 0) return NULL;
  int64_t outer = weft_cuda_product(x.dims, batch_dims, axis), size = x.dims[axis];
  int64_t n = weft_cuda_product(indices.dims, batch_dims, indices.rank);
  int64_t inner = weft_cuda_product(x.dims, axis + 1, x.rank);
  int32_t index_bytes = (int32_t)weft_cuda_size(indices.dtype);
  const int64_t pieces = y.count / inner;
  const size_t wide = widen(weft_cuda_size(x.dtype), &inner, x.data, y.data);
  int64_t count = pieces * inner;
  void *args[] = {&x.data, &indices.data, &index_bytes, &y.data, &outer, &n, &size, &inner, &count};
  return weft_cuda_launch_over(c, &gather_functions[__builtin_ctz((unsigned)wide)], count, 1, args);
}

static WEFT_Failure *gather(WEFT_KernelContext *c) {
  WEFT_TensorView x;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank < 1) return WEFT_CUDA_INVALID("params must be at least 1 dimensional");
  return gather_along(c, 0, 0);
}

static WEFT_Failure *batch_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  int64_t batch_dims = 0;
  (void)param;
  weft_cuda_host->attr_int(s, "batch_dims", &batch_dims);
  *out = (void *)(intptr_t)batch_dims;
  return NULL;
}

static WEFT_Failure *gather_v2(WEFT_KernelContext *c) {
  WEFT_TensorView x, indices, axis;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &indices);
  weft_cuda_host->input(c, 2, &axis);
  int64_t batch = (intptr_t)weft_cuda_host->state(c);
  if (x.rank < 1) return WEFT_CUDA_INVALID("params must be at least 1 dimensional");
  if (axis.count != 1) return WEFT_CUDA_INVALID("axis must be scalar");
  const int64_t given = weft_cuda_int_at(&axis, 0), at = given < 0 ? given + x.rank : given;
  if (at < 0 || at >= x.rank) {
    return WEFT_CUDA_INVALID("Shape must be at least rank %lld but is rank %d",
                             (long long)(given < 0 ? -given : given + 1), x.rank);
  }
  if (batch < -indices.rank || batch > indices.rank) {
    return WEFT_CUDA_INVALID("Expected batch_dims in the range [%d, %d], but got %lld", -indices.rank,
                             indices.rank, (long long)batch);
  }
  if (batch < 0) batch += indices.rank;
  if (batch >= x.rank) {
    return WEFT_CUDA_INVALID("batch_dims (%lld) must be less than rank(params) (%d).", (long long)batch,
                             x.rank);
  }
  if (at < batch) {
    return WEFT_CUDA_INVALID("batch_dims (%lld) must be less than or equal to axis (%lld).", (long long)batch,
                             (long long)at);
  }
  for (int d = 0; d < (int)batch; d++) {
    if (x.dims[d] == indices.dims[d]) continue;
    return WEFT_CUDA_INVALID("params.shape[%d]: %lld should be equal to indices.shape[%d]: %lld", d,
                             (long long)x.dims[d], d, (long long)indices.dims[d]);
  }
  return gather_along(c, (int)at, (int)batch);
}

/* Of a variable. Its rank and the indices' are known to fit only here. */
static WEFT_Failure *resource_gather(WEFT_KernelContext *c) {
  WEFT_TensorView x, indices;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &indices);
  int64_t batch = (intptr_t)weft_cuda_host->state(c);
  if (batch < 0) batch += indices.rank;
  if (x.rank < 1) return WEFT_CUDA_INVALID("params must be at least 1 dimensional");
  if (batch < 0 || batch > indices.rank || batch >= x.rank) {
    return WEFT_CUDA_INVALID("batch_dims %lld is not in the range of indices %s and params %s",
                             (long long)batch, WEFT_CUDA_SHAPE(&indices), WEFT_CUDA_SHAPE(&x));
  }
  for (int d = 0; d < (int)batch; d++) {
    if (x.dims[d] == indices.dims[d]) continue;
    return WEFT_CUDA_INVALID("params.shape[%d] should be equal to indices.shape[%d]: %s and %s", d, d,
                             WEFT_CUDA_SHAPE(&indices), WEFT_CUDA_SHAPE(&x));
  }
  return gather_along(c, (int)batch, (int)batch);
}

/* ---- GatherNd ---- */

/* Pieces of x, of `inner` elements, at the places that rows of the indices name. */
static WEFT_Failure *read_places(const WEFT_TensorView *x, const WEFT_TensorView *indices,
                                 weft_cuda_scatter_t *s) {
  if (x->rank < 1) return WEFT_CUDA_INVALID("params must be at least a vector");
  if (indices->rank < 1) return WEFT_CUDA_INVALID("indices must be at least a vector");
  const int64_t depth = indices->dims[indices->rank - 1];
  if (depth > x->rank) {
    return WEFT_CUDA_INVALID("index innermost dimension length must be <= params rank; saw: %lld vs. %d",
                             (long long)depth, x->rank);
  }
  *s = (weft_cuda_scatter_t){.indices = indices->data,
                             .num = weft_cuda_product(indices->dims, 0, indices->rank - 1),
                             .inner = weft_cuda_product(x->dims, (int)depth, x->rank),
                             .depth = (int32_t)depth,
                             .index_bytes = (int32_t)weft_cuda_size(indices->dtype)};
  for (int d = 0; d < depth; d++) s->dims[d] = x->dims[d];
  return NULL;
}

static WEFT_Failure *gather_nd(WEFT_KernelContext *c) {
  WEFT_TensorView x, indices, y;
  weft_cuda_scatter_t s;
  int64_t dims[WEFT_CUDA_DIMS];
  int rank = 0;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &indices);
  WEFT_CUDA_TRY(read_places(&x, &indices, &s));
  if (indices.rank - 1 + x.rank - s.depth > WEFT_CUDA_DIMS)
    return WEFT_CUDA_INVALID("GatherNd: the result has too many dimensions");
  for (int d = 0; d < indices.rank - 1; d++) dims[rank++] = indices.dims[d];
  for (int d = s.depth; d < x.rank; d++) dims[rank++] = x.dims[d];
  if (s.num > 0 && x.count == 0) {
    return WEFT_CUDA_INVALID("Requested more than 0 entries, but params is empty.  Params shape: %s",
                             WEFT_CUDA_SHAPE(&x));
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, dims, &y));
  void *args[] = {&x.data, &y.data, &s};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(gather_nd_functions, x.dtype), y.count, 1, args);
}

/* ---- OneHot ---- */

static WEFT_Failure *axis_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  int64_t axis = -1;
  (void)param;
  weft_cuda_host->attr_int(s, "axis", &axis);
  *out = (void *)(intptr_t)axis;
  return NULL;
}

static WEFT_Failure *one_hot(WEFT_KernelContext *c) {
  WEFT_TensorView indices, on, off, y;
  weft_cuda_host->input(c, 0, &indices);
  weft_cuda_host->input(c, 2, &on);
  weft_cuda_host->input(c, 3, &off);
  if (on.rank != 0) return WEFT_CUDA_INVALID("on_value must be a scalar, but got: %s", WEFT_CUDA_SHAPE(&on));
  if (off.rank != 0)
    return WEFT_CUDA_INVALID("off_value must be a scalar, but got: %s", WEFT_CUDA_SHAPE(&off));
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  if (y.count == 0) return NULL;
  const int64_t axis = (intptr_t)weft_cuda_host->state(c);
  const int at = axis < 0 ? indices.rank : (int)axis;
  int64_t depth = y.dims[at], inner = weft_cuda_product(y.dims, at + 1, y.rank), count = y.count;
  int32_t index_bytes = (int32_t)weft_cuda_size(indices.dtype);
  void *args[] = {&indices.data, &index_bytes, &on.data, &off.data, &y.data, &depth, &inner, &count};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(one_hot_functions, y.dtype), count, 1, args);
}

/* ---- scatters ---- */

static const int is_add = WEFT_CUDA_FOLD_ADD, is_sub = WEFT_CUDA_FOLD_SUB, is_mul = WEFT_CUDA_FOLD_MUL,
                 is_div = WEFT_CUDA_FOLD_DIV, is_min = WEFT_CUDA_FOLD_MIN, is_max = WEFT_CUDA_FOLD_MAX,
                 is_put = WEFT_CUDA_PUT;
static int kind_of(const WEFT_KernelContext *c) { return *(const int *)weft_cuda_host->param(c); }

/* Complex numbers are added as twice as many real ones. */
static WEFT_Failure *take_apart(WEFT_KernelContext *c, int *dtype, const void **updates,
                                weft_cuda_scatter_t *s) {
  const int64_t n = s->num * s->inner;
  if (weft_cuda_part_type(*dtype) == *dtype || n == 0) return NULL;
  if (s->is_scalar != 0) {
    void *all = NULL;
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)n * weft_cuda_size(*dtype), &all));
    WEFT_CUDA_TRY(weft_cuda_repeat(c, *dtype, *updates, all, n));
    *updates = all;
    s->is_scalar = 0;
  }
  *dtype = weft_cuda_part_type(*dtype);
  s->inner *= 2;
  return NULL;
}

WEFT_Failure *weft_cuda_scatter(WEFT_KernelContext *c, int kind, int dtype, const void *updates, void *y,
                                weft_cuda_scatter_t *s) {
  if (kind != WEFT_CUDA_PUT) WEFT_CUDA_TRY(take_apart(c, &dtype, &updates, s));
  void *args[] = {&updates, &y, s};
  weft_cuda_function_t *f = kind == WEFT_CUDA_PUT ? weft_cuda_pick_size(put_functions, dtype)
                            : kind == WEFT_CUDA_FOLD_ADD || kind == WEFT_CUDA_FOLD_SUB
                                ? weft_cuda_pick(&add_instances, dtype)
                                : weft_cuda_pick(&fold_instances, dtype);
  s->how = kind;
  return weft_cuda_launch_over(c, f, s->num * s->inner, 1, args);
}

/* Where updates of a tensor go. The last dimension of the indices names a place; a vector of them names a row
 * each. The texts are those of the CPU's kernels. */
static WEFT_Failure *update_places(const WEFT_TensorView *x, const WEFT_TensorView *indices,
                                   const WEFT_TensorView *updates, weft_cuda_scatter_t *s) {
  if (indices->rank < 1) {
    return WEFT_CUDA_INVALID("Indices shape must have rank at least one. Found:%s", WEFT_CUDA_SHAPE(indices));
  }
  if (updates->rank < 1) {
    return WEFT_CUDA_INVALID("Updates shape must have rank at least one. Found:%s", WEFT_CUDA_SHAPE(updates));
  }
  const int outer = indices->rank > 1 ? indices->rank - 1 : 1;
  const int64_t depth = indices->rank > 1 ? indices->dims[outer] : 1;
  bool fits = updates->rank >= outer;
  for (int d = 0; fits && d < outer; d++) fits = indices->dims[d] == updates->dims[d];
  if (!fits) {
    return WEFT_CUDA_INVALID(
        "Dimensions [0,%d) of indices[shape=%s] must match dimensions [0,%d) of updates[shape=%s]", outer,
        WEFT_CUDA_SHAPE(indices), outer, WEFT_CUDA_SHAPE(updates));
  }
  fits = depth <= x->rank && updates->rank - outer == x->rank - (int)depth;
  for (int d = 0; fits && d < updates->rank - outer; d++)
    fits = updates->dims[outer + d] == x->dims[(int)depth + d];
  if (!fits) {
    return WEFT_CUDA_INVALID(
        "Dimensions [%lld,%d) of input[shape=%s] must match dimensions [%d,%d) of updates[shape=%s]",
        (long long)depth, x->rank, WEFT_CUDA_SHAPE(x), outer, updates->rank, WEFT_CUDA_SHAPE(updates));
  }
  *s = (weft_cuda_scatter_t){.indices = indices->data,
                             .num = weft_cuda_product(indices->dims, 0, outer),
                             .inner = weft_cuda_product(x->dims, (int)depth, x->rank),
                             .depth = (int32_t)depth,
                             .index_bytes = (int32_t)weft_cuda_size(indices->dtype)};
  for (int d = 0; d < depth; d++) s->dims[d] = x->dims[d];
  return NULL;
}

static WEFT_Failure *scatter_nd(WEFT_KernelContext *c) {
  WEFT_TensorView indices, updates, y;
  weft_cuda_scatter_t s;
  weft_cuda_host->input(c, 0, &indices);
  weft_cuda_host->input(c, 1, &updates);
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  if (y.count == 0 && updates.count > 0) {
    return WEFT_CUDA_INVALID("Indices and updates specified for empty output.  indices shape: %s",
                             WEFT_CUDA_SHAPE(&indices));
  }
  WEFT_CUDA_TRY(update_places(&y, &indices, &updates, &s));
  if (y.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes));
  return weft_cuda_scatter(c, WEFT_CUDA_FOLD_ADD, y.dtype, updates.data, y.data, &s);
}

static WEFT_Failure *segment(WEFT_KernelContext *c) {
  const int kind = kind_of(c);
  WEFT_TensorView data, ids, y;
  weft_cuda_host->input(c, 0, &data);
  weft_cuda_host->input(c, 1, &ids);
  bool fits = ids.rank <= data.rank;
  for (int d = 0; fits && d < ids.rank; d++) fits = ids.dims[d] == data.dims[d];
  if (!fits) {
    return WEFT_CUDA_INVALID("data.shape = %s does not start with segment_ids.shape = %s",
                             WEFT_CUDA_SHAPE(&data), WEFT_CUDA_SHAPE(&ids));
  }
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  if (y.count == 0) return NULL;
  if (kind == WEFT_CUDA_FOLD_ADD) {
    WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes));
  } else {
    int32_t how = kind;
    void *args[] = {&y.data, &how, &y.count};
    WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(&start_instances, y.dtype), y.count, 4, args));
  }
  weft_cuda_scatter_t s = {.indices = ids.data,
                           .num = ids.count,
                           .inner = weft_cuda_product(data.dims, ids.rank, data.rank),
                           .dims = {y.dims[0]},
                           .depth = 1,
                           .index_bytes = (int32_t)weft_cuda_size(ids.dtype)};
  return weft_cuda_scatter(c, kind, y.dtype, data.data, y.data, &s);
}

/* TensorScatter: in the bytes of the tensor if nothing else needs them. */
static WEFT_Failure *scatter_tensor(WEFT_KernelContext *c) {
  WEFT_TensorView x, indices, updates, y;
  weft_cuda_scatter_t s;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &indices);
  weft_cuda_host->input(c, 2, &updates);
  const void *from = x.data;
  const int dtype = x.dtype;
  if (x.count == 0 && updates.count > 0)
    return WEFT_CUDA_INVALID("Indices and updates specified for empty output");
  if (x.rank < 1) return WEFT_CUDA_INVALID("Output must be at least 1-D, got shape: %s", WEFT_CUDA_SHAPE(&x));
  WEFT_CUDA_TRY(update_places(&x, &indices, &updates, &s));
  WEFT_CUDA_TRY(weft_cuda_output_like(c, 0, 0, &y));
  if (y.count == 0) return NULL;
  if (y.data != from) WEFT_CUDA_TRY(weft_cuda_copy(c, y.data, from, y.bytes));
  return weft_cuda_scatter(c, kind_of(c), dtype, updates.data, y.data, &s);
}

/* Are `n` dimensions of `a`, from a_begin on, those of `b` from b_begin on? */
static bool are_dims(const WEFT_TensorView *a, int a_begin, const WEFT_TensorView *b, int b_begin, int n) {
  for (int i = 0; i < n; i++) {
    if (a->dims[a_begin + i] != b->dims[b_begin + i]) return false;
  }
  return true;
}

static WEFT_Failure *scatter_variable(WEFT_KernelContext *c, bool is_reference) {
  WEFT_TensorView var, indices, updates;
  weft_cuda_host->input(c, 0, &var);
  weft_cuda_host->input(c, 1, &indices);
  weft_cuda_host->input(c, 2, &updates);
  if (var.rank < 1)
    return WEFT_CUDA_INVALID("params must be at least 1-D, got shape %s", WEFT_CUDA_SHAPE(&var));
  weft_cuda_scatter_t s = {.indices = indices.data,
                           .num = indices.count,
                           .inner = weft_cuda_product(var.dims, 1, var.rank),
                           .dims = {var.dims[0]},
                           .depth = 1,
                           .index_bytes = (int32_t)weft_cuda_size(indices.dtype),
                           .is_scalar = updates.rank == 0};
  const bool has_rank = updates.rank == indices.rank + var.rank - 1;
  if (s.is_scalar || (has_rank && s.num == 0 && !is_reference)) /* of no rows the shapes are not looked at */
    return weft_cuda_scatter(c, kind_of(c), var.dtype, updates.data, var.data, &s);
  const bool is_prefix = has_rank && are_dims(&updates, 0, &indices, 0, indices.rank);
  if (has_rank && !is_prefix && !is_reference) {
    return WEFT_CUDA_INVALID("The shape of indices (%s) must be a prefix of the shape of updates (%s)",
                             WEFT_CUDA_SHAPE(&indices), WEFT_CUDA_SHAPE(&updates));
  }
  if (!is_prefix || !are_dims(&updates, indices.rank, &var, 1, var.rank - 1)) {
    return WEFT_CUDA_INVALID(
        "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape "
        "%s, indices.shape %s, params.shape %s",
        WEFT_CUDA_SHAPE(&updates), WEFT_CUDA_SHAPE(&indices), WEFT_CUDA_SHAPE(&var));
  }
  return weft_cuda_scatter(c, kind_of(c), var.dtype, updates.data, var.data, &s);
}

static WEFT_Failure *scatter_reference(WEFT_KernelContext *c) { return scatter_variable(c, true); }
static WEFT_Failure *scatter_resource(WEFT_KernelContext *c) { return scatter_variable(c, false); }

static WEFT_Failure *scatter_nd_variable(WEFT_KernelContext *c) {
  enum { MOST = 7 }; /* dimensions that a place names, as in TensorFlow */
  WEFT_TensorView var, indices, updates;
  weft_cuda_scatter_t s;
  weft_cuda_host->input(c, 0, &var);
  weft_cuda_host->input(c, 1, &indices);
  weft_cuda_host->input(c, 2, &updates);
  const bool is_nothing = indices.count == 0 && updates.count == 0;
  if (indices.rank > 0 && !is_nothing && (var.count == 0 || indices.count == 0 || updates.count == 0)) {
    return WEFT_CUDA_INVALID("Indices and updates specified for empty output.  indices shape: %s",
                             WEFT_CUDA_SHAPE(&indices));
  }
  WEFT_CUDA_TRY(update_places(&var, &indices, &updates, &s));
  if (var.count == 0) return NULL;
  if (s.depth < 1 || s.depth > MOST) {
    return WEFT_CUDA_INVALID(
        "Only indices.shape[-1] values between 1 and 5 are currently supported.  Requested rank: %d",
        (int)s.depth);
  }
  return weft_cuda_scatter(c, kind_of(c), var.dtype, updates.data, var.data, &s);
}

enum { SECOND = 2, THIRD = 4 };
#define SCATTER(op_, attr, types_, fn, kind) \
  { .op = op_, .type_attr = attr, .types = types_, .compute = fn, .param = &kind, .updates = 1 }
#define BOTH(word, types_, kind)                                            \
  SCATTER("ResourceScatter" word, "dtype", types_, scatter_resource, kind), \
      SCATTER("Scatter" word, "T", types_, scatter_reference, kind)
#define ND(op_, types_, kind)                                                                     \
  {                                                                                               \
    .op = op_, .type_attr = "T", .types = types_, .compute = scatter_nd_variable, .param = &kind, \
    .updates = 1                                                                                  \
  }
#define BOTH_ND(word, types_, kind) \
  ND("ResourceScatterNd" word, types_, kind), ND("ScatterNd" word, types_, kind)
#define SEGMENT(op_, types_, kind) \
  { .op = op_, .type_attr = "T", .types = types_, .compute = segment, .param = &kind, .host_inputs = THIRD }
#define FOLDED WEFT_CUDA_SET(FLOAT_INDEX)
#define ADDED (FOLDED | WEFT_CUDA_SET(COMPLEX))
#define TENSOR(op_, types_, kind) \
  { .op = op_, .type_attr = "T", .types = types_, .compute = scatter_tensor, .param = &kind }
const WEFT_DeviceKernel weft_cuda_index_kernels[] = {
    {.op = "Gather", .type_attr = "Tparams", .types = WEFT_CUDA_PLAIN, .compute = gather},
    {.op = "GatherV2",
     .type_attr = "Tparams",
     .types = WEFT_CUDA_PLAIN,
     .prepare = batch_prepare,
     .compute = gather_v2,
     .host_inputs = THIRD},
    {.op = "GatherNd", .type_attr = "Tparams", .types = WEFT_CUDA_PLAIN, .compute = gather_nd},
    {.op = "OneHot",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN,
     .prepare = axis_prepare,
     .compute = one_hot,
     .host_inputs = SECOND},
    {.op = "ResourceGather",
     .type_attr = "dtype",
     .types = WEFT_CUDA_PLAIN,
     .prepare = batch_prepare,
     .compute = resource_gather,
     .reads_variable = 1},
    {.op = "ResourceGatherNd",
     .type_attr = "dtype",
     .types = WEFT_CUDA_PLAIN,
     .compute = gather_nd,
     .reads_variable = 1},
    BOTH("Add", ADDED, is_add),
    BOTH("Div", FOLDED, is_div),
    BOTH("Max", FOLDED, is_max),
    BOTH("Min", FOLDED, is_min),
    BOTH("Mul", FOLDED, is_mul),
    BOTH("Sub", ADDED, is_sub),
    BOTH("Update", WEFT_CUDA_PLAIN, is_put),
    BOTH_ND("Add", ADDED, is_add),
    BOTH_ND("Max", FOLDED, is_max),
    BOTH_ND("Min", FOLDED, is_min),
    BOTH_ND("Sub", ADDED, is_sub),
    BOTH_ND("Update", WEFT_CUDA_PLAIN, is_put),
    {.op = "ScatterNd", .type_attr = "T", .types = ADDED, .compute = scatter_nd, .host_inputs = THIRD},
    TENSOR("ScatterNdNonAliasingAdd", ADDED, is_add),
    TENSOR("TensorScatterAdd", ADDED, is_add),
    TENSOR("TensorScatterMax", FOLDED, is_max),
    TENSOR("TensorScatterMin", FOLDED, is_min),
    TENSOR("TensorScatterSub", ADDED, is_sub),
    TENSOR("TensorScatterUpdate", WEFT_CUDA_PLAIN, is_put),
    SEGMENT("UnsortedSegmentMax", FOLDED, is_max),
    SEGMENT("UnsortedSegmentMin", FOLDED, is_min),
    SEGMENT("UnsortedSegmentProd", FOLDED, is_mul),
    SEGMENT("UnsortedSegmentSum", ADDED, is_add),
    {0},
};
